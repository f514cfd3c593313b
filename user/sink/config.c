// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration of sinks: rows of keys for each type, read from a tree of user/conf. Looks at no file. A sink with
 * a fault is left out, and reading goes on, so that all faults of a text are found at once.
 */
#include <errno.h>
#include <string.h>

#include "sink/internal.h"

#define CORDON_X(e, n, d) n,
static const char *const type_words[] = { SINK_TYPES(CORDON_X) NULL };
#undef CORDON_X
#define CORDON_X(e, n, d) d,
static const char *const type_docs[] = { SINK_TYPES(CORDON_X) };
#undef CORDON_X

static const char *const format_words[] = { "json", "text", "ocsf", NULL };
static const char *const fsync_words[] = { "interval", "never", "each", NULL };

#define AT(member) offsetof(struct sink_config, member)
#define SECOND 1000LL
#define DAY 86400000LL
#define KIB 1024LL
#define MIB 1048576LL
#define GIB 1073741824LL

static conf_read_fn read_chain;

#define COMMON_KEYS                                                                                \
	{ .name = "type",                                                                          \
	  .read = conf_read_word,                                                                  \
	  .offset = AT(type),                                                                      \
	  .words = type_words,                                                                     \
	  .required = true,                                                                        \
	  .expects = "a type",                                                                     \
	  .doc = "what kind of sink it is" },                                                      \
		{ .name = "name",                                                                  \
		  .read = conf_read_text,                                                          \
		  .offset = AT(name),                                                              \
		  .expects = "a name",                                                             \
		  .fallback = "the type",                                                          \
		  .doc = "stands in loss records and metrics; no two sinks have the same" },       \
	{                                                                                          \
		.name = "queue", .read = conf_read_size, .offset = AT(queue_bytes),                \
		.min = 512 * KIB, .max = GIB, .expects = "bytes", .fallback = "`8M`",              \
		.doc = "what waits while the sink is slow; more is counted and reported as a loss" \
	}

#define FORMAT_KEY                                                              \
	{                                                                       \
		.name = "format", .read = conf_read_word, .offset = AT(format), \
		.words = format_words, .expects = "`json`, `text` or `ocsf`",   \
		.fallback = "`json`", .doc = "form of a record: docs/events.md" \
	}

static const struct conf_key rotate_rows[] = {
	{ .name = "size",
	  .read = conf_read_size,
	  .offset = AT(rotate_size),
	  .min = 64 * KIB,
	  .max = 1024 * GIB,
	  .expects = "bytes",
	  .fallback = "`256M`",
	  .doc = "begin a new file before this one gets larger" },
	{ .name = "age",
	  .read = conf_read_duration,
	  .offset = AT(rotate_age_ms),
	  .min = SECOND,
	  .max = 3650 * DAY,
	  .expects = "a time",
	  .fallback = "never",
	  .doc = "begin a new file after this time" },
	{ .name = "keep",
	  .read = conf_read_integer,
	  .offset = AT(keep),
	  .min = 1,
	  .max = SINK_KEEP_MAX,
	  .expects = "a number",
	  .fallback = "`16`",
	  .doc = "complete files that stay, `PATH.000001` and so on; older ones are removed" },
	CONF_KEYS_END
};

static const struct conf_key checkpoint_rows[] = {
	{ .name = "records",
	  .read = conf_read_integer,
	  .offset = AT(checkpoint_records),
	  .min = 1,
	  .max = 1000000,
	  .expects = "a number",
	  .fallback = "`1000`",
	  .doc = "a signed checkpoint after so many records" },
	{ .name = "every",
	  .read = conf_read_duration,
	  .offset = AT(checkpoint_ms),
	  .min = 100,
	  .max = DAY,
	  .expects = "a time",
	  .fallback = "`10s`",
	  .doc = "and after that time, if there are records that none covers" },
	CONF_KEYS_END
};

