// SPDX-License-Identifier: Apache-2.0
/*
 * See suggest.h: proposals in the policy's text. One by one they are put in and the whole is read, judged and compiled as `cordon
 * check` does; one that it does not take, or that does not become exactly one more rule, is left out with the reason.
 */
#include <errno.h>
#include <string.h>

#include "conf/edit.h"
#include "cordon/suggest.h"

static const char *const paths[SUGGEST_KEYS_N][CONF_EDIT_DEPTH + 1] = {
	[SUGGEST_DOMAINS] = { "network", "domains" },
	[SUGGEST_ALLOW] = { "network", "allow" },
	[SUGGEST_WRITE] = { "files", "write" },
	[SUGGEST_READ] = { "files", "read", "allow" },
	[SUGGEST_SCOPES] = { "scopes" },
};

struct counts {
	size_t n[SUGGEST_KEYS_N];
};

static void counts_take(const struct policy *policy, struct counts *ret)
{
	*ret = (struct counts){ {
		[SUGGEST_DOMAINS] = policy->domains.n,
		[SUGGEST_ALLOW] = policy->n_allow,
		[SUGGEST_WRITE] = policy->write.n,
		[SUGGEST_READ] = policy->read_allow.n,
		[SUGGEST_SCOPES] = policy->scopes.n,
	} };
}

/* Does the text read as a policy with so many rules? 0, -EINVAL with the cause, or -ENOMEM. */
static int text_judge(const char *text, size_t length, const struct policy_options *options,
		      const struct counts *wanted, struct error *error)
{
	struct conf_faults faults = { .n = 0 };
	struct policy *policy = NULL;
	struct image *image = NULL;
	struct counts counts;
	int r = policy_parse(text, length, options, &policy, &faults);

	if (r == -EINVAL)
		error_set(error, EINVAL, "%s",
			  faults.n ? faults.v[0].text : "the policy is then not valid");
	if (r == 0)
		r = policy_compile(policy, &image);
	if (r == 0) {
		counts_take(policy, &counts);
		if (memcmp(&counts, wanted, sizeof(counts)) != 0)
			r = error_set(error, EINVAL,
				      "the text has a form that it does not fit into");
	} else if (r != -ENOMEM) {
		error_set(error, EINVAL, "the policy is then too large");
		r = -EINVAL;
	}
	free(image);
	policy_free(policy);
	conf_faults_clear(&faults);
	return r;
}

struct proposals {
	const struct suggest *suggest;
	struct conf_addition *v;
	char **comments; /* owned, as many */
	size_t n;
	struct counts counts;
};

static int proposal_add(struct proposals *p, const struct suggest_denied *denied)
{
	char **comment = &p->comments[p->n];

	if (asprintf(comment, "%s; %s", suggest_count(denied), denied->reach) < 0) {
		*comment = NULL;
		return -ENOMEM;
	}
	p->v[p->n] = (struct conf_addition){ .item = denied->item, .comment = *comment };
	memcpy(p->v[p->n++].path, paths[denied->key], sizeof(p->v->path));
	p->counts.n[denied->key]++;
	return 0;
}

static void proposal_drop(struct proposals *p, enum suggest_key key)
{
	free(p->comments[--p->n]);
	p->counts.n[key]--;
}

/* With this one more. 0, -EINVAL and its `why`, -ENOMEM. */
static int proposal_try(struct suggest *suggest, struct proposals *p, struct suggest_denied *denied,
			const char *text, size_t length, const struct policy_options *options)
{
	_cleanup_free_ char *made = NULL;
	struct error error = { "" };
	size_t n = 0;
	int r = proposal_add(p, denied);

	if (r < 0)
		return r;
	r = conf_edit_add(text, length, p->v, p->n, &made, &n);
	if (r == 0)
		r = text_judge(made, n, options, &p->counts, &error);
	if (r == 0)
		return 0;
	proposal_drop(p, denied->key);
	if (r == -EINVAL)
		suggest_say(suggest, &denied->why, "%s",
			    error.text[0] ? error.text
					  : "the text has a form that it does not fit into");
	return r;
}

static int proposals_make(struct suggest *suggest, struct proposals *p, const char *text,
			  size_t length, const struct policy_options *options)
{
	for (size_t i = 0; i < suggest->n; i++) {
		struct suggest_denied *denied = &suggest->v[i];

		if (denied->why || denied->key == SUGGEST_KEYS_N || !denied->item || !denied->reach)
			continue;
		if (proposal_try(suggest, p, denied, text, length, options) == -ENOMEM)
			return -ENOMEM;
	}
	return 0;
}

int suggest_text(struct suggest *suggest, const char *text, size_t length,
		 const struct policy_options *options, char **ret_text, size_t *ret_length)
{
	struct proposals p = { .suggest = suggest };
	int r = 0;

	counts_take(suggest->policy, &p.counts);
	p.v = calloc(suggest->n + 1, sizeof(*p.v));
	p.comments = calloc(suggest->n + 1, sizeof(*p.comments));
	if (!p.v || !p.comments)
		r = -ENOMEM;
	if (r == 0)
		r = proposals_make(suggest, &p, text, length, options);
	if (r == 0)
		r = conf_edit_add(text, length, p.v, p.n, ret_text, ret_length);
	for (size_t i = 0; p.comments && i < p.n; i++)
		free(p.comments[i]);
	free(p.comments);
	free(p.v);
	return r;
}
