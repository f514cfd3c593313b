/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of upstreams that are not old yet, a bounded number of them, for all fences together: what a fence may ask, and which
 * of the addresses it is told, is judged each time. One thread.
 */
#ifndef CORDON_RESOLVER_CACHE_H
#define CORDON_RESOLVER_CACHE_H

#include "resolver/message.h"

#define CACHE_ENTRIES 4096 /* each in one of four places */
#define CACHE_TTL_MIN_S 5
#define CACHE_TTL_MAX_S 3600
#define CACHE_NEGATIVE_S 30 /* what does not exist */

struct cache_entry {
	uint64_t hash;
	uint16_t type;
	uint32_t own; /* bits: which addresses are this host's own */
	uint64_t until_ms;
	struct reach_name name;
	struct message_records records; /* its ttl_s is not told: see cache_ttl() */
};

struct cache;
struct cache *cache_new(void);	      /* NULL when memory ends */
void cache_free(struct cache *cache); /* takes NULL */

/* NULL: not known, or too old. Borrowed until the next cache_put(). */
const struct cache_entry *cache_find(const struct cache *cache, const struct reach_name *name,
				     uint16_t type, uint64_t now_ms);
const struct cache_entry *cache_put(struct cache *cache, const struct reach_name *name,
				    uint16_t type, const struct message_records *records,
				    uint32_t own, uint64_t now_ms);
/* Seconds that the asker may keep it. */
uint32_t cache_ttl(const struct cache_entry *entry, uint64_t now_ms);

/* A number of a name that nobody can choose names by. */
uint64_t cache_hash(const struct cache *cache, const struct reach_name *name);

#endif
