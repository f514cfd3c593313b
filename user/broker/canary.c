// SPDX-License-Identifier: Apache-2.0
/* See canary.h. Fails closed: a file that others may write, or that holds no text to look for, is an error of the configuration. */
#include "broker/canary.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct canaries {
	struct scrub_forms forms;
	struct {
		char *upstream, *name; /* owned; name: as a host's would hold it */
		size_t end;	       /* the forms before this one are its */
	} v[CANARY_MAX];
	size_t n;
};

/* --- their files ------------------------------------------------------------------------------ */

/* Letters and digits, all as likely. */
static int make_text(const char *prefix, char *text, size_t size)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	size_t at = (size_t)snprintf(text, size, "%s", prefix ? prefix : "");
	unsigned char byte;

	for (size_t i = 0; i < CANARY_RANDOM;) {
		if (RAND_bytes(&byte, 1) != 1)
			return -EIO;
		if (byte < 248) {
			text[at++] = digits[byte % 62];
			i++;
		}
	}
	text[at++] = '\n';
	text[at] = '\0';
	return (int)at;
}

/* Everybody may read it: that is what it is for. */
static int make_file(const struct gwconf_upstream *upstream)
{
	char text[CANARY_SIZE_MAX + CANARY_RANDOM + 2];
	int n = make_text(upstream->canary.prefix, text, sizeof(text));
	_cleanup_close_ int fd = open(upstream->canary.file,
				      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0)
		return errno == EEXIST ? 0 : -errno;
	if (n > 0 && fchmod(fd, 0644) == 0 && write(fd, text, (size_t)n) == n && fsync(fd) == 0)
		return 0;
	unlink(upstream->canary.file);
	return n < 0 ? n : -EIO;
}

/* Who could write it could blind the gateway, or let it refuse whatever it likes. */
static int read_file(const char *path, char *text, size_t size, struct error *error)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(error, errno, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode) || (st.st_mode & 022) ||
	    (st.st_uid != 0 && st.st_uid != geteuid()))
		return error_set(error, EPERM,
				 "only root or the gateway may be able to write it (mode %03o)",
				 st.st_mode & 0777U);
	n = read(fd, text, size - 1);
	if (n < 0)
		return error_set(error, errno, "%s", strerror(errno));
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	text[n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if (text[i] <= 0x20 || text[i] > 0x7e)
			return error_set(error, EINVAL,
					 "it is not one line of printable characters");
	if (n < CANARY_SIZE_MIN || n > CANARY_SIZE_MAX)
		return error_set(error, EINVAL, "it must have %d to %d characters", CANARY_SIZE_MIN,
				 CANARY_SIZE_MAX);
	return (int)n;
}

/* --- all of them ------------------------------------------------------------------------------ */

/* Small letters and digits alone, as far as a name has room: to be freed. */
static char *name_of(const char *p, size_t n)
{
	char *name = calloc(1, n + 1), *to = name;

	for (size_t i = 0; name && i < n; i++)
		if (isalnum((unsigned char)p[i]))
			*to++ = (char)tolower((unsigned char)p[i]);
	return name;
}

static int take(struct canaries *canaries, const struct gwconf_upstream *upstream, bool make,
		struct error *error)
{
	char text[CANARY_SIZE_MAX + 3];
	struct error why = { "" };
	int r = make ? make_file(upstream) : 0, n;

	if (r < 0)
		return error_set(error, -r, "upstream %s: the placeholder %s cannot be made: %s",
				 upstream->name, upstream->canary.file, strerror(-r));
	n = read_file(upstream->canary.file, text, sizeof(text), &why);
	if (n == -ENOENT && !make)
		return 0; /* it will be made */
	if (n < 0)
		return error_set(error, -n, "upstream %s: the placeholder %s: %s", upstream->name,
				 upstream->canary.file, why.text);
	r = scrub_forms_add(&canaries->forms, text, (size_t)n);
	canaries->v[canaries->n].upstream = strdup(upstream->name);
	canaries->v[canaries->n].name = name_of(text, (size_t)n);
	canaries->v[canaries->n].end = canaries->forms.n;
	if (r < 0 || !canaries->v[canaries->n].upstream || !canaries->v[canaries->n].name)
		r = -ENOMEM;
	canaries->n++;
	return r;
}

