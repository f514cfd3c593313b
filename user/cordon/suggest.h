/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What recorded denials would need of a policy: collects them (suggest.c), judges each (suggest_judge.c), and makes the text with
 * what may be proposed (suggest_text.c). Records are foreign: what a fence tries is its own choice, so nothing is proposed that
 * is not one name, address and port, file, directory or scope, and everything of them is checked again by the policy's own reader.
 */
#ifndef CORDON_SUGGEST_H
#define CORDON_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/event.h"
#include "policy/policy.h"

enum suggest_key {
	SUGGEST_DOMAINS,
	SUGGEST_ALLOW,
	SUGGEST_WRITE,
	SUGGEST_READ,
	SUGGEST_SCOPES,
	SUGGEST_KEYS_N, /* and of a refusal: no key would help */
};

enum {
	SUGGEST_VALUE_MAX = 4096, /* bytes of a path, with NUL: longer ones are refused */
	SUGGEST_DENIED_MAX =
		1024,		/* different things that are told apart; others are only counted */
	SUGGEST_TASKS_MAX = 64, /* tasks of one that are told apart */
	SUGGEST_BELOW_MAX =
		16, /* names of one domain; more look like data that is sent out as names */
};

/* Something that was denied. */
struct suggest_denied {
	enum suggest_key key; /* what would open it */
	char *rule;	      /* that denied, as the record has it; owned */
	char *value;  /* what it is about, for people; "": nothing more than the rule; owned */
	char *item;   /* YAML of the list item; owned; NULL: none */
	char *why;    /* why it is not proposed, or NULL; owned */
	char *reach;  /* how wide the item is; owned, or NULL */
	bool warning; /* of a private net and the like: reach says which */
	uint64_t denials;
	uint64_t tasks[SUGGEST_TASKS_MAX]; /* hashes */
	size_t n_tasks;
};

struct suggest {
	const struct policy *policy;
	bool check_paths; /* this host has the paths: a file that is not there is made in its directory */
	struct suggest_denied *v; /* owned */
	size_t n;
	uint64_t denials; /* all that counted */
	uint64_t others;  /* denials under policies of other names */
	uint64_t beyond;  /* denials that there was no room for */
	bool failed;	  /* memory has ended */
};

/* Takes one record; what is no denial under this policy's name is passed over, or counted. */
void suggest_take(struct suggest *suggest, const struct event_record *record);

/* When all were taken: judges them together, and orders them by key and value. */
void suggest_settle(struct suggest *suggest);
void suggest_clear(struct suggest *suggest);

/* Foreign bytes as ASCII that acts on nothing: others as \xNN; what is too long is cut. Returns ret_text. */
#define SUGGEST_SHOWN_SIZE 256
const char *suggest_show(const char *text, char ret_text[SUGGEST_SHOWN_SIZE]);

/* Inside: where a record's denial goes. value: what is told apart by, ASCII. Returns NULL when there is no room. */
struct suggest_denied *suggest_note(struct suggest *suggest, const struct event_record *record,
				    enum suggest_key key, const char *value);
/* Sets a text once: the first stays. */
void suggest_say(struct suggest *suggest, char **text, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* suggest_judge.c: one denial. */
void suggest_judge(struct suggest *suggest, const struct event_record *record);

/*
 * suggest_text.c: the policy's text with as many proposals as its reader takes; what it does not take gets `why`. options: as
 * the text itself was read with. Returns 0 and *ret_text, which is a copy when there is none, or -ENOMEM.
 */
int suggest_text(struct suggest *suggest, const char *text, size_t length,
		 const struct policy_options *options, char **ret_text, size_t *ret_length);

/* Of these denials, and their tasks, as words. The text is valid until the next call. */
const char *suggest_count(const struct suggest_denied *denied);

#endif
