// SPDX-License-Identifier: GPL-2.0
/*
 * The enforcer: all programs that decide. They are attached all or none, on every hook of include/cordon/hooks.h.
 *
 * Files:     file_open, path_*, file_truncate, file_lock, file_receive, inode_setattr, inode_*xattr, inode_*_acl, file_ioctl, sb_*, move_mount
 * Network:   socket_create/connect/sendmsg, unix_*, sctp_bind_connect, netlink_send; cgroup connect4/6, sendmsg4/6,
 *            recvmsg4/6, getpeername4/6, sock_create, egress, ingress
 * Peer:      cgroup sockops, entry of security_unix_stream_connect; they tell the gateway who calls
 * Guard:     ptrace_access_check, task_kill, file_fcntl, bpf
 * Identity:  task_alloc, bprm_check_security, cgroup_attach_task, task_newtask; iterators for the loader
 * Events:    the reporters, which all others call (event.bpf.h); fold_flush, which the loader runs (fold.bpf.h)
 *
 * Each LSM body also runs as fmod_ret on the security_*() function of its hook, where `bpf` is not in the kernel's
 * LSM list; the loader changes the type before it loads. Not covered yet: docs/limits.md says.
 */
#include "file.bpf.h"
#include "guard.bpf.h"
#include "held.bpf.h"
#include "ioctl.bpf.h"
#include "mount.bpf.h"
#include "net.bpf.h"
#include "netin.bpf.h"
#include "peer.bpf.h"
#include "receive.bpf.h"

char LICENSE[] SEC("license") = "GPL";
