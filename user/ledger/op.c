// SPDX-License-Identifier: Apache-2.0
/*
 * What each operation reads, decides and writes, inside the transaction of a batch. The order is the same for all:
 * locate (which row is meant, without a lock), read (under the locks), decide, execute (the operator's statement, if
 * the call is allowed), settle (writes and the record). Whatever is not understood is refused.
 *
 * Only steps of LEDGER_STEPS are written: to_state() refuses others, and the statement names the state that it leaves,
 * so that a row that somebody else moved meanwhile makes the batch start again.
 */

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "ledger/internal.h"

static const enum op_kind kinds[] = {
	[LEDGER_CALL] = OP_CALL,       [LEDGER_START] = OP_START,   [LEDGER_FINISH] = OP_FINISH,
	[LEDGER_APPROVE] = OP_APPROVE, [LEDGER_DENY] = OP_DENY,	    [LEDGER_SETTLE] = OP_SETTLE,
	[LEDGER_GRANT] = OP_GRANT,     [LEDGER_REVOKE] = OP_REVOKE,
};

static void init_call(struct op *op, const struct ledger_call *call)
{
	op->tenant = call->tenant;
	op->subject = call->subject;
	op->task = call->task;
	op->tool = call->tool;
	op->tool_name = call->tool ? call->tool->name : call->tool_name;
	op->key = call->key;
	op->object = call->object;
	op->grant_id = call->grant;
	op->scope = call->scope;
	op->amount = !call->tool || call->tool->has_amount ? call->amount : 0;
	op->fence = call->fence;
	op->params = call->params;
	op->n_params = call->n_params;
	text_hex(call->digest, LEDGER_DIGEST_SIZE, op->digest);
	if (call->refused != LEDGER_OK)
		op->kind = OP_RECORD;
	else
		op->outright = ledger_decide_caller(&(struct ledger_question){
				       .caller_tenant = call->tenant,
				       .stated_tenant = call->stated_tenant,
				       .scope_granted = call->scope_granted }) != LEDGER_OK;
}

void op_init(struct op *op, const struct op_seed *seed)
{
	struct ledger_job *job = seed->job;

	*op = (struct op){ .job = job, .kind = seed->kind, .id = seed->id };
	op->approval_id = seed->approval;
	if (!job)
		return;
	op->kind = kinds[job->verb];
	switch (op->kind) {
	case OP_CALL:
		init_call(op, &job->call);
		break;
	case OP_GRANT:
		op->tenant = job->grant->tenant;
		op->subject = job->grant->subject;
		op->task = job->grant->task;
		op->tool_name = job->grant->tool;
		op->scope = job->grant->scope;
		op->object = job->grant->object;
		op->grant_id = job->grant->id;
		op->fence = job->grant->fence;
		break;
	case OP_REVOKE:
		if (job->revoke_by == LEDGER_REVOKE_ID)
			op->grant_id = job->value;
		else if (job->revoke_by == LEDGER_REVOKE_TASK)
			op->task = job->value;
		break;
	default:
		op->id = job->id;
		op->approval_id = job->approval;
		break;
	}
}

bool op_by_approval(const struct op *op)
{
	return op->kind == OP_APPROVE || op->kind == OP_DENY || op->kind == OP_EXPIRE;
}

bool op_by_id(const struct op *op)
{
	return op->kind == OP_START || op->kind == OP_FINISH || op->kind == OP_SETTLE ||
	       op->kind == OP_RECOVER || op->kind == OP_RELEASE;
}

/* --- locate ------------------------------------------------------------------------------------------------------ */

void op_locate(struct batch *batch, struct op *op, struct steps *steps)
{
	if (op_by_approval(op))
		op->locate = STEP(batch, steps, APPROVAL_READ, T(op->approval_id));
	else if (op_by_id(op))
		op->locate = STEP(batch, steps, CALL_BY_ID, N(op->id));
}

static void take_identity(struct op *op, const struct call_row *row)
{
	op->id = row->id;
	op->tenant = row->tenant;
	op->subject = row->subject;
	op->task = row->task;
	op->tool_name = row->tool;
	op->key = row->key;
	op->object = row->object;
	op->grant_id = *row->grant ? row->grant : NULL;
	op->scope = row->scope;
	op->amount = row->amount;
	op->fence = row->fence;
	if (strlen(row->digest) < sizeof(op->digest))
		strcpy(op->digest, row->digest);
}

