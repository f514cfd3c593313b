// SPDX-License-Identifier: Apache-2.0
/* user/cordond without a kernel: requests, messages between the two processes, the history, the configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cordond/history.h"
#include "cordond/how.h"
#include "cordond/keeper_ceilings.h"
#include "cordond/protocol.h"
#include "cordond/settings.h"
#include "cordond/wire.h"

/* --- requests --------------------------------------------------------------------------------- */

static int parse(const char *line, struct cordond_request *r)
{
	struct error error = { "" };
	int err = cordond_request_parse(line, strlen(line), r, &error);

	assert_true(!err == !error.text[0]);
	return err;
}

static void test_requests(void **state)
{
	struct cordond_request r;

	(void)state;
	assert_int_equal(parse("{\"do\":\"attach\",\"cgroup\":\"/c\",\"pid\":7,\"policy\":\"a: 1\\n"
			       "\\tb\",\"audit\":true}\n",
			       &r),
			 0);
	assert_int_equal(r.verb, CORDOND_DO_ATTACH);
	assert_int_equal(cordond_verb_need(r.verb), CORDOND_OPERATE);
	assert_string_equal(cordond_text(&r, CORDOND_policy), "a: 1\n\tb");
	assert_null(cordond_text(&r, CORDOND_task));
	assert_int_equal(cordond_number(&r, CORDOND_pid), 7);
	assert_true(cordond_flag(&r, CORDOND_audit));
	assert_false(cordond_flag(&r, CORDOND_own_root));
	cordond_request_clear(&r);
	assert_int_equal(parse("{\"do\":\"list\"}", &r), 0);
	assert_true(cordond_verb_need(r.verb) & CORDOND_READ);
	cordond_request_clear(&r);
}

static void test_refused(void **state)
{
	static const char *const lines[] = {
		"",
		"[]",
		"{}",
		"{\"do\":1}",
		"{\"do\":\"attach\"}",
		"{\"do\":\"attach\",\"cgroup\":\"/c\"}",
		"{\"do\":\"attach\",\"cgroup\":\"/c\",\"pid\":0}",
		"{\"do\":\"attach\",\"cgroup\":\"/c\",\"pid\":4294967297}",
		"{\"do\":\"attach\",\"cgroup\":\"/c\\n\",\"pid\":1}",
		"{\"do\":\"attach\",\"cgroup\":\"/c\",\"pid\":1,\"policy\":\"a\\u0001\"}",
		"{\"do\":\"attach\",\"cgroup\":\"/c\",\"pid\":1,\"ring_bytes\":1}",
		"{\"do\":\"attach\",\"cgroup\":\"/c\",\"pid\":1,\"event_rate\":0}",
		"{\"do\":\"attach\",\"cgroup\":\"/c\",\"pid\":1,\"event_rate\":1000001}",
		"{\"do\":\"attach\",\"cgroup\":\"/c\",\"pid\":1,\"fence\":\"x\"}",
		"{\"do\":\"detach\",\"fence\":\"\"}",
		"{\"do\":\"detach\",\"fence\":\"x\",\"fence\":\"y\"}",
		"{\"do\":\"detach\",\"fence\":5}",
		"{\"do\":\"events\",\"follow\":1}",
		"{\"do\":\"reload\",\"fence\":\"x\"}",
		"{\"do\":\"status\"}{\"do\":\"status\"}",
	};
	struct cordond_request r;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_int_equal(parse(lines[i], &r), -EINVAL);
}

/* --- messages --------------------------------------------------------------------------------- */

static union wire_message message, got;

