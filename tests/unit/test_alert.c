// SPDX-License-Identifier: Apache-2.0
/* user/alert: at the limit and just below it, within the window and just outside, silence, and bounds against made-up names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "alert/alert.h"

#define S 1000000000ULL
#define T0 (1700000000ULL * S)

static struct alerts *alerts;
static struct alert due;

static void limits_open(struct alert_limits limits)
{
	struct error error = { "" };

	alerts_close(alerts);
	assert_int_equal(alerts_open(&limits, &alerts, &error), 0);
}

static bool see(enum cordon_op op, enum cordon_type type, enum cordon_verdict verdict,
		uint64_t fence, const char *tenant, const char *subject, uint64_t time_ns,
		uint32_t count)
{
	static struct event event;
	const struct event_gateway gateway = { .status = 200, .destructive = op == CORDON_OP_CALL };
	struct event_context context = { .tenant = tenant, .subject = subject };

	memset(&event, 0, offsetof(struct event, names));
	event.raw.op = (__u8)op;
	event.raw.type = (__u8)type;
	event.raw.verdict = (__u8)verdict;
	event.raw.fence_id = fence;
	event.raw.count = count;
	event.time_ns = time_ns;
	event.gateway = type == CORDON_TYPE_GATEWAY ? &gateway : NULL;
	return alerts_see(alerts, &context, &event, &due);
}

static bool deny(uint64_t fence, uint64_t time_ns, uint32_t count)
{
	return see(CORDON_OP_CONNECT, CORDON_TYPE_NET, CORDON_VERDICT_DENY, fence, NULL, NULL,
		   time_ns, count);
}

static bool destroy(const char *tenant, const char *subject, uint64_t fence, uint64_t time_ns)
{
	return see(CORDON_OP_UNLINK, CORDON_TYPE_FILE, CORDON_VERDICT_ALLOW, fence, tenant, subject,
		   time_ns, 1);
}

static const struct alert_limits small = { .denials = 10,
					   .denials_window_ns = 16 * S,
					   .calls = 3,
					   .calls_window_ns = 10 * S,
					   .quiet_ns = 100 * S };

static void test_deny_rate(void **state)
{
	(void)state;
	limits_open(small);
	for (unsigned int i = 0; i < 9; i++)
		assert_false(deny(1, T0 + i * S / 10, 1));
	assert_false(deny(2, T0 + S, 1)); /* another fence's count for itself */
	assert_true(deny(1, T0 + S, 1));
	assert_int_equal(due.op, CORDON_OP_DENY_RATE);
	assert_int_equal(due.fence_id, 1);
	assert_int_equal(due.count, 10);
	assert_int_equal(due.first_ns, T0);
	assert_int_equal(due.last_ns, T0 + S);
	/* Silence about it, and then again; about another at once. */
	assert_false(deny(1, T0 + 2 * S, 1));
	assert_false(deny(1, T0 + 100 * S, 10));
	assert_true(deny(2, T0 + 2 * S, 9));
	assert_true(deny(1, T0 + 102 * S, 1));
	/* Repeats that the kernel folded count as many as they are. */
	assert_true(deny(3, T0, 1000000));
	assert_int_equal(due.count, 1000000);
}

static void test_deny_window(void **state)
{
	(void)state;
	limits_open(small);
	/* One every two seconds: eight in the window of sixteen. */
	for (unsigned int i = 0; i < 1000; i++)
		assert_false(deny(1, T0 + i * 2 * S, 1));
	/* One a second and a half: more than ten. */
	limits_open(small);
	for (unsigned int i = 0; i < 9; i++)
		assert_false(deny(1, T0 + i * 3 * S / 2, 1));
	assert_true(deny(1, T0 + 9 * 3 * S / 2, 1));
	/* Nothing of before a long silence counts. */
	limits_open(small);
	assert_false(deny(1, T0, 9));
	assert_false(deny(1, T0 + 1000 * S, 9));
	assert_true(deny(1, T0 + 1001 * S, 1));
	/* A clock that goes back neither crashes nor forgets. */
	assert_false(deny(4, T0 + 1000 * S, 5));
	assert_true(deny(4, T0, 5));
}

