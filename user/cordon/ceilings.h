/* SPDX-License-Identifier: Apache-2.0 */
/* The ceilings of one fence that user space holds: by the cgroup's controllers, and time. See host/limits.h. */
#ifndef CORDON_CEILINGS_H
#define CORDON_CEILINGS_H

#include "cordon/stream.h"
#include "host/limits.h"
#include "policy/policy.h"

struct ceilings {
	const struct host_cgroup *cgroup; /* borrowed; NULL until prepared */
	struct host_limits limits;
	struct host_limits_applied applied;
	struct host_limits_reached told;
	uint64_t told_ms[HOST_LIMIT_COUNT]; /* CLOCK_BOOTTIME of the last event */
	uint64_t time_ms;		    /* from begin to end; 0: no limit */
	uint64_t end_ms, looked_ms;
	bool audit;	/* time is told, not held; the others are not put at all */
	char lacks[96]; /* names of those that cannot be had here, with degraded */
};

/*
 * Before the fence: can they be had? ours: the cgroup was made for this fence. degraded: those that cannot are left out
 * and named in lacks. -ENOTSUP.
 */
int ceilings_prepare(struct ceilings *c, const struct image *image,
		     const struct host_cgroup *cgroup, bool ours, bool degraded,
		     struct error *error);

/* Puts them, after the self-test, which must not be in their way. */
int ceilings_apply(struct ceilings *c, struct error *error);

/* The command starts: time runs from here. */
void ceilings_begin(struct ceilings *c);

/* To be called often: events for what was reached. Returns true once, when the time is over: kill everything. */
bool ceilings_watch(struct ceilings *c, struct stream *stream);

/* The last look, when nobody is left. */
void ceilings_finish(struct ceilings *c, struct stream *stream);

/* Puts back what the cgroup had. Takes a zeroed one. */
void ceilings_restore(struct ceilings *c);

#endif
