// SPDX-License-Identifier: Apache-2.0
/*
 * /up/NAME/...: requests of fences to upstreams, with credentials that no fence ever has. Phases, each refusal with an event:
 *
 *   identify   which fence is this, and does it live                          -> 401
 *   authorize  is there such an upstream, and does a scope of the fence open
 *              this method and path of it                                     -> 404, 403
 *   select     headers that may go, a query that names no credential          -> 400
 *   fetch      the credential, in a thread that may wait                      -> 503
 *   send       the request; the event is written when the upstream's head is there, and before any byte of the answer leaves
 *   pass       the body as it comes, by that thread, to a descriptor of the connection
 *
 * There is no key and no ledger here: what a repeated request means is the upstream's matter. Fails closed: what cannot be
 * recorded is not sent, and an answer in which a secret could not be seen is not passed on.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "admin/report.h"
#include "broker/send.h"
#include "gateway/call.h"
#include "gateway/pool.h"

#define HEADERS_MAX 64

struct flight {
	struct work work; /* first: resume() gets it */
	struct pool_task task;
	struct send_sink sink;
	struct gateway *gateway;
	struct setup *setup;
	const struct gwconf_upstream *upstream; /* the setup's; NULL: there is no such */
	struct secret_store *secrets;
	struct caller *caller;
	const char *scope; /* the setup's: that opened it, or would; or NULL */
	char *method, *target, *body;
	size_t body_n;
	char *headers[HEADERS_MAX + 1];
	size_t n_headers;
	char action[288], tool[80];
	int fd;	       /* of the connection, our own; -1 */
	bool persists; /* another request may follow on it */
	bool old;      /* HTTP/1.0: the end of the connection ends the body */
	bool chunked, whole;
	long long wait_ms; /* for a client that does not read */
	enum ledger_code code;
	char reason[200];     /* for the event */
	const char *public;   /* for the caller; NULL: the same */
	struct secret secret; /* in the pool's thread only */
	struct send_result result;
	struct timespec start;
};

/* --- the record ------------------------------------------------------------------------------- */

static int64_t latency_us(const struct flight *flight)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)(now.tv_sec - flight->start.tv_sec) * 1000000 +
	       (now.tv_nsec - flight->start.tv_nsec) / 1000;
}

/* Any thread. */
static void flight_record(const struct flight *flight)
{
	struct report_row row = {
		.op = CORDON_OP_CALL,
		.code = flight->code,
		.caller = flight->caller ? &flight->caller->id : NULL,
		.reason = flight->reason[0] ? flight->reason : NULL,
		.gateway = { .tool = flight->tool,
			     .action = flight->action,
			     .scope = flight->scope,
			     .upstream_status = flight->result.status ? flight->result.status : -1,
			     .latency_us = latency_us(flight) },
	};

	report_write(flight->gateway->report, &row);
}

/* --- the client's side: in the pool's thread -------------------------------------------------- */

static struct flight *flight_of(struct send_sink *sink)
{
	return (struct flight *)((char *)sink - offsetof(struct flight, sink));
}

/* Writes all of it, or says that the client does not take it. */
static int write_all(struct flight *flight, struct iovec *iov, int n)
{
	while (n) {
		struct msghdr message = { .msg_iov = iov, .msg_iovlen = (size_t)n };
		ssize_t sent = sendmsg(flight->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EAGAIN) {
			struct pollfd ready = { .fd = flight->fd, .events = POLLOUT };

			if (poll(&ready, 1, (int)flight->wait_ms) <= 0)
				return -ETIMEDOUT;
			continue;
		}
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return -errno;
		for (; n && (size_t)sent >= iov->iov_len; iov++, n--)
			sent -= (ssize_t)iov->iov_len;
		if (n) {
			iov->iov_base = (char *)iov->iov_base + sent;
			iov->iov_len -= (size_t)sent;
		}
	}
	return 0;
}

