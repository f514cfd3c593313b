// SPDX-License-Identifier: Apache-2.0
/*
 * See stream.h. Runs with the privilege of the command; what it handles was decoded by the event library. A sink
 * that fails never stops enforcement: it is reported once and the events go on being counted.
 */
#include "cordon/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cordon/cli.h"

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/*
 * The path of the file, or that which it would be made at; empty for one that has none (a pipe, by /dev/stdout).
 * -ELOOP: a symbolic link that leads to no file; where it would be made cannot be told without following it by hand.
 */
static int file_path(const char *path, char *ret_file)
{
	char copy[PATH_MAX], link[2];
	struct stat st;
	char *slash;

	if (realpath(path, ret_file))
		return 0;
	if (!stat(path, &st)) {
		ret_file[0] = '\0';
		return 0;
	}
	if (readlink(path, link, sizeof(link)) >= 0)
		return -ELOOP;
	snprintf(copy, sizeof(copy), "%s", path);
	slash = strrchr(copy, '/');
	if (slash)
		slash[slash == copy] = '\0';
	return realpath(slash ? copy : ".", ret_file) ? 0 : -errno;
}

static bool below(const char *file, const char *workdir)
{
	char dir[PATH_MAX];
	size_t n;

	if (!workdir || !realpath(workdir, dir))
		return false;
	n = strlen(dir);
	return !strncmp(file, dir, n) && (file[n] == '/' || !file[n]);
}

/* May the agent write where the events are to go? Then they would prove nothing. */
static int destination_check(const char *path, const char *workdir, char *const *writable,
			     struct error *error)
{
	char file[PATH_MAX];
	int err = file_path(path, file);

	if (err)
		return error_set(error, -err, "--events %s: %s", path,
				 err == -ELOOP ? "a symbolic link to no file; name the file itself"
					       : strerror(-err));
	if (below(file, workdir))
		return error_set(
			error, EINVAL,
			"--events %s: lies in the workdir, where the agent could change it; "
			"name a file outside",
			path);
	for (; writable && *writable; writable++)
		if (below(file, *writable))
			return error_set(error, EINVAL,
					 "--events %s: lies in %s, which the policy makes "
					 "writable; name a file "
					 "outside",
					 path, *writable);
	return 0;
}

static int format_set(struct stream *stream, const char *format, struct error *error)
{
	bool terminal = stream->out && isatty(fileno(stream->out));

	stream->format = terminal ? EVENT_TEXT : EVENT_JSON;
	if (format && !strcmp(format, "text"))
		stream->format = EVENT_TEXT;
	else if (format && !strcmp(format, "json"))
		stream->format = EVENT_JSON;
	else if (format)
		return error_set(error, EINVAL, "-o %s: the formats are text and json", format);
	stream->color = terminal && !getenv("NO_COLOR");
	return 0;
}

int stream_open(struct stream *stream, const char *path, const char *format, const char *workdir,
		char *const *writable, struct error *error)
{
	int fd, err;

	memset(stream, 0, sizeof(*stream));
	stream->event = malloc(sizeof(*stream->event));
	if (!stream->event)
		return error_set(error, ENOMEM, "out of memory");
	if (path && !strcmp(path, "-")) {
		stream->out = stdout;
	} else if (path) {
		err = destination_check(path, workdir, writable, error);
		if (err)
			return err;
		fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		stream->out = fd < 0 ? NULL : fdopen(fd, "a");
		if (!stream->out)
			return error_set(error, errno, "--events %s: %s", path, strerror(errno));
		stream->owned = true;
	}
	return format_set(stream, format, error);
}

void stream_begin(struct stream *stream, struct enforce_fence *fence,
		  const struct event_context *context)
{
	const struct cordon_state *state = enforce_fence_state(fence);

	stream->fence = fence;
	stream->context = *context;
	stream->realtime_offset_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
	event_tracker_init(&stream->tracker, state->seq, state->lost);
}

static void stream_write(struct stream *stream, const struct event *event)
{
	int err;

	if (!stream->out || stream->failed)
		return;
	err = event_write(stream->out, stream->format, stream->color, &stream->context, event);
	if (!err && fflush(stream->out))
		err = -errno;
	if (err) {
		stream->failed = true;
		cli_fail(0, "events can no longer be written: %s; the fence goes on",
			 strerror(-err));
	}
}

