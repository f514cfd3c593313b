// SPDX-License-Identifier: Apache-2.0
/* See suggest.h: what was denied, told apart and counted. No privilege; bounded, whatever the records say. */
#include "cordon/suggest.h"

#include <jansson.h>
#include <stdarg.h>
#include <string.h>

/* FNV-1a: who picks names of tasks that collide is counted as fewer tasks. */
static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash;
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

void suggest_say(struct suggest *suggest, char **text, const char *format, ...)
{
	va_list args;

	if (*text)
		return;
	va_start(args, format);
	if (vasprintf(text, format, args) < 0) {
		*text = NULL;
		suggest->failed = true;
	}
	va_end(args);
}

const char *suggest_show(const char *text, char ret_text[SUGGEST_SHOWN_SIZE])
{
	size_t n = 0;

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (n + 8 > SUGGEST_SHOWN_SIZE) {
			n += (size_t)sprintf(ret_text + n, "...");
			break;
		}
		n += (size_t)sprintf(ret_text + n, c < ' ' || c > '~' ? "\\x%02x" : "%c", c);
	}
	ret_text[n] = '\0';
	return ret_text;
}

/* --- counting ---------------------------------------------------------------------------------- */

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t count_of(const struct event_record *record)
{
	json_int_t n = json_integer_value(json_object_get(record->root, "count"));

	return n > 0 ? (uint64_t)n : 1;
}

static void task_note(struct suggest_denied *denied, const struct event_record *record)
{
	const json_t *fence = json_object_get(record->root, "fence");
	const char *task = text_of(fence, "task");
	uint64_t hash = hash_of(*task ? task : text_of(fence, "id"));

	for (size_t i = 0; i < denied->n_tasks; i++)
		if (denied->tasks[i] == hash)
			return;
	if (denied->n_tasks < SUGGEST_TASKS_MAX)
		denied->tasks[denied->n_tasks++] = hash;
}

static struct suggest_denied *denied_new(struct suggest *suggest, enum suggest_key key,
					 const char *rule, const char *value)
{
	struct suggest_denied *denied;

	if (!suggest->v)
		suggest->v = calloc(SUGGEST_DENIED_MAX, sizeof(*suggest->v));
	if (!suggest->v)
		suggest->failed = true;
	if (!suggest->v || suggest->n == SUGGEST_DENIED_MAX)
		return NULL;
	denied = &suggest->v[suggest->n++];
	denied->key = key;
	suggest_say(suggest, &denied->rule, "%s", rule);
	suggest_say(suggest, &denied->value, "%s", value);
	return denied;
}

struct suggest_denied *suggest_note(struct suggest *suggest, const struct event_record *record,
				    enum suggest_key key, const char *value)
{
	char shown[SUGGEST_SHOWN_SIZE];
	const char *rule = suggest_show(text_of(record->root, "rule"), shown);
	struct suggest_denied *denied = NULL;

	for (size_t i = 0; i < suggest->n && !denied; i++)
		if (suggest->v[i].key == key && suggest->v[i].rule && suggest->v[i].value &&
		    !strcmp(suggest->v[i].rule, rule) && !strcmp(suggest->v[i].value, value))
			denied = &suggest->v[i];
	if (!denied)
		denied = denied_new(suggest, key, rule, value);
	if (!denied) {
		suggest->beyond = add(suggest->beyond, count_of(record));
		return NULL;
	}
	denied->denials = add(denied->denials, count_of(record));
	task_note(denied, record);
	return denied;
}

void suggest_take(struct suggest *suggest, const struct event_record *record)
{
	const json_t *fence = json_object_get(record->root, "fence");
	const char *verdict = text_of(record->root, "verdict");

	if (strcmp(verdict, "deny") != 0 && strcmp(verdict, "would_deny") != 0)
		return;
	if (strcmp(text_of(fence, "policy"), suggest->policy->name) != 0) {
		suggest->others = add(suggest->others, count_of(record));
		return;
	}
	suggest->denials = add(suggest->denials, count_of(record));
	suggest_judge(suggest, record);
}

