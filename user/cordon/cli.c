// SPDX-License-Identifier: Apache-2.0
/*
 * The machinery of the command line: finds a verb, parses its option rows, runs it. No privilege of
 * its own and nothing is done before the whole line was understood: a fault in it ends with exit 2
 * (or the verb's usage_code) and one line on stderr that names the object and the remedy.
 */
#include "cordon/cli.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_BASE 256 /* getopt_long answers LONG_BASE + row; below it are letters */
#define ROW_HELP CLI_OPTIONS_MAX

static const char *current_verb; /* for messages; NULL before one is known */

int cli_fail(int code, const char *format, ...)
{
	char text[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (char *c = text; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
	fprintf(stderr, "cordon%s%s: %s\n", current_verb ? " " : "",
		current_verb ? current_verb : "", text);
	return code;
}

bool cli_wants_color(int fd)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) && !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0);
}

/* --- words --------------------------------------------------------------------------------- */

#define WORD_MAX 32

static unsigned int min_uint(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/*
 * Letters to insert, drop, change or swap (optimal string alignment); words beyond WORD_MAX are
 * infinitely far.
 */
static unsigned int word_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned int d[WORD_MAX + 1][WORD_MAX + 1];

	if (la > WORD_MAX || lb > WORD_MAX)
		return UINT_MAX;
	for (size_t i = 0; i <= la; i++)
		d[i][0] = (unsigned int)i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = (unsigned int)j;
	for (size_t i = 1; i <= la; i++) {
		for (size_t j = 1; j <= lb; j++) {
			unsigned int change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			d[i][j] = min_uint(change, min_uint(d[i - 1][j], d[i][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = min_uint(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[la][lb];
}

const char *cli_nearest(const char *word, const char *const *words)
{
	unsigned int best = (unsigned int)strlen(word) / 3 + 2; /* nearer than this */
	const char *nearest = NULL;

	for (; *words; words++) {
		unsigned int distance = word_distance(word, *words);

		if (distance < best && distance < strlen(*words)) {
			best = distance;
			nearest = *words;
		}
	}
	return nearest;
}

/* Is word one of the words of "a|b|c"? */
static bool choice_has(const char *choices, const char *word)
{
	size_t n = strlen(word);

	if (!n || strchr(word, '|'))
		return false;
	for (const char *c = choices; c; c = strchr(c, '|')) {
		c += *c == '|';
		if (strncmp(c, word, n) == 0 && (c[n] == '|' || c[n] == '\0'))
			return true;
	}
	return false;
}

/* --- values -------------------------------------------------------------------------------- */

static const struct {
	char letter;
	unsigned int shift;
} size_units[] = { { 'G', 30 }, { 'M', 20 }, { 'K', 10 } };

/* Multiplies *n by the unit at text; -EINVAL for no unit, -ERANGE beyond 64 bits. */
static int unit_apply(const char *text, unsigned long long *n)
{
	for (size_t i = 0; i < ARRAY_SIZE(size_units); i++) {
		if (toupper((unsigned char)text[0]) != size_units[i].letter || text[1])
			continue;
		if (*n > ULLONG_MAX >> size_units[i].shift)
			return -ERANGE;
		*n <<= size_units[i].shift;
		return 0;
	}
	return -EINVAL;
}

static int number_parse(const char *text, bool with_unit, unsigned long long *ret_number)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	if (!*end)
		return 0;
	return with_unit ? unit_apply(end, ret_number) : -EINVAL;
}

/* The limit as a person would type it: 65536 is 64K for a size. */
static const char *number_format(unsigned long long n, bool with_unit, char ret_text[32])
{
	for (size_t i = 0; with_unit && n && i < ARRAY_SIZE(size_units); i++) {
		if (n & ((1ULL << size_units[i].shift) - 1))
			continue;
		snprintf(ret_text, 32, "%llu%c", n >> size_units[i].shift, size_units[i].letter);
		return ret_text;
	}
	snprintf(ret_text, 32, "%llu", n);
	return ret_text;
}

static int number_read(const struct cli_option *option, const char *text,
		       unsigned long long *ret_number)
{
	bool size = option->kind == CLI_SIZE;
	unsigned long long type_max = size ? SIZE_MAX : UINT_MAX;
	unsigned long long max = option->max ? option->max : type_max;
	int r = number_parse(text, size, ret_number);
	char limit[32];

	if (r == -EINVAL)
		return cli_fail(-EINVAL, "--%s: '%s' is not a %s", option->name, text,
				size ? "size: a number, with K, M or G" : "number");
	if (r == -ERANGE || *ret_number > max)
		return cli_fail(-EINVAL, "--%s: %s is above %s", option->name, text,
				number_format(max, size, limit));
	if (*ret_number < option->min)
		return cli_fail(-EINVAL, "--%s: %s is below %s", option->name, text,
				number_format(option->min, size, limit));
	return 0;
}

static int list_add(const struct cli_option *option, struct cli_list *list, const char *text)
{
	if (list->n == ARRAY_SIZE(list->v))
		return cli_fail(-EINVAL, "--%s: given more than %zu times", option->name,
				ARRAY_SIZE(list->v));
	list->v[list->n++] = text;
	return 0;
}

/* Puts one value (NULL for flags) where the row says. */
static int value_store(const struct cli_option *option, const char *text, void *options)
{
	void *target = (char *)options + option->offset;
	unsigned long long number = 0;
	int r = 0;

	switch (option->kind) {
	case CLI_FLAG:
		*(bool *)target = true;
		break;
	case CLI_CHOICE:
		if (!choice_has(option->metavar, text))
			return cli_fail(-EINVAL, "--%s: '%s' is not one of %s", option->name, text,
					option->metavar);
		*(const char **)target = text;
		break;
	case CLI_STRING:
		*(const char **)target = text;
		break;
	case CLI_LIST:
		r = list_add(option, target, text);
		break;
	case CLI_UINT:
		r = number_read(option, text, &number);
		*(unsigned int *)target = (unsigned int)number;
		break;
	case CLI_SIZE:
		r = number_read(option, text, &number);
		*(size_t *)target = (size_t)number;
		break;
	}
	return r;
}

/* --- options ------------------------------------------------------------------------------- */

/* The rows as getopt_long wants them. */
struct getopt_form {
	char letters[2 * CLI_OPTIONS_MAX + 8];
	struct option longs[CLI_OPTIONS_MAX + 2];
};

static void form_build(const struct cli_verb *verb, struct getopt_form *form)
{
	char *letter = form->letters;
	size_t n = 0;

	memset(form, 0, sizeof(*form));
	if (verb->stop_at_argument)
		*letter++ = '+';
	*letter++ = ':'; /* tell a missing value from an unknown option */
	*letter++ = 'h';
	for (const struct cli_option *o = verb->options; o && o->name && n < CLI_OPTIONS_MAX;
	     o++, n++) {
		int has_value = o->kind == CLI_FLAG ? no_argument : required_argument;

		form->longs[n] = (struct option){ o->name, has_value, NULL, LONG_BASE + (int)n };
		if (!o->letter)
			continue;
		*letter++ = o->letter;
		if (has_value == required_argument)
			*letter++ = ':';
	}
	form->longs[n] = (struct option){ "help", no_argument, NULL, LONG_BASE + ROW_HELP };
}

/* The row of an answer of getopt_long, or NULL. */
static const struct cli_option *row_of(const struct cli_verb *verb, int answer)
{
	if (answer >= LONG_BASE)
		return &verb->options[answer - LONG_BASE];
	for (const struct cli_option *o = verb->options; o && o->name; o++)
		if (o->letter == answer)
			return o;
	return NULL;
}

static const char *nearest_option(const struct cli_verb *verb, const char *word)
{
	const char *names[CLI_OPTIONS_MAX + 2] = { "help" };
	size_t n = 1;

	for (const struct cli_option *o = verb->options; o && o->name && n <= CLI_OPTIONS_MAX; o++)
		names[n++] = o->name;
	return cli_nearest(word, names);
}

/* A '?' of getopt_long: not known, ambiguous, or a value where none belongs. */
static int option_unknown(const struct cli_verb *verb, const char *word)
{
	char name[64];
	const char *nearest;

	if (optopt >= LONG_BASE)
		return cli_fail(-EINVAL, "--%s takes no value",
				optopt == LONG_BASE + ROW_HELP ? "help"
							       : row_of(verb, optopt)->name);
	if (optopt)
		return cli_fail(-EINVAL, "unknown option -%c; see cordon %s --help", optopt,
				verb->name);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	nearest = nearest_option(verb, name);
	if (nearest)
		return cli_fail(-EINVAL, "unknown option --%s; did you mean --%s?", name, nearest);
	return cli_fail(-EINVAL, "unknown option --%s; see cordon %s --help", name, verb->name);
}

static int option_take(const struct cli_verb *verb, int answer, char **argv, void *options)
{
	const struct cli_option *option;

	if (answer == '?')
		return option_unknown(verb, argv[optind - 1]);
	if (answer == ':') {
		option = row_of(verb, optopt);
		return cli_fail(-EINVAL, "--%s needs a value: %s", option->name, option->metavar);
	}
	return value_store(row_of(verb, answer), optarg, options);
}

/* Gives every option that was not on the line its fallback. */
static int fallbacks_store(const struct cli_verb *verb, const bool *given, void *options)
{
	for (size_t i = 0; verb->options && verb->options[i].name; i++) {
		const struct cli_option *o = &verb->options[i];
		int r = o->fallback && !given[i] ? value_store(o, o->fallback, options) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static int arguments_check(const struct cli_verb *verb, int argc, char **argv)
{
	if (argc < verb->min_args)
		return cli_fail(-EINVAL, "missing argument: cordon %s [OPTION...] %s", verb->name,
				verb->arguments);
	if (verb->max_args >= 0 && argc > verb->max_args)
		return cli_fail(-EINVAL, "unexpected argument '%s'; see cordon %s --help",
				argv[verb->max_args], verb->name);
	return 0;
}

int cli_parse(const struct cli_verb *verb, int argc, char **argv, void *ret_options, int *ret_first)
{
	bool given[CLI_OPTIONS_MAX] = { false };
	struct getopt_form form;
	int answer, r;

	form_build(verb, &form);
	memset(ret_options, 0, verb->options_size);
	optind = 0; /* glibc: start anew */
	opterr = 0;
	while ((answer = getopt_long(argc, argv, form.letters, form.longs, NULL)) != -1) {
		if (answer == LONG_BASE + ROW_HELP || (answer == 'h' && !row_of(verb, 'h')))
			return CLI_WANTS_HELP;
		r = option_take(verb, answer, argv, ret_options);
		if (r < 0)
			return r;
		given[row_of(verb, answer) - verb->options] = true;
	}
	*ret_first = optind;
	r = arguments_check(verb, argc - optind, argv + optind);
	return r < 0 ? r : fallbacks_store(verb, given, ret_options);
}

/* --- verbs --------------------------------------------------------------------------------- */

const struct cli_verb *cli_find_verb(const char *name)
{
	for (const struct cli_verb *const *v = cli_verbs; *v; v++)
		if (strcmp((*v)->name, name) == 0)
			return *v;
	return NULL;
}

static int verb_unknown(const char *word)
{
	const char *names[64] = { "help" };
	const char *nearest;
	size_t n = 1;

	for (const struct cli_verb *const *v = cli_verbs; *v && n < ARRAY_SIZE(names) - 1; v++)
		names[n++] = (*v)->name;
	nearest = cli_nearest(word, names);
	if (nearest)
		return cli_fail(EXIT_USAGE, "unknown command '%s'; did you mean '%s'?", word,
				nearest);
	return cli_fail(EXIT_USAGE, "unknown command '%s'; see cordon --help", word);
}

/* What was printed must have arrived: a full disk is a failure, a reader that left is not. */
static int stdout_finish(int code)
{
	errno = 0;
	if ((fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE || code != EXIT_OK)
		return code;
	return cli_fail(EXIT_FOUND, "cannot write to stdout: %s", strerror(errno ? errno : EIO));
}

static int verb_run(const struct cli_verb *verb, int argc, char **argv)
{
	_cleanup_free_ void *options = calloc(1, verb->options_size + 1);
	int first, r;

	current_verb = verb->name;
	if (!options)
		return cli_fail(EXIT_FOUND, "out of memory");
	r = cli_parse(verb, argc, argv, options, &first);
	if (r == CLI_WANTS_HELP) {
		cli_print_verb_help(stdout, verb);
		return EXIT_OK;
	}
	if (r < 0)
		return verb->usage_code ? verb->usage_code : EXIT_USAGE;
	return verb->run(options, argc - first, argv + first);
}

static int help_run(int argc, char **argv)
{
	const struct cli_verb *verb;

	if (argc < 2) {
		cli_print_help(stdout);
		return EXIT_OK;
	}
	verb = cli_find_verb(argv[1]);
	if (!verb)
		return verb_unknown(argv[1]);
	cli_print_verb_help(stdout, verb);
	return EXIT_OK;
}

static int man_run(void)
{
	if (cli_check_tables(stderr))
		return EXIT_FOUND;
	cli_print_man(stdout);
	return EXIT_OK;
}

static int completion_run(const char *shell)
{
	if (!shell || cli_print_completion(stdout, shell) < 0)
		return cli_fail(EXIT_USAGE, "--print-completion needs a shell: %s", CLI_SHELLS);
	return EXIT_OK;
}

/* `cordon --OPTION`: what concerns no verb. */
static int global_run(int argc, char **argv)
{
	if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)
		return help_run(argc, argv);
	if (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-V") == 0)
		return printf("cordon %s\n", cli_version()) < 0 ? EXIT_FOUND : EXIT_OK;
	if (strcmp(argv[0], "--print-man") == 0)
		return man_run();
	if (strcmp(argv[0], "--print-completion") == 0)
		return completion_run(argc > 1 ? argv[1] : NULL);
	if (strncmp(argv[0], "--print-completion=", 19) == 0)
		return completion_run(argv[0] + 19);
	return cli_fail(EXIT_USAGE, "unknown option %s; see cordon --help", argv[0]);
}

int cli_main(int argc, char **argv)
{
	const struct cli_verb *verb;

	current_verb = NULL;
	if (argc < 2) {
		cli_print_help(stderr);
		return EXIT_USAGE;
	}
	if (argv[1][0] == '-')
		return stdout_finish(global_run(argc - 1, argv + 1));
	if (strcmp(argv[1], "help") == 0)
		return stdout_finish(help_run(argc - 1, argv + 1));
	verb = cli_find_verb(argv[1]);
	if (!verb)
		return verb_unknown(argv[1]);
	return stdout_finish(verb_run(verb, argc - 1, argv + 1));
}

/* --- the tables themselves ----------------------------------------------------------------- */

static size_t kind_size(enum cli_kind kind)
{
	switch (kind) {
	case CLI_FLAG:
		return sizeof(bool);
	case CLI_LIST:
		return sizeof(struct cli_list);
	case CLI_UINT:
		return sizeof(unsigned int);
	case CLI_SIZE:
		return sizeof(size_t);
	case CLI_STRING:
	case CLI_CHOICE:
		break;
	}
	return sizeof(const char *);
}

/* What is wrong with one row by itself, or NULL. */
static const char *row_fault(const struct cli_verb *verb, const struct cli_option *o)
{
	size_t size = kind_size(o->kind);

	if (!o->help || !o->help[0] || o->help[strlen(o->help) - 1] == '.')
		return "has no help, or its help ends with a full stop";
	if ((o->kind == CLI_FLAG) != !o->metavar)
		return "needs a metavar, or is a flag that has one";
	if (o->offset + size > verb->options_size)
		return "lies outside the options struct";
	if (o->max && o->min > o->max)
		return "has an empty range";
	if (o->letter == 'h' || o->letter == 'W' || strcmp(o->name, "help") == 0)
		return "takes the place of --help or of a letter that getopt reserves";
	return NULL;
}

static bool row_repeats(const struct cli_verb *verb, const struct cli_option *row)
{
	for (const struct cli_option *o = verb->options; o < row; o++)
		if (strcmp(o->name, row->name) == 0 || (o->letter && o->letter == row->letter))
			return true;
	return false;
}

static bool row_fallback_parses(const struct cli_verb *verb, const struct cli_option *row)
{
	_cleanup_free_ void *options = calloc(1, verb->options_size + 1);

	return !row->fallback || (options && value_store(row, row->fallback, options) == 0);
}

int cli_check_verb(const struct cli_verb *verb, FILE *out)
{
	int n = 0;

	for (const struct cli_option *o = verb->options; o && o->name; o++) {
		const char *fault = row_fault(verb, o);

		if (!fault && o - verb->options >= CLI_OPTIONS_MAX)
			fault = "is beyond CLI_OPTIONS_MAX";
		if (!fault && row_repeats(verb, o))
			fault = "has the name or letter of another row";
		if (!fault && !row_fallback_parses(verb, o))
			fault = "has a fallback that does not parse";
		if (fault)
			n += fprintf(out, "cordon %s: the row of --%s %s\n", verb->name, o->name,
				     fault) > 0;
	}
	if (!verb->summary || !verb->arguments || !verb->run)
		n += fprintf(out, "cordon %s: no summary, arguments or run\n", verb->name) > 0;
	return n;
}

int cli_check_tables(FILE *out)
{
	int n = 0;

	for (const struct cli_verb *const *v = cli_verbs; *v; v++)
		n += cli_check_verb(*v, out);
	return n;
}
