// SPDX-License-Identifier: Apache-2.0
/*
 * Another build's programs in place of those that are in effect, while fences live. Root, with the node's lock held.
 *
 * Links of LSM, fmod_ret and tracing programs cannot be updated, so a whole new set is loaded on the same maps, attached
 * beside the old one, and pinned in ENFORCE_NEXT, its cordon_meta last. The kernel runs the programs that came last first:
 * what the new set denies the old one never sees, and each counts its own denials (cordon_state.denied_by). The self-test, in
 * a cgroup of its own, must find every denial in the new set's count. Then each fence's cgroup links are updated, one by
 * one; a program is replaced in one step. ENFORCE_NEXT/committed is the point of no return: after it each pin is renamed
 * over the old one, which drops that, and what the old set had besides is removed.
 *
 * At every instant each hook has a program of a whole set attached. Who is killed leaves ENFORCE_NEXT, and whoever takes the
 * lock next ends what was committed or undoes what was not, whatever build it is: names are all that it takes. What cannot be
 * loaded, proved or updated is undone, and the old set, which was never touched, enforces on.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "enforce/internal.h"

#define NEXT_DIR ENFORCE_PIN_DIR "/next"
#define COMMITTED_PIN NEXT_DIR "/committed"

enum { LINKS_MAX = 512 };

/* Calls fn for each entry of a directory of bpffs that begins so, until it returns something else than 0. */
static int for_each_pin(const char *dir, const char *prefix,
			int (*fn)(void *context, const char *dir, const char *name), void *context)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	int err = d ? 0 : -errno;

	while (!err && (entry = readdir(d)))
		if (entry->d_name[0] != '.' && !strncmp(entry->d_name, prefix, strlen(prefix)))
			err = fn(context, dir, entry->d_name);
	if (d)
		closedir(d);
	return err;
}

/* --- the links of the fences ---------------------------------------------------------------------------------- */

struct update {
	const char *set; /* whose programs the links are to hold: "" or ENFORCE_NEXT */
	int links;	 /* of the fence so far */
	struct error *error;
};

/* One link: "link_NAME" gets "prog_NAME". A cgroup that is gone has let go of its links, which is nobody's loss. */
static int update_link(void *context, const char *dir, const char *name)
{
	struct update *update = context;
	_cleanup_close_ int link = -1, prog = -1;
	char path[512];

	snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/%sprog_%s", update->set, name + 5);
	prog = bpf_obj_get(path);
	if (prog < 0)
		return error_set(update->error, errno, "cannot open %s: %s", path, strerror(errno));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	link = bpf_obj_get(path);
	if (link < 0 || (bpf_link_update(link, prog, NULL) && errno != ENOLINK))
		return error_set(update->error, errno, "cannot update %s: %s", path,
				 strerror(errno));
	update->links++;
	return 0;
}

/* A new set with a program that the fence has no link for would leave it without that one. */
static int update_fence(void *context, const char *dir, const char *name)
{
	struct update *update = context;
	char path[512];
	int err;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	update->links = 0;
	err = for_each_pin(path, "link_", update_link, update);
	if (!err && update->set[0] && update->links != ENFORCE_PROG_fence_mark_all)
		return error_set(update->error, EPROTO,
				 "%s has %d programs, of a new fence there are %d; end it first",
				 name, update->links, ENFORCE_PROG_fence_mark_all);
	return err;
}

static int update_fences(const char *set, struct error *error)
{
	struct update update = { .set = set, .error = error };

	return for_each_pin(ENFORCE_PIN_DIR, "fence_", update_fence, &update);
}

/* --- ending and undoing --------------------------------------------------------------------------------------- */

/* Old links, held while their pins go: to let go of one takes the kernel a while, and nobody has to wait for that. */
struct held {
	int fds[LINKS_MAX];
	size_t n;
};

static void hold(struct held *held, const char *path)
{
	int fd = held->n < LINKS_MAX ? bpf_obj_get(path) : -1;

	if (fd >= 0)
		held->fds[held->n++] = fd;
}

