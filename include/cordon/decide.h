/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The decisions themselves: pure functions of what was read, without helper calls, memory or time, compiled into
 * the kernel programs, `cordon explain` and the tests alike. Each returns the rule that decided; the rule says
 * whether that is a yes. What is not understood is a no.
 */
#ifndef CORDON_DECIDE_H
#define CORDON_DECIDE_H

#include "abi.h"

#define DECIDE_INLINE static inline __attribute__((always_inline, unused))

enum { DECIDE_TCP = 6, DECIDE_UDP = 17, DECIDE_DNS_PORT = 53 };

/* Is it a yes? Also for rules beyond the table: no. */
DECIDE_INLINE int decide_allows(__u32 rule)
{
#define DECIDE_VERDICT_ALLOW(e) case CORDON_RULE_##e:
#define DECIDE_VERDICT_DENY(e)
#define CORDON_X(e, v, n, d) DECIDE_VERDICT_##v(e)
	switch (rule) {
		CORDON_RULES(CORDON_X)
		return 1;
	default:
		return 0;
	}
#undef CORDON_X
#undef DECIDE_VERDICT_ALLOW
#undef DECIDE_VERDICT_DENY
}

DECIDE_INLINE __u32 decide_be32(const __u8 *b)
{
	return (__u32)b[0] << 24 | (__u32)b[1] << 16 | (__u32)b[2] << 8 | b[3];
}

/* Fills *a from four bytes in network order. */
DECIDE_INLINE void decide_addr4(struct cordon_addr *a, const __u8 *b)
{
	__builtin_memset(a, 0, sizeof(*a));
	__builtin_memcpy(a->b + 12, b, 4);
}

/* Fills *a from 16 bytes; ::ffff:a.b.c.d (RFC 4291, 2.5.5.2) becomes the IPv4 address that it is. */
DECIDE_INLINE void decide_addr6(struct cordon_addr *a, const __u8 *b)
{
	__u32 w0 = decide_be32(b), w1 = decide_be32(b + 4), w2 = decide_be32(b + 8);

	if (!w0 && !w1 && w2 == 0xffff) {
		decide_addr4(a, b + 12);
		a->mapped = 1;
		return;
	}
	__builtin_memset(a, 0, sizeof(*a));
	a->v6 = 1;
	__builtin_memcpy(a->b, b, 16);
}

/* 169.254.0.0/16: link-local (RFC 3927), where clouds put the metadata service. */
DECIDE_INLINE int decide_is_metadata4(__u32 v4)
{
	return v4 >> 16 == 0xa9fe;
}

/*
 * Does an address of 64:ff9b:1::/48 embed an IPv4 address of the metadata service, if the prefix has 48, 56 or 64 bits?
 * Bits 64 to 71 are none of it (RFC 6052); what follows it a translator does not look at.
 */
DECIDE_INLINE int decide_is_nat64_metadata(__u32 w1, __u32 w2)
{
	return (w1 & 0xffff) == 0xa9fe || ((w1 & 0xff) << 8 | (w2 >> 16 & 0xff)) == 0xa9fe ||
	       (w2 >> 8 & 0xffff) == 0xa9fe;
}

/*
 * Is it the metadata service, in any spelling: IPv4 link-local; fd00:ec2::/32 (fd00:ec2::254 lies there); IPv6 that
 * embeds such an IPv4 address: IPv4-compatible (::a.b.c.d, RFC 4291), NAT64 (64:ff9b::/96 RFC 6052, and all lengths
 * that a prefix in 64:ff9b:1::/48, RFC 8215, can have), IPv4-translated (::ffff:0:a.b.c.d, RFC 2765), 6to4 (2002::/16, RFC 3056), Teredo
 * (2001::/32, RFC 4380, inverted), ISATAP (..:0:5efe:a.b.c.d, RFC 5214), and link-local with those low bits.
 */
