/* SPDX-License-Identifier: Apache-2.0 */
/* The few types of the kernel that the programs use, as type information of its own; see types.c. */
#ifndef CORDON_ENFORCE_TYPES_H
#define CORDON_ENFORCE_TYPES_H

#include <stddef.h>

#include "util/util.h"

struct btf;

/*
 * Writes BTF with the kernel's version of every structure, union and enum that `local` names into the file fd. What
 * their members only point to is not in it; what is a member but not named in `local` has its size and no more.
 */
int types_extract(const struct btf *local, int fd, struct error *error);

#endif
