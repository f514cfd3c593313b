// SPDX-License-Identifier: Apache-2.0
/*
 * From a fence's ring buffer to lines. Each record is decoded, accounted for, written once as JSON and given to the
 * history, from which all readers have it. The account is kept in a file that outlives this process: it is brought up to
 * date after a record was given away and before it counts as read, so that the next front repeats none and counts what
 * was lost between.
 */
#include "cordond/front.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

enum { GAP_WAIT_MS = 5000, LOOK_EVERY_MS = 100 };

struct watched *front_fence_find(const struct front *front, uint64_t id)
{
	for (size_t i = 0; i < front->n_watched; i++)
		if (front->watched[i]->id == id)
			return front->watched[i];
	return NULL;
}

int front_fence_named(const struct front *front, const char *name, struct watched **ret_fence)
{
	struct watched *found = NULL;
	uint64_t id;

	if (!event_parse_fence_id(name, &id)) {
		found = front_fence_find(front, id);
		if (found) {
			*ret_fence = found;
			return 0;
		}
	}
	for (size_t i = 0; i < front->n_watched; i++) {
		if (strcmp(how_text(&front->watched[i]->how, IDENTITY_FENCE_NAME), name) != 0)
			continue;
		if (found)
			return -EEXIST;
		found = front->watched[i];
	}
	*ret_fence = found;
	return found ? 0 : -ENOENT;
}

/*
 * The fence's counters. By a look-up and not by mapping them: to map what can only be read the kernel refuses, and who could
 * write them could make the self-test of the next fence believe what is not so.
 */
void front_fence_state(const struct front *front, const struct watched *f,
		       struct cordon_state *ret_state)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	memset(ret_state, 0, sizeof(*ret_state));
	attr.map_fd = (__u32)front->states_fd;
	attr.key = (__u64)(uintptr_t)&f->slot;
	attr.value = (__u64)(uintptr_t)ret_state;
	if (syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &attr, sizeof(attr)))
		cordond_say("cannot read the counters of a fence: %s", strerror(errno));
}

/* --- accounts --------------------------------------------------------------------------------- */

static void account_load(const struct front *front, struct watched *f, bool fresh)
{
	struct cordon_state state;
	const struct account *page = f->account;
	const struct cordon_event *first = enforce_ring_first(f->ring);

	if (page->fence_id == f->id && page->size == sizeof(f->tracker) &&
	    (page->valid == 1 || page->valid == 2)) {
		f->tracker = page->tracker[page->valid - 1];
		f->tracker.gap_ns = 0;
	} else if (fresh) {
		event_tracker_init(&f->tracker, 0, 0);
	} else if (first) {
		event_tracker_init(&f->tracker, first->seq ? first->seq - 1 : 0, first->lost);
	} else {
		front_fence_state(front, f, &state);
		event_tracker_init(&f->tracker, state.seq, state.lost);
	}
}

/* The slot becomes the fence's: from here on one that had it before, and is not done yet, writes no more. */
static void account_take(struct watched *f)
{
	if (f->account->fence_id == f->id)
		return;
	__atomic_store_n(&f->account->valid, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&f->account->fence_id, f->id, __ATOMIC_RELEASE);
}

/* While the number of a gap record is awaited the account stays: a front that ends now has not written it. */
static void account_save(struct watched *f)
{
	struct account *page = f->account;
	unsigned int idle = page->valid == 1;

	if (f->gap_pending || page->fence_id != f->id)
		return;
	page->size = sizeof(f->tracker);
	page->tracker[idle] = f->tracker;
	__atomic_store_n(&page->valid, idle + 1, __ATOMIC_RELEASE);
}

/* --- events ----------------------------------------------------------------------------------- */

static const char *text_said(const struct watched *f, enum identity_text text)
{
	const char *said = how_text(&f->how, text);

	return said[0] ? said : NULL;
}

