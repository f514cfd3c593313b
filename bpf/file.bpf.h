/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files: opening, and every change of the name space or of an inode.
 *
 * An object may be changed when a writable root stands above it in its own file system: the walk goes from dentry to
 * parent and never crosses a mount, so that a mount made later proves nothing. It may not be read when a denied root
 * stands above it by any way up: within its file system, past the root of its mount, and past every mount below
 * which it is seen. A walk that ends at its bound denies. Only programs that other programs refused already
 * (ret != 0) are passed on unasked.
 *
 * overlayfs carries an operation out on its layers under the credentials of who mounted it, and the hooks fire
 * again with the layer's objects. A task whose credentials are exactly those, of an overlay on which it was just
 * allowed something, is that second call.
 */
#ifndef CORDON_FILE_BPF_H
#define CORDON_FILE_BPF_H

#include "event.bpf.h"
#include "identity.bpf.h"
#include "limit.bpf.h"
#include "netconf.bpf.h"

/* The number of a name space of mounts in which nobody lives, since 6.18; 0 before. */
#define MNT_NS_ANON_INO 0xeffffff7U

enum {
	F_UNLCK = 2,
	F_SETFL = 4,
	F_SETOWN = 8,
	F_SETOWN_EX = 15,
	O_ASYNC = 020000,
	FIOASYNC = 0x5452,
	FIOSETOWN = 0x8901,
	SIOCSPGRP = 0x8902,
	FMODE_READ = 1,
	FMODE_WRITE = 2,
	FMODE_EXEC = 0x20,	 /* a bit of f_flags */
	FMODE_BACKING = 1 << 24, /* since 6.10; nothing opened such files before overlayfs did */
	O_TRUNC = 01000,
	MAY_WRITE = 2,
	PROT_READ = 1,
	PROT_WRITE = 2,
	PROT_EXEC = 4,
	READ_IMPLIES_EXEC = 0x400000, /* of a personality */
	MAP_SHARED = 1,		      /* a bit of MAP_SHARED_VALIDATE, too */
	VM_EXEC = 4,
	OVERLAYFS_MAGIC = 0x794c7630,
	MQUEUE_MAGIC = 0x19800202,
	BTRFS_MAGIC = 0x9123683e,
	BPF_FS_MAGIC = 0xcafe4a11,
	DCACHE_DISCONNECTED = 1 << 5,
	AF_XDP = 44,
	VHOST_NET = 10 << 20 | 238,
	VHOST_VSOCK = 10 << 20 | 241,
	PROC_MAGIC = 0x9fa0,
	DEVPTS_MAGIC = 0x1cd1,
	PTY_SLAVE_MAJOR = 136,
	MAX_ERRNO = 4095,
	SB_KERNMOUNT = 1 << 22,
	SB_SUBMOUNT = 1 << 26,
	F_SET_RW_HINT = 1036,
	FIDEDUPERANGE = 0xc0189436,
	BTRFS_IOC_SNAP_DESTROY_V2 = 0x5000943f,
	ATTR_JUDGED = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 16 | 1 << 17,
	/* MODE, UID, GID, ATIME_SET, MTIME_SET, TIMES_SET, TOUCH; size is judged by the truncate hooks */
	ATTR_OWNER = 1 << 1 | 1 << 2,
	ATTR_MODE = 1 << 0,
	IOC_WRITE = 1U << 30,
	IOC_READ = 1U << 31,
	FS_IOC_FIEMAP = 0xc020660b,
	FS_IOC_SHUTDOWN = 0x8004587d,
	FS_IOC_SET_ENCRYPTION_POLICY = 0x800c6613,
	PROCMAP_QUERY = 0xc0686611,
	TIOCSTI = 0x5412,
	TIOCLINUX = 0x541c,
	TIOCCONS = 0x541d,
};

/*
 * The functions that are not static are verified once and not at each of their calls; they take scalars and plain
 * memory, never pointers that the verifier would have to track.
 */
noinline int root_lookup(__u64 ino, __u32 dev, __u32 generation, __u32 tag)
{
	struct cordon_root_key key = {
		.ino = ino,
		.dev = dev,
		.generation = generation,
		.tag = tag,
	};
	__u32 *flags = bpf_map_lookup_elem(&cordon_roots, &key);

	return flags ? *flags : 0;
}

/*
 * Which of the wanted flags (all of CORDON_ROOT_DENIES, or none) does an object have as a root? What a root allows holds
 * for this very object; what is shut is shut for whatever has its number, or a changed generation would open it.
 */
static __always_inline __u32 root_is(__u64 ino, __u32 dev, __u32 generation, __u32 tag, __u32 want)
{
	return root_lookup(ino, dev, want & CORDON_ROOT_DENIES ? CORDON_GENERATION_ANY : generation,
			   tag) &
	       want;
}

/*
 * What tells an inode from others that had, or have, its number on its device: its generation, and on btrfs the
 * subvolume, too, because a snapshot has the numbers and generations of what it was taken of. Where btrfs keeps that is
 * said by the policy, if a root lies there; else nothing of it is a root.
 */
noinline int btrfs_generation(__u64 address, __u32 tag)
{
	const struct cordon_policy *policy = bpf_map_lookup_elem(&cordon_policies, &tag);
	const struct inode *inode = (void *)address;
	__u64 root = 0, subvolume = 0;

	if (!policy || !policy->btrfs.known ||
	    bpf_probe_read_kernel(&root, sizeof(root), (void *)inode + policy->btrfs.root) ||
	    bpf_probe_read_kernel(&subvolume, sizeof(subvolume),
				  (void *)root + policy->btrfs.objectid))
		return CORDON_GENERATION_NONE;
	return cordon_btrfs_generation(BPF_CORE_READ(inode, i_generation), subvolume);
}

/* Of an inode that is only read through probes. */
static __always_inline __u32 inode_generation(const struct inode *inode, __u32 tag)
{
	if (BPF_CORE_READ(inode, i_sb, s_magic) != BTRFS_MAGIC)
		return BPF_CORE_READ(inode, i_generation);
	return btrfs_generation((__u64)inode, tag);
}

/* Of one that the verifier knows. */
static __always_inline __u32 typed_generation(struct inode *inode, __u32 tag)
{
	if (inode->i_sb->s_magic != BTRFS_MAGIC)
		return inode->i_generation;
	return btrfs_generation(number_of(inode), tag);
}

/* The whole of a file system has one device: where nothing is shut, no such root needs to be looked for. */
static __always_inline bool device_possible(const struct cordon_policy *policy, __u32 dev,
					    __u32 want)
{
	return !dev || want & ~CORDON_ROOT_DENIES || policy->deny_filter & cordon_dev_bit(dev);
}

