// SPDX-License-Identifier: Apache-2.0
/*
 * Judges what a host offers against what a fence needs; each lack says what to do. See host.h.
 *
 * Privilege: none. A lack is only what is known to be missing; what could not be seen is a note,
 * because the self-test of every fence has the last word (DESIGN 2.7).
 */
#include "host/probe.h"
#include "host/internal.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <string.h>

#define BOTH (HOST_NEED_FILES | HOST_NEED_NETWORK)
#define REMEDY_SECURITYFS "mount -t securityfs securityfs /sys/kernel/security"

static const char *const fact_names[HOST_FACT_COUNT] = {
	[HOST_KERNEL] = "kernel",
	[HOST_CAPS] = "capabilities",
	[HOST_BTF] = "BTF",
	[HOST_BPF_LSM] = "BPF LSM",
	[HOST_FMOD_RET] = "fmod_ret",
	[HOST_PREEMPTION] = "preemption",
	[HOST_SECURITY_PATH] = "path hooks",
	[HOST_JIT] = "BPF JIT",
	[HOST_RINGBUF] = "ring buffer",
	[HOST_TASK_STORAGE] = "task storage",
	[HOST_CGROUP] = "cgroup v2",
	[HOST_BPFFS] = "bpffs",
	[HOST_LOCKDOWN] = "lockdown",
	[HOST_MEMLOCK] = "locked memory",
};

const char *host_fact_name(enum host_fact fact)
{
	return fact < HOST_FACT_COUNT ? fact_names[fact] : "?";
}

__attribute__((format(printf, 3, 4))) static void ok(struct host_report *report,
						     enum host_fact fact, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(report->fact[fact].found, sizeof(report->fact[fact].found), format, args);
	va_end(args);
}

static void note(struct host_report *report, enum host_fact fact, const char *found,
		 const char *remedy)
{
	report->fact[fact].status = HOST_NOTE;
	snprintf(report->fact[fact].found, sizeof(report->fact[fact].found), "%s", found);
	snprintf(report->fact[fact].remedy, sizeof(report->fact[fact].remedy), "%s", remedy);
}

static void lack(struct host_report *report, enum host_fact fact, unsigned int need,
		 const char *found, const char *remedy)
{
	note(report, fact, found, remedy);
	report->fact[fact].status = HOST_LACK;
	report->fact[fact].need = need;
	report->lost |= need;
}

/* --- kernel and privilege --------------------------------------------------------------------- */

static bool kernel_before(const struct probe_facts *facts, unsigned int major, unsigned int minor)
{
	return facts->major < major || (facts->major == major && facts->minor < minor);
}

static void judge_kernel(const struct probe_facts *facts, struct host_report *report)
{
	char found[160];

	if (!kernel_before(facts, 6, 1)) {
		ok(report, HOST_KERNEL, "%s", facts->release);
		return;
	}
	snprintf(found, sizeof(found), "%.*s: below 6.1, the oldest that Cordon enforces on",
		 (int)strspn(facts->release, "0123456789."), facts->release);
	lack(report, HOST_KERNEL, BOTH, found, "boot a 6.1 or later kernel");
}

static bool has_cap(const struct probe_facts *facts, int cap)
{
	return facts->caps >> cap & 1;
}

/*
 * CAP_SYS_ADMIN includes the others that it was split into, but mounts and namespaces need it
 * itself.
 */
