// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon timeline`: what the kernel and the gateway decided about one task, from as many recordings as there are, in
 * order. No privilege; reads what others wrote, as `cordon events` does. Records of one boot of one node are ordered by
 * the monotonic clock, which nobody sets; nodes among each other by the wall clock. The same record in two recordings is
 * shown once. Too many records are refused rather than left out.
 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "cordon/daemon_client.h"
#include "cordon/lines.h"
#include "event/event.h"

enum {
	RECORDS_MAX = 1000000,
	NODES_MAX = 256,
	AGAIN_MS = 10000, /* for a cordond that is started again */
	AGAIN_FIRST_MS = 100,
	AGAIN_MOST_MS = 2000,
};
#define ANOTHER_BOOT_NS 3600000000000ULL /* clocks that differ by more are of another boot */

struct timeline_options {
	const char *output, *socket;
	bool no_reconnect;
};

static const struct cli_option timeline_rows[] = {
	{ 'o', "output", CLI_CHOICE, offsetof(struct timeline_options, output), "text|json",
	  "form; text on a terminal, else json, unless told", 0, 0, NULL },
	{ 0, "no-reconnect", CLI_FLAG, offsetof(struct timeline_options, no_reconnect), NULL,
	  "end, with 1, when cordond does, instead of waiting some seconds for it", 0, 0, NULL },
	DAEMON_CLIENT_OPTION(offsetof(struct timeline_options, socket)),
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

struct entry {
	uint64_t at_ns; /* what it is ordered by */
	uint64_t seq, hash;
	size_t number; /* in which it was read: what is equal otherwise keeps its order */
	char *line;
	size_t size;
};

struct node {
	char name[256];
	uint64_t offset_ns; /* wall clock minus monotonic clock, of the first record seen */
};

struct timeline {
	struct event_filter filter;
	struct entry *entries;
	size_t n, room;
	struct node nodes[NODES_MAX];
	size_t n_nodes;
	struct lines lines;
};

/* FNV-1a over the line: the same record of two files has the same bytes. */
static uint64_t hash_line(const char *line, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)line[i]) * 0x100000001b3;
	return hash;
}

static struct node *node_find(struct timeline *t, const struct event_place *place)
{
	struct node *node;

	for (size_t i = 0; i < t->n_nodes; i++)
		if (!strcmp(t->nodes[i].name, place->node))
			return &t->nodes[i];
	if (t->n_nodes == NODES_MAX || strlen(place->node) >= sizeof(node->name))
		return NULL;
	node = &t->nodes[t->n_nodes++];
	strcpy(node->name, place->node);
	node->offset_ns = place->time_ns - place->mono_ns;
	return node;
}

static uint64_t place_at(struct timeline *t, const struct event_place *place)
{
	const struct node *node = node_find(t, place);
	uint64_t at_ns, off_ns;

	if (!node || !place->mono_ns)
		return place->time_ns;
	at_ns = place->mono_ns + node->offset_ns;
	off_ns = at_ns > place->time_ns ? at_ns - place->time_ns : place->time_ns - at_ns;
	return off_ns > ANOTHER_BOOT_NS ? place->time_ns : at_ns;
}

static int entry_add(struct timeline *t, const char *line, size_t size,
		     const struct event_place *place)
{
	struct entry *e;

	if (t->n == RECORDS_MAX)
		return -E2BIG;
	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 1024;
		struct entry *more = realloc(t->entries, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		t->entries = more;
		t->room = room;
	}
	e = &t->entries[t->n];
	e->line = malloc(size);
	if (!e->line)
		return -ENOMEM;
	memcpy(e->line, line, size);
	e->size = size;
	e->at_ns = place_at(t, place);
	e->seq = place->seq;
	e->hash = hash_line(line, size);
	e->number = t->n++;
	return 0;
}

static int record_take(void *context, const struct event_record *record, const char *line,
		       size_t size)
{
	struct timeline *t = context;
	struct event_place place;

	if (!event_record_matches(record, &t->filter))
		return 0;
	event_record_place(record, &place);
	return entry_add(t, line, size, &place);
}

