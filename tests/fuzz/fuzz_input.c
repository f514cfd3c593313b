// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target of the body of a call: JSON against the schema of a tool. What is accepted keeps the schema, and its
 * digest does not depend on order or spelling. The corpus is tests/fuzz/corpus/input.
 */
#include <string.h>

#include "gateway/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise stops the run like a crash does. */
#define MUST(condition)                   \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

static const char tool_text[] =
	"cordon: 1\nname: t\nscope: s:x\n"
	"input:\n  type: object\n  required: [tenant, order_id, amount]\n  properties:\n"
	"    tenant: {type: string, maxLength: 8}\n"
	"    order_id: {type: string, maxLength: 16, pattern: '^[a-z]{1,3}-[0-9]*$'}\n"
	"    amount: {type: integer, maximum: 1000}\n"
	"    kind: {type: string, enum: [a, b]}\n"
	"    level: {type: integer, enum: [1, 2]}\n"
	"    flag: {type: boolean}\n"
	"    k: {type: string, maxLength: 32}\n"
	"tenant: tenant\nobject: {id: order_id, query: SELECT 1}\namount: amount\n"
	"idempotency: {key: k}\nexecutor: {sql: UPDATE t SET x = :kind}\nresult: [x]\n";

static const struct gwconf_tool *tool(void)
{
	static struct gwconf_tool *made;
	struct conf_faults faults = { .n = 0 };

	if (!made)
		MUST(gwconf_tool_parse(tool_text, sizeof(tool_text) - 1, "t", &made, &faults) == 0);
	return made;
}

static void judge_accepted(const struct input *input, const struct head_text *header)
{
	char *again = json_dumps(input->root, JSON_INDENT(1) | JSON_ENSURE_ASCII), *sent;
	struct input second;

	MUST(input->tenant && strlen(input->tenant) <= 32 && input->object &&
	     input->amount <= 1000);
	MUST(input->key[0] && strlen(input->key) <= LEDGER_KEY_MAX &&
	     input->n_params <= LEDGER_PARAMS_MAX);
	MUST(again && input_read(tool(), again, strlen(again), header, &second) == LEDGER_OK);
	MUST(!memcmp(input->digest, second.digest, sizeof(second.digest)));
	sent = input_request(tool(), input);
	MUST(sent);
	free(sent);
	free(again);
	input_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* The first line may be the header. */
	const char *text = (const char *)data, *line = memchr(text, '\n', size);
	struct head_text header = { NULL, 0 };
	struct input input;
	enum ledger_code code;

	if (size > 1 && text[0] == '#' && line) {
		header = (struct head_text){ text + 1, (size_t)(line - text - 1) };
		size -= (size_t)(line + 1 - text);
		text = line + 1;
	}
	code = input_read(tool(), text, size, &header, &input);
	MUST(code == LEDGER_OK || input.reason[0]);
	if (code == LEDGER_OK)
		judge_accepted(&input, &header);
	input_release(&input);
	return 0;
}
