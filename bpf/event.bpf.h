/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reporting: one numbered record a decision. The number is taken before the record is delivered, so a record that
 * finds no room leaves a hole that state.lost explains. Nothing here can change a decision.
 */
#ifndef CORDON_EVENT_BPF_H
#define CORDON_EVENT_BPF_H

#include "cordon.bpf.h"

enum {
	NAMES_SIZE = 16384, /* a power of two, for masking; holds CORDON_EVENT_NAMES_MAX */
	NAME_MAX_BYTES = 256,
	SCRATCH_DEPTH = 4,  /* programs that can interrupt each other on one CPU */
	WAKE_BYTES = 16384, /* waiting for less than this wakes nobody: readers poll */
	PATH_STEPS_MAX = 2048,
	PF_IO_WORKER = 0x10,
};

struct scratch {
	struct cordon_event event;
	char names[NAMES_SIZE + NAME_MAX_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCH_DEPTH);
	__type(key, __u32);
	__type(value, struct scratch);
} cordon_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cordon_scratch_depth SEC(".maps");

/* What a hook knows of the operation; objects as addresses, they are only read through probes. */
struct detail {
	__u8 op;
	__u8 rule;
	__u8 no_task; /* the current task is not the one that acts */
	__u8 silent;  /* decide and count, but do not report */
	__s32 err;
	__u32 flags;
	__u32 target_pid;
	const struct dentry *dentry;
	const struct vfsmount *mnt; /* NULL: unknown */
	const struct dentry *dentry2;
	const struct unix_sock *peer;
	struct cordon_addr addr; /* the other side, with dport */
	struct cordon_addr own;	 /* this side, with lport; known for packets only */
	__u16 family;
	__u16 proto;
	__u16 dport;
	__u16 lport;
};

/* Where to append which path. */
struct path_request {
	const struct dentry *dentry;
	const struct vfsmount *mnt; /* NULL: unknown, the path ends at the root of its file system */
	__u32 depth;		    /* of the scratch space */
	__u32 off;		    /* in its names; grows by what was appended */
	__u32 flags;		    /* CORDON_PATH_*, returned */
};

struct path_walk {
	struct scratch *s;
	const struct dentry *dentry;
	const struct mount *mount;
	const struct dentry *mnt_root;
	__u32 start;
	__u32 off;
	__u32 flags;
};

/* One step up: write a component, or cross to the parent mount. 1 ends the walk. */
static long path_step(__u32 i, struct path_walk *w)
{
	const struct dentry *parent = CORE_READ_OF(w->dentry, d_parent);
	long n;

	if (w->mount && w->dentry == w->mnt_root) {
		const struct mount *up = CORE_READ_OF(w->mount, mnt_parent);

		if (up == w->mount)
			return 1;
		w->dentry = CORE_READ_OF(w->mount, mnt_mountpoint);
		w->mount = up;
		w->mnt_root = BPF_CORE_READ(up, mnt.mnt_root);
		return 0;
	}
	if (parent == w->dentry) {
		w->flags |= w->mount ? CORDON_PATH_DISCONNECTED : 0;
		return 1;
	}
	n = -1;
	if (w->off - w->start <= CORDON_PATH_MAX - NAME_MAX_BYTES)
		n = bpf_probe_read_kernel_str(w->s->names + (w->off & (NAMES_SIZE - 1)),
					      NAME_MAX_BYTES, CORE_READ_OF(w->dentry, d_name.name));
	if (n <= 0) {
		w->flags |= CORDON_PATH_TRUNCATED;
		return 1;
	}
	w->off += n;
	w->dentry = parent;
	return 0;
}

/* Appends the components of a path, the last first; returns their length in bytes. Global: see settle_slot(). */
noinline int path_append(struct path_request *r)
{
	struct path_walk w = {};
	__u32 depth;

	if (!r)
		return 0;
	depth = r->depth;
	w.s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	if (!w.s)
		return 0;
	w.dentry = r->dentry;
	w.start = w.off = r->off;
	if (r->mnt) {
		const struct vfsmount *mnt = r->mnt;

		w.mount = (void *)mnt - bpf_core_field_offset(struct mount, mnt);
		w.mnt_root = BPF_CORE_READ(mnt, mnt_root);
	} else {
		w.flags = CORDON_PATH_TRUNCATED;
	}
	if (bpf_loop(PATH_STEPS_MAX, path_step, &w, 0) == PATH_STEPS_MAX)
		w.flags |= CORDON_PATH_TRUNCATED;
	r->off = w.off;
	r->flags = w.flags;
	return w.off - w.start;
}

