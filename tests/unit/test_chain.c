// SPDX-License-Identifier: Apache-2.0
/* user/chain: what is written verifies; each way of altering it is found, at its place, with its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "chain/chain.h"

#define RECORDS 20 /* events in the two files */
#define EVERY 6

static char dir[64], path[2][96], key_path[96], other_path[96];
static struct chain_key key, other;

/* --- files as a sink writes them ----------------------------------------------------------------------------------- */

/* Lines of a file under construction. */
struct lines {
	char *v[64];
	size_t n;
};

static void lines_add(struct lines *l, const char *text, size_t size)
{
	l->v[l->n] = malloc(size + 1);
	assert_non_null(l->v[l->n]);
	memcpy(l->v[l->n], text, size);
	l->v[l->n++][size] = '\0';
}

static void lines_free(struct lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	l->n = 0;
}

static void lines_remove(struct lines *l, size_t at)
{
	free(l->v[at]);
	memmove(&l->v[at], &l->v[at + 1], (--l->n - at) * sizeof(l->v[0]));
}

static void lines_insert(struct lines *l, size_t at, const char *text)
{
	memmove(&l->v[at + 1], &l->v[at], (l->n++ - at) * sizeof(l->v[0]));
	l->v[at] = strdup(text);
}

static void lines_save(const struct lines *l, const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	for (size_t i = 0; i < l->n; i++)
		assert_int_equal(write(fd, l->v[i], strlen(l->v[i])), strlen(l->v[i]));
	close(fd);
}

static void event_add(struct lines *l, struct chain *chain, unsigned int seq)
{
	char line[256], out[512];
	int n = snprintf(line, sizeof(line),
			 "{\"schema\":\"cordon.event/1\",\"seq\":%u,\"path\":\"/a\\\\x0a\"}\n",
			 seq);

	lines_add(l, out, chain_append(chain, line, (size_t)n, out));
}

static void checkpoint_add(struct lines *l, struct chain *chain, enum chain_kind kind,
			   uint64_t file, const struct chain_key *with)
{
	struct chain_note note = { .time = "2026-01-02T03:04:05.000000006Z",
				   .file = file,
				   .every = with ? EVERY : 0 };
	char out[CHAIN_CHECKPOINT_MAX];

	lines_add(l, out, chain_checkpoint(chain, kind, &note, with, out));
}

/* Two files: head, 4 events, checkpoint, 4 events, checkpoint, 4... close. */
static void make(struct lines l[2], const struct chain_key *with)
{
	struct chain chain = { 0 };
	unsigned int seq = 0;

	for (size_t f = 0; f < 2; f++) {
		l[f].n = 0;
		checkpoint_add(&l[f], &chain, CHAIN_OPEN, f + 1, with);
		for (unsigned int i = 0; i < RECORDS / 2; i++) {
			if (i && i % 4 == 0)
				checkpoint_add(&l[f], &chain, CHAIN_CHECKPOINT, f + 1, with);
			event_add(&l[f], &chain, ++seq);
		}
		checkpoint_add(&l[f], &chain, CHAIN_CLOSE, f + 1, with);
	}
}

static void save(struct lines l[2])
{
	for (size_t f = 0; f < 2; f++) {
		lines_save(&l[f], path[f]);
		lines_free(&l[f]);
	}
}

static struct chain_result verify(const struct chain_key *with, const struct chain *anchor)
{
	/* In the wrong order: the heads say the right one. */
	const char *const paths[] = { path[1], path[0] };
	struct chain_options options = { .keys = with, .n_keys = with ? 1 : 0, .anchor = anchor };
	struct chain_result result;
	struct error error = { "" };

	assert_int_equal(chain_verify(paths, 2, &options, &result, &error), 0);
	return result;
}

static void assert_fault(const struct chain_result *r, enum chain_fault fault, size_t file,
			 uint64_t line, uint64_t n)
{
	if (r->fault != fault || r->line != line || r->n != n)
		print_message("%s at %s:%llu, record %llu: %s\n", chain_fault_name(r->fault),
			      r->file ? r->file : "-", (unsigned long long)r->line,
			      (unsigned long long)r->n, r->why);
	assert_int_equal(r->fault, fault);
	assert_string_equal(r->file, path[file]);
	assert_int_equal(r->line, line);
	assert_int_equal(r->n, n);
}

