// SPDX-License-Identifier: Apache-2.0
/*
 * Which request is what: a table of paths, then the tools. Only POST to a tool can change anything.
 * Everything but /health asks for a fence.
 */
#include <jansson.h>
#include <string.h>

#include "admin/report.h"
#include "broker/canary.h"
#include "gateway/call.h"
#include "gateway/input.h"

bool caller_is_known(const struct request *request)
{
	if (request->caller &&
	    identity_alive(request->gateway->identity, request->caller->id.fence_id))
		return true;
	conn_refuse(request->conn, LEDGER_UNAUTHENTICATED,
		    "this connection was not made by a living fence");
	return false;
}

/* --- GET /tools ------------------------------------------------------------------------------- */

static json_t *describe_tool(const struct gwconf_tool *tool)
{
	json_t *routes = json_array();
	char path[80];

	snprintf(path, sizeof(path), "/tools/%s", tool->name);
	json_array_append_new(routes, json_string(path));
	for (size_t i = 0; i < tool->routes.n; i++)
		json_array_append_new(routes, json_string(tool->routes.v[i]));
	return json_pack("{s:s,s:s*,s:o,s:s,s:o}", "name", tool->name, "description", tool->doc,
			 "routes", routes, "scope", tool->scope, "input", input_schema(tool));
}

static void get_tools(const struct request *request, const struct head_text *rest)
{
	json_t *tools = json_array(), *root;
	char *text;

	(void)rest;
	if (!caller_is_known(request)) {
		json_decref(tools);
		return;
	}
	for (size_t i = 0; i < request->setup->n_tools; i++)
		if (caller_has_scope(&request->caller->id, request->setup->tools[i].conf->scope))
			json_array_append_new(tools, describe_tool(request->setup->tools[i].conf));
	root = json_pack("{s:o}", "tools", tools);
	text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	json_decref(root);
	if (text)
		conn_answer(request->conn, 200, text, strlen(text));
	else
		conn_refuse(request->conn, LEDGER_OVERLOADED, "out of memory");
	free(text);
}

/* --- the others ------------------------------------------------------------------------------- */

static void get_approval(const struct request *request, const struct head_text *rest)
{
	if (caller_is_known(request))
		approval_start(request, rest->p, rest->n);
}

static void get_health(const struct request *request, const struct head_text *rest)
{
	static const char ok[] = "{\"status\":\"ok\"}\n";

	(void)rest;
	/* The cause is for the log: whoever asks learns that there is one. */
	if (ledger_health(request->gateway->ledger, NULL) < 0 ||
	    report_ready(request->gateway->report) < 0)
		conn_refuse(request->conn, LEDGER_UNAVAILABLE, "decisions cannot be recorded");
	else
		conn_answer(request->conn, 200, ok, sizeof(ok) - 1);
}

static const struct route {
	const char *path; /* ends with / when something follows */
	void (*get)(const struct request *request, const struct head_text *rest);
} routes[] = {
	{ "/tools", get_tools },
	{ "/approvals/", get_approval },
	{ "/health", get_health },
};

/* The route of a path, and what follows it. */
static const struct route *route_find(const struct head_text *path, struct head_text *ret_rest)
{
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		size_t n = strlen(routes[i].path);
		bool open = routes[i].path[n - 1] == '/';

		if (path->n < n || memcmp(path->p, routes[i].path, n) != 0 ||
		    (!open && path->n > n) ||
		    (open && (path->n == n || memchr(path->p + n, '/', path->n - n))))
			continue;
		*ret_rest = (struct head_text){ path->p + n, path->n - n };
		return &routes[i];
	}
	return NULL;
}

/*
 * Before anything is looked at that costs more than the answer. Who watches over the gateway asks for /health, which costs
 * nothing, and must not be crowded out by others that are no fence.
 */
static bool within_rate(const struct request *request, const struct route *route)
{
	const struct gwconf *conf = request->setup->conf;

	if ((route && route->get == get_health) ||
	    share_admit(request->share, conf->rate, conf->burst))
		return true;
	conn_refuse(request->conn, LEDGER_RATE_LIMITED, NULL);
	return false;
}

/* Of the gateway's own, what goes further is the body and the key: to databases, upstreams and people. */
static bool is_free_of_canaries(const struct request *request)
{
	const struct head_text *key = &request->head->idempotency_key;
	const char *whose = canaries_find(request->setup->canaries, request->body, request->body_n);
	char action[300], reason[100];
	struct report_row row = {
		.op = CORDON_OP_CALL,
		.code = LEDGER_PLACEHOLDER_SEEN,
		.caller = request->caller ? &request->caller->id : NULL,
		.reason = reason,
		.gateway = { .action = action, .upstream_status = -1, .latency_us = 0 },
	};

	if (!whose && key->p)
		whose = canaries_find(request->setup->canaries, key->p, key->n);
	if (!whose || !request->caller)
		return true;
	snprintf(reason, sizeof(reason), "that of upstream %s", whose);
	snprintf(action, sizeof(action), "%.*s %.*s", (int)request->head->name.n,
		 request->head->name.p,
		 (int)(request->head->path.n < 256 ? request->head->path.n : 256),
		 request->head->path.p);
	report_write(request->gateway->report, &row);
	conn_refuse(request->conn, LEDGER_PLACEHOLDER_SEEN, reason);
	return false;
}

void route_handle(const struct request *request)
{
	const struct head_text *path = &request->head->path;
	const struct tool *tool = setup_find_route(request->setup, path->p, path->n);
	const struct route *route;
	struct head_text rest;

	route = tool ? NULL : route_find(path, &rest);
	if (!within_rate(request, route))
		return;
	if (request->head->up) {
		up_handle(request);
		return;
	}
	if (!is_free_of_canaries(request))
		return;
	if (head_text_is(path, "/mcp")) {
		mcp_handle(request);
		return;
	}
	if (tool && request->head->method == HEAD_METHOD_POST) {
		call_start(request, tool, NULL);
		return;
	}
	if (route && request->head->method == HEAD_METHOD_GET)
		route->get(request, &rest);
	else if (route || tool)
		conn_refuse(request->conn, LEDGER_METHOD_NOT_ALLOWED,
			    tool ? "tools are called by POST" : "this is read by GET");
	else
		conn_refuse(request->conn, LEDGER_NOT_FOUND, NULL);
}
