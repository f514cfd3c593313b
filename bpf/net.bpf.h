/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Network, in three layers, because none sees everything (a table is in ARCHITECTURE.md):
 *   LSM hooks judge the task: every family, sockets from elsewhere, tasks that left the cgroup;
 *   cgroup connect and sendmsg hooks judge again with what only they can find out: whose listener is at a loopback
 *   address. They catch what an LSM cannot be attached for in degraded mode;
 *   the cgroup packet hook judges what leaves, by header: the backstop.
 * The address that is judged is the one the kernel copied, never the caller's memory.
 */
#ifndef CORDON_NET_BPF_H
#define CORDON_NET_BPF_H

#include "dns.bpf.h"
#include "file.bpf.h"
#include "way.bpf.h"

enum {
	AF_UNSPEC = 0,
	AF_UNIX = 1,
	AF_PACKET = 17,
	MSG_FASTOPEN = 0x20000000,
	ADDR4_LEN = 8, /* bytes of sockaddr_in up to the address */
	ADDR6_LEN = 24,
	LOOPBACK4 = 0x7f000001,
	TCP_SYN = 0x02,
	TCP_ACK = 0x10,
	PACKET_STRANGE = -1,
	PROTO_ICMP = 1,
	PROTO_ICMPV6 = 58,
	CGROUP_DENY = 0,
	CGROUP_ALLOW = 1,
};

/* LSM programs are not there, cgroup programs report for them. */
#ifdef CORDON_CGROUP_ONLY
static const bool cordon_degraded = true;
#else
static const bool cordon_degraded = false;
#endif

/*
 * Class and rule of an address. Global, so that the many branches are verified once and not in each caller; they take
 * numbers, because what lies in the caller's stack newer verifiers follow once more for each call.
 */
noinline int address_class(__u64 hi, __u64 lo, __u32 v6)
{
	struct cordon_addr a = {};

	addr_from_words(&a, hi, lo, v6);
	return decide_class(&a);
}

static __always_inline int net_class(const struct cordon_addr *a)
{
	struct address_words words = addr_words(a);

	return address_class(words.hi, words.lo, a->v6);
}

/* how: v6, then 16 bits each of protocol and port */
noinline int address_rule(__u32 slot, __u64 hi, __u64 lo, __u64 how)
{
	struct cordon_fence *fence = bpf_map_lookup_elem(&cordon_fences, &slot);
	const struct cordon_net *net = NULL;
	struct cordon_net_key key = {};
	struct cordon_addr addr = {};
	struct fctx f = {};

	if (!fence || fence->broken || !fence_load(&f, slot, fence->id))
		return CORDON_RULE_GUARD_STATE;
	addr_from_words(&addr, hi, lo, how & 1);
	if (f.policy->has_nets) {
		key.tag = f.tag << 1 | addr.v6;
		key.prefixlen = addr.v6 ? 32 + 128 : 32 + 32;
		if (addr.v6)
			__builtin_memcpy(key.b, addr.b, 16);
		else
			__builtin_memcpy(key.b, addr.b + 12, 4);
		net = bpf_map_lookup_elem(&cordon_nets, &key);
	}
	return decide_net(f.policy, &addr, address_class(hi, lo, how & 1), (__u16)(how >> 16),
			  (__u16)(how >> 32), net);
}

/* The rule for the address in d. */
static __always_inline int net_rule(__u32 slot, const struct detail *d)
{
	struct address_words words = addr_words(&d->addr);

	return address_rule(slot, words.hi, words.lo,
			    d->addr.v6 | (__u64)d->proto << 16 | (__u64)d->dport << 32);
}

/* Is the TCP port one of network.listen? Global, too. */
noinline int net_listens(__u32 tag, __u16 port)
{
	struct cordon_policy *policy = bpf_map_lookup_elem(&cordon_policies, &tag);

	return policy && decide_listens(policy, port);
}