static __always_inline bool root_possible(const struct cordon_policy *policy, __u64 ino)
{
	return policy->root_filter[(ino / 64) % CORDON_ROOT_FILTER_WORDS] & 1ULL << (ino % 64);
}

/* --- up, within one file system: by direct loads ---------------------------------------------------------------- */

enum { WALK_UNROLL = 2 }; /* levels a call of a step: a call costs as much as a level */

struct met_walk {
	struct dentry *dentry;
	__u64 met0, met1;
};

static long met_step(__u32 i, struct met_walk *w)
{
	struct dentry *dentry = w->dentry, *parent;
	__u64 met0 = w->met0, met1 = w->met1;

#pragma unroll
	for (int level = 0; level < WALK_UNROLL; level++) {
		if ((__u64)dentry == met0 || (__u64)dentry == met1)
			goto end;
		parent = dentry->d_parent;
		if (parent == dentry)
			goto end;
		dentry = parent;
	}
	w->dentry = dentry;
	return 0;
end:
	w->dentry = dentry;
	return 1;
}

/* Is this object a root that allows changes? */
static __always_inline bool root_writable(const struct cordon_policy *policy, __u32 tag,
					  struct inode *inode)
{
	__u64 ino = inode->i_ino;
	__u32 dev = inode->i_sb->s_dev, generation = typed_generation(inode, tag);
	const struct cordon_root_near *near = policy->near;
	__u64 none = 1;

	/* Without branches, each of which would double what the verifier looks at. */
	for (int i = 0; i < CORDON_ROOTS_NEAR; i++) {
		__u64 differs = (near[i].ino ^ ino) | (near[i].dev ^ dev) |
				(near[i].generation ^ generation);

		none &= (differs | -differs) >> 63;
	}
	if (!none && dev)
		return true;
	return root_is(ino, dev, generation, tag, CORDON_ROOT_WRITE);
}

/*
 * Most changes are below a root that the process met before. Where that lies is only compared on the way up, for less
 * than half of what asking the filter costs; that it is a root is looked up then, so a stale address proves nothing.
 */
static __always_inline bool root_met(const struct cordon_policy *policy, __u32 tag,
				     const struct cordon_task *task, struct dentry *dentry)
{
	struct met_walk w = { .dentry = dentry, .met0 = task->met[0], .met1 = task->met[1] };
	struct inode *inode;

	bpf_loop(CORDON_WALK_MAX / WALK_UNROLL, met_step, &w, 0);
	if ((__u64)w.dentry != w.met0 && (__u64)w.dentry != w.met1)
		return false;
	inode = w.dentry->d_inode;
	return inode && root_writable(policy, tag, inode);
}

struct root_walk {
	struct dentry *dentry;
	const struct cordon_policy *policy;
	__u32 tag;
	__u32 want;
	__u32 found;
};

/* 1 ends the walk: a root is found, or the file system ends. */
static long root_step(__u32 i, struct root_walk *w)
{
	struct dentry *dentry = w->dentry, *parent;
	const struct cordon_policy *policy = w->policy;
	struct inode *inode;
	__u64 ino;

#pragma unroll
	for (int level = 0; level < WALK_UNROLL; level++) {
		inode = dentry->d_inode;
		ino = inode ? inode->i_ino : 0;
		if (root_possible(policy, ino))
			goto look;
		parent = dentry->d_parent;
		if (parent == dentry)
			goto end;
		dentry = parent;
	}
	w->dentry = dentry;
	return 0;
end:
	w->dentry = dentry;
	return 1;
look:
	w->dentry = dentry;
	if (inode)
		w->found = root_is(ino, inode->i_sb->s_dev, typed_generation(inode, w->tag), w->tag,
				   w->want);
	parent = dentry->d_parent;
	if (w->found || parent == dentry)
		return 1;
	w->dentry = parent;
	return 0;
}

/* --- up over mounts, by probes, since nothing typed leads from a vfsmount to its mount --------------------------- */

struct probe_walk {
	const struct dentry *dentry; /* NULL: nothing more to see in this file system */
	const struct mount *mount;   /* NULL: not beyond this file system */
	const struct cordon_policy *policy;
	__u32 tag;
	__u8 want;
	__u8 found;
	__u8 unknown; /* the walk did not end */
	__u8 mounts;
};

/*
 * Two words of a kernel structure, both 0 where it cannot be read; by one probe, because they lie close in all kernels
 * that are known.
 */
struct pair {
	__u64 a, b;
};

static __always_inline struct pair pair_read(const void *from, __u32 a, __u32 b)
{
	__u64 raw[4] = {};
	struct pair p = {};

	if (b - a < sizeof(raw) && !((b - a) & 7)) {
		bpf_probe_read_kernel(raw, b - a + 8, from + a);
		p.a = raw[0];
		p.b = raw[(b - a) / 8];
	} else {
		bpf_probe_read_kernel(&p.a, sizeof(p.a), from + a);
		bpf_probe_read_kernel(&p.b, sizeof(p.b), from + b);
	}
	return p;
}

/*
 * Is the topmost mount one that hangs nowhere: taken out of the name space, or a copy that was never put into one? What
 * stood above it then, and may be denied, nobody can tell. The kernel's own mounts (pipes, memory) are below no place at all.
 */
static __always_inline bool mount_adrift(const struct mount *mount)
{
	struct mnt_namespace *ns = CORE_READ_OF(mount, mnt_ns);
	__u32 number = 0;

	if ((__s64)ns < 0 && (__s64)ns >= -MAX_ERRNO)
		return false;
	bpf_probe_read_kernel(&number, sizeof(number),
			      __builtin_preserve_access_index(&ns->ns.inum));
	return !number || number == MNT_NS_ANON_INO;
}

/* To the place in the mount above; into its file system only when a root may be there. */
static long probe_step_over(struct probe_walk *w)
{
	struct pair m;
	const struct mount *parent;

	if (!w->mount)
		return 1;
	m = pair_read(w->mount, bpf_core_field_offset(struct mount, mnt_parent),
		      bpf_core_field_offset(struct mount, mnt_mountpoint));
	parent = (void *)m.a;
	if (parent == w->mount) {
		if (mount_adrift(parent))
			w->found = w->want;
		return 1;
	}
	if (!parent || ++w->mounts > CORDON_WALK_MOUNTS_MAX) {
		w->unknown = 1;
		return 1;
	}
	w->mount = parent;
	if (device_possible(w->policy, CORE_READ_OF(parent, mnt.mnt_sb, s_dev), w->want))
		w->dentry = (void *)m.b;
	return 0;
}

