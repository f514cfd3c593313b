// SPDX-License-Identifier: Apache-2.0
/*
 * Tree -> model, driven by the table of keys: one function per type of value. A value with a fault
 * is left out of the model and reading goes on, so that every fault of a text is found at once. No
 * privilege.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "policy/context.h"
#include "policy/secrets.h"
#include "policy/value.h"
#include "reach/reach.h"

#define LABELS_MAX 64

typedef void read_fn(struct policy_context *context, const struct policy_key *key,
		     const struct conf_node *value, void *base);

static read_fn read_value;

static bool path_check_is_due(const struct policy_context *context, const struct policy_key *key)
{
	return !(context->options->workdir && key->offset == offsetof(struct policy, workdir) &&
		 key->type == POLICY_TYPE_PATH);
}

void policy_context_use(struct policy_context *context, const struct policy_key *key,
			const char *text, struct conf_mark mark)
{
	if (context->n_uses == context->uses_room) {
		size_t room = context->uses_room ? context->uses_room * 2 : 64;
		struct policy_use *grown = realloc(context->uses, room * sizeof(*grown));

		if (!grown) {
			context->err = -ENOMEM;
			return;
		}
		context->uses = grown;
		context->uses_room = room;
	}
	context->uses[context->n_uses++] = (struct policy_use){ key, text, mark };
}

/*
 * Appends text, taking it over in every case; v[n] stays NULL. The room doubles whenever n is a
 * power of two, so that no member is needed for it.
 */
static void strings_append(struct policy_context *context, struct policy_strings *strings,
			   char *text)
{
	bool full = (strings->n & (strings->n - 1)) == 0;
	char **grown = strings->v;

	if (text && full)
		grown = realloc(strings->v, (strings->n * 2 + 2) * sizeof(*grown));
	if (!text || !grown) {
		free(text);
		context->err = -ENOMEM;
		return;
	}
	strings->v = grown;
	strings->v[strings->n++] = text;
	strings->v[strings->n] = NULL;
}

static void fault_type(struct policy_context *context, const struct policy_key *key,
		       enum policy_type type, const struct conf_node *value)
{
	policy_context_fault(context, value->mark, "%s: expects %s, not %s",
			     key->path[0] ? key->path : "the policy", policy_type_names[type],
			     conf_node_describe(value));
}

/* The text of a scalar that says something; else NULL, and a fault was added. */
static const char *value_text(struct policy_context *context, const struct policy_key *key,
			      enum policy_type type, const struct conf_node *value)
{
	if (value->kind == CONF_NODE_BAD)
		return NULL;
	if (value->kind != CONF_NODE_SCALAR || conf_node_is_null(value)) {
		fault_type(context, key, type, value);
		return NULL;
	}
	return value->text;
}

/* Is it a list? Else a fault was added. */
static bool value_is_list(struct policy_context *context, const struct policy_key *key,
			  const struct conf_node *value)
{
	if (value->kind == CONF_NODE_LIST)
		return true;
	fault_type(context, key, key->type, value);
	return false;
}

/*
 * Takes the outcome of a function of value.h: adds its fault, notes the end of memory. True when
 * all is well.
 */
static bool value_is_good(struct policy_context *context, const struct policy_key *key,
			  const struct conf_node *value, int r, const struct error *error)
{
	if (r == -ENOMEM)
		context->err = r;
	else if (r < 0)
		policy_context_fault(context, value->mark, "%s: %s", key->path, error->text);
	return r == 0;
}

static void fault_not_enforced(struct policy_context *context, const struct policy_key *key,
			       struct conf_mark at)
{
	policy_context_fault(context, at, "%s: not enforced by this version", key->path);
}

/* "to, port, proto": the keys of parent. */
static const char *keys_list(const struct policy_key *parent, char *list, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < policy_keys_n && used < size; i++)
		if (policy_key_is_child(parent, &policy_keys[i]))
			used += (size_t)snprintf(list + used, size - used, "%s%s", used ? ", " : "",
						 policy_key_leaf(&policy_keys[i]));
	return list;
}

