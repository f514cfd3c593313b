// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target of a request for somebody else: the request line, the name and port in it, the decision about them, and the head
 * as it goes on, which has to be one head for the one target again. The corpus is tests/fuzz/corpus/proxy: rules, an empty
 * line, the head.
 */
#include <stdlib.h>
#include <string.h>

#include "proxy/forward.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise stops the run like a crash does. */
#define MUST(condition)                   \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

static const struct head_limits limits = { 4096, 32 };
static const struct head_limits wider = { 4096 + FORWARD_ADDS, 40 };

/* Rules as they are packed: what cannot be read is left out, as no policy has it. */
static size_t rules_pack(const char *text, size_t size, char *packed)
{
	const char *end = text + size, *reason;
	struct reach_rule rule;
	size_t n = 0;

	while (text < end && n + REACH_RULE_SIZE <= 4096) {
		const char *lf = memchr(text, '\n', (size_t)(end - text));
		size_t line = (size_t)((lf ? lf : end) - text);

		if (reach_rule_read(text, line, &rule, &reason) == 0)
			n += reach_rule_write(&rule, packed + n) + 1;
		text += line + 1;
	}
	return n;
}

/* No rule allows what its own text does not end in. */
static void judge_decision(const char *packed, size_t n, const struct reach_target *target)
{
	bool found = false;

	if (reach_decide_target(packed, n, target) != REACH_YES)
		return;
	for (size_t at = 0; at < n; at += strlen(packed + at) + 1) {
		const char *rule = packed + at;
		size_t name = strcspn(rule, ":");

		if (rule[0] == '*')
			found |= target->name.n > name - 1 &&
				 !memcmp(target->name.s + target->name.n - (name - 1), rule + 1,
					 name - 1);
		else
			found |= target->name.n == name && !memcmp(target->name.s, rule, name);
	}
	MUST(found);
}

static void judge_forward(const char *bytes, size_t n, const struct head *head,
			  const struct reach_target *target)
{
	char *out = malloc(n + FORWARD_ADDS);
	struct reach_target host;
	const char *reason;
	struct head again;
	size_t size;

	MUST(out);
	size = forward_head(bytes, n, head, target, out);
	MUST(size <= n + FORWARD_ADDS);
	/* Origin form, with a query: that is read as an absolute one of a name that does not matter. */
	{
		static const char prefix[] = "http://x";
		char *absolute = malloc(size + sizeof(prefix));
		size_t at = head->name.n + 1;

		MUST(absolute);
		memcpy(absolute, out, at);
		memcpy(absolute + at, prefix, sizeof(prefix) - 1);
		memcpy(absolute + at + sizeof(prefix) - 1, out + at, size - at);
		MUST(head_read(absolute, size + sizeof(prefix) - 1, &wider, &again, &reason) ==
		     (int)(size + sizeof(prefix) - 1));
		MUST(again.minor == head->minor && !again.keep_alive &&
		     again.has_length == head->has_length && again.length == head->length);
		MUST(reach_target_read(again.host.p, again.host.n, 80, &host, &reason) == 0 &&
		     host.port == target->port && !strcmp(host.name.s, target->name.s));
		free(absolute);
	}
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data,
		   *border = size ? memmem(text, size, "\n\n", 2) : NULL;
	size_t rules = border ? (size_t)(border - text) : 0;
	const char *bytes = border ? border + 2 : text;
	struct reach_target target;
	char packed[4096 + REACH_RULE_SIZE];
	const char *reason;
	struct head head;
	int n;

	if (size > 8192)
		return 0;
	rules = rules_pack(text, rules, packed);
	n = head_read(bytes, size - (size_t)(bytes - text), &limits, &head, &reason);
	if (n <= 0 || head.form == HEAD_FORM_PATH)
		return 0;
	MUST(head.authority.n && head.authority.p >= bytes &&
	     head.authority.p + head.authority.n <= bytes + n);
	if (reach_target_read(head.authority.p, head.authority.n,
			      head.form == HEAD_FORM_AUTHORITY ? 0 : REACH_PORT_HTTP, &target,
			      &reason)) {
		MUST(reason && reason[0]);
		return 0;
	}
	MUST(target.port && target.name.n && target.name.n == strlen(target.name.s));
	judge_decision(packed, rules, &target);
	if (head.form == HEAD_FORM_ABSOLUTE)
		judge_forward(bytes, (size_t)n, &head, &target);
	return 0;
}
