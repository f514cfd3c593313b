// SPDX-License-Identifier: Apache-2.0
/*
 * The sinks as a whole: giving an event to all queues, and the thread that each sink has. A sink that fails is closed and
 * opened again, with pauses that grow; meanwhile its queue fills, and then it counts. Threads hold all signals back, so that
 * a peer that is gone is an error and no SIGPIPE. No privilege.
 */
#include "sink/internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

enum {
	TICK_MS = 100,
	LINGER_NS = 1000000, /* after writing: what comes meanwhile goes out together */
	PAUSE_FIRST_MS = 100,
	PAUSE_LAST_MS = 30000,
};

#define CORDON_X(e, n, d) n,
static const char *const type_names[] = { SINK_TYPES(CORDON_X) };
#undef CORDON_X

static const struct sink_kind *const kinds[] = {
	[SINK_FILE] = &sink_kind_file,	       [SINK_STDOUT] = &sink_kind_stdout,
	[SINK_JOURNALD] = &sink_kind_journald, [SINK_SYSLOG] = &sink_kind_syslog,
	[SINK_KAFKA] = &sink_kind_kafka,
};

enum { FORMATS = EVENT_FORMAT_COUNT };

struct sinks {
	pthread_mutex_t lock; /* of all below; held for making the formats and copying them */
	struct sink *v[SINKS_MAX];
	size_t n;
	char *node;
	char *line[FORMATS]; /* EVENT_LINE_MAX each */
	size_t size[FORMATS];
	bool wanted[FORMATS];
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

uint64_t sink_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* --- one sink ------------------------------------------------------------------------------------------------------ */

void sink_note_written(struct sink *sink, uint64_t n, uint64_t bytes)
{
	sink->written += n;
	sink->bytes += bytes;
	sink_queue_release(&sink->queue, n);
}

void sink_note_problem(struct sink *sink, const char *text)
{
	pthread_mutex_lock(&sink->problem_lock);
	snprintf(sink->problem, sizeof(sink->problem), "%.*s", (int)sizeof(sink->problem) - 1,
		 text);
	pthread_mutex_unlock(&sink->problem_lock);
}

/* What is left of the time that a stopping sink has; UINT_MAX while it is not to stop. */
static unsigned int left_ms(const struct sink *sink)
{
	uint64_t now, deadline = sink->deadline_ns;

	if (!sink->stopping)
		return UINT32_MAX;
	now = sink_now_ns();
	return now >= deadline ? 0 : (unsigned int)((deadline - now + 999999) / 1000000);
}

int sink_wait(struct sink *sink, int fd, short events, unsigned int timeout_ms)
{
	uint64_t until = sink_now_ns() + (uint64_t)timeout_ms * 1000000;

	for (;;) {
		bool stopping = sink->stopping;
		struct pollfd fds[] = { { .fd = fd, .events = events },
					{ .fd = stopping ? -1 : sink->stop_fd, .events = POLLIN } };
		uint64_t now = sink_now_ns();
		unsigned int ms =
			until > now ? (unsigned int)((until - now + 999999) / 1000000) : 0;
		unsigned int left = left_ms(sink);
		int n;

		n = poll(fds, ARRAY_SIZE(fds), (int)(ms < left ? ms : left));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && fds[0].revents)
			return 0;
		if (stopping && !left)
			return -ECANCELED;
		if (!ms)
			return -ETIMEDOUT;
	}
}

static size_t gap_make(void *arg, uint64_t count, uint64_t first_ns, uint64_t last_ns,
		       struct sink_item *ret_item, char **ret_text)
{
	struct sink *sink = arg;
	struct event_context context = { .node = sink->node };
	char *out = sink->gap_text, *line = out + EVENT_LINE_MAX, detail[160];
	struct event event;
	size_t size;

