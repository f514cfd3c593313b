/* SPDX-License-Identifier: GPL-2.0 */
/*
 * network.dns: what a fence sends to port 53 of any address goes to the resolver of its policy, and the socket is told
 * that it speaks with the address that it asked for: unchanged clients check that. The mark of the socket keeps the
 * address that was asked last. Runs in the cgroup's address hooks; the packet hook lets nothing else than the resolver
 * pass, so a socket that none of them saw reaches nobody.
 */
#ifndef CORDON_DNS_BPF_H
#define CORDON_DNS_BPF_H

#include "cordon.bpf.h"
#include "cordon/peer.h"

enum { SOCKET_CONNECTED = 1 }; /* TCP_ESTABLISHED, for datagram sockets, too */

/* Puts a canonical address into the IPv6 words of the hook, an IPv4 one in mapped form. */
static __always_inline void dns_put6(struct bpf_sock_addr *ctx, const struct cordon_addr *a)
{
	__u32 w[4];

	__builtin_memcpy(w, a->b, sizeof(w));
	ctx->user_ip6[0] = w[0];
	ctx->user_ip6[1] = w[1];
	ctx->user_ip6[2] = a->v6 ? w[2] : bpf_htonl(0xffff);
	ctx->user_ip6[3] = w[3];
}

static __always_inline void dns_put(struct bpf_sock_addr *ctx, const struct cordon_addr *a, bool v6,
				    __u16 port)
{
	__u32 w;

	if (v6) {
		dns_put6(ctx, a);
	} else {
		__builtin_memcpy(&w, a->b + 12, sizeof(w));
		ctx->user_ip4 = w;
	}
	ctx->user_port = port;
}

/*
 * Replaces the address of the hook, which is `asked`, by the resolver's. v6: the hook is one of IPv6. False when there
 * is no resolver of that family, or the mark cannot be kept.
 */
static __always_inline bool dns_lead(struct bpf_sock_addr *ctx, const struct fctx *f,
				     const struct cordon_addr *asked, __u16 port, bool v6)
{
	const struct cordon_gateway *to = &f->policy->resolver[asked->v6 & 1];
	struct cordon_sock *mark;

	if (!to->port || !ctx->sk)
		return false;
	mark = bpf_sk_storage_get(&cordon_socks, ctx->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!mark)
		return false;
	mark->dns_addr = *asked;
	mark->dns_port = bpf_htons(port);
	dns_put(ctx, &to->addr, v6, bpf_htons(to->port));
	return true;
}

/*
 * The socket speaks with the resolver by its own name: nothing is to be put back. Not where it was led there when it was
 * connected: what an IPv6 socket sends to a mapped peer comes by the hook for addresses given.
 */
static __always_inline void dns_forget(struct bpf_sock_addr *ctx, bool connect)
{
	struct bpf_sock *sk = ctx->sk;
	struct cordon_sock *mark;

	if (!sk || (!connect && sk->state == SOCKET_CONNECTED))
		return;
	mark = bpf_sk_storage_get(&cordon_socks, sk, 0, 0);
	if (mark)
		mark->dns_port = 0;
}

/* Where the hook says the resolver, the socket is told the address that it asked. `from` is what the hook says. */
static __always_inline void dns_restore(struct bpf_sock_addr *ctx, const struct fctx *f,
					const struct cordon_sock *mark,
					const struct cordon_addr *from, bool v6)
{
	const struct cordon_gateway *r = &f->policy->resolver[from->v6 & 1];

	if (r->port != bpf_ntohs((__u16)ctx->user_port) || decide_addr_differs(&r->addr, from))
		return;
	dns_put(ctx, &mark->dns_addr, v6, mark->dns_port);
}

/* --- who asks ------------------------------------------------------------------------------------------------ */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CORDON_NOTES_MAX);
	__type(key, struct cordon_datagram);
	__type(value, struct cordon_note);
} cordon_notes SEC(".maps");

/*
 * Notes who sends this datagram, which may go to the resolver; for the gateway, see include/cordon/peer.h. Decides nothing: what is
 * not noted, because it is long, or several in one, or memory ended, is asked again by TCP. What two fences send alike belongs to
 * neither.
 */
noinline int datagram_note(struct __sk_buff *skb, __u64 fence_id)
{
	const __u32 off = (skb->protocol == bpf_htons(0x86dd) ? 40 : 20) + 8;
	struct cordon_note note = { .fence_id = fence_id, .ns = bpf_ktime_get_ns() };
	struct cordon_datagram datagram = {};
	struct cordon_note *last;
	__u32 n = skb->len - off;

	/* Each bound by itself: the verifier of 6.1 follows no number of which another was taken. */
	asm volatile("" : "+r"(n));
	if (n > CORDON_DATAGRAM_MAX)
		return 0;
	asm volatile("" : "+r"(n));
	if (n < CORDON_DATAGRAM_MIN)
		return 0;
	asm volatile("" : "+r"(n));
	if (bpf_skb_load_bytes(skb, off, datagram.bytes, n))
		return 0;
	datagram.n = n;
	last = bpf_map_lookup_elem(&cordon_notes, &datagram);
	if (last && last->fence_id != fence_id && note.ns - last->ns < CORDON_NOTE_NS)
		note.fence_id = 0;
	bpf_map_update_elem(&cordon_notes, &datagram, &note, BPF_ANY);
	return 0;
}

#endif
