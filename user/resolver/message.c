// SPDX-License-Identifier: Apache-2.0
/* See message.h. ldns allocates; what it cannot is answered with nothing. */
#include "resolver/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ldns/ldns.h>

#include "util/util.h"

#define HEADER_BYTES 12
#define TEXT_MAX 64

/* --- names ------------------------------------------------------------------------------------ */

/* A name as it is sent, labels with their lengths, to text; false: it has bytes that no host's name has, or is the root. */
static bool wire_to_name(const uint8_t *wire, size_t n, struct reach_name *ret_name)
{
	char text[MESSAGE_WIRE_MAX];
	size_t at = 0, to = 0;
	const char *reason;

	while (at < n && wire[at]) {
		size_t label = wire[at++];

		if (label > REACH_LABEL_MAX || label > n - at || to + label + 1 > sizeof(text))
			return false;
		if (to)
			text[to++] = '.';
		for (; label; label--, at++) {
			if (wire[at] == '.')
				return false;
			text[to++] = (char)wire[at];
		}
	}
	return to && reach_name_read(text, to, false, ret_name, &reason) == 0;
}

static size_t name_to_wire(const struct reach_name *name, uint8_t wire[MESSAGE_WIRE_MAX])
{
	size_t label = 0, n = 1;

	for (size_t i = 0; i <= name->n; i++) {
		if (i < name->n && name->s[i] != '.') {
			wire[n++] = (uint8_t)name->s[i];
			continue;
		}
		wire[label] = (uint8_t)(n - label - 1);
		label = n++;
	}
	wire[label] = 0;
	return label + 1;
}

/* --- questions -------------------------------------------------------------------------------- */

static uint16_t be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void query_take(const ldns_pkt *packet, struct message_query *query)
{
	const ldns_rr *question = ldns_rr_list_rr(ldns_pkt_question(packet), 0);
	const ldns_rdf *owner = ldns_rr_owner(question);
	size_t n = ldns_rdf_size(owner);

	query->type = (uint16_t)ldns_rr_get_type(question);
	query->class = (uint16_t)ldns_rr_get_class(question);
	if (n && n <= MESSAGE_WIRE_MAX) {
		query->wire_n = (uint8_t)n;
		memcpy(query->wire, ldns_rdf_data(owner), n);
		query->named = wire_to_name(query->wire, n, &query->name);
	}
	query->edns = ldns_pkt_edns(packet);
	if (query->edns && ldns_pkt_edns_udp_size(packet) > MESSAGE_UDP_MIN)
		query->udp_size = ldns_pkt_edns_udp_size(packet);
	if (query->udp_size > MESSAGE_UDP_MAX)
		query->udp_size = MESSAGE_UDP_MAX;
}

int message_read_query(const uint8_t *p, size_t n, struct message_query *ret_query)
{
	ldns_pkt *packet = NULL;
	int result = MESSAGE_FORMERR;

	memset(ret_query, 0, sizeof(*ret_query));
	if (n < HEADER_BYTES || p[2] & 0x80)
		return -EBADMSG;
	ret_query->id = be16(p);
	ret_query->opcode = p[2] >> 3 & 15;
	ret_query->rd = p[2] & 1;
	ret_query->cd = p[3] & 0x10;
	ret_query->udp_size = MESSAGE_UDP_MIN;
	if (ret_query->opcode != LDNS_PACKET_QUERY)
		return MESSAGE_NOTIMP;
	/* One question, and of all else at most what EDNS is: before anything is allocated for it. */
	if (n > MESSAGE_QUERY_MAX || p[2] & 2 || be16(p + 4) != 1 || be16(p + 6) || be16(p + 8) ||
	    be16(p + 10) > 1)
		return MESSAGE_FORMERR;
	if (ldns_wire2pkt(&packet, p, n) != LDNS_STATUS_OK)
		return MESSAGE_FORMERR;
	if (ldns_rr_list_rr_count(ldns_pkt_question(packet)) == 1 &&
	    (!be16(p + 10) || ldns_pkt_edns(packet))) {
		query_take(packet, ret_query);
		result = ret_query->edns && ldns_pkt_edns_version(packet) ? MESSAGE_FORMERR
									  : MESSAGE_NOERROR;
	}
	ldns_pkt_free(packet);
	return result;
}

/* --- answers of upstreams --------------------------------------------------------------------- */

static bool owner_is(const ldns_rr *rr, const uint8_t *wire, size_t n)
{
	const ldns_rdf *owner = ldns_rr_owner(rr);
	const uint8_t *p = ldns_rdf_data(owner);

	if (ldns_rdf_size(owner) != n)
		return false;
	for (size_t i = 0; i < n; i++) /* lengths of labels are no letters */
		if (p[i] != wire[i] && (p[i] | 0x20) != (wire[i] | 0x20))
			return false;
		else if (p[i] != wire[i] && !((p[i] | 0x20) >= 'a' && (p[i] | 0x20) <= 'z'))
			return false;
	return true;
}

