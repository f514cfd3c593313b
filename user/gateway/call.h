/* SPDX-License-Identifier: Apache-2.0 */
/* What requests mean: routes, and the phases of a call. */
#ifndef CORDON_GATEWAY_CALL_H
#define CORDON_GATEWAY_CALL_H

#include "gateway/server.h"

/* Handles every request: tools, GET /tools, /approvals/ID, /health. */
server_handle_fn route_handle;

/* Begins a call of tool, setup's. Takes the request through the phases; answers when it is through. */
void call_start(const struct request *request, const struct tool *tool);

/* Begins the look-up of an approval for its caller. */
void approval_start(const struct request *request, const char *id, size_t size);

/* {"error":...,"reason":...,"retry":...}, one line; reason NULL: the code's own text. Returns its bytes. */
int answer_refusal(char *buffer, size_t size, enum ledger_code code, const char *reason);

/* Answers a request with that, and the status of the code. The reason is a short one, of our own words. */
void conn_refuse(struct conn *conn, enum ledger_code code, const char *reason);

#endif
