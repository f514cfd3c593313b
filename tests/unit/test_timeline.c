// SPDX-License-Identifier: Apache-2.0
/* `cordon timeline`: order, repeats, other tasks, lines that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cordon/cli.h"
#include "event/event.h"

static char dir[64], path[3][96];

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/cordon-timeline-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	for (int i = 0; i < 3; i++)
		snprintf(path[i], sizeof(path[i]), "%s/%d", dir, i);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		unlink(path[i]);
	return rmdir(dir);
}

static void add(FILE *f, const char *node, enum cordon_op op, uint64_t seq, uint64_t mono_ns,
		uint64_t time_ns, const char *task)
{
	static const struct event_gateway gateway = {
		.tool = "refund", .status = 200, .upstream_status = -1, .latency_us = 5
	};
	static struct event event;
	const struct event_context context = { .node = node, .task = task };

	event_make(&event, op, NULL, NULL, seq, NULL);
	event.raw.mono_ns = mono_ns;
	event.time_ns = time_ns;
	event.gateway = op == CORDON_OP_CALL ? &gateway : NULL;
	assert_int_equal(event_write(f, EVENT_JSON, false, &context, &event), 0);
}

/* Runs the verb; what it prints is read into got, as "op seq" a line. */
static int timeline(const char *task, char *got, size_t size)
{
	char *argv[] = { "cordon", "timeline", "-o", "json", (char *)task, path[0], path[1], NULL };
	int saved = dup(STDOUT_FILENO), out = open(path[2], O_RDWR | O_CREAT | O_TRUNC, 0600), code;
	static char line[EVENT_LINE_MAX];
	FILE *f;
	size_t n = 0;

	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	code = cli_main(7, argv);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(out);
	f = fopen(path[2], "r");
	got[0] = '\0';
	while (fgets(line, sizeof(line), f)) {
		struct event_record record;
		struct event_place place;

		assert_int_equal(event_record_parse(line, strlen(line), &record, NULL), 0);
		event_record_place(&record, &place);
		n += (size_t)snprintf(got + n, size - n, "%s %llu\n", place.op,
				      (unsigned long long)place.seq);
		event_record_clear(&record);
	}
	fclose(f);
	return code;
}

#define HOUR 3600000000000ULL
#define DAY (24 * HOUR)

static void test_order(void **state)
{
	FILE *kernel = fopen(path[0], "w"), *gateway = fopen(path[1], "w");
	char got[1024];

	(void)state;
	add(kernel, "n-1", CORDON_OP_START, 1, 1000, DAY + 1000, "T");
	add(kernel, "n-1", CORDON_OP_EXIT, 2, 3000, DAY + 3000, "T");
	add(kernel, "n-1", CORDON_OP_EXIT, 7, 2500, DAY + 2500, "other");
	add(gateway, "n-1", CORDON_OP_CALL, 1, 2000, DAY - 500000,
	    "T"); /* the clock was set back */
	add(gateway, "n-2", CORDON_OP_CALL, 9, 5, DAY + 2999, "T");
	add(gateway, "n-1", CORDON_OP_CALL, 3, 10, DAY + 5 * HOUR, "T"); /* after a reboot */
	add(gateway, "n-1", CORDON_OP_START, 1, 1000, DAY + 1000, "T");	 /* recorded there, too */
	fclose(kernel);
	fclose(gateway);
	assert_int_equal(timeline("T", got, sizeof(got)), EXIT_OK);
	assert_string_equal(got, "start 1\ncall 1\ncall 9\nexit 2\ncall 3\n");
	assert_int_equal(timeline("none", got, sizeof(got)), EXIT_FOUND);
	assert_string_equal(got, "");
}

static void test_malformed(void **state)
{
	FILE *kernel = fopen(path[0], "w"), *gateway = fopen(path[1], "w");
	char got[1024];

	(void)state;
	add(kernel, "n-1", CORDON_OP_START, 1, 1000, DAY + 1000, "T");
	fputs("not an event\n", kernel);
	add(kernel, "n-1", CORDON_OP_EXIT, 2, 3000, DAY + 3000, "T");
	for (int i = 0; i < EVENT_LINE_MAX + 10; i++)
		fputc('x', gateway);
	fputc('\n', gateway);
	add(gateway, "n-1", CORDON_OP_CALL, 1, 2000, DAY + 2000, "T");
	fputs("{\"schema\":\"cordon.event/1\"", gateway); /* still being written */
	fclose(kernel);
	fclose(gateway);
	assert_int_equal(timeline("T", got, sizeof(got)), EXIT_FOUND);
	assert_string_equal(got, "start 1\ncall 1\nexit 2\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_malformed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
