/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies: YAML text (DESIGN 3.3) -> validated model -> flat image. Runs without privilege, knows neither BPF nor
 * sockets, opens no file but the policy itself and, to prove that they exist, the paths that it names. Every fault
 * of a text is reported, not only the first; a text with a fault gives no model.
 */
#ifndef CORDON_POLICY_H
#define CORDON_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "conf/fault.h"
#include "cordon/abi.h"

#define POLICY_SCOPES_MAX 32
#define POLICY_SCOPE_MAX 64	 /* characters */
#define POLICY_DOMAINS_SIZE 4096 /* bytes of all rules of network.domains, a NUL behind each */
#define POLICY_OPENS_MAX 32	 /* rules of network.allow that the proxy has to know */

struct policy_strings {
	char **v; /* owned, each NUL-terminated; v[n] is NULL, also when n is 0 */
	size_t n;
};

/* network.allow, after the prefix was parsed and canonicalised. */
struct policy_allow {
	struct cordon_addr addr; /* bits beyond the prefix are 0 */
	uint8_t prefix_bits;	 /* 0..32 for IPv4, 0..128 for IPv6 */
	struct cordon_ports ports;
};

struct policy {
	char *name;
	enum cordon_mode mode;
	char *workdir;			    /* absolute, or NULL when left to -w */
	struct policy_strings private_dirs; /* absolute; default /tmp and /dev/shm */
	struct policy_strings write;
	struct policy_strings read_deny;
	struct policy_strings read_allow; /* empty: everything */
	uint32_t secrets; /* groups of the rule set `secrets` (secrets.h) that are denied to be read */
	struct policy_strings exec_deny;
	struct policy_strings exec_allow; /* empty: everything */
	struct cordon_gateway gateway[CORDON_GATEWAYS_MAX];
	size_t n_gateways;
	char *gateway_unix; /* socket path, or NULL */
	struct policy_allow *allow;
	size_t n_allow;
	enum cordon_loopback loopback;
	unsigned int dns;		   /* 1: gateway */
	struct cordon_gateway resolver[2]; /* as given: n_resolvers of them, in any order; proto 0 */
	size_t n_resolvers;
	struct cordon_ports listen[CORDON_LISTEN_MAX]; /* as given */
	size_t n_listen;
	struct policy_strings unix_sockets;
	uint64_t cpu_milli; /* ceilings; 0: none */
	uint64_t memory_bytes;
	uint64_t pids;
	uint64_t time_ms;
	uint64_t output_bytes;
	uint64_t upload_bytes;
	struct policy_strings env_pass;
	struct policy_strings env_set; /* "NAME=value" */
	struct policy_strings domains; /* what the gateway's proxy may reach: reach/reach.h */
	struct policy_strings scopes;  /* what the gateway may be asked for */
	struct policy_strings labels;  /* "key=value" */
};

/* What a caller gives besides the text. */
struct policy_options {
	const char *workdir; /* -w, or NULL; overrides files.workdir */
	bool check_paths;    /* paths must exist and be of the right kind */
	bool need_workdir;   /* a policy without workdir is a fault */
};

/*
 * Parses text (length bytes, need not end in NUL; not kept). Returns 0 and a policy in *ret_policy (free with
 * policy_free), -EINVAL with faults filled, sorted by position, or -ENOMEM. faults must be empty or zeroed; free
 * it with conf_faults_clear in every case.
 */
int policy_parse(const char *text, size_t length, const struct policy_options *options,
		 struct policy **ret_policy, struct conf_faults *faults);

/* The same from a file of at most CONF_TEXT_MAX bytes; also -errno of open and read. Regular files only. */
int policy_load(const char *path, const struct policy_options *options, struct policy **ret_policy,
		struct conf_faults *faults);

void policy_free(struct policy *policy); /* takes NULL */

/*
 * What the gateway's proxy has to know, as reach_decide_target() and reach_decide_address() take it. Return the bytes, and the
 * number, that were used; a policy that was read has no more than POLICY_DOMAINS_SIZE and POLICY_OPENS_MAX.
 */
struct reach_allow;
size_t policy_domains_pack(const struct policy *policy, char *to, size_t size);
size_t policy_opens_pack(const struct policy *policy, struct reach_allow *to, size_t n);

/* Prints the table of keys as a Markdown table: `cordon check --print-keys`, the middle of docs/policy.md. */
void policy_print_keys(FILE *out);

/*
 * The flat image: this header, then n_nets prefixes, n_roots roots, then string_bytes of NUL-terminated strings.
 * No pointers: offsets count from the start of the strings. Prefixes are sorted, without duplicates, and each
 * carries the union of what all rules that cover it allow, so that the longest match is the whole answer.
 */
#define IMAGE_MAGIC 0x314e4443U			/* "CDN1" */
#define IMAGE_ROOTS_MAX (7 * CONF_LIST_MAX + 2) /* every path that a policy can name */
#define IMAGE_SIZE_MAX (16 * 1024 * 1024)	/* more than any policy text compiles to */

struct image_net {
	struct cordon_addr addr;
	uint8_t prefix_bits;
	uint8_t pad[3];
	struct cordon_net net;
};

struct image_root {
	uint32_t path;	/* offset of the absolute path */
	uint32_t flags; /* enum cordon_root_flag */
};

/* The ceilings that user space holds by way of the cgroup and the clock; 0: none. */
struct image_limits {
	uint64_t memory_bytes;
	uint64_t time_ms;
	uint32_t cpu_milli; /* thousandths of a processor */
	uint32_t pids;
};

struct image {
	uint32_t magic;
	uint32_t version; /* CORDON_ABI_VERSION */
	uint32_t size_bytes;
	uint32_t n_nets;
	uint32_t n_roots;
	uint32_t string_bytes;
	uint32_t name; /* offset */
	uint32_t secrets; /* groups of places (secrets.h) that are denied to be read where they exist */
	struct image_limits limits;
	struct cordon_policy
		policy; /* generation, and what begins with btrfs, are filled when it is installed */
	/* struct image_net nets[n_nets]; struct image_root roots[n_roots]; char strings[string_bytes]; */
};

/* Returns 0 and an image of (*ret_image)->size_bytes bytes (free with free()), -E2BIG past a limit, -ENOMEM. */
int policy_compile(const struct policy *policy, struct image **ret_image);

/*
 * Is buffer[size] an image that policy_compile() could have made? Everything is checked: sizes, offsets, enums,
 * order, padding, the unions of ports; what is filled later is still 0. buffer must be aligned as malloc()
 * aligns. Returns 0 or -EINVAL.
 */
int image_validate(const void *buffer, size_t size);

/* Of a validated image; the pointers live as long as it does. */
const struct image_net *image_nets(const struct image *image);
const struct image_root *image_roots(const struct image *image);
const char *image_string(const struct image *image, uint32_t offset);

#endif
