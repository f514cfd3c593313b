// SPDX-License-Identifier: Apache-2.0
/*
 * The keys that a fence's connections are marked with. Root. A key lives as long as its fence, in the kernel, in the
 * fence's owner and in the gateways that the owner told it to; it is random, never derived, never written to a file.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "enforce/internal.h"

int enforce_peer_set(struct enforce_fence *fence, struct error *error)
{
	if (getrandom(fence->peer.key, sizeof(fence->peer.key), 0) != sizeof(fence->peer.key))
		return error_set(error, EIO, "getrandom: %s", strerror(errno));
	if (bpf_map_update_elem(fence->enforce->map[ENFORCE_MAP_peer_keys], &fence->slot,
				&fence->peer, BPF_ANY))
		return error_set(error, errno, "cannot write a BPF map: %s", strerror(errno));
	return 0;
}

void enforce_peer_clear(struct enforce *enforce, uint32_t slot)
{
	const struct cordon_peer none = { 0 };

	bpf_map_update_elem(enforce->map[ENFORCE_MAP_peer_keys], &slot, &none, BPF_ANY);
}

uint32_t enforce_fence_slot(const struct enforce_fence *fence)
{
	return fence->slot;
}

void enforce_fence_peer_key(const struct enforce_fence *fence, uint64_t ret_key[2])
{
	ret_key[0] = fence->peer.key[0];
	ret_key[1] = fence->peer.key[1];
}

uint32_t enforce_fence_peer_next(const struct enforce_fence *fence)
{
	struct cordon_peer peer = fence->peer;

	bpf_map_lookup_elem(fence->enforce->map[ENFORCE_MAP_peer_keys], &fence->slot, &peer);
	return peer.count;
}

/* A pinned map for who may only read it. */
static int open_to_read(const char *path, struct error *error)
{
	LIBBPF_OPTS(bpf_obj_get_opts, opts, .file_flags = BPF_F_RDONLY);
	int fd = bpf_obj_get_opts(path, &opts);

	return fd < 0 ? error_set(error, errno, "cannot open %s: %s", path, strerror(errno)) : fd;
}

int enforce_peers_open(struct error *error)
{
	return open_to_read(ENFORCE_PIN_DIR "/cordon_peers", error);
}

int enforce_notes_open(struct error *error)
{
	return open_to_read(ENFORCE_PIN_DIR "/cordon_notes", error);
}

int enforce_state_open(struct error *error)
{
	return open_to_read(ENFORCE_PIN_DIR "/cordon_state", error);
}
