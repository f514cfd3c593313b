// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target of a ClientHello: whatever the bytes, cut anywhere, the outcome is one and the same, and what is read for a name is
 * one. The corpus is tests/fuzz/corpus/hello.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise stops the run like a crash does. */
#define MUST(condition)                   \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

static int read_copy(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	struct reach_name name, again;
	const char *reason = NULL;
	int r;

	MUST(copy);
	memcpy(copy, data, size);
	r = hello_read(copy, size, &name, &reason);
	MUST(reason && r <= (int)size && r <= HELLO_BYTES_MAX);
	MUST(r >= 0 || (r == -EBADMSG && reason[0]));
	if (r > 0)
		MUST(strlen(name.s) == name.n &&
		     reach_name_read(name.s, name.n, false, &again, &reason) == 0 &&
		     !strcmp(name.s, again.s));
	free(copy);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int whole, cut;

	if (size > 20000)
		return 0;
	whole = read_copy(data, size);
	for (size_t n = 0; n < size; n += 1 + size / 16) {
		cut = read_copy(data, n);
		MUST(cut == HELLO_PARTIAL || cut == whole);
	}
	return 0;
}
