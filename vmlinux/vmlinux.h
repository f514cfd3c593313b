/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel types that Cordon's programs read, and of each only the members they read. Every access is relocated
 * by CO-RE against the running kernel's BTF, so order, size and the members left out do not matter; a name that a
 * kernel lacks is asked for with bpf_core_field_exists() first. Written by hand: it shows at a glance what Cordon
 * depends on. UAPI types come from <linux/...>.
 */
#ifndef CORDON_VMLINUX_H
#define CORDON_VMLINUX_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	__u32 val;
} kuid_t;
typedef struct {
	__u32 val;
} kgid_t;

struct cred {
	kuid_t uid;
	kgid_t gid;
};

struct user_namespace {
	struct user_namespace *parent;
};

struct ns_common {
	unsigned int inum;
};

struct ipc_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct ipc_namespace *ipc_ns;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	int level;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct upid {
	int nr;
};

/* Lists. */
struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct pid {
	unsigned int level;
	struct hlist_head tasks[4]; /* by enum pid_type: PIDTYPE_PID is 0 */
	struct upid numbers[1];
};

struct qstr {
	const unsigned char *name;
};

struct super_block {
	__u32 s_dev;
	unsigned long s_flags;
	unsigned long s_magic;
	void *s_fs_info;
};

struct inode_operations {
	void *create;
	void *mknod;
};

struct inode {
	__u16 i_mode;
	kuid_t i_uid;
	kgid_t i_gid;
	const struct inode_operations *i_op;
	struct super_block *i_sb;
	unsigned long i_ino;
	__u32 i_rdev;
	__u32 i_generation;
};

/* fs/proc/internal.h: whose process an inode of procfs shows. */
struct proc_inode {
	struct pid *pid;
	struct inode vfs_inode;
};

struct dentry {
	unsigned int d_flags;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
	void *d_fsdata;
};

struct vfsmount {
	struct dentry *mnt_root;
	struct super_block *mnt_sb;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	struct mnt_namespace *mnt_ns;
};

struct fs_context {
	unsigned int sb_flags;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	unsigned int f_flags;
	unsigned int f_mode;
	void *private_data;
};

/* Who is signalled when something happens to a file; since 6.12 it says which file. */
struct fown_struct {
	struct file *file;
};

/* Before, it was a part of the file. */
struct file___owned {
	struct fown_struct f_owner;
};

/* fs/file_table.c: a file that a stacked file system opened below, and by which path the user had it opened. */
struct backing_file {
	struct file file;
	struct path user_path;
};

struct fs_struct {
	struct path root;
};

struct mm_struct {
	struct file *exe_file;
};

struct vm_operations_struct {
	void *page_mkwrite;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	const struct vm_operations_struct *vm_ops;
	struct file *vm_file;
};

struct kiocb {
	struct file *ki_filp;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct pt_regs {
	unsigned long di;
	unsigned long bx;
	unsigned long orig_ax;
};

/* include/linux/io_uring/cmd.h: an operation that a file itself carries out. */
struct io_uring_cmd {
	struct file *file;
	__u32 cmd_op;
};

/* io_uring/: the thread that works a ring off by itself. */
struct io_sq_data {
	struct task_struct *thread;
};

struct io_ring_ctx {
	struct io_sq_data *sq_data;
};

struct iattr {
	unsigned int ia_valid;
};

/* Which of the two ioctls, or file_setattr(2), is it? Since 6.17. */
struct file_kattr {
	bool flags_valid : 1;
	bool fsx_valid : 1;
};

struct linux_binprm {
	struct file *file;
};

struct tty_struct {
	struct {
		struct pid *session;
	} ctrl;
};

struct signal_struct {
	struct tty_struct *tty;
};

struct task_struct {
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct bpf_local_storage *bpf_storage;
	const struct cred *cred;
	const struct cred *real_cred;
	struct css_set *cgroups;
	struct pid *thread_pid;
	struct hlist_node pid_links[4];
	struct mm_struct *mm;
	struct fs_struct *fs;
	struct files_struct *files;
	struct nsproxy *nsproxy;
	struct signal_struct *signal;
	unsigned int flags;
	unsigned int personality;
	int pid;
	int tgid;
	__u32 self_exec_id;
	__u64 start_boottime;
	char comm[16];
};

/* Task-local storage, for the look-up of last resort in identity.bpf.h. */
struct bpf_map {
	__u32 id;
};

struct bpf_local_storage_map {
	struct bpf_map map;
};

struct bpf_local_storage_data {
	struct bpf_local_storage_map *smap;
	__u8 data[1];
};

struct bpf_local_storage_elem {
	struct hlist_node snode;
	struct bpf_local_storage_data sdata;
};

struct bpf_local_storage {
	struct hlist_head list;
};

/* Sockets. */
struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

struct sock_common {
	__u32 skc_daddr;
	__u16 skc_dport;
	__u16 skc_num;
	__u16 skc_family;
	unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock_reuseport {
	void *prog;
};

struct sock {
	struct sock_common __sk_common;
	struct sock_reuseport *sk_reuseport_cb;
	__u16 sk_type;
	__u16 sk_protocol;
	struct sock_cgroup_data sk_cgrp_data;
};

struct socket {
	short type;
	struct file *file;
	struct sock *sk;
};

struct proto_ops {
	void *sendpage; /* until 6.4 */
};

struct sockaddr_un {
	__u16 sun_family;
	char sun_path[108];
};

struct unix_address {
	int len;
	struct sockaddr_un name[1];
};

struct unix_sock {
	struct unix_address *addr;
	struct path path;
};

struct sk_buff {
	unsigned int len;
	unsigned char *data;
};

struct msghdr {
	void *msg_name;
	int msg_namelen;
	union {
		void *msg_control; /* the kernel's copy, wherever a security module sees it */
	};
	unsigned int msg_flags;
	unsigned long msg_controllen;
};

/* fs/overlayfs/ovl_entry.h: the credentials that overlayfs works under in the layers. Module or built in. */
struct ovl_fs {
	const struct cred *creator_cred;
};

/* Contexts of the iterators. */
struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

#pragma clang attribute pop

struct sockaddr;
struct kernel_siginfo;
struct mnt_idmap;
union bpf_attr;

#endif
