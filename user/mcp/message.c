// SPDX-License-Identifier: Apache-2.0
/* See mcp.h. Fails closed: what is not wholly as JSON-RPC 2.0 has it is a fault, and nothing of it is acted upon. */
#include "mcp/mcp.h"

#include <string.h>
#include <strings.h>

#include "util/util.h"

/* The newest first. */
static const char *const versions[] = { "2025-11-25", "2025-06-18" };

bool mcp_version_known(const char *text, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (strlen(versions[i]) == size && !memcmp(versions[i], text, size))
			return true;
	return false;
}

const char *mcp_version_choose(const char *asked)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (!strcmp(versions[i], asked))
			return versions[i];
	return versions[0];
}

/* --- reading ---------------------------------------------------------------------------------- */

static void fault(struct mcp_message *message, enum mcp_code code, const char *reason)
{
	message->kind = MCP_FAULT;
	message->code = code;
	message->reason = reason;
}

static bool id_is_good(const json_t *id)
{
	return json_is_integer(id) || (json_is_string(id) && json_string_length(id) <= MCP_ID_MAX);
}

static bool parse(const char *body, size_t size, struct mcp_message *message)
{
	json_error_t error;

	if (!util_json_is_shallow(body, size, MCP_DEPTH_MAX)) {
		fault(message, MCP_PARSE_ERROR, "nested too deeply");
		return false;
	}
	message->root = json_loadb(body, size, JSON_REJECT_DUPLICATES, &error);
	if (!message->root) {
		fault(message, MCP_PARSE_ERROR,
		      json_error_code(&error) == json_error_duplicate_key ? "a member stands twice"
									  : "not JSON");
		return false;
	}
	if (json_is_array(message->root)) {
		fault(message, MCP_INVALID_REQUEST, "batches are not in the revisions spoken here");
		return false;
	}
	return true;
}

static void judge(struct mcp_message *message)
{
	const json_t *root = message->root;
	const json_t *version = json_object_get(root, "jsonrpc"), *id = json_object_get(root, "id");
	const json_t *method = json_object_get(root, "method");
	json_t *params = json_object_get(root, "params");
	bool answers = json_object_get(root, "result") || json_object_get(root, "error");

	if (id && id_is_good(id))
		message->id = id;
	if (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0) {
		fault(message, MCP_INVALID_REQUEST, "`jsonrpc` must be \"2.0\"");
	} else if (id && !message->id) {
		fault(message, MCP_INVALID_REQUEST,
		      "`id` must be a short string or a whole number");
	} else if (!method && id && answers) {
		message->kind = MCP_RESPONSE;
	} else if (!json_is_string(method) || answers) {
		fault(message, MCP_INVALID_REQUEST, "neither a request nor a notification");
	} else if (params && !json_is_object(params)) {
		fault(message, MCP_INVALID_REQUEST, "`params` must be an object");
	} else {
		message->kind = id ? MCP_REQUEST : MCP_NOTIFICATION;
		message->method = json_string_value(method);
		message->params = params;
	}
}

void mcp_message_read(const char *body, size_t size, struct mcp_message *ret_message)
{
	memset(ret_message, 0, sizeof(*ret_message));
	if (parse(body, size, ret_message))
		judge(ret_message);
}

void mcp_message_release(struct mcp_message *message)
{
	json_decref(message->root);
	memset(message, 0, sizeof(*message));
}

bool mcp_call_read(const struct mcp_message *message, const char **ret_name, json_t **ret_arguments,
		   const char **ret_reason)
{
	const json_t *name = json_object_get(message->params, "name");

	*ret_arguments = json_object_get(message->params, "arguments");
	*ret_name = json_string_value(name);
	*ret_reason = !*ret_name ? "`name` must be the name of a tool"
		      : *ret_arguments && !json_is_object(*ret_arguments)
			      ? "`arguments` must be an object"
			      : NULL;
	return !*ret_reason;
}

/* One item of Accept, without what follows its semicolon: blanks around it do not count. */
static bool range_is(const char *p, size_t n, const char *word)
{
	const char *semicolon = memchr(p, ';', n);

	n = semicolon ? (size_t)(semicolon - p) : n;
	while (n && (p[0] == ' ' || p[0] == '\t')) {
		p++;
		n--;
	}
	while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	return strlen(word) == n && !strncasecmp(p, word, n);
}

bool mcp_accepts_json(const char *text, size_t size)
{
	const char *end;

	if (!text)
		return true;
	end = text + size;
	while (text < end) {
		const char *comma = memchr(text, ',', (size_t)(end - text));
		size_t n = (size_t)((comma ? comma : end) - text);

		if (range_is(text, n, "application/json") || range_is(text, n, "application/*") ||
		    range_is(text, n, "*/*"))
			return true;
		text = comma ? comma + 1 : end;
	}
	return false;
}

/* --- answering -------------------------------------------------------------------------------- */

/* Takes what over: the member NAME of an answer. */
static char *print(const json_t *id, const char *name, json_t *what)
{
	json_t *root = what ? json_object() : NULL;
	char *text = NULL;

	if (root && json_object_set_new(root, "jsonrpc", json_string("2.0")) == 0 &&
	    json_object_set_new(root, "id", id ? json_deep_copy(id) : json_null()) == 0 &&
	    json_object_set(root, name, what) == 0)
		text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	json_decref(what);
	return text;
}

char *mcp_print_result(const json_t *id, json_t *result)
{
	return print(id, "result", result);
}

char *mcp_print_error(const json_t *id, enum mcp_code code, const char *text, json_t *data)
{
	return print(id, "error",
		     json_pack("{s:i,s:s,s:o*}", "code", (int)code, "message", text, "data", data));
}

json_t *mcp_call_result(const char *answer, size_t size, const char *note, bool is_error)
{
	json_t *structured = json_loadb(answer, size, 0, NULL), *content;
	_cleanup_free_ char *text = NULL;

	while (size && answer[size - 1] == '\n')
		size--;
	if (asprintf(&text, "%s%s%.*s", note ? note : "", note ? "\n" : "", (int)size, answer) < 0)
		text = NULL;
	content = text ? json_pack("[{s:s,s:s}]", "type", "text", "text", text) : NULL;
	if (!content) {
		json_decref(structured);
		return NULL;
	}
	return json_pack("{s:o,s:o*,s:b}", "content", content, "structuredContent", structured,
			 "isError", is_error);
}
