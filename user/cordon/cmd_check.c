// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon check`: are these policies, configurations of the gateway and tools right? Offline and without privilege: it needs no BPF and
 * changes nothing, and a path that the caller may not look at counts as a fault. Every policy is
 * looked at, whatever is wrong with others.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conf/file.h"
#include "cordon/cli.h"
#include "enforce/enforce.h"
#include "gwconf/gwconf.h"
#include "policy/policy.h"

struct check_options {
	const char *workdir;
	bool no_paths;
	bool json;
	bool print_keys;
	bool print_gateway_keys;
	bool secrets;
	bool print_secrets;
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
	{ 0, "print-secrets", CLI_FLAG, offsetof(struct check_options, print_secrets), NULL,
	  "print the rule set secrets in Markdown and do nothing else", 0, 0, NULL },
	{ 0, "secrets", CLI_FLAG, offsetof(struct check_options, secrets), NULL,
	  "show what the rule set secrets adds to each policy, and which of it exists here", 0, 0,
	  NULL },
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

/* What came of one file: r 0, -EINVAL with faults, or another -errno. */
struct outcome {
	struct gwconf_report report;
	bool is_policy;
	uint32_t secrets; /* of a policy: the groups that are denied */
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

/* --- the rule set secrets ------------------------------------------------------------------------------------- */

/* One that exists. */
static int place_print(void *context, const char *path, enum policy_secret_group group, int fd,
		       struct error *error)
{
	(void)context;
	(void)error;
	(void)group;
	close(fd);
	printf("    here: %s\n", path);
	return 0;
}

/* The middle of docs/policy.md. */
static void secrets_print_doc(void)
{
	puts("  | part | what | places |\n  |---|---|---|");
	for (int group = 0; group < POLICY_SECRET_GROUPS_N; group++) {
		printf("  | `secrets.%s` | %s | ", policy_secret_group_name(group),
		       policy_secret_group_what(group));
		for (size_t i = 0, n = 0; i < policy_secret_places_n; i++)
			if (policy_secret_places[i].group == (enum policy_secret_group)group)
				printf("%s`%s%s`", n++ ? ", " : "",
				       policy_secret_places[i].home ? "~/" : "",
				       policy_secret_places[i].path);
		puts(" |");
	}
}

static void group_print(enum policy_secret_group group, bool denied)
{
	printf("  secrets.%s: %s: %s\n   ", policy_secret_group_name(group),
	       denied ? "denied" : "readable, by files.read.without",
	       policy_secret_group_what(group));
	for (size_t i = 0; i < policy_secret_places_n; i++)
		if (policy_secret_places[i].group == group)
			printf(" %s%s", policy_secret_places[i].home ? "~/" : "",
			       policy_secret_places[i].path);
	puts("");
}

/* What may not be looked at is said: then more may be there than is listed. */
static int secrets_print(const struct gwconf_report *report, uint32_t secrets)
{
	_cleanup_close_ int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int code = EXIT_OK;

	printf("%s: rule set secrets: denied to be read, where it exists when the fence is made:\n",
	       report->path);
	for (int group = 0; group < POLICY_SECRET_GROUPS_N; group++) {
		struct error error = { "" };

		group_print(group, secrets & 1U << group);
		if (secrets & 1U << group &&
		    enforce_secrets_find(root_fd, getpid(), 1U << group, place_print, NULL, &error))
			code = cli_fail(EXIT_FOUND, "%s", error.text);
	}
	return code;
}

static void secrets_print_json(uint32_t secrets)
{
	const char *comma = "";

	for (int denied = 1; denied >= 0; denied--) {
		printf("%s\"%s\":[", denied ? ",\"secrets\":{" : "],",
		       denied ? "denied" : "without");
		comma = "";
		for (int group = 0; group < POLICY_SECRET_GROUPS_N; group++)
			if (!(secrets & 1U << group) == !denied) {
				printf("%s\"secrets.%s\"", comma, policy_secret_group_name(group));
				comma = ",";
			}
	}
	fputs("]}", stdout);
}

static void outcome_print_json(const struct outcome *outcome)
{
	const struct gwconf_report *report = &outcome->report;

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
	printf("],\"more\":%zu", report->faults.more);
	if (outcome->is_policy && report->r == 0)
		secrets_print_json(outcome->secrets);
	puts("}");
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
			struct outcome *outcome)
{
	struct gwconf_report *report = &outcome->report;
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
	outcome->is_policy = true;
	outcome->secrets = report->r == 0 ? policy->secrets : 0;
	free(image);
	policy_free(policy);
}

/* Prints what came of a file; returns the exit code that it asks for. */
static int settle(const struct check_options *options, const struct outcome *outcome)
{
	const struct gwconf_report *report = &outcome->report;

	if (options->json)
		outcome_print_json(outcome);
	else
		outcome_print_text(report);
	if (report->r == 0 && outcome->is_policy && options->secrets && !options->json)
		return secrets_print(report, outcome->secrets);
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
		const struct outcome outcome = { .report = reports.v[i] };

		one = settle(options, &outcome);
		code = one > code ? one : code;
	}
	gwconf_reports_free(&reports);
	gwconf_free(conf);
	return code;
}

static int check_file(const struct check_options *options, const char *path)
{
	struct outcome outcome = { .report.path = (char *)path };
	struct gwconf_report *report = &outcome.report;
	enum gwconf_kind kind = GWCONF_KIND_POLICY;
	struct gwconf_tool *tool = NULL;
	_cleanup_free_ char *text = NULL;
	size_t length = 0;
	int code;

	report->r = conf_file_read(path, &text, &length);
	if (report->r == 0)
		kind = gwconf_kind_of(text, length);
	if (kind == GWCONF_KIND_CONFIG)
		return check_config(options, path);
	if (report->r == 0 && kind == GWCONF_KIND_TOOL)
		report->r = gwconf_tool_parse(text, length, path, &tool, &report->faults);
	else if (report->r == 0)
		find_policy(options, text, length, &outcome);
	gwconf_tool_free(tool);
	code = settle(options, &outcome);
	conf_faults_clear(&report->faults);
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
	if (options->print_secrets) {
		secrets_print_doc();
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
		"With --secrets it shows, too, what the shipped rule set secrets adds to each "
		"policy, which parts of it the policy goes without, and what of it exists on this "
		"host; as root, because others cannot look everywhere.\n\n"
		"Ends with 0 when all are right, 3 when any has a fault, 1 when a file cannot be "
		"read.",
	.options = check_option_rows,
	.options_size = sizeof(struct check_options),
	.min_args = 0,
	.max_args = -1,
	.run = check_run,
};
