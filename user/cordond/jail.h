/* SPDX-License-Identifier: Apache-2.0 */
/* What the front gives up before it reads anything. */
#ifndef CORDON_CORDOND_JAIL_H
#define CORDON_CORDOND_JAIL_H

#include "util/util.h"

/*
 * Dies with the keeper, leaves no core, holds no capability and can gain none, and may call only the system calls that it
 * needs; others are EPERM. 0 or -errno, and then the front is not to go on. To be called by the user that it shall be.
 */
int jail_enter(struct error *error);

#endif
