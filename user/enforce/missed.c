// SPDX-License-Identifier: Apache-2.0
/*
 * How often the kernel skipped a program of the set in effect, because one ran already on that CPU: what a hook let pass
 * unseen, if it was one that is not run twice (docs/limits.md). A look-up by way of the links that are pinned. Root.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "enforce/internal.h"

/* Of the program that a link holds; 0 for what is none, or is gone by now. */
static uint64_t missed_by(const char *name)
{
	_cleanup_close_ int link_fd = -1, prog_fd = -1;
	struct bpf_link_info link = { 0 };
	struct bpf_prog_info prog = { 0 };
	uint32_t size = sizeof(link);
	char path[PATH_MAX];

	snprintf(path, sizeof(path), ENFORCE_PIN_DIR "/%s", name);
	link_fd = bpf_obj_get(path);
	if (link_fd < 0 || bpf_obj_get_info_by_fd(link_fd, &link, &size))
		return 0;
	prog_fd = bpf_prog_get_fd_by_id(link.prog_id);
	size = sizeof(prog);
	if (prog_fd < 0 || bpf_obj_get_info_by_fd(prog_fd, &prog, &size))
		return 0;
	return prog.recursion_misses;
}

int enforce_missed(uint64_t *ret_missed)
{
	const struct dirent *entry;
	DIR *dir = opendir(ENFORCE_PIN_DIR);

	if (!dir)
		return -errno;
	*ret_missed = 0;
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, "link_", 5))
			*ret_missed += missed_by(entry->d_name);
	closedir(dir);
	return 0;
}
