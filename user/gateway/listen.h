/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets of the gateway. */
#ifndef CORDON_GATEWAY_LISTEN_H
#define CORDON_GATEWAY_LISTEN_H

#include "gwconf/gwconf.h"

/*
 * A bound, listening, nonblocking socket, ready for identity. A unix socket is made with mode 0666: who
 * may connect is decided by identity, and by the directory that it lies in. A socket file on which nobody
 * listens is replaced. Returns the descriptor or -errno with error.
 */
int listen_open(const struct gwconf_listen *address, struct error *error);

/* A bound, nonblocking socket for datagrams; address is none of a unix socket. As above. */
int listen_open_datagrams(const struct gwconf_listen *address, struct error *error);

/* Closes it; the file of a unix socket goes. */
void listen_close(int fd, const struct gwconf_listen *address);

#endif
