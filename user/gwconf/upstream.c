// SPDX-License-Identifier: Apache-2.0
/*
 * Upstreams: where they are, what each scope opens of them, and which credential is shown there. No privilege, no look at the
 * system: whether a secret can be had is found out by who needs it. Patterns that can never match are faults.
 */
#define _GNU_SOURCE 1
#include "gwconf/upstream.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

const char *const gwconf_up_methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", NULL };
static const char *const subject_words[] = { "on_behalf_of", "service", NULL };
static const char *const once_words[] = { "not", "key", "grant", NULL };

void gwconf_upstream_release(struct gwconf_upstream *upstream)
{
	struct gwconf_credential *credential = &upstream->credential;
	char *texts[] = {
		upstream->name,
		upstream->url,
		upstream->ca,
		upstream->subject_header,
		upstream->canary.file,
		upstream->canary.prefix,
		credential->header,
		credential->prefix,
		credential->query,
		credential->basic,
		credential->systemd,
		credential->oauth.token_url,
		credential->oauth.client,
		credential->oauth.scope,
		credential->sigv4.region,
		credential->sigv4.service,
		credential->source.file,
		credential->source.env,
		credential->vault.url,
		credential->vault.path,
		credential->vault.field,
		credential->vault.token_file,
		credential->vault.ca,
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		free(texts[i]);
	for (size_t i = 0; i < upstream->n_access; i++) {
		free(upstream->access[i].scope);
		conf_strings_free(&upstream->access[i].paths);
	}
	conf_strings_free(&upstream->headers);
}

/* --- patterns --------------------------------------------------------------------------------- */

bool gwconf_path_matches(const char *pattern, const char *path, size_t size)
{
	const char *end = path + size;

	while (*pattern == '/' && path < end && *path == '/') {
		size_t want = strcspn(pattern + 1, "/"), have;
		const char *slash = memchr(path + 1, '/', (size_t)(end - path - 1));

		have = (size_t)((slash ? slash : end) - path) - 1;
		if (!strcmp(pattern + 1, "**"))
			return true;
		if (want == 1 && pattern[1] == '*'
			    ? have == 0
			    : want != have || memcmp(pattern + 1, path + 1, have) != 0)
			return false;
		pattern += 1 + want;
		path += 1 + have;
	}
	/* A pattern that ends with two stars matches what stands before them, too. */
	return path == end && (!*pattern || !strcmp(pattern, "/**"));
}

/* Percent signs as a path has them: of what cannot stand there plainly, and has one reading (head.h). */
static bool percents_are_good(const char *p, size_t n, const char *marks)
{
	for (size_t i = 0; i < n; i++) {
		char digits[3] = "", *end;
		long c;

		if (p[i] != '%')
			continue;
		if (n - i < 3 || !isxdigit((unsigned char)p[i + 1]))
			return false;
		memcpy(digits, p + i + 1, 2);
		c = strtol(digits, &end, 16);
		if (*end || c < 0x20 || c == 0x7f || strchr(marks, (int)c) ||
		    strchr("/\\?", (int)c))
			return false;
	}
	return true;
}

static const char *pattern_fault(const char *text)
{
	static const char marks[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "-._~!$&'()+,;=:@%";

	if (text[0] != '/' || strlen(text) > 256)
		return "begins with / and has at most 256 bytes";
	for (const char *p = text; *p;) {
		size_t n = strcspn(p + 1, "/");
		bool star = memchr(p + 1, '*', n) != NULL;

		if (n == 0 && (p != text || p[1]))
			return "has an empty part, which no path has";
		if (n && util_part_is_hollow(p + 1, n))
			return "has dots or an empty part, which no path has";
		if (star && n == 2 && !strcmp(p + 1, "**"))
			return NULL;
		if (star && !(n == 1 && p[1] == '*'))
			return "takes `*` as a whole part, and `**` as the last one";
		if (!star && (strspn(p + 1, marks) < n || !percents_are_good(p + 1, n, marks)))
			return "has characters that no path has";
		p += 1 + n;
	}
	return NULL;
}

static void read_paths(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	struct conf_strings *paths = (struct conf_strings *)((char *)base + key->offset);

	conf_read_texts(reader, key, value, base);
	for (size_t i = 0; i < paths->n; i++) {
		const char *fault = pattern_fault(paths->v[i]);

		if (fault)
			conf_reader_fault(reader, paths->mark[i], "`%s`: a pattern %s",
					  conf_quote(paths->v[i]).s, fault);
	}
	if (value->kind == CONF_NODE_LIST && value->n == 0)
		conf_reader_fault(reader, value->mark, "an empty list opens nothing");
}

static void read_methods(struct conf_reader *reader, const struct conf_key *key,
			 const struct conf_node *value, void *base)
{
	unsigned int *bits = (unsigned int *)((char *)base + key->offset);
	struct conf_strings words = { .n = 0 };
	const struct conf_key list = { .offset = 0, .max = 6, .expects = key->expects };

	conf_read_texts(reader, &list, value, &words);
	for (size_t i = 0; i < words.n; i++) {
		size_t k = 0;

		while (gwconf_up_methods[k] && strcmp(gwconf_up_methods[k], words.v[i]) != 0)
			k++;
		if (gwconf_up_methods[k])
			*bits |= 1U << k;
		else
			conf_reader_fault(reader, words.mark[i],
					  "`%s` is none of GET, HEAD, POST, PUT, PATCH, DELETE",
					  conf_quote(words.v[i]).s);
	}
	if (value->kind == CONF_NODE_LIST && value->n == 0)
		conf_reader_fault(reader, value->mark, "an empty list opens nothing");
	conf_strings_free(&words);
}

/* --- single values ---------------------------------------------------------------------------- */

static void read_scope(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "a scope");
	size_t n = text ? strlen(text) : 0;

	if (!text)
		return;
	for (size_t i = 0; i < n; i++)
		if ((text[i] & 0x80) ||
		    (!isalnum((unsigned char)text[i]) && !(i && strchr("._:-", text[i]))))
			n = 0;
	if (n == 0 || n > 64)
		conf_reader_fault(reader, value->mark,
				  "`%s` is not a scope: 1 to 64 letters, digits, `.`, `_`, `:`, "
				  "`-`, e.g. code:read",
				  conf_quote(text).s);
	else
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

static void read_url(struct conf_reader *reader, const struct conf_key *key,
		     const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, "a URL"), *host, *path;
	size_t n;

	if (!text)
		return;
	host = !strncmp(text, "https://", 8)  ? text + 8
	       : !strncmp(text, "http://", 7) ? text + 7
					      : "";
	n = strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.:[]");
	/* max 1: with a path; min 1: of one spelling, which others are put behind. */
	path = host + n;
	if (n && host[n] == '/' && key->max)
		n += strspn(host + n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-._~/");
	if (n == 0 || host[0] == '/' || host[n] || strlen(text) > 255 ||
	    (key->min && *path && (!path[1] || pattern_fault(path))))
		conf_reader_fault(
			reader, value->mark,
			key->min ? "expects http[s]://HOST[:PORT][/PATH] without user, query, dots "
				   "or "
				   "a slash at the end"
			: key->max ? "expects http[s]://HOST[:PORT][/PATH] without user or query"
				   : "expects http[s]://HOST[:PORT] without user, path or query");
	else
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

static bool token_is_good(const char *text, size_t size)
{
	if (size == 0 || size > 64)
		return false;
	for (size_t i = 0; i < size; i++)
		if (!isascii(text[i]) || !(isalnum((unsigned char)text[i]) || text[i] == '-'))
			return false;
	return true;
}

static bool header_is_one_of(const char *name, size_t size, const char *const *list)
{
	for (; *list; list++) {
		size_t n = strlen(*list);

		/* One that ends with - stands for all that begin so. */
		if (((*list)[n - 1] == '-' ? size > n : size == n) && !strncasecmp(name, *list, n))
			return true;
	}
	return false;
}

bool gwconf_header_may_pass(const char *name, size_t size)
{
	static const char *const never[] = {
		/* what frames and routes the message */
		"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te",
		"trailer", "upgrade", "expect", "http2-settings", "via", "forwarded",
		"x-forwarded-", "x-real-ip", "x-client-ip", "x-original-", "x-rewrite-",
		"x-http-method", "x-http-method-override", "x-method-override", "accept-encoding",
		/* what is a credential */
		"authorization", "proxy-", "cookie", "cookie2",
		/* what the gateway alone says */
		"cordon-", NULL
	};

	return token_is_good(name, size) && !header_is_one_of(name, size, never);
}

static void read_headers(struct conf_reader *reader, const struct conf_key *key,
			 const struct conf_node *value, void *base)
{
	struct conf_strings *headers = (struct conf_strings *)((char *)base + key->offset);

	conf_read_texts(reader, key, value, base);
	for (size_t i = 0; i < headers->n; i++)
		if (!gwconf_header_may_pass(headers->v[i], strlen(headers->v[i])))
			conf_reader_fault(
				reader, headers->mark[i],
				"`%s` is no header that a fence may set: it frames, routes "
				"or authenticates",
				conf_quote(headers->v[i]).s);
}

static void read_header(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	static const char *const framing[] = { "host",	       "content-length",
					       "content-type", "transfer-encoding",
					       "connection",   "expect",
					       "te",	       "upgrade",
					       "trailer",      NULL };
	const char *text = conf_reader_text(reader, value, "a header");

	if (!text)
		return;
	if (!token_is_good(text, strlen(text)) || header_is_one_of(text, strlen(text), framing))
		conf_reader_fault(reader, value->mark, "`%s` is not a header for a credential",
				  conf_quote(text).s);
	else
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

/* Printable ASCII; min 1: without blanks, colons and what a URL or a query would read otherwise. */
static void read_plain(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, key->expects);
	bool good = text && text[0] && strlen(text) <= 256;

	if (!text)
		return;
	for (const char *p = text; *p; p++)
		good &= *p >= 0x20 && *p <= 0x7e &&
			!(key->min && (*p == ' ' || strchr(":/?#&=%+\"\\<>", *p)));
	if (!good)
		conf_reader_fault(reader, value->mark, "`%s` is not %s", conf_quote(text).s,
				  key->expects);
	else
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

/* Part of a path or a name in a place of secrets: {subject} and {tenant} stand for the caller's. */
static void read_place(struct conf_reader *reader, const struct conf_key *key,
		       const struct conf_node *value, void *base)
{
	const char *text = conf_reader_text(reader, value, key->expects);
	bool file = key->min; /* an absolute path */

	if (!text)
		return;
	for (const char *p = text; *p; p++) {
		if (*p == '{' && strncmp(p, "{subject}", 9) != 0 &&
		    strncmp(p, "{tenant}", 8) != 0) {
			conf_reader_fault(reader, value->mark,
					  "`%s`: only {subject} and {tenant} stand for something",
					  conf_quote(text).s);
			return;
		}
		if (*p <= 0x20 || *p > 0x7e || (!file && strchr("?#%\\\"", *p))) {
			conf_reader_fault(reader, value->mark, "`%s` is not %s", conf_quote(text).s,
					  key->expects);
			return;
		}
	}
	if (file ? text[0] != '/' : (!text[0] || text[0] == '/' || strstr(text, "..")))
		conf_reader_fault(reader, value->mark, "`%s` is not %s", conf_quote(text).s,
				  key->expects);
	else
		*(char **)((char *)base + key->offset) = conf_reader_copy(reader, text);
}

/* --- the rows --------------------------------------------------------------------------------- */

#define UP(member) .offset = offsetof(struct gwconf_upstream, member)
#define ACCESS(member) .offset = offsetof(struct gwconf_access, member)

static const struct conf_key access_keys[] = {
	{ "scope", read_scope, ACCESS(scope), .required = true, .expects = "a scope",
	  .doc = "what the fence must hold" },
	{ "methods", read_methods, ACCESS(methods), .required = true,
	  .expects = "a list of `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE`",
	  .doc = "what it may do there" },
	{ "paths", read_paths, ACCESS(paths), .required = true, .expects = "a list of patterns",
	  .max = GWCONF_PATHS_MAX,
	  .doc = "where: `*` is any one part of a path, `**` at the end the rest, e.g. "
		 "`/repos/*/issues`, `/v1/**`" },
	{ "once", conf_read_word, ACCESS(once), .words = once_words,
	  .expects = "`not`, `key` or `grant`", .fallback = "`not`",
	  .doc = "what is dangerous: one request that may have had an effect for each "
		 "`Idempotency-Key`, or for each grant in `Cordon-Grant`" },
	CONF_KEYS_END,
};

static const struct conf_key oauth_keys[] = {
	{ "token_url", read_url, UP(credential.oauth.token_url), .required = true, .max = 1,
	  .expects = "a URL", .doc = "where the token is had" },
	{ "client", read_plain, UP(credential.oauth.client), .required = true, .min = 1,
	  .expects = "a client's name", .doc = "name of the client; the secret is its own" },
	{ "scope", read_plain, UP(credential.oauth.scope), .expects = "text", .fallback = "none",
	  .doc = "what is asked for" },
	CONF_KEYS_END,
};

static const struct conf_key sigv4_keys[] = {
	{ "region", read_plain, UP(credential.sigv4.region), .required = true, .min = 1,
	  .expects = "a region", .doc = "region of the signature" },
	{ "service", read_plain, UP(credential.sigv4.service), .required = true, .min = 1,
	  .expects = "a service", .doc = "service of the signature, e.g. `execute-api`" },
	CONF_KEYS_END,
};

static const struct conf_key vault_keys[] = {
	{ "url", read_url, UP(credential.vault.url), .required = true, .expects = "a URL",
	  .doc = "`http[s]://HOST[:PORT]` of the server" },
	{ "path", read_place, UP(credential.vault.path), .required = true,
	  .expects = "a path of KV v2, e.g. secret/data/agents/{subject}",
	  .doc = "of KV v2, with the mount and `data`: `secret/data/agents/{subject}`" },
	{ "field", read_plain, UP(credential.vault.field), .required = true, .min = 1,
	  .expects = "a name", .doc = "which member of it" },
	{ "token_file", gwconf_read_path, UP(credential.vault.token_file), .required = true,
	  .expects = "a path", .doc = "file with the gateway's token, as strict as `file`" },
	{ "ca", gwconf_read_path, UP(credential.vault.ca), .expects = "a path",
	  .fallback = "the system's", .doc = "certificates that may sign the server's" },
	CONF_KEYS_END,
};

static void read_access(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base)
{
	struct gwconf_upstream *upstream = base;

	(void)key;
	gwconf_read_list(reader, value, access_keys, upstream->access, sizeof(upstream->access[0]),
			 GWCONF_SCOPES_MAX, &upstream->n_access);
	if (value->kind == CONF_NODE_LIST && value->n == 0)
		conf_reader_fault(reader, value->mark, "an empty list opens nothing");
}

/* How many of the names are keys of the mapping. */
static unsigned int count_keys(const struct conf_node *mapping, const char *const *names)
{
	unsigned int n = 0;

	for (; *names; names++)
		n += conf_node_get(mapping, *names, NULL) != NULL;
	return n;
}

static void read_credential(struct conf_reader *reader, const struct conf_key *key,
			    const struct conf_node *value, void *base)
{
	static const char *const ways[] = { "header", "query", "basic", "oauth", "sigv4", NULL };
	static const char *const places[] = { "file", "systemd", "env", "vault", NULL };
	struct gwconf_upstream *upstream = base;

	upstream->has_credential = true;
	conf_read_rows(reader, key->sub, value, base);
	if (value->kind != CONF_NODE_MAPPING || !reader->complete)
		return;
	if (count_keys(value, ways) != 1)
		conf_reader_fault(reader, value->mark,
				  "needs one of `header`, `query`, `basic`, `oauth` and `sigv4`");
	if (count_keys(value, places) != 1)
		conf_reader_fault(reader, value->mark,
				  "needs one of `file`, `systemd`, `env` and `vault`");
	if (upstream->credential.prefix && !upstream->credential.header)
		conf_reader_fault(reader, value->mark, "`prefix` goes with `header`");
}

static const struct conf_key canary_keys[] = {
	{ "file", gwconf_read_path, UP(canary.file), .required = true, .expects = "a path",
	  .doc = "where it lies, for fences to read and nobody but the gateway to write; made "
		 "where it "
		 "is not there" },
	{ "prefix", read_plain, UP(canary.prefix), .min = 1, .expects = "text", .fallback = "none",
	  .doc = "with which it begins, as the service's credentials do: `ghp_`, `sk-`" },
	CONF_KEYS_END,
};

static const struct conf_key credential_keys[] = {
	{ "header", read_header, UP(credential.header), .expects = "a header",
	  .doc = "shown in this header, e.g. `Authorization`" },
	{ "prefix", read_plain, UP(credential.prefix), .expects = "text", .fallback = "none",
	  .doc = "what stands before it in the header, e.g. `\"Bearer \"`" },
	{ "query", read_plain, UP(credential.query), .min = 1, .expects = "the name of a parameter",
	  .doc = "shown in this parameter of the query" },
	{ "basic", read_plain, UP(credential.basic), .min = 1, .expects = "a user",
	  .doc = "shown as this user's password" },
	{ "oauth", conf_read_mapping, UP(credential.oauth), .sub = oauth_keys,
	  .expects = "a mapping",
	  .doc = "exchanged for a bearer token by client credentials; had anew before it expires" },
	{ "sigv4", conf_read_mapping, UP(credential.sigv4), .sub = sigv4_keys,
	  .expects = "a mapping",
	  .doc = "signs each request as AWS has it; the secret is `KEY-ID:SECRET-KEY`" },
	{ "file", read_place, UP(credential.source.file), .min = 1, .expects = "an absolute path",
	  .doc = "file that holds it, readable by nobody else; read anew for each request. "
		 "`{subject}` and `{tenant}` are the caller's" },
	{ "systemd", read_place, UP(credential.systemd), .expects = "the name of a credential",
	  .doc = "a credential of the unit (`LoadCredential=`)" },
	{ "env", read_plain, UP(credential.source.env), .min = 1, .expects = "a name",
	  .doc = "variable of the gateway" },
	{ "vault", conf_read_mapping, .sub = vault_keys, .expects = "a mapping",
	  .doc = "HashiCorp Vault, KV version 2; kept for 60 s" },
	{ "uses", conf_read_integer, UP(credential.uses), .min = 1, .max = 1000000000,
	  .expects = "a number", .fallback = "no end",
	  .doc = "requests that one fence may have made with it" },
	{ "lifetime", conf_read_duration, UP(credential.lifetime_ms), .min = 1000,
	  .max = 365LL * 86400000, .expects = "a time", .fallback = "no end",
	  .doc = "how long one fence may use it, counted from its first request" },
	CONF_KEYS_END,
};

const struct conf_key gwconf_upstream_keys[] = {
	{ "name", gwconf_read_name, UP(name), .required = true, .expects = "a name",
	  .doc = "how tools and `/up/NAME/` name it" },
	{ "url", read_url, UP(url), .required = true, .min = 1, .max = 1, .expects = "a URL",
	  .doc = "`http[s]://HOST[:PORT][/PATH]`; paths of scopes and tools begin behind it" },
	{ "ca", gwconf_read_path, UP(ca), .expects = "a path", .fallback = "the system's",
	  .doc = "certificates that may sign the upstream's" },
	{ "scopes", read_access, .sub = access_keys, .expects = "a list of {scope, methods, paths}",
	  .fallback = "not reached at `/up`", .doc = "what fences reach at `/up/NAME/`" },
	{ "subject", conf_read_word, UP(subject), .words = subject_words,
	  .expects = "`on_behalf_of` or `service`", .fallback = "`on_behalf_of`",
	  .doc = "whose credential is shown: the caller's user's, so that its place must name "
		 "`{subject}`, or one for all" },
	{ "subject_header", read_header, UP(subject_header), .expects = "a header",
	  .fallback = "`" GWCONF_SUBJECT_HEADER "`",
	  .doc = "in which an upstream that is asked on behalf of a user gets its name; to be said "
		 "where "
		 "the credential is the same for all users" },
	{ "credential", read_credential, .sub = credential_keys, .expects = "a mapping",
	  .fallback = "none", .doc = "what is shown there; one way to show it and one place" },
	{ "canary", conf_read_mapping, .sub = canary_keys, .expects = "a mapping",
	  .fallback = "none",
	  .doc = "a placeholder that looks like the credential and opens nothing: where one is on "
		 "its "
		 "way out, the request is refused, and rule `gateway.canary` says so" },
	{ "headers", read_headers, UP(headers), .max = 32, .expects = "a list of headers",
	  .fallback = "none", .doc = "of requests, let through besides the usual ones" },
	{ "request_bytes", conf_read_size, UP(request_bytes), .min = 1,
	  .max = 64LL * 1024 * 1024 * 1024, .expects = "bytes", .fallback = "`16M`",
	  .doc = "longest body of a request at `/up`; what is longer than `limits.body_bytes` is "
		 "passed "
		 "on as it comes" },
	{ "answer_bytes", conf_read_size, UP(answer_bytes), .min = 1024,
	  .max = 64LL * 1024 * 1024 * 1024, .expects = "bytes", .fallback = "`16M`",
	  .doc = "longest body of an answer; beyond: 502, or cut" },
	{ "timeout", conf_read_duration, UP(timeout_ms), .min = 1000, .max = 3600000,
	  .expects = "a time", .fallback = "`60s`",
	  .doc = "without a byte from it; then it is cut" },
	CONF_KEYS_END,
};

/* --- keys seen together ----------------------------------------------------------------------- */

/* The text that says where the secret lies; NULL: a place that cannot name a subject. */
static const char *place_of(const struct gwconf_credential *credential)
{
	return credential->source.file	? credential->source.file
	       : credential->vault.path ? credential->vault.path
					: credential->systemd;
}

/* Could the header that names the user hold what somebody else says? */
static bool header_is_spoken_for(const struct gwconf_upstream *upstream)
{
	const char *header = upstream->subject_header;
	bool spoken_for = strncasecmp(header, "cordon-", 7) != 0 &&
			  !gwconf_header_may_pass(header, strlen(header));

	for (size_t i = 0; i < upstream->headers.n; i++)
		spoken_for |= !strcasecmp(header, upstream->headers.v[i]);
	return spoken_for ||
	       (upstream->credential.header && !strcasecmp(header, upstream->credential.header));
}

static void judge(struct conf_reader *reader, const struct gwconf_upstream *upstream)
{
	const struct gwconf_credential *credential = &upstream->credential;
	const char *place = place_of(credential);
	bool names = place && strstr(place, "{subject}");

	if (upstream->has_credential && !upstream->n_access)
		conf_reader_fault(
			reader, upstream->mark,
			"a credential without `scopes` is never shown; tools have their own");
	if (upstream->has_credential && upstream->subject == GWCONF_ON_BEHALF_OF && !names &&
	    !upstream->subject_header)
		conf_reader_fault(
			reader, upstream->mark,
			"on behalf of a user means that user's credential: name {subject} "
			"in its place, or the `subject_header` that the upstream goes by, or say "
			"`subject: service`");
	if (upstream->subject_header && upstream->subject == GWCONF_SERVICE)
		conf_reader_fault(reader, upstream->mark,
				  "`subject: service` tells no user; `subject_header` is for "
				  "`on_behalf_of`");
	if (upstream->subject_header && header_is_spoken_for(upstream))
		conf_reader_fault(
			reader, upstream->mark,
			"`%s` is a credential's, or frames the request, or is in `headers`",
			upstream->subject_header);
	if (names && upstream->subject == GWCONF_SERVICE)
		conf_reader_fault(reader, upstream->mark,
				  "`subject: service` is one credential for all; {subject} is not");
	for (size_t i = 0; i < upstream->headers.n; i++)
		if (credential->header && !strcasecmp(credential->header, upstream->headers.v[i]))
			conf_reader_fault(reader, upstream->headers.mark[i],
					  "`%s` is the credential's", credential->header);
}

void gwconf_read_upstreams(struct conf_reader *reader, const struct conf_key *key,
			   const struct conf_node *value, void *base)
{
	struct gwconf *conf = base;

	(void)key;
	gwconf_read_list(reader, value, gwconf_upstream_keys, conf->upstreams,
			 sizeof(conf->upstreams[0]), GWCONF_UPSTREAMS_MAX, &conf->n_upstreams);
	for (size_t i = 0; i < conf->n_upstreams; i++) {
		struct gwconf_upstream *upstream = &conf->upstreams[i];

		upstream->mark = value->child[i]->mark;
		if (!upstream->request_bytes)
			upstream->request_bytes = 16LL * 1024 * 1024;
		if (!upstream->answer_bytes)
			upstream->answer_bytes = 16LL * 1024 * 1024;
		if (!upstream->timeout_ms)
			upstream->timeout_ms = 60000;
		judge(reader, upstream);
		for (size_t k = 0; k < i; k++)
			if (upstream->name && conf->upstreams[k].name &&
			    !strcmp(upstream->name, conf->upstreams[k].name))
				conf_reader_fault(reader, upstream->mark, "`%s` twice",
						  upstream->name);
	}
}