/* A dentry-only hook knows no mount; that of the task's root serves when it shows the same file system. */
static __always_inline const struct vfsmount *mount_guess(const struct dentry *dentry)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct vfsmount *root = BPF_CORE_READ(task, fs, root.mnt);

	return BPF_CORE_READ(root, mnt_sb) == BPF_CORE_READ(dentry, d_sb) ? root : NULL;
}

/*
 * The parts of an event. Global, like path_append(): each is verified once, and not in every combination with the
 * others. They find the scratch space by its depth.
 */
noinline int event_task(__u32 depth)
{
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_struct *leader = task->group_leader, *parent = leader->real_parent;
	struct pid *pid = BPF_CORE_READ(leader, thread_pid);
	struct cordon_event *e;
	__u32 level;

	if (!s)
		return 0;
	e = &s->event;
	e->pid = task->tgid;
	e->tid = task->pid;
	e->ppid = parent->tgid;
	e->uid = task->real_cred->uid.val;
	e->gid = task->real_cred->gid.val;
	e->start_ns = leader->start_boottime;
	e->exec_seq = leader->self_exec_id;
	e->parent_start_ns = parent->start_boottime;
	e->parent_exec_seq = parent->self_exec_id;
	level = BPF_CORE_READ(pid, level) & 31;
	bpf_probe_read_kernel(&e->pid_ns, sizeof(e->pid_ns),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid) +
				      bpf_core_field_offset(struct upid, nr));
	/* Workers of io_uring have names of their own; what they do, their process asked for. */
	if (task->flags & PF_IO_WORKER)
		BPF_CORE_READ_STR_INTO(&e->comm, leader, comm);
	else
		BPF_CORE_READ_STR_INTO(&e->comm, task, comm);
	e->cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	return 0;
}

/* The object, or for one that is to be created its parent. */
noinline int event_object(__u32 depth, struct detail *d)
{
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	const struct inode *inode;

	if (!s || !d)
		return 0;
	inode = CORE_READ_OF(d->dentry, d_inode);
	if (!inode)
		inode = CORE_READ_OF(d->dentry, d_parent, d_inode);
	s->event.ino = BPF_CORE_READ(inode, i_ino);
	s->event.dev = BPF_CORE_READ(inode, i_sb, s_dev);
	return 0;
}

/* The executable's path; returns its length. */
static __always_inline __u32 event_exe(struct path_request *r)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file *exe = BPF_CORE_READ(task, mm, exe_file);

	r->dentry = BPF_CORE_READ(exe, f_path.dentry);
	r->mnt = BPF_CORE_READ(exe, f_path.mnt);
	return path_append(r);
}

/* The name that a unix socket is bound to, as it is; returns its length. */
noinline int event_unix(__u32 depth, __u32 off, struct detail *d)
{
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	struct unix_address *addr;
	__u64 take;

	if (!s || !d)
		return 0;
	addr = CORE_READ_OF(d->peer, addr);
	take = BPF_CORE_READ(addr, len) - 2; /* without sun_family */
	if (!addr || !take || take > 108)
		return 0;
	asm volatile("%0 &= 0x7f"
		     : "+r"(take)); /* where the verifier sees it, whatever was compared above */
	if (bpf_probe_read_kernel(s->names + (off & (NAMES_SIZE - 1)), take,
				  (void *)addr + bpf_core_field_offset(struct unix_address, name) +
					  2))
		return 0;
	return take;
}

/* Appends the names and notes their lengths; returns their sum. */
noinline int event_names(__u32 depth, struct detail *d)
{
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	struct path_request r = { .depth = depth };
	struct cordon_event *e;

	if (!s || !d)
		return 0;
	e = &s->event;
	if (d->dentry) {
		r.dentry = d->dentry;
		r.mnt = d->mnt ?: mount_guess(r.dentry);
		e->path_len = path_append(&r);
		e->path_flags = r.flags;
	}
	if (d->dentry2) {
		r.dentry = d->dentry2;
		e->path2_len = path_append(&r);
		e->path2_flags = r.flags;
	}
	if (!d->no_task)
		e->exe_len = event_exe(&r);
	if (d->peer) {
		e->unix_len = event_unix(depth, r.off, d);
		r.off += e->unix_len;
	}
	return r.off;
}

static __always_inline void event_net(struct cordon_event *e, const struct detail *d)
{
	e->family = d->family;
	e->proto = d->proto;
	e->dport = d->dport;
	__builtin_memcpy(e->dst, d->addr.b, sizeof(e->dst));
	e->net_flags = d->addr.mapped ? CORDON_NET_MAPPED : 0;
	if (d->rule == CORDON_RULE_NET_METADATA)
		e->net_flags |= CORDON_NET_METADATA;
	if (d->op == CORDON_OP_INBOUND) {
		e->net_flags |= CORDON_NET_SRC;
		e->sport = d->dport;
		e->dport = d->lport;
		__builtin_memcpy(e->src, d->addr.b, sizeof(e->src));
		__builtin_memcpy(e->dst, d->own.b, sizeof(e->dst));
	}
}

