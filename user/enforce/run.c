// SPDX-License-Identifier: Apache-2.0
/*
 * What user space remembers of each fence, in ENFORCE_RUN_DIR, which lives as long as the kernel's part: until the next boot.
 * fence-ID holds the path of the cgroup, and its owner keeps it locked (flock), so that a dead owner can be told from a
 * live one. kept-ID is the record of a fence that outlives its owner; it is written beside and renamed, so it is there as a
 * whole or not at all. Root only (0600 in a directory of mode 0700); names are never taken from anybody, links not followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "enforce/internal.h"

enum { PATH_SIZE = 128 };

static const char *run_path(char path[PATH_SIZE], const char *kind, uint64_t fence_id)
{
	snprintf(path, PATH_SIZE, ENFORCE_RUN_DIR "/%s-%llu", kind, (unsigned long long)fence_id);
	return path;
}

/* Writes a new file, locked when wanted. The descriptor, or -errno and nothing is left. */
static int file_make(const char *path, const void *data, size_t size, bool lock,
		     struct error *error)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600), err = 0;

	if (fd < 0)
		return error_set(error, errno, "cannot make %s: %s", path, strerror(errno));
	if (lock && flock(fd, LOCK_EX | LOCK_NB))
		err = errno;
	errno = ENOSPC; /* of a write that is short */
	if (!err && write(fd, data, size) != (ssize_t)size)
		err = errno;
	if (!err)
		return fd;
	close(fd);
	unlink(path);
	return error_set(error, err, "cannot write %s: %s", path, strerror(err));
}

/* The second from which ids of fences count, that of 2020: a mark holds 50 bits of them (bpf/identity.bpf.h). */
#define FENCE_EPOCH 1577836800LL

/* The time in microseconds; the last one lies in the lock's file, in case that the clock is set back. */
int enforce_run_id(uint64_t *ret_id, struct error *error)
{
	static const char path[] = ENFORCE_RUN_DIR "/lock";
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	uint64_t last = 0, id;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec > FENCE_EPOCH) /* not on a host whose clock was never set */
		now.tv_sec -= FENCE_EPOCH;
	id = now.tv_sec * 1000000ULL + now.tv_nsec / 1000;
	if (fd < 0 || pread(fd, &last, sizeof(last), 0) < 0)
		return error_set(error, errno, "cannot read %s: %s", path, strerror(errno));
	if (id <= last)
		id = last + 1;
	if (pwrite(fd, &id, sizeof(id), 0) != sizeof(id))
		return error_set(error, errno, "cannot write %s: %s", path, strerror(errno));
	*ret_id = id;
	return 0;
}

/*
 * cgroup-ID leads to "FENCE:SLOT:PATH": which fence has the cgroup, however far it was made or ended, and its path; without
 * that if it is long: then it stands in fence-ID. A short link lies in its inode, what stands in a file takes a page.
 */
static int cgroup_link(const struct enforce_fence *fence, bool *ret_whole, struct error *error)
{
	char path[PATH_SIZE], target[PATH_SIZE];
	int n, slot;

	run_path(path, "cgroup", fence->info.cgroup_id);
	slot = snprintf(target, sizeof(target), "%llu:%u", (unsigned long long)fence->info.id,
			fence->slot);
	n = snprintf(target + slot, sizeof(target) - (size_t)slot, ":%s", fence->cgroup->path);
	*ret_whole = n < (int)sizeof(target) - slot;
	if (!*ret_whole)
		target[slot] = '\0';
	if ((unlink(path) && errno != ENOENT) || symlink(target, path))
		return error_set(error, errno, "cannot make %s: %s", path, strerror(errno));
	return 0;
}

bool enforce_run_of_cgroup(uint64_t cgroup_id, uint64_t *ret_fence_id, uint32_t *ret_slot)
{
	char path[PATH_SIZE], target[PATH_SIZE], *end;
	ssize_t n = readlink(run_path(path, "cgroup", cgroup_id), target, sizeof(target) - 1);

	if (n <= 0)
		return false;
	target[n] = '\0';
	*ret_fence_id = strtoull(target, &end, 10);
	*ret_slot = *end == ':' ? strtoul(end + 1, NULL, 10) : UINT32_MAX;
	return true;
}

