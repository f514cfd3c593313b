// SPDX-License-Identifier: Apache-2.0
/*
 * See object.h. libbpf lets a handler of a section have the last word on how a program is loaded, and even on its
 * instructions: ours takes the finished program away and leaves two instructions of a socket filter in its place,
 * which libbpf then loads instead. It never sees what a program really is, and so neither reads the kernel's BTF for
 * what it is attached to nor looks up names there, one by one.
 *
 * Root. What fails is said in *error; nothing is left behind but memory that object_close() frees.
 */
#include "enforce/object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include "cgroup_only.skel.h"
#include "cordon/abi.h"
#include "cordon/decide.h"
#include "enforce.skel.h"
#include "enforce/types.h"

enum { LOG_SIZE = 16 << 20 }; /* of the verifier, for a program that is refused */

/* What a section says; the first row that fits. The rows of the cgroup hooks name the attach type. */
static const struct section {
	const char *prefix;
	enum bpf_prog_type type;
	enum bpf_attach_type attach_type;
} sections[] = {
	{ "lsm/", BPF_PROG_TYPE_LSM, BPF_LSM_MAC },
	{ "fentry/", BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY },
	{ "fexit/", BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT },
	{ "tp_btf/", BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP },
	{ "iter/", BPF_PROG_TYPE_TRACING, BPF_TRACE_ITER },
	{ "cgroup/sock_", BPF_PROG_TYPE_CGROUP_SOCK, 0 },
	{ "cgroup/post_bind", BPF_PROG_TYPE_CGROUP_SOCK, 0 },
	{ "cgroup/getsockopt", BPF_PROG_TYPE_CGROUP_SOCKOPT, 0 },
	{ "cgroup/setsockopt", BPF_PROG_TYPE_CGROUP_SOCKOPT, 0 },
	{ "cgroup/", BPF_PROG_TYPE_CGROUP_SOCK_ADDR, 0 },
	{ "cgroup_skb/", BPF_PROG_TYPE_CGROUP_SKB, 0 },
	{ "sockops", BPF_PROG_TYPE_SOCK_OPS, 0 },
	{ "syscall", BPF_PROG_TYPE_SYSCALL, 0 },
};

/* As FNV-1a, but by words: tells one build from another, nothing more. */
static uint64_t digest(uint64_t hash, const void *data, size_t size)
{
	const char *p = data;
	uint64_t word;

	for (; size >= sizeof(word); size -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash = (hash ^ word) * 0x100000001b3;
		hash ^= hash >> 32;
	}
	for (; size; size--)
		hash = (hash ^ (unsigned char)*p++) * 0x100000001b3;
	return hash;
}

uint64_t object_build(void)
{
	size_t size;
	const void *data = cordon_enforce__elf_bytes(&size);
	uint64_t hash = digest(0xcbf29ce484222325, data, size);

	data = cordon_cgroup_only__elf_bytes(&size);
	return digest(hash, data, size);
}

/* libbpf's first complaint is the best cause there is. */
static char first_warning[400];

static int on_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	if (getenv("CORDON_LIBBPF_DEBUG"))
		return vfprintf(stderr, format, args);
	if (level == LIBBPF_WARN && !first_warning[0]) {
		vsnprintf(first_warning, sizeof(first_warning), format, args);
		first_warning[strcspn(first_warning, "\n")] = '\0';
	}
	return 0;
}

/* The object that is being prepared, for the handler. */
static struct object *preparing;

static void *copy(const void *data, size_t size)
{
	void *p = malloc(size + 1);

	return p ? memcpy(p, data, size) : NULL;
}

