// SPDX-License-Identifier: Apache-2.0
/*
 * The owner's side: a socket per fence, from which gateways read who the fence is. Root. Nothing is read from a
 * gateway, and a gateway that does not read costs nobody anything: the one message fits into the socket's buffer. What
 * fails here leaves a fence that the gateway does not know: its calls are answered with 401.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "identity/wire.h"

enum { GATEWAYS_MAX = 64, BACKLOG = 64, SWEEP_MAX = 16, SWEEP_NAME = 32 };

/* Most fences never meet a gateway: what is for gateways is made when the first one comes. */
struct identity_owner {
	struct identity_packed *identity;
	struct identity_key key;
	uint32_t slot, next;
	int fd;			   /* listens */
	struct identity_maps maps; /* borrowed */
	int window_fd;		   /* -1: not made yet */
	char *path;		   /* of the socket; NULL: it has none */
	int *gateways; /* connected; kept open for as long as the fence lives; room for GATEWAYS_MAX */
	size_t n_gateways;
};

static gid_t gateway_group(void)
{
	struct group group, *found = NULL;
	char buffer[16384];

	return !getgrnam_r(IDENTITY_GROUP, &group, buffer, sizeof(buffer), &found) && found
		       ? found->gr_gid
		       : 0;
}

static int dir_make(const char *dir, struct error *error)
{
	gid_t gid = gateway_group();
	char parent[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char *slash;

	snprintf(parent, sizeof(parent), "%s", dir);
	slash = strrchr(parent, '/');
	if (slash && slash != parent) {
		*slash = '\0';
		if (mkdir(parent, 0711) && errno != EEXIST)
			return error_set(error, errno, "cannot make %s: %s", parent,
					 strerror(errno));
		/*
		 * The gateway passes through, and makes its admin socket here; sticky, so that it moves nothing of
		 * ours away. The node's lock is there by now.
		 */
		if (!strcmp(dir, IDENTITY_DIR) &&
		    (chown(parent, 0, gid) || chmod(parent, gid ? 01771 : 0711)))
			return error_set(error, errno, "cannot open %s to the gateway: %s", parent,
					 strerror(errno));
	}
	if (mkdir(dir, 0750) && errno != EEXIST)
		return error_set(error, errno, "cannot make %s: %s", dir, strerror(errno));
	if (!geteuid() && (chown(dir, 0, gid) || chmod(dir, gid ? 0750 : 0700)))
		return error_set(error, errno, "cannot set the owner of %s: %s", dir,
				 strerror(errno));
	return 0;
}

/* Some of the directory's sockets, each as likely as any other: of owners that were killed few remain, and who looks at all takes as long as there are fences. */
static size_t dir_sample(DIR *d, char names[SWEEP_MAX][SWEEP_NAME])
{
	struct dirent *entry;
	size_t seen = 0, at;

	while ((entry = readdir(d))) {
		if (!strstr(entry->d_name, IDENTITY_SUFFIX) || strlen(entry->d_name) >= SWEEP_NAME)
			continue;
		at = seen < SWEEP_MAX ? seen : arc4random_uniform((uint32_t)seen + 1);
		seen++;
		if (at < SWEEP_MAX)
			strcpy(names[at], entry->d_name);
	}
	return seen < SWEEP_MAX ? seen : SWEEP_MAX;
}

/* Removes sockets that nobody listens on any more. */
static void dir_sweep(const char *dir)
{
	char names[SWEEP_MAX][SWEEP_NAME];
	DIR *d = opendir(dir);
	size_t n = d ? dir_sample(d, names) : 0;

	if (d)
		closedir(d);
	for (size_t i = 0; i < n; i++) {
		struct sockaddr_un address = { .sun_family = AF_UNIX };
		_cleanup_close_ int fd = -1;

		if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", dir, names[i]) >=
		    (int)sizeof(address.sun_path))
			continue;
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) &&
		    errno == ECONNREFUSED)
			unlink(address.sun_path);
	}
}

/* It listens before it has its name: who sees the name can connect. */
static int owner_listen(struct identity_owner *owner, const char *dir, uint64_t fence_id,
			struct error *error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	gid_t gid = gateway_group();
	char path[sizeof(address.sun_path)];

	if (snprintf(path, sizeof(path), "%s/%016llx", dir, (unsigned long long)fence_id) >=
	    (int)(sizeof(path) - strlen(IDENTITY_SUFFIX)))
		return error_set(error, ENAMETOOLONG, "%s: too long", dir);
	snprintf(address.sun_path, sizeof(address.sun_path), "%.*s.new", (int)(sizeof(path) - 8),
		 path);
	strcat(path, IDENTITY_SUFFIX);
	owner->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (owner->fd < 0 || bind(owner->fd, (struct sockaddr *)&address, sizeof(address)))
		return error_set(error, errno, "cannot make the socket %s: %s", address.sun_path,
				 strerror(errno));
	owner->path = strdup(path);
	if (!owner->path)
		errno = ENOMEM;
	if (!owner->path || (!geteuid() && chown(address.sun_path, 0, gid)) ||
	    chmod(address.sun_path, gid ? 0660 : 0600) || listen(owner->fd, BACKLOG) ||
	    rename(address.sun_path, path)) {
		int err = error_set(error, errno, "cannot open the socket %s: %s", address.sun_path,
				    strerror(errno));

		unlink(address.sun_path);
		return err;
	}
	return 0;
}

