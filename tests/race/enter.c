// SPDX-License-Identifier: Apache-2.0
/*
 * enter - puts a fence around a cgroup and takes it off again, thousands of times, while what runs in the cgroup executes
 * itself (tests/race/image.c). Each time by what `cordon attach` and cordond call for it, in their order: freeze, fence,
 * policy, marks, thaw; and the end of the fence. What they do besides and the kernel's maps do not see is left out: the
 * self-test, the look for what is held open, events. Root, in a virtual machine.
 *
 * usage: enter MODE TRIES CGROUP POLICY WORKDIR OUTSIDE PORT PORT
 *
 *   MODE     attach    as it is
 *            exec      nobody is marked by attaching, each by its next exec, as a container that has not begun its command
 *            unmarked  the first without the marks: a control, what is inside gets out
 *            open      no fence at all: a control, everything arrives
 *   TRIES    how many execs shall have been under way when a fence came (in a control: attempts from inside)
 *   OUTSIDE  a directory with what may not be reached: open.sock and inside.sock, where datagrams are counted, and
 *            the files open and inside; PORT the same at 127.0.0.2, open and inside
 *
 * Such an exec is one in which the kernel holds the process when the cgroup is frozen: it was called before anything of
 * the fence was there, and its image runs its first instruction when the fence is whole. It counts when that image, or
 * with `exec` the one after it, has then tried to get out in every way.
 *
 * Prints: tries, attaches, images; passed, refused, failed from inside; the same of what began and ended without a
 * fence; and how much was sent to the listeners, open and inside. What goes on for longer than WAIT_MS ends it with 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "enforce/enforce.h"
#include "policy/policy.h"
#include "util/util.h"

#include "enter.h"

enum {
	RACERS = 32,
	STYLES = 4,
	OPEN_ROUNDS = 8,
	GATHER_US = 50000,
	WAIT_MS = 60000,
	POLL_US = 500,
	FREEZE_MS = 5000
};

enum mode { ATTACH, EXEC, UNMARKED, NO_FENCE, MODES };
static const char *const mode_names[MODES] = { "attach", "exec", "unmarked", "open" };

static struct race_shared *shared;
static struct enforce *enforce;
static struct image *image;
static struct host_cgroup cgroup = { .fd = -1 }, keeper_cgroup = { .fd = -1 };
static struct enforce_fence *keeper;

static void must(int err, const struct error *error)
{
	if (!err)
		return;
	fprintf(stderr, "enter: %s\n", error->text[0] ? error->text : strerror(-err));
	if (cgroup.fd >= 0)
		host_cgroup_kill(&cgroup, FREEZE_MS, NULL);
	exit(1);
}

static void compile(const char *path, const char *workdir)
{
	struct policy_options options = { .check_paths = true, .workdir = workdir };
	struct conf_faults faults = { 0 };
	struct policy *policy = NULL;
	struct error error = { "" };

	must(policy_load(path, &options, &policy, &faults), &error);
	must(policy_compile(policy, &image), &error);
	policy_free(policy);
}

/* The page lies in the workdir: what is inside may write there. */
static void share(char **argv)
{
	char path[PATH_MAX];
	struct error error = { "" };
	int fd;

	snprintf(path, sizeof(path), "%s/shared", argv[5]);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*shared)) || dup2(fd, SHARED_FD) < 0)
		must(error_set(&error, errno, "%s: %s", path, strerror(errno)), &error);
	if (fd != SHARED_FD)
		close(fd);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
	if (shared == MAP_FAILED)
		must(-errno, &error);
	for (int side = 0; side < SIDES; side++) {
		const char *name = side == OUTSIDE ? "open" : "inside";

		shared->port[side] = strtoul(argv[7 + side], NULL, 10);
		snprintf(shared->unix_path[side], RACE_PATH_SIZE, "%s/%s.sock", argv[6], name);
		snprintf(shared->file[side], RACE_PATH_SIZE, "%s/%s", argv[6], name);
	}
}

