/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `cordon top` shows, apart from terminal and sockets: two answers of cordond make rates, lines of events make the list
 * of the last denials. What comes in holds texts that agents had a part in; what goes out is printable ASCII.
 */
#ifndef CORDON_TOP_H
#define CORDON_TOP_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#define TOP_DENIALS_MAX 10	/* shown, the latest last */
#define TOP_DENIAL_TEXT_MAX 511 /* bytes of one */

struct top {
	json_t *rows, *rows_before, *status, *status_before; /* owned */
	uint64_t ms, ms_before; /* when they came; ms_before 0: there is only one */
	char denial[TOP_DENIALS_MAX][TOP_DENIAL_TEXT_MAX + 1];
	uint64_t n_denials; /* seen so far */
	char *line;	    /* room for one event as text */
};

/* 0 or -ENOMEM. */
int top_open(struct top *ret_top);
void top_close(struct top *top); /* takes a zeroed one */

/* An answer of cordond: rows as of fences_ask(), which are taken over, at now_ms (any clock that only goes forward). */
void top_take(struct top *top, json_t *rows, json_t *status, uint64_t now_ms);

/* One line of events: noted if it is a denial, passed over if it is none or no event. */
void top_event(struct top *top, const char *line, size_t size);

/*
 * The whole as at most height lines of at most width columns, height 0: as many as there are. Fences that are denied most at this time
 * come first. end stands before each newline: what clears the rest of a line, or "".
 */
void top_print(FILE *out, const struct top *top, unsigned int width, unsigned int height,
	       const char *end);

#endif
