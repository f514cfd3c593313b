// SPDX-License-Identifier: Apache-2.0
/*
 * The published schema of events and docs/events.md, both printed from the tables of
 * cordon/tables.h. A test fails when docs/ holds something else than what is printed here. No
 * privilege; only prints.
 */
#include "event/event.h"

#include <string.h>

#define CORDON_X(g, k, d) GROUP_##g,
enum group { CORDON_EVENT_GROUPS(CORDON_X) GROUP_COUNT };
#undef CORDON_X

#define CORDON_X(kind, type, nullable, pattern, doc) KIND_##kind,
enum kind { CORDON_EVENT_KINDS(CORDON_X) };
#undef CORDON_X

enum need { NEED_ALWAYS, NEED_KERNEL, NEED_SET };

#define CORDON_X(g, k, d) { k, d },
static const struct {
	const char *key, *doc;
} groups[] = { CORDON_EVENT_GROUPS(CORDON_X) };
#undef CORDON_X

#define CORDON_X(kind, t, n, p, d) { t, n, p, d },
static const struct {
	const char *type;
	bool nullable;
	const char *pattern, *doc;
} kinds[] = { CORDON_EVENT_KINDS(CORDON_X) };
#undef CORDON_X

#define CORDON_X(g, k, kind, source, need, doc) { GROUP_##g, #k, KIND_##kind, NEED_##need, doc },
static const struct key {
	enum group group;
	const char *name;
	enum kind kind;
	enum need need;
	const char *doc;
} keys[] = { CORDON_EVENT_KEYS(CORDON_X) };
#undef CORDON_X

/* A list of words with what they mean. */
struct word {
	const char *word, *doc;
	unsigned int type; /* of an op */
};

#define CORDON_X(e, n, d) { n, d, 0 },
static const struct word types[] = { CORDON_TYPES(CORDON_X) };
#undef CORDON_X
#define CORDON_X(e, n) { n, NULL, 0 },
static const struct word verdicts[] = { CORDON_VERDICTS(CORDON_X) };
#undef CORDON_X
#define CORDON_X(e, t, n, d) { n, d, CORDON_TYPE_##t },
static const struct word ops[] = { CORDON_OPS(CORDON_X) };
#undef CORDON_X
#define CORDON_X(e, v, n, d) { n, d, CORDON_VERDICT_##v },
static const struct word rules[] = { CORDON_RULES(CORDON_X) };
#undef CORDON_X
static const struct word modes[] = { { "enforce", NULL, 0 }, { "audit", NULL, 0 } };

static bool key_is_nullable(const struct key *key)
{
	return kinds[key->kind].nullable && key->need != NEED_SET;
}

/* --- schema -------------------------------------------------------------------------------- */

static void json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static bool word_is_repeated(const struct word *words, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (strcmp(words[j].word, words[i].word) == 0)
			return true;
	return false;
}

static void enum_print(FILE *out, const struct word *words, size_t n, bool nullable)
{
	fputs(", \"enum\": [", out);
	for (size_t i = 0; i < n; i++) {
		if (word_is_repeated(words, i))
			continue;
		fputs(i ? ", " : "", out);
		json_string(out, words[i].word);
	}
	fputs(nullable ? ", null]" : "]", out);
}

/* What a kind says beyond its type. */
static void kind_print(FILE *out, const struct key *key)
{
	switch (key->kind) {
	case KIND_SCHEMA:
		fputs(", \"const\": \"" EVENT_SCHEMA "\"", out);
		break;
	case KIND_TYPE:
		enum_print(out, types, ARRAY_SIZE(types), false);
		break;
	case KIND_OP:
		enum_print(out, ops, ARRAY_SIZE(ops), false);
		break;
	case KIND_VERDICT:
		enum_print(out, verdicts, ARRAY_SIZE(verdicts), false);
		break;
	case KIND_RULE:
		enum_print(out, rules, ARRAY_SIZE(rules), false);
		break;
	case KIND_MODE:
		enum_print(out, modes, ARRAY_SIZE(modes), key_is_nullable(key));
		break;
	case KIND_DPORT:
	case KIND_SPORT:
		fputs(", \"minimum\": 0, \"maximum\": 65535", out);
		break;
	case KIND_AMOUNT:
		break;
	default:
		if (strcmp(kinds[key->kind].type, "integer") == 0)
			fputs(", \"minimum\": 0", out);
		if (strcmp(kinds[key->kind].type, "boolean") == 0)
			fputs(", \"const\": true", out);
	}
}

