// SPDX-License-Identifier: Apache-2.0
/* See symbols.h. */
#include "event/symbols.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cordon/abi.h"
#include "util/util.h"

struct symbol {
	unsigned int value;
	const char *name;
};

#define SYMBOL(name)                        \
	{                                   \
		(unsigned int)(name), #name \
	}

/* Kernel values that user space does not see. */
#define F_FLAG_EXEC 0x20 /* __FMODE_EXEC: the file is opened to be executed */
#ifdef __x86_64__
#define F_FLAG_LARGEFILE 0100000
#else
#define F_FLAG_LARGEFILE 0400000
#endif

static const struct symbol access_modes[] = { SYMBOL(O_RDONLY), SYMBOL(O_WRONLY), SYMBOL(O_RDWR) };

/* Flags that contain others come before them. */
static const struct symbol open_flags[] = {
	SYMBOL(O_TMPFILE),
	SYMBOL(O_SYNC),
	SYMBOL(O_DSYNC),
	SYMBOL(O_CREAT),
	SYMBOL(O_EXCL),
	SYMBOL(O_NOCTTY),
	SYMBOL(O_TRUNC),
	SYMBOL(O_APPEND),
	SYMBOL(O_NONBLOCK),
	SYMBOL(O_ASYNC),
	SYMBOL(O_DIRECT),
	SYMBOL(O_DIRECTORY),
	SYMBOL(O_NOFOLLOW),
	SYMBOL(O_NOATIME),
	SYMBOL(O_CLOEXEC),
	SYMBOL(O_PATH),
	{ F_FLAG_EXEC, "__FMODE_EXEC" },
	{ 0, NULL },
};

static const struct symbol rename_flags[] = {
	SYMBOL(RENAME_NOREPLACE),
	SYMBOL(RENAME_EXCHANGE),
	SYMBOL(RENAME_WHITEOUT),
	{ 0, NULL },
};

static const struct symbol file_types[] = {
	SYMBOL(S_IFREG), SYMBOL(S_IFDIR),  SYMBOL(S_IFCHR), SYMBOL(S_IFBLK),
	SYMBOL(S_IFIFO), SYMBOL(S_IFSOCK), SYMBOL(S_IFLNK), { 0, NULL },
};

static const struct symbol ioctls[] = {
	SYMBOL(FS_IOC_SETFLAGS),
	SYMBOL(FS_IOC_SETVERSION),
	SYMBOL(FS_IOC_FSSETXATTR),
	SYMBOL(FS_IOC_SETFSLABEL),
	SYMBOL(FICLONE),
	SYMBOL(FICLONERANGE),
	SYMBOL(FIDEDUPERANGE),
	SYMBOL(FIFREEZE),
	SYMBOL(FITHAW),
	SYMBOL(FITRIM),
	{ 0, NULL },
};

static const struct symbol ptrace_modes[] = {
	{ 0x01, "PTRACE_MODE_READ" },	   { 0x02, "PTRACE_MODE_ATTACH" },
	{ 0x04, "PTRACE_MODE_NOAUDIT" },   { 0x08, "PTRACE_MODE_FSCREDS" },
	{ 0x10, "PTRACE_MODE_REALCREDS" }, { 0, NULL },
};

static const struct symbol socket_types[] = {
	SYMBOL(SOCK_STREAM),	SYMBOL(SOCK_DGRAM), SYMBOL(SOCK_RAW),	 SYMBOL(SOCK_RDM),
	SYMBOL(SOCK_SEQPACKET), SYMBOL(SOCK_DCCP),  SYMBOL(SOCK_PACKET), { 0, NULL },
};

