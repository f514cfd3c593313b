// SPDX-License-Identifier: GPL-2.0
/*
 * What is proved of include/cordon/decide.h, for all inputs. Each function is compiled as the kernel programs are, by the same
 * compiler for the same machine, and executed symbolically by tests/prove/symbolic.py: `in` is memory of which nothing is known. It
 * returns 0 when the property holds. The specification is written a second time here, in other words than decide.h: byte by byte.
 */
#include <linux/bpf.h>
#include <linux/types.h>

#include "cordon/abi.h"
#include "cordon/decide.h"

#define PROPERTY(name) __attribute__((section("prove/" #name), used)) int name(struct input *in)
#define HOLDS(x) return (x) ? 0 : 1

/* Of everything that a decision may depend on, any value. */
struct input {
	struct cordon_policy policy;
	struct cordon_net net;
	struct cordon_addr addr;
	__u8 raw[16];
	__u32 a, b, c;
	__u16 port;
	__u8 proto;
	__u8 v6;
};

static inline __attribute__((always_inline)) int is_meta4(const __u8 *b)
{
	return b[0] == 169 && b[1] == 254;
}

static inline __attribute__((always_inline)) int begins(const __u8 *b, __u8 p0, __u8 p1, __u8 p2,
							__u8 p3)
{
	return b[0] == p0 && b[1] == p1 && b[2] == p2 && b[3] == p3;
}

static inline __attribute__((always_inline)) int zero(const __u8 *b, int from, int to)
{
	__u8 all = 0;

	for (int i = from; i < to; i++)
		all |= b[i];
	return !all;
}

/* NAT64 in 64:ff9b:1::/48 by a prefix of 48, 56 or 64 bits; byte 8 is none of the address (RFC 6052, 2.2). */
static inline __attribute__((always_inline)) int is_meta_nat64(const __u8 *b)
{
	__u8 by56[2] = { b[7], b[9] };

	return begins(b, 0x00, 0x64, 0xff, 0x9b) && begins(b + 2, 0xff, 0x9b, 0, 1) &&
	       (is_meta4(b + 6) || is_meta4(by56) || is_meta4(b + 9));
}

/* Is 16 bytes of an IPv6 address the metadata service: the list of docs/threat-model.md, entry by entry. */
static inline __attribute__((always_inline)) int is_meta6(const __u8 *b)
{
	__u8 inverted[4] = { (__u8)~b[12], (__u8)~b[13] };
	int embeds = is_meta4(b + 12);

	return begins(b, 0xfd, 0x00, 0x0e, 0xc2) ||			       /* fd00:ec2::/32 */
	       (embeds && zero(b, 0, 12)) ||				       /* ::a.b.c.d */
	       (embeds && zero(b, 0, 10) && b[10] == 0xff && b[11] == 0xff) || /* mapped */
	       (embeds && zero(b, 0, 8) && b[8] == 0xff && b[9] == 0xff &&
		zero(b, 10, 12)) ||				/* translated */
	       (embeds && begins(b, 0x00, 0x64, 0xff, 0x9b)) || /* NAT64, both prefixes */
	       is_meta_nat64(b) ||
	       (b[0] == 0x20 && b[1] == 0x02 && is_meta4(b + 2)) ||   /* 6to4 */
	       (begins(b, 0x20, 0x01, 0, 0) && is_meta4(inverted)) || /* Teredo */
	       (embeds && (b[8] & 0xfc) == 0 && b[9] == 0 && b[10] == 0x5e &&
		b[11] == 0xfe) ||				  /* ISATAP */
	       (embeds && b[0] == 0xfe && (b[1] & 0xc0) == 0x80); /* fe80::/10 */
}

static inline __attribute__((always_inline)) __u32 rule_of(const struct input *in,
							   const struct cordon_policy *policy,
							   const struct cordon_addr *a,
							   const struct cordon_net *net)
{
	return decide_net(policy, a, decide_class(a), in->proto, in->port, net);
}

/* The metadata service in every IPv6 spelling is known as such, and nothing else is. */
PROPERTY(metadata_is_known_6)
{
	struct cordon_addr a;

	decide_addr6(&a, in->raw);
	HOLDS(!decide_is_metadata(&a) == !is_meta6(in->raw));
}

PROPERTY(metadata_is_known_4)
{
	struct cordon_addr a;

	decide_addr4(&a, in->raw);
	HOLDS(!decide_is_metadata(&a) == !is_meta4(in->raw));
}

/* Whatever policy, prefix, port and protocol: the metadata service is denied, in audit mode too. */
PROPERTY(metadata_is_never_allowed)
{
	__u32 rule;

	if (!decide_is_metadata(&in->addr))
		return 0;
	rule = rule_of(in, &in->policy, &in->addr, in->v6 ? &in->net : 0);
	HOLDS(rule == CORDON_RULE_NET_METADATA && !decide_allows(rule) && decide_always(rule));
}

/* A mapped IPv4 address is judged as the IPv4 address that it is. */
PROPERTY(mapped_is_the_same)
{
	struct cordon_addr four, six;
	__u8 mapped[16] = { 0 }, differ = 0;

	mapped[10] = mapped[11] = 0xff;
	for (int i = 0; i < 4; i++)
		mapped[12 + i] = in->raw[i];
	decide_addr4(&four, in->raw);
	decide_addr6(&six, mapped);
	for (int i = 0; i < 16; i++)
		differ |= four.b[i] ^ six.b[i];
	HOLDS(!six.v6 && decide_class(&four) == decide_class(&six) && !differ);
}

