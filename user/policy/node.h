/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the policy library: a YAML text as a tree of nodes with positions, and nothing of YAML
 * that a policy does not need. No privilege; the tree is bounded by the limits of policy.h and
 * POLICY_DEPTH_MAX.
 */
#ifndef CORDON_POLICY_NODE_H
#define CORDON_POLICY_NODE_H

#include "policy/fault.h"

/* Mappings and lists inside one another; the deepest key of a policy needs 4. */
#define POLICY_DEPTH_MAX 8

enum policy_node_kind {
	POLICY_NODE_SCALAR,
	POLICY_NODE_MAPPING,
	POLICY_NODE_LIST,
	POLICY_NODE_BAD, /* a fault was reported for it: to be passed over in silence */
};

struct policy_node {
	enum policy_node_kind kind;
	struct policy_mark mark;
	bool plain; /* a scalar without quotes */
	char *text; /* of a scalar: valid UTF-8, NUL-terminated, no NUL inside; owned */
	struct policy_node **child; /* of a mapping: key, value, key, value...; owned */
	size_t n;		    /* children: twice the entries of a mapping */
	size_t room;
};

/*
 * Reads text[0..length) into a tree. What YAML or this reader refuses is added to faults. Returns 0
 * or -ENOMEM. *ret_root is the tree (free with policy_node_free), NULL for an empty or unreadable
 * text; *ret_complete is false when reading stopped early, so that a missing key is no fault of the
 * writer.
 */
int policy_node_read(const char *text, size_t length, struct policy_faults *faults,
		     struct policy_node **ret_root, bool *ret_complete);

void policy_node_free(struct policy_node *node); /* takes NULL */

/* A value that says nothing: empty, ~ or null, without quotes. */
bool policy_node_is_null(const struct policy_node *node);

/* What the node is, in the words of faults: "text", "a list"... */
const char *policy_node_describe(const struct policy_node *node);

#endif
