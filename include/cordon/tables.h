/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The tables that both sides of the kernel boundary are generated from: what can be decided (operations), what
 * decides it (rules), and what kind of fact an event is. Each row stands once; enums, names, JSON, the JSON
 * Schema and the docs come from here. Includable from BPF C and from user space; no types, no code.
 */
#ifndef CORDON_TABLES_H
#define CORDON_TABLES_H

/* T(ENUM, name, doc) - the `type` of an event (DESIGN 3.4). */
#define CORDON_TYPES(T)                                                                            \
	T(FILE, "file", "a decision about a file, directory or mount")                             \
	T(NET, "net", "a decision about a socket, an address or a packet")                         \
	T(PROCESS, "process", "a process started, executed or ended inside a fence")               \
	T(GUARD, "guard", "a decision that protects other processes, the kernel or Cordon itself") \
	T(LIMIT, "limit", "a ceiling was reached")                                                 \
	T(FENCE, "fence", "a fence was made, proved, changed or ended")                            \
	T(GATEWAY, "gateway", "a decision of the gateway about a business action")                 \
	T(LOSS, "loss", "events that were counted but could not be delivered")

/* V(ENUM, name) */
#define CORDON_VERDICTS(V)                                                                         \
	V(ALLOW, "allow")                                                                          \
	V(DENY, "deny")                                                                            \
	V(WOULD_DENY, "would_deny")

/* O(ENUM, type, name, doc) - the `op` of an event; the type is a CORDON_TYPES enum. */
#define CORDON_OPS(O)                                                                              \
	O(OPEN_READ, FILE, "open_read", "open a file or directory for reading")                    \
	O(OPEN_WRITE, FILE, "open_write", "open a file for writing or with O_TRUNC")               \
	O(MKDIR, FILE, "mkdir", "create a directory")                                              \
	O(MKNOD, FILE, "mknod", "create a file, fifo, socket or device node")                      \
	O(SYMLINK, FILE, "symlink", "create a symbolic link")                                      \
	O(LINK, FILE, "link", "create a hard link")                                                \
	O(UNLINK, FILE, "unlink", "remove a name")                                                 \
	O(RMDIR, FILE, "rmdir", "remove a directory")                                              \
	O(RENAME, FILE, "rename", "rename or exchange names")                                      \
	O(TRUNCATE, FILE, "truncate", "change the size of a file")                                 \
	O(CHMOD, FILE, "chmod", "change the mode")                                                 \
	O(CHOWN, FILE, "chown", "change owner or group")                                           \
	O(UTIMES, FILE, "utimes", "change the time stamps")                                        \
	O(SETATTR, FILE, "setattr", "change other inode attributes")                               \
	O(SETXATTR, FILE, "setxattr", "set an extended attribute or ACL")                          \
	O(REMOVEXATTR, FILE, "removexattr", "remove an extended attribute or ACL")                 \
	O(IOCTL, FILE, "ioctl", "change inode flags by ioctl")                                     \
	O(MOUNT, FILE, "mount", "mount, move, remount, unmount or pivot")                          \
	O(SOCKET, NET, "socket", "create a socket")                                                \
	O(CONNECT, NET, "connect", "connect a socket")                                             \
	O(SENDMSG, NET, "sendmsg", "send on a socket")                                             \
	O(PACKET, NET, "packet", "a packet leaves the fence")                                      \
	O(PTRACE, GUARD, "ptrace", "inspect or control another process")                           \
	O(SIGNAL, GUARD, "signal", "send a signal to another process")                             \
	O(BPF, GUARD, "bpf", "use the bpf() system call")                                          \
	O(CGROUP_MOVE, GUARD, "cgroup_move", "place a new task in another cgroup")                 \
	O(INHERIT, GUARD, "inherit", "give a new task its parent's fence")                         \
	O(START, FENCE, "start", "the fence exists")                                               \
	O(ENFORCING, FENCE, "enforcing", "the self-test from inside was denied")                   \
	O(ENTER, FENCE, "enter", "a process that was not born inside entered the fence")           \
	O(COLD_START, FENCE, "cold_start", "time from exec of cordon to that of the command")      \
	O(EXIT, FENCE, "exit", "the command ended")                                                \
	O(END, FENCE, "end", "the fence is gone")                                                  \
	O(GAP, LOSS, "gap", "events of this fence were lost; `count` says how many")

