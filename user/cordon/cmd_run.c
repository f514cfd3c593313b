// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon run`: a command in a fence of its own, from nothing to nothing. Root. Everything that can refuse does so
 * before the command is let go: the child waits, set up but not yet executing, while the fence is put around it and
 * proved. The fence's cgroup is killed before the fence ends, so nothing of the command outlives it; if this process
 * is killed first, the pins keep enforcing and the next cordon clears up.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "cordon/cli.h"
#include "cordon/proxy_env.h"
#include "cordon/setup.h"
#include "cordon/stream.h"

enum { POLL_MS = 20, KILL_TIMEOUT_MS = 10000 };

struct run_options {
	struct setup_options setup;
	const char *user;
};

#define SETUP(member) offsetof(struct run_options, setup.member)

static const struct cli_option run_option_rows[] = {
	SETUP_OPTIONS(SETUP),
	{ 'u', "user", CLI_STRING, offsetof(struct run_options, user), "USER",
	  "run as this user, or as `caller`: who called sudo; default: as cordon itself", 0, 0,
	  NULL },
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

/* Everything that one run has; zeroed, and dropped in one place. */
struct run {
	const struct run_options *options;
	struct setup setup;
	struct host_cgroup cgroup;
	struct host_child child;
	struct enforce *enforce;
	struct enforce_fence *fence;
	struct identity_owner *identity;
	struct ceilings ceilings;
	struct stream stream;
	bool time_over;
	int signal_fd;
	sigset_t old_mask;
	int status; /* of the command, as of waitpid */
};

/* The signals that a supervisor or a person sends; the command gets them. */
static const int passed_signals[] = { SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT, SIGWINCH };

static int signals_take(struct run *run, struct error *error)
{
	sigset_t mask;

	sigemptyset(&mask);
	for (size_t i = 0; i < ARRAY_SIZE(passed_signals); i++)
		sigaddset(&mask, passed_signals[i]);
	sigprocmask(SIG_BLOCK, &mask, &run->old_mask);
	signal(SIGPIPE, SIG_IGN);
	run->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return run->signal_fd < 0 ? error_set(error, errno, "signalfd: %s", strerror(errno)) : 0;
}

/* What the terminal sends reaches the command by itself; what a process sends is passed on. */
static void signals_pass(struct run *run)
{
	struct signalfd_siginfo info;

	while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_code <= 0)
			syscall(SYS_pidfd_send_signal, run->child.pidfd, info.ssi_signo, NULL, 0);
}

static const char *run_user(const char *user)
{
	if (user && !strcmp(user, "caller"))
		return getenv("SUDO_UID");
	return user;
}

/* The child: set up, waiting, not fenced yet. */
static int run_launch(struct run *run, char **argv, struct error *error)
{
	const struct policy *policy = run->setup.policy;
	struct host_launch launch = {
		.argv = argv,
		.env_pass = policy->env_pass.v,
		.private_dirs = policy->private_dirs.v,
		.workdir = run->setup.workdir,
		.user = run_user(run->options->user),
		.cgroup = &run->cgroup,
	};
	struct policy_strings env;
	struct timespec now;
	char name[64];
	int err;

	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(name, sizeof(name), "run-%d-%lld", getpid(), (long long)now.tv_sec);
	err = host_cgroup_make(name, &run->cgroup, error);
	if (!err)
		err = setup_ceilings(&run->setup, &run->options->setup, &run->cgroup,
				     &run->ceilings, error);
	if (err)
		return err;
	err = proxy_env_make(policy, &env) ? error_set(error, ENOMEM, "out of memory") : 0;
	launch.env_set = env.v;
	if (!err)
		err = host_launch(&launch, &run->child, error);
	proxy_env_clear(&env);
	return err;
}

/* The fence around the waiting child, proved. */
static int run_enclose(struct run *run, struct error *error)
{
	static const int out_fds[2] = { 1, 2 }; /* the command inherits them */
	const struct enforce_fence_options options = {
		.cgroup = &run->cgroup,
		.out_fds = out_fds,
		.ring_bytes = run->options->setup.ring_bytes,
		.event_rate = run->options->setup.event_rate ?: ENFORCE_EVENT_RATE_DEFAULT,
	};
	struct setup *setup = &run->setup;
	unsigned int proved = 0;
	int err;

	err = enforce_fence_make(run->enforce, &options, &run->fence, error);
	if (err)
		return err;
	stream_begin(&run->stream, run->fence, &setup->context);
	err = enforce_fence_mark_tasks(run->fence, error);
	if (!err)
		err = enforce_fence_check(run->fence, run->child.pidfd, error);
	if (!err)
		err = enforce_fence_set(run->fence, setup->image, run->child.pid, true, error);
	if (!err)
		err = enforce_fence_selftest(run->fence, &proved, error);
	if (!err)
		err = ceilings_apply(&run->ceilings, error);
	if (!err)
		err = setup_publish(setup, run->fence, &run->identity, error);
	if (!err)
		setup_announce(setup, &run->stream, run->enforce, proved);
	return err;
}

static void run_cold_start(struct run *run)
{
	struct timespec now;
	char detail[80];
	uint64_t ns;

	clock_gettime(CLOCK_BOOTTIME, &now);
	ns = now.tv_sec * 1000000000ULL + now.tv_nsec - host_process_start_ns();
	snprintf(detail, sizeof(detail), "%llu ms from exec of cordon to exec of the command",
		 (unsigned long long)(ns / 1000000));
	stream_emit(&run->stream, CORDON_OP_COLD_START, ns, detail);
}

