// SPDX-License-Identifier: Apache-2.0
/* See head.h. Line by line: each is judged as soon as its end is there. Fails closed: 400 and the like. */
#include "gateway/head.h"

#include <string.h>
#include <strings.h>

#include "util/util.h"

struct reader {
	const char *p, *end;
	const struct head_limits *limits;
	struct head *head;
	const char **reason;
	size_t lines;
	bool transfer, connection_close, connection_keep, encoded;
};

static int fault(struct reader *reader, int status, const char *reason)
{
	*reader->reason = reason;
	return -status;
}

bool head_text_is(const struct head_text *text, const char *word)
{
	return text->n == strlen(word) && !memcmp(text->p, word, text->n);
}

static bool text_is_nocase(const struct head_text *text, const char *word)
{
	return text->n == strlen(word) && !strncasecmp(text->p, word, text->n);
}

static bool is_token(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* What a path may consist of: one spelling for each. */
static bool is_path(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("/-._~", c));
}

/*
 * The next line without its end. Returns 1, 0 when it is not all there, or a fault. A CR that is not
 * followed by LF and an LF that stands alone have two readings.
 */
static int take_line(struct reader *reader, struct head_text *ret_line)
{
	const char *lf = memchr(reader->p, '\n', (size_t)(reader->end - reader->p));
	const char *stop = lf ? lf : reader->end;
	const char *cr = memchr(reader->p, '\r', (size_t)(stop - reader->p));

	if (cr && cr + 1 < stop)
		return fault(reader, 400, "a CR that ends no line");
	if (!lf)
		return 0;
	if (!cr)
		return fault(reader, 400, "a line that ends with LF alone");
	*ret_line = (struct head_text){ reader->p, (size_t)(cr - reader->p) };
	reader->p = lf + 1;
	return 1;
}

/* --- the request line ------------------------------------------------------------------------- */

static int hex(unsigned char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
				      : -1;
}

static bool is_up(unsigned char c, bool query)
{
	return is_path(c) || (c && strchr(query ? "!$&'()*+,;=:@?" : "!$&'()*+,;=:@", c));
}

/* Characters of UTF-8, byte by byte: one that has two spellings (overlong) has none here, nor has a control character. */
struct character {
	unsigned int missing; /* bytes */
	uint32_t code, least;
};

static bool character_takes(struct character *at, unsigned int byte)
{
	if (!at->missing) {
		at->missing = byte < 0x80	  ? 0
			      : byte >> 5 == 0x06 ? 1
			      : byte >> 4 == 0x0e ? 2
			      : byte >> 3 == 0x1e ? 3
						  : 9;
		at->code = byte & (0x7fU >> at->missing);
		at->least = at->missing == 1 ? 0xa0 : at->missing == 2 ? 0x800 : 0x10000;
		return at->missing < 9;
	}
	at->code = at->code << 6 | (byte & 0x3f);
	if (byte >> 6 != 2)
		return false;
	return --at->missing || (at->code >= at->least && at->code <= 0x10ffff &&
				 (at->code < 0xd800 || at->code > 0xdfff));
}

/* What two digits may stand for in a path: what cannot stand there plainly, and has one reading. */
static bool is_escape(unsigned int c)
{
	return c >= 0x80 ||
	       (c >= 0x20 && !is_up((unsigned char)c, true) && !strchr("%\\\x7f", (int)c));
}

/* The characters below /up/; of a query only that nothing in it ends the line or the URL. */
static int judge_up(struct reader *reader, const struct head_text *text, bool query)
{
	struct character character = { .missing = 0 };
	bool whole = true;

	for (size_t i = 0; i < text->n; i++) {
		int high, low;

		if (text->p[i] != '%') {
			if (!is_up((unsigned char)text->p[i], query))
				return fault(reader, 400, "a target with characters of no URL");
			whole &= !character.missing;
			continue;
		}
		high = i + 2 < text->n ? hex((unsigned char)text->p[i + 1]) : -1;
		low = i + 2 < text->n ? hex((unsigned char)text->p[i + 2]) : -1;
		if (high < 0 || low < 0)
			return fault(reader, 400, "a percent sign without two digits");
		i += 2;
		if (!query && !is_escape((unsigned int)(high * 16 + low)))
			return fault(reader, 400,
				     "a path with percent signs for what has another spelling, or "
				     "more than one reading");
		whole = whole && character_takes(&character, (unsigned int)(high * 16 + low));
	}
	if (!query && (!whole || character.missing))
		return fault(reader, 400, "a path with percent signs that are no UTF-8");
	return 0;
}

