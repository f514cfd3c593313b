/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of user/sink share: the queue of a sink, and what a kind of sink has to do. Everything that a kind of sink
 * does runs in the sink's own thread, with all signals held back; it may wait, but for peers only by sink_wait(), which ends
 * when the sink does.
 */
#ifndef CORDON_SINK_INTERNAL_H
#define CORDON_SINK_INTERNAL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "sink/sink.h"

/* What is known of a queued event besides its text. */
struct sink_item {
	uint32_t size; /* of the text that follows, newline included */
	uint8_t type, op, verdict, rule;
	uint64_t time_ns;   /* CLOCK_REALTIME of the event */
	uint64_t queued_ns; /* CLOCK_MONOTONIC, coarse */
	uint64_t fence_id;
};

/* --- queue.c: bytes between the writers and the sink's thread ----------------------------------------------------- */

struct sink_queue {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	char *bytes; /* records: struct sink_item, text, up to the next multiple of 8 */
	size_t size;
	size_t head;	   /* writers go on here */
	size_t next;	   /* the thread takes from here */
	size_t tail;	   /* everything before left for good */
	size_t used;	   /* bytes from tail to head */
	uint64_t n, taken; /* records from tail to head, and of these up to next */
	bool waiting, stopped;
	uint64_t lost, first_ns, last_ns; /* since the last loss record */
	uint64_t lost_total;
};

int sink_queue_init(struct sink_queue *queue, size_t size);
void sink_queue_clear(struct sink_queue *queue);

/*
 * Puts a record at the end, or counts it as lost; then, as soon as there is room, what make_gap() writes comes first.
 * make_gap(arg, count, first_ns, last_ns, ret_item, ret_text) fills the loss record's item but for its size, and returns that.
 */
typedef size_t sink_gap_fn(void *arg, uint64_t count, uint64_t first_ns, uint64_t last_ns,
			   struct sink_item *ret_item, char **ret_text);
void sink_queue_put(struct sink_queue *queue, const struct sink_item *item, const char *text,
		    sink_gap_fn *make_gap, void *arg);

/* Counts n events as lost that had been taken. */
void sink_queue_lose(struct sink_queue *queue, uint64_t n, uint64_t time_ns);

/* A loss that no event follows: puts the loss record when the queue is empty. Returns true if so. */
bool sink_queue_settle(struct sink_queue *queue, sink_gap_fn *make_gap, void *arg);

/* For the sink's thread. The oldest record that was not taken; false: there is none. Its text stays until it is released. */
bool sink_queue_peek(struct sink_queue *queue, struct sink_item *ret_item, const char **ret_text);
void sink_queue_take(
	struct sink_queue *queue); /* that one: the next peek is for the one behind it */
void sink_queue_release(struct sink_queue *queue, uint64_t n); /* the oldest n left for good */
void sink_queue_rewind(
	struct sink_queue *queue); /* what was taken and not released is there again */

/* Events that did not leave yet, those that wait for a loss record among them. */
uint64_t sink_queue_count(struct sink_queue *queue);
/* Age of the oldest record; 0: there is none. now_ns is CLOCK_MONOTONIC_COARSE. */
uint64_t sink_queue_lag_ns(struct sink_queue *queue, uint64_t now_ns);

/* Waits until there is a record to take, the queue is stopped, or timeout_ms passed. Returns whether there is one. */
bool sink_queue_wait(struct sink_queue *queue, unsigned int timeout_ms);
void sink_queue_stop(struct sink_queue *queue); /* from now on waiting ends at once */

/* --- sink.c ------------------------------------------------------------------------------------------------------- */

struct sink;

/* What put may say besides -errno. */
enum {
	SINK_TAKEN = 0,	  /* flush writes and releases it */
	SINK_SENT = 1,	  /* it left for good */
	SINK_REFUSED = 2, /* it never will; counted as lost */
};