/* --- waiting ---------------------------------------------------------------------------------------------------- */

static void step_to(enum step step)
{
	uint32_t phase = shared->phase;

	__atomic_store_n(&shared->phase, phase + (step + STEPS - phase % STEPS) % STEPS,
			 __ATOMIC_SEQ_CST);
}

typedef bool condition(uint64_t value);

static bool has_opened(uint64_t value)
{
	return __atomic_load_n(&shared->opened, __ATOMIC_SEQ_CST) >= value;
}

static bool has_met(uint64_t value)
{
	return __atomic_load_n(&shared->met, __ATOMIC_SEQ_CST) >= value;
}

static bool has_tried(uint64_t value)
{
	const struct race_count *inside = &shared->inside;

	return __atomic_load_n(&inside->passed, __ATOMIC_SEQ_CST) + inside->refused >= value;
}

static bool none_busy(uint64_t step)
{
	return !__atomic_load_n(&shared->busy[step], __ATOMIC_SEQ_CST);
}

static bool all_entered(uint64_t value)
{
	return __atomic_load_n(&shared->entered, __ATOMIC_SEQ_CST) >= value;
}

static bool is_empty(uint64_t unused)
{
	return host_cgroup_populated(&cgroup) <= 0;
}

static void wait_for(condition *holds, uint64_t value, const char *what)
{
	struct error error = { "" };
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	while (!holds(value)) {
		usleep(POLL_US);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((now.tv_sec - start.tv_sec) * 1000 > WAIT_MS)
			must(error_set(&error, ETIMEDOUT, "not within %d ms: %s", WAIT_MS, what),
			     &error);
	}
}

/* Images beside this program; their dead are nobody's to wait for, also those whose parents died. */
static void start_racers(void)
{
	char path[PATH_MAX], style[16];
	struct error error = { "" };
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int procs = openat(cgroup.fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);

	path[n > 0 ? n : 0] = '\0';
	strcpy(strrchr(path, '/') + 1, "image");
	if (procs < 0 || null < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1))
		must(-errno, &error);
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < RACERS; i++) {
		pid_t pid = fork();

		if (pid < 0)
			must(-errno, &error);
		if (pid)
			continue;
		snprintf(style, sizeof(style), "%d", i % STYLES);
		dup2(null,
		     STDOUT_FILENO); /* whoever waits for this program's end does not wait for theirs */
		dup2(null, STDERR_FILENO);
		if (write(procs, "0", 1) == 1)
			execl(path, path, style, "0", "0", "0", NULL);
		_exit(1);
	}
	close(procs);
	close(null);
	wait_for(all_entered, RACERS, "the images have begun");
	__atomic_store_n(&shared->phase, STEPS, __ATOMIC_SEQ_CST);
}

/* --- attaching -------------------------------------------------------------------------------------------------- */

/* Does the kernel hold the process in execve()? It is frozen on its way back from there then, before the image's first step. */
static bool is_in_exec(int pid)
{
	char path[64], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	f = fopen(path, "re");
	if (!f || !fgets(text, sizeof(text), f))
		text[0] = '\0';
	if (f)
		fclose(f);
	return text[0] && strtol(text, NULL, 10) == SYS_execve;
}

static void find_held(void)
{
	struct error error = { "" };
	char path[PATH_MAX];
	int pid, tasks = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup.path);
	f = fopen(path, "re");
	shared->n_held = 0;
	while (f && fscanf(f, "%d", &pid) == 1) {
		tasks++;
		if (shared->n_held < HELD_MOST && is_in_exec(pid))
			shared->held[shared->n_held++] = pid;
	}
	if (f)
		fclose(f);
	if (tasks < RACERS)
		must(error_set(&error, ESRCH, "only %d processes are left: %s, %u phases ago",
			       tasks, strerror(shared->lost_errno),
			       shared->phase - shared->lost_phase),
		     &error);
}

