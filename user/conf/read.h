/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tree -> model by rows: each key of a mapping is a row with its reader, target and meaning. Unknown
 * keys, missing ones, wrong types and values are faults with position and the nearest right word; a
 * value with a fault is left out of the model and reading goes on, so that all faults of a text are
 * found at once. No privilege, no look at the system.
 */
#ifndef CORDON_CONF_READ_H
#define CORDON_CONF_READ_H

#include "conf/node.h"

/* What is known while one text is read. */
struct conf_reader {
	struct conf_faults *faults;
	bool complete;	   /* the text was read to its end: what is missing is a fault */
	const char *whole; /* what the text is: "the tool" */
	char path[256];	   /* dotted, of the key that is read; "" at the top */
	int err;	   /* 0 or -ENOMEM; steps go on without */
};

struct conf_key;

/* Reads value, which is not CONF_NODE_BAD, into base + key->offset. */
typedef void conf_read_fn(struct conf_reader *reader, const struct conf_key *key,
			  const struct conf_node *value, void *base);

/* One key. Tables end with a row whose name is NULL. */
struct conf_key {
	const char *name;
	conf_read_fn *read;
	size_t offset; /* of the target in the struct that the mapping fills */
	bool required;
	const char *expects;	    /* what the value is, with its article: "a path" */
	const char *fallback;	    /* what holds when the key is absent, in words */
	const struct conf_key *sub; /* of conf_read_mapping; of others for conf_print_rows() */
	const char *const *words; /* of conf_read_word: in the order of the enum, ends with NULL */
	long long min, max;	  /* of conf_read_integer, _size and _duration */
	const char *doc;
};

#define CONF_KEYS_END        \
	{                    \
		.name = NULL \
	}

/* A list of texts. */
struct conf_strings {
	char **v; /* owned, each too */
	size_t n;
	struct conf_mark *mark; /* owned; where each stands */
};
void conf_strings_free(struct conf_strings *strings);

/* Reads a mapping by rows. value may be of any kind. */
void conf_read_rows(struct conf_reader *reader, const struct conf_key *rows,
		    const struct conf_node *value, void *base);

/* Rows whose key has rows of its own (sub), in the same struct. */
conf_read_fn conf_read_mapping;
conf_read_fn conf_read_version;	 /* `1`; no target */
conf_read_fn conf_read_text;	 /* char *, owned; not empty */
conf_read_fn conf_read_word;	 /* unsigned int: the index of the word */
conf_read_fn conf_read_bool;	 /* bool: true or false */
conf_read_fn conf_read_integer;	 /* long long within min..max */
conf_read_fn conf_read_size;	 /* long long: bytes with K, M or G, within min..max */
conf_read_fn conf_read_duration; /* long long: ms; N with ms, s, m, h or d; min..max in ms */
conf_read_fn conf_read_texts;	 /* struct conf_strings: a list of texts, none twice */

/* Adds a fault at a position: "PATH: text". */
void conf_reader_fault(struct conf_reader *reader, struct conf_mark at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Adds "PATH: expects EXPECTS, not WHAT". */
void conf_reader_fault_type(struct conf_reader *reader, const struct conf_node *value,
			    const char *expects);

/* The text of a scalar that says something; else NULL, and a fault was added. */
const char *conf_reader_text(struct conf_reader *reader, const struct conf_node *value,
			     const char *expects);

/* Goes down to a part of the key that is read, "name" or an index; returns what ascend needs. */
size_t conf_reader_descend(struct conf_reader *reader, const char *name);
size_t conf_reader_descend_index(struct conf_reader *reader, size_t index);
void conf_reader_ascend(struct conf_reader *reader, size_t before);

/* Copies text; on failure notes -ENOMEM and returns NULL. */
char *conf_reader_copy(struct conf_reader *reader, const char *text);

/* The value of a key of a mapping, or NULL. ret_key may be NULL. */
const struct conf_node *conf_node_get(const struct conf_node *mapping, const char *name,
				      const struct conf_node **ret_key);

/* A decimal number without leading zeros, plus or spaces; true when it fits. */
bool conf_text_to_integer(const char *text, long long *ret_value);

/* Prints rows, and those below, as lines of a Markdown table. */
void conf_print_rows(const struct conf_key *rows, const char *prefix, FILE *out);

#endif
