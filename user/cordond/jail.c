// SPDX-License-Identifier: Apache-2.0
/*
 * See jail.h. The seccomp filter is written by hand: it is one comparison for each system call, and libseccomp would be a
 * library more for that. amd64 only, as Cordon is. EPERM and not death: what the C library tries in some other version
 * must not end the front; it never succeeds either.
 */
#include "cordond/jail.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Reading and writing what is open; files and sockets of sinks; memory; threads; time. Nothing that executes or traces. */
static const unsigned int allowed[] = {
	SYS_read,
	SYS_write,
	SYS_readv,
	SYS_writev,
	SYS_pread64,
	SYS_pwrite64,
	SYS_lseek,
	SYS_close,
	SYS_close_range,
	SYS_dup,
	SYS_dup2,
	SYS_dup3,
	SYS_fcntl,
	SYS_flock,
	SYS_ioctl,
	SYS_open,
	SYS_openat,
	SYS_openat2,
	SYS_stat,
	SYS_fstat,
	SYS_lstat,
	SYS_newfstatat,
	SYS_statx,
	SYS_statfs,
	SYS_fstatfs,
	SYS_access,
	SYS_faccessat,
	SYS_faccessat2,
	SYS_readlink,
	SYS_readlinkat,
	SYS_getdents64,
	SYS_getcwd,
	SYS_fsync,
	SYS_fdatasync,
	SYS_ftruncate,
	SYS_fallocate,
	SYS_rename,
	SYS_renameat,
	SYS_renameat2,
	SYS_link,
	SYS_linkat,
	SYS_unlink,
	SYS_unlinkat,
	SYS_mkdir,
	SYS_mkdirat,
	SYS_fchmod,
	SYS_umask,
	SYS_memfd_create,
	SYS_pipe,
	SYS_pipe2,
	SYS_eventfd2,
	SYS_poll,
	SYS_ppoll,
	SYS_select,
	SYS_pselect6,
	SYS_epoll_create1,
	SYS_epoll_ctl,
	SYS_epoll_wait,
	SYS_epoll_pwait,
	SYS_epoll_pwait2,
	SYS_timerfd_create,
	SYS_timerfd_settime,
	SYS_socket,
	SYS_socketpair,
	SYS_connect,
	SYS_bind,
	SYS_accept4,
	SYS_listen,
	SYS_getsockname,
	SYS_getpeername,
	SYS_getsockopt,
	SYS_setsockopt,
	SYS_sendto,
	SYS_recvfrom,
	SYS_sendmsg,
	SYS_recvmsg,
	SYS_sendmmsg,
	SYS_recvmmsg,
	SYS_shutdown,
	SYS_mmap,
	SYS_munmap,
	SYS_mremap,
	SYS_mprotect,
	SYS_madvise,
	SYS_brk,
	SYS_futex,
	SYS_set_robust_list,
	SYS_get_robust_list,
	SYS_rseq,
	SYS_set_tid_address,
	SYS_sched_yield,
	SYS_sched_getaffinity,
	SYS_sched_getparam,
	SYS_sched_getscheduler,
	SYS_membarrier,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_rt_sigtimedwait,
	SYS_sigaltstack,
	SYS_restart_syscall,
	SYS_getpid,
	SYS_gettid,
	SYS_getppid,
	SYS_tgkill,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	SYS_getresuid,
	SYS_getresgid,
	SYS_getgroups,
	SYS_getrandom,
	SYS_getrlimit,
	SYS_prlimit64,
	SYS_getrusage,
	SYS_sysinfo,
	SYS_uname,
	SYS_clock_gettime,
	SYS_clock_getres,
	SYS_clock_nanosleep,
	SYS_nanosleep,
	SYS_gettimeofday,
	SYS_time,
	SYS_exit,
	SYS_exit_group,
};

/* What may be called with some first arguments only. */
static const struct {
	unsigned int nr;
	unsigned int jump; /* BPF_JEQ, or BPF_JSET: has one of these bits */
	unsigned int argument;
} narrow[] = {
	{ SYS_clone, BPF_JSET, CLONE_THREAD }, /* threads, no processes */
	{ SYS_bpf, BPF_JEQ,
	  BPF_MAP_LOOKUP_ELEM }, /* whose a socket is, in the map that was given */
	{ SYS_prctl, BPF_JEQ, PR_SET_NAME },
};

enum { N = ARRAY_SIZE(allowed), HEAD = 6, BLOCK = 5, TAIL = 2 };
_Static_assert(N < 250, "the jumps of the filter are bytes");

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define GIVE(what) BPF_STMT(BPF_RET | BPF_K, what)
#define JUMP(how, value, yes, no) BPF_JUMP(BPF_JMP | (how) | BPF_K, value, yes, no)
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

/*
 * clone3(2), whose flags lie in memory, is answered with ENOSYS, so that the C library falls back to clone(2). x32 calls
 * have numbers of their own and so are not on the list.
 */
static int filter_set(struct error *error)
{
	static struct sock_filter code[HEAD + BLOCK * ARRAY_SIZE(narrow) + N + TAIL] = {
		LOAD(arch),
		JUMP(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0),
		GIVE(SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		JUMP(BPF_JEQ, SYS_clone3, 0, 1),
		GIVE(SECCOMP_RET_ERRNO | ENOSYS),
	};
	struct sock_fprog program = { .filter = code };
	size_t n = HEAD;

	for (size_t i = 0; i < ARRAY_SIZE(narrow); i++) {
		code[n++] = (struct sock_filter)JUMP(BPF_JEQ, narrow[i].nr, 0, BLOCK - 1);
		code[n++] = (struct sock_filter)LOAD(args[0]);
		code[n++] = (struct sock_filter)JUMP(narrow[i].jump, narrow[i].argument, 0, 1);
		code[n++] = (struct sock_filter)GIVE(SECCOMP_RET_ALLOW);
		code[n++] = (struct sock_filter)GIVE(REFUSE);
	}
	for (size_t i = 0; i < N; i++) /* over the rest and the refusal */
		code[n++] = (struct sock_filter)JUMP(BPF_JEQ, allowed[i], (__u8)(N - i), 0);
	code[n++] = (struct sock_filter)GIVE(REFUSE);
	code[n++] = (struct sock_filter)GIVE(SECCOMP_RET_ALLOW);
	program.len = (unsigned short)n;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		return error_set(error, errno, "seccomp: %s", strerror(errno));
	return 0;
}

static int capabilities_drop(struct error *error)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { .effective = 0 } };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capset, &header, none))
		return error_set(error, errno, "cannot give up capabilities: %s", strerror(errno));
	return 0;
}

int jail_enter(struct error *error)
{
	int err;

	if (!geteuid())
		return error_set(error, EPERM, "the front must not be root");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return error_set(error, errno, "prctl: %s", strerror(errno));
	err = capabilities_drop(error);
	return err ? err : filter_set(error);
}