static void ttl_take(struct message_records *records, const ldns_rr *rr)
{
	if (ldns_rr_ttl(rr) < records->ttl_s)
		records->ttl_s = ldns_rr_ttl(rr);
}

/* The alias of a name in the answer; NULL: it has none. */
static const ldns_rr *alias_find(const ldns_rr_list *answer, const uint8_t *wire, size_t n)
{
	for (size_t i = 0; i < ldns_rr_list_rr_count(answer); i++) {
		const ldns_rr *rr = ldns_rr_list_rr(answer, i);

		if (ldns_rr_get_type(rr) == LDNS_RR_TYPE_CNAME && ldns_rr_rd_count(rr) == 1 &&
		    ldns_rdf_size(ldns_rr_rdf(rr, 0)) <= MESSAGE_WIRE_MAX && owner_is(rr, wire, n))
			return rr;
	}
	return NULL;
}

static void addresses_take(const ldns_rr_list *answer, const uint8_t *wire, size_t n, uint16_t type,
			   struct message_records *records)
{
	const size_t size = type == MESSAGE_A ? 4 : 16;

	for (size_t i = 0; i < ldns_rr_list_rr_count(answer); i++) {
		const ldns_rr *rr = ldns_rr_list_rr(answer, i);
		struct cordon_addr *addr = &records->addresses[records->n];

		if (records->n == MESSAGE_ADDRESSES_MAX)
			return;
		if ((uint16_t)ldns_rr_get_type(rr) != type || ldns_rr_rd_count(rr) != 1 ||
		    ldns_rdf_size(ldns_rr_rdf(rr, 0)) != size || !owner_is(rr, wire, n))
			continue;
		memset(addr, 0, sizeof(*addr));
		addr->v6 = type == MESSAGE_AAAA;
		memcpy(addr->b + 16 - size, ldns_rdf_data(ldns_rr_rdf(rr, 0)), size);
		ttl_take(records, rr);
		records->n++;
	}
}

static int answer_take(const ldns_pkt *packet, const struct reach_name *name, uint16_t type,
		       struct message_records *records)
{
	const ldns_rr_list *answer = ldns_pkt_answer(packet);
	uint8_t wire[MESSAGE_WIRE_MAX];
	size_t n = name_to_wire(name, wire);
	const ldns_rr *alias = alias_find(answer, wire, n);

	records->rcode = (uint16_t)ldns_pkt_get_rcode(packet);
	if (records->rcode != MESSAGE_NOERROR && records->rcode != MESSAGE_NXDOMAIN)
		return -EBADMSG;
	if (type == MESSAGE_CNAME) {
		if (alias) {
			ttl_take(records, alias);
			records->alias_n = (uint8_t)ldns_rdf_size(ldns_rr_rdf(alias, 0));
			memcpy(records->alias, ldns_rdf_data(ldns_rr_rdf(alias, 0)),
			       records->alias_n);
		}
		return 0;
	}
	for (size_t depth = 0; alias; depth++) {
		if (depth == MESSAGE_ALIASES_MAX)
			return -EBADMSG;
		ttl_take(records, alias);
		n = ldns_rdf_size(ldns_rr_rdf(alias, 0));
		memcpy(wire, ldns_rdf_data(ldns_rr_rdf(alias, 0)), n);
		alias = alias_find(answer, wire, n);
	}
	addresses_take(answer, wire, n, type, records);
	/* An answer to something else, or the last piece of a chain that libunbound gave up. */
	if (!records->n && records->ttl_s == UINT32_MAX && ldns_rr_list_rr_count(answer))
		return -EBADMSG;
	return 0;
}

int message_read_answer(const uint8_t *p, size_t n, const struct reach_name *name, uint16_t type,
			struct message_records *ret_records)
{
	ldns_pkt *packet = NULL;
	int r;

	memset(ret_records, 0, sizeof(*ret_records));
	ret_records->ttl_s = UINT32_MAX;
	if (n < HEADER_BYTES || ldns_wire2pkt(&packet, p, n) != LDNS_STATUS_OK)
		return -EBADMSG;
	r = answer_take(packet, name, type, ret_records);
	ldns_pkt_free(packet);
	return r;
}

/* --- answers to fences ------------------------------------------------------------------------ */

static ldns_rdf *owner_make(const struct message_query *query)
{
	return ldns_rdf_new_frm_data(LDNS_RDF_TYPE_DNAME, query->wire_n, query->wire);
}

