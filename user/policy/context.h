/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the policy library: what is known while one text is read, and the two steps that work on
 * it - reading nodes into the model by the table of keys (read.c), and judging what only shows when
 * keys are seen together or the file system is asked (check.c). No privilege. Memory that ends is
 * noted in err; the steps go on without.
 */
#ifndef CORDON_POLICY_CONTEXT_H
#define CORDON_POLICY_CONTEXT_H

#include "conf/fault.h"
#include "policy/keys.h"
#include "conf/node.h"

/* A path or name that the text gives, and where. */
struct policy_use {
	const struct policy_key *key;
	const char *text; /* in the model, or in the tree: lives as long as both */
	struct conf_mark mark;
};

struct policy_context {
	const struct policy_options *options;
	struct policy *policy;
	struct conf_faults *faults;
	bool complete;				       /* the text was read to its end */
	bool given[POLICY_KEYS_MAX];		       /* by index into policy_keys */
	struct conf_mark given_marks[POLICY_KEYS_MAX]; /* where, likewise */
	struct policy_use *uses;		       /* owned */
	size_t n_uses, uses_room;
	struct conf_mark *allow_marks;	/* of policy->allow; owned */
	struct conf_mark *domain_marks; /* of policy->domains; owned */
	struct conf_mark gateway_marks[CORDON_GATEWAYS_MAX];
	struct conf_mark resolver_marks[2];
	struct conf_mark listen_marks[CORDON_LISTEN_MAX];
	int err; /* 0 or -ENOMEM */
};

/* Adds a fault; a failure goes to context->err. */
#define policy_context_fault(context, at, ...)                              \
	do {                                                                \
		if (conf_fault_add((context)->faults, at, __VA_ARGS__) < 0) \
			(context)->err = -ENOMEM;                           \
	} while (0)

/* Reads the root of a text into context->policy. */
void policy_read_root(struct policy_context *context, const struct conf_node *root);

/* Notes that the text gives `text` for key at mark. */
void policy_context_use(struct policy_context *context, const struct policy_key *key,
			const char *text, struct conf_mark mark);

/*
 * Judges one canonical path by itself: `/`, and with check_paths whether it exists and is what the
 * key needs.
 */
void policy_check_path(struct policy_context *context, const struct policy_key *key,
		       const char *path, struct conf_mark mark);

/* Takes -w over files.workdir and judges it; a workdir that is needed and missing is a fault. */
void policy_check_workdir(struct policy_context *context, struct conf_mark root);

/*
 * Judges the model as a whole: duplicates, rules that can never match or add nothing, limits of the
 * image.
 */
void policy_check_all(struct policy_context *context);

/* The part of it that is about network.domains; has_gateway: there is one, or a fault about it. */
void policy_check_domains(struct policy_context *context, bool has_gateway);

#endif
