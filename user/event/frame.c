// SPDX-License-Identifier: Apache-2.0
/*
 * See frame.h. Who sends is less trusted than who reads: a frame can only become an event of the gateway, never one of the
 * kernel, of a fence's life or of an alert; every length is checked before it is used, and what does not fit is refused as a
 * whole.
 */
#include "event/frame.h"

#include <errno.h>
#include <string.h>

/* Rules of decisions of the gateway stand together. */
static bool rule_is_gateways(unsigned int rule)
{
	return rule >= CORDON_RULE_GW_OK && rule <= CORDON_RULE_GW_STATE;
}

static bool op_is_decision(unsigned int op)
{
	return op == CORDON_OP_CALL || op == CORDON_OP_APPROVAL || op == CORDON_OP_GRANT ||
	       op == CORDON_OP_SETTLE || op == CORDON_OP_REACH || op == CORDON_OP_REACHED ||
	       op == CORDON_OP_RESOLVE;
}

/* --- to bytes --------------------------------------------------------------------------------- */

static void texts_gather(const struct event_context *context, const struct event_gateway *gateway,
			 const char *texts[EVENT_FRAME_TEXT_COUNT])
{
#define CORDON_X(s, m) texts[EVENT_FRAME_##s##_##m] = (s) ? (s)->m : NULL;
	EVENT_FRAME_TEXTS(CORDON_X)
#undef CORDON_X
}

size_t event_frame_encode(char ret_frame[EVENT_FRAME_MAX], const struct event_context *context,
			  const struct event *event)
{
	const struct event_gateway *g = event->gateway;
	const struct cordon_event *raw = &event->raw;
	struct event_frame frame = {
		.magic = EVENT_FRAME_MAGIC,
		.version = EVENT_FRAME_VERSION,
		.fence_id = raw->fence_id,
		.mono_ns = raw->mono_ns,
		.record = g ? g->record : 0,
		.amount = g ? g->amount : 0,
		.status = g ? g->status : -1,
		.upstream_status = g ? g->upstream_status : -1,
		.latency_us = g ? g->latency_us : -1,
		.up_bytes = g ? g->up_bytes : 0,
		.down_bytes = g ? g->down_bytes : 0,
		.generation = raw->generation,
		.count = raw->count,
		.op = raw->op,
		.rule = raw->rule,
		.verdict = raw->verdict,
		.mode = raw->mode,
		.has_amount = g && g->has_amount,
		.destructive = g && g->destructive,
		.has_bytes = g && g->has_bytes,
	};
	const char *texts[EVENT_FRAME_TEXT_COUNT];
	size_t size = sizeof(frame);

	texts_gather(context, g, texts);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		size_t n = texts[i] ? strnlen(texts[i], EVENT_TEXT_MAX) : 0;

		if (!texts[i])
			continue;
		memcpy(ret_frame + size, texts[i], n);
		ret_frame[size + n] = '\0';
		frame.length[i] = (uint16_t)(n + 1);
		size += n + 1;
	}
	frame.size = (uint16_t)size;
	memcpy(ret_frame, &frame, sizeof(frame));
	return size;
}

/* --- from bytes ------------------------------------------------------------------------------- */

/* Where each text is; false when they are not exactly what follows the head. */
static bool texts_find(const struct event_frame *frame, const char *at, size_t left,
		       const char *texts[EVENT_FRAME_TEXT_COUNT])
{
	for (size_t i = 0; i < EVENT_FRAME_TEXT_COUNT; i++) {
		size_t n = frame->length[i];

		texts[i] = n ? at : NULL;
		if (!n)
			continue;
		if (n > left || n > EVENT_TEXT_MAX + 1 ||
		    memchr(at, '\0', n) != (const void *)(at + n - 1))
			return false;
		at += n;
		left -= n;
	}
	return !left;
}

static bool numbers_are_sound(const struct event_frame *f)
{
	/* What readers of JSON take for an integer. */
	return f->mono_ns <= INT64_MAX && f->record <= INT64_MAX && f->number && f->instance &&
	       f->mode <= CORDON_MODE_AUDIT && f->has_amount <= 1 && f->destructive <= 1 &&
	       f->status >= -1 && f->status <= 999 && f->upstream_status >= -1 &&
	       f->upstream_status <= 999 && f->latency_us >= -1 && f->has_bytes <= 1 &&
	       f->up_bytes >= 0 && f->down_bytes >= 0;
}