void probe_missing_caps(const struct probe_facts *facts, char *ret_text, size_t size)
{
	static const struct {
		int cap;
		const char *name;
	} wanted[] = {
		{ CAP_BPF, "CAP_BPF" },
		{ CAP_PERFMON, "CAP_PERFMON" },
		{ CAP_NET_ADMIN, "CAP_NET_ADMIN" },
		{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN" },
	};
	size_t i, n = 0;

	ret_text[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(wanted) && n < size; i++)
		if (!has_cap(facts, wanted[i].cap) && !has_cap(facts, CAP_SYS_ADMIN))
			n += (size_t)snprintf(ret_text + n, size - n, "%s%s", n ? ", " : "",
					      wanted[i].name);
}

static bool privileged(const struct probe_facts *facts)
{
	return has_cap(facts, CAP_SYS_ADMIN) && !facts->user_namespace;
}

static void judge_caps(const struct probe_facts *facts, struct host_report *report)
{
	char missing[80], found[160];

	probe_missing_caps(facts, missing, sizeof(missing));
	if (facts->user_namespace) {
		lack(report, HOST_CAPS, BOTH,
		     "of a user namespace, where they do not count for BPF",
		     "run in the host's user namespace (a container with --privileged and "
		     "--userns=host)");
	} else if (missing[0]) {
		snprintf(found, sizeof(found), "missing: %s", missing);
		lack(report, HOST_CAPS, BOTH, found,
		     "run as root or with CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and CAP_SYS_ADMIN");
	} else {
		ok(report, HOST_CAPS, "CAP_SYS_ADMIN and all that it includes");
	}
}

static void judge_lockdown(const struct probe_facts *facts, struct host_report *report)
{
	if (!strcmp(facts->lockdown, "confidentiality"))
		lack(report, HOST_LOCKDOWN, BOTH,
		     "confidentiality: BPF programs may not read kernel memory",
		     "boot with lockdown=integrity, or without lockdown=");
	else if (facts->lockdown[0])
		ok(report, HOST_LOCKDOWN, "%s", facts->lockdown);
	else if (facts->securityfs)
		ok(report, HOST_LOCKDOWN, "none: not in this kernel's LSM list");
	else
		note(report, HOST_LOCKDOWN, "unknown: securityfs is not mounted",
		     REMEDY_SECURITYFS);
}

static void judge_memlock(const struct probe_facts *facts, struct host_report *report)
{
	char found[160];

	if (!kernel_before(facts, 5, 11)) {
		ok(report, HOST_MEMLOCK, "not limited: BPF memory counts for the memory cgroup");
	} else if (facts->memlock_bytes == UINT64_MAX) {
		ok(report, HOST_MEMLOCK, "unlimited");
	} else {
		snprintf(found, sizeof(found),
			 "%llu KiB, and this kernel counts BPF memory against it",
			 (unsigned long long)facts->memlock_bytes >> 10);
		note(report, HOST_MEMLOCK, found, "ulimit -l unlimited");
	}
}

/* --- hooks ------------------------------------------------------------------------------------ */

static void judge_btf(const struct probe_facts *facts, struct host_report *report)
{
	char found[160];

	if (!facts->btf) {
		ok(report, HOST_BTF, "/sys/kernel/btf/vmlinux");
	} else if (facts->btf == -ENOENT) {
		lack(report, HOST_BTF, BOTH, "missing: no /sys/kernel/btf/vmlinux",
		     "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y");
	} else {
		snprintf(found, sizeof(found), "unreadable: /sys/kernel/btf/vmlinux: %s",
			 strerror(-facts->btf));
		note(report, HOST_BTF, found,
		     "run as root; if that does not help, boot another kernel");
	}
}

static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);
	const char *p;

	for (p = list; *p; p += strcspn(p, ","), p += *p == ',')
		if (!strncmp(p, word, n) && (p[n] == ',' || !p[n]))
			return true;
	return false;
}

/*
 * Which attach type, and why: `lsm` only where it is certain to fire, `fmod_ret` works in either
 * case.
 */
static void choose_attach(const struct probe_facts *facts, struct host_report *report)
{
	bool listed = list_has(facts->lsm_list, "bpf");
	const char *reason;

	if (!facts->lsm_list[0])
		reason = "the LSM list cannot be read, and fmod_ret works whatever it holds";
	else if (!listed)
		reason = "bpf is not in the LSM list, so lsm programs would attach and never fire";
	else if (facts->try_lsm_program < 0 && facts->try_fmod_ret_program == 0)
		reason = "lsm programs are refused, fmod_ret ones are not";
	else
		reason = "bpf is in the LSM list";
	report->use_fmod_ret =
		!listed || (facts->try_lsm_program < 0 && facts->try_fmod_ret_program == 0);
	snprintf(report->attach_reason, sizeof(report->attach_reason), "%s", reason);
}

