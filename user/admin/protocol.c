// SPDX-License-Identifier: Apache-2.0
/* See protocol.h. No privilege; what comes in is hostile. */
#include "admin/protocol.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

enum type { T, N, B };

static const struct {
	const char *name;
	enum type type;
	int64_t min, max;
} members[] = {
#define M(name, type, min, max) { #name, type, min, max },
	ADMIN_MEMBERS(M)
#undef M
};

static const struct {
	const char *name;
	unsigned int need, required, optional, one;
} requests[] = {
#define R(id, name, need, required, optional, one) { name, need, required, optional, one },
	ADMIN_REQUESTS(R)
#undef R
};

const char *admin_text(const struct admin_request *request, enum admin_member member)
{
	return request->has & 1U << member ? request->text[member] : NULL;
}

const char *admin_verb_name(enum admin_verb verb)
{
	return requests[verb].name;
}

unsigned int admin_verb_need(enum admin_verb verb)
{
	return requests[verb].need;
}

static int verb_find(const char *name)
{
	for (int i = 0; name && i < ADMIN_DO_N; i++)
		if (!strcmp(requests[i].name, name))
			return i;
	return -1;
}

static bool text_is_plain(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

static int member_read(const json_t *value, int m, struct admin_request *r, struct error *error)
{
	const char *text = json_string_value(value);
	int64_t number = json_integer_value(value);

	switch (members[m].type) {
	case T:
		if (!text || (int64_t)strlen(text) < members[m].min ||
		    (int64_t)strlen(text) > members[m].max || !text_is_plain(text))
			return error_set(error, EINVAL,
					 "%s: 1 to %lld bytes of text without control characters",
					 members[m].name, (long long)members[m].max);
		strcpy(r->text[m], text);
		break;
	case N:
		if (!json_is_integer(value) || number < members[m].min || number > members[m].max)
			return error_set(error, EINVAL, "%s: a number from %lld to %lld",
					 members[m].name, (long long)members[m].min,
					 (long long)members[m].max);
		r->number[m] = number;
		break;
	case B:
		if (!json_is_boolean(value))
			return error_set(error, EINVAL, "%s: true or false", members[m].name);
		r->number[m] = json_is_true(value);
		break;
	}
	r->has |= 1U << m;
	return 0;
}

static int member_find(const char *name)
{
	for (int m = 0; m < ADMIN_MEMBERS_N; m++)
		if (!strcmp(members[m].name, name))
			return m;
	return -1;
}

/* Does the request have what its row asks for? */
static int members_judge(const struct admin_request *r, struct error *error)
{
	unsigned int required = requests[r->verb].required, one = requests[r->verb].one;
	char names[128] = "";
	int n = 0;

	for (int m = 0; m < ADMIN_MEMBERS_N; m++)
		if (required & 1U << m && !(r->has & 1U << m))
			return error_set(error, EINVAL, "%s needs %s", requests[r->verb].name,
					 members[m].name);
	if (one && __builtin_popcount(r->has & one) != 1) {
		for (int m = 0; m < ADMIN_MEMBERS_N && n < (int)sizeof(names); m++)
			if (one & 1U << m)
				n += snprintf(names + n, sizeof(names) - (size_t)n, "%s%s",
					      n ? ", " : "", members[m].name);
		return error_set(error, EINVAL, "%s needs exactly one of: %s",
				 requests[r->verb].name, names);
	}
	return 0;
}

static int object_read(const json_t *root, struct admin_request *r, struct error *error)
{
	const char *name;
	json_t *value;
	int verb = verb_find(json_string_value(json_object_get(root, "do"))), err = 0;
	unsigned int known;

	if (verb < 0)
		return error_set(error, EINVAL, "`do` names no request of this gateway");
	r->verb = (enum admin_verb)verb;
	known = requests[verb].required | requests[verb].optional | requests[verb].one;
	json_object_foreach((json_t *)root, name, value)
	{
		int m = member_find(name);

		if (!strcmp(name, "do"))
			continue;
		if (m < 0 || !(known & 1U << m))
			return error_set(error, EINVAL, "%s has a member that it does not know",
					 requests[verb].name);
		err = member_read(value, m, r, error);
		if (err)
			return err;
	}
	return members_judge(r, error);
}

int admin_request_parse(const char *line, size_t size, struct admin_request *ret_request,
			struct error *error)
{
	json_t *root;
	int err;

	memset(ret_request, 0, sizeof(*ret_request));
	if (size > ADMIN_REQUEST_MAX)
		return error_set(error, EINVAL, "longer than %d bytes", ADMIN_REQUEST_MAX);
	root = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(root)) {
		json_decref(root);
		return error_set(error, EINVAL, "not a JSON object");
	}
	err = object_read(root, ret_request, error);
	json_decref(root);
	return err;
}

char *admin_request_format(const struct admin_request *r)
{
	json_t *root = json_pack("{s:s}", "do", requests[r->verb].name);
	char *text = NULL, *line = NULL;
	bool good = root;

	for (int m = 0; good && m < ADMIN_MEMBERS_N; m++) {
		if (!(r->has & 1U << m))
			continue;
		good = !json_object_set_new(root, members[m].name,
					    members[m].type == T   ? json_string(r->text[m])
					    : members[m].type == N ? json_integer(r->number[m])
								   : json_boolean(r->number[m]));
	}
	if (good)
		text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	if (text && asprintf(&line, "%s\n", text) < 0)
		line = NULL;
	free(text);
	return line;
}
