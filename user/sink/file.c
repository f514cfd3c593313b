// SPDX-License-Identifier: Apache-2.0
/*
 * Lines in a file: rotation, forcing to disk, hash chain. Runs in the sink's thread. A disk that is full or read-only takes
 * nothing and loses nothing but what the queue cannot hold: a line that was written in part is completed when there is room. After
 * a crash, an unfinished line is taken off and a `resume` record says how long it was. What does not verify is put aside, never
 * written on. No privilege; refuses places that others could write to.
 *
 * The chain that `file` holds runs ahead of the disk by the batch. When a batch is given up, the chain is read from the file again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "chain/chain.h"
#include "sink/internal.h"
#include "sink/place.h"

#define MS 1000000ULL

struct file {
	char *name; /* in the directory */
	int dir_fd, fd;
	dev_t dev;
	ino_t ino;
	uint64_t size;	    /* with what is in the batch */
	uint64_t number;    /* of the file, from 1; the rotated ones have lower ones */
	uint64_t opened_ns; /* when it began, for rotation by age */
	uint64_t synced_ns, checkpoint_ns;
	uint64_t since; /* records since the last checkpoint */
	bool dirty;	/* written and not forced to disk */
	bool spoilt;	/* the descriptor is no good any more */
	bool headless;	/* its head could not be written yet */
	struct chain chain;
	struct chain_key key;
	bool keyed;
	struct sink_batch batch;
};

/* --- places --------------------------------------------------------------------------------------------------------- */

static int file_prepare(struct sink *sink, struct error *error)
{
	struct file *file = calloc(1, sizeof(*file));
	_cleanup_close_ int dir_fd = -1;
	struct stat st;
	const char *name;
	int r;

	if (!file)
		return error_set(error, ENOMEM, "out of memory");
	sink->state = file;
	file->fd = file->dir_fd = -1;
	r = sink_batch_init(&file->batch);
	if (r < 0)
		return error_set(error, ENOMEM, "out of memory");
	if (sink->config.key) {
		r = chain_key_load(sink->config.key, &file->key, error);
		if (r < 0)
			return r;
		file->keyed = true;
	}
	dir_fd = place_open(sink->config.path, &name, error);
	if (dir_fd < 0)
		return dir_fd;
	file->name = strdup(name);
	if (!file->name)
		return error_set(error, ENOMEM, "out of memory");
	if (strlen(name) > NAME_MAX - 21)
		return error_set(error, ENAMETOOLONG, "%s: the name is too long to rotate",
				 sink->config.path);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return place_check_file(&st, sink->config.path, error);
	return errno == ENOENT
		       ? 0
		       : error_set(error, errno, "%s: %s", sink->config.path, strerror(errno));
}

static void file_free(struct sink *sink)
{
	struct file *file = sink->state;

	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	if (file->dir_fd >= 0)
		close(file->dir_fd);
	chain_key_clear(&file->key);
	sink_batch_clear(&file->batch);
	free(file->name);
	free(file);
	sink->state = NULL;
}

/* --- rotated files --------------------------------------------------------------------------------------------------- */

/* "NAME.000012" -> 12; 0: it is none of ours. */
static uint64_t number_of(const struct file *file, const char *name)
{
	size_t n = strlen(file->name);
	uint64_t number = 0;

	if (strncmp(name, file->name, n) != 0 || name[n] != '.' || strlen(name + n + 1) < 6 ||
	    strlen(name + n + 1) > 18)
		return 0;
	for (const char *p = name + n + 1; *p; p++) {
		if (*p < '0' || *p > '9')
			return 0;
		number = number * 10 + (uint64_t)(*p - '0');
	}
	return number;
}

static void rotated_name(const struct file *file, uint64_t number, char ret_name[NAME_MAX + 1])
{
	snprintf(ret_name, NAME_MAX + 1, "%.*s.%06llu", NAME_MAX - 21, file->name,
		 (unsigned long long)number);
}

