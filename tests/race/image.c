// SPDX-License-Identifier: Apache-2.0
/*
 * image - executes itself for ever, in a cgroup around which tests/race/enter.c puts a fence and takes it off; each
 * image tries to get out, in every way once. Static, so that an exec takes no longer than the kernel needs for it.
 *
 * usage: image STYLE NUMBER BEFORE MET
 *
 *   STYLE   0  it executes the next image itself
 *           1  a thread does, while its leader sleeps: the thread becomes the leader
 *           2  it forks: one side executes the next image, by turns parent or child, the other tries once more and ends
 *           3  it executes a last image in a child by vfork(), then the next
 *           4  the last image of such a child: tries and ends
 *   NUMBER  of the image
 *   BEFORE  the phase that the last image saw before it called exec
 *   MET     1: the last image's exec was under way when a fence came that marks by exec, so this is the one that must be inside
 *
 * enter.h says what is counted; the page is inherited as descriptor SHARED_FD.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "enter.h"

enum style { PLAIN, THREAD, FORK, VFORK, LAST };
enum way { WRITE_FILE, SEND_UNIX, SEND_UDP, SEND_CONNECTED, CONNECT_TCP, WAYS };

static struct race_shared *shared;
static char **arguments;
static enum style style;
static unsigned long number;
static uint32_t before;
static bool was_met;

static uint32_t now(void)
{
	return __atomic_load_n(&shared->phase, __ATOMIC_SEQ_CST);
}

/* Is whoever runs in this phase inside? Without marks, only who executed after the fence came. */
static bool is_inside(uint32_t phase)
{
	return phase % STEPS == FENCED && (!shared->by_exec || before == phase);
}

/* --- attempts --------------------------------------------------------------------------------------------------- */

static bool write_file(enum side side)
{
	int fd = open(shared->file[side], O_WRONLY | O_APPEND | O_CLOEXEC);
	bool passed = fd >= 0 && write(fd, "x", 1) == 1;

	if (fd >= 0)
		close(fd);
	return passed;
}

static bool send_to(int fd, enum way way, const struct sockaddr *to, socklen_t size)
{
	if (way != SEND_CONNECTED && way != CONNECT_TCP)
		return sendto(fd, "x", 1, 0, to, size) == 1;
	return !connect(fd, to, size) && (way == CONNECT_TCP || send(fd, "x", 1, 0) == 1);
}

