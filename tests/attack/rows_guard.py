# SPDX-License-Identifier: Apache-2.0
"""
Rows about the kernel itself, and what reaches other processes by it: capabilities over the host, modules, keys, time,
scheduling, 32-bit system calls. {VICTIM} is a `sleep` of the host, in a process group of its own, a new one for each part.
"""

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import subprocess
import time

import inside
from inside import libc, syscall
from rows_file import W, write
from rows_net import GATEWAY, wire
from rows_task import PTRACE_SEIZE, done, own_child, on_child, on_enforcer, on_victim, ptrace, victim_dead
from table import allowed, attack, ev

PTRACED = ev("ptrace", "guard.ptrace", guard__target_pid="{VICTIM}")
COMPAT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/tests/compat")


def capable(name, **keys):
    return ev("capable", "guard.capability", guard__capability=name, **keys)


def said(value):
    """The attack succeeded when it came so far as to say so."""
    def do(a):
        value(a)
        return "done"
    return do


# --- processes outside: looking, taking -------------------------------------------------------------------------


def start_stack(pid):
    """An address that is mapped and writable; 0, as the kernel says to those who may not know, is as good for asking."""
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[25])


def vm_writev(a, pid):
    zero = ctypes.create_string_buffer(4)
    where = start_stack(pid) or 4096
    remote = struct.pack("=QQ", where + 8, 4)
    local = struct.pack("=QQ", ctypes.addressof(zero), 4)
    syscall(310, pid, local, 1, remote, 1, 0)  # what stands there now is what is written
    syscall(311, pid, local, 1, remote, 1, 0)
    return "done"


def madvise(a, pid):
    vec = struct.pack("=QQ", (start_stack(pid) or 4096) & ~4095, 4096)
    syscall(440, syscall(434, pid, 0), vec, 1, 20, 0)  # process_madvise(MADV_COLD)
    return "done"


def kcmp(a, pid):
    syscall(312, os.getpid(), pid, 2, 0, 0)  # KCMP_FILES
    return "done"


def robust_list(a, pid):
    head, size = ctypes.c_void_p(), ctypes.c_size_t()
    syscall(274, pid, ctypes.byref(head), ctypes.byref(size))
    return "done"


def setns_pidfd(a, pid):
    syscall(308, syscall(434, pid, 0), 0x04000000)  # CLONE_NEWUTS
    return "done"


def proc(name, how):
    def do(a, pid):
        how(f"/proc/{pid}/{name}")
        return "done"
    return do


def open_path(path):
    os.close(os.open(path, os.O_RDONLY))


LINK = {"errnos": (errno.EACCES,), "event_errno": errno.EPERM}
for name, use, kw in (
        ("process_vm_writev", vm_writev, {}), ("kcmp", kcmp, {}), ("get_robust_list", robust_list, {}),
        ("/proc/PID/ns/uts, to enter it", proc("ns/uts", open_path), LINK),
        ("/proc/PID/root", proc("root/etc/passwd", open_path), LINK),
        ("/proc/PID/cwd", proc("cwd", os.readlink), LINK),
        ("/proc/PID/fd/1, opened anew", proc("fd/1", open_path), LINK)):
    attack("P-04", f"{name} of a process outside", on_victim(use), effect=done, twin=on_child(use), events=[PTRACED], **kw)
# Newer kernels ask for CAP_PERFMON first, and go by ptrace when that is refused.
attack("P-04", "process_madvise of a process outside", on_victim(madvise), effect=done, twin=lambda a: None,
       errnos=(errno.EACCES, errno.EPERM), event_errno=errno.EPERM, events=[PTRACED, capable("CAP_PERFMON", count=range(0, 2))], hooks=["guard_ptrace"])
attack("P-04", "setns by the pidfd of a process outside", on_victim(setns_pidfd), effect=done, twin=lambda a: None, events=[PTRACED],
       errnos=(errno.EPERM,))
for name in ("maps", "pagemap", "auxv"):
    attack("P-04", f"/proc/PID/{name} of a process outside", on_victim(proc(name, open_path)), effect=done,
           twin=on_child(proc(name, open_path)), errnos=(errno.EACCES,),
           events=[ev("open_read", "guard.ptrace", path=f"/proc/{{VICTIM}}/{name}")])

# --- processes outside: signals ---------------------------------------------------------------------------------


def group(a, pid):
    os.kill(-pid if os.getpgid(pid) == pid else pid, signal.SIGTERM)


