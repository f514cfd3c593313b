// SPDX-License-Identifier: GPL-2.0
/*
 * The floor: a program that does nothing on every hook of include/cordon/hooks.h. What Cordon costs a process, outside
 * fences and inside, is measured against these. Those on LSM hooks pass on the answer that programs before them
 * gave, as Cordon's do; those of a cgroup let everything pass.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "cordon/hooks.h"

#define EMPTY_LSM(program, hook, security, nargs, optional) \
	SEC("lsm/" #hook)                                   \
	int empty_##program(unsigned long long *ctx)        \
	{                                                   \
		return (int)ctx[nargs];                     \
	}
CORDON_LSM_HOOKS(EMPTY_LSM)

#define EMPTY_TRACE(program, tracepoint)             \
	SEC("tp_btf/" #tracepoint)                   \
	int empty_##program(unsigned long long *ctx) \
	{                                            \
		return 0;                            \
	}
CORDON_TRACE_HOOKS(EMPTY_TRACE)

/* Which type of program an attach type asks for, attach.c knows. */
#define EMPTY_CGROUP(program, type)    \
	SEC("empty_cgroup")            \
	int empty_##program(void *ctx) \
	{                              \
		return 1;              \
	}
CORDON_CGROUP_HOOKS(EMPTY_CGROUP)

char LICENSE[] SEC("license") = "GPL";
