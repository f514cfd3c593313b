// SPDX-License-Identifier: Apache-2.0
/*
 * Unit tests of what the proxy reads and writes: ClientHellos, whole, byte by byte and cut into records, each with one thing
 * wrong; and the head of a request as it goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "proxy/forward.h"
#include "proxy/hello.h"
#include "util/util.h"

/* --- a ClientHello, made to measure ----------------------------------------------------------- */

struct bytes {
	uint8_t p[HELLO_BYTES_MAX * 2];
	size_t n;
};

static void put(struct bytes *b, const void *p, size_t n)
{
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

static void put_number(struct bytes *b, size_t bytes, size_t number)
{
	for (size_t i = bytes; i > 0; i--)
		b->p[b->n++] = (uint8_t)(number >> (i - 1) * 8);
}

static void put_extension(struct bytes *b, unsigned int type, const void *p, size_t n)
{
	put_number(b, 2, type);
	put_number(b, 2, n);
	put(b, p, n);
}

static void put_name(struct bytes *b, const char *name)
{
	struct bytes list = { .n = 0 };

	put_number(&list, 2, strlen(name) + 3);
	put_number(&list, 1, 0);
	put_number(&list, 2, strlen(name));
	put(&list, name, strlen(name));
	put_extension(b, 0, list.p, list.n);
}

enum fault {
	GOOD,
	NO_NAME,
	NO_EXTENSIONS,
	TWO_NAMES,
	TWO_EXTENSIONS,
	NAME_TYPE,
	NAME_EMPTY,
	NAME_ADDRESS,
	NAME_DOT,
	NAME_NUL,
	NAME_TRAILING,
	ECH,
	ESNI,
	LENGTH_LONG,
	LENGTH_SHORT,
	EXTENSION_LONG,
	BEHIND,
	NOT_HELLO,
	VERSION,
	SESSION,
	CIPHERS_ODD,
	CIPHERS_NONE,
	COMPRESSION_NONE,
	MANY_EXTENSIONS,
	TOO_LONG,
	FAULTS_N,
};

static void put_extensions(struct bytes *all, enum fault fault)
{
	static const uint8_t two[] = { 0, 10, 0, 0, 2, 'a', 'a', 0, 0, 2, 'b', 'b' };
	static const uint8_t type[] = { 0, 5, 1, 0, 2, 'a', 'a' };
	static const uint8_t trailing[] = { 0, 5, 0, 0, 2, 'a', 'a', 9 };
	static const uint8_t nul[] = { 0, 9, 0, 0, 6, 'a', '.', 't', 0, 's', 't' };
	static uint8_t padding[HELLO_BYTES_MAX];

	put_extension(all, 0x0a0a, NULL, 0); /* GREASE */
	if (fault == TWO_NAMES)
		put_extension(all, 0, two, sizeof(two));
	else if (fault == NAME_TYPE)
		put_extension(all, 0, type, sizeof(type));
	else if (fault == NAME_TRAILING)
		put_extension(all, 0, trailing, sizeof(trailing));
	else if (fault == NAME_NUL)
		put_extension(all, 0, nul, sizeof(nul));
	else if (fault != NO_NAME)
		put_name(all, fault == NAME_EMPTY     ? ""
			      : fault == NAME_ADDRESS ? "10.0.0.1"
			      : fault == NAME_DOT     ? "a.test."
						      : "A.test");
	if (fault == TWO_EXTENSIONS)
		put_name(all, "a.test");
	if (fault == ECH)
		put_extension(all, 0xfe0d, "\0", 1);
	if (fault == ESNI)
		put_extension(all, 0xffce, "\0", 1);
	for (unsigned int i = 0; fault == MANY_EXTENSIONS && i < HELLO_EXTENSIONS_MAX; i++)
		put_extension(all, 0x2000 + i, NULL, 0);
	if (fault == TOO_LONG)
		put_extension(all, 21, padding, sizeof(padding));
	put_extension(all, 43, "\2\3\4", 3);
	if (fault == EXTENSION_LONG)
		all->p[all->n - 4] = 4;
}

static void make_message(struct bytes *message, enum fault fault)
{
	static struct bytes body, extensions;
	uint8_t random[32] = { 1 };

	body.n = extensions.n = message->n = 0;
	put_number(&body, 2, fault == VERSION ? 0x0200 : 0x0303);
	put(&body, random, sizeof(random));
	put_number(&body, 1, fault == SESSION ? 33 : 32);
	put(&body, random, sizeof(random));
	if (fault == SESSION)
		put_number(&body, 1, 0);
	put_number(&body, 2, fault == CIPHERS_NONE ? 0 : fault == CIPHERS_ODD ? 3 : 2);
	if (fault != CIPHERS_NONE)
		put(&body, "\x13\x01\x02", fault == CIPHERS_ODD ? 3 : 2);
	put_number(&body, 1, fault == COMPRESSION_NONE ? 0 : 1);
	if (fault != COMPRESSION_NONE)
		put_number(&body, 1, 0);
	put_extensions(&extensions, fault);
	if (fault != NO_EXTENSIONS) {
		put_number(&body, 2, extensions.n);
		put(&body, extensions.p, extensions.n);
	}
	put_number(message, 1, fault == NOT_HELLO ? 2 : 1);
	put_number(message, 3, body.n + (fault == LENGTH_LONG) - (fault == LENGTH_SHORT));
	put(message, body.p, body.n);
	if (fault == LENGTH_LONG || fault == BEHIND)
		put_number(message, 1, 0);
}

/* The message in records of at most so many bytes each. */
static void make_records(struct bytes *records, const struct bytes *message, size_t each)
{
	records->n = 0;
	for (size_t at = 0; at < message->n; at += each) {
		size_t n = message->n - at < each ? message->n - at : each;

		put(records, "\x16\x03\x01", 3);
		put_number(records, 2, n);
		put(records, message->p + at, n);
	}
}

static void make(struct bytes *records, enum fault fault)
{
	static struct bytes message;

	make_message(&message, fault);
	make_records(records, &message, 16384);
}

static void test_good(void **state)
{
	static struct bytes message, records;
	struct reach_name name;
	const char *reason;

	(void)state;
	make_message(&message, GOOD);
	for (size_t each = 1; each <= message.n; each++) {
		make_records(&records, &message, each);
		if ((message.n + each - 1) / each > HELLO_RECORDS_MAX) {
			assert_int_equal(hello_read(records.p, records.n, &name, &reason),
					 -EBADMSG);
			continue;
		}
		for (size_t n = 0; n < records.n; n++)
			assert_int_equal(hello_read(records.p, n, &name, &reason), HELLO_PARTIAL);
		assert_int_equal(hello_read(records.p, records.n, &name, &reason), records.n);
		assert_string_equal(name.s, "a.test");
	}
	/* What follows in a record of its own is not ours to read. */
	put(&records, "\x17\x03\x03", 3);
	assert_int_equal(hello_read(records.p, records.n, &name, &reason), records.n - 3);
}

static void test_faults(void **state)
{
	static struct bytes records;
	struct reach_name name;
	const char *reason;

	(void)state;
	for (int fault = GOOD + 1; fault < FAULTS_N; fault++) {
		bool failed = false;

		make(&records, (enum fault)fault);
		/* Once wrong it stays so, and it is never taken for one. */
		for (size_t n = 1; n <= records.n; n += n < 600 ? 1 : 997) {
			int r = hello_read(records.p, n, &name, &reason);

			if (r > 0 || (failed && r == HELLO_PARTIAL))
				fail_msg("fault %d: %d at %zu of %zu", fault, r, n, records.n);
			failed |= r < 0;
			assert_true(r == HELLO_PARTIAL || reason[0]);
		}
		if (hello_read(records.p, records.n, &name, &reason) != -EBADMSG)
			fail_msg("fault %d: not refused", fault);
	}
}

static void test_not_tls(void **state)
{
	static const char *const texts[] = {
		"GET / HTTP/1.1\r\n", "SSH-2.0-x\r\n", "\x80\x2e\x01\x03\x01",
		"\x15\x03\x01",	      "\x16\x02\x00",  "\x16\x03\x01\xff\xff",
		"\x17\x03\x03",
	};
	struct reach_name name;
	const char *reason;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(hello_read((const uint8_t *)texts[i], strlen(texts[i]), &name,
					    &reason),
				 -EBADMSG);
	assert_int_equal(hello_read((const uint8_t *)"\x16\x03\x01\0\0", 5, &name, &reason),
			 -EBADMSG);
	assert_int_equal(hello_read(NULL, 0, &name, &reason), HELLO_PARTIAL);
}

/* --- forwarding ------------------------------------------------------------------------------- */

static const struct {
	const char *came, *goes;
} forwards[] = {
	{ "GET http://A.test/x?y=%20 HTTP/1.1\r\nHost: a.test\r\nAccept: */*\r\n\r\n",
	  "GET /x?y=%20 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nVia: 1.1 cordon\r\n"
	  "Accept: */*\r\n\r\n" },
	{ "GET http://a.test:8080 HTTP/1.0\r\n\r\n",
	  "GET / HTTP/1.0\r\nHost: a.test:8080\r\nConnection: close\r\nVia: 1.1 cordon\r\n\r\n" },
	{ "GET HTTP://a.test?q HTTP/1.1\r\nHost: a.test\r\n\r\n",
	  "GET /?q HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nVia: 1.1 cordon\r\n\r\n" },
	{ "PUT http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, X-Hop\r\n"
	  "X-Hop: 1\r\nX-Stay: 2\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: b\r\n"
	  "TE: trailers\r\nUpgrade: h2c\r\nKeep-Alive: 1\r\nContent-Length: 3\r\n"
	  "Expect: 100-continue\r\nContent-Encoding: gzip\r\n\r\n",
	  "PUT / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nVia: 1.1 cordon\r\n"
	  "X-Stay: 2\r\nContent-Length: 3\r\nExpect: 100-continue\r\nContent-Encoding: "
	  "gzip\r\n\r\n" },
	/* Nor does another host go there beside Host. */
	{ "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nVia: x\r\nForwarded: host=b.test\r\n"
	  "x-FORWARDED-Host: b.test\r\nX-Original-URL: /b\r\nX-Host: "
	  "b.test\r\nX-HTTP-Host-Override: b.test\r\n"
	  "X-Hosts: 1\r\nX-Forward: 2\r\n\r\n",
	  "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nVia: 1.1 cordon\r\n"
	  "X-Hosts: 1\r\nX-Forward: 2\r\n\r\n" },
	/* Nobody takes the length away from a body. */
	{ "PUT http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: Content-Length\r\n"
	  "Content-Length: 3\r\n\r\n",
	  "PUT / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nVia: 1.1 cordon\r\n"
	  "Content-Length: 3\r\n\r\n" },
};

static void test_forward(void **state)
{
	static const struct head_limits limits = { 4096, 32 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(forwards); i++) {
		size_t n = strlen(forwards[i].came);
		char text[4096 + FORWARD_ADDS];
		struct reach_target target;
		const char *reason;
		struct head head;

		assert_int_equal(head_read(forwards[i].came, n, &limits, &head, &reason), n);
		assert_int_equal(head.form, HEAD_FORM_ABSOLUTE);
		assert_int_equal(reach_target_read(head.authority.p, head.authority.n, 80, &target,
						   &reason),
				 0);
		n = forward_head(forwards[i].came, n, &head, &target, text);
		text[n] = '\0';
		assert_string_equal(text, forwards[i].goes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_not_tls),
		cmocka_unit_test(test_forward),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
