/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash chain of a file of events. Each line is a JSON object whose last member is
 *
 *     "chain":{"n":NUMBER,"hash":"64 hexadecimal digits"}
 *
 * where hash = SHA-256(hash of the line before, 32 bytes; all bytes of this line before `"hash":`). Numbers go up by one,
 * over rotation and restart. Lines of schema cordon.chain/1 stand between the events: one at the head of each file, others
 * in between; with a key they carry mac = HMAC-SHA-256(key, hash of the line before; all bytes of this line before
 * `,"mac":`). Who can write the file but does not hold the key can change nothing before the last of them unseen.
 * Knows lines and keys only: no events, no privilege. Functions without a return value cannot fail.
 */
#ifndef CORDON_CHAIN_H
#define CORDON_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/util.h"

#define CHAIN_SCHEMA "cordon.chain/1"
#define CHAIN_HASH_SIZE 32
#define CHAIN_TAIL_MAX 128    /* bytes by which a line gets longer */
#define CHAIN_LINE_MAX 164096 /* of a chained line, newline included; a longer one is no record */
#define CHAIN_CHECKPOINT_MAX 1024 /* bytes of a line of cordon.chain/1 */
#define CHAIN_KEY_MIN 16	  /* bytes of a key file's text */
#define CHAIN_KEY_MAX 4096

/* Where a chain stands: after record n (0: before the first), whose hash this is. */
struct chain {
	uint64_t n;
	unsigned char hash[CHAIN_HASH_SIZE];
};

/* The hash as 64 hexadecimal digits; parsing takes nothing else. */
#define CHAIN_HEX_SIZE 65
const char *chain_format_hash(const struct chain *chain, char ret_text[CHAIN_HEX_SIZE]);
bool chain_parse_hash(const char *text, struct chain *ret_chain);

/* A key for checkpoints. Wiped by chain_key_clear(). */
struct chain_key {
	unsigned char secret[CHAIN_HASH_SIZE]; /* derived from the file's bytes */
	char id[17];			       /* tells keys apart, says nothing of them */
};

/*
 * Reads a key: a regular file of CHAIN_KEY_MIN to CHAIN_KEY_MAX bytes, of mode 0600 or stricter, of root's or the
 * caller's; blanks at its end do not count. Returns 0 or -errno with the cause, which never quotes the key.
 */
int chain_key_load(const char *path, struct chain_key *ret_key, struct error *error);
void chain_key_clear(struct chain_key *key);

/*
 * Writes line[size] ("{...}\n") as the next record to out, which has room for size + CHAIN_TAIL_MAX bytes, and moves the
 * chain on. Returns the bytes written, 0 when the line is no object on one line.
 */
size_t chain_append(struct chain *chain, const char *line, size_t size, char *out);

/* What a line of cordon.chain/1 is for. */
#define CHAIN_KINDS(K)                                                 \
	K(OPEN, "open", "the head of a file")                          \
	K(CHECKPOINT, "checkpoint", "so many records or seconds went") \
	K(RESUME, "resume", "the writer began anew in this file")      \
	K(CLOSE, "close", "the file is complete, or the writer ended")

#define CORDON_X(e, n, d) CHAIN_##e,
enum chain_kind { CHAIN_KINDS(CORDON_X) CHAIN_KIND_COUNT };
#undef CORDON_X

struct chain_note {
	const char *time; /* RFC 3339 */
	uint64_t file;	  /* number of the file among those of its path, from 1 */
	uint64_t every; /* a keyed checkpoint follows after at most that many records; 0: none is promised */
	uint64_t torn; /* bytes of an unfinished line that were taken off; 0: none */
};

/* The same for a line of cordon.chain/1; key may be NULL. Returns the bytes written. */
size_t chain_checkpoint(struct chain *chain, enum chain_kind kind, const struct chain_note *note,
			const struct chain_key *key, char out[CHAIN_CHECKPOINT_MAX]);

/* Why a record is bad. */
#define CHAIN_FAULTS(F)                                                             \
	F(CHANGED, "changed", "its text or its hash is not what was written")       \
	F(REMOVED, "removed", "records before it are missing")                      \
	F(INSERTED, "inserted", "it is not of this chain, or not of this place")    \
	F(TRUNCATED, "truncated", "the record, or what must follow it, is cut off") \
	F(FORGED, "checkpoint forged", "a checkpoint is missing or not made with the key")

#define CORDON_X(e, n, d) CHAIN_FAULT_##e,
enum chain_fault { CHAIN_FAULT_NONE, CHAIN_FAULTS(CORDON_X) CHAIN_FAULT_COUNT };
#undef CORDON_X
const char *chain_fault_name(enum chain_fault fault);

/* What came of verifying. */
struct chain_result {
	enum chain_fault fault; /* CHAIN_FAULT_NONE: all well */
	const char *file;	/* of the bad record; points to what was given */
	uint64_t line;		/* of the bad record, from 1 */
	uint64_t n;		/* its number in the chain: the first that is bad or missing */
	char why[256];		/* one line for people */
	uint64_t first, records, files; /* that verified */
	uint64_t checkpoints;		/* that the key made */
	uint64_t covered;		/* last record that such a checkpoint covers, 0: none */
	bool closed;			/* the last record is a `close` */
	struct chain last;
};

struct chain_options {
	const struct chain_key
		*keys; /* any of them may have made a checkpoint; n_keys 0: not looked at */
	size_t n_keys;
	const struct chain *
		anchor; /* known from elsewhere: this record must be there with this hash; NULL: none */
};

/*
 * Verifies files as one chain, in the order of the numbers in their heads, and stops at the first bad record. Returns 0
 * when ret_result tells what came of it, or -errno with the cause when a file cannot be read.
 */
int chain_verify(const char *const *paths, size_t n_paths, const struct chain_options *options,
		 struct chain_result *ret_result, struct error *error);

/* Where a file's chain ends, for who goes on writing it. */
struct chain_tail {
	struct chain chain;	/* after its last whole record; n 0: the file has none */
	uint64_t file;		/* number of the file, from its head; 0: not known */
	uint64_t end;		/* offset behind the last whole record */
	uint64_t torn;		/* bytes after that: an unfinished line */
	enum chain_fault fault; /* the tail does not verify */
};

/*
 * Reads fd's head and its last CHAIN_TAIL_READ_MAX bytes and verifies the records there one after the other. Returns 0 or
 * -errno.
 */
#define CHAIN_TAIL_READ_MAX 1048576
int chain_tail_read(int fd, struct chain_tail *ret_tail);

#endif
