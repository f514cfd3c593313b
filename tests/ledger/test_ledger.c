// SPDX-License-Identifier: Apache-2.0
/*
 * One suite against both engines: every promise of user/ledger/ledger.h, looked at from the side with plain SQL. Faults
 * are injected by wrapping the engine's table of operations; the clock is the test's.
 *
 * wrap: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup
 */

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "ledger/internal.h"
#include "store.h"

static bool with_postgres;
static struct store store;
static struct ledger *ledger;
static struct ledger_tool *tool;

static int64_t clock_wall, clock_mono;

static int64_t fake_wall(void)
{
	return clock_wall;
}

static int64_t fake_mono(void)
{
	return clock_mono;
}

static void pass(int64_t seconds)
{
	clock_wall += seconds * NS_PER_S;
	clock_mono += seconds * NS_PER_S;
}

/* The clocks of a gateway for which time went on while another one slept. */
static int64_t slept;

static int64_t awake_wall(void)
{
	return clock_wall + slept;
}

static int64_t awake_mono(void)
{
	return clock_mono + slept;
}

static struct ledger_options options_of(const char *node)
{
	struct ledger_options options = store_options(&store, node);

	options.wall_ns = fake_wall;
	options.mono_ns = fake_mono;
	return options;
}

static struct ledger *open_with(const struct ledger_options *options)
{
	struct ledger *opened = NULL;
	struct error error = { 0 };

	if (ledger_open(&opened, options, &error) != 0)
		fail_msg("ledger_open: %s", error.text);
	return opened;
}

static int setup(void **state)
{
	struct ledger_options options;

	/* 2026-01-01 12:00:00 UTC */
	clock_wall = INT64_C(1767268800) * NS_PER_S;
	clock_mono = 1000 * NS_PER_S;
	tool = NULL;
	ledger = NULL;
	if (!store_make(&store, with_postgres))
		return 0;
	options = options_of("n1");
	ledger = open_with(&options);
	store_order(&store, "o-1", "t-1", 10000);
	store_order(&store, "o-2", "t-1", 10000);
	store_order(&store, "o-9", "t-2", 10000);
	return 0;
}

static void close_all(void)
{
	ledger_tool_close(tool);
	ledger_close(ledger);
	tool = NULL;
	ledger = NULL;
}

static int teardown(void **state)
{
	close_all();
	store_remove(&store);
	return 0;
}

/* A process that died: nothing is said to the store. */
static void restart(enum ledger_executor executor)
{
	struct ledger_options options = options_of("n1");
	struct ledger_limits limits = tool->limits;

	close_all();
	ledger = open_with(&options);
	tool = refund_open(ledger, executor, limits.single, limits.daily, limits.over);
}

#define NEEDS_STORE()            \
	do {                     \
		if (!*store.dir) \
			skip();  \
	} while (0)

static void is_code(enum ledger_code code, enum ledger_code want)
{
	assert_string_equal(ledger_code_info(code)->name, ledger_code_info(want)->name);
}

static void is_refund(const char *key, const char *order, int64_t amount, enum ledger_code want)
{
	is_code(refund(ledger, tool, key, order, amount), want);
}

static int64_t refunded(const char *order)
{
	return store_number(&store, "SELECT refunded FROM orders WHERE id = '%s'", order);
}

static int64_t used(void)
{
	return store_number(&store, "SELECT COALESCE(SUM(used), 0) FROM usage");
}

static int64_t rows(const char *table)
{
	return store_number(&store, "SELECT COUNT(*) FROM %s", table);
}

/* The books: what counts is what the quota says, and every chain is whole. */
static void books_balance(void)
{
	struct ledger_verdict verdict;
	struct error error = { 0 };

	assert_int_equal(used(),
			 store_number(&store,
				      "SELECT COALESCE(SUM(amount), 0) FROM calls WHERE state "
				      "IN ('reserved', 'pending_approval', 'executing', "
				      "'ambiguous', 'done')"));
	if (ledger_verify(ledger, &verdict, &error) != 0)
		fail_msg("verify: %s", error.text);
}

static enum ledger_code run(struct ledger_job *job)
{
	ledger_run(ledger, job);
	ledger_answer_clear(&job->answer);
	return job->answer.code;
}

static enum ledger_code step(enum ledger_verb verb, int64_t id, enum ledger_state outcome)
{
	struct ledger_job job = { .verb = verb,
				  .id = id,
				  .outcome = outcome,
				  .by = "ops",
				  .reason = "looked it up",
				  .result =
					  outcome == LEDGER_STATE_DONE ? "{\"ref\":\"x\"}" : NULL };

	return run(&job);
}

static enum ledger_code decide(enum ledger_verb verb, const char *approval, const char *by)
{
	struct ledger_job job = {
		.verb = verb, .approval = approval, .by = by, .reason = "checked with the shop"
	};

	return run(&job);
}

/* --- deciding ---------------------------------------------------------------------------------------------------- */

static void test_refund(void **state)
{
	struct ledger_job job;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 5000, 20000, LEDGER_OVER_REFUSE);
	for (int i = 0; i < 3; i++) {
		job = refund_job(tool, "k-1", "o-1", 82);
		ledger_run(ledger, &job);
		is_code(job.answer.code, i ? LEDGER_DUPLICATE : LEDGER_OK);
		assert_string_equal(job.answer.result, "{\"refunded\":82,\"remaining\":9918}");
		assert_int_equal(job.answer.state, LEDGER_STATE_DONE);
		assert_int_equal(job.answer.call, 1);
		assert_int_equal(job.answer.record_seq, i + 1);
		ledger_answer_clear(&job.answer);
	}
	assert_int_equal(refunded("o-1"), 82);
	assert_int_equal(used(), 82);
	assert_int_equal(rows("records"), 3);
	books_balance();
}

static void test_refusals(void **state)
{
	struct ledger_job job;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 5000, 20000, LEDGER_OVER_REFUSE);
	is_refund("k", "o-9", 10, LEDGER_OBJECT_NOT_IN_TENANT);
	is_refund("k", "o-7", 10, LEDGER_OBJECT_NOT_FOUND);
	is_refund("k", "o-1' OR '1'='1", 10, LEDGER_OBJECT_NOT_FOUND);
	is_refund("k", "o-1", 0, LEDGER_AMOUNT_OUT_OF_RANGE);
	is_refund("k", "o-1", -5, LEDGER_AMOUNT_OUT_OF_RANGE);
	is_refund("k", "o-1", 10001, LEDGER_AMOUNT_OUT_OF_RANGE);
	is_refund("k", "o-1", INT64_MAX, LEDGER_AMOUNT_OUT_OF_RANGE);
	is_refund("k", "o-1", 5001, LEDGER_QUOTA_SINGLE);
	job = refund_job(tool, "k", "o-9", 10);
	job.call.stated_tenant = "t-2";
	is_code(run(&job), LEDGER_TENANT_MISMATCH);
	job = refund_job(tool, "k", "o-9", 10);
	job.call.scope_granted = false;
	is_code(run(&job), LEDGER_SCOPE_DENIED);
	assert_int_equal(rows("records"), 10);
	assert_int_equal(rows("calls"), 0);
	assert_int_equal(used(), 0);
	assert_int_equal(refunded("o-1") + refunded("o-9"), 0);
	/* None of them burnt the key. */
	is_refund("k", "o-1", 10, LEDGER_OK);
	assert_int_equal(refunded("o-1"), 10);
	books_balance();
}

/* Refused before the ledger was asked: recorded, answered, nothing else. */
static void test_refused_before(void **state)
{
	struct ledger_job job = { .verb = LEDGER_CALL,
				  .call = { .refused = LEDGER_UNAUTHENTICATED,
					    .method = "POST",
					    .route = "/refund",
					    .tool_name = "refund" } };

	NEEDS_STORE();
	is_code(run(&job), LEDGER_UNAUTHENTICATED);
	assert_int_equal(job.answer.record_seq, 1);
	assert_int_equal(store_number(&store, "SELECT COUNT(*) FROM records WHERE body LIKE "
					      "'%%\"code\":\"unauthenticated\"%%'"),
			 1);
	books_balance();
}

static void test_keys(void **state)
{
	struct ledger_job job;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 5000, 20000, LEDGER_OVER_REFUSE);
	is_refund("k", "o-1", 10, LEDGER_OK);
	is_refund("k", "o-1", 11, LEDGER_KEY_REUSED_WITH_OTHER_BODY);
	is_refund("k", "o-2", 10, LEDGER_KEY_REUSED_WITH_OTHER_BODY);
	is_refund("K", "o-1", 10, LEDGER_OK);
	is_refund("k ", "o-1", 10, LEDGER_OK);
	job = refund_job(tool, "k", "o-1", 10);
	job.call.subject = "bob";
	is_code(run(&job), LEDGER_OK);
	assert_int_equal(refunded("o-1"), 40);
	assert_int_equal(refunded("o-2"), 0);
	books_balance();
}

static void test_bounds(void **state)
{
	static char long_key[LEDGER_KEY_MAX + 2];
	struct ledger_job job;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 5000, 20000, LEDGER_OVER_REFUSE);
	memset(long_key, 'k', LEDGER_KEY_MAX + 1);
	job = refund_job(tool, long_key, "o-1", 10);
	assert_int_equal(ledger_submit(ledger, &job), -E2BIG);
	job = refund_job(tool, "", "o-1", 10);
	assert_int_equal(ledger_submit(ledger, &job), -EINVAL);
	job = refund_job(tool, "k\xff", "o-1", 10);
	assert_int_equal(ledger_submit(ledger, &job), -EINVAL);
	job = refund_job(tool, "k\n", "o-1", 10);
	assert_int_equal(ledger_submit(ledger, &job), -EINVAL);
	job = refund_job(tool, "k", "\xed\xa0\x80", 10);
	assert_int_equal(ledger_submit(ledger, &job), -EINVAL);
	is_refund("k", "o-1", 10, LEDGER_OK);
	assert_int_equal(rows("records"), 1);
}

