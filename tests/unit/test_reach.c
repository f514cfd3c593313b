// SPDX-License-Identifier: Apache-2.0
/*
 * Unit tests of what is reached by name: rows of names, ports, rules and addresses, and both decisions against a slow model that
 * was written another way, over many questions that are likely to be close calls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "reach/reach.h"
#include "util/util.h"

/* --- targets ---------------------------------------------------------------------------------- */

#define LABEL63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME253                             \
	LABEL63 "." LABEL63 "." LABEL63 "." \
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
	const char *text;
	int result;
	const char *name;
	unsigned int port;
} targets[] = {
	{ "a.test:443", 0, "a.test", 443 },
	{ "A.TeSt:443", 0, "a.test", 443 },
	{ "a.test.:443", 0, "a.test", 443 },
	{ "xn--bcher-kva.test:1", 0, "xn--bcher-kva.test", 1 },
	{ "_x._tcp.a.test:65535", 0, "_x._tcp.a.test", 65535 },
	{ "localhost:80", 0, "localhost", 80 },
	{ "1.a:80", 0, "1.a", 80 },
	{ "0x.a:80", 0, "0x.a", 80 },
	{ "0xg:80", 0, "0xg", 80 },
	{ NAME253 ":443", 0, NAME253, 443 },
	{ "a" NAME253 ":443", REACH_MALFORMED, NULL, 0 },
	{ LABEL63 "a:443", REACH_MALFORMED, NULL, 0 },
	{ "a.test..:443", REACH_MALFORMED, NULL, 0 },
	{ ".a.test:443", REACH_MALFORMED, NULL, 0 },
	{ "a..test:443", REACH_MALFORMED, NULL, 0 },
	{ ".:443", REACH_MALFORMED, NULL, 0 },
	{ ":443", REACH_MALFORMED, NULL, 0 },
	{ "", REACH_MALFORMED, NULL, 0 },
	{ "-a.test:443", REACH_MALFORMED, NULL, 0 },
	{ "a-.test:443", REACH_MALFORMED, NULL, 0 },
	{ "a.test", REACH_MALFORMED, NULL, 0 },
	{ "a.test:", REACH_MALFORMED, NULL, 0 },
	{ "a.test:0", REACH_MALFORMED, NULL, 0 },
	{ "a.test:0443", REACH_MALFORMED, NULL, 0 },
	{ "a.test:+443", REACH_MALFORMED, NULL, 0 },
	{ "a.test:443 ", REACH_MALFORMED, NULL, 0 },
	{ "a.test:65536", REACH_MALFORMED, NULL, 0 },
	{ "a.test:100000", REACH_MALFORMED, NULL, 0 },
	{ "a.test:443:443", REACH_MALFORMED, NULL, 0 },
	{ "a@b.test:443", REACH_MALFORMED, NULL, 0 },
	{ "a%2e.test:443", REACH_MALFORMED, NULL, 0 },
	{ "b\xc3\xbc.test:443", REACH_MALFORMED, NULL, 0 },
	{ "[::1:443", REACH_MALFORMED, NULL, 0 },
	{ "[::ffff:a9fe:a9fe]:443", REACH_ADDRESS, NULL, 0 },
	{ "[fe80::1%25eth0]:443", REACH_ADDRESS, NULL, 0 },
	{ "169.254.169.254:80", REACH_ADDRESS, NULL, 0 },
	{ "169.254.169.254.:80", REACH_ADDRESS, NULL, 0 },
	{ "2852039166:80", REACH_ADDRESS, NULL, 0 },
	{ "0xA9FEA9FE:80", REACH_ADDRESS, NULL, 0 },
	{ "0x:80", REACH_ADDRESS, NULL, 0 },
	{ "0251.0376.0251.0376:80", REACH_ADDRESS, NULL, 0 },
	{ "169.254.43518:80", REACH_ADDRESS, NULL, 0 },
	{ "169.254.0xa9fe:80", REACH_ADDRESS, NULL, 0 },
	{ "a.1:80", REACH_ADDRESS, NULL, 0 },
};

