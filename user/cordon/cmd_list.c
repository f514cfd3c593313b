// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon list`, `cordon detach` and `cordon reload`: the fences that cordond keeps. No privilege of their own.
 */
#include <errno.h>
#include <string.h>

#include "cordon/fences.h"

/* --- list ------------------------------------------------------------------------------------- */

struct list_options {
	bool json;
	const char *socket;
};

static const struct cli_option list_rows[] = {
	{ 0, "json", CLI_FLAG, offsetof(struct list_options, json), NULL,
	  "print a JSON object for each fence", 0, 0, NULL },
	DAEMON_CLIENT_OPTION(offsetof(struct list_options, socket)),
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

static const struct {
	const char *title, *key;
	int width;
} columns[] = {
	{ "FENCE", "id", 16 },	 { "POLICY", "policy", 16 },  { "MODE", "mode", 7 },
	{ "TASK", "task", 14 },	 { "TENANT", "tenant", 10 },  { "CONTAINER", "container", 12 },
	{ "TASKS", "tasks", 5 }, { "DENIALS", "denials", 8 },
};

static void list_print(const json_t *rows)
{
	const json_t *row;
	char text[256];
	size_t i;

	for (size_t k = 0; k < ARRAY_SIZE(columns); k++)
		printf("%-*s ", columns[k].width, columns[k].title);
	printf("AGE\n");
	json_array_foreach(rows, i, row)
	{
		for (size_t k = 0; k < ARRAY_SIZE(columns); k++) {
			fences_cell(row, columns[k].key, text, sizeof(text));
			if (!strcmp(columns[k].key, "container"))
				text[12] = '\0';
			printf("%-*s ", columns[k].width, text);
		}
		printf("%s\n", fences_age(json_integer_value(json_object_get(row, "age_s")), text,
					  sizeof(text)));
	}
}

static int cmd_list(const void *options, int argc, char **argv)
{
	const struct list_options *o = options;
	json_t *rows = NULL;
	int code = fences_ask(o->socket, &rows, NULL);

	(void)argc;
	(void)argv;
	if (!code && !o->json)
		list_print(rows);
	for (size_t i = 0; !code && o->json && i < json_array_size(rows); i++)
		daemon_client_print(json_array_get(rows, i));
	json_decref(rows);
	if (!code && fflush(stdout))
		code = cli_fail(EXIT_FOUND, "cannot write to stdout: %s", strerror(errno));
	return code;
}

const struct cli_verb cli_verb_list = {
	.name = "list",
	.summary = "show the fences that cordond keeps",
	.arguments = "",
	.text = "Asks cordond. A row for each fence, the oldest first: its id, policy and mode, "
		"the "
		"task and tenant that it was made for, the container, how many processes are in "
		"it, how many times something was denied, and its age. With --json also the "
		"cgroup, subject, generation of the policy, events and losses.\n\n"
		"Whoever may not read (root, cordon-operators, cordon-readers) is refused with 5.",
	.options = list_rows,
	.options_size = sizeof(struct list_options),
	.run = cmd_list,
};

/* --- detach ----------------------------------------------------------------------------------- */

struct detach_options {
	const char *socket;
};

static const struct cli_option detach_rows[] = {
	DAEMON_CLIENT_OPTION(offsetof(struct detach_options, socket)),
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

/* One request about a fence; its id on stdout. */
static int fence_ask(const char *socket, json_t *request, const char *policy_name, bool print)
{
	struct daemon_client client;
	struct error error = { "" };
	json_t *status = NULL;
	const char *id;
	int code, err = daemon_client_open(&client, socket, &error);

	if (err) {
		json_decref(request);
		return daemon_client_fail(err, &error);
	}
	code = daemon_client_ask(&client, request, policy_name, NULL, NULL, &status);
	id = json_string_value(json_object_get(status, "fence"));
	if (!code && print && id)
		printf("%s\n", id);
	json_decref(status);
	daemon_client_close(&client);
	return code;
}

static int cmd_detach(const void *options, int argc, char **argv)
{
	const struct detach_options *o = options;
	json_t *request = daemon_client_request(CORDOND_DO_DETACH);

	(void)argc;
	daemon_client_text(request, "fence", argv[0]);
	return fence_ask(o->socket, request, NULL, false);
}

const struct cli_verb cli_verb_detach = {
	.name = "detach",
	.summary = "end a fence that cordond keeps; its tasks go on, free",
	.arguments = "FENCE",
	.text = "FENCE is the id that `cordon attach` printed and `cordon list` shows, or the name "
		"of "
		"the fence where only one has it. Returns when the fence is gone; its last event "
		"says "
		"that it was detached. Exits with 6 when there is no such fence.",
	.options = detach_rows,
	.options_size = sizeof(struct detach_options),
	.min_args = 1,
	.max_args = 1,
	.run = cmd_detach,
};

/* --- reload ----------------------------------------------------------------------------------- */

struct reload_options {
	const char *policy, *workdir, *socket;
	bool audit;
};

static const struct cli_option reload_rows[] = {
	{ 'p', "policy", CLI_STRING, offsetof(struct reload_options, policy), "POLICY",
	  "policy file", 0, 0, NULL },
	{ 'w', "workdir", CLI_STRING, offsetof(struct reload_options, workdir), "DIR",
	  "the writable directory; overrides the policy", 0, 0, NULL },
	{ 0, "audit", CLI_FLAG, offsetof(struct reload_options, audit), NULL,
	  "allow what the policy denies, but report it", 0, 0, NULL },
	DAEMON_CLIENT_OPTION(offsetof(struct reload_options, socket)),
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

static int cmd_reload(const void *options, int argc, char **argv)
{
	const struct reload_options *o = options;
	json_t *request = daemon_client_request(CORDOND_DO_RELOAD);
	int code;

	(void)argc;
	if (!o->policy) {
		json_decref(request);
		return cli_fail(EXIT_USAGE, "give --policy FILE: what shall hold from now on");
	}
	daemon_client_text(request, "fence", argv[0]);
	daemon_client_text(request, "workdir", o->workdir);
	daemon_client_flag(request, "audit", o->audit);
	code = daemon_client_policy(request, o->policy);
	if (code) {
		json_decref(request);
		return code;
	}
	return fence_ask(o->socket, request, o->policy, false);
}

const struct cli_verb cli_verb_reload = {
	.name = "reload",
	.summary = "put another policy in force in a fence that cordond keeps",
	.arguments = "FENCE",
	.text = "The new policy is made ready beside the one in force, and one write changes over: "
		"at no "
		"instant is there none. With any fault nothing changes, and the exit status is 3. "
		"Events say which generation of the policy decided.",
	.options = reload_rows,
	.options_size = sizeof(struct reload_options),
	.min_args = 1,
	.max_args = 1,
	.run = cmd_reload,
};