static const struct conf_key file_rows[] = {
	COMMON_KEYS,
	FORMAT_KEY,
	{ .name = "path",
	  .read = conf_read_text,
	  .offset = AT(path),
	  .required = true,
	  .expects = "an absolute path",
	  .doc = "the file; its directory must exist and be writable by root and this program "
		 "only" },
	{ .name = "rotate", .read = conf_read_mapping, .sub = rotate_rows },
	{ .name = "fsync",
	  .read = conf_read_word,
	  .offset = AT(fsync),
	  .words = fsync_words,
	  .expects = "`never`, `interval` or `each`",
	  .fallback = "`interval`",
	  .doc = "when it is forced to the disk: never, each `fsync_interval`, or with each "
		 "batch" },
	{ .name = "fsync_interval",
	  .read = conf_read_duration,
	  .offset = AT(fsync_ms),
	  .min = 100,
	  .max = 3600 * SECOND,
	  .expects = "a time",
	  .fallback = "`1s`",
	  .doc = "how much a crash of the host may cost" },
	{ .name = "chain",
	  .read = read_chain,
	  .offset = AT(chain),
	  .expects = "`true` or `false`",
	  .fallback = "`true` with json",
	  .doc = "each record carries a hash over itself and the one before; `cordon audit "
		 "verify`" },
	{ .name = "key",
	  .read = conf_read_text,
	  .offset = AT(key),
	  .expects = "a path",
	  .fallback = "none",
	  .doc = "file of mode 0600 with the key that signs checkpoints; `openssl rand -hex 32`" },
	{ .name = "checkpoint", .read = conf_read_mapping, .sub = checkpoint_rows },
	CONF_KEYS_END
};

static const struct conf_key stdout_rows[] = { COMMON_KEYS, FORMAT_KEY, CONF_KEYS_END };

#define APP_KEY                                                                                \
	{                                                                                      \
		.name = "app", .read = conf_read_text, .offset = AT(app), .expects = "a name", \
		.fallback = "`cordon`", .doc = "what the records are from"                     \
	}

static const struct conf_key journald_rows[] = {
	COMMON_KEYS,
	{ .name = "address",
	  .read = conf_read_text,
	  .offset = AT(address),
	  .expects = "`unix:PATH`",
	  .fallback = "the system's journal",
	  .doc = "socket that speaks the native protocol of the journal" },
	APP_KEY,
	CONF_KEYS_END
};

static const char *const facility_words[] = { "kern",	  "user",   "mail",   "daemon", "auth",
					      "syslog",	  "lpr",    "news",   "uucp",	"cron",
					      "authpriv", "ftp",    "ntp",    "audit",	"alert",
					      "clock",	  "local0", "local1", "local2", "local3",
					      "local4",	  "local5", "local6", "local7", NULL };

static const struct conf_key syslog_rows[] = {
	COMMON_KEYS,
	FORMAT_KEY,
	{ .name = "address",
	  .read = conf_read_text,
	  .offset = AT(address),
	  .required = true,
	  .expects = "`unix:PATH`, `tcp:HOST:PORT` or `tls:HOST:PORT`",
	  .doc = "where it listens; an IPv6 address stands in brackets" },
	{ .name = "facility",
	  .read = conf_read_word,
	  .offset = AT(facility),
	  .words = facility_words,
	  .expects = "a facility",
	  .fallback = "`authpriv`",
	  .doc = "as RFC 5424 names them" },
	APP_KEY,
	{ .name = "ca",
	  .read = conf_read_text,
	  .offset = AT(ca),
	  .expects = "a path",
	  .fallback = "those of the system",
	  .doc = "tls: certificates (PEM) that the peer's is verified by" },
	{ .name = "server_name",
	  .read = conf_read_text,
	  .offset = AT(server_name),
	  .expects = "a name or address",
	  .fallback = "HOST",
	  .doc = "tls: whose certificate the peer has to show" },
	{ .name = "certificate",
	  .read = conf_read_text,
	  .offset = AT(certificate),
	  .expects = "a path",
	  .fallback = "none",
	  .doc = "tls: own certificate (PEM), with `private_key`" },
	{ .name = "private_key",
	  .read = conf_read_text,
	  .offset = AT(private_key),
	  .expects = "a path",
	  .fallback = "none",
	  .doc = "tls: its key (PEM)" },
	CONF_KEYS_END
};

static conf_read_fn read_settings, read_secrets;

static const struct conf_key kafka_rows[] = {
	COMMON_KEYS,
	FORMAT_KEY,
	{ .name = "brokers",
	  .read = conf_read_text,
	  .offset = AT(brokers),
	  .required = true,
	  .expects = "HOST:PORT,...",
	  .doc = "some brokers of the cluster" },
	{ .name = "topic",
	  .read = conf_read_text,
	  .offset = AT(topic),
	  .required = true,
	  .expects = "a name",
	  .doc = "events are keyed by fence, so that those of one stay in order" },
	{ .name = "settings",
	  .read = read_settings,
	  .expects = "a mapping of texts",
	  .fallback = "none",
	  .doc = "further settings of librdkafka, such as `security.protocol: ssl`" },
	{ .name = "secrets",
	  .read = read_secrets,
	  .expects = "a mapping of paths",
	  .fallback = "none",
	  .doc = "the same, each from a file of mode 0600, such as `sasl.password: "
		 "/etc/cordon/kafka`" },
	CONF_KEYS_END
};

