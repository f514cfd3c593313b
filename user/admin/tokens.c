// SPDX-License-Identifier: Apache-2.0
/* See tokens.h. In doubt there is no grant; the caller learns no more than which kind of doubt. */
#include "admin/tokens.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define NS_PER_S 1000000000LL

struct tokens {
	struct ledger *ledger;
	struct identity_source *identity;
	pthread_rwlock_t lock; /* of keys */
	struct grant_keys *keys;
};

struct tokens *tokens_new(struct ledger *ledger, struct identity_source *identity)
{
	struct tokens *t = calloc(1, sizeof(*t));

	if (t) {
		t->ledger = ledger;
		t->identity = identity;
		pthread_rwlock_init(&t->lock, NULL);
	}
	return t;
}

void tokens_free(struct tokens *t)
{
	if (!t)
		return;
	grant_keys_free(t->keys);
	pthread_rwlock_destroy(&t->lock);
	free(t);
}

void tokens_set_keys(struct tokens *t, struct grant_keys *keys)
{
	struct grant_keys *old;

	pthread_rwlock_wrlock(&t->lock);
	old = t->keys;
	t->keys = keys;
	pthread_rwlock_unlock(&t->lock);
	grant_keys_free(old);
}

/* --- judging -------------------------------------------------------------------------------------------------- */

enum ledger_code tokens_judge(struct tokens *t, const char *value, size_t size,
			      const struct identity *caller, const char *tool, const char *scope,
			      char ret_grant[LEDGER_NAME_MAX + 1], const char **ret_reason)
{
	static const char scheme[] = "Bearer ";
	const size_t n = sizeof(scheme) - 1;

	if (size < n || strncasecmp(value, scheme, n) != 0) {
		*ret_reason = "grant_form";
		return LEDGER_UNAUTHENTICATED;
	}
	return tokens_judge_token(t, value + n, size - n, caller, tool, scope, ret_grant,
				  ret_reason);
}

enum ledger_code tokens_judge_token(struct tokens *t, const char *token, size_t size,
				    const struct identity *caller, const char *tool,
				    const char *scope, char ret_grant[LEDGER_NAME_MAX + 1],
				    const char **ret_reason)
{
	struct grant_claims claims;
	enum grant_fault fault;

	pthread_rwlock_rdlock(&t->lock);
	fault = t->keys ? grant_verify(t->keys, token, size, time(NULL), caller->fence_id, &claims)
			: GRANT_KEY;
	pthread_rwlock_unlock(&t->lock);
	if (fault != GRANT_OK) {
		*ret_reason = grant_fault_name(fault);
		return LEDGER_UNAUTHENTICATED;
	}
	if (strcmp(claims.scope, scope) != 0 ||
	    (claims.tool[0] && strcmp(claims.tool, tool) != 0)) {
		*ret_reason = "another scope or tool";
		return LEDGER_GRANT_DENIED;
	}
	strcpy(ret_grant, claims.id);
	return LEDGER_OK;
}

/* --- issuing -------------------------------------------------------------------------------------------------- */

static bool fence_holds(const struct identity *fence, const char *scope)
{
	for (uint32_t i = 0; i < fence->n_scopes; i++)
		if (!strcmp(fence->scopes[i], scope))
			return true;
	return false;
}

/* Signs what the ledger keeps. */
static int token_sign(struct tokens *t, const struct ledger_grant *g,
		      char ret_token[GRANT_TOKEN_MAX + 1])
{
	struct grant_claims c = {
		.fence_id = g->fence,
		.amount_max = g->amount_max,
		.uses_max = g->uses_max,
		.issued_s = time(NULL),
		.expires_s = g->expires_ns / NS_PER_S,
	};
	int err;

	c.not_before_s = c.issued_s;
	if (snprintf(c.id, sizeof(c.id), "%s", g->id) >= (int)sizeof(c.id) ||
	    snprintf(c.scope, sizeof(c.scope), "%s", g->scope) >= (int)sizeof(c.scope) ||
	    snprintf(c.tool, sizeof(c.tool), "%s", g->tool) >= (int)sizeof(c.tool) ||
	    snprintf(c.object, sizeof(c.object), "%s", g->object) >= (int)sizeof(c.object))
		return -EINVAL;
	pthread_rwlock_rdlock(&t->lock);
	err = t->keys ? grant_sign(t->keys, &c, ret_token) : -ENOKEY;
	pthread_rwlock_unlock(&t->lock);
	return err;
}

static bool can_sign(struct tokens *t)
{
	bool can;

	pthread_rwlock_rdlock(&t->lock);
	can = t->keys && grant_keys_can_sign(t->keys);
	pthread_rwlock_unlock(&t->lock);
	return can;
}

static enum ledger_code store(struct tokens *t, const struct ledger_grant *g, const char *by,
			      struct ledger_answer *ret_answer)
{
	struct ledger_job job = { .verb = LEDGER_GRANT, .grant = g, .by = by };

	ledger_run(t->ledger, &job);
	*ret_answer = job.answer;
	return job.answer.code;
}

