// SPDX-License-Identifier: Apache-2.0
/*
 * See proxy.h: a request for somebody else, from its decision to the end of its connection. Each decision is told before
 * what follows from it. Whatever fails before a connection is made is answered; after that the connection ends, and its
 * event says why.
 */
#include "proxy/tunnel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "gateway/callers.h"
#include "proxy/forward.h"
#include "proxy/own.h"

/* --- telling ---------------------------------------------------------------------------------- */

static int64_t elapsed_us(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - start->tv_sec) * 1000000 + (now.tv_nsec - start->tv_nsec) / 1000;
}

void tunnel_tell(struct tunnel *t, bool ended, enum ledger_code code, const char *reason)
{
	const struct tell tell = {
		.caller = &t->conn->caller->id,
		.code = code,
		.reason = reason,
		.action = t->action,
		.target = &t->target,
		.addr = t->at < t->n_addresses ? &t->addresses[t->at] : NULL,
		.latency_us = elapsed_us(&t->start),
		.up_bytes = t->up.bytes,
		.down_bytes = t->down.bytes,
	};

	tell_write(t->conn->worker->gateway->report, ended, &tell);
}

/* --- ending ----------------------------------------------------------------------------------- */

static void side_close(struct side *side)
{
	if (event_initialized(&side->event))
		event_del(&side->event);
}

void tunnel_end(struct tunnel *t)
{
	if (!t)
		return;
	if (t->told)
		tunnel_tell(t, true, t->end_code,
			    t->end ? t->end
				   : "cut: the fence or its policy changed, or the gateway stops");
	if (t->counted)
		atomic_fetch_sub(&t->conn->caller->share->tunnels, 1);
	lookup_forget(t->lookup);
	side_close(&t->client);
	side_close(&t->server);
	if (t->server.fd >= 0)
		close(t->server.fd);
	event_del(&t->timer);
	relay_free(t);
	setup_unref(t->setup);
	free(t);
}

void tunnel_revoke(struct tunnel *t)
{
	t->end = "cut: revoked";
}

void tunnel_finish(struct tunnel *t, enum ledger_code code, const char *why)
{
	struct conn *conn = t->conn;

	t->end = why;
	t->end_code = code;
	if (code != LEDGER_OK) {
		conn_close(conn);
		return;
	}
	conn->tunnel = NULL;
	tunnel_end(t);
	conn_linger(conn);
}

/* Before there is a connection: the answer, and the event before it. */
static void tunnel_refuse(struct tunnel *t, enum ledger_code code, const char *reason)
{
	struct conn *conn = t->conn;

	tunnel_tell(t, false, code, reason);
	conn->tunnel = NULL;
	tunnel_end(t);
	conn_refuse(conn, code, reason);
}

/* --- time ------------------------------------------------------------------------------------- */

static void timer_set(struct tunnel *t, uint64_t ms)
{
	const struct timeval tv = { .tv_sec = (time_t)(ms / 1000),
				    .tv_usec = (suseconds_t)(ms % 1000 * 1000) };

	event_add(&t->timer, &tv);
}

void tunnel_deadline(struct tunnel *t, long long ms)
{
	uint64_t at = server_now_ms() + (uint64_t)ms;
	bool sooner = at < t->deadline_ms;

	/* A timer that goes off too early finds that out; only one that is too late is set anew. */
	t->deadline_ms = at;
	if (sooner || !event_pending(&t->timer, EV_TIMEOUT, NULL))
		timer_set(t, (uint64_t)ms);
}

static void dial_next(struct tunnel *t);

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	struct tunnel *t = context;
	uint64_t now = server_now_ms();

	(void)fd;
	(void)what;
	if (now < t->deadline_ms) {
		timer_set(t, t->deadline_ms - now);
		return;
	}
	switch (t->state) {
	case TUNNEL_RESOLVE:
		tunnel_refuse(t, LEDGER_NAME_NOT_RESOLVED, "no resolver answered in time");
		break;
	case TUNNEL_DIAL:
		t->at++;
		dial_next(t);
		break;
	case TUNNEL_HELLO:
		tunnel_tell(t, false, LEDGER_HOST_MISMATCH, "no ClientHello in time");
		tunnel_finish(t, LEDGER_HOST_MISMATCH, "no ClientHello in time");
		break;
	case TUNNEL_RELAY:
		tunnel_finish(t, LEDGER_OK, "idle");
		break;
	}
}