/* One level, or over to the next mount. 1 ends the walk. */
static long probe_step(__u32 i, struct probe_walk *w)
{
	const struct super_block *sb;
	const struct inode *inode;
	struct pair d, n;

	if (!w->dentry)
		return probe_step_over(w);
	d = pair_read(w->dentry, bpf_core_field_offset(struct dentry, d_parent),
		      bpf_core_field_offset(struct dentry, d_inode));
	if (!d.a) { /* none is without a parent: it could not be read */
		w->unknown = 1;
		return 1;
	}
	inode = (void *)d.b;
	n = pair_read(inode, bpf_core_field_offset(struct inode, i_sb),
		      bpf_core_field_offset(struct inode, i_ino));
	if (inode && root_possible(w->policy, n.b)) {
		sb = (void *)n.a;
		w->found = root_is(n.b, CORE_READ_OF(sb, s_dev), inode_generation(inode, w->tag),
				   w->tag, w->want);
		if (w->found)
			return 1;
	}
	if (d.a != (__u64)w->dentry) {
		w->dentry = (void *)d.a;
		return 0;
	}
	if (CORE_READ_OF(w->dentry, d_flags) & DCACHE_DISCONNECTED)
		w->found = w->want & CORDON_ROOT_DENIES;
	w->dentry = NULL;
	return w->found != 0;
}

/*
 * As root_flags(), from a dentry of which only the address is known, or (0) from above the root of a mount. mount 0: not
 * beyond this file system. Nothing that is called takes an address in the stack, which newer verifiers would follow
 * once more for each call.
 */
noinline int root_probe(__u64 dentry, __u64 mount, __u32 tag, __u32 want)
{
	struct probe_walk w = {
		.dentry = (void *)dentry,
		.mount = (void *)mount,
		.policy = bpf_map_lookup_elem(&cordon_policies, &tag),
		.tag = tag,
		.want = want,
	};

	if (!w.policy || bpf_loop(CORDON_WALK_MAX, probe_step, &w, 0) == CORDON_WALK_MAX ||
	    w.unknown)
		return DECIDE_ROOT_UNKNOWN;
	return w.found;
}

static __always_inline __u64 mount_of(__u64 mnt)
{
	return mnt - bpf_core_field_offset(struct mount, mnt);
}

/* how: wanted flags, then 32 bits of tag */
static noinline __u32 roots_above(const struct cordon_policy *policy, struct dentry *dentry,
				  const struct vfsmount *mnt, __u64 how, struct cordon_task *task)
{
	struct root_walk w = {
		.dentry = dentry,
		.policy = policy,
		.tag = how >> 32,
		.want = how,
	};

	if (w.want & CORDON_ROOT_WRITE && task && root_met(policy, w.tag, task, dentry))
		return CORDON_ROOT_WRITE;
	if (device_possible(policy, dentry->d_sb->s_dev, w.want) &&
	    bpf_loop(CORDON_WALK_MAX, root_step, &w, 0) == CORDON_WALK_MAX)
		w.found = DECIDE_ROOT_UNKNOWN;
	/* Opened by its handle, no name of it in memory: where it lies nobody knows. */
	if (!w.found && w.dentry->d_flags & DCACHE_DISCONNECTED)
		w.found = w.want & CORDON_ROOT_DENIES;
	if (!w.found && mnt)
		w.found = root_probe(0, mount_of(number_of(mnt)), w.tag, w.want);
	if (w.found & DECIDE_ROOT_UNKNOWN)
		count_fault(slot_state(w.tag >> 1), CORDON_FAULT_WALK_BOUND);
	else if (w.found & CORDON_ROOT_WRITE && task)
		task->met[task->met_next++ & 1] = (__u64)w.dentry;
	return w.found;
}

/*
 * The flags of the first root, at or above dentry, that has a wanted one (CORDON_ROOT_DENIES are wanted by themselves).
 * With mnt (the mount through which it is seen) the walk goes on over every mount point up to the root of the name
 * space; without, it stays in the file system.
 */
static __always_inline __u32 root_flags(const struct fctx *f, struct dentry *dentry,
					const struct vfsmount *mnt, __u32 want)
{
	return roots_above(f->policy, dentry, mnt, want | (__u64)f->tag << 32, f->task);
}

/* Is this the second call of overlayfs for something that the current task was allowed? */
static __always_inline bool overlay_inner(const struct fctx *f)
{
	struct task_struct *task;
	__u64 cred;

	if (!f->task || !f->task->overlay_cred)
		return false;
	branch_barrier();
	task = bpf_get_current_task_btf();
	cred = (__u64)task->cred;
	return cred == f->task->overlay_cred && cred != (__u64)task->real_cred;
}

/*
 * Is it overlayfs giving attributes to the file that it just made? For that it takes credentials made for the one
 * file, which file_create_as() noted. They are freed then and others may lie at their address, so that nothing
 * else may be done with them; what acts under other credentials than its own and sets attributes is only io_uring
 * besides, and file_uring_creds() denies that.
 */
static __always_inline bool overlay_attributes(const struct fctx *f)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cred = (__u64)task->cred;

	return f->task && f->task->overlay_create && cred == f->task->overlay_create &&
	       cred != (__u64)task->real_cred;
}

/* Before an operation on an overlay is let through: remember under whose credentials it will be carried out. */
static __always_inline void overlay_note(struct fctx *f, struct super_block *sb)
{
	if (sb->s_magic == OVERLAYFS_MAGIC && f->task &&
	    bpf_core_field_exists(struct ovl_fs, creator_cred)) {
		const struct ovl_fs *ovl = sb->s_fs_info;

		f->task->overlay_cred = (__u64)BPF_CORE_READ(ovl, creator_cred);
	}
}

/* Is a change of, or below, this object allowed? Returns the rule. */
static __always_inline __u32 write_rule(struct fctx *f, struct dentry *dentry)
{
	return decide_write(root_flags(f, dentry, NULL, CORDON_ROOT_WRITE), dentry->d_sb->s_flags);
}

/*
 * Is this the slave of a pty that is the terminal of others? It is when a process outside leads the session that it
 * controls, unless it controls the current process, too: then it is what the fence was started on. One without a session
 * was just made.
 */