static void pair_make(int fds[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
}

static void pair_close(int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

static void test_wire(void **state)
{
	int fds[2], came[WIRE_FDS_MAX], null = open("/dev/null", O_RDONLY);
	struct stat a, b;

	(void)state;
	pair_make(fds);
	message.DETACH.fence_id = 42;
	assert_int_equal(wire_send(fds[0], WIRE_DETACH, 9, &message, NULL), 0);
	assert_int_equal(wire_receive(fds[1], true, &got, came), 1);
	assert_int_equal(got.head.type, WIRE_DETACH);
	assert_int_equal(got.head.serial, 9);
	assert_int_equal(got.DETACH.fence_id, 42);
	assert_int_equal(came[0], -1);
	assert_int_equal(wire_receive(fds[1], true, &got, came), 0);
	assert_int_equal(wire_send(fds[0], WIRE_ATTACH, 1, &message, &null), 0);
	assert_int_equal(wire_receive(fds[1], true, &got, came), 1);
	assert_true(!fstat(null, &a) && !fstat(came[0], &b) && a.st_ino == b.st_ino);
	close(came[0]);
	close(fds[0]);
	assert_int_equal(wire_receive(fds[1], true, &got, came), -ECONNRESET);
	close(fds[1]);
	close(null);
}

/* What is not in the table, by its direction, size, version, type, or descriptors. */
static void test_wire_refused(void **state)
{
	int fds[2], came[WIRE_FDS_MAX], null = open("/dev/null", O_RDONLY);
	struct wire_head head = { WIRE_MAGIC, WIRE_VERSION, WIRE_PONG, sizeof(head), 0 };
	const struct wire_head bad[] = {
		{ WIRE_MAGIC + 1, WIRE_VERSION, WIRE_PONG, sizeof(head), 0 },
		{ WIRE_MAGIC, WIRE_VERSION + 1, WIRE_PONG, sizeof(head), 0 },
		{ WIRE_MAGIC, WIRE_VERSION, WIRE_NONE, sizeof(head), 0 },
		{ WIRE_MAGIC, WIRE_VERSION, WIRE_TYPE_COUNT, sizeof(head), 0 },
		{ WIRE_MAGIC, WIRE_VERSION, 0xffff, sizeof(head), 0 },
		{ WIRE_MAGIC, WIRE_VERSION, WIRE_DETACH, sizeof(head), 0 },
		{ WIRE_MAGIC, WIRE_VERSION, WIRE_PONG, sizeof(head) + 1, 0 },
		{ WIRE_MAGIC, WIRE_VERSION, WIRE_STOP, sizeof(head), 0 },
	};

	(void)state;
	pair_make(fds);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(send(fds[0], &bad[i], sizeof(bad[i]), 0), sizeof(bad[i]));
		assert_int_equal(wire_receive(fds[1], true, &got, came), -EPROTO);
	}
	assert_int_equal(send(fds[0], &head, sizeof(head) - 1, 0), sizeof(head) - 1);
	assert_int_equal(wire_receive(fds[1], true, &got, came), -EPROTO);
	assert_int_equal(send(fds[0], &head, sizeof(head), 0), sizeof(head));
	assert_int_equal(wire_receive(fds[1], true, &got, came), 1);
	/* ATTACH without its descriptor. */
	message.head = (struct wire_head){ WIRE_MAGIC, WIRE_VERSION, WIRE_ATTACH,
					   sizeof(struct wire_attach), 0 };
	assert_int_equal(send(fds[0], &message, sizeof(struct wire_attach), 0),
			 sizeof(struct wire_attach));
	assert_int_equal(wire_receive(fds[1], true, &got, came), -EPROTO);
	close(null);
	pair_close(fds);
}

/* What is kept of a fence's making comes back the same, and another identity takes the place of the first. */
static void test_how(void **state)
{
	static struct wire_fence full = { .pid = 12,
					  .own_root = 1,
					  .ring_bytes = 1 << 20,
					  .event_rate = 500,
					  .made_ns = 77 },
				 back;
	struct how how = { .cgroup = NULL };

	(void)state;
	how_get(&how, &back);
	assert_int_equal(back.ring_bytes, 0);
	assert_string_equal(how_text(&how, IDENTITY_TASK), "");
	memset(full.cgroup, '/', sizeof(full.cgroup) - 1);
	full.identity = (struct identity){
		.fence_id = 5, .n_scopes = 1, .task = "task", .scopes = { "refund:create" }
	};
	assert_int_equal(how_set(&how, &full), 0);
	how_get(&how, &back);
	assert_memory_equal(&back, &full, sizeof(back));
	strcpy(full.identity.task, "another");
	assert_int_equal(how_identity_set(&how, &full.identity), 0);
	assert_string_equal(how_text(&how, IDENTITY_TASK), "another");
	strcpy(full.cgroup, "/short");
	memset(full.cgroup + 7, 0, sizeof(full.cgroup) - 7);
	assert_int_equal(how_set(&how, &full), 0);
	how_get(&how, &back);
	assert_memory_equal(&back, &full, sizeof(back));
	how_clear(&how);
}

/* --- history ---------------------------------------------------------------------------------- */

struct seen {
	uint64_t evicted, last;
};

static void on_evict(void *context, uint64_t at, const struct history_entry *entry)
{
	struct seen *seen = context;

	assert_true(entry->seq == seen->last + 1);
	assert_true(entry->bytes && entry->line[0] == 'a' + (char)(entry->seq % 26));
	seen->evicted++;
	seen->last = entry->seq;
	(void)at;
}

/* Lines of all lengths around the ring many times: what is there is whole, in order, and what went was told of once. */
static void test_history(void **state)
{
	struct seen seen = { 0, 0 };
	struct history *h = history_new(4096, on_evict, &seen);
	char line[1200];

	(void)state;
	assert_non_null(h);
	for (uint64_t seq = 1; seq <= 20000; seq++) {
		size_t n = 1 + seq * 7919 % 900;
		uint64_t at = history_oldest(h), next, want = seen.last + 1, count = 0;
		const struct history_entry *entry;

		memset(line, 'a' + (char)(seq % 26), n);
		assert_true(history_add(h, 1, seq, line, n));
		for (at = history_oldest(h), want = seen.last + 1;
		     (entry = history_at(h, at, &next)); at = next) {
			assert_int_equal(entry->seq, want++);
			count++;
		}
		assert_int_equal(next, history_newest(h));
		assert_int_equal(count + seen.evicted, seq);
		assert_true(history_newest(h) - history_oldest(h) <= 4096);
	}
	assert_false(history_add(h, 1, 0, line, sizeof(line)));
	history_free(h);
	history_free(NULL);
}

/* --- configuration ---------------------------------------------------------------------------- */

static int settings(const char *text, struct settings *s, unsigned int *ret_line)
{
	static struct conf_faults faults;
	int err;

	memset(&faults, 0, sizeof(faults));
	memset(s, 0, sizeof(*s));
	err = settings_read(text, strlen(text), s, &faults);
	*ret_line = faults.n ? faults.v[0].line : 0;
	conf_faults_clear(&faults);
	return err;
}

#define LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_metrics_address(void **state)
{
	static const char *const good[] = { "127.0.0.1:9464", "127.8.9.1:1", "[::1]:65535",
					    "unix:/run/cordon/metrics/socket" };
	char text[128];
	struct settings s;
	unsigned int line;

	(void)state;
	assert_int_equal(settings("", &s, &line), 0);
	assert_null(s.metrics); /* off */
	assert_int_equal(s.cold_start_ms, 5000);
	settings_clear(&s);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		snprintf(text, sizeof(text),
			 "cordond: 1\nmetrics: {address: '%s', cold_start: 250ms}\n", good[i]);
		assert_int_equal(settings(text, &s, &line), 0);
		assert_string_equal(s.metrics, good[i]);
		assert_int_equal(s.cold_start_ms, 250);
		settings_clear(&s);
	}
}

