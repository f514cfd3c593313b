// SPDX-License-Identifier: Apache-2.0
/*
 * The table of keys and how to look things up in it. Constant data; no privilege; nothing here can
 * fail. To add a key: a row here, a member in struct policy, a case in tests/golden/policy, `cordon
 * check --print-keys` into docs/policy.md (tests/golden/run --update does that).
 */
#include "policy/keys.h"

#include <netinet/in.h>
#include <string.h>

#include "conf/near.h"
#include "util/util.h"

static const struct policy_word mode_words[] = {
	{ "enforce", CORDON_MODE_ENFORCE, POLICY_ENFORCED },
	{ "audit", CORDON_MODE_AUDIT, POLICY_ENFORCED },
	{ NULL, 0, POLICY_ENFORCED },
};

static const struct policy_word loopback_words[] = {
	{ "fence", CORDON_LOOPBACK_FENCE, POLICY_ENFORCED },
	{ "deny", CORDON_LOOPBACK_DENY, POLICY_ENFORCED },
	{ "allow", CORDON_LOOPBACK_ALLOW, POLICY_ENFORCED },
	{ NULL, 0, POLICY_ENFORCED },
};

static const struct policy_word dns_words[] = {
	{ "deny", 0, POLICY_ENFORCED },
	{ "gateway", 1, POLICY_ENFORCED },
	{ NULL, 0, POLICY_ENFORCED },
};

static const struct policy_word proto_words[] = {
	{ "tcp", IPPROTO_TCP, POLICY_ENFORCED },
	{ "udp", IPPROTO_UDP, POLICY_ENFORCED },
	{ NULL, 0, POLICY_ENFORCED },
};

const char *const policy_type_names[POLICY_TYPE_COUNT] = {
	[POLICY_TYPE_MAPPING] = "a mapping",
	[POLICY_TYPE_VERSION] = "the number 1",
	[POLICY_TYPE_NAME] = "a name",
	[POLICY_TYPE_WORD] = "a word",
	[POLICY_TYPE_PATH] = "a path",
	[POLICY_TYPE_PATHS] = "a list of paths",
	[POLICY_TYPE_GATEWAY] = "an address and port, a list of them, or a path",
	[POLICY_TYPE_RULES] = "a list of {to, port, proto}",
	[POLICY_TYPE_PREFIX] = "an address or prefix",
	[POLICY_TYPE_PORT] = "a port or range of ports",
	[POLICY_TYPE_RESOLVER] = "an address and port, or a list of two",
	[POLICY_TYPE_LISTEN] = "a list of ports",
	[POLICY_TYPE_DOMAINS] = "a list of names",
	[POLICY_TYPE_ENV_NAMES] = "a list of names",
	[POLICY_TYPE_ENV] = "a mapping of names to text",
	[POLICY_TYPE_LABELS] = "a mapping of names to text",
	[POLICY_TYPE_SCOPES] = "a list of scopes",
	[POLICY_TYPE_SETS] = "a list of rule sets",
	[POLICY_TYPE_PROCESSORS] = "a number of processors",
	[POLICY_TYPE_NUMBER] = "a whole number",
	[POLICY_TYPE_SIZE] = "a number of bytes",
	[POLICY_TYPE_TIME] = "a time",
	[POLICY_TYPE_LIST] = "a list",
	[POLICY_TYPE_TEXT] = "text",
};

#define TARGET(member) .offset = offsetof(struct policy, member)
#define RULE_TARGET(member) .offset = offsetof(struct policy_rule, member)
#define UNBUILT .offset = POLICY_NO_TARGET, .status = POLICY_UNBUILT
#define UNBUILT_EMPTY .offset = POLICY_NO_TARGET, .status = POLICY_UNBUILT_EMPTY

