/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A fence's budget of events. Within it each decision that is reported has a record of its own. Beyond it there is one
 * record a second for each kind of decision (operation, rule, verdict), as whole as ever; it stands for all of its kind
 * since the one before, and its count says how many. What is left when the flood is over the fence's owner has told by
 * fold_flush. So no decision is missing from the counts, and what a fence's events cost others has a bound. What is
 * folded takes no number. Nothing here can change a decision.
 */
#ifndef CORDON_FOLD_BPF_H
#define CORDON_FOLD_BPF_H

#include "cordon.bpf.h"

enum {
	FOLD_TRIES = 16, /* places that a kind may have */
	/* What event_budget() says. */
	FOLDED = 0,
	TOLD = 1,
	UNTOLD = 2,   /* its kind has no place: counted as lost, for the bound to hold */
	TOLD_FOR = 3, /* and from here on: with what its kind has pending, of place 0... */
};

#define BUDGET_SAVED_NS 10000000000ULL /* what a fence that was quiet may use at once */
#define FOLD_EVERY_NS 1000000000ULL    /* between two records of a kind, beyond the budget */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CORDON_FENCES_MAX);
	__type(key, __u32);
	__type(value, struct cordon_folds);
} cordon_folds SEC(".maps");

/* One more record: is it within the budget? */
static __always_inline bool budget_take(struct cordon_state *state, __u64 event_ns)
{
	__u64 now, due;

	if (!event_ns)
		return true;
	now = bpf_ktime_get_ns();
	due = *(volatile __u64 *)&state->due_ns;
	if (due > now + BUDGET_SAVED_NS)
		return false;
	if (due > now || __sync_val_compare_and_swap(&state->due_ns, due, now + event_ns) != due)
		__sync_fetch_and_add(&state->due_ns, event_ns);
	return true;
}

/* The place of a kind among the fence's folds, or CORDON_FOLD_KINDS: there is none for it. */
static __always_inline __u32 fold_find(struct cordon_folds *folds, __u64 kind)
{
	__u32 first = kind * 0x9e3779b97f4a7c15ULL >> 57;

#pragma unroll
	for (int i = 0; i < FOLD_TRIES; i++) {
		__u32 at = (first + i) & (CORDON_FOLD_KINDS - 1);
		__u64 there = *(volatile __u64 *)&folds->at[at].kind;

		if (!there)
			there = __sync_val_compare_and_swap(&folds->at[at].kind, 0, kind) ?: kind;
		if (there == kind)
			return at;
	}
	return CORDON_FOLD_KINDS;
}

static __always_inline struct cordon_fold *fold_at(__u32 slot, __u32 at)
{
	struct cordon_folds *folds = bpf_map_lookup_elem(&cordon_folds, &slot);

	if (!folds)
		return NULL;
	asm volatile("" : "+r"(folds)); /* else its place is computed before the test */
	return &folds->at[at & (CORDON_FOLD_KINDS - 1)];
}

/* What is pending, for a record to stand for; as much as its count has room for. */
static __always_inline __u32 fold_take(struct cordon_fold *fold)
{
	__u64 n = __sync_lock_test_and_set(&fold->pending, 0), most = 0x7fffffff;

	if (n > most) {
		__sync_fetch_and_add(&fold->pending, n - most);
		n = most;
	}
	return n;
}

static __always_inline void fold_give_back(struct cordon_fold *fold, __u32 n)
{
	__sync_fetch_and_add(&fold->pending, n);
}

/* Has a record of this one kind made, of nobody in particular, if there is something pending; is something left? */
noinline int fold_tell(__u32 slot, __u32 at, __u64 due_ns)
{
	struct cordon_fence *fence = bpf_map_lookup_elem(&cordon_fences, &slot);
	struct cordon_fold *fold = fold_at(slot, at);
	struct fctx f = { .state = slot_state(slot) };
	struct cordon_event *e;
	void *ring;

	if (!fold || !fence || !f.state || !fence_load(&f, slot, fence->id))
		return 0;
	if (!*(volatile __u64 *)&fold->pending)
		return 0;
	ring = bpf_map_lookup_elem(&cordon_rings, &slot);
	if (!ring || *(volatile __u64 *)&fold->next_ns > due_ns)
		return 1;
	e = bpf_ringbuf_reserve(ring, sizeof(*e), 0);
	if (!e)
		return 1;
	__builtin_memset(e, 0, sizeof(*e));
	e->count = fold_take(fold);
	if (!e->count) { /* somebody else's record stands for it */
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
		return 0;
	}
	e->seq = __sync_fetch_and_add(&f.state->seq, 1) + 1;
	e->mono_ns = bpf_ktime_get_ns();
	e->lost = f.state->lost;
	e->fence_id = f.fence->id;
	e->generation = f.policy->generation;
	e->mode = f.policy->mode;
	e->op = fold->kind;
	e->rule = fold->kind >> 8;
	e->type = fold->kind >> 16;
	e->verdict = fold->kind >> 32;
	e->err = e->verdict == CORDON_VERDICT_DENY ? fold->kind >> 24 & 0xff : 0;
	e->op_flags = fold->like;
	e->family = fold->like >> 32;
	e->proto = fold->like >> 48;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* For the owner of a fence: tells what is pending and has no record of its kind to come; how many kinds are left? */
SEC("syscall")
int fold_flush(struct cordon_flush *ctx)
{
	__u64 due_ns = ctx->all ? ~0ULL : bpf_ktime_get_ns();
	__u32 slot = ctx->slot;
	int left = 0;

	for (__u32 at = 0; at < CORDON_FOLD_KINDS; at++)
		left += fold_tell(slot, at, due_ns);
	return left;
}

#endif
