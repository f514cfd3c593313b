// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration of the gateway: rows for its keys, lists of things with rows of their own. No
 * privilege, no look at the system: whether an address can be bound or a key can be read is found out
 * by who does it. A text with a fault gives no configuration.
 */
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/un.h>

#include "conf/file.h"
#include "gwconf/upstream.h"

static const char *const use_words[] = { "verify", "sign", NULL };

void gwconf_free(struct gwconf *conf)
{
	if (!conf)
		return;
	free(conf->path);
	for (size_t i = 0; i < conf->n_listen; i++) {
		free(conf->listen[i].text);
		free(conf->listen[i].socket);
	}
	for (size_t i = 0; i < conf->n_dns; i++)
		free(conf->dns[i].text);
	free(conf->node);
	free(conf->admin);
	free(conf->events);
	free(conf->anchor);
	free(conf->nameservers);
	for (size_t i = 0; i < conf->n_keys; i++) {
		free(conf->keys[i].id);
		free(conf->keys[i].file);
	}
	free(conf->store.url);
	free(conf->facts.url);
	for (size_t i = 0; i < conf->n_upstreams; i++)
		gwconf_upstream_release(&conf->upstreams[i]);
	conf_strings_free(&conf->tool_files);
	for (size_t i = 0; i < conf->n_tools; i++)
		gwconf_tool_free(conf->tools[i]);
	free(conf);
}

const struct gwconf_upstream *gwconf_find_upstream(const struct gwconf *conf, const char *name)
{
	for (size_t i = 0; i < conf->n_upstreams; i++)
		if (!strcmp(conf->upstreams[i].name, name))
			return &conf->upstreams[i];
	return NULL;
}

/* --- listen ----------------------------------------------------------------------------------- */

static bool port_parse(const char *text, in_port_t *ret_port)
{
	long long port;

	if (!conf_text_to_integer(text, &port) || port < 1 || port > 65535)
		return false;
	*ret_port = htons((uint16_t)port);
	return true;
}

/* ADDRESS:PORT or [ADDRESS]:PORT. Names are not resolved. */
static bool address_parse(const char *text, struct gwconf_listen *listen)
{
	char host[64];
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;
	bool v6 = text[0] == '[';

	if (!colon || n < 2 || n >= sizeof(host) || (v6 && text[n - 1] != ']'))
		return false;
	memcpy(host, text + v6, n - 2 * v6);
	host[n - 2 * v6] = '\0';
	if (v6) {
		listen->addr.in6.sin6_family = AF_INET6;
		listen->addr_length = sizeof(listen->addr.in6);
		return inet_pton(AF_INET6, host, &listen->addr.in6.sin6_addr) == 1 &&
		       port_parse(colon + 1, &listen->addr.in6.sin6_port);
	}
	listen->addr.in.sin_family = AF_INET;
	listen->addr_length = sizeof(listen->addr.in);
	return inet_pton(AF_INET, host, &listen->addr.in.sin_addr) == 1 &&
	       port_parse(colon + 1, &listen->addr.in.sin_port);
}

/* A path that can be the address of a unix socket. */
static bool socket_path_is_good(struct conf_reader *reader, const char *text, struct conf_mark mark)
{
	struct sockaddr_un un;

	if (text[0] != '/')
		conf_reader_fault(reader, mark, "`%s` is not an absolute path; begin with /",
				  conf_quote(text).s);
	else if (strlen(text) >= sizeof(un.sun_path))
		conf_reader_fault(reader, mark, "the path of a socket is at most %zu bytes",
				  sizeof(un.sun_path) - 1);
	else
		return true;
	return false;
}

static void listen_take(struct conf_reader *reader, struct gwconf *conf,
			const struct conf_node *item)
{
	const char *text = conf_reader_text(reader, item, "ADDRESS:PORT or a path");
	struct gwconf_listen listen = { .mark = item->mark };

	if (!text)
		return;
	for (size_t i = 0; i < conf->n_listen; i++)
		if (!strcmp(conf->listen[i].text, text)) {
			conf_reader_fault(reader, item->mark, "`%s` twice", conf_quote(text).s);
			return;
		}
	if (text[0] == '/') {
		if (!socket_path_is_good(reader, text, item->mark))
			return;
		listen.socket = conf_reader_copy(reader, text);
	} else if (!address_parse(text, &listen)) {
		conf_reader_fault(
			reader, item->mark,
			"`%s` is not ADDRESS:PORT, e.g. 127.0.0.1:8800 or \"[::1]:8800\", "
			"nor the path of a socket; names are not resolved",
			conf_quote(text).s);
		return;
	}
	listen.text = conf_reader_copy(reader, text);
	if (listen.text)
		conf->listen[conf->n_listen++] = listen;
	else
		free(listen.socket);
}

