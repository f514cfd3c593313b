# SPDX-License-Identifier: Apache-2.0
"""
Rows of the attacker pass (docs/threat-model.md, whose numbers they bear): ways that join features of the kernel, found by
somebody new to the code. Those that never got through stand here when they ask a hook in a way that no other row does.
"""

import ctypes
import errno
import fcntl
import os
import pty
import resource
import signal
import socket
import struct
import subprocess
import time
from socket import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM

import inside
import ring
from inside import libc, syscall
from rows_file import AT_FDCWD, ROFS, W, write
from rows_guard import capable
from rows_net import DG, GATEWAY, GATEWAY_UDP, make, received
from rows_task import done
from table import ROWS, allowed, attack, ev

NEWUSER, NEWNS = 0x10000000, 0x20000
OPEN_TREE, FSOPEN, FSCONFIG, FSMOUNT = 428, 430, 431, 432
TMPFS_BELOW = "/scratch/places/tmpfs/out/base"
MOUNT = ev("mount", "files.mount")

# --- file systems that are mounted nowhere ----------------------------------------------------------------------


def own_mounts():
    inside.check(libc.unshare(NEWUSER | NEWNS))


def new_fs(kind, **options):
    """A file system that is mounted nowhere: a descriptor of its root."""
    fs = syscall(FSOPEN, kind.encode(), 0)
    for key, value in options.items():
        syscall(FSCONFIG, fs, 0 if value is True else 1, key.encode(), None if value is True else value.encode(), 0)
    syscall(FSCONFIG, fs, 6, None, None, 0)
    return syscall(FSMOUNT, fs, 0, 0)


def clone_of(path):
    """A copy of a mount that hangs nowhere."""
    return syscall(OPEN_TREE, AT_FDCWD, path.encode(), 1)


def read_at(directory, name):
    return os.read(os.open(name, os.O_RDONLY, dir_fd=directory), 100).decode()


def overlay_read(a):
    own_mounts()
    return read_at(new_fs("overlay", lowerdir=f"{a.SECRET}/dir/a:{a.wd}/d"), "f")


def overlay_layers(a):
    """overlayfs makes and removes directories in its layers when it is set up."""
    own_mounts()
    try:
        new_fs("overlay", lowerdir=a.wd + "/e", upperdir=a.out + "/d", workdir=a.out + "/e", userxattr=True)
    except OSError as e:
        if e.errno != errno.EACCES:  # of a user without a number; by then they are made
            raise


def clone_below(a):
    inside.ask("mount", source=TMPFS_BELOW, target=f"{a.SECRET}/dir/a")
    own_mounts()
    return read_at(clone_of(f"{a.SECRET}/dir/a"), "f")


def write_clone(path):
    def do(a):
        own_mounts()
        os.close(os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=clone_of(a.fill(path))))
    return do


def secret(arena, a, r):
    return r["data"] == "secret\n"


CLONE = write_clone("{wd}/d")
attack("A-01", "what is read-denied as a layer of one's own overlay", overlay_read, effect=secret, twin=CLONE, events=[MOUNT], hooks=["file_fs_param"])
attack("A-02", "outside directories as layers of one's own overlay", overlay_layers, twin=CLONE, events=[MOUNT], hooks=["file_fs_param"],
       also=lambda arena, a, r: "a directory was made" if os.path.exists(a.out + "/e/work") else None, effect=lambda arena, a, r: os.path.exists(a.out + "/e/work"))
attack("A-03", "what is mounted below a read-denied directory, by a copy of the mount", clone_below, effect=secret, twin=CLONE, errnos=(errno.EACCES,),
       prep=lambda arena, a: arena.write(TMPFS_BELOW + "/f", "secret\n"), events=[ev("open_read", "files.read.deny")])
attack("A-35", "writing by a copy of an outside mount", write_clone("{out}"), twin=CLONE, errnos=ROFS, events=[ev("mknod", W)])


