// SPDX-License-Identifier: Apache-2.0
/*
 * What the programs remember of a policy - destinations that were allowed, writable roots that a process met - ends
 * with the policy, with the fence, and with a fence that lost a program; and is nobody else's. On the kernel at hand, as
 * root, where CORDON_TEST_FENCES says that programs may be attached to it (tests/guest); skipped elsewhere. That something was remembered is read out of the kernel's maps, so
 * that no test passes because nothing was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cordon/decide.h"
#include "enforce/enforce.h"
#include "enforce/internal.h"
#include "policy/policy.h"

#define PLACE "192.0.2.1" /* TEST-NET-1: nobody is there, and nothing needs to be sent */
enum { PORT = 9 };

static struct enforce *enforce;
static char dir[] = "/var/tmp/test_reload.XXXXXX";

/* A fence with one process in it that does what it is asked to. */
struct fenced {
	struct host_cgroup cgroup;
	struct enforce_fence *fence;
	pid_t worker;
	int ask, answer; /* pipes to it and from it */
};

/* --- the process inside ------------------------------------------------------------------------------------------ */

static int try_connect(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, PLACE, &to.sin_addr);
	if (fd < 0)
		return errno;
	return connect(fd, (struct sockaddr *)&to, sizeof(to)) ? errno : 0;
}

static int try_write(const char *name)
{
	char path[128];
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "%s/%s/sub/file", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? errno : 0;
}

static void work(int ask, int answer)
{
	char what;

	while (read(ask, &what, 1) == 1) {
		int err = what == 'c' ? try_connect() : try_write(what == '1' ? "one" : "two");

		if (write(answer, &err, sizeof(err)) != sizeof(err))
			break;
	}
	_exit(0);
}

/* errno of what it did: c(onnect), write below 1 or 2. */
static int does(struct fenced *f, char what)
{
	int err = -1;

	assert_int_equal(write(f->ask, &what, 1), 1);
	assert_int_equal(read(f->answer, &err, sizeof(err)), sizeof(err));
	return err;
}

/* An answer of the network is as good as none: there may be no route. */
static bool may_connect(struct fenced *f)
{
	int err = does(f, 'c');

	assert_true(!err || err == EPERM || err == ENETUNREACH);
	return err != EPERM;
}

/* --- fences ------------------------------------------------------------------------------------------------------ */

static struct image *compile(bool allow, const char *write)
{
	struct policy_options options = { .check_paths = true };
	struct conf_faults faults = { 0 };
	struct policy *policy = NULL;
	struct image *image = NULL;
	char text[512];

	snprintf(text, sizeof(text),
		 "cordon: 1\nname: reload\nfiles: {private: [], workdir: %s/%s}\n"
		 "network: {gateway: 192.0.2.9:8800%s}\n",
		 dir, write, allow ? ", allow: [{to: " PLACE "/32, port: 9, proto: udp}]" : "");
	if (policy_parse(text, strlen(text), &options, &policy, &faults))
		conf_faults_print(&faults, "policy", stdout);
	conf_faults_clear(&faults);
	assert_non_null(policy);
	assert_int_equal(policy_compile(policy, &image), 0);
	policy_free(policy);
	return image;
}

static void assert_done(int err, const struct error *error)
{
	if (err)
		fail_msg("%s", error->text);
}

static void set(struct fenced *f, bool allow, const char *write)
{
	struct image *image = compile(allow, write);
	struct error error = { "" };

	assert_done(enforce_fence_set(f->fence, image, getpid(), false, &error), &error);
	free(image);
}

static void begin(struct fenced *f, const char *name)
{
	struct enforce_fence_options options = { .cgroup = &f->cgroup,
						 .ring_bytes = ENFORCE_RING_MIN };
	int ask[2], answer[2];
	struct error error = { "" };
	char path[PATH_MAX + 16], pid[16];
	_cleanup_close_ int procs = -1;

	assert_int_equal(pipe2(ask, O_CLOEXEC) | pipe2(answer, O_CLOEXEC), 0);
	f->worker = fork();
	if (!f->worker) {
		close(ask[1]);
		close(answer[0]);
		work(ask[0], answer[1]);
	}
	close(ask[0]);
	close(answer[1]);
	f->ask = ask[1];
	f->answer = answer[0];
	assert_done(host_cgroup_make(name, &f->cgroup, &error), &error);
	assert_done(enforce_fence_make(enforce, &options, &f->fence, &error), &error);
	snprintf(path, sizeof(path), "%s/cgroup.procs", f->cgroup.path);
	procs = open(path, O_WRONLY | O_CLOEXEC);
	snprintf(pid, sizeof(pid), "%d", f->worker);
	assert_int_equal(write(procs, pid, strlen(pid)), strlen(pid));
}

static void end(struct fenced *f)
{
	struct error error = { "" };

	kill(f->worker, SIGKILL);
	waitpid(f->worker, NULL, 0);
	close(f->ask);
	close(f->answer);
	enforce_fence_end(TAKE_PTR(f->fence));
	assert_done(host_cgroup_remove(&f->cgroup, &error), &error);
}

