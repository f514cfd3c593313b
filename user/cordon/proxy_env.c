// SPDX-License-Identifier: Apache-2.0
/*
 * See proxy_env.h. Nothing is enforced by these variables: a program that does not read them is denied by the kernel. NO_PROXY
 * names what the fence reaches by itself: the gateway's own API, loopback, and the addresses of network.allow.
 */
#include "cordon/proxy_env.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "util/util.h"

#define NO_PROXY_SIZE 4096
#define VARIABLES 6

static const char *const names[VARIABLES] = { "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
					      "http_proxy", "https_proxy", "no_proxy" };

static bool is_no_proxy(const char *name)
{
	return name[0] == 'N' || name[0] == 'n';
}

/* Does the policy say it itself? */
static bool policy_names(const struct policy *policy, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < policy->env_set.n; i++)
		if (!strncmp(policy->env_set.v[i], name, n) && policy->env_set.v[i][n] == '=')
			return true;
	for (size_t i = 0; i < policy->env_pass.n; i++)
		if (!strcmp(policy->env_pass.v[i], name))
			return true;
	return false;
}

static const char *address_text(const struct cordon_addr *addr, char text[INET6_ADDRSTRLEN])
{
	return inet_ntop(addr->v6 ? AF_INET6 : AF_INET, addr->v6 ? addr->b : addr->b + 12, text,
			 INET6_ADDRSTRLEN);
}

static void direct_add(char *list, const struct cordon_addr *addr, unsigned int bits)
{
	char text[INET6_ADDRSTRLEN];
	size_t n = strlen(list);

	if (bits == (addr->v6 ? 128 : 32))
		snprintf(list + n, NO_PROXY_SIZE - n, ",%s", address_text(addr, text));
	else
		snprintf(list + n, NO_PROXY_SIZE - n, ",%s/%u", address_text(addr, text), bits);
}

static void direct_list(const struct policy *policy, char list[NO_PROXY_SIZE])
{
	strcpy(list, "localhost,127.0.0.1,::1");
	for (size_t i = 0; i < policy->n_gateways; i++)
		direct_add(list, &policy->gateway[i].addr, policy->gateway[i].addr.v6 ? 128 : 32);
	for (size_t i = 0; i < policy->n_allow && strlen(list) < NO_PROXY_SIZE - 64; i++)
		direct_add(list, &policy->allow[i].addr, policy->allow[i].prefix_bits);
}

static int variables_add(const struct policy *policy, struct policy_strings *set)
{
	const struct cordon_gateway *gateway = &policy->gateway[0];
	char address[INET6_ADDRSTRLEN], list[NO_PROXY_SIZE];

	direct_list(policy, list);
	address_text(&gateway->addr, address);
	for (size_t i = 0; i < VARIABLES; i++) {
		int r;

		if (policy_names(policy, names[i]))
			continue;
		if (is_no_proxy(names[i]))
			r = asprintf(&set->v[set->n], "%s=%s", names[i], list);
		else
			r = asprintf(&set->v[set->n],
				     gateway->addr.v6 ? "%s=http://[%s]:%u" : "%s=http://%s:%u",
				     names[i], address, gateway->port);
		if (r < 0) {
			set->v[set->n] = NULL;
			return -ENOMEM;
		}
		set->n++;
	}
	return 0;
}

int proxy_env_make(const struct policy *policy, struct policy_strings *ret_set)
{
	*ret_set = (struct policy_strings){
		.v = calloc(policy->env_set.n + VARIABLES + 1, sizeof(*ret_set->v)),
	};
	if (!ret_set->v)
		return -ENOMEM;
	for (size_t i = 0; i < policy->env_set.n; i++) {
		ret_set->v[i] = strdup(policy->env_set.v[i]);
		if (!ret_set->v[i])
			return -ENOMEM;
		ret_set->n++;
	}
	return policy->domains.n && policy->n_gateways ? variables_add(policy, ret_set) : 0;
}

void proxy_env_clear(struct policy_strings *set)
{
	for (size_t i = 0; i < set->n; i++) {
		explicit_bzero(set->v[i], strlen(set->v[i]));
		free(set->v[i]);
	}
	free(TAKE_PTR(set->v));
	set->n = 0;
}
