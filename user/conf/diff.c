// SPDX-License-Identifier: Apache-2.0
/*
 * A unified diff of two texts of which one has some lines more; see edit.h. At a difference the old line is looked for some
 * way down in the new text; is it there, then what stands before it was added, else it was changed. So it is always right, and shortest
 * for what it is used for. Bounded by SEEK_MAX lines a difference.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "conf/edit.h"
#include "util/util.h"

enum { SEEK_MAX = 2048, CONTEXT = 3 };

struct line {
	const char *p;
	size_t n; /* with its newline, if it has one */
};

struct lines {
	struct line *v; /* owned */
	size_t n;
};

/* A line of the diff: ' ' in both, '-' and '+'. */
struct step {
	char kind;
	struct line line;
};

static int lines_split(const char *text, size_t length, struct lines *ret)
{
	size_t n = 1;

	for (size_t i = 0; i < length; i++)
		n += text[i] == '\n';
	ret->n = 0;
	ret->v = calloc(n, sizeof(*ret->v));
	while (ret->v && length) {
		const char *newline = memchr(text, '\n', length);

		n = newline ? (size_t)(newline - text) + 1 : length;
		ret->v[ret->n++] = (struct line){ text, n };
		text += n;
		length -= n;
	}
	return ret->v ? 0 : -ENOMEM;
}

static bool lines_equal(const struct line *a, const struct line *b)
{
	return a->n == b->n && !memcmp(a->p, b->p, a->n);
}

/* How many lines of `to` from k on stand before one like `line`; SIZE_MAX: none near is like it. */
static size_t seek(const struct lines *to, size_t k, const struct line *line)
{
	for (size_t i = k; i < to->n && i - k < SEEK_MAX; i++)
		if (lines_equal(&to->v[i], line))
			return i - k;
	return SIZE_MAX;
}

static size_t steps_make(const struct lines *from, const struct lines *to, struct step *steps)
{
	size_t i = 0, k = 0, n = 0, more;

	while (i < from->n) {
		more = seek(to, k, &from->v[i]);
		if (more == SIZE_MAX) {
			steps[n++] = (struct step){ '-', from->v[i++] };
			continue;
		}
		while (more--)
			steps[n++] = (struct step){ '+', to->v[k++] };
		steps[n++] = (struct step){ ' ', from->v[i++] };
		k++;
	}
	while (k < to->n)
		steps[n++] = (struct step){ '+', to->v[k++] };
	return n;
}

static void step_write(FILE *out, const struct step *step)
{
	fputc(step->kind, out);
	fwrite(step->line.p, 1, step->line.n, out);
	if (!step->line.n || step->line.p[step->line.n - 1] != '\n')
		fputs("\n\\ No newline at end of file\n", out);
}

/* The end of the hunk that begins with the change at `at`: there is nothing near any more. */
static size_t hunk_end(const struct step *steps, size_t n, size_t at)
{
	size_t last = at;

	for (size_t i = at; i < n && i - last <= 2 * CONTEXT; i++)
		if (steps[i].kind != ' ')
			last = i;
	return last + 1 + CONTEXT < n ? last + 1 + CONTEXT : n;
}

/* old_line, new_line: of the first step, from 1. */
static void hunk_write(FILE *out, const struct step *steps, size_t n, size_t old_line,
		       size_t new_line)
{
	size_t olds = 0, news = 0;

	for (size_t i = 0; i < n; i++) {
		olds += steps[i].kind != '+';
		news += steps[i].kind != '-';
	}
	fprintf(out, "@@ -%zu,%zu +%zu,%zu @@\n", olds ? old_line : old_line - 1, olds, new_line,
		news);
	for (size_t i = 0; i < n; i++)
		step_write(out, &steps[i]);
}

static void steps_write(FILE *out, const char *name, const struct step *steps, size_t n)
{
	size_t old_line = 1, new_line = 1, at = 0, begin, end;

	for (size_t i = 0; i < n; i++) {
		if (steps[i].kind == ' ')
			continue;
		if (at == 0)
			fprintf(out, "--- %s\n+++ %s\n", name, name);
		begin = i - at > CONTEXT ? i - CONTEXT : at;
		for (; at < begin; at++, old_line++, new_line++)
			;
		end = hunk_end(steps, n, i);
		hunk_write(out, steps + begin, end - begin, old_line, new_line);
		for (; at < end; at++) {
			old_line += steps[at].kind != '+';
			new_line += steps[at].kind != '-';
		}
		i = end - 1;
	}
}

int conf_edit_diff(FILE *out, const char *name, const char *from, size_t from_length,
		   const char *to, size_t to_length)
{
	struct lines a = { .n = 0 }, b = { .n = 0 };
	struct step *steps = NULL;
	int r = lines_split(from, from_length, &a);

	if (r == 0)
		r = lines_split(to, to_length, &b);
	if (r == 0)
		steps = calloc(a.n + b.n + 1, sizeof(*steps));
	if (steps)
		steps_write(out, name, steps, steps_make(&a, &b, steps));
	else
		r = -ENOMEM;
	free(steps);
	free(a.v);
	free(b.v);
	return r;
}
