// SPDX-License-Identifier: Apache-2.0
/*
 * Accounting for the numbers of one fence. Two sources tell of a loss and neither is enough: the
 * kernel counts what it could not deliver, at once but without saying which; a number that passes
 * out of the window unseen is a loss that perhaps nobody counted (a record that was refused, a
 * reader that died), but that shows late. What has been lost is never less than either, so the
 * greater one is reported, and at the end the numbers themselves settle it. No privilege, no
 * memory, no clock of its own.
 */
#include "event/event.h"

#include <string.h>

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t *seen_word(struct event_tracker *t, uint64_t seq)
{
	return &t->seen[seq % EVENT_TRACKER_WINDOW / 64];
}

static uint64_t seen_bit(uint64_t seq)
{
	return 1ULL << (seq % 64);
}

/* Moves the lower edge by one: its number is now received or missing for good. */
static void window_advance(struct event_tracker *t)
{
	uint64_t *word = seen_word(t, t->next);

	if (!(*word & seen_bit(t->next)))
		t->missing++;
	*word &= ~seen_bit(t->next);
	t->next++;
}

/* Makes room for seq; a jump of more than a window leaves nothing to look at one by one. */
static void window_reach(struct event_tracker *t, uint64_t seq)
{
	unsigned int steps = 0;

	while (seq - t->next >= EVENT_TRACKER_WINDOW && steps++ < EVENT_TRACKER_WINDOW)
		window_advance(t);
	if (seq - t->next >= EVENT_TRACKER_WINDOW) {
		t->missing += seq - t->next - EVENT_TRACKER_WINDOW + 1;
		t->next = seq - EVENT_TRACKER_WINDOW + 1;
	}
}

static void seq_note(struct event_tracker *t, uint64_t seq)
{
	if (seq < t->next ||
	    (seq - t->next < EVENT_TRACKER_WINDOW && (*seen_word(t, seq) & seen_bit(seq)))) {
		t->repeated++;
		return;
	}
	window_reach(t, seq);
	*seen_word(t, seq) |= seen_bit(seq);
	t->received++;
	t->highest = max_u64(t->highest, seq);
	while (*seen_word(t, t->next) & seen_bit(t->next))
		window_advance(t);
	if (t->missing <= t->reported)
		t->gap_from = t->next;
}

static void lost_note(struct event_tracker *t, uint64_t lost)
{
	if (lost > t->lost_base)
		t->lost = max_u64(t->lost, lost - t->lost_base);
}

/* Fills a gap with what is due of total; false when nothing is. */
static bool gap_take(struct event_tracker *t, uint64_t total, struct event_gap *ret_gap)
{
	uint64_t due = total > t->reported ? total - t->reported : 0;

	if (!due)
		return false;
	if (due > UINT32_MAX)
		due = UINT32_MAX;
	t->reported += due;
	*ret_gap = (struct event_gap){ .count = (uint32_t)due,
				       .first = t->gap_from,
				       .last = max_u64(t->highest, t->gap_from) };
	snprintf(ret_gap->detail, sizeof(ret_gap->detail), "%u lost among the numbers %llu to %llu",
		 ret_gap->count, (unsigned long long)ret_gap->first,
		 (unsigned long long)ret_gap->last);
	if (t->reported == total)
		t->gap_from = t->next;
	return true;
}

static bool gap_due(struct event_tracker *t, uint64_t now_ns, struct event_gap *ret_gap)
{
	if (t->gap_ns && now_ns < t->gap_ns + EVENT_GAP_INTERVAL_NS)
		return false;
	if (!gap_take(t, max_u64(t->lost, t->missing), ret_gap))
		return false;
	t->gap_ns = now_ns;
	return true;
}

void event_tracker_init(struct event_tracker *tracker, uint64_t numbered, uint64_t lost)
{
	memset(tracker, 0, sizeof(*tracker));
	tracker->first = numbered + 1;
	tracker->next = tracker->first;
	tracker->gap_from = tracker->first;
	tracker->highest = numbered;
	tracker->lost_base = lost;
}

bool event_tracker_see(struct event_tracker *tracker, const struct cordon_event *raw,
		       struct event_gap *ret_gap)
{
	seq_note(tracker, raw->seq);
	lost_note(tracker, raw->lost);
	return raw->op != CORDON_OP_GAP && gap_due(tracker, raw->mono_ns, ret_gap);
}

bool event_tracker_poll(struct event_tracker *tracker, uint64_t numbered, uint64_t lost,
			uint64_t now_ns, struct event_gap *ret_gap)
{
	tracker->highest = max_u64(tracker->highest, numbered);
	lost_note(tracker, lost);
	return gap_due(tracker, now_ns, ret_gap);
}

bool event_tracker_finish(struct event_tracker *tracker, uint64_t numbered,
			  struct event_gap *ret_gap)
{
	uint64_t expected = numbered + 1 - tracker->first;

	tracker->highest = max_u64(tracker->highest, numbered);
	if (numbered < tracker->first || expected <= tracker->received)
		return false;
	return gap_take(tracker, expected - tracker->received, ret_gap);
}
