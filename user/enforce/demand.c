// SPDX-License-Identifier: Apache-2.0
/*
 * Programs on hooks that every process of the host passes all the time: attached only while a fence on the node needs them.
 * Those of hooks are loaded and pinned with the others; those that count limits.output when the first fence has that limit, since
 * no other fence should wait for the verifier to read them. Root, with the node's lock held. A link is pinned like those of the other
 * programs, so it outlives its maker. What cannot be attached is an error for the fence that needs it; what cannot be
 * dropped costs time and nothing else.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "enforce/internal.h"

/* Which programs serve which needs. A program that this kernel has in another form is not pinned. */
static const struct {
	const char *program;
	unsigned int needs;
	bool must; /* a kernel without it cannot serve the need */
} demands[] = { { "file_permission",
		  ENFORCE_NEED_DESCRIPTORS | ENFORCE_NEED_OUTPUT | ENFORCE_NEED_UPLOAD, true },
		{ "file_mmap", ENFORCE_NEEDS_MAPS, false },
		{ "file_mmap3", ENFORCE_NEEDS_MAPS, false },
		{ "file_mprotect", ENFORCE_NEEDS_MAPS, false },
		{ "file_uring_cmd", ENFORCE_NEED_DESCRIPTORS, false },
#define CORDON_X(program, function, need) { #program, ENFORCE_NEED_OUTPUT, need },
		CORDON_DEMAND_HOOKS(CORDON_X)
#undef CORDON_X
};

static int demand_attach(const char *set, const char *program, bool must, struct error *error)
{
	_cleanup_close_ int prog_fd = -1, link_fd = -1;
	char path[256];

	snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/%slink_%s", set, program);
	if (!access(path, F_OK))
		return 0;
	snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/%sprog_%s", set, program);
	prog_fd = bpf_obj_get(path);
	if (prog_fd < 0 && errno == ENOENT && must)
		return error_set(error, ENOTSUP,
				 "limits.output: this kernel cannot count all of it (%s); leave it "
				 "out, or use a kernel of the tested list",
				 program);
	if (prog_fd < 0 && errno == ENOENT)
		return 0;
	if (prog_fd < 0)
		return error_set(error, errno, "cannot open %s: %s", path, strerror(errno));
	link_fd = bpf_raw_tracepoint_open(NULL, prog_fd);
	if (link_fd < 0)
		return error_set(error, errno, "cannot attach %s: %s", program, strerror(errno));
	snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/%slink_%s", set, program);
	if (bpf_obj_pin(link_fd, path))
		return error_set(error, errno, "cannot pin %s: %s", path, strerror(errno));
	return 0;
}

unsigned int enforce_needs(const struct cordon_fence *fence, const struct cordon_policy *policy)
{
	if (!fence->id || fence->degraded)
		return 0;
	return (fence->descriptors ? ENFORCE_NEED_DESCRIPTORS : 0) |
	       (policy->root_flags & CORDON_ROOT_EXEC ? ENFORCE_NEED_EXEC : 0) |
	       (policy->output_bytes ? ENFORCE_NEED_OUTPUT : 0) |
	       (policy->upload_bytes ? ENFORCE_NEED_UPLOAD : 0);
}

/*
 * Loads what is loaded late, unless it is. The pin that says so comes last: without it, what there is belongs to a loader
 * that died, or came with another set. Links hold what they need themselves.
 */
static int late_load(const struct enforce *enforce, struct error *error)
{
	static const char *const late[] = {
#define CORDON_X(program, function, need) #program,
		CORDON_DEMAND_HOOKS(CORDON_X)
#undef CORDON_X
	};
	char path[256];

	if (!access(ENFORCE_LATE_PIN, F_OK))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(late); i++) {
		snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/prog_%s", late[i]);
		unlink(path);
	}
	return enforce_load_demand(enforce, error);
}

int enforce_demand(const struct enforce *enforce, unsigned int needs, struct error *error)
{
	int err = 0;

	if (needs & ENFORCE_NEED_OUTPUT)
		err = late_load(enforce, error);
	for (size_t i = 0; !err && i < ARRAY_SIZE(demands); i++)
		if (demands[i].needs & needs)
			err = demand_attach("", demands[i].program, demands[i].must, error);
	return err;
}

/* What the fences of this node need, all together. */
static unsigned int node_needs(const struct enforce *enforce)
{
	const unsigned int all = ENFORCE_NEED_DESCRIPTORS | ENFORCE_NEED_EXEC |
				 ENFORCE_NEED_OUTPUT | ENFORCE_NEED_UPLOAD;
	unsigned int needs = 0;

	/* With many fences the first ones have it all. */
	for (uint32_t slot = 0; slot < enforce->meta.fences && needs != all; slot++) {
		struct cordon_policy policy = { 0 };
		struct cordon_fence fence;
		uint32_t tag;

		if (bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_fences], &slot, &fence))
			continue;
		tag = cordon_tag(slot, fence.generation);
		if (fence.id &&
		    !bpf_map_lookup_elem(enforce->map[ENFORCE_MAP_policies], &tag, &policy))
			needs |= enforce_needs(&fence, &policy);
	}
	return needs;
}

int enforce_demand_next(const struct enforce *enforce, unsigned int *ret_needs, struct error *error)
{
	char path[256];
	int err = 0;

	*ret_needs = node_needs(enforce);
	for (size_t i = 0; !err && i < ARRAY_SIZE(demands); i++) {
		snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/link_%s", demands[i].program);
		if (!access(path, F_OK))
			err = demand_attach(ENFORCE_NEXT, demands[i].program, demands[i].must,
					    error);
	}
	return err;
}

void enforce_demand_drop(const struct enforce *enforce)
{
	unsigned int needs = 0, known = false;
	char path[256];

	for (size_t i = 0; i < ARRAY_SIZE(demands); i++) {
		snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/link_%s", demands[i].program);
		if (access(path, F_OK))
			continue;
		if (!known)
			needs = node_needs(enforce);
		known = true;
		if (!(demands[i].needs & needs))
			unlink(path);
	}
}
