// SPDX-License-Identifier: Apache-2.0
/*
 * Recorded events: a line of JSON is parsed, checked, filtered and shown. Whoever wrote the line
 * may be hostile: it is bounded before it gets here, parsed by a library, and nothing of it reaches
 * a terminal that could act there. No privilege; a line that is no event is refused with the
 * reason. Text is always made from the JSON, also for live events: there is one rendering, and what
 * was recorded looks like what was seen.
 */
#include "event/event.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "event/buffer.h"
#include "event/ocsf.h"
#include "event/time.h"

#define NS_PER_S 1000000000ULL

/* --- parsing ------------------------------------------------------------------------------- */

static const char *get_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static uint64_t get_uint(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

/* A message of the JSON library can quote the line: only what is harmless of it is passed on. */
static int syntax_fault(const json_error_t *fault, struct error *error)
{
	char text[JSON_ERROR_TEXT_LENGTH];
	size_t i;

	for (i = 0; i < sizeof(text) - 1 && fault->text[i]; i++)
		text[i] = fault->text[i] >= ' ' && fault->text[i] < 0x7f ? fault->text[i] : '?';
	text[i] = '\0';
	return error_set(error, EINVAL, "not JSON: %s, column %d", text, fault->column);
}

/* What every reader relies on; the rest of a record may be absent. */
static int record_check(const json_t *root, struct error *error)
{
	static const char *const words[] = { "type", "op", "verdict", "rule" };
	const char *schema = get_text(root, "schema");
	const char *time = get_text(root, "time");
	uint64_t ns;

	if (!schema)
		return error_set(error, EINVAL, "not an event: no schema");
	if (strcmp(schema, EVENT_SCHEMA) != 0)
		return error_set(error, EINVAL, "not of schema " EVENT_SCHEMA);
	if (!time || event_parse_time(time, &ns) < 0)
		return error_set(error, EINVAL, "time is missing or not RFC 3339");
	if (!json_is_integer(json_object_get(root, "seq")))
		return error_set(error, EINVAL, "seq is missing or not a number");
	if (!json_is_object(json_object_get(root, "fence")))
		return error_set(error, EINVAL, "fence is missing or not an object");
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!get_text(root, words[i]))
			return error_set(error, EINVAL, "%s is missing or not text", words[i]);
	return 0;
}

int event_record_parse(const char *line, size_t size, struct event_record *ret_record,
		       struct error *error)
{
	json_error_t fault;
	json_t *root;
	int r;

	if (size > EVENT_LINE_MAX)
		return error_set(error, EINVAL, "longer than %d bytes", EVENT_LINE_MAX);
	root = json_loadb(line, size, JSON_REJECT_DUPLICATES, &fault);
	if (!root && json_error_code(&fault) == json_error_out_of_memory)
		return error_set(error, ENOMEM, "out of memory");
	if (!root)
		return syntax_fault(&fault, error);
	r = record_check(root, error);
	if (r < 0)
		json_decref(root);
	else
		ret_record->root = root;
	return r;
}

void event_record_clear(struct event_record *record)
{
	json_decref(record->root);
	record->root = NULL;
}

static const char *text_or_empty(const char *text)
{
	return text ? text : "";
}

void event_record_place(const struct event_record *record, struct event_place *ret_place)
{
	const json_t *fence = json_object_get(record->root, "fence");
	const char *time = get_text(record->root, "time");

	*ret_place = (struct event_place){
		.node = text_or_empty(get_text(record->root, "node")),
		.fence = text_or_empty(get_text(fence, "id")),
		.type = text_or_empty(get_text(record->root, "type")),
		.op = text_or_empty(get_text(record->root, "op")),
		.verdict = text_or_empty(get_text(record->root, "verdict")),
		.tenant = text_or_empty(get_text(fence, "tenant")),
		.subject = text_or_empty(get_text(fence, "subject")),
		.count = get_uint(record->root, "count"),
		.destructive = json_is_true(
			json_object_get(json_object_get(record->root, "gateway"), "destructive")),
		.mono_ns = get_uint(record->root, "mono_ns"),
		.seq = get_uint(record->root, "seq"),
	};
	if (time)
		event_parse_time(time, &ret_place->time_ns);
}

