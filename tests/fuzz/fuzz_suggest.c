// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target of `cordon suggest`: bytes as a denial's texts (parted by newlines: rule, op, type's object, then its members) and, after
 * an empty line, as the text of a policy. Whatever is denied, what is proposed reads as a policy with exactly that, the diff is
 * written, and what never may be proposed is not. Looks at no path.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "conf/edit.h"
#include "cordon/suggest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise stops the run like a crash does. */
#define MUST(condition)                   \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

static const char usual[] =
	"cordon: 1\nname: n\nfiles: {read: {allow: [/usr]}}\nnetwork:\n  gateway: 127.0.0.1:8800\n";

/* The next line; NULL: no more. */
static char *line_next(char **rest)
{
	return *rest ? strsep(rest, "\n") : NULL;
}

/* A record of lines: rule, op, object, then member and value; a value that is a number is one. */
static json_t *record_make(char **rest)
{
	const char *rule = line_next(rest), *op = line_next(rest), *object = line_next(rest);
	json_t *inner = json_object(), *root;
	char *name, *value;

	while ((name = line_next(rest)) && *name && (value = line_next(rest))) {
		char *end;
		long long number = strtoll(value, &end, 10);

		json_object_set_new(inner, name,
				    *value && !*end	     ? json_integer(number)
				    : !strcmp(value, "true") ? json_true()
							     : json_string(value));
	}
	root = json_pack("{s:s,s:s,s:s,s:{s:s,s:s},s:O}", "rule", rule ? rule : "", "op",
			 op ? op : "", "verdict", "deny", "fence", "policy", "n", "id", "1",
			 object && *object ? object : "x", inner);
	json_decref(inner);
	return root;
}

/* Is name, with its slash, a whole component of the path? */
static bool has_component(const char *path, const char *name)
{
	for (const char *at = path; (at = strstr(at, name)); at++)
		if (at[strlen(name)] == '/' || at[strlen(name)] == '\0')
			return true;
	return false;
}

/* One item more is all that came of it, and it is none of those that are never proposed. */
static void judge(const struct policy *before, const struct suggest *suggest, const char *text,
		  size_t length)
{
	const struct policy_options options = { .check_paths = false };
	struct conf_faults faults = { .n = 0 };
	struct policy *after = NULL;
	size_t n = 0;

	MUST(policy_parse(text, length, &options, &after, &faults) == 0);
	for (size_t i = 0; i < suggest->n; i++)
		n += !suggest->v[i].why && suggest->v[i].key != SUGGEST_KEYS_N;
	MUST(after->domains.n + after->n_allow + after->write.n + after->read_allow.n +
		     after->scopes.n ==
	     before->domains.n + before->n_allow + before->write.n + before->read_allow.n +
		     before->scopes.n + n);
	for (size_t i = before->domains.n; i < after->domains.n; i++)
		MUST(!strchr(after->domains.v[i], '*'));
	for (size_t i = before->n_allow; i < after->n_allow; i++)
		MUST(after->allow[i].prefix_bits == (after->allow[i].addr.v6 ? 128 : 32) &&
		     after->allow[i].ports.lo == after->allow[i].ports.hi);
	for (size_t i = before->write.n; i < after->write.n; i++)
		MUST(!has_component(after->write.v[i], "/.ssh") &&
		     strncmp(after->write.v[i], "/etc/", 5) != 0 &&
		     strchr(after->write.v[i] + 1, '/'));
	policy_free(after);
	conf_faults_clear(&faults);
}

static void try(const char *text, size_t length, char *lines)
{
	const struct policy_options options = { .check_paths = false };
	struct conf_faults faults = { .n = 0 };
	struct suggest suggest = { .check_paths = false };
	struct policy *policy = NULL;
	char *made = NULL, *diff = NULL;
	size_t n, diff_n;
	FILE *out;

	if (policy_parse(text, length, &options, &policy, &faults) == 0 &&
	    !strcmp(policy->name, "n")) {
		suggest.policy = policy;
		for (int i = 0; i < 8 && lines; i++) {
			struct event_record record = { record_make(&lines) };

			if (record.root)
				suggest_take(&suggest, &record);
			json_decref(record.root);
		}
		suggest_settle(&suggest);
		MUST(suggest_text(&suggest, text, length, &options, &made, &n) == 0);
		judge(policy, &suggest, made, n);
		out = open_memstream(&diff, &diff_n);
		MUST(out && conf_edit_diff(out, "n", text, length, made, n) == 0);
		fclose(out);
		MUST((diff_n == 0) == (n == length && !memcmp(text, made, n)));
	}
	free(diff);
	free(made);
	suggest_clear(&suggest);
	policy_free(policy);
	conf_faults_clear(&faults);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy, *split;

	if (size > 16384)
		return 0;
	copy = malloc(size + 1);
	MUST(copy);
	memcpy(copy, data, size);
	copy[size] = '\0';
	split = strstr(copy, "\n\ncordon");
	if (split) {
		*split = '\0';
		try(split + 2, size - (size_t)(split + 2 - copy), copy);
	} else {
		try(usual, sizeof(usual) - 1, copy);
	}
	free(copy);
	return 0;
}
