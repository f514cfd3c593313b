// SPDX-License-Identifier: Apache-2.0
/*
 * Connections to the control socket: who somebody is, lines in, lines out, and events for those who read them. Nothing here
 * waits: what a client does not take stays where it is, and events that a reader is too slow for are counted and said in
 * lag records of its own.
 */
#include "cordond/front.h"

#include <errno.h>
#include <pwd.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "identity/identity.h"

enum {
	IDLE_MS = 30000,    /* without a request, or without taking an answer */
	KEEPER_MS = 300000, /* for one that the keeper works on */
	IN_STEP = 8192,
	LINES_AT_ONCE = 64,
	OUT_MOST = 16 * 1024 *
		   1024, /* an answer that grows beyond it is cut off with the connection */
	TURNS_MOST = 64,
};

/* --- roles ------------------------------------------------------------------------------------ */

static bool group_look_up(const char *name, gid_t *ret_gid)
{
	const struct group *group = getgrnam(name);

	if (group)
		*ret_gid = group->gr_gid;
	return group;
}

void front_groups_look_up(struct front *front)
{
	const struct passwd *user = getpwnam(front->settings.gateway);

	front->has_groups[0] = group_look_up(front->settings.operators, &front->operators);
	front->has_groups[1] = group_look_up(front->settings.readers, &front->readers);
	front->has_gateway = user;
	if (user)
		front->gateway = user->pw_uid;
}

static unsigned int role_of(const struct front *front, const struct control_peer *peer)
{
	if (!peer->uid || (front->has_groups[0] && control_peer_has_group(peer, front->operators)))
		return CORDOND_OPERATE | CORDOND_READ;
	if (front->has_groups[1] && control_peer_has_group(peer, front->readers))
		return CORDOND_READ;
	return 0;
}

/* A process of a fence is refused whatever its user is, and its fence's events say so. */
bool front_fence_refuse(struct front *front, int fd, pid_t pid, uid_t uid, const char *why)
{
	union wire_message m = { .REMARK = { .op = CORDON_OP_STEER } };

	if (identity_fence_of_socket(front->peers_fd, fd, &m.REMARK.fence_id))
		return false;
	snprintf(m.REMARK.detail, sizeof(m.REMARK.detail), "process %d, user %u: %s", pid, uid,
		 why);
	if (front_fence_find(front, m.REMARK.fence_id))
		front_ask(front, WIRE_REMARK, 0, &m, NULL);
	cordond_say("fence %016llx: %s", (unsigned long long)m.REMARK.fence_id, m.REMARK.detail);
	return true;
}

/* --- coming and going ------------------------------------------------------------------------- */

static void client_free(struct front *front, struct client *c)
{
	struct client **at = &front->clients;

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	front->n_clients--;
	front->n_readers -= c->reading;
	close(c->fd);
	free(c->in);
	free(c->out);
	free(c->task);
	free(c);
}

static void client_new(struct front *front, int fd)
{
	static const char fenced[] = "a process of a fence steers nothing";
	struct client *c = calloc(1, sizeof(*c));
	struct control_peer peer;

	if (!c || control_peer_read(fd, &peer)) {
		free(c);
		close(fd);
		return;
	}
	c->source.kind = FRONT_CLIENT;
	c->fd = fd;
	c->uid = peer.uid;
	c->pid = peer.pid;
	c->since_ms = front_now_ms();
	c->next = front->clients;
	front->clients = c;
	front->n_clients++;
	if (front_watch(front, fd, &c->source, EPOLLIN)) {
		client_free(front, c);
		return;
	}
	if (front_fence_refuse(front, fd, c->pid, c->uid, fenced)) {
		client_error(c, "not_permitted", fenced);
		c->closing = true;
		return;
	}
	c->may = role_of(front, &peer);
	if (c->may)
		return;
	client_error(c, "not_permitted",
		     "needs root, or one of the groups that control.operators and control.readers "
		     "name (cordon-operators, cordon-readers)");
	c->closing = true;
}

