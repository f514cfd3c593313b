/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one transaction: pieces are taken one after another and given back all at once. And text that grows in
 * it. Not thread-safe.
 */
#ifndef CORDON_LEDGER_ARENA_H
#define CORDON_LEDGER_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_block;

struct arena {
	struct arena_block *blocks; /* newest first; {0} is an empty arena */
};

/* size bytes of zeroes, aligned for everything; NULL: no memory. */
void *arena_take(struct arena *arena, size_t size);
/* Copies; NULL: no memory. The copy ends with a NUL. */
char *arena_copy(struct arena *arena, const char *text, size_t size);
char *arena_string(struct arena *arena, const char *text);
/* Gives all pieces back, keeps one block for the next transaction. */
void arena_reset(struct arena *arena);
void arena_free(struct arena *arena);

struct text {
	struct arena *arena;
	char *data; /* NUL-terminated as soon as something was added */
	size_t size, room;
	bool failed; /* no memory: sticky, everything added later is dropped */
};

void text_add(struct text *text, const char *data, size_t size);
void text_puts(struct text *text, const char *string);
void text_number(struct text *text, int64_t number);
/* A JSON string with quotes. Bytes that are no UTF-8 become U+FFFD; NULL is an empty string. */
void text_json(struct text *text, const char *string);
/* ,"name":"string" and ,"name":number - without the comma after '{' or at the start. */
void text_member(struct text *text, const char *name, const char *string);
void text_member_number(struct text *text, const char *name, int64_t number);
/* Whether a string is UTF-8 without control characters; blanks: tab and newline may be in it. */
bool text_is_plain(const char *string, bool blanks);
/* Hexadecimal of bytes; ret has room for 2 * size + 1. */
void text_hex(const uint8_t *bytes, size_t size, char *ret);
/* Bytes of exactly 2 * size hexadecimal digits; false: it is something else. */
bool text_unhex(const char *hex, uint8_t *ret, size_t size);

#endif
