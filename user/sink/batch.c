// SPDX-License-Identifier: Apache-2.0
/* Text on its way out, and which records it is made of. No privilege; memory that ends is told before anything is written. */
#include "sink/internal.h"

#include <errno.h>
#include <string.h>

int sink_batch_init(struct sink_batch *batch)
{
	memset(batch, 0, sizeof(*batch));
	batch->size = SINK_BATCH_BYTES;
	batch->room = 1024;
	batch->bytes = malloc(batch->size);
	batch->piece = malloc(batch->room * sizeof(*batch->piece));
	return batch->bytes && batch->piece ? 0 : -ENOMEM;
}

void sink_batch_clear(struct sink_batch *batch)
{
	free(batch->bytes);
	free(batch->piece);
	memset(batch, 0, sizeof(*batch));
}

char *sink_batch_reserve(struct sink_batch *batch, size_t n)
{
	if (batch->n == batch->room)
		return NULL;
	if (batch->used + n > batch->size) {
		char *more;

		if (batch->used)
			return NULL;
		more = realloc(batch->bytes, n);
		if (!more)
			return NULL;
		batch->bytes = more;
		batch->size = n;
	}
	return batch->bytes + batch->used;
}

void sink_batch_add(struct sink_batch *batch, size_t n, bool record)
{
	batch->used += n;
	batch->piece[batch->n++] = (struct sink_piece){ .end = batch->used, .record = record };
}

void sink_batch_advance(struct sink_batch *batch, size_t n, struct sink *sink)
{
	size_t from = batch->n_done ? batch->piece[batch->n_done - 1].end : 0;
	uint64_t records = 0;

	batch->done += n;
	for (; batch->n_done < batch->n && batch->piece[batch->n_done].end <= batch->done;
	     batch->n_done++)
		records += batch->piece[batch->n_done].record;
	if (batch->n_done && batch->piece[batch->n_done - 1].end > from)
		sink_note_written(sink, records, batch->piece[batch->n_done - 1].end - from);
	if (batch->done == batch->used)
		batch->used = batch->done = batch->n = batch->n_done = 0;
}

void sink_batch_rewind(struct sink_batch *batch, struct sink *sink)
{
	batch->used = batch->done = batch->n = batch->n_done = 0;
	sink_queue_rewind(&sink->queue);
}
