/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The latest events as lines, in one ring of memory that all readers of events share. Each reader has a place in it; who is
 * so far behind that its place is needed for new events is told of each one that it loses. Nobody waits for anybody.
 */
#ifndef CORDON_CORDOND_HISTORY_H
#define CORDON_CORDOND_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct history_entry {
	uint32_t size;	/* of the whole, up to the next */
	uint32_t bytes; /* of the line, newline included; 0: nothing, to the end of the ring */
	uint64_t fence_id;
	uint64_t seq;
	char line[];
};

struct history; /* the ring */

/* Calls for a reader whose place is at an entry that goes away; it is to move on. */
typedef void history_evict_fn(void *context, uint64_t at, const struct history_entry *entry);

/* NULL when memory ends. evict is called for every entry that goes. */
struct history *history_new(size_t bytes, history_evict_fn *evict, void *context);
void history_free(struct history *history); /* takes NULL */

/* Appends a line, which may take the place of the oldest ones. A line longer than a quarter of the ring is not taken: false. */
bool history_add(struct history *history, uint64_t fence_id, uint64_t seq, const char *line,
		 size_t bytes);

/* Places count up: the oldest that is there, and the next that will be. */
uint64_t history_oldest(const struct history *history);
uint64_t history_newest(const struct history *history);

/* The entry at a place, oldest <= at < newest, and *ret_next, the place behind it. NULL at the newest. */
const struct history_entry *history_at(const struct history *history, uint64_t at,
				       uint64_t *ret_next);

#endif
