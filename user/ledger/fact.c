// SPDX-License-Identifier: Apache-2.0
/*
 * The operator's two statements of a tool: binding the values of a call, taking the facts, and making JSON of what the
 * executor returned. Values are bound by name and never looked into.
 */

#include <errno.h>
#include <string.h>
#include <jansson.h>

#include "ledger/internal.h"

static struct engine_value input_value(const struct op *op, const char *name)
{
	for (size_t i = 0; i < op->n_params; i++) {
		const struct ledger_param *param = &op->params[i];

		if (strcmp(param->name, name) == 0)
			return param->text ? engine_text(param->text)
					   : ENGINE_NUMBER(param->number);
	}
	return (struct engine_value){ .kind = ENGINE_NULL }; /* an input that was not given */
}

static struct engine_value value_of(const struct op *op, const struct sqltext *text, unsigned int i)
{
	switch (text->values[i].value) {
	case SQLTEXT_TENANT:
		return engine_text(op->tenant);
	case SQLTEXT_SUBJECT:
		return engine_text(op->subject);
	case SQLTEXT_TASK:
		return engine_text(op->task);
	case SQLTEXT_OBJECT:
		return engine_text(op->object);
	case SQLTEXT_AMOUNT:
		return ENGINE_NUMBER(op->amount);
	case SQLTEXT_KEY:
		return engine_text(op->key);
	case SQLTEXT_CALL:
		return ENGINE_NUMBER(op->id);
	case SQLTEXT_INPUT:
		break;
	}
	return input_value(op, op->tool->inputs[text->values[i].input]);
}

unsigned int fact_step(struct batch *batch, struct op *op, struct steps *steps, bool exec)
{
	const struct sqltext *text = exec ? &op->tool->exec : &op->tool->fact;
	struct engine_value values[SQLTEXT_VALUES_MAX];
	unsigned int i;

	for (i = 0; i < text->n; i++)
		values[i] = value_of(op, text, i);
	i = steps_add(batch, steps, exec ? &op->tool->exec_stmt : &op->tool->fact_stmt, values,
		      text->n);
	if (!steps->failed) {
		steps->v[i].guarded = true;
		steps->v[i].changed_max = exec ? 1 : 0;
	}
	return i;
}

static const struct engine_value *column(const struct engine_row *row, const char *name)
{
	for (unsigned int i = 0; i < row->n; i++)
		if (strcmp(row->names[i], name) == 0)
			return &row->values[i];
	return NULL;
}

enum ledger_code fact_take(struct op *op, const struct engine_step *step,
			   struct ledger_question *question)
{
	const struct engine_value *tenant, *remaining;

	/* A value that does not fit the column names no object. */
	if (step->err == -EDOM)
		return LEDGER_OK;
	if (step->err) {
		op->fault = step->fault ? step->fault : "the fact query failed";
		return LEDGER_UNAVAILABLE;
	}
	if (step->n_rows == 0)
		return LEDGER_OK;
	tenant = column(&step->row, "tenant");
	remaining = column(&step->row, "remaining");
	if (step->n_rows > 1 || !tenant || tenant->kind != ENGINE_TEXT ||
	    (op->tool->has_amount && (!remaining || remaining->kind != ENGINE_INT))) {
		op->fault = "the fact query has to give one row with tenant as text, and remaining "
			    "as a whole number if the tool has an amount";
		return LEDGER_UNAVAILABLE;
	}
	question->object_found = true;
	question->object_tenant = tenant->text;
	question->remaining = op->tool->has_amount ? remaining->number : 0;
	return LEDGER_OK;
}

static bool goes_back(const struct ledger_tool *tool, const char *name)
{
	if (!tool->result_fields)
		return true;
	for (char **field = tool->result_fields; *field; field++)
		if (strcmp(*field, name) == 0)
			return true;
	return false;
}

const char *fact_result(struct batch *batch, struct op *op, const struct engine_step *step)
{
	struct text text = { .arena = batch->arena };

	text_puts(&text, "{");
	for (unsigned int i = 0; step->n_rows && i < step->row.n; i++) {
		const struct engine_value *value = &step->row.values[i];
		const char *name = step->row.names[i];

		if (!goes_back(op->tool, name))
			continue;
		if (value->kind == ENGINE_INT) {
			text_member_number(&text, name, value->number);
		} else if (value->kind == ENGINE_TEXT) {
			text_member(&text, name, value->text);
		} else {
			if (text.size > 1)
				text_puts(&text, ",");
			text_json(&text, name);
			text_puts(&text, ":null");
		}
	}
	text_puts(&text, "}");
	return text.failed || text.size > LEDGER_RESULT_MAX ? NULL : text.data;
}

const char *fact_save_params(struct batch *batch, const struct ledger_call *call)
{
	struct text text = { .arena = batch->arena };

	text_puts(&text, "{");
	for (size_t i = 0; i < call->n_params; i++) {
		const struct ledger_param *param = &call->params[i];

		if (param->text)
			text_member(&text, param->name, param->text);
		else
			text_member_number(&text, param->name, param->number);
	}
	text_puts(&text, "}");
	return text.failed ? NULL : text.data;
}

int fact_load_params(struct batch *batch, struct op *op, const char *text)
{
	struct ledger_param *params = arena_take(batch->arena, LEDGER_PARAMS_MAX * sizeof(*params));
	json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *value;
	const char *name;
	size_t n = 0;
	int err = params && object ? 0 : -EIO;

	json_object_foreach(object, name, value)
	{
		if (err || n == LEDGER_PARAMS_MAX)
			break;
		params[n].name = arena_string(batch->arena, name);
		if (json_is_integer(value))
			params[n].number = json_integer_value(value);
		else
			params[n].text = arena_string(batch->arena, json_string_value(value));
		if (!params[n].name || (!json_is_integer(value) && !params[n].text))
			err = -ENOMEM;
		n++;
	}
	json_decref(object);
	op->params = params;
	op->n_params = n;
	return err;
}
