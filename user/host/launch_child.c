// SPDX-License-Identifier: Apache-2.0
/*
 * What the launched child does from the fork to exec. It is a copy of a process that may have had
 * threads, so it only makes system calls: no allocation, no stdio, no name look-up.
 *
 * Privilege: the parent's, until the user changes. Any failure is reported through err_fd and ends
 * the child. It is never alive without its parent before exec: PR_SET_PDEATHSIG kills it, and end
 * of file on go_fd ends it. That it is fenced after exec is the kernel's part and does not depend
 * on this.
 */
#include "host/launch.h"
#include "host/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 * Of the memory of the machine; what is used counts for the memory ceiling of the fence like any
 * other page.
 */
#define PRIVATE_OPTIONS "mode=1777,size=25%"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 4
#endif

/* A message is smaller than PIPE_BUF: whole or not at all. */
static void say(const struct launch_plan *plan, enum launch_stage stage, int err, size_t dir)
{
	const struct launch_message message = { .stage = stage, .err = err, .dir = (uint32_t)dir };

	while (write(plan->err_fd, &message, sizeof(message)) < 0 && errno == EINTR)
		;
}

static _Noreturn void fail(const struct launch_plan *plan, enum launch_stage stage, int err,
			   size_t dir)
{
	say(plan, stage, err, dir);
	_exit(125);
}

static void must(const struct launch_plan *plan, enum launch_stage stage, int failed)
{
	if (failed)
		fail(plan, stage, errno, 0);
}

/* SIGKILL when the parent ends. It may have ended before we asked, and nobody is left to tell. */
static void tie_to_parent(const struct launch_plan *plan, enum launch_stage stage)
{
	must(plan, stage, prctl(PR_SET_PDEATHSIG, SIGKILL));
	if (getppid() != plan->parent)
		_exit(125);
}

/*
 * An ignored SIGHUP stays (nohup); everything else gets its default. By system call: the C library hides two signals
 * of its own, which children of posix_spawn(3) - all that make starts - are born ignoring.
 */
static void reset_signals(const struct launch_plan *plan)
{
	struct { /* the kernel's struct sigaction */
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} action;
	int sig;

	for (sig = 1; sig < NSIG; sig++) {
		if (sig == SIGKILL || sig == SIGSTOP ||
		    syscall(SYS_rt_sigaction, sig, NULL, &action, sizeof(action.mask)))
			continue;
		if (action.handler == SIG_DFL || (sig == SIGHUP && action.handler == SIG_IGN))
			continue;
		memset(&action, 0, sizeof(action));
		must(plan, LAUNCH_SIGNALS,
		     syscall(SYS_rt_sigaction, sig, &action, NULL, sizeof(action.mask)));
	}
}

/* Everything from 3 on, but our two pipe ends, which exec closes. */
static void close_descriptors(const struct launch_plan *plan)
{
	unsigned int a = (unsigned int)plan->go_fd, b = (unsigned int)plan->err_fd;
	unsigned int lo = a < b ? a : b, hi = a < b ? b : a;

	if (lo > 3)
		must(plan, LAUNCH_CLOSE, close_range(3, lo - 1, 0));
	if (hi > lo + 1)
		must(plan, LAUNCH_CLOSE, close_range(lo + 1, hi - 1, 0));
	must(plan, LAUNCH_CLOSE, close_range(hi + 1, UINT_MAX, 0));
}

/*
 * Makes the directories of path that are missing: they lie in a tmpfs of ours. Others may pass
 * through them.
 */
static int make_directories(const char *path)
{
	char part[PATH_MAX];
	size_t n;

	for (n = 1; n < sizeof(part) && path[n - 1]; n++) {
		if (path[n] && path[n] != '/')
			continue;
		memcpy(part, path, n);
		part[n] = '\0';
		if (!mkdir(part, 0755)) {
			if (chmod(part, 0755))
				return -1;
		} else if (errno != EEXIST) {
			return -1;
		}
	}
	return 0;
}