/*
 * Puts the rule for the address in d there. Most are for the few places that a fence talks to all the time, which its
 * policy remembers. A word is read and written as a whole. It carries the generation that was active before and after
 * the rule was asked for, and counts only while that still is; so it does not matter when it is written, nor where. A
 * slot is not given to the next fence before the programs that act for the last one have ended: entering the ring
 * buffer (ring_make()) waits for that.
 */
static __always_inline void net_judge(struct fctx *f, struct detail *d)
{
	const volatile __u32 *active = &f->fence->generation;
	__u32 generation = *active;
	__u64 word = decide_known(generation, &d->addr, d->proto, d->dport), known;
	volatile __u64 *place = (void *)&f->policy->known[decide_known_place(word)];

	d->err = ERR_PERM;
	known = *place;
	if (word && !f->fence->broken && (known & ~DECIDE_KNOWN_GATEWAY) == word) {
		d->rule = known & DECIDE_KNOWN_GATEWAY ? CORDON_RULE_NET_GATEWAY
						       : CORDON_RULE_NET_ALLOW;
		return;
	}
	d->rule = net_rule(f->slot, d);
	if (!word || *active != generation)
		return;
	if (d->rule == CORDON_RULE_NET_GATEWAY)
		*place = word | DECIDE_KNOWN_GATEWAY;
	else if (d->rule == CORDON_RULE_NET_ALLOW)
		*place = word;
}

/* --- LSM: the task ------------------------------------------------------------------------------------------- */

SEC("lsm/socket_create")
int FENCE_HOOK(net_socket_create, int family, int type, int protocol, int kern, int ret)
{
	if (kern)
		return ret;
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = {
		.op = CORDON_OP_SOCKET,
		.err = ERR_PERM,
		.flags = type,
		.family = family,
		.proto = protocol,
	};

	if (family == AF_PACKET) /* an Ethernet type, in network order */
		d.proto = bpf_ntohs(protocol);
	d.rule = f.fence->broken ? CORDON_RULE_GUARD_STATE : decide_socket(family, type, protocol);
	if (decide_allows(d.rule) && !task_in_cgroup(&f))
		d.rule = CORDON_RULE_NET_CGROUP;
	return decide_allows(d.rule) ? 0 : settle(&f, &d, CORDON_TYPE_NET);
}

/*
 * Was the socket made in the fence's cgroup? The kernel notes the cgroup of its maker; storage of our own cannot be
 * read by fmod_ret programs.
 */
static __always_inline bool socket_own(const struct fctx *f, struct sock *sk)
{
	struct cgroup *cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup);

	return cgroup && cgroup_slot(cgroup) == (int)f->slot;
}

/*
 * Reads a socket address from kernel memory. 0: filled; 1: it names nothing (AF_UNSPEC and the like); -1: it is of
 * no family that can be judged.
 */
static __always_inline int addr_read(struct detail *d, const void *address, int len,
				     __u16 sk_family, bool unspec_is_inet)
{
	__u8 raw[ADDR6_LEN] = {};
	__u16 family;

	if (len < ADDR4_LEN)
		return 1;
	if (bpf_probe_read_kernel(raw, ADDR4_LEN, address))
		return -1;
	__builtin_memcpy(&family, raw, sizeof(family));
	if (family == AF_UNSPEC && !(unspec_is_inet && sk_family == AF_INET))
		return 1;
	if (family == AF_UNSPEC)
		family = AF_INET;
	if (family == AF_INET) {
		decide_addr4(&d->addr, raw + 4);
	} else if (family == AF_INET6 && len >= ADDR6_LEN) {
		if (bpf_probe_read_kernel(raw, ADDR6_LEN, address))
			return -1;
		decide_addr6(&d->addr, raw + 8);
	} else {
		return -1;
	}
	d->family = d->addr.v6 ? AF_INET6 : AF_INET;
	d->dport = raw[2] << 8 | raw[3];
	return 0;
}

/* Is it sent on a connection that somebody made to a port of network.listen? */
static __always_inline bool answers_listen(const struct fctx *f, const struct detail *d,
					   struct sock *sk)
{
	if (d->op != CORDON_OP_SENDMSG || d->proto != DECIDE_TCP || !f->policy->n_listen)
		return false;
	if (d->rule != CORDON_RULE_NET_DEFAULT && d->rule != CORDON_RULE_NET_LOOPBACK)
		return false;
	return net_listens(f->tag, sk->__sk_common.skc_num) && socket_own(f, sk);
}