static void test_targets(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		struct reach_target target;
		const char *reason = NULL;
		int r = reach_target_read(targets[i].text, strlen(targets[i].text), 0, &target,
					  &reason);

		if (r != targets[i].result)
			fail_msg("%s: %d instead of %d (%s)", targets[i].text, r, targets[i].result,
				 reason ? reason : "");
		if (r) {
			assert_true(reason && *reason);
			continue;
		}
		assert_string_equal(target.name.s, targets[i].name);
		assert_int_equal(target.name.n, strlen(targets[i].name));
		assert_int_equal(target.port, targets[i].port);
	}
}

static void test_target_without_port(void **state)
{
	struct reach_target target;
	const char *reason;

	(void)state;
	assert_int_equal(reach_target_read("a.test", 6, 80, &target, &reason), 0);
	assert_int_equal(target.port, 80);
}

/* --- rules ------------------------------------------------------------------------------------ */

static const struct {
	const char *text;
	const char *spelling; /* NULL: refused */
} spellings[] = {
	{ "a.test", "a.test" },
	{ "A.test:443", "a.test:443" },
	{ "*.A.test:8000-8100", "*.a.test:8000-8100" },
	{ "a.test:443-443", "a.test:443" },
	{ "a.test:1-65535", "a.test:1-65535" },
	{ "*.test", "*.test" },
	{ "*", NULL },
	{ "*.", NULL },
	{ "*.*.test", NULL },
	{ "a.*.test", NULL },
	{ "*a.test", NULL },
	{ ".a.test", NULL },
	{ "https://a.test", NULL },
	{ "a.test/", NULL },
	{ "a.test.", NULL },
	{ " a.test", NULL },
	{ "a..test", NULL },
	{ "a.test:", NULL },
	{ "a.test:0", NULL },
	{ "a.test:9-8", NULL },
	{ "a.test:1-2-3", NULL },
	{ "a.test:https", NULL },
	{ "10.0.0.1", NULL },
	{ "[::1]:443", NULL },
	{ "0x7f000001", NULL },
	{ "", NULL },
};

static void test_spellings(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++) {
		char text[REACH_RULE_SIZE];
		const char *reason = NULL;
		struct reach_rule rule, again;
		size_t n;
		int r = reach_rule_read(spellings[i].text, strlen(spellings[i].text), &rule,
					&reason);

		if (!r != (spellings[i].spelling != NULL))
			fail_msg("%s: %d (%s)", spellings[i].text, r, reason ? reason : "");
		if (r) {
			assert_true(reason && *reason);
			continue;
		}
		n = reach_rule_write(&rule, text);
		assert_int_equal(n, strlen(text));
		assert_string_equal(text, spellings[i].spelling);
		assert_int_equal(reach_rule_read(text, strlen(text), &again, &reason), 0);
		assert_memory_equal(&rule, &again, sizeof(rule));
	}
}

/* The longest rule there is has room. */
static void test_longest(void **state)
{
	char text[REACH_RULE_SIZE];
	struct reach_rule rule;
	const char *reason;

	(void)state;
	assert_int_equal(reach_rule_read("*." NAME253 ":10000-65535", 2 + 253 + 12, &rule, &reason),
			 0);
	assert_int_equal(reach_rule_write(&rule, text), REACH_RULE_SIZE - 1);
}