void front_client_accept(struct front *front)
{
	for (;;) {
		int fd = accept4(front->door_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		if (front->n_clients < (size_t)front->settings.connections)
			client_new(front, fd);
		else
			close(fd);
	}
}

void front_client_tick(struct front *front)
{
	struct client *next;
	uint64_t now_ms = front_now_ms();

	for (struct client *c = front->clients; c; c = next) {
		uint64_t most_ms = c->serial ? KEEPER_MS : IDLE_MS;

		next = c->next;
		if (!(c->reading && c->follow) && now_ms - c->since_ms > most_ms)
			client_free(front, c);
	}
}

/* --- out -------------------------------------------------------------------------------------- */

void client_put(struct client *c, const char *text, size_t size)
{
	if (c->out_have + size > OUT_MOST) {
		c->closing = true;
		return;
	}
	if (c->out_have + size > c->out_room) {
		size_t room = 2 * (c->out_have + size);
		char *grown = realloc(c->out, room);

		if (!grown) {
			c->closing = true;
			return;
		}
		c->out = grown;
		c->out_room = room;
	}
	memcpy(c->out + c->out_have, text, size);
	c->out_have += size;
}

static void json_put(struct client *c, json_t *root)
{
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	if (!text) {
		c->closing = true;
		return;
	}
	client_put(c, text, strlen(text));
	client_put(c, "\n", 1);
	free(text);
}

void client_row(struct client *c, json_t *row)
{
	json_put(c, json_pack("{s:o}", "row", row));
}

void client_ok(struct client *c, json_t *fields)
{
	json_t *root = json_pack("{s:s}", "status", "ok");

	if (fields) {
		json_object_update_missing(root, fields);
		json_decref(fields);
	}
	json_put(c, root);
}

void client_error(struct client *c, const char *code, const char *reason)
{
	json_put(c, json_pack("{s:s,s:s}", "error", code, "reason", reason));
}

/* Writes what is in the buffer: 1 all, 0 not now, -errno. */
static int out_write(struct client *c)
{
	while (c->out_done < c->out_have) {
		ssize_t n = send(c->fd, c->out + c->out_done, c->out_have - c->out_done,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		c->out_done += (size_t)n;
		c->since_ms = front_now_ms();
	}
	c->out_have = c->out_done = 0;
	if (c->out_room > IN_STEP) {
		free(TAKE_PTR(c->out));
		c->out_room = 0;
	}
	return 1;
}

/* --- readers of events ------------------------------------------------------------------------ */

static bool client_wants(const struct front *front, const struct client *c, uint64_t fence_id)
{
	const struct watched *f;

	if (c->fence_id)
		return c->fence_id == fence_id;
	if (!c->task)
		return true;
	f = front_fence_find(front, fence_id);
	/* Of a fence that is gone all are given; whose task they were stands in them. */
	return !f || !strcmp(how_text(&f->how, IDENTITY_TASK), c->task);
}

static void lag_count(struct client *c, const struct history_entry *entry)
{
	size_t i = 0;

	while (i < c->n_lag && c->lag[i].fence_id != entry->fence_id)
		i++;
	if (i == CLIENT_LAGS) { /* too many fences: the last of the table stands for the rest */
		i--;
		c->lag[i].fence_id = 0;
	} else if (i == c->n_lag) {
		c->lag[c->n_lag++] = (struct lag){ .fence_id = entry->fence_id };
	}
	c->lag[i].count++;
	c->lag[i].last = entry->seq;
}

void front_client_evict(void *context, uint64_t at, const struct history_entry *entry)
{
	struct front *front = context;

	for (struct client *c = front->clients; c; c = c->next) {
		if (!c->reading || c->place > at)
			continue;
		if (c->line_done) /* of a line that has begun the rest is owed */
			client_put(c, entry->line + c->line_done, entry->bytes - c->line_done);
		else if (client_wants(front, c, entry->fence_id)) {
			lag_count(c, entry);
			front->n_lagged++;
		}
		c->line_done = 0;
		c->place = at + entry->size;
	}
}

/* Lag records, where the events would have been. */
static void lags_put(struct front *front, struct client *c)
{
	for (size_t i = 0; i < c->n_lag; i++) {
		const struct lag *lag = &c->lag[i];
		const struct watched *f = front_fence_find(front, lag->fence_id);
		const struct cordon_fence info = { .id = lag->fence_id };
		const struct event_context none = { .node = front->node };
		char detail[160];

		snprintf(detail, sizeof(detail),
			 "this reader was too slow: it missed %llu events, the last of them number "
			 "%llu",
			 (unsigned long long)lag->count, (unsigned long long)lag->last);
		event_make(front->event, CORDON_OP_LAG, &info, NULL, lag->last, detail);
		front->event->raw.count =
			lag->count > UINT32_MAX ? UINT32_MAX : (uint32_t)lag->count;
		client_put(c, front->line,
			   event_format_json(front->line, f ? &f->context : &none, front->event));
	}
	c->n_lag = 0;
}

/* Takes n bytes of what stands from the reader's place on as written. */
static void place_advance(const struct front *front, struct client *c, size_t n)
{
	while (n) {
		uint64_t next;
		const struct history_entry *entry = history_at(front->history, c->place, &next);
		size_t left;

		if (!entry)
			return;
		if (!c->line_done && !client_wants(front, c, entry->fence_id)) {
			c->place = next;
			continue;
		}
		left = entry->bytes - c->line_done;
		if (n < left) {
			c->line_done += n;
			return;
		}
		n -= left;
		c->line_done = 0;
		c->place = next;
	}
}

/* Fills iov with lines; *ret_end: the place behind them. */
static int lines_gather(const struct front *front, const struct client *c, struct iovec *iov,
			uint64_t *ret_end)
{
	uint64_t at = c->place, next;
	const struct history_entry *entry;
	int n = 0;

	while (n < LINES_AT_ONCE && (entry = history_at(front->history, at, &next))) {
		size_t done = n || at != c->place ? 0 : c->line_done;

		if (done || client_wants(front, c, entry->fence_id))
			iov[n++] =
				(struct iovec){ (char *)entry->line + done, entry->bytes - done };
		at = next;
	}
	*ret_end = at;
	return n;
}

/* Lines to one reader: 1 all that there is, 0 not now, -errno. */
static int lines_write(struct front *front, struct client *c)
{
	for (int turn = 0; turn < TURNS_MOST; turn++) {
		struct iovec iov[LINES_AT_ONCE];
		uint64_t end;
		int r, n;
		ssize_t sent;

		if (c->n_lag && !c->line_done)
			lags_put(front, c);
		r = out_write(c);
		if (r <= 0)
			return r;
		n = lines_gather(front, c, iov, &end);
		if (!n) {
			c->place = end;
			return 1;
		}
		sent = writev(c->fd, iov, n);
		if (sent < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		place_advance(front, c, (size_t)sent);
	}
	return 0;
}

/* --- the loop's side -------------------------------------------------------------------------- */

/* Writes; false when the client is done with. */
static bool client_pump(struct front *front, struct client *c)
{
	int r = c->reading && !c->ended ? lines_write(front, c) : out_write(c);
	bool wants;

	if (r == 1 && c->reading && !c->follow && !c->ended) {
		c->ended = true;
		client_put(c, CORDOND_EVENTS_END "\n", sizeof(CORDOND_EVENTS_END));
		r = out_write(c);
	}
	if (r < 0 || (r == 1 && (c->closing || c->ended)))
		return false;
	wants = !r;
	if (wants != c->writable_wanted) {
		c->writable_wanted = wants;
		front_watch(front, c->fd, &c->source, EPOLLIN | (wants ? EPOLLOUT : 0));
	}
	return true;
}

void front_clients_pump(struct front *front)
{
	struct client *next;

	for (struct client *c = front->clients; c; c = next) {
		next = c->next;
		if ((c->reading || c->out_have || c->closing) && !client_pump(front, c))
			client_free(front, c);
	}
}

static bool in_grow(struct client *c)
{
	size_t most = c->may & CORDOND_OPERATE ? CORDOND_REQUEST_MAX : CORDOND_SMALL_REQUEST_MAX;
	size_t room = c->in_room ? 4 * c->in_room : IN_STEP;
	char *grown;

	if (c->in_room >= most)
		return false;
	grown = realloc(c->in, room < most ? room : most);
	if (!grown)
		return false;
	c->in = grown;
	c->in_room = room < most ? room : most;
	return true;
}

/* Every whole line, one after the other: the next waits while the keeper works on one. */
static void lines_take(struct front *front, struct client *c)
{
	char *newline;

	while (!c->serial && !c->closing && !c->reading && c->in_have &&
	       (newline = memchr(c->in, '\n', c->in_have))) {
		size_t size = (size_t)(newline - c->in) + 1;

		front_request(front, c, c->in, size);
		c->in_have -= size;
		memmove(c->in, c->in + size, c->in_have);
	}
}

/* Reads what has come: false when the client is gone. */
static bool client_read(struct front *front, struct client *c)
{
	ssize_t n;

	if (c->closing)
		return true;
	if (c->in_have == c->in_room && !in_grow(c)) {
		client_error(c, "invalid_request", "the request is too long");
		c->closing = true;
		return true;
	}
	n = recv(c->fd, c->in + c->in_have, c->in_room - c->in_have, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (!n)
		return false;
	c->since_ms = front_now_ms();
	if (c->reading) /* there is nothing more to say */
		return true;
	c->in_have += (size_t)n;
	lines_take(front, c);
	return true;
}

void front_client_ready(struct front *front, struct client *c, uint32_t events)
{
	if (events & EPOLLIN) {
		if (!client_read(front, c)) /* an answer that is under way finds nobody */
			client_free(front, c);
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		client_free(front, c);
	}
}

static const char *code_of(int err)
{
	switch (-err) {
	case EIDRM:
		return "fence_not_found";
	case EPERM:
	case EACCES:
		return "not_permitted";
	case ENOTSUP:
	case EXFULL:
		return "host_cannot_enforce";
	case EINVAL:
		return "invalid_request";
	default:
		return "failed";
	}
}

void front_client_reply(struct front *front, const struct wire_reply *reply)
{
	char id[EVENT_FENCE_ID_SIZE];

	if (!wire_text_is_sound(reply->text, sizeof(reply->text)))
		return;
	for (struct client *c = front->clients; c; c = c->next) {
		if (!c->serial || c->serial != reply->head.serial)
			continue;
		c->serial = 0;
		c->since_ms = front_now_ms();
		if (c->attach_ms)
			front_metrics_attached(front, c->attach_ms, !reply->err);
		c->attach_ms = 0;
		if (reply->err)
			client_error(c, code_of(reply->err),
				     reply->text[0] ? reply->text : strerror(-reply->err));
		else
			client_ok(c, json_pack("{s:s,s:i}", "fence",
					       event_format_fence_id(reply->fence_id, id), "proved",
					       (int)reply->proved));
		lines_take(front, c);
		return;
	}
}