/* --- tests --------------------------------------------------------------------------------------------------------- */

static void test_good(void **state)
{
	struct lines l[2];
	struct chain_result r;

	(void)state;
	make(l, &key);
	save(l);
	r = verify(&key, NULL);
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
	assert_int_equal(r.files, 2);
	assert_int_equal(r.records, RECORDS + 2 * 4);
	assert_int_equal(r.checkpoints, 2 * 4);
	assert_int_equal(r.first, 1);
	assert_int_equal(r.last.n, r.records);
	assert_int_equal(r.covered, r.records);
	assert_true(r.closed);
	/* Without the key, too; and without one at all. */
	r = verify(NULL, NULL);
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
	assert_int_equal(r.covered, 0);
	make(l, NULL);
	save(l);
	r = verify(NULL, NULL);
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
}

/* One byte of one line, at every place of it. */
static void test_changed_byte(void **state)
{
	struct lines l[2];
	size_t size;

	(void)state;
	make(l, &key);
	size = strlen(l[0].v[3]);
	lines_free(&l[0]);
	lines_free(&l[1]);
	for (size_t at = 0; at + 1 < size; at++) {
		struct chain_result r;

		make(l, &key);
		l[0].v[3][at] ^= 1;
		save(l);
		r = verify(NULL, NULL);
		assert_int_not_equal(r.fault, CHAIN_FAULT_NONE);
		assert_string_equal(r.file, path[0]);
		assert_int_equal(r.line, 4);
		assert_int_equal(r.n, 4);
	}
	make(l, &key);
	*strstr(l[1].v[2], "/a") = '!';
	save(l);
	{
		struct chain_result r = verify(NULL, NULL);

		assert_fault(&r, CHAIN_FAULT_CHANGED, 1, 3, 14 + 3);
	}
}

static void test_removed(void **state)
{
	struct lines l[2];
	struct chain_result r;

	(void)state;
	make(l, &key);
	lines_remove(&l[0], 4);
	lines_remove(&l[0], 4);
	save(l);
	r = verify(NULL, NULL);
	assert_fault(&r, CHAIN_FAULT_REMOVED, 0, 5, 5);
	/* The end of the first file: seen at the head of the second. */
	make(l, &key);
	lines_remove(&l[0], l[0].n - 1);
	lines_remove(&l[0], l[0].n - 1);
	save(l);
	r = verify(NULL, NULL);
	assert_fault(&r, CHAIN_FAULT_REMOVED, 1, 1, 13);
	/* The head. */
	make(l, &key);
	lines_remove(&l[0], 0);
	save(l);
	r = verify(NULL, NULL);
	assert_fault(&r, CHAIN_FAULT_REMOVED, 0, 1, 2);
}

static void test_inserted(void **state)
{
	struct lines l[2];
	struct chain_result r;
	char *again;

	(void)state;
	make(l, &key);
	lines_insert(&l[0], 3, "{\"schema\":\"cordon.event/1\",\"verdict\":\"allow\"}\n");
	save(l);
	r = verify(NULL, NULL);
	assert_fault(&r, CHAIN_FAULT_INSERTED, 0, 4, 4);
	make(l, &key); /* a record once more */
	again = strdup(l[0].v[2]);
	lines_insert(&l[0], 5, again);
	free(again);
	save(l);
	r = verify(NULL, NULL);
	assert_fault(&r, CHAIN_FAULT_INSERTED, 0, 6, 6);
	make(l, &key); /* two that changed places */
	again = l[1].v[3];
	l[1].v[3] = l[1].v[2];
	l[1].v[2] = again;
	save(l);
	r = verify(NULL, NULL);
	assert_fault(&r, CHAIN_FAULT_INSERTED, 1, 3, 14 + 3);
}

