// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a command inside the last of many fences, made by this one process by the library that `cordon attach` uses: for
 * `make bench`, which asks whether what a call costs grows with them. Root; the programs are loaded by somebody else
 * already, or by this. The fences but the last have a policy of their own each, the first one; nobody is in them.
 *
 * usage: fences COUNT POLICY WORKDIR COMMAND [ARG...]
 *
 * What is allowed is not reported: the decisions alone are measured. Exit: COMMAND's code, 125 when it was not started.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "enforce/enforce.h"
#include "policy/policy.h"
#include "util/util.h"

enum { NOT_STARTED = 125, MORE_DESCRIPTORS = 1 << 20 };

struct fenced {
	struct host_cgroup cgroup;
	struct enforce_fence *fence;
};

static void must(int err, const struct error *error)
{
	if (!err)
		return;
	fprintf(stderr, "fences: %s\n", error->text[0] ? error->text : strerror(-err));
	exit(NOT_STARTED);
}

static struct image *compile(const char *path, const char *workdir)
{
	struct policy_options options = { .check_paths = true, .workdir = workdir };
	struct conf_faults faults = { 0 };
	struct policy *policy = NULL;
	struct image *image = NULL;
	struct error error = { "" };

	must(policy_load(path, &options, &policy, &faults), &error);
	must(policy_compile(policy, &image), &error);
	policy_free(policy);
	return image;
}

static void make(struct enforce *enforce, struct fenced *f, unsigned int n,
		 const struct image *image)
{
	struct enforce_fence_options options = { .cgroup = &f->cgroup,
						 .ring_bytes = ENFORCE_RING_MIN };
	struct error error = { "" };
	char name[32];

	snprintf(name, sizeof(name), "bench-%u", n);
	must(host_cgroup_make(name, &f->cgroup, &error), &error);
	must(enforce_fence_make(enforce, &options, &f->fence, &error), &error);
	must(enforce_fence_set(f->fence, image, getpid(), false, &error), &error);
}

/* A fence takes some descriptors. The command gets the limit that this process had. */
static struct rlimit descriptors;

static void more_descriptors(void)
{
	const struct rlimit more = { MORE_DESCRIPTORS, MORE_DESCRIPTORS };

	getrlimit(RLIMIT_NOFILE, &descriptors);
	setrlimit(RLIMIT_NOFILE, &more);
}

/* As the first process of the fence's cgroup. */
static int run(const struct fenced *f, const char *workdir, char **argv)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		int procs = openat(f->cgroup.fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);

		if (procs < 0 || chdir(workdir) || write(procs, "0", 1) != 1)
			_exit(NOT_STARTED);
		setrlimit(RLIMIT_NOFILE, &descriptors);
		execvp(argv[0], argv);
		_exit(NOT_STARTED);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return NOT_STARTED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : NOT_STARTED;
}

int main(int argc, char **argv)
{
	unsigned int count = argc > 4 ? strtoul(argv[1], NULL, 10) : 0;
	struct fenced *fences = calloc(count, sizeof(*fences));
	struct error error = { "" };
	struct host_report report;
	struct enforce *enforce;
	struct image *image;
	int code;

	if (!count || !fences)
		return 2;
	image = compile(argv[2], argv[3]);
	more_descriptors();
	host_probe(&report);
	must(enforce_open(&report, false, &enforce, &error), &error);
	for (unsigned int i = 0; i < count; i++)
		make(enforce, &fences[i], i, image);
	code = run(&fences[count - 1], argv[3], argv + 4);
	for (unsigned int i = 0; i < count; i++) {
		enforce_fence_end(fences[i].fence);
		host_cgroup_remove(&fences[i].cgroup, &error);
	}
	enforce_close(enforce);
	free(image);
	free(fences);
	return code;
}
