// SPDX-License-Identifier: Apache-2.0
/*
 * One tool: rows for its keys, and what only shows when keys are seen together - members that are
 * named exist and have the right type, SQL names only what there is. No privilege. A text with a fault
 * gives no tool.
 */
#define _GNU_SOURCE 1
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "conf/file.h"
#include "conf/near.h"
#include "gwconf/schema.h"

const char *const gwconf_methods[] = { "POST", "PUT", "PATCH", "DELETE", NULL };
static const char *const over_words[] = { "approve", "refuse", NULL };
static const char *const per_words[] = { "tenant", "subject", NULL };

/* A tool while it is read: what names members is looked at once the members are known. */
struct draft {
	struct gwconf_tool tool;
	char *tenant, *object, *amount, *key; /* owned */
	struct conf_mark tenant_mark, object_mark, amount_mark, key_mark;
	struct conf_mark limits_mark, credential_mark, body_mark;
	bool over_given, has_sql, has_http, has_credential;
};

void gwconf_tool_free(struct gwconf_tool *tool)
{
	if (!tool)
		return;
	free(tool->name);
	free(tool->doc);
	free(tool->path);
	conf_strings_free(&tool->routes);
	free(tool->scope);
	for (size_t i = 0; i < tool->n_fields; i++)
		gwconf_field_release(&tool->fields[i]);
	free(tool->fields);
	gwconf_sql_release(&tool->fact);
	gwconf_sql_release(&tool->statement);
	free(tool->upstream);
	free(tool->target);
	conf_strings_free(&tool->body);
	free(tool->key_header);
	free(tool->credential_header);
	free(tool->credential_prefix);
	free(tool->credential.file);
	free(tool->credential.env);
	conf_strings_free(&tool->result);
	free(tool);
}

int gwconf_tool_field(const struct gwconf_tool *tool, const char *name)
{
	for (size_t i = 0; i < tool->n_fields; i++)
		if (!strcmp(tool->fields[i].name, name))
			return (int)i;
	return -1;
}

/* --- readers ---------------------------------------------------------------------------------- */

static bool text_consists_of(const char *text, const char *marks, size_t max)
{
	size_t n = strlen(text);

	if (n == 0 || n > max || !isalnum((unsigned char)text[0]) || (text[0] & 0x80))
		return false;
	for (size_t i = 1; i < n; i++)
		if ((text[i] & 0x80) ||
		    (!isalnum((unsigned char)text[i]) && !strchr(marks, text[i])))
			return false;
	return true;
}

static void read_name(struct conf_reader *reader, const struct conf_key *key,
		      const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "a name");

	if (!text)
		return;
	if (!text_consists_of(text, "._-", 64))
		conf_reader_fault(reader, value->mark,
				  "`%s` is not a name: 1 to 64 letters, digits, `.`, `_`, `-`, the "
				  "first a letter or digit",
				  conf_quote(text).s);
	else
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

static void read_scope(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "a scope");

	if (!text)
		return;
	if (!text_consists_of(text, "._:-", 64))
		conf_reader_fault(
			reader, value->mark,
			"`%s` is not a scope: 1 to 64 letters, digits, `.`, `_`, `:`, `-`, "
			"e.g. refund:create",
			conf_quote(text).s);
	else
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

/* Is it a path that is the same under every reading: no dots, no empty parts, nothing to decode? */
static bool path_is_plain(const char *path)
{
	size_t n;

	if (path[0] != '/' || !path[1] || strlen(path) > 256)
		return false;
	for (; *path; path += n + 1) {
		n = strspn(path + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789-_.~");
		if (n == 0 || (path[n + 1] && path[n + 1] != '/') ||
		    (path[1] == '.' && (n == 1 || (n == 2 && path[2] == '.'))))
			return false;
		if (!path[n + 1])
			return true;
	}
	return true;
}

static bool route_is_reserved(const char *path)
{
	static const char *const own[] = { "/tools", "/approvals", "/health", "/metrics",
					   "/admin", "/mcp",	   "/up" };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		size_t n = strlen(own[i]);

		if (!strncmp(path, own[i], n) && (!path[n] || path[n] == '/'))
			return true;
	}
	return false;
}

