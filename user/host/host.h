/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host as Cordon needs it: its control groups, what its kernel offers, and the launch of a command into a fence.
 * Privileged, but parses no text that others wrote except files of /proc and /sys. Knows neither BPF objects nor
 * policies; functions return 0 or -errno and say the cause and the remedy in *error.
 */
#ifndef CORDON_HOST_H
#define CORDON_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/util.h"

/* --- control groups (cgroup v2) ------------------------------------------------------------------------------ */

enum host_cgroup_layout {
	HOST_CGROUP_NONE,    /* no cgroup2 mount */
	HOST_CGROUP_V2,	     /* cgroup2 is all there is */
	HOST_CGROUP_HYBRID,  /* cgroup2 beside v1 controllers; BPF works, ceilings may not */
	HOST_CGROUP_V1_ONLY, /* only v1 hierarchies */
};

/*
 * Finds the cgroup2 mount in /proc/self/mountinfo; ret_mount (PATH_MAX bytes) is set unless NONE or V1_ONLY.
 * The functions below that look for it return -ENOTSUP where there is none, and in a private cgroup namespace, where
 * neither paths nor levels are those that BPF sees.
 */
enum host_cgroup_layout host_cgroup_find(char *ret_mount);

struct host_cgroup {
	char *path; /* absolute, below the cgroup2 mount; owned; NULL when closed */
	int fd; /* O_PATH|O_DIRECTORY, owned; -1 when closed (also after a failed make or open) */
	uint64_t id;	/* cgroup id as BPF helpers give it (from name_to_handle_at) */
	uint32_t level; /* 0: the root */
};

/* Makes MOUNT/cordon/NAME (and MOUNT/cordon) and opens it. NAME must not exist: -EEXIST. Controllers: limits.h. */
int host_cgroup_make(const char *name, struct host_cgroup *ret_cgroup, struct error *error);

/*
 * Opens a cgroup that exists, by its path in the file system or, as /proc/PID/cgroup has it, below the mount.
 * Refuses the root of the hierarchy (it would fence the host): -EPERM.
 */
int host_cgroup_open(const char *path, struct host_cgroup *ret_cgroup, struct error *error);

/*
 * The cgroup2 directory of a process: MOUNT/path, for host_cgroup_open. -ESRCH no such process, -ENOENT its cgroup was
 * removed, -EXDEV it is outside this cgroup namespace.
 */
int host_cgroup_of_pid(pid_t pid, char *ret_path, size_t size, struct error *error);

/*
 * Init pid and full id (129 bytes hold it) of a running container by id (prefix) or name: podman, docker, then containerd in all
 * of its name spaces. Runs their CLIs, at most 10 s each call. -EEXIST several are meant, -EINVAL no such name can be, -ENOENT no engine or no such container, -ESRCH not running,
 * -ETIMEDOUT, -EIO the engine's own failure, -EPROTO an answer that is none.
 */
int host_container_pid(const char *container, pid_t *ret_pid, char *ret_id, size_t id_size,
		       struct error *error);

/*
 * Freezes (or thaws) all tasks and waits until it took effect, at most timeout_ms: -ETIMEDOUT, and a freeze that did
 * not come about is undone. Not the cgroup that this process is in: -EDEADLK (the same for kill).
 */
int host_cgroup_freeze(const struct host_cgroup *cgroup, bool freeze, unsigned int timeout_ms,
		       struct error *error);

/* Are all tasks frozen, by whomever? 1 yes, 0 no, -errno. */
int host_cgroup_frozen(const struct host_cgroup *cgroup);

/* Kills all tasks (cgroup.kill; where it is missing, SIGKILL to each until none is left) and waits until empty. */
int host_cgroup_kill(const struct host_cgroup *cgroup, unsigned int timeout_ms,
		     struct error *error);

/* Is there any task in it or below? 1 yes, 0 no, -errno. */
int host_cgroup_populated(const struct host_cgroup *cgroup);

/* Is the process pid all that is in it and below? 0, or -EBUSY and another that is; -ESRCH: nobody is. */
int host_cgroup_only(const struct host_cgroup *cgroup, pid_t pid, struct error *error);

/* Was it removed? False when that cannot be told. */
bool host_cgroup_gone(const struct host_cgroup *cgroup);

/*
 * Removes it and all cgroups below, and MOUNT/cordon when it was the last there, and closes it; stays open when it
 * fails. -EBUSY: there are tasks (newer kernels count one that was just reaped: it waits 0.2 s for that). A cgroup that
 * is gone, or a closed one, is no error.
 */
int host_cgroup_remove(struct host_cgroup *cgroup, struct error *error);

void host_cgroup_close(struct host_cgroup *cgroup); /* takes a closed or zeroed one */

/* --- the kernel's types -------------------------------------------------------------------------------------- */

struct host_type {
	const char *name;
	bool is_typedef; /* a typedef, not a function */
	uint32_t id;	 /* found: its BTF type id; 0: it is not there */
	int nargs;	 /* found, of a function: number of arguments */
};

/*
 * Looks up at most 256 functions and typedefs of the kernel by name, in a few milliseconds. 0, -ENOENT when the kernel
 * has no readable BTF, -EBADMSG when it is not understood to the end (what was found until then is valid).
 */
int host_types_find(struct host_type *wanted, size_t n);

/*
 * The type information of the kernel ("vmlinux") or of one of its modules, as it is: to be given back by munmap(2). NULL
 * with errno set when there is none.
 */
void *host_types_map(const char *name, size_t *ret_size);

