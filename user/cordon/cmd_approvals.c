// SPDX-License-Identifier: Apache-2.0
/* `cordon approvals`: what waits for a human, and the decision. No privilege; the gateway knows who asks. */
#include <string.h>

#include "cordon/admin_client.h"

struct approvals_options {
	const char *admin, *reason, *task, *tenant;
	unsigned int limit;
	bool all;
};

#define AT(member) offsetof(struct approvals_options, member)

static const struct cli_option approvals_option_rows[] = {
	ADMIN_CLIENT_OPTION(AT(admin)),
	{ 'r', "reason", CLI_STRING, AT(reason), "TEXT", "why; deny needs it", 0, 0, NULL },
	{ 0, "all", CLI_FLAG, AT(all), NULL, "list: also those that are decided", 0, 0, NULL },
	{ 0, "task", CLI_STRING, AT(task), "ID", "list: of this task only", 0, 0, NULL },
	{ 0, "tenant", CLI_STRING, AT(tenant), "TENANT", "list: of this tenant only", 0, 0, NULL },
	{ 0, "limit", CLI_UINT, AT(limit), "N", "list: at most so many", 1, 1000, NULL },
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

static const struct {
	const char *action;
	enum admin_verb verb;
	int args;
} actions[] = {
	{ "list", ADMIN_DO_APPROVALS_LIST, 1 },
	{ "show", ADMIN_DO_APPROVALS_SHOW, 2 },
	{ "approve", ADMIN_DO_APPROVALS_APPROVE, 2 },
	{ "deny", ADMIN_DO_APPROVALS_DENY, 2 },
};

static int cmd_approvals(const void *data, int argc, char **argv)
{
	const struct approvals_options *o = data;
	struct admin_request request = { .has = 0 };

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		if (strcmp(argv[0], actions[i].action) != 0 || argc != actions[i].args)
			continue;
		request.verb = actions[i].verb;
		admin_client_text(&request, ADMIN_id, argc > 1 ? argv[1] : NULL);
		admin_client_text(&request, ADMIN_reason, o->reason);
		admin_client_text(&request, ADMIN_task, o->task);
		admin_client_text(&request, ADMIN_tenant, o->tenant);
		admin_client_number(&request, ADMIN_limit, o->limit);
		admin_client_number(&request, ADMIN_all, o->all);
		return admin_client_run(o->admin, &request);
	}
	return cli_fail(EXIT_USAGE, "list, show ID, approve ID or deny ID --reason TEXT");
}

const struct cli_verb cli_verb_approvals = {
	.name = "approvals",
	.summary = "calls that wait for a human: list, show, approve, deny",
	.arguments = "list|show ID|approve ID|deny ID",
	.text = "A call that the gateway holds is decided here, once. Approving executes it: "
		"limits and "
		"facts are checked again first. Nobody approves a call that was made on their own "
		"behalf.\n\n"
		"May be used by root, the gateway's user and members of the groups cordon-admins, "
		"cordon-approvers or, for one tenant, cordon-approvers-TENANT. Prints JSON, an "
		"object "
		"a line.",
	.options = approvals_option_rows,
	.options_size = sizeof(struct approvals_options),
	.min_args = 1,
	.max_args = 2,
	.run = cmd_approvals,
};