static const struct enforce_fence_options *options(const struct host_cgroup *of)
{
	static struct enforce_fence_options options = {
		.attached = true,
		.descriptors = true,
		.ring_bytes = ENFORCE_RING_MIN,
	};

	options.cgroup = of;
	return &options;
}

/*
 * One more fence, around nobody: programs that only attached fences need stay attached meanwhile. To take those off, the kernel
 * waits until each of its tasks has been asleep, for seconds.
 */
static void keep(void)
{
	struct error error = { "" };

	must(host_cgroup_make("race-keeper", &keeper_cgroup, &error), &error);
	must(enforce_fence_make(enforce, options(&keeper_cgroup), &keeper, &error), &error);
}

static void fence_on(enum mode mode, struct enforce_fence **ret_fence)
{
	struct error error = { "" };

	usleep(GATHER_US);
	must(host_cgroup_freeze(&cgroup, true, FREEZE_MS, &error), &error);
	find_held();
	step_to(FENCED);
	must(enforce_fence_make(enforce, options(&cgroup), ret_fence, &error), &error);
	must(enforce_fence_set(*ret_fence, image, getpid(), true, &error), &error);
	if (mode == ATTACH)
		must(enforce_fence_mark_tasks(*ret_fence, &error), &error);
	must(host_cgroup_freeze(&cgroup, false, FREEZE_MS, &error), &error);
}

static uint64_t cycle(enum mode mode)
{
	uint64_t before = shared->inside.passed + shared->inside.refused, met = shared->met;
	struct enforce_fence *fence = NULL;
	uint64_t tries;

	wait_for(has_opened, shared->opened + OPEN_ROUNDS, "without a fence each image gets out");
	step_to(ATTACHING);
	if (mode == NO_FENCE)
		step_to(FENCED);
	else
		fence_on(mode, &fence);
	if (mode == NO_FENCE || mode == UNMARKED) {
		wait_for(has_tried, before + RACERS, "the images go on");
		tries = shared->inside.passed + shared->inside.refused - before;
	} else {
		tries = shared->n_held;
		wait_for(has_met, met + tries, "each image has tried to get out");
	}
	step_to(DETACHING);
	wait_for(none_busy, FENCED, "what began inside ends");
	enforce_fence_end(fence);
	step_to(OPEN);
	return tries;
}

static void print(const struct race_count *count)
{
	printf("%llu passed, %llu refused, %llu failed; ", (unsigned long long)count->passed,
	       (unsigned long long)count->refused, (unsigned long long)count->failed);
}

int main(int argc, char **argv)
{
	struct host_report report;
	struct error error = { "" };
	enum mode mode = ATTACH;
	uint64_t tries = 0, cycles = 0;

	while (argc == 9 && mode < MODES && strcmp(argv[1], mode_names[mode]))
		mode++;
	if (argc != 9 || mode == MODES) {
		fprintf(stderr, "see the head of tests/race/enter.c\n");
		return 2;
	}
	compile(argv[4], argv[5]);
	share(argv);
	shared->by_exec = mode == EXEC;
	host_probe(&report);
	must(enforce_open(&report, false, &enforce, &error), &error);
	must(host_cgroup_open(argv[3], &cgroup, &error), &error);
	keep();
	start_racers();
	for (; tries < strtoull(argv[2], NULL, 10); cycles++)
		tries += cycle(mode);
	shared->stop = 1;
	wait_for(is_empty, 0, "the images end");
	printf("%llu tries, %llu attaches, %llu images; ", (unsigned long long)tries,
	       (unsigned long long)cycles, (unsigned long long)shared->images);
	print(&shared->inside);
	print(&shared->outside);
	printf("%llu sent, %llu inside\n", (unsigned long long)shared->sent[OUTSIDE],
	       (unsigned long long)shared->sent[INSIDE]);
	enforce_fence_end(keeper);
	must(host_cgroup_remove(&keeper_cgroup, &error), &error);
	enforce_close(enforce);
	return 0;
}
