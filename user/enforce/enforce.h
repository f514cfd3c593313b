/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enforcement: the kernel programs of this node, and fences. The only part that includes the skeleton or libbpf.
 *
 * Everything is pinned below one bpffs folder and so outlives the process: programs are loaded by the first fence
 * and dropped with the last, unless they are kept. /run/cordon/lock is held while any of it changes; each fence has a file there that its
 * owner keeps locked, so that a later `cordon` can tell a fence whose owner died.
 *
 * Functions return 0 or -errno and say the cause and the remedy in *error. Not for several threads.
 */
#ifndef CORDON_ENFORCE_H
#define CORDON_ENFORCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cordon/abi.h"
#include "enforce/ring.h"
#include "host/host.h"
#include "policy/policy.h"
#include "policy/secrets.h"
#include "util/util.h"

#define ENFORCE_PIN_DIR "/sys/fs/bpf/cordon"
#define ENFORCE_RUN_DIR "/run/cordon"
#define ENFORCE_RECORD_MAX (64 * 1024) /* bytes that a kept fence carries for its owner */

struct enforce; /* the node's enforcement, opened */

/*
 * Takes the node's lock, reclaims fences whose owner died, loads and pins the programs if nobody has, and gives the
 * lock back. degraded: only the cgroup programs, for kernels that refuse the rest. Loading happens in a child, so
 * that its memory is not this process's.
 */
int enforce_open(const struct host_report *report, bool degraded, struct enforce **ret_enforce,
		 struct error *error);

/*
 * Opens what is loaded, of whatever build, if its records are laid out as this program knows them. Loads nothing: for an
 * owner of another build, to take its fences over all the same. -ENOENT:
 * nothing is loaded. -EPROTO: another ABI; the remedy is in *error.
 */
int enforce_open_loaded(struct enforce **ret_enforce, struct error *error);

/* Drops the programs when no fence is left on the node and nobody asked to keep them; closes. Takes NULL. */
void enforce_close(struct enforce *enforce);

/*
 * Loads what enforce_open() would, and keeps it while no fence lives, so that the first fence need not wait for the
 * verifier. A set of another build that is loaded later in its place is kept, too. fences: how many there shall be room
 * for, 0: as many as there is, or CORDON_FENCES_ROOM; -EBUSY when fences live in less. Undone by enforce_unload().
 */
int enforce_keep(const struct host_report *report, bool degraded, uint32_t fences,
		 struct error *error);

/* Are the programs kept by enforce_keep()? 1, 0, or -EACCES for who may not look into bpffs. */
int enforce_is_kept(void);

/* Drops the programs, or has the last of the *ret_alive fences that live drop them. Nothing loaded is no error. */
int enforce_unload(unsigned int *ret_alive, struct error *error);

/*
 * Brings this program's set into effect in place of another build's that is loaded, while fences live: it is loaded and
 * attached beside the old one on the same maps, must deny and report by itself what the self-test tries, takes the
 * cgroup links over, and only then the old set is dropped. There is no instant without a whole set, and a process that is
 * killed at any leaves what the next enforce_upgrade() or enforce_open() ends or undoes. Mode (degraded, fmod_ret) and room
 * stay those of what is loaded. 0 also when there is nothing to do: this build is loaded, or none is.
 *
 * -errno: the old set enforces as before, and *error says what the new one lacks. -EPROTO: another ABI, fences cannot be
 * carried over; the remedy is in *error.
 */
int enforce_upgrade(const struct host_report *report, struct error *error);

/* What enforce_open_upgraded() opened: this program's set as it was, or brought into effect just now; or another build's. */
enum enforce_opened { ENFORCE_OPENED_OWN, ENFORCE_OPENED_UPGRADED, ENFORCE_OPENED_OLD };

/*
 * For an owner who serves the fences of this node in any case: enforce_open(), and where fences live on another build's set,
 * enforce_upgrade() before it. Where that fails the other set, which enforces on, is opened, and *ret_why says what this
 * program's lacks. -errno: nothing is opened, nothing was changed.
 */
int enforce_open_upgraded(const struct host_report *report, bool degraded,
			  struct enforce **ret_enforce, enum enforce_opened *ret_opened,
			  struct error *ret_why, struct error *error);

/* Is what is loaded now this program's set? Another cordon may have brought its own into effect. */
bool enforce_is_own(void);

/*
 * How often programs of the node, those of cgroups aside, were skipped by the kernel because one ran already on that CPU, since
 * they were loaded. 0 or -errno.
 */
int enforce_missed(uint64_t *ret_missed);

/* How the programs are attached: "lsm", "fmod_ret" or "cgroup only". */
const char *enforce_attach_type(const struct enforce *enforce);

