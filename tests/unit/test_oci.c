// SPDX-License-Identifier: Apache-2.0
/* Containers: what a hook takes from a runtime, and what it does without cordond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cordon/cli.h"
#include "cordon/oci.h"

#define HEAD                                                                                     \
	"{\"ociVersion\":\"1.0.2\",\"id\":\"c1\",\"status\":\"creating\",\"pid\":42,\"bundle\":" \
	"\"/b\""
#define WITH(annotations) HEAD ",\"annotations\":{" annotations "}}"

static struct oci_state state;

static int parse(const char *text, enum oci_stage stage)
{
	struct error error = { "" };
	int err = oci_state_parse(text, strlen(text), stage, &state, &error);

	assert_true(!err == !error.text[0]);
	assert_null(strchr(error.text, '\n'));
	return err;
}

static void test_state(void **unused)
{
	(void)unused;
	assert_int_equal(
		parse(WITH("\"dev.cordon.policy\":\"refund-1.2\",\"dev.cordon.task\":\"t\","
			   "\"dev.cordon.tenant\":\"acme\",\"dev.cordon.subject\":\"a@b\","
			   "\"dev.cordon.workdir\":\"/my work\",\"other\":\"\\u0001\""),
		      OCI_CREATE),
		0);
	assert_string_equal(state.id, "c1");
	assert_int_equal(state.pid, 42);
	assert_string_equal(state.bundle, "/b");
	assert_string_equal(state.policy, "refund-1.2");
	assert_string_equal(state.task, "t");
	assert_string_equal(state.tenant, "acme");
	assert_string_equal(state.subject, "a@b");
	assert_string_equal(state.workdir, "/my work");
	assert_null(state.no_exec);
	assert_int_equal(parse(HEAD "}", OCI_CREATE), 0);
	assert_string_equal(state.policy, "");
	assert_int_equal(parse(WITH("\"run.oci.handler\":\"wasm\""), OCI_CREATE), 0);
	assert_string_equal(state.no_exec, "run.oci.handler");
	/* After its end there need be no process, and what annotations say does not matter. */
	assert_int_equal(parse("{\"ociVersion\":\"1\",\"id\":\"c1\",\"annotations\":3}", OCI_STOP),
			 0);
}

static void test_state_refused(void **unused)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{}",
		"{\"ociVersion\":\"1\"}",
		"{\"id\":\"c1\",\"pid\":42,\"bundle\":\"/b\"}",
		"{\"ociVersion\":\"1\",\"status\":\"created\",\"id\":\"\",\"pid\":42,\"bundle\":\"/"
		"b\"}",
		"{\"ociVersion\":\"1\",\"status\":\"created\",\"id\":\"a "
		"b\",\"pid\":42,\"bundle\":\"/b\"}",
		"{\"ociVersion\":\"1\",\"status\":\"created\",\"id\":7,\"pid\":42,\"bundle\":\"/"
		"b\"}",
		"{\"ociVersion\":\"1\",\"status\":\"created\",\"id\":\"a\",\"pid\":\"42\","
		"\"bundle\":\"/b\"}",
		"{\"ociVersion\":\"1\",\"status\":\"created\",\"id\":\"a\",\"pid\":1,\"bundle\":\"/"
		"b\"}",
		"{\"ociVersion\":\"1\",\"status\":\"created\",\"id\":\"a\",\"pid\":-42,\"bundle\":"
		"\"/b\"}",
		"{\"ociVersion\":\"1\",\"status\":\"created\",\"id\":\"a\",\"pid\":4294967338,"
		"\"bundle\":\"/b\"}",
		"{\"ociVersion\":\"1\",\"status\":\"created\",\"id\":\"a\",\"pid\":42,\"bundle\":"
		"\"b\"}",
		"{\"ociVersion\":\"1\",\"status\":\"created\",\"id\":\"a\",\"pid\":42}",
		"{\"ociVersion\":\"1\",\"status\":\"created\",\"id\":\"a\",\"id\":\"b\",\"pid\":42,"
		"\"bundle\":\"/b\"}",
		"{\"ociVersion\":\"1\",\"id\":\"a\",\"pid\":42,\"bundle\":\"/b\"}",
		"{\"ociVersion\":\"1\",\"status\":\"running\",\"id\":\"a\",\"pid\":42,\"bundle\":"
		"\"/b\"}",
		HEAD ",\"annotations\":[]}",
		HEAD "} {}",
		WITH("\"dev.cordon.policy\":\"\""),
		WITH("\"dev.cordon.policy\":7"),
		WITH("\"dev.cordon.policy\":\"../passwd\""),
		WITH("\"dev.cordon.policy\":\"/etc/passwd\""),
		WITH("\"dev.cordon.policy\":\".hidden\""),
		WITH("\"dev.cordon.policy\":\"a\\u0000b\""),
		WITH("\"dev.cordon.policy\":\"a\",\"dev.cordon.policy\":\"b\""),
		WITH("\"dev.cordon.polizy\":\"a\""),
		WITH("\"dev.cordon.\":\"a\""),
		WITH("\"dev.cordon.task\":\"a b\""),
		WITH("\"dev.cordon.tenant\":\"\\u00e4\""),
		WITH("\"dev.cordon.subject\":\"\\u001b[2J\""),
		WITH("\"dev.cordon.workdir\":\"work\""),
		WITH("\"dev.cordon.workdir\":\"/a\\nb\""),
	};
	char *text;

	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (parse(bad[i], OCI_CREATE) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
	text = malloc(OCI_TEXT_MAX + 2);
	memset(text, ' ', OCI_TEXT_MAX + 1);
	memcpy(text, HEAD "}", strlen(HEAD "}"));
	text[OCI_TEXT_MAX + 1] = '\0';
	assert_int_equal(parse(text, OCI_CREATE), -EINVAL);
	text[OCI_TEXT_MAX] = '\0';
	assert_int_equal(parse(text, OCI_CREATE), 0);
	free(text);
}

