/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the front: no privilege, one thread. */
#ifndef CORDON_CORDOND_FRONT_H
#define CORDON_CORDOND_FRONT_H

#include <grp.h>

#include "alert/alert.h"
#include "control/control.h"
#include "cordond/account.h"
#include "cordond/cordond.h"
#include "cordond/history.h"
#include "cordond/how.h"
#include "cordond/protocol.h"
#include "cordond/settings.h"
#include "cordond/wire.h"
#include "enforce/ring.h"
#include "event/event.h"
#include "event/frame.h"
#include "metrics/metrics.h"

struct front;

enum front_kind {
	FRONT_KEEPER,
	FRONT_DOOR,
	FRONT_CLIENT,
	FRONT_RING,
	FRONT_GATEWAY_DOOR,
	FRONT_GATEWAY
};

/* What epoll tells of: the first member of what it is about. */
struct front_source {
	enum front_kind kind;
};

/* A fence whose events are read. */
struct watched {
	struct front_source source;
	uint64_t id;
	uint32_t slot;
	bool degraded, gap_pending, ending, finished, broken;
	struct how how;
	struct event_context context; /* points into how */
	int ring_fd;
	struct enforce_ring *ring;
	struct account *account; /* among the front's */
	struct event_tracker tracker;
	uint64_t gap_count, gap_ms; /* of the gap whose number is awaited */
	uint64_t looked_ms;	    /* when its counters were last read */
	unsigned int n_numbered;    /* gateways' events whose number is awaited */
	struct alert *alert; /* that the keeper could not be asked to number yet; NULL: none */
	unsigned int label;  /* in metrics */
	uint64_t faults[CORDON_FAULT_COUNT]; /* of its counters, what metrics have already, */
	uint64_t folded;		     /* and this */
};

#define CLIENT_LAGS 64

/* What a reader of events has missed of one fence. */
struct lag {
	uint64_t fence_id; /* 0: of several */
	uint64_t count, last;
};

struct client {
	struct front_source source;
	struct client *next;
	int fd;
	unsigned int may; /* bits of cordond_need */
	uid_t uid;
	pid_t pid;
	uint64_t since_ms; /* of the last byte or answer */
	bool closing;	   /* once everything is written */
	bool writable_wanted;
	/* What it says. */
	char *in;
	size_t in_have, in_room;
	uint32_t serial;    /* a request that the keeper works on; 0: none */
	uint64_t attach_ms; /* when it asked for a fence; 0: it did not */
	/* What it is told. */
	char *out;
	size_t out_have, out_done, out_room;
	/* Of a reader of events. */
	bool reading, follow;
	bool ended;	   /* was told that these were all */
	uint64_t fence_id; /* 0: all */
	char *task;	   /* NULL: all */
	uint64_t place;	   /* in the history */
	size_t line_done;  /* bytes of the line at that place that are written */
	struct lag lag[CLIENT_LAGS];
	size_t n_lag;
};

#define GATEWAYS_MAX 8 /* connections, and lives of gateways that are known again */

/* A connection of a gateway, and the one event of it that is under way. */
struct gateway {
	struct front_source source;
	int fd;		 /* -1: there is none, or it went away with an event under way */
	bool busy;	 /* there is an event */
	bool asked;	 /* for its number */
	uint32_t serial; /* of that request; 0: it is to be made again */
	uint64_t asked_ms;
	uint64_t fence_id, instance, number;
	size_t size;
	char frame[EVENT_FRAME_MAX] __attribute__((aligned(8)));
};

/* One life of one gateway: what it sends again it is not told of twice. */
struct gateway_life {
	uint64_t instance, given, used_ms;
};

struct front {
	int keeper_fd, door_fd, events_fd, peers_fd, epoll_fd;
	int states_fd; /* the counters of all slots, which can only be read */
	struct front_source keeper_source, door_source, events_source;
	struct settings settings;
	bool configured, stopping, has_groups[2];
	gid_t operators, readers;
	bool has_gateway;
	uid_t gateway;
	char node[IDENTITY_NODE_MAX + 1];
	char attached_as[16];
	char old_set[WIRE_TEXT_MAX]; /* why another build's programs are in effect; "": ours are */
	uint64_t started_ns;
	uint32_t fronts;
	bool degraded;
	uint32_t n_states;
	struct account *accounts; /* of each slot, mapped */
	int64_t realtime_offset_ns;
	struct watched **watched;
	size_t n_watched, watched_room;
	struct client *clients;
	size_t n_clients, n_readers;
	struct gateway gateways[GATEWAYS_MAX];
	struct gateway_life told[GATEWAYS_MAX];
	size_t n_gateways;
	uint64_t n_unkept; /* events of fences that are not kept: their numbers */
	uint32_t number_serial;
	bool frame_said; /* that a frame was none */
	struct history *history;
	struct sinks *sinks;   /* NULL until configured */
	struct alerts *alerts; /* NULL: none are wanted */
	struct front_metrics {
		struct metrics_server *server; /* NULL: not configured, or not to be had yet */
		bool said;		       /* that it is not to be had */
		double fill[2]; /* of rings, the highest of this and the last while */
		uint64_t fill_ms;
		char sinks[SINKS_MAX][SINK_NAME_MAX + 1]; /* that were shown */
	} metrics;
	uint64_t n_events, n_lost, n_lagged;
	uint32_t serial;
	struct event *event; /* room for one, and for its line */
	char *line;
	int code;
};

