// SPDX-License-Identifier: Apache-2.0
/*
 * A process that submits calls until it is killed, and a checker that looks at what is left.
 *
 * usage: drive setup URI                     the tables of the test
 *        drive work URI NODE DIR SECONDS     eight threads; tools by both executors; what the "upstream" did goes to
 *                                            DIR/effects, what callers were told to DIR/told (appended, so that a kill
 *                                            loses nothing)
 *        drive count URI NODE N              N increments of one counter, by 16 threads
 *        drive check URI DIR NODES           recovers NODES nodes n0, n1, ... and checks; 1: something is wrong
 *        drive counted URI N                 checks that the counter is N
 *
 * Exit: 0 done, 1 a check failed, 2 usage. Prints what is wrong.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store.h"

#define KEYS 600
#define ORDERS 5
#define PAID 400
#define DAILY_SQL 900
#define DAILY_HTTP 250

static struct store store;
static struct ledger *ledger;
static struct ledger_tool *pay, *ship;
static int effects_fd, told_fd;

static void take_uri(const char *uri)
{
	snprintf(store.uri, sizeof(store.uri), "%s", uri);
	store.postgres = strncmp(uri, "postgresql:", 11) == 0;
	if (!store.postgres)
		snprintf(store.path, sizeof(store.path), "%s", uri + strlen("sqlite:"));
}

/* Two tools: pay changes the store, ship tells an upstream. */
static void open_tools(void)
{
	const struct ledger_tool_spec pay_spec = {
		.name = "pay",
		.has_object = true,
		.has_amount = true,
		.fact_sql = "SELECT tenant, amount_paid - (SELECT COALESCE(SUM(e.amount), 0) FROM "
			    "effects e WHERE e.order_id = orders.id) AS remaining FROM orders "
			    "WHERE id = :object",
		.executor = LEDGER_EXECUTOR_SQL,
		.exec_sql = "INSERT INTO effects (ikey, order_id, amount) VALUES (:key, :object, "
			    ":amount)",
		.limits = { .single = 100, .daily = DAILY_SQL, .over = LEDGER_OVER_REFUSE },
	};
	const struct ledger_tool_spec ship_spec = {
		.name = "ship",
		.has_object = true,
		.has_amount = true,
		.fact_sql =
			"SELECT tenant, amount_paid AS remaining FROM orders WHERE id = :object",
		.executor = LEDGER_EXECUTOR_HTTP,
		.limits = { .single = 100, .daily = DAILY_HTTP, .over = LEDGER_OVER_REFUSE },
	};
	struct error error = { 0 };

	if (ledger_tool_open(ledger, &pay_spec, &pay, &error) != 0 ||
	    ledger_tool_open(ledger, &ship_spec, &ship, &error) != 0) {
		fprintf(stderr, "drive: %s\n", error.text);
		exit(1);
	}
}

/* A server that was killed may take its time. */
static void open_ledger(const char *node)
{
	struct ledger_options options = store_options(&store, node);
	struct error error = { 0 };

	options.lock_timeout_ms = 20000;
	for (int tries = 0; tries < 100; tries++) {
		error.text[0] = '\0';
		if (ledger_open(&ledger, &options, &error) == 0)
			return;
		usleep(100000);
	}
	fprintf(stderr, "drive: %s\n", error.text);
	exit(1);
}

static int setup(void)
{
	char sql[160];

	if (!store.postgres)
		store_sql(&store, "PRAGMA journal_mode = WAL", false);
	store_sql(&store,
		  "CREATE TABLE orders (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, amount_paid "
		  "BIGINT "
		  "NOT NULL, refunded BIGINT NOT NULL DEFAULT 0);"
		  "CREATE TABLE effects (ikey TEXT NOT NULL, order_id TEXT NOT NULL, amount BIGINT "
		  "NOT NULL);"
		  "CREATE INDEX effects_order ON effects (order_id)",
		  false);
	for (int i = 0; i < ORDERS; i++) {
		snprintf(sql, sizeof(sql),
			 "INSERT INTO orders (id, tenant, amount_paid) VALUES ('o%d', 't-1', %d)",
			 i, PAID);
		store_sql(&store, sql, false);
	}
	return 0;
}

