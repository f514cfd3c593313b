// SPDX-License-Identifier: Apache-2.0
/*
 * The keeper's fences: made for the front, taken over from an earlier keeper, changed, ended. Root. What the front sends
 * is judged here again: numbers, ends of texts, the image by its bounds-checked reader, the cgroup and the process by the
 * kernel. What fails on the way is undone.
 *
 * The end of a fence has two steps. First it is announced, and the front drains what the kernel has reported; then, when
 * it has or does not answer, the fence goes.
 */
#include "cordond/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "cordond/account.h"

enum {
	FREEZE_TIMEOUT_MS = 5000,
	FOUND_MOST = 64,
	ENDING_TICKS = 8, /* what a front has to drain a fence */
	ADOPT_EVERY = 8,  /* between tries to take over what could not be */
	GONE_EVERY = 2,	  /* ticks between looks whether a cgroup is gone */
	KILL_TIMEOUT_MS = 1000,
	LOCK_TRIES = 40,
	LOCK_WAIT_MS = 50,
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static int kept_record(struct kept *f, struct error *error);

static struct kept *kept_find(struct keeper *k, uint64_t id)
{
	for (size_t i = 0; i < k->n_kept; i++)
		if (k->kept[i]->id == id)
			return k->kept[i];
	return NULL;
}

/* --- telling the front ------------------------------------------------------------------------ */

/* An event of ours. It is numbered in any case: one that the front does not get shows as a gap. */
static void fact_tell(struct keeper *k, struct kept *f, union wire_message *m, const char *detail)
{
	m->FACT.fence_id = f->id;
	m->FACT.seq = __atomic_add_fetch(&enforce_fence_state(f->fence)->seq, 1, __ATOMIC_RELAXED);
	m->FACT.mono_ns = clock_ns(CLOCK_MONOTONIC);
	m->FACT.time_ns = clock_ns(CLOCK_REALTIME);
	snprintf(m->FACT.detail, sizeof(m->FACT.detail), "%s", detail);
	if (f->shown)
		keeper_tell(k, WIRE_FACT, 0, m, NULL);
}

static void fact(struct keeper *k, struct kept *f, enum cordon_op op, int64_t value,
		 const char *detail)
{
	union wire_message m = { .FACT = { .op = op, .value = value } };

	fact_tell(k, f, &m, detail);
}

static void reply(struct keeper *k, uint32_t serial, int err, uint64_t id, unsigned int proved,
		  const char *text)
{
	union wire_message m = { .REPLY = { .err = err, .fence_id = id, .proved = proved } };

	snprintf(m.REPLY.text, sizeof(m.REPLY.text), "%s", text);
	keeper_tell(k, WIRE_REPLY, serial, &m, NULL);
}

static bool show(struct keeper *k, struct kept *f)
{
	const struct cordon_fence *info = enforce_fence_info(f->fence);
	size_t ring_bytes = 0;
	const int fds[] = { enforce_fence_ring_fd(f->fence, &ring_bytes), f->account_fd };
	static union wire_message m;

	memset(&m, 0, sizeof(m));
	m.MADE.fence = f->how;
	m.MADE.fence.ring_bytes = ring_bytes;
	m.MADE.cgroup_id = info->cgroup_id;
	m.MADE.slot = enforce_fence_slot(f->fence);
	m.MADE.degraded = info->degraded;
	m.MADE.fresh = f->fresh;
	f->shown = !keeper_tell(k, WIRE_MADE, 0, &m, fds);
	if (f->shown && f->again) {
		f->again = false;
		fact(k, f, CORDON_OP_ADOPT, 0,
		     "what was on its way to sinks and readers is lost to them");
	}
	return f->shown;
}

bool keeper_show_next(struct keeper *k)
{
	for (size_t i = 0; i < k->n_kept; i++)
		if (!k->kept[i]->shown && !k->kept[i]->ending)
			return show(k, k->kept[i]);
	return false;
}

void keeper_forget_shown(struct keeper *k)
{
	for (size_t i = 0; i < k->n_kept; i++) {
		k->kept[i]->again |= k->kept[i]->shown;
		k->kept[i]->shown = false;
	}
}

/* --- what the front asks for ------------------------------------------------------------------ */

/* Reads and judges an image; *ret_image is to be freed. What the front does with its file later changes nothing. */
static int image_read(int fd, struct image **ret_image, struct error *error)
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

/* A process of the cgroup now, for its root directory; else that of the host. */
static pid_t pid_now(const struct host_cgroup *cgroup)
{
	char path[PATH_MAX + 16];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup->path);
	f = fopen(path, "re");
	if (f) {
		if (fscanf(f, "%d", &pid) != 1 || pid <= 0)
			pid = 0;
		fclose(f);
	}
	return pid ? pid : 1;
}

