// SPDX-License-Identifier: Apache-2.0
/* See settings.h. */
#include "cordond/settings.h"

#include "alert/alert.h"
#include "enforce/ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

enum {
	FOLLOWERS = 16,
	CONNECTIONS = 64,
	HISTORY = 8 * 1024 * 1024,
	HISTORY_LEAST = 1024 * 1024,
	COLD_START_MS = 5000,
};

/* ADDRESS:PORT or [ADDRESS]:PORT, of a loopback address: who is on another host would be asked for nothing. */
static bool address_is_loopback(const char *text)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;
	bool bracketed = n > 2 && text[0] == '[' && text[n - 1] == ']';
	char host[INET6_ADDRSTRLEN];
	struct in6_addr six;
	struct in_addr four;
	long long port;

	if (!n || n >= sizeof(host) || !conf_text_to_integer(colon + 1, &port) || port < 1 ||
	    port > 65535)
		return false;
	snprintf(host, sizeof(host), "%.*s", (int)(bracketed ? n - 2 : n), text + bracketed);
	if (bracketed)
		return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
	return inet_pton(AF_INET, host, &four) == 1 && ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool address_is_path(const char *text)
{
	return !strncmp(text, "unix:/", 6) &&
	       strlen(text + 5) < sizeof(((struct sockaddr_un *)0)->sun_path);
}

static void read_address(struct conf_reader *reader, const struct conf_key *key,
			 const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, key->expects);

	if (!text)
		return;
	if (address_is_path(text) || address_is_loopback(text))
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
	else
		conf_reader_fault(reader, value->mark,
				  "expects %s: nobody is asked who they are, so only this host may "
				  "connect",
				  key->expects);
}

static const struct conf_key deny_rate_rows[] = {
	{ .name = "denials",
	  .read = conf_read_integer,
	  .offset = offsetof(struct settings, alert_denials),
	  .max = SETTINGS_ALERT_DENIALS_MAX,
	  .expects = "a number",
	  .fallback = "100",
	  .doc = "so many denials of one fence within the window are an alert: an event "
		 "`deny_rate`; "
		 "0: none" },
	{ .name = "window",
	  .read = conf_read_duration,
	  .offset = offsetof(struct settings, alert_window_ms),
	  .min = 1000,
	  .max = SETTINGS_ALERT_MAX_MS,
	  .expects = "a time",
	  .fallback = "`1m`",
	  .doc = "see `denials`" },
	CONF_KEYS_END,
};

static const struct conf_key destructive_rows[] = {
	{ .name = "calls",
	  .read = conf_read_integer,
	  .offset = offsetof(struct settings, alert_calls),
	  .max = ALERT_CALLS_MAX,
	  .expects = "a number",
	  .fallback = "20",
	  .doc = "so many calls that one subject had done within the window, by tools of gateways "
		 "that are declared `destructive`, are an alert: an event `destructive`; 0: none" },
	{ .name = "window",
	  .read = conf_read_duration,
	  .offset = offsetof(struct settings, alert_calls_window_ms),
	  .min = 1000,
	  .max = SETTINGS_ALERT_MAX_MS,
	  .expects = "a time",
	  .fallback = "`5m`",
	  .doc = "see `calls`" },
	CONF_KEYS_END,
};

static const struct conf_key alerts_rows[] = {
	{ .name = "deny_rate",
	  .read = conf_read_mapping,
	  .expects = "a mapping",
	  .sub = deny_rate_rows,
	  .doc = "a fence that is denied too much, by the kernel or by a gateway" },
	{ .name = "destructive",
	  .read = conf_read_mapping,
	  .expects = "a mapping",
	  .sub = destructive_rows,
	  .doc = "a subject that destroys too much" },
	{ .name = "quiet",
	  .read = conf_read_duration,
	  .offset = offsetof(struct settings, alert_quiet_ms),
	  .min = 1000,
	  .max = SETTINGS_ALERT_MAX_MS,
	  .expects = "a time",
	  .fallback = "`5m`",
	  .doc = "after an alert there is none about the same fence, or subject, for so long" },
	CONF_KEYS_END,
};

