// SPDX-License-Identifier: Apache-2.0
/*
 * user/sink over sockets, with real peers of the test's own: syslog on a unix socket, over TCP and over TLS; a journal; a mock
 * cluster of Kafka. A peer that goes away, does not read, or is not who it should be.
 */
#include "sink_help.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

static char dir[64], path[96];

static struct sinks *open_one(const char *rest)
{
	struct sinks *sinks = NULL;
	struct error error = { "" };

	if (sinks_from(&sinks, &error, "sinks:\n- {%s}\n", rest) < 0)
		fail_msg("%s", error.text);
	return sinks;
}

/* Waits for a state of the first sink. */
static struct sink_stats stats_wait(struct sinks *sinks, bool up, uint64_t failures, uint64_t lost)
{
	struct sink_stats s;

	for (unsigned int i = 0; i < 1000; i++) {
		sinks_stats(sinks, &s, 1);
		if (s.up == up && s.failures >= failures && s.lost >= lost)
			return s;
		nap_ms(10);
	}
	fail_msg("up %d, %llu failures, %llu lost: %s", s.up, (unsigned long long)s.failures,
		 (unsigned long long)s.lost, s.problem);
	return s;
}

static ssize_t receive(int fd, char *p, size_t n, unsigned int timeout_ms)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };

	return poll(&poller, 1, (int)timeout_ms) > 0 ? recv(fd, p, n, 0) : -1;
}

/* --- syslog: unix ------------------------------------------------------------------------------------------------------ */

