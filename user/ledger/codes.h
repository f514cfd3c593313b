/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of the ledger: what a call can be answered, which states it can be in and which steps lead from one to
 * another. These tables are the single source of enums, HTTP status, texts, docs, and of the table that the Promela
 * model (tests/model/ledger.pml) is held against.
 */
#ifndef CORDON_LEDGER_CODES_H
#define CORDON_LEDGER_CODES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Retry, as it is told to the caller:
 *   never      this request will not succeed, whatever the caller does
 *   changed    not as it is; a corrected request may (same key, or another where the text says so)
 *   same_key   the very same request with the same key, later
 *   none       there is nothing to retry
 *
 * X(enum, name, HTTP status, retry, text). A status of 0 is never shown to a caller. The texts name no database, no
 * table, no other tenant.
 */
#define LEDGER_CODES(X)                                                                            \
	X(OK, "ok", 200, "none", "done")                                                           \
	X(DUPLICATE, "duplicate", 200, "none",                                                     \
	  "this key was used before; this is its first result")                                    \
	X(PENDING_APPROVAL, "pending_approval", 202, "same_key", "need_human_approval")            \
	X(EXECUTE, "execute", 0, "none", "reserved; the caller of the library runs the executor")  \
	X(MALFORMED_REQUEST, "malformed_request", 400, "changed", "the request cannot be parsed")  \
	X(AMOUNT_OVERFLOW, "amount_overflow", 400, "never", "the amount cannot be counted")        \
	X(UNAUTHENTICATED, "unauthenticated", 401, "never", "the caller is not known")             \
	X(TENANT_MISMATCH, "tenant_mismatch", 403, "never",                                        \
	  "the stated tenant is not the caller's")                                                 \
	X(SCOPE_DENIED, "scope_denied", 403, "never", "the caller does not hold the scope")        \
	X(OBJECT_NOT_IN_TENANT, "object_not_in_tenant", 403, "never",                              \
	  "the object belongs to another tenant")                                                  \
	X(APPROVAL_DENIED, "approval_denied", 403, "never", "a human denied this call")            \
	X(APPROVAL_EXPIRED, "approval_expired", 403, "never", "nobody approved this call in time") \
	X(APPROVER_IS_CALLER, "approver_is_caller", 403, "never",                                  \
	  "nobody approves a call made on their own behalf")                                       \
	X(GRANT_UNKNOWN, "grant_unknown", 403, "never", "the grant is not known here")             \
	X(GRANT_DENIED, "grant_denied", 403, "never", "the grant does not cover this call")        \
	X(GRANT_EXPIRED, "grant_expired", 403, "never", "the grant has expired")                   \
	X(GRANT_EXHAUSTED, "grant_exhausted", 403, "never", "the grant is used up")                \
	X(GRANT_REVOKED, "grant_revoked", 403, "never", "the grant was revoked")                   \
	X(DOMAIN_DENIED, "domain_denied", 403, "never",                                            \
	  "no rule of network.domains has this name")                                              \
	X(PORT_DENIED, "port_denied", 403, "never",                                                \
	  "network.domains has this name, but not with this port")                                 \
	X(ADDRESS_DENIED, "address_denied", 403, "never",                                          \
	  "the name leads to an address that is not to be reached")                                \
	X(HOST_MISMATCH, "host_mismatch", 403, "never",                                            \
	  "the request names another host than the one that it was sent for")                      \
	X(UPLOAD_EXHAUSTED, "upload_exhausted", 403, "never",                                      \
	  "the fence has sent as much as limits.upload allows")                                    \
	X(CREDENTIAL_EXHAUSTED, "credential_exhausted", 403, "never",                              \
	  "the fence has used the upstream's credential as often, or for as long, as it may")      \
	X(PLACEHOLDER_SEEN, "placeholder_seen", 403, "never",                                      \
	  "the request holds a placeholder for a credential, which goes nowhere")                  \
	X(OBJECT_NOT_FOUND, "object_not_found", 404, "changed", "there is no such object")         \
	X(APPROVAL_NOT_FOUND, "approval_not_found", 404, "never", "there is no such approval")     \
	X(CALL_NOT_FOUND, "call_not_found", 404, "never", "there is no such call")                 \
	X(TOOL_UNKNOWN, "tool_unknown", 404, "never", "no such tool is configured")                \
	X(KEY_IN_FLIGHT, "key_in_flight", 409, "same_key", "a call with this key is under way")    \
	X(KEY_USED, "key_used", 409, "never",                                                      \
	  "this key, or this grant, has had its one use; what was answered then is not kept")      \
	X(OUTCOME_AMBIGUOUS, "outcome_ambiguous", 409, "same_key",                                 \
	  "whether the call had its effect is not known; an operator settles it")                  \
	X(APPROVAL_NOT_PENDING, "approval_not_pending", 409, "never", "this was decided before")   \
	X(CALL_NOT_IN_STATE, "call_not_in_state", 409, "never",                                    \
	  "the call is in another state, where this step does not exist")                          \
	X(AMOUNT_OUT_OF_RANGE, "amount_out_of_range", 422, "changed",                              \
	  "the amount is not positive or more than remains")                                       \
	X(KEY_REUSED_WITH_OTHER_BODY, "key_reused_with_other_body", 422, "changed",                \
	  "this key belongs to another request; use a new key")                                    \
	X(INVALID_REQUEST, "invalid_request", 422, "changed", "the request does not fit the tool") \
	X(EXECUTION_REFUSED, "execution_refused", 422, "changed",                                  \
	  "the action does not apply to the object as it is now; nothing was done")                \
	X(QUOTA_SINGLE, "quota_single", 429, "changed", "more than one call may move")             \
	X(QUOTA_DAILY, "quota_daily", 429, "same_key", "more than is left of today's quota")       \
	X(EXECUTION_FAILED, "execution_failed", 502, "same_key",                                   \
	  "the action failed; nothing was done")                                                   \
	X(UNAVAILABLE, "unavailable", 503, "same_key",                                             \
	  "the decision cannot be recorded; nothing was done")                                     \
	X(COMMIT_UNKNOWN, "commit_unknown", 503, "same_key",                                       \
	  "the store went away while recording; repeat with the same key to learn the outcome")    \
	X(OVERLOADED, "overloaded", 503, "same_key", "too many calls at once; nothing was done")   \
	X(RATE_LIMITED, "rate_limited", 429, "same_key",                                           \
	  "more requests than this caller may make in a second; nothing was done")                 \
	X(TUNNELS_EXHAUSTED, "tunnels_exhausted", 429, "same_key",                                 \
	  "the fence has as many connections through the proxy as it may")                         \
	X(NAME_NOT_RESOLVED, "name_not_resolved", 502, "same_key",                                 \
	  "the name has no address, or no resolver answered")                                      \
	X(UPSTREAM_UNREACHABLE, "upstream_unreachable", 502, "same_key",                           \
	  "none of the name's addresses answered")