const struct policy_key policy_keys[] = {
	{ "", POLICY_TYPE_MAPPING, .doc = "the policy" },
	{ "cordon", POLICY_TYPE_VERSION, .offset = POLICY_NO_TARGET, .required = true,
	  .doc = "version of this language: `1`" },
	{ "name", POLICY_TYPE_NAME, TARGET(name), .required = true,
	  .doc = "name of the policy in events; letters, digits, `.`, `_`, `-`; at most 64" },
	{ "mode", POLICY_TYPE_WORD, TARGET(mode), .words = mode_words, .fallback = "`enforce`",
	  .doc = "`enforce` denies; `audit` lets happen and reports `would_deny`" },
	{ "files", POLICY_TYPE_MAPPING, .doc = "what may be read and written" },
	{ "files.workdir", POLICY_TYPE_PATH, TARGET(workdir),
	  .path_flags = POLICY_PATH_DIRECTORY | POLICY_PATH_WRITABLE,
	  .fallback = "must come from `-w`",
	  .doc = "directory where the command starts, and the subtree that it may write; `-w` "
		 "overrides it" },
	{ "files.private", POLICY_TYPE_PATHS, TARGET(private_dirs),
	  .path_flags = POLICY_PATH_DIRECTORY | POLICY_PATH_WRITABLE,
	  .fallback = "`[/tmp, /dev/shm]`",
	  .doc = "directories in whose place `cordon run` gives the fence an empty tmpfs of its "
		 "own; writable" },
	{ "files.write", POLICY_TYPE_PATHS, TARGET(write),
	  .path_flags = POLICY_PATH_DIRECTORY | POLICY_PATH_FILE | POLICY_PATH_WRITABLE,
	  .fallback = "`[]`", .doc = "further subtrees and single files that may be written" },
	{ "files.read", POLICY_TYPE_MAPPING, .doc = "what may be read" },
	{ "files.read.deny", POLICY_TYPE_PATHS, TARGET(read_deny),
	  .path_flags =
		  POLICY_PATH_DIRECTORY | POLICY_PATH_FILE | POLICY_PATH_SOCKET | POLICY_PATH_OTHER,
	  .fallback = "`[]`",
	  .doc = "subtrees and single files that may not be opened for reading" },
	{ "files.read.allow", POLICY_TYPE_PATHS, TARGET(read_allow),
	  .path_flags = POLICY_PATH_DIRECTORY | POLICY_PATH_FILE | POLICY_PATH_SOCKET |
			POLICY_PATH_OTHER | POLICY_PATH_ALLOW,
	  .fallback = "everything",
	  .doc = "the only subtrees and single files that may be opened for reading, besides what "
		 "may be written" },
	{ "files.read.without", POLICY_TYPE_SETS, TARGET(secrets), .fallback = "`[]`",
	  .doc = "rule sets that Cordon ships and that this policy goes without: `secrets`, or "
		 "parts "
		 "of it such as `secrets.ssh`; see below" },
	{ "files.exec", POLICY_TYPE_MAPPING, .doc = "what may be executed" },
	{ "files.exec.deny", POLICY_TYPE_PATHS, TARGET(exec_deny),
	  .path_flags = POLICY_PATH_DIRECTORY | POLICY_PATH_FILE, .fallback = "`[]`",
	  .doc = "subtrees and single files that may not be executed or mapped as code" },
	{ "files.exec.allow", POLICY_TYPE_PATHS, TARGET(exec_allow),
	  .path_flags = POLICY_PATH_DIRECTORY | POLICY_PATH_FILE | POLICY_PATH_ALLOW,
	  .fallback = "everything",
	  .doc = "the only subtrees and single files that may be executed or mapped as code: "
		 "programs, their interpreters and libraries" },
	{ "network", POLICY_TYPE_MAPPING, .doc = "what may be reached" },
	{ "network.gateway", POLICY_TYPE_GATEWAY, TARGET(gateway),
	  .fallback = "nothing is reachable",
	  .doc = "the gateway: `ADDRESS:PORT` (IPv6: `\"[ADDRESS]:PORT\"`), a list of at most 4 of "
		 "them, or the "
		 "path of a unix socket; TCP" },
	{ "network.allow", POLICY_TYPE_RULES, TARGET(allow), .fallback = "`[]`",
	  .doc = "exceptions: what is reachable besides the gateway" },
	{ "network.allow[]", POLICY_TYPE_MAPPING, .doc = "one exception" },
	{ "network.allow[].to", POLICY_TYPE_PREFIX, RULE_TARGET(allow), .required = true,
	  .doc = "`ADDRESS` or `ADDRESS/BITS`, IPv4 or IPv6" },
	{ "network.allow[].port", POLICY_TYPE_PORT, RULE_TARGET(allow), .fallback = "all ports",
	  .doc = "destination port `N`, or ports `N-M`" },
	{ "network.allow[].proto", POLICY_TYPE_WORD, RULE_TARGET(proto), .words = proto_words,
	  .fallback = "both", .doc = "`tcp` or `udp`" },
	{ "network.domains", POLICY_TYPE_DOMAINS, TARGET(domains), .fallback = "`[]`",
	  .doc = "names that are reachable through the gateway's proxy, and their TCP ports: "
		 "`NAME`, `NAME:N` or `NAME:N-M`; `*.NAME` is every name below NAME, not NAME; "
		 "without ports 80 and 443; at most 4096 characters" },
	{ "network.dns", POLICY_TYPE_WORD, TARGET(dns), .words = dns_words, .fallback = "`deny`",
	  .doc = "`deny`: no resolver but what `network.allow` opens; `gateway`: whatever is sent "
		 "to port 53 of any address goes to `network.resolver`" },
	{ "network.resolver", POLICY_TYPE_RESOLVER, TARGET(resolver),
	  .fallback = "port 53 of `network.gateway`",
	  .doc = "the resolver of `dns: gateway`: `ADDRESS:PORT` (IPv6: `\"[ADDRESS]:PORT\"`), or "
		 "a "
		 "list of one IPv4 and one IPv6 address; UDP and TCP" },
	{ "network.loopback", POLICY_TYPE_WORD, TARGET(loopback), .words = loopback_words,
	  .fallback = "`fence`",
	  .doc = "on loopback, reach the fence's own listeners (`fence`), nothing (`deny`) or all "
		 "(`allow`)" },
	{ "network.listen", POLICY_TYPE_LISTEN, TARGET(listen), .fallback = "`[]`",
	  .doc = "TCP ports `N` or `N-M`, at most 8, at which others may connect to the fence; "
		 "what "
		 "else comes in from outside is dropped" },
	{ "network.unix", POLICY_TYPE_PATHS, TARGET(unix_sockets), .path_flags = POLICY_PATH_SOCKET,
	  .fallback = "`[]`", .doc = "unix sockets outside the fence that may be connected" },
	{ "limits", POLICY_TYPE_MAPPING, .doc = "ceilings; what is not named has none" },
	{ "limits.cpu", POLICY_TYPE_PROCESSORS, TARGET(cpu_milli), .least = 10, .most = 1024000,
	  .fallback = "none",
	  .doc = "processors that all tasks together may use, on average over 0.1 s: `1.5`; from "
		 "0.01 to 1024" },
	{ "limits.memory", POLICY_TYPE_SIZE, TARGET(memory_bytes), .least = 1ULL << 20,
	  .most = 1ULL << 44, .fallback = "none",
	  .doc = "memory of all tasks together, with their page cache and private directories: "
		 "`N`, or `N` with `K`, `M`, `G`, `T` (powers of 1024), 1M to 16T; nothing is "
		 "swapped; where it does not suffice, all are killed" },
	{ "limits.pids", POLICY_TYPE_NUMBER, TARGET(pids), .least = 1, .most = 4194304,
	  .fallback = "none",
	  .doc = "processes and threads at a time, 1 to 4194304; further ones fail with `EAGAIN`" },
	{ "limits.time", POLICY_TYPE_TIME, TARGET(time_ms), .least = 1000,
	  .most = 366 * 86400000ULL, .fallback = "none",
	  .doc = "until everything in the fence is killed, from the start of the command or from "
		 "`attach`: `Ns`, `Nm`, `Nh` or `Nd`, 1s to 366d; `run` exits with 124" },
	{ "limits.output", POLICY_TYPE_SIZE, TARGET(output_bytes), .least = 1, .most = 1ULL << 50,
	  .fallback = "none",
	  .doc = "bytes written to files and to where descriptors 1 and 2 of the command lead, "
		 "together: as `limits.memory`, to 1024T; then writing fails with `EDQUOT`" },
	{ "limits.upload", POLICY_TYPE_SIZE, TARGET(upload_bytes), .least = 1, .most = 1ULL << 50,
	  .fallback = "none",
	  .doc = "bytes of IP packets that leave the fence, those to the gateway among them: as "
		 "`limits.memory`, to 1024T; then sending fails with `EPERM`" },
	{ "env", POLICY_TYPE_MAPPING, .doc = "environment of the command; nothing else is in it" },
	{ "env.pass", POLICY_TYPE_ENV_NAMES, TARGET(env_pass),
	  .fallback = "`[PATH, HOME, LANG, TERM]`",
	  .doc = "variables that are taken from the caller, where set" },
	{ "env.set", POLICY_TYPE_ENV, TARGET(env_set), .fallback = "`{}`",
	  .doc = "variables and their values, as spelled" },
	{ "scopes", POLICY_TYPE_SCOPES, TARGET(scopes), .fallback = "`[]`",
	  .doc = "what the fence may ask the gateway for, e.g. `refund:create`; at most 32 of 64 "
		 "characters" },
	{ "labels", POLICY_TYPE_LABELS, TARGET(labels), .fallback = "`{}`",
	  .doc = "words for people and tools; at most 64, keys of 63 characters, values of 255 "
		 "bytes" },
};
const size_t policy_keys_n = ARRAY_SIZE(policy_keys);
_Static_assert(ARRAY_SIZE(policy_keys) <= POLICY_KEYS_MAX,
	       "struct policy_context notes which are given");
