/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the ledger. Who owns what: the queue (mutex) is shared; everything that is marked "writer" belongs to the
 * ledger's thread; the reading connection has a mutex of its own.
 */
#ifndef CORDON_LEDGER_INTERNAL_H
#define CORDON_LEDGER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ledger/arena.h"
#include "ledger/engine.h"
#include "ledger/ledger.h"
#include "ledger/sql.h"
#include "ledger/sqltext.h"

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_DAY (INT64_C(86400) * NS_PER_S)
/* Ids of calls: number of the gateway above, count below, so that they stay whole in a double. */
#define CALL_ID_BITS 40

/* --- tools ------------------------------------------------------------------------------------------------------- */

struct ledger_tool {
	struct ledger *ledger;
	struct ledger_tool *next; /* in ledger->tools, newest first; or ledger->dead_tools */
	atomic_uint refs;	  /* one of the opener, one of each job that is under way */
	bool open;		  /* not given back; under tools_mutex */
	char *name;
	char **inputs;
	char **result_fields; /* NULL: all */
	bool has_object, has_amount;
	enum ledger_executor executor;
	struct ledger_limits limits;
	unsigned int approval_ttl_s;
	struct sqltext fact, exec; /* sql is NULL where there is none */
	struct engine_stmt fact_stmt, exec_stmt;
};

void tool_ref(struct ledger_tool *tool);
void tool_unref(struct ledger_tool *tool);
/* The newest open tool of that name, with a reference; NULL. */
struct ledger_tool *tool_find(struct ledger *ledger, const char *name);
/* Writer: frees tools that nobody holds any more. */
void tool_reap(struct ledger *ledger);

/* --- rows -------------------------------------------------------------------------------------------------------- */

/* A row of calls; strings live as long as the row that it was read from. */
struct call_row {
	int64_t id;
	const char *tenant, *subject, *tool, *key, *digest;
	enum ledger_state state;
	enum ledger_code code;
	uint64_t fence;
	const char *task, *grant, *scope, *object;
	int64_t amount, day;
	const char *quota; /* subject under which its amount is counted; "" */
	const char *node, *approval, *result;
	int64_t created_ns, updated_ns;
};
#define CALL_COLUMNS_N 21

struct approval_row {
	const char *id, *state, *by, *reason;
	int64_t created_ns, expires_ns, decided_ns;
	const char *request, *params;
	struct call_row call;
};
#define APPROVAL_COLUMNS_N 9

/* -EIO: the row is not what this program wrote. */
int row_call(const struct engine_row *row, unsigned int from, struct call_row *ret);
int row_approval(const struct engine_row *row, struct approval_row *ret);
int row_grant(const struct engine_row *row, struct ledger_grant *ret);

/* --- the chain of records ---------------------------------------------------------------------------------------- */

struct chain {
	uint64_t seq; /* of the last record; 0: none */
	uint8_t hash[LEDGER_HASH_SIZE];
};

/* Hash of the next record: SHA-256 over the last hash, number, time, task and body. */
int chain_hash(const struct chain *last, uint64_t seq, int64_t time_ns, const char *task,
	       const char *body, uint8_t ret[LEDGER_HASH_SIZE]);

/* The anchor file: the head of this node's chain, outside of the store. */
struct anchor;
int anchor_open(struct anchor **ret, const char *path, struct error *error);
void anchor_close(struct anchor *anchor);
/* What it remembers; seq 0: nothing yet. -EBADMSG: it is no anchor. */
int anchor_read(const struct anchor *anchor, const char *node, struct chain *ret,
		struct error *error);
int anchor_write(struct anchor *anchor, const char *node, const struct chain *head);

/* --- operations -------------------------------------------------------------------------------------------------- */

enum op_kind {
	OP_CALL,
	OP_RECORD, /* refused before */
	OP_START,
	OP_FINISH,
	OP_APPROVE,
	OP_DENY,
	OP_SETTLE,
	OP_GRANT,
	OP_REVOKE,
	/* The ledger's own, without a job. */
	OP_EXPIRE,  /* approval */
	OP_RECOVER, /* id: its gateway died */
	OP_RELEASE /* id: its commit came to light after its caller had been told that it is not known */
};

