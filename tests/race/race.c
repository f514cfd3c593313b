// SPDX-License-Identifier: Apache-2.0
/*
 * Races of a fence's identity and network, in C, so that 100,000 tries of each fit into seconds of an emulated machine.
 * Two sides: `race in KIND PORT` runs inside a fence (or unfenced, as the control) and tries to send datagrams to a
 * listener outside; `race host KIND ...` runs outside and turns what the fence is in while it tries. The listener is
 * the judge: it counts what arrives. Root, in a virtual machine. Whatever cannot be set up ends it with 2.
 *
 *   race in connect PORT TRIES    sends TRIES datagrams to 127.0.0.2:PORT, each on a socket of its own, half of them
 *                                 connected; prints how many were refused and how many were not
 *   race in storm PORT TRIES      the same in children of children, TRIES in all, a few in each
 *   race in exec PORT TRIES       the same by images that execute one another, a few tries in each
 *   race host migrate PID A B N   moves the process and its threads between cgroups A and B, N times
 *   race host flip SLOT N         flips the active generation of a fence between two equal policies, N times
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

/* One try: odd ones connect first. EPERM is a refusal; what else goes wrong is neither. */
static void try_once(int port, unsigned int n, struct counts *counts)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	long sent = -1;

	inet_pton(AF_INET, "127.0.0.2", &to.sin_addr);
	if (fd >= 0 && n & 1)
		sent = connect(fd, (struct sockaddr *)&to, sizeof(to)) ? -1 : send(fd, "x", 1, 0);
	else if (fd >= 0)
		sent = sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
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

static void map_do(int command, int fd, uint32_t key, void *value)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = fd;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)value;
	if (syscall(SYS_bpf, command, &attr, sizeof(attr)))
		die("bpf");
}

/* As a reload does it: the idle generation is written whole, then one write makes it the active one. */
static int host_flip(uint32_t slot, unsigned long n)
{
	int fences = bpf_get("cordon_fences"), policies = bpf_get("cordon_policies");
	struct cordon_fence fence;
	struct cordon_policy policy;

	map_do(BPF_MAP_LOOKUP_ELEM, fences, slot, &fence);
	map_do(BPF_MAP_LOOKUP_ELEM, policies, cordon_tag(slot, fence.generation), &policy);
	for (unsigned long i = 0; i < n; i++) {
		fence.generation++;
		policy.generation = fence.generation;
		map_do(BPF_MAP_UPDATE_ELEM, policies, cordon_tag(slot, fence.generation), &policy);
		map_do(BPF_MAP_UPDATE_ELEM, fences, slot, &fence);
		usleep(200); /* who tries has the same processor */
	}
	printf("%lu flips\n", n);
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
	if (argc == 5 && !strcmp(argv[1], "host") && !strcmp(argv[2], "flip"))
		return host_flip(strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
	if (argc == 7 && !strcmp(argv[1], "host") && !strcmp(argv[2], "born"))
		return host_born(argv[3], argv[4], strtoul(argv[5], NULL, 10), atoi(argv[6]));
	fprintf(stderr, "see the head of tests/race/race.c\n");
	return 2;
}
