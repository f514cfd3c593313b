// SPDX-License-Identifier: Apache-2.0
/*
 * See nets.h. In sorted order every prefix comes after those that contain it, and these form a
 * stack: the union for a prefix is its own rules and the finished answer of the nearest one on the
 * stack. One pass after sorting.
 *
 * Ranges of one prefix are merged for TCP and for UDP apart - overlapping and adjacent ones become
 * one - and then a range that both have alike is written once with proto 0. That is the least
 * number of ranges: a shared range saves one only where it is a whole range of both.
 */
#include "policy/nets.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "policy/value.h"

struct build {
	const struct policy_allow *allow;
	const struct policy_allow **sorted; /* owned */
	struct cordon_ports *scratch[2];    /* TCP, UDP; owned; room for all rules and a parent */
	struct image_net *nets;		    /* owned */
	bool *overflown;		    /* by index of nets; owned */
	size_t n, n_nets;
	bool any_overflown;
};

static void build_free(struct build *build)
{
	free(build->sorted);
	free(build->scratch[0]);
	free(build->scratch[1]);
	free(build->nets);
	free(build->overflown);
}
#define _cleanup_build_ __attribute__((cleanup(build_free)))

static int allow_compare(const void *a, const void *b)
{
	const struct policy_allow *x = *(const struct policy_allow *const *)a;
	const struct policy_allow *y = *(const struct policy_allow *const *)b;
	int order = policy_prefix_compare(&x->addr, x->prefix_bits, &y->addr, y->prefix_bits);

	return order ? order : (x > y) - (x < y);
}

static int ports_compare(const void *a, const void *b)
{
	const struct cordon_ports *x = a, *y = b;

	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	if (x->hi != y->hi)
		return x->hi < y->hi ? -1 : 1;
	return (x->proto > y->proto) - (x->proto < y->proto);
}

/* Sorts and merges ranges in place; returns how many are left. */
static size_t ports_merge(struct cordon_ports *ports, size_t n)
{
	size_t kept = 0;

	if (n == 0)
		return 0;
	qsort(ports, n, sizeof(*ports), ports_compare);
	for (size_t i = 1; i < n; i++) {
		if (ports[i].lo <= (unsigned int)ports[kept].hi + 1) {
			if (ports[i].hi > ports[kept].hi)
				ports[kept].hi = ports[i].hi;
		} else {
			ports[++kept] = ports[i];
		}
	}
	return kept + 1;
}

static void net_put(struct cordon_net *net, size_t *count, struct cordon_ports ports, __u8 proto)
{
	if (*count < CORDON_PORTS_PER_NET)
		net->ports[net->n++] =
			(struct cordon_ports){ .proto = proto, .lo = ports.lo, .hi = ports.hi };
	++*count;
}

/*
 * Writes merged TCP and UDP ranges into net in order, as far as they fit. Returns how many it
 * takes.
 */
static size_t net_fill(struct cordon_net *net, const struct cordon_ports *tcp, size_t n_tcp,
		       const struct cordon_ports *udp, size_t n_udp)
{
	size_t t = 0, u = 0, count = 0;
	int order;

	while (t < n_tcp || u < n_udp) {
		if (t == n_tcp)
			order = 1;
		else if (u == n_udp)
			order = -1;
		else
			order = tcp[t].lo != udp[u].lo
					? (tcp[t].lo < udp[u].lo ? -1 : 1)
					: (tcp[t].hi > udp[u].hi) - (tcp[t].hi < udp[u].hi);
		if (order < 0)
			net_put(net, &count, tcp[t++], IPPROTO_TCP);
		else if (order > 0)
			net_put(net, &count, udp[u++], IPPROTO_UDP);
		else
			net_put(net, &count, tcp[t++], (u++, 0));
	}
	return count;
}

/* Adds ports to the scratch list of each protocol that they are for. */
static void scratch_add(struct build *build, size_t used[2], struct cordon_ports ports)
{
	static const __u8 protos[2] = { IPPROTO_TCP, IPPROTO_UDP };

	for (int i = 0; i < 2; i++) {
		if (ports.proto && ports.proto != protos[i])
			continue;
		build->scratch[i][used[i]] = ports;
		build->scratch[i][used[i]].proto = 0;
		used[i]++;
	}
}

/*
 * The nearest prefix on the stack that contains allow, if its ports hold there too; pops those that
 * do not contain it. NULL: none.
 */
static const struct image_net *stack_parent(const struct build *build, size_t *stack, size_t *depth,
					    const struct policy_allow *allow)
{
	while (*depth) {
		const struct image_net *top = &build->nets[stack[*depth - 1]];

		if (policy_prefix_covers(&top->addr, top->prefix_bits, &allow->addr,
					 allow->prefix_bits))
			return policy_prefix_inherits(&top->addr, top->prefix_bits, &allow->addr,
						      allow->prefix_bits)
				       ? top
				       : NULL;
		--*depth;
	}
	return NULL;
}

static bool allow_same_prefix(const struct policy_allow *a, const struct policy_allow *b)
{
	return policy_prefix_compare(&a->addr, a->prefix_bits, &b->addr, b->prefix_bits) == 0;
}

/*
 * Makes the net of the rules sorted[first..end), which share a prefix. Returns the ranges that it
 * takes.
 */
