// SPDX-License-Identifier: Apache-2.0
/* See read.h. Memory that ends is noted in the reader; what was read so far stays valid. */
#define _GNU_SOURCE 1
#include "conf/read.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "conf/near.h"
#include "util/util.h"

void conf_strings_free(struct conf_strings *strings)
{
	for (size_t i = 0; i < strings->n; i++)
		free(strings->v[i]);
	free(strings->v);
	free(strings->mark);
	memset(strings, 0, sizeof(*strings));
}

void conf_reader_fault(struct conf_reader *reader, struct conf_mark at, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;
	int r;

	va_start(args, format);
	r = vasprintf(&text, format, args);
	va_end(args);
	if (r < 0) {
		text = NULL;
		reader->err = -ENOMEM;
		return;
	}
	r = conf_fault_add(reader->faults, at, "%s: %s",
			   reader->path[0] ? reader->path : reader->whole, text);
	if (r < 0)
		reader->err = r;
}

void conf_reader_fault_type(struct conf_reader *reader, const struct conf_node *value,
			    const char *expects)
{
	if (value->kind != CONF_NODE_BAD)
		conf_reader_fault(reader, value->mark, "expects %s, not %s", expects,
				  conf_node_describe(value));
}

const char *conf_reader_text(struct conf_reader *reader, const struct conf_node *value,
			     const char *expects)
{
	if (value->kind == CONF_NODE_SCALAR && !conf_node_is_null(value))
		return value->text;
	conf_reader_fault_type(reader, value, expects);
	return NULL;
}

size_t conf_reader_descend(struct conf_reader *reader, const char *name)
{
	size_t before = strlen(reader->path);

	snprintf(reader->path + before, sizeof(reader->path) - before, "%s%s", before ? "." : "",
		 name);
	return before;
}

size_t conf_reader_descend_index(struct conf_reader *reader, size_t index)
{
	size_t before = strlen(reader->path);

	snprintf(reader->path + before, sizeof(reader->path) - before, "[%zu]", index);
	return before;
}

void conf_reader_ascend(struct conf_reader *reader, size_t before)
{
	reader->path[before] = '\0';
}

char *conf_reader_copy(struct conf_reader *reader, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		reader->err = -ENOMEM;
	return copy;
}

const struct conf_node *conf_node_get(const struct conf_node *mapping, const char *name,
				      const struct conf_node **ret_key)
{
	for (size_t i = 0; mapping->kind == CONF_NODE_MAPPING && i < mapping->n; i += 2) {
		if (mapping->child[i]->kind != CONF_NODE_SCALAR ||
		    strcmp(mapping->child[i]->text, name) != 0)
			continue;
		if (ret_key)
			*ret_key = mapping->child[i];
		return mapping->child[i + 1];
	}
	return NULL;
}

/* --- mappings --------------------------------------------------------------------------------- */

/* "route, scope, input": what a mapping may hold. */
static const char *rows_list(const struct conf_key *rows, char *list, size_t size)
{
	size_t used = 0;

	for (; rows->name && used < size; rows++)
		used += (size_t)snprintf(list + used, size - used, "%s%s", used ? ", " : "",
					 rows->name);
	return list;
}

static void fault_unknown_key(struct conf_reader *reader, const struct conf_key *rows,
			      const struct conf_node *name)
{
	const struct conf_key *near = NULL;
	size_t best = CONF_NEAR_NONE;
	char list[512] = "";

	for (const struct conf_key *row = rows; row->name; row++)
		if (conf_word_is_nearer(name->text, row->name, &best))
			near = row;
	if (near)
		conf_reader_fault(reader, name->mark, "unknown key `%s`; did you mean `%s`?",
				  conf_quote(name->text).s, near->name);
	else
		conf_reader_fault(reader, name->mark, "unknown key `%s`; there are: %s",
				  conf_quote(name->text).s, rows_list(rows, list, sizeof(list)));
}

