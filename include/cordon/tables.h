/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The tables that both sides of the kernel boundary are generated from: what can be decided
 * (operations), what decides it (rules), and what kind of fact an event is. Each row stands once;
 * enums, names, JSON, the JSON Schema and the docs come from here. Includable from BPF C and from
 * user space; no types, no code.
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

/*
 * C(ENUM, class_uid, class name) - the class of OCSF 1.3.0 that events of a type become (-o ocsf); where an operation of that
 * type belongs to another class, a row of CORDON_OCSF_OPS says so. category_uid is class_uid / 1000.
 */
#define CORDON_OCSF_TYPES(C)                    \
	C(FILE, 1001, "File System Activity")   \
	C(NET, 4001, "Network Activity")        \
	C(PROCESS, 1007, "Process Activity")    \
	C(GUARD, 1003, "Kernel Activity")       \
	C(LIMIT, 2004, "Detection Finding")     \
	C(FENCE, 6002, "Application Lifecycle") \
	C(GATEWAY, 6003, "API Activity")        \
	C(LOSS, 1008, "Event Log Activity")

/* A(ENUM of an op, class_uid, class name, activity_id, activity name); without a row: activity 99, named as the op. */
#define CORDON_OCSF_OPS(A)                                                \
	A(OPEN_READ, 1001, "File System Activity", 2, "Read")             \
	A(OPEN_WRITE, 1001, "File System Activity", 3, "Update")          \
	A(READ, 1001, "File System Activity", 2, "Read")                  \
	A(WRITE, 1001, "File System Activity", 3, "Update")               \
	A(MKDIR, 1001, "File System Activity", 1, "Create")               \
	A(MKNOD, 1001, "File System Activity", 1, "Create")               \
	A(SYMLINK, 1001, "File System Activity", 1, "Create")             \
	A(LINK, 1001, "File System Activity", 1, "Create")                \
	A(UNLINK, 1001, "File System Activity", 4, "Delete")              \
	A(RMDIR, 1001, "File System Activity", 4, "Delete")               \
	A(RENAME, 1001, "File System Activity", 5, "Rename")              \
	A(TRUNCATE, 1001, "File System Activity", 3, "Update")            \
	A(CHMOD, 1001, "File System Activity", 7, "Set Security")         \
	A(CHOWN, 1001, "File System Activity", 7, "Set Security")         \
	A(UTIMES, 1001, "File System Activity", 6, "Set Attributes")      \
	A(SETATTR, 1001, "File System Activity", 6, "Set Attributes")     \
	A(SETXATTR, 1001, "File System Activity", 6, "Set Attributes")    \
	A(REMOVEXATTR, 1001, "File System Activity", 6, "Set Attributes") \
	A(MOUNT, 1001, "File System Activity", 12, "Mount")               \
	A(EXEC, 1007, "Process Activity", 1, "Launch")                    \
	A(CONNECT, 4001, "Network Activity", 1, "Open")                   \
	A(SENDMSG, 4001, "Network Activity", 6, "Traffic")                \
	A(PACKET, 4001, "Network Activity", 6, "Traffic")                 \
	A(INBOUND, 4001, "Network Activity", 6, "Traffic")                \
	A(PTRACE, 1007, "Process Activity", 3, "Open")                    \
	A(START, 6002, "Application Lifecycle", 3, "Start")               \
	A(END, 6002, "Application Lifecycle", 4, "Stop")                  \
	A(DENY_RATE, 2004, "Detection Finding", 1, "Create")              \
	A(DESTRUCTIVE, 2004, "Detection Finding", 1, "Create")

/* V(ENUM, name) */
#define CORDON_VERDICTS(V) \
	V(ALLOW, "allow")  \
	V(DENY, "deny")    \
	V(WOULD_DENY, "would_deny")

