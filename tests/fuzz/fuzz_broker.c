// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target of what passes through the credential broker: answers of upstreams, in which no spelling of the secret may be left
 * however they are cut, and requests of fences, which reach only what the patterns open. The first byte says which; the corpus is
 * tests/fuzz/corpus/broker.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "broker/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise stops the run like a crash does. */
#define MUST(condition)                   \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

static const char secret[] = "s3cr3t/+\"%\\x";
#define SECRET_N (sizeof(secret) - 1)

static struct gwconf_upstream upstream = {
	.name = (char *)"u",
	.url = (char *)"http://h:1",
	.credential = { .header = (char *)"X-Key" },
};

/* All that goes out of a stream, cut after each `step` bytes; as many bytes as went in. */
static char *run(const char *p, size_t n, size_t step, bool *ret_seen)
{
	struct scrub scrub = { .n_held = 0 };
	char *all = malloc(n + 1);
	const char *out;
	size_t out_n, at = 0;

	MUST(all && scrub_add(&scrub, secret, SECRET_N) == 0);
	for (size_t i = 0; i < n; i += step) {
		size_t now = n - i < step ? n - i : step;

		MUST(scrub_feed(&scrub, p + i, now, false, &out, &out_n) == 0 && at + out_n <= n);
		memcpy(all + at, out, out_n);
		at += out_n;
	}
	MUST(scrub_feed(&scrub, NULL, 0, true, &out, &out_n) == 0 && at + out_n == n);
	memcpy(all + at, out, out_n);
	all[n] = '\0';
	*ret_seen = scrub.seen != 0;
	scrub_release(&scrub);
	return all;
}

static void judge_body(const char *p, size_t n)
{
	struct scrub_forms forms = { .n = 0 };
	bool seen, seen_cut;
	char *whole = run(p, n, n ? n : 1, &seen);
	size_t form;

	/* What looks for placeholders finds where what hides secrets hides, however it is cut. */
	MUST(scrub_forms_add(&forms, secret, SECRET_N) == 0);
	MUST(scrub_forms_find(&forms, p, n, &form) == seen);
	scrub_forms_release(&forms);
	MUST(!memmem(whole, n, secret, SECRET_N));
	for (size_t i = 0; i < n; i++)
		MUST(whole[i] == p[i] || whole[i] == '*');
	for (size_t step = 1; step < 8; step++) {
		char *cut = run(p, n, step, &seen_cut);

		MUST(!memcmp(cut, whole, n) && seen == seen_cut);
		free(cut);
	}
	free(whole);
}

static void judge_location(const char *p, size_t n, bool below)
{
	struct gwconf_upstream one = upstream;
	char *to;

	if (below)
		one.url = (char *)"http://h:1/p";
	to = filter_location(&one, p, n);
	/* What is not below its path leads nowhere. */
	MUST(!below || !to || to[0] != '/' || memmem(p, n, "/p", 2));

	/* Below /up/u, or relative to where the client is. */
	if (to && to[0] == '/')
		MUST(!strncmp(to, "/up/u/", 6));
	else if (to)
		MUST(to[0] != '\\' && strcspn(to, ":") >= strcspn(to, "/?#"));
	free(to);
}

static void judge_head(const char *p, size_t n)
{
	struct filter_answer answer = { .length = -1 };
	struct scrub scrub = { .n_held = 0 };
	char *text;

	MUST(scrub_add(&scrub, secret, SECRET_N) == 0);
	while (n) {
		const char *lf = memchr(p, '\n', n);
		size_t line = lf ? (size_t)(lf + 1 - p) : n;

		filter_take(&answer, p, line);
		p += line;
		n -= line;
	}
	text = filter_print(&answer, &upstream, &scrub);
	MUST(text && !strstr(text, secret) && !strcasestr(text, "\nset-cookie:") &&
	     !strcasestr(text, "\ntransfer-encoding:") &&
	     strncasecmp(text, "content-length:", 15) != 0);
	/* Lines end with CR and LF, and have no others. */
	for (const char *c = text; *c; c++)
		MUST((*c != '\n' || (c > text && c[-1] == '\r')) && (*c != '\r' || c[1] == '\n'));
	free(text);
	filter_release(&answer);
	scrub_release(&scrub);
}

static bool none(const void *who, const char *scope)
{
	(void)who;
	return !strcmp(scope, "a");
}

static void judge_request(const char *p, size_t n)
{
	static char *patterns[] = { (char *)"/a/*/b", (char *)"/v1/**" };
	struct gwconf_upstream open = upstream;
	const struct gwconf_access *access, *lacking;
	bool first, rest;

	open.n_access = 1;
	open.access[0] = (struct gwconf_access){ .scope = (char *)"a",
						 .methods = 1,
						 .paths = { .v = patterns, .n = 2 } };
	access = filter_access(&open, "GET", 3, p, n, none, NULL, &lacking);
	first = n >= 6 && !memcmp(p, "/a/", 3) && !memcmp(p + n - 2, "/b", 2) &&
		!memchr(p + 3, '/', n - 5);
	rest = (n == 3 && !memcmp(p, "/v1", 3)) || (n > 3 && !memcmp(p, "/v1/", 4));
	MUST((access != NULL) == (first || rest) && !lacking);
	MUST(!filter_access(&open, "POST", 4, p, n, none, NULL, &lacking));
	if (filter_request_header(&upstream, p, n))
		MUST(strncasecmp(p, "x-key", n) != 0 && strncasecmp(p, "cookie", n) != 0);
	filter_query_names(p, n, "access_token");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy;

	if (size < 1 || size > 4096)
		return 0;
	/* A buffer of its own, so that a byte too many is seen. */
	copy = malloc(size > 1 ? size - 1 : 1);
	MUST(copy);
	memcpy(copy, data + 1, size - 1);
	switch (data[0] % 4) {
	case 0:
		judge_body(copy, size - 1);
		break;
	case 1:
		judge_head(copy, size - 1);
		break;
	case 2:
		judge_location(copy, size - 1, data[0] & 4);
		break;
	default:
		judge_request(copy, size - 1);
	}
	free(copy);
	return 0;
}
