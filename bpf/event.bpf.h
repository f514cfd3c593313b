/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reporting: one numbered record a decision. The number is taken before the record is delivered, so a record that
 * finds no room leaves a hole that state.lost explains. Nothing here can change a decision.
 *
 * Putting a record together is more code than most decisions are, and the verifier would go through it once in each
 * program. So it is a program of its own, that the others call by way of the kernel: they fill a request in their
 * CPU's scratch space and hand its address to a helper which does nothing with it; the reporters are attached to that
 * helper. Whoever else calls it cannot have the address, which is that of a map of ours. The kernel leaves out a
 * program that it finds running on this CPU already, so there are as many reporters as requests at a time; one that
 * nobody took is counted as lost. Whether a request is within the fence's budget (fold.bpf.h) the reporter decides,
 * too. Where only cgroup programs can be had (CORDON_CGROUP_ONLY), each reports by itself.
 */
#ifndef CORDON_EVENT_BPF_H
#define CORDON_EVENT_BPF_H

#include "fold.bpf.h"

enum {
	NAMES_SIZE = 16384, /* a power of two, for masking; holds CORDON_EVENT_NAMES_MAX */
	NAME_MAX_BYTES = 256,
	SCRATCH_DEPTH = 3,  /* requests at a time on one CPU; as many as reporters */
	WAKE_BYTES = 16384, /* waiting for less than this wakes nobody: readers poll */
	PATH_STEPS_MAX = 2048,
	PF_IO_WORKER = 0x10,
	REPORT_FLAGS = 0xc0d000, /* nothing that the helper understands */
};

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

/* An address as two numbers. */
struct address_words {
	__u64 hi, lo;
};

static __always_inline void addr_from_words(struct cordon_addr *a, __u64 hi, __u64 lo, bool v6)
{
	struct address_words words = { hi, lo };

	a->v6 = v6;
	__builtin_memcpy(a->b, &words, sizeof(a->b));
}

static __always_inline struct address_words addr_words(const struct cordon_addr *a)
{
	struct address_words words;

	__builtin_memcpy(&words, a->b, sizeof(words));
	return words;
}

/* What all that settle() calls are told, in one number: the tag in 16 bits, and from these bits on: */
enum {
	WHAT_OP = 16,
	WHAT_RULE = 24,
	WHAT_TYPE = 32,
	WHAT_NO_TASK = 40,
	WHAT_SILENT = 41,
	WHAT_V6 = 42,
	WHAT_MAPPED = 43,
	WHAT_ABOUT = 44, /* two bits */
	WHAT_ERR = 48,
};

/* What it is about, and so what the words of a report mean. */
enum {
	ABOUT_OBJECT, /* flags and the target's process id; dentry, vfsmount, second dentry, as addresses */
	ABOUT_ADDRESS, /* of the other side; ports of both, protocol and family; flags */
	ABOUT_PACKET,  /* the same but the flags, and the address of this side */
	ABOUT_PEER,    /* the address of a unix_sock; family */
};

/* What is to be reported, as numbers; the reporter makes a detail of them. */
struct report {
	__u64 what;
	__u64 words[5];
	__u32 busy; /* somebody on this CPU uses this request */
	__u8 taken; /* it is reported or counted; what becomes of it the reporter says */
	__u8 pad[3];
};

/* The requests of one CPU. */
struct reports {
	struct report at[SCRATCH_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct reports);
} cordon_reports SEC(".maps");

/* A path on its way up. */
struct path_walk {
	const struct dentry *dentry;
	const struct mount *mount;
	const struct dentry *mnt_root;
	__u32 start;
	__u32 off;
	__u32 flags; /* CORDON_PATH_* */
	__u32 pad;
};

struct scratch {
	struct cordon_event event;
	char names[NAMES_SIZE + NAME_MAX_BYTES];
	struct detail detail; /* of the request, for the parts below */
	struct path_walk walk;
	__u64 what; /* of the request */
	__u32 told; /* by event_budget() */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCH_DEPTH);
	__type(key, __u32);
	__type(value, struct scratch);
} cordon_scratch SEC(".maps");

