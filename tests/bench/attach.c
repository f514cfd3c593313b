// SPDX-License-Identifier: Apache-2.0
/*
 * Loads a BPF object whose programs are named as in include/cordon/hooks.h behind a prefix, by the same choice as
 * Cordon's loader makes (user/enforce/load.c), and either attaches it and runs a command meanwhile, or says how long
 * loading took. Root.
 *
 * usage: attach OBJECT PREFIX lsm|fmod_ret all|PROGRAM COMMAND [ARG...]  exit: COMMAND's code, 125 when not started
 *        attach OBJECT PREFIX lsm|fmod_ret all|PROGRAM      microseconds of each phase; attaches nothing
 */
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
		if (!bpf_program__autoload(program))
			continue;
		if (!bpf_program__attach(program)) {
			fprintf(stderr, "attach: cannot attach %s\n", bpf_program__name(program));
			return -1;
		}
		n++;
	}
	return n ? 0 : -1;
}

static int run(char **argv)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
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
	struct bpf_object *object;
	bool fmod_ret;

	if (argc < 5)
		return 2;
	fmod_ret = !strcmp(argv[3], "fmod_ret");
	if (argc == 5)
		return timed(argv[1], argv[2], fmod_ret, argv[4]);
	object = bpf_object__open(argv[1]);
	if (!object || choose(object, argv[2], fmod_ret))
		return NOT_STARTED;
	if (strcmp(argv[4], "all"))
		choose_only(object, argv[2], argv[4]);
	if (bpf_object__load(object) || attach(object))
		return NOT_STARTED;
	return run(argv + 5);
}
