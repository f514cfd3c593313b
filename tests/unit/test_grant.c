// SPDX-License-Identifier: Apache-2.0
/*
 * user/grant: what is signed verifies, and nothing else does. Cases G-01 (no signature), G-02 (the public key as a
 * secret), G-04 (times), and what a strict reader refuses. Every refusal has the good token beside it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <openssl/ec.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <string.h>
#include <sys/stat.h>

#include "grant/internal.h"

enum { NOW = 1800000000, FENCE = 0xabcdef };

static char dir[64], private_path[96], public_path[96], other_path[96];
static struct grant_keys *keys;
static const struct grant_claims claims = {
	.id = "00112233445566778899aabbccddeeff",
	.fence_id = FENCE,
	.scope = "refund:create",
	.tool = "refund",
	.object = "o-1",
	.amount_max = 5000,
	.uses_max = 3,
	.issued_s = NOW,
	.not_before_s = NOW,
	.expires_s = NOW + 600,
};

static void write_private(const char *path, EVP_PKEY *key)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(f);
	chmod(path, 0600);
}

static void write_public(const char *path, EVP_PKEY *key)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(PEM_write_PUBKEY(f, key), 1);
	fclose(f);
}

static int setup(void **state)
{
	struct error error = { "" };
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");

	(void)state;
	strcpy(dir, "/tmp/cordon-grant-XXXXXX");
	if (!key || !mkdtemp(dir))
		return -1;
	snprintf(private_path, sizeof(private_path), "%s/private.pem", dir);
	snprintf(public_path, sizeof(public_path), "%s/public.pem", dir);
	snprintf(other_path, sizeof(other_path), "%s/other.pem", dir);
	write_private(private_path, key);
	write_public(public_path, key);
	EVP_PKEY_free(key);
	keys = grant_keys_new();
	return grant_keys_add(keys, "k-1", private_path, true, &error);
}

static int teardown(void **state)
{
	(void)state;
	grant_keys_free(keys);
	unlink(private_path);
	unlink(public_path);
	unlink(other_path);
	return rmdir(dir);
}

static enum grant_fault verify_at(const char *token, int64_t now_s)
{
	struct grant_claims got;

	return grant_verify(keys, token, strlen(token), now_s, FENCE, &got);
}

static enum grant_fault verify(const char *token)
{
	return verify_at(token, NOW + 1);
}

/* A token of any header and payload; the signature is good, unless sign is false: then it is empty. */
static const char *make(const char *header, const char *payload, bool sign)
{
	static char token[3 * GRANT_TOKEN_MAX];
	unsigned char signature[64];
	size_t size = sizeof(signature), n;
	EVP_MD_CTX *md = EVP_MD_CTX_new();

	n = grant_base64_encode((const uint8_t *)header, strlen(header), token);
	token[n++] = '.';
	n += grant_base64_encode((const uint8_t *)payload, strlen(payload), token + n);
	assert_int_equal(EVP_DigestSignInit(md, NULL, NULL, NULL, keys->v[0].key), 1);
	assert_int_equal(EVP_DigestSign(md, signature, &size, (unsigned char *)token, n), 1);
	EVP_MD_CTX_free(md);
	token[n++] = '.';
	token[n] = '\0';
	if (sign)
		grant_base64_encode(signature, size, token + n);
	return token;
}

#define HEADER "{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"k-1\"}"
#define PAYLOAD(aud, extra, exp)                                                          \
	"{\"aud\":\"" aud "\",\"jti\":\"00112233445566778899aabbccddeeff\",\"fence\":"    \
	"\"0000000000abcdef\",\"scope\":\"refund:create\",\"tool\":\"\",\"object\":\"\"," \
	"\"amount_max\":5,\"uses\":1,\"iat\":1800000000,\"nbf\":1800000000" extra exp "}"
#define EXP ",\"exp\":1800000600"
#define GOOD PAYLOAD("cordon-gateway", "", EXP)

static void test_round(void **state)
{
	char token[GRANT_TOKEN_MAX + 1];
	struct grant_claims got;

	(void)state;
	assert_int_equal(grant_sign(keys, &claims, token), 0);
	assert_int_equal(grant_verify(keys, token, strlen(token), NOW, FENCE, &got), GRANT_OK);
	assert_memory_equal(&got, &claims, sizeof(got));
	assert_int_equal(grant_verify(keys, token, strlen(token), NOW, FENCE + 1, &got),
			 GRANT_FENCE);
	assert_int_equal(verify(make(HEADER, GOOD, true)), GRANT_OK);
}

