// SPDX-License-Identifier: Apache-2.0
/* See scrub.h. Compares at each byte with which a form begins: secrets are few, and such bytes, too. */
#include "broker/scrub.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "util/util.h"

/* Takes p over: a form, unless it is there already. */
static int add_form(struct scrub *scrub, char *p, size_t n, bool loose)
{
	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < scrub->n_forms; i++)
		if (scrub->forms[i].n == n && scrub->forms[i].loose == loose &&
		    !memcmp(scrub->forms[i].p, p, n))
			n = 0;
	if (n == 0 || scrub->n_forms == SCRUB_FORMS_MAX) {
		bool known = n == 0;

		explicit_bzero(p, strlen(p));
		free(p);
		return known ? 0 : -ENOMEM;
	}
	scrub->first[(unsigned char)p[0]] = true;
	if (loose)
		scrub->first['%'] = scrub->first['\\'] = true;
	scrub->forms[scrub->n_forms++] = (struct scrub_form){ p, n, loose };
	return 0;
}

static int add_hex(struct scrub *scrub, const char *secret, size_t size, const char *digits)
{
	char *p = calloc(1, 2 * size + 1);

	for (size_t i = 0; p && i < size; i++) {
		p[2 * i] = digits[(unsigned char)secret[i] >> 4];
		p[2 * i + 1] = digits[secret[i] & 15];
	}
	return add_form(scrub, p, 2 * size, false);
}

/* The digits of base64 that depend on the secret alone, where `before` bytes stand before it. */
static int add_base64(struct scrub *scrub, const char *secret, size_t size, size_t before,
		      const char *last)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	size_t first = (before * 8 + 5) / 6, end = (before + size) * 8 / 6, n = 0;
	char *p = calloc(1, end + 1);

	for (size_t i = first; p && i < end; i++) {
		unsigned int six = 0;

		for (size_t bit = i * 6; bit < i * 6 + 6; bit++)
			six = six << 1 |
			      ((unsigned char)secret[bit / 8 - before] >> (7 - bit % 8) & 1U);
		p[n++] = six < 62 ? digits[six] : last[six - 62];
	}
	return add_form(scrub, p, n, false);
}

int scrub_add(struct scrub *scrub, const char *secret, size_t size)
{
	static const char *const hex[] = { "0123456789abcdef", "0123456789ABCDEF" };
	static const char *const lasts[] = { "+/", "-_" };
	int r;

	if (size < SCRUB_SECRET_MIN || size > SCRUB_SECRET_MAX || memchr(secret, 0, size))
		return -EINVAL;
	r = add_form(scrub, strndup(secret, size), size, true);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(hex); i++)
		r = add_hex(scrub, secret, size, hex[i]);
	for (size_t i = 0; r == 0 && i < 3 * ARRAY_SIZE(lasts); i++)
		r = add_base64(scrub, secret, size, i / 2, lasts[i % 2]);
	return r;
}

static int make_room(struct scrub *scrub, size_t need)
{
	char *held, *mask, *out;

	if (need <= scrub->room && scrub->out)
		return 0;
	held = realloc(scrub->held, need);
	if (held)
		scrub->held = held;
	mask = realloc(scrub->mask, need);
	if (mask)
		scrub->mask = mask;
	out = realloc(scrub->out, need);
	if (out)
		scrub->out = out;
	if (!held || !mask || !out)
		return -ENOMEM;
	scrub->room = need;
	return 0;
}

/* --- searching -------------------------------------------------------------------------------- */

static int hex(char c)
{
	return c >= '0' && c <= '9'		    ? c - '0'
	       : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
						    : -1;
}

/* Two digits for c at p, of which n are there: 1, 0, or -1 when the end is not there. */
static int is_hex(const char *p, size_t n, unsigned char c)
{
	if (n > 0 && hex(p[0]) != c >> 4)
		return 0;
	if (n > 1 && hex(p[1]) != (c & 15))
		return 0;
	return n > 1 ? 1 : -1;
}

/*
 * How many bytes at p stand for c: as it is, %XX, \c or \u00XX. 0: none; -1: what is there may become one. The longer spelling
 * first: a percent sign or a backslash may be its own beginning.
 */