/* One step up: write a component, or cross to the parent mount. 1 ends the walk. */
static long path_step(__u32 i, __u32 *depth)
{
	__u32 key = *depth;
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &key);
	const struct dentry *parent;
	struct path_walk *w;
	long n;

	if (!s)
		return 1;
	w = &s->walk;
	parent = CORE_READ_OF(w->dentry, d_parent);

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
		n = bpf_probe_read_kernel_str(s->names + (w->off & (NAMES_SIZE - 1)),
					      NAME_MAX_BYTES, CORE_READ_OF(w->dentry, d_name.name));
	if (n <= 0) {
		w->flags |= CORDON_PATH_TRUNCATED;
		return 1;
	}
	w->off += n;
	w->dentry = parent;
	return 0;
}

/*
 * Appends the components of a path, the last first, at `off` of the names; returns their length in bytes. mount 0:
 * unknown, the path ends at the root of its file system. Global, like what follows: each is verified once, and not in
 * every combination with the others. They find the scratch space by its depth.
 */
noinline int path_append(__u32 depth, __u32 off, __u64 dentry, __u64 mount)
{
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	const struct vfsmount *mnt = (void *)mount;
	struct path_walk *w;

	if (!s)
		return 0;
	w = &s->walk;
	w->dentry = (void *)dentry;
	w->start = w->off = off;
	w->mount = NULL;
	w->flags = 0;
	if (mnt) {
		w->mount = (void *)mnt - bpf_core_field_offset(struct mount, mnt);
		w->mnt_root = BPF_CORE_READ(mnt, mnt_root);
	} else {
		w->flags = CORDON_PATH_TRUNCATED;
	}
	if (bpf_loop(PATH_STEPS_MAX, path_step, &depth, 0) == PATH_STEPS_MAX)
		w->flags |= CORDON_PATH_TRUNCATED;
	return w->off - w->start;
}

/* A dentry-only hook knows no mount; that of the task's root serves when it shows the same file system. */
static __always_inline const struct vfsmount *mount_guess(const struct dentry *dentry)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct vfsmount *root = BPF_CORE_READ(task, fs, root.mnt);

	return BPF_CORE_READ(root, mnt_sb) == BPF_CORE_READ(dentry, d_sb) ? root : NULL;
}

/* The number of a process or thread in the name space that it was made in. */
static __always_inline int pid_number(const struct pid *pid)
{
	__u32 level = BPF_CORE_READ(pid, level) & 31;
	int number = 0;

	bpf_probe_read_kernel(&number, sizeof(number),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid) +
				      bpf_core_field_offset(struct upid, nr));
	return number;
}

noinline int event_task(__u32 depth)
{
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_struct *leader = task->group_leader, *parent = leader->real_parent;
	struct pid *pid = BPF_CORE_READ(leader, thread_pid);
	struct cordon_event *e;

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
	e->pid_ns = pid_number(pid);
	/* Workers of io_uring have names of their own; what they do, their process asked for. */
	if (task->flags & PF_IO_WORKER)
		BPF_CORE_READ_STR_INTO(&e->comm, leader, comm);
	else
		BPF_CORE_READ_STR_INTO(&e->comm, task, comm);
	e->cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	return 0;
}

/* The object, or for one that is to be created its parent. */
noinline int event_object(__u32 depth)
{
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	const struct detail *d;
	const struct inode *inode;

	if (!s)
		return 0;
	d = &s->detail;
	inode = CORE_READ_OF(d->dentry, d_inode);
	if (!inode)
		inode = CORE_READ_OF(d->dentry, d_parent, d_inode);
	s->event.ino = BPF_CORE_READ(inode, i_ino);
	s->event.dev = BPF_CORE_READ(inode, i_sb, s_dev);
	return 0;
}

