/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults of a configuration text: positions, and a sorted, bounded list that is safe to print.
 * No privilege.
 */
#ifndef CORDON_CONF_FAULT_H
#define CORDON_CONF_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A text, a list, a string: what is longer is a fault. docs/limits.md lists them. */
#define CONF_TEXT_MAX (256 * 1024)
#define CONF_STRING_MAX 4095
#define CONF_LIST_MAX 4096
#define CONF_FAULTS_MAX 100

/* A position in the text, both from 1; the column counts characters. */
struct conf_mark {
	unsigned int line;
	unsigned int column;
};

/* One fault of a text. */
struct conf_fault {
	unsigned int line;   /* from 1 */
	unsigned int column; /* from 1, in characters */
	char *text;	     /* what is wrong and what would be right, one line, owned */
};

struct conf_faults {
	struct conf_fault v[CONF_FAULTS_MAX];
	size_t n;
	size_t more; /* found beyond CONF_FAULTS_MAX */
};

/*
 * Adds a fault, keeping the list sorted by position (equal positions in the order of adding). Past
 * CONF_FAULTS_MAX the last ones of the text are only counted. The formatted text is made one
 * printable line: control, bidirectional and invalid bytes become \xNN. Returns 0 or -ENOMEM.
 */
int conf_fault_add(struct conf_faults *faults, struct conf_mark at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void conf_faults_clear(struct conf_faults *faults);

/* Writes "FILE:LINE:COLUMN: text\n" for each fault. */
void conf_faults_print(const struct conf_faults *faults, const char *path, FILE *out);

/* All faults that were found, listed or only counted. */
static inline size_t conf_fault_count(const struct conf_faults *faults)
{
	return faults->n + faults->more;
}

/* A value as it is shown in a fault: cut at a character boundary, then "..." says so. */
struct conf_quote {
	char s[208];
};
struct conf_quote conf_quote(const char *text);

/* The same of the name of a variable: what follows a `=` may be a secret and is left out. */
struct conf_quote conf_quote_name(const char *text);

/*
 * Reads one UTF-8 character of text[0..size). Returns its bytes and sets *ret_character, or 0 when
 * they are not valid UTF-8 (overlong, surrogate, cut off).
 */
size_t conf_utf8_next(const char *text, size_t size, uint32_t *ret_character);

#endif
