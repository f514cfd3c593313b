// SPDX-License-Identifier: Apache-2.0
/*
 * The fences that the keeper keeps: the table of them, what the front is told of each, their accounts and identities,
 * their time and their end. Root. How one is made, changed and taken over: keeper_make.c, keeper_request.c,
 * keeper_adopt.c.
 *
 * The end of a fence has two steps. First it is announced, and the front drains what the kernel has reported; then, when
 * it has or does not answer, the fence goes.
 */
#include "cordond/keeper_fence.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>

#include "cordond/account.h"

enum {
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

struct kept *kept_find(struct keeper *k, uint64_t id)
{
	for (size_t i = 0; i < k->n_kept; i++)
		if (k->kept[i]->id == id)
			return k->kept[i];
	return NULL;
}

/* --- telling the front ------------------------------------------------------------------------ */

uint64_t kept_number_take(struct kept *f)
{
	return __atomic_add_fetch(&enforce_fence_state(f->fence)->seq, 1, __ATOMIC_RELAXED);
}

void kept_fact_tell(struct keeper *k, struct kept *f, union wire_message *m, const char *detail)
{
	m->FACT.fence_id = f->id;
	m->FACT.seq = kept_number_take(f);
	m->FACT.mono_ns = clock_ns(CLOCK_MONOTONIC);
	m->FACT.time_ns = clock_ns(CLOCK_REALTIME);
	snprintf(m->FACT.detail, sizeof(m->FACT.detail), "%s", detail);
	if (f->shown)
		keeper_tell(k, WIRE_FACT, 0, m, NULL);
}

void kept_fact(struct keeper *k, struct kept *f, enum cordon_op op, int64_t value,
	       const char *detail)
{
	union wire_message m = { .FACT = { .op = op, .value = value } };

	kept_fact_tell(k, f, &m, detail);
}

void kept_reply(struct keeper *k, uint32_t serial, int err, uint64_t id, unsigned int proved,
		const char *text)
{
	union wire_message m = { .REPLY = { .err = err, .fence_id = id, .proved = proved } };

	snprintf(m.REPLY.text, sizeof(m.REPLY.text), "%s", text);
	keeper_tell(k, WIRE_REPLY, serial, &m, NULL);
}

bool kept_show(struct keeper *k, struct kept *f)
{
	const struct cordon_fence *info = enforce_fence_info(f->fence);
	size_t ring_bytes = 0;
	const int fd = enforce_fence_ring_fd(f->fence, &ring_bytes);
	static union wire_message m;

	memset(&m, 0, sizeof(m));
	how_get(&f->how, &m.MADE.fence);
	m.MADE.fence.ring_bytes = ring_bytes;
	m.MADE.cgroup_id = info->cgroup_id;
	m.MADE.slot = enforce_fence_slot(f->fence);
	m.MADE.degraded = info->degraded;
	m.MADE.fresh = f->fresh;
	f->shown = !keeper_tell(k, WIRE_MADE, 0, &m, &fd);
	if (f->shown && f->again) {
		f->again = false;
		kept_fact(k, f, CORDON_OP_ADOPT, 0,
			  "what was on its way to sinks and readers is lost to them");
		if (!f->fresh && !f->set_told)
			keeper_set_fact(k, f);
		f->set_told = true;
	}
	return f->shown;
}

bool keeper_show_next(struct keeper *k)
{
	for (size_t i = 0; i < k->n_kept; i++)
		if (!k->kept[i]->shown && !k->kept[i]->ending)
			return kept_show(k, k->kept[i]);
	return false;
}

void keeper_forget_shown(struct keeper *k)
{
	for (size_t i = 0; i < k->n_kept; i++) {
		k->kept[i]->again |= k->kept[i]->shown;
		k->kept[i]->shown = false;
	}
}

/* --- accounts --------------------------------------------------------------------------------- */

int keeper_accounts_open(struct keeper *k, struct error *error)
{
	k->accounts_fd = open(KEEPER_ACCOUNTS, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return k->accounts_fd < 0
		       ? error_set(error, EIO, "%s: %s", KEEPER_ACCOUNTS, strerror(errno))
		       : 0;
}

/*
 * The lock is that of the descriptor that the front gets: while another front lives, of a keeper that died, two would
 * read one ring.
 */
int keeper_accounts_lock(struct keeper *k, struct error *error)
{
	int tries = 0;

	while (!k->accounts_locked) {
		const struct timespec wait = { .tv_nsec = LOCK_WAIT_MS * 1000000L };

		if (!flock(k->accounts_fd, LOCK_EX | LOCK_NB))
			break;
		if (errno != EWOULDBLOCK || ++tries == LOCK_TRIES)
			return error_set(error, EIO, "%s: %s", KEEPER_ACCOUNTS, strerror(errno));
		nanosleep(&wait, NULL);
	}
	if (!k->accounts_locked &&
	    ftruncate(k->accounts_fd,
		      (off_t)(enforce_fences_room(k->enforce) * sizeof(struct account))))
		return error_set(error, EIO, "%s: %s", KEEPER_ACCOUNTS, strerror(errno));
	k->accounts_locked = true;
	return 0;
}

void keeper_accounts_close(struct keeper *k)
{
	if (k->accounts_fd < 0)
		return;
	if (!k->n_kept && !k->adopt_again &&
	    (k->accounts_locked || !flock(k->accounts_fd, LOCK_EX | LOCK_NB)))
		unlink(KEEPER_ACCOUNTS);
	close(TAKE_FD(k->accounts_fd));
}

/* --- coming and going -------------------------------------------------------------------------- */

static void on_gateway(struct keeper *k, struct keeper_source *source)
{
	(void)k;
	identity_serve(((struct kept *)source)->identity);
}

int kept_identify(struct keeper *k, struct kept *f, struct error *error)
{
	struct identity identity;

	identity_unpack(f->how.identity, &identity);
	identity.fence_id = f->id;
	identity.generation = enforce_fence_policy(f->fence)->generation;
	identity.mode = enforce_fence_policy(f->fence)->mode;
	snprintf(identity.node, sizeof(identity.node), "%s", k->node);
	return how_identity_set(&f->how, &identity) ? error_set(error, ENOMEM, "out of memory") : 0;
}

int kept_publish(struct keeper *k, struct kept *f, struct error *error)
{
	struct identity identity;
	struct identity_key key;
	int err;

	if (k->maps.peers_fd < 0)
		k->maps.peers_fd = enforce_peers_open(error);
	if (k->maps.peers_fd < 0)
		return k->maps.peers_fd;
	if (k->maps.notes_fd < 0)
		k->maps.notes_fd = enforce_notes_open(error);
	if (k->maps.notes_fd < 0)
		return k->maps.notes_fd;
	err = kept_identify(k, f, error);
	if (err)
		return err;
	identity_unpack(f->how.identity, &identity);
	enforce_fence_peer_key(f->fence, key.k);
	err = identity_publish(NULL, &identity, enforce_fence_slot(f->fence), &key,
			       enforce_fence_peer_next(f->fence), &k->maps, &f->identity, error);
	if (!err) {
		f->source.ready = on_gateway;
		err = keeper_watch(k, identity_owner_fd(f->identity), &f->source);
		if (err)
			error_set(error, -err, "epoll: %s", strerror(-err));
	}
	return err;
}

int kept_enter(struct keeper *k, struct kept *f)
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

void kept_free(struct kept *f)
{
	if (!f)
		return;
	identity_withdraw(f->identity);
	host_cgroup_close(&f->cgroup);
	how_clear(&f->how);
	free(f->image);
	free(f);
}

struct kept *kept_new(const struct wire_fence *how)
{
	struct kept *f = calloc(1, sizeof(*f));

	if (!f || how_set(&f->how, how)) {
		free(f);
		return NULL;
	}
	f->how.made_ns = clock_ns(CLOCK_REALTIME);
	f->cgroup.fd = -1;
	return f;
}

/* --- ending ----------------------------------------------------------------------------------- */

void kept_drop(struct keeper *k, struct kept *f)
{
	for (size_t i = 0; i < k->n_kept; i++)
		if (k->kept[i] == f) {
			k->kept[i] = k->kept[--k->n_kept];
			break;
		}
	enforce_fence_end(f->fence);
	if (f->serial)
		kept_reply(k, f->serial, 0, f->id, 0, "");
	kept_free(f);
}

void kept_end(struct keeper *k, struct kept *f, const char *reason)
{
	union wire_message m = { .ENDING = { .fence_id = f->id } };

	if (f->ending)
		return;
	f->ending = true;
	keeper_ceilings_restore(&f->ceilings, enforce_fence_cgroup(f->fence));
	identity_withdraw(TAKE_PTR(f->identity));
	enforce_fence_flush(f->fence, true);
	if (f->started)
		kept_fact(k, f, CORDON_OP_END, 0, reason);
	if (!f->shown || keeper_tell(k, WIRE_ENDING, 0, &m, NULL))
		kept_drop(k, f);
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
		kept_fact_tell(k, f, &m, host_limit_told(reached->limit)->detail);
		return;
	}
	snprintf(detail, sizeof(detail), "%llu s are over; %s",
		 (unsigned long long)(f->ceilings.time_ms / 1000),
		 audit ? "everything would be killed"
		       : "everything is killed, and whoever enters later");
	kept_fact_tell(k, f, &m, detail);
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
		kept_fact(k, f, CORDON_OP_BROKEN, 0, detail);
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