static void judge_route(struct conf_reader *reader, const char *route, struct conf_mark mark)
{
	if (!path_is_plain(route))
		conf_reader_fault(
			reader, mark,
			"`%s` is not a route: parts of letters, digits, `-`, `_`, `.`, `~`, "
			"each after one /, e.g. /refund",
			conf_quote(route).s);
	else if (route_is_reserved(route))
		conf_reader_fault(reader, mark, "`%s` belongs to the gateway itself",
				  conf_quote(route).s);
}

static void read_route(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	struct gwconf_tool *tool = base;
	struct conf_node one = { .kind = CONF_NODE_LIST, .mark = value->mark };
	struct conf_node *child = (struct conf_node *)value;

	if (value->kind == CONF_NODE_SCALAR) {
		one.child = &child;
		one.n = 1;
		value = &one;
	}
	conf_read_texts(reader, key, value, base);
	for (size_t i = 0; i < tool->routes.n; i++)
		judge_route(reader, tool->routes.v[i], tool->routes.mark[i]);
}

static void read_sql(struct conf_reader *reader, const struct conf_key *key,
		     const struct conf_node *value, void *base)
{
	struct gwconf_sql *sql = (struct gwconf_sql *)((char *)base + key->offset);
	const char *text = conf_reader_text(reader, value, "an SQL statement");
	struct error error = { "" };
	int r;

	if (!text)
		return;
	r = gwconf_sql_parse(text, sql, &error);
	if (r == -ENOMEM)
		reader->err = r;
	else if (r < 0)
		conf_reader_fault(reader, value->mark, "%s", error.text);
	sql->mark = value->mark;
}

static void read_fact(struct conf_reader *reader, const struct conf_key *key,
		      const struct conf_node *value, void *base)
{
	struct gwconf_sql *sql = (struct gwconf_sql *)((char *)base + key->offset);

	read_sql(reader, key, value, base);
	if (sql->text && strncasecmp(sql->text + strspn(sql->text, " \n"), "select", 6) != 0 &&
	    strncasecmp(sql->text + strspn(sql->text, " \n"), "with", 4) != 0)
		conf_reader_fault(reader, value->mark, "facts are read: begin with SELECT");
}

/* The name of a member, and where it stands. */
static void read_member(struct conf_reader *reader, const struct conf_node *value, char **target,
			struct conf_mark *mark)
{
	const char *text = conf_reader_text(reader, value, "the name of a member of the input");

	*mark = value->mark;
	if (text)
		*target = conf_reader_copy(reader, text);
}

static void read_tenant(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	struct draft *draft = base;

	(void)key;
	read_member(reader, value, &draft->tenant, &draft->tenant_mark);
}

static void read_object_id(struct conf_reader *reader, const struct conf_key *key,
			   const struct conf_node *value, void *base)
{
	struct draft *draft = base;

	(void)key;
	read_member(reader, value, &draft->object, &draft->object_mark);
}

static void read_amount(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	struct draft *draft = base;

	(void)key;
	read_member(reader, value, &draft->amount, &draft->amount_mark);
}

static void read_idempotency_key(struct conf_reader *reader, const struct conf_key *key,
				 const struct conf_node *value, void *base)
{
	struct draft *draft = base;

	(void)key;
	read_member(reader, value, &draft->key, &draft->key_mark);
}

static void read_single(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	conf_read_integer(reader, key, value, base);
	((struct draft *)base)->tool.has_single = true;
}

static void read_daily(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	conf_read_integer(reader, key, value, base);
	((struct draft *)base)->tool.has_daily = true;
}

static void read_over(struct conf_reader *reader, const struct conf_key *key,
		      const struct conf_node *value, void *base)
{
	conf_read_word(reader, key, value, base);
	((struct draft *)base)->over_given = true;
}

static void read_limits(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	((struct draft *)base)->limits_mark = value->mark;
	conf_read_rows(reader, key->sub, value, base);
}

static void read_executor_sql(struct conf_reader *reader, const struct conf_key *key,
			      const struct conf_node *value, void *base)
{
	((struct draft *)base)->has_sql = true;
	read_sql(reader, key, value, base);
}

