// SPDX-License-Identifier: Apache-2.0
/* See protocol.h. No privilege; what comes in is hostile. */
#include "cordond/protocol.h"

#include <string.h>

static const struct control_member members[] = {
#define M(name, type, min, max) { #name, CONTROL_##type, min, max },
	CORDOND_MEMBERS(M)
#undef M
};

static const struct control_verb requests[] = {
#define R(id, name, need, required, optional) { name, need, required, optional, 0 },
	CORDOND_REQUESTS(R)
#undef R
};

static const struct control_table table = {
	.who = "cordond",
	.members = members,
	.n_members = ARRAY_SIZE(members),
	.verbs = requests,
	.n_verbs = ARRAY_SIZE(requests),
	.size_max = CORDOND_REQUEST_MAX,
};

int cordond_request_parse(const char *line, size_t size, struct cordond_request *ret_request,
			  struct error *error)
{
	int verb = 0, err;

	memset(ret_request, 0, sizeof(*ret_request));
	err = control_parse(&table, line, size, &verb, &ret_request->root, error);
	ret_request->verb = (enum cordond_verb)verb;
	return err;
}

void cordond_request_clear(struct cordond_request *request)
{
	json_decref(request->root);
	request->root = NULL;
}

unsigned int cordond_verb_need(enum cordond_verb verb)
{
	return requests[verb].need;
}

const char *cordond_verb_name(enum cordond_verb verb)
{
	return requests[verb].name;
}

static const json_t *member(const struct cordond_request *request, enum cordond_member member)
{
	return json_object_get(request->root, members[member].name);
}

const char *cordond_text(const struct cordond_request *request, enum cordond_member m)
{
	return json_string_value(member(request, m));
}

int64_t cordond_number(const struct cordond_request *request, enum cordond_member m)
{
	return json_integer_value(member(request, m));
}

bool cordond_flag(const struct cordond_request *request, enum cordond_member m)
{
	return json_is_true(member(request, m));
}
