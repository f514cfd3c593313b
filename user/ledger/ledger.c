// SPDX-License-Identifier: Apache-2.0
/*
 * Opening and closing a ledger, its clock and its health. What opening finds of an earlier life of this node is
 * resolved before the first job: reserved calls are released, executing ones become ambiguous.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ledger/internal.h"

#define RECONNECT_MIN_NS (NS_PER_S / 10)
#define RECONNECT_MAX_NS (5 * NS_PER_S)
#define KEY_TTL_MIN_S 86400
#define CLOCK_BEHIND_MAX_NS NS_PER_DAY

/* --- time -------------------------------------------------------------------------------------------------------- */

static int64_t read_clock(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int64_t wall(const struct ledger *ledger)
{
	return ledger->options.wall_ns ? ledger->options.wall_ns() : read_clock(CLOCK_REALTIME);
}

static int64_t mono(const struct ledger *ledger)
{
	return ledger->options.mono_ns ? ledger->options.mono_ns() : read_clock(CLOCK_MONOTONIC);
}

int64_t ledger_now(struct ledger *ledger)
{
	int64_t now = wall(ledger), passed = mono(ledger), carried;

	pthread_mutex_lock(&ledger->clock_mutex);
	carried = ledger->clock_ns + (passed - ledger->clock_mono_ns);
	if (now < carried)
		now = carried;
	if (now > ledger->clock_ns) {
		ledger->clock_ns = now;
		ledger->clock_mono_ns = passed;
	} else {
		now = ledger->clock_ns;
	}
	pthread_mutex_unlock(&ledger->clock_mutex);
	return now;
}

void ledger_clock_raise(struct ledger *ledger, int64_t ns)
{
	pthread_mutex_lock(&ledger->clock_mutex);
	if (ns > ledger->clock_ns) {
		ledger->clock_ns = ns;
		ledger->clock_mono_ns = mono(ledger);
	}
	pthread_mutex_unlock(&ledger->clock_mutex);
}

/* --- words for the operator -------------------------------------------------------------------------------------- */

void ledger_log(struct ledger *ledger, const char *format, ...)
{
	char line[1024];
	va_list args;

	if (!ledger->options.log)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = ' ';
	ledger->options.log(line, ledger->options.log_data);
}

void ledger_set_health(struct ledger *ledger, int err, const struct error *error)
{
	bool changed;

	pthread_mutex_lock(&ledger->mutex);
	changed = (ledger->health == 0) != (err == 0);
	ledger->health = err;
	ledger->health_error = err ? *error : (struct error){ 0 };
	pthread_mutex_unlock(&ledger->mutex);
	if (changed && err)
		ledger_log(ledger, "calls are refused: %s", error->text);
	else if (changed)
		ledger_log(ledger, "the store can be written again");
}

int ledger_health(struct ledger *ledger, struct error *error)
{
	int err;

	pthread_mutex_lock(&ledger->mutex);
	err = ledger->health;
	if (err)
		error_set(error, -err, "%s", ledger->health_error.text);
	pthread_mutex_unlock(&ledger->mutex);
	return err;
}

int ledger_reconnect(struct ledger *ledger, struct error *error)
{
	int64_t now = read_clock(CLOCK_MONOTONIC);
	int err;

	if (ledger->reconnect_wait_ns && now < ledger->reconnect_at_ns)
		return error_set(error, ENOTCONN, "the store is away");
	err = ledger->ops->reopen(ledger->engine, error);
	if (!err) {
		ledger->reconnect_wait_ns = 0;
		return 0;
	}
	ledger->reconnect_wait_ns =
		ledger->reconnect_wait_ns ? ledger->reconnect_wait_ns * 2 : RECONNECT_MIN_NS;
	if (ledger->reconnect_wait_ns > RECONNECT_MAX_NS)
		ledger->reconnect_wait_ns = RECONNECT_MAX_NS;
	ledger->reconnect_at_ns = read_clock(CLOCK_MONOTONIC) + ledger->reconnect_wait_ns;
	return -ENOTCONN;
}

/* --- opening ----------------------------------------------------------------------------------------------------- */

static int copy_string(const char **string)
{
	if (*string)
		*string = strdup(*string);
	return *string ? 0 : -ENOMEM;
}

static int copy_options(struct ledger *ledger, const struct ledger_options *options,
			struct error *error)
{
	struct ledger_options *own = &ledger->options;
	bool no_facts = !options->facts || strcmp(options->facts, options->store) == 0;
	int err;

	*own = *options;
	own->facts = own->anchor = NULL;
	err = copy_string(&own->store);
	err = copy_string(&own->node) ? -ENOMEM : err;
	if (!no_facts) {
		own->facts = options->facts;
		err = copy_string(&own->facts) ? -ENOMEM : err;
	}
	if (options->anchor) {
		own->anchor = options->anchor;
		err = copy_string(&own->anchor) ? -ENOMEM : err;
	}
	own->batch_max = own->batch_max ? own->batch_max : 256;
	own->queue_max = own->queue_max ? own->queue_max : 16384;
	own->lock_timeout_ms = own->lock_timeout_ms ? own->lock_timeout_ms : 5000;
	own->approval_ttl_s = own->approval_ttl_s ? own->approval_ttl_s : 3600;
	own->key_ttl_s = own->key_ttl_s ? own->key_ttl_s : KEY_TTL_MIN_S;
	own->lease_s = own->lease_s ? own->lease_s : LEDGER_LEASE_S;
	return err ? error_set(error, ENOMEM, "ledger: no memory") : 0;
}

static int check_options(const struct ledger_options *options, struct error *error)
{
	if (!options->node || !*options->node || strlen(options->node) > LEDGER_NAME_MAX ||
	    strpbrk(options->node, " \t\r\n") || !text_is_plain(options->node, false))
		return error_set(error, EINVAL,
				 "ledger: a node needs a name of 1 to %d bytes without blanks",
				 LEDGER_NAME_MAX);
	if (!engine_of(options->store))
		return error_set(error, EINVAL,
				 "store %s: give sqlite:/DIR/FILE or postgresql://...",
				 options->store ? options->store : "(none)");
	if (options->facts && !engine_of(options->facts))
		return error_set(error, EINVAL,
				 "facts %s: give sqlite:/DIR/FILE or postgresql://...",
				 options->facts);
	if (options->key_ttl_s && options->key_ttl_s < KEY_TTL_MIN_S)
		return error_set(error, EINVAL, "ledger: keys are kept for at least %d s",
				 KEY_TTL_MIN_S);
	return 0;
}

static int step(struct ledger *ledger, struct arena *arena, enum ledger_sql sql,
		const struct engine_value *values, unsigned int n, struct engine_step *ret,
		struct error *error)
{
	*ret = (struct engine_step){ .stmt = &ledger_sql[sql], .params = values, .n_params = n };
	return ledger->ops->run(ledger->engine, arena, ret, 1, false, error);
}

/* The clock must not be far behind what was written; a little, it is carried on from there. */
static int check_clock(struct ledger *ledger, int64_t latest_ns, struct error *error)
{
	int64_t behind_ns = latest_ns - wall(ledger);

	if (behind_ns > CLOCK_BEHIND_MAX_NS && !ledger->options.accept_clock)
		return error_set(error, ETIME,
				 "ledger: the clock is %" PRId64
				 " h behind the last record; set the "
				 "clock, or accept_clock if the record is what is wrong",
				 behind_ns / NS_PER_S / 3600);
	if (behind_ns <= CLOCK_BEHIND_MAX_NS)
		ledger_clock_raise(ledger, latest_ns);
	return 0;
}

/* Schema, this node's row, a new life for it. One transaction. */
static int enter(struct ledger *ledger, struct arena *arena, struct error *error)
{
	const struct engine_value node = engine_text(ledger->options.node);
	struct engine_value values[2] = { node, node };
	struct engine_step done;
	int err = ledger->ops->begin(ledger->engine, true, error);

	if (!err)
		err = schema_prepare(ledger->ops, ledger->engine, error);
	if (!err)
		err = step(ledger, arena, SQL_GATEWAY_LATEST, NULL, 0, &done, error);
	if (!err)
		err = check_clock(ledger, done.row.values[0].number, error);
	if (!err)
		err = step(ledger, arena, SQL_GATEWAY_NEW, values, 2, &done, error);
	values[0] = ENGINE_NUMBER(ledger_now(ledger));
	if (!err)
		err = step(ledger, arena, SQL_GATEWAY_EPOCH, values, 2, &done, error);
	if (!err)
		err = step(ledger, arena, SQL_GATEWAY_READ, &node, 1, &done, error);
	if (!err && done.n_rows != 1)
		err = error_set(error, EIO, "ledger: the row of node %s is not there",
				ledger->options.node);
	if (!err) {
		const struct engine_value *row = done.row.values;

		ledger->num = row[0].number;
		ledger->epoch = row[1].number;
		/* A node's first id carries its number. */
		if (row[3].number == 0) {
			const struct engine_value first[] = {
				values[0],
				ENGINE_NUMBER(ledger->num << CALL_ID_BITS),
				ENGINE_NUMBER(0),
				engine_text(""),
				node,
				ENGINE_NUMBER(ledger->epoch),
				ENGINE_NUMBER(0),
			};

			err = step(ledger, arena, SQL_GATEWAY_WRITE, first, 7, &done, error);
		}
	}
	if (!err)
		err = ledger->ops->commit(ledger->engine, error);
	if (err)
		ledger->ops->rollback(ledger->engine);
	return err;
}

/* The store must contain the record that the anchor remembers. */
static int check_anchor(struct ledger *ledger, struct arena *arena, struct error *error)
{
	struct chain head;
	struct engine_value values[2] = { engine_text(ledger->options.node) };
	struct engine_step found;
	uint8_t hash[LEDGER_HASH_SIZE] = { 0 };
	int err = anchor_open(&ledger->anchor, ledger->options.anchor, error);

	if (!err)
		err = anchor_read(ledger->anchor, ledger->options.node, &head, error);
	if (err == -EBADMSG && ledger->options.accept_rollback) {
		error->text[0] = '\0';
		return 0;
	}
	if (err || head.seq == 0)
		return err;
	values[1] = ENGINE_NUMBER((int64_t)head.seq);
	err = ledger->ops->begin(ledger->engine, false, error);
	if (!err)
		err = step(ledger, arena, SQL_RECORD_READ, values, 2, &found, error);
	ledger->ops->rollback(ledger->engine);
	if (err)
		return err;
	if (found.n_rows == 1 && text_unhex(found.row.values[5].text, hash, LEDGER_HASH_SIZE) &&
	    memcmp(hash, head.hash, LEDGER_HASH_SIZE) == 0)
		return 0;
	if (ledger->options.accept_rollback)
		return 0;
	return error_set(error, ESTALE,
			 "the store was rolled back: record %" PRIu64
			 " of node %s, which %s remembers, "
			 "is missing or another; bring the right store, or open once with "
			 "accept_rollback",
			 head.seq, ledger->options.node, ledger->options.anchor);
}

static int open_engines(struct ledger *ledger, struct error *error)
{
	struct engine_options options = { .lock_timeout_ms = ledger->options.lock_timeout_ms };
	int err;

	ledger->ops = engine_of(ledger->options.store);
	err = ledger->ops->open(&ledger->engine, ledger->options.store, &options, error);
	if (!err)
		err = ledger->ops->open(&ledger->reader, ledger->options.store, &options, error);
	if (!err && ledger->options.facts) {
		options.read_only = true;
		ledger->facts_ops = engine_of(ledger->options.facts);
		err = ledger->facts_ops->open(&ledger->facts, ledger->options.facts, &options,
					      error);
	}
	return err;
}

static int start(struct ledger *ledger, struct error *error)
{
	struct arena arena = { 0 };
	const unsigned int n = ledger->options.batch_max;
	int err;

	ledger->batch_ops = calloc(n, sizeof(*ledger->batch_ops));
	ledger->batch_seeds = calloc(n, sizeof(*ledger->batch_seeds));
	ledger->batch_jobs = calloc(n, sizeof(struct ledger_job *));
	ledger->orphans = calloc(n, sizeof(*ledger->orphans));
	if (!ledger->batch_ops || !ledger->batch_seeds || !ledger->batch_jobs || !ledger->orphans)
		return error_set(error, ENOMEM, "ledger: no memory");
	err = open_engines(ledger, error);
	/* Another gateway may be starting, too. */
	for (int tries = 0; !err; tries++) {
		err = enter(ledger, &arena, error);
		if (err != -EAGAIN || tries == 5)
			break;
		err = 0;
		error->text[0] = '\0';
	}
	if (!err && ledger->options.anchor)
		err = check_anchor(ledger, &arena, error);
	if (!err)
		err = tick_recover(ledger, ledger->options.node, error);
	arena_free(&arena);
	if (!err) {
		err = -pthread_create(&ledger->thread, NULL, queue_thread, ledger);
		ledger->thread_runs = !err;
		if (err)
			error_set(error, -err, "ledger: cannot start a thread");
	}
	return err;
}

int ledger_open(struct ledger **ret, const struct ledger_options *options, struct error *error)
{
	struct error unused = { 0 };
	struct ledger *ledger;
	pthread_condattr_t attr;
	int err;

	error = error ? error : &unused;
	err = check_options(options, error);
	if (err)
		return err;
	ledger = calloc(1, sizeof(*ledger));
	if (!ledger)
		return error_set(error, ENOMEM, "ledger: no memory");
	pthread_mutex_init(&ledger->mutex, NULL);
	pthread_mutex_init(&ledger->clock_mutex, NULL);
	pthread_mutex_init(&ledger->tools_mutex, NULL);
	pthread_mutex_init(&ledger->read_mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&ledger->wake, &attr);
	pthread_condattr_destroy(&attr);
	ledger->tail = &ledger->head;
	err = copy_options(ledger, options, error);
	if (!err) {
		ledger->clock_mono_ns = mono(ledger);
		err = start(ledger, error);
	}
	if (err) {
		ledger_close(ledger);
		return err;
	}
	*ret = ledger;
	return 0;
}

void ledger_close(struct ledger *ledger)
{
	if (!ledger)
		return;
	pthread_mutex_lock(&ledger->mutex);
	ledger->stopping = true;
	pthread_cond_signal(&ledger->wake);
	pthread_mutex_unlock(&ledger->mutex);
	if (ledger->thread_runs)
		pthread_join(ledger->thread, NULL);
	if (ledger->engine)
		tool_reap(ledger);
	if (ledger->ops) {
		ledger->ops->close(ledger->engine);
		ledger->ops->close(ledger->reader);
	}
	if (ledger->facts_ops)
		ledger->facts_ops->close(ledger->facts);
	anchor_close(ledger->anchor);
	arena_free(&ledger->arena);
	pthread_cond_destroy(&ledger->wake);
	pthread_mutex_destroy(&ledger->mutex);
	pthread_mutex_destroy(&ledger->clock_mutex);
	pthread_mutex_destroy(&ledger->tools_mutex);
	pthread_mutex_destroy(&ledger->read_mutex);
	free(ledger->batch_ops);
	free(ledger->batch_seeds);
	free(ledger->batch_jobs);
	free(ledger->orphans);
	free(ledger->stmt_ids);
	free((char *)ledger->options.store);
	free((char *)ledger->options.node);
	free((char *)ledger->options.facts);
	free((char *)ledger->options.anchor);
	free(ledger);
}
