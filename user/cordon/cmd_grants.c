// SPDX-License-Identifier: Apache-2.0
/* `cordon grants`: narrow permissions for one fence. No privilege; the gateway knows who asks. */
#include <string.h>

#include "cordon/admin_client.h"

struct grants_options {
	const char *admin, *reason, *fence, *task, *tenant, *subject, *scope, *tool, *object;
	const char *amount_max, *uses;
	unsigned int minutes, limit;
};

#define AT(member) offsetof(struct grants_options, member)

static const struct cli_option grants_option_rows[] = {
	ADMIN_CLIENT_OPTION(AT(admin)),
	{ 0, "fence", CLI_STRING, AT(fence), "ID", "issue, revoke: for this fence", 0, 0, NULL },
	{ 0, "task", CLI_STRING, AT(task), "ID", "issue, revoke, list: of this task", 0, 0, NULL },
	{ 0, "subject", CLI_STRING, AT(subject), "USER", "revoke: all of this user", 0, 0, NULL },
	{ 0, "tenant", CLI_STRING, AT(tenant), "TENANT", "list: of this tenant", 0, 0, NULL },
	{ 0, "scope", CLI_STRING, AT(scope), "SCOPE", "issue: one that the fence holds", 0, 0,
	  NULL },
	{ 0, "tool", CLI_STRING, AT(tool), "NAME", "issue: only for this tool", 0, 0, NULL },
	{ 0, "object", CLI_STRING, AT(object), "ID", "issue: only for this object", 0, 0, NULL },
	{ 0, "amount-max", CLI_STRING, AT(amount_max), "N", "issue: so much in all, minor units", 0,
	  0, NULL },
	{ 0, "uses", CLI_STRING, AT(uses), "N", "issue: so many calls", 0, 0, NULL },
	{ 'm', "minutes", CLI_UINT, AT(minutes), "N", "issue, renew: good for so long from now", 1,
	  1440, NULL },
	{ 'r', "reason", CLI_STRING, AT(reason), "TEXT", "revoke: why", 0, 0, NULL },
	{ 0, "limit", CLI_UINT, AT(limit), "N", "list: at most so many", 1, 1000, NULL },
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

static const struct {
	const char *action;
	enum admin_verb verb;
	int min, max;
} actions[] = {
	{ "issue", ADMIN_DO_GRANTS_ISSUE, 1, 1 },
	{ "renew", ADMIN_DO_GRANTS_RENEW, 2, 2 },
	{ "revoke", ADMIN_DO_GRANTS_REVOKE, 1, 2 },
	{ "list", ADMIN_DO_GRANTS_LIST, 1, 1 },
};

static int cmd_grants(const void *data, int argc, char **argv)
{
	const struct grants_options *o = data;
	long long amount = admin_client_parse_number(o->amount_max);
	long long uses = admin_client_parse_number(o->uses);
	struct admin_request request = { .has = 0 };

	if (amount < 0 || uses < 0)
		return cli_fail(EXIT_USAGE, "--amount-max and --uses are numbers, 1 or more");
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		if (strcmp(argv[0], actions[i].action) != 0 || argc < actions[i].min ||
		    argc > actions[i].max)
			continue;
		request.verb = actions[i].verb;
		admin_client_text(&request, ADMIN_id, argc > 1 ? argv[1] : NULL);
		admin_client_text(&request, ADMIN_fence, o->fence);
		admin_client_text(&request, ADMIN_task, o->task);
		admin_client_text(&request, ADMIN_subject, o->subject);
		admin_client_text(&request, ADMIN_tenant, o->tenant);
		admin_client_text(&request, ADMIN_scope, o->scope);
		admin_client_text(&request, ADMIN_tool, o->tool);
		admin_client_text(&request, ADMIN_object, o->object);
		admin_client_text(&request, ADMIN_reason, o->reason);
		admin_client_number(&request, ADMIN_amount_max, amount);
		admin_client_number(&request, ADMIN_uses, uses);
		admin_client_number(&request, ADMIN_minutes, o->minutes);
		admin_client_number(&request, ADMIN_limit, o->limit);
		return admin_client_run(o->admin, &request);
	}
	return cli_fail(EXIT_USAGE, "issue, renew ID, revoke [ID] or list");
}

const struct cli_verb cli_verb_grants = {
	.name = "grants",
	.summary = "narrow permissions for one fence: issue, renew, revoke, list",
	.arguments = "issue|renew ID|revoke [ID]|list",
	.text = "A grant narrows what a fence may ask the gateway for: to a scope, a tool, an "
		"object, an "
		"amount, a number of calls and some minutes. It never widens it, is good from its "
		"own fence only, and ends with it. issue and renew print the token, which the "
		"fence "
		"sends as `Authorization: Bearer TOKEN`.\n\n"
		"revoke takes the id of a grant, or --fence, --task or --subject for all of those; "
		"it "
		"holds at once, and cuts what goes out through the gateway: connections of its "
		"proxy and "
		"requests to upstreams of those fences, requests that stand on that grant.\n\n"
		"May be used by root, the gateway's user and the group cordon-admins. Prints JSON, "
		"an "
		"object a line.",
	.options = grants_option_rows,
	.options_size = sizeof(struct grants_options),
	.min_args = 1,
	.max_args = 2,
	.run = cmd_grants,
};
