// SPDX-License-Identifier: Apache-2.0
/* See setup.h. Root, because the probe needs it. Refuses; never weakens what was asked. */
#include "cordon/setup.h"
#include "conf/file.h"
#include "gwconf/gwconf.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

_Static_assert(POLICY_SCOPES_MAX <= IDENTITY_SCOPES_MAX && POLICY_SCOPE_MAX <= IDENTITY_SCOPE_MAX,
	       "an identity holds the scopes of any policy");
_Static_assert(POLICY_DOMAINS_SIZE <= IDENTITY_DOMAINS_SIZE &&
		       POLICY_OPENS_MAX <= IDENTITY_ALLOW_MAX,
	       "and what it may reach by name");

/* What holds when no policy is given: nothing is reachable, the usual variables are passed. */
static const char default_policy[] = "cordon: 1\n"
				     "name: default\n"
				     "env: {pass: [PATH, HOME, LANG, TERM]}\n";

int setup_host(struct host_report *ret_report, bool degraded, bool *ret_degraded,
	       struct error *error)
{
	int err;

	if (geteuid())
		return error_set(error, EPERM,
				 "must be root: a fence takes CAP_SYS_ADMIN and CAP_BPF; use sudo");
	host_probe(ret_report);
	*ret_degraded = false;
	err = host_report_refuse(ret_report, error);
	if (!err)
		return 0;
	if (ret_report->lost & HOST_NEED_NETWORK || !degraded)
		return err;
	error->text[0] = '\0';
	*ret_degraded = ret_report->lost & HOST_NEED_FILES;
	return 0;
}

/* Identities come into events and file names of others: printable, no blanks, short. */
static int identity_check(const char *option, const char *value, struct error *error)
{
	if (!value)
		return 0;
	if (!*value || strlen(value) > 128)
		return error_set(error, EINVAL, "--%s: 1 to 128 characters", option);
	for (const char *c = value; *c; c++)
		if (!isgraph((unsigned char)*c))
			return error_set(error, EINVAL, "--%s: only visible ASCII characters",
					 option);
	return 0;
}

static int workdir_resolve(struct setup *setup, const char *workdir, bool need, struct error *error)
{
	char path[PATH_MAX];

	if (!workdir && need && !getcwd(path, sizeof(path)))
		return error_set(error, errno, "the current directory is gone: give --workdir");
	if (workdir && setup->attach) {
		if (workdir[0] != '/')
			return error_set(
				error, EINVAL,
				"--workdir %s: must be absolute, as the fenced tasks see it",
				workdir);
		snprintf(path, sizeof(path), "%s", workdir);
	} else if (workdir && !realpath(workdir, path)) {
		return error_set(error, errno, "--workdir %s: %s", workdir, strerror(errno));
	}
	if (!workdir && !need)
		return 0;
	setup->workdir = strdup(path);
	return setup->workdir ? 0 : error_set(error, ENOMEM, "out of memory");
}

/* A file of the gateway's in place of a policy is one mistake, not as many as it has keys. */
static const char *other_kind(const char *path)
{
	_cleanup_free_ char *text = NULL;
	size_t length;

	if (conf_file_read(path, &text, &length) < 0)
		return NULL;
	switch (gwconf_kind_of(text, length)) {
	case GWCONF_KIND_CONFIG:
		return "a configuration of the gateway (cordon-gateway --config)";
	case GWCONF_KIND_TOOL:
		return "a tool of the gateway";
	default:
		return NULL;
	}
}

/* A policy's text is parsed; its faults go to stderr at once, all of them. */
static int policy_read(struct setup *setup, const struct setup_options *options, bool need_workdir,
		       struct error *error)
{
	struct policy_options how = {
		.workdir = setup->workdir,
		.check_paths = !setup->attach,
		.need_workdir = need_workdir,
	};
	struct conf_faults faults = { 0 };
	const char *kind;
	int err;