static void test_alerts(void **state)
{
	struct settings s;
	unsigned int line;

	(void)state;
	assert_int_equal(settings("", &s, &line), 0); /* on */
	assert_int_equal(s.alert_denials, 100);
	assert_int_equal(s.alert_window_ms, 60000);
	assert_int_equal(s.alert_quiet_ms, 300000);
	assert_int_equal(s.alert_calls, 20);
	assert_int_equal(s.alert_calls_window_ms, 300000);
	assert_string_equal(s.gateway, "cordon-gateway");
	settings_clear(&s);
	assert_int_equal(
		settings("cordond: 1\ncontrol: {gateway: g}\nalerts: {deny_rate: {denials: 0}, "
			 "destructive: {calls: 5, window: 2m}, quiet: 1s}\n",
			 &s, &line),
		0);
	assert_int_equal(s.alert_calls, 5);
	assert_int_equal(s.alert_calls_window_ms, 120000);
	assert_string_equal(s.gateway, "g");
	assert_int_equal(s.alert_denials, 0);
	assert_int_equal(s.alert_window_ms, 60000);
	assert_int_equal(s.alert_quiet_ms, 1000);
	settings_clear(&s);
}

static void test_settings(void **state)
{
	static const struct {
		const char *text;
		unsigned int line;
	} bad[] = {
		{ "cordond: 2\n", 1 },
		{ "control: {}\n", 1 },
		{ "cordond: 1\nlimits: {followers: 0}\n", 2 },
		{ "cordond: 1\nlimits: {followers: 65}\n", 2 },
		{ "cordond: 1\nlimits:\n  history: 1K\n", 3 },
		{ "cordond: 1\nlimits: {event_rate: 0}\n", 2 },
		{ "cordond: 1\nlimits: {event_rate: 1000001}\n", 2 },
		{ "cordond: 1\ncontrol: {readers: []}\n", 2 },
		{ "cordond: 1\nsocket: /x\n", 2 },
		{ "cordond: 1\ncordond: 1\n", 2 },
		{ "cordond: 1\nmetrics: {address: 0.0.0.0:9464}\n", 2 },
		{ "cordond: 1\nmetrics: {address: 10.0.0.1:9464}\n", 2 },
		{ "cordond: 1\nmetrics: {address: 127.0.0.1}\n", 2 },
		{ "cordond: 1\nmetrics: {address: 127.0.0.1:0}\n", 2 },
		{ "cordond: 1\nmetrics: {address: 127.0.0.1:65536}\n", 2 },
		{ "cordond: 1\nmetrics: {address: 127.0.0.1 :80}\n", 2 },
		{ "cordond: 1\nmetrics: {address: localhost:80}\n", 2 },
		{ "cordond: 1\nmetrics: {address: '[::]:80'}\n", 2 },
		{ "cordond: 1\nmetrics: {address: '[::ffff:127.0.0.1]:80'}\n", 2 },
		{ "cordond: 1\nmetrics: {address: '::1:80'}\n", 2 },
		{ "cordond: 1\nmetrics: {address: '[]:80'}\n", 2 },
		{ "cordond: 1\nmetrics: {address: unix:relative}\n", 2 },
		{ "cordond: 1\nmetrics: {address: /a/path}\n", 2 },
		{ "cordond: 1\nmetrics: {address: unix:/" LONG LONG "}\n", 2 },
		{ "cordond: 1\nmetrics: {address: unix:/m, cold_start: 0s}\n", 2 },
		{ "cordond: 1\nmetrics: {adress: unix:/m}\n", 2 },
		{ "cordond: 1\nalerts: {deny_rate: {denials: -1}}\n", 2 },
		{ "cordond: 1\nalerts: {deny_rate: {denials: 1000000001}}\n", 2 },
		{ "cordond: 1\nalerts: {deny_rate: {window: 999ms}}\n", 2 },
		{ "cordond: 1\nalerts: {quiet: 25h}\n", 2 },
		{ "cordond: 1\nalerts: {destructive: {calls: 1001}}\n", 2 },
		{ "cordond: 1\nalerts: {destructive: {window: 0s}}\n", 2 },
		{ "cordond: 1\nalerts: {destructive: 3}\n", 2 },
		{ "cordond: 1\ncontrol: {gateway: []}\n", 2 },
	};
	struct settings s;
	unsigned int line;

	(void)state;
	assert_int_equal(settings("", &s, &line), 0);
	assert_int_equal(s.followers, 16);
	assert_int_equal(s.event_rate, 2000);
	assert_string_equal(s.operators, "cordon-operators");
	settings_clear(&s);
	assert_int_equal(settings("cordond: 1\ncontrol: {readers: r}\nlimits: {followers: 3, "
				  "event_rate: 7, history: "
				  "2M}\n",
				  &s, &line),
			 0);
	assert_int_equal(s.followers, 3);
	assert_int_equal(s.event_rate, 7);
	assert_int_equal(s.history, 2 * 1024 * 1024);
	assert_string_equal(s.readers, "r");
	settings_clear(&s);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(settings(bad[i].text, &s, &line), -EINVAL);
		assert_int_equal(line, bad[i].line);
	}
}

