// SPDX-License-Identifier: Apache-2.0
/* See util.h. */
#include "util/util.h"

#include <stdarg.h>
#include <string.h>

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

void util_hex(const uint8_t *bytes, size_t n, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		ret_text[2 * i] = digits[bytes[i] >> 4];
		ret_text[2 * i + 1] = digits[bytes[i] & 15];
	}
	ret_text[2 * n] = '\0';
}

size_t util_decimal(int64_t number, char ret_text[UTIL_DECIMAL_SIZE])
{
	/* Of the least number there is no opposite in int64_t. */
	uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;
	char text[UTIL_DECIMAL_SIZE];
	size_t at = sizeof(text);

	text[--at] = '\0';
	do
		text[--at] = (char)('0' + left % 10);
	while (left /= 10);
	if (number < 0)
		text[--at] = '-';
	memcpy(ret_text, text + at, sizeof(text) - at);
	return sizeof(text) - at - 1;
}

bool util_json_is_shallow(const char *p, size_t size, unsigned int depth_max)
{
	unsigned int depth = 0;
	bool quoted = false;

	for (size_t i = 0; i < size; i++) {
		if (quoted) {
			if (p[i] == '\\')
				i++;
			else
				quoted = p[i] != '"';
		} else if (p[i] == '"') {
			quoted = true;
		} else if (p[i] == '{' || p[i] == '[') {
			if (++depth > depth_max)
				return false;
		} else if ((p[i] == '}' || p[i] == ']') && depth) {
			depth--;
		}
	}
	return true;
}

bool util_part_is_hollow(const char *p, size_t n)
{
	const char *end = memchr(p, ';', n);

	end = end ? end : p + n;
	while (end - p >= 3 && !memcmp(p, "%20", 3))
		p += 3;
	while (end - p >= 3 && !memcmp(end - 3, "%20", 3))
		end -= 3;
	while (p < end && *p == '.')
		p++;
	return p == end;
}
