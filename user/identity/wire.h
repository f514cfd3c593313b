/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a fence's owner and a gateway on one host: one message on a SOCK_SEQPACKET socket, with a descriptor of the
 * map cordon_peers beside it. Both are of one build or refuse each other. Inside user/identity only.
 */
#ifndef CORDON_IDENTITY_WIRE_H
#define CORDON_IDENTITY_WIRE_H

#include "cordon/peer.h"
#include "identity/identity.h"

#define IDENTITY_MAGIC 0x4e445243U /* "CRDN" */
#define IDENTITY_VERSION 1
#define IDENTITY_SUFFIX ".sock"

struct identity_message {
	uint32_t magic;
	uint16_t version;
	uint16_t size_low; /* of struct identity, as a check */
	uint32_t slot;
	uint32_t pad;
	struct identity_key key;
	struct identity identity;
};

/* What a SYN says. */
struct identity_syn {
	struct cordon_peer_option option;
	uint32_t slot, count;
	uint32_t isn;
};

/*
 * Reads the headers that TCP_SAVED_SYN gives: IP, TCP with its options. Returns 0 or -ENOENT: there is no mark in it,
 * or it is not well-formed, or two marks.
 */
int identity_parse_syn(const void *headers, size_t size, struct identity_syn *ret_syn);

/*
 * Numbers that were seen, so that none counts twice: a window over a counter that wraps. What is older than the window
 * counts as seen.
 */
#define IDENTITY_WINDOW 4096
struct identity_window {
	bool begun;
	uint32_t highest;
	uint64_t seen[IDENTITY_WINDOW / 64];
};
bool identity_window_take(struct identity_window *window, uint32_t count);

#endif