static void context_fill(struct front *front, struct watched *f)
{
	f->context = (struct event_context){
		.node = front->node,
		.fence_name = text_said(f, IDENTITY_FENCE_NAME),
		.policy = text_said(f, IDENTITY_POLICY),
		.task = text_said(f, IDENTITY_TASK),
		.tenant = text_said(f, IDENTITY_TENANT),
		.subject = text_said(f, IDENTITY_SUBJECT),
		.container = text_said(f, IDENTITY_CONTAINER),
		.degraded = f->degraded ? "files and processes are not enforced" : NULL,
	};
}

/* An alert becomes an event of its fence: the keeper numbers it. One that cannot be asked for now stays due. */
static void alert_ask(struct front *front, struct watched *f, const struct alert *alert)
{
	union wire_message m = { .REMARK = {
					 .fence_id = f->id,
					 .op = alert->op,
					 .first_ns = alert->first_ns,
					 .last_ns = alert->last_ns,
				 } };

	m.REMARK.count = alert->count > UINT32_MAX ? UINT32_MAX : (uint32_t)alert->count;
	snprintf(m.REMARK.detail, sizeof(m.REMARK.detail), "%s", alert->detail);
	if (!front_ask(front, WIRE_REMARK, 0, &m, NULL)) {
		free(TAKE_PTR(f->alert));
		return;
	}
	if (!f->alert)
		f->alert = malloc(sizeof(*f->alert));
	if (f->alert && f->alert != alert)
		*f->alert = *alert;
}

/* To sinks and readers; true when an alert is due for it. f is NULL for a fence that is not kept. */
static bool event_out(struct front *front, const struct watched *f,
		      const struct event_context *context, const struct event *event,
		      struct alert *ret_alert)
{
	size_t bytes = event_format_json(front->line, context, event);

	front->n_events++;
	if (event->raw.op == CORDON_OP_GAP)
		front->n_lost += event->raw.count;
	front_metrics_event(f, event);
	if (front->sinks)
		sinks_write(front->sinks, context, event);
	history_add(front->history, event->raw.fence_id, event->raw.seq, front->line, bytes);
	return front->alerts && alerts_see(front->alerts, context, event, ret_alert);
}

static void event_give(struct front *front, struct watched *f, const struct event *event)
{
	struct alert alert;

	if (!event_out(front, f, &f->context, event, &alert))
		return;
	alert_ask(front, f, &alert);
}

void front_tell_unkept(struct front *front, const struct event_context *context,
		       struct event *event)
{
	struct alert alert;

	event->raw.seq = ++front->n_unkept;
	if (!event_out(front, NULL, context, event, &alert))
		return;
	alert_make(event, NULL, NULL, ++front->n_unkept, &alert);
	event_out(front, NULL, context, event, &alert);
}

/* A gap record is due: the keeper numbers it. One that cannot be asked for now is due again. */
static void gap_ask(struct front *front, struct watched *f, const struct event_gap *gap)
{
	union wire_message m = { .GAP = { .fence_id = f->id, .gap = *gap } };

	if (f->gap_pending || front_ask(front, WIRE_GAP, 0, &m, NULL))
		f->tracker.reported -= gap->count;
	else {
		f->gap_pending = true;
		f->gap_count = gap->count;
		f->gap_ms = front_now_ms();
	}
}

/* An answer that does not come: the number was taken, if it was, and will be missing too. */
static void gap_give_up(struct watched *f)
{
	if (!f->gap_pending || front_now_ms() - f->gap_ms < GAP_WAIT_MS)
		return;
	f->gap_pending = false;
	f->tracker.reported -= f->gap_count;
}

static void event_see(struct front *front, struct watched *f, const struct event *event)
{
	uint64_t repeated = f->tracker.repeated;
	struct event_gap gap;

	if (event_tracker_see(&f->tracker, &event->raw, &gap))
		gap_ask(front, f, &gap);
	if (f->tracker.repeated == repeated) /* else an earlier front has given it away */
		event_give(front, f, event);
	account_save(f);
}

void front_fence_tell(struct front *front, struct watched *f, const struct event *event)
{
	event_see(front, f, event);
}

struct reading {
	struct front *front;
	struct watched *fence;
};

