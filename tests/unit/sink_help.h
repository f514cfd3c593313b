/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of sinks share: a configuration from text, events, and files read back. */
#ifndef TESTS_SINK_HELP_H
#define TESTS_SINK_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "sink/sink.h"

struct test_config {
	struct sinks_config sinks;
};

static const struct conf_key test_rows[] = { { .name = "sinks",
					       .read = sinks_read_config,
					       .offset = offsetof(struct test_config, sinks),
					       .expects = "a list of sinks" },
					     CONF_KEYS_END };

/* Reads a configuration as cordond does. The faults stand in faults. */
static int config_read(const char *text, struct test_config *ret_config, struct conf_faults *faults)
{
	struct conf_reader reader = { .faults = faults, .whole = "the configuration" };
	struct conf_node *root = NULL;
	int r;

	memset(ret_config, 0, sizeof(*ret_config));
	memset(faults, 0, sizeof(*faults));
	r = conf_node_read(text, strlen(text), faults, &root, &reader.complete);
	if (r == 0 && root)
		conf_read_rows(&reader, test_rows, root, ret_config);
	conf_node_free(root);
	return r < 0 ? r : reader.err;
}

/* Opens sinks by a configuration that must be right. Returns what sinks_open() does. */
static inline int sinks_from(struct sinks **ret_sinks, struct error *error, const char *format, ...)
{
	struct conf_faults faults;
	struct test_config config;
	char text[8192];
	va_list args;
	int r;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	assert_int_equal(config_read(text, &config, &faults), 0);
	if (faults.n)
		conf_faults_print(&faults, "config", stderr);
	assert_int_equal(faults.n, 0);
	r = sinks_open(&config.sinks, "node-1", ret_sinks, error);
	sinks_config_clear(&config.sinks);
	return r;
}

static inline void nap_ms(unsigned int ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000L };

	nanosleep(&t, NULL);
}

/* An event of the kernel's: a denied write, number seq of fence 7. */
static inline void event_fill(struct event *event, uint64_t seq, const char *path)
{
	memset(event, 0, offsetof(struct event, names));
	event->raw.seq = seq;
	event->raw.mono_ns = 1000 + seq;
	event->raw.fence_id = 7;
	event->raw.type = CORDON_TYPE_FILE;
	event->raw.op = CORDON_OP_OPEN_WRITE;
	event->raw.verdict = CORDON_VERDICT_DENY;
	event->raw.rule = CORDON_RULE_FILES_WRITE;
	event->raw.mode = CORDON_MODE_ENFORCE;
	event->raw.err = EROFS;
	event->raw.count = 1;
	event->raw.pid = event->raw.tid = 4242;
	event->raw.start_ns = 77;
	strcpy(event->raw.comm, "agent");
	event->time_ns = 1700000000000000000ULL + seq;
	event->kernel = true;
	event->path = (struct event_bytes){ path, strlen(path) };
	event->exe = (struct event_bytes){ "/usr/bin/agent", 14 };
}

static inline void event_give(struct sinks *sinks, uint64_t seq, const char *path)
{
	static const struct event_context context = { .node = "node-1",
						      .fence_name = "refund-agent",
						      .policy = "refund",
						      .task = "task-9",
						      .tenant = "t-1",
						      .subject = "alice" };
	struct event event;

	event_fill(&event, seq, path);
	sinks_write(sinks, &context, &event);
}

static inline void events_give(struct sinks *sinks, uint64_t from, uint64_t to)
{
	for (uint64_t seq = from; seq <= to; seq++)
		event_give(sinks, seq, "/etc/passwd");
}

/* Waits until every event left; false after ten seconds. */
static inline bool sinks_settle(struct sinks *sinks)
{
	for (unsigned int i = 0; i < 2000; i++) {
		struct sink_stats s[SINKS_MAX];
		size_t n = sinks_stats(sinks, s, SINKS_MAX);
		uint64_t queued = 0;

		for (size_t j = 0; j < n; j++)
			queued += s[j].queued;
		if (!queued)
			return true;
		nap_ms(5);
	}
	return false;
}

/* The whole file, NUL-terminated; to be freed. */
static inline char *file_text(const char *path, size_t *ret_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *text;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	text = malloc((size_t)st.st_size + 1);
	assert_non_null(text);
	assert_int_equal(read(fd, text, (size_t)st.st_size), st.st_size);
	text[st.st_size] = '\0';
	close(fd);
	if (ret_size)
		*ret_size = (size_t)st.st_size;
	return text;
}

static inline void file_write(const char *path, const char *text, size_t size, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	assert_int_equal(write(fd, text, size), size);
	close(fd);
}

#endif
