// SPDX-License-Identifier: Apache-2.0
/*
 * What is written from the rows of the verbs: usage, --help, the man page and the completions of
 * three shells. No privilege; only prints. Nothing about an option is said anywhere else, so
 * nothing can go stale.
 */
#include "cordon/cli.h"
#include "util/fold.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifndef CORDON_VERSION
#define CORDON_VERSION "0.1.0"
#endif

#define HELP_COLUMN 28

static const char about[] = "Cordon keeps an AI agent inside a boundary that the kernel holds: a "
			    "fence. Whatever the policy does not allow - "
			    "an address on the network, a write outside the working directory - is "
			    "denied, at once and with an error that the "
			    "agent can understand, and every decision is reported.";

static const struct {
	const char *option;
	const char *help;
} globals[] = {
	{ "--help", "print this help; after a command, that command's" },
	{ "--version", "print the version" },
	{ "--print-man", "print the man page cordon(1)" },
	{ "--print-completion " CLI_SHELLS, "print the completion for a shell" },
};

static const struct {
	int code;
	const char *meaning;
} exit_codes[] = {
	{ EXIT_OK, "done" },
	{ EXIT_FOUND, "failed, or found something" },
	{ EXIT_USAGE, "the command line was not understood" },
	{ EXIT_POLICY, "a policy is invalid" },
	{ EXIT_HOST, "this host cannot enforce; cordon doctor says what is missing" },
	{ EXIT_PERMISSION, "not permitted" },
	{ EXIT_NO_FENCE, "no such fence" },
	{ EXIT_RUN_TIMEOUT, "the time limit ended the command (run)" },
	{ EXIT_RUN_FAILED, "Cordon failed before the command started (run)" },
	{ EXIT_RUN_NOT_EXECUTABLE, "the command is not executable (run)" },
	{ EXIT_RUN_NOT_FOUND, "the command was not found (run)" },
};

const char *cli_version(void)
{
	return CORDON_VERSION;
}

/* --- text ---------------------------------------------------------------------------------- */

/* The length of the paragraph at text; *ret_verbatim when its lines are to stay as they are. */
static size_t paragraph_next(const char *text, bool *ret_verbatim)
{
	const char *end = strstr(text, "\n\n");

	*ret_verbatim = text[0] == ' ' || text[0] == '\t';
	return end ? (size_t)(end - text) : strlen(text);
}

static const char *paragraph_skip(const char *text, size_t n)
{
	text += n;
	return text + strspn(text, "\n");
}

static void put_paragraphs(FILE *out, const char *text)
{
	while (text && *text) {
		bool verbatim;
		size_t n = paragraph_next(text, &verbatim);

		fputc('\n', out);
		if (verbatim)
			fprintf(out, "%.*s\n", (int)n, text);
		else
			fold_put(out, text, n, 0, 0);
		text = paragraph_skip(text, n);
	}
}

static void put_row(FILE *out, const char *left, const char *help)
{
	int n = fprintf(out, "  %s", left);

	if (n > HELP_COLUMN - 2)
		n = fprintf(out, "\n%*s", HELP_COLUMN, "") - 1;
	else
		n += fprintf(out, "%*s", HELP_COLUMN - n, "");
	fold_put(out, help, strlen(help), (size_t)n, HELP_COLUMN);
}

static void put_option(FILE *out, const struct cli_option *o)
{
	char left[128], help[512], letter[5] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->metavar ? " " : "",
		 o->metavar ? o->metavar : "");
	snprintf(help, sizeof(help), "%s%s%s%s%s", o->help,
		 o->kind == CLI_LIST ? "; may be repeated" : "", o->fallback ? " [default: " : "",
		 o->fallback ? o->fallback : "", o->fallback ? "]" : "");
	put_row(out, left, help);
}

void cli_print_usage(FILE *out, const struct cli_verb *verb)
{
	fprintf(out, "Usage: cordon %s [OPTION...]%s%s\n", verb->name,
		verb->arguments[0] ? " " : "", verb->arguments);
}

void cli_print_verb_help(FILE *out, const struct cli_verb *verb)
{
	cli_print_usage(out, verb);
	fputc('\n', out);
	fold_put(out, verb->summary, strlen(verb->summary), 0, 0);
	fputc('\n', out);
	for (const struct cli_option *o = verb->options; o && o->name; o++)
		put_option(out, o);
	put_row(out, "-h, --help", "print this help");
	put_paragraphs(out, verb->text);
}