/* O(ENUM, type, name, doc) - the `op` of an event; the type is a CORDON_TYPES enum. */
#define CORDON_OPS(O)                                                                         \
	O(OPEN_READ, FILE, "open_read", "open a file or directory for reading")               \
	O(OPEN_WRITE, FILE, "open_write", "open a file for writing or with O_TRUNC")          \
	O(MKDIR, FILE, "mkdir", "create a directory")                                         \
	O(MKNOD, FILE, "mknod", "create a file, fifo, socket or device node")                 \
	O(SYMLINK, FILE, "symlink", "create a symbolic link")                                 \
	O(LINK, FILE, "link", "create a hard link")                                           \
	O(UNLINK, FILE, "unlink", "remove a name")                                            \
	O(RMDIR, FILE, "rmdir", "remove a directory")                                         \
	O(RENAME, FILE, "rename", "rename or exchange names")                                 \
	O(TRUNCATE, FILE, "truncate", "change the size of a file")                            \
	O(CHMOD, FILE, "chmod", "change the mode")                                            \
	O(CHOWN, FILE, "chown", "change owner or group")                                      \
	O(UTIMES, FILE, "utimes", "change the time stamps")                                   \
	O(SETATTR, FILE, "setattr", "change other inode attributes")                          \
	O(SETXATTR, FILE, "setxattr", "set an extended attribute or ACL")                     \
	O(REMOVEXATTR, FILE, "removexattr", "remove an extended attribute or ACL")            \
	O(IOCTL, FILE, "ioctl", "change inode flags by ioctl")                                \
	O(MOUNT, FILE, "mount", "mount, move, remount, unmount or pivot")                     \
	O(EXEC, FILE, "exec", "execute a file, or load it as interpreter")                    \
	O(MMAP, FILE, "mmap", "map a file")                                                   \
	O(MPROTECT, FILE, "mprotect", "change what may be done with a mapped file")           \
	O(READ, FILE, "read", "read by a descriptor from before the fence")                   \
	O(WRITE, FILE, "write", "write by a descriptor from before the fence")                \
	O(LOCK, FILE, "lock", "lock a file, or take a lease on it")                           \
	O(RECEIVE, FILE, "receive", "take a descriptor from another process")                 \
	O(SOCKET, NET, "socket", "create a socket")                                           \
	O(CONNECT, NET, "connect", "connect a socket")                                        \
	O(SENDMSG, NET, "sendmsg", "send on a socket")                                        \
	O(PACKET, NET, "packet", "a packet leaves the fence")                                 \
	O(INBOUND, NET, "inbound", "a connection or datagram comes in from outside")          \
	O(CONFIGURE, NET, "configure", "change addresses, routes, links or filters")          \
	O(PTRACE, GUARD, "ptrace", "inspect or control another process")                      \
	O(SIGNAL, GUARD, "signal", "send a signal to another process")                        \
	O(BPF, GUARD, "bpf", "use the bpf() system call")                                     \
	O(CGROUP_MOVE, GUARD, "cgroup_move", "place a new task in another cgroup")            \
	O(CAPABLE, GUARD, "capable", "use a capability over the host")                        \
	O(CONTROL, GUARD, "control", "change another process: priority, affinity, limits")    \
	O(PERF, GUARD, "perf", "count or trace events of the kernel or of processes")         \
	O(MODULE, GUARD, "module", "have the kernel load a module")                           \
	O(KEY, GUARD, "key", "use a key or keyring")                                          \
	O(IPC, GUARD, "ipc", "use a SysV IPC object that processes outside share")            \
	O(USERFAULTFD, GUARD, "userfaultfd", "handle page faults in user space")              \
	O(INHERIT, GUARD, "inherit", "give a new task its parent's fence")                    \
	O(CREDENTIALS, GUARD, "credentials", "act under credentials kept in an io_uring")     \
	O(CPU, LIMIT, "cpu", "the tasks had to wait for processor time")                      \
	O(MEMORY, LIMIT, "memory", "memory did not suffice; tasks were killed")               \
	O(PIDS, LIMIT, "pids", "a task was not made")                                         \
	O(TIME, LIMIT, "time", "the time is over; everything was killed")                     \
	O(OUTPUT, LIMIT, "output", "write to a file, or to standard output or error")         \
	O(UPLOAD, LIMIT, "upload", "send to somebody outside the fence")                      \
	O(START, FENCE, "start", "the fence exists")                                          \
	O(ENFORCING, FENCE, "enforcing", "the self-test from inside was denied")              \
	O(ENTER, FENCE, "enter", "a process that was not born inside entered the fence")      \
	O(HOLDS, FENCE, "holds", "a process held from before what the policy denies")         \
	O(COLD_START, FENCE, "cold_start", "time from exec of cordon to that of the command") \
	O(BROKEN, FENCE, "broken", "a program of the fence is gone; its network is shut")     \
	O(EXIT, FENCE, "exit", "the command ended")                                           \
	O(END, FENCE, "end", "the fence is gone")                                             \
	O(RELOAD, FENCE, "reload", "another policy is in force")                              \
	O(ADOPT, FENCE, "adopt", "cordond was started again and took the fence over")         \
	O(STEER, GUARD, "steer", "speak to cordond's control socket")                         \
	O(CALL, GATEWAY, "call", "a tool of the gateway was called")                          \
	O(APPROVAL, GATEWAY, "approval", "a human decided about a held call")                 \
	O(GRANT, GATEWAY, "grant", "a grant was issued, renewed or revoked")                  \
	O(SETTLE, GATEWAY, "settle", "a call whose outcome was not known was settled")        \
	O(GAP, LOSS, "gap", "events of this fence were lost; `count` says how many")          \
	O(LAG, LOSS, "lag", "this reader was too slow, and missed `count` events")            \
	O(SINK_GAP, LOSS, "sink_gap", "`count` events did not fit into the sink `sink`")      \
	O(DENY_RATE, LIMIT, "deny_rate", "a fence was denied too much within a while")        \
	O(DESTRUCTIVE, LIMIT, "destructive", "a subject destroyed too much within a while")   \
	O(UPGRADE, FENCE, "upgrade", "programs of another build took over")                   \
	O(OLD_SET, FENCE, "old_set", "a new build's programs were refused; the old enforce")  \
	O(REACH, GATEWAY, "reach", "somebody was asked for by name, through the proxy")       \
	O(REACHED, GATEWAY, "reached", "a connection through the proxy ended")                \
	O(RESOLVE, GATEWAY, "resolve", "a name was asked for, of the resolver")