static void fault_unknown_key(struct policy_context *context, const struct policy_key *parent,
			      const struct conf_node *name)
{
	const struct policy_key *near = policy_key_nearest(parent, name->text);
	const struct policy_key *elsewhere = near ? NULL : policy_key_elsewhere(name->text);
	struct conf_quote quote = conf_quote(name->text);
	const char *in = parent->path[0] ? parent->path : "the policy";
	char list[256] = "";

	if (near)
		policy_context_fault(context, name->mark,
				     "unknown key `%s` in %s; did you mean `%s`?", quote.s, in,
				     policy_key_leaf(near));
	else if (elsewhere)
		policy_context_fault(context, name->mark,
				     "unknown key `%s` in %s; did you mean `%s`?", quote.s, in,
				     elsewhere->path);
	else
		policy_context_fault(context, name->mark, "unknown key `%s` in %s; it has: %s",
				     quote.s, in, keys_list(parent, list, sizeof(list)));
}

/* --- mappings of keys ------------------------------------------------------------------------- */

static void read_entry(struct policy_context *context, const struct policy_key *parent,
		       const struct conf_node *name, const struct conf_node *value, void *base)
{
	const struct policy_key *key = policy_key_child(parent, name->text);
	bool empty = value->kind == CONF_NODE_LIST && value->n == 0;

	if (!key) {
		fault_unknown_key(context, parent, name);
		return;
	}
	context->given[key - policy_keys] = true;
	context->given_marks[key - policy_keys] = name->mark;
	if (key->status == POLICY_UNBUILT || (key->status == POLICY_UNBUILT_EMPTY && !empty))
		fault_not_enforced(context, key, name->mark);
	else if (value->kind != CONF_NODE_BAD)
		read_value(context, key, value, base);
}

static bool mapping_has(const struct conf_node *mapping, const char *name)
{
	for (size_t i = 0; i < mapping->n; i += 2)
		if (mapping->child[i]->kind == CONF_NODE_SCALAR &&
		    !strcmp(mapping->child[i]->text, name))
			return true;
	return false;
}

static void read_mapping(struct policy_context *context, const struct policy_key *key,
			 const struct conf_node *value, void *base)
{
	if (value->kind != CONF_NODE_MAPPING) {
		if (value->kind != CONF_NODE_BAD)
			fault_type(context, key, POLICY_TYPE_MAPPING, value);
		return;
	}
	for (size_t i = 0; i < value->n; i += 2)
		if (value->child[i]->kind == CONF_NODE_SCALAR)
			read_entry(context, key, value->child[i], value->child[i + 1], base);
	for (size_t i = 0; context->complete && i < policy_keys_n; i++)
		if (policy_keys[i].required && policy_key_is_child(key, &policy_keys[i]) &&
		    !mapping_has(value, policy_key_leaf(&policy_keys[i])))
			policy_context_fault(context, value->mark, "%s: missing",
					     policy_keys[i].path);
}

/* --- single values ---------------------------------------------------------------------------- */

static void read_version(struct policy_context *context, const struct policy_key *key,
			 const struct conf_node *value, void *base)
{
	const char *text = value_text(context, key, key->type, value);

	(void)base;
	if (!text || (value->plain && !strcmp(text, "1")))
		return;
	if (!value->plain || !text[0] || text[strspn(text, "0123456789.")])
		fault_type(context, key, key->type, value);
	else
		policy_context_fault(
			context, value->mark,
			"%s: version %s is not supported; this program reads version 1", key->path,
			conf_quote(text).s);
}

static void read_name(struct policy_context *context, const struct policy_key *key,
		      const struct conf_node *value, void *base)
{
	const char *text = value_text(context, key, key->type, value);
	char **target = (char **)((char *)base + key->offset);
	struct error error = { "" };

	if (!text || !value_is_good(context, key, value, policy_value_name(text, &error), &error))
		return;
	*target = strdup(text);
	if (!*target)
		context->err = -ENOMEM;
}

