/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures about a running daemon, for Prometheus. Names, kinds, labels and meanings are rows of metrics/table.h; docs/metrics.md is
 * printed from them. Counting takes no lock and no memory: each series has its place, found by an index. Series whose labels are
 * known only at run time have one of METRICS_LABELS_MAX places; what finds none is counted as "other". One registry a process.
 * Functions without a return value cannot fail.
 */
#ifndef CORDON_METRICS_H
#define CORDON_METRICS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "metrics/table.h"
#include "util/util.h"

#define METRICS_LABELS_MAX 64	  /* values of a label that is known only at run time */
#define METRICS_LABEL_TEXT_MAX 63 /* bytes of one; the rest is cut off */

#define CORDON_X(e, kind, name, label_a, label_b, doc) METRIC_##e,
enum metric { CORDON_METRICS(CORDON_X) METRIC_COUNT };
#undef CORDON_X

/*
 * Adds to a counter or a gauge. a, b: values of the labels: numbers of tables.h (enum cordon_type, _verdict, _fault, _rule), or what
 * metrics_label() gave; 0 where there is no label. Beyond the label's values: counted as the last. May be called from any thread.
 */
void metrics_add(enum metric metric, unsigned int a, unsigned int b, double value);

/* Sets a gauge, or a counter that is kept elsewhere. */
void metrics_set(enum metric metric, unsigned int a, unsigned int b, double value);

/* Notes a value in a histogram. */
void metrics_observe(enum metric metric, double value);

/*
 * The number of a free label's value: the same for the same text, for all metrics that have this label. Takes a lock: ask once. Forgetting
 * takes away its series, when a sink is gone.
 */
unsigned int metrics_label(enum metric metric, const char *value);
void metrics_forget(enum metric metric, const char *value);

/* Everything in the text format of Prometheus, 0.0.4. Returns 0 or -errno of the write. */
int metrics_write(FILE *out);

/* docs/metrics.md. */
void metrics_print_doc(FILE *out);

/* For tests: everything back to nothing. */
void metrics_reset(void);

/* --- the endpoint: server.c ----------------------------------------------------------------------------------------- */

struct event_base;
struct metrics_server;

/* Called before each answer, to set what is not counted as it happens. */
typedef void metrics_refresh_fn(void *arg);

#define METRICS_CONNECTIONS_MAX 16 /* more are closed at once */
#define METRICS_REQUEST_MAX 4096   /* bytes; a longer one is refused */
#define METRICS_TIME_MAX_MS 5000   /* for a request and its answer */

/*
 * Answers GET /metrics in the caller's event loop (libevent; NULL: in one of its own, see metrics_server_turn()) on address: "unix:PATH", "HOST:PORT" or "[HOST]:PORT", numbers only.
 * refresh may be NULL. A unix socket is made with mode 0660; one that nobody listens on is replaced. Whoever can connect can read
 * the names of sinks and all figures. Returns 0 or -errno with the cause.
 */
int metrics_serve(struct event_base *base, const char *address, metrics_refresh_fn *refresh,
		  void *arg, struct metrics_server **ret_server, struct error *error);
/* With a loop of its own: does what can be done now, without waiting. To be called some times a second. */
void metrics_server_turn(struct metrics_server *server); /* takes NULL */
void metrics_server_free(struct metrics_server *server); /* takes NULL */

#endif
