// SPDX-License-Identifier: Apache-2.0
/*
 * The requests of the control socket. A policy's text is parsed and compiled here, where there is no privilege; the keeper
 * gets the image, and judges it again.
 */
#include "cordond/front.h"

#include <ctype.h>
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "policy/policy.h"

_Static_assert(CORDOND_POLICY_MAX == CONF_TEXT_MAX, "any policy's text can be sent");

/* What holds when no policy is given: nothing is reachable. */
static const char default_policy[] = "cordon: 1\nname: default\n";

/* --- policies --------------------------------------------------------------------------------- */

static void faults_answer(struct client *c, const struct conf_faults *faults)
{
	json_t *list = json_array();

	for (size_t i = 0; i < faults->n; i++)
		json_array_append_new(
			list, json_pack("{s:i,s:i,s:s}", "line", (int)faults->v[i].line, "column",
					(int)faults->v[i].column, "text", faults->v[i].text));
	json_t *root = json_pack("{s:s,s:s,s:o,s:i}", "error", "policy_invalid", "reason",
				 "the policy has faults; `cordon check` shows the same", "faults",
				 list, "more", (int)faults->more);
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	if (text) {
		client_put(c, text, strlen(text));
		client_put(c, "\n", 1);
	} else {
		c->closing = true;
	}
	free(text);
}

static bool policy_parse_request(struct client *c, const struct cordond_request *r,
				 struct policy **ret_policy)
{
	static struct conf_faults faults;
	const char *text = cordond_text(r, CORDOND_policy);
	const struct policy_options how = { .workdir = cordond_text(r, CORDOND_workdir) };
	int err;

	memset(&faults, 0, sizeof(faults));
	if (!text)
		text = default_policy;
	err = policy_parse(text, strlen(text), &how, ret_policy, &faults);
	if (faults.n)
		faults_answer(c, &faults);
	else if (err)
		client_error(c, "failed", strerror(-err));
	conf_faults_clear(&faults);
	return !err;
}

/* The image in a file of memory, or -errno. */
static int image_file(const struct policy *policy)
{
	struct image *image = NULL;
	int err = policy_compile(policy, &image);
	_cleanup_close_ int fd = err ? -1 : memfd_create("cordon-image", MFD_CLOEXEC);

	if (!err && (fd < 0 || write(fd, image, image->size_bytes) != (ssize_t)image->size_bytes))
		err = -errno;
	free(image);
	return err ? err : TAKE_FD(fd);
}

static void private_forget(struct policy *policy)
{
	for (size_t i = 0; i < policy->private_dirs.n; i++)
		free(TAKE_PTR(policy->private_dirs.v[i]));
	policy->private_dirs.n = 0;
}

/* The policy of a request as an image; -1 when the client was told why not. */
static int request_image(struct client *c, const struct cordond_request *r, bool own_root,
			 struct policy **ret_policy)
{
	int fd;

	if (!policy_parse_request(c, r, ret_policy))
		return -1;
	if (!(*ret_policy)->workdir) {
		client_error(c, "invalid_request",
			     "no workdir: give --workdir, or files.workdir in the policy");
		return -1;
	}
	if ((*ret_policy)->workdir[0] != '/') {
		client_error(c, "invalid_request",
			     "the workdir must be absolute, as the fenced tasks see it");
		return -1;
	}
	if (cordond_flag(r, CORDOND_audit))
		(*ret_policy)->mode = CORDON_MODE_AUDIT;
	if (!own_root) /* the host's own /tmp is no private one */
		private_forget(*ret_policy);
	fd = image_file(*ret_policy);
	if (fd < 0)
		client_error(c, "failed", strerror(-fd));
	return fd < 0 ? -1 : fd;
}

static void identity_of_policy(struct identity *identity, const struct policy *policy)
{
	snprintf(identity->fence_name, sizeof(identity->fence_name), "%s", policy->name);
	snprintf(identity->policy, sizeof(identity->policy), "%s", policy->name);
	identity->n_scopes = 0;
	for (size_t i = 0; i < policy->scopes.n && i < IDENTITY_SCOPES_MAX; i++)
		snprintf(identity->scopes[identity->n_scopes++], sizeof(identity->scopes[0]), "%s",
			 policy->scopes.v[i]);
	identity->upload_bytes = policy->upload_bytes;
	identity->n_allow =
		(uint32_t)policy_opens_pack(policy, identity->allow, IDENTITY_ALLOW_MAX);
	identity->domains_size =
		(uint32_t)policy_domains_pack(policy, identity->domains, IDENTITY_DOMAINS_SIZE);
}

