// SPDX-License-Identifier: Apache-2.0
/*
 * How many refunds a second the ledger decides and makes durable, beside bare durable transactions (one row inserted
 * each) on the same engine, the same disk, in the same run. On SQLite bare means one connection that does nothing else,
 * because more of them only stand in each other's way; on PostgreSQL as many connections as there are submitters.
 *
 * usage: bench NAME URI SECONDS       prints one JSON object; tests/bench/ledger puts them together
 */

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <libpq-fe.h>
#include <sqlite3.h>

#include "store.h"

#define ORDERS 1000
#define SAMPLES (1 << 20)

static struct store store;
static struct ledger *ledger;
static struct ledger_tool *tool;
static atomic_bool stop;
static atomic_uint done, next_key, n_samples;
static uint32_t samples_us[SAMPLES];

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sample(int64_t began_ns)
{
	unsigned int i = atomic_fetch_add(&n_samples, 1);

	if (i < SAMPLES)
		samples_us[i] = (uint32_t)((now_ns() - began_ns) / 1000);
	atomic_fetch_add(&done, 1);
}

static void *bare_sqlite(void *data)
{
	sqlite3_stmt *insert;
	sqlite3 *db;

	sqlite3_open(store.path, &db);
	sqlite3_busy_timeout(db, 20000);
	sqlite3_exec(db, "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000", NULL, NULL,
		     NULL);
	sqlite3_prepare_v2(db, "INSERT INTO bare (n) VALUES (?)", -1, &insert, NULL);
	while (!atomic_load(&stop)) {
		int64_t began = now_ns();

		sqlite3_bind_int64(insert, 1, began);
		if (sqlite3_step(insert) != SQLITE_DONE)
			abort();
		sqlite3_reset(insert);
		sample(began);
	}
	sqlite3_finalize(insert);
	sqlite3_close(db);
	return NULL;
}

static void *bare_postgres(void *data)
{
	PGconn *conn = PQconnectdb(store.uri);
	PGresult *result = PQprepare(conn, "i", "INSERT INTO bare (n) VALUES ($1)", 0, NULL);

	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		abort();
	PQclear(result);
	while (!atomic_load(&stop)) {
		const char *values[] = { "1" };
		int64_t began = now_ns();

		result = PQexecPrepared(conn, "i", 1, values, NULL, NULL, 0);
		if (PQresultStatus(result) != PGRES_COMMAND_OK)
			abort();
		PQclear(result);
		sample(began);
	}
	PQfinish(conn);
	return NULL;
}

static void *submit(void *data)
{
	while (!atomic_load(&stop)) {
		unsigned int i = atomic_fetch_add(&next_key, 1);
		int64_t began = now_ns();
		char key[32], order[32];

		snprintf(key, sizeof(key), "k%u", i);
		snprintf(order, sizeof(order), "o%u", i % ORDERS);
		if (refund(ledger, tool, key, order, 1) != LEDGER_OK)
			abort();
		sample(began);
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	return (*(const uint32_t *)a > *(const uint32_t *)b) -
	       (*(const uint32_t *)a < *(const uint32_t *)b);
}

struct figure {
	double rate;
	uint32_t p50_us, p99_us;
};

static struct figure measure(void *(*fn)(void *), unsigned int threads, double seconds)
{
	pthread_t ids[64];
	struct figure figure;
	unsigned int n;
	int64_t began;

	atomic_store(&stop, false);
	for (unsigned int i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, fn, NULL);
	usleep(200000); /* until all are there */
	atomic_store(&done, 0);
	atomic_store(&n_samples, 0);
	began = now_ns();
	usleep((unsigned int)(seconds * 1e6));
	n = atomic_load(&done);
	figure.rate = n / ((double)(now_ns() - began) / 1e9);
	atomic_store(&stop, true);
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	if (n > SAMPLES)
		n = SAMPLES;
	qsort(samples_us, n, sizeof(*samples_us), compare);
	figure.p50_us = n ? samples_us[n / 2] : 0;
	figure.p99_us = n ? samples_us[n - 1 - n / 100] : 0;
	return figure;
}

/* Bare, ledger, bare, ledger: what else the machine does meets both. */
static void row(unsigned int threads, double seconds, bool last)
{
	struct figure bare[2], whole[2];
	double ratio;

	for (int i = 0; i < 2; i++) {
		bare[i] = store.postgres ? measure(bare_postgres, threads, seconds / 2)
					 : measure(bare_sqlite, 1, seconds / 2);
		whole[i] = measure(submit, threads, seconds / 2);
	}
	ratio = (whole[0].rate + whole[1].rate) / (bare[0].rate + bare[1].rate);
	printf("  {\"submitters\": %u, \"bare_per_s\": %.0f, \"refunds_per_s\": %.0f, \"ratio\": "
	       "%.2f, "
	       "\"p50_us\": %u, \"p99_us\": %u}%s\n",
	       threads, (bare[0].rate + bare[1].rate) / 2, (whole[0].rate + whole[1].rate) / 2,
	       ratio, whole[1].p50_us, whole[1].p99_us, last ? "" : ",");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	double seconds = argc == 4 ? atof(argv[3]) : 0;
	struct ledger_options options;
	struct error error = { 0 };
	char sql[320];

	if (argc != 4 || seconds <= 0)
		return 2;
	snprintf(store.uri, sizeof(store.uri), "%s", argv[2]);
	store.postgres = strncmp(argv[2], "postgresql:", 11) == 0;
	if (!store.postgres)
		snprintf(store.path, sizeof(store.path), "%s", argv[2] + strlen("sqlite:"));
	options = store_options(&store, "bench");
	if (ledger_open(&ledger, &options, &error) != 0) {
		fprintf(stderr, "bench: %s\n", error.text);
		return 1;
	}
	store_sql(&store, "CREATE TABLE bare (n BIGINT NOT NULL)", false);
	store_sql(&store,
		  "CREATE TABLE orders (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, amount_paid "
		  "BIGINT "
		  "NOT NULL, refunded BIGINT NOT NULL DEFAULT 0)",
		  false);
	snprintf(sql, sizeof(sql),
		 "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
		 "INSERT INTO "
		 "orders (id, tenant, amount_paid) SELECT 'o' || i, 't-1', 1000000000 FROM n",
		 ORDERS - 1);
	store_sql(&store, sql, false);
	tool = refund_open(ledger, LEDGER_EXECUTOR_SQL, 100, LEDGER_NO_LIMIT, LEDGER_OVER_REFUSE);
	printf(" \"%s\": [\n", argv[1]);
	row(1, seconds, false);
	row(16, seconds, false);
	row(64, seconds, true);
	printf(" ]");
	ledger_tool_close(tool);
	ledger_close(ledger);
	return 0;
}
