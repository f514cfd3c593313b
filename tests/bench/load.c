// SPDX-License-Identifier: Apache-2.0
/*
 * Load for the gateway's bench: N keep-alive connections on loopback, one request under way on each, for so many
 * seconds; and the bare durable transactions that it is held against. Prints one JSON object. A client of one thread:
 * cheaper than what it asks, so that it is not what is measured.
 *
 * usage: load http PORT SOURCE CONNECTIONS SECONDS STATUS TEMPLATE   TEMPLATE: a whole request; @N@ is a number that
 *                                                                    counts up, @M@ the same modulo 2000, both 8 digits
 *        load sqlite PATH SECONDS
 *        load postgresql URI CONNECTIONS SECONDS
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256
#define SAMPLES_MAX (1 << 21)
#define MODULO 2000

static uint32_t samples_us[SAMPLES_MAX];
static atomic_uint n_samples;
static atomic_uint wrong;
static atomic_bool stop;
static int64_t started_ns;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void sample(int64_t began_ns)
{
	unsigned int i = atomic_fetch_add(&n_samples, 1);

	if (i < SAMPLES_MAX)
		samples_us[i] = (uint32_t)((now_ns() - began_ns) / 1000);
}

static int compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void print_result(void)
{
	double seconds = (double)(now_ns() - started_ns) / 1e9;
	unsigned int n = n_samples, kept = n < SAMPLES_MAX ? n : SAMPLES_MAX;

	qsort(samples_us, kept, sizeof(samples_us[0]), compare);
	printf("{\"n\": %u, \"wrong\": %u, \"per_s\": %.0f, \"p50_us\": %u, \"p99_us\": %u}\n", n,
	       wrong, n / seconds, kept ? samples_us[kept / 2] : 0,
	       kept ? samples_us[(size_t)kept * 99 / 100] : 0);
}

/* --- HTTP ----------------------------------------------------------------------------------------------------------- */

static struct {
	int fd;
	int64_t began_ns;
	char in[65536];
	size_t n;
} conns[CONNECTIONS_MAX];

static char *template_text;
static size_t template_size;
static unsigned int next_number;
static int expected_status;

static void put_number(char *text, const char *mark, unsigned int number)
{
	char digits[9];

	snprintf(digits, sizeof(digits), "%08u", number % 100000000);
	for (char *at = strstr(text, mark); at; at = strstr(at, mark))
		memcpy(at, digits, 8);
}

static void ask(unsigned int i)
{
	char text[8192];

	memcpy(text, template_text, template_size + 1);
	put_number(text, "@NNNNNN@", next_number);
	put_number(text, "@MMMMMM@", next_number % MODULO);
	next_number++;
	conns[i].began_ns = now_ns();
	conns[i].n = 0;
	if (send(conns[i].fd, text, template_size, MSG_NOSIGNAL) != (ssize_t)template_size)
		die("send");
}

/* Is the answer whole? */
static bool answered(unsigned int i)
{
	char *end, *length;

	conns[i].in[conns[i].n] = '\0';
	end = strstr(conns[i].in, "\r\n\r\n");
	if (!end)
		return false;
	length = strcasestr(conns[i].in, "\r\ncontent-length:");
	if (length && (size_t)(end + 4 - conns[i].in) + strtoul(length + 17, NULL, 10) > conns[i].n)
		return false;
	if (atoi(conns[i].in + 9) != expected_status)
		wrong++;
	return true;
}

