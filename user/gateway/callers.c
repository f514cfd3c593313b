// SPDX-License-Identifier: Apache-2.0
/*
 * See callers.h. A fence is remembered from its first connection until it ends; there are at most as many as the node has
 * fences. Rates are kept as one number, the time at which the whole burst is there again (GCRA), so that a request costs
 * one atomic exchange and no lock.
 */
#include "gateway/callers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUCKETS 1024
#define NS_PER_S INT64_C(1000000000)

struct entry {
	struct entry *next;
	struct caller *caller;
	int64_t told_ns; /* 0: never */
	bool ended;	 /* stays until the last refusals were told */
};

/* Of an upstream, by its name: another configuration begins no new count. */
struct lent {
	struct lent *next;
	long long uses;
	int64_t first_s; /* CLOCK_BOOTTIME */
	char name[];
};

struct callers {
	pthread_mutex_t mutex;
	struct entry *buckets[BUCKETS];
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* --- one caller ------------------------------------------------------------------------------- */

bool share_admit(struct share *share, long long per_s, long long burst)
{
	const int64_t each_ns = NS_PER_S / per_s, now = now_ns(), most_ns = now + burst * each_ns;
	int64_t full_ns = atomic_load(&share->full_ns), next;

	do {
		next = (full_ns > now ? full_ns : now) + each_ns;
		if (full_ns > most_ns) { /* by limits of before, which were closer */
			next = most_ns;
		} else if (next > most_ns) {
			atomic_fetch_add(&share->refused, 1);
			return false;
		}
	} while (!atomic_compare_exchange_weak(&share->full_ns, &full_ns, next));
	return true;
}

static struct lent *lent_find(struct share *share, const char *name, int64_t now_s)
{
	struct lent *lent = share->lent;

	while (lent && strcmp(lent->name, name) != 0)
		lent = lent->next;
	if (lent)
		return lent;
	lent = calloc(1, sizeof(*lent) + strlen(name) + 1);
	if (!lent)
		return NULL;
	strcpy(lent->name, name);
	lent->first_s = now_s;
	lent->next = share->lent;
	share->lent = lent;
	return lent;
}

int share_use(struct share *share, const char *upstream, long long uses, long long lifetime_ms)
{
	struct timespec now;
	struct lent *lent;
	int r = 0;

	/* Time asleep counts. */
	clock_gettime(CLOCK_BOOTTIME, &now);
	pthread_mutex_lock(&share->mutex);
	lent = lent_find(share, upstream, now.tv_sec);
	if (!lent)
		r = -ENOMEM;
	else if (lifetime_ms && now.tv_sec - lent->first_s >= lifetime_ms / 1000)
		r = -ETIME;
	else if (uses && lent->uses >= uses)
		r = -EDQUOT;
	else
		lent->uses++;
	pthread_mutex_unlock(&share->mutex);
	return r;
}

bool caller_upload(const struct caller *caller, uint64_t n)
{
	uint64_t before = atomic_fetch_add(&caller->share->up_bytes, n);

	return !caller->id.upload_bytes || before + n <= caller->id.upload_bytes;
}

bool caller_may_upload(const struct caller *caller)
{
	return !caller->id.upload_bytes ||
	       atomic_load(&caller->share->up_bytes) < caller->id.upload_bytes;
}

static struct share *share_new(void)
{
	struct share *share = calloc(1, sizeof(*share));