noinline int terminal_outside(__u64 address, __u64 fence_id)
{
	const struct dentry *dentry = (void *)address;
	const struct task_struct *task = (void *)bpf_get_current_task(), *leader;
	const struct tty_struct *tty = BPF_CORE_READ(dentry, d_fsdata);
	const struct pid *session;
	const struct hlist_node *node;

	if (BPF_CORE_READ(dentry, d_sb, s_magic) != DEVPTS_MAGIC || !tty ||
	    BPF_CORE_READ(task, signal, tty) == tty)
		return 0;
	session = BPF_CORE_READ(tty, ctrl.session);
	if (!session)
		return 0;
	node = BPF_CORE_READ(session, tasks[0].first);
	if (!node)
		return 1;
	leader = (void *)node - bpf_core_field_offset(struct task_struct, pid_links);
	return task_outside(leader, fence_id);
}

/* Is it a device node? Then whether it may be opened, for whatever, is a matter of its number. */
static __always_inline bool device_rule(const struct fctx *f, struct dentry *dentry,
					struct detail *d)
{
	struct inode *inode = dentry->d_inode;

	if (!inode || !decide_is_device(inode->i_mode))
		return false;
	d->rule = decide_device(inode->i_mode, inode->i_rdev);
	d->err = ERR_PERM;
	if (inode->i_rdev >> 20 >= PTY_SLAVE_MAJOR && decide_allows(d->rule) &&
	    terminal_outside(number_of(dentry), f->fence->id))
		d->rule = CORDON_RULE_FILES_TERMINAL;
	return true;
}

/* The body that most hooks share: may `judged` be changed? `named` is what the event shows. */
static __always_inline int change(struct fctx *f, struct dentry *judged, struct detail *d)
{
	d->rule = write_rule(f, judged);
	d->err = ERR_ROFS;
	if (decide_allows(d->rule)) {
		overlay_note(f, judged->d_sb);
		return 0;
	}
	return settle(f, d, CORDON_TYPE_FILE);
}

/* Would moving or linking an object out of here lift a denial from it? */
static __always_inline int change_denied(struct fctx *f, struct dentry *dentry,
					 const struct vfsmount *mnt, struct detail *d)
{
	__u32 want = f->policy->root_flags & CORDON_ROOT_DENIES, flags;

	if (!want)
		return 0;
	flags = root_flags(f, dentry, mnt, want);
	d->rule = flags & CORDON_ROOT_EXEC_DENY ? decide_exec(flags) : decide_read(flags);
	d->err = ERR_ACCES;
	return decide_allows(d->rule) ? 0 : settle(f, d, CORDON_TYPE_FILE);
}

/* Is it a file that one of Cordon's own users keeps to itself, outside of what the fence may change? Root's capabilities do not count. */
static __always_inline bool kept(struct fctx *f, struct dentry *dentry)
{
	struct inode *inode = dentry->d_inode;

	return inode && !(inode->i_mode & DECIDE_S_IROTH) &&
	       decide_kept(inode->i_uid.val, inode->i_gid.val, cordon_keepers) &&
	       !decide_allows(write_rule(f, dentry));
}

enum access { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_EXEC = 4 };

/*
 * May an object be used so (bits of enum access)? Fills d->rule and d->err, and returns the bit that decided. An
 * allow needs a root above the object in its own file system, a denial any way up.
 */
static __always_inline __u32 judge(struct fctx *f, struct dentry *dentry,
				   const struct vfsmount *mnt, __u32 access, struct detail *d)
{
	const struct cordon_policy *policy = f->policy;
	bool device = device_rule(f, dentry, d);
	__u32 want = 0, flags;

	if (device && !decide_allows(d->rule))
		return access & ACCESS_WRITE ? ACCESS_WRITE : ACCESS_READ;
	if (!device && access & ACCESS_WRITE)
		want = CORDON_ROOT_WRITE;
	else if (!device && access & ACCESS_READ && policy->root_flags & CORDON_ROOT_READ_ALLOW)
		want = CORDON_ROOT_WRITE | CORDON_ROOT_READ_ALLOW;
	if (want) {
		struct super_block *sb = dentry->d_sb;

		flags = root_flags(f, dentry, NULL, want);
		if (want == CORDON_ROOT_WRITE) {
			d->rule = decide_write(flags, sb->s_flags);
			d->err = ERR_ROFS;
		} else {
			d->rule = decide_read_listed(flags, sb->s_flags);
			d->err = ERR_ACCES;
		}
		if (!decide_allows(d->rule))
			return want == CORDON_ROOT_WRITE ? ACCESS_WRITE : ACCESS_READ;
	}
	d->err = ERR_ACCES;
	if (access & ACCESS_READ && kept(f, dentry)) {
		d->rule = CORDON_RULE_FILES_READ_DENY;
		return ACCESS_READ;
	}
	want = 0;
	if (access & ACCESS_READ)
		want |= policy->root_flags & CORDON_ROOT_READ_DENY;
	if (access & ACCESS_EXEC)
		want |= policy->root_flags & CORDON_ROOT_EXEC_DENY;
	if (want) {
		flags = root_flags(f, dentry, mnt, want);
		d->rule = decide_read(flags);
		if (!decide_allows(d->rule) && want & CORDON_ROOT_READ_DENY)
			return ACCESS_READ;
		d->rule = decide_exec(flags);
		if (!decide_allows(d->rule))
			return ACCESS_EXEC;
	}
	if (access & ACCESS_EXEC && policy->root_flags & CORDON_ROOT_EXEC_ALLOW) {
		d->rule = decide_exec_listed(root_flags(f, dentry, NULL, CORDON_ROOT_EXEC_ALLOW));
		if (!decide_allows(d->rule))
			return ACCESS_EXEC;
	}
	return 0;
}

/*
 * Is it a file of bpffs? Of a map with type information the kernel shows there what it holds, without bpf(): of Cordon's,
 * the keys of callers.
 */
static __always_inline bool bpffs_file(unsigned long magic, __u32 mode)
{
	return magic == BPF_FS_MAGIC && (mode & DECIDE_S_IFMT) == DECIDE_S_IFREG;
}

/* The first eight bytes of a name as a number. */
#define NAME8(a, b, c, d, e, f, g, h)                                                            \
	((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | \
	 (__u64)(f) << 40 | (__u64)(g) << 48 | (__u64)(h) << 56)

/* Is it the name of a file of procfs that shows or changes a process's memory? */
static __always_inline bool proc_memory_name(const struct dentry *dentry)
{
	char name[16] = {};
	__u64 n;

	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(dentry, d_name.name));
	__builtin_memcpy(&n, name, sizeof(n));
	return n == NAME8('e', 'n', 'v', 'i', 'r', 'o', 'n', 0) ||
	       n == NAME8('m', 'a', 'p', 's', 0, 0, 0, 0) ||
	       n == NAME8('s', 'm', 'a', 'p', 's', 0, 0, 0) ||
	       n == NAME8('s', 'm', 'a', 'p', 's', '_', 'r', 'o') ||
	       n == NAME8('n', 'u', 'm', 'a', '_', 'm', 'a', 'p') ||
	       n == NAME8('a', 'u', 'x', 'v', 0, 0, 0, 0) ||
	       n == NAME8('p', 'a', 'g', 'e', 'm', 'a', 'p', 0) ||
	       n == NAME8('m', 'e', 'm', 0, 0, 0, 0, 0) ||
	       n == NAME8('c', 'l', 'e', 'a', 'r', '_', 'r', 'e');
}

