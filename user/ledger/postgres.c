// SPDX-License-Identifier: Apache-2.0
/*
 * The engine for several gateways: PostgreSQL through libpq. All steps of a run() go out in one pipeline, so that a
 * batch costs a few round trips and not a few for each call. Nothing here blocks for ever: every wait has a deadline,
 * after which the connection counts as lost.
 *
 * Isolation is READ COMMITTED under advisory locks, which the ledger takes in one order before it reads (lock()): all
 * gateways that decide about the same tenant and tool, or the same grant, stand in line, and each statement sees what
 * the one before committed. SERIALIZABLE would say the same by aborting and repeating; with group commit every abort
 * throws away a whole batch. The rows that facts come from are locked by the fact query itself (FOR UPDATE).
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <libpq-fe.h>

#include "ledger/engine.h"

#define PARAMS_MAX 64
/* Beyond the server's own lock and statement timeouts. */
#define GRACE_MS 5000

struct engine {
	PGconn *conn;
	char *uri;
	struct engine_options options;
	bool *prepared; /* by slot() */
	int n_prepared;
	bool begin; /* BEGIN goes out with the next steps */
	bool in_transaction;
	char *locks; /* array of keys that are taken before the next steps */
};

/* --- errors ------------------------------------------------------------------------------------------------------ */

static int errno_of_state(const char *state)
{
	static const struct {
		const char *prefix;
		int err;
	} classes[] = {
		{ "40001", EAGAIN },   { "40P01", EAGAIN }, { "55P03", EAGAIN },
		{ "57014", EAGAIN },   { "57P", ENOTCONN }, { "08", ENOTCONN },
		{ "25P03", ENOTCONN }, { "25006", EROFS },  { "53100", ENOSPC },
		{ "53", ENOMEM },      { "42501", EACCES }, { "22", EDOM },
		{ "58", EIO },	       { "XX", EIO },
	};

	for (size_t i = 0; state && i < ARRAY_SIZE(classes); i++)
		if (strncmp(state, classes[i].prefix, strlen(classes[i].prefix)) == 0)
			return -classes[i].err;
	return -EBADMSG;
}

/* libpq's messages have several lines; the first says what is wrong. */
static int fail(struct engine *engine, const PGresult *result, const char *what,
		struct error *error)
{
	const char *text = result ? PQresultErrorMessage(result) : PQerrorMessage(engine->conn);
	const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	int err = state ? errno_of_state(state) : -ENOTCONN;

	if (PQstatus(engine->conn) != CONNECTION_OK)
		err = -ENOTCONN;
	return error_set(error, -err, "store (PostgreSQL): %s: %.*s", what,
			 (int)strcspn(text, "\n"), text);
}

static void silent(void *data, const char *message)
{
}

/* --- waiting ----------------------------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The next result, or NULL in *ret where libpq has NULL. -ENOTCONN: lost, or not within the deadline. */
static int next_result(struct engine *engine, int64_t deadline_ms, PGresult **ret,
		       struct error *error)
{
	int flush = PQflush(engine->conn);

	while (flush > 0 || PQisBusy(engine->conn)) {
		struct pollfd fd = { .fd = PQsocket(engine->conn),
				     .events = (short)(POLLIN | (flush > 0 ? POLLOUT : 0)) };
		int64_t left = deadline_ms - now_ms();

		if (flush < 0 || fd.fd < 0 || PQstatus(engine->conn) != CONNECTION_OK)
			return error_set(error, ENOTCONN, "store (PostgreSQL): connection lost");
		if (left <= 0 || (poll(&fd, 1, (int)left) < 0 && errno != EINTR))
			return error_set(error, ENOTCONN, "store (PostgreSQL): no answer in time");
		if ((fd.revents & ~POLLOUT) && !PQconsumeInput(engine->conn))
			return error_set(error, ENOTCONN, "store (PostgreSQL): connection lost");
		if (flush > 0)
			flush = PQflush(engine->conn);
	}
	*ret = PQgetResult(engine->conn);
	return 0;
}

static int64_t deadline(const struct engine *engine)
{
	return now_ms() + engine->options.lock_timeout_ms + GRACE_MS;
}

