// SPDX-License-Identifier: Apache-2.0
/* See store.h. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <libpq-fe.h>
#include <openssl/sha.h>
#include <sqlite3.h>

#include "store.h"

static void die(const char *what, const char *why)
{
	fprintf(stderr, "store: %s: %s\n", what, why);
	abort();
}

static int pg_run(const struct store *store, const char *sql, int64_t *ret, bool quiet)
{
	PGconn *conn = PQconnectdb(store->uri);
	PGresult *result = PQexec(conn, sql);
	bool ok = PQresultStatus(result) == PGRES_COMMAND_OK ||
		  PQresultStatus(result) == PGRES_TUPLES_OK;

	if (!ok && !quiet)
		die(sql, PQerrorMessage(conn));
	*ret = INT64_MIN;
	if (ok && PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) &&
	    !PQgetisnull(result, 0, 0))
		*ret = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	PQclear(result);
	PQfinish(conn);
	return ok ? 0 : -1;
}

static int first_column(void *data, int n, char **values, char **names)
{
	int64_t *ret = data;

	if (*ret == INT64_MIN && values[0])
		*ret = strtoll(values[0], NULL, 10);
	return 0;
}

static int sqlite_run(const struct store *store, const char *sql, int64_t *ret, bool quiet)
{
	sqlite3 *db;
	int rc;

	*ret = INT64_MIN;
	rc = sqlite3_open(store->path, &db);
	if (rc == SQLITE_OK) {
		sqlite3_busy_timeout(db, 20000);
		rc = sqlite3_exec(db, sql, first_column, ret, NULL);
	}
	if (rc != SQLITE_OK && !quiet)
		die(sql, sqlite3_errmsg(db));
	sqlite3_close(db);
	return rc == SQLITE_OK ? 0 : -1;
}

static int run(const struct store *store, const char *sql, int64_t *ret, bool quiet)
{
	return (store->postgres ? pg_run : sqlite_run)(store, sql, ret, quiet);
}

int store_sql(const struct store *store, const char *sql, bool quiet)
{
	int64_t unused;

	return run(store, sql, &unused, quiet);
}

int64_t store_number(const struct store *store, const char *format, ...)
{
	char sql[2048];
	int64_t number;
	va_list args;

	va_start(args, format);
	vsnprintf(sql, sizeof(sql), format, args);
	va_end(args);
	run(store, sql, &number, false);
	return number;
}

bool store_make(struct store *store, bool postgres)
{
	const char *server = getenv("CORDON_TEST_PG");
	static int count;
	int64_t unused;
	char sql[128];

	*store = (struct store){ .postgres = postgres };
	if (postgres && !server)
		return false;
	/* In memory, unless it is durability that is tested. */
	snprintf(store->dir, sizeof(store->dir), "%s/cordon-ledger.XXXXXX",
		 getenv("CORDON_TEST_DIR") ? getenv("CORDON_TEST_DIR") : "/dev/shm");
	if (!mkdtemp(store->dir))
		die("mkdtemp", store->dir);
	snprintf(store->path, sizeof(store->path), "%s/ledger.db", store->dir);
	if (postgres) {
		snprintf(store->schema, sizeof(store->schema), "t%d_%d", getpid(), ++count);
		snprintf(store->uri, sizeof(store->uri), "%s", server);
		snprintf(sql, sizeof(sql), "CREATE SCHEMA %s", store->schema);
		pg_run(store, sql, &unused, false);
		snprintf(store->admin_uri, sizeof(store->admin_uri), "%s", server);
		snprintf(store->uri, sizeof(store->uri),
			 "%s&options=-csearch_path%%3D%s&application_name=%s", server,
			 store->schema, store->schema);
	} else {
		snprintf(store->uri, sizeof(store->uri), "sqlite:%s", store->path);
		store_sql(store, "PRAGMA journal_mode = WAL", false);
	}
	store_sql(store,
		  "CREATE TABLE orders (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, amount_paid "
		  "BIGINT "
		  "NOT NULL, refunded BIGINT NOT NULL DEFAULT 0, "
		  "CHECK (refunded <= amount_paid + 1000000))",
		  false);
	return true;
}

