// SPDX-License-Identifier: Apache-2.0
/*
 * The requests of the admin socket, one function each. The role has been checked against the request's row; what depends
 * on the call (its tenant, its subject) is checked here and in the ledger. Everything that is decided is reported
 * before it is answered; when nothing can be reported nothing is decided.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "admin/internal.h"

/* --- words ---------------------------------------------------------------------------------------------------- */

static json_t *time_json(int64_t ns)
{
	time_t s = (time_t)(ns / 1000000000);
	char text[32];
	struct tm tm;

	if (ns <= 0)
		return json_null();
	gmtime_r(&s, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_string(text);
}

static json_t *text_json(const char *text)
{
	json_t *value = text && *text ? json_string(text) : NULL;

	return value ? value : json_null();
}

static json_t *limit_json(int64_t value)
{
	return value == LEDGER_NO_LIMIT ? json_null() : json_integer(value);
}

static json_t *fence_json(uint64_t id)
{
	char text[EVENT_FENCE_ID_SIZE];

	return id ? json_string(event_format_fence_id(id, text)) : json_null();
}

static void code_error(struct session *s, enum ledger_code code, const char *reason)
{
	session_error(s, ledger_code_info(code)->name,
		      reason && *reason ? reason : ledger_code_info(code)->text);
}

/* Nothing is decided that could not be told. */
static bool may_decide(struct session *s)
{
	if (!report_ready(s->admin->report))
		return true;
	session_error(s, "unavailable", "the events cannot be written, so nothing is decided");
	return false;
}

/* --- calls and approvals -------------------------------------------------------------------------------------- */

static json_t *call_json(const struct ledger_call_row *row)
{
	json_t *root =
		json_pack("{s:I,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:o,s:o,s:o}",
			  "call", (json_int_t)row->id, "state", ledger_state_name(row->state),
			  "code", ledger_code_info(row->code)->name, "tenant",
			  text_json(row->tenant), "subject", text_json(row->subject), "task",
			  text_json(row->task), "tool", text_json(row->tool), "object",
			  text_json(row->object), "key", text_json(row->key), "amount",
			  (json_int_t)row->amount, "grant", text_json(row->grant), "approval",
			  text_json(row->approval), "fence", fence_json(row->fence), "node",
			  text_json(row->node), "created", time_json(row->created_ns), "updated",
			  time_json(row->updated_ns));

	if (root && row->result && *row->result)
		json_object_set_new(root, "result", json_loads(row->result, JSON_ALLOW_NUL, NULL));
	return root;
}

static json_t *approval_json(const struct ledger_approval_row *row)
{
	json_t *root = call_json(&row->call);

	if (!root)
		return NULL;
	json_object_set_new(root, "approval", text_json(row->id));
	json_object_set_new(root, "decision", text_json(row->state));
	json_object_set_new(root, "by", text_json(row->by));
	json_object_set_new(root, "reason", text_json(row->reason));
	json_object_set_new(root, "expires", time_json(row->expires_ns));
	json_object_set_new(root, "decided", time_json(row->decided_ns));
	return root;
}

static int on_call(const struct ledger_call_row *row, void *data)
{
	return session_row(data, call_json(row));
}

/* An approver of one tenant does not see another's. */
static int on_approval(const struct ledger_approval_row *row, void *data)
{
	struct session *s = data;

	return admin_role_covers(&s->role, row->call.tenant) ? session_row(s, approval_json(row))
							     : 0;
}

static void list_end(struct session *s, int r, const struct error *error)
{
	if (r < 0 && !s->err)
		session_error(s, "unavailable", error->text);
	else
		session_ok(s, NULL);
}

static void approvals_list(struct session *s, const struct admin_request *r)
{
	const struct ledger_filter filter = {
		.task = admin_text(r, ADMIN_task),
		.tenant = admin_text(r, ADMIN_tenant),
		.pending = !r->number[ADMIN_all],
		.state = -1,
		.limit = (unsigned int)r->number[ADMIN_limit],
	};
	struct error error = { "" };

	list_end(s, ledger_list_approvals(s->admin->ledger, &filter, on_approval, s, &error),
		 &error);
}

/* What is known of an approval before it is decided. */
struct held {
	struct session *session;
	bool found, covered;
	json_t *root;
};

static int on_held(const struct ledger_approval_row *row, void *data)
{
	struct held *held = data;

	held->found = true;
	held->covered = admin_role_covers(&held->session->role, row->call.tenant);
	if (held->covered)
		held->root = approval_json(row);
	return 1;
}

static void job_report(struct session *s, enum cordon_op op, const char *action,
		       enum ledger_code code, const struct ledger_answer *a, const char *reason,
		       bool executed);

/* An approval of another tenant is refused, and that is reported. */
static bool held_find(struct session *s, const char *id, const char *action, struct held *ret)
{
	const struct ledger_filter filter = { .approval = id, .state = -1, .limit = 1 };
	struct error error = { "" };

	*ret = (struct held){ .session = s };
	if (ledger_list_approvals(s->admin->ledger, &filter, on_held, ret, &error) < 0) {
		session_error(s, "unavailable", error.text);
		return false;
	}
	if (ret->found && !ret->covered) {
		struct ledger_answer answer = { .call = 0 };

		snprintf(answer.approval, sizeof(answer.approval), "%s", id);
		job_report(s, CORDON_OP_APPROVAL, action, LEDGER_TENANT_MISMATCH, &answer,
			   "an approver of another tenant", false);
		code_error(s, LEDGER_TENANT_MISMATCH, "you are no approver of its tenant");
	} else if (!ret->found) {
		code_error(s, LEDGER_APPROVAL_NOT_FOUND, NULL);
	}
	return ret->covered;
}

static void approvals_show(struct session *s, const struct admin_request *r)
{
	struct held held;

	if (held_find(s, r->text[ADMIN_id], "show", &held)) {
		session_row(s, held.root);
		session_ok(s, NULL);
	}
}

/* The event of a job that was done on the admin socket. executed: the call itself was, by this. */
static void job_report(struct session *s, enum cordon_op op, const char *action,
		       enum ledger_code code, const struct ledger_answer *a, const char *reason,
		       bool executed)
{
	const struct report_row row = {
		.op = op,
		.code = code,
		.fence_id = a->fence,
		.tenant = a->tenant,
		.subject = a->subject,
		.task = a->task,
		.reason = reason,
		.gateway = {
			.tool = a->tool[0] ? a->tool : NULL,
			.action = action,
			.object = a->object[0] ? a->object : NULL,
			.grant = a->grant[0] ? a->grant : NULL,
			.key = a->key[0] ? a->key : NULL,
			.approval = a->approval[0] ? a->approval : NULL,
			.has_amount = a->call != 0,
			.destructive = executed && s->admin->destructive &&
				       s->admin->destructive(s->admin->execute_context, a->tool),
			.amount = a->amount,
			.by = s->role.name,
			.upstream_status = -1,
			.latency_us = -1,
		},
		.record_seq = a->record_seq,
		.record_hash = a->record_hash,
	};

	report_write(s->admin->report, &row);
}

static json_t *answer_json(const struct ledger_answer *a, enum ledger_code code)
{
	json_t *root = json_pack("{s:s,s:s,s:I,s:o,s:o}", "code", ledger_code_info(code)->name,
				 "state", ledger_state_name(a->state), "call", (json_int_t)a->call,
				 "tool", text_json(a->tool), "object", text_json(a->object));

	if (root && a->result && code != LEDGER_EXECUTE)
		json_object_set_new(root, "result", json_loads(a->result, 0, NULL));
	return root;
}

/* Approve: a call of an upstream is sent by now, and settled, before the approver is answered. */
static void approvals_decide(struct session *s, const struct admin_request *r, bool approve)
{
	struct ledger_job job = {
		.verb = approve ? LEDGER_APPROVE : LEDGER_DENY,
		.approval = r->text[ADMIN_id],
		.by = s->role.name,
		.reason = r->text[ADMIN_reason],
	};
	const char *action = approve ? "approve" : "deny";
	struct ledger_answer finished = { .call = 0 };
	enum ledger_code code;
	struct held held;

	if (!may_decide(s) || !held_find(s, job.approval, action, &held))
		return;
	json_decref(held.root);
	ledger_run(s->admin->ledger, &job);
	code = job.answer.code;
	if (!approve && code == LEDGER_OK) /* the call's end, which is no permission */
		code = LEDGER_APPROVAL_DENIED;
	if (code == LEDGER_EXECUTE && s->admin->execute) {
		/* That it was approved stands in the stream before its effect. */
		job_report(s, CORDON_OP_APPROVAL, action, LEDGER_OK, &job.answer, job.reason,
			   false);
		code = s->admin->execute(s->admin->execute_context, &job.answer, &finished);
		job_report(s, CORDON_OP_CALL, "execute", code,
			   finished.call ? &finished : &job.answer, NULL, code == LEDGER_OK);
	} else {
		job_report(s, CORDON_OP_APPROVAL, action, code, &job.answer, job.reason,
			   approve && code == LEDGER_OK);
	}
	/* A denial that was carried out is what was asked for. */
	if (code == LEDGER_OK || (!approve && code == LEDGER_APPROVAL_DENIED))
		session_ok(s, answer_json(finished.call ? &finished : &job.answer, code));
	else
		code_error(s, code, NULL);
	ledger_answer_clear(&finished);
	ledger_answer_clear(&job.answer);
}

/* --- the ledger ------------------------------------------------------------------------------------------------ */

static void ledger_list(struct session *s, const struct admin_request *r)
{
	const char *state = admin_text(r, ADMIN_state);
	const struct ledger_filter filter = {
		.task = admin_text(r, ADMIN_task),
		.tenant = admin_text(r, ADMIN_tenant),
		.state = state ? ledger_state_parse(state) : -1,
		.limit = (unsigned int)r->number[ADMIN_limit],
		.before_id = r->number[ADMIN_before],
	};
	struct error error = { "" };

	if (state && filter.state < 0)
		session_error(s, "invalid_request", "state: no such state of a call");
	else
		list_end(s, ledger_list_calls(s->admin->ledger, &filter, on_call, s, &error),
			 &error);
}

/* Which call is meant: a key need not be one tenant's only. */
struct meant {
	struct session *session;
	int64_t id;
	unsigned int n;
	bool show;
};

static int on_meant(const struct ledger_call_row *row, void *data)
{
	struct meant *m = data;

	m->id = row->id;
	m->n++;
	return m->show ? session_row(m->session, call_json(row)) : 0;
}

static bool calls_find(struct session *s, const struct admin_request *r, bool show,
		       struct meant *ret)
{
	const struct ledger_filter filter = {
		.id = r->number[ADMIN_call],
		.key = admin_text(r, ADMIN_key),
		.tenant = admin_text(r, ADMIN_tenant),
		.state = -1,
		.limit = 100,
	};
	struct error error = { "" };

	*ret = (struct meant){ .session = s, .show = show };
	if (ledger_list_calls(s->admin->ledger, &filter, on_meant, ret, &error) < 0)
		session_error(s, "unavailable", error.text);
	else if (!ret->n)
		code_error(s, LEDGER_CALL_NOT_FOUND, NULL);
	else
		return true;
	return false;
}

static void ledger_show(struct session *s, const struct admin_request *r)
{
	struct meant meant;

	if (calls_find(s, r, true, &meant))
		session_ok(s, NULL);
}

static void ledger_settle(struct session *s, const struct admin_request *r)
{
	bool done = !strcmp(r->text[ADMIN_outcome], "done");
	struct ledger_job job = {
		.verb = LEDGER_SETTLE,
		.outcome = done ? LEDGER_STATE_DONE : LEDGER_STATE_FAILED,
		.by = s->role.name,
		.reason = r->text[ADMIN_reason],
	};
	struct meant meant;

	if (!done && strcmp(r->text[ADMIN_outcome], "failed") != 0) {
		session_error(s, "invalid_request", "outcome: done or failed");
		return;
	}
	if (!may_decide(s) || !calls_find(s, r, false, &meant))
		return;
	if (meant.n > 1) {
		session_error(
			s, "invalid_request",
			"several calls have this key: name the call (`ledger show` lists them)");
		return;
	}
	job.id = meant.id;
	ledger_run(s->admin->ledger, &job);
	job_report(s, CORDON_OP_SETTLE, done ? "settle done" : "settle failed", job.answer.code,
		   &job.answer, job.reason, false);
	if (job.answer.code == LEDGER_OK)
		session_ok(s, answer_json(&job.answer, LEDGER_OK));
	else
		code_error(s, job.answer.code, NULL);
	ledger_answer_clear(&job.answer);
}

/* --- grants ----------------------------------------------------------------------------------------------------- */

static json_t *grant_json(const struct ledger_grant *g)
{
	return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:o,s:o,s:o}", "grant",
			 g->id, "fence", fence_json(g->fence), "tenant", text_json(g->tenant),
			 "subject", text_json(g->subject), "task", text_json(g->task), "scope",
			 text_json(g->scope), "tool", text_json(g->tool), "object",
			 text_json(g->object), "amount_max", limit_json(g->amount_max), "uses",
			 limit_json(g->uses_max), "amount_used", (json_int_t)g->amount_used,
			 "uses_used", (json_int_t)g->uses_used, "issued", time_json(g->issued_ns),
			 "expires", time_json(g->expires_ns), "revoked", time_json(g->revoked_ns));
}

