// SPDX-License-Identifier: Apache-2.0
/*
 * One connection: bytes in, whole requests to the handler, answers out; one request at a time, those that
 * are sent ahead wait. Every state has a time at which it ends. After a request that cannot be read
 * nothing that follows on the connection is looked at.
 */
#include "gateway/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway/refusal.h"
#include "proxy/proxy.h"

#define LINGER_MS 1000
#define LINGER_BYTES_MAX (1024 * 1024)

static void conn_process(struct conn *conn, const char *p, size_t n);
static void conn_continue(struct conn *conn);

/* --- making and ending ------------------------------------------------------------------------ */

static struct share *conn_share(struct server *server, const struct caller *caller)
{
	return caller ? caller->share : &server->unknown;
}

struct conn *conn_new(struct server *server, int fd, struct caller *caller)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (!conn) {
		close(fd);
		caller_unref(caller);
		return NULL;
	}
	conn->fd = fd;
	conn->caller = caller;
	atomic_fetch_add(&server->open, 1);
	atomic_fetch_add(&conn_share(server, caller)->connections, 1);
	return conn;
}

void conn_drop(struct server *server, struct conn *conn)
{
	atomic_fetch_sub(&server->open, 1);
	atomic_fetch_sub(&conn_share(server, conn->caller)->connections, 1);
	caller_unref(conn->caller);
	close(conn->fd);
	free(conn->in);
	free(conn->out);
	free(conn);
}

void conn_close(struct conn *conn)
{
	struct worker *worker = conn->worker;

	event_del(&conn->io);
	event_del(&conn->timer);
	tunnel_end(TAKE_PTR(conn->tunnel));
	if (conn->work) {
		conn->work->conn = NULL;
		/* Who streams into it has a descriptor of its own, and is to notice. */
		shutdown(conn->fd, SHUT_RDWR);
	}
	if (conn->prev)
		conn->prev->next = conn->next;
	else
		worker->conns = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	worker->n_conns--;
	conn_drop(worker->server, conn);
}

void conn_revoke(struct conn *conn)
{
	if (conn->tunnel)
		tunnel_revoke(conn->tunnel);
	else if (!conn->work || !conn->work->streams)
		return;
	conn_close(conn);
}

/* --- time ------------------------------------------------------------------------------------- */

static void timer_set(struct conn *conn, uint64_t ms)
{
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000),
			      .tv_usec = (suseconds_t)(ms % 1000 * 1000) };

	conn->timer_ms = server_now_ms() + ms;
	event_add(&conn->timer, &tv);
}

/* The state ends in ms. A timer that goes off sooner is left to find that out. */
static void deadline_set(struct conn *conn, long long ms)
{
	conn->deadline_ms = server_now_ms() + (uint64_t)ms;
	if (!conn->timer_ms || conn->timer_ms > conn->deadline_ms)
		timer_set(conn, (uint64_t)ms);
}

static void conn_fault(struct conn *conn, int status, const char *reason);

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	struct conn *conn = context;
	uint64_t now = server_now_ms();

	(void)fd;
	(void)what;
	conn->timer_ms = 0;
	if (conn->state == CONN_BUSY || conn->state == CONN_TUNNEL)
		return;
	if (now < conn->deadline_ms) {
		timer_set(conn, conn->deadline_ms - now);
		return;
	}
	if (conn->state != CONN_READ) {
		conn_close(conn);
		return;
	}
	atomic_fetch_add(&conn->worker->server->timeouts, 1);
	conn_fault(conn, 408, "the request took too long");
	conn_continue(conn);
}

/* --- writing ---------------------------------------------------------------------------------- */

static const char *status_word(int status)
{
	static const struct {
		int status;
		const char *word;
	} words[] = {
		{ 200, "OK" },
		{ 202, "Accepted" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 411, "Length Required" },
		{ 413, "Content Too Large" },
		{ 417, "Expectation Failed" },
		{ 422, "Unprocessable Content" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i].status == status)
			return words[i].word;
	return "Error";
}

