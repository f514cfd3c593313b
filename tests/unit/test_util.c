// SPDX-License-Identifier: Apache-2.0
/* user/util: texts of bytes and numbers are what printf() makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <string.h>

#include "util/util.h"

static void decimal_is(int64_t number)
{
	char want[32], got[UTIL_DECIMAL_SIZE];
	size_t n = util_decimal(number, got);

	snprintf(want, sizeof(want), "%" PRId64, number);
	assert_string_equal(got, want);
	assert_int_equal(n, strlen(want));
}

static void test_decimal(void **state)
{
	(void)state;
	decimal_is(0);
	decimal_is(INT64_MAX);
	decimal_is(INT64_MIN);
	for (int64_t power = 1; power < INT64_MAX / 10; power *= 10)
		for (int64_t by = -1; by <= 1; by++) {
			decimal_is(power + by);
			decimal_is(-power - by);
		}
}

static void test_hex(void **state)
{
	uint8_t bytes[256];
	char want[2 * sizeof(bytes) + 1], got[2 * sizeof(bytes) + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] = (uint8_t)i;
		snprintf(want + 2 * i, 3, "%02x", (unsigned int)i);
	}
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		memset(got, 'x', sizeof(got));
		util_hex(bytes, n, got);
		assert_int_equal(strlen(got), 2 * n);
		assert_memory_equal(got, want, 2 * n);
	}
}

static void test_shallow(void **state)
{
	static const struct {
		const char *text;
		unsigned int max;
		bool shallow;
	} rows[] = {
		{ "", 0, true },	   { "[]", 0, false },	      { "[{}]", 2, true },
		{ "[{}]", 1, false },	   { "[[],[],{}]", 2, true }, { "\"[[[[\"", 0, true },
		{ "\"\\\"[[\"", 0, true }, { "\"\\\\\"[", 0, false }, { "]]][[", 1, false },
		{ "]]][", 1, true },	   { "\"\\", 0, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(util_json_is_shallow(rows[i].text, strlen(rows[i].text),
						      rows[i].max),
				 rows[i].shallow);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decimal),
		cmocka_unit_test(test_hex),
		cmocka_unit_test(test_shallow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
