// SPDX-License-Identifier: Apache-2.0
/*
 * An identity of the size that its texts need: struct identity has room for the longest of each, and a daemon holds
 * thousands. The texts stand one after the other, each with its NUL, then the scopes, the rules of network.domains, and what of
 * network.allow there is. No privilege; what is packed came
 * through identity_is_sound().
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "identity/identity.h"

/* Where they stand in struct identity. */
static const struct {
	size_t at;
} texts[IDENTITY_TEXT_COUNT] = {
#define X(id, member) [IDENTITY_##id] = { offsetof(struct identity, member) },
	IDENTITY_TEXTS(X)
#undef X
};

struct identity_packed {
	uint64_t fence_id, generation, upload_bytes;
	uint32_t mode, n_scopes, n_allow, domains_size;
	uint16_t at[IDENTITY_TEXT_COUNT]; /* in text */
	uint16_t scopes_at, domains_at, allow_at;
	char text[];
};

static const char *text_of(const struct identity *identity, size_t i)
{
	return (const char *)identity + texts[i].at;
}

static uint16_t text_add(struct identity_packed *packed, uint16_t at, const char *text)
{
	return (uint16_t)(at + (stpcpy(packed->text + at, text) - (packed->text + at)) + 1);
}

struct identity_packed *identity_pack(const struct identity *identity)
{
	struct identity_packed *packed;
	size_t size = 0;
	uint16_t at = 0;

	for (size_t i = 0; i < IDENTITY_TEXT_COUNT; i++)
		size += strlen(text_of(identity, i)) + 1;
	for (uint32_t i = 0; i < identity->n_scopes; i++)
		size += strlen(identity->scopes[i]) + 1;
	size += identity->domains_size + identity->n_allow * sizeof(identity->allow[0]);
	packed = malloc(sizeof(*packed) + size);
	if (!packed)
		return NULL;
	packed->fence_id = identity->fence_id;
	packed->generation = identity->generation;
	packed->mode = identity->mode;
	packed->n_scopes = identity->n_scopes;
	for (size_t i = 0; i < IDENTITY_TEXT_COUNT; i++) {
		packed->at[i] = at;
		at = text_add(packed, at, text_of(identity, i));
	}
	packed->scopes_at = at;
	for (uint32_t i = 0; i < identity->n_scopes; i++)
		at = text_add(packed, at, identity->scopes[i]);
	packed->upload_bytes = identity->upload_bytes;
	packed->domains_at = at;
	packed->domains_size = identity->domains_size;
	memcpy(packed->text + at, identity->domains, identity->domains_size);
	packed->allow_at = (uint16_t)(at + identity->domains_size);
	packed->n_allow = identity->n_allow;
	memcpy(packed->text + packed->allow_at, identity->allow,
	       identity->n_allow * sizeof(identity->allow[0]));
	return packed;
}

void identity_unpack(const struct identity_packed *packed, struct identity *ret_identity)
{
	const char *scope = packed->text + packed->scopes_at;

	memset(ret_identity, 0, sizeof(*ret_identity));
	ret_identity->fence_id = packed->fence_id;
	ret_identity->generation = packed->generation;
	ret_identity->mode = packed->mode;
	ret_identity->n_scopes = packed->n_scopes;
	for (size_t i = 0; i < IDENTITY_TEXT_COUNT; i++)
		strcpy((char *)ret_identity + texts[i].at, packed->text + packed->at[i]);
	for (uint32_t i = 0; i < packed->n_scopes; i++, scope += strlen(scope) + 1)
		strcpy(ret_identity->scopes[i], scope);
	ret_identity->upload_bytes = packed->upload_bytes;
	ret_identity->domains_size = packed->domains_size;
	memcpy(ret_identity->domains, packed->text + packed->domains_at, packed->domains_size);
	ret_identity->n_allow = packed->n_allow;
	memcpy(ret_identity->allow, packed->text + packed->allow_at,
	       packed->n_allow * sizeof(ret_identity->allow[0]));
}

const char *identity_packed_text(const struct identity_packed *packed, enum identity_text text)
{
	return packed->text + packed->at[text];
}

uint64_t identity_packed_generation(const struct identity_packed *packed)
{
	return packed->generation;
}

uint32_t identity_packed_mode(const struct identity_packed *packed)
{
	return packed->mode;
}