/* --- connecting ------------------------------------------------------------------------------- */

static void connected(struct tunnel *t)
{
	struct gateway *gateway = t->conn->worker->gateway;

	if (!identity_alive(gateway->identity, t->conn->caller->id.fence_id)) {
		tunnel_refuse(t, LEDGER_UNAUTHENTICATED, "the fence has ended");
		return;
	}
	tunnel_tell(t, false, LEDGER_OK, NULL);
	t->told = true;
	relay_start(t);
}

static void on_server(evutil_socket_t fd, short what, void *context)
{
	struct tunnel *t = context;
	int err = 0;
	socklen_t size = sizeof(err);

	t->server.readable |= (what & EV_READ) != 0;
	t->server.writable |= (what & EV_WRITE) != 0;
	if (t->state != TUNNEL_DIAL) {
		relay_pump(t);
	} else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) < 0 || err) {
		t->at++;
		dial_next(t);
	} else if (what & EV_WRITE) {
		connected(t);
	}
}

/* A socket on its way to the address; -1: it did not even leave. */
static int dial(const struct cordon_addr *addr, uint16_t port)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(addr->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
			IPPROTO_TCP);
	const int on = 1;
	int r;

	if (fd < 0)
		return -1;
	memcpy(&in6.sin6_addr, addr->b, 16);
	memcpy(&in.sin_addr, addr->b + 12, 4);
	setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	r = addr->v6 ? connect(fd, (struct sockaddr *)&in6, sizeof(in6))
		     : connect(fd, (struct sockaddr *)&in, sizeof(in));
	if (r == 0 || errno == EINPROGRESS)
		return fd;
	close(fd);
	return -1;
}

static void dial_next(struct tunnel *t)
{
	side_close(&t->server);
	if (t->server.fd >= 0)
		close(TAKE_FD(t->server.fd));
	t->server.readable = t->server.writable = false;
	for (; t->at < t->n_addresses; t->at++) {
		t->server.fd = dial(&t->addresses[t->at], t->target.port);
		if (t->server.fd >= 0)
			break;
	}
	if (t->server.fd < 0) {
		tunnel_refuse(t, LEDGER_UPSTREAM_UNREACHABLE, NULL);
		return;
	}
	t->state = TUNNEL_DIAL;
	tunnel_deadline(t, t->setup->conf->dial_ms / (long long)t->n_addresses + 1);
	event_assign(&t->server.event, t->conn->worker->base, t->server.fd,
		     EV_READ | EV_WRITE | EV_PERSIST | EV_ET, on_server, t);
	event_add(&t->server.event, NULL);
}

/* --- addresses -------------------------------------------------------------------------------- */

/* Keeps those that may be dialled. Returns why others were not: the last of them, or metadata; NULL: none was refused. */
static const char *addresses_judge(struct tunnel *t, const struct cordon_addr *addresses, size_t n,
				   struct cordon_addr *ret_refused)
{
	const struct identity *id = &t->conn->caller->id;
	const char *refused = NULL;

	for (size_t i = 0; i < n; i++) {
		int own = own_judge(t->proxy->own_fd, &addresses[i]);
		const char *why = reach_decide_address(&addresses[i], t->target.port, own > 0,
						       id->allow, id->n_allow);

		if (!why && own >= 0)
			t->addresses[t->n_addresses++] = addresses[i];
		if (!why)
			continue;
		refused = why;
		*ret_refused = addresses[i];
		if (!strcmp(why, REACH_METADATA))
			break;
	}
	return refused;
}

static void on_names(void *context, const struct cordon_addr *addresses, size_t n)
{
	struct tunnel *t = context;
	struct cordon_addr refused;
	const char *why;
	char reason[96];

	if (!n) {
		tunnel_refuse(t, LEDGER_NAME_NOT_RESOLVED, NULL);
		return;
	}
	why = addresses_judge(t, addresses, n, &refused);
	if (why && (!t->n_addresses || !strcmp(why, REACH_METADATA))) {
		/* For the event: which one it was. The caller learns of what kind. */
		t->addresses[0] = refused;
		t->n_addresses = 1;
		snprintf(reason, sizeof(reason), "the name leads to an address of kind `%s`", why);
		tunnel_refuse(t, LEDGER_ADDRESS_DENIED, reason);
		return;
	}
	dial_next(t);
}

