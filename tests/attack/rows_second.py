# SPDX-License-Identifier: Apache-2.0
"""
Rows of the second attacker pass (docs/threat-model.md, whose numbers B-NN they bear), by somebody else new to the code: what
got through, and what asks a hook in a way that no other row does.
"""

import atexit
import ctypes
import errno
import fcntl
import grp
import os
import pwd
import signal
import socket
import struct
import subprocess
import time
from socket import AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM

import inside
import ring
from inside import libc, syscall
from rows_file import ROFS, W, passed, write
from rows_guard import capable
from rows_held import held
from rows_net import DG, GATEWAY, GATEWAY_UDP, make, received
from rows_pass import CLONE, CONFIGURE, MOUNT, OPTION, TMPFS_BELOW, own_mounts, secret
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

SERVED = 7107


def served_prep(family, kind):
    """A service of the host that shares a port, and has a filter of its own choose: always the first that took the port."""
    def prep(arena, a):
        if (family, kind) in OUTSIDE:
            return
        host = "127.0.0.1" if family == AF_INET else "::1"
        arena.listeners.add("loopback", family, kind, 0, (host, SERVED), 64, True)
        own = next(s for s in map(lambda key: key.fileobj, arena.listeners.selector.get_map().values())
                   if (s.family, s.type) == (family, kind) and s.getsockname()[:2] == (host, SERVED))
        code = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0), 8)
        own.setsockopt(socket.SOL_SOCKET, 51, struct.pack("=HxxxxxxQ", 1, ctypes.addressof(code)))
        OUTSIDE[family, kind] = own
    return prep


def shared_by(family, kind, port):
    """Joins a port, and sends there until the hash must have chosen each of its sockets."""
    def do(a):
        host, denied = "127.0.0.1" if family == AF_INET else "::1", None
        own = make(family, kind)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        own.bind((host, port))
        if kind == SOCK_STREAM:
            own.listen(64)
        for _ in range(24):
            with make(family, kind) as s:
                try:
                    if kind == SOCK_STREAM:
                        s.connect((host, port))
                        s.send(a.token.encode())
                    else:
                        s.sendto(a.token.encode(), (host, port))
                except PermissionError as e:
                    denied = e
        if denied:
            raise denied
    return do


for number, family, kind in ((38, AF_INET, SOCK_STREAM), (39, AF_INET6, SOCK_STREAM), (40, AF_INET, SOCK_DGRAM), (41, AF_INET6, SOCK_DGRAM)):
    attack(f"B-{number}", f"a service of the host at an {family.name} loopback address that shares its port, {kind.name}, and has a filter of its own choose", shared_by(family, kind, SERVED),
           prep=served_prep(family, kind), effect=received, twin=shared_by(family, kind, 7108),
           events=[ev("connect" if kind == SOCK_STREAM else "sendmsg", "network.loopback", dst="127.0.0.1" if family == AF_INET else "::1", count=range(24, 25))])

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

PROJECT = 4711


def project(command, a):
    """struct fsxattr of a file of the workdir, as FS_IOC_FSGETXATTR says it, with another's project id."""
    fd = os.open(a.PROJECT_FILE, os.O_RDONLY)
    old = struct.unpack("=IIIII8x", fcntl.ioctl(fd, 0x801c581f, bytes(28)))
    if command == "ioctl":
        fcntl.ioctl(fd, 0x401c5820, struct.pack("=IIIII8x", *old[:3], PROJECT, old[4]))
    else:
        syscall(469, -100, a.PROJECT_FILE.encode(), struct.pack("=QIIII", old[0], *old[1:3], PROJECT, old[4]), 24, 0)


def project_prep(arena, a):
    a.values["PROJECT_FILE"] = f"{a.OLD}/mine/{a.slug}"
    arena.write(a.PROJECT_FILE, "")


def project_taken(arena, a, r):
    fd = os.open(a.PROJECT_FILE, os.O_RDONLY)
    try:
        return struct.unpack("=IIIII8x", fcntl.ioctl(fd, 0x801c581f, bytes(28)))[3] == PROJECT
    finally:
        os.close(fd)


def flags_in(a):
    """chattr +d of a file of the workdir, on the same file system."""
    fd = os.open(a.PROJECT_FILE, os.O_RDONLY)
    flags = struct.unpack("=q", fcntl.ioctl(fd, 0x80086601, bytes(8)))[0]
    fcntl.ioctl(fd, 0x40086602, struct.pack("=q", flags | 0x40))