static int unix_listen(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* The text of a record of RFC 5424 whose head is right. */
static const char *syslog_text(const char *record, const char *pri)
{
	unsigned int year, version;
	char rest[64];
	const char *text = record;

	assert_memory_equal(record, pri, strlen(pri));
	assert_int_equal(sscanf(record + strlen(pri), "%u %u-%*2c-%*2cT%*15cZ %63s", &version,
				&year, rest),
			 3);
	assert_int_equal(version, 1);
	assert_int_equal(year, 2023);
	assert_string_equal(rest, "node-1");
	for (unsigned int i = 0; i < 7; i++)
		text = strchr(text, ' ') + 1;
	return text;
}

static void test_syslog_unix(void **state)
{
	struct sinks *sinks;
	char more[256], record[16384];
	int fd;

	(void)state;
	snprintf(more, sizeof(more), "type: syslog, address: 'unix:%s', facility: local3", path);
	sinks = open_one(more); /* nobody listens yet */
	event_give(sinks, 1, "/etc/passwd");
	event_give(sinks, 2, "/x\n<0>1 2023-01-01T00:00:00Z forged - - - - line\n");
	stats_wait(sinks, false, 1, 0);
	fd = unix_listen();
	for (unsigned int seq = 1; seq <= 2; seq++) {
		ssize_t n = receive(fd, record, sizeof(record) - 1, 10000);
		json_t *event;

		assert_true(n > 0);
		record[n] = '\0';
		assert_null(strchr(record, '\n'));
		event = json_loads(syslog_text(record, "<156>"), 0, NULL); /* local3, warning */
		assert_non_null(event);
		assert_int_equal(json_integer_value(json_object_get(event, "seq")), seq);
		json_decref(event);
	}
	assert_int_equal(sinks_close(sinks, 5000), 0);
	assert_int_equal(recv(fd, record, sizeof(record), MSG_DONTWAIT), -1);
	close(fd);
}

/* --- syslog: TCP ------------------------------------------------------------------------------------------------------- */

static int tcp_listen(uint16_t *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(*port),
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int on = 1, small = 4096;
	socklen_t size = sizeof(address);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

/* What a collector has read: octet-counted frames. */
struct collector {
	char *bytes;
	size_t n;
	uint64_t events, next, lost, frames;
	bool ordered;
};

static struct collector collector_new(void)
{
	struct collector c = { .bytes = malloc(1 << 20), .next = 1, .ordered = true };

	assert_non_null(c.bytes);
	return c;
}

/* Takes whole frames out of the bytes. */
static void collector_parse(struct collector *c)
{
	for (;;) {
		char *space = memchr(c->bytes, ' ', c->n), *text;
		size_t head, size;
		json_t *event;

		if (!space)
			return;
		head = (size_t)(space - c->bytes) + 1;
		size = strtoul(c->bytes, NULL, 10);
		assert_true(size > 0 && size < 200000);
		if (c->n < head + size)
			return;
		text = strndup(c->bytes + head, size);
		assert_int_equal(text[0], '<');
		assert_null(strchr(text, '\n'));
		event = json_loads(strchr(text, '{'), 0, NULL);
		assert_non_null(event);
		c->frames++;
		if (!strcmp(json_string_value(json_object_get(event, "op")), "sink_gap")) {
			uint64_t count =
				(uint64_t)json_integer_value(json_object_get(event, "count"));

			c->lost += count;
			c->next += count;
		} else {
			c->ordered &= (uint64_t)json_integer_value(json_object_get(event, "seq")) ==
				      c->next;
			c->next++;
			c->events++;
		}
		json_decref(event);
		free(text);
		c->n -= head + size;
		memmove(c->bytes, c->bytes + head + size, c->n);
	}
}

/* Reads until so many events and losses are there. */
static void collector_read(struct collector *c, int fd, uint64_t total)
{
	while (c->events + c->lost < total) {
		ssize_t n = receive(fd, c->bytes + c->n, (1 << 20) - c->n, 10000);

		if (n <= 0)
			fail_msg("%llu of %llu events came", (unsigned long long)c->events,
				 (unsigned long long)total);
		c->n += (size_t)n;
		collector_parse(c);
	}
}

static void test_syslog_tcp(void **state)
{
	struct collector c = collector_new();
	struct sinks *sinks;
	uint16_t port = 0;
	char more[128];
	int listener = tcp_listen(&port), fd;

	(void)state;
	snprintf(more, sizeof(more), "type: syslog, address: 'tcp:127.0.0.1:%u'", port);
	sinks = open_one(more);
	events_give(sinks, 1, 500);
	fd = accept(listener, NULL, NULL);
	collector_read(&c, fd, 500);
	/* The collector goes away and comes back: what was given meanwhile waits. */
	close(listener);
	close(fd);
	stats_wait(sinks, false, 1, 0);
	events_give(sinks, 501, 800);
	listener = tcp_listen(&port);
	fd = accept(listener, NULL, NULL);
	c.n = 0;
	collector_read(&c, fd, 800);
	assert_true(c.ordered);
	assert_int_equal(c.lost, 0);
	/* It ends in the middle of a frame: over the next connection that frame comes as a whole. */
	events_give(sinks, 801, 8000); /* more than the kernel keeps for a peer */
	for (;;) {
		ssize_t n = receive(fd, c.bytes + c.n, 3000, 10000);

		assert_true(n > 0);
		c.n += (size_t)n;
		collector_parse(&c);
		if (c.events > 900 && c.n)
			break;
	}
	{ /* without reading the rest: a reset */
		const struct linger now = { .l_onoff = 1 };

		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		close(fd);
	}
	fd = accept(listener, NULL, NULL);
	c.n = 0;
	for (unsigned int i = 0; i < 100000 && c.next < 8001; i++) {
		ssize_t n = receive(fd, c.bytes + c.n, (1 << 20) - c.n, 10000);
		json_t *event;
		char *text;

		assert_true(n > 0);
		c.n += (size_t)n;
		text = strchr(
			c.bytes,
			'{'); /* the first frame is whole, and a later event than the last read */
		event = i ? NULL : json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
		if (event) {
			uint64_t seq = (uint64_t)json_integer_value(json_object_get(event, "seq"));

			assert_true(seq >= c.next && seq <= 8000);
			c.next = seq;
			json_decref(event);
		}
		collector_parse(&c);
	}
	assert_int_equal(c.next, 8001);
	assert_true(c.ordered);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	close(fd);
	close(listener);
	free(c.bytes);
}

/* A collector that does not read: its sink counts, the file beside it does not notice. */
static void test_slow_reader(void **state)
{
	struct collector c = collector_new();
	struct sinks *sinks = NULL;
	struct error error = { "" };
	struct sink_stats s[2];
	uint16_t port = 0;
	int listener = tcp_listen(&port), fd;
	struct timespec begin, end;

	(void)state;
	assert_int_equal(
		sinks_from(&sinks, &error,
			   "sinks:\n- {type: syslog, queue: 512K, address: 'tcp:127.0.0.1:%u'}\n"
			   "- {type: file, path: %s}\n",
			   port, path),
		0);
	fd = accept(listener, NULL, NULL);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	events_give(sinks, 1, 12000);
	clock_gettime(CLOCK_MONOTONIC, &end);
	assert_true(end.tv_sec - begin.tv_sec < 5); /* who writes does not wait */
	for (unsigned int i = 0; i < 1000; i++) {
		sinks_stats(sinks, s, 2);
		if (s[1].written + s[1].lost >= 12000)
			break;
		nap_ms(10);
	}
	assert_int_equal(s[1].written, 12000);
	assert_int_equal(s[1].lost, 0);
	assert_true(s[0].lost > 0);
	collector_read(&c, fd, 12000);
	assert_true(c.ordered);
	assert_int_equal(c.events + c.lost, 12000);
	sinks_stats(sinks, s, 1);
	assert_int_equal(s[0].lost, c.lost);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	close(fd);
	close(listener);
	free(c.bytes);
	unlink(path);
}

/* --- syslog: TLS ------------------------------------------------------------------------------------------------------- */

struct server {
	int listener;
	const char *certificate, *key;
	char *bytes;
	size_t n;
	bool shaken;
};

/* Takes one connection and everything that comes over it. */
static void *server_run(void *arg)
{
	struct server *server = arg;
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	int fd = accept(server->listener, NULL, NULL), n;
	SSL *ssl;

	SSL_CTX_use_certificate_chain_file(context, server->certificate);
	SSL_CTX_use_PrivateKey_file(context, server->key, SSL_FILETYPE_PEM);
	ssl = SSL_new(context);
	SSL_set_fd(ssl, fd);
	server->shaken = SSL_accept(ssl) == 1;
	while (server->shaken &&
	       (n = SSL_read(ssl, server->bytes + server->n, (int)((1 << 20) - server->n))) > 0)
		server->n += (size_t)n;
	SSL_free(ssl);
	SSL_CTX_free(context);
	close(fd);
	return NULL;
}

/* A certificate that signs itself, for localhost and 127.0.0.1. */
static void certificate_make(const char *certificate, const char *key)
{
	EVP_PKEY *pair = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	X509_NAME *name = X509_get_subject_name(x);
	X509_EXTENSION *names =
		X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
	FILE *out;

	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), -60);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_set_pubkey(x, pair);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1,
				   0);
	X509_set_issuer_name(x, name);
	X509_add_ext(x, names, -1);
	assert_true(X509_sign(x, pair, EVP_sha256()) > 0);
	out = fopen(certificate, "w");
	PEM_write_X509(out, x);
	fclose(out);
	out = fopen(key, "w");
	PEM_write_PrivateKey(out, pair, NULL, NULL, 0, NULL, NULL);
	fclose(out);
	X509_EXTENSION_free(names);
	X509_free(x);
	EVP_PKEY_free(pair);
}

