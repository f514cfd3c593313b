// SPDX-License-Identifier: Apache-2.0
/*
 * The tasks of an open cgroup: are there any, freeze, kill, and remove what is left. See host.h.
 *
 * Privilege: write access to the cgroup. Works on the descriptor, so that a rename or a new mount
 * above it changes nothing. Every wait and every walk is bounded; when a bound is hit the call
 * fails and says so, and a cgroup that would not freeze is thawed again rather than left to hang.
 */
#include "host/host.h"
#include "host/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define CGROUP_WALK_DEPTH 64  /* levels below a cgroup that are removed or killed */
#define CGROUP_WALK_MAX 65536 /* cgroups below a cgroup */
#define CGROUP_POLL_MS 50     /* a lost notification costs no more than this */
#define CGROUP_BUSY_TRIES 100 /* rmdir of an empty cgroup, 10 ms apart */
#define CGROUP_LEAVE_TRIES 20 /* of these for one that tasks seem to be in */

/* --- state ------------------------------------------------------------------------------------ */

static int cgroup_write(int dir, const char *name, const char *text)
{
	_cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* Value of "KEY N" in cgroup.events, which fd is open on. */
static int events_value(int fd, const char *key)
{
	char text[256], *state, *line;
	size_t n = strlen(key);
	ssize_t r = pread(fd, text, sizeof(text) - 1, 0);

	if (r < 0)
		return -errno;
	text[r] = '\0';
	for (line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
		if (!strncmp(line, key, n) && line[n] == ' ')
			return line[n + 1] == '1';
	return -EBADMSG;
}

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/*
 * Waits until KEY in cgroup.events is want. A cgroup that was removed (-ENODEV) is up to the
 * caller.
 */
static int events_wait(const struct host_cgroup *cgroup, const char *key, int want,
		       unsigned int timeout_ms)
{
	_cleanup_close_ int fd = openat(cgroup->fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	long left, end = now_ms() + timeout_ms;
	struct pollfd poll_fd = { .fd = fd, .events = POLLPRI };
	int r;

	if (fd < 0)
		return -errno;
	for (;;) {
		r = events_value(fd, key);
		if (r < 0 || r == want)
			return r < 0 ? r : 0;
		left = end - now_ms();
		if (left <= 0)
			return -ETIMEDOUT;
		poll(&poll_fd, 1, left < CGROUP_POLL_MS ? (int)left : CGROUP_POLL_MS);
	}
}

static bool is_gone(int r)
{
	return r == -ENODEV || r == -ENOENT;
}

static int cgroup_is(const struct host_cgroup *cgroup, const char *key)
{
	_cleanup_close_ int fd = openat(cgroup->fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : events_value(fd, key);

	return is_gone(r) ? 0 : r;
}

int host_cgroup_populated(const struct host_cgroup *cgroup)
{
	return cgroup_is(cgroup, "populated");
}

int host_cgroup_frozen(const struct host_cgroup *cgroup)
{
	return cgroup_is(cgroup, "frozen");
}

bool host_cgroup_gone(const struct host_cgroup *cgroup)
{
	_cleanup_close_ int fd = openat(cgroup->fd, "cgroup.events", O_RDONLY | O_CLOEXEC);

	return is_gone(fd < 0 ? -errno : events_value(fd, "populated"));
}

/* Freezing or killing the cgroup that we are in would end in the middle. */
static int refuse_own(const struct host_cgroup *cgroup, const char *what, struct error *error)
{
	char own[PATH_MAX];

	if (host_cgroup_of_pid(getpid(), own, sizeof(own), NULL) < 0 ||
	    !host_path_below(own, cgroup->path))
		return 0;
	return error_set(error, EDEADLK, "cannot %s %s: this process is in it", what, cgroup->path);
}

int host_cgroup_freeze(const struct host_cgroup *cgroup, bool freeze, unsigned int timeout_ms,
		       struct error *error)
{
	const char *what = freeze ? "freeze" : "thaw";
	int r = freeze ? refuse_own(cgroup, what, error) : 0;

	if (r < 0)
		return r;
	r = cgroup_write(cgroup->fd, "cgroup.freeze", freeze ? "1" : "0");
	if (r < 0)
		return error_set(error, -r, "cannot %s %s: %s", what, cgroup->path, strerror(-r));
	r = events_wait(cgroup, "frozen", freeze, timeout_ms);
	if (!r)
		return 0;
	if (freeze) /* half-frozen tasks would hang for good */
		cgroup_write(cgroup->fd, "cgroup.freeze", "0");
	return error_set(error, -r, "cannot %s %s within %u ms: %s%s", what, cgroup->path,
			 timeout_ms, strerror(-r),
			 freeze ? " (a task does not stop; thawed again)"
				: " (a cgroup above it is frozen?)");
}

/* --- walking: killing one by one, removing ---------------------------------------------------- */

struct walk {
	int (*visit)(struct walk *walk, int parent, const char *name,
		     int dir); /* after all below; dir is this cgroup */
	unsigned int left;     /* cgroups that may still be visited */
};

static int walk_below(struct walk *walk, int dir, unsigned int depth);

/* One entry of a directory: not a cgroup is 0. */
static int walk_entry(struct walk *walk, int dir, const struct dirent *entry, unsigned int depth)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (entry->d_type != DT_DIR || !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
		return 0;
	if (!depth || !walk->left--)
		return -ELOOP;
	fd = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = walk_below(walk, fd, depth - 1);
	return r < 0 ? r : walk->visit(walk, dir, entry->d_name, fd);
}

/*
 * Visits all cgroups below dir, the deepest first; goes on after a failure and returns the first.
 */
static int walk_below(struct walk *walk, int dir, unsigned int depth)
{
	int r, first = 0, fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!stream) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return is_gone(r) ? 0 : r;
	}
	while ((entry = readdir(stream))) {
		r = walk_entry(walk, dir, entry, depth);
		if (r < 0 && !first)
			first = r;
	}
	closedir(stream);
	return first;
}

/*
 * SIGKILL to every thread listed: cgroup.threads exists in threaded cgroups too, where cgroup.procs
 * does not read.
 */
static int visit_kill(struct walk *walk, int parent, const char *name, int dir)
{
	int fd = openat(dir, "cgroup.threads", O_RDONLY | O_CLOEXEC);
	_cleanup_fclose_ FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	int tid;

	(void)walk, (void)parent, (void)name;
	while (file && fscanf(file, "%d", &tid) == 1)
		if (tid > 1 && tid != getpid())
			kill(tid, SIGKILL);
	return 0;
}

/* 0, or the first process other than pid; seen: pid is there. -errno when it cannot be read. */
static int procs_other(int dir, pid_t pid, bool *seen)
{
	int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC), found;
	_cleanup_fclose_ FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (!file)
		return -errno;
	while (fscanf(file, "%d", &found) == 1) { /* 0: of another name space of processes */
		if (found != pid)
			return found ? found : INT_MAX;
		*seen = true;
	}
	return ferror(file) ? -EIO : 0;
}

struct only {
	struct walk walk;
	pid_t pid;
	pid_t other; /* one that was found */
	bool seen;
};

static int visit_only(struct walk *walk, int parent, const char *name, int dir)
{
	struct only *only = (struct only *)walk;
	int other = procs_other(dir, only->pid, &only->seen);

	(void)parent, (void)name;
	if (other <= 0)
		return other;
	only->other = other;
	return -EBUSY;
}

int host_cgroup_only(const struct host_cgroup *cgroup, pid_t pid, struct error *error)
{
	struct only only = { .walk = { .visit = visit_only, .left = CGROUP_WALK_MAX }, .pid = pid };
	int r = visit_only(&only.walk, -1, "", cgroup->fd);

	if (!r)
		r = walk_below(&only.walk, cgroup->fd, CGROUP_WALK_DEPTH);
	if (r == -EBUSY && only.other)
		return error_set(error, EBUSY,
				 "process %d is in %s besides the container's init %d: a container "
				 "needs a cgroup of its own",
				 only.other, cgroup->path, pid);
	if (r)
		return error_set(error, -r, "who is in %s: %s", cgroup->path, strerror(-r));
	if (!only.seen)
		return error_set(error, ESRCH, "process %d is not in %s any more", pid,
				 cgroup->path);
	return 0;
}

/*
 * Without cgroup.kill (before 5.14, or a threaded cgroup): frozen, so that none forks ahead of us,
 * and again.
 */
static int kill_each(const struct host_cgroup *cgroup, unsigned int timeout_ms)
{
	long end = now_ms() + timeout_ms;
	struct walk walk = { .visit = visit_kill };
	int r;

	cgroup_write(cgroup->fd, "cgroup.freeze", "1");
	do {
		walk.left = CGROUP_WALK_MAX;
		walk_below(&walk, cgroup->fd, CGROUP_WALK_DEPTH);
		visit_kill(&walk, -1, "", cgroup->fd);
		r = events_wait(cgroup, "populated", 0, CGROUP_POLL_MS);
	} while (r == -ETIMEDOUT && now_ms() < end);
	cgroup_write(cgroup->fd, "cgroup.freeze", "0");
	return r;
}

int host_cgroup_kill(const struct host_cgroup *cgroup, unsigned int timeout_ms, struct error *error)
{
	int r = refuse_own(cgroup, "kill", error);

	if (r < 0)
		return r;
	r = cgroup_write(cgroup->fd, "cgroup.kill", "1");
	if (!r)
		r = events_wait(cgroup, "populated", 0, timeout_ms);
	else if (host_cgroup_populated(cgroup) == 0)
		r = 0;
	else
		r = kill_each(cgroup, timeout_ms);
	if (!r || is_gone(r))
		return 0;
	return error_set(error, -r, "cannot kill all of %s within %u ms: %s%s", cgroup->path,
			 timeout_ms, strerror(-r),
			 r == -ETIMEDOUT ? " (a task hangs in the kernel; see ps -o pid,wchan)"
					 : "");
}

/*
 * rmdir of a cgroup that lately held tasks may be busy for a moment, and a task that was reaped may
 * still count as in it (since 6.19 it leaves after its last switch).
 */
static int remove_dir(struct walk *walk, int parent, const char *name, int dir)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000000 };
	const struct host_cgroup cgroup = { .fd = dir };
	int i;

	(void)walk;
	for (i = 0; i < CGROUP_BUSY_TRIES; i++) {
		if (!unlinkat(parent, name, AT_REMOVEDIR) || errno == ENOENT)
			return 0;
		if (errno != EBUSY)
			return -errno;
		if (i >= CGROUP_LEAVE_TRIES && host_cgroup_populated(&cgroup) != 0)
			break;
		nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

/* The path is looked up again: it must still be the cgroup that was opened. */
static int remove_self(const struct host_cgroup *cgroup)
{
	_cleanup_close_ int fd = open(cgroup->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t id;
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = host_cgroup_fd_id(fd, &id);
	if (r < 0 || id != cgroup->id)
		return r;
	return remove_dir(NULL, AT_FDCWD, cgroup->path, cgroup->fd);
}

/*
 * After the last fence of MOUNT/cordon the directory goes too; with others in it this fails, as it
 * should.
 */
static void remove_parent(const char *path)
{
	char parent[PATH_MAX];
	char *slash;

	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (!slash)
		return;
	*slash = '\0';
	slash = strrchr(parent, '/');
	if (slash && !strcmp(slash, "/" HOST_CGROUP_DIR))
		rmdir(parent);
}

/* A zeroed one is not open on descriptor 0. */
static bool is_open(const struct host_cgroup *cgroup)
{
	return cgroup->fd >= 0 && cgroup->path;
}

int host_cgroup_remove(struct host_cgroup *cgroup, struct error *error)
{
	struct walk walk = { .visit = remove_dir, .left = CGROUP_WALK_MAX };
	int r;

	if (!is_open(cgroup))
		return 0;
	r = walk_below(&walk, cgroup->fd, CGROUP_WALK_DEPTH);
	if (!r)
		r = remove_self(cgroup);
	if (r < 0)
		return error_set(error, -r, "cannot remove cgroup %s: %s", cgroup->path,
				 r == -EBUSY ? "there are tasks in it" : strerror(-r));
	remove_parent(cgroup->path);
	host_cgroup_close(cgroup);
	return 0;
}

void host_cgroup_close(struct host_cgroup *cgroup)
{
	if (is_open(cgroup))
		close(cgroup->fd);
	cgroup->fd = -1;
	free(TAKE_PTR(cgroup->path));
}