/* --- requests --------------------------------------------------------------------------------- */

static void ask(struct front *front, struct client *c, enum wire_type type, union wire_message *m,
		const int *fds)
{
	int err;

	front->serial = front->serial == UINT32_MAX ? 1 : front->serial + 1;
	err = front_ask(front, type, front->serial, m, fds);
	if (err)
		client_error(c, "unavailable", "the keeper is busy; try again");
	else
		c->serial = front->serial;
}

/* Who the fence is comes into events and file names of others: printable, no blanks. */
static bool text_take(struct client *c, const struct cordond_request *r, enum cordond_member member,
		      const char *name, char *to, size_t size)
{
	const char *text = cordond_text(r, member);
	char reason[128];

	for (const char *p = text; p && *p; p++)
		if (!isgraph((unsigned char)*p)) {
			snprintf(reason, sizeof(reason), "%s: only visible ASCII characters", name);
			client_error(c, "invalid_request", reason);
			return false;
		}
	snprintf(to, size, "%s", text ? text : "");
	return true;
}

static void attach_ask(struct front *front, struct client *c, const struct cordond_request *r)
{
	static union wire_message m;
	struct wire_fence *how = &m.ATTACH.fence;
	struct policy *policy = NULL;
	int64_t ring = cordond_number(r, CORDOND_ring_bytes);
	int64_t rate = cordond_number(r, CORDOND_event_rate);
	const char *root = cordond_text(r, CORDOND_root);
	int fd;

	memset(&m, 0, sizeof(m));
	how->ring_bytes = ring ? (uint64_t)ring : ENFORCE_RING_DEFAULT;
	how->event_rate = (uint32_t)(rate ? rate : front->settings.event_rate);
	how->pid = (int32_t)cordond_number(r, CORDOND_pid);
	how->own_root = cordond_flag(r, CORDOND_own_root);
	snprintf(how->cgroup, sizeof(how->cgroup), "%s", cordond_text(r, CORDOND_cgroup));
	if (how->ring_bytes & (how->ring_bytes - 1)) {
		client_error(c, "invalid_request", "ring_bytes: must be a power of two");
		return;
	}
	snprintf(m.ATTACH.root, sizeof(m.ATTACH.root), "%s", root ? root : "");
	if (how->cgroup[0] != '/' || (root && root[0] != '/')) {
		client_error(c, "invalid_request", "cgroup and root: must be absolute");
		return;
	}
	if (!text_take(c, r, CORDOND_task, "task", how->identity.task,
		       sizeof(how->identity.task)) ||
	    !text_take(c, r, CORDOND_tenant, "tenant", how->identity.tenant,
		       sizeof(how->identity.tenant)) ||
	    !text_take(c, r, CORDOND_subject, "subject", how->identity.subject,
		       sizeof(how->identity.subject)) ||
	    !text_take(c, r, CORDOND_container, "container", how->identity.container,
		       sizeof(how->identity.container)))
		return;
	fd = request_image(c, r, how->own_root, &policy);
	if (fd >= 0) {
		identity_of_policy(&how->identity, policy);
		ask(front, c, WIRE_ATTACH, &m, &fd);
		close(fd);
	}
	policy_free(policy);
}

static void do_attach(struct front *front, struct client *c, const struct cordond_request *r)
{
	uint64_t now_ms = front_now_ms();

	attach_ask(front, c, r);
	if (c->serial)
		c->attach_ms = now_ms;
	else
		front_metrics_attached(front, now_ms, false);
}

/* The fence that the request names; NULL when the client was told. */
static struct watched *fence_of(struct front *front, struct client *c,
				const struct cordond_request *r)
{
	struct watched *f = NULL;
	int err = front_fence_named(front, cordond_text(r, CORDOND_fence), &f);

	if (err == -EEXIST)
		client_error(c, "invalid_request",
			     "several fences have that name; give the id (cordon list)");
	else if (err)
		client_error(c, "fence_not_found", "no such fence; cordon list shows all");
	return err ? NULL : f;
}

