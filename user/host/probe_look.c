// SPDX-License-Identifier: Apache-2.0
/*
 * Looks at what this host offers: files of /proc and /sys, and small trials by bpf(2) (bpf_try.c).
 * Changes nothing and attaches nothing. What cannot be seen is reported as unknown, never as
 * missing.
 *
 * Privilege: none needed, but without it the trials say nothing. Leaves no memory behind: `cordon
 * run` calls this.
 */
#include "host/probe.h"
#include "host/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#define USER_NS_INIT \
	0xEFFFFFFDu /* inode number of the initial user namespace, fixed in the kernel */

/* The first line of a small file, without its newline. */
static int read_line(const char *path, char *ret_line, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t r = fd < 0 ? -1 : read(fd, ret_line, size - 1);

	ret_line[r > 0 ? r : 0] = '\0';
	ret_line[strcspn(ret_line, "\n")] = '\0';
	return r < 0 ? -errno : 0;
}

/* "none [voluntary] full" and the like, with the one in force in round brackets; through a mount that nobody sees. */
static void preemption_in_force(char *ret_line, size_t size)
{
	_cleanup_close_ int fs = fsopen("debugfs", FSOPEN_CLOEXEC), mount = -1, fd = -1;
	ssize_t r;

	ret_line[0] = '\0';
	if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		return;
	mount = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	fd = mount < 0 ? -1 : openat(mount, "sched/preempt", O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -1 : read(fd, ret_line, size - 1);
	ret_line[r > 0 ? r : 0] = '\0';
}

/* What the build says, unless the choice is made at boot: then what is in force, or what was asked for. */
static enum probe_answer look_preemption(const char *version)
{
	char line[4096];

	if (!strstr(version, "PREEMPT"))
		return PROBE_NO;
	if (!strstr(version, "PREEMPT_DYNAMIC"))
		return PROBE_YES;
	preemption_in_force(line, sizeof(line));
	if (strstr(line, "(none)") || strstr(line, "(voluntary)"))
		return PROBE_NO;
	if (line[0])
		return PROBE_YES;
	read_line("/proc/cmdline", line, sizeof(line));
	if (strstr(line, "preempt=none") || strstr(line, "preempt=voluntary"))
		return PROBE_NO;
	return strstr(line, "preempt=") ? PROBE_YES : PROBE_UNKNOWN;
}

static void look_kernel(struct probe_facts *facts)
{
	struct utsname name;

	if (uname(&name))
		return;
	snprintf(facts->release, sizeof(facts->release), "%.64s", name.release);
	if (sscanf(facts->release, "%u.%u", &facts->major, &facts->minor) != 2)
		facts->major = facts->minor = 0;
	facts->preempts = look_preemption(name.version);
}

/*
 * The symbol table, for what old generators left out of BTF. Read in pieces: it is some ten
 * megabytes of text.
 */
static enum probe_answer kallsyms_has(const char *name)
{
	_cleanup_close_ int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	char text[16384 + 1], want[80];
	size_t kept = 0;
	ssize_t r = 0;
	int n = snprintf(want, sizeof(want), " %s\n", name);
	bool any = false;

	while (fd >= 0 && (r = read(fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
		any = true;
		kept += (size_t)r;
		if (memmem(text, kept, want, (size_t)n))
			return PROBE_YES;
		if (kept > (size_t)n) { /* the match may lie across two pieces */
			memmove(text, text + kept - n, (size_t)n);
			kept = (size_t)n;
		}
	}
	return any && r == 0 ? PROBE_NO : PROBE_UNKNOWN;
}

static enum probe_answer answer(int btf, uint32_t id)
{
	if (id)
		return PROBE_YES;
	return btf ? PROBE_UNKNOWN : PROBE_NO;
}

enum { F_BPF_LSM, F_SECURITY, F_PATH, F_DIRECT, F_COUNT };

static void look_functions(struct probe_facts *facts, uint32_t *ret_ids)
{
	struct host_type functions[F_COUNT] = {
		[F_BPF_LSM] = { .name = "bpf_lsm_file_open" },
		[F_SECURITY] = { .name = "security_file_open" },
		[F_PATH] = { .name = "security_path_mknod" },
		[F_DIRECT] = { .name = "register_ftrace_direct" },
	};
	int r = host_types_find(functions, F_COUNT);

	for (int i = 0; i < F_COUNT; i++)
		ret_ids[i] = functions[i].id;
	facts->btf = r;
	facts->bpf_lsm_hooks = answer(r, ret_ids[F_BPF_LSM]);
	facts->security_hooks = answer(r, ret_ids[F_SECURITY]);
	facts->path_hooks = answer(r, ret_ids[F_PATH]);
	facts->trampolines = answer(r, ret_ids[F_DIRECT]);
	if (facts->trampolines == PROBE_NO)
		facts->trampolines = kallsyms_has(functions[F_DIRECT].name);
}

static void look_trials(struct probe_facts *facts, const uint32_t *ids)
{
	facts->try_ring_buffer = bpf_try_ring_buffer();
	facts->try_task_storage = bpf_try_task_storage();
	facts->try_cgroup_program = bpf_try_cgroup_program();
	facts->try_lsm_program = PROBE_NOT_TRIED;
	facts->try_fmod_ret_program = PROBE_NOT_TRIED;
	if (ids[F_BPF_LSM])
		facts->try_lsm_program = bpf_try_lsm_program(ids[F_BPF_LSM]);
	if (ids[F_SECURITY])
		facts->try_fmod_ret_program = bpf_try_fmod_ret_program(ids[F_SECURITY]);
}

/* "none [integrity] confidentiality": the level in force is the one in brackets. */
static void look_lockdown(struct probe_facts *facts)
{
	char line[128], *level;

	if (read_line("/sys/kernel/security/lockdown", line, sizeof(line)) < 0)
		return;
	level = strchr(line, '[');
	if (!level)
		return;
	level[strcspn(level, "]")] = '\0';
	snprintf(facts->lockdown, sizeof(facts->lockdown), "%.31s", level + 1);
}

static void look_security(struct probe_facts *facts)
{
	struct statfs fs;

	facts->securityfs = !statfs("/sys/kernel/security", &fs) && fs.f_type == SECURITYFS_MAGIC;
	read_line("/sys/kernel/security/lsm", facts->lsm_list, sizeof(facts->lsm_list));
	look_lockdown(facts);
}

static void look_privilege(struct probe_facts *facts)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/status", "re");
	unsigned long long caps;
	struct rlimit limit;
	char line[256];
	struct stat st;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			facts->caps = caps;
	facts->user_namespace = !stat("/proc/self/ns/user", &st) && st.st_ino != USER_NS_INIT;
	facts->memlock_bytes = UINT64_MAX;
	if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY)
		facts->memlock_bytes = limit.rlim_cur;
}

static void look_cgroup(struct probe_facts *facts)
{
	char path[PATH_MAX + 32];

	facts->cgroup_layout = host_cgroup_find(facts->cgroup_mount);
	facts->cgroup_private = host_cgroup_private_namespace();
	if (!facts->cgroup_mount[0])
		return;
	snprintf(path, sizeof(path), "%s/cgroup.controllers", facts->cgroup_mount);
	read_line(path, facts->controllers, sizeof(facts->controllers));
}

static void look_bpf_files(struct probe_facts *facts)
{
	struct statvfs flags;
	struct statfs fs;
	char line[32];

	facts->bpffs = !statfs("/sys/fs/bpf", &fs) && fs.f_type == BPF_FS_MAGIC;
	facts->bpffs_readonly = !statvfs("/sys/fs/bpf", &flags) && (flags.f_flag & ST_RDONLY);
	facts->jit = -1;
	if (!read_line("/proc/sys/net/core/bpf_jit_enable", line, sizeof(line)) && line[0])
		facts->jit = atoi(line);
}

void probe_look(struct probe_facts *ret_facts)
{
	uint32_t ids[F_COUNT];

	memset(ret_facts, 0, sizeof(*ret_facts));
	look_kernel(ret_facts);
	look_functions(ret_facts, ids);
	look_security(ret_facts);
	look_privilege(ret_facts);
	look_cgroup(ret_facts);
	look_bpf_files(ret_facts);
	look_trials(ret_facts, ids);
}
