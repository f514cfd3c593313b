// SPDX-License-Identifier: Apache-2.0
/*
 * A worker: a thread with an event loop and the connections that were dealt to it. What other threads
 * have for it goes through one mailbox, and one eventfd says that there is something.
 */
#include "gateway/conn.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "proxy/proxy.h"

#define SCRATCH_BYTES (72 * 1024) /* a request of the usual limits in one piece */

uint64_t server_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct setup *worker_setup(struct worker *worker)
{
	unsigned int generation = atomic_load(&worker->gateway->generation);

	if (!worker->setup || generation != worker->generation) {
		setup_unref(worker->setup);
		worker->setup = gateway_setup(worker->gateway);
		worker->generation = generation;
	}
	return worker->setup;
}

/* --- the mailbox ------------------------------------------------------------------------------ */

/* With the mutex held: the first letter rings. */
static void worker_ring(struct worker *worker)
{
	const uint64_t one = 1;

	if (worker->woken)
		return;
	worker->woken = true;
	/* An eventfd takes a write of 1 unless it holds 2^64 - 2. */
	while (write(worker->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void worker_give_conn(struct worker *worker, struct conn *conn)
{
	pthread_mutex_lock(&worker->mutex);
	conn->next = worker->new_conns;
	worker->new_conns = conn;
	worker_ring(worker);
	pthread_mutex_unlock(&worker->mutex);
}

void worker_post(struct work *work)
{
	struct worker *worker = work->worker;

	work->next = NULL;
	pthread_mutex_lock(&worker->mutex);
	*worker->done_last = work;
	worker->done_last = &work->next;
	worker_ring(worker);
	pthread_mutex_unlock(&worker->mutex);
}

void worker_cut(struct worker *worker, const struct cut *cut)
{
	pthread_mutex_lock(&worker->mutex);
	if (worker->n_cuts == worker->cuts_room) {
		size_t room = worker->cuts_room ? worker->cuts_room * 2 : 16;
		struct cut *grown = realloc(worker->cuts, room * sizeof(*grown));

		/* Out of memory: all connections are cut, those that are meant among them. */
		if (grown) {
			worker->cuts = grown;
			worker->cuts_room = room;
		} else {
			worker->cut = true;
		}
	}
	if (worker->n_cuts < worker->cuts_room)
		worker->cuts[worker->n_cuts++] = *cut;
	worker_ring(worker);
	pthread_mutex_unlock(&worker->mutex);
}

void worker_drain(struct worker *worker, bool cut)
{
	pthread_mutex_lock(&worker->mutex);
	worker->drain = true;
	worker->cut |= cut;
	worker_ring(worker);
	pthread_mutex_unlock(&worker->mutex);
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool cut_names(const struct cut *cut, const struct conn *conn)
{
	const struct identity *id = &conn->caller->id;

	switch (cut->by) {
	case LEDGER_REVOKE_FENCE:
		return id->fence_id == cut->fence;
	case LEDGER_REVOKE_TASK:
		return !strcmp(id->task, cut->value);
	case LEDGER_REVOKE_SUBJECT:
		return !strcmp(id->subject, cut->value);
	case LEDGER_REVOKE_ID:
		return conn->work && conn->work->grant && !strcmp(conn->work->grant, cut->value);
	}
	return false;
}

static void worker_cut_conns(struct worker *worker, const struct cut *cut)
{
	for (struct conn *conn = worker->conns, *next; conn; conn = next) {
		next = conn->next;
		if (!conn->caller || !cut_names(cut, conn))
			continue;
		if (cut->ended)
			conn_close(conn);
		else
			conn_revoke(conn);
	}
}

/* Idle connections go at once, all with cut; those with a request under way say "close" when they answer. */
static void worker_begin_drain(struct worker *worker, bool cut)
{
	worker->draining = true;
	for (struct conn *conn = worker->conns, *next; conn; conn = next) {
		next = conn->next;
		if (cut || conn->state == CONN_IDLE)
			conn_close(conn);
	}
}

static void worker_take_conns(struct worker *worker, struct conn *conn)
{
	for (struct conn *next; conn; conn = next) {
		next = conn->next;
		conn->next = NULL;
		if (worker->draining)
			conn_drop(worker->server, conn);
		else
			conn_start(worker, conn);
	}
}

static void on_wake(evutil_socket_t fd, short what, void *context)
{
	struct worker *worker = context;
	_cleanup_free_ struct cut *cuts = NULL;
	struct conn *conns;
	struct work *works;
	size_t n_cuts;
	uint64_t rings;
	bool drain, cut;

	(void)what;
	if (read(fd, &rings, sizeof(rings)) < 0 && errno != EAGAIN)
		return;
	pthread_mutex_lock(&worker->mutex);
	worker->woken = false;
	conns = TAKE_PTR(worker->new_conns);
	works = TAKE_PTR(worker->done_first);
	worker->done_last = &worker->done_first;
	cuts = TAKE_PTR(worker->cuts);
	n_cuts = worker->n_cuts;
	worker->n_cuts = worker->cuts_room = 0;
	drain = worker->drain;
	cut = worker->cut;
	worker->cut = false;
	pthread_mutex_unlock(&worker->mutex);

	worker_take_conns(worker, conns);
	for (struct work *next; works; works = next) {
		next = works->next;
		works->resume(works);
	}
	for (size_t i = 0; i < n_cuts; i++)
		worker_cut_conns(worker, &cuts[i]);
	if (cut || (drain && !worker->draining)) {
		bool before = worker->draining;

		worker_begin_drain(worker, cut);
		worker->draining = drain || before;
	}
}

static void *worker_run(void *context)
{
	struct worker *worker = context;

	while (!worker->draining || worker->n_conns || worker->n_works)
		if (event_base_loop(worker->base, EVLOOP_ONCE) < 0)
			break;
	return NULL;
}

int worker_open(struct server *server, struct worker *worker)
{
	worker->server = server;
	worker->gateway = server->gateway;
	worker->done_last = &worker->done_first;
	pthread_mutex_init(&worker->mutex, NULL);
	worker->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	worker->scratch_size = SCRATCH_BYTES;
	worker->scratch = malloc(worker->scratch_size);
	worker->base = event_base_new();
	if (worker->wake_fd < 0 || !worker->scratch || !worker->base)
		return -ENOMEM;
	event_assign(&worker->wake, worker->base, worker->wake_fd, EV_READ | EV_PERSIST, on_wake,
		     worker);
	event_add(&worker->wake, NULL);
	return -pthread_create(&worker->thread, NULL, worker_run, worker);
}

void worker_close(struct worker *worker)
{
	while (worker->conns)
		conn_close(worker->conns);
	for (struct conn *conn = worker->new_conns, *next; conn; conn = next) {
		next = conn->next;
		conn_drop(worker->server, conn);
	}
	proxy_close(TAKE_PTR(worker->proxy));
	if (worker->base) {
		event_del(&worker->wake);
		event_base_free(worker->base);
	}
	if (worker->wake_fd >= 0)
		close(worker->wake_fd);
	setup_unref(worker->setup);
	free(worker->scratch);
	free(worker->cuts);
	pthread_mutex_destroy(&worker->mutex);
}