/*
 * R(ENUM, verdict, name, doc) - the `rule` of an event: the policy line that decided. The verdict
 * column is what the rule means in enforce mode: ALLOW or DENY.
 */
#define CORDON_RULES(R)                                                                           \
	R(NONE, ALLOW, "none", "no rule: a lifecycle fact, not a decision")                       \
	R(UNFENCED, ALLOW, "unfenced", "the task is in no fence")                                 \
	R(FILES_WRITE, DENY, "files.write",                                                       \
	  "writing is allowed in workdir, private and write only")                                \
	R(FILES_WRITE_OK, ALLOW, "files.write", "the object is inside a writable root")           \
	R(FILES_READ_DENY, DENY, "files.read.deny", "the object is, or is below, a denied root")  \
	R(FILES_READ_OK, ALLOW, "files.read", "no rule denies reading")                           \
	R(FILES_READ_ALLOW, DENY, "files.read.allow", "the object is below none of read.allow")   \
	R(FILES_EXEC_DENY, DENY, "files.exec.deny", "the object is, or is below, a denied root")  \
	R(FILES_EXEC_ALLOW, DENY, "files.exec.allow", "the object is below none of exec.allow")   \
	R(FILES_EXEC_OK, ALLOW, "files.exec", "no rule denies executing")                         \
	R(FILES_DEVICE, DENY, "files.device", "a device node that no program needs")              \
	R(FILES_DEVICE_OK, ALLOW, "files.device", "a device node that every program needs")       \
	R(FILES_MOUNT, DENY, "files.mount", "mounts are not changed from inside a fence")         \
	R(FILES_TERMINAL, DENY, "files.terminal",                                                 \
	  "terminals of others are shut, none is typed into")                                     \
	R(FILES_DESCRIPTOR, DENY, "files.descriptor",                                             \
	  "a descriptor that acts for others, io_uring or BPF, is not taken")                     \
	R(NET_GATEWAY, ALLOW, "network.gateway", "the gateway")                                   \
	R(NET_ALLOW, ALLOW, "network.allow", "an exception in network.allow")                     \
	R(NET_DEFAULT, DENY, "network.default", "no rule allows this address and port")           \
	R(NET_METADATA, DENY, "network.metadata", "the metadata service is always shut")          \
	R(NET_FAMILY, DENY, "network.family", "socket family, type or protocol not on the list")  \
	R(NET_FAMILY_OK, ALLOW, "network.family", "socket family on the list")                    \
	R(NET_LOOPBACK, DENY, "network.loopback", "loopback reaches this fence's listeners only") \
	R(NET_LOOPBACK_OK, ALLOW, "network.loopback",                                             \
	  "a listener of this fence, or loopback is open")                                        \
	R(NET_UNIX, DENY, "network.unix",                                                         \
	  "the listener is outside the fence and not in network.unix")                            \
	R(NET_UNIX_OK, ALLOW, "network.unix", "a listener of this fence, or one in network.unix") \
	R(NET_CGROUP, DENY, "network.cgroup", "the task left its fence's cgroup")                 \
	R(NET_DNS, DENY, "network.dns", "there is no resolver that this socket could reach")      \
	R(NET_DNS_OK, ALLOW, "network.dns", "the resolver of network.dns")                        \
	R(NET_DNS_ANY, ALLOW, "network.dns", "any resolver: led to that of network.dns")          \
	R(NET_LISTEN, DENY, "network.listen", "only ports of network.listen are for others")      \
	R(NET_LISTEN_OK, ALLOW, "network.listen", "the answer of a port in network.listen")       \
	R(NET_CONFIG, DENY, "network.config", "networks are not configured from inside")          \
	R(GUARD_PTRACE, DENY, "guard.ptrace", "the target is outside the fence")                  \
	R(GUARD_SIGNAL, DENY, "guard.signal", "the target is outside the fence")                  \
	R(GUARD_BPF, DENY, "guard.bpf", "bpf() is not for fenced tasks")                          \
	R(GUARD_CREDENTIALS, DENY, "guard.credentials",                                           \
	  "personalities of io_uring are not used inside a fence")                                \
	R(GUARD_CGROUP, DENY, "guard.cgroup", "tasks are not placed in cgroups from inside")      \
	R(GUARD_CAPABILITY, DENY, "guard.capability",                                             \
	  "capabilities that reach beyond files and own processes do not count")                  \
	R(GUARD_PROCESS, DENY, "guard.process", "the target is outside the fence")                \
	R(GUARD_KERNEL, DENY, "guard.kernel", "interfaces of the kernel that no program needs")   \
	R(GUARD_KEY, DENY, "guard.key", "keyrings are shared with processes outside")             \
	R(GUARD_IPC, DENY, "guard.ipc",                                                           \
	  "SysV IPC of the host, or of a namespace with processes outside")                       \
	R(GUARD_STATE, DENY, "guard.state", "the fence's state is missing, full or ended")        \
	R(LIMIT_CPU, DENY, "limits.cpu", "all tasks together use as much as they may")            \
	R(LIMIT_MEMORY, DENY, "limits.memory", "all tasks together need more than they may")      \
	R(LIMIT_PIDS, DENY, "limits.pids", "there are as many tasks as may be")                   \
	R(LIMIT_TIME, DENY, "limits.time", "the fence has had the time that it may")              \
	R(LIMIT_OUTPUT, DENY, "limits.output", "the fence has written as much as it may")         \
	R(LIMIT_UPLOAD, DENY, "limits.upload", "the fence has sent as much as it may")            \
	R(GW_OK, ALLOW, "gateway.allow", "nothing speaks against it")                             \
	R(GW_IDENTITY, DENY, "gateway.identity", "the caller is no fence that lives")             \
	R(GW_REQUEST, DENY, "gateway.request", "the request does not fit the tool, or no tool")   \
	R(GW_TENANT, DENY, "gateway.tenant", "tenant of caller, request and object differ")       \
	R(GW_SCOPE, DENY, "gateway.scope", "the fence does not hold the tool's scope")            \
	R(GW_GRANT, DENY, "gateway.grant", "the grant does not verify or does not cover it")      \
	R(GW_OBJECT, DENY, "gateway.object", "there is no such object")                           \
	R(GW_AMOUNT, DENY, "gateway.amount", "not positive, or more than remains")                \
	R(GW_QUOTA, DENY, "gateway.quota", "more than a call or a day may move")                  \
	R(GW_APPROVAL, DENY, "gateway.approval", "a human has to approve, or denied")             \
	R(GW_KEY, DENY, "gateway.idempotency", "the key is in use, or another request's")         \
	R(GW_EXECUTION, DENY, "gateway.execution", "it was allowed, and did not come about")      \
	R(GW_DOMAIN, DENY, "gateway.domain", "network.domains lacks the name or the port")        \
	R(GW_ADDRESS, DENY, "gateway.address", "the name leads where nobody may be reached")      \
	R(GW_UPLOAD, DENY, "gateway.upload", "the fence has sent as much as limits.upload says")  \
	R(GW_CANARY, DENY, "gateway.canary", "a placeholder for a credential was on its way out") \
	R(GW_STATE, DENY, "gateway.state", "the decision could not be recorded")                  \
	R(ALERT_DENY_RATE, ALLOW, "alert.deny_rate", "denials of one fence in the window")        \
	R(ALERT_DESTRUCTIVE, ALLOW, "alert.destructive", "destructive calls of one subject")

