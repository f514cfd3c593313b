/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whose connection it is, for the gateway (include/cordon/peer.h, user/identity):
 *   peer_syn    cgroup sockops: puts the fence's mark into each SYN to one of the fence's gateways or its resolver, and nowhere else;
 *   peer_unix   on entry of security_unix_stream_connect(): notes the fence in storage of the socket that accept(2)
 *               will return. A tracing program, because fmod_ret programs may not use socket storage.
 * They decide nothing. A connection that they miss is one that the gateway answers with 401.
 */
#ifndef CORDON_PEER_BPF_H
#define CORDON_PEER_BPF_H

#include "cordon/peer.h"
#include "net.bpf.h"

enum { TCP_FLAG_SYN = 0x02, TCP_FLAG_ACK = 0x10, SOCKOPS_OK = 1 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CORDON_FENCES_MAX);
	__type(key, __u32);
	__type(value, struct cordon_peer);
} cordon_peer_keys SEC(".maps");

/* Of accepted unix sockets: who connected. Read by the gateway, by the descriptor that it accepted. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cordon_sock);
} cordon_peers SEC(".maps");

/* The fence of a socket: as it was marked when it was made, else by the cgroup that it was made in. */
static __always_inline bool fence_of_sockops(struct fctx *f, struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct cordon_sock *mark;
	struct cordon_fence *fence;
	struct tcp_sock *tp;
	struct sock *inner;
	__u32 slot;
	int found;

	f->task = NULL;
	if (!sk)
		return false;
	mark = bpf_sk_storage_get(&cordon_socks, sk, 0, 0);
	if (mark)
		return fence_load(f, mark->slot, mark->fence_id);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return false;
	inner = (struct sock *)tp;
	found = cgroup_slot(BPF_CORE_READ(inner, sk_cgrp_data.cgroup));
	if (found < 0)
		return false;
	slot = found;
	fence = bpf_map_lookup_elem(&cordon_fences, &slot);
	return fence && fence_load(f, slot, fence->id);
}

/* To one of the fence's gateways, or to the resolver of its names, which is part of one. */
static __always_inline bool sockops_to_gateway(const struct fctx *f, struct bpf_sock_ops *ctx)
{
	__u16 port = bpf_ntohl(ctx->remote_port);
	const struct cordon_gateway *resolver;
	struct cordon_addr addr = {};
	__u32 ip[4] = { ctx->remote_ip4 };

	if (ctx->family == AF_INET6) {
		ip[0] = ctx->remote_ip6[0];
		ip[1] = ctx->remote_ip6[1];
		ip[2] = ctx->remote_ip6[2];
		ip[3] = ctx->remote_ip6[3];
		decide_addr6(&addr, (__u8 *)ip);
	} else {
		decide_addr4(&addr, (__u8 *)ip);
	}
	resolver = &f->policy->resolver[addr.v6 & 1];
	if (f->policy->dns && resolver->port == port &&
	    !decide_addr_differs(&resolver->addr, &addr))
		return true;
	for (int i = 0; i < CORDON_GATEWAYS_MAX; i++) {
		const struct cordon_gateway *g = &f->policy->gateway[i];

		if (i < f->policy->n_gateways && g->port == port &&
		    !decide_addr_differs(&g->addr, &addr))
			return true;
	}
	return false;
}

static __always_inline void sockops_mark(struct bpf_sock_ops *ctx)
{
	struct cordon_peer_option option;
	struct cordon_peer *peer;
	struct fctx f;

	if (!fence_of_sockops(&f, ctx))
		return;
	peer = bpf_map_lookup_elem(&cordon_peer_keys, &f.slot);
	if (!peer)
		return;
	/* The oldest byte that is not acknowledged: of a SYN, the initial sequence number. */
	cordon_peer_fill(&option, peer->key, f.slot, __sync_fetch_and_add(&peer->count, 1),
			 ctx->snd_una);
	bpf_store_hdr_opt(ctx, &option, sizeof(option), 0);
}

SEC("sockops")
int peer_syn(struct bpf_sock_ops *ctx)
{
	struct fctx f;

	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		if (fence_of_sockops(&f, ctx) && sockops_to_gateway(&f, ctx))
			bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags |
							       BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if ((ctx->skb_tcp_flags & (TCP_FLAG_SYN | TCP_FLAG_ACK)) == TCP_FLAG_SYN)
			bpf_reserve_hdr_opt(ctx, sizeof(struct cordon_peer_option), 0);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		if ((ctx->skb_tcp_flags & (TCP_FLAG_SYN | TCP_FLAG_ACK)) == TCP_FLAG_SYN)
			sockops_mark(ctx);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags &
						       ~BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		break;
	}
	return SOCKOPS_OK;
}

SEC("fentry/security_unix_stream_connect")
int BPF_PROG(peer_unix, struct sock *sock, struct sock *other, struct sock *newsk)
{
	struct cordon_sock *mark;
	struct fctx f;

	if (fence_of_current(&f) != FENCED)
		return 0;
	mark = bpf_sk_storage_get(&cordon_peers, newsk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (mark) {
		mark->slot = f.slot;
		mark->fence_id = f.fence->id;
	}
	return 0;
}

#endif
