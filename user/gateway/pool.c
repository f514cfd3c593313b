// SPDX-License-Identifier: Apache-2.0
/* See pool.h. Tasks are taken in the order in which they came. */
#include "gateway/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#define STACK_BYTES (512 * 1024)

struct pool {
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	struct pool_task *first, **last;
	size_t waiting, queue_max;
	bool closing;
	size_t n;
	pthread_t threads[];
};

static void *pool_work(void *data)
{
	struct pool *pool = data;
	struct pool_task *task;

	for (;;) {
		pthread_mutex_lock(&pool->mutex);
		while (!pool->first && !pool->closing)
			pthread_cond_wait(&pool->wake, &pool->mutex);
		task = pool->first;
		if (task) {
			pool->first = task->next;
			if (!pool->first)
				pool->last = &pool->first;
			pool->waiting--;
		}
		pthread_mutex_unlock(&pool->mutex);
		if (!task)
			return NULL;
		task->run(task);
	}
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
	pool->queue_max = queue_max;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	while (r == 0 && pool->n < n) {
		r = -pthread_create(&pool->threads[pool->n], &attr, pool_work, pool);
		pool->n += r == 0;
	}
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
		pthread_join(pool->threads[i], NULL);
	pthread_cond_destroy(&pool->wake);
	pthread_mutex_destroy(&pool->mutex);
	free(pool);
}

int pool_submit(struct pool *pool, struct pool_task *task)
{
	int r = 0;

	task->next = NULL;
	pthread_mutex_lock(&pool->mutex);
	if (pool->waiting == pool->queue_max || pool->closing) {
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
