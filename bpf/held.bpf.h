/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Descriptors from elsewhere: held from before a fence was put around their holder, or passed in. Each use is judged as
 * opening would be; what the kernel cannot take back is found for the loader, which refuses. Bytes written and sent are
 * counted here, too, against limits.output and limits.upload.
 */
#ifndef CORDON_HELD_BPF_H
#define CORDON_HELD_BPF_H

#include "file.bpf.h"
#include "limit.bpf.h"

enum {
	MAY_WRITE = 2,
	PROT_READ = 1,
	PROT_WRITE = 2,
	PROT_EXEC = 4,
	READ_IMPLIES_EXEC = 0x400000, /* of a personality */
	MAP_SHARED = 1,		      /* a bit of MAP_SHARED_VALIDATE, too */
	VM_EXEC = 4,
	AF_XDP = 44,
	VHOST_NET = 10 << 20 | 238,
	VHOST_VSOCK = 10 << 20 | 241,
};

/* Is it something that acts under its maker's identity, or reaches past files: an io_uring, a BPF object? */
static __always_inline bool descriptor_acts(const struct dentry *dentry)
{
	__u64 n = 0;

	if (!(dentry->d_sb->s_flags & DECIDE_SB_NOUSER))
		return false;
	bpf_probe_read_kernel(&n, sizeof(n), BPF_CORE_READ(dentry, d_name.name));
	return n == NAME8('[', 'i', 'o', '_', 'u', 'r', 'i', 'n') ||
	       (n & 0xffffff) == NAME8('b', 'p', 'f', 0, 0, 0, 0, 0) ||
	       n == NAME8('[', 'p', 'e', 'r', 'f', '_', 'e', 'v');
}

/* The same question as judge()'s, from addresses: slower, and verified once. Returns the rule that denies it, or NONE. */
noinline int judge_slow(__u64 dentry_address, __u64 mount, __u64 fence_id, __u32 tag, __u32 access)
{
	const struct dentry *dentry = (void *)dentry_address;
	const struct cordon_policy *policy = bpf_map_lookup_elem(&cordon_policies, &tag);
	__u32 sb_flags, listed = CORDON_ROOT_READ_ALLOW, rule, mode, rdev;
	__u64 at = dentry_address;

	if (!policy)
		return CORDON_RULE_GUARD_STATE;
	if (BPF_CORE_READ(dentry, d_sb, s_magic) == PROC_MAGIC && proc_memory_outside(at, fence_id))
		return CORDON_RULE_GUARD_PTRACE;
	sb_flags = BPF_CORE_READ(dentry, d_sb, s_flags);
	mode = BPF_CORE_READ(dentry, d_inode, i_mode);
	rdev = BPF_CORE_READ(dentry, d_inode, i_rdev);
	if (bpffs_file(BPF_CORE_READ(dentry, d_sb, s_magic), mode))
		return CORDON_RULE_GUARD_BPF;
	if (decide_is_device(mode)) {
		rule = decide_device(mode, rdev);
		if (!decide_allows(rule))
			return rule;
		access &= ~ACCESS_WRITE;
		listed = 0;
	}
	if (access & ACCESS_WRITE) {
		rule = decide_write(root_probe(at, 0, tag, CORDON_ROOT_WRITE), sb_flags);
		if (!decide_allows(rule))
			return rule;
	} else if (access & ACCESS_READ && policy->root_flags & listed) {
		rule = decide_read_listed(root_probe(at, 0, tag,
						     CORDON_ROOT_READ_ALLOW | CORDON_ROOT_WRITE),
					  sb_flags);
		if (!decide_allows(rule))
			return rule;
	}
	if (access & ACCESS_READ && !(mode & DECIDE_S_IROTH) &&
	    decide_kept(BPF_CORE_READ(dentry, d_inode, i_uid.val),
			BPF_CORE_READ(dentry, d_inode, i_gid.val), cordon_keepers) &&
	    !decide_allows(decide_write(root_probe(at, 0, tag, CORDON_ROOT_WRITE), sb_flags)))
		return CORDON_RULE_FILES_READ_DENY;
	if (access & ACCESS_READ && policy->root_flags & CORDON_ROOT_READ_DENY) {
		rule = decide_read(root_probe(at, mount, tag, CORDON_ROOT_READ_DENY));
		if (!decide_allows(rule))
			return rule;
	}
	if (access & ACCESS_EXEC && policy->root_flags & CORDON_ROOT_EXEC_DENY) {
		rule = decide_exec(root_probe(at, mount, tag, CORDON_ROOT_EXEC_DENY));
		if (!decide_allows(rule))
			return rule;
	}
	if (access & ACCESS_EXEC && policy->root_flags & CORDON_ROOT_EXEC_ALLOW) {
		rule = decide_exec_listed(root_probe(at, 0, tag, CORDON_ROOT_EXEC_ALLOW));
		if (!decide_allows(rule))
			return rule;
	}
	return CORDON_RULE_NONE;
}

