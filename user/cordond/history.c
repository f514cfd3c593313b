// SPDX-License-Identifier: Apache-2.0
/* See history.h. */
#include "cordond/history.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 8 };

struct history {
	char *ring;
	size_t size;
	uint64_t oldest, newest; /* places; the byte is place % size */
	history_evict_fn *evict;
	void *context;
};

struct history *history_new(size_t bytes, history_evict_fn *evict, void *context)
{
	struct history *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	*h = (struct history){ .size = bytes - bytes % ALIGN, .evict = evict, .context = context };
	h->ring = malloc(h->size);
	if (!h->ring) {
		free(h);
		return NULL;
	}
	return h;
}

void history_free(struct history *h)
{
	if (!h)
		return;
	free(h->ring);
	free(h);
}

static struct history_entry *entry_at(const struct history *h, uint64_t at)
{
	return (struct history_entry *)(h->ring + at % h->size);
}

/* What is left of the ring at a place, before it begins anew. */
static size_t left_at(const struct history *h, uint64_t at)
{
	return h->size - (size_t)(at % h->size);
}

/* An entry's head needs this much; less at the end of the ring is nothing, without a head. */
static bool has_head(const struct history *h, uint64_t at)
{
	return left_at(h, at) >= sizeof(struct history_entry);
}

static void oldest_drop(struct history *h)
{
	const struct history_entry *entry = entry_at(h, h->oldest);

	if (!has_head(h, h->oldest)) {
		h->oldest += left_at(h, h->oldest);
		return;
	}
	if (entry->bytes)
		h->evict(h->context, h->oldest, entry);
	h->oldest += entry->size;
}

static void room_make(struct history *h, size_t size)
{
	while (h->newest + size - h->oldest > h->size)
		oldest_drop(h);
}

/* The rest of the ring, when an entry does not fit into it. */
static void rest_skip(struct history *h)
{
	size_t left = left_at(h, h->newest);

	room_make(h, left);
	if (has_head(h, h->newest))
		*entry_at(h, h->newest) = (struct history_entry){ .size = (uint32_t)left };
	h->newest += left;
}

bool history_add(struct history *h, uint64_t fence_id, uint64_t seq, const char *line, size_t bytes)
{
	size_t size = (sizeof(struct history_entry) + bytes + ALIGN - 1) / ALIGN * ALIGN;
	struct history_entry *entry;

	if (size > h->size / 4)
		return false;
	if (left_at(h, h->newest) < size)
		rest_skip(h);
	room_make(h, size);
	entry = entry_at(h, h->newest);
	*entry = (struct history_entry){
		.size = (uint32_t)size,
		.bytes = (uint32_t)bytes,
		.fence_id = fence_id,
		.seq = seq,
	};
	memcpy(entry->line, line, bytes);
	h->newest += size;
	return true;
}

uint64_t history_oldest(const struct history *h)
{
	return h->oldest;
}

uint64_t history_newest(const struct history *h)
{
	return h->newest;
}

const struct history_entry *history_at(const struct history *h, uint64_t at, uint64_t *ret_next)
{
	while (at < h->newest) {
		const struct history_entry *entry = entry_at(h, at);

		if (!has_head(h, at)) {
			at += left_at(h, at);
			continue;
		}
		if (entry->bytes) {
			*ret_next = at + entry->size;
			return entry;
		}
		at += entry->size;
	}
	*ret_next = at;
	return NULL;
}
