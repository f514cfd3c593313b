// SPDX-License-Identifier: Apache-2.0
/*
 * What the front asks for about fences that there are: another policy, the end, numbers for events of its own. Root. What
 * it sends is judged here again; what fails leaves the fence as it was.
 */
#include "cordond/keeper_fence.h"

#include <errno.h>
#include <limits.h>

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

/* What the policy's text says besides the image: its name, scopes, and what is reached by name. */
static int identity_renew(struct how *how, const struct identity *from)
{
	struct identity identity;

	identity_unpack(how->identity, &identity);
	memcpy(identity.fence_name, from->fence_name, sizeof(identity.fence_name));
	memcpy(identity.policy, from->policy, sizeof(identity.policy));
	memcpy(identity.scopes, from->scopes, sizeof(identity.scopes));
	identity.n_scopes = from->n_scopes;
	identity.upload_bytes = from->upload_bytes;
	identity.n_allow = from->n_allow;
	memcpy(identity.allow, from->allow, sizeof(identity.allow));
	identity.domains_size = from->domains_size;
	memcpy(identity.domains, from->domains, sizeof(identity.domains));
	return how_identity_set(how, &identity);
}

static void policy_tell(struct keeper *k, struct kept *f)
{
	union wire_message m = { .POLICY = { .fence_id = f->id } };
	char detail[256];

	identity_unpack(f->how.identity, &m.POLICY.identity);
	if (f->shown)
		keeper_tell(k, WIRE_POLICY, 0, &m, NULL);
	snprintf(detail, sizeof(detail), "policy %s, generation %llu",
		 how_text(&f->how, IDENTITY_POLICY),
		 (unsigned long long)identity_packed_generation(f->how.identity));
	kept_fact(k, f, CORDON_OP_RELOAD, 0, detail);
}

static int fence_reload(struct keeper *k, struct kept *f, const struct wire_reload *request,
			int image_fd, struct error *error)
{
	const struct host_cgroup *cgroup = enforce_fence_cgroup(f->fence);
	struct keeper_ceilings before = f->ceilings, next;
	struct image *image = NULL;
	int err = keeper_image_read(image_fd, &image, error);

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
	if (identity_renew(&f->how, &request->identity))
		return error_set(error, ENOMEM,
				 "the policy holds, but gateways know the fence by the one before: "
				 "out of memory");
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
	kept_reply(k, request->head.serial, err, request->fence_id, 0, error.text);
	return 0;
}

int keeper_detach(struct keeper *k, const struct wire_detach *request)
{
	struct kept *f = kept_find(k, request->fence_id);

	if (!f || f->ending) {
		kept_reply(k, request->head.serial, -ENOENT, request->fence_id, 0, "no such fence");
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
		kept_fact_tell(k, f, &m, request->gap.detail);
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

	switch (request->op) {
	case CORDON_OP_STEER:
		m.FACT.verdict = CORDON_VERDICT_DENY;
		break;
	case CORDON_OP_DENY_RATE:
		m.FACT.rule = CORDON_RULE_ALERT_DENY_RATE;
		break;
	case CORDON_OP_DESTRUCTIVE:
		m.FACT.rule = CORDON_RULE_ALERT_DESTRUCTIVE;
		break;
	default:
		return -EPROTO;
	}
	if (!wire_text_is_sound(request->detail, sizeof(request->detail)))
		return -EPROTO;
	if (f)
		kept_fact_tell(k, f, &m, request->detail);
	return 0;
}

/* What is not numbered is of no fence that is kept. A number that the front does not get shows as a gap. */
int keeper_number(struct keeper *k, const struct wire_number *request)
{
	struct kept *f = kept_find(k, request->fence_id);
	union wire_message m = { .NUMBERED = { .seq = 0 } };

	if (f)
		m.NUMBERED.seq = kept_number_take(f);
	keeper_tell(k, WIRE_NUMBERED, request->head.serial, &m, NULL);
	return 0;
}

int keeper_ended(struct keeper *k, uint64_t fence_id)
{
	struct kept *f = kept_find(k, fence_id);

	if (f && f->ending)
		kept_drop(k, f);
	return 0;
}
