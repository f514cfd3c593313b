// SPDX-License-Identifier: Apache-2.0
/*
 * The decision code (include/cordon/decide.h) as the kernel programs have it, on the host: tables of spellings, and
 * sweeps against the obvious reference. Needs nothing.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <string.h>

#include "cordon/decide.h"
#include "util/util.h"

static struct cordon_addr addr(const char *text)
{
	struct cordon_addr a;
	__u8 raw[16];

	if (inet_pton(AF_INET, text, raw) == 1) {
		decide_addr4(&a, raw);
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, raw), 1);
		decide_addr6(&a, raw);
	}
	return a;
}

static __u32 rule_of(const struct cordon_policy *policy, const struct cordon_addr *a, __u8 proto,
		     __u16 port, const struct cordon_net *net)
{
	return decide_net(policy, a, decide_class(a), proto, port, net);
}

static void metadata_in_every_spelling(void **state)
{
	static const char *const shut[] = {
		"169.254.169.254",
		"169.254.0.0",
		"169.254.255.255",
		"169.254.170.2",
		"::ffff:169.254.169.254",
		"::169.254.169.254",
		"::ffff:0:169.254.169.254",
		"64:ff9b::169.254.169.254",
		"64:ff9b:1::169.254.169.254",
		"64:ff9b:1:a9fe:a9:fe00::",
		"64:ff9b:1:12a9:fe:a9fe::",
		"64:ff9b:1:12a9:ffe:a9fe:1:1",
		"64:ff9b:1:1234:a9:fea9:fe00:0",
		"2002:a9fe:a9fe::",
		"2002:a9fe:a9fe::1",
		"fd00:ec2::254",
		"fd00:0ec2:0:0:0:0:0:0254",
		"fe80::a9fe:a9fe",
		"fe80::5efe:169.254.169.254",
		"2001:0:1:2:3:4:5601:5601",
		"2001:db8::200:5efe:a9fe:a9fe",
		"::5efe:169.254.169.254",
	};
	static const char *const open[] = {
		"169.253.255.255",
		"169.255.0.0",
		"10.0.0.1",
		"::1",
		"::ffff:10.0.0.1",
		"64:ff9b::10.0.0.1",
		"64:ff9b:1:a00:0:100::",
		"64:ff9b:2:a9fe:a9:fe00::",
		"2002:0a00:0001::",
		"fd00:ec3::254",
		"fd00::1",
		"fe80::1",
		"2001:db8::a9fe:a9fe",
		"::",
		"1.2.169.254",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shut); i++) {
		struct cordon_addr a = addr(shut[i]);

		if (!decide_is_metadata(&a))
			fail_msg("%s is not seen as the metadata service", shut[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(open); i++) {
		struct cordon_addr a = addr(open[i]);

		if (decide_is_metadata(&a))
			fail_msg("%s is taken for the metadata service", open[i]);
	}
}

/* Whatever the policy says, on every port and protocol. */
static void metadata_is_never_allowed(void **state)
{
	struct cordon_policy policy = { .mode = CORDON_MODE_ENFORCE,
					.loopback = CORDON_LOOPBACK_ALLOW,
					.n_gateways = 4 };
	struct cordon_net all = { .n = 1,
				  .loopback = 1,
				  .ports = { { .proto = 0, .lo = 0, .hi = 65535 } } };
	struct cordon_addr a = addr("169.254.169.254");

	(void)state;
	for (int i = 0; i < CORDON_GATEWAYS_MAX; i++)
		policy.gateway[i] =
			(struct cordon_gateway){ .addr = a, .port = 80, .proto = DECIDE_TCP };
	for (unsigned int proto = 0; proto < 256; proto++)
		for (unsigned int port = 0; port < 65536; port++)
			assert_int_equal(rule_of(&policy, &a, proto, port, &all),
					 CORDON_RULE_NET_METADATA);
	assert_true(decide_always(CORDON_RULE_NET_METADATA));
}

