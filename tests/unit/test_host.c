// SPDX-License-Identifier: Apache-2.0
/*
 * Control groups, launching, containers and the probe, on the kernel at hand. What needs root is
 * skipped without it, and says so. Every test cleans up its cgroups, also after a failed assertion
 * (teardown kills and removes).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "host/host.h"
#include "host/internal.h"
#include "host/probe.h"

#define NOBODY 65534

struct fixture {
	struct host_cgroup cgroup;
	struct error error;
	char dir[64]; /* a scratch directory */
};

static bool cgroups_usable(void)
{
	char mount[PATH_MAX];
	enum host_cgroup_layout layout = host_cgroup_find(mount);

	if (geteuid() == 0 && (layout == HOST_CGROUP_V2 || layout == HOST_CGROUP_HYBRID))
		return true;
	print_message("skipped: needs root and a cgroup2 mount\n");
	return false;
}

static int setup(void **state)
{
	static struct fixture f;
	static unsigned int count;
	char name[64];

	*state = &f;
	memset(&f, 0, sizeof(f));
	f.cgroup.fd = -1;
	strcpy(f.dir, "/tmp/test_host.XXXXXX");
	if (!mkdtemp(f.dir))
		return -1;
	if (!cgroups_usable())
		return 0;
	snprintf(name, sizeof(name), "test-%d-%u", getpid(), count++);
	return host_cgroup_make(name, &f.cgroup, &f.error);
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
	if (system(command))
		return -1;
	if (f->cgroup.fd < 0)
		return 0;
	host_cgroup_freeze(&f->cgroup, false, 1000, NULL);
	host_cgroup_kill(&f->cgroup, 5000, NULL);
	return host_cgroup_remove(&f->cgroup, &f->error);
}

#define NEEDS_CGROUP(f)                 \
	do {                            \
		if ((f)->cgroup.fd < 0) \
			skip();         \
	} while (0)

static void assert_error_names(const struct fixture *f, const char *part)
{
	if (!strstr(f->error.text, part))
		fail_msg("error '%s' does not say '%s'", f->error.text, part);
	assert_null(strchr(f->error.text, '\n'));
}

/* Since 6.19 a task that was reaped may count for a moment longer. */
static void assert_empty(const struct host_cgroup *cgroup)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000000 };
	int i;

	for (i = 0; i < 200 && host_cgroup_populated(cgroup) == 1; i++)
		nanosleep(&pause, NULL);
	assert_int_equal(host_cgroup_populated(cgroup), 0);
}

static void write_file(const struct fixture *f, const char *name, const char *text, mode_t mode)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	file = fopen(path, "w");
	fputs(text, file);
	fclose(file);
	chmod(path, mode);
}

/* --- launching helpers ------------------------------------------------------------------------ */

static char *const env_path[] = { "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", NULL };

static struct host_launch launch_of(struct fixture *f, char *const *argv)
{
	return (struct host_launch){
		.argv = argv, .env_set = env_path, .workdir = f->dir, .cgroup = &f->cgroup
	};
}

/* Launches and lets go; the child's standard output goes into a pipe that is returned. */
static int start(struct fixture *f, const struct host_launch *launch, struct host_child *child)
{
	int fds[2], saved = dup(1), r;

	assert_int_equal(pipe(fds), 0);
	fflush(stdout);
	dup2(fds[1], 1);
	close(fds[1]);
	r = host_launch(launch, child, &f->error);
	dup2(saved, 1);
	close(saved);
	if (r < 0)
		fail_msg("host_launch: %s", f->error.text);
	return fds[0];
}

static int wait_code(struct host_child *child)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)child->pid, &info, WEXITED), 0);
	close(child->pidfd);
	child->pid = 0;
	return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

static void read_all(int fd, char *text, size_t size)
{
	size_t n = 0;
	ssize_t r;

	while (n < size - 1 && (r = read(fd, text + n, size - 1 - n)) > 0)
		n += (size_t)r;
	text[n] = '\0';
	close(fd);
}

/* Runs to the end; returns the exit code and what it wrote. */
static int run(struct fixture *f, const struct host_launch *launch, char *text, size_t size)
{
	struct host_child child;
	int fd = start(f, launch, &child);

	if (host_child_go(&child, &f->error) < 0)
		fail_msg("host_child_go: %s", f->error.text);
	read_all(fd, text, size);
	return wait_code(&child);
}

static int run_shell(struct fixture *f, const char *script, char *text, size_t size)
{
	char *argv[] = { "sh", "-c", (char *)script, NULL };
	struct host_launch launch = launch_of(f, argv);

	return run(f, &launch, text, size);
}

/* A task that stays in the cgroup until it is killed. */
static void start_sleeper(struct fixture *f, struct host_child *child)
{
	char *argv[] = { "sleep", "1000", NULL };
	struct host_launch launch = launch_of(f, argv);

	close(start(f, &launch, child));
	assert_int_equal(host_child_go(child, &f->error), 0);
}

/* --- control groups --------------------------------------------------------------------------- */

static void test_make(void **state)
{
	struct fixture *f = *state;
	struct host_cgroup other;
	struct stat st;
	char mount[PATH_MAX];

	NEEDS_CGROUP(f);
	host_cgroup_find(mount);
	assert_int_equal(strncmp(f->cgroup.path, mount, strlen(mount)), 0);
	assert_int_equal(stat(f->cgroup.path, &st), 0);
	assert_int_equal(f->cgroup.id, st.st_ino); /* on 64-bit kernels */
	assert_int_equal(f->cgroup.level, 2);
	assert_int_equal(host_cgroup_make(strrchr(f->cgroup.path, '/') + 1, &other, &f->error),
			 -EEXIST);
	assert_error_names(f, f->cgroup.path);
	assert_int_equal(other.fd, -1);
}

static void test_make_names(void **state)
{
	static const char *const bad[] = { "", ".", "..", ".x", "a/b", "a\nb", "/" };
	struct fixture *f = *state;
	struct host_cgroup other;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(host_cgroup_make(bad[i], &other, NULL), -EINVAL);
	(void)f;
}

