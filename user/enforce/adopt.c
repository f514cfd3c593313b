// SPDX-License-Identifier: Apache-2.0
/*
 * Fences that outlive their owner. Root. All that a fence is lies in the kernel, and outlives any process by the pins of
 * its links and of the maps; what an owner needs besides - whose it is, its cgroup's path, a record of the owner's - lies
 * in ENFORCE_RUN_DIR. So taking over changes nothing: it locks the fence's file, compares the cgroup with the id that the
 * kernel judges by, and opens what there is. What fails leaves the fence as it was.
 *
 * The ring is found by its id in cordon_rings, which holds it. A pin of its own would be one more thing that can be
 * missing or be another fence's; that map is what the kernel writes by.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "enforce/internal.h"

int enforce_fence_keep(struct enforce_fence *fence, const void *record, size_t size,
		       struct error *error)
{
	_cleanup_close_ int lock = -1;

	if (size > ENFORCE_RECORD_MAX)
		return error_set(error, E2BIG,
				 "a record of %zu bytes is more than the %d that a "
				 "fence can carry",
				 size, ENFORCE_RECORD_MAX);
	lock = enforce_lock(error);
	return lock < 0 ? lock : enforce_run_keep(fence->info.id, record, size, error);
}

int enforce_fence_list(struct enforce *enforce, enforce_listed_fn *fn, void *context,
		       struct error *error)
{
	_cleanup_close_ int lock = enforce_lock(error);

	if (lock < 0)
		return lock;
	for (uint32_t slot = 0; slot < enforce->meta.fences; slot++) {
		char path[PATH_MAX];
		struct cordon_fence fence;
		_cleanup_close_ int fd = -1;

		if (bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_fences], &slot, &fence))
			return error_set(error, errno, "cannot read a BPF map: %s",
					 strerror(errno));
		if (!fence.id)
			continue;
		fd = enforce_run_take(&fence, path, sizeof(path));
		fn(context, &(struct enforce_listed){
				    .fence_id = fence.id,
				    .cgroup_id = fence.cgroup_id,
				    .slot = slot,
				    .cgroup = path,
				    .attached = fence.attached,
				    .kept = enforce_run_kept(fence.id),
				    .owned = fd == -EBUSY,
				    .broken = fence.broken,
			    });
	}
	return 0;
}

/* The slot of a fence. Owners take theirs over in the order of the slots, so the search begins behind the last one. */
static int slot_find(struct enforce_fence *fence, uint64_t fence_id, struct error *error)
{
	struct enforce *enforce = fence->enforce;

	for (uint32_t i = 0; i < enforce->meta.fences; i++) {
		fence->slot = (enforce->found_slot + i) % enforce->meta.fences;
		if (bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_fences], &fence->slot,
					&fence->info))
			return error_set(error, errno, "cannot read a BPF map: %s",
					 strerror(errno));
		if (fence->info.id == fence_id) {
			enforce->found_slot = fence->slot + 1;
			return 0;
		}
	}
	return error_set(error, ENOENT, "there is no fence %016llx", (unsigned long long)fence_id);
}

/* The cgroup by its path, which must be the very one that the kernel knows. Frees the fence when it is gone. */
static int cgroup_find(struct enforce_fence *fence, const char *path, struct error *error)
{
	struct error cause = { "" };
	int err;

	fence->own_cgroup = calloc(1, sizeof(*fence->own_cgroup));
	if (!fence->own_cgroup)
		return error_set(error, ENOMEM, "out of memory");
	fence->own_cgroup->fd = -1;
	fence->cgroup = fence->own_cgroup;
	err = host_cgroup_open(path, fence->own_cgroup, &cause);
	if (err == -ENOENT || (!err && fence->own_cgroup->id != fence->info.cgroup_id)) {
		enforce_slot_free(fence->enforce, fence->slot, NULL);
		enforce_demand_drop(fence->enforce);
		return error_set(error, ENOENT, "the cgroup of fence %016llx is gone: %s",
				 (unsigned long long)fence->info.id, path);
	}
	return err ? error_set(error, -err, "fence %016llx: %s", (unsigned long long)fence->info.id,
			       cause.text)
		   : 0;
}

static int ring_find(struct enforce_fence *fence, struct error *error)
{
	struct bpf_map_info info = { 0 };
	uint32_t id, size = sizeof(info);

	if (bpf_map_lookup_elem(fence->enforce->map[ENFORCE_MAP_rings], &fence->slot, &id))
		return error_set(error, errno, "fence %016llx has no ring buffer: %s",
				 (unsigned long long)fence->info.id, strerror(errno));
	fence->ring_fd = bpf_map_get_fd_by_id(id);
	if (fence->ring_fd < 0 || bpf_obj_get_info_by_fd(fence->ring_fd, &info, &size))
		return error_set(error, errno, "fence %016llx: cannot open its ring buffer: %s",
				 (unsigned long long)fence->info.id, strerror(errno));
	fence->ring_bytes = info.max_entries;
	return 0;
}

static int maps_read(struct enforce_fence *fence, struct error *error)
{
	uint32_t tag = cordon_tag(fence->slot, fence->info.generation);

	if (bpf_map_lookup_elem(fence->enforce->map[ENFORCE_MAP_policies], &tag, &fence->policy) ||
	    bpf_map_lookup_elem(fence->enforce->map[ENFORCE_MAP_peer_keys], &fence->slot,
				&fence->peer))
		return error_set(error, errno, "fence %016llx: cannot read a BPF map: %s",
				 (unsigned long long)fence->info.id, strerror(errno));
	return 0;
}

/* With the lock held. */
static int adopt_locked(struct enforce_fence *fence, uint64_t fence_id, void **ret_record,
			size_t *ret_size, struct error *error)
{
	char path[PATH_MAX];
	int err = slot_find(fence, fence_id, error);

	if (err)
		return err;
	fence->lock_fd = enforce_run_take(&fence->info, path, sizeof(path));
	if (fence->lock_fd == -EBUSY)
		return error_set(error, EBUSY, "the owner of fence %016llx lives",
				 (unsigned long long)fence_id);
	if (fence->lock_fd < 0)
		return error_set(error, fence->lock_fd == -ENOENT ? ENODATA : -fence->lock_fd,
				 "fence %016llx: its file in " ENFORCE_RUN_DIR
				 " cannot be opened: %s",
				 (unsigned long long)fence_id, strerror(-fence->lock_fd));
	err = enforce_run_record(fence_id, ret_record, ret_size, error);
	if (!err)
		err = cgroup_find(fence, path, error);
	if (!err)
		err = ring_find(fence, error);
	return err ? err : maps_read(fence, error);
}

int enforce_fence_adopt(struct enforce *enforce, uint64_t fence_id,
			struct enforce_fence **ret_fence, void **ret_record, size_t *ret_size,
			struct error *error)
{
	struct enforce_fence *fence = calloc(1, sizeof(*fence));
	_cleanup_close_ int lock = enforce_lock(error);
	void *record = NULL;
	int err;

	if (!fence || lock < 0) {
		free(fence);
		return lock < 0 ? lock : error_set(error, ENOMEM, "out of memory");
	}
	fence->enforce = enforce;
	fence->lock_fd = fence->ring_fd = -1;
	err = adopt_locked(fence, fence_id, &record, ret_size, error);
	if (err) {
		free(record);
		enforce_fence_leave(fence);
		return err;
	}
	*ret_record = record;
	*ret_fence = fence;
	return 0;
}
