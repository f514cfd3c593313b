// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon attach`: a fence around a cgroup that is there already, for as long as this process streams its events.
 * Root. The tasks are frozen while the fence is put around them, so that none can fork past it. An interrupt
 * detaches: the tasks go on, free. A kill of this process leaves them fenced; attach again to take the fence over
 * once they ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "cordon/cli.h"
#include "cordon/daemon_client.h"
#include "cordon/setup.h"
#include "cordon/stream.h"

enum {
	POLL_MS = 20,
	FREEZE_TIMEOUT_MS = 5000,
	KILL_TIMEOUT_MS = 10000,
	EMPTY_EVERY = 25,
	FOUND_MAX = 64
};

struct attach_options {
	struct setup_options setup;
	const char *cgroup;
	unsigned int pid;
	const char *container;
	bool foreground;
	const char *socket;
};

#define SETUP(member) offsetof(struct attach_options, setup.member)

static const struct cli_option attach_option_rows[] = {
	{ 0, "cgroup", CLI_STRING, offsetof(struct attach_options, cgroup), "PATH",
	  "the cgroup (v2), by its path below the mount or absolute", 0, 0, NULL },
	{ 0, "pid", CLI_UINT, offsetof(struct attach_options, pid), "PID",
	  "the cgroup that this process is in", 1, INT_MAX, NULL },
	{ 0, "container", CLI_STRING, offsetof(struct attach_options, container), "ID",
	  "a running container of podman, docker or containerd, by id or name", 0, 0, NULL },
	{ 0, "foreground", CLI_FLAG, offsetof(struct attach_options, foreground), NULL,
	  "hold the fence and stream its events here, also when cordond runs", 0, 0, NULL },
	DAEMON_CLIENT_OPTION(offsetof(struct attach_options, socket)),
	SETUP_OPTIONS(SETUP),
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

struct attach {
	const struct attach_options *options;
	struct setup setup;
	struct host_cgroup cgroup;
	pid_t pid; /* whose root directory paths are resolved in */
	struct enforce *enforce;
	struct enforce_fence *fence;
	struct identity_owner *identity;
	struct ceilings ceilings;
	struct stream stream;
	int signal_fd;
};

/* Any task of the cgroup, for its root directory; this process when there is none. */
static pid_t cgroup_first_pid(const struct host_cgroup *cgroup)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[PATH_MAX + 16];
	int pid;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup->path);
	f = fopen(path, "re");
	return f && fscanf(f, "%d", &pid) == 1 && pid > 0 ? pid : getpid();
}

/* Which cgroup: exactly one of the three ways must be given. */
static int attach_find(struct attach *a, struct error *error)
{
	const struct attach_options *o = a->options;
	char path[PATH_MAX], mount[PATH_MAX];
	int err = 0;

	if (!!o->cgroup + !!o->pid + !!o->container != 1)
		return error_set(error, EINVAL, "give one of --cgroup, --pid and --container");
	if (o->container) {
		err = host_container_pid(o->container, &a->pid, a->setup.container,
					 sizeof(a->setup.container), error);
		a->setup.own_root = true;
	} else if (o->pid) {
		a->pid = o->pid;
	}
	if (err)
		return err;
	if (a->pid) {
		err = host_cgroup_of_pid(a->pid, path, sizeof(path), error);
	} else if (o->cgroup[0] == '/' && !access(o->cgroup, F_OK)) {
		snprintf(path, sizeof(path), "%s", o->cgroup);
	} else {
		enum host_cgroup_layout layout = host_cgroup_find(mount);

		if (layout != HOST_CGROUP_V2 && layout != HOST_CGROUP_HYBRID)
			return error_set(
				error, ENOTSUP,
				"no cgroup v2 mount: mount -t cgroup2 none /sys/fs/cgroup");
		if (snprintf(path, sizeof(path), "%s/%s", mount, o->cgroup) >= (int)sizeof(path))
			return error_set(error, ENAMETOOLONG, "--cgroup: too long");
	}
	if (!err)
		err = host_cgroup_open(path, &a->cgroup, error);
	if (!err && !a->pid)
		a->pid = cgroup_first_pid(&a->cgroup);
	return err;
}

