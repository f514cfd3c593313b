/* SPDX-License-Identifier: Apache-2.0 */
/* Inside user/admin. */
#ifndef CORDON_ADMIN_INTERNAL_H
#define CORDON_ADMIN_INTERNAL_H

#include <jansson.h>

#include "admin/admin.h"
#include "admin/protocol.h"
#include "admin/roles.h"

/* One connection. */
struct session {
	const struct admin_options *admin;
	struct admin_role role;
	int fd;
	int err; /* of a write; nothing is written after it */
};

/* A row of the answer; takes root over. */
int session_row(struct session *session, json_t *root);

/* The last line. fields (taken over, may be NULL) are added to {"status":"ok"}. */
void session_ok(struct session *session, json_t *fields);
void session_error(struct session *session, const char *code, const char *reason);

/* requests.c: answers one request that the role may make. */
void session_answer(struct session *session, const struct admin_request *request);

#endif
