// SPDX-License-Identifier: Apache-2.0
/*
 * What is wrong with a policy although every value is right by itself: paths that the file system
 * does not have, duplicates, rules that can never match or that another rule makes needless, more
 * than the image can hold. Looks at paths with stat() alone; no privilege. What cannot be proved to
 * exist is a fault.
 */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "policy/context.h"
#include "policy/nets.h"
#include "policy/value.h"

/* --- one path --------------------------------------------------------------------------------- */

static unsigned int path_kind(mode_t mode)
{
	if (S_ISDIR(mode))
		return POLICY_PATH_DIRECTORY;
	if (S_ISREG(mode))
		return POLICY_PATH_FILE;
	return S_ISSOCK(mode) ? POLICY_PATH_SOCKET : POLICY_PATH_OTHER;
}

static const char *path_kind_name(unsigned int kinds)
{
	if (kinds & POLICY_PATH_SOCKET)
		return "a unix socket";
	return kinds & POLICY_PATH_FILE ? "a directory or regular file" : "a directory";
}

/* A path that would make the fence pointless; NULL: none. */
static const char *root_judge(const struct policy_key *key)
{
	if (key->path_flags & POLICY_PATH_WRITABLE)
		return "`/` would make everything writable";
	if (key->path_flags & POLICY_PATH_ALLOW)
		return "`/` would allow everything; leave the key out";
	return "`/` would take in everything, the command itself included";
}

static bool stat_is_root(const struct stat *st)
{
	struct stat root;

	return stat("/", &root) == 0 && root.st_dev == st->st_dev && root.st_ino == st->st_ino;
}

/* The key that speaks of a path: a socket of the gateway is held to what network.unix is. */
static unsigned int path_kinds_wanted(const struct policy_key *key)
{
	unsigned int kinds =
		key->path_flags & ~(unsigned int)(POLICY_PATH_WRITABLE | POLICY_PATH_ALLOW);

	return kinds ? kinds : POLICY_PATH_SOCKET;
}

/* Fills error with what is wrong with path as the file system has it; leaves it empty if nothing. */
static void path_judge(const struct policy_key *key, const char *path, struct error *error)
{
	unsigned int kinds = path_kinds_wanted(key);
	struct stat st;

	if (stat(path, &st) < 0) {
		if (errno == ENOENT || errno == ENOTDIR)
			error_set(error, ENOENT, "does not exist");
		else
			error_set(error, errno, "cannot be proved to exist: %s", strerror(errno));
	} else if (!(path_kind(st.st_mode) & kinds)) {
		error_set(error, EINVAL, "is not %s", path_kind_name(kinds));
	} else if (stat_is_root(&st)) {
		error_set(error, EINVAL, "is the root directory: %s", root_judge(key));
	}
}

