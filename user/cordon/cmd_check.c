// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon check`: are these policies right? Offline and without privilege: it needs no BPF and
 * changes nothing, and a path that the caller may not look at counts as a fault. Every policy is
 * looked at, whatever is wrong with others.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cordon/cli.h"
#include "policy/policy.h"

struct check_options {
	const char *workdir;
	bool no_paths;
	bool json;
	bool print_keys;
};

static const struct cli_option check_option_rows[] = {
	{ 'w', "workdir", CLI_STRING, offsetof(struct check_options, workdir), "WORKDIR",
	  "check as run -w WORKDIR would: it takes the place of files.workdir", 0, 0, NULL },
	{ 0, "no-paths", CLI_FLAG, offsetof(struct check_options, no_paths), NULL,
	  "do not look whether the paths exist on this host", 0, 0, NULL },
	{ 0, "json", CLI_FLAG, offsetof(struct check_options, json), NULL,
	  "print one JSON object per policy on stdout", 0, 0, NULL },
	{ 0, "print-keys", CLI_FLAG, offsetof(struct check_options, print_keys), NULL,
	  "print the table of keys in Markdown and do nothing else", 0, 0, NULL },
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

/* What came of one policy. */
struct outcome {
	const char *path;
	int r; /* as of policy_load() */
	struct conf_faults faults;
};

/* Writes text as a JSON string; bytes that are no ASCII text go through as they are or as \u00XX.
 */
static void json_print_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void outcome_print_json(const struct outcome *outcome)
{
	fputs("{\"file\":", stdout);
	json_print_string(outcome->path);
	printf(",\"ok\":%s", outcome->r == 0 ? "true" : "false");
	if (outcome->r < 0 && outcome->faults.n == 0) {
		fputs(",\"error\":", stdout);
		json_print_string(strerror(-outcome->r));
	}
	fputs(",\"faults\":[", stdout);
	for (size_t i = 0; i < outcome->faults.n; i++) {
		const struct conf_fault *fault = &outcome->faults.v[i];

		printf("%s{\"line\":%u,\"column\":%u,\"text\":", i ? "," : "", fault->line,
		       fault->column);
		json_print_string(fault->text);
		putchar('}');
	}
	printf("],\"more\":%zu}\n", outcome->faults.more);
}

static void outcome_print_text(const struct outcome *outcome)
{
	if (outcome->r == 0)
		printf("%s: ok\n", outcome->path);
	else if (outcome->faults.n)
		conf_faults_print(&outcome->faults, outcome->path, stderr);
	else
		cli_fail(EXIT_FOUND, "%s: %s", outcome->path, strerror(-outcome->r));
}

/* Loads one policy, and compiles it: what is ok here must not fail later. */
static void outcome_find(struct outcome *outcome, const struct policy_options *options)
{
	struct image *image = NULL;
	struct policy *policy = NULL;

	outcome->r = policy_load(outcome->path, options, &policy, &outcome->faults);
	if (outcome->r == 0)
		outcome->r = policy_compile(policy, &image);
	free(image);
	policy_free(policy);
}

static int check_file(const struct check_options *options, const char *path)
{
	const struct policy_options policy_options = {
		.workdir = options->workdir,
		.check_paths = !options->no_paths,
		/* A policy without workdir is right: it is made for `run -w`. */
		.need_workdir = false,
	};
	struct outcome outcome = { .path = path };
	int code = EXIT_OK;

	outcome_find(&outcome, &policy_options);
	if (options->json)
		outcome_print_json(&outcome);
	else
		outcome_print_text(&outcome);
	if (outcome.r < 0)
		code = outcome.faults.n ? EXIT_POLICY : EXIT_FOUND;
	conf_faults_clear(&outcome.faults);
	return code;
}

static int check_run(const void *verb_options, int argc, char **argv)
{
	const struct check_options *options = verb_options;
	int code = EXIT_OK, one;

	if (options->print_keys) {
		policy_print_keys(stdout);
		return EXIT_OK;
	}
	if (argc == 0)
		return cli_fail(EXIT_USAGE, "no POLICY given; see cordon check --help");
	for (int i = 0; i < argc; i++) {
		one = check_file(options, argv[i]);
		code = one > code ? one : code;
	}
	return code;
}

const struct cli_verb cli_verb_check = {
	.name = "check",
	.summary = "check policies and report every fault with line and column",
	.arguments = "POLICY...",
	.text = "Reads each policy as run and attach would, without doing anything, and prints "
		"every fault as "
		"FILE:LINE:COLUMN: TEXT on stderr, or FILE: ok on stdout. Needs no privilege, but "
		"a path that "
		"cannot be looked at is a fault; --no-paths leaves the paths out.\n\n"
		"Ends with 0 when all are right, 3 when any has a fault, 1 when a file cannot be "
		"read.",
	.options = check_option_rows,
	.options_size = sizeof(struct check_options),
	.min_args = 0,
	.max_args = -1,
	.run = check_run,
};
