// SPDX-License-Identifier: Apache-2.0
/*
 * The keeper: holds enforcement, fences, identities and the control socket's name, and watches over the front. Root; one
 * thread. Reads no text that others wrote: what the front says are structs of fixed size, what the kernel says are files
 * of /proc and cgroupfs. Whatever the front does wrong ends the front, never a fence; whatever ends the keeper leaves all
 * fences as they are.
 */
#include "cordond/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

#include "control/control.h"
#include "cordond/notify.h"

enum {
	TICK_MS = 250,
	PING_TICKS = 8,	   /* between pings */
	SILENT_TICKS = 60, /* without an answer: the front hangs */
	YOUNG_TICKS = 20,  /* a front that ends before is a failure */
	PAUSE_TICKS_MOST = 40,
	STOP_TICKS = 20, /* what a front has for its end */
	FIGURES_TICKS = 40,
	MESSAGES_A_TURN = 64,
	FRONT_SEND_BYTES = 4 * 1024 * 1024,
	FRONT_FILES = 65536,
	FENCE_FILES = 8, /* descriptors of a fence, and some to spare */
	OTHER_FILES = 1024,
};

#define LOCK_FILE ENFORCE_RUN_DIR "/cordond.lock"
#define METRICS_DIR ENFORCE_RUN_DIR "/metrics"

int keeper_watch(struct keeper *k, int fd, struct keeper_source *source)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };

	return epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* --- the front -------------------------------------------------------------------------------- */

static void front_kill(struct keeper *k, const char *why)
{
	if (!k->front.pid)
		return;
	cordond_say("the front is ended: %s", why);
	syscall(SYS_pidfd_send_signal, k->front.pidfd, SIGKILL, NULL, 0);
}

int keeper_tell(struct keeper *k, enum wire_type type, uint32_t serial, union wire_message *message,
		const int *fds)
{
	int err;

	if (!k->front.pid || k->front.fd < 0)
		return -ENOTCONN;
	err = wire_send(k->front.fd, type, serial, message, fds);
	if (err && err != -EAGAIN && err != -EPIPE && err != -ECONNRESET)
		cordond_say("cannot send to the front: %s", strerror(-err));
	return err;
}

/* In the child: becomes the user, keeps standard streams and the pair, executes. */
static void front_exec(const struct passwd *user, int fd)
{
	static char *const argv[] = { "cordond: front", CORDOND_FRONT_WORD, NULL };
	static char *const none[] = { NULL };
	const struct rlimit files = { FRONT_FILES, FRONT_FILES }, nothing = { 0, 0 };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t empty;

	sigemptyset(&empty);
	sigprocmask(SIG_SETMASK, &empty, NULL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(fd, CORDOND_FRONT_FD) < 0 ||
	    close_range(CORDOND_FRONT_FD + 1, ~0U, 0))
		_exit(EXIT_FOUND);
	setrlimit(RLIMIT_NOFILE, &files);
	setrlimit(RLIMIT_CORE, &nothing);
	if (setgroups(0, NULL) || initgroups(user->pw_name, user->pw_gid) ||
	    setresgid(user->pw_gid, user->pw_gid, user->pw_gid) ||
	    setresuid(user->pw_uid, user->pw_uid, user->pw_uid) ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || chdir("/"))
		_exit(EXIT_PERMISSION);
	execve("/proc/self/exe", argv, none);
	_exit(EXIT_FOUND);
}

static const struct passwd *front_user(const struct keeper *k, struct error *error)
{
	const struct passwd *user = getpwnam(k->options->user);

	if (!user)
		error_set(error, ENOENT,
			  "no user %s: systemd-sysusers makes it (or adduser --system --group), or "
			  "name one by --user",
			  k->options->user);
	else if (!user->pw_uid || !user->pw_gid)
		error_set(error, EPERM, "--user %s: must not be root, nor in its group",
			  k->options->user);
	else
		return user;
	return NULL;
}

