/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs share that speak with a gateway's admin socket. */
#ifndef CORDON_ADMIN_CLIENT_H
#define CORDON_ADMIN_CLIENT_H

#include "admin/protocol.h"
#include "cordon/cli.h"

/* The row of --admin; at: offset of a const char * in the verb's options. */
#define ADMIN_CLIENT_OPTION(at)                                                         \
	{                                                                               \
		0, "admin", CLI_STRING, at, "SOCKET",                                   \
			"the gateway's admin socket; default " ADMIN_SOCKET, 0, 0, NULL \
	}

/* Puts a text or number into the request when it is there (text: not NULL; number: not 0). */
void admin_client_text(struct admin_request *request, enum admin_member member, const char *text);
void admin_client_number(struct admin_request *request, enum admin_member member, long long number);

/*
 * Sends the request and prints what comes back, a JSON object a line: the rows, or where there are none the answer.
 * Returns an exit code; what the gateway refused goes to stderr.
 */
int admin_client_run(const char *socket_path, const struct admin_request *request);

/* A decimal number of the command line, 1 or more; 0 for NULL; -1 for anything else. */
long long admin_client_parse_number(const char *text);

#endif
