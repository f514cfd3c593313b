// SPDX-License-Identifier: Apache-2.0
/* From a question to its answer: the order in which it is judged, what an upstream is asked for, what the fence is told. */
#include "resolver/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/gateway.h"
#include "proxy/own.h"
#include "resolver/judge.h"
#include "resolver/tell.h"

/* --- answers ---------------------------------------------------------------------------------- */

static size_t way_most(const struct way *way, const struct message_query *query)
{
	return way->link ? MESSAGE_ANSWER_MAX : query->udp_size;
}

static void answer(struct resolver *resolver, const struct way *way,
		   const struct message_query *query, enum message_rcode rcode,
		   const struct message_records *records, enum message_why why, const char *text)
{
	uint8_t bytes[MESSAGE_ANSWER_MAX];
	size_t n =
		message_write(query, rcode, records, false, why, text, way_most(way, query), bytes);

	way_answer(resolver, way, bytes, n);
}

/* Who is not known is told to come by TCP, or, there, that nothing is answered. */
static void answer_stranger(struct resolver *resolver, const struct way *way,
			    const struct message_query *query, enum message_rcode rcode)
{
	uint8_t bytes[MESSAGE_ANSWER_MAX];
	bool again = !way->link && rcode == MESSAGE_NOERROR;
	size_t n =
		message_write(query, rcode == MESSAGE_NOERROR && !again ? MESSAGE_REFUSED : rcode,
			      NULL, again, again ? MESSAGE_WHY_NONE : MESSAGE_WHY_PROHIBITED,
			      ledger_code_info(LEDGER_UNAUTHENTICATED)->name, way_most(way, query),
			      bytes);

	way_answer(resolver, way, bytes, n);
}

struct asking {
	struct resolver *resolver;
	const struct way *way;
	const struct identity *id;
	struct asker *asker;
	const struct message_query *query;
};

static void tell(const struct asking *a, enum ledger_code code, const struct cordon_addr *addr,
		 const char *reason)
{
	asker_tell(a->asker, a->resolver->gateway->report, a->id, code, a->query->type,
		   a->query->named ? &a->query->name : NULL, addr, reason, a->resolver->now_ms);
	resolver_expect(a->resolver);
}

/* What is refused: the event, then the answer with the word of the reason. */
static void refuse(const struct asking *a, enum ledger_code code, enum message_rcode rcode)
{
	tell(a, code, NULL, NULL);
	answer(a->resolver, a->way, a->query, rcode, NULL,
	       code == LEDGER_NAME_NOT_RESOLVED ? MESSAGE_WHY_UNREACHABLE : MESSAGE_WHY_PROHIBITED,
	       ledger_code_info(code)->name);
}

/* Leaves those that the fence may be told of. A name that leads to the metadata service leads nowhere. */
static const char *records_filter(const struct cache_entry *entry, const struct identity *id,
				  struct message_records *records, struct cordon_addr *ret_addr)
{
	const char *first = NULL;

	records->n = 0;
	for (size_t i = 0; i < entry->records.n; i++) {
		const struct cordon_addr *addr = &entry->records.addresses[i];
		const char *why = judge_address(addr, entry->own >> i & 1, id->allow, id->n_allow);

		if (!why) {
			records->addresses[records->n++] = *addr;
			continue;
		}
		if (!first)
			*ret_addr = *addr;
		if (!first)
			first = why;
		if (!strcmp(why, REACH_METADATA)) {
			*ret_addr = *addr;
			records->n = 0;
			return why;
		}
	}
	return first;
}

static void answer_entry(const struct asking *a, const struct cache_entry *entry)
{
	struct message_records records = {
		.rcode = entry->records.rcode,
		.ttl_s = cache_ttl(entry, a->resolver->now_ms),
		.alias_n = entry->records.alias_n,
	};
	struct cordon_addr addr;
	const char *why = records_filter(entry, a->id, &records, &addr);

	memcpy(records.alias, entry->records.alias, records.alias_n);
	if (why)
		tell(a, LEDGER_ADDRESS_DENIED, &addr, why);
	if (why && !records.n)
		answer(a->resolver, a->way, a->query, MESSAGE_REFUSED, NULL, MESSAGE_WHY_PROHIBITED,
		       ledger_code_info(LEDGER_ADDRESS_DENIED)->name);
	else
		answer(a->resolver, a->way, a->query, (enum message_rcode)records.rcode, &records,
		       MESSAGE_WHY_NONE, NULL);
}

/* --- upstream --------------------------------------------------------------------------------- */

static void ask_free(struct ask *ask)
{
	*ask->place = ask->next;
	if (ask->next)
		ask->next->place = ask->place;
	ask->asker->asks--;
	ask->resolver->n_asks--;
	free(ask);
}

/* Which of the addresses are this host's own; bits. What cannot be told is. */
static uint32_t own_bits(const struct resolver *resolver, const struct message_records *records)
{
	uint32_t own = 0;

	_Static_assert(MESSAGE_ADDRESSES_MAX <= 32, "a bit for each");
	for (size_t i = 0; i < records->n; i++) {
		int r = own_judge(resolver->own_fd, &records->addresses[i]);

		if (r != 0 && r != -ENETUNREACH && r != -EHOSTUNREACH)
			own |= 1U << i;
	}
	return own;
}

static void ask_settle(struct ask *ask, const struct message_records *records)
{
	static struct identity id; /* one thread; too large for its stack many times over */
	struct resolver *resolver = ask->resolver;
	const struct asking a = { resolver, &ask->way, &id, ask->asker, &ask->query };

	ask->answered = true;
	/* A fence that ended meanwhile is told nothing; by another policy it may be. */
	if (identity_find(resolver->gateway->identity, ask->asker->fence_id, &id) != 0)
		way_answer(resolver, &ask->way, NULL, 0);
	else if (!records)
		refuse(&a, LEDGER_NAME_NOT_RESOLVED, MESSAGE_SERVFAIL);
	else
		answer_entry(&a, cache_put(resolver->cache, &ask->query.name, ask->query.type,
					   records, own_bits(resolver, records), resolver->now_ms));
}