static int front_start(struct keeper *k, struct error *error)
{
	const struct passwd *user = front_user(k, error);
	struct keeper_front *f = &k->front;
	int fds[2], size = FRONT_SEND_BYTES;
	pid_t pid;

	if (!user)
		return -ENOENT;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return error_set(error, errno, "socketpair: %s", strerror(errno));
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	pid = fork();
	if (!pid)
		front_exec(user, fds[1]);
	close(fds[1]);
	f->pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (f->pidfd < 0 || keeper_watch(k, fds[0], &f->source) ||
	    keeper_watch(k, f->pidfd, &f->exit_source)) {
		int err = error_set(error, errno, "cannot start the front: %s", strerror(errno));

		close(fds[0]);
		return err;
	}
	f->pid = pid;
	f->fd = fds[0];
	f->ready = f->greeted = false;
	f->silent = f->age = 0;
	k->fronts++;
	keeper_forget_shown(k);
	return 0;
}

static int config_send(struct keeper *k)
{
	const char *path = k->options->config ? k->options->config : CORDOND_CONFIG;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	union wire_message m = { .head = { 0 } };

	if (fd < 0 && (errno != ENOENT || k->options->config))
		cordond_say("%s: %s; what was configured before stays", path, strerror(errno));
	if (fd < 0) /* an empty one */
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return keeper_tell(k, WIRE_CONFIG, 0, &m, &fd);
}

static int hello_send(struct keeper *k)
{
	struct error error = { "" };
	_cleanup_close_ int state_fd = enforce_state_open(&error);
	_cleanup_close_ int peers_fd = enforce_peers_open(&error);
	const int fds[] = { k->listen_fd, k->events_fd, state_fd, peers_fd, k->accounts_fd };
	union wire_message m = { .HELLO = {
					 .n_states = enforce_fences_room(k->enforce),
					 .started_ns = k->started_ns,
					 .fronts = k->fronts - 1,
					 .degraded = k->degraded,
					 .opened_ms = k->opened_ms,
				 } };

	if (state_fd < 0 || peers_fd < 0) {
		cordond_say("%s", error.text);
		return -EIO;
	}
	snprintf(m.HELLO.node, sizeof(m.HELLO.node), "%s", k->node);
	snprintf(m.HELLO.attached_as, sizeof(m.HELLO.attached_as), "%s",
		 enforce_attach_type(k->enforce));
	return keeper_tell(k, WIRE_HELLO, 0, &m, fds);
}

/* Hello first, then whose programs are in effect, the configuration, and all fences. */
static void front_feed(struct keeper *k)
{
	if (!k->front.greeted)
		k->front.greeted = !hello_send(k) && !keeper_set_send(k) && !config_send(k);
	while (k->front.greeted && keeper_show_next(k))
		;
}

void keeper_status_notify(const struct keeper *k)
{
	notify_send("STATUS=%zu fences%s", k->n_kept,
		    keeper_set_is_old(k) ? "; old set: the programs of another build enforce" : "");
}

static void front_became_ready(struct keeper *k)
{
	k->front.ready = true;
	if (k->fronts == 1 || k->reloading)
		notify_send("READY=1");
	keeper_status_notify(k);
	k->reloading = false;
}

/* One message; -EPROTO for one that makes no sense. */
static int front_message(struct keeper *k, const union wire_message *m, int fd)
{
	switch (m->head.type) {
	case WIRE_READY:
		front_became_ready(k);
		return 0;
	case WIRE_PONG:
		k->front.silent = 0;
		return 0;
	case WIRE_ATTACH:
		return keeper_attach(k, &m->ATTACH, fd);
	case WIRE_RELOAD:
		return keeper_reload(k, &m->RELOAD, fd);
	case WIRE_DETACH:
		return keeper_detach(k, &m->DETACH);
	case WIRE_GAP:
		return keeper_gap(k, &m->GAP);
	case WIRE_REMARK:
		return keeper_remark(k, &m->REMARK);
	case WIRE_NUMBER:
		return keeper_number(k, &m->NUMBER);
	case WIRE_ENDED:
		return keeper_ended(k, m->ENDED.fence_id);
	default:
		return -EPROTO;
	}
}

static void front_hang_up(struct keeper *k)
{
	if (k->front.fd >= 0)
		close(TAKE_FD(k->front.fd));
}

