/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes secrets out of a stream of bytes: each byte of one becomes an asterisk, so that lengths stay true. A secret is found
 * however the stream is cut, as it is, in hexadecimal, or in base64 at any offset, and each byte of these as it is often escaped: with
 * percent signs, with backslashes as JSON and C have them, as HTML and XML have it, and one in another. Only what may be the beginning of
 * one is held back, so that a stream flows. Pure.
 */
#ifndef CORDON_BROKER_SCRUB_H
#define CORDON_BROKER_SCRUB_H

#include <stdbool.h>
#include <stddef.h>

#define SCRUB_FORMS_MAX 160 /* spellings of all secrets of one stream */
#define SCRUB_SECRET_MIN 8  /* bytes; what is shorter would be found where it is not */
#define SCRUB_SECRET_MAX 8192

/* What is looked for. */
struct scrub_forms {
	struct scrub_form {
		char *p; /* owned */
		size_t n;
		bool nocase; /* large and small letters are the same */
	} * v;		     /* owned */
	/* By the byte with which they begin, unescaped: place + 1 of the first link, and from there of the next; 0: none. */
	struct scrub_link {
		unsigned short form, next;
	} * links; /* owned */
	size_t n, n_links;
	unsigned short first[256];
};

struct scrub {
	struct scrub_forms own;
	const struct scrub_forms *lent; /* in the place of its own; or NULL */
	size_t seen;			/* place + 1 of a form that was found; 0: none was */
	char *held, *mask; /* owned; bytes that are held back, and which of them to hide */
	size_t n_held, room;
	char *out; /* owned */
	size_t out_room;
};

/* Adds the spellings of a secret of SCRUB_SECRET_MIN to SCRUB_SECRET_MAX bytes. 0 or -ENOMEM, -EINVAL. */
int scrub_add(struct scrub *scrub, const char *secret, size_t size);
int scrub_forms_add(struct scrub_forms *forms, const char *secret, size_t size);
void scrub_forms_release(struct scrub_forms *forms); /* wipes */

/* Is one of them in the text? *ret_form: its place. */
bool scrub_forms_find(const struct scrub_forms *forms, const char *p, size_t n, size_t *ret_form);

/*
 * Takes p[0..n) and gives what can go on, valid until the next call, and no longer than p; last: nothing follows, and nothing is held back. 0 or
 * -ENOMEM.
 */
int scrub_feed(struct scrub *scrub, const char *p, size_t n, bool last, const char **ret_p,
	       size_t *ret_n);

/* Begins another stream with the same secrets. */
void scrub_reset(struct scrub *scrub);
void scrub_release(struct scrub *scrub); /* wipes */

#endif
