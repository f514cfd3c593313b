// SPDX-License-Identifier: Apache-2.0
/*
 * The object as the loader prepares it: by the few types that types.c copies out of the kernel's, each program must
 * come out as it does by all of them, instruction for instruction. Runs on this host and on each kernel of the matrix;
 * needs root and bpf(2), is skipped elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "cordon/abi.h"
#include "enforce/internal.h"
#include "enforce/object.h"

static int prepare(struct object *object, bool cgroup_only, bool all_types)
{
	struct error error = { "" };
	int err;

	if (all_types)
		setenv("CORDON_ALL_TYPES", "1", 1);
	err = object_open(cgroup_only, object, &error);
	unsetenv("CORDON_ALL_TYPES");
	if (!err)
		err = object_prepare(object, CORDON_FENCES_ROOM, &error);
	if (err)
		print_message("%s\n", error.text);
	return err;
}

/* A map's descriptor, which differs from load to load. */
static bool names_map(const struct bpf_insn *insn)
{
	return insn->code == (BPF_LD | BPF_IMM | BPF_DW) &&
	       (insn->src_reg == BPF_PSEUDO_MAP_FD || insn->src_reg == BPF_PSEUDO_MAP_VALUE);
}

static void assert_same(const struct object_program *a, const struct object_program *b)
{
	assert_string_equal(a->name, b->name);
	assert_int_equal(a->n_insns, b->n_insns);
	assert_true(a->n_insns > 2);
	for (size_t i = 0; i < a->n_insns; i++) {
		struct bpf_insn x = a->insns[i], y = b->insns[i];

		if (names_map(&x) && names_map(&y))
			x.imm = y.imm = 0;
		if (!memcmp(&x, &y, sizeof(x)))
			continue;
		fail_msg("%s: instruction %zu is %02x %d %d, by all types %02x %d %d", a->name, i,
			 x.code, x.off, x.imm, y.code, y.off, y.imm);
	}
}

static void compare(bool cgroup_only)
{
	struct object few, all;
	int err = prepare(&few, cgroup_only, false);

	if (err == -EPERM || err == -EACCES || err == -ENOSYS) {
		object_close(&few);
		skip();
	}
	assert_int_equal(err, 0);
	assert_int_equal(prepare(&all, cgroup_only, true), 0);
	assert_int_equal(few.n_programs, all.n_programs);
	assert_true(few.n_programs > 40);
	for (size_t i = 0; i < few.n_programs; i++)
		assert_same(&few.programs[i], &all.programs[i]);
	object_close(&few);
	object_close(&all);
}

static void test_enforce(void **state)
{
	(void)state;
	compare(false);
}

static void test_cgroup_only(void **state)
{
	(void)state;
	compare(true);
}

enum { LINKS = 64, TIMES = 50, WAIT_MS = 60000 };

static int pipes[LINKS][2];
static unsigned int still_held; /* when we closed ours */

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
	int r = __real_close(fd);

	for (int i = 0; i < LINKS; i++)
		if (fd == pipes[i][1]) {
			struct pollfd end = { .fd = pipes[i][0], .events = POLLIN };

			still_held += poll(&end, 1, 0) == 0;
		}
	return r;
}

/*
 * Ends of pipes stand for links. Whoever closes one last waits for the kernel, and that must never be the one who asked for it:
 * another process has them still then, and closes them after that.
 */
static void test_links_release(void **state)
{
	int ends[LINKS];
	char byte;

	(void)state;
	for (int n = 0; n < TIMES; n++) {
		for (int i = 0; i < LINKS; i++) {
			assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
			ends[i] = pipes[i][1];
		}
		still_held = 0;
		enforce_links_release(ends, LINKS);
		assert_int_equal(still_held, LINKS);
		for (int i = 0; i < LINKS; i++) {
			struct pollfd end = { .fd = pipes[i][0], .events = POLLIN };

			pipes[i][1] = -1;
			assert_int_equal(poll(&end, 1, WAIT_MS), 1);
			assert_int_equal(read(pipes[i][0], &byte, 1), 0);
			__real_close(pipes[i][0]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_enforce),
		cmocka_unit_test(test_cgroup_only),
		cmocka_unit_test(test_links_release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