/* The executable's path; returns its length. */
static __always_inline __u32 event_exe(__u32 depth, __u32 off)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file *exe = BPF_CORE_READ(task, mm, exe_file);

	return path_append(depth, off, (__u64)BPF_CORE_READ(exe, f_path.dentry),
			   (__u64)BPF_CORE_READ(exe, f_path.mnt));
}

/* The name that a unix socket is bound to, as it is; returns its length. */
noinline int event_unix(__u32 depth, __u32 off)
{
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	struct unix_address *addr;
	__u64 take;

	if (!s)
		return 0;
	addr = CORE_READ_OF(s->detail.peer, addr);
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
noinline int event_names(__u32 depth)
{
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	struct cordon_event *e;
	struct detail *d;
	__u32 off = 0;

	if (!s)
		return 0;
	e = &s->event;
	d = &s->detail;
	if (d->dentry) {
		const struct vfsmount *mnt = d->mnt ?: mount_guess(d->dentry);

		e->path_len = path_append(depth, off, (__u64)d->dentry, (__u64)mnt);
		e->path_flags = s->walk.flags;
		off += e->path_len;
		if (d->dentry2) {
			e->path2_len = path_append(depth, off, (__u64)d->dentry2, (__u64)mnt);
			e->path2_flags = s->walk.flags;
			off += e->path2_len;
		}
	}
	if (!d->no_task) {
		e->exe_len = event_exe(depth, off);
		off += e->exe_len;
	}
	if (d->peer) {
		e->unix_len = event_unix(depth, off);
		off += e->unix_len;
	}
	return off;
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

static __always_inline __u8 settle_verdict(const struct cordon_policy *policy, __u8 rule)
{
	if (decide_allows(rule))
		return CORDON_VERDICT_ALLOW;
	if (policy && policy->mode == CORDON_MODE_AUDIT && !decide_always(rule))
		return CORDON_VERDICT_WOULD_DENY;
	return CORDON_VERDICT_DENY;
}

static __always_inline __u32 what_slot(__u64 what)
{
	return (__u16)what >> 1;
}

/* The folded ones of its kind that a record stands for besides its own; NULL: none, it is within the budget. */
static __always_inline struct cordon_fold *event_fold(const struct scratch *s)
{
	return s->told >= TOLD_FOR ? fold_at(what_slot(s->what), s->told - TOLD_FOR) : NULL;
}

static __always_inline void event_deliver(struct fctx *f, struct scratch *s, __u32 names)
{
	void *ring = bpf_map_lookup_elem(&cordon_rings, &f->slot);
	__u64 flags = BPF_RB_NO_WAKEUP, waiting;
	__u32 size = sizeof(struct cordon_event) + names;

	if (!ring || size > __builtin_offsetof(struct scratch, detail)) {
		__sync_fetch_and_add(&f->state->lost, 1);
		return;
	}
	/*
	 * Once for so many bytes, not for each record that finds as many waiting: a reader that does not keep up would make each
	 * cost an interrupt. One that is missed when several CPUs write is no harm: the reader looks by itself, too.
	 */
	waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	if (waiting / WAKE_BYTES != (waiting + size) / WAKE_BYTES)
		flags = BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_output(ring, s, size, flags)) {
		struct cordon_fold *fold = event_fold(s);

		if (fold)
			fold_give_back(fold, s->event.count - 1);
		count_fault(f->state, CORDON_FAULT_RING_FULL);
		__sync_fetch_and_add(&f->state->lost, 1);
	}
}

/* Numbers, fills and delivers one record. */
static __always_inline void event_fill(struct fctx *f, __u32 depth, struct scratch *s)
{
	const struct detail *d = &s->detail;
	struct cordon_fold *fold = event_fold(s);
	struct cordon_event *e = &s->event;

	__builtin_memset(e, 0, sizeof(*e));
	e->seq = __sync_fetch_and_add(&f->state->seq, 1) + 1;
	e->mono_ns = bpf_ktime_get_ns();
	e->lost = f->state->lost;
	e->fence_id = f->fence->id;
	e->generation = f->policy->generation;
	e->mode = f->policy->mode;
	e->count = 1 + (fold ? fold_take(fold) : 0);
	e->type = s->what >> WHAT_TYPE;
	e->op = d->op;
	e->verdict = settle_verdict(f->policy, d->rule);
	e->rule = d->rule;
	e->err = e->verdict == CORDON_VERDICT_DENY ? d->err : 0;
	e->op_flags = d->flags;
	e->target_pid = d->target_pid;
	if (d->family)
		event_net(e, d);
	if (!d->no_task)
		event_task(depth);
	if (d->dentry)
		event_object(depth);
	if (fold)
		fold->like = e->op_flags | (__u64)e->family << 32 | (__u64)e->proto << 48;
	event_deliver(f, s, event_names(depth));
}

/* What is decided beyond the budget: counted with its kind, or if it is time told for all of them. */
static __always_inline int event_fold_kind(struct cordon_state *state, __u32 slot, __u64 kind)
{
	struct cordon_folds *folds = bpf_map_lookup_elem(&cordon_folds, &slot);
	__u32 at = folds ? fold_find(folds, kind) : CORDON_FOLD_KINDS;
	__u64 now = bpf_ktime_get_ns(), next_ns;
	struct cordon_fold *fold;

	if (at >= CORDON_FOLD_KINDS || !folds)
		return UNTOLD;
	fold = &folds->at[at];
	next_ns = *(volatile __u64 *)&fold->next_ns;
	if (now >= next_ns &&
	    __sync_val_compare_and_swap(&fold->next_ns, next_ns, now + FOLD_EVERY_NS) == next_ns)
		return TOLD_FOR + at;
	__sync_fetch_and_add(&fold->pending, 1);
	__sync_fetch_and_add(&state->folded, 1);
	return FOLDED;
}

/* Is it within the fence's budget of events, and if not, what is to be done? */
noinline int event_budget(__u64 what)
{
	__u32 tag = (__u16)what, slot = what_slot(what);
	const struct cordon_policy *policy = bpf_map_lookup_elem(&cordon_policies, &tag);
	struct cordon_state *state = slot_state(slot);

	if (!policy || !state || budget_take(state, policy->event_ns))
		return TOLD;
	return event_fold_kind(state, slot,
			       1ULL << 63 | (what >> WHAT_OP & 0xffffff) |
				       (what >> WHAT_ERR & 0xff) << 24 |
				       (__u64)settle_verdict(policy, what >> WHAT_RULE) << 32);
}

/* Puts together and delivers what the scratch space of this depth is asked to report; 0: it is counted nowhere. */
noinline int event_report(__u32 depth)
{
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &depth);
	struct cordon_fence *fence;
	struct fctx f = {};
	__u32 slot;

	if (!s)
		return 0;
	s->told = event_budget(s->what);
	if (s->told == FOLDED || s->told == UNTOLD)
		return s->told == FOLDED;
	slot = what_slot(s->what);
	fence = bpf_map_lookup_elem(&cordon_fences, &slot);
	f.state = slot_state(slot);
	if (!fence || !f.state || !fence_load(&f, slot, fence->id))
		return 0;
	event_fill(&f, depth, s);
	return 1;
}