static void test_syslog_tls(void **state)
{
	static const struct {
		const char *more, *problem;
		bool right; /* the certificate that ca names is the server's */
	} cases[] = {
		{ "", NULL, true },
		{ ", server_name: localhost", NULL, true },
		{ ", server_name: other.example", "mismatch", true },
		{ "", "self-signed", false },
	};
	char files[4][96], more[512];

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		snprintf(files[i], sizeof(files[i]), "%s/%u.pem", dir, i);
	certificate_make(files[0], files[1]);
	certificate_make(files[2], files[3]);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct collector c = collector_new();
		uint16_t port = 0;
		struct server server = { .listener = tcp_listen(&port),
					 .certificate = files[0],
					 .key = files[1],
					 .bytes = c.bytes };
		struct sinks *sinks;
		struct sink_stats s;
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, server_run, &server), 0);
		snprintf(more, sizeof(more), "type: syslog, address: 'tls:127.0.0.1:%u', ca: %s%s",
			 port, cases[i].right ? files[0] : files[2], cases[i].more);
		sinks = open_one(more);
		events_give(sinks, 1, 200);
		if (cases[i].problem) {
			s = stats_wait(sinks, false, 1, 0);
			if (!strstr(s.problem, cases[i].problem))
				fail_msg("'%s' does not say '%s'", s.problem, cases[i].problem);
			assert_int_equal(s.written, 0);
			close(server.listener);
			assert_int_equal(sinks_close(sinks, 300), 200);
		} else {
			assert_int_equal(sinks_close(sinks, 10000), 0);
			close(server.listener);
		}
		pthread_join(thread, NULL);
		c.n = server.n;
		collector_parse(&c);
		assert_int_equal(c.events, cases[i].problem ? 0 : 200);
		free(c.bytes);
	}
	/* What can never work is said at the start. */
	{
		struct sinks *sinks;
		struct error error = { "" };

		assert_int_equal(
			sinks_from(&sinks, &error,
				   "sinks:\n- {type: syslog, address: 'tls:h:1', ca: /no/such}\n"),
			-EINVAL);
		assert_non_null(strstr(error.text, "/no/such"));
	}
	for (unsigned int i = 0; i < 4; i++)
		unlink(files[i]);
}

