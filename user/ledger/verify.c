// SPDX-License-Identifier: Apache-2.0
/*
 * Shows that no record was changed, removed, swapped or added: every chain is computed anew from its first record, has to
 * be without a gap, and has to end where its node's row says. Whoever can write to the store could forge a whole
 * chain; the anchor outside of it, and the hashes in the event stream, are what that is held against.
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ledger/internal.h"

struct head {
	struct head *next;
	char *node;
	struct chain chain;
	bool seen;
};

struct verification {
	struct arena arena;
	struct head *heads;
	char node[LEDGER_NAME_MAX + 1]; /* of the chain that is walked */
	struct chain last;
	bool any;
	const char *anchored;
	struct chain anchor;
	bool anchor_met;
	struct ledger_verdict *verdict;
	struct error *error;
};

static int fault(struct verification *v, const char *node, uint64_t seq, const char *what)
{
	size_t n = strnlen(node, LEDGER_NAME_MAX);

	memcpy(v->verdict->node, node, n);
	v->verdict->node[n] = '\0';
	v->verdict->seq = seq;
	return error_set(v->error, EBADMSG, "record %" PRIu64 " of node %s %s", seq, node, what);
}

static int take_node(const struct engine_row *row, void *data)
{
	struct verification *v = data;
	struct head *head = arena_take(&v->arena, sizeof(*head));

	if (!head || !(head->node = arena_string(&v->arena, row->values[0].text)))
		return error_set(v->error, ENOMEM, "ledger: no memory");
	head->next = v->heads;
	head->chain.seq = (uint64_t)row->values[1].number;
	if (head->chain.seq && !text_unhex(row->values[2].text, head->chain.hash, LEDGER_HASH_SIZE))
		return fault(v, head->node, head->chain.seq,
			     "has a damaged hash in its node's row");
	v->heads = head;
	return 0;
}

/* The chain that ends here has to end where its node says. */
static int close_chain(struct verification *v)
{
	struct head *head;

	if (!v->any)
		return 0;
	for (head = v->heads; head && strcmp(head->node, v->node) != 0;)
		head = head->next;
	if (!head)
		return fault(v, v->node, 1, "belongs to a node that is not known");
	head->seen = true;
	if (head->chain.seq > v->last.seq)
		return fault(v, v->node, v->last.seq + 1, "is missing: the chain ends before it");
	if (head->chain.seq < v->last.seq)
		return fault(v, v->node, head->chain.seq + 1, "is not one of the node's");
	if (memcmp(head->chain.hash, v->last.hash, LEDGER_HASH_SIZE) != 0)
		return fault(v, v->node, v->last.seq, "is not the one that the node wrote last");
	return 0;
}

static int take_record(const struct engine_row *row, void *data)
{
	struct verification *v = data;
	const char *node = row->values[0].text ? row->values[0].text : "";
	uint64_t seq = (uint64_t)row->values[1].number;
	uint8_t stated[LEDGER_HASH_SIZE], hash[LEDGER_HASH_SIZE];
	int err = 0;

	if (!v->any || strcmp(node, v->node) != 0) {
		err = close_chain(v);
		if (err || strlen(node) > LEDGER_NAME_MAX)
			return err ? err : -EIO;
		strcpy(v->node, node);
		v->last = (struct chain){ 0 };
		v->any = true;
		v->verdict->chains++;
	}
	v->verdict->records++;
	if (seq != v->last.seq + 1)
		return fault(v, node, v->last.seq + 1, "is missing");
	if (row->values[3].kind != ENGINE_TEXT || row->values[4].kind != ENGINE_TEXT ||
	    !text_unhex(row->values[5].text, stated, LEDGER_HASH_SIZE))
		return fault(v, node, seq, "is damaged");
	if (chain_hash(&v->last, seq, row->values[2].number, row->values[3].text,
		       row->values[4].text, hash) != 0)
		return error_set(v->error, ENOMEM, "ledger: no memory");
	if (memcmp(hash, stated, sizeof(hash)) != 0)
		return fault(v, node, seq, "was changed, or is not in its place");
	v->last.seq = seq;
	memcpy(v->last.hash, hash, sizeof(hash));
	if (v->anchor.seq == seq && strcmp(node, v->anchored) == 0) {
		v->anchor_met = true;
		if (memcmp(hash, v->anchor.hash, sizeof(hash)) != 0)
			return fault(v, node, seq, "is not the one that the anchor remembers");
	}
	return 0;
}

static int verify(struct ledger *ledger, struct verification *v)
{
	const struct engine_ops *ops = ledger->ops;
	/* One transaction, so that heads and records are of one instant; on PostgreSQL that has to be asked for. */
	int err = ops->begin(ledger->reader, false, v->error);

	if (!err && strcmp(ops->dialect, "postgresql") == 0)
		err = ops->script(ledger->reader, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
				  v->error);
	if (!err)
		err = ops->each(ledger->reader, &ledger_sql[SQL_GATEWAYS], NULL, 0, take_node, v,
				v->error);
	if (!err)
		err = ops->each(ledger->reader, &ledger_sql[SQL_RECORDS_CHAIN], NULL, 0,
				take_record, v, v->error);
	if (!err)
		err = close_chain(v);
	for (struct head *head = v->heads; head && !err; head = head->next)
		if (!head->seen && head->chain.seq)
			err = fault(v, head->node, 1, "is missing: the whole chain is");
	if (!err && v->anchor.seq && !v->anchor_met)
		err = fault(
			v, v->anchored, v->last.seq + 1,
			"is missing: the anchor remembers a later one, the store was rolled back");
	ops->rollback(ledger->reader);
	return err;
}

int ledger_verify(struct ledger *ledger, struct ledger_verdict *ret, struct error *error)
{
	struct error unused = { 0 };
	struct verification v = {
		.verdict = ret,
		.error = error ? error : &unused,
		.anchored = ledger->options.node,
	};
	int err = 0;

	*ret = (struct ledger_verdict){ 0 };
	if (ledger->anchor)
		err = anchor_read(ledger->anchor, ledger->options.node, &v.anchor, v.error);
	if (err)
		return err;
	pthread_mutex_lock(&ledger->read_mutex);
	err = verify(ledger, &v);
	if (err == -ENOTCONN && ledger->ops->reopen(ledger->reader, NULL) == 0) {
		arena_free(&v.arena);
		*ret = (struct ledger_verdict){ 0 };
		v = (struct verification){
			.verdict = ret, .error = v.error, .anchored = v.anchored, .anchor = v.anchor
		};
		v.error->text[0] = '\0';
		err = verify(ledger, &v);
	}
	pthread_mutex_unlock(&ledger->read_mutex);
	arena_free(&v.arena);
	return err < 0 ? err : 0;
}