/* --- accounts --------------------------------------------------------------------------------- */

static void account_path(char *path, size_t size, uint64_t id)
{
	snprintf(path, size, KEEPER_DIR "/%016llx", (unsigned long long)id);
}

/*
 * The file in which the front keeps what it has seen of the fence. The lock on it is that of the descriptor that the
 * front gets: while another front lives, of a keeper that died, two would read one ring.
 */
static int account_open(uint64_t id, struct error *error)
{
	char path[128];
	int fd, tries = 0;

	account_path(path, sizeof(path), id);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct account_page)))
		goto failed;
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		const struct timespec wait = { .tv_nsec = LOCK_WAIT_MS * 1000000L };

		if (errno != EWOULDBLOCK || ++tries == LOCK_TRIES)
			goto failed;
		nanosleep(&wait, NULL);
	}
	return fd;
failed:
	error_set(error, errno, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -EIO;
}

/* --- making ----------------------------------------------------------------------------------- */

static void on_gateway(struct keeper *k, struct keeper_source *source)
{
	(void)k;
	identity_serve(((struct kept *)source)->identity);
}

static int kept_publish(struct keeper *k, struct kept *f, struct error *error)
{
	_cleanup_close_ int peers_fd = enforce_peers_open(error);
	struct identity_key key;
	int err;

	if (peers_fd < 0)
		return peers_fd;
	f->how.identity.fence_id = f->id;
	f->how.identity.generation = enforce_fence_policy(f->fence)->generation;
	f->how.identity.mode = enforce_fence_policy(f->fence)->mode;
	snprintf(f->how.identity.node, sizeof(f->how.identity.node), "%s", k->node);
	enforce_fence_peer_key(f->fence, key.k);
	err = identity_publish(NULL, &f->how.identity, enforce_fence_slot(f->fence), &key, peers_fd,
			       &f->identity, error);
	if (!err) {
		f->source.ready = on_gateway;
		err = keeper_watch(k, identity_owner_fd(f->identity), &f->source);
		if (err)
			error_set(error, -err, "epoll: %s", strerror(-err));
	}
	return err;
}