static void on_record(void *context, const void *record, size_t size)
{
	const struct reading *r = context;
	struct front *front = r->front;

	if (event_decode(record, size, front->realtime_offset_ns, front->event)) {
		cordond_say("a record of %zu bytes from the kernel is not an event; skipped", size);
		return;
	}
	if (front->event->raw.fence_id == r->fence->id)
		event_see(front, r->fence, front->event);
}

void front_fence_fact(struct front *front, const struct wire_fact *fact)
{
	struct watched *f = front_fence_find(front, fact->fence_id);
	struct event *event = front->event;
	const struct cordon_fence info = { .id = fact->fence_id };
	const struct cordon_policy policy = {
		.mode = f ? (__u8)identity_packed_mode(f->how.identity) : 0,
		.generation = f ? (__u32)identity_packed_generation(f->how.identity) : 0,
	};

	if (!f || !wire_text_is_sound(fact->detail, sizeof(fact->detail)) ||
	    fact->op >= CORDON_OP_COUNT || fact->rule >= CORDON_RULE_COUNT ||
	    fact->verdict >= CORDON_VERDICT_COUNT)
		return;
	event_make(event, fact->op, &info, &policy, fact->seq, fact->detail);
	event->first_ns = fact->first_ns;
	event->last_ns = fact->last_ns;
	event->value = fact->value;
	event->raw.count = fact->count;
	event->raw.mono_ns = fact->mono_ns;
	event->time_ns = fact->time_ns;
	event->raw.rule = fact->rule;
	event->raw.verdict = fact->verdict;
	if (fact->op == CORDON_OP_GAP)
		f->gap_pending = false;
	event_see(front, f, event);
}

/* --- fences come and go ----------------------------------------------------------------------- */

static void watched_free(struct watched *f)
{
	if (!f)
		return;
	enforce_ring_close(f->ring);
	if (f->ring_fd >= 0)
		close(f->ring_fd);
	free(f->alert);
	how_clear(&f->how);
	free(f);
}

