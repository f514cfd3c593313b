// SPDX-License-Identifier: Apache-2.0
/*
 * The queue of a sink: a ring of bytes with a lock that is held for a copy and no longer, never across a system call but the
 * waking of a thread that sleeps. A record lies in one piece; where it does not fit before the end of the ring, the rest stays
 * empty. When memory or room ends, records are counted, never waited for. No privilege.
 */
#include "sink/internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define SKIP UINT32_MAX /* as size: the rest of the ring is empty */

static size_t record_size(size_t text)
{
	return (sizeof(struct sink_item) + text + 7) & ~(size_t)7;
}

int sink_queue_init(struct sink_queue *queue, size_t size)
{
	pthread_condattr_t attr;

	memset(queue, 0, sizeof(*queue));
	queue->size = size & ~(size_t)7;
	queue->bytes = malloc(queue->size);
	if (!queue->bytes)
		return -ENOMEM;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->filled, &attr);
	pthread_condattr_destroy(&attr);
	return 0;
}

void sink_queue_clear(struct sink_queue *queue)
{
	if (!queue->bytes)
		return;
	pthread_cond_destroy(&queue->filled);
	pthread_mutex_destroy(&queue->lock);
	free(queue->bytes);
	queue->bytes = NULL;
}

/* With the lock: where a record of n bytes goes, or NULL. Skips the end of the ring where need be. */
static char *room_find(struct sink_queue *q, size_t n)
{
	size_t to_end = q->size - q->head;
	void *rest;

	if (q->used && q->head <= q->tail) /* the free part lies between */
		return n <= q->tail - q->head ? q->bytes + q->head : NULL;
	if (!q->used) {
		q->head = q->tail = q->next = 0;
		to_end = q->size;
	}
	if (n <= to_end)
		return q->bytes + q->head;
	if (n > q->tail)
		return NULL;
	rest = q->bytes + q->head;
	*(uint32_t *)rest = SKIP; /* there are 8 bytes at least */
	q->used += to_end;
	q->head = 0;
	return q->bytes;
}

static bool record_put(struct sink_queue *q, const struct sink_item *item, const char *text)
{
	size_t n = record_size(item->size);
	char *p = room_find(q, n);

	if (!p)
		return false;
	memcpy(p, item, sizeof(*item));
	memcpy(p + sizeof(*item), text, item->size);
	q->head += n;
	if (q->head == q->size)
		q->head = 0;
	q->used += n;
	q->n++;
	return true;
}

/* With the lock: a loss record, if one is due and fits. */
static bool gap_put(struct sink_queue *q, size_t room, sink_gap_fn *make_gap, void *arg)
{
	struct sink_item item;
	char *text;

	/* Asked before it is made: making one costs more than all else here, and a full queue would make it in vain each time. */
	if (q->size - q->used < room + 4096)
		return false;
	item.size = (uint32_t)make_gap(arg, q->lost, q->first_ns, q->last_ns, &item, &text);
	if (!record_put(q, &item, text))
		return false;
	q->lost = 0;
	return true;
}

static void lost_note(struct sink_queue *q, uint64_t time_ns)
{
	if (!q->lost++)
		q->first_ns = time_ns;
	q->last_ns = time_ns;
	q->lost_total++;
}

void sink_queue_put(struct sink_queue *queue, const struct sink_item *item, const char *text,
		    sink_gap_fn *make_gap, void *arg)
{
	bool wake;

	pthread_mutex_lock(&queue->lock);
	if ((queue->lost && !gap_put(queue, record_size(item->size), make_gap, arg)) ||
	    !record_put(queue, item, text))
		lost_note(queue, item->time_ns);
	wake = queue->waiting;
	queue->waiting = false;
	pthread_mutex_unlock(&queue->lock);
	if (wake)
		pthread_cond_signal(&queue->filled);
}

bool sink_queue_settle(struct sink_queue *queue, sink_gap_fn *make_gap, void *arg)
{
	bool due;

	pthread_mutex_lock(&queue->lock);
	due = queue->lost && !queue->used && gap_put(queue, 0, make_gap, arg);
	pthread_mutex_unlock(&queue->lock);
	return due;
}

