/* SPDX-License-Identifier: Apache-2.0 */
/* Text that has the form of a known secret. Inside user/event only. */
#ifndef CORDON_EVENT_REDACT_H
#define CORDON_EVENT_REDACT_H

#include <stdbool.h>
#include <stddef.h>

#define EVENT_REDACTED "[redacted]"

/*
 * Finds the first secret in p[n]: the password in a URL, the value of token= and the like, what follows Bearer or Basic, tokens that
 * are known by their beginning, JSON web tokens. Returns false when there is none; else *ret_at and *ret_length say what to leave out.
 */
bool event_redact_find(const char *p, size_t n, size_t *ret_at, size_t *ret_length);

#endif
