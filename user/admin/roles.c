// SPDX-License-Identifier: Apache-2.0
/* See roles.h. Fails to nothing: a group that cannot be looked up gives nothing. */
#include "admin/roles.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>

#define ADMINS "cordon-admins"
#define APPROVERS "cordon-approvers"

enum { GROUPS_MAX = 256 };

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
	struct ucred cred = { 0 };
	socklen_t size = sizeof(cred);
	gid_t groups[GROUPS_MAX];

	memset(ret_role, 0, sizeof(*ret_role));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) || size != sizeof(cred) ||
	    cred.uid == (uid_t)-1)
		return -EPERM;
	name_of_uid(cred.uid, ret_role->name, sizeof(ret_role->name));
	if (!cred.uid || cred.uid == geteuid())
		admin_role_add_group(ret_role, ADMINS);
	gid_add(ret_role, cred.gid);
	size = sizeof(groups);
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size))
		for (size_t i = 0; i < size / sizeof(gid_t); i++)
			if (groups[i] != cred.gid)
				gid_add(ret_role, groups[i]);
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
