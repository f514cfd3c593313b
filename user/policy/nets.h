/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the policy library: network.allow -> prefixes for a longest-prefix match. No privilege. */
#ifndef CORDON_POLICY_NETS_H
#define CORDON_POLICY_NETS_H

#include "policy/policy.h"

/*
 * Called for a prefix that would need more than CORDON_PORTS_PER_NET ranges; allow[index] is a rule
 * of it.
 */
typedef void policy_nets_overflow_fn(void *data, size_t index, size_t ranges);

/*
 * Sorts n rules into distinct prefixes (IPv4 first, by address, the wider first). Each gets the
 * union of what all rules that cover it allow, as few ranges as possible, so that the longest match
 * is the whole answer. Returns 0 and *ret_nets (free()) with *ret_n entries, -E2BIG after overflow
 * (may be NULL) was called for each prefix that does not fit, or -ENOMEM.
 */
int policy_nets_build(const struct policy_allow *allow, size_t n, policy_nets_overflow_fn *overflow,
		      void *data, struct image_net **ret_nets, size_t *ret_n);

/* Is everything that `part` allows also allowed by `whole`? Both as policy_nets_build() makes them.
 */
bool policy_nets_includes(const struct cordon_net *whole, const struct cordon_net *part);

/* Are ranges, counts and padding of net as policy_nets_build() makes them? */
bool policy_nets_is_canonical(const struct cordon_net *net);

#endif
