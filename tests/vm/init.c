// SPDX-License-Identifier: Apache-2.0
/*
 * init - process 1 of the test guest: makes the machine, runs one command, reports, switches off.
 *
 * Static, started by the kernel from the initramfs that tests/vm/run packs, as root. It loads the
 * modules in /m/order, mounts the root disk, enters it, mounts what a Linux system has, runs the
 * job's command and sends the command's output, the kernel log, the files in /out and the
 * exit status to the host through virtio-serial ports named cordon.out, .kmsg, .files, .status.
 *
 * The host has written "no status" before the guest starts. Whatever goes wrong here (a mount
 * that fails, a panic, a kill) therefore counts as a failure there: this program says why on the
 * console and switches the machine off; it never makes a status up.
 *
 * The job is /job: strings that end in NUL. First NAME=VALUE settings, then an empty string,
 * then the command and its arguments. Settings beginning with "env:" go to its environment.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEBUG_EXIT_PORT 0xf4 /* the host's isa-debug-exit device */
#define DEVICE_WAIT_MS 10000
#define CODE_TIMEOUT (-2)
#define JOB_MAX_BYTES (1 << 20)

static char job[JOB_MAX_BYTES];
static size_t job_bytes;
static char *job_env[512];
static char *job_argv[8192];

/* Says a line on the console, which is the host's console log. */
static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (len < 0)
		return;
	if (len > (int)sizeof(line) - 2)
		len = sizeof(line) - 2;
	line[len++] = '\n';
	if (write(STDERR_FILENO, line, len) < 0)
		return;
}

/* Ends the machine at once. The host judges by the status port alone. */
static void __attribute__((noreturn)) switch_off(void)
{
	if (ioperm(DEBUG_EXIT_PORT, 1, 1) == 0)
		outb(1, DEBUG_EXIT_PORT);
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say("init: %s: %s", text, strerror(errno));
	switch_off();
}

static void mount_or_fail(const char *source, const char *target, const char *type,
			  unsigned long flags, const char *data)
{
	mkdir(target, 0755);
	if (mount(source, target, type, flags, data) < 0)
		fail("mount %s on %s", type ? type : source, target);
}

/* For what not every kernel has. */
static void mount_if_possible(const char *target, const char *type, unsigned long flags)
{
	mkdir(target, 0755);
	if (mount(type, target, type, flags, NULL) < 0)
		say("init: no %s: %s", type, strerror(errno));
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		say("init: write %s: %s", path, strerror(errno));
	close(fd);
}

/* First line of a small file without its newline; false where there is none. */
static bool read_line(const char *path, char *ret_line, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return false;
	len = read(fd, ret_line, size - 1);
	close(fd);
	if (len < 0)
		return false;
	ret_line[len] = '\0';
	ret_line[strcspn(ret_line, "\n")] = '\0';
	return true;
}

