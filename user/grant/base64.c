// SPDX-License-Identifier: Apache-2.0
/* base64url without padding, one spelling of each string of bytes. */
#include <errno.h>

#include "grant/grant.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static int value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '-' ? 62 : c == '_' ? 63 : -1;
}

ssize_t grant_base64_decode(const char *text, size_t size, uint8_t *ret)
{
	uint32_t bits = 0;
	unsigned int n_bits = 0;
	size_t n = 0;

	if (size % 4 == 1)
		return -EINVAL;
	for (size_t i = 0; i < size; i++) {
		int v = value(text[i]);

		if (v < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)v;
		n_bits += 6;
		if (n_bits >= 8) {
			n_bits -= 8;
			ret[n++] = (uint8_t)(bits >> n_bits);
		}
	}
	if (bits & ((1U << n_bits) - 1)) /* what is left over says nothing */
		return -EINVAL;
	return (ssize_t)n;
}

size_t grant_base64_encode(const uint8_t *bytes, size_t size, char *ret)
{
	uint32_t bits = 0;
	unsigned int n_bits = 0;
	size_t n = 0;

	for (size_t i = 0; i < size; i++) {
		bits = bits << 8 | bytes[i];
		n_bits += 8;
		while (n_bits >= 6) {
			n_bits -= 6;
			ret[n++] = digits[bits >> n_bits & 63];
		}
	}
	if (n_bits)
		ret[n++] = digits[bits << (6 - n_bits) & 63];
	ret[n] = '\0';
	return n;
}
