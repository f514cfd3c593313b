// SPDX-License-Identifier: Apache-2.0
/*
 * One fence: its slot, its cgroup links, its policy generations and its ring buffer. Root. The order is what keeps
 * it closed: the slot holds a policy that allows nothing before the cgroup is entered in the map, and a new policy is
 * whole in its idle generation before one write makes it the active one. What fails on the way is undone and leaves
 * the fence as it was.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "enforce/internal.h"

int enforce_map_set(struct enforce_fence *fence, enum enforce_map map, const void *key,
		    const void *value, struct error *error)
{
	if (!bpf_map_update_elem(fence->enforce->map[map], key, value, BPF_ANY))
		return 0;
	if (errno == ENOSPC || errno == E2BIG)
		return error_set(
			error, ENOSPC,
			"this node has no room for more %s; shorten the policy, or end a fence",
			map == ENFORCE_MAP_nets	   ? "network prefixes"
			: map == ENFORCE_MAP_roots ? "file roots"
						   : "fences");
	return error_set(error, errno, "cannot write a BPF map: %s", strerror(errno));
}

/*
 * A slot and an id of its own. Which cgroups have a fence is known by name, and the free slots are behind the one that was
 * taken last: neither takes longer the more fences there are.
 */
static int slot_take(struct enforce_fence *fence, struct error *error)
{
	struct enforce *enforce = fence->enforce;
	struct cordon_fence other;
	uint64_t id;
	uint32_t slot;
	int err;

	if ((enforce_run_of_cgroup(fence->info.cgroup_id, &id, &slot) &&
	     !bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_fences], &slot, &other) &&
	     other.id == id) ||
	    (!bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_cgroups], &fence->info.cgroup_id,
				  &slot) &&
	     !bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_fences], &slot, &other)))
		return error_set(error, EEXIST, "the cgroup has a fence already (%llu)",
				 (unsigned long long)other.id);
	for (uint32_t i = 0; i < enforce->meta.fences; i++) {
		fence->slot = (enforce->free_slot + i) % enforce->meta.fences;
		if (bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_fences], &fence->slot, &other))
			return error_set(error, errno, "cannot read a BPF map: %s",
					 strerror(errno));
		if (other.id)
			continue;
		enforce->free_slot = fence->slot + 1;
		err = enforce_run_id(&id, error);
		if (!err)
			fence->info.id = id;
		return err;
	}
	return error_set(error, ENOSPC,
			 "all %u fences of this node are in use; end one, or end all and "
			 "make more room: cordon load --fences N, up to %d",
			 enforce->meta.fences, CORDON_FENCES_MAX);
}

/* Entering it takes as long as the kernel waits for all programs that run. */
static int ring_make(struct enforce_fence *fence, struct error *error)
{
	if (!fence->ring_bytes)
		return 0;
	fence->ring_fd =
		bpf_map_create(BPF_MAP_TYPE_RINGBUF, "cordon_ring", 0, 0, fence->ring_bytes, NULL);
	if (fence->ring_fd < 0)
		return error_set(error, errno, "cannot make a ring buffer of %zu bytes: %s",
				 fence->ring_bytes, strerror(errno));
	return enforce_map_set(fence, ENFORCE_MAP_rings, &fence->slot, &fence->ring_fd, error);
}

/* Attaches the cgroup programs and pins the links, so that they outlive this process. */
static int cgroup_attach(struct enforce_fence *fence, struct error *error)
{
	char dir[128], path[256];

	snprintf(dir, sizeof(dir), ENFORCE_PIN_DIR "/fence_%llu",
		 (unsigned long long)fence->info.id);
	if (mkdir(dir, 0700))
		return error_set(error, errno, "cannot make %s: %s", dir, strerror(errno));
	for (int prog = 0; prog < ENFORCE_PROG_fence_mark_all; prog++) {
		_cleanup_close_ int link =
			bpf_link_create(fence->enforce->prog[prog], fence->cgroup->fd,
					enforce_prog_attach_type(prog), NULL);

		if (link < 0)
			return error_set(error, errno, "cannot attach %s to %s: %s",
					 enforce_prog_name(prog), fence->cgroup->path,
					 strerror(errno));
		snprintf(path, sizeof(path), "%s/link_%s", dir, enforce_prog_name(prog));
		if (bpf_obj_pin(link, path))
			return error_set(error, errno, "cannot pin %s: %s", path, strerror(errno));
	}
	return 0;
}