/* --- filtering ----------------------------------------------------------------------------- */

int event_words_split(const char *list, struct event_words *ret_words)
{
	char *rest = ret_words->text, *word;

	ret_words->n = 0;
	if (strlen(list) >= sizeof(ret_words->text))
		return -E2BIG;
	strcpy(ret_words->text, list);
	while ((word = strsep(&rest, ","))) {
		if (!*word)
			return -EINVAL;
		if (ret_words->n == EVENT_FILTER_WORDS)
			return -E2BIG;
		ret_words->v[ret_words->n++] = word;
	}
	return 0;
}

static bool words_have(const struct event_words *words, const char *value)
{
	for (size_t i = 0; value && i < words->n; i++)
		if (strcmp(words->v[i], value) == 0)
			return true;
	return !words->n;
}

static bool words_have_rule(const struct event_words *words, const char *rule)
{
	for (size_t i = 0; i < words->n; i++) {
		size_t n = strlen(words->v[i]);

		if (strncmp(words->v[i], rule, n) == 0 && (rule[n] == '\0' || rule[n] == '.'))
			return true;
	}
	return !words->n;
}

static bool ids_equal(const char *typed, const char *id)
{
	uint64_t a, b;

	return id && event_parse_fence_id(typed, &a) == 0 && event_parse_fence_id(id, &b) == 0 &&
	       a == b;
}

static bool words_have_fence(const struct event_words *words, const json_t *fence)
{
	const char *name = get_text(fence, "name"), *id = get_text(fence, "id");

	for (size_t i = 0; i < words->n; i++)
		if (ids_equal(words->v[i], id) || (name && strcmp(words->v[i], name) == 0))
			return true;
	return !words->n;
}

bool event_record_matches(const struct event_record *record, const struct event_filter *filter)
{
	const json_t *fence = json_object_get(record->root, "fence");
	uint64_t time_ns = 0;

	if (filter->since_ns && (event_parse_time(get_text(record->root, "time"), &time_ns) < 0 ||
				 time_ns < filter->since_ns))
		return false;
	return words_have(&filter->types, get_text(record->root, "type")) &&
	       words_have(&filter->verdicts, get_text(record->root, "verdict")) &&
	       words_have_rule(&filter->rules, get_text(record->root, "rule")) &&
	       words_have(&filter->tasks, get_text(fence, "task")) &&
	       words_have_fence(&filter->fences, fence);
}

/* --- text ---------------------------------------------------------------------------------- */

#define OBJECT_WIDTH 40

struct text {
	struct event_buffer b;
	const json_t *root;
	bool color;
	bool whole_time; /* as it was recorded, not that of the day */
};

static void put(struct text *t, const char *text)
{
	if (text)
		event_escape_text(&t->b, text, strlen(text));
}

static void color_put(struct text *t, const char *code)
{
	if (t->color)
		event_buffer_printf(&t->b, "\033[%sm", code);
}

/* Columns that were written since start: characters, not bytes. */
static size_t columns_since(const struct text *t, size_t start)
{
	size_t columns = 0;

	for (size_t i = start; i < t->b.n; i++)
		columns += ((unsigned char)t->b.p[i] & 0xc0) != 0x80;
	return columns;
}

/* Fills up to width since start, and two blanks. */
static void pad(struct text *t, size_t start, size_t width)
{
	for (size_t columns = columns_since(t, start); columns < width; columns++)
		event_buffer_putc(&t->b, ' ');
	event_buffer_puts(&t->b, "  ");
}