	event_make_sink_gap(&event, sink->config.name, ++sink->gap_seq, count, first_ns, last_ns,
			    detail);
	*ret_item = (struct sink_item){
		.type = event.raw.type,
		.op = event.raw.op,
		.verdict = event.raw.verdict,
		.rule = event.raw.rule,
		.time_ns = event.time_ns,
		.queued_ns = clock_ns(CLOCK_MONOTONIC_COARSE),
	};
	size = event_format_json(line, &context, &event);
	*ret_text = line;
	if (sink->config.format != EVENT_JSON) {
		size_t made =
			event_format_line(out, (enum event_format)sink->config.format, line, size);

		if (made) {
			*ret_text = out;
			size = made;
		}
	}
	return size;
}

/* Takes what there is and writes it. Returns the number of records, or -errno. */
static int round_run(struct sink *sink, struct error *error)
{
	struct sink_item item;
	const char *text;
	int n = 0, r = 0;

	while (r == 0 && sink_queue_peek(&sink->queue, &item, &text)) {
		r = sink->kind->put(sink, &item, text, error);
		if (r == -EAGAIN) {
			r = sink->kind->flush(sink, error);
			continue;
		}
		if (r < 0)
			break;
		sink_queue_take(&sink->queue);
		n += n < INT32_MAX;
		if (r == SINK_SENT)
			sink_note_written(sink, 1, item.size);
		if (r == SINK_REFUSED) {
			sink_queue_lose(&sink->queue, 1, item.time_ns);
			sink_queue_release(&sink->queue, 1);
		}
		r = 0;
	}
	if (r == 0 && sink->kind->flush)
		r = sink->kind->flush(sink, error);
	return r < 0 ? r : n;
}

static void nap(long ns)
{
	struct timespec pause = { .tv_nsec = ns };

	nanosleep(&pause, NULL);
}

/* While it is open: writes, ticks, waits. Returns 0 when the sink is to end, or -errno. */
static int sink_serve(struct sink *sink, struct error *error)
{
	uint64_t ticked = 0;
	int n;

	for (;;) {
		bool stopping = sink->stopping;

		n = round_run(sink, error);
		if (n >= 0 && sink->kind->tick &&
		    sink_now_ns() - ticked >= (uint64_t)TICK_MS * 1000000) {
			int r = sink->kind->tick(sink, error);

			ticked = sink_now_ns();
			n = r < 0 ? r : n;
		}
		if (n < 0)
			return n;
		if (sink_queue_settle(&sink->queue, gap_make, sink))
			continue;
		if (stopping && (!sink_queue_count(&sink->queue) || !left_ms(sink)))
			return 0;
		if (n && !stopping)
			nap(LINGER_NS);
		else
			sink_queue_wait(&sink->queue, TICK_MS);
		if (stopping)
			nap(LINGER_NS);
	}
}

/* Between two attempts. One that is told to stop meanwhile tries again at once. */
static void pause_make(const struct sink *sink, unsigned int ms)
{
	struct pollfd stop = { .fd = sink->stop_fd, .events = POLLIN };

	if (!sink->stopping)
		poll(&stop, 1, (int)ms);
	else
		nap((long)PAUSE_FIRST_MS * 1000000);
}

static void *sink_run(void *arg)
{
	struct sink *sink = arg;
	unsigned int pause_ms = PAUSE_FIRST_MS;

	while (!sink->stopping || (sink_queue_count(&sink->queue) && left_ms(sink))) {
		struct error error = { "" };
		uint64_t written = sink->written;
		int r = sink->kind->open(sink, &error);

		if (r == 0) {
			sink->up = true;
			sink_note_problem(sink, "");
			r = sink_serve(sink, &error);
			sink->up = false;
			if (sink->written != written)
				pause_ms = PAUSE_FIRST_MS;
		}
		if (r == 0)
			break;
		sink->failures++;
		sink_note_problem(sink, error.text[0] ? error.text : strerror(-r));
		sink->kind->close(sink, false);
		pause_make(sink, pause_ms);
		pause_ms = pause_ms * 2 > PAUSE_LAST_MS ? PAUSE_LAST_MS : pause_ms * 2;
	}
	sink->kind->close(sink, true);
	return NULL;
}

