/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which fence a task is in. The mark lies in task storage; a process is what its thread-group leader is marked as,
 * every thread carries a copy so that the one that execs away from its leader keeps it. A task gets the mark
 *   - from its creator (task_alloc), or is not created;
 *   - by being placed in a fenced cgroup: by migration (cgroup_attach_task), by clone3 (task_newtask);
 *   - if that failed, or was skipped, when it executes something there (bprm_check), or it does not execute it;
 * and never loses it. Tasks outside leave every hook after one pointer test.
 */
#ifndef CORDON_IDENTITY_BPF_H
#define CORDON_IDENTITY_BPF_H

#include "cordon.bpf.h"

enum { STORAGE_ELEMS_MAX = 16 };

/*
 * The searches are global functions: verified once, not at each of their calls. They take and return plain numbers;
 * what lies in the caller's stack, newer verifiers follow through every call.
 */
enum { MARK_SLOT_BITS = 14 };

_Static_assert(CORDON_FENCES_MAX <= 1 << MARK_SLOT_BITS, "a mark fits into a number");

#define MARK_NONE 0ULL
#define MARK_UNKNOWN (~0ULL)

static __always_inline bool mark_known(__u64 mark)
{
	return mark != MARK_NONE && mark != MARK_UNKNOWN;
}

static __always_inline __u64 mark_fence_id(__u64 mark)
{
	return mark >> MARK_SLOT_BITS;
}

static __always_inline __u32 mark_slot(__u64 mark)
{
	return mark & ((1 << MARK_SLOT_BITS) - 1);
}

/*
 * bpf_task_storage_get() may fail for a task that has the mark: up to 6.1, and for tracing programs later still, it
 * gives up when this CPU is inside another storage operation. That must not make a fenced task look free, so the
 * list that it would have searched is searched by hand. Returns the mark as one number (fence ids are times in
 * microseconds since 2020, below 2^50 until 2055), MARK_NONE, or MARK_UNKNOWN when it cannot be told.
 */
struct mark_walk {
	struct hlist_node *node;
	struct { /* how a struct cordon_task begins */
		__u64 fence_id;
		__u32 slot;
		__u16 cap;
		__u8 entering;
		__u8 met_next;
	} mark;
	__u32 map_id;
	int found;
};

_Static_assert(__builtin_offsetof(struct cordon_task, entering) ==
		       __builtin_offsetof(struct mark_walk, mark.entering) -
			       __builtin_offsetof(struct mark_walk, mark),
	       "the beginning is the same");

static long mark_step(__u32 i, struct mark_walk *w)
{
	struct bpf_local_storage_elem *elem;

	if (!w->node) {
		w->found = 0;
		return 1;
	}
	elem = (void *)w->node - bpf_core_field_offset(struct bpf_local_storage_elem, snode);
	if (BPF_CORE_READ(elem, sdata.smap, map.id) == w->map_id) {
		if (!bpf_probe_read_kernel(&w->mark, sizeof(w->mark),
					   __builtin_preserve_access_index(&elem->sdata.data)))
			w->found = 1;
		return 1;
	}
	w->node = CORE_READ_OF(w->node, next);
	return 0;
}

static __always_inline void mark_find(struct mark_walk *w, __u64 address)
{
	const struct task_struct *task = (void *)address;

	w->node = BPF_CORE_READ(task, bpf_storage, list.first);
	bpf_loop(STORAGE_ELEMS_MAX, mark_step, w, 0);
}

noinline __u64 task_mark_search(__u64 address)
{
	struct mark_walk w = { .map_id = ((struct bpf_map *)&cordon_tasks)->id, .found = -1 };

	mark_find(&w, address);
	if (w.found <= 0)
		return w.found ? MARK_UNKNOWN : MARK_NONE;
	return w.mark.fence_id << MARK_SLOT_BITS | w.mark.slot;
}

