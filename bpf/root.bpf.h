/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Roots: which of the places that a policy names stand above an object.
 *
 * Two walks upwards. The one within a file system goes from dentry to parent and never crosses a mount; the other goes
 * on past the root of its mount, and past every mount below which the object is seen. A walk that ends at its bound
 * answers DECIDE_ROOT_UNKNOWN, which denies.
 */
#ifndef CORDON_ROOT_BPF_H
#define CORDON_ROOT_BPF_H

#include "identity.bpf.h"

/* The number of a name space of mounts in which nobody lives, since 6.18; 0 before. */
#define MNT_NS_ANON_INO 0xeffffff7U

enum {
	BTRFS_MAGIC = 0x9123683e,
	DCACHE_DISCONNECTED = 1 << 5,
	MAX_ERRNO = 4095,
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

#endif
