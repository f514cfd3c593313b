// SPDX-License-Identifier: Apache-2.0
/* See oci.h. No privilege. A fault is fatal: the caller refuses the container. */
#include "cordon/oci.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <jansson.h>

#define ANNOTATIONS "dev.cordon."

/* Each annotation of ours: its name without what all begin with, and where it goes. */
static const struct annotation {
	const char *name;
	size_t offset, size;
} annotations[] = {
#define A(name)                                                                                \
	{                                                                                      \
#name, offsetof(struct oci_state, name), sizeof(((struct oci_state *)0)->name) \
	}
	A(policy), A(task), A(tenant), A(subject), A(workdir),
#undef A
};

/* crun runs WebAssembly, and libkrun's machines, without executing anything in the container. */
static const char *const no_exec[] = { "run.oci.handler", "module.wasm.image/variant" };

bool oci_policy_name(const char *name)
{
	size_t n = strlen(name);

	return n && n <= OCI_POLICY_MAX && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
		       n;
}

/* Visible ASCII, as events and gateways want it. */
static bool is_visible(const char *text)
{
	for (; *text; text++)
		if (!isascii((unsigned char)*text) || !isgraph((unsigned char)*text))
			return false;
	return true;
}

/* A path may have blanks and letters of any language. */
static bool is_path(const char *text)
{
	const char *p;

	for (p = text; *p; p++)
		if (iscntrl((unsigned char)*p))
			return false;
	return text[0] == '/';
}

/* Copies a text of 1 to size - 1 bytes. */
static bool text_take(const json_t *value, char *to, size_t size)
{
	size_t n = json_string_length(value);

	if (!json_is_string(value) || !n || n >= size)
		return false;
	memcpy(to, json_string_value(value), n + 1);
	return true;
}

static const struct annotation *annotation_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(annotations); i++)
		if (!strcmp(annotations[i].name, name))
			return &annotations[i];
	return NULL;
}

static int annotation_take(const char *name, const json_t *value, struct oci_state *state,
			   struct error *error)
{
	const struct annotation *a = annotation_find(name);
	char *to = a ? (char *)state + a->offset : NULL;

	if (!a)
		return error_set(error, EINVAL,
				 "an annotation " ANNOTATIONS
				 "* that Cordon does not know; there are "
				 "policy, task, tenant, subject and workdir");
	if (!text_take(value, to, a->size))
		return error_set(error, EINVAL,
				 "annotation " ANNOTATIONS "%s: 1 to %zu bytes of text", a->name,
				 a->size - 1);
	if (to == state->policy	   ? oci_policy_name(to)
	    : to == state->workdir ? is_path(to)
				   : is_visible(to))
		return 0;
	return error_set(error, EINVAL, "annotation " ANNOTATIONS "%s: must be %s", a->name,
			 to == state->policy
				 ? "the name of a policy: letters, digits, _ - and . (not first)"
			 : to == state->workdir ? "an absolute path"
						: "visible ASCII characters");
}

static int annotations_take(json_t *all, struct oci_state *state, struct error *error)
{
	const size_t n = strlen(ANNOTATIONS);
	const char *name;
	json_t *value;
	int err;

	if (all && !json_is_object(all))
		return error_set(error, EINVAL, "the state's annotations are no object");
	json_object_foreach(all, name, value)
	{
		err = strncmp(name, ANNOTATIONS, n) != 0
			      ? 0
			      : annotation_take(name + n, value, state, error);
		if (err)
			return err;
	}
	for (size_t i = 0; i < ARRAY_SIZE(no_exec); i++)
		if (json_object_get(all, no_exec[i]))
			state->no_exec = no_exec[i];
	return 0;
}

static int state_take(json_t *root, enum oci_stage stage, struct oci_state *state,
		      struct error *error)
{
	const json_t *pid = json_object_get(root, "pid");
	json_int_t number = json_integer_value(pid);
	const char *status = json_string_value(json_object_get(root, "status"));

	if (!json_is_string(json_object_get(root, "ociVersion")))
		return error_set(error, EINVAL, "not the state of a container: no ociVersion");
	if (!text_take(json_object_get(root, "id"), state->id, sizeof(state->id)) ||
	    !is_visible(state->id))
		return error_set(error, EINVAL, "the state's id: 1 to %zu visible ASCII characters",
				 sizeof(state->id) - 1);
	if (stage == OCI_STOP)
		return 0;
	if (!status || (strcmp(status, "creating") != 0 && strcmp(status, "created") != 0))
		return error_set(error, EINVAL,
				 "the state's status: neither creating nor created: too late for a "
				 "fence before the command begins");
	if (!json_is_integer(pid) || number < 2 || number > INT_MAX)
		return error_set(error, EINVAL, "the state's pid: must be that of the container");
	state->pid = (pid_t)number;
	if (!text_take(json_object_get(root, "bundle"), state->bundle, sizeof(state->bundle)) ||
	    !is_path(state->bundle))
		return error_set(error, EINVAL, "the state's bundle: must be an absolute path");
	return annotations_take(json_object_get(root, "annotations"), state, error);
}

/* The tree of a JSON object; integers beyond 64 bits, which rlimits have, become real numbers. */
static json_t *object_load(const char *text, size_t size, size_t flags)
{
	json_t *root = size > OCI_TEXT_MAX
			       ? NULL
			       : json_loadb(text, size, JSON_REJECT_DUPLICATES | flags, NULL);

	if (json_is_object(root))
		return root;
	json_decref(root);
	return NULL;
}

int oci_state_parse(const char *text, size_t size, enum oci_stage stage,
		    struct oci_state *ret_state, struct error *error)
{
	json_t *root = object_load(text, size, 0);
	int err;

	memset(ret_state, 0, sizeof(*ret_state));
	if (!root)
		return error_set(
			error, EINVAL,
			"stdin: not the state of a container: not a JSON object of at most "
			"%d bytes with each member once",
			OCI_TEXT_MAX);
	err = state_take(root, stage, ret_state, error);
	json_decref(root);
	return err;
}

int oci_config_root(const char *text, size_t text_size, const char *bundle, char *ret_root,
		    size_t size, struct error *error)
{
	json_t *root = object_load(text, text_size, JSON_DECODE_INT_AS_REAL);
	char path[4096];
	bool taken = text_take(json_object_get(json_object_get(root, "root"), "path"), path,
			       sizeof(path));

	json_decref(root);
	for (const char *p = path; taken && *p; p++)
		taken = !iscntrl((unsigned char)*p);
	if (!taken)
		return error_set(error, EINVAL,
				 "config.json: not that of a bundle: no root.path of at most %zu "
				 "bytes",
				 sizeof(path) - 1);
	if (snprintf(ret_root, size, "%s%s%s", path[0] == '/' ? "" : bundle,
		     path[0] == '/' ? "" : "/", path) >= (int)size)
		return error_set(error, EINVAL, "config.json: root.path is too long");
	return 0;
}