/* "enforce, audit": the words that may be given. */
static void words_list(const struct policy_word *words, char *list, size_t size)
{
	size_t used = 0;

	for (; words->name && used < size; words++)
		used += (size_t)snprintf(list + used, size - used, "%s%s", used ? ", " : "",
					 words->name);
}

static void fault_unknown_word(struct policy_context *context, const struct policy_key *key,
			       const struct conf_node *value)
{
	const char *near = policy_word_nearest(key->words, value->text);
	struct conf_quote quote = conf_quote(value->text);
	char list[128] = "";

	if (near) {
		policy_context_fault(context, value->mark,
				     "%s: unknown word `%s`; did you mean `%s`?", key->path,
				     quote.s, near);
		return;
	}
	words_list(key->words, list, sizeof(list));
	policy_context_fault(context, value->mark, "%s: unknown word `%s`; expects one of: %s",
			     key->path, quote.s, list);
}

static void read_word(struct policy_context *context, const struct policy_key *key,
		      const struct conf_node *value, void *base)
{
	const char *text = value_text(context, key, key->type, value);

	if (!text)
		return;
	for (const struct policy_word *word = key->words; word->name; word++) {
		if (strcmp(word->name, text) != 0)
			continue;
		if (word->status != POLICY_ENFORCED)
			policy_context_fault(context, value->mark,
					     "%s: %s: not enforced by this version", key->path,
					     text);
		else if (key->offset != POLICY_NO_TARGET)
			*(unsigned int *)((char *)base + key->offset) = word->value;
		return;
	}
	fault_unknown_word(context, key, value);
}
_Static_assert(sizeof(enum cordon_mode) == sizeof(unsigned int), "read_word() writes one");
_Static_assert(sizeof(enum cordon_loopback) == sizeof(unsigned int), "read_word() writes one");

static void read_prefix(struct policy_context *context, const struct policy_key *key,
			const struct conf_node *value, void *base)
{
	const char *text = value_text(context, key, key->type, value);
	struct policy_allow *allow = (struct policy_allow *)((char *)base + key->offset);
	static const struct cordon_addr none;
	struct error error = { "" };
	int r;

	if (!text)
		return;
	r = policy_value_prefix(text, &allow->addr, &allow->prefix_bits, &error);
	if (!value_is_good(context, key, value, r, &error))
		return;
	if (policy_prefix_is_metadata(&allow->addr, allow->prefix_bits))
		policy_context_fault(context, value->mark,
				     "%s: can never match: the metadata service is always shut",
				     key->path);
	else if (allow->prefix_bits == policy_addr_bits(&allow->addr) &&
		 !memcmp(allow->addr.b, none.b, sizeof(none.b)))
		policy_context_fault(
			context, value->mark,
			"%s: `%s` is the unspecified address; give the one that is meant",
			key->path, text);
}

static void read_port(struct policy_context *context, const struct policy_key *key,
		      const struct conf_node *value, void *base)
{
	const char *text = value_text(context, key, key->type, value);
	struct policy_allow *allow = (struct policy_allow *)((char *)base + key->offset);
	struct error error = { "" };

	if (text)
		value_is_good(context, key, value, policy_value_ports(text, &allow->ports, &error),
			      &error);
}

/* --- paths ------------------------------------------------------------------------------------ */

/*
 * The canonical path that value gives, judged and noted; else NULL, and a fault was added. To be
 * freed.
 */
static char *value_path(struct policy_context *context, const struct policy_key *key,
			const struct conf_node *value)
{
	const char *text = value_text(context, key, POLICY_TYPE_PATH, value);
	struct error error = { "" };
	char *path = NULL;

	if (!text ||
	    !value_is_good(context, key, value, policy_value_path(text, &path, &error), &error))
		return NULL;
	if (path_check_is_due(context, key)) {
		if (strcmp(path, "/") != 0)
			policy_context_use(context, key, path, value->mark);
		policy_check_path(context, key, path, value->mark);
	}
	return path;
}

