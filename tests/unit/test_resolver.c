// SPDX-License-Identifier: Apache-2.0
/*
 * Unit tests of what the resolver judges: names by rows, randomness by figures that are known, addresses beside what the proxy
 * would dial; and of what it remembers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "resolver/cache.h"
#include "resolver/judge.h"
#include "util/util.h"

static const char rules[] =
	"example.com\0*.example.org:8443\0*.deep.example.org\0" /* the literal's own NUL */
	"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee.test:80";

static const struct {
	const char *name;
	enum ledger_code code;
	bool chosen;
} names[] = {
	{ "example.com", LEDGER_OK, false },
	{ "a.example.com", LEDGER_DOMAIN_DENIED, false },
	{ "example.org", LEDGER_DOMAIN_DENIED, false },
	{ "xexample.org", LEDGER_DOMAIN_DENIED, false },
	{ "a.example.org", LEDGER_OK, true },
	{ "a.b.c.d.e.f.example.org", LEDGER_OK, true },
	{ "a.b.c.d.e.f.g.example.org", LEDGER_LABEL_DENIED, true },
	/* The longest rule is what stays: six labels below it. */
	{ "a.b.c.d.e.f.deep.example.org", LEDGER_OK, true },
	{ "a.b.c.d.e.f.g.deep.example.org", LEDGER_LABEL_DENIED, true },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.org", LEDGER_OK, true },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.org", LEDGER_LABEL_DENIED, true },
	{ "0123456789abcdef0123456789abcdef.example.org", LEDGER_OK, true }, /* 128 bits */
	{ "0123456789abcdef0123456789abcdef01.example.org", LEDGER_LABEL_DENIED, true },
	{ "0123456789abcdef.0123456789abcdef.ab.example.org", LEDGER_LABEL_DENIED, true },
	{ "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee.test", LEDGER_OK, false },
};

static void names_are_judged(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct reach_name name;
		const char *reason;
		bool chosen;

		assert_int_equal(reach_name_read(names[i].name, strlen(names[i].name), false, &name,
						 &reason),
				 0);
		if (judge_name(rules, sizeof(rules), &name, &chosen) != names[i].code ||
		    chosen != names[i].chosen)
			fail_msg("%s: %d", names[i].name,
				 judge_name(rules, sizeof(rules), &name, &chosen));
		/* Rules without their end are none. */
		assert_int_equal(judge_name(rules, strlen("example.com"), &name, &chosen),
				 LEDGER_DOMAIN_DENIED);
	}
}

static void bits_are_shannons(void **state)
{
	(void)state;
	assert_true(judge_bits("", 0) == 0 && judge_bits("aaaaaaaa", 8) == 0);
	assert_true(judge_bits("abababab", 8) == 8);
	assert_true(judge_bits("0123456789abcdef", 16) == 64);
}

static struct cordon_addr addr4(const char *text)
{
	struct cordon_addr addr = { .v6 = 0 };

	assert_int_equal(inet_pton(AF_INET, text, addr.b + 12), 1);
	return addr;
}

/* Told is what some port of it could be dialled at, by the proxy's own judgement. */
static void addresses_are_the_proxys(void **state)
{
	const struct reach_allow allow[] = {
		{ .addr = addr4("10.1.0.0"), .bits = 16, .lo = 5432, .hi = 5432 },
		{ .addr = addr4("0.0.0.0"), .bits = 0, .lo = 1, .hi = 65535 },
		{ .addr = addr4("127.0.0.1"), .bits = 32, .lo = 1, .hi = 65535 },
	};
	static const struct {
		const char *text;
		bool own, told, alone; /* with the rules; without any */
	} rows[] = {
		{ "93.184.216.34", false, true, true },	    { "10.1.2.3", false, true, false },
		{ "10.2.0.1", false, false, false },	    { "93.184.216.34", true, false, false },
		{ "127.0.0.1", true, true, false },	    { "127.0.0.2", true, false, false },
		{ "169.254.169.254", false, false, false }, { "192.168.0.1", false, false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct cordon_addr addr = addr4(rows[i].text);
		bool told = !judge_address(&addr, rows[i].own, allow, ARRAY_SIZE(allow));

		if (told != rows[i].told ||
		    !judge_address(&addr, rows[i].own, NULL, 0) != rows[i].alone)
			fail_msg("%s", rows[i].text);
	}
}

static struct reach_name name_of(unsigned int i)
{
	struct reach_name name;

	name.n = (size_t)snprintf(name.s, sizeof(name.s), "n%u.test", i);
	return name;
}

static void what_is_remembered_is_bounded(void **state)
{
	const struct message_records some = { .n = 1, .ttl_s = 60 }, none = { .ttl_s = 600 };
	struct cache *cache = cache_new();
	struct reach_name name = name_of(0);
	const struct cache_entry *entry;
	size_t known = 0;

	(void)state;
	assert_non_null(cache);
	assert_null(cache_find(cache, &name, MESSAGE_A, 0));
	entry = cache_put(cache, &name, MESSAGE_A, &some, 1, 1000);
	assert_ptr_equal(cache_find(cache, &name, MESSAGE_A, 60999), entry);
	assert_int_equal(cache_ttl(entry, 1000), 60);
	assert_null(cache_find(cache, &name, MESSAGE_A, 61000));
	assert_null(cache_find(cache, &name, MESSAGE_AAAA, 1000));
	entry = cache_put(cache, &name, MESSAGE_AAAA, &none, 0, 1000);
	assert_int_equal(cache_ttl(entry, 1000), CACHE_NEGATIVE_S);
	for (unsigned int i = 0; i < 3 * CACHE_ENTRIES; i++) {
		name = name_of(i);
		cache_put(cache, &name, MESSAGE_A, &some, 0, 2000 + i);
	}
	for (unsigned int i = 0; i < 3 * CACHE_ENTRIES; i++) {
		name = name_of(i);
		known += cache_find(cache, &name, MESSAGE_A, 3000) != NULL;
	}
	assert_true(known > CACHE_ENTRIES / 2 && known <= CACHE_ENTRIES);
	cache_free(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_judged),
		cmocka_unit_test(bits_are_shannons),
		cmocka_unit_test(addresses_are_the_proxys),
		cmocka_unit_test(what_is_remembered_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