def proc_of_own(a):
    inside.check(libc.unshare(NEWUSER | NEWNS | 0x20000000))
    pid = inside.child_of_mine(os.fork())
    if pid == 0:
        try:
            os.close(os.open("self/oom_score_adj", os.O_WRONLY, dir_fd=new_fs("proc")))
            os._exit(0)
        except OSError as e:
            os._exit(e.errno)
    code = os.waitpid(pid, 0)[1] >> 8
    if code:
        raise OSError(code, os.strerror(code))
    return "done"


attack("A-23", "writing in a proc of one's own that is mounted nowhere", proc_of_own, effect=done, twin=CLONE, errnos=ROFS, events=[ev("open_write", W)])

# --- what one's own socket has the kernel send -------------------------------------------------------------------

CONFIGURE = [ev("configure", "network.config")]
OPTION = {"twin": GATEWAY_UDP, "events": CONFIGURE, "hooks": ["net_setsockopt"]}
GROUP4, GROUP6 = "239.7.7.7", b"\xff\x15\0\0\0\0\0\0dataout!"


def join4(a):
    make(AF_INET, SOCK_DGRAM).setsockopt(0, 35, socket.inet_aton(GROUP4) + socket.inet_aton(a.HOST))


def join6(a):
    make(AF_INET6, SOCK_DGRAM).setsockopt(41, 20, GROUP6 + struct.pack("=I", socket.if_nametoindex(a.IF)))


def ring_join(a):
    """IORING_OP_URING_CMD, SOCKET_URING_OP_SETSOCKOPT: since 6.7."""
    s = make(AF_INET, SOCK_DGRAM)
    value = ctypes.create_string_buffer(socket.inet_aton(GROUP4) + socket.inet_aton(a.HOST), 8)
    ring.Ring(4).do(46, fd=s.fileno(), off=3, addr=35 << 32, file_index=8, addr3=value)


def on_air(group):
    """A report of the membership: its address may be anything, and so carries data."""
    def effect(arena, a, r):
        arena.sniff()
        return any(group in frame[14:] for frame in arena.frames)
    return effect


attack("A-06", "data in the address of a group that is joined, IPv4", join4, effect=on_air(socket.inet_aton(GROUP4)), **OPTION)
attack("A-07", "data in the address of a group that is joined, IPv6", join6, effect=on_air(GROUP6), **OPTION)
attack("A-08", "the same by an io_uring", ring_join, effect=on_air(socket.inet_aton(GROUP4)), lacking=(errno.EOPNOTSUPP, errno.EINVAL), **OPTION)


def in_anothers_name(family, level, option, how="bind"):
    """The allowed peer answers whom the datagram says that it is from."""
    def do(a):
        third, peer = (a.X, a.GW) if family == AF_INET else (a.X6, a.GW6)
        s = make(family, SOCK_DGRAM)
        s.setsockopt(level, option, 1)
        if how == "bind":
            s.bind((third, 5300))
            s.sendto(a.token.encode(), (peer, DG))
        else:
            s.sendmsg([a.token.encode()], [(41, 50, socket.inet_pton(family, third) + bytes(4))], 0, (peer, DG))
    return do


def forged(arena, a, r):
    arena.sniff()
    return any(a.token.encode() in f and (f[26:30] == socket.inet_aton(a.X) or f[22:38] == socket.inet_pton(AF_INET6, a.X6)) for f in arena.frames)


attack("A-09", "an allowed peer answers a third: IP_TRANSPARENT", in_anothers_name(AF_INET, 0, 19), effect=forged, **OPTION)
attack("A-10", "an allowed peer answers a third: IPV6_FREEBIND", in_anothers_name(AF_INET6, 41, 78), effect=forged, **OPTION)
attack("A-11", "an allowed peer answers a third: IP_FREEBIND and IPV6_PKTINFO", in_anothers_name(AF_INET6, 0, 15, "message"), effect=forged, **OPTION)
attack("A-12", "SO_MARK, by which routes are chosen", lambda a: make(AF_INET, SOCK_DGRAM).setsockopt(socket.SOL_SOCKET, 36, 16) or "done", effect=done, **OPTION)

