/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events in user space: decoding what the kernel put into the ring buffer, writing it as JSON
 * (schema cordon.event/1, docs/events.md) or as a line of text, reading recorded JSON lines back,
 * and accounting for every number. Knows nothing of BPF: gets bytes, gives bytes. No privilege.
 * What it is given by a fence (names, comm, paths) is hostile: every length is checked, every byte
 * escaped. Functions without a return value cannot fail.
 */
#ifndef CORDON_EVENT_H
#define CORDON_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cordon/abi.h"
#include "util/util.h"

#define EVENT_SCHEMA "cordon.event/1"

/* What is known of the fence besides the number in the event; not owned, NULL: unknown. */
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

/* What a gateway says of a decision (type gateway). Borrowed; NULL, or -1: does not apply. */
struct event_gateway {
	const char *tool, *action, *object, *scope, *grant, *key, *reason, *approval;
	const char *by, *digest, *record_hash;
	bool has_amount;
	bool destructive; /* it was done, by a tool that says that it takes something away */
	int64_t amount;
	int64_t status, upstream_status, latency_us;
	const char *address;
	bool has_bytes;
	int64_t up_bytes, down_bytes;
	uint64_t record; /* 0: none */
};

/* One event with its names decoded. Points into buffers of its own: copyable only with them. */
struct event {
	struct cordon_event raw;			/* without names */
	struct event_bytes path, path2, exe, unix_name; /* p is NULL where there is none */
	bool kernel;	    /* a decision of the kernel; false: made by user space */
	const char *detail; /* user-space events: one line of text; else NULL */
	uint64_t time_ns;   /* CLOCK_REALTIME */
	const struct event_gateway *gateway; /* type gateway only; else NULL */
	int64_t value;	  /* user-space events: exit code, cold start in ns; else 0 */
	const char *sink; /* op sink_gap: whose; else NULL */
	uint64_t first_ns,
		last_ns; /* op sink_gap and alerts: CLOCK_REALTIME of what is counted; else 0 */
	char names[CORDON_EVENT_NAMES_MAX + 8];
};

/*
 * Decodes record[size] of the ring buffer. realtime_offset_ns is CLOCK_REALTIME - CLOCK_MONOTONIC.
 * Returns 0, or -EBADMSG for a record that is not well-formed (then *ret_event is not to be used).
 */
int event_decode(const void *record, size_t size, int64_t realtime_offset_ns,
		 struct event *ret_event);

/*
 * A lifecycle event of user space (type fence or loss) with the times filled. fence and policy may
 * be NULL where they are not known; detail may be NULL and is not copied. seq comes from the same
 * counter as the kernel's.
 */
void event_make(struct event *ret_event, enum cordon_op op, const struct cordon_fence *fence,
		const struct cordon_policy *policy, uint64_t seq, const char *detail);

/* The same for a ceiling that was reached (type limit); count: how often. */
void event_make_limit(struct event *ret_event, enum cordon_op op, enum cordon_rule rule,
		      enum cordon_verdict verdict, const struct cordon_fence *fence,
		      const struct cordon_policy *policy, uint64_t seq, uint64_t count,
		      const char *detail);

enum event_format { EVENT_JSON, EVENT_TEXT, EVENT_OCSF, EVENT_FORMAT_COUNT };

/* What is written of each string of a context and of a detail; the rest is cut off. */
#define EVENT_TEXT_MAX 1023

/* A time as every event has it: RFC 3339 with ns, UTC. */
#define EVENT_TIME_SIZE 31
const char *event_format_time(uint64_t time_ns, char ret_text[EVENT_TIME_SIZE]);

/* No line is longer, newline included. */
#define EVENT_LINE_MAX 163840

/*
 * Writes one event as one line, by one fwrite; flushing is the caller's. color only matters for
 * text. Returns 0 or -errno of the write, or -ENOMEM (text only: JSON needs no memory).
 */
int event_write(FILE *out, enum event_format format, bool color,
		const struct event_context *context, const struct event *event);

/* JSON line of event, newline included, without a terminating NUL. Returns its length. */
size_t event_format_json(char ret_line[EVENT_LINE_MAX], const struct event_context *context,
			 const struct event *event);

/* Prints the JSON Schema of cordon.event/1, and docs/events.md; both made from the tables. */
void event_print_schema(FILE *out);
void event_print_doc(FILE *out);

/* Names of the tables, "?" beyond them. */
const char *event_type_name(unsigned int type);
const char *event_op_name(unsigned int op);
const char *event_verdict_name(unsigned int verdict);
const char *event_rule_name(unsigned int rule);

/* The number of that name, or -1. */
int event_type_find(const char *name);
int event_verdict_find(const char *name);
int event_op_find(const char *name);

/*
 * The id of a fence as people see and type it: 16 hexadecimal digits. Parsing takes 1 to 16 digits,
 * either case, nothing else; returns 0 or -EINVAL.
 */
#define EVENT_FENCE_ID_SIZE 17
const char *event_format_fence_id(uint64_t id, char ret_text[EVENT_FENCE_ID_SIZE]);
int event_parse_fence_id(const char *text, uint64_t *ret_id);

/*
 * Accounting (DESIGN, promise 10). The kernel numbers each event before it delivers it and counts
 * those that it could not deliver; CPUs deliver out of order by a few positions. The tracker of one
 * fence is given everything that was delivered or made and says when a gap record is due. The sum
 * of all gap records and events is the last number.
 */
#define EVENT_TRACKER_WINDOW 4096	   /* positions by which an event may be late */
#define EVENT_GAP_INTERVAL_NS 100000000ULL /* between gap records, so that a flood is not doubled */

