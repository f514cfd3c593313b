/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line under construction, and the escaping of bytes that others chose. Inside user/event only.
 * Writing past the end is dropped and remembered, never done.
 */
#ifndef CORDON_EVENT_BUFFER_H
#define CORDON_EVENT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct event_buffer {
	char *p;
	size_t n, size;
	bool overflow; /* something was dropped */
};

static inline void event_buffer_put(struct event_buffer *b, const char *p, size_t n)
{
	if (n > b->size - b->n) {
		b->overflow = true;
		return;
	}
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

static inline void event_buffer_puts(struct event_buffer *b, const char *text)
{
	event_buffer_put(b, text, strlen(text));
}

static inline void event_buffer_putc(struct event_buffer *b, char c)
{
	event_buffer_put(b, &c, 1);
}

void event_buffer_printf(struct event_buffer *b, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Decimal, without the cost of printf; width pads with zeros from the left. */
void event_buffer_uint(struct event_buffer *b, uint64_t n, unsigned int width);

/* The same in hexadecimal. */
void event_buffer_hex(struct event_buffer *b, uint64_t n, unsigned int width);

/*
 * Bytes that need not be UTF-8 as the inside of a JSON string. What is not UTF-8, and what could
 * act on a terminal or reorder text, becomes \xNN, byte by byte; a backslash is doubled; so the
 * text gives the bytes back without doubt.
 */
void event_escape_json(struct event_buffer *b, const char *p, size_t n);

/*
 * The same characters as \xNN for a terminal; a backslash stays, because the text of an event is
 * escaped already.
 */
void event_escape_text(struct event_buffer *b, const char *p, size_t n);

/* Is there anything in p[n] that must not reach a terminal? */
bool event_text_is_unsafe(const char *p, size_t n);

#endif