# --- whose listener it is ----------------------------------------------------------------------------------------

OUTSIDE = {}


def bound6(port, kind, share):
    s = make(AF_INET6, kind)
    s.setsockopt(socket.SOL_SOCKET, share, 1)
    s.bind(("::1", port))
    return s


def shared_prep(arena, a):
    if "shared" not in OUTSIDE:
        arena.listeners.add("loopback", AF_INET6, SOCK_STREAM, 0, ("::1", 7101), 64, True)
        OUTSIDE["shared"] = True


def shared_port(a):
    """The sender's address is part of how a connection is given to one of several that listen at a port."""
    own = bound6(7101, SOCK_STREAM, socket.SO_REUSEPORT)
    own.listen(64)
    tries, refused = [], False
    for _ in range(16):
        s = make(AF_INET6, SOCK_STREAM)
        s.setblocking(False)
        s.bind((a.HOST6, 0))
        refused |= s.connect_ex(("::1", 7101)) == errno.EPERM
        tries.append(s)
    time.sleep(0.1)
    for s in tries:
        try:
            s.send(a.token.encode(), socket.MSG_NOSIGNAL)
        except OSError:
            pass
    if refused:
        raise PermissionError(errno.EPERM, "those that were for others")


def connected_prep(arena, a):
    OUTSIDE["udp"] = bound6(7102, SOCK_DGRAM, socket.SO_REUSEADDR)
    OUTSIDE["udp"].connect((a.HOST6, 7103))
    OUTSIDE["udp"].setblocking(False)


def connected_udp(a):
    """A socket that is connected receives before one that is not."""
    own = make(AF_INET6, SOCK_DGRAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    own.bind(("::", 7102))
    s = make(AF_INET6, SOCK_DGRAM)
    s.bind((a.HOST6, 7103))
    s.sendto(a.token.encode(), ("::1", 7102))


def connected_got(arena, a, r):
    try:
        return a.token.encode() in OUTSIDE["udp"].recv(1000)
    except OSError:
        return False


LOOPBACK = {"dst": "::1", "count": range(0, 40)}
attack("A-13", "another's IPv6 listener that shares the port, from an address that it goes by", shared_port, prep=shared_prep, effect=received, twin=GATEWAY,
       events=[ev("connect", "network.loopback", **LOOPBACK), ev("packet", "network.loopback", **LOOPBACK), ev("packet", "network.default", count=range(0, 200))])
attack("A-14", "another's IPv6 datagram socket that is connected to one's own address", connected_udp, prep=connected_prep, effect=connected_got,
       twin=GATEWAY, events=[ev("sendmsg", "network.loopback", dst="::1", dport=7102)])


def addrform(a):
    """An IPv6 socket that becomes one of IPv4."""
    s = make(AF_INET6, SOCK_DGRAM)
    s.connect(("::ffff:" + a.GW, DG))
    s.setsockopt(41, 1, AF_INET)
    to = struct.pack("=H", AF_INET) + struct.pack("!H", DG) + socket.inet_aton(a.X) + bytes(8)
    data = a.token.encode()
    inside.check(libc.sendto(s.fileno(), data, len(data), 0, to, len(to)))


def repair(a):
    s = make(AF_INET, SOCK_STREAM)
    s.setsockopt(6, 19, 1)
    s.connect((a.X, 80))
    return "done"


def netlink_prep(arena, a):
    if "netlink" in OUTSIDE:
        OUTSIDE["netlink"].close()
    OUTSIDE["netlink"] = socket.socket(AF_NETLINK, SOCK_RAW, 0)
    OUTSIDE["netlink"].bind((4242, 0))
    OUTSIDE["netlink"].setblocking(False)


def netlink_got(arena, a, r):
    try:
        return a.token.encode() in OUTSIDE["netlink"].recv(1000)
    except OSError:
        return False


def netlink_send(a):
    data = a.token.encode()
    socket.socket(AF_NETLINK, SOCK_RAW, 0).sendto(struct.pack("=IHHII", 16 + len(data), 18, 1, 0, 0) + data, (4242, 0))


NET_ADMIN = [capable("CAP_NET_ADMIN")]
attack("A-15", "a netlink message to a process outside", netlink_send, prep=netlink_prep, effect=netlink_got, twin=GATEWAY, events=NET_ADMIN)
attack("A-16", "TCP_REPAIR, for a connection without a packet", repair, effect=done, twin=GATEWAY, events=NET_ADMIN)
attack("A-17", "IPV6_ADDRFORM, then elsewhere", addrform, effect=received, twin=GATEWAY_UDP, events=[ev("sendmsg", "network.default", dst="{X}", dport=DG)])

# --- terminals, pipes, descriptors that are only read -------------------------------------------------------------

TTYS = []


def tty_prep(arena, a):
    """Somebody's terminal, with a session."""
    while TTYS:
        pid, master = TTYS.pop()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)
    pid, master = pty.fork()
    if pid == 0:
        os.execv("/bin/sleep", ["sleep", "600"])
    TTYS.append((pid, master))
    os.set_blocking(master, False)
    a.values["TTY"] = f"/dev/pts/{struct.unpack('=i', fcntl.ioctl(master, 0x80045430, bytes(4)))[0]}"