static void an_empty_policy_allows_nothing(void **state)
{
	static const char *const addresses[] = { "1.1.1.1", "10.0.0.1", "2001:db8::1", "fe80::1",
						 "255.255.255.255" };
	struct cordon_policy policy = { .mode = CORDON_MODE_ENFORCE };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++)
		for (unsigned int proto = 0; proto < 256; proto++)
			for (unsigned int port = 0; port < 65536; port += 13) {
				struct cordon_addr a = addr(addresses[i]);

				assert_false(
					decide_allows(rule_of(&policy, &a, proto, port, NULL)));
			}
}

static void the_gateway_is_one_address_port_and_protocol(void **state)
{
	struct cordon_policy policy = { .mode = CORDON_MODE_ENFORCE, .n_gateways = 1 };
	struct cordon_addr gw = addr("10.0.0.5"), other = addr("10.0.0.4"),
			   mapped = addr("::ffff:10.0.0.5");

	(void)state;
	policy.gateway[0] =
		(struct cordon_gateway){ .addr = gw, .port = 8800, .proto = DECIDE_TCP };
	policy.gateway[1] =
		(struct cordon_gateway){ .addr = other, .port = 8800, .proto = DECIDE_TCP };
	for (unsigned int port = 0; port < 65536; port++) {
		__u32 rule = port == 8800 ? CORDON_RULE_NET_GATEWAY : CORDON_RULE_NET_DEFAULT;

		assert_int_equal(rule_of(&policy, &gw, DECIDE_TCP, port, NULL), rule);
		assert_int_equal(rule_of(&policy, &mapped, DECIDE_TCP, port, NULL), rule);
		assert_int_equal(rule_of(&policy, &gw, DECIDE_UDP, port, NULL),
				 CORDON_RULE_NET_DEFAULT);
		assert_int_equal(rule_of(&policy, &other, DECIDE_TCP, port, NULL),
				 CORDON_RULE_NET_DEFAULT);
	}
}