/* --- journald ---------------------------------------------------------------------------------------------------------- */

/* One record, from the datagram or the memory file that came with it. Returns its size. */
static size_t journal_receive(int fd, char *fields, size_t size, bool *ret_file)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = { fields, size };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	ssize_t n;
	int file;

	assert_int_equal(poll(&poller, 1, 10000), 1);
	n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	assert_true(n >= 0);
	*ret_file = message.msg_controllen > 0;
	if (*ret_file) {
		memcpy(&file, CMSG_DATA(&control.head), sizeof(file));
		assert_int_equal(fcntl(file, F_GET_SEALS) & F_SEAL_WRITE, F_SEAL_WRITE);
		n = pread(file, fields, size, 0);
		close(file);
	}
	fields[n] = '\0';
	return (size_t)n;
}

static void test_journald(void **state)
{
	static char fields[600000], long_path[4096], detail[1024];
	struct sinks *sinks;
	char more[256];
	bool file;
	int fd = unix_listen();
	struct event event;
	struct event_context context = { .node = "n" };

	(void)state;
	snprintf(more, sizeof(more), "type: journald, address: 'unix:%s', app: cordond", path);
	sinks = open_one(more);
	event_give(sinks, 1, "/etc/x\nPRIORITY=0\nCORDON_VERDICT=allow");
	journal_receive(fd, fields, sizeof(fields) - 1, &file);
	assert_false(file);
	assert_non_null(strstr(fields, "\nPRIORITY=4\n"));
	assert_non_null(strstr(fields, "\nSYSLOG_IDENTIFIER=cordond\n"));
	assert_non_null(strstr(fields, "\nCORDON_VERDICT=deny\n"));
	assert_null(strstr(fields, "\nCORDON_VERDICT=allow"));
	assert_null(strstr(fields, "\nPRIORITY=0"));
	assert_non_null(strstr(fields, "\nCORDON_PATH=/etc/x\\x0aPRIORITY=0"));
	assert_non_null(strstr(fields, "\nCORDON_TENANT=t-1\n"));
	assert_non_null(strstr(fields, "\nCORDON_FENCE=0000000000000007\n"));
	assert_memory_equal(fields, "MESSAGE=", 8);
	assert_non_null(strstr(fields, "\nCORDON_EVENT={\"schema\":"));
	/* Too long for a datagram. */
	memset(long_path, 1, sizeof(long_path) - 1);
	memset(detail, 1, sizeof(detail) - 1);
	event_fill(&event, 2, long_path);
	event.path2 = event.exe = event.unix_name = event.path;
	event.detail = detail;
	context.fence_name = context.policy = context.task = context.tenant = detail;
	context.subject = context.container = context.degraded = detail;
	{
		const int small = 8192;

		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	}
	sinks_write(sinks, &context, &event);
	assert_true(journal_receive(fd, fields, sizeof(fields) - 1, &file) > 100000);
	assert_non_null(strstr(fields, "\nCORDON_EVENT={"));
	assert_true(file || strlen(fields) < 212992);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	close(fd);
}

/* --- kafka ------------------------------------------------------------------------------------------------------------- */

static void log_drop(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
	(void)client;
	(void)level;
	(void)facility;
	(void)text;
}

