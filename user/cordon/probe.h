/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent that `cordon verify` puts into a fence: tries what it is told, a line each, and says what came of it. Runs
 * with what the fence leaves it; knows no secret.
 */
#ifndef CORDON_PROBE_H
#define CORDON_PROBE_H

/*
 * Serves stdin until it ends. Requests, and the answers, one JSON object a line:
 *   tcp ADDRESS PORT           {"errno":NAME|null,"ms":N}: connect, send a request, read
 *   udp ADDRESS PORT           the same: send
 *   dns ADDRESS                the same: a query for example.com
 *   write PATH                 the same: create the file (and remove it again)
 *   post ADDRESS PORT PATH BODY   {"status":N,"body":TEXT,...}
 * ADDRESS is IPv4 or IPv6 in text.
 */
int probe_serve(void);

#endif