/* Called by libbpf for each program that is ready. */
static int on_ready(struct bpf_program *program, struct bpf_prog_load_opts *opts, long cookie)
{
	/* r0 = 0; exit */
	static struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	struct object_program *p = object_find(preparing, bpf_program__name(program));

	(void)cookie;
	if (!p)
		return -ENOENT;
	p->n_insns = bpf_program__insn_cnt(program);
	p->insns = copy(bpf_program__insns(program), p->n_insns * sizeof(*p->insns));
	p->n_functions = opts->func_info_cnt;
	p->function_size = opts->func_info_rec_size;
	p->functions = copy(opts->func_info, (size_t)p->n_functions * p->function_size);
	p->btf_fd = opts->prog_btf_fd;
	if (!p->insns || !p->functions)
		return -ENOMEM;
	opts->func_info_cnt = opts->line_info_cnt = 0;
	return bpf_program__set_insns(program, nothing, ARRAY_SIZE(nothing));
}

static int handler_register(struct error *error)
{
	static const char *const prefixes[] = { "lsm+",	       "fentry+", "fexit+",
						"tp_btf+",     "iter+",	  "cgroup+",
						"cgroup_skb+", "sockops", "syscall" };
	static bool done;

	LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .prog_prepare_load_fn = on_ready);

	for (size_t i = 0; !done && i < ARRAY_SIZE(prefixes); i++)
		if (libbpf_register_prog_handler(prefixes[i], BPF_PROG_TYPE_SOCKET_FILTER, 0,
						 &opts) < 0)
			return error_set(error, ENOTSUP, "libbpf takes no handler of %s",
					 prefixes[i]);
	done = true;
	return 0;
}

static struct bpf_program *next(const struct object *object, struct bpf_program *program)
{
	return bpf_object__next_program(object->bpf, program);
}

static int add_program(struct object *object, const struct bpf_program *bpf, struct error *error)
{
	struct object_program *p = &object->programs[object->n_programs];

	if (object->n_programs == OBJECT_PROGRAMS_MAX)
		return error_set(error, E2BIG, "the BPF object has more than %d programs",
				 OBJECT_PROGRAMS_MAX);
	p->name = bpf_program__name(bpf);
	p->section = bpf_program__section_name(bpf);
	p->wanted = true;
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		if (!strncmp(p->section, sections[i].prefix, strlen(sections[i].prefix))) {
			p->type = sections[i].type;
			p->attach_type = sections[i].attach_type;
			object->n_programs++;
			return 0;
		}
	return error_set(error, EINVAL, "program %s: no rule for section %s", p->name, p->section);
}

int object_open(bool cgroup_only, struct object *ret_object, struct error *error)
{
	struct bpf_program *bpf;
	const void *data;
	char types[64];
	size_t size;
	int err;

	LIBBPF_OPTS(bpf_object_open_opts, opts);

	memset(ret_object, 0, sizeof(*ret_object));
	ret_object->types_fd = memfd_create("cordon-types", MFD_CLOEXEC);
	if (ret_object->types_fd < 0)
		return error_set(error, errno, "memfd_create: %s", strerror(errno));
	snprintf(types, sizeof(types), "/proc/self/fd/%d", ret_object->types_fd);
	if (!getenv("CORDON_ALL_TYPES")) /* for the test that compares */
		opts.btf_custom_path = types;
	libbpf_set_print(on_libbpf);
	err = handler_register(error);
	if (err)
		return err;
	data = cgroup_only ? cordon_cgroup_only__elf_bytes(&size)
			   : cordon_enforce__elf_bytes(&size);
	ret_object->bpf = bpf_object__open_mem(data, size, &opts);
	if (!ret_object->bpf)
		return error_set(error, errno, "cannot open the BPF object: %s (%s)",
				 strerror(errno), first_warning);
	for (bpf = next(ret_object, NULL); !err && bpf; bpf = next(ret_object, bpf))
		err = add_program(ret_object, bpf, error);
	return err;
}

struct object_program *object_find(struct object *object, const char *name)
{
	for (size_t i = 0; i < object->n_programs; i++)
		if (!strcmp(object->programs[i].name, name))
			return &object->programs[i];
	return NULL;
}

