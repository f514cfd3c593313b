// SPDX-License-Identifier: Apache-2.0
/*
 * An event as a line of JSON, by the table of keys: CORDON_EVENT_KEYS expands into one call a key,
 * in order. No library and no memory here, this is the path that every event takes. A line always
 * fits: EVENT_LINE_MAX is above the longest that the limits of names and texts allow, which the
 * tests hold.
 */
#include "event/event.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "event/buffer.h"
#include "event/redact.h"
#include "event/symbols.h"
#include "event/time.h"

#define CORDON_X(g, k, d) GROUP_##g,
enum group { CORDON_EVENT_GROUPS(CORDON_X) };
#undef CORDON_X

#define CORDON_X(g, k, d) k,
static const char *const group_keys[] = { CORDON_EVENT_GROUPS(CORDON_X) };
#undef CORDON_X

enum need { NEED_ALWAYS, NEED_KERNEL, NEED_SET };

struct writer {
	struct event_buffer b;
	const struct event *event;
	enum group group; /* that is open */
	bool comma;	  /* something stands in it */
	const char *key;  /* the key that is to be written, as "\"key\":" */
	size_t n_key;
	enum need need; /* of that key */
};

/* --- structure ----------------------------------------------------------------------------- */

/* Does this event have the object? */
static bool group_applies(const struct event *event, enum group group)
{
	switch (group) {
	case GROUP_EVENT:
	case GROUP_FENCE:
		return true;
	case GROUP_PROCESS:
		return event->raw.pid != 0;
	case GROUP_FILE:
		return event->raw.type == CORDON_TYPE_FILE || event->path.p;
	case GROUP_NET:
		return event->raw.type == CORDON_TYPE_NET ||
		       (event->raw.type == CORDON_TYPE_LIMIT && event->raw.family);
	case GROUP_GUARD:
		return event->raw.type == CORDON_TYPE_GUARD;
	case GROUP_GATEWAY:
		return event->gateway;
	}
	return false;
}

static void comma_put(struct writer *w)
{
	if (w->comma)
		event_buffer_putc(&w->b, ',');
	w->comma = true;
}

/* Closes the object that is open and opens the next. */
static void group_change(struct writer *w, enum group group)
{
	if (w->group != GROUP_EVENT) {
		event_buffer_putc(&w->b, '}');
		w->comma = true;
	}
	w->group = group;
	if (group == GROUP_EVENT)
		return;
	comma_put(w);
	event_buffer_putc(&w->b, '"');
	event_buffer_puts(&w->b, group_keys[group]);
	event_buffer_puts(&w->b, "\":{");
	w->comma = false;
}

/* Can the key be in this event? If so its object is open afterwards. */
static inline bool key_begin(struct writer *w, enum group group, const char *key, size_t n_key,
			     enum need need)
{
	if (!group_applies(w->event, group))
		return false;
	w->key = key;
	w->n_key = n_key;
	w->need = need;
	if (w->group != group)
		group_change(w, group);
	return true;
}

static void key_put(struct writer *w)
{
	comma_put(w);
	event_buffer_put(&w->b, w->key, w->n_key);
}

/* A key without a value: null where it must be there. */
static void absent_put(struct writer *w)
{
	if (w->need == NEED_SET || (w->need == NEED_KERNEL && !w->event->kernel))
		return;
	key_put(w);
	event_buffer_puts(&w->b, "null");
}

static void quote(struct writer *w)
{
	event_buffer_putc(&w->b, '"');
}

/* --- kinds --------------------------------------------------------------------------------- */

/*
 * put_KIND(writer, value), one for each row of CORDON_EVENT_KINDS: writes the key or leaves it out.
 */

static void word_put(struct writer *w, const char *word)
{
	key_put(w);
	quote(w);
	event_buffer_puts(&w->b, word);
	quote(w);
}

static void put_UINT(struct writer *w, uint64_t value)
{
	if (w->need == NEED_SET && !value)
		return;
	key_put(w);
	event_buffer_uint(&w->b, value, 1);
}

