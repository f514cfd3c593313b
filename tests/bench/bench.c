// SPDX-License-Identifier: Apache-2.0
/*
 * The measuring program of `make bench`: runs one kind of call in a loop and prints what one call costs, in ticks of
 * the time stamp counter. In a virtual machine that counts instructions (tests/vm/run --icount) a tick is an
 * instruction, of the kernel and of this process. Each call is timed by itself and the median of all counts, so
 * that timer interrupts, and what the kernel puts off to later, are nobody's cost. The first calls are thrown away.
 * Static, so that nothing but the calls themselves reaches the kernel.
 *
 * usage: bench [-n CALLS] [--landlock write|readwrite DIR] [--wait FILE] ROW...
 *                                                rows on stdout: NAME MEDIAN P05 P95
 *        bench --server                          takes the connections and datagrams of the rows below
 *        bench --spawn COMMAND [ARG...]          what COMMAND costs from fork to end, and its time in us
 *
 * ROW: write-DEPTH   open for writing, write of a byte, close, of a file DEPTH directories below .
 *      read-DEPTH    open for reading, close
 *      tcp           socket, connect to the server, close
 *      tcp-connect   the connect alone
 *      udp-connect   connect of a datagram socket to the server
 *      udp-sendto    sendto to the server
 *      udp-many      the same to 64 addresses of the server in turn, more than anybody remembers
 *      exec          fork, execve of $BENCH_TRUE, wait
 * The files are made by --make, before anybody is fenced. --wait: not before FILE is there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { TCP_PORT = 8800, UDP_PORT = 8801, PASSES = 4, BACKLOG = 4096, DRAIN_MS = 200, SETTLE_S = 5 };
enum { SERVER_MS = 20, CALLS_MAX = 100000 };
enum { MANY = 64, MANY_FIRST = 0x7f000140 }; /* 127.0.1.64/26 */

static char file[256];
static int udp_fd, udp_connect_fd;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in server(int port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

/* --- the calls ------------------------------------------------------------------------------------------------ */

static uint64_t call_write(void)
{
	uint64_t start = __rdtsc();
	int fd = open(file, O_WRONLY);

	must(fd >= 0 && write(fd, "x", 1) == 1, file);
	close(fd);
	return __rdtsc() - start;
}

static uint64_t call_read(void)
{
	uint64_t start = __rdtsc();
	int fd = open(file, O_RDONLY);

	must(fd >= 0, file);
	close(fd);
	return __rdtsc() - start;
}

/* Ends by reset, so that no connection lingers and changes what the next costs. */
static uint64_t tcp(int connect_alone)
{
	const struct linger hard = { .l_onoff = 1 };
	struct sockaddr_in to = server(TCP_PORT);
	uint64_t start = __rdtsc(), before, after;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), "socket");
	before = __rdtsc();
	must(!connect(fd, (struct sockaddr *)&to, sizeof(to)), "connect");
	after = __rdtsc();
	close(fd);
	return connect_alone ? after - before : __rdtsc() - start;
}

static uint64_t call_tcp(void)
{
	return tcp(0);
}

static uint64_t call_tcp_connect(void)
{
	return tcp(1);
}

static uint64_t call_udp_connect(void)
{
	struct sockaddr_in to = server(UDP_PORT);
	uint64_t start = __rdtsc();

	must(!connect(udp_connect_fd, (struct sockaddr *)&to, sizeof(to)), "connect");
	return __rdtsc() - start;
}

static uint64_t call_udp_sendto(void)
{
	struct sockaddr_in to = server(UDP_PORT);
	uint64_t start = __rdtsc();

	must(sendto(udp_fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) == 1, "sendto");
	return __rdtsc() - start;
}

static uint64_t call_udp_many(void)
{
	static unsigned int n;
	struct sockaddr_in to = server(UDP_PORT);
	uint64_t start;

	to.sin_addr.s_addr = htonl(MANY_FIRST + n++ % MANY);
	start = __rdtsc();
	must(sendto(udp_fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) == 1, "sendto");
	return __rdtsc() - start;
}

static uint64_t call_exec(void)
{
	const char *path = getenv("BENCH_TRUE");
	uint64_t start = __rdtsc();
	pid_t pid = fork();
	int status;

	if (!pid) {
		execl(path, path, NULL);
		_exit(127);
	}
	must(pid > 0 && waitpid(pid, &status, 0) == pid && !status, "fork and exec");
	return __rdtsc() - start;
}

/* --- the rows ------------------------------------------------------------------------------------------------- */

struct row {
	const char *name; /* ends in "-": a depth follows */
	uint64_t (*call)(void);
	int calls; /* per pass */
	int alone; /* others wait: the server and the reader of events take their turn between the passes */
};

static const struct row rows[] = {
	{ "write-", call_write, 2000, 0 },
	{ "read-", call_read, 2000, 0 },
	{ "tcp-connect", call_tcp_connect, 500, 1 },
	{ "tcp", call_tcp, 500, 1 },
	{ "udp-connect", call_udp_connect, 1000, 1 },
	{ "udp-sendto", call_udp_sendto, 1000, 1 },
	{ "udp-many", call_udp_many, 1000, 1 },
	{ "exec", call_exec, 100, 0 },
};

static void file_path(int depth, int make)
{
	size_t n = 0;

	for (int i = 1; i < depth; i++) {
		n += snprintf(file + n, sizeof(file) - n, "d/");
		if (make)
			must(!mkdir(file, 0755) || errno == EEXIST, file);
	}
	snprintf(file + n, sizeof(file) - n, "f");
	if (make)
		must(close(open(file, O_CREAT | O_WRONLY, 0644)) == 0, file);
}

