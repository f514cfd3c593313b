// SPDX-License-Identifier: Apache-2.0
/*
 * GET /approvals/ID: what became of a held call, for who made it: the same tenant and subject. Reads the
 * ledger in a pool of its own and decides nothing.
 */
#include <string.h>
#include <time.h>

#include "gateway/call.h"
#include "gateway/input.h"
#include "gateway/pool.h"

struct lookup {
	struct work work; /* first */
	struct pool_task task;
	struct gateway *gateway;
	struct caller *caller;
	char id[LEDGER_APPROVAL_ID_SIZE];
	bool found, failed;
	int status;
	char *answer;
};

/* What the caller is told of a call in this state. */
static enum ledger_code code_of(const struct ledger_approval_row *row)
{
	switch (row->call.state) {
	case LEDGER_STATE_DONE:
		return LEDGER_OK;
	case LEDGER_STATE_HELD:
		return LEDGER_PENDING_APPROVAL;
	case LEDGER_STATE_DENIED:
		return LEDGER_APPROVAL_DENIED;
	case LEDGER_STATE_EXPIRED:
		return LEDGER_APPROVAL_EXPIRED;
	case LEDGER_STATE_AMBIGUOUS:
		return LEDGER_OUTCOME_AMBIGUOUS;
	case LEDGER_STATE_FAILED:
		return LEDGER_EXECUTION_FAILED;
	case LEDGER_STATE_REFUSED:
		return row->call.code;
	default:
		return LEDGER_KEY_IN_FLIGHT;
	}
}

static int on_row(const struct ledger_approval_row *row, void *data)
{
	struct lookup *lookup = data;
	const struct identity *id = &lookup->caller->id;
	enum ledger_code code = code_of(row);
	time_t at = (time_t)(row->expires_ns / 1000000000);
	json_t *root;
	char expires[32];
	struct tm tm;

	if (strcmp(row->call.tenant, id->tenant) != 0 ||
	    strcmp(row->call.subject, id->subject) != 0)
		return 0;
	lookup->found = true;
	gmtime_r(&at, &tm);
	strftime(expires, sizeof(expires), "%Y-%m-%dT%H:%M:%SZ", &tm);
	root = json_pack("{s:s,s:s,s:s,s:s,s:s}", "approval", row->id, "status",
			 ledger_code_info(code)->name, "tool", row->call.tool, "state", row->state,
			 "expires", expires);
	if (root && code == LEDGER_OK && row->call.result)
		json_object_set_new(root, "result", json_loads(row->call.result, 0, NULL));
	lookup->answer = root ? json_dumps(root, JSON_COMPACT) : NULL;
	json_decref(root);
	return 1;
}

static void on_task(struct pool_task *task)
{
	struct lookup *lookup = (struct lookup *)((char *)task - offsetof(struct lookup, task));
	const struct ledger_filter filter = {
		.approval = lookup->id, .tenant = lookup->caller->id.tenant, .state = -1, .limit = 1
	};

	lookup->failed =
		ledger_list_approvals(lookup->gateway->ledger, &filter, on_row, lookup, NULL) < 0;
	worker_post(&lookup->work);
}

static void on_resume(struct work *work)
{
	struct lookup *lookup = (struct lookup *)work;

	if (lookup->work.conn && lookup->answer)
		conn_answer(lookup->work.conn, 200, lookup->answer, strlen(lookup->answer));
	else if (lookup->work.conn)
		conn_refuse(lookup->work.conn,
			    lookup->failed || lookup->found ? LEDGER_UNAVAILABLE
							    : LEDGER_APPROVAL_NOT_FOUND,
			    NULL);
	work_end(&lookup->work);
	caller_unref(lookup->caller);
	free(lookup->answer);
	free(lookup);
}

void approval_start(const struct request *request, const char *id, size_t size)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup) {
		conn_refuse(request->conn, LEDGER_OVERLOADED, NULL);
		return;
	}
	lookup->gateway = request->gateway;
	lookup->caller = caller_ref(request->caller);
	lookup->work.resume = on_resume;
	lookup->task.run = on_task;
	conn_wait(request->conn, &lookup->work);
	if (size < sizeof(lookup->id))
		memcpy(lookup->id, id, size);
	if (size >= sizeof(lookup->id)) {
		on_resume(&lookup->work);
	} else if (pool_submit(request->gateway->readers, &lookup->task) < 0) {
		lookup->failed = true;
		on_resume(&lookup->work);
	}
	/* cppcheck-suppress memleak ; on_resume() frees it, here or when the look-up is done */
}
