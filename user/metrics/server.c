// SPDX-License-Identifier: Apache-2.0
/*
 * The endpoint: a server of one page in the caller's event loop. Whoever connects is a stranger: connections, bytes and time are
 * bounded, nothing of a request is kept or told again. A failure ends that connection, never the loop. No privilege but the address's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "metrics/metrics.h"

struct connection {
	struct metrics_server *server;
	struct bufferevent *buffer;
	struct event *limit; /* of its life */
	bool answered;
	struct connection *next;
};

struct metrics_server {
	struct event_base *base;
	bool own_base;
	struct evconnlistener *listener;
	char *path; /* of a unix socket, to be removed; else NULL */
	metrics_refresh_fn *refresh;
	void *arg;
	struct connection *connections;
	size_t n;
};

static void connection_end(struct connection *c)
{
	struct connection **at = &c->server->connections;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->server->n--;
	if (c->limit)
		event_free(c->limit);
	bufferevent_free(c->buffer);
	free(c);
}

/* The page, to be freed; NULL when memory ended. */
static char *page_make(const struct metrics_server *server, size_t *ret_size)
{
	char *page = NULL;
	FILE *out = open_memstream(&page, ret_size);

	if (!out)
		return NULL;
	if (server->refresh)
		server->refresh(server->arg);
	metrics_write(out);
	if (fclose(out) == 0)
		return page;
	free(page);
	return NULL;
}

static void answer(struct connection *c, const char *status, const char *type, const char *body,
		   size_t size)
{
	struct evbuffer *out = bufferevent_get_output(c->buffer);

	c->answered = true;
	bufferevent_disable(c->buffer, EV_READ);
	evbuffer_add_printf(out,
			    "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
			    "Connection: close\r\n\r\n",
			    status, type, size);
	evbuffer_add(out, body, size);
}

static void refuse(struct connection *c, const char *status)
{
	answer(c, status, "text/plain", "", 0);
}

/* Is the target of "GET TARGET HTTP/1.x" the page? What follows a question mark does not count. */
static bool target_is_page(const char *target, size_t n)
{
	static const char page[] = "/metrics";
	const char *query = memchr(target, '?', n);

	n = query ? (size_t)(query - target) : n;
	return n == sizeof(page) - 1 && memcmp(target, page, n) == 0;
}

/* The first line of a whole request. */
static void request_answer(struct connection *c, const char *line, size_t n)
{
	const char *space = memchr(line, ' ', n), *target, *end;
	size_t size;
	char *page;

	target = space ? space + 1 : NULL;
	end = target ? memchr(target, ' ', n - (size_t)(target - line)) : NULL;
	if (!end || n - (size_t)(end - line) != 9 || memcmp(end, " HTTP/1.", 8) != 0) {
		refuse(c, "400 Bad Request");
	} else if (!target_is_page(target, (size_t)(end - target))) {
		refuse(c, "404 Not Found");
	} else if ((size_t)(space - line) != 3 || memcmp(line, "GET", 3) != 0) {
		refuse(c, "405 Method Not Allowed");
	} else {
		page = page_make(c->server, &size);
		if (page)
			answer(c, "200 OK", "text/plain; version=0.0.4; charset=utf-8", page, size);
		else
			refuse(c, "503 Service Unavailable");
		free(page);
	}
}

static void on_read(struct bufferevent *buffer, void *arg)
{
	struct connection *c = arg;
	struct evbuffer *in = bufferevent_get_input(buffer);
	size_t n = evbuffer_get_length(in), line;
	const char *text;
	const char *end;

	if (c->answered || !n)
		return;
	text = (const char *)evbuffer_pullup(in, -1);
	if (!text) {
		connection_end(c);
		return;
	}
	end = memmem(text, n, "\r\n\r\n", 4);
	if (!end && n < METRICS_REQUEST_MAX)
		return;
	if (!end) {
		refuse(c, "431 Request Header Fields Too Large");
		return;
	}
	line = (size_t)((const char *)memmem(text, n, "\r\n", 2) - text);
	request_answer(c, text, line);
}

/* The answer is out. */
static void on_written(struct bufferevent *buffer, void *arg)
{
	struct connection *c = arg;

	(void)buffer;
	if (c->answered)
		connection_end(c);
}

