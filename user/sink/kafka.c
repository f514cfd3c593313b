// SPDX-License-Identifier: Apache-2.0
/*
 * A topic of Kafka, by librdkafka, which keeps connections, batches and retries. Its own queue is kept short; what it has not
 * delivered stays in the sink's queue, so there is one bound. The key is the fence, so that the events of one stay in order. What the cluster
 * refuses, or does not take within `message.timeout.ms`, is counted as lost. Secrets come from files and appear nowhere. No privilege.
 */
#include <errno.h>
#include <fcntl.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sink/internal.h"

enum { SECRET_MAX = 4096, POLL_MS = 50 };

struct kafka {
	rd_kafka_t *client;
	rd_kafka_topic_t *topic;
	uint64_t delivered, delivered_bytes, refused,
		refused_ns; /* since they were accounted for */
	uint64_t flying;    /* given to the library */
	bool down;	    /* no broker can be reached */
	char problem[256];
};

/* What holds unless the configuration says otherwise. */
static const char *const defaults[][2] = {
	{ "client.id", "cordon" },
	{ "enable.idempotence", "true" },
	{ "queue.buffering.max.messages", "16384" },
	{ "queue.buffering.max.kbytes", "8192" },
	{ "linger.ms", "20" },
	{ "compression.codec", "lz4" },
	{ "message.max.bytes", "1000000" },
	{ "log.connection.close", "false" },
};

/* --- the client ------------------------------------------------------------------------------------------------------- */

/* Called by the library within its poll function, in the sink's thread. */
static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *arg)
{
	struct sink *sink = arg;
	struct kafka *k = sink->state;

	(void)client;
	k->flying--;
	if (message->err) {
		k->refused++;
		k->refused_ns = (uint64_t)(uintptr_t)message->_private;
		snprintf(k->problem, sizeof(k->problem), "%s", rd_kafka_err2str(message->err));
		return;
	}
	k->down = false;
	k->delivered++;
	k->delivered_bytes += message->len;
}

static void on_error(rd_kafka_t *client, int err, const char *reason, void *arg)
{
	struct sink *sink = arg;
	struct kafka *k = sink->state;

	(void)client;
	snprintf(k->problem, sizeof(k->problem), "%s: %s",
		 rd_kafka_err2name((rd_kafka_resp_err_t)err), reason);
	k->down |= err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
}

/* The library would write to stderr. Its errors come by on_error(). */
static void on_log(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
	(void)client;
	(void)level;
	(void)facility;
	(void)text;
}

/* The text of a file of mode 0600, without the blanks at its end. */
static int secret_read(const char *path, char ret_text[SECRET_MAX + 1], struct error *error)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(error, errno, "secret %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
		return error_set(error, EPERM,
				 "secret %s: mode %04o lets others read it; chmod 600 it", path,
				 st.st_mode & 07777);
	n = read(fd, ret_text, SECRET_MAX);
	if (n < 0)
		return error_set(error, errno, "secret %s: %s", path, strerror(errno));
	while (n && strchr(" \t\r\n", ret_text[n - 1]))
		n--;
	ret_text[n] = '\0';
	return n ? 0 : error_set(error, EINVAL, "secret %s: empty", path);
}

static int setting_set(rd_kafka_conf_t *conf, const struct sink_config *c, const char *name,
		       const char *value, bool secret, struct error *error)
{
	char why[256];

	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) == RD_KAFKA_CONF_OK)
		return 0;
	return error_set(error, EINVAL, "sink %s: settings.%s: %s", c->name, name,
			 secret ? "not accepted" : why);
}

static int settings_set(rd_kafka_conf_t *conf, const struct sink_config *c, struct error *error)
{
	char secret[SECRET_MAX + 1];
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(defaults); i++)
		r = setting_set(conf, c, defaults[i][0], defaults[i][1], false, error);
	if (r == 0)
		r = setting_set(conf, c, "bootstrap.servers", c->brokers, false, error);
	for (size_t i = 0; r == 0 && i < c->n_settings; i++) {
		const char *value = c->setting[i].value;

		if (c->setting[i].secret) {
			r = secret_read(value, secret, error);
			value = secret;
		}
		if (r == 0)
			r = setting_set(conf, c, c->setting[i].name, value, c->setting[i].secret,
					error);
	}
	explicit_bzero(secret, sizeof(secret));
	return r;
}

