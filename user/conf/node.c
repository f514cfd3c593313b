// SPDX-License-Identifier: Apache-2.0
/*
 * YAML events -> tree. libyaml's events, not its documents: they keep the position of everything
 * and expand nothing, so that an alias bomb is one fault and no memory. What a configuration has no use
 * for is refused where it stands: anchors, aliases, tags, merge keys, directives, second documents,
 * duplicate keys. Depth, entries and strings are bounded; past a bound reading stops. No privilege;
 * a failure gives no tree or an incomplete one.
 */
#define _GNU_SOURCE 1
#include "conf/node.h"

#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "conf/text.h"
#include "util/util.h"

struct reader {
	yaml_parser_t yaml;
	const char *text;
	size_t length;
	struct conf_faults *faults;
	struct conf_node *root;
	struct conf_node *open[CONF_DEPTH_MAX]; /* from the root to where events go now */
	size_t depth;
	size_t documents;
};

/* Outcomes of taking one event, besides -ENOMEM. */
enum { READ_ON = 0, READ_END = 1, READ_STOP = 2 };

static struct conf_mark mark_from_yaml(yaml_mark_t mark)
{
	return (struct conf_mark){ (unsigned int)mark.line + 1, (unsigned int)mark.column + 1 };
}

void conf_node_free(struct conf_node *node)
{
	if (!node)
		return;
	for (size_t i = 0; i < node->n; i++)
		conf_node_free(node->child[i]);
	free(node->child);
	free(node->text);
	free(node);
}

bool conf_node_is_null(const struct conf_node *node)
{
	static const char *const words[] = { "", "~", "null", "Null", "NULL" };

	if (node->kind != CONF_NODE_SCALAR || !node->plain)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!strcmp(node->text, words[i]))
			return true;
	return false;
}

const char *conf_node_describe(const struct conf_node *node)
{
	if (node->kind == CONF_NODE_MAPPING)
		return "a mapping";
	if (node->kind == CONF_NODE_LIST)
		return "a list";
	return conf_node_is_null(node) ? "nothing" : "text";
}

