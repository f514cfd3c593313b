# SPDX-License-Identifier: Apache-2.0
"""
Descriptors from elsewhere: held before a fence was put around the process (fence "attached"; inside.hold() opened
{held}/NAME), and passed in from outside. The effect is a change of the file's bytes, unless a row says otherwise.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import signal
import socket
import sqlite3
import struct

import inside
import ring
from inside import libc, syscall
from rows_file import ROFS, W, expect, passed
from table import allowed, attack, ev

OUTSIDE = "outside\n" + "\0" * 4088


def fresh(a):
    return os.open(a.wd + "/g", os.O_RDWR)


def splice_into(fd):
    read, write = os.pipe()
    os.write(write, b"token")
    syscall(275, read, None, fd, None, 5, 0)


def aio_write(fd):
    """Native AIO: io_setup, io_submit, io_getevents."""
    context = ctypes.c_ulong(0)
    syscall(206, 1, ctypes.byref(context))
    data = ctypes.create_string_buffer(b"token")
    raw = bytearray(64)
    raw[16:18] = (1).to_bytes(2, "little")  # IOCB_CMD_PWRITE
    raw[20:24] = fd.to_bytes(4, "little")
    raw[24:32] = ctypes.addressof(data).to_bytes(8, "little")
    raw[32:40] = (5).to_bytes(8, "little")
    iocb = (ctypes.c_char * 64).from_buffer(raw)
    pointer = ctypes.c_void_p(ctypes.addressof(iocb))
    syscall(209, ctypes.c_ulong(context.value), 1, ctypes.byref(pointer))
    events = (ctypes.c_int64 * 4)()
    syscall(208, ctypes.c_ulong(context.value), 1, 1, events, None)
    if events[2] < 0:
        raise OSError(-events[2], os.strerror(-events[2]))


def sendfile(fd):
    source = os.memfd_create("x")
    os.write(source, b"token")
    os.sendfile(fd, source, 0, 5)


def copy_range(a, fd):
    os.copy_file_range(os.open(a.wd + "/f", os.O_RDONLY), fd, 5)


def shared_map(fd):
    with mmap.mmap(fd, 4096, mmap.MAP_SHARED) as m:
        m[0:5] = b"token"


def map_open(fd):
    """A shared mapping for reading, then made writable."""
    address = libc.mmap(None, 4096, 1, 1, fd, 0)
    store(address)


def store(address):
    inside.check(libc.mprotect(ctypes.c_void_p(address), 4096, 3))
    ctypes.memmove(address, b"token", 5)


def changed(name):
    return lambda arena, a, r: open(f"{a.HELD}/{name}").read() != OUTSIDE


USES = (
    ("write", "write", "w", lambda a, fd: os.write(fd, b"token"), ["file_permission"]),
    ("pwritev", "write", "w", lambda a, fd: os.pwritev(fd, [b"token"], 0), []),
    ("fallocate", "write", "w", lambda a, fd: inside.check(libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(4096))), []),
    ("ftruncate", "truncate", "w", lambda a, fd: os.ftruncate(fd, 0), ["file_truncate"]),
    ("sendfile", "write", "w", lambda a, fd: sendfile(fd), []),
    ("copy_file_range", "write", "w", copy_range, []),
    ("splice", "write", "w", lambda a, fd: splice_into(fd), []),
    ("native AIO", "write", "w", lambda a, fd: aio_write(fd), []),
    ("io_uring", "write", "w", lambda a, fd: ring.Ring(4).do(ring.WRITE, fd=fd, addr=b"token", length=5), []),
    ("a shared mapping", "mmap", "w", lambda a, fd: shared_map(fd), ["file_mmap+file_mmap3"]),
)
for n, (name, op, _, use, hooks) in enumerate(USES):
    file = f"{n}-{op}"
    attack("F-13", f"{name} by a descriptor from before", lambda a, use=use, file=file: use(a, inside.held[file]) and None,
           twin=lambda a, use=use: use(a, padded(a)) and None, errnos=ROFS, fence="attached", held=(file,), effect=changed(file), hooks=hooks,
           events=[ev(op, W, path="{HELD}/" + file)], lacking=(errno.ENOSYS,) if "ring" in name else ())


def padded(a):
    fd = fresh(a)
    os.pwrite(fd, b"\0" * 4096, 0)
    return fd


attack("F-13", "a mapping from before, made writable", lambda a: store(inside.maps["map-a"]), twin=lambda a: map_open(padded(a)), errnos=ROFS,
       fence="attached", held=("map-a",), effect=changed("map-a"), events=[ev("mprotect", W, path="{HELD}/map-a")], hooks=["file_mprotect"])
attack("F-13", "a descriptor from before that was read-only, reopened", lambda a: os.write(os.open(f"/proc/self/fd/{inside.held['9-again']}", os.O_WRONLY), b"token") and None,
       twin=lambda a: os.write(os.open(f"/proc/self/fd/{fresh(a)}", os.O_WRONLY), b"token") and None, errnos=ROFS, fence="attached", held=("9-again",),
       effect=changed("9-again"), events=[ev("open_write", W, path="{HELD}/9-again")])
attack("F-13", "a new file by a directory from before", lambda a: os.close(os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=inside.held["dir-a"])),
       twin=lambda a: os.close(os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=os.open(a.wd, os.O_RDONLY))), errnos=ROFS, fence="attached",
       held=("dir-a",), effect=lambda arena, a, r: os.path.exists(a.HELD + "/dir-a/new"), events=[ev("mknod", W, path="{HELD}/dir-a/new")])
attack("F-13", "reading what is read-denied by a descriptor from before", lambda a: os.pread(inside.held["ro-a"], 100, 0).decode(),
       twin=lambda a: os.pread(os.open(a.wd + "/f", os.O_RDONLY), 100, 0).decode(), errnos=(errno.EACCES,), fence="attached", held=("ro-a",),
       effect=lambda arena, a, r: "secret" in (r["data"] or ""), events=[ev("read", "files.read.deny", path="{HELD}/ro-a")], hooks=["file_permission"])
attack("F-13", "changing the mode by a descriptor from before", lambda a: os.fchmod(inside.held["8-mode"], 0o777), twin=lambda a: os.fchmod(fresh(a), 0o777),
       errnos=ROFS, fence="attached", held=("8-mode",), effect=lambda arena, a, r: os.stat(a.HELD + "/8-mode").st_mode & 0o777 == 0o777,
       events=[ev("chmod", W, path="{HELD}/8-mode")])


def before_ring(a):
    """A ring that the process made before its fence: what it does is the process's."""
    expect(inside.held["ring"] is not None, "no ring")
    inside.held["ring"].do(ring.OPENAT, addr=f"{a.out}/f".encode(), op_flags=os.O_WRONLY | os.O_TRUNC)


