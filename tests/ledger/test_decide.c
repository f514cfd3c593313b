// SPDX-License-Identifier: Apache-2.0
/*
 * The decision, over every combination of its inputs at and around their borders, against an oracle that computes in
 * 128 bits; the tables; and the scanner of the operator's SQL.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "ledger/decide.h"
#include "ledger/sqltext.h"

typedef __int128 wide;

/* Written from the sentence, not from decide.c. */
static enum ledger_code oracle(const struct ledger_question *q)
{
	wide amount = q->amount, left = (wide)q->remaining - q->in_flight;

	if (!q->caller_tenant || !*q->caller_tenant)
		return LEDGER_TENANT_MISMATCH;
	if (q->stated_tenant && strcmp(q->stated_tenant, q->caller_tenant) != 0)
		return LEDGER_TENANT_MISMATCH;
	if (!q->scope_granted)
		return LEDGER_SCOPE_DENIED;
	if (q->grant && !q->grant->known)
		return LEDGER_GRANT_UNKNOWN;
	if (q->grant && q->grant->revoked)
		return LEDGER_GRANT_REVOKED;
	if (q->grant && q->grant->expired)
		return LEDGER_GRANT_EXPIRED;
	if (q->grant && !q->grant->covers)
		return LEDGER_GRANT_DENIED;
	if (q->grant &&
	    (q->grant->uses_left < 1 || (q->has_amount && amount > q->grant->amount_left)))
		return LEDGER_GRANT_EXHAUSTED;
	if (q->has_object && !q->object_found)
		return LEDGER_OBJECT_NOT_FOUND;
	if (q->has_object && (!q->object_tenant || strcmp(q->object_tenant, q->caller_tenant) != 0))
		return LEDGER_OBJECT_NOT_IN_TENANT;
	if (!q->has_amount)
		return LEDGER_OK;
	if (amount < 1)
		return LEDGER_AMOUNT_OUT_OF_RANGE;
	if (q->in_flight < 0 || q->used < 0)
		return LEDGER_AMOUNT_OVERFLOW;
	if (q->has_object && amount > left)
		return LEDGER_AMOUNT_OUT_OF_RANGE;
	if (amount + q->used > INT64_MAX)
		return LEDGER_AMOUNT_OVERFLOW;
	if (q->approved)
		return LEDGER_OK;
	if (amount > q->limits->single)
		return q->limits->over == LEDGER_OVER_APPROVE ? LEDGER_PENDING_APPROVAL
							      : LEDGER_QUOTA_SINGLE;
	if (amount + q->used > q->limits->daily && q->limits->daily != LEDGER_NO_LIMIT)
		return q->limits->over == LEDGER_OVER_APPROVE ? LEDGER_PENDING_APPROVAL
							      : LEDGER_QUOTA_DAILY;
	return LEDGER_OK;
}

static const int64_t numbers[] = { INT64_MIN, -1, 0, 1, 2, 99, 100, 101, INT64_MAX - 1, INT64_MAX };
static const char *const tenants[] = { "t-1", "t-2", "", NULL };

static unsigned int reached[LEDGER_CODES_N];

static void compare(const struct ledger_question *q)
{
	enum ledger_code code = ledger_decide(q), early = ledger_decide_caller(q);

	assert_int_equal(code, oracle(q));
	if (early != LEDGER_OK)
		assert_int_equal(code, early);
	else
		assert_true(code != LEDGER_TENANT_MISMATCH && code != LEDGER_SCOPE_DENIED);
	reached[code]++;
}

