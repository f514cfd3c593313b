// SPDX-License-Identifier: Apache-2.0
/*
 * See chain.h: keys, hashes, and the writing and reading of one record. No privilege. The hash is taken by OpenSSL's
 * SHA256_*(): they are marked as old, but cost a third of what EVP does for a line, and this runs for every event.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "chain/internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <sys/stat.h>

static const char *const kind_names[] = {
#define CORDON_X(e, n, d) n,
	CHAIN_KINDS(CORDON_X)
#undef CORDON_X
};

const char *chain_fault_name(enum chain_fault fault)
{
	static const char *const names[] = { "none",
#define CORDON_X(e, n, d) n,
					     CHAIN_FAULTS(CORDON_X)
#undef CORDON_X
	};

	return (unsigned int)fault < ARRAY_SIZE(names) ? names[fault] : "?";
}

/* --- hashes ------------------------------------------------------------------------------------------------------- */

void chain_hash(const unsigned char before[CHAIN_HASH_SIZE], const char *p, size_t n,
		unsigned char ret_hash[CHAIN_HASH_SIZE])
{
	SHA256_CTX sha;

	SHA256_Init(&sha);
	SHA256_Update(&sha, before, CHAIN_HASH_SIZE);
	SHA256_Update(&sha, p, n);
	SHA256_Final(ret_hash, &sha);
}

/*
 * HMAC-SHA-256 (RFC 2104) of a and b, one after the other. By its definition: there is nothing to allocate, so nothing can
 * fail, and `cordon`, which links these few functions alone, need not hold all of OpenSSL in memory while a fence lives.
 */
static void hmac(const void *key, size_t n_key, const void *a, size_t n_a, const void *b,
		 size_t n_b, unsigned char ret_mac[CHAIN_HASH_SIZE])
{
	unsigned char pad[SHA256_CBLOCK] = { 0 }, inner[CHAIN_HASH_SIZE];
	SHA256_CTX sha;

	if (n_key > sizeof(pad)) {
		SHA256_Init(&sha);
		SHA256_Update(&sha, key, n_key);
		SHA256_Final(pad, &sha);
	} else {
		memcpy(pad, key, n_key);
	}
	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] ^= 0x36;
	SHA256_Init(&sha);
	SHA256_Update(&sha, pad, sizeof(pad));
	SHA256_Update(&sha, a, n_a);
	SHA256_Update(&sha, b, n_b);
	SHA256_Final(inner, &sha);
	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] ^= 0x36 ^ 0x5c;
	SHA256_Init(&sha);
	SHA256_Update(&sha, pad, sizeof(pad));
	SHA256_Update(&sha, inner, sizeof(inner));
	SHA256_Final(ret_mac, &sha);
	OPENSSL_cleanse(pad, sizeof(pad));
	OPENSSL_cleanse(&sha, sizeof(sha));
}

void chain_mac(const struct chain_key *key, const unsigned char before[CHAIN_HASH_SIZE],
	       const char *p, size_t n, unsigned char ret_mac[CHAIN_HASH_SIZE])
{
	hmac(key->secret, sizeof(key->secret), before, CHAIN_HASH_SIZE, p, n, ret_mac);
}