/* A program type that will not load. Without privilege nobody loads any, which is another lack. */
static void judge_refused(const struct probe_facts *facts, struct host_report *report,
			  enum host_fact fact, int err, bool needed)
{
	char found[160];

	snprintf(found, sizeof(found), "refuses a trial program: %s", strerror(-err));
	if (!privileged(facts))
		note(report, fact, "not tried: capabilities are missing", "run as root");
	else if (!needed)
		note(report, fact, found, "not needed: the other attach type is used");
	else
		lack(report, fact, HOST_NEED_FILES, found,
		     err == -EPERM
			     ? "let root load LSM and tracing programs (a seccomp filter, or a "
			       "host that "
			       "forbids it?), or boot another kernel"
			     : "boot a kernel built with CONFIG_BPF_LSM=y and CONFIG_BPF_JIT=y");
}

static void judge_bpf_lsm(const struct probe_facts *facts, struct host_report *report)
{
	char found[160];

	if (facts->lsm_list[0] && !list_has(facts->lsm_list, "bpf")) {
		snprintf(found, sizeof(found), "not in the LSM list (%.120s)", facts->lsm_list);
		note(report, HOST_BPF_LSM, found,
		     facts->bpf_lsm_hooks == PROBE_NO
			     ? "not needed: fmod_ret is used; this kernel has no CONFIG_BPF_LSM"
			     : "not needed: fmod_ret is used; to have it, add bpf to lsm= on the "
			       "kernel's "
			       "command line");
	} else if (facts->try_lsm_program < 0) {
		judge_refused(facts, report, HOST_BPF_LSM, facts->try_lsm_program,
			      !report->use_fmod_ret || facts->try_fmod_ret_program);
	} else if (!facts->lsm_list[0]) {
		note(report, HOST_BPF_LSM,
		     facts->securityfs ? "unknown: /sys/kernel/security/lsm cannot be read"
				       : "unknown: securityfs is not mounted",
		     REMEDY_SECURITYFS);
	} else {
		ok(report, HOST_BPF_LSM, "in the LSM list (%s)", facts->lsm_list);
	}
}

/* Trampolines carry both attach types; the security_ functions are what fmod_ret attaches to. */
static void judge_fmod_ret(const struct probe_facts *facts, struct host_report *report)
{
	if (facts->trampolines == PROBE_NO)
		lack(report, HOST_FMOD_RET, HOST_NEED_FILES,
		     "no trampolines: this kernel lacks ftrace direct calls "
		     "(register_ftrace_direct)",
		     "boot a kernel with CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y (on arm64: 6.4 "
		     "or later)");
	else if (facts->security_hooks == PROBE_NO)
		lack(report, HOST_FMOD_RET, HOST_NEED_FILES, "no security_file_open in this kernel",
		     "boot a kernel built with CONFIG_SECURITY=y");
	else if (facts->try_fmod_ret_program == PROBE_NOT_TRIED)
		note(report, HOST_FMOD_RET, "unknown without BTF", "see BTF");
	else if (facts->try_fmod_ret_program < 0)
		judge_refused(facts, report, HOST_FMOD_RET, facts->try_fmod_ret_program,
			      report->use_fmod_ret);
	else
		ok(report, HOST_FMOD_RET, "loads on security_file_open%s",
		   facts->trampolines == PROBE_YES ? "; trampolines are there" : "");
}

/*
 * A program that is running on a CPU is skipped there for whoever comes next: by the kernel's guard against recursion
 * (__bpf_prog_enter_recur), which holds for fmod_ret, and before 6.2 for lsm too. Where kernel code is preempted, tasks
 * take turns inside a hook, and all but the first are let pass.
 */