void policy_check_path(struct policy_context *context, const struct policy_key *key,
		       const char *path, struct conf_mark mark)
{
	struct error error = { "" };

	if (!strcmp(path, "/")) {
		policy_context_fault(context, mark, "%s: %s", key->path, root_judge(key));
		return;
	}
	if (path_kinds_wanted(key) == POLICY_PATH_SOCKET &&
	    strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
		policy_context_fault(context, mark, "%s: can never match: longer than %zu bytes",
				     key->path, sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
		return;
	}
	/* Before a syntax fault, what looks like a path may be half of one. */
	if (context->options->check_paths && context->complete)
		path_judge(key, path, &error);
	if (error.text[0])
		policy_context_fault(context, mark, "%s: `%s` %s", key->path, conf_quote(path).s,
				     error.text);
}

/* --- the workdir ------------------------------------------------------------------------------ */

/* -w as a canonical path: a relative one is taken from the current directory. */
static int workdir_from_option(const char *option, char **ret_path, struct error *error)
{
	_cleanup_free_ char *absolute = NULL;

	if (option[0] == '/')
		return policy_value_path(option, ret_path, error);
	absolute = realpath(option, NULL);
	if (!absolute)
		return errno == ENOMEM ? -ENOMEM
				       : error_set(error, EINVAL, "`%s`: %s", conf_quote(option).s,
						   strerror(errno));
	return policy_value_path(absolute, ret_path, error);
}

static void workdir_take_option(struct policy_context *context)
{
	/* -w stands nowhere in the text; its faults are put before the first line. */
	static const struct conf_mark nowhere = { 1, 1 };
	struct policy_key key = *policy_key_find("files.workdir");
	struct error error = { "" };
	char *path = NULL;
	int r;

	r = workdir_from_option(context->options->workdir, &path, &error);
	if (r == -ENOMEM) {
		context->err = r;
		return;
	}
	if (r < 0) {
		policy_context_fault(context, nowhere, "-w: %s", error.text);
		return;
	}
	free(context->policy->workdir);
	context->policy->workdir = path;
	key.path = "-w";
	policy_check_path(context, &key, path, nowhere);
}

void policy_check_workdir(struct policy_context *context, struct conf_mark root)
{
	static const char *const path = "files.workdir";

	if (context->options->workdir)
		workdir_take_option(context);
	else if (context->options->need_workdir && context->complete &&
		 !context->given[policy_key_find(path) - policy_keys])
		policy_context_fault(context, root, "%s: missing; give it here or with -w", path);
}

/* --- duplicates ------------------------------------------------------------------------------- */

/* Keys of one group may not name the same thing twice. */
enum use_group {
	USE_WRITABLE,
	USE_READ_DENY,
	USE_READ_ALLOW,
	USE_EXEC_DENY,
	USE_EXEC_ALLOW,
	USE_UNIX,
	USE_ENV,
	USE_SCOPE
};

static enum use_group use_group(const struct policy_use *use)
{
	if (use->key->type == POLICY_TYPE_ENV_NAMES || use->key->type == POLICY_TYPE_ENV)
		return USE_ENV;
	if (use->key->type == POLICY_TYPE_SCOPES)
		return USE_SCOPE;
	if (use->key->path_flags & POLICY_PATH_WRITABLE)
		return USE_WRITABLE;
	switch (use->key->offset) {
	case offsetof(struct policy, read_deny):
		return USE_READ_DENY;
	case offsetof(struct policy, read_allow):
		return USE_READ_ALLOW;
	case offsetof(struct policy, exec_deny):
		return USE_EXEC_DENY;
	case offsetof(struct policy, exec_allow):
		return USE_EXEC_ALLOW;
	default:
		return USE_UNIX;
	}
}

static int use_compare(const void *a, const void *b)
{
	const struct policy_use *x = a, *y = b;
	int order = (int)use_group(x) - (int)use_group(y);

	if (order == 0)
		order = strcmp(x->text, y->text);
	if (order == 0)
		order = x->mark.line != y->mark.line ? (x->mark.line < y->mark.line ? -1 : 1)
						     : (x->mark.column < y->mark.column ? -1 : 1);
	return order;
}

static void check_duplicates(struct policy_context *context)
{
	struct policy_use *first = context->uses;

	if (context->n_uses < 2)
		return;
	qsort(context->uses, context->n_uses, sizeof(*context->uses), use_compare);
	for (size_t i = 1; i < context->n_uses; i++) {
		struct policy_use *use = &context->uses[i];

		if (use_group(use) != use_group(first) || strcmp(use->text, first->text) != 0) {
			first = use;
			continue;
		}
		policy_context_fault(context, use->mark,
				     "%s: `%s` is already given at line %u as %s", use->key->path,
				     conf_quote(use->text).s, first->mark.line, first->key->path);
	}
}

static void check_gateways(struct policy_context *context)
{
	const struct policy *policy = context->policy;

	for (size_t i = 1; i < policy->n_gateways; i++)
		for (size_t k = 0; k < i; k++)
			if (!memcmp(&policy->gateway[i], &policy->gateway[k],
				    sizeof(policy->gateway[i]))) {
				policy_context_fault(context, context->gateway_marks[i],
						     "network.gateway: the same address is already "
						     "given at line %u",
						     context->gateway_marks[k].line);
				break;
			}
}

/* --- reading the workdir ---------------------------------------------------------------------- */

static bool path_is_within(const char *path, const char *root)
{
	size_t size = strlen(root);

	return !strncmp(path, root, size) && (path[size] == '/' || path[size] == '\0');
}

/* A private directory that the text names, below a path; NULL: none. The default ones are not there with `attach`. */
static const struct policy_use *private_within(const struct policy_context *context,
					       const char *path)
{
	for (size_t i = 0; i < context->n_uses; i++) {
		const struct policy_use *use = &context->uses[i];

		if (use->key->offset == offsetof(struct policy, private_dirs) &&
		    path_is_within(use->text, path))
			return use;
	}
	return NULL;
}

/* A denied root above the workdir leaves the agent nothing that it could read; one above its own tmpfs neither. */
static void check_read_deny(struct policy_context *context)
{
	const char *workdir = context->policy->workdir;

	for (size_t i = 0; i < context->n_uses; i++) {
		const struct policy_use *use = &context->uses[i], *private;

		if (use_group(use) != USE_READ_DENY)
			continue;
		private = private_within(context, use->text);
		if (workdir && path_is_within(workdir, use->text))
			policy_context_fault(
				context, use->mark,
				"%s: `%s` takes in the workdir, which could then not be read",
				use->key->path, conf_quote(use->text).s);
		if (private)
			policy_context_fault(
				context, use->mark,
				"%s: `%s` takes in what %s gives at line %u, which could then not "
				"be read",
				use->key->path, conf_quote(use->text).s, private->key->path,
				private->mark.line);
	}
}

/* A denial wins, so what is allowed inside one stays denied. */
static void check_denied_allow(struct policy_context *context)
{
	for (size_t i = 0; i < context->n_uses; i++) {
		const struct policy_use *allow = &context->uses[i];
		enum use_group group = use_group(allow);

		if (group != USE_READ_ALLOW && group != USE_EXEC_ALLOW)
			continue;
		for (size_t k = 0; k < context->n_uses; k++) {
			const struct policy_use *deny = &context->uses[k];

			if (use_group(deny) != group - 1 ||
			    !path_is_within(allow->text, deny->text))
				continue;
			policy_context_fault(context, allow->mark,
					     "%s: `%s` can never match: %s at line %u denies it",
					     allow->key->path, conf_quote(allow->text).s,
					     deny->key->path, deny->mark.line);
			break;
		}
	}
}

/* --- network.allow ---------------------------------------------------------------------------- */

/* Does rule a allow everything that rule b allows? */
static bool allow_covers(const struct policy_allow *a, const struct policy_allow *b)
{
	return (!a->ports.proto || a->ports.proto == b->ports.proto) &&
	       a->ports.lo <= b->ports.lo && b->ports.hi <= a->ports.hi &&
	       policy_prefix_inherits(&a->addr, a->prefix_bits, &b->addr, b->prefix_bits);
}

/* Of two rules that allow the same, the later one is the needless one. */
static void check_allow_covered(struct policy_context *context, size_t i)
{
	const struct policy_allow *allow = context->policy->allow;

	for (size_t k = 0; k < context->policy->n_allow; k++) {
		bool same;

		if (k == i || !allow_covers(&allow[k], &allow[i]))
			continue;
		same = allow_covers(&allow[i], &allow[k]);
		if (same && k > i)
			continue;
		policy_context_fault(context, context->allow_marks[i],
				     "network.allow: %s the rule at line %u",
				     same ? "the same as" : "already allowed by",
				     context->allow_marks[k].line);
		return;
	}
}

static void check_allow_gateway(struct policy_context *context, size_t i)
{
	const struct policy *policy = context->policy;
	const struct policy_allow *allow = &policy->allow[i];

	for (size_t k = 0; k < policy->n_gateways; k++) {
		const struct cordon_gateway *gateway = &policy->gateway[k];

		if (!memcmp(&allow->addr, &gateway->addr, sizeof(gateway->addr)) &&
		    allow->prefix_bits == policy_addr_bits(&allow->addr) &&
		    allow->ports.proto == gateway->proto && allow->ports.lo == gateway->port &&
		    allow->ports.hi == gateway->port)
			policy_context_fault(
				context, context->allow_marks[i],
				"network.allow: already allowed: it is the gateway at line %u",
				context->gateway_marks[k].line);
	}
}

/* Against the rest of the policy: loopback that is open anyway, TCP to groups of hosts. */
static void check_allow_reach(struct policy_context *context, size_t i)
{
	static const struct policy_allow loopback4 = { .addr.b = { [12] = 127 }, .prefix_bits = 8 };
	static const struct policy_allow loopback6 = { .addr = { .v6 = 1, .b = { [15] = 1 } },
						       .prefix_bits = 128 };
	static const struct policy_allow group4 = { .addr.b = { [12] = 224 }, .prefix_bits = 4 };
	static const struct policy_allow group6 = { .addr = { .v6 = 1, .b = { 0xff } },
						    .prefix_bits = 8 };
	const struct policy_allow *allow = &context->policy->allow[i];
	const struct policy_allow *loopback = allow->addr.v6 ? &loopback6 : &loopback4;
	const struct policy_allow *group = allow->addr.v6 ? &group6 : &group4;

	if (context->policy->loopback == CORDON_LOOPBACK_ALLOW &&
	    policy_prefix_covers(&loopback->addr, loopback->prefix_bits, &allow->addr,
				 allow->prefix_bits))
		policy_context_fault(context, context->allow_marks[i],
				     "network.allow: already allowed by `loopback: allow`");
	if (allow->ports.proto == IPPROTO_TCP &&
	    policy_prefix_covers(&group->addr, group->prefix_bits, &allow->addr,
				 allow->prefix_bits))
		policy_context_fault(context, context->allow_marks[i],
				     "network.allow: can never match: TCP has no multicast");
}

static void fault_overflow(void *data, size_t index, size_t ranges)
{
	struct policy_context *context = data;
	const struct policy_allow *allow = &context->policy->allow[index];

	policy_context_fault(
		context, context->allow_marks[index],
		"network.allow: %s would need %zu port ranges, with those of wider prefixes; "
		"at most %d fit one prefix",
		policy_prefix_format(&allow->addr, allow->prefix_bits).s, ranges,
		CORDON_PORTS_PER_NET);
}

static void check_allow(struct policy_context *context)
{
	_cleanup_free_ struct image_net *nets = NULL;
	size_t n;

	for (size_t i = 0; i < context->policy->n_allow; i++) {
		check_allow_covered(context, i);
		check_allow_gateway(context, i);
		check_allow_reach(context, i);
	}
	if (policy_nets_build(context->policy->allow, context->policy->n_allow, fault_overflow,
			      context, &nets, &n) == -ENOMEM)
		context->err = -ENOMEM;
}

/* --- network.dns and network.listen ----------------------------------------------------------- */

static struct conf_mark given_mark(const struct policy_context *context, const char *path)
{
	return context->given_marks[policy_key_find(path) - policy_keys];
}

static void check_dns(struct policy_context *context)
{
	const struct policy *policy = context->policy;

	if (policy->dns && !policy->n_resolvers && !policy->n_gateways &&
	    !context->given[policy_key_find("network.resolver") - policy_keys])
		policy_context_fault(context, given_mark(context, "network.dns"),
				     "network.dns: `gateway` needs network.resolver, or an address "
				     "in network.gateway");
	if (!policy->dns && policy->n_resolvers)
		policy_context_fault(context, given_mark(context, "network.resolver"),
				     "network.resolver: can never match without `dns: gateway`");
}

static void check_listen(struct policy_context *context)
{
	const struct cordon_ports *listen = context->policy->listen;

	for (size_t i = 1; i < context->policy->n_listen; i++)
		for (size_t k = 0; k < i; k++)
			if (listen[i].lo <= listen[k].hi && listen[k].lo <= listen[i].hi) {
				policy_context_fault(context, context->listen_marks[i],
						     "network.listen: already given at line %u",
						     context->listen_marks[k].line);
				break;
			}
}

/* A gateway that is faulty is one: that is said already. */
static void check_gateway_use(struct policy_context *context)
{
	const struct policy *policy = context->policy;
	bool tried = context->given[policy_key_find("network.gateway") - policy_keys] &&
		     context->faults->n;

	bool has_gateway = policy->n_gateways || policy->gateway_unix || tried;

	if (policy->scopes.n && !has_gateway)
		policy_context_fault(context, given_mark(context, "scopes"),
				     "scopes: can never be used without network.gateway");
	policy_check_domains(context, has_gateway);
}

void policy_check_all(struct policy_context *context)
{
	check_duplicates(context);
	check_read_deny(context);
	check_denied_allow(context);
	check_gateways(context);
	check_allow(context);
	check_dns(context);
	check_listen(context);
	check_gateway_use(context);
}