static __always_inline void report_ports(struct detail *d, __u64 what, const __u64 *words)
{
	addr_from_words(&d->addr, words[0], words[1], what >> WHAT_V6 & 1);
	d->addr.mapped = what >> WHAT_MAPPED & 1;
	d->dport = words[2];
	d->lport = words[2] >> 16;
	d->proto = words[2] >> 32;
	d->family = words[2] >> 48;
}

static __always_inline void report_detail(struct detail *d, const struct report *r)
{
	__u32 about = r->what >> WHAT_ABOUT & 3;
	const __u64 *words = r->words;

	__builtin_memset(d, 0, sizeof(*d));
	d->op = r->what >> WHAT_OP;
	d->rule = r->what >> WHAT_RULE;
	d->no_task = r->what >> WHAT_NO_TASK & 1;
	d->err = r->what >> WHAT_ERR;
	if (about == ABOUT_OBJECT) {
		d->flags = words[0];
		d->target_pid = words[0] >> 32;
		d->dentry = (void *)words[1];
		d->mnt = (void *)words[2];
		d->dentry2 = (void *)words[3];
	} else if (about == ABOUT_PEER) {
		d->peer = (void *)words[0];
		d->family = words[1];
	} else {
		report_ports(d, r->what, words);
		if (about == ABOUT_PACKET)
			addr_from_words(&d->own, words[3], words[4], r->what >> WHAT_V6 & 1);
		else
			d->flags = words[3];
	}
}