static void read_path(struct policy_context *context, const struct policy_key *key,
		      const struct conf_node *value, void *base)
{
	*(char **)((char *)base + key->offset) = value_path(context, key, value);
}

static void read_paths(struct policy_context *context, const struct policy_key *key,
		       const struct conf_node *value, void *base)
{
	struct policy_strings *strings = (struct policy_strings *)((char *)base + key->offset);

	if (!value_is_list(context, key, value))
		return;
	if (!value->n && key->path_flags & POLICY_PATH_ALLOW)
		policy_context_fault(
			context, value->mark,
			"%s: an empty list allows nothing, not even the command; leave "
			"the key out to allow everything",
			key->path);
	for (size_t i = 0; i < value->n; i++) {
		char *path = value_path(context, key, value->child[i]);

		if (path)
			strings_append(context, strings, path);
	}
}

/* --- network ---------------------------------------------------------------------------------- */

static void read_gateway_address(struct policy_context *context, const struct policy_key *key,
				 const struct conf_node *value)
{
	const char *text = value_text(context, key, key->type, value);
	struct policy *policy = context->policy;
	struct cordon_gateway gateway;
	struct error error = { "" };

	if (!text || !value_is_good(context, key, value,
				    policy_value_gateway(text, &gateway, &error), &error))
		return;
	if (policy->n_gateways == CORDON_GATEWAYS_MAX) {
		policy_context_fault(context, value->mark, "%s: more than %d addresses", key->path,
				     CORDON_GATEWAYS_MAX);
		return;
	}
	context->gateway_marks[policy->n_gateways] = value->mark;
	policy->gateway[policy->n_gateways++] = gateway;
}

static void read_gateway(struct policy_context *context, const struct policy_key *key,
			 const struct conf_node *value, void *base)
{
	(void)base;
	if (value->kind == CONF_NODE_SCALAR && value->text[0] == '/') {
		context->policy->gateway_unix = value_path(context, key, value);
		return;
	}
	if (value->kind != CONF_NODE_LIST) {
		read_gateway_address(context, key, value);
		return;
	}
	for (size_t i = 0; i < value->n; i++) {
		const struct conf_node *item = value->child[i];

		if (item->kind == CONF_NODE_SCALAR && item->text[0] == '/')
			policy_context_fault(context, item->mark,
					     "%s: a socket path stands alone, not in a list",
					     key->path);
		else
			read_gateway_address(context, key, item);
	}
}

static void read_resolver_address(struct policy_context *context, const struct policy_key *key,
				  const struct conf_node *value)
{
	const char *text = value_text(context, key, key->type, value);
	struct policy *policy = context->policy;
	struct cordon_gateway resolver;
	struct error error = { "" };

	if (!text || !value_is_good(context, key, value,
				    policy_value_gateway(text, &resolver, &error), &error))
		return;
	for (size_t i = 0; i < policy->n_resolvers; i++)
		if (policy->resolver[i].addr.v6 == resolver.addr.v6) {
			policy_context_fault(context, value->mark,
					     "%s: at most one IPv4 and one IPv6 address; one of "
					     "this kind is already given at line %u",
					     key->path, context->resolver_marks[i].line);
			return;
		}
	resolver.proto = 0;
	context->resolver_marks[policy->n_resolvers] = value->mark;
	policy->resolver[policy->n_resolvers++] = resolver;
}

static void read_resolver(struct policy_context *context, const struct policy_key *key,
			  const struct conf_node *value, void *base)
{
	(void)base;
	if (value->kind != CONF_NODE_LIST)
		read_resolver_address(context, key, value);
	else if (value->n == 0)
		policy_context_fault(context, value->mark, "%s: an empty list; leave it out",
				     key->path);
	else
		for (size_t i = 0; i < value->n; i++)
			read_resolver_address(context, key, value->child[i]);
}

