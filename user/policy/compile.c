// SPDX-License-Identifier: Apache-2.0
/*
 * Model -> flat image: what leaves the unprivileged part. No privilege, no look at the system. The
 * same model gives the same bytes. A failure gives no image.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cordon/decide.h"
#include "policy/nets.h"
#include "policy/policy.h"
#include "util/util.h"

struct root {
	const char *path;
	unsigned int flags;
};

struct plan {
	const struct policy *policy;
	struct root *roots; /* owned; sorted by path */
	size_t n_roots;
	struct image_net *nets; /* owned */
	size_t n_nets;
	size_t string_bytes;
};

static void plan_free(struct plan *plan)
{
	free(plan->roots);
	free(plan->nets);
}
#define _cleanup_plan_ __attribute__((cleanup(plan_free)))

static int root_compare(const void *a, const void *b)
{
	return strcmp(((const struct root *)a)->path, ((const struct root *)b)->path);
}

static void plan_add_root(struct plan *plan, const char *path, unsigned int flags)
{
	if (path)
		plan->roots[plan->n_roots++] = (struct root){ path, flags };
}

static void plan_add_roots(struct plan *plan, const struct policy_strings *paths,
			   unsigned int flags)
{
	for (size_t i = 0; i < paths->n; i++)
		plan_add_root(plan, paths->v[i], flags);
}

/* One root per path, with the flags of all that name it. */
static void plan_merge_roots(struct plan *plan)
{
	size_t kept = 0;

	qsort(plan->roots, plan->n_roots, sizeof(*plan->roots), root_compare);
	for (size_t i = 0; i < plan->n_roots; i++) {
		if (kept && !strcmp(plan->roots[kept - 1].path, plan->roots[i].path))
			plan->roots[kept - 1].flags |= plan->roots[i].flags;
		else
			plan->roots[kept++] = plan->roots[i];
	}
	plan->n_roots = kept;
}

static int plan_make_roots(struct plan *plan)
{
	const struct policy *policy = plan->policy;
	size_t most = 2 + policy->private_dirs.n + policy->write.n + policy->read_deny.n +
		      policy->read_allow.n + policy->exec_deny.n + policy->exec_allow.n +
		      policy->unix_sockets.n;

	if (most > IMAGE_ROOTS_MAX)
		return -E2BIG;
	plan->roots = calloc(most, sizeof(*plan->roots));
	if (!plan->roots)
		return -ENOMEM;
	plan_add_root(plan, policy->workdir, CORDON_ROOT_WRITE);
	plan_add_roots(plan, &policy->private_dirs, CORDON_ROOT_PRIVATE);
	plan_add_roots(plan, &policy->write, CORDON_ROOT_WRITE);
	plan_add_roots(plan, &policy->read_deny, CORDON_ROOT_READ_DENY);
	plan_add_roots(plan, &policy->read_allow, CORDON_ROOT_READ_ALLOW);
	plan_add_roots(plan, &policy->exec_deny, CORDON_ROOT_EXEC_DENY);
	plan_add_roots(plan, &policy->exec_allow, CORDON_ROOT_EXEC_ALLOW);
	plan_add_roots(plan, &policy->unix_sockets, CORDON_ROOT_UNIX);
	plan_add_root(plan, policy->gateway_unix, CORDON_ROOT_UNIX);
	plan_merge_roots(plan);
	return 0;
}

static void plan_count_strings(struct plan *plan)
{
	plan->string_bytes = strlen(plan->policy->name) + 1;
	for (size_t i = 0; i < plan->n_roots; i++)
		plan->string_bytes += strlen(plan->roots[i].path) + 1;
}

static int ports_compare(const void *a, const void *b)
{
	return (int)((const struct cordon_ports *)a)->lo -
	       (int)((const struct cordon_ports *)b)->lo;
}

