// SPDX-License-Identifier: Apache-2.0
/*
 * The gateway's side: the fences that live, and which of them a connection belongs to. No privilege. Holds one
 * connection per fence; an entry without a living connection does not exist. In doubt (a message of another build, a
 * table that is full, a socket that is not root's) a fence stays unknown.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#include "cordon/abi.h"
#include "identity/wire.h"

enum { ENTRIES_GROW = 64, ENDED_MAX = CORDON_FENCES_MAX, TOLD_AT_ONCE = 256 };

struct entry {
	int fd;			/* to the owner; -1: the entry is free */
	int peers_fd, notes_fd; /* -1: none */
	bool ready;		/* the message came */
	char name[64];
	struct identity_message message;
	struct identity_window *window; /* shared with other gateways; NULL: not ready */
};

struct identity_source {
	pthread_mutex_t lock;
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int epoll_fd, inotify_fd, event_fd;
	bool watched;	       /* the directory is there and inotify tells of it */
	bool dirty;	       /* the directory may hold something new */
	struct entry *entries; /* at most CORDON_FENCES_MAX; those with fd -1 are free */
	size_t n_entries;
	uint64_t ended[ENDED_MAX]; /* not told yet */
	size_t n_ended;
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

enum { NO_ENTRY = UINT32_MAX };

/* index: of the entry that the descriptor belongs to, or NO_ENTRY. */
static void epoll_add(struct identity_source *s, int fd, uint32_t index)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.u32 = index };

	epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* --- entries ------------------------------------------------------------------------------------------------ */

static void entry_drop(struct identity_source *s, struct entry *e)
{
	if (e->ready && s->n_ended < ENDED_MAX) {
		s->ended[s->n_ended++] = e->message.identity.fence_id;
		(void)!write(s->event_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
	}
	close(e->fd);
	if (e->peers_fd >= 0)
		close(e->peers_fd);
	if (e->notes_fd >= 0)
		close(e->notes_fd);
	if (e->window)
		munmap(e->window, sizeof(*e->window));
	explicit_bzero(e, sizeof(*e));
	e->fd = e->peers_fd = e->notes_fd = -1;
}

/* Only root makes fences; a test may be its own owner. */
static bool owner_is_trusted(int fd)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) &&
	       (!cred.uid || cred.uid == geteuid());
}

/* A free entry, or NULL. Others may move. */
static struct entry *entry_new(struct identity_source *s)
{
	size_t n = s->n_entries;
	struct entry *grown;

	for (size_t i = 0; i < n; i++)
		if (s->entries[i].fd < 0)
			return &s->entries[i];
	if (n >= CORDON_FENCES_MAX)
		return NULL;
	grown = realloc(s->entries, (n + ENTRIES_GROW) * sizeof(*grown));
	if (!grown)
		return NULL;
	memset(grown + n, 0, ENTRIES_GROW * sizeof(*grown));
	for (size_t i = n; i < n + ENTRIES_GROW; i++)
		grown[i].fd = grown[i].peers_fd = grown[i].notes_fd = -1;
	s->entries = grown;
	s->n_entries = n + ENTRIES_GROW;
	return &grown[n];
}

static void entry_connect(struct identity_source *s, const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct entry *free_entry;
	int fd;

	for (size_t i = 0; i < s->n_entries; i++)
		if (s->entries[i].fd >= 0 && !strcmp(s->entries[i].name, name))
			return;
	free_entry = entry_new(s);
	if (!free_entry || strlen(name) >= sizeof(free_entry->name) ||
	    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", s->dir, name) >=
		    (int)sizeof(address.sun_path))
		return;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) || !owner_is_trusted(fd)) {
		close(fd);
		return;
	}
	free_entry->fd = fd;
	strcpy(free_entry->name, name);
	epoll_add(s, fd, free_entry - s->entries);
}

/* The descriptors beside a message; -1 where there is none. Others are closed. */
static void message_fds(struct msghdr *msg, int ret_fds[IDENTITY_FDS])
{
	size_t found = 0;

	for (size_t i = 0; i < IDENTITY_FDS; i++)
		ret_fds[i] = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n =
			c->cmsg_len > CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (found < IDENTITY_FDS)
				ret_fds[found++] = fd;
			else
				close(fd);
		}
	}
}

/* Maps what fd refers to, if it is memory of that size which nobody can make smaller; NULL: it is not. */
static struct identity_window *window_map(int fd)
{
	struct identity_window *window;
	struct stat st;
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) ||
	    st.st_size != sizeof(*window))
		return NULL;
	window = mmap(NULL, sizeof(*window), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return window == MAP_FAILED ? NULL : window;
}

