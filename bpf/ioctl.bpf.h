/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ioctl, fcntl and their twins of io_uring: what changes an inode, a device, a terminal of others, or the owner of a
 * descriptor's signals.
 */
#ifndef CORDON_IOCTL_BPF_H
#define CORDON_IOCTL_BPF_H

#include "held.bpf.h"
#include "netconf.bpf.h"

enum {
	F_SETFL = 4,
	F_SETOWN = 8,
	F_SETOWN_EX = 15,
	O_ASYNC = 020000,
	FIOASYNC = 0x5452,
	FIOSETOWN = 0x8901,
	SIOCSPGRP = 0x8902,
	F_SET_RW_HINT = 1036,
	FIDEDUPERANGE = 0xc0189436,
	BTRFS_IOC_SNAP_DESTROY_V2 = 0x5000943f,
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

#endif