/* In which IPC namespaces which fences have tasks; see cordon_ipc. */
struct ipc_list {
	struct cordon_ipc record, *all;
	size_t n, room;
	bool full; /* memory did not suffice */
};

static void ipc_take(void *context)
{
	struct ipc_list *list = context;
	size_t room = list->room ? 2 * list->room : 256;
	struct cordon_ipc *more;

	if (list->n == list->room) {
		more = realloc(list->all, room * sizeof(*more));
		list->full |= !more;
		if (!more)
			return;
		list->all = more;
		list->room = room;
	}
	list->all[list->n++] = list->record;
}

static int ipc_compare(const void *a, const void *b)
{
	const struct cordon_ipc *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Is one of the namespaces that this fence has tasks in another's, too? */
static bool ipc_is_shared(struct ipc_list *list, uint32_t fence)
{
	bool own = false, others = false;

	if (list->n)
		qsort(list->all, list->n, sizeof(*list->all), ipc_compare);
	for (size_t i = 0; i < list->n; i++) {
		if (i && list->all[i].ns != list->all[i - 1].ns)
			own = others = false;
		own |= list->all[i].fence == fence;
		others |= list->all[i].fence != fence;
		if (own && others)
			return true;
	}
	return false;
}

/* The host's namespace the kernel knows by its number; which others are shared is found here, while the cgroup is frozen. */
static int ipc_judge(struct enforce_fence *fence, struct error *error)
{
	struct ipc_list list = { 0 };
	int err =
		enforce_iterate_records(fence->enforce->prog[ENFORCE_PROG_fence_find_ipc], false,
					&list.record, sizeof(list.record), ipc_take, &list, error);

	if (!err && list.full)
		err = error_set(error, ENOMEM, "out of memory");
	fence->info.ipc_shared = err || ipc_is_shared(&list, fence->slot + 1);
	free(list.all);
	if (!err && fence->info.ipc_shared)
		err = enforce_map_set(fence, ENFORCE_MAP_fences, &fence->slot, &fence->info, error);
	return err;
}

/* With the lock held. The closed policy comes first, the way in last. */
static int fence_make_locked(struct enforce_fence *fence, struct error *error)
{
	static const struct cordon_folds no_folds;
	uint32_t tag;
	int err = enforce_refresh(fence->enforce, error);

	if (!err)
		err = slot_take(fence, error);
	if (err) {
		fence->info.id = 0;
		return err;
	}
	fence->info.generation = 1;
	fence->policy.generation = 1;
	fence->policy.mode = CORDON_MODE_ENFORCE;
	fence->policy.root_flags = CORDON_ROOT_READ_ALLOW | CORDON_ROOT_EXEC_ALLOW;
	tag = cordon_tag(fence->slot, fence->info.generation);
	memset(&fence->enforce->state[fence->slot], 0, sizeof(struct cordon_state));
	err = enforce_map_set(fence, ENFORCE_MAP_folds, &fence->slot, &no_folds, error);
	if (err)
		return err;
	fence->lock_fd = enforce_run_make(fence, error);
	err = fence->lock_fd < 0 ? fence->lock_fd : 0;
	if (!err)
		err = enforce_peer_set(fence, error);
	if (!err)
		err = enforce_map_set(fence, ENFORCE_MAP_policies, &tag, &fence->policy, error);
	if (!err)
		err = ring_make(fence, error);
	if (!err)
		err = enforce_map_set(fence, ENFORCE_MAP_fences, &fence->slot, &fence->info, error);
	if (!err)
		err = cgroup_attach(fence, error);
	if (!err && fence->info.descriptors)
		err = enforce_demand(fence->enforce, enforce_needs(&fence->info, &fence->policy),
				     error);
	if (!err)
		err = enforce_map_set(fence, ENFORCE_MAP_cgroups, &fence->info.cgroup_id,
				      &fence->slot, error);
	if (!err && fence->info.attached && !fence->info.degraded)
		err = ipc_judge(fence, error);
	return err;
}

/* Pipes, terminals and sockets, whose number the kernel tells as it is; files are counted anyway. */
static void outs_note(struct cordon_fence *info, const int *fds)
{
	for (int i = 0; i < 2; i++) {
		struct stat st;

		if (fstat(fds[i], &st) ||
		    !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) || S_ISSOCK(st.st_mode)))
			continue;
		info->out[i].ino = st.st_ino;
		info->out[i].dev = major(st.st_dev) << 20 | minor(st.st_dev);
	}
}

