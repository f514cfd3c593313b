// SPDX-License-Identifier: Apache-2.0
/*
 * One call of a tool, from the caller's name to the answer: a table of phases. Each does its part and says
 * where it goes on: to the next phase, to the record because there is nothing left to decide, or nowhere
 * until something that takes time has come back. Doubt refuses; a call that was begun is brought to its end
 * although its client may be gone.
 *
 *   identify   which fence is this, and does it live            -> 401
 *   parse      JSON by the tool's schema, the idempotency key   -> 400, 422
 *   authorize  a grant, where one is shown                      -> 401, 403
 *   reserve    the ledger decides and writes, in one step; a call that is refused already is written down
 *   approve    what is held for a human ends here               -> 202
 *   execute    an http tool: send, and settle in the ledger (sql tools were executed by reserve)
 *   record     the event
 *   answer
 */
#include "admin/report.h"
#include "admin/tokens.h"
#include "gateway/call.h"
#include "gateway/refusal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "gateway/input.h"
#include "gateway/pool.h"
#include "gateway/upstream.h"

enum step { STEP_NEXT, STEP_RECORD, STEP_WAIT };

struct call {
	struct work work; /* first: resume() gets it */
	struct pool_task task;
	struct ledger_job job;
	struct gateway *gateway;
	struct setup *setup;
	const struct tool *tool;
	struct caller *caller;
	const struct request *request; /* until the first wait */
	struct call_voice *voice;      /* NULL: the answer is HTTP's */
	unsigned int phase;
	struct input input;
	char grant[LEDGER_NAME_MAX + 1];
	char *sent; /* body for the upstream */
	char *result;
	enum ledger_code code;
	const char *reason;	     /* NULL: the code's own text */
	struct ledger_answer answer; /* of reserve; later of finish */
	bool answered;		     /* answer holds something */
	int64_t id;
	char approval[LEDGER_APPROVAL_ID_SIZE];
	int64_t approval_expires_ns;
	long upstream_status;
	struct timespec start;
	time_t ready_s; /* since when it may be sent */
	char path[257];
};

static void call_run(struct call *call);

static enum step refuse(struct call *call, enum ledger_code code, const char *reason)
{
	call->code = code;
	call->reason = reason;
	return STEP_NEXT;
}

/* --- identify, parse, authorize --------------------------------------------------------------- */

static enum step identify(struct call *call)
{
	if (!call->caller)
		return refuse(call, LEDGER_UNAUTHENTICATED,
			      "this connection was not made by a fence");
	if (!identity_alive(call->gateway->identity, call->caller->id.fence_id))
		return refuse(call, LEDGER_UNAUTHENTICATED, "the fence has ended");
	return STEP_NEXT;
}

static enum step parse(struct call *call)
{
	const struct request *request = call->request;
	enum ledger_code code = input_read(call->tool->conf, request->body, request->body_n,
					   &request->head->idempotency_key, &call->input);

	if (code != LEDGER_OK)
		return refuse(call, code, call->input.reason);
	if (call->tool->conf->executor != GWCONF_EXEC_HTTP)
		return STEP_NEXT;
	call->sent = input_request(call->tool->conf, &call->input);
	if (!call->sent)
		return refuse(call, LEDGER_UNAVAILABLE, NULL);
	return STEP_NEXT;
}

static enum step authorize(struct call *call)
{
	const struct head_text *header = &call->request->head->authorization;
	const char *reason = NULL;
	enum ledger_code code;

	if (!header->p)
		return STEP_NEXT;
	/* Whoever shows a grant wants it to count: one that cannot be judged refuses the call. */
	code = tokens_judge(call->gateway->tokens, header->p, header->n, &call->caller->id,
			    call->tool->conf->name, call->tool->conf->scope, call->grant, &reason);
	return code == LEDGER_OK ? STEP_NEXT : refuse(call, code, reason);
}

/* --- reserve ---------------------------------------------------------------------------------- */

