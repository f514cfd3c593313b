// SPDX-License-Identifier: Apache-2.0
/*
 * The flat image, seen from the side that does not trust it: the privileged part validates bytes
 * that the unprivileged part made, and then reads them through the accessors. Everything that
 * policy_compile() guarantees is checked, so that an accepted image is one that it could have made.
 * Any doubt refuses.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "policy/keys.h"
#include "policy/nets.h"
#include "policy/policy.h"
#include "policy/secrets.h"
#include "policy/value.h"
#include "util/util.h"

_Static_assert(sizeof(struct image) % _Alignof(struct image_net) == 0, "nets begin aligned");
_Static_assert(sizeof(struct image_net) % _Alignof(struct image_root) == 0, "roots begin aligned");
_Static_assert(sizeof(struct image_net) == 76 && sizeof(struct image_root) == 8 &&
		       sizeof(struct image_net) ==
			       sizeof(struct cordon_addr) + 4 + sizeof(struct cordon_net),
	       "no implicit padding, which would be outside of what is checked");

const struct image_net *image_nets(const struct image *image)
{
	return (const struct image_net *)(image + 1);
}

const struct image_root *image_roots(const struct image *image)
{
	return (const struct image_root *)(image_nets(image) + image->n_nets);
}

static const char *image_strings(const struct image *image)
{
	return (const char *)(image_roots(image) + image->n_roots);
}

const char *image_string(const struct image *image, uint32_t offset)
{
	return image_strings(image) + offset;
}

static bool bytes_are_zero(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const unsigned char *)p)[i])
			return false;
	return true;
}

/* Header against size: after this, nothing that the accessors touch lies outside. */
static bool header_is_good(const struct image *image, size_t size)
{
	size_t need;

	if (image->magic != IMAGE_MAGIC || image->version != CORDON_ABI_VERSION ||
	    image->secrets & ~POLICY_SECRETS_ALL)
		return false;
	if (image->n_nets > CONF_LIST_MAX || image->n_roots > IMAGE_ROOTS_MAX ||
	    size > IMAGE_SIZE_MAX || image->string_bytes == 0 || image->string_bytes > size)
		return false;
	need = sizeof(*image) + image->n_nets * sizeof(struct image_net) +
	       image->n_roots * sizeof(struct image_root) + image->string_bytes;
	return image->size_bytes == size && need == size;
}

static bool addr_is_good(const struct cordon_addr *addr)
{
	static const __u8 mapped[12] = { [10] = 0xff, 0xff };

	if (addr->v6 > 1 || addr->mapped || !bytes_are_zero(addr->pad, sizeof(addr->pad)))
		return false;
	if (!addr->v6)
		return bytes_are_zero(addr->b, 12);
	return memcmp(addr->b, mapped, sizeof(mapped)) != 0;
}

static bool gateway_is_good(const struct cordon_gateway *gateway)
{
	return addr_is_good(&gateway->addr) && gateway->port && gateway->proto == IPPROTO_TCP &&
	       !gateway->pad && policy_addr_is_unicast(&gateway->addr) &&
	       !policy_prefix_is_metadata(&gateway->addr, policy_addr_bits(&gateway->addr));
}

static bool resolvers_are_good(const struct cordon_policy *policy)
{
	if (policy->dns > 1)
		return false;
	if (!policy->dns)
		return bytes_are_zero(policy->resolver, sizeof(policy->resolver));
	for (unsigned int i = 0; i < 2; i++) {
		struct cordon_gateway resolver = policy->resolver[i];

		if (bytes_are_zero(&resolver, sizeof(resolver)))
			continue;
		if (resolver.proto || resolver.addr.v6 != i)
			return false;
		resolver.proto = IPPROTO_TCP;
		if (!gateway_is_good(&resolver))
			return false;
	}
	return policy->resolver[0].port || policy->resolver[1].port;
}

/* In order, without overlaps. */
static bool listen_is_good(const struct cordon_policy *policy)
{
	unsigned int before = 0;

	if (policy->n_listen > CORDON_LISTEN_MAX)
		return false;
	for (unsigned int i = 0; i < policy->n_listen; i++) {
		const struct cordon_ports *ports = &policy->listen[i];

		if (ports->proto != IPPROTO_TCP || ports->pad || ports->lo <= before ||
		    ports->lo > ports->hi)
			return false;
		before = ports->hi;
	}
	return bytes_are_zero(&policy->listen[policy->n_listen],
			      (CORDON_LISTEN_MAX - policy->n_listen) * sizeof(policy->listen[0]));
}

/* What is filled in when the policy is installed. */
static bool policy_is_blank(const struct cordon_policy *policy)
{
	return !policy->generation && !policy->event_ns && !policy->deny_filter &&
	       bytes_are_zero(&policy->btrfs, sizeof(policy->btrfs)) &&
	       bytes_are_zero(policy->root_filter, sizeof(policy->root_filter)) &&
	       bytes_are_zero(policy->near, sizeof(policy->near)) &&
	       bytes_are_zero(policy->known, sizeof(policy->known));
}

