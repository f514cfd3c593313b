/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded events, line by line: what the verbs share that read whole recordings. No privilege. */
#ifndef CORDON_LINES_H
#define CORDON_LINES_H

#include <stddef.h>
#include <stdio.h>

struct event_record;

/* Takes one event; line[size) is without its newline, and record lives until it returns. 0, or -errno, which ends the reading. */
typedef int lines_fn(void *context, const struct event_record *record, const char *line,
		     size_t size);

struct lines {
	lines_fn *fn;
	void *context;
	unsigned long long
		malformed; /* lines that are no event; the first ones were named on stderr */
};

/* One line, number `number` of `name`, without its newline. Records of a hash chain are passed over. 0, -ENOMEM, or what fn said. */
int lines_take(struct lines *lines, const char *name, unsigned long long number, const char *line,
	       size_t size);

/* All lines of a file. Longer ones than an event can be are passed over to their end. 0, -EIO, -ENOMEM, or what fn said. */
int lines_read(struct lines *lines, const char *name, FILE *file);

#endif
