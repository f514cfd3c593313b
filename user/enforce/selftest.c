// SPDX-License-Identifier: Apache-2.0
/*
 * The self-test: programs that attach but never fire are the commonest lie, so every hook is made to deny something
 * before a fence is called enforcing. A child of ours is born into a cgroup below the fence's, which is a fence of
 * its own for the occasion, with a policy that allows nothing; it tries each operation on an arena (a small tmpfs)
 * and on sockets of ours. An attempt counts as denied when the error is right and the kernel's own count of denials
 * grew: another cause of the same error is not taken for Cordon. Where several programs could give the denial, the
 * attempt is one that only the program in question refuses. Anything else fails the self-test.
 *
 * Each denial is reported, too, or the reporters do not fire. Not provable this way: cgroup/sock_create, recvmsg and
 * getpeername, for which the kernel is asked what is attached; the programs at the entry of functions, and fence_bprm_check,
 * which marks whom nothing else has marked (the init of a container), for which their pins are looked at; file_create_as and
 * file_uring_creds, which only overlayfs and a working io_uring reach (attack rows F-32 and F-27 do).
 * net_sctp_bind_connect is for sockets that a fence cannot make, file_uring_cmd for devices that it cannot open. Programs that are attached on demand are proved for the
 * fences that need them.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/if_packet.h>
#include <linux/sched.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "enforce/internal.h"

enum {
	SELFTEST_TIMEOUT_MS = 20000,
	ARENA_DIR_MAX = 64,
	ARENA_PATH_MAX = ARENA_DIR_MAX + 8, /* fits into a sockaddr_un */
	INBOUND_MS = 1000,
};

/* What the attempts act on; made by the parent, outside the fence. */
struct arena {
	char dir[ARENA_DIR_MAX];
	int write_fd;			/* f, open for writing from before */
	int read_fd;			/* f, open for reading */
	int stream_fd;			/* listens at s */
	int dgram_fd;			/* is bound to t */
	void *map;			/* of f, for reading, from before */
	char queue[ARENA_DIR_MAX];	/* a message queue */
	char queue_new[ARENA_PATH_MAX]; /* one that is not there */
	int outside_fd;			/* a datagram socket that sends in, when asked */
	int ask[2];	     /* pipe to the parent: a port of the loopback that it is to send to */
	int answer[2];	     /* and back: it did */
	int owned[2];	     /* pipe; when it can be read, the parent is signalled */
	const __u64 *denied; /* the count of denials, in the child */
	pid_t parent;
	int shm, sem, msg; /* SysV IPC objects; -1 where the IPC namespace is not the host's */
};