/* The memory that all gateways share; sealed, since one that made it smaller would end the others. */
static bool window_make(struct identity_owner *owner)
{
	_cleanup_close_ int fd = memfd_create("cordon-marks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct identity_window *window;

	if (fd < 0 || ftruncate(fd, sizeof(*window)) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return false;
	window = mmap(NULL, sizeof(*window), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (window == MAP_FAILED)
		return false;
	identity_window_close(window, owner->next);
	munmap(window, sizeof(*window));
	owner->window_fd = TAKE_FD(fd);
	return true;
}

/* What gateways need. False: not to be had now; the next one that comes finds it tried again. */
static bool gateways_prepare(struct identity_owner *owner)
{
	if (!owner->gateways)
		owner->gateways = calloc(GATEWAYS_MAX, sizeof(*owner->gateways));
	return owner->gateways && (owner->window_fd >= 0 || window_make(owner));
}

int identity_publish(const char *dir, const struct identity *identity, uint32_t slot,
		     const struct identity_key *key, uint32_t next,
		     const struct identity_maps *maps, struct identity_owner **ret_owner,
		     struct error *error)
{
	struct identity_owner *owner = calloc(1, sizeof(*owner));
	int err;

	if (!owner)
		return error_set(error, ENOMEM, "out of memory");
	owner->fd = owner->window_fd = -1;
	owner->maps = maps ? *maps : (struct identity_maps){ -1, -1 };
	owner->slot = slot;
	owner->next = next;
	owner->key = *key;
	owner->identity = identity_pack(identity);
	if (!dir)
		dir = IDENTITY_DIR;
	err = owner->identity ? dir_make(dir, error) : error_set(error, ENOMEM, "out of memory");
	if (!err) {
		dir_sweep(dir);
		err = owner_listen(owner, dir, identity->fence_id, error);
	}
	if (err) {
		identity_withdraw(owner);
		return err;
	}
	*ret_owner = owner;
	return 0;
}

int identity_owner_fd(const struct identity_owner *owner)
{
	return owner ? owner->fd : -1;
}

static bool message_send(struct identity_owner *owner, int fd)
{
	const int fds[IDENTITY_FDS] = { owner->window_fd, owner->maps.peers_fd,
					owner->maps.notes_fd };
	const size_t n = owner->maps.peers_fd >= 0 && owner->maps.notes_fd >= 0 ? IDENTITY_FDS : 1;
	struct identity_message message = {
		.magic = IDENTITY_MAGIC,
		.version = IDENTITY_VERSION,
		.size_low = (uint16_t)sizeof(struct identity),
		.slot = owner->slot,
		.key = owner->key,
	};
	struct iovec iov = { &message, sizeof(message) };
	union {
		char space[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} control = { 0 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	bool sent;

	identity_unpack(owner->identity, &message.identity);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(cmsg), fds, n * sizeof(int));
	sent = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(message);
	explicit_bzero(&message, sizeof(message));
	return sent;
}

/* Gateways that went make room. */
static void gateways_sweep(struct identity_owner *owner)
{
	for (size_t i = 0; i < owner->n_gateways; i++) {
		struct pollfd pfd = { .fd = owner->gateways[i], .events = POLLRDHUP };

		if (poll(&pfd, 1, 0) <= 0)
			continue;
		close(owner->gateways[i]);
		owner->gateways[i--] = owner->gateways[--owner->n_gateways];
	}
}

void identity_serve(struct identity_owner *owner)
{
	if (!owner)
		return;
	for (;;) {
		int fd = accept4(owner->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		if (owner->n_gateways == GATEWAYS_MAX)
			gateways_sweep(owner);
		if (owner->n_gateways < GATEWAYS_MAX && gateways_prepare(owner) &&
		    message_send(owner, fd))
			owner->gateways[owner->n_gateways++] = fd;
		else
			close(fd);
	}
}

void identity_withdraw(struct identity_owner *owner)
{
	if (!owner)
		return;
	if (owner->path)
		unlink(owner->path);
	if (owner->fd >= 0)
		close(owner->fd);
	for (size_t i = 0; i < owner->n_gateways; i++)
		close(owner->gateways[i]);
	if (owner->window_fd >= 0)
		close(owner->window_fd);
	free(owner->gateways);
	free(owner->path);
	free(owner->identity);
	explicit_bzero(owner, sizeof(*owner));
	free(owner);
}