void chain_hex_put(char *out, const unsigned char hash[CHAIN_HASH_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < CHAIN_HASH_SIZE; i++) {
		out[2 * i] = digits[hash[i] >> 4];
		out[2 * i + 1] = digits[hash[i] & 15];
	}
}

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool chain_hex_get(const char *p, unsigned char ret_hash[CHAIN_HASH_SIZE])
{
	for (size_t i = 0; i < CHAIN_HASH_SIZE; i++) {
		int high = digit_value(p[2 * i]);
		int low = high < 0 ? -1 : digit_value(p[2 * i + 1]);

		if (low < 0)
			return false;
		ret_hash[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

const char *chain_format_hash(const struct chain *chain, char ret_text[CHAIN_HEX_SIZE])
{
	chain_hex_put(ret_text, chain->hash);
	ret_text[CHAIN_HEX_SIZE - 1] = '\0';
	return ret_text;
}

bool chain_parse_hash(const char *text, struct chain *ret_chain)
{
	return strlen(text) == CHAIN_HEX_SIZE - 1 && chain_hex_get(text, ret_chain->hash);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static int key_check(const struct stat *st, const char *path, struct error *error)
{
	if (!S_ISREG(st->st_mode))
		return error_set(error, EINVAL, "key %s: not a regular file", path);
	if (st->st_mode & 077)
		return error_set(error, EPERM,
				 "key %s: mode %04o lets others read it; chmod 600 it", path,
				 st->st_mode & 07777);
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return error_set(error, EPERM,
				 "key %s: belongs to user %u; it must be root's or %u's", path,
				 st->st_uid, geteuid());
	if (st->st_size > CHAIN_KEY_MAX)
		return error_set(error, EFBIG, "key %s: longer than %d bytes", path, CHAIN_KEY_MAX);
	return 0;
}

int chain_key_load(const char *path, struct chain_key *ret_key, struct error *error)
{
	static const char use[] = CHAIN_SCHEMA " checkpoints", name[] = CHAIN_SCHEMA " key id";
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	unsigned char text[CHAIN_KEY_MAX + 1], hash[CHAIN_HASH_SIZE];
	char hex[2 * CHAIN_HASH_SIZE];
	struct stat st;
	ssize_t n;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(error, errno, "key %s: %s", path, strerror(errno));
	r = key_check(&st, path, error);
	if (r < 0)
		return r;
	n = read(fd, text, sizeof(text));
	if (n < 0)
		return error_set(error, errno, "key %s: %s", path, strerror(errno));
	while (n && isspace(text[n - 1]))
		n--;
	if (n < CHAIN_KEY_MIN) {
		OPENSSL_cleanse(text, sizeof(text));
		return error_set(error, EINVAL,
				 "key %s: shorter than %d bytes; `openssl rand -hex 32` makes one",
				 path, CHAIN_KEY_MIN);
	}
	hmac(text, (size_t)n, use, sizeof(use) - 1, "", 0, ret_key->secret);
	hmac(text, (size_t)n, name, sizeof(name) - 1, "", 0, hash);
	OPENSSL_cleanse(text, sizeof(text));
	chain_hex_put(hex, hash);
	memcpy(ret_key->id, hex, sizeof(ret_key->id) - 1);
	ret_key->id[sizeof(ret_key->id) - 1] = '\0';
	return 0;
}

void chain_key_clear(struct chain_key *key)
{
	OPENSSL_cleanse(key, sizeof(*key));
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

#define HASH_KEY "\"hash\":\""

static size_t number_put(char *out, uint64_t n)
{
	char digits[20];
	size_t i = sizeof(digits);

	do {
		digits[--i] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	memcpy(out, digits + i, sizeof(digits) - i);
	return sizeof(digits) - i;
}

/* Ends the object whose first used bytes lie in out, without its last brace, as the next record. */
static size_t record_end(struct chain *chain, char *out, size_t used)
{
	static const char begin[] = ",\"chain\":{\"n\":";

	memcpy(out + used, begin, sizeof(begin) - 1);
	used += sizeof(begin) - 1;
	used += number_put(out + used, ++chain->n);
	out[used++] = ',';
	chain_hash(chain->hash, out, used, chain->hash);
	memcpy(out + used, HASH_KEY, sizeof(HASH_KEY) - 1);
	used += sizeof(HASH_KEY) - 1;
	chain_hex_put(out + used, chain->hash);
	used += (size_t)2 * CHAIN_HASH_SIZE;
	for (const char *end = "\"}}\n"; *end; end++)
		out[used++] = *end;
	return used;
}

size_t chain_append(struct chain *chain, const char *line, size_t size, char *out)
{
	if (size < 4 || line[0] != '{' || line[size - 2] != '}' || line[size - 1] != '\n' ||
	    memchr(line, '\n', size - 1))
		return 0;
	memcpy(out, line, size - 2);
	return record_end(chain, out, size - 2);
}

size_t chain_checkpoint(struct chain *chain, enum chain_kind kind, const struct chain_note *note,
			const struct chain_key *key, char out[CHAIN_CHECKPOINT_MAX])
{
	unsigned char mac[CHAIN_HASH_SIZE];
	char hex[2 * CHAIN_HASH_SIZE + 1] = "";
	size_t used;

	used = (size_t)snprintf(out, CHAIN_CHECKPOINT_MAX / 2,
				"{\"schema\":\"" CHAIN_SCHEMA
				"\",\"kind\":\"%s\",\"time\":\"%.40s\","
				"\"at\":%llu,\"file\":%llu,\"every\":%llu",
				kind_names[kind], note->time, (unsigned long long)chain->n + 1,
				(unsigned long long)note->file, (unsigned long long)note->every);
	if (note->torn)
		used += (size_t)snprintf(out + used, 64, ",\"torn\":%llu",
					 (unsigned long long)note->torn);
	if (kind == CHAIN_OPEN) {
		chain_hex_put(hex, chain->hash);
		used += (size_t)snprintf(out + used, 128, ",\"prev\":\"%s\"", hex);
	}
	if (key) {
		used += (size_t)snprintf(out + used, 64, ",\"key\":\"%s\"", key->id);
		chain_mac(key, chain->hash, out, used, mac);
		chain_hex_put(hex, mac);
		used += (size_t)snprintf(out + used, 128, ",\"mac\":\"%s\"", hex);
	}
	return record_end(chain, out, used);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Takes text from the front of *p, which ends at end. */
static bool take(const char **p, const char *end, const char *text)
{
	size_t n = strlen(text);

	if ((size_t)(end - *p) < n || memcmp(*p, text, n) != 0)
		return false;
	*p += n;
	return true;
}

/* A decimal number below 2^63 without leading zeros. */
static bool take_number(const char **p, const char *end, uint64_t *ret_value)
{
	const char *begin = *p;
	uint64_t value = 0;

	while (*p < end && **p >= '0' && **p <= '9' && *p - begin < 19)
		value = value * 10 + (uint64_t)(*(*p)++ - '0');
	*ret_value = value;
	return *p > begin && (*begin != '0' || *p == begin + 1) && value <= INT64_MAX;
}

static bool take_hash(const char **p, const char *end, unsigned char ret_hash[CHAIN_HASH_SIZE])
{
	if (end - *p < 2 * CHAIN_HASH_SIZE || !chain_hex_get(*p, ret_hash))
		return false;
	*p += (ptrdiff_t)2 * CHAIN_HASH_SIZE;
	return take(p, end, "\"");
}

static bool take_kind(const char **p, const char *end, enum chain_kind *ret_kind)
{
	for (unsigned int i = 0; i < CHAIN_KIND_COUNT; i++)
		if (take(p, end, kind_names[i])) {
			*ret_kind = (enum chain_kind)i;
			return take(p, end, "\",\"time\":\"");
		}
	return false;
}

/* key and mac, which stand last. */
static bool take_mac(const char **p, const char *end, const char *line, struct chain_record *record)
{
	if (!take(p, end, ",\"key\":\""))
		return true;
	if (end - *p < 16)
		return false;
	memcpy(record->key_id, *p, 16);
	*p += 16;
	if (!take(p, end, "\""))
		return false;
	record->n_signed = (size_t)(*p - line);
	record->has_mac = true;
	return take(p, end, ",\"mac\":\"") && take_hash(p, end, record->mac);
}

/* The members of a line of cordon.chain/1, exactly as chain_checkpoint() writes them, up to end. */
static bool checkpoint_read(const char *line, const char *end, struct chain_record *record)
{
	const char *p = line;
	uint64_t number;

	if (!take(&p, end, "{\"schema\":\"" CHAIN_SCHEMA "\",\"kind\":\"") ||
	    !take_kind(&p, end, &record->kind))
		return false;
	while (p < end && *p != '"')
		p++;
	if (!take(&p, end, "\",\"at\":") || !take_number(&p, end, &number) || number != record->n ||
	    !take(&p, end, ",\"file\":") || !take_number(&p, end, &record->file) ||
	    !take(&p, end, ",\"every\":") || !take_number(&p, end, &record->every))
		return false;
	if (take(&p, end, ",\"torn\":") && !take_number(&p, end, &number))
		return false;
	record->has_prev = take(&p, end, ",\"prev\":\"");
	if (record->has_prev && !take_hash(&p, end, record->prev))
		return false;
	return record->has_prev == (record->kind == CHAIN_OPEN) &&
	       take_mac(&p, end, line, record) && p == end;
}

/* Finds the member "chain" of line[size]: its beginning, and what follows its number. NULL: none. */
static const char *member_find(const char *line, const char *hash, uint64_t *ret_n)
{
	static const char begin[] = ",\"chain\":{\"n\":";
	const char *p = hash - 1;

	if (*p != ',')
		return NULL;
	while (p > line && p[-1] >= '0' && p[-1] <= '9')
		p--;
	if ((size_t)(p - line) < sizeof(begin))
		return NULL;
	line = p - (sizeof(begin) - 1);
	if (memcmp(line, begin, sizeof(begin) - 1) != 0 || !take_number(&p, hash, ret_n) || !*ret_n)
		return NULL;
	return p == hash - 1 ? line : NULL;
}

bool chain_record_read(const char *line, size_t size, struct chain_record *ret_record)
{
	static const char mark[] = "{\"schema\":\"" CHAIN_SCHEMA "\"";
	const size_t tail = sizeof(HASH_KEY) - 1 + (size_t)2 * CHAIN_HASH_SIZE + 3; /* with `"}}` */
	const char *end = line + size, *hash, *p;

	memset(ret_record, 0, sizeof(*ret_record));
	if (size < tail + 2 || size >= CHAIN_LINE_MAX || line[0] != '{')
		return false;
	hash = end - tail;
	p = hash;
	if (!take(&p, end, HASH_KEY) || !take_hash(&p, end, ret_record->hash) ||
	    !take(&p, end, "}}") || p != end)
		return false;
	p = member_find(line, hash, &ret_record->n);
	if (!p)
		return false;
	ret_record->covered = line;
	ret_record->n_covered = (size_t)(hash - line);
	ret_record->checkpoint = size > sizeof(mark) && !memcmp(line, mark, sizeof(mark) - 1);
	return !ret_record->checkpoint || checkpoint_read(line, p, ret_record);
}