/* A line of the daily quota, and a grant: read once a transaction, changed in memory, written at its end. */
struct usage {
	struct usage *next;
	const char *tenant, *tool, *subject;
	int64_t day, used;
	unsigned int read; /* step */
	bool dirty;
};

struct grant {
	struct grant *next;
	const char *id;
	bool known;
	struct ledger_grant row;
	unsigned int read;
	bool dirty;
};

/* What an operation starts from, at each attempt. */
struct op_seed {
	struct ledger_job *job; /* NULL: the ledger's own */
	enum op_kind kind;	/* of the ledger's own */
	int64_t id;
	const char *approval;
};

struct op {
	struct ledger_job *job; /* NULL: the ledger's own */
	enum op_kind kind;
	int64_t id;
	const char *approval_id;
	/* Who and what: of the call, or of the row that id or approval name. */
	const char *tenant, *subject, *task, *tool_name, *key, *object, *grant_id, *scope;
	int64_t amount;
	uint64_t fence;
	char digest[2 * LEDGER_DIGEST_SIZE + 1];
	struct ledger_tool *tool;
	bool tool_held; /* a reference is held (approvals); jobs of calls hold one of their own */
	const struct ledger_param *params;
	size_t n_params;
	/* Found. */
	bool located, has_row;
	struct call_row row;
	struct approval_row approval;
	struct usage *usage;
	struct grant *grant;
	unsigned int locate, read_row, read_fact, read_flight, exec, write; /* steps */
	bool has_fact;
	/*
	 * A call that is refused whatever the store says, unless it repeats a key: it reads that key alone, and waits for no
	 * lock and takes none, neither of a quota nor of an object that may be another tenant's.
	 */
	bool outright;
	/* Progress. */
	bool finished, in_round, executes;
	/* Decided. */
	enum ledger_code code;
	enum ledger_state state;
	const char *result; /* in the arena */
	const char *answer_result;
	bool has_remaining;
	int64_t remaining, count;
	int64_t approval_expires_ns;
	const char *fault; /* the operator's statement failed: the database's words */
	bool must_change;  /* the write step has to change exactly one row */
	uint64_t record_seq;
	uint8_t record_hash[LEDGER_HASH_SIZE];
	char *owned_result; /* malloc'ed before the commit */
};

struct steps {
	struct engine_step *v;
	unsigned int n, room;
	bool failed;
};

/* One transaction. */
struct batch {
	struct ledger *ledger;
	struct arena *arena;
	const struct op_seed *seeds;
	struct op *ops;
	unsigned int n;
	bool guard;
	int64_t now_ns, day;
	struct usage *usages;
	struct grant *grants;
	struct chain chain, old_chain;
	int64_t last_call;
	struct steps writes;
	bool committed; /* the last writes and the commit went together; commit_err is what came of the commit */
	int commit_err;
	struct error *error;
};

unsigned int steps_add(struct batch *batch, struct steps *steps, const struct engine_stmt *stmt,
		       const struct engine_value *values, unsigned int n);
