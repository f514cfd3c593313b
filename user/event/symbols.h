/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of the system call interface as the names that people know them by. Inside user/event
 * only. What has no name here is written as a number, never left out.
 */
#ifndef CORDON_EVENT_SYMBOLS_H
#define CORDON_EVENT_SYMBOLS_H

#include "event/buffer.h"

void event_symbol_errno(struct event_buffer *b, int err); /* err > 0 */
void event_symbol_signal(struct event_buffer *b, unsigned int signal);
void event_symbol_family(struct event_buffer *b, unsigned int family);
/* An IPPROTO_* where the family is AF_INET or AF_INET6; a number elsewhere. */
void event_symbol_protocol(struct event_buffer *b, unsigned int family, unsigned int protocol);
void event_symbol_socket_type(struct event_buffer *b, unsigned int type);
void event_symbol_ptrace(struct event_buffer *b, unsigned int mode);
/* A CAP_* number. */
void event_symbol_capability(struct event_buffer *b, unsigned int cap);
/* Flags of an operation of type file, by enum cordon_op. */
void event_symbol_file_flags(struct event_buffer *b, unsigned int op, unsigned int flags);
/* The kernel's encoding of a device (super_block.s_dev), as major:minor. */
void event_symbol_device(struct event_buffer *b, unsigned int dev);

#endif