static bool message_is_sound(const struct identity_message *m, size_t n)
{
	return n == sizeof(*m) && m->magic == IDENTITY_MAGIC && m->version == IDENTITY_VERSION &&
	       m->size_low == (uint16_t)sizeof(m->identity) && m->slot < CORDON_FENCES_MAX &&
	       identity_is_sound(&m->identity);
}

/* Reads what the owner says, if it does. Drops the entry when it hung up or is not of our build. */
static void entry_read(struct identity_source *s, struct entry *e)
{
	struct identity_message m;
	struct iovec iov = { &m, sizeof(m) };
	union {
		char space[CMSG_SPACE(IDENTITY_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(e->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	char name[sizeof(e->name)];
	int fds[IDENTITY_FDS];
	bool ready;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		message_fds(&msg, fds);
		if (!(msg.msg_flags & MSG_TRUNC) && message_is_sound(&m, (size_t)n) && !e->ready)
			e->window = window_map(fds[0]);
		if (fds[0] >= 0)
			close(fds[0]);
		if (e->window && !e->ready) {
			e->message = m;
			e->peers_fd = fds[1];
			e->notes_fd = fds[2];
			e->ready = true;
			return;
		}
		for (size_t i = 1; i < IDENTITY_FDS; i++)
			if (fds[i] >= 0)
				close(fds[i]);
	}
	ready = e->ready;
	strcpy(name, e->name);
	entry_drop(s, e);
	/* Its owner may have published it anew before it hung up, while the name was still this entry's. */
	if (ready)
		entry_connect(s, name);
}

static void watch(struct identity_source *s)
{
	if (s->watched)
		return;
	s->watched = inotify_add_watch(s->inotify_fd, s->dir,
				       IN_MOVED_TO | IN_DELETE_SELF | IN_ONLYDIR) >= 0;
}

static void inotify_drain(struct identity_source *s)
{
	char buffer[4096] __attribute__((aligned(8)));
	ssize_t n;

	while ((n = read(s->inotify_fd, buffer, sizeof(buffer))) > 0) {
		s->dirty = true;
		for (char *p = buffer; p < buffer + n;) {
			const struct inotify_event *event = (void *)p;

			if (event->mask & (IN_IGNORED | IN_DELETE_SELF))
				s->watched = false;
			p += sizeof(*event) + event->len;
		}
	}
}

/* Connects to what is new in the directory. */
static void scan(struct identity_source *s)
{
	DIR *d;
	struct dirent *entry;

	inotify_drain(s);
	if (s->watched && !s->dirty)
		return;
	watch(s);
	s->dirty = false;
	d = opendir(s->dir);
	if (!d)
		return;
	while ((entry = readdir(d))) {
		size_t n = strlen(entry->d_name);

		if (n > strlen(IDENTITY_SUFFIX) &&
		    !strcmp(entry->d_name + n - strlen(IDENTITY_SUFFIX), IDENTITY_SUFFIX))
			entry_connect(s, entry->d_name);
	}
	closedir(d);
}

/* Everything up to date. Returns whether a fence is there whose owner has not spoken yet. */
static bool refresh(struct identity_source *s)
{
	struct epoll_event events[64];
	int n = ARRAY_SIZE(events);
	bool pending = false;

	scan(s);
	for (size_t seen = 0; n == ARRAY_SIZE(events) && seen <= s->n_entries; seen += n) {
		n = epoll_wait(s->epoll_fd, events, ARRAY_SIZE(events), 0);
		for (int i = 0; i < n; i++) {
			uint32_t index = events[i].data.u32;

			if (index < s->n_entries && s->entries[index].fd >= 0)
				entry_read(s, &s->entries[index]);
		}
	}
	for (size_t i = 0; i < s->n_entries; i++)
		pending |= s->entries[i].fd >= 0 && !s->entries[i].ready;
	return pending;
}

static struct entry *entry_find(struct identity_source *s, uint64_t fence_id)
{
	for (size_t i = 0; i < s->n_entries; i++)
		if (s->entries[i].fd >= 0 && s->entries[i].ready &&
		    s->entries[i].message.identity.fence_id == fence_id)
			return &s->entries[i];
	return NULL;
}

/* Has the owner not hung up until now? */
static bool entry_alive(struct identity_source *s, struct entry *e)
{
	entry_read(s, e);
	return e->fd >= 0;
}

/* --- connections -------------------------------------------------------------------------------------------- */

static bool tags_equal(const struct cordon_peer_option *a, const struct cordon_peer_option *b)
{
	unsigned char differ = 0;

	for (int i = 0; i < CORDON_PEER_TAG_SIZE; i++)
		differ |= a->tag[i] ^ b->tag[i];
	return !differ;
}

/* The fence that made a SYN's mark; its number counts once. */
static struct entry *entry_of_syn(struct identity_source *s, const struct identity_syn *syn)
{
	for (size_t i = 0; i < s->n_entries; i++) {
		struct entry *e = &s->entries[i];
		struct cordon_peer_option want;
		__u64 key[2];

		if (e->fd < 0 || !e->ready || e->message.slot != syn->slot)
			continue;
		key[0] = e->message.key.k[0];
		key[1] = e->message.key.k[1];
		cordon_peer_fill(&want, key, syn->slot, syn->count, syn->isn);
		if (tags_equal(&want, &syn->option) && entry_alive(s, e))
			return identity_window_take(e->window, syn->count) ? e : NULL;
	}
	return NULL;
}

static int map_lookup(int map_fd, const void *key, void *ret_value)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (__u32)map_fd;
	attr.key = (__u64)(uintptr_t)key;
	attr.value = (__u64)(uintptr_t)ret_value;
	return (int)syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &attr, sizeof(attr));
}

int identity_fence_of_socket(int peers_fd, int fd, uint64_t *ret_fence_id)
{
	struct cordon_sock mark = { 0 };

	if (map_lookup(peers_fd, &fd, &mark) || !mark.fence_id)
		return -ENOENT;
	*ret_fence_id = mark.fence_id;
	return 0;
}

/* The fence that a unix socket's storage names. All living fences share one map, whichever of them gave it. */
static struct entry *entry_of_unix(struct identity_source *s, int fd)
{
	for (size_t i = 0; i < s->n_entries; i++) {
		struct entry *e = &s->entries[i];
		struct cordon_sock mark = { 0 };

		if (e->fd < 0 || !e->ready || e->peers_fd < 0 ||
		    map_lookup(e->peers_fd, &fd, &mark))
			continue;
		e = entry_find(s, mark.fence_id);
		return e && entry_alive(s, e) ? e : NULL;
	}
	return NULL;
}

struct connection {
	int fd;
	bool tcp;
	struct identity_syn syn;
};

static int connection_look(int fd, struct connection *ret)
{
	int domain = 0, protocol = 0;
	socklen_t size = sizeof(domain);
	uint8_t headers[512];

	ret->fd = fd;
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size))
		return -ENOENT;
	ret->tcp = false;
	if (domain == AF_UNIX)
		return 0;
	size = sizeof(protocol);
	if ((domain != AF_INET && domain != AF_INET6) ||
	    getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) || protocol != IPPROTO_TCP)
		return -ENOENT;
	ret->tcp = true;
	size = sizeof(headers);
	if (getsockopt(fd, IPPROTO_TCP, TCP_SAVED_SYN, headers, &size) || size > sizeof(headers))
		return -ENOENT;
	return identity_parse_syn(headers, size, &ret->syn);
}

