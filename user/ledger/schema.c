// SPDX-License-Identifier: Apache-2.0
/*
 * The tables, by version. A version is a script that runs once, in a transaction; scripts that were shipped are never
 * changed, a new one is added. Words in @ are the engine's own. A store of a newer version is refused: an old program
 * does not know what it would break.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/sql.h"

#define X(enum_id, text) [SQL_##enum_id] = (text),
static const char *const many[SQL_N] = { LEDGER_SQL_MANY(X) };
#undef X

const struct engine_stmt ledger_sql[SQL_N] = {
#define X(enum_id, text) \
	[SQL_##enum_id] = { .sql = (text), .id = SQL_##enum_id, .many = &many[SQL_##enum_id] },
	LEDGER_SQL(X)
#undef X
};

/* Locks everybody else out of the migration, for PostgreSQL; any number does that nobody else has. */
#define SCHEMA_LOCK INT64_C(0x636f72646f6e6c31)

static const char *const versions[] = {
	/* 1 */
	/* One row a gateway: its number, its life (epoch), when it was last heard of, and the head of its chain. */
	"CREATE TABLE gateways (node TEXT PRIMARY KEY, num BIGINT NOT NULL UNIQUE,"
	" epoch BIGINT NOT NULL, beat_ns BIGINT NOT NULL, last_call BIGINT NOT NULL,"
	" seq BIGINT NOT NULL, hash TEXT NOT NULL);"
	"CREATE TABLE calls (id @ID@ PRIMARY KEY, tenant TEXT NOT NULL, subject TEXT NOT NULL,"
	" tool TEXT NOT NULL, ikey TEXT NOT NULL, digest TEXT NOT NULL, state TEXT NOT NULL,"
	" code TEXT NOT NULL, fence BIGINT NOT NULL, task TEXT NOT NULL, grant_id TEXT NOT NULL,"
	" scope TEXT NOT NULL, object TEXT NOT NULL, amount BIGINT NOT NULL, day BIGINT NOT NULL,"
	" quota TEXT NOT NULL, node TEXT NOT NULL, approval TEXT NOT NULL, result TEXT NOT NULL,"
	" created_ns BIGINT NOT NULL, updated_ns BIGINT NOT NULL,"
	" UNIQUE (tenant, subject, tool, ikey));"
	"CREATE INDEX calls_created ON calls (created_ns);"
	"CREATE INDEX calls_holding ON calls (tenant, tool, object)"
	" WHERE state IN " HOLDING_STATES ";"
	"CREATE INDEX calls_running ON calls (node) WHERE state IN " RUNNING_STATES ";"
	/* used: sum of the amounts of calls whose state counts. subject is '' unless the tool counts per subject. */
	"CREATE TABLE usage (tenant TEXT NOT NULL, tool TEXT NOT NULL, subject TEXT NOT NULL,"
	" day BIGINT NOT NULL, used BIGINT NOT NULL, PRIMARY KEY (tenant, tool, subject, "
	"day))@CLUSTERED@;"
	"CREATE TABLE approvals (id TEXT PRIMARY KEY, call_id BIGINT NOT NULL, digest TEXT NOT "
	"NULL,"
	" state TEXT NOT NULL, decided_by TEXT NOT NULL, reason TEXT NOT NULL,"
	" created_ns BIGINT NOT NULL, expires_ns BIGINT NOT NULL, decided_ns BIGINT NOT NULL,"
	" request TEXT NOT NULL, params TEXT NOT NULL);"
	"CREATE INDEX approvals_pending ON approvals (expires_ns) WHERE state = 'pending';"
	"CREATE TABLE grants (id TEXT PRIMARY KEY, fence BIGINT NOT NULL, tenant TEXT NOT NULL,"
	" subject TEXT NOT NULL, task TEXT NOT NULL, scope TEXT NOT NULL, tool TEXT NOT NULL,"
	" object TEXT NOT NULL, amount_max BIGINT NOT NULL, uses_max BIGINT NOT NULL,"
	" issued_ns BIGINT NOT NULL, expires_ns BIGINT NOT NULL, revoked_ns BIGINT NOT NULL,"
	" amount_used BIGINT NOT NULL, uses_used BIGINT NOT NULL);"
	"CREATE INDEX grants_task ON grants (task);"
	"CREATE INDEX grants_subject ON grants (subject);"
	"CREATE INDEX grants_fence ON grants (fence);"
	"CREATE TABLE records (node TEXT NOT NULL, seq BIGINT NOT NULL, time_ns BIGINT NOT NULL,"
	" task TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (node, "
	"seq))@CLUSTERED@;"
	"CREATE INDEX records_task ON records (task, time_ns);",
};

static int replace(struct text *text, const char *sql, bool sqlite)
{
	static const struct {
		const char *word, *sqlite, *other;
	} words[] = {
		{ "@ID@", "INTEGER", "BIGINT" },
		{ "@CLUSTERED@", " WITHOUT ROWID", "" },
	};

	for (const char *at; *sql; sql = at) {
		at = strchrnul(sql, '@');
		text_add(text, sql, (size_t)(at - sql));
		for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
			if (strncmp(at, words[i].word, strlen(words[i].word)) == 0) {
				text_puts(text, sqlite ? words[i].sqlite : words[i].other);
				at += strlen(words[i].word);
				break;
			}
		}
	}
	return text->failed ? -ENOMEM : 0;
}

static int read_version(const struct engine_ops *ops, struct engine *engine, struct arena *arena,
			long *ret, struct error *error)
{
	struct engine_value name = engine_text("schema");
	struct engine_step step = {
		.stmt = &ledger_sql[SQL_META_READ],
		.params = &name,
		.n_params = 1,
	};
	int err = ops->script(engine,
			      "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY,"
			      " val TEXT NOT NULL)",
			      error);

	if (!err)
		err = ops->run(engine, arena, &step, 1, false, error);
	if (!err)
		*ret = step.n_rows && step.row.values[0].text
			       ? strtol(step.row.values[0].text, NULL, 10)
			       : 0;
	return err;
}

int schema_prepare(const struct engine_ops *ops, struct engine *engine, struct error *error)
{
	const int64_t lock = SCHEMA_LOCK;
	struct arena arena = { 0 };
	long version = 0;
	int err = ops->lock(engine, &lock, 1, error);

	if (!err)
		err = read_version(ops, engine, &arena, &version, error);
	if (!err && version > (long)ARRAY_SIZE(versions))
		err = error_set(error, EPROTO,
				"the store has schema %ld, this program knows up to %zu; use the "
				"program that made it, or a newer one",
				version, ARRAY_SIZE(versions));
	for (; !err && version < (long)ARRAY_SIZE(versions); version++) {
		struct text text = { .arena = &arena };

		replace(&text, versions[version], strcmp(ops->dialect, "sqlite") == 0);
		text_puts(&text, "INSERT INTO meta (name, val) VALUES ('schema', '");
		text_number(&text, version + 1);
		text_puts(&text, "') ON CONFLICT (name) DO UPDATE SET val = excluded.val;");
		err = text.failed ? error_set(error, ENOMEM, "store: no memory")
				  : ops->script(engine, text.data, error);
	}
	arena_free(&arena);
	return err;
}