int enforce_run_make(const struct enforce_fence *fence, struct error *error)
{
	char path[PATH_SIZE];
	bool whole;
	int err = cgroup_link(fence, &whole, error);

	return err ? err
		   : file_make(run_path(path, "fence", fence->info.id), fence->cgroup->path,
			       whole ? 0 : strlen(fence->cgroup->path), true, error);
}

/* The path that cgroup-ID has, if it is that of the fence. */
static void cgroup_path(const struct cordon_fence *fence, char *ret_cgroup, size_t size)
{
	char path[PATH_SIZE], target[PATH_SIZE], *at;
	ssize_t n =
		readlink(run_path(path, "cgroup", fence->cgroup_id), target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = '\0';
	at = strchr(target, ':');
	at = at && strtoull(target, NULL, 10) == fence->id ? strchr(at + 1, ':') : NULL;
	snprintf(ret_cgroup, size, "%s", at ? at + 1 : "");
}

int enforce_run_take(const struct cordon_fence *fence, char *ret_cgroup, size_t size)
{
	char path[PATH_SIZE];
	int fd = open(run_path(path, "fence", fence->id), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	ret_cgroup[0] = '\0';
	if (fd < 0)
		return -errno;
	n = pread(fd, ret_cgroup, size - 1, 0);
	ret_cgroup[n > 0 ? n : 0] = '\0';
	if (n <= 0)
		cgroup_path(fence, ret_cgroup, size);
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		int err = errno == EWOULDBLOCK ? -EBUSY : -errno;

		close(fd);
		return err;
	}
	return fd;
}

bool enforce_run_kept(uint64_t fence_id)
{
	char path[PATH_SIZE];

	return !access(run_path(path, "kept", fence_id), F_OK);
}

int enforce_run_keep(uint64_t fence_id, const void *record, size_t size, struct error *error)
{
	char path[PATH_SIZE], new_path[PATH_SIZE];
	int fd;

	run_path(path, "kept", fence_id);
	run_path(new_path, "new", fence_id);
	if (unlink(new_path) && errno != ENOENT) /* of who died here */
		return error_set(error, errno, "cannot remove %s: %s", new_path, strerror(errno));
	fd = file_make(new_path, record, size, false, error);
	if (fd < 0)
		return fd;
	close(fd);
	if (rename(new_path, path))
		return error_set(error, errno, "cannot make %s: %s", path, strerror(errno));
	return 0;
}

int enforce_run_record(uint64_t fence_id, void **ret_record, size_t *ret_size, struct error *error)
{
	char path[PATH_SIZE];
	_cleanup_close_ int fd =
		open(run_path(path, "kept", fence_id), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_free_ char *record = NULL;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? error_set(error, ENODATA, "fence %016llx is not kept",
						   (unsigned long long)fence_id)
				       : error_set(error, errno, "cannot open %s: %s", path,
						   strerror(errno));
	record = malloc(ENFORCE_RECORD_MAX + 1);
	if (!record)
		return error_set(error, ENOMEM, "out of memory");
	n = read(fd, record, ENFORCE_RECORD_MAX + 1);
	if (n < 0 || n > ENFORCE_RECORD_MAX)
		return error_set(error, n < 0 ? errno : EFBIG, "cannot read %s: %s", path,
				 strerror(n < 0 ? errno : EFBIG));
	*ret_record = TAKE_PTR(record);
	*ret_size = n;
	return 0;
}

void enforce_run_remove(const struct cordon_fence *fence)
{
	static const char *const kinds[] = { "kept", "new", "fence" };
	char path[PATH_SIZE];
	uint64_t id;
	uint32_t slot;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		unlink(run_path(path, kinds[i], fence->id));
	if (enforce_run_of_cgroup(fence->cgroup_id, &id, &slot) && id == fence->id)
		unlink(run_path(path, "cgroup", fence->cgroup_id));
}
