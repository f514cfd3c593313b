// SPDX-License-Identifier: Apache-2.0
/*
 * See ring.h. Needs no privilege and no libbpf. The ring is the kernel's (BPF_MAP_TYPE_RINGBUF): a page with the
 * consumer's position, which is the only one that may be written; a page with the producer's; the data, mapped twice in
 * a row so that every record lies in one piece. A record begins with its length and two flags. What is read is bounded
 * by the ring's size whatever it says.
 */
#include "enforce/ring.h"

#include <errno.h>
#include <linux/bpf.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

enum { HEADER_BYTES = BPF_RINGBUF_HDR_SZ };

struct enforce_ring {
	int fd; /* borrowed */
	size_t bytes, page;
	uint64_t *consumed;	  /* by the reader; the kernel looks at it */
	const uint64_t *produced; /* by the kernel */
	const char *data;
};

int enforce_ring_open(int fd, size_t bytes, struct enforce_ring **ret_ring, struct error *error)
{
	struct enforce_ring *ring;
	void *map;

	if (bytes < ENFORCE_RING_MIN || bytes > ENFORCE_RING_MAX || bytes & (bytes - 1))
		return error_set(error, EINVAL, "no ring buffer has %zu bytes", bytes);
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return error_set(error, ENOMEM, "out of memory");
	ring->fd = fd;
	ring->bytes = bytes;
	ring->page = sysconf(_SC_PAGESIZE);
	map = mmap(NULL, ring->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED)
		ring->consumed = map;
	map = map == MAP_FAILED ? map
				: mmap(NULL, ring->page + 2 * bytes, PROT_READ, MAP_SHARED, fd,
				       (off_t)ring->page);
	if (map == MAP_FAILED) {
		int err =
			error_set(error, errno, "cannot map the ring buffer: %s", strerror(errno));

		enforce_ring_close(ring);
		return err;
	}
	ring->produced = map;
	ring->data = (const char *)map + ring->page;
	*ret_ring = ring;
	return 0;
}

/* The header of the record at a position; its length word is loaded before anything of the record. */
static uint32_t record_length(const struct enforce_ring *ring, uint64_t position)
{
	const void *header = ring->data + (position & (ring->bytes - 1));

	return __atomic_load_n((const uint32_t *)header, __ATOMIC_ACQUIRE);
}

static const void *record_at(const struct enforce_ring *ring, uint64_t position)
{
	return ring->data + (position & (ring->bytes - 1)) + HEADER_BYTES;
}

/* Bytes from one record to the next; 0 for one that cannot be. */
static uint64_t record_step(const struct enforce_ring *ring, uint32_t length)
{
	uint64_t size = length & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

	return size <= ring->bytes - HEADER_BYTES ? (size + HEADER_BYTES + 7) & ~7ULL : 0;
}

/* What is there now, and no more: who fills the ring as fast as it is read does not hold the reader. */
static int ring_consume(struct enforce_ring *ring, enforce_event_fn *fn, void *context)
{
	uint64_t end = __atomic_load_n(ring->produced, __ATOMIC_ACQUIRE);
	uint64_t position = __atomic_load_n(ring->consumed, __ATOMIC_RELAXED);
	int n = 0;

	while (position < end) {
		uint32_t length = record_length(ring, position);
		uint64_t step = record_step(ring, length);

		if (length & BPF_RINGBUF_BUSY_BIT)
			break;
		if (!step)
			return -EBADMSG;
		if (!(length & BPF_RINGBUF_DISCARD_BIT)) {
			fn(context, record_at(ring, position), length);
			n++;
		}
		position += step;
		__atomic_store_n(ring->consumed, position, __ATOMIC_RELEASE);
	}
	return n;
}

int enforce_ring_poll(struct enforce_ring *ring, int timeout_ms, enforce_event_fn *fn,
		      void *context)
{
	struct pollfd p = { .fd = ring->fd, .events = POLLIN };
	int n = ring_consume(ring, fn, context);

	if (n || !timeout_ms)
		return n;
	if (poll(&p, 1, timeout_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	return ring_consume(ring, fn, context);
}

size_t enforce_ring_waiting(const struct enforce_ring *ring)
{
	return __atomic_load_n(ring->produced, __ATOMIC_ACQUIRE) -
	       __atomic_load_n(ring->consumed, __ATOMIC_RELAXED);
}

size_t enforce_ring_size(const struct enforce_ring *ring)
{
	return ring->bytes;
}

const struct cordon_event *enforce_ring_first(const struct enforce_ring *ring)
{
	uint64_t end = __atomic_load_n(ring->produced, __ATOMIC_ACQUIRE);
	uint64_t position = __atomic_load_n(ring->consumed, __ATOMIC_RELAXED);

	while (position < end) {
		uint32_t length = record_length(ring, position);
		uint64_t step = record_step(ring, length);

		if (length & BPF_RINGBUF_BUSY_BIT || !step)
			return NULL;
		if (!(length & BPF_RINGBUF_DISCARD_BIT) && length >= sizeof(struct cordon_event))
			return record_at(ring, position);
		position += step;
	}
	return NULL;
}

void enforce_ring_close(struct enforce_ring *ring)
{
	if (!ring)
		return;
	if (ring->produced)
		munmap((void *)ring->produced, ring->page + 2 * ring->bytes);
	if (ring->consumed)
		munmap(ring->consumed, ring->page);
	free(ring);
}

struct cordon_state *enforce_state_map(int fd, uint32_t fences, struct error *error)
{
	void *map = mmap(NULL, fences * sizeof(struct cordon_state), PROT_READ | PROT_WRITE,
			 MAP_SHARED, fd, 0);

	if (map != MAP_FAILED)
		return map;
	error_set(error, errno, "cannot map the counters: %s", strerror(errno));
	return NULL;
}

void enforce_state_unmap(struct cordon_state *states, uint32_t fences)
{
	if (states)
		munmap(states, fences * sizeof(*states));
}
