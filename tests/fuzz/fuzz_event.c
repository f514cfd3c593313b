// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzzes both ways into the event library: a record of the ring buffer (first byte even: decode,
 * write as JSON and text) and a recorded line (odd: parse, filter, write). What comes out must be
 * one line that is safe on a terminal, and the JSON that was made must be read back.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/buffer.h"
#include "event/event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

/* One line, and nothing in it that acts on a terminal. */
static void check_line(const char *text, size_t size)
{
	require(size > 0 && text[size - 1] == '\n');
	require(!event_text_is_unsafe(text, size - 1));
}

static void write_record(const struct event_record *record, enum event_format format,
			 const char *line, size_t size)
{
	_cleanup_free_ char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	require(event_record_write(out, format, false, record, line, size) == 0);
	fclose(out);
	check_line(text, n);
}

static void filter_record(const struct event_record *record, const char *line, size_t size)
{
	static struct event_filter filter;
	char words[64];

	snprintf(words, sizeof(words), "%.*s", (int)(size < 40 ? size : 40), line);
	filter.since_ns = size;
	if (event_words_split(words, &filter.fences) == 0 &&
	    event_words_split(words, &filter.rules) == 0)
		event_record_matches(record, &filter);
}

/* own: the line is our own work and must be accepted. */
static void fuzz_line(const char *line, size_t size, int own)
{
	struct event_record record;
	struct error error = { "" };

	if (event_record_parse(line, size, &record, &error) < 0) {
		require(!own);
		require(!event_text_is_unsafe(error.text, strlen(error.text)));
		return;
	}
	filter_record(&record, line, size);
	write_record(&record, EVENT_TEXT, line, size);
	write_record(&record, EVENT_JSON, line, size);
	event_record_clear(&record);
}

static void fuzz_record(const uint8_t *data, size_t size)
{
	static struct event event;
	static char line[EVENT_LINE_MAX];
	char text[64];
	struct event_context context = {
		.node = text, .fence_name = text, .task = text, .degraded = text
	};
	size_t n;

	snprintf(text, sizeof(text), "%.*s", (int)(size < 40 ? size : 40), (const char *)data);
	if (event_decode(data, size, (int64_t)size << 32, &event) < 0)
		return;
	n = event_format_json(line, &context, &event);
	check_line(line, n);
	fuzz_line(line, n, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *copy = NULL;

	if (!size)
		return 0;
	copy = malloc(size); /* ends where it ends */
	require(copy != NULL);
	memcpy(copy, data + 1, size - 1);
	if (data[0] % 2)
		fuzz_line(copy, size - 1, 0);
	else
		fuzz_record((const uint8_t *)copy, size - 1);
	return 0;
}