static void key_print(FILE *out, const struct key *key, const char *indent)
{
	fprintf(out, "%s\"%s\": {\"description\": ", indent, key->name);
	json_string(out, key->doc);
	if (key_is_nullable(key))
		fprintf(out, ", \"type\": [\"%s\", \"null\"]", kinds[key->kind].type);
	else
		fprintf(out, ", \"type\": \"%s\"", kinds[key->kind].type);
	kind_print(out, key);
	if (kinds[key->kind].pattern[0]) {
		fputs(", \"pattern\": ", out);
		json_string(out, kinds[key->kind].pattern);
	}
	fputc('}', out);
}

static void properties_print(FILE *out, enum group group, const char *indent)
{
	const char *separator = "";

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (keys[i].group != group)
			continue;
		fputs(separator, out);
		key_print(out, &keys[i], indent);
		separator = ",\n";
	}
}

static void required_print(FILE *out, enum group group)
{
	const char *separator = "";

	fputs("\"required\": [", out);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (keys[i].group != group || keys[i].need != NEED_ALWAYS)
			continue;
		fprintf(out, "%s\"%s\"", separator, keys[i].name);
		separator = ", ";
	}
	fputs(group == GROUP_EVENT ? ", \"fence\"]" : "]", out);
}

static void group_print(FILE *out, enum group group)
{
	fprintf(out, ",\n    \"%s\": {\n      \"description\": ", groups[group].key);
	json_string(out, groups[group].doc);
	fputs(",\n      \"type\": \"object\",\n      ", out);
	required_print(out, group);
	fputs(",\n      \"properties\": {\n", out);
	properties_print(out, group, "        ");
	fputs("\n      }\n    }", out);
}

/* The object that goes with a type, or NULL. */
static const char *object_of_type(unsigned int type)
{
	for (size_t i = GROUP_FILE; i < GROUP_COUNT; i++)
		if (strcmp(groups[i].key, types[type].word) == 0)
			return groups[i].key;
	return NULL;
}

static void ops_of_type_print(FILE *out, unsigned int type)
{
	const char *separator = "";

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (ops[i].type != type)
			continue;
		fprintf(out, "%s\"%s\"", separator, ops[i].word);
		separator = ", ";
	}
}

static bool type_has_ops(unsigned int type)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		if (ops[i].type == type)
			return true;
	return false;
}

/* Each type has its operations and its object. */
static void conditions_print(FILE *out)
{
	const char *separator = "";

	for (unsigned int type = 0; type < ARRAY_SIZE(types); type++) {
		const char *object = object_of_type(type);

		if (!type_has_ops(type))
			continue;
		fprintf(out,
			"%s\n    {\"if\": {\"properties\": {\"type\": {\"const\": \"%s\"}}},\n     "
			"\"then\": {",
			separator, types[type].word);
		if (object)
			fprintf(out, "\"required\": [\"%s\"], ", object);
		fputs("\"properties\": {\"op\": {\"enum\": [", out);
		ops_of_type_print(out, type);
		fputs("]}}}}", out);
		separator = ",";
	}
}

void event_print_schema(FILE *out)
{
	fputs("{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
	      "  \"$id\": \"urn:" EVENT_SCHEMA "\",\n"
	      "  \"title\": \"" EVENT_SCHEMA "\",\n"
	      "  \"description\": \"One decision or fact of Cordon, one line. Keys that are not "
	      "named here may be added within this version.\",\n"
	      "  \"type\": \"object\",\n  ",
	      out);
	required_print(out, GROUP_EVENT);
	fputs(",\n  \"properties\": {\n", out);
	properties_print(out, GROUP_EVENT, "    ");
	for (size_t i = GROUP_EVENT + 1; i < GROUP_COUNT; i++)
		group_print(out, (enum group)i);
	fputs("\n  },\n  \"allOf\": [", out);
	conditions_print(out);
	fputs("\n  ]\n}\n", out);
}