for number, name, op, hook in ((42, "FS_IOC_FSSETXATTR", "ioctl", "file_ioctl"), (43, "file_setattr(2)", "setattr", "file_inode_file_setattr")):
    attack(f"B-{number}", f"a project id of others on a file of the workdir, by {name}", lambda a, op=op: project(op, a), prep=project_prep, effect=project_taken, twin=flags_in, errnos=ROFS,
           lacking=(errno.ENOSYS,), events=[ev(op, W)], hooks=[hook])

# --- what Cordon's own users keep to themselves ---------------------------------------------------------------------------


def keep(path, user, group, mode):
    os.chown(path, pwd.getpwnam(user).pw_uid, grp.getgrnam(group).gr_gid)
    os.chmod(path, mode)


def keeper_prep(user, group, mode):
    """A credential of the gateway's outside; a file of another user like it; and one of the fence's own that it gave away."""
    def prep(arena, a):
        arena.write(a.out + "/g", "secret\n")
        keep(a.out + "/g", user, group, mode)
        keep(a.out + "/f", "agent", "agent", mode)
        keep(a.wd + "/f", user, group, mode)
    return prep


def read_file(path):
    with open(path) as f:
        return f.read()


def others_kept(a):
    read_file(a.out + "/f")
    read_file(a.wd + "/f")


passed_kept = passed("{out}/g", os.O_RDONLY, errno.EACCES)
KEPT = {"effect": secret, "twin": others_kept, "errnos": (errno.EACCES,), "events": [ev("open_read", "files.read.deny", path="{out}/g")], "hooks": ["file_open"]}
for number, name, owner in ((44, "the gateway's user", ("cordon-gateway", "root", 0o600)), (45, "the gateway's group", ("root", "cordon-gateway", 0o640)),
                            (46, "the user of cordond's front", ("cordon", "cordon", 0o640))):
    attack(f"B-{number}", f"reading, as root, a file that {name} keeps from others", lambda a: read_file(a.out + "/g"), prep=keeper_prep(*owner), **KEPT)
attack("B-47", "the same by a descriptor that is passed in", lambda a: os.read(passed_kept(a), 100).decode(), prep=keeper_prep("cordon-gateway", "root", 0o600),
       **{**KEPT, "events": [ev("receive", "files.read.deny", path="{out}/g")], "hooks": ["file_receive"]})

# --- the way that is taken ------------------------------------------------------------------------------------------------

SENDMMSG, RING_SENDMSG = 307, 9
MSG_DONTROUTE = 4


def pktinfo4(index, source="0.0.0.0"):
    return 0, 8, struct.pack("=i", index) + socket.inet_aton(source) + bytes(4)


def pktinfo6(index, source="::"):
    return 41, 50, socket.inet_pton(AF_INET6, source) + struct.pack("=i", index)


def with_control(family, control, flags=0):
    """A datagram to the gateway with control messages."""
    def do(a):
        peer = {AF_INET: a.GW, AF_INET6: a.GW6, "mapped": "::ffff:" + a.GW}[family]
        s = make(AF_INET if family == AF_INET else AF_INET6, SOCK_DGRAM)
        s.sendmsg([a.token.encode()], control(a, socket.if_nametoindex(a.IF)), flags, (peer, DG))
    return do


class Memory:
    """A struct mmsghdr of one datagram to the gateway that names an interface; lives as long as this does."""

    def __init__(self, a, index):
        level, kind, data = pktinfo4(index, a.HOST)
        self.token = ctypes.create_string_buffer(a.token.encode(), len(a.token))
        self.to = ctypes.create_string_buffer(struct.pack("=H", AF_INET) + struct.pack("!H", DG) + socket.inet_aton(a.GW) + bytes(8), 16)
        self.vector = ctypes.create_string_buffer(struct.pack("=QQ", ctypes.addressof(self.token), len(a.token)), 16)
        self.control = ctypes.create_string_buffer(struct.pack("=Qii", 16 + len(data), level, kind) + data + bytes(4), 32)
        self.message = ctypes.create_string_buffer(struct.pack("=QI4xQQQQI4xI4x", ctypes.addressof(self.to), 16, ctypes.addressof(self.vector), 1,
                                                               ctypes.addressof(self.control), 32, 0, 0), 64)


def by_sendmmsg(index):
    def do(a):
        m = Memory(a, index(a))
        with make(AF_INET, SOCK_DGRAM) as s:
            syscall(SENDMMSG, s.fileno(), ctypes.byref(m.message), 1, 0)
    return do


