// SPDX-License-Identifier: Apache-2.0
/* Messages of both processes, a line each on stderr: for the journal. */
#include <stdarg.h>
#include <stdio.h>

#include "cordond/cordond.h"

void cordond_say(const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	fprintf(stderr, "cordond: %s\n", text);
}
