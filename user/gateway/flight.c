// SPDX-License-Identifier: Apache-2.0
/*
 * See flight.h. In a thread of the pool, which may wait: the credential, the transfer, and the client's side of it. The event is
 * written before the first byte of the answer leaves, and so is the ledger, where the scope works once. Fails closed: an answer
 * in which a secret could not be seen is not passed on.
 */
#include "gateway/flight.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "admin/report.h"
#include "gateway/callers.h"
#include "gateway/upstream.h"

time_t flight_now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec;
}

/* --- the record ------------------------------------------------------------------------------- */

static int64_t latency_us(const struct flight *flight)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)(now.tv_sec - flight->start.tv_sec) * 1000000 +
	       (now.tv_nsec - flight->start.tv_nsec) / 1000;
}

void flight_record(const struct flight *flight)
{
	const struct ledger_answer *answer = &flight->job.answer;
	struct report_row row = {
		.op = CORDON_OP_CALL,
		.code = flight->code,
		.caller = flight->caller ? &flight->caller->id : NULL,
		.reason = flight->reason[0] ? flight->reason : NULL,
		.gateway = { .tool = flight->tool,
			     .action = flight->action,
			     .scope = flight->scope,
			     .grant = flight->grant[0] ? flight->grant : NULL,
			     .key = flight->key[0] ? flight->key : NULL,
			     .upstream_status = flight->result.status ? flight->result.status : -1,
			     .latency_us = latency_us(flight) },
		.record_seq = answer->record_seq,
		.record_hash = answer->record_seq ? answer->record_hash : NULL,
	};

	report_write(flight->gateway->report, &row);
}

/* --- what it may still: in the pool's thread -------------------------------------------------- */

static const char taken[] = "the configuration does not open this any more";

static bool has_scope(const void *who, const char *scope)
{
	return caller_has_scope(who, scope);
}

/* By another configuration than that which it began with. A scope that works once now opens nothing that came without a key. */
static bool is_opened(const struct flight *flight, const struct gwconf *conf)
{
	const struct gwconf_access *access = NULL, *lacking;

	for (size_t i = 0; i < conf->n_upstreams; i++) {
		const struct gwconf_upstream *upstream = &conf->upstreams[i];

		if (upstream->n_access && !strcmp(upstream->name, flight->upstream->name) &&
		    !strcmp(upstream->url, flight->upstream->url))
			access = filter_access(upstream, flight->method, strlen(flight->method),
					       flight->target, strcspn(flight->target, "?"),
					       has_scope, &flight->caller->id, &lacking);
	}
	return access && (access->once == GWCONF_ONCE_NOT || flight->once);
}

/* Cheap while the configuration is the same, and asked before each piece. */
static bool may_go_on(struct flight *flight)
{
	unsigned int generation = atomic_load(&flight->gateway->generation);
	struct setup *setup;

	if (flight->stop != LEDGER_OK || generation == flight->generation)
		return flight->stop == LEDGER_OK;
	flight->generation = generation;
	setup = gateway_setup(flight->gateway);
	if (setup != flight->setup && !is_opened(flight, setup->conf))
		flight->stop = LEDGER_SCOPE_DENIED;
	setup_unref(setup);
	return flight->stop == LEDGER_OK;
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

/* Of what works once: the ledger learns what came of it before anybody else does. */
static void settle(struct flight *flight, enum ledger_state outcome)
{
	const struct upstream_answer came = { .outcome = outcome, .status = flight->result.status };

	if (!flight->call || flight->settled)
		return;
	flight->settled = true;
	ledger_answer_clear(&flight->job.answer);
	upstream_settle(flight->gateway, flight->call, &came, &flight->job.answer);
}

/* As with tools: only what the upstream refuses, and speaks of no other attempt, has had no effect. */
static enum ledger_state outcome_of(long status)
{
	if (status >= 200 && status < 300)
		return LEDGER_STATE_DONE;
	return status >= 400 && status < 500 && status != 408 && status != 409
		       ? LEDGER_STATE_FAILED
		       : LEDGER_STATE_AMBIGUOUS;
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
	settle(flight, outcome_of(status));
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

	if (!may_go_on(flight))
		return -EACCES;
	return flight->chunked ? write_all(flight, iov, 3) : write_all(flight, &iov[1], 1);
}

static bool on_gone(struct send_sink *sink)
{
	struct flight *flight = flight_of(sink);
	struct pollfd state = { .fd = flight->fd, .events = POLLRDHUP };

	return !may_go_on(flight) ||
	       (poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)));
}