static void on_front(struct keeper *k, struct keeper_source *source)
{
	static union wire_message m;
	int fds[WIRE_FDS_MAX], n = 0, r = 0;

	(void)source;
	while (k->front.fd >= 0 && n++ < MESSAGES_A_TURN &&
	       (r = wire_receive(k->front.fd, true, &m, fds)) > 0) {
		r = k->front.ready || m.head.type == WIRE_READY ? front_message(k, &m, fds[0])
								: -EPROTO;
		for (int i = 0; i < WIRE_FDS_MAX; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		if (r < 0)
			break;
	}
	if (r >= 0)
		return;
	if (r == -EPROTO)
		front_kill(k, "it sent what is no message");
	front_hang_up(k);
}

static void on_front_exit(struct keeper *k, struct keeper_source *source)
{
	struct keeper_front *f = &k->front;
	siginfo_t info = { 0 };
	bool first = k->fronts == 1 && !f->ready;

	(void)source;
	if (waitid(P_PIDFD, (id_t)f->pidfd, &info, WEXITED | WNOHANG) || !info.si_pid)
		return;
	front_hang_up(k);
	close(TAKE_FD(f->pidfd));
	f->pid = 0;
	if (k->stopping) {
		k->ended = true;
		return;
	}
	if (first && info.si_code == CLD_EXITED) { /* what it could not begin with was said */
		k->code = info.si_status ? info.si_status : EXIT_FOUND;
		k->ended = true;
		return;
	}
	k->failures = f->age < YOUNG_TICKS ? k->failures + 1 : 0;
	k->pause = k->failures ? 1U << (k->failures < 6 ? k->failures : 6) : 0;
	if (k->pause > PAUSE_TICKS_MOST)
		k->pause = PAUSE_TICKS_MOST;
	cordond_say("the front ended (%s %d); %zu fences stay enforced; another is started",
		    info.si_code == CLD_EXITED ? "exit" : "signal", info.si_status, k->n_kept);
}

/* --- time and signals ------------------------------------------------------------------------- */

static void front_tick(struct keeper *k)
{
	struct keeper_front *f = &k->front;
	struct error error = { "" };
	union wire_message m = { .head = { 0 } };

	if (!f->pid) {
		if (!k->pause && front_start(k, &error)) {
			cordond_say("%s", error.text);
			k->pause = PAUSE_TICKS_MOST;
		} else if (k->pause) {
			k->pause--;
		}
		return;
	}
	f->age++;
	front_feed(k);
	f->silent += f->silent > 0;
	if (f->silent > SILENT_TICKS) {
		front_kill(k, "it does not answer");
		f->silent = 1;
	}
	if (!f->silent && f->age % PING_TICKS == 0) {
		keeper_tell(k, WIRE_PING, 0, &m, NULL);
		f->silent = 1;
	}
}

static void figures_send(struct keeper *k)
{
	union wire_message m = { .head = { 0 } };

	if (k->front.ready && !enforce_missed(&m.FIGURES.missed))
		keeper_tell(k, WIRE_FIGURES, 0, &m, NULL);
}

static void on_timer(struct keeper *k, struct keeper_source *source)
{
	uint64_t times, watchdog = notify_watchdog_ms() / 3 / TICK_MS;

	(void)!read(k->timer_fd, &times, sizeof(times));
	on_front(k, source); /* what it said counts before it is called silent */
	k->tick++;
	if (notify_watchdog_ms() && k->tick % (watchdog ? watchdog : 1) == 0)
		notify_send("WATCHDOG=1");
	keeper_fences_tick(k);
	if (k->tick % FIGURES_TICKS == 0) {
		figures_send(k);
		keeper_set_tick(k);
	}
	if (!k->stopping)
		front_tick(k);
	else if (++k->front.age > STOP_TICKS)
		k->ended = true;
}

static void keeper_stop(struct keeper *k)
{
	union wire_message m = { .head = { 0 } };

	if (k->stopping)
		return;
	k->stopping = true;
	k->front.age = 0;
	notify_send("STOPPING=1\nSTATUS=leaves %zu fences enforced", k->n_kept);
	if (!k->front.pid || keeper_tell(k, WIRE_STOP, 0, &m, NULL))
		k->ended = true;
}

static void keeper_reload_config(struct keeper *k)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	notify_send("RELOADING=1\nMONOTONIC_USEC=%lld",
		    (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	k->reloading = true;
	keeper_set_again(k);
	if (!k->front.ready || config_send(k)) {
		cordond_say("no front to reload: the next one reads the new configuration");
		notify_send("READY=1");
		k->reloading = false;
	}
}

static void on_signal(struct keeper *k, struct keeper_source *source)
{
	struct signalfd_siginfo info;

	(void)source;
	while (read(k->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			keeper_reload_config(k);
		else
			keeper_stop(k);
	}
}

/* --- beginning and end ------------------------------------------------------------------------ */

/* A directory of root's, where nobody else can put anything. */
static int directory_make(const char *path, struct error *error)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return error_set(error, errno, "cannot make %s: %s", path, strerror(errno));
	if (lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid)
		return error_set(
			error, ENOTDIR,
			"%s is no directory of root's; remove it, after a look at who made "
			"it",
			path);
	return 0;
}

/* Others come through it, to the sockets; whoever made it (`cordon load`, with 0700) may have been of another mind. */
static int run_dir_make(struct error *error)
{
	struct stat st;

	if (mkdir(ENFORCE_RUN_DIR, 0711) && errno != EEXIST)
		return error_set(error, errno, "cannot make " ENFORCE_RUN_DIR ": %s",
				 strerror(errno));
	if (lstat(ENFORCE_RUN_DIR, &st) || !S_ISDIR(st.st_mode) || st.st_uid)
		return error_set(error, ENOTDIR, ENFORCE_RUN_DIR " is no directory of root's");
	if ((st.st_mode & 0111) != 0111 && chmod(ENFORCE_RUN_DIR, (st.st_mode & 07777) | 0111))
		return error_set(error, errno, ENFORCE_RUN_DIR ": %s", strerror(errno));
	return 0;
}

/* A lock of the process, not of the descriptor: a child that loads programs and outlives a killed keeper does not have it. */
static int lock_take(struct keeper *k, struct error *error)
{
	const struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int err = run_dir_make(error);

	if (!err)
		err = directory_make(KEEPER_DIR, error);
	if (err)
		return err;
	k->lock_fd = open(LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (k->lock_fd < 0)
		return error_set(error, errno, LOCK_FILE ": %s%s", strerror(errno),
				 errno == ELOOP ? "; somebody put a symbolic link there: remove it"
						: "");
	if (fcntl(k->lock_fd, F_SETLK, &whole))
		return error_set(error, EEXIST, "another cordond runs on this host");
	return 0;
}

static int loop_open(struct keeper *k, struct error *error)
{
	const struct itimerspec every = { .it_interval.tv_nsec = TICK_MS * 1000000L,
					  .it_value.tv_nsec = TICK_MS * 1000000L };
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN);
	k->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	k->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	k->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	k->signal_source.ready = on_signal;
	k->timer_source.ready = on_timer;
	k->front.source.ready = on_front;
	k->front.exit_source.ready = on_front_exit;
	if (k->epoll_fd < 0 || k->signal_fd < 0 || k->timer_fd < 0 ||
	    timerfd_settime(k->timer_fd, 0, &every, NULL) ||
	    keeper_watch(k, k->signal_fd, &k->signal_source) ||
	    keeper_watch(k, k->timer_fd, &k->timer_source))
		return error_set(error, errno, "cannot start: %s", strerror(errno));
	return 0;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int host_open(struct keeper *k, struct error *error)
{
	uint64_t begin_ms;
	int err;

	host_probe(&k->report);
	err = host_report_refuse(&k->report, error);
	if (err && k->options->degraded && !(k->report.lost & HOST_NEED_NETWORK)) {
		error->text[0] = '\0';
		k->degraded = k->report.lost & HOST_NEED_FILES;
		err = 0;
	}
	if (err)
		return err;
	begin_ms = now_ms();
	err = keeper_set_open(k, error);
	k->opened_ms = now_ms() - begin_ms;
	return err;
}

/* Descriptors for as many fences as there is room for. Where that is not to be had, what is there has to do: attach says when it does not. */
static void files_raise(const struct keeper *k)
{
	rlim_t wanted = OTHER_FILES + (rlim_t)enforce_fences_room(k->enforce) * FENCE_FILES;
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= wanted)
		return;
	files.rlim_cur = wanted;
	if (files.rlim_max >= wanted)
		setrlimit(RLIMIT_NOFILE, &files);
	else if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){ wanted, wanted })) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

