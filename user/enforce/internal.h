/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of user/enforce; see enforce.h. */
#ifndef CORDON_ENFORCE_INTERNAL_H
#define CORDON_ENFORCE_INTERNAL_H

#include "cordon/hooks.h"
#include "cordon/peer.h"
#include "enforce/enforce.h"

/* The maps that user space opens by their pins. */
#define ENFORCE_MAPS(M) \
	M(tasks)        \
	M(socks)        \
	M(fences)       \
	M(policies)     \
	M(state) M(cgroups) M(roots) M(nets) M(rings) M(folds) M(peer_keys) M(peers) M(notes)

#define ENFORCE_X(name) ENFORCE_MAP_##name,
enum enforce_map { ENFORCE_MAPS(ENFORCE_X) ENFORCE_MAP_COUNT };
#undef ENFORCE_X

/* The programs that are run or attached by their pins. */
#define CORDON_X(program, type) ENFORCE_PROG_##program,
enum enforce_prog {
	CORDON_CGROUP_HOOKS(CORDON_X) CORDON_ITERATORS(CORDON_X) CORDON_RUN_PROGRAMS(CORDON_X)
		ENFORCE_PROG_COUNT
};
#undef CORDON_X

/* What is pinned last, and says what the pins are. */
struct enforce_meta {
	uint32_t abi;
	uint32_t degraded;
	uint32_t fmod_ret;
	uint32_t fences; /* that there is room for in the maps */
	uint64_t build;	 /* digest of the object */
	uint32_t set;	 /* 0 or 1: cordon_set */
	uint32_t pad;
};

/* Below ENFORCE_PIN_DIR: the set that is brought into effect beside the one that is; see upgrade.c. */
#define ENFORCE_NEXT "next/"

/* A map of the set once more: all that is loaded late is pinned. */
#define ENFORCE_LATE "late"
#define ENFORCE_LATE_PIN ENFORCE_PIN_DIR "/" ENFORCE_LATE

struct enforce {
	int map[ENFORCE_MAP_COUNT];
	int prog[ENFORCE_PROG_COUNT];
	struct enforce_meta meta;
	uint32_t meta_id;	    /* of the map that holds it: another set, another map */
	const char *set;	    /* where its programs are pinned: "", or ENFORCE_NEXT */
	struct cordon_state *state; /* of each slot, mapped */
	uint32_t found_slot;	    /* where the next search for a fence begins, */
	uint32_t free_slot;	    /* and that for a free slot */
	int users_fd;		    /* says that this process uses what is pinned; see node.c */
};

/* What one generation of a fence has in the maps that all share; see keys.c. */
enum enforce_key_kind { ENFORCE_KEY_ROOT, ENFORCE_KEY_NET, ENFORCE_KEY_KINDS };
struct enforce_keys {
	bool known; /* these are all; false: there may be others, of another process */
	void *keys[ENFORCE_KEY_KINDS];
	size_t n[ENFORCE_KEY_KINDS], room[ENFORCE_KEY_KINDS];
};

struct enforce_fence {
	struct enforce *enforce;
	struct enforce_keys keys[2]; /* by the parity of the generation */
	const struct host_cgroup *cgroup;
	struct cordon_fence info;
	struct cordon_policy policy;
	struct cordon_peer peer;
	uint32_t slot;
	uint64_t flushed;    /* of what its state counts as folded, that is told */
	uint64_t watched_ms; /* CLOCK_MONOTONIC, when its programs were last looked for */
	int lock_fd;	     /* the fence's file, locked */
	int ring_fd;
	size_t ring_bytes;
	struct enforce_ring *ring;
	struct host_cgroup *own_cgroup; /* of a fence that was taken over; else NULL */
};

/* load.c: loads, attaches and pins everything, in a child process. Removes what it pinned when it fails. */
/* beside: the set whose maps the new one shares; it is pinned in ENFORCE_NEXT then. */
int enforce_load(const struct enforce_meta *meta, const struct enforce *beside,
		 struct error *error);
/* Loads and pins what CORDON_DEMAND_HOOKS has, for the set in effect, and ENFORCE_LATE_PIN last; none of it may be pinned. */
int enforce_load_demand(const struct enforce *enforce, struct error *error);
const char *enforce_prog_name(enum enforce_prog prog);
int enforce_prog_attach_type(enum enforce_prog prog); /* of the cgroup programs */

/*
 * demand.c, with the lock held. What a fence with a policy needs besides what is always attached; attaches it; detaches
 * what no fence of the node needs any more.
 */
enum {
	ENFORCE_NEED_DESCRIPTORS = 1,
	ENFORCE_NEED_EXEC = 2,
	ENFORCE_NEED_OUTPUT = 4,
	ENFORCE_NEED_UPLOAD = 8,
	/* Those that file_mmap and file_mprotect are attached for. */
	ENFORCE_NEEDS_MAPS = ENFORCE_NEED_DESCRIPTORS | ENFORCE_NEED_EXEC | ENFORCE_NEED_OUTPUT,
};
unsigned int enforce_needs(const struct cordon_fence *fence, const struct cordon_policy *policy);
int enforce_demand(const struct enforce *enforce, unsigned int needs, struct error *error);
/* Attaches the programs of ENFORCE_NEXT that are attached of the set in effect; *ret_needs: what the node's fences need. */
int enforce_demand_next(const struct enforce *enforce, unsigned int *ret_needs,
			struct error *error);
