// SPDX-License-Identifier: Apache-2.0
/* See filter.h. Requests by a list of what may pass; answers, which the fence may see, by a list of what may not. */
#include "broker/filter.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* strchr() finds the end of the list, too: what came from outside may hold it. */
static bool is_one_of(const char *list, char c)
{
	return c && strchr(list, c);
}

static bool is_word(const char *word, const char *text, size_t size)
{
	return strlen(word) == size && !strncasecmp(word, text, size);
}

static bool is_listed(const char *const *list, const char *text, size_t size)
{
	for (; *list; list++)
		if (is_word(*list, text, size))
			return true;
	return false;
}

/* --- requests --------------------------------------------------------------------------------- */

const struct gwconf_access *filter_access(const struct gwconf_upstream *upstream,
					  const char *method, size_t method_n, const char *path,
					  size_t path_n, filter_has_fn *has, const void *who,
					  const struct gwconf_access **ret_lacking)
{
	unsigned int bit = 0;

	*ret_lacking = NULL;
	for (unsigned int i = 0; gwconf_up_methods[i]; i++)
		if (strlen(gwconf_up_methods[i]) == method_n &&
		    !memcmp(gwconf_up_methods[i], method, method_n))
			bit = 1U << i;
	for (size_t i = 0; i < upstream->n_access; i++) {
		const struct gwconf_access *access = &upstream->access[i];
		bool matches = false;

		for (size_t k = 0; (access->methods & bit) && k < access->paths.n; k++)
			matches |= gwconf_path_matches(access->paths.v[k], path, path_n);
		if (!matches)
			continue;
		if (has(who, access->scope))
			return access;
		if (!*ret_lacking)
			*ret_lacking = access;
	}
	return NULL;
}

const char *filter_subject_header(const struct gwconf_upstream *upstream)
{
	if (upstream->subject == GWCONF_SERVICE)
		return NULL;
	return upstream->subject_header ? upstream->subject_header : GWCONF_SUBJECT_HEADER;
}

bool filter_request_header(const struct gwconf_upstream *upstream, const char *name, size_t size)
{
	static const char *const always[] = { "accept",
					      "accept-language",
					      "content-type",
					      "content-encoding",
					      "content-language",
					      "user-agent",
					      "if-match",
					      "if-none-match",
					      "if-modified-since",
					      "if-unmodified-since",
					      "prefer",
					      "cache-control",
					      "idempotency-key",
					      "x-request-id",
					      "traceparent",
					      "tracestate",
					      "last-event-id",
					      "git-protocol",
					      NULL };
	/* Bytes of the fence's choosing would show a secret in pieces, in which none is found. */
	static const char *const pieces[] = { "range", "if-range", NULL };
	const char *own = upstream->credential.header, *whom = upstream->subject_header;

	if (!gwconf_header_may_pass(name, size) || (own && is_word(own, name, size)) ||
	    (whom && is_word(whom, name, size)))
		return false;
	if (is_listed(always, name, size) ||
	    (!upstream->has_credential && is_listed(pieces, name, size)))
		return true;
	for (size_t i = 0; i < upstream->headers.n; i++)
		if (is_word(upstream->headers.v[i], name, size))
			return true;
	return false;
}

static int hex(char c)
{
	return c >= '0' && c <= '9'		    ? c - '0'
	       : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
						    : -1;
}

/* The next byte of a parameter's name. */
static int decoded(const char **p, size_t *n)
{
	int c = (unsigned char)**p;
	size_t took = 1;

	if (c == '%' && *n >= 3 && hex((*p)[1]) >= 0 && hex((*p)[2]) >= 0) {
		c = hex((*p)[1]) * 16 + hex((*p)[2]);
		took = 3;
	}
	*p += took;
	*n -= took;
	return c;
}

/* As those read it for whom names have no case, and these are one (PHP). */
static int folded(int c)
{
	return is_one_of(". +[", (char)c) ? '_' : c >= 'A' && c <= 'Z' ? c + 0x20 : c;
}

/* Is the text before an equal sign the name, decoded and folded, without what some take off it? */
static bool parameter_is(const char *p, size_t n, const char *name)
{
	while (n && (*p == '+' || (n >= 3 && !memcmp(p, "%20", 3)))) {
		n -= *p == '+' ? 1 : 3;
		p += *p == '+' ? 1 : 3;
	}
	for (; n && *name; name++)
		if (folded(decoded(&p, &n)) != folded((unsigned char)*name))
			return false;
	if (*name || n == 0)
		return !*name;
	/* name[] and the like are the same to some; for others a NUL ends it. */
	n = (size_t)decoded(&p, &n);
	return n == '[' || n == 0;
}