static void test_daily(void **state)
{
	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 5000, 10000, LEDGER_OVER_REFUSE);
	is_refund("a", "o-1", 5000, LEDGER_OK);
	is_refund("b", "o-2", 4999, LEDGER_OK);
	is_refund("c", "o-2", 2, LEDGER_QUOTA_DAILY);
	is_refund("d", "o-2", 1, LEDGER_OK);
	is_refund("e", "o-2", 1, LEDGER_QUOTA_DAILY);
	pass(12 * 3600 - 1);
	is_refund("e", "o-2", 1, LEDGER_QUOTA_DAILY);
	pass(1); /* midnight UTC */
	is_refund("e", "o-2", 1, LEDGER_OK);
	assert_int_equal(rows("usage"), 2);
	books_balance();
}

static void test_daily_per_subject(void **state)
{
	struct ledger_tool_spec spec =
		refund_spec(LEDGER_EXECUTOR_SQL, 5000, 100, LEDGER_OVER_REFUSE);
	struct ledger_job job;

	NEEDS_STORE();
	spec.limits.per_subject = true;
	assert_int_equal(ledger_tool_open(ledger, &spec, &tool, NULL), 0);
	is_refund("a", "o-1", 100, LEDGER_OK);
	is_refund("b", "o-1", 1, LEDGER_QUOTA_DAILY);
	job = refund_job(tool, "b", "o-1", 100);
	job.call.subject = "bob";
	is_code(run(&job), LEDGER_OK);
	books_balance();
}

static void test_overflow(void **state)
{
	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, LEDGER_NO_LIMIT, LEDGER_NO_LIMIT,
			   LEDGER_OVER_REFUSE);
	store_sql(&store,
		  "INSERT INTO usage (tenant, tool, subject, day, used) VALUES "
		  "('t-1', 'refund', '', 20454, 9223372036854775806)",
		  false);
	assert_int_equal(clock_wall / NS_PER_DAY, 20454);
	is_refund("a", "o-1", 2, LEDGER_AMOUNT_OVERFLOW);
	is_refund("a", "o-1", 1, LEDGER_OK);
	is_refund("b", "o-1", 1, LEDGER_AMOUNT_OVERFLOW);
	assert_int_equal(store_number(&store, "SELECT used FROM usage"), INT64_MAX);
	assert_int_equal(ledger_code_info(LEDGER_AMOUNT_OVERFLOW)->http_status, 400);
	assert_int_equal(rows("records"), 3);
}

/* --- executors --------------------------------------------------------------------------------------------------- */

static void test_http_steps(void **state)
{
	struct ledger_job job;
	int64_t id;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_HTTP, 5000, 6000, LEDGER_OVER_REFUSE);
	job = refund_job(tool, "k", "o-1", 4000);
	is_code(run(&job), LEDGER_EXECUTE);
	assert_int_equal(job.answer.state, LEDGER_STATE_RESERVED);
	id = job.answer.call;
	is_refund("k", "o-1", 4000, LEDGER_KEY_IN_FLIGHT);
	is_code(step(LEDGER_FINISH, id, LEDGER_STATE_DONE), LEDGER_CALL_NOT_IN_STATE);
	is_code(step(LEDGER_SETTLE, id, LEDGER_STATE_DONE), LEDGER_CALL_NOT_IN_STATE);
	is_code(step(LEDGER_START, id, 0), LEDGER_OK);
	is_code(step(LEDGER_START, id, 0), LEDGER_CALL_NOT_IN_STATE); /* never two requests */
	is_refund("l", "o-1", 4000, LEDGER_QUOTA_DAILY);
	is_code(step(LEDGER_FINISH, id, LEDGER_STATE_DONE), LEDGER_OK);
	is_code(step(LEDGER_FINISH, id, LEDGER_STATE_DONE), LEDGER_OK); /* the answer was lost */
	is_code(step(LEDGER_FINISH, id, LEDGER_STATE_FAILED), LEDGER_CALL_NOT_IN_STATE);
	job = refund_job(tool, "k", "o-1", 4000);
	ledger_run(ledger, &job);
	is_code(job.answer.code, LEDGER_DUPLICATE);
	assert_string_equal(job.answer.result, "{\"ref\":\"x\"}");
	ledger_answer_clear(&job.answer);
	is_code(step(LEDGER_START, 999, 0), LEDGER_CALL_NOT_FOUND);
	books_balance();
}

/* Failed: known to be without effect; quota back, key free, also for another body. */
static void test_http_failed(void **state)
{
	struct ledger_job job;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_HTTP, 5000, 6000, LEDGER_OVER_REFUSE);
	for (int i = 0; i < 3; i++) {
		job = refund_job(tool, "k", "o-1", 4000 + i);
		job.call.start = i == 1;
		is_code(run(&job), LEDGER_EXECUTE);
		assert_int_equal(job.answer.call, i + 1);
		if (i == 2)
			is_code(step(LEDGER_START, i + 1, 0), LEDGER_OK);
		assert_int_equal(used(), 4000 + i);
		is_code(step(LEDGER_FINISH, i + 1, LEDGER_STATE_FAILED), LEDGER_OK);
		/* A late word about an earlier attempt. */
		is_code(step(LEDGER_FINISH, i, LEDGER_STATE_DONE), LEDGER_CALL_NOT_FOUND);
		assert_int_equal(used(), 0);
	}
	books_balance();
}

static void test_http_in_flight_counts_against_the_object(void **state)
{
	struct ledger_job job;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_HTTP, 10000, LEDGER_NO_LIMIT,
			   LEDGER_OVER_REFUSE);
	job = refund_job(tool, "a", "o-1", 6000);
	is_code(run(&job), LEDGER_EXECUTE);
	is_refund("b", "o-1", 4001, LEDGER_AMOUNT_OUT_OF_RANGE);
	is_refund("b", "o-1", 4000, LEDGER_EXECUTE);
	is_refund("c", "o-1", 1, LEDGER_AMOUNT_OUT_OF_RANGE);
	is_code(step(LEDGER_FINISH, job.answer.call, LEDGER_STATE_FAILED), LEDGER_OK);
	is_refund("c", "o-1", 6000, LEDGER_EXECUTE);
	books_balance();
}

static void test_ambiguous(void **state)
{
	struct ledger_job job;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_HTTP, 5000, 6000, LEDGER_OVER_REFUSE);
	job = refund_job(tool, "a", "o-1", 4000);
	job.call.start = true;
	is_code(run(&job), LEDGER_EXECUTE);
	is_code(step(LEDGER_FINISH, job.answer.call, LEDGER_STATE_AMBIGUOUS), LEDGER_OK);
	is_refund("a", "o-1", 4000, LEDGER_OUTCOME_AMBIGUOUS);
	is_refund("b", "o-1", 4000, LEDGER_QUOTA_DAILY); /* it counts */
	is_code(step(LEDGER_SETTLE, job.answer.call, LEDGER_STATE_DONE), LEDGER_OK);
	is_refund("a", "o-1", 4000, LEDGER_DUPLICATE);
	is_code(step(LEDGER_SETTLE, job.answer.call, LEDGER_STATE_FAILED),
		LEDGER_CALL_NOT_IN_STATE);
	assert_int_equal(store_number(&store, "SELECT COUNT(*) FROM records WHERE body LIKE "
					      "'%%\"verb\":\"settle\"%%\"by\":\"ops\"%%'"),
			 2);
	books_balance();
}

static void test_recovery(void **state)
{
	struct ledger_job reserved, executing;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_HTTP, 5000, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	reserved = refund_job(tool, "r", "o-1", 1000);
	executing = refund_job(tool, "e", "o-1", 2000);
	executing.call.start = true;
	is_code(run(&reserved), LEDGER_EXECUTE);
	is_code(run(&executing), LEDGER_EXECUTE);
	restart(LEDGER_EXECUTOR_HTTP);
	assert_int_equal(used(), 2000);
	is_refund("e", "o-1", 2000, LEDGER_OUTCOME_AMBIGUOUS);
	is_refund("r", "o-1", 1000, LEDGER_EXECUTE);
	is_code(step(LEDGER_SETTLE, executing.answer.call, LEDGER_STATE_FAILED), LEDGER_OK);
	is_refund("e", "o-1", 2000, LEDGER_EXECUTE);
	books_balance();
}

/* The operator's statement fails for one call: that one alone. */
static void test_executor_fails_alone(void **state)
{
	struct ledger_job jobs[6];

	NEEDS_STORE();
	store_sql(&store,
		  "CREATE TABLE log (id TEXT PRIMARY KEY, n BIGINT NOT NULL CHECK (n <> 13))",
		  false);
	struct ledger_tool_spec spec =
		refund_spec(LEDGER_EXECUTOR_SQL, 5000, 20000, LEDGER_OVER_REFUSE);
	spec.exec_sql = "INSERT INTO log (id, n) VALUES (:key, :amount)";
	assert_int_equal(ledger_tool_open(ledger, &spec, &tool, NULL), 0);
	for (int i = 0; i < 6; i++) {
		static const char *const keys[] = { "a", "b", "c", "d", "e", "f" };

		jobs[i] = refund_job(tool, keys[i], "o-1", 10 + i);
		is_code(run(&jobs[i]), i == 3 ? LEDGER_EXECUTION_FAILED : LEDGER_OK);
	}
	assert_int_equal(rows("log"), 5);
	assert_int_equal(used(), 10 + 11 + 12 + 14 + 15);
	is_refund("d", "o-1", 10, LEDGER_OK); /* not burnt */
	books_balance();
}

