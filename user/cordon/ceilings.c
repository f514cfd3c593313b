// SPDX-License-Identifier: Apache-2.0
/*
 * See ceilings.h. Once a second the kernel's counts are looked at; what has grown becomes one event with how often. Waiting
 * for processor time is normal under a limit, so that is told once a minute at most; what was not told yet is at the end.
 */
#include "cordon/ceilings.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { LOOK_EVERY_MS = 1000 };

/* With the time that the machine sleeps. */
static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * 1000ULL + ts.tv_nsec / 1000000;
}

/* Leaves out what cannot be had, and notes it. */
static void leave_out(struct ceilings *c, unsigned int lacks)
{
	size_t n = 0;

	for (enum host_limit limit = 0; limit < HOST_LIMIT_COUNT; limit++)
		if (lacks & 1U << limit)
			n += snprintf(c->lacks + n, sizeof(c->lacks) - n, "%s%s", n ? ", " : "",
				      host_limit_name(limit));
	if (lacks & 1U << HOST_LIMIT_CPU)
		c->limits.cpu_milli = 0;
	if (lacks & 1U << HOST_LIMIT_MEMORY)
		c->limits.memory_bytes = 0;
	if (lacks & 1U << HOST_LIMIT_PIDS)
		c->limits.pids = 0;
}

int ceilings_prepare(struct ceilings *c, const struct image *image,
		     const struct host_cgroup *cgroup, bool ours, bool degraded,
		     struct error *error)
{
	struct error why = { "" };
	unsigned int lacks;
	int err;

	memset(c, 0, sizeof(*c));
	c->cgroup = cgroup;
	c->audit = image->policy.mode == CORDON_MODE_AUDIT;
	c->time_ms = image->limits.time_ms;
	if (!c->audit)
		c->limits = (struct host_limits){
			.cpu_milli = image->limits.cpu_milli,
			.memory_bytes = image->limits.memory_bytes,
			.pids = image->limits.pids,
		};
	err = host_limits_prepare(cgroup, &c->limits, ours, &lacks, &why);
	if (!err)
		return 0;
	if (!degraded)
		return error_set(error, -err, "%s", why.text);
	leave_out(c, lacks);
	return 0;
}

int ceilings_apply(struct ceilings *c, struct error *error)
{
	int err = host_limits_apply(c->cgroup, &c->limits, &c->applied, error);

	host_limits_count(c->cgroup, &c->told);
	return err;
}

void ceilings_begin(struct ceilings *c)
{
	c->end_ms = now_ms() + c->time_ms;
}

/* all: also what is not due yet. */
static void look(struct ceilings *c, struct stream *stream, uint64_t now, bool all)
{
	struct host_limits_reached reached;

	host_limits_count(c->cgroup, &reached);
	for (enum host_limit limit = 0; limit < HOST_LIMIT_COUNT; limit++) {
		uint64_t n = reached.n[limit] - c->told.n[limit];

		if (!host_limits_has(&c->limits, limit) || reached.n[limit] <= c->told.n[limit] ||
		    (!all && c->told_ms[limit] &&
		     now < c->told_ms[limit] + host_limit_told(limit)->every_ms))
			continue;
		c->told.n[limit] = reached.n[limit];
		c->told_ms[limit] = now;
		stream_emit_limit(stream, host_limit_told(limit)->op, host_limit_told(limit)->rule,
				  CORDON_VERDICT_DENY, n, host_limit_told(limit)->detail);
	}
}

bool ceilings_watch(struct ceilings *c, struct stream *stream)
{
	uint64_t now = now_ms();
	char detail[96];

	if (now >= c->looked_ms + LOOK_EVERY_MS) {
		c->looked_ms = now;
		look(c, stream, now, false);
	}
	if (!c->time_ms || now < c->end_ms)
		return false;
	snprintf(detail, sizeof(detail), "%llu s are over; %s",
		 (unsigned long long)(c->time_ms / 1000),
		 c->audit ? "everything would be killed" : "everything is killed");
	stream_emit_limit(stream, CORDON_OP_TIME, CORDON_RULE_LIMIT_TIME,
			  c->audit ? CORDON_VERDICT_WOULD_DENY : CORDON_VERDICT_DENY, 1, detail);
	c->time_ms = 0;
	return !c->audit;
}

void ceilings_finish(struct ceilings *c, struct stream *stream)
{
	if (c->cgroup)
		look(c, stream, now_ms(), true);
}

void ceilings_restore(struct ceilings *c)
{
	if (c->cgroup)
		host_limits_restore(c->cgroup, &c->applied);
}
