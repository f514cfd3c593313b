// SPDX-License-Identifier: Apache-2.0
/*
 * The event library: decoding, writing, escaping, reading back, accounting. Every JSON line that is
 * made here is checked against the published schema. Runs in the root of the source tree, because
 * it compares docs/.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "event/buffer.h"
#include "event/event.h"
#include "event/symbols.h"
#include "event/time.h"
#include "json_schema.h"

#define OFFSET_NS 1767323045000000000LL /* 2026-01-02T03:04:05Z */

/* --- records as the kernel writes them ----------------------------------------------------- */

struct record {
	struct cordon_event raw;
	char names[CORDON_EVENT_NAMES_MAX + 64];
	size_t n;
};

static const struct event_context context = {
	.node = "node-1",
	.fence_name = "refund-agent",
	.policy = "refund",
	.task = "task-7",
	.tenant = "t-1",
	.subject = "alice",
	.container = "c0ffee",
};

static struct record record;
static struct event event;
static char line[EVENT_LINE_MAX];

static void record_begin(enum cordon_type type, enum cordon_op op, enum cordon_rule rule)
{
	memset(&record, 0, sizeof(record));
	record.raw = (struct cordon_event){
		.seq = 42,
		.mono_ns = 123456789,
		.fence_id = 0xabcdef,
		.generation = 3,
		.type = (__u8)type,
		.op = (__u8)op,
		.rule = (__u8)rule,
		.verdict = CORDON_VERDICT_DENY,
		.mode = CORDON_MODE_ENFORCE,
		.count = 1,
		.pid = 1234,
		.pid_ns = 7,
		.tid = 1235,
		.ppid = 1,
		.uid = 1000,
		.gid = 1001,
		.cgroup = 5678,
		.start_ns = 0x1234,
		.exec_seq = 2,
		.parent_start_ns = 0x99,
		.parent_exec_seq = 1,
		.comm = "python3",
	};
}

/* Appends n bytes of names and returns n, for the length member. */
static __u16 names_add(const char *names, size_t n)
{
	assert_true(record.n + n <= sizeof(record.names));
	memcpy(record.names + record.n, names, n);
	record.n += n;
	return (__u16)n;
}

#define NAMES(text) names_add(text, sizeof(text)) /* with the NUL at the end */

static void record_file(void)
{
	record_begin(CORDON_TYPE_FILE, CORDON_OP_OPEN_WRITE, CORDON_RULE_FILES_WRITE);
	record.raw.err = EROFS;
	record.raw.op_flags = O_WRONLY | O_CREAT;
	record.raw.dev = 8U << 20 | 1;
	record.raw.ino = 99;
	record.raw.path_len = NAMES("passwd\0etc");
	record.raw.exe_len = NAMES("python3\0bin\0usr");
}

static void record_net(const __u8 *dst, enum cordon_op op)
{
	record_begin(CORDON_TYPE_NET, op, CORDON_RULE_NET_DEFAULT);
	record.raw.err = EPERM;
	record.raw.family = dst ? AF_INET : AF_UNIX;
	record.raw.proto = dst ? IPPROTO_TCP : 0;
	record.raw.dport = dst ? 443 : 0;
	if (dst)
		memcpy(record.raw.dst + 12, dst, 4);
}

/*
 * The record as the ring buffer holds it: the bytes end where they end, so that sanitizers see
 * every step beyond.
 */
static int decode_size(size_t size)
{
	_cleanup_free_ char *bytes = malloc(size ? size : 1);
	size_t head = size < sizeof(record.raw) ? size : sizeof(record.raw);

	assert_non_null(bytes);
	memcpy(bytes, &record.raw, head);
	memcpy(bytes + head, record.names, size - head);
	return event_decode(bytes, size, OFFSET_NS, &event);
}

static int decode(void)
{
	return decode_size(sizeof(record.raw) + record.n);
}

/* --- the schema ---------------------------------------------------------------------------- */

static json_t *schema;

static char *print_to_memory(void (*print)(FILE *out), size_t *ret_size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_size);

	assert_non_null(out);
	print(out);
	fclose(out);
	return text;
}

static int schema_load(void **state)
{
	size_t size;
	_cleanup_free_ char *text = print_to_memory(event_print_schema, &size);
	json_error_t fault;

	schema = json_loadb(text, size, JSON_REJECT_DUPLICATES, &fault);
	if (!schema)
		fprintf(stderr, "schema: %s at line %d\n", fault.text, fault.line);
	return schema ? 0 : -1;
}

static int schema_unload(void **state)
{
	json_decref(schema);
	return 0;
}

/*
 * Writes event and checks the line: one line, within bounds, JSON, as the schema says. Caller
 * releases.
 */