/* By family; without network.resolver, port 53 of the first gateway of each. */
static void image_fill_resolvers(struct cordon_policy *kernel, const struct policy *policy)
{
	for (size_t i = 0; i < policy->n_resolvers; i++)
		kernel->resolver[policy->resolver[i].addr.v6] = policy->resolver[i];
	for (size_t i = policy->n_gateways; !policy->n_resolvers && i--;) {
		struct cordon_gateway *resolver = &kernel->resolver[policy->gateway[i].addr.v6];

		*resolver = policy->gateway[i];
		resolver->port = DECIDE_DNS_PORT;
		resolver->proto = 0;
	}
}

static void image_fill_policy(struct cordon_policy *kernel, const struct plan *plan)
{
	const struct policy *policy = plan->policy;

	kernel->mode = (__u8)policy->mode;
	kernel->loopback = (__u8)policy->loopback;
	kernel->has_nets = plan->n_nets != 0;
	kernel->output_bytes = policy->output_bytes;
	kernel->upload_bytes = policy->upload_bytes;
	kernel->n_gateways = (__u8)policy->n_gateways;
	memcpy(kernel->gateway, policy->gateway, policy->n_gateways * sizeof(kernel->gateway[0]));
	kernel->dns = (__u8)policy->dns;
	if (policy->dns)
		image_fill_resolvers(kernel, policy);
	kernel->n_listen = (__u8)policy->n_listen;
	memcpy(kernel->listen, policy->listen, policy->n_listen * sizeof(kernel->listen[0]));
	qsort(kernel->listen, policy->n_listen, sizeof(kernel->listen[0]), ports_compare);
	for (size_t i = 0; i < plan->n_roots; i++)
		kernel->root_flags |= (__u8)plan->roots[i].flags;
}

static void image_fill_tables(struct image *image, const struct plan *plan)
{
	char *strings = (char *)image + image->size_bytes - image->string_bytes;
	struct image_root *roots = (struct image_root *)image_roots(image);
	uint32_t used = (uint32_t)strlen(plan->policy->name) + 1;

	if (plan->n_nets)
		memcpy(image + 1, plan->nets, plan->n_nets * sizeof(*plan->nets));
	memcpy(strings, plan->policy->name, used);
	for (size_t i = 0; i < plan->n_roots; i++) {
		size_t size = strlen(plan->roots[i].path) + 1;

		roots[i] = (struct image_root){ .path = used, .flags = plan->roots[i].flags };
		memcpy(strings + used, plan->roots[i].path, size);
		used += (uint32_t)size;
	}
}

static int plan_write(const struct plan *plan, struct image **ret_image)
{
	size_t size = sizeof(struct image) + plan->n_nets * sizeof(struct image_net) +
		      plan->n_roots * sizeof(struct image_root) + plan->string_bytes;
	struct image *image;

	if (size > IMAGE_SIZE_MAX)
		return -E2BIG;
	image = calloc(1, size);
	if (!image)
		return -ENOMEM;
	image->magic = IMAGE_MAGIC;
	image->version = CORDON_ABI_VERSION;
	image->size_bytes = (uint32_t)size;
	image->n_nets = (uint32_t)plan->n_nets;
	image->n_roots = (uint32_t)plan->n_roots;
	image->string_bytes = (uint32_t)plan->string_bytes;
	image->secrets = plan->policy->secrets;
	image->limits = (struct image_limits){
		.memory_bytes = plan->policy->memory_bytes,
		.time_ms = plan->policy->time_ms,
		.cpu_milli = (uint32_t)plan->policy->cpu_milli,
		.pids = (uint32_t)plan->policy->pids,
	};
	image_fill_policy(&image->policy, plan);
	image_fill_tables(image, plan);
	*ret_image = image;
	return 0;
}

int policy_compile(const struct policy *policy, struct image **ret_image)
{
	_cleanup_plan_ struct plan plan = { .policy = policy };
	int r;

	r = policy_nets_build(policy->allow, policy->n_allow, NULL, NULL, &plan.nets, &plan.n_nets);
	if (r == 0)
		r = plan_make_roots(&plan);
	if (r < 0)
		return r;
	plan_count_strings(&plan);
	return plan_write(&plan, ret_image);
}
