// SPDX-License-Identifier: Apache-2.0
/* Requests on the admin socket: what is taken must be the same after it was written and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "admin/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct admin_request first, second;
	struct error error = { "" };
	char *line;

	if (admin_request_parse((const char *)data, size, &first, &error)) {
		if (!error.text[0])
			abort();
		return 0;
	}
	line = admin_request_format(&first);
	if (!line || admin_request_parse(line, strlen(line), &second, &error) ||
	    memcmp(&first, &second, sizeof(first)))
		abort();
	free(line);
	return 0;
}
