/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs share that speak with cordond. No privilege of their own: cordond decides by who the kernel says we are. */
#ifndef CORDON_DAEMON_CLIENT_H
#define CORDON_DAEMON_CLIENT_H

#include "cordon/cli.h"
#include "cordond/protocol.h"

/* The row of --socket; at: offset of a const char * in the verb's options. */
#define DAEMON_CLIENT_OPTION(at)                                                        \
	{                                                                               \
		0, "socket", CLI_STRING, at, "SOCKET",                                  \
			"cordond's control socket; default " CORDOND_SOCKET, 0, 0, NULL \
	}

struct daemon_client {
	struct control_reader reader; /* its fd is owned */
	bool quiet;		      /* the caller says what went wrong */
	bool lost;		      /* cordond hung up instead of an answer */
};

/*
 * Connects (socket NULL: the default one). 0, or -errno with the message in *error; -ENOENT or -ECONNREFUSED: no cordond
 * runs.
 */
int daemon_client_open(struct daemon_client *client, const char *socket, struct error *error);
void daemon_client_close(struct daemon_client *client); /* takes one that failed to open */

/* Does anybody listen there? */
bool daemon_client_is_there(const char *socket);

/* A request to be filled by json_object_set_new(); NULL when memory ends. */
json_t *daemon_client_request(enum cordond_verb verb);
/* Puts a text or number into it when it is there (text: not NULL; number: not 0; flag: true). */
void daemon_client_text(json_t *request, const char *member, const char *text);
void daemon_client_number(json_t *request, const char *member, long long number);
void daemon_client_flag(json_t *request, const char *member, bool flag);

/* Puts the text of a policy into it. An exit code; what is wrong was said. */
int daemon_client_policy(json_t *request, const char *path);

/* Called for each row. */
typedef void daemon_client_row_fn(void *context, const json_t *row);

/*
 * Sends the request (taken over) and reads the answer. Returns an exit code; what cordond refused was said on stderr, the
 * faults of a policy with policy_name. ret_status (may be NULL): the last line, to be json_decref()ed, when all went well.
 */
int daemon_client_ask(struct daemon_client *client, json_t *request, const char *policy_name,
		      daemon_client_row_fn *fn, void *context, json_t **ret_status);

/*
 * Asks for events; then lines of events are what comes next, by control_read_line() on client->reader. An exit code. fence and
 * task may be NULL.
 */
int daemon_client_events(struct daemon_client *client, bool follow, bool past, const char *fence,
			 const char *task);

/* The id of cordond's stream (CORDOND_STREAM_SIZE bytes): another after its front was started again. An exit code. */
int daemon_client_stream(struct daemon_client *client, char *ret_stream);

/* Is this line, with or without its newline, the one that says that all events were told? */
bool daemon_client_is_end(const char *line, size_t size);

/* Is -errno of daemon_client_open() one that passes when cordond is started again? */
bool daemon_client_may_come(int err);

/* The message that nobody listens, as an exit code. */
int daemon_client_fail(int err, const struct error *error);

/* Prints one line of JSON in ASCII, so that nothing of it acts on a terminal. */
void daemon_client_print(const json_t *root);

#endif
