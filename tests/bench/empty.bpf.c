// SPDX-License-Identifier: GPL-2.0
/*
 * The floor: a program that does nothing on every hook of include/cordon/hooks.h that runs for all of the host's
 * processes. What Cordon costs a process outside fences is measured against these. Each passes on the answer that
 * programs before it gave, as Cordon's do.
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

char LICENSE[] SEC("license") = "GPL";
