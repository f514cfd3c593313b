/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule set `secrets`: places that are known to hold credentials, and that no fence reads unless its policy says so
 * (files.read.without). One table: the words of the policy, what is denied, `cordon check --secrets`, `cordon doctor
 * --fence` and the docs come from it. Constant data; no privilege.
 */
#ifndef CORDON_POLICY_SECRETS_H
#define CORDON_POLICY_SECRETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(enum, name, what is in these places): a policy names a group as `secrets.NAME`. At most 32. */
#define POLICY_SECRET_GROUPS(X)                                                                   \
	X(SSH, "ssh", "keys of SSH")                                                              \
	X(GNUPG, "gnupg", "keys of GnuPG")                                                        \
	X(CLOUDS, "clouds", "credentials of cloud providers and their tools")                     \
	X(KUBE, "kube", "credentials of Kubernetes clusters")                                     \
	X(CONTAINERS, "containers", "credentials of image registries")                            \
	X(NETRC, "netrc", "passwords of curl, ftp and their kin")                                 \
	X(GIT, "git", "credentials of git and of code hosts")                                     \
	X(PACKAGES, "packages", "credentials of package registries")                              \
	X(VAULTS, "vaults", "tokens of secret stores, and password stores")                       \
	X(DATABASES, "databases", "passwords of database clients")                                \
	X(BROWSERS, "browsers", "profiles of browsers and mail readers: cookies, passwords")      \
	X(HISTORIES, "histories",                                                                 \
	  "histories of shells and clients, which hold passwords that were typed; nothing that "  \
	  "is not interactive reads them")                                                        \
	X(SERVICES, "services",                                                                   \
	  "what an orchestrator, the service manager or a cloud's first boot hands to services: " \
	  "service-account tokens, credentials, user data")                                       \
	X(SYSTEM, "system", "password hashes and private keys of the host")

enum policy_secret_group {
#define X(id, name, what) POLICY_SECRET_##id,
	POLICY_SECRET_GROUPS(X)
#undef X
		POLICY_SECRET_GROUPS_N
};

/* A mask with a bit for each group: all of them. */
#define POLICY_SECRETS_ALL ((uint32_t)((1ULL << POLICY_SECRET_GROUPS_N) - 1))

struct policy_secret_place {
	enum policy_secret_group group;
	bool home; /* the path is below each home */
	const char *
		path; /* absolute, or without a slash in front below a home; a directory or a file */
};

extern const struct policy_secret_place policy_secret_places[];
extern const size_t policy_secret_places_n;

const char *policy_secret_group_name(enum policy_secret_group group);
const char *policy_secret_group_what(enum policy_secret_group group);

/* The groups that `secrets` or `secrets.NAME` names; 0: none. */
uint32_t policy_secrets_word(const char *word);

/* The word that was probably meant; NULL when none is near. The text is valid until the next call. */
const char *policy_secrets_nearest(const char *word);

/*
 * By path alone, whose home it may be: does the path lie in a place of the table, or (a directory) take one in? The group, or -1.
 */
int policy_secret_path_group(const char *path);

/* Does a file of this name usually hold a secret, wherever it lies: .env, *.pem, id_rsa and the like? */
bool policy_secret_name(const char *name);

#define POLICY_HOMES_MAX 4096	       /* homes of one fence; more are refused */
#define POLICY_HOMES_SIZE (256 * 1024) /* bytes of their paths, a NUL behind each */

/*
 * The homes that passwd(5) text and the environment of a process (NAME=VALUE, a NUL behind each) name, as canonical
 * absolute paths, a NUL behind each; what is no such path is left out, and so is `/`. Foreign bytes; allocates nothing and makes no system
 * call. Returns the bytes, or size + 1 when there was no room for all.
 */
size_t policy_homes_read(const char *passwd, size_t passwd_size, const char *environment,
			 size_t environment_size, char *to, size_t size);

#endif