def tgkill(a, pid):
    syscall(234, pid, pid, int(signal.SIGTERM))


def tkill(a, pid):
    syscall(200, pid, int(signal.SIGTERM))


def tgqueue(a, pid):
    syscall(297, pid, pid, int(signal.SIGTERM), struct.pack("=iii", int(signal.SIGTERM), 0, -1) + bytes(116))


for name, use in (("kill of a process group", group), ("tgkill", tgkill), ("tkill", tkill), ("rt_tgsigqueueinfo", tgqueue)):
    attack("P-05", f"{name} outside", on_victim(use), effect=victim_dead, twin=on_child(use), hooks=["guard_task_kill"],
           events=[ev("signal", "guard.signal", guard__target_pid="{VICTIM}")])
attack("P-05", "asking by signal 0 whether the enforcer lives", on_enforcer(lambda a, pid: said(lambda a: os.kill(pid, 0))(a)), effect=done,
       twin=on_child(lambda a, pid: os.kill(pid, 0)), events=[ev("signal", "guard.signal", guard__target_pid="{ENFORCER}")])

# --- processes outside: what the same user may change ------------------------------------------------------------


def setpriority(a, pid):
    os.setpriority(os.PRIO_PROCESS, pid, 7)


def ioprio(a, pid):
    syscall(251, 1, pid, 3 << 13)  # IOPRIO_CLASS_IDLE


def affinity(a, pid):
    os.sched_setaffinity(pid, os.sched_getaffinity(pid))


def scheduler(a, pid):
    os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))


def prlimit(a, pid):
    syscall(302, pid, 4, struct.pack("=QQ", 1 << 20, 1 << 30), None)  # RLIMIT_CORE


def autogroup(pid):
    return os.getpriority(os.PRIO_PROCESS, pid), libc.syscall(252, 1, pid), os.sched_getscheduler(pid)


def changed(arena, a, result):
    with open(f"/proc/{a.VICTIM}/limits") as f:
        core = [line for line in f if "core file" in line]
    return autogroup(int(a.VICTIM)) != autogroup(os.getpid()) or "1048576" in core[0]


for name, use, hook, effect in (("setpriority", setpriority, "guard_setnice", changed), ("ioprio_set", ioprio, "guard_setioprio", changed),
                                ("sched_setscheduler", scheduler, "guard_setscheduler", changed),
                                ("prlimit", prlimit, "guard_setrlimit", changed)):
    attack("P-04", f"{name} of a process outside", on_victim(use), effect=effect, twin=on_child(use), hooks=[hook],
           events=[ev("control", "guard.process", guard__target_pid="{VICTIM}")])
attack("P-04", "sched_setaffinity of a process outside", on_victim(lambda a, pid: said(lambda a: affinity(a, pid))(a)), effect=done,
       twin=on_child(affinity), hooks=["guard_setscheduler"], events=[ev("control", "guard.process", guard__target_pid="{VICTIM}")])

# --- capabilities over the host ---------------------------------------------------------------------------------

ADMIN = [capable("CAP_SYS_ADMIN")]


def host_cap(name, do, cap, **kw):
    kw.setdefault("effect", done)
    kw.setdefault("twin", write("{wd}/f"))
    kw.setdefault("events", [capable(cap)])
    attack("P-07", name, do, hooks=["guard_capable"], **kw)


def hostname(a):
    syscall(170, a.slug.encode(), len(a.slug))


def hostname_set(arena, a, result):
    hit = os.uname().nodename == a.slug
    if hit:
        inside.check(libc.sethostname(b"cordon-vm", 9))
    return hit


def settime(a):
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))


def adjtimex(a):
    buffer = ctypes.create_string_buffer(256)
    syscall(159, buffer)  # reads
    struct.pack_into("=i", buffer, 0, 0x0010)  # ADJ_STATUS, as it is
    syscall(159, buffer)


def swap_prep(arena, a):
    page = bytearray(65536)
    struct.pack_into("=III", page, 1024, 1, 15, 0)
    page[4086:4096] = b"SWAPSPACE2"
    with open(a.wd + "/swap", "wb") as f:
        f.write(page)
    os.chmod(a.wd + "/swap", 0o600)


def swapon(a):
    syscall(167, f"{a.wd}/swap".encode(), 0)


def swapped(arena, a, result):
    with open("/proc/swaps") as f:
        hit = a.slug in f.read()
    if hit:
        inside.check(libc.syscall(168, f"{a.wd}/swap".encode()))
    return hit