static void read_entry(struct conf_reader *reader, const struct conf_key *rows,
		       const struct conf_node *name, const struct conf_node *value, void *base)
{
	const struct conf_key *row = rows;
	size_t before;

	while (row->name && strcmp(row->name, name->text) != 0)
		row++;
	if (!row->name) {
		fault_unknown_key(reader, rows, name);
		return;
	}
	if (value->kind == CONF_NODE_BAD)
		return;
	before = conf_reader_descend(reader, row->name);
	row->read(reader, row, value, base);
	conf_reader_ascend(reader, before);
}

void conf_read_rows(struct conf_reader *reader, const struct conf_key *rows,
		    const struct conf_node *value, void *base)
{
	if (value->kind != CONF_NODE_MAPPING) {
		conf_reader_fault_type(reader, value, "a mapping");
		return;
	}
	for (size_t i = 0; i < value->n; i += 2)
		if (value->child[i]->kind == CONF_NODE_SCALAR)
			read_entry(reader, rows, value->child[i], value->child[i + 1], base);
	for (const struct conf_key *row = rows; reader->complete && row->name; row++)
		if (row->required && !conf_node_get(value, row->name, NULL))
			conf_reader_fault(reader, value->mark, "`%s` is missing", row->name);
}

void conf_read_mapping(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	conf_read_rows(reader, key->sub, value, base);
}

/* --- scalars ---------------------------------------------------------------------------------- */

void conf_read_version(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "the number 1");

	(void)key;
	(void)base;
	if (text && (!value->plain || strcmp(text, "1") != 0))
		conf_reader_fault(reader, value->mark,
				  "version %s is not supported; this program reads version 1",
				  conf_quote(text).s);
}

void conf_read_text(struct conf_reader *reader, const struct conf_key *key,
		    const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, key->expects ? key->expects : "text");

	if (text && !text[0])
		conf_reader_fault(reader, value->mark, "empty text");
	else if (text)
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

void conf_read_word(struct conf_reader *reader, const struct conf_key *key,
		    const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "a word"), *near = NULL;
	size_t best = CONF_NEAR_NONE, used = 0;
	char list[256] = "";

	for (unsigned int i = 0; text && key->words[i]; i++) {
		if (!strcmp(key->words[i], text)) {
			*(unsigned int *)((char *)base + key->offset) = i;
			return;
		}
		if (conf_word_is_nearer(text, key->words[i], &best))
			near = key->words[i];
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
						 used ? ", " : "", key->words[i]);
	}
	if (near)
		conf_reader_fault(reader, value->mark, "unknown word `%s`; did you mean `%s`?",
				  conf_quote(text).s, near);
	else if (text)
		conf_reader_fault(reader, value->mark, "unknown word `%s`; expects one of: %s",
				  conf_quote(text).s, list);
}

void conf_read_bool(struct conf_reader *reader, const struct conf_key *key,
		    const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "true or false");

	if (!text)
		return;
	if (value->plain && (!strcmp(text, "true") || !strcmp(text, "false")))
		*(bool *)((char *)base + key->offset) = text[0] == 't';
	else
		conf_reader_fault(reader, value->mark, "expects true or false, not `%s`",
				  conf_quote(text).s);
}

bool conf_text_to_integer(const char *text, long long *ret_value)
{
	const char *digits = text[0] == '-' ? text + 1 : text;
	char *end;

	if (!digits[0] || digits[strspn(digits, "0123456789")] ||
	    (digits[0] == '0' && (digits[1] || digits != text)))
		return false;
	errno = 0;
	*ret_value = strtoll(text, &end, 10);
	return errno == 0;
}

/* A unit that may follow a number. */
struct unit {
	const char *name;
	long long factor;
};
static const struct unit no_units[] = { { "", 1 }, { NULL, 0 } };
static const struct unit size_units[] = {
	{ "", 1 }, { "K", 1024 }, { "M", 1024 * 1024 }, { "G", 1024 * 1024 * 1024 }, { NULL, 0 }
};
static const struct unit duration_units[] = { { "ms", 1 },	{ "s", 1000 },	   { "m", 60000 },
					      { "h", 3600000 }, { "d", 86400000 }, { NULL, 0 } };