static int open_log(const char *dir, const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

static void append(int fd, const char *key)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%s\n", key);

	if (write(fd, line, (size_t)n) != n)
		abort();
}

static void ship_it(struct ledger_job *job, unsigned int *random)
{
	struct ledger_job step = { .verb = LEDGER_START, .id = job->answer.call };
	unsigned int luck = (unsigned int)rand_r(random) % 8;

	if (!job->call.start) {
		ledger_run(ledger, &step);
		if (step.answer.code != LEDGER_OK) {
			/* Nothing left. */
			step = (struct ledger_job){ .verb = LEDGER_FINISH,
						    .id = job->answer.call,
						    .outcome = LEDGER_STATE_FAILED };
			ledger_run(ledger, &step);
			return;
		}
	}
	if (luck)
		append(effects_fd, job->call.key);
	usleep((unsigned int)rand_r(random) % 3000);
	step = (struct ledger_job){ .verb = LEDGER_FINISH,
				    .id = job->answer.call,
				    .outcome = luck == 0   ? LEDGER_STATE_FAILED
					       : luck == 1 ? LEDGER_STATE_AMBIGUOUS
							   : LEDGER_STATE_DONE };
	do {
		ledger_run(ledger, &step);
		if (step.answer.code == LEDGER_UNAVAILABLE ||
		    step.answer.code == LEDGER_COMMIT_UNKNOWN)
			usleep(20000);
	} while (step.answer.code == LEDGER_UNAVAILABLE ||
		 step.answer.code == LEDGER_COMMIT_UNKNOWN);
	if (step.answer.code == LEDGER_OK && step.outcome == LEDGER_STATE_DONE)
		append(told_fd, job->call.key);
}

/* What belongs to a key is always the same, so that a repeat is one. */
static struct ledger_job job_of(int number, char key[32], char order[32])
{
	bool http = number % 2;
	struct ledger_job job;

	snprintf(key, 32, "%s%d", http ? "s" : "p", number);
	snprintf(order, 32, "o%d", number % ORDERS);
	job = refund_job(http ? ship : pay, key, order, http ? 1 : 1 + number % 7);
	job.call.start = number % 4 == 1;
	return job;
}

static void *work(void *data)
{
	unsigned int random = (unsigned int)(uintptr_t)data ^ (unsigned int)getpid() << 8 ^
			      (unsigned int)time(NULL);

	for (;;) {
		char key[32], order[32];
		struct ledger_job job = job_of(rand_r(&random) % KEYS, key, order);

		ledger_run(ledger, &job);
		if (job.answer.code == LEDGER_EXECUTE)
			ship_it(&job, &random);
		else if (job.answer.code == LEDGER_OK || job.answer.code == LEDGER_DUPLICATE)
			append(told_fd, key);
		else if (job.answer.code == LEDGER_UNAVAILABLE)
			usleep(2000);
		ledger_answer_clear(&job.answer);
	}
	return NULL;
}

static struct ledger_tool *counter_tool(void)
{
	const struct ledger_tool_spec spec = {
		.name = "count",
		.has_object = true,
		.has_amount = true,
		.fact_sql = "SELECT tenant, 1000000 AS remaining FROM orders WHERE id = :object",
		.executor = LEDGER_EXECUTOR_SQL,
		.exec_sql = "UPDATE orders SET refunded = refunded + :amount WHERE id = :object",
		.limits = { .single = 1, .daily = LEDGER_NO_LIMIT, .over = LEDGER_OVER_REFUSE },
	};
	struct ledger_tool *tool = NULL;
	struct error error = { 0 };

	if (ledger_tool_open(ledger, &spec, &tool, &error) != 0) {
		fprintf(stderr, "drive: %s\n", error.text);
		exit(1);
	}
	return tool;
}

static struct {
	struct ledger_tool *tool;
	const char *node;
	atomic_int left, ok;
} counting;

