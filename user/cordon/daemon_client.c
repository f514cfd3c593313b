// SPDX-License-Identifier: Apache-2.0
/* See daemon_client.h. What cordond sends holds texts that agents had a part in: it is printed escaped. */
#include "cordon/daemon_client.h"

#include <errno.h>
#include <string.h>

#include "conf/file.h"

enum {
	TIMEOUT_S = 330
}; /* a fence is proved before it is told of; longer than cordond waits itself */

int daemon_client_open(struct daemon_client *client, const char *socket, struct error *error)
{
	*client = (struct daemon_client){ .reader.fd = -1 };
	client->reader.fd =
		control_connect(socket ? socket : CORDOND_SOCKET, TIMEOUT_S,
				"does cordond run (systemctl start cordond), and is this its "
				"socket? --socket names another",
				error);
	return client->reader.fd < 0 ? client->reader.fd : 0;
}

void daemon_client_close(struct daemon_client *client)
{
	if (client->reader.fd >= 0)
		close(client->reader.fd);
	free(client->reader.buffer);
	*client = (struct daemon_client){ .reader.fd = -1 };
}

bool daemon_client_is_there(const char *socket)
{
	struct error error = { "" };
	int fd = control_connect(socket ? socket : CORDOND_SOCKET, 1, "", &error);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || (fd != -ENOENT && fd != -ECONNREFUSED);
}

json_t *daemon_client_request(enum cordond_verb verb)
{
	return json_pack("{s:s}", "do", cordond_verb_name(verb));
}

void daemon_client_text(json_t *request, const char *member, const char *text)
{
	if (text)
		json_object_set_new(request, member, json_string(text));
}

void daemon_client_number(json_t *request, const char *member, long long number)
{
	if (number)
		json_object_set_new(request, member, json_integer(number));
}

void daemon_client_flag(json_t *request, const char *member, bool flag)
{
	if (flag)
		json_object_set_new(request, member, json_true());
}

int daemon_client_policy(json_t *request, const char *path)
{
	_cleanup_free_ char *text = NULL;
	size_t length;
	int err = conf_file_read(path, &text, &length);

	if (err)
		return cli_fail(EXIT_FOUND, "%s: %s", path, strerror(-err));
	if (length > CORDOND_POLICY_MAX)
		return cli_fail(EXIT_POLICY, "%s: longer than %d bytes", path, CORDOND_POLICY_MAX);
	if (json_object_set_new(request, "policy", json_stringn(text, length)))
		return cli_fail(EXIT_POLICY,
				"%s: not UTF-8, or holds NUL; `cordon check` says where", path);
	return EXIT_OK;
}

void daemon_client_print(const json_t *root)
{
	char *text = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII);

	for (char *c = text; c && *c; c++) /* the library leaves DEL as it is */
		putchar(*c == 0x7f ? '?' : *c);
	putchar('\n');
	free(text);
}

int daemon_client_fail(int err, const struct error *error)
{
	return cli_fail(err == -EACCES || err == -EPERM ? EXIT_PERMISSION : EXIT_FOUND, "%s",
			error->text);
}

static int code_of(const char *error)
{
	static const struct {
		const char *error;
		int code;
	} rows[] = {
		{ "not_permitted", EXIT_PERMISSION }, { "fence_not_found", EXIT_NO_FENCE },
		{ "invalid_request", EXIT_USAGE },    { "policy_invalid", EXIT_POLICY },
		{ "host_cannot_enforce", EXIT_HOST },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strcmp(rows[i].error, error))
			return rows[i].code;
	return EXIT_FOUND;
}

/* FILE:LINE:COLUMN: text, as `cordon check` prints it; cordond has made the texts printable. */
static void faults_print(const json_t *root, const char *policy_name)
{
	const json_t *list = json_object_get(root, "faults"), *fault;
	long long more = json_integer_value(json_object_get(root, "more"));
	size_t i;

	json_array_foreach(list, i, fault)
	{
		const char *text = json_string_value(json_object_get(fault, "text"));

		fprintf(stderr, "%s:%lld:%lld: %s\n", policy_name ? policy_name : "policy",
			(long long)json_integer_value(json_object_get(fault, "line")),
			(long long)json_integer_value(json_object_get(fault, "column")),
			text ? text : "");
	}
	if (more)
		fprintf(stderr, "and %lld more\n", more);
}

