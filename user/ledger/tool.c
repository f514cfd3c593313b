// SPDX-License-Identifier: Apache-2.0
/*
 * Tools as the ledger knows them: limits and compiled SQL. A tool lives until its opener gave it back and no job holds it;
 * then the writer, who owns the prepared statements, frees it.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ledger/internal.h"

static size_t list_length(const char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

static char **list_copy(const char *const *list)
{
	size_t n = list_length(list);
	char **copy = calloc(n + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(list[i]);
		if (!copy[i]) {
			for (size_t k = 0; k < i; k++)
				free(copy[k]);
			free(copy);
			return NULL;
		}
	}
	return copy;
}

static void list_free(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

static void tool_free(struct ledger_tool *tool)
{
	if (!tool)
		return;
	sqltext_free(&tool->fact);
	sqltext_free(&tool->exec);
	list_free(tool->inputs);
	list_free(tool->result_fields);
	free(tool->name);
	free(tool);
}

static int check_shape(const struct ledger_tool_spec *spec, struct error *error)
{
	const struct ledger_limits *limits = &spec->limits;

	if (!spec->name || !*spec->name || strlen(spec->name) > LEDGER_NAME_MAX)
		return error_set(error, EINVAL, "a tool needs a name of at most %d bytes",
				 LEDGER_NAME_MAX);
	if (list_length(spec->inputs) > LEDGER_PARAMS_MAX)
		return error_set(error, EINVAL, "tool %s: more than %d inputs", spec->name,
				 LEDGER_PARAMS_MAX);
	if (spec->has_object && !spec->fact_sql)
		return error_set(error, EINVAL,
				 "tool %s: an object needs a fact query that says whose it is",
				 spec->name);
	if (!spec->has_object && spec->fact_sql)
		return error_set(error, EINVAL, "tool %s: a fact query needs an object to ask for",
				 spec->name);
	if ((spec->executor == LEDGER_EXECUTOR_SQL) != (spec->exec_sql != NULL))
		return error_set(error, EINVAL,
				 "tool %s: the sql executor, and only that, has a statement",
				 spec->name);
	if (limits->single < 0 || limits->daily < 0)
		return error_set(error, EINVAL, "tool %s: a limit is negative", spec->name);
	return 0;
}

static int compile(struct ledger_tool *tool, const struct ledger_tool_spec *spec, char marker,
		   struct error *error)
{
	char what[LEDGER_NAME_MAX + 32];
	int err = 0;

	if (spec->fact_sql) {
		snprintf(what, sizeof(what), "tool %s: fact query", spec->name);
		err = sqltext_compile(&tool->fact, spec->fact_sql, marker, spec->inputs, what,
				      error);
	}
	if (!err && spec->exec_sql) {
		snprintf(what, sizeof(what), "tool %s: executor", spec->name);
		err = sqltext_compile(&tool->exec, spec->exec_sql, marker, spec->inputs, what,
				      error);
	}
	for (unsigned int i = 0; !err && i < tool->fact.n; i++)
		if (tool->fact.values[i].value == SQLTEXT_CALL)
			err = error_set(error, EINVAL,
					"tool %s: fact query: :call is known only to the executor",
					spec->name);
	return err;
}

int ledger_tool_check(const struct ledger_tool_spec *spec, struct error *error)
{
	struct ledger_tool tool = { 0 };
	int err = check_shape(spec, error);

	if (!err)
		err = compile(&tool, spec, ':', error);
	sqltext_free(&tool.fact);
	sqltext_free(&tool.exec);
	return err;
}

/* --- statements -------------------------------------------------------------------------------------------------- */

static int take_id(struct ledger *ledger)
{
	int i;

	for (i = 0; i < ledger->n_stmt_ids; i++)
		if (!ledger->stmt_ids[i])
			break;
	if (i == ledger->n_stmt_ids) {
		bool *more = realloc(ledger->stmt_ids, (size_t)i + 16);

		if (!more)
			return -ENOMEM;
		memset(more + i, 0, 16);
		ledger->stmt_ids = more;
		ledger->n_stmt_ids = i + 16;
	}
	ledger->stmt_ids[i] = true;
	return SQL_N + i;
}

static void give_id(struct ledger *ledger, const struct engine_stmt *stmt)
{
	if (stmt->id >= SQL_N)
		ledger->stmt_ids[stmt->id - SQL_N] = false;
}