/* What was found to be held from before; see enforce_fence_find(). */
struct attach_found {
	struct attach *attach;
	unsigned int n;
	char kept[PATH_MAX + 128]; /* the first that the kernel cannot take back */
};

static void attach_note_found(void *context, const struct cordon_found *found)
{
	struct attach_found *all = context;
	char text[PATH_MAX + 128];

	if (++all->n > FOUND_MAX && (all->kept[0] || !found->start))
		return;
	enforce_found_name(found, text, sizeof(text));
	stream_emit(&all->attach->stream, CORDON_OP_HOLDS, found->pid, text);
	if ((found->start || found->rule == CORDON_RULE_FILES_DESCRIPTOR) && !all->kept[0])
		snprintf(all->kept, sizeof(all->kept), "%s", text);
}

/* Descriptors are judged from now on. A mapping is not, so that a fence around one would not hold. */
static int attach_find_held(struct attach *a, struct error *error)
{
	struct attach_found all = { .attach = a };
	char text[64];
	int err = enforce_fence_find(a->fence, attach_note_found, &all, error);

	if (all.n > FOUND_MAX) {
		snprintf(text, sizeof(text), "and %u more", all.n - FOUND_MAX);
		stream_emit(&a->stream, CORDON_OP_HOLDS, all.n, text);
	}
	if (!err && all.kept[0] && a->setup.policy->mode == CORDON_MODE_ENFORCE)
		err = error_set(
			error, ENOTSUP,
			"%s, which the kernel cannot take back: end the process, or allow the "
			"file in files.write",
			all.kept);
	return err;
}

/* Where descriptors 1 and 2 of the task lead whose root directory counts: those of the cgroup's command, mostly. */
static void outs_open(pid_t pid, int *ret_fds)
{
	char path[64];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, i + 1);
		ret_fds[i] = open(path, O_PATH | O_CLOEXEC);
	}
}

static void outs_close(const int *fds)
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* With the tasks frozen: fence, policy, marks. */
static int attach_frozen(struct attach *a, struct error *error)
{
	int out_fds[2];
	const struct enforce_fence_options options = {
		.cgroup = &a->cgroup,
		.out_fds = out_fds,
		.attached = true,
		.descriptors = true,
		.ring_bytes = a->options->setup.ring_bytes,
		.event_rate = a->options->setup.event_rate ?: ENFORCE_EVENT_RATE_DEFAULT,
	};
	int err;

	outs_open(a->pid, out_fds);
	err = enforce_fence_make(a->enforce, &options, &a->fence, error);
	outs_close(out_fds);
	if (!err) {
		stream_begin(&a->stream, a->fence, &a->setup.context);
		err = enforce_fence_set(a->fence, a->setup.image, a->pid, true, error);
	}
	if (!err)
		err = enforce_fence_mark_tasks(a->fence, error);
	return err ? err : attach_find_held(a, error);
}

static int attach_enclose(struct attach *a, struct error *error)
{
	unsigned int proved = 0;
	int err = host_cgroup_freeze(&a->cgroup, true, FREEZE_TIMEOUT_MS, error);

	if (!err)
		err = attach_frozen(a, error);
	if (host_cgroup_freeze(&a->cgroup, false, FREEZE_TIMEOUT_MS, err ? NULL : error) && !err)
		err = -EIO;
	if (!err)
		err = enforce_fence_selftest(a->fence, &proved, error);
	if (!err)
		err = ceilings_apply(&a->ceilings, error);
	if (!err)
		err = setup_publish(&a->setup, a->fence, &a->identity, error);
	if (!err)
		setup_announce(&a->setup, &a->stream, a->enforce, proved);
	return err;
}

