// SPDX-License-Identifier: Apache-2.0
/*
 * The acceptor: listening sockets, who made each connection, and the limits of how many there are. A
 * caller that is no fence still gets a connection, and 401 on it; no caller may hold more than a share of
 * all. When a fence ends, every worker is told.
 */
#include "admin/tokens.h"
#include "gateway/conn.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "gateway/listen.h"

#define ACCEPT_BATCH 64
#define SHARE 4 /* one caller may hold a quarter of all connections */
#define PAUSE_MS 100

struct listener {
	struct acceptor *acceptor;
	struct gwconf_listen address; /* its texts are owned */
	int fd;
	struct event event;
};

struct acceptor {
	pthread_t thread;
	bool started;
	struct server *server;
	struct event_base *base;
	struct event identity, wake, pause;
	int wake_fd;
	pthread_mutex_t
		mutex; /* of listeners: the main thread changes them while the acceptor is in it */
	struct listener *listeners[GWCONF_LISTEN_MAX * 2];
	size_t n_listeners;
	atomic_bool ends;
	size_t turn; /* the worker that is next */
};

/* --- who -------------------------------------------------------------------------------------- */

static void on_fence_ended(void *context, uint64_t fence)
{
	const struct cut cut = { .ended = true, .by = LEDGER_REVOKE_FENCE, .fence = fence };
	struct acceptor *acceptor = context;

	callers_fence_ended(acceptor->server->callers, fence);
	tokens_fence_ended(acceptor->server->gateway->tokens, fence);
	for (size_t i = 0; i < acceptor->server->n_workers; i++)
		worker_cut(&acceptor->server->workers[i], &cut);
}

static void on_identity(evutil_socket_t fd, short what, void *context)
{
	struct acceptor *acceptor = context;

	(void)fd;
	(void)what;
	identity_poll(acceptor->server->gateway->identity, on_fence_ended, acceptor);
}

/* --- accepting -------------------------------------------------------------------------------- */

static void take(struct acceptor *acceptor, int fd, const struct gwconf *conf)
{
	struct server *server = acceptor->server;
	unsigned int max = (unsigned int)conf->connections, share = max / SHARE;
	const int on = 1;
	struct identity id;
	struct caller *caller = NULL;
	struct conn *conn;

	if (atomic_load(&server->open) >= max) {
		atomic_fetch_add(&server->refused, 1);
		close(fd);
		return;
	}
	memset(&id, 0, sizeof(id));
	if (identity_of_connection(server->gateway->identity, fd, &id) == 0) {
		caller = callers_find(server->callers, &id);
		if (!caller) {
			close(fd);
			return;
		}
	}
	if (atomic_load(&(caller ? caller->share : &server->unknown)->connections) >= share) {
		atomic_fetch_add(&server->refused, 1);
		caller_unref(caller);
		close(fd);
		return;
	}
	/* Fails on unix sockets, where there is nothing to delay. */
	setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof(on));
	atomic_fetch_add(&server->accepted, 1);
	conn = conn_new(server, fd, caller);
	if (conn)
		worker_give_conn(&server->workers[acceptor->turn++ % server->n_workers], conn);
}

static void on_pause_end(evutil_socket_t fd, short what, void *context)
{
	struct acceptor *acceptor = context;

	(void)fd;
	(void)what;
	pthread_mutex_lock(&acceptor->mutex);
	for (size_t i = 0; i < acceptor->n_listeners; i++)
		if (event_initialized(&acceptor->listeners[i]->event))
			event_add(&acceptor->listeners[i]->event, NULL);
	pthread_mutex_unlock(&acceptor->mutex);
}

/* Descriptors or memory have run out: wait, instead of asking again and again. */
static void pause_all(struct acceptor *acceptor)
{
	const struct timeval tv = { .tv_usec = PAUSE_MS * 1000 };

	pthread_mutex_lock(&acceptor->mutex);
	for (size_t i = 0; i < acceptor->n_listeners; i++)
		if (event_initialized(&acceptor->listeners[i]->event))
			event_del(&acceptor->listeners[i]->event);
	pthread_mutex_unlock(&acceptor->mutex);
	event_add(&acceptor->pause, &tv);
}

