// SPDX-License-Identifier: Apache-2.0
/*
 * See reach.h: addresses. Of IPv6 nothing is public but 2000::/3, and of that not what stands in the table; forms that
 * carry an IPv4 address are judged by that, too. Which address is the metadata service's is the kernel side's to say
 * (decide.h). Fails closed.
 */
#include "reach/reach.h"

#include <string.h>

#include "cordon/decide.h"
#include "util/util.h"

#define V4(o0, o1, o2, o3, length, word)                                         \
	{                                                                        \
		{ .b = { [12] = (o0), (o1), (o2), (o3) } }, (length), 0, (word), \
	}
#define V6(length, inner, word, ...)                                          \
	{                                                                     \
		{ .v6 = 1, .b = { __VA_ARGS__ } }, (length), (inner), (word), \
	}

/* The registries of RFC 6890 as they are now, and what clouds serve on public addresses. Longest prefix first. */
static const struct reach_range ranges[] = {
	V4(168, 63, 129, 16, 32, "provider"), /* Azure's wire server */
	V4(192, 0, 0, 0, 24, "reserved"),     /* Oracle's metadata among them */
	V4(192, 0, 2, 0, 24, "documentation"),
	V4(192, 88, 99, 0, 24, "reserved"),
	V4(198, 51, 100, 0, 24, "documentation"),
	V4(203, 0, 113, 0, 24, "documentation"),
	V4(169, 254, 0, 0, 16, "link-local"),
	V4(192, 168, 0, 0, 16, "private"),
	V4(198, 18, 0, 0, 15, "benchmarking"),
	V4(172, 16, 0, 0, 12, "private"),
	V4(100, 64, 0, 0, 10, "shared"), /* Alibaba's metadata among them */
	V4(0, 0, 0, 0, 8, "loopback"),
	V4(10, 0, 0, 0, 8, "private"),
	V4(127, 0, 0, 0, 8, "loopback"),
	V4(224, 0, 0, 0, 4, "multicast"),
	V4(240, 0, 0, 0, 4, "reserved"),
	V6(128, 0, "loopback", [15] = 1),
	V6(128, 0, "loopback", 0),
	V6(96, 12, "mapped", [10] = 0xff, 0xff),
	V6(96, 12, "translated", [8] = 0xff, 0xff),
	V6(96, 12, "compatible", 0),
	V6(96, 12, "nat64", 0x00, 0x64, 0xff, 0x9b),
	V6(48, 0, "nat64", 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01),
	V6(64, 0, "reserved", 0x01),
	V6(32, 0, "teredo", 0x20, 0x01),
	V6(32, 0, "documentation", 0x20, 0x01, 0x0d, 0xb8),
	V6(23, 0, "reserved", 0x20, 0x01),
	V6(20, 0, "documentation", 0x3f, 0xff),
	V6(16, 2, "6to4", 0x20, 0x02),
	V6(10, 0, "link-local", 0xfe, 0x80),
	V6(10, 0, "reserved", 0xfe, 0xc0),
	V6(8, 0, "multicast", 0xff),
	V6(7, 0, "private", 0xfc),
};

/* All else of IPv6. */
static const struct reach_range not_global = V6(0, 0, "reserved", 0);

static const __u8 *bytes_of(const struct cordon_addr *addr)
{
	return addr->v6 ? addr->b : addr->b + 12;
}

/* Are the first bits of both the same? Of one family. */
static bool bits_agree(const struct cordon_addr *a, const struct cordon_addr *b, unsigned int bits)
{
	const __u8 *p = bytes_of(a), *q = bytes_of(b);
	unsigned int rest = bits % 8;

	return !memcmp(p, q, bits / 8) && (!rest || (p[bits / 8] ^ q[bits / 8]) >> (8 - rest) == 0);
}

const struct reach_range *reach_range_of(const struct cordon_addr *addr)
{
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (ranges[i].addr.v6 == addr->v6 &&
		    bits_agree(&ranges[i].addr, addr, ranges[i].bits))
			return &ranges[i];
	return addr->v6 && addr->b[0] >> 5 != 1 ? &not_global : NULL;
}

bool reach_allow_opens(const struct cordon_addr *addr, unsigned int bits)
{
	const struct reach_range *range = reach_range_of(addr);

	/* A prefix of all bits may be a public address: this host's own. */
	return bits == (addr->v6 ? 128 : 32) || (range && range->bits && bits >= range->bits);
}

/* exact: only a rule for the one address counts. */
static bool allowed(const struct cordon_addr *addr, uint16_t port, bool exact,
		    const struct reach_allow *allow, size_t n_allow)
{
	for (size_t i = 0; i < n_allow; i++) {
		unsigned int most = addr->v6 ? 128 : 32;

		if (allow[i].addr.v6 == addr->v6 && allow[i].bits <= most &&
		    (exact ? allow[i].bits == most
			   : reach_allow_opens(&allow[i].addr, allow[i].bits)) &&
		    bits_agree(&allow[i].addr, addr, allow[i].bits) && port >= allow[i].lo &&
		    port <= allow[i].hi)
			return true;
	}
	return false;
}

/* What the range embeds is where the packet goes in the end: it has to be allowed for itself. */
static const char *embedded_judge(const struct reach_range *range, const struct cordon_addr *addr,
				  uint16_t port, const struct reach_allow *allow, size_t n_allow)
{
	struct cordon_addr inner = { .v6 = 0 };
	const struct reach_range *inside;

	if (!range->embeds)
		return NULL;
	memcpy(inner.b + 12, addr->b + range->embeds, 4);
	inside = reach_range_of(&inner);
	return inside && !allowed(&inner, port, false, allow, n_allow) ? inside->name : NULL;
}

const char *reach_decide_address(const struct cordon_addr *addr, uint16_t port, bool own,
				 const struct reach_allow *allow, size_t n_allow)
{
	const struct reach_range *range = reach_range_of(addr);

	if (decide_is_metadata(addr))
		return REACH_METADATA;
	if (range && !allowed(addr, port, false, allow, n_allow))
		return range->name;
	if (own && !allowed(addr, port, true, allow, n_allow))
		return REACH_OWN;
	return range ? embedded_judge(range, addr, port, allow, n_allow) : NULL;
}