int canaries_open(const struct gwconf *conf, bool make, struct canaries **ret_canaries,
		  struct error *error)
{
	struct canaries *canaries = calloc(1, sizeof(*canaries));
	int r = canaries ? 0 : error_set(error, ENOMEM, "out of memory");

	for (size_t i = 0; r == 0 && i < conf->n_upstreams; i++) {
		if (!conf->upstreams[i].canary.file)
			continue;
		if (canaries->n == CANARY_MAX)
			r = error_set(error, E2BIG, "more than %d upstreams have a placeholder",
				      CANARY_MAX);
		else
			r = take(canaries, &conf->upstreams[i], make, error);
	}
	if (r < 0 || canaries->n == 0)
		canaries_free(canaries);
	else
		*ret_canaries = canaries;
	return r;
}

void canaries_free(struct canaries *canaries)
{
	if (!canaries)
		return;
	for (size_t i = 0; i < canaries->n; i++) {
		free(canaries->v[i].upstream);
		free(canaries->v[i].name);
	}
	scrub_forms_release(&canaries->forms);
	free(canaries);
}

/* --- looking for them ------------------------------------------------------------------------- */

static const char *owner(const struct canaries *canaries, size_t form)
{
	for (size_t i = 0; i < canaries->n; i++)
		if (form < canaries->v[i].end)
			return canaries->v[i].upstream;
	return NULL;
}

const char *canaries_find(const struct canaries *canaries, const char *p, size_t n)
{
	size_t form;

	return canaries && scrub_forms_find(&canaries->forms, p, n, &form) ? owner(canaries, form)
									   : NULL;
}

static int hex(char c)
{
	return c >= '0' && c <= '9'		    ? c - '0'
	       : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
						    : -1;
}

const char *canaries_find_target(const struct canaries *canaries, const char *p, size_t n)
{
	const char *found = canaries_find(canaries, p, n);
	char *read = canaries && !found ? malloc(n + 1) : NULL;
	size_t at = 0;

	if (!read)
		return found || !canaries ? found : canaries->v[0].upstream;
	for (size_t i = 0; i < n; i++) {
		bool escaped = p[i] == '%' && n - i > 2 && hex(p[i + 1]) >= 0 && hex(p[i + 2]) >= 0;

		read[at++] = escaped ? (char)(hex(p[i + 1]) * 16 + hex(p[i + 2])) : p[i];
		i += escaped ? 2 : 0;
	}
	found = canaries_find(canaries, read, at);
	free(read);
	return found;
}

const char *canaries_find_name(const struct canaries *canaries, const char *p, size_t n)
{
	const char *found = canaries_find(canaries, p, n);
	_cleanup_free_ char *name = canaries && !found ? name_of(p, n) : NULL;

	if (canaries && !found && !name)
		found = canaries->v[0].upstream;
	for (size_t i = 0; name && !found && i < canaries->n; i++)
		if (canaries->v[i].name[0] && strstr(name, canaries->v[i].name))
			found = canaries->v[i].upstream;
	return found;
}

void canary_watch_start(struct canary_watch *watch, const struct canaries *canaries)
{
	memset(watch, 0, sizeof(*watch));
	watch->canaries = canaries;
	watch->scrub.lent = canaries ? &canaries->forms : NULL;
}

int canary_watch_feed(struct canary_watch *watch, const char *p, size_t n, bool last,
		      const char **ret_p, size_t *ret_n, const char **ret_whose)
{
	int r;

	*ret_whose = NULL;
	*ret_p = p;
	*ret_n = n;
	if (!watch->canaries)
		return 0;
	r = scrub_feed(&watch->scrub, p, n, last, ret_p, ret_n);
	if (r == 0 && watch->scrub.seen)
		*ret_whose = owner(watch->canaries, watch->scrub.seen - 1);
	return r;
}

void canary_watch_end(struct canary_watch *watch)
{
	scrub_release(&watch->scrub);
}
