// SPDX-License-Identifier: Apache-2.0
/*
 * The embedded engine: SQLite in WAL mode with synchronous=FULL, so that a commit is one write and one fsync of the
 * log. Writers exclude each other with BEGIN IMMEDIATE; a busy handler with short, uneven naps shares the file fairly
 * between processes (the built-in one backs off to 100 ms). A step is undone alone by a savepoint, which costs
 * microseconds here.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <sqlite3.h>

#include "ledger/engine.h"

struct engine {
	sqlite3 *db;
	char *path;
	bool read_only;
	unsigned int lock_timeout_ms;
	struct timespec busy_since;
	unsigned int naps;
	sqlite3_stmt **stmts; /* by id */
	int n_stmts;
};

static int errno_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return 0;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EAGAIN;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_READONLY:
	case SQLITE_PERM:
		return -EROFS;
	case SQLITE_CANTOPEN:
		return -ENOENT;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_IOERR:
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_PROTOCOL:
		return -EIO;
	case SQLITE_MISMATCH:
	case SQLITE_RANGE:
	case SQLITE_TOOBIG:
		return -EDOM;
	default:
		return -EBADMSG;
	}
}

static int fail(struct engine *engine, int rc, const char *what, struct error *error)
{
	int err = errno_of(rc);

	return error_set(error, err ? -err : EIO, "store %s: %s: %s", engine->path, what,
			 engine->db ? sqlite3_errmsg(engine->db) : sqlite3_errstr(rc));
}

/* Naps of 0.2 to 2 ms, uneven so that two processes do not keep step. */
static int busy(void *data, int count)
{
	struct engine *engine = data;
	struct timespec now, nap = { 0, 0 };
	int64_t waited_ms;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (count == 0)
		engine->busy_since = now;
	waited_ms = (int64_t)(now.tv_sec - engine->busy_since.tv_sec) * 1000 +
		    (now.tv_nsec - engine->busy_since.tv_nsec) / 1000000;
	if (waited_ms >= engine->lock_timeout_ms)
		return 0;
	nap.tv_nsec = 200000 + (long)((engine->naps++ * 2654435761u ^ (unsigned int)now.tv_nsec) %
				      (count < 8 ? 300000u : 1800000u));
	nanosleep(&nap, NULL);
	return 1;
}