/* Every pair of borders for amount, remaining, in flight, used, single, daily. */
static void test_amounts(void **state)
{
	struct ledger_limits limits = { 0 };
	struct ledger_question q = { .caller_tenant = "t-1",
				     .stated_tenant = "t-1",
				     .scope_granted = true,
				     .has_object = true,
				     .object_found = true,
				     .object_tenant = "t-1",
				     .has_amount = true,
				     .limits = &limits };
	const size_t n = ARRAY_SIZE(numbers);

	for (size_t i = 0; i < n * n * n * n * n * n * 8; i++) {
		size_t k = i;

		q.approved = k % 2;
		q.has_object = k / 2 % 2;
		limits.over = k / 4 % 2 ? LEDGER_OVER_APPROVE : LEDGER_OVER_REFUSE;
		k /= 8;
		q.amount = numbers[k % n];
		q.remaining = numbers[(k /= n) % n];
		q.in_flight = numbers[(k /= n) % n];
		q.used = numbers[(k /= n) % n];
		limits.single = numbers[(k /= n) % n];
		limits.daily = numbers[(k /= n) % n];
		if (limits.single >= 0 && limits.daily >= 0)
			compare(&q);
	}
}

/* Every combination of who, whose, and the grant's bits. */
static void test_who(void **state)
{
	const struct ledger_limits limits = { .single = 100, .daily = 100 };
	struct ledger_grant_facts grant;
	struct ledger_question q = { .limits = &limits, .remaining = 100 };

	for (unsigned int i = 0; i < 4 * 4 * 4 * 2 * 2 * 2 * 2 * 2 * 16 * 4 * 4; i++) {
		unsigned int k = i;

		q.caller_tenant = tenants[k % 4];
		q.stated_tenant = tenants[(k /= 4) % 4];
		q.object_tenant = tenants[(k /= 4) % 4];
		q.scope_granted = (k /= 4) % 2;
		q.has_object = (k /= 2) % 2;
		q.object_found = (k /= 2) % 2;
		q.has_amount = (k /= 2) % 2;
		q.grant = (k /= 2) % 2 ? &grant : NULL;
		k /= 2;
		grant = (struct ledger_grant_facts){
			.known = k & 1, .revoked = k & 2, .expired = k & 4, .covers = k & 8
		};
		k /= 16;
		grant.uses_left = (int64_t[]){ -1, 0, 1, LEDGER_NO_LIMIT }[k % 4];
		grant.amount_left = (int64_t[]){ 0, 49, 50, LEDGER_NO_LIMIT }[k / 4];
		q.amount = 50;
		compare(&q);
	}
}