void cli_print_help(FILE *out)
{
	fprintf(out, "Usage: cordon COMMAND [OPTION...] [ARGUMENT...]\n\n");
	fold_put(out, about, sizeof(about) - 1, 0, 0);
	fprintf(out, "\nCommands:\n");
	for (const struct cli_verb *const *v = cli_verbs; *v; v++)
		put_row(out, (*v)->name, (*v)->summary);
	put_row(out, "help", "print the help of a command");
	fprintf(out, "\nOptions:\n");
	for (size_t i = 0; i < ARRAY_SIZE(globals); i++)
		put_row(out, globals[i].option, globals[i].help);
	fprintf(out, "\nExit status:\n");
	for (size_t i = 0; i < ARRAY_SIZE(exit_codes); i++) {
		char code[16];

		snprintf(code, sizeof(code), "%3d", exit_codes[i].code);
		put_row(out, code, exit_codes[i].meaning);
	}
}

/* --- the man page -------------------------------------------------------------------------- */

/* n bytes of text for roff: nothing in it is a request or an escape. */
static void man_put(FILE *out, const char *text, size_t n)
{
	bool line_start = true;

	for (size_t i = 0; i < n; i++) {
		if (line_start && (text[i] == '.' || text[i] == '\''))
			fputs("\\&", out);
		line_start = text[i] == '\n';
		if (text[i] == '\\')
			fputs("\\e", out);
		else if (text[i] == '-')
			fputs("\\-", out);
		else
			fputc(text[i], out);
	}
}

static void man_puts(FILE *out, const char *text)
{
	man_put(out, text, strlen(text));
}

/* A line of help as a sentence: it begins with a capital. */
static void man_sentence(FILE *out, const char *text)
{
	fputc(toupper((unsigned char)text[0]), out);
	man_puts(out, text + 1);
}

static void man_bold(FILE *out, const char *text)
{
	fputs("\\fB", out);
	man_puts(out, text);
	fputs("\\fR", out);
}

