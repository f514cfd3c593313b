/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom the resolver asks, by libunbound in the thread of an event base: a random number and port for each question, letters in
 * random case, TCP where an answer does not fit, answers to nothing else than what was asked. A name is asked for as it is.
 */
#ifndef CORDON_RESOLVER_UPSTREAM_H
#define CORDON_RESOLVER_UPSTREAM_H

#include <event2/event.h>

#include "resolver/message.h"
#include "util/util.h"

struct upstream;

/* servers: ADDRESS:PORT, separated by commas; NULL: the system's. 0 or -errno with error. */
int upstream_open(struct event_base *base, const char *servers, struct upstream **ret_upstream,
		  struct error *error);
/*
 * Forgets all questions: whose functions were not called when it returns, are never. Takes NULL. Not from inside one of them.
 */
void upstream_close(struct upstream *upstream);

/* One question that was asked; its memory is the asker's, and stays until fn() was called, or the upstream closed. */
struct upstream_question {
	void (*fn)(void *context, const uint8_t *p,
		   size_t n); /* p[0..n), borrowed; n 0: there is no answer */
	void *context;
};

/* Calls fn() once, perhaps before it returns, at the latest after the times of libunbound. 0 or -errno: fn() is not called. */
int upstream_ask(struct upstream *upstream, const struct reach_name *name, uint16_t type,
		 struct upstream_question *question);

#endif