bool filter_query_names(const char *query, size_t size, const char *name)
{
	const char *end = query + size;

	while (size && query < end) {
		size_t n = 0, left = (size_t)(end - query), key;

		while (n < left && query[n] != '&' && query[n] != ';')
			n++;
		for (key = 0; key < n && query[key] != '=';)
			key++;
		if (parameter_is(query, key, name))
			return true;
		query += n < left ? n + 1 : n;
	}
	return false;
}

/* --- where an answer sends the client ----------------------------------------------------------- */

/* The path that the upstream's URL ends with, behind scheme, host and port; "" without one. */
static const char *base_path(const struct gwconf_upstream *upstream)
{
	const char *host = strstr(upstream->url, "://");

	host = host ? host + 3 : upstream->url;
	return host + strcspn(host, "/");
}

static const char *behind_path(const struct gwconf_upstream *upstream, const char *p, size_t n)
{
	const char *path = base_path(upstream);
	size_t base = strlen(path);

	if (n < base || memcmp(p, path, base) != 0 || (n > base && !is_one_of("/?#", p[base])))
		return NULL;
	return p + base;
}

/* What follows the upstream's URL in another; NULL: it is not below it. */
static const char *behind_base(const struct gwconf_upstream *upstream, const char *p, size_t n)
{
	size_t host = (size_t)(base_path(upstream) - upstream->url);

	if (n < host || strncasecmp(p, upstream->url, host) != 0)
		return NULL;
	return behind_path(upstream, p + host, n - host);
}

char *filter_location(const struct gwconf_upstream *upstream, const char *value, size_t size)
{
	const char *rest = behind_base(upstream, value, size), *end = value + size;
	size_t scheme;
	char *out;

	for (size_t i = 0; i < size; i++)
		if ((unsigned char)value[i] <= 0x20 || (unsigned char)value[i] >= 0x7f ||
		    is_one_of("\\<>\"", value[i]))
			return NULL;
	if (!rest && size && value[0] == '/' && (size == 1 || value[1] != '/'))
		rest = behind_path(upstream, value, size);
	if (rest)
		return asprintf(&out, "/up/%s%s%.*s", upstream->name,
				rest < end && *rest == '/' ? "" : "/", (int)(end - rest), rest) < 0
			       ? NULL
			       : out;
	/* Relative to where the client is: no scheme, no host. */
	for (scheme = 0; scheme < size && !is_one_of("/?#:", value[scheme]);)
		scheme++;
	if (size == 0 || value[0] == '/' || (scheme < size && value[scheme] == ':'))
		return NULL;
	return strndup(value, size);
}

/* --- answers ---------------------------------------------------------------------------------- */

void filter_take(struct filter_answer *answer, const char *line, size_t size)
{
	char *grown;

	while (size && is_one_of("\r\n", line[size - 1]))
		size--;
	if (size >= 5 && !memcmp(line, "HTTP/", 5) && (answer->ended || answer->n == 0)) {
		answer->n = 0;
		answer->length = -1;
		answer->encoded = answer->framed = answer->ended = false;
		return;
	}
	if (size == 0) {
		answer->ended = true;
		return;
	}
	if (answer->n + size + 1 > FILTER_HEAD_MAX) {
		answer->too_long = true;
		return;
	}
	grown = realloc(answer->lines, answer->n + size + 1);
	if (!grown) {
		answer->too_long = true;
		return;
	}
	answer->lines = grown;
	memcpy(grown + answer->n, line, size);
	grown[answer->n + size] = '\n';
	answer->n += size + 1;
}

void filter_release(struct filter_answer *answer)
{
	free(answer->lines);
	memset(answer, 0, sizeof(*answer));
}

struct line {
	const char *name, *value;
	size_t name_n, value_n;
};

/* The next line of an answer that is a header; false: there are no more. */
static bool next_line(const char **p, const char *end, struct line *ret_line)
{
	while (*p < end) {
		const char *line = *p, *lf = memchr(line, '\n', (size_t)(end - line));
		const char *colon = memchr(line, ':', (size_t)(lf - line));
		bool good = colon && colon > line;

		*p = lf + 1;
		for (const char *c = line; good && c < colon; c++)
			good = (*c >= '0' && *c <= '9') || ((*c | 32) >= 'a' && (*c | 32) <= 'z') ||
			       is_one_of("!#$%&'*+-.^_`|~", *c);
		for (const char *c = colon; good && c < lf; c++)
			good = ((unsigned char)*c >= 0x20 || *c == '\t') && *c != 0x7f;
		if (!good)
			continue;
		*ret_line = (struct line){ .name = line, .name_n = (size_t)(colon - line) };
		for (colon++; colon < lf && is_one_of(" \t", *colon);)
			colon++;
		while (lf > colon && is_one_of(" \t", lf[-1]))
			lf--;
		ret_line->value = colon;
		ret_line->value_n = (size_t)(lf - colon);
		return true;
	}
	return false;
}

