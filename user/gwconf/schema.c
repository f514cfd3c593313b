// SPDX-License-Identifier: Apache-2.0
/*
 * The JSON Schema of a tool's input: a flat object of texts, whole numbers and truth values, because
 * each member is a parameter of SQL and part of the digest. Keywords that are not understood are
 * faults; so are keywords that do not fit the type, which JSON Schema would pass over in silence. No
 * privilege.
 */
#define _GNU_SOURCE 1
#include "gwconf/schema.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

static const char *const type_words[] = { "string", "integer", "boolean", NULL };

/* A member while it is read. */
struct field_draft {
	struct gwconf_field field;
	const struct conf_node *words; /* enum */
	const struct conf_node *constant;
};

static void read_raw_enum(struct conf_reader *reader, const struct conf_key *key,
			  const struct conf_node *value, void *base)
{
	(void)key;
	if (value->kind != CONF_NODE_LIST || value->n == 0)
		conf_reader_fault_type(reader, value, "a list with values");
	else if (value->n > GWCONF_ENUM_MAX)
		conf_reader_fault(reader, value->mark, "more than %d values", GWCONF_ENUM_MAX);
	else
		((struct field_draft *)base)->words = value;
}

static void read_raw_const(struct conf_reader *reader, const struct conf_key *key,
			   const struct conf_node *value, void *base)
{
	(void)key;
	if (conf_reader_text(reader, value, "a value"))
		((struct field_draft *)base)->constant = value;
}

static void read_pattern(struct conf_reader *reader, const struct conf_key *key,
			 const struct conf_node *value, void *base)
{
	struct gwconf_field *field = &((struct field_draft *)base)->field;
	const char *text = conf_reader_text(reader, value, "a pattern");
	struct error error = { "" };

	(void)key;
	if (!text)
		return;
	if (gwconf_pattern_parse(text, &field->pattern, &error) < 0)
		conf_reader_fault(reader, value->mark, "%s", error.text);
	else
		field->pattern_text = conf_reader_copy(reader, text);
}

#define FIELD(member) .offset = offsetof(struct field_draft, field.member)

const struct conf_key gwconf_field_keys[] = {
	{ "type", conf_read_word, FIELD(type), .required = true, .words = type_words,
	  .expects = "`string`, `integer` or `boolean`", .doc = "type of the member" },
	{ "description", conf_read_text, FIELD(doc), .expects = "text",
	  .doc = "for people and agents; shown by `GET /tools`" },
	{ "enum", read_raw_enum, .expects = "a list", .doc = "the only values; at most 64" },
	{ "const", read_raw_const, .expects = "a value", .doc = "the only value" },
	{ "minLength", conf_read_integer, FIELD(min_length), .min = 0, .max = GWCONF_TEXT_MAX,
	  .expects = "a number", .fallback = "0", .doc = "characters of a string" },
	{ "maxLength", conf_read_integer, FIELD(max_length), .min = 1, .max = GWCONF_TEXT_MAX,
	  .expects = "a number", .fallback = "256", .doc = "characters of a string; at most 4096" },
	{ "pattern", read_pattern, .expects = "a pattern",
	  .doc = "`^...$` of literals, `[classes]`, `\\d`, `\\w` and `? + * {n} {n,m}`; no groups, "
		 "no alternatives: matching is linear" },
	{ "minimum", conf_read_integer, FIELD(min), .min = LLONG_MIN, .max = LLONG_MAX,
	  .expects = "a whole number", .fallback = "the least of 64 bits",
	  .doc = "least value of an integer" },
	{ "maximum", conf_read_integer, FIELD(max), .min = LLONG_MIN, .max = LLONG_MAX,
	  .expects = "a whole number", .fallback = "the greatest of 64 bits",
	  .doc = "greatest value of an integer" },
	CONF_KEYS_END,
};

void gwconf_field_release(struct gwconf_field *field)
{
	free(field->name);
	free(field->doc);
	free(field->numbers);
	free(field->pattern_text);
	conf_strings_free(&field->words);
}

