// SPDX-License-Identifier: Apache-2.0
/*
 * One generation of the configuration: tools prepared in the ledger, credentials read. All or nothing: a
 * tool that cannot be made ready leaves the generation before in use. Credentials are never logged and
 * wiped when they are no longer needed.
 */
#include <errno.h>
#include <string.h>

#include "broker/canary.h"
#include "broker/secret.h"
#include "gateway/gateway.h"
#include "grant/grant.h"

struct setup *setup_ref(struct setup *setup)
{
	atomic_fetch_add_explicit(&setup->refs, 1, memory_order_relaxed);
	return setup;
}

static void setup_free(struct setup *setup)
{
	for (size_t i = 0; i < setup->n_tools; i++) {
		if (setup->tools[i].ledger)
			ledger_tool_close(setup->tools[i].ledger);
		if (setup->tools[i].credential)
			explicit_bzero(setup->tools[i].credential,
				       strlen(setup->tools[i].credential));
		free(setup->tools[i].credential);
	}
	for (size_t i = 0; i < ARRAY_SIZE(setup->secrets); i++)
		secret_store_free(setup->secrets[i]);
	for (size_t i = 0; i < ARRAY_SIZE(setup->once); i++)
		ledger_tool_close(setup->once[i]);
	canaries_free(setup->canaries);
	gwconf_free(setup->conf);
	free(setup);
}

void setup_unref(struct setup *setup)
{
	if (setup && atomic_fetch_sub_explicit(&setup->refs, 1, memory_order_acq_rel) == 1)
		setup_free(setup);
}

/* --- credentials ------------------------------------------------------------------------------ */

#define SECRET_MAX 8192