/*
 * R(ENUM, verdict, name, doc) - the `rule` of an event: the policy line that decided. The verdict column is what
 * the rule means in enforce mode: ALLOW or DENY.
 */
#define CORDON_RULES(R)                                                                            \
	R(NONE, ALLOW, "none", "no rule: a lifecycle fact, not a decision")                        \
	R(UNFENCED, ALLOW, "unfenced", "the task is in no fence")                                  \
	R(FILES_WRITE, DENY, "files.write", "writing is allowed in workdir, private and write only") \
	R(FILES_WRITE_OK, ALLOW, "files.write", "the object is inside a writable root")            \
	R(FILES_READ_DENY, DENY, "files.read.deny", "the object is, or is below, a denied root")   \
	R(FILES_READ_OK, ALLOW, "files.read", "no rule denies reading")                            \
	R(FILES_DEVICE, DENY, "files.device", "a device node that no program needs")               \
	R(FILES_DEVICE_OK, ALLOW, "files.device", "a device node that every program needs")        \
	R(FILES_MOUNT, DENY, "files.mount", "mounts are not changed from inside a fence")          \
	R(NET_GATEWAY, ALLOW, "network.gateway", "the gateway")                                    \
	R(NET_ALLOW, ALLOW, "network.allow", "an exception in network.allow")                      \
	R(NET_DEFAULT, DENY, "network.default", "no rule allows this address and port")            \
	R(NET_METADATA, DENY, "network.metadata", "the metadata service is always shut")           \
	R(NET_FAMILY, DENY, "network.family", "socket family, type or protocol not on the list")   \
	R(NET_FAMILY_OK, ALLOW, "network.family", "socket family on the list")                     \
	R(NET_LOOPBACK, DENY, "network.loopback", "loopback reaches this fence's listeners only")  \
	R(NET_LOOPBACK_OK, ALLOW, "network.loopback", "a listener of this fence, or loopback is open") \
	R(NET_UNIX, DENY, "network.unix", "the listener is outside the fence and not in network.unix") \
	R(NET_UNIX_OK, ALLOW, "network.unix", "a listener of this fence, or one in network.unix")  \
	R(NET_CGROUP, DENY, "network.cgroup", "the task left its fence's cgroup")                  \
	R(GUARD_PTRACE, DENY, "guard.ptrace", "the target is outside the fence")                   \
	R(GUARD_SIGNAL, DENY, "guard.signal", "the target is outside the fence")                   \
	R(GUARD_BPF, DENY, "guard.bpf", "bpf() is not for fenced tasks")                           \
	R(GUARD_CGROUP, DENY, "guard.cgroup", "tasks are not placed in cgroups from inside")       \
	R(GUARD_STATE, DENY, "guard.state", "the fence's state is missing, full or ended")

/* S(ENUM, name, doc) - why something could not be done or reported; counted per fence in the kernel. */
#define CORDON_FAULTS(S)                                                                           \
	S(RING_FULL, "ring_full", "the ring buffer had no room for an event")                      \
	S(SCRATCH, "scratch", "event scratch space was in use")                                    \
	S(INHERIT, "inherit", "a new task could not be given its fence; it was not created")       \
	S(ENTER, "enter", "a task that entered the cgroup could not be marked")                    \
	S(WALK_BOUND, "walk_bound", "a path was deeper than the bound; denied")                    \
	S(SOCKET_MARK, "socket_mark", "a socket could not be marked; it was not created")

/*
 * F(type, member, dim, json, kind, doc) - the members of struct cordon_event, in order. `json` is the key in the
 * published event (a dot nests), "" where the value only feeds another key; `kind` says how it is written:
 * UINT, INT, TIME (ns to RFC 3339), ENUM_* (the table of that name), TEXT (bytes to a NUL), ADDR (by family),
 * DEV (major:minor), FLAGS (feeds file.flags by op), PART (feeds the key that `doc` names).
 */