static void test_executor_changes_one_row(void **state)
{
	struct ledger_tool_spec spec =
		refund_spec(LEDGER_EXECUTOR_SQL, 5000, 20000, LEDGER_OVER_REFUSE);

	NEEDS_STORE();
	spec.exec_sql = "UPDATE orders SET refunded = refunded + :amount WHERE tenant = :tenant";
	assert_int_equal(ledger_tool_open(ledger, &spec, &tool, NULL), 0);
	is_refund("a", "o-1", 10, LEDGER_EXECUTION_FAILED); /* two rows */
	assert_int_equal(refunded("o-1") + refunded("o-2"), 0);
	ledger_tool_close(tool);
	spec.exec_sql = "UPDATE orders SET refunded = refunded + :amount WHERE id = :object AND "
			"refunded > 0";
	assert_int_equal(ledger_tool_open(ledger, &spec, &tool, NULL), 0);
	is_refund("a", "o-1", 10, LEDGER_EXECUTION_REFUSED); /* none */
	assert_int_equal(used(), 0);
	books_balance();
}

/* An object that is no number, where the column is one; inputs by name; result fields. */
static void test_inputs_and_types(void **state)
{
	const char *const inputs[] = { "note", NULL };
	const char *const fields[] = { "note", "id", NULL };
	const struct ledger_param params[] = { { .name = "note", .text = "it's \"broken\"" } };
	struct ledger_tool_spec spec = {
		.name = "ticket",
		.inputs = inputs,
		.has_object = true,
		.fact_sql = "SELECT tenant FROM tickets WHERE id = :object",
		.executor = LEDGER_EXECUTOR_SQL,
		.exec_sql = "UPDATE tickets SET note = :note WHERE id = :object RETURNING note, "
			    "id, tenant",
		.result_fields = fields,
	};
	struct ledger_job job;

	NEEDS_STORE();
	store_sql(&store, "CREATE TABLE tickets (id BIGINT PRIMARY KEY, tenant TEXT, note TEXT)",
		  false);
	store_sql(&store, "INSERT INTO tickets VALUES (5, 't-1', '')", false);
	assert_int_equal(ledger_tool_open(ledger, &spec, &tool, NULL), 0);
	job = refund_job(tool, "k", "five", 0);
	is_code(run(&job), LEDGER_OBJECT_NOT_FOUND);
	job = refund_job(tool, "k", "99999999999999999999", 0);
	is_code(run(&job), LEDGER_OBJECT_NOT_FOUND);
	job = refund_job(tool, "k", "5", 0);
	job.call.params = params;
	job.call.n_params = 1;
	ledger_run(ledger, &job);
	is_code(job.answer.code, LEDGER_OK);
	assert_string_equal(job.answer.result, "{\"note\":\"it's \\\"broken\\\"\",\"id\":5}");
	ledger_answer_clear(&job.answer);
	assert_int_equal(rows("usage"), 0);
}

static void test_tools_are_checked(void **state)
{
	struct ledger_tool_spec spec = refund_spec(LEDGER_EXECUTOR_SQL, 1, 1, LEDGER_OVER_REFUSE);
	struct error error = { 0 };

	NEEDS_STORE();
	spec.fact_sql = "SELECT tenant FROM no_such_table WHERE id = :object";
	assert_int_equal(ledger_tool_open(ledger, &spec, &tool, &error), -EINVAL);
	assert_non_null(strstr(error.text, "tool refund: fact query"));
	assert_non_null(strstr(error.text, "no_such_table"));
	spec.fact_sql = "DELETE FROM orders WHERE id = :object";
	assert_int_equal(ledger_tool_open(ledger, &spec, &tool, NULL), -EINVAL);
	spec.fact_sql = "SELECT tenant FROM orders WHERE id = :objet";
	assert_int_equal(ledger_tool_check(&spec, NULL), -EINVAL);
	spec = refund_spec(LEDGER_EXECUTOR_SQL, 1, 1, LEDGER_OVER_REFUSE);
	spec.exec_sql = "UPDATE orders SET refunded = nothing WHERE id = :object";
	assert_int_equal(ledger_tool_open(ledger, &spec, &tool, NULL), -EINVAL);
	spec.exec_sql = NULL;
	assert_int_equal(ledger_tool_check(&spec, NULL), -EINVAL);
	spec = refund_spec(LEDGER_EXECUTOR_SQL, 1, 1, LEDGER_OVER_REFUSE);
	assert_int_equal(ledger_tool_check(&spec, NULL), 0);
	tool = NULL;
	assert_int_equal(refunded("o-1"), 0);
}

/* --- approvals --------------------------------------------------------------------------------------------------- */

static void hold_one(const char *key, int64_t amount, char approval[LEDGER_APPROVAL_ID_SIZE])
{
	struct ledger_job job = refund_job(tool, key, "o-1", amount);

	job.call.request = "{\"order_id\":\"o-1\"}";
	job.call.request_size = strlen(job.call.request);
	is_code(run(&job), LEDGER_PENDING_APPROVAL);
	assert_int_equal(strlen(job.answer.approval), LEDGER_APPROVAL_ID_SIZE - 1);
	strcpy(approval, job.answer.approval);
}

static void test_approve(void **state)
{
	char id[LEDGER_APPROVAL_ID_SIZE], again[LEDGER_APPROVAL_ID_SIZE];

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, 20000, LEDGER_OVER_APPROVE);
	hold_one("k", 4000, id);
	hold_one("k", 4000, again);
	assert_string_equal(id, again);
	assert_int_equal(rows("approvals"), 1);
	assert_int_equal(used(), 4000);
	assert_int_equal(refunded("o-1"), 0);
	is_refund("k", "o-1", 4001, LEDGER_KEY_REUSED_WITH_OTHER_BODY);
	is_code(decide(LEDGER_APPROVE, id, "alice"), LEDGER_APPROVER_IS_CALLER);
	is_code(decide(LEDGER_APPROVE, "0123456789abcdef0123456789abcdef", "carol"),
		LEDGER_APPROVAL_NOT_FOUND);
	is_code(decide(LEDGER_APPROVE, id, ""), LEDGER_INVALID_REQUEST);
	assert_int_equal(refunded("o-1"), 0);
	is_code(decide(LEDGER_APPROVE, id, "carol"), LEDGER_OK);
	assert_int_equal(refunded("o-1"), 4000);
	is_code(decide(LEDGER_APPROVE, id, "carol"), LEDGER_APPROVAL_NOT_PENDING);
	is_code(decide(LEDGER_DENY, id, "carol"), LEDGER_APPROVAL_NOT_PENDING);
	is_refund("k", "o-1", 4000, LEDGER_DUPLICATE);
	assert_int_equal(refunded("o-1"), 4000);
	assert_int_equal(store_number(&store,
				      "SELECT COUNT(*) FROM approvals WHERE request <> '' OR "
				      "params <> ''"),
			 0);
	assert_int_equal(
		store_number(&store,
			     "SELECT COUNT(*) FROM records WHERE body LIKE "
			     "'%%\"verb\":\"approve\",\"code\":\"ok\"%%\"by\":\"carol\"%%'"),
		1);
	books_balance();
}

static void test_deny_and_expire(void **state)
{
	char denied[LEDGER_APPROVAL_ID_SIZE], expired[LEDGER_APPROVAL_ID_SIZE],
		late[LEDGER_APPROVAL_ID_SIZE];
	struct ledger_job tick = { .verb = LEDGER_TICK };

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, 20000, LEDGER_OVER_APPROVE);
	hold_one("d", 1000, denied);
	hold_one("e", 2000, expired);
	hold_one("l", 3000, late);
	assert_int_equal(used(), 6000);
	is_code(decide(LEDGER_DENY, denied, "carol"), LEDGER_OK);
	assert_int_equal(used(), 5000);
	pass(3599);
	is_code(run(&tick), LEDGER_OK);
	is_refund("e", "o-1", 2000, LEDGER_PENDING_APPROVAL);
	pass(1);
	/* At its very end nobody can approve it any more, ticked or not. */
	is_code(decide(LEDGER_APPROVE, late, "carol"), LEDGER_APPROVAL_EXPIRED);
	tick = (struct ledger_job){ .verb = LEDGER_TICK };
	is_code(run(&tick), LEDGER_OK);
	assert_int_equal(used(), 0);
	pass(86400 * 30);
	tick = (struct ledger_job){ .verb = LEDGER_TICK };
	is_code(run(&tick), LEDGER_OK);
	is_refund("d", "o-1", 1000, LEDGER_APPROVAL_DENIED); /* for good */
	is_refund("e", "o-1", 2000, LEDGER_APPROVAL_EXPIRED);
	is_refund("l", "o-1", 3000, LEDGER_APPROVAL_EXPIRED);
	assert_int_equal(refunded("o-1"), 0);
	books_balance();
}

