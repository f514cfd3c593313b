/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an OCI runtime tells a hook: the state of a container, and the bundle that it is made from. Pure: bytes in, a struct
 * or a fault out. Both are written by who may make containers: they are judged here, and no byte of them is in a fault.
 */
#ifndef CORDON_OCI_H
#define CORDON_OCI_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "util/util.h"

#define OCI_TEXT_MAX (4 * 1024 * 1024) /* bytes of a state, and of a bundle's config.json */
#define OCI_POLICY_MAX 64	       /* of the name of a policy */

enum oci_stage {
	OCI_CREATE, /* before the command: createRuntime, or created */
	OCI_STOP,   /* poststop: annotations are not looked at, there may be no process */
};

struct oci_state {
	char id[129];
	pid_t pid; /* the container's init; 0: there is none */
	char bundle[4096];
	/* "": no such annotation. */
	char policy[OCI_POLICY_MAX + 1]; /* a name, oci_policy_name() */
	char task[129], tenant[129], subject[129];
	char workdir[4096]; /* absolute */
	/* An annotation by which a runtime executes nothing but runs the payload in itself; NULL: none. */
	const char *no_exec;
};

/* May it name a policy? Letters, digits, "_", "-" and ".", which is not the first. */
bool oci_policy_name(const char *name);

/*
 * Reads the state in text[size). 0, or -EINVAL with the fault: not JSON, a member twice, too long, of another type, an
 * annotation dev.cordon.* that there is none of.
 */
int oci_state_parse(const char *text, size_t size, enum oci_stage stage,
		    struct oci_state *ret_state, struct error *error);

/* root.path of a config.json, made absolute by the bundle's directory, into ret_root[size). 0 or -EINVAL. */
int oci_config_root(const char *text, size_t text_size, const char *bundle, char *ret_root,
		    size_t size, struct error *error);

#endif
