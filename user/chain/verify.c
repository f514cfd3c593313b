// SPDX-License-Identifier: Apache-2.0
/*
 * Verifying a chain. Reads files that an attacker may have written: lines are bounded, nothing is allocated by what they
 * say. Where a record is bad, the one after it tells whether it was changed, put in, or whether others are missing: each record
 * carries its own hash, so that the chain goes on behind a single change. No privilege; stops at the first bad record.
 */
#include "chain/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

/* --- lines -------------------------------------------------------------------------------------------------------- */

struct source {
	const char *path;
	int fd;
	uint64_t line; /* number of the last line given out */
	size_t at, used;
	bool end;	/* of the file: nothing more to read */
	uint64_t first; /* number of its first record, UINT64_MAX: it has none */
	char buffer[2 * CHAIN_LINE_MAX];
};

enum { LINE_NONE, LINE_WHOLE, LINE_TORN, LINE_LONG };

static int source_fill(struct source *s)
{
	ssize_t n;

	memmove(s->buffer, s->buffer + s->at, s->used - s->at);
	s->used -= s->at;
	s->at = 0;
	while (!s->end && s->used < sizeof(s->buffer)) {
		n = read(s->fd, s->buffer + s->used, sizeof(s->buffer) - s->used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		s->end = n == 0;
		s->used += (size_t)n;
	}
	return 0;
}

/* The line at the front, without its newline; it stays there. Returns LINE_* or -errno. */
static int source_peek(struct source *s, const char **ret_line, size_t *ret_size)
{
	const char *newline = memchr(s->buffer + s->at, '\n', s->used - s->at);
	int r;

	if (!newline && !s->end) {
		r = source_fill(s);
		if (r < 0)
			return r;
		newline = memchr(s->buffer + s->at, '\n', s->used - s->at);
	}
	*ret_line = s->buffer + s->at;
	*ret_size = newline ? (size_t)(newline - *ret_line) : s->used - s->at;
	if (!*ret_size && !newline)
		return LINE_NONE;
	if (*ret_size >= CHAIN_LINE_MAX)
		return LINE_LONG;
	return newline ? LINE_WHOLE : LINE_TORN;
}

static int source_open(struct source *s, const char *path, struct error *error)
{
	struct stat st;

	s->path = path;
	s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return error_set(error, errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(error, EINVAL, "%s: not a regular file", path);
	return 0;
}

static void source_close(struct source *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

/* Opens a file and looks at its first record, by which files are ordered. */
static int source_new(const char *path, struct source **ret_source, struct error *error)
{
	struct source *s = calloc(1, sizeof(*s));
	struct chain_record record;
	const char *line;
	size_t size;
	int r;

	if (!s)
		return error_set(error, ENOMEM, "out of memory");
	s->fd = -1;
	s->first = UINT64_MAX;
	*ret_source = s;
	r = source_open(s, path, error);
	if (r < 0)
		return r;
	r = source_peek(s, &line, &size);
	if (r < 0)
		return error_set(error, -r, "%s: %s", path, strerror(-r));
	if (r == LINE_WHOLE && chain_record_read(line, size, &record))
		s->first = record.n;
	return 0;
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

struct verifier {
	const struct chain_options *options;
	struct chain_result *result;
	struct chain last;
	uint64_t every; /* that the last keyed checkpoint promised */
	bool began;	/* a first record was seen */
	bool anchored;
};

static int fail(struct verifier *v, const struct source *s, enum chain_fault fault, uint64_t n,
		const char *format, ...) __attribute__((format(printf, 5, 6)));

static int fail(struct verifier *v, const struct source *s, enum chain_fault fault, uint64_t n,
		const char *format, ...)
{
	struct chain_result *result = v->result;
	va_list args;

	result->fault = fault;
	result->file = s->path;
	result->line = s->line;
	result->n = n;
	va_start(args, format);
	vsnprintf(result->why, sizeof(result->why), format, args);
	va_end(args);
	return 1;
}

/* Does the record come right after chain, by number and by hash? */
static bool record_follows(const struct chain *chain, const struct chain_record *record)
{
	unsigned char hash[CHAIN_HASH_SIZE];

	if (record->n != chain->n + 1)
		return false;
	chain_hash(chain->hash, record->covered, record->n_covered, hash);
	return memcmp(hash, record->hash, sizeof(hash)) == 0;
}

/* What the line after a bad one tells: does it follow what stood before the bad one (1), or is it one further on (2)? 0: neither. */
static unsigned int next_tells(const struct verifier *v, struct source *s)
{
	struct chain_record next;
	const char *line;
	size_t size;

	if (source_peek(s, &line, &size) != LINE_WHOLE || !chain_record_read(line, size, &next))
		return 0;
	if (record_follows(&v->last, &next))
		return 1;
	return next.n == v->last.n + 2 ? 2 : 0;
}

/* A line that is no record, or one whose hash is wrong. */
static int judge_bad(struct verifier *v, struct source *s, const struct chain_record *record)
{
	unsigned int tells = next_tells(v, s);
	uint64_t want = v->last.n + 1;

	if (tells == 1)
		return fail(v, s, CHAIN_FAULT_INSERTED, want,
			    "this line was put in: record %llu stands behind it",
			    (unsigned long long)want);
	if (!record)
		return fail(v, s, CHAIN_FAULT_CHANGED, want,
			    "record %llu was here; this line is no record of a chain",
			    (unsigned long long)want);
	if (record->n == want || tells == 2)
		return fail(v, s, CHAIN_FAULT_CHANGED, want,
			    "record %llu is not what was written here", (unsigned long long)want);
	if (record->n > want)
		return fail(v, s, CHAIN_FAULT_REMOVED, want,
			    "records %llu to %llu are missing before this line",
			    (unsigned long long)want, (unsigned long long)record->n - 1);
	return fail(v, s, CHAIN_FAULT_INSERTED, want,
		    "record %llu stands where %llu is due: put in, repeated or moved",
		    (unsigned long long)record->n, (unsigned long long)want);
}

static const struct chain_key *key_find(const struct chain_options *options, const char *id)
{
	for (size_t i = 0; i < options->n_keys; i++)
		if (strcmp(options->keys[i].id, id) == 0)
			return &options->keys[i];
	return NULL;
}

/* A line of cordon.chain/1 that is in its place: is it signed? before: the hash before it. */
static int judge_checkpoint(struct verifier *v, const struct source *s,
			    const struct chain_record *record, const unsigned char *before)
{
	const struct chain_key *key = key_find(v->options, record->key_id);
	unsigned char mac[CHAIN_HASH_SIZE];

	if (!v->options->n_keys)
		return 0;
	if (!record->has_mac)
		return fail(v, s, CHAIN_FAULT_FORGED, record->n,
			    "this checkpoint is not signed, although a key was given");
	if (!key)
		return fail(v, s, CHAIN_FAULT_FORGED, record->n,
			    "this checkpoint is signed with another key, %s", record->key_id);
	chain_mac(key, before, record->covered, record->n_signed, mac);
	if (CRYPTO_memcmp(mac, record->mac, sizeof(mac)) != 0)
		return fail(v, s, CHAIN_FAULT_FORGED, record->n,
			    "this checkpoint was not made with the key, or what is before it was "
			    "changed");
	v->result->checkpoints++;
	v->result->covered = record->n;
	v->every = record->every;
	return 0;
}

/* The first line of a file says where its chain begins. */
static int judge_head(struct verifier *v, struct source *s, const struct chain_record *record)
{
	if (!record || !record->checkpoint || record->kind != CHAIN_OPEN) {
		if (v->began)
			return judge_bad(v, s, record);
		return fail(v, s, record ? CHAIN_FAULT_REMOVED : CHAIN_FAULT_CHANGED,
			    record ? record->n : 1,
			    "the file does not begin with the head of a chain");
	}
	if (!v->began) {
		v->last.n = record->n - 1;
		memcpy(v->last.hash, record->prev, sizeof(v->last.hash));
		v->result->first = record->n;
		return 0;
	}
	if (record->n > v->last.n + 1)
		return fail(v, s, CHAIN_FAULT_REMOVED, v->last.n + 1,
			    "records %llu to %llu are missing before this file",
			    (unsigned long long)v->last.n + 1, (unsigned long long)record->n - 1);
	if (record->n <= v->last.n)
		return fail(v, s, CHAIN_FAULT_INSERTED, record->n,
			    "another chain begins here, or a file was given twice");
	return 0;
}

static int anchor_check(struct verifier *v, const struct source *s)
{
	const struct chain *anchor = v->options->anchor;

	if (!anchor || anchor->n != v->last.n)
		return 0;
	v->anchored = true;
	if (memcmp(anchor->hash, v->last.hash, sizeof(anchor->hash)) == 0)
		return 0;
	return fail(v, s, CHAIN_FAULT_CHANGED, v->last.n,
		    "record %llu has another hash than the anchor: the chain was written anew",
		    (unsigned long long)v->last.n);
}

/* One line, whole or not. Returns 0: good, 1: bad, the result says why. */
static int line_judge(struct verifier *v, struct source *s, int form, const char *line, size_t size)
{
	struct chain_record record;
	bool head = s->line == 1,
	     read = form == LINE_WHOLE && chain_record_read(line, size, &record);
	unsigned char before[CHAIN_HASH_SIZE];
	int r;

	if (form == LINE_TORN)
		return fail(v, s, CHAIN_FAULT_TRUNCATED, v->last.n + 1,
			    "the file ends within record %llu", (unsigned long long)v->last.n + 1);
	/* What the record points into must not move while it is judged: the line after it is peeked at last. */
	r = head ? judge_head(v, s, read ? &record : NULL) : 0;
	if (r)
		return r;
	if (!read || !record_follows(&v->last, &record))
		return judge_bad(v, s, read ? &record : NULL);
	memcpy(before, v->last.hash, sizeof(before));
	v->began = true;
	v->last.n = record.n;
	memcpy(v->last.hash, record.hash, sizeof(v->last.hash));
	if (record.checkpoint)
		r = judge_checkpoint(v, s, &record, before);
	else if (v->options->n_keys && v->every && record.n - v->result->covered > v->every)
		r = fail(v, s, CHAIN_FAULT_FORGED, record.n,
			 "a checkpoint is due after %llu records; the last is record %llu",
			 (unsigned long long)v->every, (unsigned long long)v->result->covered);
	if (r)
		return r;
	v->result->records++;
	v->result->closed = record.checkpoint && record.kind == CHAIN_CLOSE;
	return anchor_check(v, s);
}

static int file_judge(struct verifier *v, struct source *s, struct error *error)
{
	const char *line;
	size_t size;
	int form, r = 0;

	while (r == 0 && (form = source_peek(s, &line, &size)) != LINE_NONE) {
		if (form < 0)
			return error_set(error, -form, "%s: %s", s->path, strerror(-form));
		s->line++;
		s->at += size + (form == LINE_WHOLE);
		r = line_judge(v, s, form, line, size);
	}
	if (r == 0 && !s->line) {
		s->line = 1;
		r = fail(v, s, CHAIN_FAULT_TRUNCATED, v->last.n + 1, "the file is empty");
	}
	v->result->files += r == 0;
	return r;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static int by_first(const void *a, const void *b)
{
	const struct source *left = *(struct source *const *)a;
	const struct source *right = *(struct source *const *)b;

	return left->first < right->first ? -1 : left->first > right->first;
}

static int sources_judge(struct verifier *v, struct source **sources, size_t n, struct error *error)
{
	const struct chain *anchor = v->options->anchor;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = file_judge(v, sources[i], error);
	v->result->last = v->last;
	if (r == 0 && anchor && !v->anchored)
		r = fail(v, sources[n - 1], CHAIN_FAULT_TRUNCATED, v->last.n + 1,
			 "the anchor's record %llu is not among %llu to %llu",
			 (unsigned long long)anchor->n, (unsigned long long)v->result->first,
			 (unsigned long long)v->last.n);
	return r < 0 ? r : 0;
}

int chain_verify(const char *const *paths, size_t n_paths, const struct chain_options *options,
		 struct chain_result *ret_result, struct error *error)
{
	struct verifier v = { .options = options, .result = ret_result };
	struct source **sources = calloc(n_paths + 1, sizeof(struct source *));
	int r = sources ? 0 : error_set(error, ENOMEM, "out of memory");

	memset(ret_result, 0, sizeof(*ret_result));
	for (size_t i = 0; r == 0 && i < n_paths; i++)
		r = source_new(paths[i], &sources[i], error);
	if (r == 0) {
		qsort(sources, n_paths, sizeof(struct source *), by_first);
		r = sources_judge(&v, sources, n_paths, error);
	}
	for (size_t i = 0; sources && i < n_paths; i++)
		source_close(sources[i]);
	free(sources);
	return r;
}

/* --- the end of a file -------------------------------------------------------------------------------------------- */

static ssize_t read_at(int fd, char *p, size_t n, off_t at)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = pread(fd, p + done, n - done, at + (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* Goes through the lines of text[size], which lies at offset `at` of the file. */
static void tail_judge(struct chain_tail *tail, const char *text, size_t size, uint64_t at)
{
	const char *p = text, *end = text + size, *newline;
	struct chain_record record;
	bool first = true;

	if (at) { /* the first line began before */
		newline = memchr(p, '\n', size);
		p = newline ? newline + 1 : end;
	}
	while (!tail->fault && (newline = memchr(p, '\n', (size_t)(end - p)))) {
		if (!chain_record_read(p, (size_t)(newline - p), &record)) {
			tail->fault = CHAIN_FAULT_CHANGED;
			break;
		}
		if (first && !record.has_prev)
			tail->chain.n = record.n - 1;
		if (first && record.has_prev) {
			tail->chain.n = record.n - 1;
			memcpy(tail->chain.hash, record.prev, sizeof(tail->chain.hash));
		}
		if ((!first || record.has_prev) && !record_follows(&tail->chain, &record))
			tail->fault = CHAIN_FAULT_CHANGED;
		tail->chain.n = record.n;
		memcpy(tail->chain.hash, record.hash, sizeof(tail->chain.hash));
		first = false;
		p = newline + 1;
	}
	tail->end = at + (uint64_t)(p - text);
	tail->torn = (uint64_t)(end - p);
	if (at && first && !tail->fault)
		tail->fault = CHAIN_FAULT_CHANGED; /* more than any record, and none */
}

int chain_tail_read(int fd, struct chain_tail *ret_tail)
{
	_cleanup_free_ char *text = NULL;
	struct chain_record record;
	const char *newline;
	struct stat st;
	off_t at;
	ssize_t n;

	memset(ret_tail, 0, sizeof(*ret_tail));
	if (fstat(fd, &st) < 0)
		return -errno;
	text = malloc(CHAIN_TAIL_READ_MAX);
	if (!text)
		return -ENOMEM;
	n = read_at(fd, text, CHAIN_CHECKPOINT_MAX, 0);
	if (n < 0)
		return (int)n;
	newline = memchr(text, '\n', (size_t)n);
	if (newline && chain_record_read(text, (size_t)(newline - text), &record))
		ret_tail->file = record.file;
	at = st.st_size > CHAIN_TAIL_READ_MAX ? st.st_size - CHAIN_TAIL_READ_MAX : 0;
	n = read_at(fd, text, CHAIN_TAIL_READ_MAX, at);
	if (n < 0)
		return (int)n;
	tail_judge(ret_tail, text, (size_t)n, (uint64_t)at);
	return 0;
}
