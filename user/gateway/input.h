/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a call: JSON judged by the tool's schema, and what the ledger needs of it. No I/O. What is
 * not declared is refused: unknown and repeated members, numbers that are not plain integers of 64 bits,
 * control characters, nesting.
 */
#ifndef CORDON_GATEWAY_INPUT_H
#define CORDON_GATEWAY_INPUT_H

#include <jansson.h>

#include "gateway/head.h"
#include "gwconf/gwconf.h"
#include "ledger/ledger.h"

#define INPUT_DEPTH_MAX 8 /* brackets inside one another; beyond them JSON is not read */

struct input {
	json_t *root; /* owned */
	/* All point into root, or to NULL. */
	const char *tenant, *object;
	int64_t amount;
	char key[LEDGER_KEY_MAX + 1];
	/* Members that the tool's SQL may name, besides those that the ledger binds itself. */
	struct ledger_param params[LEDGER_PARAMS_MAX];
	size_t n_params;
	uint8_t digest[LEDGER_DIGEST_SIZE]; /* of tool and members, whatever their order and spelling */
	char reason[160];		    /* what is wrong, for the caller */
};

/*
 * Reads the body of a call of tool. header_key is the header Idempotency-Key, p NULL without one. Returns
 * LEDGER_OK, or the code of the refusal with input->reason set. input_release() in every case.
 */
enum ledger_code input_read(const struct gwconf_tool *tool, const char *body, size_t size,
			    const struct head_text *header_key, struct input *ret_input);
void input_release(struct input *input);

/* 1 to LEDGER_KEY_MAX visible ASCII characters: what is compared byte by byte has one spelling. */
bool input_key_is_good(const char *key, size_t size);

/* The members that tool->body names, as JSON text for the upstream; NULL when memory ends. To be freed. */
char *input_request(const struct gwconf_tool *tool, const struct input *input);

/* The JSON Schema of the tool's input, for GET /tools; NULL when memory ends. */
json_t *input_schema(const struct gwconf_tool *tool);

#endif