int enforce_fence_make(struct enforce *enforce, const struct enforce_fence_options *options,
		       struct enforce_fence **ret_fence, struct error *error)
{
	struct enforce_fence *fence = calloc(1, sizeof(*fence));
	_cleanup_close_ int lock = enforce_lock(error);
	int err;

	if (!fence || lock < 0) {
		free(fence);
		return lock < 0 ? lock : error_set(error, ENOMEM, "out of memory");
	}
	fence->enforce = enforce;
	fence->cgroup = options->cgroup;
	fence->lock_fd = fence->ring_fd = -1;
	fence->keys[0].known = fence->keys[1].known = true;
	fence->info.cgroup_id = options->cgroup->id;
	fence->info.cgroup_level = options->cgroup->level;
	fence->info.attached = options->attached;
	fence->policy.output_bytes = options->limit_output;
	fence->policy.event_ns = options->event_rate ? 1000000000 / options->event_rate : 0;
	fence->info.descriptors = options->descriptors;
	fence->info.degraded = enforce->meta.degraded;
	if (options->out_fds)
		outs_note(&fence->info, options->out_fds);
	fence->ring_bytes = options->ring_bytes;
	err = fence_make_locked(fence, error);
	if (!err && options->ring_bytes && !options->read_elsewhere)
		err = enforce_ring_open(fence->ring_fd, fence->ring_bytes, &fence->ring, error);
	if (err) {
		close(TAKE_FD(lock));
		enforce_fence_end(fence);
		return err;
	}
	*ret_fence = fence;
	return 0;
}

/* --- policy ------------------------------------------------------------------------------------------------- */

static int nets_enter(struct enforce_fence *fence, const struct image *image,
		      const struct cordon_policy *policy, struct error *error)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < image->n_nets; i++) {
		const struct image_net *net = &image_nets(image)[i];
		struct cordon_net_key key = {
			.prefixlen = 32 + net->prefix_bits,
			.tag = cordon_tag(fence->slot, policy->generation) << 1 | net->addr.v6,
		};

		memcpy(key.b, net->addr.b + (net->addr.v6 ? 0 : 12), net->addr.v6 ? 16 : 4);
		err = enforce_keys_note(&fence->keys[policy->generation & 1], ENFORCE_KEY_NET, &key,
					error);
		if (!err)
			err = enforce_map_set(fence, ENFORCE_MAP_nets, &key, &net->net, error);
	}
	return err;
}

int enforce_root_open(pid_t pid, const char *below, struct error *error)
{
	_cleanup_close_ int top = -1;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return error_set(error, errno, "%s: %s", path, strerror(errno));
	if (!below)
		return TAKE_FD(top);
	fd = enforce_open_in_root(top, below, 0);
	return fd < 0 ? error_set(error, errno, "%s of process %d: %s", below, pid, strerror(errno))
		      : fd;
}

/*
 * The idle generation is empty, and nobody looks at it: when the ring buffer is entered, the kernel waits until all
 * programs have ended that began before. The first policy finds it so.
 */
static int idle_clear(struct enforce_fence *fence, uint32_t tag, struct error *error)
{
	int err;

	if (fence->info.generation == 1)
		return 0;
	err = enforce_map_set(fence, ENFORCE_MAP_rings, &fence->slot, &fence->ring_fd, error);
	if (!err)
		enforce_keys_clear(fence->enforce, &fence->keys[tag & 1], tag);
	return err;
}

