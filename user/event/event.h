/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events in user space: decoding what the kernel put into the ring buffer, and writing it as JSON (schema
 * cordon.event/1, DESIGN 3.4) or as a line of text. Knows nothing of BPF: gets bytes, gives bytes. What it is
 * given by a fence (names, comm, paths) is hostile: every length is checked, every byte escaped.
 */
#ifndef CORDON_EVENT_H
#define CORDON_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cordon/abi.h"

#define EVENT_SCHEMA "cordon.event/1"

/* What is known of the fence besides the number in the event; not owned, NULL where there is none. */
struct event_context {
	const char *node; /* host name */
	const char *fence_name;
	const char *policy;
	const char *task;
	const char *tenant;
	const char *subject;
	const char *container;
	const char *degraded; /* what is missing, NULL when nothing is */
};

/* A byte string that need not be UTF-8 and has no NUL inside unless it names an abstract socket. */
struct event_bytes {
	const char *p;
	size_t n;
};

/* One event with its names decoded. Points into buffers of its own: copyable only with them. */
struct event {
	struct cordon_event raw; /* without names */
	struct event_bytes path, path2, exe, unix_name;
	const char *detail;	 /* user-space events: one line of text; else NULL */
	uint64_t time_ns;	 /* CLOCK_REALTIME */
	int64_t value;		 /* user-space events: exit code, cold start in ns; else 0 */
	char names[CORDON_EVENT_NAMES_MAX + 8];
};

/*
 * Decodes record[size] from the ring buffer. realtime_offset_ns is CLOCK_REALTIME - CLOCK_MONOTONIC. Returns 0, or
 * -EBADMSG for a record that is not well-formed (then *ret_event is not to be used).
 */
int event_decode(const void *record, size_t size, int64_t realtime_offset_ns, struct event *ret_event);

/* A lifecycle event of user space (type fence or loss) with the times filled. detail is not copied. */
void event_make(struct event *ret_event, enum cordon_op op, const struct cordon_fence *fence,
		const struct cordon_policy *policy, uint64_t seq, const char *detail);

enum event_format { EVENT_JSON, EVENT_TEXT };

/* Writes one event as one line. color only matters for text. Returns 0 or -errno of the write. */
int event_write(FILE *out, enum event_format format, bool color, const struct event_context *context,
		const struct event *event);

/* Prints the JSON Schema of cordon.event/1, made from the tables. */
void event_print_schema(FILE *out);

/* Names of the tables, "?" beyond them. */
const char *event_type_name(unsigned int type);
const char *event_op_name(unsigned int op);
const char *event_verdict_name(unsigned int verdict);
const char *event_rule_name(unsigned int rule);

#endif
