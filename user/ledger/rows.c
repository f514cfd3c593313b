// SPDX-License-Identifier: Apache-2.0
/* Rows of the tables as structs. A row with a word that this program does not know is refused, not guessed at. */

#include <errno.h>
#include <string.h>

#include "ledger/internal.h"

static const char *text_at(const struct engine_row *row, unsigned int i)
{
	return row->values[i].kind == ENGINE_TEXT ? row->values[i].text : "";
}

static int64_t number_at(const struct engine_row *row, unsigned int i)
{
	return row->values[i].kind == ENGINE_INT ? row->values[i].number : 0;
}

static int code_parse(const char *name)
{
	for (int i = 0; i < LEDGER_CODES_N; i++)
		if (strcmp(ledger_code_info((enum ledger_code)i)->name, name) == 0)
			return i;
	return -1;
}

int row_call(const struct engine_row *row, unsigned int from, struct call_row *ret)
{
	unsigned int i = from;
	int state, code;

	if (row->n < from + CALL_COLUMNS_N)
		return -EIO;
	ret->id = number_at(row, i++);
	ret->tenant = text_at(row, i++);
	ret->subject = text_at(row, i++);
	ret->tool = text_at(row, i++);
	ret->key = text_at(row, i++);
	ret->digest = text_at(row, i++);
	state = ledger_state_parse(text_at(row, i++));
	code = code_parse(text_at(row, i++));
	ret->fence = (uint64_t)number_at(row, i++);
	ret->task = text_at(row, i++);
	ret->grant = text_at(row, i++);
	ret->scope = text_at(row, i++);
	ret->object = text_at(row, i++);
	ret->amount = number_at(row, i++);
	ret->day = number_at(row, i++);
	ret->quota = text_at(row, i++);
	ret->node = text_at(row, i++);
	ret->approval = text_at(row, i++);
	ret->result = text_at(row, i++);
	ret->created_ns = number_at(row, i++);
	ret->updated_ns = number_at(row, i++);
	if (state <= LEDGER_STATE_NONE || code < 0)
		return -EIO;
	ret->state = (enum ledger_state)state;
	ret->code = (enum ledger_code)code;
	return 0;
}

int row_approval(const struct engine_row *row, struct approval_row *ret)
{
	unsigned int i = 0;

	if (row->n < APPROVAL_COLUMNS_N + CALL_COLUMNS_N)
		return -EIO;
	ret->id = text_at(row, i++);
	ret->state = text_at(row, i++);
	ret->by = text_at(row, i++);
	ret->reason = text_at(row, i++);
	ret->created_ns = number_at(row, i++);
	ret->expires_ns = number_at(row, i++);
	ret->decided_ns = number_at(row, i++);
	ret->request = text_at(row, i++);
	ret->params = text_at(row, i++);
	return row_call(row, i, &ret->call);
}

int row_grant(const struct engine_row *row, struct ledger_grant *ret)
{
	unsigned int i = 0;

	if (row->n < 15)
		return -EIO;
	ret->id = text_at(row, i++);
	ret->fence = (uint64_t)number_at(row, i++);
	ret->tenant = text_at(row, i++);
	ret->subject = text_at(row, i++);
	ret->task = text_at(row, i++);
	ret->scope = text_at(row, i++);
	ret->tool = text_at(row, i++);
	ret->object = text_at(row, i++);
	ret->amount_max = number_at(row, i++);
	ret->uses_max = number_at(row, i++);
	ret->issued_ns = number_at(row, i++);
	ret->expires_ns = number_at(row, i++);
	ret->revoked_ns = number_at(row, i++);
	ret->amount_used = number_at(row, i++);
	ret->uses_used = number_at(row, i++);
	return 0;
}
