// SPDX-License-Identifier: Apache-2.0
/*
 * See limits.h. Works on the descriptor of the cgroup. Fails closed: a limit that was asked for and cannot be put is an
 * error for the fence.
 */
#include "host/limits.h"
#include "host/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#define CPU_PERIOD_US 100000ULL

static const struct {
	const char *name, *controller;
} kinds[HOST_LIMIT_COUNT] = {
	[HOST_LIMIT_CPU] = { "limits.cpu", "cpu" },
	[HOST_LIMIT_MEMORY] = { "limits.memory", "memory" },
	[HOST_LIMIT_PIDS] = { "limits.pids", "pids" },
};

enum file { FILE_CPU, FILE_SWAP, FILE_MEMORY, FILE_OOM_GROUP, FILE_PIDS };

/* Swap first, so that memory.max does not drive the fence out to it. */
static const struct {
	const char *name;
	enum host_limit limit;
	bool larger; /* the larger value is the tighter one */
} files[HOST_LIMIT_FILES] = {
	[FILE_CPU] = { "cpu.max", HOST_LIMIT_CPU, false },
	[FILE_SWAP] = { "memory.swap.max", HOST_LIMIT_MEMORY, false },
	[FILE_MEMORY] = { "memory.max", HOST_LIMIT_MEMORY, false },
	[FILE_OOM_GROUP] = { "memory.oom.group", HOST_LIMIT_MEMORY, true },
	[FILE_PIDS] = { "pids.max", HOST_LIMIT_PIDS, false },
};

const char *host_limit_name(enum host_limit limit)
{
	return kinds[limit].name;
}

bool host_limits_has(const struct host_limits *limits, enum host_limit limit)
{
	switch (limit) {
	case HOST_LIMIT_CPU:
		return limits->cpu_milli;
	case HOST_LIMIT_MEMORY:
		return limits->memory_bytes;
	default:
		return limits->pids;
	}
}

/* A file of a few lines, without the last newline. */
static int file_read(int dir, const char *name, char *text, size_t size)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	if (n && text[n - 1] == '\n')
		text[n - 1] = '\0';
	return 0;
}