static void loopback_in_every_spelling(void **state)
{
	static const char *const spellings[] = {
		"127.0.0.1", "127.0.0.2", "127.255.255.254", "::ffff:127.0.0.1", "0.0.0.0",
		"::",	     "::1",	  "0.1.2.3",	     "::ffff:0.0.0.0"
	};
	static const struct {
		enum cordon_loopback mode;
		__u32 rule;
	} modes[] = {
		{ CORDON_LOOPBACK_FENCE, CORDON_RULE_NET_LOOPBACK_OK },
		{ CORDON_LOOPBACK_DENY, CORDON_RULE_NET_LOOPBACK },
		{ CORDON_LOOPBACK_ALLOW, CORDON_RULE_NET_LOOPBACK_OK },
		{ 3, CORDON_RULE_NET_LOOPBACK },
	};
	struct cordon_net wide = { .n = 1, .ports = { { .lo = 0, .hi = 65535 } } };
	struct cordon_net narrow = { .n = 1, .loopback = 1, .ports = { { .lo = 80, .hi = 80 } } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
		for (size_t m = 0; m < ARRAY_SIZE(modes); m++) {
			struct cordon_policy policy = { .mode = CORDON_MODE_ENFORCE,
							.loopback = modes[m].mode };
			struct cordon_addr a = addr(spellings[i]);

			assert_int_equal(rule_of(&policy, &a, DECIDE_TCP, 80, NULL), modes[m].rule);
			assert_int_equal(rule_of(&policy, &a, DECIDE_TCP, 80, &wide),
					 modes[m].rule);
			assert_int_equal(rule_of(&policy, &a, DECIDE_TCP, 80, &narrow),
					 CORDON_RULE_NET_ALLOW);
			assert_int_equal(rule_of(&policy, &a, DECIDE_TCP, 81, &narrow),
					 modes[m].rule);
		}
}

static void ports_and_protocols_of_a_prefix(void **state)
{
	struct cordon_policy policy = { .mode = CORDON_MODE_ENFORCE };
	struct cordon_net net = { .n = 2,
				  .ports = { { .proto = DECIDE_TCP, .lo = 10, .hi = 20 },
					     { .lo = 53, .hi = 53 },
					     { .lo = 0, .hi = 65535 } } };
	struct cordon_addr a = addr("10.0.0.1");

	(void)state;
	for (unsigned int proto = 0; proto < 256; proto++)
		for (unsigned int port = 0; port < 65536; port++) {
			int tcp = proto == DECIDE_TCP && ((port >= 10 && port <= 20) || port == 53);
			int udp = proto == DECIDE_UDP && port == 53;

			assert_int_equal(decide_allows(rule_of(&policy, &a, proto, port, &net)),
					 tcp || udp);
		}
}

/* Port 53 of every address, and the resolver itself; nothing of it where dns is denied, and never the metadata. */
static void dns_goes_to_the_resolver(void **state)
{
	static const char *const any[] = { "8.8.8.8",	   "127.0.0.53", "::1",
					   "2001:db8::53", "10.0.0.53",	 "::ffff:8.8.8.8" };
	const struct cordon_net open = { .n = 1, .ports = { { .lo = 0, .hi = 65535 } } };
	struct cordon_policy policy = { .mode = CORDON_MODE_ENFORCE, .dns = 1 };
	struct cordon_addr a = addr("10.0.0.53"), metadata = addr("169.254.169.254");

	(void)state;
	policy.resolver[0] = (struct cordon_gateway){ .addr = a, .port = 5353 };
	for (size_t i = 0; i < ARRAY_SIZE(any); i++) {
		struct cordon_addr to = addr(any[i]);

		for (int proto = 0; proto < 256; proto++) {
			int tcp_udp = proto == DECIDE_TCP || proto == DECIDE_UDP;

			assert_int_equal(rule_of(&policy, &to, proto, 53, &open),
					 tcp_udp ? CORDON_RULE_NET_DNS_ANY
						 : CORDON_RULE_NET_DEFAULT);
		}
		assert_int_not_equal(rule_of(&policy, &to, DECIDE_UDP, 54, NULL),
				     CORDON_RULE_NET_DNS_ANY);
	}
	assert_int_equal(rule_of(&policy, &a, DECIDE_UDP, 5353, NULL), CORDON_RULE_NET_DNS_OK);
	assert_int_equal(rule_of(&policy, &a, DECIDE_UDP, 5354, NULL), CORDON_RULE_NET_DEFAULT);
	assert_int_equal(rule_of(&policy, &metadata, DECIDE_UDP, 53, &open),
			 CORDON_RULE_NET_METADATA);
	/* No resolver of IPv6: port 0 there is none. */
	assert_int_equal(rule_of(&policy, &(struct cordon_addr){ .v6 = 1 }, DECIDE_UDP, 0, NULL),
			 CORDON_RULE_NET_LOOPBACK_OK);
	policy.dns = 0;
	assert_int_equal(rule_of(&policy, &a, DECIDE_UDP, 5353, NULL), CORDON_RULE_NET_DEFAULT);
	assert_int_equal(rule_of(&policy, &a, DECIDE_UDP, 53, NULL), CORDON_RULE_NET_DEFAULT);
}

static void listening_ports(void **state)
{
	struct cordon_policy policy = {
		.mode = CORDON_MODE_ENFORCE,
		.n_listen = 2,
		.listen = { { .proto = DECIDE_TCP, .lo = 80, .hi = 80 },
			    { .proto = DECIDE_TCP, .lo = 9000, .hi = 9010 },
			    { .proto = DECIDE_TCP, .lo = 1, .hi = 65535 } },
	};

	(void)state;
	for (unsigned int port = 0; port < 65536; port++)
		assert_int_equal(decide_listens(&policy, port),
				 port == 80 || (port >= 9000 && port <= 9010));
	policy.n_listen = 0;
	for (unsigned int port = 0; port < 65536; port++)
		assert_false(decide_listens(&policy, port));
}

static void only_listed_sockets(void **state)
{
	(void)state;
	for (int family = 0; family < 64; family++)
		for (int type = 0; type < 16; type++)
			for (int proto = 0; proto < 300; proto++) {
				int inet = (family == AF_INET || family == AF_INET6) &&
					   ((type == 1 && (proto == 0 || proto == 6)) ||
					    (type == 2 && (proto == 0 || proto == 17)));
				int ok = inet || family == AF_UNIX || (family == 16 && proto == 0);

				assert_int_equal(decide_allows(decide_socket(family, type, proto)),
						 ok);
			}
}

static void devices(void **state)
{
	static const struct {
		__u32 mode, major, minor;
		int needed;
	} rows[] = {
		{ 0020666, 1, 3, 1 }, { 0020666, 1, 5, 1 },    { 0020666, 1, 7, 1 },
		{ 0020666, 1, 8, 1 }, { 0020666, 1, 9, 1 },    { 0020666, 5, 0, 1 },
		{ 0020666, 5, 2, 1 }, { 0020620, 136, 0, 1 },  { 0020620, 143, 255, 1 },
		{ 0020640, 1, 1, 0 }, { 0020640, 1, 4, 0 },    { 0020640, 1, 11, 0 },
		{ 0020600, 5, 1, 0 }, { 0020600, 4, 1, 0 },    { 0060660, 1, 3, 0 },
		{ 0060660, 8, 0, 0 }, { 0020600, 10, 229, 0 }, { 0020600, 144, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		__u32 rdev = rows[i].major << 20 | rows[i].minor;
		__u32 rule = decide_device(rows[i].mode, rdev);

		assert_int_equal(decide_allows(rule), rows[i].needed);
	}
}

static void writing_needs_a_root(void **state)
{
	(void)state;
	for (__u32 flags = 0; flags < 8; flags++) {
		assert_int_equal(decide_allows(decide_write(flags, 0)), flags & CORDON_ROOT_WRITE);
		assert_true(decide_allows(decide_write(flags, DECIDE_SB_NOUSER)));
		assert_int_equal(decide_allows(decide_read(flags)),
				 !(flags & CORDON_ROOT_READ_DENY));
	}
	/* A walk that did not end proves nothing. */
	assert_false(decide_allows(decide_write(DECIDE_ROOT_UNKNOWN, 0)));
	assert_false(decide_allows(decide_read(DECIDE_ROOT_UNKNOWN)));
}

/* Every combination of flags: a list allows by what is on it, a denial by what is not, and no doubt does. */
static void lists_of_files(void **state)
{
	const __u32 all = 64;

	(void)state;
	for (__u32 flags = 0; flags < all; flags++) {
		assert_int_equal(decide_allows(decide_read_listed(flags, 0)),
				 !!(flags & (CORDON_ROOT_READ_ALLOW | CORDON_ROOT_WRITE)));
		assert_true(decide_allows(decide_read_listed(flags, DECIDE_SB_NOUSER)));
		assert_int_equal(decide_allows(decide_exec(flags)),
				 !(flags & CORDON_ROOT_EXEC_DENY));
		assert_int_equal(decide_allows(decide_exec_listed(flags)),
				 !!(flags & CORDON_ROOT_EXEC_ALLOW));
		assert_false(decide_allows(decide_exec(flags | DECIDE_ROOT_UNKNOWN)));
		assert_false(decide_allows(decide_exec_listed(flags | DECIDE_ROOT_UNKNOWN)));
	}
	assert_false(decide_allows(decide_read_listed(DECIDE_ROOT_UNKNOWN, 0)));
	assert_int_equal(decide_read_listed(0, 0), CORDON_RULE_FILES_READ_ALLOW);
	assert_int_equal(decide_exec(CORDON_ROOT_EXEC_DENY), CORDON_RULE_FILES_EXEC_DENY);
	assert_int_equal(decide_exec_listed(CORDON_ROOT_WRITE), CORDON_RULE_FILES_EXEC_ALLOW);
}

static void rules_beyond_the_table_deny(void **state)
{
	(void)state;
	for (__u32 rule = CORDON_RULE_COUNT; rule < 4096; rule++)
		assert_false(decide_allows(rule));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metadata_in_every_spelling),
		cmocka_unit_test(metadata_is_never_allowed),
		cmocka_unit_test(an_empty_policy_allows_nothing),
		cmocka_unit_test(the_gateway_is_one_address_port_and_protocol),
		cmocka_unit_test(loopback_in_every_spelling),
		cmocka_unit_test(ports_and_protocols_of_a_prefix),
		cmocka_unit_test(dns_goes_to_the_resolver),
		cmocka_unit_test(listening_ports),
		cmocka_unit_test(only_listed_sockets),
		cmocka_unit_test(devices),
		cmocka_unit_test(writing_needs_a_root),
		cmocka_unit_test(lists_of_files),
		cmocka_unit_test(rules_beyond_the_table_deny),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
