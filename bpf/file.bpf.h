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
#include "root.bpf.h"

enum {
	F_UNLCK = 2,
	FMODE_READ = 1,
	FMODE_WRITE = 2,
	FMODE_EXEC = 0x20,	 /* a bit of f_flags */
	FMODE_BACKING = 1 << 24, /* since 6.10; nothing opened such files before overlayfs did */
	O_TRUNC = 01000,
	OVERLAYFS_MAGIC = 0x794c7630,
	MQUEUE_MAGIC = 0x19800202,
	BPF_FS_MAGIC = 0xcafe4a11,
	PROC_MAGIC = 0x9fa0,
	DEVPTS_MAGIC = 0x1cd1,
	PTY_SLAVE_MAJOR = 136,
	ATTR_JUDGED = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 16 | 1 << 17,
	/* MODE, UID, GID, ATIME_SET, MTIME_SET, TIMES_SET, TOUCH; size is judged by the truncate hooks */
	ATTR_OWNER = 1 << 1 | 1 << 2,
	ATTR_MODE = 1 << 0,
};

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

/* Is it the name of a file of procfs that shows or changes a process's memory, its arguments among it? */
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
	       n == NAME8('c', 'm', 'd', 'l', 'i', 'n', 'e', 0) ||
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

#endif
