// SPDX-License-Identifier: Apache-2.0
/* See lines.h. What is read was written by others: bounded before it is parsed, by the event library. */
#include "cordon/lines.h"

#include <errno.h>
#include <string.h>

#include "cordon/cli.h"
#include "event/event.h"

enum { REPORTS = 20 }; /* then they are only counted */

int lines_take(struct lines *lines, const char *name, unsigned long long number, const char *line,
	       size_t size)
{
	struct event_record record;
	struct error error = { "" };
	int err;

	if (event_line_is_chain(line, size))
		return 0;
	err = event_record_parse(line, size, &record, &error);
	if (err == -EINVAL) {
		if (lines->malformed++ < REPORTS)
			cli_fail(0, "%s:%llu: %s", name, number, error.text);
		return 0;
	}
	if (err)
		return err;
	err = lines->fn(lines->context, &record, line, size);
	event_record_clear(&record);
	return err;
}

int lines_read(struct lines *lines, const char *name, FILE *file)
{
	static char line[EVENT_LINE_MAX + 2];
	unsigned long long number = 0;
	int err = 0;

	while (!err && fgets(line, sizeof(line), file)) {
		size_t size = strlen(line);

		number++;
		if (size && line[size - 1] == '\n') {
			err = lines_take(lines, name, number, line, size - 1);
			continue;
		}
		if (feof(file)) /* still being written, or cut off */
			continue;
		if (lines->malformed++ < REPORTS)
			cli_fail(0, "%s:%llu: longer than an event can be, or holds NUL", name,
				 number);
		for (int c = 0; c != '\n' && c != EOF;)
			c = getc(file);
	}
	return err ? err : ferror(file) ? -EIO : 0;
}
