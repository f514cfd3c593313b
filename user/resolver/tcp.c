// SPDX-License-Identifier: Apache-2.0
/* Connections: one question after the other, each answered before the next is read. See internal.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/gateway.h"
#include "resolver/internal.h"

#define LENGTH 2 /* bytes before a message */
#define ACCEPTS 16

struct listener {
	struct resolver *resolver;
	struct event event;
	int fd;
};

struct link {
	struct link *next, **place;
	struct resolver *resolver;
	struct event event;
	int fd;
	uint64_t fence_id;   /* 0: no fence's */
	struct asker *asker; /* whose number it counts in; or NULL */
	uint64_t deadline_ms;
	bool waits;  /* for an answer */
	bool inside; /* link_pump() is at work */
	size_t in_n, out_n, out_at;
	uint8_t in[LENGTH + MESSAGE_QUERY_MAX], out[LENGTH + MESSAGE_ANSWER_MAX];
};

static void on_link(evutil_socket_t fd, short what, void *context);

static void link_free(struct link *link)
{
	struct resolver *resolver = link->resolver;

	*link->place = link->next;
	if (link->next)
		link->next->place = link->place;
	event_del(&link->event);
	asks_forget(resolver, link);
	close(link->fd);
	resolver->n_links--;
	if (link->asker)
		link->asker->links--;
	else
		resolver->n_strangers--;
	free(link);
}

static void link_watch(struct link *link, short what)
{
	event_del(&link->event);
	event_assign(&link->event, link->resolver->base, link->fd, what | EV_PERSIST, on_link,
		     link);
	event_add(&link->event, NULL);
}

/* false: the connection is to end. */
static bool link_write(struct link *link)
{
	ssize_t n = send(link->fd, link->out + link->out_at, link->out_n - link->out_at,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	link->out_at += (size_t)n;
	if (link->out_at < link->out_n)
		return true;
	link->out_n = link->out_at = 0;
	link->deadline_ms = link->resolver->now_ms + LINK_IDLE_MS;
	return link->fence_id != 0; /* who is nobody has been told so */
}

/* The next whole message, if there is one. false: the connection is to end. */
static bool link_take(struct link *link)
{
	static struct identity id; /* one thread */
	struct resolver *resolver = link->resolver;
	const struct way way = { .link = link, .fd = -1 };
	size_t n = (size_t)link->in[0] << 8 | link->in[1];
	uint8_t bytes[MESSAGE_QUERY_MAX];

	if (n > MESSAGE_QUERY_MAX)
		return false;
	if (link->fence_id && identity_find(resolver->gateway->identity, link->fence_id, &id) != 0)
		return false;
	memcpy(bytes, link->in + LENGTH, n);
	link->in_n -= LENGTH + n;
	memmove(link->in, link->in + LENGTH + n, link->in_n);
	link->waits = true;
	return ask_take(resolver, &way, link->fence_id ? &id : NULL, bytes, n);
}

static bool link_has_message(const struct link *link)
{
	return link->in_n >= LENGTH &&
	       (link->in_n >= LENGTH + ((size_t)link->in[0] << 8 | link->in[1]) ||
		((size_t)link->in[0] << 8 | link->in[1]) > MESSAGE_QUERY_MAX);
}

/* Goes on with what can be gone on with. The link may be gone when it returns. */
static void link_pump(struct link *link)
{
	bool stays = true;

	link->inside = true;
	while (stays) {
		if (link->out_n) {
			stays = link_write(link);
			if (stays && link->out_n)
				break;
		} else if (!link->waits && link_has_message(link)) {
			stays = link_take(link);
		} else {
			break;
		}
	}
	link->inside = false;
	if (!stays)
		link_free(link);
	else if (link->out_n)
		link_watch(link, EV_WRITE);
	else if (link->waits)
		event_del(&link->event);
	else
		link_watch(link, EV_READ);
}

static void on_link(evutil_socket_t fd, short what, void *context)
{
	struct link *link = context;
	ssize_t n;

	resolver_turn(link->resolver);
	if (what & EV_READ) {
		n = recv(fd, link->in + link->in_n, sizeof(link->in) - link->in_n, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			link_free(link);
			return;
		}
		if (n > 0)
			link->in_n += (size_t)n;
	}
	link_pump(link);
}

void link_answer(struct link *link, const uint8_t *p, size_t n)
{
	link->waits = false;
	if (!n) { /* there is no answer: the end says so */
		link->in_n = 0;
		shutdown(link->fd, SHUT_RDWR);
	} else {
		link->out[0] = (uint8_t)(n >> 8);
		link->out[1] = (uint8_t)n;
		memcpy(link->out + LENGTH, p, n);
		link->out_n = LENGTH + n;
	}
	if (!link->inside)
		link_pump(link);
}

/* --- accepting -------------------------------------------------------------------------------- */

static void link_open(struct resolver *resolver, int fd)
{
	static struct identity id; /* one thread */
	bool known = identity_of_connection(resolver->gateway->identity, fd, &id) == 0;
	struct asker *asker = known ? askers_find(resolver->askers, &id) : NULL;
	unsigned int *links = asker ? &asker->links : &resolver->n_strangers;
	struct link *link;

	if ((known && !asker) || resolver->n_links >= LINKS_MAX || *links >= LINKS_SHARE) {
		close(fd);
		return;
	}
	link = calloc(1, sizeof(*link));
	if (!link) {
		close(fd);
		return;
	}
	link->resolver = resolver;
	link->fd = fd;
	link->asker = asker;
	link->fence_id = known ? id.fence_id : 0;
	link->deadline_ms = resolver->now_ms + LINK_IDLE_MS;
	link->next = resolver->links;
	link->place = &resolver->links;
	if (link->next)
		link->next->place = &link->next;
	resolver->links = link;
	resolver->n_links++;
	*links += 1;
	event_assign(&link->event, resolver->base, fd, EV_READ | EV_PERSIST, on_link, link);
	event_add(&link->event, NULL);
	resolver_expect(resolver);
}

static void on_listener(evutil_socket_t fd, short what, void *context)
{
	struct listener *listener = context;

	(void)what;
	resolver_turn(listener->resolver);
	for (int i = 0; i < ACCEPTS; i++) {
		int accepted = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (accepted >= 0)
			link_open(listener->resolver, accepted);
		else if (errno != ECONNABORTED && errno != EINTR)
			break;
	}
}

void links_sweep(struct resolver *resolver, bool all, uint64_t now_ms)
{
	for (struct link *link = resolver->links, *next; link; link = next) {
		next = link->next;
		if (all || (!link->waits && link->deadline_ms <= now_ms) ||
		    (link->fence_id &&
		     !identity_alive(resolver->gateway->identity, link->fence_id)))
			link_free(link);
	}
}

struct listener *listener_open(struct resolver *resolver, int fd)
{
	struct listener *listener = calloc(1, sizeof(*listener));

	if (!listener) {
		close(fd);
		return NULL;
	}
	listener->resolver = resolver;
	listener->fd = fd;
	event_assign(&listener->event, resolver->base, fd, EV_READ | EV_PERSIST, on_listener,
		     listener);
	event_add(&listener->event, NULL);
	return listener;
}

void listener_close(struct listener *listener)
{
	if (!listener)
		return;
	event_del(&listener->event);
	close(listener->fd);
	free(listener);
}