/* Where the record at *at lies: behind the empty end of the ring, perhaps. */
static struct sink_item *record_at(struct sink_queue *q, size_t *at)
{
	void *record = q->bytes + *at, *first = q->bytes;
	struct sink_item *item = record;

	if (item->size != SKIP)
		return item;
	*at = 0;
	return first;
}

static void at_advance(const struct sink_queue *q, size_t *at, const struct sink_item *item)
{
	*at += record_size(item->size);
	if (*at == q->size)
		*at = 0;
}

bool sink_queue_peek(struct sink_queue *queue, struct sink_item *ret_item, const char **ret_text)
{
	bool any;

	pthread_mutex_lock(&queue->lock);
	any = queue->n > queue->taken;
	pthread_mutex_unlock(&queue->lock);
	if (!any)
		return false;
	/* Writers never touch what is not released, and only this thread moves next. */
	*ret_item = *record_at(queue, &queue->next);
	*ret_text = queue->bytes + queue->next + sizeof(*ret_item);
	return true;
}

void sink_queue_take(struct sink_queue *queue)
{
	const struct sink_item *item = record_at(queue, &queue->next);

	pthread_mutex_lock(&queue->lock);
	at_advance(queue, &queue->next, item);
	queue->taken++;
	pthread_mutex_unlock(&queue->lock);
}

void sink_queue_release(struct sink_queue *queue, uint64_t n)
{
	pthread_mutex_lock(&queue->lock);
	for (; n; n--) {
		size_t before = queue->tail;
		const struct sink_item *item = record_at(queue, &queue->tail);

		if (queue->tail != before)
			queue->used -= queue->size - before;
		queue->used -= record_size(item->size);
		at_advance(queue, &queue->tail, item);
		queue->n--;
		queue->taken--;
	}
	pthread_mutex_unlock(&queue->lock);
}

void sink_queue_rewind(struct sink_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->next = queue->tail;
	queue->taken = 0;
	pthread_mutex_unlock(&queue->lock);
}

void sink_queue_lose(struct sink_queue *queue, uint64_t n, uint64_t time_ns)
{
	pthread_mutex_lock(&queue->lock);
	if (n && !queue->lost)
		queue->first_ns = time_ns;
	queue->last_ns = time_ns > queue->last_ns || !queue->lost ? time_ns : queue->last_ns;
	queue->lost += n;
	queue->lost_total += n;
	pthread_mutex_unlock(&queue->lock);
}

uint64_t sink_queue_count(struct sink_queue *queue)
{
	uint64_t n;

	pthread_mutex_lock(&queue->lock);
	n = queue->n + queue->lost;
	pthread_mutex_unlock(&queue->lock);
	return n;
}

uint64_t sink_queue_lag_ns(struct sink_queue *queue, uint64_t now_ns)
{
	uint64_t lag = 0;

	pthread_mutex_lock(&queue->lock);
	if (queue->n) {
		size_t at = queue->tail;
		uint64_t since = record_at(queue, &at)->queued_ns;

		lag = now_ns > since ? now_ns - since : 1;
	}
	pthread_mutex_unlock(&queue->lock);
	return lag;
}

bool sink_queue_wait(struct sink_queue *queue, unsigned int timeout_ms)
{
	struct timespec until;
	bool any;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	pthread_mutex_lock(&queue->lock);
	while (queue->n == queue->taken && !queue->stopped) {
		queue->waiting = true;
		if (pthread_cond_timedwait(&queue->filled, &queue->lock, &until) == ETIMEDOUT)
			break;
	}
	queue->waiting = false;
	any = queue->n > queue->taken;
	pthread_mutex_unlock(&queue->lock);
	return any;
}

void sink_queue_stop(struct sink_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->stopped = true;
	pthread_mutex_unlock(&queue->lock);
	pthread_cond_broadcast(&queue->filled);
}
