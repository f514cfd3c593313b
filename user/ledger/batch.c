// SPDX-License-Identifier: Apache-2.0
/*
 * One transaction for many operations. Operations that touch the same key or object are taken in rounds, one after
 * another, so that each decides on what the one before wrote; all others of a round are read, executed and written
 * together. Daily quotas and grants are read once, counted in memory and written at the end.
 *
 * The transaction ends with the node's row: heartbeat, last id, head of the chain, and only if epoch and head are
 * still what they were. So a gateway that lost its name to another can write nothing, and after a commit whose answer got
 * lost that row tells whether it happened.
 *
 * A transaction that fails is undone whole. It is repeated when that can help; else everybody in it is told
 * `unavailable`, and that nothing was done is true.
 */

#include <errno.h>
#include <string.h>
#include <time.h>

#include "ledger/internal.h"

#define TRIES_MAX 12
#define LOST_MAX 3

unsigned int steps_add(struct batch *batch, struct steps *steps, const struct engine_stmt *stmt,
		       const struct engine_value *values, unsigned int n)
{
	struct engine_value *copy = arena_take(batch->arena, n * sizeof(*copy) + 1);

	if (steps->n == steps->room) {
		unsigned int room = steps->room ? steps->room * 2 : 64;
		struct engine_step *more = arena_take(batch->arena, room * sizeof(*more));

		if (more && steps->n)
			memcpy(more, steps->v, steps->n * sizeof(*more));
		if (more) {
			steps->v = more;
			steps->room = room;
		}
	}
	if (!copy || steps->n == steps->room) {
		steps->failed = true;
		return 0;
	}
	memcpy(copy, values, n * sizeof(*copy));
	steps->v[steps->n] = (struct engine_step){ .stmt = stmt, .params = copy, .n_params = n };
	return steps->n++;
}

static int run(struct batch *batch, struct steps *steps)
{
	struct ledger *ledger = batch->ledger;

	if (steps->failed)
		return error_set(batch->error, ENOMEM, "ledger: no memory");
	if (!steps->n)
		return 0;
	return ledger->ops->run(ledger->engine, batch->arena, steps->v, steps->n, batch->guard,
				batch->error);
}

/* --- what many operations share ---------------------------------------------------------------------------------- */

struct usage *batch_usage(struct batch *batch, const char *tenant, const char *tool,
			  const char *subject, int64_t day)
{
	struct usage *usage;

	for (usage = batch->usages; usage; usage = usage->next)
		if (usage->day == day && strcmp(usage->tenant, tenant) == 0 &&
		    strcmp(usage->tool, tool) == 0 && strcmp(usage->subject, subject) == 0)
			return usage;
	usage = arena_take(batch->arena, sizeof(*usage));
	if (!usage)
		return NULL;
	*usage = (struct usage){ .next = batch->usages,
				 .tenant = tenant,
				 .tool = tool,
				 .subject = subject,
				 .day = day };
	batch->usages = usage;
	return usage;
}

struct grant *batch_grant(struct batch *batch, const char *id)
{
	struct grant *grant;

	for (grant = batch->grants; grant; grant = grant->next)
		if (strcmp(grant->id, id) == 0)
			return grant;
	grant = arena_take(batch->arena, sizeof(*grant));
	if (!grant)
		return NULL;
	grant->next = batch->grants;
	grant->id = id;
	batch->grants = grant;
	return grant;
}

/* Which line of quota and which grant an operation may move. */
static int share(struct batch *batch, struct op *op)
{
	bool call = op->kind == OP_CALL && !op->outright;

	if (call ? op->tool->has_amount : op->located)
		op->usage = call ? batch_usage(batch, op->tenant, op->tool_name,
					       op->tool->limits.per_subject ? op->subject : "",
					       batch->day)
				 : batch_usage(batch, op->tenant, op->tool_name, op->row.quota,
					       op->row.day);
	if ((call || op->located) && op->grant_id)
		op->grant = batch_grant(batch, op->grant_id);
	return ((call ? op->tool->has_amount : op->located) && !op->usage) ||
			       ((call || op->located) && op->grant_id && !op->grant)
		       ? -ENOMEM
		       : 0;
}