	if (share)
		pthread_mutex_init(&share->mutex, NULL);
	return share;
}

static void share_unref(struct share *share)
{
	if (!share || atomic_fetch_sub_explicit(&share->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (struct lent *lent = share->lent, *next; lent; lent = next) {
		next = lent->next;
		free(lent);
	}
	pthread_mutex_destroy(&share->mutex);
	free(share);
}

struct caller *caller_ref(struct caller *caller)
{
	if (caller)
		atomic_fetch_add_explicit(&caller->refs, 1, memory_order_relaxed);
	return caller;
}

void caller_unref(struct caller *caller)
{
	if (!caller || atomic_fetch_sub_explicit(&caller->refs, 1, memory_order_acq_rel) != 1)
		return;
	share_unref(caller->share);
	free(caller);
}

/* share: of an earlier generation of the fence; NULL: a new one. */
static struct caller *caller_new(const struct identity *id, struct share *share)
{
	struct caller *caller = calloc(1, sizeof(*caller));

	if (!caller)
		return NULL;
	caller->share = share ? share : share_new();
	if (!caller->share) {
		free(caller);
		return NULL;
	}
	atomic_fetch_add(&caller->share->refs, 1);
	caller->refs = 1;
	caller->id = *id;
	return caller;
}

/* --- all of them ------------------------------------------------------------------------------ */

struct callers *callers_new(void)
{
	struct callers *callers = calloc(1, sizeof(*callers));

	if (callers)
		pthread_mutex_init(&callers->mutex, NULL);
	return callers;
}

static void entry_free(struct entry *entry)
{
	caller_unref(entry->caller);
	free(entry);
}

void callers_free(struct callers *callers)
{
	if (!callers)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct entry *entry = callers->buckets[i], *next; entry; entry = next) {
			next = entry->next;
			entry_free(entry);
		}
	pthread_mutex_destroy(&callers->mutex);
	free(callers);
}

static struct entry *entry_find(struct callers *callers, uint64_t fence)
{
	struct entry *entry = callers->buckets[fence % BUCKETS];

	while (entry && entry->caller->id.fence_id != fence)
		entry = entry->next;
	return entry;
}

/* What is said of a fence changes with its policy's generation only. */
static struct caller *entry_caller(struct entry *entry, const struct identity *id)
{
	struct caller *caller;

	if (entry->caller->id.generation == id->generation)
		return caller_ref(entry->caller);
	caller = caller_new(id, entry->caller->share);
	if (!caller)
		return NULL;
	caller_unref(entry->caller);
	entry->caller = caller;
	return caller_ref(caller);
}

static struct caller *entry_new(struct callers *callers, const struct identity *id)
{
	struct entry **place = &callers->buckets[id->fence_id % BUCKETS];
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->caller = caller_new(id, NULL);
	if (!entry->caller) {
		free(entry);
		return NULL;
	}
	entry->next = *place;
	*place = entry;
	return caller_ref(entry->caller);
}

struct caller *callers_find(struct callers *callers, const struct identity *id)
{
	struct caller *caller;
	struct entry *entry;

	pthread_mutex_lock(&callers->mutex);
	entry = entry_find(callers, id->fence_id);
	if (entry)
		entry->ended = false; /* its owner hung up and came again, as at a reload */
	caller = entry ? entry_caller(entry, id) : entry_new(callers, id);
	pthread_mutex_unlock(&callers->mutex);
	return caller;
}

void callers_fence_ended(struct callers *callers, uint64_t fence)
{
	struct entry *entry;

	pthread_mutex_lock(&callers->mutex);
	entry = entry_find(callers, fence);
	if (entry)
		entry->ended = true;
	pthread_mutex_unlock(&callers->mutex);
}

/* One that is due, with its number; NULL: none is. Frees what has ended and has nothing to tell. */
static struct caller *take_due(struct callers *callers, bool all, int64_t now,
			       unsigned int *ret_refused)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct entry **place = &callers->buckets[i]; *place;) {
			struct entry *entry = *place;
			struct share *share = entry->caller->share;
			bool due = all || entry->ended || !entry->told_ns ||
				   now - entry->told_ns >= CALLERS_TELL_S * NS_PER_S;

			*ret_refused = due ? atomic_exchange(&share->refused, 0) : 0;
			if (*ret_refused) {
				entry->told_ns = now;
				return caller_ref(entry->caller);
			}
			if (!entry->ended) {
				place = &entry->next;
				continue;
			}
			*place = entry->next;
			entry_free(entry);
		}
	return NULL;
}

void callers_tell(struct callers *callers, bool all, callers_told_fn *told, void *context)
{
	int64_t now = now_ns();
	unsigned int refused;
	struct caller *caller;

	/* With all, and while a fence floods, there is always more: what was told now is not due again. */
	for (size_t most = 0; most < 2 * BUCKETS; most++) {
		pthread_mutex_lock(&callers->mutex);
		caller = take_due(callers, all, now, &refused);
		pthread_mutex_unlock(&callers->mutex);
		if (!caller)
			return;
		told(context, &caller->id, refused);
		caller_unref(caller);
	}
}