/* Everything that the catalogue of cases says of borders, apex and look-alikes. */
static void test_decisions(void **state)
{
	static const char domains[] = "example.com\0*.example.org\0a.test:8443\0*.b.test:1000-1001";
	static const struct {
		const char *text;
		enum reach_verdict verdict;
	} rows[] = {
		{ "example.com:443", REACH_YES },
		{ "EXAMPLE.com:80", REACH_YES },
		{ "example.com.:443", REACH_YES },
		{ "example.com:22", REACH_NO_PORT },
		{ "example.com:8443", REACH_NO_PORT },
		{ "www.example.com:443", REACH_NO_NAME },
		{ "evilexample.com:443", REACH_NO_NAME },
		{ "example.com.evil.test:443", REACH_NO_NAME },
		{ "example.org:443", REACH_NO_NAME },
		{ "xexample.org:443", REACH_NO_NAME },
		{ "a.example.org:443", REACH_YES },
		{ "a.b.example.org:80", REACH_YES },
		{ "xn--exmple-cua.com:443", REACH_NO_NAME },
		{ "a.test:8443", REACH_YES },
		{ "a.test:443", REACH_NO_PORT },
		{ "x.b.test:1000", REACH_YES },
		{ "x.b.test:1001", REACH_YES },
		{ "x.b.test:1002", REACH_NO_PORT },
		{ "x.b.test:999", REACH_NO_PORT },
		{ "b.test:1000", REACH_NO_NAME },
	};
	struct reach_target target;
	const char *reason;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(reach_target_read(rows[i].text, strlen(rows[i].text), 0, &target,
						   &reason),
				 0);
		if (reach_decide_target(domains, sizeof(domains), &target) != rows[i].verdict)
			fail_msg("%s: not %d", rows[i].text, rows[i].verdict);
		/* What is cut short, and nothing at all, allows nothing. */
		assert_int_equal(reach_decide_target("example.com", 11, &target), REACH_NO_NAME);
		assert_int_equal(reach_decide_target(NULL, 0, &target), REACH_NO_NAME);
	}
}

/* --- the model of names: lists of labels, and ports as a set ---------------------------------- */

static size_t labels_of(const char *name, char labels[8][8])
{
	size_t n = 0, k = 0;

	memset(labels, 0, 64);
	for (; *name; name++) {
		if (*name == '.') {
			n++;
			k = 0;
			continue;
		}
		labels[n][k++] = *name;
	}
	return n + 1;
}

static bool model_has(const char *rule, const char *name)
{
	char have[8][8], want[8][8];
	bool below = rule[0] == '*';
	size_t n = labels_of(below ? rule + 2 : rule, want), m = labels_of(name, have);

	if (below ? m <= n : m != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(want[n - 1 - i], have[m - 1 - i]) != 0)
			return false;
	return true;
}

static void random_name(char *name)
{
	static const char *const labels[] = { "a", "b", "ab", "ba", "aa" };
	size_t n = 1 + (size_t)rand() % 3;

	name[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		strcat(name, i ? "." : "");
		strcat(name, labels[(size_t)rand() % ARRAY_SIZE(labels)]);
	}
}

static void test_names_model(void **state)
{
	(void)state;
	srand(1);
	for (int i = 0; i < 200000; i++) {
		char name[32], rule[64], top[32];
		unsigned int lo = 1 + (unsigned int)rand() % 4, hi = lo + (unsigned int)rand() % 3;
		struct reach_target target = { .port = (uint16_t)(1 + rand() % 6) };
		enum reach_verdict want = REACH_NO_NAME;

		random_name(name);
		random_name(top);
		snprintf(rule, sizeof(rule), "%s%s:%u-%u", rand() % 2 ? "*." : "", top, lo, hi);
		target.name.n = strlen(name);
		strcpy(target.name.s, name);
		*strchr(rule, ':') = '\0';
		if (model_has(rule, name))
			want = target.port >= lo && target.port <= hi ? REACH_YES : REACH_NO_PORT;
		rule[strlen(rule)] = ':';
		if (reach_decide_target(rule, strlen(rule) + 1, &target) != want)
			fail_msg("rule %s, name %s:%u: not %d", rule, name, target.port, want);
	}
}

