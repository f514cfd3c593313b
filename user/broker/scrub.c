// SPDX-License-Identifier: Apache-2.0
/* See scrub.h. Compares at each byte that a form may begin with: secrets are few, and such bytes, too. */
#include "broker/scrub.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

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

static int add_new(struct scrub_forms *forms, char *p, size_t n, bool nocase)
{
	struct scrub_form *grown = reallocarray(forms->v, forms->n + 1, sizeof(*forms->v));
	size_t form = forms->n;
	int r;

	if (!grown || form == SCRUB_FORMS_MAX)
		return -ENOMEM;
	forms->v = grown;
	r = add_link(forms, p[0], form);
	if (r == 0 && nocase && p[0] >= 'a' && p[0] <= 'z')
		r = add_link(forms, (char)(p[0] - 0x20), form);
	if (r == 0)
		grown[forms->n++] = (struct scrub_form){ p, n, nocase };
	return r;
}

static void form_free(char *p, size_t n)
{
	explicit_bzero(p, n);
	free(p);
}

/* Takes p over: a form, unless it is there already. */
static int add_form(struct scrub_forms *forms, char *p, size_t n, bool nocase)
{
	int r;

	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < forms->n; i++)
		if (forms->v[i].n == n && forms->v[i].nocase == nocase &&
		    !memcmp(forms->v[i].p, p, n)) {
			form_free(p, n);
			return 0;
		}
	r = add_new(forms, p, n, nocase);
	if (r < 0)
		form_free(p, n);
	return r;
}