/* Every bit of a token counts. */
static void test_every_bit(void **state)
{
	char token[GRANT_TOKEN_MAX + 1], changed[GRANT_TOKEN_MAX + 1];
	size_t n;

	(void)state;
	assert_int_equal(grant_sign(keys, &claims, token), 0);
	n = strlen(token);
	for (size_t i = 0; i < n; i++)
		for (int bit = 0; bit < 8; bit++) {
			memcpy(changed, token, n + 1);
			changed[i] ^= (char)(1 << bit);
			assert_int_not_equal(grant_verify(keys, changed, n, NOW, FENCE,
							  &(struct grant_claims){ .fence_id = 0 }),
					     GRANT_OK);
		}
	for (size_t i = 0; i < n; i++)
		assert_int_not_equal(grant_verify(keys, token, i, NOW, FENCE,
						  &(struct grant_claims){ .fence_id = 0 }),
				     GRANT_OK);
}

/* G-01 */
static void test_no_signature(void **state)
{
	static const char *const headers[] = {
		"{\"alg\":\"none\"}",
		"{\"alg\":\"None\"}",
		"{\"alg\":\"NONE\"}",
		"{\"alg\":\"nOnE\",\"typ\":\"JWT\"}",
		"{\"alg\":\"\",\"typ\":\"JWT\",\"kid\":\"k-1\"}",
		"{\"typ\":\"JWT\",\"kid\":\"k-1\"}",
		"{\"alg\":\"none\",\"typ\":\"JWT\",\"kid\":\"k-1\"}",
		"{\"alg\":\"eddsa\",\"typ\":\"JWT\",\"kid\":\"k-1\"}",
		"{\"alg\":null,\"typ\":\"JWT\",\"kid\":\"k-1\"}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		assert_int_equal(verify(make(headers[i], GOOD, false)), GRANT_ALG);
		assert_int_equal(verify(make(headers[i], GOOD, true)), GRANT_ALG);
	}
	assert_int_equal(verify(make(HEADER, GOOD, false)), GRANT_SIGNATURE);
	assert_int_equal(verify(".."), GRANT_FORM);
	assert_int_equal(verify(""), GRANT_FORM);
	assert_int_equal(verify("."), GRANT_FORM);
	assert_int_equal(verify("a.b"), GRANT_FORM);
	assert_int_equal(verify("a.b.c.d"), GRANT_FORM);
}

/* G-02: HS256 (and others) over what everybody may know of the key. */
static void test_confusion(void **state)
{
	static const char *const algs[] = { "HS256", "HS512", "RS256", "ES256", "Ed25519" };
	char pem[1024] = "", header[128], token[GRANT_TOKEN_MAX];
	unsigned char raw[32], mac[64];
	size_t raw_size = sizeof(raw), n, at;
	FILE *f = fopen(public_path, "r");

	(void)state;
	at = fread(pem, 1, sizeof(pem) - 1, f);
	fclose(f);
	assert_true(at > 64);
	EVP_PKEY_get_raw_public_key(keys->v[0].key, raw, &raw_size);
	for (size_t i = 0; i < ARRAY_SIZE(algs); i++)
		for (int secret = 0; secret < 3; secret++) {
			const void *with = secret == 2 ? (void *)raw : (void *)pem;
			int with_size = secret == 2 ? 32 : (int)at - secret; /* without newline */
			unsigned int mac_size = 0;

			snprintf(header, sizeof(header),
				 "{\"alg\":\"%s\",\"typ\":\"JWT\",\"kid\":\"k-1\"}", algs[i]);
			n = grant_base64_encode((uint8_t *)header, strlen(header), token);
			token[n++] = '.';
			n += grant_base64_encode((const uint8_t *)GOOD, strlen(GOOD), token + n);
			HMAC(EVP_sha256(), with, with_size, (unsigned char *)token, n, mac,
			     &mac_size);
			token[n++] = '.';
			grant_base64_encode(mac, mac_size, token + n);
			assert_int_equal(verify(token), GRANT_ALG);
			memcpy(token + 0, make(HEADER, GOOD, true), 8); /* alg as it should be */
			assert_int_not_equal(verify(token), GRANT_OK);
		}
}

