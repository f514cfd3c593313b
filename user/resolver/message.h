/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS messages, read and made by ldns: what a fence asks, what it is told, and what an upstream answered. Pure: no I/O, no
 * state. What is not understood as a whole is no question; of an upstream's answer counts what is for the asked name.
 */
#ifndef CORDON_RESOLVER_MESSAGE_H
#define CORDON_RESOLVER_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reach/reach.h"

#define MESSAGE_QUERY_MAX 1232	 /* bytes of a question; longer ones are not read */
#define MESSAGE_ANSWER_MAX 4096	 /* bytes that an answer needs at most */
#define MESSAGE_UDP_MIN 512	 /* of an answer over UDP to who says nothing else */
#define MESSAGE_UDP_MAX 1232	 /* and to who says more: no fragments */
#define MESSAGE_ADDRESSES_MAX 32 /* of one answer; those beyond are not looked at */
#define MESSAGE_ALIASES_MAX 8	 /* CNAMEs one after another; more are no answer */
#define MESSAGE_WIRE_MAX 255	 /* bytes of a name as it is sent */

/* What is answered; numbers of RFC 1035. */
enum message_type { MESSAGE_A = 1, MESSAGE_CNAME = 5, MESSAGE_AAAA = 28 };
enum message_rcode {
	MESSAGE_NOERROR,
	MESSAGE_FORMERR,
	MESSAGE_SERVFAIL,
	MESSAGE_NXDOMAIN,
	MESSAGE_NOTIMP,
	MESSAGE_REFUSED,
};

/* Why (RFC 8914), for whom understands it; 0: nothing is said. */
enum message_why {
	MESSAGE_WHY_NONE = 0,
	MESSAGE_WHY_BLOCKED = 15,
	MESSAGE_WHY_PROHIBITED = 18,
	MESSAGE_WHY_UNREACHABLE = 22,
};

struct message_query {
	uint16_t id;
	uint16_t type, class;
	uint16_t udp_size; /* bytes that an answer over UDP may have */
	uint8_t opcode;
	bool rd, cd, edns;
	bool named;		/* name is filled: the question has a name that could be a host's */
	struct reach_name name; /* in its one form */
	uint8_t wire_n;		/* the name as it came, for the answer; 0: there was none to read */
	uint8_t wire[MESSAGE_WIRE_MAX];
};

/*
 * Reads p[0..n). Returns MESSAGE_NOERROR; the rcode that is to be answered, with what could be read in *ret_query; or
 * -EBADMSG: no answer at all, for it is an answer itself, or too short to be one's question.
 */
int message_read_query(const uint8_t *p, size_t n, struct message_query *ret_query);

/* What a name leads to. */
struct message_records {
	uint16_t rcode; /* MESSAGE_NOERROR or MESSAGE_NXDOMAIN */
	uint32_t ttl_s; /* the smallest of all that led there */
	size_t n;
	struct cordon_addr addresses[MESSAGE_ADDRESSES_MAX]; /* for A and AAAA */
	uint8_t alias_n;				     /* for CNAME; 0: none */
	uint8_t alias[MESSAGE_WIRE_MAX];
};

/*
 * Reads an upstream's answer for name and type: follows aliases from the asked name, and takes what stands at their end. Records of
 * other names count for nothing. Returns 0, or -EBADMSG.
 */
int message_read_answer(const uint8_t *p, size_t n, const struct reach_name *name, uint16_t type,
			struct message_records *ret_records);

/*
 * Makes the answer to a query into p[0..MESSAGE_ANSWER_MAX): records NULL: none. What is longer than most is left out, and the
 * asker told to come by TCP; truncated says so at once. why and text (at most 64 bytes, or NULL) go to who sent EDNS. Returns the
 * bytes, 0 when memory ends.
 */
size_t message_write(const struct message_query *query, enum message_rcode rcode,
		     const struct message_records *records, bool truncated, enum message_why why,
		     const char *text, size_t most, uint8_t *p);

#endif