/* --- ceilings that the keeper holds, on a directory that looks like a cgroup ------------------ */

static void put(const char *dir, const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void assert_file(const char *dir, const char *name, const char *want)
{
	char path[128], have[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(have, sizeof(have), f));
	fclose(f);
	have[strcspn(have, "\n")] = '\0';
	assert_string_equal(have, want);
}

/* How often files were written since the last time. Equal events that follow each other are one: so both kinds are asked for. */
static unsigned int writes(int watch)
{
	_Alignas(struct inotify_event) char events[4096];
	ssize_t size = read(watch, events, sizeof(events));
	unsigned int n = 0;

	for (ssize_t at = 0; at < size;) {
		const struct inotify_event *event = (const void *)(events + at);

		n += event->mask & IN_CLOSE_WRITE ? 1 : 0;
		at += (ssize_t)(sizeof(*event) + event->len);
	}
	return n;
}

static void test_ceilings(void **state)
{
	static const char *const files[] = { "pids.max", "pids.events", "cpu.stat", "cpu.max",
					     "memory.events" };
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char dir[] = "/tmp/cordon-unit-XXXXXX", path[128];
	struct host_cgroup cgroup = { .fd = -1 };
	struct keeper_ceilings c = { .limits = { .pids = 100 }, .time_ms = 60000 }, next;
	struct keeper_reached reached[KEEPER_REACHED_N];
	struct error error = { "" };
	uint64_t now;
	bool kill;

	(void)state;
	/* Files of a cgroup are written over, not cut off: here values of three characters look the same. */
	assert_non_null(mkdtemp(dir));
	cgroup.fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cgroup.path = dir;
	put(dir, "pids.max", "max\n");
	put(dir, "pids.events", "max 3\n");
	put(dir, "cpu.stat", "nr_throttled 0\n");
	put(dir, "memory.events", "oom_kill 0\n");
	assert_int_equal(keeper_ceilings_apply(&c, &cgroup, &error), 0);
	assert_file(dir, "pids.max", "100");
	/* What was before the fence is not told, what comes is, and once. */
	now = c.begin_ms + 2000;
	assert_int_equal(keeper_ceilings_look(&c, &cgroup, now, reached, &kill), 0);
	put(dir, "pids.events", "max 8\n");
	assert_int_equal(keeper_ceilings_look(&c, &cgroup, now + 10, reached, &kill),
			 0); /* too soon */
	assert_int_equal(keeper_ceilings_look(&c, &cgroup, now += 1000, reached, &kill), 1);
	assert_int_equal(reached[0].limit, HOST_LIMIT_PIDS);
	assert_int_equal(reached[0].count, 5);
	assert_false(kill);
	assert_int_equal(keeper_ceilings_look(&c, &cgroup, now += 1000, reached, &kill), 0);
	/* Others of another policy, by one write: nobody sees the file without a limit. */
	put(dir, "cpu.max", "900000 100000\n");
	assert_true(inotify_add_watch(watch, dir, IN_MODIFY | IN_CLOSE_WRITE) >= 0);
	next = (struct keeper_ceilings){ .limits = { .pids = 200 }, .time_ms = 30000 };
	assert_int_equal(keeper_ceilings_change(&c, &next, &cgroup, &error), 0);
	assert_file(dir, "pids.max", "200");
	assert_int_equal(writes(watch), 1);
	assert_int_equal(keeper_ceilings_change(&c, &next, &cgroup, &error), 0);
	assert_int_equal(writes(watch), 0);
	/* And what was before them if they cannot be put: there is no memory.max. */
	next = (struct keeper_ceilings){ .limits = { .cpu_milli = 1500, .memory_bytes = 1 << 20 },
					 .time_ms = 1 };
	assert_int_not_equal(keeper_ceilings_change(&c, &next, &cgroup, &error), 0);
	assert_int_equal(writes(watch), 2);
	assert_file(dir, "cpu.max", "900000 100000");
	assert_file(dir, "pids.max", "200");
	assert_int_equal(c.time_ms, 30000);
	/* The time: told once, held for ever. */
	now = c.begin_ms + 29999;
	assert_int_equal(keeper_ceilings_look(&c, &cgroup, now, reached, &kill), 0);
	assert_false(kill);
	now = c.begin_ms + 31000;
	assert_int_equal(keeper_ceilings_look(&c, &cgroup, now, reached, &kill), 1);
	assert_int_equal(reached[0].limit, HOST_LIMIT_COUNT);
	assert_true(kill);
	assert_int_equal(keeper_ceilings_look(&c, &cgroup, now += 1000, reached, &kill), 0);
	assert_true(kill);
	/* Audit tells and does not hold. */
	next = (struct keeper_ceilings){ .time_ms = 30000, .audit = true };
	assert_int_equal(keeper_ceilings_change(&c, &next, &cgroup, &error), 0);
	assert_file(dir, "pids.max", "max");
	assert_int_equal(keeper_ceilings_look(&c, &cgroup, now += 1000, reached, &kill), 1);
	assert_false(kill);
	/* What somebody else has changed since stays. */
	next = (struct keeper_ceilings){ .limits = { .pids = 700 } };
	assert_int_equal(keeper_ceilings_change(&c, &next, &cgroup, &error), 0);
	put(dir, "pids.max", "600\n");
	keeper_ceilings_restore(&c, &cgroup);
	assert_file(dir, "pids.max", "600");
	close(watch);
	close(cgroup.fd);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		unlink(path);
	}
	rmdir(dir);
}