static const char *at(const struct arena *arena, const char *name)
{
	static char path[ARENA_PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", arena->dir, name);
	return path;
}

/* Result of a system call as an errno. */
static int result(long ret)
{
	return ret < 0 ? errno : 0;
}

/* --- the attempts: each returns 0 when it succeeded, else the errno ------------------------------------------ */

static int try_open(const struct arena *a)
{
	int fd = open(at(a, "f"), O_WRONLY | O_CLOEXEC), err = result(fd);

	if (fd >= 0)
		close(fd);
	return err;
}

static int try_mkdir(const struct arena *a)
{
	return result(mkdir(at(a, "new"), 0700));
}
static int try_mknod(const struct arena *a)
{
	return result(mkfifo(at(a, "new"), 0600));
}
static int try_symlink(const struct arena *a)
{
	return result(symlink("x", at(a, "new")));
}
static int try_unlink(const struct arena *a)
{
	return result(unlink(at(a, "f")));
}
static int try_rmdir(const struct arena *a)
{
	return result(rmdir(at(a, "d")));
}
static int try_truncate(const struct arena *a)
{
	return result(truncate(at(a, "f"), 0));
}
static int try_ftruncate(const struct arena *a)
{
	return result(ftruncate(a->write_fd, 0));
}
/* What is immutable is refused by the kernel before inode_setattr, which would deny it too: only path_* can say EROFS. */
static int try_chmod(const struct arena *a)
{
	return result(chmod(at(a, "i"), 0600));
}
static int try_chown(const struct arena *a)
{
	return result(chown(at(a, "i"), 0, 0));
}
static int try_utimes(const struct arena *a)
{
	return result(utimensat(AT_FDCWD, at(a, "f"), NULL, 0));
}

static int try_link(const struct arena *a)
{
	char from[ARENA_PATH_MAX];

	snprintf(from, sizeof(from), "%s", at(a, "f"));
	return result(link(from, at(a, "new")));
}

static int try_rename(const struct arena *a)
{
	char from[ARENA_PATH_MAX];

	snprintf(from, sizeof(from), "%s", at(a, "f"));
	return result(rename(from, at(a, "new")));
}

static int try_setxattr(const struct arena *a)
{
	return result(setxattr(at(a, "f"), "user.cordon", "", 0, 0));
}

static int try_removexattr(const struct arena *a)
{
	return result(removexattr(at(a, "f"), "user.cordon"));
}

/* The smallest ACL there is: version 2, then tag, permissions and id of owner, group and others. */
static int try_set_acl(const struct arena *a)
{
	static const unsigned char acl[] = {
		2, 0, 0,   0,	1,   0,	  6,  0, 255, 255, 255, 255, 4,	  0,
		0, 0, 255, 255, 255, 255, 32, 0, 0,   0,   255, 255, 255, 255,
	};

	return result(setxattr(at(a, "f"), "system.posix_acl_access", acl, sizeof(acl), 0));
}

static int try_remove_acl(const struct arena *a)
{
	return result(removexattr(at(a, "f"), "system.posix_acl_access"));
}

static int try_ioctl(const struct arena *a)
{
	int flags = 0;

	return result(ioctl(a->read_fd, FS_IOC_SETFLAGS, &flags));
}

/*
 * The same by a 32-bit system call, which later kernels have a hook of its own for. In a process of its own, because
 * a kernel without the 32-bit entry ends who tries: ENOSYS.
 */
static int try_ioctl_compat(const struct arena *a)
{
#ifdef __x86_64__
	enum { IA32_IOCTL = 54 };
	int *flags = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	int status = 0;
	pid_t pid;

	if (flags == MAP_FAILED)
		return errno;
	pid = fork();
	if (!pid) {
		long ret;

		asm volatile("int $0x80"
			     : "=a"(ret)
			     : "a"(IA32_IOCTL), "b"(a->read_fd), "c"(FS_IOC32_SETFLAGS), "d"(flags)
			     : "memory", "r8", "r9", "r10", "r11");
		_exit(-ret & 0xff);
	}
	munmap(flags, sizeof(int));
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return ECHILD;
	return WIFEXITED(status) ? WEXITSTATUS(status) : ENOSYS;
#else
	return ENOSYS;
#endif
}

/* Number 469 on every architecture; kernels without it say ENOSYS, and have nothing to prove. */
static int try_file_setattr(const struct arena *a)
{
	uint64_t attr[3] = { 0 }; /* struct file_attr, first version */

	return result(syscall(469, AT_FDCWD, at(a, "f"), attr, sizeof(attr), 0));
}

static int try_mount(const struct arena *a)
{
	return result(mount("none", at(a, "d"), "tmpfs", 0, "size=4k"));
}

static int try_umount(const struct arena *a)
{
	return result(umount2(a->dir, MNT_DETACH));
}

/*
 * The kernel asks for CAP_SYS_ADMIN over the mount namespace before it asks these hooks, so they are reached from a user
 * namespace only; where none can be made, there is nothing to prove. For umount not even so, the mounts being locked
 * there: guard_capable stands before it. d is no mount point: without the hook these are EINVAL and harmless.
 */
static int try_apart(long number, const char *from, const char *to)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
			_exit(ENOSYS);
		_exit(number == SYS_pivot_root
			      ? result(syscall(number, from, to))
			      : result(syscall(number, AT_FDCWD, from, AT_FDCWD, to, 0)));
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return ECHILD;
	return WEXITSTATUS(status);
}

static int try_pivot_root(const struct arena *a)
{
	return try_apart(SYS_pivot_root, at(a, "d"), at(a, "d"));
}

static int try_move_mount(const struct arena *a)
{
	return try_apart(SYS_move_mount, at(a, "d"), at(a, "d"));
}

static int try_socket(const struct arena *a)
{
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = result(fd);

	if (fd >= 0)
		close(fd);
	return err;
}

/* Connects, or sends one byte, without waiting. */
static int reach(int type, const void *address, socklen_t size, bool send)
{
	int family = ((const struct sockaddr *)address)->sa_family, fd, err;

	fd = socket(family == 99 ? AF_INET : family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (send)
		err = result(sendto(fd, "x", 1, 0, address, size));
	else
		err = result(connect(fd, address, size));
	close(fd);
	return err == EINPROGRESS ? 0 : err;
}

static int reach4(int type, const char *address, int port, bool send)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };

	inet_pton(AF_INET, address, &sin.sin_addr);
	return reach(type, &sin, sizeof(sin), send);
}

static int reach6(int type, const char *address, int port, bool send)
{
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	inet_pton(AF_INET6, address, &sin6.sin6_addr);
	return reach(type, &sin6, sizeof(sin6), send);
}

/* The kernel refuses a socket that listens (EISCONN) after the LSM program, and before the cgroup program is asked. */
static int try_connect_listening(const struct arena *a)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(80) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	inet_pton(AF_INET, "203.0.113.1", &sin.sin_addr);
	if (fd < 0 || listen(fd, 1))
		err = EINVAL;
	else
		err = result(connect(fd, (struct sockaddr *)&sin, sizeof(sin)));
	close(fd);
	return err;
}

/* A family that only the LSM programs judge; the kernel itself would say EAFNOSUPPORT. */
static int try_send_family(const struct arena *a)
{
	struct sockaddr_in sin = { .sin_family = 99, .sin_port = htons(9) };

	return reach(SOCK_DGRAM, &sin, sizeof(sin), true);
}

static int try_metadata(const struct arena *a)
{
	return reach4(SOCK_STREAM, "169.254.169.254", 80, false);
}
static int try_public(const struct arena *a)
{
	return reach4(SOCK_DGRAM, "203.0.113.1", 53, true);
}

