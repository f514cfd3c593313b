// SPDX-License-Identifier: Apache-2.0
/*
 * The table of the rule set `secrets`, and its words. A place is in it when what lies there lets its reader act as somebody
 * else, and when no ordinary program that an agent runs has to read it. Sockets are not: they are connected, not
 * read, and network.unix denies each that it does not name. No privilege.
 */
#include "policy/secrets.h"

#include <stdio.h>
#include <string.h>

#include "conf/near.h"
#include "policy/value.h"
#include "util/util.h"

#define HOME(group, path) { POLICY_SECRET_##group, true, path },
#define HOST(group, path) { POLICY_SECRET_##group, false, path },

const struct policy_secret_place policy_secret_places[] = {
	/* clang-format off */
	HOME(SSH, ".ssh")
	HOME(GNUPG, ".gnupg")
	HOME(CLOUDS, ".aws")
	HOME(CLOUDS, ".azure")
	HOME(CLOUDS, ".config/gcloud")
	HOME(CLOUDS, ".config/doctl")
	HOME(CLOUDS, ".config/hcloud")
	HOME(CLOUDS, ".config/rclone")
	HOME(CLOUDS, ".config/scw")
	HOME(CLOUDS, ".aliyun")
	HOME(CLOUDS, ".bluemix")
	HOME(CLOUDS, ".boto")
	HOME(CLOUDS, ".oci")
	HOME(CLOUDS, ".s3cfg")
	HOME(CLOUDS, ".terraform.d/credentials.tfrc.json")
	HOME(CLOUDS, ".terraformrc")
	HOME(KUBE, ".kube")
	HOST(KUBE, "/etc/kubernetes")
	HOST(KUBE, "/etc/rancher")
	HOST(KUBE, "/var/lib/kubelet")
	HOST(KUBE, "/var/lib/rancher")
	HOME(CONTAINERS, ".docker")
	HOME(CONTAINERS, ".config/containers/auth.json")
	HOME(NETRC, ".netrc")
	HOME(NETRC, "_netrc")
	HOME(NETRC, ".authinfo")
	HOME(NETRC, ".authinfo.gpg")
	HOME(GIT, ".git-credentials")
	HOME(GIT, ".config/git/credentials")
	HOME(GIT, ".config/gh")
	HOME(GIT, ".config/glab-cli")
	HOME(GIT, ".config/hub")
	HOME(GIT, ".config/tea")
	HOME(PACKAGES, ".npmrc")
	HOME(PACKAGES, ".yarnrc.yml")
	HOME(PACKAGES, ".pypirc")
	HOME(PACKAGES, ".cargo/credentials")
	HOME(PACKAGES, ".cargo/credentials.toml")
	HOME(PACKAGES, ".composer/auth.json")
	HOME(PACKAGES, ".config/composer/auth.json")
	HOME(PACKAGES, ".gem/credentials")
	HOME(PACKAGES, ".local/share/gem/credentials")
	HOME(PACKAGES, ".gradle/gradle.properties")
	HOME(PACKAGES, ".m2/settings.xml")
	HOME(PACKAGES, ".m2/settings-security.xml")
	HOME(PACKAGES, ".cache/huggingface/token")
	HOME(PACKAGES, ".huggingface")
	HOME(PACKAGES, ".kaggle")
	HOME(VAULTS, ".vault-token")
	HOME(VAULTS, ".config/op")
	HOME(VAULTS, ".config/sops")
	HOME(VAULTS, ".config/Bitwarden CLI")
	HOME(VAULTS, ".local/share/keyrings")
	HOME(VAULTS, ".local/share/kwalletd")
	HOME(VAULTS, ".password-store")
	HOME(DATABASES, ".pgpass")
	HOME(DATABASES, ".my.cnf")
	HOME(DATABASES, ".mylogin.cnf")
	HOME(DATABASES, ".databrickscfg")
	HOST(DATABASES, "/etc/mysql/debian.cnf")
	HOME(BROWSERS, ".mozilla")
	HOME(BROWSERS, ".thunderbird")
	HOME(BROWSERS, ".config/google-chrome")
	HOME(BROWSERS, ".config/chromium")
	HOME(BROWSERS, ".config/BraveSoftware")
	HOME(BROWSERS, ".config/microsoft-edge")
	HOME(BROWSERS, ".config/opera")
	HOME(BROWSERS, ".config/vivaldi")
	HOME(BROWSERS, ".var/app/com.google.Chrome")
	HOME(BROWSERS, ".var/app/org.chromium.Chromium")
	HOME(BROWSERS, ".var/app/org.mozilla.firefox")
	HOME(BROWSERS, ".var/app/org.mozilla.Thunderbird")
	HOME(BROWSERS, "snap/chromium")
	HOME(BROWSERS, "snap/firefox")
	HOME(BROWSERS, "snap/thunderbird")
	HOME(HISTORIES, ".ash_history")
	HOME(HISTORIES, ".bash_history")
	HOME(HISTORIES, ".histfile")
	HOME(HISTORIES, ".zsh_history")
	HOME(HISTORIES, ".local/share/fish/fish_history")
	HOME(HISTORIES, ".python_history")
	HOME(HISTORIES, ".node_repl_history")
	HOME(HISTORIES, ".psql_history")
	HOME(HISTORIES, ".mysql_history")
	HOME(HISTORIES, ".sqlite_history")
	HOME(HISTORIES, ".rediscli_history")
	HOST(SERVICES, "/run/secrets")
	HOST(SERVICES, "/var/run/secrets")
	HOST(SERVICES, "/run/credentials")
	HOST(SERVICES, "/run/credstore")
	HOST(SERVICES, "/etc/credstore")
	HOST(SERVICES, "/etc/credstore.encrypted")
	HOST(SERVICES, "/var/lib/systemd/credential.secret")
	HOST(SERVICES, "/var/lib/cloud/instances")
	HOST(SERVICES, "/run/cloud-init/instance-data-sensitive.json")
	HOST(SYSTEM, "/etc/shadow")
	HOST(SYSTEM, "/etc/shadow-")
	HOST(SYSTEM, "/etc/gshadow")
	HOST(SYSTEM, "/etc/gshadow-")
	HOST(SYSTEM, "/etc/security/opasswd")
	HOST(SYSTEM, "/etc/ssh/ssh_host_dsa_key")
	HOST(SYSTEM, "/etc/ssh/ssh_host_ecdsa_key")
	HOST(SYSTEM, "/etc/ssh/ssh_host_ed25519_key")
	HOST(SYSTEM, "/etc/ssh/ssh_host_rsa_key")
	HOST(SYSTEM, "/etc/krb5.keytab")
	HOST(SYSTEM, "/etc/ipsec.secrets")
	HOST(SYSTEM, "/etc/ppp/chap-secrets")
	HOST(SYSTEM, "/etc/ppp/pap-secrets")
	HOST(SYSTEM, "/etc/ssl/private")
	HOST(SYSTEM, "/etc/letsencrypt/archive")
	HOST(SYSTEM, "/etc/letsencrypt/accounts")
	HOST(SYSTEM, "/etc/wireguard")
	HOST(SYSTEM, "/etc/NetworkManager/system-connections")
	/* clang-format on */
};
const size_t policy_secret_places_n = ARRAY_SIZE(policy_secret_places);

