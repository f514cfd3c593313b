// SPDX-License-Identifier: Apache-2.0
/*
 * See tunnel.h: bytes from one side to the other. splice(2) moves them by way of a pipe, so that they are not copied to us and
 * back; a tunnel holds a pipe only while there are bytes in it. Both descriptors are watched once, edge-triggered: what one
 * was said to be ready for is remembered until a call says that it is not.
 *
 * Of a tunnel for TLS nothing goes to the server before the ClientHello was read, and so nothing of the server's answer to the
 * client. Bytes up are counted for the fence when they are read; what would be beyond limits.upload goes nowhere.
 */
#include "proxy/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway/callers.h"
#include "proxy/hello.h"

#define PIPE_BYTES (256 * 1024)
#define TURN_BYTES (512 * 1024) /* of one direction before others have their turn */
#define HALF_CLOSED_MS 60000	/* one side has ended, the other says nothing */

/* --- pipes ------------------------------------------------------------------------------------ */

static int pipe_take(struct proxy *proxy, struct pipe *pipe)
{
	int fds[2];

	if (pipe->in >= 0)
		return 0;
	if (proxy->n_pipes) {
		*pipe = proxy->pipes[--proxy->n_pipes];
		return 0;
	}
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	*pipe = (struct pipe){ .in = fds[1], .out = fds[0] };
	fcntl(pipe->in, F_SETPIPE_SZ, PIPE_BYTES); /* less will do as well */
	return 0;
}

static void pipe_close(struct pipe *pipe)
{
	if (pipe->in >= 0) {
		close(pipe->in);
		close(pipe->out);
	}
	*pipe = (struct pipe){ -1, -1 };
}

/* Only an empty one may be another tunnel's next. */
static void pipe_give(struct proxy *proxy, struct pipe *pipe)
{
	if (pipe->in < 0)
		return;
	if (proxy->n_pipes == PIPES_KEPT) {
		pipe_close(pipe);
		return;
	}
	proxy->pipes[proxy->n_pipes++] = *pipe;
	*pipe = (struct pipe){ -1, -1 };
}

void relay_free(struct tunnel *t)
{
	pipe_close(&t->up.pipe);
	pipe_close(&t->down.pipe);
	free(t->up.first);
	free(t->down.first);
	canary_watch_end(&t->watch);
}

/* --- one direction ---------------------------------------------------------------------------- */

static int first_send(struct flow *f, struct side *to)
{
	ssize_t n = send(to->fd, f->first + f->first_at, f->first_n - f->first_at, MSG_NOSIGNAL);

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0 && errno == EAGAIN) {
		to->writable = false;
		return 0;
	}
	if (n < 0)
		return -errno;
	f->bytes += (uint64_t)n;
	f->first_at += (size_t)n;
	if (f->first_at == f->first_n)
		free(TAKE_PTR(f->first));
	return 0;
}

static int pipe_drain(struct flow *f, struct side *to, size_t *budget)
{
	ssize_t n = splice(f->pipe.out, NULL, to->fd, NULL, f->in_pipe,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0 && errno == EAGAIN) {
		to->writable = false;
		return 0;
	}
	if (n <= 0)
		return n < 0 ? -errno : -EPIPE;
	f->bytes += (uint64_t)n;
	f->in_pipe -= (size_t)n;
	*budget -= (size_t)n < *budget ? (size_t)n : *budget;
	return 0;
}

static int pipe_fill(struct tunnel *t, struct flow *f, struct side *from)
{
	size_t most = f->left < PIPE_BYTES ? (size_t)f->left : PIPE_BYTES;
	ssize_t n;
	int r = pipe_take(t->proxy, &f->pipe);

	if (r < 0)
		return r;
	n = splice(from->fd, NULL, f->pipe.in, NULL, most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0 && errno == EAGAIN) {
		from->readable = false;
		return 0;
	}
	if (n < 0)
		return -errno;
	f->ended = n == 0;
	f->left -= (uint64_t)n;
	f->in_pipe = (size_t)n;
	return f == &t->up && n && !caller_upload(t->conn->caller, (uint64_t)n) ? -EDQUOT : 0;
}

