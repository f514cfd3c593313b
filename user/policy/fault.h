/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the policy library: positions, and adding faults to the list of policy.h. No privilege. */
#ifndef CORDON_POLICY_FAULT_H
#define CORDON_POLICY_FAULT_H

#include <stdint.h>

#include "policy/policy.h"

/* A position in the text, both from 1; the column counts characters. */
struct policy_mark {
	unsigned int line;
	unsigned int column;
};

/*
 * Adds a fault, keeping the list sorted by position (equal positions in the order of adding). Past
 * POLICY_FAULTS_MAX the last ones of the text are only counted. The formatted text is made one
 * printable line: control, bidirectional and invalid bytes become \xNN. Returns 0 or -ENOMEM.
 */
int policy_fault_add(struct policy_faults *faults, struct policy_mark at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* All faults that were found, listed or only counted. */
static inline size_t policy_fault_count(const struct policy_faults *faults)
{
	return faults->n + faults->more;
}

/* A value as it is shown in a fault: cut at a character boundary, then "..." says so. */
struct policy_quote {
	char s[208];
};
struct policy_quote policy_quote(const char *text);

/* The same of the name of a variable: what follows a `=` may be a secret and is left out. */
struct policy_quote policy_quote_name(const char *text);

/*
 * Reads one UTF-8 character of text[0..size). Returns its bytes and sets *ret_character, or 0 when
 * they are not valid UTF-8 (overlong, surrogate, cut off).
 */
size_t policy_utf8_next(const char *text, size_t size, uint32_t *ret_character);

#endif