/* Cuts the query off a path below /up/. */
static int split_up(struct reader *reader)
{
	static const char prefix[] = "/up/";
	struct head *head = reader->head;
	const char *mark;

	if (head->path.n < sizeof(prefix) - 1 ||
	    memcmp(head->path.p, prefix, sizeof(prefix) - 1) != 0)
		return 0;
	head->up = true;
	mark = memchr(head->path.p, '?', head->path.n);
	if (mark) {
		head->query = (struct head_text){ mark + 1, head->path.n - (size_t)(mark + 1 -
										    head->path.p) };
		head->path.n = (size_t)(mark - head->path.p);
	}
	return judge_up(reader, &head->query, true);
}

static int judge_path(struct reader *reader, const struct head_text *path)
{
	int r;

	if (path->n == 0 || path->p[0] != '/')
		return fault(reader, 400, "the target is not a path");
	r = split_up(reader);
	if (r == 0 && reader->head->up)
		r = judge_up(reader, path, false);
	if (r < 0)
		return r;
	for (size_t i = 0; i < path->n; i++) {
		unsigned char c = (unsigned char)path->p[i];

		if (c == '?')
			return fault(reader, 400, "a query; tools take JSON only");
		if (!reader->head->up && !is_path(c))
			return fault(reader, 400,
				     "a path of other characters than letters, digits, - . _ ~ /");
		if (c != '/')
			continue;
		/* The part that begins here. */
		size_t n = 0;

		while (i + 1 + n < path->n && path->p[i + 1 + n] != '/')
			n++;
		if ((n == 0 && i + 1 < path->n) || (n == 1 && path->p[i + 1] == '.') ||
		    (n == 2 && path->p[i + 1] == '.' && path->p[i + 2] == '.'))
			return fault(reader, 400, "a path with empty parts or dots");
		if (reader->head->up && n && util_part_is_hollow(path->p + i + 1, n))
			return fault(reader, 400, "a path with empty parts or dots");
	}
	return 0;
}

/* A name and a port; what they are is for the proxy to judge. */
static bool is_authority(unsigned char c)
{
	return is_path(c) ? c != '/' : c && strchr("[]:", c);
}

static int judge_authority(struct reader *reader, const struct head_text *authority)
{
	if (authority->n == 0 || authority->n > 300)
		return fault(reader, 400, "the target is not a name and a port");
	for (size_t i = 0; i < authority->n; i++)
		if (!is_authority((unsigned char)authority->p[i]))
			return fault(reader, 400, "the target is not a name and a port");
	return 0;
}

/* `http://` is cut off; the rest is for somebody else, who gets it as it is. */
static int judge_absolute(struct reader *reader, struct head_text target)
{
	struct head *head = reader->head;
	size_t n = 0;

	while (n < target.n && target.p[n] != '/' && target.p[n] != '?')
		n++;
	head->form = HEAD_FORM_ABSOLUTE;
	head->authority = (struct head_text){ target.p, n };
	head->path = (struct head_text){ target.p + n, target.n - n };
	for (size_t i = n; i < target.n; i++) {
		unsigned char c = (unsigned char)target.p[i];

		if (c <= 0x20 || c >= 0x7f || c == '#')
			return fault(reader, 400, "a target with characters that belong in none");
	}
	return judge_authority(reader, &head->authority);
}

static int judge_target(struct reader *reader, const struct head_text *target)
{
	static const char scheme[] = "http://";
	struct head *head = reader->head;

	if (head->method == HEAD_METHOD_CONNECT) {
		head->form = HEAD_FORM_AUTHORITY;
		head->authority = *target;
		return judge_authority(reader, target);
	}
	if (target->n >= sizeof(scheme) && !strncasecmp(target->p, scheme, sizeof(scheme) - 1))
		return judge_absolute(reader,
				      (struct head_text){ target->p + sizeof(scheme) - 1,
							  target->n - (sizeof(scheme) - 1) });
	head->path = *target;
	return judge_path(reader, &head->path);
}

static int judge_version(struct reader *reader, const struct head_text *version)
{
	if (head_text_is(version, "HTTP/1.1")) {
		reader->head->minor = 1;
		return 0;
	}
	if (head_text_is(version, "HTTP/1.0"))
		return 0;
	if (version->n == 8 && !memcmp(version->p, "HTTP/", 5))
		return fault(reader, 505, "HTTP/1.1 is spoken here");
	return fault(reader, 400, "not a request line");
}

static int judge_method(struct reader *reader, const struct head_text *method)
{
	if (method->n == 0 || method->n > 16)
		return fault(reader, 400, "not a method");
	for (size_t i = 0; i < method->n; i++)
		if (method->p[i] < 'A' || method->p[i] > 'Z')
			return fault(reader, 400, "not a method");
	if (head_text_is(method, "GET"))
		reader->head->method = HEAD_METHOD_GET;
	else if (head_text_is(method, "POST"))
		reader->head->method = HEAD_METHOD_POST;
	else if (head_text_is(method, "CONNECT"))
		reader->head->method = HEAD_METHOD_CONNECT;
	else
		reader->head->method = HEAD_METHOD_OTHER;
	return 0;
}