struct enforce_fence; /* a fence that this process owns */

struct enforce_fence_options {
	const struct host_cgroup *cgroup; /* borrowed for the life of the fence */
	bool attached;			  /* the cgroup is not ours to kill or remove */
	const int *out_fds; /* NULL, or two descriptors: where limits.output counts besides files */
	bool descriptors;   /* its tasks have descriptors from before: judge each use of one */
	bool limit_output; /* the policy that it begins with lets one byte be written: the self-test */
	size_t ring_bytes; /* a power of two; 0: none, its events are numbered and lost, as in the self-test */
	bool read_elsewhere; /* another process reads its events: the ring is not mapped here until enforce_fence_poll() */
	/* Decisions a second that are told one by one; what is beyond is folded. 0: no budget. At most ENFORCE_EVENT_RATE_MAX. */
	uint32_t event_rate;
};

/*
 * Makes a fence on the cgroup: takes a slot, attaches the cgroup programs, and sets a policy under which everything
 * is denied, until enforce_fence_set(). From here on each task that enters the cgroup is fenced.
 */
int enforce_fence_make(struct enforce *enforce, const struct enforce_fence_options *options,
		       struct enforce_fence **ret_fence, struct error *error);

/*
 * Installs a policy image as the idle generation and flips to it. Roots are resolved as the process `pid` sees
 * them (its root directory); a root that is not there is -ENOENT.
 */
int enforce_fence_set(struct enforce_fence *fence, const struct image *image, pid_t pid,
		      bool report_allow, struct error *error);

/*
 * The root directory of a process (O_PATH), or -errno; the caller's. below: NULL, or the directory that will be its root, as it
 * sees it now: a container's init before it changed its root.
 */
int enforce_root_open(pid_t pid, const char *below, struct error *error);

/*
 * enforce_fence_set() with roots resolved below a directory. pid: the process whose HOME is one of the homes in which the
 * rule set `secrets` looks; 0: none.
 */
int enforce_fence_set_at(struct enforce_fence *fence, const struct image *image, int root_fd,
			 pid_t pid, bool report_allow, struct error *error);

/*
 * Calls fn for each place of these groups of the rule set `secrets` that exists below a root directory, with a descriptor (O_PATH)
 * that fn takes over; an error of fn ends the search. One object may come more than once. -errno: what is there could not be told.
 */
#define ENFORCE_SECRETS_MAX 4096 /* places of one fence; with more it is refused */
typedef int enforce_secret_fn(void *context, const char *path, enum policy_secret_group group,
			      int fd, struct error *error);
int enforce_secrets_find(int root_fd, pid_t pid, uint32_t groups, enforce_secret_fn *fn,
			 void *context, struct error *error);

/* Marks every task that is in the cgroup already; the caller has frozen it. */
int enforce_fence_mark_tasks(struct enforce_fence *fence, struct error *error);

/*
 * Calls fn for each thing that the fence's tasks hold from before and its policy denies: a descriptor, of which each
 * use is judged from now on, or (start is not 0) a mapping that is shared and writable, and (rule files.descriptor) an
 * io_uring that another process works off, both of which the kernel cannot take back. The caller has frozen the tasks.
 */
typedef void enforce_found_fn(void *context, const struct cordon_found *found);
int enforce_fence_find(struct enforce_fence *fence, enforce_found_fn *fn, void *context,
		       struct error *error);

/* What was found, for people: "process 12 (sh) holds open /path". The names are those of the fenced side. */
void enforce_found_name(const struct cordon_found *found, char *text, size_t size);

/* Is the process marked as being in this fence? -EXFULL if it is not. */
int enforce_fence_check(struct enforce_fence *fence, int pidfd, struct error *error);

/*
 * The self-test (promise 7): a process of our own in a cgroup below that of the fence tries each thing that must be
 * denied, and the kernel's own count must say that it was Cordon who denied it. Also asks the kernel whether the
 * cgroup programs are still in effect. ret_probes: how many attempts were denied.
 */
int enforce_fence_selftest(struct enforce_fence *fence, unsigned int *ret_probes,
			   struct error *error);

/*
 * What the gateway knows the connections of a fence by (user/identity): the slot and the key of the marks in its SYNs,
 * made anew for every fence, the number that the next mark will have, and the map that holds the fence of accepted unix sockets, as a descriptor that can only
 * read, or -errno; the caller's.
 */
