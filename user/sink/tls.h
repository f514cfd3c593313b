/* SPDX-License-Identifier: Apache-2.0 */
/* TLS to a peer whose certificate is verified, without hanging on it. Inside user/sink only. */
#ifndef CORDON_SINK_TLS_H
#define CORDON_SINK_TLS_H

#include "sink/internal.h"

struct tls; /* what a configuration asks for, and the connection, if there is one */

/* Reads the files. host: whose certificate it has to be, unless the configuration names another. 0 or -errno with the cause. */
int tls_new(const struct sink_config *config, const char *host, struct tls **ret_tls,
	    struct error *error);
void tls_free(struct tls *tls); /* takes NULL */

/* The handshake on a connected socket, which stays the caller's. */
int tls_connect(struct tls *tls, struct sink *sink, int fd, struct error *error);
void tls_close(struct tls *tls);

/* Writes some of p[n]; waits for the peer. Returns bytes or -errno with the cause. */
ssize_t tls_write(struct tls *tls, struct sink *sink, int fd, const char *p, size_t n,
		  struct error *error);

/* Has the peer ended the connection? Reads, and drops, what it says. */
bool tls_is_over(struct tls *tls);

#endif