static const struct conf_key *const type_rows[] = {
	[SINK_FILE] = file_rows,     [SINK_STDOUT] = stdout_rows, [SINK_JOURNALD] = journald_rows,
	[SINK_SYSLOG] = syslog_rows, [SINK_KAFKA] = kafka_rows,
};
_Static_assert(ARRAY_SIZE(type_rows) == SINK_TYPE_COUNT, "each type has its keys");

static void settings_read(struct conf_reader *reader, const struct conf_node *value,
			  struct sink_config *c, bool secret)
{
	if (value->kind != CONF_NODE_MAPPING) {
		conf_reader_fault_type(reader, value, "a mapping of names to texts");
		return;
	}
	for (size_t i = 0; i < value->n; i += 2) {
		const struct conf_node *name = value->child[i];
		const char *text;

		if (name->kind != CONF_NODE_SCALAR || value->child[i + 1]->kind == CONF_NODE_BAD)
			continue;
		text = conf_reader_text(reader, value->child[i + 1], "text");
		if (!text)
			continue;
		if (c->n_settings == SINK_SETTINGS_MAX) {
			conf_reader_fault(reader, name->mark, "more than %d settings",
					  SINK_SETTINGS_MAX);
			return;
		}
		c->setting[c->n_settings].name = conf_reader_copy(reader, name->text);
		c->setting[c->n_settings].value = conf_reader_copy(reader, text);
		c->setting[c->n_settings++].secret = secret;
	}
}

static void read_settings(struct conf_reader *reader, const struct conf_key *key,
			  const struct conf_node *value, void *base)
{
	(void)key;
	settings_read(reader, value, base, false);
}

static void read_secrets(struct conf_reader *reader, const struct conf_key *key,
			 const struct conf_node *value, void *base)
{
	(void)key;
	settings_read(reader, value, base, true);
}

static void read_chain(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	((struct sink_config *)base)->chain_set = true;
	conf_read_bool(reader, key, value, base);
}

/* --- one sink ------------------------------------------------------------------------------------------------------ */

/* Each text member, for freeing, copying and comparing. */
static const size_t text_at[] = { AT(name),	   AT(path),	AT(key),	 AT(address),
				  AT(app),	   AT(ca),	AT(certificate), AT(private_key),
				  AT(server_name), AT(brokers), AT(topic) };

static char **text_of(struct sink_config *config, size_t i)
{
	void *text = (char *)config + text_at[i];

	return text;
}

static void config_free(struct sink_config *config)
{
	for (size_t i = 0; i < ARRAY_SIZE(text_at); i++)
		free(*text_of(config, i));
	for (size_t i = 0; i < config->n_settings; i++) {
		free(config->setting[i].name);
		free(config->setting[i].value);
	}
	memset(config, 0, sizeof(*config));
}

/* strdup() that takes NULL; notes a failure. */
static char *copy(const char *text, int *err)
{
	char *copied = text ? strdup(text) : NULL;

	if (text && !copied)
		*err = -ENOMEM;
	return copied;
}

int sink_config_copy(const struct sink_config *config, struct sink_config *ret_copy)
{
	int r = 0;

	*ret_copy = *config;
	for (size_t i = 0; i < ARRAY_SIZE(text_at); i++)
		*text_of(ret_copy, i) = copy(*text_of(ret_copy, i), &r);
	for (size_t i = 0; i < config->n_settings; i++) {
		ret_copy->setting[i].name = copy(config->setting[i].name, &r);
		ret_copy->setting[i].value = copy(config->setting[i].value, &r);
	}
	if (r < 0)
		config_free(ret_copy);
	return r;
}

