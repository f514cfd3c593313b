// SPDX-License-Identifier: Apache-2.0
/*
 * network.domains seen as a whole, and in the form in which the fence's owner hands it to the gateway: rules that add
 * nothing, or that nobody could use, are faults. No privilege, no sockets.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "policy/context.h"
#include "reach/reach.h"

size_t policy_domains_pack(const struct policy *policy, char *to, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < policy->domains.n; i++) {
		size_t n = strlen(policy->domains.v[i]) + 1;

		if (n > size - at)
			break;
		memcpy(to + at, policy->domains.v[i], n);
		at += n;
	}
	return at;
}

/* The rules for TCP that open something which is not public; the proxy needs no other. */
static bool allow_opens(const struct policy_allow *allow)
{
	return (!allow->ports.proto || allow->ports.proto == IPPROTO_TCP) &&
	       reach_allow_opens(&allow->addr, allow->prefix_bits);
}

size_t policy_opens_pack(const struct policy *policy, struct reach_allow *to, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; policy->domains.n && i < policy->n_allow && at < n; i++)
		if (allow_opens(&policy->allow[i]))
			to[at++] = (struct reach_allow){
				.addr = policy->allow[i].addr,
				.bits = policy->allow[i].prefix_bits,
				.lo = policy->allow[i].ports.lo,
				.hi = policy->allow[i].ports.hi,
			};
	return at;
}

static void rule_read(const struct policy *policy, size_t i, struct reach_rule *rule)
{
	const char *text = policy->domains.v[i], *reason;

	reach_rule_read(text, strlen(text), rule, &reason); /* it was read before */
}

static void check_covered(struct policy_context *context, size_t i)
{
	const struct policy *policy = context->policy;
	struct reach_rule rule, other;

	rule_read(policy, i, &rule);
	for (size_t k = 0; k < policy->domains.n; k++) {
		rule_read(policy, k, &other);
		if (k == i || !reach_rule_covers(&other, &rule) ||
		    (k > i && reach_rule_covers(&rule, &other))) /* the same: told of the later */
			continue;
		policy_context_fault(context, context->domain_marks[i],
				     "network.domains: already allowed by `%s` at line %u",
				     policy->domains.v[k], context->domain_marks[k].line);
		return;
	}
}

void policy_check_domains(struct policy_context *context, bool has_gateway)
{
	const struct policy *policy = context->policy;
	size_t bytes = 0, opens = 0;

	if (!policy->domains.n)
		return;
	if (!has_gateway)
		policy_context_fault(context, context->domain_marks[0],
				     "network.domains: can never be used without network.gateway");
	for (size_t i = 0; i < policy->domains.n; i++) {
		bytes += strlen(policy->domains.v[i]) + 1;
		if (bytes <= POLICY_DOMAINS_SIZE)
			continue;
		policy_context_fault(context, context->domain_marks[i],
				     "network.domains: more than %d characters in all; `*.` takes "
				     "names together",
				     POLICY_DOMAINS_SIZE);
		return;
	}
	for (size_t i = 0; i < policy->domains.n; i++)
		check_covered(context, i);
	for (size_t i = 0; i < policy->n_allow; i++) {
		opens += allow_opens(&policy->allow[i]);
		if (opens <= POLICY_OPENS_MAX || !allow_opens(&policy->allow[i]))
			continue;
		policy_context_fault(context, context->allow_marks[i],
				     "network.allow: with network.domains at most %d rules for "
				     "addresses that are not public",
				     POLICY_OPENS_MAX);
		return;
	}
}
