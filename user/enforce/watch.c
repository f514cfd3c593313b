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

/* Is the program among those that run for the cgroup? -errno when it cannot be asked. */
static int is_attached(const struct enforce_fence *fence, enum enforce_prog prog)
{
	uint32_t ids[PROGRAMS_MAX], count = ARRAY_SIZE(ids), flags;
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fence->enforce->prog[prog], &info, &size) ||
	    bpf_prog_query(fence->cgroup->fd, enforce_prog_attach_type(prog), BPF_F_QUERY_EFFECTIVE,
			   &flags, ids, &count))
		return -errno;
	for (uint32_t i = 0; i < count; i++)
		if (ids[i] == info.id)
			return 1;
	return 0;
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
	if (fence->info.broken || now_ms < fence->watched_ms + WATCH_INTERVAL_MS)
		return 0;
	fence->watched_ms = now_ms;
	if (!enforce_check_attached(fence, error) || host_cgroup_populated(fence->cgroup) == 0)
		return 0;
	fence_break(fence);
	return 1;
}
