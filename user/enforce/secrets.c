// SPDX-License-Identifier: Apache-2.0
/*
 * Where the places of the rule set `secrets` are, seen from a root directory: the homes that there are, and below each
 * what exists of the table. Root. What cannot be told is an error, never left out: a fence that would miss a place is not made.
 *
 * Homes are /root, what is in /home, those of passwd(5), and HOME of the process that the fence is made around. passwd and
 * environment may be somebody else's text, so no privileged process parses them: a child does that has no descriptor and
 * no system call left but the one that ends it, and answers in memory that is read after its death.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "enforce/internal.h"
#include "policy/secrets.h"

#define PASSWD_MAX (1024 * 1024)
#define ENVIRON_MAX (128 * 1024)

#define REMEDY "; or go without the rule set: files.read.without: [secrets]"

/* What the child reads and writes. */
struct scratch {
	size_t passwd_size, environment_size, homes_size;
	char passwd[PASSWD_MAX + 1], environment[ENVIRON_MAX];
	char homes[POLICY_HOMES_SIZE];
};

struct homes {
	char **v; /* owned, sorted, each once */
	size_t n;
};

static void homes_clear(struct homes *homes)
{
	for (size_t i = 0; i < homes->n; i++)
		free(homes->v[i]);
	free(homes->v);
}

static int home_add(struct homes *homes, const char *path, struct error *error)
{
	if (homes->n == POLICY_HOMES_MAX)
		return error_set(error, E2BIG, "more than %d homes" REMEDY, POLICY_HOMES_MAX);
	homes->v[homes->n] = strdup(path);
	return homes->v[homes->n++] ? 0 : error_set(error, ENOMEM, "out of memory");
}

/* A whole file of at most size bytes, into memory. Returns how many, 0 when there is none; more are -E2BIG. */
static ssize_t file_take(int fd, const char *name, char *to, size_t size, struct error *error)
{
	size_t have = 0;
	ssize_t got;

	while (have < size && (got = read(fd, to + have, size - have))) {
		if (got < 0)
			return error_set(error, errno, "%s: %s" REMEDY, name, strerror(errno));
		have += (size_t)got;
	}
	return (ssize_t)have;
}

