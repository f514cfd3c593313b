// SPDX-License-Identifier: Apache-2.0
/* See listen.h. Fails with the address and the cause. */
#include "gateway/listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "identity/identity.h"

#define BACKLOG 1024

static int listen_fault(const struct gwconf_listen *address, int err, struct error *error)
{
	const char *hint = "";

	if (err == EADDRINUSE)
		hint = "; another program listens there";
	else if (err == EACCES && !address->socket)
		hint = "; ports below 1024 need a capability that the gateway does not have";
	else if (err == EACCES || err == ENOENT)
		hint = "; the directory must exist and be writable by this user";
	return error_set(error, err, "cannot listen on %s: %s%s", address->text, strerror(err),
			 hint);
}

static struct sockaddr_un unix_address(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	memcpy(un.sun_path, path, strlen(path) + 1);
	return un;
}

/* Removes a socket that a gateway left behind when it was killed; one that answers is somebody's. */
static int unix_clear(const char *path)
{
	struct sockaddr_un un = unix_address(path);
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EADDRINUSE;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0 || errno != ECONNREFUSED)
		return -EADDRINUSE;
	return unlink(path) < 0 ? -errno : 0;
}

static int unix_bind(int fd, const char *path)
{
	struct sockaddr_un un = unix_address(path);
	int r = unix_clear(path);

	if (r < 0)
		return r;
	if (bind(fd, (struct sockaddr *)&un, sizeof(un)) < 0 || chmod(path, 0666) < 0)
		return -errno;
	return 0;
}

static int tcp_bind(int fd, const struct gwconf_listen *address)
{
	const int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	if (address->addr.sa.sa_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return -errno;
	return bind(fd, &address->addr.sa, address->addr_length) < 0 ? -errno : 0;
}

int listen_open(const struct gwconf_listen *address, struct error *error)
{
	int family = address->socket ? AF_UNIX : address->addr.sa.sa_family;
	_cleanup_close_ int fd = -1;
	int r;

	fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return listen_fault(address, errno, error);
	r = address->socket ? unix_bind(fd, address->socket) : tcp_bind(fd, address);
	/* Before listen(): no SYN may come that is not kept. */
	if (r == 0)
		r = identity_listen(fd);
	if (r == 0 && listen(fd, BACKLOG) < 0)
		r = -errno;
	if (r < 0)
		return listen_fault(address, -r, error);
	return TAKE_FD(fd);
}

int listen_open_datagrams(const struct gwconf_listen *address, struct error *error)
{
	_cleanup_close_ int fd =
		socket(address->addr.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r = fd < 0 ? -errno : 0;

	/* No SO_REUSEADDR: with datagrams it would let another program have the same port. */
	if (r == 0 && bind(fd, &address->addr.sa, address->addr_length) < 0)
		r = -errno;
	if (r < 0)
		return listen_fault(address, -r, error);
	return TAKE_FD(fd);
}

void listen_close(int fd, const struct gwconf_listen *address)
{
	if (address->socket)
		unlink(address->socket);
	close(fd);
}
