// SPDX-License-Identifier: Apache-2.0
/*
 * posix - what file systems answer: every operation on every kind of object, then what descriptors do, in the current
 * directory. A line a check, the same wherever it runs, without numbers that differ from run to run; tests/work/places
 * runs it outside a fence and inside one and compares. No privilege of its own: it runs as who starts it.
 *
 * usage: posix [STEP]    only every STEPth kind of object
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static int checks;

static const char *result(long value)
{
	static char text[64];

	if (value < 0)
		snprintf(text, sizeof(text), "%s", strerrorname_np(errno));
	else
		snprintf(text, sizeof(text), "%ld", value);
	return text;
}

/* Of a descriptor: closes it, and says 0. */
static long closed(int fd)
{
	return fd < 0 ? -1 : close(fd);
}

/* --- every operation on every kind of object -------------------------------------------------------------------- */

static const char *const objects[] = {
	"file",	      "empty",	       "readonly", "dir",   "full",	  "link",
	"linkdir",    "dangling",      "loop",	   "fifo",  "socket",	  "missing",
	"file/below", "missing/below", "file/",	   "dir/",  "missing/",	  ".",
	"..",	      "dir/..",	       "",	   "link/", "full/inner",
};

static void write_file(const char *name, const char *text, mode_t mode)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		exit(2);
	close(fd);
}

static void furnish(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX, .sun_path = "socket" };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	write_file("file", "twelve bytes", 0644);
	write_file("empty", "", 0600);
	write_file("readonly", "read only", 0444);
	write_file("other", "other", 0644);
	if (mkdir("dir", 0755) || mkdir("full", 0755) || symlink("file", "link") ||
	    symlink("dir", "linkdir") || symlink("nowhere", "dangling") ||
	    symlink("loop", "loop") || mkfifo("fifo", 0600) ||
	    bind(fd, (struct sockaddr *)&sun, sizeof(sun)))
		exit(2);
	close(fd);
	write_file("full/inner", "inner", 0644);
}

static void clear(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *entry;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	while (d && (entry = readdir(d))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (unlinkat(fd, entry->d_name, 0) && errno == EISDIR)
			clear(fd, entry->d_name);
	}
	if (d)
		closedir(d);
	unlinkat(at, name, AT_REMOVEDIR);
}

/* What is there now: names, types, modes, sizes, links, of the whole directory, as one number. */
static uint64_t state(int at, uint64_t hash)
{
	struct dirent **names;
	int n = scandirat(at, ".", &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		char text[512];
		struct stat st;

		if (strcmp(names[i]->d_name, ".") && strcmp(names[i]->d_name, "..") &&
		    !fstatat(at, names[i]->d_name, &st, AT_SYMLINK_NOFOLLOW)) {
			snprintf(text, sizeof(text), "%s %o %ld %ld %u %u", names[i]->d_name,
				 st.st_mode, S_ISDIR(st.st_mode) ? 0 : (long)st.st_size,
				 S_ISDIR(st.st_mode) ? 0 : (long)st.st_nlink, st.st_uid, st.st_gid);
			for (const char *c = text; *c; c++)
				hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
			if (S_ISDIR(st.st_mode)) {
				int fd = openat(at, names[i]->d_name, O_RDONLY | O_DIRECTORY);

				hash = state(fd, hash);
				close(fd);
			}
		}
		free(names[i]);
	}
	free(names);
	return hash;
}