/*
 * Is this a file of procfs that shows or changes the memory of a process outside the fence? The kernel asks
 * ptrace_access_check for these, but newer ones let CAP_PERFMON overrule what it says (mm_access()).
 */
noinline int proc_memory_outside(__u64 address, __u64 fence_id)
{
	const struct dentry *dentry = (void *)address;
	const struct inode *inode;
	const struct proc_inode *proc;
	const struct hlist_node *node;
	const struct task_struct *task;

	if (!proc_memory_name(dentry))
		return 0;
	inode = BPF_CORE_READ(dentry, d_inode);
	proc = (void *)inode - bpf_core_field_offset(struct proc_inode, vfs_inode);
	node = BPF_CORE_READ(proc, pid, tasks[0].first);
	if (!node) /* no process (any more): nothing to show */
		return 0;
	task = (void *)node - bpf_core_field_offset(struct task_struct, pid_links);
	return task_outside(task, fence_id);
}

/* Is this file, which a stacked file system opened for the task, one that the task might open for writing itself? */
static __always_inline bool backing_writable(const struct fctx *f, const struct file *file)
{
	const struct backing_file *backing = (const void *)file;

	if (!(file->f_mode & FMODE_BACKING) || !bpf_core_type_exists(struct backing_file))
		return false;
	return root_probe((__u64)BPF_CORE_READ(backing, user_path.dentry), 0, f->tag,
			  CORDON_ROOT_WRITE) == CORDON_ROOT_WRITE;
}

/*
 * Is this where a runtime that enters (docker exec) says which label its next exec shall have, in its own /proc/PID/attr? The
 * kernel lets nobody write another's.
 */
static __always_inline bool entering_label(const struct fctx *f, const struct dentry *dentry)
{
	const __u64 attr = NAME8('a', 't', 't', 'r', 0, 0, 0, 0);
	__u64 name = 0, above = 0;

	if (!f->task || !f->task->entering || dentry->d_sb->s_magic != PROC_MAGIC)
		return false;
	dentry = dentry->d_parent;
	bpf_probe_read_kernel_str(&name, sizeof(name), BPF_CORE_READ(dentry, d_name.name));
	bpf_probe_read_kernel_str(&above, sizeof(above),
				  BPF_CORE_READ(dentry, d_parent, d_name.name));
	return name == attr || above == attr;
}

SEC("lsm/file_open")
int FENCE_HOOK(file_open, struct file *file, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	if (overlay_inner(&f))
		return 0;

	struct dentry *dentry = file->f_path.dentry;
	struct detail d = { .flags = file->f_flags, .dentry = dentry, .mnt = file->f_path.mnt };
	bool write = file->f_mode & FMODE_WRITE || d.flags & O_TRUNC;
	__u32 access, failed;

	/* What is read from a named pipe, nobody else gets. */
	if (file->f_inode && (file->f_inode->i_mode & DECIDE_S_IFMT) == DECIDE_S_IFIFO)
		write = true;

	if (dentry->d_sb->s_magic == PROC_MAGIC &&
	    proc_memory_outside(number_of(dentry), f.fence->id)) {
		d.rule = CORDON_RULE_GUARD_PTRACE;
		d.err = ERR_ACCES;
		d.op = write ? CORDON_OP_OPEN_WRITE : CORDON_OP_OPEN_READ;
		return settle(&f, &d, CORDON_TYPE_FILE);
	}
	if (file->f_inode && bpffs_file(dentry->d_sb->s_magic, file->f_inode->i_mode)) {
		d.rule = CORDON_RULE_GUARD_BPF;
		d.err = ERR_PERM;
		d.op = write ? CORDON_OP_OPEN_WRITE : CORDON_OP_OPEN_READ;
		return settle(&f, &d, CORDON_TYPE_FILE);
	}
	access = (write ? ACCESS_WRITE : 0) | (file->f_mode & FMODE_READ ? ACCESS_READ : 0) |
		 (d.flags & FMODE_EXEC ? ACCESS_EXEC : 0);
	failed = judge(&f, dentry, file->f_path.mnt, access, &d);
	if (!failed) {
		overlay_note(&f, dentry->d_sb);
		return 0;
	}
	if (failed == ACCESS_WRITE && (backing_writable(&f, file) || entering_label(&f, dentry)))
		return 0;
	d.op = failed == ACCESS_EXEC	? CORDON_OP_EXEC
	       : failed == ACCESS_WRITE ? CORDON_OP_OPEN_WRITE
					: CORDON_OP_OPEN_READ;
	return settle(&f, &d, CORDON_TYPE_FILE);
}

/*
 * overlayfs is about to make a file for the current task, under credentials of its own making. Judged here, because
 * a file without a name (O_TMPFILE) has no hook before; and noted, see overlay_attributes().
 */
SEC("lsm/dentry_create_files_as")
int FENCE_HOOK(file_create_as, struct dentry *dentry, int mode, const void *name,
	       const struct cred *old, struct cred *new, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_MKNOD,
		.flags = mode,
		.dentry = dentry,
	};
	int err = change(&f, dentry, &d);

	if (!err && f.task)
		f.task->overlay_create = (__u64) new;
	return err;
}

/* A personality of an io_uring is somebody's credentials; the tests for overlayfs rest on nobody using them. */
SEC("lsm/uring_override_creds")
int FENCE_HOOK(file_uring_creds, const struct cred *new, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_CREDENTIALS,
		.rule = CORDON_RULE_GUARD_CREDENTIALS,
		.err = ERR_PERM,
	};

	return settle(&f, &d, CORDON_TYPE_GUARD);
}

/* --- descriptors from elsewhere ---------------------------------------------------------------------------------- */

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

/* Names appear in, or vanish from, a directory: the directory is judged, the name shown. */
static __always_inline int change_entry(int ret, const struct path *dir, struct dentry *dentry,
					enum cordon_op op, __u32 flags)
{
	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = op,
		.flags = flags,
		.dentry = dentry,
		.mnt = dir->mnt,
	};

	if (overlay_inner(&f))
		return 0;
	return change(&f, dir->dentry, &d);
}