/* May a descriptor, wherever it was opened, be used so? The body of the hooks below, which name the operation. */
static __always_inline int judge_descriptor(struct fctx *f, struct file *file, __u32 access,
					    struct detail *d)
{
	struct dentry *dentry = file->f_path.dentry;

	d->rule = judge_slow(number_of(dentry), mount_of(number_of(file->f_path.mnt)), f->fence->id,
			     f->tag, access);
	if (d->rule == CORDON_RULE_NONE) {
		overlay_note(f, dentry->d_sb);
		return 0;
	}
	if (d->rule == CORDON_RULE_FILES_WRITE && entering_label(f, dentry))
		return 0;
	d->dentry = dentry;
	d->mnt = file->f_path.mnt;
	d->err = d->rule == CORDON_RULE_FILES_WRITE ? ERR_ROFS
		 : d->rule == CORDON_RULE_FILES_DEVICE || d->rule == CORDON_RULE_GUARD_BPF
			 ? ERR_PERM
			 : ERR_ACCES;
	return settle(f, d, CORDON_TYPE_FILE);
}

/* Is this an io_uring that a thread outside the fence works off, under its own identity? */
static __always_inline bool ring_acts_outside(const struct file *file, __u64 fence_id)
{
	const struct io_ring_ctx *ring = BPF_CORE_READ(file, private_data);
	const struct task_struct *thread;
	const struct dentry *dentry = BPF_CORE_READ(file, f_path.dentry);
	__u64 n = 0;

	bpf_probe_read_kernel(&n, sizeof(n), BPF_CORE_READ(dentry, d_name.name));
	if (!(BPF_CORE_READ(dentry, d_sb, s_flags) & DECIDE_SB_NOUSER) ||
	    n != NAME8('[', 'i', 'o', '_', 'u', 'r', 'i', 'n'))
		return false;
	thread = CORE_READ_OF(ring, sq_data, thread);
	return thread && task_outside(thread, fence_id);
}

/*
 * Is it one through which the kernel sends what lies in the process's memory without a hook being asked: by poll(2) (AF_XDP), or by a
 * worker of its own (vhost)?
 */
static __always_inline bool sends_by_itself(const struct file *file)
{
	const struct socket *sock = BPF_CORE_READ(file, private_data);
	__u32 mode = BPF_CORE_READ(file, f_inode, i_mode), rdev;

	if ((mode & DECIDE_S_IFMT) == DECIDE_S_IFSOCK)
		return CORE_READ_OF(sock, sk, __sk_common.skc_family) == AF_XDP;
	rdev = BPF_CORE_READ(file, f_inode, i_rdev);
	return (mode & DECIDE_S_IFMT) == DECIDE_S_IFCHR &&
	       (rdev == VHOST_NET || rdev == VHOST_VSOCK);
}

/*
 * What the tasks of fences hold from before, and their policies deny; run by the loader while they are frozen. A task
 * says which fence, a record which one it is about.
 */
