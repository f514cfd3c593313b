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

int enforce_run_make(const struct enforce_fence *fence, struct error *error)
{
	char path[PATH_SIZE];

	return file_make(run_path(path, "fence", fence->info.id), fence->cgroup->path,
			 strlen(fence->cgroup->path), true, error);
}

int enforce_run_take(uint64_t fence_id, char *ret_cgroup, size_t size)
{
	char path[PATH_SIZE];
	int fd = open(run_path(path, "fence", fence_id), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	ret_cgroup[0] = '\0';
	if (fd < 0)
		return -errno;
	n = pread(fd, ret_cgroup, size - 1, 0);
	ret_cgroup[n > 0 ? n : 0] = '\0';
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

void enforce_run_remove(uint64_t fence_id)
{
	static const char *const kinds[] = { "kept", "new", "fence" };
	char path[PATH_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		unlink(run_path(path, kinds[i], fence_id));
}
