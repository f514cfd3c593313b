// SPDX-License-Identifier: Apache-2.0
/* See how.h. */
#include "cordond/how.h"

#include <errno.h>
#include <string.h>

int how_identity_set(struct how *how, const struct identity *identity)
{
	struct identity_packed *packed = identity_pack(identity);

	if (!packed)
		return -ENOMEM;
	free(how->identity);
	how->identity = packed;
	return 0;
}

int how_set(struct how *how, const struct wire_fence *fence)
{
	char *cgroup = strdup(fence->cgroup);

	if (!cgroup || how_identity_set(how, &fence->identity)) {
		free(cgroup);
		return -ENOMEM;
	}
	free(how->cgroup);
	how->cgroup = cgroup;
	how->ring_bytes = fence->ring_bytes;
	how->made_ns = fence->made_ns;
	how->event_rate = fence->event_rate;
	how->pid = fence->pid;
	how->own_root = fence->own_root;
	return 0;
}

void how_get(const struct how *how, struct wire_fence *ret_fence)
{
	memset(ret_fence, 0, sizeof(*ret_fence));
	if (!how->identity)
		return;
	identity_unpack(how->identity, &ret_fence->identity);
	snprintf(ret_fence->cgroup, sizeof(ret_fence->cgroup), "%s", how->cgroup);
	ret_fence->ring_bytes = how->ring_bytes;
	ret_fence->made_ns = how->made_ns;
	ret_fence->event_rate = how->event_rate;
	ret_fence->pid = how->pid;
	ret_fence->own_root = how->own_root;
}

void how_clear(struct how *how)
{
	free(how->cgroup);
	free(how->identity);
	memset(how, 0, sizeof(*how));
}