static void put_SCHEMA(struct writer *w, const char *value)
{
	word_put(w, value);
}

static void put_BYTES(struct writer *w, struct event_bytes value)
{
	size_t at, length;

	if (!value.p) {
		absent_put(w);
		return;
	}
	key_put(w);
	quote(w);
	while (event_redact_find(value.p, value.n, &at, &length)) {
		event_escape_json(&w->b, value.p, at);
		event_buffer_puts(&w->b, EVENT_REDACTED);
		value.p += at + length;
		value.n -= at + length;
	}
	event_escape_json(&w->b, value.p, value.n);
	quote(w);
}

static void put_CONTEXT(struct writer *w, const char *value)
{
	size_t n = value ? strnlen(value, EVENT_TEXT_MAX) : 0;

	put_BYTES(w, (struct event_bytes){ value, n });
}

static void put_DEGRADED(struct writer *w, const char *value)
{
	put_CONTEXT(w, value);
}

static void put_DETAIL(struct writer *w, const char *value)
{
	put_CONTEXT(w, value);
}

static void put_COMM(struct writer *w, const char *value)
{
	put_BYTES(w, (struct event_bytes){ value, strnlen(value, sizeof(w->event->raw.comm)) });
}

static void put_EXIT_CODE(struct writer *w, int64_t value)
{
	if (w->event->raw.op != CORDON_OP_EXIT || value < 0)
		return;
	w->need = NEED_ALWAYS; /* 0 says something */
	put_UINT(w, (uint64_t)value);
}

static void put_COLD_START(struct writer *w, int64_t value)
{
	if (w->event->raw.op == CORDON_OP_COLD_START && value > 0)
		put_UINT(w, (uint64_t)value);
}

static void put_HEX64(struct writer *w, uint64_t value)
{
	key_put(w);
	quote(w);
	event_buffer_hex(&w->b, value, EVENT_FENCE_ID_SIZE - 1);
	quote(w);
}

static void put_DEC64(struct writer *w, uint64_t value)
{
	if (w->need == NEED_SET && !value)
		return;
	key_put(w);
	quote(w);
	event_buffer_uint(&w->b, value, 1);
	quote(w);
}

static void put_TIME(struct writer *w, uint64_t value)
{
	key_put(w);
	quote(w);
	event_time_put(&w->b, value);
	quote(w);
}

static void put_WHEN(struct writer *w, uint64_t value)
{
	if (value)
		put_TIME(w, value);
}

static void put_TYPE(struct writer *w, unsigned int value)
{
	word_put(w, event_type_name(value));
}

static void put_OP(struct writer *w, unsigned int value)
{
	word_put(w, event_op_name(value));
}

static void put_VERDICT(struct writer *w, unsigned int value)
{
	word_put(w, event_verdict_name(value));
}

static void put_RULE(struct writer *w, unsigned int value)
{
	word_put(w, event_rule_name(value));
}

static void put_MODE(struct writer *w, unsigned int value)
{
	if (value == CORDON_MODE_ENFORCE || value == CORDON_MODE_AUDIT)
		word_put(w, value == CORDON_MODE_AUDIT ? "audit" : "enforce");
	else
		absent_put(w);
}

static void put_ERRNO(struct writer *w, int32_t value)
{
	if (!value) {
		absent_put(w);
		return;
	}
	key_put(w);
	quote(w);
	event_symbol_errno(&w->b, value < 0 ? (int)-(int64_t)value : value);
	quote(w);
}

static void exec_id_put(struct writer *w, uint64_t start_ns, uint32_t seq)
{
	if (!start_ns) {
		absent_put(w);
		return;
	}
	key_put(w);
	quote(w);
	event_buffer_hex(&w->b, start_ns, 1);
	event_buffer_putc(&w->b, '-');
	event_buffer_uint(&w->b, seq, 1);
	quote(w);
}

