/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads for what blocks: a bounded queue of tasks. Of one owner's tasks at most a quarter of the threads (one at least) run at
 * a time, and at most a quarter of the queue wait, so that who waits for something slow does not make others wait.
 */
#ifndef CORDON_GATEWAY_POOL_H
#define CORDON_GATEWAY_POOL_H

#include <stddef.h>

#include "util/util.h"

struct pool;

/* A task: embedded in what it works on, the caller's until run() is called, which may free it. */
struct pool_task {
	void (*run)(struct pool_task *task);
	const void *owner; /* only compared; NULL: nobody's, and not limited */
	struct pool_task *next;
};

/* n threads; at most queue_max tasks wait. 0 or -errno. */
int pool_open(size_t n, size_t queue_max, struct pool **ret_pool);

/* Runs what waits, then ends the threads. Takes NULL. */
void pool_close(struct pool *pool);

/* 0; -EAGAIN: too many wait, of all or of its owner; run() will not be called. Never blocks for long. */
int pool_submit(struct pool *pool, struct pool_task *task);

#endif
