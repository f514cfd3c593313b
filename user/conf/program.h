/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of a daemon: long options as rows, from which help, man page and the word for a misspelt one come,
 * too. No privilege; prints to stdout and stderr.
 */
#ifndef CORDON_CONF_PROGRAM_H
#define CORDON_CONF_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* One option. value or flag: where it goes, in the caller's struct. */
struct conf_program_option {
	const char *name;    /* without dashes */
	const char *metavar; /* NULL: a flag */
	const char *help;    /* one line, no full stop */
	size_t offset;	     /* of a const char * (points into argv), or of a bool for a flag */
	bool required;
};

struct conf_program {
	const char *name;     /* "cordon-gateway" */
	const char *summary;  /* of the man page: "judge and execute what fenced agents ask for" */
	const char *synopsis; /* after the name: "--config FILE [--check]" */
	const char *see_also; /* troff: ".BR cordon (1)" */
	const struct conf_program_option *options;
	size_t n_options; /* at most CONF_PROGRAM_OPTIONS_MAX */
	const char *const *paragraphs;
	size_t n_paragraphs;
	const struct conf_program_code {
		int code;
		const char *meaning;
	} * codes;
	size_t n_codes;
};

#define CONF_PROGRAM_OPTIONS_MAX 16

/*
 * Parses argv into options, the caller's zeroed struct. Returns -1 to go on, or the exit code when all is said: --help,
 * --version, --print-man, or a fault (printed).
 */
int conf_program_parse(const struct conf_program *program, int argc, char **argv, void *options);

#endif
