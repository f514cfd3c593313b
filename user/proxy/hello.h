/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first thing that a TLS client says: one strict reading of the bytes, for the name in it. Pure: no I/O, no memory.
 *
 * What has two readings is refused: a name that stands twice or not at all, an extension that stands twice, lengths that do
 * not add up, anything behind the message in its last record, SSLv2's form. So is what hides the name: Encrypted
 * ClientHello (RFC 9849) and the ESNI of its drafts, also where it is only a decoy (GREASE), which looks the same.
 */
#ifndef CORDON_PROXY_HELLO_H
#define CORDON_PROXY_HELLO_H

#include <stddef.h>
#include <stdint.h>

#include "reach/reach.h"

#define HELLO_BYTES_MAX 16384 /* records and their heads; what a browser sends is a tenth */
#define HELLO_RECORDS_MAX 32
#define HELLO_EXTENSIONS_MAX 128

#define HELLO_PARTIAL 0

/*
 * Reads p[0..n), the first bytes of a connection. Returns the bytes of the records that the message fills, HELLO_PARTIAL when
 * more is needed, or -EBADMSG with *ret_reason, a constant text. A longer buffer never turns an error into another, or a
 * message into an error.
 */
int hello_read(const uint8_t *p, size_t n, struct reach_name *ret_name, const char **ret_reason);

#endif