static json_t *write_checked(const struct event_context *c)
{
	size_t n = event_format_json(line, c, &event);
	struct schema_fault fault = { "" };
	json_error_t error;
	json_t *root;

	assert_true(n > 2 && n <= sizeof(line));
	assert_ptr_equal(memchr(line, '\n', n), line + n - 1);
	assert_false(event_text_is_unsafe(line, n - 1));
	root = json_loadb(line, n, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		fail_msg("%s: %.*s", error.text, (int)n, line);
	if (!schema_check(schema, root, true, &fault))
		fail_msg("%s in %.*s", fault.text, (int)n, line);
	return root;
}

static json_t *decode_and_write(void)
{
	assert_int_equal(decode(), 0);
	return write_checked(&context);
}

/* "file.path" of root, or NULL */
static const char *text_at(const json_t *root, const char *object, const char *key)
{
	return json_string_value(
		json_object_get(object ? json_object_get(root, object) : root, key));
}

#define assert_text(root, object, key, want)                   \
	do {                                                   \
		const char *got_ = text_at(root, object, key); \
		assert_non_null(got_);                         \
		assert_string_equal(got_, want);               \
	} while (0)
#define assert_absent(root, object, key) \
	assert_null(json_object_get((object) ? json_object_get(root, object) : (root), key))

/* --- decoding ------------------------------------------------------------------------------ */

static void test_golden_file(void **state)
{
	static const char want[] = "{\"schema\":\"cordon.event/"
				   "1\",\"node\":\"node-1\",\"seq\":42,\"time\":\"2026-01-02T03:04:"
				   "05.123456789Z\","
				   "\"mono_ns\":123456789,\"type\":\"file\",\"op\":\"open_write\","
				   "\"verdict\":\"deny\",\"rule\":\"files.write\","
				   "\"fence\":{\"id\":\"0000000000abcdef\",\"name\":\"refund-"
				   "agent\",\"policy\":\"refund\",\"generation\":3,"
				   "\"mode\":\"enforce\",\"task\":\"task-7\",\"tenant\":\"t-1\","
				   "\"subject\":\"alice\",\"container\":\"c0ffee\"},"
				   "\"errno\":\"EROFS\",\"count\":1,\"process\":{\"pid\":1234,"
				   "\"pid_ns\":7,\"tid\":1235,\"ppid\":1,\"uid\":1000,"
				   "\"gid\":1001,\"comm\":\"python3\",\"exe\":\"/usr/bin/"
				   "python3\",\"exec_id\":\"1234-2\","
				   "\"parent_exec_id\":\"99-1\",\"cgroup\":\"5678\"},\"file\":{"
				   "\"flags\":\"O_WRONLY|O_CREAT\","
				   "\"path\":\"/etc/passwd\",\"dev\":\"8:1\",\"ino\":\"99\"}}\n";

	record_file();
	json_decref(decode_and_write());
	assert_memory_equal(line, want, sizeof(want) - 1);
}

static void test_golden_net(void **state)
{
	static const char want[] = "\"net\":{\"family\":\"inet\",\"proto\":\"tcp\",\"dst\":\"93."
				   "184.216.34\",\"dport\":443}}\n";
	static const __u8 dst[] = { 93, 184, 216, 34 };

	record_net(dst, CORDON_OP_CONNECT);
	json_decref(decode_and_write());
	assert_non_null(strstr(line, want));
}

struct path_case {
	const char *names;
	size_t n;
	unsigned int flags;
	const char *want;
};

#define PATH(names, flags, want)                  \
	{                                         \
		names, sizeof(names), flags, want \
	}

static void test_paths(void **state)
{
	static const struct path_case cases[] = {
		PATH("f\0dir\0srv", 0, "/srv/dir/f"),
		PATH("f", 0, "/f"),
		PATH("f\0dir", CORDON_PATH_TRUNCATED, "dir/f"),
		PATH("f\0dir", CORDON_PATH_DISCONNECTED, "dir/f"),
		PATH("", 0, "/"),		   /* one empty component: the root */
		PATH("f\0\0dir\0", 0, "/dir/f"),   /* empty ones are skipped */
		PATH("/dev/sda1", 0, "/dev/sda1"), /* text in place of components */
		PATH("/a/../b", CORDON_PATH_TEXT, "/a/../b"),
		PATH("tmpfs", CORDON_PATH_TEXT, "tmpfs"),
		PATH("a\0b", CORDON_PATH_TEXT, "a"), /* ends at the first NUL */
		PATH("..\0a", 0, "/a/.."),
		PATH("\n\0\x1b[2J", 0, "/\\x1b[2J/\\x0a"),
		PATH("back\\slash", 0, "/back\\\\slash"),
		PATH("caf\xc3\xa9", 0, "/caf\xc3\xa9"),
		PATH("caf\xe9", 0, "/caf\\xe9"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *root;

		record_begin(CORDON_TYPE_FILE, CORDON_OP_RENAME, CORDON_RULE_FILES_WRITE);
		record.raw.path_flags = (__u8)cases[i].flags;
		record.raw.path2_flags = (__u8)cases[i].flags;
		record.raw.path_len = names_add(cases[i].names, cases[i].n);
		record.raw.path2_len = names_add(cases[i].names, cases[i].n);
		root = decode_and_write();
		assert_text(root, "file", "path", cases[i].want);
		assert_text(root, "file", "path2", cases[i].want);
		assert_int_equal(!json_object_get(json_object_get(root, "file"), "path_truncated"),
				 !(cases[i].flags & CORDON_PATH_TRUNCATED));
		assert_int_equal(!json_object_get(json_object_get(root, "file"), "path2_"
										 "disconnected"),
				 !(cases[i].flags & CORDON_PATH_DISCONNECTED));
		json_decref(root);
	}
}

static void test_root_and_unknown_path(void **state)
{
	json_t *root;

	record_begin(CORDON_TYPE_FILE, CORDON_OP_OPEN_READ, CORDON_RULE_FILES_READ_DENY);
	root = decode_and_write();
	assert_true(json_is_null(json_object_get(json_object_get(root, "file"), "path")));
	assert_absent(root, "file", "ino");
	assert_absent(root, "file", "dev");
	json_decref(root);
	record.raw.ino = 2;
	root = decode_and_write();
	assert_text(root, "file", "path", "/");
	json_decref(root);
	record.raw.path_flags = CORDON_PATH_TRUNCATED;
	root = decode_and_write();
	assert_true(json_is_null(json_object_get(json_object_get(root, "file"), "path")));
	json_decref(root);
}

static void test_unix_names(void **state)
{
	json_t *root;

	record_net(NULL, CORDON_OP_CONNECT);
	record.raw.unix_len = names_add("\0bus\xff", 5);
	root = decode_and_write();
	assert_text(root, "net", "unix", "\\x00bus\\xff");
	assert_text(root, "net", "family", "unix");
	assert_absent(root, "net", "dst");
	json_decref(root);
	record_net(NULL, CORDON_OP_CONNECT);
	root = decode_and_write();
	assert_absent(root, "net", "unix");
	json_decref(root);
}

/* Every truncation of a good record is refused, and bytes behind it do no harm. */
static void test_decode_sizes(void **state)
{
	record_file();
	for (size_t size = 0; size < sizeof(record.raw) + record.n; size++)
		assert_int_equal(decode_size(size), -EBADMSG);
	for (size_t more = 0; more < 16; more++)
		assert_int_equal(decode_size(sizeof(record.raw) + record.n + more), 0);
}

static void test_decode_refuses(void **state)
{
	__u16 *lengths[] = { &record.raw.path_len, &record.raw.path2_len, &record.raw.exe_len,
			     &record.raw.unix_len };
	__u8 *words[] = { &record.raw.type, &record.raw.op, &record.raw.verdict, &record.raw.rule,
			  &record.raw.mode };

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		record_file();
		*lengths[i] = UINT16_MAX;
		assert_int_equal(decode(), -EBADMSG);
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		record_file();
		*words[i] = UINT8_MAX;
		assert_int_equal(decode(), -EBADMSG);
	}
	for (size_t i = 0; i < 3; i++) { /* a path that has no end; a socket name needs none */
		record_begin(CORDON_TYPE_FILE, CORDON_OP_LINK, CORDON_RULE_FILES_WRITE);
		*lengths[i] = names_add("abc", 3);
		assert_int_equal(decode(), -EBADMSG);
	}
	record_file();
	record.raw.seq = 1ULL << 63;
	assert_int_equal(decode(), -EBADMSG);
}

/*
 * All lengths together must stay within what the struct holds, even where the record is long
 * enough.
 */
static void test_decode_names_limit(void **state)
{
	static char long_name[CORDON_EVENT_NAMES_MAX + 1];

	memset(long_name, 'x', sizeof(long_name));
	record_begin(CORDON_TYPE_NET, CORDON_OP_CONNECT, CORDON_RULE_NET_UNIX);
	record.raw.unix_len = names_add(long_name, CORDON_EVENT_NAMES_MAX);
	assert_int_equal(decode(), 0);
	record.raw.unix_len++;
	record.n++;
	assert_int_equal(decode(), -EBADMSG);
}

/* --- JSON ---------------------------------------------------------------------------------- */

static const struct event_gateway refund = {
	.tool = "refund",
	.action = "POST /refund",
	.object = "o-1",
	.scope = "refund:create",
	.key = "k-1\n",
	.reason = "object_not_in_tenant",
	.has_amount = true,
	.amount = 5000,
	.status = 403,
	.upstream_status = -1,
	.latency_us = 812,
	.record = 17,
};

static void gateway_make(const struct event_gateway *gateway)
{
	event_make(&event, CORDON_OP_CALL, NULL, NULL, 3, NULL);
	event.raw.verdict = CORDON_VERDICT_DENY;
	event.raw.rule = CORDON_RULE_GW_TENANT;
	event.gateway = gateway;
}

static void test_gateway_members(void **state)
{
	struct event_gateway other = { .status = -1, .upstream_status = -1, .latency_us = -1 };
	const json_t *gateway;
	json_t *root;

	gateway_make(&refund);
	root = write_checked(&context);
	gateway = json_object_get(root, "gateway");
	assert_text(root, NULL, "type", "gateway");
	assert_text(root, "fence", "task", "task-7");
	assert_text(root, "gateway", "tool", "refund");
	assert_text(root, "gateway", "idempotency_key", "k-1\\x0a");
	assert_int_equal(json_integer_value(json_object_get(gateway, "amount")), 5000);
	assert_int_equal(json_integer_value(json_object_get(gateway, "status")), 403);
	assert_true(json_is_null(json_object_get(gateway, "upstream_status")));
	assert_true(json_is_null(json_object_get(gateway, "grant")));
	assert_absent(root, "gateway", "by");
	assert_absent(root, NULL, "process");
	json_decref(root);
	other.has_amount = true;
	other.amount = INT64_MIN;
	gateway_make(&other);
	root = write_checked(&context);
	gateway = json_object_get(root, "gateway");
	assert_true(json_integer_value(json_object_get(gateway, "amount")) == INT64_MIN);
	assert_true(json_is_null(json_object_get(gateway, "status")));
	json_decref(root);
}

static void test_every_word(void **state)
{
#define CORDON_X(e, t, n, d) { CORDON_OP_##e, CORDON_TYPE_##t },
	static const struct {
		enum cordon_op op;
		enum cordon_type type;
	} ops[] = { CORDON_OPS(CORDON_X) };
#undef CORDON_X

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		for (unsigned int rule = 0; rule < CORDON_RULE_COUNT; rule++) {
			for (__u8 verdict = 0; verdict < CORDON_VERDICT_COUNT; verdict++) {
				json_t *root;

				record_begin(ops[i].type, ops[i].op, rule);
				record.raw.verdict = verdict;
				assert_int_equal(decode(), 0);
				event.gateway = ops[i].type == CORDON_TYPE_GATEWAY ? &refund : NULL;
				root = write_checked(&context);
				assert_text(root, NULL, "op", event_op_name(ops[i].op));
				assert_text(root, NULL, "type", event_type_name(ops[i].type));
				assert_text(root, NULL, "rule", event_rule_name(rule));
				assert_text(root, NULL, "verdict", event_verdict_name(verdict));
				json_decref(root);
			}
		}
	}
}

static void test_names_beyond(void **state)
{
	assert_string_equal(event_type_name(CORDON_TYPE_COUNT), "?");
	assert_string_equal(event_op_name(UINT32_MAX), "?");
	assert_string_equal(event_verdict_name(CORDON_VERDICT_COUNT), "?");
	assert_string_equal(event_rule_name(CORDON_RULE_COUNT), "?");
	assert_int_equal(event_type_find("loss"), CORDON_TYPE_LOSS);
	assert_int_equal(event_type_find("Loss"), -1);
	assert_int_equal(event_verdict_find("would_deny"), CORDON_VERDICT_WOULD_DENY);
}