static int move_pin(void *context, const char *dir, const char *name)
{
	char from[512], to[512];

	if (!strcmp(name, "committed") || !strcmp(name, "cordon_meta") ||
	    !strncmp(name, "drop_", 5))
		return 0;
	snprintf(from, sizeof(from), "%s/%s", dir, name);
	snprintf(to, sizeof(to), ENFORCE_PIN_DIR "/%s", name);
	if (!strncmp(name, "link_", 5))
		hold(context, to);
	return rename(from, to) ? -errno : 0;
}

/* "drop_NAME" says that the old set's NAME goes. */
static int drop_pin(void *context, const char *dir, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/%s", name + 5);
	if (!strncmp(name + 5, "link_", 5))
		hold(context, path);
	if (unlink(path) && errno != ENOENT)
		return -errno;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return unlink(path) ? -errno : 0;
}

/* A directory that changes while it is read may be read in part: again until there is nothing. */
static int drain(const char *prefix, int (*fn)(void *context, const char *dir, const char *name),
		 struct held *held)
{
	int err = 0;

	for (int i = 0; !err && i < 8; i++)
		err = for_each_pin(NEXT_DIR, prefix, fn, held);
	return err;
}

/* After the point of no return. Each step can be repeated. */
static int finish(void)
{
	struct held held = { .n = 0 };
	int err = drain("link_", move_pin, &held);

	if (!err)
		err = drain("prog_", move_pin, &held);
	if (!err)
		err = drain("drop_", drop_pin, &held);
	if (!err && rename(NEXT_DIR "/cordon_meta", ENFORCE_PIN_DIR "/cordon_meta") &&
	    errno != ENOENT)
		err = -errno;
	if (!err && (unlink(COMMITTED_PIN) || rmdir(NEXT_DIR)))
		err = -errno;
	enforce_links_release(held.fds, held.n);
	return err;
}

static void undo(void)
{
	/* A program that is to come back to a link must be there; where one is not, the new set stays, beside the old. */
	if (!update_fences("", NULL))
		enforce_pins_remove(NEXT_DIR, true);
}

void enforce_upgrade_recover(void)
{
	if (access(NEXT_DIR, F_OK))
		return;
	if (!access(COMMITTED_PIN, F_OK))
		finish();
	else
		undo();
}

/* --- the steps ------------------------------------------------------------------------------------------------ */

/* What the old set has pinned and the new one has not. */
static int mark_drop(void *context, const char *dir, const char *name)
{
	_cleanup_close_ int fd = -1;
	char path[512];

	snprintf(path, sizeof(path), NEXT_DIR "/%s", name);
	if (!access(path, F_OK))
		return 0;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = bpf_obj_get(path);
	snprintf(path, sizeof(path), NEXT_DIR "/drop_%s", name);
	if (fd < 0 || bpf_obj_pin(fd, path))
		return error_set(context, errno, "cannot pin %s: %s", path, strerror(errno));
	return 0;
}

static int commit(struct error *error)
{
	_cleanup_close_ int meta = -1;
	int err = for_each_pin(ENFORCE_PIN_DIR, "link_", mark_drop, error);

	if (!err)
		err = for_each_pin(ENFORCE_PIN_DIR, "prog_", mark_drop, error);
	if (err)
		return err;
	meta = bpf_obj_get(NEXT_DIR "/cordon_meta");
	if (meta < 0 || bpf_obj_pin(meta, COMMITTED_PIN))
		return error_set(error, errno, "cannot pin " COMMITTED_PIN ": %s", strerror(errno));
	return 0;
}

/* The self-test in a fence of its own, made by the new set, in which only what that set denies counts. */
static int prove_in(struct enforce *next, const struct host_cgroup *cgroup, unsigned int needs,
		    struct error *error)
{
	const struct enforce_fence_options options = {
		.cgroup = cgroup,
		.ring_bytes = ENFORCE_RING_MIN,
	};
	struct enforce_fence *fence = NULL;
	int err = enforce_fence_make(next, &options, &fence, error);