/* "N" and one of the units; false when it is not that, or overflows. */
static bool number_with_unit(const char *text, const struct unit *units, long long *ret_value)
{
	size_t digits = strspn(text, "-0123456789");
	_cleanup_free_ char *number = strndup(text, digits);

	for (; number && units->name; units++)
		if (!strcmp(units->name, text + digits))
			return conf_text_to_integer(number, ret_value) &&
			       !__builtin_mul_overflow(*ret_value, units->factor, ret_value);
	return false;
}

static void read_number(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base, const struct unit *units,
			const char *expects)
{
	const char *text = conf_reader_text(reader, value, expects);
	long long number;

	if (!text)
		return;
	if (!value->plain || !number_with_unit(text, units, &number))
		conf_reader_fault(reader, value->mark, "expects %s, not `%s`", expects,
				  conf_quote(text).s);
	else if (number < key->min || number > key->max)
		conf_reader_fault(reader, value->mark, "%s is outside %lld to %lld%s", text,
				  key->min, key->max,
				  units == duration_units ? " ms"
				  : units == size_units	  ? " bytes"
							  : "");
	else
		*(long long *)((char *)base + key->offset) = number;
}

void conf_read_integer(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	read_number(reader, key, value, base, no_units, "a whole number");
}

void conf_read_size(struct conf_reader *reader, const struct conf_key *key,
		    const struct conf_node *value, void *base)
{
	read_number(reader, key, value, base, size_units, "bytes as N, NK, NM or NG");
}

void conf_read_duration(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	read_number(reader, key, value, base, duration_units, "a time as Nms, Ns, Nm, Nh or Nd");
}

/* --- lists ------------------------------------------------------------------------------------ */

static void texts_take(struct conf_reader *reader, struct conf_strings *strings,
		       const struct conf_node *item)
{
	const char *text = conf_reader_text(reader, item, "text");

	if (!text)
		return;
	for (size_t i = 0; i < strings->n; i++) {
		if (strcmp(strings->v[i], text) != 0)
			continue;
		conf_reader_fault(reader, item->mark, "`%s` is already given at line %u",
				  conf_quote(text).s, strings->mark[i].line);
		return;
	}
	if (!text[0]) {
		conf_reader_fault(reader, item->mark, "empty text");
		return;
	}
	strings->v[strings->n] = conf_reader_copy(reader, text);
	if (strings->v[strings->n])
		strings->mark[strings->n++] = item->mark;
}

void conf_read_texts(struct conf_reader *reader, const struct conf_key *key,
		     const struct conf_node *value, void *base)
{
	struct conf_strings *strings = (struct conf_strings *)((char *)base + key->offset);
	size_t before;

	if (value->kind != CONF_NODE_LIST) {
		conf_reader_fault_type(reader, value, key->expects ? key->expects : "a list");
		return;
	}
	if ((long long)value->n > key->max && key->max)
		conf_reader_fault(reader, value->mark, "more than %lld entries", key->max);
	strings->v = calloc(value->n + 1, sizeof(*strings->v));
	strings->mark = calloc(value->n + 1, sizeof(*strings->mark));
	if (!strings->v || !strings->mark) {
		reader->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < value->n; i++) {
		before = conf_reader_descend_index(reader, i);
		texts_take(reader, strings, value->child[i]);
		conf_reader_ascend(reader, before);
	}
}

/* --- the rows for people ---------------------------------------------------------------------- */

void conf_print_rows(const struct conf_key *rows, const char *prefix, FILE *out)
{
	char path[256];

	for (; rows->name; rows++) {
		snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] ? "." : "", rows->name);
		if (rows->doc)
			fprintf(out, "| `%s` | %s | %s | %s |\n", path,
				rows->expects ? rows->expects : "a mapping",
				rows->required	 ? "required"
				: rows->fallback ? rows->fallback
						 : "-",
				rows->doc);
		if (rows->sub)
			conf_print_rows(rows->sub, path, out);
	}
}