static int node_append(struct conf_node *parent, struct conf_node *child)
{
	if (parent->n == parent->room) {
		size_t room = parent->room ? parent->room * 2 : 8;
		struct conf_node **grown = realloc(parent->child, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		parent->child = grown;
		parent->room = room;
	}
	parent->child[parent->n++] = child;
	return 0;
}

/* Hangs a new node where the next event belongs. Takes over node in every case. */
static int reader_attach(struct reader *reader, struct conf_node *node)
{
	struct conf_node *parent = reader->depth ? reader->open[reader->depth - 1] : NULL;
	size_t entries;
	int r;

	if (!parent) {
		reader->root = node;
		return READ_ON;
	}
	entries = parent->kind == CONF_NODE_MAPPING ? parent->n / 2 : parent->n;
	if (entries == CONF_LIST_MAX) {
		r = conf_fault_add(reader->faults, node->mark, "more than %d entries",
				   CONF_LIST_MAX);
		conf_node_free(node);
		return r < 0 ? r : READ_STOP;
	}
	r = node_append(parent, node);
	if (r < 0)
		conf_node_free(node);
	return r;
}

static struct conf_node *node_new(enum conf_node_kind kind, struct conf_mark mark)
{
	struct conf_node *node = calloc(1, sizeof(*node));

	if (node) {
		node->kind = kind;
		node->mark = mark;
	}
	return node;
}

/* Anchors and tags are refused on whatever node they stand. */
static int reader_refuse_decoration(struct reader *reader, struct conf_mark at,
				    const yaml_char_t *anchor, const yaml_char_t *tag)
{
	int r = 0;

	if (anchor)
		r = conf_fault_add(reader->faults, at, "anchors are not accepted");
	if (r == 0 && tag)
		r = conf_fault_add(reader->faults, at, "tags are not accepted");
	return r;
}

static int reader_take_alias(struct reader *reader, const yaml_event_t *event)
{
	struct conf_mark at = mark_from_yaml(event->start_mark);
	struct conf_node *node;
	int r;

	r = conf_fault_add(reader->faults, at, "aliases are not accepted; write the value out");
	if (r < 0)
		return r;
	node = node_new(CONF_NODE_BAD, at);
	return node ? reader_attach(reader, node) : -ENOMEM;
}

/* What is wrong with the value of a scalar by itself; NULL: nothing. */
static const char *scalar_judge(const yaml_event_t *event)
{
	if (event->data.scalar.length > CONF_STRING_MAX)
		return "text that is longer than 4095 bytes";
	if (memchr(event->data.scalar.value, 0, event->data.scalar.length))
		return "a NUL character in text";
	return NULL;
}
_Static_assert(CONF_STRING_MAX == 4095, "said in scalar_judge()");

static int reader_take_scalar(struct reader *reader, const yaml_event_t *event)
{
	struct conf_mark at = mark_from_yaml(event->start_mark);
	const char *wrong = scalar_judge(event);
	struct conf_node *node;
	int r;

	r = reader_refuse_decoration(reader, at, event->data.scalar.anchor, event->data.scalar.tag);
	if (r == 0 && wrong)
		r = conf_fault_add(reader->faults, at, "%s", wrong);
	if (r < 0)
		return r;
	node = node_new(wrong ? CONF_NODE_BAD : CONF_NODE_SCALAR, at);
	if (!node)
		return -ENOMEM;
	node->end = mark_from_yaml(event->end_mark);
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	node->text = strndup((const char *)event->data.scalar.value, event->data.scalar.length);
	if (!node->text) {
		conf_node_free(node);
		return -ENOMEM;
	}
	return reader_attach(reader, node);
}

static int reader_open_node(struct reader *reader, enum conf_node_kind kind, struct conf_mark at,
			    const yaml_char_t *anchor, const yaml_char_t *tag)
{
	struct conf_node *node;
	int r;

	r = reader_refuse_decoration(reader, at, anchor, tag);
	if (r < 0)
		return r;
	if (reader->depth == CONF_DEPTH_MAX) {
		r = conf_fault_add(reader->faults, at, "nested deeper than %d levels",
				   CONF_DEPTH_MAX);
		return r < 0 ? r : READ_STOP;
	}
	node = node_new(kind, at);
	if (!node)
		return -ENOMEM;
	r = reader_attach(reader, node);
	if (r == READ_ON)
		reader->open[reader->depth++] = node;
	return r;
}

/* The entry before `last` whose key is the same text, or NULL. */
static const struct conf_node *mapping_find_before(const struct conf_node *mapping, size_t last)
{
	for (size_t i = 0; i < last; i += 2)
		if (mapping->child[i]->kind == CONF_NODE_SCALAR &&
		    !strcmp(mapping->child[i]->text, mapping->child[last]->text))
			return mapping->child[i];
	return NULL;
}

/* Judges one key of a mapping that is read; a faulty one becomes BAD and its value is passed over.
 */
static int reader_check_key(struct reader *reader, const struct conf_node *mapping, size_t i)
{
	struct conf_node *key = mapping->child[i];
	const struct conf_node *first;
	int r;

	if (key->kind == CONF_NODE_BAD)
		return 0;
	if (key->kind != CONF_NODE_SCALAR) {
		r = conf_fault_add(reader->faults, key->mark, "a key must be text, not %s",
				   conf_node_describe(key));
	} else if (key->plain && !strcmp(key->text, "<<")) {
		r = conf_fault_add(reader->faults, key->mark,
				   "merge keys are not accepted; write the keys out");
	} else {
		first = mapping_find_before(mapping, i);
		if (!first)
			return 0;
		r = conf_fault_add(reader->faults, key->mark,
				   "duplicate key `%s`; it is already given at line %u",
				   conf_quote(key->text).s, first->mark.line);
	}
	key->kind = CONF_NODE_BAD;
	return r;
}

static int reader_close_node(struct reader *reader, struct conf_mark end)
{
	struct conf_node *node = reader->open[--reader->depth];
	int r = 0;

	node->end = end;
	/* When reading stopped inside, the last key may be without a value. */
	if (node->kind == CONF_NODE_MAPPING && node->n % 2)
		conf_node_free(node->child[--node->n]);
	if (node->kind == CONF_NODE_MAPPING)
		for (size_t i = 0; r == 0 && i < node->n; i += 2)
			r = reader_check_key(reader, node, i);
	return r;
}

static int reader_take_document(struct reader *reader, const yaml_event_t *event)
{
	struct conf_mark at = mark_from_yaml(event->start_mark);
	int r = 0;

	if (reader->documents++) {
		r = conf_fault_add(reader->faults, at, "a second document; a file holds one");
		return r < 0 ? r : READ_END; /* the first one is complete */
	}
	if (event->data.document_start.version_directive ||
	    event->data.document_start.tag_directives.start !=
		    event->data.document_start.tag_directives.end)
		r = conf_fault_add(reader->faults, at, "directives (%%) are not accepted");
	return r;
}

static int reader_take_event(struct reader *reader, const yaml_event_t *event)
{
	struct conf_mark at = mark_from_yaml(event->start_mark);

	switch (event->type) {
	case YAML_STREAM_END_EVENT:
		return READ_END;
	case YAML_DOCUMENT_START_EVENT:
		return reader_take_document(reader, event);
	case YAML_ALIAS_EVENT:
		return reader_take_alias(reader, event);
	case YAML_SCALAR_EVENT:
		return reader_take_scalar(reader, event);
	case YAML_SEQUENCE_START_EVENT:
		return reader_open_node(reader, CONF_NODE_LIST, at,
					event->data.sequence_start.anchor,
					event->data.sequence_start.tag);
	case YAML_MAPPING_START_EVENT:
		return reader_open_node(reader, CONF_NODE_MAPPING, at,
					event->data.mapping_start.anchor,
					event->data.mapping_start.tag);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return reader_close_node(reader, mark_from_yaml(event->end_mark));
	default:
		return READ_ON;
	}
}

/*
 * Does line number `line` (from 1) hold "]:"? Then an IPv6 address with a port stands there without
 * quotes.
 */
static bool reader_line_has_bare_ipv6(const struct reader *reader, unsigned int line)
{
	const char *p = reader->text, *end = p + reader->length, *next, *found;

	for (; line > 1; line--) {
		next = memchr(p, '\n', (size_t)(end - p));
		if (!next)
			return false;
		p = next + 1;
	}
	next = memchr(p, '\n', (size_t)(end - p));
	found = memmem(p, (size_t)((next ? next : end) - p), "]:", 2);
	return found && memchr(p, '[', (size_t)(found - p));
}

static int reader_report_syntax(struct reader *reader)
{
	const yaml_parser_t *yaml = &reader->yaml;
	struct conf_mark at = mark_from_yaml(yaml->problem_mark);
	const char *hint = "";

	if (yaml->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	if (reader_line_has_bare_ipv6(reader, at.line))
		hint = "; an IPv6 address with a port needs quotes: \"[::1]:8800\"";
	if (!yaml->context)
		return conf_fault_add(reader->faults, at, "not YAML: %s%s", yaml->problem, hint);
	return conf_fault_add(reader->faults, at, "not YAML: %s %s that began at line %zu%s",
			      yaml->problem, yaml->context, yaml->context_mark.line + 1, hint);
}

/* Takes events until the end, a syntax error or a bound. Returns READ_END, READ_STOP or -ENOMEM. */
static int reader_run(struct reader *reader)
{
	yaml_event_t event;
	int r = READ_ON;

	while (r == READ_ON) {
		if (!yaml_parser_parse(&reader->yaml, &event)) {
			r = reader_report_syntax(reader);
			return r < 0 ? r : READ_STOP;
		}
		r = reader_take_event(reader, &event);
		yaml_event_delete(&event);
	}
	return r;
}

/* Closes what is still open after an early end, so that the tree is well-formed. */
static int reader_close_all(struct reader *reader)
{
	int r = 0;

	while (reader->depth) {
		int closed = reader_close_node(reader, (struct conf_mark){ 1, 1 });

		r = r < 0 ? r : closed;
	}
	return r;
}

static int reader_read(struct reader *reader, bool *ret_complete)
{
	int r, closed;

	if (!yaml_parser_initialize(&reader->yaml))
		return -ENOMEM;
	yaml_parser_set_encoding(&reader->yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&reader->yaml, (const unsigned char *)reader->text,
				     reader->length);
	r = reader_run(reader);
	yaml_parser_delete(&reader->yaml);
	closed = reader_close_all(reader);
	if (r < 0 || closed < 0)
		return -ENOMEM;
	*ret_complete = r == READ_END;
	return 0;
}

int conf_node_read(const char *text, size_t length, struct conf_faults *faults,
		   struct conf_node **ret_root, bool *ret_complete)
{
	size_t before = conf_fault_count(faults);
	size_t skip = length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0; /* byte order mark */
	struct reader reader = { .text = text + skip, .length = length - skip, .faults = faults };
	int r;

	*ret_root = NULL;
	*ret_complete = false;
	r = conf_text_check(reader.text, reader.length, faults);
	if (r < 0 || conf_fault_count(faults) != before)
		return r;
	r = reader_read(&reader, ret_complete);
	if (r < 0) {
		conf_node_free(reader.root);
		return r;
	}
	*ret_root = reader.root;
	return 0;
}