static __always_inline void event_deliver(struct fctx *f, struct scratch *s, __u32 names)
{
	void *ring = bpf_map_lookup_elem(&cordon_rings, &f->slot);
	__u64 flags = BPF_RB_NO_WAKEUP;
	__u32 size = sizeof(struct cordon_event) + names;

	if (!ring || size > sizeof(*s)) {
		__sync_fetch_and_add(&f->state->lost, 1);
		return;
	}
	if (bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) > WAKE_BYTES)
		flags = BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_output(ring, s, size, flags)) {
		count_fault(f->state, CORDON_FAULT_RING_FULL);
		__sync_fetch_and_add(&f->state->lost, 1);
	}
}

/* Numbers, fills and delivers one record. d is plain memory: this is part of settle_slot(). */
static __always_inline void event_fill(struct fctx *f, __u32 depth, struct scratch *s,
				       struct detail *d, __u8 verdict, __u8 type)
{
	__u64 seq = __sync_fetch_and_add(&f->state->seq, 1) + 1;
	struct cordon_event *e = &s->event;

	__builtin_memset(e, 0, sizeof(*e));
	e->seq = seq;
	e->mono_ns = bpf_ktime_get_ns();
	e->lost = f->state->lost;
	e->fence_id = f->fence->id;
	e->generation = f->policy->generation;
	e->mode = f->policy->mode;
	e->count = 1;
	e->type = type;
	e->op = d->op;
	e->verdict = verdict;
	e->rule = d->rule;
	e->err = verdict == CORDON_VERDICT_DENY ? d->err : 0;
	e->op_flags = d->flags;
	e->target_pid = d->target_pid;
	if (d->family)
		event_net(e, d);
	if (!d->no_task)
		event_task(depth);
	if (d->dentry)
		event_object(depth, d);
	event_deliver(f, s, event_names(depth, d));
}

static __always_inline void event_report(struct fctx *f, struct detail *d, __u8 verdict, __u8 type)
{
	__u32 zero = 0, depth, *level = bpf_map_lookup_elem(&cordon_scratch_depth, &zero);
	struct scratch *s;

	if (!level)
		return;
	depth = __sync_fetch_and_add(level, 1);
	s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	if (s) {
		event_fill(f, depth, s, d, verdict, type);
	} else {
		__sync_fetch_and_add(&f->state->seq, 1);
		count_fault(f->state, CORDON_FAULT_SCRATCH);
		__sync_fetch_and_add(&f->state->lost, 1);
	}
	__sync_fetch_and_add(level, -1);
}

/*
 * Turns the rule that decided into the answer: counts it, reports it, and says whether the operation is denied (1) or
 * goes on (0). A global function: verified once, not at each of its calls, so it takes nothing but plain memory.
 */
noinline int settle_slot(__u32 slot, struct detail *d, __u32 type)
{
	struct cordon_fence *fence = bpf_map_lookup_elem(&cordon_fences, &slot);
	__u8 verdict = CORDON_VERDICT_DENY;
	struct fctx f = {};

	if (!d || !fence || !fence_load(&f, slot, fence->id))
		return 1;
	if (decide_allows(d->rule)) {
		verdict = CORDON_VERDICT_ALLOW;
		__sync_fetch_and_add(&f.state->allowed, 1);
	} else {
		if (f.policy->mode == CORDON_MODE_AUDIT && !decide_always(d->rule))
			verdict = CORDON_VERDICT_WOULD_DENY;
		__sync_fetch_and_add(&f.state->denied, 1);
	}
	if (!d->silent)
		event_report(&f, d, verdict, type);
	return verdict == CORDON_VERDICT_DENY;
}

/* The same, as the return value of a hook: 0 or -errno. Constants, because newer verifiers want to see the range. */
static __always_inline int settle(struct fctx *f, struct detail *d, __u32 type)
{
	/* What is allowed is reported when it opens a way out, not for each use of it. */
	if (decide_allows(d->rule) &&
	    (d->silent || d->op != CORDON_OP_CONNECT || !f->policy->report_allow))
		return 0;
	if (!settle_slot(f->slot, d, type))
		return 0;
	if (d->err == ERR_ROFS)
		return -ERR_ROFS;
	branch_barrier();
	if (d->err == ERR_ACCES)
		return -ERR_ACCES;
	branch_barrier();
	return -ERR_PERM;
}

#endif
