/* SPDX-License-Identifier: GPL-2.0 */
/*
 * limits.output: bytes that the tasks of a fence write to files, and to where descriptors 1 and 2 of its command lead,
 * counted as they are written. The programs here stand at the end (or begin) of the kernel's functions that write; no hook
 * knows the number of bytes. file_permission denies the next write, with EDQUOT, once the limit is reached, and one that
 * says before how much it is and would go beyond. All are attached only while a fence has the limit.
 *
 *   generic_write_checks   what a file system is about to write to a file: write, writev, pwrite, sendfile, splice,
 *                          copy_file_range by copying, io_uring, aio, O_DIRECT
 *   generic_remap_file_range_prep, vfs_copy_file_range, vfs_fallocate: extents that are shared, copied elsewhere, reserved
 *   handle_mm_fault        pages of a file that a shared mapping may write from now on
 *   pipe_write, anon_pipe_write, tty_write, redirected_tty_write, do_splice, do_sendfile, do_tee, vmsplice, get_pipe_info: descriptors 1 and 2
 *   vfs_write, vfs_fallocate at their begin: how much it will be
 *
 * What no hook can deny - stores into a mapping, tee, vmsplice and splice into the pipe - gets SIGXFSZ beyond the limit;
 * and whoever is OUTPUT_SLACK bytes beyond it, by whatever way, is killed. Tasks of no fence leave after one pointer test.
 */
#ifndef CORDON_LIMIT_BPF_H
#define CORDON_LIMIT_BPF_H

#include "event.bpf.h"
#include "identity.bpf.h"

enum {
	OUTPUT_SLACK = 1 << 20,
	SIGNAL_KILL = 9,
	SIGNAL_XFSZ = 25,
	PAGE_BYTES = 4096,
	FAULT_AROUND_BYTES = 16 * PAGE_BYTES, /* mapped by one read fault */
	FAULT_WRITE = 1,
	VM_WRITE = 2,
	VM_SHARED = 8,
	FALLOC_FREES = 2 | 8, /* PUNCH_HOLE, COLLAPSE_RANGE */
	REMAP_DEDUP = 1,
	DEV_TTY = 5 << 20, /* /dev/tty, whichever terminal that is */
	DEV_CONSOLE = 5 << 20 | 1,
	SOCKET_STREAM = 1,
	AF_INET = 2,
	AF_INET6 = 10,
};

enum {
	MOVES_ELSEWHERE,
	MOVES_TO_PIPE,
	MOVES_TO_SOCKET,
};

/* --- how much there is ------------------------------------------------------------------------------------------- */

/* The number of bytes that the fence has written, and is asked to write, would go beyond the limit. */
static __always_inline bool output_over(const struct fctx *f, __u64 more)
{
	const struct cordon_state *state = slot_state(f->slot);
	__u64 limit = f->policy->output_bytes, used;

	if (!state)
		return true;
	used = *(const volatile __u64 *)&state->output;
	return used >= limit || more > limit - used;
}

static __always_inline bool upload_over(const struct fctx *f)
{
	const struct cordon_state *state;

	if (!f->policy->upload_bytes)
		return false;
	state = slot_state(f->slot);
	return !state || *(const volatile __u64 *)&state->upload >= f->policy->upload_bytes;
}

/* The fence of the current task, if it limits its output. */
static __always_inline bool output_fence(struct fctx *f)
{
	struct task_struct *leader = leader_marked();

	return leader && fence_of_leader(leader, f) == FENCED && f->policy->output_bytes;
}

static __always_inline struct cordon_task *output_thread(void)
{
	return bpf_task_storage_get(&cordon_tasks, bpf_get_current_task_btf(), 0, 0);
}

/* Counts. forced: nobody asked whether it may be; then the task hears of it. */
static __always_inline void output_add(const struct fctx *f, __u64 bytes, bool forced)
{
	struct cordon_state *state = slot_state(f->slot);
	__u64 used;

	if (!state)
		return;
	used = __sync_fetch_and_add(&state->output, bytes) + bytes;
	if (used <= f->policy->output_bytes || f->policy->mode == CORDON_MODE_AUDIT)
		return;
	used -= f->policy->output_bytes;
	if (used > OUTPUT_SLACK)
		bpf_send_signal(SIGNAL_KILL);
	else if (forced)
		bpf_send_signal(SIGNAL_XFSZ);
}

/* --- where it goes ----------------------------------------------------------------------------------------------- */

/* A file that lies in a file system; memfd and the like do not. */
static __always_inline bool output_is_file(const struct inode *inode)
{
	return (inode->i_mode & DECIDE_S_IFMT) == DECIDE_S_IFREG &&
	       !(inode->i_sb->s_flags & DECIDE_SB_NOUSER);
}

/* Do descriptors 1 or 2 of the command lead there? */
static __always_inline bool output_is_standard(const struct fctx *f, __u64 ino, __u32 dev)
{
	return ino && ((f->fence->out[0].ino == ino && f->fence->out[0].dev == dev) ||
		       (f->fence->out[1].ino == ino && f->fence->out[1].dev == dev));
}

