// SPDX-License-Identifier: Apache-2.0
/*
 * See suggest.h: one denial becomes a proposal or a reason why there is none. What no policy opens, what acts on others, and what
 * holds secrets is never proposed; nor is anything that is wider than what was tried, except the directory of a file that was to
 * be made. Everything of a record is foreign text.
 */
#include <arpa/inet.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "cordon/decide.h"
#include "cordon/suggest.h"
#include "policy/secrets.h"
#include "reach/reach.h"

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* Not proposed. value: foreign bytes. */
static void refuse(struct suggest *suggest, const struct event_record *record, const char *value,
		   const char *why)
{
	char shown[SUGGEST_SHOWN_SIZE];
	struct suggest_denied *denied = suggest_note(suggest, record, SUGGEST_KEYS_N,
						     suggest_show(value ? value : "", shown));

	if (denied)
		suggest_say(suggest, &denied->why, "%s", why);
}

/* Letters, digits and a few marks: a text that is itself in YAML, in brackets and out of them. */
static bool is_plain(const char *text, const char *marks)
{
	for (const char *p = text; *p; p++)
		if (!((*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z') ||
		      (*p >= 'a' && *p <= 'z') || strchr(marks, *p)))
			return false;
	return *text != '\0';
}

/* As a YAML scalar: with quotes where it needs them. text: printable ASCII. */
static void item_quote(struct suggest *suggest, struct suggest_denied *denied, const char *text)
{
	char quoted[2 * SUGGEST_VALUE_MAX], *p = quoted;

	/* A dot makes it a word that is neither a number nor a truth. */
	if ((text[0] == '/' || (text[0] >= 'A' && strchr(text, '.'))) && is_plain(text, "._-/")) {
		suggest_say(suggest, &denied->item, "%s", text);
		return;
	}
	for (; *text && p < quoted + sizeof(quoted) - 2; text++) {
		if (strchr("\"\\", *text))
			*p++ = '\\';
		*p++ = *text;
	}
	*p = '\0';
	suggest_say(suggest, &denied->item, "\"%s\"", quoted);
}

/* --- names ------------------------------------------------------------------------------------- */

/* Names that clouds give their metadata service. */
static bool is_metadata_name(const char *name)
{
	static const char *const names[] = { "metadata", "instance-data", "metadata.goog" };
	static const char *const ends[] = {
		"metadata.google.internal", "instance-data.ec2.internal",
		"metadata.azure.internal",  "metadata.goog.internal",
		"metadata.tencentyun.com",  "metadata.platformequinix.com"
	};
	size_t n = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t m = strlen(ends[i]);

		if (n >= m && !strcmp(name + n - m, ends[i]) && (n == m || name[n - m - 1] == '.'))
			return true;
	}
	return false;
}

/* Names that are used inside of nets only. */
static bool is_inside_name(const char *name)
{
	static const char *const ends[] = { ".internal", ".local",    ".lan",
					    ".corp",	 ".intranet", ".home.arpa",
					    ".home",	 ".private",  ".localdomain" };
	size_t n = strlen(name);

	if (!strchr(name, '.'))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (n > strlen(ends[i]) && !strcmp(name + n - strlen(ends[i]), ends[i]))
			return true;
	return false;
}

/* Rule gateway.domain, by the proxy (with a port) or the resolver. */
static void judge_domain(struct suggest *suggest, const struct event_record *record,
			 const json_t *gateway)
{
	const char *object = text_of(gateway, "object"), *reason = text_of(gateway, "reason"), *why;
	bool port = !strcmp(text_of(record->root, "op"), "reach");
	struct reach_target target = { .port = 0 };
	struct suggest_denied *denied;
	char value[REACH_NAME_MAX + 8];
	int r;

	if (strncmp(reason, "domain_denied", 13) != 0 && strncmp(reason, "port_denied", 11) != 0)
		return refuse(
			suggest, record, object,
			"the name is not what is wrong with it: see gateway.reason in its event");
	r = port ? reach_target_read(object, strlen(object), 0, &target, &why)
		 : reach_name_read(object, strlen(object), true, &target.name, &why);
	if (r || (port && !target.port))
		return refuse(suggest, record, object, "it is no name that network.domains takes");
	if (is_metadata_name(target.name.s))
		return refuse(suggest, record, object,
			      "it is the metadata service, which is never opened");
	snprintf(value, sizeof(value), target.port ? "%s:%u" : "%s", target.name.s, target.port);
	denied = suggest_note(suggest, record, SUGGEST_DOMAINS, value);
	if (!denied)
		return;
	item_quote(suggest, denied, value);
	denied->warning = is_inside_name(target.name.s);
	suggest_say(suggest, &denied->reach,
		    "%s%s, by the gateway's proxy: 1 name, with whatever address it has%s",
		    port ? "port " : "ports 80 and 443", port ? value + target.name.n + 1 : "",
		    denied->warning ? "\nWARNING: a name of a private net: whoever runs that net "
				      "decides who answers"
				    : "");
}

