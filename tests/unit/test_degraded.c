// SPDX-License-Identifier: Apache-2.0
/*
 * The network part alone (--degraded), for kernels that refuse LSM programs: it has an object of its own, in which each
 * program reports by itself, and so a stack that nothing else has. Loaded, attached and tried on the kernel at hand: in
 * the guests (CORDON_TEST_FENCES), and on a host where root may load cgroup programs; else skipped. In a mount namespace
 * with a bpffs and a /run of its own, so that no other Cordon is met.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "enforce/enforce.h"
#include "event/event.h"
#include "policy/policy.h"

static struct enforce *enforce;
static struct host_cgroup cgroup = { .fd = -1 };
static struct enforce_fence *fence;
static pid_t worker;
static int ask = -1, answer = -1; /* pipes to the process inside, and from it */

/* One question: a family, an address, a port; connect() of a datagram socket, or sendto(). */
struct question {
	int family;
	bool send;
	uint16_t port;
	char address[INET6_ADDRSTRLEN];
};

static int act(const struct question *q)
{
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(q->port) };
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(q->port) };
	bool six = q->family == AF_INET6;
	const struct sockaddr *to = six ? (void *)&to6 : (void *)&to4;
	socklen_t size = six ? sizeof(to6) : sizeof(to4);
	_cleanup_close_ int fd = socket(q->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	inet_pton(q->family, q->address, six ? (void *)&to6.sin6_addr : (void *)&to4.sin_addr);
	if (fd < 0)
		return errno;
	if (q->send)
		return sendto(fd, "x", 1, 0, to, size) < 0 ? errno : 0;
	return connect(fd, to, size) ? errno : 0;
}

static void work(int questions, int answers)
{
	struct question q;

	while (read(questions, &q, sizeof(q)) == sizeof(q)) {
		int err = act(&q);

		if (write(answers, &err, sizeof(err)) != sizeof(err))
			break;
	}
	_exit(0);
}

static int does(int family, bool send, const char *address, uint16_t port)
{
	struct question q = { .family = family, .send = send, .port = port };
	int err = -1;

	snprintf(q.address, sizeof(q.address), "%s", address);
	assert_int_equal(write(ask, &q, sizeof(q)), sizeof(q));
	assert_int_equal(read(answer, &err, sizeof(err)), sizeof(err));
	return err;
}

/* Whether there is a route is not asked. */
static bool denied(int family, bool send, const char *address, uint16_t port)
{
	return does(family, send, address, port) == EPERM;
}

static void need(void)
{
	if (!fence)
		skip();
}

/* --- tests ------------------------------------------------------------------------------------------------------- */

struct seen {
	unsigned int denials;
	char exe[64], dst[INET_ADDRSTRLEN];
};

static void on_record(void *context, const void *record, size_t size)
{
	static struct event event;
	struct seen *seen = context;

	assert_int_equal(event_decode(record, size, 0, &event), 0);
	if (event.raw.verdict != CORDON_VERDICT_DENY)
		return;
	seen->denials++;
	snprintf(seen->exe, sizeof(seen->exe), "%.*s", (int)event.exe.n,
		 event.exe.p ? event.exe.p : "");
	inet_ntop(AF_INET, event.raw.dst + 12, seen->dst, sizeof(seen->dst));
}

static void drain(struct seen *seen)
{
	while (enforce_fence_poll(fence, 0, on_record, seen) > 0)
		;
}

static void move_in(void)
{
	char path[PATH_MAX + 16], pid[16];
	_cleanup_close_ int procs = -1;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup.path);
	procs = open(path, O_WRONLY | O_CLOEXEC);
	snprintf(pid, sizeof(pid), "%d", worker);
	assert_int_equal(write(procs, pid, strlen(pid)), strlen(pid));
}

