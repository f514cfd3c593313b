// SPDX-License-Identifier: Apache-2.0
/* user/metrics: the text, its bounds, and the endpoint with friendly and hostile clients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <pthread.h>
#include <regex.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <yaml.h>

#include "cordon/abi.h"
#include "metrics/metrics.h"

static char *text_make(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(metrics_write(out), 0);
	fclose(out);
	return text;
}

static void assert_line(const char *line)
{
	char *text = text_make(), want[256];

	snprintf(want, sizeof(want), "\n%s\n", line);
	if (!strstr(text, want))
		fail_msg("no line '%s' in:\n%s", line, text);
	free(text);
}

static void test_text(void **state)
{
	unsigned int audit, siem;

	(void)state;
	metrics_reset();
	metrics_add(METRIC_EVENTS, CORDON_TYPE_FILE, CORDON_VERDICT_DENY, 3);
	metrics_add(METRIC_EVENTS, CORDON_TYPE_FILE, CORDON_VERDICT_DENY, 1);
	metrics_set(METRIC_FENCES, 0, 0, 17);
	metrics_set(METRIC_RING_FILL, 0, 0, 0.25);
	metrics_add(METRIC_LOST, CORDON_FAULT_RING_FULL, 0, 9007199254740991.0);
	audit = metrics_label(METRIC_SINK_LOST, "audit");
	siem = metrics_label(METRIC_SINK_LOST, "a \"b\"\\\n\x01");
	assert_int_equal(metrics_label(METRIC_SINK_UP, "audit"), audit);
	assert_int_not_equal(audit, siem);
	metrics_set(METRIC_SINK_LOST, audit, 0, 12);
	metrics_set(METRIC_SINK_LOST, siem, 0, 1);
	metrics_observe(METRIC_COLD_START, 0.2);
	metrics_observe(METRIC_COLD_START, 0.25);
	metrics_observe(METRIC_COLD_START, 99);
	assert_line("cordon_events_total{type=\"file\",verdict=\"deny\"} 4");
	assert_line("cordon_events_total{type=\"net\",verdict=\"would_deny\"} 0");
	metrics_add(METRIC_DENIED, CORDON_RULE_FILES_WRITE, 0, 2);
	assert_line("cordon_denied_total{rule=\"files.write\"} 2");
	assert_line("cordon_denied_total{rule=\"guard.state\"} 0");
	assert_line("cordon_fences 17");
	assert_line("cordon_ring_fill_ratio 0.25");
	assert_line("cordon_events_lost_total{cause=\"ring_full\"} 9007199254740991");
	assert_line("cordon_sink_lost_total{sink=\"audit\"} 12");
	assert_line("cordon_sink_lost_total{sink=\"a \\\"b\\\"\\\\\\n?\"} 1");
	assert_line("cordon_cold_start_seconds_bucket{le=\"0.1\"} 0");
	assert_line("cordon_cold_start_seconds_bucket{le=\"0.25\"} 2");
	assert_line("cordon_cold_start_seconds_bucket{le=\"30\"} 2");
	assert_line("cordon_cold_start_seconds_bucket{le=\"+Inf\"} 3");
	assert_line("cordon_cold_start_seconds_sum 99.45");
	assert_line("cordon_cold_start_seconds_count 3");
	metrics_forget(METRIC_SINK_UP, "audit");
	{
		char *text = text_make();

		assert_null(strstr(text, "\"audit\""));
		free(text);
	}
	assert_int_equal(metrics_label(METRIC_SINK_LOST, "next"), audit); /* the place is free */
	assert_line("cordon_sink_lost_total{sink=\"next\"} 0");
}

