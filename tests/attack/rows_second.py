# SPDX-License-Identifier: Apache-2.0
"""
Rows of the second attacker pass (docs/threat-model.md, whose numbers B-NN they bear), by somebody else new to the code: what
got through, and what asks a hook in a way that no other row does.
"""

import atexit
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import subprocess
import time
from socket import AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM

import inside
import ring
from inside import libc, syscall
from rows_file import ROFS, W, write
from rows_guard import capable
from rows_held import held
from rows_net import DG, GATEWAY, GATEWAY_UDP, make, received
from rows_pass import CLONE, MOUNT, OPTION, TMPFS_BELOW, own_mounts, secret
from rows_task import done
from table import ROWS, allowed, attack, ev

NEWUSER, NEWNS, NEWUTS, NEWNET = 0x10000000, 0x20000, 0x4000000, 0x40000000
OUTSIDE = {}

# --- a process that is about to enter ---------------------------------------------------------------------------


def entering(use):
    def do(a):
        pid = inside.ask("enter", path=a.CGROUP)[0]["got"]
        use(a, pid)
        return "done"
    return do


def own_child(use):
    def do(a):
        pid = inside.child_of_mine(os.fork())
        if pid == 0:
            time.sleep(10)
            os._exit(0)
        use(a, pid)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return do


def seize(a, pid):
    syscall(101, 0x4206, pid, 0, 0)


def steal(a, pid):
    os.close(syscall(438, syscall(434, pid, 0), 0, 0))


def memory(a, pid):
    os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))


def root_of(a, pid):
    os.close(os.open(f"/proc/{pid}/root/etc/passwd", os.O_RDONLY))


for number, name, use, kw in (
        (1, "PTRACE_SEIZE", seize, {}), (2, "pidfd_getfd", steal, {}),
        (3, "/proc/PID/mem", memory, {"errnos": (errno.EACCES,), "events": [ev("open_read", "guard.ptrace")]}),
        (4, "/proc/PID/root", root_of, {"errnos": (errno.EACCES,), "event_errno": errno.EPERM})):
    attack(f"B-{number:02}", f"{name} of a process of the host that enters and has not executed anything yet", entering(use), twin=own_child(use), effect=done,
           fence="attached", **{"events": [ev("ptrace", "guard.ptrace")], **kw})

# --- what bpffs shows -----------------------------------------------------------------------------------------------


def pinned_prep(arena, a):
    """A map of the host, with type information: the kernel prints what it holds to who reads its pin."""
    strings = b"\0u\0"
    types = struct.pack("=IIII", 1, 1 << 24, 4, 32)
    btf = struct.pack("=HBBIIIII", 0xeb9f, 1, 0, 24, 0, len(types), len(types), len(strings)) + types + strings
    raw = ctypes.create_string_buffer(btf, len(btf))
    attr = struct.pack("=QQIIII", ctypes.addressof(raw), 0, len(btf), 0, 0, 0)
    types_fd = inside.check(libc.syscall(321, 18, attr, len(attr)))
    attr = struct.pack("=IIIIIII16sIIII", 2, 4, 4, 1, 0, 0, 0, b"held", 0, types_fd, 1, 1)
    fd = inside.check(libc.syscall(321, 0, attr, len(attr)))
    key, value = ctypes.create_string_buffer(4), ctypes.create_string_buffer(struct.pack("=I", 4242424242), 4)
    attr = struct.pack("=IIQQQ", fd, 0, ctypes.addressof(key), ctypes.addressof(value), 0)
    inside.check(libc.syscall(321, 2, attr, len(attr)))
    path = f"/sys/fs/bpf/{a.slug}"
    raw = ctypes.create_string_buffer(path.encode())
    attr = struct.pack("=QI", ctypes.addressof(raw), fd)
    inside.check(libc.syscall(321, 6, attr, len(attr)))
    os.close(fd)
    os.close(types_fd)


def pinned_read(a):
    with open(f"/sys/fs/bpf/{a.slug}") as f:
        return f.read()


