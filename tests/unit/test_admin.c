// SPDX-License-Identifier: Apache-2.0
/* user/admin: what may be said on the admin socket, and who may say it. The whole runs in tests/gateway. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "admin/protocol.h"
#include "admin/report.h"
#include "admin/roles.h"

static struct admin_request request;

static int parse(const char *line)
{
	struct error error = { "" };
	int err = admin_request_parse(line, strlen(line), &request, &error);

	assert_true(!err == !error.text[0]);
	return err;
}

static void test_round(void **state)
{
	_cleanup_free_ char *line = NULL;

	(void)state;
	assert_int_equal(parse("{\"do\":\"grants.issue\",\"task\":\"t\",\"scope\":\"refund:"
			       "create\",\"minutes\":5,"
			       "\"amount_max\":100}\n"),
			 0);
	assert_int_equal(request.verb, ADMIN_DO_GRANTS_ISSUE);
	assert_string_equal(admin_text(&request, ADMIN_task), "t");
	assert_null(admin_text(&request, ADMIN_fence));
	assert_int_equal(request.number[ADMIN_minutes], 5);
	line = admin_request_format(&request);
	assert_int_equal(parse(line), 0);
	assert_int_equal(request.number[ADMIN_amount_max], 100);
	assert_int_equal(parse("{\"do\":\"approvals.list\",\"all\":true}"), 0);
	assert_int_equal(request.number[ADMIN_all], 1);
	assert_int_equal(parse("{\"do\":\"status\"}"), 0);
}

static void test_refused(void **state)
{
	static const char *const lines[] = {
		"",
		"\n",
		"[]",
		"null",
		"{}",
		"{\"do\":1}",
		"{\"do\":\"approve\"}",
		"{\"do\":\"status\",\"do\":\"status\"}",
		"{\"do\":\"status\"}{\"do\":\"status\"}",
		"{\"do\":\"status\",\"id\":\"x\"}",
		"{\"do\":\"approvals.show\"}",
		"{\"do\":\"approvals.show\",\"id\":\"\"}",
		"{\"do\":\"approvals.show\",\"id\":5}",
		"{\"do\":\"approvals.show\",\"id\":\"a\\u0000b\"}",
		"{\"do\":\"approvals.show\",\"id\":\"a\\nb\"}",
		"{\"do\":\"approvals.deny\",\"id\":\"a\"}",
		"{\"do\":\"approvals.show\",\"id\":"
		"\"01234567890123456789012345678901234567890123456789"
		"012345678901234\"}",
		"{\"do\":\"approvals.list\",\"limit\":0}",
		"{\"do\":\"approvals.list\",\"limit\":1.5}",
		"{\"do\":\"approvals.list\",\"limit\":\"5\"}",
		"{\"do\":\"approvals.list\",\"limit\":1e3}",
		"{\"do\":\"approvals.list\",\"all\":1}",
		"{\"do\":\"grants.issue\",\"scope\":\"s\",\"minutes\":5}",
		"{\"do\":\"grants.issue\",\"scope\":\"s\",\"minutes\":5,\"task\":\"t\",\"fence\":"
		"\"1\"}",
		"{\"do\":\"grants.issue\",\"scope\":\"s\",\"minutes\":1441,\"task\":\"t\"}",
		"{\"do\":\"grants.issue\",\"scope\":\"s\",\"minutes\":-1,\"task\":\"t\"}",
		"{\"do\":\"grants.issue\",\"scope\":\"s\",\"minutes\":5,\"task\":\"t\",\"amount_"
		"max\":"
		"9223372036854775807}",
		"{\"do\":\"grants.issue\",\"scope\":\"s\",\"minutes\":5,\"task\":\"t\",\"amount_"
		"max\":"
		"9223372036854775808}",
		"{\"do\":\"grants.revoke\"}",
		"{\"do\":\"ledger.settle\",\"key\":\"k\",\"outcome\":\"done\"}",
	};
	_cleanup_free_ char *deep = malloc(ADMIN_REQUEST_MAX + 2);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (parse(lines[i]) != -EINVAL)
			fail_msg("%s", lines[i]);
	memset(deep, '[', ADMIN_REQUEST_MAX + 1);
	deep[ADMIN_REQUEST_MAX + 1] = '\0';
	assert_int_equal(parse(deep), -EINVAL);
	deep[ADMIN_REQUEST_MAX] = '\0';
	assert_int_equal(parse(deep), -EINVAL);
}

/* Every request says whose it is, and no agent's word is among what it needs. */
static void test_table(void **state)
{
	(void)state;
	for (int i = 0; i < ADMIN_DO_N; i++) {
		assert_true(admin_verb_need((enum admin_verb)i));
		assert_non_null(strchr(admin_verb_name((enum admin_verb)i), i ? '.' : 's'));
	}
	assert_int_equal(admin_verb_need(ADMIN_DO_APPROVALS_APPROVE), ADMIN_APPROVER);
	assert_int_equal(admin_verb_need(ADMIN_DO_LEDGER_SETTLE), ADMIN_ADMIN);
	assert_int_equal(admin_verb_need(ADMIN_DO_GRANTS_ISSUE), ADMIN_ADMIN);
}