static void on_listener(evutil_socket_t fd, short what, void *context)
{
	struct acceptor *acceptor = context;
	struct setup *setup = gateway_setup(acceptor->server->gateway);
	int accepted;

	(void)what;
	for (unsigned int i = 0; i < ACCEPT_BATCH; i++) {
		accepted = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (accepted >= 0) {
			take(acceptor, accepted, setup->conf);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_all(acceptor);
		if (errno != ECONNABORTED && errno != EINTR)
			break;
	}
	setup_unref(setup);
}

/* --- listeners -------------------------------------------------------------------------------- */

static void listener_free(struct listener *listener)
{
	listen_close(listener->fd, &listener->address);
	free(listener->address.text);
	free(listener->address.socket);
	free(listener);
}

static int listener_open(struct acceptor *acceptor, const struct gwconf_listen *address,
			 struct listener **ret_listener, struct error *error)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	int fd;

	if (!listener)
		return error_set(error, ENOMEM, "out of memory");
	fd = listen_open(address, error);
	if (fd < 0) {
		free(listener);
		return fd;
	}
	listener->acceptor = acceptor;
	listener->fd = fd;
	listener->address = *address;
	listener->address.text = strdup(address->text);
	listener->address.socket = address->socket ? strdup(address->socket) : NULL;
	if (!listener->address.text || (address->socket && !listener->address.socket)) {
		listener_free(listener);
		return error_set(error, ENOMEM, "out of memory");
	}
	*ret_listener = listener;
	return 0;
}

static bool conf_has_address(const struct gwconf *conf, const char *text)
{
	for (size_t i = 0; i < conf->n_listen; i++)
		if (!strcmp(conf->listen[i].text, text))
			return true;
	return false;
}

static bool acceptor_has_address(const struct acceptor *acceptor, const char *text)
{
	for (size_t i = 0; i < acceptor->n_listeners; i++)
		if (!strcmp(acceptor->listeners[i]->address.text, text))
			return true;
	return false;
}

/* With the mutex held: opens what is new. On failure nothing has changed. */
static int listeners_add(struct acceptor *acceptor, const struct gwconf *next, struct error *error)
{
	size_t before = acceptor->n_listeners;
	int r = 0;

	for (size_t i = 0; r == 0 && i < next->n_listen; i++) {
		if (acceptor_has_address(acceptor, next->listen[i].text))
			continue;
		if (acceptor->n_listeners == ARRAY_SIZE(acceptor->listeners))
			r = error_set(error, EAGAIN, "a reload is still under way; try again");
		else
			r = listener_open(acceptor, &next->listen[i],
					  &acceptor->listeners[acceptor->n_listeners], error);
		acceptor->n_listeners += r == 0;
	}
	while (r < 0 && acceptor->n_listeners > before)
		listener_free(acceptor->listeners[--acceptor->n_listeners]);
	return r;
}

/*
 * The event base belongs to the acceptor's thread, so the sockets are opened here and watched there: by
 * on_wake(), to which the mailbox is the list of listeners itself.
 */
