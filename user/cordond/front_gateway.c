// SPDX-License-Identifier: Apache-2.0
/*
 * What gateways decide, into the stream of the fence that it is about. A gateway is trusted less than the keeper: its frames
 * are judged by user/event/frame.c, whose events they can only become; whose event it is, is told by what cordond itself knows
 * of the fence, where it keeps it. Then the keeper is asked for a number. An event is answered for when it was given away, and
 * not before: a gateway decides nothing while it waits. One that comes again, because its answer got lost, is answered and not
 * given away twice.
 *
 * Of a fence that cordond does not keep (of `cordon run`, one that has ended, none at all) who it is stands in the frame, and
 * the number is a count of ours.
 *
 * Nothing here waits. Each gateway has one frame under way; until it is answered nothing more is read from it.
 */
#include "cordond/front.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "event/frame.h"

enum {
	NUMBER_WAIT_MS = 5000, /* the keeper's answer; then it is asked again */
	FRAMES_A_TURN = 64,
};

/* --- gateways --------------------------------------------------------------------------------- */

/* False: the gateway is done with. */
static bool gateway_answer(struct gateway *g, int err)
{
	const struct event_frame_answer answer = { EVENT_FRAME_MAGIC, err };

	return send(g->fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL) ==
		       (ssize_t)sizeof(answer) &&
	       !err;
}

/* Its frame is given away nevertheless: a gateway that comes again is told of what was, see frame_repeats(). */
static void gateway_hang_up(struct front *front, struct gateway *g)
{
	if (g->fd < 0)
		return;
	close(TAKE_FD(g->fd));
	front->n_gateways--;
}

static struct gateway *gateway_place(struct front *front)
{
	for (size_t i = 0; i < GATEWAYS_MAX; i++)
		if (front->gateways[i].fd < 0 && !front->gateways[i].busy)
			return &front->gateways[i];
	return NULL;
}

static bool gateway_may(const struct front *front, const struct control_peer *peer)
{
	return !peer->uid || (front->has_gateway && peer->uid == front->gateway);
}

static void gateway_new(struct front *front, int fd)
{
	struct gateway *g = gateway_place(front);
	struct control_peer peer;

	if (!g || control_peer_read(fd, &peer)) {
		close(fd);
		return;
	}
	*g = (struct gateway){ .source.kind = FRONT_GATEWAY, .fd = fd };
	front->n_gateways++;
	if (front_fence_refuse(front, fd, peer.pid, peer.uid,
			       "a process of a fence writes no gateway's events") ||
	    !gateway_may(front, &peer)) {
		gateway_answer(g, -EPERM);
		gateway_hang_up(front, g);
	} else if (front_watch(front, fd, &g->source, EPOLLIN)) {
		gateway_hang_up(front, g);
	}
}

