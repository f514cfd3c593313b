// SPDX-License-Identifier: Apache-2.0
/*
 * Events as OCSF 1.3.0: every type has a class, every operation gives what its class requires, and nothing of the event is left out.
 * Which attributes a class requires is from the published schema.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "event/event.h"

static char line[EVENT_LINE_MAX], out[EVENT_LINE_MAX];

/* Required in every class, and in each. */
static const char *const always[] = { "metadata",    "time",	      "category_uid", "class_uid",
				      "activity_id", "type_uid",      "severity_id",  "class_name",
				      "action_id",   "disposition_id" };
static const struct {
	int class;
	const char *name;
	const char *required[4];
	int activities[12]; /* that the class has, besides 99 */
} classes[] = {
	{ 1001, "File System Activity", { "device", "actor", "file" }, { 1, 2, 3, 4, 5, 6, 7, 12 } },
	{ 1003, "Kernel Activity", { "device", "actor", "kernel" }, { 1, 2, 3, 4 } },
	{ 1007, "Process Activity", { "device", "actor", "process" }, { 1, 2, 3, 4, 5 } },
	{ 1008, "Event Log Activity", { "device" }, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 } },
	{ 2004, "Detection Finding", { "finding_info" }, { 1, 2, 3 } },
	{ 4001, "Network Activity", { "dst_endpoint" }, { 1, 2, 3, 4, 5, 6 } },
	{ 6002, "Application Lifecycle", { "app" }, { 1, 2, 3, 4 } },
	{ 6003, "API Activity", { "actor", "api", "src_endpoint" }, { 1, 2, 3, 4 } },
};

static void event_fill(struct event *event, unsigned int op)
{
	event_make(event, (enum cordon_op)op, NULL, NULL, 17, "a detail");
	event->raw.fence_id = 7;
	event->raw.verdict = CORDON_VERDICT_DENY;
	event->raw.rule = CORDON_RULE_NET_DEFAULT;
	event->raw.pid = 4242;
	event->raw.start_ns = 99;
	event->raw.err = EROFS;
	event->raw.count = 3;
	strcpy(event->raw.comm, "agent");
	event->kernel = true;
	event->exe = (struct event_bytes){ "/usr/bin/agent", 14 };
	if (event->raw.type == CORDON_TYPE_FILE) {
		event->path = (struct event_bytes){ "/etc/a\nb", 8 };
		event->path2 = (struct event_bytes){ "/etc/new", 8 };
	}
	if (event->raw.type == CORDON_TYPE_NET) {
		event->raw.family = AF_INET;
		event->raw.proto = IPPROTO_TCP;
		memcpy(event->raw.dst + 12, "\xa9\xfe\xa9\xfe", 4);
		event->raw.dport = 80;
	}
}

