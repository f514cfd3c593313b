/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gateway's event on its way to cordond: one packet of a SOCK_SEQPACKET socket, a head of fixed size and texts behind it.
 * Numbers and bytes, so that there is nothing to be parsed, and what a caller of the gateway sent is escaped once, by who
 * writes the line. cordond answers each packet with one. Both sides are on one host. No privilege; frames are hostile.
 */
#ifndef CORDON_EVENT_FRAME_H
#define CORDON_EVENT_FRAME_H

#include "event/event.h"

#define EVENT_FRAME_SOCKET "/run/cordon/gateway-events.sock" /* where cordond takes them */
#define EVENT_FRAME_MAGIC 0x57474443U			     /* "CDGW" */
#define EVENT_FRAME_VERSION 3

/* X(struct, member) - the texts of a frame, in their order: each ends in NUL, its length 0 stands for NULL. */
#define EVENT_FRAME_TEXTS(X)    \
	X(context, fence_name)  \
	X(context, policy)      \
	X(context, task)        \
	X(context, tenant)      \
	X(context, subject)     \
	X(context, container)   \
	X(gateway, tool)        \
	X(gateway, action)      \
	X(gateway, object)      \
	X(gateway, scope)       \
	X(gateway, grant)       \
	X(gateway, key)         \
	X(gateway, reason)      \
	X(gateway, approval)    \
	X(gateway, by)          \
	X(gateway, digest)      \
	X(gateway, record_hash) \
	X(gateway, address)

enum event_frame_text {
#define CORDON_X(s, m) EVENT_FRAME_##s##_##m,
	EVENT_FRAME_TEXTS(CORDON_X)
#undef CORDON_X
		EVENT_FRAME_TEXT_COUNT
};

struct event_frame {
	uint32_t magic;
	uint16_t version;
	uint16_t size; /* of the whole */
	uint64_t instance; /* which life of which gateway; with number it tells a frame that is sent again */
	uint64_t number;   /* rises by one with each */
	uint64_t fence_id; /* 0: of no fence */
	uint64_t mono_ns;
	uint64_t record;
	int64_t amount, status, upstream_status, latency_us, up_bytes, down_bytes;
	uint32_t generation;
	/* Of a gap: how many events the gateway could not keep. Of refused calls: for how many it stands; 0: the one. */
	uint32_t count;
	uint8_t op, rule, verdict, mode;
	uint8_t has_amount, destructive, has_bytes;
	uint8_t pad;
	uint16_t length[EVENT_FRAME_TEXT_COUNT]; /* NUL included */
	uint8_t pad2[4];
};
_Static_assert(sizeof(struct event_frame) % 8 == 0, "no padding of the compiler's at the end");

#define EVENT_FRAME_MAX 18584 /* bytes of a frame */
_Static_assert(EVENT_FRAME_MAX ==
		       sizeof(struct event_frame) + EVENT_FRAME_TEXT_COUNT * (EVENT_TEXT_MAX + 1),
	       "a frame whose texts are all as long as they may be");

/* err: 0, or -errno: not taken, and the connection ends. */
struct event_frame_answer {
	uint32_t magic;
	int32_t err;
};

/*
 * Puts a gateway's event (or its gap, of no fence) into ret_frame; texts are cut at EVENT_TEXT_MAX. instance and number are
 * the sender's to fill in. Returns the size.
 */
size_t event_frame_encode(char ret_frame[EVENT_FRAME_MAX], const struct event_context *context,
			  const struct event *event);

/*
 * The event in frame[size): of type gateway, or a gap of no fence, whatever it says. seq is 0, and the times are those of the
 * frame, but not later than now. ret_context, ret_event and ret_gateway point into frame, the event to ret_gateway, too.
 * Returns 0, or -EBADMSG for a frame that is not exactly one.
 */
int event_frame_decode(const void *frame, size_t size, struct event_context *ret_context,
		       struct event_gateway *ret_gateway, struct event *ret_event);

#endif