/* Common end of connect and sendmsg for IP sockets: d has the address. */
static __always_inline int net_settle(struct fctx *f, struct detail *d, struct sock *sk)
{
	net_judge(f, d);
	if (decide_allows(d->rule) && !task_in_cgroup(f))
		d->rule = CORDON_RULE_NET_CGROUP;
	if (d->rule == CORDON_RULE_NET_LOOPBACK_OK) {
		/* Whose listener it is, the cgroup hooks find out; they only run for the fence's own sockets. */
		if (f->policy->loopback == CORDON_LOOPBACK_ALLOW || socket_own(f, sk))
			return 0;
		d->rule = CORDON_RULE_NET_LOOPBACK;
	}
	/* Only the cgroup hooks put the resolver's address in. */
	if (d->rule == CORDON_RULE_NET_DNS_ANY && !socket_own(f, sk))
		d->rule = CORDON_RULE_NET_DNS;
	if (!decide_allows(d->rule) && answers_listen(f, d, sk)) {
		if (!upload_over(f))
			return 0;
		d->rule = CORDON_RULE_LIMIT_UPLOAD;
	}
	if (decide_allows(d->rule) && upload_over(f)) /* at once, and not by packets that vanish */
		d->rule = CORDON_RULE_LIMIT_UPLOAD;
	return settle(f, d, CORDON_TYPE_NET);
}

SEC("lsm/socket_connect")
int FENCE_HOOK(net_socket_connect, struct socket *sock, struct sockaddr *address, int addrlen,
	       int ret)
{
	FENCE_ENTER_HOOK(f, ret);

	struct detail d = { .op = CORDON_OP_CONNECT };
	struct sock *sk = sock->sk;
	int read;

	if (!sk)
		return 0;
	d.family = sk->__sk_common.skc_family;
	d.proto = sk->sk_protocol;
	if (d.family ==
	    AF_UNIX) /* judged by unix_stream_connect and unix_may_send, on the peer found */
		return 0;
	if (d.family == AF_INET || d.family == AF_INET6) {
		read = addr_read(&d, address, addrlen, d.family, false);
		if (read > 0)
			return 0; /* disconnect */
		if (!read && link_chosen(sk, &d) && netconf_settle(&f, d.family, 0))
			return -ERR_PERM;
		if (!read)
			return net_settle(&f, &d, sk);
	}
	d.rule = CORDON_RULE_NET_FAMILY;
	d.err = ERR_PERM;
	return settle(&f, &d, CORDON_TYPE_NET);
}

/* Descriptor 1 or 2 of the command may be a socket: counted before it is sent. Is it too much? */
static __always_inline bool output_by_socket(const struct fctx *f, const struct socket *sock,
					     int size)
{
	const struct file *file = sock->file;
	const struct inode *inode;
	bool over;

	if (!file || size <= 0)
		return false;
	inode = file->f_inode;
	if (!output_is_standard(f, inode->i_ino, inode->i_sb->s_dev))
		return false;
	over = output_over(f, size);
	if (!over || f->policy->mode == CORDON_MODE_AUDIT)
		output_add(f, size, false);
	return over;
}

