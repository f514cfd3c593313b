// SPDX-License-Identifier: Apache-2.0
/* See input.h. Fails closed: what cannot be read is refused. */
#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_*(): see chain/chain.c, for the same reason */
#include "gateway/input.h"

#include <errno.h>
#include <limits.h>
#include <openssl/sha.h>
#include <stdarg.h>
#include <string.h>

#include "util/util.h"

static enum ledger_code bad(struct input *input, enum ledger_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static enum ledger_code bad(struct input *input, enum ledger_code code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(input->reason, sizeof(input->reason), format, args);
	va_end(args);
	return code;
}

void input_release(struct input *input)
{
	json_decref(input->root);
	input->root = NULL;
}

static enum ledger_code parse(const char *body, size_t size, struct input *input)
{
	json_error_t error;

	if (size == 0)
		return bad(input, LEDGER_MALFORMED_REQUEST,
			   "an empty body; a JSON object is expected");
	if (!util_json_is_shallow(body, size, INPUT_DEPTH_MAX))
		return bad(input, LEDGER_MALFORMED_REQUEST, "JSON nested deeper than %d",
			   INPUT_DEPTH_MAX);
	input->root = json_loadb(body, size, JSON_REJECT_DUPLICATES, &error);
	if (json_is_object(input->root))
		return LEDGER_OK;
	if (input->root)
		return bad(input, LEDGER_MALFORMED_REQUEST, "not a JSON object");
	switch (json_error_code(&error)) {
	case json_error_out_of_memory:
		return bad(input, LEDGER_UNAVAILABLE, "out of memory; nothing was done");
	case json_error_duplicate_key:
		return bad(input, LEDGER_MALFORMED_REQUEST, "a member stands twice");
	case json_error_numeric_overflow:
		return bad(input, LEDGER_MALFORMED_REQUEST, "a number that is too great");
	default:
		return bad(input, LEDGER_MALFORMED_REQUEST, "not JSON, at line %d, column %d",
			   error.line, error.column);
	}
}

/* --- one member ------------------------------------------------------------------------------- */

static bool text_is_listed(const struct gwconf_field *field, const char *text)
{
	for (size_t i = 0; i < field->words.n; i++)
		if (!strcmp(field->words.v[i], text))
			return true;
	return field->words.n == 0;
}

static enum ledger_code judge_string(const struct gwconf_field *field, const json_t *value,
				     struct input *input)
{
	const char *text = json_string_value(value);
	size_t size = json_string_length(value);
	long long characters = 0;

	for (size_t i = 0; i < size; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return bad(input, LEDGER_INVALID_REQUEST, "`%s` has a control character",
				   field->name);
		characters += ((unsigned char)text[i] & 0xc0) != 0x80;
	}
	if (characters < field->min_length || characters > field->max_length)
		return bad(input, LEDGER_INVALID_REQUEST, "`%s` must have %lld to %lld characters",
			   field->name, field->min_length, field->max_length);
	if (!text_is_listed(field, text))
		return bad(input, LEDGER_INVALID_REQUEST, "`%s` is none of the values it may have",
			   field->name);
	if (field->pattern_text && !gwconf_pattern_matches(&field->pattern, text, size))
		return bad(input, LEDGER_INVALID_REQUEST, "`%s` does not match %.80s", field->name,
			   field->pattern_text);
	return LEDGER_OK;
}

static enum ledger_code judge_integer(const struct gwconf_field *field, const json_t *value,
				      bool is_amount, struct input *input)
{
	long long number = json_integer_value(value);
	bool listed = field->n_numbers == 0;

	for (size_t i = 0; i < field->n_numbers; i++)
		listed |= field->numbers[i] == number;
	/* What is not positive the ledger refuses, after it has judged who asks. */
	if (is_amount && number <= 0)
		return LEDGER_OK;
	if (number < field->min || number > field->max) {
		snprintf(input->reason, sizeof(input->reason), "`%s` must be from %lld to %lld",
			 field->name, field->min, field->max);
		return is_amount ? LEDGER_AMOUNT_OUT_OF_RANGE : LEDGER_INVALID_REQUEST;
	}
	if (!listed)
		return bad(input, LEDGER_INVALID_REQUEST, "`%s` is none of the values it may have",
			   field->name);
	return LEDGER_OK;
}

static enum ledger_code judge_field(const struct gwconf_tool *tool, size_t i, struct input *input)
{
	static const char *const expects[] = { "a string", "a whole number", "true or false" };
	const struct gwconf_field *field = &tool->fields[i];
	const json_t *value = json_object_get(input->root, field->name);
	bool fits;

	if (!value && field->required)
		return bad(input, LEDGER_INVALID_REQUEST, "`%s` is missing", field->name);
	if (!value)
		return LEDGER_OK;
	fits = field->type == GWCONF_STRING    ? json_is_string(value)
	       : field->type == GWCONF_INTEGER ? json_is_integer(value)
					       : json_is_boolean(value);
	if (!fits)
		return bad(input, LEDGER_INVALID_REQUEST, "`%s` must be %s", field->name,
			   expects[field->type]);
	if (field->type == GWCONF_STRING)
		return judge_string(field, value, input);
	if (field->type == GWCONF_INTEGER)
		return judge_integer(field, value, (int)i == tool->amount, input);
	return LEDGER_OK;
}

/* A member's name as it may be shown: it is the caller's text. */
static void name_unknown(struct input *input, const char *name)
{
	size_t n = strcspn(name, "`\\\"");

	for (size_t i = 0; i < n; i++)
		if (name[i] < 0x20 || name[i] > 0x7e)
			n = i;
	if (n == 0 || n > 64 || name[n])
		snprintf(input->reason, sizeof(input->reason),
			 "a member that the tool does not have");
	else
		snprintf(input->reason, sizeof(input->reason), "`%s` is no member of this tool",
			 name);
}

static enum ledger_code judge_members(const struct gwconf_tool *tool, struct input *input)
{
	enum ledger_code code = LEDGER_OK;
	const char *name;
	json_t *value;

	json_object_foreach(input->root, name, value) if (gwconf_tool_field(tool, name) < 0)
	{
		name_unknown(input, name);
		return LEDGER_INVALID_REQUEST;
	}
	for (size_t i = 0; code == LEDGER_OK && i < tool->n_fields; i++)
		code = judge_field(tool, i, input);
	return code;
}

/* --- the key ---------------------------------------------------------------------------------- */

bool input_key_is_good(const char *key, size_t size)
{
	if (size == 0 || size > LEDGER_KEY_MAX)
		return false;
	for (size_t i = 0; i < size; i++)
		if (key[i] < 0x21 || key[i] > 0x7e)
			return false;
	return true;
}

static enum ledger_code take_key(const struct gwconf_tool *tool, const struct head_text *header,
				 struct input *input)
{
	json_t *member = json_object_get(input->root, tool->fields[tool->key].name);
	const char *key = json_string_value(member);
	size_t size = json_string_length(member);

	if (member && !key)
		return bad(input, LEDGER_MALFORMED_REQUEST, "the idempotency key must be a string");
	if (!member && !header->p)
		return bad(input, LEDGER_MALFORMED_REQUEST,
			   "the idempotency key is missing: member `%s` or header Idempotency-Key",
			   tool->fields[tool->key].name);
	if (member && header->p && (header->n != size || memcmp(header->p, key, size) != 0))
		return bad(input, LEDGER_MALFORMED_REQUEST,
			   "two idempotency keys: header and body differ");
	if (!member) {
		key = header->p;
		size = header->n;
	}
	if (!input_key_is_good(key, size))
		return bad(input, LEDGER_MALFORMED_REQUEST,
			   "the idempotency key must be 1 to %d visible ASCII characters",
			   LEDGER_KEY_MAX);
	memcpy(input->key, key, size);
	input->key[size] = '\0';
	return LEDGER_OK;
}

/* --- what the ledger needs -------------------------------------------------------------------- */

/*
 * SHA-256 of the tool and the members but the key, as compact JSON with sorted names: another order, other
 * blanks or escapes are the same request, and header or body may carry the key.
 */
static int digest(const struct gwconf_tool *tool, struct input *input)
{
	json_t *copy = json_copy(input->root);
	_cleanup_free_ char *text = NULL;
	SHA256_CTX sha;

	json_object_del(copy, tool->fields[tool->key].name);
	text = copy ? json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII) : NULL;
	json_decref(copy);
	if (!text)
		return -ENOMEM;
	return SHA256_Init(&sha) && SHA256_Update(&sha, "POST\n/tools/", strlen("POST\n/tools/")) &&
			       SHA256_Update(&sha, tool->name, strlen(tool->name)) &&
			       SHA256_Update(&sha, "\n", 1) &&
			       SHA256_Update(&sha, text, strlen(text)) &&
			       SHA256_Final(input->digest, &sha)
		       ? 0
		       : -EIO;
}

