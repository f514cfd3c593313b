// SPDX-License-Identifier: Apache-2.0
/* See server.h: the parts of the server put together. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "gateway/conn.h"

#define OTHER_FILES 128 /* descriptors for all that is no connection */

/* Descriptors for all connections that the configuration allows. */
static int raise_files(const struct gwconf *conf, struct error *error)
{
	rlim_t want = (rlim_t)conf->connections + (rlim_t)conf->executors * 2 + OTHER_FILES;
	/*
	 * Each connection may be the proxy's, with a server at its other end and a pipe in either direction; if there is not that
	 * much, fewer will be.
	 */
	rlim_t wish = want + (rlim_t)conf->connections * 5;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	if (limit.rlim_cur >= wish)
		return 0;
	if (limit.rlim_max < want)
		return error_set(
			error, EMFILE,
			"limits.connections: %lld needs %llu descriptors, this process may have "
			"%llu; raise LimitNOFILE or lower it",
			conf->connections, (unsigned long long)want,
			(unsigned long long)limit.rlim_max);
	limit.rlim_cur = wish < limit.rlim_max ? wish : limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
}

int server_open(struct gateway *gateway, server_handle_fn *handle, struct server **ret_server,
		struct error *error)
{
	struct setup *setup = gateway_setup(gateway);
	struct server *server = calloc(1, sizeof(*server));
	int r;

	if (!server) {
		setup_unref(setup);
		return error_set(error, ENOMEM, "out of memory");
	}
	server->gateway = gateway;
	server->handle = handle;
	server->callers = callers_new();
	server->workers = calloc((size_t)setup->conf->workers, sizeof(*server->workers));
	r = server->workers && server->callers ? raise_files(setup->conf, error) : -ENOMEM;
	while (r == 0 && server->n_workers < (size_t)setup->conf->workers) {
		r = worker_open(server, &server->workers[server->n_workers]);
		if (r < 0)
			worker_close(&server->workers[server->n_workers]);
		else
			server->n_workers++;
	}
	if (r == 0)
		r = acceptor_open(server, setup->conf, &server->acceptor, error);
	setup_unref(setup);
	if (r == 0) {
		*ret_server = server;
		return 0;
	}
	error_set(error, -r, "cannot start: %s", strerror(-r));
	server_drain(server, 0);
	server_close(server);
	return r;
}

int server_reload(struct server *server, const struct gwconf *next, struct error *error)
{
	int r = raise_files(next, error);

	return r < 0 ? r : acceptor_reload(server->acceptor, next, error);
}

void server_revoke(struct server *server, enum ledger_revoke_by by, const char *value)
{
	struct cut cut = { .by = by };

	if (by == LEDGER_REVOKE_FENCE)
		cut.fence = strtoull(value, NULL, 10);
	else
		snprintf(cut.value, sizeof(cut.value), "%s", value);
	for (size_t i = 0; i < server->n_workers; i++)
		worker_cut(&server->workers[i], &cut);
}

/* Waits for a worker's thread until a time; true when it ended. */
static bool worker_join(struct worker *worker, const struct timespec *until)
{
	return pthread_timedjoin_np(worker->thread, NULL, until) == 0;
}

size_t server_drain(struct server *server, long long drain_ms)
{
	struct timespec until;
	size_t cut = 0;

	acceptor_close(TAKE_PTR(server->acceptor));
	for (size_t i = 0; i < server->n_workers; i++)
		worker_drain(&server->workers[i], false);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)(drain_ms / 1000);
	for (size_t i = 0; i < server->n_workers; i++) {
		struct worker *worker = &server->workers[i];

		if (worker_join(worker, &until))
			continue;
		cut++;
		worker_drain(worker, true);
		/* Work that waits for the ledger or an upstream comes back: both have time limits. */
		pthread_join(worker->thread, NULL);
	}
	return cut;
}

void server_close(struct server *server)
{
	if (!server)
		return;
	for (size_t i = 0; i < server->n_workers; i++)
		worker_close(&server->workers[i]);
	free(server->workers);
	callers_free(server->callers);
	free(server);
}

void server_tell(struct server *server, bool all, callers_told_fn *told, void *context)
{
	int64_t now_ms = (int64_t)server_now_ms();
	unsigned int refused = 0;

	callers_tell(server->callers, all, told, context);
	if (all || !server->unknown_told_ms ||
	    now_ms - server->unknown_told_ms >= CALLERS_TELL_S * 1000)
		refused = atomic_exchange(&server->unknown.refused, 0);
	if (!refused)
		return;
	server->unknown_told_ms = now_ms;
	told(context, NULL, refused);
}

void server_count(const struct server *server, struct server_counts *ret_counts)
{
	*ret_counts = (struct server_counts){
		.accepted = atomic_load(&server->accepted),
		.refused = atomic_load(&server->refused),
		.requests = atomic_load(&server->requests),
		.malformed = atomic_load(&server->malformed),
		.timeouts = atomic_load(&server->timeouts),
		.open = atomic_load(&server->open),
	};
}