/*
 * S(ENUM, name, doc) - why something could not be done or reported; counted per fence in the
 * kernel.
 */
#define CORDON_FAULTS(S)                                                                           \
	S(RING_FULL, "ring_full", "the ring buffer had no room for an event")                      \
	S(REPORT, "report", "the program that writes events did not run, or its space was in use") \
	S(INHERIT, "inherit", "a new task could not be given its fence; it was not created")       \
	S(ENTER, "enter", "a task that entered the cgroup could not be marked")                    \
	S(WALK_BOUND, "walk_bound", "a path was deeper than the bound; denied")                    \
	S(SOCKET_MARK, "socket_mark", "a socket could not be marked; it was not created")

/*
 * F(type, member, dim, doc) - the members of struct cordon_event, in order. What is published of
 * them, and how, is the table after this one.
 */
#define CORDON_EVENT_FIELDS(F)                                                                  \
	F(__u64, seq, , "number of the event in its fence, from 1, without holes")              \
	F(__u64, mono_ns, , "CLOCK_MONOTONIC, ns")                                              \
	F(__u64, lost, , "numbered in this fence but not delivered, so far; feeds gap records") \
	F(__u64, fence_id, , "fence, unique on the node for ever")                              \
	F(__u64, cgroup, , "cgroup id of the task")                                             \
	F(__u64, start_ns, , "start of the process since boot, ns")                             \
	F(__u64, parent_start_ns, , "the same of the parent")                                   \
	F(__u64, ino, , "inode number of the object, or of the parent it goes into")            \
	F(__u32, generation, , "policy generation that decided")                                \
	F(__s32, err, , "errno given to the caller, positive; 0 for none")                      \
	F(__u32, count, , "how many like it this record stands for")                            \
	F(__u32, pid, , "process id in the initial namespace; 0: no process acted")             \
	F(__u32, pid_ns, , "process id in its own namespace")                                   \
	F(__u32, tid, , "thread id in the initial namespace")                                   \
	F(__u32, ppid, , "parent process id, initial namespace")                                \
	F(__u32, uid, , "user id, initial namespace")                                           \
	F(__u32, gid, , "group id, initial namespace")                                          \
	F(__u32, exec_seq, , "count of execs of the process")                                   \
	F(__u32, parent_exec_seq, , "the same of the parent")                                   \
	F(__u32, dev, , "device of the object's file system, as the kernel encodes it")         \
	F(__u32, op_flags, ,                                                                    \
	  "open: f_flags; rename: flags; mknod: mode; ioctl: request; "                         \
	  "ptrace: mode; signal: number; socket: type; capable: number")                        \
	F(__u32, target_pid, , "process that was the target, initial namespace")                \
	F(__u16, dport, , "destination port, host byte order")                                  \
	F(__u16, sport, , "source port, host byte order")                                       \
	F(__u16, family, , "AF_*; 0: nothing of a socket is known")                             \
	F(__u16, proto, , "IPPROTO_*")                                                          \
	F(__u16, path_len, , "bytes of the path in names")                                      \
	F(__u16, path2_len, , "bytes of the second path in names")                              \
	F(__u16, exe_len, , "bytes of the executable's path in names")                          \
	F(__u16, unix_len, , "bytes of the unix socket's name in names")                        \
	F(__u8, type, , "enum cordon_type")                                                     \
	F(__u8, op, , "enum cordon_op")                                                         \
	F(__u8, verdict, , "enum cordon_verdict")                                               \
	F(__u8, rule, , "enum cordon_rule")                                                     \
	F(__u8, mode, , "enum cordon_mode")                                                     \
	F(__u8, net_flags, , "CORDON_NET_*")                                                    \
	F(__u8, path_flags, , "CORDON_PATH_*")                                                  \
	F(__u8, path2_flags, , "CORDON_PATH_* of the second path")                              \
	F(__u8, dst, [16], "destination address; IPv4 in the last four bytes")                  \
	F(__u8, src, [16], "source address, likewise; with CORDON_NET_SRC")                     \
	F(char, comm, [16], "name that the process gave itself")