static const struct symbol families[] = {
	{ AF_UNSPEC, "unspec" },
	{ AF_UNIX, "unix" },
	{ AF_INET, "inet" },
	{ AF_AX25, "ax25" },
	{ AF_IPX, "ipx" },
	{ AF_APPLETALK, "appletalk" },
	{ AF_NETROM, "netrom" },
	{ AF_X25, "x25" },
	{ AF_INET6, "inet6" },
	{ AF_ROSE, "rose" },
	{ AF_KEY, "key" },
	{ AF_NETLINK, "netlink" },
	{ AF_PACKET, "packet" },
	{ AF_RDS, "rds" },
	{ AF_LLC, "llc" },
	{ AF_PPPOX, "pppox" },
	{ AF_IB, "ib" },
	{ AF_MPLS, "mpls" },
	{ AF_CAN, "can" },
	{ AF_TIPC, "tipc" },
	{ AF_BLUETOOTH, "bluetooth" },
	{ AF_RXRPC, "rxrpc" },
	{ AF_ISDN, "isdn" },
	{ AF_PHONET, "phonet" },
	{ AF_IEEE802154, "ieee802154" },
	{ AF_CAIF, "caif" },
	{ AF_ALG, "alg" },
	{ AF_NFC, "nfc" },
	{ AF_VSOCK, "vsock" },
	{ AF_KCM, "kcm" },
	{ AF_QIPCRTR, "qipcrtr" },
	{ AF_SMC, "smc" },
	{ AF_XDP, "xdp" },
	{ AF_MCTP, "mctp" },
	{ 0, NULL },
};

static const struct symbol protocols[] = {
	{ IPPROTO_IP, "ip" },
	{ IPPROTO_ICMP, "icmp" },
	{ IPPROTO_IGMP, "igmp" },
	{ IPPROTO_IPIP, "ipip" },
	{ IPPROTO_TCP, "tcp" },
	{ IPPROTO_UDP, "udp" },
	{ IPPROTO_DCCP, "dccp" },
	{ IPPROTO_IPV6, "ipv6" },
	{ IPPROTO_GRE, "gre" },
	{ IPPROTO_ESP, "esp" },
	{ IPPROTO_AH, "ah" },
	{ IPPROTO_ICMPV6, "icmpv6" },
	{ IPPROTO_SCTP, "sctp" },
	{ IPPROTO_UDPLITE, "udplite" },
	{ IPPROTO_RAW, "raw" },
	{ 262, "mptcp" },
	{ 0, NULL },
};

/* The name of value, or NULL. */
static const char *symbol_find(const struct symbol *symbols, unsigned int value)
{
	for (; symbols->name; symbols++)
		if (symbols->value == value)
			return symbols->name;
	return NULL;
}

static void put_name(struct event_buffer *b, const struct symbol *symbols, unsigned int value)
{
	const char *name = symbol_find(symbols, value);

	if (name)
		event_buffer_puts(b, name);
	else
		event_buffer_uint(b, value, 1);
}

/*
 * Names of bits, joined by '|'; bits without a name in hex; nothing for 0. more: something stands
 * before.
 */
static void put_bits(struct event_buffer *b, const struct symbol *symbols, unsigned int bits,
		     bool more)
{
	for (; symbols->name; symbols++) {
		if ((bits & symbols->value) != symbols->value)
			continue;
		bits &= ~symbols->value;
		event_buffer_puts(b, more ? "|" : "");
		event_buffer_puts(b, symbols->name);
		more = true;
	}
	if (bits)
		event_buffer_printf(b, "%s0x%x", more ? "|" : "", bits);
}

void event_symbol_errno(struct event_buffer *b, int err)
{
	const char *name = strerrorname_np(err);

	if (name)
		event_buffer_puts(b, name);
	else
		event_buffer_printf(b, "E%u", (unsigned int)err);
}

void event_symbol_signal(struct event_buffer *b, unsigned int signal)
{
	const char *name = signal < 32 ? sigabbrev_np((int)signal) : NULL;

	if (name)
		event_buffer_printf(b, "SIG%s", name);
	else if (signal >= (unsigned int)SIGRTMIN && signal <= (unsigned int)SIGRTMAX)
		event_buffer_printf(b, "SIGRTMIN+%u", signal - (unsigned int)SIGRTMIN);
	else
		event_buffer_printf(b, "SIG%u", signal);
}

void event_symbol_family(struct event_buffer *b, unsigned int family)
{
	put_name(b, families, family);
}

