// SPDX-License-Identifier: Apache-2.0
/* See forward.h. The head was read strictly before: lines end in CR LF, names are tokens, none is folded. */
#include "proxy/forward.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "util/util.h"

struct writer {
	char *p;
	size_t n;
};

static void put(struct writer *w, const char *p, size_t n)
{
	memcpy(w->p + w->n, p, n);
	w->n += n;
}

static void put_text(struct writer *w, const char *text)
{
	put(w, text, strlen(text));
}

static bool is_word(const char *p, size_t n, const char *word)
{
	return n == strlen(word) && !strncasecmp(p, word, n);
}

/* Between two who are connected, and ours to say. */
static bool is_hop(const char *name, size_t n)
{
	static const char *const hops[] = {
		"connection", "proxy-connection", "keep-alive", "proxy-authorization",
		"te",	      "trailer",	  "upgrade",	"transfer-encoding",
		"host",	      "http2-settings",
	};

	for (size_t i = 0; i < ARRAY_SIZE(hops); i++)
		if (is_word(name, n, hops[i]))
			return true;
	return false;
}

/* The line at p, without its end; *ret_next: the line after it. */
static size_t line_size(const char *p, const char *end, const char **ret_next)
{
	const char *lf = memchr(p, '\n', (size_t)(end - p));

	*ret_next = lf ? lf + 1 : end;
	return lf ? (size_t)(lf - p) - 1 : (size_t)(end - p);
}

/*
 * What proxies say of who asked whom, and servers go by in the place of Host: ours to say, and we say nothing of it but Via. Names that
 * end with - stand for all that begin so.
 */
static bool is_routing(const char *name, size_t n)
{
	static const char *const names[] = {
		"via",	       "forwarded",    "x-forwarded-", "x-original-",
		"x-rewrite-",  "x-host",       "x-real-ip",    "x-client-ip",
		"x-http-host", "x-http-host-", "x-proxy-host",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t size = strlen(names[i]);

		if (is_word(name, n, names[i]) ||
		    (names[i][size - 1] == '-' && n > size && !strncasecmp(name, names[i], size)))
			return true;
	}
	return false;
}

/* Does a list of words have the name? */
static bool list_has(const char *p, size_t n, const char *name, size_t name_n)
{
	const char *end = p + n;

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		const char *stop = comma ? comma : end, *last = stop;

		while (p < last && strchr(" \t", *p))
			p++;
		while (last > p && strchr(" \t", last[-1]))
			last--;
		if ((size_t)(last - p) == name_n && !strncasecmp(p, name, name_n))
			return true;
		p = comma ? comma + 1 : end;
	}
	return false;
}

/* Is the name in one of the Connection headers of the head? */
static bool is_named(const char *lines, const char *end, const char *name, size_t name_n)
{
	const char *next;

	for (const char *p = lines; p < end; p = next) {
		size_t n = line_size(p, end, &next);
		const char *colon = memchr(p, ':', n);

		if (colon && is_word(p, (size_t)(colon - p), "connection") &&
		    list_has(colon + 1, n - (size_t)(colon + 1 - p), name, name_n))
			return true;
	}
	return false;
}

/* What frames the message is needed for as long as there is a body, whatever Connection says. */
static bool goes_on(const char *lines, const char *end, const char *name, size_t n)
{
	return is_word(name, n, "content-length") ||
	       (!is_hop(name, n) && !is_routing(name, n) && !is_named(lines, end, name, n));
}

size_t forward_head(const char *bytes, size_t n, const struct head *head,
		    const struct reach_target *target, char *ret_head)
{
	struct writer w = { .p = ret_head };
	const char *end = bytes + n, *lines, *next;
	char port[16];

	line_size(bytes, end, &lines);
	put(&w, head->name.p, head->name.n);
	put_text(&w, head->path.n && head->path.p[0] == '/' ? " " : " /");
	put(&w, head->path.p, head->path.n);
	put_text(&w, head->minor ? " HTTP/1.1\r\nHost: " : " HTTP/1.0\r\nHost: ");
	put(&w, target->name.s, target->name.n);
	snprintf(port, sizeof(port), ":%u", target->port);
	put_text(&w, target->port == REACH_PORT_HTTP ? "" : port);
	put_text(&w, "\r\nConnection: close\r\nVia: 1.1 cordon\r\n");
	for (const char *p = lines; p < end; p = next) {
		size_t size = line_size(p, end, &next);
		const char *colon = memchr(p, ':', size);

		if (colon && goes_on(lines, end, p, (size_t)(colon - p)))
			put(&w, p, (size_t)(next - p));
	}
	put_text(&w, "\r\n");
	return w.n;
}
