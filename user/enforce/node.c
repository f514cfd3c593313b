// SPDX-License-Identifier: Apache-2.0
/*
 * The enforcement of a node: its lock, its pins, and the slots of fences whose owner died. Root. A half-made set of
 * pins (no cordon_meta) is removed; a set of another build is replaced when no fence lives on it and refused
 * otherwise (upgrade.c brings one in beside it). A set that is kept stays when its last fence ends. Nothing here lifts
 * enforcement from a task that may still run: a dead owner's own cgroup is killed before its slot is freed, a cgroup that
 * was attached keeps its fence until it is empty, and one whose fence is kept until it is gone.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "enforce/internal.h"
#include "enforce/object.h"

enum { PINS_MAX = 512 }; /* links in one directory whose release may be left to others */

/* The map cordon_meta once more: while this pin is there, what is loaded outlives the last fence. */
#define KEPT_PIN ENFORCE_PIN_DIR "/kept"

/* See enforce_lock_hold(). */
static int held_fd = -1;

void enforce_lock_hold(int fd)
{
	held_fd = fd;
}

void enforce_lock_forget(void)
{
	if (held_fd >= 0)
		close(TAKE_FD(held_fd));
}

int enforce_lock(struct error *error)
{
	int fd;

	if (held_fd >= 0) {
		fd = fcntl(held_fd, F_DUPFD_CLOEXEC, 0);
		return fd < 0 ? error_set(error, errno, "dup: %s", strerror(errno)) : fd;
	}
	if (mkdir(ENFORCE_RUN_DIR, 0700) && errno != EEXIST)
		return error_set(error, errno, "cannot make " ENFORCE_RUN_DIR ": %s",
				 strerror(errno));
	fd = open(ENFORCE_RUN_DIR "/lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_set(error, errno, "cannot open " ENFORCE_RUN_DIR "/lock: %s",
				 strerror(errno));
	while (flock(fd, LOCK_EX))
		if (errno != EINTR) {
			error_set(error, errno, "cannot lock " ENFORCE_RUN_DIR "/lock: %s",
				  strerror(errno));
			close(fd);
			return -EIO;
		}
	enforce_upgrade_recover();
	return fd;
}

/*
 * Who has opened what is pinned keeps a shared lock on its directory: between that and its first fence there is nothing
 * else by which another, whose own fence ends, could tell that it must not remove the pins. With the node's lock held.
 * The lock is given up by hand, since processes that were forked may keep the descriptor.
 */
