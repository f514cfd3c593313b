// SPDX-License-Identifier: Apache-2.0
/*
 * See alert.h. Denials are counted in sixteen slices of the window: exact enough for a rate, and the same for one event as for a
 * million. Calls are few and each counts: their times are kept, the last `calls` of them. Who is watched is found by a hash table
 * with chains in arrays; who was quiet for longest gives way, so that names made up by an attacker push out only such as do nothing.
 */
#include "alert/alert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SLICES = 16, BUCKETS = 8192 };
#define NONE UINT32_MAX
#define SECOND 1000000000ULL

/* A fence, or a subject: what happened lately. */
struct watched {
	uint64_t fence_id;					      /* of a fence; 0: a subject */
	char tenant[ALERT_TEXT_MAX + 1], subject[ALERT_TEXT_MAX + 1]; /* of a subject */
	uint64_t seen_ns, alerted_ns;
	bool alerted;
	uint64_t slice[SLICES], slice_no; /* of a fence; slice_no: number of the current one */
	uint64_t first_ns;		  /* of what is counted */
	uint32_t n, at;			  /* of a subject: times in its ring */
	uint32_t next;			  /* in its bucket */
	uint32_t older, newer;		  /* by seen */
};

struct alerts {
	struct alert_limits limits;
	struct watched *watched;
	uint64_t *times; /* limits.calls for each watched */
	uint32_t n;
	uint32_t bucket[BUCKETS];
	uint32_t oldest, newest;
};

int alerts_open(const struct alert_limits *limits, struct alerts **ret_alerts, struct error *error)
{
	struct alerts *a;

	if (limits->calls > ALERT_CALLS_MAX)
		return error_set(error, EINVAL, "alerts: more than %d calls", ALERT_CALLS_MAX);
	if ((limits->denials && limits->denials_window_ns < SECOND) ||
	    (limits->calls && limits->calls_window_ns < SECOND))
		return error_set(error, EINVAL, "alerts: a window is at least 1 s");
	a = calloc(1, sizeof(*a));
	if (a) {
		a->watched = calloc(ALERT_WATCHED_MAX, sizeof(*a->watched));
		a->times = calloc((size_t)ALERT_WATCHED_MAX * (limits->calls ? limits->calls : 1),
				  sizeof(*a->times));
	}
	if (!a || !a->watched || !a->times) {
		alerts_close(a);
		return error_set(error, ENOMEM, "out of memory");
	}
	a->limits = *limits;
	memset(a->bucket, 0xff, sizeof(a->bucket));
	a->oldest = a->newest = NONE;
	*ret_alerts = a;
	return 0;
}

void alerts_close(struct alerts *alerts)
{
	if (!alerts)
		return;
	free(alerts->watched);
	free(alerts->times);
	free(alerts);
}

/* --- who is watched -------------------------------------------------------------------------------------------------- */

static uint64_t hash_bytes(uint64_t hash, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ ((const unsigned char *)p)[i]) * 0x100000001b3;
	return hash ^ hash >> 29;
}

static uint32_t bucket_of(const struct watched *who)
{
	uint64_t hash = 0xcbf29ce484222325;

	hash = hash_bytes(hash, &who->fence_id, sizeof(who->fence_id));
	hash = hash_bytes(hash, who->tenant, strlen(who->tenant) + 1);
	hash = hash_bytes(hash, who->subject, strlen(who->subject));
	return (uint32_t)(hash % BUCKETS);
}

static bool same(const struct watched *a, const struct watched *b)
{
	return a->fence_id == b->fence_id && strcmp(a->tenant, b->tenant) == 0 &&
	       strcmp(a->subject, b->subject) == 0;
}

static void order_remove(struct alerts *a, uint32_t i)
{
	struct watched *w = &a->watched[i];

	*(w->older == NONE ? &a->oldest : &a->watched[w->older].newer) = w->newer;
	*(w->newer == NONE ? &a->newest : &a->watched[w->newer].older) = w->older;
}

static void order_append(struct alerts *a, uint32_t i)
{
	struct watched *w = &a->watched[i];

	w->older = a->newest;
	w->newer = NONE;
	*(a->newest == NONE ? &a->oldest : &a->watched[a->newest].newer) = i;
	a->newest = i;
}

