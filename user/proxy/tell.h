/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions of the proxy, and ends of its connections, as events. */
#ifndef CORDON_PROXY_TELL_H
#define CORDON_PROXY_TELL_H

#include "identity/identity.h"
#include "ledger/codes.h"
#include "reach/reach.h"

struct report;

/* What is told; pointers are borrowed. */
struct tell {
	const struct identity *caller;
	enum ledger_code code;
	const char *reason;		   /* or NULL */
	const char *action;		   /* the method */
	const struct reach_target *target; /* its name empty: it could not be read */
	const struct cordon_addr *addr;	   /* or NULL */
	int64_t latency_us;		   /* since the request */
	uint64_t up_bytes, down_bytes;	   /* of an end */
};

/* ended: of a connection that there was; else of a decision. What cannot be written now is kept, see tell_ready(). */
void tell_write(struct report *report, bool ended, const struct tell *tell);

/* Can a decision be told? If not, none is made. */
bool tell_ready(struct report *report);

#endif
