/* SPDX-License-Identifier: Apache-2.0 */
/* What `oci-hook` and `oci-runtime` share: their options, and the request to cordond. No privilege of their own. */
#ifndef CORDON_OCI_FENCE_H
#define CORDON_OCI_FENCE_H

#include "cordon/cli.h"
#include "cordon/daemon_client.h"
#include "cordon/oci.h"

#define OCI_POLICIES_DIR "/etc/cordon/policies"

struct oci_options {
	const char *policies;
	const char *policy;
	const char *socket;
	const char *runtime; /* of oci-runtime alone */
};

#define OCI_OPTIONS                                                                              \
	{ 0,                                                                                     \
	  "policies",                                                                            \
	  CLI_STRING,                                                                            \
	  offsetof(struct oci_options, policies),                                                \
	  "DIR",                                                                                 \
	  "where the policies are that annotations name",                                        \
	  0,                                                                                     \
	  0,                                                                                     \
	  OCI_POLICIES_DIR },                                                                    \
		{ 'p',                                                                           \
		  "policy",                                                                      \
		  CLI_STRING,                                                                    \
		  offsetof(struct oci_options, policy),                                          \
		  "NAME",                                                                        \
		  "the policy of containers without annotation; without it they are left alone", \
		  0,                                                                             \
		  0,                                                                             \
		  NULL },                                                                        \
		DAEMON_CLIENT_OPTION(offsetof(struct oci_options, socket))

/* Are they right? An exit code; what is wrong was said. */
int oci_options_judge(const struct oci_options *options);

/* All of fd, at most OCI_TEXT_MAX bytes; *ret_text is to be freed. 0, -E2BIG, -errno. */
int oci_text_read(int fd, char **ret_text, size_t *ret_size);

/*
 * Calls fn, and gives what it says on stderr to the log of the system, too, and to ret_said[size) without its last newline: engines
 * show the stderr of hooks and runtimes to nobody, often. Returns what fn returns.
 */
int oci_hear(int (*fn)(void *context), void *context, char *ret_said, size_t size);

/* The policy of the container; NULL: nobody asked for a fence. EXIT_OK, or an exit code: annotations without a policy. */
int oci_policy_of(const struct oci_options *options, const struct oci_state *state,
		  const char **ret_policy);

/*
 * Has cordond fence the container by the policy of that name, from its next exec on. root: the container's root directory, as its
 * init sees it now. An exit code; what went wrong was said in one line.
 */
int oci_container_fence(const struct oci_options *options, const struct oci_state *state,
			const char *policy, const char *root);

#endif