/* Whose listener is at a loopback address, only the cgroup programs find out. */
static int try_connect4(const struct arena *a)
{
	return reach4(SOCK_STREAM, "127.0.0.1", 1, false);
}
static int try_connect6(const struct arena *a)
{
	return reach6(SOCK_STREAM, "::1", 1, false);
}
static int try_sendmsg4(const struct arena *a)
{
	return reach4(SOCK_DGRAM, "127.0.0.1", 9, true);
}
static int try_sendmsg6(const struct arena *a)
{
	return reach6(SOCK_DGRAM, "::1", 9, true);
}

/* To a listener of the fence, so everything allows it but the packet hook, which takes no IP options. */
static int try_packet(const struct arena *a)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	static const unsigned char nop[4] = { 1, 1, 1, 1 };
	socklen_t size = sizeof(sin);
	int to = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = 0;

	if (to < 0 || from < 0 || bind(to, (struct sockaddr *)&sin, size) ||
	    getsockname(to, (struct sockaddr *)&sin, &size) ||
	    setsockopt(from, IPPROTO_IP, IP_OPTIONS, nop, sizeof(nop)))
		err = EINVAL;
	else
		err = result(sendto(from, "x", 1, 0, (struct sockaddr *)&sin, sizeof(sin)));
	close(to);
	close(from);
	return err;
}

/* To this socket, which anybody may bind, from one outside: the parent is asked to send. */
static int try_inbound(const struct arena *a)
{
	uint64_t before = __atomic_load_n(a->denied, __ATOMIC_RELAXED);
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = EINVAL;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	socklen_t size = sizeof(sin);
	char sent;

	if (fd >= 0 && !bind(fd, (struct sockaddr *)&sin, size) &&
	    !getsockname(fd, (struct sockaddr *)&sin, &size) &&
	    write(a->ask[1], &sin.sin_port, sizeof(sin.sin_port)) == sizeof(sin.sin_port) &&
	    read(a->answer[0], &sent, 1) == 1)
		err = EPERM;
	/* That it was sent does not say that it came: where much is to be received the kernel does that later. */
	for (int ms = 0; err == EPERM && ms < INBOUND_MS &&
			 __atomic_load_n(a->denied, __ATOMIC_RELAXED) == before;
	     ms++)
		err = poll(&pfd, 1, 1) ? 0 : EPERM;
	close(fd);
	return err;
}

/* A request to the kernel to change a route; without the hook it gets as far as being found empty. */
static int try_netlink(const struct arena *a)
{
	enum { RTM_NEWROUTE = 24 };
	const struct {
		uint32_t len;
		uint16_t type, flags;
		uint32_t seq, pid;
	} head = { .len = 16, .type = RTM_NEWROUTE, .flags = 1 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return errno;
	err = result(send(fd, &head, sizeof(head), 0));
	close(fd);
	return err;
}

/* Joining a group: without the hook an address that is none is EINVAL. */
static int try_setsockopt(const struct arena *a)
{
	const struct ip_mreqn none = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return errno;
	err = result(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &none, sizeof(none)));
	close(fd);
	return err;
}

static int reach_unix(int type, const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	snprintf(sun.sun_path, ARENA_PATH_MAX, "%s", path);
	return reach(type, &sun, sizeof(sun), type == SOCK_DGRAM);
}

