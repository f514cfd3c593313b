// SPDX-License-Identifier: Apache-2.0
/*
 * Races of a fence's identity and network, in C, so that 100,000 tries of each fit into seconds of an emulated machine.
 * Two sides: `race in KIND PORT` runs inside a fence (or unfenced, as the control) and tries to send datagrams to a
 * listener outside; `race host KIND ...` runs outside and turns what the fence is in while it tries. The listener is
 * the judge: it counts what arrives. Root, in a virtual machine. Whatever cannot be set up ends it with 2.
 *
 *   race in connect PORT TRIES    tries TRIES times to reach 127.0.0.2:PORT, each on a socket of its own: by sendto, by a
 *                                 connected datagram socket, by a TCP connection; prints how many were refused and not
 *   race in storm PORT TRIES      the same in children of children, TRIES in all, a few in each
 *   race in exec PORT TRIES       the same by images that execute one another, a few tries in each
 *   race host migrate PID A B N   moves the process and its threads between cgroups A and B, N times
 *   race host flip ID N [torn]    flips the active generation of a fence between two equal policies, N times or until it
 *                                 ends; torn: every other one allows the loopback, which the listener must notice
 *   race host born A B TRIES PORT children, each cloned into cgroup A, every other one moved to B while it tries
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cordon/abi.h"

enum { TRIES_A_CHILD = 20, TRIES_A_STORM = 100, PATH_BYTES = 256 };

struct counts {
	uint64_t refused, passed, failed;
};

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

/* One try, of the kind that n says. EPERM is a refusal; what else goes wrong is neither. */
static void try_once(int port, unsigned int n, struct counts *counts)
{
	const struct timeval patience = { .tv_sec = 1 }; /* for a first packet that is dropped */
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, (n % 3 == 2 ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
	long sent = -1;

	inet_pton(AF_INET, "127.0.0.2", &to.sin_addr);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (fd >= 0 && n % 3 == 0)
		sent = sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
	else if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		sent = n % 3 == 1 ? send(fd, "x", 1, 0) : 1;
	if (sent == 1)
		__atomic_add_fetch(&counts->passed, 1, __ATOMIC_RELAXED);
	else if (errno == EPERM)
		__atomic_add_fetch(&counts->refused, 1, __ATOMIC_RELAXED);
	else
		__atomic_add_fetch(&counts->failed, 1, __ATOMIC_RELAXED);
	if (fd >= 0)
		close(fd);
}

static void try_many(int port, unsigned int tries, struct counts *counts)
{
	for (unsigned int n = 0; n < tries; n++)
		try_once(port, n, counts);
}

/* Children that each fork another, whose parent dies: nobody waits for them but init. */
static void storm(int port, unsigned int tries, struct counts *counts)
{
	for (unsigned int done = 0; done < tries; done += 2 * TRIES_A_STORM) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid)
			waitpid(pid, NULL, 0);
		if (pid)
			continue;
		try_many(port, TRIES_A_STORM, counts);
		if (!fork())
			try_many(port, TRIES_A_STORM, counts);
		_exit(0);
	}
	while (__atomic_load_n(&counts->refused, __ATOMIC_RELAXED) + counts->passed +
		       counts->failed <
	       tries)
		usleep(1000);
}

/* The counts go on in a descriptor that is inherited: memory does not outlive an exec. */
static void exec_on(char **argv, int port, unsigned int tries)
{
	const char *fd_text = getenv("RACE_COUNTS");
	int fd = fd_text ? atoi(fd_text) : memfd_create("counts", 0);
	char text[24], left[24];
	struct counts *counts;

	if (!fd_text && ftruncate(fd, sizeof(*counts)))
		die("ftruncate");
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		die("mmap");
	try_many(port, tries < TRIES_A_CHILD ? tries : TRIES_A_CHILD, counts);
	if (tries <= TRIES_A_CHILD) {
		printf("%llu refused, %llu passed, %llu failed\n",
		       (unsigned long long)counts->refused, (unsigned long long)counts->passed,
		       (unsigned long long)counts->failed);
		exit(0);
	}
	snprintf(text, sizeof(text), "%d", fd);
	snprintf(left, sizeof(left), "%u", tries - TRIES_A_CHILD);
	setenv("RACE_COUNTS", text, 1);
	argv[4] = left;
	execv("/proc/self/exe", argv);
	die("exec");
}

static int race_in(char **argv)
{
	const char *kind = argv[2];
	int port = atoi(argv[3]);
	unsigned int tries = strtoul(argv[4], NULL, 10);
	struct counts *counts = shared(sizeof(*counts));

	if (!strcmp(kind, "exec"))
		exec_on(argv, port, tries);
	else if (!strcmp(kind, "storm"))
		storm(port, tries, counts);
	else
		try_many(port, tries, counts);
	printf("%llu refused, %llu passed, %llu failed\n", (unsigned long long)counts->refused,
	       (unsigned long long)counts->passed, (unsigned long long)counts->failed);
	return 0;
}

