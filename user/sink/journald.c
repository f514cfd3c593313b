// SPDX-License-Identifier: Apache-2.0
/*
 * The systemd journal, by its native protocol: one datagram a record, fields as NAME=VALUE lines, what is too long for a datagram in a
 * sealed memory file. Not by sd_journal_sendv(): that one waits for a journal that is slow, does not say when there is none,
 * and always takes the same socket, so that it could be tested against no journal but the host's. The protocol is documented and
 * stable ("Native Journal Protocol"). Values are escaped by user/event already: none holds a newline. No privilege.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "sink/net.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define FIELDS_SIZE (3 * EVENT_LINE_MAX)

struct journal {
	int fd;
	char *fields, *text; /* FIELDS_SIZE, EVENT_LINE_MAX */
	size_t used;
};

/* Members of an event that become fields of their own. */
static const struct {
	const char *field, *object, *member; /* object NULL: the event itself */
} members[] = {
	{ "CORDON_TYPE", NULL, "type" },
	{ "CORDON_OP", NULL, "op" },
	{ "CORDON_VERDICT", NULL, "verdict" },
	{ "CORDON_RULE", NULL, "rule" },
	{ "CORDON_SEQ", NULL, "seq" },
	{ "CORDON_ERRNO", NULL, "errno" },
	{ "CORDON_COUNT", NULL, "count" },
	{ "CORDON_DETAIL", NULL, "detail" },
	{ "CORDON_FENCE", "fence", "id" },
	{ "CORDON_FENCE_NAME", "fence", "name" },
	{ "CORDON_POLICY", "fence", "policy" },
	{ "CORDON_TASK", "fence", "task" },
	{ "CORDON_TENANT", "fence", "tenant" },
	{ "CORDON_SUBJECT", "fence", "subject" },
	{ "CORDON_CONTAINER", "fence", "container" },
	{ "CORDON_PID", "process", "pid" },
	{ "CORDON_UID", "process", "uid" },
	{ "CORDON_COMM", "process", "comm" },
	{ "CORDON_EXE", "process", "exe" },
	{ "CORDON_PATH", "file", "path" },
	{ "CORDON_PATH2", "file", "path2" },
	{ "CORDON_DST", "net", "dst" },
	{ "CORDON_DPORT", "net", "dport" },
	{ "CORDON_TOOL", "gateway", "tool" },
	{ "CORDON_OBJECT", "gateway", "object" },
	{ "CORDON_REASON", "gateway", "reason" },
};

static int journal_prepare(struct sink *sink, struct error *error)
{
	struct journal *j = calloc(1, sizeof(*j));

	if (!j)
		return error_set(error, ENOMEM, "out of memory");
	sink->state = j;
	j->fd = -1;
	j->fields = malloc(FIELDS_SIZE);
	j->text = malloc(EVENT_LINE_MAX);
	return j->fields && j->text ? 0 : error_set(error, ENOMEM, "out of memory");
}

static void journal_close(struct sink *sink, bool last)
{
	struct journal *j = sink->state;

	(void)last;
	if (j->fd >= 0)
		close(TAKE_FD(j->fd));
}

static void journal_free(struct sink *sink)
{
	struct journal *j = sink->state;

	if (!j)
		return;
	if (j->fd >= 0)
		close(j->fd);
	free(j->fields);
	free(j->text);
	free(j);
	sink->state = NULL;
}

static int journal_open(struct sink *sink, struct error *error)
{
	struct journal *j = sink->state;
	const char *address = sink->config.address;

	j->fd = net_connect_unix(address ? address + strlen("unix:") : JOURNAL_SOCKET, SOCK_DGRAM,
				 error);
	return j->fd < 0 ? j->fd : 0;
}

/* --- fields ---------------------------------------------------------------------------------------------------------- */