/* Bytes that follow a type's header in it, by its kind; SIZE_MAX for an unknown kind, behind which nothing can be read. */
struct btf_type;
size_t host_type_extra(const struct btf_type *type);

/* --- what this host can enforce ------------------------------------------------------------------------------- */

/* In the order of the doctor's table: the first lack is the one to begin with. */
enum host_fact {
	HOST_KERNEL, /* 6.1 or later */
	HOST_CAPS, /* CAP_SYS_ADMIN (with it CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN), in the host's user namespace */
	HOST_BTF,     /* /sys/kernel/btf/vmlinux */
	HOST_BPF_LSM, /* bpf in /sys/kernel/security/lsm -> attach as lsm; else as fmod_ret */
	HOST_FMOD_RET, /* trampolines (both attach types need them), and a program loads on security_file_open */
	HOST_PREEMPTION,    /* no hook is skipped because another task was preempted in it */
	HOST_SECURITY_PATH, /* path hooks exist */
	HOST_JIT,	    /* bpf_loop and trampolines need it */
	HOST_RINGBUF,	    /* BPF_MAP_TYPE_RINGBUF can be made */
	HOST_TASK_STORAGE,
	HOST_CGROUP,   /* cgroup v2 mount, seen from the host's cgroup namespace, takes programs */
	HOST_BPFFS,    /* bpffs at /sys/fs/bpf */
	HOST_LOCKDOWN, /* not confidentiality */
	HOST_MEMLOCK,  /* enough, or not accounted (>= 5.11) */
	HOST_FACT_COUNT
};

/* NOTE: worth saying, but no lack; also what could not be seen. */
enum host_status { HOST_OK, HOST_NOTE, HOST_LACK };

/* `need` bits: what a lack takes away. RACE: all is enforced, but who tries long enough gets past a hook. */
enum { HOST_NEED_FILES = 1, HOST_NEED_NETWORK = 2, HOST_NEED_RACE = 4 };

struct host_report {
	struct {
		enum host_status status;
		unsigned int need; /* parts of the fence that are lost by a lack */
		char found[160];   /* what is there, one line */
		char remedy[200];  /* what to do; empty when ok */
	} fact[HOST_FACT_COUNT];
	bool use_fmod_ret;	 /* which attach type, */
	char attach_reason[160]; /* and why */
	unsigned int lost;	 /* union of need over the lacks: 0 can enforce all */
};

/*
 * Looks only; changes and attaches nothing. When privileged it makes and drops two maps and loads and drops programs of
 * two instructions. Leaves no memory behind.
 */
void host_probe(struct host_report *ret_report);
const char *host_fact_name(enum host_fact fact);

/* "NAME FOUND; REMEDY": what doctor and a refusal say of one fact. */
void host_report_line(const struct host_report *report, enum host_fact fact, char *ret_line,
		      size_t size);

/* The first lack as one line with its remedy, for `cordon run` to refuse with; returns -ENOTSUP, 0 if none. */
int host_report_refuse(const struct host_report *report, struct error *error);

/* --- launching a command ---------------------------------------------------------------------------------------- */

struct host_launch {
	char *const *argv;     /* NULL-terminated */
	char *const *env_pass; /* names taken from this process's environment; NULL-terminated */
	char *const *env_set;  /* NAME=value; NULL-terminated; wins over env_pass */
	char *const *
		private_dirs; /* each gets an empty tmpfs in a mount namespace of its own; NULL-terminated. They
				   * must exist: -ENOENT. One that is the workdir itself is left as it is; a
				   * workdir below one stays visible and writable at its path */
	const char *workdir; /* chdir there; NULL: stay */
	const char *
		user; /* run as this user (name or uid), its groups and no capabilities; NULL: as the caller */
	const struct host_cgroup *cgroup; /* born there (clone3 CLONE_INTO_CGROUP) */
};

/*
 * A child that is set up (namespace, private tmpfs, cgroup) and waits, before exec and before dropping root: the
 * parent then marks it as fenced, opens what it must see inside (/proc/PID/root/...), and lets it go.
 */
struct host_child {
	pid_t pid;
	int pidfd; /* owned */
	int go_fd; /* owned; write end */
	int err_fd; /* owned; reads the errno of a failed setup or exec; closed by a successful exec */
	const char *command; /* argv[0] of the launch, not owned: for messages */
};

/*
 * Forks the child into the cgroup. It dies when the calling thread does (PR_SET_PDEATHSIG before anything else), closes
 * every descriptor beyond 0-2 (close_range), resets signals (an ignored SIGHUP stays so: nohup). Returns when the child
 * reports that its set-up is done, at most 30 s later. The child stays in the session and process group, so the
 * terminal's signals reach it once, directly: ignore SIGINT and SIGQUIT meanwhile, do not forward them.
 */
int host_launch(const struct host_launch *launch, struct host_child *ret_child,
		struct error *error);

/*
 * Lets it set no_new_privs, chdir, change its user and exec. 0: it runs the command (or was killed before, which its exit
 * status says), pid and pidfd are the caller's to wait for and close. Else -errno (-ENOENT not found; -EACCES, -ENOEXEC
 * not executable), and the child is gone. Blocks until exec.
 */
int host_child_go(struct host_child *child, struct error *error);

/* Kills a child that waits, and reaps it; closes. Takes a zeroed or ended one (pid 0). */
void host_child_kill(struct host_child *child);

/* CLOCK_BOOTTIME start of this process in ns (from /proc/self/stat: steps of 10 ms), for the cold start figure. */
uint64_t host_process_start_ns(void);

#endif