static int file_write(int dir, const char *name, const char *text)
{
	_cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* --- controllers ------------------------------------------------------------------------------ */

/* Is the word among those of "cgroup.controllers" or "cgroup.subtree_control"? */
static bool controllers_have(int dir, const char *file, const char *controller)
{
	char text[256], *state, *word;

	if (file_read(dir, file, text, sizeof(text)))
		return false;
	for (word = strtok_r(text, " ", &state); word; word = strtok_r(NULL, " ", &state))
		if (!strcmp(word, controller))
			return true;
	return false;
}

/* Turns a controller on for what is below a cgroup; of no effect where it is on. */
static int controller_enable(const char *path, const char *controller)
{
	_cleanup_close_ int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char text[32];

	if (dir < 0)
		return -errno;
	if (controllers_have(dir, "cgroup.subtree_control", controller))
		return 0;
	if (!controllers_have(dir, "cgroup.controllers", controller))
		return -ENOTSUP;
	snprintf(text, sizeof(text), "+%s", controller);
	return file_write(dir, "cgroup.subtree_control", text);
}

/* The cgroup n levels above. */
static void path_above(const char *path, unsigned int n, char ret_path[PATH_MAX])
{
	snprintf(ret_path, PATH_MAX, "%s", path);
	while (n--) {
		char *slash = strrchr(ret_path, '/');

		if (slash)
			*slash = '\0';
	}
}

static int controller_lack(const struct host_cgroup *cgroup, enum host_limit limit, bool ours,
			   int r, struct error *error)
{
	char mount[PATH_MAX], parent[PATH_MAX];
	const char *controller = kinds[limit].controller;

	if (host_cgroup_find(mount) == HOST_CGROUP_HYBRID && ours)
		return error_set(error, ENOTSUP,
				 "%s: cgroup v2 has no %s controller here, cgroup v1 may hold it; "
				 "boot with systemd.unified_cgroup_hierarchy=1, or give --degraded",
				 kinds[limit].name, controller);
	if (ours && r == -ENOTSUP)
		return error_set(error, ENOTSUP,
				 "%s: this kernel has no %s controller; boot without "
				 "cgroup_disable=%s, or give --degraded",
				 kinds[limit].name, controller, controller);
	path_above(cgroup->path, 1, parent);
	return error_set(error, ENOTSUP,
			 "%s: the %s controller is not on in %s (%s); echo +%s > "
			 "%s/cgroup.subtree_control, or give --degraded",
			 kinds[limit].name, controller, cgroup->path,
			 strerror(r == -ENOTSUP ? ENOENT : -r), controller, parent);
}

static int controller_prepare(const struct host_cgroup *cgroup, enum host_limit limit, bool ours)
{
	char path[PATH_MAX];
	int r = 0;

	for (unsigned int n = ours ? 2 : 0; !r && n; n--) {
		path_above(cgroup->path, n, path);
		r = controller_enable(path, kinds[limit].controller);
	}
	if (!r && !controllers_have(cgroup->fd, "cgroup.controllers", kinds[limit].controller))
		r = -ENOTSUP;
	return r;
}

int host_limits_prepare(const struct host_cgroup *cgroup, const struct host_limits *limits,
			bool ours, unsigned int *ret_lacks, struct error *error)
{
	int first = 0;

	*ret_lacks = 0;
	for (enum host_limit limit = 0; limit < HOST_LIMIT_COUNT; limit++) {
		int r = host_limits_has(limits, limit) ? controller_prepare(cgroup, limit, ours)
						       : 0;

		if (!r)
			continue;
		*ret_lacks |= 1U << limit;
		if (!first)
			first = controller_lack(cgroup, limit, ours, r, error);
	}
	return first;
}

/* --- values ----------------------------------------------------------------------------------- */

static void value_wanted(const struct host_limits *limits, enum file file, char *text, size_t size)
{
	switch (file) {
	case FILE_CPU:
		snprintf(text, size, "%llu %llu", limits->cpu_milli * CPU_PERIOD_US / 1000,
			 CPU_PERIOD_US);
		break;
	case FILE_MEMORY:
		snprintf(text, size, "%llu", (unsigned long long)limits->memory_bytes);
		break;
	case FILE_SWAP:
		snprintf(text, size, "0");
		break;
	case FILE_OOM_GROUP:
		snprintf(text, size, "1");
		break;
	case FILE_PIDS:
		snprintf(text, size, "%u", limits->pids);
	}
}

/* A value as a number that can be compared: cpu.max as thousandths of a processor, "max" as the greatest. */
static double value_number(enum file file, const char *text)
{
	double quota, period = CPU_PERIOD_US;
	char *end;

	if (!strncmp(text, "max", 3))
		return 1e30;
	quota = strtod(text, &end);
	if (file != FILE_CPU)
		return quota;
	if (*end == ' ')
		period = strtod(end, NULL);
	return period > 0 ? quota / period : 0;
}

static bool value_is_tighter(enum file file, const char *a, const char *b)
{
	double x = value_number(file, a), y = value_number(file, b);

	return files[file].larger ? x > y : x < y;
}

/* Without swap in use on the host there need be no file that limits it. */
static bool host_swaps(void)
{
	char text[512] = "";

	return !file_read(AT_FDCWD, "/proc/swaps", text, sizeof(text)) && strchr(text, '\n');
}

/*
 * One file, from what was applied before to what the limits want, in one write: at no instant there is neither. What the file
 * would hold without us is what somebody else wrote last. ret_was: what it held, "" if it was not written.
 */
static int file_change(const struct host_cgroup *cgroup, enum file file,
		       const struct host_limits *limits, const struct host_limits_applied *had,
		       struct host_limits_applied *next, char ret_was[64], struct error *error)
{
	char now[64], value[64];
	const char *name = files[file].name, *without = now;
	bool wanted = host_limits_has(limits, files[file].limit);
	int r = file_read(cgroup->fd, name, now, sizeof(now));

	if (r && (!wanted || (r == -ENOENT && file == FILE_SWAP && !host_swaps())))
		return 0;
	if (!r && had->file[file].before[0] && !strcmp(now, had->file[file].now))
		without = had->file[file].before;
	value_wanted(limits, file, value, sizeof(value));
	if (!r && (!wanted || !value_is_tighter(file, value, without))) {
		snprintf(value, sizeof(value), "%s", without);
		wanted = false;
	}
	if (!r && strcmp(now, value) != 0) {
		r = file_write(cgroup->fd, name, value);
		snprintf(ret_was, sizeof(now), "%s", r ? "" : now);
	}
	if (!r && wanted)
		r = file_read(cgroup->fd, name, next->file[file].now, sizeof(next->file[file].now));
	if (r)
		return error_set(error, -r, "%s: cannot write %s to %s/%s: %s",
				 kinds[files[file].limit].name, value, cgroup->path, name,
				 strerror(-r));
	if (wanted)
		snprintf(next->file[file].before, sizeof(now), "%s", without);
	return 0;
}

int host_limits_change(const struct host_cgroup *cgroup, const struct host_limits *limits,
		       struct host_limits_applied *applied, struct error *error)
{
	char was[HOST_LIMIT_FILES][64] = { "" };
	struct host_limits_applied next = { 0 };
	int r = 0;

	for (enum file file = 0; !r && file < HOST_LIMIT_FILES; file++)
		r = file_change(cgroup, file, limits, applied, &next, was[file], error);
	if (!r) {
		*applied = next;
		return 0;
	}
	for (int file = HOST_LIMIT_FILES; file-- > 0;)
		if (was[file][0])
			file_write(cgroup->fd, files[file].name, was[file]);
	return r;
}

int host_limits_apply(const struct host_cgroup *cgroup, const struct host_limits *limits,
		      struct host_limits_applied *ret_applied, struct error *error)
{
	memset(ret_applied, 0, sizeof(*ret_applied));
	return host_limits_change(cgroup, limits, ret_applied, error);
}

void host_limits_restore(const struct host_cgroup *cgroup,
			 const struct host_limits_applied *applied)
{
	for (int file = HOST_LIMIT_FILES; file-- > 0;) {
		char now[64];

		if (!applied->file[file].before[0] ||
		    file_read(cgroup->fd, files[file].name, now, sizeof(now)) ||
		    strcmp(now, applied->file[file].now) != 0)
			continue;
		file_write(cgroup->fd, files[file].name, applied->file[file].before);
	}
}

/* --- what was reached ------------------------------------------------------------------------- */

const struct host_limit_told *host_limit_told(enum host_limit limit)
{
	static const struct host_limit_told told[HOST_LIMIT_COUNT] = {
		[HOST_LIMIT_CPU] = { CORDON_OP_CPU, CORDON_RULE_LIMIT_CPU, 60000,
				     "periods of 0.1 s in which tasks waited for processor time" },
		[HOST_LIMIT_MEMORY] = { CORDON_OP_MEMORY, CORDON_RULE_LIMIT_MEMORY, 0,
					"tasks were killed because memory did not suffice" },
		[HOST_LIMIT_PIDS] = { CORDON_OP_PIDS, CORDON_RULE_LIMIT_PIDS, 0,
				      "processes or threads were not made" },
	};

	return &told[limit];
}

/* The number behind "KEY " at the begin of a line; 0 where there is none. */
static uint64_t stat_value(const struct host_cgroup *cgroup, const char *file, const char *key)
{
	char text[2048], *state, *line;
	size_t n = strlen(key);

	if (file_read(cgroup->fd, file, text, sizeof(text)))
		return 0;
	for (line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
		if (!strncmp(line, key, n) && line[n] == ' ')
			return strtoull(line + n, NULL, 10);
	return 0;
}

void host_limits_count(const struct host_cgroup *cgroup, struct host_limits_reached *ret_reached)
{
	ret_reached->n[HOST_LIMIT_CPU] = stat_value(cgroup, "cpu.stat", "nr_throttled");
	ret_reached->n[HOST_LIMIT_MEMORY] = stat_value(cgroup, "memory.events", "oom_kill");
	ret_reached->n[HOST_LIMIT_PIDS] = stat_value(cgroup, "pids.events", "max");
}