static int on_grant(const struct ledger_grant *row, void *data)
{
	return session_row(data, grant_json(row));
}

static void grants_list(struct session *s, const struct admin_request *r)
{
	const struct ledger_filter filter = {
		.task = admin_text(r, ADMIN_task),
		.tenant = admin_text(r, ADMIN_tenant),
		.state = -1,
		.limit = (unsigned int)r->number[ADMIN_limit],
	};
	struct error error = { "" };

	list_end(s, ledger_list_grants(s->admin->ledger, &filter, on_grant, s, &error), &error);
}

static bool fence_find(struct session *s, const struct admin_request *r, struct identity *ret)
{
	const char *task = admin_text(r, ADMIN_task);
	uint64_t id = 0;
	int err;

	if (!task && event_parse_fence_id(r->text[ADMIN_fence], &id)) {
		session_error(s, "invalid_request", "fence: 1 to 16 hexadecimal digits");
		return false;
	}
	err = task ? identity_find_task(s->admin->identity, task, ret)
		   : identity_find(s->admin->identity, id, ret);
	if (err)
		session_error(s, err == -EEXIST ? "invalid_request" : "fence_not_found",
			      err == -EEXIST ? "several fences have this task: name the fence"
					     : "no living fence of this host is that");
	return !err;
}

