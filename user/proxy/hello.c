// SPDX-License-Identifier: Apache-2.0
/* See hello.h. Records first, then the message in them, then its extensions. Fails closed. */
#include "proxy/hello.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum {
	RECORD_HEAD = 5,
	RECORD_BYTES_MAX = 16384, /* RFC 8446, 5.1 */
	RECORD_HANDSHAKE = 22,
	MESSAGE_HEAD = 4,
	MESSAGE_CLIENT_HELLO = 1,
	RANDOM_BYTES = 32,
	SESSION_BYTES_MAX = 32,
	EXTENSION_NAME = 0,
	NAME_TYPE_HOST = 0,
};

static int fault(const char **reason, const char *text)
{
	*reason = text;
	return -EBADMSG;
}

/* --- what is left of a message ---------------------------------------------------------------- */

struct rest {
	const uint8_t *p;
	size_t n;
};

static bool take(struct rest *rest, size_t n, struct rest *ret)
{
	if (n > rest->n)
		return false;
	*ret = (struct rest){ rest->p, n };
	rest->p += n;
	rest->n -= n;
	return true;
}

static bool take_number(struct rest *rest, size_t bytes, size_t *ret_number)
{
	struct rest number;

	if (!take(rest, bytes, &number))
		return false;
	*ret_number = 0;
	for (size_t i = 0; i < bytes; i++)
		*ret_number = *ret_number << 8 | number.p[i];
	return true;
}

/* What a length of so many bytes stands before. */
static bool take_vector(struct rest *rest, size_t bytes, struct rest *ret)
{
	size_t n;

	return take_number(rest, bytes, &n) && take(rest, n, ret);
}

/* --- extensions ------------------------------------------------------------------------------- */

static int name_take(struct rest extension, struct reach_name *name, const char **reason)
{
	struct rest list, host;
	const char *why;
	size_t type;

	if (!take_vector(&extension, 2, &list) || extension.n || !take_number(&list, 1, &type) ||
	    !take_vector(&list, 2, &host) || type != NAME_TYPE_HOST)
		return fault(reason, "a server name that is not well-formed");
	if (list.n)
		return fault(reason, "more than one server name");
	if (reach_name_read((const char *)host.p, host.n, false, name, &why))
		return fault(reason, why);
	return 0;
}

/* Encrypted ClientHello, its drafts among them, and ESNI, which they were before. */
static bool hides_name(size_t type)
{
	return (type >= 0xfe08 && type <= 0xfe0d) || type == 0xfd00 || type == 0xff02 ||
	       type == 0xff03 || type == 0xffce;
}

static int extensions_read(struct rest all, struct reach_name *name, const char **reason)
{
	size_t seen[HELLO_EXTENSIONS_MAX], n_seen = 0, type;
	bool named = false;
	struct rest one;

	while (all.n) {
		if (!take_number(&all, 2, &type) || !take_vector(&all, 2, &one))
			return fault(reason, "extensions that are not well-formed");
		if (n_seen == HELLO_EXTENSIONS_MAX)
			return fault(reason, "too many extensions");
		for (size_t i = 0; i < n_seen; i++)
			if (seen[i] == type)
				return fault(reason, "an extension that stands twice");
		seen[n_seen++] = type;
		if (hides_name(type))
			return fault(reason, "an encrypted ClientHello, which hides where it goes");
		if (type != EXTENSION_NAME)
			continue;
		if (name_take(one, name, reason))
			return -EBADMSG;
		named = true;
	}
	return named ? 0 : fault(reason, "no server name (SNI)");
}

/* --- the message ------------------------------------------------------------------------------ */

static int message_read(struct rest message, struct reach_name *name, const char **reason)
{
	struct rest random, session, ciphers, compressions, extensions;
	size_t version;

	if (!take_number(&message, 2, &version) || !take(&message, RANDOM_BYTES, &random) ||
	    !take_vector(&message, 1, &session) || session.n > SESSION_BYTES_MAX ||
	    !take_vector(&message, 2, &ciphers) || !ciphers.n || ciphers.n % 2 ||
	    !take_vector(&message, 1, &compressions) || !compressions.n)
		return fault(reason, "a ClientHello that is not well-formed");
	if (version >> 8 != 3 || (version & 0xff) < 1)
		return fault(reason, "not TLS");
	if (!message.n)
		return fault(reason, "no server name (SNI)");
	if (!take_vector(&message, 2, &extensions) || message.n)
		return fault(reason, "a ClientHello that is not well-formed");
	return extensions_read(extensions, name, reason);
}

/* --- records ---------------------------------------------------------------------------------- */

/* A record's head, as far as it is there: what can be told to be wrong is told at once. */
static int record_judge(const uint8_t *p, size_t n, const char **reason)
{
	size_t length = n >= RECORD_HEAD ? (size_t)p[3] << 8 | p[4] : 1;

	if ((n >= 1 && p[0] != RECORD_HANDSHAKE) || (n >= 2 && p[1] != 3))
		return fault(reason, "not TLS; only that goes through CONNECT");
	if (!length || length > RECORD_BYTES_MAX)
		return fault(reason, "a record that is not well-formed");
	return 0;
}

/* What the message must look like, by its first bytes; *ret_size: of all of it, 0: not known yet. */
static int start_judge(const uint8_t *message, size_t n, size_t *ret_size, const char **reason)
{
	*ret_size = 0;
	if (n >= 1 && message[0] != MESSAGE_CLIENT_HELLO)
		return fault(reason, "not a ClientHello");
	if (n < MESSAGE_HEAD)
		return 0;
	*ret_size =
		MESSAGE_HEAD + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
	return *ret_size > HELLO_BYTES_MAX ? fault(reason, "a ClientHello that is too long") : 0;
}

int hello_read(const uint8_t *p, size_t n, struct reach_name *ret_name, const char **ret_reason)
{
	uint8_t message[HELLO_BYTES_MAX];
	size_t have = 0, at = 0, size = 0;

	*ret_reason = "";
	for (unsigned int records = 0;; records++) {
		size_t left = n - at, length;

		if (size && have >= size)
			break;
		if (record_judge(p + at, left, ret_reason))
			return -EBADMSG;
		if (records == HELLO_RECORDS_MAX)
			return fault(ret_reason, "a ClientHello in too many records");
		if (left < RECORD_HEAD)
			return at + RECORD_HEAD > HELLO_BYTES_MAX
				       ? fault(ret_reason, "a ClientHello that is too long")
				       : HELLO_PARTIAL;
		length = (size_t)p[at + 3] << 8 | p[at + 4];
		if (at + RECORD_HEAD + length > HELLO_BYTES_MAX)
			return fault(ret_reason, "a ClientHello that is too long");
		left -= RECORD_HEAD;
		memcpy(message + have, p + at + RECORD_HEAD, left < length ? left : length);
		if (start_judge(message, have + (left < length ? left : length), &size, ret_reason))
			return -EBADMSG;
		if (left < length)
			return HELLO_PARTIAL;
		have += length;
		at += RECORD_HEAD + length;
	}
	if (have > size)
		return fault(ret_reason, "bytes behind the ClientHello in its record");
	if (message_read((struct rest){ message + MESSAGE_HEAD, size - MESSAGE_HEAD }, ret_name,
			 ret_reason))
		return -EBADMSG;
	return (int)at;
}