enum ledger_code tokens_issue(struct tokens *t, const struct identity *fence,
			      const struct tokens_terms *terms, const char *by,
			      char ret_token[GRANT_TOKEN_MAX + 1], struct ledger_grant *ret_grant,
			      char ret_id[GRANT_ID_SIZE], struct ledger_answer *ret_answer,
			      struct error *error)
{
	struct ledger_grant g = {
		.id = ret_id,
		.fence = fence->fence_id,
		.tenant = fence->tenant,
		.subject = fence->subject,
		.task = fence->task,
		.scope = terms->scope,
		.tool = terms->tool ? terms->tool : "",
		.object = terms->object ? terms->object : "",
		.amount_max = terms->amount_max,
		.uses_max = terms->uses_max,
		.expires_ns = (time(NULL) + terms->minutes * 60) * NS_PER_S,
	};
	enum ledger_code code;

	memset(ret_answer, 0, sizeof(*ret_answer));
	if (!can_sign(t)) {
		error_set(error, ENOKEY,
			  "this gateway has no signing key: give it one with `keys`");
		return LEDGER_UNAVAILABLE;
	}
	if (!fence_holds(fence, terms->scope)) {
		error_set(error, EPERM,
			  "the fence does not hold the scope %s, and a grant only narrows",
			  terms->scope);
		return LEDGER_SCOPE_DENIED;
	}
	/* Signed first: claims that cannot be signed must not be in the ledger. */
	if (grant_make_id(ret_id) || token_sign(t, &g, ret_token)) {
		error_set(error, EINVAL,
			  "these terms cannot be signed: visible ASCII without \" and \\ only");
		return LEDGER_INVALID_REQUEST;
	}
	code = store(t, &g, by, ret_answer);
	if (code != LEDGER_OK)
		error_set(error, EIO, "%s", ledger_code_info(code)->text);
	*ret_grant = g;
	return code;
}

struct find {
	struct ledger_grant grant;
	char text[8][LEDGER_OBJECT_MAX + 1];
	bool found;
};

static int on_grant(const struct ledger_grant *row, void *data)
{
	struct find *f = data;
	const char **to[] = { &f->grant.id,    &f->grant.tenant, &f->grant.subject, &f->grant.task,
			      &f->grant.scope, &f->grant.tool,	 &f->grant.object };

	f->grant = *row;
	f->found = true;
	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		snprintf(f->text[i], sizeof(f->text[i]), "%s", *to[i] ? *to[i] : "");
		*to[i] = f->text[i];
	}
	return 1;
}

enum ledger_code tokens_renew(struct tokens *t, const char *id, int64_t minutes, const char *by,
			      char ret_token[GRANT_TOKEN_MAX + 1], int64_t *ret_expires_ns,
			      struct identity *ret_fence, struct ledger_answer *ret_answer,
			      struct error *error)
{
	const struct ledger_filter filter = { .grant = id, .state = -1, .limit = 1 };
	struct find f = { .found = false };
	enum ledger_code code;
	int err;

	memset(ret_answer, 0, sizeof(*ret_answer));
	err = ledger_list_grants(t->ledger, &filter, on_grant, &f, error);
	if (err < 0)
		return LEDGER_UNAVAILABLE;
	if (!f.found) {
		error_set(error, ENOENT, "there is no such grant");
		return LEDGER_GRANT_UNKNOWN;
	}
	if (identity_find(t->identity, f.grant.fence, ret_fence)) {
		error_set(error, ENOENT, "its fence has ended, and the grant with it");
		return LEDGER_GRANT_EXPIRED;
	}
	f.grant.expires_ns = (time(NULL) + minutes * 60) * NS_PER_S;
	if (token_sign(t, &f.grant, ret_token)) {
		error_set(error, ENOKEY,
			  "this gateway has no signing key: give it one with `keys`");
		return LEDGER_UNAVAILABLE;
	}
	code = store(t, &f.grant, by, ret_answer);
	if (code != LEDGER_OK)
		error_set(error, EIO, "%s", ledger_code_info(code)->text);
	*ret_expires_ns = f.grant.expires_ns;
	return code;
}

/* --- ending --------------------------------------------------------------------------------------------------- */

struct ending {
	struct ledger_job job;
	char value[24];
};

static void ending_done(struct ledger_job *job)
{
	ledger_answer_clear(&job->answer);
	free(job->data);
}

void tokens_fence_ended(struct tokens *t, uint64_t fence_id)
{
	struct ending *e = calloc(1, sizeof(*e));

	if (!e)
		return; /* its tokens are good for nothing anyway: nobody is that fence any more */
	snprintf(e->value, sizeof(e->value), "%llu", (unsigned long long)fence_id);
	e->job = (struct ledger_job){
		.verb = LEDGER_REVOKE,
		.revoke_by = LEDGER_REVOKE_FENCE,
		.value = e->value,
		.by = "cordon-gateway",
		.reason = "the fence has ended",
		.done = ending_done,
		.data = e,
	};
	if (ledger_submit(t->ledger, &e->job))
		free(e);
}
