// SPDX-License-Identifier: Apache-2.0
/*
 * Decoding records of the ring buffer, making events of user space, and the names of the tables. No
 * privilege; a record that is not well-formed is refused as a whole (-EBADMSG), and its number then
 * shows up in a gap record.
 */
#include "event/event.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#define NS_PER_S 1000000000ULL

#define CORDON_X(e, n, d) n,
static const char *const type_names[] = { CORDON_TYPES(CORDON_X) };
#undef CORDON_X
#define CORDON_X(e, n) n,
static const char *const verdict_names[] = { CORDON_VERDICTS(CORDON_X) };
#undef CORDON_X
#define CORDON_X(e, t, n, d) { n, CORDON_TYPE_##t },
static const struct {
	const char *name;
	enum cordon_type type;
} ops[] = { CORDON_OPS(CORDON_X) };
#undef CORDON_X
#define CORDON_X(e, v, n, d) n,
static const char *const rule_names[] = { CORDON_RULES(CORDON_X) };
#undef CORDON_X

/* --- names --------------------------------------------------------------------------------- */

const char *event_type_name(unsigned int type)
{
	return type < ARRAY_SIZE(type_names) ? type_names[type] : "?";
}

const char *event_op_name(unsigned int op)
{
	return op < ARRAY_SIZE(ops) ? ops[op].name : "?";
}

const char *event_verdict_name(unsigned int verdict)
{
	return verdict < ARRAY_SIZE(verdict_names) ? verdict_names[verdict] : "?";
}

const char *event_rule_name(unsigned int rule)
{
	return rule < ARRAY_SIZE(rule_names) ? rule_names[rule] : "?";
}

static int name_find(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return (int)i;
	return -1;
}

int event_type_find(const char *name)
{
	return name_find(type_names, ARRAY_SIZE(type_names), name);
}

int event_op_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		if (strcmp(ops[i].name, name) == 0)
			return (int)i;
	return -1;
}

int event_verdict_find(const char *name)
{
	return name_find(verdict_names, ARRAY_SIZE(verdict_names), name);
}

const char *event_format_fence_id(uint64_t id, char ret_text[EVENT_FENCE_ID_SIZE])
{
	snprintf(ret_text, EVENT_FENCE_ID_SIZE, "%016llx", (unsigned long long)id);
	return ret_text;
}

int event_parse_fence_id(const char *text, uint64_t *ret_id)
{
	size_t n = strlen(text);

	if (!n || n >= EVENT_FENCE_ID_SIZE)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (!isxdigit((unsigned char)text[i]))
			return -EINVAL;
	*ret_id = strtoull(text, NULL, 16);
	return 0;
}

/* --- decoding ------------------------------------------------------------------------------ */

/* Numbers stay within what JSON readers take for an integer. */
static bool raw_is_sound(const struct cordon_event *raw)
{
	return raw->type < CORDON_TYPE_COUNT && raw->op < CORDON_OP_COUNT &&
	       raw->verdict < CORDON_VERDICT_COUNT && raw->rule < CORDON_RULE_COUNT &&
	       raw->mode <= CORDON_MODE_AUDIT && raw->seq <= INT64_MAX && raw->mono_ns <= INT64_MAX;
}

/*
 * Puts the components names[n] ("f\0dir\0", the last first) together as dir/f, into out, which has
 * room for n bytes. Empty components are skipped. Returns the length without a leading slash.
 */
static size_t components_join(const char *names, size_t n, char *out)
{
	size_t length = 0, end = n;

	while (end) {
		size_t stop = end - 1, start = stop; /* names[stop] is the NUL of this component */

		while (start && names[start - 1])
			start--;
		if (stop > start) {
			if (length)
				out[length++] = '/';
			memcpy(out + length, names + start, stop - start);
			length += stop - start;
		}
		end = start;
	}
	return length;
}

/*
 * Decodes one path of n bytes into *out, which takes at most as many, and moves *out behind it.
 * Absolute only when the walk reached the root of the namespace; text is taken as it is. Returns
 * -EBADMSG when the last component has no end.
 */
static int path_decode(const char *names, size_t n, unsigned int flags, char **out,
		       struct event_bytes *ret_path)
{
	bool absolute = !(flags & (CORDON_PATH_TRUNCATED | CORDON_PATH_DISCONNECTED));
	char *p = *out;

	*ret_path = (struct event_bytes){ NULL, 0 };
	if (!n)
		return 0;
	if (names[n - 1] != '\0')
		return -EBADMSG;
	if (flags & CORDON_PATH_TEXT) {
		memcpy(p, names, n - 1);
		*ret_path = (struct event_bytes){ p, strnlen(p, n - 1) };
		p += n;
	} else {
		if (absolute)
			*p++ = '/';
		p += components_join(names, n, p);
		if (absolute && p > *out + 1 && (*out)[1] == '/') /* it was text, not components */
			++*out;
		*ret_path = (struct event_bytes){ *out, (size_t)(p - *out) };
	}
	*out = p;
	return 0;
}