const char *suggest_count(const struct suggest_denied *denied)
{
	static char text[96];

	snprintf(text, sizeof(text), "denied %s%llu time%s by %s%zu task%s",
		 denied->denials == UINT64_MAX ? "at least " : "",
		 (unsigned long long)denied->denials, denied->denials == 1 ? "" : "s",
		 denied->n_tasks == SUGGEST_TASKS_MAX ? "at least " : "", denied->n_tasks,
		 denied->n_tasks == 1 ? "" : "s");
	return text;
}

/* --- all together ------------------------------------------------------------------------------ */

static int order(const void *a, const void *b)
{
	const struct suggest_denied *x = a, *y = b;
	int by;

	if (x->key != y->key)
		return (int)x->key - (int)y->key;
	by = strcmp(x->value ? x->value : "", y->value ? y->value : "");
	return by ? by : strcmp(x->rule ? x->rule : "", y->rule ? y->rule : "");
}

/* The last two labels of a name with or without a port. */
static const char *domain_of(const char *value, size_t *ret_n)
{
	size_t n = strcspn(value, ":"), at = n, dots = 0;

	while (at > 0 && dots < 2)
		dots += value[--at] == '.';
	at += dots == 2;
	*ret_n = n - at;
	return value + at;
}

static bool same_domain(const char *a, const char *b)
{
	size_t n, m;
	const char *p = domain_of(a, &n), *q = domain_of(b, &m);

	return n == m && !memcmp(p, q, n);
}

/* Data leaves as names: too many below one domain are for a human to look at. */
static void domain_judge(struct suggest *suggest, struct suggest_denied *denied)
{
	size_t names = 0, n;
	const char *domain = domain_of(denied->value, &n);

	for (size_t i = 0; i < suggest->n; i++)
		names += suggest->v[i].key == SUGGEST_DOMAINS && suggest->v[i].value &&
			 same_domain(suggest->v[i].value, denied->value);
	if (names > SUGGEST_BELOW_MAX)
		suggest_say(suggest, &denied->why,
			    "%zu names of %.*s were tried, as one sends data out by names; what is "
			    "meant is for you to write",
			    names, (int)n, domain);
}

/* A name that was asked for at a port, too, is proposed with its ports only. */
static void unported_judge(struct suggest *suggest, struct suggest_denied *denied)
{
	size_t n = strlen(denied->value);

	if (strchr(denied->value, ':'))
		return;
	for (size_t i = 0; i < suggest->n; i++) {
		const struct suggest_denied *other = &suggest->v[i];

		if (other->key == SUGGEST_DOMAINS && !other->why && other->value &&
		    !strncmp(other->value, denied->value, n) && other->value[n] == ':')
			suggest_say(suggest, &denied->why,
				    "covered by what is proposed for its ports");
	}
}

/* What lies in a directory that is proposed needs no line of its own. */
static void inner_judge(struct suggest *suggest, struct suggest_denied *denied)
{
	for (size_t i = 0; i < suggest->n; i++) {
		const struct suggest_denied *other = &suggest->v[i];
		size_t n = other->value ? strlen(other->value) : 0;

		if (other->key == SUGGEST_WRITE && !other->why && n &&
		    !strncmp(denied->value, other->value, n) && denied->value[n] == '/')
			suggest_say(suggest, &denied->why,
				    "covered by what is proposed for its directory");
	}
}

void suggest_settle(struct suggest *suggest)
{
	if (suggest->n)
		qsort(suggest->v, suggest->n, sizeof(*suggest->v), order);
	for (size_t i = 0; i < suggest->n; i++)
		if (suggest->v[i].key == SUGGEST_DOMAINS && suggest->v[i].value)
			domain_judge(suggest, &suggest->v[i]);
	for (size_t i = 0; i < suggest->n; i++)
		if (suggest->v[i].key == SUGGEST_DOMAINS && suggest->v[i].value)
			unported_judge(suggest, &suggest->v[i]);
		else if (suggest->v[i].key == SUGGEST_WRITE && suggest->v[i].value)
			inner_judge(suggest, &suggest->v[i]);
}

void suggest_clear(struct suggest *suggest)
{
	for (size_t i = 0; i < suggest->n; i++) {
		struct suggest_denied *denied = &suggest->v[i];

		free(denied->rule);
		free(denied->value);
		free(denied->item);
		free(denied->why);
		free(denied->reach);
	}
	free(suggest->v);
	suggest->v = NULL;
	suggest->n = 0;
}
