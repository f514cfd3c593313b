/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a refusal is said, by the gateway, its proxy, its upstreams and MCP alike: one object with five members, so that an
 * agent can tell what to do. Codes and their words are the table of ledger/codes.h; docs/gateway.md has it. Pure.
 */
#ifndef CORDON_GATEWAY_REFUSAL_H
#define CORDON_GATEWAY_REFUSAL_H

#include <jansson.h>
#include <stddef.h>

#include "ledger/codes.h"

#define REFUSAL_MAX \
	1024 /* bytes of one, with its end of line and NUL: what is longer has the code's own text */

/*
 * {"error","reason","rule","retry","ask"}: the code; what is wrong (reason, of our own words; NULL or "": the code's own text);
 * the rule that the event of the decision has; whether asking again helps; whom to ask for help with what, or null. One line into
 * buffer of at least REFUSAL_MAX bytes; returns its bytes without the NUL.
 */
int refusal_print(char *buffer, enum ledger_code code, const char *reason);

/* The same as an object, the caller's; NULL when memory ends. */
json_t *refusal_json(enum ledger_code code, const char *reason);

/* The code of what HTTP itself refuses with this status. */
enum ledger_code refusal_of_status(int status);

#endif