bool caller_has_scope(const struct identity *id, const char *scope)
{
	for (uint32_t i = 0; i < id->n_scopes && i < IDENTITY_SCOPES_MAX; i++)
		if (!strcmp(id->scopes[i], scope))
			return true;
	return false;
}

static void call_fill(struct call *call)
{
	const struct identity *id = call->caller ? &call->caller->id : NULL;
	const struct gwconf_tool *conf = call->tool->conf;
	struct ledger_call *out = &call->job.call;

	out->fence = id ? id->fence_id : 0;
	out->tenant = id ? id->tenant : "";
	out->subject = id ? id->subject : "";
	out->task = id ? id->task : "";
	out->grant = call->grant[0] ? call->grant : NULL;
	out->tool = call->tool->ledger;
	out->tool_name = conf->name;
	out->method = "POST";
	out->route = call->path;
	out->scope = conf->scope;
	out->scope_granted = id && caller_has_scope(id, conf->scope);
	out->stated_tenant = call->input.tenant;
	out->object = call->input.object;
	out->amount = call->input.amount;
	out->key = call->input.key[0] ? call->input.key : NULL;
	memcpy(out->digest, call->input.digest, sizeof(out->digest));
	out->params = call->input.params;
	out->n_params = call->input.n_params;
	out->request = call->sent;
	out->request_size = call->sent ? strlen(call->sent) : 0;
	out->refused = call->code;
	out->start = conf->executor == GWCONF_EXEC_HTTP;
}

static void on_ledger(struct ledger_job *job)
{
	worker_post(job->data);
}

static enum step submit(struct call *call)
{
	int r;

	call->job.done = on_ledger;
	call->job.data = &call->work;
	r = ledger_submit(call->gateway->ledger, &call->job);
	if (r == 0)
		return STEP_WAIT;
	/* Nothing was written. What breaks a bound of the ledger no request that fits the tool does. */
	call->code = r == -EAGAIN		   ? LEDGER_OVERLOADED
		     : r == -E2BIG || r == -EINVAL ? LEDGER_INVALID_REQUEST
						   : LEDGER_UNAVAILABLE;
	call->reason = call->code == LEDGER_INVALID_REQUEST ? "a value is too long" : NULL;
	return STEP_RECORD;
}

static enum step reserve(struct call *call)
{
	/* What nobody would see is not decided. */
	if (report_ready(call->gateway->report) < 0) {
		call->code = LEDGER_UNAVAILABLE;
		call->reason = NULL;
		return STEP_RECORD;
	}
	call->job.verb = LEDGER_CALL;
	call_fill(call);
	return submit(call);
}

/* The answer of the ledger is the call's from here on. */
static void take_answer(struct call *call)
{
	struct ledger_answer *answer = &call->job.answer;

	if (call->answered)
		ledger_answer_clear(&call->answer);
	call->answer = *answer;
	call->answered = true;
	memset(answer, 0, sizeof(*answer));
}

static enum step approve(struct call *call)
{
	take_answer(call);
	/* A refusal of an earlier phase keeps its reason, unless it could not be written. */
	if (call->answer.code != call->code)
		call->reason = NULL;
	call->code = call->answer.code;
	call->id = call->answer.call;
	memcpy(call->approval, call->answer.approval, sizeof(call->approval));
	call->approval_expires_ns = call->answer.approval_expires_ns;
	if (call->code != LEDGER_EXECUTE)
		return STEP_RECORD;
	return STEP_NEXT;
}

/* --- execute ---------------------------------------------------------------------------------- */

/* Time asleep counts: the other gateways do not know of it. */
static time_t boot_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec;
}

/* What waited for half of the lease is not sent: another gateway may be about to take the call for one whose gateway died. */
static void on_execute(struct pool_task *task)
{
	struct call *call = (struct call *)((char *)task - offsetof(struct call, task));

	if (boot_s() - call->ready_s < LEDGER_LEASE_S / 2)
		call->code =
			upstream_execute(call->gateway, call->tool, call->id, call->sent,
					 &call->job.answer, &call->result, &call->upstream_status);
	else
		call->code = upstream_give_up(call->gateway, call->id, &call->job.answer);
	worker_post(&call->work);
}