/* Takes a request, unless another reporter has. */
static __always_inline void report_take(struct report *r, __u32 depth)
{
	struct scratch *s = bpf_map_lookup_elem(&cordon_scratch, &depth);

	if (!s || r->taken)
		return;
	s->what = r->what;
	report_detail(&s->detail, r);
	r->taken = event_report(depth);
}

/* The flags say which request, its address proves that it is one. */
static __always_inline int report_serve(__u64 address, __u64 flags)
{
	__u32 zero = 0, depth = flags - REPORT_FLAGS;
	struct reports *reports;

	if (flags - REPORT_FLAGS >= SCRATCH_DEPTH)
		return 0;
	reports = bpf_map_lookup_elem(&cordon_reports, &zero);
	if (reports && (__u64)&reports->at[depth] == address)
		report_take(&reports->at[depth], depth);
	return 0;
}

#define REPORTER(name)                                              \
	SEC("fentry/bpf_strtoul")                                   \
	int BPF_PROG(name, const char *buf, __u64 len, __u64 flags) \
	{                                                           \
		return report_serve((__u64)buf, flags);             \
	}

REPORTER(event_report0)
REPORTER(event_report1)
REPORTER(event_report2)

/* Has the request reported; the helper itself finds its flags wrong and does nothing. */
static __always_inline void report_call(struct report *r, __u32 depth)
{
#ifdef CORDON_CGROUP_ONLY
	report_take(r, depth);
#else
	unsigned long none;

	bpf_strtoul((const char *)r, sizeof(*r), REPORT_FLAGS + depth, &none);
#endif
}

/* Takes a free request of this CPU; NULL when all are in use. */
static __always_inline struct report *report_claim(__u32 *ret_depth)
{
	__u32 zero = 0;
	struct reports *reports = bpf_map_lookup_elem(&cordon_reports, &zero);

	if (!reports)
		return NULL;
#pragma unroll
	for (int i = 0; i < SCRATCH_DEPTH; i++)
		if (!__sync_val_compare_and_swap(&reports->at[i].busy, 0, 1)) {
			*ret_depth = i;
			return &reports->at[i];
		}
	return NULL;
}

/* A request that is filled with what is to be reported but its words; NULL: there is none, or nothing to report. */
static __always_inline struct report *settle_begin(__u64 what, __u32 *ret_depth)
{
	struct report *r = what >> WHAT_SILENT & 1 ? NULL : report_claim(ret_depth);

	/* Else the compiler remembers apart whether there is one, which the verifier cannot follow. */
	asm volatile("" : "+r"(r));
	if (r) {
		r->what = what;
		r->taken = 0;
	}
	return r;
}