static void man_option(FILE *out, const struct cli_option *o)
{
	char letter[3] = { '-', o->letter, '\0' };

	fprintf(out, ".TP\n");
	if (o->letter) {
		man_bold(out, letter);
		fputs(", ", out);
	}
	fputs("\\fB\\-\\-", out);
	man_puts(out, o->name);
	fputs("\\fR", out);
	if (o->metavar) {
		fputs(" \\fI", out);
		man_puts(out, o->metavar);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	man_sentence(out, o->help);
	fprintf(out, "%s.\n", o->kind == CLI_LIST ? "; may be repeated" : "");
	if (o->fallback) {
		fprintf(out, "The default is ");
		man_bold(out, o->fallback);
		fprintf(out, ".\n");
	}
}

static void man_paragraphs(FILE *out, const char *text)
{
	while (text && *text) {
		bool verbatim;
		size_t n = paragraph_next(text, &verbatim);

		fputs(verbatim ? ".PP\n.nf\n" : ".PP\n", out);
		man_put(out, text, n);
		fputs(verbatim ? "\n.fi\n" : "\n", out);
		text = paragraph_skip(text, n);
	}
}

static void man_arguments(FILE *out, const struct cli_verb *verb)
{
	fprintf(out, " [\\fIOPTION\\fR...]%s", verb->arguments[0] ? " " : "");
	man_puts(out, verb->arguments);
	fputc('\n', out);
}

static void man_verb(FILE *out, const struct cli_verb *verb)
{
	fprintf(out, ".SS \"cordon %s\"\n", verb->name);
	man_bold(out, "cordon ");
	man_bold(out, verb->name);
	man_arguments(out, verb);
	fputs(".PP\n", out);
	man_sentence(out, verb->summary);
	fputs(".\n", out);
	for (const struct cli_option *o = verb->options; o && o->name; o++)
		man_option(out, o);
	man_paragraphs(out, verb->text);
}

void cli_print_man(FILE *out)
{
	fprintf(out, ".\\\" Generated by cordon --print-man.\n.TH CORDON 1 \"\" \"cordon %s\"\n",
		cli_version());
	fprintf(out, ".SH NAME\ncordon \\- keep AI agents inside a boundary that the kernel "
		     "holds\n.SH SYNOPSIS\n");
	for (const struct cli_verb *const *v = cli_verbs; *v; v++) {
		fprintf(out, "%s\\fBcordon %s\\fR", v == cli_verbs ? "" : ".br\n", (*v)->name);
		man_arguments(out, *v);
	}
	fprintf(out, ".SH DESCRIPTION\n");
	man_puts(out, about);
	fprintf(out, "\n.SH COMMANDS\n");
	for (const struct cli_verb *const *v = cli_verbs; *v; v++)
		man_verb(out, *v);
	fprintf(out, ".SH OPTIONS\n");
	for (size_t i = 0; i < ARRAY_SIZE(globals); i++) {
		fprintf(out, ".TP\n");
		man_bold(out, globals[i].option);
		fputc('\n', out);
		man_sentence(out, globals[i].help);
		fputs(".\n", out);
	}
	fprintf(out, ".SH \"EXIT STATUS\"\n\\fBcordon run\\fR passes on the command's own code, "
		     "128+N after signal N.\n");
	for (size_t i = 0; i < ARRAY_SIZE(exit_codes); i++) {
		fprintf(out, ".TP\n.B %d\n", exit_codes[i].code);
		man_sentence(out, exit_codes[i].meaning);
		fputs(".\n", out);
	}
	fprintf(out, ".SH \"SEE ALSO\"\n.BR cordon\\-gateway (8)\n");
}

/* --- completion ---------------------------------------------------------------------------- */

/* Does the metavar name something in the file system? */
static bool metavar_is_file(const char *metavar)
{
	static const char *const words[] = { "FILE", "PATH", "POLICY", "WORKDIR", "DIR" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strncmp(metavar, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

/* text inside a quoted shell word: a backslash before every byte of special, and ' as '\''. */
static void shell_put(FILE *out, const char *text, const char *special)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\'", out);
		else if (strchr(special, *text))
			fputc('\\', out);
		fputc(*text, out);
	}
}

/* "a|b|c" as "a b c" */
static void choices_put(FILE *out, const char *choices)
{
	for (; *choices; choices++)
		fputc(*choices == '|' ? ' ' : *choices, out);
}

static void bash_option(FILE *out, const struct cli_verb *verb, const struct cli_option *o)
{
	if (o->kind == CLI_FLAG)
		return;
	fputc('\t', out);
	if (o->letter)
		fprintf(out, "'%s -%c' | ", verb->name, o->letter);
	fprintf(out, "'%s --%s')\n", verb->name, o->name);
	if (strchr(o->metavar, '|')) {
		fputs("\t\tmapfile -t COMPREPLY < <(compgen -W '", out);
		choices_put(out, o->metavar);
		fputs("' -- \"$cur\")\n", out);
	} else if (metavar_is_file(o->metavar)) {
		fputs("\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n", out);
	}
	fputs("\t\treturn\n\t\t;;\n", out);
}

static void bash_words(FILE *out, const struct cli_verb *verb)
{
	fprintf(out, "\t%s) words='", verb->name);
	for (const struct cli_option *o = verb->options; o && o->name; o++)
		fprintf(out, "--%s ", o->name);
	fputs("--help' ;;\n", out);
}

static void print_bash(FILE *out)
{
	fputs("# bash completion for cordon; generated by cordon --print-completion bash\n"
	      "_cordon() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=''\n"
	      "\tlocal verbs='help",
	      out);
	for (const struct cli_verb *const *v = cli_verbs; *v; v++)
		fprintf(out, " %s", (*v)->name);
	fputs("'\n\tCOMPREPLY=()\n"
	      "\tif [ \"$COMP_CWORD\" -eq 1 ] || { [ \"$COMP_CWORD\" -eq 2 ] && [ \"$prev\" = help "
	      "]; }; then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"$verbs --help --version\" -- \"$cur\")\n"
	      "\t\treturn\n\tfi\n"
	      "\tcase \"${COMP_WORDS[1]} $prev\" in\n",
	      out);
	for (const struct cli_verb *const *v = cli_verbs; *v; v++)
		for (const struct cli_option *o = (*v)->options; o && o->name; o++)
			bash_option(out, *v, o);
	fputs("\tesac\n\tcase \"${COMP_WORDS[1]}\" in\n", out);
	for (const struct cli_verb *const *v = cli_verbs; *v; v++)
		bash_words(out, *v);
	fputs("\tesac\n"
	      "\tcase \"$cur\" in\n"
	      "\t-*) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\") ;;\n"
	      "\t*) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
	      "\tesac\n}\ncomplete -o filenames -F _cordon cordon\n",
	      out);
}

static void zsh_option(FILE *out, const struct cli_option *o)
{
	fputs(" \\\n\t\t\t'", out);
	if (o->kind == CLI_LIST)
		fputc('*', out);
	else if (o->letter)
		fprintf(out, "(-%c --%s)", o->letter, o->name);
	if (o->letter)
		fprintf(out, "'{-%c,--%s}'", o->letter, o->name);
	else
		fprintf(out, "--%s", o->name);
	fputc('[', out);
	shell_put(out, o->help, "[]:\\");
	fputc(']', out);
	if (o->metavar) {
		fputc(':', out);
		shell_put(out, o->metavar, "[]:\\");
		fputc(':', out);
	}
	if (o->metavar && strchr(o->metavar, '|')) {
		fputc('(', out);
		choices_put(out, o->metavar);
		fputc(')', out);
	} else if (o->metavar && metavar_is_file(o->metavar)) {
		fputs("_files", out);
	}
	fputc('\'', out);
}

static void print_zsh(FILE *out)
{
	fputs("#compdef cordon\n# generated by cordon --print-completion zsh\n_cordon() {\n\tlocal "
	      "-a verbs=(\n",
	      out);
	for (const struct cli_verb *const *v = cli_verbs; *v; v++) {
		fprintf(out, "\t\t'%s:", (*v)->name);
		shell_put(out, (*v)->summary, ":\\");
		fputs("'\n", out);
	}
	fputs("\t\t'help:print the help of a command'\n\t)\n"
	      "\tif (( CURRENT == 2 )); then\n\t\t_describe command verbs\n\t\treturn\n\tfi\n"
	      "\tshift words\n\t(( CURRENT-- ))\n\tcase $words[1] in\n"
	      "\thelp) _describe command verbs ;;\n",
	      out);
	for (const struct cli_verb *const *v = cli_verbs; *v; v++) {
		fprintf(out, "\t%s)\n\t\t_arguments -s%s", (*v)->name,
			(*v)->stop_at_argument ? " -A '-*'" : "");
		for (const struct cli_option *o = (*v)->options; o && o->name; o++)
			zsh_option(out, o);
		fprintf(out,
			" \\\n\t\t\t'(-h --help)'{-h,--help}'[print this help]' "
			"\\\n\t\t\t'%s'\n\t\t;;\n",
			(*v)->stop_at_argument ? "*::command:_normal" : "*:argument:_files");
	}
	fputs("\tesac\n}\n_cordon \"$@\"\n", out);
}

static void fish_option(FILE *out, const struct cli_verb *verb, const struct cli_option *o)
{
	fprintf(out, "complete -c cordon -n '__fish_seen_subcommand_from %s' -l %s", verb->name,
		o->name);
	if (o->letter)
		fprintf(out, " -s %c", o->letter);
	if (o->metavar && strchr(o->metavar, '|')) {
		fputs(" -x -a '", out);
		choices_put(out, o->metavar);
		fputc('\'', out);
	} else if (o->metavar) {
		fputs(metavar_is_file(o->metavar) ? " -r -F" : " -x", out);
	}
	fputs(" -d '", out);
	shell_put(out, o->help, "\\");
	fputs("'\n", out);
}

static void print_fish(FILE *out)
{
	fputs("# fish completion for cordon; generated by cordon --print-completion fish\n", out);
	for (const struct cli_verb *const *v = cli_verbs; *v; v++) {
		fprintf(out, "complete -c cordon -f -n __fish_use_subcommand -a %s -d '",
			(*v)->name);
		shell_put(out, (*v)->summary, "\\");
		fputs("'\n", out);
	}
	fputs("complete -c cordon -n __fish_use_subcommand -l version -d 'print the version'\n"
	      "complete -c cordon -l help -s h -d 'print the help'\n",
	      out);
	for (const struct cli_verb *const *v = cli_verbs; *v; v++)
		for (const struct cli_option *o = (*v)->options; o && o->name; o++)
			fish_option(out, *v, o);
}

int cli_print_completion(FILE *out, const char *shell)
{
	if (strcmp(shell, "bash") == 0)
		print_bash(out);
	else if (strcmp(shell, "zsh") == 0)
		print_zsh(out);
	else if (strcmp(shell, "fish") == 0)
		print_fish(out);
	else
		return -EINVAL;
	return 0;
}
