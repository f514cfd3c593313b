// SPDX-License-Identifier: Apache-2.0
/*
 * Subvolumes of btrfs. Each numbers its inodes for itself, under one device for all, and a snapshot has the numbers and
 * generations of what it was taken of. So the subvolume is part of what a root is: of the policy's objects it is
 * in the file handle, and the programs are told where the kernel keeps it. Root. What cannot be told is an error: a fence
 * that took one subvolume for another would not hold. bcachefs numbers its inodes in the same way and is refused.
 */
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include "enforce/internal.h"

#define BCACHEFS_MAGIC 0xca451a4e

/* Offset of a member in bytes, or -ENOENT. */
static int member_offset(const struct btf *btf, const char *type, const char *member)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);
	const struct btf_type *t = id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);

	for (uint32_t i = 0; t && i < btf_vlen(t); i++) {
		const char *name = btf__name_by_offset(btf, btf_members(t)[i].name_off);

		if (name && !strcmp(name, member))
			return (int)(btf_member_bit_offset(t, i) / 8);
	}
	return -ENOENT;
}

/* Where the kernel keeps it: from the module's type information, or the kernel's own where it is built in. */
static int offsets_find(struct cordon_btrfs *btrfs, struct error *error)
{
	struct btf *kernel = btf__load_vmlinux_btf(), *module = NULL;
	int root = -ENOENT, inode = -ENOENT, key = -ENOENT;

	if (kernel) {
		const struct btf *btf;

		if (!access("/sys/kernel/btf/btrfs", R_OK))
			module = btf__load_module_btf("btrfs", kernel);
		btf = module ? module : kernel;
		root = member_offset(btf, "btrfs_inode", "root");
		inode = member_offset(btf, "btrfs_inode", "vfs_inode");
		key = member_offset(btf, "btrfs_root", "root_key");
	}
	btf__free(module);
	btf__free(kernel);
	if (root < 0 || inode < 0 || key < 0)
		return error_set(
			error, ENOTSUP,
			"a path of the policy lies on btrfs, of which this kernel does not tell "
			"where it keeps subvolumes; put it on another file system");
	*btrfs = (struct cordon_btrfs){ .root = root - inode, .objectid = key, .known = 1 };
	return 0;
}

/* What btrfs puts into a file handle, up to where handles with a parent go on. */
struct btrfs_handle {
	uint64_t inode;
	uint64_t subvolume;
	uint32_t generation;
} __attribute__((packed));

/* The subvolume of an object of any type, open with O_PATH: it is not opened, and nothing that waits on it wakes. */
static int subvolume_of(int fd, uint64_t *ret_subvolume, struct error *error)
{
	union {
		struct file_handle head;
		char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} handle = { .head.handle_bytes = MAX_HANDLE_SZ };
	struct btrfs_handle content;
	int mount_id;

	if (name_to_handle_at(fd, "", &handle.head, &mount_id, AT_EMPTY_PATH))
		return error_set(error, errno, "cannot ask btrfs for the subvolume of a path: %s",
				 strerror(errno));
	if (handle.head.handle_bytes < sizeof(content))
		return error_set(error, ENOTSUP,
				 "cannot tell the btrfs subvolume of a path of the policy; put it "
				 "on another file system");
	memcpy(&content, handle.head.f_handle, sizeof(content));
	*ret_subvolume = content.subvolume;
	return 0;
}

int enforce_btrfs(const int *fds, size_t n, struct cordon_object *objects,
		  struct cordon_btrfs *ret_btrfs, struct error *error)
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i++) {
		struct statfs fs;
		uint64_t subvolume = 0;

		if (fstatfs(fds[i], &fs))
			return error_set(error, errno,
					 "cannot ask the file system of a path of the policy which "
					 "one it is (statfs): %s; leave the path out",
					 strerror(errno));
		if (fs.f_type == BCACHEFS_MAGIC)
			return error_set(error, ENOTSUP,
					 "a path of the policy lies on bcachefs, whose subvolumes "
					 "cannot be told apart; put it on another file system");
		if (fs.f_type != BTRFS_SUPER_MAGIC)
			continue;
		if (!ret_btrfs->known)
			err = offsets_find(ret_btrfs, error);
		if (!err)
			err = subvolume_of(fds[i], &subvolume, error);
		if (!err)
			objects[i].generation =
				cordon_btrfs_generation(objects[i].generation, subvolume);
	}
	return err;
}