/* The decision stands, and is written down before the first byte of the answer. */
static int on_begin(struct send_sink *sink, long status, const char *headers, long long length,
		    bool bodiless)
{
	struct flight *flight = flight_of(sink);
	char *head = NULL, framing[64] = "";
	struct iovec iov;
	int n, r;

	/* Before the client hears of it, and may ask again. */
	if (status == 401)
		secret_forget(flight->secrets, &flight->secret);
	flight->code = LEDGER_OK;
	flight->chunked = !bodiless && length < 0 && !flight->old;
	if (length >= 0 && status != 204)
		snprintf(framing, sizeof(framing), "Content-Length: %lld\r\n", length);
	else if (flight->chunked)
		snprintf(framing, sizeof(framing), "Transfer-Encoding: chunked\r\n");
	else if (!bodiless)
		flight->persists = false;
	flight_record(flight);
	n = asprintf(&head, "HTTP/1.1 %ld %s\r\n%s%s%s\r\n", status, status < 400 ? "OK" : "Error",
		     headers, framing, flight->persists ? "" : "Connection: close\r\n");
	if (n < 0)
		return -ENOMEM;
	iov = (struct iovec){ head, (size_t)n };
	r = write_all(flight, &iov, 1);
	free(head);
	return r;
}

static int on_body(struct send_sink *sink, const char *p, size_t n)
{
	struct flight *flight = flight_of(sink);
	char size[24];
	struct iovec iov[3] = { { size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n) },
				{ (void *)(uintptr_t)p, n },
				{ (void *)(uintptr_t) "\r\n", 2 } };

	return flight->chunked ? write_all(flight, iov, 3) : write_all(flight, &iov[1], 1);
}