SEC("lsm/socket_sendmsg")
int FENCE_HOOK(net_socket_sendmsg, struct socket *sock, struct msghdr *msg, int size, int ret)
{
	FENCE_ENTER_HOOK(f, ret);

	struct detail d = { .op = CORDON_OP_SENDMSG };
	struct sock *sk = sock->sk;
	int read = 1;

	if (!sk)
		return 0;
	d.family = sk->__sk_common.skc_family;
	d.proto = sk->sk_protocol;
	if (f.policy->output_bytes && output_by_socket(&f, sock, size)) {
		d.op = CORDON_OP_OUTPUT;
		d.rule = CORDON_RULE_LIMIT_OUTPUT;
		d.err = ERR_DQUOT;
		return settle(&f, &d, CORDON_TYPE_LIMIT);
	}
	if (d.family == AF_UNIX || (d.family == 16 /* AF_NETLINK */ && socket_own(&f, sk)))
		return 0;
	if (d.family == AF_INET || d.family == AF_INET6) {
		__u32 flags = msg->msg_flags & MSG_DONTROUTE;

		if (msg->msg_controllen | flags && way_chosen(&f, msg, d.family))
			return -ERR_PERM;
		if (msg->msg_name && msg->msg_flags & MSG_FASTOPEN)
			d.op = CORDON_OP_CONNECT;
		if (msg->msg_name)
			read = addr_read(&d, msg->msg_name, msg->msg_namelen, d.family,
					 d.proto == DECIDE_UDP);
		if (read > 0) { /* to whom it is connected */
			if (d.family == AF_INET6) {
				__u8 raw[16];

				BPF_CORE_READ_INTO(&raw, sk, __sk_common.skc_v6_daddr);
				decide_addr6(&d.addr, raw);
			} else {
				__u32 daddr = sk->__sk_common.skc_daddr;

				decide_addr4(&d.addr, (__u8 *)&daddr);
			}
			d.family = d.addr.v6 ? AF_INET6 : AF_INET;
			d.dport = bpf_ntohs(sk->__sk_common.skc_dport);
			if (!d.dport) /* not connected: the kernel says so itself */
				return 0;
		}
		if (!read && link_chosen(sk, &d) && netconf_settle(&f, d.family, 0))
			return -ERR_PERM;
		if (read >= 0)
			return net_settle(&f, &d, sk);
	}
	d.rule = CORDON_RULE_NET_FAMILY;
	d.err = ERR_PERM;
	return settle(&f, &d, CORDON_TYPE_NET);
}

/* May the fence talk to the unix socket `peer`? */
static __always_inline int unix_settle(struct fctx *f, struct sock *peer, enum cordon_op op)
{
	const struct unix_sock *u = (void *)peer;
	struct detail d = {
		.op = op,
		.err = ERR_PERM,
		.family = AF_UNIX,
		.peer = u,
		.rule = CORDON_RULE_NET_UNIX,
	};

	if (socket_own(f, peer))
		return 0;
	if (f->policy->root_flags & CORDON_ROOT_UNIX) {
		struct inode *inode = BPF_CORE_READ(u, path.dentry, d_inode);

		if (inode && root_is(BPF_CORE_READ(inode, i_ino), BPF_CORE_READ(inode, i_sb, s_dev),
				     inode_generation(inode, f->tag), f->tag, CORDON_ROOT_UNIX))
			d.rule = CORDON_RULE_NET_UNIX_OK;
	}
	return settle(f, &d, CORDON_TYPE_NET);
}

SEC("lsm/unix_stream_connect")
int FENCE_HOOK(net_unix_stream_connect, struct sock *sock, struct sock *other, struct sock *newsk,
	       int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	return unix_settle(&f, other, CORDON_OP_CONNECT);
}

SEC("lsm/unix_may_send")
int FENCE_HOOK(net_unix_may_send, struct socket *sock, struct socket *other, int ret)
{
	struct sock *sk;

	FENCE_ENTER_HOOK(f, ret);
	sk = other->sk;
	if (!sk)
		return -ERR_PERM;
	return unix_settle(&f, sk, CORDON_OP_SENDMSG);
}

/* --- cgroup: the socket ------------------------------------------------------------------------------------- */

/*
 * The fence of a socket, or of the cgroup of the current task when the socket was made before the fence. The
 * program runs because the cgroup is fenced, so finding none means deny.
 */