/* One rule covers another exactly when every name and port of the other is in it. */
static void test_covers_model(void **state)
{
	static const char *const names[] = { "a",     "b",     "a.a",	  "b.a", "a.b",
					     "a.b.a", "b.b.a", "a.a.b.a", "x.a", "x.b.a",
					     "x.b",   "x.x.b", "x.a.b" };
	static const char *const tops[] = { "a", "*.a", "b.a", "*.b.a", "*.b", "a.b" };
	static const char *const ports[] = { "",      ":80", ":443",	":80-443",
					     ":1-79", ":81", ":443-444" };
	static const uint16_t tried[] = { 1, 79, 80, 81, 442, 443, 444 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(tops) * ARRAY_SIZE(ports); i++)
		for (size_t k = 0; k < ARRAY_SIZE(tops) * ARRAY_SIZE(ports); k++) {
			struct reach_rule a, b;
			const char *reason;
			char at[64], bt[64];
			bool all = true;

			snprintf(at, sizeof(at), "%s%s", tops[i / ARRAY_SIZE(ports)],
				 ports[i % ARRAY_SIZE(ports)]);
			snprintf(bt, sizeof(bt), "%s%s", tops[k / ARRAY_SIZE(ports)],
				 ports[k % ARRAY_SIZE(ports)]);
			assert_int_equal(reach_rule_read(at, strlen(at), &a, &reason), 0);
			assert_int_equal(reach_rule_read(bt, strlen(bt), &b, &reason), 0);
			for (size_t n = 0; n < ARRAY_SIZE(names); n++)
				for (size_t p = 0; p < ARRAY_SIZE(tried); p++) {
					struct reach_name name = { .n = strlen(names[n]) };

					strcpy(name.s, names[n]);
					if (reach_rule_has_name(&b, &name) &&
					    reach_rule_has_port(&b, tried[p]) &&
					    !(reach_rule_has_name(&a, &name) &&
					      reach_rule_has_port(&a, tried[p])))
						all = false;
				}
			if (reach_rule_covers(&a, &b) != all)
				fail_msg("%s and %s: %d", at, bt, !all);
		}
}

/* --- addresses -------------------------------------------------------------------------------- */

static struct cordon_addr addr_of(const char *text)
{
	struct cordon_addr addr = { .v6 = strchr(text, ':') != NULL };

	assert_int_equal(inet_pton(addr.v6 ? AF_INET6 : AF_INET, text, addr.b + (addr.v6 ? 0 : 12)),
			 1);
	return addr;
}

static struct reach_allow allow_of(const char *text)
{
	char copy[64], *slash;
	struct reach_allow allow = { .hi = 65535 };

	snprintf(copy, sizeof(copy), "%s", text);
	slash = strchr(copy, '/');
	*slash = '\0';
	allow.addr = addr_of(copy);
	allow.bits = (uint8_t)atoi(slash + 1);
	return allow;
}

