// SPDX-License-Identifier: Apache-2.0
/* ledger_decide(): see decide.h. Pure; every sum is checked before it is made. Doubt refuses. */

#include <stddef.h>
#include <string.h>

#include "ledger/decide.h"

static bool same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static enum ledger_code decide_grant(const struct ledger_question *q)
{
	const struct ledger_grant_facts *grant = q->grant;

	if (!grant)
		return LEDGER_OK;
	if (!grant->known)
		return LEDGER_GRANT_UNKNOWN;
	if (grant->revoked)
		return LEDGER_GRANT_REVOKED;
	if (grant->expired)
		return LEDGER_GRANT_EXPIRED;
	if (!grant->covers)
		return LEDGER_GRANT_DENIED;
	if (grant->uses_left <= 0 || (q->has_amount && q->amount > grant->amount_left))
		return LEDGER_GRANT_EXHAUSTED;
	return LEDGER_OK;
}

static enum ledger_code decide_object(const struct ledger_question *q)
{
	if (!q->has_object)
		return LEDGER_OK;
	if (!q->object_found)
		return LEDGER_OBJECT_NOT_FOUND;
	if (!same(q->object_tenant, q->caller_tenant))
		return LEDGER_OBJECT_NOT_IN_TENANT;
	return LEDGER_OK;
}

/* 0 < amount <= remaining - in_flight, without a difference that could wrap. */
static enum ledger_code decide_amount(const struct ledger_question *q)
{
	if (q->amount <= 0)
		return LEDGER_AMOUNT_OUT_OF_RANGE;
	if (q->in_flight < 0 || q->used < 0)
		return LEDGER_AMOUNT_OVERFLOW;
	if (q->has_object && (q->remaining <= 0 || q->in_flight > q->remaining ||
			      q->amount > q->remaining - q->in_flight))
		return LEDGER_AMOUNT_OUT_OF_RANGE;
	if (q->used > INT64_MAX - q->amount)
		return LEDGER_AMOUNT_OVERFLOW;
	return LEDGER_OK;
}

static enum ledger_code decide_limits(const struct ledger_question *q)
{
	const struct ledger_limits *limits = q->limits;
	enum ledger_code over = LEDGER_OK;

	if (q->approved)
		return LEDGER_OK;
	if (q->amount > limits->single)
		over = LEDGER_QUOTA_SINGLE;
	else if (limits->daily != LEDGER_NO_LIMIT && q->used + q->amount > limits->daily)
		over = LEDGER_QUOTA_DAILY;
	if (over != LEDGER_OK && limits->over == LEDGER_OVER_APPROVE)
		return LEDGER_PENDING_APPROVAL;
	return over;
}

enum ledger_code ledger_decide_caller(const struct ledger_question *q)
{
	if (!q->caller_tenant || !*q->caller_tenant)
		return LEDGER_TENANT_MISMATCH;
	if (q->stated_tenant && !same(q->stated_tenant, q->caller_tenant))
		return LEDGER_TENANT_MISMATCH;
	if (!q->scope_granted)
		return LEDGER_SCOPE_DENIED;
	return LEDGER_OK;
}

enum ledger_code ledger_decide(const struct ledger_question *q)
{
	enum ledger_code code = ledger_decide_caller(q);

	if (code == LEDGER_OK)
		code = decide_grant(q);
	if (code == LEDGER_OK)
		code = decide_object(q);
	if (code == LEDGER_OK && q->has_amount)
		code = decide_amount(q);
	if (code == LEDGER_OK && q->has_amount)
		code = decide_limits(q);
	return code;
}