static const char *worker_date(struct worker *worker)
{
	time_t now = time(NULL);
	struct tm tm;

	if (now != worker->date_s) {
		gmtime_r(&now, &tm);
		strftime(worker->date, sizeof(worker->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		worker->date_s = now;
	}
	return worker->date;
}

static void on_io(evutil_socket_t fd, short what, void *context);

static void io_watch(struct conn *conn, short what)
{
	event_del(&conn->io);
	event_assign(&conn->io, conn->worker->base, conn->fd, what | EV_PERSIST, on_io, conn);
	event_add(&conn->io, NULL);
	conn->writing = what == EV_WRITE;
	conn->paused = false;
}

/* All of the answer is out. */
static void conn_said(struct conn *conn)
{
	free(conn->out);
	conn->out = NULL;
	conn->out_at = 0;
	if (conn->close_after) {
		conn->state = CONN_LINGER;
		shutdown(conn->fd, SHUT_WR);
		deadline_set(conn, LINGER_MS);
	} else {
		conn->state = CONN_IDLE;
	}
	if (conn->writing || conn->paused)
		io_watch(conn, EV_READ);
}

void conn_detach(struct conn *conn)
{
	event_del(&conn->io);
	event_del(&conn->timer);
	conn->timer_ms = 0;
	conn->state = CONN_TUNNEL;
}

void conn_linger(struct conn *conn)
{
	conn->state = CONN_LINGER;
	conn->out_at = 0;
	shutdown(conn->fd, SHUT_WR);
	deadline_set(conn, LINGER_MS);
	io_watch(conn, EV_READ);
}

/* Sends p[0..n), keeps what does not fit. */
static void conn_send(struct conn *conn, const char *p, size_t n)
{
	ssize_t sent = send(conn->fd, p, n, MSG_NOSIGNAL);

	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		sent = 0;
	if (sent < 0) {
		/* Nobody is there to hear it: what was done stays done. */
		conn->close_after = true;
		sent = (ssize_t)n;
	}
	if ((size_t)sent == n) {
		conn_said(conn);
		return;
	}
	conn->out = malloc(n - (size_t)sent);
	if (!conn->out) {
		conn->close_after = true;
		conn_said(conn);
		return;
	}
	conn->out_n = n - (size_t)sent;
	conn->out_at = 0;
	memcpy(conn->out, p + sent, conn->out_n);
	conn->state = CONN_WRITE;
	io_watch(conn, EV_WRITE);
}

static void on_writable(struct conn *conn)
{
	ssize_t sent =
		send(conn->fd, conn->out + conn->out_at, conn->out_n - conn->out_at, MSG_NOSIGNAL);

	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (sent < 0) {
		conn_close(conn);
		return;
	}
	conn->out_at += (size_t)sent;
	if (conn->out_at < conn->out_n)
		return;
	conn_said(conn);
	conn_continue(conn);
}

#define RETRY_AFTER "Retry-After: 1\r\n"

/* What some answers say besides. */
static const char *status_headers(int status)
{
	switch (status) {
	case 401:
		return "WWW-Authenticate: Bearer realm=\"cordon\"\r\n";
	case 405:
		return "Allow: GET, POST\r\n";
	case 409:
	case 503:
		return RETRY_AFTER;
	}
	return "";
}

/* The answer is there. What comes next may be another's work, or the end of the connection: the old one knows nothing of it. */
static void conn_let_go(struct conn *conn)
{
	if (conn->work)
		conn->work->conn = NULL;
	conn->work = NULL;
}

static void conn_say(struct conn *conn, int status, const char *headers, const char *body,
		     size_t body_n)
{
	struct worker *worker = conn->worker;
	char stack[4096], *text = stack;
	size_t room = body_n + 512;
	int n;

	conn_let_go(conn);
	conn->close_after |= worker->draining;
	if (room > sizeof(stack))
		text = malloc(room);
	if (!text) {
		conn->close_after = true;
		conn_said(conn);
		return;
	}
	n = snprintf(text, room,
		     "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: application/json\r\n"
		     "Content-Length: %zu\r\nCache-Control: no-store\r\n%s%s\r\n",
		     status, status_word(status), worker_date(worker), body_n, headers,
		     conn->close_after ? "Connection: close\r\n" : "");
	if (conn->bodiless)
		body_n = 0;
	memcpy(text + n, body, body_n);
	conn_send(conn, text, (size_t)n + body_n);
	if (text != stack)
		free(text);
	if (!conn->processing)
		conn_continue(conn);
}

void conn_answer(struct conn *conn, int status, const char *body, size_t body_n)
{
	conn_say(conn, status, status_headers(status), body, body_n);
}

void conn_answer_with(struct conn *conn, int status, const char *headers, const char *body,
		      size_t body_n)
{
	conn_say(conn, status, headers, body, body_n);
}

void conn_answer_later(struct conn *conn, int status, const char *body, size_t body_n)
{
	conn_say(conn, status, RETRY_AFTER, body, body_n);
}

int conn_borrow(struct conn *conn)
{
	int fd = fcntl(conn->fd, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? -errno : fd;
}

void conn_streamed(struct conn *conn, bool whole)
{
	conn_let_go(conn);
	conn->close_after |= !whole || conn->worker->draining;
	conn_said(conn);
	if (!conn->processing)
		conn_continue(conn);
}

bool conn_persists(const struct conn *conn)
{
	return !conn->close_after && !conn->worker->draining;
}

void conn_wait(struct conn *conn, struct work *work)
{
	work->worker = conn->worker;
	work->conn = conn;
	conn->work = work;
	conn->worker->n_works++;
}

void work_end(struct work *work)
{
	if (work->conn)
		work->conn->work = NULL;
	work->worker->n_works--;
}

/* What HTTP itself refuses. The connection ends: nobody can say where the next request would begin. */
static void conn_fault(struct conn *conn, int status, const char *reason)
{
	char body[REFUSAL_MAX];
	int n = refusal_print(body, refusal_of_status(status), reason);

	atomic_fetch_add(&conn->worker->server->malformed, 1);
	conn->close_after = true;
	conn->processing = true;
	conn_answer(conn, status, body, (size_t)n);
	conn->processing = false;
}

/* --- requests --------------------------------------------------------------------------------- */

/* Keeps the bytes for later. They may lie in conn->in already. */
static bool conn_keep(struct conn *conn, const char *p, size_t n)
{
	if (p >= conn->in && conn->in && p <= conn->in + conn->in_n) {
		memmove(conn->in, p, n);
		conn->in_n = n;
	} else if (n > 0) {
		free(conn->in);
		conn->in_room = n < 1024 ? 1024 : n;
		conn->in = malloc(conn->in_room);
		conn->in_n = n;
		if (!conn->in)
			return false;
		memcpy(conn->in, p, n);
	}
	if (n == 0) {
		free(conn->in);
		conn->in = NULL;
		conn->in_n = conn->in_room = 0;
	}
	return true;
}

/*
 * One request at p[0..n). Returns the bytes that it took; 0 when it is not whole, or refused as HTTP.
 */
static size_t take_request(struct conn *conn, struct setup *setup, const char *p, size_t n)
{
	const struct gwconf *conf = setup->conf;
	const struct head_limits limits = { (size_t)conf->header_bytes, (size_t)conf->headers };
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct server *server = conn->worker->server;
	const char *reason;
	struct head head;
	uint64_t left = 0;
	int r = head_read(p, n, &limits, &head, &reason);

	conn->in_need = 0;
	if (r == HEAD_PARTIAL)
		return 0;
	conn->bodiless = r > 0 && head_text_is(&head.name, "HEAD");
	if (r > 0 && head.form != HEAD_FORM_PATH) {
		conn->state = CONN_BUSY;
		conn->close_after = true;
		atomic_fetch_add(&server->requests, 1);
		tunnel_start(conn, setup, &head, p, (size_t)r, n);
		return n;
	}
	if (r > 0 && head.up && head.length > (uint64_t)conf->body_bytes &&
	    n - (size_t)r < head.length) {
		left = head.length - (n - (size_t)r);
		head.keep_alive = false;
	}
	if (r > 0 && !head.up && head.length > (uint64_t)conf->body_bytes) {
		r = -413;
		reason = "the body is too long";
	} else if (r > 0 && head.length &&
		   (head.up ? head.method == HEAD_METHOD_GET || head_text_is(&head.name, "HEAD")
			    : head.method != HEAD_METHOD_POST)) {
		r = -400;
		reason = "a body where none belongs";
	}
	if (r < 0) {
		conn_fault(conn, -r, reason);
		return 0;
	}
	if (n - (size_t)r < head.length && !left) {
		conn->in_need = (size_t)r + (size_t)head.length;
		if (head.expects_continue && !conn->continued) {
			conn->continued = true;
			/* A client that does not take 25 bytes gets none, and waits less or longer. */
			send(conn->fd, go_on, sizeof(go_on) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		}
		return 0;
	}
	conn->continued = false;
	conn->close_after = !head.keep_alive;
	conn->state = CONN_BUSY;
	atomic_fetch_add(&server->requests, 1);
	server->handle(&(struct request){ .gateway = conn->worker->gateway,
					  .setup = setup,
					  .worker = conn->worker,
					  .conn = conn,
					  .caller = conn->caller,
					  .share = conn_share(server, conn->caller),
					  .head = &head,
					  .body = p + r,
					  .body_n = (size_t)(head.length - left),
					  .body_left = left });
	return (size_t)r + (size_t)(head.length - left);
}

static bool conn_takes_requests(const struct conn *conn)
{
	return conn->state == CONN_IDLE || conn->state == CONN_READ;
}

/* Takes requests from p[0..n) for as long as each is answered at once; keeps the rest. */
static void conn_process(struct conn *conn, const char *p, size_t n)
{
	struct setup *setup = worker_setup(conn->worker);
	long long request_ms = setup->conf->request_ms, idle_ms = setup->conf->idle_ms;
	size_t took = 1;

	conn->processing = true;
	while (n && took && conn_takes_requests(conn)) {
		took = take_request(conn, setup, p, n);
		p += took;
		n -= took;
	}
	conn->processing = false;
	if (conn->state == CONN_LINGER || (conn->close_after && conn->state == CONN_WRITE))
		n = 0;
	if (!conn_keep(conn, p, n)) {
		conn_close(conn);
		return;
	}
	if (conn->state == CONN_IDLE && n) {
		conn->state = CONN_READ;
		deadline_set(conn, request_ms);
	} else if (conn->state == CONN_IDLE) {
		deadline_set(conn, idle_ms);
	} else if (conn->state == CONN_WRITE) {
		deadline_set(conn, request_ms);
	}
	if (conn->worker->draining && conn->state == CONN_IDLE)
		conn_close(conn);
}

/* A request was answered: the next one may lie here already. */
static void conn_continue(struct conn *conn)
{
	if (conn_takes_requests(conn))
		conn_process(conn, conn->in, conn->in_n);
	else if (conn->state == CONN_WRITE)
		deadline_set(conn, worker_setup(conn->worker)->conf->request_ms);
	else
		conn_keep(conn, NULL, 0);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void on_lingering(struct conn *conn)
{
	ssize_t n = recv(conn->fd, conn->worker->scratch, conn->worker->scratch_size, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	conn->out_at += n > 0 ? (size_t)n : 0;
	if (n <= 0 || conn->out_at > LINGER_BYTES_MAX)
		conn_close(conn);
}

/* More of a request that is not whole, behind what there is of it. */
static ssize_t read_more(struct conn *conn)
{
	ssize_t n;

	if (conn->in_n == conn->in_room) {
		size_t room = conn->in_room * 2;
		char *grown;

		/* Bounded: a head or body that is longer was refused. */
		if (conn->in_need > room)
			room = conn->in_need;
		grown = realloc(conn->in, room);
		if (!grown) {
			errno = ENOMEM;
			return -1;
		}
		conn->in = grown;
		conn->in_room = room;
	}
	n = recv(conn->fd, conn->in + conn->in_n, conn->in_room - conn->in_n, 0);
	if (n > 0)
		conn->in_n += (size_t)n;
	return n;
}

static void on_readable(struct conn *conn)
{
	struct worker *worker = conn->worker;
	bool more = conn->in != NULL;
	ssize_t n =
		more ? read_more(conn) : recv(conn->fd, worker->scratch, worker->scratch_size, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_close(conn);
		return;
	}
	if (!more) {
		conn_process(conn, worker->scratch, (size_t)n);
		return;
	}
	/* Nothing can have become whole: a head ends with a line. */
	if (conn->in_need ? conn->in_n < conn->in_need
			  : !memchr(conn->in + conn->in_n - n, '\n', (size_t)n) &&
				    conn->in_n < (size_t)worker_setup(worker)->conf->header_bytes)
		return;
	conn_process(conn, conn->in, conn->in_n);
}

static void on_io(evutil_socket_t fd, short what, void *context)
{
	struct conn *conn = context;

	(void)fd;
	if (conn->state == CONN_WRITE) {
		if (what & EV_WRITE)
			on_writable(conn);
	} else if (conn->state == CONN_LINGER) {
		on_lingering(conn);
	} else if (conn->state == CONN_BUSY) {
		/* Whoever sends ahead fills the socket, not our memory. */
		event_del(&conn->io);
		conn->paused = true;
	} else {
		on_readable(conn);
	}
}

void conn_start(struct worker *worker, struct conn *conn)
{
	conn->worker = worker;
	conn->next = worker->conns;
	if (worker->conns)
		worker->conns->prev = conn;
	worker->conns = conn;
	worker->n_conns++;
	event_assign(&conn->timer, worker->base, -1, 0, on_timer, conn);
	event_assign(&conn->io, worker->base, conn->fd, EV_READ | EV_PERSIST, on_io, conn);
	event_add(&conn->io, NULL);
	/* The first request is due like any other, once it begins. */
	deadline_set(conn, worker_setup(worker)->conf->idle_ms);
}