static int try_unix_stream(const struct arena *a)
{
	return reach_unix(SOCK_STREAM, at(a, "s"));
}
static int try_unix_dgram(const struct arena *a)
{
	return reach_unix(SOCK_DGRAM, at(a, "t"));
}
static int try_traceme(const struct arena *a)
{
	return result(ptrace(PTRACE_TRACEME, 0, 0, 0));
}
/* An access that ptrace_access_check rules; were it not denied, nothing would have happened. */
static int try_ptrace(const struct arena *a)
{
	char path[32], target[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", a->parent);
	return result(readlink(path, target, sizeof(target)));
}

/* Newer kernels let CAP_PERFMON overrule what ptrace_access_check says of this file, so its opening is judged. */
static int try_environ(const struct arena *a)
{
	char path[32];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/environ", a->parent);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = result(fd);
	if (fd >= 0)
		close(fd);
	return err;
}

static int try_kill(const struct arena *a)
{
	return result(kill(a->parent, 0));
}

/* The parent has said that it is to be signalled. The kernel sends in vain and says nothing: the denial is counted. */
static int try_sigio(const struct arena *a)
{
	return write(a->owned[1], "", 1) == 1 ? EPERM : errno;
}

static int try_owner(const struct arena *a)
{
	return result(fcntl(a->owned[0], F_SETOWN, a->parent));
}

static int try_lock(const struct arena *a)
{
	return result(flock(a->read_fd, LOCK_SH | LOCK_NB));
}

/* Each of the four sets what is so already, on a process outside. */
static int try_setnice(const struct arena *a)
{
	return result(setpriority(PRIO_PROCESS, a->parent, getpriority(PRIO_PROCESS, a->parent)));
}

static int try_setioprio(const struct arena *a)
{
	enum { WHO_PROCESS = 1 };

	return result(syscall(SYS_ioprio_set, WHO_PROCESS, a->parent,
			      syscall(SYS_ioprio_get, WHO_PROCESS, a->parent)));
}

static int try_setscheduler(const struct arena *a)
{
	unsigned long cpus[128] = { 0 };
	long size = syscall(SYS_sched_getaffinity, a->parent, sizeof(cpus), cpus);

	return result(size < 0 ? size
			       : syscall(SYS_sched_setaffinity, a->parent, (size_t)size, cpus));
}

static int try_setrlimit(const struct arena *a)
{
	struct rlimit limit;

	if (prlimit(a->parent, RLIMIT_CORE, NULL, &limit))
		return errno;
	return result(prlimit(a->parent, RLIMIT_CORE, &limit, NULL));
}

static int try_capable(const struct arena *a)
{
	struct utsname uts;

	uname(&uts);
	return result(sethostname(uts.nodename, strlen(uts.nodename)));
}

static int try_perf(const struct arena *a)
{
	char attr[64] = { 0 };

	return result(syscall(SYS_perf_event_open, attr, 0, -1, -1, 0));
}

/*
 * A question that only a module can answer; it is harmless to load. The errno is the same without the hook, so the
 * denial itself is what counts. Where both modules are there, nothing is requested, and nothing can be proved.
 */
static int try_module(const struct arena *a)
{
	enum { GET_VLAN = 0x8982, GET_BRIDGE = 0x8940 }; /* SIOCGIFVLAN, SIOCGIFBR */
	int request = access("/sys/module/8021q", F_OK) ? GET_VLAN : GET_BRIDGE;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (request == GET_BRIDGE && !access("/sys/module/bridge", F_OK))
		err = ENOSYS;
	else
		err = result(ioctl(fd, request, NULL));
	close(fd);
	return err;
}

static int try_key(const struct arena *a)
{
	enum { GET_KEYRING_ID = 0, PROCESS_KEYRING = -2, CREATE = 1 };

	return result(syscall(SYS_keyctl, GET_KEYRING_ID, PROCESS_KEYRING, CREATE));
}

static int try_userfaultfd(const struct arena *a)
{
	enum { USER_MODE_ONLY = 1 };

	return result(syscall(SYS_userfaultfd, USER_MODE_ONLY | O_CLOEXEC));
}

/* Objects of the parent's IPC namespace, which is the host's unless cordon itself runs in a container. */
static int try_ipc(const struct arena *a)
{
	struct shmid_ds ds;

	return a->shm < 0 ? ENOSYS : result(shmctl(a->shm, IPC_STAT, &ds));
}
static int try_shmctl(const struct arena *a)
{
	return a->shm < 0 ? ENOSYS : result(shmctl(a->shm, IPC_RMID, NULL));
}
static int try_semctl(const struct arena *a)
{
	return a->sem < 0 ? ENOSYS : result(semctl(a->sem, 0, IPC_RMID));
}
static int try_msgctl(const struct arena *a)
{
	return a->msg < 0 ? ENOSYS : result(msgctl(a->msg, IPC_RMID, NULL));
}

static int try_bpf(const struct arena *a)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	return result(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)));
}

/* A descriptor that the child could not have opened, passed to itself. */
static int try_receive(const struct arena *a)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	char c = 0;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control.bytes) };
	int fds[2], err = 0;

	memcpy(CMSG_DATA(&control.head), &a->write_fd, sizeof(int));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return errno;
	if (sendmsg(fds[0], &msg, 0) != 1 || recvmsg(fds[1], &msg, 0) != 1)
		err = errno;
	else if (msg.msg_flags & MSG_CTRUNC) /* what is denied is left out */
		err = EROFS;
	close(fds[0]);
	close(fds[1]);
	return err;
}

static int try_queue_make(const struct arena *a)
{
	return result(mq_open(a->queue_new, O_RDONLY | O_CREAT | O_CLOEXEC, 0600, NULL));
}
static int try_queue_drop(const struct arena *a)
{
	return result(mq_unlink(a->queue));
}
static int try_write(const struct arena *a)
{
	return result(pwrite(a->write_fd, "x", 1, 0));
}
/* More than the one byte that the inner fence may write, when output is limited. */
static int try_output(const struct arena *a)
{
	return result(pwrite(a->write_fd, "xx", 2, 0));
}
static int try_mmap(const struct arena *a)
{
	void *map = mmap(NULL, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, a->read_fd, 0);

	return map == MAP_FAILED ? errno : 0;
}
static int try_mprotect(const struct arena *a)
{
	return result(mprotect(a->map, 1, PROT_READ | PROT_EXEC));
}

/* A child must be as fenced as its parent. */
static int try_fork(const struct arena *a)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(try_open(a));
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return ECHILD;
	return WEXITSTATUS(status);
}

/* As try_apart(): a file system's parameter. Numbers of the calls are those of every architecture. */
static int try_fs_param(const struct arena *a)
{
	enum { NR_FSOPEN = 430, NR_FSCONFIG = 431, SET_STRING = 1 };
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		int fd;

		if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
			_exit(ENOSYS);
		fd = syscall(NR_FSOPEN, "tmpfs", 0);
		_exit(fd < 0 ? errno
			     : result(syscall(NR_FSCONFIG, fd, SET_STRING, "size", "4k", 0)));
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return ECHILD;
	return WEXITSTATUS(status);
}

struct probe {
	const char *name;
	const char *program; /* that is proved to fire */
	int (*attempt)(const struct arena *arena);
	int expect;
	bool lsm; /* not in degraded mode */
};

