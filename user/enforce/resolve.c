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

int enforce_iterate(int prog_fd, struct error *error)
{
	_cleanup_close_ int fd = iterator_open(prog_fd, false, error);
	char buffer[4096];
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		;
	return n < 0 ? error_set(error, errno, "iterator: %s", strerror(errno)) : 0;
}

static void take(const struct cordon_object *object, const int *fds, size_t n,
		 struct cordon_object *objects)
{
	for (size_t i = 0; i < n; i++)
		if ((uint32_t)fds[i] == object->fd)
			objects[i] = *object;
}

int enforce_resolve(struct enforce *enforce, const int *fds, size_t n,
		    struct cordon_object *objects, struct error *error)
{
	_cleanup_close_ int fd =
		iterator_open(enforce->prog[ENFORCE_PROG_fence_resolve], true, error);
	struct cordon_object object;
	size_t have = 0;
	ssize_t got;

	if (fd < 0)
		return fd;
	memset(objects, 0, n * sizeof(*objects));
	while ((got = read(fd, (char *)&object + have, sizeof(object) - have)) > 0) {
		have += got;
		if (have < sizeof(object))
			continue;
		take(&object, fds, n, objects);
		have = 0;
	}
	if (got < 0)
		return error_set(error, errno, "iterator: %s", strerror(errno));
	for (size_t i = 0; i < n; i++)
		if (!objects[i].dev && !objects[i].ino)
			return error_set(error, ENOENT,
					 "the kernel did not tell which object a path is");
	return 0;
}
