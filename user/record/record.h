/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the gateway's decisions are told: lines of cordon.event/1 to a file, to standard output or to a socket, or frames
 * (event/frame.h) to cordond, which answers for each when it has given it to those who follow. The
 * ledger's record is what a decision rests on; this is the stream that people and machines follow. A line that cannot
 * be written is kept, and while one is kept record_ready() says so: the gateway then refuses new calls (503) instead of
 * deciding what nobody would see. May be used from several threads.
 */
#ifndef CORDON_RECORD_H
#define CORDON_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "util/util.h"

struct record;

#define RECORD_DAEMON "cordond" /* the target; "cordond:PATH": one whose socket is elsewhere */
#define RECORD_ANSWER_MS 5000	/* how long cordond may take to answer for an event */
#define RECORD_KEPT_MAX (4 * 1024 * 1024) /* bytes of lines that could not be written yet */

/*
 * Opens target: RECORD_DAEMON, "-" for standard output, the path of a listening unix socket (SOCK_STREAM), or a file that is appended
 * to, made with mode 0640. NULL: none, everything is dropped. Returns 0 or -errno with the cause. A socket that nobody
 * listens on yet, or a cordond that does not run, is no error: record_ready() says so until somebody does.
 */
int record_open(const char *target, struct record **ret_record, struct error *error);

/* Is it cordond? Then frames are what is written, else lines. */
bool record_takes_frames(const struct record *record);

/* How long cordond may take from the next connection on, instead of RECORD_ANSWER_MS. */
void record_set_answer_ms(struct record *record, unsigned int ms);

/* To be called, with a lock held, whenever target cannot be written to any more (err is -errno) or can again (0). */
typedef void record_change_fn(void *context, const char *target, int err);
void record_on_change(struct record *record, record_change_fn *fn, void *context);

/*
 * Writes one line (with its newline), or one frame, whose instance and number are filled in; after those that are kept.
 * Returns 0, or -errno: it is kept, or, with -ENOBUFS, dropped, because too much is kept already. May take
 * RECORD_ANSWER_MS, where cordond does not answer.
 */
int record_write(struct record *record, const char *line, size_t size);

/* Can a line be written, as far as can be told? Tries to write what is kept. 0 or -errno. Cheap while all is well. */
int record_ready(struct record *record);

/* Opens the target anew: after a log rotation. 0 or -errno; on failure the old one stays. */
int record_reopen(struct record *record);

/* How many lines were dropped. */
unsigned long long record_dropped(const struct record *record);

void record_close(struct record *record); /* takes NULL */

#endif
