// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon oci-runtime`: stands before an OCI runtime where no hooks can be configured (Docker, containerd). Everything is
 * handed to the runtime as it came. After its `create` the container is complete, and waits for `start` to execute its command: in
 * between the fence is put around it. Nothing of the bundle is rewritten, and the paths of the policy are those of the finished
 * container.
 *
 * Fails closed: a container that cannot be fenced is deleted, and `create` fails. `run` and `restore`, which leave no such moment, are
 * refused. Asks cordond; no privilege of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "cordon/oci_fence.h"

enum { RUNTIME_ARGS = 64 };

extern char **environ;

/* A runtime's command line: options of its own, the command, and what belongs to that. */
struct line {
	int argc;
	char **argv;
	int command; /* index of it; argc: there is none */
	const char *log;
	bool log_json;
};

/* --- its command line ------------------------------------------------------------------------- */

/* Options of runc and crun before the command that take a value. */
static const char *const valued[] = { "root", "log",	  "log-format",	   "log-level",
				      "criu", "rootless", "cgroup-manager" };
static const char *const flags[] = { "debug", "systemd-cgroup", "version", "v", "help", "h" };

static bool is_one_of(const char *const *names, size_t n, const char *name, size_t length)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(names[i]) == length && !strncmp(names[i], name, length))
			return true;
	return false;
}

static void log_note(struct line *line, const char *name, const char *value)
{
	if (!strncmp(name, "log", 3) && (name[3] == '=' || !name[3]))
		line->log = value;
	else if (!strncmp(name, "log-format", 10))
		line->log_json = !strcmp(value, "json");
}

/* What is not known could hide the command: refused. */
static int line_parse(int argc, char **argv, struct line *ret_line)
{
	int i;

	*ret_line = (struct line){ .argc = argc, .argv = argv };
	for (i = 0; i < argc && argv[i][0] == '-'; i++) {
		const char *name = argv[i] + (argv[i][1] == '-' ? 2 : 1);
		size_t length = strcspn(name, "=");

		if (is_one_of(valued, ARRAY_SIZE(valued), name, length)) {
			if (!name[length] && i + 1 == argc)
				return cli_fail(EXIT_USAGE,
						"the runtime's last option needs a value");
			log_note(ret_line, name, name[length] ? name + length + 1 : argv[i + 1]);
			i += !name[length];
		} else if (!is_one_of(flags, ARRAY_SIZE(flags), name, length)) {
			return cli_fail(EXIT_USAGE,
					"an option of the runtime that is not known here: %s",
					argv[i]);
		}
	}
	ret_line->command = i;
	return EXIT_OK;
}

/* --- running it ------------------------------------------------------------------------------- */

/* The runtime with its own options, as they came, and a command on a container. NULL at the end. */
static bool argv_make(const struct oci_options *o, const struct line *line,
		      const char *const *command, char **ret_argv)
{
	int n = 0;

	if (line->command + 8 > RUNTIME_ARGS)
		return false;
	ret_argv[n++] = (char *)o->runtime;
	for (int i = 0; i < line->command; i++)
		ret_argv[n++] = line->argv[i];
	while (*command)
		ret_argv[n++] = (char *)*command++;
	ret_argv[n] = NULL;
	return true;
}