#define STEP(batch, steps, name, ...)                                    \
	steps_add(batch, steps, &ledger_sql[SQL_##name],                 \
		  (const struct engine_value[]){ __VA_ARGS__ },          \
		  sizeof((const struct engine_value[]){ __VA_ARGS__ }) / \
			  sizeof(struct engine_value))
#define T(text) engine_text(text)
#define N(number) ENGINE_NUMBER(number)

bool op_by_approval(const struct op *op);
bool op_by_id(const struct op *op);
/* op.c: what each kind reads, decides and writes. 0, or what ends the attempt (-EAGAIN: repeat it). */
void op_init(struct op *op, const struct op_seed *seed);
void op_locate(struct batch *batch, struct op *op, struct steps *steps);
int op_located(struct batch *batch, struct op *op, const struct steps *steps);
void op_read(struct batch *batch, struct op *op, struct steps *steps, struct steps *facts);
int op_decide(struct batch *batch, struct op *op, const struct steps *steps,
	      const struct steps *facts);
void op_execute(struct batch *batch, struct op *op, struct steps *steps);
int op_settle(struct batch *batch, struct op *op, const struct steps *executed);

/* fact.c: the operator's statements. */
unsigned int fact_step(struct batch *batch, struct op *op, struct steps *steps, bool exec);
/* What the fact query found, into the question. */
enum ledger_code fact_take(struct op *op, const struct engine_step *step,
			   struct ledger_question *question);
/* The result of exec_sql as JSON, in the arena; NULL: no memory. */
const char *fact_result(struct batch *batch, struct op *op, const struct engine_step *step);
/* Inputs of a held call as text, and back; NULL: no memory. */
const char *fact_save_params(struct batch *batch, const struct ledger_call *call);
int fact_load_params(struct batch *batch, struct op *op, const char *text);

/* batch.c: usage and grants by name, from the transaction's own list; NULL: no memory. */
struct usage *batch_usage(struct batch *batch, const char *tenant, const char *tool,
			  const char *subject, int64_t day);
struct grant *batch_grant(struct batch *batch, const char *id);
/* record.c: appends the decision record of an op to batch->writes and to the chain. */
int record_add(struct batch *batch, struct op *op);

/* --- the ledger -------------------------------------------------------------------------------------------------- */

struct ledger {
	struct ledger_options options; /* strings are owned copies */
	const struct engine_ops *ops, *facts_ops;

	/* Writer. */
	struct engine *engine;
	struct engine *facts; /* NULL: the store itself */
	struct arena arena;
	struct anchor *anchor;
	struct op *batch_ops; /* batch_max, as the two below */
	struct op_seed *batch_seeds;
	struct ledger_job **batch_jobs;
	int64_t num, epoch;
	int64_t beat_ns; /* last one written */
	int64_t tick_at_ns, sweep_at_ns, collect_at_ns, reconnect_at_ns, reconnect_wait_ns;
	int64_t collect_from; /* id after which garbage is looked for next */
	int64_t *orphans;     /* calls of a commit whose outcome is not known: batch_max */
	unsigned int n_orphans;
	bool fenced_out; /* another gateway has this node's name */
	pthread_t thread;
	bool thread_runs;

	/* The clock, under clock_mutex. */
	pthread_mutex_t clock_mutex;
	int64_t clock_ns, clock_mono_ns;

	/* Queue. */
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	struct ledger_job *head, **tail;
	unsigned int queued, wanted; /* the thread waits for that many */
	unsigned int expected;	     /* how many take part, by the last transaction */
	int64_t last_batch_ns;	     /* how long it took */
	bool stopping;
	int health;
	struct error health_error;

	/* Tools. */
	pthread_mutex_t tools_mutex;
	struct ledger_tool *tools, *dead_tools;
	bool *stmt_ids; /* which ids after SQL_N are taken */
	int n_stmt_ids;

	/* Reading. */
	pthread_mutex_t read_mutex;
	struct engine *reader;
};

/* Ledger time: see ledger.h. */
int64_t ledger_now(struct ledger *ledger);
/* The time must not be behind this. */
void ledger_clock_raise(struct ledger *ledger, int64_t ns);
void ledger_log(struct ledger *ledger, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* What health reports; err 0: well. Says a change once. */
void ledger_set_health(struct ledger *ledger, int err, const struct error *error);
/* Connects again when it is time to; -ENOTCONN. */
int ledger_reconnect(struct ledger *ledger, struct error *error);

/* Decides, writes and commits; then calls done() of every job. Writer. */
void batch_run(struct ledger *ledger, struct ledger_job **jobs, unsigned int n);
/*
 * One transaction, repeated as long as that may help. *ret_unknown: it failed while committing. At most batch_max seeds;
 * ledger->batch_ops have what was decided. Writer, or before it starts.
 */
int batch_transact(struct ledger *ledger, const struct op_seed *seeds, unsigned int n,
		   bool *ret_unknown, struct error *error);
/* Housekeeping: heartbeat, expiry, recovery of dead gateways, garbage. Writer. */
void tick_run(struct ledger *ledger, bool now);
/* Resolves what this node left running. Writer, or before it starts. */
int tick_recover(struct ledger *ledger, const char *node, struct error *error);
void *queue_thread(void *ledger);

#endif
