/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of user/cordond: the command line, messages, and the two processes. */
#ifndef CORDON_CORDOND_CORDOND_H
#define CORDON_CORDOND_CORDOND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/util.h"

#define CORDOND_CONFIG "/etc/cordon/cordond.yaml"
#define CORDOND_USER "cordon"
#define CORDOND_FRONT_FD 3	     /* the front's end of the pair */
#define CORDOND_FRONT_WORD "--front" /* the only argument of the front */

struct cordond_options {
	const char *config;
	const char *socket;
	const char *events;
	const char *user;
	bool foreground; /* the only way; taken so that it can be said */
	bool degraded;
	bool check;
};

/* -1 to go on, or an exit code. */
int cordond_options_parse(int argc, char **argv, struct cordond_options *ret_options);

/* "cordond: text" on stderr, control characters as "?". */
void cordond_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The process that holds the privilege. Returns an exit code. */
int keeper_main(const struct cordond_options *options);

/* The process that has none; the keeper executes it. Returns an exit code. */
int front_main(void);

/* Reads the configuration from a descriptor and says what is wrong: --check, as who called. An exit code. */
int front_check(const char *path);

#endif