static int take_row(struct op *op, const struct engine_step *step)
{
	int err = 0;

	op->has_row = step->n_rows > 0;
	if (!op->has_row)
		return 0;
	if (op_by_approval(op)) {
		err = row_approval(&step->row, &op->approval);
		op->row = op->approval.call;
	} else {
		err = row_call(&step->row, 0, &op->row);
	}
	return err;
}

int op_located(struct batch *batch, struct op *op, const struct steps *steps)
{
	int err;

	if (!op_by_approval(op) && !op_by_id(op))
		return 0;
	err = take_row(op, &steps->v[op->locate]);
	if (err || !op->has_row)
		return err;
	op->located = true;
	take_identity(op, &op->row);
	if (op->kind != OP_APPROVE)
		return 0;
	op->tool = tool_find(batch->ledger, op->tool_name);
	op->tool_held = op->tool != NULL;
	return *op->approval.params ? fact_load_params(batch, op, op->approval.params) : 0;
}

/* --- grants are written first, so that the calls of the same transaction see them ---------------------------------- */

/* Makes it, or gives one with the same terms another end. */
static void write_grant(struct batch *batch, struct op *op, struct steps *steps)
{
	const struct ledger_grant *g = op->job->grant;

	STEP(batch, steps, GRANT_INSERT, T(g->id), N((int64_t)g->fence), T(g->tenant),
	     T(g->subject), T(g->task), T(g->scope), T(g->tool), T(g->object), N(g->amount_max),
	     N(g->uses_max), N(batch->now_ns), N(g->expires_ns));
	op->read_row =
		STEP(batch, steps, GRANT_RENEW, N(g->expires_ns), T(g->id), N((int64_t)g->fence),
		     T(g->tenant), T(g->subject), T(g->task), T(g->scope), T(g->tool), T(g->object),
		     N(g->amount_max), N(g->uses_max));
}

static void write_revocation(struct batch *batch, struct op *op, struct steps *steps)
{
	const char *value = op->job->value;

	switch (op->job->revoke_by) {
	case LEDGER_REVOKE_ID:
		op->read_row = STEP(batch, steps, GRANT_REVOKE_ID, N(batch->now_ns), T(value));
		break;
	case LEDGER_REVOKE_TASK:
		op->read_row = STEP(batch, steps, GRANT_REVOKE_TASK, N(batch->now_ns), T(value));
		break;
	case LEDGER_REVOKE_SUBJECT:
		op->read_row = STEP(batch, steps, GRANT_REVOKE_SUBJECT, N(batch->now_ns), T(value));
		break;
	case LEDGER_REVOKE_FENCE:
		op->read_row = STEP(batch, steps, GRANT_REVOKE_FENCE, N(batch->now_ns),
				    N((int64_t)strtoull(value, NULL, 10)));
		break;
	}
}

/* --- read -------------------------------------------------------------------------------------------------------- */

static void read_facts(struct batch *batch, struct op *op, struct steps *steps, struct steps *facts)
{
	if (op->outright || !op->tool || !op->tool->fact.sql || !op->object)
		return;
	op->has_fact = true;
	op->read_fact = fact_step(batch, op, batch->ledger->facts ? facts : steps, false);
	op->read_flight =
		STEP(batch, steps, IN_FLIGHT, T(op->tenant), T(op->tool_name), T(op->object));
}

void op_read(struct batch *batch, struct op *op, struct steps *steps, struct steps *facts)
{
	op->has_fact = false;
	if (op->kind == OP_CALL) {
		op->read_row = STEP(batch, steps, CALL_BY_KEY, T(op->tenant), T(op->subject),
				    T(op->tool_name), T(op->key));
		read_facts(batch, op, steps, facts);
	} else if (op_by_approval(op)) {
		op->read_row = STEP(batch, steps, APPROVAL_READ, T(op->approval_id));
		if (op->kind == OP_APPROVE && op->located)
			read_facts(batch, op, steps, facts);
	} else if (op_by_id(op)) {
		op->read_row = STEP(batch, steps, CALL_BY_ID, N(op->id));
	} else if (op->kind == OP_GRANT) {
		write_grant(batch, op, steps);
	} else if (op->kind == OP_REVOKE) {
		write_revocation(batch, op, steps);
	}
}