/* --- the request ------------------------------------------------------------------------------ */

static struct proxy *proxy_of(struct worker *worker, struct setup *setup)
{
	struct proxy *proxy = worker->proxy;

	if (!proxy) {
		proxy = calloc(1, sizeof(*proxy));
		if (!proxy)
			return NULL;
		proxy->worker = worker;
		proxy->own_fd = -1;
		worker->proxy = proxy;
	}
	if (proxy->own_fd < 0)
		proxy->own_fd = own_open();
	/* Another configuration may name other servers, and /etc/resolv.conf is read again. */
	if (proxy->names && proxy->generation != worker->generation)
		names_close(TAKE_PTR(proxy->names), false);
	if (!proxy->names)
		proxy->names = names_open(worker->base, setup->conf->nameservers);
	proxy->generation = worker->generation;
	return proxy->names && proxy->own_fd >= 0 ? proxy : NULL;
}

void proxy_close(struct proxy *proxy)
{
	if (!proxy)
		return;
	names_close(proxy->names, true);
	if (proxy->own_fd >= 0)
		close(proxy->own_fd);
	while (proxy->n_pipes) {
		proxy->n_pipes--;
		close(proxy->pipes[proxy->n_pipes].in);
		close(proxy->pipes[proxy->n_pipes].out);
	}
	free(proxy);
}

/*
 * Host is for the server that it names: it is the one that is asked, or somebody is being led around the decision. That of
 * a CONNECT goes nowhere, and some clients put the proxy's name there; for whom a tunnel is the ClientHello says.
 */
static bool host_agrees(const struct tunnel *t, const struct head *head)
{
	struct reach_target host;
	const char *reason;

	if (t->connect || !head->host.p)
		return true; /* without one: HTTP/1.0 */
	return reach_target_read(head->host.p, head->host.n, REACH_PORT_HTTP, &host, &reason) ==
		       0 &&
	       host.port == t->target.port && !strcmp(host.name.s, t->target.name.s);
}

/* What can be said before anybody is asked for anything. */
static enum ledger_code request_judge(struct tunnel *t, const struct head *head,
				      const char **ret_reason)
{
	const struct caller *caller = t->conn->caller;
	uint16_t port = t->connect ? 0 : REACH_PORT_HTTP;
	const char *reason;

	*ret_reason = NULL;
	switch (reach_target_read(head->authority.p, head->authority.n, port, &t->target,
				  &reason)) {
	case 0:
		break;
	case REACH_ADDRESS:
		t->target.name.n = 0;
		*ret_reason = reason;
		return LEDGER_ADDRESS_DENIED;
	default:
		t->target.name.n = 0;
		*ret_reason = reason;
		return LEDGER_MALFORMED_REQUEST;
	}
	if (t->connect && head->has_length && head->length) {
		*ret_reason = "a body where none belongs";
		return LEDGER_MALFORMED_REQUEST;
	}
	switch (reach_decide_target(caller->id.domains, caller->id.domains_size, &t->target)) {
	case REACH_YES:
		break;
	case REACH_NO_PORT:
		return LEDGER_PORT_DENIED;
	default:
		return LEDGER_DOMAIN_DENIED;
	}
	if (!host_agrees(t, head))
		return LEDGER_HOST_MISMATCH;
	if (!caller_may_upload(caller))
		return LEDGER_UPLOAD_EXHAUSTED;
	if (atomic_fetch_add(&caller->share->tunnels, 1) >= (unsigned int)t->setup->conf->tunnels) {
		atomic_fetch_sub(&caller->share->tunnels, 1);
		return LEDGER_TUNNELS_EXHAUSTED;
	}
	t->counted = true;
	return LEDGER_OK;
}

