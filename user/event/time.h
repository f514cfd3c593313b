/* SPDX-License-Identifier: Apache-2.0 */
/* Wall clock times as text, RFC 3339. Inside user/event only. */
#ifndef CORDON_EVENT_TIME_H
#define CORDON_EVENT_TIME_H

#include "event/buffer.h"

/* ns since 1970 as 2026-01-02T03:04:05.000000006Z. */
void event_time_put(struct event_buffer *b, uint64_t time_ns);

#endif
