// SPDX-License-Identifier: Apache-2.0
/* user/record: whole lines in order, on a file, a full disk and a socket that comes and goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

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
	const struct CMUnitTest tests[] = { T(test_file), T(test_full), T(test_kept_is_bounded),
					    T(test_socket), T(test_refused) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
