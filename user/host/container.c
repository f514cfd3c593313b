// SPDX-License-Identifier: Apache-2.0
/*
 * The init process of a running container, asked of its engine's command line: podman, then docker, then containerd's own.
 *
 * Privilege: runs the engine's command with ours, but found in fixed directories, without a shell,
 * with an environment of three variables (none that could name an engine on another host, whose
 * process ids mean nothing here), and with bounded time and output. What it prints is data of
 * others: anything but one line of the expected form is an error.
 */
#include "host/host.h"
#include "host/internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define ENGINE_OUTPUT_MAX 65536
#define CONTAINER_NAME_MAX 255
#define CONTAINER_ID_MIN 12
#define CONTAINER_ID_MAX 128

static const char *const engines[] = { "podman", "docker", "ctr" };
static const char *const engine_dirs[] = { "/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin",
					   "/usr/sbin" };

unsigned int container_timeout_ms = 10000;

enum { NAMESPACES_MAX = 64 }; /* of containerd that are asked */

/* What one engine said. */
struct answer {
	char out[ENGINE_OUTPUT_MAX], err[ENGINE_OUTPUT_MAX];
	size_t out_n, err_n;
	int code; /* exit code; 128 + N for a signal */
};

static bool name_is_valid(const char *name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t n = strlen(name);

	return n && n <= CONTAINER_NAME_MAX && name[0] != '-' && strspn(name, allowed) == n;
}

static bool engine_find(const char *engine, char *ret_path, size_t size)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(engine_dirs); i++) {
		snprintf(ret_path, size, "%s/%s", engine_dirs[i], engine);
		if (!access(ret_path, X_OK))
			return true;
	}
	return false;
}

/* --- running it ------------------------------------------------------------------------------- */

/*
 * Descriptors are close-on-exec but these three; a process group of its own, to be killed as a
 * whole.
 */
static int engine_spawn(const char *path, char *const *argv, int out, int err, pid_t *ret_pid)
{
	const char *home = getenv("HOME"), *runtime = getenv("XDG_RUNTIME_DIR");
	char home_entry[4096 + 8], runtime_entry[4096 + 24];
	char *env[] = { "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"DOCKER_CONTEXT=default", home_entry, runtime ? runtime_entry : NULL,
			NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int r;

	snprintf(home_entry, sizeof(home_entry), "HOME=%.4095s", home ? home : "/");
	snprintf(runtime_entry, sizeof(runtime_entry), "XDG_RUNTIME_DIR=%.4095s",
		 runtime ? runtime : "");
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &none);
	r = posix_spawn(ret_pid, path, &actions, &attributes, argv, env);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return -r;
}

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Reads what is there; what does not fit is read and dropped. false: the end. */
static bool take(int fd, char *text, size_t *n)
{
	char rest[512];
	bool fits = *n < ENGINE_OUTPUT_MAX - 1;
	ssize_t r = fits ? read(fd, text + *n, ENGINE_OUTPUT_MAX - 1 - *n)
			 : read(fd, rest, sizeof(rest));

	if (r > 0 && fits)
		*n += (size_t)r;
	text[*n] = '\0';
	return r > 0 || (r < 0 && errno == EINTR);
}

/* Until both ends are closed or the time is over. */
static int engine_read(int out, int err, long end, struct answer *answer)
{
	struct pollfd fds[2] = { { .fd = out, .events = POLLIN }, { .fd = err, .events = POLLIN } };
	long left;

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		left = end - now_ms();
		if (left <= 0)
			return -ETIMEDOUT;
		if (poll(fds, 2, (int)left) <= 0)
			continue;
		if (fds[0].revents && !take(out, answer->out, &answer->out_n))
			fds[0].fd = -1;
		if (fds[1].revents && !take(err, answer->err, &answer->err_n))
			fds[1].fd = -1;
	}
	return 0;
}

/*
 * Waits for its end, which comes soon after that of its output; else it is killed with its group.
 */
static int engine_reap(pid_t pid, long end, struct answer *answer)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int status = 0;
	bool killed = false;
	pid_t r;

	while ((r = waitpid(pid, &status, killed ? 0 : WNOHANG)) != pid &&
	       (r >= 0 || errno == EINTR)) {
		if (now_ms() >= end && !killed) {
			kill(-pid, SIGKILL);
			killed = true;
		}
		nanosleep(&pause, NULL);
	}
	answer->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return killed ? -ETIMEDOUT : 0;
}

/* Runs path argv..., always reaping it; -ETIMEDOUT after killing it and its group. */
static int engine_run(const char *path, char *const *argv, struct answer *ret_answer)
{
	long end = now_ms() + container_timeout_ms;
	int out[2], err[2], r, reaped;
	pid_t pid;

	memset(ret_answer, 0, sizeof(*ret_answer));
	if (pipe2(out, O_CLOEXEC))
		return -errno;
	if (pipe2(err, O_CLOEXEC)) {
		r = -errno;
		close(out[0]);
		close(out[1]);
		return r;
	}
	r = engine_spawn(path, argv, out[1], err[1], &pid);
	close(out[1]);
	close(err[1]);
	if (!r) {
		r = engine_read(out[0], err[0], end, ret_answer);
		if (r < 0)
			kill(-pid, SIGKILL);
		reaped = engine_reap(pid, end, ret_answer);
		r = r < 0 ? r : reaped;
	}
	close(out[0]);
	close(err[0]);
	return r;
}

