// SPDX-License-Identifier: Apache-2.0
/* The resolver as a whole: its thread, its sockets, its times. See resolver.h. */
#include "resolver/resolver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "gateway/gateway.h"
#include "gateway/listen.h"
#include "proxy/own.h"
#include "resolver/internal.h"

void resolver_clock(struct resolver *resolver)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	resolver->now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Another configuration may name other servers, and /etc/resolv.conf is read again. */
static void setup_renew(struct resolver *resolver, unsigned int generation)
{
	struct error error = { "" };

	upstream_close(TAKE_PTR(resolver->upstream));
	asks_sweep(resolver, true, resolver->now_ms);
	setup_unref(resolver->setup);
	resolver->setup = gateway_setup(resolver->gateway);
	resolver->generation = generation;
	if (upstream_open(resolver->base, resolver->setup->conf->nameservers, &resolver->upstream,
			  &error) < 0)
		fprintf(stderr, "cordon-gateway: the resolver asks nobody: %s\n", error.text);
}

void resolver_turn(struct resolver *resolver)
{
	unsigned int generation = atomic_load(&resolver->gateway->generation);

	resolver_clock(resolver);
	if (generation != resolver->generation)
		setup_renew(resolver, generation);
}

void resolver_expect(struct resolver *resolver)
{
	const struct timeval tv = { .tv_usec = TICK_MS * 1000 };

	if (!event_pending(&resolver->tick, EV_TIMEOUT, NULL))
		event_add(&resolver->tick, &tv);
}

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct resolver *resolver = context;

	(void)fd;
	(void)what;
	resolver_turn(resolver);
	asks_sweep(resolver, false, resolver->now_ms);
	links_sweep(resolver, false, resolver->now_ms);
	if (askers_sweep(resolver->askers, resolver->gateway->report, resolver->gateway->identity,
			 false, resolver->now_ms) ||
	    resolver->asks || resolver->links)
		resolver_expect(resolver);
}

static void on_wake(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(((struct resolver *)context)->base);
}

void way_answer(struct resolver *resolver, const struct way *way, const uint8_t *p, size_t n)
{
	if (way->link)
		link_answer(way->link, p, n);
	else if (way->fd >= 0)
		udp_send(resolver, way, p, n);
}

/* --- opening and closing ---------------------------------------------------------------------- */

static int sockets_open(struct resolver *resolver, const struct gwconf *conf, struct error *error)
{
	for (size_t i = 0; i < conf->n_dns; i++) {
		int fd = listen_open(&conf->dns[i], error);

		if (fd < 0)
			return fd;
		resolver->listeners[i] = listener_open(resolver, fd);
		fd = listen_open_datagrams(&conf->dns[i], error);
		if (fd < 0)
			return fd;
		resolver->udps[i] = udp_open(resolver, fd);
		resolver->n = i + 1;
		if (!resolver->listeners[i] || !resolver->udps[i])
			return error_set(error, ENOMEM, "out of memory");
	}
	return 0;
}

static void *resolver_run(void *context)
{
	struct resolver *resolver = context;

	event_base_dispatch(resolver->base);
	return NULL;
}

void resolver_close(struct resolver *resolver)
{
	const uint64_t one = 1;

	if (!resolver)
		return;
	while (resolver->started && write(resolver->wake_fd, &one, sizeof(one)) < 0 &&
	       errno == EINTR)
		;
	if (resolver->started)
		pthread_join(resolver->thread, NULL);
	resolver_clock(resolver);
	upstream_close(TAKE_PTR(resolver->upstream));
	asks_sweep(resolver, true, resolver->now_ms);
	links_sweep(resolver, true, resolver->now_ms);
	if (resolver->askers)
		askers_sweep(resolver->askers, resolver->gateway->report,
			     resolver->gateway->identity, true, resolver->now_ms);
	for (size_t i = 0; i < ARRAY_SIZE(resolver->udps); i++) {
		udp_close(resolver->udps[i]);
		listener_close(resolver->listeners[i]);
	}
	if (resolver->base) {
		event_del(&resolver->wake);
		event_del(&resolver->tick);
		event_base_free(resolver->base);
	}
	askers_free(resolver->askers);
	cache_free(resolver->cache);
	if (resolver->wake_fd >= 0)
		close(resolver->wake_fd);
	if (resolver->own_fd >= 0)
		close(resolver->own_fd);
	setup_unref(resolver->setup);
	free(resolver);
}

static int resolver_start(struct resolver *resolver, struct error *error)
{
	int r;

	resolver->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	resolver->own_fd = own_open();
	resolver->cache = cache_new();
	resolver->askers = askers_new();
	resolver->base = event_base_new();
	if (resolver->wake_fd < 0 || resolver->own_fd < 0 || !resolver->cache ||
	    !resolver->askers || !resolver->base)
		return error_set(error, ENOMEM, "the resolver: out of memory or descriptors");
	event_assign(&resolver->wake, resolver->base, resolver->wake_fd, EV_READ | EV_PERSIST,
		     on_wake, resolver);
	event_assign(&resolver->tick, resolver->base, -1, 0, on_tick, resolver);
	event_add(&resolver->wake, NULL);
	r = upstream_open(resolver->base, resolver->setup->conf->nameservers, &resolver->upstream,
			  error);
	if (r == 0)
		r = sockets_open(resolver, resolver->setup->conf, error);
	if (r < 0)
		return r;
	r = -pthread_create(&resolver->thread, NULL, resolver_run, resolver);
	resolver->started = r == 0;
	return r < 0 ? error_set(error, -r, "cannot start a thread: %s", strerror(-r)) : 0;
}

int resolver_open(struct gateway *gateway, struct resolver **ret_resolver, struct error *error)
{
	unsigned int generation = atomic_load(&gateway->generation);
	struct setup *setup = gateway_setup(gateway);
	struct resolver *resolver;
	int r;

	*ret_resolver = NULL;
	if (!setup->conf->n_dns) {
		setup_unref(setup);
		return 0;
	}
	resolver = calloc(1, sizeof(*resolver));
	if (!resolver) {
		setup_unref(setup);
		return error_set(error, ENOMEM, "out of memory");
	}
	resolver->gateway = gateway;
	resolver->setup = setup;
	resolver->generation = generation;
	resolver->wake_fd = resolver->own_fd = -1;
	r = resolver_start(resolver, error);
	if (r < 0)
		resolver_close(resolver);
	else
		*ret_resolver = resolver;
	return r;
}