/* --- grants ------------------------------------------------------------------------------------------------------ */

static bool covers(const char *term, const char *value)
{
	return !*term || (value && strcmp(term, value) == 0);
}

/* own: what this call itself already holds of the grant. */
static void grant_facts(const struct batch *batch, const struct op *op, bool own,
			struct ledger_grant_facts *ret)
{
	const struct ledger_grant *row = &op->grant->row;

	*ret = (struct ledger_grant_facts){ .known = op->grant->known };
	if (!ret->known)
		return;
	ret->revoked = row->revoked_ns != 0;
	ret->expired = row->expires_ns <= batch->now_ns;
	ret->covers = row->fence == op->fence && strcmp(row->tenant, op->tenant) == 0 &&
		      covers(row->subject, op->subject) && covers(row->task, op->task) &&
		      covers(row->scope, op->scope) && covers(row->tool, op->tool_name) &&
		      covers(row->object, op->object);
	ret->uses_left = row->uses_max == LEDGER_NO_LIMIT ? LEDGER_NO_LIMIT
							  : row->uses_max - row->uses_used + own;
	ret->amount_left = row->amount_max == LEDGER_NO_LIMIT
				   ? LEDGER_NO_LIMIT
				   : row->amount_max - row->amount_used + (own ? op->amount : 0);
}

static void grant_add(struct op *op, int64_t sign)
{
	if (!op->grant || !op->grant->known)
		return;
	op->grant->row.uses_used += sign;
	op->grant->row.amount_used += sign * op->amount;
	op->grant->dirty = true;
}

static void usage_add(struct op *op, int64_t sign)
{
	if (!op->usage || !op->amount)
		return;
	op->usage->used += sign * op->amount;
	op->usage->dirty = true;
}

/* Reserves (1) or gives back (-1) what the call holds. The decision has ruled out an overflow. */
static void hold(struct op *op, int64_t sign)
{
	usage_add(op, sign);
	grant_add(op, sign);
}

/* --- decide ------------------------------------------------------------------------------------------------------ */

/* A repeat of a key that is taken. */
static void decide_repeat(struct op *op)
{
	op->state = op->row.state;
	op->id = op->row.id;
	if (strcmp(op->row.digest, op->digest) != 0) {
		op->code = LEDGER_KEY_REUSED_WITH_OTHER_BODY;
		return;
	}
	if (*op->row.approval)
		op->approval_id = op->row.approval;
	switch (op->row.state) {
	case LEDGER_STATE_DONE:
		op->code = LEDGER_DUPLICATE;
		op->answer_result = op->row.result;
		break;
	case LEDGER_STATE_HELD:
		op->code = LEDGER_PENDING_APPROVAL;
		break;
	case LEDGER_STATE_AMBIGUOUS:
		op->code = LEDGER_OUTCOME_AMBIGUOUS;
		break;
	case LEDGER_STATE_DENIED:
		op->code = LEDGER_APPROVAL_DENIED;
		break;
	case LEDGER_STATE_EXPIRED:
		op->code = LEDGER_APPROVAL_EXPIRED;
		break;
	case LEDGER_STATE_REFUSED:
		op->code = op->row.code;
		break;
	default:
		op->code = LEDGER_KEY_IN_FLIGHT;
		break;
	}
}