/*
 * K(GROUP, key, KIND, source, NEED, doc) - the keys of a published event, in the order in which
 * they are written. GROUP: the object that the key lies in; EVENT is the outermost. KIND: the form
 * of the value, explained by CORDON_EVENT_KINDS. source: where the writer takes it from (raw:
 * struct cordon_event; event and context: the structs of user/event/event.h). NEED: ALWAYS: in
 * every event that has the object, null where it is not known; KERNEL: the same, but only in events
 * of the kernel; SET: only where there is something to say.
 */
#define CORDON_EVENT_KEYS(K)                                                                       \
	K(EVENT, schema, SCHEMA, EVENT_SCHEMA, ALWAYS, "name and version of this schema")          \
	K(EVENT, node, CONTEXT, context->node, ALWAYS, "host name of the node")                    \
	K(EVENT, seq, UINT, raw->seq, ALWAYS,                                                      \
	  "number of the event in its fence: from 1, without holes; of a gateway's where cordond " \
	  "does not keep the fence: in cordond's front or in the gateway, since its start")        \
	K(EVENT, time, TIME, event->time_ns, ALWAYS,                                               \
	  "when it was decided, by the wall clock, UTC")                                           \
	K(EVENT, mono_ns, UINT, raw->mono_ns, ALWAYS,                                              \
	  "the same by CLOCK_MONOTONIC, ns since boot")                                            \
	K(EVENT, type, TYPE, raw->type, ALWAYS, "kind of fact")                                    \
	K(EVENT, op, OP, raw->op, ALWAYS, "what was tried, or what happened")                      \
	K(EVENT, verdict, VERDICT, raw->verdict, ALWAYS, "what was answered")                      \
	K(EVENT, rule, RULE, raw->rule, ALWAYS, "policy line that decided")                        \
	K(FENCE, id, HEX64, raw->fence_id, ALWAYS, "the fence; unique on the node for ever")       \
	K(FENCE, name, CONTEXT, context->fence_name, ALWAYS, "its name")                           \
	K(FENCE, policy, CONTEXT, context->policy, ALWAYS, "name of its policy")                   \
	K(FENCE, generation, UINT, raw->generation, ALWAYS,                                        \
	  "generation of the policy that decided")                                                 \
	K(FENCE, mode, MODE, raw->mode, ALWAYS, "whether the policy is enforced or only reported") \
	K(FENCE, task, CONTEXT, context->task, ALWAYS, "task id given when the fence was made")    \
	K(FENCE, tenant, CONTEXT, context->tenant, ALWAYS, "tenant given when the fence was made") \
	K(FENCE, subject, CONTEXT, context->subject, ALWAYS,                                       \
	  "user on whose behalf the fence acts")                                                   \
	K(FENCE, container, CONTEXT, context->container, ALWAYS, "container that the fence holds") \
	K(FENCE, degraded, DEGRADED, context->degraded, SET, "what this fence cannot enforce")     \
	K(EVENT, errno, ERRNO, raw->err, KERNEL, "error that the caller got; null for none")       \
	K(EVENT, count, UINT, raw->count, SET,                                                     \
	  "for how many of its operation, rule and verdict this event stands; of a gap: how many " \
	  "were lost")                                                                             \
	K(EVENT, exit_code, EXIT_CODE, event->value, SET,                                          \
	  "op `exit`: code of the command, 128+N after signal N")                                  \
	K(EVENT, cold_start_ns, COLD_START, event->value, SET,                                     \
	  "op `cold_start`: from exec of cordon to that of the command, ns")                       \
	K(EVENT, sink, DETAIL, event->sink, SET, "op `sink_gap`: name of the sink")                \
	K(EVENT, first, WHEN, event->first_ns, SET,                                                \
	  "op `sink_gap` and alerts: time of the first event that is counted; op `lag` of a "      \
	  "reader that had no cordond: since when")                                                \
	K(EVENT, last, WHEN, event->last_ns, SET, "the same of the last")                          \
	K(EVENT, detail, DETAIL, event->detail, SET, "a line for people")                          \
	K(PROCESS, pid, UINT, raw->pid, ALWAYS, "process id in the initial namespace")             \
	K(PROCESS, pid_ns, UINT, raw->pid_ns, ALWAYS, "process id in its own namespace")           \
	K(PROCESS, tid, UINT, raw->tid, ALWAYS, "thread id in the initial namespace")              \
	K(PROCESS, ppid, UINT, raw->ppid, ALWAYS, "process id of the parent, initial namespace")   \
	K(PROCESS, uid, UINT, raw->uid, ALWAYS, "real user id, initial namespace")                 \
	K(PROCESS, gid, UINT, raw->gid, ALWAYS, "real group id, initial namespace")                \
	K(PROCESS, comm, COMM, raw->comm, ALWAYS,                                                  \
	  "name that the process gave itself: no proof of anything")                               \
	K(PROCESS, exe, BYTES, event->exe, ALWAYS, "path of the executable")                       \
	K(PROCESS, exec_id, EXEC_ID, raw->start_ns, ALWAYS,                                        \
	  "the process between two execs; unique until reboot")                                    \
	K(PROCESS, parent_exec_id, PARENT_EXEC_ID, raw->parent_start_ns, ALWAYS,                   \
	  "the same of the parent")                                                                \
	K(PROCESS, cgroup, DEC64, raw->cgroup, ALWAYS,                                             \
	  "cgroup id of the task, which need not be the fence's")                                  \
	K(FILE, flags, FILE_FLAGS, raw->op_flags, SET,                                             \
	  "flags of the operation: of open, rename, mknod or ioctl")                               \
	K(FILE, path, BYTES, event->path, ALWAYS,                                                  \
	  "path of the object reached, not the text that was asked for")                           \
	K(FILE, path_truncated, TRUNCATED, raw->path_flags, SET,                                   \
	  "leading directories of path are missing")                                               \
	K(FILE, path_disconnected, DISCONNECTED, raw->path_flags, SET,                             \
	  "path does not begin at the root of the namespace")                                      \
	K(FILE, path2, BYTES, event->path2, SET, "second path: the new name of link and rename")   \
	K(FILE, path2_truncated, TRUNCATED, raw->path2_flags, SET, "the same of path2")            \
	K(FILE, path2_disconnected, DISCONNECTED, raw->path2_flags, SET, "the same of path2")      \
	K(FILE, dev, DEV, raw->dev, SET, "device of the file system, major:minor")                 \
	K(FILE, ino, DEC64, raw->ino, SET,                                                         \
	  "inode number of the object, or of the directory it goes into")                          \
	K(NET, family, FAMILY, raw->family, ALWAYS, "family of the socket")                        \
	K(NET, proto, PROTO, raw->proto, SET, "IP protocol")                                       \
	K(NET, socket_type, SOCKET_TYPE, raw->op_flags, SET,                                       \
	  "op `socket`: type that was asked for")                                                  \
	K(NET, dst, DST, raw->dst, SET,                                                            \
	  "destination address; IPv4 as IPv4, however it was spelled")                             \
	K(NET, dport, DPORT, raw->dport, SET, "destination port")                                  \
	K(NET, src, SRC, raw->src, SET, "source address")                                          \
	K(NET, sport, SPORT, raw->sport, SET, "source port")                                       \
	K(NET, unix, BYTES, event->unix_name, SET,                                                 \
	  "name of the unix socket; an abstract one begins with \\x00")                            \
	K(NET, mapped, MAPPED, raw->net_flags, SET, "the address was spelled as IPv4 in IPv6")     \
	K(NET, metadata, METADATA, raw->net_flags, SET,                                            \
	  "the address is, or embeds, the metadata service")                                       \
	K(GUARD, target_pid, UINT, raw->target_pid, SET,                                           \
	  "process that was the target, initial namespace")                                        \
	K(GUARD, signal, SIGNAL, raw->op_flags, SET, "op `signal`: which")                         \
	K(GUARD, access, PTRACE, raw->op_flags, SET, "op `ptrace`: mode that was asked for")       \
	K(GUARD, capability, CAPABILITY, raw->op_flags, SET, "op `capable`: which")                \
	K(GATEWAY, tool, CONTEXT, event->gateway->tool, ALWAYS, "name of the tool")                \
	K(GATEWAY, action, CONTEXT, event->gateway->action, ALWAYS,                                \
	  "what was tried: method and path, or what was done about a call, approval or grant")     \
	K(GATEWAY, object, CONTEXT, event->gateway->object, ALWAYS, "object of the action")        \
	K(GATEWAY, amount, AMOUNT, event->gateway, ALWAYS, "amount in minor units")                \
	K(GATEWAY, scope, CONTEXT, event->gateway->scope, ALWAYS, "scope that the tool asks for")  \
	K(GATEWAY, grant, CONTEXT, event->gateway->grant, ALWAYS, "id of the grant")               \
	K(GATEWAY, idempotency_key, CONTEXT, event->gateway->key, ALWAYS, "key of the call")       \
	K(GATEWAY, reason, CONTEXT, event->gateway->reason, ALWAYS,                                \
	  "code of the answer, and more about it after a colon")                                   \
	K(GATEWAY, status, NUMBER, event->gateway->status, ALWAYS, "HTTP status of the answer")    \
	K(GATEWAY, approval, CONTEXT, event->gateway->approval, ALWAYS, "id of the approval")      \
	K(GATEWAY, upstream_status, NUMBER, event->gateway->upstream_status, ALWAYS,               \
	  "HTTP status of the upstream's answer")                                                  \
	K(GATEWAY, latency_us, NUMBER, event->gateway->latency_us, ALWAYS,                         \
	  "from the request to its answer, us")                                                    \
	K(GATEWAY, address, CONTEXT, event->gateway->address, SET,                                 \
	  "ops `reach` and `reached`: address and port that the name led to")                      \
	K(GATEWAY, up_bytes, COUNTED, event->gateway->up_bytes, SET,                               \
	  "op `reached`: bytes that went to that address")                                         \
	K(GATEWAY, down_bytes, COUNTED, event->gateway->down_bytes, SET,                           \
	  "op `reached`: bytes that came from there")                                              \
	K(GATEWAY, by, CONTEXT, event->gateway->by, SET, "who decided or did it, if not a fence")  \
	K(GATEWAY, destructive, FLAG, event->gateway->destructive, SET,                            \
	  "it was done, by a tool whose declaration says `destructive`")                           \
	K(GATEWAY, digest, CONTEXT, event->gateway->digest, SET,                                   \
	  "SHA-256 of the canonical request")                                                      \
	K(GATEWAY, record, UINT, event->gateway->record, SET,                                      \
	  "number of the ledger's record of this decision, in this gateway's chain")               \
	K(GATEWAY, record_hash, CONTEXT, event->gateway->record_hash, SET, "hash of that record")

