// SPDX-License-Identifier: Apache-2.0
/* The table of keys as a table for people: the middle of docs/policy.md. No privilege; cannot fail.
 */
#include <string.h>

#include "policy/keys.h"

static const char *status_name(enum policy_status status)
{
	switch (status) {
	case POLICY_ENFORCED:
		return "yes";
	case POLICY_UNBUILT:
		return "**no**: an error";
	case POLICY_UNBUILT_EMPTY:
		return "**no**: an error unless `[]`";
	}
	return "";
}

static void print_fallback(const struct policy_key *key, FILE *out)
{
	if (key->required)
		fputs("required", out);
	else
		fputs(key->fallback ? key->fallback : "-", out);
}

void policy_print_keys(FILE *out)
{
	fputs("| key | value | when absent | enforced | meaning |\n|---|---|---|---|---|\n", out);
	for (size_t i = 0; i < policy_keys_n; i++) {
		const struct policy_key *key = &policy_keys[i];

		/* Mappings only group; their rows follow. */
		if (key->type == POLICY_TYPE_MAPPING)
			continue;
		fprintf(out, "| `%s` | %s | ", key->path, policy_type_names[key->type]);
		print_fallback(key, out);
		fprintf(out, " | %s | %s |\n", status_name(key->status), key->doc);
	}
}