static const struct {
	const char *addr;
	const char *allow; /* "" : none */
	bool own;
	const char *why; /* NULL: dialled */
} addresses[] = {
	{ "8.8.8.8", "", false, NULL },
	{ "2606:4700::1111", "", false, NULL },
	{ "8.8.8.8", "", true, "own" },
	{ "8.8.8.8", "8.8.8.0/24", true, "own" },
	{ "8.8.8.8", "8.8.8.8/32", true, NULL },
	{ "10.1.2.3", "", false, "private" },
	{ "10.1.2.3", "0.0.0.0/0", false, "private" },
	{ "10.1.2.3", "8.0.0.0/5", false, "private" },
	{ "10.1.2.3", "10.0.0.0/8", false, NULL },
	{ "10.1.2.3", "10.1.2.3/32", false, NULL },
	{ "10.1.2.3", "10.1.2.4/32", false, "private" },
	{ "10.1.2.3", "10.0.0.0/8", true, "own" },
	{ "10.1.2.3", "10.1.2.3/32", true, NULL },
	{ "172.15.255.255", "", false, NULL },
	{ "172.16.0.1", "", false, "private" },
	{ "172.31.255.255", "", false, "private" },
	{ "172.32.0.0", "", false, NULL },
	{ "192.168.1.1", "", false, "private" },
	{ "100.100.100.200", "", false, "shared" },
	{ "168.63.129.16", "", false, "provider" },
	{ "192.0.0.192", "", false, "reserved" },
	{ "127.0.0.1", "", true, "loopback" },
	{ "127.0.0.1", "127.0.0.0/8", true, "own" },
	{ "127.0.0.1", "127.0.0.1/32", true, NULL },
	{ "0.0.0.0", "0.0.0.0/0", true, "loopback" },
	{ "0.1.2.3", "", false, "loopback" },
	{ "224.0.0.1", "", true, "multicast" },
	{ "255.255.255.255", "", true, "reserved" },
	{ "203.0.113.9", "", false, "documentation" },
	{ "198.18.0.1", "", false, "benchmarking" },
	{ "169.254.169.254", "", false, "metadata" },
	{ "169.254.169.254", "169.254.169.254/32", false, "metadata" },
	{ "169.254.169.254", "0.0.0.0/0", false, "metadata" },
	{ "fd00:ec2::254", "fd00::/8", false, "metadata" },
	{ "::ffff:169.254.169.254", "::ffff:169.254.169.254/128", false, "metadata" },
	{ "64:ff9b::a9fe:a9fe", "64:ff9b::/96", false, "metadata" },
	{ "2002:a9fe:a9fe::1", "", false, "metadata" },
	{ "::1", "", true, "loopback" },
	{ "::1", "::1/128", true, NULL },
	{ "::", "", true, "loopback" },
	{ "::ffff:8.8.8.8", "", false, "mapped" },
	{ "::ffff:127.0.0.1", "", false, "mapped" },
	{ "::ffff:127.0.0.1", "127.0.0.1/32", false, "mapped" },
	{ "::127.0.0.1", "", false, "compatible" },
	{ "::ffff:0:127.0.0.1", "", false, "translated" },
	{ "64:ff9b::8.8.8.8", "", false, "nat64" },
	{ "64:ff9b::8.8.8.8", "64:ff9b::/96", false, NULL },
	{ "64:ff9b::10.0.0.1", "64:ff9b::/96", false, "private" },
	{ "64:ff9b::8.8.8.8", "::/0", false, "nat64" },
	{ "64:ff9b:1::1", "", false, "nat64" },
	{ "2002:0a00:0001::1", "2002::/16", false, "private" },
	{ "2002:0808:0808::1", "", false, "6to4" },
	{ "2001:0:1::1", "", false, "teredo" },
	{ "2001:db8::1", "", false, "documentation" },
	{ "2001:1ff::1", "", false, "reserved" },
	{ "2001:200::1", "", false, NULL },
	{ "3fff:fff::1", "", false, "documentation" },
	{ "3ffe::1", "", false, NULL },
	{ "4000::1", "", false, "reserved" },
	{ "1fff::1", "", false, "reserved" },
	{ "fe80::1", "", false, "link-local" },
	{ "fe80::1", "fe80::/10", false, NULL },
	{ "fc00::1", "", false, "private" },
	{ "fd12::1", "fd12::/16", false, NULL },
	{ "ff02::1", "", true, "multicast" },
};

static void test_addresses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		struct cordon_addr addr = addr_of(addresses[i].addr);
		struct reach_allow allow = { .bits = 0 };
		bool has = addresses[i].allow[0];
		const char *why;

		if (has)
			allow = allow_of(addresses[i].allow);
		why = reach_decide_address(&addr, 443, addresses[i].own, &allow, has);
		if (!why != !addresses[i].why || (why && strcmp(why, addresses[i].why) != 0))
			fail_msg("%s with %s: %s instead of %s", addresses[i].addr,
				 addresses[i].allow, why ? why : "yes",
				 addresses[i].why ? addresses[i].why : "yes");
	}
}

