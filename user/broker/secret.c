// SPDX-License-Identifier: Apache-2.0
/* See secret.h. Fails closed: a file that others can read, a name that is not plain, an answer that is not whole give nothing. */
#include "broker/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "broker/fetch.h"

struct kept {
	char *place; /* owned; NULL: free */
	char *value; /* owned; NULL: it could not be had, as err says */
	int err;
	time_t since, until; /* CLOCK_BOOTTIME */
};

struct secret_store {
	pthread_mutex_t
		mutex; /* held while something is had: others of this upstream want the same */
	struct kept kept[SECRET_KEPT_MAX];
	size_t next;
};

static void wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void secret_release(struct secret *secret)
{
	wipe(secret->value);
	wipe(secret->exchanged);
	free(secret->place);
	memset(secret, 0, sizeof(*secret));
}

struct secret_store *secret_store_new(void)
{
	struct secret_store *store = calloc(1, sizeof(*store));

	if (store)
		pthread_mutex_init(&store->mutex, NULL);
	return store;
}

static void kept_clear(struct kept *kept)
{
	free(kept->place);
	wipe(kept->value);
	memset(kept, 0, sizeof(*kept));
}

void secret_store_free(struct secret_store *store)
{
	if (!store)
		return;
	for (size_t i = 0; i < SECRET_KEPT_MAX; i++)
		kept_clear(&store->kept[i]);
	pthread_mutex_destroy(&store->mutex);
	free(store);
}

#define OAUTH "oauth " /* before the place: the token, not what it was had for */

static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec;
}

void secret_forget(struct secret_store *store, const struct secret *secret)
{
	time_t now = now_s();

	if (!secret->place)
		return;
	pthread_mutex_lock(&store->mutex);
	for (size_t i = 0; i < SECRET_KEPT_MAX; i++) {
		const char *place = store->kept[i].place;

		if (place && !strncmp(place, OAUTH, sizeof(OAUTH) - 1))
			place += sizeof(OAUTH) - 1;
		if (place && !strcmp(place, secret->place) && store->kept[i].since < now)
			kept_clear(&store->kept[i]);
	}
	pthread_mutex_unlock(&store->mutex);
}

/* --- the place -------------------------------------------------------------------------------- */

/* A name that is one part of a path however it is read. */
static bool name_is_plain(const char *name)
{
	size_t n = name ? strlen(name) : 0;

	if (n == 0 || n > 128 || name[0] == '.' || name[0] == '-')
		return false;
	return strspn(name,
		      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@+-") == n &&
	       !strstr(name, "..");
}

/* Puts the caller's names into the place. To be freed. */
static int expand(const char *place, const char *subject, const char *tenant, char **ret_text,
		  struct error *error)
{
	size_t size;
	FILE *out = open_memstream(ret_text, &size);

	if (!out)
		return -ENOMEM;
	while (*place) {
		bool is_subject = !strncmp(place, "{subject}", 9);
		const char *name = is_subject			    ? subject
				   : !strncmp(place, "{tenant}", 8) ? tenant
								    : NULL;

		if (*place != '{') {
			fputc(*place++, out);
			continue;
		}
		if (!name_is_plain(name)) {
			fclose(out);
			free(*ret_text);
			return error_set(error, EACCES, "the caller's %s names no credential",
					 is_subject ? "subject" : "tenant");
		}
		fputs(name, out);
		place += is_subject ? 9 : 8;
	}
	return fclose(out) == 0 ? 0 : -ENOMEM;
}

/* --- files ------------------------------------------------------------------------------------ */

/* One line of printable characters; an end of line is no part of it. */
static int take_line(char *text, size_t n, struct error *error)
{
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		text[--n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (text[i] < 0x20 || text[i] > 0x7e)
			return error_set(error, EINVAL,
					 "the credential is not one line of printable characters");
	if (n < SCRUB_SECRET_MIN || n > SCRUB_SECRET_MAX)
		return error_set(error, EINVAL, "the credential must have %d to %d characters",
				 SCRUB_SECRET_MIN, SCRUB_SECRET_MAX);
	return 0;
}

/*
 * Nobody but its owner, which is root or this user, may read it, or a group that this process has as its own. What systemd
 * lends is guarded by its directory.
 */
static int judge_file(int fd, bool lent, struct error *error)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return error_set(error, EINVAL, "the credential is no regular file");
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (lent ? 027 : 037)) ||
	    (!lent && (st.st_mode & 040) && st.st_gid != getegid()))
		return error_set(error, EPERM,
				 "the credential's file is open to others (mode %03o)",
				 st.st_mode & 0777U);
	return 0;
}

static int read_file(const char *path, bool lent, char **ret_text, struct error *error)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text;
	ssize_t n;
	int r;

	if (fd < 0)
		return error_set(error, errno, "the credential's file cannot be read: %s",
				 strerror(errno));
	r = judge_file(fd, lent, error);
	if (r < 0)
		return r;
	text = calloc(1, SCRUB_SECRET_MAX + 4);
	if (!text)
		return -ENOMEM;
	n = read(fd, text, SCRUB_SECRET_MAX + 3);
	r = n < 0 ? error_set(error, errno, "the credential's file cannot be read")
		  : take_line(text, (size_t)n, error);
	if (r < 0) {
		explicit_bzero(text, SCRUB_SECRET_MAX + 4);
		free(text);
		return r;
	}
	*ret_text = text;
	return 0;
}

