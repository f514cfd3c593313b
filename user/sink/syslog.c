// SPDX-License-Identifier: Apache-2.0
/*
 * syslog: RFC 5424, to a unix socket (one datagram a record), over TCP with octet counting (RFC 6587) or TLS (RFC 5425). A record
 * that was sent in part when the connection ended is sent anew as a whole over the next. What the peer's kernel took and the peer never read
 * is lost unseen: the protocol has no acknowledgement. No privilege.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "sink/net.h"
#include "sink/tls.h"

enum {
	HEAD_MAX = 512, /* bytes before the text */
	GOODBYE_MS = 1000,
};

enum transport { OVER_UNIX, OVER_TCP, OVER_TLS };

struct syslog {
	enum transport over;
	char *address; /* owned; host, port and path point into it */
	char *host, *port;
	const char *path;
	int fd;
	struct tls *tls;
	struct sink_batch batch;
};

static int syslog_prepare(struct sink *sink, struct error *error)
{
	const char *address = sink->config.address;
	struct syslog *s = calloc(1, sizeof(*s));

	if (!s)
		return error_set(error, ENOMEM, "out of memory");
	sink->state = s;
	s->fd = -1;
	s->over = !strncmp(address, "unix:", 5)	 ? OVER_UNIX
		  : !strncmp(address, "tls:", 4) ? OVER_TLS
						 : OVER_TCP;
	s->address = strdup(strchr(address, ':') + 1);
	if (!s->address || sink_batch_init(&s->batch) < 0)
		return error_set(error, ENOMEM, "out of memory");
	s->path = s->address;
	if (s->over == OVER_UNIX)
		return 0;
	if (net_split(s->address, &s->host, &s->port) < 0)
		return error_set(error, EINVAL, "sink %s: %s: not HOST:PORT", sink->config.name,
				 address);
	return s->over == OVER_TLS ? tls_new(&sink->config, s->host, &s->tls, error) : 0;
}

/*
 * The end of a connection over which everything was sent: says so, and waits for the peer to end it, too. A socket that is closed
 * while something lies in it unread is reset, and what the peer did not read yet would be gone.
 */
static void goodbye(struct sink *sink)
{
	struct syslog *s = sink->state;
	char dropped[1024];
	ssize_t n = 1;

	tls_close(s->tls);
	if (shutdown(s->fd, SHUT_WR) < 0)
		return;
	while (n > 0 || (n < 0 && errno == EAGAIN)) {
		if (sink_wait(sink, s->fd, POLLIN, GOODBYE_MS) < 0)
			return;
		n = recv(s->fd, dropped, sizeof(dropped), MSG_DONTWAIT);
	}
}

static void syslog_close(struct sink *sink, bool last)
{
	struct syslog *s = sink->state;

	if (last && s->fd >= 0 && s->over != OVER_UNIX && !s->batch.used)
		goodbye(sink);
	tls_close(s->tls);
	if (s->fd >= 0)
		close(TAKE_FD(s->fd));
	sink_batch_rewind(&s->batch, sink);
}

static void syslog_free(struct sink *sink)
{
	struct syslog *s = sink->state;

	if (!s)
		return;
	tls_free(s->tls);
	if (s->fd >= 0)
		close(s->fd);
	sink_batch_clear(&s->batch);
	free(s->address);
	free(s);
	sink->state = NULL;
}

static int syslog_open(struct sink *sink, struct error *error)
{
	struct syslog *s = sink->state;

	s->fd = s->over == OVER_UNIX ? net_connect_unix(s->path, SOCK_DGRAM, error)
				     : net_connect_tcp(sink, s->host, s->port, error);
	if (s->fd < 0)
		return s->fd;
	return s->over == OVER_TLS ? tls_connect(s->tls, sink, s->fd, error) : 0;
}

/* --- records ---------------------------------------------------------------------------------------------------------- */

/* RFC 5424, table 2. What was denied is a warning, what was lost an error. */
static unsigned int severity(const struct sink_item *item)
{
	enum { CRITICAL = 2, ERROR, WARNING, NOTICE, INFORMATIONAL };

	if (item->op == CORDON_OP_BROKEN)
		return CRITICAL;
	if (item->type == CORDON_TYPE_LOSS)
		return ERROR;
	if (item->type == CORDON_TYPE_LIMIT || item->verdict == CORDON_VERDICT_DENY)
		return WARNING;
	return item->verdict == CORDON_VERDICT_WOULD_DENY ? NOTICE : INFORMATIONAL;
}

/* A field of the head: visible ASCII of so many characters, or "-". */
static void field_copy(char *out, size_t size, const char *text)
{
	size_t n = 0;

	for (; text && *text && n < size - 1; text++)
		out[n++] = *text > ' ' && *text < 0x7f ? *text : '?';
	if (!n)
		out[n++] = '-';
	out[n] = '\0';
}