static void run_http(char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)atoi(argv[0])) };
	struct sockaddr_in from = { .sin_family = AF_INET };
	unsigned int n = (unsigned int)atoi(argv[2]);
	int64_t end_ns;
	int epoll = epoll_create1(EPOLL_CLOEXEC), on = 1;
	struct epoll_event events[64];

	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	inet_pton(AF_INET, argv[1], &from.sin_addr);
	expected_status = atoi(argv[4]);
	template_text = argv[5];
	template_size = strlen(template_text);
	next_number = (unsigned int)(time(NULL) % 100000) * 1000;
	for (unsigned int i = 0; i < n; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };

		conns[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(conns[i].fd, (struct sockaddr *)&from, sizeof(from)) < 0 ||
		    connect(conns[i].fd, (struct sockaddr *)&to, sizeof(to)) < 0)
			die("connect");
		setsockopt(conns[i].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		epoll_ctl(epoll, EPOLL_CTL_ADD, conns[i].fd, &event);
	}
	started_ns = now_ns();
	end_ns = started_ns + atoll(argv[3]) * 1000000000;
	for (unsigned int i = 0; i < n; i++)
		ask(i);
	while (now_ns() < end_ns) {
		int got = epoll_wait(epoll, events, 64, 1000);

		for (int e = 0; e < got; e++) {
			unsigned int i = events[e].data.u32;
			ssize_t bytes = recv(conns[i].fd, conns[i].in + conns[i].n,
					     sizeof(conns[i].in) - 1 - conns[i].n, 0);

			if (bytes <= 0)
				die("the server closed");
			conns[i].n += (size_t)bytes;
			if (!answered(i))
				continue;
			sample(conns[i].began_ns);
			ask(i);
		}
	}
	print_result();
}

/* --- bare transactions ---------------------------------------------------------------------------------------------- */

static void run_sqlite(char **argv)
{
	int64_t end_ns;
	sqlite3_stmt *insert;
	sqlite3 *db;

	if (sqlite3_open(argv[0], &db) != SQLITE_OK ||
	    sqlite3_exec(db,
			 "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA "
			 "wal_autocheckpoint = 4000;"
			 "CREATE TABLE IF NOT EXISTS bare (n INTEGER)",
			 NULL, NULL, NULL) != SQLITE_OK)
		die("sqlite");
	sqlite3_prepare_v2(db, "INSERT INTO bare (n) VALUES (1)", -1, &insert, NULL);
	started_ns = now_ns();
	end_ns = started_ns + atoll(argv[1]) * 1000000000;
	while (now_ns() < end_ns) {
		int64_t began_ns = now_ns();

		if (sqlite3_step(insert) != SQLITE_DONE)
			wrong++;
		sqlite3_reset(insert);
		sample(began_ns);
	}
	print_result();
}

static const char *uri;

static void *insert_postgresql(void *data)
{
	PGconn *conn = PQconnectdb(uri);

	(void)data;
	while (!atomic_load(&stop)) {
		int64_t began_ns = now_ns();
		PGresult *result = PQexec(conn, "INSERT INTO bare (n) VALUES (1)");

		if (PQresultStatus(result) != PGRES_COMMAND_OK)
			wrong++;
		PQclear(result);
		sample(began_ns);
	}
	PQfinish(conn);
	return NULL;
}

static void run_postgresql(char **argv)
{
	pthread_t threads[CONNECTIONS_MAX];
	unsigned int n = (unsigned int)atoi(argv[1]);
	PGconn *conn;

	uri = argv[0];
	conn = PQconnectdb(uri);
	PQclear(PQexec(
		conn,
		"SET client_min_messages = warning; CREATE TABLE IF NOT EXISTS bare (n INTEGER)"));
	PQfinish(conn);
	started_ns = now_ns();
	for (unsigned int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, insert_postgresql, NULL);
	sleep((unsigned int)atoi(argv[2]));
	atomic_store(&stop, true);
	for (unsigned int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	print_result();
}

int main(int argc, char **argv)
{
	if (argc == 8 && !strcmp(argv[1], "http") && atoi(argv[4]) <= CONNECTIONS_MAX)
		run_http(argv + 2);
	else if (argc == 4 && !strcmp(argv[1], "sqlite"))
		run_sqlite(argv + 2);
	else if (argc == 5 && !strcmp(argv[1], "postgresql") && atoi(argv[3]) <= CONNECTIONS_MAX)
		run_postgresql(argv + 2);
	else
		return fprintf(stderr, "usage: see the head of tests/bench/load.c\n"), 2;
	return 0;
}