/* --- docs/events.md ------------------------------------------------------------------------ */

static const char doc_head[] =
	"<!-- Generated by `cordon events --print-doc` from include/cordon/tables.h. -->\n"
	"\n"
	"# Events (`" EVENT_SCHEMA "`)\n"
	"\n"
	"Cordon reports every decision and every turn in the life of a fence as one JSON\n"
	"object on one line. Kernel and user space share this one schema;\n"
	"`docs/event.schema.json` is the same as JSON Schema (draft 2020-12).\n"
	"\n"
	"```\n"
	"cordon run --events events.jsonl -p policy.yaml -- agent    # record\n"
	"cordon events -f events.jsonl --verdict deny,would_deny     # watch\n"
	"cordon events events.jsonl --fence refund-agent -o json | jq -r .file.path\n"
	"```\n"
	"\n"
	"## Rules\n"
	"\n"
	"* **Unknown keys** may be added within version 1. Ignore what you do not know.\n"
	"* **Absent and null.** A key marked *always* is in every event that has its object,\n"
	"  and `null` where it is not known; *kernel*: the same, in events of the kernel\n"
	"  only. Any other key is absent where it has nothing to say.\n"
	"* **Numbers and names.** A quantity is a JSON number below 2^63. What only\n"
	"  identifies - a fence, an inode, a cgroup - is a string, because such numbers use\n"
	"  all 64 bits and a reader that keeps numbers as doubles (JavaScript, jq) would\n"
	"  round them. `mono_ns` passes 2^53 after 104 days of uptime: such a reader then\n"
	"  rounds it to 2 ns. Order events of a fence by `seq`.\n"
	"* **Fence ids** are 16 hexadecimal digits, zeros in front; where you type one, they\n"
	"  may be left out.\n"
	"* **Text that others chose** (paths, `comm`, socket names, task and fence names)\n"
	"  need not be UTF-8 and may be hostile. In such text a backslash is doubled, and\n"
	"  each byte that is not part of well-formed UTF-8, or is part of a control, a line\n"
	"  or paragraph separator, a direction mark or another invisible character, is\n"
	"  written as `\\xNN` with two lower-case hexadecimal digits. To get the bytes back,\n"
	"  after JSON has been decoded, replace `\\\\` by a backslash and `\\xNN` by the\n"
	"  byte, from left to right. The result is unambiguous, and the text is safe on a\n"
	"  terminal.\n"
	"* **Secrets.** What has the form of a known secret in such text - the password in a URL,\n"
	"  the value of `token=` and the like, what follows `Bearer`, tokens that are known by "
	"their\n"
	"  beginning, JSON web tokens - is replaced by `[redacted]` before it reaches any sink. It "
	"is a\n"
	"  net under mistakes: a secret without such a form goes through.\n"
	"* **Paths** name the object that was reached. One that does not begin with `/` does\n"
	"  not begin at the root of the namespace; `path_truncated` or `path_disconnected`\n"
	"  then says why. An object that is to be created is named, and its `ino` is that of\n"
	"  the directory.\n"
	"* **Numbering.** The kernel numbers an event in its fence before it delivers it:\n"
	"  `seq` has no holes. CPUs deliver out of order by a few positions. Events that were\n"
	"  numbered and could not be delivered are counted; a `gap` event says how many\n"
	"  (`count`) and among which numbers (`detail`). When a fence has ended, the number\n"
	"  of its events, gaps among them, plus the `count` of its gaps is its highest `seq`.\n"
	"* **Floods.** A fence has a budget of events a second (`--event-rate`, "
	"`limits.event_rate` of cordond), and what it did\n"
	"  not use of it in the last 10 s. Beyond that one event a second of each operation,\n"
	"  rule and verdict is told, with all its details, and its `count` says for how many like\n"
	"  it it stands since the one before. Those that are left a second after a flood, or\n"
	"  when the fence ends, are told by an event without `process`, path and address. So the\n"
	"  sum of `count` is what was decided, and a flood costs other fences no events; but what\n"
	"  an event with a `count` says of process and object is that of one. What is folded\n"
	"  has no `seq` of its own; a gap counts events, not what they stood for: that goes to\n"
	"  the next of its kind. An event that is lost with a cordond that is killed takes its\n"
	"  `count` along; `denials` of `cordon list` is the kernel's own.\n"
	"* **The stream itself.** Events that did not fit into a sink are counted there; a\n"
	"  `sink_gap` event in that sink says how many and from when to when. It is of no\n"
	"  fence: its id is 0, and `seq` is the sink's own count of such events.\n"
	"* **Trust.** `comm` is whatever the process says. `exe`, ids, `uid` and everything\n"
	"  in `fence` come from the kernel and from whoever made the fence, never from the\n"
	"  agent.\n"
	"\n"
	"## Keys\n";

