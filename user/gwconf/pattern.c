// SPDX-License-Identifier: Apache-2.0
/*
 * Patterns of input texts. A small part of regular expressions that cannot blow up: one atom after
 * another, each a set of ASCII bytes with a number of repeats, anchored at both ends. No groups, no
 * alternatives, no back references: those are what makes matching slow. Matching takes one pass over
 * the text per atom. No privilege, no memory.
 */
#include <errno.h>
#include <string.h>

#include "gwconf/gwconf.h"

struct pattern_scan {
	const char *p;
	struct gwconf_pattern *out;
	struct error *error;
};

static void set_add(uint8_t *set, unsigned int from, unsigned int to)
{
	for (unsigned int c = from; c <= to; c++)
		set[c / 8] |= (uint8_t)(1U << (c % 8));
}

static bool set_has(const uint8_t *set, unsigned char c)
{
	return set[c / 8] >> (c % 8) & 1;
}

static int scan_fault(struct pattern_scan *scan, const char *what)
{
	return error_set(scan->error, EINVAL, "%s", what);
}

/* What stands after a backslash. */
static int scan_escape(struct pattern_scan *scan, uint8_t *set)
{
	char c = *scan->p;

	if (c == 'd') {
		set_add(set, '0', '9');
	} else if (c == 'w') {
		set_add(set, '0', '9');
		set_add(set, 'a', 'z');
		set_add(set, 'A', 'Z');
		set_add(set, '_', '_');
	} else if (c && strchr("\\^$.[]|()?*+{}-/", c)) {
		set_add(set, (unsigned char)c, (unsigned char)c);
	} else {
		return scan_fault(scan,
				  "after a backslash comes d, w or a mark that stands for itself");
	}
	scan->p++;
	return 0;
}

/* "a" or "a-z" inside a class. */
static int scan_class_item(struct pattern_scan *scan, uint8_t *set)
{
	unsigned char from = (unsigned char)*scan->p, to;

	if (from == '\\') {
		scan->p++;
		return scan_escape(scan, set);
	}
	if (from < 0x20 || from > 0x7e)
		return scan_fault(scan, "only printable ASCII characters may be named");
	scan->p++;
	if (scan->p[0] != '-' || scan->p[1] == ']' || !scan->p[1]) {
		set_add(set, from, from);
		return 0;
	}
	to = (unsigned char)scan->p[1];
	if (to < from || to > 0x7e || to == '\\' || to == '[')
		return scan_fault(scan, "a range of characters that is none");
	set_add(set, from, to);
	scan->p += 2;
	return 0;
}

static int scan_class(struct pattern_scan *scan, uint8_t *set)
{
	scan->p++;
	if (*scan->p == '^')
		return scan_fault(scan, "classes of what is not meant ([^...]) are not accepted");
	if (*scan->p == ']')
		return scan_fault(scan, "an empty class");
	while (*scan->p && *scan->p != ']')
		if (scan_class_item(scan, set) < 0)
			return -EINVAL;
	if (!*scan->p)
		return scan_fault(scan, "a class without its ]");
	scan->p++;
	return 0;
}

static int scan_set(struct pattern_scan *scan, uint8_t *set)
{
	unsigned char c = (unsigned char)*scan->p;

	if (c == '[')
		return scan_class(scan, set);
	if (c == '\\') {
		scan->p++;
		return scan_escape(scan, set);
	}
	if (strchr("|()", c))
		return scan_fault(scan, "groups and alternatives are not accepted; use enum");
	if (strchr("^$.*+?{}]", c))
		return scan_fault(scan,
				  "a mark out of place; put a backslash before it if it is meant");
	if (c < 0x20 || c > 0x7e)
		return scan_fault(scan, "only printable ASCII characters may be named");
	set_add(set, c, c);
	scan->p++;
	return 0;
}

static int scan_count(struct pattern_scan *scan, uint16_t *ret_count)
{
	unsigned int count = 0;

	if (*scan->p < '0' || *scan->p > '9')
		return scan_fault(scan, "in braces stands N or N,M");
	for (; *scan->p >= '0' && *scan->p <= '9'; scan->p++) {
		count = count * 10 + (unsigned int)(*scan->p - '0');
		if (count > GWCONF_TEXT_MAX)
			return scan_fault(scan, "more than 4096 repeats");
	}
	*ret_count = (uint16_t)count;
	return 0;
}
_Static_assert(GWCONF_TEXT_MAX == 4096, "said in scan_count()");