def acct(a):
    open(f"{a.wd}/acct", "w").close()
    syscall(163, f"{a.wd}/acct".encode())
    return "done"


def acct_off(arena, a, result):
    if result["data"] == "done" and arena.phase != "enforce":
        inside.check(libc.syscall(163, None))
    return result["data"] == "done"


def noatime(a):
    for flag in (0, 0x10):  # MOUNT_ATTR_RELATIME, MOUNT_ATTR_NOATIME, in place of MOUNT_ATTR__ATIME
        syscall(442, -100, a.OLD.encode(), 0, struct.pack("=QQQQ", flag, 0x70, 0, 0), 32)
    return bool(os.statvfs(a.OLD).f_flag & os.ST_NOATIME)


def noatime_set(arena, a, result):
    return result["data"] is True  # seen inside: a fence that `cordon run` made has mounts of its own


def link_add(a):
    p = inside.run_child(["ip", "link", "add", "cordon-dum0", "type", "veth", "peer", "name", "cordon-dum1"])
    if p.returncode:
        raise OSError(errno.EPERM if "not permitted" in p.stderr else errno.EIO, p.stderr)


def link_there(arena, a, result):
    hit = os.path.exists("/sys/class/net/cordon-dum0")
    if hit:
        subprocess.run(["ip", "link", "del", "cordon-dum0"], check=True)
    return hit


def set_mtu(a):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = fcntl.ioctl(s, 0x8921, struct.pack("=16s16x", b"lo"))  # SIOCGIFMTU
        fcntl.ioctl(s, 0x8922, request)


def freeze(a):
    fd = os.open(a.wd, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, 0xc0045878, 0)  # FITHAW: of what is not frozen EINVAL, after the capability
    except OSError as e:
        if e.errno != errno.EINVAL:
            raise


def realtime(a):
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def perf(pid, cpu, flags):
    def do(a):
        attr = bytearray(128)
        struct.pack_into("=IIQ", attr, 0, 1, 128, 0)  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK
        struct.pack_into("=Q", attr, 40, flags)
        os.close(syscall(298, bytes(attr), pid, cpu, -1, 0))
    return do


def perf_prep(arena, a):
    """Counting oneself needs no capability. Debian starts with 3, where all of it does."""
    arena.write("/proc/sys/kernel/perf_event_paranoid", "1")


NETWORK = [ev(("capable", "configure"), ("guard.capability", "network.config"), count=range(1, 4))]
host_cap("sethostname", hostname, None, effect=hostname_set, events=ADMIN)
host_cap("setdomainname", said(lambda a: syscall(171, b"(none)", 6)), "CAP_SYS_ADMIN")
host_cap("clock_settime", said(settime), "CAP_SYS_TIME")
host_cap("adjtimex", said(adjtimex), "CAP_SYS_TIME")
host_cap("swapping to a file in the workdir", swapon, "CAP_SYS_ADMIN", prep=swap_prep, effect=swapped)
host_cap("accounting of all processes to a file in the workdir", acct, "CAP_SYS_PACCT", effect=acct_off)
host_cap("mount_setattr of a mount that the host made", noatime, "CAP_SYS_ADMIN", effect=noatime_set)
host_cap("a network interface by netlink", link_add, "CAP_NET_ADMIN", effect=link_there, events=NETWORK)
host_cap("the MTU of loopback by ioctl", said(set_mtu), "CAP_NET_ADMIN", events=NETWORK)
host_cap("thawing the workdir's file system", said(freeze), "CAP_SYS_ADMIN")
host_cap("an attribute for the trusted", said(lambda a: os.setxattr(a.wd + "/f", "trusted.a", b"1")), "CAP_SYS_ADMIN")
host_cap("iopl", said(lambda a: syscall(172, 3)), "CAP_SYS_RAWIO")
host_cap("ioperm", said(lambda a: syscall(173, 0x80, 1, 1)), "CAP_SYS_RAWIO")
host_cap("reboot, of the keys for it", said(lambda a: syscall(169, 0xfee1dead - (1 << 32), 672274793, 0, None)), "CAP_SYS_BOOT")
host_cap("kexec_load", said(lambda a: syscall(246, 0, 0, None, 0)), "CAP_SYS_BOOT")
host_cap("scheduling ahead of everybody", said(realtime), "CAP_SYS_NICE")
host_cap("a mount namespace without a user namespace", said(lambda a: inside.check(libc.unshare(0x20000))), "CAP_SYS_ADMIN")
host_cap("fanotify, to hold others up", said(lambda a: os.close(syscall(300, 4, 0))), "CAP_SYS_ADMIN")
host_cap("the kernel's log", said(lambda a: syscall(103, 3, ctypes.create_string_buffer(4096), 4096)), "CAP_SYSLOG")
host_cap("the kernel's memory", said(lambda a: open_path("/proc/kcore")), "CAP_SYS_RAWIO")
host_cap("perf_event_open of all processes", said(perf(-1, 0, 0)), None, errnos=(errno.EPERM, errno.EACCES), event_errno=errno.EPERM,
         events=[ev(("capable", "perf"), ("guard.capability", "guard.kernel"))])
