# SPDX-License-Identifier: Apache-2.0
"""
Rows about other processes, cgroups, bpf(). {VICTIM} is a `sleep` of the host, a new one for each part; {ENFORCER} the
cordon that made the fence (unfenced: the driver).
"""

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import threading
import time
from socket import AF_INET, SOCK_STREAM

import inside
from inside import libc, syscall
from rows_file import W, write
from rows_net import DG, GATEWAY, exchange, make, own_unix, unix, received, tcp, udp, wire, UDP
from table import attack, ev

PTRACE_TRACEME, PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SEIZE = 0, 16, 17, 0x4206
libc.ptrace.restype = ctypes.c_long
SIGCHLD = int(signal.SIGCHLD)


def ptrace(request, pid):
    inside.check(libc.ptrace(request, pid, None, None))


def own_child():
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
        os._exit(0)
    return inside.child_of_mine(pid)


def on_victim(use):
    return lambda a: use(a, int(a.VICTIM))


def on_enforcer(use):
    return lambda a: use(a, int(a.ENFORCER))


def on_child(use):
    def do(a):
        pid = own_child()
        try:
            return use(a, pid)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return do


def attach(a, pid):
    ptrace(PTRACE_ATTACH, pid)
    os.waitpid(pid, 0x40000000)
    ptrace(PTRACE_DETACH, pid)
    return "done"


def seize(a, pid):
    ptrace(PTRACE_SEIZE, pid)
    return "done"


def vm_readv(a, pid):
    with open(f"/proc/{pid}/stat") as f:
        start = int(f.read().split()[25])  # start_code, as one's own
    with open("/proc/self/maps") as f:
        start = start if start > 1 else int(f.readline().split("-")[0], 16)
    buffer = ctypes.create_string_buffer(4)
    local = struct.pack("=QQ", ctypes.addressof(buffer), 4)
    syscall(310, pid, local, 1, struct.pack("=QQ", start, 4), 1, 0)
    return "done"


def open_mem(a, pid):
    os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
    return "done"


def environ(a, pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        f.read()
    return "done"


def pidfd_getfd(a, pid):
    os.close(syscall(438, syscall(434, pid, 0), 0, 0))
    return "done"


def done(arena, a, result):
    return result["data"] == "done"


TARGET = ev("ptrace", "guard.ptrace", guard__target_pid="{VICTIM}")
for name, use, err, event in (("PTRACE_ATTACH", attach, errno.EPERM, TARGET), ("PTRACE_SEIZE", seize, errno.EPERM, TARGET),
                              ("process_vm_readv", vm_readv, errno.EPERM, TARGET), ("pidfd_getfd", pidfd_getfd, errno.EPERM, TARGET),
                              ("/proc/PID/mem", open_mem, errno.EACCES, ev("open_read", "guard.ptrace", path="/proc/{VICTIM}/mem")),
                              ("/proc/PID/environ", environ, errno.EACCES, ev("open_read", "guard.ptrace", path="/proc/{VICTIM}/environ"))):
    attack("P-04", f"{name} of a process outside", on_victim(use), effect=done, twin=on_child(use), errnos=(err,), events=[event],
           hooks=["guard_ptrace"] if err == errno.EPERM else [])
attack("P-04", "PTRACE_SEIZE of the enforcer", on_enforcer(seize), effect=done, twin=on_child(seize),
       events=[ev("ptrace", "guard.ptrace", guard__target_pid="{ENFORCER}")])


def traceme_orphan(a):
    """A process whose parent died makes whoever inherited it, outside, its tracer."""
    read, write_end = os.pipe()
    middle = inside.child_of_mine(os.fork())
    if middle == 0:
        old = os.getpid()
        if os.fork() == 0:
            while os.getppid() == old:
                time.sleep(0.01)
            err = 0 if libc.ptrace(PTRACE_TRACEME, 0, None, None) == 0 else ctypes.get_errno()
            os.write(write_end, struct.pack("=ii", err, os.getpid()))
        os._exit(0)
    os.waitpid(middle, 0)
    err, pid = struct.unpack("=ii", os.read(read, 8))
    inside.child_of_mine(pid)
    if err:
        raise OSError(err, os.strerror(err))
    return "done"


def traceme_twin(a):
    pid = inside.child_of_mine(os.fork())
    if pid == 0:
        os._exit(0 if libc.ptrace(PTRACE_TRACEME, 0, None, None) == 0 else 1)
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError("a child of one's own could not be traced")


attack("P-04", "PTRACE_TRACEME below a parent outside", traceme_orphan, effect=done, twin=traceme_twin,
       events=[ev("ptrace", "guard.ptrace")])

# --- signals ----------------------------------------------------------------------------------------------------


def kill(a, pid):
    os.kill(pid, signal.SIGTERM)


def pidfd_kill(a, pid):
    syscall(424, syscall(434, pid, 0), int(signal.SIGTERM), None, 0)


def queue(a, pid):
    info = struct.pack("=iii", int(signal.SIGTERM), 0, -1) + bytes(116)
    syscall(129, pid, int(signal.SIGTERM), info)


def set_owner(fd, pid, how="F_SETOWN"):
    if how == "F_SETOWN":
        fcntl.fcntl(fd, fcntl.F_SETOWN, pid)
    elif how == "F_SETOWN_EX":
        fcntl.fcntl(fd, 15, struct.pack("=ii", 1, pid))
    else:
        fcntl.ioctl(fd, 0x8902 if how == "SIOCSPGRP" else 0x8901, struct.pack("=i", pid))
    fcntl.fcntl(fd, 10, int(signal.SIGTERM))  # F_SETSIG
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)


