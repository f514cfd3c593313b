// SPDX-License-Identifier: Apache-2.0
/*
 * Refusals of the gateway: each code of the table says what happened, by which rule, whether asking again helps and whom to
 * ask, and says nothing else. `test_refusal --print-doc` prints the table of docs/gateway.md.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "admin/report.h"
#include "gateway/refusal.h"
#include "util/util.h"

/* What is told to callers as done, held or not at all is no refusal. */
static bool is_refusal(enum ledger_code code)
{
	return ledger_code_info(code)->http_status >= 400;
}

static const char *text_of(const json_t *root, const char *name)
{
	const char *text = json_string_value(json_object_get(root, name));

	assert_non_null(text);
	assert_true(text[0]);
	return text;
}

static json_t *parse(const char *text, int n)
{
	json_t *root = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);

	assert_non_null(root);
	assert_int_equal(text[n - 1], '\n');
	assert_int_equal(json_object_size(root), 5);
	return root;
}

static void test_every_code(void **state)
{
	static const char *const retries[] = { "never", "changed", "same_key" };
	unsigned int seen = 0;

	for (int code = 0; code < LEDGER_CODES_N; code++) {
		const struct ledger_code_info *info = ledger_code_info((enum ledger_code)code);
		char buffer[REFUSAL_MAX];
		bool known = false;
		json_t *root, *again;

		if (!is_refusal((enum ledger_code)code))
			continue;
		seen++;
		root = parse(buffer, refusal_print(buffer, (enum ledger_code)code, NULL));
		assert_string_equal(text_of(root, "error"), info->name);
		assert_string_equal(text_of(root, "reason"), info->text);
		/* The very rule of the event. */
		assert_string_equal(text_of(root, "rule"),
				    event_rule_name(report_rule((enum ledger_code)code)));
		assert_int_equal(strncmp(text_of(root, "rule"), "gateway.", 8), 0);
		for (size_t i = 0; i < ARRAY_SIZE(retries); i++)
			known |= !strcmp(text_of(root, "retry"), retries[i]);
		assert_true(known);
		if (info->ask)
			assert_string_equal(text_of(root, "ask"), info->ask);
		else
			assert_true(json_is_null(json_object_get(root, "ask")));
		/* Who can never succeed is told whom to ask, unless the request itself is wrong. */
		if (info->http_status == 403 && !strcmp(info->retry, "never") &&
		    code != LEDGER_HOST_MISMATCH)
			assert_non_null(info->ask);
		again = refusal_json((enum ledger_code)code, NULL);
		assert_true(json_equal(root, again));
		json_decref(again);
		json_decref(root);
	}
	assert_true(seen > 50);
}

/* Foreign bytes stay inside of the string, what is too long is left out, what is no text is missing. */
static void test_reasons(void **state)
{
	static const struct {
		const char *given, *said;
	} rows[] = {
		{ "plain", "plain" },
		{ "", NULL },
		{ "\"},{\"error\":\"ok\"", "\"},{\"error\":\"ok\"" },
		{ "\x01\n\\", "\x01\n\\" },
	};
	char buffer[REFUSAL_MAX], text[2 * REFUSAL_MAX];
	json_t *root;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		root = parse(buffer, refusal_print(buffer, LEDGER_DOMAIN_DENIED, rows[i].given));
		assert_string_equal(text_of(root, "reason"),
				    rows[i].said ? rows[i].said
						 : ledger_code_info(LEDGER_DOMAIN_DENIED)->text);
		json_decref(root);
	}
	for (size_t n = 1; n < sizeof(text); n += 7) {
		memset(text, '\x02', n);
		text[n] = '\0';
		root = parse(buffer, refusal_print(buffer, LEDGER_DOMAIN_DENIED, text));
		json_decref(root);
	}
	assert_true(refusal_print(buffer, LEDGER_DOMAIN_DENIED, "\xff") < REFUSAL_MAX);
}

static void test_of_status(void **state)
{
	static const int statuses[] = { 400, 404, 405, 406, 408, 411, 413, 417, 431, 505 };

	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		assert_int_equal(ledger_code_info(refusal_of_status(statuses[i]))->http_status,
				 statuses[i]);
	assert_int_equal(refusal_of_status(499), LEDGER_MALFORMED_REQUEST);
}

static int print_doc(void)
{
	puts("| error | status | rule | retry | reason, unless more is known | ask |\n"
	     "|---|---|---|---|---|---|");
	for (int code = 0; code < LEDGER_CODES_N; code++) {
		const struct ledger_code_info *info = ledger_code_info((enum ledger_code)code);

		if (is_refusal((enum ledger_code)code))
			printf("| `%s` | %d | `%s` | `%s` | %s | %s |\n", info->name,
			       info->http_status,
			       event_rule_name(report_rule((enum ledger_code)code)), info->retry,
			       info->text, info->ask ? info->ask : "-");
	}
	return 0;
}

/* The table between two lines of the document is the one that is printed. */
static void test_document(void **state)
{
	static char doc[1 << 20];
	FILE *f = fopen("docs/gateway.md", "re");
	size_t n;

	assert_non_null(f);
	n = fread(doc, 1, sizeof(doc) - 1, f);
	fclose(f);
	doc[n] = '\0';
	for (int code = 0; code < LEDGER_CODES_N; code++) {
		const struct ledger_code_info *info = ledger_code_info((enum ledger_code)code);
		char row[1024];

		if (!is_refusal((enum ledger_code)code))
			continue;
		snprintf(row, sizeof(row), "\n| `%s` | %d | `%s` | `%s` | %s | %s |\n", info->name,
			 info->http_status, event_rule_name(report_rule((enum ledger_code)code)),
			 info->retry, info->text, info->ask ? info->ask : "-");
		assert_non_null(strstr(doc, row));
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_code),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_of_status),
		cmocka_unit_test(test_document),
	};

	if (argc > 1 && !strcmp(argv[1], "--print-doc"))
		return print_doc();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