static int scan_braces(struct pattern_scan *scan, uint16_t *ret_min, uint16_t *ret_max)
{
	scan->p++;
	if (scan_count(scan, ret_min) < 0)
		return -EINVAL;
	*ret_max = *ret_min;
	if (*scan->p == ',') {
		scan->p++;
		if (*scan->p == '}')
			*ret_max = GWCONF_TEXT_MAX;
		else if (scan_count(scan, ret_max) < 0)
			return -EINVAL;
	}
	if (*scan->p != '}' || *ret_max < *ret_min || *ret_max == 0)
		return scan_fault(scan, "in braces stands N or N,M");
	scan->p++;
	return 0;
}

static int scan_repeats(struct pattern_scan *scan, uint16_t *ret_min, uint16_t *ret_max)
{
	*ret_min = *ret_max = 1;
	switch (*scan->p) {
	case '?':
		*ret_min = 0;
		break;
	case '*':
		*ret_min = 0;
		*ret_max = GWCONF_TEXT_MAX;
		break;
	case '+':
		*ret_max = GWCONF_TEXT_MAX;
		break;
	case '{':
		return scan_braces(scan, ret_min, ret_max);
	default:
		return 0;
	}
	scan->p++;
	return 0;
}

int gwconf_pattern_parse(const char *text, struct gwconf_pattern *ret_pattern, struct error *error)
{
	struct pattern_scan scan = { .p = text, .out = ret_pattern, .error = error };

	memset(ret_pattern, 0, sizeof(*ret_pattern));
	if (*scan.p++ != '^')
		return scan_fault(&scan, "a pattern begins with ^ and ends with $");
	while (*scan.p && (*scan.p != '$' || scan.p[1])) {
		if (ret_pattern->n == GWCONF_PATTERN_ATOMS)
			return scan_fault(&scan, "more than 32 parts");
		if (scan_set(&scan, ret_pattern->atom[ret_pattern->n].set) < 0 ||
		    scan_repeats(&scan, &ret_pattern->atom[ret_pattern->n].min,
				 &ret_pattern->atom[ret_pattern->n].max) < 0)
			return -EINVAL;
		ret_pattern->n++;
	}
	if (*scan.p != '$')
		return scan_fault(&scan, "a pattern begins with ^ and ends with $");
	return 0;
}
_Static_assert(GWCONF_PATTERN_ATOMS == 32, "said in gwconf_pattern_parse()");

/*
 * reach[j]: text[0..j) matches the atoms so far. One atom moves each end by min..max bytes of its set:
 * j is an end when one of the old ends lies between max and min bytes before it, in the same run of
 * bytes of the set. Counting old ends from the left makes that two look-ups.
 */
static void pattern_step(const struct gwconf_pattern *pattern, size_t atom, const char *text,
			 size_t size, const bool *reach, bool *ret_reach)
{
	uint16_t before[GWCONF_TEXT_MAX * 4 + 2]; /* old ends in text[0..j) */
	size_t run = 0, lo, hi;

	before[0] = 0;
	for (size_t j = 0; j <= size; j++)
		before[j + 1] = (uint16_t)(before[j] + reach[j]);
	for (size_t j = 0; j <= size; j++) {
		if (j > 0 && !set_has(pattern->atom[atom].set, (unsigned char)text[j - 1]))
			run = j;
		lo = j > run + pattern->atom[atom].max ? j - pattern->atom[atom].max : run;
		hi = j - pattern->atom[atom].min;
		ret_reach[j] = j >= run + pattern->atom[atom].min && before[hi + 1] > before[lo];
	}
}

bool gwconf_pattern_matches(const struct gwconf_pattern *pattern, const char *text, size_t size)
{
	bool reach[2][GWCONF_TEXT_MAX * 4 + 1] = { { true } };

	if (size > (size_t)GWCONF_TEXT_MAX * 4)
		return false;
	for (size_t i = 0; i < pattern->n; i++)
		pattern_step(pattern, i, text, size, reach[i % 2], reach[(i + 1) % 2]);
	return reach[pattern->n % 2][size];
}
