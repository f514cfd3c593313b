// SPDX-License-Identifier: Apache-2.0
/*
 * A fence is made for the front. Root. What the front sends is judged here again: numbers, ends of texts, the image by
 * its bounds-checked reader, the cgroup and the process by the kernel. What fails on the way is undone.
 */
#include "cordond/keeper_fence.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

enum {
	FREEZE_TIMEOUT_MS = 5000,
	FOUND_MOST = 64,
};

int keeper_image_read(int fd, struct image **ret_image, struct error *error)
{
	struct image *image;
	struct stat st;

	/* Seals are what memory has, and no file system of the front's choice that would not answer. */
	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    st.st_size < (off_t)sizeof(*image) || st.st_size > IMAGE_SIZE_MAX)
		return error_set(error, EINVAL, "the policy's image is none");
	image = malloc((size_t)st.st_size);
	if (!image)
		return error_set(error, ENOMEM, "out of memory");
	if (pread(fd, image, (size_t)st.st_size, 0) != st.st_size ||
	    image_validate(image, (size_t)st.st_size)) {
		free(image);
		return error_set(error, EINVAL, "the policy's image is not one");
	}
	*ret_image = image;
	return 0;
}

static bool how_is_sound(const struct wire_fence *how)
{
	struct identity identity = how->identity;

	identity.fence_id = 1;
	return how->pid > 0 && how->own_root <= 1 && how->ring_bytes >= ENFORCE_RING_MIN &&
	       how->ring_bytes <= ENFORCE_RING_MAX && !(how->ring_bytes & (how->ring_bytes - 1)) &&
	       how->event_rate >= 1 && how->event_rate <= ENFORCE_EVENT_RATE_MAX &&
	       how->cgroup[0] == '/' && wire_text_is_sound(how->cgroup, sizeof(how->cgroup)) &&
	       identity_is_sound(&identity);
}

/* Whose root directory the policy's paths are seen from must be one of those that are fenced; 1 stands for the host. */
static int pid_judge(const struct host_cgroup *cgroup, pid_t pid, struct error *error)
{
	char path[PATH_MAX];
	size_t n = strlen(cgroup->path);
	int err;

	if (pid == 1)
		return 0;
	err = host_cgroup_of_pid(pid, path, sizeof(path), error);
	if (!err && (strncmp(path, cgroup->path, n) != 0 || (path[n] && path[n] != '/')))
		err = error_set(error, ESRCH, "process %d is not in %s any more", pid,
				cgroup->path);
	return err;
}

/* What was found to be held from before; see enforce_fence_find(). */
struct finding {
	struct keeper *keeper;
	struct kept *kept;
	unsigned int n;
	char first[PATH_MAX + 128]; /* of those that the kernel cannot take back */
};

static void on_found(void *context, const struct cordon_found *found)
{
	struct finding *all = context;
	char text[PATH_MAX + 128];

	if (++all->n > FOUND_MOST && (all->first[0] || !found->start))
		return;
	enforce_found_name(found, text, sizeof(text));
	kept_fact(all->keeper, all->kept, CORDON_OP_HOLDS, found->pid, text);
	if ((found->start || found->rule == CORDON_RULE_FILES_DESCRIPTOR) && !all->first[0])
		snprintf(all->first, sizeof(all->first), "%s", text);
}

static int held_find(struct keeper *k, struct kept *f, struct error *error)
{
	struct finding all = { .keeper = k, .kept = f };
	char text[64];
	int err = enforce_fence_find(f->fence, on_found, &all, error);

	if (all.n > FOUND_MOST) {
		snprintf(text, sizeof(text), "and %u more", all.n - FOUND_MOST);
		kept_fact(k, f, CORDON_OP_HOLDS, all.n, text);
	}
	if (!err && all.first[0] && f->image->policy.mode == CORDON_MODE_ENFORCE)
		err = error_set(error, ENOTSUP,
				"%s, which the kernel cannot take back: end the process, or allow "
				"the file in files.write",
				all.first);
	return err;
}

/* Where descriptors 1 and 2 of the task lead whose root directory counts: those of the container's command. Not the host's init. */
static void outs_open(pid_t pid, int *ret_fds)
{
	char path[64];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, i + 1);
		ret_fds[i] = pid == 1 ? -1 : open(path, O_PATH | O_CLOEXEC);
	}
}

static void outs_close(const int *fds)
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/*
 * Who runs is marked where it stands. A container's init is not: it has mounts and its root still to change, as a
 * runtime does, and is marked when it executes the command (fence_bprm_check), with nothing of its memory left. So nobody else may
 * be in the cgroup now.
 */
