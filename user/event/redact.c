// SPDX-License-Identifier: Apache-2.0
/*
 * See redact.h. Every form has a character at which it is looked for, so that text without one costs a table look-up a byte. What is
 * no known form is no secret to this: it is a net under people's mistakes, not a promise. No privilege, cannot fail.
 */
#include "event/redact.h"

#include <string.h>
#include <strings.h>

#include "util/util.h"

enum { ANCHOR_NONE, ANCHOR_VALUE, ANCHOR_SCHEME, ANCHOR_TOKEN, ANCHOR_JWT, ANCHOR_AWS };

static const unsigned char anchor[256] = {
	['='] = ANCHOR_VALUE, [':'] = ANCHOR_VALUE, [' '] = ANCHOR_SCHEME, ['_'] = ANCHOR_TOKEN,
	['-'] = ANCHOR_TOKEN, ['J'] = ANCHOR_JWT,   ['I'] = ANCHOR_AWS,
};

static bool is_alnum(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool is_token(unsigned char c)
{
	return is_alnum(c) || (c && strchr("._~+/=-", c));
}

/* Bytes from p on that a value may have: up to what ends a parameter. */
static size_t value_length(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && (unsigned char)p[i] > ' ' && !strchr("&;,\"'/", p[i]))
		i++;
	return i;
}

static size_t token_length(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && is_token((unsigned char)p[i]))
		i++;
	return i;
}

/* Does what stands before p[at] end with word, whatever its case? */
static bool ends_with(const char *p, size_t at, const char *word)
{
	size_t n = strlen(word);

	return at >= n && strncasecmp(p + at - n, word, n) == 0;
}

/* "...://user:PASSWORD@": at is the first colon. */
static bool url_find(const char *p, size_t n, size_t at, size_t *ret_at, size_t *ret_length)
{
	size_t i, colon = 0;

	if (n - at < 4 || memcmp(p + at, "://", 3) != 0)
		return false;
	for (i = at + 3; i < n && (unsigned char)p[i] > ' ' && p[i] != '/' && p[i] != '@'; i++)
		if (p[i] == ':' && !colon)
			colon = i + 1;
	if (i == n || p[i] != '@' || !colon || colon == i)
		return false;
	*ret_at = colon;
	*ret_length = i - colon;
	return true;
}

/* "password=VALUE", "token: VALUE": at is the separator. */
static bool value_find(const char *p, size_t n, size_t at, size_t *ret_at, size_t *ret_length)
{
	static const char *const words[] = {
		"password", "passwd",	  "secret",	 "token",     "apikey",	    "api_key",
		"api-key",  "access_key", "private_key", "signature", "session_id", "passphrase"
	};
	size_t name = at, value = at + 1;

	if (url_find(p, n, at, ret_at, ret_length))
		return true;
	while (name && (p[name - 1] == '"' || p[name - 1] == '\''))
		name--;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!ends_with(p, name, words[i]))
			continue;
		while (value < n && strchr(" \"'", p[value]))
			value++;
		*ret_at = value;
		*ret_length = value < n ? value_length(p + value, n - value) : 0;
		return *ret_length > 0;
	}
	return false;
}

/* "Bearer TOKEN": at is the blank. */
static bool scheme_find(const char *p, size_t n, size_t at, size_t *ret_at, size_t *ret_length)
{
	if (!ends_with(p, at, "bearer") && !ends_with(p, at, "basic"))
		return false;
	*ret_at = at + 1;
	*ret_length = token_length(p + at + 1, n - at - 1);
	return *ret_length >= 6;
}

/* What is known by its beginning, which ends at p[at]. */
static bool token_find(const char *p, size_t n, size_t at, size_t *ret_at, size_t *ret_length)
{
#define B(text)                        \
	{                              \
		text, sizeof(text) - 1 \
	}
	static const struct {
		char text[7];
		unsigned char n;
	} beginnings[] = { B("ghp_"),  B("gho_"),  B("ghu_"),  B("ghs_"),  B("ghr_"),
			   B("pat_"),  B("xoxb-"), B("xoxp-"), B("xoxa-"), B("xoxr-"),
			   B("xoxs-"), B("sk-"),   B("live_"), B("glpat-") };
#undef B
	for (size_t i = 0; at && i < ARRAY_SIZE(beginnings); i++) {
		size_t m = beginnings[i].n;

		/* The byte before the last first: most names with such a mark are not even that near. */
		if (p[at - 1] != beginnings[i].text[m - 2] || at + 1 < m ||
		    memcmp(p + at + 1 - m, beginnings[i].text, m) != 0 ||
		    (at + 1 > m && is_alnum((unsigned char)p[at - m])))
			continue;
		*ret_at = at + 1;
		*ret_length = token_length(p + at + 1, n - at - 1);
		return *ret_length >= 16;
	}
	return false;
}

/* "eyJ...": a header, a body and a signature, parted by dots. at is the J. */
static bool jwt_find(const char *p, size_t n, size_t at, size_t *ret_at, size_t *ret_length)
{
	size_t length, dots = 0;

	if (at < 2 || p[at - 2] != 'e' || p[at - 1] != 'y' ||
	    (at > 2 && is_alnum((unsigned char)p[at - 3])))
		return false;
	at -= 2;
	length = token_length(p + at, n - at);
	for (size_t i = 0; i < length; i++)
		dots += p[at + i] == '.';
	*ret_at = at;
	*ret_length = length;
	return dots == 2 && length >= 20;
}

/* "AKIA" or "ASIA" and sixteen more: at is the I. */
static bool aws_find(const char *p, size_t n, size_t at, size_t *ret_at, size_t *ret_length)
{
	if (at < 2 || n - at < 18 || p[at + 1] != 'A' ||
	    (memcmp(p + at - 2, "AK", 2) != 0 && memcmp(p + at - 2, "AS", 2) != 0))
		return false;
	for (size_t i = 2; i < 18; i++)
		if (!is_alnum((unsigned char)p[at + i]) || (p[at + i] >= 'a' && p[at + i] <= 'z'))
			return false;
	*ret_at = at - 2;
	*ret_length = 20;
	return true;
}

bool event_redact_find(const char *p, size_t n, size_t *ret_at, size_t *ret_length)
{
	static bool (*const finds[])(const char *p, size_t n, size_t at, size_t *ret_at,
				     size_t *ret_length) = {
		[ANCHOR_VALUE] = value_find, [ANCHOR_SCHEME] = scheme_find,
		[ANCHOR_TOKEN] = token_find, [ANCHOR_JWT] = jwt_find,
		[ANCHOR_AWS] = aws_find,
	};

	for (size_t i = 0; i < n; i++) {
		unsigned char kind = anchor[(unsigned char)p[i]];

		if (kind && finds[kind](p, n, i, ret_at, ret_length))
			return true;
	}
	return false;
}
