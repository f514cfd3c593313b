/* SPDX-License-Identifier: Apache-2.0 */
/* The events of one fence on their way from the ring buffer to a file or terminal, with gap records. */
#ifndef CORDON_STREAM_H
#define CORDON_STREAM_H

#include "enforce/enforce.h"
#include "event/event.h"

struct stream {
	FILE *out; /* NULL: count only */
	bool owned;
	enum event_format format;
	bool color;
	bool started; /* the fence has been announced */
	bool failed;  /* a write failed; said once */
	uint64_t denied; /* operations that were, or in audit mode would have been, as far as events told */
	char *first_denied; /* the first of them as text, where events are written nowhere */
	struct event_context context;
	struct enforce_fence *fence; /* borrowed */
	struct event_tracker tracker;
	int64_t realtime_offset_ns;
	struct event *event; /* room for one */
};

/*
 * Opens the destination: NULL for none, "-" for standard output, else a file that is appended to. format NULL: JSON,
 * but text on a terminal. A file below workdir or one of the directories in writable (NULL-terminated, or NULL) is
 * refused: the agent could change it.
 */
int stream_open(struct stream *stream, const char *path, const char *format, const char *workdir,
		char *const *writable, struct error *error);

/* From now on the events of this fence. context is borrowed. */
void stream_begin(struct stream *stream, struct enforce_fence *fence,
		  const struct event_context *context);

/* Writes an event of our own, numbered in the fence. */
void stream_emit(struct stream *stream, enum cordon_op op, int64_t value, const char *detail);

/* The same for a ceiling that was reached; count: how often since the last such event. */
void stream_emit_limit(struct stream *stream, enum cordon_op op, enum cordon_rule rule,
		       enum cordon_verdict verdict, uint64_t count, const char *detail);

/* Writes what the kernel has reported; waits at most timeout_ms for something. */
void stream_pump(struct stream *stream, int timeout_ms);

/* Looks whether the fence is still whole, once a second; says so when it is not (op `broken`). To be called often. */
void stream_watch(struct stream *stream);

/*
 * Drains, reports every loss that is still open, writes the last event and closes. Where events were written nowhere, a
 * line on stderr says how many operations were denied, and which the first was: a program that fails for it must not be
 * a riddle.
 */
void stream_end(struct stream *stream, const char *detail);

#endif
