// SPDX-License-Identifier: Apache-2.0
/*
 * No rule widens another, in a small world, completely: every list of up to three rules of network.allow that can be
 * made of a few prefixes, port ranges and protocols is compiled, and what the compiled list answers for every address,
 * port and protocol of that world is what its rules allow one by one. The prefixes lie in each other, beside each other,
 * and partly in loopback, so that every way in which two of them can lie occurs; policy_nets_build() only compares and
 * sorts, so larger lists are made of these cases. The question for one rule is written here a second time.
 *
 * And of roots: what each bit of their flags decides, for all sets of them. A root that forbids is never outvoted.
 *
 * usage: rules        TAP lines, the count last; exit 1 when something does not hold
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cordon/decide.h"
#include "policy/nets.h"
#include "util/util.h"

struct prefix {
	bool v6;
	uint8_t bytes[16]; /* of IPv4 the first four */
	unsigned int bits;
	bool loopback; /* all of it is */
};

static const struct prefix prefixes[] = {
	{ false, { 0 }, 0, false },
	{ false, { 10 }, 30, false },
	{ false, { 10 }, 31, false },
	{ false, { 10, 0, 0, 2 }, 31, false },
	{ false, { 10 }, 32, false },
	{ false, { 10, 0, 0, 1 }, 32, false },
	{ false, { 10, 0, 0, 3 }, 32, false },
	{ false, { 126 }, 7, false },
	{ false, { 127 }, 8, true },
	{ false, { 127, 0, 0, 1 }, 32, true },
	{ true, { 0 }, 0, false },
	{ true, { [15] = 1 }, 128, true },
};

static const struct cordon_ports ports[] = {
	{ .lo = 0, .hi = 65535 }, { .lo = 1, .hi = 1 }, { .lo = 2, .hi = 2 },
	{ .lo = 1, .hi = 2 },	  { .lo = 2, .hi = 3 }, { .lo = 3, .hi = 3 },
};

static const uint8_t protos[] = { 0, IPPROTO_TCP, IPPROTO_UDP };

static const struct asked {
	bool v6;
	uint8_t bytes[16];
	bool loopback, metadata;
} addresses[] = {
	{ false, { 10, 0, 0, 0 }, false, false },   { false, { 10, 0, 0, 1 }, false, false },
	{ false, { 10, 0, 0, 2 }, false, false },   { false, { 10, 0, 0, 3 }, false, false },
	{ false, { 10, 0, 0, 4 }, false, false },   { false, { 126, 0, 0, 1 }, false, false },
	{ false, { 127, 0, 0, 1 }, true, false },   { false, { 127, 0, 0, 2 }, true, false },
	{ false, { 169, 254, 1, 1 }, false, true }, { true, { 0x20, 1 }, false, false },
	{ true, { [15] = 1 }, true, false },
};

enum {
	RULES = ARRAY_SIZE(prefixes) * ARRAY_SIZE(ports) * ARRAY_SIZE(protos),
	PORT_MAX = 4, /* ports 1 to this are asked */
	QUESTIONS = ARRAY_SIZE(addresses) * PORT_MAX * 2,
};

/* One rule, as the policy has it, and what it allows: a bit for each question. */
static struct rule {
	struct policy_allow allow;
	uint8_t allows[QUESTIONS];
} rules[RULES];

static bool prefix_holds(const struct prefix *prefix, const struct asked *asked)
{
	for (unsigned int i = 0; i < prefix->bits; i++)
		if ((prefix->bytes[i / 8] ^ asked->bytes[i / 8]) >> (7 - i % 8) & 1)
			return false;
	return prefix->v6 == asked->v6;
}

static bool rule_allows(const struct prefix *prefix, const struct cordon_ports *range,
			uint8_t rule_proto, const struct asked *asked, unsigned int port,
			uint8_t proto)
{
	return prefix_holds(prefix, asked) && range->lo <= port && port <= range->hi &&
	       (!rule_proto || rule_proto == proto) && !asked->metadata &&
	       (!asked->loopback || prefix->loopback);
}

static struct cordon_addr address_of(bool v6, const uint8_t *bytes)
{
	struct cordon_addr a = { .v6 = v6 };

	memcpy(a.b + (v6 ? 0 : 12), bytes, v6 ? 16 : 4);
	return a;
}

/* Calls of question(): which address, port and protocol number i asks for. */
static const struct asked *question(size_t i, unsigned int *ret_port, uint8_t *ret_proto)
{
	*ret_proto = i % 2 ? IPPROTO_UDP : IPPROTO_TCP;
	*ret_port = i / 2 % PORT_MAX + 1;
	return &addresses[i / 2 / PORT_MAX];
}

static void rules_make(void)
{
	for (size_t n = 0; n < RULES; n++) {
		const struct prefix *prefix = &prefixes[n % ARRAY_SIZE(prefixes)];
		const struct cordon_ports *range =
			&ports[n / ARRAY_SIZE(prefixes) % ARRAY_SIZE(ports)];
		uint8_t proto = protos[n / ARRAY_SIZE(prefixes) / ARRAY_SIZE(ports)];
		struct rule *rule = &rules[n];

		rule->allow.addr = address_of(prefix->v6, prefix->bytes);
		rule->allow.prefix_bits = prefix->bits;
		rule->allow.ports = *range;
		rule->allow.ports.proto = proto;
		for (size_t i = 0; i < QUESTIONS; i++) {
			unsigned int port;
			uint8_t asked_proto;
			const struct asked *asked = question(i, &port, &asked_proto);

			rule->allows[i] =
				rule_allows(prefix, range, proto, asked, port, asked_proto);
		}
	}
}

