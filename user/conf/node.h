/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML text as a tree of nodes with positions, and nothing of YAML that a policy or another
 * configuration does not need. No privilege; the tree is bounded by the limits of fault.h and
 * CONF_DEPTH_MAX.
 */
#ifndef CORDON_CONF_NODE_H
#define CORDON_CONF_NODE_H

#include "conf/fault.h"

/* Mappings and lists inside one another; the deepest key of a policy needs 4, of a tool 5. */
#define CONF_DEPTH_MAX 8

enum conf_node_kind {
	CONF_NODE_SCALAR,
	CONF_NODE_MAPPING,
	CONF_NODE_LIST,
	CONF_NODE_BAD, /* a fault was reported for it: to be passed over in silence */
};

struct conf_node {
	enum conf_node_kind kind;
	struct conf_mark mark;
	struct conf_mark
		end; /* just behind it; of a list or mapping that is not in brackets: no use */
	bool plain;  /* a scalar without quotes */
	char *text;  /* of a scalar: valid UTF-8, NUL-terminated, no NUL inside; owned */
	struct conf_node **child; /* of a mapping: key, value, key, value...; owned */
	size_t n;		  /* children: twice the entries of a mapping */
	size_t room;
};

/*
 * Reads text[0..length) into a tree. What YAML or this reader refuses is added to faults. Returns 0
 * or -ENOMEM. *ret_root is the tree (free with conf_node_free), NULL for an empty or unreadable
 * text; *ret_complete is false when reading stopped early, so that a missing key is no fault of the
 * writer.
 */
int conf_node_read(const char *text, size_t length, struct conf_faults *faults,
		   struct conf_node **ret_root, bool *ret_complete);

void conf_node_free(struct conf_node *node); /* takes NULL */

/* A value that says nothing: empty, ~ or null, without quotes. */
bool conf_node_is_null(const struct conf_node *node);

/* What the node is, in the words of faults: "text", "a list"... */
const char *conf_node_describe(const struct conf_node *node);

#endif
