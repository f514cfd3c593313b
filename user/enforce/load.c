// SPDX-License-Identifier: Apache-2.0
/*
 * Loading: chooses for every hook how it is attached, loads, attaches and pins - all rows of include/cordon/hooks.h or
 * none. The verifier needs most of the time, and takes one program a caller: so there are about as many threads as
 * processors, each takes the next program, the largest first, and attaches it too. Runs as root in a child of its own,
 * because the BTF that libbpf reads costs tens of megabytes; the parent works with the pins. On failure everything that
 * was pinned is removed again and the reason goes to the parent through a pipe.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

#include "cordon/hooks.h"
#include "enforce/internal.h"
#include "enforce/object.h"

enum {
	THREADS_MAX = 16,
	THREADS_MORE = 2, /* than processors: attaching waits for grace periods now and then */
};

/* A row of CORDON_LSM_HOOKS. */
struct lsm_row {
	const char *program;
	const char *hook;
	const char *security;
	int nargs;
	enum { HOOK_OPTIONAL = 1, HOOK_ON_DEMAND = 2 } optional;
};

static const struct lsm_row lsm_rows[] = {
#define CORDON_X(program, hook, security, nargs, optional) \
	{ #program, #hook, #security, nargs, optional },
	CORDON_LSM_HOOKS(CORDON_X)
#undef CORDON_X
};

enum { LSM_ROWS = ARRAY_SIZE(lsm_rows) };

/* What needs a type of the kernel's to be loaded; "pin" says that it is attached, to the whole host, and pinned. */
static const struct trace_row {
	const char *program;
	const char *type; /* of the kernel's */
	bool is_typedef;
	bool pin;
	bool demand; /* loaded and attached when a fence needs it; the kernel may lack it */
} trace_rows[] = {
#define CORDON_X(program, tracepoint) { #program, "btf_trace_" #tracepoint, true, true, false },
	CORDON_TRACE_HOOKS(CORDON_X)
#undef CORDON_X
#define CORDON_X(program, function) { #program, #function, false, true, false },
		CORDON_ENTRY_HOOKS(CORDON_X)
#undef CORDON_X
#define CORDON_X(program, function, need) { #program, #function, false, true, true },
			CORDON_DEMAND_HOOKS(CORDON_X)
#undef CORDON_X
#define CORDON_X(program, iterator) { #program, "bpf_iter_" #iterator, false, false, false },
				CORDON_ITERATORS(CORDON_X)
#undef CORDON_X
};

enum { TRACE_ROWS = ARRAY_SIZE(trace_rows) };

static const struct cgroup_row {
	const char *program;
	enum bpf_attach_type attach_type;
} cgroup_rows[] = {
#define CORDON_X(program, type) { #program, BPF_##type },
	CORDON_CGROUP_HOOKS(CORDON_X)
#undef CORDON_X
};

const char *enforce_prog_name(enum enforce_prog prog)
{
	static const char *const names[] = {
#define CORDON_X(program, type) #program,
		CORDON_CGROUP_HOOKS(CORDON_X) CORDON_ITERATORS(CORDON_X)
			CORDON_RUN_PROGRAMS(CORDON_X)
#undef CORDON_X
	};

	return names[prog];
}

int enforce_prog_attach_type(enum enforce_prog prog)
{
	return cgroup_rows[prog].attach_type;
}

/* --- choosing ----------------------------------------------------------------------------------------------- */

static int find_program(struct object *object, const char *name, struct object_program **ret,
			struct error *error)
{
	*ret = object_find(object, name);
	return *ret ? 0 : error_set(error, ENOENT, "program %s is not in the object", name);
}

/* The kernel's types that programs are attached to: those of lsm_rows, then those of trace_rows. */
static int look_up(struct host_type *types, char (*names)[128], const struct enforce_meta *meta,
		   struct error *error)
{
	int err;

	for (size_t i = 0; i < LSM_ROWS; i++) {
		snprintf(names[i], sizeof(names[i]), "%s%s",
			 meta->fmod_ret ? "security_" : "bpf_lsm_",
			 meta->fmod_ret ? lsm_rows[i].security : lsm_rows[i].hook);
		types[i].name = names[i];
	}
	for (size_t i = 0; i < TRACE_ROWS; i++) {
		types[LSM_ROWS + i].name = trace_rows[i].type;
		types[LSM_ROWS + i].is_typedef = trace_rows[i].is_typedef;
	}
	err = host_types_find(types, LSM_ROWS + TRACE_ROWS);
	if (err)
		return error_set(error, ENOTSUP,
				 "/sys/kernel/btf/vmlinux cannot be read (%s); use a kernel with "
				 "CONFIG_DEBUG_INFO_BTF",
				 strerror(-err));
	return 0;
}

static int choose_lsm(struct object *object, const struct enforce_meta *meta,
		      const struct lsm_row *row, const struct host_type *type, struct error *error)
{
	struct object_program *program;
	int err = find_program(object, row->program, &program, error);

	if (err)
		return err;
	program->wanted = !meta->degraded && type->id && type->nargs == row->nargs;
	program->attach_btf_id = type->id;
	if (meta->fmod_ret) {
		program->type = BPF_PROG_TYPE_TRACING;
		program->attach_type = BPF_MODIFY_RETURN;
	}
	return 0;
}

static int choose_trace(struct object *object, const struct enforce_meta *meta,
			const struct trace_row *row, const struct host_type *type,
			struct error *error)
{
	struct object_program *program;
	int err = find_program(object, row->program, &program, error);

	if (err)
		return err;
	program->attach_btf_id = type->id;
	/* A degraded fence has no marks to set, but its programs are pinned all the same: there is one set of pins. */
	program->wanted = (!meta->degraded || !row->pin) && (type->id || !row->demand);
	if (program->wanted && !type->id)
		return error_set(error, ENOTSUP,
				 "this kernel has no %s for %s; use a kernel of the tested list, "
				 "or --degraded",
				 row->type, row->program);
	return 0;
}

/* Every hook must have got exactly one program, optional ones at most one. */
static int check_rows(struct object *object, struct error *error)
{
	for (size_t i = 0; i < LSM_ROWS; i++) {
		int n = 0;

		for (size_t j = 0; j < LSM_ROWS; j++)
			if (!strcmp(lsm_rows[i].hook, lsm_rows[j].hook))
				n += object_find(object, lsm_rows[j].program)->wanted;
		if (n != 1 && !(n == 0 && lsm_rows[i].optional == HOOK_OPTIONAL))
			return error_set(
				error, ENOTSUP,
				"this kernel's hook %s has %s; use a kernel of the tested list, "
				"or --degraded",
				lsm_rows[i].hook,
				n ? "two fitting programs" : "no fitting program");
	}
	return 0;
}

static int choose(struct object *object, const struct enforce_meta *meta, struct error *error)
{
	struct host_type types[LSM_ROWS + TRACE_ROWS] = { 0 };
	char names[LSM_ROWS][128];
	int err = look_up(types, names, meta, error);

	for (size_t i = 0; !err && i < LSM_ROWS; i++)
		err = choose_lsm(object, meta, &lsm_rows[i], &types[i], error);
	for (size_t i = 0; !err && i < TRACE_ROWS; i++)
		err = choose_trace(object, meta, &trace_rows[i], &types[LSM_ROWS + i], error);
	for (size_t i = 0; !err && i < ARRAY_SIZE(cgroup_rows); i++) {
		struct object_program *program;

		err = find_program(object, cgroup_rows[i].program, &program, error);
		if (!err)
			program->attach_type = cgroup_rows[i].attach_type;
	}
	return err || meta->degraded ? err : check_rows(object, error);
}

/* --- loading, by several threads ---------------------------------------------------------------------------- */

/* Where this process pins; set before there are threads. */
static const char *pin_dir = ENFORCE_PIN_DIR "/";

static int pin_path(char *path, size_t size, const char *kind, const char *name)
{
	return snprintf(path, size, "%s%s%s", pin_dir, kind, name) < (int)size ? 0 : -ENAMETOOLONG;
}

static int pin_fd(int fd, const char *kind, const char *name, struct error *error)
{
	char path[256];

	pin_path(path, sizeof(path), kind, name);
	if (bpf_obj_pin(fd, path))
		return error_set(error, errno, "cannot pin %s: %s", path, strerror(errno));
	return 0;
}

/* Attaches one program everywhere (LSM, function, tracepoint) and pins the link. */
static int attach_pin(const struct object_program *program, int fd, struct error *error)
{
	_cleanup_close_ int link = bpf_link_create(fd, 0, program->attach_type, NULL);

	if (link < 0)
		return error_set(error, errno, "cannot attach %s: %s", program->name,
				 strerror(errno));
	return pin_fd(link, "link_", program->name, error);
}

/* Is the program itself pinned, for others to run or attach it? All else is attached here. */
static bool pinned_itself(const struct object_program *program)
{
	for (int i = 0; i < ENFORCE_PROG_COUNT; i++)
		if (!strcmp(program->name, enforce_prog_name(i)))
			return true;
	for (size_t i = 0; i < LSM_ROWS; i++)
		if (lsm_rows[i].optional == HOOK_ON_DEMAND &&
		    !strcmp(program->name, lsm_rows[i].program))
			return true;
	for (size_t i = 0; i < TRACE_ROWS; i++)
		if (trace_rows[i].demand && !strcmp(program->name, trace_rows[i].program))
			return true;
	return false;
}

static int load_one(const struct object_program *program, struct error *error)
{
	_cleanup_close_ int fd = object_load(program, error);

	if (fd < 0)
		return fd;
	if (pinned_itself(program))
		return pin_fd(fd, "prog_", program->name, error);
	return attach_pin(program, fd, error);
}

/* What the threads share: who takes which program, and the first failure. */
struct queue {
	const struct object_program *programs[OBJECT_PROGRAMS_MAX];
	size_t n;
	atomic_size_t next;
	atomic_int err;
	pthread_mutex_t lock; /* of error */
	struct error *error;
};

static void *load_some(void *context)
{
	struct queue *queue = context;
	size_t i;

	while (!queue->err && (i = queue->next++) < queue->n) {
		struct error error = { "" };
		int err = load_one(queue->programs[i], &error);

		if (!err)
			continue;
		pthread_mutex_lock(&queue->lock);
		if (!queue->err)
			error_set(queue->error, -err, "%s", error.text);
		queue->err = err;
		pthread_mutex_unlock(&queue->lock);
	}
	return NULL;
}

static int larger_first(const void *a, const void *b)
{
	const struct object_program *const *x = a, *const *y = b;

	return ((*x)->n_insns < (*y)->n_insns) - ((*x)->n_insns > (*y)->n_insns);
}

static int load_all(const struct object *object, struct error *error)
{
	struct queue queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .error = error };
	pthread_t threads[THREADS_MAX];
	cpu_set_t cpus;
	int n, started;

	for (size_t i = 0; i < object->n_programs; i++)
		if (object->programs[i].wanted)
			queue.programs[queue.n++] = &object->programs[i];
	qsort(queue.programs, queue.n, sizeof(queue.programs[0]), larger_first);
	n = (sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : CPU_COUNT(&cpus)) + THREADS_MORE;
	for (started = 0; started < n - 1 && started < THREADS_MAX; started++)
		if (pthread_create(&threads[started], NULL, load_some, &queue))
			break; /* those that there are do it, too */
	load_some(&queue);
	while (started)
		pthread_join(threads[--started], NULL);
	return queue.err;
}