static int attach_signals(struct attach *a, struct error *error)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN);
	a->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return a->signal_fd < 0 ? error_set(error, errno, "signalfd: %s", strerror(errno)) : 0;
}

/* The time is over. What cannot be killed is said and stays fenced. */
static void attach_end_time(const struct attach *a)
{
	struct error error = { "" };

	if (host_cgroup_kill(&a->cgroup, KILL_TIMEOUT_MS, &error))
		cli_fail(0, "limits.time: %s", error.text);
}

/* Until an interrupt, or until the last task is gone. Returns the reason. */
static const char *attach_wait(struct attach *a)
{
	struct pollfd fds[] = {
		{ .fd = a->signal_fd, .events = POLLIN },
		{ .fd = identity_owner_fd(a->identity), .events = POLLIN },
	};

	for (unsigned int round = 1;; round++) {
		stream_pump(&a->stream, 0);
		stream_watch(&a->stream);
		if (ceilings_watch(&a->ceilings, &a->stream))
			attach_end_time(a);
		if (poll(fds, ARRAY_SIZE(fds), POLL_MS) > 0 && fds[0].revents)
			return "detached";
		identity_serve(a->identity);
		if (round % EMPTY_EVERY == 0 && host_cgroup_populated(&a->cgroup) <= 0)
			return "the cgroup is empty";
	}
}

static int attach_run(struct attach *a, struct error *error)
{
	int err = attach_find(a, error);
	bool shared; /* paths of the policy are paths of ours */

	if (!err)
		err = setup_prepare(&a->setup, &a->options->setup, error);
	shared = !err && !a->setup.own_root;
	if (!err)
		err = stream_open(&a->stream, a->options->setup.events, a->options->setup.format,
				  shared ? a->setup.policy->workdir : NULL,
				  shared ? a->setup.policy->write.v : NULL, error);
	if (!err)
		err = enforce_open(&a->setup.report, a->setup.degraded, &a->enforce, error);
	if (!err)
		err = setup_ceilings(&a->setup, &a->options->setup, &a->cgroup, &a->ceilings,
				     error);
	if (!err)
		err = attach_signals(a, error);
	if (!err)
		err = attach_enclose(a, error);
	return err;
}

static int attach_code(const struct attach *a, int err)
{
	if (a->setup.policy_invalid)
		return EXIT_POLICY;
	switch (-err) {
	case EINVAL:
		return EXIT_USAGE;
	case ENOTSUP:
	case EXFULL:
		return EXIT_HOST;
	case EPERM:
		return EXIT_PERMISSION;
	default:
		return EXIT_FOUND;
	}
}

static int attach_foreground(const struct attach_options *options)
{
	struct attach a = {
		.options = options,
		.setup.attach = true,
		.cgroup.fd = -1,
		.signal_fd = -1,
	};
	struct error error = { "" };
	const char *reason = "refused";
	char id[EVENT_FENCE_ID_SIZE];
	int err = attach_run(&a, &error);

	if (!err) {
		printf("%s\n", event_format_fence_id(enforce_fence_info(a.fence)->id, id));
		fflush(stdout);
		ceilings_begin(&a.ceilings);
		reason = attach_wait(&a);
		ceilings_finish(&a.ceilings, &a.stream);
	}
	ceilings_restore(&a.ceilings);
	identity_withdraw(a.identity);
	stream_end(&a.stream, reason);
	enforce_fence_end(a.fence);
	host_cgroup_close(&a.cgroup);
	enforce_close(a.enforce);
	setup_clear(&a.setup);
	if (a.signal_fd >= 0)
		close(a.signal_fd);
	return err ? cli_fail(attach_code(&a, err), "%s", error.text) : EXIT_OK;
}

/* --- by cordond ------------------------------------------------------------------------------- */