DECIDE_INLINE int decide_is_metadata(const struct cordon_addr *a)
{
	__u32 w0 = decide_be32(a->b), w1 = decide_be32(a->b + 4), w2 = decide_be32(a->b + 8),
	      w3 = decide_be32(a->b + 12);

	if (!a->v6)
		return decide_is_metadata4(w3);
	if (w0 == 0xfd000ec2)
		return 1;
	if (w0 >> 16 == 0x2002 && decide_is_metadata4((w0 & 0xffff) << 16 | w1 >> 16))
		return 1;
	if (w0 == 0x20010000 && decide_is_metadata4(~w3))
		return 1;
	if (w0 == 0x0064ff9b && w1 >> 16 == 1 && decide_is_nat64_metadata(w1, w2))
		return 1;
	if (!decide_is_metadata4(w3))
		return 0;
	if (!w0 && !w1 && (!w2 || w2 == 0xffff || w2 == 0xffff0000))
		return 1;
	return w0 == 0x0064ff9b || w0 >> 22 == 0xfe80 >> 6 || (w2 & 0xfcffffff) == 0x5efe;
}

/* 127.0.0.0/8, ::1, and the unspecified address, which connects to loopback on Linux; 0.0.0.0/8 likewise. */
DECIDE_INLINE int decide_is_loopback(const struct cordon_addr *a)
{
	__u32 w3 = decide_be32(a->b + 12);

	if (!a->v6)
		return w3 >> 24 == 127 || w3 >> 24 == 0;
	return !decide_be32(a->b) && !decide_be32(a->b + 4) && !decide_be32(a->b + 8) && w3 <= 1;
}

/* 127.255.255.255: what is sent there, all receive who have the port, and not only whom a look-up finds. */
DECIDE_INLINE int decide_is_everybody(const struct cordon_addr *a)
{
	return !a->v6 && decide_be32(a->b + 12) == 0x7fffffff;
}

/* What an address is, whatever the policy says; bits. */
enum { DECIDE_IS_METADATA = 1, DECIDE_IS_LOOPBACK = 2 };

DECIDE_INLINE __u32 decide_class(const struct cordon_addr *a)
{
	return (decide_is_metadata(a) ? DECIDE_IS_METADATA : 0) |
	       (decide_is_loopback(a) ? DECIDE_IS_LOOPBACK : 0);
}

/*
 * The comparisons below are sums of differences, 0 for a match, with one branch at the end: every branch in a loop
 * doubles what the verifier may have to look at.
 */

/* 0 when the addresses are equal. */
DECIDE_INLINE __u32 decide_addr_differs(const struct cordon_addr *a, const struct cordon_addr *b)
{
	return (a->v6 ^ b->v6) | (decide_be32(a->b) ^ decide_be32(b->b)) |
	       (decide_be32(a->b + 4) ^ decide_be32(b->b + 4)) |
	       (decide_be32(a->b + 8) ^ decide_be32(b->b + 8)) |
	       (decide_be32(a->b + 12) ^ decide_be32(b->b + 12));
}

/* 1 when a > b, both below 2^31; else 0. */
DECIDE_INLINE __u32 decide_above(__u32 a, __u32 b)
{
	return (b - a) >> 31;
}

/* 0 when the range takes in the port for the protocol; a range with proto 0 is for both. */
DECIDE_INLINE __u32 decide_ports_differ(const struct cordon_ports *p, __u8 proto, __u16 port)
{
	return (__u32)p->proto * (p->proto ^ proto) | decide_above(p->lo, port) |
	       decide_above(port, p->hi);
}

/*
 * May this fence send to address a of class decide_class(a), port (host order), by proto? net is the longest prefix of the fence's trie that
 * covers a, or NULL; one that merely takes loopback in (0.0.0.0/0) does not open it. CORDON_RULE_NET_LOOPBACK_OK with
 * loopback `fence` is half an answer: the caller must still see that the listener is the fence's own. So is
 * CORDON_RULE_NET_DNS_ANY: the caller must put the resolver's address in the place of this one. Only TCP and UDP
 * have a yes.
 */
