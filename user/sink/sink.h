/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where events go: files, standard output, journald, syslog, Kafka. Each sink has a queue of so many bytes and a thread;
 * who writes only copies into queues, takes no lock for longer than that, and never waits for a disk or a peer. What does not fit is
 * counted, and when there is room again a loss record stands in that sink at that place: how many, and the times of the
 * first and the last. One sink's trouble is its own. Needs no privilege but what its files and sockets ask for.
 *
 * sinks_write(), _write_line(), _stats() may be called from several threads at once; open, reload, reopen and close from
 * one at a time, but beside those.
 */
#ifndef CORDON_SINK_H
#define CORDON_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/read.h"
#include "event/event.h"
#include "util/util.h"

#define SINKS_MAX 16	   /* in one configuration */
#define SINK_NAME_MAX 63   /* characters of a name */
#define SINK_KEEP_MAX 1000 /* rotated files */
#define SINK_SETTINGS_MAX 64

/* --- configuration ------------------------------------------------------------------------------------------------ */

#define SINK_TYPES(T)                                                                        \
	T(FILE, "file", "lines in a file, with rotation and hash chain")                     \
	T(STDOUT, "stdout", "lines on standard output")                                      \
	T(JOURNALD, "journald", "the systemd journal, with structured fields")               \
	T(SYSLOG, "syslog", "RFC 5424 over a unix socket, TCP (RFC 6587) or TLS (RFC 5425)") \
	T(KAFKA, "kafka", "a topic of an Apache Kafka cluster")

#define CORDON_X(e, n, d) SINK_##e,
enum sink_type { SINK_TYPES(CORDON_X) SINK_TYPE_COUNT };
#undef CORDON_X

enum sink_fsync { SINK_FSYNC_INTERVAL, SINK_FSYNC_NEVER, SINK_FSYNC_EACH };

/* One sink as it is configured; texts are owned, NULL where not given. Times in ms, sizes in bytes. */
struct sink_config {
	struct conf_mark mark;
	enum sink_type type;
	char *name;
	unsigned int format; /* enum event_format */
	long long queue_bytes;
	/* file */
	char *path;
	long long rotate_size, rotate_age_ms, keep; /* 0: never by that */
	unsigned int fsync;			    /* enum sink_fsync */
	long long fsync_ms;
	bool chain, chain_set;
	char *key;
	long long checkpoint_records, checkpoint_ms;
	/* journald, syslog, kafka */
	char *address; /* syslog, journald */
	unsigned int facility;
	char *app;
	char *ca, *certificate, *private_key, *server_name;
	char *brokers, *topic;
	struct {
		char *name, *value;
		bool secret; /* value is the path of a file that holds it */
	} setting[SINK_SETTINGS_MAX];
	size_t n_settings;
};

struct sinks_config {
	struct sink_config v[SINKS_MAX];
	size_t n;
};

/*
 * Reads the value of a key `sinks:`, a list, into the struct sinks_config at the key's offset. For a row of a table of
 * user/conf. Faults have position and nearest word.
 */
conf_read_fn sinks_read_config;

/* docs/sinks.md: what sinks do, and the rows of every type. */
void sinks_print_doc(FILE *out);

void sinks_config_clear(struct sinks_config *config);

/* --- running ------------------------------------------------------------------------------------------------------ */

struct sinks;

/*
 * Starts a thread for each sink. node (copied, may be NULL) stands in loss records. What makes a sink unsafe or can never
 * work - a symbolic link as path, a directory that others may write to, a key that others may read, an unknown setting - is an
 * error with its cause and nothing is started. What may pass - no such host, a full or read-only disk, no journal yet - is none:
 * the sink tries again, with growing pauses up to 30 s. Returns 0 or -errno.
 */
int sinks_open(const struct sinks_config *config, const char *node, struct sinks **ret_sinks,
	       struct error *error);

/* Gives one event to every sink: each format is made once. Never waits. */
void sinks_write(struct sinks *sinks, const struct event_context *context,
		 const struct event *event);

/*
 * The same for an event that is JSON already: one line of cordon.event/1 with its newline. Returns 0, or -EINVAL for what
 * is no such line (nothing was written), or -ENOMEM.
 */
int sinks_write_line(struct sinks *sinks, const char *line, size_t size);

/*
 * Goes over to another configuration: sinks that are the same in both go on undisturbed, those that are not there any more
 * write out what they hold (at most timeout_ms together) and end. On error everything stays as it was. Returns 0 or -errno.
 */
int sinks_reload(struct sinks *sinks, const struct sinks_config *config, unsigned int timeout_ms,
		 struct error *error);

/* After a rotation by others: every file whose path leads elsewhere is made anew, as soon as its thread comes to it. */
void sinks_reopen(struct sinks *sinks);

struct sink_stats {
	char name[SINK_NAME_MAX + 1];
	const char *type;
	bool up;		 /* it can write, as far as it knows */
	uint64_t written, bytes; /* events and bytes that left for good */
	uint64_t lost;		 /* events that did not fit, or that the peer refused for good */
	uint64_t failures;	 /* times that writing or connecting failed */
	uint64_t queued, queue_size; /* bytes */
	uint64_t lag_ns;	     /* age of the oldest event in the queue; 0: empty */
	uint64_t rotations, checkpoints;
	bool chain_broken; /* what was in the file did not verify when it was opened: a new chain began */
	char problem[256]; /* the last failure, for people; "" while up */
};

/* Fills v[0..max); returns how many sinks there are. */
size_t sinks_stats(struct sinks *sinks, struct sink_stats *v, size_t max);

/* Writes out what is queued, at most timeout_ms in all, and ends. Takes NULL. Returns how many events were not written. */
uint64_t sinks_close(struct sinks *sinks, unsigned int timeout_ms);

#endif
