// SPDX-License-Identifier: Apache-2.0
/*
 * What a keeper leaves to the next one: a record beside each fence; and how that takes the fences over. Root. One that
 * cannot be taken over stays enforced, and is tried again.
 */
#include "cordond/keeper_fence.h"

#include <errno.h>

/* What a fence is kept with, for the next keeper: its own words, not another build's. */
struct record {
	uint32_t magic;
	uint32_t size; /* that was written: up to the end of how.cgroup's text. What would follow is 0, and would be a page more */
	struct keeper_ceilings ceilings;
	struct wire_fence how;
};
enum {
	RECORD_MAGIC = 0x4b445243 /* "CRDK" */,
	RECORD_SIZE_MIN = offsetof(struct record, how.cgroup) + 1
};
_Static_assert(sizeof(struct record) <= ENFORCE_RECORD_MAX, "a record can be kept");

int kept_record(struct kept *f, struct error *error)
{
	static struct record record;

	record = (struct record){ .magic = RECORD_MAGIC, .ceilings = f->ceilings };
	how_get(&f->how, &record.how);
	record.size = (uint32_t)(RECORD_SIZE_MIN + strlen(record.how.cgroup));
	return enforce_fence_keep(f->fence, &record, record.size, error);
}

/* Takes it over whole, if it is one. */
static bool record_read(const void *data, size_t size, struct record *ret_record)
{
	memset(ret_record, 0, sizeof(*ret_record));
	if (size < RECORD_SIZE_MIN || size > sizeof(*ret_record))
		return false;
	memcpy(ret_record, data, size);
	return ret_record->magic == RECORD_MAGIC && ret_record->size == size &&
	       identity_is_sound(&ret_record->how.identity) &&
	       wire_text_is_sound(ret_record->how.cgroup, sizeof(ret_record->how.cgroup));
}

/* A record that is not understood: the fence is kept all the same, without a name. */
static struct kept *kept_of_record(struct enforce_fence *fence, const void *data, size_t size)
{
	static struct record record;
	bool sound = record_read(data, size, &record);
	struct kept *f;

	if (!sound)
		memset(&record, 0, sizeof(record));
	f = kept_new(&record.how);
	if (!f)
		return NULL;
	if (sound) {
		f->how.made_ns = record.how.made_ns;
		f->ceilings = record.ceilings;
	}
	f->fence = fence;
	f->id = enforce_fence_info(fence)->id;
	f->started = f->again = true;
	return f;
}

static int adopt_one(struct keeper *k, uint64_t id, struct error *error)
{
	struct enforce_fence *fence = NULL;
	void *record = NULL;
	size_t size = 0;
	struct kept *f;
	int err = enforce_fence_adopt(k->enforce, id, &fence, &record, &size, error);

	if (err)
		return err;
	f = kept_of_record(fence, record, size);
	free(record);
	if (!f || kept_enter(k, f)) {
		kept_free(f);
		enforce_fence_leave(fence);
		return error_set(error, ENOMEM, "out of memory");
	}
	err = keeper_accounts_lock(k, error);
	if (!err)
		err = kept_publish(k, f, error);
	if (err) {
		k->n_kept--; /* it is the last one */
		kept_free(f);
		enforce_fence_leave(fence);
	}
	return err;
}

struct listed {
	uint64_t *v;
	size_t n, room;
};

static void on_listed(void *context, const struct enforce_listed *listed)
{
	struct listed *all = context;

	if (!listed->kept || listed->owned)
		return;
	if (all->n == all->room) {
		size_t room = all->room ? 2 * all->room : 64;
		uint64_t *grown = realloc(all->v, room * sizeof(*grown));

		if (!grown)
			return; /* the next look finds it again */
		all->v = grown;
		all->room = room;
	}
	all->v[all->n++] = listed->fence_id;
}

void keeper_adopt(struct keeper *k)
{
	struct listed all = { .v = NULL };
	struct error error = { "" };
	size_t taken = 0;

	if (enforce_fence_list(k->enforce, on_listed, &all, &error))
		cordond_say("%s", error.text);
	for (size_t i = 0; i < all.n; i++) {
		int err;

		error.text[0] = '\0';
		err = adopt_one(k, all.v[i], &error);
		taken += !err;
		if (err && err != -ENOENT && !k->adopt_said)
			cordond_say("fence %016llx stays enforced, but is not taken over yet: %s",
				    (unsigned long long)all.v[i], error.text);
		k->adopt_again |= err && err != -ENOENT;
	}
	free(all.v);
	k->adopt_said = k->adopt_again;
	if (taken)
		cordond_say("took over %zu fences", taken);
}
