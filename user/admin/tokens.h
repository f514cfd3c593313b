/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants of a gateway: tokens on one side, what the ledger keeps of them on the other. A grant narrows what its fence
 * may do anyway, and lives no longer than the fence.
 */
#ifndef CORDON_ADMIN_TOKENS_H
#define CORDON_ADMIN_TOKENS_H

#include "grant/grant.h"
#include "identity/identity.h"
#include "ledger/ledger.h"

struct tokens;

/* ledger and identity are borrowed. NULL when memory ends. */
struct tokens *tokens_new(struct ledger *ledger, struct identity_source *identity);
void tokens_free(struct tokens *tokens); /* takes NULL */

/* The keys from now on (taken over; NULL: none). At start and at every reload, while calls are judged. */
void tokens_set_keys(struct tokens *tokens, struct grant_keys *keys);

/*
 * Judges the value of an Authorization header for a call of that tool and scope. LEDGER_OK and the grant's id for
 * ledger_call.grant - the ledger judges uses, amount, object, expiry and revocation -, else the code of the refusal and
 * why (constant text). Any thread; does not block.
 */
enum ledger_code tokens_judge(struct tokens *tokens, const char *value, size_t size,
			      const struct identity *caller, const char *tool, const char *scope,
			      char ret_grant[LEDGER_NAME_MAX + 1], const char **ret_reason);

/* The same of the token alone. */
enum ledger_code tokens_judge_token(struct tokens *tokens, const char *token, size_t size,
				    const struct identity *caller, const char *tool,
				    const char *scope, char ret_grant[LEDGER_NAME_MAX + 1],
				    const char **ret_reason);

/* What a new grant is to be. */
struct tokens_terms {
	const char *scope, *tool, *object; /* tool and object may be NULL: every */
	int64_t amount_max, uses_max;	   /* GRANT_NO_LIMIT: none */
	int64_t minutes;
};

/*
 * Issues a grant to a living fence: durable in the ledger before the token exists. LEDGER_OK; LEDGER_SCOPE_DENIED: the
 * fence does not hold the scope; LEDGER_UNAVAILABLE, LEDGER_INVALID_REQUEST, with error. Blocks. ret_answer is to be
 * cleared (ledger_answer_clear) in every case.
 */
enum ledger_code tokens_issue(struct tokens *tokens, const struct identity *fence,
			      const struct tokens_terms *terms, const char *by,
			      char ret_token[GRANT_TOKEN_MAX + 1], struct ledger_grant *ret_grant,
			      char ret_id[GRANT_ID_SIZE], struct ledger_answer *ret_answer,
			      struct error *error);

/* A later end for a grant that is neither revoked nor expired, and a new token for it. As tokens_issue(). */
enum ledger_code tokens_renew(struct tokens *tokens, const char *id, int64_t minutes,
			      const char *by, char ret_token[GRANT_TOKEN_MAX + 1],
			      int64_t *ret_expires_ns, struct identity *ret_fence,
			      struct ledger_answer *ret_answer, struct error *error);

/* The fence has ended: its grants are revoked, in the background. Any thread. */
void tokens_fence_ended(struct tokens *tokens, uint64_t fence_id);

#endif
