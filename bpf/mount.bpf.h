/* SPDX-License-Identifier: GPL-2.0 */
/* Mounts are not changed from inside, nor is a file system set up that would be mounted. */
#ifndef CORDON_MOUNT_BPF_H
#define CORDON_MOUNT_BPF_H

#include "file.bpf.h"

enum {
	SB_KERNMOUNT = 1 << 22,
	SB_SUBMOUNT = 1 << 26,
};

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