static size_t build_net(struct build *build, size_t first, size_t end,
			const struct image_net *parent)
{
	struct image_net *net = &build->nets[build->n_nets];
	size_t used[2] = { 0, 0 };

	net->addr = build->sorted[first]->addr;
	net->prefix_bits = build->sorted[first]->prefix_bits;
	net->net.loopback = policy_prefix_is_loopback(&net->addr, net->prefix_bits);
	for (size_t i = 0; parent && i < parent->net.n; i++)
		scratch_add(build, used, parent->net.ports[i]);
	for (size_t i = first; i < end; i++)
		scratch_add(build, used, build->sorted[i]->ports);
	for (int i = 0; i < 2; i++)
		used[i] = ports_merge(build->scratch[i], used[i]);
	return net_fill(&net->net, build->scratch[0], used[0], build->scratch[1], used[1]);
}

static void build_run(struct build *build, policy_nets_overflow_fn *overflow, void *data)
{
	size_t stack[130], depth = 0, end, ranges;

	for (size_t first = 0; first < build->n; first = end) {
		const struct image_net *parent =
			stack_parent(build, stack, &depth, build->sorted[first]);
		bool above = parent && build->overflown[parent - build->nets];

		end = first + 1;
		while (end < build->n &&
		       allow_same_prefix(build->sorted[first], build->sorted[end]))
			end++;
		ranges = build_net(build, first, end, parent);
		build->overflown[build->n_nets] = above || ranges > CORDON_PORTS_PER_NET;
		build->any_overflown |= build->overflown[build->n_nets];
		/* Prefixes inside one that overflows are not reported again. */
		if (ranges > CORDON_PORTS_PER_NET && !above && overflow)
			overflow(data, (size_t)(build->sorted[first] - build->allow), ranges);
		stack[depth++] = build->n_nets++;
	}
}

static int build_prepare(struct build *build)
{
	size_t room = build->n + CORDON_PORTS_PER_NET;

	build->sorted = calloc(build->n + 1, sizeof(*build->sorted));
	build->scratch[0] = calloc(room, sizeof(struct cordon_ports));
	build->scratch[1] = calloc(room, sizeof(struct cordon_ports));
	build->nets = calloc(build->n + 1, sizeof(*build->nets));
	build->overflown = calloc(build->n + 1, sizeof(*build->overflown));
	if (!build->sorted || !build->scratch[0] || !build->scratch[1] || !build->nets ||
	    !build->overflown)
		return -ENOMEM;
	for (size_t i = 0; i < build->n; i++)
		build->sorted[i] = &build->allow[i];
	qsort(build->sorted, build->n, sizeof(*build->sorted), allow_compare);
	return 0;
}

int policy_nets_build(const struct policy_allow *allow, size_t n, policy_nets_overflow_fn *overflow,
		      void *data, struct image_net **ret_nets, size_t *ret_n)
{
	_cleanup_build_ struct build build = { .allow = allow, .n = n };
	int r;

	r = build_prepare(&build);
	if (r < 0)
		return r;
	build_run(&build, overflow, data);
	if (build.any_overflown)
		return -E2BIG;
	*ret_nets = TAKE_PTR(build.nets);
	*ret_n = build.n_nets;
	return 0;
}

/*
 * Do the ranges of net hold all of lo..hi for proto (TCP or UDP)? Ranges of one protocol are merged
 * and in order.
 */
static bool net_holds(const struct cordon_net *net, __u8 proto, unsigned int lo, unsigned int hi)
{
	for (size_t i = 0; i < net->n; i++)
		if ((!net->ports[i].proto || net->ports[i].proto == proto) &&
		    net->ports[i].lo <= lo && hi <= net->ports[i].hi)
			return true;
	return false;
}

bool policy_nets_includes(const struct cordon_net *whole, const struct cordon_net *part)
{
	for (size_t i = 0; i < part->n; i++) {
		const struct cordon_ports *ports = &part->ports[i];

		if (ports->proto != IPPROTO_UDP &&
		    !net_holds(whole, IPPROTO_TCP, ports->lo, ports->hi))
			return false;
		if (ports->proto != IPPROTO_TCP &&
		    !net_holds(whole, IPPROTO_UDP, ports->lo, ports->hi))
			return false;
	}
	return true;
}

bool policy_nets_is_canonical(const struct cordon_net *net)
{
	struct cordon_ports scratch[2][CORDON_PORTS_PER_NET];
	struct build build = { .scratch = { scratch[0], scratch[1] } };
	struct cordon_net again = { .loopback = net->loopback };
	size_t used[2] = { 0, 0 };

	if (net->n == 0 || net->n > CORDON_PORTS_PER_NET)
		return false;
	for (size_t i = 0; i < net->n; i++) {
		const struct cordon_ports *ports = &net->ports[i];

		if (ports->lo > ports->hi ||
		    (ports->proto && ports->proto != IPPROTO_TCP && ports->proto != IPPROTO_UDP))
			return false;
		scratch_add(&build, used, *ports);
	}
	for (int i = 0; i < 2; i++)
		used[i] = ports_merge(scratch[i], used[i]);
	net_fill(&again, scratch[0], used[0], scratch[1], used[1]);
	return !memcmp(&again, net, sizeof(again));
}