static void read_listen(struct policy_context *context, const struct policy_key *key,
			const struct conf_node *value, void *base)
{
	struct policy *policy = context->policy;

	(void)base;
	if (!value_is_list(context, key, value))
		return;
	for (size_t i = 0; i < value->n; i++) {
		const struct conf_node *item = value->child[i];
		const char *text = value_text(context, key, POLICY_TYPE_PORT, item);
		struct cordon_ports ports = { .proto = IPPROTO_TCP };
		struct error error = { "" };

		if (!text || !value_is_good(context, key, item,
					    policy_value_ports(text, &ports, &error), &error))
			continue;
		if (policy->n_listen == CORDON_LISTEN_MAX) {
			policy_context_fault(context, item->mark,
					     "%s: more than %d ports or ranges", key->path,
					     CORDON_LISTEN_MAX);
			return;
		}
		context->listen_marks[policy->n_listen] = item->mark;
		policy->listen[policy->n_listen++] = ports;
	}
}

static void allow_append(struct policy_context *context, const struct policy_rule *rule,
			 struct conf_mark mark)
{
	struct policy *policy = context->policy;

	policy->allow[policy->n_allow] = rule->allow;
	policy->allow[policy->n_allow].ports.proto = (uint8_t)rule->proto;
	context->allow_marks[policy->n_allow++] = mark;
}

static void read_rules(struct policy_context *context, const struct policy_key *key,
		       const struct conf_node *value, void *base)
{
	const struct policy_key *item = policy_key_find("network.allow[]");
	struct policy *policy = context->policy;

	(void)base;
	if (!value_is_list(context, key, value) || value->n == 0)
		return;
	policy->allow = calloc(value->n, sizeof(*policy->allow));
	context->allow_marks = calloc(value->n, sizeof(*context->allow_marks));
	if (!policy->allow || !context->allow_marks) {
		context->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < value->n; i++) {
		struct policy_rule rule = { .allow.ports.hi = 65535 };
		size_t before = conf_fault_count(context->faults);

		read_mapping(context, item, value->child[i], &rule);
		if (value->child[i]->kind == CONF_NODE_MAPPING && !context->err &&
		    conf_fault_count(context->faults) == before)
			allow_append(context, &rule, value->child[i]->mark);
	}
}

/* --- ceilings --------------------------------------------------------------------------------- */

static void read_quantity(struct policy_context *context, const struct policy_key *key,
			  const struct conf_node *value, void *base)
{
	const char *text = value_text(context, key, key->type, value);
	struct error error = { "" };
	uint64_t quantity = 0;
	int r;

	if (!text)
		return;
	r = policy_value_quantity(key->type, text, key->least, key->most, &quantity, &error);
	if (value_is_good(context, key, value, r, &error))
		*(uint64_t *)((char *)base + key->offset) = quantity;
}

/* --- environment and labels ------------------------------------------------------------------- */

/* Each rule in its one spelling, so that those who get it need no other reading. */
static void read_domains(struct policy_context *context, const struct policy_key *key,
			 const struct conf_node *value, void *base)
{
	struct policy_strings *domains = (struct policy_strings *)((char *)base + key->offset);

	if (!value_is_list(context, key, value) || value->n == 0)
		return;
	context->domain_marks = calloc(value->n, sizeof(*context->domain_marks));
	if (!context->domain_marks) {
		context->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < value->n; i++) {
		const struct conf_node *item = value->child[i];
		const char *text = value_text(context, key, POLICY_TYPE_NAME, item), *reason;
		char spelling[REACH_RULE_SIZE];
		struct reach_rule rule;

		if (!text)
			continue;
		if (reach_rule_read(text, strlen(text), &rule, &reason)) {
			policy_context_fault(context, item->mark, "%s: `%s`: %s", key->path,
					     conf_quote(text).s, reason);
			continue;
		}
		reach_rule_write(&rule, spelling);
		context->domain_marks[domains->n] = item->mark;
		strings_append(context, domains, strdup(spelling));
	}
}