/* The enumeration above is not blind to any answer that the decision can give. */
static void test_every_code_was_reached(void **state)
{
	static const enum ledger_code codes[] = {
		LEDGER_OK,
		LEDGER_PENDING_APPROVAL,
		LEDGER_TENANT_MISMATCH,
		LEDGER_SCOPE_DENIED,
		LEDGER_GRANT_UNKNOWN,
		LEDGER_GRANT_REVOKED,
		LEDGER_GRANT_EXPIRED,
		LEDGER_GRANT_DENIED,
		LEDGER_GRANT_EXHAUSTED,
		LEDGER_OBJECT_NOT_FOUND,
		LEDGER_OBJECT_NOT_IN_TENANT,
		LEDGER_AMOUNT_OUT_OF_RANGE,
		LEDGER_AMOUNT_OVERFLOW,
		LEDGER_QUOTA_SINGLE,
		LEDGER_QUOTA_DAILY,
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		assert_true(reached[codes[i]] > 0);
}

static void test_tables(void **state)
{
	for (int i = 0; i < LEDGER_CODES_N; i++) {
		const struct ledger_code_info *info = ledger_code_info((enum ledger_code)i);

		assert_non_null(info->name);
		assert_true(*info->text && *info->retry);
		assert_true(info->http_status == 0 ||
			    (info->http_status >= 200 && info->http_status < 600));
		for (int k = 0; k < i; k++)
			assert_string_not_equal(info->name,
						ledger_code_info((enum ledger_code)k)->name);
	}
	assert_string_equal(ledger_code_info((enum ledger_code)9999)->name, "unavailable");
	for (int i = 0; i < LEDGER_STATES_N; i++)
		assert_int_equal(ledger_state_parse(ledger_state_name((enum ledger_state)i)), i);
	assert_int_equal(ledger_state_parse("sleeping"), -1);
	assert_false(ledger_step_allowed(LEDGER_STATE_DONE, LEDGER_STEP_SUBMIT, LEDGER_STATE_DONE));
}

/* What had an effect, or may have had one, can never come to where it might have another. */
static void test_no_second_effect(void **state)
{
	static const struct {
		enum ledger_state from;
		enum ledger_step step;
		enum ledger_state to;
		bool effect;
	} steps[] = {
#define X(from, step, to, effect) \
	{ LEDGER_STATE_##from, LEDGER_STEP_##step, LEDGER_STATE_##to, effect },
		LEDGER_STEPS(X)
#undef X
	};
	bool tainted[LEDGER_STATES_N] = { false };

	/* States in which the effect may have happened; FAILED says that it did not, whoever says so knows. */
	for (int round = 0; round < LEDGER_STATES_N; round++)
		for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
			if ((steps[i].effect || tainted[steps[i].from]) &&
			    steps[i].to != LEDGER_STATE_FAILED)
				tainted[steps[i].to] = true;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		assert_false(steps[i].effect && tainted[steps[i].from]);
		/* What may have happened is held against the limits. */
		assert_true(!tainted[steps[i].to] || ledger_state_counts(steps[i].to));
	}
	assert_true(tainted[LEDGER_STATE_DONE] && tainted[LEDGER_STATE_EXECUTING] &&
		    tainted[LEDGER_STATE_AMBIGUOUS]);
}

static void compiles(const char *sql, const char *want, char marker)
{
	const char *const inputs[] = { "order_id", "note", NULL };
	struct sqltext text;
	struct error error = { 0 };

	if (sqltext_compile(&text, sql, marker, inputs, "test", &error) != 0)
		fail_msg("%s: %s", sql, error.text);
	assert_string_equal(text.sql, want);
	sqltext_free(&text);
}

static void refused(const char *sql, const char *word)
{
	const char *const inputs[] = { "order_id", NULL };
	struct sqltext text;
	struct error error = { 0 };

	assert_int_not_equal(sqltext_compile(&text, sql, '?', inputs, "test", &error), 0);
	if (!strstr(error.text, word))
		fail_msg("%s: %s", sql, error.text);
}

static void test_sqltext(void **state)
{
	compiles("SELECT :object, :amount", "SELECT ?1, ?2", '?');
	compiles("SELECT :object, :object;  ", "SELECT $1, $2", '$');
	compiles("SELECT ':object', \":amount\", :note", "SELECT ':object', \":amount\", ?1", '?');
	compiles("SELECT 'it''s :object' || :key", "SELECT 'it''s :object' || ?1", '?');
	compiles("SELECT E'\\':object' || :key", "SELECT E'\\':object' || $1", '$');
	compiles("SELECT $x$ :object $x$, $$ :key $$, :call",
		 "SELECT $x$ :object $x$, $$ :key $$, $1", '$');
	compiles("SELECT :amount::bigint -- :object\n, :task", "SELECT $1::bigint -- :object\n, $2",
		 '$');
	compiles("SELECT /* :object ' */ :subject", "SELECT /* :object ' */ $1", '$');
	compiles("SELECT a ? 'b' FROM t WHERE x = :tenant", "SELECT a ? 'b' FROM t WHERE x = $1",
		 '$');
	compiles("SELECT d[1:2], :order_id", "SELECT d[1:2], $1", '$');
	refused("SELECT :objekt", "no value is named :objekt");
	refused("SELECT :objects", "no value");
	refused("SELECT 'open", "does not end");
	refused("SELECT /* open", "does not end");
	refused("SELECT /* a /* b */ :object */", "nest");
	refused("SELECT 1; DELETE FROM orders", "more than one statement");
	refused("SELECT ?1", "values have names");
	refused("SELECT $1", "values have names");
	refused("SELECT @x", "values have names");
	refused(" ; ", "empty");
	refused("", "empty");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_amounts),
		cmocka_unit_test(test_who),
		cmocka_unit_test(test_every_code_was_reached),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_no_second_effect),
		cmocka_unit_test(test_sqltext),
	};

	return cmocka_run_group_tests_name("ledger decision", tests, NULL, NULL);
}