/* --- outside ------------------------------------------------------------------------------------------------- */

static int procs_open(const char *cgroup)
{
	char path[PATH_BYTES];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		die(path);
	return fd;
}

/* Until the process is gone. */
static int host_migrate(const char *pid, const char *a, const char *b, unsigned long n)
{
	int fds[2] = { procs_open(a), procs_open(b) };
	unsigned long moved = 0;

	while (moved < n && write(fds[moved & 1], pid, strlen(pid)) > 0)
		moved++;
	printf("%lu moves\n", moved);
	return 0;
}

static int bpf_get(const char *name)
{
	union bpf_attr attr;
	char path[PATH_BYTES];
	int fd;

	snprintf(path, sizeof(path), "/sys/fs/bpf/cordon/%s", name);
	memset(&attr, 0, sizeof(attr));
	attr.pathname = (uintptr_t)path;
	fd = syscall(SYS_bpf, BPF_OBJ_GET, &attr, sizeof(attr));
	if (fd < 0)
		die(path);
	return fd;
}

static int map_try(int command, int fd, uint32_t key, void *value)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = fd;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)value;
	return syscall(SYS_bpf, command, &attr, sizeof(attr));
}

static void map_do(int command, int fd, uint32_t key, void *value)
{
	if (map_try(command, fd, key, value))
		die("bpf");
}

/* As a reload does it: the idle generation is written whole, then one write makes it the active one. */
static int host_flip(uint64_t id, unsigned long n, int torn)
{
	int fences = bpf_get("cordon_fences"), policies = bpf_get("cordon_policies");
	struct cordon_fence fence = { 0 };
	struct cordon_policy policy;
	unsigned long flips = 0;
	uint32_t slot = 0;
	uint8_t loopback;

	while (!map_try(BPF_MAP_LOOKUP_ELEM, fences, slot, &fence) && fence.id != id)
		slot++;
	if (fence.id != id) { /* it ended */
		printf("0 flips\n");
		return 0;
	}
	map_do(BPF_MAP_LOOKUP_ELEM, policies, cordon_tag(slot, fence.generation), &policy);
	loopback = policy.loopback;
	for (; flips < n && fence.id == id; flips++) {
		int open = torn && flips + 1 < n && !(flips & 1);

		policy.loopback = open ? CORDON_LOOPBACK_ALLOW : loopback;
		fence.generation++;
		policy.generation = fence.generation;
		map_do(BPF_MAP_UPDATE_ELEM, policies, cordon_tag(slot, fence.generation), &policy);
		map_do(BPF_MAP_UPDATE_ELEM, fences, slot, &fence);
		usleep(200); /* who tries has the same processor */
		map_do(BPF_MAP_LOOKUP_ELEM, fences, slot, &fence);
	}
	printf("%lu flips\n", flips);
	return 0;
}

/* Children that are born into the fence's cgroup and, while they try, moved out of it. */
static int host_born(const char *a, const char *b, unsigned int tries, int port)
{
	struct counts *counts = shared(sizeof(*counts));
	int cgroup = open(a, O_PATH | O_DIRECTORY | O_CLOEXEC), away = procs_open(b);
	unsigned long born = 0;

	if (cgroup < 0)
		die(a);
	for (unsigned int done = 0; done < tries; done += TRIES_A_CHILD, born++) {
		struct clone_args args = { .flags = CLONE_INTO_CGROUP,
					   .exit_signal = SIGCHLD,
					   .cgroup = cgroup };
		pid_t pid = syscall(SYS_clone3, &args, sizeof(args));
		char text[16];

		if (pid < 0)
			die("clone3");
		if (!pid) {
			try_many(port, TRIES_A_CHILD, counts);
			_exit(0);
		}
		snprintf(text, sizeof(text), "%d", pid);
		if (born & 1)
			(void)!write(away, text, strlen(text));
		waitpid(pid, NULL, 0);
	}
	printf("%llu refused, %llu passed, %llu failed\n", (unsigned long long)counts->refused,
	       (unsigned long long)counts->passed, (unsigned long long)counts->failed);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "in"))
		return race_in(argv);
	if (argc == 7 && !strcmp(argv[1], "host") && !strcmp(argv[2], "migrate"))
		return host_migrate(argv[3], argv[4], argv[5], strtoul(argv[6], NULL, 10));
	if (argc >= 5 && !strcmp(argv[1], "host") && !strcmp(argv[2], "flip"))
		return host_flip(strtoull(argv[3], NULL, 10), strtoul(argv[4], NULL, 10), argc > 5);
	if (argc == 7 && !strcmp(argv[1], "host") && !strcmp(argv[2], "born"))
		return host_born(argv[3], argv[4], strtoul(argv[5], NULL, 10), atoi(argv[6]));
	fprintf(stderr, "see the head of tests/race/race.c\n");
	return 2;
}