/* --- the whole ---------------------------------------------------------------------------------------------- */

static const char *const map_names[] = {
#define ENFORCE_X(name) "cordon_" #name,
	ENFORCE_MAPS(ENFORCE_X)
#undef ENFORCE_X
};

static int pin_maps(const struct object *object, struct error *error)
{
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(map_names); i++)
		err = pin_fd(object_map_fd(object, map_names[i]), "", map_names[i], error);
	return err;
}

static int reuse_maps(struct object *object, const struct enforce *beside, struct error *error)
{
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(map_names); i++)
		err = object_reuse(object, map_names[i], beside->map[i], error);
	return err;
}

/* Pinned last: that it is there says that all is there. */
static int pin_meta(const struct enforce_meta *meta, struct error *error)
{
	_cleanup_close_ int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "cordon_meta", sizeof(uint32_t),
						sizeof(*meta), 1, NULL);
	uint32_t zero = 0;

	if (fd < 0 || bpf_map_update_elem(fd, &zero, meta, BPF_ANY))
		return error_set(error, errno, "cannot make the map cordon_meta: %s",
				 strerror(errno));
	return pin_fd(fd, "", "cordon_meta", error);
}

/* Of what was chosen, what is loaded now. */
enum part {
	PART_SET,  /* what always is: fences that need more have it loaded */
	PART_NEXT, /* another set, with all that fences of the one in effect may have had loaded */
	PART_DEMAND, /* what some fences need besides, for the set in effect */
};