int acceptor_reload(struct acceptor *acceptor, const struct gwconf *next, struct error *error)
{
	const uint64_t one = 1;
	int r;

	pthread_mutex_lock(&acceptor->mutex);
	r = listeners_add(acceptor, next, error);
	/* Without an acceptor: to go. One that was to go and is wanted again stays. */
	for (size_t i = 0; r == 0 && i < acceptor->n_listeners; i++)
		acceptor->listeners[i]->acceptor =
			conf_has_address(next, acceptor->listeners[i]->address.text) ? acceptor
										     : NULL;
	pthread_mutex_unlock(&acceptor->mutex);
	while (r == 0 && write(acceptor->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	return r;
}

/* Watches what is new, ends what is to go. */
static void listeners_settle(struct acceptor *acceptor)
{
	size_t kept = 0;

	for (size_t i = 0; i < acceptor->n_listeners; i++) {
		struct listener *listener = acceptor->listeners[i];
		bool watched = event_initialized(&listener->event);

		if (!listener->acceptor) {
			if (watched)
				event_del(&listener->event);
			listener_free(listener);
			continue;
		}
		if (!watched) {
			event_assign(&listener->event, acceptor->base, listener->fd,
				     EV_READ | EV_PERSIST, on_listener, acceptor);
			event_add(&listener->event, NULL);
		}
		acceptor->listeners[kept++] = listener;
	}
	acceptor->n_listeners = kept;
}

static void on_wake(evutil_socket_t fd, short what, void *context)
{
	struct acceptor *acceptor = context;
	uint64_t rings;

	(void)what;
	if (read(fd, &rings, sizeof(rings)) < 0)
		return;
	pthread_mutex_lock(&acceptor->mutex);
	listeners_settle(acceptor);
	pthread_mutex_unlock(&acceptor->mutex);
}

/* --- the thread ------------------------------------------------------------------------------- */

static void *acceptor_run(void *context)
{
	struct acceptor *acceptor = context;

	while (!atomic_load(&acceptor->ends))
		if (event_base_loop(acceptor->base, EVLOOP_ONCE) < 0)
			break;
	return NULL;
}

void acceptor_close(struct acceptor *acceptor)
{
	const uint64_t one = 1;

	if (!acceptor)
		return;
	atomic_store(&acceptor->ends, true);
	while (write(acceptor->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	if (acceptor->started)
		pthread_join(acceptor->thread, NULL);
	for (size_t i = 0; i < acceptor->n_listeners; i++) {
		if (event_initialized(&acceptor->listeners[i]->event))
			event_del(&acceptor->listeners[i]->event);
		listener_free(acceptor->listeners[i]);
	}
	if (acceptor->base) {
		event_del(&acceptor->identity);
		event_del(&acceptor->wake);
		event_del(&acceptor->pause);
		event_base_free(acceptor->base);
	}
	if (acceptor->wake_fd >= 0)
		close(acceptor->wake_fd);
	pthread_mutex_destroy(&acceptor->mutex);
	free(acceptor);
}

static int acceptor_start(struct acceptor *acceptor)
{
	int identity = identity_fd(acceptor->server->gateway->identity), r;

	event_assign(&acceptor->wake, acceptor->base, acceptor->wake_fd, EV_READ | EV_PERSIST,
		     on_wake, acceptor);
	event_assign(&acceptor->pause, acceptor->base, -1, 0, on_pause_end, acceptor);
	event_assign(&acceptor->identity, acceptor->base, identity, EV_READ | EV_PERSIST,
		     on_identity, acceptor);
	event_add(&acceptor->wake, NULL);
	event_add(&acceptor->identity, NULL);
	r = -pthread_create(&acceptor->thread, NULL, acceptor_run, acceptor);
	acceptor->started = r == 0;
	return r;
}

int acceptor_open(struct server *server, const struct gwconf *conf, struct acceptor **ret_acceptor,
		  struct error *error)
{
	struct acceptor *acceptor = calloc(1, sizeof(*acceptor));
	int r;

	if (!acceptor)
		return error_set(error, ENOMEM, "out of memory");
	acceptor->server = server;
	pthread_mutex_init(&acceptor->mutex, NULL);
	acceptor->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	acceptor->base = acceptor->wake_fd >= 0 ? event_base_new() : NULL;
	r = acceptor->base ? acceptor_start(acceptor) : -ENOMEM;
	if (r < 0)
		error_set(error, -r, "cannot start a thread: %s", strerror(-r));
	else
		r = acceptor_reload(acceptor, conf, error);
	if (r < 0)
		acceptor_close(acceptor);
	else
		*ret_acceptor = acceptor;
	return r;
}
