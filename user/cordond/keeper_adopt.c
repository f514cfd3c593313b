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
	uint32_t size;
	struct wire_fence how;
	struct keeper_ceilings ceilings; /* missing in records of builds that had none */
};
_Static_assert(sizeof(struct record) <= ENFORCE_RECORD_MAX, "a record can be kept");

int kept_record(struct kept *f, struct error *error)
{
	static struct record record;

	record = (struct record){
		.magic = WIRE_MAGIC, .size = sizeof(record), .how = f->how, .ceilings = f->ceilings
	};
	return enforce_fence_keep(f->fence, &record, sizeof(record), error);
}

static bool record_is_sound(const struct record *record, size_t size)
{
	return (size == sizeof(*record) || size == offsetof(struct record, ceilings)) &&
	       record->magic == WIRE_MAGIC && record->size == size &&
	       identity_is_sound(&record->how.identity) &&
	       wire_text_is_sound(record->how.cgroup, sizeof(record->how.cgroup));
}

/* A record that is not understood: the fence is kept all the same, without a name. */
static struct kept *kept_of_record(struct enforce_fence *fence, const void *record, size_t size)
{
	static struct wire_fence how;
	struct kept *f;

	memset(&how, 0, sizeof(how));
	if (record_is_sound(record, size))
		how = ((const struct record *)record)->how;
	f = kept_new(&how);
	if (!f)
		return NULL;
	if (how.made_ns)
		f->how.made_ns = how.made_ns;
	if (how.made_ns && size == sizeof(struct record))
		f->ceilings = ((const struct record *)record)->ceilings;
	f->fence = fence;
	f->id = enforce_fence_info(fence)->id;
	f->how.identity.fence_id = f->id;
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
	f->account_fd = kept_account_open(id, error);
	if (f->account_fd >= 0)
		err = kept_publish(k, f, error);
	if (f->account_fd < 0 || err) {
		k->n_kept--; /* it is the last one */
		kept_free(f);
		enforce_fence_leave(fence);
		return err ? err : -EIO;
	}
	return 0;
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