static void column_put(struct text *t, const char *text, size_t width)
{
	size_t start = t->b.n;

	put(t, text);
	pad(t, start, width);
}

static void time_put(struct text *t)
{
	uint64_t ns = 0;
	struct tm tm;
	time_t s;

	event_parse_time(get_text(t->root, "time"), &ns);
	if (t->whole_time) {
		event_time_put(&t->b, ns);
		event_buffer_puts(&t->b, "  ");
		return;
	}
	s = (time_t)(ns / NS_PER_S);
	localtime_r(&s, &tm);
	color_put(t, "2");
	event_buffer_printf(&t->b, "%02d:%02d:%02d.%06u  ", tm.tm_hour, tm.tm_min, tm.tm_sec,
			    (unsigned int)(ns % NS_PER_S / 1000));
	color_put(t, "0");
}

/* What stands where the verdict stands, and its colour. */
static const struct verdict_look {
	const char *verdict, *word, *color;
} verdict_looks[] = {
	{ "deny", "DENY", "1;31" }, { "would_deny", "WOULD_DENY", "1;33" },
	{ "allow", "ALLOW", "32" }, { "loss", "LOST", "1;35" }, /* by type */
	{ "none", "-", "36" },					/* by rule */
};

static const struct verdict_look *verdict_look(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(verdict_looks); i++)
		if (strcmp(verdict_looks[i].verdict, word) == 0)
			return &verdict_looks[i];
	return NULL;
}

static void verdict_put(struct text *t)
{
	const char *verdict = get_text(t->root, "verdict");
	const struct verdict_look *look;

	if (strcmp(get_text(t->root, "type"), "loss") == 0)
		look = verdict_look("loss");
	else if (strcmp(get_text(t->root, "rule"), "none") == 0)
		look = verdict_look("none");
	else
		look = verdict_look(verdict);
	color_put(t, look ? look->color : "0");
	column_put(t, look ? look->word : verdict, 10);
	color_put(t, "0");
}

static void path_put(struct text *t, const json_t *file, const char *key)
{
	const char *path = get_text(file, key);

	if (path && path[0] != '/')
		event_buffer_puts(&t->b, ".../");
	put(t, path ? path : "?");
}

static void file_put(struct text *t, const json_t *file)
{
	path_put(t, file, "path");
	if (!get_text(file, "path2"))
		return;
	event_buffer_puts(&t->b, " -> ");
	path_put(t, file, "path2");
}

static void address_put(struct text *t, const json_t *net)
{
	const char *dst = get_text(net, "dst");
	bool v6 = strchr(dst, ':');

	event_buffer_puts(&t->b, v6 ? " [" : " ");
	put(t, dst);
	event_buffer_puts(&t->b, v6 ? "]" : "");
	if (json_object_get(net, "dport"))
		event_buffer_printf(&t->b, ":%llu", (unsigned long long)get_uint(net, "dport"));
	if (json_is_true(json_object_get(net, "mapped")))
		event_buffer_puts(&t->b, " (mapped)");
}

static void net_put(struct text *t, const json_t *net)
{
	const char *proto = get_text(net, "proto");

	put(t, proto ? proto : get_text(net, "family"));
	if (get_text(net, "socket_type")) {
		event_buffer_putc(&t->b, ' ');
		put(t, get_text(net, "socket_type"));
	}
	if (get_text(net, "dst"))
		address_put(t, net);
	if (get_text(net, "unix")) {
		event_buffer_putc(&t->b, ' ');
		put(t, get_text(net, "unix"));
	}
}

static void guard_put(struct text *t, const json_t *guard)
{
	const char *what = get_text(guard, "signal");

	what = what ? what : get_text(guard, "access");
	what = what ? what : get_text(guard, "capability");
	put(t, what);
	if (json_object_get(guard, "target_pid"))
		event_buffer_printf(&t->b, "%spid %llu", what ? " " : "",
				    (unsigned long long)get_uint(guard, "target_pid"));
}