static __always_inline bool fence_of_socket(struct fctx *f, struct bpf_sock *sk)
{
	struct cordon_sock *mark = sk ? bpf_sk_storage_get(&cordon_socks, sk, 0, 0) : NULL;
	struct task_struct *task;
	struct cordon_fence *fence;
	int found;
	__u32 slot;

	f->task = NULL;
	if (mark && fence_load(f, mark->slot, mark->fence_id))
		return true;
	task = bpf_get_current_task_btf();
	found = cgroup_slot(BPF_CORE_READ(task, cgroups, dfl_cgrp));
	if (found < 0)
		return false;
	slot = found;
	fence = bpf_map_lookup_elem(&cordon_fences, &slot);
	return fence && fence_load(f, slot, fence->id);
}

/* settle() in the words of cgroup programs; by branches, so that the verifier sees 0 or 1. */
static __always_inline int cgroup_answer(struct fctx *f, struct detail *d)
{
	if (settle(f, d, CORDON_TYPE_NET)) {
		branch_barrier();
		return CGROUP_DENY;
	}
	branch_barrier();
	return CGROUP_ALLOW;
}

/*
 * Is this socket, which a look-up found, one of the fence's? One without a mark was made before an attach: then the kernel's note
 * says in which cgroup.
 */
static __always_inline bool found_own(const struct fctx *f, struct bpf_sock *sk)
{
	struct cordon_sock *mark = bpf_sk_storage_get(&cordon_socks, sk, 0, 0);
	const struct sock *kernel = (void *)number_of(sk);

	if (mark)
		return mark->fence_id == f->fence->id;
	return cgroup_slot_search((__u64)BPF_CORE_READ(kernel, sk_cgrp_data.cgroup)) ==
	       (int)f->slot;
}

/* Does a program choose among the sockets that share its port? It sees the packet, which a look-up does not have. */
static __always_inline bool found_by_hash(struct bpf_sock *sk)
{
	const struct sock *kernel = (void *)number_of(sk);
	const struct sock_reuseport *group = BPF_CORE_READ(kernel, sk_reuseport_cb);

	return group && CORE_READ_OF(group, prog);
}

/*
 * Does the socket that would receive at this address belong to the fence? sport and from (all 0: the loopback address)
 * are the sender's, in network order: a connected datagram socket receives from its peer only, and of several that share a
 * port the sender's address chooses one.
 */