/* The destinations that the active policy remembers to have allowed. */
static unsigned int remembered(const struct fenced *f)
{
	const struct cordon_fence *info = enforce_fence_info(f->fence);
	uint32_t tag = cordon_tag(enforce_fence_slot(f->fence), info->generation);
	struct cordon_policy policy;
	struct cordon_addr addr = { .v6 = 0 };
	unsigned int n = 0;

	inet_pton(AF_INET, PLACE, addr.b + 12);
	assert_int_equal(bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_policies], &tag, &policy), 0);
	for (int i = 0; i < CORDON_KNOWN; i++)
		n += policy.known[i] == decide_known(info->generation, &addr, DECIDE_UDP, PORT);
	return n;
}

/* The writable roots that the process remembers to have met. */
static unsigned int met(const struct fenced *f)
{
	struct cordon_task task;
	int fd = (int)syscall(SYS_pidfd_open, f->worker, 0);
	int err = bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_tasks], &fd, &task);

	close(fd);
	assert_int_equal(err, 0);
	return !!task.met[0] + !!task.met[1];
}

static void need(void **state)
{
	(void)state;
	if (!enforce)
		skip();
}

/* --- tests ------------------------------------------------------------------------------------------------------- */

static void expect_first(struct fenced *f)
{
	for (int i = 0; i < 3; i++) {
		assert_true(may_connect(f));
		assert_int_equal(does(f, '1'), 0);
		assert_int_equal(does(f, '2'), EROFS);
	}
	assert_int_equal(remembered(f), 1);
	assert_true(met(f) >= 1);
}

static void expect_second(struct fenced *f)
{
	for (int i = 0; i < 3; i++) {
		assert_false(may_connect(f));
		assert_int_equal(does(f, '1'), EROFS);
		assert_int_equal(does(f, '2'), 0);
	}
	assert_int_equal(remembered(f), 0);
}

/* Often enough that each of the two places of a policy held both. */
static void test_policy_changes(void **state)
{
	struct fenced f = { 0 };

	need(state);
	begin(&f, "test-reload");
	assert_false(may_connect(&f));
	for (int i = 0; i < 3; i++) {
		set(&f, true, "one");
		expect_first(&f);
		set(&f, false, "two");
		expect_second(&f);
		set(&f, false, "two");
		expect_second(&f);
	}
	end(&f);
}

/* One that never needed to be asked for is not there in the next fence of the slot, of the same generation. */
static void test_slot_is_used_again(void **state)
{
	struct fenced a = { 0 }, b = { 0 };
	uint32_t slot, generation;

	need(state);
	begin(&a, "test-reload-a");
	set(&a, true, "one");
	expect_first(&a);
	slot = enforce_fence_slot(a.fence);
	generation = enforce_fence_info(a.fence)->generation;
	enforce_fence_end(TAKE_PTR(a.fence));
	assert_false(may_connect(&a)); /* its process has a mark without a fence */
	assert_int_not_equal(does(&a, '1'), 0);

	enforce->free_slot = slot; /* else the others come first */
	begin(&b, "test-reload-b");
	set(&b, false, "two");
	assert_int_equal(enforce_fence_slot(b.fence), slot);
	assert_int_equal(enforce_fence_info(b.fence)->generation, generation);
	expect_second(&b);
	assert_false(may_connect(&a));
	assert_int_not_equal(does(&a, '1'), 0);
	assert_int_not_equal(does(&a, '2'), 0);
	end(&b);
	end(&a);
}

static void test_fences_beside_each_other(void **state)
{
	struct fenced a = { 0 }, b = { 0 };

	need(state);
	begin(&a, "test-reload-a");
	begin(&b, "test-reload-b");
	set(&a, true, "one");
	set(&b, false, "two");
	for (int i = 0; i < 2; i++) {
		expect_first(&a);
		expect_second(&b);
	}
	end(&a);
	end(&b);
}

static void test_broken_fence(void **state)
{
	struct fenced f = { 0 };
	struct cordon_fence info;
	uint32_t slot;

	need(state);
	begin(&f, "test-reload");
	set(&f, true, "one");
	expect_first(&f);
	info = *enforce_fence_info(f.fence);
	info.broken = 1;
	slot = enforce_fence_slot(f.fence);
	assert_int_equal(
		bpf_map_update_elem(enforce->map[ENFORCE_MAP_fences], &slot, &info, BPF_ANY), 0);
	assert_int_equal(remembered(&f), 1);
	assert_false(may_connect(&f));
	end(&f);
}

static int group_setup(void **state)
{
	struct host_report report;
	struct error error = { "" };
	char path[64];

	(void)state;
	if (!getenv("CORDON_TEST_FENCES"))
		return 0;
	host_probe(&report);
	if (host_report_refuse(&report, &error)) {
		print_message("%s\n", error.text);
		return -1;
	}
	if (!mkdtemp(dir))
		return -1;
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, i ? "two" : "one");
		if (mkdir(path, 0700))
			return -1;
		strcat(path, "/sub");
		if (mkdir(path, 0700))
			return -1;
	}
	if (enforce_open(&report, false, &enforce, &error)) {
		print_message("%s\n", error.text);
		return -1;
	}
	return 0;
}

static int group_teardown(void **state)
{
	char command[128];

	(void)state;
	if (!enforce)
		return 0;
	enforce_close(enforce);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_policy_changes),
		cmocka_unit_test(test_slot_is_used_again),
		cmocka_unit_test(test_fences_beside_each_other),
		cmocka_unit_test(test_broken_fence),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