/* On PostgreSQL the object's row is locked until the commit, where the query allows it (no aggregates, no outer join). */
static int lock_rows(struct ledger *ledger, struct ledger_tool *tool)
{
	char *locked = NULL;
	struct engine_stmt stmt = { .foreign = true };
	bool reads;

	if (ledger->facts || strcmp(ledger->ops->dialect, "postgresql") != 0)
		return 0;
	if (asprintf(&locked, "%s\nFOR UPDATE", tool->fact.sql) < 0)
		return -ENOMEM;
	stmt.sql = locked;
	if (ledger->ops->check(ledger->reader, &stmt, &reads, NULL) == 0) {
		free(tool->fact.sql);
		tool->fact.sql = locked;
	} else {
		ledger_log(
			ledger,
			"tool %s: the rows of its fact query cannot be locked; its executor has to "
			"guard itself against changes by others",
			tool->name);
		free(locked);
	}
	return 0;
}

static int check_fact(struct ledger *ledger, struct ledger_tool *tool, struct error *error)
{
	const struct engine_stmt stmt = { .sql = tool->fact.sql, .foreign = true };
	const struct engine_ops *ops = ledger->facts ? ledger->facts_ops : ledger->ops;
	struct engine *other = NULL;
	struct error words = { 0 };
	const struct engine_options options = {
		.read_only = true,
		.lock_timeout_ms = ledger->options.lock_timeout_ms,
	};
	bool reads = false;
	int err;

	if (ledger->facts) {
		err = ops->open(&other, ledger->options.facts, &options, error);
		if (err)
			return err;
	}
	err = ops->check(other ? other : ledger->reader, &stmt, &reads, &words);
	ops->close(other);
	if (err)
		return error_set(error, -err, "tool %s: fact query: %s (asked of `%s`)", tool->name,
				 words.text, ledger->facts ? "facts" : "store");
	if (!reads)
		return error_set(error, EINVAL, "tool %s: the fact query must only read",
				 tool->name);
	return lock_rows(ledger, tool);
}

static int check_exec(struct ledger *ledger, struct ledger_tool *tool, struct error *error)
{
	const struct engine_stmt stmt = { .sql = tool->exec.sql, .foreign = true };
	struct error words = { 0 };
	bool reads = false;
	int err;

	if (ledger->facts)
		return error_set(
			error, EINVAL,
			"tool %s: the sql executor works in the ledger's own store, so facts "
			"must be there, too; leave facts out or use the http executor",
			tool->name);
	err = ledger->ops->check(ledger->reader, &stmt, &reads, &words);
	if (err)
		return error_set(error, -err, "tool %s: executor: %s (in `store`)", tool->name,
				 words.text);
	if (reads && strcmp(ledger->ops->dialect, "sqlite") == 0)
		return error_set(error, EINVAL, "tool %s: the executor changes nothing",
				 tool->name);
	return 0;
}

/* The reading connection does it; a lost one is made anew. */
static int check_statements(struct ledger *ledger, struct ledger_tool *tool, struct error *error)
{
	int err = 0;

	pthread_mutex_lock(&ledger->read_mutex);
	for (int tries = 0; tries < 2; tries++) {
		struct error first = { 0 };

		err = tool->fact.sql ? check_fact(ledger, tool, &first) : 0;
		if (!err && tool->exec.sql)
			err = check_exec(ledger, tool, &first);
		if (err != -ENOTCONN || tries || ledger->ops->reopen(ledger->reader, error) != 0) {
			if (err)
				error_set(error, -err, "%s",
					  *first.text ? first.text : "the store does not answer");
			break;
		}
	}
	pthread_mutex_unlock(&ledger->read_mutex);
	return err;
}

static int give_ids(struct ledger *ledger, struct ledger_tool *tool)
{
	int fact = 0, exec = 0;

	if (tool->fact.sql)
		fact = take_id(ledger);
	if (tool->exec.sql)
		exec = take_id(ledger);
	if (fact < 0 || exec < 0)
		return -ENOMEM;
	tool->fact_stmt =
		(struct engine_stmt){ .sql = tool->fact.sql, .id = fact, .foreign = true };
	tool->exec_stmt =
		(struct engine_stmt){ .sql = tool->exec.sql, .id = exec, .foreign = true };
	return 0;
}

