// SPDX-License-Identifier: Apache-2.0
/*
 * Loads a BPF object whose programs are named as in include/cordon/hooks.h behind a prefix, by the same choice as
 * Cordon's loader makes (user/enforce/load.c), and either attaches it and runs a command meanwhile, or says how long
 * loading took. Root.
 *
 * usage: attach OBJECT PREFIX lsm|fmod_ret all|PROGRAM [--cgroup DIR [--inside]] COMMAND [ARG...]
 *        attach OBJECT PREFIX lsm|fmod_ret all|PROGRAM      microseconds of each phase; attaches nothing
 *
 * --cgroup: cgroup programs are attached to DIR, which is made; --inside: COMMAND runs there. Without, they are not
 * loaded. Exit: COMMAND's code, 125 when it was not started.
 */
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cordon/hooks.h"

enum { NAME_SIZE = 128, STATS_ONLY = 4, NOT_STARTED = 125 };

static const struct lsm_row {
	const char *program, *hook, *security;
	int nargs;
} lsm_rows[] = {
#define ROW(program, hook, security, nargs, optional) { #program, #hook, #security, nargs },
	CORDON_LSM_HOOKS(ROW)
#undef ROW
};

enum { LSM_ROWS = sizeof(lsm_rows) / sizeof(lsm_rows[0]) };

/* Programs that Cordon loads only when a fence has the limit that they count for. */
static const char *const late_programs[] = {
#define ROW(program, ...) #program,
	CORDON_DEMAND_HOOKS(ROW)
#undef ROW
};

static const struct cgroup_row {
	const char *program;
	enum bpf_attach_type type;
} cgroup_rows[] = {
#define ROW(program, type) { #program, BPF_##type },
	CORDON_CGROUP_HOOKS(ROW)
#undef ROW
};

enum { CGROUP_ROWS = sizeof(cgroup_rows) / sizeof(cgroup_rows[0]) };

static enum bpf_prog_type cgroup_prog_type(enum bpf_attach_type type)
{
	switch (type) {
	case BPF_CGROUP_INET_INGRESS:
	case BPF_CGROUP_INET_EGRESS:
		return BPF_PROG_TYPE_CGROUP_SKB;
	case BPF_CGROUP_INET_SOCK_CREATE:
	case BPF_CGROUP_INET_SOCK_RELEASE:
	case BPF_CGROUP_INET4_POST_BIND:
	case BPF_CGROUP_INET6_POST_BIND:
		return BPF_PROG_TYPE_CGROUP_SOCK;
	case BPF_CGROUP_SOCK_OPS:
		return BPF_PROG_TYPE_SOCK_OPS;
	case BPF_CGROUP_DEVICE:
		return BPF_PROG_TYPE_CGROUP_DEVICE;
	case BPF_CGROUP_SYSCTL:
		return BPF_PROG_TYPE_CGROUP_SYSCTL;
	case BPF_CGROUP_GETSOCKOPT:
	case BPF_CGROUP_SETSOCKOPT:
		return BPF_PROG_TYPE_CGROUP_SOCKOPT;
	default:
		return BPF_PROG_TYPE_CGROUP_SOCK_ADDR;
	}
}

static struct bpf_program *cgroup_program(struct bpf_object *object, const char *prefix, int row)
{
	char name[NAME_SIZE];

	snprintf(name, sizeof(name), "%s%s", prefix, cgroup_rows[row].program);
	return bpf_object__find_program_by_name(object, name);
}

/* Cgroup programs get their types from the table; where there is no cgroup for them they stay out. */
static int choose_cgroup(struct bpf_object *object, const char *prefix, bool wanted)
{
	int err = 0;

	for (int row = 0; !err && row < CGROUP_ROWS; row++) {
		struct bpf_program *program = cgroup_program(object, prefix, row);

		if (!program)
			return -1;
		bpf_program__set_type(program, cgroup_prog_type(cgroup_rows[row].type));
		bpf_program__set_expected_attach_type(program, cgroup_rows[row].type);
		err = bpf_program__set_autoload(program, wanted);
	}
	return err;
}

static int attach_cgroup(struct bpf_object *object, const char *prefix, int cgroup)
{
	for (int row = 0; row < CGROUP_ROWS; row++) {
		struct bpf_program *program = cgroup_program(object, prefix, row);

		if (!bpf_program__attach_cgroup(program, cgroup)) {
			fprintf(stderr, "attach: cannot attach %s\n", bpf_program__name(program));
			return -1;
		}
	}
	return 0;
}

static int function_nargs(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_FUNC);

	return id < 0 ? -1 : btf_vlen(btf__type_by_id(btf, btf__type_by_id(btf, id)->type));
}

static int choose_row(struct bpf_object *object, const struct btf *btf, const struct lsm_row *row,
		      const char *prefix, bool fmod_ret)
{
	char function[NAME_SIZE], name[NAME_SIZE];
	struct bpf_program *program;

	snprintf(name, sizeof(name), "%s%s", prefix, row->program);
	snprintf(function, sizeof(function), "%s%s", fmod_ret ? "security_" : "bpf_lsm_",
		 fmod_ret ? row->security : row->hook);
	program = bpf_object__find_program_by_name(object, name);
	if (!program)
		return -1;
	if (function_nargs(btf, function) != row->nargs)
		return bpf_program__set_autoload(program, false);
	if (!fmod_ret)
		return 0;
	bpf_program__set_type(program, BPF_PROG_TYPE_TRACING);
	bpf_program__set_expected_attach_type(program, BPF_MODIFY_RETURN);
	return bpf_program__set_attach_target(program, 0, function);
}

