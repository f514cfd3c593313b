/* SPDX-License-Identifier: Apache-2.0 */
/* Where a file of this program may lie. Inside user/sink only. */
#ifndef CORDON_SINK_PLACE_H
#define CORDON_SINK_PLACE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "util/util.h"

/*
 * Opens the directory of path (absolute), following no symbolic link that could change meanwhile: every directory above must
 * belong to root or to this process, and nobody else may write to it, but to one with the sticky bit that is not the last. Returns a
 * descriptor of O_PATH and *ret_name, which points into path; or -errno with the cause.
 */
int place_open(const char *path, const char **ret_name, struct error *error);

/* Is what fd is open on, or lstat() told, a file that may be written: regular, ours, one name, no others' writing? 0 or -errno. */
int place_check_file(const struct stat *st, const char *path, struct error *error);

#endif