static void config_copy_free(struct sink *sink)
{
	struct sinks_config one = { .n = 1 };

	one.v[0] = sink->config;
	sinks_config_clear(&one);
}

static void sink_free(struct sink *sink)
{
	if (!sink)
		return;
	if (sink->kind && sink->kind->free)
		sink->kind->free(sink);
	sink_queue_clear(&sink->queue);
	if (sink->stop_fd >= 0)
		close(sink->stop_fd);
	pthread_mutex_destroy(&sink->problem_lock);
	config_copy_free(sink);
	free(sink->gap_text);
	free(sink->node);
	free(sink);
}

static int sink_new(const struct sink_config *config, const char *node, struct sink **ret_sink,
		    struct error *error)
{
	struct sink *sink = calloc(1, sizeof(*sink));
	int r;

	if (!sink)
		return error_set(error, ENOMEM, "out of memory");
	pthread_mutex_init(&sink->problem_lock, NULL);
	sink->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sink->gap_text = malloc((size_t)2 * EVENT_LINE_MAX);
	sink->node = node ? strdup(node) : NULL;
	r = sink_config_copy(config, &sink->config);
	if (r == 0 && (sink->stop_fd < 0 || !sink->gap_text || (node && !sink->node)))
		r = -ENOMEM;
	if (r == 0)
		r = sink_queue_init(&sink->queue, (size_t)config->queue_bytes);
	if (r < 0) {
		sink_free(sink);
		return error_set(error, -r, "sink %s: %s", config->name, strerror(-r));
	}
	sink->kind = kinds[config->type];
	r = sink->kind->prepare(sink, error);
	if (r < 0)
		sink_free(sink);
	else
		*ret_sink = sink;
	return r;
}

static int sink_start(struct sink *sink, struct error *error)
{
	char name[16];
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&sink->thread, NULL, sink_run, sink);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return error_set(error, err, "sink %s: cannot start a thread: %s",
				 sink->config.name, strerror(err));
	sink->started = true;
	snprintf(name, sizeof(name), "sink %.10s", sink->config.name);
	pthread_setname_np(sink->thread, name);
	return 0;
}