static int choose(struct bpf_object *object, const char *prefix, bool fmod_ret)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int err = btf ? 0 : -1;

	for (int row = 0; !err && row < LSM_ROWS; row++)
		err = choose_row(object, btf, &lsm_rows[row], prefix, fmod_ret);
	for (size_t i = 0; !err && i < sizeof(late_programs) / sizeof(late_programs[0]); i++) {
		struct bpf_program *program;
		char name[NAME_SIZE];

		snprintf(name, sizeof(name), "%s%s", prefix, late_programs[i]);
		program = bpf_object__find_program_by_name(object, name);
		if (program) /* the empty ones have none */
			err = bpf_program__set_autoload(program, false);
	}
	btf__free(btf);
	return err;
}

static void choose_only(struct bpf_object *object, const char *prefix, const char *only)
{
	struct bpf_program *program;
	char name[NAME_SIZE];

	snprintf(name, sizeof(name), "%s%s", prefix, only);
	bpf_object__for_each_program(program, object) if (strcmp(bpf_program__name(program), name))
		bpf_program__set_autoload(program, false);
}

static int attach(struct bpf_object *object)
{
	struct bpf_program *program;
	int n = 0;

	bpf_object__for_each_program(program, object)
	{
		enum bpf_prog_type type = bpf_program__type(program);

		if (!bpf_program__autoload(program))
			continue;
		if (type != BPF_PROG_TYPE_LSM && type != BPF_PROG_TYPE_TRACING)
			continue;
		if (!bpf_program__attach(program)) {
			fprintf(stderr, "attach: cannot attach %s\n", bpf_program__name(program));
			return -1;
		}
		n++;
	}
	return n ? 0 : -1;
}

static int run(char **argv, int cgroup)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		if (cgroup >= 0) {
			int procs = openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);

			if (procs < 0 || write(procs, "0", 1) != 1)
				_exit(NOT_STARTED);
			close(procs);
		}
		execvp(argv[0], argv);
		_exit(NOT_STARTED);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return NOT_STARTED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : NOT_STARTED;
}

static long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

/* What the verifier said of a program: its time and its number of steps. */
static long said(const char *log, const char *word)
{
	const char *at = strstr(log, word);

	return at ? atol(at + strlen(word)) : 0;
}

static int timed(const char *path, const char *prefix, bool fmod_ret, const char *only)
{
	static char logs[128][2048];
	long start = now_us(), opened, chosen, loaded, verify = 0, steps = 0;
	struct bpf_program *program;
	struct bpf_object *object;
	int n = 0, err;

	LIBBPF_OPTS(bpf_object_open_opts, opts, .kernel_log_level = STATS_ONLY);

	object = bpf_object__open_file(path, &opts);
	opened = now_us();
	err = object ? choose(object, prefix, fmod_ret) : -1;
	if (!err && strcmp(only, "all"))
		choose_only(object, prefix, only);
	chosen = now_us();
	if (!err)
		bpf_object__for_each_program(program,
					     object) if (bpf_program__autoload(program) && n < 128)
		{
			bpf_program__set_log_buf(program, logs[n], sizeof(logs[n]));
			n++;
		}
	err = err ? err : bpf_object__load(object);
	loaded = now_us();
	if (err)
		return NOT_STARTED;
	n = 0;
	bpf_object__for_each_program(program, object)
	{
		if (!bpf_program__autoload(program))
			continue;
		fprintf(stderr, "%8ld us %7ld steps  %s\n", said(logs[n], "verification time "),
			said(logs[n], "processed "), bpf_program__name(program));
		verify += said(logs[n], "verification time ");
		steps += said(logs[n], "processed ");
		n++;
	}
	printf("programs %d open %ld choose %ld load %ld verify %ld steps %ld\n", n, opened - start,
	       chosen - opened, loaded - chosen, verify, steps);
	bpf_object__close(object);
	return 0;
}

int main(int argc, char **argv)
{
	int cgroup = -1, inside = 0, command = 5;
	struct bpf_object *object;
	bool fmod_ret;

	if (argc < 5)
		return 2;
	fmod_ret = !strcmp(argv[3], "fmod_ret");
	if (argc == 5)
		return timed(argv[1], argv[2], fmod_ret, argv[4]);
	if (argc > 7 && !strcmp(argv[5], "--cgroup")) {
		inside = !strcmp(argv[7], "--inside");
		command = 7 + inside;
		if (mkdir(argv[6], 0755) && errno != EEXIST)
			return NOT_STARTED;
		cgroup = open(argv[6], O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (cgroup < 0 || command == argc)
			return NOT_STARTED;
	}
	object = bpf_object__open(argv[1]);
	if (!object || choose(object, argv[2], fmod_ret) ||
	    choose_cgroup(object, argv[2], cgroup >= 0))
		return NOT_STARTED;
	if (strcmp(argv[4], "all"))
		choose_only(object, argv[2], argv[4]);
	if (bpf_object__load(object) || attach(object) ||
	    (cgroup >= 0 && attach_cgroup(object, argv[2], cgroup)))
		return NOT_STARTED;
	return run(argv + command, inside ? cgroup : -1);
}
