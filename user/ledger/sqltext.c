// SPDX-License-Identifier: Apache-2.0
/* See sqltext.h. A scanner over the parts of SQL in which a colon is not a placeholder. */

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "ledger/arena.h"
#include "ledger/sqltext.h"

static const char *const builtins[] = {
#define X(id, name) [SQLTEXT_##id] = (name),
	SQLTEXT_BUILTINS(X)
#undef X
};

static bool word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Behind the quoted text at s; NULL: it does not end. A doubled quote goes on; after E'' a backslash escapes. */
static const char *skip_quoted(const char *s, bool backslash)
{
	const char quote = *s++;

	while (*s) {
		if (backslash && *s == '\\' && s[1])
			s += 2;
		else if (*s != quote)
			s++;
		else if (s[1] == quote)
			s += 2;
		else
			return s + 1;
	}
	return NULL;
}

/* Comments nest in PostgreSQL; in SQLite the first end counts. A text where that matters is refused. */
static const char *skip_comment(const char *s)
{
	const char *end = strstr(s + 2, "*/");
	const char *inner = strstr(s + 2, "/*");

	return end && !(inner && inner < end) ? end + 2 : NULL;
}

/* $tag$ ... $tag$; s itself when it is no such thing. */
static const char *skip_dollar(const char *s)
{
	const char *tag_end = s + 1, *at;
	size_t size;

	while (word(*tag_end))
		tag_end++;
	if (*tag_end != '$' || isdigit((unsigned char)s[1]))
		return s;
	size = (size_t)(tag_end + 1 - s);
	for (at = tag_end + 1; (at = strchr(at, '$')); at++)
		if (strncmp(at, s, size) == 0)
			return at + size;
	return NULL;
}

/* Behind whatever at s has no placeholders in it; s itself when s is plain; NULL: it does not end. */
static const char *skip_opaque(const char *sql, const char *s)
{
	bool escape_string =
		s > sql && (s[-1] == 'E' || s[-1] == 'e') && (s == sql + 1 || !word(s[-2]));

	if (*s == '\'' || *s == '"')
		return skip_quoted(s, *s == '\'' && escape_string);
	if (s[0] == '-' && s[1] == '-')
		return s + strcspn(s, "\n");
	if (s[0] == '/' && s[1] == '*')
		return skip_comment(s);
	if (*s == '$' && !(s > sql && word(s[-1])))
		return skip_dollar(s);
	return s;
}

static int find_value(struct sqltext *ret, const char *name, size_t size, const char *const *inputs,
		      const char *what, struct error *error)
{
	if (ret->n == SQLTEXT_VALUES_MAX)
		return error_set(error, EINVAL, "%s: more than %d values", what,
				 SQLTEXT_VALUES_MAX);
	for (size_t i = 1; i < ARRAY_SIZE(builtins); i++) {
		if (strlen(builtins[i]) == size && strncmp(builtins[i], name, size) == 0) {
			ret->values[ret->n++].value = (enum sqltext_value)i;
			return 0;
		}
	}
	for (unsigned int i = 0; inputs && inputs[i]; i++) {
		if (strlen(inputs[i]) == size && strncmp(inputs[i], name, size) == 0) {
			ret->values[ret->n].value = SQLTEXT_INPUT;
			ret->values[ret->n++].input = i;
			return 0;
		}
	}
	return error_set(
		error, EINVAL,
		"%s: no value is named :%.*s; there are :tenant, :subject, :task, :object, "
		":amount, :key, :call and the tool's inputs",
		what, (int)(size < 64 ? size : 64), name);
}

/* Only blanks may follow the end of a statement. */
static int check_rest(const char *s, const char *what, struct error *error)
{
	s += strspn(s, " \t\r\n;");
	return *s ? error_set(error, EINVAL, "%s: more than one statement", what) : 0;
}

static int scan(struct sqltext *ret, struct text *out, const char *sql, char marker,
		const char *const *inputs, const char *what, struct error *error)
{
	const char *s = sql;
	int err;

	while (*s) {
		const char *end = skip_opaque(sql, s);

		if (!end)
			return error_set(error, EINVAL,
					 "%s: a quote or comment does not end, or comments nest",
					 what);
		if (end != s) {
			text_add(out, s, (size_t)(end - s));
			s = end;
		} else if (s[0] == ':' && s[1] == ':') {
			text_add(out, s, 2);
			s += 2;
		} else if (*s == ':' && (isalpha((unsigned char)s[1]) || s[1] == '_')) {
			for (end = s + 1; word(*end);)
				end++;
			err = find_value(ret, s + 1, (size_t)(end - s - 1), inputs, what, error);
			if (err)
				return err;
			text_add(out, &marker, 1);
			text_number(out, ret->n);
			s = end;
		} else if ((*s == '$' && isdigit((unsigned char)s[1])) ||
			   (*s == '?' && marker == '?') ||
			   ((*s == '@' || *s == '#' || *s == '$') && marker == '?' && word(s[1]))) {
			return error_set(error, EINVAL,
					 "%s: values have names here (:object), not '%c'", what,
					 *s);
		} else if (*s == ';') {
			return check_rest(s, what, error);
		} else {
			text_add(out, s++, 1);
		}
	}
	return 0;
}

int sqltext_compile(struct sqltext *ret, const char *sql, char marker, const char *const *inputs,
		    const char *what, struct error *error)
{
	struct arena arena = { 0 };
	struct text out = { .arena = &arena };
	int err;

	*ret = (struct sqltext){ 0 };
	if (strlen(sql) > SQLTEXT_MAX)
		return error_set(error, EINVAL, "%s: longer than %d bytes", what, SQLTEXT_MAX);
	if (!sql[strspn(sql, " \t\r\n;")])
		return error_set(error, EINVAL, "%s: the statement is empty", what);
	err = scan(ret, &out, sql, marker, inputs, what, error);
	if (!err) {
		ret->sql = out.failed || !out.data ? NULL : strdup(out.data);
		if (!ret->sql)
			err = error_set(error, ENOMEM, "%s: no memory", what);
	}
	arena_free(&arena);
	return err;
}

void sqltext_free(struct sqltext *text)
{
	free(text->sql);
	text->sql = NULL;
}
