// SPDX-License-Identifier: Apache-2.0
/*
 * The command line: rows of options, the tables of the real verbs, what is printed from them, and
 * `cordon events` from end to end. Each run of the command is a child process, so that exit codes,
 * signals and streams are real.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "chain/chain.h"
#include "cordon/cli.h"
#include "event/event.h"

/* --- running the command ------------------------------------------------------------------- */

struct run {
	pid_t pid;
	int code; /* 128 + N for a signal */
	FILE *out, *err;
	char out_text[256 * 1024], err_text[64 * 1024];
};

static struct run run;

/* Starts `cordon ARGS...` (a NULL-terminated list without "cordon"); input is its stdin. */
static void run_start(const char *const *args, const char *input)
{
	const char *argv[32] = { "cordon" };
	FILE *in = tmpfile();
	int argc = 1;

	while (*args)
		argv[argc++] = *args++;
	memset(&run, 0, sizeof(run));
	run.out = tmpfile();
	run.err = tmpfile();
	assert_true(in && run.out && run.err);
	fputs(input ? input : "", in);
	rewind(in);
	fflush(NULL);
	run.pid = fork();
	assert_true(run.pid >= 0);
	if (run.pid == 0) {
		dup2(fileno(in), STDIN_FILENO);
		dup2(fileno(run.out), STDOUT_FILENO);
		dup2(fileno(run.err), STDERR_FILENO);
		alarm(20); /* a hang is a failure */
		exit(cli_main(argc, (char **)argv));
	}
	fclose(in);
}

static void read_all(FILE *file, char *text, size_t size)
{
	rewind(file);
	text[fread(text, 1, size - 1, file)] = '\0';
	fclose(file);
}

static void run_end(void)
{
	int status;

	assert_int_equal(waitpid(run.pid, &status, 0), run.pid);
	run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	read_all(run.out, run.out_text, sizeof(run.out_text));
	read_all(run.err, run.err_text, sizeof(run.err_text));
}

#define RUN_WITH(input, ...)                                                  \
	do {                                                                  \
		run_start((const char *const[]){ __VA_ARGS__, NULL }, input); \
		run_end();                                                    \
	} while (0)
#define RUN(...) RUN_WITH(NULL, __VA_ARGS__)

#define assert_has(text, part)                                      \
	do {                                                        \
		if (!strstr(text, part))                            \
			fail_msg("'%s' is not in: %s", part, text); \
	} while (0)

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* --- rows ---------------------------------------------------------------------------------- */

struct options {
	bool audit;
	const char *policy;
	struct cli_list labels;
	size_t ring;
	unsigned int count;
	const char *output;
	size_t any_size;
};

static const struct cli_option rows[] = {
	{ .letter = 'p',
	  .name = "policy",
	  .kind = CLI_STRING,
	  .offset = offsetof(struct options, policy),
	  .metavar = "POLICY",
	  .help = "Policy" },
	{ .name = "audit",
	  .kind = CLI_FLAG,
	  .offset = offsetof(struct options, audit),
	  .help = "Only report" },
	{ .letter = 'l',
	  .name = "label",
	  .kind = CLI_LIST,
	  .offset = offsetof(struct options, labels),
	  .metavar = "K=V",
	  .help = "Label" },
	{ .name = "ring-size",
	  .kind = CLI_SIZE,
	  .offset = offsetof(struct options, ring),
	  .metavar = "SIZE",
	  .help = "Ring",
	  .min = 64 << 10,
	  .max = 1 << 30,
	  .fallback = "1M" },
	{ .name = "count",
	  .kind = CLI_UINT,
	  .offset = offsetof(struct options, count),
	  .metavar = "N",
	  .help = "Count",
	  .min = 1,
	  .max = 10 },
	{ .letter = 'o',
	  .name = "output",
	  .kind = CLI_CHOICE,
	  .offset = offsetof(struct options, output),
	  .metavar = "text|json",
	  .help = "Form",
	  .fallback = "text" },
	{ .name = "any-size",
	  .kind = CLI_SIZE,
	  .offset = offsetof(struct options, any_size),
	  .metavar = "SIZE",
	  .help = "Any" },
	{ .name = NULL },
};

static int verb_does_nothing(const void *options, int argc, char **argv)
{
	return EXIT_OK;
}

