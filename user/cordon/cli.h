/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of the command `cordon`: a table of verbs, one file each (cmd_VERB.c), whose options are rows. Usage,
 * --help, the man page and shell completion come from the same rows (`cordon --print-man`, `--print-completion`).
 */
#ifndef CORDON_CLI_H
#define CORDON_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "util/util.h"

enum cli_kind {
	CLI_FLAG,   /* bool */
	CLI_STRING, /* const char *; points into argv */
	CLI_LIST,   /* struct cli_list; may be given several times */
	CLI_UINT,   /* unsigned int, within min..max */
	CLI_SIZE,   /* size_t bytes, with K, M or G, within min..max */
};

struct cli_list {
	const char *v[16];
	size_t n;
};

/* One option. `offset` is into the verb's own options struct, which starts zeroed. */
struct cli_option {
	char letter;	     /* 0: none */
	const char *name;    /* without dashes */
	enum cli_kind kind;
	size_t offset;
	const char *metavar; /* NULL for flags */
	const char *help;    /* one line */
	unsigned long long min, max;
	const char *fallback; /* shown as default in the help, parsed when the option is absent; NULL: none */
};

struct cli_verb {
	const char *name;
	const char *summary;   /* one line */
	const char *arguments; /* after the options, as in usage: "POLICY..." */
	const char *text;      /* paragraphs for --help and the man page */
	const struct cli_option *options; /* ends with a row whose name is NULL */
	size_t options_size;   /* of the verb's options struct */
	int min_args, max_args; /* max_args < 0: any number */
	/* Returns an exit code. options points to the filled struct; argv to argc arguments. */
	int (*run)(const void *options, int argc, char **argv);
};

/* The verbs, in the order of the help; ends with NULL. */
extern const struct cli_verb *const cli_verbs[];

/* Prints "cordon VERB: text" to stderr and returns code. */
int cli_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
