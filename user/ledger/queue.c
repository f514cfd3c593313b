// SPDX-License-Identifier: Apache-2.0
/*
 * The queue and the thread that empties it. Whatever waits when the last commit ended goes into the next transaction,
 * and the busier it is the more share a commit. Callers who were just answered come back one by one; so that the first
 * does not leave without the others, the thread waits until as many are there as took part last, but at most a
 * quarter of the time that the last transaction took, and 3 ms. A caller who is alone never waits. Jobs belong to whoever submitted them; the queue
 * links them and allocates nothing.
 */

#include <errno.h>
#include <string.h>
#include <time.h>

#include "ledger/internal.h"

#define GATHER_NS (3 * INT64_C(1000000))

static bool fits(const char *string, size_t max, bool needed)
{
	size_t size = string ? strnlen(string, max + 1) : 0;

	return (string || !needed) && size <= max && (!needed || size > 0);
}

/* Bounds of everything that comes from outside; what is inside them the database takes. */
static int check_call(const struct ledger_call *call)
{
	bool needed = call->refused == LEDGER_OK;

	if (needed && (!call->tool || (call->tool->has_object && !call->object)))
		return -EINVAL;
	if ((unsigned int)call->refused >= LEDGER_CODES_N || call->n_params > LEDGER_PARAMS_MAX)
		return -EINVAL;
	if (needed && (!call->subject || !call->key || !*call->key || !call->tenant))
		return -EINVAL;
	if (!fits(call->tenant, LEDGER_NAME_MAX, false) ||
	    !fits(call->subject, LEDGER_NAME_MAX, false) ||
	    !fits(call->task, LEDGER_NAME_MAX, false) ||
	    !fits(call->grant, LEDGER_NAME_MAX, false) ||
	    !fits(call->tool_name, LEDGER_NAME_MAX, false) ||
	    !fits(call->scope, LEDGER_NAME_MAX, false) ||
	    !fits(call->method, LEDGER_NAME_MAX, false) ||
	    !fits(call->stated_tenant, LEDGER_NAME_MAX, false) ||
	    !fits(call->route, LEDGER_OBJECT_MAX, false) ||
	    !fits(call->object, LEDGER_OBJECT_MAX, false) ||
	    !fits(call->key, LEDGER_KEY_MAX, false) || call->request_size > LEDGER_REQUEST_MAX)
		return -E2BIG;
	for (size_t i = 0; i < call->n_params; i++)
		if (!fits(call->params[i].name, LEDGER_NAME_MAX, true) ||
		    !fits(call->params[i].text, LEDGER_REQUEST_MAX, false))
			return -E2BIG;
	return 0;
}

static int check_grant(const struct ledger_grant *grant)
{
	if (!grant || !grant->subject || !grant->task || !grant->scope || !grant->tool ||
	    !grant->object || grant->amount_max < 0 || grant->uses_max < 0)
		return -EINVAL;
	if (!fits(grant->id, LEDGER_NAME_MAX, true) ||
	    !fits(grant->tenant, LEDGER_NAME_MAX, true) ||
	    !fits(grant->subject, LEDGER_NAME_MAX, false) ||
	    !fits(grant->task, LEDGER_NAME_MAX, false) ||
	    !fits(grant->scope, LEDGER_NAME_MAX, false) ||
	    !fits(grant->tool, LEDGER_NAME_MAX, false) ||
	    !fits(grant->object, LEDGER_OBJECT_MAX, false))
		return -E2BIG;
	return 0;
}

/* A word of a human is signed. */
static int check_signed(const struct ledger_job *job)
{
	return fits(job->by, LEDGER_NAME_MAX, true) && fits(job->reason, LEDGER_REASON_MAX, false)
		       ? 0
		       : -EINVAL;
}

static int check_outcome(const struct ledger_job *job)
{
	bool finish = job->verb == LEDGER_FINISH;

	if (job->outcome != LEDGER_STATE_DONE && job->outcome != LEDGER_STATE_FAILED &&
	    !(finish && job->outcome == LEDGER_STATE_AMBIGUOUS))
		return -EINVAL;
	return fits(job->result, LEDGER_RESULT_MAX, false) ? 0 : -E2BIG;
}