static void test_open(void **state)
{
	struct fixture *f = *state;
	struct host_cgroup other;
	char mount[PATH_MAX];

	NEEDS_CGROUP(f);
	host_cgroup_find(mount);
	assert_int_equal(host_cgroup_open(f->cgroup.path, &other, &f->error), 0);
	assert_int_equal(other.id, f->cgroup.id);
	assert_int_equal(other.level, f->cgroup.level);
	host_cgroup_close(&other);
	host_cgroup_close(&other);
	/* as /proc/PID/cgroup spells it */
	assert_int_equal(host_cgroup_open(f->cgroup.path + strlen(mount), &other, &f->error), 0);
	assert_int_equal(other.id, f->cgroup.id);
	host_cgroup_close(&other);
}

static void test_open_refused(void **state)
{
	struct fixture *f = *state;
	struct host_cgroup other;
	char mount[PATH_MAX];

	NEEDS_CGROUP(f);
	host_cgroup_find(mount);
	assert_int_equal(host_cgroup_open(mount, &other, &f->error), -EPERM);
	assert_error_names(f, "root of the hierarchy");
	assert_int_equal(host_cgroup_open("/", &other, NULL), -EINVAL);
	assert_int_equal(host_cgroup_open(f->dir, &other, NULL), -EINVAL);
	assert_int_equal(host_cgroup_open("/no/such/cgroup", &other, NULL), -ENOENT);
	assert_int_equal(other.fd, -1);
}

static void test_of_pid(void **state)
{
	struct fixture *f = *state;
	struct host_child child;
	char path[PATH_MAX];

	NEEDS_CGROUP(f);
	start_sleeper(f, &child);
	assert_int_equal(host_cgroup_of_pid(child.pid, path, sizeof(path), &f->error), 0);
	assert_string_equal(path, f->cgroup.path);
	assert_int_equal(host_cgroup_of_pid(child.pid, path, 10, NULL), -ENAMETOOLONG);
	host_child_kill(&child);
	assert_int_equal(host_cgroup_of_pid(INT_MAX, path, sizeof(path), &f->error), -ESRCH);
}

/*
 * In a private cgroup namespace neither ids by path nor levels are the kernel's: everything
 * refuses.
 */
static void test_private_namespace(void **state)
{
	struct fixture *f = *state;
	struct host_cgroup other;
	pid_t pid;
	int status, bad;

	NEEDS_CGROUP(f);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWCGROUP))
			_exit(77);
		bad = host_cgroup_open(f->cgroup.path, &other, NULL) != -ENOTSUP ||
		      host_cgroup_make("x", &other, NULL) != -ENOTSUP;
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* CPU time of a busy loop stands still while it is frozen. */
static unsigned long long cpu_ticks(pid_t pid)
{
	unsigned long long utime = 0;
	char name[32];
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	file = fopen(name, "r");
	assert_non_null(file);
	assert_int_equal(fscanf(file,
				"%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu",
				&utime),
			 1);
	fclose(file);
	return utime;
}

static void test_freeze(void **state)
{
	const struct timespec pause = { .tv_nsec = 200 * 1000000 };
	char *argv[] = { "sh", "-c", "while :; do :; done", NULL };
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	struct host_child child;
	unsigned long long before;

	NEEDS_CGROUP(f);
	close(start(f, &launch, &child));
	assert_int_equal(host_child_go(&child, &f->error), 0);
	assert_int_equal(host_cgroup_freeze(&f->cgroup, true, 5000, &f->error), 0);
	before = cpu_ticks(child.pid);
	nanosleep(&pause, NULL);
	assert_int_equal(cpu_ticks(child.pid), before);
	assert_int_equal(host_cgroup_freeze(&f->cgroup, false, 5000, &f->error), 0);
	nanosleep(&pause, NULL);
	assert_true(cpu_ticks(child.pid) > before);
	/* a frozen one can be killed */
	assert_int_equal(host_cgroup_freeze(&f->cgroup, true, 5000, &f->error), 0);
	assert_int_equal(host_cgroup_kill(&f->cgroup, 5000, &f->error), 0);
	assert_int_equal(wait_code(&child), 128 + SIGKILL);
}

static void enter(const struct host_cgroup *cgroup)
{
	char name[PATH_MAX + 16];
	FILE *file;

	snprintf(name, sizeof(name), "%s/cgroup.procs", cgroup->path);
	file = fopen(name, "w");
	fprintf(file, "0");
	fclose(file);
}