static struct cli_verb verb;
static struct options options;
static char err_text[4096];
static int first;

static int verb_begin(void **state)
{
	verb = (struct cli_verb){
		.name = "try",
		.summary = "Try",
		.arguments = "[ARG...]",
		.text = "Text.",
		.options = rows,
		.options_size = sizeof(struct options),
		.max_args = -1,
		.run = verb_does_nothing,
	};
	return 0;
}

/* Parses; what went to stderr is in err_text. */
static int parse(const char *const *args)
{
	static const char *argv[64];
	FILE *err = tmpfile();
	int argc = 0, saved = dup(STDERR_FILENO), r;

	argv[argc++] = "try";
	while (*args)
		argv[argc++] = *args++;
	argv[argc] = NULL;
	fflush(stderr);
	dup2(fileno(err), STDERR_FILENO);
	r = cli_parse(&verb, argc, (char **)argv, &options, &first);
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	read_all(err, err_text, sizeof(err_text));
	assert_int_equal(count_lines(err_text), r < 0); /* one line for a fault, none else */
	return r;
}

#define PARSE(...) parse((const char *const[]){ __VA_ARGS__, NULL })
#define assert_refused(part, ...)                              \
	do {                                                   \
		assert_int_equal(PARSE(__VA_ARGS__), -EINVAL); \
		assert_has(err_text, part);                    \
	} while (0)

static void test_parse_kinds(void **state)
{
	assert_int_equal(PARSE("-p", "x.yaml", "--audit", "-l", "a=1", "--label=b=2", "--ring-size",
			       "64K", "--count", "10", "-ojson", "--any-size=18446744073709551615"),
			 CLI_PARSED);
	assert_string_equal(options.policy, "x.yaml");
	assert_true(options.audit);
	assert_int_equal(options.labels.n, 2);
	assert_string_equal(options.labels.v[1], "b=2");
	assert_int_equal(options.ring, 65536);
	assert_int_equal(options.count, 10);
	assert_string_equal(options.output, "json");
	assert_true(options.any_size == SIZE_MAX);
}

static void test_parse_fallbacks(void **state)
{
	assert_int_equal(PARSE("--audit"), CLI_PARSED);
	assert_int_equal(options.ring, 1 << 20);
	assert_string_equal(options.output, "text");
	assert_null(options.policy);
	assert_int_equal(options.count, 0);
	assert_int_equal(PARSE("--ring-size", "128k"),
			 CLI_PARSED); /* nothing of the last time stays */
	assert_false(options.audit);
	assert_int_equal(options.ring, 131072);
}

static void test_parse_sizes(void **state)
{
	assert_refused("--ring-size: 3 is below 64K", "--ring-size", "3");
	assert_refused("--ring-size: 2G is above 1G", "--ring-size", "2G");
	assert_refused("'' is not a size", "--ring-size", "");
	assert_refused("'64KB' is not a size", "--ring-size", "64KB");
	assert_refused("'-1' is not a size", "--ring-size", "-1");
	assert_refused("' 64K' is not a size", "--ring-size", " 64K");
	assert_refused("'0x10' is not a size", "--ring-size", "0x10");
	assert_refused("is above", "--any-size", "99999999999999999999");
	assert_refused("is above", "--any-size", "18446744073709551615K");
	assert_refused("--count: 0 is below 1", "--count", "0");
	assert_refused("--count: 11 is above 10", "--count", "11");
	assert_refused("'1K' is not a number", "--count", "1K");
	assert_refused("'x' is not one of text|json", "-o", "x");
	assert_refused("is not one of", "-o", "");
	assert_refused("is not one of", "-o", "tex");
	assert_refused("is not one of", "-o", "text|json");
}

static void test_parse_unknown(void **state)
{
	assert_refused("unknown option --polcy; did you mean --policy?", "--polcy", "x");
	assert_refused("unknown option --polcy; did you mean --policy?", "--polcy=x");
	assert_refused("unknown option --hlep; did you mean --help?", "--hlep");
	assert_refused("unknown option --zzzzzz; see cordon try --help", "--zzzzzz");
	assert_refused("unknown option -Z", "-Z");
	assert_refused("unknown option -Z", "-p", "x", "-Z");
	assert_refused("--audit takes no value", "--audit=1");
	assert_refused("--policy needs a value: POLICY", "--policy");
	assert_refused("--policy needs a value: POLICY", "-p");
	assert_int_equal(PARSE("--help"), CLI_WANTS_HELP);
	assert_int_equal(PARSE("x", "-h"), CLI_WANTS_HELP);
}

