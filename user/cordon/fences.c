// SPDX-License-Identifier: Apache-2.0
/* See fences.h. Tasks are counted here, from the cgroup's files, which anybody may read. */
#include "cordon/fences.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

enum { DEPTH_MAX = 16 };

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

struct answer {
	json_t *rows; /* array */
	bool failed;
};

static void row_take(void *context, const json_t *row)
{
	struct answer *answer = context;
	json_t *copy = json_copy((json_t *)row);
	const char *cgroup = json_string_value(json_object_get(row, "cgroup"));
	long long tasks = cgroup && cgroup[0] == '/' ? tasks_count(cgroup, 0) : -1;

	json_object_set_new(copy, "tasks", tasks < 0 ? json_null() : json_integer(tasks));
	answer->failed |= json_array_append_new(answer->rows, copy);
}

const char *fences_cell(const json_t *row, const char *key, char *text, size_t size)
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

const char *fences_age(long long s, char *text, size_t size)
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

static int id_compare(const void *a, const void *b)
{
	const json_t *const *x = a, *const *y = b;

	return strcmp(json_string_value(json_object_get(*x, "id")),
		      json_string_value(json_object_get(*y, "id")));
}

/* By id, which is by age. */
static void rows_sort(json_t *rows)
{
	size_t n = json_array_size(rows);
	json_t **v = calloc(n + 1, sizeof(*v));

	if (!v)
		return;
	for (size_t i = 0; i < n; i++)
		v[i] = json_incref(json_array_get(rows, i));
	qsort(v, n, sizeof(*v), id_compare);
	for (size_t i = 0; i < n; i++)
		json_array_set_new(rows, i, v[i]);
	free(v);
}

int fences_ask(const char *socket, json_t **ret_rows, json_t **ret_status)
{
	struct answer answer = { .rows = json_array() };
	struct daemon_client client;
	struct error error = { "" };
	int code, err = daemon_client_open(&client, socket, &error);

	code = err ? daemon_client_fail(err, &error)
		   : daemon_client_ask(&client, daemon_client_request(CORDOND_DO_LIST), NULL,
				       row_take, &answer, NULL);
	if (!code && ret_status)
		code = daemon_client_ask(&client, daemon_client_request(CORDOND_DO_STATUS), NULL,
					 NULL, NULL, ret_status);
	daemon_client_close(&client);
	if (!code && (answer.failed || !answer.rows))
		code = cli_fail(EXIT_FOUND, "out of memory");
	if (code) {
		json_decref(answer.rows);
		return code;
	}
	rows_sort(answer.rows);
	*ret_rows = answer.rows;
	return EXIT_OK;
}