/* What cannot be killed is said and stays fenced; the command is waited for all the same. */
static void run_end_time(struct run *run)
{
	struct error error = { "" };

	run->time_over = true;
	if (host_cgroup_kill(&run->cgroup, KILL_TIMEOUT_MS, &error))
		cli_fail(0, "limits.time: %s", error.text);
}

/* Until the command ends: events out, signals in. */
static void run_wait(struct run *run)
{
	struct pollfd fds[] = {
		{ .fd = run->child.pidfd, .events = POLLIN },
		{ .fd = run->signal_fd, .events = POLLIN },
		{ .fd = identity_owner_fd(run->identity), .events = POLLIN },
	};

	for (;;) {
		stream_pump(&run->stream, 0);
		stream_watch(&run->stream);
		if (ceilings_watch(&run->ceilings, &run->stream))
			run_end_time(run);
		if (poll(fds, ARRAY_SIZE(fds), POLL_MS) < 0 && errno != EINTR)
			break;
		signals_pass(run);
		identity_serve(run->identity);
		if (fds[0].revents)
			break;
	}
	while (waitpid(run->child.pid, &run->status, 0) < 0 && errno == EINTR)
		;
	run->child.pid = 0;
}

static int run_code(const struct run *run)
{
	if (run->time_over)
		return EXIT_RUN_TIMEOUT;
	return WIFSIGNALED(run->status) ? 128 + WTERMSIG(run->status) : WEXITSTATUS(run->status);
}

static void run_exit_event(struct run *run)
{
	char detail[80];

	if (run->time_over)
		snprintf(detail, sizeof(detail), "limits.time ended the command");
	else if (WIFSIGNALED(run->status))
		snprintf(detail, sizeof(detail), "the command was ended by signal %d",
			 WTERMSIG(run->status));
	else
		snprintf(detail, sizeof(detail), "the command exited with %d",
			 WEXITSTATUS(run->status));
	stream_emit(&run->stream, CORDON_OP_EXIT, run_code(run), detail);
}

/* Nothing of the command may outlive the fence; what cannot be killed keeps it, closed. */
static void run_drop(struct run *run)
{
	struct error error = { "" };

	identity_withdraw(run->identity);
	host_child_kill(&run->child);
	if (run->cgroup.fd >= 0 && host_cgroup_kill(&run->cgroup, KILL_TIMEOUT_MS, &error))
		cli_fail(0, "%s; what is left stays fenced", error.text);
	if (run->fence)
		stream_end(&run->stream, "the fence is gone");
	else
		stream_end(&run->stream, NULL);
	enforce_fence_end(run->fence);
	if (run->cgroup.fd >= 0)
		host_cgroup_remove(&run->cgroup, NULL);
	enforce_close(run->enforce);
	setup_clear(&run->setup);
	if (run->signal_fd >= 0)
		close(run->signal_fd);
}

static int exec_code(int err)
{
	return err == -ENOENT			   ? EXIT_RUN_NOT_FOUND
	       : err == -EACCES || err == -ENOEXEC ? EXIT_RUN_NOT_EXECUTABLE
						   : EXIT_RUN_FAILED;
}

static int run_command(struct run *run, char **argv, struct error *error)
{
	int err = setup_prepare(&run->setup, &run->options->setup, error);

	if (!err)
		err = stream_open(&run->stream, run->options->setup.events,
				  run->options->setup.format, run->setup.workdir,
				  run->setup.policy->write.v, error);
	if (!err)
		err = enforce_open(&run->setup.report, run->setup.degraded, &run->enforce, error);
	if (!err)
		err = run_launch(run, argv, error);
	if (!err)
		err = signals_take(run, error);
	if (!err)
		err = run_enclose(run, error);
	if (err)
		return EXIT_RUN_FAILED;
	err = host_child_go(&run->child, error);
	if (err)
		return exec_code(err);
	ceilings_begin(&run->ceilings);
	run_cold_start(run);
	run_wait(run);
	ceilings_finish(&run->ceilings, &run->stream);
	run_exit_event(run);
	return run_code(run);
}

static int cmd_run(const void *options, int argc, char **argv)
{
	struct run run = {
		.options = options,
		.cgroup.fd = -1,
		.child = { .pidfd = -1, .go_fd = -1, .err_fd = -1 },
		.signal_fd = -1,
	};
	struct error error = { "" };
	int code = run_command(&run, argv, &error);

	(void)argc;
	run_drop(&run);
	if (error.text[0])
		cli_fail(code, "%s", error.text);
	return code;
}

const struct cli_verb cli_verb_run = {
	.name = "run",
	.summary = "run a command inside a fence",
	.arguments = "COMMAND [ARG...]",
	.text = "Runs COMMAND in a fence of its own: it reaches the gateway and nothing else, "
		"changes files in the "
		"workdir and nowhere else, and what it tries beyond that is denied by the kernel "
		"and reported. The "
		"fence is proved from inside before COMMAND starts; a host that cannot enforce it "
		"is refused.\n\n"
		"Without --policy nothing is reachable. The workdir is the one of the policy, or "
		"--workdir, or the "
		"current directory. /tmp and /dev/shm are empty and private. The environment is "
		"what the policy "
		"passes and sets; descriptors beyond 0, 1 and 2 are closed. Without --events, one "
		"line "
		"on stderr tells at the end how many operations were denied, and which was the "
		"first.\n\n"
		"The exit code is COMMAND's (128+N when signal N ended it), 124 when limits.time "
		"ended it, 125 when cordon failed "
		"before it started, "
		"126 when it could not be executed, 127 when it was not found.",
	.options = run_option_rows,
	.options_size = sizeof(struct run_options),
	.min_args = 1,
	.max_args = -1,
	.run = cmd_run,
	.stop_at_argument = true,
	.usage_code = EXIT_RUN_FAILED,
};