static void test_parse_arguments(void **state)
{
	assert_int_equal(PARSE("a", "--audit", "b"), CLI_PARSED);
	assert_true(options.audit);
	assert_int_equal(PARSE("a", "--", "--audit"), CLI_PARSED);
	assert_false(options.audit);
	verb.stop_at_argument = true;
	assert_int_equal(PARSE("-p", "x", "a", "--audit", "-Z"), CLI_PARSED);
	assert_false(options.audit);
	assert_int_equal(first, 3);
	assert_int_equal(PARSE("--", "--audit"), CLI_PARSED);
	assert_int_equal(first, 2);
	verb.max_args = 1;
	assert_refused("unexpected argument 'b'", "a", "b");
	verb.min_args = 1;
	assert_refused("missing argument", "--audit");
	assert_int_equal(PARSE("a"), CLI_PARSED);
}

static void test_parse_list_limit(void **state)
{
	const char *args[2 * 17 + 1] = { NULL };

	for (size_t i = 0; i < 16; i++) {
		args[2 * i] = "-l";
		args[2 * i + 1] = "x";
	}
	assert_int_equal(parse(args), CLI_PARSED);
	assert_int_equal(options.labels.n, 16);
	args[32] = "-l";
	args[33] = "x";
	assert_int_equal(parse(args), -EINVAL);
	assert_has(err_text, "given more than 16 times");
}

static void test_no_options(void **state)
{
	static const struct cli_option none[] = { { .name = NULL } };

	verb.options = none;
	assert_int_equal(PARSE("a"), CLI_PARSED);
	assert_refused("unknown option --audit", "--audit");
	verb.options = NULL;
	assert_int_equal(PARSE("a"), CLI_PARSED);
	assert_refused("unknown option -p", "-p");
}

static void test_nearest(void **state)
{
	static const char *const words[] = { "run", "attach", "events", "check", NULL };

	assert_string_equal(cli_nearest("rnu", words), "run");
	assert_string_equal(cli_nearest("evnets", words), "events");
	assert_string_equal(cli_nearest("chek", words), "check");
	assert_string_equal(cli_nearest("atach", words), "attach");
	assert_null(cli_nearest("zzz", words));
	assert_null(cli_nearest("", words));
	assert_null(cli_nearest("a-word-that-is-far-longer-than-any-that-there-is", words));
}

/* --- the checks of the tables -------------------------------------------------------------- */

static void check_fault(const struct cli_option *row, const char *part)
{
	struct cli_option broken[3] = { rows[0], *row };
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	verb.options = broken;
	assert_true(cli_check_verb(&verb, out) >= 1);
	fclose(out);
	assert_has(text, part);
}

static void test_table_checks(void **state)
{
	struct cli_option row = { .name = "x", .kind = CLI_FLAG, .help = "Help" }, good = row;

	assert_int_equal(cli_check_verb(&verb, stderr), 0);
	row.help = "Help.";
	check_fault(&row, "full stop");
	row = good;
	row.help = NULL;
	check_fault(&row, "no help");
	row = good;
	row.metavar = "X";
	check_fault(&row, "metavar");
	row = good;
	row.kind = CLI_STRING;
	check_fault(&row, "metavar");
	row = good;
	row.offset = sizeof(struct options);
	check_fault(&row, "outside");
	row = good;
	row.letter = 'p';
	check_fault(&row, "another row");
	row = good;
	row.name = "policy";
	check_fault(&row, "another row");
	row = good;
	row.letter = 'h';
	check_fault(&row, "--help");
	row = (struct cli_option){
		.name = "x", .kind = CLI_UINT, .metavar = "N", .help = "Help", .min = 5, .max = 4
	};
	check_fault(&row, "empty range");
	row.max = 6;
	row.fallback = "7";
	check_fault(&row, "fallback");
}

static void test_real_tables(void **state)
{
	assert_int_equal(cli_check_tables(stderr), 0);
	assert_non_null(cli_find_verb("run"));
	assert_non_null(cli_find_verb("events"));
	assert_null(cli_find_verb("Run"));
	assert_null(cli_find_verb(""));
}

