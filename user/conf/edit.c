// SPDX-License-Identifier: Apache-2.0
/*
 * See edit.h. Where to add is told by the marks of the tree: behind the last item of a list, or the last entry of a mapping,
 * in the form that it has, with brackets or without. Nothing is taken away; in brackets a line may be broken in two.
 */
#include "conf/edit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "conf/node.h"
#include "util/util.h"

/* --- places in the text ------------------------------------------------------------------------ */

/* A text that is put in at an offset of the old one; owned. */
struct edit {
	size_t at;
	char *text;
};

struct editor {
	const char *text;
	size_t length;
	const struct conf_node *root;
	struct edit *edits; /* room for two a path */
	size_t n;
};

static size_t line_start(const struct editor *e, unsigned int line)
{
	const char *p = e->text, *end = p + e->length, *next;

	for (; line > 1; line--) {
		next = memchr(p, '\n', (size_t)(end - p));
		if (!next)
			return e->length;
		p = next + 1;
	}
	return (size_t)(p - e->text);
}

/* Columns count characters. */
static size_t offset_of(const struct editor *e, struct conf_mark mark)
{
	size_t at = line_start(e, mark.line), size;
	uint32_t character;

	if (at == 0 && e->length >= 3 && !memcmp(e->text, "\xef\xbb\xbf", 3))
		at = 3;
	for (unsigned int column = 1; column < mark.column && at < e->length; column++) {
		size = conf_utf8_next(e->text + at, e->length - at, &character);
		at += size ? size : 1;
	}
	return at;
}

static bool is_bracketed(const struct editor *e, const struct conf_node *node)
{
	size_t at = offset_of(e, node->mark);

	return at < e->length && (e->text[at] == '[' || e->text[at] == '{');
}

/* Where what is in the node ends. The marks of a tree are bounded in depth. */
static struct conf_mark end_of(const struct editor *e, const struct conf_node *node)
{
	struct conf_mark end = node->mark;

	if (node->kind == CONF_NODE_SCALAR || is_bracketed(e, node))
		return node->end;
	for (size_t i = 0; i < node->n; i++) {
		struct conf_mark child = end_of(e, node->child[i]);

		if (child.line > end.line || (child.line == end.line && child.column > end.column))
			end = child;
	}
	return end;
}

/* The beginning of the line after the node. */
static size_t after(const struct editor *e, const struct conf_node *node)
{
	struct conf_mark end = end_of(e, node);

	return line_start(e, end.column == 1 ? end.line : end.line + 1);
}

static int put(struct editor *e, size_t at, char *text)
{
	if (!text)
		return -ENOMEM;
	e->edits[e->n++] = (struct edit){ at, text };
	return 0;
}

/* What was put there before, if it is more than a comma; it ends in a line of its own. */
static char *put_before(const struct editor *e, size_t at)
{
	for (size_t i = e->n; i > 0; i--)
		if (e->edits[i - 1].at == at && strcmp(e->edits[i - 1].text, ",") != 0)
			return e->edits[i - 1].text;
	return NULL;
}

/* --- what is put there ------------------------------------------------------------------------- */

static bool same_path(const struct conf_addition *a, const struct conf_addition *b)
{
	size_t i;

	for (i = 0; a->path[i] && b->path[i]; i++)
		if (strcmp(a->path[i], b->path[i]) != 0)
			return false;
	return !a->path[i] && !b->path[i];
}

static void comment_write(FILE *out, const char *comment, int indent)
{
	while (comment && *comment) {
		size_t n = strcspn(comment, "\n");

		fprintf(out, "%*s# %.*s\n", indent, "", (int)n, comment);
		comment += n + (comment[n] == '\n');
	}
}

/* The items of v[0]'s path, each with its comment above. */
static void items_write(FILE *out, const struct conf_addition *v, size_t n, int indent,
			bool bracketed)
{
	for (size_t i = 0; i < n; i++) {
		if (!same_path(&v[i], &v[0]))
			continue;
		comment_write(out, v[i].comment, indent);
		fprintf(out, "%*s%s%s%s\n", indent, "", bracketed ? "" : "- ", v[i].item,
			bracketed ? "," : "");
	}
}

/* Does a comma stand between the last entry and the bracket at end? Comments do not count. */
static bool has_comma(const struct editor *e, size_t at, size_t end)
{
	bool comment = false;

	for (; at < end; at++) {
		if (e->text[at] == '\n')
			comment = false;
		else if (e->text[at] == '#')
			comment = true;
		else if (e->text[at] == ',' && !comment)
			return true;
	}
	return false;
}

/* Blanks in front of the first character of the line in which the mark is. */
static int indent_of(const struct editor *e, struct conf_mark mark)
{
	size_t at = line_start(e, mark.line), n = 0;

	while (at + n < e->length && e->text[at + n] == ' ')
		n++;
	return (int)n;
}

static void cut_blanks(char *text)
{
	size_t n = strlen(text);

	while (n && text[n - 1] == ' ')
		text[--n] = '\0';
}