static bool rr_push(ldns_pkt *packet, const struct message_query *query, ldns_pkt_section section,
		    uint32_t ttl_s, ldns_rdf *data)
{
	ldns_rr *rr = ldns_rr_new();
	ldns_rdf *owner = owner_make(query);

	if (!rr || !owner) {
		ldns_rr_free(rr);
		ldns_rdf_deep_free(owner);
		ldns_rdf_deep_free(data);
		return false;
	}
	ldns_rr_set_owner(rr, owner);
	ldns_rr_set_type(rr, (ldns_rr_type)query->type);
	ldns_rr_set_class(rr, (ldns_rr_class)query->class);
	if (section == LDNS_SECTION_QUESTION) {
		ldns_rr_set_question(rr, true);
	} else {
		ldns_rr_set_ttl(rr, ttl_s);
		ldns_rr_push_rdf(rr, data);
	}
	if (ldns_pkt_push_rr(packet, section, rr))
		return true;
	ldns_rr_free(rr);
	return false;
}

static bool records_push(ldns_pkt *packet, const struct message_query *query,
			 const struct message_records *records)
{
	ldns_rdf *data;

	for (size_t i = 0; i < records->n; i++) {
		const struct cordon_addr *addr = &records->addresses[i];

		data = ldns_rdf_new_frm_data(addr->v6 ? LDNS_RDF_TYPE_AAAA : LDNS_RDF_TYPE_A,
					     addr->v6 ? 16 : 4, addr->b + (addr->v6 ? 0 : 12));
		if (!data || !rr_push(packet, query, LDNS_SECTION_ANSWER, records->ttl_s, data))
			return false;
	}
	if (!records->alias_n)
		return true;
	data = ldns_rdf_new_frm_data(LDNS_RDF_TYPE_DNAME, records->alias_n, records->alias);
	return data && rr_push(packet, query, LDNS_SECTION_ANSWER, records->ttl_s, data);
}

/* ldns lets it go with the packet. */
static bool why_push(ldns_pkt *packet, enum message_why why, const char *text)
{
	uint8_t data[4 + 2 + TEXT_MAX] = { 0, 15 /* Extended DNS Error */, 0, 0, 0, (uint8_t)why };
	size_t n = text ? strnlen(text, TEXT_MAX) : 0;
	ldns_rdf *rdf;

	if (n)
		memcpy(data + 6, text, n);
	data[3] = (uint8_t)(2 + n);
	rdf = ldns_rdf_new_frm_data(LDNS_RDF_TYPE_UNKNOWN, 6 + n, data);
	if (!rdf)
		return false;
	ldns_pkt_set_edns_data(packet, rdf);
	return true;
}

static bool packet_fill(ldns_pkt *packet, const struct message_query *query,
			enum message_rcode rcode, const struct message_records *records,
			bool truncated, enum message_why why, const char *text)
{
	ldns_pkt_set_id(packet, query->id);
	ldns_pkt_set_qr(packet, true);
	ldns_pkt_set_opcode(packet, (ldns_pkt_opcode)query->opcode);
	ldns_pkt_set_rd(packet, query->rd);
	ldns_pkt_set_cd(packet, query->cd);
	ldns_pkt_set_ra(packet, true);
	ldns_pkt_set_tc(packet, truncated);
	ldns_pkt_set_rcode(packet, (uint8_t)rcode);
	if (query->wire_n && !rr_push(packet, query, LDNS_SECTION_QUESTION, 0, NULL))
		return false;
	if (records && !truncated && !records_push(packet, query, records))
		return false;
	if (query->edns) {
		ldns_pkt_set_edns_udp_size(packet, MESSAGE_UDP_MAX);
		if (why && !why_push(packet, why, text))
			return false;
	}
	return true;
}

static size_t message_make(const struct message_query *query, enum message_rcode rcode,
			   const struct message_records *records, bool truncated,
			   enum message_why why, const char *text, size_t most, uint8_t *p)
{
	ldns_pkt *packet = ldns_pkt_new();
	uint8_t *bytes = NULL;
	size_t n = 0;

	if (packet && packet_fill(packet, query, rcode, records, truncated, why, text) &&
	    ldns_pkt2wire(&bytes, packet, &n) == LDNS_STATUS_OK) {
		if (n <= most)
			memcpy(p, bytes, n);
	} else {
		n = 0;
	}
	free(bytes);
	if (packet)
		ldns_pkt_free(packet);
	return n;
}

size_t message_write(const struct message_query *query, enum message_rcode rcode,
		     const struct message_records *records, bool truncated, enum message_why why,
		     const char *text, size_t most, uint8_t *p)
{
	size_t n;

	if (most > MESSAGE_ANSWER_MAX)
		most = MESSAGE_ANSWER_MAX;
	n = message_make(query, rcode, records, truncated, why, text, most, p);
	if (n > most)
		n = message_make(query, rcode, NULL, true, MESSAGE_WHY_NONE, NULL, most, p);
	return n <= most ? n : 0;
}
