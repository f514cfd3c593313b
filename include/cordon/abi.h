/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the kernel side and user space agree on, byte for byte: enums from the tables, the records in the maps,
 * and the event as it lies in the ring buffer. Fixed-width members, explicit padding, no pointers. The layout is
 * checked by static assertions here and, because both compilers see this one file, cannot drift.
 */
#ifndef CORDON_ABI_H
#define CORDON_ABI_H

#include <linux/types.h>

#include "tables.h"

/* Raised when a record below changes; a pinned object of another version is not reused. */
#define CORDON_ABI_VERSION 6

/* Ceilings; docs/limits.md says what happens at each. */
#define CORDON_FENCES_MAX \
	16384 /* fences at a time on one node, where the maps were made for so many */
#define CORDON_FENCES_ROOM \
	1024 /* for so many they are made, unless `cordon load --fences` says another number */
#define CORDON_ROOTS_MAX 65536 /* file roots of all fences together */
#define CORDON_NETS_MAX 65536  /* network prefixes of all fences together */
#define CORDON_PORTS_PER_NET 8 /* protocol/port ranges that share one prefix */
#define CORDON_GATEWAYS_MAX 4  /* gateway addresses of one fence */
#define CORDON_LISTEN_MAX 8    /* port ranges that one fence may be reached at */
#define CORDON_WALK_MAX 16384  /* directories between an object and the root of its file system */
#define CORDON_WALK_MOUNTS_MAX 64 /* mounts between an object and the root of the namespace */
#define CORDON_PATH_MAX 4096  /* bytes of one path in an event; longer ones are marked truncated */
#define CORDON_FOLD_KINDS 128 /* kinds of decisions that one fence has folded beyond its budget */
#define CORDON_CGROUP_DEPTH_MAX 32 /* cgroup levels that are searched for a fence */

#define CORDON_X(e, n, d) CORDON_TYPE_##e,
enum cordon_type { CORDON_TYPES(CORDON_X) CORDON_TYPE_COUNT };
#undef CORDON_X
#define CORDON_X(e, n) CORDON_VERDICT_##e,
enum cordon_verdict { CORDON_VERDICTS(CORDON_X) CORDON_VERDICT_COUNT };
#undef CORDON_X
#define CORDON_X(e, t, n, d) CORDON_OP_##e,
enum cordon_op { CORDON_OPS(CORDON_X) CORDON_OP_COUNT };
#undef CORDON_X
#define CORDON_X(e, v, n, d) CORDON_RULE_##e,
enum cordon_rule { CORDON_RULES(CORDON_X) CORDON_RULE_COUNT };
#undef CORDON_X
#define CORDON_X(e, n, d) CORDON_FAULT_##e,
enum cordon_fault { CORDON_FAULTS(CORDON_X) CORDON_FAULT_COUNT };
#undef CORDON_X

enum cordon_mode { CORDON_MODE_ENFORCE = 1, CORDON_MODE_AUDIT = 2 };
enum cordon_loopback {
	CORDON_LOOPBACK_FENCE = 0,
	CORDON_LOOPBACK_DENY = 1,
	CORDON_LOOPBACK_ALLOW = 2
};

/* What a root in the file system means for the objects at and below it; bits. */
enum cordon_root_flag {
	CORDON_ROOT_WRITE = 1,	   /* mutations are allowed at and below */
	CORDON_ROOT_READ_DENY = 2, /* opening for read is denied at and below */
	CORDON_ROOT_UNIX = 4,	   /* this socket may be connected */
	CORDON_ROOT_READ_ALLOW =
		8, /* opening for read is allowed at and below; elsewhere it is denied */
	CORDON_ROOT_EXEC_DENY = 16,  /* executing is denied at and below */
	CORDON_ROOT_EXEC_ALLOW = 32, /* executing is allowed at and below; elsewhere it is denied */
	CORDON_ROOT_PRIVATE = 64, /* as WRITE where it is the fence's own alone; only in images */
};

