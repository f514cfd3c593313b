// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target of the head of a request: whatever the bytes, cut anywhere, the outcome is one and the same, and what
 * is said to be in the buffer is. The corpus is tests/fuzz/corpus/head.
 */
#include <stdlib.h>
#include <string.h>

#include "gateway/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise stops the run like a crash does. */
#define MUST(condition)                   \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

static const struct head_limits limits = { 4096, 32 };

static void judge_text(const struct head_text *text, const char *buffer, size_t size)
{
	if (text->p)
		MUST(text->p >= buffer && text->p + text->n <= buffer + size);
}

/* What the lines are read as once more is what the head was made of. */
static void judge_lines(const struct head *head, const char *buffer, size_t size)
{
	struct head_text rest = head->lines, name, value;
	unsigned int n = 0;

	judge_text(&rest, buffer, size);
	while (head_next(&rest, &name, &value)) {
		MUST(++n <= limits.lines && name.n);
		judge_text(&name, buffer, size);
		judge_text(&value, buffer, size);
		MUST(!memchr(value.p, '\n', value.n) && !memchr(value.p, '\r', value.n));
	}
	MUST(rest.n == 0);
	MUST(head_find(head, "Authorization", &value) == (head->authorization.p != NULL));
	MUST(!head->authorization.p ||
	     (value.p == head->authorization.p && value.n == head->authorization.n));
}

static int read_copy(const uint8_t *data, size_t size)
{
	char *copy = malloc(size ? size : 1);
	const char *reason = NULL;
	struct head head;
	int r;

	MUST(copy);
	memcpy(copy, data, size);
	r = head_read(copy, size, &limits, &head, &reason);
	MUST(reason && r <= (int)size && r <= (int)limits.bytes);
	MUST(r >= 0 || (r <= -400 && r >= -505 && reason[0]));
	if (r > 0) {
		judge_text(&head.path, copy, (size_t)r);
		judge_lines(&head, copy, (size_t)r);
		judge_text(&head.authorization, copy, (size_t)r);
		judge_text(&head.idempotency_key, copy, (size_t)r);
		judge_text(&head.authority, copy, (size_t)r);
		judge_text(&head.host, copy, (size_t)r);
		MUST((head.form == HEAD_FORM_AUTHORITY) == (head.method == HEAD_METHOD_CONNECT));
		MUST((head.form == HEAD_FORM_PATH) == !head.authority.p);
	}
	if (r > 0 && head.form == HEAD_FORM_PATH) {
		MUST(head.path.n && head.path.p[0] == '/' &&
		     !memmem(head.path.p, head.path.n, "//", 2) &&
		     !memmem(head.path.p, head.path.n, "/../", 4) &&
		     (head.up || !memchr(head.path.p, 0x25, head.path.n)));
	}
	free(copy);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int whole, cut;

	if (size > 8192)
		return 0;
	whole = read_copy(data, size);
	for (size_t n = 0; n < size; n += 1 + size / 16) {
		cut = read_copy(data, n);
		MUST(cut == HEAD_PARTIAL || cut == whole);
	}
	return 0;
}