static void put_EXEC_ID(struct writer *w, uint64_t value)
{
	exec_id_put(w, value, w->event->raw.exec_seq);
}

static void put_PARENT_EXEC_ID(struct writer *w, uint64_t value)
{
	exec_id_put(w, value, w->event->raw.parent_exec_seq);
}

static void bit_put(struct writer *w, unsigned int value, unsigned int bit)
{
	if (!(value & bit))
		return;
	key_put(w);
	event_buffer_puts(&w->b, "true");
}

static void put_TRUNCATED(struct writer *w, unsigned int value)
{
	bit_put(w, value, CORDON_PATH_TRUNCATED);
}

static void put_DISCONNECTED(struct writer *w, unsigned int value)
{
	bit_put(w, value, CORDON_PATH_DISCONNECTED);
}

static void put_MAPPED(struct writer *w, unsigned int value)
{
	bit_put(w, value, CORDON_NET_MAPPED);
}

static void put_METADATA(struct writer *w, unsigned int value)
{
	bit_put(w, value, CORDON_NET_METADATA);
}

static void put_FLAG(struct writer *w, bool value)
{
	bit_put(w, value, 1);
}

static void put_DEV(struct writer *w, unsigned int value)
{
	if (w->need == NEED_SET && !value)
		return;
	key_put(w);
	quote(w);
	event_symbol_device(&w->b, value);
	quote(w);
}

/* Operations whose flags say something when they are 0, too. */
static bool file_flags_apply(unsigned int op, unsigned int flags)
{
	return flags || op == CORDON_OP_OPEN_READ || op == CORDON_OP_OPEN_WRITE ||
	       op == CORDON_OP_MKNOD;
}

static void put_FILE_FLAGS(struct writer *w, unsigned int value)
{
	if (w->event->raw.type != CORDON_TYPE_FILE || !file_flags_apply(w->event->raw.op, value))
		return;
	key_put(w);
	quote(w);
	event_symbol_file_flags(&w->b, w->event->raw.op, value);
	quote(w);
}

static void put_SOCKET_TYPE(struct writer *w, unsigned int value)
{
	if (w->event->raw.op != CORDON_OP_SOCKET)
		return;
	key_put(w);
	quote(w);
	event_symbol_socket_type(&w->b, value);
	quote(w);
}

static void put_SIGNAL(struct writer *w, unsigned int value)
{
	if (w->event->raw.op != CORDON_OP_SIGNAL)
		return;
	key_put(w);
	quote(w);
	event_symbol_signal(&w->b, value);
	quote(w);
}

static void put_PTRACE(struct writer *w, unsigned int value)
{
	if (w->event->raw.op != CORDON_OP_PTRACE)
		return;
	key_put(w);
	quote(w);
	event_symbol_ptrace(&w->b, value);
	quote(w);
}

static void put_CAPABILITY(struct writer *w, unsigned int value)
{
	if (w->event->raw.op != CORDON_OP_CAPABLE)
		return;
	key_put(w);
	quote(w);
	event_symbol_capability(&w->b, value);
	quote(w);
}

static void put_FAMILY(struct writer *w, unsigned int value)
{
	key_put(w);
	quote(w);
	event_symbol_family(&w->b, value);
	quote(w);
}

static void put_PROTO(struct writer *w, unsigned int value)
{
	if (w->need == NEED_SET && !value)
		return;
	key_put(w);
	quote(w);
	event_symbol_protocol(&w->b, w->event->raw.family, value);
	quote(w);
}

static bool family_has_addresses(unsigned int family)
{
	return family == AF_INET || family == AF_INET6;
}

static bool has_dst(const struct cordon_event *raw)
{
	return raw->op != CORDON_OP_SOCKET && raw->op != CORDON_OP_CONFIGURE &&
	       family_has_addresses(raw->family);
}

static bool has_src(const struct cordon_event *raw)
{
	return (raw->net_flags & CORDON_NET_SRC) && family_has_addresses(raw->family);
}

