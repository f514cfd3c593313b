// SPDX-License-Identifier: Apache-2.0
/*
 * Control groups (v2): finds the mount, makes and opens cgroups, finds that of a process. See
 * host.h; what is done with an open one is in cgroup_tasks.c.
 *
 * Privilege: making needs write access to the cgroup2 tree, the rest none. When it is in doubt
 * which cgroup is meant (private cgroup namespace, a cgroup that is gone, the root), the call fails
 * and nothing is fenced by mistake.
 */
#include "host/host.h"
#include "host/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Inode number of the initial cgroup namespace: fixed in the kernel. */
#define CGROUP_NS_INIT 0xEFFFFFFBu

/* --- finding ---------------------------------------------------------------------------------- */

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* Undoes the octal escapes of mountinfo (space, tab, newline, backslash) in place. */
static void mountinfo_unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (text[0] == '\\' && is_octal(text[1]) && is_octal(text[2]) &&
		    is_octal(text[3])) {
			*to++ = (char)((text[1] & 3) << 6 | (text[2] & 7) << 3 | (text[3] & 7));
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

bool host_mountinfo_split(char *line, char **ret_root, char **ret_point, char **ret_type)
{
	char *state, *field, *type = strstr(line, " - ");
	int i;

	if (!type)
		return false;
	*type = '\0';
	*ret_type = strtok_r(type + 3, " ", &state);
	field = strtok_r(line, " ", &state);
	for (i = 0; field && i < 3; i++)
		field = strtok_r(NULL, " ", &state);
	*ret_root = field;
	*ret_point = field ? strtok_r(NULL, " ", &state) : NULL;
	if (!*ret_type || !*ret_point)
		return false;
	mountinfo_unescape(*ret_root);
	mountinfo_unescape(*ret_point);
	return true;
}

enum host_cgroup_layout host_cgroup_find(char *ret_mount)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/mountinfo", "re");
	_cleanup_free_ char *line = NULL;
	bool v1 = false, v2 = false;
	char *root, *point, *type;
	size_t size = 0;

	while (file && getline(&line, &size, file) > 0) {
		if (!host_mountinfo_split(line, &root, &point, &type))
			continue;
		if (!strcmp(type, "cgroup"))
			v1 = true;
		/*
		 * A mount of a subtree is no hierarchy; of several whole ones the first is the
		 * usual one.
		 */
		if (strcmp(type, "cgroup2") || strcmp(root, "/") || v2 || strlen(point) >= PATH_MAX)
			continue;
		v2 = true;
		strcpy(ret_mount, point);
	}
	if (v2)
		return v1 ? HOST_CGROUP_HYBRID : HOST_CGROUP_V2;
	return v1 ? HOST_CGROUP_V1_ONLY : HOST_CGROUP_NONE;
}

bool host_cgroup_private_namespace(void)
{
	struct stat st;

	return !stat("/proc/self/ns/cgroup", &st) && st.st_ino != CGROUP_NS_INIT;
}

/* The mount, or why there is none that ids and levels can be trusted in. */
static int cgroup_mount(char *ret_mount, struct error *error)
{
	switch (host_cgroup_find(ret_mount)) {
	case HOST_CGROUP_V2:
	case HOST_CGROUP_HYBRID:
		break;
	case HOST_CGROUP_V1_ONLY:
		return error_set(
			error, ENOTSUP,
			"only cgroup v1 is mounted; boot with systemd.unified_cgroup_hierarchy=1");
	default:
		return error_set(error, ENOTSUP,
				 "no cgroup2 mount; mount -t cgroup2 cgroup2 /sys/fs/cgroup");
	}
	if (host_cgroup_private_namespace())
		return error_set(
			error, ENOTSUP,
			"this process is in a private cgroup namespace and cannot see the host's "
			"cgroups; start it with --cgroupns=host, or nsenter --cgroup --target 1");
	return 0;
}

/* --- making and opening ----------------------------------------------------------------------- */

static bool name_is_valid(const char *name)
{
	return name[0] && name[0] != '.' && !strchr(name, '/') && !strchr(name, '\n') &&
	       strlen(name) <= NAME_MAX;
}

/*
 * cgroup ids are the 64-bit inode numbers of kernfs, which are its file handles; st_ino is short on
 * 32-bit.
 */
int host_cgroup_fd_id(int fd, uint64_t *ret_id)
{
	union {
		struct file_handle handle;
		char space[sizeof(struct file_handle) + sizeof(uint64_t)];
	} u = { .handle.handle_bytes = sizeof(uint64_t) };
	int mount_id;

	if (name_to_handle_at(fd, "", &u.handle, &mount_id, AT_EMPTY_PATH))
		return -errno;
	if (u.handle.handle_bytes != sizeof(uint64_t))
		return -EBADMSG;
	memcpy(ret_id, u.handle.f_handle, sizeof(*ret_id));
	return 0;
}

/* Number of directories from the mount to path; path begins with mount. */
static uint32_t cgroup_level(const char *mount, const char *path)
{
	const char *p = path + strlen(mount);
	uint32_t level = 0;

	for (; *p; p++)
		level += p[0] == '/' && p[1] && p[1] != '/';
	return level;
}

bool host_path_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	while (n > 1 && top[n - 1] == '/')
		n--;
	return !strncmp(path, top, n) && (path[n] == '/' || path[n] == '\0' || n == 1);
}