static void read_executor_http(struct conf_reader *reader, const struct conf_key *key,
			       const struct conf_node *value, void *base)
{
	((struct draft *)base)->has_http = true;
	conf_read_rows(reader, key->sub, value, base);
}

static void read_target(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "a path");

	if (!text)
		return;
	if (!path_is_plain(text))
		conf_reader_fault(reader, value->mark,
				  "`%s` is not a plain path; parameters go into the body",
				  conf_quote(text).s);
	else
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

static void read_body(struct conf_reader *reader, const struct conf_key *key,
		      const struct conf_node *value, void *base)
{
	((struct draft *)base)->body_mark = value->mark;
	conf_read_texts(reader, key, value, base);
}

/* Headers that frame or route a message are the gateway's own. */
static void read_header(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	static const char *const own[] = { "host",	   "content-length", "transfer-encoding",
					   "content-type", "connection",     "expect",
					   "te",	   "trailer",	     "upgrade" };
	const char *text = conf_reader_text(reader, value, "the name of a header");

	if (!text)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (!strcasecmp(own[i], text)) {
			conf_reader_fault(reader, value->mark, "`%s` is set by the gateway", text);
			return;
		}
	if (!text_consists_of(text, "-", 64))
		conf_reader_fault(reader, value->mark, "`%s` is not the name of a header",
				  conf_quote(text).s);
	else
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

static void read_prefix(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "text");

	if (!text)
		return;
	for (const char *p = text; *p; p++)
		if (*p < 0x20 || *p > 0x7e) {
			conf_reader_fault(reader, value->mark, "only printable ASCII characters");
			return;
		}
	*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

static void read_credential(struct conf_reader *reader, const struct conf_key *key,
			    const struct conf_node *value, void *base)
{
	struct draft *draft = base;

	draft->has_credential = true;
	draft->credential_mark = value->mark;
	conf_read_rows(reader, key->sub, value, base);
	if (value->kind == CONF_NODE_MAPPING && reader->complete &&
	    !conf_node_get(value, "file", NULL) == !conf_node_get(value, "env", NULL))
		conf_reader_fault(reader, value->mark, "needs one of `file` and `env`");
}

static void read_absolute(struct conf_reader *reader, const struct conf_key *key,
			  const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "a path");

	if (text && text[0] != '/')
		conf_reader_fault(reader, value->mark, "`%s` is not an absolute path; begin with /",
				  conf_quote(text).s);
	else if (text)
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

/* --- the rows --------------------------------------------------------------------------------- */

#define TOOL(member) .offset = offsetof(struct draft, tool.member)
_Static_assert(offsetof(struct draft, tool) == 0, "readers take a draft for a tool");

static const struct conf_key object_keys[] = {
	{ "id", read_object_id, .required = true, .expects = "a member of the input",
	  .doc = "the member that names the object" },
	{ "query", read_fact, TOOL(fact), .required = true, .expects = "an SQL query",
	  .doc = "facts about `:object`: one row with `tenant`, and `remaining` where there is an "
		 "amount" },
	CONF_KEYS_END,
};

static const struct conf_key limit_keys[] = {
	{ "single", read_single, TOOL(single), .min = 0, .max = LLONG_MAX - 1,
	  .expects = "a whole number", .fallback = "no limit",
	  .doc = "most that one call may move, in minor units" },
	{ "daily", read_daily, TOOL(daily), .min = 0, .max = LLONG_MAX - 1,
	  .expects = "a whole number", .fallback = "no limit",
	  .doc = "most per UTC day; calls that are pending, executing or ambiguous count" },
	{ "over", read_over, TOOL(over), .words = over_words, .expects = "`approve` or `refuse`",
	  .doc = "what happens to a call beyond single or daily; required with them" },
	{ "per", conf_read_word, TOOL(per), .words = per_words, .expects = "`tenant` or `subject`",
	  .fallback = "`tenant`",
	  .doc = "whose day it is: of the tenant, or of each subject in it" },
	CONF_KEYS_END,
};

static const struct conf_key approval_keys[] = {
	{ "ttl", conf_read_duration, TOOL(approval_ttl_ms), .min = 1000, .max = 30LL * 86400000,
	  .expects = "a time", .fallback = "that of the configuration",
	  .doc = "how long a human has to decide" },
	CONF_KEYS_END,
};

static const struct conf_key idempotency_keys[] = {
	{ "key", read_idempotency_key, .required = true, .expects = "a member of the input",
	  .doc = "the member that holds the key; the header `Idempotency-Key` says the same" },
	CONF_KEYS_END,
};

static const struct conf_key http_keys[] = {
	{ "upstream", read_name, TOOL(upstream), .required = true, .expects = "a name",
	  .doc = "one of `upstreams` in the configuration" },
	{ "method", conf_read_word, TOOL(method), .words = gwconf_methods,
	  .expects = "`POST`, `PUT`, `PATCH` or `DELETE`", .fallback = "`POST`",
	  .doc = "method of the request" },
	{ "path", read_target, TOOL(target), .required = true, .expects = "a path",
	  .doc = "path of the request" },
	{ "body", read_body, TOOL(body), .required = true, .expects = "a list of members",
	  .max = 16, .doc = "members of the input that are sent, as a JSON object" },
	{ "key_header", read_header, TOOL(key_header), .expects = "a header",
	  .fallback = "`Idempotency-Key`", .doc = "header in which the upstream gets the key" },
	{ "timeout", conf_read_duration, TOOL(timeout_ms), .min = 100, .max = 300000,
	  .expects = "a time", .fallback = "`10s`",
	  .doc = "after this the outcome is `ambiguous`" },
	CONF_KEYS_END,
};

static const struct conf_key executor_keys[] = {
	{ "sql", read_executor_sql, TOOL(statement), .expects = "an SQL statement",
	  .doc = "what is done, in the transaction of the ledger; must change exactly one row. "
		 "What "
		 "it returns is the result" },
	{ "http", read_executor_http, .sub = http_keys, .expects = "a mapping",
	  .doc = "a request to an upstream" },
	CONF_KEYS_END,
};

static const struct conf_key credential_keys[] = {
	{ "header", read_header, TOOL(credential_header), .required = true, .expects = "a header",
	  .doc = "where the upstream expects it, e.g. `Authorization`" },
	{ "prefix", read_prefix, TOOL(credential_prefix), .expects = "text", .fallback = "none",
	  .doc = "what stands before it, e.g. `\"Bearer \"`" },
	{ "file", read_absolute, TOOL(credential.file), .expects = "a path",
	  .doc = "file that holds it, 8 to 8,192 characters, readable by nobody else, as an "
		 "upstream's; "
		 "read anew on reload" },
	{ "env", conf_read_text, TOOL(credential.env), .expects = "a name",
	  .doc = "variable of the gateway that holds it" },
	CONF_KEYS_END,
};

static const struct conf_key tool_keys[] = {
	{ "cordon", conf_read_version, .required = true, .expects = "the number 1",
	  .doc = "version of this language: `1`" },
	{ "name", read_name, TOOL(name), .required = true, .expects = "a name",
	  .doc = "name of the tool: `POST /tools/NAME`" },
	{ "description", conf_read_text, TOOL(doc), .expects = "text", .fallback = "none",
	  .doc = "for people and agents; shown by `GET /tools`" },
	{ "route", read_route, TOOL(routes), .expects = "a path or a list of paths",
	  .fallback = "none", .max = GWCONF_ROUTES_MAX,
	  .doc = "further paths that call the tool, e.g. `/refund`" },
	{ "scope", read_scope, TOOL(scope), .required = true, .expects = "a scope",
	  .doc = "what the fence must hold, by `scopes` of its policy" },
	{ "input", gwconf_schema_read, .required = true, .expects = "a JSON Schema",
	  .doc = "the members of the request; see below" },
	{ "tenant", read_tenant, .expects = "a member of the input",
	  .fallback = "the request states no tenant",
	  .doc = "the member that states the tenant; must be the caller's" },
	{ "object", conf_read_mapping, .sub = object_keys, .expects = "a mapping",
	  .fallback = "no object", .doc = "the thing that is acted on" },
	{ "amount", read_amount, .expects = "a member of the input", .fallback = "no amount",
	  .doc = "the member that holds the amount, in minor units" },
	{ "limits", read_limits, .sub = limit_keys, .expects = "a mapping", .fallback = "no limits",
	  .doc = "ceilings of the amount" },
	{ "approvals", conf_read_mapping, .sub = approval_keys, .expects = "a mapping",
	  .doc = "human decisions" },
	{ "idempotency", conf_read_mapping, .sub = idempotency_keys, .required = true,
	  .expects = "a mapping", .doc = "one key, one effect" },
	{ "executor", conf_read_mapping, .sub = executor_keys, .required = true,
	  .expects = "`sql` or `http`", .doc = "how it is done" },
	{ "destructive", conf_read_bool, TOOL(destructive), .expects = "`true` or `false`",
	  .fallback = "`true`",
	  .doc = "whether what it does takes something away or moves it; then it counts for "
		 "cordond's alert `destructive`" },
	{ "credential", read_credential, .sub = credential_keys, .expects = "a mapping",
	  .fallback = "none", .doc = "what the gateway shows to the upstream; never in the fence" },
	{ "result", conf_read_texts, TOOL(result), .required = true, .expects = "a list of names",
	  .max = GWCONF_RESULT_MAX,
	  .doc = "fields of the result that go back; all others are dropped" },
	CONF_KEYS_END,
};

void gwconf_print_tool_keys(FILE *out)
{
	fputs("| key | value | when absent | meaning |\n|---|---|---|---|\n", out);
	conf_print_rows(tool_keys, "", out);
	conf_print_rows(gwconf_field_keys, "input.properties.NAME", out);
}

/* --- keys seen together ----------------------------------------------------------------------- */

/* The index of a member that a key names, or -1 with a fault where it does not fit. */
static int resolve(struct conf_reader *reader, const struct draft *draft, const char *key,
		   const char *name, struct conf_mark mark, unsigned int type, bool required)
{
	size_t before = conf_reader_descend(reader, key), best = CONF_NEAR_NONE;
	const char *near = NULL;
	int i = name ? gwconf_tool_field(&draft->tool, name) : -1;

	for (size_t k = 0; name && i < 0 && k < draft->tool.n_fields; k++)
		if (conf_word_is_nearer(name, draft->tool.fields[k].name, &best))
			near = draft->tool.fields[k].name;
	if (near)
		conf_reader_fault(reader, mark,
				  "`%s` is no member of the input; did you mean `%s`?",
				  conf_quote(name).s, near);
	else if (name && i < 0 && draft->tool.n_fields)
		conf_reader_fault(reader, mark, "`%s` is no member of the input",
				  conf_quote(name).s);
	if (i >= 0 && draft->tool.fields[i].type != type) {
		conf_reader_fault(reader, mark, "`%s` must be of type %s", name,
				  type == GWCONF_STRING ? "string" : "integer");
		i = -1;
	} else if (i >= 0 && required && !draft->tool.fields[i].required) {
		conf_reader_fault(reader, mark, "`%s` must be among `required` of the input", name);
		i = -1;
	}
	conf_reader_ascend(reader, before);
	return i;
}

/* Texts that the ledger keeps are bounded there. */
static void judge_length(struct conf_reader *reader, const struct gwconf_tool *tool, int i, int max)
{
	if (i >= 0 && tool->fields[i].max_length > max) {
		size_t before = conf_reader_descend(reader, "input");

		conf_reader_fault(reader, tool->fields[i].mark,
				  "`%s` may be at most %d characters: give maxLength",
				  tool->fields[i].name, max);
		conf_reader_ascend(reader, before);
	}
}

/* In SQL these names are the call's own; a member of that name must be that very thing. */
static void judge_members(struct conf_reader *reader, const struct gwconf_tool *tool)
{
	const struct {
		const char *name;
		int is;
	} own[] = {
		{ "tenant", tool->tenant },
		{ "object", tool->object },
		{ "amount", tool->amount },
		{ "key", tool->key },
		{ "subject", -1 },
		{ "task", -1 },
		{ "call", -1 },
	};
	size_t before = conf_reader_descend(reader, "input.properties");

	for (size_t k = 0; k < ARRAY_SIZE(own); k++) {
		int i = gwconf_tool_field(tool, own[k].name);

		if (i >= 0 && i != own[k].is)
			conf_reader_fault(
				reader, tool->fields[i].mark,
				"`%s` means something else in SQL; give the member another "
				"name",
				own[k].name);
	}
	conf_reader_ascend(reader, before);
}

static void judge_sql(struct conf_reader *reader, const struct gwconf_tool *tool, const char *key,
		      const struct gwconf_sql *sql)
{
	size_t before = conf_reader_descend(reader, key);

	for (size_t p = 0; p < sql->n_params; p++) {
		const char *name = sql->param[p], *near = NULL;
		size_t best = CONF_NEAR_NONE, k = 0;

		while (gwconf_sql_names[k] && strcmp(gwconf_sql_names[k], name) != 0)
			k++;
		if (gwconf_sql_names[k]) {
			if ((!strcmp(name, "object") && tool->object < 0) ||
			    (!strcmp(name, "amount") && tool->amount < 0))
				conf_reader_fault(reader, sql->mark, "`:%s`: the tool has none",
						  name);
			continue;
		}
		if (gwconf_tool_field(tool, name) >= 0)
			continue;
		for (size_t i = 0; i < tool->n_fields; i++)
			if (conf_word_is_nearer(name, tool->fields[i].name, &best))
				near = tool->fields[i].name;
		for (k = 0; gwconf_sql_names[k]; k++)
			if (conf_word_is_nearer(name, gwconf_sql_names[k], &best))
				near = gwconf_sql_names[k];
		if (near)
			conf_reader_fault(reader, sql->mark,
					  "`:%s` is no member of the input; did you mean `:%s`?",
					  name, near);
		else
			conf_reader_fault(
				reader, sql->mark,
				"`:%s` is neither a member of the input nor one of tenant, "
				"subject, task, object, amount, key, call",
				name);
	}
	conf_reader_ascend(reader, before);
}

static void judge_limits(struct conf_reader *reader, const struct draft *draft)
{
	const struct gwconf_tool *tool = &draft->tool;
	size_t before = conf_reader_descend(reader, "limits");
	bool any = tool->has_single || tool->has_daily;

	if (any && tool->amount < 0 && !draft->amount)
		conf_reader_fault(reader, draft->limits_mark, "limits without `amount`");
	if (any && !draft->over_given)
		conf_reader_fault(reader, draft->limits_mark,
				  "`over` is missing: approve or refuse");
	if (tool->has_single && tool->has_daily && tool->single > tool->daily)
		conf_reader_fault(reader, draft->limits_mark,
				  "single is greater than daily: it can never be reached");
	conf_reader_ascend(reader, before);
}

static void judge_executor(struct conf_reader *reader, const struct draft *draft,
			   struct conf_mark root)
{
	size_t before = conf_reader_descend(reader, "executor");

	if (draft->has_sql && draft->has_http)
		conf_reader_fault(reader, root, "sql and http together; keep one");
	else if (!draft->has_sql && !draft->has_http)
		conf_reader_fault(reader, root, "needs `sql` or `http`");
	conf_reader_ascend(reader, before);
	before = conf_reader_descend(reader, "credential");
	if (draft->has_credential && !draft->has_http)
		conf_reader_fault(reader, draft->credential_mark,
				  "only an `http` executor shows a credential");
	else if (draft->has_credential && draft->tool.credential_header && draft->tool.key_header &&
		 !strcasecmp(draft->tool.credential_header, draft->tool.key_header))
		conf_reader_fault(reader, draft->credential_mark,
				  "its header is that of the idempotency key");
	conf_reader_ascend(reader, before);
	before = conf_reader_descend(reader, "executor.http.body");
	for (size_t i = 0; i < draft->tool.body.n; i++)
		if (gwconf_tool_field(&draft->tool, draft->tool.body.v[i]) < 0)
			conf_reader_fault(reader, draft->tool.body.mark[i],
					  "`%s` is no member of the input",
					  conf_quote(draft->tool.body.v[i]).s);
	conf_reader_ascend(reader, before);
}

static void judge(struct conf_reader *reader, struct draft *draft, struct conf_mark root,
		  struct conf_mark executor)
{
	struct gwconf_tool *tool = &draft->tool;

	tool->tenant = resolve(reader, draft, "tenant", draft->tenant, draft->tenant_mark,
			       GWCONF_STRING, true);
	tool->object = resolve(reader, draft, "object.id", draft->object, draft->object_mark,
			       GWCONF_STRING, true);
	tool->amount = resolve(reader, draft, "amount", draft->amount, draft->amount_mark,
			       GWCONF_INTEGER, true);
	tool->key = resolve(reader, draft, "idempotency.key", draft->key, draft->key_mark,
			    GWCONF_STRING, false);
	if (!reader->complete)
		return;
	if (draft->amount && !draft->object && !tool->fact.text) {
		size_t before = conf_reader_descend(reader, "amount");

		conf_reader_fault(reader, draft->amount_mark,
				  "an amount needs `object`, whose query says what remains");
		conf_reader_ascend(reader, before);
	}
	judge_length(reader, tool, tool->tenant, 128);
	judge_length(reader, tool, tool->object, 512 / 4);
	judge_length(reader, tool, tool->key, 200);
	judge_members(reader, tool);
	judge_limits(reader, draft);
	judge_executor(reader, draft, executor.line ? executor : root);
	judge_sql(reader, tool, "object.query", &tool->fact);
	judge_sql(reader, tool, "executor.sql", &tool->statement);
}

/* --- entrances -------------------------------------------------------------------------------- */

static void draft_release(struct draft *draft)
{
	free(draft->tenant);
	free(draft->object);
	free(draft->amount);
	free(draft->key);
}

/* Moves the tool out of the draft. */
static struct gwconf_tool *draft_take(struct draft *draft)
{
	struct gwconf_tool *tool = malloc(sizeof(*tool));

	if (tool) {
		*tool = draft->tool;
		memset(&draft->tool, 0, sizeof(draft->tool));
	}
	return tool;
}

static void draft_read(struct conf_reader *reader, const struct conf_node *root,
		       struct draft *draft)
{
	static const struct conf_mark start = { 1, 1 };
	const struct conf_node *executor = root ? conf_node_get(root, "executor", NULL) : NULL;

	if (!root) {
		if (conf_fault_count(reader->faults) == 0)
			conf_reader_fault(reader, start, "empty");
		return;
	}
	draft->tool.timeout_ms = 10000;
	draft->tool.executor = GWCONF_EXEC_SQL;
	draft->tool.destructive = true;
	conf_read_rows(reader, tool_keys, root, draft);
	if (draft->has_http)
		draft->tool.executor = GWCONF_EXEC_HTTP;
	judge(reader, draft, root->mark, executor ? executor->mark : (struct conf_mark){ 0, 0 });
}

int gwconf_tool_parse(const char *text, size_t length, const char *path,
		      struct gwconf_tool **ret_tool, struct conf_faults *faults)
{
	struct draft *draft = calloc(1, sizeof(*draft));
	struct conf_reader reader = { .faults = faults, .whole = "the tool" };
	struct conf_node *root = NULL;
	struct gwconf_tool *tool;
	int r;

	if (!draft)
		return -ENOMEM;
	r = conf_node_read(text, length, faults, &root, &reader.complete);
	if (r == 0) {
		draft_read(&reader, root, draft);
		draft->tool.path = conf_reader_copy(&reader, path);
		r = reader.err;
	}
	conf_node_free(root);
	tool = draft_take(draft);
	draft_release(draft);
	free(draft);
	if (r == 0 && !tool)
		r = -ENOMEM;
	if (r == 0 && conf_fault_count(faults))
		r = -EINVAL;
	if (r < 0)
		gwconf_tool_free(tool);
	else
		*ret_tool = tool;
	return r;
}

int gwconf_tool_load(const char *path, struct gwconf_tool **ret_tool, struct conf_faults *faults)
{
	_cleanup_free_ char *text = NULL;
	size_t length;
	int r = conf_file_read(path, &text, &length);

	return r < 0 ? r : gwconf_tool_parse(text, length, path, ret_tool, faults);
}