/* G(GROUP, key, doc) - the objects in an event. */
#define CORDON_EVENT_GROUPS(G)                                                       \
	G(EVENT, "", "in every event")                                               \
	G(FENCE, "fence", "in every event: whose it is")                             \
	G(PROCESS, "process", "who acted; absent where no process of the fence did") \
	G(FILE, "file", "with type `file`; with `limit`, where it is about a file")  \
	G(NET, "net", "with type `net`; with `limit`, where it is about a socket")   \
	G(GUARD, "guard", "with type `guard`")                                       \
	G(GATEWAY, "gateway", "with type `gateway`")

/*
 * D(KIND, type, null, pattern, doc) - forms of a value: its JSON type, whether it can be unknown
 * (null), an extended regular expression or "", and in words.
 */
#define CORDON_EVENT_KINDS(D)                                                                     \
	D(SCHEMA, "string", 0, "", "constant")                                                    \
	D(CONTEXT, "string", 1, "", "text")                                                       \
	D(DEGRADED, "string", 0, "", "text")                                                      \
	D(DETAIL, "string", 0, "", "text")                                                        \
	D(UINT, "integer", 0, "", "number")                                                       \
	D(EXIT_CODE, "integer", 0, "", "number")                                                  \
	D(COLD_START, "integer", 0, "", "number")                                                 \
	D(COUNTED, "integer", 0, "", "number")                                                    \
	D(NUMBER, "integer", 1, "", "number")                                                     \
	D(AMOUNT, "integer", 1, "", "number, may be negative")                                    \
	D(DPORT, "integer", 0, "", "number")                                                      \
	D(SPORT, "integer", 0, "", "number")                                                      \
	D(HEX64, "string", 0, "^[0-9a-f]{16}$", "16 hexadecimal digits")                          \
	D(DEC64, "string", 0, "^(0|[1-9][0-9]{0,19})$", "decimal digits, as a string")            \
	D(TIME, "string", 0,                                                                      \
	  "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{9}Z$",                  \
	  "RFC 3339 with nanoseconds")                                                            \
	D(WHEN, "string", 0,                                                                      \
	  "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{9}Z$", "as `time`")     \
	D(TYPE, "string", 0, "", "word")                                                          \
	D(OP, "string", 0, "", "word")                                                            \
	D(VERDICT, "string", 0, "", "word")                                                       \
	D(RULE, "string", 0, "", "word")                                                          \
	D(MODE, "string", 1, "", "word")                                                          \
	D(ERRNO, "string", 1, "^E[A-Z0-9]+$", "name, `EROFS`")                                    \
	D(COMM, "string", 0, "", "text")                                                          \
	D(BYTES, "string", 1, "", "text")                                                         \
	D(EXEC_ID, "string", 1, "^[0-9a-f]{1,16}-[0-9]{1,10}$",                                   \
	  "start in ns since boot, hexadecimal, and the count of execs")                          \
	D(PARENT_EXEC_ID, "string", 1, "^[0-9a-f]{1,16}-[0-9]{1,10}$", "as exec_id")              \
	D(TRUNCATED, "boolean", 0, "", "`true`")                                                  \
	D(DISCONNECTED, "boolean", 0, "", "`true`")                                               \
	D(MAPPED, "boolean", 0, "", "`true`")                                                     \
	D(METADATA, "boolean", 0, "", "`true`")                                                   \
	D(FLAG, "boolean", 0, "", "`true`")                                                       \
	D(DEV, "string", 0, "^[0-9]+:[0-9]+$", "major:minor, as ls(1) prints them")               \
	D(FILE_FLAGS, "string", 0, "^[A-Za-z0-9_|]+$", "names joined by `|`, `O_WRONLY|O_CREAT`") \
	D(SOCKET_TYPE, "string", 0, "^[A-Za-z0-9_|]+$", "names joined by `|`, `SOCK_STREAM`")     \
	D(SIGNAL, "string", 0, "^SIG[A-Z0-9+]+$", "name, `SIGKILL`")                              \
	D(PTRACE, "string", 0, "^[A-Za-z0-9_|]+$", "names joined by `|`, `PTRACE_MODE_ATTACH`")   \
	D(CAPABILITY, "string", 0, "^CAP_[A-Z0-9_]+$", "name, `CAP_SYS_ADMIN`")                   \
	D(FAMILY, "string", 0, "^[a-z0-9]+$",                                                     \
	  "`inet`, `inet6`, `unix`...; a number where it has no name here")                       \
	D(PROTO, "string", 0, "^[a-z0-9-]+$",                                                     \
	  "`tcp`, `udp`, `icmp`...; a number where it has no name here")                          \
	D(DST, "string", 0, "^[0-9a-f:.]+$", "canonical text of inet_ntop(3)")                    \
	D(SRC, "string", 0, "^[0-9a-f:.]+$", "canonical text of inet_ntop(3)")

#endif
