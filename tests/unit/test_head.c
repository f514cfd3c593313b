// SPDX-License-Identifier: Apache-2.0
/* Unit tests of the head of a request: each row at once, byte by byte, and cut at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "gateway/head.h"
#include "util/util.h"

static const struct head_limits limits = { 1024, 16 };

#define OK "POST /refund HTTP/1.1\r\nHost: g\r\n"

/* result: 0 a whole head, else the status. */
static const struct row {
	const char *text;
	int result;
} rows[] = {
	{ OK "Content-Length: 5\r\n\r\n", 0 },
	{ OK "content-LENGTH:5\r\n\r\n", 0 },
	{ OK "Content-Length: 0\r\n\r\n", 0 },
	{ OK "X:\r\nY: \t v \t\r\n\r\n", 0 },
	{ OK "Cookie: \x80\xff\r\n\r\n", 0 },
	{ "GET / HTTP/1.0\r\n\r\n", 0 },
	{ "DELETE /a/b-c_d.e~f HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 0 },
	{ "GET /up/a HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a/ HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a/b?c=d HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a/b? HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a/@s/b:c;d=e,f HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a/%C3%A4%20x HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a?x=%2F..%2f&y=a/b?c HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/ HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a/a%5Bb%5D HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a/b;c=d/e HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a/b;/..c HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a/%e2%82%ac%F0%9F%92%A9 HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a?%ff HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "GET /up/a/..;/b HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/..;x=y HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/;/b HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/..%20/b HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%20/b HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/.../b HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%c0%ae HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%e0%80%af HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%c3 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%c3x%a4 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%c3/%a4 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%c2%85 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%ed%a0%80 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%ff HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%2e%2e/b HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/.. HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/. HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a//b HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up//a HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%2Fb HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%2fb HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%5cb HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%00 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%0a HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%41 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/% HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%4 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%zz HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/b#c HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/b\\c HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a?% HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a?b#c HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a?\" HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up?x HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /upx?y HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%25 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%7f HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /UP/a?x HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET /up/a/%3f HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "PUT /up/a HTTP/1.1\r\nHost: g\r\nContent-Encoding: gzip\r\n\r\n", 0 },
	{ OK "Content-Length: +5\r\n\r\n", 400 },
	{ OK "Content-Length: 5,5\r\n\r\n", 400 },
	{ OK "Content-Length:  5\r\n\r\n", 400 },
	{ OK "Content-Length: 5 \r\n\r\n", 400 },
	{ OK "Content-Length: 05\r\n\r\n", 400 },
	{ OK "Content-Length: \r\n\r\n", 400 },
	{ OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400 },
	{ OK "Content-Length: 9999999999999999\r\n\r\n", 400 },
	{ OK "Content-Length : 5\r\n\r\n", 400 },
	{ OK " Content-Length: 5\r\n\r\n", 400 },
	{ OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
	{ OK "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400 },
	{ OK "Transfer-Encoding: chunked\r\n\r\n", 411 },
	{ "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
	{ OK "Host: h\r\n\r\n", 400 },
	{ OK "Authorization: a\r\nAuthorization: a\r\n\r\n", 400 },
	{ OK "Idempotency-Key: a\r\nidempotency-key: a\r\n\r\n", 400 },
	{ OK "Expect: 100-Continue\r\n\r\n", 0 },
	{ OK "Expect: other\r\n\r\n", 417 },
	{ OK "Content-Encoding: gzip\r\n\r\n", 400 },
	{ OK "X: a\r\n b\r\n\r\n", 400 },
	{ OK "X: a\nY: b\r\n\r\n", 400 },
	{ OK "X: a\rY: b\r\n\r\n", 400 },
	{ OK "X\x01: a\r\n\r\n", 400 },
	{ OK "X: \x7f\r\n\r\n", 400 },
	{ OK ": a\r\n\r\n", 400 },
	{ OK "no colon\r\n\r\n", 400 },
	{ "POST / HTTP/1.1\r\n\r\n", 400 },
	{ "POST /a%2fb HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST /a/../b HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST /a/. HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST //a HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST /a?b HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST /a\\b HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST http://a/ HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "POST HTTP://a:80?b=%20 HTTP/1.1\r\nHost: g\r\nContent-Encoding: gzip\r\n\r\n", 0 },
	{ "POST http:///a HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST http://?a HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST http:// HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST http://u@a/ HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST http://a/#b HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST http://a/\x80 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST https://a/ HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST ftp://a/ HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "CONNECT a:443 HTTP/1.1\r\nHost: g\r\n\r\n", 0 },
	{ "CONNECT [::1]:443 HTTP/1.0\r\n\r\n", 0 },
	{ "CONNECT / HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "CONNECT a:443/ HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "CONNECT http://a:443 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "CONNECT  HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "GET a:443 HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST * HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST / HTTP/1.1 \r\nHost: g\r\n\r\n", 400 },
	{ "POST  / HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "post / HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "POST / HTTP/2.0\r\nHost: g\r\n\r\n", 505 },
	{ "POST / HTTX/1.1\r\nHost: g\r\n\r\n", 400 },
	{ "\r\nPOST / HTTP/1.1\r\nHost: g\r\n\r\n", 400 },
	{ OK "A: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: "
	     "1\r\nA: 1\r\n"
	     "A: 1\r\nA: 1\r\nA: 1\r\n\r\n",
	  0 },
	{ OK "A: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\nA: "
	     "1\r\nA: 1\r\n"
	     "A: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\n\r\n",
	  431 },
};

/* What has been read of a head is the same, whatever stands behind it and however it came. */
static void every_row_in_every_cut(void **state)
{
	const char *reason;
	struct head head;
	int whole, r;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *text = rows[i].text;
		size_t size = strlen(text);
		bool decided = false;

		whole = head_read(text, size, &limits, &head, &reason);
		if (whole != (rows[i].result ? -rows[i].result : (int)size))
			fail_msg("row %zu: %d\n%s", i, whole, text);
		assert_true(whole > 0 || reason[0]);
		for (size_t n = 0; n <= size; n++) {
			char *cut = malloc(n ? n : 1);

			/* A buffer of its own: reading behind it is found by the sanitizer. */
			assert_non_null(cut);
			memcpy(cut, text, n);
			r = head_read(cut, n, &limits, &head, &reason);
			free(cut);
			if (r != HEAD_PARTIAL && r != whole)
				fail_msg("row %zu cut at %zu: %d, not %d", i, n, r, whole);
			if (decided && r == HEAD_PARTIAL)
				fail_msg("row %zu cut at %zu: partial after it was decided", i, n);
			decided = r != HEAD_PARTIAL;
		}
	}
}

static void what_a_head_says(void **state)
{
	static const char text[] =
		"POST /tools/refund HTTP/1.1\r\nhost: g\r\nAuthorization:  Bearer x \r\n"
		"Idempotency-Key:k-1\r\nConnection: foo, Close\r\nContent-Length: 12\r\n"
		"Expect: 100-continue\r\n\r\nbody";
	const char *reason;
	struct head head;

	assert_int_equal(head_read(text, sizeof(text) - 1, &limits, &head, &reason),
			 (int)(sizeof(text) - 1 - 4));
	assert_int_equal(head.method, HEAD_METHOD_POST);
	assert_true(head_text_is(&head.path, "/tools/refund"));
	assert_true(head_text_is(&head.authorization, "Bearer x"));
	assert_true(head_text_is(&head.idempotency_key, "k-1"));
	assert_int_equal(head.length, 12);
	assert_false(head.keep_alive);
	assert_true(head.expects_continue);
	assert_int_equal(head_read("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 42, &limits,
				   &head, &reason),
			 42);
	assert_true(head.keep_alive && !head.authorization.p && !head.has_length);
}

/* At the limit it is whole, one byte beyond it is refused, and no byte behind the limit is looked at. */
static void headers_are_read_one_by_one(void **state)
{
	static const char text[] =
		OK "Accept: a\r\nX-Y:\t b c \r\naccept:\r\nContent-Length: 0\r\n\r\n";
	static const char *const expected[] = { "Host",	  "g", "Accept",	 "a", "X-Y", "b c",
						"accept", "",  "Content-Length", "0" };
	struct head_text rest, name, value;
	const char *reason;
	struct head head;
	size_t n = 0;

	(void)state;
	assert_true(head_read(text, sizeof(text) - 1, &limits, &head, &reason) > 0);
	rest = head.lines;
	while (head_next(&rest, &name, &value)) {
		assert_true(n + 2 <= ARRAY_SIZE(expected));
		assert_true(head_text_is(&name, expected[n++]));
		assert_true(head_text_is(&value, expected[n++]));
	}
	assert_int_equal(n, ARRAY_SIZE(expected));
	assert_int_equal(head_find(&head, "ACCEPT", &value), 2);
	assert_true(head_text_is(&value, "a"));
	assert_int_equal(head_find(&head, "Accep", &value), 0);
}

static void the_head_has_a_limit(void **state)
{
	char text[2048];
	const char *reason;
	struct head head;
	int n = snprintf(text, sizeof(text), OK "X: ");
	size_t fill = limits.bytes - (size_t)n - 4;

	memset(text + n, 'a', fill);
	memcpy(text + n + fill, "\r\n\r\n", 4);
	assert_int_equal(head_read(text, limits.bytes, &limits, &head, &reason), (int)limits.bytes);
	assert_int_equal(head_read(text, limits.bytes - 1, &limits, &head, &reason), HEAD_PARTIAL);
	memset(text + n, 'a', fill + 1);
	memcpy(text + n + fill + 1, "\r\n\r\n", 4);
	assert_int_equal(head_read(text, limits.bytes + 1, &limits, &head, &reason), -431);
	assert_int_equal(head_read(text, limits.bytes, &limits, &head, &reason), -431);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_in_every_cut),
		cmocka_unit_test(what_a_head_says),
		cmocka_unit_test(headers_are_read_one_by_one),
		cmocka_unit_test(the_head_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
