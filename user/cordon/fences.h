/* SPDX-License-Identifier: Apache-2.0 */
/* The fences that cordond keeps, as rows for people: what `cordon list` and `cordon top` share. No privilege of their own. */
#ifndef CORDON_FENCES_H
#define CORDON_FENCES_H

#include "cordon/daemon_client.h"

/*
 * Asks cordond (socket NULL: the default one). *ret_rows: an array of rows by id, which is by age, each with `tasks`, how many
 * processes there are (null: not to be told). ret_status (may be NULL): its own figures. Both to be json_decref()ed. An exit
 * code; what went wrong was said.
 */
int fences_ask(const char *socket, json_t **ret_rows, json_t **ret_status);

/* A member of a row for a terminal, in text[size), "-" where there is none: what could act on it becomes "?". */
const char *fences_cell(const json_t *row, const char *key, char *text, size_t size);

/* "90s", "17m", "5h", "12d". */
const char *fences_age(long long s, char *text, size_t size);

#endif