static int entry_compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static bool entries_equal(const struct entry *a, const struct entry *b)
{
	return a->hash == b->hash && a->size == b->size && !memcmp(a->line, b->line, a->size);
}

/* Of the same moment and number there are few. */
static bool entry_is_repeated(const struct timeline *t, size_t i)
{
	for (size_t j = i; j > 0 && t->entries[j - 1].at_ns == t->entries[i].at_ns; j--)
		if (entries_equal(&t->entries[j - 1], &t->entries[i]))
			return true;
	return false;
}

static int timeline_write(const struct timeline *t, enum event_format format)
{
	bool color = cli_wants_color(STDOUT_FILENO);
	int err = 0;

	for (size_t i = 0; !err && i < t->n; i++) {
		struct event_record record;

		if (entry_is_repeated(t, i) ||
		    event_record_parse(t->entries[i].line, t->entries[i].size, &record, NULL))
			continue;
		err = event_record_write(stdout, format, color, &record, t->entries[i].line,
					 t->entries[i].size);
		event_record_clear(&record);
	}
	return err ? err : fflush(stdout) ? -errno : 0;
}

static int sources_read(struct timeline *t, int argc, char **argv)
{
	int err = 0;

	for (int i = 0; !err && i < argc; i++) {
		bool standard = !strcmp(argv[i], "-");
		FILE *file = standard ? stdin : fopen(argv[i], "re");

		if (!file)
			return cli_fail(-EXIT_FOUND, "%s: %s", argv[i], strerror(errno));
		err = lines_read(&t->lines, standard ? "standard input" : argv[i], file);
		if (!standard)
			fclose(file);
		if (err == -E2BIG)
			return cli_fail(-EXIT_FOUND, "more than %d records of this task",
					RECORDS_MAX);
		if (err)
			return cli_fail(-EXIT_FOUND, "%s: %s", argv[i], strerror(-err));
	}
	return 0;
}

/* Where records may be missing: one of our own. */
static int gap_add(struct timeline *t, uint64_t since_ns)
{
	static char line[EVENT_LINE_MAX];
	static struct event event;
	char node[256] = "";
	const struct event_context context = { .node = node };
	struct event_place place = { .node = node };
	size_t n;

	gethostname(node, sizeof(node) - 1);
	event_make(&event, CORDON_OP_LAG, NULL, NULL, 0,
		   "cordond was started again while it told: what it kept from before, and had not "
		   "told yet, is missing");
	event.first_ns = since_ns;
	event.last_ns = event.time_ns;
	n = event_format_json(line, &context, &event);
	place.time_ns = event.time_ns;
	place.mono_ns = event.raw.mono_ns;
	return entry_add(t, line, n - 1, &place);
}

/*
 * What cordond keeps of the task, once. An exit code; -1 for what may pass: nobody listens where cordond was, or it hung up
 * before it had told all, *ret_cut. Nothing is said of that.
 */
