// SPDX-License-Identifier: Apache-2.0
/*
 * The token: three parts of base64url, header.payload.signature. The order of the checks is the point: form, then which
 * key, then what that key is for, then the signature over the bytes as they came, then the claims.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <string.h>

#include "grant/internal.h"

enum { SIGNATURE_SIZE = 64, PART_MAX = GRANT_TOKEN_MAX * 3 / 4 };

#define X(e, name, text) { name, text },
static const struct {
	const char *name, *text;
} faults[] = { GRANT_FAULTS(X) };
#undef X

const char *grant_fault_name(enum grant_fault fault)
{
	return faults[fault < GRANT_FAULTS_N ? fault : GRANT_FORM].name;
}

const char *grant_fault_text(enum grant_fault fault)
{
	return faults[fault < GRANT_FAULTS_N ? fault : GRANT_FORM].text;
}

/* --- claims ------------------------------------------------------------------------------------------------- */

/* Nothing that would need escaping: what is signed is the same text everywhere. */
static bool text_is_plain(const char *text, size_t min, size_t max)
{
	size_t n = strlen(text);

	if (n < min || n > max)
		return false;
	for (; *text; text++)
		if (*text < 0x20 || *text > 0x7e || *text == '"' || *text == '\\')
			return false;
	return true;
}

static bool id_is_sound(const char *id)
{
	return strlen(id) == GRANT_ID_SIZE - 1 &&
	       strspn(id, "0123456789abcdef") == GRANT_ID_SIZE - 1;
}

static bool claims_are_sound(const struct grant_claims *c)
{
	return id_is_sound(c->id) && c->fence_id &&
	       text_is_plain(c->scope, 1, sizeof(c->scope) - 1) &&
	       text_is_plain(c->tool, 0, sizeof(c->tool) - 1) &&
	       text_is_plain(c->object, 0, sizeof(c->object) - 1) && c->amount_max > 0 &&
	       c->uses_max > 0 && c->issued_s > 0 && c->not_before_s > 0 &&
	       c->expires_s > c->not_before_s && c->expires_s > c->issued_s &&
	       c->expires_s - c->issued_s <= GRANT_LIFETIME_MAX_S;
}

int grant_sign(const struct grant_keys *keys, const struct grant_claims *c,
	       char ret_token[GRANT_TOKEN_MAX + 1])
{
	const struct grant_key *key = grant_keys_signer(keys);
	char header[128], payload[2048];
	unsigned char signature[SIGNATURE_SIZE];
	size_t size = sizeof(signature), n;
	EVP_MD_CTX *md;
	bool signed_it;
	int length;

	if (!key)
		return -ENOKEY;
	if (!claims_are_sound(c))
		return -EINVAL;
	snprintf(header, sizeof(header), "{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"%s\"}",
		 key->id);
	length = snprintf(
		payload, sizeof(payload),
		"{\"aud\":\"" GRANT_AUDIENCE "\",\"jti\":\"%s\",\"fence\":\"%016" PRIx64
		"\",\"scope\":\"%s\",\"tool\":\"%s\",\"object\":\"%s\",\"amount_max\":%" PRId64
		",\"uses\":%" PRId64 ",\"iat\":%" PRId64 ",\"nbf\":%" PRId64 ",\"exp\":%" PRId64
		"}",
		c->id, c->fence_id, c->scope, c->tool, c->object, c->amount_max, c->uses_max,
		c->issued_s, c->not_before_s, c->expires_s);
	if (length >= (int)sizeof(payload))
		return -EINVAL;
	n = grant_base64_encode((const uint8_t *)header, strlen(header), ret_token);
	ret_token[n++] = '.';
	n += grant_base64_encode((const uint8_t *)payload, (size_t)length, ret_token + n);
	md = EVP_MD_CTX_new();
	signed_it = md && EVP_DigestSignInit(md, NULL, NULL, NULL, key->key) == 1 &&
		    EVP_DigestSign(md, signature, &size, (const unsigned char *)ret_token, n) == 1;
	EVP_MD_CTX_free(md);
	if (!signed_it || size != SIGNATURE_SIZE)
		return -EIO;
	ret_token[n++] = '.';
	grant_base64_encode(signature, size, ret_token + n);
	return 0;
}

/* --- verifying ---------------------------------------------------------------------------------------------- */

struct part {
	const char *p;
	size_t n;
};

/* Exactly two dots; an empty signature is a signature that is wrong. */
static bool token_split(const char *token, size_t size, struct part ret[3])
{
	const char *end = token + size;
	size_t i = 0;

	if (size > GRANT_TOKEN_MAX)
		return false;
	for (const char *p = token; i < 3; i++) {
		const char *dot = memchr(p, '.', (size_t)(end - p));

		ret[i] = (struct part){ p, (size_t)((dot ? dot : end) - p) };
		if ((!ret[i].n && i < 2) || !dot != (i == 2))
			return false;
		p = dot ? dot + 1 : end;
	}
	return true;
}

/* A part as a JSON object whose members are exactly n. */
static json_t *part_object(const struct part *part, size_t n)
{
	uint8_t bytes[PART_MAX + 1];
	ssize_t size = grant_base64_decode(part->p, part->n, bytes);
	json_t *root;

	if (size < 0)
		return NULL;
	root = json_loadb((const char *)bytes, (size_t)size, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(root) && json_object_size(root) == n)
		return root;
	json_decref(root);
	return NULL;
}

