// SPDX-License-Identifier: Apache-2.0
/*
 * What cordond tells Prometheus: counted as events pass, read from the kernel's counters when somebody asks, and served by
 * user/metrics, a turn of whose loop is part of each turn of ours. The endpoint has bounds of its own; an address that is
 * not to be had is tried again each second, because events and fences do not depend on it.
 */
#include "cordond/front.h"

enum { FILL_MS = 30000 };

/* --- counting --------------------------------------------------------------------------------- */

void front_metrics_event(const struct watched *f, const struct event *event)
{
	const struct cordon_event *raw = &event->raw;
	double n = raw->count ? raw->count : 1;

	metrics_add(METRIC_EVENTS, raw->type, raw->verdict, n);
	if (raw->verdict != CORDON_VERDICT_ALLOW) {
		metrics_add(METRIC_DENIED, raw->rule, 0, n);
		if (f)
			metrics_add(METRIC_FENCE_DENIED, f->label, 0, n);
	}
	if (raw->op == CORDON_OP_DENY_RATE || raw->op == CORDON_OP_DESTRUCTIVE)
		metrics_add(METRIC_ALERTS, metrics_label(METRIC_ALERTS, event_op_name(raw->op)), 0,
			    1);
	if (f && raw->op == CORDON_OP_GAP)
		metrics_add(METRIC_FENCE_LOST, f->label, 0, n);
}

/* What the kernel has counted since the last look. */
void front_metrics_state(struct watched *f, const struct cordon_state *state)
{
	for (unsigned int i = 0; i < CORDON_FAULT_COUNT; i++) {
		double n = (double)(state->faults[i] - f->faults[i]);

		if (state->faults[i] <= f->faults[i]) /* nothing new, or it could not be read */
			continue;
		f->faults[i] = state->faults[i];
		metrics_add(METRIC_FAULTS, i, 0, n);
		if (i == CORDON_FAULT_RING_FULL || i == CORDON_FAULT_REPORT)
			metrics_add(METRIC_LOST, i, 0, n);
	}
	if (state->folded > f->folded) {
		metrics_add(METRIC_FOLDED, 0, 0, (double)(state->folded - f->folded));
		f->folded = state->folded;
	}
}

void front_metrics_ring(struct front *front, const struct watched *f)
{
	struct front_metrics *m = &front->metrics;
	double fill = (double)enforce_ring_waiting(f->ring) / (double)enforce_ring_size(f->ring);

	if (fill > m->fill[0])
		m->fill[0] = fill;
}

void front_metrics_attached(const struct front *front, uint64_t since_ms, bool ok)
{
	uint64_t took_ms = front_now_ms() - since_ms;

	if (!ok) {
		metrics_add(METRIC_ATTACH_FAILURES, 0, 0, 1);
		return;
	}
	metrics_observe(METRIC_COLD_START, (double)took_ms / 1000);
	if (took_ms > (uint64_t)front->settings.cold_start_ms)
		metrics_add(METRIC_COLD_START_SLOW, 0, 0, 1);
}

/* --- fences ----------------------------------------------------------------------------------- */

/* Of one that is not fresh an earlier front has counted. */
void front_metrics_fence(struct front *front, struct watched *f, bool fresh)
{
	char id[EVENT_FENCE_ID_SIZE];
	struct cordon_state state;

	f->label = metrics_label(METRIC_FENCE_DENIED, event_format_fence_id(f->id, id));
	if (fresh)
		return;
	front_fence_state(front, f, &state);
	memcpy(f->faults, state.faults, sizeof(f->faults));
	f->folded = state.folded;
}

void front_metrics_fence_gone(struct front *front, struct watched *f)
{
	char id[EVENT_FENCE_ID_SIZE];

	(void)front;
	metrics_forget(METRIC_FENCE_DENIED, event_format_fence_id(f->id, id));
}

/* --- when somebody asks ----------------------------------------------------------------------- */

static void sink_set(const struct sink_stats *s)
{
	unsigned int label = metrics_label(METRIC_SINK_UP, s->name);

	metrics_set(METRIC_SINK_UP, label, 0, s->up);
	metrics_set(METRIC_SINK_WRITTEN, label, 0, (double)s->written);
	metrics_set(METRIC_SINK_BYTES, label, 0, (double)s->bytes);
	metrics_set(METRIC_SINK_LOST, label, 0, (double)s->lost);
	metrics_set(METRIC_SINK_FAILURES, label, 0, (double)s->failures);
	metrics_set(METRIC_SINK_QUEUE, label, 0, (double)s->queued);
	metrics_set(METRIC_SINK_QUEUE_SIZE, label, 0, (double)s->queue_size);
	metrics_set(METRIC_SINK_LAG, label, 0, (double)s->lag_ns / 1e9);
	metrics_set(METRIC_SINK_CHAIN_BROKEN, label, 0, s->chain_broken);
}