def tty_write(a):
    os.write(os.open(a.TTY, os.O_WRONLY | os.O_NOCTTY), a.token.encode())


def tty_written(arena, a, r):
    try:
        return a.token.encode() in os.read(TTYS[0][1], 4096)
    except OSError:
        return False


def tty_read(a):
    os.close(os.open(a.TTY, os.O_RDONLY | os.O_NOCTTY))
    return "done"


def own_terminal(a):
    """As script(1) and tmux have it: a pty, opened by name before and while a child leads its session."""
    master, slave = pty.openpty()
    name = os.ttyname(slave)
    os.close(os.open(name, os.O_RDWR | os.O_NOCTTY))
    pid = inside.child_of_mine(os.fork())
    if pid == 0:
        os.setsid()
        fcntl.ioctl(slave, 0x540e, 0)
        os.write(os.open(name, os.O_RDWR), b"x")
        os.write(os.open("/dev/tty", os.O_RDWR), b"y")
        time.sleep(10)
        os._exit(0)
    if os.read(master, 1) + os.read(master, 1) != b"xy":
        raise RuntimeError("the terminal shows something else")
    os.close(os.open(name, os.O_RDWR | os.O_NOCTTY))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


attack("A-18", "writing on somebody's terminal", tty_write, prep=tty_prep, effect=tty_written, twin=own_terminal,
       events=[ev("open_write", "files.terminal", path="{TTY}")])
attack("A-19", "reading what is typed on somebody's terminal", tty_read, prep=tty_prep, effect=done, twin=own_terminal,
       events=[ev("open_read", "files.terminal", path="{TTY}")])


def fifo_prep(arena, a):
    os.mkfifo(a.out + "/pipe")
    OUTSIDE["pipe"] = os.open(a.out + "/pipe", os.O_RDWR | os.O_NONBLOCK)
    os.write(OUTSIDE["pipe"], b"for others")


def fifo_taken(arena, a, r):
    return not struct.unpack("=i", fcntl.ioctl(OUTSIDE["pipe"], 0x541b, bytes(4)))[0]  # FIONREAD


def own_fifo(a):
    os.mkfifo(a.wd + "/pipe")
    fd = os.open(a.wd + "/pipe", os.O_RDWR)
    os.write(os.open(a.wd + "/pipe", os.O_WRONLY), b"x")
    os.read(fd, 1)
    if inside.run_child(["bash", "-c", "cat <(echo x)"]).stdout != "x\n":
        raise RuntimeError("no process substitution")