DECIDE_INLINE __u32 decide_net(const struct cordon_policy *policy, const struct cordon_addr *a,
			       __u32 class, __u8 proto, __u16 port, const struct cordon_net *net)
{
	__u32 loopback = class & DECIDE_IS_LOOPBACK;

	if (class & DECIDE_IS_METADATA)
		return CORDON_RULE_NET_METADATA;
	if (proto != DECIDE_TCP && proto != DECIDE_UDP)
		return CORDON_RULE_NET_DEFAULT;
	for (int i = 0; i < CORDON_GATEWAYS_MAX; i++) {
		const struct cordon_gateway *g = &policy->gateway[i];

		if (!(decide_above(i + 1, policy->n_gateways) | (g->port ^ port) |
		      (g->proto ^ proto) | decide_addr_differs(&g->addr, a)))
			return CORDON_RULE_NET_GATEWAY;
	}
	if (policy->dns) {
		const struct cordon_gateway *r = &policy->resolver[a->v6 & 1];

		if (r->port && !((r->port ^ port) | decide_addr_differs(&r->addr, a)))
			return CORDON_RULE_NET_DNS_OK;
		if (port == DECIDE_DNS_PORT)
			return CORDON_RULE_NET_DNS_ANY;
	}
	if (net && (net->loopback || !loopback))
		for (int i = 0; i < CORDON_PORTS_PER_NET; i++)
			if (!(decide_above(i + 1, net->n) |
			      decide_ports_differ(&net->ports[i], proto, port)))
				return CORDON_RULE_NET_ALLOW;
	if (loopback)
		return (policy->loopback == CORDON_LOOPBACK_FENCE && !decide_is_everybody(a)) ||
				       policy->loopback == CORDON_LOOPBACK_ALLOW
			       ? CORDON_RULE_NET_LOOPBACK_OK
			       : CORDON_RULE_NET_LOOPBACK;
	return CORDON_RULE_NET_DEFAULT;
}

/* May others connect to this TCP port of the fence? */
DECIDE_INLINE int decide_listens(const struct cordon_policy *policy, __u16 port)
{
	for (int i = 0; i < CORDON_LISTEN_MAX; i++)
		if (!(decide_above(i + 1, policy->n_listen) |
		      decide_ports_differ(&policy->listen[i], DECIDE_TCP, port)))
			return 1;
	return 0;
}

/*
 * A destination as one word, so that one load and one comparison tell whether the same was asked before: the IPv4
 * address, the port, the protocol, and the generation of the policy that answered, in case the word outlives it. 0 for
 * what has no such word. What is remembered is the word with DECIDE_KNOWN_GATEWAY where that rule decided; only the
 * answers that nothing but the policy can change are: yes by gateway or allow.
 */
#define DECIDE_KNOWN_GATEWAY (1ULL << 49)

DECIDE_INLINE __u64 decide_known(__u32 generation, const struct cordon_addr *a, __u8 proto,
				 __u16 port)
{
	if (a->v6 || (proto != DECIDE_TCP && proto != DECIDE_UDP))
		return 0;
	return 1ULL << 63 | (__u64)(generation & 0x1fff) << 50 |
	       (__u64)(proto == DECIDE_UDP) << 48 | (__u64)port << 32 | decide_be32(a->b + 12);
}

/* The place of a word among CORDON_KNOWN. */
DECIDE_INLINE __u32 decide_known_place(__u64 word)
{
	return (__u32)(word ^ word >> 16 ^ word >> 32) % CORDON_KNOWN;
}

/*
 * May a fence make a socket of this kind? AF_UNIX; TCP and UDP over IPv4 and IPv6; NETLINK_ROUTE. All else - raw,
 * packet, ping, SCTP, MPTCP, UDP-Lite, vsock, and families not invented yet - is a no.
 */
DECIDE_INLINE __u32 decide_socket(int family, int type, int protocol)
{
	enum { UNIX = 1, INET = 2, INET6 = 10, NETLINK = 16, STREAM = 1, DGRAM = 2, ROUTE = 0 };
	int ok = 0;

	if (family == UNIX)
		ok = 1;
	else if (family == NETLINK)
		ok = protocol == ROUTE;
	else if (family == INET || family == INET6)
		ok = (type == STREAM && (!protocol || protocol == DECIDE_TCP)) ||
		     (type == DGRAM && (!protocol || protocol == DECIDE_UDP));
	return ok ? CORDON_RULE_NET_FAMILY_OK : CORDON_RULE_NET_FAMILY;
}

enum {
	DECIDE_S_IFMT = 0170000,
	DECIDE_S_IFIFO = 0010000,
	DECIDE_S_IFCHR = 0020000,
	DECIDE_S_IFDIR = 0040000,
	DECIDE_S_IFREG = 0100000,
	DECIDE_S_IFBLK = 0060000,
	DECIDE_S_IFSOCK = 0140000,
	DECIDE_ROOT_UNKNOWN = 1U << 31, /* instead of root flags: the walk upwards did not end */
	DECIDE_SB_NOUSER = 1U << 31,	/* SB_NOUSER: no path leads there: pipes, sockets, memfd */
};

