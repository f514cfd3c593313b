// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon events`: shows recorded events from a file or a pipe, once or as they come. No privilege;
 * reads what others wrote, perhaps hostile: lines are bounded, parsed by the event library and
 * escaped. A line that is no event is reported with its number and skipped, and the exit code says
 * so; a file that is truncated or replaced while it is followed is read from its new beginning.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cordon/cli.h"
#include "cordon/daemon_client.h"
#include "event/event.h"

#define NS_PER_S 1000000000ULL
#define FOLLOW_POLL_MS 500   /* how late a replaced file is noticed */
#define FOLLOW_BLIND_MS 100  /* the same for new lines where inotify is not to be had */
#define MALFORMED_REPORTS 20 /* then they are only counted */
#define RECONNECT_FIRST_MS 100
#define RECONNECT_MOST_MS 5000

struct events_options {
	bool follow;
	const char *fence, *task, *type, *verdict, *rule, *since, *output, *socket;
	bool no_reconnect;
	bool print_schema, print_doc;
};

/* Where lines come from. */
struct source {
	const char *path; /* NULL: standard input */
	const char *name; /* for messages */
	int fd;
	int notify_fd; /* inotify on the file, or -1 */
	bool follow;
	bool daemon; /* fd is a connection to cordond */
	bool fresh;  /* what came with cordond's answer is not looked at yet */
	bool ended;  /* cordond has told all */
	char stream[CORDOND_STREAM_SIZE];
	const struct events_options *options;
	struct stat st; /* of fd */
	uint64_t line;	/* number of the last line, from 1 */
	size_t used;	/* bytes of buffer that hold the beginning of a line */
	bool skipping;	/* that line is too long, and was reported */
	char buffer[EVENT_LINE_MAX + 1];
};

struct viewer {
	struct event_filter filter;
	enum event_format format;
	bool color;
	uint64_t malformed;
	bool failed; /* reading did, and it was reported */
};

static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

/* --- options ------------------------------------------------------------------------------- */

static int words_read(const char *option, const char *list, struct event_words *ret_words)
{
	int r = list ? event_words_split(list, ret_words) : 0;

	if (r == -E2BIG)
		return cli_fail(r, "--%s: the list is too long: at most %d words", option,
				EVENT_FILTER_WORDS);
	if (r < 0)
		return cli_fail(r, "--%s: an empty word in '%s'", option, list);
	return 0;
}

