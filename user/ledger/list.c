// SPDX-License-Identifier: Apache-2.0
/* Reading for people: calls, approvals, grants, records. On a connection of its own; a lost one is made anew once. */

#include <errno.h>
#include <string.h>

#include "ledger/internal.h"

#define LIMIT_DEFAULT 1000

struct walk {
	int (*call)(const struct ledger_call_row *row, void *data);
	int (*approval)(const struct ledger_approval_row *row, void *data);
	int (*grant)(const struct ledger_grant *row, void *data);
	int (*record)(const struct ledger_record_row *row, void *data);
	void *data;
	bool any; /* rows were given out: a second try would give them twice */
};

static void to_public(const struct call_row *row, uint8_t *digest, struct ledger_call_row *ret)
{
	text_unhex(row->digest, digest, LEDGER_DIGEST_SIZE);
	*ret = (struct ledger_call_row){
		.id = row->id,
		.fence = row->fence,
		.tenant = row->tenant,
		.subject = row->subject,
		.task = row->task,
		.tool = row->tool,
		.grant = row->grant,
		.key = row->key,
		.object = row->object,
		.node = row->node,
		.approval = row->approval,
		.result = row->result,
		.state = row->state,
		.code = row->code,
		.amount = row->amount,
		.created_ns = row->created_ns,
		.updated_ns = row->updated_ns,
		.digest = digest,
	};
}

static int give_call(const struct engine_row *row, void *data)
{
	struct walk *walk = data;
	uint8_t digest[LEDGER_DIGEST_SIZE] = { 0 };
	struct ledger_call_row out;
	struct call_row in;

	walk->any = true;
	if (row_call(row, 0, &in) != 0)
		return -EIO;
	to_public(&in, digest, &out);
	return walk->call(&out, walk->data);
}

static int give_approval(const struct engine_row *row, void *data)
{
	struct walk *walk = data;
	uint8_t digest[LEDGER_DIGEST_SIZE] = { 0 };
	struct ledger_approval_row out;
	struct approval_row in;

	walk->any = true;
	if (row_approval(row, &in) != 0)
		return -EIO;
	out = (struct ledger_approval_row){
		.id = in.id,
		.state = in.state,
		.by = in.by,
		.reason = in.reason,
		.created_ns = in.created_ns,
		.expires_ns = in.expires_ns,
		.decided_ns = in.decided_ns,
	};
	to_public(&in.call, digest, &out.call);
	return walk->approval(&out, walk->data);
}

static int give_grant(const struct engine_row *row, void *data)
{
	struct walk *walk = data;
	struct ledger_grant out = { 0 };

	walk->any = true;
	return row_grant(row, &out) ? -EIO : walk->grant(&out, walk->data);
}

static int give_record(const struct engine_row *row, void *data)
{
	struct walk *walk = data;
	struct ledger_record_row out = {
		.node = row->values[0].text,
		.seq = (uint64_t)row->values[1].number,
		.time_ns = row->values[2].number,
		.task = row->values[3].text,
		.body = row->values[4].text,
	};

	walk->any = true;
	if (!text_unhex(row->values[5].text, out.hash, LEDGER_HASH_SIZE))
		return -EIO;
	return walk->record(&out, walk->data);
}

static int read_rows(struct ledger *ledger, enum ledger_sql sql, const struct engine_value *values,
		     unsigned int n, int (*fn)(const struct engine_row *row, void *data),
		     struct walk *walk, struct error *error)
{
	struct error first = { 0 };
	int err;

	pthread_mutex_lock(&ledger->read_mutex);
	for (int tries = 0;; tries++) {
		first.text[0] = '\0';
		err = ledger->ops->begin(ledger->reader, false, &first);
		if (!err)
			err = ledger->ops->each(ledger->reader, &ledger_sql[sql], values, n, fn,
						walk, &first);
		ledger->ops->rollback(ledger->reader);
		if (err != -ENOTCONN || walk->any || tries ||
		    ledger->ops->reopen(ledger->reader, &first) != 0)
			break;
	}
	pthread_mutex_unlock(&ledger->read_mutex);
	if (err < 0)
		error_set(error, -err, "%s",
			  *first.text ? first.text
				      : "ledger: a row is not what this program wrote");
	return err;
}

static int64_t limit_of(const struct ledger_filter *filter)
{
	return filter->limit ? filter->limit : LIMIT_DEFAULT;
}

int ledger_list_calls(struct ledger *ledger, const struct ledger_filter *filter,
		      int (*fn)(const struct ledger_call_row *row, void *data), void *data,
		      struct error *error)
{
	struct walk walk = { .call = fn, .data = data };
	const char *state =
		filter->state < 0 ? "" : ledger_state_name((enum ledger_state)filter->state);
	const struct engine_value values[] = {
		N(filter->id),
		N(filter->id),
		T(filter->key),
		T(filter->key),
		T(filter->task),
		T(filter->task),
		T(filter->tenant),
		T(filter->tenant),
		T(state),
		T(state),
		N(filter->before_id),
		N(filter->before_id),
		N(filter->before_id),
		N(filter->before_id),
		N(limit_of(filter)),
	};

	return read_rows(ledger, SQL_CALLS_LIST, values, ARRAY_SIZE(values), give_call, &walk,
			 error);
}

int ledger_list_approvals(struct ledger *ledger, const struct ledger_filter *filter,
			  int (*fn)(const struct ledger_approval_row *row, void *data), void *data,
			  struct error *error)
{
	struct walk walk = { .approval = fn, .data = data };
	const struct engine_value values[] = {
		T(filter->approval), T(filter->approval), N(filter->pending), T(filter->task),
		T(filter->task),     T(filter->tenant),	  T(filter->tenant),  N(limit_of(filter)),
	};

	return read_rows(ledger, SQL_APPROVALS_LIST, values, ARRAY_SIZE(values), give_approval,
			 &walk, error);
}

int ledger_list_grants(struct ledger *ledger, const struct ledger_filter *filter,
		       int (*fn)(const struct ledger_grant *row, void *data), void *data,
		       struct error *error)
{
	struct walk walk = { .grant = fn, .data = data };
	const struct engine_value values[] = {
		T(filter->grant),  T(filter->grant),  T(filter->task),	   T(filter->task),
		T(filter->tenant), T(filter->tenant), N(limit_of(filter)),
	};

	return read_rows(ledger, SQL_GRANTS_LIST, values, ARRAY_SIZE(values), give_grant, &walk,
			 error);
}

int ledger_list_records(struct ledger *ledger, const struct ledger_filter *filter,
			int (*fn)(const struct ledger_record_row *row, void *data), void *data,
			struct error *error)
{
	struct walk walk = { .record = fn, .data = data };
	const struct engine_value of_task[] = { T(filter->task), N(limit_of(filter)) };
	const struct engine_value all[] = { N(limit_of(filter)) };

	if (filter->task && *filter->task)
		return read_rows(ledger, SQL_RECORDS_OF_TASK, of_task, 2, give_record, &walk,
				 error);
	return read_rows(ledger, SQL_RECORDS_ALL, all, 1, give_record, &walk, error);
}
