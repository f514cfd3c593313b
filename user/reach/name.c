// SPDX-License-Identifier: Apache-2.0
/* See reach.h: names, ports and rules. No privilege. Fails closed: what is not read allows nothing. */
#include "reach/reach.h"

#include <stdio.h>
#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Could a resolver that knows inet_aton(3) take the label for a number? */
static bool label_is_number(const char *label, size_t n)
{
	size_t i = 0;

	if (n >= 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X')) {
		for (i = 2; i < n && is_hex(label[i]); i++)
			;
		return i == n;
	}
	while (i < n && is_digit(label[i]))
		i++;
	return i == n;
}

static const char *label_fault(const char *label, size_t n)
{
	if (n == 0)
		return "a name with an empty part";
	if (n > REACH_LABEL_MAX)
		return "a part of the name is longer than 63 characters";
	for (size_t i = 0; i < n; i++) {
		char c = label[i];

		if (!is_digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
		    c != '-' && c != '_')
			return "a name consists of letters, digits, - and _; others are written as "
			       "xn--";
	}
	return label[0] == '-' || label[n - 1] == '-' ? "a part of the name begins or ends with -"
						      : NULL;
}

int reach_name_read(const char *text, size_t n, bool final_dot, struct reach_name *ret_name,
		    const char **ret_reason)
{
	size_t begin = 0, last = 0;

	if (final_dot && n > 1 && text[n - 1] == '.')
		n--;
	*ret_reason = n == 0		   ? "an empty name"
		      : n > REACH_NAME_MAX ? "a name that is too long"
					   : NULL;
	for (size_t i = 0; !*ret_reason && i <= n; i++) {
		if (i < n && text[i] != '.')
			continue;
		*ret_reason = label_fault(text + begin, i - begin);
		last = begin;
		begin = i + 1;
	}
	if (*ret_reason)
		return REACH_MALFORMED;
	if (label_is_number(text + last, n - last)) {
		*ret_reason =
			"an address, or a number that is taken for one; only names are reached";
		return REACH_ADDRESS;
	}
	for (size_t i = 0; i < n; i++)
		ret_name->s[i] =
			text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
	ret_name->s[n] = '\0';
	ret_name->n = n;
	return 0;
}

/* A port in its one spelling, or 0. */
static uint16_t port_read(const char *text, size_t n)
{
	unsigned int port = 0;

	if (n == 0 || n > 5 || text[0] == '0')
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (!is_digit(text[i]))
			return 0;
		port = port * 10 + (unsigned int)(text[i] - '0');
	}
	return port <= UINT16_MAX ? (uint16_t)port : 0;
}

int reach_target_read(const char *text, size_t n, uint16_t fallback,
		      struct reach_target *ret_target, const char **ret_reason)
{
	const char *colon = n ? memchr(text, ':', n) : NULL;

	if (n && text[0] == '[') {
		const char *end = memchr(text, ']', n);

		*ret_reason = end ? "an address; only names are reached" : "not a name and a port";
		return end ? REACH_ADDRESS : REACH_MALFORMED;
	}
	ret_target->port = fallback;
	if (colon)
		ret_target->port = port_read(colon + 1, (size_t)(text + n - colon - 1));
	if (!ret_target->port) {
		*ret_reason = colon ? "not a port" : "a port is missing";
		return REACH_MALFORMED;
	}
	return reach_name_read(text, colon ? (size_t)(colon - text) : n, true, &ret_target->name,
			       ret_reason);
}

/* --- rules ------------------------------------------------------------------------------------ */

static int ports_read(const char *text, size_t n, struct reach_rule *rule)
{
	const char *dash = memchr(text, '-', n);
	size_t first = dash ? (size_t)(dash - text) : n;

	rule->lo = rule->hi = port_read(text, first);
	if (dash)
		rule->hi = port_read(dash + 1, n - first - 1);
	return rule->lo && rule->hi && rule->lo <= rule->hi ? 0 : REACH_MALFORMED;
}

