// SPDX-License-Identifier: Apache-2.0
/*
 * Verifying a chain, and finding its end, in files that somebody made up. The first half of the input may be a second file. What
 * verifies must be what the tail says, too.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "chain/chain.h"

static void file_fill(int fd, const uint8_t *data, size_t size)
{
	if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fds[2] = { -1, -1 };
	static char names[2][64];
	const char *const paths[] = { names[0], names[1] };
	static const struct chain_key key = { .secret = "0123456789abcdef0123456789abcde",
					      .id = "0123456789abcdef" };
	struct chain_options options = { .keys = &key, .n_keys = size & 1 };
	size_t n = size ? 1 + (data[0] == '!') : 1, cut = n == 2 ? size / 2 : size;
	struct chain_result result;
	struct chain_tail tail;
	struct error error = { "" };

	for (size_t i = 0; i < 2 && fds[i] < 0; i++) {
		fds[i] = memfd_create("chain", MFD_CLOEXEC);
		snprintf(names[i], sizeof(names[i]), "/proc/self/fd/%d", fds[i]);
	}
	file_fill(fds[0], data + (n == 2), cut - (n == 2 && cut));
	file_fill(fds[1], data + cut, size - cut);
	if (chain_verify(paths, n, &options, &result, &error) < 0)
		return 0;
	assert(result.fault < CHAIN_FAULT_COUNT);
	assert(result.fault == CHAIN_FAULT_NONE || (result.file && result.line && result.why[0]));
	if (chain_tail_read(fds[0], &tail) < 0)
		return 0;
	if (n == 1 && result.fault == CHAIN_FAULT_NONE) {
		assert(tail.fault == CHAIN_FAULT_NONE && !tail.torn);
		assert(tail.chain.n == result.last.n);
	}
	return 0;
}
