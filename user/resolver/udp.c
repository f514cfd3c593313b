// SPDX-License-Identifier: Apache-2.0
/* Datagrams: read and sent many at a time. See internal.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/gateway.h"
#include "resolver/internal.h"

#define BATCH 32
#define TURNS 4 /* batches before others have their turn */

struct udp {
	struct resolver *resolver;
	struct event event;
	int fd;
	size_t out; /* answers that wait for the end of the batch */
	bool inside;
	struct mmsghdr in_messages[BATCH], out_messages[BATCH];
	struct iovec in_vectors[BATCH], out_vectors[BATCH];
	struct sockaddr_storage in_from[BATCH], out_to[BATCH];
	uint8_t in_bytes[BATCH][MESSAGE_QUERY_MAX + 1], out_bytes[BATCH][MESSAGE_UDP_MAX];
};

/* What the kernel does not take is lost, as datagrams are. */
static void udp_flush(struct udp *udp)
{
	size_t at = 0;

	while (at < udp->out) {
		int sent = sendmmsg(udp->fd, udp->out_messages + at, (unsigned int)(udp->out - at),
				    MSG_DONTWAIT | MSG_NOSIGNAL);

		at += sent > 0 ? (size_t)sent : 1;
	}
	udp->out = 0;
}

void udp_send(struct resolver *resolver, const struct way *way, const uint8_t *p, size_t n)
{
	struct udp *udp = NULL;
	size_t i;

	for (i = 0; i < resolver->n; i++)
		if (resolver->udps[i] && resolver->udps[i]->fd == way->fd)
			udp = resolver->udps[i];
	if (!udp || !n || n > sizeof(udp->out_bytes[0]))
		return;
	i = udp->out++;
	memcpy(udp->out_bytes[i], p, n);
	memcpy(&udp->out_to[i], &way->to, way->to_n);
	udp->out_vectors[i] = (struct iovec){ udp->out_bytes[i], n };
	udp->out_messages[i].msg_hdr = (struct msghdr){
		.msg_name = &udp->out_to[i],
		.msg_namelen = way->to_n,
		.msg_iov = &udp->out_vectors[i],
		.msg_iovlen = 1,
	};
	if (!udp->inside || udp->out == BATCH)
		udp_flush(udp);
}

static void datagram_take(struct udp *udp, size_t i)
{
	static struct identity id; /* one thread */
	struct resolver *resolver = udp->resolver;
	const struct mmsghdr *message = &udp->in_messages[i];
	struct way way = { .fd = udp->fd, .to_n = message->msg_hdr.msg_namelen };
	size_t n = message->msg_len;
	bool known;

	if (n > MESSAGE_QUERY_MAX || way.to_n > sizeof(way.to))
		return;
	memcpy(&way.to, &udp->in_from[i], way.to_n);
	known = identity_of_datagram(resolver->gateway->identity, udp->in_bytes[i], n,
				     (const struct sockaddr *)&way.to, &id) == 0;
	ask_take(resolver, &way, known ? &id : NULL, udp->in_bytes[i], n);
}

static void on_udp(evutil_socket_t fd, short what, void *context)
{
	struct udp *udp = context;
	int n = BATCH;

	(void)what;
	resolver_turn(udp->resolver);
	udp->inside = true;
	for (int turn = 0; turn < TURNS && n == BATCH; turn++) {
		for (size_t i = 0; i < BATCH; i++)
			udp->in_messages[i].msg_hdr.msg_namelen = sizeof(udp->in_from[i]);
		n = recvmmsg(fd, udp->in_messages, BATCH, MSG_DONTWAIT, NULL);
		for (int i = 0; i < n; i++)
			datagram_take(udp, (size_t)i);
		udp_flush(udp);
	}
	udp->inside = false;
}

struct udp *udp_open(struct resolver *resolver, int fd)
{
	struct udp *udp = calloc(1, sizeof(*udp));

	if (!udp) {
		close(fd);
		return NULL;
	}
	udp->resolver = resolver;
	udp->fd = fd;
	for (size_t i = 0; i < BATCH; i++) {
		udp->in_vectors[i] = (struct iovec){ udp->in_bytes[i], sizeof(udp->in_bytes[i]) };
		udp->in_messages[i].msg_hdr = (struct msghdr){
			.msg_name = &udp->in_from[i],
			.msg_iov = &udp->in_vectors[i],
			.msg_iovlen = 1,
		};
	}
	event_assign(&udp->event, resolver->base, fd, EV_READ | EV_PERSIST, on_udp, udp);
	event_add(&udp->event, NULL);
	return udp;
}

void udp_close(struct udp *udp)
{
	if (!udp)
		return;
	event_del(&udp->event);
	close(udp->fd);
	free(udp);
}