void event_symbol_protocol(struct event_buffer *b, unsigned int family, unsigned int protocol)
{
	if (family == AF_INET || family == AF_INET6)
		put_name(b, protocols, protocol);
	else
		event_buffer_uint(b, protocol, 1);
}

void event_symbol_socket_type(struct event_buffer *b, unsigned int type)
{
	static const struct symbol flags[] = { SYMBOL(SOCK_NONBLOCK),
					       SYMBOL(SOCK_CLOEXEC),
					       { 0, NULL } };

	put_name(b, socket_types, type & 0xf);
	put_bits(b, flags, type & ~0xfU, true);
}

void event_symbol_capability(struct event_buffer *b, unsigned int cap)
{
	static const char *const names[] = {
		"CHOWN",
		"DAC_OVERRIDE",
		"DAC_READ_SEARCH",
		"FOWNER",
		"FSETID",
		"KILL",
		"SETGID",
		"SETUID",
		"SETPCAP",
		"LINUX_IMMUTABLE",
		"NET_BIND_SERVICE",
		"NET_BROADCAST",
		"NET_ADMIN",
		"NET_RAW",
		"IPC_LOCK",
		"IPC_OWNER",
		"SYS_MODULE",
		"SYS_RAWIO",
		"SYS_CHROOT",
		"SYS_PTRACE",
		"SYS_PACCT",
		"SYS_ADMIN",
		"SYS_BOOT",
		"SYS_NICE",
		"SYS_RESOURCE",
		"SYS_TIME",
		"SYS_TTY_CONFIG",
		"MKNOD",
		"LEASE",
		"AUDIT_WRITE",
		"AUDIT_CONTROL",
		"SETFCAP",
		"MAC_OVERRIDE",
		"MAC_ADMIN",
		"SYSLOG",
		"WAKE_ALARM",
		"BLOCK_SUSPEND",
		"AUDIT_READ",
		"PERFMON",
		"BPF",
		"CHECKPOINT_RESTORE",
	};

	if (cap < ARRAY_SIZE(names))
		event_buffer_printf(b, "CAP_%s", names[cap]);
	else
		event_buffer_printf(b, "CAP_%u", cap);
}

void event_symbol_ptrace(struct event_buffer *b, unsigned int mode)
{
	if (mode)
		put_bits(b, ptrace_modes, mode, false);
	else
		event_buffer_putc(b, '0');
}

static void put_open_flags(struct event_buffer *b, unsigned int flags)
{
	unsigned int access = flags & O_ACCMODE;

	if (access < ARRAY_SIZE(access_modes))
		event_buffer_puts(b, access_modes[access].name);
	else
		event_buffer_puts(b, "O_ACCMODE");
	put_bits(b, open_flags, flags & ~(unsigned int)(O_ACCMODE | F_FLAG_LARGEFILE), true);
}

static void put_mode(struct event_buffer *b, unsigned int mode)
{
	const char *type = symbol_find(file_types, mode & S_IFMT);

	event_buffer_printf(b, "%s|%04o", type ? type : "0", mode & ~(unsigned int)S_IFMT);
}

void event_symbol_file_flags(struct event_buffer *b, unsigned int op, unsigned int flags)
{
	const char *name = op == CORDON_OP_IOCTL ? symbol_find(ioctls, flags) : NULL;

	if (op == CORDON_OP_OPEN_READ || op == CORDON_OP_OPEN_WRITE)
		put_open_flags(b, flags);
	else if (op == CORDON_OP_RENAME)
		put_bits(b, rename_flags, flags, false);
	else if (op == CORDON_OP_MKNOD)
		put_mode(b, flags);
	else if (name)
		event_buffer_puts(b, name);
	else
		event_buffer_printf(b, "0x%x", flags);
}

void event_symbol_device(struct event_buffer *b, unsigned int dev)
{
	event_buffer_uint(b, dev >> 20, 1);
	event_buffer_putc(b, ':');
	event_buffer_uint(b, dev & 0xfffff, 1);
}
