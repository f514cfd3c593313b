// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon oci-hook`: a fence around a container before its command begins. Run by an OCI runtime between making the
 * container and executing its command. Asks cordond; no privilege of its own.
 *
 * Fails closed: whatever goes wrong ends with one line and an exit code that has the runtime not start the container. A container
 * that nobody asked a fence for is left alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "cordon/fences.h"
#include "cordon/oci_fence.h"

/* The directory that becomes the container's root, by its bundle. */
static int bundle_root(const struct oci_state *state, char *ret_root, size_t size,
		       struct error *error)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	char path[sizeof(state->bundle) + 16];
	size_t n = 0;
	int err;

	snprintf(path, sizeof(path), "%s/config.json", state->bundle);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	err = fd < 0 ? -errno : oci_text_read(fd, &text, &n);
	if (err)
		return error_set(error, -err, "%s: %s", path, strerror(-err));
	return oci_config_root(text, n, state->bundle, ret_root, size, error);
}

static int hook_create(const struct oci_options *o, const struct oci_state *state)
{
	struct error error = { "" };
	const char *policy;
	char root[4096];
	int code = oci_policy_of(o, state, &policy);

	if (code || !policy)
		return code;
	if (bundle_root(state, root, sizeof(root), &error))
		return cli_fail(EXIT_FOUND, "%s", error.text);
	return oci_container_fence(o, state, policy, root);
}

static int fence_detach(const struct oci_options *o, const char *id)
{
	json_t *request = daemon_client_request(CORDOND_DO_DETACH);
	struct daemon_client client;
	struct error error = { "" };
	int code, err = daemon_client_open(&client, o->socket, &error);

	daemon_client_text(request, "fence", id);
	if (err) {
		json_decref(request);
		return daemon_client_fail(err, &error);
	}
	code = daemon_client_ask(&client, request, NULL, NULL, NULL, NULL);
	daemon_client_close(&client);
	/* cordond has seen the end of the cgroup by itself. */
	return code == EXIT_NO_FENCE ? EXIT_OK : code;
}

/* Whoever is left stays fenced: cordond ends the fence with its cgroup. */
static int hook_stop(const struct oci_options *o, const struct oci_state *state)
{
	json_t *rows = NULL;
	const json_t *row;
	size_t i;
	int code = fences_ask(o->socket, &rows, NULL);

	if (code)
		return code;
	json_array_foreach(rows, i, row)
	{
		const char *container = json_string_value(json_object_get(row, "container"));
		const char *id = json_string_value(json_object_get(row, "id"));
		int one;

		if (!container || !id || strcmp(container, state->id) != 0)
			continue;
		one = json_integer_value(json_object_get(row, "tasks")) > 0
			      ? cli_fail(EXIT_FOUND,
					 "fence %s: there are processes of the container still; it "
					 "ends with their cgroup",
					 id)
			      : fence_detach(o, id);
		code = one ? one : code;
	}
	json_decref(rows);
	return code;
}

struct hook {
	const struct oci_options *options;
	const char *stage;
};

static int hook_run(void *context)
{
	const struct hook *hook = context;
	enum oci_stage stage = strcmp(hook->stage, "poststop") ? OCI_CREATE : OCI_STOP;
	_cleanup_free_ char *text = NULL;
	static struct oci_state state;
	struct error error = { "" };
	size_t n = 0;
	int err, code = oci_options_judge(hook->options);

	if (stage == OCI_CREATE && strcmp(hook->stage, "createRuntime") != 0)
		return cli_fail(EXIT_USAGE, "no such stage: createRuntime or poststop");
	if (code)
		return code;
	err = oci_text_read(STDIN_FILENO, &text, &n);
	if (err)
		return cli_fail(EXIT_FOUND, "stdin: the state of a container: %s", strerror(-err));
	if (oci_state_parse(text, n, stage, &state, &error))
		return cli_fail(EXIT_USAGE, "%s", error.text);
	return stage == OCI_CREATE ? hook_create(hook->options, &state)
				   : hook_stop(hook->options, &state);
}

static int cmd_oci_hook(const void *options, int argc, char **argv)
{
	struct hook hook = { options, argv[0] };
	char said[4096];

	(void)argc;
	return oci_hear(hook_run, &hook, said, sizeof(said));
}

static const struct cli_option oci_hook_rows[] = {
	OCI_OPTIONS,
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

const struct cli_verb cli_verb_oci_hook = {
	.name = "oci-hook",
	.summary = "fence a container before its command begins (run by OCI runtimes)",
	.arguments = "createRuntime|poststop",
	.text = "A hook for podman and CRI-O: reads the container's state on standard input. With "
		"the annotation dev.cordon.policy=NAME the container is fenced by the policy "
		"NAME.yaml in the directory of policies; dev.cordon.task, .tenant, .subject and "
		".workdir say the rest, and who may make containers is believed in what they say. "
		"Without the annotation nothing is done.\n\n"
		"createRuntime ends with 0 when the fence is proved; its first command, and all "
		"that comes into the container later, is in it. With anything else (no cordond, no "
		"such policy, a host that cannot enforce) the runtime does not start the "
		"container. poststop ends the fence of a container that is gone.\n\n"
		"docs/containers.md says how runtimes are told of it.",
	.options = oci_hook_rows,
	.options_size = sizeof(struct oci_options),
	.min_args = 1,
	.max_args = 1,
	.run = cmd_oci_hook,
};