_Static_assert(CORDON_GATEWAYS_MAX == 4, "said in the row of network.gateway");
_Static_assert(POLICY_DOMAINS_SIZE == 4096, "said in the row of network.domains");
_Static_assert(CORDON_LISTEN_MAX == 8, "said in the row of network.listen");

const struct policy_key *policy_key_find(const char *path)
{
	for (size_t i = 0; i < policy_keys_n; i++)
		if (!strcmp(policy_keys[i].path, path))
			return &policy_keys[i];
	return NULL;
}

const char *policy_key_leaf(const struct policy_key *key)
{
	const char *dot = strrchr(key->path, '.');

	return dot ? dot + 1 : key->path;
}

bool policy_key_is_child(const struct policy_key *parent, const struct policy_key *key)
{
	size_t size = strlen(parent->path);
	const char *leaf = policy_key_leaf(key);

	if (key == parent || strchr(leaf, '['))
		return false;
	if (size == 0)
		return leaf == key->path;
	return !strncmp(key->path, parent->path, size) && key->path[size] == '.' &&
	       leaf == key->path + size + 1;
}

const struct policy_key *policy_key_child(const struct policy_key *parent, const char *name)
{
	for (size_t i = 0; i < policy_keys_n; i++)
		if (policy_key_is_child(parent, &policy_keys[i]) &&
		    !strcmp(policy_key_leaf(&policy_keys[i]), name))
			return &policy_keys[i];
	return NULL;
}

const struct policy_key *policy_key_nearest(const struct policy_key *parent, const char *name)
{
	const struct policy_key *nearest = NULL;
	size_t best = CONF_NEAR_NONE;

	for (size_t i = 0; i < policy_keys_n; i++)
		if (policy_key_is_child(parent, &policy_keys[i]) &&
		    conf_word_is_nearer(name, policy_key_leaf(&policy_keys[i]), &best))
			nearest = &policy_keys[i];
	return nearest;
}

const struct policy_key *policy_key_elsewhere(const char *name)
{
	const struct policy_key *nearest = NULL;
	size_t best = CONF_NEAR_NONE;

	for (size_t i = 1; i < policy_keys_n; i++)
		if (!strchr(policy_keys[i].path, '[') &&
		    conf_word_is_nearer(name, policy_key_leaf(&policy_keys[i]), &best))
			nearest = &policy_keys[i];
	return nearest;
}

const char *policy_word_nearest(const struct policy_word *words, const char *name)
{
	const char *nearest = NULL;
	size_t best = CONF_NEAR_NONE;

	for (; words->name; words++)
		if (conf_word_is_nearer(name, words->name, &best))
			nearest = words->name;
	return nearest;
}
