// SPDX-License-Identifier: Apache-2.0
/*
 * An owner of fences that does as it is told: for tests/keep, which kills it and has another take its fences over, and
 * for figures of many fences. Root.
 *
 * usage: owner [--degraded] [--policy FILE --workdir DIR]    (commands on stdin, a line each; an answer of one line each)
 *        owner [--degraded] --policy FILE --workdir DIR --bench COUNT...
 *
 *   make CGROUP          a fence on a cgroup that exists, as of `attach`      -> ok ID
 *   mark                 marks the tasks that are in it already
 *   keep TEXT            keeps it with that record
 *   list                 -> ok ID:SLOT:kept|-:owned|-:attached|-:PATH ...
 *   adopt ID             takes it over                                        -> ok GENERATION TEXT
 *   set                  the policy, once more                                -> ok GENERATION
 *   selftest             -> ok PROBES
 *   read MS FILE         events; FILE remembers which were seen across owners -> ok RECORDS FIRST LAST GAPS REPEATED NUMBERED
 *   finish FILE          the same, with what is missing for good
 *   reader MS            events, read by a process without any capability     -> ok RECORDS FIRST LAST
 *   watch                -> ok 0|1
 *   upgrade              brings this program's set into effect in place of another build's
 *   leave | end          of the fence
 *   open | loaded | close   of the node; `open` is done for whoever did neither
 *
 * An answer is "ok ..." or "error ERRNO TEXT". The last fence that was made or adopted is the one that all is about.
 * Exit: 0 when stdin ends; the fence is left as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "enforce/enforce.h"
#include "event/event.h"
#include "policy/policy.h"
#include "util/util.h"

enum { MORE_DESCRIPTORS = 1 << 20, NOBODY = 65534 };

static bool degraded;
static struct host_report report;
static struct enforce *enforce;
static struct image *image;
static struct enforce_fence *fence;
static struct host_cgroup cgroup = { .fd = -1 };

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static int compile(const char *path, const char *workdir, struct error *error)
{
	struct policy_options options = { .check_paths = true, .workdir = workdir };
	struct conf_faults faults = { 0 };
	struct policy *policy = NULL;
	int err = policy_load(path, &options, &policy, &faults);

	if (!err)
		err = policy_compile(policy, &image);
	policy_free(policy);
	return err ? error_set(error, -err, "%s: no policy", path) : 0;
}

static int node_open(struct error *error)
{
	return enforce ? 0 : enforce_open(&report, degraded, &enforce, error);
}

/* --- events ------------------------------------------------------------------------------------------------- */

struct seen {
	uint64_t records, first, last, gaps;
	struct event_tracker *tracker; /* in a file; NULL: none */
};

static void see_gap(struct seen *seen, const struct event_gap *gap)
{
	struct cordon_event raw = { .op = CORDON_OP_GAP };
	struct event_gap more;

	raw.seq = enforce_number_take(enforce_fence_state(fence));
	seen->gaps += gap->count;
	seen->records++;
	event_tracker_see(seen->tracker, &raw, &more);
}

static void on_record(void *context, const void *record, size_t size)
{
	const struct cordon_event *event = record;
	struct seen *seen = context;
	struct event_gap gap;

	(void)size;
	if (!seen->records++)
		seen->first = event->seq;
	seen->last = event->seq;
	if (seen->tracker && event_tracker_see(seen->tracker, event, &gap))
		see_gap(seen, &gap);
}

/* The tracker lies in a file, and so goes on where the last owner's reading ended. */
static struct event_tracker *tracker_map(const char *path)
{
	struct event_tracker *tracker;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	bool new = fd >= 0 && lseek(fd, 0, SEEK_END) == 0;

