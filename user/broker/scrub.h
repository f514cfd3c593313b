/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes secrets out of a stream of bytes: each byte of one becomes an asterisk, so that lengths stay true. A secret is found
 * however the stream is cut, as it is and as it is often written: each byte with a percent sign or as JSON escapes it or not, all of
 * it in hexadecimal, or in base64 at any offset. Only what may be the beginning of one is held back, so that a stream flows. Pure.
 */
#ifndef CORDON_BROKER_SCRUB_H
#define CORDON_BROKER_SCRUB_H

#include <stdbool.h>
#include <stddef.h>

#define SCRUB_FORMS_MAX 32 /* spellings of all secrets of one stream */
#define SCRUB_SECRET_MIN 8 /* bytes; what is shorter would be found where it is not */
#define SCRUB_SECRET_MAX 8192

struct scrub {
	struct scrub_form {
		char *p; /* owned */
		size_t n;
		bool loose; /* the secret itself: each byte of it however it is escaped */
	} forms[SCRUB_FORMS_MAX];
	size_t n_forms;
	bool first[256];   /* bytes with which a form begins */
	char *held, *mask; /* owned; bytes that are held back, and which of them to hide */
	size_t n_held, room;
	char *out; /* owned */
	size_t out_room;
};

/* Adds the spellings of a secret of SCRUB_SECRET_MIN to SCRUB_SECRET_MAX bytes. 0 or -ENOMEM, -EINVAL. */
int scrub_add(struct scrub *scrub, const char *secret, size_t size);

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