static int check(const struct ledger_job *job)
{
	int err = 0;

	switch (job->verb) {
	case LEDGER_CALL:
		return check_call(&job->call);
	case LEDGER_START:
		return 0;
	case LEDGER_FINISH:
		return check_outcome(job);
	case LEDGER_SETTLE:
		err = check_outcome(job);
		return err ? err : check_signed(job);
	case LEDGER_APPROVE:
	case LEDGER_DENY:
		if (!fits(job->approval, LEDGER_NAME_MAX, true))
			return -EINVAL;
		return check_signed(job);
	case LEDGER_GRANT:
		return check_grant(job->grant);
	case LEDGER_REVOKE:
		if ((unsigned int)job->revoke_by > LEDGER_REVOKE_FENCE ||
		    !fits(job->value, LEDGER_NAME_MAX, true))
			return -EINVAL;
		return 0;
	case LEDGER_TICK:
		return 0;
	}
	return -EINVAL;
}

/* Strings that PostgreSQL would refuse, and with them the whole transaction. */
static int check_text(const struct ledger_job *job)
{
	const struct ledger_call *call = &job->call;
	const char *const call_strings[] = { call->tenant, call->subject,   call->task,
					     call->grant,  call->tool_name, call->method,
					     call->route,  call->scope,	    call->stated_tenant,
					     call->object, call->key,	    NULL };
	const char *const job_strings[] = { job->result, job->approval, job->by, job->reason,
					    job->value };

	if (job->verb == LEDGER_CALL) {
		for (size_t i = 0; i < ARRAY_SIZE(call_strings); i++)
			if (call_strings[i] && !text_is_plain(call_strings[i], false))
				return -EINVAL;
		for (size_t i = 0; i < call->n_params; i++)
			if (!text_is_plain(call->params[i].name, false) ||
			    (call->params[i].text && !text_is_plain(call->params[i].text, true)))
				return -EINVAL;
		if (call->request_size &&
		    (!call->request ||
		     strnlen(call->request, call->request_size) != call->request_size))
			return -EINVAL;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(job_strings); i++)
		if (job_strings[i] && !text_is_plain(job_strings[i], true))
			return -EINVAL;
	return 0;
}

int ledger_submit(struct ledger *ledger, struct ledger_job *job)
{
	int err;

	job->answer = (struct ledger_answer){ 0 };
	/* Members that the verb does not use may hold anything. */
	if (job->verb != LEDGER_FINISH && job->verb != LEDGER_SETTLE)
		job->result = NULL;
	if (job->verb != LEDGER_APPROVE && job->verb != LEDGER_DENY)
		job->approval = NULL;
	if (job->verb == LEDGER_CALL || job->verb == LEDGER_START || job->verb == LEDGER_FINISH)
		job->by = job->reason = NULL;
	if (job->verb != LEDGER_REVOKE)
		job->value = NULL;
	err = check(job);
	if (!err)
		err = check_text(job);
	if (err)
		return err;
	job->next = NULL;
	if (job->verb == LEDGER_CALL && job->call.tool)
		tool_ref(job->call.tool);
	pthread_mutex_lock(&ledger->mutex);
	if (ledger->stopping)
		err = -ESHUTDOWN;
	else if (ledger->queued >= ledger->options.queue_max)
		err = -EAGAIN;
	if (!err) {
		*ledger->tail = job;
		ledger->tail = &job->next;
		if (++ledger->queued >= ledger->wanted)
			pthread_cond_signal(&ledger->wake);
	}
	pthread_mutex_unlock(&ledger->mutex);
	if (err && job->verb == LEDGER_CALL)
		tool_unref(job->call.tool);
	return err;
}

/* --- waiting for one job ----------------------------------------------------------------------------------------- */

struct waiter {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool done;
};

static void wake_waiter(struct ledger_job *job)
{
	struct waiter *waiter = job->data;

	pthread_mutex_lock(&waiter->mutex);
	waiter->done = true;
	pthread_cond_signal(&waiter->cond);
	pthread_mutex_unlock(&waiter->mutex);
}