/* The maps that are by slot are made for CORDON_FENCES_MAX fences; they get room for so many. */
static int make_room(const struct object *object, uint32_t fences, struct error *error)
{
	static const char *const maps[] = { "cordon_fences",  "cordon_policies", "cordon_state",
					    "cordon_cgroups", "cordon_rings",	 "cordon_peer_keys",
					    "cordon_folds" };

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(object->bpf, maps[i]);
		uint32_t places = map ? bpf_map__max_entries(map) / CORDON_FENCES_MAX : 0;
		int err;

		if (map && bpf_map__fd(map) >= 0)
			continue; /* object_reuse() */
		err = places ? bpf_map__set_max_entries(map, places * fences) : -ENOENT;

		if (err)
			return error_set(error, -err, "cannot size the map %s: %s", maps[i],
					 strerror(-err));
	}
	return 0;
}

/*
 * For tests: CORDON_TEST_LIMITS holds nets=N, roots=N, tasks, sockets, with spaces between. Numbers lower a
 * ceiling, never raise it; a word makes that storage full for processes named cordon-full.
 */
static void test_limits(const struct object *object)
{
	static const char *const full[] = { "tasks", "sockets" };
	static const char *const maps[] = { "nets", "roots" };
	const char *text = getenv("CORDON_TEST_LIMITS"), *at;
	struct bpf_map *map = bpf_object__find_map_by_name(object->bpf, ".rodata.test");
	size_t size;
	uint32_t *bits = map ? (uint32_t *)bpf_map__initial_value(map, &size) : NULL;
	char word[32];

	for (size_t i = 0; text && bits && i < ARRAY_SIZE(full); i++)
		if (strstr(text, full[i]))
			*bits |= 1U << i;
	for (size_t i = 0; text && i < ARRAY_SIZE(maps); i++) {
		unsigned long n;

		snprintf(word, sizeof(word), "%s=", maps[i]);
		at = strstr(text, word);
		n = at ? strtoul(at + strlen(word), NULL, 10) : 0;
		snprintf(word, sizeof(word), "cordon_%s", maps[i]);
		map = bpf_object__find_map_by_name(object->bpf, word);
		if (map && n && n < bpf_map__max_entries(map))
			bpf_map__set_max_entries(map, n);
	}
}

/*
 * Who keeps credentials, as decide_kept() asks: the gateway's user and that of cordond's part without privilege. Who is not there has no
 * files; one that is made later counts when programs are loaded next.
 */
static int keepers(const struct object *object, struct error *error)
{
	static const char *const names[DECIDE_KEEPERS] = { "cordon-gateway", "cordon" };
	struct bpf_map *map = bpf_object__find_map_by_name(object->bpf, ".rodata.keepers");
	size_t size = 0;
	uint32_t *ids;

	ids = map ? (uint32_t *)bpf_map__initial_value(map, &size) : NULL;
	if (!ids || size != sizeof(uint32_t) * 2 * DECIDE_KEEPERS)
		return error_set(error, EINVAL, "the BPF object has no cordon_keepers");
	for (size_t i = 0; i < DECIDE_KEEPERS; i++) {
		const struct passwd *user = getpwnam(names[i]);
		const struct group *group = getgrnam(names[i]);

		ids[2 * i] = user ? user->pw_uid : 0;
		ids[2 * i + 1] = group ? group->gr_gid : 0;
	}
	return 0;
}

int object_number(struct object *object, uint32_t set, struct error *error)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object->bpf, ".rodata.set");
	size_t size = 0;
	void *value = map ? (void *)bpf_map__initial_value(map, &size) : NULL;

	if (!value || size != sizeof(set))
		return error_set(error, EINVAL, "the BPF object has no cordon_set");
	memcpy(value, &set, sizeof(set));
	return 0;
}