/* What a placeholder may be in is copied, and looked at. */
static int watch_take(struct tunnel *t, struct flow *f, const char *p, size_t n)
{
	const char *clean, *whose;
	size_t clean_n;
	int r = canary_watch_feed(&t->watch, p, n, !f->left || f->ended, &clean, &clean_n, &whose);

	if (r < 0 || whose)
		return r < 0 ? r : -EKEYREJECTED;
	if (!clean_n)
		return 0;
	f->first = malloc(clean_n);
	if (!f->first)
		return -ENOMEM;
	memcpy(f->first, clean, clean_n);
	f->first_n = clean_n;
	f->first_at = 0;
	return 0;
}

static int watch_fill(struct tunnel *t, struct flow *f, struct side *from)
{
	char bytes[16384];
	size_t most = f->left < sizeof(bytes) ? (size_t)f->left : sizeof(bytes);
	ssize_t n = recv(from->fd, bytes, most, MSG_DONTWAIT);

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0 && errno == EAGAIN) {
		from->readable = false;
		return 0;
	}
	if (n < 0)
		return -errno;
	f->ended = n == 0;
	f->left -= (uint64_t)n;
	if (n && !caller_upload(t->conn->caller, (uint64_t)n))
		return -EDQUOT;
	return watch_take(t, f, bytes, (size_t)n);
}

/* As far as it goes. 0 or -errno; then the tunnel is done with. */
static int flow_run(struct tunnel *t, struct flow *f, struct side *from, struct side *to,
		    size_t *budget)
{
	int r = 0;

	while (r == 0 && *budget && to->writable) {
		if (f->first)
			r = first_send(f, to);
		else if (f->in_pipe)
			r = pipe_drain(f, to, budget);
		else if (f->ended || !f->left || !from->readable)
			break;
		else if (f == &t->up && t->watch.canaries)
			r = watch_fill(t, f, from);
		else
			r = pipe_fill(t, f, from);
	}
	if (r < 0)
		return r;
	if (!f->in_pipe)
		pipe_give(t->proxy, &f->pipe);
	if (f->ended && !f->shut && !f->first && !f->in_pipe) {
		shutdown(to->fd, SHUT_WR);
		f->shut = true;
	}
	return 0;
}

/* --- the ClientHello -------------------------------------------------------------------------- */