static void bucket_remove(struct alerts *a, uint32_t i)
{
	uint32_t *at = &a->bucket[bucket_of(&a->watched[i])];

	while (*at != i)
		at = &a->watched[*at].next;
	*at = a->watched[i].next;
}

/* The one that is like key, which is made if need be. */
static struct watched *watched_find(struct alerts *a, const struct watched *key, uint64_t now_ns)
{
	uint32_t bucket = bucket_of(key), i = a->bucket[bucket];

	while (i != NONE && !same(&a->watched[i], key))
		i = a->watched[i].next;
	if (i != NONE) {
		order_remove(a, i);
	} else {
		if (a->n < ALERT_WATCHED_MAX) {
			i = a->n++;
		} else {
			i = a->oldest;
			order_remove(a, i);
			bucket_remove(a, i);
		}
		a->watched[i] = *key;
		a->watched[i].next = a->bucket[bucket];
		a->bucket[bucket] = i;
	}
	order_append(a, i);
	a->watched[i].seen_ns = now_ns;
	return &a->watched[i];
}

/* --- counting -------------------------------------------------------------------------------------------------------- */

/* Is there to be silence about it? Otherwise notes that there was an alert. */
static bool alert_due(const struct alerts *a, struct watched *w, uint64_t now_ns)
{
	if (w->alerted && now_ns - w->alerted_ns < a->limits.quiet_ns)
		return false;
	w->alerted = true;
	w->alerted_ns = now_ns;
	return true;
}

static uint64_t slices_sum(const struct watched *w)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < SLICES; i++)
		sum += w->slice[i];
	return sum;
}

/* Denials of a fence. An event that comes late counts as of now. */
static bool denial_see(struct alerts *a, const struct event *event, struct alert *ret)
{
	const struct watched key = { .fence_id = event->raw.fence_id };
	struct watched *w = watched_find(a, &key, event->time_ns);
	uint64_t length = a->limits.denials_window_ns / SLICES, no = event->time_ns / length;

	for (unsigned int i = 0; i < SLICES && w->slice_no < no; i++) {
		w->slice_no = w->slice_no + SLICES < no ? no - SLICES + 1 : w->slice_no + 1;
		w->slice[w->slice_no % SLICES] = 0;
	}
	if (!slices_sum(w))
		w->first_ns = event->time_ns;
	w->slice[w->slice_no % SLICES] += event->raw.count ? event->raw.count : 1;
	ret->count = slices_sum(w);
	if (ret->count < a->limits.denials || !alert_due(a, w, event->time_ns))
		return false;
	ret->op = CORDON_OP_DENY_RATE;
	ret->last_ns = event->time_ns;
	ret->first_ns = w->first_ns;
	if (event->time_ns - w->first_ns > a->limits.denials_window_ns)
		ret->first_ns = event->time_ns - a->limits.denials_window_ns;
	snprintf(ret->detail, sizeof(ret->detail), "%llu denials within %llu s",
		 (unsigned long long)ret->count,
		 (unsigned long long)(a->limits.denials_window_ns / SECOND));
	return true;
}

static void text_copy(char out[ALERT_TEXT_MAX + 1], const char *text)
{
	snprintf(out, ALERT_TEXT_MAX + 1, "%.*s", ALERT_TEXT_MAX, text ? text : "");
}