static void test_truncated(void **state)
{
	struct lines l[2];
	struct chain_result r, whole;

	(void)state;
	make(l, &key);
	l[1].v[l[1].n - 1][40] = '\0';
	save(l);
	r = verify(&key, NULL);
	assert_fault(&r, CHAIN_FAULT_TRUNCATED, 1, 14, 28);
	/* Whole lines from the end: only who knows what was there can tell. */
	make(l, &key);
	save(l);
	whole = verify(&key, NULL);
	r = verify(&key, &whole.last);
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
	make(l, &key);
	lines_remove(&l[1], l[1].n - 1);
	lines_remove(&l[1], l[1].n - 1);
	save(l);
	r = verify(&key, NULL);
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
	assert_false(r.closed);
	r = verify(&key, &whole.last);
	assert_fault(&r, CHAIN_FAULT_TRUNCATED, 1, 12, 27);
	make(l, &key);
	for (size_t i = l[1].n; i; i--)
		lines_remove(&l[1], i - 1);
	save(l);
	r = verify(NULL, NULL);
	assert_int_equal(r.fault, CHAIN_FAULT_TRUNCATED);
}

/* Who writes the files but has no key writes everything anew. */
static void test_forged(void **state)
{
	struct lines l[2];
	struct chain_result r, whole;
	struct chain chain = { 0 };

	(void)state;
	make(l, &key);
	save(l);
	whole = verify(&key, NULL);
	make(l, NULL); /* unsigned throughout */
	save(l);
	r = verify(NULL, NULL);
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
	r = verify(&key, NULL);
	assert_fault(&r, CHAIN_FAULT_FORGED, 0, 1, 1);
	r = verify(NULL, &whole.last); /* the anchor needs no key */
	assert_int_equal(r.fault, CHAIN_FAULT_CHANGED);
	make(l, &other); /* with a key of their own */
	save(l);
	r = verify(&key, NULL);
	assert_fault(&r, CHAIN_FAULT_FORGED, 0, 1, 1);
	make(l, &other); /* that says to be the right one */
	for (size_t f = 0; f < 2; f++)
		for (size_t i = 0; i < l[f].n; i++) {
			char *id = strstr(l[f].v[i], other.id);

			if (id)
				memcpy(id, key.id, 16);
		}
	save(l);
	r = verify(&key, NULL);
	assert_int_equal(r.fault, CHAIN_FAULT_CHANGED);
	/* The head kept, everything after it anew, without checkpoints. */
	make(l, &key);
	for (size_t i = l[0].n; i > 1; i--)
		lines_remove(&l[0], i - 1);
	{
		char hash[CHAIN_HEX_SIZE];

		memcpy(hash, strstr(l[0].v[0], "\"hash\":\"") + 8, CHAIN_HEX_SIZE - 1);
		hash[CHAIN_HEX_SIZE - 1] = '\0';
		assert_true(chain_parse_hash(hash, &chain));
		chain.n = 1;
	}
	for (unsigned int i = 0; i < RECORDS; i++)
		event_add(&l[0], &chain, 100 + i);
	lines_free(&l[1]);
	checkpoint_add(&l[1], &chain, CHAIN_OPEN, 2, NULL);
	save(l);
	r = verify(NULL, NULL);
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
	r = verify(&key, NULL);
	assert_fault(&r, CHAIN_FAULT_FORGED, 0, EVERY + 2, EVERY + 2);
	/* The head kept, and a checkpoint copied from elsewhere in the chain. */
	make(l, &key);
	{
		char hash[CHAIN_HEX_SIZE];
		struct lines forged = { .n = 0 };

		memcpy(hash, strstr(l[0].v[0], "\"hash\":\"") + 8, CHAIN_HEX_SIZE - 1);
		hash[CHAIN_HEX_SIZE - 1] = '\0';
		assert_true(chain_parse_hash(hash, &chain));
		chain.n = 1;
		lines_add(&forged, l[0].v[0], strlen(l[0].v[0]));
		for (unsigned int i = 0; i < 4; i++)
			event_add(&forged, &chain, 100 + i);
		{ /* chain_checkpoint() signs; so the mac is put into a line that is hashed as an event */
			char line[1024], out[1200];
			const char *end = strstr(l[0].v[5], ",\"chain\":");
			size_t n = (size_t)(end - l[0].v[5]);

			memcpy(line, l[0].v[5], n);
			memcpy(line + n, "}\n", 2);
			lines_add(&forged, out, chain_append(&chain, line, n + 2, out));
		}
		lines_free(&l[0]);
		l[0] = forged;
		lines_free(&l[1]);
		checkpoint_add(&l[1], &chain, CHAIN_OPEN, 2, NULL);
	}
	save(l);
	r = verify(NULL, NULL);
	assert_int_equal(r.fault, CHAIN_FAULT_NONE);
	r = verify(&key, NULL);
	assert_fault(&r, CHAIN_FAULT_FORGED, 0, 6, 6);
}