/* What was true when it was asked for need not be when it is done. */
static void test_approve_checks_again(void **state)
{
	char id[LEDGER_APPROVAL_ID_SIZE];

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, 20000, LEDGER_OVER_APPROVE);
	hold_one("k", 4000, id);
	store_sql(&store, "UPDATE orders SET refunded = 7000 WHERE id = 'o-1'", false);
	is_code(decide(LEDGER_APPROVE, id, "carol"), LEDGER_AMOUNT_OUT_OF_RANGE);
	assert_int_equal(refunded("o-1"), 7000);
	assert_int_equal(used(), 0);
	is_refund("k", "o-1", 4000, LEDGER_AMOUNT_OUT_OF_RANGE);
	hold_one("m", 2000, id);
	store_sql(&store, "UPDATE orders SET tenant = 't-2' WHERE id = 'o-1'", false);
	is_code(decide(LEDGER_APPROVE, id, "carol"), LEDGER_OBJECT_NOT_IN_TENANT);
	assert_int_equal(refunded("o-1"), 7000);
	books_balance();
}

static void test_approve_http_and_restart(void **state)
{
	char id[LEDGER_APPROVAL_ID_SIZE], other[LEDGER_APPROVAL_ID_SIZE];
	struct ledger_job job = { .verb = LEDGER_APPROVE, .by = "carol", .reason = "fine" };

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_HTTP, 100, 20000, LEDGER_OVER_APPROVE);
	hold_one("k", 4000, id);
	hold_one("m", 3000, other);
	restart(LEDGER_EXECUTOR_HTTP); /* G-29: still pending */
	is_refund("k", "o-1", 4000, LEDGER_PENDING_APPROVAL);
	job.approval = id;
	ledger_run(ledger, &job);
	is_code(job.answer.code, LEDGER_EXECUTE);
	assert_int_equal(job.answer.state, LEDGER_STATE_EXECUTING);
	assert_string_equal(job.answer.result, "{\"order_id\":\"o-1\"}");
	assert_string_equal(job.answer.tool, "refund");
	assert_string_equal(job.answer.key, "k");
	ledger_answer_clear(&job.answer);
	is_code(step(LEDGER_FINISH, job.answer.call, LEDGER_STATE_DONE), LEDGER_OK);
	is_refund("k", "o-1", 4000, LEDGER_DUPLICATE);
	ledger_tool_close(tool);
	tool = NULL;
	is_code(decide(LEDGER_APPROVE, other, "carol"), LEDGER_TOOL_UNKNOWN);
	is_code(decide(LEDGER_DENY, other, "carol"), LEDGER_OK);
	books_balance();
}

/* --- grants ------------------------------------------------------------------------------------------------------ */

static struct ledger_grant grant_of(const char *id, int64_t amount, int64_t uses)
{
	return (struct ledger_grant){ .id = id,
				      .fence = 7,
				      .tenant = "t-1",
				      .subject = "alice",
				      .task = "task-1",
				      .scope = "refund:create",
				      .tool = "refund",
				      .object = "",
				      .amount_max = amount,
				      .uses_max = uses,
				      .expires_ns = clock_wall + 600 * NS_PER_S };
}

static enum ledger_code put_grant(const struct ledger_grant *grant)
{
	struct ledger_job job = { .verb = LEDGER_GRANT, .grant = grant, .by = "ops" };

	return run(&job);
}

static enum ledger_code with_grant(const char *grant, const char *key, int64_t amount)
{
	struct ledger_job job = refund_job(tool, key, "o-1", amount);

	job.call.grant = grant;
	return run(&job);
}

static int64_t revoke_by(enum ledger_revoke_by by, const char *value)
{
	struct ledger_job job = {
		.verb = LEDGER_REVOKE, .revoke_by = by, .value = value, .by = "ops"
	};

	is_code(run(&job), LEDGER_OK);
	return job.answer.count;
}

static void test_grants(void **state)
{
	struct ledger_grant uses = grant_of("g-uses", LEDGER_NO_LIMIT, 2),
			    cap = grant_of("g-cap", 100, LEDGER_NO_LIMIT),
			    other = grant_of("g-other", LEDGER_NO_LIMIT, LEDGER_NO_LIMIT);
	char approval[LEDGER_APPROVAL_ID_SIZE];
	struct ledger_job job;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 1000, 20000, LEDGER_OVER_APPROVE);
	is_code(with_grant("g-uses", "a", 1), LEDGER_GRANT_UNKNOWN);
	is_code(put_grant(&uses), LEDGER_OK);
	is_code(put_grant(&cap), LEDGER_OK);
	is_code(with_grant("g-uses", "a", 1), LEDGER_OK);
	is_code(with_grant("g-uses", "a", 1), LEDGER_DUPLICATE); /* no second use */
	is_code(with_grant("g-uses", "b", 99999), LEDGER_AMOUNT_OUT_OF_RANGE);
	restart(LEDGER_EXECUTOR_SQL);
	is_code(with_grant("g-uses", "b", 1), LEDGER_OK);
	is_code(with_grant("g-uses", "c", 1), LEDGER_GRANT_EXHAUSTED);
	is_code(with_grant("g-cap", "d", 60), LEDGER_OK);
	is_code(with_grant("g-cap", "e", 41), LEDGER_GRANT_EXHAUSTED);
	is_code(with_grant("g-cap", "e", 40), LEDGER_OK);
	/* Terms that do not fit the call. */
	other.fence = 8;
	is_code(put_grant(&other), LEDGER_OK);
	is_code(with_grant("g-other", "f", 1), LEDGER_GRANT_DENIED);
	other = grant_of("g-object", LEDGER_NO_LIMIT, LEDGER_NO_LIMIT);
	other.object = "o-2";
	is_code(put_grant(&other), LEDGER_OK);
	is_code(with_grant("g-object", "f", 1), LEDGER_GRANT_DENIED);
	/* The same id with other terms is no renewal. */
	uses.uses_max = 99;
	is_code(put_grant(&uses), LEDGER_GRANT_DENIED);
	/* Given back with a denied call. */
	other = grant_of("g-back", 5000, 1);
	is_code(put_grant(&other), LEDGER_OK);
	job = refund_job(tool, "h", "o-1", 5000);
	job.call.grant = "g-back";
	is_code(run(&job), LEDGER_PENDING_APPROVAL);
	strcpy(approval, job.answer.approval);
	is_code(with_grant("g-back", "i", 1), LEDGER_GRANT_EXHAUSTED);
	is_code(decide(LEDGER_DENY, approval, "carol"), LEDGER_OK);
	is_code(with_grant("g-back", "i", 1), LEDGER_OK);
	books_balance();
}

static void test_grants_end(void **state)
{
	struct ledger_grant grants[5];
	static const char *const ids[] = { "g0", "g1", "g2", "g3", "g4" };

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 1000, 20000, LEDGER_OVER_REFUSE);
	for (int i = 0; i < 5; i++) {
		grants[i] = grant_of(ids[i], LEDGER_NO_LIMIT, LEDGER_NO_LIMIT);
		is_code(put_grant(&grants[i]), LEDGER_OK);
	}
	assert_int_equal(revoke_by(LEDGER_REVOKE_ID, "g0"), 1);
	is_code(with_grant("g0", "a", 1), LEDGER_GRANT_REVOKED);
	is_code(put_grant(&grants[0]), LEDGER_GRANT_DENIED); /* no renewal brings it back */
	is_code(with_grant("g1", "b", 1), LEDGER_OK);
	restart(LEDGER_EXECUTOR_SQL);
	is_code(with_grant("g0", "a", 1), LEDGER_GRANT_REVOKED);
	pass(599);
	is_code(with_grant("g1", "c", 1), LEDGER_OK);
	grants[2].expires_ns += 600 * NS_PER_S;
	is_code(put_grant(&grants[2]), LEDGER_OK);
	pass(1);
	is_code(with_grant("g1", "d", 1), LEDGER_GRANT_EXPIRED);
	is_code(with_grant("g2", "d", 1), LEDGER_OK);
	assert_int_equal(revoke_by(LEDGER_REVOKE_TASK, "task-2"), 0);
	assert_int_equal(revoke_by(LEDGER_REVOKE_FENCE, "8"), 0);
	assert_int_equal(revoke_by(LEDGER_REVOKE_FENCE, "7"), 4);
	is_code(with_grant("g2", "e", 1), LEDGER_GRANT_REVOKED);
	grants[3] = grant_of("g5", LEDGER_NO_LIMIT, LEDGER_NO_LIMIT);
	is_code(put_grant(&grants[3]), LEDGER_OK);
	assert_int_equal(revoke_by(LEDGER_REVOKE_SUBJECT, "alice"), 1);
	is_code(with_grant("g5", "e", 1), LEDGER_GRANT_REVOKED);
	books_balance();
}

/* A call that waits for a human under a grant that ends meanwhile. */
static void test_approve_after_the_grant(void **state)
{
	struct ledger_grant grant;
	char approval[LEDGER_APPROVAL_ID_SIZE];
	struct ledger_job job;

	NEEDS_STORE();
	grant = grant_of("g", LEDGER_NO_LIMIT, 1);
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 10, 20000, LEDGER_OVER_APPROVE);
	is_code(put_grant(&grant), LEDGER_OK);
	job = refund_job(tool, "h", "o-1", 5000);
	job.call.grant = "g";
	is_code(run(&job), LEDGER_PENDING_APPROVAL);
	strcpy(approval, job.answer.approval);
	assert_int_equal(revoke_by(LEDGER_REVOKE_TASK, "task-1"), 1);
	is_code(decide(LEDGER_APPROVE, approval, "carol"), LEDGER_GRANT_REVOKED);
	assert_int_equal(refunded("o-1"), 0);
	assert_int_equal(used(), 0);
	books_balance();
}

