/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The kernel programs, a row each. The loader attaches exactly these, in this order, or none; the self-test proves
 * each LSM row from inside the fence.
 *
 * L(program, hook, security, nargs, optional) - body of an LSM hook. Attached to lsm/HOOK where `bpf` is in the
 * kernel's LSM list, else as fmod_ret to security_SECURITY. A row counts for a kernel whose function has NARGS
 * arguments; of several rows for one hook exactly one must fit. optional: 1, the kernel may lack the hook, because an
 * older one (named in the comment) does its work; 2, attached only while a fence needs it (enforce_demand()).
 * C(program, attach_type) - cgroup programs, attached to each fence's cgroup.
 * T(program, tracepoint) - BTF tracepoints, through which tasks enter.
 * E(program, function) - attached to the entry of a kernel function: the reporters (bpf/event.bpf.h), and who connects
 *   over unix sockets (bpf/peer.bpf.h).
 */
#ifndef CORDON_HOOKS_H
#define CORDON_HOOKS_H

#define CORDON_LSM_HOOKS(L)                                                        \
	/* identity */                                                             \
	L(fence_task_alloc, task_alloc, task_alloc, 2, 0)                          \
	L(fence_bprm_check, bprm_check_security, bprm_check, 1, 0)                 \
	/* files */                                                                \
	L(file_open, file_open, file_open, 1, 0)                                   \
	L(file_create_as, dentry_create_files_as, dentry_create_files_as, 5, 0)    \
	L(file_uring_creds, uring_override_creds, uring_override_creds, 1, 0)      \
	L(file_receive, file_receive, file_receive, 1, 0)                          \
	L(file_permission, file_permission, file_permission, 2, 2)                 \
	L(file_mmap, mmap_file, mmap_file, 4, 2)                                   \
	L(file_mmap3, mmap_file, mmap_file, 3, 2)                                  \
	L(file_mprotect, file_mprotect, file_mprotect, 3, 2)                       \
	L(file_uring_cmd, uring_cmd, uring_cmd, 1, 2)                              \
	L(file_inode_create, inode_create, inode_create, 3, 0)                     \
	L(file_inode_unlink, inode_unlink, inode_unlink, 2, 0)                     \
	L(file_path_mkdir, path_mkdir, path_mkdir, 3, 0)                           \
	L(file_path_mknod, path_mknod, path_mknod, 4, 0)                           \
	L(file_path_symlink, path_symlink, path_symlink, 3, 0)                     \
	L(file_path_link, path_link, path_link, 3, 0)                              \
	L(file_path_unlink, path_unlink, path_unlink, 2, 0)                        \
	L(file_path_rmdir, path_rmdir, path_rmdir, 2, 0)                           \
	L(file_path_rename, path_rename, path_rename, 5, 0)                        \
	L(file_path_truncate, path_truncate, path_truncate, 1, 0)                  \
	L(file_truncate, file_truncate, file_truncate, 1, 1) /* path_truncate */   \
	L(file_lock, file_lock, file_lock, 2, 0)                                   \
	L(file_path_chmod, path_chmod, path_chmod, 2, 0)                           \
	L(file_path_chown, path_chown, path_chown, 3, 0)                           \
	L(file_inode_setattr, inode_setattr, inode_setattr, 3, 0)                  \
	L(file_inode_setattr2, inode_setattr, inode_setattr, 2, 0)                 \
	L(file_inode_setxattr, inode_setxattr, inode_setxattr, 6, 0)               \
	L(file_inode_removexattr, inode_removexattr, inode_removexattr, 3, 0)      \
	L(file_inode_set_acl, inode_set_acl, inode_set_acl, 4, 1) /* setxattr */   \
	L(file_inode_remove_acl, inode_remove_acl, inode_remove_acl, 3, 1)         \
	L(file_inode_file_setattr, inode_file_setattr, inode_file_setattr, 2, 1)   \
	L(file_ioctl, file_ioctl, file_ioctl, 3, 0)                                \
	L(file_ioctl_compat, file_ioctl_compat, file_ioctl_compat, 3, 1)           \
	L(file_sb_mount, sb_mount, sb_mount, 5, 0)                                 \
	L(file_sb_umount, sb_umount, sb_umount, 2, 0)                              \
	L(file_sb_pivotroot, sb_pivotroot, sb_pivotroot, 2, 0)                     \
	L(file_move_mount, move_mount, move_mount, 2, 0)                           \
	L(file_fs_param, fs_context_parse_param, fs_context_parse_param, 2, 0)     \
	/* network */                                                              \
	L(net_socket_create, socket_create, socket_create, 4, 0)                   \
	L(net_socket_connect, socket_connect, socket_connect, 3, 0)                \
	L(net_socket_sendmsg, socket_sendmsg, socket_sendmsg, 3, 0)                \
	L(net_unix_stream_connect, unix_stream_connect, unix_stream_connect, 3, 0) \
	L(net_unix_may_send, unix_may_send, unix_may_send, 2, 0)                   \
	L(net_netlink_send, netlink_send, netlink_send, 2, 0)                      \
	L(net_setsockopt, socket_setsockopt, socket_setsockopt, 3, 0)              \
	L(net_sctp_bind_connect, sctp_bind_connect, sctp_bind_connect, 4, 0)       \
	/* other processes, the kernel, Cordon */                                  \
	L(guard_ptrace, ptrace_access_check, ptrace_access_check, 2, 0)            \
	L(guard_traceme, ptrace_traceme, ptrace_traceme, 1, 0)                     \
	L(guard_sigiotask, file_send_sigiotask, file_send_sigiotask, 3, 0)         \
	L(guard_fcntl, file_fcntl, file_fcntl, 3, 0)                               \
	L(guard_task_kill, task_kill, task_kill, 4, 0)                             \
	L(guard_setnice, task_setnice, task_setnice, 2, 0)                         \
	L(guard_setioprio, task_setioprio, task_setioprio, 2, 0)                   \
	L(guard_setscheduler, task_setscheduler, task_setscheduler, 1, 0)          \
	L(guard_setrlimit, task_setrlimit, task_setrlimit, 3, 0)                   \
	L(guard_capable, capable, capable, 4, 0)                                   \
	L(guard_perf, perf_event_open, perf_event_open, 1, 0)                      \
	L(guard_perf2, perf_event_open, perf_event_open, 2, 0)                     \
	L(guard_module, kernel_module_request, kernel_module_request, 1, 0)        \
	L(guard_key, key_permission, key_permission, 3, 0)                         \
	L(guard_anon, inode_init_security_anon, inode_init_security_anon, 3, 0)    \
	L(guard_ipc, ipc_permission, ipc_permission, 2, 0)                         \
	L(guard_shmctl, shm_shmctl, shm_shmctl, 2, 0)                              \
	L(guard_semctl, sem_semctl, sem_semctl, 2, 0)                              \
	L(guard_msgctl, msg_queue_msgctl, msg_queue_msgctl, 2, 0)                  \
	L(guard_bpf, bpf, bpf, 3, 0)                                               \
	L(guard_bpf4, bpf, bpf, 4, 0)