/* Counts, reports what was claimed, and gives it back; is it denied? */
static __always_inline int settle_end(__u64 what, struct report *r, __u32 depth)
{
	__u32 tag = (__u16)what;
	const struct cordon_policy *policy = bpf_map_lookup_elem(&cordon_policies, &tag);
	struct cordon_state *state = slot_state(what_slot(what));
	bool allowed = decide_allows(what >> WHAT_RULE), taken = what >> WHAT_SILENT & 1;

	if (state) {
		__sync_fetch_and_add(allowed ? &state->allowed : &state->denied, 1);
		if (!allowed)
			__sync_fetch_and_add(&state->denied_by[cordon_set & 1], 1);
	}
	if (r) {
		report_call(r, depth);
		taken = *(volatile __u8 *)&r->taken;
		*(volatile __u32 *)&r->busy = 0;
	}
	if (!taken && state) {
		__sync_fetch_and_add(&state->seq, 1);
		count_fault(state, CORDON_FAULT_REPORT);
		__sync_fetch_and_add(&state->lost, 1);
	}
	return settle_verdict(policy, what >> WHAT_RULE) == CORDON_VERDICT_DENY;
}

/* The words are those of struct report; is it denied? */
noinline int settle_words(__u64 what, __u64 word0, __u64 word1, __u64 word2, __u64 word3)
{
	__u32 depth = 0;
	struct report *r = settle_begin(what, &depth);

	if (r) {
		r->words[0] = word0;
		r->words[1] = word1;
		r->words[2] = word2;
		r->words[3] = word3;
	}
	return settle_end(what, r, depth);
}

static __always_inline __u64 detail_what(const struct fctx *f, const struct detail *d, __u32 type,
					 __u32 about)
{
	if (d->rule == CORDON_RULE_LIMIT_UPLOAD)
		type = CORDON_TYPE_LIMIT;
	return f->tag | (__u64)d->op << WHAT_OP | (__u64)d->rule << WHAT_RULE |
	       (__u64)type << WHAT_TYPE | (__u64)(d->no_task & 1) << WHAT_NO_TASK |
	       (__u64)(d->silent & 1) << WHAT_SILENT | (__u64)(d->addr.v6 & 1) << WHAT_V6 |
	       (__u64)(d->addr.mapped & 1) << WHAT_MAPPED | (__u64)about << WHAT_ABOUT |
	       (__u64)(__u8)d->err << WHAT_ERR;
}

static __always_inline __u64 detail_ports(const struct detail *d)
{
	return d->dport | (__u64)d->lport << 16 | (__u64)d->proto << 32 | (__u64)d->family << 48;
}

/*
 * Turns the rule that decided into the return value of a hook, 0 or -errno: counts and reports it. The values are
 * constants, because newer verifiers want to see the range. What it takes to report is handed on as numbers, to a global
 * function: a pointer into the stack newer verifiers would follow once more for each call.
 */
static __always_inline int settle(const struct fctx *f, const struct detail *d, __u32 type)
{
	int denied;

	/* What is allowed is reported when it opens a way out, not for each use of it. */
	if (decide_allows(d->rule) &&
	    (d->silent || d->op != CORDON_OP_CONNECT || !f->policy->report_allow))
		return 0;
	if (d->peer) {
		denied = settle_words(detail_what(f, d, type, ABOUT_PEER), number_of(d->peer),
				      d->family, 0, 0);
	} else if (type == CORDON_TYPE_NET) {
		struct address_words words = addr_words(&d->addr);

		denied = settle_words(detail_what(f, d, type, ABOUT_ADDRESS), words.hi, words.lo,
				      detail_ports(d), d->flags);
	} else {
		denied = settle_words(detail_what(f, d, type, ABOUT_OBJECT),
				      d->flags | (__u64)d->target_pid << 32, number_of(d->dentry),
				      number_of(d->mnt), number_of(d->dentry2));
	}
	if (!denied)
		return 0;
	if (d->err == ERR_ROFS)
		return -ERR_ROFS;
	branch_barrier();
	if (d->err == ERR_ACCES)
		return -ERR_ACCES;
	branch_barrier();
	if (d->err == ERR_DQUOT)
		return -ERR_DQUOT;
	branch_barrier();
	return -ERR_PERM;
}

#endif