static const struct conf_key metrics_rows[] = {
	{ .name = "address",
	  .read = read_address,
	  .offset = offsetof(struct settings, metrics),
	  .expects = "`unix:PATH`, `127.0.0.1:PORT` or `[::1]:PORT`",
	  .fallback = "none: there is no endpoint",
	  .doc = "where Prometheus may ask: docs/metrics.md; the directory of PATH must be user "
		 "cordon's to write, as `/run/cordon/metrics` is" },
	{ .name = "cold_start",
	  .read = conf_read_duration,
	  .offset = offsetof(struct settings, cold_start_ms),
	  .min = 1,
	  .max = SETTINGS_COLD_START_MAX_MS,
	  .expects = "a time",
	  .fallback = "`5s`",
	  .doc = "a fence that takes longer to make is counted as slow" },
	CONF_KEYS_END,
};

static const struct conf_key control_rows[] = {
	{ .name = "operators",
	  .read = conf_read_text,
	  .offset = offsetof(struct settings, operators),
	  .expects = "the name of a group",
	  .fallback = "`cordon-operators`",
	  .doc = "group that may attach, reload and detach, as root may" },
	{ .name = "readers",
	  .read = conf_read_text,
	  .offset = offsetof(struct settings, readers),
	  .expects = "the name of a group",
	  .fallback = "`cordon-readers`",
	  .doc = "group that may list fences and read events" },
	{ .name = "gateway",
	  .read = conf_read_text,
	  .offset = offsetof(struct settings, gateway),
	  .expects = "the name of a user",
	  .fallback = "`cordon-gateway`",
	  .doc = "user whose gateways' events are taken (`events: cordond`), besides root's" },
	CONF_KEYS_END,
};

static const struct conf_key limits_rows[] = {
	{ .name = "connections",
	  .read = conf_read_integer,
	  .offset = offsetof(struct settings, connections),
	  .expects = "a number",
	  .fallback = "64",
	  .min = 4,
	  .max = SETTINGS_CONNECTIONS_MAX,
	  .doc = "connections to the control socket at a time; a further one is closed" },
	{ .name = "followers",
	  .read = conf_read_integer,
	  .offset = offsetof(struct settings, followers),
	  .expects = "a number",
	  .fallback = "16",
	  .min = 1,
	  .max = SETTINGS_FOLLOWERS_MAX,
	  .doc = "of these, readers of events at a time; a further one is refused" },
	{ .name = "event_rate",
	  .read = conf_read_integer,
	  .offset = offsetof(struct settings, event_rate),
	  .expects = "a number",
	  .fallback = "2000",
	  .min = 1,
	  .max = ENFORCE_EVENT_RATE_MAX,
	  .doc = "events a second of a fence that are told one by one, ten times that at once; "
		 "what is more is folded, with a "
		 "count. For fences that are made from now on without `--event-rate`, such as "
		 "containers" },
	{ .name = "history",
	  .read = conf_read_size,
	  .offset = offsetof(struct settings, history),
	  .expects = "a size",
	  .fallback = "8M",
	  .min = HISTORY_LEAST,
	  .max = SETTINGS_HISTORY_MAX,
	  .doc = "latest events, in memory: what `timeline` and `events` show of before, and by "
		 "how much a reader may be "
		 "behind; needs a restart" },
	CONF_KEYS_END,
};