static int script(struct engine *engine, const char *sql, struct error *error)
{
	int rc = sqlite3_exec(engine->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : fail(engine, rc, "cannot run a statement", error);
}

/* The file may hold what others must not read: made with mode 0600; SQLite gives its companions the same. */
static int make_file(struct engine *engine, struct error *error)
{
	int fd = open(engine->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);

	/* One that is there is never opened by hand: closing it would drop the locks of this process. */
	if (fd < 0 && errno == EEXIST)
		return 0;
	if (fd < 0)
		return error_set(error, errno,
				 "store %s: cannot make it: %s; its directory must be there and "
				 "this user's to write",
				 engine->path, strerror(errno));
	close(fd);
	return 0;
}

static int configure(struct engine *engine, struct error *error)
{
	int err;

	sqlite3_extended_result_codes(engine->db, 1);
	sqlite3_busy_handler(engine->db, busy, engine);
	sqlite3_db_config(engine->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(engine->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(engine->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
	sqlite3_limit(engine->db, SQLITE_LIMIT_ATTACHED, 0);
	if (engine->read_only)
		return script(engine, "PRAGMA query_only = 1", error);
	err = script(engine, "PRAGMA journal_mode = WAL", error);
	if (!err)
		err = script(engine,
			     "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;"
			     "PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY",
			     error);
	return err;
}

static void sqlite_close(struct engine *engine)
{
	if (!engine)
		return;
	for (int i = 0; i < engine->n_stmts; i++)
		sqlite3_finalize(engine->stmts[i]);
	sqlite3_close(engine->db);
	free(engine->stmts);
	free(engine->path);
	free(engine);
}

static int sqlite_open(struct engine **ret, const char *uri, const struct engine_options *options,
		       struct error *error)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	int flags = SQLITE_OPEN_NOMUTEX, rc, err = 0;

	if (engine)
		engine->path = strdup(uri + strlen(engine_sqlite.scheme));
	if (!engine || !engine->path) {
		sqlite_close(engine);
		return error_set(error, ENOMEM, "store: no memory");
	}
	engine->read_only = options->read_only;
	engine->lock_timeout_ms = options->lock_timeout_ms;
	if (engine->path[0] != '/')
		err = error_set(error, EINVAL, "store %s: give an absolute path, sqlite:/DIR/FILE",
				uri);
	if (!err && !engine->read_only)
		err = make_file(engine, error);
	flags |= engine->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
	if (!err) {
		rc = sqlite3_open_v2(engine->path, &engine->db, flags, NULL);
		err = rc == SQLITE_OK ? configure(engine, error)
				      : fail(engine, rc, "cannot open", error);
	}
	if (err) {
		sqlite_close(engine);
		return err;
	}
	*ret = engine;
	return 0;
}

static int sqlite_reopen(struct engine *engine, struct error *error)
{
	return 0;
}

static int sqlite_begin(struct engine *engine, bool write, struct error *error)
{
	int rc = sqlite3_exec(engine->db, write ? "BEGIN IMMEDIATE" : "BEGIN", NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : fail(engine, rc, "cannot begin", error);
}

static int sqlite_lock(struct engine *engine, const int64_t *keys, unsigned int n,
		       struct error *error)
{
	return 0; /* BEGIN IMMEDIATE was that */
}

static int prepare(struct engine *engine, const struct engine_stmt *stmt, sqlite3_stmt **ret)
{
	int rc;

	if (stmt->id >= engine->n_stmts) {
		int n = stmt->id + 32;
		sqlite3_stmt **more = realloc(engine->stmts, (size_t)n * sizeof(*more));

		if (!more)
			return SQLITE_NOMEM;
		memset(more + engine->n_stmts, 0, (size_t)(n - engine->n_stmts) * sizeof(*more));
		engine->stmts = more;
		engine->n_stmts = n;
	}
	if (!engine->stmts[stmt->id]) {
		rc = sqlite3_prepare_v3(engine->db, stmt->sql, -1, SQLITE_PREPARE_PERSISTENT,
					&engine->stmts[stmt->id], NULL);
		if (rc != SQLITE_OK)
			return rc;
	}
	*ret = engine->stmts[stmt->id];
	return *ret ? SQLITE_OK : SQLITE_MISUSE; /* an empty text prepares to nothing */
}

static int bind(sqlite3_stmt *st, const struct engine_value *params, unsigned int n)
{
	int rc = SQLITE_OK;

	for (unsigned int i = 0; i < n && rc == SQLITE_OK; i++) {
		switch (params[i].kind) {
		case ENGINE_NULL:
			rc = sqlite3_bind_null(st, (int)i + 1);
			break;
		case ENGINE_INT:
			rc = sqlite3_bind_int64(st, (int)i + 1, params[i].number);
			break;
		case ENGINE_TEXT:
			rc = sqlite3_bind_text64(st, (int)i + 1, params[i].text, params[i].size,
						 SQLITE_STATIC, SQLITE_UTF8);
			break;
		}
	}
	return rc;
}

/* The value of one column; text is copied into the arena, or lent until the next step when there is none. */
static int column(sqlite3_stmt *st, int i, struct arena *arena, struct engine_value *ret)
{
	if (sqlite3_column_type(st, i) == SQLITE_NULL) {
		*ret = (struct engine_value){ .kind = ENGINE_NULL };
	} else if (sqlite3_column_type(st, i) == SQLITE_INTEGER) {
		*ret = ENGINE_NUMBER(sqlite3_column_int64(st, i));
	} else {
		const char *text = (const char *)sqlite3_column_text(st, i);

		if (!text)
			return SQLITE_NOMEM;
		ret->kind = ENGINE_TEXT;
		ret->size = (size_t)sqlite3_column_bytes(st, i);
		ret->text = arena ? arena_copy(arena, text, ret->size) : text;
		if (!ret->text)
			return SQLITE_NOMEM;
	}
	return SQLITE_OK;
}

static int read_row(sqlite3_stmt *st, struct arena *arena, struct arena *values,
		    struct engine_row *ret)
{
	int n = sqlite3_column_count(st), rc = SQLITE_OK;
	const char **names = arena_take(values, (size_t)n * sizeof(*names));
	struct engine_value *columns = arena_take(values, (size_t)n * sizeof(*columns));

	if (!names || !columns)
		return SQLITE_NOMEM;
	for (int i = 0; i < n && rc == SQLITE_OK; i++) {
		names[i] = arena_string(values, sqlite3_column_name(st, i));
		rc = names[i] ? column(st, i, arena, &columns[i]) : SQLITE_NOMEM;
	}
	*ret = (struct engine_row){ .n = (unsigned int)n, .names = names, .values = columns };
	return rc;
}

static int run_step(struct engine *engine, struct arena *arena, struct engine_step *step)
{
	sqlite3_stmt *st;
	int rc = prepare(engine, step->stmt, &st);

	step->n_rows = 0;
	step->changed = 0;
	if (rc != SQLITE_OK)
		return rc;
	rc = bind(st, step->params, step->n_params);
	while (rc == SQLITE_OK) {
		rc = sqlite3_step(st);
		if (rc != SQLITE_ROW)
			break;
		rc = step->n_rows++ == 0 ? read_row(st, arena, arena, &step->row) : SQLITE_OK;
	}
	if (rc == SQLITE_DONE) {
		rc = SQLITE_OK;
		if (sqlite3_column_count(st) > 0)
			step->changed = step->n_rows;
		else
			step->changed = sqlite3_changes64(engine->db);
	}
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
	if (rc == SQLITE_OK && step->changed_max && step->changed > step->changed_max)
		rc = SQLITE_ERROR;
	return rc;
}

/* Failures that are the statement's own, not the store's. */
static bool own_fault(int rc)
{
	int err = errno_of(rc);

	return err == -EBADMSG || err == -EDOM;
}

static int sqlite_run(struct engine *engine, struct arena *arena, struct engine_step *steps,
		      unsigned int n, bool guard, struct error *error)
{
	for (unsigned int i = 0; i < n; i++) {
		bool save = guard && steps[i].guarded;
		int rc = SQLITE_OK;

		if (save)
			rc = sqlite3_exec(engine->db, "SAVEPOINT step", NULL, NULL, NULL);
		if (rc == SQLITE_OK)
			rc = run_step(engine, arena, &steps[i]);
		steps[i].err = 0;
		if (save && own_fault(rc) && !sqlite3_get_autocommit(engine->db)) {
			steps[i].err = errno_of(rc);
			steps[i].fault =
				steps[i].changed_max && steps[i].changed > steps[i].changed_max
					? "changed more rows than one"
					: arena_string(arena, sqlite3_errmsg(engine->db));
			rc = sqlite3_exec(engine->db, "ROLLBACK TO step", NULL, NULL, NULL);
		}
		if (rc == SQLITE_OK && save)
			rc = sqlite3_exec(engine->db, "RELEASE step", NULL, NULL, NULL);
		if (rc != SQLITE_OK)
			return fail(engine, rc, "cannot run a statement", error);
	}
	return 0;
}

static int sqlite_each(struct engine *engine, const struct engine_stmt *stmt,
		       const struct engine_value *params, unsigned int n_params,
		       int (*fn)(const struct engine_row *row, void *data), void *data,
		       struct error *error)
{
	struct arena values = { 0 };
	sqlite3_stmt *st = NULL;
	int rc = prepare(engine, stmt, &st), ret = 0;

	if (rc == SQLITE_OK)
		rc = bind(st, params, n_params);
	while (rc == SQLITE_OK && ret == 0) {
		struct engine_row row;

		rc = sqlite3_step(st);
		if (rc != SQLITE_ROW)
			break;
		arena_reset(&values);
		rc = read_row(st, NULL, &values, &row);
		if (rc == SQLITE_OK)
			ret = fn(&row, data);
	}
	if (rc == SQLITE_DONE)
		rc = SQLITE_OK;
	if (rc != SQLITE_OK)
		ret = fail(engine, rc, "cannot read", error);
	if (st) {
		sqlite3_reset(st);
		sqlite3_clear_bindings(st);
	}
	arena_free(&values);
	return ret;
}

static int sqlite_commit(struct engine *engine, struct error *error)
{
	int rc = sqlite3_exec(engine->db, "COMMIT", NULL, NULL, NULL);

	if (rc == SQLITE_OK)
		return 0;
	/* A failed sync may have left the whole transaction in the log: what a restart finds cannot be told now. */
	if ((rc & 0xff) == SQLITE_IOERR) {
		fail(engine, rc, "cannot commit", error);
		return -ENOTCONN;
	}
	return fail(engine, rc, "cannot commit", error);
}

static void sqlite_rollback(struct engine *engine)
{
	if (engine->db && !sqlite3_get_autocommit(engine->db))
		sqlite3_exec(engine->db, "ROLLBACK", NULL, NULL, NULL);
}

static int sqlite_check(struct engine *engine, const struct engine_stmt *stmt, bool *ret_reads,
			struct error *error)
{
	sqlite3_stmt *st = NULL;
	const char *tail = NULL;
	int rc = sqlite3_prepare_v2(engine->db, stmt->sql, -1, &st, &tail);

	if (rc != SQLITE_OK)
		return error_set(error, EINVAL, "%s", sqlite3_errmsg(engine->db));
	*ret_reads = st && sqlite3_stmt_readonly(st) && sqlite3_column_count(st) > 0;
	sqlite3_finalize(st);
	if (!st)
		return error_set(error, EINVAL, "the statement is empty");
	while (tail && (*tail == ' ' || *tail == '\n' || *tail == '\t' || *tail == ';'))
		tail++;
	if (tail && *tail)
		return error_set(error, EINVAL, "more than one statement");
	return 0;
}

static void sqlite_forget(struct engine *engine, const struct engine_stmt *stmt)
{
	if (stmt->id < engine->n_stmts) {
		sqlite3_finalize(engine->stmts[stmt->id]);
		engine->stmts[stmt->id] = NULL;
	}
}

const struct engine_ops engine_sqlite = {
	.scheme = "sqlite:",
	.dialect = "sqlite",
	.marker = '?',
	.guard_is_free = true,
	.open = sqlite_open,
	.close = sqlite_close,
	.reopen = sqlite_reopen,
	.begin = sqlite_begin,
	.lock = sqlite_lock,
	.run = sqlite_run,
	.each = sqlite_each,
	.commit = sqlite_commit,
	.rollback = sqlite_rollback,
	.check = sqlite_check,
	.forget = sqlite_forget,
	.script = script,
};
