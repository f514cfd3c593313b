/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the halves of the probe: probe_look.c looks at the host, probe.c judges what was seen. Judging needs no
 * host, so that tests can show it any.
 */
#ifndef CORDON_HOST_PROBE_H
#define CORDON_HOST_PROBE_H

#include <limits.h>

#include "host/host.h"

enum probe_answer { PROBE_UNKNOWN, PROBE_NO, PROBE_YES };

#define PROBE_NOT_TRIED 1 /* of the trials: 0 works, -errno refused */

struct probe_facts {
	char release[65]; /* uname -r */
	unsigned int major, minor;
	enum probe_answer preempts;	  /* kernel code may be preempted: preempt=full or lazy */
	int btf;			  /* /sys/kernel/btf/vmlinux: 0 read, else -errno */
	enum probe_answer bpf_lsm_hooks;  /* bpf_lsm_file_open exists: CONFIG_BPF_LSM */
	enum probe_answer security_hooks; /* security_file_open exists */
	enum probe_answer path_hooks;	  /* security_path_mknod exists: CONFIG_SECURITY_PATH */
	enum probe_answer trampolines;	  /* ftrace direct calls, on which BPF trampolines stand */
	bool securityfs;		  /* is mounted */
	char lsm_list[256];		  /* as in /sys/kernel/security/lsm; empty: unknown */
	char lockdown[32];		  /* the level in force; empty: no such file */
	uint64_t caps;			  /* effective */
	bool user_namespace; /* not the initial one: capabilities do not count for BPF */
	enum host_cgroup_layout cgroup_layout;
	bool cgroup_private; /* in a cgroup namespace of its own */
	char cgroup_mount[PATH_MAX];
	char controllers[128]; /* of cgroup2 */
	bool bpffs, bpffs_readonly;
	int jit;		/* net.core.bpf_jit_enable; -1 unknown */
	uint64_t memlock_bytes; /* soft limit; UINT64_MAX: none */
	int try_ring_buffer, try_task_storage, try_cgroup_program, try_lsm_program,
		try_fmod_ret_program;
};

void probe_look(struct probe_facts *ret_facts);
void probe_judge(const struct probe_facts *facts, struct host_report *ret_report);

/* Names of the capabilities that are missing, as a list; "" when none is. */
void probe_missing_caps(const struct probe_facts *facts, char *ret_text, size_t size);

#endif