/*
 * The device nodes that every program needs, by number (Documentation/admin-guide/devices.txt): null, zero, full,
 * random, urandom; tty, ptmx; and the slaves of Unix98 ptys, which ones is up to their modes.
 */
DECIDE_INLINE int decide_device_needed(__u32 mode, __u32 rdev)
{
	__u32 major = rdev >> 20, minor = rdev & 0xfffff;

	if ((mode & DECIDE_S_IFMT) != DECIDE_S_IFCHR)
		return 0;
	if (major == 1)
		return minor == 3 || minor == 5 || minor == 7 || minor == 8 || minor == 9;
	if (major == 5)
		return minor == 0 || minor == 2;
	return major >= 136 && major <= 143;
}

DECIDE_INLINE int decide_is_device(__u32 mode)
{
	return (mode & DECIDE_S_IFMT) == DECIDE_S_IFCHR || (mode & DECIDE_S_IFMT) == DECIDE_S_IFBLK;
}

/* May this device node be opened, for reading, writing or ioctls alone? */
DECIDE_INLINE __u32 decide_device(__u32 mode, __u32 rdev)
{
	return decide_device_needed(mode, rdev) ? CORDON_RULE_FILES_DEVICE_OK
						: CORDON_RULE_FILES_DEVICE;
}

/*
 * May an object be changed, or opened for it? flags: the union of the roots at and above it in its own file system;
 * sb_flags of that file system.
 */
DECIDE_INLINE __u32 decide_write(__u32 flags, __u32 sb_flags)
{
	if (flags & CORDON_ROOT_WRITE || sb_flags & DECIDE_SB_NOUSER)
		return CORDON_RULE_FILES_WRITE_OK;
	return CORDON_RULE_FILES_WRITE;
}

/* May an object be read? flags: the union of the roots at and above it, by every way up. */
DECIDE_INLINE __u32 decide_read(__u32 flags)
{
	return flags & (CORDON_ROOT_READ_DENY | DECIDE_ROOT_UNKNOWN) ? CORDON_RULE_FILES_READ_DENY
								     : CORDON_RULE_FILES_READ_OK;
}

/*
 * May an object be read where there is an allow-list? flags: the union of the roots at and above it in its own file
 * system; what may be written may be read.
 */
DECIDE_INLINE __u32 decide_read_listed(__u32 flags, __u32 sb_flags)
{
	if (flags & (CORDON_ROOT_READ_ALLOW | CORDON_ROOT_WRITE) || sb_flags & DECIDE_SB_NOUSER)
		return CORDON_RULE_FILES_READ_OK;
	return CORDON_RULE_FILES_READ_ALLOW;
}

/* May an object be executed? flags: the union of the roots at and above it, by every way up. */
DECIDE_INLINE __u32 decide_exec(__u32 flags)
{
	return flags & (CORDON_ROOT_EXEC_DENY | DECIDE_ROOT_UNKNOWN) ? CORDON_RULE_FILES_EXEC_DENY
								     : CORDON_RULE_FILES_EXEC_OK;
}

/*
 * May it be, where there is an allow-list? flags as for decide_read_listed(). What has no place in the file system,
 * such as memfd, is on no list.
 */
DECIDE_INLINE __u32 decide_exec_listed(__u32 flags)
{
	return flags & CORDON_ROOT_EXEC_ALLOW && !(flags & DECIDE_ROOT_UNKNOWN)
		       ? CORDON_RULE_FILES_EXEC_OK
		       : CORDON_RULE_FILES_EXEC_ALLOW;
}

/*
 * Does a capability over the host count in a fence? Those do by which root handles files and its own processes, and whose
 * reach is judged by other rules: CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP,
 * LINUX_IMMUTABLE, NET_BIND_SERVICE; NET_RAW, IPC_LOCK, SYS_CHROOT, SYS_PTRACE; MKNOD, AUDIT_WRITE, SETFCAP;
 * BPF, because bpf() is denied as a whole. Not NET_ADMIN, SYS_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_TIME, SYS_BOOT, PERFMON and
 * the rest, nor any that is invented later; not SYS_RESOURCE, which resizes file systems and passes over quotas.
 */