SEC("lsm/path_mkdir")
int FENCE_HOOK(file_path_mkdir, const struct path *dir, struct dentry *dentry, __u16 mode, int ret)
{
	return change_entry(ret, dir, dentry, CORDON_OP_MKDIR, mode);
}

/*
 * Can files be made in this directory at all? open(O_CREAT) asks for permission before it knows whether the name is
 * there, also in procfs and cgroupfs, where the answer matters to nobody.
 */
static __always_inline bool directory_grows(const struct path *dir)
{
	const struct dentry *dentry = dir->dentry;

	return BPF_CORE_READ(dentry, d_inode, i_op, create) ||
	       BPF_CORE_READ(dentry, d_inode, i_op, mknod);
}

SEC("lsm/path_mknod")
int FENCE_HOOK(file_path_mknod, const struct path *dir, struct dentry *dentry, __u16 mode,
	       unsigned int dev, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_MKNOD,
		.flags = mode,
		.dentry = dentry,
		.mnt = dir->mnt,
	};

	if (overlay_inner(&f) || !directory_grows(dir))
		return 0;
	if (decide_is_device(mode)) {
		d.rule = CORDON_RULE_FILES_DEVICE;
		d.err = ERR_PERM;
		return settle(&f, &d, CORDON_TYPE_FILE);
	}
	return change(&f, dir->dentry, &d);
}

SEC("lsm/path_symlink")
int FENCE_HOOK(file_path_symlink, const struct path *dir, struct dentry *dentry, const char *old,
	       int ret)
{
	return change_entry(ret, dir, dentry, CORDON_OP_SYMLINK, 0);
}

SEC("lsm/path_unlink")
int FENCE_HOOK(file_path_unlink, const struct path *dir, struct dentry *dentry, int ret)
{
	return change_entry(ret, dir, dentry, CORDON_OP_UNLINK, 0);
}

SEC("lsm/path_rmdir")
int FENCE_HOOK(file_path_rmdir, const struct path *dir, struct dentry *dentry, int ret)
{
	return change_entry(ret, dir, dentry, CORDON_OP_RMDIR, 0);
}

/* A second name makes the object writable through it: the object is judged, not only the place of the name. */
SEC("lsm/path_link")
int FENCE_HOOK(file_path_link, struct dentry *old_dentry, const struct path *new_dir,
	       struct dentry *new_dentry, int ret)
{
	int err;

	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_LINK,
		.dentry = old_dentry,
		.dentry2 = new_dentry,
		.mnt = new_dir->mnt,
	};

	if (overlay_inner(&f))
		return 0;
	err = change(&f, new_dir->dentry, &d);
	if (err)
		return err;
	if (!decide_allows(d.rule)) /* would_deny: once is enough */
		return 0;
	err = change(&f, old_dentry, &d);
	if (err || !decide_allows(d.rule))
		return err;
	return change_denied(&f, old_dentry, new_dir->mnt, &d);
}

SEC("lsm/path_rename")
int FENCE_HOOK(file_path_rename, const struct path *old_dir, struct dentry *old_dentry,
	       const struct path *new_dir, struct dentry *new_dentry, unsigned int flags, int ret)
{
	int err;

	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_RENAME,
		.flags = flags,
		.dentry = old_dentry,
		.dentry2 = new_dentry,
		.mnt = old_dir->mnt,
	};

	if (overlay_inner(&f))
		return 0;
	err = change(&f, old_dir->dentry, &d);
	if (err || !decide_allows(d.rule))
		return err;
	err = change(&f, new_dir->dentry, &d);
	if (err || !decide_allows(d.rule))
		return err;
	err = change_denied(&f, old_dentry, old_dir->mnt, &d);
	if (err || !decide_allows(d.rule) || !(flags & 2 /* RENAME_EXCHANGE */))
		return err;
	return change_denied(&f, new_dentry, new_dir->mnt, &d);
}

/*
 * POSIX message queues have names but no path hooks. A queue is an object of the mqueue file system, and nothing else
 * is judged here.
 */
static __always_inline int change_queue(int ret, struct dentry *dentry, enum cordon_op op)
{
	FENCE_ENTER(f, ret);
	struct detail d = { .op = op, .dentry = dentry };

	if (dentry->d_sb->s_magic != MQUEUE_MAGIC)
		return 0;
	return change(&f, dentry->d_parent, &d);
}

SEC("lsm/inode_create")
int FENCE_HOOK(file_inode_create, struct inode *dir, struct dentry *dentry, __u16 mode, int ret)
{
	return change_queue(ret, dentry, CORDON_OP_MKNOD);
}

SEC("lsm/inode_unlink")
int FENCE_HOOK(file_inode_unlink, struct inode *dir, struct dentry *dentry, int ret)
{
	return change_queue(ret, dentry, CORDON_OP_UNLINK);
}

/* The object itself changes. */
static __always_inline int change_path(int ret, const struct path *path, enum cordon_op op,
				       __u32 flags)
{
	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = op,
		.flags = flags,
		.dentry = path->dentry,
		.mnt = path->mnt,
	};

	if (overlay_inner(&f))
		return 0;
	return change(&f, path->dentry, &d);
}

SEC("lsm/path_truncate")
int FENCE_HOOK(file_path_truncate, const struct path *path, int ret)
{
	return change_path(ret, path, CORDON_OP_TRUNCATE, 0);
}

SEC("lsm/file_truncate")
int FENCE_HOOK(file_truncate, struct file *file, int ret)
{
	return change_path(ret, &file->f_path, CORDON_OP_TRUNCATE, 0);
}

/*
 * A lock or a lease stops others, wherever the file was opened: taking one is a change. Giving it up is none, and one on a
 * device stops who uses the device, which the fence may.
 */
SEC("lsm/file_lock")
int FENCE_HOOK(file_lock, struct file *file, unsigned int kind, int ret)
{
	struct inode *inode = file->f_inode;

	if (kind == F_UNLCK || !inode || decide_is_device(inode->i_mode))
		return ret;
	return change_path(ret, &file->f_path, CORDON_OP_LOCK, kind);
}

SEC("lsm/path_chmod")
int FENCE_HOOK(file_path_chmod, const struct path *path, __u16 mode, int ret)
{
	return change_path(ret, path, CORDON_OP_CHMOD, mode);
}

SEC("lsm/path_chown")
int FENCE_HOOK(file_path_chown, const struct path *path, __u64 uid, __u64 gid, int ret)
{
	return change_path(ret, path, CORDON_OP_CHOWN, 0);
}

