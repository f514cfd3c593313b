// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel's view of open files: which device, inode number and generation the hooks will see. stat() does not
 * always tell (btrfs subvolumes, overlayfs), so an iterator program walks this process's descriptors. Fails closed:
 * an object that cannot be resolved is an error, never a guess.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "enforce/internal.h"

/* Opens the output of an iterator; with own_files, only over this process's descriptors. */
static int iterator_open(int prog_fd, bool own_files, struct error *error)
{
	union bpf_iter_link_info info = { .task = { .pid = own_files ? getpid() : 0 } };
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

struct resolving {
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

int enforce_resolve(struct enforce *enforce, const int *fds, size_t n,
		    struct cordon_object *objects, struct error *error)
{
	struct resolving r = { .fds = fds, .n = n, .objects = objects };
	int err;

	memset(objects, 0, n * sizeof(*objects));
	err = enforce_iterate_records(enforce->prog[ENFORCE_PROG_fence_resolve], true, &r.record,
				      sizeof(r.record), take, &r, error);
	for (size_t i = 0; !err && i < n; i++)
		if (!objects[i].dev && !objects[i].ino)
			err = error_set(error, ENOENT,
					"the kernel did not tell which object a path is");
	return err;
}
