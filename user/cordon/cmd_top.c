// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon top`: the fences that cordond keeps and the last denials, anew each interval, until q. Two connections: one for
 * each answer, so that cordond may drop who is idle, and one that carries events. The terminal is put back however this ends,
 * but by SIGKILL. No privilege of its own.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cordon/fences.h"
#include "cordon/top.h"
#include "event/event.h"

enum { WIDTH = 132, HEIGHT = 24, READS_A_TURN = 256 };

struct top_options {
	bool once;
	unsigned int interval_s;
	const char *socket;
};

static const struct cli_option top_rows[] = {
	{ 0, "once", CLI_FLAG, offsetof(struct top_options, once), NULL,
	  "print one page after one interval, and end", 0, 0, NULL },
	{ 'i', "interval", CLI_UINT, offsetof(struct top_options, interval_s), "SECONDS",
	  "between pages, 1 to 60", 1, 60, "2" },
	DAEMON_CLIENT_OPTION(offsetof(struct top_options, socket)),
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* --- events ----------------------------------------------------------------------------------- */

/* Lines of events, as far as they have come. */
struct feed {
	struct daemon_client client;
	char *buffer; /* of EVENT_LINE_MAX and what may have come with cordond's answer */
	size_t room, used;
	bool ended;
};

static int feed_open(struct feed *feed, const struct top_options *o)
{
	struct control_reader *r = &feed->client.reader;
	struct error error = { "" };
	int err = daemon_client_open(&feed->client, o->socket, &error), code;

	if (err)
		return daemon_client_fail(err, &error);
	code = daemon_client_events(&feed->client, !o->once, true, NULL, NULL);
	if (code)
		return code;
	feed->used = r->have - r->taken;
	feed->room = EVENT_LINE_MAX + feed->used;
	feed->buffer = malloc(feed->room);
	if (!feed->buffer)
		return cli_fail(EXIT_FOUND, "out of memory");
	memcpy(feed->buffer, r->buffer + r->taken, feed->used);
	return EXIT_OK;
}

static void feed_close(struct feed *feed)
{
	daemon_client_close(&feed->client);
	free(feed->buffer);
}

static void feed_drain(struct feed *feed, struct top *top)
{
	char *line = feed->buffer, *end = line + feed->used, *newline;

	while ((newline = memchr(line, '\n', (size_t)(end - line)))) {
		top_event(top, line, (size_t)(newline - line));
		line = newline + 1;
	}
	feed->used = (size_t)(end - line);
	memmove(feed->buffer, line, feed->used);
	if (feed->used == feed->room) /* longer than any event: it is none */
		feed->used = 0;
}

/* What has come; wait: until the end. */
static void feed_read(struct feed *feed, struct top *top, bool wait)
{
	feed_drain(feed, top);
	for (int i = 0; (wait || i < READS_A_TURN) && !feed->ended; i++) {
		ssize_t n = recv(feed->client.reader.fd, feed->buffer + feed->used,
				 feed->room - feed->used, wait ? 0 : MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && !wait)
			return;
		feed->ended = n <= 0;
		feed->used += n > 0 ? (size_t)n : 0;
		feed_drain(feed, top);
	}
}

/* --- the terminal ----------------------------------------------------------------------------- */

static volatile sig_atomic_t stop;

static void on_stop(int sig)
{
	(void)sig;
	stop = 1;
}

static void on_resize(int sig)
{
	(void)sig; /* poll(2) ends */
}

static void signals_take(void)
{
	const struct sigaction stops = { .sa_handler = on_stop };
	const struct sigaction resizes = { .sa_handler = on_resize };

	sigaction(SIGINT, &stops, NULL);
	sigaction(SIGTERM, &stops, NULL);
	sigaction(SIGHUP, &stops, NULL);
	sigaction(SIGWINCH, &resizes, NULL);
}

/* Keys come one by one and are not shown; the page is on a screen of its own. */
static int terminal_take(struct termios *ret_before)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, ret_before))
		return -errno;
	raw = *ret_before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* a shell would come back to this screen */
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw))
		return -errno;
	fputs("\x1b[?1049h\x1b[?25l", stdout);
	return 0;
}

static void terminal_give(const struct termios *before)
{
	fputs("\x1b[?25h\x1b[?1049l", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, before);
}