/* Was the connection ended here? A client that has only said its last is still there. */
static bool is_cut(const struct flight *flight)
{
	struct pollfd state = { .fd = flight->fd };

	return poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR));
}

/* --- a body that comes in pieces --------------------------------------------------------------- */

/* Bytes that the client sends, when they come; <= 0: none come any more. */
static ssize_t receive(struct flight *flight, char *p, size_t n)
{
	struct pollfd ready = { .fd = flight->fd, .events = POLLIN };
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	ssize_t got;

	if (flight->goes_on) {
		struct iovec iov = { (void *)(uintptr_t)go_on, sizeof(go_on) - 1 };

		flight->goes_on = false;
		if (write_all(flight, &iov, 1) < 0)
			return -1;
	}
	do {
		got = recv(flight->fd, p, n, MSG_DONTWAIT);
	} while (got < 0 && (errno == EINTR ||
			     (errno == EAGAIN && poll(&ready, 1, (int)flight->wait_ms) > 0)));
	return got;
}

/* More of it, through what looks for placeholders. false: nothing of it may go on, or nothing came. */
static bool source_fill(struct flight *flight, char *p, size_t n)
{
	const char *more = p;
	ssize_t got;

	if (flight->body_at < flight->body_n) {
		more = flight->body + flight->body_at;
		got = (ssize_t)(flight->body_n - flight->body_at);
		got = got < (ssize_t)n ? got : (ssize_t)n;
		flight->body_at += (size_t)got;
	} else {
		got = receive(flight, p, n < flight->body_left ? n : (size_t)flight->body_left);
		if (got <= 0 || !may_go_on(flight))
			return false;
		flight->body_left -= (uint64_t)got;
		if (!caller_upload(flight->caller, (uint64_t)got)) {
			flight->stop = LEDGER_UPLOAD_EXHAUSTED;
			return false;
		}
	}
	return canary_watch_feed(&flight->watch, more, (size_t)got,
				 flight->body_at == flight->body_n && !flight->body_left,
				 &flight->ready, &flight->ready_n, &flight->whose) == 0 &&
	       !flight->whose;
}

static ssize_t on_source(struct send_source *source, char *p, size_t n)
{
	struct flight *flight = (struct flight *)((char *)source - offsetof(struct flight, source));

	/* What is held back leaves nothing to send for now. */
	while (!flight->ready_n)
		if (!source_fill(flight, p, n))
			return -1;
	n = n < flight->ready_n ? n : flight->ready_n;
	if (flight->ready != p)
		memmove(p, flight->ready, n);
	flight->ready += n;
	flight->ready_n -= n;
	return (ssize_t)n;
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
	if (flight->whose) {
		flight->code = LEDGER_PLACEHOLDER_SEEN;
		snprintf(flight->reason, sizeof(flight->reason), "that of upstream %s",
			 flight->whose);
		flight_record(flight);
		return;
	}
	if (flight->stop == LEDGER_UPLOAD_EXHAUSTED) {
		fail(flight, flight->stop, "in the body");
		flight_record(flight);
		return;
	}
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
		if (flight->stop != LEDGER_OK)
			fail(flight, flight->stop, taken);
		else
			fail(flight, LEDGER_EXECUTION_FAILED, "the upstream did not answer");
	}
	settle(flight, flight->result.status		      ? outcome_of(flight->result.status)
		       : flight->result.end == SEND_AMBIGUOUS ? LEDGER_STATE_AMBIGUOUS
							      : LEDGER_STATE_FAILED);
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
		.source = flight->body_left ? &flight->source : NULL,
		.secret = flight->upstream->has_credential ? &flight->secret : NULL,
	};

	flight->sink = (struct send_sink){ on_begin, on_body, on_gone };
	if (flight->body_left) {
		flight->source = (struct send_source){ on_source, flight->length };
		canary_watch_start(&flight->watch, flight->setup->canaries);
	}
	send_run(&request, &flight->sink, &flight->result);
	canary_watch_end(&flight->watch);
	if (!flight->result.began) {
		judge_end(flight);
		return;
	}
	if (flight->stop != LEDGER_OK) {
		fail(flight, flight->stop,
		     flight->stop == LEDGER_UPLOAD_EXHAUSTED ? "in the body" : taken);
		flight_record(flight);
	}
	flight->whole = flight->result.end == SEND_WHOLE;
	if (flight->whole && flight->chunked) {
		struct iovec end = { (void *)(uintptr_t) "0\r\n\r\n", 5 };

		flight->whole = write_all(flight, &end, 1) == 0;
	}
}