/* What goes to the server before all that is still to be read: the head, and what there is of the body. */
static enum ledger_code first_take(struct tunnel *t, const struct head *head, const char *bytes,
				   size_t head_n, size_t n, const char **ret_reason)
{
	size_t rest = n - head_n;
	const char *body = bytes + head_n, *whose;

	t->up.left = t->connect ? UINT64_MAX : head->length;
	t->down.left = UINT64_MAX;
	if (rest > t->up.left)
		rest = (size_t)t->up.left; /* what is behind the request goes nowhere */
	if (t->connect && !rest)
		return LEDGER_OK;
	t->up.first = malloc(t->connect ? rest : head_n + FORWARD_ADDS + rest);
	if (!t->up.first)
		return LEDGER_UNAVAILABLE;
	if (!t->connect) {
		t->up.first_n = forward_head(bytes, head_n, head, &t->target, t->up.first);
		t->up.left -= rest;
	}
	if (canary_watch_feed(&t->watch, body, rest, !t->up.left, &body, &rest, &whose) < 0)
		return LEDGER_UNAVAILABLE;
	if (whose) {
		*ret_reason = "in the body";
		return LEDGER_PLACEHOLDER_SEEN;
	}
	memcpy(t->up.first + t->up.first_n, body, rest);
	t->up.first_n += rest;
	return LEDGER_OK;
}

/* A name that would carry one out by the way of the resolver, or a head that would. */
static bool canary_seen(const struct tunnel *t, const struct head *head, const char *bytes,
			size_t head_n)
{
	const struct canaries *canaries = t->setup->canaries;

	return canaries && (canaries_find_name(canaries, head->authority.p, head->authority.n) ||
			    canaries_find_target(canaries, head->path.p, head->path.n) ||
			    canaries_find(canaries, bytes, head_n));
}

static struct tunnel *tunnel_new(struct conn *conn, struct setup *setup, const struct head *head)
{
	struct tunnel *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	clock_gettime(CLOCK_MONOTONIC, &t->start);
	t->conn = conn;
	t->setup = setup_ref(setup);
	t->connect = head->form == HEAD_FORM_AUTHORITY;
	t->client.fd = conn->fd;
	t->server.fd = -1;
	t->up.pipe = t->down.pipe = (struct pipe){ -1, -1 };
	t->deadline_ms = UINT64_MAX;
	snprintf(t->action, sizeof(t->action), "%.*s", (int)head->name.n, head->name.p);
	event_assign(&t->timer, conn->worker->base, -1, 0, on_timer, t);
	conn->tunnel = t;
	return t;
}

void tunnel_start(struct conn *conn, struct setup *setup, const struct head *head,
		  const char *bytes, size_t head_n, size_t n)
{
	struct gateway *gateway = conn->worker->gateway;
	const struct caller *caller = conn->caller;
	struct share *share = caller ? caller->share : &conn->worker->server->unknown;
	enum ledger_code code;
	const char *reason;
	struct tunnel *t;

	if (!share_admit(share, setup->conf->rate, setup->conf->burst)) {
		conn_refuse(conn, LEDGER_RATE_LIMITED, NULL);
		return;
	}
	if (!caller || !identity_alive(gateway->identity, caller->id.fence_id)) {
		conn_refuse(conn, LEDGER_UNAUTHENTICATED,
			    "this connection was not made by a living fence");
		return;
	}
	t = tell_ready(gateway->report) ? tunnel_new(conn, setup, head) : NULL;
	if (!t) {
		conn_refuse(conn, LEDGER_UNAVAILABLE, NULL);
		return;
	}
	code = request_judge(t, head, &reason);
	if (canary_seen(t, head, bytes, head_n)) {
		code = LEDGER_PLACEHOLDER_SEEN;
		reason = "in the name or the head";
	}
	if (code == LEDGER_OK) {
		canary_watch_start(&t->watch, t->connect ? NULL : setup->canaries);
		t->proxy = proxy_of(conn->worker, setup);
		code = t->proxy ? first_take(t, head, bytes, head_n, n, &reason)
				: LEDGER_UNAVAILABLE;
	}
	if (code != LEDGER_OK) {
		tunnel_refuse(t, code, reason);
		return;
	}
	tunnel_deadline(t, setup->conf->dial_ms);
	if (!names_ask(t->proxy->names, &t->target.name, on_names, t, &t->lookup))
		tunnel_refuse(t, LEDGER_UNAVAILABLE, NULL);
}