/* A list of names, each of which judge() accepts. */
static void read_names(struct policy_context *context, const struct policy_key *key,
		       const struct conf_node *value, void *base,
		       int (*judge)(const char *text, struct error *error))
{
	struct policy_strings *names = (struct policy_strings *)((char *)base + key->offset);

	if (!value_is_list(context, key, value))
		return;
	for (size_t i = 0; i < value->n; i++) {
		const struct conf_node *item = value->child[i];
		const char *text = value_text(context, key, POLICY_TYPE_NAME, item);
		struct error error = { "" };

		if (!text || !value_is_good(context, key, item, judge(text, &error), &error))
			continue;
		policy_context_use(context, key, text, item->mark);
		strings_append(context, names, strdup(text));
	}
}

static void read_env_names(struct policy_context *context, const struct policy_key *key,
			   const struct conf_node *value, void *base)
{
	read_names(context, key, value, base, policy_value_env_name);
}

/* What a list of rule sets switches off. */
static void read_sets(struct policy_context *context, const struct policy_key *key,
		      const struct conf_node *value, void *base)
{
	uint32_t *groups = (uint32_t *)((char *)base + key->offset);

	if (!value_is_list(context, key, value))
		return;
	for (size_t i = 0; i < value->n; i++) {
		const struct conf_node *item = value->child[i];
		const char *text = value_text(context, key, POLICY_TYPE_NAME, item), *near;
		uint32_t off = text ? policy_secrets_word(text) : 0;

		if (!text)
			continue;
		near = off ? NULL : policy_secrets_nearest(text);
		if (!off && near)
			policy_context_fault(context, item->mark,
					     "%s: there is no rule set `%s`; did you mean `%s`?",
					     key->path, conf_quote(text).s, near);
		else if (!off)
			policy_context_fault(context, item->mark,
					     "%s: there is no rule set `%s`; `cordon check "
					     "--secrets` lists them",
					     key->path, conf_quote(text).s);
		else if ((*groups & off) != off)
			policy_context_fault(context, item->mark, "%s: `%s` is already given",
					     key->path, text);
		*groups &= ~off;
	}
}

static void read_scopes(struct policy_context *context, const struct policy_key *key,
			const struct conf_node *value, void *base)
{
	if (value->kind == CONF_NODE_LIST && value->n > POLICY_SCOPES_MAX)
		policy_context_fault(context, value->child[POLICY_SCOPES_MAX]->mark,
				     "%s: more than %d scopes", key->path, POLICY_SCOPES_MAX);
	read_names(context, key, value, base, policy_value_scope);
}

/* Appends "name=value". */
static void pair_append(struct policy_context *context, struct policy_strings *strings,
			const char *name, const char *value)
{
	char *pair;

	if (asprintf(&pair, "%s=%s", name, value) < 0)
		context->err = -ENOMEM;
	else
		strings_append(context, strings, pair);
}

/* The value of one name. Values of env.set may be secrets: no fault says them. */
static const char *pair_value(struct policy_context *context, const struct policy_key *key,
			      const struct conf_node *name, const struct conf_node *value)
{
	if (value->kind == CONF_NODE_BAD)
		return NULL;
	if (value->kind == CONF_NODE_SCALAR && !conf_node_is_null(value))
		return value->text;
	policy_context_fault(context, value->mark, "%s: `%s` expects text, not %s%s", key->path,
			     conf_quote_name(name->text).s, conf_node_describe(value),
			     conf_node_is_null(value) ? "; write \"\" for empty text" : "");
	return NULL;
}