/* A client that only has the mock cluster in it. */
static rd_kafka_t *host_new(void)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[256];

	rd_kafka_conf_set_log_cb(conf, log_drop);
	return rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
}

static rd_kafka_t *consumer_new(const char *brokers, const char *topic)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
	rd_kafka_t *consumer;
	char why[256];

	rd_kafka_conf_set_log_cb(conf, log_drop);
	rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof(why));
	rd_kafka_conf_set(conf, "reconnect.backoff.max.ms", "200", why, sizeof(why));
	rd_kafka_conf_set(conf, "group.id", "test", why, sizeof(why));
	rd_kafka_conf_set(conf, "auto.offset.reset", "earliest", why, sizeof(why));
	consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
	assert_non_null(consumer);
	rd_kafka_poll_set_consumer(consumer);
	for (int partition = 0; partition < 4; partition++)
		rd_kafka_topic_partition_list_add(topics, topic, partition)->offset =
			RD_KAFKA_OFFSET_BEGINNING;
	assert_int_equal(rd_kafka_assign(consumer, topics), 0);
	rd_kafka_topic_partition_list_destroy(topics);
	return consumer;
}

/* Reads n records of fence 7: all in order, keyed. */
static void consumer_read(rd_kafka_t *consumer, uint64_t from, uint64_t to)
{
	for (uint64_t seq = from; seq <= to;) {
		rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, 15000);
		json_t *event;

		if (!m)
			fail_msg("record %llu does not come", (unsigned long long)seq);
		if (m->err) {
			rd_kafka_message_destroy(m);
			continue;
		}
		assert_int_equal(m->key_len, 16);
		assert_memory_equal(m->key, "0000000000000007", 16);
		event = json_loadb(m->payload, m->len, 0, NULL);
		assert_non_null(event);
		assert_int_equal(json_integer_value(json_object_get(event, "seq")), seq);
		json_decref(event);
		rd_kafka_message_destroy(m);
		seq++;
	}
}

static void test_kafka(void **state)
{
	char more[512];
	rd_kafka_t *host = host_new(), *consumer;
	rd_kafka_mock_cluster_t *cluster;
	struct sinks *sinks;
	struct sink_stats s;
	struct error error = { "" };

	(void)state;
	assert_non_null(host);
	cluster = rd_kafka_mock_cluster_new(host, 2);
	assert_non_null(cluster);
	assert_int_equal(rd_kafka_mock_topic_create(cluster, "cordon", 4, 2), 0);
	snprintf(more, sizeof(more),
		 "type: kafka, brokers: '%s', topic: cordon, settings: {reconnect.backoff.max.ms: "
		 "'200'}",
		 rd_kafka_mock_cluster_bootstraps(cluster));
	sinks = open_one(more);
	consumer = consumer_new(rd_kafka_mock_cluster_bootstraps(cluster), "cordon");
	events_give(sinks, 1, 500);
	consumer_read(consumer, 1, 500);
	/* All brokers go away and come back. */
	rd_kafka_mock_broker_set_down(cluster, 1);
	rd_kafka_mock_broker_set_down(cluster, 2);
	events_give(sinks, 501, 600);
	s = stats_wait(sinks, false, 1, 0);
	assert_true(s.queued > 0);
	assert_true(s.problem[0]);
	rd_kafka_mock_broker_set_up(cluster, 1);
	rd_kafka_mock_broker_set_up(cluster, 2);
	consumer_read(consumer, 501, 600);
	assert_true(sinks_settle(sinks));
	s = stats_wait(sinks, true, 1, 0);
	assert_int_equal(s.written, 600);
	assert_int_equal(s.lost, 0);
	assert_int_equal(sinks_close(sinks, 5000), 0);
	rd_kafka_destroy(consumer);
	/* What the library does not know is said at the start; a secret is not quoted. */
	assert_int_equal(sinks_from(&sinks, &error,
				    "sinks:\n- {type: kafka, brokers: 'h:1', topic: t, settings: "
				    "{no.such: x}}\n"),
			 -EINVAL);
	assert_non_null(strstr(error.text, "no.such"));
	error.text[0] = '\0';
	file_write(path, "hunter2\n", 8, 0644);
	snprintf(more, sizeof(more),
		 "sinks:\n- {type: kafka, brokers: 'h:1', topic: t, secrets: {acks: %s}}\n", path);
	assert_int_equal(sinks_from(&sinks, &error, "%s", more), -EPERM);
	assert_int_equal(chmod(path, 0600), 0);
	error.text[0] = '\0';
	assert_int_equal(sinks_from(&sinks, &error, "%s", more), -EINVAL);
	assert_null(strstr(error.text, "hunter2"));
	unlink(path);
	rd_kafka_mock_cluster_destroy(cluster);
	rd_kafka_destroy(host);
}