struct cgroup_walk {
	struct cgroup *cgroup;
	int slot;
};

static long cgroup_step(__u32 i, struct cgroup_walk *w)
{
	__u64 id = CORE_READ_OF(w->cgroup, kn, id);
	__u32 *slot = bpf_map_lookup_elem(&cordon_cgroups, &id);
	void *parent;

	if (slot) {
		w->slot = *slot;
		return 1;
	}
	parent = CORE_READ_OF(w->cgroup, self.parent);
	if (!parent)
		return 1;
	w->cgroup = parent - bpf_core_field_offset(struct cgroup, self);
	return 0;
}

/* The slot of the fence that a cgroup, or one above it, belongs to; -1 for none. */
noinline int cgroup_slot_search(__u64 address)
{
	struct cgroup_walk w = { .cgroup = (void *)address, .slot = -1 };

	bpf_loop(CORDON_CGROUP_DEPTH_MAX, cgroup_step, &w, 0);
	return w.slot;
}

static __always_inline int cgroup_slot(struct cgroup *cgroup)
{
	return cgroup_slot_search((__u64)cgroup);
}

/* Is the current task still below the cgroup of its fence? */
static __always_inline bool task_in_cgroup(const struct fctx *f)
{
	return bpf_get_current_ancestor_cgroup_id(f->fence->cgroup_level) == f->fence->cgroup_id;
}

enum fence_answer {
	UNFENCED, /* let pass */
	FENCED,	  /* *f is filled */
	BROKEN,	  /* in a fence that cannot be asked: deny */
};

/* The mark of the current process, which has storage of BPF programs, in which the helper finds none. */
noinline __u64 mark_unfound(void)
{
	struct task_struct *task = (void *)bpf_get_current_task(), *leader;
	__u64 mark;

	leader = BPF_CORE_READ(task, group_leader);
	mark = task_mark_search((__u64)leader);
	if (mark == MARK_UNKNOWN && cgroup_slot(BPF_CORE_READ(leader, cgroups, dfl_cgrp)) < 0)
		mark = MARK_NONE;
	return mark;
}

/* The fence of the process that a leader leads. MARK_UNKNOWN is a mark that no fence has. */
static __always_inline enum fence_answer fence_of_leader(struct task_struct *leader, struct fctx *f)
{
	struct cordon_task *task = bpf_task_storage_get(&cordon_tasks, leader, 0, 0);
	__u64 fence_id;
	__u32 slot;

	f->task = task;
	if (task) {
		slot = task->slot;
		fence_id = task->fence_id;
	} else {
		__u64 mark = mark_unfound();

		if (mark == MARK_NONE)
			return UNFENCED;
		slot = mark_slot(mark);
		fence_id = mark_fence_id(mark);
	}
	if (fence_load(f, slot, fence_id))
		return FENCED;
	branch_barrier();
	return BROKEN;
}

/* The leader of the current process, if it may be fenced; else NULL: who has no storage has no mark. */
static __always_inline struct task_struct *leader_marked(void)
{
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;

	return leader->bpf_storage ? leader : NULL;
}

/* The fence of the current task. */
static __always_inline enum fence_answer fence_of_current(struct fctx *f)
{
	struct task_struct *leader = leader_marked();

	return leader ? fence_of_leader(leader, f) : UNFENCED;
}

/*
 * Is the process of this leader outside the fence with this id? So is one that has entered it and executed nothing yet, to all
 * but itself: it is the container's runtime, whose capabilities and descriptors are the host's.
 */
noinline int leader_outside(__u64 address, __u64 fence_id)
{
	struct mark_walk w = { .map_id = ((struct bpf_map *)&cordon_tasks)->id, .found = -1 };
	const struct task_struct *task = (void *)bpf_get_current_task();

	mark_find(&w, address);
	if (w.found <= 0 || w.mark.fence_id != fence_id)
		return 1;
	return w.mark.entering && address != (__u64)BPF_CORE_READ(task, group_leader);
}