static long rename2(const char *from, const char *to, unsigned int flags)
{
	return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

static long change_times(const char *path, long mtime, int flags)
{
	struct timespec times[2] = { { 0, UTIME_OMIT }, { mtime, 0 } };

	return utimensat(AT_FDCWD, path, mtime ? times : NULL, flags);
}

static long read_dir(const char *path)
{
	DIR *d = opendir(path);
	long n = 0;

	if (!d)
		return -1;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static long name_tmpfile(const char *path)
{
	int fd = open(path, O_TMPFILE | O_RDWR, 0600);
	char link[64];
	long ret;

	if (fd < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ret = linkat(AT_FDCWD, link, AT_FDCWD, "new", AT_SYMLINK_FOLLOW);
	close(fd);
	return ret;
}

static long get_xattr(const char *path)
{
	char value[16];

	return getxattr(path, "user.k", value, sizeof(value));
}

static long go_there(const char *path)
{
	int here = open(".", O_RDONLY | O_DIRECTORY);
	long ret = chdir(path);

	if (fchdir(here))
		exit(2);
	close(here);
	return ret;
}

static long bind_there(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	long ret;

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	ret = bind(fd, (struct sockaddr *)&sun, sizeof(sun.sun_family) + strlen(path) + 1);
	close(fd);
	return *path ? ret : 0; /* without a path the kernel chooses a name */
}

#define OPEN(flags) closed(open(p, (flags) | O_NONBLOCK | O_CLOEXEC, 0640))

/* X(name, expression of p) */
#define OPERATIONS(X)                                                             \
	X("stat", stat(p, &st))                                                   \
	X("lstat", lstat(p, &st))                                                 \
	X("access w", access(p, W_OK))                                            \
	X("access x", access(p, X_OK))                                            \
	X("open r", OPEN(O_RDONLY))                                               \
	X("open w", OPEN(O_WRONLY))                                               \
	X("open rw", OPEN(O_RDWR))                                                \
	X("open a", OPEN(O_WRONLY | O_APPEND))                                    \
	X("open creat", OPEN(O_WRONLY | O_CREAT))                                 \
	X("open creat r", OPEN(O_RDONLY | O_CREAT))                               \
	X("open excl", OPEN(O_RDWR | O_CREAT | O_EXCL))                           \
	X("open trunc", OPEN(O_WRONLY | O_TRUNC))                                 \
	X("open trunc r", OPEN(O_RDONLY | O_TRUNC))                               \
	X("open creat trunc", OPEN(O_RDWR | O_CREAT | O_TRUNC))                   \
	X("open directory", OPEN(O_RDONLY | O_DIRECTORY))                         \
	X("open nofollow", OPEN(O_RDONLY | O_NOFOLLOW))                           \
	X("open creat nofollow", OPEN(O_WRONLY | O_CREAT | O_NOFOLLOW))           \
	X("open path", OPEN(O_PATH))                                              \
	X("open path nofollow", OPEN(O_PATH | O_NOFOLLOW))                        \
	X("open noatime", OPEN(O_RDONLY | O_NOATIME))                             \
	X("tmpfile", name_tmpfile(p))                                             \
	X("truncate 0", truncate(p, 0))                                           \
	X("truncate 100", truncate(p, 100))                                       \
	X("truncate -1", truncate(p, -1))                                         \
	X("mkdir", mkdir(p, 0750))                                                \
	X("rmdir", rmdir(p))                                                      \
	X("unlink", unlink(p))                                                    \
	X("rename away", rename(p, "new"))                                        \
	X("rename onto file", rename(p, "other"))                                 \
	X("rename onto dir", rename(p, "dir"))                                    \
	X("rename onto full", rename(p, "full"))                                  \
	X("rename into", rename(p, "full/new"))                                   \
	X("rename over it", rename("other", p))                                   \
	X("rename dir over it", rename("full", p))                                \
	X("rename noreplace", rename2(p, "other", 1))                             \
	X("rename exchange", rename2(p, "other", 2))                              \
	X("link", link(p, "new"))                                                 \
	X("link follow", linkat(AT_FDCWD, p, AT_FDCWD, "new", AT_SYMLINK_FOLLOW)) \
	X("link here", link("other", p))                                          \
	X("symlink", symlink("target", p))                                        \
	X("readlink", readlink(p, buffer, sizeof(buffer)))                        \
	X("mkfifo", mkfifo(p, 0600))                                              \
	X("mknod", mknod(p, S_IFREG | 0600, 0))                                   \
	X("bind", bind_there(p))                                                  \
	X("chmod", chmod(p, 0700))                                                \
	X("chmod s", chmod(p, 06711))                                             \
	X("chown same", chown(p, getuid(), getgid()))                             \
	X("lchown", lchown(p, getuid(), -1))                                      \
	X("utimes", change_times(p, 1000, 0))                                     \
	X("utimes now", change_times(p, 0, 0))                                    \
	X("utimes nofollow", change_times(p, 1000, AT_SYMLINK_NOFOLLOW))          \
	X("setxattr", setxattr(p, "user.k", "v", 1, 0))                           \
	X("setxattr replace", setxattr(p, "user.k", "v", 1, XATTR_REPLACE))       \
	X("getxattr", get_xattr(p))                                               \
	X("removexattr", removexattr(p, "user.k"))                                \
	X("opendir", read_dir(p))                                                 \
	X("chdir", go_there(p))                                                   \
	X("statfs", statfs(p, &sf))

static void on_objects(size_t step)
{
	struct statfs sf;
	struct stat st;
	char buffer[64];
	int top = open(".", O_RDONLY | O_DIRECTORY);

	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i += step) {
		const char *p = objects[i];
		int fd;

#define X(name, expression)                                                                      \
	if (mkdir("arena", 0755) || chdir("arena"))                                              \
		exit(2);                                                                         \
	furnish();                                                                               \
	printf("%s of '%s': %s", name, p, result(expression));                                   \
	fd = open(".", O_RDONLY | O_DIRECTORY);                                                  \
	printf(" %016llx\n", fd < 0 ? 0ULL : (unsigned long long)state(fd, 0xcbf29ce484222325)); \
	close(fd);                                                                               \
	if (fchdir(top))                                                                         \
		exit(2);                                                                         \
	clear(AT_FDCWD, "arena");                                                                \
	checks++;
		OPERATIONS(X)
#undef X
	}
	close(top);
}

/* --- what descriptors do ---------------------------------------------------------------------------------------- */

static void check(const char *name, long value)
{
	printf("%s: %s\n", name, result(value));
	checks++;
}

static long in_child(long (*fn)(int fd), int fd)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		long ret = fn(fd);

		_exit(ret < 0 ? errno : 0);
	}
	waitpid(pid, &status, 0);
	errno = WEXITSTATUS(status);
	return errno ? -1 : 0;
}

