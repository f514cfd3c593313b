// SPDX-License-Identifier: Apache-2.0
/*
 * The Model Context Protocol at /mcp, so that an agent that speaks it uses the tools without code of its own. Streamable HTTP
 * in its smallest form: each POST is answered with JSON, there is no stream to GET and no session to DELETE, because who
 * calls is known by the kernel and nothing is kept between requests. A call goes the way of POST /tools/NAME, phase by
 * phase; only its answer is worded otherwise. Fails closed: what the transport or JSON-RPC cannot read reaches no tool.
 */
#include "mcp/mcp.h"

#include <string.h>

#include "gateway/call.h"
#include "gateway/refusal.h"
#include "gateway/input.h"

#define INSTRUCTIONS                                                                              \
	"Tools act on the real world, once per idempotency key. Use a new key for each action, "  \
	"and the same key with the same arguments to repeat one whose answer you did not get. "   \
	"A refusal says `retry`: never (do not ask again), changed (correct the arguments), "     \
	"same_key (repeat later as it is), none. `pending_approval` means that nothing was done " \
	"yet: a human decides; repeat the same call to learn what became of it."

/* --- the transport's answers ------------------------------------------------------------------ */

/* Takes text over. */
static void send_text(const struct request *request, int status, const char *headers, char *text)
{
	if (text)
		conn_answer_with(request->conn, status, headers, text, strlen(text));
	else
		conn_refuse(request->conn, LEDGER_OVERLOADED, "out of memory");
	free(text);
}

/* The error of JSON-RPC says in its data what every refusal says. */
static char *print_fault(const json_t *id, enum mcp_code code, enum ledger_code why,
			 const char *reason)
{
	return mcp_print_error(id, code, reason, refusal_json(why, reason));
}

static void send_fault(const struct request *request, int status, const json_t *id,
		       enum mcp_code code, const char *reason)
{
	enum ledger_code why = code == MCP_METHOD_NOT_FOUND ? LEDGER_METHOD_NOT_ALLOWED
			       : code == MCP_INVALID_PARAMS ? LEDGER_INVALID_REQUEST
							    : LEDGER_MALFORMED_REQUEST;

	send_text(request, status, "", print_fault(id, code, why, reason));
}

/* What is wrong with the request as the transport sees it: its status, 0 for nothing. */
static int judge_transport(const struct request *request, const char **ret_reason)
{
	const struct head *head = request->head;
	struct head_text value;
	unsigned int n;

	/* No page of the web is an agent of ours: what a browser sends names its origin. */
	if (head_find(head, "Origin", &value)) {
		*ret_reason = "requests that state an Origin are refused";
		return 403;
	}
	if (head->method != HEAD_METHOD_POST) {
		*ret_reason = "POST only: no stream is offered, and there are no sessions";
		return 405;
	}
	if (head_find(head, "Mcp-Session-Id", &value)) {
		*ret_reason = "there are no sessions here; initialize without one";
		return 404;
	}
	n = head_find(head, "MCP-Protocol-Version", &value);
	if (n > 1 || (n == 1 && !mcp_version_known(value.p, value.n))) {
		*ret_reason = "MCP-Protocol-Version: 2025-11-25 and 2025-06-18 are spoken here";
		return 400;
	}
	n = head_find(head, "Accept", &value);
	if (n > 1 || (n == 1 && !mcp_accepts_json(value.p, value.n))) {
		*ret_reason = "answers are application/json";
		return 406;
	}
	return 0;
}

/* --- methods ---------------------------------------------------------------------------------- */

static void do_initialize(const struct request *request, const struct mcp_message *message)
{
	const char *version =
		json_string_value(json_object_get(message->params, "protocolVersion"));

	if (!version) {
		send_fault(request, 200, message->id, MCP_INVALID_PARAMS,
			   "`protocolVersion` must be a string");
		return;
	}
	send_text(request, 200, "",
		  mcp_print_result(message->id,
				   json_pack("{s:s,s:{s:{}},s:{s:s,s:s},s:s}", "protocolVersion",
					     mcp_version_choose(version), "capabilities", "tools",
					     "serverInfo", "name", "cordon-gateway", "version",
					     CORDON_VERSION, "instructions", INSTRUCTIONS)));
}

static void do_ping(const struct request *request, const struct mcp_message *message)
{
	send_text(request, 200, "", mcp_print_result(message->id, json_object()));
}

/* The key is a member like others to the tool, where a header may stand for it; here it is asked for. */
static json_t *schema_with_key(const struct gwconf_tool *tool)
{
	json_t *schema = input_schema(tool), *required = json_object_get(schema, "required");
	const struct gwconf_field *key = &tool->fields[tool->key];

	if (!key->required)
		json_array_append_new(required, json_string(key->name));
	if (!key->doc)
		json_object_set_new(
			json_object_get(json_object_get(schema, "properties"), key->name),
			"description",
			json_string("idempotency key: a new one for each action, the same one to "
				    "repeat it"));
	return schema;
}