uint64_t front_now_ms(void);
int front_watch(struct front *front, int fd, struct front_source *source, uint32_t events);

/* To the keeper. 0 or -errno; one that is gone ends the front. */
int front_ask(struct front *front, enum wire_type type, uint32_t serial,
	      union wire_message *message, const int *fds);

/* front_fence.c: fences, from ring buffers to lines. */
int front_fence_made(struct front *front, const struct wire_made *made, int ring_fd);
void front_fence_policy(struct front *front, const struct wire_policy *policy);
void front_fence_fact(struct front *front, const struct wire_fact *fact);
void front_fence_ending(struct front *front, uint64_t fence_id);
struct watched *front_fence_find(const struct front *front, uint64_t id);
/* A numbered event of the fence that the front has from elsewhere. */
void front_fence_tell(struct front *front, struct watched *fence, const struct event *event);
/* An event of a fence that is not kept, or of none: numbers it. */
void front_tell_unkept(struct front *front, const struct event_context *context,
		       struct event *event);
/* By its id in hexadecimal or its name, which must be one fence's only. -ENOENT, -EEXIST. */
int front_fence_named(const struct front *front, const char *name, struct watched **ret_fence);
/* Reads what the kernel has reported. Was there anything? */
bool front_fences_read(struct front *front);
/* JSON for `list`. */
json_t *front_fence_row(const struct front *front, const struct watched *fence);

/* The fence's counters. */
void front_fence_state(const struct front *front, const struct watched *fence,
		       struct cordon_state *ret_state);

/* front_metrics.c: what is counted, and the endpoint. What is wrong with it costs figures and nothing else. */
/* Goes over to settings.metrics; before: the address so far. */
void front_metrics_use(struct front *front, const char *before);
void front_metrics_tick(struct front *front); /* once a second: tries what could not be had */
void front_metrics_turn(struct front *front); /* in each turn of the loop */
void front_metrics_fence(struct front *front, struct watched *fence, bool fresh);
void front_metrics_fence_gone(struct front *front, struct watched *fence);
void front_metrics_ring(struct front *front, const struct watched *fence);
/* fence: NULL for one that is not kept. */
void front_metrics_event(const struct watched *fence, const struct event *event);
void front_metrics_state(struct watched *fence, const struct cordon_state *state);
void front_metrics_attached(const struct front *front, uint64_t since_ms, bool ok);

/* front_client.c: the control socket. */
void front_client_accept(struct front *front);
void front_client_ready(struct front *front, struct client *client, uint32_t events);
void front_client_tick(struct front *front);
/* Writes what there is to readers and others. */
void front_clients_pump(struct front *front);
history_evict_fn front_client_evict;
void front_client_reply(struct front *front, const struct wire_reply *reply);
void front_groups_look_up(struct front *front);

/* Is it a process of a fence, who shall not come here? Its fence's events say so, with why. */
bool front_fence_refuse(struct front *front, int fd, pid_t pid, uid_t uid, const char *why);

/* front_gateway.c: what gateways decide. */
void front_gateways_init(struct front *front);
void front_gateway_accept(struct front *front);
void front_gateway_ready(struct front *front, struct gateway *gateway, uint32_t events);
void front_gateway_numbered(struct front *front, uint32_t serial, uint64_t seq);
void front_gateways_turn(struct front *front); /* in each turn of the loop */

/* front_request.c: one request of who may make it. */
void front_request(struct front *front, struct client *client, const char *line, size_t size);
/* Answers. */
void client_row(struct client *client, json_t *row);
void client_ok(struct client *client, json_t *fields); /* fields: taken over, may be NULL */
void client_error(struct client *client, const char *code, const char *reason);
void client_put(struct client *client, const char *text, size_t size);

#endif
