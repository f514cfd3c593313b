/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How the network itself is set up is no business of a fence, whatever its capabilities: a route or a tunnel of one's
 * own would carry what is addressed to the gateway elsewhere. Asking is allowed. All ways of telling the kernel are
 * judged: NETLINK_ROUTE, the only netlink family that a fence can have, the ioctls and the options of sockets.
 */
#ifndef CORDON_NETCONF_BPF_H
#define CORDON_NETCONF_BPF_H

#include "event.bpf.h"
#include "identity.bpf.h"

enum {
	NETLINK_MESSAGES_MAX = 64, /* in one buffer; more are denied */
	NETLINK_CONTROL = 16,	   /* types below this say nothing to rtnetlink */
	NETLINK_KIND = 3,	   /* of a type: new, delete, get, set */
	NETLINK_KIND_GET = 2,
	SOCKET_IOCTL = 0x8900, /* SIOCxxx, linux/sockios.h */
};

struct netlink_walk {
	const unsigned char *at;
	__u32 left;
	bool changes;
};

/* One message, as netlink_rcv_skb() takes them; 1 ends the walk. */
static long netlink_step(__u32 i, struct netlink_walk *w)
{
	struct {
		__u32 len;
		__u16 type;
		__u16 flags;
		__u32 seq;
		__u32 pid;
	} head;
	__u32 step;

	if (w->left < sizeof(head))
		return 1;
	if (bpf_probe_read_kernel(&head, sizeof(head), w->at)) {
		w->changes = true;
		return 1;
	}
	if (head.len < sizeof(head) || head.len > w->left)
		return 1; /* here the kernel stops, too */
	if (head.type >= NETLINK_CONTROL && (head.type & NETLINK_KIND) != NETLINK_KIND_GET) {
		w->changes = true;
		return 1;
	}
	step = (head.len + 3) & ~3U;
	w->at += step;
	w->left = step < w->left ? w->left - step : 0;
	return 0;
}

static __always_inline int netconf_settle(struct fctx *f, __u16 family, __u32 flags)
{
	struct detail d = {
		.op = CORDON_OP_CONFIGURE,
		.rule = CORDON_RULE_NET_CONFIG,
		.err = ERR_PERM,
		.family = family,
		.flags = flags,
	};

	return settle(f, &d, CORDON_TYPE_NET);
}

SEC("lsm/netlink_send")
int FENCE_HOOK(net_netlink_send, struct sock *sk, struct sk_buff *skb, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct netlink_walk w = { .at = skb->data, .left = skb->len };

	if (bpf_loop(NETLINK_MESSAGES_MAX, netlink_step, &w, 0) == NETLINK_MESSAGES_MAX)
		w.changes = true;
	return w.changes ? netconf_settle(&f, 16 /* AF_NETLINK */, 0) : 0;
}

/* Does this ioctl of a socket only ask, or concern the socket alone? Others have numbers in this range, too. */
static __always_inline bool ioctl_asks(unsigned int cmd)
{
	switch (cmd & 0xff) {
	case 0x01 ... 0x07: /* owner, mark, time stamps */
	case 0x10:	    /* SIOCGIFNAME, and then each second one asks */
	case 0x12:
	case 0x13:
	case 0x15:
	case 0x17:
	case 0x19:
	case 0x1b:
	case 0x1d:
	case 0x1f:
	case 0x21:
	case 0x27:
	case 0x29:
	case 0x33: /* SIOCGIFINDEX */
	case 0x35:
	case 0x38:
	case 0x42:
	case 0x46: /* SIOCETHTOOL: mostly asks; what it sets is left to capabilities */
	case 0x54: /* SIOCGARP */
	case 0x61:
	case 0x70:
		return true;
	default:
		return false;
	}
}

/* An ioctl in the range of sockets. `file` need not be one: the number alone says nothing. */
static __always_inline int netconf_ioctl(int ret, struct file *file, unsigned int cmd)
{
	struct inode *inode = file->f_inode;
	const struct socket *sock;

	if (!inode || (inode->i_mode & DECIDE_S_IFMT) != DECIDE_S_IFSOCK || ioctl_asks(cmd))
		return ret;
	FENCE_ENTER(f, ret);
	sock = file->private_data;
	return netconf_settle(&f, BPF_CORE_READ(sock, sk, __sk_common.skc_family), cmd);
}

/* Besides netlink and ioctls a third way: what one's own socket has the kernel send. By io_uring, too. */
SEC("lsm/socket_setsockopt")
int FENCE_HOOK(net_setsockopt, struct socket *sock, int level, int option, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	if (!decide_option(level, option))
		return 0;
	return netconf_settle(&f, BPF_CORE_READ(sock, sk, __sk_common.skc_family), option);
}

/* SCTP connects by a socket option, past socket_connect. A fence has no such socket but one that was handed in. */
SEC("lsm/sctp_bind_connect")
int FENCE_HOOK(net_sctp_bind_connect, struct sock *sk, int optname, void *address, int len, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_CONNECT,
		.rule = CORDON_RULE_NET_FAMILY,
		.err = ERR_PERM,
		.family = 2,
		.proto = 132,
	};

	return settle(&f, &d, CORDON_TYPE_NET);
}

#endif
