/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to an upstream, with the credential that only the gateway has. Blocks: for pools.
 *
 * Whether something happened there decides what the call becomes: `failed` only where nothing can have
 * happened (nothing was sent, or the upstream refused it with 4xx), `done` with 2xx, and `ambiguous` for
 * all that lies between. Nothing is sent twice: no redirect, no retry, no connection that was used before.
 */
#ifndef CORDON_GATEWAY_UPSTREAM_H
#define CORDON_GATEWAY_UPSTREAM_H

#include "gateway/gateway.h"

#define UPSTREAM_ANSWER_MAX \
	(256 * 1024) /* bytes of an upstream's answer; beyond: its result is {} */

struct upstream_answer {
	enum ledger_state outcome; /* DONE, FAILED or AMBIGUOUS */
	long status;		   /* of HTTP; 0: none came */
	char *result; /* of DONE: the tool's result fields as a JSON object; to be freed */
};

/* Once, before threads start. */
int upstream_init(void);

/* Sends body (JSON) for a tool with executor http. call: the ledger's number of the call. */
void upstream_send(const struct tool *tool, int64_t call, const char *body,
		   struct upstream_answer *ret_answer);

/*
 * Sends and settles: writes the outcome into the ledger, for as long as that takes within a minute. Returns
 * what the caller is to be told. *ret_finish is the answer of LEDGER_FINISH, *ret_status the upstream's.
 */
enum ledger_code upstream_execute(struct gateway *gateway, const struct tool *tool, int64_t call,
				  const char *body, struct ledger_answer *ret_finish,
				  char **ret_result, long *ret_status);

/* Writes what came of a call into the ledger, for as long as that takes within a minute. Returns the ledger's answer. Blocks. */
enum ledger_code upstream_settle(struct gateway *gateway, int64_t call,
				 const struct upstream_answer *answer,
				 struct ledger_answer *ret_finish);

/*
 * For a call that nothing was sent of and nothing will be: settles it as failed, so that its key can be used again. Blocks;
 * LEDGER_OVERLOADED, or COMMIT_UNKNOWN when that could not be written. *ret_finish as of upstream_execute().
 */
enum ledger_code upstream_give_up(struct gateway *gateway, int64_t call,
				  struct ledger_answer *ret_finish);

#endif
