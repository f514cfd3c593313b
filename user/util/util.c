// SPDX-License-Identifier: Apache-2.0
/* See util.h. */
#include "util/util.h"

#include <stdarg.h>

int error_set(struct error *error, int err, const char *format, ...)
{
	va_list args;

	if (error && !error->text[0]) {
		va_start(args, format);
		vsnprintf(error->text, sizeof(error->text), format, args);
		va_end(args);
	}
	return -err;
}