/* The root itself has no components, but an inode. */
static void path_root(struct event *event)
{
	const struct cordon_event *raw = &event->raw;

	if (raw->type == CORDON_TYPE_FILE && !raw->path_len && raw->ino && !raw->path_flags)
		event->path = (struct event_bytes){ "/", 1 };
}

static int names_decode(const char *names, struct event *event)
{
	const struct cordon_event *raw = &event->raw;
	char *out = event->names;
	int r;

	r = path_decode(names, raw->path_len, raw->path_flags, &out, &event->path);
	names += raw->path_len;
	if (r == 0)
		r = path_decode(names, raw->path2_len, raw->path2_flags, &out, &event->path2);
	names += raw->path2_len;
	if (r == 0)
		r = path_decode(names, raw->exe_len, 0, &out, &event->exe);
	names += raw->exe_len;
	if (r < 0)
		return r;
	memcpy(out, names, raw->unix_len);
	/* A path counts its final NUL; an abstract name begins with one and ends as it likes. */
	event->unix_name = (struct event_bytes){ raw->unix_len ? out : NULL, raw->unix_len };
	if (raw->unix_len && *out && !out[raw->unix_len - 1])
		event->unix_name.n--;
	path_root(event);
	return 0;
}

int event_decode(const void *record, size_t size, int64_t realtime_offset_ns,
		 struct event *ret_event)
{
	struct cordon_event *raw = &ret_event->raw;
	size_t names;

	if (size < sizeof(*raw))
		return -EBADMSG;
	memcpy(raw, record, sizeof(*raw));
	names = (size_t)raw->path_len + raw->path2_len + raw->exe_len + raw->unix_len;
	if (names > CORDON_EVENT_NAMES_MAX || names > size - sizeof(*raw) || !raw_is_sound(raw))
		return -EBADMSG;
	raw->count = raw->count ? raw->count : 1;
	ret_event->kernel = true;
	ret_event->detail = NULL;
	ret_event->gateway = NULL;
	ret_event->sink = NULL;
	ret_event->first_ns = ret_event->last_ns = 0;
	ret_event->value = 0;
	ret_event->time_ns = raw->mono_ns + (uint64_t)realtime_offset_ns;
	return names_decode((const char *)record + sizeof(*raw), ret_event);
}

/* --- making -------------------------------------------------------------------------------- */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts = { 0 };

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

void event_make(struct event *ret_event, enum cordon_op op, const struct cordon_fence *fence,
		const struct cordon_policy *policy, uint64_t seq, const char *detail)
{
	struct cordon_event *raw = &ret_event->raw;

	memset(ret_event, 0, offsetof(struct event, names));
	raw->seq = seq;
	raw->op = (__u8)op;
	raw->type = (unsigned int)op < ARRAY_SIZE(ops) ? (__u8)ops[op].type : CORDON_TYPE_FENCE;
	raw->verdict = CORDON_VERDICT_ALLOW;
	raw->rule = CORDON_RULE_NONE;
	raw->mono_ns = clock_ns(CLOCK_MONOTONIC);
	ret_event->time_ns = clock_ns(CLOCK_REALTIME);
	ret_event->detail = detail;
	if (fence) {
		raw->fence_id = fence->id;
		raw->generation = fence->generation;
	}
	if (policy) {
		raw->mode = policy->mode;
		raw->generation = policy->generation;
	}
}

void event_make_limit(struct event *ret_event, enum cordon_op op, enum cordon_rule rule,
		      enum cordon_verdict verdict, const struct cordon_fence *fence,
		      const struct cordon_policy *policy, uint64_t seq, uint64_t count,
		      const char *detail)
{
	event_make(ret_event, op, fence, policy, seq, detail);
	ret_event->raw.rule = (__u8)rule;
	ret_event->raw.verdict = (__u8)verdict;
	ret_event->raw.count = count > UINT32_MAX ? UINT32_MAX : (__u32)count;
}

void event_make_gap(struct event *ret_event, const struct cordon_fence *fence,
		    const struct cordon_policy *policy, uint64_t seq, const struct event_gap *gap)
{
	event_make(ret_event, CORDON_OP_GAP, fence, policy, seq, gap->detail);
	ret_event->raw.count = gap->count;
}

void event_make_sink_gap(struct event *ret_event, const char *name, uint64_t seq, uint64_t count,
			 uint64_t first_ns, uint64_t last_ns, char ret_detail[160])
{
	snprintf(ret_detail, 160, "%llu events did not fit", (unsigned long long)count);
	event_make(ret_event, CORDON_OP_SINK_GAP, NULL, NULL, seq, ret_detail);
	ret_event->raw.count = count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
	ret_event->sink = name;
	ret_event->first_ns = first_ns;
	ret_event->last_ns = last_ns;
}