static __always_inline bool output_is_stream(const struct fctx *f, const struct inode *inode)
{
	__u32 kind = inode->i_mode & DECIDE_S_IFMT;

	if (kind == DECIDE_S_IFREG)
		return false;
	if (kind == DECIDE_S_IFCHR && inode->i_rdev == DEV_TTY)
		return true;
	return output_is_standard(f, inode->i_ino, inode->i_sb->s_dev);
}

/* --- files ------------------------------------------------------------------------------------------------------- */

SEC("fexit/generic_write_checks")
int BPF_PROG(output_write, struct kiocb *iocb, void *from, long ret)
{
	struct fctx f;

	if (ret > 0 && output_fence(&f) && output_is_file(iocb->ki_filp->f_inode))
		output_add(&f, ret, false);
	return 0;
}

/* Extents that are shared with another file; copy_file_range() comes by here, too. */
SEC("fexit/generic_remap_file_range_prep")
int BPF_PROG(output_remap, struct file *in, __s64 pos_in, struct file *out, __s64 pos_out,
	     __s64 *len, unsigned int flags, int ret)
{
	__s64 bytes = 0;
	struct fctx f;

	if (ret || flags & REMAP_DEDUP || !output_fence(&f))
		return 0;
	bpf_probe_read_kernel(&bytes, sizeof(bytes), len);
	if (bytes > 0)
		output_add(&f, bytes, false);
	return 0;
}

/* What copy_file_range() did that was not counted on the way: the thread notes how much it had written before. */
SEC("fentry/vfs_copy_file_range")
int BPF_PROG(output_copy_begin)
{
	struct cordon_state *state;
	struct cordon_task *task;
	struct fctx f;

	if (!output_fence(&f))
		return 0;
	state = slot_state(f.slot);
	task = output_thread();
	if (state && task)
		task->copied = *(volatile __u64 *)&state->output;
	return 0;
}

SEC("fexit/vfs_copy_file_range")
int BPF_PROG(output_copy_end, struct file *in, __s64 pos_in, struct file *out, __s64 pos_out,
	     __u64 len, unsigned int flags, long ret)
{
	struct cordon_state *state;
	struct cordon_task *task;
	struct fctx f;
	__u64 seen;

	if (ret <= 0 || !output_fence(&f))
		return 0;
	state = slot_state(f.slot);
	task = output_thread();
	if (!state || !task)
		return 0;
	seen = *(volatile __u64 *)&state->output - task->copied;
	if (seen < (__u64)ret)
		output_add(&f, ret - seen, false);
	return 0;
}

/* How much is asked for, until file_permission has judged it. */
static __always_inline void output_ask(const struct file *file, __u64 bytes)
{
	struct cordon_task *task;
	struct fctx f;

	if (!output_fence(&f))
		return;
	task = output_thread();
	if (!task)
		return;
	task->asked = bytes;
	task->asked_file = number_of(file);
}

SEC("fentry/vfs_write")
int BPF_PROG(output_ask_write, struct file *file, const char *buf, __u64 count, __s64 *pos)
{
	output_ask(file, count);
	return 0;
}

SEC("fentry/vfs_fallocate")
int BPF_PROG(output_ask_reserve, struct file *file, int mode, __s64 offset, __s64 len)
{
	if (!(mode & FALLOC_FREES) && len > 0)
		output_ask(file, len);
	return 0;
}

SEC("fexit/vfs_fallocate")
int BPF_PROG(output_reserve, struct file *file, int mode, __s64 offset, __s64 len, int ret)
{
	struct fctx f;

	if (!ret && !(mode & FALLOC_FREES) && len > 0 && output_fence(&f) &&
	    output_is_file(file->f_inode))
		output_add(&f, len, false);
	return 0;
}

/*
 * A file system that wants to know of the first write to a page makes each one fault; others map what is read
 * writable, and some pages around it.
 */
SEC("fentry/handle_mm_fault")
int BPF_PROG(output_fault, struct vm_area_struct *vma, unsigned long address, unsigned int flags)
{
	struct task_struct *leader = leader_marked();
	struct file *file;
	struct fctx f;
	__u64 bytes = PAGE_BYTES;

	if (!leader || (vma->vm_flags & (VM_SHARED | VM_WRITE)) != (VM_SHARED | VM_WRITE))
		return 0;
	file = vma->vm_file;
	if (!file || !output_is_file(file->f_inode) || !output_fence(&f))
		return 0;
	if (!(flags & FAULT_WRITE)) {
		if (BPF_CORE_READ(vma, vm_ops, page_mkwrite))
			return 0;
		bytes = FAULT_AROUND_BYTES;
	}
	output_add(&f, bytes, true);
	return 0;
}

/* --- where descriptors 1 and 2 lead ------------------------------------------------------------------------------ */