/* One character more than there is room for. */
static void test_bounds(void **unused)
{
	static const struct {
		const char *name;
		size_t most;
		char first;
	} rows[] = {
		{ "policy", 64, 'p' },	 { "task", 128, 't' },	   { "tenant", 128, 't' },
		{ "subject", 128, 's' }, { "workdir", 4095, '/' },
	};
	static char value[5000], text[6000];

	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t more = 0; more < 2; more++) {
			memset(value, 'a', sizeof(value));
			value[0] = rows[i].first;
			value[rows[i].most + more] = '\0';
			snprintf(text, sizeof(text), WITH("\"dev.cordon.%s\":\"%s\""), rows[i].name,
				 value);
			assert_int_equal(parse(text, OCI_CREATE), more ? -EINVAL : 0);
		}
}

static void test_root(void **unused)
{
	static const struct {
		const char *text, *root; /* NULL: refused */
	} rows[] = {
		{ "{\"root\":{\"path\":\"rootfs\"}}", "/b/rootfs" },
		{ "{\"root\":{\"path\":\"/var/merged\"},\"r\":18446744073709551615}",
		  "/var/merged" },
		{ "{\"root\":{\"path\":\"\"}}", NULL },
		{ "{\"root\":{\"path\":\"a\\nb\"}}", NULL },
		{ "{\"root\":[]}", NULL },
		{ "{}", NULL },
		{ "", NULL },
	};
	struct error error;
	char root[64];

	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		error.text[0] = '\0';
		assert_int_equal(oci_config_root(rows[i].text, strlen(rows[i].text), "/b", root,
						 sizeof(root), &error),
				 rows[i].root ? 0 : -EINVAL);
		if (rows[i].root)
			assert_string_equal(root, rows[i].root);
	}
	error.text[0] = '\0';
	assert_int_equal(oci_config_root(rows[0].text, strlen(rows[0].text), "/b", root, 9, &error),
			 -EINVAL);
}

/* --- the verb --------------------------------------------------------------------------------- */

static char dir[64];

