/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The mark that a fence's connections carry in their SYN: a TCP option of the experimental kind, written by the kernel
 * side (bpf/peer.bpf.h), read by the gateway (user/identity). What makes it worth something is the MAC: SipHash-2-4
 * under the fence's key, cut to 48 bits, over slot, counter and the initial sequence number. Forging one takes
 * guessing it in the open, a raw SYN a guess. No helpers here: both sides and the unit tests compile this.
 */
#ifndef CORDON_PEER_H
#define CORDON_PEER_H

#include <linux/types.h>

#define CORDON_PEER_KIND 254 /* RFC 6994: two bytes follow that say whose experiment it is */
#define CORDON_PEER_EXID 0xc0d7
#define CORDON_PEER_TAG_SIZE 6

/* As it lies in the header, network byte order. 16 bytes: with the kernel's own 20 there is room for Fast Open's 4. */
struct cordon_peer_option {
	__u8 kind;
	__u8 size;
	__u8 exid[2];
	__u8 slot[2];
	__u8 count[4]; /* counts up a SYN at a time, per fence */
	__u8 tag[CORDON_PEER_TAG_SIZE];
};
_Static_assert(sizeof(struct cordon_peer_option) == 16, "fits into a SYN");

/* By slot: what the marks of a fence are made with. */
struct cordon_peer {
	__u64 key[2];
	__u32 count;
	__u32 pad;
};

/*
 * A datagram that a fence sends to its resolver has no room for a mark. The kernel side notes it as it is, with its sender
 * (bpf/dns.bpf.h), and the gateway asks for what it received. Whole, and not by a hash: so there are no two with one note. Longer ones
 * are not noted, and asked again by TCP.
 */
#define CORDON_DATAGRAM_MAX 126
#define CORDON_DATAGRAM_MIN 12 /* the header of a message */
struct cordon_datagram {
	__u16 n;
	__u8 bytes[CORDON_DATAGRAM_MAX]; /* 0 behind the last */
};
_Static_assert(sizeof(struct cordon_datagram) == 128, "a key without padding");

struct cordon_note {
	__u64 fence_id; /* 0: more than one fence sent the same, within CORDON_NOTE_NS */
	__u64 ns;	/* CLOCK_MONOTONIC when it was sent */
};
#define CORDON_NOTE_NS 5000000000ULL /* then a note counts for nothing */
#define CORDON_NOTES_MAX 8192	     /* those not sent for the longest time give way */

#define CORDON_PEER_INLINE static inline __attribute__((always_inline, __unused__))

CORDON_PEER_INLINE __u64 cordon_peer_rotate(__u64 x, int n)
{
	return x << n | x >> (64 - n);
}

CORDON_PEER_INLINE void cordon_peer_round(__u64 *v)
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = cordon_peer_rotate(v[1], 13) ^ v[0];
	v[3] = cordon_peer_rotate(v[3], 16) ^ v[2];
	v[0] = cordon_peer_rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = cordon_peer_rotate(v[1], 17) ^ v[2];
	v[3] = cordon_peer_rotate(v[3], 21) ^ v[0];
	v[2] = cordon_peer_rotate(v[2], 32);
}

CORDON_PEER_INLINE void cordon_peer_absorb(__u64 *v, __u64 word)
{
	v[3] ^= word;
	cordon_peer_round(v);
	cordon_peer_round(v);
	v[0] ^= word;
}

/* SipHash-2-4 of the 16 bytes a, b (little endian). */
CORDON_PEER_INLINE __u64 cordon_peer_hash(const __u64 *key, __u64 a, __u64 b)
{
	__u64 v[4] = {
		key[0] ^ 0x736f6d6570736575ULL,
		key[1] ^ 0x646f72616e646f6dULL,
		key[0] ^ 0x6c7967656e657261ULL,
		key[1] ^ 0x7465646279746573ULL,
	};

	cordon_peer_absorb(v, a);
	cordon_peer_absorb(v, b);
	cordon_peer_absorb(v, 16ULL << 56);
	v[2] ^= 0xff;
	cordon_peer_round(v);
	cordon_peer_round(v);
	cordon_peer_round(v);
	cordon_peer_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Fills an option for a SYN with this initial sequence number (host byte order). */
CORDON_PEER_INLINE void cordon_peer_fill(struct cordon_peer_option *o, const __u64 *key, __u32 slot,
					 __u32 count, __u32 isn)
{
	__u64 tag = cordon_peer_hash(key, (__u64)count << 32 | isn, slot);

	o->kind = CORDON_PEER_KIND;
	o->size = sizeof(*o);
	o->exid[0] = CORDON_PEER_EXID >> 8;
	o->exid[1] = CORDON_PEER_EXID & 0xff;
	o->slot[0] = slot >> 8;
	o->slot[1] = slot;
	o->count[0] = count >> 24;
	o->count[1] = count >> 16;
	o->count[2] = count >> 8;
	o->count[3] = count;
	o->tag[0] = tag;
	o->tag[1] = tag >> 8;
	o->tag[2] = tag >> 16;
	o->tag[3] = tag >> 24;
	o->tag[4] = tag >> 32;
	o->tag[5] = tag >> 40;
}

#endif