static json_t *describe(const struct gwconf_tool *tool)
{
	return json_pack("{s:s,s:s*,s:o,s:{s:b,s:b,s:b,s:b}}", "name", tool->name, "description",
			 tool->doc, "inputSchema", schema_with_key(tool), "annotations",
			 "readOnlyHint", 0, "destructiveHint", tool->destructive, "idempotentHint",
			 1, "openWorldHint", tool->executor == GWCONF_EXEC_HTTP);
}

static void do_list(const struct request *request, const struct mcp_message *message)
{
	json_t *tools;

	/* All are on the first page, so no cursor was ever given out. */
	if (json_object_get(message->params, "cursor")) {
		send_fault(request, 200, message->id, MCP_INVALID_PARAMS, "no such cursor");
		return;
	}
	tools = json_array();
	for (size_t i = 0; i < request->setup->n_tools; i++) {
		const struct gwconf_tool *tool = request->setup->tools[i].conf;

		if (caller_has_scope(&request->caller->id, tool->scope))
			json_array_append_new(tools, describe(tool));
	}
	send_text(request, 200, "",
		  mcp_print_result(message->id, json_pack("{s:o}", "tools", tools)));
}

/* --- tools/call ------------------------------------------------------------------------------- */

struct voice {
	struct call_voice voice; /* first */
	json_t *id;
};

static void voice_free(struct call_voice *base)
{
	struct voice *voice = (struct voice *)base;

	json_decref(voice->id);
	free(voice);
}

/* Whoever is not known is told by HTTP, as the protocol has it; every other decision is the tool's result. */
static void voice_say(struct call_voice *base, struct conn *conn, enum ledger_code code,
		      const char *text, size_t n)
{
	const struct voice *voice = (const struct voice *)base;
	bool held = code == LEDGER_PENDING_APPROVAL;
	bool done = code == LEDGER_OK || code == LEDGER_DUPLICATE;
	_cleanup_free_ char *out = NULL;

	if (code == LEDGER_UNAUTHENTICATED)
		out = mcp_print_error(voice->id, MCP_REFUSED, ledger_code_info(code)->name,
				      json_loadb(text, n, 0, NULL));
	else
		out = mcp_print_result(
			voice->id,
			mcp_call_result(text, n,
					held ? "Nothing was done yet: a human has to approve this. "
					       "Repeat the call with the same arguments and key to "
					       "learn what became of it."
					     : NULL,
					!done && !held));
	if (!out)
		conn_refuse(conn, LEDGER_OVERLOADED, "out of memory");
	else
		conn_answer(conn, code == LEDGER_UNAUTHENTICATED ? 401 : 200, out, strlen(out));
}

static void do_call(const struct request *request, const struct mcp_message *message)
{
	const char *name, *reason;
	json_t *arguments;
	const struct tool *tool;
	struct request call = *request;
	struct voice *voice;
	char *body;

	if (!mcp_call_read(message, &name, &arguments, &reason)) {
		send_fault(request, 200, message->id, MCP_INVALID_PARAMS, reason);
		return;
	}
	tool = setup_find_tool(request->setup, name);
	if (!tool) {
		send_text(request, 200, "",
			  print_fault(message->id, MCP_INVALID_PARAMS, LEDGER_TOOL_UNKNOWN,
				      "no such tool; tools/list names them"));
		return;
	}
	voice = calloc(1, sizeof(*voice));
	body = arguments ? json_dumps(arguments, JSON_COMPACT) : strdup("{}");
	if (!voice || !body) {
		free(voice);
		free(body);
		conn_refuse(request->conn, LEDGER_OVERLOADED, "out of memory");
		return;
	}
	voice->voice.say = voice_say;
	voice->voice.free = voice_free;
	voice->id = json_deep_copy(message->id);
	call.body = body;
	call.body_n = strlen(body);
	call_start(&call, tool, &voice->voice);
	free(body);
}

/* known: asks for a fence before it answers; a call is judged, and written down, by the phases of calls. */
static const struct method {
	const char *name;
	void (*run)(const struct request *request, const struct mcp_message *message);
	bool known;
} methods[] = {
	{ "initialize", do_initialize, true },
	{ "ping", do_ping, true },
	{ "tools/list", do_list, true },
	{ "tools/call", do_call, false },
};

static void run_method(const struct request *request, const struct mcp_message *message)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strcmp(methods[i].name, message->method) != 0)
			continue;
		if (!methods[i].known || caller_is_known(request))
			methods[i].run(request, message);
		return;
	}
	send_fault(request, 200, message->id, MCP_METHOD_NOT_FOUND,
		   "there are initialize, ping, tools/list and tools/call");
}

void mcp_handle(const struct request *request)
{
	const char *reason;
	int status = judge_transport(request, &reason);
	struct mcp_message message;

	if (status) {
		send_text(request, status, status == 405 ? "Allow: POST\r\n" : "",
			  print_fault(NULL, MCP_REFUSED,
				      status == 403 ? LEDGER_ORIGIN_REFUSED
						    : refusal_of_status(status),
				      reason));
		return;
	}
	mcp_message_read(request->body, request->body_n, &message);
	if (message.kind == MCP_FAULT)
		send_fault(request, 400, message.id, message.code, message.reason);
	else if (message.kind == MCP_REQUEST)
		run_method(request, &message);
	else if (caller_is_known(request))
		conn_answer(request->conn, 202, "", 0);
	mcp_message_release(&message);
}
