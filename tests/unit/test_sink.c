// SPDX-License-Identifier: Apache-2.0
/*
 * user/sink: the configuration, queues and loss records, and files: rotation, chain over restart, SIGKILL and full disks, places that
 * are refused. Disks are tmpfs in a mount namespace of the test's own. Peers over sockets: test_sink_net.c.
 */
#include "sink_help.h"

#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "chain/chain.h"

static char dir[64], path[96], key_path[96];

/* --- help ---------------------------------------------------------------------------------------------------------- */

static struct chain_result verify(bool keyed)
{
	struct chain_key key;
	struct chain_options options = { .keys = &key, .n_keys = keyed };
	struct chain_result result;
	struct error error = { "" };
	char pattern[128];
	glob_t g;

	snprintf(pattern, sizeof(pattern), "%s*", path);
	assert_int_equal(glob(pattern, 0, NULL, &g), 0);
	if (keyed)
		assert_int_equal(chain_key_load(key_path, &key, &error), 0);
	if (chain_verify((const char *const *)g.gl_pathv, g.gl_pathc, &options, &result, &error))
		fail_msg("%s", error.text);
	if (result.fault)
		print_message("%s:%llu: %s\n", result.file, (unsigned long long)result.line,
			      result.why);
	globfree(&g);
	return result;
}

/* Calls see(line) for each event in all files of path, oldest first; returns how many lines there were. */
static size_t events_see(void (*see)(const json_t *event, void *arg), void *arg)
{
	char pattern[128], *names[SINK_KEEP_MAX + 1];
	size_t n = 0, lines = 0;
	glob_t g;

	snprintf(pattern, sizeof(pattern), "%s.*", path);
	if (glob(pattern, 0, NULL, &g) == 0)
		for (; n < g.gl_pathc; n++)
			names[n] = g.gl_pathv[n];
	names[n++] = path;
	for (size_t i = 0; i < n; i++) {
		char *text = file_text(names[i], NULL), *rest = text, *line;

		while ((line = strsep(&rest, "\n")) && *line) {
			json_error_t fault;
			json_t *event = json_loads(line, JSON_REJECT_DUPLICATES, &fault);

			if (!event)
				fail_msg("%s: %s", names[i], fault.text);
			if (strcmp(json_string_value(json_object_get(event, "schema")),
				   EVENT_SCHEMA) == 0) {
				see(event, arg);
				lines++;
			}
			json_decref(event);
		}
		free(text);
	}
	globfree(&g);
	return lines;
}

/* What is in the files: events by number, and losses. */
struct tally {
	uint64_t events, next, lost, gaps;
	bool ordered, times;
};

static void tally_see(const json_t *event, void *arg)
{
	struct tally *t = arg;
	uint64_t seq = (uint64_t)json_integer_value(json_object_get(event, "seq"));

	if (!strcmp(json_string_value(json_object_get(event, "op")), "sink_gap")) {
		uint64_t count = (uint64_t)json_integer_value(json_object_get(event, "count"));
		const char *first = json_string_value(json_object_get(event, "first"));
		const char *last = json_string_value(json_object_get(event, "last"));
		uint64_t from, to;

		assert_string_equal(json_string_value(json_object_get(event, "sink")), "audit");
		assert_int_equal(event_parse_time(first, &from), 0);
		assert_int_equal(event_parse_time(last, &to), 0);
		/* The times are those of the events that are missing: they tell the numbers. */
		t->times &= from - 1700000000000000000ULL == t->next && to - from + 1 == count;
		t->lost += count;
		t->gaps++;
		t->next += count;
		return;
	}
	t->events++;
	t->ordered &= seq == t->next;
	t->next = seq + 1;
}

static struct tally tally(void)
{
	struct tally t = { .next = 1, .ordered = true, .times = true };

	events_see(tally_see, &t);
	return t;
}

/* "/KEY" in a configuration is the path of the key. */
static const char *with_key(const char *more)
{
	static char text[512];
	const char *at = strstr(more, "/KEY");

	if (!at)
		return more;
	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - more), more, key_path, at + 4);
	return text;
}

