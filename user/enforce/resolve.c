// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel's view of open files: which device, inode number and generation the hooks will see. stat() does not
 * always tell (btrfs subvolumes, overlayfs), so an iterator program walks this process's descriptors. Fails closed:
 * an object that cannot be resolved is an error, never a guess.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "enforce/internal.h"

/* Opens the output of an iterator; with own_files, only over this thread's descriptors. */
static int iterator_open(int prog_fd, bool own_files, struct error *error)
{
	union bpf_iter_link_info info = { .task = { .tid = own_files ? gettid() : 0 } };
	LIBBPF_OPTS(bpf_link_create_opts, opts, .iter_info = &info, .iter_info_len = sizeof(info));
	_cleanup_close_ int link_fd =
		bpf_link_create(prog_fd, 0, BPF_TRACE_ITER, own_files ? &opts : NULL);
	int fd;

	if (link_fd < 0)
		return error_set(error, errno, "cannot start an iterator: %s", strerror(errno));
	fd = bpf_iter_create(link_fd);
	if (fd < 0)
		return error_set(error, errno, "cannot read an iterator: %s", strerror(errno));
	return fd;
}

int enforce_iterate_records(int prog_fd, bool own_files, void *record, size_t size,
			    void (*fn)(void *context), void *context, struct error *error)
{
	_cleanup_close_ int fd = iterator_open(prog_fd, own_files, error);
	size_t have = 0;
	ssize_t got;

	if (fd < 0)
		return fd;
	while ((got = read(fd, (char *)record + have, size - have)) > 0) {
		have += got;
		if (have < size)
			continue;
		fn(context);
		have = 0;
	}
	return got < 0 ? error_set(error, errno, "iterator: %s", strerror(errno)) : 0;
}

static void nothing(void *context)
{
	(void)context;
}

int enforce_iterate(int prog_fd, struct error *error)
{
	char buffer[256];

	return enforce_iterate_records(prog_fd, false, buffer, sizeof(buffer), nothing, NULL,
				       error);
}

/*
 * An iterator goes through all descriptors that there are, and an owner of many fences has some for each of them. So it
 * runs in a thread with a table of descriptors of its own, in which the others are closed.
 */
struct resolving {
	int prog_fd;
	struct error *error;
	int err;
	struct cordon_object record;
	const int *fds;
	size_t n;
	struct cordon_object *objects;
};

static void take(void *context)
{
	const struct resolving *r = context;

	for (size_t i = 0; i < r->n; i++)
		if ((uint32_t)r->fds[i] == r->record.fd)
			r->objects[i] = r->record;
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Leaves these open, of this thread's own table. */
static int others_close(const int *fds, size_t n, int prog_fd)
{
	_cleanup_free_ int *keep = malloc((n + 1) * sizeof(*keep));
	unsigned int next = 0;

	if (!keep || unshare(CLONE_FILES))
		return -errno;
	memcpy(keep, fds, n * sizeof(*keep));
	keep[n] = prog_fd;
	qsort(keep, n + 1, sizeof(*keep), by_number);
	for (size_t i = 0; i <= n; i++) {
		if ((unsigned int)keep[i] > next)
			close_range(next, keep[i] - 1, 0);
		next = keep[i] + 1;
	}
	close_range(next, ~0U, 0);
	return 0;
}

static void *resolve_here(void *context)
{
	struct resolving *r = context;

	r->err = others_close(r->fds, r->n, r->prog_fd);
	if (r->err)
		error_set(r->error, -r->err, "cannot resolve paths: %s", strerror(-r->err));
	else
		r->err = enforce_iterate_records(r->prog_fd, true, &r->record, sizeof(r->record),
						 take, r, r->error);
	return NULL;
}

int enforce_resolve(struct enforce *enforce, const int *fds, size_t n,
		    struct cordon_object *objects, struct error *error)
{
	struct resolving r = {
		.prog_fd = enforce->prog[ENFORCE_PROG_fence_resolve],
		.error = error,
		.fds = fds,
		.n = n,
		.objects = objects,
	};
	pthread_t thread;
	int err;

	memset(objects, 0, n * sizeof(*objects));
	err = pthread_create(&thread, NULL, resolve_here, &r);
	if (err)
		return error_set(error, err, "cannot make a thread: %s", strerror(err));
	pthread_join(thread, NULL);
	err = r.err;
	for (size_t i = 0; !err && i < n; i++)
		if (!objects[i].dev && !objects[i].ino)
			err = error_set(error, ENOENT,
					"the kernel did not tell which object a path is");
	return err;
}