	if (!err)
		err = enforce_selftest_set(fence, needs, error);
	enforce_fence_end(fence);
	return err;
}

static int prove(unsigned int needs, struct error *error)
{
	struct host_cgroup cgroup = { .fd = -1 };
	struct enforce *next = enforce_new();
	char name[64];
	int err = next ? enforce_open_set(next, ENFORCE_NEXT) : -ENOMEM;

	if (err)
		err = error_set(error, -err, "cannot open " NEXT_DIR ": %s", strerror(-err));
	snprintf(name, sizeof(name), "upgrade-%d", getpid());
	if (!err)
		err = host_cgroup_make(name, &cgroup, error);
	if (!err)
		err = prove_in(next, &cgroup, needs, error);
	host_cgroup_remove(&cgroup, NULL);
	host_cgroup_close(&cgroup); /* of one that could not be removed */
	enforce_drop(next);
	return err;
}

/* Everything before the point of no return, and that. */
static int bring_in(const struct enforce *have, struct error *error)
{
	struct enforce_meta meta = have->meta;
	unsigned int needs = 0;
	int err;

	meta.build = enforce_build();
	meta.set = !have->meta.set;
	if (mkdir(NEXT_DIR, 0700))
		return error_set(error, errno, "cannot make " NEXT_DIR ": %s", strerror(errno));
	err = enforce_load(&meta, have, error);
	if (!err)
		err = enforce_demand_next(have, &needs, error);
	if (!err)
		err = prove(needs, error);
	if (!err)
		err = update_fences(ENFORCE_NEXT, error);
	return err ? err : commit(error);
}

static int upgrade_from(const struct enforce *have, struct error *error)
{
	int err;

	if (have->meta.build == enforce_build())
		return 0;
	err = bring_in(have, error);
	if (!err)
		return finish();
	undo();
	return err;
}

static int upgrade_locked(const struct host_report *report, struct error *error)
{
	struct enforce *have = enforce_new();
	int err = have ? enforce_open_set(have, "") : -ENOMEM;

	if (err == -ENOENT)
		err = 0; /* nothing is loaded */
	else if (err == -EPROTO)
		err = error_set(
			error, EPROTO,
			"what is loaded lays its records out in another way (ABI %u, this "
			"is %d): its fences cannot be carried over; end them, then cordon load",
			have->meta.abi, CORDON_ABI_VERSION);
	else if (err)
		err = error_set(error, -err, "cannot open " ENFORCE_PIN_DIR ": %s", strerror(-err));
	else if (!have->meta.degraded && have->meta.fmod_ret != report->use_fmod_ret)
		err = error_set(error, EPROTO,
				"what is loaded is attached in another way than this cordon would; "
				"end its fences, then cordon load");
	else
		err = upgrade_from(have, error);
	enforce_drop(have);
	return err;
}

int enforce_upgrade(const struct host_report *report, struct error *error)
{
	int lock = enforce_lock(error), err;

	if (lock < 0)
		return lock;
	enforce_lock_hold(lock);
	err = upgrade_locked(report, error);
	enforce_lock_hold(-1);
	close(lock);
	return err;
}

int enforce_open_upgraded(const struct host_report *report, bool degraded,
			  struct enforce **ret_enforce, enum enforce_opened *ret_opened,
			  struct error *ret_why, struct error *error)
{
	struct error busy = { "" };
	int err = enforce_open(report, degraded, ret_enforce, &busy);

	*ret_opened = ENFORCE_OPENED_OWN;
	if (err != -EBUSY)
		return err ? error_set(error, -err, "%s", busy.text) : 0;
	*ret_opened = ENFORCE_OPENED_UPGRADED;
	if (!enforce_upgrade(report, ret_why))
		return enforce_open(report, degraded, ret_enforce, error);
	*ret_opened = ENFORCE_OPENED_OLD;
	err = enforce_open_loaded(ret_enforce, error);
	if (err || (*ret_enforce)->meta.degraded == degraded)
		return err;
	enforce_close(TAKE_PTR(*ret_enforce));
	return error_set(error, EBUSY, "%s", busy.text);
}