static int watched_enter(struct front *front, struct watched *f)
{
	if (front->n_watched == front->watched_room) {
		size_t room = front->watched_room ? 2 * front->watched_room : 64;
		struct watched **grown = realloc(front->watched, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		front->watched = grown;
		front->watched_room = room;
	}
	front->watched[front->n_watched++] = f;
	return 0;
}

int front_fence_made(struct front *front, const struct wire_made *made, int ring_fd)
{
	struct watched *f = calloc(1, sizeof(*f));
	struct error error = { "" };
	int err;

	if (!f || made->slot >= front->n_states || !identity_is_sound(&made->fence.identity) ||
	    !wire_text_is_sound(made->fence.cgroup, sizeof(made->fence.cgroup))) {
		free(f);
		return -EINVAL;
	}
	f->source.kind = FRONT_RING;
	f->id = made->fence.identity.fence_id;
	f->slot = made->slot;
	f->degraded = made->degraded;
	f->ring_fd = -1;
	f->account = &front->accounts[made->slot];
	err = how_set(&f->how, &made->fence);
	if (err)
		error_set(&error, -err, "out of memory");
	context_fill(front, f);
	if (!err)
		err = enforce_ring_open(ring_fd, made->fence.ring_bytes, &f->ring, &error);
	if (!err)
		err = watched_enter(front, f);
	if (err) {
		cordond_say("events of fence %016llx cannot be read: %s", (unsigned long long)f->id,
			    error.text);
		watched_free(f);
		return err;
	}
	f->ring_fd = ring_fd;
	account_load(front, f, made->fresh);
	account_take(f);
	account_save(f);
	front_metrics_fence(front, f, made->fresh);
	front_watch(front, ring_fd, &f->source, EPOLLIN);
	return 0;
}

void front_fence_policy(struct front *front, const struct wire_policy *policy)
{
	struct watched *f = front_fence_find(front, policy->fence_id);

	if (!f || !identity_is_sound(&policy->identity))
		return;
	if (how_identity_set(&f->how, &policy->identity))
		cordond_say("out of memory: events of fence %016llx go on with the name of the "
			    "policy before",
			    (unsigned long long)f->id);
	context_fill(front, f);
}

/* Done with a fence that ends: everything is read, and every number accounted for. */
static bool fence_finish(struct front *front, struct watched *f)
{
	union wire_message m = { .ENDED = { .fence_id = f->id } };
	struct cordon_state state;
	struct event_gap gap;

	if (f->gap_pending || f->n_numbered)
		return false;
	front_fence_state(front, f, &state);
	front_metrics_state(f, &state);
	if (event_tracker_finish(&f->tracker, state.seq, &gap)) {
		gap_ask(front, f, &gap);
		return false;
	}
	return !front_ask(front, WIRE_ENDED, 0, &m, NULL);
}

void front_fence_ending(struct front *front, uint64_t fence_id)
{
	struct watched *f = front_fence_find(front, fence_id);

	if (f)
		f->ending = true;
}

/* The kernel's counts, of a fence that says nothing: is something lost? */
static void fence_look(struct front *front, struct watched *f, uint64_t now_ms)
{
	struct cordon_state state;
	struct event_gap gap;

	if (f->gap_pending || now_ms - f->looked_ms < LOOK_EVERY_MS)
		return;
	f->looked_ms = now_ms;
	front_fence_state(front, f, &state);
	if (event_tracker_poll(&f->tracker, state.seq, state.lost, now_ms * 1000000, &gap))
		gap_ask(front, f, &gap);
}

static bool fence_read(struct front *front, struct watched *f, uint64_t now_ms)
{
	struct reading reading = { front, f };
	int n;

	front_metrics_ring(front, f);
	n = enforce_ring_poll(f->ring, 0, on_record, &reading);
	gap_give_up(f);
	if (f->alert)
		alert_ask(front, f, f->alert);
	if (n == -EBADMSG && !f->broken)
		cordond_say("the ring of fence %016llx is broken", (unsigned long long)f->id);
	f->broken = n == -EBADMSG;
	if (f->ending)
		f->finished = n <= 0 && fence_finish(front, f);
	else if (n <= 0)
		fence_look(front, f, now_ms);
	return n > 0;
}

bool front_fences_read(struct front *front)
{
	uint64_t now_ms = front_now_ms();
	bool busy = false;

	if (!front->history)
		return false;
	for (size_t i = front->n_watched; i-- > 0;) {
		struct watched *f = front->watched[i];

		busy |= fence_read(front, f, now_ms);
		if (!f->finished)
			continue;
		front->watched[i] = front->watched[--front->n_watched];
		front_metrics_fence_gone(front, f);
		watched_free(f);
	}
	return busy;
}

/* --- what there is ---------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
	return text && text[0] ? json_string(text) : json_null();
}

json_t *front_fence_row(const struct front *front, const struct watched *f)
{
	struct cordon_state state;
	const struct how *how = &f->how;
	struct timespec now;
	char id[EVENT_FENCE_ID_SIZE];

	clock_gettime(CLOCK_REALTIME, &now);
	front_fence_state(front, f, &state);
	return json_pack("{s:s,s:o,s:o,s:s,s:I,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:I,s:b}", "id",
			 event_format_fence_id(f->id, id), "name",
			 text_or_null(how_text(how, IDENTITY_FENCE_NAME)), "policy",
			 text_or_null(how_text(how, IDENTITY_POLICY)), "mode",
			 identity_packed_mode(how->identity) == CORDON_MODE_AUDIT ? "audit"
										  : "enforce",
			 "generation", (json_int_t)identity_packed_generation(how->identity),
			 "task", text_or_null(how_text(how, IDENTITY_TASK)), "tenant",
			 text_or_null(how_text(how, IDENTITY_TENANT)), "subject",
			 text_or_null(how_text(how, IDENTITY_SUBJECT)), "container",
			 text_or_null(how_text(how, IDENTITY_CONTAINER)), "cgroup",
			 text_or_null(how->cgroup), "denials", (json_int_t)state.denied, "events",
			 (json_int_t)state.seq, "lost", (json_int_t)state.lost, "age_s",
			 (json_int_t)((uint64_t)now.tv_sec - f->how.made_ns / 1000000000ULL),
			 "degraded", f->degraded);
}