/* Roots that forbid. They are entered for the number alone, whatever its generation. */
enum {
	CORDON_ROOT_DENIES = CORDON_ROOT_READ_DENY | CORDON_ROOT_EXEC_DENY,
	CORDON_ROOT_EXEC = CORDON_ROOT_EXEC_DENY | CORDON_ROOT_EXEC_ALLOW,
};

/* An IP address, canonical: IPv4 (also when it came mapped, ::ffff:a.b.c.d) has v6 = 0 and its bytes in b[12..15]. */
struct cordon_addr {
	__u8 v6;
	__u8 mapped; /* it was spelled as an IPv4-mapped IPv6 address */
	__u8 pad[2];
	__u8 b[16];
};

/* Inclusive port range, host byte order; proto is an IPPROTO_* value, 0 for TCP and UDP. */
struct cordon_ports {
	__u8 proto;
	__u8 pad;
	__u16 lo;
	__u16 hi;
};

/* One allowed prefix with everything that is allowed there: the union over all rules that cover the prefix. */
struct cordon_net {
	__u8 loopback; /* the prefix lies in loopback: only then does it open it */
	__u8 n;	       /* entries of ports in use, 1..CORDON_PORTS_PER_NET */
	__u8 pad[2];
	struct cordon_ports ports[CORDON_PORTS_PER_NET];
};

/* Key of a prefix in the LPM trie: 32 bits of tag, then the address bytes (16, or 4 in b[0..3] for IPv4). */
struct cordon_net_key {
	__u32 prefixlen; /* 32 + prefix length of the address */
	__u32 tag;	 /* cordon_tag() << 1 | v6 */
	__u8 b[16];
};

/* In a root's key: whatever its generation. Roots that forbid are entered so. */
#define CORDON_GENERATION_ANY 0xffffffffU
/* Instead of a generation: it cannot be told. No root has it. */
#define CORDON_GENERATION_NONE 0xfffffffeU

/* Key of a file root: the object itself. No path text. */
struct cordon_root_key {
	__u64 ino;
	__u32 dev; /* kernel encoding of super_block.s_dev */
	__u32 generation; /* i_generation, or cordon_btrfs_generation(): guards against reuse of the number */
	__u32 tag; /* cordon_tag() */
	__u32 pad;
};

/* Slot and policy generation as one number: what per-fence keys begin with. */
static inline __u32 cordon_tag(__u32 slot, __u32 generation)
{
	return slot << 1 | (generation & 1);
}

struct cordon_gateway {
	struct cordon_addr addr;
	__u16 port; /* host byte order */
	__u8 proto; /* IPPROTO_TCP */
	__u8 pad;
};

/* Bits of the inode numbers of all roots; a clear bit proves that no root has this number. */
#define CORDON_ROOT_FILTER_BITS 1024
#define CORDON_ROOT_FILTER_WORDS (CORDON_ROOT_FILTER_BITS / 64)

/*
 * Where btrfs keeps the number of an inode's subvolume, in bytes: the pointer to its tree, from the inode; the number in
 * the tree.
 */
struct cordon_btrfs {
	__s32 root;
	__s32 objectid;
	__u32 known; /* 0: not; then no object of btrfs is a root that allows anything */
	__u32 pad;
};

/* What stands for the generation of an object of btrfs; never one of the two above. */
static inline __u32 cordon_btrfs_generation(__u32 generation, __u64 subvolume)
{
	__u32 mixed = generation ^ (__u32)(subvolume * 0x9e3779b1);

	return mixed < CORDON_GENERATION_NONE ? mixed : mixed - 2;
}

/* Writable roots that a policy names itself, so that most objects need no look-up in the map. */
#define CORDON_ROOTS_NEAR 4

/* One of these. dev 0: none. */
struct cordon_root_near {
	__u64 ino;
	__u32 dev;
	__u32 generation;
};

/* Destinations that a policy remembers to have allowed. */
#define CORDON_KNOWN 4