attack("A-20", "taking what is in a named pipe outside", lambda a: os.read(os.open(a.out + "/pipe", os.O_RDONLY | os.O_NONBLOCK), 100) and None, prep=fifo_prep,
       effect=fifo_taken, twin=own_fifo, errnos=ROFS, events=[ev("open_write", W, path="{out}/pipe")])


def rw_hint(path):
    return lambda a: fcntl.fcntl(os.open(a.fill(path), os.O_RDONLY), 1036, struct.pack("=Q", 5)) and None


def hinted(arena, a, r):
    return struct.unpack("=Q", fcntl.fcntl(os.open(a.out + "/f", os.O_RDONLY), 1035, bytes(8)))[0] == 5


attack("A-21", "F_SET_RW_HINT by a descriptor for reading", rw_hint("{out}/f"), effect=hinted, twin=rw_hint("{wd}/f"), errnos=ROFS, hooks=["guard_fcntl"],
       events=[ev("setattr", W, path="{out}/f")])


def delegation(path):
    def do(a):
        fcntl.fcntl(os.open(a.fill(path), os.O_RDONLY | os.O_DIRECTORY), 1040, struct.pack("=IHH", 0, 0, 0))
        return "done"
    return do


attack("A-22", "F_SETDELEG: a lease on a directory", delegation("{out}"), effect=done, twin=delegation("{wd}"), errnos=ROFS, lacking=(errno.EINVAL,),
       events=[ev("lock", W, path="{out}")], hooks=["file_lock"])

# --- ioctls that change more than their own file ------------------------------------------------------------------


def dedupe(place):
    def do(a):
        source = os.open(f"/scratch/places/{place}/wd/base/same", os.O_RDWR)
        other = os.open(f"/scratch/places/{place}/out/base/same", os.O_RDONLY)
        fcntl.ioctl(source, 0xc0189436, bytearray(struct.pack("=QQHHI", 0, 65536, 1, 0, 0) + struct.pack("=qQQiI", other, 0, 0, 0, 0)))
    return do


