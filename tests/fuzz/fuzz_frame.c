// SPDX-License-Identifier: Apache-2.0
/* What a gateway sends to cordond: whatever it says, an event of a gateway comes of it, or a gap of no fence, or nothing. */
#include <stdlib.h>
#include <string.h>

#include "event/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define require(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

/* What it was made of, but for its time, comes out again. */
static void again(const char *copy, size_t size, const struct event_context *context,
		  const struct event *event)
{
	static char frame[EVENT_FRAME_MAX];
	struct event_frame a, b;

	require(event_frame_encode(frame, context, event) == size);
	memcpy(&a, copy, sizeof(a));
	memcpy(&b, frame, sizeof(b));
	require(!memcmp(a.length, b.length, sizeof(a.length)) && a.fence_id == b.fence_id);
	require(!memcmp(copy + sizeof(a), frame + sizeof(b), size - sizeof(a)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct event event;
	static char line[EVENT_LINE_MAX];
	_cleanup_free_ char *copy = malloc(size ? size : 1); /* ends where it ends */
	struct event_context context;
	struct event_gateway gateway;
	struct event_record record;
	size_t n;

	require(copy != NULL);
	memcpy(copy, data, size);
	if (event_frame_decode(copy, size, &context, &gateway, &event))
		return 0;
	require(!event.kernel && !event.raw.pid && !event.raw.seq);
	require(event.raw.type == CORDON_TYPE_GATEWAY ||
		(event.raw.op == CORDON_OP_GAP && !event.raw.fence_id));
	n = event_format_json(line, &context, &event);
	require(event_line_is_sound(line, n));
	require(!event_record_parse(line, n, &record, NULL));
	event_record_clear(&record);
	if (event.gateway)
		again(copy, size, &context, &event);
	return 0;
}
