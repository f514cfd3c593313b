/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: the truth about every call that the gateway decides. It keeps keys, reservations, quotas, approvals,
 * grants' counters and the chain of decision records, in SQLite or PostgreSQL, and knows neither HTTP nor BPF nor
 * YAML. What it offers are whole steps of a call, not statements: each step is decided, written and recorded in one
 * transaction or not at all.
 *
 * Promises. One key, one effect: across repeats, races, crashes and several gateways. No limit is overdrawn. An answer
 * is given only after the transaction that it rests on is durable, its decision record included; where that cannot
 * be written, nothing is done and the answer is `unavailable`. No text of a database ever gets into an answer.
 *
 * Threads. A ledger has one thread of its own, which does all writing: jobs wait in a queue and share transactions,
 * as many as are there when the last commit ends (group commit). ledger_submit() may be called from any thread,
 * never blocks on the database, allocates nothing. job->done is called in the ledger's thread, after the commit: it
 * must be short, must not block and must not call the blocking functions; ledger_submit() it may call. An event loop
 * lets done() push the job onto a list of its own and writes an eventfd. The blocking functions (ledger_run and what
 * reads) may be called from every other thread. Jobs are done in the order in which they were decided.
 *
 * Time is the ledger's own: the wall clock, but never behind what was last written, and carried on by the monotonic
 * clock when the wall clock is set back. Nanoseconds since 1970, UTC; days are UTC days.
 */
#ifndef CORDON_LEDGER_H
#define CORDON_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/codes.h"
#include "ledger/decide.h"
#include "util/util.h"

/* Bytes without the NUL. What is longer is refused by ledger_submit() with -E2BIG. */
#define LEDGER_NAME_MAX 128   /* tenant, subject, task, tool, grant, scope, approver, node */
#define LEDGER_KEY_MAX 200    /* idempotency key */
#define LEDGER_OBJECT_MAX 512 /* object */
#define LEDGER_REASON_MAX 512
#define LEDGER_REQUEST_MAX (256 * 1024)
#define LEDGER_RESULT_MAX (64 * 1024)
#define LEDGER_DIGEST_SIZE 32
#define LEDGER_HASH_SIZE 32
#define LEDGER_APPROVAL_ID_SIZE 33 /* 128 random bits in hexadecimal, and NUL */
#define LEDGER_PARAMS_MAX 16
#define LEDGER_LEASE_S 60 /* unless options say another */

struct ledger;
struct ledger_tool;

/* --- opening ------------------------------------------------------------------------------------------------------ */

struct ledger_options {
	const char *store; /* "sqlite:PATH" or "postgresql://..." (a libpq URI) */
	const char *facts; /* where fact queries look; NULL or equal to store: the store itself */
	const char *node;  /* name of this gateway, unique among those that share the store */
	/*
	 * Path of a small file outside the store that remembers the last record, or NULL. With it a store that was
	 * rolled back (an older copy put in its place) is found out when it is opened, and refused.
	 */
	const char *anchor;
	unsigned int batch_max; /* jobs in one transaction; 0: 256 */
	unsigned int
		queue_max; /* jobs that wait; beyond: -EAGAIN, answer 503 `overloaded`; 0: 16,384 */
	unsigned int
		lock_timeout_ms; /* how long to wait for other gateways' transactions; 0: 5,000 */
	unsigned int approval_ttl_s; /* for tools that say none; 0: 3,600 */
	unsigned int key_ttl_s; /* how long a finished key is kept; at least (and 0 for) 86,400 */
	unsigned int
		lease_s; /* a gateway not heard of for so long is taken for dead by the others; 0: LEDGER_LEASE_S */
	bool accept_clock; /* open although the clock is more than a day behind the last record */
	bool accept_rollback; /* open although the anchor says that records are missing; the anchor is set anew */
	/* For tests: wall clock and monotonic clock in ns; NULL: CLOCK_REALTIME, CLOCK_MONOTONIC. */
	int64_t (*wall_ns)(void);
	int64_t (*mono_ns)(void);
	/* One line for the operator, from any thread; may contain database text, never a caller's to see. May be NULL. */
	void (*log)(const char *line, void *data);
	void *log_data;
};

/*
 * Opens or creates the store, brings its schema up to date, recovers what this node left behind (reserved calls are
 * released, executing ones become ambiguous), starts the thread. Blocks. 0, or -errno with the message:
 *   -EINVAL options, -EPROTO the schema is newer than this program, -ETIME the clock is behind, -ESTALE the store was
 *   rolled back, -EIO/-ECONNREFUSED/... the store.
 * Of two that open under one node name the later wins: the earlier can write nothing more, and answers `unavailable`.
 */