static int users_join(struct error *error)
{
	int fd = open(ENFORCE_PIN_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && !flock(fd, LOCK_SH | LOCK_NB))
		return fd;
	error_set(error, errno, "cannot lock " ENFORCE_PIN_DIR ": %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -EIO;
}

/* True when nobody else is left. */
static bool users_leave(int fd)
{
	bool last = !flock(fd, LOCK_EX | LOCK_NB);

	flock(fd, LOCK_UN);
	close(fd);
	return last;
}

/* In the child: nothing stays open but the links and `go`; a child of its own waits for the end of that, and lets go. */
static void release_later(const int *fds, size_t n, int go)
{
	int keep = go;
	char end;

	for (size_t i = 0; i < n; i++)
		keep = fds[i] > keep ? fds[i] : keep;
	for (int fd = 0; fd < keep; fd++) {
		size_t i = 0;

		while (i < n && fds[i] != fd)
			i++;
		if (i == n && fd != go)
			close(fd);
	}
	close_range(keep + 1, ~0U, 0);
	if (!fork()) {
		setsid();
		prctl(PR_SET_NAME, "cordon-unload");
		(void)!read(go, &end, sizeof(end));
	}
	_exit(0);
}

/*
 * Lets go of links whose pins are gone. The kernel detaches a program when the last descriptor of its link is closed,
 * and takes a grace period of up to an eighth of a second for each, one after the other (6.1). Nobody has to wait for
 * that: a process of its own inherits these descriptors, and nothing else, and ends when ours are closed; before that, ours would
 * be the last. Where it cannot be made, they are closed here.
 */
void enforce_links_release(const int *fds, size_t n)
{
	int go[2] = { -1, -1 };
	pid_t pid = n && !pipe2(go, O_CLOEXEC) ? fork() : -1;

	if (!pid)
		release_later(fds, n, go[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	for (int i = 0; i < 2; i++)
		if (go[i] >= 0)
			close(go[i]);
}

/*
 * Unlinks everything in a directory of bpffs, not below it, and the directory. later: what was attached may stay so for
 * some seconds.
 */
void enforce_pins_remove(const char *dir, bool later)
{
	int links[PINS_MAX] = { 0 };
	DIR *d = opendir(dir);
	struct dirent *entry;
	size_t n = 0;

	if (!d)
		return;
	while ((entry = readdir(d))) {
		char path[512];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		if (later && n < PINS_MAX && !strncmp(entry->d_name, "link_", 5)) {
			links[n] = bpf_obj_get(path);
			n += links[n] >= 0;
		}
		unlinkat(dirfd(d), entry->d_name, 0);
	}
	closedir(d);
	rmdir(dir);
	enforce_links_release(links, n);
}

/* set: where programs are pinned, or "" for what is pinned once. */
static int pin_open(const char *set, const char *kind, const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/%s%s%s", set, kind, name);
	fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd;
}

/* What says what the pins are: of a record of another size only the version can be told. */
static int meta_read(const char *set, struct enforce_meta *ret_meta, uint32_t *ret_id)
{
	_cleanup_close_ int fd = pin_open(set, "", "cordon_meta");
	struct bpf_map_info info = { 0 };
	uint32_t zero = 0, size = sizeof(info);
	char value[256] = { 0 };

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) || info.value_size > sizeof(value) ||
	    bpf_map_lookup_elem(fd, &zero, value))
		return -ENOENT;
	memcpy(ret_meta, value, sizeof(*ret_meta));
	*ret_id = info.id;
	if (info.value_size != sizeof(*ret_meta) && ret_meta->abi == CORDON_ABI_VERSION)
		ret_meta->abi = 0;
	return 0;
}

static int progs_open(struct enforce *enforce)
{
	for (int i = 0; i < ENFORCE_PROG_COUNT; i++) {
		enforce->prog[i] = pin_open(enforce->set, "prog_", enforce_prog_name(i));
		if (enforce->prog[i] < 0)
			return -EXFULL;
	}
	return 0;
}

int enforce_open_set(struct enforce *enforce, const char *set)
{
	static const char *const maps[] = {
#define ENFORCE_X(name) "cordon_" #name,
		ENFORCE_MAPS(ENFORCE_X)
#undef ENFORCE_X
	};

	enforce->set = set;
	if (meta_read(set, &enforce->meta, &enforce->meta_id))
		return -ENOENT;
	if (enforce->meta.abi != CORDON_ABI_VERSION)
		return -EPROTO;
	for (int i = 0; i < ENFORCE_MAP_COUNT; i++) {
		enforce->map[i] = pin_open("", "", maps[i]);
		if (enforce->map[i] < 0)
			return -EXFULL;
	}
	enforce->state =
		enforce_state_map(enforce->map[ENFORCE_MAP_state], enforce->meta.fences, NULL);
	return enforce->state ? progs_open(enforce) : -errno;
}

static void progs_close(struct enforce *enforce)
{
	for (int i = 0; i < ENFORCE_PROG_COUNT; i++)
		if (enforce->prog[i] >= 0)
			close(enforce->prog[i]);
	memset(enforce->prog, 0xff, sizeof(enforce->prog));
}

static void node_close(struct enforce *enforce)
{
	for (int i = 0; i < ENFORCE_MAP_COUNT; i++)
		if (enforce->map[i] >= 0)
			close(enforce->map[i]);
	progs_close(enforce);
	enforce_state_unmap(enforce->state, enforce->meta.fences);
	memset(enforce->map, 0xff, sizeof(enforce->map));
	enforce->state = NULL;
}

void enforce_drop(struct enforce *enforce)
{
	if (enforce)
		node_close(enforce);
	free(enforce);
}

int enforce_refresh(struct enforce *enforce, struct error *error)
{
	struct enforce_meta now;
	uint32_t id;

	if (meta_read(enforce->set, &now, &id))
		return error_set(error, ENOENT, "the programs of this host were taken away");
	if (id == enforce->meta_id)
		return 0;
	progs_close(enforce);
	enforce->meta = now;
	enforce->meta_id = id;
	return progs_open(enforce)
		       ? error_set(error, EXFULL, "a program is missing in " ENFORCE_PIN_DIR)
		       : 0;
}

void enforce_slot_free(struct enforce *enforce, uint32_t slot, struct enforce_keys keys[2])
{
	uint32_t holder, ring_id;
	struct cordon_fence fence, none = { 0 };
	struct cordon_policy no_policy = { 0 };
	char path[128];

	if (bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_fences], &slot, &fence))
		return;
	/* Not another fence's, of the same cgroup. */
	if (!bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_cgroups], &fence.cgroup_id, &holder) &&
	    holder == slot)
		bpf_map_delete_elem(enforce->map[ENFORCE_MAP_cgroups], &fence.cgroup_id);
	snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/fence_%llu", (unsigned long long)fence.id);
	enforce_pins_remove(path, false);
	bpf_map_update_elem(enforce->map[ENFORCE_MAP_fences], &slot, &none, BPF_ANY);
	for (uint32_t tag = 2 * slot; tag < 2 * slot + 2; tag++)
		bpf_map_update_elem(enforce->map[ENFORCE_MAP_policies], &tag, &no_policy, BPF_ANY);
	enforce_keys_clear_slot(enforce, keys, slot);
	if (!bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_rings], &slot,
				 &ring_id)) /* it waits, even for nothing */
		bpf_map_delete_elem(enforce->map[ENFORCE_MAP_rings], &slot);
	enforce_peer_clear(enforce, slot);
	memset(&enforce->state[slot], 0, sizeof(enforce->state[slot]));
	if (fence.id)
		enforce_run_remove(&fence);
}

