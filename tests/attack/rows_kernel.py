# SPDX-License-Identifier: Apache-2.0
"""
Files that are not files: those by which the kernel is told what to do, the memory of processes, terminals, and the
names of what is open already.
"""

import ctypes
import errno
import fcntl
import os
import pty
import signal
import struct
import termios
import time

import inside
from inside import libc, syscall
from rows_file import ROFS, W, expect, write
from table import allowed, attack, ev

# --- what tells the kernel what to do -----------------------------------------------------------------------------------

BEFORE = {}


def knob_prep(path):
    """Notes what it is."""
    def prep(arena, a):
        where = a.fill(path)
        if os.path.exists(where):
            with open(where) as f:
                BEFORE[where] = f.read()
    return prep


def turn(path, value):
    def do(a):
        fd = os.open(a.fill(path), os.O_WRONLY)
        os.write(fd, value)
        os.close(fd)
    return do


def turned(path):
    """Was it turned? Turns it back at once: a frozen cgroup would keep whom later rows put there."""
    def effect(arena, a, r):
        where = a.fill(path)
        if where not in BEFORE:
            return False
        with open(where) as f:
            changed = f.read() != BEFORE[where]
        if changed:
            arena.write(where, BEFORE[where].partition("[")[2].partition("]")[0] or BEFORE[where])  # a choice of words
        return changed
    return effect


for path, value in (("/proc/sys/kernel/core_pattern", b"|/bin/false %p"), ("/proc/sys/kernel/modprobe", b"/bin/false"),
                    ("/proc/sys/kernel/hotplug", b"/bin/false"), ("/proc/sys/kernel/printk", b"1 1 1 1"),
                    ("/proc/sys/net/ipv4/ip_default_ttl", b"65"), ("/sys/kernel/uevent_helper", b"/bin/false"),
                    ("/sys/module/printk/parameters/time", b"N"), ("/sys/kernel/mm/transparent_hugepage/enabled", b"never"),
                    ("{HOST_CGROUP}/cgroup.max.depth", b"7"), ("{HOST_CGROUP}/cgroup.freeze", b"1"), ("/sys/kernel/tracing/tracing_on", b"0")):
    attack("F-40", f"write to {path}", turn(path, value), prep=knob_prep(path), effect=turned(path), twin=write("{wd}/f"), errnos=ROFS,
           events=[ev("open_write", W, path=path)], lacking=(errno.ENOENT,))


def entering(path):
    """A process of the host enters the fence, and writes this before it executes anything, as a runtime does."""
    def do(a):
        got = inside.ask("write-entering", path=a.CGROUP, target=a.fill(path))[0]
        inside.child_of_mine(got["got"])
        if got["errno"]:
            raise OSError(got["errno"], os.strerror(got["errno"]))
        return "done"
    return do


def opened(path):
    def do(a):
        os.close(os.open(a.fill(path), os.O_WRONLY))
        return "done"
    return do


def done(arena, a, result):
    return result["data"] == "done"


# The label that the next exec gets is the runtime's to say (docker exec), and nobody else's.
for label in ("/proc/thread-self/attr/exec", "/proc/self/attr/apparmor/exec"):
    attack("F-40", f"{label}, by one of the fence", opened(label), effect=done, twin=entering(label), errnos=ROFS, lacking=(errno.ENOENT,), fence="attached",
           events=[ev("open_write", W)])
for name, target in (("core_pattern", "/proc/sys/kernel/core_pattern"), ("its own name", "/proc/self/comm"), ("a file outside", "{out}/f")):
    attack("F-40", f"{name}, by a process that enters the fence", entering(target), effect=done, twin=entering("{wd}/f"), errnos=ROFS,
           fence="attached", events=[ev("open_write", W)])
attack("F-40", "write to /proc/sysrq-trigger", turn("/proc/sysrq-trigger", b"h"), effect=lambda arena, a, r: r["errno"] is None, twin=write("{wd}/f"), errnos=ROFS,
       events=[ev("open_write", W, path="/proc/sysrq-trigger")], lacking=(errno.ENOENT,))