static void test_context(void **state)
{
	static const char *const keys[] = { "name",   "policy",	 "task",
					    "tenant", "subject", "container" };
	struct event_context degraded = context;
	char long_text[2 * EVENT_TEXT_MAX];
	json_t *root;

	record_file();
	assert_int_equal(decode(), 0);
	root = write_checked(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		assert_true(json_is_null(json_object_get(json_object_get(root, "fence"), keys[i])));
	assert_true(json_is_null(json_object_get(root, "node")));
	assert_absent(root, "fence", "degraded");
	json_decref(root);

	memset(long_text, 'a', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	degraded.degraded = "lsm";
	degraded.task = long_text;
	degraded.subject = "\"alice\"\n";
	root = write_checked(&degraded);
	assert_text(root, "fence", "degraded", "lsm");
	assert_text(root, "fence", "subject", "\"alice\"\\x0a");
	assert_int_equal(strlen(text_at(root, "fence", "task")), EVENT_TEXT_MAX);
	json_decref(root);
}

/* Addresses: text, whether it was spelled as IPv4 in IPv6, and which keys are there. */
static void test_addresses(void **state)
{
	static const struct {
		unsigned int family, flags;
		__u8 dst[16];
		const char *want;
	} cases[] = {
		{ AF_INET, 0, { [12] = 10, 0, 0, 1 }, "10.0.0.1" },
		{ AF_INET, 0, { 0 }, "0.0.0.0" },
		{ AF_INET6,
		  CORDON_NET_MAPPED | CORDON_NET_METADATA,
		  { [12] = 169, 254, 169, 254 },
		  "169.254.169.254" },
		{ AF_INET6, 0, { [15] = 1 }, "::1" },
		{ AF_INET6, 0, { 0 }, "::" },
		{ AF_INET6,
		  CORDON_NET_METADATA,
		  { 0xfd, 0, 0x0e, 0xc2, [14] = 2, 0x54 },
		  "fd00:ec2::254" },
		{ AF_INET6, 0, { 0x20, 1, 0x0d, 0xb8, [15] = 1 }, "2001:db8::1" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *root, *net;

		record_begin(CORDON_TYPE_NET, CORDON_OP_SENDMSG, CORDON_RULE_NET_DEFAULT);
		record.raw.family = (__u16)cases[i].family;
		record.raw.net_flags = (__u8)cases[i].flags;
		memcpy(record.raw.dst, cases[i].dst, 16);
		root = decode_and_write();
		net = json_object_get(root, "net");
		assert_text(root, "net", "dst", cases[i].want);
		assert_int_equal(json_integer_value(json_object_get(net, "dport")), 0);
		assert_int_equal(json_is_true(json_object_get(net, "mapped")),
				 !!(cases[i].flags & CORDON_NET_MAPPED));
		assert_int_equal(json_is_true(json_object_get(net, "metadata")),
				 !!(cases[i].flags & CORDON_NET_METADATA));
		assert_absent(root, "net", "src");
		assert_absent(root, "net", "sport");
		json_decref(root);
	}
}

static void test_net_members(void **state)
{
	static const __u8 dst[] = { 1, 2, 3, 4 };
	json_t *root;

	record_net(dst, CORDON_OP_PACKET);
	record.raw.net_flags = CORDON_NET_SRC;
	record.raw.proto = IPPROTO_ICMP;
	record.raw.dport = 0;
	record.raw.pid = 0; /* nobody acted: no process */
	memcpy(record.raw.src + 12, "\x0a\0\0\x02", 4);
	root = decode_and_write();
	assert_text(root, "net", "src", "10.0.0.2");
	assert_text(root, "net", "proto", "icmp");
	assert_absent(root, "net", "dport");
	assert_absent(root, NULL, "process");
	json_decref(root);

	record_net(dst, CORDON_OP_SOCKET);
	record.raw.family = AF_PACKET;
	record.raw.op_flags = SOCK_RAW;
	record.raw.proto = 3;
	root = decode_and_write();
	assert_text(root, "net", "family", "packet");
	assert_text(root, "net", "socket_type", "SOCK_RAW");
	assert_text(root, "net", "proto", "3");
	assert_absent(root, "net", "dst");
	json_decref(root);
}

static void test_guard_members(void **state)
{
	json_t *root;

	record_begin(CORDON_TYPE_GUARD, CORDON_OP_SIGNAL, CORDON_RULE_GUARD_SIGNAL);
	record.raw.op_flags = SIGKILL;
	record.raw.target_pid = 77;
	root = decode_and_write();
	assert_text(root, "guard", "signal", "SIGKILL");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "guard"), "target"
											    "_pi"
											    "d")),
			 77);
	assert_absent(root, "guard", "access");
	json_decref(root);
	record_begin(CORDON_TYPE_GUARD, CORDON_OP_PTRACE, CORDON_RULE_GUARD_PTRACE);
	record.raw.op_flags = 0x12;
	root = decode_and_write();
	assert_text(root, "guard", "access", "PTRACE_MODE_ATTACH|PTRACE_MODE_REALCREDS");
	json_decref(root);
}

/*
 * Every member of the struct shows somewhere: a change of any of its bytes changes the line. `lost`
 * feeds gap records instead, and the lengths are covered by the tests of paths.
 */
static void test_every_member_shows(void **state)
{
#define CORDON_X(type, member, dim, doc) { #member, offsetof(struct cordon_event, member) },
	static const struct {
		const char *name;
		size_t offset;
	} members[] = { CORDON_EVENT_FIELDS(CORDON_X) };
#undef CORDON_X
	static char before[EVENT_LINE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		const char *name = members[i].name;
		bool shows = false;

		if (strcmp(name, "lost") == 0 || strstr(name, "_len"))
			continue;
		for (enum cordon_type type = CORDON_TYPE_FILE; type <= CORDON_TYPE_GUARD; type++) {
			static const __u8 dst[] = { 1, 2, 3, 4 };
			size_t n;

			record_net(dst, type == CORDON_TYPE_GUARD ? CORDON_OP_SIGNAL
								  : CORDON_OP_CONNECT);
			record.raw.type = (__u8)type;
			record.raw.net_flags = CORDON_NET_SRC;
			record.raw.count = 2;
			record.raw.path_len = NAMES("f");
			assert_int_equal(decode(), 0);
			n = event_format_json(before, &context, &event);
			((char *)&record.raw)[members[i].offset +
					      (strcmp(name, "dst") == 0 || strcmp(name, "src") == 0
						       ? 15
						       : 0)] ^= 1;
			assert_int_equal(decode(), 0);
			shows |= event_format_json(line, &context, &event) != n ||
				 memcmp(line, before, n) != 0;
		}
		if (!shows)
			fail_msg("%s is not to be seen in the event", name);
	}
}

/* The longest that can be: every byte of every text needs the longest escape. */
static void test_longest_line(void **state)
{
	static char worst[CORDON_EVENT_NAMES_MAX + EVENT_TEXT_MAX];
	struct event_context c;

	memset(worst, 1, sizeof(worst) - 1);
	c = (struct event_context){ worst, worst, worst, worst, worst, worst, worst, worst };
	record_begin(CORDON_TYPE_FILE, CORDON_OP_RENAME, CORDON_RULE_FILES_WRITE);
	record.raw.path_len = names_add(worst, CORDON_PATH_MAX - 1) + NAMES("");
	record.raw.path2_len = names_add(worst, CORDON_PATH_MAX - 1) + NAMES("");
	record.raw.exe_len = names_add(worst, CORDON_PATH_MAX - 1) + NAMES("");
	record.raw.unix_len = names_add(worst, 512);
	memset(record.raw.comm, 1, sizeof(record.raw.comm));
	assert_int_equal(decode(), 0);
	event.detail = worst;
	json_decref(write_checked(&c));
	assert_true(strlen(line) < EVENT_LINE_MAX / 2 + EVENT_LINE_MAX / 3);
}

static void test_pointless_bytes_of_comm(void **state)
{
	json_t *root;

	record_file();
	memset(record.raw.comm, 'x', sizeof(record.raw.comm)); /* no NUL */
	root = decode_and_write();
	assert_text(root, "process", "comm", "xxxxxxxxxxxxxxxx");
	json_decref(root);
	record_file();
	memcpy(record.raw.comm, "a\0secret", 8);
	root = decode_and_write();
	assert_text(root, "process", "comm", "a");
	json_decref(root);
}

static void test_write_errors(void **state)
{
	FILE *full = fopen("/dev/full", "w");

	assert_non_null(full);
	setvbuf(full, NULL, _IONBF, 0);
	record_file();
	assert_int_equal(decode(), 0);
	assert_int_equal(event_write(full, EVENT_JSON, false, &context, &event), -ENOSPC);
	assert_int_equal(event_write(full, EVENT_TEXT, false, &context, &event), -ENOSPC);
	fclose(full);
}

/* --- escaping ------------------------------------------------------------------------------ */

