/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share among themselves; not for others. */
#ifndef CORDON_HOST_INTERNAL_H
#define CORDON_HOST_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct host_type;

#define HOST_CGROUP_DIR "cordon" /* MOUNT/cordon holds the cgroups that we make */

/*
 * Is this process in a cgroup namespace of its own? Then paths and levels are not those that the
 * kernel gives BPF.
 */
bool host_cgroup_private_namespace(void);

/* The cgroup id of an open cgroup directory (O_PATH will do): 0 or -errno. */
int host_cgroup_fd_id(int fd, uint64_t *ret_id);

/* Is path top itself or something below it? By text: both canonical. */
bool host_path_below(const char *path, const char *top);

/* Splits one line of mountinfo in place; the parts point into it, octal escapes undone. */
bool host_mountinfo_split(char *line, char **ret_root, char **ret_point, char **ret_type);

/* How long a container engine may take to answer; tests shorten it. */
extern unsigned int container_timeout_ms;

/* host_types_find() on BTF that lies in memory. */
int btf_scan_data(const void *data, size_t size, struct host_type *wanted, size_t n);

/*
 * Trials by bpf(2): 0 it works, else -errno (-EPERM mostly says nothing but that privilege is
 * missing).
 */
int bpf_try_ring_buffer(void);
int bpf_try_task_storage(void);
int bpf_try_cgroup_program(void);
int bpf_try_lsm_program(uint32_t btf_id);      /* of bpf_lsm_HOOK */
int bpf_try_fmod_ret_program(uint32_t btf_id); /* of security_HOOK */

#endif