static const struct probe probes[] = {
	{ "open for writing", "file_open and fence_newtask", try_open, EROFS, true },
	{ "open for writing in a child", "fence_task_alloc", try_fork, EROFS, true },
	{ "mkdir", "file_path_mkdir", try_mkdir, EROFS, true },
	{ "mkfifo", "file_path_mknod", try_mknod, EROFS, true },
	{ "symlink", "file_path_symlink", try_symlink, EROFS, true },
	{ "link", "file_path_link", try_link, EROFS, true },
	{ "unlink", "file_path_unlink", try_unlink, EROFS, true },
	{ "rmdir", "file_path_rmdir", try_rmdir, EROFS, true },
	{ "rename", "file_path_rename", try_rename, EROFS, true },
	{ "truncate", "file_path_truncate", try_truncate, EROFS, true },
	{ "ftruncate", "file_truncate", try_ftruncate, EROFS, true },
	{ "flock", "file_lock", try_lock, EROFS, true },
	{ "chmod", "file_path_chmod", try_chmod, EROFS, true },
	{ "chown", "file_path_chown", try_chown, EROFS, true },
	{ "utimensat", "file_inode_setattr", try_utimes, EROFS, true },
	{ "setxattr", "file_inode_setxattr", try_setxattr, EROFS, true },
	{ "removexattr", "file_inode_removexattr", try_removexattr, EROFS, true },
	{ "setting an ACL", "file_inode_set_acl", try_set_acl, EROFS, true },
	{ "removing an ACL", "file_inode_remove_acl", try_remove_acl, EROFS, true },
	{ "FS_IOC_SETFLAGS", "file_ioctl", try_ioctl, EROFS, true },
	{ "FS_IOC_SETFLAGS by a 32-bit call", "file_ioctl_compat", try_ioctl_compat, EROFS, true },
	{ "file_setattr", "file_inode_file_setattr", try_file_setattr, EROFS, true },
	{ "taking a descriptor", "file_receive", try_receive, EROFS, true },
	{ "making a message queue", "file_inode_create", try_queue_make, EROFS, true },
	{ "removing a message queue", "file_inode_unlink", try_queue_drop, EROFS, true },
	{ "writing by a descriptor from before", "file_permission", try_write, EROFS, true },
	{ "writing more than limits.output", "file_permission or output_ask_write", try_output,
	  EDQUOT, true },
	{ "mapping a file as code", "file_mmap", try_mmap, EACCES, true },
	{ "making a mapped file code", "file_mprotect", try_mprotect, EACCES, true },
	{ "mount", "file_sb_mount", try_mount, EPERM, true },
	{ "umount", "guard_capable and file_sb_umount", try_umount, EPERM, true },
	{ "pivot_root", "file_sb_pivotroot", try_pivot_root, EPERM, true },
	{ "move_mount", "file_move_mount", try_move_mount, EPERM, true },
	{ "a file system of its own", "file_fs_param", try_fs_param, EPERM, true },
	{ "packet socket", "net_socket_create", try_socket, EPERM, true },
	{ "connect of a listening socket", "net_socket_connect", try_connect_listening, EPERM,
	  true },
	{ "send to an unknown family", "net_socket_sendmsg", try_send_family, EPERM, true },
	{ "connect to a unix socket outside", "net_unix_stream_connect", try_unix_stream, EPERM,
	  true },
	{ "send to a unix socket outside", "net_unix_may_send", try_unix_dgram, EPERM, true },
	{ "looking at another process's executable", "guard_ptrace", try_ptrace, EACCES, true },
	{ "reading another process's environment", "file_open", try_environ, EACCES, true },
	{ "kill", "guard_task_kill", try_kill, EPERM, true },
	{ "a signal by F_SETOWN", "guard_sigiotask", try_sigio, EPERM, true },
	{ "F_SETOWN to another process", "guard_fcntl", try_owner, EPERM, true },
	{ "setpriority of another process", "guard_setnice", try_setnice, EPERM, true },
	{ "ioprio_set of another process", "guard_setioprio", try_setioprio, EPERM, true },
	{ "sched_setaffinity of another process", "guard_setscheduler", try_setscheduler, EPERM,
	  true },
	{ "prlimit of another process", "guard_setrlimit", try_setrlimit, EPERM, true },
	{ "sethostname", "guard_capable", try_capable, EPERM, true },
	{ "perf_event_open", "guard_perf", try_perf, EPERM, true },
	{ "loading a module by need", "guard_module", try_module, ENOPKG, true },
	{ "a keyring", "guard_key", try_key, EPERM, true },
	{ "userfaultfd", "guard_anon", try_userfaultfd, EPERM, true },
	{ "looking at shared memory of the host", "guard_ipc", try_ipc, EACCES, true },
	{ "removing shared memory of the host", "guard_shmctl", try_shmctl, EPERM, true },
	{ "removing semaphores of the host", "guard_semctl", try_semctl, EPERM, true },
	{ "removing a message queue of the host", "guard_msgctl", try_msgctl, EPERM, true },
	{ "bpf()", "guard_bpf", try_bpf, EPERM, true },
	{ "metadata service", "the network programs", try_metadata, EPERM, false },
	{ "public address", "the network programs", try_public, EPERM, false },
	{ "connect over IPv4", "net_connect4", try_connect4, EPERM, false },
	{ "connect over IPv6", "net_connect6", try_connect6, EPERM, false },
	{ "send over IPv4", "net_sendmsg4", try_sendmsg4, EPERM, false },
	{ "send over IPv6", "net_sendmsg6", try_sendmsg6, EPERM, false },
	{ "packet with IP options", "net_egress", try_packet, EPERM, false },
	{ "datagram from outside", "net_ingress", try_inbound, EPERM, false },
	{ "changing a route", "net_netlink_send", try_netlink, EPERM, true },
	{ "joining a group", "net_setsockopt", try_setsockopt, EPERM, true },
	/* Last: where it succeeds, a signal would stop the child. */
	{ "PTRACE_TRACEME", "guard_traceme", try_traceme, EPERM, true },
};

