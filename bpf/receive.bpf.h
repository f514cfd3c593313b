/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Descriptors that arrive from another process: by SCM_RIGHTS, pidfd_getfd, seccomp's listener. Each is judged as if the
 * task had opened the object itself, or made and connected the socket. What is sent on a socket is judged again where
 * it is sent; but before 6.5 sendfile and splice ask nobody, so that one with a peer that the fence may not have does
 * not come in.
 */
#ifndef CORDON_RECEIVE_BPF_H
#define CORDON_RECEIVE_BPF_H

#include "net.bpf.h"

enum { SOCKET_LISTENS = 10 };

/* With whom a socket is connected. False: with nobody. */
static __always_inline bool peer_of_socket(struct detail *d, const struct sock *sk)
{
	d->dport = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (d->family == AF_INET6) {
		__u8 raw[16];

		BPF_CORE_READ_INTO(&raw, sk, __sk_common.skc_v6_daddr);
		decide_addr6(&d->addr, raw);
	} else {
		__u32 daddr = BPF_CORE_READ(sk, __sk_common.skc_daddr);

		decide_addr4(&d->addr, (__u8 *)&daddr);
	}
	return d->dport;
}

static __always_inline int receive_socket(struct fctx *f, struct sock *sk)
{
	struct detail d = {
		.op = CORDON_OP_SOCKET,
		.err = ERR_PERM,
		.flags = BPF_CORE_READ(sk, sk_type),
		.family = BPF_CORE_READ(sk, __sk_common.skc_family),
		.proto = BPF_CORE_READ(sk, sk_protocol),
	};

	if (d.family == AF_UNIX || socket_own(f, sk))
		return 0;
	d.rule = decide_socket(d.family, d.flags, d.proto);
	if (decide_allows(d.rule) && d.proto == DECIDE_TCP &&
	    BPF_CORE_READ(sk, __sk_common.skc_state) == SOCKET_LISTENS)
		d.rule =
			CORDON_RULE_NET_LISTEN; /* what it accepts would not be the fence's either */
	if (!decide_allows(d.rule))
		return settle(f, &d, CORDON_TYPE_NET);
	if ((d.family != AF_INET && d.family != AF_INET6) || !peer_of_socket(&d, sk))
		return 0;
	d.op = CORDON_OP_CONNECT;
	d.flags = 0;
	d.family = d.addr.v6 ? AF_INET6 : AF_INET;
	return net_settle(f, &d, sk);
}

/*
 * By sendfile and splice, before 6.5, on a socket from before that was made in another cgroup, whose packets no program of the
 * fence's sees.
 */
static __always_inline int permission_socket(struct fctx *f, struct file *file)
{
	const struct socket *sock = file->private_data;
	struct sock *sk = BPF_CORE_READ(sock, sk);
	struct detail d = {
		.op = CORDON_OP_SENDMSG,
		.family = BPF_CORE_READ(sk, __sk_common.skc_family),
		.proto = BPF_CORE_READ(sk, sk_protocol),
	};

	if (socket_own(f, sk) || !peer_of_socket(&d, sk))
		return 0;
	d.family = d.addr.v6 ? AF_INET6 : AF_INET;
	net_judge(f, &d);
	if (d.rule == CORDON_RULE_NET_LOOPBACK_OK && f->policy->loopback != CORDON_LOOPBACK_ALLOW)
		d.rule = CORDON_RULE_NET_LOOPBACK;
	if (d.rule == CORDON_RULE_NET_DNS_ANY)
		d.rule = CORDON_RULE_NET_DNS;
	if (decide_allows(d.rule) && !task_in_cgroup(f))
		d.rule = CORDON_RULE_NET_CGROUP;
	return decide_allows(d.rule) ? 0 : settle(f, &d, CORDON_TYPE_NET);
}

SEC("lsm/file_receive")
int FENCE_HOOK(file_receive, struct file *file, int ret)
{
	FENCE_ENTER_HOOK(f, ret);
	struct detail d = { .op = CORDON_OP_RECEIVE, .flags = file->f_flags };
	__u32 access = file->f_mode & (FMODE_READ | FMODE_WRITE);
	struct inode *inode = file->f_inode;

	if (inode && (inode->i_mode & DECIDE_S_IFMT) == DECIDE_S_IFSOCK) {
		const struct socket *sock = file->private_data;
		struct sock *sk = BPF_CORE_READ(sock, sk);

		return sk ? receive_socket(&f, sk) : 0;
	}
	if (descriptor_acts(file->f_path.dentry)) {
		d.rule = CORDON_RULE_FILES_DESCRIPTOR;
		d.err = ERR_PERM;
		d.dentry = file->f_path.dentry;
		d.mnt = file->f_path.mnt;
		return settle(&f, &d, CORDON_TYPE_FILE);
	}
	return judge_descriptor(&f, file, access, &d);
}

#endif