static void judge_preemption(const struct probe_facts *facts, struct host_report *report)
{
	bool old = kernel_before(facts, 6, 2);

	if (!report->use_fmod_ret && !old)
		ok(report, HOST_PREEMPTION, "of no concern: lsm programs are never skipped");
	else if (facts->preempts == PROBE_NO || kernel_before(facts, 6, 1))
		ok(report, HOST_PREEMPTION, "no program is skipped");
	else if (facts->preempts == PROBE_UNKNOWN && !privileged(facts))
		note(report, HOST_PREEMPTION, "not known: capabilities are missing", "run as root");
	else
		lack(report, HOST_PREEMPTION, HOST_NEED_RACE,
		     facts->preempts == PROBE_YES
			     ? "of kernel code: a hook is skipped while another task was preempted "
			       "in it"
			     : "unknown: if kernel code is preempted, hooks can be skipped",
		     old ? "boot with preempt=voluntary"
			 : "boot with bpf in lsm=, or with preempt=voluntary where the kernel has "
			   "it");
}

static void judge_path_hooks(const struct probe_facts *facts, struct host_report *report)
{
	if (facts->path_hooks == PROBE_YES)
		ok(report, HOST_SECURITY_PATH, "security_path_mknod and its like are there");
	else if (facts->path_hooks == PROBE_UNKNOWN)
		note(report, HOST_SECURITY_PATH, "unknown without BTF", "see BTF");
	else
		lack(report, HOST_SECURITY_PATH, HOST_NEED_FILES, "missing: no security_path_mknod",
		     "boot a kernel built with CONFIG_SECURITY_PATH=y (AppArmor or Landlock select "
		     "it)");
}

/* --- BPF and cgroups -------------------------------------------------------------------------- */

static void judge_jit(const struct probe_facts *facts, struct host_report *report)
{
	if (facts->jit > 0)
		ok(report, HOST_JIT, "on");
	else if (facts->jit == 0)
		lack(report, HOST_JIT, BOTH, "off: bpf_loop and trampolines need it",
		     "sysctl net.core.bpf_jit_enable=1");
	else
		note(report, HOST_JIT, "unknown: net.core.bpf_jit_enable cannot be read",
		     "run as root in the host's network namespace to see it");
}

static void judge_map(const struct probe_facts *facts, struct host_report *report,
		      enum host_fact fact, int tried, unsigned int need)
{
	char found[160];

	if (!tried) {
		ok(report, fact, "can be made");
		return;
	}
	if (!privileged(facts)) {
		note(report, fact, "not tried: capabilities are missing", "run as root");
		return;
	}
	snprintf(found, sizeof(found), "cannot be made: %s", strerror(-tried));
	lack(report, fact, need, found,
	     tried == -EPERM ? "allow bpf(2) to root (a seccomp filter forbids it?)"
			     : "boot a 6.1 or later kernel built with CONFIG_BPF_SYSCALL=y");
}

/* The controllers that hold limits, when the kernel told which it has. */
static bool controllers_suffice(const char *controllers)
{
	static const char *const wanted[] = { "cpu", "memory", "pids" };
	char list[130];

	snprintf(list, sizeof(list), " %s ", controllers);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		char word[16];

		snprintf(word, sizeof(word), " %s ", wanted[i]);
		if (!strstr(list, word))
			return false;
	}
	return true;
}

static void judge_cgroup_found(const struct probe_facts *facts, struct host_report *report)
{
	char found[160];

	if (facts->cgroup_layout == HOST_CGROUP_V2 && !controllers_suffice(facts->controllers)) {
		snprintf(found, sizeof(found), "at %.60s; its controllers: %.60s",
			 facts->cgroup_mount, facts->controllers[0] ? facts->controllers : "none");
		note(report, HOST_CGROUP, found,
		     "for limits of cpu, memory and pids boot without cgroup_disable=");
		return;
	}
	if (facts->cgroup_layout == HOST_CGROUP_V2) {
		ok(report, HOST_CGROUP, "at %s", facts->cgroup_mount);
		return;
	}
	snprintf(found, sizeof(found), "at %.60s beside v1; its controllers: %.60s",
		 facts->cgroup_mount, facts->controllers[0] ? facts->controllers : "none");
	note(report, HOST_CGROUP, found,
	     "for limits of cpu, memory and pids boot with systemd.unified_cgroup_hierarchy=1");
}

