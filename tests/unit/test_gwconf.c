// SPDX-License-Identifier: Apache-2.0
/* Unit tests of gwconf that are not golden: patterns against the C library's regular expressions, SQL, the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <regex.h>
#include <string.h>

#include "gwconf/gwconf.h"

static bool library_matches(const char *pattern, const char *text)
{
	regex_t regex;
	bool matches;

	assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	matches = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	return matches;
}

/* Every text of up to six letters of "ab-1" is judged as the C library judges it. */
static void patterns_match_as_regular_expressions_do(void **state)
{
	static const char *const patterns[] = {
		"^a*b$",       "^a+a?b{2}$",   "^[ab]{2,4}$",	"^[a-b]*-[0-9]+$",
		"^a?a?a?aaa$", "^[ab]*a[ab]$", "^a{0,2}b{1,}$", "^-*[ab1]?-*$",
		"^$",	       "^[ab-]+$",     "^b?[a1]{3}b?$",
	};
	static const char letters[] = "ab-1";
	struct gwconf_pattern pattern;
	unsigned int matched = 0, tried = 0;
	char text[8];

	for (size_t p = 0; p < ARRAY_SIZE(patterns); p++) {
		assert_int_equal(gwconf_pattern_parse(patterns[p], &pattern, NULL), 0);
		for (unsigned int n = 0; n <= 6; n++) {
			for (unsigned int code = 0; code < 1U << (2 * n); code++, tried++) {
				for (unsigned int i = 0; i < n; i++)
					text[i] = letters[code >> (2 * i) & 3];
				text[n] = '\0';
				if (gwconf_pattern_matches(&pattern, text, n) !=
				    library_matches(patterns[p], text))
					fail_msg("%s on `%s`", patterns[p], text);
				matched += gwconf_pattern_matches(&pattern, text, n);
			}
		}
	}
	assert_true(matched > 100 && matched < tried / 2);
}

/* A pattern that takes others exponential time. */
static void patterns_cannot_blow_up(void **state)
{
	struct gwconf_pattern pattern;
	static char text[GWCONF_TEXT_MAX * 4 + 2];

	memset(text, 'a', sizeof(text) - 1);
	assert_int_equal(
		gwconf_pattern_parse("^a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b$",
				     &pattern, NULL),
		0);
	assert_false(gwconf_pattern_matches(&pattern, text, GWCONF_TEXT_MAX));
	/* Longer than any text may be: no match, whatever the pattern. */
	assert_int_equal(gwconf_pattern_parse("^a*$", &pattern, NULL), 0);
	assert_true(gwconf_pattern_matches(&pattern, text, GWCONF_TEXT_MAX));
	assert_false(gwconf_pattern_matches(&pattern, text, sizeof(text) - 1));
}

static void sql_parameters_are_found(void **state)
{
	struct gwconf_sql sql;

	assert_int_equal(
		gwconf_sql_parse(
			"UPDATE \"a:b\" SET x = ':no' || 'it''s :no', y = :amount::bigint, "
			"z = :tenant WHERE id = :object AND w = :amount",
			&sql, NULL),
		0);
	assert_int_equal(sql.n_params, 3);
	assert_string_equal(sql.param[0], "amount");
	assert_string_equal(sql.param[1], "tenant");
	assert_string_equal(sql.param[2], "object");
	gwconf_sql_release(&sql);
}

static void the_worked_example_is_read(void **state)
{
	struct gwconf_reports reports = { .n = 0 };
	struct gwconf *conf = NULL;
	const struct gwconf_tool *tool;

	assert_int_equal(gwconf_load("policies/gateway.yaml", &conf, &reports), 0);
	assert_int_equal(conf->n_tools, 1);
	tool = conf->tools[0];
	assert_string_equal(tool->path, "policies/tools/refund.yaml");
	assert_string_equal(tool->fields[tool->tenant].name, "tenant");
	assert_string_equal(tool->fields[tool->object].name, "order_id");
	assert_string_equal(tool->fields[tool->amount].name, "amount");
	assert_string_equal(tool->fields[tool->key].name, "idempotency_key");
	assert_true(tool->has_single && tool->has_daily);
	assert_int_equal(tool->single, 10000);
	assert_int_equal(tool->daily, 50000);
	assert_int_equal(tool->over, GWCONF_OVER_APPROVE);
	assert_int_equal(conf->listen[0].addr.in.sin_family, AF_INET);
	assert_int_equal(ntohs(conf->listen[0].addr.in.sin_port), 8800);
	assert_string_equal(conf->listen[1].socket, "/run/cordon/gateway.sock");
	assert_int_equal(conf->header_bytes, 8192);
	gwconf_free(conf);
	gwconf_reports_free(&reports);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_match_as_regular_expressions_do),
		cmocka_unit_test(patterns_cannot_blow_up),
		cmocka_unit_test(sql_parameters_are_found),
		cmocka_unit_test(the_worked_example_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