/* Before it is inside, nothing of this is denied; inside, what no rule allows is, for both families and both calls. */
static void test_denied_inside_only(void **state)
{
	struct seen seen = { 0 };
	uint64_t before;

	(void)state;
	need();
	for (int send = 0; send < 2; send++) {
		assert_false(denied(AF_INET, send, "192.0.2.2", 9));
		assert_false(denied(AF_INET6, send, "2001:db8::2", 9));
	}
	move_in();
	before = enforce_fence_state(fence)->denied;
	for (int send = 0; send < 2; send++) {
		assert_true(denied(AF_INET, send, "192.0.2.2", 9));
		assert_true(denied(AF_INET6, send, "2001:db8::2", 9));
		assert_true(denied(AF_INET6, send, "::ffff:192.0.2.2", 9));
		assert_true(denied(AF_INET, send, "169.254.169.254", 80));
		assert_true(denied(AF_INET, send, "192.0.2.1", 10));
		assert_false(denied(AF_INET, send, "192.0.2.1", 9)); /* network.allow */
	}
	assert_int_equal(enforce_fence_state(fence)->denied - before, 10);
	assert_int_equal(enforce_fence_state(fence)->lost, 0);
	drain(&seen);
	assert_int_equal(seen.denials, 10);
	assert_string_equal(seen.dst, "192.0.2.1");
	assert_non_null(strstr(seen.exe, "test_degraded"));
}

static void test_selftest(void **state)
{
	struct error error = { "" };
	unsigned int probes = 0;

	(void)state;
	need();
	if (enforce_fence_selftest(fence, &probes, &error))
		fail_msg("%s", error.text);
	assert_true(probes > 0);
}

/* --- setting up -------------------------------------------------------------------------------------------------- */

static struct image *compile(void)
{
	static const char text[] =
		"cordon: 1\nname: degraded\nfiles: {private: [], workdir: /var/tmp}\n"
		"network: {gateway: 192.0.2.9:8800, "
		"allow: [{to: 192.0.2.1/32, port: 9, proto: udp}]}\n";
	struct policy_options options = { .check_paths = true };
	struct conf_faults faults = { 0 };
	struct policy *policy = NULL;
	struct image *image = NULL;

	if (!policy_parse(text, strlen(text), &options, &policy, &faults))
		policy_compile(policy, &image);
	conf_faults_clear(&faults);
	policy_free(policy);
	return image;
}

static bool own_mounts(void)
{
	return !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("bpf", "/sys/fs/bpf", "bpf", 0, NULL) &&
	       !mount("run", "/run", "tmpfs", 0, "mode=755");
}

static int worker_start(void)
{
	int questions[2], answers[2];

	if (pipe2(questions, O_CLOEXEC) || pipe2(answers, O_CLOEXEC))
		return -errno;
	worker = fork();
	if (!worker) {
		close(questions[1]);
		close(answers[0]);
		work(questions[0], answers[1]);
	}
	close(questions[0]);
	close(answers[1]);
	ask = questions[1];
	answer = answers[0];
	return worker < 0 ? -errno : 0;
}

static int fence_start(struct error *error)
{
	const struct enforce_fence_options options = { .cgroup = &cgroup,
						       .ring_bytes = ENFORCE_RING_MIN };
	_cleanup_free_ struct image *image = compile();
	struct host_report report;
	int err;

	if (!image)
		return -EINVAL;
	host_probe(&report);
	err = enforce_open(&report, true, &enforce, error);
	if (!err)
		err = host_cgroup_make("test-degraded", &cgroup, error);
	if (!err)
		err = enforce_fence_make(enforce, &options, &fence, error);
	return err ? err : enforce_fence_set(fence, image, getpid(), false, error);
}

static int group_setup(void **state)
{
	bool must = getenv("CORDON_TEST_FENCES");
	struct error error = { "" };
	int err;

	(void)state;
	if (geteuid() || !own_mounts()) {
		print_message("not root, or no mounts: %s\n", strerror(errno));
		return must ? -1 : 0;
	}
	err = worker_start();
	if (!err)
		err = fence_start(&error);
	if (err)
		print_message("%s\n", error.text);
	/* What the verifier finds is no reason to skip; that nothing may be loaded here is. */
	return err == -EPERM && !must ? 0 : err;
}

static int group_teardown(void **state)
{
	struct error error = { "" };

	(void)state;
	if (worker > 0) {
		kill(worker, SIGKILL);
		waitpid(worker, NULL, 0);
	}
	enforce_fence_end(TAKE_PTR(fence));
	if (cgroup.fd >= 0)
		host_cgroup_remove(&cgroup, &error);
	enforce_close(TAKE_PTR(enforce));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_denied_inside_only),
		cmocka_unit_test(test_selftest),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
