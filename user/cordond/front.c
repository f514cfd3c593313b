// SPDX-License-Identifier: Apache-2.0
/*
 * The front: control socket, policies' texts, events and their readers. Runs as a user of its own, without capabilities,
 * behind a filter of system calls; ends when the keeper does. What it gets wrong costs events, never enforcement. It is
 * one loop: 50 times a second, and whenever something is ready, it reads all rings and writes to all readers.
 */
#include "cordond/front.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "conf/file.h"
#include "cordond/jail.h"

/* Records wait for a reader that looks by itself, but where many wait: while there are some, it looks often. */
enum {
	POLL_MS = 20,
	BUSY_MS = 2,
	TICK_MS = 1000,
	EVENTS = 64,
	MESSAGES_A_TURN = 256,
	SINKS_MS = 3000
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

uint64_t front_now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

int front_watch(struct front *front, int fd, struct front_source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	if (!epoll_ctl(front->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return 0;
	if (errno != EEXIST)
		return -errno;
	return epoll_ctl(front->epoll_fd, EPOLL_CTL_MOD, fd, &event) ? -errno : 0;
}

static void front_end(struct front *front, int code)
{
	front->stopping = true;
	front->code = code;
}

int front_ask(struct front *front, enum wire_type type, uint32_t serial,
	      union wire_message *message, const int *fds)
{
	int err = wire_send(front->keeper_fd, type, serial, message, fds);

	if (err && err != -EAGAIN)
		front_end(front, EXIT_FOUND);
	return err;
}

/* --- configuration ---------------------------------------------------------------------------- */

static int text_read(int fd, char **ret_text, size_t *ret_length)
{
	char *text = malloc(CONF_TEXT_MAX + 1);
	size_t have = 0;
	ssize_t n = 1;

	if (!text)
		return -ENOMEM;
	while (have <= CONF_TEXT_MAX && n > 0) {
		n = pread(fd, text + have, CONF_TEXT_MAX + 1 - have, (off_t)have);
		if (n > 0)
			have += (size_t)n;
	}
	if (n < 0) {
		free(text);
		return -errno;
	}
	*ret_text = text;
	*ret_length = have;
	return 0;
}

static int settings_load(int fd, const char *name, struct settings *ret_settings)
{
	static struct conf_faults faults;
	_cleanup_free_ char *text = NULL;
	size_t length = 0;
	int err = text_read(fd, &text, &length);

	memset(&faults, 0, sizeof(faults));
	if (!err)
		err = settings_read(text, length, ret_settings, &faults);
	if (err == -EINVAL)
		conf_faults_print(&faults, name, stderr);
	else if (err)
		cordond_say("%s: %s", name, strerror(-err));
	conf_faults_clear(&faults);
	return err;
}

int front_check(const char *path)
{
	struct settings settings = { .operators = NULL };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err;

	if (fd < 0) {
		cordond_say("%s: %s", path, strerror(errno));
		return EXIT_FOUND;
	}
	err = settings_load(fd, path, &settings);
	close(fd);
	settings_clear(&settings);
	return err == -EINVAL ? EXIT_POLICY : err ? EXIT_FOUND : EXIT_OK;
}

/* Sinks that cannot be had leave those that there are. */
static int sinks_use(struct front *front, const struct settings *settings)
{
	struct error error = { "" };
	int err = 0;

	if (front->sinks)
		err = sinks_reload(front->sinks, &settings->sinks, SINKS_MS, &error);
	else if (settings->sinks.n)
		err = sinks_open(&settings->sinks, front->node, &front->sinks, &error);
	if (err)
		cordond_say("%s", error.text);
	return err;
}

/* Other limits begin to count anew. */
static void alerts_use(struct front *front, const struct settings *before)
{
	const struct settings *now = &front->settings;
	const struct alert_limits limits = {
		.denials = (uint64_t)now->alert_denials,
		.denials_window_ns = (uint64_t)now->alert_window_ms * 1000000,
		.calls = (uint64_t)now->alert_calls,
		.calls_window_ns = (uint64_t)now->alert_calls_window_ms * 1000000,
		.quiet_ns = (uint64_t)now->alert_quiet_ms * 1000000,
	};
	struct error error = { "" };

	if (front->configured && now->alert_denials == before->alert_denials &&
	    now->alert_window_ms == before->alert_window_ms &&
	    now->alert_calls == before->alert_calls &&
	    now->alert_calls_window_ms == before->alert_calls_window_ms &&
	    now->alert_quiet_ms == before->alert_quiet_ms)
		return;
	alerts_close(TAKE_PTR(front->alerts));
	if ((limits.denials || limits.calls) && alerts_open(&limits, &front->alerts, &error))
		cordond_say("there are no alerts: %s", error.text);
}

static void on_config(struct front *front, int fd)
{
	struct settings settings = { .operators = NULL };
	struct settings before;
	union wire_message m = { .head = { 0 } };
	int err = settings_load(fd, "configuration", &settings);

	if (!err) {
		err = sinks_use(front, &settings);
		if (err)
			settings_clear(&settings);
	}
	if (err && !front->configured) {
		front_end(front, err == -EINVAL ? EXIT_POLICY : EXIT_FOUND);
		return;
	}
	if (!err) {
		if (front->configured && settings.history != front->settings.history)
			cordond_say("limits.history: takes a restart of cordond");
		before = front->settings;
		front->settings = settings;
		front_groups_look_up(front);
		front_metrics_use(front, before.metrics);
		alerts_use(front, &before);
		settings_clear(&before);
	} else {
		cordond_say("the configuration has faults; the one before stays");
	}
	if (!front->history)
		front->history =
			history_new((size_t)front->settings.history, front_client_evict, front);
	if (!front->history) {
		cordond_say("no memory for a history of %lld bytes", front->settings.history);
		front_end(front, EXIT_FOUND);
		return;
	}
	if (!front->configured &&
	    (front_watch(front, front->door_fd, &front->door_source, EPOLLIN) ||
	     front_watch(front, front->events_fd, &front->events_source, EPOLLIN)))
		front_end(front, EXIT_FOUND);
	front->configured = true;
	front_ask(front, WIRE_READY, 0, &m, NULL);
}

/* --- the keeper's messages -------------------------------------------------------------------- */

static void on_hello(struct front *front, const struct wire_hello *hello, int fds[WIRE_FDS_MAX])
{
	front->events_fd = TAKE_FD(fds[1]);
	fcntl(front->events_fd, F_SETFL, O_NONBLOCK);
	front->states_fd = TAKE_FD(fds[2]);
	front->n_states = hello->n_states;
	front->accounts = mmap(NULL, hello->n_states * sizeof(*front->accounts),
			       PROT_READ | PROT_WRITE, MAP_SHARED, fds[4], 0);
	if (front->accounts == MAP_FAILED) { /* without them no event could be read */
		front->accounts = NULL;
		cordond_say("cannot map the accounts of fences: %s", strerror(errno));
		front_end(front, EXIT_FOUND);
	}
	front->door_fd = TAKE_FD(fds[0]);
	fcntl(front->door_fd, F_SETFL, O_NONBLOCK);
	front->peers_fd = TAKE_FD(fds[3]);
	snprintf(front->node, sizeof(front->node), "%s", hello->node);
	snprintf(front->attached_as, sizeof(front->attached_as), "%s", hello->attached_as);
	front->started_ns = hello->started_ns;
	front->fronts = hello->fronts;
	front->degraded = hello->degraded;
	metrics_set(METRIC_LOAD_SECONDS, 0, 0, hello->opened_ms / 1000.0);
}

static void on_set(struct front *front, const struct wire_set *set)
{
	if (wire_text_is_sound(set->why, sizeof(set->why)))
		snprintf(front->old_set, sizeof(front->old_set), "%s", set->why);
	metrics_set(METRIC_OLD_SET, 0, 0, front->old_set[0] != '\0');
}

static void on_message(struct front *front, union wire_message *m, int fds[WIRE_FDS_MAX])
{
	union wire_message pong = { .head = { 0 } };

	switch (m->head.type) {
	case WIRE_HELLO:
		on_hello(front, &m->HELLO, fds);
		break;
	case WIRE_SET:
		on_set(front, &m->SET);
		break;
	case WIRE_CONFIG:
		on_config(front, fds[0]);
		break;
	case WIRE_MADE:
		if (!front_fence_made(front, &m->MADE, fds[0]))
			fds[0] = -1;
		break;
	case WIRE_POLICY:
		front_fence_policy(front, &m->POLICY);
		break;
	case WIRE_FACT:
		front_fence_fact(front, &m->FACT);
		break;
	case WIRE_ENDING:
		front_fence_ending(front, m->ENDING.fence_id);
		break;
	case WIRE_REPLY:
		front_client_reply(front, &m->REPLY);
		break;
	case WIRE_NUMBERED:
		front_gateway_numbered(front, m->head.serial, m->NUMBERED.seq);
		break;
	case WIRE_FIGURES:
		metrics_set(METRIC_MISSED_HOOKS, 0, 0, (double)m->FIGURES.missed);
		break;
	case WIRE_PING:
		front_ask(front, WIRE_PONG, 0, &pong, NULL);
		break;
	default: /* STOP */
		front_end(front, EXIT_OK);
		break;
	}
	for (int i = 0; i < WIRE_FDS_MAX; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void on_keeper(struct front *front)
{
	static union wire_message m;
	int fds[WIRE_FDS_MAX], r = 0;

	for (int n = 0; n < MESSAGES_A_TURN && !front->stopping; n++) {
		r = wire_receive(front->keeper_fd, false, &m, fds);
		if (r <= 0)
			break;
		on_message(front, &m, fds);
	}
	if (r < 0 && !front->stopping)
		front_end(front, EXIT_FOUND);
}

/* --- the loop --------------------------------------------------------------------------------- */

static void front_dispatch(struct front *front, const struct epoll_event *event)
{
	struct front_source *source = event->data.ptr;

	switch (source->kind) {
	case FRONT_KEEPER:
		on_keeper(front);
		break;
	case FRONT_DOOR:
		front_client_accept(front);
		break;
	case FRONT_CLIENT:
		front_client_ready(front, (struct client *)source, event->events);
		break;
	case FRONT_GATEWAY_DOOR:
		front_gateway_accept(front);
		break;
	case FRONT_GATEWAY:
		front_gateway_ready(front, (struct gateway *)source, event->events);
		break;
	case FRONT_RING: /* all are read in any case */
		break;
	}
}

static void front_run(struct front *front)
{
	struct epoll_event events[EVENTS];
	uint64_t ticked_ms = 0;
	bool busy = false;

	while (!front->stopping) {
		int n = epoll_wait(front->epoll_fd, events, EVENTS, busy ? BUSY_MS : POLL_MS);
		uint64_t now_ms = front_now_ms();

		for (int i = 0; i < n && !front->stopping; i++)
			front_dispatch(front, &events[i]);
		if (now_ms - ticked_ms >= TICK_MS) {
			ticked_ms = now_ms;
			front->realtime_offset_ns =
				(int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
			front_client_tick(front);
			front_metrics_tick(front);
		}
		busy = front_fences_read(front);
		front_gateways_turn(front);
		if (front->history)
			front_clients_pump(front);
		front_metrics_turn(front);
	}
	front_fences_read(front);
	if (front->history)
		front_clients_pump(front);
	metrics_server_free(TAKE_PTR(front->metrics.server));
	if (front->sinks && sinks_close(front->sinks, SINKS_MS))
		cordond_say("some events were not written by sinks before the end");
}

int front_main(void)
{
	static struct front front;
	struct error error = { "" };

	front = (struct front){ .keeper_fd = CORDOND_FRONT_FD,
				.door_fd = -1,
				.events_fd = -1,
				.peers_fd = -1,
				.states_fd = -1,
				.keeper_source.kind = FRONT_KEEPER,
				.door_source.kind = FRONT_DOOR,
				.events_source.kind = FRONT_GATEWAY_DOOR,
				.event = malloc(sizeof(struct event)),
				.line = malloc(EVENT_LINE_MAX) };
	front_gateways_init(&front);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN); /* of a terminal: the keeper says when it ends */
	umask(027);
	front.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!front.event || !front.line || front.epoll_fd < 0 || jail_enter(&error) ||
	    front_watch(&front, front.keeper_fd, &front.keeper_source, EPOLLIN)) {
		cordond_say("the front cannot start: %s",
			    error.text[0] ? error.text : strerror(errno));
		return EXIT_FOUND;
	}
	front_run(&front);
	return front.code;
}