def first_extent(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    answer = bytearray(struct.pack("=QQIIII", 0, 1 << 40, 1, 0, 8, 0) + bytes(56 * 8))
    fcntl.ioctl(fd, 0xc020660b, answer)
    return bytes(answer[32:88])


def dedupe_prep(place):
    def prep(arena, a):
        for name in ("wd", "out"):
            arena.write(f"/scratch/places/{place}/{name}/base/same", "A" * 65536)
        OUTSIDE["extent"] = first_extent(f"/scratch/places/{place}/out/base/same")
    return prep


def clone_range(place):
    def do(a):
        source = os.open(f"/scratch/places/{place}/wd/base/same", os.O_RDONLY)
        fcntl.ioctl(os.open(f"/scratch/places/{place}/wd/base/{a.slug}", os.O_CREAT | os.O_RDWR), 0x40049409, source)
    return do


for number, place, labels in ((24, "xfs", ("6.18",)), (25, "btrfs", ("6.12",))):
    attack(f"A-{number}", f"FIDEDUPERANGE onto an outside file that is open for reading, {place}", dedupe(place), prep=dedupe_prep(place),
           effect=lambda arena, a, r, p=place: first_extent(f"/scratch/places/{p}/out/base/same") != OUTSIDE["extent"], twin=clone_range(place), errnos=ROFS,
           events=[ev("ioctl", W, path=f"/scratch/places/{place}/wd/base/same")], hooks=["file_ioctl"], labels=labels)


def subvolume_prep(arena, a):
    subprocess.run(["mount", "-o", "remount,user_subvol_rm_allowed", "/scratch/places/btrfs"], check=True)
    subprocess.run(["btrfs", "subvolume", "create", f"/scratch/places/btrfs/out/{a.slug}"], check=True, capture_output=True)
    shown = subprocess.run(["btrfs", "subvolume", "show", f"/scratch/places/btrfs/out/{a.slug}"], capture_output=True, text=True, check=True).stdout
    a.values["SUBVOLUME"] = next(line.split()[-1] for line in shown.splitlines() if "Subvolume ID" in line)


def destroy(a):
    fd = os.open("/scratch/places/btrfs/wd/base", os.O_RDONLY)
    syscall(16, fd, 0x5000943f, struct.pack("=qQQ", 0, 0, 1 << 4) + bytes(32) + struct.pack("=Q", int(a.SUBVOLUME)) + bytes(4032))


attack("A-26", "removing an outside subvolume by its number", destroy, prep=subvolume_prep, twin=lambda a: os.listdir("/scratch/places/btrfs/wd"), errnos=ROFS,
       effect=lambda arena, a, r: not os.path.exists(f"/scratch/places/btrfs/out/{a.slug}"), labels=("6.12",), hooks=["file_ioctl"],
       events=[ev("ioctl", W, path="/scratch/places/btrfs/wd/base")])


def resize(a):
    """To what it is: the question is whether it may be asked."""
    st = os.statvfs(a.W)
    fcntl.ioctl(os.open(a.wd, os.O_RDONLY), 0x40086610, struct.pack("=Q", 524288 if st.f_bsize == 4096 else 0))
    return "done"


attack("A-27", "resizing the file system that the workdir lies on", resize, effect=done, twin=write("{wd}/f"), events=[capable("CAP_SYS_RESOURCE")])
attack("A-28", "the label of the file system that the workdir lies on", lambda a: fcntl.ioctl(os.open(a.wd, os.O_RDONLY), 0x41009432, b"x".ljust(256, b"\0")) and "done",
       effect=done, twin=write("{wd}/f"), events=[capable("CAP_SYS_ADMIN")])

# --- what others do for it -----------------------------------------------------------------------------------------


def helper_prep(arena, a):
    arena.write("/sbin/request-key", f"#!/bin/sh\necho \"$@\" >> {a.RUN}/upcall\n")
    os.chmod("/sbin/request-key", 0o755)
    arena.write(a.RUN + "/upcall", "")


def helped(arena, a, r):
    with open(a.RUN + "/upcall") as f:
        return f.read() != ""


def request_key(a):
    try:
        syscall(249, b"user", a.token.encode(), b"data", 0)
    except OSError as e:
        if e.errno != errno.ENOKEY:  # the helper made none
            raise


def core(a):
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    pid = inside.child_of_mine(os.fork())
    if pid == 0:
        os.chdir(a.out)
        os.abort()
    os.waitpid(pid, 0)


def ring_bind(path):
    """IORING_OP_BIND: since 6.11."""
    def do(a):
        s = socket.socket(AF_UNIX, SOCK_STREAM)
        name = struct.pack("=H", AF_UNIX) + a.fill(path).encode() + b"\0"
        ring.Ring(4).do(56, fd=s.fileno(), addr=ctypes.create_string_buffer(name, len(name)), off=len(name))
    return do


attack("A-29", "request_key, for which the kernel starts a helper outside", request_key, prep=helper_prep, effect=helped,
       twin=write("{wd}/f"), events=[ev("key", "guard.key", count=range(1, 4))])
attack("A-30", "a core dump into an outside directory", core, prep=lambda arena, a: arena.write("/proc/sys/kernel/core_pattern", "core"), twin=write("{wd}/f"),
       errnos=(None,), events=[ev("mknod", W, path="{out}/core")])
attack("A-31", "a socket file outside by IORING_OP_BIND", ring_bind("{out}/socket"), twin=ring_bind("{wd}/socket"), errnos=ROFS, lacking=(errno.EINVAL,),
       events=[ev("mknod", W, path="{out}/socket")])


def device_prep(arena, a):
    if "devices" not in OUTSIDE:
        OUTSIDE["devices"] = subprocess.run(["modprobe", "-q", "-a", "tun", "vhost_vsock", "fuse"])


for number, path, mode in ((32, "/dev/net/tun", os.O_RDWR), (33, "/dev/fuse", os.O_RDWR), (34, "/dev/loop-control", os.O_RDWR), (36, "/dev/vhost-vsock", os.O_RDWR),
                           (37, "/dev/userfaultfd", os.O_RDWR), (38, "/dev/kmsg", os.O_WRONLY)):
    attack(f"A-{number}", path, lambda a, p=path, m=mode: os.open(p, m) and "done", prep=device_prep, effect=done, twin=lambda a: os.close(os.open("/dev/null", os.O_RDWR)),
           lacking=(errno.ENOENT,), events=[ev("open_write", "files.device", path=path)])

# --- what was held before an attach, mappings, groups of processes, sockets by other names -------------------------------


def zeroed(arena, a, r):
    fd = os.open(f"{a.HELD}/dev-loop", os.O_RDONLY)
    try:
        return os.pread(fd, 4, 0) == bytes(4)
    finally:
        os.close(fd)


def implied_exec(path):
    """personality(READ_IMPLIES_EXEC): what is mapped for reading is mapped as code."""
    def do(a):
        libc.personality(0x400000)
        libc.mmap.restype = ctypes.c_void_p
        address = libc.mmap(None, 4096, 1, 2, os.open(a.fill(path), os.O_RDONLY), 0)
        if address == 2**64 - 1:
            raise OSError(ctypes.get_errno(), "mmap")
        with open("/proc/self/maps") as f:
            return next(line.split()[1] for line in f if int(line.split("-")[0], 16) <= address < int(line.split()[0].split("-")[1], 16))
    return do


def join_group(a):
    """Into the process group of somebody outside; then a signal to one's own."""
    os.setpgid(0, os.getpgid(int(a.VICTIM)))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(0, signal.SIGTERM)


def victim_prep(arena, a):
    arena.new_victim()
    a.values["VICTIM"] = str(arena.victim.pid)


def by_descriptor(a):
    return f"/proc/self/fd/{os.open(a.HOSTDIR + '/stream', os.O_PATH)}"


def by_link(a):
    os.symlink(a.HOSTDIR + "/stream", a.wd + "/link")
    return a.wd + "/link"


def unix_by(name):
    def do(a):
        s = socket.socket(AF_UNIX, SOCK_STREAM)
        s.connect(name(a))
        s.send(a.token.encode())
    return do


def segments(a):
    """UDP_SEGMENT: several datagrams by one call, elsewhere than the socket is connected to."""
    s = make(AF_INET, SOCK_DGRAM)
    s.connect((a.GW, DG))
    s.setsockopt(17, 103, 100)
    s.sendto((a.token * 20).encode()[:300], (a.X, DG))


def send_zc(a):
    """IORING_OP_SEND_ZC with an address."""
    s = make(AF_INET, SOCK_DGRAM)
    to = ctypes.create_string_buffer(struct.pack("=H", AF_INET) + struct.pack("!H", DG) + socket.inet_aton(a.X) + bytes(8), 16)
    ring.Ring(4).do(47, fd=s.fileno(), addr=ctypes.create_string_buffer(a.token.encode(), len(a.token)), length=len(a.token), off=to, file_index=16)


def everybody(to):
    def do(a):
        s = make(AF_INET6 if ":" in to else AF_INET, SOCK_DGRAM)
        if ":" in to:
            s.sendto(a.token.encode(), (to, DG, 0, socket.if_nametoindex(a.IF)))
            return
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.bind((a.HOST, 0))  # of a group it chooses the link
        s.sendto(a.token.encode(), (to, DG))
    return do


def to_all(arena, a, r):
    arena.sniff()
    return any(a.token.encode() in frame for frame in arena.frames)


UNIX = {"effect": received, "twin": GATEWAY, "events": [ev("connect", "network.unix", unix="{HOSTDIR}/stream")]}
OUT = {"twin": GATEWAY_UDP, "events": [ev("sendmsg", "network.default", dport=DG, count=range(1, 3))]}
attack("A-41", "BLKZEROOUT on a disk that was open before attach", lambda a: syscall(16, inside.held["dev-loop"], 0x127f, struct.pack("=QQ", 0, 4096)) and None,
       effect=zeroed, twin=lambda a: os.fsync(inside.held["dev-loop"]), fence="attached", held=("dev-loop",), hooks=["file_ioctl"],
       events=[ev("ioctl", "files.device", path="{HELD}/dev-loop")])
attack("A-42", "a mapping for reading that READ_IMPLIES_EXEC makes code", implied_exec("{SECRET}/tool"), errnos=(errno.EACCES,), twin=implied_exec("{wd}/f"),
       effect=lambda arena, a, r: "x" in (r["data"] or ""), events=[ev("mmap", "files.exec.deny", path="{SECRET}/tool")])
attack("A-43", "a signal to a process group that one joined", join_group, prep=victim_prep, effect=lambda arena, a, r: arena.victim_dead(), errnos=(None,),
       twin=lambda a: os.setpgid(0, 0), events=[ev("signal", "guard.signal", guard__target_pid="{VICTIM}")])
attack("A-44", "a unix socket of the host by an O_PATH descriptor", unix_by(by_descriptor), **UNIX)
attack("A-45", "a unix socket of the host by a link in the workdir", unix_by(by_link), **UNIX)
attack("A-46", "UDP_SEGMENT elsewhere", segments, effect=received, **OUT)
attack("A-47", "IORING_OP_SEND_ZC with an address", send_zc, effect=received, lacking=(errno.EINVAL,), **OUT)
for number, to in ((48, "10.99.0.255"), (49, "239.1.1.1"), (50, "ff02::1")):
    attack(f"A-{number}", f"a datagram to everybody at {to}", everybody(to), effect=to_all, **OUT)

# --- what is known, and chosen ------------------------------------------------------------------------------------------


def handed_by_ring(a):
    """Somebody outside who works together with the fence puts a file into its ring."""
    own = ring.Ring(4)
    syscall(427, own.fd, 2, struct.pack("=i", -1), 1)  # IORING_REGISTER_FILES: one empty place
    inside.ask("msgring", fd=own.fd, path=a.out + "/f")
    struct.pack_into("=I", own.cq, own.cq_head, own.get(own.cq, own.cq_tail))  # the message's own completion
    own.do(23, fd=0, addr=ctypes.create_string_buffer(b"token"), length=5, flags=1)


def abstract_name(a):
    server = socket.socket(AF_UNIX, SOCK_STREAM)
    server.bind("\0service-" + a.slug)
    server.listen()
    answer, _ = inside.ask("abstract", name="service-" + a.slug)
    if answer["got"] != "connected":
        raise RuntimeError("docs/limits.md, Names of others, says that it is: " + answer["got"])


attack("A-39", "a descriptor from outside by IORING_OP_MSG_RING", handed_by_ring, twin=write("{wd}/f"), errnos=(errno.EPERM,), lacking=(errno.ENOSYS,),
       events=[ev("write", "files.descriptor")], gap="docs/threat-model.md: an accomplice outside, IORING_OP_MSG_RING")
allowed("A-40", "the host connects to a name of the abstract space that the fence took", abstract_name)

# What never got through, on any kernel, is asked on one label of the matrix each: the hooks have rows of their own elsewhere.
for row in ROWS:
    if row.case in ("A-15", "A-16", "A-17", "A-23", "A-28", "A-29", "A-30", "A-43", "A-44", "A-45", "A-46", "A-47", "A-48", "A-49", "A-50"):
        row.labels = ("6.12",)
    elif row.case in ("A-32", "A-33", "A-34", "A-36", "A-37", "A-38", "A-39"):
        row.labels = ("6.18",)
