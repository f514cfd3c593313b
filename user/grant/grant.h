/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants as tokens: JWTs signed with Ed25519. Pure: keys and bytes in, claims or a fault out; no clock, no state. What
 * a grant has used, whether it was revoked and what it covers, the ledger knows; a token proves only that this gateway
 * issued it, for that fence, until then.
 *
 * One algorithm. A key is an Ed25519 key or it is refused when it is loaded; the token's header names it by `kid`, and
 * its `alg` is compared with what that key is for, never used to choose anything. Nothing of the payload is looked at
 * before the signature has been verified. Whatever is not exactly as grant_sign() makes it - members that are missing,
 * unknown or twice, other types, padding, bits that base64url leaves over - is refused.
 */
#ifndef CORDON_GRANT_H
#define CORDON_GRANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/util.h"

#define GRANT_TOKEN_MAX 4096
#define GRANT_AUDIENCE "cordon-gateway"
#define GRANT_LEEWAY_S 5 /* clocks of gateways that share keys may differ by so much */
#define GRANT_LIFETIME_MAX_S 86400
#define GRANT_KEYS_MAX 16
#define GRANT_KID_MAX 64
#define GRANT_ID_SIZE 33
#define GRANT_NO_LIMIT INT64_MAX

/*
 * Times are seconds since 1970. A token is good while issued - leeway <= now, not_before - leeway <= now and
 * now < expires + leeway.
 */
struct grant_claims {
	char id[GRANT_ID_SIZE]; /* 128 random bits, hexadecimal */
	uint64_t fence_id;
	char scope[65];
	char tool[129];		      /* "": every tool of the scope */
	char object[513];	      /* "": every object */
	int64_t amount_max, uses_max; /* GRANT_NO_LIMIT: none */
	int64_t issued_s, not_before_s, expires_s;
};

/* X(enum, name, text): why a token is refused; the name goes into the record. */
#define GRANT_FAULTS(X)                                                                   \
	X(OK, "ok", "the token is good")                                                  \
	X(FORM, "grant_form", "not three parts of base64url, or too long")                \
	X(HEADER, "grant_header", "the header is not what this gateway writes")           \
	X(ALG, "grant_alg", "another algorithm than the key's")                           \
	X(KEY, "grant_key", "signed with a key that this gateway does not hold any more") \
	X(SIGNATURE, "grant_signature", "the signature is wrong")                         \
	X(CLAIMS, "grant_claims", "a claim is missing, unknown or malformed")             \
	X(OTHER_AUDIENCE, "grant_audience", "for somebody else")                          \
	X(FUTURE, "grant_not_yet", "issued in the future, or not to be used yet")         \
	X(EXPIRED, "grant_expired", "expired")                                            \
	X(FENCE, "grant_fence", "bound to another fence")

enum grant_fault {
#define X(e, name, text) GRANT_##e,
	GRANT_FAULTS(X)
#undef X
		GRANT_FAULTS_N
};
const char *grant_fault_name(enum grant_fault fault);
const char *grant_fault_text(enum grant_fault fault);

struct grant_keys;

struct grant_keys *grant_keys_new(void);       /* NULL when memory ends */
void grant_keys_free(struct grant_keys *keys); /* takes NULL */

/*
 * Adds the Ed25519 key in a PEM file under the name id (letters, digits, . _ -): with sign a private one, with which
 * grant_sign() signs (the last added wins), else a public one, which only verifies. Returns 0, -EEXIST the name is taken,
 * -EINVAL no such key in the file, -EPERM a private key that others may read, -errno of the file; error says which.
 */
int grant_keys_add(struct grant_keys *keys, const char *id, const char *path, bool sign,
		   struct error *error);
bool grant_keys_can_sign(const struct grant_keys *keys);

/* A fresh id. 0 or -EIO. */
int grant_make_id(char ret_id[GRANT_ID_SIZE]);

/* The token of claims, NUL-terminated. Returns 0, -ENOKEY without a signing key, -EINVAL for claims out of bounds. */
int grant_sign(const struct grant_keys *keys, const struct grant_claims *claims,
	       char ret_token[GRANT_TOKEN_MAX + 1]);

/*
 * GRANT_OK and the claims, or why not; then *ret_claims is not to be used. fence_id: of the caller. May be called from
 * several threads at once.
 */
enum grant_fault grant_verify(const struct grant_keys *keys, const char *token, size_t size,
			      int64_t now_s, uint64_t fence_id, struct grant_claims *ret_claims);

/*
 * base64url without padding. Decoding returns the number of bytes, or -EINVAL for anything but the one spelling of
 * some bytes; ret needs size * 3 / 4 bytes. Encoding writes NUL, ret needs (size * 4 + 2) / 3 + 1.
 */
ssize_t grant_base64_decode(const char *text, size_t size, uint8_t *ret);
size_t grant_base64_encode(const uint8_t *bytes, size_t size, char *ret);

#endif