/* One command, or a script of several, by the simple protocol; the first failure counts, rows are dropped. */
static int command(struct engine *engine, const char *sql, const char *want, struct error *error)
{
	int64_t until = deadline(engine);
	int err = 0;

	if (PQstatus(engine->conn) != CONNECTION_OK || !PQsendQuery(engine->conn, sql))
		return fail(engine, NULL, "cannot send", error);
	for (;;) {
		PGresult *result = NULL;
		int lost = next_result(engine, until, &result, error);

		if (lost || !result)
			return lost ? lost : err;
		if (!err && PQresultStatus(result) != PGRES_COMMAND_OK &&
		    PQresultStatus(result) != PGRES_TUPLES_OK)
			err = fail(engine, result, "cannot run a statement", error);
		else if (!err && want && strcmp(PQcmdStatus(result), want) != 0)
			err = error_set(error, EIO, "store (PostgreSQL): %s gave %s", want,
					PQcmdStatus(result));
		PQclear(result);
	}
}

/* --- connection -------------------------------------------------------------------------------------------------- */

static int configure(struct engine *engine, struct error *error)
{
	char sql[640];

	/*
	 * A commit that is not durable would break every promise, so it is switched on where it is off and left where
	 * it asks for more (replicas).
	 */
	snprintf(sql, sizeof(sql),
		 "SET client_min_messages = warning; SET standard_conforming_strings = on;"
		 "SET default_transaction_isolation = 'read committed';"
		 "SET default_transaction_read_only = %s;"
		 "SET lock_timeout = %u; SET statement_timeout = %u;"
		 "SET idle_in_transaction_session_timeout = %u;"
		 "SELECT set_config('synchronous_commit', 'on', false)"
		 " WHERE current_setting('synchronous_commit') IN ('off', 'local')",
		 engine->options.read_only ? "on" : "off", engine->options.lock_timeout_ms,
		 engine->options.lock_timeout_ms + 2000, engine->options.lock_timeout_ms + 10000);
	return command(engine, sql, NULL, error);
}

static int pg_connect(struct engine *engine, struct error *error)
{
	/* What the URI says comes later and wins. */
	static const char *const keys[] = { "connect_timeout", "application_name",
					    "client_encoding", "tcp_user_timeout",
					    "dbname",	       NULL };
	const char *const values[] = { "5", "cordon-gateway", "UTF8", "10000", engine->uri, NULL };

	engine->conn = PQconnectdbParams(keys, values, 1);
	if (!engine->conn)
		return error_set(error, ENOMEM, "store: no memory");
	if (PQstatus(engine->conn) != CONNECTION_OK) {
		const char *text = PQerrorMessage(engine->conn);

		return error_set(error, ECONNREFUSED, "store (PostgreSQL): cannot connect: %.*s",
				 (int)strcspn(text, "\n"), text);
	}
	PQsetNoticeProcessor(engine->conn, silent, NULL);
	if (PQsetnonblocking(engine->conn, 1) != 0)
		return fail(engine, NULL, "cannot connect", error);
	return configure(engine, error);
}

static void pg_close(struct engine *engine)
{
	if (!engine)
		return;
	PQfinish(engine->conn);
	free(engine->locks);
	free(engine->prepared);
	free(engine->uri);
	free(engine);
}

static int pg_open(struct engine **ret, const char *uri, const struct engine_options *options,
		   struct error *error)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	int err;

	if (!engine || !(engine->uri = strdup(uri))) {
		pg_close(engine);
		return error_set(error, ENOMEM, "store: no memory");
	}
	engine->options = *options;
	err = pg_connect(engine, error);
	if (err) {
		pg_close(engine);
		return err;
	}
	*ret = engine;
	return 0;
}

/* Gives the connection up; everything is -ENOTCONN until reopen. */
static void drop(struct engine *engine)
{
	PQfinish(engine->conn);
	engine->conn = NULL;
	engine->begin = engine->in_transaction = false;
	free(TAKE_PTR(engine->locks));
	if (engine->prepared)
		memset(engine->prepared, 0, (size_t)engine->n_prepared * sizeof(*engine->prepared));
}

static int pg_reopen(struct engine *engine, struct error *error)
{
	drop(engine);
	return pg_connect(engine, error);
}

/* --- transactions ------------------------------------------------------------------------------------------------ */

