/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end of the admin socket, and what they may do: by the credentials that the kernel noted when they
 * connected, never by what they say.
 *
 *   uid 0, the gateway's own user, group cordon-admins   admin and approver, all tenants
 *   group cordon-approvers                               approver, all tenants
 *   group cordon-approvers-TENANT                        approver of that tenant; several such groups add up
 *
 * Everybody else, and every process of a fence whatever its user, may do nothing.
 */
#ifndef CORDON_ADMIN_ROLES_H
#define CORDON_ADMIN_ROLES_H

#include <stdbool.h>
#include <sys/types.h>

#include "admin/protocol.h"

#define ADMIN_TENANTS_MAX 16

struct admin_role {
	char name[129];	  /* login name, or "uid:N" */
	unsigned int may; /* bits of admin_need */
	bool all_tenants; /* as approver */
	char tenants[ADMIN_TENANTS_MAX][129];
	unsigned int n_tenants;
};

/* The peer of a connected unix socket. 0, or -EPERM: nobody who may do anything (name is filled all the same). */
int admin_role_of_peer(int fd, struct admin_role *ret_role);

/* May the role decide for this tenant? */
bool admin_role_covers(const struct admin_role *role, const char *tenant);

/* What one group gives; for tests apart from the system's groups. */
void admin_role_add_group(struct admin_role *role, const char *group);

#endif
