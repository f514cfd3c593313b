// SPDX-License-Identifier: Apache-2.0
/* See top.h. No privilege, no system call. */
#include "cordon/top.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "cordon/fences.h"
#include "event/event.h"

enum { WIDTH_MOST = 512, HEAD_LINES = 3 };

int top_open(struct top *ret_top)
{
	*ret_top = (struct top){ .line = malloc(EVENT_LINE_MAX + 1) };
	return ret_top->line ? 0 : -ENOMEM;
}

void top_close(struct top *top)
{
	json_decref(top->rows);
	json_decref(top->rows_before);
	json_decref(top->status);
	json_decref(top->status_before);
	free(top->line);
	*top = (struct top){ .rows = NULL };
}

void top_take(struct top *top, json_t *rows, json_t *status, uint64_t now_ms)
{
	json_decref(top->rows_before);
	json_decref(top->status_before);
	top->rows_before = top->rows;
	top->status_before = top->status;
	top->ms_before = top->ms;
	top->rows = rows;
	top->status = status;
	top->ms = now_ms;
}

/* --- denials ---------------------------------------------------------------------------------- */

/* Is it worth parsing? Quotes inside of texts are escaped, so that no text can look like this. */
static bool may_be_denial(const char *line, size_t size)
{
	static const char deny[] = "\"verdict\":\"deny\"", would[] = "\"verdict\":\"would_deny\"";

	return memmem(line, size, deny, sizeof(deny) - 1) ||
	       memmem(line, size, would, sizeof(would) - 1);
}

static void printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
			*text = '?';
}

void top_event(struct top *top, const char *line, size_t size)
{
	char *denial = top->denial[top->n_denials % TOP_DENIALS_MAX];
	size_t n;

	if (!may_be_denial(line, size))
		return;
	n = event_format_line(top->line, EVENT_TEXT, line, size);
	while (n && top->line[n - 1] == '\n')
		n--;
	if (!n)
		return;
	n = n < TOP_DENIAL_TEXT_MAX ? n : TOP_DENIAL_TEXT_MAX;
	memcpy(denial, top->line, n);
	denial[n] = '\0';
	printable(denial);
	top->n_denials++;
}

/* --- rates ------------------------------------------------------------------------------------ */

static long long number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* Per second, in tenths; -1: cannot be told yet, or counting began anew. */
static long long rate(const struct top *top, const json_t *now, const json_t *before,
		      const char *key)
{
	long long more = number(now, key) - number(before, key);
	uint64_t ms = top->ms - top->ms_before;

	if (!before || !top->ms_before || !ms || more < 0)
		return -1;
	return (long long)((double)more * 10000 / (double)ms);
}

static const char *rate_text(long long tenths, char text[24])
{
	if (tenths < 0)
		snprintf(text, 24, "-");
	else if (tenths < 1000)
		snprintf(text, 24, "%lld.%lld", tenths / 10, tenths % 10);
	else
		snprintf(text, 24, "%lld", tenths / 10);
	return text;
}

static const json_t *row_before(const struct top *top, const json_t *row)
{
	const char *id = json_string_value(json_object_get(row, "id"));
	const json_t *before;
	size_t i;

	json_array_foreach(top->rows_before, i, before)
	{
		const char *other = json_string_value(json_object_get(before, "id"));

		if (id && other && !strcmp(id, other))
			return before;
	}
	return NULL;
}

struct shown {
	const json_t *row;
	long long denials, denials_rate, events_rate;
};

static int shown_compare(const void *a, const void *b)
{
	const struct shown *x = a, *y = b;

	if (x->denials_rate != y->denials_rate)
		return x->denials_rate < y->denials_rate ? 1 : -1;
	if (x->denials != y->denials)
		return x->denials < y->denials ? 1 : -1;
	return 0;
}

/* --- the page --------------------------------------------------------------------------------- */

struct page {
	FILE *out;
	const char *end;
	unsigned int width, left; /* lines that may follow */
	bool open;		  /* there is no end of lines */
};

static bool page_has_room(const struct page *p)
{
	return p->open || p->left;
}

