/* SPDX-License-Identifier: Apache-2.0 */
/* What requests mean: routes, and the phases of a call. */
#ifndef CORDON_GATEWAY_CALL_H
#define CORDON_GATEWAY_CALL_H

#include "gateway/server.h"

/* Handles every request: tools, GET /tools, /approvals/ID, /health. */
server_handle_fn route_handle;

/* How a call is answered where not as HTTP's POST /tools/NAME is: made by who starts it, ended by free() with the call. */
struct call_voice {
	/* The answer: text is what POST would have answered, one line of JSON. In the worker's thread. */
	void (*say)(struct call_voice *voice, struct conn *conn, enum ledger_code code,
		    const char *text, size_t n);
	void (*free)(struct call_voice *voice);
};

/*
 * Begins a call of tool, setup's. Takes the request, whose body is the tool's input, through the phases; answers when it is
 * through. voice is taken over in every case; NULL: as HTTP.
 */
void call_start(const struct request *request, const struct tool *tool, struct call_voice *voice);

/* The Model Context Protocol: everything at /mcp. */
server_handle_fn mcp_handle;

/* Upstreams: everything below /up/. */
server_handle_fn up_handle;

/* Is the caller a fence that lives? Answers 401 when not. */
bool caller_is_known(const struct request *request);
bool caller_has_scope(const struct identity *id, const char *scope);

/* Begins the look-up of an approval for its caller. */
void approval_start(const struct request *request, const char *id, size_t size);

/* Answers a request with a refusal (refusal.h), and the status of the code. The reason is a short one, of our own words. */
void conn_refuse(struct conn *conn, enum ledger_code code, const char *reason);

#endif
