// SPDX-License-Identifier: Apache-2.0
/*
 * sinks - what an event costs the auditor: made into JSON, copied, hashed and written to a chained file, in CPU time of all threads.
 *
 * usage: sinks DIRECTORY [EVENTS]      DIRECTORY: where the file goes; of root or the caller, and nobody else's to write to
 *
 * Prints ns of CPU an event for the JSON alone, and for everything; and how many were lost. Exit 1 when an event was.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sink/sink.h"

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* A full event: a denied write of an agent in a named fence. */
static void event_fill(struct event *event, struct event_context *context)
{
	static const char path[] = "/home/agent/work/../../../etc/systemd/system/backdoor.service";
	static const char exe[] = "/usr/bin/python3.11";

	memset(event, 0, offsetof(struct event, names));
	event->raw.mono_ns = 123456789012345;
	event->raw.fence_id = 0x123456789abcdef0;
	event->raw.cgroup = 12345;
	event->raw.start_ns = 1234567890123;
	event->raw.parent_start_ns = 1234567880000;
	event->raw.ino = 1234567;
	event->raw.generation = 3;
	event->raw.err = EROFS;
	event->raw.count = 1;
	event->raw.pid = event->raw.tid = 123456;
	event->raw.pid_ns = 17;
	event->raw.ppid = 123400;
	event->raw.uid = event->raw.gid = 1000;
	event->raw.exec_seq = 2;
	event->raw.parent_exec_seq = 1;
	event->raw.dev = 8 << 20 | 1;
	event->raw.op_flags = 01 | 0100 | 02000000;
	event->raw.type = CORDON_TYPE_FILE;
	event->raw.op = CORDON_OP_OPEN_WRITE;
	event->raw.verdict = CORDON_VERDICT_DENY;
	event->raw.rule = CORDON_RULE_FILES_WRITE;
	event->raw.mode = CORDON_MODE_ENFORCE;
	strcpy(event->raw.comm, "python3");
	event->time_ns = 1700000000123456789ULL;
	event->kernel = true;
	event->path = (struct event_bytes){ path, sizeof(path) - 1 };
	event->exe = (struct event_bytes){ exe, sizeof(exe) - 1 };
	*context = (struct event_context){ .node = "node-17.example.net",
					   .fence_name = "refund-agent",
					   .policy = "refund-agent",
					   .task = "task-2026-11-30-0017",
					   .tenant = "tenant-1",
					   .subject = "alice@example.com",
					   .container = "3f2a9c41d7e0" };
}

int main(int argc, char **argv)
{
	static char line[EVENT_LINE_MAX];
	struct sinks_config config = { .n = 1 };
	struct sink_stats stats;
	struct error error = { "" };
	struct event_context context;
	struct sinks *sinks;
	struct event event;
	char path[4096];
	unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
	uint64_t begin, json, all;
	size_t size = 0;

	if (argc < 2 || !n) {
		fputs("usage: sinks DIRECTORY [EVENTS]\n", stderr);
		return 2;
	}
	snprintf(path, sizeof(path), "%s/bench.jsonl", argv[1]);
	config.v[0] = (struct sink_config){ .type = SINK_FILE,
					    .name = strdup("bench"),
					    .path = strdup(path),
					    .queue_bytes = 256 << 20,
					    .rotate_size = 4LL << 30,
					    .keep = 1,
					    .fsync = SINK_FSYNC_NEVER,
					    .chain = true };
	event_fill(&event, &context);
	begin = cpu_ns();
	for (unsigned long i = 0; i < n; i++) {
		event.raw.seq = i + 1;
		size = event_format_json(line, &context, &event);
	}
	json = cpu_ns() - begin;
	if (sinks_open(&config, "bench", &sinks, &error) < 0) {
		fprintf(stderr, "sinks: error: %s\n", error.text);
		return 1;
	}
	begin = cpu_ns();
	for (unsigned long i = 0; i < n; i++) {
		event.raw.seq = i + 1;
		sinks_write(sinks, &context, &event);
		if (i % 1024 ==
		    0) { /* not faster than the file, or the queue would tell of losses only */
			do {
				struct timespec pause = { .tv_nsec = 1000000 };

				sinks_stats(sinks, &stats, 1);
				if (stats.queued < stats.queue_size / 2)
					break;
				nanosleep(&pause, NULL);
			} while (true);
		}
	}
	do {
		struct timespec pause = { .tv_nsec = 1000000 };

		nanosleep(&pause, NULL);
		sinks_stats(sinks, &stats, 1);
	} while (stats.queued && stats.up);
	all = cpu_ns() - begin;
	sinks_close(sinks, 10000);
	sinks_config_clear(&config);
	printf("%lu events of %zu bytes: JSON %.0f ns, JSON + queue + chain + file %.0f ns of CPU "
	       "each, %llu lost\n",
	       n, size, (double)json / (double)n, (double)all / (double)n,
	       (unsigned long long)stats.lost);
	unlink(path);
	return stats.lost != 0;
}
