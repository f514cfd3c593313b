/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the gateway: one request to an upstream at /up, between the worker that judges it (up.c) and the thread of the pool
 * that sends it and passes its answer on (flight.c).
 */
#ifndef CORDON_GATEWAY_FLIGHT_H
#define CORDON_GATEWAY_FLIGHT_H

#include "broker/canary.h"
#include "broker/send.h"
#include "gateway/call.h"
#include "gateway/pool.h"

#define FLIGHT_HEADERS_MAX 64

struct flight {
	struct work work; /* first: resume() gets it */
	struct pool_task task;
	struct ledger_job job; /* of a scope that works once */
	struct send_sink sink;
	struct send_source source; /* of a body that is not there as a whole */
	struct canary_watch watch; /* of that */
	const char *ready,
		*whose; /* looked at, and not sent; the upstream whose placeholder was seen */
	size_t ready_n, body_at;
	long long length;   /* of the body, as it was said */
	uint64_t body_left; /* still to be read from the connection */
	bool goes_on;	    /* the client waits to be told to go on */
	struct gateway *gateway;
	unsigned int generation; /* that it was judged by last; 0: by setup */
	struct setup *setup;
	const struct gwconf_upstream *upstream; /* the setup's; NULL: there is no such */
	struct secret_store *secrets;
	struct ledger_tool *once; /* the setup's; NULL: it may be asked again */
	struct caller *caller;
	const char *scope; /* the setup's: that opened it, or would; or NULL */
	char *method, *target, *body;
	size_t body_n;
	char *headers[FLIGHT_HEADERS_MAX + 1];
	size_t n_headers;
	char action[288], tool[80];
	char key[LEDGER_KEY_MAX + 1], grant[LEDGER_NAME_MAX + 1]; /* of once */
	int64_t call;	/* number of the ledger's; 0: none */
	bool settled;	/* the ledger knows what came of it */
	time_t ready_s; /* CLOCK_BOOTTIME: since when it may be sent */
	int fd;		/* of the connection, our own; -1 */
	bool persists;	/* another request may follow on it */
	bool old;	/* HTTP/1.0: the end of the connection ends the body */
	bool chunked, whole;
	long long wait_ms;     /* for a client that does not read */
	enum ledger_code stop; /* why it was cut here; LEDGER_OK: it was not */
	enum ledger_code code;
	char reason[200];     /* for the event */
	const char *public;   /* for the caller; NULL: the same */
	struct secret secret; /* in the pool's thread only */
	struct send_result result;
	struct timespec start;
};

/* In the pool's thread: sends it, passes the answer on, writes the event, and gives the work back. */
void flight_run(struct pool_task *task);

/* Writes the event of what came of it. Any thread. */
void flight_record(const struct flight *flight);

/* Time asleep counts: other gateways do not know of it. */
time_t flight_now_s(void);

#endif
