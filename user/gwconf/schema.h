/* SPDX-License-Identifier: Apache-2.0 */
/* Inside gwconf: the JSON Schema of a tool's input. */
#ifndef CORDON_GWCONF_SCHEMA_H
#define CORDON_GWCONF_SCHEMA_H

#include "gwconf/gwconf.h"

/* Reads `input` into tool->fields. */
void gwconf_schema_read(struct conf_reader *reader, const struct conf_key *key,
			const struct conf_node *value, void *base);

void gwconf_field_release(struct gwconf_field *field);

/* The rows of one member, for the documents. */
extern const struct conf_key gwconf_field_keys[];

#endif