def owner_signal(how):
    """The kernel sends it when there is something to read."""
    def do(a, pid):
        left, right = socket.socketpair()
        set_owner(left.fileno(), pid, how)
        right.send(b"x")
        fcntl.fcntl(left.fileno(), fcntl.F_SETFL, 0)  # or closing it would be a second one
    return do


def owner_fifo(a, pid):
    """It is a process outside that writes."""
    os.mkfifo(a.wd + "/fifo")
    set_owner(os.open(a.wd + "/fifo", os.O_RDONLY | os.O_NONBLOCK), pid)
    inside.ask("write", path=a.wd + "/fifo")


def owner_outside(a, pid):
    """It is a process outside that has said who is signalled."""
    os.write(inside.ask("owned", pid=pid)[1][0], b"x")


def owner_own(a):
    """The legal neighbour: to be signalled oneself."""
    came = []
    signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    for pid in (os.getpid(), 0, os.getpid()):
        read, write_end = os.pipe()
        set_owner(read, pid)
        os.write(write_end, b"x")
    for _ in range(100):
        if len(came) == 2:
            return
        time.sleep(0.01)
    if not came:  # two at once are one
        raise RuntimeError("the signal did not come")


def victim_dead(arena, a, result):
    return arena.victim_dead()


for name, use in (("kill", kill), ("pidfd_send_signal", pidfd_kill), ("rt_sigqueueinfo", queue)):
    attack("P-05", f"{name} to a process outside", on_victim(use), effect=victim_dead, twin=on_child(use), hooks=["guard_task_kill"],
           events=[ev("signal", "guard.signal", guard__target_pid="{VICTIM}")])
OWNER = [ev("signal", "guard.signal")]
for how in ("F_SETOWN", "F_SETOWN_EX", "SIOCSPGRP", "FIOSETOWN"):
    attack("P-05", f"{how} and O_ASYNC to a process outside", on_victim(owner_signal(how)), effect=victim_dead, twin=owner_own, events=OWNER,
           hooks=["guard_fcntl+guard_sigiotask" if how[0] == "F" and how != "FIOSETOWN" else "file_ioctl+guard_sigiotask"])
attack("P-05", "F_SETOWN to a process outside, of a file that others write", on_victim(owner_fifo), effect=victim_dead, twin=owner_own, events=OWNER,
       hooks=["guard_fcntl"])
attack("P-05", "writing what signals a process outside", on_victim(owner_outside), effect=victim_dead, twin=owner_own, errnos=(None,),
       events=[ev("signal", "guard.signal", guard__target_pid="{VICTIM}")], hooks=["guard_sigiotask"])

# --- cgroups ----------------------------------------------------------------------------------------------------


def nested(use, allow_all=False):
    """The driver, as a container engine would, makes cgroups three levels down and puts this process there."""
    def do(a):
        inside.ask("nest", allow_all=allow_all)
        return use(a)
    return do


for allow_all, what in ((False, "three cgroups down"), (True, "three cgroups down, with an allow-all program of the host there")):
    attack("C-04", f"tcp {what}", nested(tcp("{X}", 80), allow_all), effect=wire(6, "{X}", 80), twin=nested(GATEWAY, allow_all),
           events=[ev("connect", "network.default", dst="{X}", dport=80, proto="tcp")])
    attack("C-04", f"loopback {what}", nested(tcp("127.0.0.2", 7000), allow_all), effect=received, twin=nested(GATEWAY, allow_all),
           events=[ev("connect", "network.loopback", dst="127.0.0.2", dport=7000)], hooks=["net_connect4"] if allow_all else [])
