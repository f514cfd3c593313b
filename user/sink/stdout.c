// SPDX-License-Identifier: Apache-2.0
/*
 * Lines on standard output. A pipe or terminal may be slow: it is asked whether it takes more, and is given no more at a time
 * than a pipe takes without waiting, so that the thread can be ended. Whoever reads sees whole lines in order. No privilege.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "sink/internal.h"

enum { WAIT_MS = 1000 };

struct out {
	bool waits; /* not a regular file */
	struct sink_batch batch;
};

static int out_prepare(struct sink *sink, struct error *error)
{
	struct out *out = calloc(1, sizeof(*out));

	if (!out)
		return error_set(error, ENOMEM, "out of memory");
	sink->state = out;
	if (sink_batch_init(&out->batch) < 0)
		return error_set(error, ENOMEM, "out of memory");
	return 0;
}

static int out_open(struct sink *sink, struct error *error)
{
	struct out *out = sink->state;
	struct stat st;

	if (fstat(STDOUT_FILENO, &st) < 0)
		return error_set(error, errno, "standard output: %s", strerror(errno));
	out->waits = !S_ISREG(st.st_mode);
	return 0;
}

static int out_put(struct sink *sink, const struct sink_item *item, const char *text,
		   struct error *error)
{
	struct out *out = sink->state;
	char *p = sink_batch_reserve(&out->batch, item->size);

	if (!p)
		return out->batch.used ? -EAGAIN : error_set(error, ENOMEM, "out of memory");
	memcpy(p, text, item->size);
	sink_batch_add(&out->batch, item->size, true);
	return 0;
}

static int out_flush(struct sink *sink, struct error *error)
{
	struct out *out = sink->state;
	struct sink_batch *batch = &out->batch;

	while (batch->done < batch->used) {
		size_t left = batch->used - batch->done;
		ssize_t n;
		int r = out->waits ? sink_wait(sink, STDOUT_FILENO, POLLOUT, WAIT_MS) : 0;

		if (r == -ETIMEDOUT)
			continue;
		if (r < 0)
			return error_set(error, -r, "standard output: nobody reads it");
		n = write(STDOUT_FILENO, batch->bytes + batch->done,
			  out->waits && left > PIPE_BUF ? PIPE_BUF : left);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return error_set(error, errno, "standard output: %s", strerror(errno));
		sink_batch_advance(batch, (size_t)n, sink);
	}
	return 0;
}

/* What was written in part goes on where it was. */
static void out_close(struct sink *sink, bool last)
{
	(void)sink;
	(void)last;
}

static void out_free(struct sink *sink)
{
	struct out *out = sink->state;

	if (!out)
		return;
	sink_batch_clear(&out->batch);
	free(out);
	sink->state = NULL;
}

const struct sink_kind sink_kind_stdout = {
	.prepare = out_prepare,
	.open = out_open,
	.put = out_put,
	.flush = out_flush,
	.close = out_close,
	.free = out_free,
};