/* The part of one policy generation that every decision reads; roots and prefixes lie in maps of their own. */
struct cordon_policy {
	__u8 mode;	 /* enum cordon_mode */
	__u8 loopback;	 /* enum cordon_loopback */
	__u8 root_flags; /* union of cordon_root_flag over all roots */
	__u8 has_nets;	 /* there are prefixes in the trie */
	__u8 n_gateways;
	__u8 report_allow; /* also report allowed network decisions */
	__u8 dns;	   /* 1: port 53 of any address is led to the resolver */
	__u8 n_listen;
	__u32 generation;   /* counts up from 1 */
	__u32 event_ns;	    /* the budget of events: one in so many ns; 0: none */
	__u64 output_bytes; /* limits.output, 0: none */
	__u64 upload_bytes; /* limits.upload, 0: none */
	struct cordon_gateway gateway[CORDON_GATEWAYS_MAX];
	struct cordon_gateway resolver[2]; /* of IPv4 and of IPv6, TCP and UDP; port 0: none */
	struct cordon_ports listen[CORDON_LISTEN_MAX]; /* TCP */
	struct cordon_btrfs btrfs;		       /* filled when roots are resolved */
	__u64 root_filter[CORDON_ROOT_FILTER_WORDS];
	__u64 deny_filter; /* bits of the devices that roots with CORDON_ROOT_DENIES are on: cordon_dev_bit() */
	struct cordon_root_near near[CORDON_ROOTS_NEAR];
	/* Written by the kernel: destinations that this generation allowed by a rule for addresses; decide_known(). */
	__u64 known[CORDON_KNOWN];
};

/* The bit of a device (super_block.s_dev) in deny_filter; a clear bit proves that no such root is there. */
static inline __u64 cordon_dev_bit(__u32 dev)
{
	return 1ULL << ((dev ^ dev >> 20) & 63);
}

/* Where a descriptor leads that is a pipe, terminal or socket. ino 0: nowhere of these. */
struct cordon_out {
	__u64 ino;
	__u32 dev; /* kernel encoding */
	__u32 pad;
};

/* One fence, by slot. id 0: the slot is free. */
struct cordon_fence {
	__u64 id;
	__u64 cgroup_id;
	__u32 cgroup_level; /* depth of that cgroup; 0 is the root */
	__u32 generation;   /* active policy generation; its parity selects the policy */
	__u8 attached;	    /* 1: the cgroup was there before (attach); 0: made by run */
	__u8 degraded;	    /* LSM programs are missing */
	__u8 ending;	    /* marks of this fence are being taken off its tasks */
	__u8 descriptors; /* 1: its tasks hold descriptors from before, each use of which is judged */
	__u8 broken;	  /* its cgroup programs are gone: no network */
	__u8 ipc_shared; /* processes outside were in its IPC namespace when it was attached */
	__u8 pad[2];
	struct cordon_out out[2]; /* descriptors 1 and 2 of its command */
};

/* Counters of one fence, by slot; mapped into user space, all members change atomically. */
struct cordon_state {
	__u64 seq;  /* events numbered so far, by the kernel and by user space */
	__u64 lost; /* numbered but not delivered */
	__u64 denied;
	__u64 allowed; /* reported ones */
	__u64 faults[CORDON_FAULT_COUNT];
	__u64 output;	    /* bytes; only with limits.output */
	__u64 upload;	    /* bytes, also denied ones; only with limits.upload */
	__u64 denied_by[2]; /* the same as denied, by the set of programs that counted (cordon_set) */
	__u64 due_ns;	    /* CLOCK_MONOTONIC at which the budget has room for all events so far */
	__u64 folded;	    /* decisions beyond the budget, which have no record of their own */
};
_Static_assert(sizeof(struct cordon_state) == 128, "mapped as an array");

/* What was decided beyond the budget: one kind of it. Members change atomically. */
struct cordon_fold {
	__u64 kind; /* operation, rule, type, errno, verdict, as bpf/fold.bpf.h has them; 0: free */
	__u64 next_ns; /* CLOCK_MONOTONIC of the next record of this kind */
	__u64 pending; /* decisions that no record stands for yet */
	__u64 like;    /* op_flags, family and protocol of its last record */
};

