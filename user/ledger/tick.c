// SPDX-License-Identifier: Apache-2.0
/*
 * Housekeeping, by the ledger's thread: a heartbeat, approvals that nobody decided in time, gateways that died, and old
 * keys. Each is a transaction like any other. What fails is tried again at the next tick.
 */

#include <errno.h>
#include <string.h>

#include "ledger/internal.h"

#define TICK_NS NS_PER_S
#define OWN_MAX 64
/* Keys are looked through a page at a time, so that no transaction is long. */
#define COLLECT_NS (10 * NS_PER_S)
#define USAGE_DAYS 40

/* Seeds from a query of one column; strings are kept in an arena. */
struct found {
	struct op_seed seeds[OWN_MAX];
	unsigned int n;
	enum op_kind kind;
	struct arena arena;
};

static int take_found(const struct engine_row *row, void *data)
{
	struct found *found = data;
	const struct engine_value *value = &row->values[0];
	struct op_seed *seed = &found->seeds[found->n];

	if (found->n == OWN_MAX)
		return 1;
	*seed = (struct op_seed){ .kind = found->kind };
	if (value->kind == ENGINE_INT)
		seed->id = value->number;
	else
		seed->approval = arena_copy(&found->arena, value->text, value->size);
	if (value->kind != ENGINE_INT && !seed->approval)
		return -ENOMEM;
	found->n++;
	return 0;
}

static int find(struct ledger *ledger, enum ledger_sql sql, const struct engine_value *values,
		unsigned int n, struct found *found, struct error *error)
{
	int err = ledger->ops->begin(ledger->engine, false, error);

	found->n = 0;
	if (!err)
		err = ledger->ops->each(ledger->engine, &ledger_sql[sql], values, n, take_found,
					found, error);
	ledger->ops->rollback(ledger->engine);
	return err < 0 ? err : 0;
}

/* Finds and acts until nothing is found, or nothing moves. */
static int sweep(struct ledger *ledger, enum ledger_sql sql, const struct engine_value *values,
		 unsigned int n, enum op_kind kind, struct error *error)
{
	struct found *found = calloc(1, sizeof(*found));
	bool unknown, moved = true;
	int err = found ? 0 : error_set(error, ENOMEM, "ledger: no memory");

	while (!err && moved) {
		found->kind = kind;
		moved = false;
		err = find(ledger, sql, values, n, found, error);
		for (unsigned int at = 0; !err && at < found->n; at += ledger->options.batch_max) {
			unsigned int part = found->n - at;

			if (part > ledger->options.batch_max)
				part = ledger->options.batch_max;
			err = batch_transact(ledger, found->seeds + at, part, &unknown, error);
			for (unsigned int i = 0; i < part && !err; i++)
				moved = moved || ledger->batch_ops[i].must_change;
		}
	}
	if (found)
		arena_free(&found->arena);
	free(found);
	return err;
}

static int expire_approvals(struct ledger *ledger, struct error *error)
{
	const struct engine_value now = ENGINE_NUMBER(ledger_now(ledger));

	return sweep(ledger, SQL_APPROVALS_EXPIRED, &now, 1, OP_EXPIRE, error);
}

int tick_recover(struct ledger *ledger, const char *node, struct error *error)
{
	const struct engine_value name = engine_text(node);

	return sweep(ledger, SQL_CALLS_RUNNING, &name, 1, OP_RECOVER, error);
}

/* One statement in a transaction of its own, about rows that nobody decides on any more. */
static int run_alone(struct ledger *ledger, struct engine_step *step, struct arena *arena,
		     struct error *error)
{
	int err = ledger->ops->begin(ledger->engine, true, error);

	if (!err)
		err = ledger->ops->run(ledger->engine, arena, step, 1, false, error);
	if (!err)
		err = ledger->ops->commit(ledger->engine, error);
	if (err)
		ledger->ops->rollback(ledger->engine);
	return err;
}

/*
 * Gateways that have not been heard of for a lease. Their epoch is raised first: whoever was only asleep finds, when it
 * wakes, that it can write nothing more and never acts on what it had reserved.
 */
