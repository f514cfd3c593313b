// SPDX-License-Identifier: Apache-2.0
/* See settings.h. */
#include "cordond/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FOLLOWERS = 16, CONNECTIONS = 64, HISTORY = 8 * 1024 * 1024, HISTORY_LEAST = 1024 * 1024 };

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
	CONF_KEYS_END,
};

static bool defaults_fill(struct settings *s)
{
	if (!s->operators)
		s->operators = strdup("cordon-operators");
	if (!s->readers)
		s->readers = strdup("cordon-readers");
	s->followers = s->followers ? s->followers : FOLLOWERS;
	s->connections = s->connections ? s->connections : CONNECTIONS;
	s->history = s->history ? s->history : HISTORY;
	return s->operators && s->readers;
}

int settings_read(const char *text, size_t length, struct settings *ret_settings,
		  struct conf_faults *faults)
{
	struct conf_reader reader = { .faults = faults, .whole = "the configuration" };
	struct conf_node *root = NULL;
	struct settings s = { .operators = NULL };
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
	sinks_config_clear(&settings->sinks);
	memset(settings, 0, sizeof(*settings));
}

void settings_print_keys(FILE *out)
{
	fprintf(out, "| key | value | default | meaning |\n|---|---|---|---|\n");
	conf_print_rows(rows, "", out);
}