static int read_request_line(struct reader *reader, const struct head_text *line)
{
	const char *first = memchr(line->p, ' ', line->n);
	const char *end = line->p + line->n;
	const char *second = first ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
	struct head_text target, version;
	int r;

	if (!second)
		return fault(reader, 400, "not a request line");
	reader->head->name = (struct head_text){ line->p, (size_t)(first - line->p) };
	target = (struct head_text){ first + 1, (size_t)(second - first - 1) };
	version = (struct head_text){ second + 1, (size_t)(end - second - 1) };
	r = judge_method(reader, &reader->head->name);
	if (r == 0)
		r = judge_version(reader, &version);
	return r < 0 ? r : judge_target(reader, &target);
}

/* --- headers ---------------------------------------------------------------------------------- */

typedef int header_fn(struct reader *reader, const struct head_text *value);

static int take_host(struct reader *reader, const struct head_text *value)
{
	if (reader->head->host.p)
		return fault(reader, 400, "a second Host");
	reader->head->host = *value;
	if (value->n > 255)
		return fault(reader, 400, "not a host");
	for (size_t i = 0; i < value->n; i++)
		if (!is_path((unsigned char)value->p[i]) && !strchr("[]:", value->p[i]))
			return fault(reader, 400, "not a host");
	return 0;
}

static int take_length(struct reader *reader, const struct head_text *value)
{
	struct head *head = reader->head;

	if (head->has_length)
		return fault(reader, 400, "a second Content-Length");
	head->has_length = true;
	if (value->n == 0 || value->n > 15 || (value->p[0] == '0' && value->n > 1))
		return fault(reader, 400, "Content-Length is not a plain number");
	for (size_t i = 0; i < value->n; i++) {
		if (value->p[i] < '0' || value->p[i] > '9')
			return fault(reader, 400, "Content-Length is not a plain number");
		head->length = head->length * 10 + (uint64_t)(value->p[i] - '0');
	}
	return 0;
}

static int take_transfer(struct reader *reader, const struct head_text *value)
{
	(void)value;
	if (reader->transfer)
		return fault(reader, 400, "a second Transfer-Encoding");
	reader->transfer = true;
	return 0;
}

/* A list of words; only close and keep-alive mean something here. */
static int take_connection(struct reader *reader, const struct head_text *value)
{
	const char *p = value->p, *end = value->p + value->n;

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		struct head_text word = { p, (size_t)((comma ? comma : end) - p) };

		while (word.n && strchr(" \t", word.p[0])) {
			word.p++;
			word.n--;
		}
		while (word.n && strchr(" \t", word.p[word.n - 1]))
			word.n--;
		reader->connection_close |= text_is_nocase(&word, "close");
		reader->connection_keep |= text_is_nocase(&word, "keep-alive");
		p = comma ? comma + 1 : end;
	}
	return 0;
}

static int take_expect(struct reader *reader, const struct head_text *value)
{
	if (reader->head->expects_continue)
		return fault(reader, 400, "a second Expect");
	if (!text_is_nocase(value, "100-continue"))
		return fault(reader, 417, "an expectation that is not known");
	reader->head->expects_continue = true;
	return 0;
}

static int take_authorization(struct reader *reader, const struct head_text *value)
{
	if (reader->head->authorization.p)
		return fault(reader, 400, "a second Authorization");
	reader->head->authorization = *value;
	return 0;
}

static int take_key(struct reader *reader, const struct head_text *value)
{
	if (reader->head->idempotency_key.p)
		return fault(reader, 400, "a second Idempotency-Key");
	reader->head->idempotency_key = *value;
	return 0;
}

static int take_content_encoding(struct reader *reader, const struct head_text *value)
{
	reader->encoded |= !text_is_nocase(value, "identity");
	return 0;
}

/*
 * strict: the value stands after at most one blank, and nothing follows it, because others read blanks
 * in these differently. All other headers are read over.
 */
static const struct header {
	const char *name;
	header_fn *take;
	bool strict;
} header_table[] = {
	{ "host", take_host, false },
	{ "content-length", take_length, true },
	{ "transfer-encoding", take_transfer, true },
	{ "connection", take_connection, false },
	{ "expect", take_expect, false },
	{ "authorization", take_authorization, false },
	{ "idempotency-key", take_key, false },
	{ "content-encoding", take_content_encoding, false },
};

