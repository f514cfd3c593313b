// SPDX-License-Identifier: Apache-2.0
/*
 * The anchor: a file of two lines of one fixed length, written in turn, each with a checksum; the higher valid one
 * counts. It is written after each commit and never ahead of the store, so that a store behind it was rolled back.
 * It is not synced: what a power failure takes from it only makes it older, which is harmless.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ledger/internal.h"

#define LINE_SIZE 512

struct anchor {
	int fd;
	char *path;
};

int anchor_open(struct anchor **ret, const char *path, struct error *error)
{
	struct anchor *anchor = calloc(1, sizeof(*anchor));

	if (!anchor || !(anchor->path = strdup(path))) {
		free(anchor);
		return error_set(error, ENOMEM, "anchor %s: no memory", path);
	}
	anchor->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
	if (anchor->fd < 0) {
		int err = errno;

		anchor_close(anchor);
		return error_set(error, err, "anchor %s: %s", path, strerror(err));
	}
	*ret = anchor;
	return 0;
}

void anchor_close(struct anchor *anchor)
{
	if (!anchor)
		return;
	if (anchor->fd >= 0)
		close(anchor->fd);
	free(anchor->path);
	free(anchor);
}

/* "cordon-anchor 1 NODE SEQ HASH CHECK", padded with blanks, ends with a newline. */
static int format_line(const char *node, const struct chain *head, char line[LINE_SIZE + 1])
{
	const struct chain zero = { 0 };
	char hash[2 * LEDGER_HASH_SIZE + 1], check[2 * LEDGER_HASH_SIZE + 1];
	uint8_t sum[LEDGER_HASH_SIZE];
	int n;

	text_hex(head->hash, LEDGER_HASH_SIZE, hash);
	if (chain_hash(&zero, head->seq, 0, node, hash, sum) != 0)
		return -ENOMEM;
	text_hex(sum, LEDGER_HASH_SIZE, check);
	n = snprintf(line, LINE_SIZE + 1, "cordon-anchor 1 %s %" PRIu64 " %s %s", node, head->seq,
		     hash, check);
	memset(line + n, ' ', (size_t)(LINE_SIZE - n));
	line[LINE_SIZE - 1] = '\n';
	line[LINE_SIZE] = '\0';
	return 0;
}

static bool parse_line(const char *line, const char *node, struct chain *ret)
{
	char name[LEDGER_NAME_MAX + 1], hash[2 * LEDGER_HASH_SIZE + 1], again[LINE_SIZE + 1];
	struct chain head = { 0 };

	_Static_assert(LEDGER_NAME_MAX == 128 && LEDGER_HASH_SIZE == 32, "the widths below");
	if (sscanf(line, "cordon-anchor 1 %128s %" SCNu64 " %64s", name, &head.seq, hash) != 3 ||
	    strcmp(name, node) != 0 || !text_unhex(hash, head.hash, LEDGER_HASH_SIZE) ||
	    format_line(node, &head, again) != 0 || memcmp(line, again, LINE_SIZE) != 0)
		return false;
	*ret = head;
	return true;
}

int anchor_read(const struct anchor *anchor, const char *node, struct chain *ret,
		struct error *error)
{
	char lines[2 * LINE_SIZE + 1];
	ssize_t size = pread(anchor->fd, lines, sizeof(lines), 0);
	struct chain line = { 0 };
	bool any = false;

	*ret = (struct chain){ 0 };
	if (size < 0)
		return error_set(error, errno, "anchor %s: %s", anchor->path, strerror(errno));
	if (size == 0)
		return 0;
	for (ssize_t at = 0; at + LINE_SIZE <= size; at += LINE_SIZE) {
		if (parse_line(lines + at, node, &line)) {
			any = true;
			if (line.seq >= ret->seq)
				*ret = line;
		}
	}
	if (!any)
		return error_set(
			error, EBADMSG,
			"anchor %s: this is not the anchor of node %s; find the right file, or "
			"remove it after a look at why it is damaged",
			anchor->path, node);
	return 0;
}

int anchor_write(struct anchor *anchor, const char *node, const struct chain *head)
{
	char line[LINE_SIZE + 1];
	int err = format_line(node, head, line);

	if (err)
		return err;
	if (pwrite(anchor->fd, line, LINE_SIZE, (off_t)(head->seq % 2) * LINE_SIZE) != LINE_SIZE)
		return -EIO;
	return 0;
}