attack("C-04", "udp three cgroups down", nested(udp("{X}", DG)), effect=wire(UDP, "{X}", DG), twin=nested(udp("{GW}", DG)),
       events=[ev("sendmsg", "network.default", dst="{X}", dport=DG)])
attack("C-04", "write three cgroups down", nested(write("{out}/f")), twin=nested(write("{wd}/f")), errnos=(errno.EROFS,),
       events=[ev("open_write", W, path="{out}/f")])


def make_cgroup(a):
    os.mkdir(f"{a.CGROUP}/{a.slug}")


def cgroup_effect(arena, a, result):
    path = f"{a.CGROUP}/{a.slug}"
    if not os.path.isdir(path):
        return False
    os.rmdir(path)
    return True


attack("C-01", "making a cgroup", make_cgroup, effect=cgroup_effect, twin=lambda a: os.mkdir(a.wd + "/new"), errnos=(errno.EROFS,),
       events=[ev("mkdir", W, path="{CGROUP}/{slug}")])


def move(a):
    os.write(os.open(f"{a.HOST_CGROUP}/cgroup.procs", os.O_WRONLY), b"0")
    with open("/proc/self/cgroup") as f:
        return "done" if "cordon-attack" in f.read() else None


attack("C-01", "writing oneself into a cgroup of the host", move, effect=done, twin=write("{wd}/f"), errnos=(errno.EROFS,),
       events=[ev("open_write", W, path="{HOST_CGROUP}/cgroup.procs")])


def clone_into(a):
    fd = os.open(a.HOST_CGROUP, os.O_RDONLY)
    args = struct.pack("=11Q", 0x200000000, 0, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, fd)
    pid = syscall(435, args, len(args))
    if pid == 0:
        time.sleep(0.1)
        os._exit(0)
    inside.child_of_mine(pid)
    with open(f"/proc/{pid}/cgroup") as f:
        where = f.read()
    os.waitpid(pid, 0)
    return "done" if "cordon-attack" in where else None


def plain_clone(a):
    pid = inside.child_of_mine(os.fork())
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


attack("C-01", "CLONE_INTO_CGROUP", clone_into, effect=done, twin=plain_clone, hooks=["fence_task_alloc"],
       events=[ev("cgroup_move", "guard.cgroup")])


def in_child(use):
    def do(a):
        read, write_end = os.pipe()
        pid = inside.child_of_mine(os.fork())
        if pid == 0:
            err = 0
            try:
                use(a)
            except OSError as e:
                err = e.errno
            except BaseException:
                err = 255
            os.write(write_end, struct.pack("=i", err))
            os._exit(0)
        os.waitpid(pid, 0)
        err = struct.unpack("=i", os.read(read, 4))[0]
        if err:
            raise OSError(err, os.strerror(err))
    return do


attack("C-04", "a child's tcp", in_child(tcp("{X}", 80)), effect=wire(6, "{X}", 80), twin=in_child(GATEWAY), hooks=["fence_task_alloc"],
       events=[ev("connect", "network.default", dst="{X}", dport=80, proto="tcp")])
attack("C-04", "a child's write", in_child(write("{out}/f")), twin=in_child(write("{wd}/f")), errnos=(errno.EROFS,), hooks=["fence_task_alloc"],
       events=[ev("open_write", W, path="{out}/f")])


def moved_out(use):
    """The host, as an engine or systemd might, moves this process out of the fence's cgroup; it stays fenced."""
    def do(a):
        inside.ask("move", path=a.HOST_CGROUP)
        return use(a)
    return do


def old_socket_moved(a):
    """A socket of the fence, used from outside its cgroup."""
    s = make(AF_INET, SOCK_STREAM)
    inside.ask("move", path=a.HOST_CGROUP)
    s.connect((a.X, 80))
    exchange(s, a.token)


NO_NETWORK = ("network.cgroup", "network.default")
attack("C-01", "tcp after the host moved it out", moved_out(tcp("{X}", 80)), effect=wire(6, "{X}", 80), twin=moved_out(write("{wd}/f")),
       events=[ev("socket", "network.cgroup", family="inet")])