/* A secret is one line of printable characters; an end of line is no part of it. */
static bool secret_is_good(char *secret)
{
	size_t n = strlen(secret);

	while (n && (secret[n - 1] == '\n' || secret[n - 1] == '\r'))
		secret[--n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (secret[i] < 0x20 || secret[i] > 0x7e)
			return false;
	return n > 0 && n <= SECRET_MAX;
}

static int secret_read(const struct gwconf_tool *conf, char **ret_secret, struct error *error)
{
	struct error why = { "" };
	int r;

	if (conf->credential.env) {
		const char *value = getenv(conf->credential.env);

		if (!value)
			return error_set(error, ENOENT,
					 "%s: the variable %s of the credential is not set",
					 conf->path, conf->credential.env);
		*ret_secret = strdup(value);
		return *ret_secret ? 0 : -ENOMEM;
	}
	r = secret_read_file(conf->credential.file, ret_secret, &why);
	return r < 0 ? error_set(error, -r, "%s: %s: %s", conf->path, conf->credential.file,
				 why.text)
		     : 0;
}

static int tool_take_credential(struct tool *tool, struct error *error)
{
	const struct gwconf_tool *conf = tool->conf;
	char *secret = NULL;
	int r;

	if (!conf->credential_header)
		return 0;
	r = secret_read(conf, &secret, error);
	if (r == 0 && !secret_is_good(secret))
		r = error_set(error, EINVAL,
			      "%s: the credential is not one line of printable characters",
			      conf->path);
	if (r == 0 &&
	    asprintf(&tool->credential, "%s: %s%s", conf->credential_header,
		     conf->credential_prefix ? conf->credential_prefix : "", secret) < 0) {
		tool->credential = NULL;
		r = -ENOMEM;
	}
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
	return r;
}

/* --- tools ------------------------------------------------------------------------------------ */

/* The names of members that SQL may use besides the ledger's own. */
static void spec_take_inputs(const struct gwconf_tool *conf, const char **inputs)
{
	size_t n = 0;

	for (size_t i = 0; i < conf->n_fields; i++) {
		bool own = false;

		for (size_t k = 0; gwconf_sql_names[k]; k++)
			own |= !strcmp(gwconf_sql_names[k], conf->fields[i].name);
		if (!own)
			inputs[n++] = conf->fields[i].name;
	}
	inputs[n] = NULL;
}

/* What the ledger has to know of a tool; the arrays belong to the caller. */
static struct ledger_tool_spec spec_make(const struct gwconf_tool *conf, const char **inputs,
					 const char **fields)
{
	struct ledger_tool_spec spec = {
		.name = conf->name,
		.inputs = inputs,
		.has_object = conf->object >= 0,
		.has_amount = conf->amount >= 0,
		.fact_sql = conf->fact.text,
		.executor = conf->executor == GWCONF_EXEC_SQL ? LEDGER_EXECUTOR_SQL
							      : LEDGER_EXECUTOR_HTTP,
		.exec_sql = conf->statement.text,
		.result_fields = fields,
		.limits = { .single = conf->has_single ? conf->single : LEDGER_NO_LIMIT,
			    .daily = conf->has_daily ? conf->daily : LEDGER_NO_LIMIT,
			    .per_subject = conf->per == GWCONF_PER_SUBJECT,
			    .over = conf->over == GWCONF_OVER_APPROVE ? LEDGER_OVER_APPROVE
								      : LEDGER_OVER_REFUSE },
		.approval_ttl_s = (unsigned int)(conf->approval_ttl_ms / 1000),
	};
	size_t n = 0;

	for (; n < conf->result.n; n++)
		fields[n] = conf->result.v[n];
	fields[n] = NULL;
	spec_take_inputs(conf, inputs);
	return spec;
}

/* ledger NULL: only looks whether the tool could be opened. */
static int tool_open(struct ledger *ledger, struct tool *tool, struct error *error)
{
	const char *inputs[GWCONF_FIELDS_MAX + 1], *fields[GWCONF_RESULT_MAX + 1];
	struct ledger_tool_spec spec = spec_make(tool->conf, inputs, fields);
	struct error why = { "" };
	int r = ledger ? ledger_tool_open(ledger, &spec, &tool->ledger, &why)
		       : ledger_tool_check(&spec, &why);

	return r < 0 ? error_set(error, -r, "%s: %s", tool->conf->path, why.text) : 0;
}

int setup_keys(const struct gwconf *conf, struct grant_keys **ret_keys, struct error *error)
{
	struct grant_keys *keys = grant_keys_new();
	int r = keys ? 0 : error_set(error, ENOMEM, "out of memory");

	for (size_t i = 0; r == 0 && i < conf->n_keys; i++)
		r = grant_keys_add(keys, conf->keys[i].id, conf->keys[i].file,
				   conf->keys[i].use == GWCONF_KEY_SIGN, error);
	if (r < 0)
		grant_keys_free(keys);
	else
		*ret_keys = keys;
	return r;
}

/* The credentials of upstreams, as far as they are the same for all. */
static int secrets_check(const struct gwconf *conf, struct error *error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < conf->n_upstreams; i++)
		if (conf->upstreams[i].has_credential)
			r = secret_check(&conf->upstreams[i], error);
	return r;
}

int setup_check(const struct gwconf *conf, struct error *error)
{
	struct canaries *canaries = NULL;
	struct grant_keys *keys = NULL;
	int r = setup_keys(conf, &keys, error);

	grant_keys_free(keys);
	if (r == 0)
		r = secrets_check(conf, error);
	if (r == 0)
		r = canaries_open(conf, false, &canaries, error);
	canaries_free(canaries);
	for (size_t i = 0; r == 0 && i < conf->n_tools; i++) {
		struct tool tool = { .conf = conf->tools[i] };

		r = tool_take_credential(&tool, error);
		if (r == 0)
			r = tool_open(NULL, &tool, error);
		if (tool.credential)
			explicit_bzero(tool.credential, strlen(tool.credential));
		free(tool.credential);
	}
	return r;
}