static bool texts_equal(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool sink_config_equal(const struct sink_config *a, const struct sink_config *b)
{
	struct sink_config left = *a, right = *b;

	for (size_t i = 0; i < ARRAY_SIZE(text_at); i++)
		if (!texts_equal(*text_of(&left, i), *text_of(&right, i)))
			return false;
	if (a->n_settings != b->n_settings)
		return false;
	for (size_t i = 0; i < a->n_settings; i++)
		if (!texts_equal(a->setting[i].name, b->setting[i].name) ||
		    !texts_equal(a->setting[i].value, b->setting[i].value) ||
		    a->setting[i].secret != b->setting[i].secret)
			return false;
	return a->type == b->type && a->format == b->format && a->queue_bytes == b->queue_bytes &&
	       a->rotate_size == b->rotate_size && a->rotate_age_ms == b->rotate_age_ms &&
	       a->keep == b->keep && a->fsync == b->fsync && a->fsync_ms == b->fsync_ms &&
	       a->chain == b->chain && a->checkpoint_records == b->checkpoint_records &&
	       a->checkpoint_ms == b->checkpoint_ms && a->facility == b->facility;
}

void sinks_config_clear(struct sinks_config *config)
{
	for (size_t i = 0; i < config->n; i++)
		config_free(&config->v[i]);
	config->n = 0;
}

static void fault_at(struct conf_reader *reader, const char *key, struct conf_mark at,
		     const char *text)
{
	size_t before = conf_reader_descend(reader, key);

	conf_reader_fault(reader, at, "%s", text);
	conf_reader_ascend(reader, before);
}

/* What the rows cannot say of a file. */
static void file_check(struct conf_reader *reader, const struct sinks_config *all,
		       struct sink_config *c)
{
	for (size_t i = 0; c->path && i < all->n; i++)
		if (all->v[i].path && strcmp(all->v[i].path, c->path) == 0)
			fault_at(reader, "path", c->mark, "another sink writes to this file");
	if (c->path && (c->path[0] != '/' || c->path[strlen(c->path) - 1] == '/'))
		fault_at(reader, "path", c->mark, "expects the absolute path of a file");
	if (!c->chain_set)
		c->chain = c->format == EVENT_JSON;
	if (c->chain && c->format != EVENT_JSON)
		fault_at(reader, "chain", c->mark, "only format json has a chain");
	if (c->key && !c->chain)
		fault_at(reader, "key", c->mark,
			 "a key signs checkpoints of a chain; there is none");
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static void address_check(struct conf_reader *reader, const struct sink_config *c)
{
	const char *a = c->address;
	bool unix_path = a && begins(a, "unix:/");

	if (c->type == SINK_JOURNALD && a && !unix_path)
		fault_at(reader, "address", c->mark, "expects `unix:` and an absolute path");
	if (c->type != SINK_SYSLOG || !a)
		return;
	if (!unix_path && !((begins(a, "tcp:") || begins(a, "tls:")) && strrchr(a, ':') > a + 3))
		fault_at(reader, "address", c->mark,
			 "expects `unix:PATH`, `tcp:HOST:PORT` or `tls:HOST:PORT`");
	if (!begins(a, "tls:") && (c->ca || c->certificate || c->private_key || c->server_name))
		fault_at(reader, "address", c->mark,
			 "ca, certificate, private_key and server_name are for `tls:` only");
	if (!c->certificate != !c->private_key)
		fault_at(reader, "certificate", c->mark,
			 "certificate and private_key belong together");
}

/* A secret in `settings` would stand in the configuration for all to read. */
static void settings_check(struct conf_reader *reader, const struct sink_config *c)
{
	for (size_t i = 0; i < c->n_settings; i++)
		if (!c->setting[i].secret && c->setting[i].name &&
		    (strstr(c->setting[i].name, "password") ||
		     strstr(c->setting[i].name, "secret")))
			fault_at(reader, "settings", c->mark,
				 "passwords stand in files of mode 0600, under `secrets`");
}

static bool name_is_good(const char *name)
{
	return strlen(name) <= SINK_NAME_MAX &&
	       !name[strspn(name,
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")];
}

static void name_check(struct conf_reader *reader, const struct sinks_config *all,
		       struct sink_config *c)
{
	if (!c->name)
		c->name = conf_reader_copy(reader, type_words[c->type]);
	if (!c->name)
		return;
	if (!name_is_good(c->name))
		fault_at(reader, "name", c->mark,
			 "expects 1 to 63 of the characters A-Z a-z 0-9 . _ -");
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].name && strcmp(all->v[i].name, c->name) == 0)
			fault_at(reader, "name", c->mark,
				 "another sink has this name; give each a `name` of its own");
}

/* Which type of sink this mapping is; SINK_TYPE_COUNT: it does not say, and that is a fault. */
static enum sink_type type_read(struct conf_reader *reader, const struct conf_node *value)
{
	const struct conf_key row = {
		.name = "type", .read = conf_read_word, .offset = AT(type), .words = type_words
	};
	struct sink_config c = { .type = SINK_TYPE_COUNT };
	const struct conf_node *type = conf_node_get(value, "type", NULL);
	size_t before;

	if (!type) {
		if (reader->complete)
			conf_reader_fault(reader, value->mark, "`type` is missing");
		return SINK_TYPE_COUNT;
	}
	before = conf_reader_descend(reader, "type");
	if (type->kind != CONF_NODE_BAD)
		conf_read_word(reader, &row, type, &c);
	conf_reader_ascend(reader, before);
	return c.type;
}

static void sink_read(struct conf_reader *reader, struct sinks_config *all,
		      const struct conf_node *value)
{
	struct sink_config *c = &all->v[all->n];
	enum sink_type type;

	if (value->kind != CONF_NODE_MAPPING) {
		conf_reader_fault_type(reader, value, "a mapping with a `type`");
		return;
	}
	type = type_read(reader, value);
	if (type == SINK_TYPE_COUNT)
		return;
	*c = (struct sink_config){ .type = type,
				   .mark = value->mark,
				   .queue_bytes = 8 * MIB,
				   .rotate_size = 256 * MIB,
				   .keep = 16,
				   .fsync_ms = SECOND,
				   .facility = 10,
				   .checkpoint_records = 1000,
				   .checkpoint_ms = 10 * SECOND };
	conf_read_rows(reader, type_rows[type], value, c);
	c->type = type;
	name_check(reader, all, c);
	if (type == SINK_FILE)
		file_check(reader, all, c);
	address_check(reader, c);
	settings_check(reader, c);
	all->n++;
}

void sinks_read_config(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	void *at = (char *)base + key->offset;
	struct sinks_config *all = at;
	size_t before;

	if (value->kind != CONF_NODE_LIST) {
		conf_reader_fault_type(reader, value, "a list of sinks");
		return;
	}
	for (size_t i = 0; i < value->n; i++) {
		if (all->n == SINKS_MAX) {
			conf_reader_fault(reader, value->child[i]->mark, "more than %d sinks",
					  SINKS_MAX);
			return;
		}
		before = conf_reader_descend_index(reader, i);
		sink_read(reader, all, value->child[i]);
		conf_reader_ascend(reader, before);
	}
}

static const char doc_head[] =
	"<!-- Generated by `build/unit/test_sink --print-doc` from user/sink/config.c. -->\n"
	"\n"
	"# Sinks\n"
	"\n"
	"`sinks:` in the configuration of cordond is a list; each entry is one sink.\n"
	"\n"
	"```yaml\n"
	"sinks:\n"
	"- {type: file, name: audit, path: /var/log/cordon/events.jsonl, key: "
	"/etc/cordon/audit.key}\n"
	"- {type: stdout, format: text}\n"
	"```\n"
	"\n"
	"Each has a queue and a thread of its own. Whoever reports an event never waits for a "
	"sink. What does\n"
	"not fit into a queue is counted, and a `sink_gap` event with the number and the times of "
	"the first and\n"
	"the last stands in that sink where they are missing; the other sinks are not touched. A "
	"sink that fails\n"
	"is tried again after 0.1 s, then after pauses that double up to 30 s.\n"
	"\n"
	"Text that others chose is escaped the same way in every format: no control character, and "
	"so no line of its own,\n"
	"ever comes out of it. What has the form of a known secret is `[redacted]` "
	"(docs/events.md).\n"
	"\n"
	"Files are made with mode 0640. The directory must exist and belong to root or to the user "
	"that writes, and\n"
	"nobody else may be able to write to it; symbolic links are not followed. The file being "
	"written is\n"
	"`PATH`; complete ones are `PATH.000001` and so on, and keep their names. After a rotation "
	"by others\n"
	"(logrotate), a reload makes the file anew. One process writes to a file; a second waits "
	"for it.\n";

void sinks_print_doc(FILE *out)
{
	fputs(doc_head, out);
	for (size_t i = 0; i < ARRAY_SIZE(type_rows); i++) {
		fprintf(out,
			"\n### `type: %s`\n\n%s.\n\n| key | value | default | meaning |\n"
			"|---|---|---|---|\n",
			type_words[i], type_docs[i]);
		conf_print_rows(type_rows[i], "", out);
	}
}
