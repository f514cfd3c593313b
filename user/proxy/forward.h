/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a request in absolute form, as it goes on to the server that it is for. Pure. What belongs to the connection
 * with us stays here (RFC 9110, 7.6.1), and so does what may name another host beside Host, which is the target's own. The server
 * is told to close: one request, one answer, so that neither side's end of a message has to be found by us.
 */
#ifndef CORDON_PROXY_FORWARD_H
#define CORDON_PROXY_FORWARD_H

#include "gateway/head.h"
#include "reach/reach.h"

#define FORWARD_ADDS 512 /* bytes that the result may be longer than what came */

/*
 * bytes[0..n): a head that head_read() took for HEAD_FORM_ABSOLUTE, and *head what it found. Returns the bytes written to
 * ret_head, of n + FORWARD_ADDS.
 */
size_t forward_head(const char *bytes, size_t n, const struct head *head,
		    const struct reach_target *target, char *ret_head);

#endif