static void do_reload(struct front *front, struct client *c, const struct cordond_request *r)
{
	static union wire_message m;
	struct watched *f = fence_of(front, c, r);
	struct policy *policy = NULL;
	int fd;

	if (!f)
		return;
	memset(&m, 0, sizeof(m));
	m.RELOAD.fence_id = f->id;
	fd = request_image(c, r, f->how.own_root, &policy);
	if (fd >= 0) {
		identity_of_policy(&m.RELOAD.identity, policy);
		ask(front, c, WIRE_RELOAD, &m, &fd);
		close(fd);
	}
	policy_free(policy);
}

static void do_detach(struct front *front, struct client *c, const struct cordond_request *r)
{
	struct watched *f = fence_of(front, c, r);
	union wire_message m = { .DETACH = { .fence_id = f ? f->id : 0 } };

	if (f)
		ask(front, c, WIRE_DETACH, &m, NULL);
}

static void do_list(struct front *front, struct client *c)
{
	for (size_t i = 0; i < front->n_watched; i++)
		if (!front->watched[i]->ending)
			client_row(c, front_fence_row(front, front->watched[i]));
	client_ok(c, NULL);
}

static void do_status(struct front *front, struct client *c)
{
	const char *old = front->old_set[0] ? front->old_set : NULL;
	struct timespec now;
	char stream[CORDOND_STREAM_SIZE];

	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(stream, sizeof(stream), "%016llx-%x", (unsigned long long)front->started_ns,
		 front->fronts);
	client_ok(c,
		  json_pack("{s:s,s:s,s:s,s:b,s:s*,s:I,s:i,s:i,s:i,s:i,s:I,s:I,s:I}", "version",
			    CORDON_VERSION, "stream", stream, "attached_as", front->attached_as,
			    "degraded", (int)front->degraded, "old_set", old, "uptime_s",
			    (json_int_t)((uint64_t)now.tv_sec - front->started_ns / 1000000000ULL),
			    "fences", (int)front->n_watched, "connections", (int)front->n_clients,
			    "readers", (int)front->n_readers, "restarts", (int)front->fronts,
			    "events", (json_int_t)front->n_events, "lost",
			    (json_int_t)front->n_lost, "missed_by_readers",
			    (json_int_t)front->n_lagged));
}

/* From now on the connection carries events: those that there are, and with follow all that come. */
static void do_events(struct front *front, struct client *c, const struct cordond_request *r)
{
	const char *task = cordond_text(r, CORDOND_task), *fence = cordond_text(r, CORDOND_fence);
	uint64_t id = 0;
	struct watched *f = NULL;

	if (front->n_readers >= (size_t)front->settings.followers) {
		client_error(
			c, "unavailable",
			"as many read events as limits.followers allows; end one, or raise it");
		return;
	}
	if (fence && !front_fence_named(front, fence, &f))
		id = f->id;
	else if (fence && event_parse_fence_id(fence, &id)) {
		client_error(c, "fence_not_found", "no such fence; cordon list shows all");
		return;
	}
	c->task = task ? strdup(task) : NULL;
	if (task && !c->task) {
		client_error(c, "failed", "out of memory");
		return;
	}
	c->fence_id = id;
	c->follow = cordond_flag(r, CORDOND_follow);
	c->place = c->follow && !cordond_flag(r, CORDOND_past) ? history_newest(front->history)
							       : history_oldest(front->history);
	c->reading = true;
	front->n_readers++;
	client_ok(c, NULL);
}

static void request_do(struct front *front, struct client *c, const struct cordond_request *r)
{
	switch (r->verb) {
	case CORDOND_DO_STATUS:
		do_status(front, c);
		break;
	case CORDOND_DO_LIST:
		do_list(front, c);
		break;
	case CORDOND_DO_EVENTS:
		do_events(front, c, r);
		break;
	case CORDOND_DO_ATTACH:
		do_attach(front, c, r);
		break;
	case CORDOND_DO_RELOAD:
		do_reload(front, c, r);
		break;
	case CORDOND_DO_DETACH:
		do_detach(front, c, r);
		break;
	default:
		break;
	}
}

void front_request(struct front *front, struct client *c, const char *line, size_t size)
{
	struct cordond_request r;
	struct error error = { "" };

	if (cordond_request_parse(line, size, &r, &error)) {
		client_error(c, "invalid_request", error.text);
		return;
	}
	if (c->may & cordond_verb_need(r.verb))
		request_do(front, c, &r);
	else
		client_error(c, "not_permitted",
			     "needs root or an operator: the group that control.operators names "
			     "(cordon-operators)");
	cordond_request_clear(&r);
}