static int daemon_read_once(struct timeline *t, const char *socket, const char *task, bool *ret_cut)
{
	struct daemon_client client;
	struct error error = { "" };
	unsigned long long number = 0;
	int err = daemon_client_open(&client, socket, &error), code;
	bool ended = false;
	ssize_t n = 0;
	char *line;

	client.quiet = true;
	*ret_cut = false;
	/* One that was stopped has taken its socket away: that does not pass. */
	if (err == -ECONNREFUSED)
		code = -1;
	else
		code = err ? daemon_client_fail(err, &error)
			   : daemon_client_events(&client, false, false, NULL, task);
	while (!code && !err && !ended &&
	       (n = control_read_line(&client.reader, EVENT_LINE_MAX, &line)) > 0) {
		ended = daemon_client_is_end(line, (size_t)n);
		if (!ended)
			err = lines_take(&t->lines, "cordond", ++number, line, (size_t)n - 1);
	}
	if (!code && (err || (n < 0 && n != -ECONNRESET)))
		code = cli_fail(EXIT_FOUND, "cordond: %s", strerror(err ? -err : (int)-n));
	*ret_cut = (!code && !ended) || (code && client.lost);
	daemon_client_close(&client);
	return *ret_cut ? -1 : code;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/* What cordond keeps of the task; one that is started again is waited for. An exit code. */
static int daemon_read(struct timeline *t, const struct timeline_options *o, const char *task)
{
	uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + AGAIN_MS * 1000000ULL, since_ns;
	bool cut, missing = false;
	int ms = AGAIN_FIRST_MS, code;

	since_ns = clock_ns(CLOCK_REALTIME);
	for (;;) {
		code = daemon_read_once(t, o->socket, task, &cut);
		missing |= cut;
		if (code != -1 || o->no_reconnect || clock_ns(CLOCK_MONOTONIC) > until_ns)
			break;
		if (ms == AGAIN_FIRST_MS)
			cli_fail(0, "cordond %s; trying to reach it again",
				 cut ? "hung up before it had told all" : "does not listen");
		poll(NULL, 0, ms);
		ms = ms * 2 < AGAIN_MOST_MS ? ms * 2 : AGAIN_MOST_MS;
	}
	if (code == -1)
		code = cli_fail(
			EXIT_FOUND, "%s: %s", o->socket ? o->socket : CORDOND_SOCKET,
			cut ? "cordond hung up before it had told all"
			    : "nobody listens; does cordond run (systemctl start cordond)?");
	if (!code && missing && gap_add(t, since_ns))
		code = cli_fail(EXIT_FOUND, "out of memory");
	return code;
}

static int cmd_timeline(const void *options, int argc, char **argv)
{
	const struct timeline_options *o = options;
	static struct timeline t; /* too large for a stack */
	enum event_format format = EVENT_JSON;
	int err;

	memset(&t, 0, sizeof(t));
	t.lines = (struct lines){ record_take, &t, 0 };
	if (o->output ? !strcmp(o->output, "text") : isatty(STDOUT_FILENO))
		format = EVENT_TEXT;
	if (strchr(argv[0], ',') || event_words_split(argv[0], &t.filter.tasks))
		return cli_fail(EXIT_USAGE, "a task id of 1 to 128 characters, without commas");
	err = argc > 1 ? -sources_read(&t, argc - 1, argv + 1) : daemon_read(&t, o, argv[0]);
	if (err)
		return err;
	if (t.n)
		qsort(t.entries, t.n, sizeof(*t.entries), entry_compare);
	err = timeline_write(&t, format);
	for (size_t i = 0; i < t.n; i++)
		free(t.entries[i].line);
	free(t.entries);
	if (err)
		return cli_fail(EXIT_FOUND, "cannot write to stdout: %s", strerror(-err));
	if (!t.n)
		return cli_fail(EXIT_FOUND, "nothing is recorded of task %s", argv[0]);
	return t.lines.malformed ? EXIT_FOUND : EXIT_OK;
}

const struct cli_verb cli_verb_timeline = {
	.name = "timeline",
	.summary = "what kernel and gateway decided about one task, in order",
	.arguments = "TASK [FILE...]",
	.text = "Reads recordings of events - of `cordon run`, `cordon attach` and the gateway, - "
		"is "
		"standard input - and prints those of the task, merged: in the order of the "
		"monotonic "
		"clock on each node, of the wall clock between nodes. A record that stands in two "
		"recordings is shown once. Without FILE: what cordond keeps; one that is started "
		"again "
		"meanwhile is waited for, and a `lag` record says that something may be missing. "
		"Lines that are no "
		"events are named on stderr and "
		"skipped; "
		"then, and when there is nothing of the task, the exit status is 1.\n\n"
		"  cordon timeline T-4711 fence.jsonl /var/log/cordon/gateway.jsonl",
	.options = timeline_rows,
	.options_size = sizeof(struct timeline_options),
	.min_args = 1,
	.max_args = -1,
	.run = cmd_timeline,
};