static void read_listen(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	size_t before;

	(void)key;
	if (value->kind == CONF_NODE_SCALAR) {
		listen_take(reader, base, value);
		return;
	}
	if (value->kind != CONF_NODE_LIST || value->n == 0) {
		conf_reader_fault_type(reader, value, "a list of ADDRESS:PORT and paths");
		return;
	}
	if (value->n > GWCONF_LISTEN_MAX) {
		conf_reader_fault(reader, value->mark, "more than %d addresses", GWCONF_LISTEN_MAX);
		return;
	}
	for (size_t i = 0; i < value->n; i++) {
		before = conf_reader_descend_index(reader, i);
		listen_take(reader, base, value->child[i]);
		conf_reader_ascend(reader, before);
	}
}

/* The socket of an address that stands for all has no address to answer from. */
static bool address_is_any(const struct gwconf_listen *address)
{
	if (address->addr.sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&address->addr.in6.sin6_addr);
	return address->addr.in.sin_addr.s_addr == htonl(INADDR_ANY);
}

static void dns_take(struct conf_reader *reader, struct gwconf *conf, const struct conf_node *item)
{
	const char *text = conf_reader_text(reader, item, "ADDRESS:PORT");
	struct gwconf_listen address = { .mark = item->mark };

	if (!text)
		return;
	for (size_t i = 0; i < conf->n_dns; i++)
		if (!strcmp(conf->dns[i].text, text)) {
			conf_reader_fault(reader, item->mark, "`%s` twice", conf_quote(text).s);
			return;
		}
	if (!address_parse(text, &address) || address_is_any(&address)) {
		conf_reader_fault(reader, item->mark,
				  "`%s` is not ADDRESS:PORT with an address of this host, e.g. "
				  "127.0.0.1:53 or \"[::1]:5353\"",
				  conf_quote(text).s);
		return;
	}
	address.text = conf_reader_copy(reader, text);
	if (address.text)
		conf->dns[conf->n_dns++] = address;
}

static void read_dns(struct conf_reader *reader, const struct conf_key *key,
		     const struct conf_node *value, void *base)
{
	size_t before;

	(void)key;
	if (value->kind == CONF_NODE_SCALAR) {
		dns_take(reader, base, value);
		return;
	}
	if (value->kind != CONF_NODE_LIST || value->n == 0 || value->n > GWCONF_DNS_MAX) {
		conf_reader_fault(reader, value->mark, "expects 1 to %d of ADDRESS:PORT",
				  GWCONF_DNS_MAX);
		return;
	}
	for (size_t i = 0; i < value->n; i++) {
		before = conf_reader_descend_index(reader, i);
		dns_take(reader, base, value->child[i]);
		conf_reader_ascend(reader, before);
	}
}

/* One more, as c-ares takes them. */
static void nameserver_take(struct conf_reader *reader, struct gwconf *conf,
			    const struct conf_node *item)
{
	const char *text = conf_reader_text(reader, item, "ADDRESS:PORT");
	struct gwconf_listen address = { .mark = item->mark };
	char *all;

	if (!text)
		return;
	if (!address_parse(text, &address)) {
		conf_reader_fault(
			reader, item->mark,
			"`%s` is not ADDRESS:PORT, e.g. 9.9.9.9:53 or \"[2620:fe::fe]:53\"",
			conf_quote(text).s);
		return;
	}
	if (asprintf(&all, "%s%s%s", conf->nameservers ? conf->nameservers : "",
		     conf->nameservers ? "," : "", text) < 0) {
		reader->err = -ENOMEM;
		return;
	}
	free(conf->nameservers);
	conf->nameservers = all;
}

