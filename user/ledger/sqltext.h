/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's SQL: finds the named values (:object) outside of quotes and comments and puts the engine's numbered
 * placeholders in their place. Values are never pasted in. Each mention gets a number of its own, so that PostgreSQL
 * may give each its own type. No I/O.
 */
#ifndef CORDON_LEDGER_SQLTEXT_H
#define CORDON_LEDGER_SQLTEXT_H

#include "util/util.h"

#define SQLTEXT_MAX (16 * 1024)
#define SQLTEXT_VALUES_MAX 32

/* What the ledger itself knows. X(enum, name) */
#define SQLTEXT_BUILTINS(X)   \
	X(TENANT, "tenant")   \
	X(SUBJECT, "subject") \
	X(TASK, "task")       \
	X(OBJECT, "object")   \
	X(AMOUNT, "amount")   \
	X(KEY, "key")         \
	X(CALL, "call")

enum sqltext_value {
	SQLTEXT_INPUT, /* one of the tool's inputs */
#define X(id, name) SQLTEXT_##id,
	SQLTEXT_BUILTINS(X)
#undef X
};

struct sqltext {
	char *sql; /* owned */
	unsigned int n;
	struct {
		enum sqltext_value value;
		unsigned int input; /* index into inputs */
	} values[SQLTEXT_VALUES_MAX];
};

/*
 * what names the text in messages ("tool refund: fact query"). inputs: NULL-terminated, may be NULL. -EINVAL: unknown
 * name, unclosed quote, more than one statement, too long; -ENOMEM.
 */
int sqltext_compile(struct sqltext *ret, const char *sql, char marker, const char *const *inputs,
		    const char *what, struct error *error);
void sqltext_free(struct sqltext *text);

#endif
