// SPDX-License-Identifier: Apache-2.0
/* See pool.h. Tasks are taken in the order in which they came, but for those whose owner has its share. */
#include "gateway/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#define STACK_BYTES (512 * 1024)
#define SHARE 4 /* one owner may have a quarter */

struct pool {
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	struct pool_task *first, **last;
	size_t waiting, queue_max;
	bool closing;
	size_t n, share;
	struct pool_thread {
		struct pool *pool;
		pthread_t thread;
		const void *owner; /* of the task that it runs; NULL: none, or nobody's */
	} threads[];
};

/* With the mutex: how many of its tasks run. */
static size_t running(const struct pool *pool, const void *owner)
{
	size_t n = 0;

	for (size_t i = 0; owner && i < pool->n; i++)
		n += pool->threads[i].owner == owner;
	return n;
}

/* With the mutex: how many of its tasks wait. */
static size_t waiting(const struct pool *pool, const void *owner)
{
	size_t n = 0;

	for (const struct pool_task *task = pool->first; owner && task; task = task->next)
		n += task->owner == owner;
	return n;
}

/* With the mutex: the next task that may run; NULL: none. */
static struct pool_task *take(struct pool *pool)
{
	const void *full = NULL; /* the owner that was last found to have its share */

	for (struct pool_task **place = &pool->first; *place; place = &(*place)->next) {
		struct pool_task *task = *place;

		if (task->owner &&
		    (task->owner == full || running(pool, task->owner) >= pool->share)) {
			full = task->owner;
			continue;
		}
		*place = task->next;
		if (!task->next)
			pool->last = place;
		pool->waiting--;
		return task;
	}
	return NULL;
}

static void *pool_work(void *data)
{
	struct pool_thread *self = data;
	struct pool *pool = self->pool;

	pthread_mutex_lock(&pool->mutex);
	while (pool->first || !pool->closing) {
		struct pool_task *task = take(pool);

		if (!task) {
			pthread_cond_wait(&pool->wake, &pool->mutex);
			continue;
		}
		self->owner = task->owner;
		pthread_mutex_unlock(&pool->mutex);
		task->run(task);
		pthread_mutex_lock(&pool->mutex);
		self->owner = NULL;
		/* This one looks itself; at the end all others look whether there is nothing left. */
		if (pool->closing)
			pthread_cond_broadcast(&pool->wake);
	}
	pthread_mutex_unlock(&pool->mutex);
	return NULL;
}

int pool_open(size_t n, size_t queue_max, struct pool **ret_pool)
{
	struct pool *pool = calloc(1, sizeof(*pool) + n * sizeof(pool->threads[0]));
	pthread_attr_t attr;
	int r = 0;

	if (!pool)
		return -ENOMEM;
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->wake, NULL);
	pool->last = &pool->first;
	pool->share = n < SHARE ? 1 : n / SHARE;
	pool->queue_max = queue_max;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	/* They look at each other under the mutex only. */
	pthread_mutex_lock(&pool->mutex);
	while (r == 0 && pool->n < n) {
		struct pool_thread *self = &pool->threads[pool->n];

		self->pool = pool;
		r = -pthread_create(&self->thread, &attr, pool_work, self);
		pool->n += r == 0;
	}
	pthread_mutex_unlock(&pool->mutex);
	pthread_attr_destroy(&attr);
	if (r < 0)
		pool_close(pool);
	else
		*ret_pool = pool;
	return r;
}

void pool_close(struct pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->mutex);
	pool->closing = true;
	pthread_cond_broadcast(&pool->wake);
	pthread_mutex_unlock(&pool->mutex);
	for (size_t i = 0; i < pool->n; i++)
		pthread_join(pool->threads[i].thread, NULL);
	pthread_cond_destroy(&pool->wake);
	pthread_mutex_destroy(&pool->mutex);
	free(pool);
}

int pool_submit(struct pool *pool, struct pool_task *task)
{
	int r = 0;

	task->next = NULL;
	pthread_mutex_lock(&pool->mutex);
	if (pool->waiting == pool->queue_max || pool->closing ||
	    waiting(pool, task->owner) >= pool->queue_max / SHARE) {
		r = -EAGAIN;
	} else {
		*pool->last = task;
		pool->last = &task->next;
		pool->waiting++;
		pthread_cond_signal(&pool->wake);
	}
	pthread_mutex_unlock(&pool->mutex);
	return r;
}