/* Scopes that work once are remembered by the ledger, as a tool's calls are. */
static int upstream_open(struct ledger *ledger, const struct gwconf_upstream *upstream,
			 struct ledger_tool **ret_tool, struct error *error)
{
	char name[LEDGER_NAME_MAX];
	const struct ledger_tool_spec spec = {
		.name = name,
		.executor = LEDGER_EXECUTOR_HTTP,
		.limits = { .single = LEDGER_NO_LIMIT, .daily = LEDGER_NO_LIMIT },
	};
	bool once = false;

	for (size_t i = 0; i < upstream->n_access; i++)
		once |= upstream->access[i].once != GWCONF_ONCE_NOT;
	if (!once)
		return 0;
	snprintf(name, sizeof(name), "up/%s", upstream->name);
	return ledger_tool_open(ledger, &spec, ret_tool, error);
}

int setup_open(struct ledger *ledger, struct gwconf *conf, struct setup **ret_setup,
	       struct error *error)
{
	struct setup *setup = calloc(1, sizeof(*setup));
	int r = 0;

	if (!setup) {
		gwconf_free(conf);
		return error_set(error, ENOMEM, "out of memory");
	}
	setup->refs = 1;
	setup->conf = conf;
	r = secrets_check(conf, error);
	if (r == 0)
		r = canaries_open(conf, true, &setup->canaries, error);
	for (size_t i = 0; r == 0 && i < conf->n_upstreams; i++) {
		setup->secrets[i] = secret_store_new();
		r = setup->secrets[i]
			    ? upstream_open(ledger, &conf->upstreams[i], &setup->once[i], error)
			    : error_set(error, ENOMEM, "out of memory");
	}
	for (size_t i = 0; r == 0 && i < conf->n_tools; i++) {
		struct tool *tool = &setup->tools[setup->n_tools];

		tool->conf = conf->tools[i];
		if (tool->conf->upstream)
			tool->upstream = gwconf_find_upstream(conf, tool->conf->upstream);
		r = tool_take_credential(tool, error);
		if (r == 0)
			r = tool_open(ledger, tool, error);
		if (r == 0 || tool->credential)
			setup->n_tools++;
	}
	if (r < 0)
		setup_free(setup);
	else
		*ret_setup = setup;
	return r;
}

static bool text_equals(const char *word, const char *text, size_t size)
{
	return strlen(word) == size && !memcmp(word, text, size);
}

const struct tool *setup_find_route(const struct setup *setup, const char *path, size_t size)
{
	static const char prefix[] = "/tools/";
	const size_t n = sizeof(prefix) - 1;

	for (size_t i = 0; i < setup->n_tools; i++) {
		const struct tool *tool = &setup->tools[i];

		if (size > n && !memcmp(path, prefix, n) &&
		    text_equals(tool->conf->name, path + n, size - n))
			return tool;
		for (size_t k = 0; k < tool->conf->routes.n; k++)
			if (text_equals(tool->conf->routes.v[k], path, size))
				return tool;
	}
	return NULL;
}

const struct tool *setup_find_tool(const struct setup *setup, const char *name)
{
	for (size_t i = 0; i < setup->n_tools; i++)
		if (!strcmp(setup->tools[i].conf->name, name))
			return &setup->tools[i];
	return NULL;
}

struct setup *gateway_setup(struct gateway *gateway)
{
	struct setup *setup;

	pthread_mutex_lock(&gateway->setup_mutex);
	setup = setup_ref(gateway->setup);
	pthread_mutex_unlock(&gateway->setup_mutex);
	return setup;
}

void gateway_change_setup(struct gateway *gateway, struct setup *setup)
{
	struct setup *old;

	pthread_mutex_lock(&gateway->setup_mutex);
	old = gateway->setup;
	gateway->setup = setup;
	pthread_mutex_unlock(&gateway->setup_mutex);
	atomic_fetch_add(&gateway->generation, 1);
	setup_unref(old);
}
