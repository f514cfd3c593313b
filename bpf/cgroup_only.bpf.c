// SPDX-License-Identifier: GPL-2.0
/*
 * The enforcer for kernels that refuse LSM and tracing programs (--degraded): of the same programs only those of the
 * cgroup are loaded, and each reports by itself.
 */
#define CORDON_CGROUP_ONLY
#include "enforce.bpf.c"