struct event_tracker {
	uint64_t first;	  /* lowest number that concerns this tracker */
	uint64_t next;	  /* everything below is received or missing */
	uint64_t highest; /* highest number known to be given out */
	uint64_t received;
	uint64_t missing;   /* passed out of the window unseen */
	uint64_t lost;	    /* by the kernel's count, since the start */
	uint64_t lost_base; /* that count at the start */
	uint64_t reported;  /* given out in gaps */
	uint64_t repeated;  /* seen twice, or too late: a fault of the source, else 0 */
	uint64_t gap_from;  /* what is lost from now on has this number or a higher one */
	uint64_t gap_ns;    /* CLOCK_MONOTONIC of the last gap, 0: none yet */
	uint64_t seen[EVENT_TRACKER_WINDOW / 64];
};

/* What is to be reported as lost: count events among the numbers first..last. */
struct event_gap {
	uint32_t count;
	uint64_t first, last;
	char detail[160];
};

/*
 * numbered, lost: state.seq and state.lost of the fence where this reader begins; 0, 0 for a new
 * fence.
 */
void event_tracker_init(struct event_tracker *tracker, uint64_t numbered, uint64_t lost);

/*
 * Takes note of one event, in the order of delivery; user-space events (gap records themselves too)
 * with the number that they were given and lost 0. Returns true when a gap is due: write it before
 * this event.
 */
bool event_tracker_see(struct event_tracker *tracker, const struct cordon_event *raw,
		       struct event_gap *ret_gap);

/*
 * Takes note of state.seq and state.lost while nothing arrives (call it on idle, some times a
 * second). Returns true when a gap is due. now_ns is CLOCK_MONOTONIC.
 */
bool event_tracker_poll(struct event_tracker *tracker, uint64_t numbered, uint64_t lost,
			uint64_t now_ns, struct event_gap *ret_gap);

/*
 * The end: nothing more can come, the ring is drained, numbered is the final state.seq. Whatever
 * was numbered and neither seen nor reported is due now, also what nobody counted as lost. Returns
 * true while a gap is due. Each gap record takes a number itself: pass it to event_tracker_see and
 * go on with the new state.seq until this is false.
 */
bool event_tracker_finish(struct event_tracker *tracker, uint64_t numbered,
			  struct event_gap *ret_gap);

/*
 * A loss of the way out: so many events, the first and the last of those times, did not fit into a sink. Is of no fence, so
 * seq is the sink's own number of such records. name is not copied; ret_detail is what the event's detail points to.
 */
void event_make_sink_gap(struct event *ret_event, const char *name, uint64_t seq, uint64_t count,
			 uint64_t first_ns, uint64_t last_ns, char ret_detail[160]);

/* The gap as an event; ret_event points into gap. */
void event_make_gap(struct event *ret_event, const struct cordon_fence *fence,
		    const struct cordon_policy *policy, uint64_t seq, const struct event_gap *gap);

/*
 * Recorded events. A line is one JSON object; what is not one of this schema, or longer than
 * EVENT_LINE_MAX, is refused with the reason. The record owns its values.
 */
struct event_record {
	void *root; /* json_t */
};

/* Parses line[size], newline or not. Returns 0, -EINVAL with the reason in *error, or -ENOMEM. */
int event_record_parse(const char *line, size_t size, struct event_record *ret_record,
		       struct error *error);
void event_record_clear(struct event_record *record);

/* Where a record stands among others, and what it is the record of; texts live as long as the record. */
struct event_place {
	const char *node, *fence, *type, *op, *verdict; /* "" where it is not said */
	const char *tenant, *subject;			/* the same */
	uint64_t time_ns, mono_ns, seq, count;
	bool destructive; /* gateway.destructive */
};
void event_record_place(const struct event_record *record, struct event_place *ret_place);

/*
 * Which records to show; NULL or empty: all. Words of one list are alternatives, lists must all
 * hold.
 */
#define EVENT_FILTER_WORDS 32
struct event_words {
	char text[1024];
	const char *v[EVENT_FILTER_WORDS];
	size_t n;
};
struct event_filter {
	struct event_words fences; /* id or name */
	struct event_words tasks;
	struct event_words types;
	struct event_words verdicts;
	struct event_words rules; /* "network" means all of network.* too */
	uint64_t since_ns;	  /* CLOCK_REALTIME; 0: all */
};

/* Splits "a,b" at commas into ret_words. Returns 0, -EINVAL for an empty word, -E2BIG. */
int event_words_split(const char *list, struct event_words *ret_words);
bool event_record_matches(const struct event_record *record, const struct event_filter *filter);

/* RFC 3339 ("2026-01-02T03:04:05.6Z", any offset) to ns since 1970. Returns 0 or -EINVAL. */
int event_parse_time(const char *text, uint64_t *ret_time_ns);

/*
 * Writes a record as one line: text, or JSON. JSON is line[size] as it was read unless it holds
 * characters that could act on a terminal; then it is written anew with those escaped. Returns 0,
 * -errno of the write, or -ENOMEM.
 */
int event_record_write(FILE *out, enum event_format format, bool color,
		       const struct event_record *record, const char *line, size_t size);

/*
 * A recorded line in another format, as one line without colours, times as they were recorded. Returns its length, or 0 when it is
 * no event or memory ended.
 */
size_t event_format_line(char ret_line[EVENT_LINE_MAX], enum event_format format, const char *line,
			 size_t size);

/* A line of cordon.chain/1, which stands between events and is none: readers of events pass over it. */
bool event_line_is_chain(const char *line, size_t size);

/* One line with its newline and nothing in it that could act on a terminal or be taken for the end of a line? */
bool event_line_is_sound(const char *line, size_t size);

#endif