static void grant_report(struct session *s, const char *action, enum ledger_code code,
			 const struct identity *fence, const struct ledger_answer *a,
			 const char *grant, const char *scope, const char *tool, const char *object,
			 int64_t amount_max, const char *reason)
{
	const struct report_row row = {
		.op = CORDON_OP_GRANT,
		.code = code,
		.caller = fence,
		.reason = reason,
		.gateway = {
			.tool = tool,
			.action = action,
			.object = object,
			.scope = scope,
			.grant = grant,
			.has_amount = amount_max > 0 && amount_max != GRANT_NO_LIMIT,
			.amount = amount_max,
			.by = s->role.name,
			.upstream_status = -1,
			.latency_us = -1,
		},
		.record_seq = a->record_seq,
		.record_hash = a->record_hash,
	};

	report_write(s->admin->report, &row);
}

static void grants_issue(struct session *s, const struct admin_request *r)
{
	const struct tokens_terms terms = {
		.scope = r->text[ADMIN_scope],
		.tool = admin_text(r, ADMIN_tool),
		.object = admin_text(r, ADMIN_object),
		.amount_max =
			r->number[ADMIN_amount_max] ? r->number[ADMIN_amount_max] : GRANT_NO_LIMIT,
		.uses_max = r->number[ADMIN_uses] ? r->number[ADMIN_uses] : GRANT_NO_LIMIT,
		.minutes = r->number[ADMIN_minutes],
	};
	char token[GRANT_TOKEN_MAX + 1], id[GRANT_ID_SIZE] = "";
	struct identity *fence = malloc(sizeof(*fence));
	struct ledger_answer answer;
	struct ledger_grant grant;
	struct error error = { "" };
	enum ledger_code code;
	json_t *root;

	if (!fence || !may_decide(s) || !fence_find(s, r, fence)) {
		free(fence);
		return;
	}
	code = tokens_issue(s->admin->tokens, fence, &terms, s->role.name, token, &grant, id,
			    &answer, &error);
	grant_report(s, "issue", code, fence, &answer, id[0] ? id : NULL, terms.scope, terms.tool,
		     terms.object, terms.amount_max, error.text);
	if (code == LEDGER_OK) {
		root = grant_json(&grant);
		json_object_set_new(root, "token", json_string(token));
		session_ok(s, root);
	} else {
		code_error(s, code, error.text);
	}
	explicit_bzero(token, sizeof(token));
	ledger_answer_clear(&answer);
	free(fence);
}

