/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a fence's owner and a gateway on one host: one message on a SOCK_SEQPACKET socket, with the descriptors of the
 * numbers that were seen (struct identity_window) and of the maps cordon_peers and cordon_notes, if there are, beside it. Both are of
 * one build or refuse each other. Inside user/identity only.
 */
#ifndef CORDON_IDENTITY_WIRE_H
#define CORDON_IDENTITY_WIRE_H

#include "cordon/peer.h"
#include "identity/identity.h"

#define IDENTITY_MAGIC 0x4e445243U /* "CRDN" */
#define IDENTITY_VERSION 4
#define IDENTITY_SUFFIX ".sock"
#define IDENTITY_FDS \
	3 /* beside a message, in this order: the numbers, the maps; the latter may both be missing */

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
 * Numbers that were seen, so that none counts twice, at whichever gateway and whenever that was started: memory that the
 * fence's owner makes and all gateways of the node share. Each number has one place; taking it is one atomic exchange, so
 * a gateway that is killed in the middle holds up nobody. A place remembers the latest number that it had, and what is not
 * later counts as seen. Who may write here has the fence's key as well, and could make marks of its own.
 */
#define IDENTITY_WINDOW 4096
struct identity_window {
	_Atomic uint32_t seen[IDENTITY_WINDOW]; /* a number and 1; 0: none yet */
};
bool identity_window_take(struct identity_window *window, uint32_t count);
/* All numbers before next count as seen. */
void identity_window_close(struct identity_window *window, uint32_t next);

#endif
