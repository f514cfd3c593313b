// SPDX-License-Identifier: Apache-2.0
/*
 * Which parameters one SQL statement names. Only what decides where a parameter or a statement ends is
 * understood - quotes and casts; the rest is the database's. Values never become text of a statement.
 * No privilege; a failure gives no statement.
 */
#define _GNU_SOURCE 1
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "gwconf/gwconf.h"

const char *const gwconf_sql_names[] = { "tenant", "subject", "task", "object",
					 "amount", "key",     "call", NULL };

#define SQL_NAME_MAX 64

void gwconf_sql_release(struct gwconf_sql *sql)
{
	free(sql->text);
	for (size_t i = 0; i < sql->n_params; i++)
		free(sql->param[i]);
	memset(sql, 0, sizeof(*sql));
}

static bool is_name_character(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Notes a parameter. Returns 0, -E2BIG or -ENOMEM. */
static int sql_note(struct gwconf_sql *sql, const char *name, size_t size)
{
	for (size_t i = 0; i < sql->n_params; i++)
		if (strlen(sql->param[i]) == size && !memcmp(sql->param[i], name, size))
			return 0;
	if (sql->n_params == GWCONF_PARAMS_MAX)
		return -E2BIG;
	sql->param[sql->n_params] = strndup(name, size);
	if (!sql->param[sql->n_params])
		return -ENOMEM;
	sql->n_params++;
	return 0;
}

/* Bytes of the quoted text that begins at p; 0: it does not end. A doubled quote is one inside. */
static size_t quoted_size(const char *p)
{
	const char quote = p[0];

	for (size_t i = 1; p[i]; i++) {
		if (p[i] != quote)
			continue;
		if (p[i + 1] != quote)
			return i + 1;
		i++;
	}
	return 0;
}

/* Bytes of the parameter that begins at p; a negative errno after a fault. */
static int param_take(struct gwconf_sql *sql, const char *p, struct error *error)
{
	size_t size = 1;
	int r;

	while (is_name_character(p[size]))
		size++;
	if (size == 1 || size - 1 > SQL_NAME_MAX || isdigit((unsigned char)p[1]))
		return error_set(error, EINVAL, "after `:` comes the name of a parameter");
	r = sql_note(sql, p + 1, size - 1);
	if (r == -E2BIG)
		return error_set(error, EINVAL, "more than %d parameters", GWCONF_PARAMS_MAX);
	return r < 0 ? r : (int)size;
}

/* Bytes of the piece of text at p; a negative errno after a fault. */
static int piece_take(struct gwconf_sql *sql, const char *p, struct error *error)
{
	size_t size;

	if (*p == '\'' || *p == '"') {
		size = quoted_size(p);
		return size ? (int)size : error_set(error, EINVAL, "a quote that does not end");
	}
	if ((p[0] == '-' && p[1] == '-') || (p[0] == '/' && p[1] == '*'))
		return error_set(error, EINVAL,
				 "comments are not accepted inside SQL; write them in YAML");
	if (*p == ';')
		return error_set(error, EINVAL, "`;`: one statement, without it");
	if (strchr("$?@`\\[", *p))
		return error_set(error, EINVAL,
				 "`%c`: parameters are spelled :name, names are quoted with \"",
				 *p);
	if (p[0] == ':' && p[1] == ':')
		return 2;
	return p[0] == ':' ? param_take(sql, p, error) : 1;
}

int gwconf_sql_parse(const char *text, struct gwconf_sql *ret_sql, struct error *error)
{
	int r = 1;

	memset(ret_sql, 0, sizeof(*ret_sql));
	for (const char *p = text; *p && r > 0; p += r > 0 ? r : 0)
		r = piece_take(ret_sql, p, error);
	if (r >= 0) {
		ret_sql->text = strdup(text);
		r = ret_sql->text ? 0 : -ENOMEM;
	}
	if (r < 0)
		gwconf_sql_release(ret_sql);
	return r;
}