/* --- time -------------------------------------------------------------------------------------------------------- */

static void test_clock_set_back(void **state)
{
	char id[LEDGER_APPROVAL_ID_SIZE];
	struct ledger_options options;
	struct ledger *second = NULL;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, 10000, LEDGER_OVER_APPROVE);
	hold_one("k", 7000, id);
	clock_wall -= 13 * 3600 * NS_PER_S; /* yesterday: no new quota */
	is_refund("a", "o-2", 100, LEDGER_OK);
	assert_int_equal(rows("usage"), 1);
	clock_mono += 3600 * NS_PER_S; /* an hour passes all the same */
	is_code(decide(LEDGER_APPROVE, id, "carol"), LEDGER_APPROVAL_EXPIRED);
	restart(LEDGER_EXECUTOR_SQL);
	is_refund("b", "o-2", 100, LEDGER_OK);
	assert_int_equal(rows("usage"), 1);
	clock_wall -= 26 * 3600 * NS_PER_S;
	options = options_of("n2");
	assert_int_equal(ledger_open(&second, &options, NULL), -ETIME);
	options.accept_clock = true;
	assert_int_equal(ledger_open(&second, &options, NULL), 0);
	ledger_close(second);
	books_balance();
}

static void test_keys_are_collected(void **state)
{
	struct ledger_job tick = { .verb = LEDGER_TICK };

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 5000, 20000, LEDGER_OVER_REFUSE);
	is_refund("k", "o-1", 10, LEDGER_OK);
	pass(86400);
	run(&tick);
	is_refund("k", "o-1", 10, LEDGER_DUPLICATE); /* kept for 24 h at least */
	pass(1);
	tick = (struct ledger_job){ .verb = LEDGER_TICK };
	run(&tick);
	tick = (struct ledger_job){ .verb = LEDGER_TICK };
	run(&tick);
	assert_int_equal(rows("calls"), 0);
	is_refund("k", "o-1", 10, LEDGER_OK);
	pass(86400 * 50);
	for (int i = 0; i < 3; i++) {
		tick = (struct ledger_job){ .verb = LEDGER_TICK };
		run(&tick);
	}
	assert_int_equal(rows("usage"), 0);
}

/* --- several gateways -------------------------------------------------------------------------------------------- */

static void test_same_node_twice(void **state)
{
	struct ledger_options options;
	struct ledger *second;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 5000, 20000, LEDGER_OVER_REFUSE);
	is_refund("a", "o-1", 10, LEDGER_OK);
	options = options_of("n1");
	second = open_with(&options);
	is_refund("b", "o-1", 10, LEDGER_UNAVAILABLE);
	assert_int_not_equal(ledger_health(ledger, NULL), 0);
	assert_int_equal(refunded("o-1"), 10);
	ledger_close(second);
	is_refund("b", "o-1", 10, LEDGER_UNAVAILABLE);
	restart(LEDGER_EXECUTOR_SQL);
	is_refund("b", "o-1", 10, LEDGER_OK);
	books_balance();
}

static void test_dead_gateway(void **state)
{
	struct ledger_options options;
	struct ledger *second;
	struct ledger_job reserved, executing, tick = { .verb = LEDGER_TICK };

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_HTTP, 5000, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	reserved = refund_job(tool, "r", "o-1", 1000);
	executing = refund_job(tool, "e", "o-1", 2000);
	executing.call.start = true;
	is_code(run(&reserved), LEDGER_EXECUTE);
	is_code(run(&executing), LEDGER_EXECUTE);
	options = options_of("n2");
	options.wall_ns = awake_wall;
	options.mono_ns = awake_mono;
	slept = 0;
	second = open_with(&options);
	ledger_run(second, &tick);
	assert_int_equal(used(), 3000); /* alive */
	slept = 61 * NS_PER_S;
	tick = (struct ledger_job){ .verb = LEDGER_TICK };
	ledger_run(second, &tick);
	assert_int_equal(used(), 2000);
	assert_int_equal(
		store_number(&store, "SELECT COUNT(*) FROM calls WHERE state = 'ambiguous'"), 1);
	/* It was only asleep: what it had reserved must not leave now. */
	is_code(step(LEDGER_START, reserved.answer.call, 0), LEDGER_UNAVAILABLE);
	ledger_close(second);
	pass(61);
	restart(LEDGER_EXECUTOR_HTTP);
	books_balance();
}

struct racer {
	struct ledger *ledger;
	struct ledger_tool *tool;
	int first, count;
	int codes[LEDGER_CODES_N];
};

static void *race(void *data)
{
	struct racer *racer = data;

	for (int i = 0; i < racer->count; i++) {
		char key[32];

		snprintf(key, sizeof(key), "k%d", racer->first + i);
		racer->codes[refund(racer->ledger, racer->tool, key, i % 2 ? "o-1" : "o-2", 1)]++;
	}
	return NULL;
}

/* G-13: limit 10, used 9, 100 parallel requests of 1, on two gateways. And G-08: the same key everywhere. */
static void race_on(int count, int spread, int codes[LEDGER_CODES_N])
{
	enum { THREADS = 10 };
	struct ledger_options options = options_of("n2");
	struct ledger *second = open_with(&options);
	struct ledger_tool *other = refund_open(second, LEDGER_EXECUTOR_SQL, tool->limits.single,
						tool->limits.daily, tool->limits.over);
	struct racer racers[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		racers[i] = (struct racer){ .ledger = i % 2 ? second : ledger,
					    .tool = i % 2 ? other : tool,
					    .first = i * spread,
					    .count = count };
		pthread_create(&threads[i], NULL, race, &racers[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		for (int k = 0; k < LEDGER_CODES_N; k++)
			codes[k] += racers[i].codes[k];
	}
	ledger_tool_close(other);
	ledger_close(second);
}

static void test_race_for_the_last(void **state)
{
	int codes[LEDGER_CODES_N] = { 0 };

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 10, 10, LEDGER_OVER_REFUSE);
	is_refund("first", "o-1", 9, LEDGER_OK);
	race_on(10, 10, codes);
	assert_int_equal(codes[LEDGER_OK], 1);
	assert_int_equal(codes[LEDGER_QUOTA_DAILY], 99);
	assert_int_equal(refunded("o-1") + refunded("o-2"), 10);
	books_balance();
}

static void test_race_for_one_key(void **state)
{
	int codes[LEDGER_CODES_N] = { 0 };

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 10, 1000, LEDGER_OVER_REFUSE);
	race_on(20, 0, codes);
	assert_int_equal(codes[LEDGER_OK], 20);
	assert_int_equal(codes[LEDGER_OK] + codes[LEDGER_DUPLICATE], 200);
	assert_int_equal(refunded("o-1") + refunded("o-2"), 20);
	books_balance();
}

/* Callers that share nothing but the quota: no order makes them wait for each other. */
static void *race_alone(void *data)
{
	struct racer *racer = data;

	for (int i = 0; i < racer->count; i++) {
		char key[32], order[16];

		snprintf(key, sizeof(key), "k%d", racer->first + i);
		snprintf(order, sizeof(order), "r%d", racer->first);
		racer->codes[refund(racer->ledger, racer->tool, key, order, 1)]++;
	}
	return NULL;
}

static void test_race_for_quota(void **state)
{
	enum { THREADS = 8, EACH = 60, DAILY = 400 };
	struct ledger_options options = options_of("n2");
	struct racer racers[THREADS];
	pthread_t threads[THREADS];
	struct ledger *second;
	struct ledger_tool *other;
	int ok = 0, refused = 0;

	NEEDS_STORE();
	options.store = store.uri;
	second = open_with(&options);
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 10, DAILY, LEDGER_OVER_REFUSE);
	other = refund_open(second, LEDGER_EXECUTOR_SQL, 10, DAILY, LEDGER_OVER_REFUSE);
	for (int i = 0; i < THREADS; i++) {
		char order[16];

		snprintf(order, sizeof(order), "r%d", i * EACH);
		store_order(&store, order, "t-1", 1000);
		racers[i] = (struct racer){ .ledger = i % 2 ? second : ledger,
					    .tool = i % 2 ? other : tool,
					    .first = i * EACH,
					    .count = EACH };
	}
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, race_alone, &racers[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		ok += racers[i].codes[LEDGER_OK];
		refused += racers[i].codes[LEDGER_QUOTA_DAILY];
	}
	ledger_tool_close(other);
	ledger_close(second);
	assert_int_equal(ok, DAILY);
	assert_int_equal(refused, THREADS * EACH - DAILY);
	assert_int_equal(store_number(&store, "SELECT SUM(refunded) FROM orders"), DAILY);
	books_balance();
}

/* Many at once in one transaction, on one order: each sees the one before. */
static void done_later(struct ledger_job *job)
{
	atomic_uint *left = job->data;

	atomic_fetch_sub(left, 1);
}