/* A kind of sink. Everything returns 0 or -errno unless said. */
struct sink_kind {
	/* Once, by sinks_open(), in the caller's thread: what can never work. */
	int (*prepare)(struct sink *sink, struct error *error);
	/* Connects or opens; again after each failure. */
	int (*open)(struct sink *sink, struct error *error);
	/* Takes one record: SINK_*; -EAGAIN: flush first; else a failure: it is given again after the next open. */
	int (*put)(struct sink *sink, const struct sink_item *item, const char *text,
		   struct error *error);
	/* Writes out what put took, and releases it. May be NULL where put never says SINK_TAKEN. */
	int (*flush)(struct sink *sink, struct error *error);
	/* Some times a second while open. May be NULL. */
	int (*tick)(struct sink *sink, struct error *error);
	/* After a failure, and at the end (last). What was taken is kept by the kind, or rewound. */
	void (*close)(struct sink *sink, bool last);
	/* Frees what prepare made, also when that failed half way. */
	void (*free)(struct sink *sink);
};
/* config.c */
int sink_config_copy(const struct sink_config *config, struct sink_config *ret_copy);
bool sink_config_equal(const struct sink_config *a, const struct sink_config *b);

extern const struct sink_kind sink_kind_file, sink_kind_stdout, sink_kind_journald,
	sink_kind_syslog, sink_kind_kafka;

struct sink {
	struct sink_config config; /* owned */
	const struct sink_kind *kind;
	char *node;
	void *state; /* of the kind */
	pthread_t thread;
	bool started;
	struct sink_queue queue;
	uint64_t gap_seq; /* with the queue's lock */
	char *gap_text;	  /* twice EVENT_LINE_MAX, the same */
	int stop_fd;	  /* eventfd: readable from the stop on */
	atomic_bool stopping;
	atomic_ullong deadline_ns; /* CLOCK_MONOTONIC: when a stopping sink has to be done */
	atomic_bool reopen;
	/* figures */
	atomic_bool up, chain_broken;
	atomic_ullong written, bytes, failures, rotations, checkpoints;
	pthread_mutex_t problem_lock;
	char problem[256];
};

uint64_t sink_now_ns(void); /* CLOCK_MONOTONIC */

/*
 * Waits until fd is ready for events (POLLIN, POLLOUT), timeout_ms passed, or a stopping sink has to be done. Returns 0,
 * -ETIMEDOUT, or -ECANCELED.
 */
int sink_wait(struct sink *sink, int fd, short events, unsigned int timeout_ms);

/* What is wrong, for people; "" when nothing is. */
void sink_note_problem(struct sink *sink, const char *text);
/* Notes that the oldest n events, of so many bytes, left for good, and releases them. */
void sink_note_written(struct sink *sink, uint64_t n, uint64_t bytes);

/* --- batch.c: records that leave through a descriptor as one run of bytes ----------------------------------------- */

#define SINK_BATCH_BYTES 262144

/* Text on its way out; the first done bytes are gone. A piece is a record, or what stands between records. */
struct sink_batch {
	char *bytes;
	size_t used, size, done;
	struct sink_piece {
		size_t end;
		bool record;
	} * piece;
	size_t n, room, n_done; /* pieces; n_done of them are gone as a whole */
};

int sink_batch_init(struct sink_batch *batch);
void sink_batch_clear(struct sink_batch *batch);

/* Room for n more bytes; NULL: write out first, or (of an empty batch) out of memory. Longer ones than SINK_BATCH_BYTES go alone. */
char *sink_batch_reserve(struct sink_batch *batch, size_t n);
void sink_batch_add(struct sink_batch *batch, size_t n,
		    bool record); /* n bytes were written there */

/* n more bytes are gone: releases the records that are gone as a whole. An emptied batch begins anew. */
void sink_batch_advance(struct sink_batch *batch, size_t n, struct sink *sink);

/* The peer is another: everything that is not gone as a whole is given again by the queue. */
void sink_batch_rewind(struct sink_batch *batch, struct sink *sink);

#endif