static void gateway_put(struct text *t, const json_t *gateway)
{
	static const char *const words[] = { "tool", "action", "object" };
	const json_t *amount = json_object_get(gateway, "amount");
	const json_t *status = json_object_get(gateway, "status");
	const char *blank = "";

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (get_text(gateway, words[i])) {
			event_buffer_puts(&t->b, blank);
			put(t, get_text(gateway, words[i]));
			blank = " ";
		}
	if (json_is_integer(amount))
		event_buffer_printf(&t->b, " %lld", (long long)json_integer_value(amount));
	event_buffer_puts(&t->b, " ->");
	if (json_is_integer(status))
		event_buffer_printf(&t->b, " %lld", (long long)json_integer_value(status));
	event_buffer_putc(&t->b, ' ');
	put(t, get_text(gateway, "reason"));
	if (get_text(gateway, "by")) {
		event_buffer_puts(&t->b, " by ");
		put(t, get_text(gateway, "by"));
	}
}

static void lifecycle_put(struct text *t)
{
	const json_t *start = json_object_get(t->root, "cold_start_ns");
	const char *detail = get_text(t->root, "detail");

	if (detail) { /* says the number, too */
		put(t, detail);
		if (get_text(t->root, "sink")) {
			event_buffer_puts(&t->b, " into ");
			put(t, get_text(t->root, "sink"));
		}
		if (get_text(t->root, "first")) {
			event_buffer_puts(&t->b, ", ");
			put(t, get_text(t->root, "first"));
			event_buffer_puts(&t->b, " to ");
			put(t, get_text(t->root, "last"));
		}
		return;
	}
	if (json_object_get(t->root, "exit_code"))
		event_buffer_printf(&t->b, "code %llu ",
				    (unsigned long long)get_uint(t->root, "exit_code"));
	if (start)
		event_buffer_printf(&t->b, "%.1f ms ", (double)json_integer_value(start) / 1e6);
}

static void object_put(struct text *t)
{
	const json_t *file = json_object_get(t->root, "file");
	const json_t *net = json_object_get(t->root, "net");
	const json_t *guard = json_object_get(t->root, "guard");
	const json_t *gateway = json_object_get(t->root, "gateway");
	size_t start = t->b.n;

	if (file)
		file_put(t, file);
	else if (net)
		net_put(t, net);
	else if (guard)
		guard_put(t, guard);
	else if (json_is_object(gateway))
		gateway_put(t, gateway);
	else
		lifecycle_put(t);
	pad(t, start, OBJECT_WIDTH);
}

static void process_put(struct text *t)
{
	const json_t *process = json_object_get(t->root, "process");
	size_t start;

	column_put(t, get_text(t->root, "errno") ? get_text(t->root, "errno") : "", 6);
	start = t->b.n;
	if (process) {
		put(t, get_text(process, "comm"));
		event_buffer_printf(&t->b, "[%llu]", (unsigned long long)get_uint(process, "pid"));
	}
	pad(t, start, 16);
}

static void fence_put(struct text *t)
{
	const json_t *fence = json_object_get(t->root, "fence");
	const char *name = get_text(fence, "name"), *task = get_text(fence, "task");
	uint64_t count = get_uint(t->root, "count");

	put(t, name ? name : get_text(fence, "id"));
	if (task) {
		event_buffer_putc(&t->b, '/');
		put(t, task);
	}
	color_put(t, "2");
	event_buffer_printf(&t->b, " #%llu", (unsigned long long)get_uint(t->root, "seq"));
	color_put(t, "0");
	if (count > 1 && strcmp(get_text(t->root, "type"), "loss") != 0)
		event_buffer_printf(&t->b, " x%llu", (unsigned long long)count);
	if (get_text(fence, "degraded"))
		event_buffer_puts(&t->b, " degraded");
}