/* Loopback is 127/8, 0/8, ::1 and ::. */
PROPERTY(loopback_is_known)
{
	struct cordon_addr a;
	int want;

	if (in->v6) {
		decide_addr6(&a, in->raw);
		want = (zero(in->raw, 0, 15) && in->raw[15] <= 1) ||
		       (zero(in->raw, 0, 10) && in->raw[10] == 0xff && in->raw[11] == 0xff &&
			(in->raw[12] == 127 || in->raw[12] == 0));
	} else {
		decide_addr4(&a, in->raw);
		want = in->raw[0] == 127 || in->raw[0] == 0;
	}
	HOLDS(!decide_is_loopback(&a) == !want);
}

/* Only TCP and UDP have a yes. */
PROPERTY(other_protocols_are_denied)
{
	if (in->proto == 6 || in->proto == 17)
		return 0;
	HOLDS(!decide_allows(rule_of(in, &in->policy, &in->addr, &in->net)));
}

/* Sockets: unix; TCP and UDP over IPv4 and IPv6; NETLINK_ROUTE. Of all 2^96 triples no other. */
PROPERTY(sockets_are_listed)
{
	int family = (int)in->a, type = (int)in->b, protocol = (int)in->c;
	int want =
		family == 1 || (family == 16 && protocol == 0) ||
		((family == 2 || family == 10) && type == 1 && (protocol == 0 || protocol == 6)) ||
		((family == 2 || family == 10) && type == 2 && (protocol == 0 || protocol == 17));

	HOLDS(!decide_allows(decide_socket(family, type, protocol)) == !want);
}

/* Devices: null, zero, full, random, urandom, tty, ptmx, pty slaves. */
PROPERTY(devices_are_listed)
{
	__u32 major = in->b >> 20, minor = in->b << 12 >> 12;
	int want = (in->a & 0170000) == 0020000 &&
		   ((major == 1 &&
		     (minor == 3 || minor == 5 || minor == 7 || minor == 8 || minor == 9)) ||
		    (major == 5 && (minor == 0 || minor == 2)) || (major >= 136 && major < 144));

	HOLDS(!decide_allows(decide_device(in->a, in->b)) == !want);
}

/* Writing takes a writable root, or an object that no path leads to; a walk without an end is neither. */
PROPERTY(writing_needs_a_root)
{
	HOLDS(!decide_allows(decide_write(in->a, in->b)) == !((in->a & 1) || in->b >> 31));
}

PROPERTY(reading_is_denied_below_denied_roots)
{
	HOLDS(!decide_allows(decide_read(in->a)) ==
	      !!(in->a & CORDON_ROOT_READ_DENY || in->a >> 31));
}

PROPERTY(reading_by_list_needs_a_root)
{
	HOLDS(!decide_allows(decide_read_listed(in->a, in->b)) ==
	      !((in->a & CORDON_ROOT_READ_ALLOW) || (in->a & CORDON_ROOT_WRITE) || in->b >> 31));
}

PROPERTY(executing_is_denied_below_denied_roots)
{
	HOLDS(!decide_allows(decide_exec(in->a)) ==
	      !!(in->a & CORDON_ROOT_EXEC_DENY || in->a >> 31));
}

PROPERTY(executing_by_list_needs_a_root)
{
	HOLDS(!decide_allows(decide_exec_listed(in->a)) ==
	      !((in->a & CORDON_ROOT_EXEC_ALLOW) && !(in->a >> 31)));
}

/* The capabilities that count, one by one; of all 2^32 numbers no other. */
PROPERTY(capabilities_are_listed)
{
	__u32 cap = in->a;
	int want = cap <= 10 || cap == 13 || cap == 14 || cap == 18 || cap == 19 || cap == 27 ||
		   cap == 29 || cap == 31 || cap == 39;

	HOLDS(!decide_allows(decide_capability(cap)) == !want);
}

/* No control message names an interface but where the caller is told to look, and none of a socket carries a mark. */
PROPERTY(controls)
{
	int level = (int)in->a, type = (int)in->b, where = decide_control(level, type);
	int index4 = level == 0 && type == 8, index6 = level == 41 && (type == 50 || type == 2);
	int headers = level == 41 && ((type >= 3 && type <= 6) || (type >= 53 && type <= 59));

	if (index4 || index6)
		HOLDS(where == (index4 ? 0 : 16));
	if ((level == 1 && type == 36) || (level == 0 && type == 7) || headers)
		HOLDS(where == DECIDE_CONTROL_DENIED);
	HOLDS(where == DECIDE_CONTROL_DENIED || where == DECIDE_CONTROL_OK);
}

/* A rule that stands in audit mode is a denial, and numbers beyond the table deny. */
PROPERTY(rules_beyond_the_table_deny)
{
	if (in->a < CORDON_RULE_COUNT)
		HOLDS(!decide_always(in->a) || !decide_allows(in->a));
	HOLDS(!decide_allows(in->a));
}