attack("F-27", "an io_uring from before", before_ring, twin=lambda a: inside.held["ring"].do(ring.OPENAT, addr=f"{a.wd}/f".encode(), op_flags=os.O_WRONLY) and None,
       errnos=ROFS, fence="attached", events=[ev("open_write", W, path="{out}/f")])


def own_work(a):
    """What an attached process did all along goes on: pipes, sockets, its files, its terminal."""
    read, write = os.pipe()
    os.write(write, b"x")
    expect(os.read(read, 1) == b"x", "pipe")
    left, right = socket.socketpair()
    left.send(b"x")
    expect(right.recv(1) == b"x", "socket")
    fd = fresh(a)
    os.write(fd, b"token")
    os.lseek(fd, 0, 0)
    expect(os.read(fd, 5) == b"token", "file")
    shared_map(padded(a))
    os.write(os.open("/dev/null", os.O_WRONLY), b"x")
    expect(inside.execute("/usr/bin/echo", "hello") == "hello\n", "exec")


allowed("F-13", "an attached process works on", own_work, fence="attached")

# --- at once: nothing is let through and put right afterwards ------------------------------------------------------------


def tight(a, base, tries=1000):
    """Opens, cuts off and renames as fast as it can; the last refusal, if each was refused."""
    done = 0
    for n in range(tries):
        try:
            os.close(os.open(base + "/f", os.O_WRONLY | os.O_TRUNC))
            done += 1
        except OSError as e:
            refused = e
        try:
            os.rename(base + "/f", base + "/n")
            os.rename(base + "/n", base + "/f")
            done += 1
        except OSError as e:
            refused = e
    if not done:
        raise refused


attack("F-46", "1,000 tries as fast as possible", lambda a: tight(a, a.out), twin=lambda a: tight(a, a.wd, 100), errnos=ROFS,
       events=[ev("open_write", W, path="{out}/f", count=range(1, 1001)), ev("rename", W, path="{out}/f", count=range(1, 1001))], audit="would_deny")

# --- locks: what is outside may be read, but not kept from others ------------------------------------------------------