static int pg_begin(struct engine *engine, bool write, struct error *error)
{
	if (PQstatus(engine->conn) != CONNECTION_OK)
		return error_set(error, ENOTCONN, "store (PostgreSQL): not connected");
	engine->begin = true;
	return 0;
}

static int pg_commit(struct engine *engine, struct error *error)
{
	if (engine->begin) { /* nothing was done */
		engine->begin = false;
		return 0;
	}
	engine->in_transaction = false;
	return command(engine, "COMMIT", "COMMIT", error);
}

static void pg_rollback(struct engine *engine)
{
	bool open = engine->in_transaction;

	free(TAKE_PTR(engine->locks));
	engine->begin = engine->in_transaction = false;
	if (open && PQstatus(engine->conn) == CONNECTION_OK)
		command(engine, "ROLLBACK", NULL, NULL);
}

/* --- steps ------------------------------------------------------------------------------------------------------- */

/* A statement and its form for many are prepared apart. */
static int slot(const struct engine_stmt *stmt, bool many)
{
	return 2 * stmt->id + many;
}

static bool has_many(const struct engine_stmt *stmt)
{
	return stmt->many && *stmt->many;
}

/* Our text has ?1, libpq wants $1. */
static char *native(const struct engine_stmt *stmt, bool many)
{
	char *sql = strdup(many ? *stmt->many : stmt->sql);

	for (char *c = sql; c && *c && !stmt->foreign; c++)
		if (*c == '?')
			*c = '$';
	return sql;
}

static int send_prepare(struct engine *engine, const struct engine_stmt *stmt, bool many,
			const char *name)
{
	_cleanup_free_ char *sql = native(stmt, many);

	if (!sql)
		return -ENOMEM;
	return PQsendPrepare(engine->conn, name, sql, 0, NULL) ? 0 : -ENOTCONN;
}

static bool is_prepared(const struct engine *engine, const struct engine_stmt *stmt, bool many)
{
	return slot(stmt, many) < engine->n_prepared && engine->prepared[slot(stmt, many)];
}

static int note_prepared(struct engine *engine, const struct engine_stmt *stmt, bool many,
			 bool prepared)
{
	int at = slot(stmt, many);

	if (at >= engine->n_prepared) {
		int n = at + 64;
		bool *more = realloc(engine->prepared, (size_t)n * sizeof(*more));

		if (!more)
			return -ENOMEM;
		memset(more + engine->n_prepared, 0, (size_t)(n - engine->n_prepared));
		engine->prepared = more;
		engine->n_prepared = n;
	}
	engine->prepared[at] = prepared;
	return 0;
}

static int send_query(struct engine *engine, const char *name, const struct engine_value *params,
		      unsigned int n)
{
	const char *values[PARAMS_MAX];
	char numbers[PARAMS_MAX][UTIL_DECIMAL_SIZE];

	if (n > PARAMS_MAX)
		return -EINVAL;
	for (unsigned int i = 0; i < n; i++) {
		if (params[i].kind == ENGINE_INT) {
			util_decimal(params[i].number, numbers[i]);
			values[i] = numbers[i];
		} else {
			values[i] = params[i].kind == ENGINE_TEXT ? params[i].text : NULL;
		}
	}
	return PQsendQueryPrepared(engine->conn, name, (int)n, values, NULL, NULL, 0) ? 0
										      : -ENOTCONN;
}

/* A whole number, whatever type it came in; false: it is none, or too big. */
static bool parse_number(const char *text, int64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoll(text, &end, 10);
	return errno == 0 && end != text && *end == '\0';
}

static int read_value(const PGresult *result, int row, int i, struct arena *arena,
		      struct engine_value *ret)
{
	enum { BOOL = 16, INT8 = 20, INT2 = 21, INT4 = 23, NUMERIC = 1700 };
	const char *text = PQgetvalue(result, row, i);
	size_t size = (size_t)PQgetlength(result, row, i);
	Oid type = PQftype(result, i);

	*ret = (struct engine_value){ .kind = ENGINE_NULL };
	if (PQgetisnull(result, row, i))
		return 0;
	if (type == BOOL) {
		*ret = ENGINE_NUMBER(*text == 't');
		return 0;
	}
	if ((type == INT8 || type == INT4 || type == INT2 || type == NUMERIC) &&
	    parse_number(text, &ret->number)) {
		ret->kind = ENGINE_INT;
		return 0;
	}
	ret->kind = ENGINE_TEXT;
	ret->size = size;
	ret->text = arena ? arena_copy(arena, text, size) : text;
	return ret->text ? 0 : -ENOMEM;
}