static int kept_enter(struct keeper *k, struct kept *f)
{
	if (k->n_kept == k->room) {
		size_t room = k->room ? 2 * k->room : 64;
		struct kept **grown = realloc(k->kept, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		k->kept = grown;
		k->room = room;
	}
	k->kept[k->n_kept++] = f;
	return 0;
}

/* Without its fence, which is ended or left before. */
static void kept_free(struct kept *f)
{
	if (!f)
		return;
	identity_withdraw(f->identity);
	host_cgroup_close(&f->cgroup);
	if (f->account_fd >= 0)
		close(f->account_fd);
	free(f->image);
	free(f);
}

static struct kept *kept_new(const struct wire_fence *how)
{
	struct kept *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->how = *how;
	f->how.made_ns = clock_ns(CLOCK_REALTIME);
	f->cgroup.fd = f->account_fd = -1;
	return f;
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
	fact(all->keeper, all->kept, CORDON_OP_HOLDS, found->pid, text);
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
		fact(k, f, CORDON_OP_HOLDS, all.n, text);
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
	f->how.identity.fence_id = f->id;
	f->account_fd = account_open(f->id, error);
	if (f->account_fd < 0)
		return f->account_fd;
	err = enforce_fence_set_at(f->fence, f->image, root_fd, true, error);
	f->how.identity.generation = enforce_fence_policy(f->fence)->generation;
	f->how.identity.mode = enforce_fence_policy(f->fence)->mode;
	snprintf(f->how.identity.node, sizeof(f->how.identity.node), "%s", k->node);
	show(k, f);
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

	snprintf(detail, sizeof(detail), "attached to %s%s", f->cgroup.path,
		 f->root ? " before its command begins" : "");
	fact(k, f, CORDON_OP_START, 0, detail);
	snprintf(detail, sizeof(detail), "%u attempts from inside were denied; attached as %s",
		 proved, enforce_attach_type(k->enforce));
	fact(k, f, CORDON_OP_ENFORCING, proved, detail);
	f->started = true;
}

/* --- ending ----------------------------------------------------------------------------------- */

static void kept_drop(struct keeper *k, struct kept *f)
{
	char path[128];

	for (size_t i = 0; i < k->n_kept; i++)
		if (k->kept[i] == f) {
			k->kept[i] = k->kept[--k->n_kept];
			break;
		}
	enforce_fence_end(f->fence);
	account_path(path, sizeof(path), f->id);
	unlink(path);
	if (f->serial)
		reply(k, f->serial, 0, f->id, 0, "");
	kept_free(f);
}

static void kept_end(struct keeper *k, struct kept *f, const char *reason)
{
	union wire_message m = { .ENDING = { .fence_id = f->id } };

	if (f->ending)
		return;
	f->ending = true;
	keeper_ceilings_restore(&f->ceilings, enforce_fence_cgroup(f->fence));
	identity_withdraw(TAKE_PTR(f->identity));
	if (f->started)
		fact(k, f, CORDON_OP_END, 0, reason);
	if (!f->shown || keeper_tell(k, WIRE_ENDING, 0, &m, NULL))
		kept_drop(k, f);
}

int keeper_ended(struct keeper *k, uint64_t fence_id)
{
	struct kept *f = kept_find(k, fence_id);

	if (f && f->ending)
		kept_drop(k, f);
	return 0;
}

/* --- requests --------------------------------------------------------------------------------- */

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
	err = f ? image_read(image_fd, &f->image, &error) : -ENOMEM;
	if (!err) {
		f->fresh = true;
		f->root = request->root[0] ? request->root : NULL;
		err = kept_enter(k, f);
	}
	if (err) {
		kept_free(f);
		reply(k, request->head.serial, err, 0, 0,
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
	reply(k, request->head.serial, err, err ? 0 : f->id, proved, error.text);
	if (err && f->fence)
		kept_end(k, f, "refused");
	else if (err) {
		k->n_kept--; /* it is the last one */
		kept_free(f);
	}
	return 0;
}

/* What the policy's text says besides the image: its name and scopes. */
static void identity_renew(struct identity *identity, const struct identity *from)
{
	memcpy(identity->fence_name, from->fence_name, sizeof(identity->fence_name));
	memcpy(identity->policy, from->policy, sizeof(identity->policy));
	memcpy(identity->scopes, from->scopes, sizeof(identity->scopes));
	identity->n_scopes = from->n_scopes;
}

static void policy_tell(struct keeper *k, struct kept *f)
{
	union wire_message m = { .POLICY = { .fence_id = f->id, .identity = f->how.identity } };
	char detail[256];

	if (f->shown)
		keeper_tell(k, WIRE_POLICY, 0, &m, NULL);
	snprintf(detail, sizeof(detail), "policy %s, generation %llu", f->how.identity.policy,
		 (unsigned long long)f->how.identity.generation);
	fact(k, f, CORDON_OP_RELOAD, 0, detail);
}

static int fence_reload(struct keeper *k, struct kept *f, const struct wire_reload *request,
			int image_fd, struct error *error)
{
	const struct host_cgroup *cgroup = enforce_fence_cgroup(f->fence);
	struct keeper_ceilings before = f->ceilings, next;
	struct image *image = NULL;
	int err = image_read(image_fd, &image, error);

	if (!err)
		err = keeper_ceilings_prepare(image, cgroup, &next, error);
	if (!err)
		err = keeper_ceilings_change(&f->ceilings, &next, cgroup, error);
	if (err) {
		free(image);
		return err;
	}
	err = enforce_fence_set(f->fence, image, pid_now(cgroup), true, error);
	free(image);
	if (err) { /* the policy before holds, and so shall its ceilings */
		keeper_ceilings_change(&f->ceilings, &before, cgroup, NULL);
		return err;
	}
	identity_renew(&f->how.identity, &request->identity);
	/* Gateways learn it as they learn of any fence: the old identity goes, the new one comes. */
	identity_withdraw(TAKE_PTR(f->identity));
	err = kept_publish(k, f, error);
	if (!err)
		err = kept_record(f, error);
	policy_tell(k, f);
	return err;
}

int keeper_reload(struct keeper *k, const struct wire_reload *request, int image_fd)
{
	struct kept *f = kept_find(k, request->fence_id);
	struct identity identity = request->identity;
	struct error error = { "" };
	int err;

	identity.fence_id = 1;
	if (!identity_is_sound(&identity))
		return -EPROTO;
	if (!f || f->ending)
		err = error_set(&error, ENOENT, "no such fence");
	else
		err = fence_reload(k, f, request, image_fd, &error);
	reply(k, request->head.serial, err, request->fence_id, 0, error.text);
	return 0;
}

int keeper_detach(struct keeper *k, const struct wire_detach *request)
{
	struct kept *f = kept_find(k, request->fence_id);

	if (!f || f->ending) {
		reply(k, request->head.serial, -ENOENT, request->fence_id, 0, "no such fence");
		return 0;
	}
	f->serial = request->head.serial;
	kept_end(k, f, "detached");
	return 0;
}

int keeper_gap(struct keeper *k, const struct wire_gap *request)
{
	struct kept *f = kept_find(k, request->fence_id);
	union wire_message m = { .FACT = { .op = CORDON_OP_GAP } };

	if (!request->gap.count ||
	    !wire_text_is_sound(request->gap.detail, sizeof(request->gap.detail)))
		return -EPROTO;
	m.FACT.count = request->gap.count;
	if (f)
		fact_tell(k, f, &m, request->gap.detail);
	return 0;
}

int keeper_remark(struct keeper *k, const struct wire_remark *request)
{
	struct kept *f = kept_find(k, request->fence_id);
	union wire_message m = { .FACT = {
					 .op = request->op,
					 .count = request->count,
					 .first_ns = request->first_ns,
					 .last_ns = request->last_ns,
				 } };

	if (request->op == CORDON_OP_STEER)
		m.FACT.verdict = CORDON_VERDICT_DENY;
	else
		m.FACT.rule = CORDON_RULE_ALERT_DENY_RATE;
	if ((request->op != CORDON_OP_STEER && request->op != CORDON_OP_DENY_RATE) ||
	    !wire_text_is_sound(request->detail, sizeof(request->detail)))
		return -EPROTO;
	if (f)
		fact_tell(k, f, &m, request->detail);
	return 0;
}

/* --- time ------------------------------------------------------------------------------------- */

static void reached_tell(struct keeper *k, struct kept *f, const struct keeper_reached *reached)
{
	bool time = reached->limit == HOST_LIMIT_COUNT, audit = f->ceilings.audit;
	union wire_message m = { .FACT = {
					 .op = CORDON_OP_TIME,
					 .rule = CORDON_RULE_LIMIT_TIME,
					 .verdict = audit ? CORDON_VERDICT_WOULD_DENY
							  : CORDON_VERDICT_DENY,
				 } };
	char detail[96];

	m.FACT.count = reached->count > UINT32_MAX ? UINT32_MAX : (uint32_t)reached->count;
	if (!time) {
		m.FACT.op = host_limit_told(reached->limit)->op;
		m.FACT.rule = (uint8_t)host_limit_told(reached->limit)->rule;
		fact_tell(k, f, &m, host_limit_told(reached->limit)->detail);
		return;
	}
	snprintf(detail, sizeof(detail), "%llu s are over; %s",
		 (unsigned long long)(f->ceilings.time_ms / 1000),
		 audit ? "everything would be killed"
		       : "everything is killed, and whoever enters later");
	fact_tell(k, f, &m, detail);
}

static void ceilings_tick(struct keeper *k, struct kept *f)
{
	const struct host_cgroup *cgroup = enforce_fence_cgroup(f->fence);
	struct keeper_reached reached[KEEPER_REACHED_N];
	struct error error = { "" };
	bool kill;
	size_t n = keeper_ceilings_look(&f->ceilings, cgroup, keeper_ceilings_now_ms(), reached,
					&kill);

	for (size_t i = 0; i < n; i++)
		reached_tell(k, f, &reached[i]);
	if (kill && host_cgroup_populated(cgroup) > 0 &&
	    host_cgroup_kill(cgroup, KILL_TIMEOUT_MS, &error) && !f->kill_said) {
		f->kill_said = true;
		cordond_say("fence %016llx: limits.time: %s; it is tried again",
			    (unsigned long long)f->id, error.text);
	}
	/* Last: one that dies before has another kill and tell again. */
	error.text[0] = '\0';
	if (n && kept_record(f, &error))
		cordond_say("%s", error.text);
}

static void kept_tick(struct keeper *k, struct kept *f)
{
	struct error error = { "" };
	char detail[WIRE_DETAIL_MAX];

	if (f->ending) {
		if (++f->ending_ticks > ENDING_TICKS)
			kept_drop(k, f);
		return;
	}
	if (enforce_fence_watch(f->fence, &error)) {
		snprintf(detail, sizeof(detail), "%s; the network of the fence is shut",
			 error.text);
		fact(k, f, CORDON_OP_BROKEN, 0, detail);
		cordond_say("fence %016llx: %s", (unsigned long long)f->id, detail);
	}
	ceilings_tick(k, f);
	/* Empty is not enough: who is to be fenced may be about to be put there. */
	if (k->tick % GONE_EVERY == 0 && host_cgroup_gone(enforce_fence_cgroup(f->fence)))
		kept_end(k, f, "the cgroup is gone");
}

void keeper_fences_tick(struct keeper *k)
{
	if (k->adopt_again && k->tick % ADOPT_EVERY == 0) {
		k->adopt_again = false;
		keeper_adopt(k);
	}
	for (size_t i = k->n_kept; i-- > 0;) /* one that is dropped is replaced by the last */
		kept_tick(k, k->kept[i]);
}

void keeper_fences_leave(struct keeper *k)
{
	while (k->n_kept) {
		struct kept *f = k->kept[--k->n_kept];

		enforce_fence_leave(TAKE_PTR(f->fence));
		kept_free(f);
	}
	free(k->kept);
	k->kept = NULL;
}

/* --- taking over ------------------------------------------------------------------------------ */

/* What a fence is kept with, for the next keeper: its own words, not another build's. */
struct record {
	uint32_t magic;
	uint32_t size;
	struct wire_fence how;
	struct keeper_ceilings ceilings; /* missing in records of builds that had none */
};
_Static_assert(sizeof(struct record) <= ENFORCE_RECORD_MAX, "a record can be kept");

static int kept_record(struct kept *f, struct error *error)
{
	static struct record record;

	record = (struct record){
		.magic = WIRE_MAGIC, .size = sizeof(record), .how = f->how, .ceilings = f->ceilings
	};
	return enforce_fence_keep(f->fence, &record, sizeof(record), error);
}

static bool record_is_sound(const struct record *record, size_t size)
{
	return (size == sizeof(*record) || size == offsetof(struct record, ceilings)) &&
	       record->magic == WIRE_MAGIC && record->size == size &&
	       identity_is_sound(&record->how.identity) &&
	       wire_text_is_sound(record->how.cgroup, sizeof(record->how.cgroup));
}

/* A record that is not understood: the fence is kept all the same, without a name. */
static struct kept *kept_of_record(struct enforce_fence *fence, const void *record, size_t size)
{
	static struct wire_fence how;
	struct kept *f;

	memset(&how, 0, sizeof(how));
	if (record_is_sound(record, size))
		how = ((const struct record *)record)->how;
	f = kept_new(&how);
	if (!f)
		return NULL;
	if (how.made_ns)
		f->how.made_ns = how.made_ns;
	if (how.made_ns && size == sizeof(struct record))
		f->ceilings = ((const struct record *)record)->ceilings;
	f->fence = fence;
	f->id = enforce_fence_info(fence)->id;
	f->how.identity.fence_id = f->id;
	f->started = f->again = true;
	return f;
}

static int adopt_one(struct keeper *k, uint64_t id, struct error *error)
{
	struct enforce_fence *fence = NULL;
	void *record = NULL;
	size_t size = 0;
	struct kept *f;
	int err = enforce_fence_adopt(k->enforce, id, &fence, &record, &size, error);

	if (err)
		return err;
	f = kept_of_record(fence, record, size);
	free(record);
	if (!f || kept_enter(k, f)) {
		kept_free(f);
		enforce_fence_leave(fence);
		return error_set(error, ENOMEM, "out of memory");
	}
	f->account_fd = account_open(id, error);
	if (f->account_fd >= 0)
		err = kept_publish(k, f, error);
	if (f->account_fd < 0 || err) {
		k->n_kept--; /* it is the last one */
		kept_free(f);
		enforce_fence_leave(fence);
		return err ? err : -EIO;
	}
	return 0;
}

struct listed {
	uint64_t *v;
	size_t n, room;
};

static void on_listed(void *context, const struct enforce_listed *listed)
{
	struct listed *all = context;

	if (!listed->kept || listed->owned)
		return;
	if (all->n == all->room) {
		size_t room = all->room ? 2 * all->room : 64;
		uint64_t *grown = realloc(all->v, room * sizeof(*grown));

		if (!grown)
			return; /* the next look finds it again */
		all->v = grown;
		all->room = room;
	}
	all->v[all->n++] = listed->fence_id;
}

void keeper_adopt(struct keeper *k)
{
	struct listed all = { .v = NULL };
	struct error error = { "" };
	size_t taken = 0;

	if (enforce_fence_list(k->enforce, on_listed, &all, &error))
		cordond_say("%s", error.text);
	for (size_t i = 0; i < all.n; i++) {
		int err;

		error.text[0] = '\0';
		err = adopt_one(k, all.v[i], &error);
		taken += !err;
		if (err && err != -ENOENT && !k->adopt_said)
			cordond_say("fence %016llx stays enforced, but is not taken over yet: %s",
				    (unsigned long long)all.v[i], error.text);
		k->adopt_again |= err && err != -ENOENT;
	}
	free(all.v);
	k->adopt_said = k->adopt_again;
	if (taken)
		cordond_say("took over %zu fences", taken);
}