static json_t *ocsf(const struct event *event, size_t *ret_size)
{
	static const struct event_context context = { .node = "n",
						      .fence_name = "f",
						      .policy = "p",
						      .task = "t",
						      .tenant = "t-1",
						      .subject = "alice" };
	size_t n = event_format_json(line, &context, event);
	size_t m = event_format_line(out, EVENT_OCSF, line, n);
	json_t *made;

	assert_true(m > 0);
	assert_int_equal(out[m - 1], '\n');
	assert_null(memchr(out, '\n', m - 1));
	made = json_loadb(out, m, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(made);
	if (ret_size)
		*ret_size = m;
	return made;
}

static long long number(const json_t *event, const char *key)
{
	return json_integer_value(json_object_get(event, key));
}

static const char *text(const json_t *event, const char *object, const char *key)
{
	return json_string_value(json_object_get(json_object_get(event, object), key));
}

static void test_types(void **state)
{
#define CORDON_X(e, uid, name) [CORDON_TYPE_##e] = uid,
	static const int of_type[CORDON_TYPE_COUNT] = { CORDON_OCSF_TYPES(CORDON_X) };
#undef CORDON_X

	(void)state;
	for (unsigned int i = 0; i < CORDON_TYPE_COUNT; i++)
		if (!of_type[i])
			fail_msg("type %s has no class: CORDON_OCSF_TYPES", event_type_name(i));
}

static void test_operations(void **state)
{
	(void)state;
	for (unsigned int op = 0; op < CORDON_OP_COUNT; op++) {
		struct event event;
		json_t *made;
		size_t i = 0;
		bool known = false;

		event_fill(&event, op);
		made = ocsf(&event, NULL);
		for (size_t k = 0; k < ARRAY_SIZE(always); k++)
			if (!json_object_get(made, always[k]))
				fail_msg("%s: no %s", event_op_name(op), always[k]);
		while (i < ARRAY_SIZE(classes) && classes[i].class != number(made, "class_uid"))
			i++;
		if (i == ARRAY_SIZE(classes))
			fail_msg("%s: class %lld", event_op_name(op), number(made, "class_uid"));
		assert_string_equal(json_string_value(json_object_get(made, "class_name")),
				    classes[i].name);
		for (size_t k = 0; k < 4 && classes[i].required[k]; k++)
			if (!json_object_get(made, classes[i].required[k]))
				fail_msg("%s: no %s", event_op_name(op), classes[i].required[k]);
		known = number(made, "activity_id") == 99;
		for (size_t k = 0; k < ARRAY_SIZE(classes[i].activities); k++)
			known |= classes[i].activities[k] &&
				 classes[i].activities[k] == number(made, "activity_id");
		assert_true(known);
		if (number(made, "activity_id") == 99) /* must then say what it was */
			assert_string_equal(
				json_string_value(json_object_get(made, "activity_name")),
				event_op_name(op));
		assert_int_equal(number(made, "category_uid"), number(made, "class_uid") / 1000);
		assert_int_equal(number(made, "type_uid"),
				 number(made, "class_uid") * 100 + number(made, "activity_id"));
		assert_string_equal(text(made, "metadata", "version"), "1.3.0");
		assert_string_equal(text(made, "unmapped", "op"), event_op_name(op));
		assert_int_equal(number(made, "time"), event.time_ns / 1000000);
		assert_int_equal(number(made, "action_id"), 2);
		assert_int_equal(number(made, "disposition_id"), 2);
		json_decref(made);
	}
}

static void test_values(void **state)
{
	struct event event;
	json_t *made;

	(void)state;
	event_fill(&event, CORDON_OP_OPEN_WRITE);
	made = ocsf(&event, NULL);
	assert_int_equal(number(made, "type_uid"), 100103);
	assert_string_equal(text(made, "file", "path"), "/etc/a\\x0ab");
	assert_string_equal(text(made, "file", "name"), "a\\x0ab");
	assert_string_equal(text(made, "file_result", "path"), "/etc/new");
	assert_string_equal(text(json_object_get(made, "actor"), "process", "name"), "agent");
	assert_string_equal(text(json_object_get(made, "actor"), "user", "name"), "alice");
	assert_string_equal(text(made, "device", "hostname"), "n");
	assert_string_equal(text(made, "firewall_rule", "name"), "network.default");
	assert_string_equal(text(json_object_get(made, "unmapped"), "fence", "tenant"), "t-1");
	assert_string_equal(json_string_value(json_object_get(made, "status_detail")), "EROFS");
	assert_string_equal(json_string_value(json_object_get(made, "message")), "a detail");
	assert_int_equal(number(made, "count"), 3);
	json_decref(made);
	event_fill(&event, CORDON_OP_CONNECT);
	event.raw.verdict = CORDON_VERDICT_WOULD_DENY;
	made = ocsf(&event, NULL);
	assert_int_equal(number(made, "type_uid"), 400101);
	assert_string_equal(text(made, "dst_endpoint", "ip"), "169.254.169.254");
	assert_int_equal(number(json_object_get(made, "dst_endpoint"), "port"), 80);
	assert_int_equal(number(made, "action_id"), 1);
	assert_int_equal(number(made, "disposition_id"), 17);
	json_decref(made);
}

/* Everything at its longest still gives a line. */
static void test_longest(void **state)
{
	static char path[4096], detail[1024];
	struct event_context context;
	struct event event;
	size_t n;

	(void)state;
	memset(path, 1, sizeof(path) - 1);
	memset(detail, 1, sizeof(detail) - 1);
	event_fill(&event, CORDON_OP_RENAME);
	event.path = event.path2 = event.exe = (struct event_bytes){ path, sizeof(path) - 1 };
	event.detail = detail;
	context = (struct event_context){ detail, detail, detail, detail,
					  detail, detail, detail, detail };
	n = event_format_json(line, &context, &event);
	n = event_format_line(out, EVENT_OCSF, line, n);
	assert_true(n > 50000);
	assert_int_equal(out[n - 1], '\n');
}

/* A recorded line that somebody made up. */
static void test_hostile(void **state)
{
	static const char *const lines[] = {
		"{\"schema\":\"cordon.event/"
		"1\",\"seq\":1,\"time\":\"2026-01-02T03:04:05Z\",\"type\":"
		"\"nonsense\",\"op\":\"nonsense\",\"verdict\":\"x\",\"rule\":\"\\u001b["
		"2J\\u202e\\u007f\","
		"\"fence\":{}}",
		"{\"schema\":\"cordon.event/"
		"1\",\"seq\":1,\"time\":\"2026-01-02T03:04:05Z\",\"type\":"
		"\"net\",\"op\":\"connect\",\"verdict\":\"deny\",\"rule\":\"r\",\"fence\":{},"
		"\"net\":7,"
		"\"file\":[],\"process\":\"p\",\"guard\":null,\"gateway\":{}}",
		"{\"schema\":\"cordon.event/"
		"1\",\"seq\":1,\"time\":\"2026-01-02T03:04:05Z\",\"type\":"
		"\"file\",\"op\":\"rename\",\"verdict\":\"deny\",\"rule\":\"r\",\"fence\":{\"id\":"
		"9}}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		size_t n = event_format_line(out, EVENT_OCSF, lines[i], strlen(lines[i]));

		assert_true(n > 0);
		assert_true(event_line_is_sound(out, n));
	}
	assert_int_equal(event_format_line(out, EVENT_OCSF, "{}", 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),	cmocka_unit_test(test_operations),
		cmocka_unit_test(test_values),	cmocka_unit_test(test_longest),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
