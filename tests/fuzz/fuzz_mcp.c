// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target of the Model Context Protocol's messages: whatever the bytes, there is one kind, what was promised of it holds,
 * and the answer is JSON with the id of the request. The first line may be an Accept header. The corpus is tests/fuzz/corpus/mcp.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise stops the run like a crash does. */
#define MUST(condition)                   \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

static void judge_answer(char *text, const json_t *id, const char *member)
{
	json_t *root = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	const json_t *got = json_object_get(root, "id");

	MUST(json_is_object(root) && json_object_get(root, member));
	MUST(id ? json_equal(got, id) : json_is_null(got));
	json_decref(root);
	free(text);
}

static void judge_call(const struct mcp_message *message, const char *body, size_t size)
{
	const char *name, *reason;
	json_t *arguments;

	if (mcp_call_read(message, &name, &arguments, &reason))
		MUST(name && (!arguments || json_is_object(arguments)));
	else
		MUST(reason && reason[0]);
	/* A gateway's answer is JSON; one that is not must not break the result. */
	judge_answer(mcp_print_result(message->id,
				      mcp_call_result("{\"status\":\"ok\"}\n", 16, NULL, false)),
		     message->id, "result");
	json_decref(mcp_call_result(body, size, "note", true));
}

static void judge_message(const char *body, size_t size)
{
	struct mcp_message message;

	mcp_message_read(body, size, &message);
	switch (message.kind) {
	case MCP_FAULT:
		MUST(message.code < 0 && message.reason && message.reason[0]);
		judge_answer(mcp_print_error(message.id, message.code, message.reason, NULL),
			     message.id, "error");
		break;
	case MCP_REQUEST:
		MUST(message.id && message.method);
		MUST(!message.params || json_is_object(message.params));
		MUST(!json_is_string(message.id) || json_string_length(message.id) <= MCP_ID_MAX);
		MUST(mcp_version_known(mcp_version_choose(message.method), 10));
		judge_call(&message, body, size);
		break;
	case MCP_NOTIFICATION:
		MUST(!message.id && message.method);
		break;
	case MCP_RESPONSE:
		MUST(message.id && !message.method);
		break;
	}
	mcp_message_release(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *line = size ? memchr(text, '\n', size) : NULL;

	if (size > 1 && text[0] == '#' && line) {
		size_t n = (size_t)(line - text - 1);
		char *copy = malloc(n + 1);

		MUST(copy);
		memcpy(copy, text + 1, n);
		mcp_accepts_json(copy, n);
		free(copy);
		size -= (size_t)(line + 1 - text);
		text = line + 1;
	}
	/* A buffer of its own, so that a byte too many is seen. */
	char *copy = malloc(size ? size : 1);

	MUST(copy);
	memcpy(copy, text, size);
	judge_message(copy, size);
	free(copy);
	return 0;
}