static struct head_text text_trim(struct head_text value)
{
	while (value.n && strchr(" \t", value.p[0])) {
		value.p++;
		value.n--;
	}
	while (value.n && strchr(" \t", value.p[value.n - 1]))
		value.n--;
	return value;
}

static int take_header(struct reader *reader, const struct head_text *name,
		       const struct head_text *raw)
{
	struct head_text value = text_trim(*raw);

	for (size_t i = 0; i < ARRAY_SIZE(header_table); i++) {
		const struct header *header = &header_table[i];

		if (!text_is_nocase(name, header->name))
			continue;
		if (header->strict &&
		    (value.p > raw->p + 1 || value.p + value.n != raw->p + raw->n ||
		     (value.p == raw->p + 1 && raw->p[0] != ' ')))
			return fault(reader, 400, "blanks around a value that frames the message");
		return header->take(reader, &value);
	}
	return 0;
}

static int read_header_line(struct reader *reader, const struct head_text *line)
{
	const char *colon = memchr(line->p, ':', line->n);
	struct head_text name, value;

	if (++reader->lines > reader->limits->lines)
		return fault(reader, 431, "too many headers");
	if (!colon || colon == line->p)
		return fault(reader, 400, "not a header");
	name = (struct head_text){ line->p, (size_t)(colon - line->p) };
	value = (struct head_text){ colon + 1, line->n - name.n - 1 };
	for (size_t i = 0; i < name.n; i++)
		if (!is_token((unsigned char)name.p[i]))
			return fault(reader, 400, "not a header");
	for (size_t i = 0; i < value.n; i++) {
		unsigned char c = (unsigned char)value.p[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return fault(reader, 400, "a control character in a header");
	}
	return take_header(reader, &name, &value);
}

/* What only shows when the head is whole. */
static int judge_head(struct reader *reader)
{
	struct head *head = reader->head;

	if (reader->transfer && head->minor == 0)
		return fault(reader, 400, "Transfer-Encoding in HTTP/1.0");
	if (reader->transfer && head->has_length)
		return fault(reader, 400, "Content-Length and Transfer-Encoding");
	if (reader->transfer)
		return fault(reader, 411, "bodies need a Content-Length");
	if (reader->encoded && !head->up && head->form == HEAD_FORM_PATH)
		return fault(reader, 400, "a Content-Encoding; send JSON as it is");
	if (head->minor == 1 && !head->host.p)
		return fault(reader, 400, "no Host");
	head->keep_alive =
		!reader->connection_close && (head->minor == 1 || reader->connection_keep);
	/* HTTP/1.0 knows no 100; such an expectation is passed over. */
	head->expects_continue &= head->minor == 1;
	return 0;
}

typedef int take_fn(struct reader *reader, const struct head_text *line);

int head_read(const char *buffer, size_t size, const struct head_limits *limits,
	      struct head *ret_head, const char **ret_reason)
{
	bool cut = size > limits->bytes;
	struct reader reader = { .p = buffer,
				 .end = buffer + (cut ? limits->bytes : size),
				 .limits = limits,
				 .head = ret_head,
				 .reason = ret_reason };
	struct head_text line;
	int r;

	memset(ret_head, 0, sizeof(*ret_head));
	*ret_reason = "";
	r = take_line(&reader, &line);
	ret_head->lines.p = reader.p;
	for (take_fn *take = read_request_line; r > 0; take = read_header_line) {
		if (line.n == 0 && take == read_header_line) {
			ret_head->lines.n = (size_t)(line.p - ret_head->lines.p);
			r = judge_head(&reader);
			return r < 0 ? r : (int)(reader.p - buffer);
		}
		r = take(&reader, &line);
		if (r == 0)
			r = take_line(&reader, &line);
	}
	if (r == HEAD_PARTIAL && (cut || size == limits->bytes))
		return fault(&reader, 431, "a head that is too long");
	return r;
}

bool head_next(struct head_text *rest, struct head_text *ret_name, struct head_text *ret_value)
{
	const char *end = rest->p + rest->n, *cr = memchr(rest->p, '\r', rest->n), *colon;

	if (!cr)
		return false;
	colon = memchr(rest->p, ':', (size_t)(cr - rest->p));
	*ret_name = (struct head_text){ rest->p, (size_t)(colon - rest->p) };
	*ret_value = text_trim((struct head_text){ colon + 1, (size_t)(cr - colon - 1) });
	rest->p = cr + 2;
	rest->n = (size_t)(end - rest->p);
	return true;
}

unsigned int head_find(const struct head *head, const char *name, struct head_text *ret_value)
{
	struct head_text rest = head->lines, found, value;
	unsigned int n = 0;

	while (head_next(&rest, &found, &value)) {
		if (!text_is_nocase(&found, name))
			continue;
		if (n++ == 0)
			*ret_value = value;
	}
	return n;
}