uint32_t enforce_fence_slot(const struct enforce_fence *fence);
void enforce_fence_peer_key(const struct enforce_fence *fence, uint64_t ret_key[2]);
uint32_t enforce_fence_peer_next(const struct enforce_fence *fence);
int enforce_peers_open(struct error *error);
/* The same for the map of datagrams that were sent to resolvers, struct cordon_note by struct cordon_datagram. */
int enforce_notes_open(struct error *error);

/* The counters of all slots, as a descriptor by which they can only be looked up, or -errno; the caller's. */
int enforce_state_open(struct error *error);

/*
 * To be called often; looks once a second whether the fence's cgroup programs are still in effect. Returns 1 when one
 * was just found to be gone, with its name in *error: the network of the fence is shut then, for as long as it lives.
 * Else 0.
 */
int enforce_fence_watch(struct enforce_fence *fence, struct error *error);

/*
 * Has what is folded (bpf/fold.bpf.h) and waits put into the ring: what has waited for a second, or all of it, at the
 * fence's end. To be called often; enforce_fence_watch() does it.
 */
void enforce_fence_flush(struct enforce_fence *fence, bool all);

/* Reads the fence's ring: enforce_ring_poll(). For an owner that reads itself. */
int enforce_fence_poll(struct enforce_fence *fence, int timeout_ms, enforce_event_fn *fn,
		       void *context);

/*
 * For an owner whose events another process reads (ring.h). The descriptors stay the fence's and the node's; what is sent
 * to the reader is a duplicate. ret_bytes: of the ring.
 */
int enforce_fence_ring_fd(const struct enforce_fence *fence, size_t *ret_bytes);
int enforce_state_fd(const struct enforce *enforce);
uint32_t enforce_fences_room(const struct enforce *enforce); /* slots in the state map */

/* What is said of a fence whose cordon_fence.ipc_shared is set. */
#define ENFORCE_IPC_SHARED "its IPC namespace and /dev/shm are shared with processes outside"
const struct cordon_fence *enforce_fence_info(const struct enforce_fence *fence);
const struct cordon_policy *enforce_fence_policy(const struct enforce_fence *fence);
/* The counters, live. seq and lost may be added to by user space, atomically. */
struct cordon_state *enforce_fence_state(const struct enforce_fence *fence);

/* The cgroup: as it was given, or as it was found again. */
const struct host_cgroup *enforce_fence_cgroup(const struct enforce_fence *fence);

/* --- fences that outlive their owner ------------------------------------------------------------------------- */

/*
 * From now on the fence stays enforced when its owner dies, whatever its cgroup holds, until an owner ends it or its cgroup
 * is gone: then the next enforce_open(), _close(), or _adopt() of anybody frees it. A cgroup that is only empty stays
 * fenced. record: what the owner will want to know when it takes the fence over, at most ENFORCE_RECORD_MAX bytes, opaque
 * here; it replaces the last one, and a crash at any instant leaves one or the other. It is no secret from root, and from
 * nobody else readable. -E2BIG, -errno; then what was kept before is kept still.
 */
int enforce_fence_keep(struct enforce_fence *fence, const void *record, size_t size,
		       struct error *error);

struct enforce_listed {
	uint64_t fence_id;
	uint64_t cgroup_id;
	uint32_t slot;
	const char *cgroup; /* path; "" when it is not known */
	bool attached;
	bool kept;
	bool owned; /* its owner lives; may be this process */
	bool broken;
};

/* Calls fn for each fence of the node, kept or not, by slot. fn opens and closes no fence. */
typedef void enforce_listed_fn(void *context, const struct enforce_listed *listed);
int enforce_fence_list(struct enforce *enforce, enforce_listed_fn *fn, void *context,
		       struct error *error);

/*
 * Takes a kept fence over whose owner died. The fence is as its owner left it: id, policy, generation, peer key, counters; the
 * ring holds what was not read. ret_record: what was kept last, the caller's to free; may be of 0 bytes, never NULL.
 *
 * -ENOENT: no such fence, or its cgroup is gone: freed. -EBUSY: its owner lives. -ENODATA: it is not kept. Else -errno and the
 * fence, named in *error, stays enforced and as it was; it can be tried again.
 */
int enforce_fence_adopt(struct enforce *enforce, uint64_t fence_id,
			struct enforce_fence **ret_fence, void **ret_record, size_t *ret_size,
			struct error *error);

/*
 * Lets go of the fence without ending it: one that is kept stays enforced, any other is as if its owner had died. Frees.
 * Takes NULL.
 */
void enforce_fence_leave(struct enforce_fence *fence);

/*
 * Ends the fence. Of one made by run, all tasks must be gone, or they stay denied everything; of an attached one
 * they are set free. Frees. Takes NULL.
 */
void enforce_fence_end(struct enforce_fence *fence);

#endif