static void test_audit_mode_counts(void **state)
{
	(void)state;
	limits_open(small);
	for (unsigned int i = 0; i < 9; i++)
		assert_false(see(CORDON_OP_CONNECT, CORDON_TYPE_NET, CORDON_VERDICT_WOULD_DENY, 1,
				 NULL, NULL, T0, 1));
	assert_true(see(CORDON_OP_CONNECT, CORDON_TYPE_NET, CORDON_VERDICT_WOULD_DENY, 1, NULL,
			NULL, T0, 1));
}

static void test_destructive(void **state)
{
	(void)state;
	limits_open(small);
	assert_false(destroy("t-1", "alice", 1, T0));
	assert_false(destroy("t-1", "alice", 2, T0 + S)); /* the same from another fence of hers */
	assert_false(destroy("t-2", "alice", 3, T0 + S)); /* somebody else of that name */
	assert_false(destroy("t-1", "bob", 1, T0 + S));
	assert_true(destroy("t-1", "alice", 1, T0 + 10 * S));
	assert_int_equal(due.op, CORDON_OP_DESTRUCTIVE);
	assert_int_equal(due.count, 3);
	assert_int_equal(due.first_ns, T0);
	assert_non_null(strstr(due.detail, "alice of t-1"));
	assert_false(destroy("t-1", "alice", 1, T0 + 11 * S)); /* silence */
	/* The third just outside the window. */
	limits_open(small);
	assert_false(destroy("t", "a", 1, T0));
	assert_false(destroy("t", "a", 1, T0 + S));
	assert_false(destroy("t", "a", 1, T0 + 10 * S + 1));
	assert_true(destroy("t", "a", 1, T0 + 11 * S)); /* the window moves */
	assert_int_equal(due.first_ns, T0 + S);
	/* Without a subject, the fence. */
	limits_open(small);
	assert_false(destroy(NULL, NULL, 1, T0));
	assert_false(destroy(NULL, NULL, 2, T0));
	assert_false(destroy(NULL, NULL, 1, T0));
	assert_true(destroy(NULL, NULL, 1, T0));
	assert_non_null(strstr(due.detail, "this fence"));
}

static void test_what_counts(void **state)
{
	(void)state;
	limits_open(small);
	for (unsigned int i = 0; i < 100; i++) {
		assert_false(see(CORDON_OP_OPEN_WRITE, CORDON_TYPE_FILE, CORDON_VERDICT_ALLOW, 1,
				 "t", "a", T0, 1));
		assert_false(see(CORDON_OP_GAP, CORDON_TYPE_LOSS, CORDON_VERDICT_ALLOW, 1, "t", "a",
				 T0, 1000));
		assert_false(see(CORDON_OP_DENY_RATE, CORDON_TYPE_LIMIT, CORDON_VERDICT_ALLOW, 1,
				 "t", "a", T0, 1000));
		assert_false(see(CORDON_OP_APPROVAL, CORDON_TYPE_GATEWAY, CORDON_VERDICT_ALLOW, 1,
				 "t", "a", T0, 1));
	}
	assert_false(
		see(CORDON_OP_CALL, CORDON_TYPE_GATEWAY, CORDON_VERDICT_ALLOW, 1, "t", "a", T0, 1));
	assert_false(
		see(CORDON_OP_RMDIR, CORDON_TYPE_FILE, CORDON_VERDICT_ALLOW, 1, "t", "a", T0, 1));
	assert_true(see(CORDON_OP_TRUNCATE, CORDON_TYPE_FILE, CORDON_VERDICT_ALLOW, 1, "t", "a", T0,
			1));
	/* Off. */
	limits_open((struct alert_limits){ .quiet_ns = 1 });
	for (unsigned int i = 0; i < 1000; i++) {
		assert_false(deny(1, T0, 1000));
		assert_false(destroy("t", "a", 1, T0));
	}
}

/* More than can be watched: who is active stays. */
static void test_bound(void **state)
{
	char name[300];

	(void)state;
	limits_open(small);
	assert_false(destroy("t", "busy", 1, T0));
	for (unsigned int i = 0; i < 3 * ALERT_WATCHED_MAX; i++) {
		snprintf(name, sizeof(name), "made-up-%u", i);
		assert_false(destroy("t", name, 1, T0 + i));
		if (i == ALERT_WATCHED_MAX / 2)
			assert_false(destroy("t", "busy", 1, T0 + i));
		if (i == ALERT_WATCHED_MAX)
			assert_true(destroy("t", "busy", 1, T0 + i));
	}
	assert_false(destroy("t", "made-up-0", 1, T0)); /* was forgotten */
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_false(destroy(name, name, 1, T0));
	assert_false(destroy(name, name, 1, T0));
	assert_true(destroy(name, name, 1, T0));
	for (unsigned int i = 0; i < 3 * ALERT_WATCHED_MAX; i++)
		assert_false(deny(1000 + i, T0, 9));
}

