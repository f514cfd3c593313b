// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target of DNS messages on both sides: what a fence sends, and what an upstream answers. A question that was read has one name,
 * and its answer, whatever is in it, fits and can be read again; what is believed of an upstream is bounded. The first byte says
 * which side. The corpus is tests/fuzz/corpus/dns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "resolver/judge.h"
#include "resolver/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise stops the run like a crash does. */
#define MUST(condition)                   \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

static const struct reach_name asked = { 9, "good.test" };

static void name_is_sound(const struct reach_name *name)
{
	static const char rules[] = "*.test\0good.test:80";
	struct reach_name again;
	const char *reason;
	bool chosen;

	MUST(strlen(name->s) == name->n);
	MUST(reach_name_read(name->s, name->n, false, &again, &reason) == 0);
	MUST(!strcmp(again.s, name->s));
	judge_name(rules, sizeof(rules), name, &chosen);
	MUST(judge_bits(name->s, name->n) <= 8.0 * (double)name->n);
}

static void answer_is_sound(const struct message_query *query, int rcode, size_t most)
{
	struct message_records records = { .n = 3, .ttl_s = 60 };
	struct message_query back;
	uint8_t bytes[MESSAGE_ANSWER_MAX];
	size_t n;

	n = message_write(query, (enum message_rcode)rcode, rcode ? NULL : &records, false,
			  MESSAGE_WHY_PROHIBITED, "domain_denied", most, bytes);
	MUST(n >= 12 && n <= most);
	MUST(bytes[2] & 0x80 && (bytes[3] & 15) == rcode);
	MUST((bytes[0] << 8 | bytes[1]) == query->id);
	MUST(message_read_query(bytes, n, &back) == -EBADMSG);
}

static void take_question(const uint8_t *data, size_t size)
{
	struct message_query query;
	int r = message_read_query(data, size, &query);

	if (r < 0)
		return;
	MUST(r <= MESSAGE_REFUSED && query.udp_size >= MESSAGE_UDP_MIN &&
	     query.udp_size <= MESSAGE_UDP_MAX);
	if (query.named)
		name_is_sound(&query.name);
	answer_is_sound(&query, r, query.udp_size);
	answer_is_sound(&query, r, MESSAGE_ANSWER_MAX);
}

static void take_answer(const uint8_t *data, size_t size, uint16_t type)
{
	struct message_records records;

	if (message_read_answer(data, size, &asked, type, &records) != 0)
		return;
	MUST(records.rcode == MESSAGE_NOERROR || records.rcode == MESSAGE_NXDOMAIN);
	MUST(records.n <= MESSAGE_ADDRESSES_MAX && !(records.n && records.alias_n));
	for (size_t i = 0; i < records.n; i++)
		MUST(records.addresses[i].v6 == (type == MESSAGE_AAAA));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	if (size < 1 || size > 5000)
		return 0;
	copy = malloc(size - 1 ? size - 1 : 1);
	MUST(copy);
	memcpy(copy, data + 1, size - 1);
	if (data[0] & 1) {
		take_question(copy, size - 1);
	} else {
		take_answer(copy, size - 1, MESSAGE_A);
		take_answer(copy, size - 1, MESSAGE_AAAA);
		take_answer(copy, size - 1, MESSAGE_CNAME);
	}
	free(copy);
	return 0;
}