/* --- understanding it ------------------------------------------------------------------------- */

/* Its first line, for a person: printable, and not too long. */
static const char *first_line(char *text)
{
	char *p;

	text[strcspn(text, "\r\n")] = '\0';
	for (p = text; *p; p++)
		if (!isprint((unsigned char)*p))
			*p = '?';
	if (strlen(text) > 200)
		strcpy(text + 197, "...");
	return text[0] ? text : "no message";
}

static bool id_is_valid(const char *id)
{
	size_t n = strlen(id);

	return n >= CONTAINER_ID_MIN && strspn(id, "0123456789abcdef") == n;
}

/* "PID ID RUNNING": one line. */
static int answer_parse(const char *engine, const char *container, const char *text, pid_t *ret_pid,
			char *ret_id, size_t id_size, struct error *error)
{
	char id[129], running[8];
	int pid, end = -1;

	if (sscanf(text, "%d %128s %7s\n%n", &pid, id, running, &end) != 3 || end < 0 ||
	    text[end] || !id_is_valid(id))
		return error_set(error, EPROTO, "%s inspect %s: unexpected answer", engine,
				 container);
	if (strcmp(running, "true") || pid <= 0)
		return error_set(error, ESRCH, "container %s is not running; %s start %s",
				 container, engine, container);
	if (snprintf(ret_id, id_size, "%s", id) >= (int)id_size)
		return error_set(error, ENAMETOOLONG, "container id %s is too long", id);
	*ret_pid = pid;
	return 0;
}

static bool says_no_such(const struct answer *answer)
{
	return strcasestr(answer->err, "no such") ||
	       strcasestr(answer->err, "no container with name or id");
}

/* -ENOENT: this engine has no such container. */
static int engine_ask(const char *engine, const char *path, const char *container, pid_t *ret_pid,
		      char *ret_id, size_t id_size, struct error *error)
{
	char *argv[] = { (char *)engine,    "inspect",	"--type",
			 "container",	    "--format", "{{.State.Pid}} {{.Id}} {{.State.Running}}",
			 (char *)container, NULL };
	struct answer answer;
	int r = engine_run(path, argv, &answer);

	if (r == -ETIMEDOUT)
		return error_set(error, ETIMEDOUT, "%s inspect %s: no answer within %u s", engine,
				 container, container_timeout_ms / 1000);
	if (r < 0)
		return error_set(error, -r, "cannot run %s: %s", path, strerror(-r));
	if (answer.code && says_no_such(&answer))
		return -ENOENT;
	if (answer.code)
		return error_set(error, EIO, "%s inspect %s: %s", engine, container,
				 first_line(answer.err));
	return answer_parse(engine, container, answer.out, ret_pid, ret_id, id_size, error);
}

/* --- containerd ------------------------------------------------------------------------------- */

/* ids of containerd's client are what its users chose: the names of nerdctl, Kubernetes and others are labels. */
static const char *const name_labels[] = { "nerdctl/name", "io.kubernetes.container.name" };

/* Its client, with a name space or without. 0 and what it printed, or -errno with the message. */
static int ctr_run(const char *path, char *const *argv, struct answer *ret_answer,
		   struct error *error)
{
	int r = engine_run(path, argv, ret_answer);

	if (r == -ETIMEDOUT)
		return error_set(error, ETIMEDOUT, "ctr: no answer within %u s",
				 container_timeout_ms / 1000);
	if (r < 0)
		return error_set(error, -r, "cannot run %s: %s", path, strerror(-r));
	if (ret_answer->code)
		return error_set(error, EIO, "ctr: %s", first_line(ret_answer->err));
	if (ret_answer->out_n == ENGINE_OUTPUT_MAX - 1)
		return error_set(error, E2BIG,
				 "ctr: more containers than are looked at; use --pid");
	return 0;
}

/* The one id that is printed for a filter. 1 and it, 0 there is none, -errno. */
static int ctr_id(const char *path, const char *space, const char *filter, const char *container,
		  char *ret_id, struct error *error)
{
	char *argv[] = {
		"ctr", "-n", (char *)space, "containers", "ls", "-q", (char *)filter, NULL
	};
	struct answer answer;
	int end = -1, r = ctr_run(path, argv, &answer, error);

	if (r < 0 || !answer.out[0])
		return r;
	if (sscanf(answer.out, "%128s\n%n", ret_id, &end) != 1 || end < 0 || !name_is_valid(ret_id))
		return error_set(error, EPROTO, "ctr containers ls: unexpected answer");
	if (answer.out[end])
		return error_set(error, EEXIST,
				 "several containers of containerd are named %s; give the whole id",
				 container);
	return 1;
}

