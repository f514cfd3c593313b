// SPDX-License-Identifier: Apache-2.0
/* See near.h. Pure functions; nothing here can fail. */
#include "conf/near.h"

#include <string.h>

/*
 * Edits that turn a into b: insert, remove, replace, or swap two neighbours (optimal string
 * alignment). Case does not count: `Mode` is `mode`. Returns a number beyond every threshold for
 * long words.
 */
static size_t word_distance(const char *a, const char *b)
{
	size_t d[CONF_NEAR_NONE + 1][CONF_NEAR_NONE + 1], n = strlen(a), m = strlen(b);

	if (n > CONF_NEAR_NONE || m > CONF_NEAR_NONE)
		return CONF_NEAR_NONE;
	for (size_t i = 0; i <= n; i++)
		d[i][0] = i;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		for (size_t j = 1; j <= m; j++) {
			size_t cost = (a[i - 1] | 0x20) != (b[j - 1] | 0x20);
			size_t best = d[i - 1][j - 1] + cost;

			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[n][m];
}

bool conf_word_is_nearer(const char *name, const char *word, size_t *best)
{
	size_t distance = word_distance(name, word), length = strlen(word);
	size_t most = length <= 3 ? 1 : length <= 6 ? 2 : 3;

	/* What stops short of the word was meant to be it: `mem` is `memory`. */
	if (strlen(name) >= 3 && !strncmp(name, word, strlen(name)))
		distance = distance < most ? distance : most;
	if (distance > most || distance >= *best)
		return false;
	*best = distance;
	return true;
}
