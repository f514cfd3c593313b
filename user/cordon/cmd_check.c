// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon check`: are these policies, configurations of the gateway and tools right? Offline and without privilege: it needs no BPF and
 * changes nothing, and a path that the caller may not look at counts as a fault. Every policy is
 * looked at, whatever is wrong with others.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf/file.h"
#include "cordon/cli.h"
#include "gwconf/gwconf.h"
#include "policy/policy.h"

struct check_options {
	const char *workdir;
	bool no_paths;
	bool json;
	bool print_keys;
	bool print_gateway_keys;
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
	{ 0, "print-gateway-keys", CLI_FLAG, offsetof(struct check_options, print_gateway_keys),
	  NULL, "print the tables of keys of the gateway and its tools and do nothing else", 0, 0,
	  NULL },
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

/* What came of one file: r 0, -EINVAL with faults, or another -errno. */

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

static void outcome_print_json(const struct gwconf_report *report)
{
	fputs("{\"file\":", stdout);
	json_print_string(report->path);
	printf(",\"ok\":%s", report->r == 0 ? "true" : "false");
	if (report->r < 0 && report->faults.n == 0) {
		fputs(",\"error\":", stdout);
		json_print_string(strerror(-report->r));
	}
	fputs(",\"faults\":[", stdout);
	for (size_t i = 0; i < report->faults.n; i++) {
		const struct conf_fault *fault = &report->faults.v[i];

		printf("%s{\"line\":%u,\"column\":%u,\"text\":", i ? "," : "", fault->line,
		       fault->column);
		json_print_string(fault->text);
		putchar('}');
	}
	printf("],\"more\":%zu}\n", report->faults.more);
}

static void outcome_print_text(const struct gwconf_report *report)
{
	if (report->r == 0)
		printf("%s: ok\n", report->path);
	else if (report->faults.n)
		conf_faults_print(&report->faults, report->path, stderr);
	else
		cli_fail(EXIT_FOUND, "%s: %s", report->path, strerror(-report->r));
}

/* Loads one policy, and compiles it: what is ok here must not fail later. */
static void find_policy(const struct check_options *options, const char *text, size_t length,
			struct gwconf_report *report)
{
	const struct policy_options policy_options = {
		.workdir = options->workdir,
		.check_paths = !options->no_paths,
		/* A policy without workdir is right: it is made for `run -w`. */
		.need_workdir = false,
	};
	struct image *image = NULL;
	struct policy *policy = NULL;

	report->r = policy_parse(text, length, &policy_options, &policy, &report->faults);
	if (report->r == 0)
		report->r = policy_compile(policy, &image);
	free(image);
	policy_free(policy);
}

/* Prints what came of a file; returns the exit code that it asks for. */
static int settle(const struct check_options *options, const struct gwconf_report *report)
{
	if (options->json)
		outcome_print_json(report);
	else
		outcome_print_text(report);
	if (report->r == 0)
		return EXIT_OK;
	return report->faults.n ? EXIT_POLICY : EXIT_FOUND;
}

/* A configuration of the gateway is checked with all of its tools, one outcome each. */
static int check_config(const struct check_options *options, const char *path)
{
	struct gwconf_reports reports = { .n = 0 };
	struct gwconf *conf = NULL;
	int code = EXIT_OK, one;

	if (gwconf_load(path, &conf, &reports) == -ENOMEM)
		code = cli_fail(EXIT_FOUND, "%s: %s", path, strerror(ENOMEM));
	for (size_t i = 0; i < reports.n; i++) {
		one = settle(options, &reports.v[i]);
		code = one > code ? one : code;
	}
	gwconf_reports_free(&reports);
	gwconf_free(conf);
	return code;
}

static int check_file(const struct check_options *options, const char *path)
{
	struct gwconf_report report = { .path = (char *)path };
	enum gwconf_kind kind = GWCONF_KIND_POLICY;
	struct gwconf_tool *tool = NULL;
	_cleanup_free_ char *text = NULL;
	size_t length = 0;
	int code;

	report.r = conf_file_read(path, &text, &length);
	if (report.r == 0)
		kind = gwconf_kind_of(text, length);
	if (kind == GWCONF_KIND_CONFIG)
		return check_config(options, path);
	if (report.r == 0 && kind == GWCONF_KIND_TOOL)
		report.r = gwconf_tool_parse(text, length, path, &tool, &report.faults);
	else if (report.r == 0)
		find_policy(options, text, length, &report);
	gwconf_tool_free(tool);
	code = settle(options, &report);
	conf_faults_clear(&report.faults);
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
	if (options->print_gateway_keys) {
		puts("### Configuration\n");
		gwconf_print_config_keys(stdout);
		puts("\n### Tools\n");
		gwconf_print_tool_keys(stdout);
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
	.summary = "check policies, gateway configurations and tools; report every fault",
	.arguments = "POLICY...",
	.text = "Reads each policy as run and attach would, without doing anything, and prints "
		"every fault as "
		"FILE:LINE:COLUMN: TEXT on stderr, or FILE: ok on stdout. Needs no privilege, but "
		"a path that "
		"cannot be looked at is a fault; --no-paths leaves the paths out. A configuration "
		"of "
		"the gateway is known by its keys and checked with the tools that it names; a tool "
		"can "
		"be checked alone.\n\n"
		"Ends with 0 when all are right, 3 when any has a fault, 1 when a file cannot be "
		"read.",
	.options = check_option_rows,
	.options_size = sizeof(struct check_options),
	.min_args = 0,
	.max_args = -1,
	.run = check_run,
};