int reach_rule_read(const char *text, size_t n, struct reach_rule *ret_rule,
		    const char **ret_reason)
{
	const char *colon;

	memset(ret_rule, 0, sizeof(*ret_rule));
	if (n > 3 && memmem(text, n, "://", 3)) {
		*ret_reason = "an URL; give the name, and ports behind a colon";
		return REACH_MALFORMED;
	}
	ret_rule->below = n > 2 && text[0] == '*' && text[1] == '.';
	text += ret_rule->below ? 2 : 0;
	n -= ret_rule->below ? 2 : 0;
	if (n && text[0] == '[') {
		*ret_reason = "an address; addresses belong into network.allow";
		return REACH_ADDRESS;
	}
	colon = n ? memchr(text, ':', n) : NULL;
	ret_rule->usual = !colon;
	if (colon && ports_read(colon + 1, (size_t)(text + n - colon - 1), ret_rule)) {
		*ret_reason = "behind the colon goes a port N, or ports N-M, 1 to 65535";
		return REACH_MALFORMED;
	}
	n = colon ? (size_t)(colon - text) : n;
	if (n && text[n - 1] == '.') {
		*ret_reason = "a name without the final dot; it means the same";
		return REACH_MALFORMED;
	}
	if (n && memchr(text, '*', n)) {
		*ret_reason = "a * stands alone before the first dot: `*.example.org`";
		return REACH_MALFORMED;
	}
	return reach_name_read(text, n, false, &ret_rule->name, ret_reason);
}

size_t reach_rule_write(const struct reach_rule *rule, char ret_text[REACH_RULE_SIZE])
{
	size_t n = 0;

	if (rule->below) {
		ret_text[n++] = '*';
		ret_text[n++] = '.';
	}
	n = (size_t)(stpcpy(ret_text + n, rule->name.s) - ret_text);
	if (rule->usual)
		return n;
	n += (size_t)snprintf(ret_text + n, REACH_RULE_SIZE - n, ":%u", rule->lo);
	if (rule->hi != rule->lo)
		n += (size_t)snprintf(ret_text + n, REACH_RULE_SIZE - n, "-%u", rule->hi);
	return n;
}

/* Is name below top: a label border before it, and at least one label more? */
static bool name_is_below(const struct reach_name *name, const struct reach_name *top)
{
	return name->n > top->n + 1 && name->s[name->n - top->n - 1] == '.' &&
	       !memcmp(name->s + name->n - top->n, top->s, top->n);
}

static bool names_equal(const struct reach_name *a, const struct reach_name *b)
{
	return a->n == b->n && !memcmp(a->s, b->s, a->n);
}

bool reach_rule_has_name(const struct reach_rule *rule, const struct reach_name *name)
{
	return rule->below ? name_is_below(name, &rule->name) : names_equal(name, &rule->name);
}

bool reach_rule_has_port(const struct reach_rule *rule, uint16_t port)
{
	if (rule->usual)
		return port == REACH_PORT_HTTP || port == REACH_PORT_HTTPS;
	return port && port >= rule->lo && port <= rule->hi;
}

static bool ports_cover(const struct reach_rule *a, const struct reach_rule *b)
{
	if (b->usual)
		return reach_rule_has_port(a, REACH_PORT_HTTP) &&
		       reach_rule_has_port(a, REACH_PORT_HTTPS);
	if (a->usual)
		return b->lo == b->hi && reach_rule_has_port(a, b->lo);
	return a->lo <= b->lo && b->hi <= a->hi;
}

bool reach_rule_covers(const struct reach_rule *a, const struct reach_rule *b)
{
	if (!ports_cover(a, b))
		return false;
	if (!b->below)
		return reach_rule_has_name(a, &b->name);
	return a->below && (names_equal(&a->name, &b->name) || name_is_below(&b->name, &a->name));
}

enum reach_verdict reach_decide_target(const char *domains, size_t size,
				       const struct reach_target *target)
{
	enum reach_verdict verdict = REACH_NO_NAME;
	const char *reason;

	for (size_t at = 0; at < size;) {
		size_t n = strnlen(domains + at, size - at);
		struct reach_rule rule;

		if (n == size - at)
			break; /* without its end: cut short */
		if (reach_rule_read(domains + at, n, &rule, &reason) == 0 &&
		    reach_rule_has_name(&rule, &target->name)) {
			if (reach_rule_has_port(&rule, target->port))
				return REACH_YES;
			verdict = REACH_NO_PORT;
		}
		at += n + 1;
	}
	return verdict;
}
