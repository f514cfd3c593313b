// SPDX-License-Identifier: Apache-2.0
/* See net.h. No privilege; nothing waits longer than NET_TIMEOUT_MS but the look-up of a name. */
#include "sink/net.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int net_connect_unix(const char *path, int type, struct error *error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return error_set(error, ENAMETOOLONG, "%s: too long for a socket", path);
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_set(error, errno, "socket: %s", strerror(errno));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		int err = errno;

		close(fd);
		return error_set(error, err, "%s: %s", path, strerror(err));
	}
	return fd;
}

static void options_set(int fd)
{
	const int on = 1, timeout_ms = 30000;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on,
		   sizeof(on)); /* what is written is a batch already */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

/* One address. Returns a descriptor or -errno. */
static int address_connect(struct sink *sink, const struct addrinfo *a)
{
	int fd =
		socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	int err = 0, r;
	socklen_t size = sizeof(err);

	if (fd < 0)
		return -errno;
	r = connect(fd, a->ai_addr, a->ai_addrlen) < 0 ? -errno : 0;
	if (r == -EINPROGRESS) {
		r = sink_wait(sink, fd, POLLOUT, NET_TIMEOUT_MS);
		if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) == 0)
			r = -err;
	}
	if (r < 0) {
		close(fd);
		return r;
	}
	options_set(fd);
	return fd;
}

int net_connect_tcp(struct sink *sink, const char *host, const char *port, struct error *error)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
	struct addrinfo *list = NULL;
	int r = getaddrinfo(host, port, &hints, &list), fd = -EHOSTUNREACH;

	if (r != 0)
		return error_set(error, EHOSTUNREACH, "%s:%s: %s", host, port, gai_strerror(r));
	for (const struct addrinfo *a = list; a && fd < 0 && fd != -ECANCELED; a = a->ai_next)
		fd = address_connect(sink, a);
	freeaddrinfo(list);
	return fd < 0 ? error_set(error, -fd, "%s:%s: %s", host, port, strerror(-fd)) : fd;
}

int net_split(char *address, char **ret_host, char **ret_port)
{
	char *colon = strrchr(address, ':'), *end;

	if (!colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")] ||
	    strlen(colon) > 6 || atoi(colon + 1) < 1 || atoi(colon + 1) > 65535)
		return -EINVAL;
	*colon = '\0';
	*ret_port = colon + 1;
	*ret_host = address;
	if (address[0] == '[') {
		end = strchr(address, ']');
		if (!end || end[1])
			return -EINVAL;
		*end = '\0';
		*ret_host = address + 1;
	} else if (strchr(address, ':')) {
		return -EINVAL;
	}
	return **ret_host ? 0 : -EINVAL;
}