static enum ledger_code ask(struct batch *batch, struct op *op, const struct steps *steps,
			    const struct steps *facts, bool approved)
{
	const struct ledger_call *call = op->job ? &op->job->call : NULL;
	struct ledger_grant_facts grant;
	struct ledger_question question = {
		.caller_tenant = op->tenant,
		.stated_tenant = approved ? NULL : call->stated_tenant,
		.scope_granted = approved ? true : call->scope_granted,
		.has_object = op->tool->has_object,
		.has_amount = op->tool->has_amount,
		.amount = op->amount,
		.used = op->usage ? op->usage->used : 0,
		.limits = &op->tool->limits,
		.approved = approved,
	};
	enum ledger_code code;

	if (op->grant) {
		grant_facts(batch, op, approved, &grant);
		question.grant = &grant;
	}
	if (op->has_fact) {
		const struct engine_step *flight = &steps->v[op->read_flight];

		if (flight->n_rows != 1 || flight->row.values[0].kind != ENGINE_INT)
			return LEDGER_UNAVAILABLE;
		question.in_flight = flight->row.values[0].number;
		code = fact_take(op, &(batch->ledger->facts ? facts : steps)->v[op->read_fact],
				 &question);
		if (code != LEDGER_OK)
			return code;
	}
	/* What is held already contains the call that is about to be executed. */
	if (approved && op->has_fact)
		question.in_flight -= op->amount;
	if (approved && op->usage)
		question.used -= op->amount;
	code = ledger_decide(&question);
	if (op->tool->has_amount && question.object_found &&
	    (code == LEDGER_OK || code == LEDGER_PENDING_APPROVAL ||
	     code == LEDGER_AMOUNT_OUT_OF_RANGE)) {
		op->has_remaining = true;
		op->remaining = question.remaining - question.in_flight;
		if (code != LEDGER_AMOUNT_OUT_OF_RANGE)
			op->remaining -= op->amount;
	}
	return code;
}

static int decide_call(struct batch *batch, struct op *op, const struct steps *steps,
		       const struct steps *facts)
{
	if (op->has_row && op->row.state != LEDGER_STATE_FAILED) {
		decide_repeat(op);
		return 0;
	}
	op->code = ask(batch, op, steps, facts, false);
	if (op->code != LEDGER_OK && op->code != LEDGER_PENDING_APPROVAL)
		return 0;
	/* Each attempt has an id of its own: a late word about an earlier one finds nothing. */
	op->id = ++batch->last_call;
	op->executes = op->code == LEDGER_OK && op->tool->executor == LEDGER_EXECUTOR_SQL;
	/* At once: other calls of this round, for other objects, are decided before this one is executed. */
	hold(op, 1);
	return 0;
}

/* A human's decision, or the end of waiting for one. */
static int decide_approval(struct batch *batch, struct op *op, const struct steps *steps,
			   const struct steps *facts)
{
	bool expired = op->approval.expires_ns <= batch->now_ns;

	if (!op->has_row) {
		op->code = LEDGER_APPROVAL_NOT_FOUND;
		return 0;
	}
	op->state = op->row.state;
	if (op->row.state == LEDGER_STATE_EXPIRED)
		op->code = LEDGER_APPROVAL_EXPIRED;
	else if (strcmp(op->approval.state, "pending") != 0 || op->row.state != LEDGER_STATE_HELD)
		op->code = LEDGER_APPROVAL_NOT_PENDING;
	else if (op->kind == OP_EXPIRE && !expired)
		op->code =
			LEDGER_APPROVAL_NOT_PENDING; /* the clock was behind when it was picked */
	else if (expired)
		op->code = LEDGER_APPROVAL_EXPIRED;
	else if (strcmp(op->job->by, op->subject) == 0)
		op->code = LEDGER_APPROVER_IS_CALLER;
	else if (op->kind == OP_DENY)
		op->code = LEDGER_APPROVAL_DENIED;
	else if (!op->tool)
		op->code = LEDGER_TOOL_UNKNOWN;
	else
		op->code = ask(batch, op, steps, facts, true);
	op->executes =
		op->code == LEDGER_OK && op->tool && op->tool->executor == LEDGER_EXECUTOR_SQL;
	return 0;
}

static bool ours(const struct batch *batch, const struct op *op)
{
	return strcmp(op->row.node, batch->ledger->options.node) == 0;
}

