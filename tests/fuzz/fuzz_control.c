// SPDX-License-Identifier: Apache-2.0
/* Requests on cordond's control socket: what is taken must be the same after it was written and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cordond/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every member that the table has is within what it says. */
static void members_check(const struct cordond_request *r)
{
	const char *policy = cordond_text(r, CORDOND_policy), *task = cordond_text(r, CORDOND_task);
	int64_t ring = cordond_number(r, CORDOND_ring_bytes), pid = cordond_number(r, CORDOND_pid);
	int64_t rate = cordond_number(r, CORDOND_event_rate);

	if (r->verb >= CORDOND_DO_N || !cordond_verb_need(r->verb) ||
	    (policy && strlen(policy) > CORDOND_POLICY_MAX) ||
	    (task && (!task[0] || strlen(task) > 128)) || ring < 0 || pid < 0 || pid > INT32_MAX ||
	    rate < 0 || rate > 1000000)
		abort();
	for (const char *p = task; p && *p; p++)
		if ((unsigned char)*p < 0x20)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cordond_request first, second;
	struct error error = { "" };
	char *line;

	if (cordond_request_parse((const char *)data, size, &first, &error)) {
		if (!error.text[0])
			abort();
		cordond_request_clear(&first);
		return 0;
	}
	members_check(&first);
	line = json_dumps(first.root, JSON_COMPACT);
	if (!line)
		abort();
	/* Escapes may make it longer than what is taken. */
	if (!cordond_request_parse(line, strlen(line), &second, &error)) {
		if (first.verb != second.verb || !json_equal(first.root, second.root))
			abort();
		cordond_request_clear(&second);
	} else if (strlen(line) <= CORDOND_REQUEST_MAX) {
		abort();
	}
	free(line);
	cordond_request_clear(&first);
	return 0;
}