int ledger_open(struct ledger **ret, const struct ledger_options *options, struct error *error);
/* Answers what is queued, stops the thread, closes. No call of another thread may be under way. NULL is fine. */
void ledger_close(struct ledger *ledger);
/*
 * What a health endpoint reports: 0 when the last transaction could be written, else the -errno of the last try. Does
 * not block; error (may be NULL) gets a line for the operator.
 */
int ledger_health(struct ledger *ledger, struct error *error);

/* --- tools -------------------------------------------------------------------------------------------------------- */

enum ledger_executor {
	LEDGER_EXECUTOR_SQL, /* exec_sql, in the transaction of the reservation */
	LEDGER_EXECUTOR_HTTP /* the caller of the library runs it between ledger_start and ledger_finish */
};

/*
 * What the ledger needs of a tool. SQL is the operator's; it names values as :tenant :subject :task :object :amount
 * :key :call (the id of the call, a number) or an input of the tool, and they are always bound, never pasted in.
 *   fact_sql   one row, of which the column `tenant` is the object's tenant and `remaining` what may still be moved
 *              (needed when the tool has an amount). No row: object_not_found. On PostgreSQL the row is locked.
 *   exec_sql   must change (or, with RETURNING, return) exactly one row. None: execution_refused, nothing done. The
 *              columns that it returns are the result, as a JSON object.
 */
struct ledger_tool_spec {
	const char *name;
	const char *const *
		inputs; /* names that fact_sql and exec_sql may use besides, NULL-terminated; NULL: none */
	bool has_object;
	bool has_amount;
	const char *fact_sql; /* NULL only when the tool has neither object nor amount */
	enum ledger_executor executor;
	const char *exec_sql; /* for LEDGER_EXECUTOR_SQL */
	const char *const *
		result_fields; /* columns of exec_sql's row that go back, NULL-terminated; NULL: all */
	struct ledger_limits limits;
	unsigned int approval_ttl_s; /* 0: that of the ledger */
};

/* Checks a spec without a database: SQL placeholders, sizes, what needs what. 0, or -EINVAL with the message. */
int ledger_tool_check(const struct ledger_tool_spec *spec, struct error *error);
/*
 * Makes the tool known, after its SQL was prepared on the database. The spec is copied. Under each name the newest tool is
 * the one that approvals are executed with. 0, -EINVAL spec or SQL, -EIO/-ECONNREFUSED/... the database. Blocks.
 */
int ledger_tool_open(struct ledger *ledger, const struct ledger_tool_spec *spec,
		     struct ledger_tool **ret, struct error *error);
/* Gives the tool back: no further job may name it; jobs under way are safe. Must come before ledger_close(). */
void ledger_tool_close(struct ledger_tool *tool);

/* --- jobs --------------------------------------------------------------------------------------------------------- */

struct ledger_param {
	const char *name;
	const char *text; /* NULL: number counts */
	int64_t number;
};

/*
 * One call. Everything pointed to belongs to the caller and stays as it is until done(). Strings are NUL-terminated
 * UTF-8 without control characters.
 */
struct ledger_call {
	/* Who, as the kernel and the gateway know it; "" where there is none. */
	uint64_t fence;
	const char *tenant;
	const char *subject;
	const char *task;
	const char *grant; /* id of the presented and verified grant, or NULL */
	/* What. */
	struct ledger_tool *tool; /* NULL only with refused */
	const char *tool_name;	  /* for records, when there is no tool */
	const char *method;
	const char *route;
	const char *scope;  /* the scope that the tool asks for */
	bool scope_granted; /* fence (and grant, if any) hold it */
	const char *stated_tenant;
	const char *object; /* NULL when the tool has none */
	int64_t amount;	    /* minor units; not looked at when the tool has none */
	const char *key;
	/* SHA-256 of the canonical request: method, route, all input members but the key, in one fixed order. */
	uint8_t digest[LEDGER_DIGEST_SIZE];
	const struct ledger_param *params; /* the tool's inputs, for its SQL */
	size_t n_params;
	/* What the upstream needs, should the call be held and approved later (http executor only); kept until then. */
	const char *request;
	size_t request_size;
	/*
	 * Set (not LEDGER_OK): the gateway has refused already, for instance `unauthenticated`. Only the record is
	 * written; the answer is this code, or `unavailable`. Unknown members may be NULL then.
	 */
	enum ledger_code refused;
	/* http executor: go to `executing` in the same transaction, because the request leaves at once. */
	bool start;
};