static const struct {
	const char *name, *what;
} groups[POLICY_SECRET_GROUPS_N] = {
#define X(id, name, what) { name, what },
	POLICY_SECRET_GROUPS(X)
#undef X
};

const char *policy_secret_group_name(enum policy_secret_group group)
{
	return groups[group].name;
}

const char *policy_secret_group_what(enum policy_secret_group group)
{
	return groups[group].what;
}

#define SET "secrets"

uint32_t policy_secrets_word(const char *word)
{
	size_t n = strlen(SET);

	if (strncmp(word, SET, n) != 0 || (word[n] && word[n] != '.'))
		return 0;
	if (!word[n])
		return POLICY_SECRETS_ALL;
	for (unsigned int i = 0; i < POLICY_SECRET_GROUPS_N; i++)
		if (!strcmp(groups[i].name, word + n + 1))
			return 1U << i;
	return 0;
}

const char *policy_secrets_nearest(const char *word)
{
	static char words[POLICY_SECRET_GROUPS_N + 1][32];
	const char *nearest = NULL;
	size_t best = CONF_NEAR_NONE;

	for (unsigned int i = 0; i <= POLICY_SECRET_GROUPS_N; i++) {
		snprintf(words[i], sizeof(words[i]), SET "%s%s", i ? "." : "",
			 i ? groups[i - 1].name : "");
		if (conf_word_is_nearer(word, words[i], &best))
			nearest = words[i];
	}
	return nearest;
}

/* --- homes -------------------------------------------------------------------------------------------------- */

enum { HOME_MAX = 1024 }; /* bytes of one; with a longer one nobody works */

struct homes {
	char *to;
	size_t size, used;
};

static void home_add(struct homes *homes, const char *path, size_t n)
{
	char *to = homes->to + homes->used;

	while (n > 1 && path[n - 1] == '/')
		n--;
	if (n < 2 || n >= HOME_MAX || path[0] != '/' || memchr(path, '\0', n) ||
	    homes->used > homes->size)
		return;
	if (n + 1 > homes->size - homes->used) {
		homes->used = homes->size + 1;
		return;
	}
	memcpy(to, path, n);
	to[n] = '\0';
	if (policy_path_is_canonical(to))
		homes->used += n + 1;
}

/* NAME:PASSWORD:UID:GID:GECOS:HOME:SHELL */
static void passwd_line(struct homes *homes, const char *line, size_t n)
{
	const char *end = line + n;

	for (int field = 0; field < 5; field++) {
		line = memchr(line, ':', (size_t)(end - line));
		if (!line)
			return;
		line++;
	}
	n = (size_t)(end - line);
	end = memchr(line, ':', n);
	home_add(homes, line, end ? (size_t)(end - line) : n);
}

size_t policy_homes_read(const char *passwd, size_t passwd_size, const char *environment,
			 size_t environment_size, char *to, size_t size)
{
	struct homes homes = { .to = to, .size = size };

	while (passwd_size) {
		const char *end = memchr(passwd, '\n', passwd_size);
		size_t n = end ? (size_t)(end - passwd) : passwd_size;

		passwd_line(&homes, passwd, n);
		n += end != NULL;
		passwd += n;
		passwd_size -= n;
	}
	while (environment_size) {
		const char *end = memchr(environment, '\0', environment_size);
		size_t n = end ? (size_t)(end - environment) : environment_size;

		if (n > 5 && !memcmp(environment, "HOME=", 5))
			home_add(&homes, environment + 5, n - 5);
		n += end != NULL;
		environment += n;
		environment_size -= n;
	}
	return homes.used;
}