static int sweep_dead(struct ledger *ledger, struct error *error)
{
	const int64_t before = ledger_now(ledger) - (int64_t)ledger->options.lease_s * NS_PER_S;
	const struct engine_value values[] = { ENGINE_NUMBER(before),
					       engine_text(ledger->options.node) };
	struct found *dead = calloc(1, sizeof(*dead));
	int err = dead ? find(ledger, SQL_GATEWAY_DEAD, values, 2, dead, error)
		       : error_set(error, ENOMEM, "ledger: no memory");

	for (unsigned int i = 0; !err && i < dead->n; i++) {
		const char *node = dead->seeds[i].approval;
		const struct engine_value fence[] = { engine_text(node), ENGINE_NUMBER(before) };
		struct engine_step step = { .stmt = &ledger_sql[SQL_GATEWAY_DEAD_FENCE],
					    .params = fence,
					    .n_params = 2 };

		err = run_alone(ledger, &step, &dead->arena, error);
		if (!err && step.changed == 1) {
			ledger_log(ledger,
				   "node %s has not been heard of for %u s: its open calls are "
				   "taken over",
				   node, ledger->options.lease_s);
			err = tick_recover(ledger, node, error);
		}
	}
	if (dead)
		arena_free(&dead->arena);
	free(dead);
	return err;
}

/* A page of old calls. Denied and expired ones stay: their keys are answered for good. */
static int collect(struct ledger *ledger, struct error *error)
{
	const int64_t now = ledger_now(ledger);
	struct engine_value page[] = { ENGINE_NUMBER(ledger->collect_from) };
	struct engine_step look = { .stmt = &ledger_sql[SQL_CALLS_PAGE],
				    .params = page,
				    .n_params = 1 };
	struct arena arena = { 0 };
	int err = run_alone(ledger, &look, &arena, error);

	if (!err && look.n_rows && look.row.values[0].kind == ENGINE_INT) {
		const struct engine_value range[] = {
			page[0], look.row.values[0],
			ENGINE_NUMBER(now - (int64_t)ledger->options.key_ttl_s * NS_PER_S)
		};
		struct engine_step drop = { .stmt = &ledger_sql[SQL_CALLS_EXPIRE],
					    .params = range,
					    .n_params = 3 };

		err = run_alone(ledger, &drop, &arena, error);
		if (!err)
			ledger->collect_from = range[1].number;
	} else if (!err) {
		const struct engine_value day = ENGINE_NUMBER(now / NS_PER_DAY - USAGE_DAYS);
		struct engine_step drop = { .stmt = &ledger_sql[SQL_USAGE_EXPIRE],
					    .params = &day,
					    .n_params = 1 };

		ledger->collect_from = 0; /* the end: from the start again */
		err = run_alone(ledger, &drop, &arena, error);
	}
	arena_free(&arena);
	return err;
}

/* An empty transaction writes the heartbeat. */
static int beat(struct ledger *ledger, struct error *error)
{
	bool unknown;

	return batch_transact(ledger, NULL, 0, &unknown, error);
}

void tick_run(struct ledger *ledger, bool now)
{
	const int64_t time_ns = ledger_now(ledger);
	const int64_t lease_ns = (int64_t)ledger->options.lease_s * NS_PER_S;
	struct error error = { 0 };
	int err = 0;

	if (ledger->fenced_out || (!now && time_ns < ledger->tick_at_ns))
		return;
	ledger->tick_at_ns = time_ns + TICK_NS;
	if (ledger->reconnect_wait_ns) {
		/* A lost store comes back by itself, without a call that waits for it. */
		err = beat(ledger, &error);
	} else {
		err = expire_approvals(ledger, &error);
		if (!err && (now || time_ns - ledger->beat_ns >= lease_ns / 6))
			err = beat(ledger, &error);
		if (!err && (now || time_ns >= ledger->sweep_at_ns)) {
			ledger->sweep_at_ns = time_ns + lease_ns / 4;
			err = sweep_dead(ledger, &error);
		}
		if (!err && (now || time_ns >= ledger->collect_at_ns)) {
			ledger->collect_at_ns = time_ns + COLLECT_NS;
			err = collect(ledger, &error);
		}
	}
	if (err == -ENOTCONN && !ledger->reconnect_wait_ns)
		err = beat(ledger, &error);
	/* Another's transaction in the way of housekeeping is no illness. */
	if (err != -EAGAIN)
		ledger_set_health(ledger, err, &error);
}
