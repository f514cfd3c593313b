// SPDX-License-Identifier: Apache-2.0
/* See judge.h. */
#include "resolver/judge.h"

#include <math.h>
#include <string.h>

double judge_bits(const char *text, size_t n)
{
	unsigned int count[256] = { 0 };
	double bits = 0;

	for (size_t i = 0; i < n; i++)
		count[(unsigned char)text[i]]++;
	for (size_t i = 0; i < 256; i++)
		if (count[i])
			bits += count[i] * log2((double)n / count[i]);
	return bits;
}

/* What stands before the rule's labels, without the dot between them. */
static enum ledger_code below_judge(const char *text, size_t n)
{
	size_t labels = 0, at = 0;
	double bits = 0;

	if (n > JUDGE_BELOW_MAX)
		return LEDGER_LABEL_DENIED;
	while (at < n) {
		const char *dot = memchr(text + at, '.', n - at);
		size_t label = dot ? (size_t)(dot - text) - at : n - at;

		if (label > JUDGE_LABEL_MAX || ++labels > JUDGE_LABELS_MAX)
			return LEDGER_LABEL_DENIED;
		bits += judge_bits(text + at, label);
		at += label + 1;
	}
	return bits > JUDGE_BITS_MAX ? LEDGER_LABEL_DENIED : LEDGER_OK;
}

enum ledger_code judge_name(const char *domains, size_t size, const struct reach_name *name,
			    bool *ret_chosen)
{
	size_t longest = 0, n;
	struct reach_rule rule;
	const char *reason;

	*ret_chosen = false;
	for (size_t at = 0; at < size; at += n + 1) {
		n = strnlen(domains + at, size - at);
		if (at + n == size) /* without its end */
			break;
		if (reach_rule_read(domains + at, n, &rule, &reason) != 0 ||
		    !reach_rule_has_name(&rule, name))
			continue;
		if (!rule.below)
			return LEDGER_OK;
		*ret_chosen = true;
		if (rule.name.n > longest)
			longest = rule.name.n;
	}
	if (!*ret_chosen)
		return LEDGER_DOMAIN_DENIED;
	return below_judge(name->s, name->n - longest - 1);
}

const char *judge_address(const struct cordon_addr *addr, bool own, const struct reach_allow *allow,
			  size_t n_allow)
{
	const char *why = reach_decide_address(addr, REACH_PORT_HTTPS, own, allow, n_allow);

	for (size_t i = 0; why && i < n_allow; i++) {
		const char *other = reach_decide_address(addr, allow[i].lo, own, allow, n_allow);

		if (!other)
			return NULL;
	}
	return why;
}