static void read_shared(struct batch *batch, struct steps *steps)
{
	for (struct usage *usage = batch->usages; usage; usage = usage->next)
		usage->read = STEP(batch, steps, USAGE_READ, T(usage->tenant), T(usage->tool),
				   T(usage->subject), N(usage->day));
	for (struct grant *grant = batch->grants; grant; grant = grant->next)
		grant->read = STEP(batch, steps, GRANT_READ, T(grant->id));
}

static int take_shared(struct batch *batch, const struct steps *steps)
{
	for (struct usage *usage = batch->usages; usage; usage = usage->next) {
		const struct engine_step *step = &steps->v[usage->read];

		usage->used = step->n_rows ? step->row.values[0].number : 0;
	}
	for (struct grant *grant = batch->grants; grant; grant = grant->next) {
		const struct engine_step *step = &steps->v[grant->read];

		grant->known = step->n_rows > 0;
		if (grant->known && row_grant(&step->row, &grant->row) != 0)
			return -EIO;
	}
	return 0;
}

static void write_shared(struct batch *batch, struct steps *steps)
{
	for (struct usage *usage = batch->usages; usage; usage = usage->next)
		if (usage->dirty)
			STEP(batch, steps, USAGE_WRITE, T(usage->tenant), T(usage->tool),
			     T(usage->subject), N(usage->day), N(usage->used));
	for (struct grant *grant = batch->grants; grant; grant = grant->next)
		if (grant->dirty)
			STEP(batch, steps, GRANT_COUNT, N(grant->row.amount_used),
			     N(grant->row.uses_used), T(grant->id));
}

/* --- locks and conflicts, by hash -------------------------------------------------------------------------------- */

static uint64_t hash_add(uint64_t hash, const char *string)
{
	do {
		hash = (hash ^ (unsigned char)*string) * UINT64_C(0x100000001b3);
	} while (*string++);
	return hash;
}

static uint64_t hash_of(char kind, const char *a, const char *b, const char *c, const char *d)
{
	uint64_t hash =
		(UINT64_C(0xcbf29ce484222325) ^ (unsigned char)kind) * UINT64_C(0x100000001b3);

	hash = hash_add(hash_add(hash, a), b);
	return hash_add(hash_add(hash, c), d) | 1; /* never 0 */
}