static struct sinks *file_sink(const char *more)
{
	struct sinks *sinks = NULL;
	struct error error = { "" };

	if (sinks_from(&sinks, &error, "sinks:\n- {type: file, name: audit, path: %s%s}\n", path,
		       with_key(more)) < 0)
		fail_msg("%s", error.text);
	return sinks;
}

static void assert_refused(int err, const char *word, const char *more)
{
	struct sinks *sinks = NULL;
	struct error error = { "" };

	assert_int_equal(sinks_from(&sinks, &error,
				    "sinks:\n- {type: file, name: audit, path: %s%s}\n", path,
				    with_key(more)),
			 err);
	if (!strstr(error.text, word))
		fail_msg("'%s' does not say '%s'", error.text, word);
}

/* --- configuration --------------------------------------------------------------------------------------------------- */

static void test_config(void **state)
{
	static const struct {
		const char *text, *fault;
	} cases[] = {
		{ "sinks:\n- {type: flie, path: /x/y}\n", "sinks[0].type: unknown word `flie`; "
							  "did you mean `file`?" },
		{ "sinks:\n- {type: file, pth: /x/y}\n",
		  "sinks[0]: unknown key `pth`; did you mean `path`?" },
		{ "sinks:\n- {type: file}\n", "sinks[0]: `path` is missing" },
		{ "sinks:\n- {path: /x/y}\n", "sinks[0]: `type` is missing" },
		{ "sinks:\n- {type: file, path: x/y}\n", "expects the absolute path of a file" },
		{ "sinks:\n- {type: file, path: /x/}\n", "expects the absolute path of a file" },
		{ "sinks:\n- {type: file, path: /x, queue: 1K}\n", "outside" },
		{ "sinks:\n- {type: file, path: /x, fsync: always}\n", "unknown word `always`" },
		{ "sinks:\n- {type: file, path: /x, rotate: {siez: 1M}}\n",
		  "did you mean `size`?" },
		{ "sinks:\n- {type: file, path: /x, format: text, chain: true}\n",
		  "only format json has a chain" },
		{ "sinks:\n- {type: file, path: /x, chain: false, key: /k}\n", "there is none" },
		{ "sinks:\n- {type: stdout}\n- {type: stdout}\n", "another sink has this name" },
		{ "sinks:\n- {type: stdout, name: 'a b'}\n", "expects 1 to 63" },
		{ "sinks:\n- {type: stdout, path: /x}\n", "unknown key `path`" },
		{ "sinks: {type: stdout}\n", "expects a list of sinks" },
		{ "sinks:\n- file\n", "expects a mapping with a `type`" },
		{ "sinks:\n- {type: file, path: /x}\n- {type: file, name: b, path: /x}\n",
		  "another sink writes to this file" },
	};
	struct conf_faults faults;
	struct test_config config;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t found = 0;

		assert_int_equal(config_read(cases[i].text, &config, &faults), 0);
		for (size_t j = 0; j < faults.n; j++)
			found += strstr(faults.v[j].text, cases[i].fault) != NULL;
		if (!found)
			fail_msg("%s: %s", cases[i].text, faults.n ? faults.v[0].text : "no fault");
		assert_true(faults.v[0].line >= 1 && faults.v[0].column >= 1);
		conf_faults_clear(&faults);
		sinks_config_clear(&config.sinks);
	}
	assert_int_equal(config_read("sinks:\n- {type: file, path: /x/y, rotate: {size: 1M, age: "
				     "1d, keep: 3}, fsync: each}\n- {type: stdout, format: text}\n",
				     &config, &faults),
			 0);
	assert_int_equal(faults.n, 0);
	assert_int_equal(config.sinks.n, 2);
	assert_string_equal(config.sinks.v[0].name, "file");
	assert_true(config.sinks.v[0].chain);
	assert_int_equal(config.sinks.v[0].rotate_size, 1048576);
	assert_int_equal(config.sinks.v[0].fsync, SINK_FSYNC_EACH);
	assert_false(config.sinks.v[1].chain);
	sinks_config_clear(&config.sinks);
}

