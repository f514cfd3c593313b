/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision about one call, pure: no I/O, no clock, no allocation. The store asks it inside the transaction that
 * writes the reservation; `cordon explain` and the unit tests ask the same function. Amounts are minor units.
 */
#ifndef CORDON_LEDGER_DECIDE_H
#define CORDON_LEDGER_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/codes.h"

#define LEDGER_NO_LIMIT INT64_MAX

enum ledger_over {
	LEDGER_OVER_REFUSE,
	LEDGER_OVER_APPROVE, /* a call above single or daily is held for a human */
};

/* Limits of a tool. */
struct ledger_limits {
	int64_t single; /* most that one call may move; LEDGER_NO_LIMIT: no limit; 0: nothing without approval */
	int64_t daily; /* most per UTC day, tenant and tool (and subject, if per_subject) */
	bool per_subject;
	enum ledger_over over;
};

/* What the store knows of the grant that the caller presented. */
struct ledger_grant_facts {
	bool known;
	bool revoked;
	bool expired;
	bool covers;	     /* tenant, fence, scope, tool and object of the grant fit this call */
	int64_t uses_left;   /* LEDGER_NO_LIMIT: not counted */
	int64_t amount_left; /* LEDGER_NO_LIMIT: not capped */
};

/* Everything the decision rests on. Strings are compared byte by byte; NULL never equals. */
struct ledger_question {
	const char *caller_tenant;
	const char *stated_tenant; /* NULL: the tool's input has none */
	bool scope_granted;
	const struct ledger_grant_facts *grant; /* NULL: none presented */
	bool has_object;			/* the tool names an object */
	bool object_found;
	const char *object_tenant;
	bool has_amount;
	int64_t amount;
	int64_t remaining; /* of the object by its own facts */
	int64_t in_flight; /* of that, already held by other calls of this tool that the facts do not show yet */
	int64_t used; /* of the daily limit: done, held, executing, ambiguous */
	const struct ledger_limits *limits;
	bool approved; /* a human approved: single and daily no longer stop it, everything else does */
};

/*
 * LEDGER_OK, LEDGER_PENDING_APPROVAL or a refusal. The order is fixed, first cause wins: tenant, scope, grant, object,
 * object's tenant, amount, single, daily. A caller that lacks the scope learns nothing about objects.
 */
enum ledger_code ledger_decide(const struct ledger_question *question);

/* The part of it that rests on the caller and the request alone, tenant and scope: LEDGER_OK, or what ledger_decide() says. */
enum ledger_code ledger_decide_caller(const struct ledger_question *question);

#endif
