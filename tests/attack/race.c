// SPDX-License-Identifier: Apache-2.0
/*
 * race - tries to get out of a fence between a check and its use; started by tests/attack/races, fenced and not.
 *
 * usage: race flip WORK OUT TRIES     one thread exchanges WORK/t (a directory) and WORK/l (a link to OUT) all the time,
 *                                     the other changes things below WORK/t in every way
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

enum { PER_EXEC = 500 };

static atomic_int done;
static atomic_long flips;

static void *flip(void *unused)
{
	while (!done) {
		if (!syscall(SYS_renameat2, AT_FDCWD, "t", AT_FDCWD, "l", 2))
			flips++;
		sched_yield();
	}
	return unused;
}

/* One try of kind n; 0 when it was done, wherever. */
static int attempt(long n)
{
	int fd;

	switch (n % 8) {
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

static int run_flip(const char *work, const char *out, long tries)
{
	long ok = 0, refused = 0, missed = 0;
	pthread_t thread;
	int real;

	if (chdir(work) || (mkdir("t", 0700) && errno != EEXIST) ||
	    (symlink(out, "l") && errno != EEXIST))
		return 2;
	real = open("t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	restore(real);
	if (real < 0 || pthread_create(&thread, NULL, flip, NULL))
		return 2;
	for (long n = 0; n < tries; n++) {
		if (!attempt(n)) {
			ok++;
			restore(real);
		} else if (errno == EROFS || errno == EXDEV) {
			refused++;
		} else {
			missed++;
		}
		if (n % 3 == 0)
			sched_yield();
	}
	done = 1;
	pthread_join(thread, NULL);
	printf("tries %ld done %ld refused %ld other %ld flips %ld\n", tries, ok, refused, missed,
	       (long)flips);
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
	if (argc == 5 && !strcmp(argv[1], "flip"))
		return run_flip(argv[2], argv[3], atol(argv[4]));
	if (argc == 5 && !strcmp(argv[1], "exec"))
		return run_exec(argv, atol(argv[4]));
	return 2;
}