static void test_doc(void **state)
{
	char *want = NULL, *have = file_text("docs/sinks.md", NULL);
	size_t size;
	FILE *out = open_memstream(&want, &size);

	(void)state;
	sinks_print_doc(out);
	fclose(out);
	if (strcmp(want, have) != 0)
		fail_msg(
			"docs/sinks.md is stale: build/unit/test_sink --print-doc > docs/sinks.md");
	free(want);
	free(have);
}

/* --- files ------------------------------------------------------------------------------------------------------------ */

static void test_file(void **state)
{
	struct sinks *sinks = file_sink(", key: /KEY");
	struct sink_stats s;
	struct stat st;
	struct tally t;
	struct chain_result r;

	(void)state;
	events_give(sinks, 1, 2500);
	assert_true(sinks_settle(sinks));
	assert_int_equal(sinks_stats(sinks, &s, 1), 1);
	assert_string_equal(s.name, "audit");
	assert_true(s.up);
	assert_int_equal(s.written, 2500);
	assert_int_equal(s.lost, 0);
	assert_true(s.checkpoints >= 3);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640 & ~umask(022));
	t = tally();
	assert_int_equal(t.events, 2500);
	assert_true(t.ordered);
	r = verify(true);
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
	assert_true(r.closed);
	assert_int_equal(r.covered, r.last.n);
}

static void test_rotation(void **state)
{
	struct sinks *sinks = file_sink(", rotate: {size: 64K, keep: 4}, key: /KEY");
	struct sink_stats s;
	struct chain_result r;
	char name[128];
	struct stat st;
	glob_t g;

	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		events_give(sinks, 1 + i * 100, 100 + i * 100);
		assert_true(sinks_settle(sinks));
	}
	sinks_stats(sinks, &s, 1);
	assert_int_equal(s.written, 1000);
	assert_true(s.rotations > 8);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	snprintf(name, sizeof(name), "%s.*", path);
	assert_int_equal(glob(name, 0, NULL, &g), 0);
	assert_int_equal(g.gl_pathc, 4);
	for (size_t i = 0; i < g.gl_pathc; i++) {
		assert_int_equal(stat(g.gl_pathv[i], &st), 0);
		assert_true(st.st_size <= 65536);
	}
	globfree(&g);
	r = verify(true); /* begins after 1, in the oldest file that is left */
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
	assert_int_equal(r.files, 5);
	assert_true(r.first > 1);
	/* One of the middle is gone. */
	snprintf(name, sizeof(name), "%s.%06llu", path, (unsigned long long)s.rotations - 1);
	assert_int_equal(unlink(name), 0);
	r = verify(true);
	assert_int_equal(r.fault, CHAIN_FAULT_REMOVED);
	assert_int_equal(r.line, 1);
}

static void test_rotation_by_age(void **state)
{
	struct sinks *sinks = file_sink(", rotate: {age: 1s}");
	struct sink_stats s;

	(void)state;
	events_give(sinks, 1, 10);
	for (unsigned int i = 0; i < 300; i++) {
		sinks_stats(sinks, &s, 1);
		if (s.rotations)
			break;
		nap_ms(10);
	}
	assert_int_equal(s.rotations, 1);
	events_give(sinks, 11, 20);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	assert_int_equal(tally().events, 20);
	assert_int_equal(verify(false).fault, CHAIN_FAULT_NONE);
}

static void test_restart(void **state)
{
	struct tally t;
	struct chain_result r;
	struct sinks *sinks;

	(void)state;
	for (unsigned int i = 0; i < 5; i++) {
		sinks = file_sink(", rotate: {size: 64K}, key: /KEY");
		events_give(sinks, 1 + i * 50, 50 + i * 50);
		assert_int_equal(sinks_close(sinks, 5000), 0);
	}
	t = tally();
	assert_int_equal(t.events, 250);
	assert_true(t.ordered);
	r = verify(true);
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
	assert_true(r.files > 1);
	/* The file being written is gone, or between two names: the chain goes on after the rotated one. */
	assert_int_equal(unlink(path), 0);
	sinks = file_sink(", rotate: {size: 64K}, key: /KEY");
	events_give(sinks, 251, 260);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	r = verify(true);
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
}

