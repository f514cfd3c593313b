/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fence's ring buffer and counters, from descriptors of their maps. For readers that hold no capability: who owns the
 * fence gives them duplicates (enforce_fence_ring_fd(), enforce_state_fd()) over a unix socket. Mapping a descriptor is
 * not a call of bpf(2), so neither CAP_BPF nor kernel.unprivileged_bpf_disabled matter, and a seccomp filter may forbid
 * bpf(2) altogether. Included by enforce.h; knows nothing of it. Not for several threads; one reader a ring at a time.
 *
 * What a reader can do with these: take records away, and count up or down any fence's counters. No decision reads either.
 */
#ifndef CORDON_ENFORCE_RING_H
#define CORDON_ENFORCE_RING_H

#include <stddef.h>
#include <stdint.h>

#include "cordon/abi.h"
#include "util/util.h"

#define ENFORCE_RING_MIN (64 * 1024)
#define ENFORCE_RING_DEFAULT (1024 * 1024)
#define ENFORCE_RING_MAX (256 * 1024 * 1024)

/* A fence's budget of events, a second: what is decided beyond it is folded (bpf/fold.bpf.h). */
#define ENFORCE_EVENT_RATE_DEFAULT 2000
#define ENFORCE_EVENT_RATE_MAX 1000000

struct enforce_ring;

/* Called for each record, in the order of the ring; 8-byte aligned, valid during the call. */
typedef void enforce_event_fn(void *context, const void *record, size_t size);

/*
 * Maps the ring behind a descriptor, which stays the caller's and must stay open as long as the ring. bytes: its size, as it
 * was made. Reading goes on where the last reader stopped, whoever that was. -errno when it cannot be mapped; -EINVAL
 * for a size that no ring has.
 */
int enforce_ring_open(int fd, size_t bytes, struct enforce_ring **ret_ring, struct error *error);

/*
 * Delivers what was there when it was called; when that is nothing, waits at most timeout_ms (-1: for ever) for something.
 * A record counts as read when fn has returned: a reader that is killed leaves at most the one that it was at to be
 * delivered twice. The kernel wakes nobody for less than 16 KiB: call it some times a second. Returns the number of
 * records, or -errno of poll(2); -EBADMSG when the ring holds what the kernel does not write.
 */
int enforce_ring_poll(struct enforce_ring *ring, int timeout_ms, enforce_event_fn *fn,
		      void *context);

/* Bytes that wait to be read, of enforce_ring_size(). */
size_t enforce_ring_waiting(const struct enforce_ring *ring);
size_t enforce_ring_size(const struct enforce_ring *ring);

/*
 * The first record that waits, which poll would deliver first, or NULL; valid until the next poll. Its number less one, and
 * its count of the lost, are where a reader begins that takes the ring over (event_tracker_init()) and has nothing better.
 */
const struct cordon_event *enforce_ring_first(const struct enforce_ring *ring);

/* Unmaps. Takes NULL. */
void enforce_ring_close(struct enforce_ring *ring);

/*
 * Maps the counters of all `fences` slots (enforce_fences_room()); they stay valid when the descriptor is closed. NULL and
 * *error when it cannot be done.
 */
struct cordon_state *enforce_state_map(int fd, uint32_t fences, struct error *error);
void enforce_state_unmap(struct cordon_state *states, uint32_t fences); /* takes NULL */

/* The next number of the fence, for an event that user space makes. */
static inline uint64_t enforce_number_take(struct cordon_state *state)
{
	return __atomic_add_fetch(&state->seq, 1, __ATOMIC_RELAXED);
}

#endif