static json_t *attach_request(const struct attach *a)
{
	const struct attach_options *o = a->options;
	json_t *request = daemon_client_request(CORDOND_DO_ATTACH);

	daemon_client_text(request, "cgroup", a->cgroup.path);
	daemon_client_number(request, "pid", a->pid == getpid() ? 1 : a->pid);
	daemon_client_flag(request, "own_root", a->setup.own_root);
	daemon_client_text(request, "container", a->setup.container[0] ? a->setup.container : NULL);
	daemon_client_text(request, "workdir", o->setup.workdir);
	daemon_client_text(request, "task", o->setup.task);
	daemon_client_text(request, "tenant", o->setup.tenant);
	daemon_client_text(request, "subject", o->setup.subject);
	daemon_client_number(request, "ring_bytes", (long long)o->setup.ring_bytes);
	if (o->setup.event_rate)
		daemon_client_number(request, "event_rate", o->setup.event_rate);
	daemon_client_flag(request, "audit", o->setup.audit);
	return request;
}

static int attach_ask(struct attach *a, struct daemon_client *client)
{
	const struct attach_options *o = a->options;
	json_t *request = attach_request(a), *status = NULL;
	int code = o->setup.policy ? daemon_client_policy(request, o->setup.policy) : EXIT_OK;

	if (code) {
		json_decref(request);
		return code;
	}
	code = daemon_client_ask(client, request, o->setup.policy, NULL, NULL, &status);
	if (!code)
		printf("%s\n", json_string_value(json_object_get(status, "fence")));
	json_decref(status);
	return code;
}

/* The names of processes and containers are resolved here; cordond gets a cgroup and a process id. */
static int attach_by_daemon(const struct attach_options *options)
{
	struct attach a = { .options = options, .cgroup.fd = -1 };
	struct daemon_client client = { .reader.fd = -1 };
	struct error error = { "" };
	int code, err;

	if (options->setup.events || options->setup.format || options->setup.degraded)
		return cli_fail(EXIT_USAGE,
				"--events, --format and --degraded go with --foreground; "
				"cordond's events: cordon events -f");
	err = attach_find(&a, &error);
	if (err) {
		code = cli_fail(attach_code(&a, err), "%s", error.text);
	} else {
		err = daemon_client_open(&client, options->socket, &error);
		code = err ? daemon_client_fail(err, &error) : attach_ask(&a, &client);
	}
	daemon_client_close(&client);
	host_cgroup_close(&a.cgroup);
	return code;
}

static int cmd_attach(const void *options, int argc, char **argv)
{
	const struct attach_options *o = options;

	(void)argc;
	(void)argv;
	if (!o->foreground && (o->socket || daemon_client_is_there(NULL)))
		return attach_by_daemon(o);
	return attach_foreground(o);
}

const struct cli_verb cli_verb_attach = {
	.name = "attach",
	.summary = "put a fence around a cgroup or container that runs",
	.arguments = "",
	.text = "Fences every task of the cgroup, and every one that enters it, and prints the id "
		"of the "
		"fence. Paths of the policy are those that the fenced tasks see.\n\n"
		"Where cordond runs, it keeps the fence and this command ends at once: `cordon "
		"detach` ends the fence, or the removal of its cgroup does; `cordon events -f` "
		"shows what happens. With --foreground, and where no cordond runs, the fence is "
		"this "
		"command's: it streams events until it is interrupted, which detaches, or until "
		"the "
		"cgroup is empty.\n\n"
		"The tasks are frozen for the moment in which the fence is put around them. "
		"Descriptors and sockets "
		"that they opened before stay open; what the policy denies is not "
		"done through them. A file that is mapped shared and writable, and that the policy "
		"denies, cannot be taken back: it is named, and the fence refused.\n\n"
		"If cordon or cordond is killed, the tasks stay fenced; the next cordond takes its "
		"fences over.",
	.options = attach_option_rows,
	.options_size = sizeof(struct attach_options),
	.min_args = 0,
	.max_args = 0,
	.run = cmd_attach,
};