int object_reuse(struct object *object, const char *name, int fd, struct error *error)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object->bpf, name);
	struct bpf_map_info info = { 0 };
	uint32_t size = sizeof(info);
	int err;

	if (!map || bpf_obj_get_info_by_fd(fd, &info, &size))
		return error_set(error, map ? errno : ENOENT, "cannot look at the map %s", name);
	if (info.type != bpf_map__type(map) || info.key_size != bpf_map__key_size(map) ||
	    info.value_size != bpf_map__value_size(map))
		return error_set(error, EPROTO, "the map %s that is loaded has other records",
				 name);
	err = bpf_map__reuse_fd(map, fd);
	return err ? error_set(error, -err, "cannot use the map %s: %s", name, strerror(-err)) : 0;
}

int object_prepare(struct object *object, uint32_t fences, struct error *error)
{
	struct bpf_program *bpf;
	int err;

	for (bpf = next(object, NULL); bpf; bpf = next(object, bpf))
		bpf_program__set_autoload(bpf, object_find(object, bpf_program__name(bpf))->wanted);
	err = make_room(object, fences, error);
	if (err)
		return err;
	test_limits(object);
	err = keepers(object, error);
	if (err)
		return err;
	err = types_extract(bpf_object__btf(object->bpf), object->types_fd, error);
	if (err)
		return err;
	preparing = object;
	err = bpf_object__load(object->bpf);
	preparing = NULL;
	if (err)
		return error_set(error, -err, "cannot prepare the BPF object: %s (%s)",
				 strerror(-err), first_warning);
	return 0;
}

int object_map_fd(const struct object *object, const char *name)
{
	return bpf_object__find_map_fd_by_name(object->bpf, name);
}

static int load(const struct object_program *p, uint32_t log_level, char *log, size_t log_size)
{
	int fd;

	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = p->attach_type,
		    .attach_btf_id = p->attach_btf_id, .prog_btf_fd = (uint32_t)p->btf_fd,
		    .func_info = p->functions, .func_info_cnt = p->n_functions,
		    .func_info_rec_size = p->function_size, .log_level = log_level, .log_buf = log,
		    .log_size = (uint32_t)log_size,
		    .prog_flags = p->type == BPF_PROG_TYPE_SYSCALL ? BPF_F_SLEEPABLE : 0);

	fd = bpf_prog_load(p->type, p->name, "GPL", p->insns, p->n_insns, &opts);
	return fd < 0 ? -errno : fd;
}

/* The verifier's last words before its statistics. */
static const char *complaint(char *log)
{
	char *end = strstr(log, "\nverification time"), *line;

	if (!end)
		end = strstr(log, "\nprocessed ");
	if (end)
		*end = '\0';
	line = strrchr(log, '\n');
	return line ? line + 1 : log;
}

int object_load(const struct object_program *program, struct error *error)
{
	bool debug = getenv("CORDON_LIBBPF_DEBUG");
	_cleanup_free_ char *log = debug ? calloc(1, LOG_SIZE) : NULL;
	int fd = load(program, log ? 4 : 0, log, log ? LOG_SIZE : 0);

	if (fd >= 0) {
		if (log)
			fprintf(stderr, "%s: %s", program->name, log);
		return fd;
	}
	if (!log)
		log = calloc(1, LOG_SIZE);
	if (log)
		load(program, 1, log, LOG_SIZE);
	if (log && debug)
		fprintf(stderr, "%s: %s", program->name, log);
	return error_set(error, -fd, "the kernel refused the program %s (%s): %s", program->name,
			 strerror(-fd), log ? complaint(log) : "");
}

void object_close(struct object *object)
{
	for (size_t i = 0; i < object->n_programs; i++) {
		free(object->programs[i].insns);
		free(object->programs[i].functions);
	}
	bpf_object__close(object->bpf);
	if (object->types_fd > 0)
		close(object->types_fd);
	memset(object, 0, sizeof(*object));
}