/* Into brackets: a comma behind what is there, then the lines, before the bracket. keys: of `[`, in front of the items. */
static int bracket_add(struct editor *e, const struct conf_node *node, const char *const *missing,
		       const struct conf_addition *v, size_t n)
{
	size_t close = offset_of(e, node->end) - 1, line, size, last = close;
	int indent = indent_of(e, node->end), deeper = indent + 2, r = 0;
	bool alone;
	char *text = NULL, *before = put_before(e, close);
	FILE *out;

	if (close >= e->length || !strchr("]}", e->text[close]))
		return -EINVAL;
	if (node->n)
		last = offset_of(e, end_of(e, node->child[node->n - 1]));
	if (node->n && !has_comma(e, last, close))
		r = put(e, last, strdup(","));
	line = line_start(e, node->end.line);
	alone = line + strspn(e->text + line, " ") == close;
	out = r < 0 ? NULL : open_memstream(&text, &size);
	if (!out)
		return -ENOMEM;
	if (before) /* what stands in front of the bracket now comes behind ours */
		cut_blanks(before);
	else if (!alone)
		fputc('\n', out);
	for (size_t i = 0; missing[i]; i++)
		fprintf(out, "%*s%s: %s\n", deeper + 2 * (int)i, "", missing[i],
			missing[i + 1] ? "{" : "[");
	for (size_t i = 0; missing[i]; i++)
		deeper += 2;
	items_write(out, v, n, deeper, true);
	for (size_t i = 0; missing[i]; i++) {
		deeper -= 2;
		fprintf(out, "%*s%s\n", deeper, "", i ? "}," : "],");
	}
	if (!alone)
		fprintf(out, "%*s", indent, "");
	if (fclose(out)) {
		free(text);
		return -ENOMEM;
	}
	return put(e, alone ? line : close, text);
}

/* As lines of their own: behind the last one of the node. */
static int lines_add(struct editor *e, const struct conf_node *node, const char *const *missing,
		     const struct conf_addition *v, size_t n)
{
	size_t at = after(e, node), size;
	int indent = indent_of(e, node->n ? node->child[0]->mark : node->mark);
	char *text = NULL;
	FILE *out;

	/* Entries of a mapping that is an item begin behind its dash; nothing of ours is put there. */
	if (!node->n || (missing[0] && node->child[0]->mark.column != (unsigned int)indent + 1))
		return -EINVAL;
	if (!missing[0] &&
	    e->text[line_start(e, node->child[0]->mark.line) + (size_t)indent] != '-')
		return -EINVAL;
	out = open_memstream(&text, &size);
	if (!out)
		return -ENOMEM;
	if (at && e->text[at - 1] != '\n' && !put_before(e, at))
		fputc('\n', out);
	for (; missing[0]; missing++, indent += 2)
		fprintf(out, "%*s%s:\n", indent, "", missing[0]);
	items_write(out, v, n, indent, false);
	if (fclose(out)) {
		free(text);
		return -ENOMEM;
	}
	return put(e, at, text);
}

/* --- the whole --------------------------------------------------------------------------------- */

static const struct conf_node *entry_find(const struct conf_node *node, const char *key)
{
	for (size_t i = 0; node->kind == CONF_NODE_MAPPING && i + 1 < node->n; i += 2)
		if (node->child[i]->kind == CONF_NODE_SCALAR && !strcmp(node->child[i]->text, key))
			return node->child[i + 1];
	return NULL;
}

static int path_add(struct editor *e, const struct conf_addition *v, size_t n)
{
	const struct conf_node *node = e->root, *below;
	const char *const *key = v->path;

	while (*key && (below = entry_find(node, *key))) {
		node = below;
		key++;
	}
	if (node->kind != (*key ? CONF_NODE_MAPPING : CONF_NODE_LIST))
		return -EINVAL;
	return is_bracketed(e, node) ? bracket_add(e, node, key, v, n)
				     : lines_add(e, node, key, v, n);
}

static int paths_add(struct editor *e, const struct conf_addition *v, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		bool done = false;

		for (size_t k = 0; k < i; k++)
			done |= same_path(&v[k], &v[i]);
		if (!done)
			r = path_add(e, &v[i], n - i);
	}
	return r;
}

/* Edits in the order of their places; those of one place in the order in which they came, a comma once. */
static int edits_write(const struct editor *e, char **ret_text, size_t *ret_length)
{
	size_t from = 0, commas = SIZE_MAX;
	FILE *out = open_memstream(ret_text, ret_length);

	if (!out)
		return -ENOMEM;
	for (size_t at = 0; at <= e->length; at++) {
		for (size_t i = 0; i < e->n; i++) {
			bool comma = e->edits[i].at == at && !strcmp(e->edits[i].text, ",");

			if (e->edits[i].at != at || (comma && commas == at))
				continue;
			commas = comma ? at : commas;
			fwrite(e->text + from, 1, at - from, out);
			fputs(e->edits[i].text, out);
			from = at;
		}
	}
	fwrite(e->text + from, 1, e->length - from, out);
	if (fclose(out)) {
		free(TAKE_PTR(*ret_text));
		return -ENOMEM;
	}
	return 0;
}

int conf_edit_add(const char *text, size_t length, const struct conf_addition *additions, size_t n,
		  char **ret_text, size_t *ret_length)
{
	struct editor e = { .text = text, .length = length };
	struct conf_faults faults = { .n = 0 };
	struct conf_node *root = NULL;
	bool complete;
	int r = conf_node_read(text, length, &faults, &root, &complete);

	*ret_text = NULL;
	if (r == 0 && (!root || !complete || conf_fault_count(&faults)))
		r = -EINVAL;
	conf_faults_clear(&faults);
	e.root = root;
	e.edits = calloc(2 * n + 1, sizeof(*e.edits));
	if (r == 0 && !e.edits)
		r = -ENOMEM;
	if (r == 0)
		r = paths_add(&e, additions, n);
	if (r == 0)
		r = edits_write(&e, ret_text, ret_length);
	for (size_t i = 0; i < e.n; i++)
		free(e.edits[i].text);
	free(e.edits);
	conf_node_free(root);
	return r;
}