/* Counts the rotated files and finds the lowest and the highest number. */
static int rotated_scan(const struct file *file, uint64_t *ret_count, uint64_t *ret_low,
			uint64_t *ret_high)
{
	int fd = openat(file->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	*ret_count = *ret_high = 0;
	*ret_low = UINT64_MAX;
	if (!dir) {
		int err = -errno;

		if (fd >= 0)
			close(fd);
		return err;
	}
	while ((entry = readdir(dir))) {
		uint64_t number = number_of(file, entry->d_name);

		if (!number)
			continue;
		++*ret_count;
		*ret_low = number < *ret_low ? number : *ret_low;
		*ret_high = number > *ret_high ? number : *ret_high;
	}
	closedir(dir);
	return 0;
}

/* Removes the oldest until no more than keep are there. */
static void rotated_prune(const struct sink *sink, const struct file *file)
{
	uint64_t count, low, high;
	char name[NAME_MAX + 1];

	while (rotated_scan(file, &count, &low, &high) == 0 &&
	       count > (uint64_t)sink->config.keep) {
		rotated_name(file, low, name);
		if (unlinkat(file->dir_fd, name, 0) < 0)
			return;
	}
}

/* --- writing --------------------------------------------------------------------------------------------------------- */

static uint64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* What stands in a line of the chain's own now. */
static struct chain_note note_make(const struct sink *sink, char time[EVENT_TIME_SIZE])
{
	const struct file *file = sink->state;

	return (struct chain_note){
		.time = event_format_time(wall_ns(), time),
		.file = file->number,
		.every = file->keyed ? (uint64_t)sink->config.checkpoint_records : 0,
	};
}

/* Adds a line of the chain's own to the batch. Returns 0 or -EAGAIN. */
static int checkpoint_add(struct sink *sink, enum chain_kind kind, uint64_t torn)
{
	struct file *file = sink->state;
	char time[EVENT_TIME_SIZE], *out = sink_batch_reserve(&file->batch, CHAIN_CHECKPOINT_MAX);
	struct chain_note note = note_make(sink, time);
	size_t n;

	if (!out)
		return -EAGAIN;
	note.torn = torn;
	n = chain_checkpoint(&file->chain, kind, &note, file->keyed ? &file->key : NULL, out);
	sink_batch_add(&file->batch, n, false);
	file->size += n;
	file->since = 0;
	file->checkpoint_ns = sink_now_ns();
	sink->checkpoints += file->keyed;
	return 0;
}

/* Trouble with the descriptor itself, as opposed to with room on the disk. */
static bool error_spoils(int err)
{
	return err != ENOSPC && err != EDQUOT && err != EROFS && err != EFBIG;
}

/* Writes the batch. What could not be written stays in it. */
static int batch_write(struct sink *sink, struct error *error)
{
	struct file *file = sink->state;
	struct sink_batch *batch = &file->batch;

	while (batch->done < batch->used) {
		ssize_t n = write(file->fd, batch->bytes + batch->done, batch->used - batch->done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			int err = n < 0 ? errno : EIO;

			file->spoilt |= error_spoils(err);
			return error_set(error, err, "%s: %s", sink->config.path, strerror(err));
		}
		file->dirty = true;
		/* With fsync: each, nothing left for good before it is on the disk. */
		if (sink->config.fsync == SINK_FSYNC_EACH && fdatasync(file->fd) < 0) {
			file->spoilt = true;
			return error_set(error, errno, "%s: fsync: %s", sink->config.path,
					 strerror(errno));
		}
		sink_batch_advance(batch, (size_t)n, sink);
	}
	return 0;
}

static int file_sync(struct sink *sink, struct error *error)
{
	struct file *file = sink->state;

	if (!file->dirty || sink->config.fsync == SINK_FSYNC_NEVER)
		return 0;
	file->synced_ns = sink_now_ns();
	if (fdatasync(file->fd) < 0) {
		file->spoilt = true;
		return error_set(error, errno, "%s: fsync: %s", sink->config.path, strerror(errno));
	}
	file->dirty = false;
	return 0;
}

/* --- opening --------------------------------------------------------------------------------------------------------- */

/* Opens the file by its name, or makes it; checks that it is ours and that nobody else writes to it. */
static int fd_open(struct sink *sink, bool *ret_made, struct error *error)
{
	struct file *file = sink->state;
	const char *path = sink->config.path, *name;
	struct stat st;
	int r;

	if (file->dir_fd >= 0)
		close(file->dir_fd);
	file->dir_fd = place_open(path, &name, error);
	if (file->dir_fd < 0)
		return file->dir_fd;
	file->fd = openat(file->dir_fd, name,
			  O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	*ret_made = file->fd < 0 && errno == ENOENT;
	if (*ret_made)
		file->fd =
			openat(file->dir_fd, name,
			       O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (file->fd < 0 || fstat(file->fd, &st) < 0)
		return error_set(error, errno, "%s: %s", path,
				 errno == ELOOP ? "a symbolic link; none is followed here"
						: strerror(errno));
	r = place_check_file(&st, path, error);
	if (r < 0)
		return r;
	if (flock(file->fd, LOCK_EX | LOCK_NB) < 0)
		return error_set(error, errno, "%s: %s", path,
				 errno == EWOULDBLOCK ? "another process writes to it"
						      : strerror(errno));
	file->dev = st.st_dev;
	file->ino = st.st_ino;
	file->size = (uint64_t)st.st_size;
	file->opened_ns = sink_now_ns();
	return 0;
}

/* Where the newest rotated file's chain ended; nothing where there is none. */
static int chain_of_rotated(struct file *file, uint64_t high)
{
	struct chain_tail tail;
	char name[NAME_MAX + 1];
	_cleanup_close_ int fd = -1;
	int r;

	if (!high)
		return 0;
	rotated_name(file, high, name);
	fd = openat(file->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = chain_tail_read(fd, &tail);
	if (r == 0)
		file->chain = tail.chain;
	return r;
}

/* The head of a new file; the chain goes on in it. */
static int head_write(struct sink *sink, struct error *error)
{
	struct file *file = sink->state;

	file->headless = true;
	if (sink->config.chain)
		checkpoint_add(sink, CHAIN_OPEN, 0);
	return batch_write(sink, error);
}

/* The file has another name now, a number; a new one begins. */
static int aside_put(struct sink *sink, struct error *error)
{
	struct file *file = sink->state;
	char name[NAME_MAX + 1];
	int r;

	rotated_name(file, file->number, name);
	r = renameat2(file->dir_fd, file->name, file->dir_fd, name, RENAME_NOREPLACE);
	if (r < 0)
		return error_set(error, errno, "%s: cannot rename it to %s: %s", sink->config.path,
				 name, strerror(errno));
	close(TAKE_FD(file->fd));
	sink->rotations++;
	return 0;
}

/* A file that was there: takes the chain up where it ends. */
static int chain_resume(struct sink *sink, uint64_t high, struct error *error)
{
	struct file *file = sink->state;
	struct chain_tail tail;
	int r = chain_tail_read(file->fd, &tail);

	if (r < 0)
		return error_set(error, -r, "%s: %s", sink->config.path, strerror(-r));
	file->chain = tail.chain;
	file->number = tail.file > high ? tail.file : high + 1;
	if (tail.fault) {
		bool made;

		sink->chain_broken = true;
		r = aside_put(sink, error);
		r = r < 0 ? r : fd_open(sink, &made, error);
		file->number++;
		return r < 0 ? r : head_write(sink, error);
	}
	if (tail.torn && ftruncate(file->fd, (off_t)tail.end) < 0)
		return error_set(error, errno, "%s: %s", sink->config.path, strerror(errno));
	file->size = tail.end;
	if (!tail.chain.n) { /* not even its head was whole */
		r = chain_of_rotated(file, high);
		if (r < 0)
			return error_set(error, -r, "%s: the file before it: %s", sink->config.path,
					 strerror(-r));
		return head_write(sink, error);
	}
	checkpoint_add(sink, CHAIN_RESUME, tail.torn);
	return batch_write(sink, error);
}

/* A file without chain that was there: an unfinished line is ended. */
static int plain_resume(struct sink *sink, struct error *error)
{
	struct file *file = sink->state;
	char last = '\n', *out;

	if (!file->size || pread(file->fd, &last, 1, (off_t)file->size - 1) != 1 || last == '\n')
		return 0;
	out = sink_batch_reserve(&file->batch, 1);
	if (!out)
		return error_set(error, ENOMEM, "out of memory");
	*out = '\n';
	sink_batch_add(&file->batch, 1, false);
	file->size++;
	return batch_write(sink, error);
}

/* Does the path lead to what is open? */
static bool path_leads_here(const struct file *file)
{
	struct stat st;

	return fstatat(file->dir_fd, file->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_dev == file->dev && st.st_ino == file->ino;
}

static int file_open(struct sink *sink, struct error *error)
{
	struct file *file = sink->state;
	uint64_t count, low, high;
	bool made;
	int r;

	if (file->fd >= 0 && !file->spoilt) /* only there was no room */
		return batch_write(sink, error);
	if (file->fd >= 0)
		close(TAKE_FD(file->fd));
	sink_batch_rewind(&file->batch, sink);
	file->spoilt = true;
	file->dirty = false;
	r = fd_open(sink, &made, error);
	if (r < 0)
		return r;
	r = rotated_scan(file, &count, &low, &high);
	if (r < 0)
		return error_set(error, -r, "%s: %s", sink->config.path, strerror(-r));
	file->spoilt = false;
	file->number = high + 1;
	if (!sink->config.chain)
		return plain_resume(sink, error);
	if (!file->size) {
		file->chain = (struct chain){ 0 };
		r = chain_of_rotated(file, high);
		return r < 0 ? error_set(error, -r, "%s: the file before it: %s", sink->config.path,
					 strerror(-r))
			     : head_write(sink, error);
	}
	return chain_resume(sink, high, error);
}

/* --- rotation --------------------------------------------------------------------------------------------------------- */

/* The batch is empty. Ends this file, begins the next. */
static int rotate(struct sink *sink, bool rename, struct error *error)
{
	struct file *file = sink->state;
	bool made;
	int r = 0;

	if (sink->config.chain) {
		checkpoint_add(sink, CHAIN_CLOSE, 0);
		r = batch_write(sink, error);
	}
	r = r < 0 ? r : file_sync(sink, error);
	if (r < 0)
		return r;
	if (rename)
		r = aside_put(sink, error);
	else
		close(TAKE_FD(file->fd));
	if (r < 0)
		return r;
	file->spoilt = true; /* until the next is whole */
	r = fd_open(sink, &made, error);
	if (r < 0)
		return r;
	if (!made) /* somebody was faster: as at the start */
		return error_set(error, EAGAIN, "%s: another file is there already",
				 sink->config.path);
	file->number++;
	file->spoilt = false;
	r = head_write(sink, error);
	rotated_prune(sink, file);
	return r;
}

static bool too_old(const struct sink *sink, const struct file *file)
{
	return sink->config.rotate_age_ms &&
	       sink_now_ns() - file->opened_ns >= (uint64_t)sink->config.rotate_age_ms * MS;
}

/* --- the kind ---------------------------------------------------------------------------------------------------------- */

static int file_put(struct sink *sink, const struct sink_item *item, const char *text,
		    struct error *error)
{
	struct file *file = sink->state;
	size_t room = item->size + (sink->config.chain ? CHAIN_TAIL_MAX : 0), n;
	char *out;
	int r;

	(void)error;
	/* The close and a checkpoint still have to fit into the size. */
	if (file->size + room + (size_t)2 * CHAIN_CHECKPOINT_MAX >
		    (uint64_t)sink->config.rotate_size &&
	    file->size > (size_t)2 * CHAIN_CHECKPOINT_MAX) {
		if (file->batch.used)
			return -EAGAIN;
		r = rotate(sink, true, error);
		if (r < 0)
			return r == -EAGAIN ? -EBUSY : r;
	}
	if (file->keyed && file->since >= (uint64_t)sink->config.checkpoint_records - 1 &&
	    checkpoint_add(sink, CHAIN_CHECKPOINT, 0) < 0)
		return -EAGAIN;
	out = sink_batch_reserve(&file->batch, room);
	if (!out)
		return file->batch.used ? -EAGAIN : -ENOMEM;
	if (sink->config.chain) {
		n = chain_append(&file->chain, text, item->size, out);
	} else {
		memcpy(out, text, item->size);
		n = item->size;
	}
	sink_batch_add(&file->batch, n, true);
	file->size += n;
	file->since++;
	return 0;
}

static int file_flush(struct sink *sink, struct error *error)
{
	return batch_write(sink, error);
}

static int file_tick(struct sink *sink, struct error *error)
{
	struct file *file = sink->state;
	uint64_t now = sink_now_ns();
	int r = 0;

	if (atomic_exchange(&sink->reopen, false) && !path_leads_here(file))
		return rotate(sink, false, error);
	if (too_old(sink, file) && file->size > CHAIN_CHECKPOINT_MAX)
		r = rotate(sink, true, error);
	if (r == 0 && file->keyed && file->since &&
	    now - file->checkpoint_ns >= (uint64_t)sink->config.checkpoint_ms * MS) {
		checkpoint_add(sink, CHAIN_CHECKPOINT, 0);
		r = batch_write(sink, error);
	}
	if (r == 0 && sink->config.fsync == SINK_FSYNC_INTERVAL &&
	    now - file->synced_ns >= (uint64_t)sink->config.fsync_ms * MS)
		r = file_sync(sink, error);
	return r;
}

static void file_close(struct sink *sink, bool last)
{
	struct file *file = sink->state;

	if (!last || file->fd < 0 || file->spoilt)
		return;
	if (sink->config.chain && !file->batch.used && checkpoint_add(sink, CHAIN_CLOSE, 0) == 0)
		batch_write(sink, NULL);
	file_sync(sink, NULL);
	close(TAKE_FD(file->fd));
}

const struct sink_kind sink_kind_file = {
	.prepare = file_prepare,
	.open = file_open,
	.put = file_put,
	.flush = file_flush,
	.tick = file_tick,
	.close = file_close,
	.free = file_free,
};
