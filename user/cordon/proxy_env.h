/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables by which programs find the gateway's proxy: HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in large and small letters, for
 * a policy with network.domains and a gateway with an address. What env.set or env.pass names stays theirs.
 */
#ifndef CORDON_PROXY_ENV_H
#define CORDON_PROXY_ENV_H

#include "policy/policy.h"

/* policy->env_set and what is to be added: NAME=value. Free with proxy_env_clear(). 0 or -ENOMEM. */
int proxy_env_make(const struct policy *policy, struct policy_strings *ret_set);
void proxy_env_clear(struct policy_strings *set);

#endif