#define CORDON_EVENT_FIELDS(F)                                                                     \
	F(__u64, seq, , "seq", UINT, "number of the event in its fence, from 1, without holes")    \
	F(__u64, mono_ns, , "mono_ns", UINT, "CLOCK_MONOTONIC, ns; also feeds time")               \
	F(__u64, lost, , "", PART, "loss so far in this fence; feeds gap records")                 \
	F(__u64, fence_id, , "fence.id", UINT, "fence, unique on the node for ever")               \
	F(__u64, cgroup, , "process.cgroup", UINT, "cgroup id of the task, not of the fence")      \
	F(__u64, start_ns, , "", PART, "start of the process since boot, ns; process.exec_id")     \
	F(__u64, parent_start_ns, , "", PART, "the same of the parent; process.parent_exec_id")    \
	F(__u64, ino, , "file.ino", UINT, "inode number of the object, or of the parent it goes into") \
	F(__u32, generation, , "fence.generation", UINT, "policy generation that decided")         \
	F(__s32, err, , "errno", ERRNO, "errno given to the caller; 0 for none")                   \
	F(__u32, count, , "count", UINT, "how many like it this record stands for")                \
	F(__u32, pid, , "process.pid", UINT, "process id in the initial namespace")                \
	F(__u32, pid_ns, , "process.pid_ns", UINT, "process id in its own namespace")              \
	F(__u32, tid, , "process.tid", UINT, "thread id in the initial namespace")                 \
	F(__u32, ppid, , "process.ppid", UINT, "parent process id, initial namespace")             \
	F(__u32, uid, , "process.uid", UINT, "user id, initial namespace")                         \
	F(__u32, gid, , "process.gid", UINT, "group id, initial namespace")                        \
	F(__u32, exec_seq, , "", PART, "count of execs; process.exec_id")                          \
	F(__u32, parent_exec_seq, , "", PART, "the same of the parent; process.parent_exec_id")    \
	F(__u32, dev, , "file.dev", DEV, "device of the object's file system")                     \
	F(__u32, op_flags, , "", FLAGS, "open: f_flags; rename: flags; mknod: mode; ioctl: request; " \
					"ptrace: mode; signal: number; socket: type")              \
	F(__u32, target_pid, , "guard.target_pid", UINT, "process that was the target")            \
	F(__u16, dport, , "net.dport", UINT, "destination port")                                   \
	F(__u16, sport, , "net.sport", UINT, "source port, where known")                           \
	F(__u16, family, , "net.family", FAMILY, "socket family")                                  \
	F(__u16, proto, , "net.proto", PROTO, "IP protocol")                                       \
	F(__u16, path_len, , "", PART, "bytes of file.path in names")                              \
	F(__u16, path2_len, , "", PART, "bytes of file.path2 in names")                            \
	F(__u16, exe_len, , "", PART, "bytes of process.exe in names")                             \
	F(__u16, unix_len, , "", PART, "bytes of net.unix in names")                               \
	F(__u8, type, , "type", ENUM_TYPE, "kind of fact")                                         \
	F(__u8, op, , "op", ENUM_OP, "what was tried")                                             \
	F(__u8, verdict, , "verdict", ENUM_VERDICT, "what was answered")                           \
	F(__u8, rule, , "rule", ENUM_RULE, "policy line that decided")                             \
	F(__u8, mode, , "fence.mode", ENUM_MODE, "enforce or audit")                               \
	F(__u8, net_flags, , "", PART, "CORDON_NET_*: net.mapped, net.metadata")                   \
	F(__u8, path_flags, , "", PART, "CORDON_PATH_*: file.path_truncated, file.path_disconnected") \
	F(__u8, path2_flags, , "", PART, "the same of path2")                                      \
	F(__u8, dst, [16], "net.dst", ADDR, "destination address, canonical")                      \
	F(__u8, src, [16], "net.src", ADDR, "source address, where known")                         \
	F(char, comm, [16], "process.comm", TEXT, "name that the process gave itself")

#endif