/* path is canonical and below mount. */
static int cgroup_open_at(const char *mount, const char *path, struct host_cgroup *ret_cgroup,
			  struct error *error)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct statfs fs;
	int r;

	if (fd < 0)
		return error_set(error, errno, "%s: %s", path, strerror(errno));
	if (fstatfs(fd, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC)
		return error_set(error, EINVAL, "%s is not a cgroup v2 directory (below %s)", path,
				 mount);
	r = host_cgroup_fd_id(fd, &ret_cgroup->id);
	if (r < 0)
		return error_set(error, -r, "cgroup id of %s: %s", path, strerror(-r));
	ret_cgroup->path = strdup(path);
	if (!ret_cgroup->path)
		return error_set(error, ENOMEM, "out of memory");
	ret_cgroup->level = cgroup_level(mount, path);
	ret_cgroup->fd = TAKE_FD(fd);
	return 0;
}

/* MOUNT/cordon may be removed under our hands by the end of another fence: make both again. */
static int cgroup_make_dirs(const char *path)
{
	char parent[PATH_MAX];
	int tries;

	strcpy(parent, path);
	*strrchr(parent, '/') = '\0';
	for (tries = 0; tries < 10; tries++) {
		if (mkdir(parent, 0755) && errno != EEXIST)
			return -errno;
		if (!mkdir(path, 0755))
			return 0;
		if (errno != ENOENT)
			return -errno;
	}
	return -ENOENT;
}

int host_cgroup_make(const char *name, struct host_cgroup *ret_cgroup, struct error *error)
{
	char mount[PATH_MAX], path[PATH_MAX];
	int r;

	memset(ret_cgroup, 0, sizeof(*ret_cgroup));
	ret_cgroup->fd = -1;
	if (!name_is_valid(name))
		return error_set(error, EINVAL, "'%s' cannot name a cgroup", name);
	r = cgroup_mount(mount, error);
	if (r < 0)
		return r;
	if (snprintf(path, sizeof(path), "%s/" HOST_CGROUP_DIR "/%s", mount, name) >=
	    (int)sizeof(path))
		return error_set(error, ENAMETOOLONG, "cgroup path below %s is too long", mount);
	r = cgroup_make_dirs(path);
	if (r < 0)
		return error_set(error, -r, "cannot make cgroup %s: %s", path, strerror(-r));
	r = cgroup_open_at(mount, path, ret_cgroup, error);
	if (r < 0)
		rmdir(path);
	return r;
}

/* Accepts a path of the file system, or one as in /proc/PID/cgroup (below the mount). */
static int cgroup_resolve(const char *mount, const char *path, char *ret_path, struct error *error)
{
	char below[PATH_MAX];
	int r;

	if (realpath(path, ret_path))
		return 0;
	r = errno;
	if (path[0] == '/' &&
	    snprintf(below, sizeof(below), "%s%s", mount, path) < (int)sizeof(below) &&
	    realpath(below, ret_path))
		return 0;
	return error_set(error, r, "cgroup %s: %s", path, strerror(r));
}

int host_cgroup_open(const char *path, struct host_cgroup *ret_cgroup, struct error *error)
{
	char mount[PATH_MAX], real[PATH_MAX];
	int r;

	memset(ret_cgroup, 0, sizeof(*ret_cgroup));
	ret_cgroup->fd = -1;
	r = cgroup_mount(mount, error);
	if (r < 0)
		return r;
	r = cgroup_resolve(mount, path, real, error);
	if (r < 0)
		return r;
	if (!host_path_below(real, mount))
		return error_set(error, EINVAL, "%s is not a cgroup v2 directory (below %s)", real,
				 mount);
	if (cgroup_level(mount, real) == 0)
		return error_set(error, EPERM,
				 "%s is the root of the hierarchy: a fence there would hold the "
				 "host; name a cgroup below it",
				 real);
	return cgroup_open_at(mount, real, ret_cgroup, error);
}

/* Cuts "0::/path" out of /proc/PID/cgroup. */
static int cgroup_line_of_pid(pid_t pid, char **ret_line, struct error *error)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	char name[32];

	snprintf(name, sizeof(name), "/proc/%d/cgroup", pid);
	file = fopen(name, "re");
	if (!file)
		return error_set(error, errno == ENOENT ? ESRCH : errno, "process %d: %s", pid,
				 errno == ENOENT ? "no such process" : strerror(errno));
	while (getline(&line, &size, file) > 0) {
		if (strncmp(line, "0::/", 4))
			continue;
		line[strcspn(line, "\n")] = '\0';
		*ret_line = TAKE_PTR(line);
		return 0;
	}
	return error_set(error, ENOTSUP,
			 "process %d is in no cgroup v2; boot with cgroup v2 mounted", pid);
}

int host_cgroup_of_pid(pid_t pid, char *ret_path, size_t size, struct error *error)
{
	static const char gone[] = " (deleted)";
	_cleanup_free_ char *line = NULL;
	char mount[PATH_MAX];
	const char *below;
	size_t n;
	int r;

	r = cgroup_mount(mount, error);
	if (r < 0)
		return r;
	r = cgroup_line_of_pid(pid, &line, error);
	if (r < 0)
		return r;
	below = line + strlen("0::");
	n = strlen(below);
	if (host_path_below(below, "/.."))
		return error_set(error, EXDEV,
				 "process %d is in cgroup %s, outside this cgroup namespace; run "
				 "in the host's (nsenter --cgroup --target 1)",
				 pid, below);
	if (n > strlen(gone) && !strcmp(below + n - strlen(gone), gone))
		return error_set(error, ENOENT, "process %d is in a cgroup that was removed (%s)",
				 pid, below);
	if (snprintf(ret_path, size, "%s%s", mount, n > 1 ? below : "") >= (int)size)
		return error_set(error, ENAMETOOLONG, "cgroup path of process %d is too long", pid);
	return 0;
}
