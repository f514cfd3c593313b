// SPDX-License-Identifier: Apache-2.0
/* Fences that ask: what each may have, which names it asked for lately, and what is to be told of it. See internal.h. */
#include "resolver/internal.h"
#include "resolver/tell.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 256

struct askers {
	struct asker *buckets[BUCKETS];
};

struct askers *askers_new(void)
{
	return calloc(1, sizeof(struct askers));
}

static void asker_free(struct asker *asker)
{
	free(asker->packed);
	free(asker);
}

void askers_free(struct askers *askers)
{
	if (!askers)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct asker *asker = askers->buckets[i], *next; asker; asker = next) {
			next = asker->next;
			asker_free(asker);
		}
	free(askers);
}

static bool asker_pack(struct asker *asker, const struct identity *id)
{
	struct identity_packed *packed = identity_pack(id);

	if (!packed)
		return false;
	free(asker->packed);
	asker->packed = packed;
	asker->generation = id->generation;
	return true;
}

struct asker *askers_find(struct askers *askers, const struct identity *id)
{
	struct asker **bucket = &askers->buckets[id->fence_id % BUCKETS], *asker = *bucket;

	while (asker && asker->fence_id != id->fence_id)
		asker = asker->next;
	if (asker && asker->generation == id->generation)
		return asker;
	if (asker)
		return asker_pack(asker, id) ? asker : NULL;
	asker = calloc(1, sizeof(*asker));
	if (!asker || !asker_pack(asker, id)) {
		free(asker);
		return NULL;
	}
	asker->fence_id = id->fence_id;
	asker->next = *bucket;
	*bucket = asker;
	return asker;
}

bool asker_is_new(struct asker *asker, uint64_t hash)
{
	uint64_t *place = &asker->seen[hash % ASKER_NAMES];

	if (*place == hash)
		return false;
	*place = hash;
	return true;
}

void asker_forget(struct asker *asker, uint64_t hash)
{
	if (asker->seen[hash % ASKER_NAMES] == hash)
		asker->seen[hash % ASKER_NAMES] = 0;
}

/* --- events ----------------------------------------------------------------------------------- */

static const enum ledger_code fold_codes[FOLDS] = {
#define X(id) [FOLD_##id] = LEDGER_##id,
	ASKER_FOLDS(X)
#undef X
};

static struct fold *fold_of(struct asker *asker, enum ledger_code code)
{
	for (size_t i = 0; i < FOLDS; i++)
		if (fold_codes[i] == code)
			return &asker->folds[i];
	return &asker->folds[FOLD_OVERLOADED];
}

void asker_tell(struct asker *asker, struct report *report, const struct identity *id,
		enum ledger_code code, uint16_t type, const struct reach_name *name,
		const struct cordon_addr *addr, const char *reason, uint64_t now_ms)
{
	struct fold *fold = fold_of(asker, code);
	const struct resolver_tell tell = {
		.caller = id,
		.code = code,
		.count = fold->count ? fold->count + 1 : 0,
		.type = type,
		.name = name,
		.addr = addr,
		.reason = reason,
	};
	bool now = code == LEDGER_OK
			   ? share_admit(&asker->allows, ASKER_ALLOWS_S, ASKER_ALLOWS_BURST)
			   : !fold->told_ms || now_ms - fold->told_ms >= ASKER_TELL_MS;

	if (now) {
		resolver_tell_write(report, &tell);
		fold->told_ms = now_ms;
		fold->count = 0;
		return;
	}
	fold->count++;
	fold->type = type;
	fold->name.n = 0;
	if (name)
		fold->name = *name;
}

static void fold_tell(struct asker *asker, struct fold *fold, enum ledger_code code,
		      struct report *report, uint64_t now_ms)
{
	static struct identity id; /* one thread; too large for a stack that others share */
	const struct resolver_tell tell = {
		.caller = &id,
		.code = code,
		.count = fold->count > 1 ? fold->count : 0,
		.type = fold->type,
		.name = fold->name.n ? &fold->name : NULL,
	};

	identity_unpack(asker->packed, &id);
	resolver_tell_write(report, &tell);
	fold->told_ms = now_ms;
	fold->count = 0;
}

/* Is there more to tell? */
static bool asker_sweep(struct asker *asker, struct report *report, bool all, uint64_t now_ms)
{
	bool more = false;
	struct fold *limited = &asker->folds[FOLD_RATE_LIMITED];

	limited->count += atomic_exchange(&asker->queries.refused, 0);
	for (size_t i = 0; i < FOLDS; i++) {
		struct fold *fold = &asker->folds[i];

		if (fold->count && (all || now_ms - fold->told_ms >= ASKER_TELL_MS))
			fold_tell(asker, fold, fold_codes[i], report, now_ms);
		more |= fold->count;
	}
	return more;
}

bool askers_sweep(struct askers *askers, struct report *report, struct identity_source *identity,
		  bool all, uint64_t now_ms)
{
	bool more = false;

	for (size_t i = 0; i < BUCKETS; i++)
		for (struct asker **place = &askers->buckets[i], *asker; (asker = *place);) {
			bool ended = !identity_alive(identity, asker->fence_id);

			more |= asker_sweep(asker, report, all || ended, now_ms);
			if (!ended || asker->asks || asker->links) {
				place = &asker->next;
				continue;
			}
			*place = asker->next;
			asker_free(asker);
		}
	return more;
}