/* --- addresses --------------------------------------------------------------------------------- */

static bool address_read(const char *text, struct cordon_addr *ret)
{
	static const __u8 mapped[12] = { [10] = 0xff, 0xff };

	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, text, ret->b + 12) == 1)
		return true;
	if (inet_pton(AF_INET6, text, ret->b) != 1)
		return false;
	ret->v6 = memcmp(ret->b, mapped, sizeof(mapped)) != 0;
	if (!ret->v6)
		memset(ret->b, 0, 12);
	return true;
}

/* Metadata services beyond those that the kernel side shuts: of ranges that have another use, too. */
static bool is_metadata_address(const struct cordon_addr *addr)
{
	static const __u8 alibaba[4] = { 100, 100, 100, 200 };

	return decide_is_metadata(addr) || (!addr->v6 && !memcmp(addr->b + 12, alibaba, 4));
}

/* Why an address is not proposed; NULL: it may be. *ret_private: with a warning. */
static const char *address_judge(const struct cordon_addr *addr, bool *ret_private)
{
	const struct reach_range *range = reach_range_of(addr);

	*ret_private = range != NULL;
	if (is_metadata_address(addr))
		return "it is the metadata service, which is never opened";
	if (!range || !strcmp(range->name, "private") || !strcmp(range->name, "shared"))
		return NULL;
	if (!strcmp(range->name, "loopback"))
		return "who listens there are services of this host";
	return "its range is not for hosts, or serves metadata, or embeds another address";
}

static void allow_note(struct suggest *suggest, const struct event_record *record, const char *dst,
		       const char *proto, unsigned int port)
{
	char value[INET6_ADDRSTRLEN + 32], text[INET6_ADDRSTRLEN];
	struct suggest_denied *denied;
	struct cordon_addr addr;
	const char *why;
	bool private;

	if (!address_read(dst, &addr) || !port || port > 65535)
		return refuse(suggest, record, dst, "it is no address and port");
	if (strcmp(proto, "tcp") != 0 && strcmp(proto, "udp") != 0)
		return refuse(suggest, record, dst, "network.allow takes TCP and UDP");
	if (port == 53)
		return refuse(suggest, record, dst,
			      "a resolver carries data out: say network.dns: gateway, and names in "
			      "network.domains");
	why = address_judge(&addr, &private);
	if (why)
		return refuse(suggest, record, dst, why);
	inet_ntop(addr.v6 ? AF_INET6 : AF_INET, addr.v6 ? addr.b : addr.b + 12, text, sizeof(text));
	snprintf(value, sizeof(value), addr.v6 ? "[%s]:%u %s" : "%s:%u %s", text, port, proto);
	denied = suggest_note(suggest, record, SUGGEST_ALLOW, value);
	if (!denied)
		return;
	denied->warning = private;
	suggest_say(suggest, &denied->item, "{to: \"%s\", port: %u, proto: %s}", text, port, proto);
	suggest_say(suggest, &denied->reach,
		    "1 %s address, past the gateway: what goes there, nobody records%s",
		    private ? "private" : "public",
		    private ? "\nWARNING: a private net: who listens there trusts whoever is "
			      "inside of it"
			    : "");
}

static void judge_net(struct suggest *suggest, const struct event_record *record, const json_t *net)
{
	json_int_t port = json_integer_value(json_object_get(net, "dport"));

	if (json_is_true(json_object_get(net, "metadata")))
		return refuse(suggest, record, text_of(net, "dst"),
			      "it is the metadata service, which is never opened");
	allow_note(suggest, record, text_of(net, "dst"), text_of(net, "proto"),
		   port > 0 && port < 65536 ? (unsigned int)port : 0);
}