static bool name_is_the_ledgers(const char *name)
{
	for (size_t i = 0; gwconf_sql_names[i]; i++)
		if (!strcmp(gwconf_sql_names[i], name))
			return true;
	return false;
}

static void take_values(const struct gwconf_tool *tool, struct input *input)
{
	for (size_t i = 0; i < tool->n_fields; i++) {
		const struct gwconf_field *field = &tool->fields[i];
		const json_t *value = json_object_get(input->root, field->name);
		struct ledger_param *param = &input->params[input->n_params];

		if ((int)i == tool->tenant)
			input->tenant = json_string_value(value);
		if ((int)i == tool->object)
			input->object = json_string_value(value);
		if ((int)i == tool->amount)
			input->amount = json_integer_value(value);
		if (!value || name_is_the_ledgers(field->name))
			continue;
		param->name = field->name;
		param->text = json_string_value(value);
		param->number =
			json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
		input->n_params++;
	}
}
_Static_assert(GWCONF_FIELDS_MAX <= LEDGER_PARAMS_MAX, "every member may be a parameter");

enum ledger_code input_read(const struct gwconf_tool *tool, const char *body, size_t size,
			    const struct head_text *header_key, struct input *ret_input)
{
	enum ledger_code code;

	memset(ret_input, 0, sizeof(*ret_input));
	code = parse(body, size, ret_input);
	if (code == LEDGER_OK)
		code = take_key(tool, header_key, ret_input);
	if (code == LEDGER_OK)
		code = judge_members(tool, ret_input);
	if (code != LEDGER_OK)
		return code;
	take_values(tool, ret_input);
	if (digest(tool, ret_input) < 0)
		return bad(ret_input, LEDGER_UNAVAILABLE, "out of memory; nothing was done");
	return LEDGER_OK;
}

