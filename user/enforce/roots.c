// SPDX-License-Identifier: Apache-2.0
/*
 * The file roots of one generation of a fence's policy: paths become objects, as the fenced side sees them, and objects
 * become keys of the map that the programs ask. Root. What cannot be opened or resolved is an error, and the generation is not
 * made the active one.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

#include "enforce/internal.h"
#include "policy/secrets.h"

int enforce_open_in_root(int root_fd, const char *path, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve,
	};

	return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}

/* What is entered: the generation, where it is entered, and what was so far. */
struct entering {
	struct enforce_fence *fence;
	const struct image *image;
	struct cordon_policy *policy;
	uint32_t tag, n_near;
	size_t n_secrets;
	/* Places of the rule set `secrets` that wait to be resolved together. */
	int fds[ENFORCE_SECRETS_BATCH];
	size_t n_fds;
};

static bool path_is_within(const char *path, const char *root)
{
	size_t size = strlen(root);

	return !strncmp(path, root, size) && (path[size] == '/' || path[size] == '\0');
}

/* Enters an object with flags, besides those that it has: two paths may lead to one object. */
static int key_enter(const struct entering *e, const struct cordon_object *object,
		     uint32_t generation, uint32_t flags, struct error *error)
{
	const struct cordon_root_key key = {
		.ino = object->ino,
		.dev = object->dev,
		.generation = generation,
		.tag = e->tag,
	};
	uint32_t others = 0;
	int err = enforce_keys_note(&e->fence->keys[e->tag & 1], ENFORCE_KEY_ROOT, &key, error);

	if (err)
		return err;
	bpf_map_lookup_elem(e->fence->enforce->map[ENFORCE_MAP_roots], &key, &others);
	flags |= others;
	return enforce_map_set(e->fence, ENFORCE_MAP_roots, &key, &flags, error);
}

/*
 * Enters a root of the idle generation and its bits in the policy's filter. What a root allows holds for this very object;
 * what it forbids for whatever has its number.
 */
static int root_enter(struct entering *e, const struct cordon_object *o, uint32_t flags,
		      struct error *error)
{
	struct cordon_policy *policy = e->policy;
	int err = 0;

	if (!flags)
		return 0;
	if (flags & CORDON_ROOT_WRITE && e->n_near < CORDON_ROOTS_NEAR)
		policy->near[e->n_near++] = (struct cordon_root_near){
			.ino = o->ino,
			.dev = o->dev,
			.generation = o->generation,
		};
	if (flags & CORDON_ROOT_DENIES)
		policy->deny_filter |= cordon_dev_bit(o->dev);
	policy->root_flags |= (uint8_t)flags;
	policy->root_filter[(o->ino / 64) % CORDON_ROOT_FILTER_WORDS] |= 1ULL << (o->ino % 64);
	if (flags & ~CORDON_ROOT_DENIES)
		err = key_enter(e, o, o->generation, flags & ~CORDON_ROOT_DENIES, error);
	if (!err && flags & CORDON_ROOT_DENIES)
		err = key_enter(e, o, CORDON_GENERATION_ANY, flags & CORDON_ROOT_DENIES, error);
	return err;
}

/*
 * What a root is to this fence. A private directory is its own to write, but for /dev/shm where the IPC namespace is
 * shared: runtimes share both or none.
 */
static uint32_t root_meaning(const struct entering *e, uint32_t i)
{
	static const char shm[] = "/dev/shm";
	const char *path = image_string(e->image, image_roots(e->image)[i].path);
	uint32_t flags = image_roots(e->image)[i].flags;
	bool shared = e->fence->info.ipc_shared && path_is_within(path, shm);

	if (flags & CORDON_ROOT_PRIVATE && !shared)
		flags |= CORDON_ROOT_WRITE;
	return flags & ~CORDON_ROOT_PRIVATE;
}

/* named: those of the image, in order; else all are CORDON_ROOT_READ_DENY. */
static int roots_enter(struct entering *e, const int *fds, bool named, size_t n,
		       struct error *error)
{
	struct cordon_object *objects = calloc(n + 1, sizeof(*objects));
	int err = objects ? 0 : error_set(error, ENOMEM, "out of memory");

	if (!err && n)
		err = enforce_resolve(e->fence->enforce, fds, n, objects, error);
	if (!err)
		err = enforce_btrfs(fds, n, objects, &e->policy->btrfs, error);
	for (uint32_t i = 0; !err && i < n; i++)
		err = root_enter(e, &objects[i], named ? root_meaning(e, i) : CORDON_ROOT_READ_DENY,
				 error);
	free(objects);
	return err;
}