static void choose_part(struct object *object, enum part part)
{
	bool late = part == PART_DEMAND || (part == PART_NEXT && !access(ENFORCE_LATE_PIN, F_OK));

	for (size_t i = 0; part == PART_DEMAND && i < object->n_programs; i++) {
		bool demand = false;

		for (size_t j = 0; j < TRACE_ROWS; j++)
			demand |= trace_rows[j].demand &&
				  !strcmp(object->programs[i].name, trace_rows[j].program);
		object->programs[i].wanted &= demand;
	}
	for (size_t j = 0; !late && j < TRACE_ROWS; j++)
		if (trace_rows[j].demand)
			object_find(object, trace_rows[j].program)->wanted = false;
}

/* maps: whose maps are shared, or NULL. */
static int load_here(const struct enforce_meta *meta, const struct enforce *maps, enum part part,
		     struct error *error)
{
	struct object object;
	int err = object_open(meta->degraded, &object, error);

	if (part == PART_NEXT)
		pin_dir = ENFORCE_PIN_DIR "/" ENFORCE_NEXT;
	if (!err)
		err = choose(&object, meta, error);
	if (!err) {
		choose_part(&object, part);
		err = object_number(&object, meta->set, error);
	}
	if (!err && maps)
		err = reuse_maps(&object, maps, error);
	if (!err)
		err = object_prepare(&object, meta->fences, error);
	if (!err && !maps)
		err = pin_maps(&object, error);
	if (!err)
		err = load_all(&object, error);
	if (!err && part == PART_DEMAND)
		err = pin_fd(maps->map[ENFORCE_MAP_state], "", ENFORCE_LATE, error);
	else if (!err)
		err = pin_meta(meta, error);
	object_close(&object);
	return err;
}

