// SPDX-License-Identifier: Apache-2.0
/*
 * /up/NAME/...: requests of fences to upstreams, with credentials that no fence ever has. Phases, each refusal with an event:
 *
 *   identify   which fence is this, and does it live                          -> 401
 *   authorize  is there such an upstream, and does a scope of the fence open
 *              this method and path of it                                     -> 404, 403
 *   select     headers that may go, a query that names no credential, for whom -> 400, 403
 *   reserve    only of scopes that work once: the ledger, by key or grant     -> 403, 409, 422
 *   fetch      the credential, in a thread that may wait                      -> 503, 403
 *   send       the request; the event is written when the upstream's head is there, and before any byte of the answer leaves
 *   pass       the body as it comes, by that thread, to a descriptor of the connection
 *
 * Of other scopes there is no key and no ledger here: what a repeated request means is the upstream's matter. Fails closed: what
 * cannot be recorded is not sent. From fetch on it is flight.c's.
 */
#include "gateway/flight.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <string.h>

#include "admin/report.h"
#include "admin/tokens.h"
#include "broker/canary.h"
#include "gateway/callers.h"
#include "gateway/input.h"

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
	ledger_answer_clear(&flight->job.answer);
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
		     const struct head_text *name, const struct head_text *rest,
		     const struct gwconf_access **ret_access)
{
	const struct gwconf *conf = request->setup->conf;
	const struct gwconf_access *access, *lacking;
	size_t at = 0;

	for (size_t i = 0; i < conf->n_upstreams; i++)
		if (conf->upstreams[i].n_access && head_text_is(name, conf->upstreams[i].name)) {
			flight->upstream = &conf->upstreams[i];
			flight->secrets = request->setup->secrets[i];
			at = i;
		}
	if (!flight->upstream)
		return refuse(flight, LEDGER_TOOL_UNKNOWN, "no such upstream");
	access = filter_access(flight->upstream, request->head->name.p, request->head->name.n,
			       rest->p, rest->n, has_scope, &request->caller->id, &lacking);
	if (access) {
		flight->scope = access->scope;
		*ret_access = access;
		if (access->once != GWCONF_ONCE_NOT)
			flight->once = request->setup->once[at];
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
		if (flight->n_headers == FLIGHT_HEADERS_MAX)
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

/* The upstream is told for whom, percent signs for all but letters, digits and - . _ ~ @: one spelling, which no name can leave. */
static int say_whom(struct flight *flight, const struct request *request)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~@";
	const char *header = filter_subject_header(flight->upstream);
	const char *subject = request->caller->id.subject;
	char value[3 * IDENTITY_TEXT_MAX + 1], *p = value;

	if (!header)
		return 0;
	if (!subject[0])
		return refuse(flight, LEDGER_SCOPE_DENIED,
			      "this upstream is asked on behalf of a user, and the fence has none");
	if (flight->n_headers == FLIGHT_HEADERS_MAX)
		return refuse(flight, LEDGER_MALFORMED_REQUEST, "too many headers");
	for (; *subject; subject++)
		p += sprintf(p, strchr(plain, *subject) ? "%c" : "%%%02X", (unsigned char)*subject);
	if (asprintf(&flight->headers[flight->n_headers], "%s: %s", header, value) < 0) {
		flight->headers[flight->n_headers] = NULL;
		return refuse(flight, LEDGER_OVERLOADED, "out of memory");
	}
	flight->n_headers++;
	return 0;
}

/* Nothing of what goes there may hold a placeholder. What stays here may: clients that insist on a credential show one. */
static int seek_canary(struct flight *flight, const struct request *request)
{
	const struct canaries *canaries = request->setup->canaries;
	const char *whose = canaries_find_target(canaries, flight->target, strlen(flight->target));

	for (size_t i = 0; !whose && i < flight->n_headers; i++)
		whose = canaries_find(canaries, flight->headers[i], strlen(flight->headers[i]));
	/* One that comes in pieces is looked at as it does. */
	if (!whose && !flight->body_left)
		whose = canaries_find(canaries, flight->body, flight->body_n);
	return whose ? refuse(flight, LEDGER_PLACEHOLDER_SEEN, "that of upstream %s", whose) : 0;
}

/* What may happen once, by what: a key of the caller's own, or a grant, which somebody gave for this. */
static int take_key(struct flight *flight, const struct request *request,
		    const struct gwconf_access *access)
{
	const struct head_text *key = &request->head->idempotency_key;
	const char *reason = NULL;
	struct head_text token;
	enum ledger_code code;

	if (access->once == GWCONF_ONCE_KEY) {
		if (!key->p || !input_key_is_good(key->p, key->n))
			return refuse(flight, LEDGER_MALFORMED_REQUEST,
				      "this scope works once for each Idempotency-Key: 1 to %d "
				      "visible ASCII characters",
				      LEDGER_KEY_MAX);
		memcpy(flight->key, key->p, key->n);
		return 0;
	}
	if (head_find(request->head, "Cordon-Grant", &token) != 1)
		return refuse(flight, LEDGER_GRANT_DENIED,
			      "this scope works once for each grant: show one in Cordon-Grant");
	code = tokens_judge_token(request->gateway->tokens, token.p, token.n, &request->caller->id,
				  flight->tool, access->scope, flight->grant, &reason);
	if (code != LEDGER_OK)
		return refuse(flight, code, "%s", reason);
	snprintf(flight->key, sizeof(flight->key), "grant:%s", flight->grant);
	return 0;
}

/* A body that is longer than what is kept at once. */
static int judge_length(struct flight *flight, const struct request *request)
{
	const struct gwconf_upstream *upstream = flight->upstream;

	if (request->head->length > (uint64_t)upstream->request_bytes)
		return refuse(flight, LEDGER_BODY_TOO_LARGE,
			      "the body is longer than request_bytes of the upstream");
	if (request->body_left && (upstream->credential.sigv4.region || flight->once))
		return refuse(flight, LEDGER_BODY_TOO_LARGE,
			      "a body that is signed, or that may go out once, has at most "
			      "limits.body_bytes");
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
	flight->body_left = request->body_left;
	flight->length = (long long)head->length;
	flight->goes_on = head->expects_continue && !request->body_n;
	flight->old = head->minor == 0;
	flight->persists = conn_persists(request->conn);
	flight->fd = conn_borrow(request->conn);
	if (flight->fd < 0)
		return refuse(flight, LEDGER_OVERLOADED, "too many connections");
	return 0;
}

static int judge(struct flight *flight, const struct request *request)
{
	const struct gwconf_access *access = NULL;
	struct head_text name, rest;
	int r;

	split_path(&request->head->path, &name, &rest);
	snprintf(flight->tool, sizeof(flight->tool), "up/%.*s", (int)(name.n < 64 ? name.n : 64),
		 name.p);
	r = identify(flight, request);
	if (r == 0)
		r = authorize(flight, request, &name, &rest, &access);
	if (r == 0 && !caller_may_upload(request->caller))
		r = refuse(flight, LEDGER_UPLOAD_EXHAUSTED,
			   "the fence has sent as much as limits.upload allows");
	if (r == 0)
		r = judge_length(flight, request);
	if (r == 0)
		r = select_headers(flight, request);
	if (r == 0)
		r = say_whom(flight, request);
	if (r == 0)
		r = take_request(flight, request, &rest);
	if (r == 0)
		r = seek_canary(flight, request);
	if (r == 0 && flight->once)
		r = take_key(flight, request, access);
	return r;
}

/* --- sending, by another thread --------------------------------------------------------------- */

static int launch(struct flight *flight)
{
	flight->work.resume = on_resume;
	flight->ready_s = flight_now_s();
	if (pool_submit(flight->gateway->streams, &flight->task) == 0)
		return 0;
	return refuse(flight, LEDGER_OVERLOADED, "too many answers of upstreams at once");
}

static void on_ledger(struct ledger_job *job)
{
	worker_post(job->data);
}

/* Nothing was sent: the key may be used again, once the ledger knows. */
static int give_up(struct flight *flight)
{
	ledger_answer_clear(&flight->job.answer);
	memset(&flight->job, 0, sizeof(flight->job));
	flight->job.verb = LEDGER_FINISH;
	flight->job.id = flight->call;
	flight->job.outcome = LEDGER_STATE_FAILED;
	flight->job.done = on_ledger;
	flight->job.data = &flight->work;
	flight->work.resume = on_resume;
	return ledger_submit(flight->gateway->ledger, &flight->job);
}

/* The ledger has decided. */
static void on_reserved(struct work *work)
{
	struct flight *flight = (struct flight *)work;
	enum ledger_code code = flight->job.answer.code;

	flight->call = flight->job.answer.call;
	if (code == LEDGER_EXECUTE && !work->conn)
		refuse(flight, LEDGER_OVERLOADED, "the client has gone; nothing was sent");
	else if (code == LEDGER_EXECUTE && launch(flight) == 0)
		return;
	else if (code != LEDGER_EXECUTE)
		flight->code = code == LEDGER_DUPLICATE ? LEDGER_KEY_USED : code;
	flight_record(flight);
	if (code != LEDGER_EXECUTE || give_up(flight) < 0)
		on_resume(work);
}

/* SHA-256 of what is asked for: the same key with anything else is refused. */
static int digest(struct flight *flight)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	bool ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) &&
		  EVP_DigestUpdate(md, flight->method, strlen(flight->method)) &&
		  EVP_DigestUpdate(md, "\n/", 2) &&
		  EVP_DigestUpdate(md, flight->tool, strlen(flight->tool)) &&
		  EVP_DigestUpdate(md, flight->target, strlen(flight->target)) &&
		  EVP_DigestUpdate(md, "\n", 1) &&
		  EVP_DigestUpdate(md, flight->body, flight->body_n) &&
		  EVP_DigestFinal_ex(md, flight->job.call.digest, NULL);

	EVP_MD_CTX_free(md);
	return ok ? 0 : refuse(flight, LEDGER_OVERLOADED, "out of memory");
}