/* out: NULL, or what it prints is read into *out. Its exit code, 128 + N for a signal, or -errno. */
static int runtime_run(char **argv, char **out, size_t *out_size)
{
	posix_spawn_file_actions_t actions;
	int fds[2] = { -1, -1 }, status = 0, r, bad = 0;
	pid_t pid;

	if (out && pipe2(fds, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	if (out)
		posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (out)
		close(fds[1]);
	if (!r && out)
		bad = oci_text_read(fds[0], out, out_size);
	if (out)
		close(fds[0]);
	if (r)
		return -r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (bad)
		return bad;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Becomes the runtime. */
static int runtime_become(const struct oci_options *o, const struct line *line)
{
	char **argv = calloc((size_t)line->argc + 2, sizeof(*argv));

	if (!argv)
		return cli_fail(EXIT_FOUND, "out of memory");
	argv[0] = (char *)o->runtime;
	memcpy(argv + 1, line->argv, (size_t)line->argc * sizeof(*argv));
	execvp(argv[0], argv);
	free(argv);
	return cli_fail(EXIT_FOUND, "%s: %s", o->runtime, strerror(errno));
}

/* --- create ----------------------------------------------------------------------------------- */

/* Text as the inside of a JSON string, which logs of either format have. It is printable (cli_fail()). */
static void text_quote(const char *text, char *to, size_t size)
{
	size_t n = 0;

	for (; *text && n + 3 < size; text++) {
		if (*text == '"' || *text == '\\')
			to[n++] = '\\';
		to[n++] = (unsigned char)*text < 0x20 ? ' ' : *text;
	}
	to[n] = '\0';
}

/* The last words of the runtime's log are what engines show. */
static void log_refusal(const struct line *line, const char *why)
{
	_cleanup_close_ int fd =
		line->log ? open(line->log, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY)
			  : -1;
	char text[2 * sizeof(((struct error *)0)->text)], quoted[sizeof(text) - 128], when[32];
	time_t now = time(NULL);
	struct tm utc;

	if (fd < 0)
		return;
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
	text_quote(why, quoted, sizeof(quoted));
	snprintf(text, sizeof(text),
		 line->log_json ? "{\"level\":\"error\",\"msg\":\"%s\",\"time\":\"%s\"}\n"
				: "level=error msg=\"%s\" time=\"%s\"\n",
		 quoted, when);
	if (write(fd, text, strlen(text)) < 0)
		return; /* the exit code says it all the same */
}

/* The container that was made, by what the runtime says of it. */
static int created_fence(const struct oci_options *o, const struct line *line, const char *id)
{
	const char *const command[] = { "state", id, NULL };
	_cleanup_free_ char *text = NULL;
	static struct oci_state state;
	struct error error = { "" };
	char *argv[RUNTIME_ARGS];
	const char *policy;
	size_t n = 0;
	int code;

	if (!argv_make(o, line, command, argv))
		return cli_fail(EXIT_USAGE, "more options than a runtime has");
	code = runtime_run(argv, &text, &n);
	if (code)
		return cli_fail(EXIT_FOUND, "%s state: %s", o->runtime,
				code < 0 ? strerror(-code) : "failed");
	if (oci_state_parse(text, n, OCI_CREATE, &state, &error))
		return cli_fail(EXIT_FOUND, "%s state: %s", o->runtime, error.text);
	if (strcmp(state.id, id) != 0)
		return cli_fail(EXIT_FOUND, "%s state: of another container", o->runtime);
	code = oci_policy_of(o, &state, &policy);
	return code || !policy ? code : oci_container_fence(o, &state, policy, "/");
}

struct creation {
	const struct oci_options *options;
	const struct line *line;
	const char *id;
};

static int creation_fence(void *context)
{
	const struct creation *c = context;

	return created_fence(c->options, c->line, c->id);
}

static int runtime_create(const struct oci_options *o, const struct line *line)
{
	const char *id = line->argv[line->argc - 1];
	struct creation creation = { o, line, id };
	const char *const delete_it[] = { "delete", "--force", id, NULL };
	char *argv[RUNTIME_ARGS], said[768];
	char **all = calloc((size_t)line->argc + 2, sizeof(*all));
	int code;

	if (!all)
		return cli_fail(EXIT_FOUND, "out of memory");
	if (line->argc - line->command < 2 || id[0] == '-' ||
	    !argv_make(o, line, delete_it, argv)) {
		free(all);
		return cli_fail(EXIT_USAGE, "create: no container named");
	}
	all[0] = (char *)o->runtime;
	memcpy(all + 1, line->argv, (size_t)line->argc * sizeof(*all));
	code = runtime_run(all, NULL, NULL);
	free(all);
	if (code < 0)
		return cli_fail(EXIT_FOUND, "%s: %s", o->runtime, strerror(-code));
	if (code)
		return code;
	code = oci_hear(creation_fence, &creation, said, sizeof(said));
	if (!code)
		return EXIT_OK;
	log_refusal(line, said);
	if (runtime_run(argv, NULL, NULL))
		cli_fail(code,
			 "%s delete --force failed: the container is there, and not fenced; "
			 "it has not been started",
			 o->runtime);
	return code;
}

static int cmd_oci_runtime(const void *options, int argc, char **argv)
{
	const struct oci_options *o = options;
	struct line line;
	const char *command;
	int code = oci_options_judge(o);

	if (!code)
		code = line_parse(argc, argv, &line);
	if (code)
		return code;
	command = line.command < argc ? argv[line.command] : "";
	if (!strcmp(command, "create"))
		return runtime_create(o, &line);
	if (!strcmp(command, "run") || !strcmp(command, "restore"))
		return cli_fail(EXIT_USAGE,
				"%s: the container would run before it is fenced; engines use "
				"create and start",
				command);
	return runtime_become(o, &line);
}

static const struct cli_option oci_runtime_rows[] = {
	OCI_OPTIONS,
	{ 0, "runtime", CLI_STRING, offsetof(struct oci_options, runtime), "PROGRAM",
	  "the runtime that does the work", 0, 0, "runc" },
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

const struct cli_verb cli_verb_oci_runtime = {
	.name = "oci-runtime",
	.summary = "run an OCI runtime whose containers are fenced before they start",
	.arguments = "[--] ARGUMENTS...",
	.text = "For engines that know no hooks, Docker and containerd: they are given this as "
		"their runtime, and all arguments go to the real one. When that has created a "
		"container, and before its command is executed, the container is fenced as "
		"`cordon oci-hook` does, by the annotation dev.cordon.policy or by --policy. If "
		"that fails, the container is deleted and create fails. run and restore are "
		"refused.\n\n"
		"docs/containers.md says how engines are told of it.",
	.options = oci_runtime_rows,
	.options_size = sizeof(struct oci_options),
	.min_args = 0,
	.max_args = -1,
	.stop_at_argument = true,
	.run = cmd_oci_runtime,
};