static int spelled(const char *p, size_t n, unsigned char c)
{
	static const char zeros[] = "\\u00";
	int r = 0;

	if (p[0] == '%') {
		r = is_hex(p + 1, n - 1, c);
		if (r > 0)
			return 3;
	} else if (p[0] == '\\') {
		size_t same = n < 4 ? n : 4;

		if (n > 1 && p[1] == (char)c && c != 'u')
			return 2;
		r = memcmp(p, zeros, same) != 0 ? 0 : same < 4 ? -1 : is_hex(p + 4, n - 4, c);
		if (r > 0)
			return 6;
	}
	if (r < 0)
		return r;
	return p[0] == (char)c;
}

/* Does the form begin at p? Its bytes there; 0: no; -1: its end is not there. */
static ssize_t match(const struct scrub_form *form, const char *p, size_t n)
{
	size_t at = 0;

	if (!form->loose) {
		size_t same = n < form->n ? n : form->n;

		return memcmp(p, form->p, same) != 0 ? 0 : same < form->n ? -1 : (ssize_t)same;
	}
	for (size_t i = 0; i < form->n; i++) {
		int r = at == n ? -1 : spelled(p + at, n - at, (unsigned char)form->p[i]);

		if (r <= 0)
			return r;
		at += (size_t)r;
	}
	return (ssize_t)at;
}

/*
 * The first place in p[0..size) where a form may begin of which the end is not here. mask: what is to be hidden is marked there;
 * NULL: where something is, *ret_found is set and nothing else counts.
 */
static size_t mark(const struct scrub *scrub, const char *p, size_t size, char *mask,
		   bool *ret_found)
{
	size_t hold = size;

	for (size_t i = 0; i < size; i++) {
		if (!scrub->first[(unsigned char)p[i]])
			continue;
		for (size_t k = 0; k < scrub->n_forms; k++) {
			ssize_t n = match(&scrub->forms[k], p + i, size - i);

			if (n > 0 && !mask) {
				*ret_found = true;
				return 0;
			}
			if (n > 0)
				memset(mask + i, 1, (size_t)n);
			else if (n < 0 && hold > i)
				hold = i;
		}
	}
	return hold;
}

/* The usual case: nothing is held back, and nothing is to be hidden. Then nothing is copied but what is held back from now on. */
static bool feed_clean(struct scrub *scrub, const char *p, size_t n, bool last, const char **ret_p,
		       size_t *ret_n)
{
	bool found = false;
	size_t go;

	if (scrub->n_held)
		return false;
	go = mark(scrub, p, n, NULL, &found);
	if (found)
		return false;
	if (last)
		go = n;
	if (n > go) {
		memcpy(scrub->held, p + go, n - go);
		memset(scrub->mask, 0, n - go);
	}
	scrub->n_held = n - go;
	*ret_p = p;
	*ret_n = go;
	return true;
}

int scrub_feed(struct scrub *scrub, const char *p, size_t n, bool last, const char **ret_p,
	       size_t *ret_n)
{
	size_t size = scrub->n_held + n, go;
	int r = make_room(scrub, size ? size : 1);

	if (r < 0)
		return r;
	if (feed_clean(scrub, p ? p : "", n, last, ret_p, ret_n))
		return 0;
	if (n)
		memcpy(scrub->held + scrub->n_held, p, n);
	memset(scrub->mask + scrub->n_held, 0, n);
	go = mark(scrub, scrub->held, size, scrub->mask, NULL);
	if (last)
		go = size;
	for (size_t i = 0; i < go; i++)
		scrub->out[i] = scrub->mask[i] ? '*' : scrub->held[i];
	memmove(scrub->held, scrub->held + go, size - go);
	memmove(scrub->mask, scrub->mask + go, size - go);
	scrub->n_held = size - go;
	*ret_p = scrub->out;
	*ret_n = go;
	return 0;
}

void scrub_reset(struct scrub *scrub)
{
	scrub->n_held = 0;
}

void scrub_release(struct scrub *scrub)
{
	for (size_t i = 0; i < scrub->n_forms; i++) {
		explicit_bzero(scrub->forms[i].p, scrub->forms[i].n);
		free(scrub->forms[i].p);
	}
	if (scrub->held)
		explicit_bzero(scrub->held, scrub->room);
	free(scrub->held);
	free(scrub->mask);
	free(scrub->out);
	memset(scrub, 0, sizeof(*scrub));
}
