// SPDX-License-Identifier: Apache-2.0
/* The headers of a SYN, as the kernel saved them from whoever sent them. */
#include <stdint.h>
#include <stdlib.h>

#include "identity/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct identity_syn syn;
	static struct identity_window window;

	if (!identity_parse_syn(data, size, &syn)) {
		identity_window_take(&window, syn.count);
		if (identity_window_take(&window, syn.count))
			abort(); /* nothing counts twice */
	}
	return 0;
}