static void sink_stop(struct sink *sink, uint64_t deadline_ns)
{
	const uint64_t one = 1;

	sink->deadline_ns = deadline_ns;
	sink->stopping = true;
	sink_queue_stop(&sink->queue);
	while (write(sink->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/*
 * Waits for the thread and frees the sink. One that hangs where nothing ends it, in a look-up of a name, is left to itself.
 * Returns how many events were not written.
 */
static uint64_t sink_end(struct sink *sink, uint64_t deadline_ns)
{
	uint64_t until = deadline_ns + 500000000ULL, left;
	struct timespec ts = { .tv_sec = (time_t)(until / 1000000000ULL),
			       .tv_nsec = (long)(until % 1000000000ULL) };

	if (sink->started && pthread_clockjoin_np(sink->thread, NULL, CLOCK_MONOTONIC, &ts) != 0) {
		left = sink_queue_count(&sink->queue);
		pthread_detach(sink->thread);
		return left;
	}
	left = sink_queue_count(&sink->queue);
	sink_free(sink);
	return left;
}

static uint64_t deadline_from(unsigned int timeout_ms)
{
	return sink_now_ns() + (uint64_t)timeout_ms * 1000000;
}

/* --- all of them ---------------------------------------------------------------------------------------------------- */

/* With the lock: what formats are needed. */
static void wanted_set(struct sinks *sinks)
{
	memset(sinks->wanted, 0, sizeof(sinks->wanted));
	for (size_t i = 0; i < sinks->n; i++)
		sinks->wanted[sinks->v[i]->config.format] = true;
}

int sinks_open(const struct sinks_config *config, const char *node, struct sinks **ret_sinks,
	       struct error *error)
{
	struct sinks *sinks = calloc(1, sizeof(*sinks));
	int r = 0;

	if (!sinks)
		return error_set(error, ENOMEM, "out of memory");
	pthread_mutex_init(&sinks->lock, NULL);
	sinks->node = node ? strdup(node) : NULL;
	for (size_t i = 0; i < FORMATS; i++)
		sinks->line[i] = malloc(EVENT_LINE_MAX);
	for (size_t i = 0; i < FORMATS; i++)
		if (!sinks->line[i])
			r = -ENOMEM;
	if (r < 0 || (node && !sinks->node))
		r = error_set(error, ENOMEM, "out of memory");
	if (r == 0)
		r = sinks_reload(sinks, config, 0, error);
	if (r < 0)
		sinks_close(sinks, 0);
	else
		*ret_sinks = sinks;
	return r;
}

/* With the lock: to every queue. item is filled but for its size. */
static void line_give(struct sinks *sinks, struct sink_item *item)
{
	item->queued_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
	for (size_t i = 0; i < sinks->n; i++) {
		unsigned int format = sinks->v[i]->config.format;

		item->size = (uint32_t)sinks->size[format];
		if (item->size)
			sink_queue_put(&sinks->v[i]->queue, item, sinks->line[format], gap_make,
				       sinks->v[i]);
	}
}

/* With the lock: the other formats from the JSON line. What cannot be made, for want of memory, goes out as JSON. */
static void formats_make(struct sinks *sinks, const char *line, size_t size)
{
	for (unsigned int i = 0; i < FORMATS; i++) {
		if (i == EVENT_JSON || !sinks->wanted[i])
			continue;
		sinks->size[i] =
			event_format_line(sinks->line[i], (enum event_format)i, line, size);
		if (!sinks->size[i]) {
			memcpy(sinks->line[i], line, size);
			sinks->size[i] = size;
		}
	}
}

void sinks_write(struct sinks *sinks, const struct event_context *context,
		 const struct event *event)
{
	struct sink_item item = {
		.type = event->raw.type,
		.op = event->raw.op,
		.verdict = event->raw.verdict,
		.rule = event->raw.rule,
		.time_ns = event->time_ns,
		.fence_id = event->raw.fence_id,
	};

	pthread_mutex_lock(&sinks->lock);
	if (sinks->n) {
		sinks->size[EVENT_JSON] =
			event_format_json(sinks->line[EVENT_JSON], context, event);
		formats_make(sinks, sinks->line[EVENT_JSON], sinks->size[EVENT_JSON]);
		line_give(sinks, &item);
	}
	pthread_mutex_unlock(&sinks->lock);
}

int sinks_write_line(struct sinks *sinks, const char *line, size_t size)
{
	struct event_record record;
	struct event_place place;
	struct sink_item item = { 0 };
	int r;

	if (!event_line_is_sound(line, size))
		return -EINVAL;
	r = event_record_parse(line, size, &record, NULL);
	if (r < 0)
		return r;
	event_record_place(&record, &place);
	item.type = (uint8_t)event_type_find(place.type);
	item.op = UINT8_MAX;
	item.verdict = (uint8_t)event_verdict_find(place.verdict);
	item.time_ns = place.time_ns;
	event_parse_fence_id(place.fence, &item.fence_id);
	event_record_clear(&record);
	pthread_mutex_lock(&sinks->lock);
	memcpy(sinks->line[EVENT_JSON], line, size);
	sinks->size[EVENT_JSON] = size;
	formats_make(sinks, line, size);
	line_give(sinks, &item);
	pthread_mutex_unlock(&sinks->lock);
	return 0;
}

/* The sink that runs as this configuration says, or NULL. */
static struct sink *sink_same(const struct sinks *sinks, const struct sink_config *config)
{
	for (size_t i = 0; i < sinks->n; i++)
		if (sink_config_equal(&sinks->v[i]->config, config))
			return sinks->v[i];
	return NULL;
}

/* Ends those of old that are not among new. */
static uint64_t sinks_drop(struct sink **old, size_t n_old, struct sink *const *new, size_t n_new,
			   unsigned int timeout_ms)
{
	uint64_t deadline = deadline_from(timeout_ms), left = 0;
	bool stays[SINKS_MAX] = { false };

	for (size_t i = 0; i < n_old; i++) {
		for (size_t j = 0; j < n_new; j++)
			stays[i] |= old[i] == new[j];
		if (!stays[i])
			sink_stop(old[i], deadline);
	}
	for (size_t i = 0; i < n_old; i++)
		if (!stays[i])
			left += sink_end(old[i], deadline);
	return left;
}

int sinks_reload(struct sinks *sinks, const struct sinks_config *config, unsigned int timeout_ms,
		 struct error *error)
{
	struct sink *next[SINKS_MAX] = { NULL }, *old[SINKS_MAX];
	bool fresh[SINKS_MAX] = { false };
	size_t n, n_old = sinks->n;
	int r = 0;

	for (n = 0; r == 0 && n < config->n; n++) {
		next[n] = sink_same(sinks, &config->v[n]);
		fresh[n] = !next[n];
		if (fresh[n])
			r = sink_new(&config->v[n], sinks->node, &next[n], error);
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		if (fresh[i])
			r = sink_start(next[i], error);
	if (r < 0) {
		n -= !next[n - 1];
		for (size_t i = 0; i < n; i++)
			if (fresh[i] && next[i]) {
				sink_stop(next[i], 0);
				sink_end(next[i], sink_now_ns());
			}
		return r;
	}
	pthread_mutex_lock(&sinks->lock);
	memcpy(old, sinks->v, sizeof(old));
	memcpy(sinks->v, next, n * sizeof(struct sink *));
	sinks->n = n;
	wanted_set(sinks);
	pthread_mutex_unlock(&sinks->lock);
	sinks_drop(old, n_old, next, n, timeout_ms);
	return 0;
}

void sinks_reopen(struct sinks *sinks)
{
	pthread_mutex_lock(&sinks->lock);
	for (size_t i = 0; i < sinks->n; i++)
		sinks->v[i]->reopen = true;
	pthread_mutex_unlock(&sinks->lock);
}

static void stats_fill(struct sink *sink, struct sink_stats *s)
{
	struct sink_queue *q = &sink->queue;

	memset(s, 0, sizeof(*s));
	snprintf(s->name, sizeof(s->name), "%s", sink->config.name);
	s->type = type_names[sink->config.type];
	s->up = sink->up;
	s->written = sink->written;
	s->bytes = sink->bytes;
	s->failures = sink->failures;
	s->rotations = sink->rotations;
	s->checkpoints = sink->checkpoints;
	s->chain_broken = sink->chain_broken;
	pthread_mutex_lock(&q->lock);
	s->lost = q->lost_total;
	s->queued = q->used;
	s->queue_size = q->size;
	pthread_mutex_unlock(&q->lock);
	s->lag_ns = sink_queue_lag_ns(q, clock_ns(CLOCK_MONOTONIC_COARSE));
	pthread_mutex_lock(&sink->problem_lock);
	memcpy(s->problem, sink->problem, sizeof(s->problem));
	pthread_mutex_unlock(&sink->problem_lock);
}

size_t sinks_stats(struct sinks *sinks, struct sink_stats *v, size_t max)
{
	size_t n;

	pthread_mutex_lock(&sinks->lock);
	n = sinks->n;
	for (size_t i = 0; i < n && i < max; i++)
		stats_fill(sinks->v[i], &v[i]);
	pthread_mutex_unlock(&sinks->lock);
	return n;
}

uint64_t sinks_close(struct sinks *sinks, unsigned int timeout_ms)
{
	uint64_t left;

	if (!sinks)
		return 0;
	left = sinks_drop(sinks->v, sinks->n, NULL, 0, timeout_ms);
	for (size_t i = 0; i < FORMATS; i++)
		free(sinks->line[i]);
	pthread_mutex_destroy(&sinks->lock);
	free(sinks->node);
	free(sinks);
	return left;
}