static void read_nameservers(struct conf_reader *reader, const struct conf_key *key,
			     const struct conf_node *value, void *base)
{
	size_t before;

	(void)key;
	if (value->kind == CONF_NODE_SCALAR) {
		nameserver_take(reader, base, value);
		return;
	}
	if (value->kind != CONF_NODE_LIST || value->n == 0 || value->n > GWCONF_NAMESERVERS_MAX) {
		conf_reader_fault(reader, value->mark, "expects 1 to %d of ADDRESS:PORT",
				  GWCONF_NAMESERVERS_MAX);
		return;
	}
	for (size_t i = 0; i < value->n; i++) {
		before = conf_reader_descend_index(reader, i);
		nameserver_take(reader, base, value->child[i]);
		conf_reader_ascend(reader, before);
	}
}

/* --- single values ---------------------------------------------------------------------------- */

static void read_socket(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "a path");
	char **target = (char **)((char *)base + key->offset);

	if (text && socket_path_is_good(reader, text, value->mark)) {
		free(*target);
		*target = conf_reader_copy(reader, text);
	}
}

void gwconf_read_path(struct conf_reader *reader, const struct conf_key *key,
		      const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "a path");

	if (text && text[0] != '/')
		conf_reader_fault(reader, value->mark, "`%s` is not an absolute path; begin with /",
				  conf_quote(text).s);
	else if (text)
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

static void read_events(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	static const char daemon[] = "cordond:";
	const char *text = conf_reader_text(reader, value, key->expects), *socket;
	char **target = (char **)((char *)base + key->offset);

	if (!text)
		return;
	socket = !strncmp(text, daemon, sizeof(daemon) - 1) ? text + sizeof(daemon) - 1 : NULL;
	if (socket && !socket_path_is_good(reader, socket, value->mark))
		return;
	if (!socket && strcmp(text, "cordond") != 0 && strcmp(text, "-") != 0 && text[0] != '/') {
		conf_reader_fault(reader, value->mark,
				  "expects `cordond`, `-` or an absolute path, not `%s`",
				  conf_quote(text).s);
		return;
	}
	free(*target);
	*target = conf_reader_copy(reader, text);
}

void gwconf_read_name(struct conf_reader *reader, const struct conf_key *key,
		      const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "a name");
	size_t n = text ? strlen(text) : 0;

	if (!text)
		return;
	for (size_t i = 0; i < n; i++)
		if ((text[i] & 0x80) ||
		    (!isalnum((unsigned char)text[i]) && !(i && strchr("._-", text[i]))))
			n = 0;
	if (n == 0 || n > 64)
		conf_reader_fault(reader, value->mark,
				  "`%s` is not a name: 1 to 64 letters, digits, `.`, `_`, `-`, the "
				  "first a letter or digit",
				  conf_quote(text).s);
	else
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

static void read_store(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	struct gwconf_store *store = (struct gwconf_store *)((char *)base + key->offset);
	const char *text = conf_reader_text(reader, value, "sqlite:PATH or postgresql://...");

	if (!text)
		return;
	/* It may hold a password: no fault repeats it. */
	if (!strncmp(text, "sqlite:/", 8) && text[8]) {
		store->engine = GWCONF_SQLITE;
	} else if (!strncmp(text, "postgresql://", 13)) {
		store->engine = GWCONF_POSTGRESQL;
	} else {
		conf_reader_fault(reader, value->mark,
				  "expects sqlite:PATH with an absolute path, or postgresql://...");
		return;
	}
	store->url = conf_reader_copy(reader, text);
}

/* --- lists of things -------------------------------------------------------------------------- */

static const struct conf_key key_keys[] = {
	{ "id", gwconf_read_name, .offset = offsetof(struct gwconf_key, id), .required = true,
	  .expects = "a name", .doc = "`kid` of the grants that it signs" },
	{ "file", gwconf_read_path, .offset = offsetof(struct gwconf_key, file), .required = true,
	  .expects = "a path",
	  .doc = "PEM, Ed25519: the private key for `sign`, the public one for "
		 "`verify`" },
	{ "use", conf_read_word, .offset = offsetof(struct gwconf_key, use), .words = use_words,
	  .expects = "`sign` or `verify`", .fallback = "`verify`",
	  .doc = "at most one key signs; the others still verify, so that keys overlap" },
	CONF_KEYS_END,
};