/* --- the command --------------------------------------------------------------------------- */

static void test_help(void **state)
{
	RUN("--help");
	assert_int_equal(run.code, EXIT_OK);
	for (const struct cli_verb *const *v = cli_verbs; *v; v++)
		assert_has(run.out_text, (*v)->name);
	assert_has(run.out_text, "127");
	RUN("help", "events");
	assert_has(run.out_text, "--follow");
	assert_has(run.out_text, "--help");
	RUN("help");
	assert_has(run.out_text, "Usage: cordon COMMAND");
	RUN("--version");
	assert_string_equal(run.err_text, "");
	assert_has(run.out_text, "cordon ");
}

/* Every long option of every verb is in its help, the man page and all completions. */
static void test_everything_is_printed(void **state)
{
	static const char *const shells[] = { "bash", "zsh", "fish" };

	for (const struct cli_verb *const *v = cli_verbs; *v; v++) {
		RUN((*v)->name, "--help");
		assert_int_equal(run.code, EXIT_OK);
		for (const struct cli_option *o = (*v)->options; o && o->name; o++)
			assert_has(run.out_text, o->name);
	}
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		RUN("--print-completion", shells[i]);
		assert_int_equal(run.code, EXIT_OK);
		for (const struct cli_verb *const *v = cli_verbs; *v; v++)
			for (const struct cli_option *o = (*v)->options; o && o->name; o++)
				assert_has(run.out_text, o->name);
	}
}

static void test_man(void **state)
{
	RUN("--print-man");
	assert_int_equal(run.code, EXIT_OK);
	assert_has(run.out_text, ".TH CORDON 1");
	assert_has(run.out_text, ".SH \"EXIT STATUS\"");
	assert_has(run.out_text, "\\-\\-follow");
	assert_has(run.out_text, ".B 125\n");
	for (const char *c = run.out_text; (c = strchr(c, '\\'));
	     c += 2) /* no escape that roff does not know */
		assert_non_null(strchr("-efe&\"", c[1]));
}

static void test_usage_faults(void **state)
{
	RUN("rnu");
	assert_int_equal(run.code, EXIT_USAGE);
	assert_string_equal(run.err_text, "cordon: unknown command 'rnu'; did you mean 'run'?\n");
	RUN("--frobnicate");
	assert_int_equal(run.code, EXIT_USAGE);
	RUN("help", "evnts");
	assert_int_equal(run.code, EXIT_USAGE);
	RUN("--print-completion", "tcsh");
	assert_int_equal(run.code, EXIT_USAGE);
	assert_has(run.err_text, "bash|zsh|fish");
	RUN("--print-completion");
	assert_int_equal(run.code, EXIT_USAGE);
	RUN("events", "a", "b");
	assert_int_equal(run.code, EXIT_USAGE);
	assert_has(run.err_text, "cordon events: unexpected argument 'b'");
	RUN("events", "--no\x1b[2Jsuch");
	assert_has(run.err_text, "--no?[2Jsuch");
	run_start((const char *const[]){ NULL }, NULL);
	run_end();
	assert_int_equal(run.code, EXIT_USAGE);
	assert_has(run.err_text, "Usage:");
}

/* --- events -------------------------------------------------------------------------------- */

#define FENCE(name, task) \
	"\"fence\":{\"id\":\"00000000000000ab\",\"name\":\"" name "\",\"task\":\"" task "\"}"
#define EVENT_LINE(seq, time, type, verdict, rule, fence)                                       \
	"{\"schema\":\"cordon.event/1\",\"seq\":" seq ",\"time\":\"" time "\",\"type\":\"" type \
	"\",\"op\":\"x\",\"verdict\":\"" verdict "\",\"rule\":\"" rule "\"," fence "}\n"
#define LINE_1 \
	EVENT_LINE("1", "2026-01-02T03:04:05Z", "file", "deny", "files.write", FENCE("a", "t1"))
#define LINE_2 \
	EVENT_LINE("2", "2026-01-02T03:04:06Z", "net", "deny", "network.metadata", FENCE("a", "t1"))
#define LINE_3 \
	EVENT_LINE("3", "2026-01-02T03:04:07Z", "net", "allow", "network.allow", FENCE("b", "t2"))
