// SPDX-License-Identifier: Apache-2.0
/* user/cordon/top.c: rates, order, the size of a page, and texts of others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cordon/top.h"
#include "util/util.h"

static json_t *row(const char *id, long long denials, long long events)
{
	return json_pack("{s:s,s:s,s:s,s:s,s:i,s:I,s:I,s:i,s:i}", "id", id, "policy", "p\x1b[2J\n",
			 "mode", "enforce", "task", "t\xc3\xa9", "tasks", 3, "denials",
			 (json_int_t)denials, "events", (json_int_t)events, "lost", 0, "age_s", 61);
}

static json_t *status(long long events)
{
	return json_pack("{s:s,s:s,s:b,s:i,s:i,s:i,s:I,s:i}", "version", "1.2", "attached_as",
			 "lsm", "degraded", 1, "uptime_s", 7200, "fences", 2, "readers", 1,
			 "events", (json_int_t)events, "lost", 0);
}

static char *page(const struct top *top, unsigned int width, unsigned int height)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	top_print(out, top, width, height, "");
	fclose(out);
	return text;
}

static void assert_has(const char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("\"%s\" is not in:\n%s", what, text);
}

static void test_rates(void **state)
{
	struct top top;
	char *text;

	(void)state;
	assert_int_equal(top_open(&top), 0);
	top_take(&top, json_pack("[o,o]", row("aa", 5, 10), row("bb", 1000, 1000)), status(100),
		 1000);
	text = page(&top, 132, 0);
	assert_has(text, "cordond 1.2, up 2h, attached as lsm, DEGRADED - fences 2, followers 1, "
			 "events 100 (-/s)");
	assert_true(strstr(text, "bb") < strstr(text, "aa")); /* denied more so far */
	free(text);
	/* 2 s later one has 5 more; the other began anew, as one that a new cordond took over may. */
	top_take(&top,
		 json_pack("[o,o,o]", row("aa", 10, 1010), row("bb", 900, 0), row("cc", 0, 0)),
		 status(350), 3000);
	text = page(&top, 132, 0);
	assert_has(text, "events 350 (125/s)");
	assert_has(text, "        10      2.5       500       0 61s");
	assert_has(text, "       900        -         -       0 61s");
	assert_true(strstr(text, "aa") < strstr(text, "bb"));
	/* What could act on a terminal, and what is not ASCII. */
	assert_has(text, "p?[2J?");
	assert_has(text, "t??");
	for (const char *c = text; *c; c++)
		assert_true(*c == '\n' || (*c >= 0x20 && *c < 0x7f));
	free(text);
	top_close(&top);
	top_close(&top);
}

static const char event_head[] =
	"{\"schema\":\"cordon.event/"
	"1\",\"node\":\"n\",\"seq\":1,\"time\":\"2026-01-02T03:04:05.000000006Z\","
	"\"mono_ns\":1,\"type\":\"file\",\"op\":\"open_write\",";

static void test_denials(void **state)
{
	char line[1024];
	struct top top;
	char *text;

	(void)state;
	assert_int_equal(top_open(&top), 0);
	top_take(&top, json_array(), status(0), 1);
	for (int i = 0; i < 30; i++) {
		snprintf(line, sizeof(line),
			 "%s\"verdict\":\"%s\",\"rule\":\"files.write\",\"errno\":\"EROFS\","
			 "\"fence\":{"
			 "\"id\":\"00000000000000%02d\"},\"detail\":\"\\u001b[2J number-%d-\"}",
			 event_head, i == 29 ? "would_deny" : "deny", i, i);
		top_event(&top, line, strlen(line));
	}
	assert_int_equal(top.n_denials, 30);
	/* What is no denial, or no event. */
	snprintf(
		line, sizeof(line),
		"%s\"verdict\":\"allow\",\"rule\":\"none\",\"fence\":{\"id\":\"1\"},\"detail\":\"x "
		"\\\"verdict\\\":\\\"deny\\\"\"}",
		event_head);
	top_event(&top, line, strlen(line));
	top_event(&top, "\"verdict\":\"deny\"", 16);
	top_event(&top, "{\"verdict\":\"deny\"}", 18);
	top_event(&top, "", 0);
	assert_int_equal(top.n_denials, 30);
	text = page(&top, 200, 0);
	assert_has(text, "last denials:\n");
	assert_has(text, "0000000000000020");
	assert_null(strstr(text, "0000000000000019"));
	assert_true(strstr(text, "0000000000000020") < strstr(text, "0000000000000029"));
	assert_null(strchr(text, '\x1b'));
	free(text);
	top_close(&top);
}

/* No page has more lines or columns than there is room for, whatever is to be shown. */
static void test_size(void **state)
{
	char line[1024];
	struct top top;
	json_t *rows = json_array();

	(void)state;
	assert_int_equal(top_open(&top), 0);
	for (int i = 0; i < 100; i++)
		json_array_append_new(rows, row("0123456789abcdef", i, i));
	top_take(&top, rows, status(1), 1);
	for (int i = 0; i < 10; i++) {
		snprintf(line, sizeof(line),
			 "%s\"verdict\":\"deny\",\"rule\":\"files.write\",\"errno\":\"EROFS\","
			 "\"fence\":{"
			 "\"id\":\"2\"}}",
			 event_head);
		top_event(&top, line, strlen(line));
	}
	for (unsigned int height = 1; height < 60; height++)
		for (unsigned int width = 1; width < 200; width += 13) {
			char *text = page(&top, width, height), *rest = text, *one;
			unsigned int lines = 0;

			while ((one = strsep(&rest, "\n"))) {
				lines++;
				assert_true(strlen(one) <= width);
			}
			assert_true(lines <= height);
			if (height > 30)
				assert_int_equal(lines, height);
			free(text);
		}
	top_close(&top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_denials),
		cmocka_unit_test(test_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
