// SPDX-License-Identifier: Apache-2.0
/* The keys that grants are signed and verified with: Ed25519, or they are not taken. */
#include "grant/internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <string.h>
#include <sys/stat.h>

struct grant_keys *grant_keys_new(void)
{
	return calloc(1, sizeof(struct grant_keys));
}

void grant_keys_free(struct grant_keys *keys)
{
	if (!keys)
		return;
	for (size_t i = 0; i < keys->n; i++)
		EVP_PKEY_free(keys->v[i].key);
	free(keys);
}

const struct grant_key *grant_keys_find(const struct grant_keys *keys, const char *id)
{
	for (size_t i = 0; i < keys->n; i++)
		if (!strcmp(keys->v[i].id, id))
			return &keys->v[i];
	return NULL;
}

const struct grant_key *grant_keys_signer(const struct grant_keys *keys)
{
	for (size_t i = keys->n; i-- > 0;)
		if (keys->v[i].sign)
			return &keys->v[i];
	return NULL;
}

bool grant_keys_can_sign(const struct grant_keys *keys)
{
	return grant_keys_signer(keys);
}

static bool id_is_sound(const char *id)
{
	size_t n = strlen(id);

	if (!n || n > GRANT_KID_MAX)
		return false;
	for (; *id; id++)
		if (!isalnum((unsigned char)*id) && !strchr("._-", *id))
			return false;
	return true;
}

/* No pass phrase is asked for: a gateway starts by itself. */
static int no_passphrase(char *buffer, int size, int writing, void *context)
{
	(void)buffer;
	(void)size;
	(void)writing;
	(void)context;
	return -1;
}

int grant_keys_add(struct grant_keys *keys, const char *id, const char *path, bool sign,
		   struct error *error)
{
	_cleanup_close_ int fd = -1;
	_cleanup_fclose_ FILE *file = NULL;
	struct grant_key *slot;
	struct stat st;
	EVP_PKEY *key;

	if (!id_is_sound(id))
		return error_set(error, EINVAL, "key %s: a name is letters, digits, ._- only", id);
	if (grant_keys_find(keys, id))
		return error_set(error, EEXIST, "key %s is named twice", id);
	if (keys->n == GRANT_KEYS_MAX)
		return error_set(error, ENOSPC, "key %s: more than %d keys", id, GRANT_KEYS_MAX);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st))
		return error_set(error, errno, "key %s: %s: %s", id, path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(error, EINVAL, "key %s: %s is no file", id, path);
	if (sign && st.st_mode & 077 & ~040)
		return error_set(error, EPERM,
				 "key %s: others may use %s: chmod 600 it (640 for a group)", id,
				 path);
	file = fdopen(TAKE_FD(fd), "r");
	if (!file)
		return error_set(error, ENOMEM, "out of memory");
	key = sign ? PEM_read_PrivateKey(file, NULL, no_passphrase, NULL)
		   : PEM_read_PUBKEY(file, NULL, no_passphrase, NULL);
	if (!key || EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519) {
		EVP_PKEY_free(key);
		return error_set(error, EINVAL, "key %s: %s holds no %s Ed25519 key in PEM", id,
				 path, sign ? "private" : "public");
	}
	slot = &keys->v[keys->n++];
	strcpy(slot->id, id);
	slot->key = key;
	slot->sign = sign;
	return 0;
}

int grant_make_id(char ret_id[GRANT_ID_SIZE])
{
	unsigned char bytes[(GRANT_ID_SIZE - 1) / 2];

	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return -EIO;
	util_hex(bytes, sizeof(bytes), ret_id);
	return 0;
}
