/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a fence may do to the world besides files and sockets: other processes, the kernel, Cordon itself. Inside one
 * fence processes may trace and signal each other.
 */
#ifndef CORDON_GUARD_BPF_H
#define CORDON_GUARD_BPF_H

#include "file.bpf.h"

enum {
	PTRACE_MODE_NOAUDIT = 4,
	CLONE_INTO_CGROUP_BIT = 33,
	CAP_OPT_NOAUDIT = 2,
	CAP_SYS_ADMIN = 21,
	CAP_SYSLOG = 34,
	CAP_PERFMON = 38,
	CAP_CHECKPOINT_RESTORE = 40,
	PROC_IPC_INIT_INO = 0xefffffff,
	NR_SETNS = 308,
	NR_SETNS_COMPAT = 346, /* of no 64-bit call */
	NR_X32 = 0x40000000,
};

SEC("lsm/ptrace_access_check")
int FENCE_HOOK(guard_ptrace, struct task_struct *child, unsigned int mode, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_PTRACE,
		.rule = CORDON_RULE_GUARD_PTRACE,
		.err = ERR_PERM,
		.flags = mode,
		.silent = !!(mode & PTRACE_MODE_NOAUDIT),
	};

	if (!task_outside(child, f.fence->id))
		return 0;
	d.target_pid = child->tgid;
	return settle(&f, &d, CORDON_TYPE_GUARD);
}

/* Who asks to be traced by a parent outside stops until that parent, who did not ask, goes on with it. */
SEC("lsm/ptrace_traceme")
int FENCE_HOOK(guard_traceme, struct task_struct *parent, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_PTRACE,
		.rule = CORDON_RULE_GUARD_PTRACE,
		.err = ERR_PERM,
	};

	if (!task_outside(parent, f.fence->id))
		return 0;
	d.target_pid = parent->tgid;
	return settle(&f, &d, CORDON_TYPE_GUARD);
}

SEC("lsm/task_kill")
int FENCE_HOOK(guard_task_kill, struct task_struct *target, void *info, int sig,
	       const struct cred *cred, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_SIGNAL,
		.rule = CORDON_RULE_GUARD_SIGNAL,
		.err = ERR_PERM,
		.flags = sig,
	};

	/* A signal that the kernel itself sends (SI_KERNEL and above: info is 1) is not the task's doing. */
	if ((long)info == 1 || !task_outside(target, f.fence->id))
		return 0;
	d.target_pid = target->tgid;
	return settle(&f, &d, CORDON_TYPE_GUARD);
}

/*
 * Is it about a regular file or a directory? Of these nobody is told but who asked for a notice himself: that a lease of his
 * is broken, which he must know before it is taken from him, or that a directory changed.
 */
static __always_inline bool notice_asked_for(const struct fown_struct *owner)
{
	const struct file *file;
	__u32 type;

	if (bpf_core_field_exists(owner->file))
		file = BPF_CORE_READ(owner, file);
	else
		file = (void *)owner - bpf_core_field_offset(struct file___owned, f_owner);
	type = BPF_CORE_READ(file, f_inode, i_mode) & DECIDE_S_IFMT;
	return type == DECIDE_S_IFREG || type == DECIDE_S_IFDIR;
}

/* The signal of F_SETOWN, which the kernel sends for the task whose I/O makes a file ready. */
SEC("lsm/file_send_sigiotask")
int FENCE_HOOK(guard_sigiotask, struct task_struct *target, struct fown_struct *fown, int sig,
	       int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_SIGNAL,
		.rule = CORDON_RULE_GUARD_SIGNAL,
		.err = ERR_PERM,
		.flags = sig,
	};

	if (!task_outside(target, f.fence->id) || notice_asked_for(fown))
		return 0;
	d.target_pid = target->tgid;
	return settle(&f, &d, CORDON_TYPE_GUARD);
}

/* Priority, scheduling, affinity, limits of another process: the same user may change them. */
static __always_inline int guard_control(int ret, struct task_struct *target)
{
	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = CORDON_OP_CONTROL,
		.rule = CORDON_RULE_GUARD_PROCESS,
		.err = ERR_PERM,
	};

	if (!task_outside(target, f.fence->id))
		return 0;
	d.target_pid = target->tgid;
	return settle(&f, &d, CORDON_TYPE_GUARD);
}

