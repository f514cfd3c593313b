/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forward proxy: requests of fences for somebody else, by name. CONNECT opens a tunnel for TLS, the absolute form
 * (`GET http://NAME/`) is one request and its answer. What is reached is decided in reach/reach.h, by name, then by each
 * address that the name leads to; it is resolved once, and what was judged is what is dialled.
 *
 * A connection that came for this stays its server's: it counts for its fence, and is cut with it (conn.h). All of this
 * runs in the worker's thread and does not block, but for the event of a decision.
 */
#ifndef CORDON_PROXY_H
#define CORDON_PROXY_H

#include "gateway/conn.h"

/* The proxy's part of one worker: resolver, pipes. Made by its first tunnel. */
struct proxy;
/* One request of a connection for somebody else. */
struct tunnel;

/*
 * Begins. head lies at bytes[0..head_n), and what came behind it up to bytes[n]: all borrowed. Answers by conn_answer(), or
 * takes the connection's bytes over (CONN_TUNNEL); from then on its end ends the connection.
 */
void tunnel_start(struct conn *conn, struct setup *setup, const struct head *head,
		  const char *bytes, size_t head_n, size_t n);

/* The connection ends, for whatever reason: tells of it, and frees. Takes NULL. */
void tunnel_end(struct tunnel *tunnel);

/* Its end, which follows, is to be told as a revocation. */
void tunnel_revoke(struct tunnel *tunnel);

void proxy_close(struct proxy *proxy); /* takes NULL; there are no tunnels any more */

#endif
