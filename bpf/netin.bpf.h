/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What comes in. The cgroup packet hook lets the fence's sockets receive
 *   TCP: what belongs to a connection, and the first packet of one that the fence itself makes, or that is for a port
 *        of network.listen;
 *   UDP: from where the fence might send to.
 * All else is dropped and reported, so that listening opens nothing: neither for others to come in, nor to pose as a
 * service of the host. The other hooks here tell a socket the resolver's address as the one that it asked.
 */
#ifndef CORDON_NETIN_BPF_H
#define CORDON_NETIN_BPF_H

#include "net.bpf.h"

enum { TCP_STATE_LISTEN = 10 };

/* Is the sender of this first packet a socket of the fence? */
static __always_inline bool sender_own(struct __sk_buff *skb, const struct fctx *f,
				       const struct detail *d)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *sk;
	__u32 size;
	bool own;

	if (d->addr.v6) {
		__builtin_memcpy(tuple.ipv6.daddr, d->addr.b, 16);
		__builtin_memcpy(tuple.ipv6.saddr, d->own.b, 16);
		tuple.ipv6.dport = bpf_htons(d->dport);
		tuple.ipv6.sport = bpf_htons(d->lport);
		size = sizeof(tuple.ipv6);
	} else {
		__builtin_memcpy(&tuple.ipv4.daddr, d->addr.b + 12, 4);
		__builtin_memcpy(&tuple.ipv4.saddr, d->own.b + 12, 4);
		tuple.ipv4.dport = bpf_htons(d->dport);
		tuple.ipv4.sport = bpf_htons(d->lport);
		size = sizeof(tuple.ipv4);
	}
	if (d->proto == DECIDE_TCP)
		sk = bpf_sk_lookup_tcp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	else
		sk = bpf_sk_lookup_udp(skb, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return false;
	/* A listener at that port is not who sent it; the look-up falls back to one. */
	own = sk->state != TCP_STATE_LISTEN && found_own(f, sk);
	bpf_sk_release(sk);
	return own;
}

/* The answer for a datagram: what the fence could send to its sender. */
static __always_inline __u32 datagram_rule(struct __sk_buff *skb, struct fctx *f, struct detail *d)
{
	__u32 rule = net_rule(f->slot, d);

	if (rule == CORDON_RULE_NET_LOOPBACK_OK && f->policy->loopback == CORDON_LOOPBACK_FENCE)
		return sender_own(skb, f, d) ? rule : CORDON_RULE_NET_LISTEN;
	/* In audit mode queries went to whom they were meant for. */
	if (rule == CORDON_RULE_NET_DNS_ANY && f->policy->mode != CORDON_MODE_AUDIT)
		return CORDON_RULE_NET_LISTEN;
	return decide_allows(rule) ? rule : CORDON_RULE_NET_LISTEN;
}

SEC("cgroup_skb/ingress")
int net_ingress(struct __sk_buff *skb)
{
	struct detail d = {
		.op = CORDON_OP_INBOUND,
		.no_task = 1,
		.err = ERR_PERM,
	};
	struct fctx f;
	int flags = packet_read(skb, &d, true);
	bool plain = flags != PACKET_STRANGE, before;

	/* What is not the first packet finds a connection, which was judged, or is answered by a reset. */
	if (plain && d.proto == DECIDE_TCP && (flags & (TCP_SYN | TCP_ACK)) != TCP_SYN)
		return CGROUP_ALLOW;
	if (!fence_of_packet(&f, skb, &before))
		return CGROUP_DENY;
	d.rule = CORDON_RULE_NET_LISTEN;
	if (f.fence->broken)
		d.rule = CORDON_RULE_GUARD_STATE;
	else if (plain && d.proto == DECIDE_UDP)
		d.rule = datagram_rule(skb, &f, &d);
	else if (plain && (net_listens(f.tag, d.lport) || sender_own(skb, &f, &d)))
		d.rule = CORDON_RULE_NET_LISTEN_OK;
	if (decide_allows(d.rule))
		return CGROUP_ALLOW;
	return packet_answer(&f, &d);
}

/* --- whom a socket is told that it speaks with --------------------------------------------------------------- */

static __always_inline int told4(struct bpf_sock_addr *ctx)
{
	struct cordon_sock *mark =
		ctx->sk ? bpf_sk_storage_get(&cordon_socks, ctx->sk, 0, 0) : NULL;
	struct cordon_addr from;
	__u32 ip = ctx->user_ip4;
	struct fctx f;

	if (!mark || !mark->dns_port || !fence_of_socket(&f, ctx->sk))
		return 1;
	decide_addr4(&from, (__u8 *)&ip);
	dns_restore(ctx, &f, mark, &from, false);
	return 1;
}

static __always_inline int told6(struct bpf_sock_addr *ctx)
{
	struct cordon_sock *mark =
		ctx->sk ? bpf_sk_storage_get(&cordon_socks, ctx->sk, 0, 0) : NULL;
	__u32 ip[4] = { ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3] };
	struct cordon_addr from;
	struct fctx f;

	if (!mark || !mark->dns_port || !fence_of_socket(&f, ctx->sk))
		return 1;
	decide_addr6(&from, (__u8 *)ip);
	dns_restore(ctx, &f, mark, &from, true);
	return 1;
}

SEC("cgroup/recvmsg4")
int net_recvmsg4(struct bpf_sock_addr *ctx)
{
	return told4(ctx);
}

SEC("cgroup/recvmsg6")
int net_recvmsg6(struct bpf_sock_addr *ctx)
{
	return told6(ctx);
}

SEC("cgroup/getpeername4")
int net_getpeername4(struct bpf_sock_addr *ctx)
{
	return told4(ctx);
}

SEC("cgroup/getpeername6")
int net_getpeername6(struct bpf_sock_addr *ctx)
{
	return told6(ctx);
}

#endif