/* Of one fence, by slot. */
struct cordon_folds {
	struct cordon_fold at[CORDON_FOLD_KINDS];
};

/* What fold_flush is told. */
struct cordon_flush {
	__u32 slot;
	__u32 all; /* 1: also what a record of its kind is soon to stand for */
};

/* Which fence a task belongs to. Begins as struct cordon_sock does. */
struct cordon_task {
	__u64 fence_id;
	__u32 slot;
	__u16 cap; /* denied a moment ago, and CAP_SYS_ADMIN stands in for it; 0: none */
	__u8 entering; /* entered an attached cgroup and has executed nothing since: a container runtime at work */
	__u8 met_next; /* which of met is the older; only bit 0 counts */
	__u64 met[2]; /* dentries of the writable roots that it met last: hints, only ever compared */
	__u64 overlay_cred; /* credentials under which overlayfs carries out what this task was allowed */
	__u64 asked;	    /* bytes that this thread is about to write... */
	__u64 asked_file;     /* ...to this file; 0: none */
	union {		      /* of this thread, while it is in... */
		__u64 copied; /* copy_file_range(): what the fence had written when it began */
		__u64 moves_to; /* sendfile(), vmsplice(): where it leads, as bpf/limit.bpf.h has it */
	};
	__u64 overlay_create; /* a copy of them, made for the file that this task was allowed to create */
};

/* Which fence made a socket, and the resolver that it believes to speak with (dns_port 0: none). */
struct cordon_sock {
	__u64 fence_id;
	__u32 slot;
	__u16 dns_port; /* network byte order */
	__u16 pad;
	struct cordon_addr dns_addr;
	__u32 pad2;
};

/* What fence_resolve (iter/task_file) tells of one descriptor. */
struct cordon_object {
	__u64 ino;
	__u32 dev;
	__u32 generation;
	__u32 fd;
	__u32 mode; /* i_mode */
};

/* What fence_find_files and fence_find_maps tell: something from before a fence that its policy denies. */
struct cordon_found {
	__u64 fence_id;
	__u64 start; /* of a mapping; 0: a descriptor */
	__u64 end;
	__u32 pid; /* initial namespace */
	__u32 fd;
	__u32 rule; /* enum cordon_rule */
	__u32 pad;
};

/* What fence_find_ipc tells: in which IPC namespace, of the host's own none, a task is. */
struct cordon_ipc {
	__u32 ns;    /* inode number of the namespace */
	__u32 fence; /* slot + 1 of the fence of the task's cgroup; 0: none */
};

/* Bits of cordon_event.net_flags and .path_flags. */
enum {
	CORDON_NET_MAPPED = 1,	 /* the address was spelled ::ffff:a.b.c.d */
	CORDON_NET_METADATA = 2, /* it is, or embeds, the metadata service */
	CORDON_NET_SRC = 4,	 /* src and sport are filled */
};
enum {
	CORDON_PATH_TRUNCATED = 1,    /* leading directories are missing */
	CORDON_PATH_DISCONNECTED = 2, /* the walk ended before a root of the namespace */
	CORDON_PATH_TEXT = 4, /* not components: text as the caller gave it, ended by one NUL */
};

/*
 * An event as it lies in the ring buffer: this, then path_len + path2_len + exe_len bytes of names. A path is a
 * sequence of components, the last first, each ended by NUL ("f\0dir\0srv\0" is /srv/dir/f). unix_len bytes of a
 * socket name follow as they are. Members that do not apply are 0.
 */
#define CORDON_X(type, member, dim, doc) type member dim;
struct cordon_event {
	CORDON_EVENT_FIELDS(CORDON_X)
	char names[];
};
#undef CORDON_X
_Static_assert(sizeof(struct cordon_event) % 8 == 0, "names begin aligned");

/* At most this many bytes of names follow. */
#define CORDON_EVENT_NAMES_MAX (3 * CORDON_PATH_MAX + 512)

#endif