static void page_show(const struct top *top)
{
	struct winsize size = { 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row)
		size = (struct winsize){ .ws_row = HEIGHT, .ws_col = WIDTH };
	fputs("\x1b[H", stdout);
	/* Not into the last column: what clears the rest of a line would take what stands there. */
	top_print(stdout, top, size.ws_col - 1U, size.ws_row, "\x1b[K");
	fputs("\x1b[J", stdout);
	fflush(stdout);
}

/* Waits for the next page; true: to leave. */
static bool keys_wait(struct feed *feed, struct top *top, uint64_t until_ms)
{
	for (uint64_t now = now_ms(); !stop && !feed->ended && now < until_ms; now = now_ms()) {
		struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
					{ .fd = feed->client.reader.fd, .events = POLLIN } };
		int n = poll(fds, ARRAY_SIZE(fds), (int)(until_ms - now));
		char key = 0;

		if (n < 0) { /* another size, or the end */
			page_show(top);
			continue;
		}
		if (fds[0].revents &&
		    (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q'))
			return true;
		if (fds[1].revents)
			feed_read(feed, top, false);
	}
	return stop;
}

/* --- the verb --------------------------------------------------------------------------------- */

static int answer_take(struct top *top, const struct top_options *o)
{
	json_t *rows = NULL, *status = NULL;
	int code = fences_ask(o->socket, &rows, &status);

	if (!code)
		top_take(top, rows, status, now_ms());
	return code;
}

static int once_run(struct top *top, struct feed *feed, const struct top_options *o)
{
	struct timespec pause = { .tv_sec = o->interval_s };
	int code = answer_take(top, o);

	if (code)
		return code;
	while (nanosleep(&pause, &pause) && errno == EINTR)
		;
	code = answer_take(top, o);
	if (!code)
		code = feed_open(feed, o);
	if (code)
		return code;
	feed_read(feed, top, true);
	top_print(stdout, top, WIDTH, 0, "");
	return fflush(stdout) ? cli_fail(EXIT_FOUND, "cannot write to stdout: %s", strerror(errno))
			      : EXIT_OK;
}

static int pages_run(struct top *top, struct feed *feed, const struct top_options *o)
{
	struct termios before;
	int code = answer_take(top, o), err;
	bool gone = false;

	if (!code)
		code = feed_open(feed, o);
	if (code)
		return code;
	signals_take();
	err = terminal_take(&before);
	if (err)
		return cli_fail(EXIT_FOUND, "the terminal: %s", strerror(-err));
	feed_read(feed, top, false);
	do {
		page_show(top);
		if (keys_wait(feed, top, now_ms() + o->interval_s * 1000ULL))
			break;
		gone = feed->ended || answer_take(top, o);
	} while (!gone);
	terminal_give(&before);
	return gone ? cli_fail(EXIT_FOUND,
			       "cordond does not answer any more; start this again when it "
			       "runs (systemctl status cordond)")
		    : EXIT_OK;
}

static int cmd_top(const void *options, int argc, char **argv)
{
	const struct top_options *o = options;
	struct feed feed = { .client.reader.fd = -1 };
	struct top top;
	int code;

	(void)argc;
	(void)argv;
	if (!o->once && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		return cli_fail(EXIT_USAGE, "needs a terminal; --once prints one page anywhere");
	if (top_open(&top))
		return cli_fail(EXIT_FOUND, "out of memory");
	code = o->once ? once_run(&top, &feed, o) : pages_run(&top, &feed, o);
	feed_close(&feed);
	top_close(&top);
	return code;
}

const struct cli_verb cli_verb_top = {
	.name = "top",
	.summary = "show fences, rates and the last denials, anew each interval",
	.arguments = "",
	.text = "Asks cordond, as `cordon list` does, and follows its events. First what cordond "
		"itself counts, then a row for each fence, those that are denied most at this time "
		"first: denials in all and per second, events per second, events lost. Below are "
		"the last denials, the latest last. A rate is over the last interval; - where it "
		"cannot be told yet.\n\n"
		"q leaves. --once waits one interval, prints one page of all fences, and ends; it "
		"needs no terminal.\n\n"
		"Whoever may not read (root, cordon-operators, cordon-readers) is refused with 5.",
	.options = top_rows,
	.options_size = sizeof(struct top_options),
	.run = cmd_top,
};