static void grants_renew(struct session *s, const struct admin_request *r)
{
	char token[GRANT_TOKEN_MAX + 1];
	struct identity *fence = calloc(1, sizeof(*fence));
	struct ledger_answer answer;
	struct error error = { "" };
	enum ledger_code code;
	int64_t expires_ns = 0;

	if (!fence || !may_decide(s)) {
		free(fence);
		return;
	}
	code = tokens_renew(s->admin->tokens, r->text[ADMIN_id], r->number[ADMIN_minutes],
			    s->role.name, token, &expires_ns, fence, &answer, &error);
	grant_report(s, "renew", code, fence->fence_id ? fence : NULL, &answer, r->text[ADMIN_id],
		     NULL, NULL, NULL, 0, error.text);
	if (code == LEDGER_OK)
		session_ok(s, json_pack("{s:s,s:o,s:s}", "grant", r->text[ADMIN_id], "expires",
					time_json(expires_ns), "token", token));
	else
		code_error(s, code, error.text);
	explicit_bzero(token, sizeof(token));
	ledger_answer_clear(&answer);
	free(fence);
}

/* Whose grants, and what the event calls it. value is to hold a fence's id in decimal. */
static bool revoke_read(struct session *s, const struct admin_request *r, struct ledger_job *job,
			char value[24], const char **ret_word)
{
	static const struct {
		enum admin_member member;
		enum ledger_revoke_by by;
		const char *word;
	} ways[] = {
		{ ADMIN_id, LEDGER_REVOKE_ID, "id" },
		{ ADMIN_task, LEDGER_REVOKE_TASK, "task" },
		{ ADMIN_subject, LEDGER_REVOKE_SUBJECT, "subject" },
		{ ADMIN_fence, LEDGER_REVOKE_FENCE, "fence" },
	};
	uint64_t fence;

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		if (admin_text(r, ways[i].member)) {
			job->revoke_by = ways[i].by;
			job->value = r->text[ways[i].member];
			*ret_word = ways[i].word;
		}
	if (job->revoke_by != LEDGER_REVOKE_FENCE)
		return true;
	if (event_parse_fence_id(job->value, &fence)) {
		session_error(s, "invalid_request", "fence: 1 to 16 hexadecimal digits");
		return false;
	}
	snprintf(value, 24, "%" PRIu64, fence);
	job->value = value;
	return true;
}