static bool has_ports(unsigned int proto)
{
	return proto != IPPROTO_ICMP && proto != IPPROTO_ICMPV6 && proto != IPPROTO_RAW;
}

static void address_put(struct writer *w, const __u8 *address)
{
	const struct cordon_event *raw = &w->event->raw;
	bool v4 = raw->family == AF_INET || (raw->net_flags & CORDON_NET_MAPPED);
	char text[INET6_ADDRSTRLEN];

	if (inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? address + 12 : address, text, sizeof(text)))
		word_put(w, text);
}

static void put_DST(struct writer *w, const __u8 *value)
{
	if (has_dst(&w->event->raw))
		address_put(w, value);
}

static void put_SRC(struct writer *w, const __u8 *value)
{
	if (has_src(&w->event->raw))
		address_put(w, value);
}

static void put_DPORT(struct writer *w, unsigned int value)
{
	if (has_dst(&w->event->raw) && has_ports(w->event->raw.proto))
		w->need = NEED_ALWAYS;
	put_UINT(w, value);
}

static void put_SPORT(struct writer *w, unsigned int value)
{
	if (has_src(&w->event->raw) && has_ports(w->event->raw.proto))
		w->need = NEED_ALWAYS;
	put_UINT(w, value);
}

static void number_put(struct writer *w, int64_t value)
{
	key_put(w);
	if (value < 0)
		event_buffer_putc(&w->b, '-');
	event_buffer_uint(&w->b, value < 0 ? -(uint64_t)value : (uint64_t)value, 1);
}

static void put_NUMBER(struct writer *w, int64_t value)
{
	if (value < 0)
		absent_put(w);
	else
		number_put(w, value);
}

/* Of an end: absent where nothing was counted. */
static void put_COUNTED(struct writer *w, int64_t value)
{
	if (w->event->gateway->has_bytes)
		number_put(w, value);
	else
		absent_put(w);
}

static void put_AMOUNT(struct writer *w, const struct event_gateway *value)
{
	if (value->has_amount)
		number_put(w, value->amount);
	else
		absent_put(w);
}

/* --- the line ------------------------------------------------------------------------------ */

static void keys_put(struct writer *w, const struct event_context *context)
{
	const struct event *event = w->event;
	const struct cordon_event *raw = &event->raw;

#define CORDON_X(group, key, kind, source, need, doc)                                 \
	if (key_begin(w, GROUP_##group, "\"" #key "\":", sizeof("\"" #key "\":") - 1, \
		      NEED_##need))                                                   \
		put_##kind(w, source);
	CORDON_EVENT_KEYS(CORDON_X)
#undef CORDON_X
}

size_t event_format_json(char ret_line[EVENT_LINE_MAX], const struct event_context *context,
			 const struct event *event)
{
	static const struct event_context nothing;
	struct writer w = { .b = { .p = ret_line, .size = EVENT_LINE_MAX },
			    .event = event,
			    .group = GROUP_EVENT };

	event_buffer_putc(&w.b, '{');
	keys_put(&w, context ? context : &nothing);
	if (w.group != GROUP_EVENT)
		event_buffer_putc(&w.b, '}');
	event_buffer_puts(&w.b, "}\n");
	return w.b.n;
}

/* The other formats are made from the JSON. */
static int other_write(FILE *out, enum event_format format, bool color, const char *line,
		       size_t size)
{
	struct event_record record;
	int r = event_record_parse(line, size, &record, NULL);

	if (r < 0)
		return r;
	r = event_record_write(out, format, color, &record, line, size);
	event_record_clear(&record);
	return r;
}

int event_write(FILE *out, enum event_format format, bool color,
		const struct event_context *context, const struct event *event)
{
	char line[EVENT_LINE_MAX];
	size_t n = event_format_json(line, context, event);

	if (format != EVENT_JSON)
		return other_write(out, format, color, line, n);
	errno = 0;
	if (fwrite(line, 1, n, out) == n)
		return 0;
	return errno ? -errno : -EIO;
}
