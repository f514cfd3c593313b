/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said on cordond's control socket: control/control.h, with this table. Pure. After {"status":"ok"} of the
 * request `events` come events, a JSON object a line as in docs/events.md: those that are kept (without follow, or with
 * past), then with follow all that come, until either side hangs up; without it CORDOND_EVENTS_END says that all were told.
 * `stream` in the answer of `status` is another with each start of the front: what it keeps no earlier one has given away.
 *
 * `root` in an attach: pid is the init of a container that has not executed its command yet, and alone in the cgroup; root is
 * the directory, as it sees it, that is or will be its root. It is fenced with what it executes next.
 */
#ifndef CORDON_CORDOND_PROTOCOL_H
#define CORDON_CORDOND_PROTOCOL_H

#include "control/control.h"

#define CORDOND_SOCKET "/run/cordon/cordond.sock"
#define CORDOND_POLICY_MAX 262144	 /* bytes of a policy's text; CONF_TEXT_MAX */
#define CORDOND_REQUEST_MAX (600 * 1024) /* bytes of a request, newline included */
#define CORDOND_SMALL_REQUEST_MAX 8192	 /* the same of who may not send a policy */
#define CORDOND_EVENTS_END "{\"status\":\"end\"}"
#define CORDOND_STREAM_SIZE 32		      /* of a stream's id, NUL included */
#define CORDOND_ANSWER_LINE_MAX (1024 * 1024) /* of a line of an answer */

/* What a caller must be. Who may operate may read. */
enum cordond_need {
	CORDOND_READ = 1,    /* group cordon-readers: what there is, and events */
	CORDOND_OPERATE = 2, /* root, group cordon-operators: makes, changes and ends fences */
};

/* M(member, type, min, max) */
#define CORDOND_MEMBERS(M)                      \
	M(policy, BODY, 0, CORDOND_POLICY_MAX)  \
	M(workdir, TEXT, 1, 4095)               \
	M(root, TEXT, 1, 4095)                  \
	M(cgroup, TEXT, 1, 4095)                \
	M(container, TEXT, 1, 128)              \
	M(task, TEXT, 1, 128)                   \
	M(tenant, TEXT, 1, 128)                 \
	M(subject, TEXT, 1, 128)                \
	M(fence, TEXT, 1, 255)                  \
	M(pid, NUMBER, 1, INT32_MAX)            \
	M(ring_bytes, NUMBER, 65536, 268435456) \
	M(event_rate, NUMBER, 1, 1000000)       \
	M(own_root, FLAG, 0, 0)                 \
	M(audit, FLAG, 0, 0)                    \
	M(follow, FLAG, 0, 0)                   \
	M(past, FLAG, 0, 0)

enum cordond_member {
#define M(name, type, min, max) CORDOND_##name,
	CORDOND_MEMBERS(M)
#undef M
		CORDOND_MEMBERS_N
};

#define CORDOND_BIT(name) (1U << CORDOND_##name)

/* R(enum, name, need, required, optional) */
#define CORDOND_REQUESTS(R)                                                                 \
	R(STATUS, "status", CORDOND_READ | CORDOND_OPERATE, 0, 0)                           \
	R(LIST, "list", CORDOND_READ | CORDOND_OPERATE, 0, 0)                               \
	R(EVENTS, "events", CORDOND_READ | CORDOND_OPERATE, 0,                              \
	  CORDOND_BIT(follow) | CORDOND_BIT(past) | CORDOND_BIT(fence) | CORDOND_BIT(task)) \
	R(ATTACH, "attach", CORDOND_OPERATE, CORDOND_BIT(cgroup) | CORDOND_BIT(pid),        \
	  CORDOND_BIT(policy) | CORDOND_BIT(workdir) | CORDOND_BIT(root) |                  \
		  CORDOND_BIT(container) | CORDOND_BIT(task) | CORDOND_BIT(tenant) |        \
		  CORDOND_BIT(subject) | CORDOND_BIT(ring_bytes) | CORDOND_BIT(own_root) |  \
		  CORDOND_BIT(audit) | CORDOND_BIT(event_rate))                             \
	R(RELOAD, "reload", CORDOND_OPERATE, CORDOND_BIT(fence) | CORDOND_BIT(policy),      \
	  CORDOND_BIT(workdir) | CORDOND_BIT(audit))                                        \
	R(DETACH, "detach", CORDOND_OPERATE, CORDOND_BIT(fence), 0)

enum cordond_verb {
#define R(id, name, need, required, optional) CORDOND_DO_##id,
	CORDOND_REQUESTS(R)
#undef R
		CORDOND_DO_N
};

struct cordond_request {
	enum cordond_verb verb;
	json_t *root; /* owned */
};

/* 0, or -EINVAL with the fault. Nothing is owned then. */
int cordond_request_parse(const char *line, size_t size, struct cordond_request *ret_request,
			  struct error *error);
void cordond_request_clear(struct cordond_request *request); /* takes a zeroed one */

/* Bits of cordond_need, any of which serves. */
unsigned int cordond_verb_need(enum cordond_verb verb);
const char *cordond_verb_name(enum cordond_verb verb);

/* The member's value; NULL, 0 and false when it is not there. The text lives as long as the request. */
const char *cordond_text(const struct cordond_request *request, enum cordond_member member);
int64_t cordond_number(const struct cordond_request *request, enum cordond_member member);
bool cordond_flag(const struct cordond_request *request, enum cordond_member member);

#endif