static void on_failure(struct bufferevent *buffer, short what, void *arg)
{
	(void)buffer;
	(void)what;
	connection_end(arg);
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	connection_end(arg);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
		      int size, void *arg)
{
	const struct timeval life = { .tv_sec = METRICS_TIME_MAX_MS / 1000 };
	struct metrics_server *server = arg;
	struct connection *c;

	(void)listener;
	(void)address;
	(void)size;
	c = server->n < METRICS_CONNECTIONS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (c)
		c->buffer = bufferevent_socket_new(server->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!c || !c->buffer) {
		free(c);
		evutil_closesocket(fd);
		return;
	}
	c->server = server;
	c->next = server->connections;
	server->connections = c;
	server->n++;
	bufferevent_setcb(c->buffer, on_read, on_written, on_failure, c);
	bufferevent_setwatermark(c->buffer, EV_READ, 0, METRICS_REQUEST_MAX);
	c->limit = evtimer_new(server->base, on_limit, c);
	if (!c->limit || evtimer_add(c->limit, &life) < 0 ||
	    bufferevent_enable(c->buffer, EV_READ | EV_WRITE) < 0)
		connection_end(c);
}

/* --- addresses ------------------------------------------------------------------------------------------------------ */

/* A socket that nobody listens on is in the way of the next start, no more. */
static void stale_remove(const char *path, const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	if (fd < 0)
		return;
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	    connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
	    errno == ECONNREFUSED)
		unlink(path);
	close(fd);
}

static int unix_listen(const char *path, struct error *error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	mode_t before;
	int fd, r;

	if (path[0] != '/')
		return error_set(error, EINVAL, "metrics: unix:%s: not an absolute path", path);
	if (strlen(path) >= sizeof(address.sun_path))
		return error_set(error, ENAMETOOLONG, "metrics: %s: too long for a socket", path);
	strcpy(address.sun_path, path);
	stale_remove(path, &address);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_set(error, errno, "metrics: %s", strerror(errno));
	before = umask(0117);
	r = bind(fd, (const struct sockaddr *)&address, sizeof(address));
	umask(before);
	if (r < 0) {
		r = error_set(error, errno, "metrics: %s: %s", path, strerror(errno));
		close(fd);
		return r;
	}
	return fd;
}

static int address_listen(const char *text, struct error *error)
{
	struct sockaddr_storage address;
	int size = sizeof(address), fd, r;
	const int on = 1;

	if (!strrchr(text, ':') || strrchr(text, ']') > strrchr(text, ':') ||
	    evutil_parse_sockaddr_port(text, (struct sockaddr *)&address, &size) < 0)
		return error_set(error, EINVAL,
				 "metrics: '%s' is neither unix:PATH nor HOST:PORT with numbers",
				 text);
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_set(error, errno, "metrics: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&address, (socklen_t)size) < 0) {
		r = error_set(error, errno, "metrics: %s: %s", text, strerror(errno));
		close(fd);
		return r;
	}
	return fd;
}

int metrics_serve(struct event_base *base, const char *address, metrics_refresh_fn *refresh,
		  void *arg, struct metrics_server **ret_server, struct error *error)
{
	const char *path = strncmp(address, "unix:", 5) == 0 ? address + 5 : NULL;
	struct metrics_server *server = calloc(1, sizeof(*server));
	int fd;

	if (!server)
		return error_set(error, ENOMEM, "out of memory");
	*server = (struct metrics_server){
		.base = base ? base : event_base_new(),
		.own_base = !base,
		.refresh = refresh,
		.arg = arg,
	};
	if (!server->base) {
		free(server);
		return error_set(error, ENOMEM, "metrics: no event loop");
	}
	fd = path ? unix_listen(path, error) : address_listen(address, error);
	if (fd < 0) {
		metrics_server_free(server);
		return fd;
	}
	server->path = path ? strdup(path) : NULL;
	server->listener =
		evconnlistener_new(server->base, on_accept, server,
				   LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 16, fd);
	if (!server->listener) {
		close(fd);
		metrics_server_free(server);
		return error_set(error, ENOMEM, "metrics: %s: cannot listen", address);
	}
	*ret_server = server;
	return 0;
}

void metrics_server_turn(struct metrics_server *server)
{
	if (server)
		event_base_loop(server->base, EVLOOP_NONBLOCK);
}

void metrics_server_free(struct metrics_server *server)
{
	if (!server)
		return;
	while (server->connections)
		connection_end(server->connections);
	if (server->listener)
		evconnlistener_free(server->listener);
	if (server->own_base)
		event_base_free(server->base);
	if (server->path)
		unlink(server->path);
	free(server->path);
	free(server);
}
