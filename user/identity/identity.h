/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is calling: from an accepted connection to the fence that made it, on the kernel's word (promise 11).
 *
 * The owner of a fence (`cordon run`, `cordon attach`; root) publishes its identity on a unix socket below
 * IDENTITY_DIR and keeps it there for as long as the fence lives; the gateway (its own user, no capabilities) connects
 * to every such socket and reads it. That connection is the fence's pulse: when it hangs up, the fence is gone and so
 * is all that was known of it. No process of a fence can connect there (Cordon's unix rule).
 *
 * TCP: a BPF program puts an option into the SYN of each connection that a fence makes to its gateway: the fence's
 * slot, a number that counts up, and a MAC over both and the initial sequence number, under a key that only the
 * kernel, the fence's owner and the gateway hold. A process can neither write TCP options nor read its own SYN, so the
 * mark cannot be made, copied or kept; it belongs to the one connection, and its number counts once, at whichever gateway
 * of the node. Addresses are no part of it: NAT by the kernel
 * leaves it alone, whatever opens a connection of its own (a proxy, docker-proxy, slirp4netns) does not carry it.
 * Unix: a BPF program notes the fence in storage of the very socket that accept(2) returns.
 *
 * Nothing that is unknown, too late, used twice, or of a fence that ended is a caller: -ENOENT, which the gateway
 * answers with 401. All functions may be called from several threads.
 */
#ifndef CORDON_IDENTITY_H
#define CORDON_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reach/reach.h"
#include "util/util.h"

#define IDENTITY_DIR "/run/cordon/identity"
#define IDENTITY_GROUP "cordon-gateway" /* group that may read identities; without it root only */
#define IDENTITY_TEXT_MAX 128
#define IDENTITY_SCOPES_MAX 32
#define IDENTITY_SCOPE_MAX 64
#define IDENTITY_NODE_MAX 255
#define IDENTITY_DOMAINS_SIZE 4096 /* bytes of all rules of network.domains, a NUL behind each */
#define IDENTITY_ALLOW_MAX 32 /* rules of network.allow that open addresses which are not public */

/* What is said of a fence by who made it; never by the agent. "" where nothing was said. All texts end with NUL. */
struct identity {
	uint64_t fence_id;
	uint64_t generation; /* of the policy */
	uint32_t mode;	     /* enum cordon_mode */
	uint32_t n_scopes;
	char scopes[IDENTITY_SCOPES_MAX]
		   [IDENTITY_SCOPE_MAX + 1]; /* what it may ask the gateway for */
	char tenant[IDENTITY_TEXT_MAX + 1];
	char subject[IDENTITY_TEXT_MAX + 1];
	char task[IDENTITY_TEXT_MAX + 1];
	char fence_name[IDENTITY_TEXT_MAX + 1];
	char policy[IDENTITY_TEXT_MAX + 1];
	char container[IDENTITY_TEXT_MAX + 1];
	char node[IDENTITY_NODE_MAX + 1];
	/* What it may reach through the gateway's proxy; see reach/reach.h. */
	uint64_t upload_bytes; /* limits.upload; 0: no ceiling */
	uint32_t n_allow;
	uint32_t domains_size;
	struct reach_allow allow[IDENTITY_ALLOW_MAX];
	char domains[IDENTITY_DOMAINS_SIZE];
};

/* Is every text of it ended, every number within bounds? What does not come from an owner of our build is refused. */
bool identity_is_sound(const struct identity *identity);

/* X(ID, member): the texts, without the scopes. */
#define IDENTITY_TEXTS(X)         \
	X(TENANT, tenant)         \
	X(SUBJECT, subject)       \
	X(TASK, task)             \
	X(FENCE_NAME, fence_name) \
	X(POLICY, policy)         \
	X(CONTAINER, container)   \
	X(NODE, node)

enum identity_text {
#define X(id, member) IDENTITY_##id,
	IDENTITY_TEXTS(X)
#undef X
		IDENTITY_TEXT_COUNT
};

/*
 * The same in as many bytes as its texts need, for who keeps many. identity_pack() takes what is sound; NULL: no memory;
 * to be freed with free(). Texts live as long as that.
 */
struct identity_packed;
struct identity_packed *identity_pack(const struct identity *identity);
void identity_unpack(const struct identity_packed *packed, struct identity *ret_identity);
const char *identity_packed_text(const struct identity_packed *packed, enum identity_text text);
uint64_t identity_packed_generation(const struct identity_packed *packed);
uint32_t identity_packed_mode(const struct identity_packed *packed);

/* --- the gateway's side ----------------------------------------------------------------------------------------- */

struct identity_source;

/*
 * Opens the directory of identities (NULL: IDENTITY_DIR). It need not exist yet: fences come and go. Returns 0 or
 * -errno with the cause and remedy.
 */
int identity_open(const char *dir, struct identity_source **ret_source, struct error *error);
void identity_close(struct identity_source *source); /* takes NULL */

/*
 * To be called on each listening socket, before it accepts: asks the kernel to keep the SYN of what it accepts.
 * Returns 0 or -errno.
 */
int identity_listen(int listen_fd);

/*
 * The fence that made the accepted connection fd, TCP or unix. Returns 0, or -ENOENT: no living fence made it. Ask
 * once per connection, directly after accept(2): the kernel gives a SYN out once, and a mark counts once. Blocks at
 * most IDENTITY_WAIT_MS, and only while a fence is new.
 */
int identity_of_connection(struct identity_source *source, int fd, struct identity *ret_identity);

/*
 * The fence that sent the datagram bytes[0..n) which this host received, by the note that the kernel made of it when it was sent: 0
 * or -ENOENT. from: who it seems to come from; means nothing across network namespaces, and is told to providers of tests only.
 * Does not block.
 */
struct sockaddr;
int identity_of_datagram(struct identity_source *source, const void *bytes, size_t n,
			 const struct sockaddr *from, struct identity *ret_identity);

/* Does the fence live? Exact at the moment of the call; to be asked before each effect. */
bool identity_alive(struct identity_source *source, uint64_t fence_id);

/* The identity of a living fence by its id: 0 or -ENOENT. For grants and the admin socket. */
int identity_find(struct identity_source *source, uint64_t fence_id, struct identity *ret_identity);

/* The same by the task id: 0, -ENOENT, or -EEXIST when several fences have it. */
int identity_find_task(struct identity_source *source, const char *task,
		       struct identity *ret_identity);

/*
 * identity_fd() polls readable when fences came or went; then identity_poll() calls ended() for each that went, so
 * that its connections can be cut. The descriptor is the source's.
 */
typedef void identity_ended_fn(void *context, uint64_t fence_id);
int identity_fd(const struct identity_source *source);
void identity_poll(struct identity_source *source, identity_ended_fn *ended, void *context);

#define IDENTITY_WAIT_MS 250

/*
 * The fence that made an accepted unix socket, whether it lives or not, by the map of enforce_peers_open(): 0, or
 * -ENOENT: none did.
 */
int identity_fence_of_socket(int peers_fd, int fd, uint64_t *ret_fence_id);

/* --- the owner's side ------------------------------------------------------------------------------------------- */

/* What the kernel needs to mark connections with, and the gateway to know them by. */
struct identity_key {
	uint64_t k[2];
};

struct identity_owner;

/* Maps of the kernel side that gateways may read; -1: there is none. Either none or both. */
struct identity_maps {
	int peers_fd; /* cordon_peers: of unix callers */
	int notes_fd; /* cordon_notes: of datagrams */
};

/*
 * Publishes the identity of a fence in dir (NULL: IDENTITY_DIR). slot and key are those that the kernel side marks
 * with, next the number of its next mark: those before count as used. maps are descriptors
 * that can only read (NULL: unix callers and datagrams stay unknown), borrowed until identity_withdraw(). Returns 0 or -errno with the
 * cause.
 */
int identity_publish(const char *dir, const struct identity *identity, uint32_t slot,
		     const struct identity_key *key, uint32_t next,
		     const struct identity_maps *maps, struct identity_owner **ret_owner,
		     struct error *error);

/* Readable when a gateway has come; then identity_serve() answers all that wait. Never blocks. */
int identity_owner_fd(const struct identity_owner *owner); /* -1 for NULL */
void identity_serve(struct identity_owner *owner);	   /* takes NULL */

/* Ends it: every gateway sees the fence go at once. Takes NULL. */
void identity_withdraw(struct identity_owner *owner);

#endif
