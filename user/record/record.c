// SPDX-License-Identifier: Apache-2.0
/*
 * See record.h. No privilege. Fails closed by way of record_ready(): nothing is dropped in silence, and what was taken
 * is written in order. Files are written with O_APPEND by one write(2) a line, so that several writers do not mix;
 * what a full disk cut off is taken back, or, where that cannot be, ended with a newline before the next.
 */
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { SEND_TIMEOUT_MS = 1000 };

struct record {
	pthread_mutex_t lock;
	char *target; /* NULL: none */
	int fd;	      /* -1: a socket that is not connected */
	bool socket, regular;
	bool torn; /* the file ends in part of a line */
	int err;   /* of the last try, 0 when all is written */
	char *kept;
	size_t n_kept, kept_size;
	atomic_bool troubled; /* err, for who does not hold the lock */
	atomic_ullong dropped;
};

static int socket_connect(const char *path)
{
	const struct timeval timeout = { .tv_sec = SEND_TIMEOUT_MS / 1000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
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

	if (!strcmp(r->target, "-")) {
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	} else if (!stat(r->target, &st) && S_ISSOCK(st.st_mode)) {
		r->socket = true;
		fd = socket_connect(r->target);
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

int record_open(const char *target, struct record **ret_record, struct error *error)
{
	struct record *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return error_set(error, ENOMEM, "out of memory");
	r->fd = -1;
	pthread_mutex_init(&r->lock, NULL);
	if (target) {
		r->target = strdup(target);
		err = r->target ? target_open(r, &r->fd) : -ENOMEM;
		if (err && !r->socket) {
			record_close(r);
			return error_set(error, -err, "events: cannot open %s: %s", target,
					 strerror(-err));
		}
		r->err = err;
		r->troubled = err != 0;
	}
	*ret_record = r;
	return 0;
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
		ssize_t n = r->socket ? send(r->fd, line + done, size - done, MSG_NOSIGNAL)
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

/* With the lock: connects again if need be, writes what is kept. */
static int kept_write(struct record *r)
{
	int err = 0;

	if (r->fd < 0)
		err = target_open(r, &r->fd);
	while (!err && r->n_kept) {
		size_t size = (size_t)((char *)memchr(r->kept, '\n', r->n_kept) - r->kept) + 1;

		err = line_write(r, r->kept, size);
		if (!err) {
			memmove(r->kept, r->kept + size, r->n_kept - size);
			r->n_kept -= size;
		}
	}
	if (err && r->socket && r->fd >= 0) { /* who reads must see whole lines */
		close(r->fd);
		r->fd = -1;
	}
	r->err = err;
	r->troubled = err != 0;
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

int record_write(struct record *r, const char *line, size_t size)
{
	int err;

	if (!r->target)
		return 0;
	if (!size || line[size - 1] != '\n')
		return -EINVAL;
	pthread_mutex_lock(&r->lock);
	err = keep(r, line, size);
	if (!err)
		err = kept_write(r);
	pthread_mutex_unlock(&r->lock);
	return err;
}

int record_ready(struct record *r)
{
	int err;

	if (!r->troubled)
		return 0;
	pthread_mutex_lock(&r->lock);
	err = kept_write(r);
	pthread_mutex_unlock(&r->lock);
	return err;
}

int record_reopen(struct record *r)
{
	int fd = -1, err;

	if (!r->target)
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