static const char *need_text(const struct key *key)
{
	if (key->need == NEED_SET)
		return "";
	if (key->need == NEED_KERNEL)
		return "kernel";
	return key_is_nullable(key) ? "always, or null" : "always";
}

/* Text in a cell of a table. */
static void cell_print(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void doc_group(FILE *out, enum group group)
{
	fprintf(out,
		"\n### %s%s%s\n\n%s.\n\n| key | value | present | meaning |\n|---|---|---|---|\n",
		groups[group].key[0] ? "`" : "the event", groups[group].key,
		groups[group].key[0] ? "`" : "", groups[group].doc);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (keys[i].group != group)
			continue;
		fprintf(out, "| `%s` | ", keys[i].name);
		cell_print(out, kinds[keys[i].kind].doc);
		fprintf(out, " | %s | ", need_text(&keys[i]));
		cell_print(out, keys[i].doc);
		fputs(" |\n", out);
	}
}

static void doc_types(FILE *out)
{
	fputs("\n## Types and operations\n\n| type | op | meaning |\n|---|---|---|\n", out);
	for (unsigned int type = 0; type < ARRAY_SIZE(types); type++) {
		fprintf(out, "| **`%s`** | | %s |\n", types[type].word, types[type].doc);
		for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
			if (ops[i].type == type)
				fprintf(out, "| | `%s` | %s |\n", ops[i].word, ops[i].doc);
	}
}

static void doc_rules(FILE *out)
{
	fputs("\n## Verdicts and rules\n\n"
	      "`verdict` is `allow`, `deny`, or `would_deny`: the policy would deny, but only "
	      "reports (`mode: audit`).\n"
	      "Lifecycle events have the rule `none` and the verdict `allow`.\n\n"
	      "| rule | in enforce mode | when |\n|---|---|---|\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		fprintf(out, "| `%s` | %s | %s |\n", rules[i].word, verdicts[rules[i].type].word,
			rules[i].doc);
}

static const char doc_errors[] = "\nWhat a denial looks like to the program: a write or another "
				 "mutation outside gives `EROFS`; a read or exec that is\n"
				 "denied gives `EACCES`; the network and everything else give "
				 "`EPERM`.\n";