enum ledger_code {
#define X(id, name, status, retry, text) LEDGER_##id,
	LEDGER_CODES(X)
#undef X
		LEDGER_CODES_N
};

/* The row of a code; never NULL (an unknown number gives the row of `unavailable`). */
struct ledger_code_info {
	const char *name;
	const char *retry;
	const char *text;
	int http_status;
};
const struct ledger_code_info *ledger_code_info(enum ledger_code code);

/*
 * States of a call that has a key. X(enum, name, counts, final)
 *   counts: its amount is held against the daily limit, the object and the grant
 *   final:  no step leads on, but for a retry of what had no effect
 * NONE stands for "no such row". What the sql executor does happens inside one transaction, so that RESERVED and
 * EXECUTING are never seen on disk for it.
 */
#define LEDGER_STATES(X)                         \
	X(NONE, "none", false, true)             \
	X(RESERVED, "reserved", true, false)     \
	X(HELD, "pending_approval", true, false) \
	X(EXECUTING, "executing", true, false)   \
	X(DONE, "done", true, true)              \
	X(FAILED, "failed", false, true)         \
	X(AMBIGUOUS, "ambiguous", true, false)   \
	X(DENIED, "denied", false, true)         \
	X(EXPIRED, "expired", false, true)       \
	X(REFUSED, "refused", false, true)

enum ledger_state {
#define X(id, name, counts, final) LEDGER_STATE_##id,
	LEDGER_STATES(X)
#undef X
		LEDGER_STATES_N
};

/*
 * Every step that exists: X(from, step, to, effect). effect: this step is the one effect of the call, or the instant from
 * which on it may happen. There are no other steps; the store refuses to write one.
 *   submit   a call was decided              start    the upstream request is about to leave
 *   finish   the upstream's answer is known  recover  its gateway died
 *   approve/deny/expire/refuse  the approval (refuse: it was approved, but limits and facts no longer allow it)
 *   settle   an operator found out
 */
#define LEDGER_STEPS(X)                         \
	X(NONE, SUBMIT, RESERVED, false)        \
	X(NONE, SUBMIT, HELD, false)            \
	X(NONE, SUBMIT, EXECUTING, true)        \
	X(NONE, SUBMIT, DONE, true)             \
	X(FAILED, SUBMIT, RESERVED, false)      \
	X(FAILED, SUBMIT, HELD, false)          \
	X(FAILED, SUBMIT, EXECUTING, true)      \
	X(FAILED, SUBMIT, DONE, true)           \
	X(RESERVED, START, EXECUTING, true)     \
	X(RESERVED, FINISH, FAILED, false)      \
	X(RESERVED, RECOVER, FAILED, false)     \
	X(EXECUTING, FINISH, DONE, false)       \
	X(EXECUTING, FINISH, FAILED, false)     \
	X(EXECUTING, FINISH, AMBIGUOUS, false)  \
	X(EXECUTING, RECOVER, AMBIGUOUS, false) \
	X(AMBIGUOUS, FINISH, DONE, false)       \
	X(AMBIGUOUS, FINISH, FAILED, false)     \
	X(AMBIGUOUS, SETTLE, DONE, false)       \
	X(AMBIGUOUS, SETTLE, FAILED, false)     \
	X(HELD, APPROVE, EXECUTING, true)       \
	X(HELD, APPROVE, DONE, true)            \
	X(HELD, APPROVE, FAILED, false)         \
	X(HELD, REFUSE, REFUSED, false)         \
	X(HELD, DENY, DENIED, false)            \
	X(HELD, EXPIRE, EXPIRED, false)

enum ledger_step {
	LEDGER_STEP_SUBMIT,
	LEDGER_STEP_START,
	LEDGER_STEP_FINISH,
	LEDGER_STEP_RECOVER,
	LEDGER_STEP_APPROVE,
	LEDGER_STEP_REFUSE,
	LEDGER_STEP_DENY,
	LEDGER_STEP_EXPIRE,
	LEDGER_STEP_SETTLE,
	LEDGER_STEPS_N
};

/* Name of a state ("unknown" for a number outside); state of a name, or -1. */
const char *ledger_state_name(enum ledger_state state);
int ledger_state_parse(const char *name);
/* Whether a call in that state holds its amount, and whether anything can still happen to it. */
bool ledger_state_counts(enum ledger_state state);
bool ledger_state_final(enum ledger_state state);
const char *ledger_step_name(enum ledger_step step);
/* Whether LEDGER_STEPS has that row. */
bool ledger_step_allowed(enum ledger_state from, enum ledger_step step, enum ledger_state to);

#endif