/* What the kernel's trie finds: the longest prefix. */
static const struct cordon_net *longest(const struct image_net *nets, size_t n,
					const struct cordon_addr *a)
{
	const struct image_net *found = NULL;

	for (size_t i = 0; i < n; i++) {
		const uint8_t *net = nets[i].addr.b + (a->v6 ? 0 : 12),
			      *bytes = a->b + (a->v6 ? 0 : 12);
		unsigned int whole = nets[i].prefix_bits / 8, rest = nets[i].prefix_bits % 8;

		if (nets[i].addr.v6 == a->v6 && !memcmp(net, bytes, whole) &&
		    (!rest || !((net[whole] ^ bytes[whole]) >> (8 - rest))) &&
		    (!found || found->prefix_bits <= nets[i].prefix_bits))
			found = &nets[i];
	}
	return found ? &found->net : NULL;
}

static unsigned long tried, refused;

/* Does the list of n rules allow what one of them allows, and nothing else? */
static bool list_holds(const size_t *chosen, size_t n)
{
	static const struct cordon_policy policy = { .loopback = CORDON_LOOPBACK_DENY };
	_cleanup_free_ struct image_net *nets = NULL;
	struct policy_allow list[3];
	size_t n_nets;

	for (size_t i = 0; i < n; i++)
		list[i] = rules[chosen[i]].allow;
	tried++;
	if (policy_nets_build(list, n, NULL, NULL, &nets, &n_nets)) {
		refused++;
		return true;
	}
	for (size_t i = 0; i < QUESTIONS; i++) {
		unsigned int port;
		uint8_t proto, wanted = 0;
		const struct asked *asked = question(i, &port, &proto);
		struct cordon_addr a = address_of(asked->v6, asked->bytes);
		uint32_t rule = decide_net(&policy, &a, decide_class(&a), proto, port,
					   longest(nets, n_nets, &a));

		for (size_t k = 0; k < n; k++)
			wanted |= rules[chosen[k]].allows[i];
		if (!decide_allows(rule) == !wanted)
			continue;
		printf("# rules %zu %zu %zu: question %zu: rule %u, wanted %u\n", chosen[0],
		       n > 1 ? chosen[1] : 0, n > 2 ? chosen[2] : 0, i, rule, wanted);
		return false;
	}
	return true;
}

static bool lists_hold(void)
{
	size_t chosen[3];

	for (chosen[0] = 0; chosen[0] < RULES; chosen[0]++) {
		if (!list_holds(chosen, 1))
			return false;
		/* Two in both orders, so that it is seen that the order is nothing. */
		for (chosen[1] = 0; chosen[1] < RULES; chosen[1]++) {
			if (!list_holds(chosen, 2))
				return false;
			for (chosen[2] = chosen[1]; chosen[1] >= chosen[0] && chosen[2] < RULES;
			     chosen[2]++)
				if (!list_holds(chosen, 3))
					return false;
		}
	}
	return true;
}

/* --- roots -------------------------------------------------------------------------------------------------- */

enum { ROOT_FLAGS = 64 }; /* all sets of enum cordon_root_flag */

static bool allows(uint32_t rule)
{
	return decide_allows(rule);
}

static bool flags_hold(uint32_t flags, uint32_t sb)
{
	bool write = flags & CORDON_ROOT_WRITE, nowhere = sb & DECIDE_SB_NOUSER,
	     unknown = flags & DECIDE_ROOT_UNKNOWN;

	return allows(decide_write(flags, sb)) == (write || nowhere) &&
	       allows(decide_read(flags)) == !(flags & CORDON_ROOT_READ_DENY || unknown) &&
	       allows(decide_read_listed(flags, sb)) ==
		       (flags & CORDON_ROOT_READ_ALLOW || write || nowhere) &&
	       allows(decide_exec(flags)) == !(flags & CORDON_ROOT_EXEC_DENY || unknown) &&
	       allows(decide_exec_listed(flags)) == (flags & CORDON_ROOT_EXEC_ALLOW && !unknown);
}

static bool roots_hold(void)
{
	for (uint32_t flags = 0; flags < ROOT_FLAGS; flags++)
		for (int i = 0; i < 4; i++)
			if (!flags_hold(flags | (i & 1 ? DECIDE_ROOT_UNKNOWN : 0),
					i & 2 ? DECIDE_SB_NOUSER : 0))
				return false;
	return true;
}

int main(void)
{
	bool lists, roots;

	rules_make();
	lists = lists_hold();
	printf("%s 1 - rules: %lu lists of up to 3 of %d rules allow what their rules allow, %lu "
	       "were refused\n",
	       lists ? "ok" : "not ok", tried, RULES, refused);
	roots = roots_hold();
	printf("%s 2 - rules: each bit of a root's flags decides its own question, in all %d "
	       "sets\n",
	       roots ? "ok" : "not ok", ROOT_FLAGS);
	printf("%d passed, %d failed\n", lists + roots, 2 - lists - roots);
	return !(lists && roots);
}