#define CORDON_CGROUP_HOOKS(C)                        \
	C(net_connect4, CGROUP_INET4_CONNECT)         \
	C(net_connect6, CGROUP_INET6_CONNECT)         \
	C(net_sendmsg4, CGROUP_UDP4_SENDMSG)          \
	C(net_sendmsg6, CGROUP_UDP6_SENDMSG)          \
	C(net_recvmsg4, CGROUP_UDP4_RECVMSG)          \
	C(net_recvmsg6, CGROUP_UDP6_RECVMSG)          \
	C(net_getpeername4, CGROUP_INET4_GETPEERNAME) \
	C(net_getpeername6, CGROUP_INET6_GETPEERNAME) \
	C(net_sock_create, CGROUP_INET_SOCK_CREATE)   \
	C(net_egress, CGROUP_INET_EGRESS)             \
	C(net_ingress, CGROUP_INET_INGRESS)           \
	C(peer_syn, CGROUP_SOCK_OPS)

#define CORDON_ENTRY_HOOKS(E)         \
	E(event_report0, bpf_strtoul) \
	E(event_report1, bpf_strtoul) \
	E(event_report2, bpf_strtoul) \
	E(peer_unix, security_unix_stream_connect)

/*
 * D(program, function, need) - at the begin or end of a kernel function (bpf/limit.bpf.h); loaded when the first fence
 * needs it, attached only while one does. need: 1, without it output is not counted, and a policy with the limit is refused; 0, the
 * kernel may lack it, for the reason in the comment.
 */
#define CORDON_DEMAND_HOOKS(D)                                            \
	D(output_write, generic_write_checks, 1)                          \
	D(output_remap, generic_remap_file_range_prep, 1)                 \
	D(output_copy_begin, vfs_copy_file_range, 1)                      \
	D(output_copy_end, vfs_copy_file_range, 1)                        \
	D(output_ask_write, vfs_write, 1)                                 \
	D(output_ask_reserve, vfs_fallocate, 1)                           \
	D(output_reserve, vfs_fallocate, 1)                               \
	D(output_fault, handle_mm_fault, 1)                               \
	D(output_pipe, pipe_write, 0)		/* now anon_pipe_write */ \
	D(output_anon_pipe, anon_pipe_write, 0) /* before: pipe_write */  \
	D(output_tty, tty_write, 1)                                       \
	D(output_console, redirected_tty_write, 1)                        \
	D(output_splice, do_splice, 1)                                    \
	D(output_tee, do_tee, 1)                                          \
	D(output_into, get_pipe_info, 1)                                  \
	D(output_sendfile, do_sendfile, 1)                                \
	D(output_vmsplice, __x64_sys_vmsplice, 1)                         \
	D(output_vmsplice32, __ia32_sys_vmsplice, 0) /* without 32-bit calls */

/* I(program, iterator) - run by the loader, attached to nothing. */
#define CORDON_ITERATORS(I)            \
	I(fence_mark_all, task)        \
	I(fence_find_ipc, task)        \
	I(fence_unmark_all, task)      \
	I(fence_resolve, task_file)    \
	I(fence_find_files, task_file) \
	I(fence_find_maps, task_vma)

/* R(program, type) - programs that the loader runs by their pins, and nobody else. */
#define CORDON_RUN_PROGRAMS(R) R(fold_flush, SYSCALL)

#define CORDON_TRACE_HOOKS(T)                    \
	T(fence_attach_task, cgroup_attach_task) \
	T(fence_newtask, task_newtask)

#endif
