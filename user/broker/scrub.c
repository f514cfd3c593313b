// SPDX-License-Identifier: Apache-2.0
/* See scrub.h. Compares at each byte with which a form begins: secrets are few, and such bytes, too. */
#include "broker/scrub.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "util/util.h"

static int add_link(struct scrub_forms *forms, char c, size_t form)
{
	struct scrub_link *grown =
		reallocarray(forms->links, forms->n_links + 1, sizeof(*forms->links));

	if (!grown)
		return -ENOMEM;
	forms->links = grown;
	grown[forms->n_links] =
		(struct scrub_link){ (unsigned short)form, forms->first[(unsigned char)c] };
	forms->first[(unsigned char)c] = (unsigned short)++forms->n_links;
	return 0;
}

static int add_new(struct scrub_forms *forms, char *p, size_t n, bool loose)
{
	struct scrub_form *grown = reallocarray(forms->v, forms->n + 1, sizeof(*forms->v));
	size_t form = forms->n;
	int r;

	if (!grown || form == SCRUB_FORMS_MAX)
		return -ENOMEM;
	forms->v = grown;
	r = add_link(forms, p[0], form);
	if (r == 0 && loose && p[0] != '%')
		r = add_link(forms, '%', form);
	if (r == 0 && loose && p[0] != '\\')
		r = add_link(forms, '\\', form);
	if (r == 0)
		grown[forms->n++] = (struct scrub_form){ p, n, loose };
	return r;
}

static void form_free(char *p, size_t n)
{
	explicit_bzero(p, n);
	free(p);
}

/* Takes p over: a form, unless it is there already. */
static int add_form(struct scrub_forms *forms, char *p, size_t n, bool loose)
{
	int r;

	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < forms->n; i++)
		if (forms->v[i].n == n && forms->v[i].loose == loose &&
		    !memcmp(forms->v[i].p, p, n)) {
			form_free(p, n);
			return 0;
		}
	r = add_new(forms, p, n, loose);
	if (r < 0)
		form_free(p, n);
	return r;
}

static int add_hex(struct scrub_forms *forms, const char *secret, size_t size, const char *digits)
{
	char *p = calloc(1, 2 * size + 1);

	for (size_t i = 0; p && i < size; i++) {
		p[2 * i] = digits[(unsigned char)secret[i] >> 4];
		p[2 * i + 1] = digits[secret[i] & 15];
	}
	return add_form(forms, p, 2 * size, false);
}

/* The digits of base64 that depend on the secret alone, where `before` bytes stand before it. */
static int add_base64(struct scrub_forms *forms, const char *secret, size_t size, size_t before,
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
	return add_form(forms, p, n, false);
}

int scrub_forms_add(struct scrub_forms *forms, const char *secret, size_t size)
{
	static const char *const hex[] = { "0123456789abcdef", "0123456789ABCDEF" };
	static const char *const lasts[] = { "+/", "-_" };
	int r;

	if (size < SCRUB_SECRET_MIN || size > SCRUB_SECRET_MAX || memchr(secret, 0, size))
		return -EINVAL;
	r = add_form(forms, strndup(secret, size), size, true);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(hex); i++)
		r = add_hex(forms, secret, size, hex[i]);
	for (size_t i = 0; r == 0 && i < 3 * ARRAY_SIZE(lasts); i++)
		r = add_base64(forms, secret, size, i / 2, lasts[i % 2]);
	return r;
}

int scrub_add(struct scrub *scrub, const char *secret, size_t size)
{
	return scrub_forms_add(&scrub->own, secret, size);
}

void scrub_forms_release(struct scrub_forms *forms)
{
	for (size_t i = 0; i < forms->n; i++)
		form_free(forms->v[i].p, forms->v[i].n);
	free(forms->v);
	free(forms->links);
	memset(forms, 0, sizeof(*forms));
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
 * NULL: where something is, nothing else counts. *ret_seen: place + 1 of a form that is there.
 */
static size_t mark(const struct scrub_forms *forms, const char *p, size_t size, char *mask,
		   size_t *ret_seen)
{
	size_t hold = size;

	for (size_t i = 0; i < size; i++) {
		unsigned int link = forms->first[(unsigned char)p[i]];

		for (; link; link = forms->links[link - 1].next) {
			size_t form = forms->links[link - 1].form;
			ssize_t n = match(&forms->v[form], p + i, size - i);

			if (n > 0)
				*ret_seen = form + 1;
			if (n > 0 && !mask)
				return 0;
			if (n > 0)
				memset(mask + i, 1, (size_t)n);
			else if (n < 0 && hold > i)
				hold = i;
		}
	}
	return hold;
}

static const struct scrub_forms *forms_of(const struct scrub *scrub)
{
	return scrub->lent ? scrub->lent : &scrub->own;
}

bool scrub_forms_find(const struct scrub_forms *forms, const char *p, size_t n, size_t *ret_form)
{
	size_t seen = 0;

	mark(forms, p, n, NULL, &seen);
	*ret_form = seen - 1;
	return seen != 0;
}

/* The usual case: nothing is held back, and nothing is to be hidden. Then nothing is copied but what is held back from now on. */
static bool feed_clean(struct scrub *scrub, const char *p, size_t n, bool last, const char **ret_p,
		       size_t *ret_n)
{
	size_t seen = 0, go;

	if (scrub->n_held)
		return false;
	go = mark(forms_of(scrub), p, n, NULL, &seen);
	if (seen)
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
	go = mark(forms_of(scrub), scrub->held, size, scrub->mask, &scrub->seen);
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
	scrub_forms_release(&scrub->own);
	if (scrub->held)
		explicit_bzero(scrub->held, scrub->room);
	free(scrub->held);
	free(scrub->mask);
	free(scrub->out);
	memset(scrub, 0, sizeof(*scrub));
}