attack("B-05", "reading what a map of the host holds, by its pin", pinned_read, prep=pinned_prep, effect=lambda arena, a, r: "4242424242" in (r["data"] or ""),
       twin=lambda a: os.listdir("/sys/fs/bpf") and None, errnos=(errno.EPERM,), events=[ev("open_read", "guard.bpf", path="/sys/fs/bpf/{slug}")])

# --- whose socket receives --------------------------------------------------------------------------------------

FILTERED = 7104


def filtered_prep(kind):
    def prep(arena, a):
        if kind not in OUTSIDE:
            arena.listeners.add("loopback", AF_INET, kind, 0, ("127.0.0.1", FILTERED), 64, True)
            OUTSIDE[kind] = True
    return prep


def filtered(kind):
    """Of a group that shares a port the filter chooses the other's; a look-up that has no packet goes by a hash."""
    def do(a):
        own = make(AF_INET, kind)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        own.bind(("127.0.0.1", FILTERED))
        if kind == SOCK_STREAM:
            own.listen(64)
        code = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0), 8)
        own.setsockopt(socket.SOL_SOCKET, 51, struct.pack("=HxxxxxxQ", 1, ctypes.addressof(code)))
        for _ in range(24):
            s = make(AF_INET, kind)
            s.settimeout(0.05)
            try:
                s.bind(("127.0.0.1", 0))
                s.connect(("127.0.0.1", FILTERED))
                s.send(a.token.encode())
            except (PermissionError, TimeoutError):
                pass
    return do


for number, kind in ((6, SOCK_STREAM), (7, SOCK_DGRAM)):
    attack(f"B-{number:02}", f"another's {kind.name} socket that shares the port, chosen by a filter", filtered(kind), prep=filtered_prep(kind), effect=received, **OPTION)

BROADCAST = 7106


def broadcast_prep(arena, a):
    if "broadcast" not in OUTSIDE:
        s = socket.socket(AF_INET, SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("0.0.0.0", BROADCAST))
        s.setblocking(False)
        OUTSIDE["broadcast"] = s