static __always_inline bool found_begin(const struct task_struct *task, struct fctx *f,
					struct cordon_found *found)
{
	__u64 mark = task_mark_search((__u64)BPF_CORE_READ(task, group_leader));

	if (!mark_known(mark) || !fence_load(f, mark_slot(mark), mark_fence_id(mark)) ||
	    !f->fence->descriptors)
		return false;
	found->fence_id = mark_fence_id(mark);
	found->pid = BPF_CORE_READ(task, tgid);
	return true;
}

static __always_inline __u32 found_judge(const struct fctx *f, const struct file *file,
					 __u32 access)
{
	return judge_slow((__u64)BPF_CORE_READ(file, f_path.dentry),
			  mount_of((__u64)BPF_CORE_READ(file, f_path.mnt)), f->fence->id, f->tag,
			  access);
}

SEC("iter/task_file")
int fence_find_files(struct bpf_iter__task_file *ctx)
{
	struct cordon_found found = {};
	struct file *file = ctx->file;
	struct task_struct *task = ctx->task;
	struct fctx f = {};

	if (!file || !task || !found_begin(task, &f, &found))
		return 0;
	found.fd = ctx->fd;
	found.rule =
		ring_acts_outside(file, found.fence_id) || sends_by_itself(file)
			? CORDON_RULE_FILES_DESCRIPTOR
			: found_judge(&f, file,
				      BPF_CORE_READ(file, f_mode) & (FMODE_READ | FMODE_WRITE));
	if (found.rule != CORDON_RULE_NONE)
		bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

SEC("iter/task_vma")
int fence_find_maps(struct bpf_iter__task_vma *ctx)
{
	struct cordon_found found = {};
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	const struct file *file;
	struct fctx f = {};

	if (!vma || !task || (vma->vm_flags & (VM_SHARED | VM_WRITE)) != (VM_SHARED | VM_WRITE))
		return 0;
	file = vma->vm_file;
	if (!file || !found_begin(task, &f, &found))
		return 0;
	found.start = vma->vm_start;
	found.end = vma->vm_end;
	found.rule = found_judge(&f, file, ACCESS_WRITE);
	if (found.rule != CORDON_RULE_NONE)
		bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

static __always_inline int output_deny(const struct fctx *f, const struct file *file)
{
	struct detail d = {
		.op = CORDON_OP_OUTPUT,
		.rule = CORDON_RULE_LIMIT_OUTPUT,
		.err = ERR_DQUOT,
		.flags = file->f_flags,
		.dentry = file->f_path.dentry,
		.mnt = file->f_path.mnt,
	};

	return settle(f, &d, CORDON_TYPE_LIMIT);
}

static __always_inline int upload_deny(const struct fctx *f, const struct file *file)
{
	struct detail d = {
		.op = CORDON_OP_UPLOAD,
		.rule = CORDON_RULE_LIMIT_UPLOAD,
		.err = ERR_PERM,
	};

	return settle(f, &d, CORDON_TYPE_LIMIT);
}

static __always_inline bool socket_is_ip(const struct file *file)
{
	const struct socket *sock = file->private_data;
	__u16 family;

	if ((file->f_inode->i_mode & DECIDE_S_IFMT) != DECIDE_S_IFSOCK)
		return false;
	family = BPF_CORE_READ(sock, sk, __sk_common.skc_family);
	return family == AF_INET || family == AF_INET6;
}

/* May what is written to this socket go to whom it is connected with? In bpf/receive.bpf.h. */
static __always_inline int permission_socket(struct fctx *f, struct file *file);

/*
 * Attached only while a fence on the node has descriptors from before, or limits its output or upload: each read and write of each process passes
 * here. overlayfs asks again for the file below, under credentials that the first question noted.
 */
SEC("lsm/file_permission")
int FENCE_HOOK(file_permission, struct file *file, int mask, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	bool write = mask & MAY_WRITE;
	struct detail d = {
		.op = write ? CORDON_OP_WRITE : CORDON_OP_READ,
		.flags = file->f_flags,
	};

	struct dentry *dentry = file->f_path.dentry;

	if (write && f.policy->output_bytes && output_denies(&f, file))
		return output_deny(&f, file);
	/* Before 6.5 sendfile and splice ask no hook of sockets. */
	if (write && upload_over(&f) && socket_is_ip(file))
		return upload_deny(&f, file);
	if (write && f.fence->descriptors && bpf_core_field_exists(struct proto_ops, sendpage) &&
	    socket_is_ip(file))
		return permission_socket(&f, file);
	if (!f.fence->descriptors || dentry->d_sb->s_flags & DECIDE_SB_NOUSER || overlay_inner(&f))
		return 0;
	if (write && decide_allows(write_rule(&f, dentry))) { /* soon said, for most */
		overlay_note(&f, dentry->d_sb);
		return 0;
	}
	return judge_descriptor(&f, file, write ? ACCESS_WRITE : ACCESS_READ, &d);
}

/* Executing by mapping (ld.so FILE), and, of descriptors from before, reading and writing by it. */
static __always_inline int change_map(struct fctx *f, struct file *file, enum cordon_op op,
				      bool exec, bool write)
{
	struct detail d = { .op = op, .flags = file->f_flags };
	__u32 access = exec && f->policy->root_flags & CORDON_ROOT_EXEC ? ACCESS_EXEC : 0;

	if (f->fence->descriptors)
		access |= ACCESS_READ | (write ? ACCESS_WRITE : 0);
	if (!access || overlay_inner(f))
		return 0;
	return judge_descriptor(f, file, access, &d);
}

/*
 * Attached only while a fence has rules for executing, or descriptors from before. The argument may be NULL without
 * the verifier knowing, so the test is made on a copy that it knows nothing of.
 */
static __always_inline int map_any(void *ctx, struct file *file, unsigned long prot,
				   unsigned long flags, int ret)
{
	__u64 raw = 0;

	FENCE_ENTER(f, ret);
	bpf_probe_read_kernel(&raw, sizeof(raw), ctx);
	if (!file || !raw)
		return 0;
	if (prot & PROT_WRITE && flags & MAP_SHARED && f.policy->output_bytes &&
	    output_is_file(file->f_inode) && output_over(&f, 0))
		return output_deny(&f, file);
	/* Where prot is what was asked for, the kernel adds this later. */
	if (prot & PROT_READ && bpf_get_current_task_btf()->personality & READ_IMPLIES_EXEC)
		prot |= PROT_EXEC;
	return change_map(&f, file, CORDON_OP_MMAP, prot & PROT_EXEC,
			  prot & PROT_WRITE && flags & MAP_SHARED);
}

SEC("lsm/mmap_file")
int FENCE_HOOK(file_mmap, struct file *file, unsigned long reqprot, unsigned long prot,
	       unsigned long flags, int ret)
{
	return map_any(ctx, file, prot, flags, ret);
}

/* security_mmap_file() works prot out of reqprot and hands that on; but for READ_IMPLIES_EXEC they are the same. */
SEC("lsm/mmap_file")
int FENCE_HOOK(file_mmap3, struct file *file, unsigned long prot, unsigned long flags, int ret)
{
	return map_any(ctx, file, prot, flags, ret);
}

SEC("lsm/file_mprotect")
int FENCE_HOOK(file_mprotect, struct vm_area_struct *vma, unsigned long reqprot, unsigned long prot,
	       int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	unsigned long flags = vma->vm_flags;
	struct file *file = vma->vm_file;

	if (!file)
		return 0;
	if (prot & PROT_WRITE && flags & VM_SHARED && !(flags & VM_WRITE) &&
	    f.policy->output_bytes && output_is_file(file->f_inode) && output_over(&f, 0))
		return output_deny(&f, file);
	return change_map(&f, file, CORDON_OP_MPROTECT, prot & PROT_EXEC && !(flags & VM_EXEC),
			  prot & PROT_WRITE && flags & VM_SHARED && !(flags & VM_WRITE));
}

#endif