/* One use of the credential, where a fence has so many, or for so long. */
static int take_use(struct flight *flight)
{
	const struct gwconf_credential *credential = &flight->upstream->credential;
	int r = 0;

	if (credential->uses || credential->lifetime_ms)
		r = share_use(flight->caller->share, flight->upstream->name, credential->uses,
			      credential->lifetime_ms);
	if (r == -ENOMEM)
		fail(flight, LEDGER_UNAVAILABLE, "out of memory");
	else if (r < 0)
		fail(flight, LEDGER_CREDENTIAL_EXHAUSTED,
		     r == -ETIME ? "the lifetime of the upstream's credential in this fence is over"
				 : "the fence has had all uses of the upstream's credential");
	return r;
}

/* Bytes of it that are the fence's, but for what is still to be read. */
static uint64_t size_of(const struct flight *flight)
{
	uint64_t n = strlen(flight->method) + strlen(flight->target) + flight->body_n;

	for (size_t i = 0; i < flight->n_headers; i++)
		n += strlen(flight->headers[i]);
	return n;
}

static int take_upload(struct flight *flight)
{
	if (caller_upload(flight->caller, size_of(flight)))
		return 0;
	fail(flight, LEDGER_UPLOAD_EXHAUSTED, "it would be beyond limits.upload of the fence");
	return -EDQUOT;
}

/* Everything that is needed to send it. */
static int prepare(struct flight *flight)
{
	const struct identity *id = &flight->caller->id;
	struct error error = { "" };
	int r;

	/* Another gateway may be about to take the call for one whose gateway died. */
	if (flight->call && flight_now_s() - flight->ready_s >= LEDGER_LEASE_S / 2) {
		fail(flight, LEDGER_OVERLOADED, "it waited too long; nothing was sent");
		return -ETIME;
	}
	if (!may_go_on(flight)) {
		fail(flight, LEDGER_SCOPE_DENIED, taken);
		return -EACCES;
	}
	if (is_cut(flight)) {
		fail(flight, LEDGER_OVERLOADED, "the client has gone; nothing was sent");
		return -ECONNRESET;
	}
	if (!flight->upstream->has_credential)
		return take_upload(flight);
	r = secret_get(flight->secrets, flight->upstream, id->subject, id->tenant, &flight->secret,
		       &error);
	if (r == 0) {
		r = take_upload(flight);
		return r < 0 ? r : take_use(flight);
	}
	fail(flight, LEDGER_UNAVAILABLE, error.text[0] ? error.text : "out of memory");
	flight->public =
		"the gateway cannot have the credential of this upstream; nothing was sent";
	return r;
}

void flight_run(struct pool_task *task)
{
	struct flight *flight = (struct flight *)((char *)task - offsetof(struct flight, task));

	if (prepare(flight) == 0) {
		send_it(flight);
	} else {
		settle(flight, LEDGER_STATE_FAILED);
		flight_record(flight);
	}
	secret_release(&flight->secret);
	worker_post(&flight->work);
}
