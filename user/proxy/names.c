// SPDX-License-Identifier: Apache-2.0
/*
 * See names.h. c-ares says which descriptors it waits for, and until when; each is an event of the worker's. A look-up
 * cannot be taken back from it, so one that is forgotten lives on until c-ares is done with it, which its own times bound.
 */
#include "proxy/names.h"

#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event_struct.h>

#define TRY_MS 2000
#define TRIES 3

struct watch {
	struct watch *next;
	struct names *names;
	struct event event;
	int fd;
};

struct names {
	struct event_base *base;
	ares_channel channel;
	struct event timer;
	struct watch *watches;
	size_t outstanding;
	bool closing;
	bool inside; /* c-ares is at work: it is not destroyed under it */
};

struct lookup {
	struct names *names;
	names_fn *fn; /* NULL: forgotten */
	void *context;
	struct lookup **owner; /* set to NULL when fn() is called */
};

static void names_settle(struct names *names);

/* --- descriptors and time --------------------------------------------------------------------- */

static void on_watch(evutil_socket_t fd, short what, void *context)
{
	struct names *names = ((struct watch *)context)->names;

	names->inside = true;
	ares_process_fd(names->channel, what & EV_READ ? fd : ARES_SOCKET_BAD,
			what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	names->inside = false;
	names_settle(names);
}

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	struct names *names = context;

	(void)fd;
	(void)what;
	names->inside = true;
	ares_process_fd(names->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	names->inside = false;
	names_settle(names);
}

static struct watch **watch_find(struct names *names, int fd)
{
	struct watch **place = &names->watches;

	while (*place && (*place)->fd != fd)
		place = &(*place)->next;
	return place;
}

static void on_state(void *context, ares_socket_t fd, int readable, int writable)
{
	struct names *names = context;
	struct watch **place = watch_find(names, fd), *watch = *place;

	if (watch)
		event_del(&watch->event);
	if (watch && !readable && !writable) {
		*place = watch->next;
		free(watch);
		return;
	}
	if (!readable && !writable)
		return;
	if (!watch) {
		watch = calloc(1, sizeof(*watch));
		if (!watch)
			return; /* its time runs out instead */
		watch->names = names;
		watch->fd = fd;
		watch->next = names->watches;
		names->watches = watch;
	}
	event_assign(&watch->event, names->base, fd,
		     (short)(EV_PERSIST | (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0)),
		     on_watch, watch);
	event_add(&watch->event, NULL);
}

static void names_free(struct names *names)
{
	struct watch *next;

	if (names->channel)
		ares_destroy(names->channel);
	for (struct watch *watch = names->watches; watch; watch = next) {
		next = watch->next;
		event_del(&watch->event);
		free(watch);
	}
	event_del(&names->timer);
	free(names);
}

/* After c-ares did something: when it wants to be called again, or whether this was the last. */
static void names_settle(struct names *names)
{
	struct timeval tv;

	if (names->closing && !names->outstanding) {
		names_free(names);
		return;
	}
	if (ares_timeout(names->channel, NULL, &tv))
		event_add(&names->timer, &tv);
	else
		event_del(&names->timer);
}

/* --- look-ups --------------------------------------------------------------------------------- */

static size_t addresses_take(const struct ares_addrinfo *info,
			     struct cordon_addr addresses[NAMES_ADDRESSES_MAX])
{
	size_t n = 0;

	for (const struct ares_addrinfo_node *node = info->nodes; node && n < NAMES_ADDRESSES_MAX;
	     node = node->ai_next) {
		struct cordon_addr *addr = &addresses[n];

		memset(addr, 0, sizeof(*addr));
		if (node->ai_family == AF_INET) {
			memcpy(addr->b + 12, &((struct sockaddr_in *)node->ai_addr)->sin_addr, 4);
		} else if (node->ai_family == AF_INET6) {
			addr->v6 = 1; /* also a mapped one: it is judged as what it is */
			memcpy(addr->b, &((struct sockaddr_in6 *)node->ai_addr)->sin6_addr, 16);
		} else {
			continue;
		}
		n++;
	}
	return n;
}

static void on_answer(void *context, int status, int timeouts, struct ares_addrinfo *info)
{
	struct cordon_addr addresses[NAMES_ADDRESSES_MAX];
	struct lookup *lookup = context;
	size_t n = 0;

	(void)timeouts;
	lookup->names->outstanding--;
	if (status == ARES_SUCCESS && info)
		n = addresses_take(info, addresses);
	if (info)
		ares_freeaddrinfo(info);
	if (lookup->fn) {
		*lookup->owner = NULL;
		lookup->fn(lookup->context, addresses, n);
	}
	free(lookup);
}

bool names_ask(struct names *names, const struct reach_name *name, names_fn *fn, void *context,
	       struct lookup **ret_lookup)
{
	const struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC,
						   .ai_socktype = SOCK_STREAM };
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	*ret_lookup = lookup;
	if (!lookup)
		return false;
	*lookup = (struct lookup){
		.names = names, .fn = fn, .context = context, .owner = ret_lookup
	};
	names->outstanding++;
	names->inside = true;
	ares_getaddrinfo(names->channel, name->s, NULL, &hints, on_answer, lookup);
	names->inside = false;
	names_settle(names);
	return true;
}

void lookup_forget(struct lookup *lookup)
{
	if (lookup)
		lookup->fn = NULL;
}

/* --- the whole -------------------------------------------------------------------------------- */

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_status;

static void library_init(void)
{
	library_status = ares_library_init(ARES_LIB_INIT_ALL);
}

struct names *names_open(struct event_base *base, const char *servers)
{
	struct names *names = calloc(1, sizeof(*names));
	struct ares_options options = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = TRY_MS,
		.tries = TRIES,
		.sock_state_cb = on_state,
		.sock_state_cb_data = names,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;

#ifdef ARES_OPT_QUERY_CACHE /* on by itself where the library has one */
	mask |= ARES_OPT_QUERY_CACHE;
#endif
	pthread_once(&library_once, library_init);
	if (!names || library_status) {
		free(names);
		return NULL;
	}
	names->base = base;
	event_assign(&names->timer, base, -1, 0, on_timer, names);
	if (ares_init_options(&names->channel, &options, mask) ||
	    (servers && ares_set_servers_ports_csv(names->channel, servers))) {
		names_free(names);
		return NULL;
	}
	return names;
}

void names_close(struct names *names, bool now)
{
	if (!names)
		return;
	names->closing = true;
	if (now || (!names->outstanding && !names->inside))
		names_free(names);
}
