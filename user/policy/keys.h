/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the policy library: the table of keys. One row per key says its place, type, target,
 * status and meaning; reading, the words of faults, suggestions and docs/policy.md come from the
 * rows. No privilege.
 */
#ifndef CORDON_POLICY_KEYS_H
#define CORDON_POLICY_KEYS_H

#include "policy/policy.h"

enum policy_type {
	POLICY_TYPE_MAPPING, /* of keys that have rows of their own */
	POLICY_TYPE_VERSION,
	POLICY_TYPE_NAME,      /* char * */
	POLICY_TYPE_WORD,      /* unsigned int: one of the row's words */
	POLICY_TYPE_PATH,      /* char * */
	POLICY_TYPE_PATHS,     /* struct policy_strings */
	POLICY_TYPE_GATEWAY,   /* gateway, n_gateways, gateway_unix of struct policy */
	POLICY_TYPE_RULES,     /* allow, n_allow of struct policy; its items are a mapping with rows
				  KEY[].* */
	POLICY_TYPE_PREFIX,    /* addr, prefix_bits of struct policy_allow */
	POLICY_TYPE_PORT,      /* ports of struct policy_allow */
	POLICY_TYPE_RESOLVER,  /* resolver, n_resolvers of struct policy */
	POLICY_TYPE_LISTEN,    /* listen, n_listen of struct policy */
	POLICY_TYPE_DOMAINS,   /* struct policy_strings, each in its one spelling */
	POLICY_TYPE_ENV_NAMES, /* struct policy_strings */
	POLICY_TYPE_ENV,       /* struct policy_strings of NAME=value */
	POLICY_TYPE_LABELS,    /* struct policy_strings of key=value */
	POLICY_TYPE_SCOPES,    /* struct policy_strings */
	POLICY_TYPE_SETS,      /* uint32_t: groups of secrets.h, whose bits are cleared */
	POLICY_TYPE_PROCESSORS, /* uint64_t: thousandths of a processor */
	POLICY_TYPE_NUMBER,	/* uint64_t */
	POLICY_TYPE_SIZE,	/* uint64_t: bytes */
	POLICY_TYPE_TIME,	/* uint64_t: milliseconds */
	POLICY_TYPE_LIST,	/* of an unbuilt key */
	POLICY_TYPE_TEXT,	/* of an unbuilt key */
	POLICY_TYPE_COUNT
};

enum policy_status {
	POLICY_ENFORCED,
	POLICY_UNBUILT,	      /* any value is a fault */
	POLICY_UNBUILT_EMPTY, /* [] is accepted: it asks for nothing beyond the default */
};

/* What a path must be, where paths are checked; bits. */
enum policy_path_flag {
	POLICY_PATH_DIRECTORY = 1,
	POLICY_PATH_FILE = 2, /* regular */
	POLICY_PATH_SOCKET = 4,
	POLICY_PATH_OTHER = 8,	   /* any other kind */
	POLICY_PATH_WRITABLE = 16, /* it is given to the fence for writing */
	POLICY_PATH_ALLOW = 32,	   /* only what is below the paths of the list is allowed */
};

/* A word that a WORD key accepts. Lists end with name NULL. */
struct policy_word {
	const char *name;
	unsigned int value;
	enum policy_status status;
};

/*
 * Where the value of a key goes that has no place in the model: what it may say is what is done
 * anyway.
 */
#define POLICY_NO_TARGET ((size_t)-1)

struct policy_key {
	const char *path; /* dotted, from the top; "" is the policy itself; "[]" stands for an item
			     of a list */
	enum policy_type type;
	size_t offset; /* of the target in struct policy (in struct policy_rule for rows KEY[].*) */
	enum policy_status status;
	bool required;
	unsigned int path_flags;	 /* of PATH and PATHS */
	const struct policy_word *words; /* of WORD */
	uint64_t least, most;		 /* of PROCESSORS, NUMBER, SIZE and TIME */
	const char *fallback;		 /* what holds when the key is absent, in words */
	const char *doc;
};

/* An item of network.allow while it is read. */
struct policy_rule {
	struct policy_allow allow;
	unsigned int proto;
};

/* What a value of the type is, with its article: "a list of paths". */
extern const char *const policy_type_names[POLICY_TYPE_COUNT];

extern const struct policy_key policy_keys[]; /* the first row is the policy itself */
extern const size_t policy_keys_n;
#define POLICY_KEYS_MAX 64

/* The row with exactly this path; NULL when there is none. */
const struct policy_key *policy_key_find(const char *path);

/* Is key a direct part of parent? Items of lists count as parts of "PARENT[]". */
bool policy_key_is_child(const struct policy_key *parent, const struct policy_key *key);

/* The last word of the path. */
const char *policy_key_leaf(const struct policy_key *key);

/* The part of parent with this name; NULL when there is none. */
const struct policy_key *policy_key_child(const struct policy_key *parent, const char *name);

/* The part of parent whose name is so near that it was probably meant; NULL when none is. */
const struct policy_key *policy_key_nearest(const struct policy_key *parent, const char *name);

/* The key anywhere in the policy whose name is so near; NULL when none is. */
const struct policy_key *policy_key_elsewhere(const char *name);

/* The word of the list that was probably meant; NULL when none is near. */
const char *policy_word_nearest(const struct policy_word *words, const char *name);

#endif
