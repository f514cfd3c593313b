// SPDX-License-Identifier: Apache-2.0
/* See roles.h. Fails to nothing: a group that cannot be looked up gives nothing. */
#include "admin/roles.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>

#include "control/control.h"

#define ADMINS "cordon-admins"
#define APPROVERS "cordon-approvers"

void admin_role_add_group(struct admin_role *role, const char *group)
{
	size_t n = strlen(APPROVERS);

	if (!strcmp(group, ADMINS)) {
		role->may |= ADMIN_ADMIN | ADMIN_APPROVER;
		role->all_tenants = true;
	} else if (!strcmp(group, APPROVERS)) {
		role->may |= ADMIN_APPROVER;
		role->all_tenants = true;
	} else if (!strncmp(group, APPROVERS "-", n + 1) && group[n + 1] &&
		   strlen(group + n + 1) < sizeof(role->tenants[0]) &&
		   role->n_tenants < ADMIN_TENANTS_MAX) {
		role->may |= ADMIN_APPROVER;
		strcpy(role->tenants[role->n_tenants++], group + n + 1);
	}
}

static void gid_add(struct admin_role *role, gid_t gid)
{
	struct group group, *found = NULL;
	char buffer[16384];

	if (!getgrgid_r(gid, &group, buffer, sizeof(buffer), &found) && found)
		admin_role_add_group(role, found->gr_name);
}

static void name_of_uid(uid_t uid, char *ret, size_t size)
{
	struct passwd user, *found = NULL;
	char buffer[4096];

	if (!getpwuid_r(uid, &user, buffer, sizeof(buffer), &found) && found &&
	    snprintf(ret, size, "%s", found->pw_name) < (int)size)
		return;
	snprintf(ret, size, "uid:%u", uid);
}

int admin_role_of_peer(int fd, struct admin_role *ret_role)
{
	struct control_peer peer;

	memset(ret_role, 0, sizeof(*ret_role));
	if (control_peer_read(fd, &peer))
		return -EPERM;
	name_of_uid(peer.uid, ret_role->name, sizeof(ret_role->name));
	if (!peer.uid || peer.uid == geteuid())
		admin_role_add_group(ret_role, ADMINS);
	for (size_t i = 0; i < peer.n_groups; i++)
		if (!i || peer.groups[i] != peer.groups[0])
			gid_add(ret_role, peer.groups[i]);
	return ret_role->may ? 0 : -EPERM;
}

bool admin_role_covers(const struct admin_role *role, const char *tenant)
{
	if (!(role->may & ADMIN_APPROVER))
		return false;
	if (role->all_tenants)
		return true;
	for (unsigned int i = 0; tenant && i < role->n_tenants; i++)
		if (!strcmp(role->tenants[i], tenant))
			return true;
	return false;
}