static int add_hex(struct scrub_forms *forms, const char *secret, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	char *p = calloc(1, 2 * size + 1);

	for (size_t i = 0; p && i < size; i++) {
		p[2 * i] = digits[(unsigned char)secret[i] >> 4];
		p[2 * i + 1] = digits[secret[i] & 15];
	}
	return add_form(forms, p, 2 * size, true);
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
	static const char *const lasts[] = { "+/", "-_" };
	int r;

	if (size < SCRUB_SECRET_MIN || size > SCRUB_SECRET_MAX || memchr(secret, 0, size))
		return -EINVAL;
	r = add_form(forms, strndup(secret, size), size, false);
	if (r == 0)
		r = add_hex(forms, secret, size);
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

/* --- how a byte may be spelled ------------------------------------------------------------------ */

#define DEPTH 3 /* escapes in one another: a URL in a URL, JSON in JSON, either in a page */
#define READINGS_MAX \
	8 /* of one place: a percent sign, or a backslash, may be one or begin another byte */
#define ZEROS_MAX 8 /* before a number of HTML */

/* What bytes may stand for: c, up to end. */
struct reading {
	size_t end;
	unsigned char c;
};

struct readings {
	struct reading v[READINGS_MAX];
	size_t n;
	bool more; /* what is there may become another */
};

static bool is_sign(unsigned char c)
{
	return c == '%' || c == '\\' || c == '&';
}

static void add(struct readings *readings, unsigned int c, size_t end)
{
	if (c <= UCHAR_MAX && readings->n < READINGS_MAX)
		readings->v[readings->n++] = (struct reading){ end, (unsigned char)c };
}

static int hex(char c)
{
	return c >= '0' && c <= '9'		    ? c - '0'
	       : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
						    : -1;
}

/* Adds a number of so many digits at p[at..n). */
static void add_number(const char *p, size_t n, size_t at, int base, unsigned int digits,
		       struct readings *readings)
{
	unsigned int value = 0;

	for (; digits && at < n; digits--, at++) {
		int digit = hex(p[at]);

		if (digit < 0 || digit >= base)
			return;
		value = value * (unsigned int)base + (unsigned int)digit;
	}
	if (digits)
		readings->more = true;
	else
		add(readings, value, at);
}

/* #N; and #xN; */
static void add_entity_number(const char *p, size_t n, size_t at, struct readings *readings)
{
	bool is_hex = at < n && (p[at] | 32) == 'x';
	unsigned int value = 0;
	size_t zeros = 0, digits = 0;
	int digit;

	at += is_hex;
	while (at < n && p[at] == '0' && zeros++ < ZEROS_MAX)
		at++;
	while (at < n && (digit = hex(p[at])) >= 0 && digit < (is_hex ? 16 : 10) && digits++ < 3) {
		value = value * (is_hex ? 16 : 10) + (unsigned int)digit;
		at++;
	}
	if (at == n)
		readings->more = true;
	else if (digits && p[at] == ';')
		add(readings, value, at + 1);
}

/* Behind an ampersand. */
static void add_entity(const char *p, size_t n, size_t at, struct readings *readings)
{
	static const struct {
		char c;
		const char *name;
	} names[] = {
		{ '&', "amp;" },    { '<', "lt;" },	{ '>', "gt;" },	   { '"', "quot;" },
		{ '\'', "apos;" },  { '/', "sol;" },	{ '+', "plus;" },  { '=', "equals;" },
		{ '%', "percnt;" }, { '_', "lowbar;" }, { '\\', "bsol;" }, { ':', "colon;" },
	};
	size_t left = n - at;

	if (left && p[at] == '#') {
		add_entity_number(p, n, at + 1, readings);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t want = strlen(names[i].name), same = left < want ? left : want;

		if (strncasecmp(p + at, names[i].name, same) != 0)
			continue;
		if (same < want)
			readings->more = true;
		else
			add(readings, (unsigned char)names[i].c, at + want);
	}
}

/* Behind a backslash: what stands there, uNNNN, xNN or NNN in octal. */
static void add_backslash(const char *p, size_t n, size_t at, struct readings *readings)
{
	if (at == n) {
		readings->more = true;
		return;
	}
	add(readings, (unsigned char)p[at], at + 1);
	if (p[at] == 'u')
		add_number(p, n, at + 1, 16, 4, readings);
	else if (p[at] == 'x')
		add_number(p, n, at + 1, 16, 2, readings);
	else
		add_number(p, n, at, 8, 3, readings);
}

/* All readings of what begins at p[at]; what begins an escape may be escaped itself. */
static void read_at(const char *p, size_t n, size_t at, struct readings *readings)
{
	size_t from = 0;

	readings->n = 0;
	readings->more = at == n;
	if (at < n)
		add(readings, (unsigned char)p[at], at + 1);
	for (unsigned int depth = 0; depth < DEPTH && from < readings->n; depth++)
		for (size_t known = readings->n; from < known; from++) {
			struct reading sign = readings->v[from];

			if (sign.c == '%')
				add_number(p, n, sign.end, 16, 2, readings);
			else if (sign.c == '\\')
				add_backslash(p, n, sign.end, readings);
			else if (sign.c == '&')
				add_entity(p, n, sign.end, readings);
		}
}

/* --- searching -------------------------------------------------------------------------------- */

static bool is_byte(const struct scrub_form *form, size_t i, unsigned char c)
{
	if (form->nocase && c >= 'A' && c <= 'Z')
		c |= 0x20;
	return (unsigned char)form->p[i] == c;
}

/* Where the bytes of a form may have come to. */
struct places {
	size_t at[READINGS_MAX];
	size_t n;
};

static void place_add(struct places *places, size_t at)
{
	for (size_t i = 0; i < places->n; i++)
		if (places->at[i] == at)
			return;
	if (places->n < READINGS_MAX)
		places->at[places->n++] = at;
}

/* Does the form begin at p? Its bytes there, 0: no. *ret_more: it may, or may be longer, when there is more. */
static size_t match(const struct scrub_form *form, const char *p, size_t n, bool *ret_more)
{
	struct places now = { .n = 1 };
	size_t longest = 0, plain = 0;

	*ret_more = false;
	/* As far as nothing is escaped there is one reading. */
	while (plain < form->n && plain < n && !is_sign((unsigned char)p[plain]) &&
	       is_byte(form, plain, (unsigned char)p[plain]))
		plain++;
	if (plain < form->n && plain < n && !is_sign((unsigned char)p[plain]))
		return 0;
	now.at[0] = plain;
	for (size_t i = plain; i < form->n && now.n; i++) {
		struct places next = { .n = 0 };

		for (size_t k = 0; k < now.n; k++) {
			struct readings readings;

			read_at(p, n, now.at[k], &readings);
			*ret_more |= readings.more;
			for (size_t r = 0; r < readings.n; r++)
				if (is_byte(form, i, readings.v[r].c))
					place_add(&next, readings.v[r].end);
		}
		now = next;
	}
	for (size_t i = 0; i < now.n; i++)
		longest = now.at[i] > longest ? now.at[i] : longest;
	return longest;
}

/* The search in p[0..size); mask and seen as mark() has them. */
struct search {
	const struct scrub_forms *forms;
	const char *p;
	size_t size;
	char *mask;
	size_t seen, hold;
};

/* The forms that begin with c, at p[at], where c is read. */
static void try_forms(struct search *search, unsigned char c, size_t at)
{
	const struct scrub_forms *forms = search->forms;

	for (unsigned int link = forms->first[c]; link; link = forms->links[link - 1].next) {
		size_t form = forms->links[link - 1].form;
		bool more;
		size_t n = match(&forms->v[form], search->p + at, search->size - at, &more);

		if (n)
			search->seen = form + 1;
		if (n && search->mask)
			memset(search->mask + at, 1, n);
		if (more && search->hold > at)
			search->hold = at;
	}
}

/* Something that may be escaped begins at p[at]. */
static void try_escaped(struct search *search, size_t at)
{
	struct readings readings;

	read_at(search->p, search->size, at, &readings);
	if (readings.more && search->hold > at)
		search->hold = at;
	for (size_t i = 0; i < readings.n; i++)
		try_forms(search, readings.v[i].c, at);
}

/*
 * The first place in p[0..size) where a form may begin of which the end is not here. mask: what is to be hidden is marked there;
 * NULL: where something is, nothing else counts. *ret_seen: place + 1 of a form that is there.
 */
static size_t mark(const struct scrub_forms *forms, const char *p, size_t size, char *mask,
		   size_t *ret_seen)
{
	struct search search = { forms, p, size, mask, .hold = size };

	for (size_t i = 0; i < size; i++) {
		if (is_sign((unsigned char)p[i]))
			try_escaped(&search, i);
		else if (forms->first[(unsigned char)p[i]])
			try_forms(&search, (unsigned char)p[i], i);
		if (search.seen && !mask)
			break;
	}
	if (search.seen)
		*ret_seen = search.seen;
	return search.seen && !mask ? 0 : search.hold;
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
