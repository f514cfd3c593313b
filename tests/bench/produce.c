// SPDX-License-Identifier: Apache-2.0
/*
 * Makes events for tests/bench/events: connects a datagram socket to 127.0.0.1, again and again, which an attached fence
 * reports each time. Root, where a program is to be attached.
 *
 * usage: produce [--wait FILE] [--program OBJECT NAME CGROUP] PORT CALLS RATE
 *
 * --wait: begins when FILE is there. --program: enters CGROUP, with that program on it, and reads its ring buffer if it
 * has one. RATE: calls a second, in bursts of a millisecond; 0: as fast as it goes. Prints "CALLS NS CPU_NS": the time
 * that passed, and the processor time of the calling thread.
 */
#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 10, POLL_MS = 20, NS_A_MS = 1000000 };

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static void must(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static int on_record(void *context, void *record, size_t size)
{
	(void)context, (void)record, (void)size;
	return 0;
}

static void *read_ring(void *ring)
{
	while (ring_buffer__poll(ring, POLL_MS) >= 0)
		;
	return NULL;
}

/* Attached for as long as this process lives. */
static void program_use(const char *path, const char *name, const char *cgroup)
{
	struct bpf_object *object = bpf_object__open(path);
	struct bpf_program *program, *wanted;
	struct ring_buffer *ring;
	pthread_t reader;
	int fd = open(cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC), procs;

	must(object && fd >= 0, path);
	wanted = bpf_object__find_program_by_name(object, name);
	bpf_object__for_each_program(program, object)
		bpf_program__set_autoload(program, program == wanted);
	must(wanted && !bpf_object__load(object) && bpf_program__attach_cgroup(wanted, fd), name);
	ring = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "bare_ring"), on_record,
				NULL, NULL);
	must(ring && !pthread_create(&reader, NULL, read_ring, ring), "ring");
	procs = openat(fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	must(procs >= 0 && write(procs, "0", 1) == 1, "cgroup.procs");
	close(procs);
}

/* After each millisecond's share: sleeps to the next. */
static void pace(uint64_t begun, uint64_t done, uint64_t rate)
{
	uint64_t due = begun + done * 1000000000ULL / rate;
	struct timespec at = { .tv_sec = (time_t)(due / 1000000000ULL),
			       .tv_nsec = (long)(due % 1000000000ULL) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	const struct timespec look = { .tv_nsec = LOOK_MS * NS_A_MS };
	const char *wait = NULL;
	uint64_t calls, rate, share, begun, cpu;
	int fd, i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--wait") && i + 1 < argc) {
			wait = argv[++i];
		} else if (!strcmp(argv[i], "--program") && i + 3 < argc) {
			program_use(argv[i + 1], argv[i + 2], argv[i + 3]);
			i += 3;
		} else {
			return 2;
		}
	}
	if (i + 3 != argc)
		return 2;
	to.sin_port = htons((uint16_t)atoi(argv[i]));
	calls = strtoull(argv[i + 1], NULL, 10);
	rate = strtoull(argv[i + 2], NULL, 10);
	share = rate / 1000 ? rate / 1000 : 1;
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	while (wait && access(wait, F_OK))
		nanosleep(&look, NULL);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	must(fd >= 0, "socket");
	begun = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint64_t done = 0; done < calls;) {
		must(!connect(fd, (struct sockaddr *)&to, sizeof(to)), "connect");
		if (rate && ++done % share == 0)
			pace(begun, done, rate);
		else if (!rate)
			done++;
	}
	printf("%llu %llu %llu\n", (unsigned long long)calls,
	       (unsigned long long)(clock_ns(CLOCK_MONOTONIC) - begun),
	       (unsigned long long)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu));
	return 0;
}
