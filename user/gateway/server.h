/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 over TCP and unix sockets: connections, their limits and times, and nothing of tools. Bytes
 * are read by head.h; libevent says when a descriptor is ready and when time is up.
 *
 * An acceptor thread takes connections, asks once who made each, and deals them out to the workers, so
 * that a caller whose identity takes time holds up no other's request. A connection belongs to one
 * worker. Each holds no buffer while it is idle; bytes are read into the worker's, and copied only when a
 * request is not whole.
 */
#ifndef CORDON_GATEWAY_SERVER_H
#define CORDON_GATEWAY_SERVER_H

#include "gateway/callers.h"
#include "gateway/gateway.h"
#include "gateway/head.h"

struct conn;
struct worker;

/*
 * Something that a request waits for. Made by who handles the request; whoever has done the waiting gives
 * it back by worker_post(), and then resume() runs in the worker's thread. conn is NULL once the client
 * went away: the work still has to be brought to its end.
 */
struct work {
	struct worker *worker;
	struct conn *conn;
	void (*resume)(struct work *work);
	struct work *next;
	const char *grant; /* that it stands on; or NULL */
	bool streams;	   /* bytes go to somebody else and back for as long as it lasts */
};

/* A whole request. Everything is borrowed, and gone when handle() returns. */
struct request {
	struct gateway *gateway;
	struct setup *setup; /* of now; setup_ref() to keep it */
	struct worker *worker;
	struct conn *conn;
	struct caller *caller; /* NULL: no fence made this connection; caller_ref() to keep it */
	struct share *share;   /* the caller's, or that of all who are no fence */
	const struct head *head;
	const char *body;
	size_t body_n;
	uint64_t body_left; /* of an upstream's: bytes that are still to be read from the connection, which ends then */
};

/*
 * Handles a request: calls conn_answer() now, or conn_wait() and conn_answer() later. Runs in a worker's
 * thread and must not block.
 */
typedef void server_handle_fn(const struct request *request);

/* A worker's thread only. The answer to the request under way; body is JSON, or empty. */
void conn_answer(struct conn *conn, int status, const char *body, size_t body_n);
/* The same with further headers, each with its CR and LF. */
void conn_answer_with(struct conn *conn, int status, const char *headers, const char *body,
		      size_t body_n);
/* The same, of what may be tried again after a second: says so in a header. */
void conn_answer_later(struct conn *conn, int status, const char *body, size_t body_n);
/* The request under way is work from here on, until work_end(), which comes after the answer. */
void conn_wait(struct conn *conn, struct work *work);
void work_end(struct work *work);
/*
 * For work whose answer is a stream: a descriptor of the connection, to which another thread writes a whole answer while the
 * request is under way; it is shut down when the connection ends. -errno. Later, in the worker's thread, conn_streamed() says
 * that this is done; whole: the client can tell where it ended. conn_persists(): will another request be read after it?
 */
int conn_borrow(struct conn *conn);
bool conn_persists(const struct conn *conn);
void conn_streamed(struct conn *conn, bool whole);
/* Any thread: what work waited for has come. */
void worker_post(struct work *work);

/*
 * Binds the addresses of the setup (checked: a unix socket that somebody listens on is not taken away) and
 * starts the threads. 0 or -errno with error.
 */
int server_open(struct gateway *gateway, server_handle_fn *handle, struct server **ret_server,
		struct error *error);

/*
 * Changes the addresses to those of next: new ones are bound first, then old ones closed. On failure
 * nothing has changed. Connections are left alone.
 */
int server_reload(struct server *server, const struct gwconf *next, struct error *error);

/*
 * What was revoked is so in the ledger: cuts what goes out, by the proxy and at /up, for the fences that by and value (as of struct
 * ledger_job) name, or by the grant. Other requests of theirs go on. Any thread; within milliseconds after it returns.
 */
void server_revoke(struct server *server, enum ledger_revoke_by by, const char *value);

/*
 * No new connections; idle ones are closed, requests under way finish, at most drain_ms long. Ends the
 * threads. Returns the number of requests that were cut.
 */
size_t server_drain(struct server *server, long long drain_ms);
void server_close(struct server *server); /* after server_drain(); takes NULL */

/*
 * Tells of callers that ask more than their rate, as callers_tell(); all that are no fence are told as NULL. To be called once
 * a second. Not in a worker: told() may block.
 */
void server_tell(struct server *server, bool all, callers_told_fn *told, void *context);

/* Counters. */
struct server_counts {
	uint64_t accepted, refused, requests, malformed, timeouts;
	uint64_t open;
};
void server_count(const struct server *server, struct server_counts *ret_counts);

#endif
