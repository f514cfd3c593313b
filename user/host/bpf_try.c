// SPDX-License-Identifier: Apache-2.0
/*
 * What this kernel's bpf(2) really does, as far as can be tried without attaching anything: maps are made and dropped,
 * programs of two instructions are loaded and dropped. By the plain system call: no library, no memory.
 *
 * Privilege: CAP_BPF and CAP_PERFMON; without them every trial gives -EPERM and proves nothing.
 */
#include "host/internal.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/util.h"

/* Closes what the command made. */
static int try_bpf(int command, union bpf_attr *attr)
{
	long fd = syscall(SYS_bpf, command, attr, sizeof(*attr));

	if (fd < 0)
		return -errno;
	close((int)fd);
	return 0;
}

int bpf_try_ring_buffer(void)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_RINGBUF;
	attr.max_entries = (uint32_t)sysconf(_SC_PAGESIZE);
	return try_bpf(BPF_MAP_CREATE, &attr);
}

/* Type information with one type: int. */
static int load_int_type(void)
{
	static const struct {
		struct btf_header header;
		struct btf_type type;
		uint32_t encoding;
		char strings[5];
	} btf = {
		.header = { .magic = BTF_MAGIC,
			    .version = BTF_VERSION,
			    .hdr_len = sizeof(struct btf_header),
			    .type_len = sizeof(struct btf_type) + sizeof(uint32_t),
			    .str_off = sizeof(struct btf_type) + sizeof(uint32_t),
			    .str_len = 5 },
		.type = { .name_off = 1, .info = BTF_KIND_INT << 24, .size = 4 },
		.encoding = BTF_INT_SIGNED << 24 | 32,
		.strings = "\0int",
	};
	union bpf_attr attr;
	long fd;

	memset(&attr, 0, sizeof(attr));
	attr.btf = (uintptr_t)&btf;
	attr.btf_size = sizeof(btf.header) + btf.header.str_off + btf.header.str_len;
	fd = syscall(SYS_bpf, BPF_BTF_LOAD, &attr, sizeof(attr));
	return fd < 0 ? -errno : (int)fd;
}

/* Task storage has no form without type information. */
int bpf_try_task_storage(void)
{
	_cleanup_close_ int fd = load_int_type();
	union bpf_attr attr;

	if (fd < 0)
		return fd;
	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_TASK_STORAGE;
	attr.map_flags = BPF_F_NO_PREALLOC;
	attr.key_size = sizeof(int);
	attr.value_size = sizeof(int);
	attr.btf_fd = (uint32_t)fd;
	attr.btf_key_type_id = 1;
	attr.btf_value_type_id = 1;
	return try_bpf(BPF_MAP_CREATE, &attr);
}

/* A program that returns value. */
static int try_program(uint32_t type, uint32_t attach_type, uint32_t btf_id, int32_t value)
{
	const struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = value },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = type;
	attr.expected_attach_type = attach_type;
	attr.attach_btf_id = btf_id;
	attr.insns = (uintptr_t)code;
	attr.insn_cnt = ARRAY_SIZE(code);
	attr.license = (uintptr_t) "GPL";
	return try_bpf(BPF_PROG_LOAD, &attr);
}

int bpf_try_cgroup_program(void)
{
	return try_program(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, BPF_CGROUP_INET4_CONNECT, 0, 1);
}

int bpf_try_lsm_program(uint32_t btf_id)
{
	return try_program(BPF_PROG_TYPE_LSM, BPF_LSM_MAC, btf_id, 0);
}

int bpf_try_fmod_ret_program(uint32_t btf_id)
{
	return try_program(BPF_PROG_TYPE_TRACING, BPF_MODIFY_RETURN, btf_id, 0);
}