DECIDE_INLINE __u32 decide_capability(__u32 cap)
{
	const __u64 counts = 0x7ffULL | 1ULL << 13 | 1ULL << 14 | 1ULL << 18 | 1ULL << 19 |
			     1ULL << 27 | 1ULL << 29 | 1ULL << 31 | 1ULL << 39;

	return cap < 64 && counts >> cap & 1 ? CORDON_RULE_NONE : CORDON_RULE_GUARD_CAPABILITY;
}

/*
 * Does a file that others may not read belong to a user of Cordon's own, or its group? keepers: numbers of a user and of a group in turn,
 * of DECIDE_KEEPERS users; 0, which is root, stands for none.
 */
enum { DECIDE_KEEPERS = 2, DECIDE_S_IROTH = 4 };

DECIDE_INLINE int decide_kept(__u32 uid, __u32 gid, const volatile __u32 *keepers)
{
	return (uid && (uid == keepers[0] || uid == keepers[2])) ||
	       (gid && (gid == keepers[1] || gid == keepers[3]));
}

/*
 * Does a socket option have the kernel tell others something, or send in another's name? Joining a multicast group sends its
 * address, which can be anything; a source that is not one's own has the answer sent to a third; a mark, a device or the
 * demand that there be no router chooses routes; the filter of sockets that share a port chooses whose receives, of others', too; and the packet filter is set up
 * by options (from 64 on, and those of IPv6 that no option of its own has).
 */
DECIDE_INLINE int decide_option(int level, int option)
{
	enum { SOCKET = 1, SO_MARK_OPTION = 36, IP = 0, IPV6 = 41 };

	/* BINDTODEVICE, BINDTOIFINDEX, DONTROUTE; (AT|DE)TACH_REUSEPORT_(C|E)BPF */
	if (level == SOCKET)
		return option == SO_MARK_OPTION || option == 25 || option == 62 || option == 5 ||
		       option == 51 || option == 52 || option == 68;
	if (level == IP) /* FREEBIND, TRANSPARENT; MULTICAST_IF, memberships; UNICAST_IF; filters */
		return option == 15 || option == 19 || option == 32 ||
		       (option >= 35 && option <= 48) || option == 50 || option >= 64;
	/* MULTICAST_IF, memberships, anycast, PKTINFO, TRANSPARENT, UNICAST_IF, FREEBIND; filters */
	if (level == IPV6)
		return option == 17 || option == 20 || option == 21 || option == 27 ||
		       option == 28 || (option >= 42 && option <= 48) || option == 50 ||
		       option == 64 || option == 65 || option == 75 || option == 76 ||
		       option == 78 || option >= 96;
	return 0;
}

/*
 * May this control message go with what a socket of IP sends? By which interface it leaves, by which routers, or with which mark,
 * is not for the fence to say. The answer is one of these, or where in the message the number of an interface stands, which
 * must be 0.
 */
enum { DECIDE_CONTROL_DENIED = -1, DECIDE_CONTROL_OK = -2 };

DECIDE_INLINE int decide_control(int level, int type)
{
	enum { SOCKET = 1, IP = 0, IPV6 = 41, UDP = 17, TLS = 282 };
	int ok = 0;

	if (level ==
	    SOCKET) /* RIGHTS and CREDENTIALS, which say nothing here; PRIORITY; time stamps and times */
		ok = type == 1 || type == 2 || type == 12 || type == 37 || type == 61 ||
		     type == 65 || type == 81;
	else if (level == IP && type == 8) /* PKTINFO: interface, source */
		return 0;
	else if (level == IP) /* TOS, TTL */
		ok = type == 1 || type == 2;
	else if (level == IPV6 && (type == 50 || type == 2)) /* PKTINFO: source, interface */
		return 16;
	else if (level == IPV6) /* FLOWINFO, HOPLIMIT, TCLASS, DONTFRAG */
		ok = type == 11 || type == 8 || type == 52 || type == 67 || type == 62;
	else if (level == UDP) /* SEGMENT */
		ok = type == 103;
	else if (level == TLS) /* type of a record */
		ok = type == 1;
	return ok ? DECIDE_CONTROL_OK : DECIDE_CONTROL_DENIED;
}

/* Does a yes to this rule stand even in audit mode? What is shut for every policy is shut for an audited one. */
DECIDE_INLINE int decide_always(__u32 rule)
{
	return rule == CORDON_RULE_NET_METADATA || rule == CORDON_RULE_GUARD_STATE;
}

#endif