/* Each line is a comment or a sample of the form that Prometheus reads. */
static void test_form(void **state)
{
	char *text, *rest, *line;
	regex_t sample, comment;

	(void)state;
	metrics_reset();
	metrics_label(METRIC_SINK_UP, "x{y}=\"z\"");
	metrics_set(METRIC_FENCES, 0, 0, -1e300);
	metrics_set(METRIC_RING_FILL, 0, 0, 1.0 / 3);
	text = rest = text_make();
	assert_int_equal(regcomp(&sample,
				 "^cordon_[a-z_]+([{]([a-z]+=\"([^\"\\]|\\\\.)*\",?)+[}])? "
				 "-?[0-9.]+(e[+-][0-9]+)?$",
				 REG_EXTENDED | REG_NOSUB),
			 0);
	assert_int_equal(regcomp(&comment, "^# (HELP|TYPE) cordon_[a-z_]+ .+$",
				 REG_EXTENDED | REG_NOSUB),
			 0);
	while ((line = strsep(&rest, "\n")) && *line)
		if (regexec(line[0] == '#' ? &comment : &sample, line, 0, NULL, 0) != 0)
			fail_msg("%s", line);
	regfree(&sample);
	regfree(&comment);
	free(text);
}

static void test_names(void **state)
{
#define CORDON_X(e, k, n, a, b, d) { n, #k },
	static const struct {
		const char *name, *kind;
	} rows[] = { CORDON_METRICS(CORDON_X) };
#undef CORDON_X

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = strlen(rows[i].name);
		bool total = n > 6 && strcmp(rows[i].name + n - 6, "_total") == 0;

		assert_memory_equal(rows[i].name, "cordon_", 7);
		assert_int_equal(total, strcmp(rows[i].kind, "COUNTER") == 0);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(rows[i].name, rows[j].name);
	}
}

static void *count_run(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < 100000; i++)
		metrics_add(METRIC_EVENTS, CORDON_TYPE_NET, CORDON_VERDICT_ALLOW, 1);
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[4];

	(void)state;
	metrics_reset();
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_run, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	assert_line("cordon_events_total{type=\"net\",verdict=\"allow\"} 400000");
}

/* More labels than there is room for, from somebody who makes them up. */
static void test_labels_bound(void **state)
{
	char name[200];

	(void)state;
	metrics_reset();
	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "sink-%u", i);
		metrics_add(METRIC_SINK_LOST, metrics_label(METRIC_SINK_LOST, name), 0, 1);
	}
	assert_line("cordon_sink_lost_total{sink=\"sink-63\"} 1");
	assert_line("cordon_sink_lost_total{sink=\"other\"} 936");
	metrics_reset();
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(metrics_label(METRIC_SINK_LOST, name),
			 metrics_label(METRIC_SINK_LOST, name));
	metrics_add(METRIC_EVENTS, 1000000, 1000000, 1); /* out of range: no crash */
}

/* --- the endpoint ---------------------------------------------------------------------------------------------------- */

static char path[96], address[112];
static struct event_base *base;
static struct metrics_server *server;
static unsigned int refreshed;

static void on_refresh(void *arg)
{
	++*(unsigned int *)arg;
}

static int client(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(to.sun_path, path);
	assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* Lets the server work until the client has everything, or for that long. Returns what came. */
static const char *answer_read(int fd, unsigned int timeout_ms)
{
	static char text[65536];
	size_t n = 0;
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (;;) {
		ssize_t got;

		event_base_loop(base, EVLOOP_NONBLOCK);
		got = recv(fd, text + n, sizeof(text) - 1 - n, MSG_DONTWAIT);
		if (got == 0 || (got < 0 && errno != EAGAIN))
			break;
		n += got > 0 ? (size_t)got : 0;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 >
		    (long)timeout_ms) {
			snprintf(text, sizeof(text), "(open)");
			return text;
		}
	}
	text[n] = '\0';
	return text;
}

static const char *ask(const char *request)
{
	static char text[65536];
	int fd = client();

	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
	snprintf(text, sizeof(text), "%s", answer_read(fd, 3000));
	close(fd);
	return text;
}

