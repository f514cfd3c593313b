// SPDX-License-Identifier: Apache-2.0
/* user/record: whole lines in order, on a file, a full disk and a socket that comes and goes; frames to a cordond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "event/frame.h"
#include "record/record.h"

static char dir[64], path[96];

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/cordon-record-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/events", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static void assert_file(const char *want)
{
	char got[4096] = "";
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(read(fd, got, sizeof(got) - 1) >= 0);
	assert_string_equal(got, want);
}

static struct record *open_record(void)
{
	struct record *r = NULL;
	struct error error = { "" };

	assert_int_equal(record_open(path, &r, &error), 0);
	return r;
}

static void test_file(void **state)
{
	struct record *r = open_record();
	struct stat st;
	char moved[128];

	(void)state;
	assert_int_equal(record_write(r, "one\n", 4), 0);
	assert_int_equal(record_write(r, "no newline", 10), -EINVAL);
	assert_int_equal(record_ready(r), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640 & ~umask(022));
	snprintf(moved, sizeof(moved), "%s.1", path);
	rename(path, moved);
	assert_int_equal(record_reopen(r), 0);
	assert_int_equal(record_write(r, "two\n", 4), 0);
	assert_file("two\n");
	unlink(moved);
	record_close(r);
	r = open_record();
	assert_int_equal(record_write(r, "three\n", 6), 0);
	assert_file("two\nthree\n");
	record_close(r);
}

/* A file that may not grow is a full disk. */
static void test_full(void **state)
{
	struct record *r = open_record();
	struct rlimit old, small;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(record_write(r, "0123456\n", 8), 0);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 12;
	setrlimit(RLIMIT_FSIZE, &small);
	assert_int_equal(record_write(r, "abcdefg\n", 8), -EFBIG);
	assert_int_equal(record_ready(r), -EFBIG);
	assert_int_equal(record_write(r, "second\n", 7), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_file("0123456\n"); /* no part of a line stays */
	assert_int_equal(record_ready(r), 0);
	assert_file("0123456\nabcdefg\nsecond\n");
	record_close(r);
}

static void test_kept_is_bounded(void **state)
{
	static char line[65536];
	struct record *r = open_record();
	struct rlimit old, small;
	int err = 0, i;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 1;
	setrlimit(RLIMIT_FSIZE, &small);
	for (i = 0; i < 100 && err != -ENOBUFS; i++)
		err = record_write(r, line, sizeof(line));
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(err, -ENOBUFS);
	assert_int_equal(i, RECORD_KEPT_MAX / sizeof(line) + 1);
	assert_int_equal(record_dropped(r), 1);
	record_close(r);
}

static int listener(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(address.sun_path, path);
	unlink(path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

static void test_socket(void **state)
{
	int fd = listener(), peer;
	struct record *r = open_record();
	char got[64];

	(void)state;
	peer = accept(fd, NULL, NULL);
	assert_int_equal(record_write(r, "one\n", 4), 0);
	assert_int_equal(recv(peer, got, sizeof(got), 0), 4);
	close(peer);
	close(fd);
	assert_int_equal(record_write(r, "two\n", 4), -EPIPE);
	assert_int_equal(record_ready(r), -ECONNREFUSED);
	fd = listener();
	assert_int_equal(record_ready(r), 0);
	peer = accept(fd, NULL, NULL);
	assert_int_equal(recv(peer, got, sizeof(got), 0), 4);
	assert_memory_equal(got, "two\n", 4);
	close(peer);
	close(fd);
	record_close(r);
}

/* --- cordond ---------------------------------------------------------------------------------- */

/* One that this test plays: takes n frames, answers each with err, and hangs up. */
struct played {
	pthread_t thread;
	int fd; /* listening */
	unsigned int n;
	int err;
	bool silent; /* does not answer the last */
	struct event_frame got[8];
	unsigned int have;
};

static void *play(void *data)
{
	struct played *p = data;
	int peer = accept(p->fd, NULL, NULL);

	for (unsigned int i = 0; i < p->n; i++) {
		const struct event_frame_answer answer = { EVENT_FRAME_MAGIC, p->err };
		char frame[EVENT_FRAME_MAX];

		if (recv(peer, frame, sizeof(frame), 0) < (ssize_t)sizeof(p->got[0]))
			break;
		memcpy(&p->got[p->have++], frame, sizeof(p->got[0]));
		if (!p->silent || i + 1 < p->n)
			send(peer, &answer, sizeof(answer), MSG_NOSIGNAL);
	}
	if (p->silent) /* until the other side has had enough */
		(void)!read(peer, &(char){ 0 }, 1);
	close(peer);
	return NULL;
}

static void played_begin(struct played *p)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	p->have = 0;
	p->fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	strcpy(address.sun_path, path);
	unlink(path);
	assert_int_equal(bind(p->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(p->fd, 4), 0);
	assert_int_equal(pthread_create(&p->thread, NULL, play, p), 0);
}

static void played_end(struct played *p)
{
	pthread_join(p->thread, NULL);
	close(p->fd);
}

static int changes[8];
static unsigned int n_changes;

static void on_change(void *context, const char *target, int err)
{
	assert_ptr_equal(context, changes);
	assert_string_equal(target, path);
	changes[n_changes++] = err;
}

static void test_cordond(void **state)
{
	const struct event_context context = { .task = "t" };
	static char frame[EVENT_FRAME_MAX];
	static struct event event;
	struct played p = { .n = 2 };
	char target[160];
	struct record *r;
	struct error error = { "" };
	size_t size;

	(void)state;
	n_changes = 0;
	event_make(&event, CORDON_OP_CALL, NULL, NULL, 1, NULL);
	size = event_frame_encode(frame, &context, &event);
	snprintf(target, sizeof(target), "cordond:%s", path);
	/* None is there: that is no error, what is written is kept. */
	assert_int_equal(record_open(target, &r, &error), 0);
	record_on_change(r, on_change, changes);
	assert_true(record_takes_frames(r));
	assert_int_equal(record_ready(r), -ENOENT);
	assert_int_equal(record_write(r, "no frame\n", 9), -EINVAL);
	assert_int_equal(record_write(r, frame, size), -ENOENT);
	/* It comes: what was kept, then what is new, each when it was answered for. */
	played_begin(&p);
	assert_int_equal(record_ready(r), 0);
	assert_int_equal(record_write(r, frame, size), 0);
	played_end(&p);
	assert_int_equal(p.have, 2);
	assert_true(p.got[0].number == 1 && p.got[1].number == 2);
	assert_true(p.got[0].instance && p.got[0].instance == p.got[1].instance);
	/* It went: that is seen before something is decided. */
	assert_int_equal(record_ready(r), -ECONNREFUSED);
	/* It hangs up without an answer, and is there again at once: the same frame, by its number. */
	p.n = 1;
	played_begin(&p);
	assert_int_equal(record_ready(r), 0);
	assert_int_equal(record_write(r, frame, size), 0);
	played_end(&p);
	p.n = 1;
	played_begin(&p);
	assert_int_equal(record_write(r, frame, size), 0);
	played_end(&p);
	assert_int_equal(p.got[0].number, 4);
	/* It refuses: kept, and not tried again at once. */
	p.err = -EBADMSG;
	played_begin(&p);
	assert_int_equal(record_write(r, frame, size), -EBADMSG);
	assert_int_equal(record_ready(r), -EBADMSG);
	played_end(&p);
	assert_int_equal(p.have, 1);
	assert_int_equal(changes[0], -ENOENT);
	assert_int_equal(changes[1], 0);
	assert_int_equal(changes[2], -ECONNREFUSED);
	assert_int_equal(changes[3], 0);
	record_on_change(r, NULL, NULL);
	record_close(r);
}

/* One that does not answer: the wait is bounded, the frame is kept, and sent again with its number. */
static void test_cordond_silent(void **state)
{
	const struct event_context context = { .task = "t" };
	static char frame[EVENT_FRAME_MAX];
	static struct event event;
	struct played p = { .n = 1, .silent = true };
	char target[160];
	struct record *r;
	struct error error = { "" };
	size_t size;
	int err;

	(void)state;
	event_make(&event, CORDON_OP_CALL, NULL, NULL, 1, NULL);
	size = event_frame_encode(frame, &context, &event);
	snprintf(target, sizeof(target), "cordond:%s", path);
	played_begin(&p);
	assert_int_equal(record_open(target, &r, &error), 0);
	record_set_answer_ms(r, 100);
	played_end(&p); /* the connection of record_open() */
	played_begin(&p);
	assert_int_equal(record_write(r, frame, size), -ETIMEDOUT);
	assert_int_equal(record_ready(r), -ETIMEDOUT);
	played_end(&p);
	assert_int_equal(p.have, 1);
	p.silent = false;
	played_begin(&p);
	record_set_answer_ms(r, 60000);
	while ((err = record_ready(r)) == -ETIMEDOUT) /* after a pause it is tried again */
		poll(NULL, 0, 20);
	assert_int_equal(err, 0);
	played_end(&p);
	assert_int_equal(p.have, 1);
	assert_int_equal(p.got[0].number, 1);
	record_close(r);
}

static void test_refused(void **state)
{
	struct record *r;
	struct error error = { "" };

	(void)state;
	assert_int_equal(record_open("/nowhere/at/all", &r, &error), -ENOENT);
	assert_non_null(strstr(error.text, "/nowhere/at/all"));
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_int_equal(record_open(path, &r, &error), -ELOOP);
	assert_int_equal(record_open(NULL, &r, &error), 0);
	assert_int_equal(record_write(r, "x\n", 2), 0);
	record_close(r);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_file),	 T(test_full),		 T(test_kept_is_bounded), T(test_socket),
		T(test_cordond), T(test_cordond_silent), T(test_refused)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
