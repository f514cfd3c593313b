/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the policy library: single values - addresses, prefixes, ports, paths, names - from text
 * to what the model holds. Strict: one spelling per value where spellings differ in meaning. No
 * privilege, no look at the system. Functions return 0 or -EINVAL with the cause in *error.
 */
#ifndef CORDON_POLICY_VALUE_H
#define CORDON_POLICY_VALUE_H

#include "policy/keys.h"
#include "policy/policy.h"
#include "util/util.h"

/* ADDRESS:PORT, or [ADDRESS]:PORT for IPv6. */
int policy_value_gateway(const char *text, struct cordon_gateway *ret_gateway, struct error *error);

/* ADDRESS or ADDRESS/BITS without host bits. IPv4-mapped ones become IPv4. */
int policy_value_prefix(const char *text, struct cordon_addr *ret_addr, uint8_t *ret_bits,
			struct error *error);

/* N or N-M within 1..65535; sets lo and hi. */
int policy_value_ports(const char *text, struct cordon_ports *ret_ports, struct error *error);

/*
 * An absolute path, without "..", made canonical as text: no ".", no empty component, no trailing
 * slash. Also returns -ENOMEM (*error then stays empty). *ret_path is to be freed.
 */
int policy_value_path(const char *text, char **ret_path, struct error *error);

/* Is it as policy_value_path() makes it? */
bool policy_path_is_canonical(const char *path);

/* The name of a policy. */
int policy_value_name(const char *text, struct error *error);

/* The name of an environment variable. */
int policy_value_env_name(const char *text, struct error *error);

/* What the gateway may be asked for: "refund:create". */
int policy_value_scope(const char *text, struct error *error);

int policy_value_label(const char *key, const char *value, struct error *error);

/*
 * Numbers with a unit, without sign, blank or exponent: processors in thousandths ("1.5", at most three places), a
 * whole number, bytes ("64M": K, M, G, T are powers of 1024), milliseconds ("30m": s, m, h, d). What is outside
 * least..most is refused with the range in the same unit.
 */
int policy_value_quantity(enum policy_type type, const char *text, uint64_t least, uint64_t most,
			  uint64_t *ret_value, struct error *error);

/* Does prefix a contain prefix b, or equal it? */
bool policy_prefix_covers(const struct cordon_addr *a, unsigned int a_bits,
			  const struct cordon_addr *b, unsigned int b_bits);

/* Does all of the prefix lie in loopback, as decide_is_loopback() has it? */
bool policy_prefix_is_loopback(const struct cordon_addr *addr, unsigned int bits);

/* Does what prefix a allows hold in prefix b? It contains b, and is not wide and b in loopback. */
bool policy_prefix_inherits(const struct cordon_addr *a, unsigned int a_bits,
			    const struct cordon_addr *b, unsigned int b_bits);

/* Orders prefixes: IPv4 first, then by address, then the shorter one first. Like memcmp. */
int policy_prefix_compare(const struct cordon_addr *a, unsigned int a_bits,
			  const struct cordon_addr *b, unsigned int b_bits);

/* Are the bits beyond the prefix all 0, and is the number of bits possible for the family? */
bool policy_prefix_is_canonical(const struct cordon_addr *addr, unsigned int bits);

/*
 * Does every address of the prefix belong to the metadata service (169.254.0.0/16, fd00:ec2::/32),
 * also in the IPv6 forms that carry an IPv4 address (mapped, compatible, translated, NAT64, 6to4,
 * Teredo, ISATAP, link-local)?
 */
bool policy_prefix_is_metadata(const struct cordon_addr *addr, unsigned int bits);

/* Can a TCP connection to this address exist: neither unspecified nor multicast nor reserved? */
bool policy_addr_is_unicast(const struct cordon_addr *addr);

/* 32 or 128. */
unsigned int policy_addr_bits(const struct cordon_addr *addr);

/* "10.0.0.0/8"; without /BITS for a single address. */
struct policy_prefix_text {
	char s[64];
};
struct policy_prefix_text policy_prefix_format(const struct cordon_addr *addr, unsigned int bits);

#endif