static long try_lock(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 4 };

	return fcntl(fd, F_SETLK, &lock);
}

static long try_flock(int fd)
{
	int again = open("locks", O_RDWR);

	(void)fd;
	return flock(again, LOCK_EX | LOCK_NB);
}

static void locks(void)
{
	int fd = open("locks", O_RDWR | O_CREAT, 0600);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 4 };

	check("fcntl lock", fcntl(fd, F_SETLK, &lock));
	check("fcntl lock held against a child", in_child(try_lock, fd));
	lock.l_type = F_UNLCK;
	check("fcntl unlock", fcntl(fd, F_SETLK, &lock));
	check("fcntl lock free for a child", in_child(try_lock, fd));
	lock.l_type = F_RDLCK;
	lock.l_pid = 0;
	check("OFD lock", fcntl(fd, F_OFD_SETLK, &lock));
	check("flock", flock(fd, LOCK_EX));
	check("flock held against another", in_child(try_flock, fd));
	check("flock unlock", flock(fd, LOCK_UN));
	check("flock free for another", in_child(try_flock, fd));
	check("lease", fcntl(fd, F_SETLEASE, F_WRLCK));
	check("lease away", fcntl(fd, F_SETLEASE, F_UNLCK));
	close(fd);
}

static void bytes(void)
{
	int fd = open("bytes", O_RDWR | O_CREAT | O_TRUNC, 0600), other, ends[2];
	char buffer[64] = { 0 };
	struct stat st;
	char *map;

	check("write", write(fd, "0123456789", 10));
	check("pwrite", pwrite(fd, "ab", 2, 4));
	check("pread", pread(fd, buffer, 10, 0));
	printf("bytes: %s\n", buffer);
	check("lseek end", lseek(fd, 0, SEEK_END));
	check("lseek hole", lseek(fd, 0, SEEK_HOLE));
	check("lseek data beyond", lseek(fd, 100, SEEK_DATA));
	check("ftruncate up", ftruncate(fd, 8192));
	check("ftruncate negative", ftruncate(fd, -1));
	map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check("mmap shared", map == MAP_FAILED ? -1 : 0);
	if (map != MAP_FAILED) {
		memcpy(map + 5000, "mapped", 6);
		check("msync", msync(map, 8192, MS_SYNC));
		check("mprotect", mprotect(map, 8192, PROT_READ));
		check("mprotect back", mprotect(map, 8192, PROT_READ | PROT_WRITE));
		munmap(map, 8192);
	}
	pread(fd, buffer, 6, 5000);
	printf("mapped: %.6s\n", buffer);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, fd, 0);
	check("mmap private rwx", map == MAP_FAILED ? -1 : 0);
	check("fallocate", fallocate(fd, 0, 0, 16384));
	check("fallocate keep size", fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 65536));
	check("fallocate punch",
	      fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	check("fallocate zero", fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096));
	check("posix_fallocate", posix_fallocate(fd, 0, 100));
	check("fadvise", posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	check("sync_file_range", sync_file_range(fd, 0, 0, 7));
	check("fdatasync", fdatasync(fd));
	check("fsync", fsync(fd));
	other = open("bytes-2", O_RDWR | O_CREAT | O_TRUNC, 0600);
	check("copy_file_range", copy_file_range(fd, &(loff_t){ 0 }, other, NULL, 100, 0));
	check("sendfile", sendfile(other, fd, &(off_t){ 0 }, 100));
	if (pipe(ends))
		exit(2);
	check("splice out", splice(fd, &(loff_t){ 5000 }, ends[1], NULL, 6, 0));
	check("splice in", splice(ends[0], NULL, other, NULL, 6, 0));
	check("fstat", fstat(other, &st));
	printf("size: %ld\n", (long)st.st_size);
	check("fchmod", fchmod(fd, 0640));
	check("fchown", fchown(fd, getuid(), getgid()));
	check("futimens", futimens(fd, NULL));
	check("fsetxattr", fsetxattr(fd, "user.f", "v", 1, 0));
	check("fremovexattr", fremovexattr(fd, "user.f"));
	check("unlink while open", unlink("bytes"));
	check("write after it", write(fd, "x", 1));
	check("ftruncate after it", ftruncate(fd, 0));
	check("fchmod after it", fchmod(fd, 0600));
	check("F_SETFL append", fcntl(fd, F_SETFL, O_APPEND));
	check("reopen by /proc", closed(open("/proc/self/fd/0", O_RDONLY)));
	close(fd);
	close(other);
}