attack("C-01", "a socket of before, after the host moved it out", old_socket_moved, effect=wire(6, "{X}", 80),
       twin=moved_out(write("{wd}/f")), events=[ev("connect", NO_NETWORK, dst="{X}", dport=80)])
attack("C-01", "write after the host moved it out", moved_out(write("{out}/f")), twin=moved_out(write("{wd}/f")), errnos=(errno.EROFS,),
       events=[ev("open_write", W, path="{out}/f")])


def in_namespaces(use):
    """In user, PID and cgroup namespaces of one's own."""
    def do(a):
        inside.check(libc.unshare(0x10000000 | 0x20000000 | 0x02000000))
        return in_child(use)(a)
    return do


for name, do, twin, err, event in (
        ("tcp", tcp("{X}", 80), GATEWAY, errno.EPERM, ev("connect", "network.default", dst="{X}", dport=80)),
        ("write", write("{out}/f"), write("{wd}/f"), errno.EROFS, ev("open_write", W, path="{out}/f"))):
    event["keys"]["process__pid_ns"] = 1  # as it sees itself
    attack("C-12", f"{name} from user, PID and cgroup namespaces", in_namespaces(do), twin=in_namespaces(twin), errnos=(err,), events=[event],
           effect=wire(6, "{X}", 80) if name == "tcp" else None)


def in_thread(use):
    def do(a):
        failed = []

        def body():
            try:
                use(a)
            except OSError as e:
                failed.append(e)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
    return do


attack("C-04", "a thread's tcp", in_thread(tcp("{X}", 80)), effect=wire(6, "{X}", 80), twin=in_thread(GATEWAY),
       events=[ev("connect", "network.default", dst="{X}", dport=80, proto="tcp")])
def by_thread_that_execs(path):
    """A thread executes a program, and takes the place of the leader, who was marked, by that."""
    def do(a):
        pid = inside.child_of_mine(os.fork())
        if pid == 0:
            threading.Thread(target=os.execv, args=("/bin/sh", ["sh", "-c", f"echo x > {a.fill(path)}"])).start()
            time.sleep(60)
            os._exit(99)
        if os.waitpid(pid, 0)[1]:
            raise OSError(errno.EROFS, "sh could not write")
    return do


attack("C-04", "what a thread executes writes", by_thread_that_execs("{out}/f"), twin=by_thread_that_execs("{wd}/f"), errnos=(errno.EROFS,),
       events=[ev("open_write", W, path="{out}/f")])
def entered(*command):
    """A process of the host enters the fence, and executes a command there: it has no capabilities any more."""
    def do(a):
        got = inside.ask("run", path=a.CGROUP, command=command)[0]
        inside.child_of_mine(got["got"])
        if got["code"]:
            raise OSError(errno.EPERM, f"{command[0]} ended with {got['code']}")
        return "done"
    return do


attack("C-04", "a name space by what a process that entered executed", entered("unshare", "--uts", "true"), effect=done, twin=entered("true"),
       events=[ev("capable", "guard.capability")], fence="attached")
attack("C-15", "the bus of the host", unix("{HOSTDIR}/stream"), effect=received, twin=own_unix(False),
       events=[ev("connect", "network.unix", family="unix")])
attack("C-15", "a job for cron", lambda a: inside.run_child(["sh", "-c", f"echo '* * * * * root true' > {a.out}/f"]).returncode and
       (_ for _ in ()).throw(OSError(errno.EROFS, "sh could not write")), twin=write("{wd}/f"), errnos=(errno.EROFS,),
       events=[ev("open_write", W, path="{out}/f")])


def bpf_load(a):
    """Loads a program that allows all, as would be attached to a child cgroup."""
    os.close(bpf_program())
    return "done"


def bpf_program(kind=18, attach_type=10):
    """A cgroup program that says 1."""
    code = ctypes.create_string_buffer(struct.pack("=BBhi", 0xb7, 0, 0, 1) + struct.pack("=BBhi", 0x95, 0, 0, 0))
    text = ctypes.create_string_buffer(b"GPL")
    attr = struct.pack("=IIQQIIQII16sII", kind, 2, ctypes.addressof(code), ctypes.addressof(text), 0, 0, 0, 0, 0, b"", 0,
                       attach_type)
    return syscall(321, 5, attr, len(attr))


attack("C-04", "loading a BPF program", bpf_load, effect=done, twin=lambda a: None, hooks=["guard_bpf"],
       events=[ev("bpf", "guard.bpf")])
