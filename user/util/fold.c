// SPDX-License-Identifier: Apache-2.0
/* See fold.h. */
#include "util/fold.h"

#include <ctype.h>

void fold_put(FILE *out, const char *text, size_t n, size_t column, size_t indent)
{
	const char *end = text + n;

	while (text < end) {
		size_t word;

		while (text < end && isspace((unsigned char)*text))
			text++;
		word = 0;
		while (text + word < end && !isspace((unsigned char)text[word]))
			word++;
		if (!word)
			break;
		if (column > indent && column + 1 + word > FOLD_WIDTH) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (column > indent) {
			column += (size_t)fprintf(out, " ");
		}
		column += fwrite(text, 1, word, out);
		text += word;
	}
	fputc('\n', out);
}
