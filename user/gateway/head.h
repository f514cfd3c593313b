/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of an HTTP/1.1 request: one strict reading of the bytes, or none. Pure: no I/O, no memory.
 *
 * A proxy and a server that read the same bytes differently are how requests get smuggled, so what has
 * two readings is refused rather than repaired: bare CR or LF, folded lines, blanks before the colon,
 * Content-Length that is not plain digits or stands twice, Transfer-Encoding beside it or on HTTP/1.0,
 * a second Host, targets that need decoding. Routes consist of letters, digits and a few marks, so a
 * path has one spelling and anything else is malformed. Paths below /up/ are an upstream's: they may have a query and the
 * characters of RFC 3986, percent signs only where that is the one spelling of what it stands for, of UTF-8, and never for a slash,
 * a backslash, a dot or a control character, which upstreams read differently; nor has it parts that are empty or dots without
 * their parameters and blanks. Their bodies may be encoded.
 */
#ifndef CORDON_GATEWAY_HEAD_H
#define CORDON_GATEWAY_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct head_limits {
	size_t bytes; /* of the head, its empty line included */
	size_t lines; /* headers */
};

enum head_method { HEAD_METHOD_OTHER, HEAD_METHOD_GET, HEAD_METHOD_POST, HEAD_METHOD_CONNECT };

/* Whom a request is for: the gateway itself, or, through its proxy, somebody else. */
enum head_form {
	HEAD_FORM_PATH,	     /* `/path` */
	HEAD_FORM_ABSOLUTE,  /* `http://authority/path?query` */
	HEAD_FORM_AUTHORITY, /* CONNECT authority */
};

/* A piece of the buffer that was read; p NULL: not there. */
struct head_text {
	const char *p;
	size_t n;
};

struct head {
	enum head_method method;
	struct head_text name; /* the method as it was spelled */
	enum head_form form;
	struct head_text
		authority;     /* p NULL with HEAD_FORM_PATH; not judged but for its characters */
	struct head_text path; /* of HEAD_FORM_ABSOLUTE: with its query, not judged; "" without one */
	struct head_text host; /* p NULL without one */
	bool up; /* the path is below /up/, for an upstream: its own rules, see below */
	struct head_text query; /* of up: what follows the question mark; p NULL: there is none */
	unsigned int minor;	/* HTTP/1.minor: 0 or 1 */
	bool keep_alive;
	bool expects_continue;
	bool has_length;
	uint64_t length; /* of the body */
	struct head_text authorization, idempotency_key;
	struct head_text lines; /* all headers as they came, each with its CR and LF */
};

/* Results of head_read() besides the bytes of a whole head. */
#define HEAD_PARTIAL 0

/*
 * Reads buffer[0..size). Returns the bytes of the head, HEAD_PARTIAL when more is needed, or the
 * negative of an HTTP status: -400, -411, -417, -431, -501, -505; after these nothing of the connection
 * can be trusted. *ret_reason (for errors) says what is wrong, a constant text without bytes of the
 * request. The result does not depend on how the bytes arrive: a longer buffer never turns an error into
 * another, or a head into an error.
 */
int head_read(const char *buffer, size_t size, const struct head_limits *limits,
	      struct head *ret_head, const char **ret_reason);

bool head_text_is(const struct head_text *text, const char *word);

/*
 * The next header of *rest, which begins as head->lines of a head that was read; blanks around the value are not in it. false:
 * there are no more.
 */
bool head_next(struct head_text *rest, struct head_text *ret_name, struct head_text *ret_value);

/* How often a header is there, whatever the case of its letters; *ret_value is the first one's. */
unsigned int head_find(const struct head *head, const char *name, struct head_text *ret_value);

#endif
