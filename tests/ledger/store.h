/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the ledger share: a store of either engine with an orders table, SQL to look at it from the side, and
 * the refund tool of the worked example. PostgreSQL: the server that CORDON_TEST_PG names (tests/ledger/run starts it);
 * each store is a schema of its own.
 */
#ifndef CORDON_TEST_STORE_H
#define CORDON_TEST_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/ledger.h"

struct store {
	bool postgres;
	char uri[640];
	char dir[64]; /* a directory of its own, for either engine */
	char path[128];
	char admin_uri[512];
	char schema[32];
};

/* False: no such engine here (no server). */
bool store_make(struct store *store, bool postgres);
void store_remove(struct store *store);
/* Runs statements from the side; ends the test when they fail, unless quiet. */
int store_sql(const struct store *store, const char *sql, bool quiet);
/* First column of the first row; INT64_MIN: no row. printf-like. */
int64_t store_number(const struct store *store, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* An order. */
void store_order(const struct store *store, const char *id, const char *tenant, int64_t paid);
/* Ends every connection of the ledger to the store (PostgreSQL). */
void store_cut(const struct store *store);

/* Options for a store; node, the rest by default. */
struct ledger_options store_options(const struct store *store, const char *node);
struct ledger *store_open(const struct store *store, const char *node);

/* refund: single, daily as given, over; executor. */
struct ledger_tool_spec refund_spec(enum ledger_executor executor, int64_t single, int64_t daily,
				    enum ledger_over over);
struct ledger_tool *refund_open(struct ledger *ledger, enum ledger_executor executor,
				int64_t single, int64_t daily, enum ledger_over over);
/* A call of tenant t-1, subject alice, task task-1, fence 7; the digest is made of tenant, object and amount. */
struct ledger_job refund_job(struct ledger_tool *tool, const char *key, const char *order,
			     int64_t amount);
void refund_digest(struct ledger_call *call);
/* Runs it, drops the result, gives the code. */
enum ledger_code refund(struct ledger *ledger, struct ledger_tool *tool, const char *key,
			const char *order, int64_t amount);

#endif
