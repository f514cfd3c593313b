// SPDX-License-Identifier: Apache-2.0
/*
 * Launching a command into a fence: the parent's side. See host.h for the contract, launch_child.c
 * for the child.
 *
 * The child stays in the session and process group of its parent, so that job control and Ctrl-C of
 * the terminal reach the command as if it had been typed without us - once, because the parent does
 * not forward what the terminal already sent to both (it should ignore SIGINT and SIGQUIT while the
 * command runs, as system(3) does).
 *
 * Privilege: write access to the cgroup; CAP_SYS_ADMIN where there are private directories.
 * Failure: no child is left, and *error says which step failed.
 */
#include "host/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SETUP_TIMEOUT_MS 30000

static const char *const stage_texts[] = {
#define LAUNCH_X(name, text) text,
	LAUNCH_STAGES(LAUNCH_X)
#undef LAUNCH_X
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* A pipe whose ends are not among 0-2, even where the caller closed those. */
static int make_pipe(int *ret_read, int *ret_write)
{
	int i, fds[2], high[2], err;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	for (i = 0; i < 2; i++) {
		high[i] = fds[i] > 2 ? fds[i] : fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
		err = errno;
		if (high[i] != fds[i])
			close(fds[i]);
	}
	if (high[0] >= 0 && high[1] >= 0) {
		*ret_read = high[0];
		*ret_write = high[1];
		return 0;
	}
	close_fd(&high[0]);
	close_fd(&high[1]);
	return -err;
}

/* 1: a message; 0: end of file; -ETIMEDOUT. timeout_ms < 0 waits for ever. */
static int read_message(int fd, int timeout_ms, struct launch_message *ret_message)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	ssize_t r;

	do {
		r = poll(&poll_fd, 1, timeout_ms);
	} while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r ? -errno : -ETIMEDOUT;
	do {
		r = read(fd, ret_message, sizeof(*ret_message));
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	if (r && (r != sizeof(*ret_message) || ret_message->stage >= ARRAY_SIZE(stage_texts)))
		return -EBADMSG;
	return r > 0;
}

/* --- fork ------------------------------------------------------------------------------------- */

/*
 * Signals stay blocked in the child until it has put its own handlers away. Returns the pid or
 * -errno.
 */
static pid_t fork_into(const struct launch_plan *plan, const struct host_cgroup *cgroup,
		       int *ret_pidfd)
{
	struct clone_args args = {
		.flags = CLONE_PIDFD | (cgroup ? CLONE_INTO_CGROUP : 0),
		.pidfd = (uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = cgroup ? (uint64_t)cgroup->fd : 0,
	};
	sigset_t all, old;
	pid_t pid;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		launch_child(plan);
	err = errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return pid < 0 ? -err : pid;
}

static const char *message_object(const struct launch_plan *plan,
				  const struct launch_message *message)
{
	switch (message->stage) {
	case LAUNCH_PRIVATE:
	case LAUNCH_RESTORE:
		return message->dir < plan->n_dirs ? plan->dirs[message->dir] : "";
	case LAUNCH_KEEP:
		return plan->workdir;
	default:
		return "";
	}
}

static const char *message_remedy(const struct launch_message *message)
{
	if (message->stage == LAUNCH_SLAVE && message->err == EINVAL)
		return "; / is no mount point (in a chroot?): mount --bind DIR DIR before chroot "
		       "DIR";
	return message->err == EPERM ? "; run as root" : "";
}

/* Waits for LAUNCH_READY. */
static int await_ready(const struct launch_plan *plan, const struct host_child *child,
		       struct error *error)
{
	struct launch_message message = { 0 };
	const char *object;
	int r = read_message(child->err_fd, SETUP_TIMEOUT_MS, &message);

	if (r < 0)
		return error_set(error, -r, "waiting for the command's set-up: %s", strerror(-r));
	if (r == 0)
		return error_set(error, ECHILD,
				 "the command's process ended during its set-up (killed?)");
	if (message.stage == LAUNCH_READY)
		return 0;
	object = message_object(plan, &message);
	return error_set(error, message.err, "cannot %s%s%s: %s%s", stage_texts[message.stage],
			 *object ? " " : "", object, strerror(message.err),
			 message_remedy(&message));
}

static int launch_planned(struct launch_plan *plan, const struct host_launch *launch,
			  struct host_child *child, struct error *error)
{
	int r = make_pipe(&plan->go_fd, &child->go_fd);

	if (!r)
		r = make_pipe(&child->err_fd, &plan->err_fd);
	if (r < 0)
		return error_set(error, -r, "pipe: %s", strerror(-r));
	plan->parent = getpid();
	r = fork_into(plan, launch->cgroup, &child->pidfd);
	if (r < 0)
		return error_set(error, -r, "cannot start a process in cgroup %s: %s",
				 launch->cgroup ? launch->cgroup->path : "(own)", strerror(-r));
	child->pid = r;
	child->command = launch->argv[0];
	close_fd(&plan->go_fd);
	close_fd(&plan->err_fd);
	return await_ready(plan, child, error);
}

static void child_close(struct host_child *child)
{
	close_fd(&child->pidfd);
	close_fd(&child->go_fd);
	close_fd(&child->err_fd);
	child->pid = 0;
}

int host_launch(const struct host_launch *launch, struct host_child *ret_child, struct error *error)
{
	struct launch_plan plan = { .go_fd = -1, .err_fd = -1 };
	int r;

	*ret_child = (struct host_child){ .pidfd = -1, .go_fd = -1, .err_fd = -1 };
	r = launch_plan_make(launch, &plan, error);
	if (!r)
		r = launch_planned(&plan, launch, ret_child, error);
	close_fd(&plan.go_fd);
	close_fd(&plan.err_fd);
	launch_plan_free(&plan);
	if (r < 0) {
		host_child_kill(ret_child);
		child_close(ret_child);
	}
	return r;
}

/* --- go, kill --------------------------------------------------------------------------------- */

/*
 * A child that died leaves a pipe without reader: no SIGPIPE for that, its end is seen on err_fd.
 */
static void write_go(int fd)
{
	const struct timespec now = { 0 };
	sigset_t pipe_signal, old;
	ssize_t r;

	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe_signal, &old);
	do {
		r = write(fd, "g", 1);
	} while (r < 0 && errno == EINTR);
	if (r < 0 && errno == EPIPE && !sigismember(&old, SIGPIPE))
		sigtimedwait(&pipe_signal, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int exec_error(const char *command, int err, struct error *error)
{
	if (err == ENOENT && command[0] == '/' && !access(command, F_OK))
		return error_set(error, err,
				 "%s: not found inside: it lies in a private directory, or the "
				 "interpreter that its first line names is missing",
				 command);
	if (err == ENOENT)
		return error_set(error, err, "%s: command not found", command);
	if (err == ENOEXEC)
		return error_set(error, err, "%s: not a program, and has no #! line", command);
	return error_set(error, err, "%s: %s", command, strerror(err));
}

int host_child_go(struct host_child *child, struct error *error)
{
	struct launch_message message = { 0 };
	int r;

	write_go(child->go_fd);
	close_fd(&child->go_fd);
	r = read_message(child->err_fd, -1, &message);
	close_fd(&child->err_fd);
	if (r == 0)
		return 0;
	if (r < 0)
		error_set(error, -r, "waiting for the command to start: %s", strerror(-r));
	else if (message.stage == LAUNCH_EXEC)
		r = exec_error(child->command, message.err, error);
	else
		r = error_set(error, message.err, "cannot %s for %s: %s",
			      stage_texts[message.stage], child->command, strerror(message.err));
	host_child_kill(child);
	return r;
}

void host_child_kill(struct host_child *child)
{
	siginfo_t info;

	if (child->pid <= 0)
		return;
	if (syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0))
		kill(child->pid, SIGKILL);
	while (waitid(P_PID, (id_t)child->pid, &info, WEXITED) && errno == EINTR)
		;
	child_close(child);
}

/* --- age of this process ---------------------------------------------------------------------- */

uint64_t host_process_start_ns(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/stat", "re");
	char line[1024];
	const char *p;
	int field;

	if (!file || !fgets(line, sizeof(line), file))
		return 0;
	p = strrchr(line, ')'); /* the end of comm, field 2, which may hold anything */
	for (field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) * (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK)) : 0;
}