/*
 * A decision, whose rule and verdict agree. What was done is destructive, never what was refused. One event for many are
 * names that were asked for, and calls that were refused, never what was done.
 */
static bool decision_is_sound(const struct event_frame *f)
{
	bool allowed = f->rule == CORDON_RULE_GW_OK;

	return op_is_decision(f->op) && rule_is_gateways(f->rule) &&
	       (!f->count || f->op == CORDON_OP_RESOLVE || (f->op == CORDON_OP_CALL && !allowed)) &&
	       f->verdict == (allowed ? CORDON_VERDICT_ALLOW : CORDON_VERDICT_DENY) &&
	       (!f->destructive || allowed);
}

static bool gap_is_sound(const struct event_frame *f)
{
	return f->op == CORDON_OP_GAP && f->rule == CORDON_RULE_NONE &&
	       f->verdict == CORDON_VERDICT_ALLOW && f->count && !f->fence_id && !f->destructive &&
	       f->size == sizeof(*f);
}

static bool head_is_sound(const struct event_frame *f, size_t size)
{
	static const uint8_t zero[sizeof(f->pad2)];

	return f->magic == EVENT_FRAME_MAGIC && f->version == EVENT_FRAME_VERSION &&
	       f->size == size && !f->pad && !memcmp(f->pad2, zero, sizeof(f->pad2)) &&
	       numbers_are_sound(f) && (decision_is_sound(f) || gap_is_sound(f));
}

static void texts_spread(const char *const texts[EVENT_FRAME_TEXT_COUNT],
			 struct event_context *context, struct event_gateway *gateway)
{
#define CORDON_X(s, m) (s)->m = texts[EVENT_FRAME_##s##_##m];
	EVENT_FRAME_TEXTS(CORDON_X)
#undef CORDON_X
}

static void event_spread(const struct event_frame *f, struct event *event)
{
	uint64_t now_ns;

	event_make(event, f->op, NULL, NULL, 0, NULL); /* type by the op, times of now */
	now_ns = event->raw.mono_ns;
	if (f->mono_ns && f->mono_ns < now_ns) {
		event->raw.mono_ns = f->mono_ns;
		event->time_ns -= now_ns - f->mono_ns;
	}
	event->raw.fence_id = f->fence_id;
	event->raw.generation = f->generation;
	event->raw.mode = f->mode;
	event->raw.rule = f->rule;
	event->raw.verdict = f->verdict;
	event->raw.count = f->count;
}

int event_frame_decode(const void *frame, size_t size, struct event_context *ret_context,
		       struct event_gateway *ret_gateway, struct event *ret_event)
{
	const char *texts[EVENT_FRAME_TEXT_COUNT];
	struct event_frame f;

	if (size < sizeof(f) || size > EVENT_FRAME_MAX)
		return -EBADMSG;
	memcpy(&f, frame, sizeof(f));
	if (!head_is_sound(&f, size) ||
	    !texts_find(&f, (const char *)frame + sizeof(f), size - sizeof(f), texts))
		return -EBADMSG;
	*ret_context = (struct event_context){ .node = NULL };
	*ret_gateway = (struct event_gateway){
		.has_amount = f.has_amount,
		.destructive = f.destructive,
		.has_bytes = f.has_bytes,
		.up_bytes = f.up_bytes,
		.down_bytes = f.down_bytes,
		.amount = f.amount,
		.status = f.status,
		.upstream_status = f.upstream_status,
		.latency_us = f.latency_us,
		.record = f.record,
	};
	texts_spread(texts, ret_context, ret_gateway);
	event_spread(&f, ret_event);
	ret_event->gateway = f.op == CORDON_OP_GAP ? NULL : ret_gateway;
	if (f.op == CORDON_OP_GAP)
		ret_event->detail =
			"the gateway dropped so many events, which nobody took for too long";
	return 0;
}
