/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the proxy: one tunnel, and what those of a worker share. A worker's thread only. */
#ifndef CORDON_PROXY_TUNNEL_H
#define CORDON_PROXY_TUNNEL_H

#include "broker/canary.h"
#include "gateway/call.h"
#include "proxy/names.h"
#include "proxy/proxy.h"
#include "proxy/tell.h"

#define PIPES_KEPT 32 /* without bytes in them, for whoever needs one next */

/* Through which bytes are moved inside the kernel. */
struct pipe {
	int in, out; /* its two ends: written to, read from; -1: none */
};

struct proxy {
	struct worker *worker;
	struct names *names;
	unsigned int generation; /* of the configuration that names was made by */
	int own_fd;
	struct pipe pipes[PIPES_KEPT];
	size_t n_pipes;
};

enum tunnel_state {
	TUNNEL_RESOLVE,
	TUNNEL_DIAL,
	TUNNEL_HELLO, /* CONNECT: nothing goes on until the client said for whom it is */
	TUNNEL_RELAY,
};

/* One side: what its descriptor was last said to be ready for. */
struct side {
	struct event event;
	int fd; /* -1: none */
	bool readable, writable;
};

/* One direction. */
struct flow {
	struct pipe pipe; /* while there are bytes in it */
	size_t in_pipe;
	char *first; /* owned: what goes before all else; or NULL */
	size_t first_n, first_at;
	uint64_t left;	/* bytes that may still be read */
	uint64_t bytes; /* that were written */
	bool ended;	/* nothing more is read */
	bool shut;	/* and the other side was told */
};

struct tunnel {
	struct conn *conn;
	struct proxy *proxy;
	struct setup *setup;
	enum tunnel_state state;
	bool connect; /* CONNECT; else one request */
	bool counted; /* in the fence's number of tunnels */
	bool told;    /* its beginning was: its end is, too */
	struct reach_target target;
	struct cordon_addr addresses[NAMES_ADDRESSES_MAX]; /* that may be dialled */
	size_t n_addresses, at;
	struct lookup *lookup;
	struct side client, server;
	struct event timer;
	uint64_t deadline_ms;
	struct timespec start;
	struct flow up, down;
	struct canary_watch watch; /* of the body of one request */
	char action[20];
	const char *end; /* why it ended; NULL: it was cut */
	enum ledger_code end_code;
};

/* tunnel.c: tells of a decision, or of the end. */
void tunnel_tell(struct tunnel *tunnel, bool ended, enum ledger_code code, const char *reason);
/* So long from now on something has to happen. */
void tunnel_deadline(struct tunnel *tunnel, long long ms);
/* It ends for this reason; the connection and the tunnel are gone when this returns. */
void tunnel_finish(struct tunnel *tunnel, enum ledger_code code, const char *why);

/* relay.c: begins, and goes on with, moving bytes. The tunnel may be gone when these return. */
void relay_start(struct tunnel *tunnel);
void relay_pump(struct tunnel *tunnel);
void relay_free(struct tunnel *tunnel); /* what it holds */

#endif