void enforce_demand_drop(const struct enforce *enforce);

/* watch.c: -EXFULL when one of the fence's cgroup programs is not in effect. */
int enforce_check_attached(const struct enforce_fence *fence, struct error *error);

/*
 * btrfs.c: sets the generations of those objects that lie on btrfs to what the programs will see, and *ret_btrfs to where
 * they look, if there are any. -ENOTSUP when that cannot be told.
 */
int enforce_btrfs(const int *fds, size_t n, struct cordon_object *objects,
		  struct cordon_btrfs *ret_btrfs, struct error *error);

/*
 * run.c: what lies in ENFORCE_RUN_DIR about each fence. fence-ID is locked by its owner, cgroup-ID names its cgroup; kept-ID, if
 * it is there, says that the fence outlives its owner. All with the node's lock held.
 */
int enforce_run_make(const struct enforce_fence *fence,
		     struct error *error); /* locked, or -errno */
/* A number that no fence of this host ever had. */
int enforce_run_id(uint64_t *ret_id, struct error *error);
/* The fence that has the cgroup, if it stands in that slot still; false: none, or one of another cordon's making. */
bool enforce_run_of_cgroup(uint64_t cgroup_id, uint64_t *ret_fence_id, uint32_t *ret_slot);
/* Opens fence-ID and locks it: -EBUSY when its owner lives, -ENOENT. The path of the cgroup goes to ret_cgroup. */
int enforce_run_take(const struct cordon_fence *fence, char *ret_cgroup, size_t size);
bool enforce_run_kept(uint64_t fence_id);
int enforce_run_keep(uint64_t fence_id, const void *record, size_t size, struct error *error);
int enforce_run_record(uint64_t fence_id, void **ret_record, size_t *ret_size, struct error *error);
void enforce_run_remove(const struct cordon_fence *fence);

/*
 * upgrade.c, with the lock held: ends or undoes what an enforce_upgrade() that was killed left. To be called before anything
 * else is done with the pins: enforce_lock() does.
 */
void enforce_upgrade_recover(void);

/* selftest.c: the self-test by a set that is not in effect yet; only what that denies counts. needs: see demand.c. */
int enforce_selftest_set(struct enforce_fence *fence, unsigned int needs, struct error *error);

/* node.c */
struct enforce *enforce_new(void); /* or NULL; closed by enforce_drop() */
int enforce_open_set(struct enforce *enforce,
		     const char *set);	    /* what is pinned; -ENOENT: no set is */
void enforce_drop(struct enforce *enforce); /* closes, nothing else; takes NULL */
uint64_t enforce_build(void);
void enforce_pins_remove(const char *dir, bool later);
void enforce_links_release(const int *fds, size_t n);
/* The programs of the set in effect, when it has changed since it was opened. With the lock held. */
int enforce_refresh(struct enforce *enforce, struct error *error);
/* While this process holds the lock, its enforce_lock() gives this one again. -1: no more. */
void enforce_lock_hold(int fd);
/* In a child that was forked meanwhile: who holds the lock shall not outlive its owner there. */
void enforce_lock_forget(void);
int enforce_lock(struct error *error); /* a descriptor that holds the node's lock, or -errno */
/* With the lock held. keys: of both generations, if this process knows them. */
void enforce_slot_free(struct enforce *enforce, uint32_t slot, struct enforce_keys keys[2]);

/* fence.c: -ENOSPC with what to do when the map is full. */
int enforce_map_set(struct enforce_fence *fence, enum enforce_map map, const void *key,
		    const void *value, struct error *error);

/* roots.c: a path as a process with that root directory sees it, O_PATH; links stay inside it. resolve: further RESOLVE_* */
int enforce_open_in_root(int root_fd, const char *path, uint64_t resolve);
/* Enters the roots of a generation that nobody looks at yet, and what they add to its policy. pid: see enforce_fence_set_at(). */
int enforce_roots_set(struct enforce_fence *fence, const struct image *image, int root_fd,
		      pid_t pid, struct cordon_policy *policy, struct error *error);
enum { ENFORCE_SECRETS_BATCH = 128 }; /* descriptors open at a time */

/* keys.c: takes note of a key before it is entered; deletes what one generation, or a slot, has; forgets. */
int enforce_keys_note(struct enforce_keys *keys, enum enforce_key_kind kind, const void *key,
		      struct error *error);
void enforce_keys_clear(struct enforce *enforce, struct enforce_keys *keys, uint32_t tag);
void enforce_keys_clear_slot(struct enforce *enforce, struct enforce_keys keys[2], uint32_t slot);
void enforce_keys_drop(struct enforce_keys *keys);

/* peer.c: a new key for the fence's marks, in its slot; and none. */
int enforce_peer_set(struct enforce_fence *fence, struct error *error);
void enforce_peer_clear(struct enforce *enforce, uint32_t slot);

/* resolve.c: the kernel's view of open descriptors; objects[i] belongs to fds[i]. */
int enforce_resolve(struct enforce *enforce, const int *fds, size_t n,
		    struct cordon_object *objects, struct error *error);
int enforce_iterate(int prog_fd, struct error *error); /* runs an iterator program to its end */
/* The same, and fn for each record of `size` bytes that it writes; own_files: only this thread's descriptors. */
int enforce_iterate_records(int prog_fd, bool own_files, void *record, size_t size,
			    void (*fn)(void *context), void *context, struct error *error);

#endif
