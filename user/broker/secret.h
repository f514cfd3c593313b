/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where credentials come from. A secret is had anew for each request, so that a changed file counts at once; only what is had
 * over the network is kept for a while. Whose it is follows from the caller's identity, never from the request. Blocks: for pools.
 */
#ifndef CORDON_BROKER_SECRET_H
#define CORDON_BROKER_SECRET_H

#include "broker/scrub.h"
#include "gwconf/gwconf.h"

#define SECRET_KEPT_MAX 64     /* secrets of the network that are kept for one upstream */
#define SECRET_KEPT_MAX_S 3600 /* however long a token says that it lives */
#define SECRET_VAULT_S 60

/* What is shown to an upstream: the secret itself, or the token that it was exchanged for. To be wiped by secret_release(). */
struct secret {
	char *value;	 /* one line of printable ASCII */
	char *exchanged; /* the client's secret, where value is a token; or NULL */
	char *place;	 /* where it was had, with the caller's names in it */
};
void secret_release(struct secret *secret);

/*
 * A secret from a file that nobody but its owner, root or this user, may read (a group only if it is this process's own): one line
 * of SCRUB_SECRET_MIN to SCRUB_SECRET_MAX printable characters, to be wiped. 0 or -errno with error.
 */
int secret_read_file(const char *path, char **ret_text, struct error *error);

struct secret_store;			     /* of one upstream: what is kept of it; any thread */
struct secret_store *secret_store_new(void); /* NULL when memory ends */
void secret_store_free(struct secret_store *store); /* takes NULL; wipes */

/*
 * The credential of the upstream for a caller. subject and tenant go into the place where it says so; they must be plain names
 * then. Returns 0, or -errno with error, whose text tells no secret, path or address: it goes into events and to the caller.
 */
int secret_get(struct secret_store *store, const struct gwconf_upstream *upstream,
	       const char *subject, const char *tenant, struct secret *ret_secret,
	       struct error *error);

/* The header line of basic authentication for USER:PASSWORD. To be wiped; NULL when memory ends. */
char *secret_basic(const char *pair);

/*
 * The upstream did not take it: what is kept of it is had anew, unless that was had this very second: a fence can make an upstream say so
 * as often as it likes. Those of other users are not touched.
 */
void secret_forget(struct secret_store *store, const struct secret *secret);

/* Can a secret that is the same for all be had now, as far as this machine can say? 0 or -errno with error, for the operator. */
int secret_check(const struct gwconf_upstream *upstream, struct error *error);

#endif
