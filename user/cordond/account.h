/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a front has seen of each fence, in a file that it maps: so that the next front, of this keeper or of another, goes
 * on with the numbers where this one ended, and what was lost between them is counted. One file for all, by slot: a file
 * for each would be a page of memory, an inode and two descriptors for each. The front writes it; the keeper only carries it.
 */
#ifndef CORDON_CORDOND_ACCOUNT_H
#define CORDON_CORDOND_ACCOUNT_H

#include "event/event.h"

/* Of one slot. One of the two is whole at any instant: `valid` says which, plus 1; 0: none yet. */
struct account {
	uint64_t fence_id; /* that has the slot; what another one left is not read */
	uint32_t size;	   /* of struct event_tracker: another build's is not read */
	uint32_t valid;
	struct event_tracker tracker[2];
};

#endif
