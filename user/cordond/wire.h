/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the keeper (root) and the front (user cordon, no capability) say to each other over a SOCK_SEQPACKET pair: one
 * struct a message, of exactly its size, with exactly its descriptors. There is no text to be parsed: texts are carried,
 * each ends in NUL inside its room. A message that is not in the table, of another size, number of descriptors or
 * direction, ends the front; the keeper starts a new one.
 */
#ifndef CORDON_CORDOND_WIRE_H
#define CORDON_CORDOND_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "event/event.h"
#include "identity/identity.h"
#include "util/util.h"

#define WIRE_MAGIC 0x44445243U /* "CRDD" */
#define WIRE_VERSION 4
#define WIRE_FDS_MAX 5
#define WIRE_PATH_MAX 4096
#define WIRE_TEXT_MAX 512
#define WIRE_DETAIL_MAX 1024

struct wire_head {
	uint32_t magic;
	uint16_t version;
	uint16_t type;	 /* enum wire_type */
	uint32_t size;	 /* of the whole */
	uint32_t serial; /* of a request; its reply has the same */
};

/* What a fence is made with. */
struct wire_fence {
	int32_t pid;	  /* whose root directory the paths of the policy are seen from */
	uint8_t own_root; /* a container */
	uint8_t pad[3];
	uint64_t ring_bytes;
	uint32_t event_rate;
	uint32_t pad2;
	uint64_t made_ns;	  /* CLOCK_REALTIME; the keeper's */
	struct identity identity; /* fence_id, generation, mode, node: the keeper's */
	char cgroup[WIRE_PATH_MAX]; /* as the client gave it; the keeper judges it. Last: see keeper_adopt.c */
};

struct wire_hello { /* fds: control socket, gateways' socket, state (read only), accepted sockets' fences (read only), accounts */
	struct wire_head head;
	char node[IDENTITY_NODE_MAX + 1];
	char attached_as[16];
	uint64_t started_ns; /* the keeper, CLOCK_REALTIME */
	uint32_t n_states;   /* slots of fences */
	uint32_t pad;
	uint32_t fronts; /* started before this one */
	uint32_t degraded;
	uint64_t opened_ms; /* what it took the keeper to have the programs loaded */
};

/* What only root can count, some times a minute. */
struct wire_figures {
	struct wire_head head;
	uint64_t missed; /* programs that the kernel skipped */
};

/* Whose programs are in effect: this build's if the text is empty, else why not. */
struct wire_set {
	struct wire_head head;
	char why[WIRE_TEXT_MAX];
};

struct wire_config { /* fd: the configuration */
	struct wire_head head;
};

struct wire_attach { /* fd: the image */
	struct wire_head head;
	struct wire_fence fence;
	char root[WIRE_PATH_MAX]; /* of a container that is about to start; "": what is fenced runs */
};

struct wire_reload { /* fd: the image */
	struct wire_head head;
	uint64_t fence_id;
	struct identity identity; /* name of the policy and scopes, from its text */
};

struct wire_detach {
	struct wire_head head;
	uint64_t fence_id;
};

/* A gap record is due: to be numbered, and given back as a fact. */
struct wire_gap {
	struct wire_head head;
	uint64_t fence_id;
	struct event_gap gap;
};

/* An event about a fence is due that the front itself has seen: op `steer`, or an alert. */
struct wire_remark {
	struct wire_head head;
	uint64_t fence_id;
	uint32_t op;
	uint32_t count;		    /* of an alert, as are the next */
	uint64_t first_ns, last_ns; /* CLOCK_REALTIME */
	char detail[WIRE_DETAIL_MAX];
};

/* A number of the fence is wanted, for a gateway's event that the front has. */
struct wire_number {
	struct wire_head head;
	uint64_t fence_id;
};

/* It, for the request of that serial; 0: there is no such fence. */
struct wire_numbered {
	struct wire_head head;
	uint64_t seq;
};

struct wire_reply {
	struct wire_head head;
	int32_t err; /* 0 or -errno */
	uint32_t proved;
	uint64_t fence_id;
	char text[WIRE_TEXT_MAX];
};

struct wire_made { /* fd: ring */
	struct wire_head head;
	struct wire_fence fence;
	uint64_t cgroup_id;
	uint32_t slot;
	uint8_t degraded;
	uint8_t fresh; /* made just now: its numbers begin with 1 */
	uint8_t pad[2];
};

/* Another policy is in force: name, generation, mode, scopes. */
struct wire_policy {
	struct wire_head head;
	uint64_t fence_id;
	struct identity identity;
};

/* An event of user space, numbered by the keeper. */
struct wire_fact {
	struct wire_head head;
	uint64_t fence_id;
	uint64_t seq;
	uint64_t mono_ns;
	uint64_t time_ns;
	int64_t value;
	uint32_t op;
	uint32_t count;		    /* of a gap or an alert */
	uint64_t first_ns, last_ns; /* of an alert */
	uint8_t rule, verdict;
	uint8_t pad[6];
	char detail[WIRE_DETAIL_MAX];
};

struct wire_ended {
	struct wire_head head;
	uint64_t fence_id;
};

struct wire_empty {
	struct wire_head head;
};

/*
 * W(TYPE, struct, descriptors, from the front)
 * STOP: end what is under way and exit. ENDING: the fence is about to end: drain; ENDED answers it. PING wants PONG.
 */
#define WIRE_MESSAGES(W)                \
	W(HELLO, hello, 5, false)       \
	W(SET, set, 0, false)           \
	W(CONFIG, config, 1, false)     \
	W(MADE, made, 1, false)         \
	W(POLICY, policy, 0, false)     \
	W(FACT, fact, 0, false)         \
	W(ENDING, ended, 0, false)      \
	W(REPLY, reply, 0, false)       \
	W(PING, empty, 0, false)        \
	W(FIGURES, figures, 0, false)   \
	W(STOP, empty, 0, false)        \
	W(NUMBERED, numbered, 0, false) \
	W(READY, empty, 0, true)        \
	W(ATTACH, attach, 1, true)      \
	W(RELOAD, reload, 1, true)      \
	W(DETACH, detach, 0, true)      \
	W(GAP, gap, 0, true)            \
	W(REMARK, remark, 0, true)      \
	W(NUMBER, number, 0, true)      \
	W(ENDED, ended, 0, true)        \
	W(PONG, empty, 0, true)

enum wire_type {
	WIRE_NONE,
#define W(type, name, fds, front) WIRE_##type,
	WIRE_MESSAGES(W)
#undef W
		WIRE_TYPE_COUNT
};

union wire_message {
	struct wire_head head;
#define W(type, name, fds, front) struct wire_##name type;
	WIRE_MESSAGES(W)
#undef W
};

/*
 * Sends a message: fills its head. fds are not closed. 0, -EAGAIN when the other does not take it now, or another -errno.
 * serial: of a request or reply, else 0.
 */
int wire_send(int fd, enum wire_type type, uint32_t serial, union wire_message *message,
	      const int *fds);

/*
 * Takes one message that the other side may send. 1 and the message, with its descriptors in ret_fds (the caller's; -1
 * beyond); 0 when there is none now; -ECONNRESET at the end; -EPROTO for what is not in the table.
 */
int wire_receive(int fd, bool from_front, union wire_message *ret_message,
		 int ret_fds[WIRE_FDS_MAX]);

/* Is the text ended within its room? */
bool wire_text_is_sound(const char *text, size_t size);

#endif
