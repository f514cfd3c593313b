// SPDX-License-Identifier: Apache-2.0
/*
 * The socket and its threads. One thread accepts; each connection has one of its own, bounded in number and in time.
 * Whatever is wrong with a peer or a request is answered with an error and changes nothing.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "admin/internal.h"
#include "control/control.h"

struct admin {
	struct admin_options options;
	const char *path; /* borrowed */
	int fd, stop_fd;
	bool started;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t idle;
	unsigned int n_sessions;
};

struct job {
	struct admin *admin;
	int fd;
};

/* --- what is written ------------------------------------------------------------------------------------------ */

static void line_write(struct session *s, json_t *root)
{
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	size_t size;

	json_decref(root);
	if (!text && !s->err)
		s->err = -ENOMEM;
	if (!s->err) {
		size = strlen(text);
		text[size] = '\n'; /* in the place of the NUL */
		s->err = control_send(s->fd, text, size + 1);
	}
	free(text);
}

int session_row(struct session *s, json_t *root)
{
	line_write(s, json_pack("{s:o}", "row", root));
	return s->err;
}

void session_ok(struct session *s, json_t *fields)
{
	json_t *root = json_pack("{s:s}", "status", "ok");

	if (fields) {
		json_object_update_missing(root, fields);
		json_decref(fields);
	}
	line_write(s, root);
}

void session_error(struct session *s, const char *code, const char *reason)
{
	line_write(s, json_pack("{s:s,s:s}", "error", code, "reason", reason));
}

/* --- a connection --------------------------------------------------------------------------------------------- */

