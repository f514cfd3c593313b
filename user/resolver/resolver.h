/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver of fences (`dns` of the configuration; the kernel leads to it whatever a fence with `network.dns: gateway` sends to
 * port 53): a thread of the gateway's. It answers addresses (A, AAAA) and aliases (CNAME) of the names that the asking fence may
 * reach by the proxy, and asks nobody for anything else.
 *
 * Who asks is told by the kernel, as in all of the gateway (identity/identity.h): by the mark in the SYN of a TCP connection, for a
 * datagram by the note that the kernel made of it when the fence sent it. A datagram that nobody noted is answered with
 * "truncated": whoever is a fence comes again by TCP, where it can be told. What comes by TCP and is no fence's is REFUSED.
 *
 * Nothing here decides what was not told: while events cannot be written, the answer is SERVFAIL.
 */
#ifndef CORDON_RESOLVER_H
#define CORDON_RESOLVER_H

#include "util/util.h"

struct gateway;
struct resolver;

/* Opens what the configuration names in `dns`; *ret_resolver is NULL where that is nothing. 0 or -errno with error. */
int resolver_open(struct gateway *gateway, struct resolver **ret_resolver, struct error *error);
/* Ends the thread; who waits for an answer gets none. Takes NULL. */
void resolver_close(struct resolver *resolver);

#endif