/* Is a task outside the fence with this id? Takes an address that is only read through probes. */
static __always_inline bool task_outside(const struct task_struct *task, __u64 fence_id)
{
	return leader_outside((__u64)BPF_CORE_READ(task, group_leader), fence_id);
}

/*
 * Head of an LSM hook, in place of BPF_PROG(): `name` itself only lets tasks outside fences leave, with what the
 * programs before it answered (the last argument); all else is in a function of its own, so that they pay for no
 * register and no stack that they do not need. The body begins with
 * FENCE_ENTER_HOOK(), or calls what begins with FENCE_ENTER().
 */
#define FENCE_HOOK(name, args...)                                                                  \
	name(unsigned long long *ctx);                                                             \
	static __always_inline int name##_body(struct task_struct *leader,                         \
					       unsigned long long *ctx, ##args);                   \
	static noinline int name##_inside(unsigned long long *ctx, struct task_struct *leader)     \
	{                                                                                          \
		_Pragma("GCC diagnostic push")                                                     \
			_Pragma("GCC diagnostic ignored \"-Wint-conversion\"") return name##_body( \
				leader, ___bpf_ctx_cast(args));                                    \
		_Pragma("GCC diagnostic pop")                                                      \
	}                                                                                          \
	int name(unsigned long long *ctx)                                                          \
	{                                                                                          \
		struct task_struct *leader = bpf_get_current_task_btf()->group_leader;             \
                                                                                                   \
		if (!leader->bpf_storage)                                                          \
			return (int)ctx[___bpf_narg(args) - 1];                                    \
		return name##_inside(ctx, leader);                                                 \
	}                                                                                          \
	static __always_inline int name##_body(struct task_struct *leader,                         \
					       unsigned long long *ctx, ##args)

/*
 * Begins the body of a hook: passes on a denial, leaves when the process is in no fence, denies where the fence cannot
 * be asked.
 */
#define FENCE_ENTER(f, ret) FENCE_ENTER_BY(f, fence_of_current(&(f)), ret)

/* The same, right in the body of a FENCE_HOOK(), which knows the leader. */
#define FENCE_ENTER_HOOK(f, ret) FENCE_ENTER_BY(f, fence_of_leader(leader, &(f)), ret)

#define FENCE_ENTER_BY(f, answer, ret)                            \
	struct fctx f;                                            \
	do {                                                      \
		enum fence_answer answer_;                        \
		if (ret)                                          \
			return ret;                               \
		answer_ = answer;                                 \
		if (answer_ != FENCED)                            \
			return answer_ == BROKEN ? -ERR_PERM : 0; \
	} while (0)

/* Marks a task as belonging to a slot, unless it is marked already. False when it could not be marked. */
static __always_inline bool task_mark(struct task_struct *task, __u32 slot, __u64 fence_id,
				      __u8 entering)
{
	struct cordon_task *mark =
		bpf_task_storage_get(&cordon_tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!mark)
		return false;
	if (!mark->fence_id) {
		mark->slot = slot;
		mark->fence_id = fence_id;
		mark->entering = entering;
	}
	return true;
}

/* Marks a task for the fence of its cgroup, if that is fenced. False when it is and could not be marked. */
static __always_inline bool task_enter(struct task_struct *task, struct cgroup *cgroup,
				       __u8 entering)
{
	/* Its own address, as a number that a global function takes. */
	int found = cgroup_slot(BPF_CORE_READ(cgroup, self.cgroup));
	__u32 slot = found;
	struct cordon_fence *fence;

	if (found < 0)
		return true;
	fence = bpf_map_lookup_elem(&cordon_fences, &slot);
	if (!fence || !fence->id || !task_mark(task, slot, fence->id, entering & fence->attached)) {
		count_fault(slot_state(slot), CORDON_FAULT_ENTER);
		return false;
	}
	return true;
}

#endif