/* Everything before the text. Returns its length. */
static size_t head_put(const struct sink *sink, const struct sink_item *item, char out[HEAD_MAX])
{
	char time[EVENT_TIME_SIZE], node[256], app[49];

	event_format_time(item->time_ns, time);
	strcpy(time + 26, "Z"); /* six digits are all that the format takes */
	field_copy(node, sizeof(node), sink->node);
	field_copy(app, sizeof(app), sink->config.app ? sink->config.app : "cordon");
	return (size_t)snprintf(out, HEAD_MAX, "<%u>1 %s %s %s %d %s - ",
				sink->config.facility * 8 + severity(item), time, node, app,
				(int)getpid(), event_type_name(item->type));
}

static int datagram_put(struct sink *sink, const char *head, size_t n_head, const char *text,
			size_t size, struct error *error)
{
	struct syslog *s = sink->state;
	struct iovec parts[] = { { (void *)(uintptr_t)head, n_head },
				 { (void *)(uintptr_t)text, size } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts) };

	while (sendmsg(s->fd, &message, MSG_NOSIGNAL) < 0) {
		int err = errno, r;

		if (err == EINTR)
			continue;
		if (err == EMSGSIZE)
			return SINK_REFUSED;
		if (err != EAGAIN && err != ENOBUFS)
			return error_set(error, err, "%s: %s", s->path, strerror(err));
		r = sink_wait(sink, s->fd, POLLOUT, NET_TIMEOUT_MS);
		if (r < 0)
			return error_set(error, -r, "%s: %s", s->path, strerror(-r));
	}
	return SINK_SENT;
}

static int syslog_put(struct sink *sink, const struct sink_item *item, const char *text,
		      struct error *error)
{
	struct syslog *s = sink->state;
	size_t size = item->size - 1, n_head, n_count; /* without its newline */
	char head[HEAD_MAX], count[24], *out;

	n_head = head_put(sink, item, head);
	if (s->over == OVER_UNIX)
		return datagram_put(sink, head, n_head, text, size, error);
	n_count = (size_t)snprintf(count, sizeof(count), "%zu ", n_head + size);
	out = sink_batch_reserve(&s->batch, n_count + n_head + size);
	if (!out)
		return s->batch.used ? -EAGAIN : -ENOMEM;
	memcpy(out, count, n_count);
	memcpy(out + n_count, head, n_head);
	memcpy(out + n_count + n_head, text, size);
	sink_batch_add(&s->batch, n_count + n_head + size, true);
	return SINK_TAKEN;
}

/* Did the peer end the connection? What is sent then would be lost unseen. */
static bool peer_is_gone(const struct syslog *s)
{
	char dropped[1024];
	ssize_t n;

	if (s->over == OVER_TLS)
		return tls_is_over(s->tls);
	do {
		n = recv(s->fd, dropped, sizeof(dropped), MSG_DONTWAIT);
	} while (n > 0);
	return n == 0 || (errno != EAGAIN && errno != EINTR);
}

static ssize_t some_write(struct sink *sink, const char *p, size_t n, struct error *error)
{
	struct syslog *s = sink->state;

	if (s->over == OVER_TLS)
		return tls_write(s->tls, sink, s->fd, p, n, error);
	for (;;) {
		ssize_t done = send(s->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		int r;

		if (done >= 0)
			return done;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return error_set(error, errno, "%s: %s", s->host, strerror(errno));
		r = sink_wait(sink, s->fd, POLLOUT, NET_TIMEOUT_MS);
		if (r < 0)
			return error_set(error, -r, "%s: the peer does not read", s->host);
	}
}

static int syslog_flush(struct sink *sink, struct error *error)
{
	struct syslog *s = sink->state;
	struct sink_batch *batch = &s->batch;

	if (batch->done < batch->used && peer_is_gone(s))
		return error_set(error, ECONNRESET, "%s: the peer ended the connection", s->host);
	while (batch->done < batch->used) {
		ssize_t n = some_write(sink, batch->bytes + batch->done, batch->used - batch->done,
				       error);

		if (n < 0)
			return (int)n;
		sink_batch_advance(batch, (size_t)n, sink);
	}
	return 0;
}

static int syslog_tick(struct sink *sink, struct error *error)
{
	struct syslog *s = sink->state;

	if (s->over != OVER_UNIX && peer_is_gone(s))
		return error_set(error, ECONNRESET, "%s: the peer ended the connection", s->host);
	return 0;
}

const struct sink_kind sink_kind_syslog = {
	.prepare = syslog_prepare,
	.open = syslog_open,
	.put = syslog_put,
	.flush = syslog_flush,
	.tick = syslog_tick,
	.close = syslog_close,
	.free = syslog_free,
};
