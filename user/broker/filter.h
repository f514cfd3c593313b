/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may pass between a fence and an upstream besides bodies: which scope opens a path, which headers go there and which come
 * back, and where an answer may send the client. Pure.
 */
#ifndef CORDON_BROKER_FILTER_H
#define CORDON_BROKER_FILTER_H

#include "broker/scrub.h"
#include "gwconf/gwconf.h"

#define FILTER_HEAD_MAX (64 * 1024) /* bytes of the headers of an upstream's answer */

/* Has whoever asks the scope? */
typedef bool filter_has_fn(const void *who, const char *scope);

/*
 * The first entry of the upstream's scopes that opens path for method (a name) to who; NULL: none. Then *ret_lacking is the
 * first that would with another scope, or NULL.
 */
const struct gwconf_access *filter_access(const struct gwconf_upstream *upstream,
					  const char *method, size_t method_n, const char *path,
					  size_t path_n, filter_has_fn *has, const void *who,
					  const struct gwconf_access **ret_lacking);

/* The header in which the upstream is told for whom it is asked; NULL: it is told nobody. */
const char *filter_subject_header(const struct gwconf_upstream *upstream);

/* Does a header of the caller's request go to the upstream? */
bool filter_request_header(const struct gwconf_upstream *upstream, const char *name, size_t size);

/* Does the query name the parameter, in whatever spelling? */
bool filter_query_names(const char *query, size_t size, const char *name);

/*
 * Where an answer sends the client, as the client has to ask for it: below /up/NAME, to be freed. NULL: to another host, or not
 * to be told, or memory ended.
 */
char *filter_location(const struct gwconf_upstream *upstream, const char *value, size_t size);

/* The headers of an answer as they come in. */
struct filter_answer {
	char *lines; /* owned; names and values, each line with its LF */
	size_t n;
	bool too_long;
	long long length; /* Content-Length; -1: none, or another framing */
	bool encoded;	  /* has a Content-Encoding: what is in it cannot be seen */
	bool framed;	  /* has a Transfer-Encoding, beside which a length says nothing */
	bool ended;	  /* the empty line was there */
};

/* Takes a line of it, with or without its end. A status line behind an empty one begins anew. */
void filter_take(struct filter_answer *answer, const char *line, size_t size);

/*
 * What of it goes to the client, each line with CR and LF, and secrets hidden: to be freed; NULL when memory ends. Framing is
 * not in it.
 */
char *filter_print(struct filter_answer *answer, const struct gwconf_upstream *upstream,
		   struct scrub *scrub);
void filter_release(struct filter_answer *answer);

#endif
