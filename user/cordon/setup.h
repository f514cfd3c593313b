/* SPDX-License-Identifier: Apache-2.0 */
/* What `run` and `attach` share: their common options, and everything that is made ready before a fence. */
#ifndef CORDON_SETUP_H
#define CORDON_SETUP_H

#include "cordon/ceilings.h"
#include "cordon/cli.h"
#include "cordon/stream.h"
#include "enforce/enforce.h"
#include "host/host.h"
#include "identity/identity.h"
#include "policy/policy.h"

struct setup_options {
	const char *policy;
	const char *workdir;
	const char *task, *tenant, *subject;
	const char *events;
	const char *format;
	size_t ring_bytes;
	unsigned int event_rate; /* 0: it was not said */
	bool audit;
	bool degraded;
};

/*
 * Root, and a host that can enforce; or, with degraded, one that can hold the network at least: then *ret_degraded says
 * that nothing else will be. -EPERM, -ENOTSUP.
 */
int setup_host(struct host_report *ret_report, bool degraded, bool *ret_degraded,
	       struct error *error);

/* Rows for a verb whose options struct holds a setup_options; at(member) is the offset in that struct. */
#define SETUP_OPTIONS(at)                                                                            \
	{ 'p',	      "policy", CLI_STRING,                                                          \
	  at(policy), "POLICY", "policy file; without it nothing is reachable",                      \
	  0,	      0,	NULL },                                                              \
		{ 'w',	       "workdir", CLI_STRING,                                                \
		  at(workdir), "DIR",	  "the writable directory; overrides the policy",            \
		  0,	       0,	  NULL },                                                    \
		{ 0, "task", CLI_STRING, at(task), "ID", "task id, for events and the gateway",      \
		  0, 0,	     NULL },                                                                 \
		{ 0, "tenant", CLI_STRING, at(tenant), "TENANT", "tenant that the fence belongs to", \
		  0, 0,	       NULL },                                                               \
		{ 0,	       "subject", CLI_STRING,                                                \
		  at(subject), "USER",	  "the user on whose behalf the agent acts",                 \
		  0,	       0,	  NULL },                                                    \
		{ 'e',	      "events", CLI_STRING,                                                  \
		  at(events), "FILE",	"append events to FILE; - is standard output",               \
		  0,	      0,	NULL },                                                      \
		{ 'o',	      "format", CLI_STRING,                                                  \
		  at(format), "FORMAT", "json or text; default json, on a terminal text",            \
		  0,	      0,	NULL },                                                      \
		{ 0,                                                                                 \
		  "ring-size",                                                                       \
		  CLI_SIZE,                                                                          \
		  at(ring_bytes),                                                                    \
		  "BYTES",                                                                           \
		  "ring buffer of this fence, a power of two",                                       \
		  ENFORCE_RING_MIN,                                                                  \
		  ENFORCE_RING_MAX,                                                                  \
		  "1M" },                                                                            \
		{ 0,                                                                                 \
		  "event-rate",                                                                      \
		  CLI_UINT,                                                                          \
		  at(event_rate),                                                                    \
		  "N",                                                                               \
		  "events a second that are told one by one; what is more is folded, with a "        \
		  "count; 2000, or for a fence of cordond what limits.event_rate of its "            \
		  "configuration says",                                                              \
		  1,                                                                                 \
		  ENFORCE_EVENT_RATE_MAX,                                                            \
		  NULL },                                                                            \
		{ 0,	     "audit", CLI_FLAG,                                                      \
		  at(audit), NULL,    "allow what the policy denies, but report it",                 \
		  0,	     0,	      NULL },                                                        \
	{                                                                                            \
		0, "degraded", CLI_FLAG, at(degraded), NULL,                                         \
			"enforce the network part alone where the rest cannot be", 0, 0, NULL        \
	}

struct setup {
	struct host_report report;
	struct policy *policy;
	struct image *image;
	char *workdir; /* absolute, resolved */
	bool degraded;
	bool policy_invalid; /* the file that was named has faults; they were printed */
	bool attach; /* set by the caller: an existing cgroup, whose paths are not ours to check */
	bool own_root; /* set by the caller: the tasks have a root directory of their own (a container) */
	char node[256];
	char container[128];
	char lacks[256]; /* context.degraded points here */
	struct event_context context;
};

/* Looks at the host, loads and compiles the policy, fills the context of events. Policy faults go to stderr. */
int setup_prepare(struct setup *setup, const struct setup_options *options, struct error *error);

/* ceilings_prepare() by the policy; what is left out is said in every event. */
int setup_ceilings(struct setup *setup, const struct setup_options *options,
		   const struct host_cgroup *cgroup, struct ceilings *ret_ceilings,
		   struct error *error);

/* The events that a fence begins with. */
void setup_announce(const struct setup *setup, struct stream *stream, const struct enforce *enforce,
		    unsigned int proved);

/* Tells gateways who the fence is, for as long as the owner lives: identity_withdraw() it. */
int setup_publish(const struct setup *setup, const struct enforce_fence *fence,
		  struct identity_owner **ret_owner, struct error *error);

void setup_clear(struct setup *setup);

#endif