static enum step execute(struct call *call)
{
	call->ready_s = boot_s();
	call->task.run = on_execute;
	call->task.owner = call->caller ? call->caller->share : NULL;
	if (pool_submit(call->gateway->upstreams, &call->task) == 0)
		return STEP_WAIT;
	/* Nothing left: the ledger has to know before the key can be used again. */
	call->code = LEDGER_OVERLOADED;
	memset(&call->job, 0, sizeof(call->job));
	call->job.verb = LEDGER_FINISH;
	call->job.id = call->id;
	call->job.outcome = LEDGER_STATE_FAILED;
	return submit(call);
}

/* --- record, answer --------------------------------------------------------------------------- */

static uint64_t call_latency_us(const struct call *call)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)(now.tv_sec - call->start.tv_sec) * 1000000 +
	       (uint64_t)(now.tv_nsec / 1000) - (uint64_t)(call->start.tv_nsec / 1000);
}

static enum step record(struct call *call)
{
	const struct gwconf_tool *conf = call->tool->conf;
	/* After an upstream the ledger's record is that of the settling. */
	const struct ledger_answer *answer =
		call->job.answer.record_seq ? &call->job.answer : &call->answer;
	char digest[2 * LEDGER_DIGEST_SIZE + 1] = "", action[sizeof(call->path) + 8];
	struct report_row row = {
		.op = CORDON_OP_CALL,
		.code = call->code,
		.caller = call->caller ? &call->caller->id : NULL,
		.reason = call->reason,
		.gateway = { .tool = conf->name,
			     .action = action,
			     .object = call->input.object,
			     .scope = conf->scope,
			     .grant = call->grant[0] ? call->grant : NULL,
			     .key = call->input.key[0] ? call->input.key : NULL,
			     .approval = call->approval[0] ? call->approval : NULL,
			     .has_amount = conf->amount >= 0 && call->input.key[0],
			     .amount = call->input.amount,
			     .destructive = call->code == LEDGER_OK && conf->destructive,
			     .upstream_status = call->upstream_status ? call->upstream_status : -1,
			     .latency_us = (int64_t)call_latency_us(call) },
		.record_seq = answer->record_seq,
		.record_hash = answer->record_seq ? answer->record_hash : NULL,
	};

	snprintf(action, sizeof(action), "POST %s", call->path);
	if (call->input.key[0]) {
		util_hex(call->input.digest, LEDGER_DIGEST_SIZE, digest);
		row.gateway.digest = digest;
	}
	/* What cannot be written is kept, and stops the next call, not this one: it was decided. */
	report_write(call->gateway->report, &row);
	return STEP_NEXT;
}

/* {"status":"...", and what the result holds. */
static int print_result(char *buffer, size_t size, const char *status, const char *result)
{
	bool more = result && result[0] == '{' && result[1] && result[1] != '}';

	return snprintf(buffer, size, "{\"status\":\"%s\"%s%s\n", status, more ? "," : "}",
			more ? result + 1 : "");
}

