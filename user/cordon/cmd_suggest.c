// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon suggest`: what recorded denials would need of a policy, as a diff that a human reads. No privilege; changes
 * nothing. Reads what others wrote, perhaps hostile: see suggest.h.
 */
#include <errno.h>
#include <string.h>

#include "conf/edit.h"
#include "conf/file.h"
#include "cordon/daemon_client.h"
#include "cordon/lines.h"
#include "cordon/suggest.h"

struct suggest_options {
	const char *policy, *workdir, *fence, *task, *socket;
	struct cli_list from;
	bool no_paths, json;
};

static const struct cli_option suggest_rows[] = {
	{ 'p', "policy", CLI_STRING, offsetof(struct suggest_options, policy), "POLICY",
	  "the policy that the denials are of; required", 0, 0, NULL },
	{ 'w', "workdir", CLI_STRING, offsetof(struct suggest_options, workdir), "WORKDIR",
	  "as run -w WORKDIR: it takes the place of files.workdir", 0, 0, NULL },
	{ 0, "from", CLI_LIST, offsetof(struct suggest_options, from), "FILE",
	  "recorded events; - is standard input; may be given several times", 0, 0, NULL },
	{ 'F', "fence", CLI_STRING, offsetof(struct suggest_options, fence), "FENCE,...",
	  "only denials of these fences, by id or name", 0, 0, NULL },
	{ 't', "task", CLI_STRING, offsetof(struct suggest_options, task), "TASK,...",
	  "only denials of these tasks", 0, 0, NULL },
	{ 0, "no-paths", CLI_FLAG, offsetof(struct suggest_options, no_paths), NULL,
	  "do not look at the paths on this host: the policy is for another one", 0, 0, NULL },
	{ 0, "json", CLI_FLAG, offsetof(struct suggest_options, json), NULL,
	  "print one JSON object on stdout, with the diff in it", 0, 0, NULL },
	DAEMON_CLIENT_OPTION(offsetof(struct suggest_options, socket)),
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

struct reading {
	struct suggest suggest;
	struct event_filter filter;
	struct lines lines;
};

/* --- events ------------------------------------------------------------------------------------ */

static int record_take(void *context, const struct event_record *record, const char *line,
		       size_t size)
{
	struct reading *reading = context;

	(void)line;
	(void)size;
	if (event_record_matches(record, &reading->filter))
		suggest_take(&reading->suggest, record);
	return reading->suggest.failed ? -ENOMEM : 0;
}

/* An exit code. */
static int file_take(struct reading *reading, const char *path)
{
	bool standard = !strcmp(path, "-");
	const char *name = standard ? "standard input" : path;
	FILE *file = standard ? stdin : fopen(path, "re");
	int err;

	if (!file)
		return cli_fail(EXIT_FOUND, "%s: %s", name, strerror(errno));
	err = lines_read(&reading->lines, name, file);
	if (!standard)
		fclose(file);
	return err ? cli_fail(EXIT_FOUND, "%s: %s", name, strerror(-err)) : EXIT_OK;
}

/* What cordond keeps. An exit code. */
static int daemon_take(struct reading *reading, const char *socket)
{
	struct daemon_client client;
	struct error error = { "" };
	unsigned long long number = 0;
	int err = daemon_client_open(&client, socket, &error), code;
	bool ended = false;
	ssize_t n = 0;
	char *line;

	code = err ? daemon_client_fail(err, &error)
		   : daemon_client_events(&client, false, false, NULL, NULL);
	while (!code && !err && !ended &&
	       (n = control_read_line(&client.reader, EVENT_LINE_MAX, &line)) > 0) {
		ended = daemon_client_is_end(line, (size_t)n);
		if (!ended)
			err = lines_take(&reading->lines, "cordond", ++number, line, (size_t)n - 1);
	}
	if (!code && !ended)
		code = cli_fail(EXIT_FOUND, "cordond: %s",
				err	? strerror(-err)
				: n < 0 ? strerror((int)-n)
					: "it hung up before it had told all");
	daemon_client_close(&client);
	return code;
}

static int events_take(struct reading *reading, const struct suggest_options *o)
{
	int code = EXIT_OK;

	if (!o->from.n && !o->socket && !isatty(STDIN_FILENO))
		return file_take(reading, "-");
	if (!o->from.n)
		return daemon_take(reading, o->socket);
	for (size_t i = 0; !code && i < o->from.n; i++)
		code = file_take(reading, o->from.v[i]);
	return code;
}

/* --- what is said ------------------------------------------------------------------------------ */

static void refused_print(const struct suggest *suggest)
{
	for (size_t i = 0; i < suggest->n; i++) {
		const struct suggest_denied *denied = &suggest->v[i];

		if (!denied->why)
			continue;
		printf("# not suggested: %s%s%s: %s: %s\n", denied->rule,
		       denied->value[0] ? " " : "", denied->value, suggest_count(denied),
		       denied->why);
	}
	if (suggest->others)
		printf("# not looked at: %llu denials under policies of other names\n",
		       (unsigned long long)suggest->others);
	if (suggest->beyond)
		printf("# not looked at: %llu denials of more than %d different things\n",
		       (unsigned long long)suggest->beyond, SUGGEST_DENIED_MAX);
}

static json_t *denied_json(const struct suggest_denied *denied)
{
	static const char *const keys[SUGGEST_KEYS_N] = {
		"network.domains", "network.allow", "files.write", "files.read.allow", "scopes",
	};

	return json_pack("{s:s,s:s?,s:s,s:I,s:I,s:b,s:s?,s:s?}", "rule", denied->rule, "key",
			 denied->why ? NULL : keys[denied->key], "value", denied->value, "denials",
			 (json_int_t)(denied->denials > INT64_MAX ? INT64_MAX : denied->denials),
			 "tasks", (json_int_t)denied->n_tasks, "warning", denied->warning, "reach",
			 denied->reach, "why", denied->why);
}

static int all_print_json(const struct suggest *suggest, const char *diff)
{
	json_t *root = json_pack(
		"{s:[],s:[],s:s,s:I,s:I}", "suggested", "refused", "diff", diff, "other_policies",
		(json_int_t)(suggest->others > INT64_MAX ? INT64_MAX : suggest->others), "beyond",
		(json_int_t)(suggest->beyond > INT64_MAX ? INT64_MAX : suggest->beyond));
	bool failed = !root;

	for (size_t i = 0; !failed && i < suggest->n; i++) {
		json_t *one = denied_json(&suggest->v[i]);

		failed = json_array_append_new(
				 json_object_get(root, suggest->v[i].why ? "refused" : "suggested"),
				 one) < 0;
	}
	if (!failed)
		daemon_client_print(root);
	json_decref(root);
	return failed ? cli_fail(EXIT_FOUND, "out of memory") : EXIT_OK;
}

/* An exit code. */
static int all_print(const struct suggest_options *o, const struct suggest *suggest,
		     const char *from, size_t from_length, const char *to, size_t to_length)
{
	_cleanup_free_ char *diff = NULL;
	size_t size;
	FILE *out = open_memstream(&diff, &size);
	int r, code = EXIT_OK;

	if (!out)
		return cli_fail(EXIT_FOUND, "out of memory");
	r = conf_edit_diff(out, o->policy, from, from_length, to, to_length);
	if (fclose(out) || r < 0)
		return cli_fail(EXIT_FOUND, "out of memory");
	if (o->json)
		code = all_print_json(suggest, diff);
	else {
		refused_print(suggest);
		fputs(diff, stdout);
	}
	if (!code && fflush(stdout))
		code = cli_fail(EXIT_FOUND, "cannot write to stdout: %s", strerror(errno));
	return code;
}

/* --- the verb ---------------------------------------------------------------------------------- */

/* With the policy that the text is. An exit code. */
static int suggest_with(const struct suggest_options *o, struct reading *reading, const char *text,
			size_t length, const struct policy_options *options)
{
	_cleanup_free_ char *made = NULL;
	size_t made_length = 0;
	int code = events_take(reading, o);

	if (code)
		return code;
	suggest_settle(&reading->suggest);
	if (suggest_text(&reading->suggest, text, length, options, &made, &made_length) < 0 ||
	    reading->suggest.failed)
		return cli_fail(EXIT_FOUND, "out of memory");
	code = all_print(o, &reading->suggest, text, length, made, made_length);
	return code ? code : reading->lines.malformed ? EXIT_FOUND : EXIT_OK;
}

static int filter_read(const struct suggest_options *o, struct event_filter *filter)
{
	if (o->fence && event_words_split(o->fence, &filter->fences) < 0)
		return cli_fail(-EINVAL, "--fence: at most %d words, none of them empty",
				EVENT_FILTER_WORDS);
	if (o->task && event_words_split(o->task, &filter->tasks) < 0)
		return cli_fail(-EINVAL, "--task: at most %d words, none of them empty",
				EVENT_FILTER_WORDS);
	return 0;
}

static int cmd_suggest(const void *verb_options, int argc, char **argv)
{
	const struct suggest_options *o = verb_options;
	const struct policy_options options = { .workdir = o->workdir,
						.check_paths = !o->no_paths };
	static struct reading reading; /* too large for a stack */
	struct conf_faults faults = { .n = 0 };
	_cleanup_free_ char *text = NULL;
	struct policy *policy = NULL;
	size_t length = 0;
	int code = EXIT_OK, r;

	(void)argc;
	(void)argv;
	if (!o->policy)
		return cli_fail(EXIT_USAGE, "give --policy POLICY: what shall be changed");
	memset(&reading, 0, sizeof(reading));
	if (filter_read(o, &reading.filter) < 0)
		return EXIT_USAGE;
	r = conf_file_read(o->policy, &text, &length);
	if (r < 0)
		return cli_fail(EXIT_FOUND, "%s: %s", o->policy, strerror(-r));
	r = policy_parse(text, length, &options, &policy, &faults);
	if (r == -EINVAL)
		conf_faults_print(&faults, o->policy, stderr);
	conf_faults_clear(&faults);
	if (r < 0)
		return r == -EINVAL ? EXIT_POLICY : cli_fail(EXIT_FOUND, "out of memory");
	reading.suggest.policy = policy;
	reading.suggest.check_paths = !o->no_paths;
	reading.lines = (struct lines){ record_take, &reading, 0 };
	code = suggest_with(o, &reading, text, length, &options);
	suggest_clear(&reading.suggest);
	policy_free(policy);
	return code;
}

const struct cli_verb cli_verb_suggest = {
	.name = "suggest",
	.summary = "propose changes of a policy from denials, as a diff with what each line opens",
	.arguments = "",
	.text = "Reads recorded events (--from; else standard input, or, on a terminal, what "
		"cordond "
		"keeps), takes the denials of fences under the policy of this name, and prints "
		"what "
		"POLICY would have to say to let them through, as a unified diff. It changes "
		"nothing.\n\n"
		"Each line that it adds has a comment above: how often and by how many tasks it "
		"was "
		"denied, and how wide the line is. It proposes names (network.domains, from what "
		"the "
		"gateway refused), addresses (network.allow, with a warning where they are of a "
		"private net), files and directories (files.write, and files.read.allow where the "
		"policy has it), and scopes (what the gateway's upstreams refused for the lack of "
		"one): one by one, never a `*`. The metadata service, what the rule set secrets "
		"names or looks like it, loopback, what protects other processes, and whatever "
		"else "
		"no policy opens or a human should word is not proposed; each is named with the "
		"reason in a line that begins with `#`, before the diff, where patch(1) passes "
		"over "
		"it. The policy with the diff is valid: it was read as `cordon check` does.\n\n"
		"What a fence tries is what it wants, not what it needs, and a fence can try "
		"anything: read every line.\n\n"
		"  cordon suggest -p refund.yaml --from events.jsonl > refund.diff\n"
		"  patch refund.yaml refund.diff && cordon check refund.yaml\n\n"
		"Ends with 0, whether anything is proposed or not; 1 when events could not be "
		"read, "
		"or some lines were none; 3 when POLICY is not valid.",
	.options = suggest_rows,
	.options_size = sizeof(struct suggest_options),
	.min_args = 0,
	.max_args = 0,
	.run = cmd_suggest,
};