/* G-04 */
static void test_times(void **state)
{
	char token[GRANT_TOKEN_MAX + 1];
	struct grant_claims c = claims;

	(void)state;
	assert_int_equal(grant_sign(keys, &c, token), 0);
	assert_int_equal(verify_at(token, NOW - GRANT_LEEWAY_S), GRANT_OK);
	assert_int_equal(verify_at(token, NOW - GRANT_LEEWAY_S - 1), GRANT_FUTURE);
	assert_int_equal(verify_at(token, c.expires_s + GRANT_LEEWAY_S - 1), GRANT_OK);
	assert_int_equal(verify_at(token, c.expires_s + GRANT_LEEWAY_S), GRANT_EXPIRED);
	c.not_before_s = NOW + 300;
	assert_int_equal(grant_sign(keys, &c, token), 0);
	assert_int_equal(verify_at(token, NOW), GRANT_FUTURE);
	assert_int_equal(verify_at(token, NOW + 295), GRANT_OK);
	c = claims; /* issued in the future, whatever it says of when it may be used */
	c.issued_s = NOW + 300;
	assert_int_equal(grant_sign(keys, &c, token), 0);
	assert_int_equal(verify_at(token, NOW + 1), GRANT_FUTURE);
	assert_int_equal(verify_at(token, NOW + 300), GRANT_OK);
	c = claims;
	c.expires_s = NOW + GRANT_LIFETIME_MAX_S + 1;
	assert_int_equal(grant_sign(keys, &c, token), -EINVAL);
	/* Without one of the claims, with one twice, with one more, of another type. */
	assert_int_equal(verify(make(HEADER, PAYLOAD("cordon-gateway", "", ""), true)),
			 GRANT_CLAIMS);
	assert_int_equal(verify(make(HEADER, PAYLOAD("cordon-gateway", EXP, EXP), true)),
			 GRANT_CLAIMS);
	assert_int_equal(verify(make(HEADER, PAYLOAD("cordon-gateway", ",\"x\":1", EXP), true)),
			 GRANT_CLAIMS);
	assert_int_equal(
		verify(make(HEADER, PAYLOAD("cordon-gateway", "", ",\"exp\":1800000600.0"), true)),
		GRANT_CLAIMS);
	assert_int_equal(verify(make(HEADER,
				     PAYLOAD("cordon-gateway", "", ",\"exp\":\"1800000600\""),
				     true)),
			 GRANT_CLAIMS);
	assert_int_equal(
		verify(make(HEADER, PAYLOAD("cordon-gateway", "", ",\"exp\":1e300"), true)),
		GRANT_CLAIMS);
	assert_int_equal(verify(make(HEADER,
				     PAYLOAD("cordon-gateway", "", ",\"exp\":9223372036854775807"),
				     true)),
			 GRANT_CLAIMS);
	assert_int_equal(verify(make(HEADER, PAYLOAD("another", "", EXP), true)),
			 GRANT_OTHER_AUDIENCE);
	assert_int_equal(verify(make(HEADER, "[]", true)), GRANT_CLAIMS);
	assert_int_equal(verify(make(HEADER, "{", true)), GRANT_CLAIMS);
}

static void test_header(void **state)
{
	(void)state;
	assert_int_equal(
		verify(make("{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"k-2\"}", GOOD, true)),
		GRANT_KEY);
	assert_int_equal(verify(make("{\"alg\":\"EdDSA\",\"typ\":\"JWT\"}", GOOD, true)),
			 GRANT_HEADER);
	assert_int_equal(verify(make("{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"k-1\","
				     "\"crit\":[\"exp\"]}",
				     GOOD, true)),
			 GRANT_HEADER);
	assert_int_equal(
		verify(make("{\"alg\":\"EdDSA\",\"alg\":\"none\",\"kid\":\"k-1\"}", GOOD, true)),
		GRANT_HEADER);
	assert_int_equal(
		verify(make("{\"alg\":\"EdDSA\",\"typ\":\"at+jwt\",\"kid\":\"k-1\"}", GOOD, true)),
		GRANT_HEADER);
}

static void test_base64(void **state)
{
	static const char *const bad[] = { "A",	  "AAAAA", "AB",  "AAB", "AA=",	  "AA==",
					   "A+A", "A/A",   "A A", "\n",	 "AAA\n", "A.A" };
	uint8_t bytes[64], back[64];
	char text[96];
	size_t size;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(grant_base64_decode(bad[i], strlen(bad[i]), bytes), -EINVAL);
	for (size_t n = 0; n < sizeof(bytes); n++) {
		for (size_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)(i * 37 + n * 11);
		size = grant_base64_encode(bytes, n, text);
		assert_int_equal(size, strlen(text));
		assert_int_equal(grant_base64_decode(text, strlen(text), back), n);
		assert_memory_equal(bytes, back, n);
	}
}