static bool is_among(const char *name, const struct sink_stats *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(v[i].name, name))
			return true;
	return false;
}

static void sinks_set(struct front *front)
{
	struct front_metrics *m = &front->metrics;
	static struct sink_stats v[SINKS_MAX];
	size_t n = front->sinks ? sinks_stats(front->sinks, v, SINKS_MAX) : 0;

	n = n < SINKS_MAX ? n : SINKS_MAX;
	for (size_t i = 0; i < SINKS_MAX; i++)
		if (m->sinks[i][0] && !is_among(m->sinks[i], v, n))
			metrics_forget(METRIC_SINK_UP, m->sinks[i]);
	memset(m->sinks, 0, sizeof(m->sinks));
	for (size_t i = 0; i < n; i++) {
		memcpy(m->sinks[i], v[i].name, sizeof(m->sinks[i]));
		sink_set(&v[i]);
	}
}

static void on_refresh(void *arg)
{
	struct front *front = arg;
	const struct front_metrics *m = &front->metrics;
	struct cordon_state state;
	unsigned int degraded = 0;

	for (size_t i = 0; i < front->n_watched; i++) {
		struct watched *f = front->watched[i];

		front_fence_state(front, f, &state);
		front_metrics_state(f, &state);
		degraded += f->degraded;
	}
	metrics_set(METRIC_BUILD_INFO, metrics_label(METRIC_BUILD_INFO, CORDON_VERSION), 0, 1);
	metrics_label(METRIC_ALERTS, event_op_name(CORDON_OP_DENY_RATE)); /* 0 is told, too */
	metrics_label(METRIC_ALERTS, event_op_name(CORDON_OP_DESTRUCTIVE));
	metrics_set(METRIC_START_TIME, 0, 0, (double)front->started_ns / 1e9);
	metrics_set(METRIC_FENCES, 0, 0, (double)front->n_watched);
	metrics_set(METRIC_FENCES_MAX, 0, 0, front->n_states);
	metrics_set(METRIC_FENCES_DEGRADED, 0, 0, degraded);
	metrics_set(METRIC_RING_FILL, 0, 0, m->fill[0] > m->fill[1] ? m->fill[0] : m->fill[1]);
	metrics_set(METRIC_FRONT_RESTARTS, 0, 0, front->fronts);
	metrics_set(METRIC_GATEWAYS, 0, 0, (double)front->n_gateways);
	metrics_set(METRIC_FOLLOWERS, 0, 0, (double)front->n_readers);
	metrics_set(METRIC_FOLLOWERS_LOST, 0, 0, (double)front->n_lagged);
	sinks_set(front);
}

/* --- the endpoint ----------------------------------------------------------------------------- */

static void serve(struct front *front)
{
	struct front_metrics *m = &front->metrics;
	struct error error = { "" };

	if (metrics_serve(NULL, front->settings.metrics, on_refresh, front, &m->server, &error)) {
		if (!m->said)
			cordond_say("%s; it is tried again each second", error.text);
		m->said = true;
	} else if (m->said) {
		m->said = false;
		cordond_say("metrics: %s is served now", front->settings.metrics);
	}
}

void front_metrics_use(struct front *front, const char *before)
{
	const char *now = front->settings.metrics;

	if (before && now && !strcmp(before, now))
		return;
	metrics_server_free(TAKE_PTR(front->metrics.server));
	front->metrics.said = false;
	if (now)
		serve(front);
}

void front_metrics_tick(struct front *front)
{
	struct front_metrics *m = &front->metrics;
	uint64_t now_ms = front_now_ms();

	if (now_ms - m->fill_ms >= FILL_MS) {
		m->fill_ms = now_ms;
		m->fill[1] = m->fill[0];
		m->fill[0] = 0;
	}
	if (front->settings.metrics && !m->server)
		serve(front);
}

void front_metrics_turn(struct front *front)
{
	metrics_server_turn(front->metrics.server);
}
