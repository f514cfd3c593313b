/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of metrics: each row once; registry, text and docs/metrics.md come from here. No types, no code.
 */
#ifndef CORDON_METRICS_TABLE_H
#define CORDON_METRICS_TABLE_H

/*
 * M(ENUM, KIND, name, label a, label b, doc). KIND: COUNTER (names end in _total), GAUGE, HISTOGRAM. Labels are rows of
 * CORDON_METRIC_LABELS. Units stand in names: seconds, bytes, ratio.
 */
#define CORDON_METRICS(M)                                                                         \
	M(BUILD_INFO, GAUGE, "cordon_build_info", VERSION, NONE, "1, with the version that runs") \
	M(START_TIME, GAUGE, "cordon_start_time_seconds", NONE, NONE,                             \
	  "when the daemon started, Unix time")                                                   \
	M(FENCES, GAUGE, "cordon_fences", NONE, NONE, "fences that enforce or report")            \
	M(FENCES_MAX, GAUGE, "cordon_fences_max", NONE, NONE, "fences that there is room for")    \
	M(FENCES_DEGRADED, GAUGE, "cordon_fences_degraded", NONE, NONE,                           \
	  "fences that cannot enforce everything")                                                \
	M(OLD_SET, GAUGE, "cordon_old_set", NONE, NONE,                                           \
	  "1: programs of another build enforce; those of the cordond that runs were refused")    \
	M(EVENTS, COUNTER, "cordon_events_total", TYPE, VERDICT,                                  \
	  "events in the stream, each with its count")                                            \
	M(LOST, COUNTER, "cordon_events_lost_total", CAUSE, NONE,                                 \
	  "events that were numbered and could not be delivered: `ring_full` or `report`")        \
	M(FOLDED, COUNTER, "cordon_events_folded_total", NONE, NONE,                              \
	  "decisions beyond a fence's budget of events: an event of their kind counts them")      \
	M(DENIED, COUNTER, "cordon_denied_total", RULE, NONE,                                     \
	  "what a rule denied, or would have denied in audit mode, as events say")                \
	M(FENCE_DENIED, COUNTER, "cordon_fence_denied_total", FENCE, NONE,                        \
	  "the same by fence, for as long as it is there")                                        \
	M(FENCE_LOST, COUNTER, "cordon_fence_lost_total", FENCE, NONE,                            \
	  "events of the fence that were lost, as gap records say")                               \
	M(FAULTS, COUNTER, "cordon_faults_total", CAUSE, NONE,                                    \
	  "what the kernel counts, by cause; `inherit`, `enter` and `socket_mark`: state was "    \
	  "full, and the task or socket was refused")                                             \
	M(ATTACH_FAILURES, COUNTER, "cordon_attach_failures_total", NONE, NONE,                   \
	  "requests for a fence that were not met")                                               \
	M(MISSED_HOOKS, COUNTER, "cordon_missed_hooks_total", NONE, NONE,                         \
	  "runs of programs that the kernel skipped, because one ran already on that CPU")        \
	M(LOAD_SECONDS, GAUGE, "cordon_verifier_load_seconds", NONE, NONE,                        \
	  "time until cordond had its programs loaded when it started; little if they were")      \
	M(RING_FILL, GAUGE, "cordon_ring_fill_ratio", NONE, NONE,                                 \
	  "fill of the fullest ring buffer, the highest of the last half minute or more, 0 to 1") \
	M(COLD_START, HISTOGRAM, "cordon_cold_start_seconds", NONE, NONE,                         \
	  "from a request for a fence until it held and had proved it")                           \
	M(COLD_START_SLOW, COUNTER, "cordon_cold_start_slow_total", NONE, NONE,                   \
	  "cold starts that took longer than `metrics.cold_start`")                               \
	M(FRONT_RESTARTS, COUNTER, "cordon_front_restarts_total", NONE, NONE,                     \
	  "times that cordond's front was started again; counters of events begin anew then")     \
	M(ALERTS, COUNTER, "cordon_alerts_total", ALERT, NONE,                                    \
	  "alerts that were written as events")                                                   \
	M(GATEWAYS, GAUGE, "cordon_gateways", NONE, NONE,                                         \
	  "connections of gateways that write their events here")                                 \
	M(FOLLOWERS, GAUGE, "cordon_followers", NONE, NONE, "clients that follow the stream")     \
	M(FOLLOWERS_LOST, COUNTER, "cordon_followers_lost_total", NONE, NONE,                     \
	  "events that followers were too slow for")                                              \
	M(SINK_UP, GAUGE, "cordon_sink_up", SINK, NONE, "1 while the sink can write")             \
	M(SINK_WRITTEN, COUNTER, "cordon_sink_written_total", SINK, NONE,                         \
	  "records that left for good, loss records among them")                                  \
	M(SINK_BYTES, COUNTER, "cordon_sink_written_bytes_total", SINK, NONE, "their bytes")      \
	M(SINK_LOST, COUNTER, "cordon_sink_lost_total", SINK, NONE,                               \
	  "events that did not fit, or that the peer refused")                                    \
	M(SINK_FAILURES, COUNTER, "cordon_sink_failures_total", SINK, NONE,                       \
	  "times that writing or connecting failed")                                              \
	M(SINK_QUEUE, GAUGE, "cordon_sink_queue_bytes", SINK, NONE, "what waits")                 \
	M(SINK_QUEUE_SIZE, GAUGE, "cordon_sink_queue_size_bytes", SINK, NONE, "room for it")      \
	M(SINK_LAG, GAUGE, "cordon_sink_lag_seconds", SINK, NONE, "age of the oldest that waits") \
	M(SINK_CHAIN_BROKEN, GAUGE, "cordon_sink_chain_broken", SINK, NONE,                       \
	  "1: what was in the file did not verify when it was opened")

/* L(ENUM, name, doc): labels. TYPE, VERDICT, CAUSE and RULE have the words of tables.h; the others have texts known at run time. */
#define CORDON_METRIC_LABELS(L)                                                  \
	L(NONE, "", "")                                                          \
	L(TYPE, "type", "type of event")                                         \
	L(VERDICT, "verdict", "its verdict")                                     \
	L(CAUSE, "cause", "fault that the kernel counts, `ring_full` and so on") \
	L(RULE, "rule", "policy line that denied")                               \
	L(FENCE, "fence", "id of a fence that is there")                         \
	L(VERSION, "version", "version of Cordon")                               \
	L(ALERT, "alert", "op of the alert's event")                             \
	L(SINK, "sink", "name of the sink")

/* Upper bounds of the buckets of histograms, seconds. */
#define CORDON_METRIC_BUCKETS(B) \
	B(0.05)                  \
	B(0.1) B(0.25) B(0.5) B(1) B(2.5) B(5) B(10) B(20) B(30)

#endif