static void test_event(void **state)
{
	static char line[EVENT_LINE_MAX];
	const struct cordon_fence fence = { .id = 7, .generation = 3 };
	struct event_context context = { .node = "n", .subject = "alice" };
	struct event_record record;
	struct event event;
	size_t n;

	(void)state;
	limits_open(small);
	assert_true(deny(7, T0, 10));
	alert_make(&event, &fence, NULL, 42, &due);
	n = event_format_json(line, &context, &event);
	line[n] = '\0';
	assert_non_null(strstr(line, "\"seq\":42,"));
	assert_non_null(strstr(line,
			       "\"type\":\"limit\",\"op\":\"deny_rate\",\"verdict\":\"allow\","
			       "\"rule\":\"alert.deny_rate\""));
	assert_non_null(strstr(line, "\"count\":10,"));
	assert_non_null(strstr(line, "\"id\":\"0000000000000007\""));
	assert_non_null(strstr(line, "\"first\":\"2023-11-14T22:13:20.000000000Z\""));
	assert_int_equal(event_record_parse(line, n, &record, NULL), 0);
	event_record_clear(&record);
}

/* A gateway's event, which comes as a line. */
static void test_record(void **state)
{
	static const char form[] =
		"{\"schema\":\"cordon.event/"
		"1\",\"node\":\"n\",\"seq\":1,\"time\":\"2026-01-02T03:04:05."
		"000000006Z\",\"type\":\"gateway\",\"op\":\"call\",\"verdict\":\"%s\",\"rule\":"
		"\"gateway.allow\",\"fence\":{\"id\":\"00000000000000ff\",\"tenant\":\"t-1\","
		"\"subject\":"
		"\"alice\"},\"gateway\":{\"status\":%d%s}}";
#define DONE ",\"destructive\":true"
	static const struct {
		const char *verdict;
		int status;
		const char *more;
		bool due;
	} calls[] = { { "allow", 200, DONE, false },
		      { "deny", 403, "", false },
		      { "deny", 202, "", false },
		      { "allow", 200, "", false }, /* a repeat, or a tool that takes nothing away */
		      { "allow", 200, DONE, false },
		      { "allow", 200, DONE, true } };
	char text[512];

	(void)state;
	limits_open(small);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		int n = snprintf(text, sizeof(text), form, calls[i].verdict, calls[i].status,
				 calls[i].more);
		struct event_record record;

		assert_int_equal(event_record_parse(text, (size_t)n, &record, NULL), 0);
		assert_int_equal(alerts_see_record(alerts, &record, &due), calls[i].due);
		event_record_clear(&record);
	}
	assert_int_equal(due.fence_id, 255);
	assert_non_null(strstr(due.detail, "alice of t-1"));
}

static void test_limits(void **state)
{
	struct alerts *none = NULL;
	struct error error = { "" };
	struct alert_limits limits = small;

	(void)state;
	limits.calls = ALERT_CALLS_MAX + 1;
	assert_int_equal(alerts_open(&limits, &none, &error), -EINVAL);
	limits = small;
	limits.denials_window_ns = 5;
	assert_int_equal(alerts_open(&limits, &none, &error), -EINVAL);
	limits = ALERT_LIMITS_DEFAULT;
	assert_int_equal(alerts_open(&limits, &none, &error), 0);
	alerts_close(none);
	alerts_close(NULL);
}

static int teardown(void **state)
{
	(void)state;
	alerts_close(alerts);
	alerts = NULL;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_deny_rate, teardown),
		cmocka_unit_test_teardown(test_deny_window, teardown),
		cmocka_unit_test_teardown(test_audit_mode_counts, teardown),
		cmocka_unit_test_teardown(test_destructive, teardown),
		cmocka_unit_test_teardown(test_what_counts, teardown),
		cmocka_unit_test_teardown(test_bound, teardown),
		cmocka_unit_test_teardown(test_event, teardown),
		cmocka_unit_test_teardown(test_record, teardown),
		cmocka_unit_test_teardown(test_limits, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
