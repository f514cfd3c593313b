/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ceilings of a kept fence that user space holds. Who holds what while no keeper runs: cpu, memory and pids the cgroup's
 * controllers, output and upload the programs in the kernel; time nobody, so the next keeper, which finds the begin in
 * the fence's record, ends it at once. Plain data: it is part of that record.
 */
#ifndef CORDON_CORDOND_KEEPER_CEILINGS_H
#define CORDON_CORDOND_KEEPER_CEILINGS_H

#include "host/limits.h"
#include "policy/policy.h"

struct keeper_ceilings {
	struct host_limits limits; /* that were put: none in audit mode */
	struct host_limits_applied applied;
	struct host_limits_reached told;
	uint64_t told_ms[HOST_LIMIT_COUNT]; /* CLOCK_BOOTTIME, as all of these */
	uint64_t looked_ms;
	uint64_t begin_ms, time_ms; /* time_ms 0: no limit */
	uint32_t audit;		    /* time is told, not held */
	uint32_t over;		    /* that the time is over was told */
};

/* What is to be told of. */
struct keeper_reached {
	enum host_limit limit; /* HOST_LIMIT_COUNT: time */
	uint64_t count;
};
#define KEEPER_REACHED_N (HOST_LIMIT_COUNT + 1)

/* Of the policy, before the fence is made: can they be had? 0, or -ENOTSUP with the remedy. */
int keeper_ceilings_prepare(const struct image *image, const struct host_cgroup *cgroup,
			    struct keeper_ceilings *ret_ceilings, struct error *error);

/* Puts them, after the self-test. Time runs from here. */
int keeper_ceilings_apply(struct keeper_ceilings *c, const struct host_cgroup *cgroup,
			  struct error *error);

/*
 * Goes over to others, of another policy; see host_limits_change(). On error those before hold. Time runs from the same begin.
 */
int keeper_ceilings_change(struct keeper_ceilings *c, const struct keeper_ceilings *next,
			   const struct host_cgroup *cgroup, struct error *error);

/* Puts back what the cgroup had. */
void keeper_ceilings_restore(const struct keeper_ceilings *c, const struct host_cgroup *cgroup);

/*
 * Once a second at most: what was reached since it was told; returns how many. *ret_kill: the time is over, and whoever is there,
 * or comes later, is to be killed. now_ms is CLOCK_BOOTTIME.
 */
size_t keeper_ceilings_look(struct keeper_ceilings *c, const struct host_cgroup *cgroup,
			    uint64_t now_ms, struct keeper_reached ret_reached[KEEPER_REACHED_N],
			    bool *ret_kill);

uint64_t keeper_ceilings_now_ms(void);

#endif
