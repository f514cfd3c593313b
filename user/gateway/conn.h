/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the server: one connection, and the worker that it belongs to. A worker's thread only. */
#ifndef CORDON_GATEWAY_CONN_H
#define CORDON_GATEWAY_CONN_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include "gateway/server.h"

enum conn_state {
	CONN_IDLE,   /* between requests */
	CONN_READ,   /* a request is not whole */
	CONN_BUSY,   /* a request is handled */
	CONN_WRITE,  /* an answer does not fit into the socket */
	CONN_TUNNEL, /* its bytes are the proxy's */
	CONN_LINGER, /* all is said; what still comes is thrown away, so that the answer arrives */
};

struct conn {
	struct conn *next, *prev;
	struct worker *worker;
	struct caller *caller; /* NULL: no fence */
	struct work *work;     /* of the request under way, or NULL */
	struct tunnel *tunnel; /* the proxy's part, or NULL */
	struct event io, timer;
	int fd;
	enum conn_state state;
	bool paused;	 /* nothing is read: what comes waits in the socket */
	bool processing; /* requests are being taken from a buffer */
	bool bodiless;	 /* HEAD: the answer has none, whatever its length says */
	bool close_after, continued, writing;
	uint64_t deadline_ms, timer_ms; /* timer_ms: when the timer goes off; 0: not set */
	char *in; /* bytes that are no whole request, or came behind one that is handled */
	size_t in_n, in_room, in_need; /* in_need: a whole request has so many; 0: not known */
	char *out;
	size_t out_n, out_at;
};

/* Connections that are to be cut: all of a fence that has ended, or what goes out through those that a revocation names. */
struct cut {
	bool ended;
	enum ledger_revoke_by by;
	uint64_t fence;			 /* LEDGER_REVOKE_FENCE */
	char value[LEDGER_NAME_MAX + 1]; /* all others */
};

struct worker {
	pthread_t thread;
	struct server *server;
	struct gateway *gateway;
	struct event_base *base;
	struct event wake;
	int wake_fd;
	struct conn *conns;
	size_t n_conns, n_works;
	bool draining;
	struct setup *setup; /* of generation; the worker's own reference */
	unsigned int generation;
	struct proxy *proxy; /* the proxy's part; NULL: not used yet */
	char *scratch;	     /* of scratch_size bytes */
	size_t scratch_size;
	char date[40]; /* of date_s */
	time_t date_s;

	pthread_mutex_t mutex; /* of what follows */
	struct conn *new_conns;
	struct work *done_first, **done_last;
	struct cut *cuts;
	size_t n_cuts, cuts_room;
	bool woken, drain, cut;
};

struct server {
	struct gateway *gateway;
	server_handle_fn *handle;
	struct worker *workers;
	size_t n_workers;
	struct acceptor *acceptor;
	struct callers *callers;
	struct share unknown;	 /* of all who are no fence */
	int64_t unknown_told_ms; /* by server_tell() only; 0: never */
	atomic_uint open;	 /* connections */
	_Atomic uint64_t accepted, refused, requests, malformed, timeouts;
};

/* Takes over fd and the reference to caller (may be NULL). NULL when memory ends; then fd is closed. */
struct conn *conn_new(struct server *server, int fd, struct caller *caller);
/* In the worker's thread: begins to serve it. */
void conn_start(struct worker *worker, struct conn *conn);
void conn_close(struct conn *conn);
/* Cuts what goes to somebody else by it, tunnels and streams; of other requests the ledger judges what was revoked. */
void conn_revoke(struct conn *conn);
/* The proxy takes the descriptor over (CONN_TUNNEL), and gives it back when all is said: what still comes is thrown away. */
void conn_detach(struct conn *conn);
void conn_linger(struct conn *conn);
/* Frees what conn_new() made and no worker has seen. */
void conn_drop(struct server *server, struct conn *conn);

/* The configuration of now; lives until the worker asks again. */
struct setup *worker_setup(struct worker *worker);

/* Starts and ends the threads. */
int worker_open(struct server *server, struct worker *worker);
void worker_give_conn(struct worker *worker, struct conn *conn);
/* Any thread. */
void worker_cut(struct worker *worker, const struct cut *cut);
void worker_drain(struct worker *worker, bool cut);
void worker_close(struct worker *worker); /* after its thread ended */

/* The acceptor. */
int acceptor_open(struct server *server, const struct gwconf *conf, struct acceptor **ret_acceptor,
		  struct error *error);
int acceptor_reload(struct acceptor *acceptor, const struct gwconf *next, struct error *error);
void acceptor_close(struct acceptor *acceptor); /* takes NULL; no connection is accepted after it */

uint64_t server_now_ms(void);

#endif