int secret_read_file(const char *path, char **ret_text, struct error *error)
{
	return read_file(path, false, ret_text, error);
}

static int read_lent(const char *place, char **ret_text, struct error *error)
{
	const char *directory = getenv("CREDENTIALS_DIRECTORY");
	_cleanup_free_ char *path = NULL;

	if (!directory)
		return error_set(error, ENOENT, "the unit has no credentials (LoadCredential=)");
	if (asprintf(&path, "%s/%s", directory, place) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return read_file(path, true, ret_text, error);
}

static int read_env(const char *name, char **ret_text, struct error *error)
{
	const char *value = getenv(name);
	char *text;
	int r;

	if (!value)
		return error_set(error, ENOENT, "the credential's variable is not set");
	text = strdup(value);
	if (!text)
		return -ENOMEM;
	r = take_line(text, strlen(text), error);
	if (r < 0)
		wipe(text);
	else
		*ret_text = text;
	return r;
}

/* --- over the network ------------------------------------------------------------------------- */

static int read_vault(const struct gwconf_credential *credential, const char *place,
		      char **ret_text, struct error *error)
{
	char *token = NULL, *header = NULL, *url = NULL, *text = NULL;
	json_t *answer = NULL;
	const char *value;
	int r = read_file(credential->vault.token_file, false, &token, error);

	if (r == 0 && (asprintf(&header, "X-Vault-Token: %s", token) < 0 ||
		       asprintf(&url, "%s/v1/%s", credential->vault.url, place) < 0))
		r = -ENOMEM;
	if (r == 0)
		r = fetch_json(url, credential->vault.ca, header, NULL, &answer, error);
	value = json_string_value(json_object_get(
		json_object_get(json_object_get(answer, "data"), "data"), credential->vault.field));
	if (r == 0 && !value)
		r = error_set(error, ENOENT, "it has no such member");
	if (r == 0) {
		text = strdup(value);
		r = text ? take_line(text, strlen(text), error) : -ENOMEM;
	}
	json_decref(answer);
	wipe(token);
	wipe(header);
	free(url);
	if (r < 0)
		wipe(text);
	else
		*ret_text = text;
	return r;
}

char *secret_basic(const char *pair)
{
	static const char name[] = "Authorization: Basic ";
	size_t n = strlen(pair);
	char *line = malloc(sizeof(name) + 4 * ((n + 2) / 3));

	if (!line)
		return NULL;
	memcpy(line, name, sizeof(name));
	if (n)
		EVP_EncodeBlock((unsigned char *)line + sizeof(name) - 1,
				(const unsigned char *)pair, (int)n);
	return line;
}

/* Percent signs for all but letters, digits and - . _ ~: to be wiped. */
static char *form_encode(const char *text)
{
	char *out = calloc(1, 3 * strlen(text) + 1), *p = out;

	for (; out && *text; text++) {
		if ((*text >= '0' && *text <= '9') ||
		    ((*text | 32) >= 'a' && (*text | 32) <= 'z') || strchr("-._~", *text))
			*p++ = *text;
		else
			p += sprintf(p, "%%%02X", (unsigned char)*text);
	}
	return out;
}

/* Exchanges the client's secret (RFC 6749, 4.4 and 2.3.1) and says how long the token is good. */
static int read_oauth(const struct gwconf_upstream *upstream, const char *client_secret,
		      char **ret_token, time_t *ret_for_s, struct error *error)
{
	const struct gwconf_credential *credential = &upstream->credential;
	char *client = form_encode(credential->oauth.client), *secret = form_encode(client_secret);
	char *scope = form_encode(credential->oauth.scope ? credential->oauth.scope : "");
	char *form = NULL, *pair = NULL, *basic = NULL, *text = NULL;
	json_t *answer = NULL;
	const char *token, *type;
	long long for_s;
	int r = client && secret && scope ? 0 : -ENOMEM;

	if (r == 0 && (asprintf(&form, "grant_type=client_credentials%s%s", *scope ? "&scope=" : "",
				scope) < 0 ||
		       asprintf(&pair, "%s:%s", client, secret) < 0))
		r = -ENOMEM;
	if (r == 0) {
		basic = secret_basic(pair);
		r = basic ? fetch_json(credential->oauth.token_url, upstream->ca, basic, form,
				       &answer, error)
			  : -ENOMEM;
	}
	token = json_string_value(json_object_get(answer, "access_token"));
	type = json_string_value(json_object_get(answer, "token_type"));
	if (r == 0 && (!token || !type || strcasecmp(type, "bearer") != 0))
		r = error_set(error, EPROTO, "it gave no bearer token");
	if (r == 0) {
		text = strdup(token);
		r = text ? take_line(text, strlen(text), error) : -ENOMEM;
	}
	for_s = json_integer_value(json_object_get(answer, "expires_in"));
	*ret_for_s = for_s <= 0			 ? 60
		     : for_s > SECRET_KEPT_MAX_S ? SECRET_KEPT_MAX_S
						 : (time_t)for_s;
	/* A tenth is left for the way and for clocks. */
	*ret_for_s -= *ret_for_s / 10;
	json_decref(answer);
	wipe(client);
	wipe(secret);
	free(scope);
	free(form);
	wipe(pair);
	wipe(basic);
	if (r < 0)
		wipe(text);
	else
		*ret_token = text;
	return r;
}

/* --- what is kept ----------------------------------------------------------------------------- */

static struct kept *kept_find(struct secret_store *store, const char *place)
{
	time_t now = now_s();

	for (size_t i = 0; i < SECRET_KEPT_MAX; i++)
		if (store->kept[i].place && !strcmp(store->kept[i].place, place) &&
		    store->kept[i].until > now)
			return &store->kept[i];
	return NULL;
}

/* Keeps a copy of value for so long; value NULL: that it could not be had. */
static void kept_put(struct secret_store *store, const char *place, const char *value, int err,
		     time_t for_s)
{
	struct kept *kept = &store->kept[store->next++ % SECRET_KEPT_MAX];

	for (size_t i = 0; i < SECRET_KEPT_MAX; i++)
		if (store->kept[i].place && !strcmp(store->kept[i].place, place))
			kept = &store->kept[i];
	kept_clear(kept);
	kept->place = strdup(place);
	kept->value = value ? strdup(value) : NULL;
	kept->err = err;
	kept->since = now_s();
	kept->until = kept->since + for_s;
	if (!kept->place || (value && !kept->value))
		kept_clear(kept);
}

/* One after the other: who comes while something is had takes what it found. A failure holds for a second. */
static int get_kept(struct secret_store *store, const struct gwconf_upstream *upstream,
		    const char *place, const char *client_secret, char **ret_value,
		    struct error *error)
{
	const char *from = client_secret ? "the token" : "the credential";
	struct error why = { "" };
	struct kept *kept;
	time_t for_s = SECRET_VAULT_S;
	int r = 0;

	pthread_mutex_lock(&store->mutex);
	kept = kept_find(store, place);
	if (kept && kept->value) {
		*ret_value = strdup(kept->value);
		r = *ret_value ? 0 : -ENOMEM;
	} else if (kept) {
		r = error_set(error, kept->err, "%s could not be had a moment ago", from);
	} else {
		r = client_secret ? read_oauth(upstream, client_secret, ret_value, &for_s, &why)
				  : read_vault(&upstream->credential, place, ret_value, &why);
		kept_put(store, place, r == 0 ? *ret_value : NULL, -r, r == 0 ? for_s : 1);
		if (r < 0)
			error_set(error, -r, "%s cannot be had: %s", from, why.text);
	}
	pthread_mutex_unlock(&store->mutex);
	return r;
}

int secret_get(struct secret_store *store, const struct gwconf_upstream *upstream,
	       const char *subject, const char *tenant, struct secret *ret_secret,
	       struct error *error)
{
	const struct gwconf_credential *credential = &upstream->credential;
	const char *where = credential->source.file  ? credential->source.file
			    : credential->systemd    ? credential->systemd
			    : credential->source.env ? credential->source.env
						     : credential->vault.path;
	char *place = NULL, *value = NULL, *key = NULL;
	int r;

	memset(ret_secret, 0, sizeof(*ret_secret));
	r = expand(where, subject, tenant, &place, error);
	if (r < 0)
		return r;
	r = credential->source.file  ? read_file(place, false, &value, error)
	    : credential->systemd    ? read_lent(place, &value, error)
	    : credential->source.env ? read_env(place, &value, error)
				     : get_kept(store, upstream, place, NULL, &value, error);
	if (r == 0 && credential->oauth.token_url) {
		ret_secret->exchanged = value;
		value = NULL;
		r = asprintf(&key, OAUTH "%s", place) < 0
			    ? -ENOMEM
			    : get_kept(store, upstream, key, ret_secret->exchanged, &value, error);
		free(key);
	}
	ret_secret->place = place;
	ret_secret->value = value;
	if (r < 0)
		secret_release(ret_secret);
	return r;
}

int secret_check(const struct gwconf_upstream *upstream, struct error *error)
{
	const struct gwconf_credential *credential = &upstream->credential;
	const char *file =
		credential->source.file ? credential->source.file : credential->vault.token_file;
	struct error why = { "" };
	char *value = NULL;
	int r = 0;

	if (file && !strchr(file, '{'))
		r = read_file(file, false, &value, &why);
	else if (credential->systemd && !strchr(credential->systemd, '{'))
		r = read_lent(credential->systemd, &value, &why);
	else if (credential->source.env)
		r = read_env(credential->source.env, &value, &why);
	wipe(value);
	return r < 0 ? error_set(error, -r, "upstream %s: %s", upstream->name, why.text) : 0;
}
