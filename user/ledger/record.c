// SPDX-License-Identifier: Apache-2.0
/*
 * Decision records: one a decision, allowed or not, written in the transaction that it is about, before the answer. Each
 * node's records are numbered and chained; the head of the chain is in the node's row and changes in the same
 * transaction, so a failed write moves neither. Request bodies and secrets are not in it; digests are.
 */

#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_*(): see chain/chain.c, for the same reason */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <openssl/sha.h>

#include "ledger/internal.h"

int chain_hash(const struct chain *last, uint64_t seq, int64_t time_ns, const char *task,
	       const char *body, uint8_t ret[LEDGER_HASH_SIZE])
{
	const uint64_t numbers[2] = { htole64(seq), htole64((uint64_t)time_ns) };
	SHA256_CTX sha;

	return SHA256_Init(&sha) && SHA256_Update(&sha, last->hash, sizeof(last->hash)) &&
			       SHA256_Update(&sha, numbers, sizeof(numbers)) &&
			       SHA256_Update(&sha, task, strlen(task) + 1) &&
			       SHA256_Update(&sha, body, strlen(body)) && SHA256_Final(ret, &sha)
		       ? 0
		       : -EIO;
}

static const char *const verbs[] = {
	[OP_CALL] = "call",	[OP_RECORD] = "call",	  [OP_START] = "start",
	[OP_FINISH] = "finish", [OP_APPROVE] = "approve", [OP_DENY] = "deny",
	[OP_SETTLE] = "settle", [OP_GRANT] = "grant",	  [OP_REVOKE] = "revoke",
	[OP_EXPIRE] = "expire", [OP_RECOVER] = "recover", [OP_RELEASE] = "release",
};

/* Members that are empty are left out. */
static void optional(struct text *text, const char *name, const char *value)
{
	if (value && *value)
		text_member(text, name, value);
}

static void add_terms(struct text *text, const struct ledger_grant *grant)
{
	if (grant->amount_max != LEDGER_NO_LIMIT)
		text_member_number(text, "amount_max", grant->amount_max);
	if (grant->uses_max != LEDGER_NO_LIMIT)
		text_member_number(text, "uses_max", grant->uses_max);
	text_member_number(text, "expires_ns", grant->expires_ns);
}

static void write_body(struct batch *batch, const struct op *op, uint64_t seq, struct text *text)
{
	const struct ledger_job *job = op->job;
	int64_t id = op->id;

	text_puts(text, "{");
	text_member(text, "node", batch->ledger->options.node);
	text_member_number(text, "seq", (int64_t)seq);
	text_member_number(text, "time_ns", batch->now_ns);
	text_member(text, "verb", verbs[op->kind]);
	text_member(text, "code", ledger_code_info(op->code)->name);
	if (op->state != LEDGER_STATE_NONE)
		text_member(text, "state", ledger_state_name(op->state));
	if (id)
		text_member_number(text, "call", id);
	if (op->fence)
		text_member_number(text, "fence", (int64_t)op->fence);
	optional(text, "tenant", op->tenant);
	optional(text, "subject", op->subject);
	optional(text, "task", op->task);
	optional(text, "tool", op->tool_name);
	optional(text, "scope", op->scope);
	optional(text, "grant", op->grant_id);
	optional(text, "object", op->object);
	if (op->amount)
		text_member_number(text, "amount", op->amount);
	optional(text, "key", op->key);
	optional(text, "digest", op->digest);
	optional(text, "approval", op->approval_id);
	if (job && (op->kind == OP_CALL || op->kind == OP_RECORD)) {
		optional(text, "stated_tenant", job->call.stated_tenant);
		optional(text, "method", job->call.method);
		optional(text, "route", job->call.route);
	}
	if (job && op->kind == OP_GRANT)
		add_terms(text, job->grant);
	if (job && op->kind == OP_REVOKE) {
		static const char *const by[] = { "id", "task", "subject", "fence" };

		text_member(text, "revoked_by", by[job->revoke_by]);
		text_member(text, "value", job->value);
		text_member_number(text, "count", op->count);
	}
	if (job) {
		optional(text, "by", job->by);
		optional(text, "reason", job->reason);
	}
	text_puts(text, "}");
}

int record_add(struct batch *batch, struct op *op)
{
	struct text body = { .arena = batch->arena };
	char hash[2 * LEDGER_HASH_SIZE + 1];
	const char *task = op->task ? op->task : "", *hash_text;
	uint64_t seq = batch->chain.seq + 1;

	write_body(batch, op, seq, &body);
	if (body.failed ||
	    chain_hash(&batch->chain, seq, batch->now_ns, task, body.data, op->record_hash) != 0)
		return -ENOMEM;
	text_hex(op->record_hash, LEDGER_HASH_SIZE, hash);
	hash_text = arena_string(batch->arena, hash);
	if (!hash_text)
		return -ENOMEM;
	op->record_seq = batch->chain.seq = seq;
	memcpy(batch->chain.hash, op->record_hash, LEDGER_HASH_SIZE);
	STEP(batch, &batch->writes, RECORD_INSERT, T(batch->ledger->options.node), N((int64_t)seq),
	     N(batch->now_ns), T(task), T(body.data), T(hash_text));
	return 0;
}
