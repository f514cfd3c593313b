// SPDX-License-Identifier: Apache-2.0
/*
 * The list of faults of a text: sorted, bounded, and safe to print, whatever the text holds.
 * No privilege. When memory ends, the caller gets -ENOMEM and the list stays valid.
 */
#define _GNU_SOURCE 1
#include "conf/fault.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "util/util.h"

size_t conf_utf8_next(const char *text, size_t size, uint32_t *ret_character)
{
	static const struct {
		unsigned char mask, lead;
		uint32_t least;
	} form[] = {
		{ 0x80, 0, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 }
	};
	const unsigned char *p = (const unsigned char *)text;
	uint32_t c;

	for (size_t n = 0; n < ARRAY_SIZE(form) && n < size; n++) {
		if ((p[0] & form[n].mask) != form[n].lead)
			continue;
		c = p[0] & (unsigned char)~form[n].mask;
		for (size_t i = 1; i <= n; i++) {
			if ((p[i] & 0xc0) != 0x80)
				return 0;
			c = c << 6 | (p[i] & 0x3f);
		}
		if (c < form[n].least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
			return 0;
		*ret_character = c;
		return n + 1;
	}
	return 0;
}

/* Would the character move, hide or reorder what stands beside it on a terminal? */
static bool character_is_unsafe(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

/* A copy of text on one printable line; NULL when memory ends. */
static char *text_make_printable(const char *text)
{
	size_t size = strlen(text), room = size * 4 + 1, used = 0, n;
	char *out = malloc(room);
	uint32_t c;

	for (size_t i = 0; out && i < size; i += n) {
		n = conf_utf8_next(text + i, size - i, &c);
		if (n && !character_is_unsafe(c)) {
			memcpy(out + used, text + i, n);
			used += n;
			continue;
		}
		n = n ? n : 1;
		for (size_t k = 0; k < n; k++)
			used += (size_t)snprintf(out + used, room - used, "\\x%02x",
						 (unsigned char)text[i + k]);
	}
	if (out)
		out[used] = '\0';
	return out;
}

static bool mark_is_before(struct conf_mark at, const struct conf_fault *fault)
{
	return at.line != fault->line ? at.line < fault->line : at.column < fault->column;
}

/* Puts text (owned from here on) into its place. */
static void faults_insert(struct conf_faults *faults, struct conf_mark at, char *text)
{
	size_t i = faults->n;

	while (i > 0 && mark_is_before(at, &faults->v[i - 1]))
		i--;
	if (faults->n == CONF_FAULTS_MAX) {
		faults->more++;
		if (i == faults->n) {
			free(text);
			return;
		}
		free(faults->v[--faults->n].text);
	}
	memmove(&faults->v[i + 1], &faults->v[i], (faults->n - i) * sizeof(faults->v[0]));
	faults->v[i] = (struct conf_fault){ .line = at.line, .column = at.column, .text = text };
	faults->n++;
}

int conf_fault_add(struct conf_faults *faults, struct conf_mark at, const char *format, ...)
{
	_cleanup_free_ char *raw = NULL;
	char *text;
	va_list args;
	int r;

	va_start(args, format);
	r = vasprintf(&raw, format, args);
	va_end(args);
	if (r < 0) {
		raw = NULL;
		return -ENOMEM;
	}
	text = text_make_printable(raw);
	if (!text)
		return -ENOMEM;
	faults_insert(faults, at, text);
	return 0;
}

struct conf_quote conf_quote(const char *text)
{
	struct conf_quote quote;
	size_t size = strlen(text);

	if (size < sizeof(quote.s) - 3) {
		memcpy(quote.s, text, size + 1);
		return quote;
	}
	size = sizeof(quote.s) - 4;
	while (size && ((unsigned char)text[size] & 0xc0) == 0x80)
		size--;
	memcpy(quote.s, text, size);
	memcpy(quote.s + size, "...", 4);
	return quote;
}

struct conf_quote conf_quote_name(const char *text)
{
	struct conf_quote quote = conf_quote(text);

	quote.s[strcspn(quote.s, "=")] = '\0';
	return quote;
}

void conf_faults_clear(struct conf_faults *faults)
{
	for (size_t i = 0; i < faults->n; i++)
		free(faults->v[i].text);
	memset(faults, 0, sizeof(*faults));
}

void conf_faults_print(const struct conf_faults *faults, const char *path, FILE *out)
{
	for (size_t i = 0; i < faults->n; i++)
		fprintf(out, "%s:%u:%u: %s\n", path, faults->v[i].line, faults->v[i].column,
			faults->v[i].text);
	if (faults->more)
		fprintf(out, "%s: %zu more faults are not listed\n", path, faults->more);
}
