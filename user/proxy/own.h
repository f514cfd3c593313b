/* SPDX-License-Identifier: Apache-2.0 */
/* Where this host would send a packet: to itself, or out. Asks the kernel's routes; no privilege. */
#ifndef CORDON_PROXY_OWN_H
#define CORDON_PROXY_OWN_H

#include "cordon/abi.h"

/* A socket for own_judge(), or -errno. */
int own_open(void);

/*
 * 1: addr is of this host, or nothing that one host alone has (broadcast, multicast); 0: others are reached there; -errno: there
 * is no route, or it cannot be told. Does not block: the kernel answers at once.
 */
int own_judge(int fd, const struct cordon_addr *addr);

#endif