char *input_request(const struct gwconf_tool *tool, const struct input *input)
{
	json_t *body = json_object();
	char *text;

	for (size_t i = 0; i < tool->body.n; i++) {
		json_t *value = json_object_get(input->root, tool->body.v[i]);

		if (value && json_object_set(body, tool->body.v[i], value) < 0) {
			json_decref(body);
			return NULL;
		}
	}
	text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	return text;
}

/* --- the schema back -------------------------------------------------------------------------- */

static json_t *field_schema(const struct gwconf_field *field)
{
	static const char *const types[] = { "string", "integer", "boolean" };
	json_t *schema = json_pack("{s:s}", "type", types[field->type]);
	json_t *values = json_array();

	if (field->doc)
		json_object_set_new(schema, "description", json_string(field->doc));
	if (field->type == GWCONF_STRING) {
		json_object_set_new(schema, "minLength", json_integer(field->min_length));
		json_object_set_new(schema, "maxLength", json_integer(field->max_length));
	}
	if (field->type == GWCONF_INTEGER && field->min != LLONG_MIN)
		json_object_set_new(schema, "minimum", json_integer(field->min));
	if (field->type == GWCONF_INTEGER && field->max != LLONG_MAX)
		json_object_set_new(schema, "maximum", json_integer(field->max));
	if (field->pattern_text)
		json_object_set_new(schema, "pattern", json_string(field->pattern_text));
	for (size_t i = 0; i < field->words.n; i++)
		json_array_append_new(values, json_string(field->words.v[i]));
	for (size_t i = 0; i < field->n_numbers; i++)
		json_array_append_new(values, json_integer(field->numbers[i]));
	if (json_array_size(values))
		json_object_set(schema, "enum", values);
	json_decref(values);
	return schema;
}

json_t *input_schema(const struct gwconf_tool *tool)
{
	json_t *properties = json_object(), *required = json_array();

	for (size_t i = 0; i < tool->n_fields; i++) {
		json_object_set_new(properties, tool->fields[i].name,
				    field_schema(&tool->fields[i]));
		if (tool->fields[i].required)
			json_array_append_new(required, json_string(tool->fields[i].name));
	}
	return json_pack("{s:s,s:o,s:o,s:b}", "type", "object", "properties", properties,
			 "required", required, "additionalProperties", 0);
}