static int compare_keys(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* All locks of the transaction in one order, so that two gateways never wait for each other. */
static int take_locks(struct batch *batch)
{
	struct ledger *ledger = batch->ledger;
	int64_t *keys = arena_take(batch->arena, 2 * (size_t)batch->n * sizeof(*keys));
	unsigned int n = 0, unique = 0;

	if (!keys)
		return error_set(batch->error, ENOMEM, "ledger: no memory");
	for (unsigned int i = 0; i < batch->n; i++) {
		const struct op *op = &batch->ops[i];

		if ((op->kind != OP_CALL && !op->located) || op->outright)
			continue;
		keys[n++] = (int64_t)hash_of('t', op->tenant, op->tool_name, "", "");
		if (op->grant_id)
			keys[n++] = (int64_t)hash_of('g', op->grant_id, "", "", "");
	}
	qsort(keys, n, sizeof(*keys), compare_keys);
	for (unsigned int i = 0; i < n; i++)
		if (!unique || keys[unique - 1] != keys[i])
			keys[unique++] = keys[i];
	return ledger->ops->lock(ledger->engine, keys, unique, batch->error);
}

struct set {
	uint64_t *slots;
	unsigned int mask;
};

static bool set_has(const struct set *set, uint64_t hash)
{
	for (unsigned int i = (unsigned int)hash & set->mask; set->slots[i];
	     i = (i + 1) & set->mask)
		if (set->slots[i] == hash)
			return true;
	return false;
}

static void set_add(struct set *set, uint64_t hash)
{
	unsigned int i = (unsigned int)hash & set->mask;

	while (set->slots[i] && set->slots[i] != hash)
		i = (i + 1) & set->mask;
	set->slots[i] = hash;
}

/* Which operations go next: none that touches what an earlier one of the round, or one put off, touches. */
static bool choose(struct batch *batch, struct set *set)
{
	bool rest = false;

	memset(set->slots, 0, ((size_t)set->mask + 1) * sizeof(*set->slots));
	for (unsigned int i = 0; i < batch->n; i++) {
		struct op *op = &batch->ops[i];
		uint64_t hashes[2];
		unsigned int n = 0;

		op->in_round = !op->finished;
		if (op->finished || (op->kind != OP_CALL && !op->located))
			continue;
		hashes[n++] = hash_of('k', op->tenant, op->subject, op->tool_name, op->key);
		if (op->object && *op->object && !op->outright)
			hashes[n++] = hash_of('o', op->tenant, op->object, "", "");
		for (unsigned int k = 0; k < n; k++)
			if (set_has(set, hashes[k]))
				op->in_round = false;
		for (unsigned int k = 0; k < n; k++)
			set_add(set, hashes[k]);
		rest = rest || !op->in_round;
	}
	return rest;
}

/* --- one attempt ------------------------------------------------------------------------------------------------- */

static int locate(struct batch *batch)
{
	struct steps steps = { 0 };
	int err;

	for (unsigned int i = 0; i < batch->n; i++)
		op_locate(batch, &batch->ops[i], &steps);
	err = run(batch, &steps);
	for (unsigned int i = 0; i < batch->n && !err; i++)
		err = op_located(batch, &batch->ops[i], &steps);
	for (unsigned int i = 0; i < batch->n && !err; i++)
		err = share(batch, &batch->ops[i]);
	return err;
}

/* Facts that live elsewhere. Their absence is the calls' misfortune, not the store's. */
static void run_facts(struct batch *batch, struct steps *facts)
{
	struct ledger *ledger = batch->ledger;
	struct error error = { 0 };
	int err = 0;

	for (int tries = 0; facts->n && tries < 2; tries++) {
		err = ledger->facts_ops->begin(ledger->facts, false, &error);
		if (!err)
			err = ledger->facts_ops->run(ledger->facts, batch->arena, facts->v,
						     facts->n, true, &error);
		ledger->facts_ops->rollback(ledger->facts);
		if (!err || tries || ledger->facts_ops->reopen(ledger->facts, NULL) != 0)
			break;
	}
	for (unsigned int i = 0; i < facts->n && err; i++) {
		facts->v[i].err = -EBADMSG;
		facts->v[i].fault = "the facts cannot be read";
	}
	if (err)
		ledger_log(ledger, "facts: %s", error.text);
}

/* The node's row, as it was when the transaction began. */
static int take_head(struct batch *batch, const struct engine_step *step)
{
	struct ledger *ledger = batch->ledger;
	const struct engine_value *v = step->row.values;

	if (step->n_rows != 1 || v[1].number != ledger->epoch) {
		ledger->fenced_out = true;
		return error_set(batch->error, EOWNERDEAD,
				 "another gateway runs as node %s; give each a name of its own",
				 ledger->options.node);
	}
	batch->last_call = v[3].number;
	batch->chain.seq = (uint64_t)v[4].number;
	memset(batch->chain.hash, 0, sizeof(batch->chain.hash));
	if (batch->chain.seq && !text_unhex(v[5].text, batch->chain.hash, LEDGER_HASH_SIZE))
		return error_set(batch->error, EIO, "the store: row of node %s is damaged",
				 ledger->options.node);
	batch->old_chain = batch->chain;
	return 0;
}

static unsigned int write_head(struct batch *batch, struct steps *steps, bool or_fail)
{
	char hash[2 * LEDGER_HASH_SIZE + 1];
	const char *copy;

	text_hex(batch->chain.hash, LEDGER_HASH_SIZE, hash);
	copy = arena_string(batch->arena, hash);
	if (!copy)
		steps->failed = true;
	if (or_fail)
		return STEP(batch, steps, GATEWAY_WRITE_OR_FAIL, N(batch->now_ns),
			    N(batch->last_call), N((int64_t)batch->chain.seq), T(copy),
			    T(batch->ledger->options.node), N(batch->ledger->epoch),
			    N((int64_t)batch->old_chain.seq));
	return STEP(batch, steps, GATEWAY_WRITE, N(batch->now_ns), N(batch->last_call),
		    N((int64_t)batch->chain.seq), T(copy), T(batch->ledger->options.node),
		    N(batch->ledger->epoch), N((int64_t)batch->old_chain.seq));
}

/* Whether what is written can only be done or fail: rows that are new, or whose change nobody has to look at. */
static bool only_new(const struct batch *batch)
{
	for (unsigned int i = 0; i < batch->n; i++) {
		const struct op *op = &batch->ops[i];

		if (op->in_round && op->must_change &&
		    batch->writes.v[op->write].stmt != &ledger_sql[SQL_CALL_INSERT])
			return false;
	}
	return true;
}

static int round_read(struct batch *batch, bool first, struct steps *reads, struct steps *facts)
{
	unsigned int head = 0;
	int err;

	/* Grants are made and revoked before grants are read. */
	for (unsigned int i = 0; i < batch->n; i++)
		if (batch->ops[i].in_round)
			op_read(batch, &batch->ops[i], reads, facts);
	if (first) {
		read_shared(batch, reads);
		head = STEP(batch, reads, GATEWAY_READ, T(batch->ledger->options.node));
	}
	if (facts->failed)
		return error_set(batch->error, ENOMEM, "ledger: no memory");
	run_facts(batch, facts);
	err = run(batch, reads);
	if (!err && first)
		err = take_shared(batch, reads);
	if (!err && first)
		err = take_head(batch, &reads->v[head]);
	return err;
}

/* What answers will need is taken before the commit: after it nothing may fail. */
static int prepare_answers(struct batch *batch)
{
	for (unsigned int i = 0; i < batch->n; i++) {
		struct op *op = &batch->ops[i];

		if (!op->job || !op->answer_result || !*op->answer_result)
			continue;
		op->owned_result = strdup(op->answer_result);
		if (!op->owned_result)
			return error_set(batch->error, ENOMEM, "ledger: no memory");
	}
	return 0;
}

static int round_write(struct batch *batch, bool last)
{
	struct ledger *ledger = batch->ledger;
	unsigned int head = 0;
	int err;

	if (last) {
		bool together = ledger->ops->run_commit && !batch->writes.failed && only_new(batch);

		write_shared(batch, &batch->writes);
		head = write_head(batch, &batch->writes, together);
		if (together && !batch->writes.failed) {
			err = ledger->ops->run_commit(ledger->engine, batch->arena, batch->writes.v,
						      batch->writes.n, batch->error);
			/* Lost on the way: whether it was committed is for commit() to find out. */
			batch->committed = !err || err == -ENOTCONN;
			batch->commit_err = err;
			return batch->committed ? 0 : err;
		}
	}
	err = run(batch, &batch->writes);
	if (err)
		return err;
	for (unsigned int i = 0; i < batch->n; i++) {
		const struct op *op = &batch->ops[i];

		if (op->in_round && op->must_change && batch->writes.v[op->write].changed != 1)
			return error_set(batch->error, EAGAIN, "ledger: a call moved meanwhile");
	}
	if (last && batch->writes.v[head].changed != 1)
		return error_set(batch->error, EAGAIN, "ledger: the node's row moved meanwhile");
	return 0;
}

static int run_round(struct batch *batch, bool first, bool last)
{
	struct steps reads = { 0 }, facts = { 0 }, executions = { 0 };
	int err;

	batch->writes = (struct steps){ 0 };
	err = round_read(batch, first, &reads, &facts);
	for (unsigned int i = 0; i < batch->n && !err; i++)
		if (batch->ops[i].in_round)
			err = op_decide(batch, &batch->ops[i], &reads, &facts);
	for (unsigned int i = 0; i < batch->n && !err; i++)
		if (batch->ops[i].in_round)
			op_execute(batch, &batch->ops[i], &executions);
	if (!err)
		err = run(batch, &executions);
	for (unsigned int i = 0; i < batch->n && !err; i++) {
		if (batch->ops[i].in_round) {
			err = op_settle(batch, &batch->ops[i], &executions);
			batch->ops[i].finished = true;
		}
	}
	if (!err && last)
		err = prepare_answers(batch);
	if (!err)
		err = round_write(batch, last);
	return err;
}

static int run_rounds(struct batch *batch)
{
	struct set set = { .mask = 15 };
	bool first = true, rest = true;
	int err = 0;

	while (set.mask + 1 < 6 * batch->n)
		set.mask = set.mask * 2 + 1;
	set.slots = arena_take(batch->arena, ((size_t)set.mask + 1) * sizeof(*set.slots));
	if (!set.slots)
		return error_set(batch->error, ENOMEM, "ledger: no memory");
	while (rest && !err) {
		rest = choose(batch, &set);
		err = run_round(batch, first, !rest);
		first = false;
	}
	return err;
}

static void forget_ops(struct batch *batch)
{
	for (unsigned int i = 0; i < batch->n; i++) {
		free(TAKE_PTR(batch->ops[i].owned_result));
		if (batch->ops[i].tool_held)
			tool_unref(batch->ops[i].tool);
		batch->ops[i].tool_held = false;
	}
}

static int attempt(struct batch *batch)
{
	struct ledger *ledger = batch->ledger;
	int err;

	arena_reset(batch->arena);
	batch->usages = NULL;
	batch->grants = NULL;
	batch->committed = false;
	batch->now_ns = ledger_now(ledger);
	batch->day = batch->now_ns / NS_PER_DAY;
	for (unsigned int i = 0; i < batch->n; i++)
		op_init(&batch->ops[i], &batch->seeds[i]);
	err = ledger->ops->begin(ledger->engine, true, batch->error);
	if (!err)
		err = locate(batch);
	if (!err)
		err = take_locks(batch);
	if (!err)
		err = run_rounds(batch);
	if (err) {
		ledger->ops->rollback(ledger->engine);
		forget_ops(batch);
	}
	return err;
}

/* --- commits whose outcome is not known -------------------------------------------------------------------------- */

/* Calls that nobody will run if they turn out to be written. */
static void remember_orphans(struct batch *batch)
{
	struct ledger *ledger = batch->ledger;

	for (unsigned int i = 0; i < batch->n; i++)
		if (batch->ops[i].code == LEDGER_EXECUTE &&
		    ledger->n_orphans < ledger->options.batch_max)
			ledger->orphans[ledger->n_orphans++] = batch->ops[i].id;
}

/*
 * Waits until no transaction of this node is under way any more, then looks at the head of its chain. 1: the batch was
 * committed, 0: it was not.
 */
static int look_up(struct batch *batch)
{
	struct ledger *ledger = batch->ledger;
	struct engine_value node = engine_text(ledger->options.node);
	struct engine_step step = { .stmt = &ledger_sql[SQL_GATEWAY_WAIT],
				    .params = &node,
				    .n_params = 1 };
	struct arena arena = { 0 };
	int err = ledger->ops->begin(ledger->engine, true, batch->error);

	if (!err)
		err = ledger->ops->run(ledger->engine, &arena, &step, 1, false, batch->error);
	if (!err && (step.n_rows != 1 || step.row.values[1].number != ledger->epoch))
		err = error_set(batch->error, EOWNERDEAD, "another gateway runs as node %s",
				ledger->options.node);
	if (!err) {
		char hash[2 * LEDGER_HASH_SIZE + 1];

		text_hex(batch->chain.hash, LEDGER_HASH_SIZE, hash);
		err = (uint64_t)step.row.values[4].number == batch->chain.seq &&
		      strcmp(step.row.values[5].text, hash) == 0;
	}
	ledger->ops->rollback(ledger->engine);
	arena_free(&arena);
	return err;
}

static int64_t mono_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void nap(unsigned int tries)
{
	struct timespec now, pause = { 0, 0 };
	unsigned int most_us = 500u << (tries < 7 ? tries : 7);

	clock_gettime(CLOCK_MONOTONIC, &now);
	pause.tv_nsec = 1000L * (long)(100 + (unsigned long)now.tv_nsec / 64 % most_us);
	nanosleep(&pause, NULL);
}

/* 0: connected again. */
static int reconnect(struct ledger *ledger, unsigned int *lost, struct error *error)
{
	const struct timespec pause = { .tv_nsec = 150000000 };
	bool was_well = ledger->reconnect_wait_ns == 0;
	int err = -ENOTCONN;

	while (err && *lost < LOST_MAX) {
		if ((*lost)++)
			nanosleep(&pause, NULL);
		error->text[0] = '\0';
		ledger->reconnect_at_ns = was_well ? 0 : ledger->reconnect_at_ns;
		err = ledger_reconnect(ledger, error);
		if (!was_well)
			break;
	}
	return err;
}

/* Commits. -EINPROGRESS: nobody knows. -ENODATA: surely not, because of a lost connection. */
static int commit(struct batch *batch, unsigned int *lost)
{
	struct ledger *ledger = batch->ledger;
	int err = batch->committed ? batch->commit_err
				   : ledger->ops->commit(ledger->engine, batch->error);
	int found = -ENOTCONN;

	if (!err)
		return 0;
	ledger->ops->rollback(ledger->engine);
	if (err != -ENOTCONN)
		return err;
	/* Nothing written but a heartbeat leaves no mark by which it could be found, and needs none. */
	if (batch->chain.seq == batch->old_chain.seq)
		return -ENODATA;
	while (found < 0) {
		if (reconnect(ledger, lost, batch->error) != 0)
			break;
		found = look_up(batch);
		if (found == -EOWNERDEAD)
			break;
	}
	if (found < 0) {
		remember_orphans(batch);
		return -EINPROGRESS;
	}
	return found ? 0 : -ENODATA;
}

/* Gives back what an unknown commit left running, before anything else is written. */
static int release_orphans(struct ledger *ledger, struct error *error)
{
	unsigned int n = ledger->n_orphans;
	struct op_seed *seeds = n ? calloc(n, sizeof(*seeds)) : NULL;
	bool unknown;
	int err;

	if (!n)
		return 0;
	if (!seeds)
		return error_set(error, ENOMEM, "ledger: no memory");
	for (unsigned int i = 0; i < n; i++)
		seeds[i] = (struct op_seed){ .kind = OP_RELEASE, .id = ledger->orphans[i] };
	ledger->n_orphans = 0;
	err = batch_transact(ledger, seeds, n, &unknown, error);
	if (err)
		ledger->n_orphans = n;
	free(seeds);
	return err;
}

int batch_transact(struct ledger *ledger, const struct op_seed *seeds, unsigned int n,
		   bool *ret_unknown, struct error *error)
{
	struct batch batch = { .ledger = ledger,
			       .arena = &ledger->arena,
			       .seeds = seeds,
			       .ops = ledger->batch_ops,
			       .n = n,
			       .guard = ledger->ops->guard_is_free,
			       .error = error };
	unsigned int tries = 0, lost = 0;
	int64_t until_ns = mono_ns() + ledger->options.lock_timeout_ms * INT64_C(1000000);
	int err;

	*ret_unknown = false;
	if (ledger->fenced_out)
		return error_set(error, EOWNERDEAD, "another gateway runs as node %s",
				 ledger->options.node);
	if (ledger->reconnect_wait_ns && reconnect(ledger, &lost, error) != 0)
		return -ENOTCONN;
	err = release_orphans(ledger, error);
	if (err)
		return err;
	for (;;) {
		error->text[0] = '\0';
		err = attempt(&batch);
		if (!err) {
			err = commit(&batch, &lost);
			if (err)
				forget_ops(&batch);
		}
		if (err == -EAGAIN && tries < TRIES_MAX && mono_ns() < until_ns)
			nap(tries++);
		else if ((err == -EBADMSG || err == -EDOM) && !batch.guard)
			batch.guard = true; /* the operator's statement may be it: find out which */
		else if (err == -ENODATA && tries++ < TRIES_MAX)
			continue;
		else if (err == -ENOTCONN && reconnect(ledger, &lost, error) == 0)
			continue;
		else
			break;
	}
	if (err) {
		*ret_unknown = err == -EINPROGRESS;
		return err == -ENODATA ? -ENOTCONN : err;
	}
	ledger->beat_ns = batch.now_ns;
	for (unsigned int i = 0; i < n; i++) {
		if (batch.ops[i].tool_held)
			tool_unref(batch.ops[i].tool);
		batch.ops[i].tool_held = false;
	}
	if (ledger->anchor && batch.chain.seq != batch.old_chain.seq &&
	    anchor_write(ledger->anchor, ledger->options.node, &batch.chain) != 0)
		ledger_log(ledger, "anchor %s: cannot write", ledger->options.anchor);
	return 0;
}

/* --- answers ----------------------------------------------------------------------------------------------------- */

static void copy_to(char *to, size_t size, const char *from)
{
	size_t n = from ? strnlen(from, size - 1) : 0;

	if (n)
		memcpy(to, from, n);
	to[n] = '\0';
}
#define COPY(to, from) copy_to(to, sizeof(to), from)

static void answer(struct ledger_job *job, struct op *op, int64_t time_ns)
{
	struct ledger_answer *answer = &job->answer;

	answer->code = op->code;
	answer->state = op->state;
	answer->call = op->id;
	answer->approval_expires_ns = op->approval_expires_ns;
	answer->result = TAKE_PTR(op->owned_result);
	answer->result_size = answer->result ? strlen(answer->result) : 0;
	answer->has_remaining = op->has_remaining;
	answer->remaining = op->remaining;
	answer->count = op->count;
	answer->record_seq = op->record_seq;
	memcpy(answer->record_hash, op->record_hash, LEDGER_HASH_SIZE);
	answer->time_ns = time_ns;
	answer->amount = op->amount;
	answer->fence = op->fence;
	COPY(answer->approval, op->approval_id);
	COPY(answer->tenant, op->tenant);
	COPY(answer->subject, op->subject);
	COPY(answer->task, op->task);
	COPY(answer->tool, op->tool_name);
	COPY(answer->grant, op->grant_id);
	COPY(answer->key, op->key);
	COPY(answer->object, op->object);
}

/* The failing one of many is found by halves: the others are not to suffer from it. */
static void run_part(struct ledger *ledger, struct ledger_job **jobs, unsigned int n)
{
	struct error error = { 0 };
	bool unknown = false;
	int err;

	for (unsigned int i = 0; i < n; i++)
		ledger->batch_seeds[i] = (struct op_seed){ .job = jobs[i] };
	err = batch_transact(ledger, ledger->batch_seeds, n, &unknown, &error);
	if ((err == -EBADMSG || err == -EDOM || err == -EPROTO) && n > 1) {
		run_part(ledger, jobs, n / 2);
		run_part(ledger, jobs + n / 2, n - n / 2);
		return;
	}
	ledger_set_health(ledger, err, &error);
	for (unsigned int i = 0; i < n; i++) {
		if (err) {
			jobs[i]->answer.code = unknown ? LEDGER_COMMIT_UNKNOWN : LEDGER_UNAVAILABLE;
			jobs[i]->answer.time_ns = ledger_now(ledger);
		} else {
			answer(jobs[i], &ledger->batch_ops[i], ledger->beat_ns);
		}
	}
	for (unsigned int i = 0; i < n; i++) {
		struct ledger_tool *tool = jobs[i]->verb == LEDGER_CALL ? jobs[i]->call.tool : NULL;

		/* After done() the job is its owner's again. */
		jobs[i]->done(jobs[i]);
		tool_unref(tool);
	}
}

void batch_run(struct ledger *ledger, struct ledger_job **jobs, unsigned int n)
{
	run_part(ledger, jobs, n);
}
