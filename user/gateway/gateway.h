/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway as a whole: what its parts share. One process, its own user, no capabilities. Threads: the
 * main one (signals, reload), the acceptor (new connections and who made them), workers (HTTP and the
 * phases of calls), pools for what blocks (upstreams; reads of the ledger), the ledger's own.
 */
#ifndef CORDON_GATEWAY_H
#define CORDON_GATEWAY_H

#include <pthread.h>
#include <stdatomic.h>

#include "gwconf/gwconf.h"
#include "identity/identity.h"
#include "ledger/ledger.h"

/* --- who calls -------------------------------------------------------------------------------- */

/* A fence that has connections. Shared by them, so that an idle one costs little. See callers.h. */
struct share;
struct caller {
	atomic_uint refs;
	struct share *share;
	struct identity id;
};
struct caller *caller_ref(struct caller *caller); /* takes NULL */
void caller_unref(struct caller *caller);	  /* takes NULL */

struct secret_store;
struct canaries;

/* --- what is configured ----------------------------------------------------------------------- */

/* A tool, ready: prepared in the ledger, its credential read. */
struct tool {
	const struct gwconf_tool *conf;
	struct ledger_tool *ledger;
	char *credential; /* the whole header line for the upstream; wiped when freed; or NULL */
	const struct gwconf_upstream *upstream; /* of http */
};

/*
 * One generation of the configuration. Calls hold the one that they began with; the last to let go of an
 * old one frees it. Constant once it is in use.
 */
struct setup {
	atomic_uint refs;
	struct gwconf *conf;
	struct tool tools[GWCONF_TOOLS_MAX];
	size_t n_tools;
	struct secret_store *secrets
		[GWCONF_UPSTREAMS_MAX]; /* as conf->upstreams; what is kept of their credentials */
	struct ledger_tool *once
		[GWCONF_UPSTREAMS_MAX]; /* as conf->upstreams: of those with scopes that work once; or NULL */
	struct canaries *canaries; /* placeholders of upstreams; NULL: there are none */
};
struct setup *setup_ref(struct setup *setup);
void setup_unref(struct setup *setup); /* takes NULL */

/* Makes conf (taken over in every case) ready to be used. 0 or -errno with error. Blocks. */
int setup_open(struct ledger *ledger, struct gwconf *conf, struct setup **ret_setup,
	       struct error *error);

struct grant_keys;

/* The keys for grants that conf names; NULL with -errno and error when one cannot be used. */
int setup_keys(const struct gwconf *conf, struct grant_keys **ret_keys, struct error *error);

/* What setup_open() would find wrong, without a ledger: SQL, limits, credentials. 0 or -errno. */
int setup_check(const struct gwconf *conf, struct error *error);

/* The tool of a path, /tools/NAME or a route; NULL: none. */
const struct tool *setup_find_route(const struct setup *setup, const char *path, size_t size);
const struct tool *setup_find_tool(const struct setup *setup, const char *name);

/* --- the whole -------------------------------------------------------------------------------- */

/* libevent and the event library both have a struct event: who needs these includes their headers. */
struct admin;
struct pool;
struct record;
struct report;
struct resolver;
struct server;
struct tokens;

struct gateway {
	struct ledger *ledger;
	struct identity_source *identity;
	pthread_mutex_t setup_mutex; /* of setup */
	struct setup *setup;
	atomic_uint generation; /* grows with each setup, after it was put there */
	struct pool *upstreams; /* requests to upstreams */
	struct pool *readers;	/* what reads the ledger */
	struct pool *streams;	/* answers of upstreams to /up */
	struct server *server;
	atomic_bool serving;	   /* server is there, for other threads too */
	struct resolver *resolver; /* of names, for fences; NULL: none is configured */
	struct report *
		report; /* the event of each decision, after the ledger's record, before the answer */
	struct tokens *tokens; /* grants */
	struct record *record; /* where events go */
	struct admin *admin;
	atomic_bool draining;
};

/* Puts setup (taken over) into the place of the one that is there. */
void gateway_change_setup(struct gateway *gateway, struct setup *setup);

/* The configuration of now; setup_unref() it. */
struct setup *gateway_setup(struct gateway *gateway);

/*
 * Sends the kept request of an approved call (LEDGER_APPROVE gave EXECUTE) and settles it in the ledger.
 * Blocks; not in a worker. *ret_answer is that of LEDGER_FINISH (ledger_answer_clear() it). Returns what
 * the caller is to be told: LEDGER_OK, EXECUTION_FAILED, OUTCOME_AMBIGUOUS or UNAVAILABLE.
 */
enum ledger_code gateway_execute_kept(struct gateway *gateway, const struct ledger_answer *approved,
				      struct ledger_answer *ret_answer);

#endif
