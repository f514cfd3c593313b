/* SPDX-License-Identifier: Apache-2.0 */
/* Text for people at a terminal of any size: folded at blanks. Only prints. */
#ifndef CORDON_UTIL_FOLD_H
#define CORDON_UTIL_FOLD_H

#include <stddef.h>
#include <stdio.h>

#define FOLD_WIDTH 80 /* columns */

/*
 * Writes n bytes of text and the end of the line, folding at blanks. The cursor stands at column; further lines begin
 * at indent. A word longer than a line stays whole. Counts bytes: text is ASCII.
 */
void fold_put(FILE *out, const char *text, size_t n, size_t column, size_t indent);

#endif