/* Keywords that say nothing of this type. */
static void judge_keywords(struct conf_reader *reader, const struct gwconf_field *field,
			   const struct conf_node *node)
{
	static const struct {
		const char *keyword;
		unsigned int type;
	} fits[] = {
		{ "minLength", GWCONF_STRING }, { "maxLength", GWCONF_STRING },
		{ "pattern", GWCONF_STRING },	{ "minimum", GWCONF_INTEGER },
		{ "maximum", GWCONF_INTEGER },
	};
	const struct conf_node *name;

	for (size_t i = 0; i < ARRAY_SIZE(fits); i++)
		if (conf_node_get(node, fits[i].keyword, &name) && fits[i].type != field->type)
			conf_reader_fault(reader, name->mark, "`%s` says nothing of type %s",
					  fits[i].keyword, type_words[field->type]);
	if (field->type == GWCONF_STRING && field->min_length > field->max_length)
		conf_reader_fault(reader, node->mark, "minLength is greater than maxLength");
	if (field->type == GWCONF_INTEGER && field->min > field->max)
		conf_reader_fault(reader, node->mark, "minimum is greater than maximum");
}

/* Would text pass the other keywords of the member? */
static bool text_is_possible(const struct gwconf_field *field, const char *text)
{
	long long length = 0;

	for (const char *p = text; *p; p++)
		length += ((unsigned char)*p & 0xc0) != 0x80;
	return length >= field->min_length && length <= field->max_length &&
	       (!field->pattern_text ||
		gwconf_pattern_matches(&field->pattern, text, strlen(text)));
}

static void take_word(struct conf_reader *reader, struct gwconf_field *field,
		      const struct conf_node *item)
{
	const char *text = conf_reader_text(reader, item, "text");

	if (!text)
		return;
	for (size_t i = 0; i < field->words.n; i++)
		if (!strcmp(field->words.v[i], text)) {
			conf_reader_fault(reader, item->mark, "`%s` twice", conf_quote(text).s);
			return;
		}
	if (!text_is_possible(field, text)) {
		conf_reader_fault(reader, item->mark,
				  "`%s` can never match: minLength, maxLength or pattern refuse it",
				  conf_quote(text).s);
		return;
	}
	field->words.v[field->words.n] = conf_reader_copy(reader, text);
	if (field->words.v[field->words.n])
		field->words.n++;
}

static void take_number(struct conf_reader *reader, struct gwconf_field *field,
			const struct conf_node *item)
{
	const char *text = conf_reader_text(reader, item, "a whole number");
	long long number;

	if (!text)
		return;
	if (!item->plain || !conf_text_to_integer(text, &number))
		conf_reader_fault(reader, item->mark, "expects a whole number, not `%s`",
				  conf_quote(text).s);
	else if (number < field->min || number > field->max)
		conf_reader_fault(reader, item->mark,
				  "%lld can never match: minimum or maximum refuse it", number);
	else
		field->numbers[field->n_numbers++] = number;
}

/* enum and const: one list of what may be given. */
static void take_values(struct conf_reader *reader, struct field_draft *draft,
			const struct conf_node *node)
{
	const struct conf_node *const one[] = { draft->constant };
	struct conf_node *const *items = draft->words ? draft->words->child : NULL;
	struct gwconf_field *field = &draft->field;
	size_t n = draft->words ? draft->words->n : draft->constant ? 1 : 0;

	if (draft->words && draft->constant)
		conf_reader_fault(reader, node->mark, "enum and const together; keep one");
	if (n == 0)
		return;
	if (field->type == GWCONF_BOOLEAN) {
		conf_reader_fault(reader, node->mark, "enum and const say nothing of type boolean");
		return;
	}
	field->words.v = calloc(n, sizeof(*field->words.v));
	field->numbers = calloc(n, sizeof(*field->numbers));
	if (!field->words.v || !field->numbers) {
		reader->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const struct conf_node *item = items ? items[i] : one[0];

		if (field->type == GWCONF_STRING)
			take_word(reader, field, item);
		else
			take_number(reader, field, item);
	}
}

static bool name_is_good(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n > 64 || isdigit((unsigned char)name[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) &&
		    name[i] != '_')
			return false;
	return true;
}