#define LINES LINE_1 LINE_2 LINE_3

static void test_events_pass(void **state)
{
	RUN_WITH(LINES, "events");
	assert_int_equal(run.code, EXIT_OK);
	assert_string_equal(run.out_text, LINES);
	RUN_WITH(LINES, "events", "-");
	assert_string_equal(run.out_text, LINES);
	RUN_WITH("", "events");
	assert_int_equal(run.code, EXIT_OK);
	assert_string_equal(run.out_text, "");
	RUN_WITH("\n \n" LINE_1 "\r\n", "events", "-o", "json");
	assert_string_equal(run.out_text, LINE_1);
	assert_int_equal(run.code, EXIT_OK);
	RUN_WITH(LINES, "events", "-o", "text");
	assert_int_equal(count_lines(run.out_text), 3);
	assert_has(run.out_text, "network.metadata");
}

static void test_events_filter(void **state)
{
	RUN_WITH(LINES, "events", "--type", "net,guard");
	assert_string_equal(run.out_text, LINE_2 LINE_3);
	RUN_WITH(LINES, "events", "--verdict=deny", "--rule", "network");
	assert_string_equal(run.out_text, LINE_2);
	RUN_WITH(LINES, "events", "--task", "t2");
	assert_string_equal(run.out_text, LINE_3);
	RUN_WITH(LINES, "events", "--fence", "a");
	assert_string_equal(run.out_text, LINE_1 LINE_2);
	RUN_WITH(LINES, "events", "--fence", "AB");
	assert_string_equal(run.out_text, LINES);
	RUN_WITH(LINES, "events", "--since", "2026-01-02T04:04:06+01:00");
	assert_string_equal(run.out_text, LINE_2 LINE_3);
	RUN_WITH(LINES, "events", "--since", "99999999d");
	assert_string_equal(run.out_text, LINES);
}