/* Steps that name a call. op->state becomes the state to go to; CALL_NOT_IN_STATE: none. */
static int decide_step(struct batch *batch, struct op *op)
{
	enum ledger_state from = op->row.state, to = LEDGER_STATE_NONE;
	enum ledger_step step = LEDGER_STEP_FINISH;

	if (!op->has_row) {
		op->code = LEDGER_CALL_NOT_FOUND;
		return 0;
	}
	if (op->kind == OP_START) {
		step = LEDGER_STEP_START;
		to = ours(batch, op) ? LEDGER_STATE_EXECUTING : LEDGER_STATE_NONE;
	} else if (op->kind == OP_FINISH) {
		to = ours(batch, op) ? op->job->outcome : LEDGER_STATE_NONE;
	} else if (op->kind == OP_SETTLE) {
		step = LEDGER_STEP_SETTLE;
		to = op->job->outcome;
	} else if (op->kind == OP_RECOVER) {
		step = LEDGER_STEP_RECOVER;
		to = from == LEDGER_STATE_RESERVED ? LEDGER_STATE_FAILED : LEDGER_STATE_AMBIGUOUS;
	} else {
		to = LEDGER_STATE_FAILED;
	}
	/* The answer to the same word said before was lost; nothing is left to do. */
	if (op->kind == OP_FINISH && from == to && from != LEDGER_STATE_NONE) {
		op->code = LEDGER_OK;
		op->state = from;
		return 0;
	}
	op->code = ledger_step_allowed(from, step, to) ? LEDGER_OK : LEDGER_CALL_NOT_IN_STATE;
	op->state = op->code == LEDGER_OK ? to : from;
	return 0;
}

int op_decide(struct batch *batch, struct op *op, const struct steps *steps,
	      const struct steps *facts)
{
	int err = 0;

	if (op->kind == OP_CALL || op_by_approval(op) || op_by_id(op)) {
		struct call_row before = op->row;

		err = take_row(op, &steps->v[op->read_row]);
		/* Between locate and lock it was given back and reserved anew, under another day or name. */
		if (!err && op->located &&
		    (!op->has_row || before.day != op->row.day || before.amount != op->row.amount ||
		     strcmp(before.quota, op->row.quota) != 0 ||
		     strcmp(before.grant, op->row.grant) != 0))
			err = -EAGAIN;
	}
	if (err)
		return err;
	if (op->kind == OP_CALL)
		return decide_call(batch, op, steps, facts);
	if (op_by_approval(op))
		return decide_approval(batch, op, steps, facts);
	if (op_by_id(op))
		return decide_step(batch, op);
	if (op->kind == OP_RECORD) {
		op->code = op->job->call.refused;
	} else if (op->kind == OP_REVOKE) {
		op->code = LEDGER_OK;
		op->count = steps->v[op->read_row].changed;
	} else if (steps->v[op->read_row].changed == 1) {
		op->code = LEDGER_OK;
	} else {
		/* One of that id is there, and is revoked or has other terms. */
		op->code = LEDGER_GRANT_DENIED;
	}
	return 0;
}

/* --- execute ----------------------------------------------------------------------------------------------------- */

void op_execute(struct batch *batch, struct op *op, struct steps *steps)
{
	if (op->executes)
		op->exec = fact_step(batch, op, steps, true);
}

/* What became of the statement: into op->code, op->result. */
static int take_execution(struct batch *batch, struct op *op, const struct steps *executed)
{
	const struct engine_step *step = &executed->v[op->exec];

	if (step->err) {
		op->code = LEDGER_EXECUTION_FAILED;
		op->fault = step->fault ? step->fault : "the executor failed";
		return 0;
	}
	if (step->changed == 0) {
		op->code = LEDGER_EXECUTION_REFUSED;
		return 0;
	}
	op->result = fact_result(batch, op, step);
	if (!op->result)
		return -ENOMEM;
	op->answer_result = op->result;
	for (unsigned int i = 0; step->n_rows && i < step->row.n; i++) {
		if (strcmp(step->row.names[i], "remaining") == 0 &&
		    step->row.values[i].kind == ENGINE_INT) {
			op->has_remaining = true;
			op->remaining = step->row.values[i].number;
		}
	}
	return 0;
}

/* --- settle ------------------------------------------------------------------------------------------------------ */

