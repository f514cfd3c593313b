/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin socket of a gateway: where people decide about held calls, issue grants and settle what is not known. Served
 * by threads of its own, apart from the calls of agents. Who may do what is roles.h; what can be said protocol.h. A
 * process of a fence is refused whatever its user and group: the kernel says that it is one.
 */
#ifndef CORDON_ADMIN_H
#define CORDON_ADMIN_H

#include "admin/report.h"
#include "admin/tokens.h"

#define ADMIN_CONNECTIONS_MAX 32
#define ADMIN_IDLE_S 30

struct admin;

/*
 * Sends the kept request of a call that was just approved and settles it: gateway_execute_kept(). Blocks. Returns what
 * came of it.
 */
typedef enum ledger_code admin_execute_fn(void *context, const struct ledger_answer *approved,
					  struct ledger_answer *ret_answer);

/* Is that tool declared destructive? One that is not known any more is. */
typedef bool admin_destructive_fn(void *context, const char *tool);

/* What these name was revoked, durably: as of struct ledger_job. Any thread of the admin's; must not block. */
typedef void admin_revoked_fn(void *context, enum ledger_revoke_by by, const char *value);

struct admin_options {
	const char *path; /* of the socket; NULL: ADMIN_SOCKET */
	/* All borrowed, and to outlive the admin. */
	struct ledger *ledger;
	struct identity_source *identity;
	struct tokens *tokens;
	struct report *report;
	admin_execute_fn *execute;
	admin_destructive_fn *destructive;
	admin_revoked_fn *revoked; /* may be NULL */
	void *execute_context;	   /* of all three */
};

/* Listens and serves. 0 or -errno with the cause and the remedy; -EADDRINUSE: another gateway serves there. */
int admin_open(const struct admin_options *options, struct admin **ret_admin, struct error *error);

/* Ends: no new connections, requests under way are answered. Removes the socket. Takes NULL. */
void admin_close(struct admin *admin);

#endif