static void key_make(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* HMAC-SHA-256 of "cordon.chain/1 key id", by another implementation; the second key is longer than a block of SHA-256. */
static void test_key_id(void **state)
{
	static const struct {
		const char *text, *id;
	} known[] = {
		{ "0123456789abcdef0123456789abcdef", "5cf82c209f803001" },
		{ "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		  "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk",
		  "71af3ef62c964d5d" },
	};
	struct error error;
	struct chain_key k;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		key_make(other_path, known[i].text);
		assert_int_equal(chain_key_load(other_path, &k, &error), 0);
		assert_string_equal(k.id, known[i].id);
	}
}

static void test_key(void **state)
{
	struct chain_key k;
	struct error error = { "" };

	(void)state;
	assert_int_equal(chmod(key_path, 0640), 0);
	assert_int_equal(chain_key_load(key_path, &k, &error), -EPERM);
	assert_non_null(strstr(error.text, "chmod 600"));
	assert_null(strstr(error.text, "0123456789"));
	assert_int_equal(chmod(key_path, 0600), 0);
	error.text[0] = '\0';
	assert_int_equal(symlink(key_path, path[0]), 0);
	assert_int_equal(chain_key_load(path[0], &k, &error), -ELOOP);
	unlink(path[0]);
	error.text[0] = '\0';
	assert_int_equal(truncate(other_path, 10), 0);
	assert_int_equal(chain_key_load(other_path, &k, &error), -EINVAL);
	assert_string_not_equal(key.id, other.id);
	assert_memory_not_equal(key.secret, other.secret, sizeof(key.secret));
}

static void test_append_refuses(void **state)
{
	struct chain chain = { 0 };
	char out[256];

	(void)state;
	assert_int_equal(chain_append(&chain, "no\n", 3, out), 0);
	assert_int_equal(chain_append(&chain, "{\"a\":1}", 7, out), 0);
	assert_int_equal(chain_append(&chain, "{\"a\":\n1}\n", 9, out), 0);
	assert_int_equal(chain.n, 0);
}

static void test_tail(void **state)
{
	struct lines l[2];
	struct chain_tail tail;
	struct stat st;
	int fd;

	(void)state;
	make(l, &key);
	lines_add(&l[1], "{\"schema\":\"cordon.ev", 20);
	save(l);
	fd = open(path[1], O_RDWR | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(chain_tail_read(fd, &tail), 0);
	assert_int_equal(tail.fault, CHAIN_FAULT_NONE);
	assert_int_equal(tail.chain.n, 28);
	assert_int_equal(tail.file, 2);
	assert_int_equal(tail.torn, 20);
	assert_int_equal(tail.end, st.st_size - 20);
	assert_int_equal(pwrite(fd, "!", 1, st.st_size - 200), 1);
	assert_int_equal(chain_tail_read(fd, &tail), 0);
	assert_int_equal(tail.fault, CHAIN_FAULT_CHANGED);
	close(fd);
}

static int setup(void **state)
{
	struct error error = { "" };

	(void)state;
	strcpy(dir, "/tmp/cordon-chain-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path[0], sizeof(path[0]), "%s/events.000001", dir);
	snprintf(path[1], sizeof(path[1]), "%s/events", dir);
	snprintf(key_path, sizeof(key_path), "%s/key", dir);
	snprintf(other_path, sizeof(other_path), "%s/other", dir);
	key_make(key_path, "0123456789abcdef0123456789abcdef\n");
	key_make(other_path, "another key of some length\n");
	return chain_key_load(key_path, &key, &error) || chain_key_load(other_path, &other, &error);
}

static int teardown(void **state)
{
	(void)state;
	unlink(path[0]);
	unlink(path[1]);
	unlink(key_path);
	unlink(other_path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_good, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed_byte, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_inserted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_truncated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_key, setup, teardown),
		cmocka_unit_test_setup_teardown(test_key_id, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tail, setup, teardown),
		cmocka_unit_test(test_append_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