static bool call_see(struct alerts *a, const struct event_context *context,
		     const struct event *event, struct alert *ret)
{
	uint32_t calls = (uint32_t)a->limits.calls;
	struct watched key = { 0 }, *w;
	uint64_t *times, first;

	if (context && context->subject && context->subject[0]) {
		text_copy(key.tenant, context->tenant);
		text_copy(key.subject, context->subject);
	} else {
		/* Not the fence's own place, which counts denials. */
		snprintf(key.subject, sizeof(key.subject), "\x01%016llx",
			 (unsigned long long)event->raw.fence_id);
	}
	w = watched_find(a, &key, event->time_ns);
	times = a->times + (size_t)(w - a->watched) * calls;
	times[w->at] = event->time_ns;
	w->at = (w->at + 1) % calls;
	w->n += w->n < calls;
	first = times[w->n < calls ? 0 : w->at];
	if (w->n < calls ||
	    (event->time_ns > first && event->time_ns - first > a->limits.calls_window_ns))
		return false;
	if (!alert_due(a, w, event->time_ns))
		return false;
	ret->op = CORDON_OP_DESTRUCTIVE;
	ret->count = calls;
	ret->first_ns = first;
	ret->last_ns = event->time_ns;
	snprintf(ret->detail, sizeof(ret->detail), "%u destructive calls within %llu s by %s%s%s",
		 calls, (unsigned long long)(a->limits.calls_window_ns / SECOND),
		 key.subject[0] == '\x01' ? "this fence" : key.subject, key.tenant[0] ? " of " : "",
		 key.tenant);
	return true;
}

/* Did the event take something away? */
static bool is_destructive(const struct event *event)
{
	switch (event->raw.op) {
	case CORDON_OP_UNLINK:
	case CORDON_OP_RMDIR:
	case CORDON_OP_TRUNCATE:
	case CORDON_OP_RENAME:
		return true;
	case CORDON_OP_CALL:
	case CORDON_OP_APPROVAL: /* which executes what was held */
		return event->gateway && event->gateway->destructive;
	default:
		return false;
	}
}

bool alerts_see(struct alerts *alerts, const struct event_context *context,
		const struct event *event, struct alert *ret_alert)
{
	const struct cordon_event *raw = &event->raw;
	bool denied = raw->verdict != CORDON_VERDICT_ALLOW;

	memset(ret_alert, 0, sizeof(*ret_alert));
	ret_alert->fence_id = raw->fence_id;
	if (raw->type == CORDON_TYPE_LOSS || raw->op == CORDON_OP_DENY_RATE ||
	    raw->op == CORDON_OP_DESTRUCTIVE)
		return false;
	if (denied)
		return alerts->limits.denials && denial_see(alerts, event, ret_alert);
	return alerts->limits.calls && is_destructive(event) &&
	       call_see(alerts, context, event, ret_alert);
}

bool alerts_see_record(struct alerts *alerts, const struct event_record *record,
		       struct alert *ret_alert)
{
	struct event_gateway gateway = { .status = -1 };
	struct event_context context = { 0 };
	struct event_place place;
	struct event event;
	uint64_t fence_id = 0;
	int op, type, verdict;

	event_record_place(record, &place);
	op = event_op_find(place.op);
	type = event_type_find(place.type);
	verdict = event_verdict_find(place.verdict);
	if (op < 0 || type < 0 || verdict < 0)
		return false;
	memset(&event, 0, offsetof(struct event, names));
	event.raw.op = (__u8)op;
	event.raw.type = (__u8)type;
	event.raw.verdict = (__u8)verdict;
	event.raw.count = place.count > UINT32_MAX ? UINT32_MAX : (__u32)place.count;
	event_parse_fence_id(place.fence, &fence_id);
	event.raw.fence_id = fence_id;
	event.time_ns = place.time_ns;
	gateway.destructive = place.destructive;
	event.gateway = type == CORDON_TYPE_GATEWAY ? &gateway : NULL;
	context.tenant = place.tenant;
	context.subject = place.subject;
	return alerts_see(alerts, &context, &event, ret_alert);
}

void alert_make(struct event *ret_event, const struct cordon_fence *fence,
		const struct cordon_policy *policy, uint64_t seq, const struct alert *alert)
{
	event_make(ret_event, alert->op, fence, policy, seq, alert->detail);
	if (!fence)
		ret_event->raw.fence_id = alert->fence_id;
	ret_event->raw.rule = alert->op == CORDON_OP_DENY_RATE ? CORDON_RULE_ALERT_DENY_RATE
							       : CORDON_RULE_ALERT_DESTRUCTIVE;
	ret_event->raw.count = alert->count > UINT32_MAX ? UINT32_MAX : (uint32_t)alert->count;
	ret_event->first_ns = alert->first_ns;
	ret_event->last_ns = alert->last_ns;
}
