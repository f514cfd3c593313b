// SPDX-License-Identifier: Apache-2.0
/* See place.h. Fails closed: what cannot be looked at is not written to. */
#include "sink/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

/* One directory on the way, or the last. */
static int directory_check(int fd, const char *path, bool last, struct error *error)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(error, errno, "%s: %s", path, strerror(errno));
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return error_set(
			error, EPERM,
			"%s: belongs to user %u, who could replace what lies there; chown it to "
			"root or to user %u",
			path, st.st_uid, geteuid());
	if ((st.st_mode & 022) && (last || !(st.st_mode & S_ISVTX)))
		return error_set(error, EPERM,
				 "%s: mode %04o lets others replace what lies there; chmod go-w it",
				 path, st.st_mode & 07777);
	return 0;
}

/* Goes down the components of real, an absolute path without symbolic links. */
static int directory_walk(const char *real, struct error *error)
{
	int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), r = 0;
	char at[PATH_MAX] = "";

	if (fd < 0)
		return error_set(error, errno, "/: %s", strerror(errno));
	while (r == 0) {
		size_t n = strcspn(real += strspn(real, "/"), "/"), used = strlen(at);
		char name[NAME_MAX + 1];
		int next;

		r = directory_check(fd, used ? at : "/", !n, error);
		if (r < 0 || !n)
			break;
		if (n > NAME_MAX || used + n + 2 > sizeof(at)) {
			r = error_set(error, ENAMETOOLONG, "%s: %s", real, strerror(ENAMETOOLONG));
			break;
		}
		memcpy(name, real, n);
		name[n] = '\0';
		at[used] = '/';
		memcpy(at + used + 1, name, n + 1);
		next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0) {
			r = error_set(error, errno, "%s: %s", at, strerror(errno));
			break;
		}
		close(fd);
		fd = next;
		real += n;
	}
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

int place_open(const char *path, const char **ret_name, struct error *error)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *directory = NULL, *real = NULL;

	if (path[0] != '/' || !slash[1])
		return error_set(error, EINVAL, "%s: not the absolute path of a file", path);
	directory = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	if (!directory)
		return error_set(error, ENOMEM, "out of memory");
	real = realpath(directory, NULL);
	if (!real)
		return error_set(error, errno, "%s: %s; `install -d -m 0750` makes a directory",
				 directory, strerror(errno));
	*ret_name = slash + 1;
	return directory_walk(real, error);
}

int place_check_file(const struct stat *st, const char *path, struct error *error)
{
	if (S_ISLNK(st->st_mode))
		return error_set(error, ELOOP, "%s: a symbolic link; none is followed here", path);
	if (!S_ISREG(st->st_mode))
		return error_set(error, EINVAL, "%s: not a regular file", path);
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return error_set(error, EPERM, "%s: belongs to user %u, not to root or user %u",
				 path, st->st_uid, geteuid());
	if (st->st_nlink != 1)
		return error_set(error, EMLINK, "%s: has %lu names; it must have one", path,
				 (unsigned long)st->st_nlink);
	if (st->st_mode & 022)
		return error_set(error, EPERM, "%s: mode %04o lets others write; chmod go-w it",
				 path, st->st_mode & 07777);
	return 0;
}
