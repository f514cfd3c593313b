/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fence may reach by name: the one place where names, ports and addresses are judged. Pure: no I/O, no memory, no
 * state. The policy reads its rules here, the proxy decides here.
 *
 * A name is in one form before it is judged: letters, digits, `-` and `_`, in small letters, without the final dot. What
 * could be read as a number is no name: resolvers take 2852039166, 0xA9FEA9FE and 169.254.43518 for addresses. A rule is
 * a name, or `*.` before one, which stands for every name below it and not for the name itself; then the ports.
 *
 * A name only says where to look. Each address that comes of it is judged by itself: only public ones are reached, and
 * what the policy's network.allow says of others, if its prefix lies inside the range in question; a wide one, 0.0.0.0/0,
 * opens nothing here. The metadata service is reached by no rule.
 */
#ifndef CORDON_REACH_H
#define CORDON_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cordon/abi.h"

#define REACH_NAME_MAX 253 /* RFC 1035, without the final dot */
#define REACH_LABEL_MAX 63
#define REACH_RULE_SIZE (REACH_NAME_MAX + 2 + 12 + 1) /* text of a rule, its NUL included */
#define REACH_PORT_HTTP 80			      /* what a rule without ports means */
#define REACH_PORT_HTTPS 443

/* --- names ------------------------------------------------------------------------------------ */

struct reach_name {
	size_t n;
	char s[REACH_NAME_MAX + 1]; /* in its one form, with NUL */
};

/* Results of reading, besides 0. */
enum reach_fault {
	REACH_MALFORMED = 1, /* nothing that could be meant */
	REACH_ADDRESS,	     /* an address, or what a resolver would take for one */
};

/*
 * Reads text[0..n) as a name; one final dot is passed over where final_dot says so. Returns 0 or enum reach_fault with
 * *ret_reason, a constant text.
 */
int reach_name_read(const char *text, size_t n, bool final_dot, struct reach_name *ret_name,
		    const char **ret_reason);

/* Where somebody wants to go: NAME:PORT. */
struct reach_target {
	struct reach_name name;
	uint16_t port;
};

/*
 * Reads text[0..n) as NAME[:PORT]. fallback: the port without one; 0: there must be one. Results as above; an address in
 * brackets is REACH_ADDRESS.
 */
int reach_target_read(const char *text, size_t n, uint16_t fallback,
		      struct reach_target *ret_target, const char **ret_reason);

/* --- rules ------------------------------------------------------------------------------------ */

struct reach_rule {
	bool below;	 /* `*.`: names below, not the name itself */
	bool usual;	 /* no ports given: 80 and 443 */
	uint16_t lo, hi; /* else these */
	struct reach_name name;
};

/* Reads text[0..n): [*.]NAME[:PORT[-PORT]]. Results as reach_name_read(). */
int reach_rule_read(const char *text, size_t n, struct reach_rule *ret_rule,
		    const char **ret_reason);

/* The rule in its one spelling; reach_rule_read() reads it back. Returns the bytes without NUL. */
size_t reach_rule_write(const struct reach_rule *rule, char ret_text[REACH_RULE_SIZE]);

bool reach_rule_has_name(const struct reach_rule *rule, const struct reach_name *name);
bool reach_rule_has_port(const struct reach_rule *rule, uint16_t port);

/* Does a allow everything that b does? */
bool reach_rule_covers(const struct reach_rule *a, const struct reach_rule *b);

enum reach_verdict {
	REACH_YES,
	REACH_NO_NAME, /* no rule has the name */
	REACH_NO_PORT, /* the name has rules, none with the port */
};

/*
 * domains[0..size): rules as reach_rule_write() writes them, one after another, each with its NUL. What cannot be read
 * there allows nothing.
 */
enum reach_verdict reach_decide_target(const char *domains, size_t size,
				       const struct reach_target *target);

/* --- addresses -------------------------------------------------------------------------------- */

/* A prefix that the policy names, with its TCP ports. */
struct reach_allow {
	struct cordon_addr addr; /* bits beyond the prefix are 0; never IPv4-mapped */
	uint16_t lo, hi;
	uint8_t bits;
	uint8_t pad[3];
};

/* What is not for everybody; rows of a table, longest prefix first. NULL: public. */
struct reach_range {
	struct cordon_addr addr;
	uint8_t bits;
	uint8_t embeds; /* where an IPv4 address lies in it, bytes from the start; 0: none */
	const char *name;
};
const struct reach_range *reach_range_of(const struct cordon_addr *addr);

/* May a prefix of network.allow open addresses that are not public? Only one that lies inside a range of them. */
bool reach_allow_opens(const struct cordon_addr *addr, unsigned int bits);

/*
 * May addr:port be dialled, once its name was allowed? own: it is an address of this host, or the routes lead it nowhere else.
 * NULL: yes; else why not, a constant word: `metadata`, `own`, or the range's.
 */
const char *reach_decide_address(const struct cordon_addr *addr, uint16_t port, bool own,
				 const struct reach_allow *allow, size_t n_allow);

#define REACH_METADATA "metadata"
#define REACH_OWN "own"

#endif