/* What is kept of a grant. The signed token itself is none of the ledger's business. */
struct ledger_grant {
	const char *id; /* unique for ever */
	uint64_t fence;
	const char *tenant;
	const char *subject;
	const char *task;
	const char *scope;
	const char *tool;   /* "": every tool of that scope */
	const char *object; /* "": every object */
	int64_t amount_max; /* over all uses; LEDGER_NO_LIMIT: no cap */
	int64_t uses_max;   /* LEDGER_NO_LIMIT: not counted */
	int64_t issued_ns;  /* filled by the ledger */
	int64_t expires_ns;
	int64_t revoked_ns;  /* 0: not */
	int64_t amount_used; /* filled by the ledger */
	int64_t uses_used;
};

enum ledger_revoke_by {
	LEDGER_REVOKE_ID,
	LEDGER_REVOKE_TASK,
	LEDGER_REVOKE_SUBJECT,
	LEDGER_REVOKE_FENCE /* value: the fence id in decimal; for when a fence ends */
};

enum ledger_verb {
	LEDGER_CALL,	/* job.call; also a repeat of a key, also a refusal to be recorded */
	LEDGER_START,	/* job.id: reserved -> executing; only after its `ok` may anything leave */
	LEDGER_FINISH,	/* job.id, job.outcome (DONE, FAILED, AMBIGUOUS), job.result */
	LEDGER_APPROVE, /* job.approval, job.by, job.reason */
	LEDGER_DENY,	/* job.approval, job.by, job.reason */
	LEDGER_SETTLE,	/* job.id, job.outcome (DONE, FAILED), job.by, job.reason */
	LEDGER_GRANT, /* job.grant: stores a new grant, or renews (expires_ns) one with this id and the same terms */
	LEDGER_REVOKE, /* job.revoke_by, job.value, job.by, job.reason; answer.count: grants that it hit */
	LEDGER_TICK /* housekeeping; the ledger does it itself every second */
};

struct ledger_answer {
	enum ledger_code code;
	enum ledger_state state; /* of the call afterwards; NONE when nothing is kept */
	int64_t call; /* id of this attempt, 0 when nothing is kept; a repeat after `failed` has another */
	char approval[LEDGER_APPROVAL_ID_SIZE];
	int64_t approval_expires_ns;
	/*
	 * JSON object: first result of the key (ok, duplicate); for an approved call with code EXECUTE the request that
	 * was kept. NUL-terminated, owned by the answer, may be NULL.
	 */
	char *result;
	size_t result_size;
	bool has_remaining;
	int64_t remaining; /* of the object, after this call where it was counted */
	int64_t count;
	/* The decision record, for the event: number and hash in this node's chain. 0: none was written. */
	uint64_t record_seq;
	uint8_t record_hash[LEDGER_HASH_SIZE];
	int64_t time_ns;
	/* Who and what, for events of jobs that name only an id or approval (strings end with NUL; "" if unknown). */
	char tenant[LEDGER_NAME_MAX + 1];
	char subject[LEDGER_NAME_MAX + 1];
	char task[LEDGER_NAME_MAX + 1];
	char tool[LEDGER_NAME_MAX + 1];
	char grant[LEDGER_NAME_MAX + 1];
	char key[LEDGER_KEY_MAX + 1];
	char object[LEDGER_OBJECT_MAX + 1];
	int64_t amount;
	uint64_t fence;
};

/* One job: belongs to the caller, who may embed it; not touched by the ledger after done(). */
struct ledger_job {
	enum ledger_verb verb;
	struct ledger_call call;
	int64_t id;
	enum ledger_state outcome;
	const char *result; /* JSON object that a repeat of the key will get; may be NULL */
	size_t result_size;
	const char *approval;
	const char *by;
	const char *reason;
	const struct ledger_grant *grant;
	enum ledger_revoke_by revoke_by;
	const char *value;
	struct ledger_answer answer; /* out; ledger_answer_clear() frees what it owns */
	void (*done)(struct ledger_job *job);
	void *data; /* the caller's */
	/* The ledger's own. */
	struct ledger_job *next;
	int64_t queued_ns;
};