attack("F-40", "a directory in bpffs", lambda a: os.mkdir("/sys/fs/bpf/" + a.slug), effect=lambda arena, a, r: os.path.exists("/sys/fs/bpf/" + a.slug),
       twin=lambda a: os.mkdir(a.wd + "/n"), errnos=ROFS + (errno.EPERM,), events=[ev("mkdir", W, path="/sys/fs/bpf/{slug}")])
attack("F-40", "a cgroup", lambda a: os.mkdir(f"{a.HOST_CGROUP}/{a.slug}"), effect=lambda arena, a, r: os.path.exists(f"{a.HOST_CGROUP}/{a.slug}"),
       twin=lambda a: os.mkdir(a.wd + "/n"), errnos=ROFS, events=[ev("mkdir", W, path="{HOST_CGROUP}/{slug}")])
attack("F-40", "a write to securityfs", turn("/sys/kernel/security/apparmor/.null", b"x"), effect=lambda arena, a, r: r["errno"] is None,
       twin=write("{wd}/f"), errnos=ROFS, events=[ev("open_write", W)], lacking=(errno.ENOENT, errno.EACCES, errno.EINVAL))


def reading(a):
    for path in ("/proc/self/maps", "/proc/sys/kernel/core_pattern", "/proc/cpuinfo", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/self/status"):
        open(path).read()
    open("/proc/self/comm", "r").read()


allowed("F-40", "what the kernel tells may be read", reading)

# --- the memory of processes --------------------------------------------------------------------------------------------


def write_mem(pid, address, data):
    fd = os.open(f"/proc/{pid}/mem", os.O_RDWR)
    os.pwrite(fd, data, address)
    os.close(fd)


def stack_of(pid):
    """An address that is mapped and writable in it, by what /proc says to everybody."""
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[25])  # start of its stack


def vm_writev(a, pid):
    block = ctypes.create_string_buffer(b"x")
    address = stack_of(pid) if pid != os.getpid() else ctypes.addressof(block)
    syscall(311, pid, struct.pack("=QQ", ctypes.addressof(block), 1), 1, struct.pack("=QQ", address, 1), 1, 0)


attack("F-41", "/proc/PID/mem of a process outside, for writing", lambda a: write_mem(a.VICTIM, stack_of(a.VICTIM), b"x") or "done", twin=lambda a: vm_writev(a, os.getpid()),
       effect=lambda arena, a, r: r["data"] == "done", errnos=(errno.EACCES,), events=[ev("open_write", "guard.ptrace", path="/proc/{VICTIM}/mem")])
attack("F-41", "process_vm_writev to a process outside", lambda a: vm_writev(a, int(a.VICTIM)) or "done", twin=lambda a: vm_writev(a, os.getpid()),
       effect=lambda arena, a, r: r["data"] == "done", events=[ev("ptrace", "guard.ptrace", guard__target_pid="{VICTIM}")])

# --- terminals ----------------------------------------------------------------------------------------------------------

TTY = []


def tty_prep(arena, a):
    """The operator's terminal: what is typed into it can be read here."""
    while TTY:
        os.close(TTY.pop())
    TTY.extend(pty.openpty())
    mode = termios.tcgetattr(TTY[1])
    mode[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(TTY[1], termios.TCSANOW, mode)
    a.values["TTY"] = os.ttyname(TTY[1])


def typed(arena, a, r):
    return struct.unpack("=i", fcntl.ioctl(TTY[1], termios.FIONREAD, bytes(4)))[0] > 0


def type_into(request):
    def do(a):
        fd = os.open(a.TTY, os.O_RDWR | os.O_NOCTTY)
        inside.check(libc.ioctl(fd, ctypes.c_ulong(request), b"i"))
    return do


def ask_terminal(a):
    fd = os.open(a.TTY, os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8))
    termios.tcgetattr(fd)
    os.write(fd, b"output\n")


for name, request in (("TIOCSTI", 0x5412), ("TIOCSTI with high bits", 0x100005412)):
    attack("F-45", name, type_into(request), prep=tty_prep, effect=typed, twin=ask_terminal, errnos=(errno.EPERM,), lacking=(errno.EIO,),
           events=[ev("ioctl", "files.terminal", path="{TTY}")], hooks=["file_ioctl"])

