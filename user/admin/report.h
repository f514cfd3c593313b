/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions as events of type `gateway`, written to the record before the answer leaves. One report for all threads of a
 * gateway.
 */
#ifndef CORDON_ADMIN_REPORT_H
#define CORDON_ADMIN_REPORT_H

#include "event/event.h"
#include "identity/identity.h"
#include "ledger/codes.h"
#include "record/record.h"

struct report;

/* record is borrowed; node: name of this gateway's host, copied. NULL when memory ends. */
struct report *report_new(struct record *record, const char *node);
void report_free(struct report *report); /* takes NULL */

struct report_row {
	enum cordon_op
		op; /* CORDON_OP_CALL, _APPROVAL, _GRANT, _SETTLE, _REACH, _REACHED, _RESOLVE */
	enum ledger_code code;
	const struct identity *caller; /* the fence that it is about; NULL: not known */
	/* Without a caller: what the ledger knows of it. Each may be NULL or "". */
	uint64_t fence_id;
	const char *tenant, *subject, *task;
	/* More than the code's name, or NULL: written after it and a colon. */
	const char *reason;
	unsigned int count; /* how many calls it stands for; 0: the one that it is about */
	struct event_gateway gateway; /* all but reason, status, record and record_hash */
	uint64_t record_seq;	      /* of the ledger; 0: none */
	const uint8_t *record_hash;   /* LEDGER_HASH_SIZE bytes, or NULL */
};

/* Writes the event, and after a time in which events were dropped how many. 0 or -errno, as record_write(). */
int report_write(struct report *report, const struct report_row *row);

/* Can an event be written? 0 or -errno, as record_ready(). */
int report_ready(struct report *report);

/* The rule that a code comes under. */
enum cordon_rule report_rule(enum ledger_code code);

#endif
