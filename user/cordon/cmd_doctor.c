// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon doctor`: what this host can enforce, with the remedy for each lack. Needs no privilege,
 * but sees more as root. Changes nothing. What it promises is only what can be seen without
 * attaching: the self-test of every fence has the last word.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cordon/daemon_client.h"
#include "enforce/enforce.h"
#include "host/host.h"
#include "util/fold.h"

#define STATUS_WIDTH 6

struct doctor_options {
	bool json;
};

static const struct cli_option doctor_option_rows[] = {
	{ 0, "json", CLI_FLAG, offsetof(struct doctor_options, json), NULL,
	  "print one JSON object on stdout", 0, 0, NULL },
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

static const struct {
	const char *name, *color;
} statuses[] = {
	[HOST_OK] = { "ok", "\033[32m" },
	[HOST_NOTE] = { "note", "\033[33m" },
	[HOST_LACK] = { "lack", "\033[31m" },
};

static const char *yes_no(const struct host_report *report, unsigned int need)
{
	return report->lost & need ? "no" : "yes";
}

static const char *files_word(const struct host_report *report)
{
	if (!(report->lost & HOST_NEED_FILES) && report->lost & HOST_NEED_RACE)
		return "with a race (see preemption)";
	return yes_no(report, HOST_NEED_FILES);
}

static const char *attach_type(const struct host_report *report)
{
	return report->use_fmod_ret ? "fmod_ret" : "lsm";
}

/* --- the daemon --------------------------------------------------------------------------------- */

static long long figure(const json_t *status, const char *name)
{
	return (long long)json_integer_value(json_object_get(status, name));
}

static void running_line(const json_t *status, char *line, size_t size)
{
	const char *old = json_string_value(json_object_get(status, "old_set"));
	size_t n = snprintf(line, size,
			    "cordond %s runs since %lld s: %lld fences, %lld readers of events, "
			    "%lld events, %lld lost; its front was started again %lld times.",
			    json_string_value(json_object_get(status, "version")),
			    figure(status, "uptime_s"), figure(status, "fences"),
			    figure(status, "readers"), figure(status, "events"),
			    figure(status, "lost"), figure(status, "restarts"));

	if (old && n < size)
		snprintf(line + n, size - n,
			 " Old set: the programs of another build enforce. Ours: %s. Another try: "
			 "systemctl reload cordond.",
			 old);
}

/* A line about how long a fence takes to begin here. Never a lack. False: this host cannot have one, or we may not look. */
static bool start_line(const struct host_report *report, const char **ret_line)
{
	int kept = report->lost ? -ENOTSUP : enforce_is_kept();

	*ret_line = kept ? "The programs are loaded: a fence begins in some milliseconds."
			 : "The programs are not loaded ahead: the first fence waits for the "
			   "kernel's verifier, up to half a second. "
			   "cordon load, at boot the unit cordon-load, does that once.";
	return kept >= 0;
}

/* A line about cordond: it need not run. Never a lack. */
static void daemon_line(char *line, size_t size)
{
	struct daemon_client client;
	struct error error = { "" };
	json_t *status = NULL;
	int err = daemon_client_open(&client, NULL, &error);

	if (err == -ENOENT || err == -ECONNREFUSED)
		snprintf(line, size,
			 "cordond does not run; fences are those of cordon run and attach.");
	else if (err)
		snprintf(line, size, "cordond: %s.", error.text);
	else if (daemon_client_ask(&client, daemon_client_request(CORDOND_DO_STATUS), NULL, NULL,
				   NULL, &status))
		snprintf(line, size, "cordond runs, and does not answer us.");
	else
		running_line(status, line, size);
	json_decref(status);
	daemon_client_close(&client);
}

/* --- for people ------------------------------------------------------------------------------- */

static size_t name_width(void)
{
	size_t n, width = 0;
	int i;

	for (i = 0; i < HOST_FACT_COUNT; i++) {
		n = strlen(host_fact_name(i));
		width = n > width ? n : width;
	}
	return width;
}

/* The remedy has lines of its own, so that they can be read, and copied, at any width. */
static void print_fact(const struct host_report *report, enum host_fact fact, size_t name,
		       bool color)
{
	enum host_status status = report->fact[fact].status;
	const char *found = report->fact[fact].found, *remedy = report->fact[fact].remedy;
	size_t column = name + 2 + STATUS_WIDTH + 2;

	printf("%-*s  %s%-*s%s  ", (int)name, host_fact_name(fact),
	       color ? statuses[status].color : "", STATUS_WIDTH, statuses[status].name,
	       color ? "\033[0m" : "");
	fold_put(stdout, found, strlen(found), column, column);
	if (!remedy[0])
		return;
	printf("%*s-> ", (int)column, "");
	fold_put(stdout, remedy, strlen(remedy), column + 3, column + 3);
}

static void print_table(const struct host_report *report)
{
	const char *no_color = getenv("NO_COLOR");
	bool color = isatty(STDOUT_FILENO) && !(no_color && no_color[0]);
	size_t name = name_width();
	const char *start;
	char last[1024];
	int i;

	printf("%-*s  %-*s  found, and -> the remedy\n", (int)name, "fact", STATUS_WIDTH, "status");
	for (i = 0; i < HOST_FACT_COUNT; i++)
		print_fact(report, i, name, color);
	snprintf(last, sizeof(last),
		 "This host can enforce: files %s, network %s; attach type %s because %s.",
		 files_word(report), yes_no(report, HOST_NEED_NETWORK), attach_type(report),
		 report->attach_reason);
	putchar('\n');
	fold_put(stdout, last, strlen(last), 0, 0);
	if (start_line(report, &start))
		fold_put(stdout, start, strlen(start), 0, 0);
	daemon_line(last, sizeof(last));
	fold_put(stdout, last, strlen(last), 0, 0);
}

/* --- for machines ----------------------------------------------------------------------------- */

static void print_json_string(const char *key, const char *text)
{
	printf("\"%s\":\"", key);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static const char *needs(unsigned int need)
{
	static const char *const lists[] = { "", "\"files\"", "\"network\"",
					     "\"files\",\"network\"" };

	if (need == HOST_NEED_RACE)
		return "\"race_free\"";
	return lists[need & (HOST_NEED_FILES | HOST_NEED_NETWORK)];
}

static void print_json(const struct host_report *report)
{
	const char *start;
	char line[1024];
	int i;

	printf("{\"files\":%s,\"network\":%s,\"race_free\":%s,",
	       report->lost & HOST_NEED_FILES ? "false" : "true",
	       report->lost & HOST_NEED_NETWORK ? "false" : "true",
	       report->lost & HOST_NEED_RACE ? "false" : "true");
	print_json_string("attach", attach_type(report));
	putchar(',');
	print_json_string("attach_reason", report->attach_reason);
	printf(",\"facts\":[");
	for (i = 0; i < HOST_FACT_COUNT; i++) {
		printf("%s{", i ? "," : "");
		print_json_string("fact", host_fact_name(i));
		putchar(',');
		print_json_string("status", statuses[report->fact[i].status].name);
		putchar(',');
		print_json_string("found", report->fact[i].found);
		putchar(',');
		print_json_string("remedy", report->fact[i].remedy);
		printf(",\"lost\":[%s]}", needs(report->fact[i].need));
	}
	printf("],");
	if (start_line(report, &start)) {
		print_json_string("start", start);
		putchar(',');
	}
	daemon_line(line, sizeof(line));
	print_json_string("cordond", line);
	printf("}\n");
}

static int fail_lacks(const struct host_report *report)
{
	char line[512];
	int i;

	for (i = 0; i < HOST_FACT_COUNT; i++) {
		if (report->fact[i].status != HOST_LACK)
			continue;
		host_report_line(report, i, line, sizeof(line));
		cli_fail(EXIT_HOST, "%s", line);
	}
	return EXIT_HOST;
}

static int doctor_run(const void *options_, int argc, char **argv)
{
	const struct doctor_options *options = options_;
	struct host_report report;

	(void)argc, (void)argv;
	host_probe(&report);
	if (options->json)
		print_json(&report);
	else
		print_table(&report);
	if (fflush(stdout))
		return cli_fail(EXIT_FOUND, "cannot write to standard output");
	return report.lost ? fail_lacks(&report) : EXIT_OK;
}

const struct cli_verb cli_verb_doctor = {
	.name = "doctor",
	.summary = "say what this host can enforce, with the remedy for each lack",
	.arguments = "",
	.text = "Looks at the kernel, its BPF and security support, cgroups, mounts and privilege, "
		"and says "
		"for each: ok, note (worth knowing, or could not be seen) or lack. The last line "
		"says whether a fence "
		"on this host can hold files and network, and how its programs are attached: as "
		"lsm where bpf is in "
		"the kernel's LSM list, as fmod_ret where it is not, which needs no reboot.\n"
		"\n"
		"Changes nothing and attaches nothing. Exits with 0 when everything can be "
		"enforced, else with 4 and "
		"one line on stderr for each lack.",
	.options = doctor_option_rows,
	.options_size = sizeof(struct doctor_options),
	.min_args = 0,
	.max_args = 0,
	.run = doctor_run,
};