/* What does not verify is put aside, and named by verify; what comes after is kept in a file of its own. */
static void test_restart_altered(void **state)
{
	struct sinks *sinks = file_sink("");
	struct sink_stats s;
	struct chain_result r;
	char name[128], *text;
	size_t size;

	(void)state;
	events_give(sinks, 1, 100);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	text = file_text(path, &size);
	*strstr(strstr(text, "\"seq\":42"), "/etc/passwd") = '!';
	file_write(path, text, size, 0640);
	free(text);
	sinks = file_sink("");
	events_give(sinks, 101, 110);
	assert_true(sinks_settle(sinks));
	sinks_stats(sinks, &s, 1);
	assert_true(s.chain_broken);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	snprintf(name, sizeof(name), "%s.000001", path);
	r = verify(false);
	assert_int_equal(r.fault, CHAIN_FAULT_CHANGED);
	assert_int_equal(r.line, 43); /* after the head */
	assert_int_equal(access(name, F_OK), 0);
}

/* An unfinished line, as a crash of the host leaves it. */
static void test_restart_torn(void **state)
{
	struct sinks *sinks = file_sink("");
	char *text;
	size_t size;

	(void)state;
	events_give(sinks, 1, 10);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	text = file_text(path, &size);
	file_write(path, text, size - 300, 0640); /* cuts the last event and the close */
	free(text);
	assert_int_equal(verify(false).fault, CHAIN_FAULT_TRUNCATED);
	sinks = file_sink("");
	events_give(sinks, 11, 20);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	assert_int_equal(verify(false).fault, CHAIN_FAULT_NONE);
	text = file_text(path, NULL);
	assert_non_null(strstr(text, "\"kind\":\"resume\""));
	assert_non_null(strstr(text, "\"torn\":"));
	free(text);
}

static void test_kill(void **state)
{
	uint64_t seen = 0;

	(void)state;
	for (unsigned int round = 0; round < 8; round++) {
		struct chain_result r;
		struct tally t;
		struct sinks *sinks;
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid) {
			sinks = file_sink(", rotate: {size: 256K, keep: 1000}, key: /KEY");
			for (uint64_t seq = seen + 1;; seq++) {
				event_give(sinks, seq, "/etc/passwd");
				if (seq % 128 == 0)
					nap_ms(2);
			}
		}
		nap_ms(10 + round * 5);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		/* Once more, so that what was torn is mended. */
		sinks = file_sink(", rotate: {size: 256K, keep: 1000}, key: /KEY");
		nap_ms(10);
		assert_int_equal(sinks_close(sinks, 5000), 0);
		r = verify(true);
		assert_int_equal(r.fault, CHAIN_FAULT_NONE);
		t = tally();
		assert_true(
			t.ordered); /* nothing of the middle is missing: what is lost is at the end */
		assert_true(t.events >= seen);
		seen = t.events;
	}
	assert_true(seen > 500);
}

/* A full disk: what does not fit is counted, and reported when there is room. */
static void test_full_disk(void **state)
{
	struct sinks *sinks;
	struct sink_stats s;
	struct tally t;
	char block[128];
	uint64_t seq = 0;

	(void)state;
	if (mount("none", dir, "tmpfs", 0, "size=64k,mode=700") < 0)
		skip();
	file_write(key_path, "0123456789abcdef0123456789abcdef\n", 33, 0600);
	snprintf(block, sizeof(block), "%s/block", dir);
	sinks = file_sink(", queue: 512K, key: /KEY");
	events_give(sinks, 1, 10);
	assert_true(sinks_settle(sinks));
	seq = 10;
	for (unsigned int i = 0; i < 2000; i++) /* disk, then queue */
		event_give(sinks, ++seq, "/etc/passwd");
	for (unsigned int i = 0; i < 500; i++) {
		sinks_stats(sinks, &s, 1);
		if (!s.up && s.lost)
			break;
		nap_ms(10);
	}
	assert_false(s.up);
	assert_true(s.lost > 0);
	assert_non_null(strstr(s.problem, strerror(ENOSPC)));
	assert_true(s.queued <= s.queue_size);
	assert_int_equal(mount("none", dir, "tmpfs", MS_REMOUNT, "size=64m,mode=700"), 0);
	assert_true(sinks_settle(sinks));
	for (unsigned int i = 0; i < 10; i++)
		event_give(sinks, ++seq, "/etc/passwd");
	assert_int_equal(sinks_close(sinks, 10000), 0);
	t = tally();
	assert_int_equal(t.events + t.lost, seq);
	assert_true(t.lost > 0);
	assert_true(t.ordered);
	assert_true(t.times);
	assert_int_equal(verify(true).fault, CHAIN_FAULT_NONE);
	assert_int_equal(umount2(dir, MNT_DETACH), 0);
}

