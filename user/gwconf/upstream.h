/* SPDX-License-Identifier: Apache-2.0 */
/* Inside gwconf: the upstreams of a configuration, and what its readers share. */
#ifndef CORDON_GWCONF_UPSTREAM_H
#define CORDON_GWCONF_UPSTREAM_H

#include "gwconf/gwconf.h"

/* Reads `upstreams` into a struct gwconf. */
conf_read_fn gwconf_read_upstreams;
extern const struct conf_key gwconf_upstream_keys[];
void gwconf_upstream_release(struct gwconf_upstream *upstream);

/* Of config.c: char *, a name, an absolute path. */
conf_read_fn gwconf_read_name;
conf_read_fn gwconf_read_path;
/* A list of mappings with rows: each into the next place of an array of max places of size bytes. */
void gwconf_read_list(struct conf_reader *reader, const struct conf_node *value,
		      const struct conf_key *rows, void *array, size_t size, size_t max, size_t *n);

#endif