	if (fd < 0 || (new &&ftruncate(fd, sizeof(*tracker))))
		return NULL;
	tracker = mmap(NULL, sizeof(*tracker), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (tracker == MAP_FAILED)
		return NULL;
	if (new)
		event_tracker_init(tracker, 0, 0);
	return tracker;
}

static int do_read(const char *argument, bool finish, char *answer, size_t size)
{
	const struct cordon_state *state = enforce_fence_state(fence);
	struct seen seen = { 0 };
	struct event_gap gap;
	uint64_t end;
	char path[200] = "";
	int ms = 0;

	if (finish)
		snprintf(path, sizeof(path), "%s", argument);
	else
		sscanf(argument, "%d %199s", &ms, path);
	end = now_ns() + ms * 1000000ULL;
	seen.tracker = tracker_map(path);
	if (!seen.tracker)
		return -errno;
	do {
		int n = enforce_fence_poll(fence, finish ? 0 : 20, on_record, &seen);

		if (n < 0)
			return n;
		if (!n && event_tracker_poll(seen.tracker, state->seq, state->lost, now_ns(), &gap))
			see_gap(&seen, &gap);
	} while (now_ns() < end);
	while (finish && event_tracker_finish(seen.tracker, state->seq, &gap))
		see_gap(&seen, &gap);
	snprintf(answer, size, " %llu %llu %llu %llu %llu %llu", (unsigned long long)seen.records,
		 (unsigned long long)seen.first, (unsigned long long)seen.last,
		 (unsigned long long)seen.gaps, (unsigned long long)seen.tracker->repeated,
		 (unsigned long long)state->seq);
	munmap(seen.tracker, sizeof(*seen.tracker));
	return 0;
}

/* Sends the two descriptors over a socket, as a daemon does. */
static int send_fds(int socket_fd, const int *fds, size_t n)
{
	char control[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (char *)"x", .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	return sendmsg(socket_fd, &msg, 0) == 1 ? 0 : -errno;
}

static int receive_fds(int socket_fd, int *fds, size_t n)
{
	char control[CMSG_SPACE(4 * sizeof(int))] = { 0 }, byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c;

	if (recvmsg(socket_fd, &msg, 0) != 1)
		return -EIO;
	c = CMSG_FIRSTHDR(&msg);
	if (!c || c->cmsg_len != CMSG_LEN(n * sizeof(int)))
		return -EBADMSG;
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	return 0;
}

/* The reader: another user, no capability, nothing but the two descriptors. */
static int reader(int socket_fd, int ms, size_t ring_bytes, uint32_t room, uint32_t slot,
		  char *answer, size_t size)
{
	struct enforce_ring *ring = NULL;
	struct cordon_state *states;
	struct seen seen = { 0 };
	struct error error = { "" };
	uint64_t end, before, number;
	int fds[2], err;

	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	err = receive_fds(socket_fd, fds, 2);
	if (!err)
		err = enforce_ring_open(fds[0], ring_bytes, &ring, &error);
	states = err ? NULL : enforce_state_map(fds[1], room, &error);
	if (!states) {
		snprintf(answer, size, "%s", error.text);
		return err ? err : -EIO;
	}
	before = states[slot].seq;
	number = enforce_number_take(&states[slot]);
	if (number <= before)
		return -ERANGE;
	for (end = now_ns() + ms * 1000000ULL; now_ns() < end;)
		if (enforce_ring_poll(ring, 20, on_record, &seen) < 0)
			return -EIO;
	snprintf(answer, size, " %llu %llu %llu", (unsigned long long)seen.records,
		 (unsigned long long)seen.first, (unsigned long long)seen.last);
	enforce_ring_close(ring);
	enforce_state_unmap(states, room);
	return 0;
}

static int do_reader(int ms, char *answer, size_t size)
{
	uint32_t room = enforce_fences_room(enforce), slot = enforce_fence_slot(fence);
	int sockets[2], out[2], fds[2], status, n, err;
	size_t bytes;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || pipe(out))
		return -errno;
	pid = fork();
	if (!pid) {
		/* All that it inherits is closed, but its socket and its way back. */
		int socket_fd = dup2(sockets[1], 3), back = dup2(out[1], 4);

		close_range(5, ~0U, 0);
		err = reader(socket_fd, ms, ENFORCE_RING_MIN, room, slot, answer, size);
		(void)!write(back, answer, strlen(answer));
		_exit(-err);
	}
	close(sockets[1]);
	close(out[1]);
	fds[0] = enforce_fence_ring_fd(fence, &bytes);
	fds[1] = enforce_state_fd(enforce);
	err = bytes == ENFORCE_RING_MIN ? send_fds(sockets[0], fds, 2) : -EINVAL;
	n = read(out[0], answer, size - 1);
	answer[n > 0 ? n : 0] = '\0';
	close(sockets[0]);
	close(out[0]);
	waitpid(pid, &status, 0);
	return err ? err : WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

/* --- commands ----------------------------------------------------------------------------------------------- */

static int do_make(const char *path, char *answer, size_t size, struct error *error)
{
	struct enforce_fence_options options = { .cgroup = &cgroup,
						 .attached = true,
						 .ring_bytes = ENFORCE_RING_MIN };
	int err = node_open(error);

	if (!err)
		err = host_cgroup_open(path, &cgroup, error);
	if (!err)
		err = enforce_fence_make(enforce, &options, &fence, error);
	if (!err)
		err = enforce_fence_set(fence, image, getpid(), true, error);
	if (!err)
		snprintf(answer, size, " %llu", (unsigned long long)enforce_fence_info(fence)->id);
	return err;
}

static void on_listed(void *context, const struct enforce_listed *l)
{
	char *answer = context;
	size_t n = strlen(answer);

	snprintf(answer + n, 65536 - n, " %llu:%u:%s:%s:%s:%s", (unsigned long long)l->fence_id,
		 l->slot, l->kept ? "kept" : "-", l->owned ? "owned" : "-",
		 l->attached ? "attached" : "-", l->cgroup);
}

static int do_adopt(const char *argument, char *answer, size_t size, struct error *error)
{
	size_t record_size = 0;
	void *record = NULL;
	int err = node_open(error);

	if (!err)
		err = enforce_fence_adopt(enforce, strtoull(argument, NULL, 10), &fence, &record,
					  &record_size, error);
	if (!err)
		snprintf(answer, size, " %u %.*s", enforce_fence_info(fence)->generation,
			 (int)record_size, (const char *)record);
	free(record);
	return err;
}

/* The answer without its "ok", or -errno. */
static int command(const char *verb, const char *argument, char *answer, size_t size,
		   struct error *error)
{
	unsigned int probes;
	int err;

	if (!strcmp(verb, "make"))
		return do_make(argument, answer, size, error);
	if (!strcmp(verb, "adopt"))
		return do_adopt(argument, answer, size, error);
	if (!strcmp(verb, "open"))
		return node_open(error);
	if (!strcmp(verb, "loaded"))
		return enforce_open_loaded(&enforce, error);
	if (!strcmp(verb, "upgrade"))
		return enforce_upgrade(&report, error);
	if (!strcmp(verb, "close")) {
		enforce_close(enforce);
		enforce = NULL;
		return 0;
	}
	if (!strcmp(verb, "list")) {
		err = node_open(error);
		return err ? err : enforce_fence_list(enforce, on_listed, answer, error);
	}
	if (!fence)
		return error_set(error, EINVAL, "no fence, or no command: %s", verb);
	if (!strcmp(verb, "mark"))
		return enforce_fence_mark_tasks(fence, error);
	if (!strcmp(verb, "keep"))
		return enforce_fence_keep(fence, argument, strlen(argument), error);
	if (!strcmp(verb, "set")) {
		err = enforce_fence_set(fence, image, getpid(), true, error);
		snprintf(answer, size, " %u", enforce_fence_info(fence)->generation);
		return err;
	}
	if (!strcmp(verb, "selftest")) {
		err = enforce_fence_selftest(fence, &probes, error);
		snprintf(answer, size, " %u", probes);
		return err;
	}
	if (!strcmp(verb, "watch")) {
		err = enforce_fence_watch(fence, error);
		snprintf(answer, size, " %d", err);
		return 0;
	}
	if (!strcmp(verb, "read") || !strcmp(verb, "finish"))
		return do_read(argument, verb[0] == 'f', answer, size);
	if (!strcmp(verb, "reader"))
		return do_reader(atoi(argument), answer, size);
	if (strcmp(verb, "leave") && strcmp(verb, "end"))
		return error_set(error, EINVAL, "no command: %s", verb);
	if (verb[0] == 'l')
		enforce_fence_leave(fence);
	else
		enforce_fence_end(fence);
	fence = NULL;
	host_cgroup_close(&cgroup);
	return 0;
}

static int serve(void)
{
	static char answer[65536];
	char *line = NULL, *argument;
	size_t room = 0;

	while (getline(&line, &room, stdin) > 0) {
		struct error error = { "" };
		int err;

		line[strcspn(line, "\n")] = '\0';
		argument = strchr(line, ' ');
		if (argument)
			*argument++ = '\0';
		answer[0] = '\0';
		err = command(line, argument ? argument : "", answer, sizeof(answer), &error);
		if (err)
			printf("error %d %s\n", -err, error.text[0] ? error.text : answer);
		else
			printf("ok%s\n", answer);
		fflush(stdout);
	}
	free(line);
	return 0;
}

/* --- many --------------------------------------------------------------------------------------------------- */

struct fenced {
	struct host_cgroup cgroup;
	struct enforce_fence *fence;
};

static double since_ms(uint64_t start)
{
	return (double)(now_ns() - start) / 1e6;
}

static int bench_make(struct fenced *f, unsigned int n, struct error *error)
{
	struct enforce_fence_options options = { .cgroup = &f->cgroup,
						 .attached = true,
						 .ring_bytes = ENFORCE_RING_MIN };
	int err = enforce_fence_make(enforce, &options, &f->fence, error);

	(void)n;
	return err ? err : enforce_fence_set(f->fence, image, getpid(), true, error);
}

/* `count` fences made and ended; times are of a fence, without making its cgroup. */
static int bench(unsigned int count, struct error *error)
{
	struct fenced *fences = calloc(count, sizeof(*fences));
	unsigned int made = 0;
	uint64_t start;
	int err = fences ? 0 : -ENOMEM;
	double made_ms, kept_ms, ended_ms;
	char name[64];

	for (unsigned int i = 0; !err && i < count; i++) {
		snprintf(name, sizeof(name), "owner-%u", i);
		err = host_cgroup_make(name, &fences[i].cgroup, error);
	}
	start = now_ns();
	for (; !err && made < count; made++)
		err = bench_make(&fences[made], made, error);
	made_ms = since_ms(start);
	start = now_ns();
	for (unsigned int i = 0; !err && i < made; i++)
		err = enforce_fence_keep(fences[i].fence, "record", 6, error);
	kept_ms = since_ms(start);
	start = now_ns();
	for (unsigned int i = 0; i < made; i++)
		enforce_fence_end(fences[i].fence);
	ended_ms = since_ms(start);
	for (unsigned int i = 0; fences && i < count; i++)
		host_cgroup_remove(&fences[i].cgroup, NULL);
	free(fences);
	if (!err)
		printf("%6u fences: made %.2f ms, kept %.3f ms, ended %.2f ms each\n", count,
		       made_ms / count, kept_ms / count, ended_ms / count);
	fflush(stdout);
	return err;
}

static int bench_all(char **counts, struct error *error)
{
	const struct rlimit more = { MORE_DESCRIPTORS, MORE_DESCRIPTORS };
	int err = node_open(error);

	setrlimit(RLIMIT_NOFILE, &more);
	for (; !err && *counts; counts++)
		err = bench(strtoul(*counts, NULL, 10), error);
	enforce_close(enforce);
	return err;
}

int main(int argc, char **argv)
{
	const char *policy = NULL, *workdir = NULL;
	struct error error = { "" };
	char **counts = NULL;
	int err = 0;

	(void)argc;
	for (argv++; *argv && !counts; argv++) {
		if (!strcmp(*argv, "--degraded"))
			degraded = true;
		else if (!strcmp(*argv, "--policy") && argv[1])
			policy = *++argv;
		else if (!strcmp(*argv, "--workdir") && argv[1])
			workdir = *++argv;
		else if (!strcmp(*argv, "--bench"))
			counts = argv + 1;
		else
			return 2;
	}
	host_probe(&report);
	if (policy)
		err = compile(policy, workdir, &error);
	if (!err)
		err = counts ? bench_all(counts, &error) : serve();
	if (err)
		fprintf(stderr, "owner: %s\n", error.text[0] ? error.text : strerror(-err));
	return err ? 1 : 0;
}