static int setup(void **state)
{
	struct error error = { "" };

	(void)state;
	metrics_reset();
	refreshed = 0;
	snprintf(path, sizeof(path), "/tmp/cordon-metrics-%d", (int)getpid());
	snprintf(address, sizeof(address), "unix:%s", path);
	base = event_base_new();
	return metrics_serve(base, address, on_refresh, &refreshed, &server, &error);
}

static int teardown(void **state)
{
	(void)state;
	metrics_server_free(server);
	event_base_free(base);
	return access(path, F_OK) == 0;
}

static void test_endpoint(void **state)
{
	static const struct {
		const char *request, *status;
	} cases[] = {
		{ "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n" },
		{ "GET /metrics?x=1 HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n" },
		{ "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 " },
		{ "GET /metricsx HTTP/1.1\r\n\r\n", "HTTP/1.1 404 " },
		{ "GET /../metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 404 " },
		{ "POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 " },
		{ "GET /metrics\r\n\r\n", "HTTP/1.1 400 " },
		{ "GET\r\n\r\n", "HTTP/1.1 400 " },
		{ "\r\n\r\n", "HTTP/1.1 400 " },
		{ "GET /metrics SSH-2.0\r\n\r\n", "HTTP/1.1 400 " },
	};
	struct stat st;

	(void)state;
	metrics_set(METRIC_FENCES, 0, 0, 3);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *got = ask(cases[i].request);

		if (strncmp(got, cases[i].status, strlen(cases[i].status)) != 0)
			fail_msg("%s: %.80s", cases[i].request, got);
		assert_int_equal(strstr(got, "\ncordon_fences 3\n") != NULL, i < 2);
	}
	assert_int_equal(refreshed, 2);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
}

