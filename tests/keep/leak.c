// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into cordond by tests/keep/churn --leak: forgets to close every 16th descriptor of a map, link or program (not of
 * others: those may hold a lock), and to free every 16th allocation. So the test shows that it would notice.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EVERY = 16 };

int close(int fd)
{
	static atomic_uint n;
	char path[64], name[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) > 0 && !strncmp(name, "anon_inode:bpf", 14) &&
	    ++n % EVERY == 0)
		return 0;
	return (int)syscall(SYS_close, fd);
}

void free(void *p)
{
	static void (*real)(void *);
	static atomic_uint n;

	if (!real)
		real = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	if (p && malloc_usable_size(p) > 512 && ++n % EVERY == 0)
		return;
	real(p);
}
