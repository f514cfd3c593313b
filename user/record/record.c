// SPDX-License-Identifier: Apache-2.0
/*
 * See record.h. No privilege. Fails closed by way of record_ready(): nothing is dropped in silence, and what was taken
 * is written in order. Files are written with O_APPEND by one write(2) a line, so that several writers do not mix;
 * what a full disk cut off is taken back, or, where that cannot be, ended with a newline before the next. cordond answers
 * for each frame; what it has not answered for is sent again, with its number, by which it knows what it has.
 */
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "event/frame.h"

enum {
	SEND_TIMEOUT_MS = 1000,
	PAUSE_MS = 1000, /* after a cordond that does not answer, or refuses */
};

enum record_kind { RECORD_FILE, RECORD_SOCKET, RECORD_CORDOND };

struct record {
	pthread_mutex_t lock;
	char *target; /* NULL: none; of cordond: the path of its socket */
	enum record_kind kind;
	int fd; /* -1: a socket that is not connected */
	bool regular;
	bool torn; /* the file ends in part of a line */
	int err;   /* of the last try, 0 when all is written */
	char *kept;
	size_t n_kept, kept_size;
	atomic_int troubled; /* err, for who does not hold the lock */
	atomic_ullong dropped;
	uint64_t instance, number; /* of frames: this life, and the last of it */
	uint64_t pause_until_ms;
	unsigned int answer_ms;
	record_change_fn *on_change;
	void *on_change_context;
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int socket_connect(const char *path, int type, unsigned int answer_ms)
{
	const struct timeval timeout = { .tv_sec = SEND_TIMEOUT_MS / 1000 };
	const struct timeval answer = { .tv_sec = answer_ms / 1000,
					.tv_usec = answer_ms % 1000 * 1000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* It bounds connect(2), too. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &answer, sizeof(answer));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

static int target_open(struct record *r, int *ret_fd)
{
	struct stat st;
	int fd;

	if (r->kind == RECORD_CORDOND) {
		fd = socket_connect(r->target, SOCK_SEQPACKET, r->answer_ms);
		if (fd < 0)
			return fd;
	} else if (!strcmp(r->target, "-")) {
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	} else if (!stat(r->target, &st) && S_ISSOCK(st.st_mode)) {
		r->kind = RECORD_SOCKET;
		fd = socket_connect(r->target, SOCK_STREAM, r->answer_ms);
		if (fd < 0)
			return fd;
	} else {
		fd = open(r->target, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
	}
	if (fd < 0)
		return -errno;
	r->regular = !fstat(fd, &st) && S_ISREG(st.st_mode);
	*ret_fd = fd;
	return 0;
}

/* "cordond" or "cordond:PATH". */
static const char *daemon_path(const char *target)
{
	size_t n = strlen(RECORD_DAEMON);

	if (strncmp(target, RECORD_DAEMON, n) != 0)
		return NULL;
	return !target[n] ? EVENT_FRAME_SOCKET : target[n] == ':' ? target + n + 1 : NULL;
}

static int target_set(struct record *r, const char *target)
{
	const char *path = daemon_path(target);

	r->target = strdup(path ? path : target);
	if (!r->target)
		return -ENOMEM;
	if (!path)
		return 0;
	r->kind = RECORD_CORDOND;
	return getrandom(&r->instance, sizeof(r->instance), 0) == sizeof(r->instance) ? 0 : -EIO;
}

int record_open(const char *target, struct record **ret_record, struct error *error)
{
	struct record *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return error_set(error, ENOMEM, "out of memory");
	r->fd = -1;
	r->answer_ms = RECORD_ANSWER_MS;
	pthread_mutex_init(&r->lock, NULL);
	if (target) {
		err = target_set(r, target);
		if (!err)
			err = target_open(r, &r->fd);
		if (err && r->kind == RECORD_FILE) {
			record_close(r);
			return error_set(error, -err, "events: cannot open %s: %s", target,
					 strerror(-err));
		}
		r->err = err;
		r->troubled = err;
	}
	*ret_record = r;
	return 0;
}

static void hang_up(struct record *r)
{
	if (r->kind != RECORD_FILE && r->fd >= 0)
		close(TAKE_FD(r->fd));
}

bool record_takes_frames(const struct record *r)
{
	return r->kind == RECORD_CORDOND;
}

void record_set_answer_ms(struct record *r, unsigned int ms)
{
	pthread_mutex_lock(&r->lock);
	r->answer_ms = ms;
	hang_up(r);
	pthread_mutex_unlock(&r->lock);
}

void record_on_change(struct record *r, record_change_fn *fn, void *context)
{
	pthread_mutex_lock(&r->lock);
	r->on_change = fn;
	r->on_change_context = context;
	if (r->err && fn)
		fn(context, r->target, r->err);
	pthread_mutex_unlock(&r->lock);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* One frame, and cordond's word that it has it. */
static int frame_write(struct record *r, const char *frame, size_t size)
{
	struct event_frame_answer answer = { 0, 0 };
	ssize_t n = send(r->fd, frame, size, MSG_NOSIGNAL);

	if (n != (ssize_t)size)
		return n < 0 ? -errno : -EIO;
	do
		n = recv(r->fd, &answer, sizeof(answer), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (!n)
		return -ECONNRESET;
	if (n != sizeof(answer) || answer.magic != EVENT_FRAME_MAGIC || answer.err > 0)
		return -EPROTO;
	return answer.err;
}

/* Writes all of the bytes or none that stay. */
static int line_write(struct record *r, const char *line, size_t size)
{
	size_t done = 0;

	if (r->torn && r->regular) {
		if (write(r->fd, "\n", 1) != 1)
			return errno ? -errno : -EIO;
		r->torn = false;
	}
	while (done < size) {
		ssize_t n = r->kind == RECORD_SOCKET
				    ? send(r->fd, line + done, size - done, MSG_NOSIGNAL)
				    : write(r->fd, line + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			int err = n < 0 ? -errno : -EIO;

			if (done && r->regular) {
				off_t end = lseek(r->fd, 0, SEEK_END);

				r->torn = end < (off_t)done || ftruncate(r->fd, end - (off_t)done);
			}
			return err;
		}
		done += (size_t)n;
	}
	return 0;
}

/* The size of the first that is kept. */
static size_t item_size(const struct record *r, const char *item, size_t left)
{
	struct event_frame frame;

	if (r->kind != RECORD_CORDOND)
		return (size_t)((char *)memchr(item, '\n', left) - item) + 1;
	memcpy(&frame, item, sizeof(frame));
	return frame.size;
}

/* Writes what is kept, as far as it goes. */
static int items_write(struct record *r)
{
	size_t done = 0;
	int err = 0;

	while (!err && done < r->n_kept) {
		const char *item = r->kept + done;
		size_t size = item_size(r, item, r->n_kept - done);

		err = r->kind == RECORD_CORDOND ? frame_write(r, item, size)
						: line_write(r, item, size);
		if (!err)
			done += size;
	}
	r->n_kept -= done;
	memmove(r->kept, r->kept + done, r->n_kept);
	return err;
}

static bool peer_is_gone(int err)
{
	return err == -EPIPE || err == -ECONNRESET || err == -ENOTCONN;
}

/* A cordond that was started again since the last event is no trouble. */
static int kept_try(struct record *r)
{
	bool old = r->fd >= 0;
	int err = old ? items_write(r) : 0;

	if (old && !(r->kind == RECORD_CORDOND && peer_is_gone(err)))
		return err;
	hang_up(r);
	err = target_open(r, &r->fd);
	return err ? err : items_write(r);
}

static void err_set(struct record *r, int err)
{
	bool changed = !err != !r->err;

	r->err = err;
	r->troubled = err;
	if (changed && r->on_change)
		r->on_change(r->on_change_context, r->target, err);
}

/* With the lock: connects again if need be, writes what is kept. */
static int kept_write(struct record *r)
{
	int err;

	if (r->err && now_ms() < r->pause_until_ms)
		return r->err;
	err = kept_try(r);
	if (err)
		hang_up(r); /* who reads must see whole lines, and no answer that is late */
	if (err && r->kind == RECORD_CORDOND && !peer_is_gone(err) && err != -ECONNREFUSED &&
	    err != -ENOENT)
		r->pause_until_ms = now_ms() + PAUSE_MS;
	err_set(r, err);
	return err;
}

static int keep(struct record *r, const char *line, size_t size)
{
	if (r->n_kept + size > RECORD_KEPT_MAX) {
		r->dropped++;
		return -ENOBUFS;
	}
	if (r->n_kept + size > r->kept_size) {
		size_t want = 2 * (r->n_kept + size);
		char *more = realloc(r->kept, want);

		if (!more) {
			r->dropped++;
			return -ENOBUFS;
		}
		r->kept = more;
		r->kept_size = want;
	}
	memcpy(r->kept + r->n_kept, line, size);
	r->n_kept += size;
	return 0;
}

static void frame_number(struct record *r, char *kept)
{
	struct event_frame frame;

	memcpy(&frame, kept, sizeof(frame));
	frame.instance = r->instance;
	frame.number = ++r->number;
	memcpy(kept, &frame, sizeof(frame));
}

int record_write(struct record *r, const char *line, size_t size)
{
	int err;

	if (!r->target)
		return 0;
	if (r->kind == RECORD_CORDOND ? size < sizeof(struct event_frame)
				      : !size || line[size - 1] != '\n')
		return -EINVAL;
	pthread_mutex_lock(&r->lock);
	err = keep(r, line, size);
	if (!err && r->kind == RECORD_CORDOND)
		frame_number(r, r->kept + r->n_kept - size);
	if (!err)
		err = kept_write(r);
	pthread_mutex_unlock(&r->lock);
	return err;
}

/* Did cordond hang up? Who writes finds out for himself. */
static void daemon_look(struct record *r)
{
	struct pollfd look = { .events = POLLRDHUP };

	if (pthread_mutex_trylock(&r->lock))
		return;
	look.fd = r->fd;
	if (!r->err && poll(&look, 1, 0) > 0) {
		hang_up(r);
		kept_write(r);
	}
	pthread_mutex_unlock(&r->lock);
}

int record_ready(struct record *r)
{
	int err;

	if (r->kind == RECORD_CORDOND && !r->troubled)
		daemon_look(r);
	err = r->troubled;
	/* Who waits for an answer tries for all. */
	if (!err || pthread_mutex_trylock(&r->lock))
		return err;
	err = kept_write(r);
	pthread_mutex_unlock(&r->lock);
	return err;
}

int record_reopen(struct record *r)
{
	int fd = -1, err;

	if (!r->target || r->kind == RECORD_CORDOND)
		return 0;
	pthread_mutex_lock(&r->lock);
	err = target_open(r, &fd);
	if (!err) {
		if (r->fd >= 0)
			close(r->fd);
		r->fd = fd;
		r->torn = false;
	}
	pthread_mutex_unlock(&r->lock);
	return err;
}

unsigned long long record_dropped(const struct record *r)
{
	return r->dropped;
}

void record_close(struct record *r)
{
	if (!r)
		return;
	if (r->target && r->n_kept)
		kept_write(r);
	if (r->fd >= 0)
		close(r->fd);
	pthread_mutex_destroy(&r->lock);
	free(r->kept);
	free(r->target);
	free(r);
}