int enforce_fence_set_at(struct enforce_fence *fence, const struct image *image, int root_fd,
			 pid_t pid, bool report_allow, struct error *error)
{
	struct cordon_policy policy = image->policy;
	struct cordon_fence info = fence->info;
	_cleanup_close_ int lock = enforce_lock(error);
	uint32_t tag;
	int err;

	if (lock < 0)
		return lock;
	policy.generation = info.generation + 1;
	policy.report_allow = report_allow;
	policy.event_ns = fence->policy.event_ns;
	memset(policy.root_filter, 0, sizeof(policy.root_filter));
	memset(policy.near, 0, sizeof(policy.near));
	memset(policy.known, 0, sizeof(policy.known));
	policy.deny_filter = 0;
	tag = cordon_tag(fence->slot, policy.generation);
	err = idle_clear(fence, tag, error);
	/* The LSM part is what roots are for; without it there is nobody to resolve them. */
	if (!err && !info.degraded)
		err = enforce_roots_set(fence, image, root_fd, pid, &policy, error);
	if (!err)
		err = nets_enter(fence, image, &policy, error);
	if (!err)
		err = enforce_map_set(fence, ENFORCE_MAP_policies, &tag, &policy, error);
	if (!err)
		err = enforce_demand(fence->enforce, enforce_needs(&info, &policy), error);
	info.generation = policy.generation;
	if (!err)
		err = enforce_map_set(fence, ENFORCE_MAP_fences, &fence->slot, &info, error);
	if (!err) {
		fence->info = info;
		fence->policy = policy;
	}
	return err;
}

int enforce_fence_set(struct enforce_fence *fence, const struct image *image, pid_t pid,
		      bool report_allow, struct error *error)
{
	_cleanup_close_ int root_fd = -1;

	if (!fence->info.degraded) {
		root_fd = enforce_root_open(pid, NULL, error);
		if (root_fd < 0)
			return root_fd;
	}
	return enforce_fence_set_at(fence, image, root_fd, pid, report_allow, error);
}

/* --- tasks -------------------------------------------------------------------------------------------------- */

int enforce_fence_mark_tasks(struct enforce_fence *fence, struct error *error)
{
	return fence->info.degraded
		       ? 0
		       : enforce_iterate(fence->enforce->prog[ENFORCE_PROG_fence_mark_all], error);
}

struct finding {
	struct cordon_found record;
	uint64_t fence_id;
	enforce_found_fn *fn;
	void *context;
};

static void found_take(void *context)
{
	const struct finding *finding = context;

	if (finding->record.fence_id == finding->fence_id)
		finding->fn(finding->context, &finding->record);
}

int enforce_fence_find(struct enforce_fence *fence, enforce_found_fn *fn, void *context,
		       struct error *error)
{
	struct finding finding = { .fence_id = fence->info.id, .fn = fn, .context = context };
	int err;

	if (fence->info.degraded)
		return 0;
	err = enforce_iterate_records(fence->enforce->prog[ENFORCE_PROG_fence_find_files], false,
				      &finding.record, sizeof(finding.record), found_take, &finding,
				      error);
	return err ? err
		   : enforce_iterate_records(fence->enforce->prog[ENFORCE_PROG_fence_find_maps],
					     false, &finding.record, sizeof(finding.record),
					     found_take, &finding, error);
}