/* --- running them ------------------------------------------------------------------------------------------- */

/* Written by the child, read by the parent. */
struct outcome {
	int err[ARRAY_SIZE(probes)];
	uint64_t denied[ARRAY_SIZE(probes)]; /* by how much the count grew */
	int moved_err;
	uint64_t moved_denied;
};

/* needs: which programs are attached for this fence besides those that always are. */
static bool probe_applies(const struct probe *probe, bool degraded, unsigned int needs)
{
	if (probe->attempt == try_write)
		return needs & ENFORCE_NEED_DESCRIPTORS;
	if (probe->attempt == try_output)
		return needs & ENFORCE_NEED_OUTPUT;
	if (probe->attempt == try_mmap || probe->attempt == try_mprotect)
		return needs & ENFORCE_NEEDS_MAPS;
	return !degraded || !probe->lsm;
}

/* The child, inside: all attempts. Must not use anything of the parent's but memory. */
static void child_run(struct arena *arena, const __u64 *count, bool degraded, unsigned int needs,
		      struct outcome *outcome)
{
	enforce_lock_forget();
	arena->denied = count;
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		uint64_t before = __atomic_load_n(count, __ATOMIC_RELAXED);

		if (!probe_applies(&probes[i], degraded, needs))
			continue;
		outcome->err[i] = probes[i].attempt(arena);
		outcome->denied[i] = __atomic_load_n(count, __ATOMIC_RELAXED) - before;
	}
}

/* A host without IPv6 has no IPv6 to fence, one without 32-bit calls or message queues none of those. */
static bool acceptable(const struct probe *probe, int err)
{
	if (probe->attempt == try_ioctl_compat || probe->attempt == try_file_setattr ||
	    probe->attempt == try_pivot_root || probe->attempt == try_move_mount ||
	    probe->attempt == try_queue_make || probe->attempt == try_queue_drop ||
	    probe->attempt == try_key || probe->attempt == try_userfaultfd ||
	    probe->attempt == try_ipc || probe->attempt == try_shmctl ||
	    probe->attempt == try_semctl || probe->attempt == try_msgctl)
		return err == ENOSYS;
	if (probe->attempt == try_module) /* settings of the network are refused before */
		return err == ENOSYS || err == EPERM;
	if (probe->attempt ==
	    try_perf) /* kernel.perf_event_paranoid may ask for a capability first */
		return err == ENOSYS || err == EACCES;
	return err == EAFNOSUPPORT &&
	       (probe->attempt == try_connect6 || probe->attempt == try_sendmsg6);
}

static int judge(const struct outcome *outcome, bool degraded, unsigned int needs,
		 unsigned int *ret_probes, struct error *error)
{
	*ret_probes = 0;
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		if (!probe_applies(&probes[i], degraded, needs) ||
		    acceptable(&probes[i], outcome->err[i]))
			continue;
		if (outcome->err[i] != probes[i].expect || !outcome->denied[i])
			return error_set(
				error, EXFULL,
				"self-test: %s was not denied by Cordon (%s): %s does not fire",
				probes[i].name, strerror(outcome->err[i]), probes[i].program);
		++*ret_probes;
	}
	if (degraded)
		return 0;
	if (outcome->moved_err != EROFS || !outcome->moved_denied)
		return error_set(error, EXFULL,
				 "self-test: a process moved into the cgroup was not fenced (%s): "
				 "fence_attach_task does not fire",
				 strerror(outcome->moved_err));
	++*ret_probes;
	return 0;
}