void front_gateway_accept(struct front *front)
{
	for (;;) {
		int fd = accept4(front->events_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		gateway_new(front, fd);
	}
}

/* --- one frame -------------------------------------------------------------------------------- */

static struct watched *fence_of(const struct front *front, const struct gateway *g)
{
	return g->fence_id ? front_fence_find(front, g->fence_id) : NULL;
}

/* Whose numbers these are; the place of who was silent for longest is given to a new one. */
static struct gateway_life *life_find(struct front *front, uint64_t instance)
{
	struct gateway_life *oldest = front->told, *life;

	for (life = front->told; life < front->told + GATEWAYS_MAX; life++) {
		if (life->instance == instance)
			break;
		if (life->used_ms < oldest->used_ms)
			oldest = life;
	}
	if (life == front->told + GATEWAYS_MAX) {
		life = oldest;
		*life = (struct gateway_life){ .instance = instance };
	}
	life->used_ms = front_now_ms();
	return life;
}

/* The frame is in the stream. */
static void frame_done(struct front *front, struct gateway *g)
{
	struct watched *f = fence_of(front, g);

	if (g->asked && f && f->n_numbered)
		f->n_numbered--;
	g->busy = g->asked = false;
	life_find(front, g->instance)->given = g->number;
	if (g->fd < 0)
		return;
	if (!gateway_answer(g, 0) || front_watch(front, g->fd, &g->source, EPOLLIN))
		gateway_hang_up(front, g);
}

/* seq 0: the fence is not kept. */
static void frame_give(struct front *front, struct gateway *g, uint64_t seq)
{
	struct watched *f = seq ? fence_of(front, g) : NULL;
	struct event_context context;
	struct event_gateway gateway;
	struct event *event = front->event;

	event_frame_decode(g->frame, g->size, &context, &gateway, event); /* it was judged */
	if (f) {
		event->raw.seq = seq;
		event->raw.mode = (__u8)identity_packed_mode(f->how.identity);
		event->raw.generation = (__u32)identity_packed_generation(f->how.identity);
		front_fence_tell(front, f, event);
	} else {
		context.node = front->node;
		front_tell_unkept(front, &context, event);
	}
	frame_done(front, g);
}

/* Asks for the number. One that the keeper does not take now is asked for again. */
static void frame_number(struct front *front, struct gateway *g)
{
	struct watched *f = fence_of(front, g);
	union wire_message m = { .NUMBER = { .fence_id = g->fence_id } };

	if (!f) {
		frame_give(front, g, 0);
		return;
	}
	if (!g->asked)
		f->n_numbered++;
	g->asked = true;
	g->asked_ms = front_now_ms();
	front->number_serial = front->number_serial == UINT32_MAX ? 1 : front->number_serial + 1;
	g->serial = front_ask(front, WIRE_NUMBER, front->number_serial, &m, NULL)
			    ? 0
			    : front->number_serial;
}

void front_gateway_numbered(struct front *front, uint32_t serial, uint64_t seq)
{
	for (size_t i = 0; i < GATEWAYS_MAX; i++) {
		struct gateway *g = &front->gateways[i];

		if (g->busy && g->serial && g->serial == serial) {
			frame_give(front, g, seq);
			return;
		}
	}
}

/* One that was sent before: was it given away, or is it under way? */
static bool frame_repeats(struct front *front, struct gateway *g)
{
	if (g->number <= life_find(front, g->instance)->given) {
		g->busy = false;
		if (!gateway_answer(g, 0))
			gateway_hang_up(front, g);
		return true;
	}
	for (size_t i = 0; i < GATEWAYS_MAX; i++) {
		struct gateway *other = &front->gateways[i];

		if (other == g || !other->busy || other->instance != g->instance ||
		    other->number != g->number)
			continue;
		/* The answer goes to the connection of now. */
		gateway_hang_up(front, other);
		other->fd = TAKE_FD(g->fd);
		g->busy = false;
		if (front_watch(front, other->fd, &other->source, 0))
			gateway_hang_up(front, other);
		return true;
	}
	return false;
}

/* A whole frame that is sound: false when it is not. */
static bool frame_take(struct front *front, struct gateway *g)
{
	struct event_context context;
	struct event_gateway gateway;
	const struct event_frame *frame = (const struct event_frame *)g->frame;

	if (event_frame_decode(g->frame, g->size, &context, &gateway, front->event))
		return false;
	g->busy = true;
	g->asked = false;
	g->serial = 0;
	g->fence_id = frame->fence_id;
	g->number = frame->number;
	g->instance = frame->instance;
	front->frame_said = false;
	if (!frame_repeats(front, g))
		frame_number(front, g);
	return true;
}

void front_gateway_ready(struct front *front, struct gateway *g, uint32_t events)
{
	for (int n = 0; g->fd >= 0 && !g->busy && n < FRAMES_A_TURN; n++) {
		ssize_t size = recv(g->fd, g->frame, sizeof(g->frame), MSG_DONTWAIT | MSG_TRUNC);

		if (size < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (size <= 0) {
			gateway_hang_up(front, g);
			return;
		}
		g->size = (size_t)size;
		if (g->size <= sizeof(g->frame) && frame_take(front, g))
			continue;
		if (!front->frame_said)
			cordond_say("a gateway sent what is no event of one; is it of this "
				    "version? It is not taken");
		front->frame_said = true;
		gateway_answer(g, -EBADMSG);
		gateway_hang_up(front, g);
	}
	if (g->fd >= 0 && g->busy && events & (EPOLLHUP | EPOLLERR))
		gateway_hang_up(front, g);
	else if (g->fd >= 0 && g->busy) /* until it is answered */
		front_watch(front, g->fd, &g->source, 0);
}

void front_gateways_turn(struct front *front)
{
	uint64_t now_ms = front_now_ms();

	for (size_t i = 0; i < GATEWAYS_MAX; i++) {
		struct gateway *g = &front->gateways[i];

		if (g->busy && (!g->serial || now_ms - g->asked_ms > NUMBER_WAIT_MS))
			frame_number(front, g);
	}
}

void front_gateways_init(struct front *front)
{
	for (size_t i = 0; i < GATEWAYS_MAX; i++)
		front->gateways[i].fd = -1;
}
