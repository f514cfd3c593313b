/* SPDX-License-Identifier: Apache-2.0 */
/* Inside user/grant. */
#ifndef CORDON_GRANT_INTERNAL_H
#define CORDON_GRANT_INTERNAL_H

#include <openssl/evp.h>

#include "grant/grant.h"

struct grant_key {
	char id[GRANT_KID_MAX + 1];
	EVP_PKEY *key; /* Ed25519 */
	bool sign;
};

struct grant_keys {
	struct grant_key v[GRANT_KEYS_MAX];
	size_t n;
};

const struct grant_key *grant_keys_find(const struct grant_keys *keys, const char *id);
const struct grant_key *grant_keys_signer(const struct grant_keys *keys); /* or NULL */

#endif