/* Is the fence's cgroup gone, or another of its name in its place? False when that cannot be told. */
static bool cgroup_gone(const struct cordon_fence *fence, const char *path)
{
	struct host_cgroup cgroup = { .fd = -1 };
	struct error error = { "" };
	int err = path[0] ? host_cgroup_open(path, &cgroup, &error) : -EINVAL;
	bool gone = err == -ENOENT || (!err && cgroup.id != fence->cgroup_id);

	host_cgroup_close(&cgroup);
	return gone;
}

/* The owner is dead and did not keep the fence: may its slot be freed? Kills what is left in a cgroup that run made. */
static bool reclaim_cgroup(const struct cordon_fence *fence, const char *path)
{
	struct host_cgroup cgroup = { .fd = -1 };
	struct error error = { "" };
	bool free_it;

	if (!path[0])
		return !fence->attached;
	if (cgroup_gone(fence, path))
		return true;
	if (host_cgroup_open(path, &cgroup, &error))
		return false;
	if (fence->attached)
		free_it = host_cgroup_populated(&cgroup) == 0;
	else
		free_it = !host_cgroup_kill(&cgroup, 5000, &error) &&
			  !host_cgroup_remove(&cgroup, &error);
	host_cgroup_close(&cgroup);
	return free_it;
}

static void reclaim_slot(struct enforce *enforce, uint32_t slot, const struct cordon_fence *fence)
{
	char path[PATH_MAX];
	int fd = enforce_run_take(fence, path, sizeof(path));
	bool free_it;

	if (fd < 0 && fd != -ENOENT)
		return; /* its owner lives, or that cannot be told */
	free_it = enforce_run_kept(fence->id) ? cgroup_gone(fence, path)
					      : reclaim_cgroup(fence, path);
	if (free_it)
		enforce_slot_free(enforce, slot, NULL);
	if (fd >= 0)
		close(fd);
}

/* Frees what dead owners left; returns how many fences live. */
static unsigned int node_reclaim(struct enforce *enforce)
{
	unsigned int alive = 0;

	for (uint32_t slot = 0; slot < enforce->meta.fences; slot++) {
		struct cordon_fence fence;

		if (bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_fences], &slot, &fence) ||
		    !fence.id)
			continue;
		reclaim_slot(enforce, slot, &fence);
		if (!bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_fences], &slot, &fence) &&
		    fence.id)
			alive++;
	}
	return alive;
}

int enforce_is_kept(void)
{
	if (!access(KEPT_PIN, F_OK))
		return 1;
	return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
}

static int node_keep(struct error *error)
{
	_cleanup_close_ int meta_fd = pin_open("", "", "cordon_meta");

	if (meta_fd < 0 || (bpf_obj_pin(meta_fd, KEPT_PIN) && errno != EEXIST))
		return error_set(error, errno, "cannot pin " KEPT_PIN ": %s", strerror(errno));
	return 0;
}

