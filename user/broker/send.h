/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of a fence to an upstream, with a credential that only the gateway has, and the answer as it comes in. Nothing is
 * sent twice and no redirect is followed. Blocks for as long as the answer lasts: for pools.
 */
#ifndef CORDON_BROKER_SEND_H
#define CORDON_BROKER_SEND_H

#include "broker/filter.h"
#include "broker/secret.h"

#define SEND_TIME_MAX_S 3600 /* of one answer, streams too */

/* Where the body of a request comes from that is not there as a whole. */
struct send_source {
	/* Up to n of the next bytes; <= 0 ends the transfer. Blocks for as long as the sender may be silent. */
	ssize_t (*read)(struct send_source *source, char *p, size_t n);
	long long length;
};

struct send_request {
	const struct gwconf_upstream *upstream;
	const char *method;   /* one of gwconf_up_methods */
	const char *target;   /* path and query */
	char *const *headers; /* lines that filter_request_header() let through; end with NULL */
	const char *body;
	size_t body_n;
	struct send_source *source;  /* in the place of body; or NULL */
	const struct secret *secret; /* NULL: none */
};

/* Where the answer goes. What returns < 0 ends the transfer. */
struct send_sink {
	/*
	 * The head: once, before any body. headers as of filter_print(); length of the body, -1: known at its end; bodiless: none
	 * follows, whatever length says.
	 */
	int (*begin)(struct send_sink *sink, long status, const char *headers, long long length,
		     bool bodiless);
	int (*body)(struct send_sink *sink, const char *p, size_t n);
	bool (*gone)(struct send_sink *
			     sink); /* does nobody want it any more? Asked once a second at least */
};

enum send_end {
	SEND_WHOLE,	/* begin() and all of the body */
	SEND_FAILED,	/* nothing left, or nothing that a server saw: no begin() */
	SEND_AMBIGUOUS, /* it left, and no answer came: no begin() */
	SEND_TOO_LONG,	/* of answer_bytes; before or after begin() */
	SEND_UNSEEN,	/* encoded, so that secrets could not be seen in it: no begin() */
	SEND_CUT,	/* after begin(): by the upstream, by its silence or by the sink */
};

struct send_result {
	enum send_end end;
	bool began;  /* begin() was called */
	long status; /* of the upstream; 0: none came */
};

void send_run(const struct send_request *request, struct send_sink *sink,
	      struct send_result *ret_result);

#endif
