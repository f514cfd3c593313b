/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said on the gateway's admin socket: JSON objects, a line each. The client sends one request; the gateway
 * answers with any number of rows, {"row":{...}}, and then one last line: {"status":"ok",...} or
 * {"error":CODE,"reason":TEXT}. Pure: bytes in, a request or a fault out.
 *
 * The table below is all there is. A member that a request does not have, a member twice, another type, text that is
 * too long or holds control characters: refused.
 */
#ifndef CORDON_ADMIN_PROTOCOL_H
#define CORDON_ADMIN_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/util.h"

#define ADMIN_SOCKET "/run/cordon/admin.sock"
#define ADMIN_REQUEST_MAX 8192	     /* bytes of a request, newline included */
#define ADMIN_LINE_MAX (1024 * 1024) /* of a line of an answer */
#define ADMIN_TEXT_MAX 512

/* What a caller must be: a bit of struct admin_role. */
enum admin_need {
	ADMIN_APPROVER = 1, /* sees and decides approvals */
	ADMIN_ADMIN = 2,    /* everything else: grants, the ledger */
};

/*
 * M(member, type, min, max) - the members that any request may have: T text of min..max bytes, N integer of min..max,
 * B boolean.
 */
#define ADMIN_MEMBERS(M)                   \
	M(id, T, 1, 64)                    \
	M(key, T, 1, 200)                  \
	M(task, T, 1, 128)                 \
	M(tenant, T, 1, 128)               \
	M(subject, T, 1, 128)              \
	M(fence, T, 1, 16)                 \
	M(scope, T, 1, 64)                 \
	M(tool, T, 1, 128)                 \
	M(object, T, 1, 512)               \
	M(outcome, T, 1, 16)               \
	M(state, T, 1, 32)                 \
	M(reason, T, 1, 512)               \
	M(call, N, 1, INT64_MAX)           \
	M(amount_max, N, 1, INT64_MAX - 1) \
	M(uses, N, 1, INT64_MAX - 1)       \
	M(minutes, N, 1, 1440)             \
	M(limit, N, 1, 1000)               \
	M(before, N, 1, INT64_MAX)         \
	M(all, B, 0, 0)

enum admin_member {
#define M(name, type, min, max) ADMIN_##name,
	ADMIN_MEMBERS(M)
#undef M
		ADMIN_MEMBERS_N
};

#define ADMIN_BIT(name) (1U << ADMIN_##name)

/*
 * R(enum, name, need, required, optional) - the requests. required and optional are members as bits; of those in `one`
 * exactly one must be there.
 */
#define ADMIN_REQUESTS(R)                                                                         \
	R(STATUS, "status", ADMIN_APPROVER | ADMIN_ADMIN, 0, 0, 0)                                \
	R(APPROVALS_LIST, "approvals.list", ADMIN_APPROVER, 0,                                    \
	  ADMIN_BIT(all) | ADMIN_BIT(task) | ADMIN_BIT(tenant) | ADMIN_BIT(limit), 0)             \
	R(APPROVALS_SHOW, "approvals.show", ADMIN_APPROVER, ADMIN_BIT(id), 0, 0)                  \
	R(APPROVALS_APPROVE, "approvals.approve", ADMIN_APPROVER, ADMIN_BIT(id),                  \
	  ADMIN_BIT(reason), 0)                                                                   \
	R(APPROVALS_DENY, "approvals.deny", ADMIN_APPROVER, ADMIN_BIT(id) | ADMIN_BIT(reason), 0, \
	  0)                                                                                      \
	R(GRANTS_ISSUE, "grants.issue", ADMIN_ADMIN, ADMIN_BIT(scope) | ADMIN_BIT(minutes),       \
	  ADMIN_BIT(tool) | ADMIN_BIT(object) | ADMIN_BIT(amount_max) | ADMIN_BIT(uses),          \
	  ADMIN_BIT(fence) | ADMIN_BIT(task))                                                     \
	R(GRANTS_RENEW, "grants.renew", ADMIN_ADMIN, ADMIN_BIT(id) | ADMIN_BIT(minutes), 0, 0)    \
	R(GRANTS_REVOKE, "grants.revoke", ADMIN_ADMIN, 0, ADMIN_BIT(reason),                      \
	  ADMIN_BIT(id) | ADMIN_BIT(task) | ADMIN_BIT(subject) | ADMIN_BIT(fence))                \
	R(GRANTS_LIST, "grants.list", ADMIN_ADMIN, 0,                                             \
	  ADMIN_BIT(task) | ADMIN_BIT(tenant) | ADMIN_BIT(limit), 0)                              \
	R(LEDGER_LIST, "ledger.list", ADMIN_ADMIN, 0,                                             \
	  ADMIN_BIT(task) | ADMIN_BIT(tenant) | ADMIN_BIT(state) | ADMIN_BIT(limit) |             \
		  ADMIN_BIT(before),                                                              \
	  0)                                                                                      \
	R(LEDGER_SHOW, "ledger.show", ADMIN_ADMIN, 0, ADMIN_BIT(tenant),                          \
	  ADMIN_BIT(key) | ADMIN_BIT(call))                                                       \
	R(LEDGER_SETTLE, "ledger.settle", ADMIN_ADMIN, ADMIN_BIT(outcome) | ADMIN_BIT(reason),    \
	  ADMIN_BIT(tenant), ADMIN_BIT(key) | ADMIN_BIT(call))

enum admin_verb {
#define R(id, name, need, required, optional, one) ADMIN_DO_##id,
	ADMIN_REQUESTS(R)
#undef R
		ADMIN_DO_N
};

struct admin_request {
	enum admin_verb verb;
	unsigned int has; /* bits of the members that are there */
	/* "" and 0 for what is not. */
	char text[ADMIN_MEMBERS_N][ADMIN_TEXT_MAX + 1];
	int64_t number[ADMIN_MEMBERS_N];
};

/* The member's text, or NULL when it is not there. */
const char *admin_text(const struct admin_request *request, enum admin_member member);

const char *admin_verb_name(enum admin_verb verb);
unsigned int admin_verb_need(enum admin_verb verb); /* any of these bits */

/* Reads line[size), newline or not. 0, or -EINVAL with the fault: a text without bytes of the request. */
int admin_request_parse(const char *line, size_t size, struct admin_request *ret_request,
			struct error *error);

/* The request as a line; to be freed; NULL when memory ends. */
char *admin_request_format(const struct admin_request *request);

#endif