static int print_pending(char *buffer, size_t size, const struct call *call)
{
	time_t at = (time_t)(call->approval_expires_ns / 1000000000);
	char expires[32];
	struct tm tm;

	gmtime_r(&at, &tm);
	strftime(expires, sizeof(expires), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return snprintf(buffer, size,
			"{\"status\":\"pending_approval\",\"approval\":\"%s\",\"reason\":"
			"\"need_human_approval\",\"expires\":\"%s\",\"rule\":\"%s\","
			"\"retry\":\"same_key\",\"ask\":\"%s\"}\n",
			call->approval, expires, event_rule_name(report_rule(call->code)),
			ledger_code_info(call->code)->ask);
}

void conn_refuse(struct conn *conn, enum ledger_code code, const char *reason)
{
	char body[REFUSAL_MAX];
	int n = refusal_print(body, code, reason);

	if (code == LEDGER_RATE_LIMITED || code == LEDGER_TUNNELS_EXHAUSTED)
		conn_answer_later(conn, ledger_code_info(code)->http_status, body, (size_t)n);
	else
		conn_answer(conn, ledger_code_info(code)->http_status, body, (size_t)n);
}

static int print_answer(char *buffer, size_t size, const struct call *call)
{
	const char *result = call->result     ? call->result
			     : call->answered ? call->answer.result
					      : NULL;

	switch (call->code) {
	case LEDGER_OK:
		return print_result(buffer, size, "ok", result);
	case LEDGER_DUPLICATE:
		return print_result(buffer, size, "duplicate", result);
	case LEDGER_PENDING_APPROVAL:
		return print_pending(buffer, size, call);
	default:
		return refusal_print(buffer, call->code, call->reason);
	}
}

static enum step answer(struct call *call)
{
	size_t room = REFUSAL_MAX + (call->result	   ? strlen(call->result)
				     : call->answer.result ? call->answer.result_size
							   : 0);
	char stack[2048], *text = room <= sizeof(stack) ? stack : malloc(room);

	if (call->work.conn && text && call->voice)
		call->voice->say(call->voice, call->work.conn, call->code, text,
				 (size_t)print_answer(text, room, call));
	else if (call->work.conn && text)
		conn_answer(call->work.conn, ledger_code_info(call->code)->http_status, text,
			    (size_t)print_answer(text, room, call));
	else if (call->work.conn)
		conn_refuse(call->work.conn, LEDGER_OVERLOADED, "out of memory");
	if (text != stack)
		free(text);
	return STEP_NEXT;
}

/* --- the table -------------------------------------------------------------------------------- */

/*
 * decides: a refusal in this phase goes to `reserve`, which writes it down. The phase behind one that
 * waited finds what came back.
 */
static const struct phase {
	const char *name;
	enum step (*run)(struct call *call);
	bool decides;
} phases[] = {
	{ "identify", identify, true },	  { "parse", parse, true },
	{ "authorize", authorize, true }, { "reserve", reserve, false },
	{ "approve", approve, false },	  { "execute", execute, false },
	{ "record", record, false },	  { "answer", answer, false },
};
enum { PHASE_RESERVE = 3, PHASE_RECORD = 6, PHASES = ARRAY_SIZE(phases) };

static void call_free(struct call *call)
{
	work_end(&call->work);
	if (call->answered)
		ledger_answer_clear(&call->answer);
	ledger_answer_clear(&call->job.answer);
	input_release(&call->input);
	free(call->sent);
	free(call->result);
	if (call->voice)
		call->voice->free(call->voice);
	caller_unref(call->caller);
	setup_unref(call->setup);
	free(call);
}

static void call_run(struct call *call)
{
	while (call->phase < PHASES) {
		const struct phase *phase = &phases[call->phase++];
		enum step step = phase->run(call);

		if (step == STEP_WAIT)
			return;
		if (step == STEP_RECORD)
			call->phase = PHASE_RECORD;
		else if (phase->decides && call->code != LEDGER_OK)
			call->phase = PHASE_RESERVE;
	}
	call_free(call);
}

static void on_resume(struct work *work)
{
	struct call *call = (struct call *)work;

	call_run(call);
}

void call_start(const struct request *request, const struct tool *tool, struct call_voice *voice)
{
	struct call *call = calloc(1, sizeof(*call));
	size_t n = request->head->path.n;

	if (!call) {
		if (voice)
			voice->free(voice);
		conn_refuse(request->conn, LEDGER_OVERLOADED, NULL);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &call->start);
	call->voice = voice;
	call->gateway = request->gateway;
	call->setup = setup_ref(request->setup);
	call->caller = caller_ref(request->caller);
	call->tool = tool;
	call->request = request;
	call->code = LEDGER_OK;
	n = n < sizeof(call->path) ? n : sizeof(call->path) - 1;
	memcpy(call->path, request->head->path.p, n);
	call->work.resume = on_resume;
	conn_wait(request->conn, &call->work);
	call_run(call);
}