static int read_row(const PGresult *result, int row, struct arena *arena, struct arena *values,
		    struct engine_row *ret)
{
	int n = PQnfields(result), err = 0;
	const char **names = arena_take(values, (size_t)n * sizeof(*names));
	struct engine_value *columns = arena_take(values, (size_t)n * sizeof(*columns));

	if (!names || !columns)
		return -ENOMEM;
	for (int i = 0; i < n && !err; i++) {
		names[i] = arena_string(values, PQfname(result, i));
		err = names[i] ? read_value(result, row, i, arena, &columns[i]) : -ENOMEM;
	}
	*ret = (struct engine_row){ .n = (unsigned int)n, .names = names, .values = columns };
	return err;
}

static int too_many(struct engine_step *step, struct error *error)
{
	if (!step->changed_max || step->changed <= step->changed_max)
		return 0;
	step->fault = "changed more rows than one";
	return error_set(error, EBADMSG, "store (PostgreSQL): a statement %s", step->fault);
}

static int take_result(struct engine *engine, struct arena *arena, const PGresult *result,
		       struct engine_step *step, struct error *error)
{
	if (PQresultStatus(result) == PGRES_COMMAND_OK) {
		step->n_rows = 0;
		step->changed = strtoll(PQcmdTuples((PGresult *)result), NULL, 10);
		return too_many(step, error);
	}
	if (PQresultStatus(result) != PGRES_TUPLES_OK) {
		const char *text = PQresultErrorMessage(result);

		step->fault = arena_copy(arena, text, strcspn(text, "\n"));
		return fail(engine, result, "cannot run a statement", error);
	}
	step->n_rows = (unsigned int)PQntuples(result);
	step->changed = step->n_rows;
	if (step->n_rows && read_row(result, 0, arena, arena, &step->row) != 0)
		return error_set(error, ENOMEM, "store: no memory");
	return too_many(step, error);
}

/* Our own, SQL_NONE of sql.h: an array of keys. Prepared like the others, since planning it costs more than running it. */
static const struct engine_stmt lock_stmt = {
	.sql = "SELECT pg_advisory_xact_lock(k) FROM unnest(?1::bigint[]) k"
};

/* One thing that went into the pipeline, in the order in which results come back. */
struct item {
	enum { ITEM_BEGIN, ITEM_LOCK, ITEM_PREPARE, ITEM_QUERY, ITEM_MANY, ITEM_COMMIT } kind;
	struct engine_step *step;	/* NULL: none of the ledger's */
	const struct engine_stmt *stmt; /* of ITEM_PREPARE */
	bool many;
	struct engine_step **members; /* of ITEM_MANY */
	unsigned int n;
};

/* {1,2} or {"a","b"}: one parameter of all members as an array. */
static const char *array_of(struct arena *arena, const struct item *item, unsigned int param)
{
	struct text text = { .arena = arena };

	text_add(&text, "{", 1);
	for (unsigned int i = 0; i < item->n; i++) {
		const struct engine_value *value = &item->members[i]->params[param];

		if (i)
			text_add(&text, ",", 1);
		if (value->kind == ENGINE_INT) {
			text_number(&text, value->number);
			continue;
		}
		text_add(&text, "\"", 1);
		for (const char *c = value->text;;) {
			size_t plain = strcspn(c, "\"\\");

			text_add(&text, c, plain);
			c += plain;
			if (!*c)
				break;
			text_add(&text, "\\", 1);
			text_add(&text, c++, 1);
		}
		text_add(&text, "\"", 1);
	}
	text_add(&text, "}", 1);
	return text.failed ? NULL : text.data;
}

static int send_many(struct engine *engine, struct arena *arena, const struct item *item,
		     const char *name)
{
	struct engine_value arrays[PARAMS_MAX];
	unsigned int n = item->step->n_params;

	for (unsigned int i = 0; i < n; i++) {
		arrays[i] = (struct engine_value){ .kind = ENGINE_TEXT,
						   .text = array_of(arena, item, i) };
		if (!arrays[i].text)
			return -ENOMEM;
	}
	return send_query(engine, name, arrays, n);
}