static __always_inline bool listener_own(void *ctx, const struct fctx *f, const struct detail *d,
					 const __u32 *from, __u16 sport)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *sk;
	__u32 size;
	bool own;

	if (d->addr.v6) {
		__builtin_memcpy(tuple.ipv6.daddr, d->addr.b, 16);
		if (!tuple.ipv6.daddr[3])
			tuple.ipv6.daddr[3] = bpf_htonl(1);
		__builtin_memcpy(tuple.ipv6.saddr, from, 16);
		if (!(from[0] | from[1] | from[2] | from[3]))
			tuple.ipv6.saddr[3] = bpf_htonl(1);
		tuple.ipv6.dport = bpf_htons(d->dport);
		tuple.ipv6.sport = sport;
		size = sizeof(tuple.ipv6);
	} else {
		__builtin_memcpy(&tuple.ipv4.daddr, d->addr.b + 12, 4);
		if (!tuple.ipv4.daddr)
			tuple.ipv4.daddr = bpf_htonl(LOOPBACK4);
		tuple.ipv4.saddr = from[3] ?: bpf_htonl(LOOPBACK4);
		tuple.ipv4.dport = bpf_htons(d->dport);
		tuple.ipv4.sport = sport;
		size = sizeof(tuple.ipv4);
	}
	if (d->proto == DECIDE_TCP)
		sk = bpf_sk_lookup_tcp(ctx, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	else
		sk = bpf_sk_lookup_udp(ctx, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return false;
	own = found_own(f, sk) && !found_by_hash(sk);
	bpf_sk_release(sk);
	return own;
}

static __always_inline int sock_addr_settle(struct bpf_sock_addr *ctx, struct fctx *f,
					    struct detail *d, bool v6)
{
	bool quiet = !cordon_degraded;

	d->family = d->addr.v6 ? AF_INET6 : AF_INET;
	d->proto = ctx->protocol;
	d->dport = bpf_ntohs((__u16)ctx->user_port);
	net_judge(f, d);
	if (d->rule == CORDON_RULE_NET_LOOPBACK_OK &&
	    f->policy->loopback == CORDON_LOOPBACK_FENCE) {
		struct bpf_sock *sk = ctx->sk;
		__u32 from[4] = {};

		/*
		 * Connecting a datagram socket sends nothing; getaddrinfo() does it to sort addresses. What is sent
		 * on it later, the packet hook judges.
		 */
		if (d->proto == DECIDE_UDP && d->op == CORDON_OP_CONNECT)
			return CGROUP_ALLOW;
		quiet = false;
		if (sk->family == AF_INET) {
			from[3] = sk->src_ip4;
			branch_barrier(); /* or one load would take an address that was chosen before */
		} else if (d->addr.v6) {
			for (int i = 0; i < 4; i++)
				from[i] = sk->src_ip6[i];
		}
		if (!listener_own(ctx, f, d, from, bpf_htons((__u16)sk->src_port)))
			d->rule = CORDON_RULE_NET_LOOPBACK;
	}
	/* In audit mode nothing is led elsewhere. */
	if (d->rule == CORDON_RULE_NET_DNS_ANY && f->policy->mode == CORDON_MODE_ENFORCE &&
	    !dns_lead(ctx, f, &d->addr, d->dport, v6))
		d->rule = CORDON_RULE_NET_DNS;
	if (d->rule == CORDON_RULE_NET_DNS_OK)
		dns_forget(ctx, d->op == CORDON_OP_CONNECT);
	d->silent = quiet && decide_allows(d->rule); /* the LSM hook has reported it */
	return cgroup_answer(f, d);
}

static __always_inline int sock_addr4(struct bpf_sock_addr *ctx, enum cordon_op op)
{
	struct detail d = { .op = op };
	__u32 ip = ctx->user_ip4;
	struct fctx f;

	if (!fence_of_socket(&f, ctx->sk))
		return CGROUP_DENY;
	decide_addr4(&d.addr, (__u8 *)&ip);
	return sock_addr_settle(ctx, &f, &d, false);
}

static __always_inline int sock_addr6(struct bpf_sock_addr *ctx, enum cordon_op op)
{
	struct detail d = { .op = op };
	__u32 ip[4] = { ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3] };
	struct fctx f;

	if (!fence_of_socket(&f, ctx->sk))
		return CGROUP_DENY;
	decide_addr6(&d.addr, (__u8 *)ip);
	return sock_addr_settle(ctx, &f, &d, true);
}

SEC("cgroup/connect4")
int net_connect4(struct bpf_sock_addr *ctx)
{
	return sock_addr4(ctx, CORDON_OP_CONNECT);
}

SEC("cgroup/connect6")
int net_connect6(struct bpf_sock_addr *ctx)
{
	return sock_addr6(ctx, CORDON_OP_CONNECT);
}

SEC("cgroup/sendmsg4")
int net_sendmsg4(struct bpf_sock_addr *ctx)
{
	return sock_addr4(ctx, CORDON_OP_SENDMSG);
}

SEC("cgroup/sendmsg6")
int net_sendmsg6(struct bpf_sock_addr *ctx)
{
	return sock_addr6(ctx, CORDON_OP_SENDMSG);
}

/* Marks and judges IP sockets where no LSM program does. */
SEC("cgroup/sock_create")
int net_sock_create(struct bpf_sock *ctx)
{
	struct detail d = {
		.op = CORDON_OP_SOCKET,
		.err = ERR_PERM,
		.flags = ctx->type,
		.family = ctx->family,
		.proto = ctx->protocol,
	};
	struct cordon_sock *mark;
	struct fctx f;

	if (!fence_of_socket(&f, NULL))
		return CGROUP_DENY;
	mark = test_full(TEST_FULL_SOCKETS)
		       ? NULL
		       : bpf_sk_storage_get(&cordon_socks, ctx, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!mark) {
		count_fault(slot_state(f.slot), CORDON_FAULT_SOCKET_MARK);
		d.rule = CORDON_RULE_GUARD_STATE;
		return cgroup_answer(&f, &d);
	}
	mark->slot = f.slot;
	mark->fence_id = f.fence->id;
	d.rule = decide_socket(ctx->family, ctx->type, ctx->protocol);
	if (decide_allows(d.rule))
		return CGROUP_ALLOW;
	return cgroup_answer(&f, &d);
}

