// SPDX-License-Identifier: Apache-2.0
/*
 * Are the cgroup programs of a fence still in effect? A process outside with the right to can detach a link behind its
 * owner's back. The owner asks the kernel once a second; when one is gone, the fence is marked as broken, which shuts its
 * network in the LSM programs and in those that are left, for good: what the missing one would have seen nobody knows.
 * Root. Fails closed: what cannot be asked counts as gone, unless nobody is left in the cgroup.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "enforce/internal.h"

enum { WATCH_INTERVAL_MS = 1000, PROGRAMS_MAX = 64 };

static int fd_prog_id(int fd, bool is_link, uint32_t *ret_id)
{
	struct bpf_prog_info prog = { 0 };
	struct bpf_link_info link = { 0 };
	uint32_t size = is_link ? sizeof(link) : sizeof(prog);

	if (bpf_obj_get_info_by_fd(fd, is_link ? (void *)&link : (void *)&prog, &size))
		return -errno;
	*ret_id = is_link ? link.prog_id : prog.id;
	return 0;
}

/* The program that the fence's own link holds now: another build may have put its own there (enforce_upgrade()). */
static int link_prog_id(const struct enforce_fence *fence, enum enforce_prog prog, uint32_t *ret_id)
{
	_cleanup_close_ int fd = -1;
	char path[256];

	snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/fence_%llu/link_%s",
		 (unsigned long long)fence->info.id, enforce_prog_name(prog));
	fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd_prog_id(fd, true, ret_id);
}

static bool contains(const uint32_t *ids, uint32_t n, uint32_t id)
{
	for (uint32_t i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* Is the program among those that run for the cgroup? -errno when it cannot be asked. */
static int is_attached(const struct enforce_fence *fence, enum enforce_prog prog)
{
	uint32_t ids[PROGRAMS_MAX], count = ARRAY_SIZE(ids), flags, id = 0;
	int err = fd_prog_id(fence->enforce->prog[prog], false, &id);

	if (!err && bpf_prog_query(fence->cgroup->fd, enforce_prog_attach_type(prog),
				   BPF_F_QUERY_EFFECTIVE, &flags, ids, &count))
		err = -errno;
	if (err)
		return err;
	if (contains(ids, count, id))
		return 1;
	/* Twice: it may be taken over between the two questions. */
	for (int i = 0; i < 2; i++) {
		if (link_prog_id(fence, prog, &id))
			return 0;
		if (contains(ids, count, id))
			return 1;
		count = ARRAY_SIZE(ids);
		if (bpf_prog_query(fence->cgroup->fd, enforce_prog_attach_type(prog),
				   BPF_F_QUERY_EFFECTIVE, &flags, ids, &count))
			return -errno;
	}
	return contains(ids, count, id);
}

int enforce_check_attached(const struct enforce_fence *fence, struct error *error)
{
	for (int prog = 0; prog < ENFORCE_PROG_fence_mark_all; prog++) {
		int attached = is_attached(fence, prog);

		if (attached < 0)
			return error_set(error, -attached,
					 "cannot ask whether %s is attached to %s: %s",
					 enforce_prog_name(prog), fence->cgroup->path,
					 strerror(-attached));
		if (!attached)
			return error_set(error, EXFULL, "%s is not attached to %s",
					 enforce_prog_name(prog), fence->cgroup->path);
	}
	return 0;
}

static void fence_break(struct enforce_fence *fence)
{
	fence->info.broken = 1;
	bpf_map_update_elem(fence->enforce->map[ENFORCE_MAP_fences], &fence->slot, &fence->info,
			    BPF_ANY);
}

int enforce_fence_watch(struct enforce_fence *fence, struct error *error)
{
	struct timespec now;
	uint64_t now_ms;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ms = now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
	enforce_fence_flush(fence, false);
	if (fence->info.broken || now_ms < fence->watched_ms + WATCH_INTERVAL_MS)
		return 0;
	fence->watched_ms = now_ms;
	if (!enforce_check_attached(fence, error) || host_cgroup_populated(fence->cgroup) == 0)
		return 0;
	fence_break(fence);
	return 1;
}