/* The document is what the rows say. */
static void test_doc(void **state)
{
	char *want = NULL, have[16384];
	size_t size = 0, n;
	FILE *out = open_memstream(&want, &size), *in = fopen("docs/cordond.md", "re");

	(void)state;
	assert_non_null(out);
	settings_print_doc(out);
	fclose(out);
	assert_non_null(in);
	n = fread(have, 1, sizeof(have) - 1, in);
	have[n] = '\0';
	fclose(in);
	if (strcmp(want, have) != 0)
		fail_msg("docs/cordond.md is stale: build/unit/test_cordond --print-doc > "
			 "docs/cordond.md");
	free(want);
}

/* --- the socket ------------------------------------------------------------------------------- */

static void test_listen(void **state)
{
	char dir[] = "/tmp/cordon-unit-XXXXXX", path[64], target[64];
	struct error error = { "" };
	struct stat st;
	int fd, second;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(target, sizeof(target), "%s/target", dir);
	fd = control_listen("test", path, SOCK_STREAM, &error);
	assert_true(fd >= 0);
	assert_int_equal(control_listen("test", path, SOCK_STREAM, &error), -EADDRINUSE);
	close(fd);
	second = control_listen("test", path, SOCK_STREAM, &error); /* nobody serves it any more */
	assert_true(second >= 0);
	close(second);
	unlink(path);
	assert_int_equal(symlink(target, path), 0); /* also one that leads nowhere */
	assert_int_equal(control_listen("test", path, SOCK_STREAM, &error), -EEXIST);
	assert_int_not_equal(stat(target, &st), 0);
	unlink(path);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(control_listen("test", path, SOCK_STREAM, &error), -EPERM);
	assert_int_equal(chmod(dir, 01777), 0);
	fd = control_listen("test", path, SOCK_STREAM, &error);
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	rmdir(dir);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_wire),	 cmocka_unit_test(test_wire_refused),
		cmocka_unit_test(test_how),	 cmocka_unit_test(test_history),
		cmocka_unit_test(test_settings), cmocka_unit_test(test_metrics_address),
		cmocka_unit_test(test_alerts),	 cmocka_unit_test(test_ceilings),
		cmocka_unit_test(test_doc),	 cmocka_unit_test(test_listen),
	};

	if (argc > 1 && !strcmp(argv[1], "--print-doc")) {
		settings_print_doc(stdout);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
