// SPDX-License-Identifier: Apache-2.0
/* See file.h. A failure gives no text. */
#include "conf/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "conf/fault.h"
#include "util/util.h"

/* Reads at most size bytes; returns how many or -errno. */
static ssize_t file_read(int fd, char *buffer, size_t size)
{
	size_t used = 0;
	ssize_t n;

	while (used < size) {
		n = read(fd, buffer + used, size - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		used += (size_t)n;
	}
	return (ssize_t)used;
}

int conf_file_read(const char *path, char **ret_text, size_t *ret_length)
{
	_cleanup_free_ char *buffer = NULL;
	_cleanup_close_ int fd = -1;
	struct stat st;
	ssize_t n;

	/* Not blocking: a fifo must not hold up whoever checks a directory of policies. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EOPNOTSUPP;
	buffer = malloc(CONF_TEXT_MAX + 1);
	if (!buffer)
		return -ENOMEM;
	n = file_read(fd, buffer, CONF_TEXT_MAX + 1);
	if (n < 0)
		return (int)n;
	*ret_text = TAKE_PTR(buffer);
	*ret_length = (size_t)n;
	return 0;
}