static const struct row *row_find(const char *name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strncmp(name, rows[i].name, strlen(rows[i].name)))
			return &rows[i];
	fprintf(stderr, "bench: no row %s\n", name);
	exit(2);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* A real-time process is interrupted by nobody who has to be scheduled. */
static void alone(int yes)
{
	const struct sched_param param = { .sched_priority = yes ? 10 : 0 };
	struct timespec drain = { .tv_nsec = DRAIN_MS * 1000000L };

	if (yes)
		nanosleep(&drain, NULL);
	must(!sched_setscheduler(0, yes ? SCHED_FIFO : SCHED_OTHER, &param), "sched_setscheduler");
}

static void row_run(const char *name, int calls)
{
	static uint64_t ticks[CALLS_MAX];
	const struct row *row = row_find(name);
	int n = 0;

	if (row->name[strlen(row->name) - 1] == '-')
		file_path(atoi(name + strlen(row->name)), 0);
	if (!calls)
		calls = row->calls;
	for (int pass = 0; pass < PASSES; pass++) {
		if (row->alone)
			alone(1);
		for (int i = 0; i < calls && n < CALLS_MAX; i++) {
			uint64_t t = row->call();

			if (pass)
				ticks[n++] = t;
		}
		if (row->alone)
			alone(0);
	}
	qsort(ticks, n, sizeof(ticks[0]), compare);
	printf("%s %llu %llu %llu\n", name, (unsigned long long)ticks[n / 2],
	       (unsigned long long)ticks[n / 20], (unsigned long long)ticks[n - 1 - n / 20]);
	fflush(stdout);
}

/* --- Landlock -------------------------------------------------------------------------------------------------- */

static uint64_t landlock_writes(int abi)
{
	uint64_t access = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
			  LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
			  LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
			  LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
			  LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

	if (abi >= 2)
		access |= 1ULL << 13; /* REFER */
	if (abi >= 3)
		access |= 1ULL << 14; /* TRUNCATE */
	return access;
}

static void landlock_allow(int ruleset, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = access };

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	must(rule.parent_fd >= 0 &&
		     !syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0),
	     path);
	close(rule.parent_fd);
}

/* What a fence holds: writing below the workdir alone; with reads, reading anywhere, but asked for. */
static void landlock(int reads, const char *workdir)
{
	struct landlock_ruleset_attr attr = { 0 };
	uint64_t read_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
	int abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION),
	    ruleset;

	must(abi > 0, "landlock");
	attr.handled_access_fs = landlock_writes(abi) | (reads ? read_access : 0);
	ruleset = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);
	must(ruleset >= 0, "landlock_create_ruleset");
	landlock_allow(ruleset, workdir, landlock_writes(abi));
	if (reads)
		landlock_allow(ruleset, "/", read_access);
	must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
		     !syscall(SYS_landlock_restrict_self, ruleset, 0),
	     "landlock_restrict_self");
	close(ruleset);
}

/* --- the other side, and whole commands ------------------------------------------------------------------------ */

static int listener(int type, int port)
{
	const int room = 16 << 20;
	struct sockaddr_in at = server(port);
	int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_ANY);
	must(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)), "socket");
	must(!bind(fd, (struct sockaddr *)&at, sizeof(at)), "bind");
	must(type == SOCK_DGRAM || !listen(fd, BACKLOG), "listen");
	return fd;
}

/* Looks now and then and waits for nothing: what wakes a waiting process would be the caller's cost, or not. */
static void serve(void)
{
	const struct timespec pause = { .tv_nsec = SERVER_MS * 1000000L };
	int tcp_fd = listener(SOCK_STREAM, TCP_PORT), from_fd = listener(SOCK_DGRAM, UDP_PORT), fd;
	char byte;

	for (;;) {
		while ((fd = accept(tcp_fd, NULL, NULL)) >= 0)
			close(fd);
		while (recv(from_fd, &byte, 1, 0) > 0)
			;
		nanosleep(&pause, NULL);
	}
}

static void spawn(char **argv)
{
	struct timespec a, b;
	uint64_t start;
	int status;
	pid_t pid;

	clock_gettime(CLOCK_MONOTONIC, &a);
	start = __rdtsc();
	pid = fork();
	if (!pid) {
		execvp(argv[0], argv);
		_exit(127);
	}
	must(pid > 0 && waitpid(pid, &status, 0) == pid, "spawn");
	start = __rdtsc() - start;
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%llu %lld %d\n", (unsigned long long)start,
	       (b.tv_sec - a.tv_sec) * 1000000LL + (b.tv_nsec - a.tv_nsec) / 1000,
	       WEXITSTATUS(status));
}

static void wait_for(const char *path)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000000L };

	while (access(path, F_OK))
		nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
	int calls = 0, i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--server")) {
			serve();
		} else if (!strcmp(argv[i], "--spawn") && i + 1 < argc) {
			spawn(argv + i + 1);
			return 0;
		} else if (!strcmp(argv[i], "--make") && i + 1 < argc) {
			file_path(atoi(argv[++i]), 1);
		} else if (!strcmp(argv[i], "--landlock") && i + 2 < argc) {
			landlock(!strcmp(argv[i + 1], "readwrite"), argv[i + 2]);
			i += 2;
		} else if (!strcmp(argv[i], "--wait") && i + 1 < argc) {
			wait_for(argv[++i]);
		} else if (!strcmp(argv[i], "-n") && i + 1 < argc) {
			calls = atoi(argv[++i]);
		} else {
			fprintf(stderr, "bench: unknown option %s\n", argv[i]);
			return 2;
		}
	}
	sleep(SETTLE_S); /* the kernel still clears up behind what ran before, in the background */
	udp_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	udp_connect_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	must(udp_fd >= 0 && udp_connect_fd >= 0, "socket");
	for (; i < argc; i++)
		row_run(argv[i], calls);
	return 0;
}