/* Rule gateway.address: the name is allowed, and leads where only network.allow could let it. */
static void judge_address(struct suggest *suggest, const struct event_record *record,
			  const json_t *gateway)
{
	const char *address = text_of(gateway, "address"), *colon = strrchr(address, ':');
	char dst[INET6_ADDRSTRLEN] = "";
	size_t n;

	if (strstr(text_of(gateway, "reason"), "`own`"))
		return refuse(suggest, record, address, "it is an address of this host");
	if (strcmp(text_of(record->root, "op"), "reach") != 0 || !colon)
		return refuse(suggest, record, text_of(gateway, "object"),
			      "the name leads to an address that is not public");
	n = (size_t)(colon - address);
	if (address[0] == '[' && n > 2 && address[n - 1] == ']') {
		address++;
		n -= 2;
	}
	if (n < sizeof(dst))
		memcpy(dst, address, n);
	allow_note(suggest, record, dst, "tcp", (unsigned int)strtoul(colon + 1, NULL, 10));
}

/* --- files ------------------------------------------------------------------------------------- */

static int hex(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Neither an empty component nor one of dots: what a policy takes for another path than it seems to be. */
static bool is_canonical(const char *path)
{
	while (*path == '/') {
		size_t n = strcspn(path + 1, "/");

		if (n == 0 || (n == 1 && path[1] == '.') || (n == 2 && !strncmp(path + 1, "..", 2)))
			return false;
		path += n + 1;
	}
	return true;
}

/* Undoes the escapes of docs/events.md. False: it is no text that could be a path of a policy. */
static bool path_read(const char *text, char ret[SUGGEST_VALUE_MAX])
{
	size_t n = 0;

	if (text[0] != '/' || !text[1])
		return false;
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '\\' && text[1] == '\\') {
			text++;
		} else if (c == '\\') {
			if (text[1] != 'x' || hex(text[2]) < 0 || hex(text[3]) < 0)
				return false;
			c = (unsigned char)(hex(text[2]) * 16 + hex(text[3]));
			text += 3;
		}
		/* Others cannot be told apart by who reads the proposal. */
		if (c < ' ' || c > '~' || n + 1 == SUGGEST_VALUE_MAX)
			return false;
		ret[n++] = (char)c;
	}
	ret[n] = '\0';
	return !strstr(ret, "[redacted]") && is_canonical(ret);
}

static bool is_within(const char *path, const char *root)
{
	size_t n = root ? strlen(root) : 0;

	return n && !strncmp(path, root, n) && (path[n] == '/' || path[n] == '\0');
}

static bool is_within_any(const char *path, const struct policy_strings *roots)
{
	for (size_t i = 0; i < roots->n; i++)
		if (is_within(path, roots->v[i]))
			return true;
	return false;
}

static bool is_one_of(const char *word, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(word, *words))
			return true;
	return false;
}

/* "/", a directory of it, and homes. */
static bool is_wide(const char *path)
{
	const char *slash = strchr(path + 1, '/');

	return !slash || (!strncmp(path, "/home/", 6) && !strchr(path + 6, '/'));
}

/* Why a path is not proposed for writing; NULL: it may be. *ret_warning: of a hidden one in a home. */
static const char *write_judge(const char *path, bool *ret_warning)
{
	static const char *const system[] = { "/proc",	  "/sys",	"/dev",	    "/boot",
					      "/etc",	  "/usr",	"/bin",	    "/sbin",
					      "/lib",	  "/lib32",	"/lib64",   "/run",
					      "/var/run", "/var/spool", "/var/lib", "/libx32" };

	static const char *const startup[] = {
		".bashrc",    ".bash_profile", ".bash_login", ".bash_logout",
		".profile",   ".zshrc",	       ".zshenv",     ".zprofile",
		".zlogin",    ".cshrc",	       ".login",      ".kshrc",
		".gitconfig", ".forward",      "crontab",     NULL
	};

	*ret_warning = strstr(path, "/.") != NULL;
	for (size_t i = 0; i < ARRAY_SIZE(system); i++)
		if (is_within(path, system[i]))
			return "the host itself runs or trusts what is there";
	if (is_wide(path))
		return "it is too wide: a home, or what lies in /";
	if (strstr(path, "/.git/hooks") || is_one_of(strrchr(path, '/') + 1, startup))
		return "others run what is there";
	return NULL;
}

static const char *secret_judge(const char *path)
{
	const char *name = strrchr(path, '/');

	if (policy_secret_path_group(path) >= 0)
		return "it is, or takes in, a place of the rule set secrets";
	return policy_secret_name(name + 1) ? "its name is that of a secret" : NULL;
}