/* Where the front may make the socket of its metrics: its own, in a directory that is not. Without it there is no socket. */
static void metrics_dir_make(const struct keeper *k)
{
	_cleanup_close_ int fd = -1;
	struct error error = { "" };
	const struct passwd *user = front_user(k, &error);
	struct stat st;

	mkdir(METRICS_DIR, 0700);
	fd = open(METRICS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (!user || fd < 0 || fstat(fd, &st) || (st.st_uid && st.st_uid != user->pw_uid) ||
	    fchown(fd, user->pw_uid, user->pw_gid) || fchmod(fd, 0755))
		cordond_say("%s is no directory of %s's; remove it, after a look at who made it",
			    METRICS_DIR, k->options->user);
}

static int keeper_open(struct keeper *k, struct error *error)
{
	struct timespec now;
	int err = lock_take(k, error);

	clock_gettime(CLOCK_REALTIME, &now);
	k->started_ns = (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
	gethostname(k->node, sizeof(k->node) - 1);
	if (!err && !front_user(k, error))
		err = -ENOENT;
	if (!err)
		err = host_open(k, error);
	if (!err)
		err = loop_open(k, error);
	if (!err) {
		k->listen_fd =
			control_listen("control socket", k->options->socket, SOCK_STREAM, error);
		err = k->listen_fd < 0 ? k->listen_fd : 0;
	}
	if (!err) {
		k->events_fd = control_listen("socket of gateways' events", k->options->events,
					      SOCK_SEQPACKET, error);
		err = k->events_fd < 0 ? k->events_fd : 0;
	}
	if (!err)
		err = keeper_accounts_open(k, error);
	if (!err) {
		files_raise(k);
		keeper_adopt(k);
		metrics_dir_make(k);
		err = front_start(k, error);
	}
	return err;
}

static void keeper_run(struct keeper *k)
{
	struct epoll_event events[64];

	front_feed(k); /* before the first tick, whose facts it is to have */
	while (!k->ended) {
		int n = epoll_wait(k->epoll_fd, events, ARRAY_SIZE(events), -1);

		for (int i = 0; i < n && !k->ended; i++) {
			struct keeper_source *source = events[i].data.ptr;

			source->ready(k, source);
			if (source != &k->timer_source && source != &k->front.source)
				break; /* it may have freed what other events are about */
		}
		front_feed(k);
	}
}

static void keeper_close(struct keeper *k)
{
	if (k->listen_fd >= 0) {
		unlink(k->options->socket);
		close(k->listen_fd);
		rmdir(METRICS_DIR);
	}
	if (k->events_fd >= 0) {
		unlink(k->options->events);
		close(k->events_fd);
	}
	front_hang_up(k);
	keeper_accounts_close(k);
	keeper_fences_leave(k);
	if (k->maps.peers_fd >= 0)
		close(k->maps.peers_fd);
	if (k->maps.notes_fd >= 0)
		close(k->maps.notes_fd);
	enforce_close(k->enforce);
	if (k->lock_fd >= 0)
		close(k->lock_fd);
}

static int error_code(int err)
{
	switch (-err) {
	case EPERM:
		return EXIT_PERMISSION;
	case ENOTSUP:
	case EXFULL:
		return EXIT_HOST;
	default:
		return EXIT_FOUND;
	}
}

int keeper_main(const struct cordond_options *options)
{
	static struct keeper k;
	struct error error = { "" };
	size_t left;
	int err;

	k = (struct keeper){ .options = options,
			     .lock_fd = -1,
			     .listen_fd = -1,
			     .events_fd = -1,
			     .accounts_fd = -1,
			     .maps = { -1, -1 },
			     .signal_fd = -1,
			     .timer_fd = -1,
			     .epoll_fd = -1,
			     .front = { .fd = -1, .pidfd = -1 } };
	if (geteuid()) {
		cordond_say(
			"must be root: it holds what is enforced; use systemctl start cordond, or "
			"sudo");
		return EXIT_PERMISSION;
	}
	notify_open();
	umask(077);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	err = keeper_open(&k, &error);
	if (!err)
		keeper_run(&k);
	left = k.n_kept;
	keeper_close(&k);
	if (err) {
		cordond_say("%s", error.text);
		return error_code(err);
	}
	if (!k.code)
		cordond_say("ended; leaves %zu fences enforced", left);
	return k.code;
}