/* Keeps what the last line on stderr is made of. */
static void denied_note(struct stream *stream, const struct event *event)
{
	size_t size = 0;
	FILE *out;

	if (event->raw.verdict != CORDON_VERDICT_DENY &&
	    event->raw.verdict != CORDON_VERDICT_WOULD_DENY)
		return;
	stream->denied += event->raw.count ? event->raw.count : 1;
	if (stream->out || stream->first_denied)
		return;
	out = open_memstream(&stream->first_denied, &size);
	if (!out)
		return;
	event_write(out, EVENT_TEXT, false, &stream->context, event);
	fclose(out);
	if (stream->first_denied)
		stream->first_denied[strcspn(stream->first_denied, "\n")] = '\0';
}

static void denied_say(struct stream *stream)
{
	bool audit = enforce_fence_policy(stream->fence)->mode == CORDON_MODE_AUDIT;

	if (!stream->out && stream->denied)
		cli_fail(0, "%llu operation%s %s denied (--events FILE keeps each), the first: %s",
			 (unsigned long long)stream->denied, stream->denied == 1 ? "" : "s",
			 audit		       ? "would have been"
			 : stream->denied == 1 ? "was"
					       : "were",
			 stream->first_denied ? stream->first_denied : "not known");
}

static uint64_t number_take(struct stream *stream)
{
	return __atomic_add_fetch(&enforce_fence_state(stream->fence)->seq, 1, __ATOMIC_RELAXED);
}

static void stream_gap(struct stream *stream, const struct event_gap *gap)
{
	struct event_gap more;
	struct event *event =
		malloc(sizeof(*event)); /* stream->event may hold the one that follows */

	if (!event)
		return;
	event_make_gap(event, enforce_fence_info(stream->fence),
		       enforce_fence_policy(stream->fence), number_take(stream), gap);
	stream_write(stream, event);
	event_tracker_see(&stream->tracker, &event->raw, &more);
	free(event);
}

static void stream_see(struct stream *stream, struct event *event)
{
	struct event_gap gap;

	if (event_tracker_see(&stream->tracker, &event->raw, &gap))
		stream_gap(stream, &gap);
	denied_note(stream, event);
	stream_write(stream, event);
}

void stream_emit(struct stream *stream, enum cordon_op op, int64_t value, const char *detail)
{
	event_make(stream->event, op, enforce_fence_info(stream->fence),
		   enforce_fence_policy(stream->fence), number_take(stream), detail);
	stream->event->value = value;
	stream->started |= op == CORDON_OP_START;
	stream_see(stream, stream->event);
}

void stream_emit_limit(struct stream *stream, enum cordon_op op, enum cordon_rule rule,
		       enum cordon_verdict verdict, uint64_t count, const char *detail)
{
	event_make_limit(stream->event, op, rule, verdict, enforce_fence_info(stream->fence),
			 enforce_fence_policy(stream->fence), number_take(stream), count, detail);
	stream_see(stream, stream->event);
}

void stream_watch(struct stream *stream)
{
	struct error error = { "" };
	char detail[400];

	if (!enforce_fence_watch(stream->fence, &error))
		return;
	snprintf(detail, sizeof(detail), "%s; the network of the fence is shut", error.text);
	stream_emit(stream, CORDON_OP_BROKEN, 0, detail);
	cli_fail(0, "%s", detail);
}

static void on_record(void *context, const void *record, size_t size)
{
	struct stream *stream = context;

	if (event_decode(record, size, stream->realtime_offset_ns, stream->event)) {
		cli_fail(0, "a record of %zu bytes from the kernel is not an event; skipped", size);
		return;
	}
	stream_see(stream, stream->event);
}

void stream_pump(struct stream *stream, int timeout_ms)
{
	const struct cordon_state *state = enforce_fence_state(stream->fence);
	struct event_gap gap;
	int n = enforce_fence_poll(stream->fence, timeout_ms, on_record, stream);

	if (n <= 0 &&
	    event_tracker_poll(&stream->tracker, __atomic_load_n(&state->seq, __ATOMIC_RELAXED),
			       __atomic_load_n(&state->lost, __ATOMIC_RELAXED),
			       clock_ns(CLOCK_MONOTONIC), &gap))
		stream_gap(stream, &gap);
}

void stream_end(struct stream *stream, const char *detail)
{
	struct event_gap gap;

	if (stream->fence) {
		enforce_fence_flush(stream->fence, true);
		stream_pump(stream, 0);
		if (stream->started)
			stream_emit(stream, CORDON_OP_END, 0, detail);
		stream_pump(stream, 0);
		while (event_tracker_finish(&stream->tracker,
					    enforce_fence_state(stream->fence)->seq, &gap))
			stream_gap(stream, &gap);
		denied_say(stream);
		stream->fence = NULL;
	}
	if (stream->owned && stream->out)
		fclose(stream->out);
	stream->out = NULL;
	free(stream->event);
	stream->event = NULL;
	free(stream->first_denied);
	stream->first_denied = NULL;
}
