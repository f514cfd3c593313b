// SPDX-License-Identifier: Apache-2.0
/*
 * Loading: opens the object, chooses for every hook how it is attached, loads, attaches and pins - all rows of
 * include/cordon/hooks.h or none. Runs as root in a child of its own, because parsing the kernel's BTF costs tens of
 * megabytes; the parent works with the pins. On failure everything that was pinned is removed again and the reason
 * goes to the parent through a pipe.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cordon/hooks.h"
#include "enforce.skel.h"
#include "enforce/internal.h"

/* A row of CORDON_LSM_HOOKS. */
struct lsm_row {
	const char *program;
	const char *hook;
	const char *security;
	int nargs;
	enum { HOOK_OPTIONAL = 1, HOOK_ON_DEMAND = 2 } optional;
};

static const struct lsm_row lsm_rows[] = {
#define CORDON_X(program, hook, security, nargs, optional) \
	{ #program, #hook, #security, nargs, optional },
	CORDON_LSM_HOOKS(CORDON_X)
#undef CORDON_X
};

static const char *const trace_rows[] = {
#define CORDON_X(program, tracepoint) #program,
	CORDON_TRACE_HOOKS(CORDON_X)
#undef CORDON_X
};

const char *enforce_prog_name(enum enforce_prog prog)
{
	static const char *const names[] = {
#define CORDON_X(program, type) #program,
		CORDON_CGROUP_HOOKS(CORDON_X)
#undef CORDON_X
			"fence_mark_all",
		"fence_unmark_all",
		"fence_resolve",
		"fence_find_files",
		"fence_find_maps",
	};

	return names[prog];
}

int enforce_prog_attach_type(enum enforce_prog prog)
{
	static const int types[] = {
#define CORDON_X(program, type) BPF_##type,
		CORDON_CGROUP_HOOKS(CORDON_X)
#undef CORDON_X
	};

	return types[prog];
}

/* FNV-1a over the object: tells one build from another, nothing more. */
uint64_t enforce_build(void)
{
	uint64_t hash = 0xcbf29ce484222325;
	size_t size;
	const unsigned char *p = cordon_bpf__elf_bytes(&size);

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ p[i]) * 0x100000001b3;
	return hash;
}

/* Number of arguments of a kernel function, or -ENOENT. */
static int function_nargs(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_FUNC);
	const struct btf_type *t;

	if (id < 0)
		return -ENOENT;
	t = btf__type_by_id(btf, btf__type_by_id(btf, id)->type);
	return btf_vlen(t);
}

/* Chooses for one row: sets how the program is loaded, or that it is not. */
static int choose_row(const struct lsm_row *row, struct bpf_object *object, const struct btf *btf,
		      const struct enforce_meta *meta, struct error *error)
{
	struct bpf_program *program = bpf_object__find_program_by_name(object, row->program);
	char function[128];
	int nargs;

	if (!program)
		return error_set(error, ENOENT, "program %s is not in the object", row->program);
	snprintf(function, sizeof(function), "%s%s", meta->fmod_ret ? "security_" : "bpf_lsm_",
		 meta->fmod_ret ? row->security : row->hook);
	nargs = function_nargs(btf, function);
	if (meta->degraded || nargs != row->nargs) {
		bpf_program__set_autoload(program, false);
		return 0;
	}
	if (!meta->fmod_ret)
		return 0;
	bpf_program__set_type(program, BPF_PROG_TYPE_TRACING);
	bpf_program__set_expected_attach_type(program, BPF_MODIFY_RETURN);
	return bpf_program__set_attach_target(program, 0, function);
}

/* Every hook must have got exactly one program, optional ones at most one. */
static int check_rows(const struct bpf_object *object, struct error *error)
{
	for (size_t i = 0; i < ARRAY_SIZE(lsm_rows); i++) {
		int n = 0;

		for (size_t j = 0; j < ARRAY_SIZE(lsm_rows); j++)
			if (!strcmp(lsm_rows[i].hook, lsm_rows[j].hook))
				n += bpf_program__autoload(bpf_object__find_program_by_name(
					object, lsm_rows[j].program));
		if (n != 1 && !(n == 0 && lsm_rows[i].optional == HOOK_OPTIONAL))
			return error_set(
				error, ENOTSUP,
				"this kernel's hook %s has %s; use a kernel of the tested list, "
				"or --degraded",
				lsm_rows[i].hook,
				n ? "two fitting programs" : "no fitting program");
	}
	return 0;
}

static int choose(struct bpf_object *object, const struct enforce_meta *meta, struct error *error)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int err = 0;

	if (!btf)
		return error_set(error, ENOTSUP,
				 "/sys/kernel/btf/vmlinux cannot be read; use a kernel with "
				 "CONFIG_DEBUG_INFO_BTF");
	for (size_t i = 0; !err && i < ARRAY_SIZE(lsm_rows); i++)
		err = choose_row(&lsm_rows[i], object, btf, meta, error);
	for (size_t i = 0; !err && meta->degraded && i < ARRAY_SIZE(trace_rows); i++)
		bpf_program__set_autoload(bpf_object__find_program_by_name(object, trace_rows[i]),
					  false);
	btf__free(btf);
	return err ? err : meta->degraded ? 0 : check_rows(object, error);
}

static int pin_path(char *path, size_t size, const char *kind, const char *name)
{
	return snprintf(path, size, "%s/%s%s", ENFORCE_PIN_DIR, kind, name) < (int)size
		       ? 0
		       : -ENAMETOOLONG;
}

