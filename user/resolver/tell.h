/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions of the resolver, as events. */
#ifndef CORDON_RESOLVER_TELL_H
#define CORDON_RESOLVER_TELL_H

#include "identity/identity.h"
#include "ledger/codes.h"
#include "reach/reach.h"

struct report;

/* What is told; pointers are borrowed. */
struct resolver_tell {
	const struct identity *caller;
	enum ledger_code code;
	unsigned int count;		/* of how many; 0: of one */
	uint16_t type;			/* that was asked for */
	const struct reach_name *name;	/* or NULL: it could not be read */
	const struct cordon_addr *addr; /* that was refused; or NULL */
	const char *reason;		/* or NULL */
};

void resolver_tell_write(struct report *report, const struct resolver_tell *tell);

/* Can a decision be told? If not, none is made. */
bool resolver_tell_ready(struct report *report);

#endif