static int hex_value(char c)
{
	return c >= 'a' ? c - 'a' + 10 : c - '0';
}

/* As docs/events.md says. Returns the length. */
static size_t unescape(const char *text, char *out)
{
	size_t n = 0;

	while (*text) {
		if (text[0] == '\\' && text[1] == 'x') {
			out[n++] = (char)(hex_value(text[2]) << 4 | hex_value(text[3]));
			text += 4;
		} else {
			text += text[0] == '\\';
			out[n++] = *text++;
		}
	}
	return n;
}

static void check_round_trip(const char *bytes, size_t n)
{
	char back[1024];
	const char *text;
	json_t *root;

	record_net(NULL, CORDON_OP_CONNECT);
	record.raw.unix_len = names_add(bytes, n);
	root = decode_and_write();
	text = text_at(root, "net", "unix");
	if (bytes[0] && !bytes[n - 1]) /* the NUL that ends a path is no part of it */
		n--;
	assert_int_equal(unescape(text, back), n);
	assert_memory_equal(back, bytes, n);
	json_decref(root);
}

static void test_escape_every_byte(void **state)
{
	for (unsigned int i = 0; i < 256; i++) {
		char bytes[] = { 'a', (char)i, 'x', '4', '1' };

		check_round_trip(bytes, sizeof(bytes));
		check_round_trip(bytes + 1, 1);
	}
	check_round_trip("\\x41", 4);
	check_round_trip("\\\\x41", 5);
	check_round_trip("\\", 1);
}

static void test_escape_random(void **state)
{
	srandom(1);
	for (int i = 0; i < 5000; i++) {
		char bytes[100];
		size_t n = 1 + (size_t)random() % sizeof(bytes);

		for (size_t j = 0; j < n; j++) /* half of them from UTF-8 and escapes */
			bytes[j] = random() % 2
					   ? (char)random()
					   : "\\x4\xc3\xa9\xe2\x80\xae\xf0\x9f\x98\x80\""[random() %
											  14];
		check_round_trip(bytes, n);
	}
}

static void test_escape_unicode(void **state)
{
	static const struct {
		const char *bytes, *want;
	} cases[] = {
		{ "caf\xc3\xa9", "caf\xc3\xa9" },
		{ "\xe6\x97\xa5", "\xe6\x97\xa5" },
		{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
		{ "\xc2\x9b"
		  "2J",
		  "\\xc2\\x9b2J" }, /* CSI as a C1 control */
		{ "\x7f", "\\x7f" },
		{ "\xe2\x80\xae"
		  "txt.exe",
		  "\\xe2\\x80\\xaetxt.exe" },			/* right-to-left override */
		{ "\xe2\x80\xa8", "\\xe2\\x80\\xa8" },		/* line separator */
		{ "\xef\xbb\xbf", "\\xef\\xbb\\xbf" },		/* byte order mark */
		{ "\xf3\xa0\x80\xa0", "\\xf3\\xa0\\x80\\xa0" }, /* a tag, invisible */
		{ "\xc0\xaf", "\\xc0\\xaf" },			/* overlong slash */
		{ "\xe0\x80\xaf", "\\xe0\\x80\\xaf" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },		/* surrogate */
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" }, /* above U+10FFFF */
		{ "\xe6\x97", "\\xe6\\x97" },			/* cut off */
		{ "a\nb\r\t", "a\\x0ab\\x0d\\x09" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *root;

		record_net(NULL, CORDON_OP_CONNECT);
		record.raw.unix_len = names_add(cases[i].bytes, strlen(cases[i].bytes));
		root = decode_and_write();
		assert_text(root, "net", "unix", cases[i].want);
		json_decref(root);
		check_round_trip(cases[i].bytes, strlen(cases[i].bytes));
	}
}

/* --- symbols, times, ids ------------------------------------------------------------------- */

static struct event_buffer buffer;
static char buffer_text[512];

static const char *buffer_end(void)
{
	buffer.p[buffer.n] = '\0';
	buffer.n = 0;
	return buffer_text;
}

static int buffer_begin(void **state)
{
	buffer = (struct event_buffer){ .p = buffer_text, .size = sizeof(buffer_text) - 1 };
	return 0;
}

static void test_symbols(void **state)
{
	static const struct {
		enum cordon_op op;
		unsigned int flags;
		const char *want;
	} cases[] = {
		{ CORDON_OP_OPEN_READ, 0, "O_RDONLY" },
		{ CORDON_OP_OPEN_READ, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
		  "O_RDONLY|O_DIRECTORY|O_CLOEXEC" },
		{ CORDON_OP_OPEN_WRITE, O_RDWR | O_TRUNC | O_APPEND, "O_RDWR|O_TRUNC|O_APPEND" },
		{ CORDON_OP_OPEN_WRITE, O_WRONLY | O_SYNC, "O_WRONLY|O_SYNC" },
		{ CORDON_OP_OPEN_WRITE, O_WRONLY | O_DSYNC, "O_WRONLY|O_DSYNC" },
		{ CORDON_OP_OPEN_WRITE, O_RDWR | O_TMPFILE, "O_RDWR|O_TMPFILE" },
		{ CORDON_OP_OPEN_READ, 0x20, "O_RDONLY|__FMODE_EXEC" },
		{ CORDON_OP_OPEN_WRITE, 1U << 31 | O_WRONLY, "O_WRONLY|0x80000000" },
		{ CORDON_OP_OPEN_WRITE, 3, "O_ACCMODE" },
		{ CORDON_OP_RENAME, 3, "RENAME_NOREPLACE|RENAME_EXCHANGE" },
		{ CORDON_OP_MKNOD, S_IFCHR | 0620, "S_IFCHR|0620" },
		{ CORDON_OP_MKNOD, 0644, "0|0644" },
		{ CORDON_OP_IOCTL, 0x40086602, "FS_IOC_SETFLAGS" },
		{ CORDON_OP_IOCTL, 0x1234, "0x1234" },
		{ CORDON_OP_CHMOD, 0x1ff, "0x1ff" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		event_symbol_file_flags(&buffer, cases[i].op, cases[i].flags);
		assert_string_equal(buffer_end(), cases[i].want);
	}
}

static void test_symbols_of_others(void **state)
{
	event_symbol_errno(&buffer, EACCES);
	assert_string_equal(buffer_end(), "EACCES");
	event_symbol_errno(&buffer, 524);
	assert_string_equal(buffer_end(), "E524");
	event_symbol_signal(&buffer, SIGTERM);
	assert_string_equal(buffer_end(), "SIGTERM");
	event_symbol_signal(&buffer, 0);
	assert_string_equal(buffer_end(), "SIG0");
	event_symbol_signal(&buffer, (unsigned int)SIGRTMIN + 3);
	assert_string_equal(buffer_end(), "SIGRTMIN+3");
	event_symbol_signal(&buffer, 4000000000U);
	assert_string_equal(buffer_end(), "SIG4000000000");
	event_symbol_family(&buffer, AF_VSOCK);
	assert_string_equal(buffer_end(), "vsock");
	event_symbol_family(&buffer, 999);
	assert_string_equal(buffer_end(), "999");
	event_symbol_protocol(&buffer, AF_INET6, 262);
	assert_string_equal(buffer_end(), "mptcp");
	event_symbol_protocol(&buffer, AF_INET, 200);
	assert_string_equal(buffer_end(), "200");
	event_symbol_socket_type(&buffer, SOCK_DGRAM | SOCK_CLOEXEC);
	assert_string_equal(buffer_end(), "SOCK_DGRAM|SOCK_CLOEXEC");
	event_symbol_socket_type(&buffer, 15);
	assert_string_equal(buffer_end(), "15");
	event_symbol_ptrace(&buffer, 0);
	assert_string_equal(buffer_end(), "0");
	event_symbol_device(&buffer, 259U << 20 | 5);
	assert_string_equal(buffer_end(), "259:5");
}

/* Against the C library, over days around leap years and at the ends. */
static void test_time_against_libc(void **state)
{
	for (uint64_t s = 0; s < 16725225600ULL; s += 86400 * 13 + 3607) { /* to the year 2500 */
		time_t t = (time_t)s;
		uint64_t back;
		char want[64];
		struct tm tm;

		gmtime_r(&t, &tm);
		strftime(want, sizeof(want), "%Y-%m-%dT%H:%M:%S.000000007Z", &tm);
		event_time_put(&buffer, s * 1000000000ULL + 7);
		assert_string_equal(buffer_end(), want);
		assert_int_equal(event_parse_time(want, &back), 0);
		assert_true(back == s * 1000000000ULL + 7);
	}
	event_time_put(&buffer, UINT64_MAX);
	assert_string_equal(buffer_end(), "2554-07-21T23:34:33.709551615Z");
}

static void test_time_parsing(void **state)
{
	static const char *const bad[] = {
		"",
		"2026",
		"2026-01-02",
		"2026-01-02T03:04:05",
		"2026-01-02T03:04:05.Z",
		"2026-13-02T03:04:05Z",
		"2026-02-29T03:04:05Z",
		"2026-01-02T24:04:05Z",
		"2026-01-02T03:60:05Z",
		"2026-01-02T03:04:05ZZ",
		"2026-01-02T03:04:05+0100",
		"2026-01-02T03:04:05+24:00",
		"1969-12-31T23:59:59Z",
		"1970-01-01T00:00:00+00:01",
		"2026-00-01T00:00:00Z",
		"2026-01-00T00:00:00Z",
		"+026-01-02T03:04:05Z",
	};
	uint64_t ns;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(event_parse_time(bad[i], &ns), -EINVAL);
	assert_int_equal(event_parse_time("2026-01-02T03:04:05Z", &ns), 0);
	assert_true(ns == OFFSET_NS);
	assert_int_equal(event_parse_time("2026-01-02t04:34:05.5+01:30", &ns), 0);
	assert_true(ns == OFFSET_NS + 500000000ULL);
	assert_int_equal(event_parse_time("2026-01-02T03:04:05.1234567899Z", &ns), 0);
	assert_true(ns == OFFSET_NS + 123456789ULL);
	assert_int_equal(event_parse_time("2024-02-29T00:00:00Z", &ns), 0);
}

static void test_fence_ids(void **state)
{
	static const char *const bad[] = { "", "0x1", "g", "12345678901234567", " 1", "-1", "1 " };
	char text[EVENT_FENCE_ID_SIZE];
	uint64_t id;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(event_parse_fence_id(bad[i], &id), -EINVAL);
	assert_int_equal(event_parse_fence_id("aBc", &id), 0);
	assert_true(id == 0xabc);
	assert_string_equal(event_format_fence_id(UINT64_MAX, text), "ffffffffffffffff");
	assert_int_equal(event_parse_fence_id(text, &id), 0);
	assert_true(id == UINT64_MAX);
}

static void test_buffer_overflow(void **state)
{
	char small[4];
	struct event_buffer b = { .p = small, .size = sizeof(small) };

	event_buffer_puts(&b, "abc");
	event_buffer_puts(&b, "de");
	assert_true(b.overflow);
	assert_int_equal(b.n, 3);
	event_buffer_putc(&b, 'd');
	event_buffer_putc(&b, 'e');
	assert_memory_equal(small, "abcd", 4);
}

/* --- events of user space ------------------------------------------------------------------ */

static void test_make(void **state)
{
	struct cordon_fence fence = { .id = 5, .generation = 2 };
	struct cordon_policy policy = { .mode = CORDON_MODE_AUDIT, .generation = 4 };
	json_t *root;

	event_make(&event, CORDON_OP_EXIT, &fence, &policy, 9, "killed");
	event.value = 137;
	root = write_checked(&context);
	assert_text(root, NULL, "type", "fence");
	assert_text(root, NULL, "rule", "none");
	assert_text(root, NULL, "detail", "killed");
	assert_text(root, "fence", "mode", "audit");
	assert_text(root, "fence", "id", "0000000000000005");
	assert_int_equal(json_integer_value(json_object_get(root, "exit_code")), 137);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "fence"), "genera"
											    "tio"
											    "n")),
			 4);
	assert_absent(root, NULL, "errno");
	assert_absent(root, NULL, "count");
	assert_absent(root, NULL, "process");
	assert_true(event.time_ns > OFFSET_NS - 400ULL * 86400 * 1000000000);
	assert_true(event.raw.mono_ns > 0);
	json_decref(root);

	event_make(&event, CORDON_OP_COLD_START, NULL, NULL, 1, NULL);
	event.value = 12345678;
	root = write_checked(NULL);
	assert_int_equal(json_integer_value(json_object_get(root, "cold_start_ns")), 12345678);
	assert_true(json_is_null(json_object_get(json_object_get(root, "fence"), "mode")));
	assert_absent(root, NULL, "exit_code");
	json_decref(root);
	event_make(&event, CORDON_OP_EXIT, NULL, NULL, 1, NULL);
	root = write_checked(NULL);
	assert_int_equal(json_integer_value(json_object_get(root, "exit_code")), 0);
	assert_non_null(json_object_get(root, "exit_code"));
	json_decref(root);
}