void ledger_run(struct ledger *ledger, struct ledger_job *job)
{
	struct waiter waiter = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };
	int err;

	job->done = wake_waiter;
	/* cppcheck-suppress autoVariables ; taken back below, when the job is done */
	job->data = &waiter;
	err = ledger_submit(ledger, job);
	if (err) {
		job->answer.code = err == -EAGAIN      ? LEDGER_OVERLOADED
				   : err == -ESHUTDOWN ? LEDGER_UNAVAILABLE
						       : LEDGER_INVALID_REQUEST;
		return;
	}
	pthread_mutex_lock(&waiter.mutex);
	while (!waiter.done)
		pthread_cond_wait(&waiter.cond, &waiter.mutex);
	pthread_mutex_unlock(&waiter.mutex);
}

void ledger_answer_clear(struct ledger_answer *answer)
{
	free(TAKE_PTR(answer->result));
	answer->result_size = 0;
}

/* --- the thread -------------------------------------------------------------------------------------------------- */

/* Until n wait, or that long; with the mutex. */
static void wait_for(struct ledger *ledger, unsigned int n, int64_t ns)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	ns += until.tv_nsec;
	until.tv_sec += ns / NS_PER_S;
	until.tv_nsec = ns % NS_PER_S;
	ledger->wanted = n;
	while (ledger->queued < n && !ledger->stopping &&
	       pthread_cond_timedwait(&ledger->wake, &ledger->mutex, &until) == 0)
		;
}

/* Takes what waits, at most a batch. 0: it is time for housekeeping. */
static unsigned int take(struct ledger *ledger, bool *ret_stop)
{
	int64_t gather_ns = ledger->last_batch_ns / 4;
	unsigned int n = 0;

	pthread_mutex_lock(&ledger->mutex);
	wait_for(ledger, 1, NS_PER_S);
	if (ledger->head && ledger->queued < ledger->expected)
		wait_for(ledger, ledger->expected, gather_ns < GATHER_NS ? gather_ns : GATHER_NS);
	while (ledger->head && n < ledger->options.batch_max) {
		struct ledger_job *job = ledger->head;

		ledger->head = job->next;
		ledger->queued--;
		ledger->batch_jobs[n++] = job;
	}
	if (!ledger->head)
		ledger->tail = &ledger->head;
	*ret_stop = ledger->stopping && n == 0;
	pthread_mutex_unlock(&ledger->mutex);
	return n;
}

/* A tick that somebody asked for is done between transactions, and then answered. */
static unsigned int run_ticks(struct ledger *ledger, unsigned int n)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < n; i++) {
		struct ledger_job *job = ledger->batch_jobs[i];

		if (job->verb != LEDGER_TICK) {
			ledger->batch_jobs[left++] = job;
			continue;
		}
		tick_run(ledger, true);
		job->answer.code = ledger_health(ledger, NULL) ? LEDGER_UNAVAILABLE : LEDGER_OK;
		job->done(job);
	}
	return left;
}

static void run_batch(struct ledger *ledger, unsigned int n)
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	batch_run(ledger, ledger->batch_jobs, n);
	clock_gettime(CLOCK_MONOTONIC, &to);
	ledger->last_batch_ns =
		(int64_t)(to.tv_sec - from.tv_sec) * NS_PER_S + to.tv_nsec - from.tv_nsec;
	pthread_mutex_lock(&ledger->mutex);
	/* Those who were answered, and those who came meanwhile; some of the former are already among the latter. */
	ledger->expected = n > ledger->queued ? n : ledger->queued;
	if (ledger->expected > ledger->options.batch_max)
		ledger->expected = ledger->options.batch_max;
	pthread_mutex_unlock(&ledger->mutex);
}

void *queue_thread(void *data)
{
	struct ledger *ledger = data;
	bool stop = false;

	while (!stop) {
		unsigned int n = take(ledger, &stop);

		if (n)
			n = run_ticks(ledger, n);
		if (n)
			run_batch(ledger, n);
		if (!stop)
			tick_run(ledger, false);
		tool_reap(ledger);
	}
	return NULL;
}
