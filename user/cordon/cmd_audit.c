// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon audit`: was a file of events altered since it was written? Offline and without privilege but for reading the files and
 * the key. What cannot be verified counts as altered.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "chain/chain.h"
#include "cordon/cli.h"

struct audit_options {
	struct cli_list keys;
	const char *anchor;
	bool json;
};

#define AT(member) offsetof(struct audit_options, member)

static const struct cli_option audit_rows[] = {
	{ .letter = 'k',
	  .name = "key",
	  .kind = CLI_LIST,
	  .offset = AT(keys),
	  .metavar = "FILE",
	  .help = "the key that signed the checkpoints; several after a change of keys" },
	{ .name = "anchor",
	  .kind = CLI_STRING,
	  .offset = AT(anchor),
	  .metavar = "N:HASH",
	  .help = "a record that is known from elsewhere: it must be there, with this hash" },
	{ .name = "json",
	  .kind = CLI_FLAG,
	  .offset = AT(json),
	  .help = "print one JSON object on stdout" },
	{ .name = NULL },
};

static int anchor_parse(const char *text, struct chain *ret_anchor)
{
	char *end;

	errno = 0;
	ret_anchor->n = text[0] >= '1' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
	if (!ret_anchor->n || errno || *end != ':' || !chain_parse_hash(end + 1, ret_anchor))
		return -EINVAL;
	return 0;
}

/* A path as a JSON string. */
static void json_text_print(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c >= 0x7f)
			printf("\\u%04x", c);
		else
			printf(c == '"' || c == '\\' ? "\\%c" : "%c", c);
	}
	putchar('"');
}

static void result_print_json(const struct chain_result *result)
{
	char hash[CHAIN_HEX_SIZE];

	printf("{\"ok\":%s,\"files\":%" PRIu64 ",\"records\":%" PRIu64 ",\"first\":%" PRIu64
	       ",\"last\":%" PRIu64 ",\"hash\":\"%s\",\"checkpoints\":%" PRIu64
	       ",\"covered\":%" PRIu64 ",\"closed\":%s",
	       result->fault ? "false" : "true", result->files, result->records, result->first,
	       result->last.n, chain_format_hash(&result->last, hash), result->checkpoints,
	       result->covered, result->closed ? "true" : "false");
	if (result->fault) {
		printf(",\"fault\":{\"kind\":\"%s\",\"file\":", chain_fault_name(result->fault));
		json_text_print(result->file);
		printf(",\"line\":%" PRIu64 ",\"record\":%" PRIu64 ",\"why\":", result->line,
		       result->n);
		json_text_print(result->why);
		putchar('}');
	}
	puts("}");
}

/* What the files prove, in words. */
static void result_print_text(const struct chain_result *result, bool keyed)
{
	char hash[CHAIN_HEX_SIZE];

	printf("ok: records %" PRIu64 " to %" PRIu64 " in %" PRIu64 " file%s, last hash %s\n",
	       result->first, result->last.n, result->files, result->files == 1 ? "" : "s",
	       chain_format_hash(&result->last, hash));
	if (!keyed)
		puts("no key was given: whoever can write the files could have written them anew");
	else if (result->covered < result->last.n)
		printf("%" PRIu64 " checkpoints are signed; the last %" PRIu64
		       " records come after them and are held by the chain alone\n",
		       result->checkpoints, result->last.n - result->covered);
	else
		printf("%" PRIu64 " checkpoints are signed, the last record is one\n",
		       result->checkpoints);
	if (!result->closed)
		puts("the file is not closed: it is being written, or its writer was killed, or "
		     "its end was "
		     "cut off");
}

static int keys_load(const struct audit_options *o, struct chain_key *keys)
{
	for (size_t i = 0; i < o->keys.n; i++) {
		struct error error = { "" };

		if (chain_key_load(o->keys.v[i], &keys[i], &error) < 0)
			return cli_fail(-EINVAL, "%s", error.text);
	}
	return 0;
}

static int audit_verify(const struct audit_options *o, int n, char **paths)
{
	struct chain_key keys[ARRAY_SIZE(o->keys.v)];
	struct chain_options options = { .keys = keys, .n_keys = o->keys.n };
	struct chain_result result;
	struct error error = { "" };
	struct chain anchor;
	int r;

	if (o->anchor && anchor_parse(o->anchor, &anchor) < 0)
		return cli_fail(EXIT_USAGE, "--anchor: '%s' is not N:HASH, as `last hash` has it",
				o->anchor);
	options.anchor = o->anchor ? &anchor : NULL;
	if (keys_load(o, keys) < 0)
		return EXIT_FOUND;
	r = chain_verify((const char *const *)paths, (size_t)n, &options, &result, &error);
	for (size_t i = 0; i < o->keys.n; i++)
		chain_key_clear(&keys[i]);
	if (r < 0)
		return cli_fail(EXIT_FOUND, "%s", error.text);
	if (o->json)
		result_print_json(&result);
	else if (!result.fault)
		result_print_text(&result, o->keys.n);
	if (result.fault && !o->json)
		cli_fail(0, "%s:%" PRIu64 ": record %" PRIu64 ": %s: %s", result.file, result.line,
			 result.n, chain_fault_name(result.fault), result.why);
	return result.fault ? EXIT_FOUND : EXIT_OK;
}

static int audit_run(const void *options, int argc, char **argv)
{
	if (strcmp(argv[0], "verify") != 0)
		return cli_fail(EXIT_USAGE, "there is no action '%s'; there is verify", argv[0]);
	if (argc < 2)
		return cli_fail(EXIT_USAGE, "verify: no FILE given");
	return audit_verify(options, argc - 1, argv + 1);
}

const struct cli_verb cli_verb_audit = {
	.name = "audit",
	.summary = "verify the hash chain of recorded events; name the first bad record",
	.arguments = "verify FILE...",
	.text = "Reads files that a sink of type `file` wrote with `chain: true`, as one chain: "
		"the "
		"rotated ones (PATH.000001 and so on) and the one being written, in any order. "
		"Names "
		"the first record that was changed, removed, put in or cut off, with file, line "
		"and "
		"number in the chain, and ends with exit status 1.\n"
		"\n"
		"Without --key this shows damage and careless changes: who can write the files can "
		"write the whole chain anew. With --key the checkpoints are verified, which nobody "
		"could make without the key; what comes after the last of them is held by the "
		"chain "
		"alone. Files removed from the beginning are not missed, because rotation does "
		"that; "
		"a record removed from the very end is missed with --anchor, whose value is the "
		"last "
		"record and hash that was seen elsewhere.\n"
		"\n"
		"  cordon audit verify --key /etc/cordon/audit.key /var/log/cordon/events.jsonl*\n"
		"  cordon audit verify --json --anchor 51234:9f86d081... events.jsonl",
	.options = audit_rows,
	.options_size = sizeof(struct audit_options),
	.min_args = 1,
	.max_args = -1,
	.run = audit_run,
};
