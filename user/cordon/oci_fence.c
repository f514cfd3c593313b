// SPDX-License-Identifier: Apache-2.0
/* See oci_fence.h. */
#include "cordon/oci_fence.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <syslog.h>

#include "host/host.h"

int oci_text_read(int fd, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = malloc(OCI_TEXT_MAX + 1);
	size_t have = 0;
	ssize_t n;

	if (!text)
		return -ENOMEM;
	while ((n = read(fd, text + have, OCI_TEXT_MAX + 1 - have)) != 0) {
		if (n < 0 && errno != EINTR)
			return -errno;
		have += n > 0 ? (size_t)n : 0;
		if (have > OCI_TEXT_MAX)
			return -E2BIG;
	}
	*ret_text = TAKE_PTR(text);
	*ret_size = have;
	return 0;
}

/* A message a line; one by one, because the faults of a policy come first. */
static void lines_log(const char *said)
{
	size_t n;

	openlog("cordon", LOG_PID, LOG_DAEMON);
	for (; *said; said += n + (said[n] == '\n')) {
		n = strcspn(said, "\n");
		syslog(LOG_ERR, "%.*s", (int)n, said);
	}
	closelog();
}

int oci_hear(int (*fn)(void *context), void *context, char *ret_said, size_t size)
{
	_cleanup_close_ int heard = memfd_create("cordon-said", MFD_CLOEXEC);
	_cleanup_close_ int stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	ssize_t n;
	int code;

	ret_said[0] = '\0';
	if (heard < 0 || stderr_fd < 0)
		return fn(context);
	fflush(stderr);
	dup2(heard, STDERR_FILENO);
	code = fn(context);
	fflush(stderr);
	dup2(stderr_fd, STDERR_FILENO);
	n = pread(heard, ret_said, size - 1, 0);
	ret_said[n > 0 ? n : 0] = '\0';
	fputs(ret_said, stderr);
	lines_log(ret_said);
	if (n > 0 && ret_said[n - 1] == '\n')
		ret_said[n - 1] = '\0';
	return code;
}

/*
 * The container's cgroup, by that of its init. crun puts it into a cgroup named "container" below that of the container, where systemd
 * made the latter: what is made beside it belongs to the container, too.
 */
static int cgroup_of(const struct oci_state *state, char *ret_path, size_t size,
		     struct error *error)
{
	int err = host_cgroup_of_pid(state->pid, ret_path, size, error);
	char *leaf = err ? NULL : strrchr(ret_path, '/'), *above;

	if (!leaf || strcmp(leaf, "/container") != 0)
		return err;
	*leaf = '\0';
	above = strrchr(ret_path, '/');
	if (!above || !strstr(above, state->id))
		*leaf = '/';
	return 0;
}

static int attach_ask(const struct oci_options *o, const char *policy, json_t *request)
{
	struct daemon_client client = { .reader.fd = -1 };
	struct error error = { "" };
	char path[4096];
	int code, err;

	if (snprintf(path, sizeof(path), "%s/%s.yaml", o->policies, policy) >= (int)sizeof(path))
		code = cli_fail(EXIT_USAGE, "--policies: too long");
	else
		code = daemon_client_policy(request, path);
	if (code) {
		json_decref(request);
		return code;
	}
	err = daemon_client_open(&client, o->socket, &error);
	if (err) {
		json_decref(request);
		code = daemon_client_fail(err, &error);
	} else {
		code = daemon_client_ask(&client, request, path, NULL, NULL, NULL);
	}
	daemon_client_close(&client);
	return code;
}

static const char *given(const char *text)
{
	return text[0] ? text : NULL;
}

int oci_container_fence(const struct oci_options *o, const struct oci_state *state,
			const char *policy, const char *root)
{
	json_t *request;
	struct error error = { "" };
	char cgroup[4096];

	if (state->no_exec)
		return cli_fail(
			EXIT_HOST,
			"annotation %s: such a container executes nothing, and so would not "
			"be fenced",
			state->no_exec);
	if (cgroup_of(state, cgroup, sizeof(cgroup), &error))
		return cli_fail(EXIT_FOUND, "%s", error.text);
	request = daemon_client_request(CORDOND_DO_ATTACH);
	daemon_client_text(request, "cgroup", cgroup);
	daemon_client_number(request, "pid", state->pid);
	daemon_client_flag(request, "own_root", true);
	daemon_client_text(request, "root", root);
	daemon_client_text(request, "container", state->id);
	daemon_client_text(request, "workdir", given(state->workdir));
	daemon_client_text(request, "task", given(state->task));
	daemon_client_text(request, "tenant", given(state->tenant));
	daemon_client_text(request, "subject", given(state->subject));
	return attach_ask(o, policy, request);
}

int oci_policy_of(const struct oci_options *o, const struct oci_state *state,
		  const char **ret_policy)
{
	*ret_policy = state->policy[0] ? state->policy : o->policy;
	if (*ret_policy ||
	    !(state->task[0] || state->tenant[0] || state->subject[0] || state->workdir[0]))
		return EXIT_OK;
	return cli_fail(EXIT_USAGE, "annotations dev.cordon.* without dev.cordon.policy");
}

int oci_options_judge(const struct oci_options *o)
{
	if (o->policies[0] != '/')
		return cli_fail(EXIT_USAGE, "--policies: must be an absolute path");
	if (o->policy && !oci_policy_name(o->policy))
		return cli_fail(EXIT_USAGE,
				"--policy: must be the name of a policy in %s, without .yaml",
				o->policies);
	return EXIT_OK;
}
