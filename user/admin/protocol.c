// SPDX-License-Identifier: Apache-2.0
/* See protocol.h. No privilege; what comes in is hostile. */
#include "admin/protocol.h"

#include <string.h>

#include "control/control.h"

#define T CONTROL_TEXT
#define N CONTROL_NUMBER
#define B CONTROL_FLAG

static const struct control_member members[] = {
#define M(name, type, min, max) { #name, type, min, max },
	ADMIN_MEMBERS(M)
#undef M
};

static const struct control_verb requests[] = {
#define R(id, name, need, required, optional, one) { name, need, required, optional, one },
	ADMIN_REQUESTS(R)
#undef R
};

static const struct control_table table = {
	.who = "this gateway",
	.members = members,
	.n_members = ARRAY_SIZE(members),
	.verbs = requests,
	.n_verbs = ARRAY_SIZE(requests),
	.size_max = ADMIN_REQUEST_MAX,
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

static void member_take(struct admin_request *r, int m, const json_t *value)
{
	if (members[m].type == T)
		snprintf(r->text[m], sizeof(r->text[m]), "%s", json_string_value(value));
	else
		r->number[m] =
			members[m].type == N ? json_integer_value(value) : json_is_true(value);
	r->has |= 1U << m;
}

int admin_request_parse(const char *line, size_t size, struct admin_request *ret_request,
			struct error *error)
{
	json_t *root;
	int verb, err = control_parse(&table, line, size, &verb, &root, error);

	memset(ret_request, 0, sizeof(*ret_request));
	if (err)
		return err;
	ret_request->verb = (enum admin_verb)verb;
	for (int m = 0; m < ADMIN_MEMBERS_N; m++) {
		const json_t *value = json_object_get(root, members[m].name);

		if (value)
			member_take(ret_request, m, value);
	}
	json_decref(root);
	return 0;
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
