// SPDX-License-Identifier: Apache-2.0
/*
 * The client of the admin socket. No privilege of its own: the gateway decides by who the kernel says we are. What the
 * gateway sends is text that agents had a part in: it is printed as JSON in ASCII, so that nothing of it acts on a terminal.
 */
#include "cordon/admin_client.h"

#include <errno.h>
#include <string.h>

#include "control/control.h"

enum { TIMEOUT_S = 120 }; /* an approval may wait for an upstream */

void admin_client_text(struct admin_request *r, enum admin_member member, const char *text)
{
	if (!text)
		return;
	snprintf(r->text[member], sizeof(r->text[member]), "%s", text);
	r->has |= 1U << member;
}

void admin_client_number(struct admin_request *r, enum admin_member member, long long number)
{
	if (!number)
		return;
	r->number[member] = number;
	r->has |= 1U << member;
}

long long admin_client_parse_number(const char *text)
{
	long long n = 0;

	if (!text)
		return 0;
	if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 18)
		return -1;
	n = strtoll(text, NULL, 10);
	return n > 0 ? n : -1;
}

static void print(const json_t *root)
{
	char *text = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII);

	for (char *c = text; c && *c; c++) /* the library leaves DEL as it is */
		putchar(*c == 0x7f ? '?' : *c);
	putchar('\n');
	free(text);
}

/* One line of the answer. True when it is the last; then *ret_code is the exit code. */
static bool line_take(const char *line, size_t size, bool *rows, int *ret_code)
{
	json_t *root = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
	const char *error = json_string_value(json_object_get(root, "error"));
	const char *reason = json_string_value(json_object_get(root, "reason"));
	const json_t *row = json_object_get(root, "row");
	bool last = true;

	if (row) {
		print(row);
		*rows = true;
		last = false;
	} else if (error) {
		*ret_code = cli_fail(!strcmp(error, "not_permitted")	 ? EXIT_PERMISSION
				     : !strcmp(error, "fence_not_found") ? EXIT_NO_FENCE
				     : !strcmp(error, "invalid_request") ? EXIT_USAGE
									 : EXIT_FOUND,
				     "%s: %s", error, reason ? reason : "");
	} else if (json_object_get(root, "status")) {
		if (!*rows && json_object_size(root) > 1)
			print(root);
		*ret_code = EXIT_OK;
	} else {
		*ret_code = cli_fail(EXIT_FOUND, "the gateway's answer is not understood");
	}
	json_decref(root);
	return last;
}

static int answer_read(int fd)
{
	struct control_reader reader = { .fd = fd };
	bool rows = false, last = false;
	int code = EXIT_FOUND;
	char *line;
	ssize_t n;

	while (!last) {
		n = control_read_line(&reader, ADMIN_LINE_MAX, &line);
		if (n <= 0)
			break;
		last = line_take(line, (size_t)n, &rows, &code);
	}
	free(reader.buffer);
	if (last)
		return code;
	if (n == -E2BIG)
		return cli_fail(EXIT_FOUND, "the gateway's answer is too long");
	return cli_fail(EXIT_FOUND, "the gateway hung up before it answered%s%s", n ? ": " : "",
			n ? strerror((int)-n) : "");
}

int admin_client_run(const char *socket_path, const struct admin_request *request)
{
	_cleanup_free_ char *line = admin_request_format(request);
	struct admin_request *check = malloc(sizeof(*check));
	struct error error = { "" };
	_cleanup_close_ int fd = -1;
	int bad;

	if (!line || !check) {
		free(check);
		return cli_fail(EXIT_FOUND, "out of memory");
	}
	/* What the gateway would refuse is said here, without a gateway. */
	bad = admin_request_parse(line, strlen(line), check, &error);
	free(check);
	if (bad)
		return cli_fail(EXIT_USAGE, "%s", error.text);
	fd = control_connect(socket_path ? socket_path : ADMIN_SOCKET, TIMEOUT_S,
			     "does the gateway run, and is this its admin socket? --admin names "
			     "another",
			     &error);
	if (fd < 0)
		return cli_fail(fd == -EACCES || fd == -EPERM ? EXIT_PERMISSION : EXIT_FOUND, "%s",
				error.text);
	bad = control_send(fd, line, strlen(line));
	if (bad)
		return cli_fail(EXIT_FOUND, "cannot write to the gateway: %s", strerror(-bad));
	return answer_read(fd);
}
