/* SPDX-License-Identifier: Apache-2.0 */
/* Which word was probably meant by a misspelt one. No privilege. */
#ifndef CORDON_CONF_NEAR_H
#define CORDON_CONF_NEAR_H

#include <stdbool.h>
#include <stddef.h>

/* Nothing was near yet; words beyond this many characters are near to nothing. */
#define CONF_NEAR_NONE 24

/*
 * Is `name` near `word`, and nearer than *best? Then sets *best, which starts as CONF_NEAR_NONE.
 * Case does not count.
 */
bool conf_word_is_nearer(const char *name, const char *word, size_t *best);

#endif