/* The last line. Takes root over. */
static int status_take(json_t *root, const char *policy_name, json_t **ret_status)
{
	const char *error = json_string_value(json_object_get(root, "error"));
	const char *reason = json_string_value(json_object_get(root, "reason"));
	int code = EXIT_OK;

	if (error) {
		faults_print(root, policy_name);
		code = cli_fail(code_of(error), "%s", reason ? reason : error);
	} else if (!json_object_get(root, "status")) {
		code = cli_fail(EXIT_FOUND, "cordond's answer is not understood");
	} else if (ret_status) {
		*ret_status = json_incref(root);
	}
	json_decref(root);
	return code;
}

static int answer_read(struct daemon_client *client, const char *policy_name,
		       daemon_client_row_fn *fn, void *context, json_t **ret_status)
{
	for (;;) {
		char *line;
		ssize_t n = control_read_line(&client->reader, CORDOND_ANSWER_LINE_MAX, &line);
		json_t *root, *row;

		if (n <= 0) {
			client->lost = true;
			return client->quiet ? EXIT_FOUND
					     : cli_fail(EXIT_FOUND,
							"cordond hung up before it answered%s%s",
							n ? ": " : "", n ? strerror((int)-n) : "");
		}
		root = json_loadb(line, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
		row = json_object_get(root, "row");
		if (!row)
			return status_take(root, policy_name, ret_status);
		if (fn)
			fn(context, row);
		json_decref(root);
	}
}

int daemon_client_ask(struct daemon_client *client, json_t *request, const char *policy_name,
		      daemon_client_row_fn *fn, void *context, json_t **ret_status)
{
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	struct cordond_request check = { .root = NULL };
	struct error error = { "" };
	int err;

	json_decref(request);
	if (!text)
		return cli_fail(EXIT_FOUND, "out of memory, or text that is not UTF-8");
	/* What cordond would refuse is said here, without it. */
	err = cordond_request_parse(text, strlen(text), &check, &error);
	cordond_request_clear(&check);
	if (err) {
		free(text);
		return cli_fail(EXIT_USAGE, "%s", error.text);
	}
	err = control_send(client->reader.fd, text, strlen(text));
	if (!err)
		err = control_send(client->reader.fd, "\n", 1);
	free(text);
	/* One that refuses who we are has said so already. */
	if (err && err != -EPIPE && err != -ECONNRESET && !client->quiet)
		return cli_fail(EXIT_FOUND, "cannot write to cordond: %s", strerror(-err));
	return answer_read(client, policy_name, fn, context, ret_status);
}

int daemon_client_events(struct daemon_client *client, bool follow, bool past, const char *fence,
			 const char *task)
{
	json_t *request = daemon_client_request(CORDOND_DO_EVENTS);

	daemon_client_flag(request, "follow", follow);
	daemon_client_flag(request, "past", past);
	daemon_client_text(request, "fence", fence);
	daemon_client_text(request, "task", task);
	return daemon_client_ask(client, request, NULL, NULL, NULL, NULL);
}

int daemon_client_stream(struct daemon_client *client, char *ret_stream)
{
	json_t *status = NULL;
	int code = daemon_client_ask(client, daemon_client_request(CORDOND_DO_STATUS), NULL, NULL,
				     NULL, &status);
	const char *stream = json_string_value(json_object_get(status, "stream"));

	snprintf(ret_stream, CORDOND_STREAM_SIZE, "%s", stream ? stream : "");
	json_decref(status);
	return code;
}

bool daemon_client_is_end(const char *line, size_t size)
{
	size_t n = sizeof(CORDOND_EVENTS_END) - 1;

	if (size && line[size - 1] == '\n')
		size--;
	return size == n && !memcmp(line, CORDOND_EVENTS_END, n);
}

bool daemon_client_may_come(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED || err == -EAGAIN || err == -ECONNRESET;
}
