// SPDX-License-Identifier: Apache-2.0
/* See buffer.h. */
#include "event/buffer.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/util.h"

void event_buffer_printf(struct event_buffer *b, const char *format, ...)
{
	char text[256];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(text))
		b->overflow = true;
	else
		event_buffer_put(b, text, (size_t)n);
}

/* "00" to "99". */
static const char pairs[] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
	"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
	"8081828384858687888990919293949596979899";

void event_buffer_uint(struct event_buffer *b, uint64_t n, unsigned int width)
{
	char digits[20];
	size_t i = sizeof(digits);

	while (n >= 100) {
		i -= 2;
		memcpy(digits + i, pairs + 2 * (n % 100), 2);
		n /= 100;
	}
	if (n >= 10) {
		i -= 2;
		memcpy(digits + i, pairs + 2 * n, 2);
	} else {
		digits[--i] = (char)('0' + n);
	}
	while (sizeof(digits) - i < width && i)
		digits[--i] = '0';
	event_buffer_put(b, digits + i, sizeof(digits) - i);
}

void event_buffer_hex(struct event_buffer *b, uint64_t n, unsigned int width)
{
	static const char hex[] = "0123456789abcdef";
	char digits[16];
	size_t i = sizeof(digits);

	do {
		digits[--i] = hex[n & 15];
		n >>= 4;
	} while (n);
	while (sizeof(digits) - i < width && i)
		digits[--i] = '0';
	event_buffer_put(b, digits + i, sizeof(digits) - i);
}

/* --- UTF-8 --------------------------------------------------------------------------------- */

/* First code point of a sequence of that length: below it, one was spelled too long. */
static const uint32_t shortest[] = { 0, 0, 0x80, 0x800, 0x10000 };

static size_t sequence_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* Length of the character at p[n] and its code point; 0 when it is not well-formed UTF-8. */
static size_t utf8_next(const char *p, size_t n, uint32_t *ret_code)
{
	const unsigned char *u = (const unsigned char *)p;
	size_t length = sequence_length(u[0]);
	uint32_t code;

	if (!length || length > n)
		return 0;
	code = length == 1 ? u[0] : u[0] & (0x7fU >> length);
	for (size_t i = 1; i < length; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (u[i] & 0x3f);
	}
	if (code < shortest[length] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
		return 0;
	*ret_code = code;
	return length;
}

/*
 * Characters that move the cursor, end a line, reorder what stands around them or cannot be seen:
 * with them a name could show as another name or as a line of its own.
 */
static bool code_is_unsafe(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x00, 0x1f },	    { 0x7f, 0x9f }, /* controls */
		{ 0xad, 0xad },	    { 0x61c, 0x61c },	{ 0x180e, 0x180e },   { 0x200b, 0x200f },
		{ 0x2028, 0x202e }, { 0x2060, 0x206f }, /* separators, direction, invisible */
		{ 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe0fff },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (code <= ranges[i].last)
			return code >= ranges[i].first;
	return false;
}

/* --- escaping ------------------------------------------------------------------------------ */

/* 1: stands for itself in text and in a JSON string. */
static const unsigned char plain[256] = {
	[' '] = 1,
	['!'] = 1,
	['#' ... '['] = 1,
	[']' ... '~'] = 1,
};

static size_t plain_run(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && plain[(unsigned char)p[i]])
		i++;
	return i;
}

static void put_hex(struct event_buffer *b, const char *prefix, const char *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];
		char hex[2] = { digits[c >> 4], digits[c & 15] };

		event_buffer_puts(b, prefix);
		event_buffer_put(b, hex, sizeof(hex));
	}
}

/* One character that is not plain; returns its length. */
static size_t escape_one(struct event_buffer *b, const char *p, size_t n, bool json)
{
	uint32_t code;
	size_t length;

	if (*p == '"' || *p == '\\') {
		if (json)
			event_buffer_puts(b, *p == '"' ? "\\\"" : "\\\\\\\\");
		else
			event_buffer_putc(b, *p);
		return 1;
	}
	length = utf8_next(p, n, &code);
	if (length && !code_is_unsafe(code)) {
		event_buffer_put(b, p, length);
		return length;
	}
	length = length ? length : 1;
	put_hex(b, json ? "\\\\x" : "\\x", p, length);
	return length;
}

static void escape(struct event_buffer *b, const char *p, size_t n, bool json)
{
	while (n) {
		size_t run = plain_run(p, n);

		event_buffer_put(b, p, run);
		p += run;
		n -= run;
		if (n) {
			run = escape_one(b, p, n, json);
			p += run;
			n -= run;
		}
	}
}

void event_escape_json(struct event_buffer *b, const char *p, size_t n)
{
	escape(b, p, n, true);
}

void event_escape_text(struct event_buffer *b, const char *p, size_t n)
{
	escape(b, p, n, false);
}

bool event_text_is_unsafe(const char *p, size_t n)
{
	while (n) {
		uint32_t code;
		size_t length = utf8_next(p, n, &code);

		if (!length || code_is_unsafe(code))
			return true;
		p += length;
		n -= length;
	}
	return false;
}