static void test_roles(void **state)
{
	struct admin_role role = { .may = 0 };

	(void)state;
	admin_role_add_group(&role, "cordon-gateway");
	admin_role_add_group(&role, "cordon-approvers-");
	admin_role_add_group(&role, "cordon-approver");
	admin_role_add_group(&role, "xcordon-admins");
	assert_int_equal(role.may, 0);
	assert_false(admin_role_covers(&role, "t-1"));
	admin_role_add_group(&role, "cordon-approvers-t-1");
	assert_int_equal(role.may, ADMIN_APPROVER);
	assert_true(admin_role_covers(&role, "t-1"));
	assert_false(admin_role_covers(&role, "t-2"));
	assert_false(admin_role_covers(&role, ""));
	assert_false(admin_role_covers(&role, NULL));
	admin_role_add_group(&role, "cordon-approvers-t-2");
	assert_true(admin_role_covers(&role, "t-2"));
	admin_role_add_group(&role, "cordon-approvers");
	assert_true(admin_role_covers(&role, "t-3"));
	memset(&role, 0, sizeof(role));
	admin_role_add_group(&role, "cordon-admins");
	assert_int_equal(role.may, ADMIN_APPROVER | ADMIN_ADMIN);
	for (int i = 0; i < 2 * ADMIN_TENANTS_MAX; i++) /* bounded */
		admin_role_add_group(&role, "cordon-approvers-t");
	assert_int_equal(role.n_tenants, ADMIN_TENANTS_MAX);
}

static void test_peer(void **state)
{
	struct admin_role role;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(admin_role_of_peer(pair[0], &role), 0); /* the gateway's own user */
	assert_true(role.may & ADMIN_ADMIN);
	assert_true(role.name[0]);
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(admin_role_of_peer(pair[0], &role), -EPERM);
}

/* Every code has a rule, and only what was allowed one that allows. */
static void test_rules(void **state)
{
	(void)state;
	for (int code = 0; code < LEDGER_CODES_N; code++) {
		bool allowed =
			code == LEDGER_OK || code == LEDGER_DUPLICATE || code == LEDGER_EXECUTE;

		assert_int_equal(report_rule((enum ledger_code)code) == CORDON_RULE_GW_OK, allowed);
	}
	assert_int_equal(report_rule(LEDGER_OBJECT_NOT_IN_TENANT), CORDON_RULE_GW_TENANT);
	assert_int_equal(report_rule(LEDGER_UNAVAILABLE), CORDON_RULE_GW_STATE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_table), cmocka_unit_test(test_roles),
		cmocka_unit_test(test_peer),  cmocka_unit_test(test_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