static void test_batch(void **state)
{
	enum { JOBS = 300 };
	static struct ledger_job jobs[JOBS];
	static char keys[JOBS][16];
	atomic_uint left = JOBS;
	int ok = 0, refused = 0, duplicate = 0;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	for (int i = 0; i < JOBS; i++) {
		/* Every third repeats the one before. */
		snprintf(keys[i], sizeof(keys[i]), "k%d", i % 3 == 2 ? i - 1 : i);
		jobs[i] = refund_job(tool, keys[i], "o-1", 60);
		jobs[i].done = done_later;
		jobs[i].data = &left;
		assert_int_equal(ledger_submit(ledger, &jobs[i]), 0);
	}
	while (atomic_load(&left))
		usleep(1000);
	for (int i = 0; i < JOBS; i++) {
		ok += jobs[i].answer.code == LEDGER_OK;
		duplicate += jobs[i].answer.code == LEDGER_DUPLICATE;
		refused += jobs[i].answer.code == LEDGER_AMOUNT_OUT_OF_RANGE;
		ledger_answer_clear(&jobs[i].answer);
	}
	assert_int_equal(ok, 166); /* 10000 / 60 */
	assert_int_equal(duplicate, 83);
	assert_int_equal(ok + duplicate + refused, JOBS);
	assert_int_equal(refunded("o-1"), 166 * 60);
	assert_int_equal(rows("records"), JOBS);
	books_balance();
}

/* Many at once that share nothing but a quota, or a grant: they are decided in one round, and still one by one. */
static void share_in_a_batch(const char *grant, int want, enum ledger_code refusal)
{
	enum { JOBS = 60 };
	static struct ledger_job jobs[JOBS];
	static char keys[JOBS][16], orders[JOBS][16];
	atomic_uint left = JOBS;
	int ok = 0, refused = 0;

	for (int i = 0; i < JOBS; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%s%d", grant ? grant : "k", i);
		snprintf(orders[i], sizeof(orders[i]), "b%d", i);
		jobs[i] = refund_job(tool, keys[i], orders[i], 60);
		jobs[i].call.grant = grant;
		jobs[i].done = done_later;
		jobs[i].data = &left;
		assert_int_equal(ledger_submit(ledger, &jobs[i]), 0);
	}
	while (atomic_load(&left))
		usleep(1000);
	for (int i = 0; i < JOBS; i++) {
		ok += jobs[i].answer.code == LEDGER_OK;
		refused += jobs[i].answer.code == refusal;
		ledger_answer_clear(&jobs[i].answer);
	}
	assert_int_equal(ok, want);
	assert_int_equal(ok + refused, JOBS);
	books_balance();
}

static void test_batch_shares_quota_and_grant(void **state)
{
	struct ledger_grant uses, cap;

	NEEDS_STORE();
	uses = grant_of("g-uses", LEDGER_NO_LIMIT, 7);
	cap = grant_of("g-cap", 500, LEDGER_NO_LIMIT);
	for (int i = 0; i < 60; i++) {
		char id[16];

		snprintf(id, sizeof(id), "b%d", i);
		store_order(&store, id, "t-1", 100000);
	}
	is_code(put_grant(&uses), LEDGER_OK);
	is_code(put_grant(&cap), LEDGER_OK);
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, 2000, LEDGER_OVER_REFUSE);
	share_in_a_batch("g-uses", 7, LEDGER_GRANT_EXHAUSTED);
	share_in_a_batch("g-cap", 8, LEDGER_GRANT_EXHAUSTED); /* 500 / 60 */
	share_in_a_batch(NULL, 33 - 15, LEDGER_QUOTA_DAILY);  /* 2000 / 60, less those */
}

/* Many at once, all different, with every character that an array of values could stumble over. */
static void test_batch_of_odd_strings(void **state)
{
	static const char *const odd[] = {
		"{a,b}", "\"q\"",	 "back\\slash", "NULL",	  "null", ",",	"{}", "\\\"",
		"'; --", "\xe2\x82\xac", " lead",	"trail ", "%s",	  "$1", "?1", ":key"
	};
	struct ledger_job jobs[ARRAY_SIZE(odd)];
	atomic_uint left = ARRAY_SIZE(odd);

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		char sql[128];

		snprintf(sql, sizeof(sql),
			 "INSERT INTO orders (id, tenant, amount_paid) VALUES ('b%zu', 't-1', 9)",
			 i);
		store_sql(&store, sql, false);
	}
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		static char orders[ARRAY_SIZE(odd)][8];

		snprintf(orders[i], sizeof(orders[i]), "b%zu", i);
		jobs[i] = refund_job(tool, odd[i], orders[i], 1 + (int64_t)i % 9);
		jobs[i].done = done_later;
		jobs[i].data = &left;
		assert_int_equal(ledger_submit(ledger, &jobs[i]), 0);
	}
	while (atomic_load(&left))
		usleep(1000);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		is_code(jobs[i].answer.code, LEDGER_OK);
		ledger_answer_clear(&jobs[i].answer);
		is_refund(odd[i], jobs[i].call.object, jobs[i].call.amount, LEDGER_DUPLICATE);
		assert_int_equal(refunded(jobs[i].call.object), jobs[i].call.amount);
	}
	assert_int_equal(rows("calls"), ARRAY_SIZE(odd));
	books_balance();
}

static void test_overload(void **state)
{
	struct ledger_options options = options_of("n2");
	struct ledger_job jobs[8];
	atomic_uint left = 8;
	struct ledger *small;
	int err = 0;

	NEEDS_STORE();
	options.queue_max = 4;
	small = open_with(&options);
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	pthread_mutex_lock(&small->tools_mutex); /* the thread stops at the next tool_reap() */
	usleep(1200000);
	for (int i = 0; i < 8; i++) {
		jobs[i] = (struct ledger_job){ .verb = LEDGER_TICK,
					       .done = done_later,
					       .data = &left };
		if (ledger_submit(small, &jobs[i]) == -EAGAIN)
			err++;
	}
	pthread_mutex_unlock(&small->tools_mutex);
	ledger_close(small);
	assert_int_equal(err, 4);
	assert_int_equal(atomic_load(&left), 4);
}

/* --- faults ------------------------------------------------------------------------------------------------------ */

static const struct engine_ops *real;
static struct engine_ops faulty;
static int fail_at, seen, fail_with;
static bool commit_first;

/* The n-th statement or commit fails. A commit may have happened before it "fails". */
static int faulty_run(struct engine *engine, struct arena *arena, struct engine_step *steps,
		      unsigned int n, bool guard, struct error *error)
{
	for (unsigned int i = 0; i < n; i++)
		if (++seen == fail_at)
			return error_set(error, -fail_with, "injected");
	return real->run(engine, arena, steps, n, guard, error);
}

static int faulty_commit(struct engine *engine, struct error *error)
{
	if (++seen != fail_at)
		return real->commit(engine, error);
	if (commit_first)
		real->commit(engine, error);
	return error_set(error, -fail_with, "injected");
}

static int faulty_run_commit(struct engine *engine, struct arena *arena, struct engine_step *steps,
			     unsigned int n, struct error *error)
{
	for (unsigned int i = 0; i < n; i++)
		if (++seen == fail_at)
			return error_set(error, -fail_with, "injected");
	if (++seen != fail_at)
		return real->run_commit(engine, arena, steps, n, error);
	if (commit_first)
		real->run_commit(engine, arena, steps, n, error);
	return error_set(error, -fail_with, "injected");
}

static void arm(int at, int with, bool first)
{
	real = ledger->ops;
	faulty = *real;
	faulty.run = faulty_run;
	faulty.commit = faulty_commit;
	if (real->run_commit)
		faulty.run_commit = faulty_run_commit;
	fail_at = at;
	fail_with = with;
	commit_first = first;
	seen = 0;
	/* The thread is idle between the test's jobs; its tick is far away on the test's clock. */
	ledger->tick_at_ns = INT64_MAX;
	ledger->ops = &faulty;
}

static void disarm(void)
{
	ledger->ops = real;
}

/* Whatever fails, wherever: nothing or everything, and the key tells which. */
static void nth_failure(int with, bool first)
{
	bool over = false;
	int n;

	for (n = 1; !over; n++) {
		int64_t before = refunded("o-1");
		enum ledger_code code;
		char key[32];

		snprintf(key, sizeof(key), "k%d%d%d", n, with, first);
		arm(n, with, first);
		code = refund(ledger, tool, key, "o-1", 1);
		over = seen < n;
		disarm();
		/* Whoever is told "ok" has it; whoever is told `unavailable` has nothing; else the key knows. */
		if (code == LEDGER_OK)
			assert_int_equal(refunded("o-1"), before + 1);
		else if (code == LEDGER_UNAVAILABLE)
			assert_int_equal(refunded("o-1"), before);
		else
			is_code(code, LEDGER_COMMIT_UNKNOWN);
		code = refund(ledger, tool, key, "o-1", 1);
		assert_true(code == LEDGER_OK || code == LEDGER_DUPLICATE);
		assert_int_equal(refunded("o-1"), before + 1);
		assert_int_equal(ledger_health(ledger, NULL), 0);
	}
	assert_true(n > 8);
	books_balance();
}

static void test_nth_failure(void **state)
{
	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	is_refund("warm", "o-1", 1, LEDGER_OK);
	nth_failure(-EIO, false);
	nth_failure(-ENOSPC, false);
	nth_failure(-EROFS, false);
	nth_failure(-EAGAIN, false);
	nth_failure(-EBADMSG, false);
	nth_failure(-ENOTCONN, false);
	nth_failure(-ENOTCONN, true);
}