/* Attaches one program everywhere (LSM, tracepoint) and pins the link. */
static int attach_pin(struct bpf_object *object, const char *name, struct error *error)
{
	struct bpf_program *program = bpf_object__find_program_by_name(object, name);
	struct bpf_link *link;
	char path[256];
	int err;

	if (!bpf_program__autoload(program))
		return 0;
	link = bpf_program__attach(program);
	if (!link)
		return error_set(error, errno, "cannot attach %s: %s", name, strerror(errno));
	pin_path(path, sizeof(path), "link_", name);
	err = bpf_link__pin(link, path);
	bpf_link__destroy(link);
	return err ? error_set(error, -err, "cannot pin %s: %s", path, strerror(-err)) : 0;
}

static int pin_fd(int fd, const char *kind, const char *name, struct error *error)
{
	char path[256];

	pin_path(path, sizeof(path), kind, name);
	if (bpf_obj_pin(fd, path))
		return error_set(error, errno, "cannot pin %s: %s", path, strerror(errno));
	return 0;
}

static int pin_maps_progs(struct bpf_object *object, struct error *error)
{
	static const char *const maps[] = {
#define ENFORCE_X(name) "cordon_" #name,
		ENFORCE_MAPS(ENFORCE_X)
#undef ENFORCE_X
	};
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(maps); i++)
		err = pin_fd(bpf_object__find_map_fd_by_name(object, maps[i]), "", maps[i], error);
	for (int i = 0; !err && i < ENFORCE_PROG_COUNT; i++)
		err = pin_fd(bpf_program__fd(bpf_object__find_program_by_name(
				     object, enforce_prog_name(i))),
			     "prog_", enforce_prog_name(i), error);
	for (size_t i = 0; !err && i < ARRAY_SIZE(lsm_rows); i++) {
		struct bpf_program *program =
			bpf_object__find_program_by_name(object, lsm_rows[i].program);

		if (lsm_rows[i].optional == HOOK_ON_DEMAND && bpf_program__autoload(program))
			err = pin_fd(bpf_program__fd(program), "prog_", lsm_rows[i].program, error);
	}
	return err;
}

/* Pinned last: that it is there says that all is there. */
static int pin_meta(const struct enforce_meta *meta, struct error *error)
{
	_cleanup_close_ int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "cordon_meta", sizeof(uint32_t),
						sizeof(*meta), 1, NULL);
	uint32_t zero = 0;

	if (fd < 0 || bpf_map_update_elem(fd, &zero, meta, BPF_ANY))
		return error_set(error, errno, "cannot make the map cordon_meta: %s",
				 strerror(errno));
	return pin_fd(fd, "", "cordon_meta", error);
}

/* libbpf's last complaint is the best cause there is for a refused program. */
static char last_warning[400];

static int keep_warning(enum libbpf_print_level level, const char *format, va_list args)
{
	if (getenv("CORDON_LIBBPF_DEBUG"))
		return vfprintf(stderr, format, args);
	if (level == LIBBPF_WARN && !last_warning[0]) {
		vsnprintf(last_warning, sizeof(last_warning), format, args);
		last_warning[strcspn(last_warning, "\n")] = '\0';
	}
	return 0;
}

static int load_here(const struct enforce_meta *meta, struct error *error)
{
	struct cordon_bpf *skel;
	int err;

	LIBBPF_OPTS(bpf_object_open_opts, opts,
		    .kernel_log_level = getenv("CORDON_LIBBPF_DEBUG") ? 4 : 0);

	libbpf_set_print(keep_warning);
	skel = cordon_bpf__open_opts(&opts);
	if (!skel)
		return error_set(error, errno, "cannot open the BPF object: %s", strerror(errno));
	skel->rodata->cordon_degraded = meta->degraded;
	err = choose(skel->obj, meta, error);
	if (!err) {
		err = cordon_bpf__load(skel);
		if (err)
			error_set(error, -err, "the kernel refused a program (%s): %s",
				  strerror(-err), last_warning);
	}
	if (!err)
		err = pin_maps_progs(skel->obj, error);
	for (size_t i = 0; !err && !meta->degraded && i < ARRAY_SIZE(trace_rows); i++)
		err = attach_pin(skel->obj, trace_rows[i], error);
	for (size_t i = 0; !err && !meta->degraded && i < ARRAY_SIZE(lsm_rows); i++)
		if (lsm_rows[i].optional != HOOK_ON_DEMAND)
			err = attach_pin(skel->obj, lsm_rows[i].program, error);
	return err ? err : pin_meta(meta, error);
}

int enforce_load(const struct enforce_meta *meta, struct error *error)
{
	struct error child_error = { "" };
	int fds[2], status, n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return error_set(error, errno, "pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0) {
		close(fds[0]);
		close(fds[1]);
		return error_set(error, errno, "fork: %s", strerror(errno));
	}
	if (!pid) {
		int err = load_here(meta, &child_error);

		if (err)
			(void)!write(fds[1], child_error.text, strlen(child_error.text));
		_exit(err ? -err & 0x7f : 0);
	}
	close(fds[1]);
	n = read(fds[0], child_error.text, sizeof(child_error.text) - 1);
	close(fds[0]);
	child_error.text[n > 0 ? n : 0] = '\0';
	if (waitpid(pid, &status, 0) < 0)
		return error_set(error, errno, "waitpid: %s", strerror(errno));
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (!child_error.text[0])
		snprintf(child_error.text, sizeof(child_error.text), "the loader died (status %d)",
			 status);
	return error_set(error, WIFEXITED(status) ? WEXITSTATUS(status) : EIO, "%s",
			 child_error.text);
}