/* --since with an age is counted from now. */
static void test_events_ago(void **state)
{
	char text[1024], now_text[32];
	time_t now = time(NULL) - 90;
	struct tm tm;

	strftime(now_text, sizeof(now_text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	snprintf(text, sizeof(text),
		 EVENT_LINE("4", "%s", "net", "allow", "network.allow", FENCE("b", "t2")),
		 now_text);
	RUN_WITH(text, "events", "--since", "2m");
	assert_string_equal(run.out_text, text);
	RUN_WITH(text, "events", "--since", "60s");
	assert_string_equal(run.out_text, "");
	RUN_WITH(text, "events", "--since", "1h");
	assert_string_equal(run.out_text, text);
}

static void test_events_usage(void **state)
{
	static const char *const bad_times[] = {
		"10", "10x", "m", "-1m", "10mm", "2026-01-02", "", "99999999999999999999s"
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad_times); i++) {
		RUN("events", "--since", bad_times[i]);
		assert_int_equal(run.code, EXIT_USAGE);
		assert_has(run.err_text, "--since");
	}
	RUN("events", "--type", "nett");
	assert_int_equal(run.code, EXIT_USAGE);
	assert_has(run.err_text, "did you mean 'net'?");
	RUN("events", "--verdict", "qqqqqq");
	assert_has(run.err_text, "docs/events.md");
	RUN("events", "--task", "a,,b");
	assert_int_equal(run.code, EXIT_USAGE);
	RUN("events", "-o", "yaml");
	assert_int_equal(run.code, EXIT_USAGE);
	assert_has(run.err_text, "text|json|ocsf");
}

/* A file as a sink writes it; one byte of it changed; a key that others can read. */
static void test_audit(void **state)
{
	char path[] = "/tmp/cordon-audit-XXXXXX", out[2 * CHAIN_CHECKPOINT_MAX], anchor[96];
	static const char event[] = "{\"schema\":\"cordon.event/1\",\"seq\":1}\n";
	struct chain_note note = { .time = "2026-01-02T03:04:05Z", .file = 1 };
	struct chain chain = { 0 };
	char hash[CHAIN_HEX_SIZE];
	int fd = mkstemp(path);
	size_t n = chain_checkpoint(&chain, CHAIN_OPEN, &note, NULL, out);

	(void)state;
	n += chain_append(&chain, event, sizeof(event) - 1, out + n);
	assert_int_equal(pwrite(fd, out, n, 0), n);
	RUN("audit", "verify", path);
	assert_int_equal(run.code, EXIT_OK);
	assert_has(run.out_text, "ok: records 1 to 2 in 1 file, last hash ");
	assert_has(run.out_text, "no key was given");
	RUN("audit", "verify", "--json", path);
	assert_int_equal(run.code, EXIT_OK);
	assert_has(run.out_text, "{\"ok\":true,\"files\":1,\"records\":2,");
	snprintf(anchor, sizeof(anchor), "2:%s", chain_format_hash(&chain, hash));
	RUN("audit", "verify", "--anchor", anchor, path);
	assert_int_equal(run.code, EXIT_OK);
	anchor[0] = '3';
	RUN("audit", "verify", "--anchor", anchor, path);
	assert_int_equal(run.code, EXIT_FOUND);
	RUN("audit", "verify", "--anchor", "2:xyz", path);
	assert_int_equal(run.code, EXIT_USAGE);
	assert_int_equal(pwrite(fd, "7", 1, (off_t)(strstr(out, "\"seq\":1") - out + 6)), 1);
	RUN("audit", "verify", path);
	assert_int_equal(run.code, EXIT_FOUND);
	assert_has(run.err_text, ":2: record 2: changed: ");
	RUN("audit", "verify", "--json", path);
	assert_int_equal(run.code, EXIT_FOUND);
	assert_has(run.out_text, "\"fault\":{\"kind\":\"changed\",\"file\":\"/tmp/cordon-audit-");
	assert_int_equal(fchmod(fd, 0644), 0);
	RUN("audit", "verify", "--key", path, path);
	assert_int_equal(run.code, EXIT_FOUND);
	assert_has(run.err_text, "chmod 600");
	close(fd);
	unlink(path);
	RUN("audit", "verify", path);
	assert_int_equal(run.code, EXIT_FOUND);
	assert_has(run.err_text, "No such file");
	RUN("audit", "verify");
	assert_int_equal(run.code, EXIT_USAGE);
	RUN("audit", "check", path);
	assert_int_equal(run.code, EXIT_USAGE);
}

static void test_events_malformed(void **state)
{
	static char text[2 * EVENT_LINE_MAX];
	size_t n = (size_t)sprintf(text, LINE_1 "junk\n{\"schema\":\"x\"}\n");

	memset(text + n, 'x', EVENT_LINE_MAX + 10);
	strcpy(text + n + EVENT_LINE_MAX + 10, "\n" LINE_2 "{\"half");
	RUN_WITH(text, "events");
	assert_int_equal(run.code, EXIT_FOUND);
	assert_string_equal(run.out_text, LINE_1 LINE_2);
	assert_has(run.err_text, "stdin:2: not JSON");
	assert_has(run.err_text, "stdin:3: not of schema");
	assert_has(run.err_text, "stdin:4: the line is too long");
	assert_has(run.err_text, "stdin:6: not JSON");
	assert_int_equal(count_lines(run.err_text), 4);
}

static void test_events_much_malformed(void **state)
{
	char text[400];

	memset(text, '\n', sizeof(text));
	for (size_t i = 0; i < sizeof(text) - 1; i += 2)
		text[i] = 'x';
	text[sizeof(text) - 1] = '\0';
	RUN_WITH(text, "events");
	assert_int_equal(run.code, EXIT_FOUND);
	assert_int_equal(count_lines(run.err_text), 21);
	assert_has(run.err_text, "200 lines were malformed");
}

/* A last line without a newline counts. */
static void test_events_no_newline(void **state)
{
	static char text[] = LINE_1 LINE_2;

	text[sizeof(text) - 2] = '\0';
	RUN_WITH(text, "events");
	assert_int_equal(run.code, EXIT_OK);
	assert_string_equal(run.out_text, LINE_1 LINE_2);
}

static void test_events_files(void **state)
{
	RUN("events", "/nonexistent/x");
	assert_int_equal(run.code, EXIT_FOUND);
	assert_has(run.err_text, "/nonexistent/x: No such file");
	RUN("events", "/");
	assert_int_equal(run.code, EXIT_FOUND);
	assert_has(run.err_text, "is a directory");
}

/* The reader has gone, or the disk is full. */
static void test_events_output_fails(void **state)
{
	int fds[2], status;
	pid_t pid;

	for (int full = 0; full < 2; full++) {
		assert_int_equal(pipe(fds), 0);
		fflush(NULL);
		pid = fork();
		if (pid == 0) {
			const char *argv[] = { "cordon", "events", "-" };
			FILE *in = tmpfile();
			int null = open("/dev/null", O_WRONLY);

			for (int i = 0; i < 10000; i++)
				fputs(LINES, in);
			rewind(in);
			close(fds[0]);
			dup2(fileno(in), STDIN_FILENO);
			dup2(full ? open("/dev/full", O_WRONLY) : fds[1], STDOUT_FILENO);
			dup2(null, STDERR_FILENO);
			exit(cli_main(3, (char **)argv));
		}
		close(fds[1]);
		close(fds[0]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), full ? EXIT_FOUND : EXIT_OK);
	}
}