static void grants_revoke(struct session *s, const struct admin_request *r)
{
	struct ledger_job job = {
		.verb = LEDGER_REVOKE,
		.revoke_by = LEDGER_REVOKE_SUBJECT,
		.value = r->text[ADMIN_subject],
		.by = s->role.name,
		.reason = r->text[ADMIN_reason],
	};
	const char *word = "subject";
	char action[192], value[24];

	if (!may_decide(s) || !revoke_read(s, r, &job, value, &word))
		return;
	ledger_run(s->admin->ledger, &job);
	snprintf(action, sizeof(action), "revoke by %s %.160s", word,
		 job.value == value ? r->text[ADMIN_fence] : job.value);
	grant_report(s, action, job.answer.code, NULL, &job.answer, admin_text(r, ADMIN_id), NULL,
		     NULL, NULL, 0, job.reason);
	if (job.answer.code == LEDGER_OK && s->admin->revoked)
		s->admin->revoked(s->admin->execute_context, job.revoke_by, job.value);
	if (job.answer.code == LEDGER_OK)
		session_ok(s, json_pack("{s:I}", "revoked", (json_int_t)job.answer.count));
	else
		code_error(s, job.answer.code, NULL);
	ledger_answer_clear(&job.answer);
}

/* --- all -------------------------------------------------------------------------------------------------------- */

static void status(struct session *s)
{
	struct error error = { "" };
	int health = ledger_health(s->admin->ledger, &error);
	int ready = report_ready(s->admin->report);

	session_ok(s,
		   json_pack("{s:s,s:b,s:b,s:s,s:s}", "you", s->role.name, "admin",
			     !!(s->role.may & ADMIN_ADMIN), "approver",
			     !!(s->role.may & ADMIN_APPROVER), "ledger", health ? error.text : "ok",
			     "events", ready ? strerror(-ready) : "ok"));
}

void session_answer(struct session *s, const struct admin_request *r)
{
	switch (r->verb) {
	case ADMIN_DO_STATUS:
		status(s);
		break;
	case ADMIN_DO_APPROVALS_LIST:
		approvals_list(s, r);
		break;
	case ADMIN_DO_APPROVALS_SHOW:
		approvals_show(s, r);
		break;
	case ADMIN_DO_APPROVALS_APPROVE:
		approvals_decide(s, r, true);
		break;
	case ADMIN_DO_APPROVALS_DENY:
		approvals_decide(s, r, false);
		break;
	case ADMIN_DO_GRANTS_ISSUE:
		grants_issue(s, r);
		break;
	case ADMIN_DO_GRANTS_RENEW:
		grants_renew(s, r);
		break;
	case ADMIN_DO_GRANTS_REVOKE:
		grants_revoke(s, r);
		break;
	case ADMIN_DO_GRANTS_LIST:
		grants_list(s, r);
		break;
	case ADMIN_DO_LEDGER_LIST:
		ledger_list(s, r);
		break;
	case ADMIN_DO_LEDGER_SHOW:
		ledger_show(s, r);
		break;
	case ADMIN_DO_LEDGER_SETTLE:
		ledger_settle(s, r);
		break;
	case ADMIN_DO_N:
		break;
	}
}
