/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has called, and what each may have: a share of the connections, and so many requests a second. What is counted belongs
 * to the fence, not to a connection or to a generation of its policy: who connects anew, or in turn with others, begins no
 * new count. All who are no fence have one share together. Any thread.
 */
#ifndef CORDON_GATEWAY_CALLERS_H
#define CORDON_GATEWAY_CALLERS_H

#include "gateway/gateway.h"

/* What one caller, or all that are no fence, have together. */
struct lent;
struct share {
	atomic_uint refs;
	pthread_mutex_t mutex; /* of lent */
	struct lent *lent;     /* what it has used of upstreams' credentials */
	atomic_uint connections;
	_Atomic int64_t full_ns;   /* CLOCK_MONOTONIC: when all of the burst is there again */
	atomic_uint tunnels;	   /* connections through the proxy */
	_Atomic uint64_t up_bytes; /* that went out through the gateway, ever */
	atomic_uint refused;	   /* requests beyond the rate that nobody was told of yet */
};

/*
 * Takes one request of the share: so many a second, and a burst of so many at once. false: it is one too many, and was
 * counted; after a second there is room for at least one.
 */
bool share_admit(struct share *share, long long per_s, long long burst);

/*
 * Takes one use of the credential of an upstream of that name: uses of them (0: any number) within lifetime_ms of the first one
 * (0: for ever). 0; -EDQUOT: used up, -ETIME: too late, -ENOMEM.
 */
int share_use(struct share *share, const char *upstream, long long uses, long long lifetime_ms);

/*
 * Counts n bytes that are to go out for the caller, by the proxy or to an upstream, against limits.upload of its policy. false: they
 * are beyond it, and must not go.
 */
bool caller_upload(const struct caller *caller, uint64_t n);
/* Is anything left of it? */
bool caller_may_upload(const struct caller *caller);

struct callers;

struct callers *callers_new(void);	    /* NULL when memory ends */
void callers_free(struct callers *callers); /* takes NULL */
/* The caller of an identity, shared by all of its connections. NULL when memory ends. */
struct caller *callers_find(struct callers *callers, const struct identity *id);
void callers_fence_ended(struct callers *callers, uint64_t fence);

/*
 * Calls told() for each fence that had requests beyond its rate: at once for the first, then at most once in CALLERS_TELL_S;
 * with all, or when the fence has ended, for what is left.
 */
#define CALLERS_TELL_S 10
typedef void callers_told_fn(void *context, const struct identity *id, unsigned int refused);
void callers_tell(struct callers *callers, bool all, callers_told_fn *told, void *context);

#endif
