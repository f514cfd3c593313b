// SPDX-License-Identifier: Apache-2.0
/* Requests by a table; see control.h. Pure: bytes in, a tree or a fault out. */
#include "control/control.h"

#include <errno.h>
#include <string.h>

static int verb_find(const struct control_table *table, const char *name)
{
	for (size_t i = 0; name && i < table->n_verbs; i++)
		if (!strcmp(table->verbs[i].name, name))
			return (int)i;
	return -1;
}

static int member_find(const struct control_table *table, const char *name)
{
	for (size_t m = 0; m < table->n_members; m++)
		if (!strcmp(table->members[m].name, name))
			return (int)m;
	return -1;
}

static bool text_is_plain(const char *text, bool body)
{
	for (; *text; text++)
		if (((unsigned char)*text < 0x20 &&
		     !(body && strchr("\n\r\t", *text))) || /* not NUL: the loop ended */
		    *text == 0x7f)
			return false;
	return true;
}

static int value_judge(const struct control_member *member, const json_t *value,
		       struct error *error)
{
	const char *text = json_string_value(value);
	int64_t number = json_integer_value(value);

	switch (member->type) {
	case CONTROL_TEXT:
	case CONTROL_BODY:
		if (text && (int64_t)json_string_length(value) >= member->min &&
		    (int64_t)json_string_length(value) <= member->max &&
		    text_is_plain(text, member->type == CONTROL_BODY))
			return 0;
		return error_set(error, EINVAL,
				 "%s: %lld to %lld bytes of text without control characters",
				 member->name, (long long)member->min, (long long)member->max);
	case CONTROL_NUMBER:
		if (json_is_integer(value) && number >= member->min && number <= member->max)
			return 0;
		return error_set(error, EINVAL, "%s: a number from %lld to %lld", member->name,
				 (long long)member->min, (long long)member->max);
	default:
		return json_is_boolean(value)
			       ? 0
			       : error_set(error, EINVAL, "%s: true or false", member->name);
	}
}

/* Does the request have what its row asks for? */
static int members_judge(const struct control_table *table, const struct control_verb *verb,
			 unsigned int has, struct error *error)
{
	char names[128] = "";
	int n = 0;

	for (size_t m = 0; m < table->n_members; m++)
		if (verb->required & 1U << m && !(has & 1U << m))
			return error_set(error, EINVAL, "%s needs %s", verb->name,
					 table->members[m].name);
	if (!verb->one || __builtin_popcount(has & verb->one) == 1)
		return 0;
	for (size_t m = 0; m < table->n_members && n < (int)sizeof(names); m++)
		if (verb->one & 1U << m)
			n += snprintf(names + n, sizeof(names) - (size_t)n, "%s%s", n ? ", " : "",
				      table->members[m].name);
	return error_set(error, EINVAL, "%s needs exactly one of: %s", verb->name, names);
}

static int object_judge(const struct control_table *table, json_t *root, int *ret_verb,
			struct error *error)
{
	int i = verb_find(table, json_string_value(json_object_get(root, "do"))), err = 0;
	unsigned int known, has = 0;
	const char *name;
	json_t *value;

	if (i < 0)
		return error_set(error, EINVAL, "`do` names no request of %s", table->who);
	known = table->verbs[i].required | table->verbs[i].optional | table->verbs[i].one;
	json_object_foreach(root, name, value)
	{
		int m = member_find(table, name);

		if (!strcmp(name, "do"))
			continue;
		if (m < 0 || !(known & 1U << m))
			return error_set(error, EINVAL, "%s has a member that it does not know",
					 table->verbs[i].name);
		err = value_judge(&table->members[m], value, error);
		if (err)
			return err;
		has |= 1U << m;
	}
	*ret_verb = i;
	return members_judge(table, &table->verbs[i], has, error);
}

int control_parse(const struct control_table *table, const char *line, size_t size, int *ret_verb,
		  json_t **ret_root, struct error *error)
{
	json_t *root;
	int err;

	if (size > table->size_max)
		return error_set(error, EINVAL, "longer than %zu bytes", table->size_max);
	root = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(root)) {
		json_decref(root);
		return error_set(error, EINVAL, "not a JSON object");
	}
	err = object_judge(table, root, ret_verb, error);
	if (err)
		json_decref(root);
	else
		*ret_root = root;
	return err;
}