static bool kernel_policy_is_good(const struct image *image)
{
	const struct cordon_policy *policy = &image->policy;

	if ((policy->mode != CORDON_MODE_ENFORCE && policy->mode != CORDON_MODE_AUDIT) ||
	    policy->loopback > CORDON_LOOPBACK_ALLOW || policy->has_nets != (image->n_nets != 0) ||
	    policy->n_gateways > CORDON_GATEWAYS_MAX || policy->report_allow > 1)
		return false;
	if (!policy_is_blank(policy) || !resolvers_are_good(policy) || !listen_is_good(policy))
		return false;
	for (unsigned int i = 0; i < policy->n_gateways; i++)
		if (!gateway_is_good(&policy->gateway[i]))
			return false;
	return bytes_are_zero(&policy->gateway[policy->n_gateways],
			      (CORDON_GATEWAYS_MAX - policy->n_gateways) *
				      sizeof(policy->gateway[0]));
}

/* None, or within what the key of the policy accepts. */
static bool limit_is_good(uint64_t value, const char *path)
{
	const struct policy_key *key = policy_key_find(path);

	return !value || (value >= key->least && value <= key->most);
}

static bool limits_are_good(const struct image *image)
{
	const struct image_limits *limits = &image->limits;

	return limit_is_good(image->policy.output_bytes, "limits.output") &&
	       limit_is_good(image->policy.upload_bytes, "limits.upload") &&
	       limit_is_good(limits->cpu_milli, "limits.cpu") &&
	       limit_is_good(limits->memory_bytes, "limits.memory") &&
	       limit_is_good(limits->pids, "limits.pids") &&
	       limit_is_good(limits->time_ms, "limits.time");
}

static bool net_is_good(const struct image_net *net)
{
	return addr_is_good(&net->addr) &&
	       policy_prefix_is_canonical(&net->addr, net->prefix_bits) &&
	       !policy_prefix_is_metadata(&net->addr, net->prefix_bits) &&
	       net->net.loopback == policy_prefix_is_loopback(&net->addr, net->prefix_bits) &&
	       bytes_are_zero(net->pad, sizeof(net->pad)) && policy_nets_is_canonical(&net->net);
}

/*
 * Strictly in order, each good by itself, and each allowing at least what the nearest wider prefix
 * allows (by induction: what all wider ones allow), or the longest match would not be the whole
 * answer.
 */
static bool nets_are_good(const struct image *image)
{
	const struct image_net *nets = image_nets(image);
	uint32_t stack[130], depth = 0;

	for (uint32_t i = 0; i < image->n_nets; i++) {
		const struct image_net *net = &nets[i];

		if (!net_is_good(net))
			return false;
		if (i && policy_prefix_compare(&nets[i - 1].addr, nets[i - 1].prefix_bits,
					       &net->addr, net->prefix_bits) >= 0)
			return false;
		while (depth && !policy_prefix_covers(&nets[stack[depth - 1]].addr,
						      nets[stack[depth - 1]].prefix_bits,
						      &net->addr, net->prefix_bits))
			depth--;
		if (depth &&
		    policy_prefix_inherits(&nets[stack[depth - 1]].addr,
					   nets[stack[depth - 1]].prefix_bits, &net->addr,
					   net->prefix_bits) &&
		    !policy_nets_includes(&net->net, &nets[stack[depth - 1]].net))
			return false;
		stack[depth++] = i;
	}
	return true;
}

/*
 * The strings are the name and then the paths of the roots in order, without a gap: offsets have no
 * freedom.
 */
static bool strings_are_good(const struct image *image)
{
	const struct image_root *roots = image_roots(image);
	const char *strings = image_strings(image), *before = "";
	uint32_t at;

	if (strings[image->string_bytes - 1] != '\0' || image->name != 0 ||
	    policy_value_name(strings, NULL) < 0)
		return false;
	at = (uint32_t)strlen(strings) + 1;
	for (uint32_t i = 0; i < image->n_roots; i++) {
		if (roots[i].path != at || at >= image->string_bytes || strings[at + 1] == '\0' ||
		    !policy_path_is_canonical(strings + at) || strcmp(before, strings + at) >= 0)
			return false;
		before = strings + at;
		at += (uint32_t)strlen(before) + 1;
	}
	return at == image->string_bytes;
}

static bool roots_are_good(const struct image *image)
{
	static const uint32_t known = CORDON_ROOT_WRITE | CORDON_ROOT_READ_DENY | CORDON_ROOT_UNIX |
				      CORDON_ROOT_READ_ALLOW | CORDON_ROOT_EXEC |
				      CORDON_ROOT_PRIVATE;
	const struct image_root *roots = image_roots(image);
	uint32_t all = 0;

	for (uint32_t i = 0; i < image->n_roots; i++) {
		if (roots[i].flags == 0 || (roots[i].flags & ~known))
			return false;
		all |= roots[i].flags;
	}
	return image->policy.root_flags == all;
}

int image_validate(const void *buffer, size_t size)
{
	const struct image *image = buffer;

	if (size < sizeof(*image) || (uintptr_t)buffer % _Alignof(struct image))
		return -EINVAL;
	if (!header_is_good(image, size) || !kernel_policy_is_good(image) ||
	    !limits_are_good(image) || !nets_are_good(image) || !roots_are_good(image) ||
	    !strings_are_good(image))
		return -EINVAL;
	return 0;
}
