/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the halves of a launch: launch_plan.c makes everything ready in the parent (memory,
 * names, paths), launch.c forks and talks, launch_child.c runs in the child, where it neither
 * allocates nor looks up a name.
 */
#ifndef CORDON_HOST_LAUNCH_H
#define CORDON_HOST_LAUNCH_H

#include "host/host.h"

struct launch_plan {
	char *const *argv;
	char **env;	   /* the whole environment of the command */
	char **candidates; /* paths to try to execute, in order */
	char **dirs; /* private directories: canonical, sorted (a parent before what is below it) */
	size_t n_dirs;
	char *workdir;	   /* canonical; NULL: stay */
	size_t keep_after; /* n_dirs, or the last of dirs that would hide the workdir */
	bool drop;	   /* become the user below */
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int n_groups;
	pid_t parent;
	int go_fd;  /* read end; a byte means go, end of file that the parent is gone */
	int err_fd; /* write end for struct launch_message */
};

/* What the child says. stage is an index into launch_stages. */
struct launch_message {
	uint32_t stage;
	int32_t err;  /* errno, 0 with LAUNCH_READY */
	uint32_t dir; /* which of the plan's private directories, where the stage concerns one */
};

/*
 * The order is that of the work. LAUNCH_READY ends what happens before the parent lets the child
 * go.
 */
#define LAUNCH_STAGES(X)                                            \
	X(TIE, "tie it to this process (PR_SET_PDEATHSIG)")         \
	X(SIGNALS, "reset signals")                                 \
	X(CLOSE, "close inherited descriptors (close_range)")       \
	X(NAMESPACE, "make namespaces of mounts and of IPC")        \
	X(SLAVE, "keep its mounts from the host")                   \
	X(KEEP, "keep the workdir visible")                         \
	X(PRIVATE, "mount an empty tmpfs on private directory")     \
	X(RESTORE, "bring the workdir back into private directory") \
	X(READY, "wait for the fence")                              \
	X(PRIVS, "set no_new_privs")                                \
	X(WORKDIR, "enter the workdir")                             \
	X(USER, "change the user")                                  \
	X(EXEC, "execute")

enum launch_stage {
#define LAUNCH_X(name, text) LAUNCH_##name,
	LAUNCH_STAGES(LAUNCH_X)
#undef LAUNCH_X
};

int launch_plan_make(const struct host_launch *launch, struct launch_plan *ret_plan,
		     struct error *error);
void launch_plan_free(
	struct launch_plan *plan); /* takes a zeroed or half-made one; closes no descriptor */

/* The child's life until exec. All signals are blocked on entry. */
_Noreturn void launch_child(const struct launch_plan *plan);

#endif