void enforce_found_name(const struct cordon_found *found, char *text, size_t size)
{
	char link[128], path[PATH_MAX] = "", comm[32] = "";
	FILE *f;

	if (found->start)
		snprintf(link, sizeof(link), "/proc/%u/map_files/%llx-%llx", found->pid,
			 (unsigned long long)found->start, (unsigned long long)found->end);
	else
		snprintf(link, sizeof(link), "/proc/%u/fd/%u", found->pid, found->fd);
	if (readlink(link, path, sizeof(path) - 1) < 0)
		snprintf(path, sizeof(path), "%s", link);
	snprintf(link, sizeof(link), "/proc/%u/comm", found->pid);
	f = fopen(link, "re");
	if (f) {
		if (fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = '\0';
		fclose(f);
	}
	snprintf(text, size, "process %u (%s) %s %s", found->pid, comm,
		 found->start ? "has mapped, shared and writable," : "holds open", path);
}

int enforce_fence_check(struct enforce_fence *fence, int pidfd, struct error *error)
{
	struct cordon_task task = { 0 };

	if (fence->info.degraded)
		return 0;
	if (bpf_map_lookup_elem(fence->enforce->map[ENFORCE_MAP_tasks], &pidfd, &task) ||
	    task.fence_id != fence->info.id)
		return error_set(error, EXFULL,
				 "a process in the cgroup is not marked as fenced; the identity "
				 "programs do not "
				 "fire on this kernel");
	return 0;
}

enum { RELEASE_FREEZE_MS = 1000 };

static void fence_unmark(struct enforce_fence *fence)
{
	struct cordon_fence info = fence->info;

	if (info.degraded)
		return;
	info.ending = 1;
	bpf_map_update_elem(fence->enforce->map[ENFORCE_MAP_fences], &fence->slot, &info, BPF_ANY);
	enforce_iterate(fence->enforce->prog[ENFORCE_PROG_fence_unmark_all], NULL);
}

/*
 * Nobody enters any more; then who is inside is set free. Frozen: a child that is being made has its mark and is not to be
 * found yet, a thread that executes takes its leader's place, and who keeps a mark is denied everything once its fence is no
 * more. Who is in another cgroup by now is not frozen, so the marks are looked for twice; nor is what does not stop in time.
 */
static void fence_release(struct enforce_fence *fence)
{
	const struct host_cgroup *cgroup = fence->cgroup;
	bool freeze = !fence->info.degraded && host_cgroup_populated(cgroup) > 0 &&
		      !host_cgroup_frozen(cgroup);

	if (freeze)
		freeze = !host_cgroup_freeze(cgroup, true, RELEASE_FREEZE_MS, NULL);
	bpf_map_delete_elem(fence->enforce->map[ENFORCE_MAP_cgroups], &fence->info.cgroup_id);
	fence_unmark(fence);
	fence_unmark(fence);
	if (freeze)
		host_cgroup_freeze(cgroup, false, RELEASE_FREEZE_MS, NULL);
}

/* --- the rest ----------------------------------------------------------------------------------------------- */

int enforce_fence_poll(struct enforce_fence *fence, int timeout_ms, enforce_event_fn *fn,
		       void *context)
{
	int err = fence->ring ? 0
			      : enforce_ring_open(fence->ring_fd, fence->ring_bytes, &fence->ring,
						  NULL);

	return err ? err : enforce_ring_poll(fence->ring, timeout_ms, fn, context);
}

int enforce_fence_ring_fd(const struct enforce_fence *fence, size_t *ret_bytes)
{
	*ret_bytes = fence->ring_bytes;
	return fence->ring_fd;
}

int enforce_state_fd(const struct enforce *enforce)
{
	return enforce->map[ENFORCE_MAP_state];
}

uint32_t enforce_fences_room(const struct enforce *enforce)
{
	return enforce->meta.fences;
}

const struct host_cgroup *enforce_fence_cgroup(const struct enforce_fence *fence)
{
	return fence->cgroup;
}

const struct cordon_fence *enforce_fence_info(const struct enforce_fence *fence)
{
	return &fence->info;
}

const struct cordon_policy *enforce_fence_policy(const struct enforce_fence *fence)
{
	return &fence->policy;
}

struct cordon_state *enforce_fence_state(const struct enforce_fence *fence)
{
	return &fence->enforce->state[fence->slot];
}

void enforce_fence_flush(struct enforce_fence *fence, bool all)
{
	struct cordon_flush flush = { .slot = fence->slot, .all = all };
	uint64_t folded = __atomic_load_n(&enforce_fence_state(fence)->folded, __ATOMIC_RELAXED);

	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &flush, .ctx_size_in = sizeof(flush));

	if (folded != fence->flushed &&
	    !bpf_prog_test_run_opts(fence->enforce->prog[ENFORCE_PROG_fold_flush], &opts) &&
	    !opts.retval)
		fence->flushed = folded;
}

void enforce_fence_leave(struct enforce_fence *fence)
{
	if (!fence)
		return;
	enforce_ring_close(fence->ring);
	if (fence->ring_fd >= 0)
		close(fence->ring_fd);
	if (fence->lock_fd >= 0)
		close(fence->lock_fd);
	for (int i = 0; i < 2; i++)
		enforce_keys_drop(&fence->keys[i]);
	if (fence->own_cgroup)
		host_cgroup_close(fence->own_cgroup);
	free(fence->own_cgroup);
	free(fence);
}

void enforce_fence_end(struct enforce_fence *fence)
{
	_cleanup_close_ int lock = -1;

	if (!fence)
		return;
	lock = enforce_lock(NULL);
	if (fence->info.id) {
		if (fence->info.attached)
			fence_release(fence);
		enforce_slot_free(fence->enforce, fence->slot, fence->keys);
		enforce_run_remove(&fence->info); /* also of one that was not made to its end */
		enforce_demand_drop(fence->enforce);
	}
	close(TAKE_FD(lock));
	enforce_fence_leave(fence);
}
