// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon list`, `cordon detach` and `cordon reload`: the fences that cordond keeps. No privilege of their own. Tasks are
 * counted here, from the cgroup's files, which anybody may read.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "cordon/daemon_client.h"
#include "event/event.h"

enum { DEPTH_MAX = 16 };

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

struct list {
	json_t *rows; /* array */
	bool failed;
};

/* Processes of a cgroup and of those below it; -1 when it cannot be read. */
static long long tasks_count(const char *cgroup, int depth)
{
	char path[PATH_MAX], line[32];
	long long n = 0;
	FILE *f;
	DIR *d;

	if (snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup) >= (int)sizeof(path))
		return -1;
	f = fopen(path, "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		n++;
	fclose(f);
	d = depth < DEPTH_MAX ? opendir(cgroup) : NULL;
	for (struct dirent *entry; d && (entry = readdir(d));) {
		long long below;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
		    snprintf(path, sizeof(path), "%s/%s", cgroup, entry->d_name) >=
			    (int)sizeof(path))
			continue;
		below = tasks_count(path, depth + 1);
		n += below > 0 ? below : 0;
	}
	if (d)
		closedir(d);
	return n;
}

static void list_take(void *context, const json_t *row)
{
	struct list *list = context;
	json_t *copy = json_copy((json_t *)row);
	const char *cgroup = json_string_value(json_object_get(row, "cgroup"));
	long long tasks = cgroup && cgroup[0] == '/' ? tasks_count(cgroup, 0) : -1;

	json_object_set_new(copy, "tasks", tasks < 0 ? json_null() : json_integer(tasks));
	list->failed |= json_array_append_new(list->rows, copy);
}

/* A text of a row for a terminal: what could act on it becomes "?". */
static const char *cell(const json_t *row, const char *key, char *text, size_t size)
{
	const json_t *value = json_object_get(row, key);

	if (json_is_integer(value))
		snprintf(text, size, "%lld", (long long)json_integer_value(value));
	else
		snprintf(text, size, "%s", json_is_string(value) ? json_string_value(value) : "-");
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
			*c = '?';
	return text;
}

static const char *age_text(long long s, char *text, size_t size)
{
	if (s < 120)
		snprintf(text, size, "%llds", s);
	else if (s < 7200)
		snprintf(text, size, "%lldm", s / 60);
	else if (s < 172800)
		snprintf(text, size, "%lldh", s / 3600);
	else
		snprintf(text, size, "%lldd", s / 86400);
	return text;
}

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
			cell(row, columns[k].key, text, sizeof(text));
			if (!strcmp(columns[k].key, "container"))
				text[12] = '\0';
			printf("%-*s ", columns[k].width, text);
		}
		printf("%s\n", age_text(json_integer_value(json_object_get(row, "age_s")), text,
					sizeof(text)));
	}
}

static int list_compare(const void *a, const void *b)
{
	const json_t *const *x = a, *const *y = b;

	return strcmp(json_string_value(json_object_get(*x, "id")),
		      json_string_value(json_object_get(*y, "id")));
}

/* By id, which is by age. */
static void list_sort(json_t *rows)
{
	size_t n = json_array_size(rows);
	json_t **v = calloc(n + 1, sizeof(*v));

	if (!v)
		return;
	for (size_t i = 0; i < n; i++)
		v[i] = json_incref(json_array_get(rows, i));
	qsort(v, n, sizeof(*v), list_compare);
	for (size_t i = 0; i < n; i++)
		json_array_set_new(rows, i, v[i]);
	free(v);
}

static int cmd_list(const void *options, int argc, char **argv)
{
	const struct list_options *o = options;
	struct list list = { .rows = json_array() };
	struct daemon_client client;
	struct error error = { "" };
	int code, err = daemon_client_open(&client, o->socket, &error);

	(void)argc;
	(void)argv;
	code = err ? daemon_client_fail(err, &error)
		   : daemon_client_ask(&client, daemon_client_request(CORDOND_DO_LIST), NULL,
				       list_take, &list, NULL);
	daemon_client_close(&client);
	if (!code && (list.failed || !list.rows))
		code = cli_fail(EXIT_FOUND, "out of memory");
	if (!code)
		list_sort(list.rows);
	if (!code && !o->json)
		list_print(list.rows);
	for (size_t i = 0; !code && o->json && i < json_array_size(list.rows); i++)
		daemon_client_print(json_array_get(list.rows, i));
	json_decref(list.rows);
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