static void page_line(struct page *p, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void page_line(struct page *p, const char *format, ...)
{
	char text[WIDTH_MOST + 1];
	va_list ap;

	if (!page_has_room(p))
		return;
	va_start(ap, format);
	vsnprintf(text, p->width + 1, format, ap);
	va_end(ap);
	printable(text);
	/* The last line ends without a newline: the page would be moved up. */
	p->left -= !p->open;
	fprintf(p->out, "%s%s%s", text, p->end, page_has_room(p) ? "\n" : "");
}

static void head_print(struct page *p, const struct top *top)
{
	const json_t *s = top->status, *before = top->status_before;
	char version[32], as[32], age[32], events[24], lost[24];

	page_line(
		p,
		"cordond %s, up %s, attached as %s%s%s - fences %lld, followers %lld, events %lld "
		"(%s/s), lost %lld (%s/s)",
		fences_cell(s, "version", version, sizeof(version)),
		fences_age(number(s, "uptime_s"), age, sizeof(age)),
		fences_cell(s, "attached_as", as, sizeof(as)),
		json_is_true(json_object_get(s, "degraded")) ? ", DEGRADED" : "",
		json_object_get(s, "old_set") ? ", OLD SET" : "", number(s, "fences"),
		number(s, "readers"), number(s, "events"),
		rate_text(rate(top, s, before, "events"), events), number(s, "lost"),
		rate_text(rate(top, s, before, "lost"), lost));
}

static void row_print(struct page *p, const struct shown *shown)
{
	char id[32], policy[32], task[32], tasks[24], mode[16], denied[24], events[24], age[32];
	const json_t *row = shown->row;

	page_line(p, "%-16s %-16.16s %-7s %-16.16s %5s %9lld %8s %9s %7lld %s",
		  fences_cell(row, "id", id, sizeof(id)),
		  fences_cell(row, "policy", policy, sizeof(policy)),
		  fences_cell(row, "mode", mode, sizeof(mode)),
		  fences_cell(row, "task", task, sizeof(task)),
		  fences_cell(row, "tasks", tasks, sizeof(tasks)), shown->denials,
		  rate_text(shown->denials_rate, denied), rate_text(shown->events_rate, events),
		  number(row, "lost"), fences_age(number(row, "age_s"), age, sizeof(age)));
}

static void fences_print(struct page *p, const struct top *top, size_t most)
{
	size_t n = json_array_size(top->rows);
	struct shown *v = calloc(n + 1, sizeof(*v));

	for (size_t i = 0; v && i < n; i++) {
		const json_t *row = json_array_get(top->rows, i), *before = row_before(top, row);

		v[i] = (struct shown){
			.row = row,
			.denials = number(row, "denials"),
			.denials_rate = rate(top, row, before, "denials"),
			.events_rate = rate(top, row, before, "events"),
		};
	}
	page_line(p, "%-16s %-16s %-7s %-16s %5s %9s %8s %9s %7s %s", "FENCE", "POLICY", "MODE",
		  "TASK", "TASKS", "DENIALS", "DENIED/S", "EVENTS/S", "LOST", "AGE");
	if (v)
		qsort(v, n, sizeof(*v), shown_compare);
	for (size_t i = 0; v && i < n && i < most; i++)
		row_print(p, &v[i]);
	free(v);
}

void top_print(FILE *out, const struct top *top, unsigned int width, unsigned int height,
	       const char *end)
{
	struct page p = {
		.out = out,
		.end = end,
		.width = width < WIDTH_MOST ? width : WIDTH_MOST,
		.left = height,
		.open = !height,
	};
	size_t denials = top->n_denials < TOP_DENIALS_MAX ? top->n_denials : TOP_DENIALS_MAX;
	size_t below = denials ? denials + 2 : 0;
	size_t most = SIZE_MAX;

	/* A small terminal: the fences have half of it, at least. */
	if (height && below > height / 2) {
		below = height / 2;
		denials = below > 2 ? below - 2 : 0;
	}
	if (height)
		most = height > HEAD_LINES + below ? height - HEAD_LINES - below : 0;
	head_print(&p, top);
	page_line(&p, "%s", "");
	fences_print(&p, top, most);
	if (!denials)
		return;
	page_line(&p, "%s", "");
	page_line(&p, "last denials:");
	for (uint64_t i = top->n_denials - denials; i < top->n_denials; i++)
		page_line(&p, "%s", top->denial[i % TOP_DENIALS_MAX]);
}