/* Would hang for good otherwise. */
static void test_own_cgroup(void **state)
{
	struct fixture *f = *state;
	pid_t pid;
	int status;

	NEEDS_CGROUP(f);
	pid = fork();
	if (pid == 0) {
		enter(&f->cgroup);
		_exit(host_cgroup_freeze(&f->cgroup, true, 1000, NULL) != -EDEADLK ||
		      host_cgroup_kill(&f->cgroup, 1000, NULL) != -EDEADLK);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Children, double forks, and tasks in cgroups further down. */
static void test_kill_tree(void **state)
{
	struct fixture *f = *state;
	struct host_child child;
	char script[2 * PATH_MAX], text[16];
	char *argv[] = { "sh", "-c", script, NULL };
	struct host_launch launch = launch_of(f, argv);
	int fd;

	NEEDS_CGROUP(f);
	snprintf(script, sizeof(script),
		 "mkdir -p %s/a/b && { (sleep 1000 &) ; echo $$ >%s/a/b/cgroup.procs; setsid sleep "
		 "1000 & "
		 "echo up; exec sleep 1000; }",
		 f->cgroup.path, f->cgroup.path);
	fd = start(f, &launch, &child);
	assert_int_equal(host_child_go(&child, &f->error), 0);
	assert_int_equal(read(fd, text, 3), 3);
	close(fd);
	assert_int_equal(host_cgroup_populated(&f->cgroup), 1);
	assert_int_equal(host_cgroup_remove(&f->cgroup, &f->error), -EBUSY);
	assert_int_equal(host_cgroup_kill(&f->cgroup, 5000, &f->error), 0);
	assert_empty(&f->cgroup);
	assert_int_equal(wait_code(&child), 128 + SIGKILL);
}

static void test_remove(void **state)
{
	struct fixture *f = *state;
	char path[PATH_MAX + 32];
	int i;

	NEEDS_CGROUP(f);
	for (i = 0; i < 40; i++) {
		snprintf(path, sizeof(path), "%s/n%d", f->cgroup.path, i);
		assert_int_equal(mkdir(path, 0755), 0);
		snprintf(path, sizeof(path), "%s/n%d/deep", f->cgroup.path, i);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	snprintf(path, sizeof(path), "%s", f->cgroup.path);
	assert_int_equal(host_cgroup_remove(&f->cgroup, &f->error), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(f->cgroup.fd, -1);
	assert_int_equal(host_cgroup_remove(&f->cgroup, &f->error), 0);
}

static void test_remove_gone(void **state)
{
	struct fixture *f = *state;

	NEEDS_CGROUP(f);
	assert_int_equal(rmdir(f->cgroup.path), 0);
	assert_empty(&f->cgroup);
	assert_int_equal(host_cgroup_kill(&f->cgroup, 1000, &f->error), 0);
	assert_int_equal(host_cgroup_remove(&f->cgroup, &f->error), 0);
}

/* A zeroed one must not be taken for descriptor 0. */
static void test_close_zeroed(void **state)
{
	struct host_cgroup cgroup = { 0 };

	(void)state;
	host_cgroup_close(&cgroup);
	assert_int_not_equal(fcntl(0, F_GETFD), -1);
}

/* --- launching -------------------------------------------------------------------------------- */

static void test_exit_codes(void **state)
{
	struct fixture *f = *state;
	char text[64];

	NEEDS_CGROUP(f);
	assert_int_equal(run_shell(f, "exit 0", text, sizeof(text)), 0);
	assert_int_equal(run_shell(f, "exit 42", text, sizeof(text)), 42);
	assert_int_equal(run_shell(f, "kill -TERM $$", text, sizeof(text)), 128 + SIGTERM);
}

static void test_born_in_cgroup(void **state)
{
	struct fixture *f = *state;
	char text[8192], mount[PATH_MAX], want[PATH_MAX + 8];

	NEEDS_CGROUP(f);
	host_cgroup_find(mount);
	snprintf(want, sizeof(want), "0::%s\n", f->cgroup.path + strlen(mount));
	assert_int_equal(run_shell(f, "cat /proc/self/cgroup", text, sizeof(text)), 0);
	assert_non_null(strstr(text, want));
}

static void test_env(void **state)
{
	char *argv[] = { "env", NULL };
	char *pass[] = { "CORDON_TEST_A", "CORDON_TEST_B", "CORDON_TEST_ABSENT", NULL };
	char *set[] = { "PATH=/usr/bin:/bin", "CORDON_TEST_B=set=1", "C=", "C=2", NULL };
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	char text[4096];

	NEEDS_CGROUP(f);
	setenv("CORDON_TEST_A", "a b", 1);
	setenv("CORDON_TEST_B", "passed", 1);
	setenv("CORDON_TEST_SECRET", "secret", 1);
	launch.env_pass = pass;
	launch.env_set = set;
	assert_int_equal(run(f, &launch, text, sizeof(text)), 0);
	assert_string_equal(text,
			    "CORDON_TEST_A=a b\nCORDON_TEST_B=set=1\nPATH=/usr/bin:/bin\nC=2\n");
}

static void test_env_malformed(void **state)
{
	char *argv[] = { "true", NULL };
	char *set[] = { "NOVALUE", NULL };
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	struct host_child child;

	NEEDS_CGROUP(f);
	launch.env_set = set;
	assert_int_equal(host_launch(&launch, &child, &f->error), -EINVAL);
	assert_error_names(f, "NOVALUE");
	assert_int_equal(child.pid, 0);
}

/* PATH is the new environment's, not ours. */
static void test_search_path(void **state)
{
	char *argv[] = { "tool", NULL }, path[128], *set[] = { path, NULL };
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	char text[64], file[128];
	FILE *script;

	NEEDS_CGROUP(f);
	snprintf(path, sizeof(path), "PATH=/nonexistent:%s:/usr/bin", f->dir);
	snprintf(file, sizeof(file), "%s/tool", f->dir);
	script = fopen(file, "w");
	fputs("#!/bin/sh\necho found\n", script);
	fclose(script);
	chmod(file, 0755);
	launch.env_set = set;
	assert_int_equal(run(f, &launch, text, sizeof(text)), 0);
	assert_string_equal(text, "found\n");
}

static void test_descriptors_closed(void **state)
{
	struct fixture *f = *state;
	int low = open("/dev/null", O_RDONLY), high = fcntl(low, F_DUPFD, 777);
	char text[256];

	NEEDS_CGROUP(f);
	assert_true(low >= 3 && high == 777);
	/* 3 is the directory that ls itself reads */
	assert_int_equal(run_shell(f, "ls /proc/self/fd | tr '\\n' ' '", text, sizeof(text)), 0);
	assert_string_equal(text, "0 1 2 3 ");
	close(low);
	close(high);
}

/* Where the pipes would get the numbers 0-2 they must not become the command's. */
static void test_closed_stdin(void **state)
{
	char *argv[] = { "sh", "-c", "[ ! -e /proc/$$/fd/0 ]", NULL };
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	struct host_child child;
	int saved = dup(0), r;

	NEEDS_CGROUP(f);
	close(0);
	r = host_launch(&launch, &child, &f->error);
	dup2(saved, 0);
	close(saved);
	assert_int_equal(r, 0);
	assert_int_equal(host_child_go(&child, &f->error), 0);
	assert_int_equal(wait_code(&child), 0);
}

static void test_signals_reset(void **state)
{
	struct fixture *f = *state;
	char text[256];
	sigset_t set, old;

	NEEDS_CGROUP(f);
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &old);
	assert_int_equal(
		run_shell(f, "grep -E '^Sig(Blk|Ign)' /proc/self/status", text, sizeof(text)), 0);
	sigprocmask(SIG_SETMASK, &old, NULL);
	signal(SIGINT, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	assert_string_equal(
		text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000001\n"); /* SIGHUP: nohup */
}

static void test_workdir(void **state)
{
	struct fixture *f = *state;
	char *argv[] = { "pwd", NULL };
	struct host_launch launch = launch_of(f, argv);
	struct host_child child;
	char text[256], want[80];

	NEEDS_CGROUP(f);
	snprintf(want, sizeof(want), "%s\n", f->dir);
	assert_int_equal(run(f, &launch, text, sizeof(text)), 0);
	assert_string_equal(text, want);
	launch.workdir = "/no/such/dir";
	assert_int_equal(host_launch(&launch, &child, &f->error), -ENOENT);
	assert_error_names(f, "workdir /no/such/dir");
}

static void test_no_new_privs(void **state)
{
	struct fixture *f = *state;
	char text[64];

	NEEDS_CGROUP(f);
	assert_int_equal(run_shell(f, "grep NoNewPrivs /proc/self/status", text, sizeof(text)), 0);
	assert_string_equal(text, "NoNewPrivs:\t1\n");
}

static void test_user(void **state)
{
	char *argv[] = {
		"sh", "-c",
		"id -u; id -g; id -G; grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | "
		"cut -f2 | sort -u; touch /etc/cordon-test 2>/dev/null || echo denied",
		NULL
	};
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	struct host_child child;
	char text[256];

	NEEDS_CGROUP(f);
	launch.user = "65534";
	launch.workdir = "/";
	assert_int_equal(run(f, &launch, text, sizeof(text)), 0);
	assert_string_equal(text, "65534\n65534\n65534\n0000000000000000\ndenied\n");
	launch.user = "no-such-user";
	assert_int_equal(host_launch(&launch, &child, &f->error), -EINVAL);
	assert_error_names(f, "no-such-user");
}

/* Root without capabilities: exec of uid 0 must not bring them back. */
static void test_user_root(void **state)
{
	char *argv[] = { "sh", "-c",
			 "id -u; grep -E '^Cap(Prm|Eff)' /proc/self/status | cut -f2 | sort -u",
			 NULL };
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	char text[256];

	NEEDS_CGROUP(f);
	launch.user = "0";
	assert_int_equal(run(f, &launch, text, sizeof(text)), 0);
	assert_string_equal(text, "0\n0000000000000000\n");
}

static void test_private(void **state)
{
	char *dirs[] = { "/dev/shm", "/tmp", "/tmp", NULL };
	char *argv[] = { "sh", "-c",
			 "ls -A /tmp /dev/shm; stat -f -c %T /tmp; stat -c %a /tmp; "
			 "echo x >/tmp/cordon-private && cat /tmp/cordon-private",
			 NULL };
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	char text[512];

	NEEDS_CGROUP(f);
	if (access("/dev/shm", F_OK))
		skip();
	launch.private_dirs = dirs;
	launch.workdir = "/";
	assert_int_equal(run(f, &launch, text, sizeof(text)), 0);
	assert_string_equal(text, "/dev/shm:\n\n/tmp:\ntmpfs\n1777\nx\n");
	assert_int_equal(access("/tmp/cordon-private", F_OK), -1);
}

/*
 * A workdir deep below /tmp stays reachable and writable; the rest of /tmp is hidden. The
 * directories on the way are made anew and can be passed, whatever the umask of the caller.
 */
static void test_private_keeps_workdir(void **state)
{
	char *dirs[] = { "/tmp", NULL };
	char *argv[] = { "sh", "-c",
			 "pwd; cat seen; echo y >made; ls -A /tmp | wc -l; stat -c %a /tmp ../..",
			 NULL };
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	char text[512], want[256], work[128];
	mode_t mask;

	NEEDS_CGROUP(f);
	snprintf(work, sizeof(work), "%s/a", f->dir);
	mkdir(work, 0777);
	strcat(work, "/b");
	mkdir(work, 0777);
	write_file(f, "a/b/seen", "host\n", 0666);
	launch.private_dirs = dirs;
	launch.workdir = work;
	mask = umask(077);
	assert_int_equal(run(f, &launch, text, sizeof(text)), 0);
	umask(mask);
	snprintf(want, sizeof(want), "%s\nhost\n1\n1777\n755\n", work);
	assert_string_equal(text, want);
	strcat(work, "/made");
	assert_int_equal(access(work, F_OK), 0);
}

/*
 * A private directory below a workdir below a private directory: each level is what it should be.
 */
static void test_private_nested(void **state)
{
	struct fixture *f = *state;
	char inner[128], other[128], script[512], text[512];
	char *dirs[] = { inner, other, "/tmp", NULL };
	char *argv[] = { "sh", "-c", script, NULL };
	struct host_launch launch = launch_of(f, argv);

	NEEDS_CGROUP(f);
	snprintf(inner, sizeof(inner), "%s/tmp", f->dir);
	snprintf(other, sizeof(other), "/tmp/test_host_other.%d", getpid());
	mkdir(inner, 0755);
	mkdir(other, 0755);
	snprintf(script, sizeof(script), "touch kept tmp/lost %s/lost; stat -f -c %%T tmp %s",
		 other, other);
	launch.private_dirs = dirs;
	assert_int_equal(run(f, &launch, text, sizeof(text)), 0);
	assert_string_equal(text, "tmpfs\ntmpfs\n");
	snprintf(text, sizeof(text), "%s/kept", f->dir);
	assert_int_equal(access(text, F_OK), 0);
	snprintf(text, sizeof(text), "%s/lost", inner);
	assert_int_equal(access(text, F_OK), -1);
	assert_int_equal(rmdir(other), 0); /* still empty */
}

static void test_private_missing(void **state)
{
	char *dirs[] = { "/no/such/dir", NULL };
	char *argv[] = { "true", NULL };
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	struct host_child child;

	NEEDS_CGROUP(f);
	launch.private_dirs = dirs;
	assert_int_equal(host_launch(&launch, &child, &f->error), -ENOENT);
	assert_error_names(f, "private directory /no/such/dir");
}

/*
 * What the parent may look at before it lets the child go: its root, with the private directories
 * in place.
 */
static void test_waits_before_exec(void **state)
{
	char *dirs[] = { "/tmp", NULL };
	char *argv[] = { "true", NULL };
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	struct host_child child;
	char path[64];
	struct stat host, inside;

	NEEDS_CGROUP(f);
	launch.private_dirs = dirs;
	close(start(f, &launch, &child));
	snprintf(path, sizeof(path), "/proc/%d/root/tmp", child.pid);
	assert_int_equal(stat(path, &inside), 0);
	assert_int_equal(stat("/tmp", &host), 0);
	assert_int_not_equal(inside.st_dev, host.st_dev);
	assert_int_equal(host_cgroup_populated(&f->cgroup), 1);
	host_child_kill(&child);
	host_child_kill(&child); /* takes an ended one */
	assert_empty(&f->cgroup);
}

static void exec_fails(struct fixture *f, const char *command, int want, const char *says)
{
	char *argv[] = { (char *)command, NULL };
	struct host_launch launch = launch_of(f, argv);
	struct host_child child;

	f->error.text[0] = '\0';
	close(start(f, &launch, &child));
	assert_int_equal(host_child_go(&child, &f->error), want);
	assert_error_names(f, says);
	assert_error_names(f, command);
	assert_int_equal(child.pid, 0);
	assert_empty(&f->cgroup);
}

static void test_exec_errors(void **state)
{
	struct fixture *f = *state;
	char path[128];

	NEEDS_CGROUP(f);
	exec_fails(f, "no-such-command", -ENOENT, "not found");
	exec_fails(f, "/no/such/command", -ENOENT, "not found");
	exec_fails(f, "/etc/passwd", -EACCES, "Permission denied");
	exec_fails(f, "/tmp", -EACCES, "Permission denied");
	write_file(f, "data", "this is no program\n", 0755);
	exec_fails(f, "./data", -ENOEXEC, "not a program");
	write_file(f, "lost", "#!/no/such/interpreter\n", 0755);
	snprintf(path, sizeof(path), "%s/lost", f->dir);
	exec_fails(f, path, -ENOENT, "interpreter");
}

/* A child that is killed while it waits: no SIGPIPE, and the caller sees how it ended. */
static void test_go_after_death(void **state)
{
	char *argv[] = { "true", NULL };
	struct fixture *f = *state;
	struct host_launch launch = launch_of(f, argv);
	struct host_child child;
	siginfo_t info;

	NEEDS_CGROUP(f);
	close(start(f, &launch, &child));
	kill(child.pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(host_child_go(&child, &f->error), 0);
	assert_int_equal(wait_code(&child), 128 + SIGKILL);
}

/* Launches in a process of its own, which then waits to be killed; tells the pid of the command. */
static void launcher(struct fixture *f, bool go, const char *user, int out)
{
	char *argv[] = { "sleep", "1000", NULL };
	struct host_launch launch = launch_of(f, argv);
	struct host_child child;

	launch.user = user;
	launch.workdir = "/";
	if (host_launch(&launch, &child, NULL) || (go && host_child_go(&child, NULL)))
		_exit(1);
	if (write(out, &child.pid, sizeof(child.pid)) < 0)
		_exit(1);
	for (;;)
		pause();
}

/* Within some seconds, or the test fails (and the teardown kills what lives on). */
static int wait_dead(pid_t pid)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000000 };
	int i, status;

	for (i = 0; i < 500; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		nanosleep(&pause, NULL);
	}
	fail_msg("process %d outlives its parent", pid);
	return 0;
}

static void dies_with_parent(struct fixture *f, bool go, const char *user)
{
	int fds[2], status;
	pid_t parent, command = 0;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	parent = fork();
	if (parent == 0)
		launcher(f, go, user, fds[1]);
	close(fds[1]);
	assert_int_equal(read(fds[0], &command, sizeof(command)), sizeof(command));
	close(fds[0]);
	assert_int_equal(kill(command, 0), 0);
	assert_int_equal(kill(parent, SIGKILL), 0);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	status = wait_dead(command);
	assert_true((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
		    (!go && WIFEXITED(status)));
	assert_empty(&f->cgroup);
}

static void test_parent_killed(void **state)
{
	struct fixture *f = *state;

	NEEDS_CGROUP(f);
	dies_with_parent(f, false, NULL);   /* while it waits */
	dies_with_parent(f, true, NULL);    /* while the command runs */
	dies_with_parent(f, true, "65534"); /* a change of user must not undo it */
}

static void test_process_start(void **state)
{
	struct timespec now;
	uint64_t start_ns = host_process_start_ns(), now_ns;

	(void)state;
	clock_gettime(CLOCK_BOOTTIME, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	assert_true(start_ns > 0 && start_ns <= now_ns && now_ns - start_ns < 600ull * 1000000000);
}

/* --- containers ------------------------------------------------------------------------------- */

#define ID64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char fake_podman[] =
	"#!/bin/sh\n"
	"[ \"$1 $2 $3 $4\" = 'inspect --type container --format' ] || exit 2\n"
	"case $6 in\n"
	"good) echo 4242 " ID64 " true ;;\n"
	"stopped) echo 0 " ID64 " false ;;\n"
	"garbage) echo 4242 /etc/passwd true ;;\n"
	"two) echo 4242 " ID64 " true; echo 1 " ID64 " true ;;\n"
	"flood) head -c 1000000 /dev/zero | tr '\\0' 7 ;;\n"
	"hang) sleep 1000 ;;\n"
	"mute) exec >&- 2>&-; sleep 1000 ;;\n"
	"broken) echo 'Error: the store is locked' >&2; exit 125 ;;\n"
	"env) [ -z \"$DOCKER_HOST$CORDON_TEST_SECRET\" ] && echo 4242 " ID64 " true ;;\n"
	"*) echo \"Error: no such container $6\" >&2; exit 125 ;;\n"
	"esac\n";

/* containerd's client: two name spaces, in both of which there is a "web". */
static const char fake_ctr[] =
	"#!/bin/sh\n"
	"[ \"$*\" != 'namespaces ls -q' ] || { echo k8s.io; echo moby; exit; }\n"
	"[ \"$1\" = -n ] || exit 2\n"
	"case \"$2 $3 $4 $5 $6\" in\n"
	"'k8s.io containers ls -q id==\"nginx\"') echo nginx ;;\n"
	"'k8s.io containers ls -q id~=\"^0123456789ab\"') echo " ID64 " ;;\n"
	"'k8s.io containers ls -q labels.\"nerdctl/name\"==\"shop\"') echo " ID64 " ;;\n"
	"'k8s.io containers ls -q labels.\"io.kubernetes.container.name\"==\"pods\"') echo a1; "
	"echo a2 ;;\n"
	"'k8s.io containers ls -q id==\"paused\"') echo paused ;;\n"
	"'k8s.io containers ls -q id==\"odd\"') echo ../odd ;;\n"
	"'k8s.io containers ls -q id==\"many\"') head -c 70000 /dev/zero | tr '\\0' a ;;\n"
	"'k8s.io containers ls -q id==\"web\"' | 'moby containers ls -q id==\"web\"') echo web ;;\n"
	"'k8s.io tasks ls  ') echo 'TASK PID STATUS'; echo 'nginx 4242 RUNNING'; echo 'paused 7 "
	"PAUSED';\n"
	"	echo '" ID64 "    4242    RUNNING' ;;\n"
	"esac\n";

/*
 * In a mount namespace of its own, where the first directory searched holds our engine and no
 * other.
 */
static int with_fake_engine(void (*body)(void))
{
	pid_t pid = fork();
	int status;
	FILE *file;

	if (pid == 0) {
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("tmpfs", "/usr/local/bin", "tmpfs", 0, NULL))
			_exit(77);
		file = fopen("/usr/local/bin/podman", "w");
		fputs(fake_podman, file);
		fclose(file);
		chmod("/usr/local/bin/podman", 0755);
		file = fopen("/usr/local/bin/ctr", "w");
		fputs(fake_ctr, file);
		fclose(file);
		chmod("/usr/local/bin/ctr", 0755);
		setenv("DOCKER_HOST", "tcp://elsewhere", 1);
		setenv("CORDON_TEST_SECRET", "secret", 1);
		body();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void expect_container(const char *name, int want, const char *says)
{
	struct error error = { "" };
	char id[129];
	pid_t pid = 0;
	int r = host_container_pid(name, &pid, id, sizeof(id), &error);

	if (r == want && strstr(error.text, says) &&
	    (r || (pid == 4242 && (!strcmp(id, ID64) || !strcmp(id, name)))))
		return;
	printf("container %s: %d '%s'\n", name, r, error.text);
	_exit(1);
}

static void container_cases(void)
{
	expect_container("good", 0, "");
	expect_container("env", 0, "");
	expect_container("stopped", -ESRCH, "podman start stopped");
	expect_container("absent", -ENOENT, "no container 'absent'");
	expect_container("garbage", -EPROTO, "unexpected answer");
	expect_container("two", -EPROTO, "unexpected answer");
	expect_container("flood", -EPROTO, "unexpected answer");
	expect_container("broken", -EIO, "the store is locked");
	/* What podman does not know. */
	expect_container("nginx", 0, "");
	expect_container("0123456789ab", 0, "");
	expect_container("shop", 0, "");
	expect_container("pods", -EEXIST, "several");
	expect_container("web", -EEXIST, "more than one name space");
	expect_container("paused", -ESRCH, "not running");
	expect_container("odd", -EPROTO, "unexpected answer");
	expect_container("many", -E2BIG, "more containers");
	container_timeout_ms = 300;
	expect_container("hang", -ETIMEDOUT, "no answer");
	expect_container("mute", -ETIMEDOUT, "no answer");
}

static void test_container(void **state)
{
	(void)state;
	if (geteuid() || access("/usr/local/bin", F_OK) || !access("/usr/bin/docker", X_OK)) {
		print_message("skipped: needs root, /usr/local/bin, and no other engine\n");
		skip();
	}
	assert_int_equal(with_fake_engine(container_cases), 0);
}

static void test_container_names(void **state)
{
	static const char *const bad[] = { "",	  "-a",	  "--format", "a b",	 "a;b",
					   "a/b", "$(x)", "a\nb",     "\xc3\xa4" };
	char id[65];
	pid_t pid;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(host_container_pid(bad[i], &pid, id, sizeof(id), NULL), -EINVAL);
}

/* --- the probe -------------------------------------------------------------------------------- */

/* A host that can do everything. */
static struct probe_facts good_host(void)
{
	struct probe_facts facts = {
		.release = "6.12.117+deb13-cloud-amd64",
		.major = 6,
		.minor = 12,
		.preempts = PROBE_NO,
		.bpf_lsm_hooks = PROBE_YES,
		.security_hooks = PROBE_YES,
		.path_hooks = PROBE_YES,
		.trampolines = PROBE_YES,
		.securityfs = true,
		.lsm_list = "lockdown,capability,landlock,yama,apparmor,bpf",
		.lockdown = "none",
		.caps = UINT64_MAX,
		.cgroup_layout = HOST_CGROUP_V2,
		.cgroup_mount = "/sys/fs/cgroup",
		.controllers = "cpu memory pids",
		.bpffs = true,
		.jit = 1,
		.memlock_bytes = 8 << 20,
	};

	return facts;
}

static void expect_lack(const struct probe_facts *facts, unsigned int lost, const char *line)
{
	struct host_report report;
	struct error error = { "" };

	probe_judge(facts, &report);
	assert_int_equal(report.lost, lost);
	assert_int_equal(host_report_refuse(&report, &error), lost ? -ENOTSUP : 0);
	assert_string_equal(error.text, line);
}

#define FILES HOST_NEED_FILES
#define NETWORK HOST_NEED_NETWORK

static void test_judge_good(void **state)
{
	struct probe_facts facts = good_host();
	struct host_report report;
	int i;

	(void)state;
	expect_lack(&facts, 0, "");
	probe_judge(&facts, &report);
	assert_false(report.use_fmod_ret);
	for (i = 0; i < HOST_FACT_COUNT; i++) {
		assert_int_equal(report.fact[i].status, HOST_OK);
		assert_string_equal(report.fact[i].remedy, "");
		assert_string_not_equal(report.fact[i].found, "");
	}
}

static void test_judge_kernel(void **state)
{
	struct probe_facts facts = good_host();

	(void)state;
	strcpy(facts.release, "5.10.0-46-cloud-amd64");
	facts.major = 5;
	facts.minor = 10;
	expect_lack(&facts, FILES | NETWORK,
		    "kernel 5.10.0: below 6.1, the oldest that Cordon enforces on; boot a 6.1 or "
		    "later kernel");
	facts.major = 6;
	facts.minor = 0;
	strcpy(facts.release, "6.0.19");
	expect_lack(&facts, FILES | NETWORK,
		    "kernel 6.0.19: below 6.1, the oldest that Cordon enforces on; boot a 6.1 or "
		    "later kernel");
	facts.minor = 1;
	expect_lack(&facts, 0, "");
}

/* Where the kernel guards programs against recursion, preemption in one lets others past it. */
static void test_judge_preemption(void **state)
{
	struct probe_facts facts = good_host();

	(void)state;
	facts.preempts = PROBE_YES;
	expect_lack(&facts, 0, ""); /* lsm programs are not guarded since 6.2, */
	facts.minor = 1;
	expect_lack(&facts, HOST_NEED_RACE,
		    "preemption of kernel code: a hook is skipped while another task was preempted "
		    "in it; boot with preempt=voluntary");
	facts.preempts = PROBE_NO;
	expect_lack(&facts, 0, "");
	facts.minor = 12; /* fmod_ret ones are on every kernel */
	strcpy(facts.lsm_list, "landlock,lockdown,yama,apparmor");
	expect_lack(&facts, 0, "");
	facts.preempts = PROBE_UNKNOWN;
	expect_lack(&facts, HOST_NEED_RACE,
		    "preemption unknown: if kernel code is preempted, hooks can be skipped; boot "
		    "with bpf in lsm=, or with preempt=voluntary where the kernel has it");
	facts.preempts = PROBE_YES;
	expect_lack(
		&facts, HOST_NEED_RACE,
		"preemption of kernel code: a hook is skipped while another task was preempted "
		"in it; boot with bpf in lsm=, or with preempt=voluntary where the kernel has it");
}

/*
 * The silent non-enforcement: an lsm program where bpf is not in the list attaches and never fires.
 */
static void test_judge_attach_type(void **state)
{
	struct probe_facts facts = good_host();
	struct host_report report;

	(void)state;
	strcpy(facts.lsm_list, "landlock,lockdown,yama,apparmor,bpfx,xbpf");
	probe_judge(&facts, &report);
	assert_true(report.use_fmod_ret);
	assert_int_equal(report.lost, 0);
	assert_int_equal(report.fact[HOST_BPF_LSM].status, HOST_NOTE);
	facts.lsm_list[0] = '\0'; /* unknown */
	probe_judge(&facts, &report);
	assert_true(report.use_fmod_ret);
	assert_int_equal(report.lost, 0);
	strcpy(facts.lsm_list, "bpf");
	probe_judge(&facts, &report);
	assert_false(report.use_fmod_ret);
	facts.try_lsm_program = -EINVAL;
	probe_judge(&facts, &report);
	assert_true(report.use_fmod_ret);
	assert_int_equal(report.lost, 0);
	facts.try_fmod_ret_program = -EINVAL;
	probe_judge(&facts, &report);
	assert_int_equal(report.lost, FILES);
}

static void test_judge_hooks(void **state)
{
	struct probe_facts facts = good_host();

	(void)state;
	facts.trampolines = PROBE_NO;
	expect_lack(
		&facts, FILES,
		"fmod_ret no trampolines: this kernel lacks ftrace direct calls "
		"(register_ftrace_direct); boot a "
		"kernel with CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y (on arm64: 6.4 or later)");
	facts.trampolines = PROBE_UNKNOWN;
	expect_lack(&facts, 0, "");
	facts.path_hooks = PROBE_NO;
	expect_lack(&facts, FILES,
		    "path hooks missing: no security_path_mknod; boot a kernel built with "
		    "CONFIG_SECURITY_PATH=y "
		    "(AppArmor or Landlock select it)");
	facts = good_host();
	facts.btf = -ENOENT;
	facts.bpf_lsm_hooks = facts.security_hooks = facts.path_hooks = facts.trampolines =
		PROBE_UNKNOWN;
	facts.try_lsm_program = facts.try_fmod_ret_program = PROBE_NOT_TRIED;
	expect_lack(&facts, FILES | NETWORK,
		    "BTF missing: no /sys/kernel/btf/vmlinux; boot a kernel built with "
		    "CONFIG_DEBUG_INFO_BTF=y");
}

static void test_judge_privilege(void **state)
{
	struct probe_facts facts = good_host();

	(void)state;
	facts.caps = 1ull << 39 | 1ull << 12; /* CAP_BPF, CAP_NET_ADMIN */
	facts.try_ring_buffer = facts.try_task_storage = facts.try_cgroup_program = -EPERM;
	facts.try_lsm_program = facts.try_fmod_ret_program = -EPERM;
	expect_lack(&facts, FILES | NETWORK,
		    "capabilities missing: CAP_PERFMON, CAP_SYS_ADMIN; run as root or with "
		    "CAP_BPF, CAP_PERFMON, "
		    "CAP_NET_ADMIN and CAP_SYS_ADMIN");
	facts = good_host(); /* who cannot look is told that, and not to boot anew */
	facts.caps = 0;
	facts.lsm_list[0] = '\0';
	facts.preempts = PROBE_UNKNOWN;
	expect_lack(&facts, FILES | NETWORK,
		    "capabilities missing: CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_ADMIN; run "
		    "as root or with CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and CAP_SYS_ADMIN");
	facts = good_host();
	facts.user_namespace = true;
	expect_lack(&facts, FILES | NETWORK,
		    "capabilities of a user namespace, where they do not count for BPF; run in the "
		    "host's user "
		    "namespace (a container with --privileged and --userns=host)");
	facts = good_host();
	strcpy(facts.lockdown, "confidentiality");
	expect_lack(&facts, FILES | NETWORK,
		    "lockdown confidentiality: BPF programs may not read kernel memory; boot with "
		    "lockdown=integrity, or without lockdown=");
}

static void test_judge_bpf(void **state)
{
	struct probe_facts facts = good_host();

	(void)state;
	facts.bpffs = false;
	expect_lack(&facts, FILES | NETWORK,
		    "bpffs not mounted at /sys/fs/bpf; mount -t bpf bpf /sys/fs/bpf");
	facts = good_host();
	facts.jit = 0;
	expect_lack(
		&facts, FILES | NETWORK,
		"BPF JIT off: bpf_loop and trampolines need it; sysctl net.core.bpf_jit_enable=1");
	facts = good_host();
	facts.try_task_storage = -EINVAL;
	expect_lack(
		&facts, FILES,
		"task storage cannot be made: Invalid argument; boot a 6.1 or later kernel built "
		"with CONFIG_BPF_SYSCALL=y");
	facts = good_host();
	facts.try_ring_buffer = -ENOSYS;
	expect_lack(&facts, FILES | NETWORK,
		    "ring buffer cannot be made: Function not implemented; boot a 6.1 or later "
		    "kernel built with "
		    "CONFIG_BPF_SYSCALL=y");
}

static void test_judge_cgroup(void **state)
{
	struct probe_facts facts = good_host();

	(void)state;
	facts.cgroup_layout = HOST_CGROUP_HYBRID;
	expect_lack(&facts, 0, "");
	facts.try_cgroup_program = -EINVAL;
	expect_lack(&facts, NETWORK,
		    "cgroup v2 takes no programs: Invalid argument; boot a kernel built with "
		    "CONFIG_CGROUP_BPF=y");
	facts.cgroup_private = true;
	expect_lack(&facts, FILES | NETWORK,
		    "cgroup v2 seen through a private cgroup namespace, which hides the host's; "
		    "start the container "
		    "with --cgroupns=host, or nsenter --cgroup --target 1");
	facts.cgroup_layout = HOST_CGROUP_NONE;
	expect_lack(&facts, FILES | NETWORK,
		    "cgroup v2 not mounted; mount -t cgroup2 cgroup2 /sys/fs/cgroup");
}

/* On the kernel at hand: whatever it is, the report is complete and consistent. */
static void test_probe(void **state)
{
	struct host_report report;
	struct error error = { "" };
	unsigned int lost = 0;
	int i;

	(void)state;
	host_probe(&report);
	for (i = 0; i < HOST_FACT_COUNT; i++) {
		assert_string_not_equal(host_fact_name(i), "?");
		assert_string_not_equal(report.fact[i].found, "");
		assert_int_equal(report.fact[i].status == HOST_LACK, report.fact[i].need != 0);
		assert_int_equal(report.fact[i].status == HOST_OK, !report.fact[i].remedy[0]);
		lost |= report.fact[i].need;
	}
	assert_int_equal(report.lost, lost);
	assert_string_not_equal(report.attach_reason, "");
	assert_int_equal(host_report_refuse(&report, &error), lost ? -ENOTSUP : 0);
}

/* What `cordon run` must not keep: the type information of the kernel, some 6 MiB. */
static void test_probe_memory(void **state)
{
	struct host_report report;
	long before, after, ignored;
	FILE *file;

	(void)state;
	host_probe(&report);
	file = fopen("/proc/self/statm", "r");
	assert_int_equal(fscanf(file, "%ld %ld", &ignored, &before), 2);
	fclose(file);
	host_probe(&report);
	file = fopen("/proc/self/statm", "r");
	assert_int_equal(fscanf(file, "%ld %ld", &ignored, &after), 2);
	fclose(file);
	assert_true((after - before) * sysconf(_SC_PAGESIZE) < 256 << 10);
}

/*
 * Cut short and bent type information is refused, not read beyond its end (the sanitizers watch).
 */
static void test_btf_malformed(void **state)
{
	struct host_type wanted[] = { { .name = "int" } };
	unsigned int words[] = {
		0x0001eb9f, 24,	     0, 16, 16, 5, /* header */
		1,	    1 << 24, 4, 32,	   /* "int"; its encoding is the last word */
		0x746e6900, 0
	};
	char *copy;
	size_t n, i;

	(void)state;
	for (n = 0; n <= sizeof(words); n++) {
		copy = malloc(n ? n : 1);
		memcpy(copy, words, n);
		btf_scan_data(copy, n, wanted, 1);
		free(copy);
	}
	for (i = 0; i < ARRAY_SIZE(words); i++) {
		unsigned int saved = words[i];

		copy = malloc(sizeof(words));
		words[i] = 0xffffffff;
		memcpy(copy, words, sizeof(words));
		btf_scan_data(copy, sizeof(words), wanted, 1);
		assert_int_equal(wanted[0].id, 0); /* an int is no function */
		words[i] = saved;
		free(copy);
	}
}

/* A function before its prototype, a typedef of the same name, one that is not asked for. */
static void test_btf_find(void **state)
{
	static const char strings[] = "\0open\0close";
	struct host_type wanted[] = {
		{ .name = "open" },
		{ .name = "open", .is_typedef = true },
		{ .name = "clos" },
	};
	struct {
		unsigned int header[6], types[11];
		char strings[sizeof(strings)];
	} data = {
		.header = { 0x0001eb9f, 24, 0, 44, 44, sizeof(strings) },
		.types = {
			1, 12 << 24, 2,		  /* FUNC open, of type 2 */
			0, 13 << 24 | 1, 0, 0, 0, /* FUNC_PROTO with one argument */
			1, 8 << 24, 0,		  /* TYPEDEF open */
		},
	};

	(void)state;
	memcpy(data.strings, strings, sizeof(strings));
	assert_int_equal(btf_scan_data(&data, 24 + 44 + sizeof(strings), wanted, 3), 0);
	assert_int_equal(wanted[0].id, 1);
	assert_int_equal(wanted[0].nargs, 1);
	assert_int_equal(wanted[1].id, 3);
	assert_int_equal(wanted[1].nargs, -1);
	assert_int_equal(wanted[2].id, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_make),
		T(test_make_names),
		T(test_open),
		T(test_open_refused),
		T(test_of_pid),
		T(test_private_namespace),
		T(test_freeze),
		T(test_own_cgroup),
		T(test_kill_tree),
		T(test_remove),
		T(test_remove_gone),
		T(test_close_zeroed),
		T(test_exit_codes),
		T(test_born_in_cgroup),
		T(test_env),
		T(test_env_malformed),
		T(test_search_path),
		T(test_descriptors_closed),
		T(test_closed_stdin),
		T(test_signals_reset),
		T(test_workdir),
		T(test_no_new_privs),
		T(test_user),
		T(test_user_root),
		T(test_private),
		T(test_private_keeps_workdir),
		T(test_private_nested),
		T(test_private_missing),
		T(test_waits_before_exec),
		T(test_exec_errors),
		T(test_go_after_death),
		T(test_parent_killed),
		T(test_process_start),
		T(test_container),
		T(test_container_names),
		T(test_judge_good),
		T(test_judge_preemption),
		T(test_judge_kernel),
		T(test_judge_attach_type),
		T(test_judge_hooks),
		T(test_judge_privilege),
		T(test_judge_bpf),
		T(test_judge_cgroup),
		T(test_probe),
		T(test_probe_memory),
		T(test_btf_malformed),
		T(test_btf_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