static void directories(void)
{
	int fd, inotify = inotify_init1(IN_NONBLOCK);
	char events[4096], deep[3000] = "";
	struct stat st;
	mode_t mask = umask(027);

	check("mkdir with umask", mkdir("dirs", 0777));
	stat("dirs", &st);
	printf("mode: %o\n", st.st_mode & 07777);
	umask(mask);
	fd = open("dirs", O_RDONLY | O_DIRECTORY);
	check("inotify", inotify_add_watch(inotify, "dirs", IN_CREATE | IN_DELETE) > 0 ? 0 : -1);
	check("mkdirat", mkdirat(fd, "a", 0700));
	check("openat", closed(openat(fd, "a/f", O_CREAT | O_WRONLY, 0600)));
	check("openat up", closed(openat(fd, "../dirs/a/f", O_WRONLY)));
	check("symlinkat", symlinkat("a", fd, "s"));
	check("fchmodat", fchmodat(fd, "a", 0711, 0));
	check("fchownat", fchownat(fd, "s", getuid(), getgid(), AT_SYMLINK_NOFOLLOW));
	check("linkat", linkat(fd, "a/f", fd, "l", 0));
	check("renameat", renameat(fd, "a/f", fd, "g"));
	check("unlinkat", unlinkat(fd, "l", 0));
	check("unlinkat dir", unlinkat(fd, "a", AT_REMOVEDIR));
	check("inotify events", read(inotify, events, sizeof(events)) > 0 ? 0 : -1);
	check("setgid dir", chmod("dirs", 02770));
	check("sub of it", mkdirat(fd, "sub", 0755));
	fstatat(fd, "sub", &st, 0);
	printf("inherited: %o\n", st.st_mode & 07777);
	for (int i = 0; i < 100; i++)
		strcat(deep, "deepdirectory/");
	check("a long path that is missing", mkdir(deep, 0700));
	memset(deep, 'n', 256);
	deep[256] = '\0';
	check("a name too long", mkdir(deep, 0700));
	deep[255] = '\0';
	check("the longest name", mkdir(deep, 0700));
	check("its removal", rmdir(deep));
	check("removal of what is open", unlinkat(AT_FDCWD, "dirs/sub", AT_REMOVEDIR));
	check("link of a directory", linkat(AT_FDCWD, "dirs", AT_FDCWD, "hard", 0));
	check("rename into itself", rename("dirs", "dirs/in"));
	check("name_to_handle", syscall(SYS_name_to_handle_at, AT_FDCWD, "dirs",
					(struct file_handle *)events, &(int){ 0 }, 0));
	close(fd);
	close(inotify);
}

static void pipes_and_sockets(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX, .sun_path = "listener" };
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
	int fifo, writer;
	char c;

	check("mkfifo", mkfifo("queue", 0600));
	fifo = open("queue", O_RDONLY | O_NONBLOCK);
	writer = open("queue", O_WRONLY | O_NONBLOCK);
	check("write to a fifo", write(writer, "x", 1));
	check("read from a fifo", read(fifo, &c, 1));
	check("bind", bind(listener, (struct sockaddr *)&sun, sizeof(sun)));
	check("bind again", bind(client, (struct sockaddr *)&sun, sizeof(sun)));
	check("listen", listen(listener, 4));
	check("connect", connect(client, (struct sockaddr *)&sun, sizeof(sun)));
	check("chmod of a socket", chmod("listener", 0700));
	check("unlink of a socket", unlink("listener"));
	check("connect to nothing",
	      connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&sun, sizeof(sun)));
	close(fifo);
	close(writer);
	close(listener);
	close(client);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	umask(022);
	on_objects(argc > 1 ? strtoul(argv[1], NULL, 10) : 1);
	locks();
	bytes();
	directories();
	pipes_and_sockets();
	printf("checks: %d\n", checks);
	return 0;
}