/* Does a Connection header of the answer name it? Then it is for the hop alone. */
static bool hop_names(const struct filter_answer *answer, const char *name, size_t size)
{
	const char *p = answer->lines ? answer->lines : "", *end = p + answer->n;
	struct line line;

	while (next_line(&p, end, &line)) {
		if (!is_word("connection", line.name, line.name_n))
			continue;
		for (size_t i = 0; i < line.value_n;) {
			size_t n = 0;

			while (i + n < line.value_n && !is_one_of(", \t", line.value[i + n]))
				n++;
			if (n == size && n && !strncasecmp(line.value + i, name, n))
				return true;
			i += n ? n : 1;
		}
	}
	return false;
}

static bool stays(const struct filter_answer *answer, const char *name, size_t size)
{
	static const char *const list[] = {
		/* of the hop, and the gateway's own */
		"connection", "keep-alive", "proxy-connection", "proxy-authenticate",
		"proxy-authentication-info", "te", "trailer", "transfer-encoding", "upgrade",
		"content-length",
		/* credentials, and what asks for them */
		"set-cookie", "set-cookie2", "www-authenticate", "authentication-info",
		"authorization", "cookie",
		/* ways elsewhere */
		"alt-svc", "refresh", "content-location", "strict-transport-security",
		"public-key-pins", "clear-site-data", NULL
	};

	return is_listed(list, name, size) || hop_names(answer, name, size);
}

static void note(struct filter_answer *answer, const struct line *line)
{
	bool encodes = is_word("transfer-encoding", line->name, line->name_n);
	long long length = 0;

	answer->framed |= encodes;
	encodes &= !is_word("chunked", line->value, line->value_n);
	if (encodes || is_word("content-encoding", line->name, line->name_n))
		answer->encoded |= !is_word("identity", line->value, line->value_n);
	if (!is_word("content-length", line->name, line->name_n) || line->value_n == 0 ||
	    line->value_n > 18)
		return;
	for (size_t i = 0; i < line->value_n; i++) {
		if (line->value[i] < '0' || line->value[i] > '9')
			return;
		length = length * 10 + (line->value[i] - '0');
	}
	answer->length = length;
}

/* The targets of a Link header that are the upstream's, below /up/NAME. To be freed; NULL when memory ends. */
static char *rewrite_link(const struct gwconf_upstream *upstream, const char *p, size_t n)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	const char *end = p + n;

	if (!out)
		return NULL;
	while (p < end) {
		const char *open = memchr(p, '<', (size_t)(end - p));
		const char *close = open ? memchr(open, '>', (size_t)(end - open)) : NULL;
		char *target;

		if (!close) {
			fwrite(p, 1, (size_t)(end - p), out);
			break;
		}
		fwrite(p, 1, (size_t)(open + 1 - p), out);
		target = filter_location(upstream, open + 1, (size_t)(close - open - 1));
		fputs(target ? target : "about:blank", out);
		free(target);
		fputc('>', out);
		p = close + 1;
	}
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static int print_line(FILE *out, const struct gwconf_upstream *upstream, struct scrub *scrub,
		      const struct line *line)
{
	const char *value = line->value, *clean;
	size_t size = line->value_n, clean_n;
	_cleanup_free_ char *other = NULL;
	int r = 0;

	if (is_word("location", line->name, line->name_n)) {
		other = filter_location(upstream, value, size);
		if (!other) {
			fputs("Cordon-Location: withheld, another host\r\n", out);
			return 0;
		}
	} else if (is_word("link", line->name, line->name_n)) {
		other = rewrite_link(upstream, value, size);
		if (!other)
			return -ENOMEM;
	}
	if (other) {
		value = other;
		size = strlen(other);
	}
	scrub_reset(scrub);
	r = scrub_feed(scrub, line->name, line->name_n, true, &clean, &clean_n);
	if (r == 0)
		fprintf(out, "%.*s: ", (int)clean_n, clean);
	scrub_reset(scrub);
	if (r == 0)
		r = scrub_feed(scrub, value, size, true, &clean, &clean_n);
	if (r == 0)
		fprintf(out, "%.*s\r\n", (int)clean_n, clean);
	scrub_reset(scrub);
	return r;
}

char *filter_print(struct filter_answer *answer, const struct gwconf_upstream *upstream,
		   struct scrub *scrub)
{
	const char *p = answer->lines ? answer->lines : "", *end = p + answer->n;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct line line;
	int r = 0;

	if (!out)
		return NULL;
	while (r == 0 && next_line(&p, end, &line)) {
		note(answer, &line);
		if (!stays(answer, line.name, line.name_n))
			r = print_line(out, upstream, scrub, &line);
	}
	if (answer->framed)
		answer->length = -1;
	if (fclose(out) != 0 || r < 0) {
		free(text);
		return NULL;
	}
	return text;
}
