// SPDX-License-Identifier: Apache-2.0
/* What an OCI runtime gives a hook, and a bundle's config.json: what is taken is within its bounds and of its form. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cordon/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void text_check(const char *text, size_t size, bool visible)
{
	if (memchr(text, '\0', size) == NULL)
		abort();
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f || (visible && (unsigned char)*p > 0x7e))
			abort();
}

static void state_check(const struct oci_state *s, enum oci_stage stage)
{
	if (!s->id[0] || (stage == OCI_CREATE && (s->pid < 2 || s->bundle[0] != '/')))
		abort();
	text_check(s->id, sizeof(s->id), true);
	text_check(s->bundle, sizeof(s->bundle), false);
	text_check(s->policy, sizeof(s->policy), true);
	text_check(s->task, sizeof(s->task), true);
	text_check(s->tenant, sizeof(s->tenant), true);
	text_check(s->subject, sizeof(s->subject), true);
	text_check(s->workdir, sizeof(s->workdir), false);
	if ((s->workdir[0] && s->workdir[0] != '/') || strchr(s->policy, '/') ||
	    s->policy[0] == '.')
		abort();
}

/* The first byte says as what the rest is read. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum oci_stage stage = size && data[0] == 's' ? OCI_STOP : OCI_CREATE;
	const char *text = (const char *)data + 1;
	struct error error = { "" };
	static struct oci_state state;
	char root[4096];

	if (!size)
		return 0;
	if (data[0] == 'r') {
		if (!oci_config_root(text, size - 1, "/b", root, sizeof(root), &error)) {
			text_check(root, sizeof(root), false);
			if (root[0] != '/' || error.text[0])
				abort();
		} else if (!error.text[0]) {
			abort();
		}
		return 0;
	}
	if (!oci_state_parse(text, size - 1, stage, &state, &error))
		state_check(&state, stage);
	else if (!error.text[0])
		abort();
	return 0;
}