static void test_make_gap(void **state)
{
	struct event_gap gap = { .count = 12, .detail = "12 lost among the numbers 3 to 20" };
	json_t *root;

	event_make_gap(&event, NULL, NULL, 21, &gap);
	root = write_checked(&context);
	assert_text(root, NULL, "type", "loss");
	assert_text(root, NULL, "op", "gap");
	assert_text(root, NULL, "detail", gap.detail);
	assert_int_equal(json_integer_value(json_object_get(root, "count")), 12);
	json_decref(root);
}

/* --- reading back -------------------------------------------------------------------------- */

static size_t write_line(void)
{
	assert_int_equal(decode(), 0);
	return event_format_json(line, &context, &event);
}

static char *text_of(const struct event_record *r, enum event_format format, bool color,
		     const char *json, size_t n)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_int_equal(event_record_write(out, format, color, r, json, n), 0);
	fclose(out);
	return text;
}

static void check_text(const char *want)
{
	_cleanup_free_ char *text = NULL, *direct = NULL;
	struct event_record r;
	size_t n = write_line(), size;
	FILE *out;

	assert_int_equal(event_record_parse(line, n, &r, NULL), 0);
	text = text_of(&r, EVENT_TEXT, false, line, n);
	event_record_clear(&r);
	assert_string_equal(text, want);
	out = open_memstream(&direct, &size); /* live is the same as recorded */
	assert_int_equal(event_write(out, EVENT_TEXT, false, &context, &event), 0);
	fclose(out);
	assert_string_equal(direct, want);
}

static void test_text_lines(void **state)
{
	static const __u8 dst[] = { 93, 184, 216, 34 };

	record_file();
	check_text("03:04:05.123456  DENY        file     open_write   files.write       "
		   "/etc/passwd                               EROFS   python3[1234]     "
		   "refund-agent/task-7 #42\n");
	record_net(dst, CORDON_OP_CONNECT);
	record.raw.verdict = CORDON_VERDICT_WOULD_DENY;
	record.raw.err = 0;
	record.raw.count = 3;
	check_text("03:04:05.123456  WOULD_DENY  net      connect      network.default   "
		   "tcp 93.184.216.34:443                             python3[1234]     "
		   "refund-agent/task-7 #42 x3\n");
	record.raw.family = AF_INET6;
	record.raw.dst[0] = 0x20;
	check_text("03:04:05.123456  WOULD_DENY  net      connect      network.default   "
		   "tcp [2000::5db8:d822]:443                         python3[1234]     "
		   "refund-agent/task-7 #42 x3\n");
	record_begin(CORDON_TYPE_GUARD, CORDON_OP_SIGNAL, CORDON_RULE_GUARD_SIGNAL);
	record.raw.op_flags = SIGKILL;
	record.raw.target_pid = 1;
	record.raw.err = EPERM;
	check_text("03:04:05.123456  DENY        guard    signal       guard.signal      "
		   "SIGKILL pid 1                             EPERM   python3[1234]     "
		   "refund-agent/task-7 #42\n");
	record_begin(CORDON_TYPE_FILE, CORDON_OP_RENAME, CORDON_RULE_FILES_WRITE);
	record.raw.path_flags = CORDON_PATH_TRUNCATED;
	record.raw.path_len = NAMES("a\nDENY");
	record.raw.path2_len = NAMES("b\0caf\xc3\xa9");
	check_text("03:04:05.123456  DENY        file     rename       files.write       "
		   ".../a\\x0aDENY -> /caf\xc3\xa9/b                          python3[1234]     "
		   "refund-agent/task-7 #42\n");
}

/*
 * Colours are ours; nothing of what a fence chose acts on the terminal, in whatever field it
 * stands.
 */
static void test_text_is_safe(void **state)
{
	static const char hostile[] = "\x1b]0;x\x07\n\r\x9b\xc2\x9b\xe2\x80\xae\x7f";
	struct event_context c = { hostile, hostile, hostile, hostile,
				   hostile, hostile, hostile, hostile };

	for (enum cordon_type type = CORDON_TYPE_FILE; type <= CORDON_TYPE_LOSS; type++) {
		for (unsigned int op = 0; op < CORDON_OP_COUNT; op++) {
			_cleanup_free_ char *text = NULL;
			size_t size;
			FILE *out = open_memstream(&text, &size);

			record_begin(type, op, CORDON_RULE_FILES_WRITE);
			memcpy(record.raw.comm, hostile, 15);
			record.raw.path_len = NAMES("\x1b]0;x\x07\n\r\x9b\xc2\x9b\xe2\x80\xae\x7f");
			record.raw.path2_len = NAMES("\x1b]0;"
						     "x\x07\n\r\x9b\xc2\x9b\xe2\x80\xae\x7f");
			record.raw.unix_len = NAMES("\x1b]0;x\x07\n\r\x9b\xc2\x9b\xe2\x80\xae\x7f");
			assert_int_equal(decode(), 0);
			event.detail = hostile;
			assert_int_equal(event_write(out, EVENT_TEXT, false, &c, &event), 0);
			fclose(out);
			assert_int_equal(text[size - 1], '\n');
			assert_false(event_text_is_unsafe(text, size - 1));
		}
	}
}