static void read_field(struct conf_reader *reader, struct gwconf_tool *tool,
		       const struct conf_node *name, const struct conf_node *value)
{
	struct field_draft draft = { .field = { .min = LLONG_MIN,
						.max = LLONG_MAX,
						.max_length = 256,
						.mark = name->mark } };

	if (!name_is_good(name->text)) {
		conf_reader_fault(
			reader, name->mark,
			"`%s` is not a name for a member: small letters, digits and `_`, no "
			"digit first, at most 64",
			conf_quote(name->text).s);
		return;
	}
	conf_read_rows(reader, gwconf_field_keys, value, &draft);
	if (value->kind == CONF_NODE_MAPPING) {
		judge_keywords(reader, &draft.field, value);
		take_values(reader, &draft, value);
	}
	draft.field.name = conf_reader_copy(reader, name->text);
	if (draft.field.name)
		tool->fields[tool->n_fields++] = draft.field;
	else
		gwconf_field_release(&draft.field);
}

static void read_properties(struct conf_reader *reader, const struct conf_key *key,
			    const struct conf_node *value, void *base)
{
	struct gwconf_tool *tool = base;
	size_t before;

	(void)key;
	if (value->kind != CONF_NODE_MAPPING || value->n == 0) {
		conf_reader_fault_type(reader, value, "a mapping with members");
		return;
	}
	if (value->n / 2 > GWCONF_FIELDS_MAX) {
		conf_reader_fault(reader, value->mark, "more than %d members", GWCONF_FIELDS_MAX);
		return;
	}
	tool->fields = calloc(value->n / 2, sizeof(*tool->fields));
	if (!tool->fields) {
		reader->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < value->n; i += 2) {
		if (value->child[i]->kind != CONF_NODE_SCALAR)
			continue;
		before = conf_reader_descend(reader, conf_quote(value->child[i]->text).s);
		read_field(reader, tool, value->child[i], value->child[i + 1]);
		conf_reader_ascend(reader, before);
	}
}

static void read_type_object(struct conf_reader *reader, const struct conf_key *key,
			     const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "`object`");

	(void)key;
	(void)base;
	if (text && strcmp(text, "object") != 0)
		conf_reader_fault(reader, value->mark, "the input is an `object`, not `%s`",
				  conf_quote(text).s);
}

static void read_additional(struct conf_reader *reader, const struct conf_key *key,
			    const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "false");

	(void)key;
	(void)base;
	if (text && (!value->plain || strcmp(text, "false") != 0))
		conf_reader_fault(reader, value->mark,
				  "expects false: unknown members are always refused");
}

/* The list is looked at once the members are known. */
static void read_required(struct conf_reader *reader, const struct conf_key *key,
			  const struct conf_node *value, void *base)
{
	(void)key;
	(void)base;
	if (value->kind != CONF_NODE_LIST)
		conf_reader_fault_type(reader, value, "a list of members");
}

static const struct conf_key input_keys[] = {
	{ "type", read_type_object, .required = true, .expects = "`object`" },
	{ "properties", read_properties, .required = true, .expects = "a mapping" },
	{ "required", read_required, .expects = "a list" },
	{ "additionalProperties", read_additional, .expects = "`false`" },
	CONF_KEYS_END,
};

static void take_required(struct conf_reader *reader, struct gwconf_tool *tool,
			  const struct conf_node *item)
{
	const char *text = conf_reader_text(reader, item, "the name of a member");
	int i = text ? gwconf_tool_field(tool, text) : -1;

	if (!text)
		return;
	if (i < 0)
		conf_reader_fault(reader, item->mark, "`%s` is no member of properties",
				  conf_quote(text).s);
	else if (tool->fields[i].required)
		conf_reader_fault(reader, item->mark, "`%s` twice", text);
	else
		tool->fields[i].required = true;
}

void gwconf_schema_read(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	struct gwconf_tool *tool = base;
	const struct conf_node *required = conf_node_get(value, "required", NULL);
	size_t before;

	(void)key;
	conf_read_rows(reader, input_keys, value, tool);
	if (!required || required->kind != CONF_NODE_LIST)
		return;
	before = conf_reader_descend(reader, "required");
	for (size_t i = 0; i < required->n; i++)
		take_required(reader, tool, required->child[i]);
	conf_reader_ascend(reader, before);
}
