// SPDX-License-Identifier: Apache-2.0
/* What both engines share: choosing one by URI. */

#include <string.h>

#include "ledger/engine.h"

struct engine_value engine_text(const char *text)
{
	if (!text)
		text = "";
	return (struct engine_value){ .kind = ENGINE_TEXT, .text = text, .size = strlen(text) };
}

const struct engine_ops *engine_of(const char *uri)
{
	static const struct engine_ops *const engines[] = { &engine_sqlite, &engine_postgres };

	for (size_t i = 0; uri && i < ARRAY_SIZE(engines); i++)
		if (strncmp(uri, engines[i]->scheme, strlen(engines[i]->scheme)) == 0)
			return engines[i];
	return NULL;
}