/* A list of mappings with rows: each into the next place of an array. */
void gwconf_read_list(struct conf_reader *reader, const struct conf_node *value,
		      const struct conf_key *rows, void *array, size_t size, size_t max, size_t *n)
{
	size_t before;

	if (value->kind != CONF_NODE_LIST) {
		conf_reader_fault_type(reader, value, "a list");
		return;
	}
	if (value->n > max) {
		conf_reader_fault(reader, value->mark, "more than %zu entries", max);
		return;
	}
	for (size_t i = 0; i < value->n; i++) {
		before = conf_reader_descend_index(reader, i);
		conf_read_rows(reader, rows, value->child[i], (char *)array + *n * size);
		*n += 1;
		conf_reader_ascend(reader, before);
	}
}

static void read_keys(struct conf_reader *reader, const struct conf_key *key,
		      const struct conf_node *value, void *base)
{
	struct gwconf *conf = base;
	size_t signers = 0;

	(void)key;
	gwconf_read_list(reader, value, key_keys, conf->keys, sizeof(conf->keys[0]),
			 GWCONF_KEYS_MAX, &conf->n_keys);
	for (size_t i = 0; i < conf->n_keys; i++) {
		conf->keys[i].mark = value->child[i]->mark;
		if (conf->keys[i].use == GWCONF_KEY_SIGN && signers++)
			conf_reader_fault(reader, conf->keys[i].mark, "a second key that signs");
		for (size_t k = 0; k < i; k++)
			if (conf->keys[i].id && conf->keys[k].id &&
			    !strcmp(conf->keys[i].id, conf->keys[k].id))
				conf_reader_fault(reader, conf->keys[i].mark, "`%s` twice",
						  conf->keys[i].id);
	}
}

/* --- the rows --------------------------------------------------------------------------------- */

#define CONF(member) .offset = offsetof(struct gwconf, member)
#define DAY_MS 86400000LL

static const struct conf_key limit_keys[] = {
	{ "connections", conf_read_integer, CONF(connections), .min = 16, .max = 200000,
	  .expects = "a number", .fallback = "`4096`",
	  .doc = "open connections; beyond, new ones are closed" },
	{ "header_bytes", conf_read_size, CONF(header_bytes), .min = 1024, .max = 65536,
	  .expects = "bytes", .fallback = "`8K`", .doc = "request line and headers; beyond: 431" },
	{ "headers", conf_read_integer, CONF(headers), .min = 8, .max = 256, .expects = "a number",
	  .fallback = "`64`", .doc = "header lines; beyond: 431" },
	{ "body_bytes", conf_read_size, CONF(body_bytes), .min = 256, .max = 256 * 1024,
	  .expects = "bytes", .fallback = "`64K`", .doc = "body of a request; beyond: 413" },
	{ "idle", conf_read_duration, CONF(idle_ms), .min = 100, .max = 3600000,
	  .expects = "a time", .fallback = "`60s`",
	  .doc = "between requests on a connection; then it is closed" },
	{ "request", conf_read_duration, CONF(request_ms), .min = 100, .max = 600000,
	  .expects = "a time", .fallback = "`10s`",
	  .doc = "from the first byte of a request to its last; then 408" },
	{ "drain", conf_read_duration, CONF(drain_ms), .min = 100, .max = 600000,
	  .expects = "a time", .fallback = "`30s`",
	  .doc = "for requests under way after SIGTERM; then they are cut" },
	{ "rate", conf_read_integer, CONF(rate), .min = 1, .max = 1000000, .expects = "a number",
	  .fallback = "`200`",
	  .doc = "requests a second of one fence, and of all that are no fence together; beyond: "
		 "429" },
	{ "burst", conf_read_integer, CONF(burst), .min = 1, .max = 1000000, .expects = "a number",
	  .fallback = "twice `rate`", .doc = "requests at once, after a time with few of them" },
	{ "tunnels", conf_read_integer, CONF(tunnels), .min = 1, .max = 100000,
	  .expects = "a number", .fallback = "`256`",
	  .doc = "connections of one fence through the proxy; beyond: 429" },
	{ "dial", conf_read_duration, CONF(dial_ms), .min = 100, .max = 120000, .expects = "a time",
	  .fallback = "`10s`",
	  .doc = "for the proxy to resolve a name, and again to connect; then 502. And for a "
		 "client "
		 "to say its ClientHello" },
	{ "tunnel_idle", conf_read_duration, CONF(tunnel_idle_ms), .min = 1000, .max = DAY_MS,
	  .expects = "a time", .fallback = "`10m`",
	  .doc = "without a byte in either direction on a connection through the proxy; then it is "
		 "closed" },
	{ "dns_queries", conf_read_integer, CONF(dns_queries), .min = 1, .max = 1000000,
	  .expects = "a number", .fallback = "`100`",
	  .doc = "questions of one fence to the resolver a second, twice as many at once; beyond: "
		 "REFUSED" },
	{ "dns_names", conf_read_integer, CONF(dns_names), .min = 1, .max = 100000,
	  .expects = "a number", .fallback = "`64`",
	  .doc = "names below rules with `*.` that one fence has not asked for lately, at once; "
		 "beyond one a second: REFUSED" },
	CONF_KEYS_END,
};