static void *count(void *data)
{
	int i;

	while ((i = atomic_fetch_sub(&counting.left, 1)) > 0) {
		enum ledger_code code;
		char key[64], order[8];

		snprintf(key, sizeof(key), "%s-%d", counting.node, i);
		snprintf(order, sizeof(order), "o%d", i % ORDERS);
		do
			code = refund(ledger, counting.tool, key, order, 1);
		while (code == LEDGER_UNAVAILABLE || code == LEDGER_COMMIT_UNKNOWN);
		atomic_fetch_add(&counting.ok, code == LEDGER_OK || code == LEDGER_DUPLICATE);
	}
	return NULL;
}

static int run_count(const char *node, int n)
{
	pthread_t threads[16];

	open_ledger(node);
	counting.tool = counter_tool();
	counting.node = node;
	atomic_store(&counting.left, n);
	for (int i = 0; i < 16; i++)
		pthread_create(&threads[i], NULL, count, NULL);
	for (int i = 0; i < 16; i++)
		pthread_join(threads[i], NULL);
	ledger_tool_close(counting.tool);
	ledger_close(ledger);
	return atomic_load(&counting.ok) == n ? 0 : 1;
}

/* --- checking ---------------------------------------------------------------------------------------------------- */

static int wrong;

static void expect(bool holds, const char *what)
{
	if (!holds) {
		printf("not ok - %s\n", what);
		wrong++;
	}
}

static void read_log(const char *dir, const char *name, int seen[2][KEYS])
{
	char path[256], kind;
	FILE *file;
	int number;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "re");
	while (file && fscanf(file, " %c%d", &kind, &number) == 2)
		if (number >= 0 && number < KEYS)
			seen[kind == 's'][number]++;
	if (file)
		fclose(file);
}

static int64_t in_state(const char *key, const char *state)
{
	return store_number(&store, "SELECT COUNT(*) FROM calls WHERE ikey = '%s' AND state = '%s'",
			    key, state);
}

static int settle(const struct ledger_call_row *row, void *data)
{
	int(*upstream)[KEYS] = data;
	struct ledger_job job = { .verb = LEDGER_SETTLE,
				  .id = row->id,
				  .by = "ops",
				  .reason = "looked it up",
				  .outcome = upstream[1][atoi(row->key + 1)]
						     ? LEDGER_STATE_DONE
						     : LEDGER_STATE_FAILED };

	ledger_run(ledger, &job);
	expect(job.answer.code == LEDGER_OK, "an ambiguous call can be settled");
	return 0;
}

/* Each key: at most one effect, whoever was told so had it, and no key is stuck. */
static void check_keys(int upstream[2][KEYS], int told[2][KEYS])
{
	int stuck = 0, twice = 0, lost = 0, lied = 0;

	for (int i = 0; i < KEYS; i++) {
		char key[32], order[32];
		struct ledger_job job = job_of(i, key, order);
		int http = i % 2;
		int64_t effects =
			http ? upstream[1][i]
			     : store_number(&store,
					    "SELECT COUNT(*) FROM effects WHERE ikey = '%s'", key);

		twice += effects > 1;
		lost += told[http][i] && effects != 1;
		lied += effects != in_state(key, "done");
		ledger_run(ledger, &job);
		stuck += job.answer.code == LEDGER_KEY_IN_FLIGHT ||
			 job.answer.code == LEDGER_OUTCOME_AMBIGUOUS ||
			 job.answer.code == LEDGER_UNAVAILABLE;
		/* A new effect may be allowed now; it is given back, for the next key's sake. */
		if (job.answer.code == LEDGER_EXECUTE) {
			struct ledger_job back = { .verb = LEDGER_FINISH,
						   .id = job.answer.call,
						   .outcome = LEDGER_STATE_FAILED };

			ledger_run(ledger, &back);
		}
		ledger_answer_clear(&job.answer);
	}
	printf("# %d twice, %d lost, %d lied, %d stuck\n", twice, lost, lied, stuck);
	expect(twice == 0, "each key has at most one effect");
	expect(lost == 0, "who was told ok has its effect");
	expect(lied == 0, "done means one effect, and an effect means done");
	expect(stuck == 0, "no key is stuck");
}