static bool text_get(const json_t *root, const char *name, char *ret, size_t size)
{
	const char *text = json_string_value(json_object_get(root, name));

	if (!text || strlen(text) >= size)
		return false;
	strcpy(ret, text);
	return true;
}

static bool number_get(const json_t *root, const char *name, int64_t *ret)
{
	const json_t *value = json_object_get(root, name);

	*ret = json_integer_value(value);
	return json_is_integer(value);
}

/* The key that the header names; the header says nothing else than which. */
static enum grant_fault header_read(const struct grant_keys *keys, const struct part *part,
				    const struct grant_key **ret_key)
{
	char alg[32], typ[8], kid[GRANT_KID_MAX + 1];
	json_t *root = part_object(part, 3);
	enum grant_fault fault = GRANT_OK;

	if (!root) {
		/* `none` without a key is the oldest trick: it deserves its own word in the record. */
		root = part_object(part, 2);
		if (!root)
			root = part_object(part, 1);
		fault = root && (!text_get(root, "alg", alg, sizeof(alg)) ||
				 strcmp(alg, "EdDSA") != 0)
				? GRANT_ALG
				: GRANT_HEADER;
	} else if (!text_get(root, "alg", alg, sizeof(alg)) || strcmp(alg, "EdDSA") != 0) {
		fault = GRANT_ALG;
	} else if (!text_get(root, "typ", typ, sizeof(typ)) || strcmp(typ, "JWT") != 0 ||
		   !text_get(root, "kid", kid, sizeof(kid))) {
		fault = GRANT_HEADER;
	} else {
		*ret_key = grant_keys_find(keys, kid);
		if (!*ret_key)
			fault = GRANT_KEY;
	}
	json_decref(root);
	return fault;
}

static bool signature_is_good(const struct grant_key *key, const char *token,
			      const struct part *parts)
{
	uint8_t signature[PART_MAX + 1];
	ssize_t size = grant_base64_decode(parts[2].p, parts[2].n, signature);
	EVP_MD_CTX *md;
	bool good;

	if (size != SIGNATURE_SIZE)
		return false;
	md = EVP_MD_CTX_new();
	good = md && EVP_DigestVerifyInit(md, NULL, NULL, NULL, key->key) == 1 &&
	       EVP_DigestVerify(md, signature, SIGNATURE_SIZE, (const unsigned char *)token,
				(size_t)(parts[1].p + parts[1].n - token)) == 1;
	EVP_MD_CTX_free(md);
	return good;
}

static bool fence_get(const json_t *root, uint64_t *ret)
{
	char text[17];

	if (!text_get(root, "fence", text, sizeof(text)) || strlen(text) != 16 ||
	    strspn(text, "0123456789abcdef") != 16)
		return false;
	*ret = strtoull(text, NULL, 16);
	return true;
}

static enum grant_fault claims_read(const struct part *part, struct grant_claims *c)
{
	json_t *root = part_object(part, 11);
	char audience[64];
	enum grant_fault fault = GRANT_CLAIMS;

	if (root && text_get(root, "aud", audience, sizeof(audience)) &&
	    text_get(root, "jti", c->id, sizeof(c->id)) && fence_get(root, &c->fence_id) &&
	    text_get(root, "scope", c->scope, sizeof(c->scope)) &&
	    text_get(root, "tool", c->tool, sizeof(c->tool)) &&
	    text_get(root, "object", c->object, sizeof(c->object)) &&
	    number_get(root, "amount_max", &c->amount_max) &&
	    number_get(root, "uses", &c->uses_max) && number_get(root, "iat", &c->issued_s) &&
	    number_get(root, "nbf", &c->not_before_s) && number_get(root, "exp", &c->expires_s) &&
	    claims_are_sound(c))
		fault = strcmp(audience, GRANT_AUDIENCE) != 0 ? GRANT_OTHER_AUDIENCE : GRANT_OK;
	json_decref(root);
	return fault;
}

/* claims_are_sound() has bounded the differences; the sums cannot overflow against a clock. */
static enum grant_fault times_judge(const struct grant_claims *c, int64_t now_s)
{
	if (c->issued_s - GRANT_LEEWAY_S > now_s || c->not_before_s - GRANT_LEEWAY_S > now_s)
		return GRANT_FUTURE;
	return now_s - GRANT_LEEWAY_S >= c->expires_s ? GRANT_EXPIRED : GRANT_OK;
}

enum grant_fault grant_verify(const struct grant_keys *keys, const char *token, size_t size,
			      int64_t now_s, uint64_t fence_id, struct grant_claims *ret_claims)
{
	const struct grant_key *key = NULL;
	struct part parts[3];
	enum grant_fault fault;

	memset(ret_claims, 0, sizeof(*ret_claims));
	if (!token_split(token, size, parts))
		return GRANT_FORM;
	fault = header_read(keys, &parts[0], &key);
	if (fault != GRANT_OK)
		return fault;
	if (!signature_is_good(key, token, parts))
		return GRANT_SIGNATURE;
	fault = claims_read(&parts[1], ret_claims);
	if (fault == GRANT_OK)
		fault = times_judge(ret_claims, now_s);
	if (fault == GRANT_OK && ret_claims->fence_id != fence_id)
		fault = GRANT_FENCE;
	return fault;
}