static int kafka_prepare(struct sink *sink, struct error *error)
{
	struct kafka *k = calloc(1, sizeof(*k));
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[256];
	int r;

	sink->state = k;
	if (!k || !conf)
		return error_set(error, ENOMEM, "out of memory");
	r = settings_set(conf, &sink->config, error);
	if (r < 0) {
		rd_kafka_conf_destroy(conf);
		return r;
	}
	rd_kafka_conf_set_opaque(conf, sink);
	rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
	rd_kafka_conf_set_error_cb(conf, on_error);
	rd_kafka_conf_set_log_cb(conf, on_log);
	k->client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (!k->client) {
		rd_kafka_conf_destroy(conf);
		return error_set(error, EINVAL, "sink %s: %s", sink->config.name, why);
	}
	k->topic = rd_kafka_topic_new(k->client, sink->config.topic, NULL);
	return k->topic ? 0
			: error_set(error, EINVAL, "sink %s: topic: %s", sink->config.name,
				    rd_kafka_err2str(rd_kafka_last_error()));
}

static void kafka_free(struct sink *sink)
{
	struct kafka *k = sink->state;

	if (!k)
		return;
	if (k->client)
		rd_kafka_purge(k->client, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
						  RD_KAFKA_PURGE_F_NON_BLOCKING);
	if (k->topic)
		rd_kafka_topic_destroy(k->topic);
	if (k->client)
		rd_kafka_destroy(k->client);
	free(k);
	sink->state = NULL;
}

/* --- records ---------------------------------------------------------------------------------------------------------- */

/* The library connects by itself, and goes on doing so. */
static int kafka_open(struct sink *sink, struct error *error)
{
	(void)sink;
	(void)error;
	return 0;
}

/* What was reported: delivered records are released, refused ones counted. Which of them it was does not matter: all are copied. */
static int reports_take(struct sink *sink, int wait_ms, struct error *error)
{
	struct kafka *k = sink->state;

	rd_kafka_poll(k->client, wait_ms);
	if (k->down == sink->up) {
		sink->failures += k->down;
		sink->up = !k->down;
		sink_note_problem(sink, k->down ? k->problem : "");
	}
	if (k->delivered)
		sink_note_written(sink, k->delivered, k->delivered_bytes);
	if (k->refused) {
		sink_queue_lose(&sink->queue, k->refused, k->refused_ns);
		sink_queue_release(&sink->queue, k->refused);
	}
	k->delivered = k->delivered_bytes = 0;
	if (k->refused) {
		k->refused = 0;
		return error_set(error, EIO, "kafka: %s", k->problem);
	}
	return 0;
}

static int kafka_put(struct sink *sink, const struct sink_item *item, const char *text,
		     struct error *error)
{
	struct kafka *k = sink->state;
	char key[EVENT_FENCE_ID_SIZE];

	event_format_fence_id(item->fence_id, key);
	if (rd_kafka_produce(k->topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY,
			     (void *)(uintptr_t)text, item->size - 1, key, sizeof(key) - 1,
			     (void *)(uintptr_t)item->time_ns) == 0) {
		k->flying++;
		return SINK_TAKEN;
	}
	switch (rd_kafka_last_error()) {
	case RD_KAFKA_RESP_ERR__QUEUE_FULL:
		return -EAGAIN;
	case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
		return SINK_REFUSED;
	default:
		return error_set(error, EIO, "kafka: %s", rd_kafka_err2str(rd_kafka_last_error()));
	}
}

static int kafka_flush(struct sink *sink, struct error *error)
{
	const struct kafka *k = sink->state;

	return reports_take(sink, k->flying ? POLL_MS : 0, error);
}

static int kafka_tick(struct sink *sink, struct error *error)
{
	return reports_take(sink, 0, error);
}

/* What flies goes on flying after a failure. */
static void kafka_close(struct sink *sink, bool last)
{
	(void)sink;
	(void)last;
}

const struct sink_kind sink_kind_kafka = {
	.prepare = kafka_prepare,
	.open = kafka_open,
	.put = kafka_put,
	.flush = kafka_flush,
	.tick = kafka_tick,
	.close = kafka_close,
	.free = kafka_free,
};