/* One field. A value with a newline would be several; none has one, and one that had is left out. */
static void field_put(struct journal *j, const char *name, const char *value, size_t size)
{
	size_t n = strlen(name);

	if (!size || memchr(value, '\n', size) || j->used + n + size + 2 > FIELDS_SIZE)
		return;
	memcpy(j->fields + j->used, name, n);
	j->used += n;
	j->fields[j->used++] = '=';
	memcpy(j->fields + j->used, value, size);
	j->used += size;
	j->fields[j->used++] = '\n';
}

static void member_put(struct journal *j, const char *field, const json_t *value)
{
	char number[24] = "";

	if (json_is_string(value))
		field_put(j, field, json_string_value(value), json_string_length(value));
	if (json_is_integer(value))
		field_put(j, field, number,
			  (size_t)snprintf(number, sizeof(number), "%lld",
					   (long long)json_integer_value(value)));
}

/* As syslog has it: what was denied is a warning, what was lost an error. */
static const char *priority(const struct sink_item *item)
{
	if (item->type == CORDON_TYPE_LOSS)
		return "3";
	return item->verdict == CORDON_VERDICT_DENY || item->type == CORDON_TYPE_LIMIT ? "4" : "6";
}

static void fields_make(struct journal *j, const struct sink *sink, const struct sink_item *item,
			const char *text)
{
	const char *app = sink->config.app ? sink->config.app : "cordon";
	json_t *event = json_loadb(text, item->size, 0, NULL);
	size_t n = event_format_line(j->text, EVENT_TEXT, text, item->size);

	j->used = 0;
	field_put(j, "MESSAGE", n ? j->text : text, (n ? n : item->size) - 1);
	field_put(j, "PRIORITY", priority(item), 1);
	field_put(j, "SYSLOG_IDENTIFIER", app, strlen(app));
	for (size_t i = 0; event && i < ARRAY_SIZE(members); i++) {
		const json_t *in =
			members[i].object ? json_object_get(event, members[i].object) : event;

		member_put(j, members[i].field, json_object_get(in, members[i].member));
	}
	field_put(j, "CORDON_EVENT", text, item->size - 1);
	json_decref(event);
}

/* --- sending --------------------------------------------------------------------------------------------------------- */

/* The fields in a memory file that nobody can change any more, as the protocol asks for. */
static int memory_file(const struct journal *j)
{
	int fd = memfd_create("cordon-journal", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (write(fd, j->fields, j->used) != (ssize_t)j->used ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0) {
		int err = errno ? -errno : -EIO;

		close(fd);
		return err;
	}
	return fd;
}

/* One attempt. Returns 0 or -errno. */
static int datagram_send(const struct journal *j, int file)
{
	struct iovec part = { j->fields, j->used };
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .space = { 0 } };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (file >= 0) {
		message.msg_iovlen = 0;
		message.msg_control = &control;
		message.msg_controllen = sizeof(control.space);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &file, sizeof(file));
	}
	return sendmsg(j->fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int journal_put(struct sink *sink, const struct sink_item *item, const char *text,
		       struct error *error)
{
	struct journal *j = sink->state;
	_cleanup_close_ int file = -1;

	fields_make(j, sink, item, text);
	for (;;) {
		int r = datagram_send(j, file);

		if (r == 0)
			return SINK_SENT;
		if (r == -EMSGSIZE && file < 0) {
			file = memory_file(j);
			if (file < 0)
				return error_set(error, -file, "memfd: %s", strerror(-file));
			continue;
		}
		if (r == -EAGAIN || r == -ENOBUFS)
			r = sink_wait(sink, j->fd, POLLOUT, NET_TIMEOUT_MS);
		if (r < 0 && r != -EINTR)
			return error_set(error, -r, "journal: %s", strerror(-r));
	}
}

const struct sink_kind sink_kind_journald = {
	.prepare = journal_prepare,
	.open = journal_open,
	.put = journal_put,
	.close = journal_close,
	.free = journal_free,
};
