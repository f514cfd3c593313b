// SPDX-License-Identifier: Apache-2.0
/* See upstream.h. */
#include "resolver/upstream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <unbound-event.h>
#include <unbound.h>

#define CLASS_IN 1

struct upstream {
	struct ub_ctx *context;
};

/*
 * Of what libunbound does by itself: no logs, a small memory (answers are kept in cache.h, aliases and what servers are like there),
 * nothing that is not asked for. Names for tests and private networks are somebody's here, if the policy has them.
 */
static const struct {
	const char *name, *value;
} options[] = {
	{ "use-caps-for-id:", "yes" },	  { "do-not-query-localhost:", "no" },
	{ "cache-max-ttl:", "3600" },	  { "cache-max-negative-ttl:", "30" },
	{ "msg-cache-size:", "1m" },	  { "rrset-cache-size:", "2m" },
	{ "key-cache-size:", "64k" },	  { "infra-cache-numhosts:", "64" },
	{ "outgoing-range:", "512" },	  { "num-queries-per-thread:", "512" },
	{ "edns-buffer-size:", "1232" },  { "unwanted-reply-threshold:", "10000" },
	{ "minimal-responses:", "yes" },  { "unblock-lan-zones:", "yes" },
	{ "insecure-lan-zones:", "yes" }, { "log-time-ascii:", "no" },
};

static int option_fault(int r, const char *what, struct error *error)
{
	return error_set(error, EINVAL, "libunbound refuses %s: %s", what, ub_strerror(r));
}

/* Each as ADDRESS@PORT; of those in /etc/resolv.conf it reads the addresses itself. */
static int servers_set(struct ub_ctx *context, const char *servers, struct error *error)
{
	char text[80];
	int r;

	if (!servers) {
		r = ub_ctx_resolvconf(context, NULL);
		return r ? option_fault(r, "/etc/resolv.conf", error) : 0;
	}
	while (*servers) {
		size_t n = strcspn(servers, ",");
		bool v6 = servers[0] == '[';
		size_t host = v6 ? strcspn(servers, "]") - 1 : strcspn(servers, ":");
		const char *port = servers + host + (v6 ? 3 : 1);

		snprintf(text, sizeof(text), "%.*s@%.*s", (int)host, servers + v6,
			 (int)(servers + n - port), port);
		r = ub_ctx_set_fwd(context, text);
		if (r)
			return option_fault(r, text, error);
		servers += n + (servers[n] == ',');
	}
	return 0;
}

int upstream_open(struct event_base *base, const char *servers, struct upstream **ret_upstream,
		  struct error *error)
{
	struct upstream *upstream = calloc(1, sizeof(*upstream));
	int r = 0;

	if (!upstream)
		return error_set(error, ENOMEM, "out of memory");
	upstream->context = ub_ctx_create_event(base);
	if (!upstream->context) {
		free(upstream);
		return error_set(error, ENOMEM, "libunbound cannot be started");
	}
	ub_ctx_debugout(upstream->context, NULL);
	ub_ctx_debuglevel(upstream->context, 0);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(options); i++) {
		r = ub_ctx_set_option(upstream->context, options[i].name, options[i].value);
		if (r)
			r = option_fault(r, options[i].name, error);
	}
	if (r == 0)
		r = servers_set(upstream->context, servers, error);
	if (r == 0) {
		ub_ctx_hosts(upstream->context, NULL); /* there need not be such a file */
		ub_ctx_zone_add(upstream->context, "test.", "transparent");
		*ret_upstream = upstream;
	} else {
		upstream_close(upstream);
	}
	return r;
}

void upstream_close(struct upstream *upstream)
{
	if (!upstream)
		return;
	ub_ctx_delete(upstream->context);
	free(upstream);
}

static void on_answer(void *context, int rcode, void *packet, int n, int sec, char *why,
		      int limited)
{
	struct upstream_question *question = context;

	(void)rcode;
	(void)sec;
	(void)why;
	(void)limited;
	question->fn(question->context, packet, packet && n > 0 ? (size_t)n : 0);
}

int upstream_ask(struct upstream *upstream, const struct reach_name *name, uint16_t type,
		 struct upstream_question *question)
{
	char text[REACH_NAME_MAX + 2];
	int id;

	snprintf(text, sizeof(text), "%s.", name->s);
	return ub_resolve_event(upstream->context, text, type, CLASS_IN, question, on_answer, &id)
		       ? -EIO
		       : 0;
}