/* What goes out for steps[i]: itself, or all later ones of its kind with it. NULL members: no memory. */
static struct item gather(struct arena *arena, struct engine_step *steps, unsigned int n,
			  unsigned int i, bool *sent)
{
	struct item item = { .kind = ITEM_QUERY, .step = &steps[i] };
	const struct engine_stmt *stmt = steps[i].stmt;

	sent[i] = true;
	if (!has_many(stmt))
		return item;
	for (unsigned int k = i; k < n; k++)
		item.n += steps[k].stmt == stmt;
	if (item.n < 2)
		return item;
	item.kind = ITEM_MANY;
	item.many = true;
	item.members = arena_take(arena, item.n * sizeof(struct engine_step *));
	item.n = 0;
	for (unsigned int k = i; k < n && item.members; k++) {
		if (steps[k].stmt != stmt)
			continue;
		steps[k].n_rows = 0;
		steps[k].changed = 0;
		sent[k] = true;
		item.members[item.n++] = &steps[k];
	}
	return item;
}

static int send_items(struct engine *engine, struct arena *arena, struct engine_step *steps,
		      unsigned int n, bool commit, struct item *items, unsigned int *ret_n)
{
	bool *sent = arena_take(arena, n + 1);
	unsigned int k = 0;
	int err = sent ? 0 : -ENOMEM;

	if (engine->begin) {
		if (!PQsendQueryParams(engine->conn, "BEGIN", 0, NULL, NULL, NULL, NULL, 0))
			return -ENOTCONN;
		items[k++] = (struct item){ .kind = ITEM_BEGIN };
	}
	/* Each statement sees what was committed before it began, so the locks have to be taken by an earlier one. */
	if (engine->locks) {
		const struct engine_value keys = { .kind = ENGINE_TEXT, .text = engine->locks };

		if (!is_prepared(engine, &lock_stmt, false)) {
			err = send_prepare(engine, &lock_stmt, false, "s0");
			if (!err)
				err = note_prepared(engine, &lock_stmt, false, true);
			items[k++] = (struct item){ .kind = ITEM_PREPARE, .stmt = &lock_stmt };
		}
		if (!err)
			err = send_query(engine, "s0", &keys, 1);
		items[k++] = (struct item){ .kind = ITEM_LOCK };
	}
	for (unsigned int i = 0; i < n && !err; i++) {
		const struct engine_stmt *stmt = steps[i].stmt;
		struct item item;
		char name[24];

		if (sent[i])
			continue;
		item = gather(arena, steps, n, i, sent);
		if (item.many && !item.members)
			return -ENOMEM;
		snprintf(name, sizeof(name), "%c%d", item.many ? 'm' : 's', stmt->id);
		if (!is_prepared(engine, stmt, item.many)) {
			err = send_prepare(engine, stmt, item.many, name);
			if (!err)
				err = note_prepared(engine, stmt, item.many, true);
			items[k++] = (struct item){ .kind = ITEM_PREPARE,
						    .step = &steps[i],
						    .stmt = stmt,
						    .many = item.many };
		}
		if (!err && item.many)
			err = send_many(engine, arena, &item, name);
		else if (!err)
			err = send_query(engine, name, steps[i].params, steps[i].n_params);
		items[k++] = item;
	}
	if (!err && commit) {
		if (!PQsendQueryParams(engine->conn, "COMMIT", 0, NULL, NULL, NULL, NULL, 0))
			return -ENOTCONN;
		items[k++] = (struct item){ .kind = ITEM_COMMIT };
	}
	*ret_n = k;
	return !err && !PQpipelineSync(engine->conn) ? -ENOTCONN : err;
}

