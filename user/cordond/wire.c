// SPDX-License-Identifier: Apache-2.0
/* See wire.h. Runs on both sides; trusts neither. */
#include "cordond/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static const struct {
	size_t size;
	int fds;
	bool from_front;
} rows[WIRE_TYPE_COUNT] = {
#define W(type, name, fds, front) [WIRE_##type] = { sizeof(struct wire_##name), fds, front },
	WIRE_MESSAGES(W)
#undef W
};

union space {
	char bytes[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

bool wire_text_is_sound(const char *text, size_t size)
{
	return memchr(text, '\0', size);
}

int wire_send(int fd, enum wire_type type, uint32_t serial, union wire_message *message,
	      const int *fds)
{
	struct iovec iov = { message, rows[type].size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union space space = { { 0 } };
	size_t bytes = (size_t)rows[type].fds * sizeof(int);

	message->head = (struct wire_head){
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.type = (uint16_t)type,
		.size = (uint32_t)rows[type].size,
		.serial = serial,
	};
	if (bytes) {
		struct cmsghdr *cmsg;

		msg.msg_control = &space;
		msg.msg_controllen = CMSG_SPACE(bytes);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(cmsg), fds, bytes);
	}
	for (;;) {
		if (sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno == ETOOMANYREFS || errno == ENOBUFS) /* too many descriptors under way */
			return -EAGAIN;
		if (errno != EINTR)
			return -errno;
	}
}

static int fds_take(struct msghdr *msg, int ret_fds[WIRE_FDS_MAX])
{
	int n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t here;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < here; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (n < WIRE_FDS_MAX)
				ret_fds[n++] = fd;
			else
				close(fd);
		}
	}
	return n;
}

static bool head_is_sound(const struct wire_head *head, size_t size, int fds, bool from_front)
{
	return size >= sizeof(*head) && head->magic == WIRE_MAGIC &&
	       head->version == WIRE_VERSION && head->type > WIRE_NONE &&
	       head->type < WIRE_TYPE_COUNT && rows[head->type].size == size &&
	       head->size == size && rows[head->type].fds == fds &&
	       rows[head->type].from_front == from_front;
}

int wire_receive(int fd, bool from_front, union wire_message *ret_message,
		 int ret_fds[WIRE_FDS_MAX])
{
	struct iovec iov = { ret_message, sizeof(*ret_message) };
	union space space;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &space,
		.msg_controllen = sizeof(space),
	};
	ssize_t n;
	int fds;

	for (int i = 0; i < WIRE_FDS_MAX; i++)
		ret_fds[i] = -1;
	memset(&ret_message->head, 0, sizeof(ret_message->head));
	do
		n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (!n)
		return -ECONNRESET;
	fds = fds_take(&msg, ret_fds);
	if (!(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	    head_is_sound(&ret_message->head, (size_t)n, fds, from_front))
		return 1;
	for (int i = 0; i < fds; i++)
		close(ret_fds[i]);
	return -EPROTO;
}