/* The directory of a path, into place: where a name is made or taken away. */
static void cut_name(char *path)
{
	char *slash = strrchr(path, '/');

	slash[slash == path] = '\0';
}

/* What would have to be writable for the operation: the object, or the directory that its name is in. */
static bool write_target(const struct suggest *suggest, const struct event_record *record,
			 char *path)
{
	static const char *const names[] = { "mkdir",  "mknod", "symlink", "link",
					     "unlink", "rmdir", "rename",  NULL };
	const char *flags = text_of(json_object_get(record->root, "file"), "flags");
	bool named = is_one_of(text_of(record->root, "op"), names), there = false;
	struct stat st = { .st_mode = 0 };

	if (suggest->check_paths)
		there = !lstat(path, &st);
	if (!named && (there ? S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)
			     : !suggest->check_paths && !strstr(flags, "O_CREAT")))
		return there && S_ISDIR(st.st_mode);
	cut_name(path);
	return true;
}

static const char *reach_word(const struct suggest *suggest, bool directory)
{
	if (directory)
		return "a directory with all that is and will be below it";
	return suggest->check_paths ? "1 file"
				    : "1 path, with what is below it if it is a directory";
}

/* both: it is one end of two, of which the other may be what was denied. */
static void write_note(struct suggest *suggest, const struct event_record *record, const char *text,
		       bool both)
{
	const struct policy *policy = suggest->policy;
	char path[SUGGEST_VALUE_MAX] = "";
	struct suggest_denied *denied;
	const char *why;
	bool directory, warning;

	if (!path_read(text, path))
		return refuse(suggest, record, text, "it is not known whole, or not plain text");
	if (is_within(path, policy->workdir) || is_within_any(path, &policy->write) ||
	    is_within_any(path, &policy->private_dirs)) {
		if (!both)
			refuse(suggest, record, text,
			       "this policy lets it be written, as it is now");
		return;
	}
	why = secret_judge(path);
	if (why)
		return refuse(suggest, record, text, why);
	directory = write_target(suggest, record, path);
	why = write_judge(path, &warning);
	why = why ? why : secret_judge(path);
	if (why)
		return refuse(suggest, record, text, why);
	denied = suggest_note(suggest, record, SUGGEST_WRITE, path);
	if (!denied)
		return;
	denied->warning = warning;
	item_quote(suggest, denied, path);
	suggest_say(suggest, &denied->reach, "%s%s", reach_word(suggest, directory),
		    warning ? "\nWARNING: hidden files configure programs, also those of others"
			    : "");
}

static void judge_write(struct suggest *suggest, const struct event_record *record,
			const json_t *file)
{
	const char *path2 = text_of(file, "path2");

	if (json_is_true(json_object_get(file, "path_truncated")) ||
	    json_is_true(json_object_get(file, "path_disconnected")) ||
	    json_is_true(json_object_get(file, "path2_truncated")) ||
	    json_is_true(json_object_get(file, "path2_disconnected")))
		return refuse(suggest, record, text_of(file, "path"),
			      "its path is not known whole");
	write_note(suggest, record, text_of(file, "path"), *path2);
	if (*path2)
		write_note(suggest, record, path2, true);
}

static void judge_read(struct suggest *suggest, const struct event_record *record,
		       const json_t *file)
{
	const char *text = text_of(file, "path"), *why = NULL;
	char path[SUGGEST_VALUE_MAX] = "";
	struct suggest_denied *denied;
	struct stat st;
	bool directory;

	if (json_is_true(json_object_get(file, "path_truncated")) ||
	    json_is_true(json_object_get(file, "path_disconnected")) || !path_read(text, path))
		return refuse(suggest, record, text, "it is not known whole, or not plain text");
	if (!suggest->policy->read_allow.n)
		return refuse(suggest, record, text,
			      "this policy has no files.read.allow any more: all may be read");
	if (is_within_any(path, &suggest->policy->read_allow))
		return refuse(suggest, record, text, "this policy lets it be read, as it is now");
	directory = suggest->check_paths && !stat(path, &st) && S_ISDIR(st.st_mode);
	if (!strncmp(path, "/proc/", 6) && path[6] >= '0' && path[6] <= '9')
		why = "a process comes and goes; /proc as a whole is for you to write";
	else if (is_wide(path))
		why = "it is too wide: a home, or what lies in /";
	why = why ? why : secret_judge(path);
	if (why)
		return refuse(suggest, record, text, why);
	denied = suggest_note(suggest, record, SUGGEST_READ, path);
	if (!denied)
		return;
	item_quote(suggest, denied, path);
	suggest_say(suggest, &denied->reach, "%s", reach_word(suggest, directory));
}