static int enclose_tasks(struct keeper *k, struct kept *f, struct error *error)
{
	int err;

	if (f->root)
		return host_cgroup_only(&f->cgroup, f->how.pid, error);
	err = enforce_fence_mark_tasks(f->fence, error);
	return err ? err : held_find(k, f, error);
}

/* With the tasks frozen: fence, policy, marks. */
static int enclose_frozen(struct keeper *k, struct kept *f, struct error *error)
{
	int out_fds[2];
	const struct enforce_fence_options options = {
		.cgroup = &f->cgroup,
		.out_fds = out_fds,
		.attached = true,
		.descriptors = true,
		.ring_bytes = f->how.ring_bytes,
		.event_rate = f->how.event_rate,
		.read_elsewhere = true,
	};
	_cleanup_close_ int root_fd = -1;
	int err = pid_judge(&f->cgroup, f->how.pid, error);

	if (!err)
		root_fd = enforce_root_open(f->how.pid, f->root, error);
	if (err || root_fd < 0)
		return err ? err : root_fd;
	outs_open(f->how.pid, out_fds);
	err = enforce_fence_make(k->enforce, &options, &f->fence, error);
	outs_close(out_fds);
	if (err)
		return err;
	f->id = enforce_fence_info(f->fence)->id;
	err = keeper_accounts_lock(k, error);
	if (err)
		return err;
	err = enforce_fence_set_at(f->fence, f->image, root_fd, f->root ? 0 : f->how.pid, true,
				   error);
	if (kept_identify(k, f, error))
		return -ENOMEM;
	kept_show(k, f);
	return err ? err : enclose_tasks(k, f, error);
}

static int enclose(struct keeper *k, struct kept *f, unsigned int *ret_proved, struct error *error)
{
	int err = host_cgroup_open(f->how.cgroup, &f->cgroup, error);

	/* Before anybody else is frozen; asked again when nobody can come. */
	if (!err && f->root)
		err = host_cgroup_only(&f->cgroup, f->how.pid, error);
	if (!err)
		err = keeper_ceilings_prepare(f->image, &f->cgroup, &f->ceilings, error);
	if (!err)
		err = host_cgroup_freeze(&f->cgroup, true, FREEZE_TIMEOUT_MS, error);
	if (err)
		return err;
	err = enclose_frozen(k, f, error);
	if (host_cgroup_freeze(&f->cgroup, false, FREEZE_TIMEOUT_MS, err ? NULL : error) && !err)
		err = -EIO;
	if (!err)
		err = enforce_fence_selftest(f->fence, ret_proved, error);
	if (!err)
		err = keeper_ceilings_apply(&f->ceilings, &f->cgroup, error);
	if (!err)
		err = kept_publish(k, f, error);
	return err;
}

static void announce(struct keeper *k, struct kept *f, unsigned int proved)
{
	char detail[512];

	snprintf(detail, sizeof(detail), "attached to %s%s%s", f->cgroup.path,
		 f->root ? " before its command begins" : "",
		 enforce_fence_info(f->fence)->ipc_shared ? "; " ENFORCE_IPC_SHARED : "");
	kept_fact(k, f, CORDON_OP_START, 0, detail);
	snprintf(detail, sizeof(detail), "%u attempts from inside were denied; attached as %s",
		 proved, enforce_attach_type(k->enforce));
	kept_fact(k, f, CORDON_OP_ENFORCING, proved, detail);
	f->started = true;
}

int keeper_attach(struct keeper *k, const struct wire_attach *request, int image_fd)
{
	struct error error = { "" };
	struct kept *f;
	unsigned int proved = 0;
	int err;

	if (!how_is_sound(&request->fence) ||
	    !wire_text_is_sound(request->root, sizeof(request->root)) ||
	    (request->root[0] && (request->root[0] != '/' || request->fence.pid == 1)))
		return -EPROTO;
	f = kept_new(&request->fence);
	err = f ? keeper_image_read(image_fd, &f->image, &error) : -ENOMEM;
	if (!err) {
		f->fresh = true;
		f->root = request->root[0] ? request->root : NULL;
		err = kept_enter(k, f);
	}
	if (err) {
		kept_free(f);
		kept_reply(k, request->head.serial, err, 0, 0,
			   error.text[0] ? error.text : strerror(-err));
		return 0;
	}
	err = enclose(k, f, &proved, &error);
	if (!err)
		err = kept_record(f, &error);
	free(TAKE_PTR(f->image));
	if (!err)
		announce(k, f, proved);
	f->root = NULL;
	kept_reply(k, request->head.serial, err, err ? 0 : f->id, proved, error.text);
	if (err && f->fence)
		kept_end(k, f, "refused");
	else if (err) {
		k->n_kept--; /* it is the last one */
		kept_free(f);
	}
	return 0;
}