static bool on_gone(struct send_sink *sink)
{
	struct flight *flight = flight_of(sink);
	struct pollfd state = { .fd = flight->fd, .events = POLLRDHUP };

	return poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* --- in the pool's thread --------------------------------------------------------------------- */

static void fail(struct flight *flight, enum ledger_code code, const char *reason)
{
	flight->code = code;
	snprintf(flight->reason, sizeof(flight->reason), "%s", reason);
}

/* What the end of the transfer means where nothing of the answer was passed on. */
static void judge_end(struct flight *flight)
{
	switch (flight->result.end) {
	case SEND_AMBIGUOUS:
		fail(flight, LEDGER_OUTCOME_AMBIGUOUS,
		     "the upstream did not answer; whether it did something is not known");
		break;
	case SEND_TOO_LONG:
		fail(flight, LEDGER_EXECUTION_FAILED,
		     "the upstream's answer is longer than answer_bytes, and was not passed on");
		break;
	case SEND_UNSEEN:
		fail(flight, LEDGER_EXECUTION_FAILED,
		     "the upstream's answer is encoded, and was not passed on");
		break;
	default:
		fail(flight, LEDGER_EXECUTION_FAILED, "the upstream did not answer");
	}
	flight_record(flight);
}

static void send_it(struct flight *flight)
{
	const struct send_request request = {
		.upstream = flight->upstream,
		.method = flight->method,
		.target = flight->target,
		.headers = flight->headers,
		.body = flight->body,
		.body_n = flight->body_n,
		.secret = flight->upstream->has_credential ? &flight->secret : NULL,
	};

	send_run(&request, &flight->sink, &flight->result);
	if (!flight->result.began) {
		judge_end(flight);
		return;
	}
	flight->whole = flight->result.end == SEND_WHOLE;
	if (flight->whole && flight->chunked) {
		struct iovec end = { (void *)(uintptr_t) "0\r\n\r\n", 5 };

		flight->whole = write_all(flight, &end, 1) == 0;
	}
}

static void on_task(struct pool_task *task)
{
	struct flight *flight = (struct flight *)((char *)task - offsetof(struct flight, task));
	const struct identity *id = &flight->caller->id;
	struct error error = { "" };
	int r = 0;

	if (flight->upstream->has_credential)
		r = secret_get(flight->secrets, flight->upstream, id->subject, id->tenant,
			       &flight->secret, &error);
	if (r < 0) {
		fail(flight, LEDGER_UNAVAILABLE, error.text[0] ? error.text : "out of memory");
		flight->public =
			"the gateway cannot have the credential of this upstream; nothing was sent";
		flight_record(flight);
	} else {
		send_it(flight);
	}
	secret_release(&flight->secret);
	worker_post(&flight->work);
}

/* --- in the worker ---------------------------------------------------------------------------- */

static void flight_free(struct flight *flight)
{
	if (flight->fd >= 0)
		close(flight->fd);
	for (size_t i = 0; i < flight->n_headers; i++)
		free(flight->headers[i]);
	free(flight->method);
	free(flight->target);
	free(flight->body);
	caller_unref(flight->caller);
	setup_unref(flight->setup);
	free(flight);
}

static void on_resume(struct work *work)
{
	struct flight *flight = (struct flight *)work;
	struct conn *conn = work->conn;

	/* First: the answer may begin the next request. */
	work_end(work);
	if (conn && flight->result.began)
		conn_streamed(conn, flight->whole && flight->persists);
	else if (conn)
		conn_refuse(conn, flight->code, flight->public ? flight->public : flight->reason);
	flight_free(flight);
}

static bool has_scope(const void *who, const char *scope)
{
	return caller_has_scope(who, scope);
}

static int refuse(struct flight *flight, enum ledger_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int refuse(struct flight *flight, enum ledger_code code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(flight->reason, sizeof(flight->reason), format, args);
	va_end(args);
	flight->code = code;
	return -EACCES;
}

/* /up/NAME/rest: the name, and the rest with its slash, "/" where there is none. */
static void split_path(const struct head_text *path, struct head_text *ret_name,
		       struct head_text *ret_rest)
{
	const char *p = path->p + 4, *end = path->p + path->n;
	const char *slash = memchr(p, '/', (size_t)(end - p));

	*ret_name = (struct head_text){ p, (size_t)((slash ? slash : end) - p) };
	*ret_rest = slash ? (struct head_text){ slash, (size_t)(end - slash) }
			  : (struct head_text){ "/", 1 };
}

static int identify(struct flight *flight, const struct request *request)
{
	if (!request->caller)
		return refuse(flight, LEDGER_UNAUTHENTICATED,
			      "this connection was not made by a fence");
	if (!identity_alive(request->gateway->identity, request->caller->id.fence_id))
		return refuse(flight, LEDGER_UNAUTHENTICATED, "the fence has ended");
	return 0;
}

static int authorize(struct flight *flight, const struct request *request,
		     const struct head_text *name, const struct head_text *rest)
{
	const struct gwconf *conf = request->setup->conf;
	const struct gwconf_access *access, *lacking;

	for (size_t i = 0; i < conf->n_upstreams; i++)
		if (conf->upstreams[i].n_access && head_text_is(name, conf->upstreams[i].name)) {
			flight->upstream = &conf->upstreams[i];
			flight->secrets = request->setup->secrets[i];
		}
	if (!flight->upstream)
		return refuse(flight, LEDGER_TOOL_UNKNOWN, "no such upstream");
	access = filter_access(flight->upstream, request->head->name.p, request->head->name.n,
			       rest->p, rest->n, has_scope, &request->caller->id, &lacking);
	if (access) {
		flight->scope = access->scope;
		return 0;
	}
	if (!lacking)
		return refuse(flight, LEDGER_SCOPE_DENIED,
			      "no scope opens this method and path of the upstream");
	flight->scope = lacking->scope;
	return refuse(flight, LEDGER_SCOPE_DENIED, "it needs the scope %s", lacking->scope);
}

static int select_headers(struct flight *flight, const struct request *request)
{
	const struct gwconf_upstream *upstream = flight->upstream;
	struct head_text rest = request->head->lines, name, value;

	if (upstream->credential.query &&
	    filter_query_names(request->head->query.p, request->head->query.n,
			       upstream->credential.query))
		return refuse(
			flight, LEDGER_MALFORMED_REQUEST,
			"the query has the parameter of the credential, which is not yours to set");
	while (head_next(&rest, &name, &value)) {
		if (!filter_request_header(upstream, name.p, name.n))
			continue;
		if (flight->n_headers == HEADERS_MAX)
			return refuse(flight, LEDGER_MALFORMED_REQUEST, "too many headers");
		/* A header without a value is written with a semicolon to libcurl. */
		if (asprintf(&flight->headers[flight->n_headers], "%.*s%s%.*s", (int)name.n, name.p,
			     value.n ? ": " : ";", (int)value.n, value.p) < 0) {
			flight->headers[flight->n_headers] = NULL;
			return refuse(flight, LEDGER_OVERLOADED, "out of memory");
		}
		flight->n_headers++;
	}
	return 0;
}

/* Copies what is needed beyond this call. */
static int take_request(struct flight *flight, const struct request *request,
			const struct head_text *rest)
{
	const struct head *head = request->head;

	flight->method = strndup(head->name.p, head->name.n);
	if (asprintf(&flight->target, "%.*s%s%.*s", (int)rest->n, rest->p, head->query.p ? "?" : "",
		     (int)head->query.n, head->query.p ? head->query.p : "") < 0)
		flight->target = NULL;
	flight->body = malloc(request->body_n ? request->body_n : 1);
	if (!flight->method || !flight->target || !flight->body)
		return refuse(flight, LEDGER_OVERLOADED, "out of memory");
	if (request->body_n)
		memcpy(flight->body, request->body, request->body_n);
	flight->body_n = request->body_n;
	flight->old = head->minor == 0;
	flight->persists = conn_persists(request->conn);
	flight->fd = conn_borrow(request->conn);
	if (flight->fd < 0)
		return refuse(flight, LEDGER_OVERLOADED, "too many connections");
	return 0;
}

static int judge(struct flight *flight, const struct request *request)
{
	struct head_text name, rest;
	int r;

	split_path(&request->head->path, &name, &rest);
	snprintf(flight->tool, sizeof(flight->tool), "up/%.*s", (int)(name.n < 64 ? name.n : 64),
		 name.p);
	r = identify(flight, request);
	if (r == 0)
		r = authorize(flight, request, &name, &rest);
	if (r == 0)
		r = select_headers(flight, request);
	if (r == 0)
		r = take_request(flight, request, &rest);
	return r;
}

void up_handle(const struct request *request)
{
	const struct head *head = request->head;
	struct flight *flight;

	/* What nobody would see is not decided. */
	if (report_ready(request->gateway->report) < 0) {
		conn_refuse(request->conn, LEDGER_UNAVAILABLE, NULL);
		return;
	}
	flight = calloc(1, sizeof(*flight));
	if (!flight) {
		conn_refuse(request->conn, LEDGER_OVERLOADED, NULL);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &flight->start);
	flight->gateway = request->gateway;
	flight->setup = setup_ref(request->setup);
	flight->caller = caller_ref(request->caller);
	flight->fd = -1;
	flight->wait_ms = request->setup->conf->idle_ms;
	flight->sink = (struct send_sink){ on_begin, on_body, on_gone };
	snprintf(flight->action, sizeof(flight->action), "%.*s %.*s", (int)head->name.n,
		 head->name.p, (int)(head->path.n < 256 ? head->path.n : 256), head->path.p);
	flight->task.run = on_task;
	flight->task.owner = request->share;
	if (judge(flight, request) == 0) {
		conn_wait(request->conn, &flight->work);
		flight->work.resume = on_resume;
		if (pool_submit(request->gateway->streams, &flight->task) == 0)
			return;
		work_end(&flight->work);
		refuse(flight, LEDGER_OVERLOADED, "too many answers of upstreams at once");
	}
	flight_record(flight);
	conn_refuse(request->conn, flight->code, flight->reason);
	flight_free(flight);
}