int identity_of_connection(struct identity_source *s, int fd, struct identity *ret_identity)
{
	struct connection connection;
	uint64_t until = now_ms() + IDENTITY_WAIT_MS;
	int err = connection_look(fd, &connection);

	if (err)
		return err;
	for (;;) {
		struct entry *e;
		bool pending;

		pthread_mutex_lock(&s->lock);
		pending = refresh(s);
		e = connection.tcp ? entry_of_syn(s, &connection.syn) : entry_of_unix(s, fd);
		if (e)
			*ret_identity = e->message.identity;
		pthread_mutex_unlock(&s->lock);
		if (e)
			return 0;
		if (!pending || now_ms() >= until)
			return -ENOENT;
		poll(&(struct pollfd){ .fd = s->epoll_fd, .events = POLLIN }, 1, 5);
	}
}

/* The note of a datagram. All living fences share one map, whichever of them gave it. */
static bool note_find(const struct identity_source *s, const struct cordon_datagram *datagram,
		      struct cordon_note *ret_note)
{
	for (size_t i = 0; i < s->n_entries; i++)
		if (s->entries[i].fd >= 0 && s->entries[i].ready && s->entries[i].notes_fd >= 0)
			return !map_lookup(s->entries[i].notes_fd, datagram, ret_note);
	return false;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/*
 * Whoever else sends the same bytes within the time gets what the fence asked for: nothing leaves by that which the fence did not say
 * itself.
 */
int identity_of_datagram(struct identity_source *s, const void *bytes, size_t n,
			 const struct sockaddr *from, struct identity *ret_identity)
{
	struct cordon_datagram datagram = { .n = (uint16_t)n };
	struct cordon_note note = { 0 };
	struct entry *e = NULL;

	(void)from;
	if (!n || n > sizeof(datagram.bytes))
		return -ENOENT;
	memcpy(datagram.bytes, bytes, n);
	pthread_mutex_lock(&s->lock);
	refresh(s);
	if (note_find(s, &datagram, &note) && note.fence_id && now_ns() - note.ns < CORDON_NOTE_NS)
		e = entry_find(s, note.fence_id);
	if (e && !entry_alive(s, e))
		e = NULL;
	if (e)
		*ret_identity = e->message.identity;
	pthread_mutex_unlock(&s->lock);
	return e ? 0 : -ENOENT;
}

int identity_listen(int listen_fd)
{
	int domain = 0, on = 1;
	socklen_t size = sizeof(domain);

	if (getsockopt(listen_fd, SOL_SOCKET, SO_DOMAIN, &domain, &size))
		return -errno;
	if (domain == AF_UNIX)
		return 0;
	return setsockopt(listen_fd, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on)) ? -errno : 0;
}