/* The rows of many, each to the step that it belongs to. Without rows, one was changed for each. */
static int take_many(struct engine *engine, struct arena *arena, const PGresult *result,
		     const struct item *item, struct error *error)
{
	if (PQresultStatus(result) == PGRES_COMMAND_OK) {
		if (strtoull(PQcmdTuples((PGresult *)result), NULL, 10) != item->n)
			return error_set(error, EAGAIN, "store (PostgreSQL): not all were written");
		for (unsigned int i = 0; i < item->n; i++)
			item->members[i]->changed = 1;
		return 0;
	}
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		return fail(engine, result, "cannot run a statement", error);
	for (int row = 0; row < PQntuples(result); row++) {
		unsigned long long at = strtoull(PQgetvalue(result, row, 0), NULL, 10);
		struct engine_step *step;
		struct engine_row whole;

		if (at < 1 || at > item->n)
			return error_set(error, EIO, "store (PostgreSQL): a row of nobody");
		step = item->members[at - 1];
		step->changed++;
		if (step->n_rows++)
			continue;
		if (read_row(result, row, arena, arena, &whole) != 0)
			return error_set(error, ENOMEM, "store: no memory");
		step->row = (struct engine_row){ .n = whole.n - 1,
						 .names = whole.names + 1,
						 .values = whole.values + 1 };
	}
	return 0;
}

/* Takes what comes back for one item; *first is the first failure of the pipeline. */
static int take_item(struct engine *engine, struct arena *arena, const struct item *item,
		     int64_t until, int *first, struct error *error)
{
	PGresult *result = NULL;
	int lost = next_result(engine, until, &result, error), err = 0;

	if (lost || !result)
		return lost ? lost : error_set(error, ENOTCONN, "store (PostgreSQL): out of step");
	if (PQresultStatus(result) == PGRES_PIPELINE_ABORTED) {
		err = -ECANCELED; /* after a failure; not the first */
	} else if (item->kind == ITEM_QUERY) {
		err = take_result(engine, arena, result, item->step, *first ? NULL : error);
	} else if (item->kind == ITEM_MANY) {
		err = take_many(engine, arena, result, item, *first ? NULL : error);
	} else if (item->kind == ITEM_LOCK && PQresultStatus(result) == PGRES_TUPLES_OK) {
		err = 0;
	} else if (item->kind == ITEM_COMMIT && PQresultStatus(result) == PGRES_COMMAND_OK) {
		if (strcmp(PQcmdStatus(result), "COMMIT") != 0)
			err = error_set(error, EIO, "store (PostgreSQL): COMMIT gave %s",
					PQcmdStatus(result));
	} else if (PQresultStatus(result) != PGRES_COMMAND_OK) {
		const char *text = PQresultErrorMessage(result);

		if (item->step)
			item->step->fault = arena_copy(arena, text, strcspn(text, "\n"));
		err = fail(engine, result, "cannot prepare", *first ? NULL : error);
	}
	PQclear(result);
	if (err && item->kind == ITEM_PREPARE)
		note_prepared(engine, item->stmt, item->many, false);
	if (err && !*first)
		*first = err;
	lost = next_result(engine, until, &result, error); /* the NULL that ends each query */
	if (lost || result) {
		PQclear(result);
		return lost ? lost : error_set(error, ENOTCONN, "store (PostgreSQL): out of step");
	}
	return 0;
}

static int take_sync(struct engine *engine, int64_t until, struct error *error)
{
	PGresult *result = NULL;
	int lost = next_result(engine, until, &result, error);
	bool sync = result && PQresultStatus(result) == PGRES_PIPELINE_SYNC;

	PQclear(result);
	if (lost)
		return lost;
	return sync && PQexitPipelineMode(engine->conn)
		       ? 0
		       : error_set(error, ENOTCONN, "store (PostgreSQL): out of step");
}

static int pipeline_to(struct engine *engine, struct arena *arena, struct engine_step *steps,
		       unsigned int n, bool commit, struct error *error)
{
	struct item *items = arena_take(arena, (2 * (size_t)n + 4) * sizeof(*items));
	int64_t until = deadline(engine);
	unsigned int n_items = 0;
	int err, first = 0;

	if (!items)
		return error_set(error, ENOMEM, "store: no memory");
	if (PQstatus(engine->conn) != CONNECTION_OK || !PQenterPipelineMode(engine->conn))
		return error_set(error, ENOTCONN, "store (PostgreSQL): not connected");
	err = send_items(engine, arena, steps, n, commit, items, &n_items);
	/* What is half sent cannot be taken back: the connection is given up. */
	for (unsigned int i = 0; i < n_items && !err; i++)
		err = take_item(engine, arena, &items[i], until, &first, error);
	if (!err)
		err = take_sync(engine, until, error);
	if (err) {
		error_set(error, -err, "store (PostgreSQL): cannot send");
		drop(engine);
		return err == -ENOMEM ? err : -ENOTCONN;
	}
	free(TAKE_PTR(engine->locks));
	if (engine->begin) {
		engine->begin = false;
		engine->in_transaction = true;
	}
	if (commit && !first)
		engine->in_transaction = false;
	return first;
}

