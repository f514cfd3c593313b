// SPDX-License-Identifier: Apache-2.0
/*
 * Which entries of the two maps that all fences share - roots and prefixes - are a generation's. Neither map can be asked
 * for them but by going through all that every fence has, so the process that enters them remembers; only of a fence that was
 * taken over, or whose owner died, all are looked at. Root, with the node's lock held. A key that cannot be remembered is
 * not entered.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "enforce/internal.h"

static const size_t key_sizes[ENFORCE_KEY_KINDS] = {
	[ENFORCE_KEY_ROOT] = sizeof(struct cordon_root_key),
	[ENFORCE_KEY_NET] = sizeof(struct cordon_net_key),
};

static int kind_map(const struct enforce *enforce, enum enforce_key_kind kind)
{
	return enforce->map[kind == ENFORCE_KEY_ROOT ? ENFORCE_MAP_roots : ENFORCE_MAP_nets];
}

int enforce_keys_note(struct enforce_keys *keys, enum enforce_key_kind kind, const void *key,
		      struct error *error)
{
	size_t size = key_sizes[kind];

	if (keys->n[kind] == keys->room[kind]) {
		size_t room = keys->room[kind] ? 2 * keys->room[kind] : 8;
		void *more = realloc(keys->keys[kind], room * size);

		if (!more)
			return error_set(error, ENOMEM, "out of memory");
		keys->keys[kind] = more;
		keys->room[kind] = room;
	}
	memcpy((char *)keys->keys[kind] + size * keys->n[kind]++, key, size);
	return 0;
}

void enforce_keys_drop(struct enforce_keys *keys)
{
	for (int kind = 0; kind < ENFORCE_KEY_KINDS; kind++)
		free(keys->keys[kind]);
	*keys = (struct enforce_keys){ .known = true };
}

/* Deletes the entries whose tag, at `offset` in the key, is `wanted` behind `shift` bits. */
static void entries_find(int map_fd, size_t key_size, size_t offset, unsigned int shift,
			 uint32_t wanted)
{
	unsigned char key[64], next[64];
	void *from = NULL;

	while (!bpf_map_get_next_key(map_fd, from, next)) {
		uint32_t tag;

		memcpy(&tag, next + offset, sizeof(tag));
		if (tag >> shift == wanted) {
			bpf_map_delete_elem(map_fd, next);
			continue; /* from the last key that stays */
		}
		memcpy(key, next, key_size);
		from = key;
	}
}

static void tags_find(const struct enforce *enforce, unsigned int shift, uint32_t wanted)
{
	entries_find(enforce->map[ENFORCE_MAP_roots], sizeof(struct cordon_root_key),
		     offsetof(struct cordon_root_key, tag), shift, wanted);
	entries_find(enforce->map[ENFORCE_MAP_nets], sizeof(struct cordon_net_key),
		     offsetof(struct cordon_net_key, tag), shift + 1, wanted);
}

static void keys_delete(const struct enforce *enforce, struct enforce_keys *keys)
{
	for (int kind = 0; kind < ENFORCE_KEY_KINDS; kind++)
		for (size_t i = 0; i < keys->n[kind]; i++)
			bpf_map_delete_elem(kind_map(enforce, kind),
					    (char *)keys->keys[kind] + key_sizes[kind] * i);
	enforce_keys_drop(keys);
}

void enforce_keys_clear(struct enforce *enforce, struct enforce_keys *keys, uint32_t tag)
{
	if (!keys->known)
		tags_find(enforce, 0, tag);
	keys_delete(enforce, keys);
}

void enforce_keys_clear_slot(struct enforce *enforce, struct enforce_keys keys[2], uint32_t slot)
{
	if (!keys || !keys[0].known || !keys[1].known)
		tags_find(enforce, 1, slot);
	for (int i = 0; keys && i < 2; i++)
		keys_delete(enforce, &keys[i]);
}