static bool send_it(enum way way, enum side side)
{
	const struct linger at_once = { .l_onoff = 1 }; /* no port waits for its time to be over */
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(shared->port[side]) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	bool is_unix = way == SEND_UNIX, passed;
	int fd = socket(is_unix ? AF_UNIX : AF_INET,
			(way == CONNECT_TCP ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return false;
	inet_pton(AF_INET, "127.0.0.2", &in.sin_addr);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", shared->unix_path[side]);
	if (way == CONNECT_TCP)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	passed = is_unix ? send_to(fd, way, (struct sockaddr *)&un, sizeof(un))
			 : send_to(fd, way, (struct sockaddr *)&in, sizeof(in));
	err = errno;
	close(fd);
	errno = err;
	return passed;
}

static void add(uint64_t *count)
{
	__atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
}

static void count(struct race_count *counts, bool passed, int err)
{
	if (passed)
		add(&counts->passed);
	else
		add(err == EPERM || err == EROFS || err == EACCES ? &counts->refused
								  : &counts->failed);
}

/* The phase in which it began; 0 (never one of those) when another had come before it ended. */
static uint32_t attempt(enum way way)
{
	enum side side;
	uint32_t phase, lasted;
	bool passed;
	int err;

	for (;;) {
		phase = now();
		__atomic_add_fetch(&shared->busy[phase % STEPS], 1, __ATOMIC_SEQ_CST);
		if (now() == phase)
			break;
		__atomic_sub_fetch(&shared->busy[phase % STEPS], 1, __ATOMIC_SEQ_CST);
	}
	side = is_inside(phase) ? INSIDE : OUTSIDE;
	errno = 0;
	passed = way == WRITE_FILE ? write_file(side) : send_it(way, side);
	err = errno;
	if (passed)
		add(&shared->sent[side]);
	if (side == INSIDE)
		count(&shared->inside, passed, err);
	lasted = now() == phase ? phase : 0;
	if (side == OUTSIDE && lasted && phase % STEPS == OPEN)
		count(&shared->outside, passed, err);
	__atomic_sub_fetch(&shared->busy[phase % STEPS], 1, __ATOMIC_SEQ_CST);
	return lasted;
}

/* Every way once; of the three to 127.0.0.2 one. The phase that it all lay in, or 0. */
static uint32_t attempt_all(void)
{
	uint32_t phase = attempt(WRITE_FILE);

	if (attempt(SEND_UNIX) != phase)
		phase = 0;
	return attempt(SEND_UDP + number % (WAYS - SEND_UDP)) == phase ? phase : 0;
}

/* --- images ----------------------------------------------------------------------------------------------------- */

static void lost(void)
{
	shared->lost_errno = errno;
	shared->lost_phase = now();
	_exit(1);
}

static void exec_next(enum style next, bool met)
{
	char texts[4][24];

	snprintf(texts[0], sizeof(texts[0]), "%d", next);
	snprintf(texts[1], sizeof(texts[1]), "%lu", number + 1);
	snprintf(texts[3], sizeof(texts[3]), "%d", met);
	for (int i = 0; i < 4; i++)
		arguments[1 + i] = texts[i];
	snprintf(texts[2], sizeof(texts[2]), "%u", now());
	execv("/proc/self/exe", arguments);
	lost();
}

static void *exec_thread(void *unused)
{
	exec_next(style, was_met);
	return unused;
}

static void exec_by_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, exec_thread, NULL))
		lost();
	for (;;)
		pause();
}

static void exec_forked(void)
{
	pid_t pid = fork();

	if (pid < 0)
		lost();
	if ((pid == 0) == (number & 1))
		exec_next(style, was_met);
	attempt_all();
	_exit(0);
}

static void exec_vforked(void)
{
	pid_t pid = vfork();

	if (pid < 0)
		lost();
	if (!pid)
		exec_next(LAST, false); /* which changes nothing that is used after it */
	waitpid(pid, NULL, 0);
	exec_next(style, was_met);
}

/* Did the freeze hold this process in its exec? The kernel says so; see enter.c. */
static bool is_held(void)
{
	for (uint32_t i = 0; i < shared->n_held; i++)
		if (shared->held[i] == getpid())
			return true;
	return false;
}

int main(int argc, char **argv)
{
	uint32_t first, phase;
	bool met, held;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
	if (argc != 5 || shared == MAP_FAILED)
		return 2;
	number = strtoul(argv[2], NULL, 10);
	if (!number) {
		__atomic_add_fetch(&shared->entered, 1, __ATOMIC_SEQ_CST);
		while (!now()) /* until all are there; who begins earlier leaves the others no processor */
			usleep(10000);
	}
	first = now();
	arguments = argv;
	style = strtoul(argv[1], NULL, 10);
	before = strtoul(argv[3], NULL, 10);
	met = strtoul(argv[4], NULL, 10);
	add(&shared->images);
	held = first % STEPS == FENCED && before < first && is_held();
	/* A fence that marks by exec holds the next image. */
	was_met = held && shared->by_exec;
	/* When a fence is about to come it executes the next at once, so that many are in an exec then. */
	phase = first % STEPS == ATTACHING ? 0 : attempt_all();
	if (phase && phase == first && (shared->by_exec ? met && before == first : held))
		__atomic_add_fetch(&shared->met, 1, __ATOMIC_SEQ_CST);
	if (phase && phase % STEPS == OPEN)
		__atomic_add_fetch(&shared->opened, 1, __ATOMIC_SEQ_CST);
	if (shared->stop)
		return 0;
	if (style == THREAD)
		exec_by_thread();
	if (style == FORK)
		exec_forked();
	if (style == VFORK)
		exec_vforked();
	if (style == PLAIN || was_met)
		exec_next(style, was_met);
	return 0;
}
