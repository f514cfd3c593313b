// SPDX-License-Identifier: Apache-2.0
/* Sockets and peers of both sides; see control.h. */
#include "control/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

enum { BACKLOG = 64, READ_STEP = 65536 };

/* --- peers ------------------------------------------------------------------------------------ */

int control_peer_read(int fd, struct control_peer *ret_peer)
{
	struct ucred cred = { 0 };
	socklen_t size = sizeof(cred);

	memset(ret_peer, 0, sizeof(*ret_peer));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) || size != sizeof(cred) ||
	    cred.uid == (uid_t)-1)
		return -EPERM;
	ret_peer->uid = cred.uid;
	ret_peer->pid = cred.pid;
	ret_peer->groups[0] = cred.gid;
	ret_peer->n_groups = 1;
	size = CONTROL_GROUPS * sizeof(gid_t);
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, ret_peer->groups + 1, &size))
		ret_peer->n_groups += size / sizeof(gid_t);
	return 0;
}

bool control_peer_has_group(const struct control_peer *peer, gid_t gid)
{
	for (size_t i = 0; i < peer->n_groups; i++)
		if (peer->groups[i] == gid)
			return true;
	return false;
}

/* --- the daemon's side ------------------------------------------------------------------------ */

/* Who can rename in the directory could put another socket, or a link, in the place of ours. */
static int directory_judge(const char *who, const char *path, struct error *error)
{
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char *slash;
	struct stat st;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (!slash)
		strcpy(dir, ".");
	else
		slash[slash == dir] = '\0';
	if (stat(dir, &st))
		return error_set(error, errno, "%s: %s: %s; make the directory of the socket", who,
				 dir, strerror(errno));
	if (st.st_uid && st.st_uid != geteuid())
		return error_set(error, EPERM,
				 "%s: %s belongs to user %u, who could put another socket there; "
				 "name one in a directory of root's",
				 who, dir, st.st_uid);
	if (st.st_mode & 022 && !(st.st_mode & S_ISVTX))
		return error_set(error, EPERM,
				 "%s: others may move away what is in %s; chmod go-w or +t it", who,
				 dir);
	return 0;
}

/* Somebody else's living socket is not taken away; one that nobody listens on is. */
static int address_free(const char *who, const struct sockaddr_un *address, int type,
			struct error *error)
{
	_cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	struct stat st;

	if (lstat(address->sun_path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return error_set(error, EEXIST,
				 "%s: %s is there and no socket; remove it, after a look at who "
				 "made it",
				 who, address->sun_path);
	/* One of another type is served, too. */
	if (fd >= 0 && (!connect(fd, (const struct sockaddr *)address, sizeof(*address)) ||
			errno == EPROTOTYPE))
		return error_set(error, EADDRINUSE, "%s: another daemon serves %s", who,
				 address->sun_path);
	unlink(address->sun_path);
	return 0;
}

int control_listen(const char *who, const char *path, int type, struct error *error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;
	int err;

	if (strlen(path) >= sizeof(address.sun_path))
		return error_set(error, ENAMETOOLONG, "%s: %s: too long", who, path);
	strcpy(address.sun_path, path);
	err = directory_judge(who, path, error);
	if (!err)
		err = address_free(who, &address, type, error);
	if (err)
		return err;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	/* bind() makes the name anew or fails: it follows no link. */
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return error_set(error, errno,
				 "%s: cannot make the socket %s: %s; its directory must be there "
				 "and the daemon's to write",
				 who, path, strerror(errno));
	/* Who may do something is decided by credentials; that takes being able to connect. */
	if (chmod(path, 0666) || listen(fd, BACKLOG)) {
		err = error_set(error, errno, "%s: cannot open the socket %s: %s", who, path,
				strerror(errno));
		unlink(path);
		return err;
	}
	return TAKE_FD(fd);
}

/* --- the client's side ------------------------------------------------------------------------ */

int control_connect(const char *path, unsigned int timeout_s, const char *hint, struct error *error)
{
	const struct timeval timeout = { .tv_sec = timeout_s };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return error_set(error, ENAMETOOLONG, "%s: too long for a socket", path);
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_set(error, errno, "socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		int err = errno;

		close(fd);
		return error_set(error, err, "%s: %s%s%s", path, strerror(err),
				 err == ENOENT || err == ECONNREFUSED ? "; " : "",
				 err == ENOENT || err == ECONNREFUSED ? hint : "");
	}
	return fd;
}

int control_send(int fd, const char *line, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = send(fd, line + done, size - done, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			done += (size_t)n;
	}
	return 0;
}

static bool reader_grow(struct control_reader *r, size_t size_max)
{
	size_t size = r->size ? 2 * r->size : READ_STEP;
	char *grown;

	if (size > size_max)
		size = size_max;
	grown = realloc(r->buffer, size);
	if (!grown)
		return false;
	r->buffer = grown;
	r->size = size;
	return true;
}

ssize_t control_read_line(struct control_reader *r, size_t size_max, char **ret_line)
{
	size_t seen = 0;

	if (r->taken) {
		r->have -= r->taken;
		memmove(r->buffer, r->buffer + r->taken, r->have);
		r->taken = 0;
	}
	for (;;) {
		char *newline =
			r->have > seen ? memchr(r->buffer + seen, '\n', r->have - seen) : NULL;
		ssize_t n;

		if (newline) {
			*ret_line = r->buffer;
			r->taken = (size_t)(newline - r->buffer) + 1;
			return (ssize_t)r->taken;
		}
		seen = r->have;
		if (r->have == size_max)
			return -E2BIG;
		if (r->have == r->size && !reader_grow(r, size_max))
			return -ENOMEM;
		n = recv(r->fd, r->buffer + r->have, r->size - r->have, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r->have += (size_t)n;
	}
}
