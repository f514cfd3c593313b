// SPDX-License-Identifier: Apache-2.0
/* See keeper_ceilings.h. Root. What cannot be had is refused before there is a fence. */
#include "cordond/keeper_ceilings.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { LOOK_EVERY_MS = 1000 };

/* With the time that the machine sleeps. */
uint64_t keeper_ceilings_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int keeper_ceilings_prepare(const struct image *image, const struct host_cgroup *cgroup,
			    struct keeper_ceilings *ret_ceilings, struct error *error)
{
	unsigned int lacks;

	*ret_ceilings = (struct keeper_ceilings){
		.time_ms = image->limits.time_ms,
		.audit = image->policy.mode == CORDON_MODE_AUDIT,
	};
	if (!ret_ceilings->audit)
		ret_ceilings->limits = (struct host_limits){
			.cpu_milli = image->limits.cpu_milli,
			.memory_bytes = image->limits.memory_bytes,
			.pids = image->limits.pids,
		};
	return host_limits_prepare(cgroup, &ret_ceilings->limits, false, &lacks, error);
}

int keeper_ceilings_apply(struct keeper_ceilings *c, const struct host_cgroup *cgroup,
			  struct error *error)
{
	int err = host_limits_apply(cgroup, &c->limits, &c->applied, error);

	host_limits_count(cgroup, &c->told);
	c->begin_ms = keeper_ceilings_now_ms();
	return err;
}

int keeper_ceilings_change(struct keeper_ceilings *c, const struct keeper_ceilings *next,
			   const struct host_cgroup *cgroup, struct error *error)
{
	int err = host_limits_change(cgroup, &next->limits, &c->applied, error);

	if (err)
		return err;
	c->limits = next->limits;
	c->over = c->over && c->time_ms == next->time_ms && c->audit == next->audit;
	c->time_ms = next->time_ms;
	c->audit = next->audit;
	return 0;
}

void keeper_ceilings_restore(const struct keeper_ceilings *c, const struct host_cgroup *cgroup)
{
	host_limits_restore(cgroup, &c->applied);
}

size_t keeper_ceilings_look(struct keeper_ceilings *c, const struct host_cgroup *cgroup,
			    uint64_t now_ms, struct keeper_reached ret_reached[KEEPER_REACHED_N],
			    bool *ret_kill)
{
	const struct host_limits *l = &c->limits;
	struct host_limits_reached reached;
	size_t n = 0;

	*ret_kill = false;
	if (now_ms < c->looked_ms + LOOK_EVERY_MS)
		return 0;
	c->looked_ms = now_ms;
	if (l->cpu_milli || l->memory_bytes || l->pids)
		host_limits_count(cgroup, &reached);
	else
		reached = c->told;
	for (enum host_limit limit = 0; limit < HOST_LIMIT_COUNT; limit++) {
		uint64_t more = reached.n[limit] - c->told.n[limit];

		if (!host_limits_has(&c->limits, limit) || reached.n[limit] <= c->told.n[limit] ||
		    (c->told_ms[limit] &&
		     now_ms < c->told_ms[limit] + host_limit_told(limit)->every_ms))
			continue;
		c->told.n[limit] = reached.n[limit];
		c->told_ms[limit] = now_ms;
		ret_reached[n++] = (struct keeper_reached){ limit, more };
	}
	if (!c->time_ms || now_ms < c->begin_ms + c->time_ms)
		return n;
	*ret_kill = !c->audit;
	if (!c->over)
		ret_reached[n++] = (struct keeper_reached){ HOST_LIMIT_COUNT, 1 };
	c->over = true;
	return n;
}