/* A key is taken out of use by naming its public half, or not at all; a new one signs at once. */
static void test_rotation(void **state)
{
	char old[GRANT_TOKEN_MAX + 1], new[GRANT_TOKEN_MAX + 1];
	struct grant_keys *both = grant_keys_new(), *later = grant_keys_new();
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	struct error error = { "" };
	struct grant_claims got;

	(void)state;
	write_private(other_path, key);
	EVP_PKEY_free(key);
	assert_int_equal(grant_sign(keys, &claims, old), 0);
	assert_int_equal(grant_keys_add(both, "k-1", public_path, false, &error), 0);
	assert_false(grant_keys_can_sign(both));
	assert_int_equal(grant_sign(both, &claims, new), -ENOKEY);
	assert_int_equal(grant_keys_add(both, "k-2", other_path, true, &error), 0);
	assert_int_equal(grant_keys_add(later, "k-2", other_path, true, &error), 0);
	assert_int_equal(grant_sign(both, &claims, new), 0);
	assert_int_equal(grant_verify(both, old, strlen(old), NOW, FENCE, &got), GRANT_OK);
	assert_int_equal(grant_verify(both, new, strlen(new), NOW, FENCE, &got), GRANT_OK);
	assert_int_equal(grant_verify(later, old, strlen(old), NOW, FENCE, &got), GRANT_KEY);
	assert_int_equal(grant_verify(later, new, strlen(new), NOW, FENCE, &got), GRANT_OK);
	assert_int_equal(grant_verify(keys, new, strlen(new), NOW, FENCE, &got), GRANT_KEY);
	grant_keys_free(both);
	grant_keys_free(later);
}

static void test_keys_refused(void **state)
{
	EVP_PKEY *ec = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
	EVP_PKEY *rsa = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
	struct error error = { "" };

	(void)state;
	write_private(other_path, ec);
	assert_int_equal(grant_keys_add(keys, "ec", other_path, true, &error), -EINVAL);
	write_public(other_path, rsa);
	assert_int_equal(grant_keys_add(keys, "rsa", other_path, false, NULL), -EINVAL);
	write_private(other_path, keys->v[0].key);
	chmod(other_path, 0604);
	assert_int_equal(grant_keys_add(keys, "open", other_path, true, NULL), -EPERM);
	chmod(other_path, 0640);
	assert_int_equal(grant_keys_add(keys, "group", other_path, true, NULL), 0);
	assert_int_equal(grant_keys_add(keys, "k-1", private_path, true, NULL), -EEXIST);
	assert_int_equal(grant_keys_add(keys, "a b", private_path, true, NULL), -EINVAL);
	assert_int_equal(grant_keys_add(keys, "none", "/nowhere", true, NULL), -ENOENT);
	assert_int_equal(grant_keys_add(keys, "dir", dir, true, NULL), -EINVAL);
	assert_int_equal(grant_keys_add(keys, "public", private_path, false, NULL), -EINVAL);
	EVP_PKEY_free(ec);
	EVP_PKEY_free(rsa);
}

static void test_claims_refused(void **state)
{
	char token[GRANT_TOKEN_MAX + 1];
	struct grant_claims c;

	(void)state;
#define REFUSED(change) \
	c = claims;     \
	change;         \
	assert_int_equal(grant_sign(keys, &c, token), -EINVAL)
	REFUSED(c.id[3] = 'G');
	REFUSED(c.id[0] = '\0');
	REFUSED(c.fence_id = 0);
	REFUSED(c.scope[0] = '\0');
	REFUSED(strcpy(c.object, "a\"b"));
	REFUSED(strcpy(c.object, "a\nb"));
	REFUSED(c.amount_max = 0);
	REFUSED(c.amount_max = -1);
	REFUSED(c.uses_max = 0);
	REFUSED(c.expires_s = c.issued_s);
	REFUSED(c.expires_s = INT64_MAX);
	REFUSED(c.issued_s = INT64_MIN);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_round),		T(test_every_bit), T(test_no_signature),
		T(test_confusion),	T(test_times),	   T(test_header),
		T(test_base64),		T(test_rotation),  T(test_keys_refused),
		T(test_claims_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