int ledger_tool_open(struct ledger *ledger, const struct ledger_tool_spec *spec,
		     struct ledger_tool **ret, struct error *error)
{
	struct ledger_tool *tool;
	const struct engine_ops *ops = ledger->facts ? ledger->facts_ops : ledger->ops;
	int err = check_shape(spec, error);

	if (err)
		return err;
	tool = calloc(1, sizeof(*tool));
	if (!tool)
		return error_set(error, ENOMEM, "tool %s: no memory", spec->name);
	tool->ledger = ledger;
	tool->has_object = spec->has_object;
	tool->has_amount = spec->has_amount;
	tool->executor = spec->executor;
	tool->limits = spec->limits;
	tool->approval_ttl_s = spec->approval_ttl_s;
	tool->name = strdup(spec->name);
	tool->inputs = list_copy(spec->inputs);
	tool->result_fields = spec->result_fields ? list_copy(spec->result_fields) : NULL;
	if (!tool->name || !tool->inputs || (spec->result_fields && !tool->result_fields))
		err = error_set(error, ENOMEM, "tool %s: no memory", spec->name);
	/* An executor is never of the other engine: check_exec refuses it when facts live elsewhere. */
	if (!err)
		err = compile(tool, spec, ops->marker, error);
	if (!err)
		err = check_statements(ledger, tool, error);
	if (err) {
		tool_free(tool);
		return err;
	}
	pthread_mutex_lock(&ledger->tools_mutex);
	err = give_ids(ledger, tool);
	if (!err) {
		atomic_init(&tool->refs, 1);
		tool->open = true;
		tool->next = ledger->tools;
		ledger->tools = tool;
	}
	pthread_mutex_unlock(&ledger->tools_mutex);
	if (err) {
		tool_free(tool);
		return error_set(error, ENOMEM, "tool %s: no memory", spec->name);
	}
	*ret = tool;
	return 0;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

void tool_ref(struct ledger_tool *tool)
{
	atomic_fetch_add(&tool->refs, 1);
}

void tool_unref(struct ledger_tool *tool)
{
	struct ledger *ledger;
	struct ledger_tool **at;

	if (!tool)
		return;
	/* Under the mutex, so that tool_find() cannot pick it up in between. */
	ledger = tool->ledger;
	pthread_mutex_lock(&ledger->tools_mutex);
	if (atomic_fetch_sub(&tool->refs, 1) == 1) {
		for (at = &ledger->tools; *at != tool;)
			at = &(*at)->next;
		*at = tool->next;
		tool->next = ledger->dead_tools;
		ledger->dead_tools = tool;
	}
	pthread_mutex_unlock(&ledger->tools_mutex);
}

void ledger_tool_close(struct ledger_tool *tool)
{
	if (!tool)
		return;
	pthread_mutex_lock(&tool->ledger->tools_mutex);
	tool->open = false;
	pthread_mutex_unlock(&tool->ledger->tools_mutex);
	tool_unref(tool);
}

struct ledger_tool *tool_find(struct ledger *ledger, const char *name)
{
	struct ledger_tool *tool;

	pthread_mutex_lock(&ledger->tools_mutex);
	for (tool = ledger->tools; tool; tool = tool->next)
		if (tool->open && strcmp(tool->name, name) == 0)
			break;
	if (tool)
		tool_ref(tool);
	pthread_mutex_unlock(&ledger->tools_mutex);
	return tool;
}

void tool_reap(struct ledger *ledger)
{
	struct ledger_tool *dead;

	pthread_mutex_lock(&ledger->tools_mutex);
	dead = ledger->dead_tools;
	ledger->dead_tools = NULL;
	pthread_mutex_unlock(&ledger->tools_mutex);
	while (dead) {
		struct ledger_tool *next = dead->next;

		if (dead->fact.sql && ledger->facts)
			ledger->facts_ops->forget(ledger->facts, &dead->fact_stmt);
		else if (dead->fact.sql)
			ledger->ops->forget(ledger->engine, &dead->fact_stmt);
		if (dead->exec.sql)
			ledger->ops->forget(ledger->engine, &dead->exec_stmt);
		pthread_mutex_lock(&ledger->tools_mutex);
		give_id(ledger, &dead->fact_stmt);
		give_id(ledger, &dead->exec_stmt);
		pthread_mutex_unlock(&ledger->tools_mutex);
		tool_free(dead);
		dead = next;
	}
}