static void read_env(struct policy_context *context, const struct policy_key *key,
		     const struct conf_node *value, void *base)
{
	struct policy_strings *strings = (struct policy_strings *)((char *)base + key->offset);

	if (value->kind != CONF_NODE_MAPPING) {
		fault_type(context, key, key->type, value);
		return;
	}
	for (size_t i = 0; i < value->n; i += 2) {
		const struct conf_node *name = value->child[i];
		const char *text;
		struct error error = { "" };

		if (name->kind != CONF_NODE_SCALAR)
			continue;
		text = pair_value(context, key, name, value->child[i + 1]);
		if (!value_is_good(context, key, name, policy_value_env_name(name->text, &error),
				   &error) ||
		    !text)
			continue;
		policy_context_use(context, key, name->text, name->mark);
		pair_append(context, strings, name->text, text);
	}
}

static void read_labels(struct policy_context *context, const struct policy_key *key,
			const struct conf_node *value, void *base)
{
	struct policy_strings *strings = (struct policy_strings *)((char *)base + key->offset);

	if (value->kind != CONF_NODE_MAPPING) {
		fault_type(context, key, key->type, value);
		return;
	}
	if (value->n / 2 > LABELS_MAX)
		policy_context_fault(context, value->child[LABELS_MAX * 2]->mark,
				     "%s: more than %d labels", key->path, LABELS_MAX);
	for (size_t i = 0; i < value->n; i += 2) {
		const struct conf_node *name = value->child[i];
		const char *text;
		struct error error = { "" };

		if (name->kind != CONF_NODE_SCALAR)
			continue;
		text = pair_value(context, key, name, value->child[i + 1]);
		if (text && value_is_good(context, key, name,
					  policy_value_label(name->text, text, &error), &error))
			pair_append(context, strings, name->text, text);
	}
}

/* A list of a key that is not built was found empty: it asks for nothing. */
static void read_nothing(struct policy_context *context, const struct policy_key *key,
			 const struct conf_node *value, void *base)
{
	(void)context;
	(void)key;
	(void)value;
	(void)base;
}

static void read_value(struct policy_context *context, const struct policy_key *key,
		       const struct conf_node *value, void *base)
{
	static read_fn *const read_by_type[POLICY_TYPE_COUNT] = {
		[POLICY_TYPE_MAPPING] = read_mapping,
		[POLICY_TYPE_VERSION] = read_version,
		[POLICY_TYPE_NAME] = read_name,
		[POLICY_TYPE_WORD] = read_word,
		[POLICY_TYPE_PATH] = read_path,
		[POLICY_TYPE_PATHS] = read_paths,
		[POLICY_TYPE_GATEWAY] = read_gateway,
		[POLICY_TYPE_RULES] = read_rules,
		[POLICY_TYPE_PREFIX] = read_prefix,
		[POLICY_TYPE_PORT] = read_port,
		[POLICY_TYPE_RESOLVER] = read_resolver,
		[POLICY_TYPE_LISTEN] = read_listen,
		[POLICY_TYPE_DOMAINS] = read_domains,
		[POLICY_TYPE_ENV_NAMES] = read_env_names,
		[POLICY_TYPE_ENV] = read_env,
		[POLICY_TYPE_LABELS] = read_labels,
		[POLICY_TYPE_SCOPES] = read_scopes,
		[POLICY_TYPE_SETS] = read_sets,
		[POLICY_TYPE_PROCESSORS] = read_quantity,
		[POLICY_TYPE_NUMBER] = read_quantity,
		[POLICY_TYPE_SIZE] = read_quantity,
		[POLICY_TYPE_TIME] = read_quantity,
		[POLICY_TYPE_LIST] = read_nothing,
		[POLICY_TYPE_TEXT] = read_nothing,
	};

	read_by_type[key->type](context, key, value, base);
}

void policy_read_root(struct policy_context *context, const struct conf_node *root)
{
	read_mapping(context, &policy_keys[0], root, context->policy);
}