/* The cluster refuses for good: counted, reported, and the sink goes on. */
static void test_kafka_refuses(void **state)
{
	char more[512];
	rd_kafka_t *host = host_new();
	rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(host, 1);
	struct sinks *sinks;
	struct sink_stats s;

	(void)state;
	snprintf(more, sizeof(more),
		 "type: kafka, brokers: '%s', topic: cordon, settings: {message.timeout.ms: '300', "
		 "linger.ms: '0'}",
		 rd_kafka_mock_cluster_bootstraps(cluster));
	sinks = open_one(more);
	events_give(sinks, 1, 1);
	assert_true(sinks_settle(sinks));
	rd_kafka_mock_broker_set_down(cluster, 1);
	events_give(sinks, 2, 11);
	for (unsigned int i = 0; i < 1000; i++) {
		sinks_stats(sinks, &s, 1);
		if (s.lost >= 10)
			break;
		nap_ms(10);
	}
	assert_true(s.lost >= 10);
	rd_kafka_mock_broker_set_up(cluster, 1);
	sinks_close(sinks, 2000);
	rd_kafka_mock_cluster_destroy(cluster);
	rd_kafka_destroy(host);
}

/* --- configuration -------------------------------------------------------------------------------------------------------- */

static void test_config(void **state)
{
	static const struct {
		const char *text, *fault;
	} cases[] = {
		{ "sinks:\n- {type: syslog}\n", "`address` is missing" },
		{ "sinks:\n- {type: syslog, address: 'udp:h:1'}\n", "expects `unix:PATH`" },
		{ "sinks:\n- {type: syslog, address: 'unix:log'}\n", "expects `unix:PATH`" },
		{ "sinks:\n- {type: syslog, address: 'tcp:h:1', ca: /x}\n", "`tls:` only" },
		{ "sinks:\n- {type: syslog, address: 'tls:h:1', certificate: /x}\n",
		  "belong together" },
		{ "sinks:\n- {type: syslog, address: 'tcp:h:1', facility: local8}\n",
		  "unknown word `local8`" },
		{ "sinks:\n- {type: journald, format: text}\n", "unknown key `format`" },
		{ "sinks:\n- {type: journald, address: '/x'}\n", "expects `unix:`" },
		{ "sinks:\n- {type: kafka, brokers: 'h:1'}\n", "`topic` is missing" },
		{ "sinks:\n- {type: kafka, brokers: 'h:1', topic: t, settings: [a]}\n",
		  "a mapping of names" },
		{ "sinks:\n- {type: kafka, brokers: 'h:1', topic: t, settings: {sasl.password: "
		  "x}}\n",
		  "under `secrets`" },
	};
	struct conf_faults faults;
	struct test_config config;
	struct sinks *sinks;
	struct error error = { "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t found = 0;

		assert_int_equal(config_read(cases[i].text, &config, &faults), 0);
		for (size_t j = 0; j < faults.n; j++)
			found += strstr(faults.v[j].text, cases[i].fault) != NULL;
		if (!found)
			fail_msg("%s: %s", cases[i].text, faults.n ? faults.v[0].text : "no fault");
		conf_faults_clear(&faults);
		sinks_config_clear(&config.sinks);
	}
	assert_int_equal(sinks_from(&sinks, &error,
				    "sinks:\n- {type: syslog, address: 'tcp:::1:514'}\n"),
			 -EINVAL);
}

/* --- the frame ---------------------------------------------------------------------------------------------------------- */

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/cordon-net-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/socket", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config),
		TEST(test_syslog_unix),
		TEST(test_syslog_tcp),
		TEST(test_slow_reader),
		TEST(test_syslog_tls),
		TEST(test_journald),
		TEST(test_kafka),
		TEST(test_kafka_refuses),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