/* Every word must be one of a table. */
static int words_check(const char *option, const struct event_words *words,
		       int (*find)(const char *name), const char *(*name)(unsigned int i),
		       unsigned int count)
{
	const char *names[16] = { NULL };

	for (unsigned int i = 0; i < count && i < ARRAY_SIZE(names) - 1; i++)
		names[i] = name(i);
	for (size_t i = 0; i < words->n; i++) {
		const char *nearest = cli_nearest(words->v[i], names);

		if (find(words->v[i]) >= 0)
			continue;
		if (nearest)
			return cli_fail(-EINVAL, "--%s: there is no %s '%s'; did you mean '%s'?",
					option, option, words->v[i], nearest);
		return cli_fail(-EINVAL, "--%s: there is no %s '%s'; docs/events.md lists them",
				option, option, words->v[i]);
	}
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* "90s", "10m", "1h" or "2d" ago. */
static int ago_parse(const char *text, uint64_t *ret_time_ns)
{
	static const char units[] = "smhd";
	static const uint64_t seconds[] = { 1, 60, 3600, 86400 };
	uint64_t now = now_ns(), n, unit_ns;
	const char *unit;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (errno || !unit || end[1])
		return -EINVAL;
	unit_ns = seconds[unit - units] * NS_PER_S;
	*ret_time_ns = n > now / unit_ns ? 1 : now - n * unit_ns;
	return 0;
}

static int since_read(const char *text, uint64_t *ret_time_ns)
{
	if (!text || ago_parse(text, ret_time_ns) == 0 || event_parse_time(text, ret_time_ns) == 0)
		return 0;
	return cli_fail(-EINVAL,
			"--since: '%s' is neither a time (2026-01-02T03:04:05Z) nor an age (90s, "
			"10m, 1h, 2d)",
			text);
}

static int filter_read(const struct events_options *o, struct event_filter *f)
{
	int r = words_read("fence", o->fence, &f->fences);

	r = r < 0 ? r : words_read("task", o->task, &f->tasks);
	r = r < 0 ? r : words_read("type", o->type, &f->types);
	r = r < 0 ? r : words_read("verdict", o->verdict, &f->verdicts);
	r = r < 0 ? r : words_read("rule", o->rule, &f->rules);
	r = r < 0 ? r
		  : words_check("type", &f->types, event_type_find, event_type_name,
				CORDON_TYPE_COUNT);
	r = r < 0 ? r
		  : words_check("verdict", &f->verdicts, event_verdict_find, event_verdict_name,
				CORDON_VERDICT_COUNT);
	return r < 0 ? r : since_read(o->since, &f->since_ns);
}

static int format_read(const char *output, enum event_format *ret_format)
{
	if (!output)
		*ret_format = isatty(STDOUT_FILENO) ? EVENT_TEXT : EVENT_JSON;
	else if (strcmp(output, "text") == 0)
		*ret_format = EVENT_TEXT;
	else if (strcmp(output, "json") == 0)
		*ret_format = EVENT_JSON;
	else if (strcmp(output, "ocsf") == 0)
		*ret_format = EVENT_OCSF;
	else
		return cli_fail(-EINVAL, "--output: '%s' is not one of text|json|ocsf", output);
	return 0;
}

/* --- lines --------------------------------------------------------------------------------- */

static void malformed_report(struct viewer *viewer, const struct source *source, const char *reason)
{
	if (++viewer->malformed <= MALFORMED_REPORTS)
		cli_fail(0, "%s:%llu: %s", source->name, (unsigned long long)source->line, reason);
}

/* Shows one line. Returns 0 or -errno of the output. */
static int line_show(struct viewer *viewer, const struct source *source, const char *line,
		     size_t size)
{
	struct event_record record;
	struct error error = { "" };
	int r = 0;

	if (event_line_is_chain(line, size))
		return 0;
	if (event_record_parse(line, size, &record, &error) < 0) {
		malformed_report(viewer, source, error.text);
		return 0;
	}
	if (event_record_matches(&record, &viewer->filter))
		r = event_record_write(stdout, viewer->format, viewer->color, &record, line, size);
	event_record_clear(&record);
	return r;
}

/* One line has ended. */
static int line_end(struct viewer *viewer, struct source *source, const char *line, size_t size)
{
	bool blank = strspn(line, " \t\r") >= size;

	if (source->skipping) {
		source->skipping = false;
		return 0;
	}
	source->line++;
	source->ended |= source->daemon && daemon_client_is_end(line, size);
	if (source->ended)
		return 0;
	return blank ? 0 : line_show(viewer, source, line, size);
}

/* Takes the complete lines out of the buffer; what remains moves to its front. */
static int buffer_drain(struct viewer *viewer, struct source *source)
{
	char *line = source->buffer, *end = line + source->used, *newline;
	int r = 0;

	while (r == 0 && (newline = memchr(line, '\n', (size_t)(end - line)))) {
		*newline = '\0';
		r = line_end(viewer, source, line, (size_t)(newline - line));
		line = newline + 1;
	}
	source->used = (size_t)(end - line);
	memmove(source->buffer, line, source->used);
	if (source->used < EVENT_LINE_MAX)
		return r;
	if (!source->skipping) {
		source->line++;
		malformed_report(viewer, source, "the line is too long");
	}
	source->skipping = true;
	source->used = 0;
	return r;
}

/* The file ended or was replaced: what stands in the buffer will not be continued. */
static int rest_flush(struct viewer *viewer, struct source *source)
{
	int r = 0;

	source->buffer[source->used] = '\0';
	if (source->used || source->skipping)
		r = line_end(viewer, source, source->buffer, source->used);
	source->used = 0;
	source->skipping = false;
	return r;
}

/* Reads once. Returns bytes, 0 at the end for now or when reading failed, -errno of the output. */
static ssize_t source_read(struct viewer *viewer, struct source *source)
{
	ssize_t n = read(source->fd, source->buffer + source->used, EVENT_LINE_MAX - source->used);
	int r;

	if (n < 0 && errno != EINTR && errno != EAGAIN &&
	    !(source->daemon && errno == ECONNRESET)) /* as good as an end */
		viewer->failed = cli_fail(true, "%s: %s", source->name, strerror(errno));
	if (n <= 0)
		return 0;
	source->used += (size_t)n;
	r = buffer_drain(viewer, source);
	return r < 0 ? r : n;
}

/* --- following ----------------------------------------------------------------------------- */

static void source_watch(struct source *source)
{
	if (source->notify_fd >= 0)
		close(source->notify_fd);
	source->notify_fd = source->path ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : -1;
	if (source->notify_fd >= 0 && inotify_add_watch(source->notify_fd, source->path,
							IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF) < 0)
		close(TAKE_FD(source->notify_fd));
}

/* Returns 0 or, after the fault was reported, -errno. */
static int source_open(struct source *source)
{
	int fd = source->path ? open(source->path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : STDIN_FILENO;

	if (fd < 0 || fstat(fd, &source->st) < 0)
		return cli_fail(-errno, "%s: %s", source->name, strerror(errno));
	if (S_ISDIR(source->st.st_mode))
		return cli_fail(-EISDIR, "%s: is a directory, not a file of events", source->name);
	source->fd = fd;
	if (source->follow)
		source_watch(source);
	return 0;
}

/* Does the path lead to another file now? A path that leads nowhere, for the moment, does not. */
static bool source_is_replaced(const struct source *source)
{
	struct stat st;

	if (!source->path || stat(source->path, &st) < 0)
		return false;
	return st.st_ino != source->st.st_ino || st.st_dev != source->st.st_dev;
}

static bool source_is_truncated(const struct source *source)
{
	struct stat st;
	off_t at = lseek(source->fd, 0, SEEK_CUR);

	return at >= 0 && fstat(source->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < at;
}

/*
 * At the end of what there is: goes on with a new file, or from the beginning. Returns 1 if so, 0,
 * or -errno of output.
 */
static int source_renew(struct viewer *viewer, struct source *source)
{
	bool truncated = source_is_truncated(source);
	int r;

	if (!truncated && !source_is_replaced(source))
		return 0;
	r = rest_flush(viewer, source);
	if (r < 0)
		return r;
	source->line = 0;
	if (truncated) {
		lseek(source->fd, 0, SEEK_SET);
		return 1;
	}
	close(source->fd);
	viewer->failed = source_open(source) < 0;
	return 1;
}

/*
 * Waits for input, a change of the file or a signal, at most until the file is to be looked at
 * again. Signals are held back between the test of stop and the wait, so that none is missed.
 */
static void source_wait(const struct source *source)
{
	bool stream = !S_ISREG(source->st.st_mode);
	struct pollfd fds[] = { { .fd = stream ? source->fd : source->notify_fd,
				  .events = POLLIN } };
	int ms = fds[0].fd < 0 ? FOLLOW_BLIND_MS : FOLLOW_POLL_MS;
	struct timespec timeout = { .tv_nsec = ms * 1000000L };
	sigset_t held, before;
	char changes[4096];

	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigprocmask(SIG_BLOCK, &held, &before);
	if (!stop)
		ppoll(fds, 1, stream ? NULL : &timeout, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	while (!stream && source->notify_fd >= 0 &&
	       read(source->notify_fd, changes, sizeof(changes)) > 0)
		;
}

static void signals_prepare(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	stop = 0;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/*
 * A followed file has no more for now: shows what there is and waits. Returns 0 or -errno of the
 * output.
 */
static int source_follow(struct viewer *viewer, struct source *source)
{
	int r;

	if (fflush(stdout) != 0)
		return -errno;
	r = source_renew(viewer, source);
	if (r == 0)
		source_wait(source);
	return r < 0 ? r : 0;
}

/* A stream has no more for now: what there is must not wait in our buffer. */
static int stream_wait(const struct source *source)
{
	if (fflush(stdout) != 0)
		return -errno;
	source_wait(source);
	return 0;
}

/* --- cordond ------------------------------------------------------------------------------- */

/* The connection becomes the source; what came with the answer is its beginning. */
static void source_take(struct source *source, struct control_reader *reader)
{
	const struct timeval no_limit = { 0 };

	source->used = reader->have - reader->taken;
	memcpy(source->buffer, reader->buffer + reader->taken, source->used);
	source->fd = TAKE_FD(reader->fd);
	setsockopt(source->fd, SOL_SOCKET, SO_RCVTIMEO, &no_limit, sizeof(no_limit));
	source->name = "cordond";
	source->notify_fd = -1;
	source->st.st_mode = S_IFSOCK;
	source->daemon = source->fresh = true;
}

/*
 * Asks cordond for events. An exit code; with quiet nothing is said, and -1 stands for what may pass. What it keeps is
 * wanted with --since, and where another stream has begun: then it is what no earlier cordond has shown.
 */
static int source_connect(struct source *source, bool quiet)
{
	const struct events_options *o = source->options;
	struct daemon_client client;
	struct error error = { "" };
	char stream[CORDOND_STREAM_SIZE];
	/* One fence can be asked for; of several all events are taken, and the filter chooses. After a
	   start of cordond it need not know the fence yet. */
	const char *fence = o->fence && !strchr(o->fence, ',') && !quiet ? o->fence : NULL;
	int err = daemon_client_open(&client, o->socket, &error), code;
	bool past;

	client.quiet = quiet;
	if (err && quiet && daemon_client_may_come(err))
		code = -1;
	else
		code = err ? daemon_client_fail(err, &error)
			   : daemon_client_stream(&client, stream);
	if (!code) {
		past = quiet ? strcmp(stream, source->stream) != 0 : o->since != NULL;
		code = daemon_client_events(&client, o->follow, past, fence, NULL);
	}
	if (!code) {
		memcpy(source->stream, stream, sizeof(stream));
		source_take(source, &client.reader);
	} else if (quiet && client.lost) {
		code = -1;
	}
	daemon_client_close(&client);
	return code;
}

/* Waits ms, or until a signal. */
static void pause_ms(int ms)
{
	const struct timespec timeout = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	sigset_t held, before;

	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigprocmask(SIG_BLOCK, &held, &before);
	if (!stop)
		ppoll(NULL, 0, &timeout, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* A record of our own, where events may be missing. It is shown whatever is asked for. */
static int gap_show(const struct viewer *viewer, uint64_t since_ns)
{
	static struct event event;
	char node[256] = "";
	const struct event_context context = { .node = node };

	gethostname(node, sizeof(node) - 1);
	event_make(&event, CORDON_OP_LAG, NULL, NULL, 0,
		   "this reader had no cordond: what was not given to it by then is missing; the "
		   "numbers of each fence tell how much");
	event.first_ns = since_ns;
	event.last_ns = event.time_ns;
	return event_write(stdout, viewer->format, viewer->color, &context, &event);
}

/* cordond hung up on who follows: tries until it is there again. Returns 0 or -errno of the output; no more comes with failed. */
static int source_reconnect(struct viewer *viewer, struct source *source)
{
	uint64_t since_ns = now_ns();
	int code = -1, ms = RECONNECT_FIRST_MS;

	close(TAKE_FD(source->fd));
	source->used = 0; /* of a line that will not be continued */
	source->skipping = false;
	if (source->options->no_reconnect) {
		viewer->failed = cli_fail(true, "cordond hung up; without --no-reconnect it "
						"would be tried again");
		return 0;
	}
	cli_fail(0, "cordond hung up; trying to reach it again");
	if (fflush(stdout) != 0)
		return -errno;
	while (!stop && code < 0) {
		code = source_connect(source, true);
		if (code < 0)
			pause_ms(ms);
		ms = ms * 2 < RECONNECT_MOST_MS ? ms * 2 : RECONNECT_MOST_MS;
	}
	if (code) {
		viewer->failed = code > 0;
		return 0;
	}
	cli_fail(0, "cordond is there again");
	return gap_show(viewer, since_ns);
}

/* The end of a stream: true when it goes on. */
static bool source_goes_on(struct viewer *viewer, struct source *source, int *ret_r)
{
	if (!source->daemon || source->ended)
		return false;
	if (!source->follow) {
		viewer->failed = cli_fail(true, "cordond hung up before it had told all");
		return false;
	}
	*ret_r = source_reconnect(viewer, source);
	return !*ret_r && source->fd >= 0;
}

/* Shows everything until the end or a signal. Returns 0 or -errno of the output. */
static int source_show(struct viewer *viewer, struct source *source)
{
	bool regular = S_ISREG(source->st.st_mode);
	int r = 0;

	signals_prepare();
	while (r == 0 && !stop && !viewer->failed) {
		ssize_t n;

		if (source->fresh) /* else it would wait for what comes next */
			r = buffer_drain(viewer, source);
		source->fresh = false;
		if (r == 0 && !regular)
			r = stream_wait(source);
		if (r < 0 || stop)
			break;
		n = source_read(viewer, source);
		if (n < 0)
			r = (int)n;
		else if (n == 0 && source->follow && regular)
			r = source_follow(viewer, source);
		else if (n == 0 && !stop && !source_goes_on(viewer, source, &r))
			break;
	}
	return r < 0 ? r : rest_flush(viewer, source);
}

/* --- the verb ------------------------------------------------------------------------------ */

/*
 * Where events come from when no FILE is named: from cordond, unless something is piped into us. To follow is to follow
 * cordond where there is one.
 */
static bool from_daemon(const struct events_options *o, const char *path)
{
	struct stat st;
	bool piped = !fstat(STDIN_FILENO, &st) && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));

	if (path)
		return false;
	return o->socket || ((o->follow || !piped) && daemon_client_is_there(NULL));
}

static int source_prepare(struct source *source, bool follow, const char *path)
{
	source->path = path && strcmp(path, "-") != 0 ? path : NULL;
	source->name = source->path ? source->path : "stdin";
	source->follow = follow;
	source->notify_fd = -1;
	if (!path && isatty(STDIN_FILENO))
		return cli_fail(-ENOTTY, "no FILE given, no cordond runs, and standard input is a "
					 "terminal; - reads it nevertheless");
	return source_open(source);
}

/* The exit code after everything was shown. */
static int events_end(const struct viewer *viewer, int r)
{
	if (r == -EPIPE || (stop && r == -EINTR)) { /* the reader, or the user, has seen enough */
		clearerr(stdout);
		return EXIT_OK;
	}
	if (r < 0)
		return cli_fail(EXIT_FOUND, "cannot write to stdout: %s", strerror(-r));
	if (viewer->malformed > MALFORMED_REPORTS)
		cli_fail(0, "%llu lines were malformed; the first %d are named above",
			 (unsigned long long)viewer->malformed, MALFORMED_REPORTS);
	return viewer->failed || viewer->malformed ? EXIT_FOUND : EXIT_OK;
}

static int events_run(const void *options, int argc, char **argv)
{
	const struct events_options *o = options;
	static struct source source;
	struct viewer viewer = { .color = cli_wants_color(STDOUT_FILENO) };
	int r;

	if (o->print_schema)
		event_print_schema(stdout);
	if (o->print_doc)
		event_print_doc(stdout);
	if (o->print_schema || o->print_doc)
		return EXIT_OK;
	if (format_read(o->output, &viewer.format) < 0 || filter_read(o, &viewer.filter) < 0)
		return EXIT_USAGE;
	if (from_daemon(o, argc ? argv[0] : NULL)) {
		source.options = o;
		source.follow = o->follow;
		r = source_connect(&source, false);
		if (r)
			return r;
	} else {
		r = source_prepare(&source, o->follow, argc ? argv[0] : NULL);
		if (r < 0)
			return r == -ENOTTY ? EXIT_USAGE : EXIT_FOUND;
	}
	return events_end(&viewer, source_show(&viewer, &source));
}

static const struct cli_option events_rows[] = {
	{ .letter = 'f',
	  .name = "follow",
	  .kind = CLI_FLAG,
	  .offset = offsetof(struct events_options, follow),
	  .help = "wait for more at the end, also when the file is truncated or replaced" },
	{ .name = "no-reconnect",
	  .kind = CLI_FLAG,
	  .offset = offsetof(struct events_options, no_reconnect),
	  .help = "with -f: end, with 1, when cordond does, instead of waiting for it" },
	{ .letter = 'F',
	  .name = "fence",
	  .kind = CLI_STRING,
	  .offset = offsetof(struct events_options, fence),
	  .metavar = "FENCE,...",
	  .help = "only of these fences, by id or name" },
	{ .letter = 't',
	  .name = "task",
	  .kind = CLI_STRING,
	  .offset = offsetof(struct events_options, task),
	  .metavar = "TASK,...",
	  .help = "only of these tasks" },
	{ .name = "type",
	  .kind = CLI_STRING,
	  .offset = offsetof(struct events_options, type),
	  .metavar = "TYPE,...",
	  .help = "only of these types: file, net, process, guard, limit, fence, gateway, loss" },
	{ .name = "verdict",
	  .kind = CLI_STRING,
	  .offset = offsetof(struct events_options, verdict),
	  .metavar = "VERDICT,...",
	  .help = "only with these verdicts: allow, deny, would_deny" },
	{ .name = "rule",
	  .kind = CLI_STRING,
	  .offset = offsetof(struct events_options, rule),
	  .metavar = "RULE,...",
	  .help = "only by these rules; `network` means all of network.* too" },
	{ .name = "since",
	  .kind = CLI_STRING,
	  .offset = offsetof(struct events_options, since),
	  .metavar = "TIME",
	  .help = "only since a time (RFC 3339) or an age (90s, 10m, 1h, 2d)" },
	{ .letter = 'o',
	  .name = "output",
	  .kind = CLI_STRING,
	  .offset = offsetof(struct events_options, output),
	  .metavar = "text|json|ocsf",
	  .help = "form; text on a terminal, else json, unless told; ocsf: OCSF 1.3.0" },
	DAEMON_CLIENT_OPTION(offsetof(struct events_options, socket)),
	{ .name = "print-schema",
	  .kind = CLI_FLAG,
	  .offset = offsetof(struct events_options, print_schema),
	  .help = "print the JSON Schema of events and end" },
	{ .name = "print-doc",
	  .kind = CLI_FLAG,
	  .offset = offsetof(struct events_options, print_doc),
	  .help = "print the description of events (docs/events.md) and end" },
	{ .name = NULL },
};

const struct cli_verb cli_verb_events = {
	.name = "events",
	.summary =
		"show events, of cordond or recorded: filter them, follow them, make them readable",
	.arguments = "[FILE|-]",
	.text = "Reads events, one JSON object a line, from FILE, from standard input, or from "
		"cordond: "
		"with -f, or when nothing is piped in, and no FILE is named. cordond keeps the "
		"latest "
		"events; with -f what comes is shown, and with --since also what was kept. A "
		"reader "
		"that is too slow misses events, and a `lag` record says how many. Where cordond "
		"is "
		"started again, -f waits for it and goes on, after a `lag` record that says since "
		"when it was not there. Words of "
		"a list, parted by commas, are alternatives; different options must all hold. "
		"Lines that are no events are named on stderr and skipped, and the exit status is "
		"then 1.\n"
		"\n"
		"Text shows times in the local time zone and is coloured on a terminal unless "
		"NO_COLOR is set. Bytes that could act on the terminal are shown as \\xNN.\n"
		"\n"
		"  cordon events -f --verdict deny,would_deny events.jsonl\n"
		"  cordon events --fence refund-agent --rule network --since 10m events.jsonl",
	.options = events_rows,
	.options_size = sizeof(struct events_options),
	.max_args = 1,
	.run = events_run,
};