SEC("lsm/task_setnice")
int FENCE_HOOK(guard_setnice, struct task_struct *target, int nice, int ret)
{
	return guard_control(ret, target);
}

SEC("lsm/task_setioprio")
int FENCE_HOOK(guard_setioprio, struct task_struct *target, int ioprio, int ret)
{
	return guard_control(ret, target);
}

SEC("lsm/task_setscheduler")
int FENCE_HOOK(guard_setscheduler, struct task_struct *target, int ret)
{
	return guard_control(ret, target);
}

SEC("lsm/task_setrlimit")
int FENCE_HOOK(guard_setrlimit, struct task_struct *target, unsigned int resource, void *limit,
	       int ret)
{
	return guard_control(ret, target);
}

/* --- the kernel ---------------------------------------------------------------------------------------------- */

/*
 * Is the current task in setns(2)? What it would enter, others made: a container, or open_tree(2), at whose root is what was
 * mounted below a denied directory. A name space of one's own comes by unshare(2) and clone(2).
 */
static __always_inline bool enters_namespace(struct task_struct *task)
{
	const struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	unsigned long number = regs->orig_ax & ~(unsigned long)NR_X32;

	return number == NR_SETNS || number == NR_SETNS_COMPAT;
}

/*
 * Capabilities over the host: what they open beyond files and the fence's own processes has no hook of its own, or several
 * (adjtimex, sethostname, swapon, reboot, iopl, acct, mount_setattr, routes, quotas, settings of sockets and devices).
 * One of a user namespace that was made from this one reaches what that owns, and counts, but not to enter it. Only what the
 * task asks for itself is judged: overlayfs and others act under credentials of their own, and io_uring may not (uring_override_creds).
 *
 * The kernel asks for CAP_SYS_ADMIN where a younger capability was refused; the second half of one question is not
 * reported again.
 */
SEC("lsm/capable")
int FENCE_HOOK(guard_capable, const struct cred *cred, struct user_namespace *ns, int cap,
	       unsigned int opts, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct task_struct *task = bpf_get_current_task_btf();
	struct detail d = {
		.op = CORDON_OP_CAPABLE,
		.err = ERR_PERM,
		.flags = cap,
	};
	__u32 before = 0;

	/* A runtime that enters (podman exec) joins name spaces and mounts before it executes what is to be fenced. */
	if (f.task && f.task->entering)
		return 0;
	if ((__u64)cred != (__u64)task->real_cred)
		return 0;
	if (ns->parent ? !enters_namespace(task) : decide_allows(decide_capability(cap)))
		return 0;
	d.rule = CORDON_RULE_GUARD_CAPABILITY;
	if (f.task) {
		before = f.task->cap;
		f.task->cap =
			cap == CAP_PERFMON || cap == CAP_SYSLOG || cap == CAP_CHECKPOINT_RESTORE
				? cap
				: 0;
	}
	d.silent = opts & CAP_OPT_NOAUDIT || (cap == CAP_SYS_ADMIN && before);
	return settle(&f, &d, CORDON_TYPE_GUARD);
}

/* What is denied whoever asks, and for whatever. */
static __always_inline int guard_deny(int ret, enum cordon_op op, enum cordon_rule rule)
{
	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = op,
		.rule = rule,
		.err = ERR_PERM,
	};

	return settle(&f, &d, CORDON_TYPE_GUARD);
}

/* Counting what others do, and tracing the kernel. */
SEC("lsm/perf_event_open")
int FENCE_HOOK(guard_perf, int type, int ret)
{
	return guard_deny(ret, CORDON_OP_PERF, CORDON_RULE_GUARD_KERNEL);
}

SEC("lsm/perf_event_open")
int FENCE_HOOK(guard_perf2, void *attr, int type, int ret)
{
	return guard_deny(ret, CORDON_OP_PERF, CORDON_RULE_GUARD_KERNEL);
}

/*
 * A module that the kernel would load because somebody uses what it lacks: line disciplines, link types, file systems.
 * Not denied are the families that decide_socket() allows, and cryptography that the kernel wants for itself: no fence can
 * ask for it by name.
 */
