/* SPDX-License-Identifier: GPL-2.0 */
/*
 * By which way what a fence sends goes is for the routes of the host to say: an allowed address may be somebody else's on another link.
 * What asks for a way of its own: control messages, the flag MSG_DONTROUTE, a source address that belongs to one link; and
 * options, which net_setsockopt() judges.
 */
#ifndef CORDON_WAY_BPF_H
#define CORDON_WAY_BPF_H

#include "netconf.bpf.h"

enum {
	MSG_DONTROUTE = 4,
	CONTROLS_MAX = 64, /* control messages of one call; more are denied */
};

struct control_walk {
	const void *at;
	__u64 left;
	bool chooses;
};

/* One control message, as the kernel takes them; 1 ends the walk. What is not whole is denied. */
static long control_step(__u32 i, struct control_walk *w)
{
	struct {
		__u64 len;
		__s32 level;
		__s32 type;
	} head;
	__u32 number = 0;
	__u64 step;
	int where;

	if (w->left < sizeof(head))
		return 1;
	if (bpf_probe_read_kernel(&head, sizeof(head), w->at) || head.len < sizeof(head) ||
	    head.len > w->left) {
		w->chooses = true;
		return 1;
	}
	where = decide_control(head.level, head.type);
	if (where >= 0 &&
	    (head.len < sizeof(head) + where + sizeof(number) ||
	     bpf_probe_read_kernel(&number, sizeof(number), w->at + sizeof(head) + where)))
		where = DECIDE_CONTROL_DENIED;
	if (number || where == DECIDE_CONTROL_DENIED) {
		w->chooses = true;
		return 1;
	}
	step = (head.len + 7) & ~7ULL;
	w->at += step;
	w->left = step < w->left ? w->left - step : 0;
	return 0;
}

/* Do control messages, which lie in the kernel, choose the way that is taken? */
noinline int controls_choose(__u64 address, __u64 bytes)
{
	struct control_walk w = { .at = (void *)address, .left = bytes };

	return bpf_loop(CONTROLS_MAX, control_step, &w, 0) == CONTROLS_MAX || w.chooses;
}

/* Is what is sent to leave by another way than the route says, and that denied? */
static __always_inline int way_chosen(struct fctx *f, const struct msghdr *msg, __u16 family)
{
	if (!(msg->msg_flags & MSG_DONTROUTE) &&
	    !controls_choose((__u64)BPF_CORE_READ(msg, msg_control), msg->msg_controllen))
		return 0;
	return netconf_settle(f, family, 0);
}

/* Is it an address that means something on one link only, or a group of one link? */
static __always_inline bool link_local(__u8 first, __u8 second)
{
	return (first == 0xfe && (second & 0xc0) == 0x80) || (first == 0xff && (second & 0xf) <= 2);
}

/*
 * Is the socket bound to an address of one link, and so to that link, but what it sends is for another place? There is no option
 * for it, and no other way to say it since SO_BINDTODEVICE is denied.
 */
static __always_inline bool link_chosen(const struct sock *sk, const struct detail *d)
{
	const __u8 *own = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr8;

	if (sk->__sk_common.skc_family != AF_INET6 || own[0] != 0xfe || (own[1] & 0xc0) != 0x80)
		return false;
	return !d->addr.v6 || !link_local(d->addr.b[0], d->addr.b[1]);
}

#endif