def lock(path, take, how):
    """Takes it, and asks whether others are kept out."""
    def do(a):
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # who holds a lease is told that others want it
        fd = os.open(a.fill(path), os.O_RDONLY)
        take(fd)
        return "locked" if inside.ask("locked", path=a.fill(path), how=how)[0]["got"] else "no effect"
    return do


def posix_lock(command):
    return lambda fd: fcntl.fcntl(fd, command, struct.pack("=hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0))


LOCKS = (("flock, exclusive", lambda fd: fcntl.flock(fd, fcntl.LOCK_EX), "flock"), ("flock, shared", lambda fd: fcntl.flock(fd, fcntl.LOCK_SH), "flock"),
         ("a POSIX lock for reading", posix_lock(fcntl.F_SETLK), "fcntl"), ("an OFD lock for reading", posix_lock(37), "fcntl"),
         ("a lease", lambda fd: fcntl.fcntl(fd, 1024, fcntl.F_RDLCK), "lease"))
for name, take, how in LOCKS:
    attack("F-lock", f"{name}, of a file outside", lock("{out}/f", take, how), twin=lock("{wd}/f", take, how), errnos=ROFS, hooks=["file_lock"],
           effect=lambda arena, a, r: r["data"] == "locked", events=[ev("lock", W, path="{out}/f")])
attack("F-lock", "flock of a directory outside", lock("{out}", LOCKS[0][1], "flock"), twin=lock("{wd}", LOCKS[0][1], "flock"), errnos=ROFS,
       effect=lambda arena, a, r: r["data"] == "locked", events=[ev("lock", W, path="{out}")])
attack("F-lock", "flock of Cordon's own lock", lock("/run/cordon/lock", LOCKS[1][1], "flock"), twin=lock("{wd}/f", LOCKS[1][1], "flock"), errnos=ROFS,
       effect=lambda arena, a, r: r["data"] == "locked", events=[ev("lock", W, path="/run/cordon/lock")], lacking=(errno.ENOENT,))


def locks_inside(a):
    """Databases and build tools lock what is theirs."""
    fd = os.open(a.wd + "/f", os.O_RDWR)
    for take in (fcntl.flock, fcntl.lockf):
        for kind in (fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN):
            take(fd, kind)
    fcntl.flock(os.memfd_create("x"), fcntl.LOCK_EX)
    fcntl.flock(os.open("/dev/null", os.O_RDONLY), fcntl.LOCK_SH)
    fcntl.flock(os.open(a.out + "/f", os.O_RDONLY), fcntl.LOCK_UN)
    connection = sqlite3.connect(a.wd + "/db")
    connection.execute("create table t (x)")
    connection.execute("insert into t values (1)")
    connection.commit()
    expect(connection.execute("select count(*) from t").fetchone()[0] == 1, "sqlite")


allowed("F-lock", "locks of one's own files, memory and devices; SQLite", locks_inside)

# --- passed in ------------------------------------------------------------------------------------------------------

for name, path, flags, op, errs, rule in (
        ("for writing", "{out}/f", os.O_WRONLY, "receive", ROFS, W),
        ("for reading what is read-denied", "{SECRET}/file", os.O_RDONLY, "receive", (errno.EACCES,), "files.read.deny")):
    attack("F-13", f"a descriptor passed in, {name}", lambda a, p=path, f=flags, e=errs[0]: use_passed(passed(p, f, e)(a)), errnos=errs,
           twin=lambda a, f=flags: use_passed(passed("{wd}/f", f)(a)), effect=None if rule == W else lambda arena, a, r: "secret" in (r["data"] or ""),
           events=[ev("receive", rule, path=path)], hooks=["file_receive"])


def use_passed(fd):
    if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_WRONLY:
        return str(os.write(fd, b"token"))
    return os.pread(fd, 100, 0).decode()


def pass_around(a):
    """Descriptors of all kinds, within the fence."""
    left, right = socket.socketpair()
    fds = [fresh(a), os.open("/dev/null", os.O_RDWR), os.pipe()[0], left.fileno(), os.memfd_create("bpf"), os.open(a.out, os.O_PATH),
           os.open(a.out + "/f", os.O_RDONLY)]
    socket.send_fds(left, [b"x"], fds)
    got = socket.recv_fds(right, 1, 10)[1]
    expect(len(got) == len(fds), f"{len(got)} of {len(fds)} came")
    os.write(got[0], b"x")


allowed("F-13", "descriptors passed within the fence", pass_around)
