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
 * X(enum, name, HTTP status, retry, text, ask). A status of 0 is never shown to a caller. ask: whom a human can be asked to
 * help, and with what; NULL: nobody has to be asked. The texts name no database, no table, no other tenant, no address.
 */
#define LEDGER_CODES(X)                                                                            \
	X(OK, "ok", 200, "none", "done", NULL)                                                     \
	X(DUPLICATE, "duplicate", 200, "none",                                                     \
	  "this key was used before; this is its first result", NULL)                              \
	X(PENDING_APPROVAL, "pending_approval", 202, "same_key", "need_human_approval",            \
	  "a human was asked; GET /approvals/ID tells what became of it")                          \
	X(EXECUTE, "execute", 0, "none", "reserved; the caller of the library runs the executor",  \
	  NULL)                                                                                    \
	X(MALFORMED_REQUEST, "malformed_request", 400, "changed", "the request cannot be parsed",  \
	  NULL)                                                                                    \
	X(AMOUNT_OVERFLOW, "amount_overflow", 400, "never", "the amount cannot be counted", NULL)  \
	X(UNAUTHENTICATED, "unauthenticated", 401, "never", "the caller is not known",             \
	  "an operator can say why this caller is no fence that this node knows")                  \
	X(TENANT_MISMATCH, "tenant_mismatch", 403, "never",                                        \
	  "the stated tenant is not the caller's", "an operator can start a task for that tenant") \
	X(SCOPE_DENIED, "scope_denied", 403, "never", "the caller does not hold the scope",        \
	  "an operator can add the scope to `scopes` of the policy, or issue another grant")       \
	X(OBJECT_NOT_IN_TENANT, "object_not_in_tenant", 403, "never",                              \
	  "the object belongs to another tenant",                                                  \
	  "an operator can start a task for the tenant that owns the object")                      \
	X(APPROVAL_DENIED, "approval_denied", 403, "never", "a human denied this call",            \
	  "who denied it can say why; the same action under a new key asks again")                 \
	X(APPROVAL_EXPIRED, "approval_expired", 403, "never", "nobody approved this call in time", \
	  "the same action under a new key asks again")                                            \
	X(APPROVER_IS_CALLER, "approver_is_caller", 403, "never",                                  \
	  "nobody approves a call made on their own behalf", "another approver can decide")        \
	X(GRANT_UNKNOWN, "grant_unknown", 403, "never", "the grant is not known here",             \
	  "an operator can issue another grant: cordon grants issue")                              \
	X(GRANT_DENIED, "grant_denied", 403, "never", "the grant does not cover this call",        \
	  "an operator can issue another grant: cordon grants issue")                              \
	X(GRANT_EXPIRED, "grant_expired", 403, "never", "the grant has expired",                   \
	  "an operator can renew the grant: cordon grants renew")                                  \
	X(GRANT_EXHAUSTED, "grant_exhausted", 403, "never", "the grant is used up",                \
	  "an operator can issue another grant: cordon grants issue")                              \
	X(GRANT_REVOKED, "grant_revoked", 403, "never", "the grant was revoked",                   \
	  "an operator can issue another grant: cordon grants issue")                              \
	X(DOMAIN_DENIED, "domain_denied", 403, "never",                                            \
	  "no rule of network.domains has this name",                                              \
	  "an operator can add the name to network.domains of the policy")                         \
	X(PORT_DENIED, "port_denied", 403, "never",                                                \
	  "network.domains has this name, but not with this port",                                 \
	  "an operator can add the port to the name in network.domains of the policy")             \
	X(ADDRESS_DENIED, "address_denied", 403, "never",                                          \
	  "the name leads to an address that is not to be reached",                                \
	  "an operator can open the address in network.allow of the policy, unless it is "         \
	  "metadata")                                                                              \
	X(HOST_MISMATCH, "host_mismatch", 403, "never",                                            \
	  "the request names another host than the one that it was sent for", NULL)                \
	X(UPLOAD_EXHAUSTED, "upload_exhausted", 403, "never",                                      \
	  "the fence has sent as much as limits.upload allows",                                    \
	  "an operator can raise limits.upload of the policy")                                     \
	X(CREDENTIAL_EXHAUSTED, "credential_exhausted", 403, "never",                              \
	  "the fence has used the upstream's credential as often, or for as long, as it may",      \
	  "an operator can raise uses or lifetime of the upstream's credential, or start another " \
	  "task")                                                                                  \
	X(PLACEHOLDER_SEEN, "placeholder_seen", 403, "never",                                      \
	  "the request holds a placeholder for a credential, which goes nowhere",                  \
	  "an operator can tell through which upstream the credential is used")                    \
	X(OBJECT_NOT_FOUND, "object_not_found", 404, "changed", "there is no such object", NULL)   \
	X(APPROVAL_NOT_FOUND, "approval_not_found", 404, "never", "there is no such approval",     \
	  NULL)                                                                                    \
	X(CALL_NOT_FOUND, "call_not_found", 404, "never", "there is no such call", NULL)           \
	X(TOOL_UNKNOWN, "tool_unknown", 404, "never", "no such tool is configured",                \
	  "an operator can declare the tool in the configuration of the gateway")                  \
	X(KEY_IN_FLIGHT, "key_in_flight", 409, "same_key", "a call with this key is under way",    \
	  NULL)                                                                                    \
	X(KEY_USED, "key_used", 409, "never",                                                      \
	  "this key, or this grant, has had its one use; what was answered then is not kept",      \
	  NULL)                                                                                    \
	X(OUTCOME_AMBIGUOUS, "outcome_ambiguous", 409, "same_key",                                 \
	  "whether the call had its effect is not known; an operator settles it",                  \
	  "an operator can find out and settle the call: cordon ledger settle")                    \
	X(APPROVAL_NOT_PENDING, "approval_not_pending", 409, "never", "this was decided before",   \
	  NULL)                                                                                    \
	X(CALL_NOT_IN_STATE, "call_not_in_state", 409, "never",                                    \
	  "the call is in another state, where this step does not exist", NULL)                    \
	X(AMOUNT_OUT_OF_RANGE, "amount_out_of_range", 422, "changed",                              \
	  "the amount is not positive or more than remains", NULL)                                 \
	X(KEY_REUSED_WITH_OTHER_BODY, "key_reused_with_other_body", 422, "changed",                \
	  "this key belongs to another request; use a new key", NULL)                              \
	X(INVALID_REQUEST, "invalid_request", 422, "changed", "the request does not fit the tool", \
	  NULL)                                                                                    \
	X(EXECUTION_REFUSED, "execution_refused", 422, "changed",                                  \
	  "the action does not apply to the object as it is now; nothing was done", NULL)          \
	X(QUOTA_SINGLE, "quota_single", 429, "changed", "more than one call may move",             \
	  "an operator can raise the tool's limits.single, or have it ask a human (over: "         \
	  "approve)")                                                                              \
	X(QUOTA_DAILY, "quota_daily", 429, "same_key", "more than is left of today's quota",       \
	  "an operator can raise the tool's limits.daily, or have it ask a human (over: approve)") \
	X(EXECUTION_FAILED, "execution_failed", 502, "same_key",                                   \
	  "the action failed; nothing was done", "an operator, if it stays so")                    \
	X(UNAVAILABLE, "unavailable", 503, "same_key",                                             \
	  "the decision cannot be recorded; nothing was done",                                     \
	  "an operator, if it stays so: /health and the gateway's log say more")                   \
	X(COMMIT_UNKNOWN, "commit_unknown", 503, "same_key",                                       \
	  "the store went away while recording; repeat with the same key to learn the outcome",    \
	  "an operator, if it stays so: /health and the gateway's log say more")                   \
	X(OVERLOADED, "overloaded", 503, "same_key", "too many calls at once; nothing was done",   \
	  "an operator, if it stays so: the limits of the gateway can be raised")                  \
	X(RATE_LIMITED, "rate_limited", 429, "same_key",                                           \
	  "more requests than this caller may make in a second; nothing was done",                 \
	  "an operator, if it stays so: limits.rate of the gateway can be raised")                 \
	X(TUNNELS_EXHAUSTED, "tunnels_exhausted", 429, "same_key",                                 \
	  "the fence has as many connections through the proxy as it may",                         \
	  "an operator, if it stays so: limits.tunnels of the gateway can be raised")              \
	X(NAME_NOT_RESOLVED, "name_not_resolved", 502, "same_key",                                 \
	  "the name has no address, or no resolver answered", "an operator, if it stays so")       \
	X(UPSTREAM_UNREACHABLE, "upstream_unreachable", 502, "same_key",                           \
	  "none of the name's addresses answered", "an operator, if it stays so")                  \
	X(NOT_FOUND, "not_found", 404, "never", "no such path; GET /tools lists the tools", NULL)  \
	X(METHOD_NOT_ALLOWED, "method_not_allowed", 405, "changed",                                \
	  "this path is not used by that method", NULL)                                            \
	X(NOT_ACCEPTABLE, "not_acceptable", 406, "changed", "answers are application/json", NULL)  \
	X(ORIGIN_REFUSED, "origin_refused", 403, "changed",                                        \
	  "requests that state an Origin are refused", NULL)                                       \
	X(REQUEST_TIMEOUT, "request_timeout", 408, "changed", "the request did not come in time",  \
	  NULL)                                                                                    \
	X(LENGTH_REQUIRED, "length_required", 411, "changed", "a body needs a Content-Length",     \
	  NULL)                                                                                    \
	X(BODY_TOO_LARGE, "body_too_large", 413, "changed", "the body is too long", NULL)          \
	X(EXPECTATION_FAILED, "expectation_failed", 417, "changed",                                \
	  "nothing but 100-continue can be expected", NULL)                                        \
	X(HEADERS_TOO_LARGE, "headers_too_large", 431, "changed",                                  \
	  "the head of the request is too long", NULL)                                             \
	X(VERSION_NOT_SUPPORTED, "version_not_supported", 505, "changed",                          \
	  "HTTP/1.1 and HTTP/1.0 are spoken here", NULL)                                           \
	X(LABEL_DENIED, "label_denied", 403, "never",                                              \
	  "below its rule of network.domains the name is longer or more random than names are",    \
	  "an operator can add the very name to network.domains of the policy")                    \
	X(QUERY_DENIED, "query_denied", 403, "changed",                                            \
	  "of a name only addresses and aliases are answered (A, AAAA, CNAME)", NULL)              \
	X(NAMES_EXHAUSTED, "names_exhausted", 429, "same_key",                                     \
	  "the fence has asked for as many new names below rules with `*.` as it may for now",     \
	  "an operator can raise limits.dns_names of the gateway")

enum ledger_code {
#define X(id, name, status, retry, text, ask) LEDGER_##id,
	LEDGER_CODES(X)
#undef X
		LEDGER_CODES_N
};

/* The row of a code; never NULL (an unknown number gives the row of `unavailable`). */
struct ledger_code_info {
	const char *name;
	const char *retry;
	const char *text;
	const char *ask; /* or NULL */
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