static int line_write(FILE *out, const char *line, size_t size)
{
	errno = 0;
	if (fwrite(line, 1, size, out) == size)
		return 0;
	return errno ? -errno : -EIO;
}

#define CUT " ...\033[0m\n"

/* One line into out[EVENT_LINE_MAX]; returns its length. */
static size_t text_format(char *out, bool color, bool whole_time, const json_t *root)
{
	struct text t = { .b = { .p = out, .size = EVENT_LINE_MAX - sizeof(CUT) },
			  .root = root,
			  .color = color,
			  .whole_time = whole_time };

	time_put(&t);
	verdict_put(&t);
	column_put(&t, get_text(root, "type"), 7);
	column_put(&t, get_text(root, "op"), 11);
	column_put(&t, get_text(root, "rule"), 16);
	object_put(&t);
	process_put(&t);
	fence_put(&t);
	t.b.size = EVENT_LINE_MAX;
	if (t.b.overflow)
		event_buffer_puts(&t.b, color ? CUT : " ...\n");
	else
		event_buffer_putc(&t.b, '\n');
	return t.b.n;
}

static int text_write(FILE *out, bool color, const json_t *root)
{
	char line[EVENT_LINE_MAX];

	return line_write(out, line, text_format(line, color, false, root));
}

/* --- JSON ---------------------------------------------------------------------------------- */

/*
 * Writes the values anew, in ASCII. The library leaves DEL as it is; it can only stand inside
 * strings.
 */
static int json_write_safe(FILE *out, const json_t *root)
{
	_cleanup_free_ char *text = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII);
	_cleanup_free_ char *line = NULL;
	size_t n = 0;

	if (!text)
		return -ENOMEM;
	line = malloc(6 * strlen(text) + 1);
	if (!line)
		return -ENOMEM;
	for (const char *c = text; *c; c++) {
		if (*c == 0x7f)
			n += (size_t)sprintf(line + n, "\\u007f");
		else
			line[n++] = *c;
	}
	line[n++] = '\n';
	return line_write(out, line, n);
}

static int json_write(FILE *out, const json_t *root, const char *line, size_t size)
{
	int r;

	while (size && (line[size - 1] == '\n' || line[size - 1] == '\r'))
		size--;
	if (event_text_is_unsafe(line, size))
		return json_write_safe(out, root);
	r = line_write(out, line, size);
	return r < 0 ? r : line_write(out, "\n", 1);
}

static int ocsf_write(FILE *out, const json_t *root)
{
	char text[EVENT_LINE_MAX];
	size_t n = event_ocsf_format(text, root);

	return n ? line_write(out, text, n) : -ENOMEM;
}

int event_record_write(FILE *out, enum event_format format, bool color,
		       const struct event_record *record, const char *line, size_t size)
{
	if (format == EVENT_TEXT)
		return text_write(out, color, record->root);
	if (format == EVENT_OCSF)
		return ocsf_write(out, record->root);
	return json_write(out, record->root, line, size);
}

bool event_line_is_chain(const char *line, size_t size)
{
	static const char begin[] = "{\"schema\":\"cordon.chain/1\",";

	return size >= sizeof(begin) && memcmp(line, begin, sizeof(begin) - 1) == 0;
}

bool event_line_is_sound(const char *line, size_t size)
{
	return size && line[size - 1] == '\n' && size <= EVENT_LINE_MAX &&
	       !event_text_is_unsafe(line, size - 1);
}

size_t event_format_line(char ret_line[EVENT_LINE_MAX], enum event_format format, const char *line,
			 size_t size)
{
	struct event_record record = { NULL };
	size_t n = 0;

	if (event_record_parse(line, size, &record, NULL) != 0)
		return 0;
	if (format == EVENT_TEXT)
		n = text_format(ret_line, false, true, record.root);
	if (format == EVENT_OCSF)
		n = event_ocsf_format(ret_line, record.root);
	event_record_clear(&record);
	return n;
}
