/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alerts that need nothing but the stream: a fence that is denied too much, and a subject that destroys too much. Is given every event
 * and says when one of its own is due, which goes into the stream like any other. Time is that of the events. Bounded: no memory
 * after it was made. No privilege. Not for several threads at once.
 */
#ifndef CORDON_ALERT_H
#define CORDON_ALERT_H

#include <stdbool.h>
#include <stdint.h>

#include "event/event.h"
#include "util/util.h"

#define ALERT_WATCHED_MAX \
	4096 /* fences and subjects watched at a time; then the one that was quiet for longest is forgotten */
#define ALERT_CALLS_MAX 1000 /* the most that `calls` may be */
#define ALERT_TEXT_MAX 128   /* bytes of a tenant or subject that tell it from others */

/* Times in ns. A count of 0 switches that alert off. */
struct alert_limits {
	uint64_t denials,
		denials_window_ns; /* deny_rate: so many denials of one fence within the window, repeats counted */
	uint64_t calls,
		calls_window_ns; /* destructive: so many calls of one subject within the window */
	uint64_t quiet_ns;	 /* after an alert there is none about the same one for so long */
};
#define ALERT_LIMITS_DEFAULT                                             \
	((struct alert_limits){ .denials = 100,                          \
				.denials_window_ns = 60 * 1000000000ULL, \
				.calls = 20,                             \
				.calls_window_ns = 300 * 1000000000ULL,  \
				.quiet_ns = 300 * 1000000000ULL })

struct alerts;

/* Returns 0, -EINVAL with the cause for limits out of bounds, or -ENOMEM. */
int alerts_open(const struct alert_limits *limits, struct alerts **ret_alerts, struct error *error);
void alerts_close(struct alerts *alerts); /* takes NULL */

/* An alert that is due. Points into nothing. */
struct alert {
	enum cordon_op op;	    /* CORDON_OP_DENY_RATE or _DESTRUCTIVE */
	uint64_t fence_id;	    /* whose event it was */
	uint64_t count;		    /* within the window */
	uint64_t first_ns, last_ns; /* CLOCK_REALTIME: of the first and the last that are counted */
	char detail[2 * ALERT_TEXT_MAX + 128];
};

/*
 * Takes note of one event. Returns true when an alert is due: alert_make() makes the event of it, which is to be written after this
 * one. Alerts themselves, and losses, count for nothing.
 *
 * Destructive is what was allowed and takes something away: a file operation of unlink, rmdir, truncate or rename, and what a
 * tool has done that is declared `destructive` (gateway.destructive): not a repeat of a key, nor what still waits for a human.
 * Whose: the subject in its tenant; where the fence has none, the fence.
 */
bool alerts_see(struct alerts *alerts, const struct event_context *context,
		const struct event *event, struct alert *ret_alert);

/* The same for a recorded event, such as a gateway's line. */
bool alerts_see_record(struct alerts *alerts, const struct event_record *record,
		       struct alert *ret_alert);

/*
 * The alert as an event of its fence (context is that of the event that caused it); points into alert. seq, fence and policy as for
 * event_make().
 */
void alert_make(struct event *ret_event, const struct cordon_fence *fence,
		const struct cordon_policy *policy, uint64_t seq, const struct alert *alert);

#endif