static void test_text_color(void **state)
{
	_cleanup_free_ char *text = NULL;
	struct event_record r;
	size_t n;

	record_file();
	n = write_line();
	assert_int_equal(event_record_parse(line, n, &r, NULL), 0);
	text = text_of(&r, EVENT_TEXT, true, line, n);
	event_record_clear(&r);
	assert_non_null(strstr(text, "\033[1;31mDENY"));
}

static void test_longest_text(void **state)
{
	static char json[EVENT_LINE_MAX];
	_cleanup_free_ char *text = NULL;
	struct event_record r;
	size_t n = (size_t)sprintf(json, "{\"schema\":\"cordon.event/"
					 "1\",\"seq\":1,\"time\":\"2026-01-02T03:04:05Z\","
					 "\"type\":\"file\",\"op\":\"x\",\"verdict\":\"deny\","
					 "\"rule\":\"r\",\"fence\":{},"
					 "\"file\":{\"path\":\"");

	while (n < sizeof(json) - 10)
		json[n++] = 0x7f; /* four bytes each as text */
	n += (size_t)sprintf(json + n, "\"}}");
	assert_int_equal(event_record_parse(json, n, &r, NULL), 0);
	text = text_of(&r, EVENT_TEXT, false, json, n);
	event_record_clear(&r);
	assert_non_null(strstr(text, " ...\n"));
	assert_true(strlen(text) < EVENT_LINE_MAX);
}

#define EVENT_JSON_MIN(more)                                                 \
	"{\"schema\":\"cordon.event/"                                        \
	"1\",\"seq\":1,\"time\":\"2026-01-02T03:04:05Z\",\"type\":\"file\"," \
	"\"op\":\"x\",\"verdict\":\"deny\",\"rule\":\"r\",\"fence\":{}" more "}"

static void test_record_refuses(void **state)
{
	static const struct {
		const char *line, *reason;
	} cases[] = {
		{ "", "not JSON" },
		{ "x", "not JSON" },
		{ "[]", "no schema" },
		{ "{}", "no schema" },
		{ "{\"schema\":1}", "no schema" },
		{ "{\"schema\":\"cordon.event/2\"}", "not of schema" },
		{ EVENT_JSON_MIN(",\"seq\":2"), "not JSON" },
		{ EVENT_JSON_MIN("") "x", "not JSON" },
		{ EVENT_JSON_MIN(",\"detail\":\"\\u0000\""), "not JSON" },
		{ EVENT_JSON_MIN(",\"detail\":\"\xff\""), "not JSON" },
		{ "{\"schema\":\"cordon.event/1\",\"seq\":1}", "time" },
		{ "{\"schema\":\"cordon.event/1\",\"time\":\"2026-01-02T03:04:05Z\"}", "seq" },
		{ "{\"schema\":\"cordon.event/1\",\"time\":\"2026-01-02T03:04:05Z\",\"seq\":1}",
		  "fence" },
		{ "{\"schema\":\"cordon.event/"
		  "1\",\"time\":\"2026-01-02T03:04:05Z\",\"seq\":1,\"fence\":{}}",
		  "type" },
	};
	struct event_record r;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error error = { "" };

		assert_int_equal(event_record_parse(cases[i].line, strlen(cases[i].line), &r,
						    &error),
				 -EINVAL);
		if (!strstr(error.text, cases[i].reason))
			fail_msg("%s: %s", cases[i].line, error.text);
		assert_false(event_text_is_unsafe(error.text, strlen(error.text)));
	}
	assert_int_equal(event_record_parse(line, EVENT_LINE_MAX + 1, &r, NULL), -EINVAL);
}