static void check_books(void)
{
	struct ledger_verdict verdict;
	struct error error = { 0 };

	expect(store_number(
		       &store,
		       "SELECT COUNT(*) FROM calls WHERE state IN ('reserved', 'executing')") == 0,
	       "nothing is left running");
	expect(store_number(&store, "SELECT COALESCE(SUM(used), 0) FROM usage") ==
		       store_number(
			       &store,
			       "SELECT COALESCE(SUM(amount), 0) FROM calls WHERE state = 'done'"),
	       "the quota is the sum of what was done");
	expect(store_number(&store, "SELECT COALESCE(SUM(amount), 0) FROM effects") <= DAILY_SQL,
	       "the daily limit of pay holds");
	expect(store_number(&store,
			    "SELECT COUNT(*) FROM calls WHERE tool = 'ship' AND state = 'done'") <=
		       DAILY_HTTP,
	       "the daily limit of ship holds");
	expect(store_number(&store,
			    "SELECT COUNT(*) FROM orders o WHERE amount_paid < (SELECT "
			    "COALESCE(SUM(amount), 0) FROM effects e WHERE e.order_id = o.id)") ==
		       0,
	       "no order is overdrawn");
	expect(ledger_verify(ledger, &verdict, &error) == 0, "the chains are whole");
	printf("# %" PRIu64 " records, %" PRId64 " effects of pay, %" PRId64 " of ship %s\n",
	       verdict.records, store_number(&store, "SELECT COUNT(*) FROM effects"),
	       store_number(&store,
			    "SELECT COUNT(*) FROM calls WHERE tool = 'ship' AND state = 'done'"),
	       error.text);
}

static int check(const char *dir, int nodes)
{
	static int upstream[2][KEYS], told[2][KEYS];
	const struct ledger_filter ambiguous = { .state = LEDGER_STATE_AMBIGUOUS, .limit = 100000 };
	char node[16];

	for (int i = 0; i < nodes; i++) {
		snprintf(node, sizeof(node), "n%d", i);
		open_ledger(node);
		if (i < nodes - 1)
			ledger_close(ledger);
	}
	open_tools();
	read_log(dir, "effects", upstream);
	read_log(dir, "told", told);
	expect(ledger_list_calls(ledger, &ambiguous, settle, upstream, NULL) == 0,
	       "calls can be listed");
	check_books();
	check_keys(upstream, told);
	check_books();
	ledger_tool_close(pay);
	ledger_tool_close(ship);
	ledger_close(ledger);
	return wrong ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	take_uri(argv[2]);
	if (strcmp(argv[1], "setup") == 0)
		return setup();
	if (strcmp(argv[1], "count") == 0 && argc == 5)
		return run_count(argv[3], atoi(argv[4]));
	if (strcmp(argv[1], "counted") == 0 && argc == 4) {
		int64_t sum = store_number(&store, "SELECT SUM(refunded) FROM orders");
		int64_t used =
			store_number(&store, "SELECT SUM(used) FROM usage WHERE tool = 'count'");

		printf("# counted %" PRId64 ", quota %" PRId64 "\n", sum, used);
		return sum == atoi(argv[3]) && used == sum ? 0 : 1;
	}
	if (strcmp(argv[1], "check") == 0 && argc == 5)
		return check(argv[3], atoi(argv[4]));
	if (strcmp(argv[1], "work") == 0 && argc == 6) {
		effects_fd = open_log(argv[4], "effects");
		told_fd = open_log(argv[4], "told");
		open_ledger(argv[3]);
		open_tools();
		for (uintptr_t i = 0; i < 8; i++) {
			pthread_t thread;

			pthread_create(&thread, NULL, work, (void *)i);
		}
		sleep((unsigned int)atoi(argv[5]));
		_exit(0);
	}
	return 2;
}