	if (options->policy)
		err = policy_load(options->policy, &how, &setup->policy, &faults);
	else
		err = policy_parse(default_policy, sizeof(default_policy) - 1, &how, &setup->policy,
				   &faults);
	setup->policy_invalid = faults.n && options->policy;
	if (faults.n && !options->policy) { /* in what the command line says, then */
		error_set(error, EINVAL, "%s", faults.v[0].text);
	} else if (faults.n && (kind = other_kind(options->policy))) {
		error_set(error, EINVAL, "%s is no policy, but %s", options->policy, kind);
	} else if (faults.n) {
		conf_faults_print(&faults, options->policy, stderr);
		error_set(error, EINVAL, "the policy has faults; `cordon check` shows the same");
	} else if (err) {
		error_set(error, -err, "%s: %s", options->policy, strerror(-err));
	}
	conf_faults_clear(&faults);
	return err;
}

/* The workdir: --workdir, else the policy's, else, for a policy that has none, the current directory. */
static int setup_policy(struct setup *setup, const struct setup_options *options,
			struct error *error)
{
	int err = workdir_resolve(setup, options->workdir, false, error);

	if (!err)
		err = policy_read(setup, options, false, error);
	if (!err && !setup->policy->workdir && !setup->attach) {
		policy_free(TAKE_PTR(setup->policy));
		err = workdir_resolve(setup, NULL, true, error);
		if (!err)
			err = policy_read(setup, options, true, error);
	}
	if (!err && !setup->workdir && setup->policy->workdir)
		err = workdir_resolve(setup, setup->policy->workdir, true, error);
	if (!err && setup->attach && !setup->policy->workdir)
		err = error_set(error, EINVAL,
				"no workdir: give --workdir, or files.workdir in the policy");
	if (err)
		return err;
	if (options->audit)
		setup->policy->mode = CORDON_MODE_AUDIT;
	if (setup->attach && !setup->own_root) { /* the host's own /tmp is no private one */
		for (size_t i = 0; i < setup->policy->private_dirs.n; i++)
			free(TAKE_PTR(setup->policy->private_dirs.v[i]));
		setup->policy->private_dirs.n = 0;
	}
	err = policy_compile(setup->policy, &setup->image);
	return err ? error_set(error, -err, "the policy does not compile: %s", strerror(-err)) : 0;
}

int setup_prepare(struct setup *setup, const struct setup_options *options, struct error *error)
{
	size_t ring = options->ring_bytes;
	int err = ring & (ring - 1)
			  ? error_set(error, EINVAL, "--ring-size: must be a power of two")
			  : 0;

	if (!err)
		err = identity_check("task", options->task, error);
	if (!err)
		err = identity_check("tenant", options->tenant, error);
	if (!err)
		err = identity_check("subject", options->subject, error);
	if (!err)
		err = setup_host(&setup->report, options->degraded, &setup->degraded, error);
	if (!err)
		err = setup_policy(setup, options, error);
	if (err)
		return err;
	gethostname(setup->node, sizeof(setup->node) - 1);
	setup->context = (struct event_context){
		.node = setup->node,
		.fence_name = setup->policy->name,
		.policy = setup->policy->name,
		.task = options->task,
		.tenant = options->tenant,
		.subject = options->subject,
		.container = setup->container[0] ? setup->container : NULL,
		.degraded = setup->degraded	 ? "files and processes are not enforced"
			    : setup->report.lost ? "a hook can be raced: this kernel preempts it"
						 : NULL,
	};
	return 0;
}

int setup_ceilings(struct setup *setup, const struct setup_options *options,
		   const struct host_cgroup *cgroup, struct ceilings *ret_ceilings,
		   struct error *error)
{
	const char *degraded = setup->context.degraded;
	int err = ceilings_prepare(ret_ceilings, setup->image, cgroup, !setup->attach,
				   options->degraded, error);