static int new_approval(struct batch *batch, struct op *op)
{
	const struct ledger_call *call = &op->job->call;
	unsigned int ttl_s = op->tool->approval_ttl_s ? op->tool->approval_ttl_s
						      : batch->ledger->options.approval_ttl_s;
	const char *params = fact_save_params(batch, call);
	const char *request = arena_copy(batch->arena, call->request, call->request_size);
	char id[LEDGER_APPROVAL_ID_SIZE];
	uint8_t random[(LEDGER_APPROVAL_ID_SIZE - 1) / 2];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -EIO;
	text_hex(random, sizeof(random), id);
	op->approval_id = arena_string(batch->arena, id);
	if (!params || !request || !op->approval_id)
		return -ENOMEM;
	op->approval_expires_ns = batch->now_ns + (int64_t)ttl_s * NS_PER_S;
	STEP(batch, &batch->writes, APPROVAL_INSERT, T(op->approval_id), N(op->id), T(op->digest),
	     N(batch->now_ns), N(op->approval_expires_ns), T(request), T(params));
	return 0;
}

static void write_new(struct batch *batch, struct op *op)
{
	const char *quota = op->tool->limits.per_subject ? op->subject : "";
	const char *state = ledger_state_name(op->state), *code = ledger_code_info(op->code)->name;

	if (op->has_row)
		op->write = STEP(batch, &batch->writes, CALL_AGAIN, T(op->digest), T(state),
				 T(code), N((int64_t)op->fence), T(op->task), T(op->grant_id),
				 T(op->scope), T(op->object), N(op->amount), N(batch->day),
				 T(quota), T(batch->ledger->options.node), T(op->approval_id),
				 T(op->result), N(batch->now_ns), N(op->id), N(op->row.id));
	else
		op->write =
			STEP(batch, &batch->writes, CALL_INSERT, N(op->id), T(op->tenant),
			     T(op->subject), T(op->tool_name), T(op->key), T(op->digest), T(state),
			     T(code), N((int64_t)op->fence), T(op->task), T(op->grant_id),
			     T(op->scope), T(op->object), N(op->amount), N(batch->day), T(quota),
			     T(batch->ledger->options.node), T(op->approval_id), T(op->result),
			     N(batch->now_ns), N(batch->now_ns));
	op->must_change = true;
}

static int settle_call(struct batch *batch, struct op *op, const struct steps *executed)
{
	enum ledger_state from = op->has_row ? LEDGER_STATE_FAILED : LEDGER_STATE_NONE;
	int err = 0;

	/* A repeat, or refused: nothing is kept but the record. */
	if ((op->has_row && op->row.state != LEDGER_STATE_FAILED) ||
	    (op->code != LEDGER_OK && op->code != LEDGER_PENDING_APPROVAL))
		return 0;
	if (op->executes)
		err = take_execution(batch, op, executed);
	if (err || (op->executes && op->code != LEDGER_OK)) {
		op->id = op->has_row ? op->row.id : 0;
		hold(op, -1);
		return err;
	}
	if (op->code == LEDGER_PENDING_APPROVAL) {
		op->state = LEDGER_STATE_HELD;
		err = new_approval(batch, op);
	} else if (op->executes) {
		op->state = LEDGER_STATE_DONE;
	} else {
		op->state = op->job->call.start ? LEDGER_STATE_EXECUTING : LEDGER_STATE_RESERVED;
		op->code = LEDGER_EXECUTE;
	}
	if (!ledger_step_allowed(from, LEDGER_STEP_SUBMIT, op->state))
		return -EPROTO;
	write_new(batch, op);
	return err;
}

/* Moves a row that exists. */
static int to_state(struct batch *batch, struct op *op, enum ledger_step step, enum ledger_state to,
		    enum ledger_code code, const char *result)
{
	enum ledger_state from = op->row.state;

	if (!ledger_step_allowed(from, step, to))
		return -EPROTO;
	op->state = to;
	op->write =
		STEP(batch, &batch->writes, CALL_STEP, T(ledger_state_name(to)),
		     T(ledger_code_info(code)->name), T(result ? result : op->row.result),
		     T(step == LEDGER_STEP_APPROVE ? batch->ledger->options.node : op->row.node),
		     N(batch->now_ns), N(op->id), T(ledger_state_name(from)));
	op->must_change = true;
	if (ledger_state_counts(from) && !ledger_state_counts(to))
		hold(op, -1);
	return 0;
}