/* Reads up to a newline. Bytes of the line, 0 at the end, -errno. */
static ssize_t line_read(int fd, char *line, size_t size, size_t *have)
{
	for (;;) {
		char *newline = memchr(line, '\n', *have);
		ssize_t n;

		if (newline)
			return newline - line + 1;
		if (*have == size)
			return -E2BIG;
		n = recv(fd, line + *have, size - *have, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		*have += (size_t)n;
	}
}

/* Whoever is refused here is no fence, or it is one where none should be: both are worth an event. */
static void refusal_report(struct session *s, const struct identity *fence, const char *action,
			   const char *reason)
{
	const struct report_row row = {
		.op = CORDON_OP_APPROVAL,
		.code = LEDGER_UNAUTHENTICATED,
		.caller = fence,
		.reason = reason,
		.gateway = { .action = action,
			     .by = s->role.name,
			     .upstream_status = -1,
			     .latency_us = -1 },
	};

	report_write(s->admin->report, &row);
}

static void role_refuse(struct session *s, const struct admin_request *r)
{
	refusal_report(s, NULL, admin_verb_name(r->verb), "not permitted");
	session_error(s, "not_permitted",
		      admin_verb_need(r->verb) & ADMIN_APPROVER
			      ? "needs an approver: group cordon-approvers"
			      : "needs an admin: group cordon-admins");
}

static void request_serve(struct session *s, const char *line, size_t size)
{
	struct error error = { "" };
	struct admin_request *r = malloc(sizeof(*r));

	if (!r) {
		session_error(s, "unavailable", "out of memory");
		return;
	}
	if (admin_request_parse(line, size, r, &error))
		session_error(s, "invalid_request", error.text);
	else if (!(s->role.may & admin_verb_need(r->verb)))
		role_refuse(s, r);
	else
		session_answer(s, r);
	free(r);
}

static void session_run(struct session *s)
{
	char line[ADMIN_REQUEST_MAX];
	size_t have = 0;
	struct identity *fence = malloc(sizeof(*fence));
	int err = admin_role_of_peer(s->fd, &s->role);

	if (!fence) {
		session_error(s, "unavailable", "out of memory");
		return;
	}
	if (!identity_of_connection(s->admin->identity, s->fd, fence)) {
		refusal_report(s, fence, "connect", "a fence on the admin socket");
		session_error(s, "not_permitted", "a process of a fence administers nothing");
		free(fence);
		return;
	}
	free(fence);
	if (err) {
		refusal_report(s, NULL, "connect", "no role");
		session_error(s, "not_permitted",
			      "needs root, or one of the groups cordon-admins, cordon-approvers, "
			      "cordon-approvers-TENANT");
		return;
	}
	while (!s->err) {
		ssize_t n = line_read(s->fd, line, sizeof(line), &have);

		if (n == -E2BIG)
			session_error(s, "invalid_request", "the request is too long");
		if (n <= 0)
			return;
		request_serve(s, line, (size_t)n);
		have -= (size_t)n;
		memmove(line, line + n, have);
	}
}

static void *session_thread(void *data)
{
	struct job *job = data;
	struct admin *admin = job->admin;
	const struct timeval timeout = { .tv_sec = ADMIN_IDLE_S };
	struct session s = { .admin = &admin->options, .fd = job->fd };

	free(job);
	setsockopt(s.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(s.fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	session_run(&s);
	close(s.fd);
	pthread_mutex_lock(&admin->lock);
	admin->n_sessions--;
	pthread_cond_broadcast(&admin->idle);
	pthread_mutex_unlock(&admin->lock);
	return NULL;
}

/* --- the socket ------------------------------------------------------------------------------------------------ */

static void session_start(struct admin *admin, int fd)
{
	struct job *job = malloc(sizeof(*job));
	pthread_attr_t attr;
	pthread_t thread;
	bool started;

	pthread_mutex_lock(&admin->lock);
	started = job && admin->n_sessions < ADMIN_CONNECTIONS_MAX;
	admin->n_sessions += started;
	pthread_mutex_unlock(&admin->lock);
	if (!started) {
		free(job);
		close(fd);
		return;
	}
	*job = (struct job){ admin, fd };
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, session_thread, job)) {
		free(job);
		close(fd);
		pthread_mutex_lock(&admin->lock);
		admin->n_sessions--;
		pthread_mutex_unlock(&admin->lock);
	}
	pthread_attr_destroy(&attr);
}

static void *accept_thread(void *data)
{
	struct admin *admin = data;
	struct pollfd fds[] = {
		{ .fd = admin->fd, .events = POLLIN },
		{ .fd = admin->stop_fd, .events = POLLIN },
	};

	while (!fds[1].revents) {
		int fd;

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 || !fds[0].revents)
			continue;
		fd = accept4(admin->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			session_start(admin, fd);
		else if (errno == EMFILE || errno == ENFILE)
			poll(NULL, 0, 50);
	}
	return NULL;
}

int admin_open(const struct admin_options *options, struct admin **ret_admin, struct error *error)
{
	struct admin *admin = calloc(1, sizeof(*admin));
	int err;

	if (!admin)
		return error_set(error, ENOMEM, "out of memory");
	admin->options = *options;
	admin->fd = -1;
	pthread_mutex_init(&admin->lock, NULL);
	pthread_cond_init(&admin->idle, NULL);
	admin->path = options->path ? options->path : ADMIN_SOCKET;
	admin->stop_fd = eventfd(0, EFD_CLOEXEC);
	err = admin->stop_fd < 0 ? error_set(error, errno, "eventfd: %s", strerror(errno)) : 0;
	if (!err) {
		admin->fd = control_listen("admin", admin->path, SOCK_STREAM, error);
		err = admin->fd < 0 ? admin->fd : 0;
	}
	if (!err) {
		err = -pthread_create(&admin->thread, NULL, accept_thread, admin);
		admin->started = !err;
		if (err)
			error_set(error, -err, "admin: cannot start a thread: %s", strerror(-err));
	}
	if (err) {
		admin_close(admin);
		return err;
	}
	*ret_admin = admin;
	return 0;
}

void admin_close(struct admin *admin)
{
	if (!admin)
		return;
	if (admin->started) {
		(void)!write(admin->stop_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
		pthread_join(admin->thread, NULL);
	}
	pthread_mutex_lock(&admin->lock);
	while (admin->n_sessions)
		pthread_cond_wait(&admin->idle, &admin->lock);
	pthread_mutex_unlock(&admin->lock);
	if (admin->fd >= 0) {
		unlink(admin->path);
		close(admin->fd);
	}
	if (admin->stop_fd >= 0)
		close(admin->stop_fd);
	pthread_cond_destroy(&admin->idle);
	pthread_mutex_destroy(&admin->lock);
	free(admin);
}