/* A fatal alert, unrecognized_name: what a TLS client can show. It is gone if it does not fit. */
static void alert_send(int fd)
{
	static const uint8_t alert[] = { 21, 3, 1, 0, 2, 2, 112 };

	send(fd, alert, sizeof(alert), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void hello_refuse(struct tunnel *t, const char *reason)
{
	struct conn *conn = t->conn;

	tunnel_tell(t, false, LEDGER_HOST_MISMATCH, reason);
	alert_send(conn->fd);
	t->end = reason;
	t->end_code = LEDGER_HOST_MISMATCH;
	conn->tunnel = NULL;
	tunnel_end(t);
	conn_linger(conn); /* so that the alert arrives */
}

/* More of it. 1: something came, 0: nothing now, -errno: no more will. */
static int hello_receive(struct tunnel *t)
{
	char bytes[2048], *grown;
	ssize_t n = recv(t->client.fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n < 0 && errno == EINTR)
		return 1;
	if (n < 0 && errno == EAGAIN) {
		t->client.readable = false;
		return 0;
	}
	if (n <= 0)
		return -ECONNRESET;
	grown = realloc(t->up.first, t->up.first_n + (size_t)n);
	if (!grown)
		return -ENOMEM;
	t->up.first = grown;
	memcpy(grown + t->up.first_n, bytes, (size_t)n);
	t->up.first_n += (size_t)n;
	return 1;
}

/* False: the tunnel is gone, or has to wait. */
static bool hello_judge(struct tunnel *t)
{
	struct reach_name name;
	const char *reason;
	int r = 1, got = HELLO_PARTIAL;

	while (r > 0 && got == HELLO_PARTIAL) {
		got = t->up.first_n ? hello_read((const uint8_t *)t->up.first, t->up.first_n, &name,
						 &reason)
				    : HELLO_PARTIAL;
		if (got == HELLO_PARTIAL)
			r = t->client.readable ? hello_receive(t) : 0;
	}
	if (got < 0) {
		hello_refuse(t, reason);
	} else if (got > 0 && strcmp(name.s, t->target.name.s) != 0) {
		hello_refuse(t, "the server name (SNI) is not the name of the CONNECT");
	} else if (got > 0 && !caller_upload(t->conn->caller, t->up.first_n)) {
		tunnel_finish(t, LEDGER_UPLOAD_EXHAUSTED, "limits.upload");
	} else if (got > 0) {
		t->state = TUNNEL_RELAY;
		return true;
	} else if (r < 0) {
		tunnel_finish(t, LEDGER_OK, "the client left before its ClientHello");
	}
	return false;
}

/* --- both ------------------------------------------------------------------------------------- */

/* One request: of a client that has gone nothing more can come, nor would the answer arrive. What it sent behind the request stays unread. */
static bool client_left(struct tunnel *t)
{
	struct pollfd state = { .fd = t->client.fd, .events = POLLRDHUP };

	if (t->connect || t->up.left || t->up.first || !t->client.readable)
		return false;
	t->client.readable = false;
	return poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void relay_failed(struct tunnel *t, int err)
{
	if (err == -EDQUOT)
		tunnel_finish(t, LEDGER_UPLOAD_EXHAUSTED, "limits.upload");
	else if (err == -EKEYREJECTED)
		tunnel_finish(t, LEDGER_PLACEHOLDER_SEEN, "in the body");
	else if (err == -EMFILE || err == -ENFILE || err == -ENOMEM)
		tunnel_finish(t, LEDGER_UNAVAILABLE, "out of descriptors or memory");
	else
		tunnel_finish(t, LEDGER_OK, "reset");
}

void relay_pump(struct tunnel *t)
{
	long long idle_ms = t->setup->conf->tunnel_idle_ms;
	uint64_t before = t->up.bytes + t->down.bytes;
	size_t down = TURN_BYTES, up = TURN_BYTES;
	bool half = t->up.shut || t->down.shut;
	int r;

	if (t->state == TUNNEL_HELLO && !hello_judge(t))
		return;
	r = flow_run(t, &t->down, &t->server, &t->client, &down);
	if (r == 0)
		r = flow_run(t, &t->up, &t->client, &t->server, &up);
	if (r < 0) {
		relay_failed(t, r);
		return;
	}
	if (t->down.shut && (t->up.shut || !t->connect)) {
		tunnel_finish(t, LEDGER_OK, "closed");
		return;
	}
	if (client_left(t)) {
		tunnel_finish(t, LEDGER_OK, "the client left");
		return;
	}
	if (half != (t->up.shut || t->down.shut) || t->up.bytes + t->down.bytes != before)
		tunnel_deadline(t, (t->up.shut || t->down.shut) && idle_ms > HALF_CLOSED_MS
					   ? HALF_CLOSED_MS
					   : idle_ms);
	if (!down || !up)
		event_active(&t->client.event, EV_READ, 0); /* after the others */
}

static void on_client(evutil_socket_t fd, short what, void *context)
{
	struct tunnel *t = context;

	(void)fd;
	t->client.readable |= (what & EV_READ) != 0;
	t->client.writable |= (what & EV_WRITE) != 0;
	relay_pump(t);
}

void relay_start(struct tunnel *t)
{
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	struct conn *conn = t->conn;
	const int on = 1;

	conn_detach(conn);
	setsockopt(conn->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	event_assign(&t->client.event, conn->worker->base, conn->fd,
		     EV_READ | EV_WRITE | EV_PERSIST | EV_ET, on_client, t);
	event_add(&t->client.event, NULL);
	t->client.readable = t->client.writable = true;
	t->state = t->connect ? TUNNEL_HELLO : TUNNEL_RELAY;
	tunnel_deadline(t, t->connect ? t->setup->conf->dial_ms : t->setup->conf->tunnel_idle_ms);
	if (t->connect && send(conn->fd, established, sizeof(established) - 1,
			       MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(established) - 1) {
		tunnel_finish(t, LEDGER_OK, "the client left");
		return;
	}
	if (!t->connect && !caller_upload(t->conn->caller, t->up.first_n)) {
		tunnel_finish(t, LEDGER_UPLOAD_EXHAUSTED, "limits.upload");
		return;
	}
	relay_pump(t);
}