static const struct conf_key approval_keys[] = {
	{ "ttl", conf_read_duration, CONF(approval_ttl_ms), .min = 1000, .max = 30 * DAY_MS,
	  .expects = "a time", .fallback = "`1h`", .doc = "how long a human has to decide" },
	CONF_KEYS_END,
};

static const struct conf_key config_keys[] = {
	{ "cordon", conf_read_version, .required = true, .expects = "the number 1",
	  .doc = "version of this language: `1`" },
	{ "listen", read_listen, .required = true,
	  .expects = "ADDRESS:PORT, a path, or a list of them",
	  .doc = "where callers come; at most 16" },
	{ "node", gwconf_read_name, CONF(node), .expects = "a name", .fallback = "the host's name",
	  .doc = "name of this gateway, unique among those that share the store" },
	{ "admin", read_socket, CONF(admin), .expects = "a path",
	  .fallback = "`/run/cordon/admin.sock`",
	  .doc = "socket of `cordon approvals`, `grants`, `ledger`; never reachable from a fence" },
	{ "events", read_events, CONF(events), .expects = "`cordond`, `-` or a path",
	  .fallback = "`cordond`",
	  .doc = "where decisions are reported: cordond's stream (`cordond:PATH`: another socket "
		 "of "
		 "its), a file, a socket, or standard output (`-`); while it cannot be written no "
		 "call is decided" },
	{ "approvals", conf_read_mapping, .sub = approval_keys, .expects = "a mapping",
	  .doc = "human decisions" },
	{ "limits", conf_read_mapping, .sub = limit_keys, .expects = "a mapping",
	  .doc = "ceilings" },
	{ "workers", conf_read_integer, CONF(workers), .min = 1, .max = 64, .expects = "a number",
	  .fallback = "`2`", .doc = "threads that serve connections" },
	{ "executors", conf_read_integer, CONF(executors), .min = 1, .max = 256,
	  .expects = "a number", .fallback = "`16`",
	  .doc = "requests to upstreams at the same time" },
	{ "streams", conf_read_integer, CONF(streams), .min = 1, .max = 1024, .expects = "a number",
	  .fallback = "`64`", .doc = "answers to `/up` at the same time; one fence has a quarter" },
	{ "keys", read_keys, .sub = key_keys, .expects = "a list of {id, file, use}",
	  .fallback = "no grants", .doc = "keys of grants, EdDSA" },
	{ "store", read_store, CONF(store), .required = true,
	  .expects = "`sqlite:PATH` or `postgresql://...`", .doc = "database of the ledger" },
	{ "facts", read_store, CONF(facts), .expects = "`sqlite:PATH` or `postgresql://...`",
	  .fallback = "the store", .doc = "database that tools query" },
	{ "anchor", gwconf_read_path, CONF(anchor), .expects = "a path", .fallback = "none",
	  .doc = "file that remembers the last record: shows that a store was rolled back" },
	{ "keep", conf_read_duration, CONF(key_ttl_ms), .min = DAY_MS, .max = 366 * DAY_MS,
	  .expects = "a time", .fallback = "`24h`",
	  .doc = "how long a key is kept after its call ended" },
	{ "tools", conf_read_texts, CONF(tool_files), .required = true,
	  .expects = "a list of paths", .max = GWCONF_TOOLS_MAX,
	  .doc = "files of tools; relative ones from this file's directory" },
	{ "upstreams", gwconf_read_upstreams, .sub = gwconf_upstream_keys,
	  .expects = "a list of {name, url, ...}", .fallback = "none",
	  .doc = "where `http` tools go, and what fences reach at `/up/NAME/`" },
	{ "nameservers", read_nameservers, .expects = "ADDRESS:PORT, or a list of them",
	  .fallback = "those of /etc/resolv.conf",
	  .doc = "who is asked for the addresses of names, by the proxy and the resolver; at most "
		 "4" },
	{ "dns", read_dns, .expects = "ADDRESS:PORT, or a list of them", .fallback = "no resolver",
	  .doc = "where the resolver of fences is asked, by UDP and TCP; at most 4; see "
		 "egress.md" },
	CONF_KEYS_END,
};