/* Whatever is missing or of another type beyond the minimum: shown as it can be, without a fall. */
static void test_record_odd(void **state)
{
	static const char *const cases[] = {
		EVENT_JSON_MIN(""),
		EVENT_JSON_MIN(",\"file\":7"),
		EVENT_JSON_MIN(",\"file\":{\"path\":7,\"path2\":\"x\"}"),
		EVENT_JSON_MIN(",\"net\":{\"dst\":\"\",\"dport\":\"x\",\"unix\":\"\"}"),
		EVENT_JSON_MIN(",\"net\":[]"),
		EVENT_JSON_MIN(",\"guard\":{\"target_pid\":-1}"),
		EVENT_JSON_MIN(",\"process\":{},\"errno\":5,\"count\":-7,\"exit_code\":null,\"cold_"
			       "start_ns\":\"x\""),
		EVENT_JSON_MIN(",\"process\":{\"comm\":\"\\u001b[2J\\u009b\\u202e\"}"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;
		struct event_record r;

		assert_int_equal(event_record_parse(cases[i], strlen(cases[i]), &r, NULL), 0);
		text = text_of(&r, EVENT_TEXT, false, cases[i], strlen(cases[i]));
		assert_false(event_text_is_unsafe(text, strlen(text) - 1));
		event_record_clear(&r);
	}
}

static void check_json_out(const char *json, const char *want)
{
	_cleanup_free_ char *text = NULL;
	struct event_record r;

	assert_int_equal(event_record_parse(json, strlen(json), &r, NULL), 0);
	text = text_of(&r, EVENT_JSON, true, json, strlen(json));
	event_record_clear(&r);
	assert_string_equal(text, want);
}

static void test_json_passes(void **state)
{
	check_json_out(EVENT_JSON_MIN(", \"detail\": \"caf\xc3\xa9\""),
		       EVENT_JSON_MIN(", \"detail\": \"caf\xc3\xa9\"") "\n");
	check_json_out(EVENT_JSON_MIN(",\"x\":1.50") "\r\n", EVENT_JSON_MIN(",\"x\":1.50") "\n");
	check_json_out(EVENT_JSON_MIN(",\"detail\":\"\xc2\x9b\x7f\xc3\xa9\""),
		       EVENT_JSON_MIN(",\"detail\":\"\\u009B\\u007f\\u00E9\"") "\n");
	check_json_out(EVENT_JSON_MIN(",\t\"a\":1"), EVENT_JSON_MIN(",\"a\":1") "\n");
}

static bool matches(struct event_words *words, const char *list, const struct event_record *r,
		    const struct event_filter *filter)
{
	bool match;

	assert_int_equal(event_words_split(list, words), 0);
	match = event_record_matches(r, filter);
	words->n = 0;
	return match;
}

static void test_filter(void **state)
{
	struct event_filter f = { 0 };
	struct event_record r;
	size_t n;

	record_file();
	n = write_line();
	assert_int_equal(event_record_parse(line, n, &r, NULL), 0);
	assert_true(event_record_matches(&r, &f));
	assert_true(matches(&f.types, "net,file", &r, &f));
	assert_false(matches(&f.types, "net", &r, &f));
	assert_true(matches(&f.verdicts, "deny", &r, &f));
	assert_false(matches(&f.verdicts, "would_deny,allow", &r, &f));
	assert_true(matches(&f.rules, "files", &r, &f));
	assert_true(matches(&f.rules, "files.write", &r, &f));
	assert_false(matches(&f.rules, "file", &r, &f));
	assert_false(matches(&f.rules, "files.write.x", &r, &f));
	assert_true(matches(&f.tasks, "x,task-7", &r, &f));
	assert_false(matches(&f.tasks, "task", &r, &f));
	assert_true(matches(&f.fences, "refund-agent", &r, &f));
	assert_true(matches(&f.fences, "ABCDEF", &r, &f));
	assert_true(matches(&f.fences, "0000000000abcdef", &r, &f));
	assert_false(matches(&f.fences, "abcde", &r, &f));
	f.since_ns = OFFSET_NS + 123456789;
	assert_true(event_record_matches(&r, &f));
	f.since_ns++;
	assert_false(event_record_matches(&r, &f));
	event_record_clear(&r);
}

static void test_words(void **state)
{
	struct event_words words;
	char list[2048];

	assert_int_equal(event_words_split("", &words), -EINVAL);
	assert_int_equal(event_words_split("a,,b", &words), -EINVAL);
	assert_int_equal(event_words_split("a,", &words), -EINVAL);
	assert_int_equal(event_words_split("a,b", &words), 0);
	assert_int_equal(words.n, 2);
	assert_string_equal(words.v[1], "b");
	memset(list, 'a', sizeof(list));
	list[sizeof(list) - 1] = '\0';
	assert_int_equal(event_words_split(list, &words), -E2BIG);
	for (size_t i = 0; i < 2 * EVENT_FILTER_WORDS; i++)
		list[i] = i % 2 ? ',' : 'a';
	list[2 * EVENT_FILTER_WORDS - 1] = '\0';
	assert_int_equal(event_words_split(list, &words), 0);
	strcat(list, ",a");
	assert_int_equal(event_words_split(list, &words), -E2BIG);
}

/* --- accounting ---------------------------------------------------------------------------- */

static struct event_tracker tracker;
static struct event_gap gap;

/* One delivered event; returns how many are reported as lost before it. */
static uint32_t see(uint64_t seq, uint64_t lost, uint64_t ms)
{
	struct cordon_event raw = {
		.seq = seq, .lost = lost, .mono_ns = (ms + 1) * 1000000, .op = CORDON_OP_CONNECT
	};

	return event_tracker_see(&tracker, &raw, &gap) ? gap.count : 0;
}

static void see_gap_record(uint64_t seq)
{
	struct cordon_event raw = { .seq = seq, .op = CORDON_OP_GAP, .mono_ns = INT64_MAX };
	struct event_gap none;

	assert_false(event_tracker_see(&tracker, &raw, &none));
}

/* What the end still reports; the gap record takes the next number. Returns the final number. */
static uint64_t finish(uint64_t numbered, uint64_t *ret_reported)
{
	*ret_reported = 0;
	while (event_tracker_finish(&tracker, numbered, &gap)) {
		*ret_reported += gap.count;
		see_gap_record(++numbered);
	}
	assert_true(tracker.received + tracker.reported == numbered - tracker.first + 1);
	return numbered;
}

static void test_tracker_in_order(void **state)
{
	uint64_t reported;

	event_tracker_init(&tracker, 0, 0);
	for (uint64_t seq = 1; seq <= 10000; seq++)
		assert_int_equal(see(seq, 0, seq), 0);
	assert_true(finish(10000, &reported) == 10000);
	assert_true(reported == 0 && tracker.repeated == 0);
}

static void test_tracker_reorder_is_no_loss(void **state)
{
	static const uint64_t order[] = { 3, 1, 2, 6, 5, 4, 9, 7, 10, 8 };
	uint64_t reported;

	event_tracker_init(&tracker, 0, 0);
	for (uint64_t base = 0; base < 100000; base += 10)
		for (size_t i = 0; i < ARRAY_SIZE(order); i++)
			assert_int_equal(see(base + order[i], 0, base), 0);
	finish(100000, &reported);
	assert_true(reported == 0 && tracker.repeated == 0 && tracker.missing == 0);
}

static void test_tracker_counted_loss(void **state)
{
	uint64_t reported;

	event_tracker_init(&tracker, 0, 0);
	assert_int_equal(see(1, 0, 0), 0);
	assert_int_equal(see(5, 3, 1), 3); /* 2, 3, 4: at once */
	assert_true(gap.first == 2 && gap.last == 5);
	assert_non_null(strstr(gap.detail, "3 lost among the numbers 2 to 5"));
	see_gap_record(6);
	assert_int_equal(see(7, 3, 2), 0);
	assert_int_equal(see(9, 4, 3), 0); /* too soon after the last record */
	assert_int_equal(see(10, 4, 200), 1);
	assert_true(gap.last == 10);
	see_gap_record(11);
	finish(11, &reported);
	assert_true(reported == 0);
}

static void test_tracker_burst(void **state)
{
	uint64_t reported = 0, seq = 0, lost = 0, records = 0, rest;

	event_tracker_init(&tracker, 0, 0);
	for (unsigned int i = 0; i < 100000; i++) { /* one in a hundred arrives, 10 us apart */
		lost += 99;
		seq += 100;
		if (see(seq, lost, i / 100)) {
			reported += gap.count;
			records++;
			see_gap_record(++seq);
		}
		assert_true(reported <= lost);
	}
	assert_true(records <= 11); /* a second of flood: ten a second */
	finish(seq, &rest);
	assert_true(reported + rest == lost);
}

static void test_tracker_loss_at_the_end(void **state)
{
	uint64_t reported;

	event_tracker_init(&tracker, 0, 0);
	assert_int_equal(see(1, 0, 0), 0);
	assert_true(finish(8, &reported) == 9);
	assert_true(reported == 7);
	assert_true(gap.first == 2 && gap.last == 8);
	assert_true(finish(9, &reported) == 9);
	assert_true(reported == 0);
}

static void test_tracker_poll(void **state)
{
	uint64_t reported;

	event_tracker_init(&tracker, 0, 0);
	assert_int_equal(see(1, 0, 0), 0);
	assert_false(event_tracker_poll(&tracker, 1, 0, 1, &gap));
	assert_true(event_tracker_poll(&tracker, 6, 5, 1000000000,
				       &gap)); /* nothing arrives any more */
	assert_int_equal(gap.count, 5);
	assert_true(gap.first == 2 && gap.last == 6);
	assert_false(event_tracker_poll(&tracker, 6, 5, 9000000000, &gap));
	see_gap_record(7);
	assert_true(finish(7, &reported) == 7 && reported == 0);
}

/*
 * A record that was refused, or that nobody counted: found when it passes out of the window, or at
 * the end.
 */
static void test_tracker_uncounted_loss(void **state)
{
	uint64_t reported = 0, rest;

	event_tracker_init(&tracker, 0, 0);
	for (uint64_t seq = 1; seq <= 3 * EVENT_TRACKER_WINDOW; seq++)
		if (seq != 100 && seq != 3 * EVENT_TRACKER_WINDOW - 1)
			reported += see(seq, 0, seq);
	assert_true(reported == 1);
	finish(3 * EVENT_TRACKER_WINDOW, &rest);
	assert_true(rest == 2 - 0 - reported);
}

static void test_tracker_jump(void **state)
{
	uint64_t reported;

	event_tracker_init(&tracker, 0, 0);
	assert_int_equal(see(1, 0, 0), 0);
	assert_int_equal(see(10 * EVENT_TRACKER_WINDOW, 0, 1), 9 * EVENT_TRACKER_WINDOW - 1);
	finish(10 * EVENT_TRACKER_WINDOW, &reported);
	assert_int_equal(reported, EVENT_TRACKER_WINDOW - 1);

	event_tracker_init(&tracker, 0, 0);
	assert_int_equal(see(1, 0, 0), 0);
	assert_true(see(1000000000000ULL, 0, 1000) ==
		    UINT32_MAX);	  /* more than one record can say */
	see_gap_record(1000000000001ULL); /* which does not beget another at once */
	assert_true(see(1000000000002ULL, 0, 2000) == UINT32_MAX);
}

static void test_tracker_starts_later(void **state)
{
	uint64_t reported;

	event_tracker_init(&tracker, 1000, 50);
	assert_int_equal(see(1001, 50, 0), 0);
	assert_int_equal(see(1004, 52, 1), 2);
	see_gap_record(1005);
	assert_true(finish(1005, &reported) == 1005 && reported == 0);
	event_tracker_init(&tracker, 1000, 50);
	assert_true(finish(1000, &reported) == 1000 && reported == 0);
}

static void test_tracker_odd_numbers(void **state)
{
	event_tracker_init(&tracker, 0, 0);
	see(0, 0, 0);
	see(1, 0, 0);
	see(1, 0, 0);
	see(3, 0, 0);
	see(3, 0, 0);
	assert_true(tracker.repeated == 3 && tracker.received == 2);
	see(UINT64_MAX, 0, 0); /* no endless loop, no overflow of an index */
	see(UINT64_MAX - 1, UINT64_MAX, 0);
	see(5, 0, 0);
}

/*
 * CPUs number events, lose some of them (counted later or, rarely, never) and deliver the others
 * out of order; user space numbers its gap records in between. Never is more reported than was
 * lost, and in the end all adds up.
 */
static void simulate(unsigned int seed, unsigned int loss_per_mille,
		     unsigned int uncounted_per_mille)
{
	enum { CPUS = 8, STEPS = 50000 };
	struct {
		uint64_t seq;
		uint64_t lost_seen;
	} pending[CPUS] = { { 0, 0 } };
	uint64_t numbered = 0, lost = 0, uncounted = 0, reported = 0, delivered = 0, rest;

	srandom(seed);
	event_tracker_init(&tracker, 0, 0);
	for (unsigned int step = 0; step < STEPS; step++) {
		size_t cpu = (size_t)random() % CPUS;

		if (!pending[cpu].seq) {
			pending[cpu].seq = ++numbered;
			pending[cpu].lost_seen = lost;
			continue;
		}
		if ((unsigned int)random() % 1000 < loss_per_mille) {
			lost++;
		} else if ((unsigned int)random() % 1000 < uncounted_per_mille) {
			uncounted++;
		} else {
			delivered++;
			if (see(pending[cpu].seq, pending[cpu].lost_seen, step / 10)) {
				reported += gap.count;
				assert_true(gap.first <= gap.last && gap.last <= numbered);
				see_gap_record(++numbered);
				delivered++;
			}
			assert_true(reported <= lost + uncounted);
		}
		pending[cpu].seq = 0;
	}
	for (size_t cpu = 0; cpu < CPUS; cpu++) /* drained */
		if (pending[cpu].seq) {
			delivered++;
			if (see(pending[cpu].seq, pending[cpu].lost_seen, STEPS)) {
				reported += gap.count;
				see_gap_record(++numbered);
				delivered++;
			}
		}
	assert_true(tracker.repeated == 0 && tracker.received == delivered);
	finish(numbered, &rest);
	assert_true(reported + rest == lost + uncounted);
}

static void test_tracker_simulation(void **state)
{
	for (unsigned int seed = 1; seed <= 10; seed++) {
		simulate(seed, 0, 0);
		simulate(seed, 1, 0);
		simulate(seed, 300, 0);
		simulate(seed, 990, 0);
		simulate(seed, 10, 1);
		simulate(seed, 0, 20);
	}
}

/* --- what is published --------------------------------------------------------------------- */

static void check_fresh(const char *path, void (*print)(FILE *out), const char *option)
{
	size_t size, n;
	_cleanup_free_ char *want = print_to_memory(print, &size);
	_cleanup_free_ char *got = calloc(1, size + 2);
	_cleanup_fclose_ FILE *file = fopen(path, "r");

	if (!file)
		fail_msg("%s: %s (run this in the root of the source tree)", path, strerror(errno));
	n = fread(got, 1, size + 1, file);
	if (n != size || memcmp(got, want, size) != 0)
		fail_msg("%s is stale: run build/cordon events %s > %s", path, option, path);
}

static void test_docs_are_fresh(void **state)
{
	check_fresh("docs/event.schema.json", event_print_schema, "--print-schema");
	check_fresh("docs/events.md", event_print_doc, "--print-doc");
}

/* The checker itself: broken events must not pass, or the other tests prove nothing. */
static void test_schema_refuses(void **state)
{
	static const struct {
		const char *object, *key, *value;
	} cases[] = {
		{ NULL, "seq", "\"1\"" },
		{ NULL, "seq", "-1" },
		{ NULL, "type", "\"net\"" },
		{ NULL, "op", "\"connect\"" },
		{ NULL, "op", "\"x\"" },
		{ NULL, "verdict", "\"?\"" },
		{ NULL, "time", "\"2026-01-02T03:04:05Z\"" },
		{ NULL, "errno", "30" },
		{ NULL, "extra", "1" },
		{ NULL, "schema", "\"cordon.event/2\"" },
		{ "fence", "id", "\"abc\"" },
		{ "fence", "mode", "\"off\"" },
		{ "fence", "task", "7" },
		{ "process", "exec_id", "\"x-1\"" },
		{ "process", "cgroup", "5" },
		{ "file", "path_truncated", "false" },
		{ "file", "dev", "\"8\"" },
		{ "file", "extra", "1" },
		{ NULL, "file", NULL },
		{ NULL, "fence", NULL },
		{ "process", "comm", NULL },
		{ "fence", "container", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct schema_fault fault = { "" };
		json_t *root, *object;

		record_file();
		root = decode_and_write();
		object = cases[i].object ? json_object_get(root, cases[i].object) : root;
		if (cases[i].value)
			json_object_set_new(object, cases[i].key,
					    json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
		else
			json_object_del(object, cases[i].key);
		if (schema_check(schema, root, true, &fault))
			fail_msg("%s passes", cases[i].key);
		json_decref(root);
	}
}

/* Known forms of secrets (E-13), each with its neighbour that is none. */
static void test_secrets(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "/x/Authorization: Bearer tok_123456", "/x/Authorization: Bearer [redacted]" },
		{ "/x/bearer of news", "/x/bearer of news" },
		{ "http://bob:hunter2@h/p", "http://bob:[redacted]@h/p" },
		{ "http://bob@h:80/p", "http://bob@h:80/p" },
		{ "http://h:80/p@q", "http://h:80/p@q" },
		{ "/q?token=abc&x=1", "/q?token=[redacted]&x=1" },
		{ "/q?API_KEY=abc", "/q?API_KEY=[redacted]" },
		{ "{\"password\": \"abc\"}", "{\"password\": \"[redacted]\"}" },
		{ "/q?tokens=5/a", "/q?tokens=5/a" },
		{ "token=a&token=b", "token=[redacted]&token=[redacted]" },
		{ "/w/AKIAABCDEFGHIJKLMNOP", "/w/[redacted]" },
		{ "/w/AKIAabcdefghijklmnop", "/w/AKIAabcdefghijklmnop" },
		{ "/w/ghp_abcdefghijklmnopqrstuvwxyz0123456789", "/w/ghp_[redacted]" },
		{ "/w/sk-abcdefghijklmnopqrstuv", "/w/sk-[redacted]" },
		{ "/w/task-abcdefghijklmnopqrstuv", "/w/task-abcdefghijklmnopqrstuv" },
		{ "/w/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "/w/[redacted]" },
		{ "/w/eyJhbGciOiJIUzI1NiJ9", "/w/eyJhbGciOiJIUzI1NiJ9" },
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6" },
		{ "token=", "token=" },
		{ "Bearer ", "Bearer " },
	};
	static char text[EVENT_LINE_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct event_context whose = { .task = cases[i].text };
		static struct event made_event;
		json_t *made;
		size_t n;

		event_make(&made_event, CORDON_OP_START, NULL, NULL, 1, cases[i].text);
		made_event.path = (struct event_bytes){ cases[i].text, strlen(cases[i].text) };
		n = event_format_json(text, &whose, &made_event);
		made = json_loadb(text, n, 0, NULL);
		assert_non_null(made);
		assert_string_equal(json_string_value(json_object_get(made, "detail")),
				    cases[i].want);
		assert_string_equal(
			json_string_value(json_object_get(json_object_get(made, "fence"), "task")),
			cases[i].want);
		assert_string_equal(
			json_string_value(json_object_get(json_object_get(made, "file"), "path")),
			cases[i].want);
		json_decref(made);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_secrets),
		cmocka_unit_test(test_golden_file),
		cmocka_unit_test(test_golden_net),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_root_and_unknown_path),
		cmocka_unit_test(test_unix_names),
		cmocka_unit_test(test_decode_sizes),
		cmocka_unit_test(test_decode_refuses),
		cmocka_unit_test(test_decode_names_limit),
		cmocka_unit_test(test_every_word),
		cmocka_unit_test(test_gateway_members),
		cmocka_unit_test(test_names_beyond),
		cmocka_unit_test(test_context),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_net_members),
		cmocka_unit_test(test_guard_members),
		cmocka_unit_test(test_every_member_shows),
		cmocka_unit_test(test_longest_line),
		cmocka_unit_test(test_pointless_bytes_of_comm),
		cmocka_unit_test(test_write_errors),
		cmocka_unit_test(test_escape_every_byte),
		cmocka_unit_test(test_escape_random),
		cmocka_unit_test(test_escape_unicode),
		cmocka_unit_test_setup(test_symbols, buffer_begin),
		cmocka_unit_test_setup(test_symbols_of_others, buffer_begin),
		cmocka_unit_test_setup(test_time_against_libc, buffer_begin),
		cmocka_unit_test(test_time_parsing),
		cmocka_unit_test(test_fence_ids),
		cmocka_unit_test(test_buffer_overflow),
		cmocka_unit_test(test_make),
		cmocka_unit_test(test_make_gap),
		cmocka_unit_test(test_text_lines),
		cmocka_unit_test(test_text_is_safe),
		cmocka_unit_test(test_text_color),
		cmocka_unit_test(test_longest_text),
		cmocka_unit_test(test_record_refuses),
		cmocka_unit_test(test_record_odd),
		cmocka_unit_test(test_json_passes),
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_tracker_in_order),
		cmocka_unit_test(test_tracker_reorder_is_no_loss),
		cmocka_unit_test(test_tracker_counted_loss),
		cmocka_unit_test(test_tracker_burst),
		cmocka_unit_test(test_tracker_loss_at_the_end),
		cmocka_unit_test(test_tracker_poll),
		cmocka_unit_test(test_tracker_uncounted_loss),
		cmocka_unit_test(test_tracker_jump),
		cmocka_unit_test(test_tracker_starts_later),
		cmocka_unit_test(test_tracker_odd_numbers),
		cmocka_unit_test(test_tracker_simulation),
		cmocka_unit_test(test_docs_are_fresh),
		cmocka_unit_test(test_schema_refuses),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests_name("event", tests, schema_load, schema_unload);
}
