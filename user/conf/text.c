// SPDX-License-Identifier: Apache-2.0
/* See text.h. One pass over the bytes; the first fault of each line is reported. */
#include "conf/text.h"

#include <errno.h>

struct scan {
	const char *text;
	size_t length;
	size_t at;
	struct conf_mark mark;
	bool indent;	/* nothing but blanks so far on this line */
	bool line_done; /* a fault of this line was reported */
};

/* What is wrong with character c at the place of the scan; NULL: nothing. size 0: not UTF-8. */
static const char *scan_judge(const struct scan *scan, size_t size, uint32_t c)
{
	bool last = scan->at + 1 >= scan->length;

	if (size == 0)
		return "not valid UTF-8";
	if (c == 0)
		return "a NUL byte; this must be plain text";
	if (c == '\r' && !last && scan->text[scan->at + 1] == '\n')
		return NULL;
	if (c == '\r' || c == 0x85 || c == 0x2028 || c == 0x2029)
		return "a line end that is neither LF nor CRLF";
	if (c == '\t' && scan->indent)
		return "a tab in the indentation; use spaces";
	if ((c < 0x20 && c != '\t' && c != '\n') || (c >= 0x7f && c < 0xa0) || c == 0xfeff ||
	    c == 0xfffe || c == 0xffff)
		return "a control character";
	return NULL;
}

static void scan_advance(struct scan *scan, size_t size, uint32_t c)
{
	scan->at += size ? size : 1;
	if (size == 1 && c == '\n') {
		scan->mark.line++;
		scan->mark.column = 1;
		scan->indent = true;
		scan->line_done = false;
		return;
	}
	scan->mark.column++;
	if (c != ' ' && c != '\t')
		scan->indent = false;
}

int conf_text_check(const char *text, size_t length, struct conf_faults *faults)
{
	struct scan scan = { .text = text, .length = length, .mark = { 1, 1 }, .indent = true };

	if (length > CONF_TEXT_MAX)
		return conf_fault_add(faults, scan.mark, "longer than %d KiB",
				      CONF_TEXT_MAX / 1024);
	while (scan.at < length) {
		uint32_t c = 0;
		size_t size = conf_utf8_next(text + scan.at, length - scan.at, &c);
		const char *wrong = scan.line_done ? NULL : scan_judge(&scan, size, c);

		if (wrong && conf_fault_add(faults, scan.mark, "%s", wrong) < 0)
			return -ENOMEM;
		scan.line_done |= wrong != NULL;
		scan_advance(&scan, size, c);
	}
	return 0;
}
