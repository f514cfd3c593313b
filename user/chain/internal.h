/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of user/chain share: hashes, and the form of a record. */
#ifndef CORDON_CHAIN_INTERNAL_H
#define CORDON_CHAIN_INTERNAL_H

#include <string.h>

#include "chain/chain.h"

/* SHA-256(before[32]; p[n]). */
void chain_hash(const unsigned char before[CHAIN_HASH_SIZE], const char *p, size_t n,
		unsigned char ret_hash[CHAIN_HASH_SIZE]);

/* HMAC-SHA-256(key; before[32]; p[n]). */
void chain_mac(const struct chain_key *key, const unsigned char before[CHAIN_HASH_SIZE],
	       const char *p, size_t n, unsigned char ret_mac[CHAIN_HASH_SIZE]);

/* 64 digits, lower case. */
void chain_hex_put(char *out, const unsigned char hash[CHAIN_HASH_SIZE]);
bool chain_hex_get(const char *p, unsigned char ret_hash[CHAIN_HASH_SIZE]);

/* A record taken apart; points into its line. */
struct chain_record {
	uint64_t n;
	unsigned char hash[CHAIN_HASH_SIZE];
	const char *covered; /* what the hash covers */
	size_t n_covered;
	bool checkpoint; /* a line of cordon.chain/1; the rest is only set for these */
	enum chain_kind kind;
	uint64_t file, every;
	bool has_prev, has_mac;
	unsigned char prev[CHAIN_HASH_SIZE], mac[CHAIN_HASH_SIZE];
	char key_id[17];
	size_t n_signed; /* bytes of the line that the mac covers */
};

/* Takes line[size], without newline, apart. False: it is not of this form. */
bool chain_record_read(const char *line, size_t size, struct chain_record *ret_record);

#endif
