/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of the command `cordon`: a table of verbs, one file each (cmd_VERB.c), whose options
 * are rows. Usage, help, the man page and shell completion come from the same rows
 * (`cordon --print-man`, `cordon --print-completion`).
 */
#ifndef CORDON_CLI_H
#define CORDON_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "util/util.h"

enum cli_kind {
	CLI_FLAG,   /* bool */
	CLI_STRING, /* const char *; points into argv */
	CLI_LIST,   /* struct cli_list; may be given several times */
	CLI_UINT,   /* unsigned int, within min..max */
	CLI_SIZE,   /* size_t bytes, with K, M or G, within min..max */
	CLI_CHOICE, /* const char *; one of the words of metavar, "text|json" */
};

struct cli_list {
	const char *v[16];
	size_t n;
};

/* One option. `offset` is into the verb's own options struct, which starts zeroed. */
struct cli_option {
	char letter;	  /* 0: none */
	const char *name; /* without dashes */
	enum cli_kind kind;
	size_t offset;
	const char *metavar;	     /* NULL for flags */
	const char *help;	     /* one line, no full stop */
	unsigned long long min, max; /* of UINT and SIZE; max 0: as far as the type goes */
	const char *fallback;	     /* parsed when the option is absent; NULL: none */
};

struct cli_verb {
	const char *name;
	const char *summary;   /* one line */
	const char *arguments; /* after the options, as in usage: "POLICY..." */
	/*
	 * Paragraphs for --help and the man page, parted by empty lines; lines that begin with a
	 * blank stay as they are.
	 */
	const char *text;
	const struct cli_option *options; /* ends with a row whose name is NULL */
	size_t options_size;		  /* of the verb's options struct */
	int min_args, max_args;		  /* max_args < 0: any number */
	bool stop_at_argument;		  /* options end at the first argument: a command follows */
	int usage_code; /* exit code of faults in options and arguments; 0: EXIT_USAGE */
	/* Returns an exit code. options points to the filled struct; argv to argc arguments. */
	int (*run)(const void *options, int argc, char **argv);
};

/* The verbs, in the order of the help; ends with NULL. */
extern const struct cli_verb *const cli_verbs[];

/* Prints "cordon VERB: text" to stderr, control characters as "?", and returns code. */
int cli_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Is fd a terminal that may be coloured? Honours NO_COLOR and TERM=dumb. */
bool cli_wants_color(int fd);

/* All of main(): finds the verb, parses its options, runs it. Returns the exit code. */
int cli_main(int argc, char **argv);

/* The verb of that name, or NULL. */
const struct cli_verb *cli_find_verb(const char *name);

/*
 * The word of words (ends with NULL) that is nearest to a misspelt one: by the fewest inserted,
 * dropped, changed or swapped letters. NULL when none is near enough to be meant.
 */
const char *cli_nearest(const char *word, const char *const *words);

enum { CLI_PARSED = 0, CLI_WANTS_HELP = 1 };

/*
 * Parses argv[1..] by the verb's rows into ret_options (options_size bytes, cleared first). Returns
 * CLI_PARSED and the index of the first argument, CLI_WANTS_HELP, or -EINVAL after the fault was
 * printed. Reorders argv like getopt_long unless stop_at_argument.
 */
int cli_parse(const struct cli_verb *verb, int argc, char **argv, void *ret_options,
	      int *ret_first);

/*
 * Checks what the compiler cannot see in the tables (help everywhere, no name twice, offsets inside
 * the struct, fallbacks that parse). Prints each fault to out; returns their number. The man page
 * is not printed from bad rows, so the build finds them.
 */
int cli_check_tables(FILE *out);
int cli_check_verb(const struct cli_verb *verb, FILE *out); /* the same for one verb */

/* cli_doc.c: everything that is generated from the rows. */
#define CLI_OPTIONS_MAX 48 /* rows of one verb */
#define CLI_SHELLS "bash|zsh|fish"
void cli_print_usage(FILE *out, const struct cli_verb *verb);
void cli_print_help(FILE *out); /* of cordon itself */
void cli_print_verb_help(FILE *out, const struct cli_verb *verb);
void cli_print_man(FILE *out);
int cli_print_completion(FILE *out, const char *shell); /* -EINVAL: not one of CLI_SHELLS */
const char *cli_version(void);

#endif
