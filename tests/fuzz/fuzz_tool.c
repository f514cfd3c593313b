// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target of gwconf: bytes as a tool, as a configuration, as a pattern with a text, and as SQL. What
 * is accepted must hold what its header promises. The corpus is tests/fuzz/corpus/tool;
 * tests/golden/gateway holds good seeds, too.
 */
#include <errno.h>
#include <string.h>

#include "gwconf/gwconf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise stops the run like a crash does. */
#define MUST(condition)                   \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

static void judge_tool(const struct gwconf_tool *tool)
{
	MUST(tool->name && tool->scope && tool->n_fields && tool->key >= 0);
	MUST(tool->tenant < (int)tool->n_fields && tool->object < (int)tool->n_fields &&
	     tool->amount < (int)tool->n_fields && tool->key < (int)tool->n_fields);
	MUST(tool->amount < 0 || tool->fact.text);
	MUST(tool->executor == GWCONF_EXEC_HTTP ? !tool->statement.text
						: tool->statement.text != NULL);
	for (size_t i = 0; i < tool->n_fields; i++) {
		const struct gwconf_field *field = &tool->fields[i];

		MUST(field->name && gwconf_tool_field(tool, field->name) == (int)i);
		for (size_t k = 0; field->pattern_text && k < field->words.n; k++)
			MUST(gwconf_pattern_matches(&field->pattern, field->words.v[k],
						    strlen(field->words.v[k])));
	}
}

static void try_tool(const char *text, size_t size)
{
	struct conf_faults faults = { .n = 0 };
	struct gwconf_tool *tool = NULL;
	int r = gwconf_tool_parse(text, size, "tool", &tool, &faults);

	MUST(r == 0 || r == -EINVAL);
	MUST((r == 0) == (faults.n == 0) && (r == 0) == (tool != NULL));
	if (tool)
		judge_tool(tool);
	gwconf_tool_free(tool);
	conf_faults_clear(&faults);
}

static void try_config(const char *text, size_t size)
{
	struct conf_faults faults = { .n = 0 };
	struct gwconf *conf = NULL;
	int r = gwconf_parse(text, size, "config", &conf, &faults);

	MUST(r == 0 || r == -EINVAL);
	MUST((r == 0) == (faults.n == 0) && (r == 0) == (conf != NULL));
	if (conf)
		MUST(conf->n_listen && conf->store.url && conf->admin && conf->events);
	gwconf_free(conf);
	conf_faults_clear(&faults);
}

/* The first line as a pattern, the rest as a text. */
static void try_pattern(const char *text, size_t size)
{
	const char *line = memchr(text, '\n', size);
	size_t n = line ? (size_t)(line - text) : size;
	struct gwconf_pattern pattern;
	char *copy = strndup(text, n);

	MUST(copy);
	if (gwconf_pattern_parse(copy, &pattern, NULL) == 0 && line)
		gwconf_pattern_matches(&pattern, line + 1, size - n - 1);
	free(copy);
}

static void try_sql(const char *text, size_t size)
{
	char *copy = strndup(text, size);
	struct gwconf_sql sql;

	MUST(copy);
	if (gwconf_sql_parse(copy, &sql, NULL) == 0)
		gwconf_sql_release(&sql);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;

	gwconf_kind_of(text, size);
	try_tool(text, size);
	try_config(text, size);
	try_pattern(text, size);
	try_sql(text, size);
	return 0;
}