/* Durable before anything leaves. */
static int reserve(struct flight *flight)
{
	const struct identity *id = &flight->caller->id;
	int r = digest(flight);

	if (r < 0)
		return r;
	flight->job.verb = LEDGER_CALL;
	flight->job.call.fence = id->fence_id;
	flight->job.call.tenant = id->tenant;
	flight->job.call.subject = id->subject;
	flight->job.call.task = id->task;
	flight->job.call.grant = flight->grant[0] ? flight->grant : NULL;
	flight->job.call.tool = flight->once;
	flight->job.call.tool_name = flight->tool;
	flight->job.call.method = flight->method;
	flight->job.call.route = flight->action;
	flight->job.call.scope = flight->scope;
	flight->job.call.scope_granted = true;
	flight->job.call.key = flight->key;
	flight->job.call.start = true;
	flight->job.done = on_ledger;
	flight->job.data = &flight->work;
	flight->work.resume = on_reserved;
	r = ledger_submit(flight->gateway->ledger, &flight->job);
	if (r == 0)
		return 0;
	return refuse(flight, r == -EAGAIN ? LEDGER_OVERLOADED : LEDGER_UNAVAILABLE,
		      "the ledger takes nothing now; nothing was sent");
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
	snprintf(flight->action, sizeof(flight->action), "%.*s %.*s", (int)head->name.n,
		 head->name.p, (int)(head->path.n < 256 ? head->path.n : 256), head->path.p);
	flight->task.run = flight_run;
	flight->task.owner = request->share;
	if (judge(flight, request) == 0) {
		flight->work.streams = true;
		flight->work.grant = flight->grant[0] ? flight->grant : NULL;
		conn_wait(request->conn, &flight->work);
		if ((flight->once ? reserve(flight) : launch(flight)) == 0)
			return;
		work_end(&flight->work);
	}
	flight_record(flight);
	conn_refuse(request->conn, flight->code, flight->reason);
	flight_free(flight);
}