attack("P-07", "perf_event_open of oneself", said(perf(0, -1, 0x60)), prep=perf_prep, effect=done, twin=write("{wd}/f"),
       hooks=["guard_perf"], errnos=(errno.EPERM, errno.EACCES), event_errno=errno.EPERM, events=[ev("perf", "guard.kernel")])


# --- modules ----------------------------------------------------------------------------------------------------


def module_path(name):
    base = f"/lib/modules/{os.uname().release}/kernel"
    for directory, _, files in os.walk(base):
        if f"{name}.ko" in files:
            return f"{directory}/{name}.ko"
    raise RuntimeError(f"no module {name}")


def unload(*names):
    def do(arena, a):
        for name in names:
            subprocess.run(["rmmod", name], capture_output=True)
    return do


def loaded(name):
    return lambda arena, a, result: name in arena.loaded()


def finit_module(a):
    with open(module_path("dummy"), "rb") as f:
        syscall(313, f.fileno(), b"", 0)


def init_module(a):
    with open(module_path("dummy"), "rb") as f:
        image = f.read()
    syscall(175, image, len(image), b"")


def delete_module(a):
    syscall(176, b"dummy", 0)


def load_dummy(arena, a):
    subprocess.run(["modprobe", "dummy", "numdummies=0"], check=True)


def discipline_prep(arena, a):
    """The module of a line discipline, for which any will do."""
    unload("dummy")(arena, a)
    with open("/etc/modprobe.d/cordon-attack.conf", "w") as f:
        f.write("alias tty-ldisc-14 dummy\noptions dummy numdummies=0\n")


def discipline(a):
    master, slave = os.openpty()
    try:
        fcntl.ioctl(slave, 0x5423, struct.pack("=i", 14))  # TIOCSETD; what comes by the alias is none, so it fails anyhow
    except OSError:
        pass
    finally:
        os.close(slave)
        os.close(master)


def by_need(a):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            fcntl.ioctl(s, 0x8982, 0)  # SIOCGIFVLAN: only the module knows
        except OSError as e:
            if e.errno != errno.EFAULT:
                raise


host_cap("finit_module", finit_module, "CAP_SYS_MODULE", prep=unload("dummy"), effect=loaded("dummy"))
host_cap("init_module", init_module, "CAP_SYS_MODULE", prep=unload("dummy"), effect=loaded("dummy"))
host_cap("delete_module", delete_module, "CAP_SYS_MODULE", prep=load_dummy, effect=lambda arena, a, r: "dummy" not in arena.loaded())
attack("P-07", "a module that is loaded by need", by_need, prep=unload("8021q"), effect=loaded("8021q"), twin=GATEWAY,
       errnos=(errno.ENOPKG, errno.EPERM), event_errno=errno.EPERM, events=[ev(("module", "configure"), ("guard.kernel", "network.config"))])
attack("P-07", "a module that is loaded for a terminal", discipline, prep=discipline_prep, effect=loaded("dummy"), twin=GATEWAY,
       hooks=["guard_module"], errnos=(None,), event_errno=errno.EPERM,
       events=[ev("module", "guard.kernel"), capable("CAP_SYS_MODULE", count=range(0, 2))])

# --- keys, faults, namespaces -----------------------------------------------------------------------------------


def add_key(ring):
    def do(a):
        syscall(248, b"user", a.slug.encode(), b"secret", 6, ring)
        return "done"
    return do


def key_outside(arena, a):
    inside.check(libc.syscall(248, b"user", b"cordon-outside", b"secret", 6, -4))  # in the user's keyring


def read_key(a):
    key = syscall(250, 10, -4, b"user", b"cordon-outside", 0)  # KEYCTL_SEARCH
    syscall(250, 11, key, ctypes.create_string_buffer(16), 16)  # KEYCTL_READ
    return "done"


