// SPDX-License-Identifier: Apache-2.0
/*
 * The entrance of the policy library: text or file -> model with every fault. No privilege. A text
 * with a fault gives no model: whoever asks gets a whole policy or none.
 */
#include "policy/policy.h"

#include <errno.h>
#include <string.h>

#include "conf/file.h"
#include "policy/context.h"
#include "policy/secrets.h"
#include "util/util.h"

static const char *const default_private[] = { "/tmp", "/dev/shm", NULL };
static const char *const default_env_pass[] = { "PATH", "HOME", "LANG", "TERM", NULL };

static void strings_free(struct policy_strings *strings)
{
	for (size_t i = 0; i < strings->n; i++)
		free(strings->v[i]);
	free(strings->v);
}

void policy_free(struct policy *policy)
{
	if (!policy)
		return;
	free(policy->name);
	free(policy->workdir);
	strings_free(&policy->private_dirs);
	strings_free(&policy->write);
	strings_free(&policy->read_deny);
	strings_free(&policy->read_allow);
	strings_free(&policy->exec_deny);
	strings_free(&policy->exec_allow);
	free(policy->gateway_unix);
	free(policy->allow);
	strings_free(&policy->unix_sockets);
	strings_free(&policy->env_pass);
	strings_free(&policy->env_set);
	strings_free(&policy->domains);
	strings_free(&policy->scopes);
	strings_free(&policy->labels);
	free(policy);
}

/* What is owned while one text is read. */
static void context_release(struct policy_context *context)
{
	policy_free(context->policy);
	free(context->uses);
	free(context->allow_marks);
	free(context->domain_marks);
}
#define _cleanup_context_ __attribute__((cleanup(context_release)))

static void node_free_p(struct conf_node **node)
{
	conf_node_free(*node);
}
#define _cleanup_node_ __attribute__((cleanup(node_free_p)))

/* A list that was not given gets its default; an empty one its terminator. */
static int strings_settle(struct policy_strings *strings, bool given, const char *const *fallback)
{
	size_t n = 0;

	if (strings->n)
		return 0;
	while (!given && fallback && fallback[n])
		n++;
	free(strings->v);
	strings->v = calloc(n + 1, sizeof(*strings->v));
	if (!strings->v)
		return -ENOMEM;
	for (; strings->n < n; strings->n++) {
		strings->v[strings->n] = strdup(fallback[strings->n]);
		if (!strings->v[strings->n])
			return -ENOMEM;
	}
	return 0;
}

static void context_settle(struct policy_context *context)
{
	struct policy *policy = context->policy;
	const struct {
		struct policy_strings *strings;
		const char *key;
		const char *const *fallback;
	} lists[] = {
		{ &policy->private_dirs, "files.private", default_private },
		{ &policy->write, "files.write", NULL },
		{ &policy->read_deny, "files.read.deny", NULL },
		{ &policy->read_allow, "files.read.allow", NULL },
		{ &policy->exec_deny, "files.exec.deny", NULL },
		{ &policy->exec_allow, "files.exec.allow", NULL },
		{ &policy->unix_sockets, "network.unix", NULL },
		{ &policy->env_pass, "env.pass", default_env_pass },
		{ &policy->env_set, "env.set", NULL },
		{ &policy->domains, "network.domains", NULL },
		{ &policy->scopes, "scopes", NULL },
		{ &policy->labels, "labels", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const struct policy_key *key = policy_key_find(lists[i].key);

		if (strings_settle(lists[i].strings, context->given[key - policy_keys],
				   lists[i].fallback) < 0)
			context->err = -ENOMEM;
	}
}

static void context_take_tree(struct policy_context *context, const struct conf_node *root)
{
	static const struct conf_mark start = { 1, 1 };

	if (root)
		policy_read_root(context, root);
	else if (conf_fault_count(context->faults) == 0)
		policy_context_fault(context, start,
				     "empty: a policy needs `cordon: 1` and `name`");
	policy_check_workdir(context, root ? root->mark : start);
	if (context->complete && !context->err)
		policy_check_all(context);
	context_settle(context);
}

int policy_parse(const char *text, size_t length, const struct policy_options *options,
		 struct policy **ret_policy, struct conf_faults *faults)
{
	_cleanup_context_ struct policy_context context = { .options = options, .faults = faults };
	_cleanup_node_ struct conf_node *root = NULL;
	int r;

	context.policy = calloc(1, sizeof(*context.policy));
	if (!context.policy)
		return -ENOMEM;
	context.policy->mode = CORDON_MODE_ENFORCE;
	context.policy->loopback = CORDON_LOOPBACK_FENCE;
	context.policy->secrets = POLICY_SECRETS_ALL;
	r = conf_node_read(text, length, faults, &root, &context.complete);
	if (r < 0)
		return r;
	context_take_tree(&context, root);
	if (context.err)
		return context.err;
	if (conf_fault_count(faults))
		return -EINVAL;
	*ret_policy = TAKE_PTR(context.policy);
	return 0;
}

int policy_load(const char *path, const struct policy_options *options, struct policy **ret_policy,
		struct conf_faults *faults)
{
	_cleanup_free_ char *text = NULL;
	size_t length;
	int r;

	r = conf_file_read(path, &text, &length);
	if (r < 0)
		return r;
	return policy_parse(text, length, options, ret_policy, faults);
}