SEC("lsm/kernel_module_request")
int FENCE_HOOK(guard_module, char *name, int ret)
{
	char begin[12] = {};
	__u64 n;

	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_MODULE,
		.rule = CORDON_RULE_GUARD_KERNEL,
		.err = ERR_PERM,
	};

	bpf_probe_read_kernel_str(begin, sizeof(begin), name);
	__builtin_memcpy(&n, begin, sizeof(n));
	if (n << 8 == NAME8(0, 'c', 'r', 'y', 'p', 't', 'o', '-'))
		return 0;
	if (n == NAME8('n', 'e', 't', '-', 'p', 'f', '-', '1') &&
	    (!begin[8] || ((begin[8] == '0' || begin[8] == '6') && !begin[9])))
		return 0;
	return settle(&f, &d, CORDON_TYPE_GUARD);
}

/* User and session keyrings are those of the user, inside and outside: nothing in them is for a fence. */
SEC("lsm/key_permission")
int FENCE_HOOK(guard_key, void *key, const struct cred *cred, int need, int ret)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if ((__u64)cred != (__u64)task->real_cred) /* the kernel's own look-up, NFS and the like */
		return ret;
	return guard_deny(ret, CORDON_OP_KEY, CORDON_RULE_GUARD_KEY);
}

/* Of anonymous inodes only userfaultfd(2)'s are denied: they stop the kernel in the midst of its work. */
SEC("lsm/inode_init_security_anon")
int FENCE_HOOK(guard_anon, struct inode *inode, const struct qstr *name,
	       const struct inode *context, int ret)
{
	__u64 n = 0;

	if (bpf_probe_read_kernel(&n, sizeof(n), BPF_CORE_READ(name, name)) ||
	    n != NAME8('[', 'u', 's', 'e', 'r', 'f', 'a', 'u'))
		return ret;
	return guard_deny(ret, CORDON_OP_USERFAULTFD, CORDON_RULE_GUARD_KERNEL);
}

static __always_inline __u32 ipc_namespace(struct task_struct *task)
{
	return BPF_CORE_READ(task, nsproxy, ipc_ns, ns.inum);
}

/*
 * SysV IPC of the host, or shared with others. `cordon run` and most containers have an IPC namespace of their own, which is
 * left alone.
 */
static __always_inline int guard_ipc_any(int ret)
{
	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = CORDON_OP_IPC,
		.rule = CORDON_RULE_GUARD_IPC,
		.err = ERR_PERM,
	};

	if (f.fence->ipc_shared)
		return settle(&f, &d, CORDON_TYPE_GUARD);
	if (ipc_namespace(bpf_get_current_task_btf()) == PROC_IPC_INIT_INO)
		return settle(&f, &d, CORDON_TYPE_GUARD);
	return 0;
}

SEC("lsm/ipc_permission")
int FENCE_HOOK(guard_ipc, void *perm, short flag, int ret)
{
	return guard_ipc_any(ret);
}

SEC("lsm/shm_shmctl")
int FENCE_HOOK(guard_shmctl, void *perm, int cmd, int ret)
{
	return perm ? guard_ipc_any(ret) : ret;
}

SEC("lsm/sem_semctl")
int FENCE_HOOK(guard_semctl, void *perm, int cmd, int ret)
{
	return perm ? guard_ipc_any(ret) : ret;
}

SEC("lsm/msg_queue_msgctl")
int FENCE_HOOK(guard_msgctl, void *perm, int cmd, int ret)
{
	return perm ? guard_ipc_any(ret) : ret;
}

static __always_inline int guard_bpf_any(int ret, int cmd)
{
	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = CORDON_OP_BPF,
		.rule = CORDON_RULE_GUARD_BPF,
		.err = ERR_PERM,
		.flags = cmd,
	};

	return settle(&f, &d, CORDON_TYPE_GUARD);
}

SEC("lsm/bpf")
int FENCE_HOOK(guard_bpf, int cmd, union bpf_attr *attr, unsigned int size, int ret)
{
	return guard_bpf_any(ret, cmd);
}

/* Later kernels say with a fourth argument whether the kernel itself calls. */
SEC("lsm/bpf")
int FENCE_HOOK(guard_bpf4, int cmd, union bpf_attr *attr, unsigned int size, bool kernel, int ret)
{
	return guard_bpf_any(ret, cmd);
}

