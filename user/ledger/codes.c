// SPDX-License-Identifier: Apache-2.0
/* The tables of codes.h as data. No state, no privilege. */

#include <string.h>

#include "ledger/codes.h"
#include "util/util.h"

static const struct ledger_code_info codes[LEDGER_CODES_N] = {
#define X(id, code_name, status, code_retry, code_text, code_ask) \
	[LEDGER_##id] = { .name = (code_name),                    \
			  .retry = (code_retry),                  \
			  .text = (code_text),                    \
			  .ask = (code_ask),                      \
			  .http_status = (status) },
	LEDGER_CODES(X)
#undef X
};

static const struct {
	const char *name;
	bool counts, final;
} states[LEDGER_STATES_N] = {
#define X(id, state_name, state_counts, state_final) \
	[LEDGER_STATE_##id] = { (state_name), (state_counts), (state_final) },
	LEDGER_STATES(X)
#undef X
};

static const char *const step_names[LEDGER_STEPS_N] = {
	[LEDGER_STEP_SUBMIT] = "submit",   [LEDGER_STEP_START] = "start",
	[LEDGER_STEP_FINISH] = "finish",   [LEDGER_STEP_RECOVER] = "recover",
	[LEDGER_STEP_APPROVE] = "approve", [LEDGER_STEP_REFUSE] = "refuse",
	[LEDGER_STEP_DENY] = "deny",	   [LEDGER_STEP_EXPIRE] = "expire",
	[LEDGER_STEP_SETTLE] = "settle",
};

static const struct {
	enum ledger_state from;
	enum ledger_step step;
	enum ledger_state to;
} steps[] = {
#define X(from, step, to, effect) { LEDGER_STATE_##from, LEDGER_STEP_##step, LEDGER_STATE_##to },
	LEDGER_STEPS(X)
#undef X
};

const struct ledger_code_info *ledger_code_info(enum ledger_code code)
{
	return &codes[(unsigned int)code < LEDGER_CODES_N ? code : LEDGER_UNAVAILABLE];
}

const char *ledger_state_name(enum ledger_state state)
{
	return (unsigned int)state < LEDGER_STATES_N ? states[state].name : "unknown";
}

int ledger_state_parse(const char *name)
{
	for (int i = 0; i < LEDGER_STATES_N; i++)
		if (strcmp(name, states[i].name) == 0)
			return i;
	return -1;
}

bool ledger_state_counts(enum ledger_state state)
{
	return (unsigned int)state < LEDGER_STATES_N && states[state].counts;
}

bool ledger_state_final(enum ledger_state state)
{
	return (unsigned int)state < LEDGER_STATES_N && states[state].final;
}

const char *ledger_step_name(enum ledger_step step)
{
	return (unsigned int)step < LEDGER_STEPS_N ? step_names[step] : "unknown";
}

bool ledger_step_allowed(enum ledger_state from, enum ledger_step step, enum ledger_state to)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		if (steps[i].from == from && steps[i].step == step && steps[i].to == to)
			return true;
	return false;
}