static void on_answer(void *context, const uint8_t *p, size_t n)
{
	struct message_records records;
	struct ask *ask = context;
	bool known = message_read_answer(p, n, &ask->query.name, ask->query.type, &records) == 0;

	resolver_clock(ask->resolver);
	if (!ask->answered)
		ask_settle(ask, known ? &records : NULL);
	else if (known)
		cache_put(ask->resolver->cache, &ask->query.name, ask->query.type, &records,
			  own_bits(ask->resolver, &records), ask->resolver->now_ms);
	ask_free(ask);
}

static bool ask_upstream(const struct asking *a)
{
	struct resolver *resolver = a->resolver;
	struct ask *ask;

	if (!resolver->upstream || resolver->n_asks >= ASKS_MAX || a->asker->asks >= ASKS_SHARE)
		return false;
	ask = calloc(1, sizeof(*ask));
	if (!ask)
		return false;
	*ask = (struct ask){
		.next = resolver->asks,
		.place = &resolver->asks,
		.resolver = resolver,
		.question = { on_answer, ask },
		.asker = a->asker,
		.way = *a->way,
		.deadline_ms = resolver->now_ms + ASK_MS,
		.query = *a->query,
	};
	if (ask->next)
		ask->next->place = &ask->next;
	resolver->asks = ask;
	resolver->n_asks++;
	a->asker->asks++;
	resolver_expect(resolver);
	if (upstream_ask(resolver->upstream, &ask->query.name, ask->query.type, &ask->question) ==
	    0)
		return true;
	ask_free(ask);
	return false;
}

void asks_sweep(struct resolver *resolver, bool all, uint64_t now_ms)
{
	for (struct ask *ask = resolver->asks, *next; ask; ask = next) {
		next = ask->next;
		if (!ask->answered && (all || ask->deadline_ms <= now_ms))
			ask_settle(ask, NULL);
		if (all)
			ask_free(ask);
	}
}

void asks_forget(struct resolver *resolver, const struct link *link)
{
	for (struct ask *ask = resolver->asks; ask; ask = ask->next)
		if (ask->way.link == link) {
			ask->way = (struct way){ .fd = -1 };
			ask->answered = true;
		}
}

/* --- questions -------------------------------------------------------------------------------- */

static void judge_and_answer(const struct asking *a)
{
	const struct message_query *query = a->query;
	struct resolver *resolver = a->resolver;
	const struct cache_entry *entry;
	enum ledger_code code;
	bool chosen, new;

	if (!query->named) {
		refuse(a, LEDGER_DOMAIN_DENIED, MESSAGE_NXDOMAIN);
		return;
	}
	code = judge_name(a->id->domains, a->id->domains_size, &query->name, &chosen);
	if (code != LEDGER_OK) {
		refuse(a, code, MESSAGE_NXDOMAIN);
		return;
	}
	if (query->class != 1 || (query->type != MESSAGE_A && query->type != MESSAGE_AAAA &&
				  query->type != MESSAGE_CNAME)) {
		refuse(a, LEDGER_QUERY_DENIED, MESSAGE_REFUSED);
		return;
	}
	new = asker_is_new(a->asker, cache_hash(resolver->cache, &query->name));
	entry = cache_find(resolver->cache, &query->name, query->type, resolver->now_ms);
	if (!entry && new &&chosen &&
	    !share_admit(&a->asker->names, ASKER_NAMES_S, resolver->setup->conf->dns_names)) {
		asker_forget(a->asker, cache_hash(resolver->cache, &query->name));
		refuse(a, LEDGER_NAMES_EXHAUSTED, MESSAGE_REFUSED);
		return;
	}
	if (new)
		tell(a, LEDGER_OK, NULL, NULL);
	if (entry)
		answer_entry(a, entry);
	else if (!ask_upstream(a))
		refuse(a, LEDGER_OVERLOADED, MESSAGE_SERVFAIL);
}

bool ask_take(struct resolver *resolver, const struct way *way, const struct identity *id,
	      const uint8_t *p, size_t n)
{
	const long long rate = resolver->setup->conf->dns_queries;
	struct message_query query;
	int r = message_read_query(p, n, &query);
	struct asking a = { resolver, way, id, NULL, &query };

	if (r < 0)
		return false;
	if (!id) {
		answer_stranger(resolver, way, &query, (enum message_rcode)r);
		return true;
	}
	a.asker = askers_find(resolver->askers, id);
	if (!a.asker)
		return false;
	if (!share_admit(&a.asker->queries, rate, 2 * rate)) {
		resolver_expect(resolver);
		answer(resolver, way, &query, MESSAGE_REFUSED, NULL, MESSAGE_WHY_PROHIBITED,
		       ledger_code_info(LEDGER_RATE_LIMITED)->name);
	} else if (!resolver_tell_ready(resolver->gateway->report)) {
		answer(resolver, way, &query, MESSAGE_SERVFAIL, NULL, MESSAGE_WHY_PROHIBITED,
		       ledger_code_info(LEDGER_UNAVAILABLE)->name);
	} else if (r != MESSAGE_NOERROR) {
		refuse(&a, r == MESSAGE_NOTIMP ? LEDGER_QUERY_DENIED : LEDGER_MALFORMED_REQUEST,
		       (enum message_rcode)r);
	} else {
		judge_and_answer(&a);
	}
	return true;
}
