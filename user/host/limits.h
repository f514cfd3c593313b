/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ceilings that the cgroup's controllers hold: processor time, memory, tasks. Plain data in, plain data out, so that a
 * daemon can keep what was applied and put it back later. Functions return 0 or -errno and say the cause and the remedy
 * in *error. Privilege: write access to the cgroup, and for one that cordon made to those above it.
 */
#ifndef CORDON_HOST_LIMITS_H
#define CORDON_HOST_LIMITS_H

#include "cordon/abi.h"
#include "host/host.h"

enum host_limit { HOST_LIMIT_CPU, HOST_LIMIT_MEMORY, HOST_LIMIT_PIDS, HOST_LIMIT_COUNT };

/* 0: none. */
struct host_limits {
	uint64_t memory_bytes;
	uint32_t cpu_milli; /* thousandths of a processor */
	uint32_t pids;
};

/* Is there such a limit among them? */
bool host_limits_has(const struct host_limits *limits, enum host_limit limit);

/* The files of a cgroup that are written: cpu.max, memory.swap.max, memory.max, memory.oom.group, pids.max. */
#define HOST_LIMIT_FILES 5

/* What was there before, as text, for each file that was changed; zeroed: nothing. */
struct host_limits_applied {
	struct {
		char before[64]; /* "": not changed */
		char now[64];	 /* as the kernel tells it */
	} file[HOST_LIMIT_FILES];
};

/*
 * Sees to it that the cgroup has the controllers for these limits. ours: it was made by host_cgroup_make(), and they are
 * turned on in the cgroups above it; else they must be on. -ENOTSUP: a controller cannot be had; *ret_lacks (bits by enum
 * host_limit) says which, and *error how to get it.
 */
int host_limits_prepare(const struct host_cgroup *cgroup, const struct host_limits *limits,
			bool ours, unsigned int *ret_lacks, struct error *error);

/*
 * Puts the limits on a prepared cgroup. One that is there already and tighter stays: a limit never widens another. What
 * fails is undone. Memory in use beyond the limit is reclaimed, or somebody killed, before this returns.
 */
int host_limits_apply(const struct host_cgroup *cgroup, const struct host_limits *limits,
		      struct host_limits_applied *ret_applied, struct error *error);

/*
 * Goes over from what was applied to other limits, or none. A file is written once, and not at all if its value stays: there is
 * no instant without the old or the new one. On error those before hold, and *applied is as it was.
 */
int host_limits_change(const struct host_cgroup *cgroup, const struct host_limits *limits,
		       struct host_limits_applied *applied, struct error *error);

/* Puts back what was there, but for what somebody else has changed since. A cgroup that is gone is no error. */
void host_limits_restore(const struct host_cgroup *cgroup,
			 const struct host_limits_applied *applied);

/* How often each was reached, since the cgroup was made: periods with waiting, tasks killed, tasks not made. */
struct host_limits_reached {
	uint64_t n[HOST_LIMIT_COUNT];
};
void host_limits_count(const struct host_cgroup *cgroup, struct host_limits_reached *ret_reached);

/* How it is told that one was reached. */
struct host_limit_told {
	enum cordon_op op;
	enum cordon_rule rule;
	unsigned int
		every_ms; /* not more often: waiting for processor time is normal under a limit */
	const char *detail;
};
const struct host_limit_told *host_limit_told(enum host_limit limit);

/* "limits.cpu" ... */
const char *host_limit_name(enum host_limit limit);

#endif