/* A disk that is read-only at the start and, later, not. */
static void test_read_only_disk(void **state)
{
	struct sinks *sinks;
	struct sink_stats s;
	struct tally t;

	(void)state;
	if (mount("none", dir, "tmpfs", 0, "size=16m,mode=700") < 0)
		skip();
	assert_int_equal(mount("none", dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	sinks = file_sink("");
	events_give(sinks, 1, 100);
	nap_ms(50);
	sinks_stats(sinks, &s, 1);
	assert_false(s.up);
	assert_non_null(strstr(s.problem, strerror(EROFS)));
	assert_int_equal(mount("none", dir, NULL, MS_REMOUNT, NULL), 0);
	assert_true(sinks_settle(sinks));
	assert_int_equal(sinks_close(sinks, 5000), 0);
	t = tally();
	assert_int_equal(t.events, 100);
	assert_int_equal(verify(false).fault, CHAIN_FAULT_NONE);
	assert_int_equal(umount2(dir, MNT_DETACH), 0);
}

static void test_places(void **state)
{
	char other[128], deep[160];
	struct stat before, after;
	struct sinks *sinks;

	(void)state;
	snprintf(other, sizeof(other), "%s/victim", dir);
	file_write(other, "precious\n", 9, 0600);
	assert_int_equal(stat(other, &before), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_refused(-ELOOP, "symbolic link", "");
	assert_int_equal(stat(other, &after), 0);
	assert_int_equal(after.st_size, 9);
	unlink(path);
	assert_int_equal(link(other, path), 0);
	assert_refused(-EMLINK, "2 names", "");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_refused(-EINVAL, "not a regular file", "");
	unlink(path);
	file_write(path, "", 0, 0666);
	assert_refused(-EPERM, "chmod go-w", "");
	if (geteuid() == 0) {
		chmod(path, 0640);
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_refused(-EPERM, "belongs to user 12345", "");
		unlink(path);
		assert_int_equal(chown(dir, 12345, 12345), 0);
		assert_refused(-EPERM, "belongs to user 12345", "");
		assert_int_equal(chown(dir, 0, 0), 0);
	}
	unlink(path);
	assert_int_equal(chmod(dir, 0770), 0);
	assert_refused(-EPERM, "chmod go-w", "");
	assert_int_equal(chmod(dir, 01777),
			 0); /* sticky is not enough where the file itself lies */
	assert_refused(-EPERM, "chmod go-w", "");
	/* A directory further up. */
	assert_int_equal(chmod(dir, 0777), 0);
	snprintf(deep, sizeof(deep), "%s/deep", dir);
	assert_int_equal(mkdir(deep, 0700), 0);
	{
		char kept[96];

		strcpy(kept, path);
		snprintf(path, sizeof(path), "%.80s/deep/e", dir);
		assert_refused(-EPERM, "chmod go-w", "");
		assert_int_equal(chmod(dir, 0700), 0);
		sinks = file_sink(""); /* the legal neighbour */
		events_give(sinks, 1, 1);
		assert_int_equal(sinks_close(sinks, 5000), 0);
		unlink(path);
		rmdir(deep);
		strcpy(path, kept);
	}
	unlink(other);
	assert_refused(-ENOENT, "No such file", ", key: /nokey");
	chmod(key_path, 0644);
	assert_refused(-EPERM, "chmod 600", ", key: /KEY");
	chmod(key_path, 0600);
}

/* Between the start and a rotation somebody puts a link where the next file goes. */
static void test_link_later(void **state)
{
	struct sinks *sinks = file_sink(", fsync: never");
	char other[128], moved[128];
	struct sink_stats s;
	struct stat st;

	(void)state;
	events_give(sinks, 1, 10);
	assert_true(sinks_settle(sinks));
	snprintf(other, sizeof(other), "%s/victim", dir);
	snprintf(moved, sizeof(moved), "%s/moved", dir);
	file_write(other, "", 0, 0600);
	assert_int_equal(rename(path, moved), 0);
	assert_int_equal(symlink(other, path), 0);
	sinks_reopen(sinks);
	events_give(sinks, 11, 20);
	for (unsigned int i = 0; i < 300; i++) {
		sinks_stats(sinks, &s, 1);
		if (!s.up)
			break;
		nap_ms(10);
	}
	assert_false(s.up);
	assert_non_null(strstr(s.problem, "symbolic link"));
	assert_int_equal(stat(other, &st), 0);
	assert_int_equal(st.st_size, 0);
	unlink(path);
	assert_int_equal(rename(moved, path), 0);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	assert_int_equal(tally().events, 20);
	assert_int_equal(verify(false).fault, CHAIN_FAULT_NONE);
	unlink(other);
}

/* logrotate's way: moved, then told. */
static void test_reopen(void **state)
{
	struct sinks *sinks = file_sink("");
	char moved[128];

	(void)state;
	events_give(sinks, 1, 10);
	assert_true(sinks_settle(sinks));
	snprintf(moved, sizeof(moved), "%s.moved", path);
	assert_int_equal(rename(path, moved), 0);
	sinks_reopen(sinks);
	for (unsigned int i = 0; access(path, F_OK) < 0 && i < 300; i++)
		nap_ms(10);
	events_give(sinks, 11, 20);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	assert_int_equal(verify(false).fault, CHAIN_FAULT_NONE);
	assert_int_equal(verify(false).files, 2);
	unlink(moved);
}

static void test_two_writers(void **state)
{
	struct sinks *first = file_sink(""), *second;
	struct sink_stats s;

	(void)state;
	events_give(first, 1, 10);
	assert_true(sinks_settle(first));
	second = file_sink(""); /* waits for the first and disturbs nothing */
	events_give(second, 11, 20);
	for (unsigned int i = 0; i < 300; i++) {
		sinks_stats(second, &s, 1);
		if (s.failures)
			break;
		nap_ms(10);
	}
	assert_false(s.up);
	assert_non_null(strstr(s.problem, "another process"));
	assert_int_equal(sinks_close(first, 5000), 0);
	assert_int_equal(sinks_close(second, 5000), 0);
	assert_int_equal(tally().events, 20);
	assert_int_equal(verify(false).fault, CHAIN_FAULT_NONE);
}

static void test_reload(void **state)
{
	struct sinks *sinks = NULL;
	struct conf_faults faults;
	struct test_config config;
	struct error error = { "" };
	struct sink_stats s[2];
	char text[512], second[128];

	(void)state;
	snprintf(second, sizeof(second), "%s/second", dir);
	assert_int_equal(sinks_from(&sinks, &error,
				    "sinks:\n- {type: file, name: audit, path: %s}\n", path),
			 0);
	events_give(sinks, 1, 10);
	/* One more; the first goes on undisturbed: its chain has no second beginning. */
	snprintf(text, sizeof(text),
		 "sinks:\n- {type: file, name: audit, path: %s}\n- {type: file, name: b, path: "
		 "%s}\n",
		 path, second);
	assert_int_equal(config_read(text, &config, &faults), 0);
	assert_int_equal(sinks_reload(sinks, &config.sinks, 5000, &error), 0);
	sinks_config_clear(&config.sinks);
	events_give(sinks, 11, 20);
	assert_int_equal(sinks_stats(sinks, s, 2), 2);
	/* What cannot be opened changes nothing. */
	snprintf(text, sizeof(text), "sinks:\n- {type: file, name: c, path: %s/no/such}\n", dir);
	assert_int_equal(config_read(text, &config, &faults), 0);
	assert_int_equal(sinks_reload(sinks, &config.sinks, 5000, &error), -ENOENT);
	sinks_config_clear(&config.sinks);
	assert_int_equal(sinks_stats(sinks, s, 2), 2);
	/* Only the second is left. */
	snprintf(text, sizeof(text), "sinks:\n- {type: file, name: b, path: %s}\n", second);
	assert_int_equal(config_read(text, &config, &faults), 0);
	assert_int_equal(sinks_reload(sinks, &config.sinks, 5000, &error), 0);
	sinks_config_clear(&config.sinks);
	assert_int_equal(sinks_stats(sinks, s, 2), 1);
	events_give(sinks, 21, 30);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	assert_int_equal(tally().events, 20);
	{
		char *body = file_text(path, NULL);

		assert_null(strstr(body, "\"kind\":\"resume\""));
		free(body);
	}
	strcpy(path, second);
	assert_int_equal(tally().events, 20);
	unlink(second);
	snprintf(path, sizeof(path), "%s/events.jsonl", dir);
}

/* Names that would like to be a line of their own (E-06). */
static void forged_see(const json_t *event, void *arg)
{
	assert_string_equal(json_string_value(json_object_get(event, "verdict")), "deny");
	++*(unsigned int *)arg;
}

static void test_forged_lines(void **state)
{
	static const char *const names[] = {
		"/out/a\n{\"schema\":\"cordon.event/1\",\"verdict\":\"allow\"}\n",
		"/out/\r\n{\"verdict\":\"allow\"}",
		"/out/\x1b]0;title\x07",
		"/out/\xe2\x80\xae.txt",
		"/out/\xe2\x80\xa8next",
		"/out/\x01\x01\x01",
		"/out/\",\"verdict\":\"allow",
		"/out/\",\"chain\":{\"n\":1,\"hash\":\""
		"0000000000000000000000000000000000000000000000000000000000000000\"}}",
	};
	static const char *const formats[] = { "json", "text" };
	unsigned int n = 0;

	(void)state;
	for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
		char more[64], *text;
		size_t lines = 0, size;
		struct sinks *sinks;

		snprintf(more, sizeof(more), ", chain: false, format: %s", formats[f]);
		sinks = file_sink(more);
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			event_give(sinks, i + 1, names[i]);
		assert_int_equal(sinks_close(sinks, 5000), 0);
		text = file_text(path, &size);
		for (size_t i = 0; i < size; i++) {
			lines += text[i] == '\n';
			assert_true(text[i] == '\n' ||
				    ((unsigned char)text[i] >= 0x20 && text[i] != 0x7f));
		}
		assert_int_equal(lines, ARRAY_SIZE(names));
		assert_null(strstr(text, "\xe2\x80\xae"));
		free(text);
		if (f == 0)
			events_see(forged_see, &n);
		unlink(path);
	}
	assert_int_equal(n, ARRAY_SIZE(names));
}

static void test_write_line(void **state)
{
	static const char good[] =
		"{\"schema\":\"cordon.event/"
		"1\",\"node\":null,\"seq\":1,\"time\":\"2026-01-02T03:04:05."
		"000000006Z\",\"mono_ns\":1,\"type\":\"gateway\",\"op\":\"call\",\"verdict\":"
		"\"deny\","
		"\"rule\":\"gateway.scope\",\"fence\":{\"id\":\"0000000000000007\"}}\n";
	struct sinks *sinks = file_sink("");

	(void)state;
	assert_int_equal(sinks_write_line(sinks, good, sizeof(good) - 1), 0);
	assert_int_equal(sinks_write_line(sinks, good, sizeof(good) - 2), -EINVAL);
	assert_int_equal(sinks_write_line(sinks, "{}\n", 3), -EINVAL);
	assert_int_equal(sinks_write_line(sinks, "{\n}\n", 4), -EINVAL);
	assert_int_equal(sinks_write_line(sinks, "", 0), -EINVAL);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	{
		char *text = file_text(path, NULL);

		assert_non_null(strstr(text, "gateway.scope"));
		free(text);
	}
	assert_int_equal(verify(false).records, 3);
}

/* Standard output with a reader that does not read: the file beside it loses nothing. */
static void test_slow_stdout(void **state)
{
	int fds[2], kept = dup(STDOUT_FILENO);
	struct sinks *sinks = NULL;
	struct error error = { "" };
	struct sink_stats s[2];
	size_t lines = 0, got = 0, gaps = 0, lost = 0;
	static char buffer[4 * 1024 * 1024];
	ssize_t n;

	(void)state;
	fflush(stdout);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	dup2(fds[1], STDOUT_FILENO);
	close(fds[1]);
	assert_int_equal(sinks_from(&sinks, &error,
				    "sinks:\n- {type: file, name: audit, path: %s}\n"
				    "- {type: stdout, name: audit2, queue: 512K}\n",
				    path),
			 0);
	events_give(sinks, 1, 3000);
	for (unsigned int i = 0; i < 300; i++) {
		sinks_stats(sinks, s, 2);
		if (s[0].written == 3000)
			break;
		nap_ms(10);
	}
	assert_int_equal(s[0].written, 3000);
	assert_int_equal(s[0].lost, 0);
	assert_true(s[1].lost > 0);
	assert_true(s[1].lag_ns > 0);
	/* Now it reads: what fitted, and how many did not. */
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	for (unsigned int i = 0; i < 1000; i++) {
		n = read(fds[0], buffer + got, sizeof(buffer) - 1 - got);
		got += n > 0 ? (size_t)n : 0;
		sinks_stats(sinks, s, 2);
		if (n <= 0 && !s[1].queued && s[1].written > 3000 - s[1].lost)
			break;
		if (n <= 0)
			nap_ms(5);
	}
	dup2(kept, STDOUT_FILENO);
	close(kept);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	buffer[got] = '\0';
	for (char *line = buffer, *end; (end = strchr(line, '\n')); line = end + 1) {
		const char *gap;

		*end = '\0';
		lines++;
		gap = strstr(line, "\"op\":\"sink_gap\"");
		gaps += gap != NULL;
		lost += gap ? strtoull(strstr(gap, "\"count\":") + 8, NULL, 10) : 0;
	}
	assert_int_equal(lost, s[1].lost);
	assert_int_equal(lines, 3000 - lost + gaps);
	close(fds[0]);
}

/* --- the frame ---------------------------------------------------------------------------------------------------------- */

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/cordon-sink-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/events.jsonl", dir);
	snprintf(key_path, sizeof(key_path), "%s/key", dir);
	file_write(key_path, "0123456789abcdef0123456789abcdef\n", 33, 0600);
	return 0;
}

static int teardown(void **state)
{
	char pattern[128];
	glob_t g;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/*", dir);
	if (glob(pattern, 0, NULL, &g) == 0)
		for (size_t i = 0; i < g.gl_pathc; i++)
			unlink(g.gl_pathv[i]);
	globfree(&g);
	return rmdir(dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config),
		cmocka_unit_test(test_doc),
		TEST(test_file),
		TEST(test_rotation),
		TEST(test_rotation_by_age),
		TEST(test_restart),
		TEST(test_restart_altered),
		TEST(test_restart_torn),
		TEST(test_kill),
		TEST(test_full_disk),
		TEST(test_read_only_disk),
		TEST(test_places),
		TEST(test_link_later),
		TEST(test_reopen),
		TEST(test_two_writers),
		TEST(test_reload),
		TEST(test_forged_lines),
		TEST(test_write_line),
		TEST(test_slow_stdout),
	};

	if (argc > 1 && !strcmp(argv[1], "--print-doc")) {
		sinks_print_doc(stdout);
		return 0;
	}
	/* Mounts of this test are its own. Where that is not permitted, mounting is not, either, and those tests are skipped. */
	if (unshare(CLONE_NEWNS) == 0)
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