/* The same for the http steps, refusals and approvals: no state that nobody gets out of. */
static void test_nth_failure_http(void **state)
{
	static const int errors[] = { -EIO, -ENOTCONN, -ENOTCONN };

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_HTTP, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	for (int e = 0; e < 3; e++) {
		bool over = false;

		for (int n = 1; !over; n++) {
			struct ledger_job job;
			enum ledger_code code;
			char key[32];

			snprintf(key, sizeof(key), "k%d-%d", n, e);
			arm(n, errors[e], e == 2);
			job = refund_job(tool, key, "o-1", 1);
			code = run(&job);
			if (code == LEDGER_EXECUTE)
				code = step(LEDGER_START, job.answer.call, 0);
			if (code == LEDGER_OK)
				step(LEDGER_FINISH, job.answer.call, LEDGER_STATE_DONE);
			over = seen < n;
			disarm();
			/* What the gateway does that was not told `ok`: it says that nothing left, and the key is free. */
			if (code != LEDGER_OK && job.answer.call)
				step(LEDGER_FINISH, job.answer.call, LEDGER_STATE_FAILED);
			else if (job.answer.call)
				is_code(step(LEDGER_FINISH, job.answer.call, LEDGER_STATE_DONE),
					LEDGER_OK);
			code = refund(ledger, tool, key, "o-1", 1);
			assert_true(code == LEDGER_EXECUTE || code == LEDGER_DUPLICATE);
			step(LEDGER_FINISH,
			     store_number(&store, "SELECT id FROM calls WHERE ikey = '%s'", key),
			     LEDGER_STATE_FAILED);
		}
	}
	assert_int_equal(store_number(&store,
				      "SELECT COUNT(*) FROM calls WHERE state IN ('reserved', "
				      "'executing')"),
			 0);
	books_balance();
}

static int no_reopen(struct engine *engine, struct error *error)
{
	return error_set(error, ENOTCONN, "injected");
}

/* The store goes away in the commit and stays away: what it wrote is not left to itself when it is back. */
static void test_unknown_commit(void **state)
{
	struct ledger_job tick = { .verb = LEDGER_TICK };
	enum ledger_code code;
	int n;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_HTTP, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	is_refund("warm", "o-2", 1, LEDGER_EXECUTE);
	is_code(run(&tick), LEDGER_OK); /* so that housekeeping is over, and not counted */
	arm(INT32_MAX, 0, false);
	is_refund("count", "o-2", 1, LEDGER_EXECUTE);
	n = seen; /* the commit is the last */
	disarm();
	arm(n, -ENOTCONN, true);
	faulty.reopen = no_reopen;
	is_refund("k", "o-1", 1, LEDGER_COMMIT_UNKNOWN);
	is_refund("l", "o-1", 1, LEDGER_UNAVAILABLE);
	assert_int_not_equal(ledger_health(ledger, NULL), 0);
	assert_int_equal(store_number(&store, "SELECT COUNT(*) FROM calls WHERE ikey = 'k'"), 1);
	disarm();
	do {
		usleep(20000);
		code = refund(ledger, tool, "k", "o-1", 1);
	} while (code == LEDGER_UNAVAILABLE);
	is_code(code, LEDGER_EXECUTE); /* released, reserved anew */
	assert_int_equal(used(), 3);
	books_balance();
}

/* The n-th allocation fails (only ours: the linker puts these in front of the library's). */
static atomic_int alloc_at, allocs;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *string);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *string);

static bool alloc_fails(void)
{
	return atomic_load(&alloc_at) && atomic_fetch_add(&allocs, 1) + 1 == atomic_load(&alloc_at);
}

void *__wrap_malloc(size_t size)
{
	return alloc_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return alloc_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return alloc_fails() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *string)
{
	return alloc_fails() ? NULL : __real_strdup(string);
}

static void test_nth_allocation(void **state)
{
	bool over = false;
	int n;

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	ledger->tick_at_ns = INT64_MAX;
	for (n = 1; !over; n++) {
		int64_t before = refunded("o-1");
		enum ledger_code code;
		char key[16];

		snprintf(key, sizeof(key), "k%d", n);
		atomic_store(&allocs, 0);
		atomic_store(&alloc_at, n);
		code = refund(ledger, tool, key, "o-1", 1);
		over = atomic_load(&allocs) < n;
		atomic_store(&alloc_at, 0);
		if (code == LEDGER_OK)
			assert_int_equal(refunded("o-1"), before + 1);
		else if (code == LEDGER_UNAVAILABLE)
			assert_int_equal(refunded("o-1"), before);
		else
			is_code(code, LEDGER_COMMIT_UNKNOWN);
		code = refund(ledger, tool, key, "o-1", 1);
		assert_true(code == LEDGER_OK || code == LEDGER_DUPLICATE);
		assert_int_equal(refunded("o-1"), before + 1);
	}
	assert_true(n > 2);
	books_balance();
}

/* Opening, too: an error, no crash, and the next try works. */
static void test_nth_allocation_of_open(void **state)
{
	struct ledger_options options;
	bool over = false;
	int n;

	NEEDS_STORE();
	close_all();
	options = options_of("n1");
	for (n = 1; !over; n++) {
		struct error error = { 0 };
		int err;

		atomic_store(&allocs, 0);
		atomic_store(&alloc_at, n);
		err = ledger_open(&ledger, &options, &error);
		over = atomic_load(&allocs) < n;
		atomic_store(&alloc_at, 0);
		assert_true(err == 0 || (err < 0 && *error.text));
		if (!err)
			ledger_close(ledger);
		ledger = NULL;
	}
	assert_true(n > 10);
	ledger = open_with(&options);
	books_balance();
}

/* G-24: the record cannot be written, so nothing is done. */
static void test_record_must_be_written(void **state)
{
	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	is_refund("a", "o-1", 1, LEDGER_OK);
	store_sql(&store, "ALTER TABLE records RENAME TO gone", false);
	is_refund("b", "o-1", 1, LEDGER_UNAVAILABLE);
	is_refund("c", "o-9", 1, LEDGER_UNAVAILABLE); /* a refusal is a decision, too */
	is_refund("a", "o-1", 1, LEDGER_UNAVAILABLE);
	assert_int_equal(refunded("o-1"), 1);
	assert_int_not_equal(ledger_health(ledger, NULL), 0);
	store_sql(&store, "ALTER TABLE gone RENAME TO records", false);
	is_refund("b", "o-1", 1, LEDGER_OK);
	assert_int_equal(ledger_health(ledger, NULL), 0);
	books_balance();
}

static void test_connection_lost(void **state)
{
	NEEDS_STORE();
	if (!with_postgres)
		skip();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	for (int i = 0; i < 5; i++) {
		char key[16];

		snprintf(key, sizeof(key), "k%d", i);
		is_refund(key, "o-1", 1, LEDGER_OK);
		store_cut(&store);
	}
	assert_int_equal(refunded("o-1"), 5);
	books_balance();
}

/* --- the chain --------------------------------------------------------------------------------------------------- */

static void chain_is(uint64_t bad, const char *word)
{
	struct ledger_verdict verdict;
	struct error error = { 0 };
	int err = ledger_verify(ledger, &verdict, &error);

	if (!bad) {
		if (err)
			fail_msg("verify: %s", error.text);
		return;
	}
	assert_int_equal(err, -EBADMSG);
	assert_int_equal(verdict.seq, bad);
	assert_string_equal(verdict.node, "n1");
	if (!strstr(error.text, word))
		fail_msg("verify: %s", error.text);
}

static void test_chain(void **state)
{
	static const struct {
		const char *damage, *word;
		uint64_t bad;
	} rows[] = {
		{ "DELETE FROM records WHERE seq = 10", "missing", 10 },
		{ "DELETE FROM records WHERE seq >= 9", "missing", 9 },
		{ "DELETE FROM records WHERE seq = 4", "missing", 4 },
		{ "DELETE FROM records WHERE seq = 1", "missing", 1 },
		{ "DELETE FROM records", "missing", 1 },
		{ "UPDATE records SET body = replace(body, '\"amount\":3', '\"amount\":1') WHERE "
		  "seq = 3",
		  "changed", 3 },
		{ "UPDATE records SET task = 'task-2' WHERE seq = 5", "changed", 5 },
		{ "UPDATE records SET time_ns = time_ns + 1 WHERE seq = 5", "changed", 5 },
		{ "UPDATE records SET hash = replace(hash, substr(hash, 1, 4), '0000') WHERE seq = "
		  "6",
		  "changed", 6 },
		{ "UPDATE records SET seq = CASE seq WHEN 4 THEN -7 WHEN 7 THEN -4 END WHERE seq "
		  "IN (4, 7);"
		  "UPDATE records SET seq = -seq WHERE seq < 0",
		  "changed", 4 },
		{ "UPDATE gateways SET seq = 8", "is not one", 9 },
	};

	NEEDS_STORE();
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	for (int i = 1; i <= 10; i++) {
		char key[16];

		snprintf(key, sizeof(key), "k%d", i);
		is_refund(key, i % 3 ? "o-1" : "o-2", i, LEDGER_OK);
	}
	chain_is(0, NULL);
	store_sql(&store, "CREATE TABLE keep AS SELECT * FROM records", false);
	store_sql(&store, "CREATE TABLE keep_g AS SELECT * FROM gateways", false);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		store_sql(&store, rows[i].damage, false);
		chain_is(rows[i].bad, rows[i].word);
		store_sql(&store,
			  "DELETE FROM records; INSERT INTO records SELECT * FROM keep;"
			  "UPDATE gateways SET seq = (SELECT seq FROM keep_g)",
			  false);
		chain_is(0, NULL);
	}
}