/* --- the rest ----------------------------------------------------------------------------------------------- */

bool identity_alive(struct identity_source *s, uint64_t fence_id)
{
	struct entry *e;
	bool alive;

	pthread_mutex_lock(&s->lock);
	e = entry_find(s, fence_id);
	alive = e && entry_alive(s, e);
	pthread_mutex_unlock(&s->lock);
	return alive;
}

int identity_find(struct identity_source *s, uint64_t fence_id, struct identity *ret_identity)
{
	struct entry *e;
	int err = -ENOENT;

	pthread_mutex_lock(&s->lock);
	refresh(s);
	e = entry_find(s, fence_id);
	if (e && entry_alive(s, e)) {
		*ret_identity = e->message.identity;
		err = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return err;
}

int identity_find_task(struct identity_source *s, const char *task, struct identity *ret_identity)
{
	int found = 0;

	pthread_mutex_lock(&s->lock);
	refresh(s);
	for (size_t i = 0; i < s->n_entries; i++) {
		struct entry *e = &s->entries[i];

		if (e->fd < 0 || !e->ready || strcmp(e->message.identity.task, task) != 0)
			continue;
		*ret_identity = e->message.identity;
		found++;
	}
	pthread_mutex_unlock(&s->lock);
	return found == 1 ? 0 : found ? -EEXIST : -ENOENT;
}

int identity_fd(const struct identity_source *source)
{
	return source->epoll_fd;
}

void identity_poll(struct identity_source *s, identity_ended_fn *ended, void *context)
{
	uint64_t gone[TOLD_AT_ONCE], count;
	size_t n;

	pthread_mutex_lock(&s->lock);
	refresh(s);
	(void)!read(s->event_fd, &count, sizeof(count));
	do {
		n = s->n_ended < ARRAY_SIZE(gone) ? s->n_ended : ARRAY_SIZE(gone);
		s->n_ended -= n;
		memcpy(gone, s->ended + s->n_ended, n * sizeof(*gone));
		pthread_mutex_unlock(&s->lock);
		for (size_t i = 0; ended && i < n; i++)
			ended(context, gone[i]);
		pthread_mutex_lock(&s->lock);
	} while (n);
	pthread_mutex_unlock(&s->lock);
}

int identity_open(const char *dir, struct identity_source **ret_source, struct error *error)
{
	struct identity_source *s = calloc(1, sizeof(*s));

	if (!s)
		return error_set(error, ENOMEM, "out of memory");
	pthread_mutex_init(&s->lock, NULL);
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->dirty = true;
	if (s->epoll_fd < 0 || s->inotify_fd < 0 || s->event_fd < 0) {
		error_set(error, errno, "cannot watch identities: %s", strerror(errno));
		identity_close(s);
		return -EMFILE;
	}
	if (!dir)
		dir = IDENTITY_DIR;
	if (strlen(dir) >= sizeof(s->dir)) {
		identity_close(s);
		return error_set(error, ENAMETOOLONG, "%s: too long", dir);
	}
	strcpy(s->dir, dir);
	epoll_add(s, s->inotify_fd, NO_ENTRY);
	epoll_add(s, s->event_fd, NO_ENTRY);
	pthread_mutex_lock(&s->lock);
	refresh(s);
	pthread_mutex_unlock(&s->lock);
	*ret_source = s;
	return 0;
}

void identity_close(struct identity_source *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_entries; i++)
		if (s->entries[i].fd >= 0)
			entry_drop(s, &s->entries[i]);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	if (s->inotify_fd >= 0)
		close(s->inotify_fd);
	if (s->event_fd >= 0)
		close(s->event_fd);
	pthread_mutex_destroy(&s->lock);
	free(s->entries);
	free(s);
}
