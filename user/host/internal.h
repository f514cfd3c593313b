/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share among themselves; not for others. */
#ifndef CORDON_HOST_INTERNAL_H
#define CORDON_HOST_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