SEC("lsm/task_alloc")
int FENCE_HOOK(fence_task_alloc, struct task_struct *task, unsigned long clone_flags, int ret)
{
	FENCE_ENTER_HOOK(f, ret);

	if (clone_flags & 1ULL << CLONE_INTO_CGROUP_BIT) {
		struct detail d = {
			.op = CORDON_OP_CGROUP_MOVE,
			.rule = CORDON_RULE_GUARD_CGROUP,
			.err = ERR_PERM,
		};
		int err = settle(&f, &d, CORDON_TYPE_GUARD);

		if (err)
			return err;
	}
	if (test_full(TEST_FULL_TASKS) ||
	    !task_mark(task, f.slot, f.fence->id, f.task && f.task->entering)) {
		struct detail d = {
			.op = CORDON_OP_INHERIT,
			.rule = CORDON_RULE_GUARD_STATE,
			.err = ERR_NOMEM,
		};

		count_fault(slot_state(f.slot), CORDON_FAULT_INHERIT);
		settle(&f, &d, CORDON_TYPE_GUARD);
		return -ERR_NOMEM;
	}
	return 0;
}

/*
 * The thread that execs becomes the leader, and must carry the mark itself. Whoever is not marked is looked for in the
 * fenced cgroups: a tracepoint program that is running on the CPU already is skipped by kernels that preempt themselves.
 */
SEC("lsm/bprm_check_security")
int BPF_PROG(fence_bprm_check, struct linux_binprm *bprm, int ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cordon_task *own;
	enum fence_answer answer;
	struct fctx f;

	if (ret)
		return ret;
	answer = fence_of_current(&f);
	if (answer == UNFENCED)
		return task_enter(task, BPF_CORE_READ(task, cgroups, dfl_cgrp), 0) ? 0 : -ERR_PERM;
	if (answer == BROKEN)
		return -ERR_PERM;
	if (!task_mark(task, f.slot, f.fence->id, 0))
		return -ERR_NOMEM;
	own = bpf_task_storage_get(&cordon_tasks, task, 0, 0);
	if (own)
		own->entering = 0;
	if (f.task)
		f.task->entering = 0;
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(fence_attach_task, struct cgroup *dst, const char *path, struct task_struct *task,
	     bool threadgroup)
{
	task_enter(task, dst, 1);
	return 0;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(fence_newtask, struct task_struct *task, unsigned long clone_flags)
{
	if (clone_flags & 1ULL << CLONE_INTO_CGROUP_BIT)
		task_enter(task, BPF_CORE_READ(task, cgroups, dfl_cgrp), 1);
	return 0;
}

/* Marks every task of a fenced cgroup; run by the loader while the cgroup is frozen. */
SEC("iter/task")
int fence_mark_all(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task)
		task_enter(task, BPF_CORE_READ(task, cgroups, dfl_cgrp), 0);
	return 0;
}

/* Tells the loader which fences have tasks in which IPC namespaces. What a thread left, its leader may still be in. */
SEC("iter/task")
int fence_find_ipc(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct cordon_ipc ipc = {};

	if (!task)
		return 0;
	ipc.ns = ipc_namespace(task);
	if (!ipc.ns || ipc.ns == PROC_IPC_INIT_INO)
		return 0;
	ipc.fence = cgroup_slot(BPF_CORE_READ(task, cgroups, dfl_cgrp)) + 1;
	bpf_seq_write(ctx->meta->seq, &ipc, sizeof(ipc));
	return 0;
}

/* Takes the mark of an ending fence off its tasks; only `detach` frees tasks, and only on the host. */
SEC("iter/task")
int fence_unmark_all(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct cordon_task *mark;
	struct cordon_fence *fence;
	__u32 slot;

	if (!task)
		return 0;
	mark = bpf_task_storage_get(&cordon_tasks, task, 0, 0);
	if (!mark)
		return 0;
	slot = mark->slot;
	fence = bpf_map_lookup_elem(&cordon_fences, &slot);
	if (fence && fence->ending && fence->id == mark->fence_id)
		bpf_task_storage_delete(&cordon_tasks, task);
	return 0;
}

/*
 * Tells the loader which object each of its descriptors is, as the hooks will see it: device, inode number and
 * generation, which stat() does not always give (btrfs, overlayfs).
 */
SEC("iter/task_file")
int fence_resolve(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct cordon_object object = {};
	struct inode *inode;

	if (!file || !task)
		return 0;
	inode = file->f_path.dentry->d_inode;
	if (!inode)
		return 0;
	object.fd = ctx->fd;
	object.ino = inode->i_ino;
	object.dev = inode->i_sb->s_dev;
	object.generation = inode->i_generation;
	object.mode = inode->i_mode;
	bpf_seq_write(ctx->meta->seq, &object, sizeof(object));
	return 0;
}

#endif
