/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that are added to a YAML text without a change of what stands there, comments and order included, and what was
 * added as a unified diff. No privilege; knows no keys. The caller reads the new text again and believes nothing else.
 */
#ifndef CORDON_CONF_EDIT_H
#define CORDON_CONF_EDIT_H

#include <stddef.h>
#include <stdio.h>

#define CONF_EDIT_DEPTH 3 /* keys in a path */

/* One more item of the list at a path of keys; a key that the text lacks is added. Borrowed. */
struct conf_addition {
	const char *path[CONF_EDIT_DEPTH + 1]; /* ends with NULL */
	const char *item;		       /* one line of YAML, right in brackets, too */
	const char *comment; /* lines without `#`, parted by newlines; NULL: none */
};

/*
 * The text with the additions; those of one path stand together, in their order. Returns 0 and *ret_text (a NUL behind it,
 * to be freed), -EINVAL when the text is no mapping or has something else at a path, -ENOMEM.
 */
int conf_edit_add(const char *text, size_t length, const struct conf_addition *additions, size_t n,
		  char **ret_text, size_t *ret_length);

/*
 * Writes what makes `to` of `from` as a unified diff of the file `name`, for patch(1); nothing when they are equal. Returns 0 or
 * -ENOMEM; faults of the stream are the caller's to see.
 */
int conf_edit_diff(FILE *out, const char *name, const char *from, size_t from_length,
		   const char *to, size_t to_length);

#endif
