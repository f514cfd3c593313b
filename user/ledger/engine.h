/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger needs of a database, and no more: a connection that runs steps inside transactions. The domain lives
 * above, once, in SQL that both engines understand; an engine knows no table. (The other cut, one function of the
 * engine for each step of a call, would have every rule twice, and the second copy is the one that is wrong.)
 *
 * One connection belongs to one thread at a time. Errors, all of them negative errno:
 *   -EAGAIN    another transaction was in the way; roll back and try again
 *   -ENOTCONN  the connection is lost; of a commit: its outcome is not known
 *   -EBADMSG   the statement is at fault (only guarded steps report it for themselves, in step->err)
 *   -ENOSPC, -EIO, -EROFS, -ENOMEM ...  the store cannot be written
 * After any of them from run(), the transaction is only good for rollback().
 */
#ifndef CORDON_LEDGER_ENGINE_H
#define CORDON_LEDGER_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/arena.h"
#include "util/util.h"

struct engine;

enum engine_kind { ENGINE_NULL, ENGINE_INT, ENGINE_TEXT };

struct engine_value {
	enum engine_kind kind;
	int64_t number;
	const char *text; /* NUL-terminated; of numbers NULL */
	size_t size;
};

#define ENGINE_NUMBER(n) ((struct engine_value){ .kind = ENGINE_INT, .number = (n) })
struct engine_value engine_text(const char *text); /* NULL becomes "" */

/*
 * A statement, prepared on first use. Placeholders ?1, ?2, ...; ours contain no other question mark. foreign: the text
 * is the operator's and already has the engine's own placeholders.
 */
struct engine_stmt {
	const char *sql;
	int id; /* unique in the process; small */
	bool foreign;
	/*
	 * The same for many sets of values at once, for an engine where a statement costs more than a row: one array for
	 * each placeholder. Rows that it returns begin with the number (from 1) of the set that they belong to; without
	 * rows it has to change one row for each set. Such steps of one run() must not depend on each other's order. NULL, or
	 * points to NULL: there is none.
	 */
	const char *const *many;
};

struct engine_row {
	unsigned int n;
	const char *const *names;
	const struct engine_value *values;
};

struct engine_step {
	const struct engine_stmt *stmt;
	const struct engine_value *params;
	unsigned int n_params;
	bool guarded; /* the operator's text: when it fails, it fails alone (with guard below) */
	int64_t changed_max; /* more rows changed than that is a failure; 0: any number is fine */
	/* out */
	int err; /* guarded: -EBADMSG, or -EDOM when a value does not fit its type or range */
	const char *fault; /* then: the database's words, for the operator */
	unsigned int n_rows;
	int64_t changed;       /* rows changed; for statements that return rows, rows returned */
	struct engine_row row; /* the first row, in the arena */
};

struct engine_options {
	bool read_only;
	unsigned int lock_timeout_ms;
};

struct engine_ops {
	const char *scheme;  /* what a URI begins with */
	const char *dialect; /* for schema.c: "sqlite" or "postgresql" */
	char marker;	     /* before the number of a placeholder */
	/*
	 * Whether guarding costs nothing, so that guarded steps may always be run guarded. Where not, the ledger runs a
	 * batch unguarded and, if a guarded step fails, once more with guard.
	 */
	bool guard_is_free;

	int (*open)(struct engine **ret, const char *uri, const struct engine_options *options,
		    struct error *error);
	void (*close)(struct engine *engine); /* NULL is fine */
	/* Connects again, where that is a thing; statements are prepared anew. */
	int (*reopen)(struct engine *engine, struct error *error);
	/* Begins a transaction; one that writes excludes all others (SQLite) or those with the same locks (below). */
	int (*begin)(struct engine *engine, bool write, struct error *error);
	/* Waits for the locks, in this order; they are held to the end of the transaction. */
	int (*lock)(struct engine *engine, const int64_t *keys, unsigned int n,
		    struct error *error);
	/*
	 * Runs all steps in order, in as few round trips as the engine can. guard: a guarded step that fails is undone
	 * alone, its err says so and the others go on; without it the failure of any step is that of run().
	 */
	int (*run)(struct engine *engine, struct arena *arena, struct engine_step *steps,
		   unsigned int n, bool guard, struct error *error);
	/* Every row of one statement to fn, until that returns other than 0, which is passed on. Outside run(). */
	int (*each)(struct engine *engine, const struct engine_stmt *stmt,
		    const struct engine_value *params, unsigned int n_params,
		    int (*fn)(const struct engine_row *row, void *data), void *data,
		    struct error *error);
	int (*commit)(struct engine *engine, struct error *error);
	/*
	 * The last steps and the commit in one round trip, or NULL. When a step fails nothing is committed. -EAGAIN: a step
	 * that has to hit a row hit none. -ENOTCONN: as of commit().
	 */
	int (*run_commit)(struct engine *engine, struct arena *arena, struct engine_step *steps,
			  unsigned int n, struct error *error);
	void (*rollback)(struct engine *engine); /* fine without a transaction */
	/* Whether the statement can be prepared here, and whether it only reads (true where that cannot be told). */
	int (*check)(struct engine *engine, const struct engine_stmt *stmt, bool *ret_reads,
		     struct error *error);
	/* Drops what is kept for a statement. */
	void (*forget)(struct engine *engine, const struct engine_stmt *stmt);
	/* Several statements without parameters or rows; for the schema. In the transaction that is open. */
	int (*script)(struct engine *engine, const char *sql, struct error *error);
};

extern const struct engine_ops engine_sqlite;
extern const struct engine_ops engine_postgres;

/* The engine whose scheme the URI has; NULL: none. */
const struct engine_ops *engine_of(const char *uri);

#endif