static int pipeline(struct engine *engine, struct arena *arena, struct engine_step *steps,
		    unsigned int n, struct error *error)
{
	return pipeline_to(engine, arena, steps, n, false, error);
}

static int pg_run_commit(struct engine *engine, struct arena *arena, struct engine_step *steps,
			 unsigned int n, struct error *error)
{
	int err = pipeline_to(engine, arena, steps, n, true, error);

	/* The operator's statements are not among these: a division by zero is our own word for "no row". */
	return err == -EDOM ? -EAGAIN : err;
}

/* A guarded step between savepoints. */
static int run_guarded(struct engine *engine, struct arena *arena, struct engine_step *step,
		       struct error *error)
{
	struct error fault = { 0 };
	int err = pipeline(engine, arena, NULL, 0, error); /* a BEGIN that waits */

	if (!err)
		err = command(engine, "SAVEPOINT step", NULL, error);
	if (err)
		return err;
	step->err = pipeline(engine, arena, step, 1, &fault);
	if (!step->err)
		return command(engine, "RELEASE step", NULL, error);
	if (step->err != -EBADMSG && step->err != -EDOM && step->err != -EACCES)
		return error_set(error, -step->err, "%s", fault.text);
	if (step->err == -EACCES)
		step->err = -EBADMSG;
	return command(engine, "ROLLBACK TO step; RELEASE step", NULL, error);
}

static int pg_run(struct engine *engine, struct arena *arena, struct engine_step *steps,
		  unsigned int n, bool guard, struct error *error)
{
	unsigned int i = 0;
	int err = 0;

	while (i < n && !err) {
		unsigned int plain = i;

		while (plain < n && !(guard && steps[plain].guarded))
			steps[plain++].err = 0;
		if (plain > i) {
			err = pipeline(engine, arena, steps + i, plain - i, error);
			i = plain;
		} else {
			err = run_guarded(engine, arena, &steps[i++], error);
		}
	}
	return err;
}

/* The keys go out with the next steps. */
static int pg_lock(struct engine *engine, const int64_t *keys, unsigned int n, struct error *error)
{
	struct arena arena = { 0 };
	struct text text = { .arena = &arena };

	free(TAKE_PTR(engine->locks));
	if (!n)
		return 0;
	text_add(&text, "{", 1);
	for (unsigned int i = 0; i < n; i++) {
		if (i)
			text_add(&text, ",", 1);
		text_number(&text, keys[i]);
	}
	text_add(&text, "}", 1);
	engine->locks = text.failed ? NULL : strdup(text.data);
	arena_free(&arena);
	return engine->locks ? 0 : error_set(error, ENOMEM, "store: no memory");
}

/* --- reading many rows ------------------------------------------------------------------------------------------- */

static int each_row(struct engine *engine, const PGresult *result,
		    int (*fn)(const struct engine_row *row, void *data), void *data,
		    struct error *error)
{
	struct arena values = { 0 };
	int err = 0;

	for (int row = 0; row < PQntuples(result) && err == 0; row++) {
		struct engine_row columns;

		arena_reset(&values);
		if (read_row(result, row, NULL, &values, &columns) != 0)
			err = error_set(error, ENOMEM, "store: no memory");
		else
			err = fn(&columns, data);
	}
	arena_free(&values);
	return err;
}

static int pg_each(struct engine *engine, const struct engine_stmt *stmt,
		   const struct engine_value *params, unsigned int n_params,
		   int (*fn)(const struct engine_row *row, void *data), void *data,
		   struct error *error)
{
	struct arena arena = { 0 };
	int64_t until = deadline(engine);
	char name[24];
	int err = 0, ret = 0;