/*
 * Queues a job; done() will be called exactly once. Otherwise (done() will not be called) -EAGAIN too many wait, -ESHUTDOWN
 * the ledger closes, -E2BIG or -EINVAL the job breaks a bound above.
 */
int ledger_submit(struct ledger *ledger, struct ledger_job *job);
/* Submits and waits; done and data are overwritten. A job that cannot be queued is answered all the same. */
void ledger_run(struct ledger *ledger, struct ledger_job *job);
void ledger_answer_clear(struct ledger_answer *answer);

/*
 * How an http call goes:
 *   CALL   -> EXECUTE, state reserved (or executing, with call.start)   [or an answer for the caller: any other code]
 *   START  -> OK                       durable; now the request may leave. Any other code: it must not.
 *   FINISH -> OK                       done: the caller gets the result. `unavailable` here: the outcome could not be
 *                                      written; the call stays executing and FINISH may be tried again.
 * What START allows is to be sent at once, or not at all: after half of lease_s another gateway may take the call over, and
 * an operator may settle it. Who has not sent by then finishes it as failed. For the same reason nobody settles a call as
 * failed while the gateway that had it may still be about to send: it has to be dead, or to have been started again.
 *
 * What an approved call of an http tool needs: APPROVE answers EXECUTE, state executing, result the kept request, and the
 * submitter runs it and finishes it. A call of a sql tool is executed inside APPROVE: answer OK or a refusal.
 * APPROVE gives EXECUTION_REFUSED, AMOUNT_OUT_OF_RANGE etc. when facts no longer allow the call: state refused.
 */

/* --- reading (blocking) ------------------------------------------------------------------------------------------- */

struct ledger_call_row {
	int64_t id;
	uint64_t fence;
	const char *tenant, *subject, *task, *tool, *grant, *key, *object, *node, *approval,
		*result;
	enum ledger_state state;
	enum ledger_code code;
	int64_t amount;
	int64_t created_ns, updated_ns;
	const uint8_t *digest;
};

struct ledger_approval_row {
	const char *id;
	const char *state; /* pending, approved, denied, expired */
	const char *by, *reason;
	int64_t created_ns, expires_ns, decided_ns;
	struct ledger_call_row call;
};

struct ledger_record_row {
	const char *node;
	uint64_t seq;
	int64_t time_ns;
	const char *task;
	const char *body; /* the record: one JSON object, no newline */
	uint8_t hash[LEDGER_HASH_SIZE];
};

struct ledger_filter {
	int64_t id;	      /* calls: 0: all */
	const char *key;      /* calls; NULL: all */
	const char *task;     /* NULL: all */
	const char *tenant;   /* NULL: all */
	int state;	      /* calls: an enum ledger_state, or -1: all */
	const char *approval; /* approvals: that one; NULL: all */
	const char *grant;    /* grants: that one; NULL: all */
	bool pending;	      /* approvals: only those to be decided */
	unsigned int limit;   /* rows at most; 0: 1,000 */
	int64_t before_id;    /* newest first, before this id; 0: from the newest */
};

/* Each row to fn, whose strings live until it returns; fn returns 0 to go on, else the walk ends with that value. */
int ledger_list_calls(struct ledger *ledger, const struct ledger_filter *filter,
		      int (*fn)(const struct ledger_call_row *row, void *data), void *data,
		      struct error *error);
int ledger_list_approvals(struct ledger *ledger, const struct ledger_filter *filter,
			  int (*fn)(const struct ledger_approval_row *row, void *data), void *data,
			  struct error *error);
int ledger_list_grants(struct ledger *ledger, const struct ledger_filter *filter,
		       int (*fn)(const struct ledger_grant *row, void *data), void *data,
		       struct error *error);
/* Records in order of time; of one task when filter->task is set. */
int ledger_list_records(struct ledger *ledger, const struct ledger_filter *filter,
			int (*fn)(const struct ledger_record_row *row, void *data), void *data,
			struct error *error);

/* What a check of the chains found. */
struct ledger_verdict {
	uint64_t records; /* looked at */
	uint64_t chains;
	char node[LEDGER_NAME_MAX + 1]; /* chain of the first fault */
	uint64_t seq; /* its number: the first record that is missing, moved or changed */
};
/*
 * Walks every chain from its first record to its head, and against the anchor of this node. 0: whole. -EBADMSG: not, verdict
 * and error say where. Reads only.
 */
int ledger_verify(struct ledger *ledger, struct ledger_verdict *ret, struct error *error);

#endif
