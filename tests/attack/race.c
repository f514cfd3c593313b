// SPDX-License-Identifier: Apache-2.0
/*
 * race - tries to get out of a fence between a check and its use; started by tests/attack/races, fenced and not.
 *
 * usage: race flip WORK OUT TRIES [READ]
 *                                     one thread has WORK/t (a directory) and WORK/l (a link to OUT) change places all the
 *                                     time, at once or by one rename after the other; the other changes things below
 *                                     WORK/t in every way, and reads there (READ: reads only)
 *        race exec OUT GO TRIES       executes itself again and again; once the file GO is there, each opening of a new
 *                                     file in OUT that succeeds is an escape
 *
 * Prints counts. Exit: 0 no escape, 3 escapes, 2 could not run.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PER_EXEC = 500, READING = 7, ABSENT_MOST = 100 };

static atomic_int done;
static atomic_long flips;
static long leaks;

/* What stands between a flip by renames is that t is not there, which is no way out but makes other walks. */
static void *flip(void *unused)
{
	while (!done) {
		if (!syscall(SYS_renameat2, AT_FDCWD, "t", AT_FDCWD, "l", RENAME_EXCHANGE))
			flips++;
		sched_yield();
		if (!rename("t", "between") && !rename("l", "t") && !rename("between", "l"))
			flips++;
		sched_yield();
	}
	return unused;
}

/* 0: something was read, of the file inside or, a leak, of the one outside. */
static int attempt_read(void)
{
	int fd = open("t/f", O_RDONLY | O_CLOEXEC);
	char c = 'i';

	if (fd < 0)
		return -1;
	if (read(fd, &c, 1) == 1 && c == 'o')
		leaks++;
	close(fd);
	return 0;
}

/* One try of kind n; 0 when it was done, wherever. */
static int attempt(long n)
{
	int fd;

	switch (n % 9) {
	case 0:
		fd = open("t/new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		break;
	case 1:
		fd = open("t/f", O_WRONLY | O_TRUNC | O_CLOEXEC);
		break;
	case 2:
		return link("t/f", "h") ? -1 : 0;
	case 3:
		return rename("t/f", "got") ? -1 : 0;
	case 4:
		return unlink("t/f");
	case 5:
		return chmod("t/f", 0777);
	case 6:
		return truncate("t/f", 0);
	case READING:
		return attempt_read();
	default:
		return mkdir("t/dir", 0700);
	}
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

/* Puts back what a try took away, in the workdir, whatever t is now. */
static void restore(int real)
{
	int fd = openat(real, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	if (fd >= 0) {
		if (write(fd, "inside\n", 7) != 7)
			exit(2);
		close(fd);
	}
	unlinkat(real, "new", 0);
	unlinkat(real, "dir", AT_REMOVEDIR);
	unlink("h");
	unlink("got");
}

static int run_flip(const char *work, const char *out, long tries, int reads)
{
	long ok = 0, refused = 0, missed = 0, absent = 0;
	pthread_t thread;
	int real;

	if (chdir(work) || (mkdir("t", 0700) && errno != EEXIST) ||
	    (symlink(out, "l") && errno != EEXIST))
		return 2;
	real = open("t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	restore(real);
	if (real < 0 || pthread_create(&thread, NULL, flip, NULL))
		return 2;
	/* A try that found nothing is none; the other thread was stopped between two renames, and has to go on. */
	for (long n = 0; ok + refused + missed < tries && absent < ABSENT_MOST * tries; n++) {
		if (!attempt(reads ? READING : n)) {
			ok++;
			restore(real);
		} else if (errno == EROFS || errno == EXDEV || errno == EACCES) {
			refused++;
		} else if (errno == ENOENT || errno == EEXIST) {
			absent++;
			usleep(1);
		} else {
			missed++;
		}
		if (n % 3 == 0)
			sched_yield();
	}
	done = 1;
	pthread_join(thread, NULL);
	printf("tries %ld done %ld refused %ld absent %ld other %ld flips %ld leaks %ld\n",
	       ok + refused + missed, ok, refused, absent, missed, (long)flips, leaks);
	return 0;
}

static int run_exec(char **argv, long tries)
{
	long escapes = atol(getenv("RACE_ESCAPES") ?: "0"), made = 0;
	char path[4096], text[32];

	snprintf(path, sizeof(path), "%s/escape-%d", argv[2], getpid());
	if (access(argv[3], F_OK)) { /* not fenced yet: go on executing */
		execv("/proc/self/exe", argv);
		return 2;
	}
	for (; made < PER_EXEC && made < tries; made++) {
		int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

		if (fd >= 0) {
			escapes++;
			close(fd);
		}
	}
	if (tries > made) {
		snprintf(text, sizeof(text), "%ld", tries - made);
		argv[4] = text;
		snprintf(path, sizeof(path), "%ld", escapes);
		setenv("RACE_ESCAPES", path, 1);
		execv("/proc/self/exe", argv);
		return 2;
	}
	printf("escapes %ld\n", escapes);
	return escapes ? 3 : 0;
}

int main(int argc, char **argv)
{
	if (argc >= 5 && !strcmp(argv[1], "flip"))
		return run_flip(argv[2], argv[3], atol(argv[4]), argc > 5);
	if (argc == 5 && !strcmp(argv[1], "exec"))
		return run_exec(argv, atol(argv[4]));
	return 2;
}