static int node_load(struct enforce *enforce, const struct enforce_meta *meta, struct error *error)
{
	struct enforce_meta set = *meta;
	bool kept = enforce_is_kept() > 0;
	int err;

	if (!set.fences)
		set.fences =
			kept && enforce->meta.fences ? enforce->meta.fences : CORDON_FENCES_ROOM;
	enforce_pins_remove(ENFORCE_PIN_DIR "/" ENFORCE_NEXT, true);
	enforce_pins_remove(ENFORCE_PIN_DIR, true);
	if (mkdir(ENFORCE_PIN_DIR, 0700))
		return error_set(error, errno,
				 "cannot make " ENFORCE_PIN_DIR
				 ": %s; is bpffs mounted at /sys/fs/bpf?",
				 strerror(errno));
	err = enforce_load(&set, NULL, error);
	if (!err) {
		err = enforce_open_set(enforce, "");
		if (err)
			error_set(error, -err, "cannot open what was pinned: %s", strerror(-err));
	}
	if (!err && kept)
		err = node_keep(error);
	if (err)
		enforce_pins_remove(ENFORCE_PIN_DIR, true);
	return err;
}

/* Does what is loaded serve? Any room does where none is asked for. */
static bool meta_fits(const struct enforce_meta *have, const struct enforce_meta *want)
{
	struct enforce_meta same = *want;

	if (!same.fences)
		same.fences = have->fences;
	same.set = have->set;
	return !memcmp(have, &same, sizeof(same));
}

/* How many fences have links pinned here: what can be told of a set whose maps cannot be read. */
static unsigned int fences_pinned(void)
{
	DIR *d = opendir(ENFORCE_PIN_DIR);
	struct dirent *entry;
	unsigned int n = 0;

	while (d && (entry = readdir(d)))
		n += !strncmp(entry->d_name, "fence_", 6);
	if (d)
		closedir(d);
	return n;
}

/* Why what is pinned cannot be used, while fences live on it. */
static int set_refuse(const struct enforce *enforce, int err, struct error *error)
{
	if (err == -EPROTO)
		return error_set(error, EPROTO,
				 "what is loaded lays its records out in another way (ABI %u, this "
				 "is %d); end its fences with that cordon, or go on with it",
				 enforce->meta.abi, CORDON_ABI_VERSION);
	return error_set(error, -err,
			 "something is missing in " ENFORCE_PIN_DIR
			 ", and fences live; end them, then cordon unload");
}

/* With the lock held: what is pinned is used, replaced, or refused. */
static int node_open_locked(struct enforce *enforce, const struct enforce_meta *want,
			    struct error *error)
{
	int err = enforce_open_set(enforce, "");
	unsigned int alive;

	if (err) {
		node_close(enforce);
		return err != -ENOENT && fences_pinned() ? set_refuse(enforce, err, error)
							 : node_load(enforce, want, error);
	}
	alive = node_reclaim(enforce);
	if (meta_fits(&enforce->meta, want))
		return 0;
	if (alive)
		return error_set(
			error, EBUSY,
			"%u fence(s) of another build, mode or room of cordon live on this "
			"host; end them, use that cordon, or bring this one into effect: cordon "
			"load",
			alive);
	node_close(enforce);
	return node_load(enforce, want, error);
}

struct enforce *enforce_new(void)
{
	struct enforce *enforce = calloc(1, sizeof(*enforce));

	if (!enforce)
		return NULL;
	memset(enforce->map, 0xff, sizeof(enforce->map));
	memset(enforce->prog, 0xff, sizeof(enforce->prog));
	enforce->users_fd = -1;
	enforce->set = "";
	return enforce;
}

uint64_t enforce_build(void)
{
	return object_build();
}

bool enforce_is_own(void)
{
	struct enforce_meta now;
	uint32_t id;

	return !meta_read("", &now, &id) && now.build == object_build();
}

/* With the lock held. */
static int enforce_open_locked(const struct host_report *report, bool degraded, uint32_t fences,
			       struct enforce **ret_enforce, struct error *error)
{
	struct enforce_meta want = {
		.abi = CORDON_ABI_VERSION,
		.degraded = degraded,
		.fmod_ret = !degraded && report->use_fmod_ret,
		.fences = fences,
		.build = object_build(),
	};
	struct enforce *enforce = enforce_new();
	int err;

