// SPDX-License-Identifier: Apache-2.0
/*
 * What looks like a secret, by where it lies and how it is called: for `cordon suggest`, which never proposes it. A net, no
 * promise: nothing is enforced by this. No privilege, no look at the system.
 */
#include <fnmatch.h>
#include <string.h>

#include "policy/secrets.h"
#include "util/util.h"

static bool is_within(const char *path, const char *root, size_t n)
{
	return !strncmp(path, root, n) && (path[n] == '/' || path[n] == '\0');
}

/* Is place, or what is below it, where a component of the path begins? Does the path end within place? */
static bool home_place_meets(const char *path, const char *place)
{
	size_t n = strlen(place);

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		size_t rest = strlen(slash + 1);

		if (is_within(slash + 1, place, n))
			return true;
		if (rest && rest < n && place[rest] == '/' && !memcmp(slash + 1, place, rest))
			return true;
	}
	return false;
}

int policy_secret_path_group(const char *path)
{
	for (size_t i = 0; i < policy_secret_places_n; i++) {
		const struct policy_secret_place *place = &policy_secret_places[i];

		if (place->home ? home_place_meets(path, place->path)
				: is_within(path, place->path, strlen(place->path)) ||
					  is_within(place->path, path, strlen(path)))
			return (int)place->group;
	}
	return -1;
}

bool policy_secret_name(const char *name)
{
	static const char *const patterns[] = {
		".env",
		".env.*",
		"*.env",
		"*.pem",
		"*.key",
		"id_*",
		"*.p12",
		"*.pfx",
		"*.jks",
		"*.keystore",
		"*.kdbx",
		"credentials",
		"*.ppk",
		"credentials*.json",
		"secrets.y*ml",
		"*credentials*",
		"secrets.json",
		".npmrc",
		".netrc",
		".pgpass",
		"kubeconfig",
		".git-credentials",
		".htpasswd",
		"token",
		"*.token",
		"*.tfstate",
		"service-account*.json",
	};
	/* What shows how such a file looks, and the public half of a pair. */
	static const char *const harmless[] = { "*.example", "*.sample", "*.template", "*.pub",
						"*.dist" };

	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
		if (!fnmatch(harmless[i], name, FNM_CASEFOLD))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		if (!fnmatch(patterns[i], name, FNM_CASEFOLD))
			return true;
	return false;
}