	if (!err && setup->degraded && setup->image->policy.output_bytes) {
		size_t n = strlen(ret_ceilings->lacks);

		snprintf(ret_ceilings->lacks + n, sizeof(ret_ceilings->lacks) - n,
			 "%slimits.output", n ? ", " : "");
	}
	if (err || !ret_ceilings->lacks[0])
		return err;
	snprintf(setup->lacks, sizeof(setup->lacks), "%s%snot enforced: %s",
		 degraded ? degraded : "", degraded ? "; " : "", ret_ceilings->lacks);
	setup->context.degraded = setup->lacks;
	return 0;
}

void setup_announce(const struct setup *setup, struct stream *stream, const struct enforce *enforce,
		    unsigned int proved)
{
	char detail[512];
	int n = snprintf(detail, sizeof(detail), "workdir %s",
			 setup->policy->workdir ? setup->policy->workdir : "none");

	for (size_t i = 0; i < setup->policy->labels.n && n < (int)sizeof(detail); i++)
		n += snprintf(detail + n, sizeof(detail) - n, "%s %s", i ? "," : "; labels",
			      setup->policy->labels.v[i]);
	if (enforce_fence_info(stream->fence)->ipc_shared && n < (int)sizeof(detail))
		snprintf(detail + n, sizeof(detail) - n, "; " ENFORCE_IPC_SHARED);
	stream_emit(stream, CORDON_OP_START, 0, detail);
	snprintf(detail, sizeof(detail), "%u attempts from inside were denied; attached as %s",
		 proved, enforce_attach_type(enforce));
	stream_emit(stream, CORDON_OP_ENFORCING, proved, detail);
}

static void identity_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from ? from : "");
}

int setup_publish(const struct setup *setup, const struct enforce_fence *fence,
		  struct identity_owner **ret_owner, struct error *error)
{
	const struct event_context *context = &setup->context;
	struct identity identity = {
		.fence_id = enforce_fence_info(fence)->id,
		.generation = enforce_fence_policy(fence)->generation,
		.mode = enforce_fence_policy(fence)->mode,
	};
	/* Until the process ends: the owner borrows them. */
	static struct identity_maps maps = { -1, -1 };
	struct identity_key key;

	if (maps.peers_fd < 0)
		maps.peers_fd = enforce_peers_open(error);
	if (maps.peers_fd < 0)
		return maps.peers_fd;
	if (maps.notes_fd < 0)
		maps.notes_fd = enforce_notes_open(error);
	if (maps.notes_fd < 0)
		return maps.notes_fd;
	identity_text(identity.tenant, sizeof(identity.tenant), context->tenant);
	identity_text(identity.subject, sizeof(identity.subject), context->subject);
	identity_text(identity.task, sizeof(identity.task), context->task);
	identity_text(identity.fence_name, sizeof(identity.fence_name), context->fence_name);
	identity_text(identity.policy, sizeof(identity.policy), context->policy);
	identity_text(identity.container, sizeof(identity.container), context->container);
	identity_text(identity.node, sizeof(identity.node), context->node);
	for (size_t i = 0; i < setup->policy->scopes.n && i < IDENTITY_SCOPES_MAX; i++)
		identity_text(identity.scopes[identity.n_scopes++], sizeof(identity.scopes[0]),
			      setup->policy->scopes.v[i]);
	identity.upload_bytes = setup->policy->upload_bytes;
	identity.n_allow =
		(uint32_t)policy_opens_pack(setup->policy, identity.allow, IDENTITY_ALLOW_MAX);
	identity.domains_size = (uint32_t)policy_domains_pack(setup->policy, identity.domains,
							      IDENTITY_DOMAINS_SIZE);
	enforce_fence_peer_key(fence, key.k);
	return identity_publish(NULL, &identity, enforce_fence_slot(fence), &key,
				enforce_fence_peer_next(fence), &maps, ret_owner, error);
}

void setup_clear(struct setup *setup)
{
	policy_free(TAKE_PTR(setup->policy));
	free(TAKE_PTR(setup->image));
	free(TAKE_PTR(setup->workdir));
}