static __always_inline int change_dentry(int ret, struct dentry *dentry, enum cordon_op op)
{
	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = op,
		.dentry = dentry,
	};

	if (overlay_inner(&f) || overlay_attributes(&f))
		return 0;
	return change(&f, dentry, &d);
}

static __always_inline int change_attr(int ret, struct dentry *dentry, const struct iattr *attr)
{
	__u32 valid = attr->ia_valid;

	if (!(valid & ATTR_JUDGED))
		return ret;
	return change_dentry(ret, dentry,
			     valid & ATTR_OWNER	 ? CORDON_OP_CHOWN
			     : valid & ATTR_MODE ? CORDON_OP_CHMOD
						 : CORDON_OP_UTIMES);
}

SEC("lsm/inode_setattr")
int FENCE_HOOK(file_inode_setattr, void *idmap, struct dentry *dentry, const struct iattr *attr,
	       int ret)
{
	return change_attr(ret, dentry, attr);
}

/* On 6.1 the LSM hook, but not security_inode_setattr(), lacks the first argument. */
SEC("lsm/inode_setattr")
int FENCE_HOOK(file_inode_setattr2, struct dentry *dentry, const struct iattr *attr, int ret)
{
	return change_attr(ret, dentry, attr);
}

SEC("lsm/inode_setxattr")
int FENCE_HOOK(file_inode_setxattr, void *idmap, struct dentry *dentry, const char *name,
	       const void *value, __u64 size, int flags, int ret)
{
	return change_dentry(ret, dentry, CORDON_OP_SETXATTR);
}

SEC("lsm/inode_removexattr")
int FENCE_HOOK(file_inode_removexattr, void *idmap, struct dentry *dentry, const char *name,
	       int ret)
{
	return change_dentry(ret, dentry, CORDON_OP_REMOVEXATTR);
}

SEC("lsm/inode_set_acl")
int FENCE_HOOK(file_inode_set_acl, void *idmap, struct dentry *dentry, const char *name, void *acl,
	       int ret)
{
	return change_dentry(ret, dentry, CORDON_OP_SETXATTR);
}

SEC("lsm/inode_remove_acl")
int FENCE_HOOK(file_inode_remove_acl, void *idmap, struct dentry *dentry, const char *name, int ret)
{
	return change_dentry(ret, dentry, CORDON_OP_REMOVEXATTR);
}

/*
 * file_setattr(2): inode flags without a descriptor, and the project id. Kernels without the call lack the hook. An ioctl that sets flags
 * alone comes here, too; what sets more always sets the project id, and is denied in the workdir as FS_IOC_FSSETXATTR is.
 */
SEC("lsm/inode_file_setattr")
int FENCE_HOOK(file_inode_file_setattr, struct dentry *dentry, struct file_kattr *attr, int ret)
{
	if (bpf_core_type_exists(struct file_kattr) &&
	    BPF_CORE_READ_BITFIELD_PROBED(attr, flags_valid))
		return ret; /* FS_IOC_SETFLAGS, which file_ioctl judged */
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_SETATTR,
		.rule = CORDON_RULE_FILES_WRITE,
		.err = ERR_ROFS,
		.dentry = dentry,
	};

	return overlay_inner(&f) ? 0 : settle(&f, &d, CORDON_TYPE_FILE);
}

/*
 * Does an ioctl change the file or directory that it is made on, whatever the file system: inode flags, versions,
 * subvolumes, reflinks? By the direction in its number: one that only reads asks, one that hands data in changes, and so
 * does one that does neither, unless it is of the kinds that every file knows (FIONREAD, FIBMAP). Besides the exceptions.
 */
static __always_inline bool ioctl_changes(unsigned int cmd)
{
	__u32 kind = cmd >> 8 & 0xff;

	if (cmd == FS_IOC_FIEMAP || cmd == PROCMAP_QUERY)
		return false;
	if (cmd & IOC_WRITE || cmd == FS_IOC_SHUTDOWN || cmd == FS_IOC_SET_ENCRYPTION_POLICY)
		return true;
	return !(cmd & IOC_READ) && kind != 0 && kind != 'T';
}

/* A device that is held from before, and could not be opened now: an ioctl writes to it as well as write(2) does. */
static __always_inline int change_device(int ret, struct file *file, unsigned int cmd)
{
	struct inode *inode = file->f_inode;

	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = CORDON_OP_IOCTL,
		.err = ERR_PERM,
		.flags = cmd,
		.dentry = file->f_path.dentry,
		.mnt = file->f_path.mnt,
	};

	d.rule = decide_device(inode->i_mode, inode->i_rdev);
	return decide_allows(d.rule) ? 0 : settle(&f, &d, CORDON_TYPE_FILE);
}

/* What is typed into a terminal, the shell behind it executes. */
static __always_inline int change_terminal(int ret, struct file *file, unsigned int cmd)
{
	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = CORDON_OP_IOCTL,
		.rule = CORDON_RULE_FILES_TERMINAL,
		.err = ERR_PERM,
		.flags = cmd,
		.dentry = file->f_path.dentry,
		.mnt = file->f_path.mnt,
	};

	return settle(&f, &d, CORDON_TYPE_FILE);
}

/*
 * What an ioctl changes besides its own file, named in memory that another thread can change after this: files that share
 * blocks from then on, which need not be open for writing; a subvolume, by its number.
 */
static __always_inline int change_elsewhere(int ret, struct file *file, unsigned int cmd)
{
	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = CORDON_OP_IOCTL,
		.rule = CORDON_RULE_FILES_WRITE,
		.err = ERR_ROFS,
		.flags = cmd,
		.dentry = file->f_path.dentry,
		.mnt = file->f_path.mnt,
	};

	return settle(&f, &d, CORDON_TYPE_FILE);
}

/* Is this the number, in its own name space, of the current process or thread? */
noinline int number_is_own(int number)
{
	const struct task_struct *task = (void *)bpf_get_current_task();

	return number == pid_number(BPF_CORE_READ(task, thread_pid)) ||
	       number == pid_number(BPF_CORE_READ(task, group_leader, thread_pid));
}

/*
 * Who is signalled when a file becomes ready. The signal is sent in the name of whoever makes it ready, who may be
 * outside and is not judged; so a fenced task may name nobody but itself. 0 is nobody; what cannot be told is -1, which
 * no process has.
 */
static __always_inline int owner_settle(int ret, int number)
{
	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = CORDON_OP_SIGNAL,
		.rule = CORDON_RULE_GUARD_SIGNAL,
		.err = ERR_PERM,
	};

	if (!number || number_is_own(number))
		return 0;
	return settle(&f, &d, CORDON_TYPE_GUARD);
}

