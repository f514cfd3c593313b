/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a configuration file whole. No privilege of its own. */
#ifndef CORDON_CONF_FILE_H
#define CORDON_CONF_FILE_H

#include <stddef.h>

/*
 * Reads a regular file of at most CONF_TEXT_MAX bytes; of a longer one CONF_TEXT_MAX + 1 bytes, which
 * the text's reader refuses. Never waits, not even for a fifo. Returns 0 and *ret_text (to be freed),
 * or -errno: -EISDIR and -EOPNOTSUPP for what is no regular file.
 */
int conf_file_read(const char *path, char **ret_text, size_t *ret_length);

#endif