	if (!enforce)
		return error_set(error, ENOMEM, "out of memory");
	err = node_open_locked(enforce, &want, error);
	if (!err) {
		enforce->users_fd = users_join(error);
		err = enforce->users_fd < 0 ? enforce->users_fd : 0;
	}
	if (err) {
		enforce_drop(enforce);
		return err;
	}
	*ret_enforce = enforce;
	return 0;
}

int enforce_open(const struct host_report *report, bool degraded, struct enforce **ret_enforce,
		 struct error *error)
{
	_cleanup_close_ int lock = enforce_lock(error);

	return lock < 0 ? lock : enforce_open_locked(report, degraded, 0, ret_enforce, error);
}

int enforce_open_loaded(struct enforce **ret_enforce, struct error *error)
{
	_cleanup_close_ int lock = enforce_lock(error);
	struct enforce *enforce;
	int err;

	if (lock < 0)
		return lock;
	enforce = enforce_new();
	if (!enforce)
		return error_set(error, ENOMEM, "out of memory");
	err = enforce_open_set(enforce, "");
	if (err)
		err = err == -ENOENT ? error_set(error, ENOENT, "no programs are loaded")
				     : set_refuse(enforce, err, error);
	if (!err) {
		enforce->users_fd = users_join(error);
		err = enforce->users_fd < 0 ? enforce->users_fd : 0;
	}
	if (err) {
		enforce_drop(enforce);
		return err;
	}
	node_reclaim(enforce);
	*ret_enforce = enforce;
	return 0;
}

/* Opens what shall be kept, and keeps it. */
static int keep_once(const struct host_report *report, bool degraded, uint32_t fences,
		     struct error *error)
{
	_cleanup_close_ int lock = enforce_lock(error);
	struct enforce *enforce = NULL;
	int err;

	if (lock < 0)
		return lock;
	err = enforce_open_locked(report, degraded, fences, &enforce, error);
	if (err)
		return err;
	err = node_keep(error);
	users_leave(enforce->users_fd);
	enforce_drop(enforce);
	return err;
}

int enforce_keep(const struct host_report *report, bool degraded, uint32_t fences,
		 struct error *error)
{
	struct error busy = { "" };
	int err = keep_once(report, degraded, fences, &busy);

	if (err != -EBUSY)
		return err ? error_set(error, -err, "%s", busy.text) : 0;
	err = enforce_upgrade(report, error);
	return err ? err : keep_once(report, degraded, fences, error);
}

int enforce_unload(unsigned int *ret_alive, struct error *error)
{
	struct enforce enforce = { .state = NULL };
	_cleanup_close_ int lock = enforce_lock(error);
	int users_fd;

	if (lock < 0)
		return lock;
	if (unlink(KEPT_PIN) && errno != ENOENT)
		return error_set(error, errno, "cannot remove " KEPT_PIN ": %s", strerror(errno));
	memset(enforce.map, 0xff, sizeof(enforce.map));
	memset(enforce.prog, 0xff, sizeof(enforce.prog));
	*ret_alive = enforce_open_set(&enforce, "") ? fences_pinned() : node_reclaim(&enforce);
	users_fd = open(ENFORCE_PIN_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (users_fd >= 0 && !users_leave(users_fd) && !*ret_alive)
		*ret_alive = 1; /* of who begins */
	node_close(&enforce);
	if (!*ret_alive)
		enforce_pins_remove(ENFORCE_PIN_DIR, true);
	return 0;
}

void enforce_close(struct enforce *enforce)
{
	_cleanup_close_ int lock = -1;
	bool last;

	if (!enforce)
		return;
	lock = enforce_lock(NULL);
	last = users_leave(enforce->users_fd);
	if (lock >= 0 && !node_reclaim(enforce) && enforce_is_kept() <= 0 && last)
		enforce_pins_remove(ENFORCE_PIN_DIR, true);
	else if (lock >= 0)
		enforce_demand_drop(enforce);
	node_close(enforce);
	free(enforce);
}

const char *enforce_attach_type(const struct enforce *enforce)
{
	return enforce->meta.degraded ? "cgroup only" : enforce->meta.fmod_ret ? "fmod_ret" : "lsm";
}