/* How types become classes of OCSF; operations of their own first. */
static void doc_ocsf(FILE *out)
{
#define CORDON_X(e, uid, name) { CORDON_TYPE_##e, uid, name },
	static const struct {
		unsigned int type;
		int class;
		const char *name;
	} ocsf_types[] = { CORDON_OCSF_TYPES(CORDON_X) };
#undef CORDON_X
#define CORDON_X(e, uid, name, id, activity) { CORDON_OP_##e, uid, name, id, activity },
	static const struct {
		unsigned int op;
		int class;
		const char *name;
		int id;
		const char *activity;
	} ocsf_ops[] = { CORDON_OCSF_OPS(CORDON_X) };
#undef CORDON_X

	fputs("\n## OCSF\n\n"
	      "`cordon events -o ocsf`, and `format: ocsf` of a sink, write events in the form of "
	      "the Open "
	      "Cybersecurity\nSchema Framework 1.3.0 with the profile `security_control`. What it "
	      "has no "
	      "attribute for stands under\n`unmapped`, by its name here. Severity: Medium where "
	      "something was "
	      "denied or a ceiling was reached, Low\nwhere it would have been, High for losses and "
	      "broken "
	      "fences, else Informational. `would_deny` is\n`disposition_id` 17 (Logged).\n\n"
	      "| type | op | class | activity |\n|---|---|---|---|\n",
	      out);
	for (size_t i = 0; i < ARRAY_SIZE(ocsf_types); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(ocsf_ops); j++)
			if (ops[ocsf_ops[j].op].type == ocsf_types[i].type)
				fprintf(out, "| `%s` | `%s` | %d %s | %d %s |\n",
					types[ocsf_types[i].type].word, ops[ocsf_ops[j].op].word,
					ocsf_ops[j].class, ocsf_ops[j].name, ocsf_ops[j].id,
					ocsf_ops[j].activity);
		fprintf(out, "| `%s` | others | %d %s | 99, named as the op |\n",
			types[ocsf_types[i].type].word, ocsf_types[i].class, ocsf_types[i].name);
	}
}

static const char doc_chain[] =
	"\n## The hash chain\n\n"
	"A sink of type `file` (docs/sinks.md) ends each line with\n"
	"`\"chain\":{\"n\":NUMBER,\"hash\":\"...\"}`. The hash is SHA-256 over the hash of the "
	"line\n"
	"before (32 bytes) and all bytes of this line before `\"hash\":`. Numbers go up by one,\n"
	"over rotation and restart. Between the events stand lines of schema `cordon.chain/1`\n"
	"(`kind` is `open`, `checkpoint`, `resume` or `close`), which are no events; each file\n"
	"begins with one. With a key they carry `mac`: HMAC-SHA-256, by a key derived from the\n"
	"key file, over the hash before and all bytes of the line before `,\"mac\":`. `every`\n"
	"promises that the next one follows after at most so many records.\n"
	"\n"
	"`cordon audit verify --key FILE events.jsonl*` goes through the files in order and names\n"
	"the first record that was changed, removed, put in, cut off or forged.\n"
	"\n"
	"What that proves, and what not:\n"
	"\n"
	"* Without a key, the chain shows damage and single changes. Whoever can write the files\n"
	"  can compute all hashes anew, and nothing shows it.\n"
	"* With the key, nothing up to the last checkpoint that verifies was changed by anybody "
	"who\n"
	"  did not have the key. The records after it - at most `checkpoint.records`, or what "
	"came\n"
	"  within `checkpoint.every` - are held by the chain alone.\n"
	"* The writer has the key. Who takes over the process that writes, or root on that host,\n"
	"  can forge what is written from then on, and with the files at hand also what was\n"
	"  written before. Send events to another host as well (syslog, Kafka), or keep the last\n"
	"  hash elsewhere from time to time: `--anchor N:HASH` then shows a chain written anew.\n"
	"* The end: whole lines removed from the end leave a chain that verifies, without its\n"
	"  `close`. A running or killed writer leaves the same. An anchor tells them apart.\n"
	"* The beginning: rotation removes the oldest files, so their absence proves nothing.\n"
	"* The chain says that lines are as the auditor wrote them, not that everything that\n"
	"  happened was written: for that there are `seq` and the gap events.\n"
	"* To verify is not to authenticate: an older set of files, complete and untouched, "
	"verifies too.\n";

void event_print_doc(FILE *out)
{
	fputs(doc_head, out);
	for (size_t i = 0; i < GROUP_COUNT; i++)
		doc_group(out, (enum group)i);
	doc_types(out);
	doc_rules(out);
	fputs(doc_errors, out);
	doc_ocsf(out);
	fputs(doc_chain, out);
}