/* The container's id in one name space: itself, then the id that begins so, then a name. */
static int ctr_find(const char *path, const char *space, const char *container, char *ret_id,
		    struct error *error)
{
	char filter[CONTAINER_NAME_MAX + 64];
	bool hex = strlen(container) >= CONTAINER_ID_MIN &&
		   strspn(container, "0123456789abcdef") == strlen(container);
	int r;

	snprintf(filter, sizeof(filter), "id==\"%s\"", container);
	r = ctr_id(path, space, filter, container, ret_id, error);
	if (!r && hex) {
		snprintf(filter, sizeof(filter), "id~=\"^%s\"", container);
		r = ctr_id(path, space, filter, container, ret_id, error);
	}
	for (size_t i = 0; !r && i < ARRAY_SIZE(name_labels); i++) {
		snprintf(filter, sizeof(filter), "labels.\"%s\"==\"%s\"", name_labels[i],
			 container);
		r = ctr_id(path, space, filter, container, ret_id, error);
	}
	return r;
}

/* "TASK PID STATUS", a line each under a title. */
static int ctr_task(const char *path, const char *space, const char *id, pid_t *ret_pid,
		    struct error *error)
{
	char *argv[] = { "ctr", "-n", (char *)space, "tasks", "ls", NULL };
	char found[CONTAINER_ID_MAX + 1], status[16], *state, *line;
	struct answer answer;
	int pid, r = ctr_run(path, argv, &answer, error);

	if (r < 0)
		return r;
	for (line = strtok_r(answer.out, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
		if (sscanf(line, "%128s %d %15s", found, &pid, status) != 3 || strcmp(found, id))
			continue;
		if (pid <= 0 || strcmp(status, "RUNNING"))
			break;
		*ret_pid = pid;
		return 0;
	}
	return error_set(error, ESRCH, "container %s is not running", id);
}

/* Name spaces are apart: the same name may be in several. Docker's own are left to docker, which was asked. */
static int ctr_ask(const char *path, const char *container, pid_t *ret_pid, char *ret_id,
		   size_t id_size, struct error *error)
{
	char *argv[] = { "ctr", "namespaces", "ls", "-q", NULL };
	char id[CONTAINER_ID_MAX + 1], found[CONTAINER_ID_MAX + 1], space[CONTAINER_NAME_MAX + 1];
	char *state, *line;
	struct answer answer;
	int n = 0, r = ctr_run(path, argv, &answer, error);

	space[0] = '\0';
	if (r < 0)
		return r;
	for (line = strtok_r(answer.out, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
		if (!name_is_valid(line) || ++n > NAMESPACES_MAX)
			return error_set(error, EPROTO, "ctr namespaces ls: unexpected answer");
		r = ctr_find(path, line, container, id, error);
		if (r < 0)
			return r;
		if (r && space[0])
			return error_set(
				error, EEXIST,
				"%s is in more than one name space of containerd; give the "
				"whole id, or use --pid",
				container);
		if (!r)
			continue;
		snprintf(space, sizeof(space), "%s", line);
		strcpy(found, id);
	}
	if (!space[0])
		return -ENOENT;
	if (snprintf(ret_id, id_size, "%s", found) >= (int)id_size)
		return error_set(error, ENAMETOOLONG, "container id %s is too long", found);
	return ctr_task(path, space, found, ret_pid, error);
}

/* --- all of them ------------------------------------------------------------------------------ */

static int any_ask(const char *engine, const char *path, const char *container, pid_t *ret_pid,
		   char *ret_id, size_t id_size, struct error *error)
{
	return strcmp(engine, "ctr")
		       ? engine_ask(engine, path, container, ret_pid, ret_id, id_size, error)
		       : ctr_ask(path, container, ret_pid, ret_id, id_size, error);
}

/*
 * An engine that fails otherwise does not hide the others: its message is kept until none knows
 * the container.
 */
int host_container_pid(const char *container, pid_t *ret_pid, char *ret_id, size_t id_size,
		       struct error *error)
{
	struct error first = { "" };
	int r, failed = 0;
	size_t i, asked = 0;
	char path[64];

	if (!name_is_valid(container))
		return error_set(error, EINVAL, "'%s' is not a container name or id", container);
	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		if (!engine_find(engines[i], path, sizeof(path)))
			continue;
		asked++;
		r = any_ask(engines[i], path, container, ret_pid, ret_id, id_size, &first);
		if (!r)
			return 0;
		if (r != -ENOENT && !failed)
			failed = r;
	}
	if (failed)
		return error_set(error, -failed, "%s", first.text);
	if (!asked)
		return error_set(error, ENOENT,
				 "neither podman, docker nor containerd is installed; use --pid or "
				 "--cgroup");
	return error_set(error, ENOENT,
			 "no container '%s' (containers of other users are not seen; use --pid)",
			 container);
}
