/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sockets share by which people steer a daemon (the gateway's, cordond's): JSON objects, a line each. A client
 * sends a request, {"do":NAME,...}; the answer is any number of rows, {"row":{...}}, and one last line,
 * {"status":"ok",...} or {"error":CODE,"reason":TEXT}. Who somebody is, the kernel says. No privilege of its own; what
 * comes in is hostile. Functions return 0 or -errno and say the cause in *error.
 */
#ifndef CORDON_CONTROL_H
#define CORDON_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "util/util.h"

/* --- requests --------------------------------------------------------------------------------- */

/* A body is text that may hold lines: newlines and tabs. */
enum control_type { CONTROL_TEXT, CONTROL_BODY, CONTROL_NUMBER, CONTROL_FLAG };

/* min..max: bytes of a text, or the value of a number. */
struct control_member {
	const char *name;
	enum control_type type;
	int64_t min, max;
};

/* required and optional: members as bits; of those in `one` exactly one must be there. */
struct control_verb {
	const char *name;
	unsigned int need; /* what a caller must be, any of these bits: the daemon's own */
	unsigned int required, optional, one;
};

struct control_table {
	const char *who; /* "this gateway": for faults */
	const struct control_member *members;
	size_t n_members; /* at most 32 */
	const struct control_verb *verbs;
	size_t n_verbs;
	size_t size_max; /* bytes of a request, newline included */
};

/*
 * Reads line[size), newline or not, by the table: a member that the request does not have, a member twice, another type,
 * text that is too long or holds control characters is refused. 0, *ret_verb and the members, whose values are as the
 * table says (*ret_root: json_decref() it); or -EINVAL with the fault, a text without bytes of the request.
 */
int control_parse(const struct control_table *table, const char *line, size_t size, int *ret_verb,
		  json_t **ret_root, struct error *error);

/* --- peers ------------------------------------------------------------------------------------ */

enum { CONTROL_GROUPS = 256 };

/* Who is at the other end of a connected unix socket, as the kernel noted when they connected. */
struct control_peer {
	uid_t uid;
	pid_t pid; /* may be another's by now */
	size_t n_groups;
	gid_t groups[CONTROL_GROUPS + 1]; /* the first is the primary one */
};

/* 0, or -EPERM when the kernel does not say. Of more than CONTROL_GROUPS groups only the primary one counts. */
int control_peer_read(int fd, struct control_peer *ret_peer);
bool control_peer_has_group(const struct control_peer *peer, gid_t gid);

/* --- sockets ---------------------------------------------------------------------------------- */

/*
 * Makes a socket of that type (SOCK_STREAM, SOCK_SEQPACKET) at path that all may connect to, and listens. Follows no symbolic link, takes away no socket that
 * somebody serves, and wants a directory in which nobody but its owner (root or ourselves) can move things away. who:
 * for messages, "admin". Returns the descriptor or -errno; -EADDRINUSE: another daemon serves there.
 */
int control_listen(const char *who, const char *path, int type, struct error *error);

/* --- clients ---------------------------------------------------------------------------------- */

/* Connects; timeout_s bounds each wait for an answer, 0: none. The descriptor or -errno. hint: what to do when nobody serves. */
int control_connect(const char *path, unsigned int timeout_s, const char *hint,
		    struct error *error);

/* Sends all of line[size). 0 or -errno. */
int control_send(int fd, const char *line, size_t size);

/* What was received and not taken yet. */
struct control_reader {
	int fd;	      /* borrowed */
	char *buffer; /* owned: free() it */
	size_t size, have, taken;
};

/*
 * The next line, newline included, valid until the next call: its bytes, 0 at the end, -errno (-E2BIG: longer than
 * size_max). Blocks.
 */
ssize_t control_read_line(struct control_reader *reader, size_t size_max, char **ret_line);

#endif
