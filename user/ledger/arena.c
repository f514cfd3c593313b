// SPDX-License-Identifier: Apache-2.0
/* See arena.h. No privilege. A failed allocation is reported, never fatal. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/arena.h"
#include "util/util.h"

#define BLOCK_SIZE (64 * 1024)
#define ALIGN 16

struct arena_block {
	struct arena_block *next;
	size_t used, room;
	_Alignas(ALIGN) unsigned char data[];
};

void *arena_take(struct arena *arena, size_t size)
{
	struct arena_block *block = arena->blocks;
	void *piece;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (!block || block->room - block->used < size) {
		size_t room = size > BLOCK_SIZE / 4 ? size : BLOCK_SIZE;

		block = malloc(sizeof(*block) + room);
		if (!block)
			return NULL;
		block->used = 0;
		block->room = room;
		/* A block of one big piece goes behind, so that the open one stays open. */
		if (room != BLOCK_SIZE && arena->blocks) {
			block->next = arena->blocks->next;
			arena->blocks->next = block;
		} else {
			block->next = arena->blocks;
			arena->blocks = block;
		}
	}
	piece = block->data + block->used;
	block->used += size;
	return memset(piece, 0, size);
}

char *arena_copy(struct arena *arena, const char *text, size_t size)
{
	char *copy = arena_take(arena, size + 1);

	if (copy && size)
		memcpy(copy, text, size);
	return copy;
}

char *arena_string(struct arena *arena, const char *text)
{
	return arena_copy(arena, text ? text : "", text ? strlen(text) : 0);
}

void arena_reset(struct arena *arena)
{
	struct arena_block *keep = NULL;

	while (arena->blocks) {
		struct arena_block *next = arena->blocks->next;

		if (!keep && arena->blocks->room == BLOCK_SIZE)
			keep = arena->blocks;
		else
			free(arena->blocks);
		arena->blocks = next;
	}
	if (keep) {
		keep->used = 0;
		keep->next = NULL;
		arena->blocks = keep;
	}
}

void arena_free(struct arena *arena)
{
	while (arena->blocks) {
		struct arena_block *next = arena->blocks->next;

		free(arena->blocks);
		arena->blocks = next;
	}
}

void text_add(struct text *text, const char *data, size_t size)
{
	if (text->failed)
		return;
	if (!text->data || text->room - text->size <= size) {
		size_t room = (text->size + size + 1) * 2;
		char *bigger = arena_take(text->arena, room < 512 ? 512 : room);

		if (!bigger) {
			text->failed = true;
			return;
		}
		if (text->size)
			memcpy(bigger, text->data, text->size);
		text->data = bigger;
		text->room = room < 512 ? 512 : room;
	}
	if (size)
		memcpy(text->data + text->size, data, size);
	text->size += size;
	text->data[text->size] = '\0';
}

void text_puts(struct text *text, const char *string)
{
	text_add(text, string, strlen(string));
}

void text_number(struct text *text, int64_t number)
{
	char digits[UTIL_DECIMAL_SIZE];

	text_add(text, digits, util_decimal(number, digits));
}

/* Length of the UTF-8 sequence at s, 0 when it is none (overlong, surrogate, cut off). */
static size_t utf8_length(const unsigned char *s)
{
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		return (s[1] & 0xc0) == 0x80 ? 2 : 0;
	if (s[0] >= 0xe0 && s[0] <= 0xef) {
		if ((s[1] & 0xc0) != 0x80 || (s[0] == 0xe0 && s[1] < 0xa0) ||
		    (s[0] == 0xed && s[1] > 0x9f))
			return 0;
		return (s[2] & 0xc0) == 0x80 ? 3 : 0;
	}
	if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		if ((s[1] & 0xc0) != 0x80 || (s[0] == 0xf0 && s[1] < 0x90) ||
		    (s[0] == 0xf4 && s[1] > 0x8f) || (s[2] & 0xc0) != 0x80)
			return 0;
		return (s[3] & 0xc0) == 0x80 ? 4 : 0;
	}
	return 0;
}

bool text_is_plain(const char *string, bool blanks)
{
	const unsigned char *s = (const unsigned char *)string;

	while (*s) {
		size_t n = utf8_length(s);

		if (n == 0 || *s == 0x7f ||
		    (*s < 0x20 && !(blanks && (*s == '\t' || *s == '\n' || *s == '\r'))))
			return false;
		s += n;
	}
	return true;
}

void text_json(struct text *text, const char *string)
{
	const unsigned char *s = (const unsigned char *)(string ? string : "");

	text_add(text, "\"", 1);
	while (*s) {
		const unsigned char *plain = s;
		char escape[8];
		size_t n;

		/* What needs no escape is added in one piece. */
		while (*s >= 0x20 && *s < 0x7f && *s != '"' && *s != '\\')
			s++;
		text_add(text, (const char *)plain, (size_t)(s - plain));
		if (!*s)
			break;
		n = utf8_length(s);
		if (n == 0) {
			text_puts(text, "\xef\xbf\xbd");
			n = 1;
		} else if (*s == '"' || *s == '\\') {
			escape[0] = '\\';
			escape[1] = (char)*s;
			text_add(text, escape, 2);
		} else if (*s < 0x20 || *s == 0x7f) {
			snprintf(escape, sizeof(escape), "\\u%04x", *s);
			text_puts(text, escape);
		} else {
			text_add(text, (const char *)s, n);
		}
		s += n;
	}
	text_add(text, "\"", 1);
}

static void member_name(struct text *text, const char *name)
{
	if (text->size && text->data[text->size - 1] != '{')
		text_add(text, ",", 1);
	text_json(text, name);
	text_add(text, ":", 1);
}

void text_member(struct text *text, const char *name, const char *string)
{
	member_name(text, name);
	text_json(text, string);
}

void text_member_number(struct text *text, const char *name, int64_t number)
{
	member_name(text, name);
	text_number(text, number);
}

void text_hex(const uint8_t *bytes, size_t size, char *ret)
{
	util_hex(bytes, size, ret);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

bool text_unhex(const char *hex, uint8_t *ret, size_t size)
{
	if (!hex || strlen(hex) != 2 * size)
		return false;
	for (size_t i = 0; i < size; i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}