/* A terminal signals, when asked to, the processes that are in its foreground. */
static __always_inline int owner_of_terminal(int ret, const struct file *file)
{
	const struct inode *inode = file->f_inode;

	if (!inode || (inode->i_mode & DECIDE_S_IFMT) != DECIDE_S_IFCHR)
		return ret;
	return owner_settle(ret, -1);
}

SEC("lsm/file_fcntl")
int FENCE_HOOK(guard_fcntl, struct file *file, unsigned int cmd, unsigned long arg, int ret)
{
	if (cmd == F_SETOWN)
		return owner_settle(ret, (int)arg);
	if (cmd == F_SETOWN_EX) /* says it in memory, which another thread can change after this */
		return owner_settle(ret, -1);
	if (cmd == F_SETFL && arg & O_ASYNC)
		return owner_of_terminal(ret, file);
	if (cmd == F_SET_RW_HINT) /* of the inode: it needs no descriptor for writing */
		return change_path(ret, &file->f_path, CORDON_OP_SETATTR, cmd);
	return ret;
}

/*
 * Does an ioctl of a file or directory reach others? By its type and number alone: FS_IOC_REMOVE_ENCRYPTION_KEY and ..._ALL_USERS,
 * which shut what lies elsewhere in the file system; EXT4_IOC_MOVE_EXT, XFS_IOC_SWAPEXT, XFS_IOC_EXCHANGE_RANGE,
 * XFS_IOC_COMMIT_RANGE, F2FS_IOC_MOVE_RANGE, which change a second file by a descriptor from before; OCFS2_IOC_REFLINK, which makes
 * a file by its path; FS_IOC_FSSETXATTR, which counts the file for another's quota: by a project id, in memory that can change after this.
 */
static __always_inline bool ioctl_reaches(unsigned int cmd)
{
	switch (cmd & 0xffff) {
	case 0x5820:
	case 0x6618:
	case 0x6619:
	case 0x660f:
	case 0x586d:
	case 0x5881:
	case 0x5883:
	case 0xf509:
	case 0x6f04:
		return true;
	default:
		return false;
	}
}

static __always_inline int change_ioctl(int ret, struct file *file, unsigned int cmd)
{
	struct inode *inode;
	__u32 type;

	if (cmd == FIOSETOWN || cmd == SIOCSPGRP)
		return owner_settle(ret, -1);
	if (cmd == FIOASYNC)
		return owner_of_terminal(ret, file);
	if ((cmd & ~0xffU) == SOCKET_IOCTL)
		return netconf_ioctl(ret, file, cmd);
	if (cmd == TIOCSTI || cmd == TIOCLINUX || cmd == TIOCCONS)
		return change_terminal(ret, file, cmd);
	if (cmd == FIDEDUPERANGE || cmd == BTRFS_IOC_SNAP_DESTROY_V2)
		return change_elsewhere(ret, file, cmd);
	if (!ioctl_changes(cmd))
		return ret;
	inode = file->f_inode;
	if (!inode)
		return ret;
	type = inode->i_mode & DECIDE_S_IFMT;
	if (decide_is_device(type) && (cmd >> 8 & 0xff) != 'T')
		return change_device(ret, file, cmd);
	if (type != DECIDE_S_IFREG && type != DECIDE_S_IFDIR)
		return ret;
	if (ioctl_reaches(cmd))
		return change_elsewhere(ret, file, cmd);
	return change_path(ret, &file->f_path, CORDON_OP_IOCTL, cmd);
}

SEC("lsm/file_ioctl")
int FENCE_HOOK(file_ioctl, struct file *file, unsigned int cmd, unsigned long arg, int ret)
{
	return change_ioctl(ret, file, cmd);
}

SEC("lsm/file_ioctl_compat")
int FENCE_HOOK(file_ioctl_compat, struct file *file, unsigned int cmd, unsigned long arg, int ret)
{
	return change_ioctl(ret, file, cmd);
}

/*
 * What a device is told by an io_uring, past ioctl: discarding blocks, commands to a disk. Attached only while a fence has
 * descriptors from before, since it cannot open such a device.
 */
SEC("lsm/uring_cmd")
int FENCE_HOOK(file_uring_cmd, struct io_uring_cmd *command, int ret)
{
	struct file *file = command->file;
	struct inode *inode = file->f_inode;

	if (!inode || !decide_is_device(inode->i_mode))
		return ret;
	return change_device(ret, file, command->cmd_op);
}

/* Mounts are not changed from inside. */
static __always_inline int change_mount(int ret, const struct path *path)
{
	FENCE_ENTER(f, ret);
	struct detail d = {
		.op = CORDON_OP_MOUNT,
		.rule = CORDON_RULE_FILES_MOUNT,
		.err = ERR_PERM,
		.dentry = path->dentry,
		.mnt = path->mnt,
	};

	return settle(&f, &d, CORDON_TYPE_FILE);
}

SEC("lsm/sb_mount")
int FENCE_HOOK(file_sb_mount, const char *dev, const struct path *path, const char *type,
	       unsigned long flags, void *data, int ret)
{
	return change_mount(ret, path);
}

SEC("lsm/sb_umount")
int FENCE_HOOK(file_sb_umount, struct vfsmount *mnt, int flags, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_MOUNT,
		.rule = CORDON_RULE_FILES_MOUNT,
		.err = ERR_PERM,
		.dentry = mnt->mnt_root,
		.mnt = mnt,
	};

	return settle(&f, &d, CORDON_TYPE_FILE);
}

SEC("lsm/sb_pivotroot")
int FENCE_HOOK(file_sb_pivotroot, const struct path *old, const struct path *new, int ret)
{
	return change_mount(ret, new);
}

SEC("lsm/move_mount")
int FENCE_HOOK(file_move_mount, const struct path *from, const struct path *to, int ret)
{
	return change_mount(ret, to);
}

/*
 * A file system that is mounted nowhere can be used by the descriptor of its root; and overlayfs makes and removes
 * directories in its layers before that. So none is set up from a user namespace; none that matters does without a parameter.
 * The kernel's own, and mounts that a path walk causes, are not the task's doing.
 */
SEC("lsm/fs_context_parse_param")
int FENCE_HOOK(file_fs_param, struct fs_context *fc, void *param, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_MOUNT,
		.rule = CORDON_RULE_FILES_MOUNT,
		.err = ERR_PERM,
	};

	if (fc->sb_flags & (SB_KERNMOUNT | SB_SUBMOUNT))
		return 0;
	return settle(&f, &d, CORDON_TYPE_FILE);
}

#endif
