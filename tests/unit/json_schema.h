/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checker for the part of JSON Schema (draft 2020-12) that docs/event.schema.json uses. A keyword
 * that it does not know is a fault of the schema, so that nothing goes unchecked. Stricter than the
 * standard in one way: a property that the schema does not name is a fault, because here the writer
 * is under test.
 */
#ifndef TESTS_JSON_SCHEMA_H
#define TESTS_JSON_SCHEMA_H

#include <jansson.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "util/util.h"

struct schema_fault {
	char text[512];
};

static bool schema_check(const json_t *schema, const json_t *value, bool strict,
			 struct schema_fault *fault);

static bool schema_fail(struct schema_fault *fault, const char *keyword, const json_t *value)
{
	_cleanup_free_ char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

	if (!fault->text[0])
		snprintf(fault->text, sizeof(fault->text), "%s: %s", keyword, text ? text : "?");
	return false;
}

static bool schema_type_is(const char *type, const json_t *value)
{
	if (strcmp(type, "integer") == 0)
		return json_is_integer(value);
	if (strcmp(type, "string") == 0)
		return json_is_string(value);
	if (strcmp(type, "object") == 0)
		return json_is_object(value);
	if (strcmp(type, "boolean") == 0)
		return json_is_boolean(value);
	return strcmp(type, "null") == 0 && json_is_null(value);
}

static bool schema_type(const json_t *types, const json_t *value)
{
	size_t i;
	json_t *type;

	if (json_is_string(types))
		return schema_type_is(json_string_value(types), value);
	json_array_foreach(types, i,
			   type) if (schema_type_is(json_string_value(type), value)) return true;
	return false;
}

static bool schema_enum(const json_t *words, const json_t *value)
{
	size_t i;
	json_t *word;

	json_array_foreach(words, i, word) if (json_equal(word, value)) return true;
	return false;
}

static bool schema_pattern(const json_t *pattern, const json_t *value)
{
	regex_t regex;
	bool match;

	if (!json_is_string(value))
		return true;
	if (regcomp(&regex, json_string_value(pattern), REG_EXTENDED | REG_NOSUB) != 0)
		return false;
	match = regexec(&regex, json_string_value(value), 0, NULL, 0) == 0;
	regfree(&regex);
	return match;
}

static bool schema_required(const json_t *names, const json_t *value)
{
	size_t i;
	json_t *name;

	json_array_foreach(names, i,
			   name) if (!json_object_get(value, json_string_value(name))) return false;
	return true;
}

static bool schema_properties(const json_t *properties, const json_t *value, bool strict,
			      struct schema_fault *fault)
{
	const char *key;
	json_t *member;

	json_object_foreach((json_t *)value, key, member)
	{
		const json_t *schema = json_object_get(properties, key);

		if (!schema && strict)
			return schema_fail(fault, key, member);
		if (schema && !schema_check(schema, member, strict, fault))
			return schema_fail(fault, key, member);
	}
	return true;
}

/* A condition only looks at the members that it names. */
static bool schema_condition(const json_t *schema, const json_t *value, struct schema_fault *fault)
{
	struct schema_fault ignored = { "" };

	if (!schema_check(json_object_get(schema, "if"), value, false, &ignored))
		return true;
	return schema_check(json_object_get(schema, "then"), value, false, fault);
}

static bool schema_all(const json_t *schemas, const json_t *value, struct schema_fault *fault)
{
	size_t i;
	json_t *schema;

	json_array_foreach(schemas, i,
			   schema) if (!schema_check(schema, value, false, fault)) return false;
	return true;
}

static bool schema_keyword(const json_t *schema, const char *keyword, const json_t *arg,
			   const json_t *value, bool strict, struct schema_fault *fault)
{
	if (keyword[0] == '$' || strcmp(keyword, "title") == 0 ||
	    strcmp(keyword, "description") == 0)
		return true;
	if (strcmp(keyword, "type") == 0)
		return schema_type(arg, value);
	if (strcmp(keyword, "const") == 0)
		return json_equal(arg, value);
	if (strcmp(keyword, "enum") == 0)
		return schema_enum(arg, value);
	if (strcmp(keyword, "pattern") == 0)
		return schema_pattern(arg, value);
	if (strcmp(keyword, "minimum") == 0)
		return !json_is_integer(value) ||
		       json_integer_value(value) >= json_integer_value(arg);
	if (strcmp(keyword, "maximum") == 0)
		return !json_is_integer(value) ||
		       json_integer_value(value) <= json_integer_value(arg);
	if (strcmp(keyword, "required") == 0)
		return schema_required(arg, value);
	if (strcmp(keyword, "properties") == 0)
		return schema_properties(arg, value, strict, fault);
	if (strcmp(keyword, "allOf") == 0)
		return schema_all(arg, value, fault);
	if (strcmp(keyword, "if") == 0)
		return schema_condition(schema, value, fault);
	return strcmp(keyword, "then") == 0; /* goes with if */
}

/* Is value as schema says? If not, fault says what is wrong. */
static bool schema_check(const json_t *schema, const json_t *value, bool strict,
			 struct schema_fault *fault)
{
	const char *keyword;
	json_t *arg;

	json_object_foreach((json_t *)schema, keyword,
			    arg) if (!schema_keyword(schema, keyword, arg, value, strict,
						     fault)) return schema_fail(fault, keyword,
										value);
	return true;
}

#endif