def by_ring(index):
    def do(a):
        m = Memory(a, index(a))
        with make(AF_INET, SOCK_DGRAM) as s:
            ring.Ring(4).do(RING_SENDMSG, fd=s.fileno(), addr=m.message, length=1)
    return do


def link_of(a):
    return socket.if_nametoindex(a.IF)


def nobody(a):
    return 0


def from_link(a, family, kind, to):
    """From the address that the link gave itself, to which a socket is bound with the link."""
    with open("/proc/net/if_inet6") as f:
        own = next(line.split() for line in f if line.startswith("fe80") and line.split()[5] == a.IF)
    s = make(family, kind)
    s.bind((socket.inet_ntop(AF_INET6, bytes.fromhex(own[0])), 0, 0, int(own[1], 16)))
    if kind == SOCK_DGRAM:
        s.sendto(a.token.encode(), to)
    else:
        s.connect(to)
        s.sendall(a.token.encode())


def own_link(a):
    """A socket of the link, with which nothing is sent elsewhere; and one of an address of the host."""
    s = make(AF_INET6, SOCK_DGRAM)
    s.bind((a.HOST6, 0))
    s.sendto(a.token.encode(), (a.GW6, DG))


SOURCE4 = with_control(AF_INET, lambda a, i: [pktinfo4(0, a.HOST), (0, 2, struct.pack("=i", 9)), (17, 103, struct.pack("=H", 1000))])
SOURCE6 = with_control(AF_INET6, lambda a, i: [pktinfo6(0, a.HOST6), (41, 52, struct.pack("=i", 9)), (41, 67, struct.pack("=i", 4))])
MAPPED = with_control("mapped", lambda a, i: [pktinfo6(0, "::ffff:" + a.HOST)])
WAY = {"effect": received, "events": CONFIGURE, "hooks": ["net_socket_sendmsg"]}
for number, name, do, twin, kw in (
        (24, "IP_PKTINFO", with_control(AF_INET, lambda a, i: [pktinfo4(i)]), SOURCE4, {}),
        (25, "IPV6_PKTINFO", with_control(AF_INET6, lambda a, i: [pktinfo6(i)]), SOURCE6, {}),
        (26, "IPV6_PKTINFO, to a mapped address", with_control("mapped", lambda a, i: [pktinfo6(i, "::ffff:0.0.0.0")]), MAPPED, {}),
        (27, "IP_PKTINFO by sendmmsg", by_sendmmsg(link_of), by_sendmmsg(nobody), {}),
        (28, "IP_PKTINFO by an io_uring", by_ring(link_of), by_ring(nobody), {}),
        (29, "SO_MARK as a control message", with_control(AF_INET, lambda a, i: [(1, 36, struct.pack("=I", 16))]), SOURCE4, {}),
        (30, "IP_PKTINFO behind more messages than are looked at", with_control(AF_INET, lambda a, i: [(0, 2, struct.pack("=i", 9))] * 64 + [pktinfo4(i)]),
         with_control(AF_INET, lambda a, i: [(0, 2, struct.pack("=i", 9))] * 60), {}),
        (31, "MSG_DONTROUTE", with_control(AF_INET, lambda a, i: [], MSG_DONTROUTE), SOURCE4, {}),
        (36, "a source address of the link", lambda a: from_link(a, AF_INET6, SOCK_DGRAM, (a.GW6, DG)), own_link, {}),
        (37, "a source address of the link, tcp", lambda a: from_link(a, AF_INET6, SOCK_STREAM, (a.GW6, 80)), own_link, {"hooks": ["net_socket_connect"]})):
    attack(f"B-{number}", f"{name}, by which the link is chosen that leads to the gateway's address", do, twin=twin, **{**WAY, **kw})
for number, name, level, option, value in ((32, "SO_DONTROUTE", 1, 5, 1), (33, "IP_MULTICAST_IF", 0, 32, socket.inet_aton("127.0.0.1")), (34, "IPV6_MULTICAST_IF", 41, 17, struct.pack("=i", 1)),
                                           (35, "IPV6_PKTINFO as an option", 41, 50, bytes(16) + struct.pack("=i", 1))):
    attack(f"B-{number}", f"{name}, by which the link is chosen", said_option(level, option, value), effect=done, **OPTION)

# What is another form of a row that runs everywhere is asked on one label of the matrix.
for row in ROWS:
    if row.case in ("B-02", "B-03", "B-07", "B-18", "B-19", "B-20"):
        row.labels = ("6.12",)