def broadcast(a):
    """A datagram to the broadcast address of the loopback goes to all who have the port; one of them is one's own."""
    own = make(AF_INET, SOCK_DGRAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    own.bind(("127.255.255.255", BROADCAST))
    s = make(AF_INET, SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.sendto(a.token.encode(), ("127.255.255.255", BROADCAST))


def broadcast_got(arena, a, r):
    try:
        while True:
            if a.token.encode() in OUTSIDE["broadcast"].recv(1000):
                return True
    except BlockingIOError:
        return False


attack("B-08", "everybody at the loopback by its broadcast address", broadcast, prep=broadcast_prep, effect=broadcast_got, twin=GATEWAY_UDP,
       events=[ev("sendmsg", "network.loopback", dst="127.255.255.255")])

# --- user namespaces of others ------------------------------------------------------------------------------------


def container_prep(arena, a):
    """A container of others, with a user namespace of its own."""
    if "container" in OUTSIDE:
        OUTSIDE["container"].kill()
        OUTSIDE["container"].wait()
    else:
        atexit.register(lambda: OUTSIDE["container"].kill())
    OUTSIDE["container"] = subprocess.Popen(["unshare", "-U", "-r", "-u", "-m", "sh", "-c", "hostname theirs; echo; exec sleep 600"],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    OUTSIDE["container"].stdout.readline()
    a.values["THEIRS"] = str(OUTSIDE["container"].pid)


def enter(a):
    """By names that the host gave the name spaces, as container runtimes do."""
    for kind, name in (("user", "f"), ("uts", "g")):
        inside.ask("mount", source=f"/proc/{a.THEIRS}/ns/{kind}", target=f"{a.out}/{name}")
    uts = os.open(a.out + "/g", os.O_RDONLY)
    inside.check(libc.setns(os.open(a.out + "/f", os.O_RDONLY), NEWUSER))
    inside.check(libc.setns(uts, NEWUTS))
    socket.sethostname("taken")


def taken(arena, a, r):
    return subprocess.run(["nsenter", "-t", a.THEIRS, "-u", "hostname"], capture_output=True, text=True).stdout == "taken\n"


def own_uts(a):
    inside.check(libc.unshare(NEWUSER | NEWUTS))
    socket.sethostname("mine")


attack("B-09", "entering a container of others that has a user namespace", enter, prep=container_prep, effect=taken, twin=own_uts,
       events=[capable("CAP_SYS_ADMIN")], hooks=["guard_capable"])

# --- what is mounted, or seen, where no way up leads by what denies it ---------------------------------------------------


def namespace_of(a):
    """A name space of mounts that has a copy of a mount at its root."""
    inside.ask("mount", source=TMPFS_BELOW, target=f"{a.SECRET}/dir/a")
    own_mounts()
    fd = syscall(428, -100, f"{a.SECRET}/dir/a".encode(), 2)
    inside.check(libc.setns(fd, NEWNS))
    with open("/f") as f:
        return f.read()


def below_prep(arena, a):
    arena.write(TMPFS_BELOW + "/f", "secret\n")


attack("B-11", "what is mounted below a read-denied directory, as the root of a new name space of mounts", namespace_of, prep=below_prep, effect=secret, twin=CLONE,
       lacking=(errno.EINVAL,), events=[capable("CAP_SYS_ADMIN")], hooks=["guard_capable"])


def handle_prep(arena, a):
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 64, 0), 80)
    mount = ctypes.c_int()
    inside.check(libc.syscall(303, -100, f"{a.SECRET}/dir/a/f".encode(), handle, ctypes.byref(mount), 0))
    a.values["HANDLE"] = handle.raw.hex()


def handle_read(a):
    inside.ask("forget")
    fd = syscall(304, os.open(a.wd, os.O_RDONLY), bytes.fromhex(a.HANDLE), os.O_RDONLY)
    return os.read(fd, 100).decode()


attack("B-12", "a file of a read-denied directory by its handle, when no name of it is in memory", handle_read, prep=handle_prep, effect=secret, twin=write("{wd}/f"),
       errnos=(errno.EACCES,), events=[ev("open_read", "files.read.deny")])

# --- ioctls and commands that reach further than their file -------------------------------------------------------------


def discard(a):
    ring.Ring(4).do(46, fd=inside.held["dev-discard"], off=0x1200, addr=8192, addr3=4096)


def discarded(arena, a, r):
    fd = os.open(f"{a.HELD}/dev-discard", os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        return os.pread(fd, 4, 8192) == bytes(4)
    finally:
        os.close(fd)


attack("B-13", "discarding blocks of a disk that was open before attach, by an io_uring", discard, effect=discarded, hooks=["file_uring_cmd"], twin=lambda a: os.fsync(inside.held["dev-discard"]),
       fence="attached", held=("dev-discard",), lacking=(errno.EOPNOTSUPP, errno.EINVAL), events=[ev("ioctl", "files.device")])


def key_prep(arena, a):
    fd = os.open(a.OLD, os.O_RDONLY)
    arg = bytearray(struct.pack("=II32sII32x", 2, 0, b"", 64, 0) + b"k" * 64)
    fcntl.ioctl(fd, 0xc0506617, arg)
    a.values["KEY"] = bytes(arg[8:24]).hex()
    os.close(fd)


def key_gone(arena, a, r):
    fd = os.open(a.OLD, os.O_RDONLY)
    arg = bytearray(struct.pack("=II32s", 2, 0, bytes.fromhex(a.KEY)) + bytes(88))
    fcntl.ioctl(fd, 0xc080661a, arg)
    os.close(fd)
    return struct.unpack_from("=I", arg, 64)[0] == 1


def remove_key(a):
    arg = bytearray(struct.pack("=II32s", 2, 0, bytes.fromhex(a.KEY)) + bytes(24))
    fcntl.ioctl(os.open(a.OLD + "/mine", os.O_RDONLY), 0xc0406618, arg)


attack("B-14", "removing the key of encrypted directories outside, on the same file system", remove_key, prep=key_prep, effect=key_gone, twin=write("{wd}/f"), errnos=ROFS,
       lacking=(errno.EOPNOTSUPP,), events=[ev("ioctl", W)], hooks=["file_ioctl"])


def move_extents(a):
    fd = os.open(a.wd + "/new", os.O_CREAT | os.O_RDWR)
    os.write(fd, b"token".ljust(4096, b"."))
    os.fsync(fd)
    fcntl.ioctl(fd, 0xc028660f, bytearray(struct.pack("=IIQQQQ", 0, inside.held["move"], 0, 0, 1, 0)))


def moved(arena, a, r):
    os.sync()
    arena.write("/proc/sys/vm/drop_caches", "3")
    with open(f"{a.HELD}/move", "rb") as f:
        return not f.read().startswith(b"outside\n")


attack("B-15", "exchanging blocks with a file that was open before attach", move_extents, effect=moved, twin=write("{wd}/f"), fence="attached", held=("move",), errnos=ROFS,
       lacking=(errno.EOPNOTSUPP,), events=[ev("ioctl", W)], hooks=["file_ioctl"])

def send_file(name):
    def do(a):
        source = os.memfd_create("x")
        os.write(source, a.token.encode())
        os.sendfile(held(name).fileno(), source, 0, 100)
    return do


for number, kind, port in ((21, "udp", DG), (22, "tcp", 80)):
    attack(f"B-{number}", f"sendfile into a connected {kind} socket from before", send_file(kind), effect=received, twin=send_file(f"{kind} to the gateway"), fence="attached",
           events=[ev("sendmsg", "network.default", dst="{X}", dport=port, proto=kind)])

def lease_prep(arena, a):
    """Somebody outside who has a lease on a file, and gives it back when he is told."""
    def told(*_):
        OUTSIDE["told"] = True
        fcntl.fcntl(OUTSIDE["lease"], 1024, fcntl.F_UNLCK)

    OUTSIDE["told"] = False
    signal.signal(signal.SIGIO, told)
    if "lease" in OUTSIDE:
        os.close(OUTSIDE["lease"])
    OUTSIDE["lease"] = os.open(a.out + "/f", os.O_RDWR)
    fcntl.fcntl(OUTSIDE["lease"], 1024, fcntl.F_WRLCK)


allowed("B-23", "reading a file on which somebody outside has a lease: he is told, and gives it back", lambda a: os.close(os.open(a.out + "/f", os.O_RDONLY)), prep=lease_prep,
        effect=lambda arena, a, r: OUTSIDE["told"])

# --- the network's set-up ---------------------------------------------------------------------------------------------


def said_option(level, option, value):
    def do(a):
        make(AF_INET6 if level == 41 else AF_INET, SOCK_DGRAM).setsockopt(level, option, value)
        return "done"
    return do


def tables_prep(arena, a):
    subprocess.run(["modprobe", "-q", "-a", "ip_tables", "iptable_filter"])


def tables(a):
    """The packet filter of a network namespace, which is set up by options of a socket, too."""
    inside.check(libc.unshare(NEWUSER | NEWNET))
    s = make(AF_INET, SOCK_STREAM)
    s.setsockopt(0, 65, b"filter".ljust(32, b"\0") + struct.pack("=I4x", 4) + struct.pack("=QQ", 1, 1) * 4)
    return "done"


for number, name, level, option, value in ((17, "SO_BINDTODEVICE", 1, 25, b"lo"), (18, "SO_BINDTOIFINDEX", 1, 62, struct.pack("=i", 1)), (19, "IP_UNICAST_IF", 0, 50, struct.pack("!i", 1)),
                                           (20, "IPV6_UNICAST_IF", 41, 76, struct.pack("!i", 1))):
    attack(f"B-{number}", f"{name}, by which the way to the gateway's address is chosen", said_option(level, option, value), effect=done, **OPTION)
attack("B-16", "the packet filter by an option of a socket", tables, prep=tables_prep, effect=done, lacking=(errno.ENOPROTOOPT, errno.ENOENT), **OPTION)

# What is another form of a row that runs everywhere is asked on one label of the matrix.
for row in ROWS:
    if row.case in ("B-02", "B-03", "B-07", "B-18", "B-19", "B-20"):
        row.labels = ("6.12",)
