/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to peers without hanging on them. Inside user/sink only; in the sink's thread. */
#ifndef CORDON_SINK_NET_H
#define CORDON_SINK_NET_H

#include "sink/internal.h"

enum {
	NET_TIMEOUT_MS = 10000
}; /* for a connection, a handshake, and for room in a peer's buffer */

/* A connected unix socket of that type (SOCK_DGRAM, SOCK_STREAM), not blocking; or -errno with the cause. */
int net_connect_unix(const char *path, int type, struct error *error);

/* The same over TCP, to any of the host's addresses. Looking up a name may take as long as the resolver takes. */
int net_connect_tcp(struct sink *sink, const char *host, const char *port, struct error *error);

/* Splits "HOST:PORT" or "[HOST]:PORT" in place. Returns 0 or -EINVAL. */
int net_split(char *address, char **ret_host, char **ret_port);

#endif
