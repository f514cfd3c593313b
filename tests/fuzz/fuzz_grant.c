// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens, as anyone may send them. The first byte chooses: the token as it is, or header and payload in plain, encoded
 * and signed with the real key, so that what lies behind the signature is reached as well.
 */
#include <stdint.h>
#include <string.h>

#include "grant/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct grant_keys keys;
	struct grant_claims claims;
	char token[2 * GRANT_TOKEN_MAX];
	unsigned char signature[64];
	const uint8_t *part;
	size_t n, length = sizeof(signature);
	EVP_MD_CTX *md;

	if (!keys.n) {
		strcpy(keys.v[0].id, "k");
		keys.v[0].key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
		keys.v[0].sign = true;
		keys.n = 1;
	}
	if (!size)
		return 0;
	if (data[0] & 1) {
		grant_verify(&keys, (const char *)data + 1, size - 1, 1800000000, 1, &claims);
		return 0;
	}
	if (size > 2048)
		return 0;
	part = memchr(data + 1, '.', size - 1);
	if (!part)
		return 0;
	n = grant_base64_encode(data + 1, (size_t)(part - data - 1), token);
	token[n++] = '.';
	n += grant_base64_encode(part + 1, size - (size_t)(part + 1 - data), token + n);
	md = EVP_MD_CTX_new();
	EVP_DigestSignInit(md, NULL, NULL, NULL, keys.v[0].key);
	EVP_DigestSign(md, signature, &length, (const unsigned char *)token, n);
	EVP_MD_CTX_free(md);
	token[n++] = '.';
	n += grant_base64_encode(signature, length, token + n);
	grant_verify(&keys, token, n, 1800000000, 0xabcdef, &claims);
	return 0;
}