/* Inserts the modules named in /m/order, one path a line, in this order. */
static void insert_early_modules(void)
{
	FILE *order = fopen("/m/order", "re");
	char line[256];

	if (!order)
		return;
	while (fgets(line, sizeof(line), order)) {
		int fd;

		line[strcspn(line, "\n")] = '\0';
		fd = open(line, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
			say("init: module %s: %s", line, strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	fclose(order);
}

/*
 * Looks below directory (/sys/block or /sys/class/virtio-ports) for the entry whose attribute
 * file has the given content, and gives its name. Names like vdb depend on probing order.
 */
static bool device_find(const char *directory, const char *attribute, const char *content,
			char *ret_name, size_t size)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	bool found = false;

	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		char path[512], line[128];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s/%s", directory, entry->d_name, attribute);
		found = read_line(path, line, sizeof(line)) && strcmp(line, content) == 0;
		if (found)
			snprintf(ret_name, size, "%s", entry->d_name);
	}
	closedir(dir);
	return found;
}

static bool device_wait(const char *directory, const char *attribute, const char *content,
			char *ret_name, size_t size)
{
	for (int waited_ms = 0; waited_ms < DEVICE_WAIT_MS; waited_ms += 10) {
		if (device_find(directory, attribute, content, ret_name, size))
			return true;
		usleep(10000);
	}
	return false;
}

/* Mounts the disk with this serial; false where the host gave none. */
static bool mount_disk(const char *serial, const char *target, unsigned long flags, bool wait)
{
	char name[64], device[80];

	if (!(wait ? device_wait : device_find)("/sys/block", "serial", serial, name, sizeof(name)))
		return false;
	snprintf(device, sizeof(device), "/dev/%s", name);
	mount_or_fail(device, target, "ext4", flags, NULL);
	return true;
}

/* Opens a port to the host for writing, or gives -1. */
static int port_open(const char *port)
{
	char name[64], path[80];

	if (!device_wait("/sys/class/virtio-ports", "name", port, name, sizeof(name)))
		return -1;
	snprintf(path, sizeof(path), "/dev/%s", name);
	return open(path, O_WRONLY | O_CLOEXEC);
}

static bool write_all(int fd, const char *data, size_t bytes)
{
	while (bytes) {
		ssize_t done = write(fd, data, bytes);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		data += done;
		bytes -= done;
	}
	return true;
}

static void job_read(void)
{
	int fd = open("/job", O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		fail("open /job");
	while ((len = read(fd, job + job_bytes, sizeof(job) - 1 - job_bytes)) > 0)
		job_bytes += len;
	close(fd);
	if (len < 0 || job_bytes == sizeof(job) - 1)
		fail("job is too long");
}

/* Splits the job into environment and arguments. */
static void job_parse(void)
{
	size_t envc = 0, argc = 0;
	bool settings = true;

	for (char *s = job; s < job + job_bytes; s += strlen(s) + 1) {
		if (settings && !*s)
			settings = false;
		else if (settings && strncmp(s, "env:", 4) == 0 &&
			 envc < sizeof(job_env) / sizeof(*job_env) - 1)
			job_env[envc++] = s + 4;
		else if (!settings && argc < sizeof(job_argv) / sizeof(*job_argv) - 1)
			job_argv[argc++] = s;
	}
	if (!argc)
		fail("job has no command");
}

/* The value of a setting, or NULL. */
static const char *job_setting(const char *name)
{
	size_t len = strlen(name);

	for (char *s = job; s < job + job_bytes && *s; s += strlen(s) + 1)
		if (strncmp(s, name, len) == 0 && s[len] == '=')
			return s + len + 1;
	return NULL;
}

/* Mounts the root disk and makes it the root of this process. */
static void enter_root(void)
{
	if (!mount_disk("root", "/new", 0, true))
		fail("no root disk");
	if (chdir("/new") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
	    chdir("/") < 0)
		fail("enter root");
}

static void mount_file_systems(void)
{
	struct utsname uts;
	char modules[128];

	mount_or_fail("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=0755");
	mount_or_fail("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_or_fail("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_or_fail("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		      "gid=5,mode=0620,ptmxmode=0666");
	mount_or_fail("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
	mount_or_fail("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
	mount_or_fail("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
	/* Options as systemd's, where the kernel knows them. */
	if (mount("cgroup2", "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "nsdelegate,memory_recursiveprot") < 0)
		mount_or_fail("cgroup2", "/sys/fs/cgroup", "cgroup2",
			      MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_if_possible("/sys/fs/bpf", "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC);
	mount_if_possible("/sys/kernel/security", "securityfs", MS_NOSUID | MS_NODEV | MS_NOEXEC);
	mount_if_possible("/sys/kernel/debug", "debugfs", MS_NOSUID | MS_NODEV | MS_NOEXEC);
	mount_if_possible("/sys/kernel/tracing", "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC);
	mount_if_possible("/dev/mqueue", "mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC);
	mkdir("/run/lock", 01777);
	symlink("/proc/self/fd", "/dev/fd");
	symlink("/proc/self/fd/0", "/dev/stdin");
	symlink("/proc/self/fd/1", "/dev/stdout");
	symlink("/proc/self/fd/2", "/dev/stderr");

	uname(&uts);
	mkdir("/usr/lib/modules", 0755);
	snprintf(modules, sizeof(modules), "/usr/lib/modules/%s", uts.release);
	mount_disk("modules", modules, MS_RDONLY, false);
	if (!mount_disk("scratch", "/scratch", 0, true))
		fail("no scratch disk");
	chmod("/scratch", 01777);
	if (!mount_disk("cordon", "/cordon", 0, true))
		fail("no build tree");
	mount_disk("share", "/share", MS_RDONLY, false);
	mkdir("/out", 0777);
	chmod("/out", 01777);
	/* As systemd has it; container runtimes expect it. */
	mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL);
}

/* Runs a program of the guest to its end; its descriptor 1 is out where that is not -1. */
static int run_program(char *const argv[], int out)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (out >= 0)
			dup2(out, STDOUT_FILENO);
		execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

/* Modules that tests use as controls; those that this kernel lacks are passed over. */
static void insert_test_modules(void)
{
	static char *const argv[] = {
		"/sbin/modprobe", "-qab",  "overlay", "sctp",	"vsock_loopback",
		"veth",		  "dummy", "tun",     "bridge", "br_netfilter",
		"nf_tables",	  "fuse",  NULL
	};

	run_program(argv, -1);
	chmod("/dev/net/tun", 0666);
	chmod("/dev/fuse", 0666);
}

static void loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ifr) < 0)
		fail("loopback");
	ifr.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		fail("loopback up");
	close(fd);
}

/* The settings that Debian's systemd makes at boot, and an identity for the machine. */
static void set_up_system(void)
{
	static const char *const settings[][2] = {
		{ "/proc/sys/fs/protected_hardlinks", "1" },
		{ "/proc/sys/fs/protected_symlinks", "1" },
		{ "/proc/sys/fs/protected_fifos", "1" },
		{ "/proc/sys/fs/protected_regular", "2" },
		{ "/proc/sys/net/ipv4/ping_group_range", "0 2147483647" },
		{ "/proc/sys/kernel/sysrq", "1" },
	};
	char uuid[64], id[64], *to = id;

	sethostname("cordon-vm", 9);
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		write_text(settings[i][0], settings[i][1]);
	if (!read_line("/proc/sys/kernel/random/uuid", uuid, sizeof(uuid)))
		return;
	for (const char *from = uuid; *from; from++)
		if (*from != '-')
			*to++ = *from;
	*to++ = '\n';
	*to = '\0';
	write_text("/etc/machine-id", id);
}

/* Every controller that there is, for the children of the root cgroup. */
static void enable_controllers(void)
{
	char line[256], command[64];

	if (!read_line("/sys/fs/cgroup/cgroup.controllers", line, sizeof(line)))
		return;
	for (char *name = strtok(line, " "); name; name = strtok(NULL, " ")) {
		snprintf(command, sizeof(command), "+%s", name);
		write_text("/sys/fs/cgroup/cgroup.subtree_control", command);
	}
}

/* The child: the command, in a session of its own, with a pipe as its output. */
static void __attribute__((noreturn)) exec_command(int out)
{
	sigset_t none;
	int null = open("/dev/null", O_RDONLY);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	close_range(3, ~0U, 0);
	if (chdir("/cordon") < 0)
		_exit(126);
	environ = job_env;
	/* execvp, not execvpe: PATH of the new environment is searched. */
	execvp(job_argv[0], job_argv);
	dprintf(STDERR_FILENO, "vm: %s: %s\n", job_argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/* Copies what the pipe holds, 1 MiB at most, since its writer may never stop; false at its end. */
static bool relay(int from, int port)
{
	char data[65536];
	ssize_t len = 1;

	for (int i = 0; i < 16 && (len = read(from, data, sizeof(data))) > 0; i++)
		write_all(port, data, len);
	return len > 0 || (len < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Reaps every child; gives true and the command's code once the command is among them. */
static bool reap(pid_t command, int *ret_code)
{
	bool ended = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != command)
			continue;
		ended = true;
		*ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
	return ended;
}

static long long uptime_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* For whoever wonders where a command hangs: the processes, and in the kernel log the blocked ones. */
static void show_hang(int port)
{
	char *const argv[] = { "/bin/ps", "-N",
			       "--ppid",  "2",
			       "-p",	  "2",
			       "-wwo",	  "pid,ppid,user:10,stat,etimes,wchan:24,args",
			       NULL };
	static const char title[] = "\nvm: time is up; the guest's processes:\n";

	write_all(port, title, sizeof(title) - 1);
	run_program(argv, port);
	write_text("/proc/sysrq-trigger", "w");
}

/*
 * Runs the command to its end, relaying its output as it comes, and gives its code, or CODE_TIMEOUT
 * once the machine has been up for the job's time. The host keeps a longer clock of its own.
 */
static int run_command(int port)
{
	const char *limit = job_setting("timeout_s");
	long long deadline_ms = (limit ? atoll(limit) : 86400) * 1000;
	struct signalfd_siginfo info;
	int out[2], signals, code = -1;
	bool open_ended = true;
	sigset_t set;
	pid_t pid;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0 || pipe2(out, O_CLOEXEC) < 0)
		fail("pipe");
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0)
		exec_command(out[1]);
	close(out[1]);
	for (bool ended = false; !ended;) {
		struct pollfd fds[] = { { .fd = signals, .events = POLLIN },
					{ .fd = open_ended ? out[0] : -1, .events = POLLIN } };

		poll(fds, 2, 1000);
		while (read(signals, &info, sizeof(info)) > 0)
			;
		ended = reap(pid, &code);
		if (open_ended)
			open_ended = relay(out[0], port);
		if (!ended && uptime_ms() >= deadline_ms) {
			show_hang(port);
			code = CODE_TIMEOUT;
			break;
		}
	}
	close(out[0]);
	return code;
}

/* The whole kernel log, because what the console shows depends on the log level. */
static void send_kernel_log(void)
{
	int port = port_open("cordon.kmsg");
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char record[9000];
	ssize_t len;

	if (port < 0 || log < 0)
		fail("kernel log");
	for (;;) {
		len = read(log, record, sizeof(record));
		if (len < 0 && errno == EPIPE)
			continue;
		if (len <= 0)
			break;
		write_all(port, record, len);
	}
	close(log);
	close(port);
}

static void send_files(void)
{
	char *const argv[] = { "/bin/tar", "-C", "/out", "-cf", "-", ".", NULL };
	int port;

	if (!job_setting("out"))
		return;
	port = port_open("cordon.files");
	if (port < 0)
		fail("port cordon.files");
	if (run_program(argv, port) != 0)
		say("init: tar of /out failed");
	close(port);
}

/* Leaves the root disk clean where the host keeps it. */
static void settle_root(void)
{
	if (!job_setting("keep"))
		return;
	sync();
	kill(-1, SIGKILL);
	usleep(100000);
	sync();
	if (mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0) {
		write_text("/proc/sys/kernel/sysrq", "1");
		write_text("/proc/sysrq-trigger", "u");
		sleep(1);
	}
}

static void send_status(int code)
{
	int port = port_open("cordon.status");
	char line[32];

	if (port < 0)
		fail("port cordon.status");
	if (code == CODE_TIMEOUT)
		snprintf(line, sizeof(line), "timeout\n");
	else
		snprintf(line, sizeof(line), "exit %d\n", code);
	write_all(port, line, strlen(line));
	close(port);
}

int main(void)
{
	int code, console, out;

	mount_or_fail("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	console = open("/dev/console", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(console, fd);
	if (console > 2)
		close(console);
	mount_or_fail("sysfs", "/sys", "sysfs", 0, NULL);
	job_read();
	job_parse();
	insert_early_modules();
	enter_root();
	mount_file_systems();
	set_up_system();
	loopback_up();
	enable_controllers();
	insert_test_modules();
	out = port_open("cordon.out");
	if (out < 0)
		fail("port cordon.out");
	code = run_command(out);
	send_kernel_log();
	send_files();
	settle_root();
	send_status(code);
	switch_off();
}