static void mount_private(const struct launch_plan *plan, size_t i)
{
	size_t above;

	for (above = 0; above < i; above++)
		if (host_path_below(plan->dirs[i], plan->dirs[above]) &&
		    make_directories(plan->dirs[i]))
			fail(plan, LAUNCH_PRIVATE, errno, i);
	if (mount("tmpfs", plan->dirs[i], "tmpfs", MS_NOSUID | MS_NODEV, PRIVATE_OPTIONS))
		fail(plan, LAUNCH_PRIVATE, errno, i);
}

/*
 * A workdir below a private directory: its mount was cloned before, and comes back at the same
 * path.
 */
static void restore_workdir(const struct launch_plan *plan, int tree)
{
	if (make_directories(plan->workdir) ||
	    syscall(SYS_move_mount, tree, "", AT_FDCWD, plan->workdir, MOVE_MOUNT_F_EMPTY_PATH))
		fail(plan, LAUNCH_RESTORE, errno, plan->keep_after);
	close(tree);
}

/*
 * Slave, not private: what the host mounts or unmounts later is seen here too and cannot be kept
 * busy, and nothing that is mounted here reaches the host. System V IPC goes with the private /dev/shm: the host's
 * objects are denied in a fence, those of this namespace are its own.
 */
static void set_up_mounts(const struct launch_plan *plan)
{
	int tree = -1;
	size_t i;

	if (!plan->n_dirs)
		return;
	must(plan, LAUNCH_NAMESPACE, unshare(CLONE_NEWNS | CLONE_NEWIPC));
	must(plan, LAUNCH_SLAVE, mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL));
	if (plan->keep_after < plan->n_dirs) {
		tree = (int)syscall(SYS_open_tree, AT_FDCWD, plan->workdir,
				    OPEN_TREE_CLONE | O_CLOEXEC | AT_RECURSIVE);
		must(plan, LAUNCH_KEEP, tree < 0);
	}
	for (i = 0; i < plan->n_dirs; i++) {
		mount_private(plan, i);
		if (i == plan->keep_after)
			restore_workdir(plan, tree);
	}
}

static void wait_for_go(const struct launch_plan *plan)
{
	ssize_t r;
	char byte;

	say(plan, LAUNCH_READY, 0, 0);
	do {
		r = read(plan->go_fd, &byte, 1);
	} while (r < 0 && errno == EINTR);
	if (r != 1)
		_exit(125);
	close(plan->go_fd);
}

/*
 * A bounding set that we may not shrink is no harm: no_new_privs keeps exec from gaining anything
 * out of it.
 */
static void clear_capabilities(const struct launch_plan *plan)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2];

	memset(none, 0, sizeof(none));
	must(plan, LAUNCH_USER, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
	must(plan, LAUNCH_USER, (int)syscall(SYS_capset, &header, none));
}

static void become_user(const struct launch_plan *plan)
{
	int cap;

	if (!plan->drop)
		return;
	for (cap = 0; cap < 64 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	must(plan, LAUNCH_USER, setgroups((size_t)plan->n_groups, plan->groups));
	must(plan, LAUNCH_USER, setresgid(plan->gid, plan->gid, plan->gid));
	must(plan, LAUNCH_USER, setresuid(plan->uid, plan->uid, plan->uid));
	clear_capabilities(plan);
	tie_to_parent(plan, LAUNCH_USER); /* a change of credentials undoes it */
}

/* As execvp searches, but a file without a known format is an error: no shell is tried on it. */
static int execute(const struct launch_plan *plan)
{
	int err = ENOENT;
	size_t i;

	for (i = 0; plan->candidates[i]; i++) {
		execve(plan->candidates[i], plan->argv, plan->env);
		if (errno == EACCES)
			err = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR)
			return errno;
	}
	return err;
}

_Noreturn void launch_child(const struct launch_plan *plan)
{
	sigset_t none;

	tie_to_parent(plan, LAUNCH_TIE);
	reset_signals(plan);
	close_descriptors(plan);
	set_up_mounts(plan);
	wait_for_go(plan);

	must(plan, LAUNCH_PRIVS, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (plan->workdir)
		must(plan, LAUNCH_WORKDIR, chdir(plan->workdir));
	become_user(plan);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	fail(plan, LAUNCH_EXEC, execute(plan), 0);
}
