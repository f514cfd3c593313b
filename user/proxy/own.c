// SPDX-License-Identifier: Apache-2.0
/*
 * See own.h. The routes are what the kernel itself will go by, so secondary addresses, local routes and addresses that came a
 * moment ago are told for what they are; a list of addresses read before would not know them.
 */
#include "proxy/own.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct question {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr attribute;
	__u8 addr[16];
};

int own_open(void)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	int err;

	/* Connected: nobody else's messages come in. */
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&kernel, sizeof(kernel)) == 0)
		return fd;
	err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

static int answer_judge(const void *answer, size_t n, __u32 number)
{
	const struct nlmsghdr *head = answer;
	const struct nlmsgerr *error;
	const struct rtmsg *route;

	if (n < sizeof(*head) || head->nlmsg_len > n || head->nlmsg_seq != number)
		return -EBADMSG;
	if (head->nlmsg_type == NLMSG_ERROR && head->nlmsg_len >= NLMSG_LENGTH(sizeof(*error))) {
		error = NLMSG_DATA(head);
		return error->error < 0 ? error->error : -EBADMSG;
	}
	if (head->nlmsg_type != RTM_NEWROUTE || head->nlmsg_len < NLMSG_LENGTH(sizeof(*route)))
		return -EBADMSG;
	route = NLMSG_DATA(head);
	return route->rtm_type != RTN_UNICAST;
}

int own_judge(int fd, const struct cordon_addr *addr)
{
	static _Thread_local __u32 number;
	size_t size = addr->v6 ? 16 : 4;
	char answer[4096] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct question question = {
		.head = { .nlmsg_len = (__u32)(offsetof(struct question, addr) + size),
			  .nlmsg_type = RTM_GETROUTE,
			  .nlmsg_flags = NLM_F_REQUEST,
			  .nlmsg_seq = ++number },
		.route = { .rtm_family = addr->v6 ? AF_INET6 : AF_INET,
			   .rtm_dst_len = (unsigned char)(size * 8) },
		.attribute = { .rta_len = (unsigned short)RTA_LENGTH(size), .rta_type = RTA_DST },
	};
	ssize_t n;

	memcpy(question.addr, addr->v6 ? addr->b : addr->b + 12, size);
	while (recv(fd, answer, sizeof(answer), MSG_DONTWAIT) > 0)
		; /* left over from a question that failed */
	if (send(fd, &question, question.head.nlmsg_len, 0) < 0)
		return -errno;
	n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
	return n < 0 ? -errno : answer_judge(answer, (size_t)n, number);
}