static __always_inline int output_stream(const struct inode *inode, long ret)
{
	struct fctx f;

	if (ret > 0 && output_fence(&f) && output_is_stream(&f, inode))
		output_add(&f, ret, false);
	return 0;
}

SEC("fexit/pipe_write")
int BPF_PROG(output_pipe, struct kiocb *iocb, void *from, long ret)
{
	return output_stream(iocb->ki_filp->f_inode, ret);
}

SEC("fexit/anon_pipe_write")
int BPF_PROG(output_anon_pipe, struct kiocb *iocb, void *from, long ret)
{
	return output_stream(iocb->ki_filp->f_inode, ret);
}

SEC("fexit/tty_write")
int BPF_PROG(output_tty, struct kiocb *iocb, void *from, long ret)
{
	if (iocb->ki_filp->f_inode->i_rdev == DEV_CONSOLE) /* or not: as it was compiled */
		return 0;
	return output_stream(iocb->ki_filp->f_inode, ret);
}

SEC("fexit/redirected_tty_write")
int BPF_PROG(output_console, struct kiocb *iocb, void *from, long ret)
{
	return output_stream(iocb->ki_filp->f_inode, ret);
}

/*
 * What moves by pages where neither the file's own function nor a hook sees it: into a pipe; before 6.5 into a
 * stream socket, too, of which file_permission was asked. Is the file one of these?
 */
static __always_inline __u32 output_moves_to(const struct fctx *f, const struct file *file)
{
	const struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u32 kind = BPF_CORE_READ(inode, i_mode) & DECIDE_S_IFMT;
	const struct socket *sock;

	if (!output_is_standard(f, BPF_CORE_READ(inode, i_ino), BPF_CORE_READ(inode, i_sb, s_dev)))
		return MOVES_ELSEWHERE;
	if (kind == DECIDE_S_IFIFO)
		return MOVES_TO_PIPE;
	if (kind != DECIDE_S_IFSOCK || !bpf_core_field_exists(struct proto_ops, sendpage))
		return MOVES_ELSEWHERE;
	sock = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(sock, type) == SOCKET_STREAM ? MOVES_TO_SOCKET : MOVES_ELSEWHERE;
}

static __always_inline int output_moved(const struct file *file, long ret)
{
	struct fctx f;
	__u32 to;

	if (ret <= 0 || !output_fence(&f))
		return 0;
	to = output_moves_to(&f, file);
	if (to != MOVES_ELSEWHERE)
		output_add(&f, ret, to == MOVES_TO_PIPE);
	return 0;
}

SEC("fexit/do_splice")
int BPF_PROG(output_splice, struct file *in, __s64 *off_in, struct file *out, __s64 *off_out,
	     __u64 len, unsigned int flags, long ret)
{
	return output_moved(out, ret);
}

SEC("fexit/do_tee")
int BPF_PROG(output_tee, struct file *in, struct file *out, __u64 len, unsigned int flags, long ret)
{
	return output_moved(out, ret);
}

/*
 * sendfile and vmsplice have a descriptor, which another thread may lead elsewhere until they end. This asks of the file, before
 * anything moves.
 */
SEC("fentry/get_pipe_info")
int BPF_PROG(output_into, struct file *file)
{
	struct cordon_task *task;
	struct fctx f;

	if (!output_fence(&f))
		return 0;
	task = output_thread();
	if (task)
		task->moves_to = output_moves_to(&f, file);
	return 0;
}

static __always_inline int output_moved_into(long ret)
{
	struct cordon_task *task;
	struct fctx f;

	if (ret <= 0 || !output_fence(&f))
		return 0;
	task = output_thread();
	if (task && task->moves_to != MOVES_ELSEWHERE)
		output_add(&f, ret, task->moves_to == MOVES_TO_PIPE);
	return 0;
}

SEC("fexit/do_sendfile")
int BPF_PROG(output_sendfile, int out, int in, __s64 *pos, __u64 count, __s64 max, long ret)
{
	return output_moved_into(ret);
}

SEC("fexit/__x64_sys_vmsplice")
int BPF_PROG(output_vmsplice, const struct pt_regs *regs, long ret)
{
	return output_moved_into(ret);
}

SEC("fexit/__ia32_sys_vmsplice")
int BPF_PROG(output_vmsplice32, const struct pt_regs *regs, long ret)
{
	return output_moved_into(ret);
}

/* --- at the hooks ------------------------------------------------------------------------------------------------ */

/* What the current thread said it would write to the file, once. */
static __always_inline __u64 output_asked(const struct file *file)
{
	struct cordon_task *task = output_thread();
	__u64 bytes = 0;

	if (task && task->asked_file == number_of(file))
		bytes = task->asked;
	if (task)
		task->asked_file = 0;
	return bytes;
}

/* Is this write to a file, or to where descriptors 1 and 2 lead, too much? */
static __always_inline bool output_denies(const struct fctx *f, const struct file *file)
{
	const struct inode *inode = file->f_inode;

	return (output_is_file(inode) || output_is_stream(f, inode)) &&
	       output_over(f, output_asked(file));
}

#endif