static void judge_cgroup(const struct probe_facts *facts, struct host_report *report)
{
	char found[160];

	if (facts->cgroup_layout == HOST_CGROUP_NONE) {
		lack(report, HOST_CGROUP, BOTH, "not mounted",
		     "mount -t cgroup2 cgroup2 /sys/fs/cgroup");
	} else if (facts->cgroup_layout == HOST_CGROUP_V1_ONLY) {
		lack(report, HOST_CGROUP, BOTH, "not mounted, only v1 is",
		     "boot with systemd.unified_cgroup_hierarchy=1, or mount -t cgroup2 cgroup2 "
		     "DIR");
	} else if (facts->cgroup_private) {
		lack(report, HOST_CGROUP, BOTH,
		     "seen through a private cgroup namespace, which hides the host's",
		     "start the container with --cgroupns=host, or nsenter --cgroup --target 1");
	} else if (facts->try_cgroup_program < 0 && privileged(facts)) {
		snprintf(found, sizeof(found), "takes no programs: %s",
			 strerror(-facts->try_cgroup_program));
		lack(report, HOST_CGROUP, HOST_NEED_NETWORK, found,
		     "boot a kernel built with CONFIG_CGROUP_BPF=y");
	} else {
		judge_cgroup_found(facts, report);
	}
}

static void judge_bpffs(const struct probe_facts *facts, struct host_report *report)
{
	if (!facts->bpffs)
		lack(report, HOST_BPFFS, BOTH, "not mounted at /sys/fs/bpf",
		     "mount -t bpf bpf /sys/fs/bpf");
	else if (facts->bpffs_readonly)
		lack(report, HOST_BPFFS, BOTH, "read-only at /sys/fs/bpf",
		     "mount -o remount,rw /sys/fs/bpf");
	else
		ok(report, HOST_BPFFS, "at /sys/fs/bpf");
}

void probe_judge(const struct probe_facts *facts, struct host_report *ret_report)
{
	memset(ret_report, 0, sizeof(*ret_report));
	choose_attach(facts, ret_report);
	judge_kernel(facts, ret_report);
	judge_caps(facts, ret_report);
	judge_btf(facts, ret_report);
	judge_bpf_lsm(facts, ret_report);
	judge_fmod_ret(facts, ret_report);
	judge_preemption(facts, ret_report);
	judge_path_hooks(facts, ret_report);
	judge_jit(facts, ret_report);
	judge_map(facts, ret_report, HOST_RINGBUF, facts->try_ring_buffer, BOTH);
	judge_map(facts, ret_report, HOST_TASK_STORAGE, facts->try_task_storage, HOST_NEED_FILES);
	judge_cgroup(facts, ret_report);
	judge_bpffs(facts, ret_report);
	judge_lockdown(facts, ret_report);
	judge_memlock(facts, ret_report);
}

void host_probe(struct host_report *ret_report)
{
	struct probe_facts facts;

	probe_look(&facts);
	probe_judge(&facts, ret_report);
}

/* --- saying it -------------------------------------------------------------------------------- */

void host_report_line(const struct host_report *report, enum host_fact fact, char *ret_line,
		      size_t size)
{
	const char *remedy = report->fact[fact].remedy;

	snprintf(ret_line, size, "%s %s%s%s", host_fact_name(fact), report->fact[fact].found,
		 remedy[0] ? "; " : "", remedy);
}

int host_report_refuse(const struct host_report *report, struct error *error)
{
	char line[512];
	int i;

	for (i = 0; i < HOST_FACT_COUNT; i++) {
		if (report->fact[i].status != HOST_LACK)
			continue;
		host_report_line(report, i, line, sizeof(line));
		return error_set(error, ENOTSUP, "%s", line);
	}
	return 0;
}