void store_remove(struct store *store)
{
	char command[256];
	int64_t unused;

	if (!*store->dir)
		return;
	if (store->postgres) {
		snprintf(command, sizeof(command), "DROP SCHEMA IF EXISTS %s CASCADE",
			 store->schema);
		pg_run(store, command, &unused, true);
	}
	snprintf(command, sizeof(command), "rm -rf '%s'", store->dir);
	if (system(command) != 0)
		fprintf(stderr, "store: cannot remove %s\n", store->dir);
	*store->dir = '\0';
}

void store_order(const struct store *store, const char *id, const char *tenant, int64_t paid)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "INSERT INTO orders (id, tenant, amount_paid) VALUES ('%s', '%s', %" PRId64 ")",
		 id, tenant, paid);
	store_sql(store, sql, false);
}

void store_cut(const struct store *store)
{
	struct store admin = *store;
	char sql[256];
	int64_t unused;

	snprintf(admin.uri, sizeof(admin.uri), "%s", store->admin_uri);
	snprintf(sql, sizeof(sql),
		 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
		 "'%s'",
		 store->schema);
	pg_run(&admin, sql, &unused, false);
}

static void log_line(const char *line, void *data)
{
	if (getenv("CORDON_TEST_LOG"))
		fprintf(stderr, "# %s\n", line);
}

struct ledger_options store_options(const struct store *store, const char *node)
{
	return (struct ledger_options){ .store = store->uri, .node = node, .log = log_line };
}

struct ledger *store_open(const struct store *store, const char *node)
{
	struct ledger_options options = store_options(store, node);
	struct error error = { 0 };
	struct ledger *ledger = NULL;

	if (ledger_open(&ledger, &options, &error) != 0)
		die("ledger_open", error.text);
	return ledger;
}

struct ledger_tool_spec refund_spec(enum ledger_executor executor, int64_t single, int64_t daily,
				    enum ledger_over over)
{
	return (struct ledger_tool_spec){
		.name = "refund",
		.has_object = true,
		.has_amount = true,
		.fact_sql = "SELECT tenant, amount_paid - refunded AS remaining FROM orders "
			    "WHERE id = :object",
		.executor = executor,
		.exec_sql = executor == LEDGER_EXECUTOR_SQL
				    ? "UPDATE orders SET refunded = refunded + :amount "
				      "WHERE id = :object AND tenant = :tenant "
				      "RETURNING refunded, amount_paid - refunded AS remaining"
				    : NULL,
		.limits = { .single = single, .daily = daily, .over = over },
	};
}

struct ledger_tool *refund_open(struct ledger *ledger, enum ledger_executor executor,
				int64_t single, int64_t daily, enum ledger_over over)
{
	struct ledger_tool_spec spec = refund_spec(executor, single, daily, over);
	struct error error = { 0 };
	struct ledger_tool *tool = NULL;

	if (ledger_tool_open(ledger, &spec, &tool, &error) != 0)
		die("ledger_tool_open", error.text);
	return tool;
}

void refund_digest(struct ledger_call *call)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "%s|%s|%" PRId64, call->stated_tenant, call->object,
			 call->amount);

	SHA256((const unsigned char *)text, (size_t)n, call->digest);
}

struct ledger_job refund_job(struct ledger_tool *tool, const char *key, const char *order,
			     int64_t amount)
{
	struct ledger_job job = {
		.verb = LEDGER_CALL,
		.call = { .fence = 7,
			  .tenant = "t-1",
			  .subject = "alice",
			  .task = "task-1",
			  .tool = tool,
			  .method = "POST",
			  .route = "/refund",
			  .scope = "refund:create",
			  .scope_granted = true,
			  .stated_tenant = "t-1",
			  .object = order,
			  .amount = amount,
			  .key = key },
	};

	refund_digest(&job.call);
	return job;
}

enum ledger_code refund(struct ledger *ledger, struct ledger_tool *tool, const char *key,
			const char *order, int64_t amount)
{
	struct ledger_job job = refund_job(tool, key, order, amount);

	ledger_run(ledger, &job);
	ledger_answer_clear(&job.answer);
	return job.answer.code;
}