static const struct conf_key rows[] = {
	{ .name = "cordond",
	  .read = conf_read_version,
	  .required = true,
	  .expects = "`1`",
	  .doc = "version of this format" },
	{ .name = "control",
	  .read = conf_read_mapping,
	  .expects = "a mapping",
	  .sub = control_rows,
	  .doc = "who may speak with cordond" },
	{ .name = "limits",
	  .read = conf_read_mapping,
	  .expects = "a mapping",
	  .sub = limits_rows,
	  .doc = "how much is kept at a time" },
	{ .name = "sinks",
	  .read = sinks_read_config,
	  .offset = offsetof(struct settings, sinks),
	  .expects = "a list of sinks",
	  .fallback = "none",
	  .doc = "where events go: docs/sinks.md" },
	{ .name = "metrics",
	  .read = conf_read_mapping,
	  .expects = "a mapping",
	  .sub = metrics_rows,
	  .doc = "figures for Prometheus" },
	{ .name = "alerts",
	  .read = conf_read_mapping,
	  .expects = "a mapping",
	  .sub = alerts_rows,
	  .doc = "alerts of Cordon's own, which are events of the fence" },
	CONF_KEYS_END,
};

static bool defaults_fill(struct settings *s)
{
	if (!s->operators)
		s->operators = strdup("cordon-operators");
	if (!s->readers)
		s->readers = strdup("cordon-readers");
	if (!s->gateway)
		s->gateway = strdup("cordon-gateway");
	s->followers = s->followers ? s->followers : FOLLOWERS;
	s->connections = s->connections ? s->connections : CONNECTIONS;
	s->history = s->history ? s->history : HISTORY;
	s->event_rate = s->event_rate ? s->event_rate : ENFORCE_EVENT_RATE_DEFAULT;
	s->cold_start_ms = s->cold_start_ms ? s->cold_start_ms : COLD_START_MS;
	return s->operators && s->readers && s->gateway;
}

int settings_read(const char *text, size_t length, struct settings *ret_settings,
		  struct conf_faults *faults)
{
	struct conf_reader reader = { .faults = faults, .whole = "the configuration" };
	struct conf_node *root = NULL;
	struct settings s = {
		.alert_denials = (long long)ALERT_LIMITS_DEFAULT.denials,
		.alert_window_ms = (long long)ALERT_LIMITS_DEFAULT.denials_window_ns / 1000000,
		.alert_quiet_ms = (long long)ALERT_LIMITS_DEFAULT.quiet_ns / 1000000,
		.alert_calls = (long long)ALERT_LIMITS_DEFAULT.calls,
		.alert_calls_window_ms = (long long)ALERT_LIMITS_DEFAULT.calls_window_ns / 1000000,
	};
	int err = 0;

	if (strspn(text, " \t\r\n") != length) { /* an empty one is one of defaults */
		err = conf_node_read(text, length, faults, &root, &reader.complete);
		if (!err && root)
			conf_read_rows(&reader, rows, root, &s);
		conf_node_free(root);
		err = err ? err : reader.err;
	}
	if (!err && conf_fault_count(faults))
		err = -EINVAL;
	if (!err && !defaults_fill(&s))
		err = -ENOMEM;
	if (err)
		settings_clear(&s);
	else
		*ret_settings = s;
	return err;
}

void settings_clear(struct settings *settings)
{
	free(settings->operators);
	free(settings->readers);
	free(settings->gateway);
	free(settings->metrics);
	sinks_config_clear(&settings->sinks);
	memset(settings, 0, sizeof(*settings));
}

void settings_print_doc(FILE *out)
{
	fprintf(out,
		"<!-- Generated by `build/unit/test_cordond --print-doc` from "
		"user/cordond/settings.c. -->\n"
		"\n"
		"# cordond's configuration\n"
		"\n"
		"`/etc/cordon/cordond.yaml`, or what `--config` names; without the file all is as "
		"by default.\n"
		"`cordond --check` says what is wrong with it, with line and column. SIGHUP "
		"(`systemctl reload\n"
		"cordond`) has it read anew: with a fault, or a sink that cannot be had, what was "
		"before stays.\n"
		"\n");
	fprintf(out, "| key | value | default | meaning |\n|---|---|---|---|\n");
	conf_print_rows(rows, "", out);
}