/* An older state in its place is whole in itself; the anchor knows better. */
static void test_rollback(void **state)
{
	struct ledger_options options;
	struct ledger_verdict verdict;
	struct error error = { 0 };
	char anchor[128];

	NEEDS_STORE();
	snprintf(anchor, sizeof(anchor), "%s/anchor", store.dir);
	close_all();
	options = options_of("n1");
	options.anchor = anchor;
	ledger = open_with(&options);
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	for (int i = 0; i < 5; i++) {
		char key[16];

		snprintf(key, sizeof(key), "k%d", i);
		is_refund(key, "o-1", 1, LEDGER_OK);
		if (i == 2)
			store_sql(&store,
				  "CREATE TABLE keep AS SELECT * FROM records;"
				  "CREATE TABLE keep_g AS SELECT * FROM gateways",
				  false);
	}
	assert_int_equal(ledger_verify(ledger, &verdict, &error), 0);
	assert_int_equal(verdict.records, 5);
	store_sql(&store,
		  "DELETE FROM records; INSERT INTO records SELECT * FROM keep;"
		  "UPDATE gateways SET seq = (SELECT seq FROM keep_g), hash = (SELECT hash FROM "
		  "keep_g)",
		  false);
	assert_int_equal(ledger_verify(ledger, &verdict, &error), -EBADMSG);
	assert_int_equal(verdict.seq, 4);
	close_all();
	error.text[0] = '\0';
	assert_int_equal(ledger_open(&ledger, &options, &error), -ESTALE);
	assert_non_null(strstr(error.text, "rolled back"));
	options.accept_rollback = true;
	ledger = open_with(&options);
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	is_refund("new", "o-1", 1, LEDGER_OK);
}

/* --- the rest ---------------------------------------------------------------------------------------------------- */

static void test_facts_elsewhere(void **state)
{
	struct ledger_options options;
	struct ledger_tool_spec spec;
	struct store other;
	struct error error = { 0 };

	NEEDS_STORE();
	assert_true(store_make(&other, with_postgres));
	store_order(&other, "o-1", "t-1", 50);
	close_all();
	options = options_of("n1");
	options.facts = other.uri;
	ledger = open_with(&options);
	spec = refund_spec(LEDGER_EXECUTOR_SQL, 100, 100, LEDGER_OVER_REFUSE);
	assert_int_equal(ledger_tool_open(ledger, &spec, &tool, &error), -EINVAL);
	tool = refund_open(ledger, LEDGER_EXECUTOR_HTTP, 100, 100, LEDGER_OVER_REFUSE);
	is_refund("a", "o-1", 51, LEDGER_AMOUNT_OUT_OF_RANGE);
	is_refund("a", "o-1", 50, LEDGER_EXECUTE);
	is_refund("b", "o-1", 1, LEDGER_AMOUNT_OUT_OF_RANGE);
	is_refund("b", "o-2", 1, LEDGER_OBJECT_NOT_FOUND);
	store_sql(&other, "DROP TABLE orders", false);
	is_refund("c", "o-1", 1, LEDGER_UNAVAILABLE);
	assert_int_equal(ledger_health(ledger, NULL),
			 0); /* the ledger itself is well, and has recorded it */
	assert_int_equal(rows("records"), 5);
	books_balance();
	close_all();
	store_remove(&other);
}

static void test_newer_schema(void **state)
{
	struct ledger_options options;
	struct error error = { 0 };

	NEEDS_STORE();
	close_all();
	store_sql(&store, "UPDATE meta SET val = '999'", false);
	options = options_of("n1");
	assert_int_equal(ledger_open(&ledger, &options, &error), -EPROTO);
	assert_non_null(strstr(error.text, "999"));
}

static void test_options(void **state)
{
	struct ledger_options options = { .store = "mysql://x", .node = "n" };
	struct ledger *none = NULL;

	assert_int_equal(ledger_open(&none, &options, NULL), -EINVAL);
	options.store = "sqlite:relative.db";
	assert_int_equal(ledger_open(&none, &options, NULL), -EINVAL);
	options.store = "sqlite:/no/such/dir/x.db";
	assert_int_equal(ledger_open(&none, &options, NULL), -ENOENT);
	options.store = "postgresql:///x?host=/no/such/dir";
	assert_int_equal(ledger_open(&none, &options, NULL), -ECONNREFUSED);
	options.node = "two words";
	assert_int_equal(ledger_open(&none, &options, NULL), -EINVAL);
}

static int count_call(const struct ledger_call_row *row, void *data)
{
	assert_string_equal(row->tenant, "t-1");
	(*(int *)data)++;
	return 0;
}

static int count_approval(const struct ledger_approval_row *row, void *data)
{
	assert_string_equal(row->call.key, "h");
	assert_int_equal(row->call.state, LEDGER_STATE_HELD);
	(*(int *)data)++;
	return 0;
}

static int count_grant(const struct ledger_grant *row, void *data)
{
	assert_int_equal(row->uses_max, LEDGER_NO_LIMIT);
	(*(int *)data)++;
	return 0;
}

/* Every record is a JSON object, whatever was in the strings, and says the same as the row. */
static int count_record(const struct ledger_record_row *row, void *data)
{
	json_t *body = json_loads(row->body, JSON_REJECT_DUPLICATES, NULL);

	assert_non_null(body);
	assert_int_equal(json_integer_value(json_object_get(body, "seq")), row->seq);
	assert_int_equal(json_integer_value(json_object_get(body, "time_ns")), row->time_ns);
	assert_string_equal(json_string_value(json_object_get(body, "node")), row->node);
	json_decref(body);
	(*(int *)data)++;
	return 0;
}

static void test_lists(void **state)
{
	struct ledger_filter filter = { .state = -1 };
	struct ledger_grant grant;
	int calls = 0, approvals = 0, grants = 0, records = 0;

	NEEDS_STORE();
	grant = grant_of("g", 10, LEDGER_NO_LIMIT);
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_APPROVE);
	is_refund("a\"\\\xe2\x82\xac", "o-1", 1, LEDGER_OK);
	is_refund("b", "o-1", 1, LEDGER_OK);
	is_refund("h", "o-1", 101, LEDGER_PENDING_APPROVAL);
	is_code(put_grant(&grant), LEDGER_OK);
	assert_int_equal(ledger_list_calls(ledger, &filter, count_call, &calls, NULL), 0);
	assert_int_equal(calls, 3);
	filter.key = "b";
	assert_int_equal(ledger_list_calls(ledger, &filter, count_call, &calls, NULL), 0);
	assert_int_equal(calls, 4);
	filter = (struct ledger_filter){ .state = LEDGER_STATE_DONE, .limit = 1 };
	assert_int_equal(ledger_list_calls(ledger, &filter, count_call, &calls, NULL), 0);
	assert_int_equal(calls, 5);
	filter = (struct ledger_filter){ .state = -1, .before_id = 3 };
	assert_int_equal(ledger_list_calls(ledger, &filter, count_call, &calls, NULL), 0);
	assert_int_equal(calls, 7);
	filter = (struct ledger_filter){ .pending = true, .tenant = "t-1", .task = "task-1" };
	assert_int_equal(ledger_list_approvals(ledger, &filter, count_approval, &approvals, NULL),
			 0);
	assert_int_equal(approvals, 1);
	filter = (struct ledger_filter){ .grant = "g" };
	assert_int_equal(ledger_list_grants(ledger, &filter, count_grant, &grants, NULL), 0);
	assert_int_equal(grants, 1);
	filter = (struct ledger_filter){ .task = "task-1" };
	assert_int_equal(ledger_list_records(ledger, &filter, count_record, &records, NULL), 0);
	assert_int_equal(records, 4);
	filter = (struct ledger_filter){ .limit = 2 };
	assert_int_equal(ledger_list_records(ledger, &filter, count_record, &records, NULL), 0);
	assert_int_equal(records, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_refund),
		TEST(test_refusals),
		TEST(test_refused_before),
		TEST(test_keys),
		TEST(test_bounds),
		TEST(test_daily),
		TEST(test_daily_per_subject),
		TEST(test_overflow),
		TEST(test_http_steps),
		TEST(test_http_failed),
		TEST(test_http_in_flight_counts_against_the_object),
		TEST(test_ambiguous),
		TEST(test_recovery),
		TEST(test_executor_fails_alone),
		TEST(test_executor_changes_one_row),
		TEST(test_inputs_and_types),
		TEST(test_tools_are_checked),
		TEST(test_approve),
		TEST(test_deny_and_expire),
		TEST(test_approve_checks_again),
		TEST(test_approve_http_and_restart),
		TEST(test_grants),
		TEST(test_grants_end),
		TEST(test_approve_after_the_grant),
		TEST(test_clock_set_back),
		TEST(test_keys_are_collected),
		TEST(test_same_node_twice),
		TEST(test_dead_gateway),
		TEST(test_race_for_the_last),
		TEST(test_race_for_one_key),
		TEST(test_race_for_quota),
		TEST(test_batch),
		TEST(test_batch_of_odd_strings),
		TEST(test_batch_shares_quota_and_grant),
		TEST(test_overload),
		TEST(test_nth_failure),
		TEST(test_nth_failure_http),
		TEST(test_unknown_commit),
		TEST(test_nth_allocation),
		TEST(test_nth_allocation_of_open),
		TEST(test_record_must_be_written),
		TEST(test_connection_lost),
		TEST(test_chain),
		TEST(test_rollback),
		TEST(test_facts_elsewhere),
		TEST(test_newer_schema),
		TEST(test_options),
		TEST(test_lists),
	};
	int failed;

	with_postgres = false;
	failed = cmocka_run_group_tests_name("ledger on SQLite", tests, NULL, NULL);
	with_postgres = true;
	failed += cmocka_run_group_tests_name("ledger on PostgreSQL", tests, NULL, NULL);
	return failed;
}