static void test_allowed_ports(void **state)
{
	struct cordon_addr addr = addr_of("10.0.0.1");
	struct reach_allow allow = allow_of("10.0.0.0/8");

	(void)state;
	allow.lo = 443;
	allow.hi = 444;
	assert_null(reach_decide_address(&addr, 443, false, &allow, 1));
	assert_null(reach_decide_address(&addr, 444, false, &allow, 1));
	assert_string_equal(reach_decide_address(&addr, 442, false, &allow, 1), "private");
	assert_string_equal(reach_decide_address(&addr, 445, false, &allow, 1), "private");
}

/* The model of ranges: their texts, bits as characters, one after another. */
static const char *const model_ranges[] = {
	"168.63.129.16/32", "192.0.0.0/24",   "192.0.2.0/24",	"192.88.99.0/24", "198.51.100.0/24",
	"203.0.113.0/24",   "169.254.0.0/16", "192.168.0.0/16", "198.18.0.0/15",  "172.16.0.0/12",
	"100.64.0.0/10",    "0.0.0.0/8",      "10.0.0.0/8",	"127.0.0.0/8",	  "224.0.0.0/4",
	"240.0.0.0/4",	    "::/3",	      "4000::/2",	"8000::/1",	  "2001::/23",
	"2001:db8::/32",    "2002::/16",      "3fff::/20",
};

static void bits_of(const struct cordon_addr *addr, char text[129])
{
	size_t first = addr->v6 ? 0 : 12, n = 0;

	for (size_t i = first; i < 16; i++)
		for (int bit = 7; bit >= 0; bit--)
			text[n++] = addr->b[i] >> bit & 1 ? '1' : '0';
	text[n] = '\0';
}

static bool model_public(const struct cordon_addr *addr)
{
	char bits[129], range_bits[129];

	bits_of(addr, bits);
	for (size_t i = 0; i < ARRAY_SIZE(model_ranges); i++) {
		struct reach_allow range = allow_of(model_ranges[i]);

		bits_of(&range.addr, range_bits);
		if (range.addr.v6 == addr->v6 && !strncmp(bits, range_bits, range.bits))
			return false;
	}
	return true;
}

/* Each border of each range, one address before and one behind, and random ones: public or not, as the model has it. */
static void test_ranges_model(void **state)
{
	size_t asked = 0;

	(void)state;
	srand(2);
	for (size_t i = 0; i < ARRAY_SIZE(model_ranges); i++) {
		struct reach_allow range = allow_of(model_ranges[i]);
		unsigned int last = range.addr.v6 ? 128 : 32;

		for (unsigned int flip = 0; flip <= last; flip++)
			for (int fill = 0; fill < 2; fill++) {
				struct cordon_addr addr = range.addr;

				for (unsigned int bit = range.bits; fill && bit < last; bit++)
					addr.b[(range.addr.v6 ? 0 : 12) + bit / 8] |=
						0x80 >> bit % 8;
				if (flip < last)
					addr.b[(range.addr.v6 ? 0 : 12) + flip / 8] ^=
						0x80 >> flip % 8;
				assert_int_equal(!reach_range_of(&addr), model_public(&addr));
				asked++;
			}
	}
	for (int i = 0; i < 100000; i++) {
		struct cordon_addr addr = { .v6 = (__u8)(rand() % 2) };

		for (size_t k = addr.v6 ? 0 : 12; k < 16; k++)
			addr.b[k] = (__u8)rand();
		assert_int_equal(!reach_range_of(&addr), model_public(&addr));
	}
	assert_true(asked > 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets),	      cmocka_unit_test(test_target_without_port),
		cmocka_unit_test(test_spellings),     cmocka_unit_test(test_longest),
		cmocka_unit_test(test_decisions),     cmocka_unit_test(test_names_model),
		cmocka_unit_test(test_covers_model),  cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_allowed_ports), cmocka_unit_test(test_ranges_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