static void close_approval(struct batch *batch, const struct op *op, const char *state)
{
	STEP(batch, &batch->writes, APPROVAL_DECIDE, T(state), T(op->job ? op->job->by : ""),
	     T(op->job ? op->job->reason : ""), N(batch->now_ns), T(op->approval_id));
}

static int settle_approval(struct batch *batch, struct op *op, const struct steps *executed)
{
	int err = 0;

	switch (op->code) {
	case LEDGER_APPROVAL_NOT_FOUND:
	case LEDGER_APPROVAL_NOT_PENDING:
	case LEDGER_APPROVER_IS_CALLER:
	case LEDGER_TOOL_UNKNOWN:
	case LEDGER_UNAVAILABLE:
		return 0; /* still pending, if it was */
	case LEDGER_APPROVAL_EXPIRED:
		if (op->row.state != LEDGER_STATE_HELD)
			return 0;
		close_approval(batch, op, "expired");
		return to_state(batch, op, LEDGER_STEP_EXPIRE, LEDGER_STATE_EXPIRED, op->code,
				NULL);
	case LEDGER_APPROVAL_DENIED:
		close_approval(batch, op, "denied");
		err = to_state(batch, op, LEDGER_STEP_DENY, LEDGER_STATE_DENIED, op->code, NULL);
		op->code = LEDGER_OK; /* what the approver asked for was done */
		return err;
	default:
		break;
	}
	close_approval(batch, op, "approved");
	if (op->executes)
		err = take_execution(batch, op, executed);
	if (err)
		return err;
	if (op->code == LEDGER_EXECUTION_FAILED)
		return to_state(batch, op, LEDGER_STEP_APPROVE, LEDGER_STATE_FAILED, op->code,
				NULL);
	if (op->code != LEDGER_OK)
		return to_state(batch, op, LEDGER_STEP_REFUSE, LEDGER_STATE_REFUSED, op->code,
				NULL);
	if (op->executes)
		return to_state(batch, op, LEDGER_STEP_APPROVE, LEDGER_STATE_DONE, op->code,
				op->result);
	op->code = LEDGER_EXECUTE;
	op->answer_result = op->approval.request;
	return to_state(batch, op, LEDGER_STEP_APPROVE, LEDGER_STATE_EXECUTING, op->code, NULL);
}

static int settle_step(struct batch *batch, struct op *op)
{
	static const enum ledger_step steps[] = {
		[OP_START] = LEDGER_STEP_START,	   [OP_FINISH] = LEDGER_STEP_FINISH,
		[OP_SETTLE] = LEDGER_STEP_SETTLE,  [OP_RECOVER] = LEDGER_STEP_RECOVER,
		[OP_RELEASE] = LEDGER_STEP_FINISH,
	};
	static const enum ledger_code codes[LEDGER_STATES_N] = {
		[LEDGER_STATE_EXECUTING] = LEDGER_EXECUTE,
		[LEDGER_STATE_DONE] = LEDGER_OK,
		[LEDGER_STATE_FAILED] = LEDGER_EXECUTION_FAILED,
		[LEDGER_STATE_AMBIGUOUS] = LEDGER_OUTCOME_AMBIGUOUS,
	};
	const char *result =
		op->kind == OP_FINISH || op->kind == OP_SETTLE ? op->job->result : NULL;

	if (op->code != LEDGER_OK || op->state == op->row.state)
		return 0;
	return to_state(batch, op, steps[op->kind], op->state, codes[op->state], result);
}

int op_settle(struct batch *batch, struct op *op, const struct steps *executed)
{
	int err = 0;

	if (op->kind == OP_CALL)
		err = settle_call(batch, op, executed);
	else if (op_by_approval(op))
		err = settle_approval(batch, op, executed);
	else if (op_by_id(op))
		err = settle_step(batch, op);
	if (op->fault)
		ledger_log(batch->ledger, "tool %s: %s", op->tool_name, op->fault);
	/* What the ledger wanted for itself and was not to be done leaves no trace. */
	if (err || (!op->job && !op->must_change))
		return err;
	return record_add(batch, op);
}