static int passwd_take(int root_fd, struct scratch *scratch, struct error *error)
{
	static const char *const name = "/etc/passwd";
	_cleanup_close_ int place = enforce_open_in_root(root_fd, name, 0), fd = -1;
	char link[64];
	struct stat st;
	ssize_t n;

	if (place < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : error_set(error, errno, "%s: %s" REMEDY, name, strerror(errno));
	/* A pipe or device of somebody's making would be waited for. */
	if (fstat(place, &st) || !S_ISREG(st.st_mode))
		return error_set(error, EINVAL, "%s is no regular file" REMEDY, name);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", place);
	fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return error_set(error, errno, "%s: %s" REMEDY, name, strerror(errno));
	n = file_take(fd, name, scratch->passwd, sizeof(scratch->passwd), error);
	if (n > PASSWD_MAX)
		return error_set(error, E2BIG, "%s is longer than %d bytes" REMEDY, name,
				 PASSWD_MAX);
	scratch->passwd_size = n < 0 ? 0 : (size_t)n;
	return n < 0 ? (int)n : 0;
}

/* Of a process that has ended there is none; of a long one the beginning is taken, which the kernel fills first. */
static void environment_take(pid_t pid, struct scratch *scratch)
{
	_cleanup_close_ int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	n = fd < 0 ? 0
		   : file_take(fd, path, scratch->environment, sizeof(scratch->environment), NULL);
	scratch->environment_size = n < 0 ? 0 : (size_t)n;
}

/* In the child. Strict seccomp leaves read, write and exit, and there is no descriptor. */
static void homes_parse(struct scratch *scratch)
{
	if (close_range(0, ~0U, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		_exit(1);
	scratch->homes_size = policy_homes_read(scratch->passwd, scratch->passwd_size,
						scratch->environment, scratch->environment_size,
						scratch->homes, sizeof(scratch->homes));
	syscall(SYS_exit, 0);
}

/* What the child left: texts with an end, or nothing is believed. */
static int homes_take(const struct scratch *scratch, struct homes *homes, struct error *error)
{
	size_t size = scratch->homes_size;
	int err = 0;

	if (size > sizeof(scratch->homes))
		return error_set(error, E2BIG, "more homes in /etc/passwd than fit %d bytes" REMEDY,
				 POLICY_HOMES_SIZE);
	if (size && scratch->homes[size - 1])
		return error_set(error, EBADMSG, "/etc/passwd cannot be read" REMEDY);
	for (const char *p = scratch->homes; !err && p < scratch->homes + size; p += strlen(p) + 1)
		if (p[0] == '/')
			err = home_add(homes, p, error);
	return err;
}

static int homes_of_texts(int root_fd, pid_t pid, struct homes *homes, struct error *error)
{
	struct scratch *scratch = mmap(NULL, sizeof(*scratch), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct clone_args alone = {
		0
	}; /* no signal at its end, so nobody else's rules for children hold */
	int status, err;
	pid_t child;

	if (scratch == MAP_FAILED)
		return error_set(error, ENOMEM, "out of memory");
	err = passwd_take(root_fd, scratch, error);
	if (!err)
		environment_take(pid, scratch);
	child = err ? -1 : (pid_t)syscall(SYS_clone3, &alone, sizeof(alone));
	if (!child)
		homes_parse(scratch);
	if (!err && (child < 0 || waitpid(child, &status, __WALL) < 0 || status))
		err = error_set(error, ECHILD, "who reads /etc/passwd did not end well" REMEDY);
	if (!err)
		err = homes_take(scratch, homes, error);
	munmap(scratch, sizeof(*scratch));
	return err;
}

static int homes_of_directory(int root_fd, struct homes *homes, struct error *error)
{
	_cleanup_close_ int fd = enforce_open_in_root(root_fd, "/home", 0);
	int listed = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	struct dirent *entry;
	DIR *d;

	if (listed < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : error_set(error, errno, "/home: %s" REMEDY, strerror(errno));
	d = fdopendir(listed);
	if (!d) {
		close(listed);
		return error_set(error, ENOMEM, "out of memory");
	}
	while (!err && (entry = readdir(d))) {
		char path[sizeof("/home/") + NAME_MAX];

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		snprintf(path, sizeof(path), "/home/%s", entry->d_name);
		err = home_add(homes, path, error);
	}
	closedir(d);
	return err;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int homes_find(int root_fd, pid_t pid, struct homes *homes, struct error *error)
{
	size_t kept = 0;
	int err;

	homes->v = calloc(POLICY_HOMES_MAX, sizeof(*homes->v));
	err = homes->v ? home_add(homes, "/root", error)
		       : error_set(error, ENOMEM, "out of memory");
	if (!err)
		err = homes_of_directory(root_fd, homes, error);
	if (!err)
		err = homes_of_texts(root_fd, pid, homes, error);
	if (err)
		return err;
	qsort(homes->v, homes->n, sizeof(*homes->v), by_text);
	for (size_t i = 0; i < homes->n; i++)
		if (kept && !strcmp(homes->v[kept - 1], homes->v[i]))
			free(homes->v[i]);
		else
			homes->v[kept++] = homes->v[i];
	homes->n = kept;
	return 0;
}

/* --- places ------------------------------------------------------------------------------------------------- */

struct search {
	int root_fd;
	uint32_t groups;
	enforce_secret_fn *fn;
	void *context;
	struct error *error;
};

/* Nothing is there, or nothing that a path leads to. */
static bool is_absent(int err)
{
	return err == ENOENT || err == ENOTDIR || err == ELOOP || err == ENAMETOOLONG;
}

/* fd: taken over; if negative, err says why. */
static int place_found(const struct search *search, const char *path,
		       enum policy_secret_group group, int fd, int err)
{
	if (fd >= 0)
		return search->fn(search->context, path, group, fd, search->error);
	return is_absent(err) ? 0
			      : error_set(search->error, err,
					  "%s: %s; it belongs to the rule set secrets: "
					  "files.read.without: [secrets.%s] goes without it",
					  path, strerror(err), policy_secret_group_name(group));
}

/*
 * A place below a home. Who has a home can make a link in it that leads anywhere, and would shut other people's fences out of
 * /usr: what a link leads to is his only if it belongs to whom the home does.
 */
static int home_place(const struct search *search, int home_fd, const char *home,
		      const struct policy_secret_place *place)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	_cleanup_close_ int fd = (int)syscall(SYS_openat2, home_fd, place->path, &how, sizeof(how));
	char path[PATH_MAX];
	struct stat st, owner;

	int err = fd < 0 ? errno : 0;

	if (err == ENOENT || err == ENOTDIR)
		return 0;
	snprintf(path, sizeof(path), "%s/%s", home, place->path);
	if (err == ELOOP) {
		fd = enforce_open_in_root(search->root_fd, path, 0);
		err = fd < 0 ? errno : 0;
		if (fd >= 0 &&
		    (fstat(fd, &st) || fstat(home_fd, &owner) || st.st_uid != owner.st_uid))
			return 0;
	}
	return place_found(search, path, place->group, TAKE_FD(fd), err);
}

static int home_search(const struct search *search, const char *home)
{
	_cleanup_close_ int home_fd = enforce_open_in_root(search->root_fd, home, 0);
	int err = 0;

	if (home_fd < 0)
		return is_absent(errno) ? 0
					: error_set(search->error, errno, "%s: %s" REMEDY, home,
						    strerror(errno));
	for (size_t i = 0; !err && i < policy_secret_places_n; i++)
		if (policy_secret_places[i].home &&
		    search->groups & 1U << policy_secret_places[i].group)
			err = home_place(search, home_fd, home, &policy_secret_places[i]);
	return err;
}

int enforce_secrets_find(int root_fd, pid_t pid, uint32_t groups, enforce_secret_fn *fn,
			 void *context, struct error *error)
{
	const struct search search = { root_fd, groups, fn, context, error };
	struct homes homes = { .n = 0 };
	int err = 0;

	for (size_t i = 0; !err && i < policy_secret_places_n; i++) {
		const struct policy_secret_place *place = &policy_secret_places[i];
		int fd;

		if (place->home || !(groups & 1U << place->group))
			continue;
		fd = enforce_open_in_root(root_fd, place->path, 0);
		err = place_found(&search, place->path, place->group, fd, fd < 0 ? errno : 0);
	}
	if (!err && groups)
		err = homes_find(root_fd, pid, &homes, error);
	for (size_t i = 0; !err && i < homes.n; i++)
		err = home_search(&search, homes.v[i]);
	homes_clear(&homes);
	return err;
}
