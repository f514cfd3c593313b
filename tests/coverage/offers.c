// SPDX-License-Identifier: Apache-2.0
/*
 * What the running kernel offers that a fence could be left by, as lines "KIND NAME", sorted by nobody:
 *
 *   hook     functions bpf_lsm_NAME of the kernel's type information (BTF)
 *   attach   members of enum bpf_attach_type for cgroups
 *   opcode   members of enum io_uring_op
 *   syscall  entry points in /proc/kallsyms, 64-bit and 32-bit ones
 *   family   numbers that socket() knows, or that a module of this kernel says it brings
 *
 * Root, because the kernel hides its symbols from others. Whatever cannot be read ends it with exit 1: an empty list would
 * pass every check.
 */
#include <bpf/btf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { FAMILIES = 128 };

static void fail(const char *what)
{
	fprintf(stderr, "offers: error: %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool starts(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* Enum members, without those that only say how many there are. */
static int print_enum(const struct btf *btf, const struct btf_type *type, const char *kind,
		      const char *prefix)
{
	const struct btf_enum *member = btf_enum(type);
	int n = 0;

	for (int i = 0; i < btf_vlen(type); i++) {
		const char *name = btf__name_by_offset(btf, member[i].name_off);

		if (!starts(name, prefix) || strstr(name, "_LAST") || starts(name, "__"))
			continue;
		printf("%s %s\n", kind, name);
		n++;
	}
	return n;
}

static void print_btf(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int hooks = 0, attach = 0, opcodes = 0;

	if (!btf)
		fail("/sys/kernel/btf/vmlinux");
	for (uint32_t id = 1; id < btf__type_cnt(btf); id++) {
		const struct btf_type *type = btf__type_by_id(btf, id);
		const char *name = btf__name_by_offset(btf, type->name_off);

		if (btf_is_func(type) && starts(name, "bpf_lsm_")) {
			printf("hook %s\n", name + strlen("bpf_lsm_"));
			hooks++;
		} else if (btf_is_enum(type) && !strcmp(name, "bpf_attach_type")) {
			attach += print_enum(btf, type, "attach", "BPF_CGROUP_");
			attach += print_enum(btf, type, "attach", "BPF_LSM_CGROUP");
		} else if (btf_is_enum(type) && btf_vlen(type) &&
			   starts(btf__name_by_offset(btf, btf_enum(type)->name_off),
				  "IORING_OP_")) {
			opcodes += print_enum(btf, type, "opcode", "IORING_OP_");
		}
	}
	btf__free(btf);
	errno = ENOENT;
	if (!hooks || !attach || !opcodes)
		fail("no hooks, attach types or opcodes in /sys/kernel/btf/vmlinux");
}

/* __x64_sys_openat and __ia32_compat_sys_openat are one name; what the compiler split off is none. */
static const char *syscall_name(char *symbol)
{
	static const char *const entries[] = { "__x64_compat_sys_", "__x64_sys_",
					       "__ia32_compat_sys_", "__ia32_sys_" };

	symbol[strcspn(symbol, " \t\n")] = '\0';
	if (strchr(symbol, '.'))
		return NULL;
	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++)
		if (starts(symbol, entries[i]))
			return symbol + strlen(entries[i]);
	return NULL;
}

static void print_syscalls(void)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	char line[1024], kind;
	int at, n = 0;

	if (!file)
		fail("/proc/kallsyms");
	while (fgets(line, sizeof(line), file)) {
		const char *name;

		if (sscanf(line, "%*s %c %n", &kind, &at) != 1)
			continue;
		name = syscall_name(line + at);
		if (!name)
			continue;
		printf("syscall %s\n", name);
		n++;
	}
	fclose(file);
	errno = ENOENT;
	if (n < 300)
		fail("too few system calls in /proc/kallsyms");
}

/* Families that modules say they bring: "alias net-pf-N MODULE", and NUL-separated "MODULE.alias=net-pf-N". */
static void mark_aliases(const char *name, bool *families)
{
	struct utsname uts;
	char path[512], *text = NULL;
	size_t size = 0;
	FILE *file;

	uname(&uts);
	snprintf(path, sizeof(path), "/lib/modules/%s/%s", uts.release, name);
	file = fopen(path, "re");
	if (!file)
		fail(path);
	while (getdelim(&text, &size, strcmp(name, "modules.alias") ? '\0' : '\n', file) > 0) {
		const char *alias = strstr(text, "net-pf-");
		unsigned long family = alias ? strtoul(alias + strlen("net-pf-"), NULL, 10) : 0;

		if (family < FAMILIES)
			families[family] = true;
	}
	free(text);
	fclose(file);
}

/* Is there such a family? A type that it does not have is another error, so one type is enough to ask. */
static bool family_known(int family)
{
	int fd = socket(family, SOCK_DGRAM, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno != EAFNOSUPPORT;
}

static void print_families(void)
{
	bool families[FAMILIES] = { false };

	mark_aliases("modules.alias", families);
	mark_aliases("modules.builtin.modinfo", families);
	for (int i = 1; i < FAMILIES; i++)
		if (families[i] || family_known(i))
			printf("family %d\n", i);
}

int main(void)
{
	print_btf();
	print_syscalls();
	print_families();
	return fflush(stdout) || ferror(stdout);
}