SHELLS = []


def shell_prep(arena, a):
    """The operator's terminal, with a shell in its foreground."""
    while SHELLS:
        pid, master = SHELLS.pop()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)
    pid, master = pty.fork()
    if pid == 0:
        os.execv("/bin/sleep", ["sleep", "600"])
    SHELLS.append((pid, master))
    while open(f"/proc/{pid}/comm").read() != "sleep\n":  # in the foreground since before
        time.sleep(0.005)
    a.values["TTY"] = os.ptsname(master) if hasattr(os, "ptsname") else f"/dev/pts/{struct.unpack('=i', fcntl.ioctl(master, 0x80045430, bytes(4)))[0]}"


def shell_dead(arena, a, r):
    pid, master = SHELLS[0]
    os.write(master, b"x\n")
    for _ in range(20):
        with open(f"/proc/{pid}/stat") as f:
            if f.read().rpartition(")")[2].split()[0] == "Z":
                return True
        time.sleep(0.01)
    return False


def handed(a):
    """The terminal of others as a descriptor: by its name it is not opened (A-18)."""
    _, (fd,) = inside.ask("open", path=a.TTY, flags=os.O_RDWR | os.O_NOCTTY)
    return fd


def wait_for_terminal(by_ioctl):
    def do(a):
        fd = handed(a)
        fcntl.ioctl(fd, 0x5452, struct.pack("=i", 1)) if by_ioctl else fcntl.fcntl(fd, fcntl.F_SETFL, os.O_ASYNC)
        keeper = inside.child_of_mine(os.fork())
        if keeper == 0:
            time.sleep(2)
            os._exit(0)
    return do


def plain_terminal(a):
    fd = handed(a)
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)


for name, by_ioctl in (("O_ASYNC", False), ("FIOASYNC", True)):
    attack("F-45", f"{name} on a terminal whose foreground is outside", wait_for_terminal(by_ioctl), prep=shell_prep, effect=shell_dead, twin=plain_terminal,
           errnos=(errno.EPERM,), events=[ev("signal", "guard.signal")], hooks=["file_ioctl" if by_ioctl else "guard_fcntl"])

# --- names of what is open ------------------------------------------------------------------------------------------------


def shell(command, **kw):
    p = inside.run_child(["sh", "-c", command], **kw)
    expect(p.returncode == 0, p.stderr)
    return p.stdout


def own_output(a):
    expect(shell("echo x > /dev/stdout; echo y > /proc/self/fd/1") == "x\ny\n", "a pipe")
    expect(shell(f"exec > {a.wd}/log; echo x > /dev/stdout; echo y >> /dev/stdout; cat {a.wd}/log >&2") == "", "a file of the workdir")
    pid, fd = pty.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", "echo x > /dev/stdout"])
    inside.child_of_mine(pid)
    expect(os.read(fd, 100).startswith(b"x"), "a terminal")
    os.waitpid(pid, 0)


allowed("F-35", "/dev/stdout: a pipe, a file of the workdir, a terminal", own_output)
attack("F-35", "/dev/stdout: a file outside", lambda a: os.dup2(inside.held["7-out"], 1) and os.write(os.open("/dev/stdout", os.O_WRONLY), b"token") and None,
       twin=lambda a: os.dup2(os.open(a.wd + "/g", os.O_RDWR), 1) and os.write(os.open("/dev/stdout", os.O_WRONLY), b"x") and None, errnos=ROFS, fence="attached",
       held=("7-out",), effect=lambda arena, a, r: "token" in open(a.HELD + "/7-out").read(), events=[ev("open_write", W, path="{HELD}/7-out")])


def later_directories(a):
    os.chdir(a.wd)
    shell("mkdir new && mv f new/ && ln new/f b && mv new newer && cp -a newer newest && mv newest/f newer/g && rm -r newest")
    expect(os.stat("b").st_nlink == 3 or os.stat("b").st_nlink == 2, "no second name")


allowed("F-37", "moves and links between directories that were made later", later_directories)
