// SPDX-License-Identifier: Apache-2.0
/*
 * Everything about a launch that needs memory or a look-up, done in the parent before the fork: the
 * environment (only what is named; nothing comes along by itself), the paths to execute, the
 * private directories, the user.
 *
 * Privilege: none needed. Failure: the launch does not happen.
 */
#include "host/launch.h"
#include "host/internal.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin" /* where the new environment has no PATH */
#define GROUPS_MAX 65536

static size_t list_length(char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

static void list_free(char **list)
{
	size_t i;

	for (i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

static int out_of_memory(struct error *error)
{
	return error_set(error, ENOMEM, "out of memory");
}

/* --- environment ------------------------------------------------------------------------------ */

/* Where NAME=... stands in env, or the end. name may go on after its '='. */
static char **env_find(char **env, const char *name)
{
	size_t n = strcspn(name, "=");

	while (*env && (strncmp(*env, name, n) || (*env)[n] != '='))
		env++;
	return env;
}

/* Puts entry, which becomes owned, in place of an earlier one of that name or at the end. */
static int env_put(char **env, char *entry)
{
	char **at = env_find(env, entry ? entry : "");

	if (!entry)
		return -ENOMEM;
	free(*at);
	*at = entry;
	return 0;
}

static int env_pass_one(char **env, const char *name)
{
	const char *value = getenv(name);
	char *entry = NULL;

	if (!value)
		return 0;
	return env_put(env, asprintf(&entry, "%s=%s", name, value) < 0 ? NULL : entry);
}

static int plan_env(const struct host_launch *launch, struct launch_plan *plan, struct error *error)
{
	size_t i, n = list_length(launch->env_pass) + list_length(launch->env_set);

	plan->env = calloc(n + 1, sizeof(*plan->env));
	if (!plan->env)
		return out_of_memory(error);
	for (i = 0; launch->env_pass && launch->env_pass[i]; i++)
		if (env_pass_one(plan->env, launch->env_pass[i]) < 0)
			return out_of_memory(error);
	for (i = 0; launch->env_set && launch->env_set[i]; i++) {
		const char *entry = launch->env_set[i];

		if (entry[0] == '=' || !strchr(entry, '='))
			return error_set(error, EINVAL, "environment entry '%s' is not NAME=value",
					 entry);
		if (env_put(plan->env, strdup(entry)) < 0)
			return out_of_memory(error);
	}
	return 0;
}

/* --- what to execute -------------------------------------------------------------------------- */

/* One path per directory of PATH; an empty directory is the workdir, as execvp has it. */
static int plan_search(struct launch_plan *plan, const char *name, const char *path)
{
	size_t i, n = 1;
	const char *p;

	for (p = path; *p; p++)
		n += *p == ':';
	plan->candidates = calloc(n + 1, sizeof(*plan->candidates));
	if (!plan->candidates)
		return -ENOMEM;
	for (i = 0, p = path; i < n; i++) {
		int len = (int)strcspn(p, ":");

		if (asprintf(&plan->candidates[i], "%.*s%s%s", len, p, len ? "/" : "./", name) <
		    0) {
			plan->candidates[i] = NULL;
			return -ENOMEM;
		}
		p += len + 1;
	}
	return 0;
}

static int plan_command(const struct host_launch *launch, struct launch_plan *plan,
			struct error *error)
{
	const char *name = launch->argv[0], *path;

	if (!name || !*name)
		return error_set(error, ENOENT, "no command given");
	plan->argv = launch->argv;
	if (strchr(name, '/')) {
		plan->candidates = calloc(2, sizeof(*plan->candidates));
		if (!plan->candidates || !(plan->candidates[0] = strdup(name)))
			return out_of_memory(error);
		return 0;
	}
	path = *env_find(plan->env, "PATH");
	if (plan_search(plan, name, path ? path + strlen("PATH=") : DEFAULT_PATH) < 0)
		return out_of_memory(error);
	return 0;
}

/* --- directories ------------------------------------------------------------------------------ */

static char *real_directory(const char *what, const char *path, struct error *error)
{
	char *real = realpath(path, NULL);
	struct stat st;

	if (!real) {
		error_set(error, errno, "%s %s: %s", what, path, strerror(errno));
		return NULL;
	}
	if (stat(real, &st) || !S_ISDIR(st.st_mode)) {
		error_set(error, ENOTDIR, "%s %s: not a directory", what, path);
		errno = ENOTDIR;
		free(real);
		return NULL;
	}
	return real;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Drops repetitions, and the workdir itself: it is what the command came to work on. */
static void dirs_tidy(struct launch_plan *plan)
{
	size_t i, n = 0;

	qsort(plan->dirs, plan->n_dirs, sizeof(*plan->dirs), compare_paths);
	for (i = 0; i < plan->n_dirs; i++) {
		char *dir = TAKE_PTR(plan->dirs[i]);

		if ((n && !strcmp(plan->dirs[n - 1], dir)) ||
		    (plan->workdir && !strcmp(plan->workdir, dir)))
			free(dir);
		else
			plan->dirs[n++] = dir;
	}
	plan->n_dirs = n;
}

static int plan_dirs(const struct host_launch *launch, struct launch_plan *plan,
		     struct error *error)
{
	size_t i, n = list_length(launch->private_dirs);

	if (launch->workdir) {
		plan->workdir = real_directory("workdir", launch->workdir, error);
		if (!plan->workdir)
			return -errno;
	}
	plan->dirs = calloc(n + 1, sizeof(*plan->dirs));
	if (!plan->dirs)
		return out_of_memory(error);
	for (i = 0; i < n; i++) {
		plan->dirs[i] = real_directory("private directory", launch->private_dirs[i], error);
		if (!plan->dirs[i])
			return -errno;
		if (!strcmp(plan->dirs[i], "/"))
			return error_set(error, EINVAL, "/ cannot be a private directory");
	}
	plan->n_dirs = n;
	dirs_tidy(plan);
	plan->keep_after = plan->n_dirs;
	for (i = 0; plan->workdir && i < plan->n_dirs; i++)
		if (host_path_below(plan->workdir, plan->dirs[i]))
			plan->keep_after = i;
	return 0;
}

/* --- user ------------------------------------------------------------------------------------- */

static bool parse_uid(const char *text, uid_t *ret_uid)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	*ret_uid = (uid_t)value;
	return text[0] >= '0' && text[0] <= '9' && !*end && !errno && value < UINT32_MAX;
}

static int plan_groups(const char *name, struct launch_plan *plan)
{
	int n = 32;

	for (;;) {
		free(plan->groups);
		plan->groups = calloc((size_t)n, sizeof(*plan->groups));
		if (!plan->groups)
			return -ENOMEM;
		plan->n_groups = n;
		if (getgrouplist(name, plan->gid, plan->groups, &plan->n_groups) >= 0)
			return 0;
		n = plan->n_groups > n ? plan->n_groups : n * 2;
		if (n > GROUPS_MAX)
			return -E2BIG;
	}
}

/* A number without a name is taken as it is: its own group, no others. */
static int plan_user(const struct host_launch *launch, struct launch_plan *plan,
		     struct error *error)
{
	bool number;
	struct passwd *entry;
	uid_t uid;

	if (!launch->user)
		return 0;
	number = parse_uid(launch->user, &uid);
	entry = number ? getpwuid(uid) : getpwnam(launch->user);
	if (!entry && !number)
		return error_set(error, EINVAL, "no user '%s'", launch->user);
	plan->drop = true;
	plan->uid = entry ? entry->pw_uid : uid;
	plan->gid = entry ? entry->pw_gid : uid;
	if (entry && plan_groups(entry->pw_name, plan) < 0)
		return error_set(error, E2BIG, "cannot list the groups of user '%s'", launch->user);
	return 0;
}

int launch_plan_make(const struct host_launch *launch, struct launch_plan *ret_plan,
		     struct error *error)
{
	int r = plan_env(launch, ret_plan, error);

	if (!r)
		r = plan_command(launch, ret_plan, error);
	if (!r)
		r = plan_dirs(launch, ret_plan, error);
	if (!r)
		r = plan_user(launch, ret_plan, error);
	return r;
}

void launch_plan_free(struct launch_plan *plan)
{
	list_free(TAKE_PTR(plan->env));
	list_free(TAKE_PTR(plan->candidates));
	list_free(TAKE_PTR(plan->dirs));
	free(TAKE_PTR(plan->workdir));
	free(TAKE_PTR(plan->groups));
}