KEY = {"errnos": (errno.EPERM, errno.ENOKEY), "event_errno": errno.EPERM, "hooks": ["guard_key"], "twin": write("{wd}/f"), "effect": done,
       "events": [ev("key", "guard.key", count=range(1, 4))]}
attack("P-07", "a key in the user's keyring", add_key(-4), **KEY)
attack("P-07", "a key of the user's, from outside", read_key, prep=key_outside, **KEY)
attack("P-07", "userfaultfd", said(lambda a: os.close(syscall(323, 1))), effect=done, twin=write("{wd}/f"), hooks=["guard_anon"],
       events=[ev("userfaultfd", "guard.kernel")])


def user_namespace(a):
    inside.check(libc.unshare(0x10000000))


allowed("P-07", "a user namespace", user_namespace)


def admin_there(a):
    """All capabilities in a namespace of one's own do not reach what is outside it."""
    inside.check(libc.unshare(0x10000000 | 0x20000 | 0x40000000))
    write("{out}/f")(a)


attack("P-07", "writing out of a user namespace of one's own", admin_there, twin=write("{wd}/f"), errnos=(errno.EROFS,),
       events=[ev("open_write", W, path="{out}/f")])

# --- System V IPC: the fence has a namespace of its own ---------------------------------------------------------


def shared_memory(a):
    shm = syscall(29, 0x434f5244, 4096, 0o1600)  # shmget(IPC_CREAT)
    semaphores = syscall(64, 0x434f5244, 1, 0o1600)
    queue = syscall(68, 0x434f5244, 0o1600)
    for number, key in ((31, shm), (71, queue)):
        syscall(number, key, 0, None)  # IPC_RMID
    syscall(66, semaphores, 0, 0, 0)


allowed("P-07", "System V IPC of one's own", shared_memory)

# --- 32-bit system calls ----------------------------------------------------------------------------------------


def by_32(bits, *args):
    def do(a):
        p = inside.run_child([f"{COMPAT}{bits}"] + [a.fill(x) for x in args])
        if p.returncode < 0 or p.returncode >= 200:
            raise RuntimeError(f"compat{bits}: ended with {p.returncode}")
        if p.returncode:
            raise OSError(p.returncode, os.strerror(p.returncode))
        return "done"
    return do


for bits in (32, 64):
    what = f"from a {bits}-bit program by a 32-bit call"
    for call, args, kw in (
            ("open", ("{out}/f",), {"errnos": (errno.EROFS,), "events": [ev("open_write", W, path="{out}/f")], "effect": done}),
            ("creat", ("{out}/new",), {"errnos": (errno.EROFS,), "events": [ev("mknod", W, path="{out}/new")]}),
            ("unlink", ("{out}/f",), {"errnos": (errno.EROFS,), "events": [ev("unlink", W, path="{out}/f")]}),
            ("mkdir", ("{out}/new",), {"errnos": (errno.EROFS,), "events": [ev("mkdir", W, path="{out}/new")]}),
            ("rename", ("{out}/f", "{out}/h"), {"errnos": (errno.EROFS,), "events": [ev("rename", W, path="{out}/f")]}),
            ("chmod", ("{out}/f",), {"errnos": (errno.EROFS,), "events": [ev("chmod", W, path="{out}/f")]}),
            ("truncate", ("{out}/f",), {"errnos": (errno.EROFS,), "events": [ev("truncate", W, path="{out}/f")]}),
            ("kill", ("{VICTIM}",), {"events": [ev("signal", "guard.signal", guard__target_pid="{VICTIM}")], "effect": victim_dead}),
            ("ptrace", ("{VICTIM}",), {"events": [PTRACED], "effect": done}),
            ("socket", ("17", "2"), {"events": [ev("socket", "network.family")], "effect": done}),
            ("connect", ("{X}", "80"), {"events": [ev("connect", "network.default", dst="{X}", dport=80)], "effect": wire(6, "{X}", 80, token=False)}),
            ("sendto", ("{X}", "5300"), {"events": [ev("sendmsg", "network.default", dst="{X}", dport=5300)], "effect": wire(17, "{X}", 5300, token=False)})):
        case = "P-05" if "{VICTIM}" in args else "P-01"
        attack(case, f"{call} {what}", by_32(bits, call, *args), twin=by_32(bits, "open", "{wd}/f"), **kw)