	/* Preparing goes with a pipeline of its own, which also sends a BEGIN that waits. */
	snprintf(name, sizeof(name), "s%d", stmt->id);
	if (engine->begin || engine->locks)
		err = pipeline(engine, &arena, NULL, 0, error);
	if (!err && !is_prepared(engine, stmt, false)) {
		_cleanup_free_ char *sql = native(stmt, false);
		PGresult *result = sql ? PQprepare(engine->conn, name, sql, 0, NULL) : NULL;

		if (!result || PQresultStatus(result) != PGRES_COMMAND_OK)
			err = fail(engine, result, "cannot prepare", error);
		else
			err = note_prepared(engine, stmt, false, true);
		PQclear(result);
	}
	arena_free(&arena);
	if (!err)
		err = send_query(engine, name, params, n_params);
	if (err || !PQsetSingleRowMode(engine->conn))
		return error_set(error, err ? -err : ENOTCONN, "store (PostgreSQL): cannot read");
	for (;;) {
		PGresult *result = NULL;

		err = next_result(engine, until, &result, error);
		if (err) {
			drop(engine);
			return err;
		}
		if (!result)
			return ret;
		/* After the last word of fn or a failure the rest is only drained. */
		if (ret == 0 && PQresultStatus(result) != PGRES_TUPLES_OK &&
		    PQresultStatus(result) != PGRES_SINGLE_TUPLE)
			ret = fail(engine, result, "cannot read", error);
		else if (ret == 0)
			ret = each_row(engine, result, fn, data, error);
		PQclear(result);
		until = deadline(engine);
	}
}

/* --- the operator's statements ----------------------------------------------------------------------------------- */

/*
 * Reading cannot be told from writing here, but a statement that takes no values of its own accord can be tried: with
 * NULL for every value, in a transaction that is rolled back. That finds what preparing alone does not (a row lock on an
 * outer join, missing privileges). Only statements that begin with SELECT or WITH are tried.
 */
static int pg_check(struct engine *engine, const struct engine_stmt *stmt, bool *ret_reads,
		    struct error *error)
{
	const char *text = stmt->sql + strspn(stmt->sql, " \t\r\n");
	const char *const nulls[PARAMS_MAX] = { NULL };
	PGresult *result, *described = NULL, *tried = NULL;
	int err = 0, n;

	if (command(engine, "BEGIN", NULL, error) != 0)
		return -ENOTCONN;
	*ret_reads = strncasecmp(text, "select", 6) == 0 || strncasecmp(text, "with", 4) == 0;
	result = PQprepare(engine->conn, "", stmt->sql, 0, NULL);
	if (PQresultStatus(result) == PGRES_COMMAND_OK)
		described = PQdescribePrepared(engine->conn, "");
	n = described ? PQnparams(described) : 0;
	if (described && n <= PARAMS_MAX && *ret_reads)
		tried = PQexecPrepared(engine->conn, "", n, nulls, NULL, NULL, 0);
	if (!described || (tried && PQresultStatus(tried) != PGRES_TUPLES_OK)) {
		const PGresult *bad = tried ? tried : result;
		const char *words = PQresultErrorMessage(bad);

		err = error_set(error, EINVAL, "%.*s", (int)strcspn(words, "\n"), words);
	}
	PQclear(result);
	PQclear(described);
	PQclear(tried);
	command(engine, "ROLLBACK", NULL, NULL);
	return err;
}

static void pg_forget(struct engine *engine, const struct engine_stmt *stmt)
{
	char sql[40];

	if (!is_prepared(engine, stmt, false))
		return;
	note_prepared(engine, stmt, false, false);
	snprintf(sql, sizeof(sql), "DEALLOCATE s%d", stmt->id);
	command(engine, sql, NULL, NULL);
}

static int pg_script(struct engine *engine, const char *sql, struct error *error)
{
	struct arena arena = { 0 };
	int err = engine->begin || engine->locks ? pipeline(engine, &arena, NULL, 0, error) : 0;

	arena_free(&arena);
	return err ? err : command(engine, sql, NULL, error);
}

const struct engine_ops engine_postgres = {
	.scheme = "postgresql://",
	.dialect = "postgresql",
	.marker = '$',
	.guard_is_free = false,
	.open = pg_open,
	.close = pg_close,
	.reopen = pg_reopen,
	.begin = pg_begin,
	.lock = pg_lock,
	.run = pg_run,
	.each = pg_each,
	.commit = pg_commit,
	.run_commit = pg_run_commit,
	.rollback = pg_rollback,
	.check = pg_check,
	.forget = pg_forget,
	.script = pg_script,
};