/* --- scopes ------------------------------------------------------------------------------------ */

static void judge_scope(struct suggest *suggest, const struct event_record *record,
			const json_t *gateway)
{
	const char *tool = text_of(gateway, "tool"), *scope = text_of(gateway, "scope");
	struct suggest_denied *denied;

	if (strncmp(tool, "up/", 3) != 0)
		return refuse(
			suggest, record, scope,
			"what a tool does is business: whoever answers for it gives the scope");
	if (!*scope)
		return refuse(suggest, record, tool,
			      "no scope of the gateway's configuration opens this method and path");
	if (!is_plain(scope, ":._-*/") || strlen(scope) > POLICY_SCOPE_MAX || strchr(scope, '*'))
		return refuse(suggest, record, scope, "it is no scope that a policy takes");
	denied = suggest_note(suggest, record, SUGGEST_SCOPES, scope);
	if (!denied)
		return;
	suggest_say(suggest, &denied->item, "\"%s\"", scope);
	suggest_say(
		suggest, &denied->reach,
		"all methods and paths that the gateway's upstreams give this scope; seen at %s",
		is_plain(tool + 3, "._-") ? tool : "up/?");
}

/* --- rules that nothing is proposed for --------------------------------------------------------- */

/* In this order; a name that ends with a dot stands for all that begin with it. value: what of the record is named with it. */
static const struct {
	const char *rule;
	const char *why;
	const char *object, *value;
} never[] = {
	{ "network.metadata", "it is the metadata service, which is never opened", "net", "dst" },
	{ "files.read.deny",
	  "the policy names it as denied, or the rule set secrets does; files.read.without is for "
	  "you to write",
	  "file", "path" },
	{ "files.exec.", "what may be executed is for you to write", "file", "path" },
	{ "files.", "no policy opens it", "file", "path" },
	{ "guard.", "it protects other processes, the kernel or Cordon; no policy opens it", NULL,
	  NULL },
	{ "network.loopback", "who listens there are services of this host", NULL, NULL },
	{ "network.unix", "who listens there acts for the fence; network.unix is for you to write",
	  "net", "unix" },
	{ "network.dns", "say network.dns: gateway, and names in network.domains", NULL, NULL },
	{ "network.listen", "who may come in is for you to write", NULL, NULL },
	{ "network.", "no policy opens it", NULL, NULL },
	{ "limits.", "a ceiling is for you to move", NULL, NULL },
	{ "gateway.", "the gateway decides that, by its own configuration and facts", NULL, NULL },
	{ "", "nothing is known that would open it", NULL, NULL },
};

static void judge_never(struct suggest *suggest, const struct event_record *record,
			const char *rule)
{
	for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
		size_t n = strlen(never[i].rule);

		if (strncmp(rule, never[i].rule, n) != 0 ||
		    (n && never[i].rule[n - 1] != '.' && rule[n]))
			continue;
		refuse(suggest, record,
		       never[i].object ? text_of(json_object_get(record->root, never[i].object),
						 never[i].value)
				       : "",
		       never[i].why);
		return;
	}
}

void suggest_judge(struct suggest *suggest, const struct event_record *record)
{
	static const struct {
		const char *rule, *object;
		void (*judge)(struct suggest *suggest, const struct event_record *record,
			      const json_t *object);
	} judges[] = {
		{ "gateway.domain", "gateway", judge_domain },
		{ "gateway.address", "gateway", judge_address },
		{ "gateway.scope", "gateway", judge_scope },
		{ "network.default", "net", judge_net },
		{ "files.write", "file", judge_write },
		{ "files.read.allow", "file", judge_read },
	};
	const char *rule = text_of(record->root, "rule");

	for (size_t i = 0; i < ARRAY_SIZE(judges); i++) {
		const json_t *object = json_object_get(record->root, judges[i].object);

		if (strcmp(rule, judges[i].rule) != 0)
			continue;
		if (object)
			judges[i].judge(suggest, record, object);
		else /* the rest of a flood, which says no more than how many */
			refuse(suggest, record, "", "its events do not say what it was about");
		return;
	}
	judge_never(suggest, record, rule);
}
