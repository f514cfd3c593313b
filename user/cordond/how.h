/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a fence was made, of the size that its texts need: struct wire_fence has room for the longest, 7 KiB, and both
 * processes hold one of each fence. No privilege.
 */
#ifndef CORDON_CORDOND_HOW_H
#define CORDON_CORDOND_HOW_H

#include "cordond/wire.h"

struct how {
	char *cgroup; /* NULL only in one that is cleared, as is identity */
	struct identity_packed *identity;
	uint64_t ring_bytes, made_ns;
	uint32_t event_rate;
	int32_t pid;
	bool own_root;
};

/* Takes what is sound over. 0; -ENOMEM: how is as before. how: cleared, or one that was set. */
int how_set(struct how *how, const struct wire_fence *fence);
int how_identity_set(struct how *how, const struct identity *identity);
void how_get(const struct how *how, struct wire_fence *ret_fence);
void how_clear(struct how *how);

/* A text of its identity; "" where nothing was said. Lives until the identity is set. */
static inline const char *how_text(const struct how *how, enum identity_text text)
{
	return how->identity ? identity_packed_text(how->identity, text) : "";
}

#endif