static int load_in_child(const struct enforce_meta *meta, const struct enforce *maps,
			 enum part part, struct error *error)
{
	struct error child_error = { "" };
	int fds[2], status, n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return error_set(error, errno, "pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0) {
		close(fds[0]);
		close(fds[1]);
		return error_set(error, errno, "fork: %s", strerror(errno));
	}
	if (!pid) {
		int err = load_here(meta, maps, part, &child_error);

		if (err)
			(void)!write(fds[1], child_error.text, strlen(child_error.text));
		_exit(err ? -err & 0x7f : 0);
	}
	close(fds[1]);
	n = read(fds[0], child_error.text, sizeof(child_error.text) - 1);
	close(fds[0]);
	child_error.text[n > 0 ? n : 0] = '\0';
	if (waitpid(pid, &status, 0) < 0)
		return error_set(error, errno, "waitpid: %s", strerror(errno));
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (!child_error.text[0])
		snprintf(child_error.text, sizeof(child_error.text), "the loader died (status %d)",
			 status);
	return error_set(error, WIFEXITED(status) ? WEXITSTATUS(status) : EIO, "%s",
			 child_error.text);
}

int enforce_load(const struct enforce_meta *meta, const struct enforce *beside, struct error *error)
{
	return load_in_child(meta, beside, beside ? PART_NEXT : PART_SET, error);
}

int enforce_load_demand(const struct enforce *enforce, struct error *error)
{
	return load_in_child(&enforce->meta, enforce, PART_DEMAND, error);
}