void gwconf_print_config_keys(FILE *out)
{
	fputs("| key | value | when absent | meaning |\n|---|---|---|---|\n", out);
	conf_print_rows(config_keys, "", out);
}

static bool set_defaults(struct gwconf *conf)
{
	conf->approval_ttl_ms = 3600000;
	conf->connections = 4096;
	conf->header_bytes = 8192;
	conf->headers = 64;
	conf->body_bytes = 65536;
	conf->idle_ms = 60000;
	conf->request_ms = 10000;
	conf->drain_ms = 30000;
	conf->rate = 200;
	conf->tunnels = 256;
	conf->dial_ms = 10000;
	conf->tunnel_idle_ms = 600000;
	conf->dns_queries = 100;
	conf->dns_names = 64;
	conf->workers = 2;
	conf->executors = 16;
	conf->streams = 64;
	conf->key_ttl_ms = DAY_MS;
	conf->admin = strdup("/run/cordon/admin.sock");
	conf->events = strdup("cordond");
	return conf->admin && conf->events;
}

static void judge(struct conf_reader *reader, const struct gwconf *conf)
{
	for (size_t i = 0; i < conf->n_listen; i++)
		if (conf->listen[i].socket && !strcmp(conf->listen[i].socket, conf->admin)) {
			size_t before = conf_reader_descend(reader, "listen");

			conf_reader_fault(reader, conf->listen[i].mark,
					  "the admin socket is never one that fences can reach");
			conf_reader_ascend(reader, before);
		}
}

static void config_read(struct conf_reader *reader, const struct conf_node *root,
			struct gwconf *conf)
{
	static const struct conf_mark start = { 1, 1 };

	if (!root && conf_fault_count(reader->faults) == 0)
		conf_reader_fault(reader, start, "empty");
	if (!root)
		return;
	conf_read_rows(reader, config_keys, root, conf);
	if (!conf->burst)
		conf->burst = conf->rate * 2;
	if (!reader->err)
		judge(reader, conf);
}

int gwconf_parse_whole(const char *text, size_t length, const char *path, struct gwconf **ret_conf,
		       struct conf_faults *faults)
{
	struct conf_reader reader = { .faults = faults, .whole = "the configuration" };
	struct gwconf *conf = calloc(1, sizeof(*conf));
	struct conf_node *root = NULL;
	int r;

	if (!conf)
		return -ENOMEM;
	conf->path = strdup(path);
	r = conf->path && set_defaults(conf)
		    ? conf_node_read(text, length, faults, &root, &reader.complete)
		    : -ENOMEM;
	if (r == 0) {
		config_read(&reader, root, conf);
		r = reader.err;
	}
	conf_node_free(root);
	if (r < 0) {
		gwconf_free(conf);
		return r;
	}
	*ret_conf = conf;
	return conf_fault_count(faults) ? -EINVAL : 0;
}

int gwconf_parse(const char *text, size_t length, const char *path, struct gwconf **ret_conf,
		 struct conf_faults *faults)
{
	struct gwconf *conf = NULL;
	int r = gwconf_parse_whole(text, length, path, &conf, faults);

	if (r == 0)
		*ret_conf = conf;
	else
		gwconf_free(conf);
	return r;
}