static void file_write(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* Runs `cordon oci-hook ...` with text as input; its exit code, and what it said. */
static int hook(const char *text, char *said, size_t size, const char *a, const char *b,
		const char *stage)
{
	char policies[96], socket[96], path[128];
	char *argv[] = { "cordon", "oci-hook", "--policies", policies, "--socket",
			 socket,   (char *)a,  (char *)b,    NULL,     NULL };
	int argc = 6 + !!a + !!b, status = 0;
	ssize_t n;
	pid_t pid;

	argv[argc] = (char *)stage;
	argv[++argc] = NULL;
	snprintf(policies, sizeof(policies), "%s", dir);
	snprintf(socket, sizeof(socket), "%s/none.sock", dir);
	file_write("in", text);
	pid = fork();
	if (pid == 0) {
		snprintf(path, sizeof(path), "%s/in", dir);
		dup2(open(path, O_RDONLY), 0);
		snprintf(path, sizeof(path), "%s/err", dir);
		dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		_exit(cli_main(argc, argv));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	snprintf(path, sizeof(path), "%s/err", dir);
	int fd = open(path, O_RDONLY);

	n = read(fd, said, size - 1);
	close(fd);
	said[n > 0 ? n : 0] = '\0';
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* A line, and a code that is not 0: the runtime starts nothing. */
static void expect_refused(const char *text, const char *says, const char *a, const char *b)
{
	char said[1024];
	int code = hook(text, said, sizeof(said), a, b, "createRuntime");
	const char *end = strchr(said, '\n');

	if (!code || !strstr(said, says) || !end || end[1])
		fail_msg("%s: %d %s", text, code, said);
}

static void test_hook(void **unused)
{
	char said[1024], text[256];

	(void)unused;
	strcpy(dir, "/tmp/test_oci.XXXXXX");
	assert_non_null(mkdtemp(dir));
	file_write("good.yaml", "cordon: 1\nname: good\nfiles: {workdir: /work}\n");
	file_write("config.json", "{\"root\":{\"path\":\"rootfs\"}}");
	/* Nobody asked for a fence. */
	assert_int_equal(hook(HEAD "}", said, sizeof(said), NULL, NULL, "createRuntime"), 0);
	assert_string_equal(said, "");
	assert_int_equal(
		hook(WITH("\"a.b\":\"c\""), said, sizeof(said), NULL, NULL, "createRuntime"), 0);
	/* Somebody did, and it cannot be. */
	snprintf(text, sizeof(text),
		 "{\"ociVersion\":\"1\",\"id\":\"c1\",\"status\":\"created\",\"pid\":%d,\"bundle\":"
		 "\"%s\",\"annotations\":"
		 "{\"dev.cordon.policy\":\"good\"}}",
		 getpid(), dir);
	expect_refused(text, "does cordond run", NULL, NULL);
	snprintf(text, sizeof(text),
		 "{\"ociVersion\":\"1\",\"id\":\"c1\",\"status\":\"created\",\"pid\":%d,\"bundle\":"
		 "\"%s\"}",
		 getpid(), dir);
	expect_refused(text, "does cordond run", "--policy", "good");
	expect_refused(text, "absent.yaml: No such file", "--policy", "absent");
	expect_refused(text, "must be the name of a policy", "--policy", "../good");
	expect_refused(WITH("\"dev.cordon.policy\":\"good\""), "/b/config.json", NULL, NULL);
	expect_refused(WITH("\"dev.cordon.task\":\"t\""), "without dev.cordon.policy", NULL, NULL);
	expect_refused(WITH("\"dev.cordon.policy\":\"good\",\"dev.cordon.task\":\"\""),
		       "dev.cordon.task", NULL, NULL);
	expect_refused("", "not the state of a container", NULL, NULL);
	assert_int_not_equal(hook(HEAD "}", said, sizeof(said), NULL, NULL, "prestart"), 0);
	assert_int_not_equal(hook(HEAD "}", said, sizeof(said), NULL, NULL, "poststop"), 0);
	assert_non_null(strstr(said, "does cordond run"));
	snprintf(text, sizeof(text), "rm -r %s", dir);
	assert_int_equal(system(text), 0);
}

/* --- before a runtime ------------------------------------------------------------------------- */

/* Notes how it is called; says that the container "c1" is this test's process. */
static const char fake_runtime[] =
	"#!/bin/sh\n"
	"echo \"$*\" >> $DIR/calls\n"
	"case \"$*\" in\n"
	"*'state c1') echo "
	"'{\"ociVersion\":\"1\",\"id\":\"c1\",\"status\":\"created\",\"pid\":'$PID',"
	"\"bundle\":\"/b\"}' ;;\n"
	"*'state c2') echo "
	"'{\"ociVersion\":\"1\",\"id\":\"c1\",\"status\":\"created\",\"pid\":'$PID',"
	"\"bundle\":\"/b\"}' ;;\n"
	"*'create c3') exit 7 ;;\n"
	"*'kill c1 9') exit 3 ;;\n"
	"esac\n";

static char *file_text(const char *name)
{
	static char text[4096];
	char path[128];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "r");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[n] = '\0';
	return text;
}

/* Runs `cordon oci-runtime OPTIONS -- ARGUMENTS`, the runtime's calls and its log empty before. Its exit code. */
static int runtime(const char *options, const char *arguments)
{
	char command[1024], words[1024], *argv[32] = { NULL }, *state_;
	int argc = 0, status = 0;
	pid_t pid;

	file_write("calls", "");
	file_write("log", "");
	snprintf(command, sizeof(command),
		 "cordon oci-runtime --runtime %s/runtime --policies %s --socket %s/none.sock %s "
		 "-- %s",
		 dir, dir, dir, options, arguments);
	strcpy(words, command);
	for (char *w = strtok_r(words, " ", &state_); w; w = strtok_r(NULL, " ", &state_))
		argv[argc++] = w;
	pid = fork();
	if (pid == 0) {
		snprintf(command, sizeof(command), "%s/err", dir);
		dup2(open(command, O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		_exit(cli_main(argc, argv));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_runtime(void **unused)
{
	char path[128], text[256], log[128];

	(void)unused;
	strcpy(dir, "/tmp/test_oci.XXXXXX");
	assert_non_null(mkdtemp(dir));
	file_write("good.yaml", "cordon: 1\nname: good\nfiles: {workdir: /work}\n");
	file_write("runtime", fake_runtime);
	snprintf(path, sizeof(path), "%s/runtime", dir);
	assert_int_equal(chmod(path, 0755), 0);
	snprintf(text, sizeof(text), "%d", getpid());
	setenv("PID", text, 1);
	setenv("DIR", dir, 1);
	snprintf(log, sizeof(log), "--log %s/log --log-format=json", dir);

	/* All but create is the runtime's, with its exit code. */
	assert_int_equal(runtime("", "--root /r kill c1 9"), 3);
	assert_string_equal(file_text("calls"), "--root /r kill c1 9\n");
	assert_int_equal(runtime("", "--version"), 0);
	assert_string_equal(file_text("calls"), "--version\n");
	/* Nobody asks for a fence. */
	assert_int_equal(runtime("", "--root=/r create --bundle /b c1"), 0);
	assert_string_equal(file_text("calls"),
			    "--root=/r create --bundle /b c1\n--root=/r state c1\n");
	assert_int_equal(runtime("", "create c3"), 7);
	assert_string_equal(file_text("calls"), "create c3\n");
	/* Somebody does, and there is no cordond: the container goes, and the log says why. */
	snprintf(text, sizeof(text), "%s --systemd-cgroup create --bundle /b c1", log);
	assert_int_not_equal(runtime("--policy good", text), 0);
	assert_non_null(strstr(file_text("calls"), "delete --force c1\n"));
	assert_non_null(strstr(file_text("err"), "does cordond run"));
	assert_true(
		strstr(file_text("log"), "{\"level\":\"error\",\"msg\":\"cordon oci-runtime: ") &&
		strstr(file_text("log"), "does cordond run"));
	/* The runtime speaks of another container. */
	assert_int_not_equal(runtime("", "create c2"), 0);
	assert_non_null(strstr(file_text("calls"), "delete --force c2\n"));
	/* Nothing is run. */
	assert_int_not_equal(runtime("", "run c1"), 0);
	assert_int_not_equal(runtime("", "--root /r restore c1"), 0);
	assert_int_not_equal(runtime("", "--new-option create c1"), 0);
	assert_int_not_equal(runtime("", "--root"), 0);
	assert_int_not_equal(runtime("", "create"), 0);
	assert_int_not_equal(runtime("", "create --bundle"), 0);
	assert_int_not_equal(runtime("--policy ../x", "create c1"), 0);
	assert_string_equal(file_text("calls"), "");
	snprintf(text, sizeof(text), "rm -r %s", dir);
	assert_int_equal(system(text), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_state),  cmocka_unit_test(test_state_refused),
		cmocka_unit_test(test_bounds), cmocka_unit_test(test_root),
		cmocka_unit_test(test_hook),   cmocka_unit_test(test_runtime),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
