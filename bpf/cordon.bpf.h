/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Maps, and the fence that a program acts for. Every map is written by user space while it holds the node's lock,
 * except: tasks and socks (here, as tasks and sockets are born), state (counters, both), rings (events, here).
 */
#ifndef CORDON_BPF_H
#define CORDON_BPF_H

#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cordon/abi.h"
#include "cordon/decide.h"

#define noinline __attribute__((noinline))
#define unused __attribute__((unused))

/* Keeps the compiler from computing an answer where the verifier must see a branch. */
#define branch_barrier() asm volatile("")

/* BPF_CORE_READ from a pointer that lies in a structure of ours, which must not be relocated with the rest. */
#define CORE_READ_OF(pointer, ...)                  \
	({                                          \
		__typeof__(pointer) p_ = (pointer); \
		BPF_CORE_READ(p_, __VA_ARGS__);     \
	})

/*
 * The address that a kernel pointer has, as a number, which is what global functions take: the verifier knows that the
 * difference of two pointers is one. 0 for NULL. Not in programs of cgroups.
 */
static __always_inline __u64 number_of(const void *pointer)
{
	__u64 number = (__u64)pointer;
	struct task_struct *task;

	if (!pointer)
		return 0;
	task = bpf_get_current_task_btf();
	asm volatile("%0 -= %1" : "+r"(number) : "r"(task));
	return number + bpf_get_current_task();
}

enum {
	ERR_PERM = 1,
	ERR_NOMEM = 12,
	ERR_ACCES = 13,
	ERR_ROFS = 30,
	ERR_DQUOT = 122,
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cordon_task);
} cordon_tasks SEC(".maps");

/* BPF_F_CLONE: an accepted connection belongs to the fence of its listener. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct cordon_sock);
} cordon_socks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CORDON_FENCES_MAX);
	__type(key, __u32);
	__type(value, struct cordon_fence);
} cordon_fences SEC(".maps");

/* Two generations a slot, by cordon_tag(). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * CORDON_FENCES_MAX);
	__type(key, __u32);
	__type(value, struct cordon_policy);
} cordon_policies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CORDON_FENCES_MAX);
	__type(key, __u32);
	__type(value, struct cordon_state);
} cordon_state SEC(".maps");

/* Cgroup id to slot. A plain hash: an entry must never be evicted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CORDON_FENCES_MAX);
	__type(key, __u64);
	__type(value, __u32);
} cordon_cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CORDON_ROOTS_MAX);
	__type(key, struct cordon_root_key);
	__type(value, __u32);
} cordon_roots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CORDON_NETS_MAX);
	__type(key, struct cordon_net_key);
	__type(value, struct cordon_net);
} cordon_nets SEC(".maps");

/* A ring buffer a fence, made and read by who made the fence: one fence's flood is its own. */
struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, CORDON_FENCES_MAX);
	__type(key, __u32);
	__array(values, struct ring);
} cordon_rings SEC(".maps");

/* The fence that a program acts for, with the policy generation that is active. */
struct fctx {
	const struct cordon_fence *fence;
	const struct cordon_policy *policy;
	struct cordon_state *state; /* set where events are made only */
	struct cordon_task
		*task; /* identity of the current task in its storage; NULL in cgroup programs */
	__u32 slot;
	__u32 tag;
};

/*
 * Set by the loader for tests alone: to a process of the name `cordon-full`, storage of this kind is full. 0 in every other
 * load, and then the verifier drops the test.
 */
enum { TEST_FULL_TASKS = 1, TEST_FULL_SOCKETS = 2 };
const volatile __u32 cordon_test_full SEC(".rodata.test") = 0;

/*
 * Which of two sets of programs this is, when one is brought into effect beside another (enforce_upgrade()): so a denial
 * tells who denied. Set by the loader.
 */
const volatile __u32 cordon_set SEC(".rodata.set") = 0;

/* The users that hold Cordon's credentials, and their groups, for decide_kept(). Set by the loader. */
const volatile __u32 cordon_keepers[2 * DECIDE_KEEPERS] SEC(".rodata.keepers") = {};

static __always_inline bool test_full(__u32 kind)
{
	__u64 comm[2] = {};

	if (!(cordon_test_full & kind) || bpf_get_current_comm(comm, sizeof(comm)))
		return false;
	return comm[0] == 0x662d6e6f64726f63 /* "cordon-f" */ &&
	       (__u32)comm[1] == 0x6c6c75 /* "ull" */;
}

static __always_inline void count_fault(struct cordon_state *state, enum cordon_fault fault)
{
	if (state)
		__sync_fetch_and_add(&state->faults[fault], 1);
}

static __always_inline struct cordon_state *slot_state(__u32 slot)
{
	return bpf_map_lookup_elem(&cordon_state, &slot);
}

/*
 * Fills *f from a slot and the fence id that the task or socket was marked with. False when the slot does not hold
 * that fence (any more): the caller must deny, there is nobody to ask.
 */
static __always_inline bool fence_load(struct fctx *f, __u32 slot, __u64 fence_id)
{
	f->slot = slot;
	f->fence = bpf_map_lookup_elem(&cordon_fences, &slot);
	if (!f->fence || f->fence->id != fence_id || !fence_id)
		return false;
	f->tag = cordon_tag(slot, f->fence->generation);
	f->policy = bpf_map_lookup_elem(&cordon_policies, &f->tag);
	return f->policy && f->policy->mode;
}

#endif