/* --- following ----------------------------------------------------------------------------- */

static char dir[] = "/tmp/cordon-test-XXXXXX";
static char path[sizeof(dir) + 16], old_path[sizeof(dir) + 16];

static int follow_begin(void **state)
{
	strcpy(dir + sizeof(dir) - 7, "XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/events", dir);
	snprintf(old_path, sizeof(old_path), "%s/old", dir);
	return 0;
}

static int follow_end(void **state)
{
	unlink(path);
	unlink(old_path);
	return rmdir(dir);
}

static void file_write(const char *flags, const char *text)
{
	_cleanup_fclose_ FILE *file = fopen(path, flags);

	assert_non_null(file);
	fputs(text, file);
}

/* Waits until the output is want, at most five seconds. */
static void wait_for(const char *want)
{
	char text[8192];

	for (int i = 0; i < 500; i++) {
		ssize_t n = pread(fileno(run.out), text, sizeof(text) - 1, 0);

		text[n < 0 ? 0 : n] = '\0';
		if (strcmp(text, want) == 0)
			return;
		usleep(10000);
	}
	kill(run.pid, SIGKILL);
	fail_msg("wanted:\n%sgot:\n%s", want, text);
}

static void follow_start(void)
{
	run_start((const char *const[]){ "events", "-f", path, NULL }, NULL);
}

static void follow_stop(int signal, int code)
{
	kill(run.pid, signal);
	run_end();
	assert_int_equal(run.code, code);
}

static void test_follow_growth(void **state)
{
	file_write("w", LINE_1);
	follow_start();
	wait_for(LINE_1);
	file_write("a", LINE_2);
	wait_for(LINE_1 LINE_2);
	file_write("a",
		   "{\"schema\":\"cordon.event/1\",\"seq\":3,"); /* half a line waits for its end */
	usleep(50000);
	wait_for(LINE_1 LINE_2);
	file_write("a", LINE_3 + sizeof("{\"schema\":\"cordon.event/1\",\"seq\":3,") - 1);
	wait_for(LINES);
	follow_stop(SIGINT, EXIT_OK);
	assert_string_equal(run.err_text, "");
}

static void test_follow_rotation(void **state)
{
	file_write("w", LINE_1);
	follow_start();
	wait_for(LINE_1);
	assert_int_equal(rename(path, old_path), 0);
	usleep(50000);
	file_write("w", LINE_2);
	wait_for(LINE_1 LINE_2);
	file_write("a", LINE_3);
	wait_for(LINES);
	follow_stop(SIGTERM, EXIT_OK);
}

static void test_follow_truncation(void **state)
{
	file_write("w", LINE_1 LINE_2);
	follow_start();
	wait_for(LINE_1 LINE_2);
	file_write("w", LINE_3);
	wait_for(LINE_1 LINE_2 LINE_3);
	file_write("a", "junk\n" LINE_1);
	wait_for(LINE_1 LINE_2 LINE_3 LINE_1);
	follow_stop(SIGINT, EXIT_FOUND);
	assert_has(run.err_text, ":2: not JSON"); /* lines are counted anew */
}

static void test_follow_half_line_is_replaced(void **state)
{
	file_write("w", LINE_1 "{\"half");
	follow_start();
	wait_for(LINE_1);
	assert_int_equal(rename(path, old_path), 0);
	file_write("w", LINE_2);
	wait_for(LINE_1 LINE_2);
	follow_stop(SIGINT, EXIT_FOUND);
	assert_has(run.err_text, ":2: not JSON");
}