static void test_endpoint_hostile(void **state)
{
	static char big[METRICS_REQUEST_MAX + 100];
	int fds[METRICS_CONNECTIONS_MAX + 4], one;

	(void)state;
	memset(big, 'a', sizeof(big) - 1);
	memcpy(big, "GET /", 5);
	assert_memory_equal(ask(big), "HTTP/1.1 431 ", 13);
	/* Byte by byte is as good as at once. */
	one = client();
	for (const char *p = "GET /metrics HTTP/1.1\r\n\r\n"; *p; p++) {
		assert_int_equal(send(one, p, 1, MSG_NOSIGNAL), 1);
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
	assert_memory_equal(answer_read(one, 3000), "HTTP/1.1 200 OK", 15);
	close(one);
	/* Connections that say nothing: only so many, and the rest is closed at once. */
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = client();
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
	assert_string_equal(answer_read(fds[0], 50), "(open)");
	assert_string_equal(answer_read(fds[METRICS_CONNECTIONS_MAX], 1000), "");
	/* And not for ever. */
	assert_string_equal(answer_read(fds[0], METRICS_TIME_MAX_MS + 2000), "");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	assert_memory_equal(ask("GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK", 15);
}

/* A server with a loop of its own answers when its turn comes, and not otherwise. */
static void test_turns(void **state)
{
	struct metrics_server *own = NULL;
	struct error error = { "" };
	char tcp[32], text[64] = "";
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = -1;

	(void)state;
	for (in_port_t port = 20000; !own && port < 20200; port++) {
		snprintf(tcp, sizeof(tcp), "127.0.0.1:%u", port);
		to.sin_port = htons(port);
		metrics_serve(NULL, tcp, NULL, NULL, &own, &error);
	}
	assert_non_null(own);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(fd, "GET /metrics HTTP/1.1\r\n\r\n", 25, 0), 25);
	assert_int_equal(recv(fd, text, sizeof(text), MSG_DONTWAIT), -1);
	for (unsigned int i = 0; i < 1000 && recv(fd, text, 15, MSG_DONTWAIT) < 0; i++) {
		metrics_server_turn(own);
		usleep(1000);
	}
	assert_memory_equal(text, "HTTP/1.1 200 OK", 15);
	close(fd);
	metrics_server_turn(NULL);
	metrics_server_free(own);
}

static void test_addresses(void **state)
{
	static const char *const bad[] = { "",
					   "here",
					   "1.2.3.4",
					   "[::1]",
					   "localhost:80",
					   "unix:",
					   "127.0.0.1:99999",
					   "unix:/no/such/directory/x" };
	struct metrics_server *second = NULL;
	struct error error = { "" };
	char tcp[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (metrics_serve(base, bad[i], NULL, NULL, &second, &error) == 0)
			fail_msg("%s", bad[i]);
		assert_true(error.text[0]);
		error.text[0] = '\0';
	}
	/* Somebody listens there: it stays his. */
	assert_int_equal(metrics_serve(base, address, NULL, NULL, &second, &error), -EADDRINUSE);
	snprintf(tcp, sizeof(tcp), "127.0.0.1:%d", 20000 + (int)getpid() % 10000);
	assert_int_equal(metrics_serve(base, tcp, NULL, NULL, &second, &error), 0);
	metrics_server_free(second);
}

/* --- documents ----------------------------------------------------------------------------------------------------- */

static char *file_text(const char *name)
{
	FILE *f = fopen(name, "r");
	char *text = calloc(1, 262144);

	assert_non_null(f);
	assert_true(fread(text, 1, 262143, f) > 0);
	fclose(f);
	return text;
}

static void test_doc(void **state)
{
	char *want = NULL, *have = file_text("docs/metrics.md");
	size_t size;
	FILE *out = open_memstream(&want, &size);

	(void)state;
	metrics_print_doc(out);
	fclose(out);
	if (strcmp(want, have) != 0)
		fail_msg("docs/metrics.md is stale: build/unit/test_metrics --print-doc > "
			 "docs/metrics.md");
	free(want);
	free(have);
}

/* The alert rules are YAML, and name only metrics that there are. */
static void test_rules(void **state)
{
#define CORDON_X(e, k, n, a, b, d) n,
	static const char *const names[] = { CORDON_METRICS(CORDON_X) };
#undef CORDON_X
	char *text = file_text("packaging/cordon.rules.yml"), *at = text;
	unsigned int alerts = 0, uses = 0, keys[4] = { 0 };
	static const char *const required[] = { "expr", "labels", "annotations", "for" };
	yaml_parser_t parser;
	yaml_event_t event;
	bool end = false;

	(void)state;
	while ((at = strstr(at, "cordon_"))) {
		size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
		bool known = false;

		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			size_t m = strlen(names[i]);

			known |= strncmp(at, names[i], m) == 0 &&
				 (n == m || !strncmp(at + m, "_bucket", n - m) ||
				  !strncmp(at + m, "_count", n - m));
		}
		if (!known)
			fail_msg("there is no metric %.*s", (int)n, at);
		uses++;
		at += n;
	}
	assert_true(uses >= 10);
	assert_true(yaml_parser_initialize(&parser));
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
	while (!end) {
		if (!yaml_parser_parse(&parser, &event))
			fail_msg("line %zu: %s", parser.problem_mark.line + 1, parser.problem);
		end = event.type == YAML_STREAM_END_EVENT;
		if (event.type == YAML_SCALAR_EVENT) {
			const char *word = (const char *)event.data.scalar.value;

			alerts += strcmp(word, "alert") == 0;
			for (size_t i = 0; i < ARRAY_SIZE(required); i++)
				keys[i] += strcmp(word, required[i]) == 0;
		}
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	assert_true(alerts >= 8);
	for (size_t i = 0; i < ARRAY_SIZE(required); i++)
		assert_int_equal(keys[i], alerts);
	free(text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_form),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_labels_bound),
		cmocka_unit_test_setup_teardown(test_endpoint, setup, teardown),
		cmocka_unit_test_setup_teardown(test_endpoint_hostile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_addresses, setup, teardown),
		cmocka_unit_test(test_doc),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_turns),
	};

	if (argc > 1 && !strcmp(argv[1], "--print-doc")) {
		metrics_print_doc(stdout);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