static int arena_socket(int type, const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	if (fd >= 0 && (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) ||
			(type == SOCK_STREAM && listen(fd, 4)))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* A file that nobody may change; where tmpfs knows no such flags (before 6.1), one like the others. */
static void arena_immutable(const char *path)
{
	int flags = FS_IMMUTABLE_FL;
	int fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return;
	ioctl(fd, FS_IOC_SETFLAGS, &flags);
	close(fd);
}

/* Guarded are those of the host's IPC namespace, which has a fixed number; nothing is made in another one. */
static void arena_ipc(struct arena *arena)
{
	char name[32] = "";

	arena->shm = arena->sem = arena->msg = -1;
	if (readlink("/proc/self/ns/ipc", name, sizeof(name) - 1) < 0 ||
	    strcmp(name, "ipc:[4026531839]"))
		return;
	arena->shm = shmget(IPC_PRIVATE, 4096, 0600);
	arena->sem = semget(IPC_PRIVATE, 1, 0600);
	arena->msg = msgget(IPC_PRIVATE, 0600);
}

static int arena_make(struct arena *arena, uint64_t id, struct error *error)
{
	mqd_t queue;

	arena->write_fd = arena->read_fd = arena->stream_fd = arena->dgram_fd = -1;
	arena->map = MAP_FAILED;
	arena->ask[0] = arena->ask[1] = arena->answer[0] = arena->answer[1] = -1;
	arena->owned[0] = arena->owned[1] = -1;
	arena->outside_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	arena->parent = getpid();
	arena_ipc(arena);
	snprintf(arena->dir, sizeof(arena->dir), ENFORCE_RUN_DIR "/selftest-%llu",
		 (unsigned long long)id);
	if (mkdir(arena->dir, 0700) ||
	    mount("cordon-selftest", arena->dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k"))
		return error_set(error, errno, "cannot make %s for the self-test: %s", arena->dir,
				 strerror(errno));
	arena_immutable(at(arena, "i"));
	snprintf(arena->queue, sizeof(arena->queue), "/cordon-selftest-%llu",
		 (unsigned long long)id);
	snprintf(arena->queue_new, sizeof(arena->queue_new), "%s-new", arena->queue);
	queue = mq_open(arena->queue, O_RDONLY | O_CREAT | O_CLOEXEC, 0600, NULL);
	if (queue >= 0)
		mq_close(queue);
	arena->write_fd = open(at(arena, "f"), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	arena->read_fd = open(at(arena, "f"), O_RDONLY | O_CLOEXEC);
	arena->map = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, arena->read_fd, 0);
	arena->stream_fd = arena_socket(SOCK_STREAM, at(arena, "s"));
	arena->dgram_fd = arena_socket(SOCK_DGRAM, at(arena, "t"));
	if (pipe2(arena->ask, O_CLOEXEC) || pipe2(arena->answer, O_CLOEXEC) ||
	    pipe2(arena->owned, O_CLOEXEC | O_NONBLOCK) ||
	    fcntl(arena->owned[0], F_SETOWN, arena->parent) ||
	    fcntl(arena->owned[0], F_SETSIG, SIGURG) ||
	    fcntl(arena->owned[0], F_SETFL, O_NONBLOCK | O_ASYNC) || arena->outside_fd < 0 ||
	    mkdir(at(arena, "d"), 0700) || arena->write_fd < 0 || arena->read_fd < 0 ||
	    arena->map == MAP_FAILED || arena->stream_fd < 0 || arena->dgram_fd < 0)
		return error_set(error, errno, "cannot fill %s for the self-test: %s", arena->dir,
				 strerror(errno));
	return 0;
}

static void arena_drop(struct arena *arena)
{
	int fds[] = { arena->write_fd, arena->read_fd,	arena->stream_fd, arena->dgram_fd,
		      arena->ask[0],   arena->ask[1],	arena->answer[0], arena->answer[1],
		      arena->owned[0], arena->owned[1], arena->outside_fd };

	if (arena->shm >= 0)
		shmctl(arena->shm, IPC_RMID, NULL);
	if (arena->sem >= 0)
		semctl(arena->sem, 0, IPC_RMID);
	if (arena->msg >= 0)
		msgctl(arena->msg, IPC_RMID, NULL);

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (arena->map != MAP_FAILED)
		munmap(arena->map, 1);
	mq_unlink(arena->queue);
	mq_unlink(arena->queue_new);
	umount2(arena->dir, MNT_DETACH);
	rmdir(arena->dir);
}

/* Sends to the port that the child asks for. What it says beyond that is its own loss: it waits in vain. */
static void outside_send(const struct arena *arena)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	if (read(arena->ask[0], &sin.sin_port, sizeof(sin.sin_port)) != sizeof(sin.sin_port))
		return;
	sendto(arena->outside_fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&sin, sizeof(sin));
	(void)!write(arena->answer[1], "", 1);
}

/* Waits for a child at most so long; kills it then. Returns its exit status or -errno. */
static int child_wait(const struct arena *arena, pid_t pid, int pidfd)
{
	struct pollfd fds[] = {
		{ .fd = pidfd, .events = POLLIN },
		{ .fd = arena->ask[0], .events = POLLIN },
	};
	int status;

	while (!fds[0].revents) {
		if (poll(fds, ARRAY_SIZE(fds), SELFTEST_TIMEOUT_MS) <= 0) {
			kill(pid, SIGKILL);
			break;
		}
		if (fds[1].revents & POLLIN)
			outside_send(arena);
	}
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -ETIME;
}

/*
 * The kernel's count of what was denied: by whomever; or, for a set that is not in effect yet, by that alone. It runs
 * before the one that is, for the kernel puts the programs that came last first, so what it denies the other never sees.
 */
static const __u64 *denied_count(const struct enforce_fence *fence)
{
	const struct cordon_state *state = enforce_fence_state(fence);

	return fence->enforce->set[0] ? &state->denied_by[fence->enforce->meta.set & 1]
				      : &state->denied;
}

/* Born inside: proves fence_newtask and everything in the table. */
static int run_born(struct enforce_fence *fence, struct arena *arena, unsigned int needs,
		    struct outcome *outcome)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP | CLONE_PIDFD,
		.pidfd = (uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = fence->cgroup->fd,
	};
	pid_t pid = syscall(SYS_clone3, &args, sizeof(args));
	int err;

	if (pid < 0)
		return -errno;
	if (!pid) {
		child_run(arena, denied_count(fence), fence->info.degraded, needs, outcome);
		_exit(0);
	}
	err = child_wait(arena, pid, pidfd);
	close(pidfd);
	return err;
}

/* Born outside and moved in: proves fence_attach_task. */
static int run_moved(struct enforce_fence *fence, const struct arena *arena,
		     struct outcome *outcome)
{
	const __u64 *count = denied_count(fence);
	char path[4200], pid_text[16];
	int go[2], fd, err, ended = 0, pidfd;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid) {
		uint64_t before;
		char c;

		enforce_lock_forget();
		close(go[1]);
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		before = *count;
		outcome->moved_err = try_open(arena);
		outcome->moved_denied = __atomic_load_n(count, __ATOMIC_RELAXED) - before;
		_exit(0);
	}
	close(go[0]);
	snprintf(path, sizeof(path), "%s/cgroup.procs", fence->cgroup->path);
	snprintf(pid_text, sizeof(pid_text), "%d", pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	err = pid < 0 || fd < 0 || write(fd, pid_text, strlen(pid_text)) < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	if (!err && write(go[1], "", 1) != 1)
		err = -EIO;
	close(go[1]);
	if (pid > 0) {
		pidfd = syscall(SYS_pidfd_open, pid, 0);
		ended = child_wait(arena, pid, pidfd);
		close(pidfd);
	}
	return err ?: ended;
}

/* These deny nothing here, so only their pins can be looked at; a reporter that is missing is missed under load only. */
static int check_entry_hooks(const struct enforce *enforce, struct error *error)
{
	static const char *const names[] = {
#define CORDON_X(program, function) #program,
		CORDON_ENTRY_HOOKS(CORDON_X)
#undef CORDON_X
			"fence_bprm_check",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[256];

		snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/%slink_%s", enforce->set, names[i]);
		if (access(path, F_OK))
			return error_set(error, EXFULL, "self-test: %s is not attached", names[i]);
	}
	return 0;
}

/* What was denied was also reported. */
static int check_reported(struct enforce_fence *fence, struct error *error)
{
	const struct cordon_state *state = enforce_fence_state(fence);

	if (__atomic_load_n(&state->faults[CORDON_FAULT_REPORT], __ATOMIC_RELAXED))
		return error_set(
			error, EXFULL,
			"self-test: a denial was not reported: event_report0 does not fire");
	return 0;
}

/* The probe fence is made; makes the arena and runs both children. */
static int selftest_in(struct enforce_fence *fence, unsigned int needs, unsigned int *ret_probes,
		       struct error *error)
{
	struct outcome *outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct arena arena;
	int err;

	if (outcome == MAP_FAILED)
		return error_set(error, errno, "self-test: %s", strerror(errno));
	err = arena_make(&arena, fence->info.id, error);
	if (!err) {
		err = run_born(fence, &arena, needs, outcome);
		if (!err && !fence->info.degraded)
			err = run_moved(fence, &arena, outcome);
		if (err)
			err = error_set(error, EXFULL,
					"self-test: its process did not end well (%s)",
					err < 0 ? strerror(-err) : "exit status");
	}
	arena_drop(&arena);
	if (!err)
		err = judge(outcome, fence->info.degraded, needs, ret_probes, error);
	if (!err)
		err = check_reported(fence, error);
	munmap(outcome, sizeof(*outcome));
	return err;
}

static int selftest(struct enforce_fence *fence, unsigned int needs, unsigned int *ret_probes,
		    struct error *error)
{
	struct host_cgroup cgroup = { .fd = -1 };
	struct enforce_fence_options options = { .cgroup = &cgroup,
						 .descriptors = needs & ENFORCE_NEED_DESCRIPTORS,
						 .limit_output = needs & ENFORCE_NEED_OUTPUT };
	struct enforce_fence *inner = NULL;
	char path[4200];
	int err = enforce_check_attached(fence, error);

	if (!err && !fence->info.degraded)
		err = check_entry_hooks(fence->enforce, error);
	if (err)
		return err;
	snprintf(path, sizeof(path), "%s/cordon-selftest", fence->cgroup->path);
	if (mkdir(path, 0700) && errno != EEXIST)
		return error_set(error, errno, "self-test: cannot make %s: %s", path,
				 strerror(errno));
	err = host_cgroup_open(path, &cgroup, error);
	if (!err)
		err = enforce_fence_make(fence->enforce, &options, &inner, error);
	if (!err)
		err = selftest_in(inner, needs, ret_probes, error);
	if (cgroup.fd >= 0)
		host_cgroup_kill(&cgroup, 5000, NULL);
	enforce_fence_end(inner);
	host_cgroup_remove(&cgroup, NULL);
	host_cgroup_close(&cgroup); /* of one that could not be removed */
	return err;
}

int enforce_fence_selftest(struct enforce_fence *fence, unsigned int *ret_probes,
			   struct error *error)
{
	return selftest(fence, enforce_needs(&fence->info, &fence->policy), ret_probes, error);
}

int enforce_selftest_set(struct enforce_fence *fence, unsigned int needs, struct error *error)
{
	unsigned int denied;

	return selftest(fence, needs, &denied, error);
}