/* A pipe is shown as it comes, and a signal ends the wait for it. */
static void test_stream_is_not_held_back(void **state)
{
	int fd;

	assert_int_equal(mkfifo(path, 0600), 0);
	run_start((const char *const[]){ "events", path, NULL }, NULL);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, LINE_1, sizeof(LINE_1) - 1), sizeof(LINE_1) - 1);
	wait_for(LINE_1);
	follow_stop(SIGTERM, EXIT_OK);
	close(fd);
}

/* cordond, whose answer and events come in one piece. */
static int daemon_answer(int listen_fd)
{
	static const char status[] = "{\"status\":\"ok\",\"stream\":\"s-1\"}\n";
	static const char answer[] = "{\"status\":\"ok\"}\n" LINE_1 LINE_2 "{\"status\":\"end\"}\n";
	char request[256] = "";
	int fd = accept(listen_fd, NULL, NULL);

	/* Which stream it is, then what is in it; a request is a line. */
	for (size_t n = 0; !strchr(request, '\n'); n++)
		assert_true(fd >= 0 && n < sizeof(request) - 1 && recv(fd, request + n, 1, 0) == 1);
	assert_int_equal(send(fd, status, sizeof(status) - 1, 0), sizeof(status) - 1);
	memset(request, 0, sizeof(request));
	for (size_t n = 0; !strchr(request, '\n'); n++)
		assert_true(n < sizeof(request) - 1 && recv(fd, request + n, 1, 0) == 1);
	assert_int_equal(send(fd, answer, sizeof(answer) - 1, 0), sizeof(answer) - 1);
	return fd;
}

static void test_events_at_once(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	(void)state;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listen_fd, 4), 0);
	run_start((const char *const[]){ "events", "-o", "json", "--socket", path, NULL }, NULL);
	close(daemon_answer(listen_fd));
	run_end();
	assert_int_equal(run.code, EXIT_OK);
	assert_string_equal(run.out_text, LINE_1 LINE_2);
	/* Who follows sees them before the next comes. */
	run_start((const char *const[]){ "events", "-f", "-o", "json", "--socket", path, NULL },
		  NULL);
	fd = daemon_answer(listen_fd);
	wait_for(LINE_1 LINE_2);
	follow_stop(SIGTERM, EXIT_OK);
	close(fd);
	close(listen_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_parse_kinds, verb_begin),
		cmocka_unit_test_setup(test_parse_fallbacks, verb_begin),
		cmocka_unit_test_setup(test_parse_sizes, verb_begin),
		cmocka_unit_test_setup(test_parse_unknown, verb_begin),
		cmocka_unit_test_setup(test_parse_arguments, verb_begin),
		cmocka_unit_test_setup(test_parse_list_limit, verb_begin),
		cmocka_unit_test_setup(test_no_options, verb_begin),
		cmocka_unit_test(test_nearest),
		cmocka_unit_test_setup(test_table_checks, verb_begin),
		cmocka_unit_test(test_real_tables),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_everything_is_printed),
		cmocka_unit_test(test_man),
		cmocka_unit_test(test_usage_faults),
		cmocka_unit_test(test_events_pass),
		cmocka_unit_test(test_events_filter),
		cmocka_unit_test(test_events_ago),
		cmocka_unit_test(test_events_usage),
		cmocka_unit_test(test_audit),
		cmocka_unit_test(test_events_malformed),
		cmocka_unit_test(test_events_much_malformed),
		cmocka_unit_test(test_events_no_newline),
		cmocka_unit_test(test_events_files),
		cmocka_unit_test(test_events_output_fails),
		cmocka_unit_test_setup_teardown(test_follow_growth, follow_begin, follow_end),
		cmocka_unit_test_setup_teardown(test_follow_rotation, follow_begin, follow_end),
		cmocka_unit_test_setup_teardown(test_follow_truncation, follow_begin, follow_end),
		cmocka_unit_test_setup_teardown(test_follow_half_line_is_replaced, follow_begin,
						follow_end),
		cmocka_unit_test_setup_teardown(test_events_at_once, follow_begin, follow_end),
		cmocka_unit_test_setup_teardown(test_stream_is_not_held_back, follow_begin,
						follow_end),
	};

	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
