// SPDX-License-Identifier: Apache-2.0
/* See cache.h. Places are chosen by a hash under a key of this process, so that no fence can aim at another's answers. */
#include "resolver/cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cordon/peer.h"

#define WAYS 4

struct cache {
	__u64 key[2];
	struct cache_entry entries[CACHE_ENTRIES];
};

struct cache *cache_new(void)
{
	struct cache *cache = calloc(1, sizeof(*cache));

	if (cache && getrandom(cache->key, sizeof(cache->key), 0) != sizeof(cache->key)) {
		free(cache);
		return NULL;
	}
	return cache;
}

void cache_free(struct cache *cache)
{
	free(cache);
}

uint64_t cache_hash(const struct cache *cache, const struct reach_name *name)
{
	__u64 hash = name->n, word;

	for (size_t i = 0; i < name->n; i += sizeof(word)) {
		size_t n = name->n - i < sizeof(word) ? name->n - i : sizeof(word);

		word = 0;
		memcpy(&word, name->s + i, n);
		hash = cordon_peer_hash(cache->key, hash, word);
	}
	return hash;
}

static struct cache_entry *set_of(const struct cache *cache, uint64_t hash)
{
	return (struct cache_entry *)&cache->entries[hash % (CACHE_ENTRIES / WAYS) * WAYS];
}

static bool entry_is(const struct cache_entry *entry, uint64_t hash, const struct reach_name *name,
		     uint16_t type)
{
	return entry->hash == hash && entry->type == type && entry->name.n == name->n &&
	       !memcmp(entry->name.s, name->s, name->n);
}

const struct cache_entry *cache_find(const struct cache *cache, const struct reach_name *name,
				     uint16_t type, uint64_t now_ms)
{
	uint64_t hash = cache_hash(cache, name);
	const struct cache_entry *set = set_of(cache, hash);

	for (size_t i = 0; i < WAYS; i++)
		if (entry_is(&set[i], hash, name, type))
			return set[i].until_ms > now_ms ? &set[i] : NULL;
	return NULL;
}

const struct cache_entry *cache_put(struct cache *cache, const struct reach_name *name,
				    uint16_t type, const struct message_records *records,
				    uint32_t own, uint64_t now_ms)
{
	uint64_t hash = cache_hash(cache, name);
	struct cache_entry *set = set_of(cache, hash), *place = set;
	uint32_t ttl_s = records->ttl_s;

	for (size_t i = 0; i < WAYS; i++) {
		if (entry_is(&set[i], hash, name, type)) {
			place = &set[i];
			break;
		}
		if (set[i].until_ms < place->until_ms)
			place = &set[i];
	}
	if (ttl_s > CACHE_TTL_MAX_S)
		ttl_s = CACHE_TTL_MAX_S;
	if (!records->n && !records->alias_n && ttl_s > CACHE_NEGATIVE_S)
		ttl_s = CACHE_NEGATIVE_S;
	if (ttl_s < CACHE_TTL_MIN_S)
		ttl_s = CACHE_TTL_MIN_S;
	place->hash = hash;
	place->type = type;
	place->own = own;
	place->until_ms = now_ms + (uint64_t)ttl_s * 1000;
	place->name = *name;
	place->records = *records;
	return place;
}

uint32_t cache_ttl(const struct cache_entry *entry, uint64_t now_ms)
{
	return entry->until_ms > now_ms ? (uint32_t)((entry->until_ms - now_ms + 999) / 1000) : 0;
}
