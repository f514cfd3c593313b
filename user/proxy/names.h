/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to addresses, by c-ares, in the thread of an event base. Who is asked is the configuration's; a name is complete as
 * it is (no search list), and comes from reach_name_read(). Nothing is remembered between two questions.
 */
#ifndef CORDON_PROXY_NAMES_H
#define CORDON_PROXY_NAMES_H

#include <stdbool.h>

#include <event2/event.h>

#include "reach/reach.h"

#define NAMES_ADDRESSES_MAX 16 /* of one answer; those beyond are not looked at */

struct names;
struct lookup;

/* addresses[0..n) in the order in which they should be tried; n 0: there are none, or nobody answered. Borrowed. */
typedef void names_fn(void *context, const struct cordon_addr *addresses, size_t n);

/* servers: ADDRESS:PORT, separated by commas; NULL: the system's. NULL when it cannot be made. */
struct names *names_open(struct event_base *base, const char *servers);

/*
 * Calls fn() once, perhaps before it returns; then, and when memory ends, *ret_lookup is NULL. Returns false when memory ends:
 * fn() is not called.
 */
bool names_ask(struct names *names, const struct reach_name *name, names_fn *fn, void *context,
	       struct lookup **ret_lookup);

/* fn() is not called any more. Takes NULL. */
void lookup_forget(struct lookup *lookup);

/* Ends it when the last look-up is done, or now: then the base runs no more, and nobody waits. Takes NULL. */
void names_close(struct names *names, bool now);

#endif
