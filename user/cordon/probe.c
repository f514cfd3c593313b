// SPDX-License-Identifier: Apache-2.0
/* See probe.h. No privilege. */
#include "cordon/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "util/util.h"

enum { TIMEOUT_S = 10, ANSWER_MAX = 65536 };

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

/* A socket and where it is to go. -1 with errno. */
static int socket_to(const char *address, const char *port, int type, struct sockaddr_storage *ret,
		     socklen_t *ret_size)
{
	const struct timeval timeout = { .tv_sec = TIMEOUT_S };
	struct sockaddr_in *in = (void *)ret;
	struct sockaddr_in6 *in6 = (void *)ret;
	int fd;

	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, address, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)atoi(port));
		*ret_size = sizeof(*in);
	} else if (inet_pton(AF_INET6, address, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)atoi(port));
		*ret_size = sizeof(*in6);
	} else {
		errno = EINVAL;
		return -1;
	}
	fd = socket(ret->ss_family, type | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	}
	return fd;
}

static int connect_to(const char *address, const char *port)
{
	struct sockaddr_storage to;
	socklen_t size;
	int fd = socket_to(address, port, SOCK_STREAM, &to, &size);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, size)) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

static int try_tcp(const char *address, const char *port)
{
	_cleanup_close_ int fd = connect_to(address, port);
	char answer[64];

	if (fd < 0 || send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) < 0)
		return errno;
	return recv(fd, answer, sizeof(answer), 0) < 0 ? errno : 0;
}

static int try_datagram(const char *address, const char *port, const void *what, size_t n)
{
	struct sockaddr_storage to;
	socklen_t size;
	_cleanup_close_ int fd = socket_to(address, port, SOCK_DGRAM, &to, &size);

	if (fd < 0)
		return errno;
	return sendto(fd, what, n, 0, (struct sockaddr *)&to, size) < 0 ? errno : 0;
}

static int try_write(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno;
	close(fd);
	unlink(path);
	return 0;
}

static void say(json_t *root)
{
	char *text = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII);

	printf("%s\n", text ? text : "{}");
	fflush(stdout);
	free(text);
	json_decref(root);
}

static json_t *errno_json(int err)
{
	const char *name = err ? strerrorname_np(err) : NULL;

	return name ? json_string(name) : json_null();
}

/* One request on a connection of its own; what came back as bytes, 0 when nothing did. */
static size_t exchange(const char *address, const char *port, const char *path, const char *body,
		       char *answer)
{
	_cleanup_close_ int fd = connect_to(address, port);
	char head[1024];
	size_t n = 0;
	int size =
		snprintf(head, sizeof(head),
			 "POST %s HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
			 "Connection: close\r\nContent-Length: %zu\r\n\r\n",
			 path, strlen(body));

	if (fd < 0 || size >= (int)sizeof(head) ||
	    send(fd, head, (size_t)size, MSG_NOSIGNAL) != size ||
	    send(fd, body, strlen(body), MSG_NOSIGNAL) != (ssize_t)strlen(body))
		return 0;
	while (n < ANSWER_MAX) {
		ssize_t got = recv(fd, answer + n, ANSWER_MAX - n, 0);

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	answer[n] = '\0';
	return n;
}

static void post(const char *address, const char *port, const char *path, const char *body)
{
	static char answer[ANSWER_MAX + 1];
	size_t n;
	const char *content;
	json_t *parsed;
	int status = 0;

	errno = 0;
	n = exchange(address, port, path, body, answer);
	if (!n || sscanf(answer, "HTTP/1.%*d %d", &status) != 1) {
		say(json_pack("{s:i,s:o}", "status", 0, "errno", errno_json(errno)));
		return;
	}
	content = strstr(answer, "\r\n\r\n");
	parsed = content ? json_loads(content + 4, 0, NULL) : NULL;
	say(json_pack("{s:i,s:o}", "status", status, "body", parsed ? parsed : json_null()));
}

static void attempt(const char *what, const char *a, const char *b)
{
	/* A recursive query of type A for example.com. */
	static const char query[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1";
	long long began = now_ms();
	int err = EINVAL;

	if (!strcmp(what, "tcp"))
		err = try_tcp(a, b);
	else if (!strcmp(what, "udp"))
		err = try_datagram(a, b, "x", 1);
	else if (!strcmp(what, "dns"))
		err = try_datagram(a, "53", query, sizeof(query) - 1);
	else if (!strcmp(what, "write"))
		err = try_write(a);
	say(json_pack("{s:o,s:I}", "errno", errno_json(err), "ms", (json_int_t)(now_ms() - began)));
}

int probe_serve(void)
{
	static char line[8192];

	while (fgets(line, sizeof(line), stdin)) {
		char *rest = line, *word[5] = { NULL };
		size_t n = 0;

		line[strcspn(line, "\n")] = '\0';
		while (n < 4 && (word[n] = strsep(&rest, " ")))
			n++;
		word[4] = rest;
		if (n == 4 && word[4] && !strcmp(word[0], "post"))
			post(word[1], word[2], word[3], word[4]);
		else
			attempt(word[0], word[1] ? word[1] : "", word[2] ? word[2] : "0");
	}
	return EXIT_OK;
}