/* --- cgroup: the packet -------------------------------------------------------------------------------------- */

/* The fence of a packet: of its socket, or, if that was made before the fence, of the cgroup that it was made in. */
static __always_inline bool fence_of_packet(struct fctx *f, struct __sk_buff *skb, bool *ret_before)
{
	struct bpf_sock *sk = skb->sk;

	f->task = NULL;
	*ret_before = false;
	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk) {
		struct cordon_sock *mark = bpf_sk_storage_get(&cordon_socks, sk, 0, 0);

		if (mark && fence_load(f, mark->slot, mark->fence_id))
			return true;
	}
	*ret_before = true;
	for (int level = 1; level < CORDON_CGROUP_DEPTH_MAX; level++) {
		__u64 id = bpf_skb_ancestor_cgroup_id(skb, level);
		__u32 *slot;
		struct cordon_fence *fence;

		if (!id)
			return false;
		slot = bpf_map_lookup_elem(&cordon_cgroups, &id);
		if (slot) {
			fence = bpf_map_lookup_elem(&cordon_fences, slot);
			return fence && fence_load(f, *slot, fence->id);
		}
	}
	return false;
}

/*
 * Reads addresses, protocol and ports; inbound: the sender is the other side. Returns the flags of TCP, 0 for UDP, or
 * PACKET_STRANGE for headers that no plain TCP or UDP packet has: IP options and source routes, extension headers.
 */
noinline int packet_read(struct __sk_buff *skb, struct detail *d, int inbound)
{
	struct cordon_addr *from, *to;
	__u8 head[40];
	__u8 ports[4];
	__u8 flags;
	__u32 off;

	if (!d)
		return PACKET_STRANGE;
	from = inbound ? &d->addr : &d->own;
	to = inbound ? &d->own : &d->addr;
	if (skb->protocol == bpf_htons(0x0800)) {
		if (bpf_skb_load_bytes(skb, 0, head, 20))
			return PACKET_STRANGE;
		decide_addr4(from, head + 12);
		decide_addr4(to, head + 16);
		d->family = AF_INET;
		d->proto = head[9];
		off = 20;
		if (head[0] != 0x45)
			return PACKET_STRANGE;
	} else if (skb->protocol == bpf_htons(0x86dd)) {
		if (bpf_skb_load_bytes(skb, 0, head, 40))
			return PACKET_STRANGE;
		decide_addr6(from, head + 8);
		decide_addr6(to, head + 24);
		d->family = d->addr.v6 ? AF_INET6 : AF_INET;
		d->proto = head[6];
		off = 40;
	} else {
		return PACKET_STRANGE;
	}
	if ((d->proto != DECIDE_TCP && d->proto != DECIDE_UDP) ||
	    bpf_skb_load_bytes(skb, off, ports, 4))
		return PACKET_STRANGE;
	d->lport = inbound ? ports[2] << 8 | ports[3] : ports[0] << 8 | ports[1];
	d->dport = inbound ? ports[0] << 8 | ports[1] : ports[2] << 8 | ports[3];
	if (d->proto == DECIDE_UDP)
		return 0;
	return bpf_skb_load_bytes(skb, off + 13, &flags, 1) ? PACKET_STRANGE : flags;
}

/*
 * What the rule for the address leaves open. opens: it is the first packet of a TCP connection. Its listener is looked
 * up again, now that the sender's port is known: of several that share a port, it chooses one. before: the connection may be
 * one from before the fence, of which nobody asked whose the other end is.
 */
