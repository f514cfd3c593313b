// SPDX-License-Identifier: Apache-2.0
/* `cordon ledger`: the calls of a gateway and their states. No privilege; the gateway knows who asks. */
#include <string.h>

#include "cordon/admin_client.h"

struct ledger_options {
	const char *admin, *reason, *task, *tenant, *state, *outcome, *call, *before;
	unsigned int limit;
};

#define AT(member) offsetof(struct ledger_options, member)

static const struct cli_option ledger_option_rows[] = {
	ADMIN_CLIENT_OPTION(AT(admin)),
	{ 0, "task", CLI_STRING, AT(task), "ID", "list: of this task", 0, 0, NULL },
	{ 0, "tenant", CLI_STRING, AT(tenant), "TENANT", "of this tenant", 0, 0, NULL },
	{ 0, "state", CLI_STRING, AT(state), "STATE",
	  "list: in this state, `ambiguous` for example", 0, 0, NULL },
	{ 0, "call", CLI_STRING, AT(call), "N", "show, settle: by the number of the call", 0, 0,
	  NULL },
	{ 0, "outcome", CLI_CHOICE, AT(outcome), "done|failed",
	  "settle: did it have its effect (done) or not (failed)", 0, 0, NULL },
	{ 'r', "reason", CLI_STRING, AT(reason), "TEXT", "settle: how that is known", 0, 0, NULL },
	{ 0, "limit", CLI_UINT, AT(limit), "N", "list: at most so many, newest first", 1, 1000,
	  NULL },
	{ 0, "before", CLI_STRING, AT(before), "N", "list: older than this call", 0, 0, NULL },
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

static const struct {
	const char *action;
	enum admin_verb verb;
	int min, max;
} actions[] = {
	{ "list", ADMIN_DO_LEDGER_LIST, 1, 1 },
	{ "show", ADMIN_DO_LEDGER_SHOW, 1, 2 },
	{ "settle", ADMIN_DO_LEDGER_SETTLE, 1, 2 },
};

static int cmd_ledger(const void *data, int argc, char **argv)
{
	const struct ledger_options *o = data;
	long long call = admin_client_parse_number(o->call);
	long long before = admin_client_parse_number(o->before);
	struct admin_request request = { .has = 0 };

	if (call < 0 || before < 0)
		return cli_fail(EXIT_USAGE, "--call and --before are numbers, 1 or more");
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		if (strcmp(argv[0], actions[i].action) != 0 || argc < actions[i].min ||
		    argc > actions[i].max)
			continue;
		request.verb = actions[i].verb;
		admin_client_text(&request, ADMIN_key, argc > 1 ? argv[1] : NULL);
		admin_client_text(&request, ADMIN_task, o->task);
		admin_client_text(&request, ADMIN_tenant, o->tenant);
		admin_client_text(&request, ADMIN_state, o->state);
		admin_client_text(&request, ADMIN_outcome, o->outcome);
		admin_client_text(&request, ADMIN_reason, o->reason);
		admin_client_number(&request, ADMIN_call, call);
		admin_client_number(&request, ADMIN_before, before);
		admin_client_number(&request, ADMIN_limit, o->limit);
		return admin_client_run(o->admin, &request);
	}
	return cli_fail(EXIT_USAGE,
			"list, show KEY or settle KEY --outcome done|failed --reason TEXT");
}

const struct cli_verb cli_verb_ledger = {
	.name = "ledger",
	.summary = "calls of the gateway and their states: list, show, settle",
	.arguments = "list|show KEY|settle KEY",
	.text = "The ledger is what the gateway decides by: each call that has a key is in it. A "
		"call that "
		"is `ambiguous` left for an upstream, and the answer never came; its amount stays "
		"reserved and its key in use until somebody finds out whether it happened and "
		"settles "
		"it: --outcome done or failed, with the reason.\n\n"
		"KEY is the idempotency key; --call names a call where several tenants, users or "
		"tools "
		"use the same.\n\n"
		"May be used by root, the gateway's user and the group cordon-admins. Prints JSON, "
		"an "
		"object a line.",
	.options = ledger_option_rows,
	.options_size = sizeof(struct ledger_options),
	.min_args = 1,
	.max_args = 2,
	.run = cmd_ledger,
};