/* --- what the policy names ------------------------------------------------------------------------------------ */

/*
 * attached: what is to be fenced runs already, and may have put a link where it wants to be able to write; so what may be
 * written is named without one.
 */
static int named_open(const struct image *image, int root_fd, bool attached, int *fds,
		      struct error *error)
{
	for (uint32_t i = 0; i < image->n_roots; i++) {
		const char *path = image_string(image, image_roots(image)[i].path);
		bool plain = attached && image_roots(image)[i].flags &
						 (CORDON_ROOT_WRITE | CORDON_ROOT_PRIVATE);

		fds[i] = enforce_open_in_root(root_fd, path, plain ? RESOLVE_NO_SYMLINKS : 0);
		if (fds[i] < 0 && errno == ELOOP && plain)
			return error_set(error, ELOOP,
					 "%s: leads through a symbolic link, which who is to be "
					 "fenced may have put there; name the place itself",
					 path);
		if (fds[i] < 0)
			return error_set(error, errno, "%s: %s", path, strerror(errno));
	}
	return 0;
}

static int named_enter(struct entering *e, int root_fd, struct error *error)
{
	const struct image *image = e->image;
	int *fds = calloc(image->n_roots + 1, sizeof(*fds));
	int err = fds ? 0 : error_set(error, ENOMEM, "out of memory");

	for (uint32_t i = 0; fds && i < image->n_roots; i++)
		fds[i] = -1;
	if (!err)
		err = named_open(image, root_fd, e->fence->info.attached, fds, error);
	if (!err)
		err = roots_enter(e, fds, true, image->n_roots, error);
	for (uint32_t i = 0; fds && i < image->n_roots; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(fds);
	return err;
}

/* --- the rule set secrets ------------------------------------------------------------------------------------- */

static int secrets_flush(struct entering *e, struct error *error)
{
	int err = e->n_fds ? roots_enter(e, e->fds, false, e->n_fds, error) : 0;

	while (e->n_fds)
		close(e->fds[--e->n_fds]);
	return err;
}

/*
 * What the policy itself says of a place. What it lets be written there could not be read, which is refused as it is with
 * files.read.deny; what it names in files.read.allow it means.
 */
static int place_named(const struct image *image, const char *place, enum policy_secret_group group,
		       struct error *error)
{
	int named = 0;

	for (uint32_t i = 0; i < image->n_roots; i++) {
		const char *path = image_string(image, image_roots(image)[i].path);

		if (!path_is_within(path, place))
			continue;
		if (image_roots(image)[i].flags & (CORDON_ROOT_WRITE | CORDON_ROOT_PRIVATE))
			return error_set(error, EINVAL,
					 "%s could not be read: the rule set secrets denies %s; "
					 "say files.read.without: [secrets.%s], or choose another "
					 "place",
					 path, place, policy_secret_group_name(group));
		named |= image_roots(image)[i].flags & CORDON_ROOT_READ_ALLOW;
	}
	return named;
}

static int secret_enter(void *context, const char *path, enum policy_secret_group group, int fd,
			struct error *error)
{
	struct entering *e = context;
	int named = place_named(e->image, path, group, error);

	if (named) {
		close(fd);
		return named < 0 ? named : 0;
	}
	e->fds[e->n_fds++] = fd;
	if (++e->n_secrets > ENFORCE_SECRETS_MAX)
		return error_set(error, E2BIG,
				 "more than %d places of the rule set secrets exist here; "
				 "files.read.without: [secrets] goes without it",
				 ENFORCE_SECRETS_MAX);
	return e->n_fds == ARRAY_SIZE(e->fds) ? secrets_flush(e, error) : 0;
}

int enforce_roots_set(struct enforce_fence *fence, const struct image *image, int root_fd,
		      pid_t pid, struct cordon_policy *policy, struct error *error)
{
	struct entering e = {
		.fence = fence,
		.image = image,
		.policy = policy,
		.tag = cordon_tag(fence->slot, policy->generation),
	};
	int err = named_enter(&e, root_fd, error);

	if (!err && image->secrets)
		err = enforce_secrets_find(root_fd, pid, image->secrets, secret_enter, &e, error);
	if (!err)
		return secrets_flush(&e, error);
	while (e.n_fds)
		close(e.fds[--e.n_fds]);
	return err;
}