static __always_inline __u32 packet_rule(struct __sk_buff *skb, const struct fctx *f,
					 const struct detail *d, bool opens, bool before)
{
	__u32 rule = d->rule;

	if (d->rule == CORDON_RULE_NET_DNS_ANY && f->policy->mode == CORDON_MODE_ENFORCE)
		return CORDON_RULE_NET_DNS;
	if (d->rule == CORDON_RULE_NET_LOOPBACK_OK &&
	    f->policy->loopback == CORDON_LOOPBACK_FENCE) {
		__u32 from[4];

		__builtin_memcpy(from, d->own.b, sizeof(from));
		if ((d->proto == DECIDE_UDP || opens || before) &&
		    !listener_own(skb, f, d, from, bpf_htons(d->lport)))
			rule = CORDON_RULE_NET_LOOPBACK;
	}
	if ((rule == CORDON_RULE_NET_DEFAULT || rule == CORDON_RULE_NET_LOOPBACK) &&
	    d->proto == DECIDE_TCP && !opens && net_listens(f->tag, d->lport))
		return CORDON_RULE_NET_LISTEN_OK;
	return rule;
}

/*
 * A network namespace that a fence makes gets its control sockets in the fence's name: neighbour discovery and the like,
 * which nobody inside asked for. Sockets of these protocols cannot be made in a fence.
 */
static __always_inline bool packet_of_kernel(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	return sk && (sk->protocol == PROTO_ICMP || sk->protocol == PROTO_ICMPV6);
}

/* The end of what is no yes. Of packets both addresses are reported, more than a function takes numbers. */
static __always_inline int packet_answer(const struct fctx *f, const struct detail *d)
{
	struct address_words other = addr_words(&d->addr), own = addr_words(&d->own);
	__u64 what = detail_what(f, d, CORDON_TYPE_NET, ABOUT_PACKET);
	__u32 depth = 0;
	struct report *r = settle_begin(what, &depth);

	if (r) {
		r->words[0] = other.hi;
		r->words[1] = other.lo;
		r->words[2] = detail_ports(d);
		r->words[3] = own.hi;
		r->words[4] = own.lo;
	}
	if (settle_end(what, r, depth)) {
		branch_barrier();
		return CGROUP_DENY;
	}
	branch_barrier();
	return CGROUP_ALLOW;
}

/*
 * Counts a packet that may leave; is it too much? What was denied stays counted, so that nothing smaller leaves after it.
 * Not what goes to a listener of the fence itself.
 */
static __always_inline bool upload_take(const struct fctx *f, const struct detail *d, __u64 bytes)
{
	struct cordon_state *state;

	if (!f->policy->upload_bytes || (d->rule == CORDON_RULE_NET_LOOPBACK_OK &&
					 f->policy->loopback == CORDON_LOOPBACK_FENCE))
		return false;
	state = slot_state(f->slot);
	return !state ||
	       __sync_fetch_and_add(&state->upload, bytes) + bytes > f->policy->upload_bytes;
}

SEC("cgroup_skb/egress")
int net_egress(struct __sk_buff *skb)
{
	struct detail d = {
		.op = CORDON_OP_PACKET,
		.no_task = 1,
		.err = ERR_PERM,
	};
	struct fctx f;
	bool before;
	int flags;

	if (!fence_of_packet(&f, skb, &before))
		return CGROUP_DENY;
	flags = packet_read(skb, &d, false);
	if (flags != PACKET_STRANGE) {
		net_judge(&f, &d);
		d.rule = packet_rule(skb, &f, &d, (flags & (TCP_SYN | TCP_ACK)) == TCP_SYN, before);
	} else {
		d.rule = net_class(&d.addr) & DECIDE_IS_METADATA ? CORDON_RULE_NET_METADATA
								 : CORDON_RULE_NET_DEFAULT;
		d.silent = packet_of_kernel(skb);
	}
	if (decide_allows(d.rule)) {
		if (d.rule == CORDON_RULE_NET_DNS_OK && d.proto == DECIDE_UDP)
			datagram_note(skb, f.fence->id);
		if (!upload_take(&f, &d, skb->len))
			return CGROUP_ALLOW;
		d.rule = CORDON_RULE_LIMIT_UPLOAD;
	}
	return packet_answer(&f, &d);
}

#endif
