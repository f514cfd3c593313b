/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the resolver: who asks, what is asked, and by which way it is answered. Its own thread only. */
#ifndef CORDON_RESOLVER_INTERNAL_H
#define CORDON_RESOLVER_INTERNAL_H

#include <sys/socket.h>

#include <event2/event_struct.h>

#include "gateway/callers.h"
#include "resolver/cache.h"
#include "resolver/resolver.h"
#include "resolver/upstream.h"

#define ASKS_MAX 512	   /* questions that wait for an upstream */
#define ASKS_SHARE 64	   /* of one fence */
#define ASK_MS 4000	   /* then it is answered with SERVFAIL: before most clients ask again */
#define LINKS_MAX 512	   /* connections */
#define LINKS_SHARE 32	   /* of one fence, and of all that are none */
#define LINK_IDLE_MS 10000 /* without a whole question, or the end of an answer */
#define ASKER_NAMES 256	   /* names that are remembered of each fence */
#define ASKER_NAMES_S 1	   /* new ones below rules with `*.`, a second; at once: limits.dns_names */
#define ASKER_TELL_MS 1000 /* denials of one kind are one event, in this time */
#define ASKER_ALLOWS_S 10  /* events of names that are let through: a second, */
#define ASKER_ALLOWS_BURST 64 /* and at once */
#define TICK_MS 250

/* --- who (asker.c) ---------------------------------------------------------------------------- */

/* Denials that are one event. */
struct fold {
	uint64_t told_ms;   /* 0: never */
	unsigned int count; /* since then */
	uint16_t type;	    /* of the last */
	struct reach_name name;
};

/* Kinds of what is folded. */
#define ASKER_FOLDS(X)    \
	X(OK)             \
	X(DOMAIN_DENIED)  \
	X(LABEL_DENIED)   \
	X(QUERY_DENIED)   \
	X(ADDRESS_DENIED) \
	X(MALFORMED_REQUEST) X(NAMES_EXHAUSTED) X(NAME_NOT_RESOLVED) X(OVERLOADED) X(RATE_LIMITED)

enum fold_kind {
#define X(id) FOLD_##id,
	ASKER_FOLDS(X)
#undef X
		FOLDS
};

/* A fence that asks. */
struct asker {
	struct asker *next;
	uint64_t fence_id, generation;
	struct identity_packed *packed; /* for events */
	struct share queries, names, allows;
	unsigned int asks, links;
	uint64_t seen[ASKER_NAMES]; /* hashes */
	struct fold folds[FOLDS];
};

struct askers;
struct askers *askers_new(void);
void askers_free(struct askers *askers); /* takes NULL */
/* NULL when memory ends. Stays until askers_sweep(). */
struct asker *askers_find(struct askers *askers, const struct identity *id);
/* Is it a name that the fence has not asked for lately? It is remembered. */
bool asker_is_new(struct asker *asker, uint64_t hash);
void asker_forget(struct asker *asker, uint64_t hash);
/*
 * Tells of a decision, or counts it for the next event of its kind. name, addr and reason may be NULL.
 */
void asker_tell(struct asker *asker, struct report *report, const struct identity *id,
		enum ledger_code code, uint16_t type, const struct reach_name *name,
		const struct cordon_addr *addr, const char *reason, uint64_t now_ms);
/*
 * Tells what was counted, of all whose time has come; forgets fences that ended and wait for nothing. all: at the end. Is there more
 * to tell later?
 */
bool askers_sweep(struct askers *askers, struct report *report, struct identity_source *identity,
		  bool all, uint64_t now_ms);

/* --- what (ask.c) ----------------------------------------------------------------------------- */

struct link;

/* Where an answer goes. */
struct way {
	struct link *link; /* TCP; NULL: UDP, or it is gone */
	int fd;		   /* UDP; -1: nowhere */
	socklen_t to_n;
	struct sockaddr_storage to;
};

/* A question that waits for an upstream. */
struct ask {
	struct ask *next, **place;
	struct resolver *resolver;
	struct upstream_question question;
	struct asker *asker;
	struct way way;
	uint64_t deadline_ms;
	bool answered; /* its time was over */
	struct message_query query;
};

/* Judges and answers bytes p[0..n) of a way. id: who asks; NULL: nobody known. false: it is not answered, ever. */
bool ask_take(struct resolver *resolver, const struct way *way, const struct identity *id,
	      const uint8_t *p, size_t n);
/* Answers those whose time is over; all: all of them, and frees them. */
void asks_sweep(struct resolver *resolver, bool all, uint64_t now_ms);
/* A connection ends: what waits for it is answered to nobody. */
void asks_forget(struct resolver *resolver, const struct link *link);

/* --- by which way (udp.c, tcp.c) -------------------------------------------------------------- */

/* n 0: there is no answer, nor will there be. */
void way_answer(struct resolver *resolver, const struct way *way, const uint8_t *p, size_t n);

struct udp;
/* fd is taken over in every case. NULL when memory ends. */
struct udp *udp_open(struct resolver *resolver, int fd);
void udp_close(struct udp *udp); /* takes NULL */
void udp_send(struct resolver *resolver, const struct way *way, const uint8_t *p, size_t n);

struct listener;
struct listener *listener_open(struct resolver *resolver, int fd);
void listener_close(struct listener *listener); /* takes NULL */
void link_answer(struct link *link, const uint8_t *p, size_t n);
void links_sweep(struct resolver *resolver, bool all, uint64_t now_ms);

/* --- the whole (resolver.c) ------------------------------------------------------------------- */

struct resolver {
	struct gateway *gateway;
	struct event_base *base;
	struct event wake, tick;
	int wake_fd, own_fd;
	pthread_t thread;
	bool started;
	struct setup *setup;
	unsigned int generation;
	struct upstream *upstream;
	struct cache *cache;
	struct askers *askers;
	struct ask *asks;
	unsigned int n_asks;
	struct link *links;
	unsigned int n_links, n_strangers;
	struct udp *udps[GWCONF_DNS_MAX];
	struct listener *listeners[GWCONF_DNS_MAX];
	size_t n;
	uint64_t now_ms; /* of this turn */
};

/* At the beginning of each turn: the time, and the configuration of now. */
void resolver_turn(struct resolver *resolver);
/* The time alone. */
void resolver_clock(struct resolver *resolver);
/* There is something whose time will come. */
void resolver_expect(struct resolver *resolver);

#endif
