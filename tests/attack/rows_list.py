# SPDX-License-Identifier: Apache-2.0
"""
Reading and executing by lists. In the fence that most rows share {SECRET}/tool and {W}/app/tools may not be executed;
in the fence "lists" only {LISTS}/read and what programs need may be read, only {LISTS}/bin and the system's programs executed.
The tool is a copy of echo, and says "secret".
"""

import errno
import os

import inside
from inside import execute, libc
from rows_file import ROFS, expect, passed, read, read_by_fd, rename, secret, write
from table import allowed, attack, ev

ACCES = (errno.EACCES,)
PROT_READ, PROT_EXEC, MAP_PRIVATE = 1, 4, 2
LOADER = "/lib64/ld-linux-x86-64.so.2"


def start(path):
    return lambda a: execute(a.fill(path), "secret")


def by_loader(path):
    """ld.so FILE: no exec of the file, only mappings."""
    def do(a):
        text = execute(LOADER, a.fill(path), "secret")
        if not text:
            raise OSError(errno.EACCES, "the loader could not map it")
        return text
    return do


def by_map(path):
    def do(a):
        fd = os.open(a.fill(path), os.O_RDONLY)
        if libc.mmap(None, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == 2 ** 64 - 1:
            inside.check(-1)
        return "secret"
    return do


def by_mprotect(path):
    def do(a):
        import ctypes
        fd = os.open(a.fill(path), os.O_RDONLY)
        address = libc.mmap(None, 4096, PROT_READ, MAP_PRIVATE, fd, 0)
        inside.check(libc.mprotect(ctypes.c_void_p(address), 4096, PROT_READ | PROT_EXEC))
        return "secret"
    return do


def by_execveat(path, flags=os.O_PATH):
    return lambda a: execute("tool", "secret", fd=os.open(a.fill(path), flags))


def by_link(path):
    def do(a):
        os.symlink(a.fill(path), a.wd + "/l")
        return execute(a.wd + "/l", "secret")
    return do


def from_memory(a):
    fd = os.memfd_create("tool")
    os.write(fd, open("/usr/bin/echo", "rb").read())
    return execute("tool", "secret", fd=fd)


def copied(a):
    with open(a.wd + "/copy", "wb") as f:
        f.write(open("/usr/bin/echo", "rb").read())
    os.chmod(a.wd + "/copy", 0o755)
    return execute(a.wd + "/copy", "secret")


def denied(name, do, path, op="exec", rule="files.exec.deny", twin=start("/usr/bin/echo"), **kw):
    attack("F-exec", name, do, twin=twin, effect=secret, errnos=ACCES, events=[ev(op, rule, **({"path": path} if path else {}))], **kw)


TOOL = "{SECRET}/tool"
denied("a program that may not be executed", start(TOOL), TOOL, hooks=["file_open"])
denied("the same by a symbolic link", by_link(TOOL), TOOL)
denied("the same by another name of the host", start("/scratch/hardtool"), "/scratch/hardtool")
denied("the same by execveat of an O_PATH descriptor", by_execveat(TOOL), TOOL)
denied("the same through /proc/self/root", start("/proc/self/root{SECRET}/tool"), TOOL)
denied("the same as interpreter of a script", start("{W}/app/script-of-tool"), TOOL)
denied("the same by ld.so", by_loader(TOOL), TOOL, op="mmap", twin=by_loader("/usr/bin/echo"), hooks=["file_mmap+file_mmap3"])
denied("the same by mmap", by_map(TOOL), TOOL, op="mmap", twin=by_map("/usr/bin/echo"))
denied("the same by mprotect", by_mprotect(TOOL), TOOL, op="mprotect", twin=by_mprotect("/usr/bin/echo"), hooks=["file_mprotect"])
denied("a program in a denied directory of the workdir", start("{W}/app/tools/tool"), "{W}/app/tools/tool")
attack("F-exec", "moving a program out of a denied directory", lambda a: os.rename(a.fill("{W}/app/tools/tool"), a.wd + "/t") or os.rename(a.wd + "/t", a.fill("{W}/app/tools/tool")),
       twin=lambda a: os.rename(a.wd + "/f", a.wd + "/t"), effect=lambda arena, a, r: r["errno"] is None, errnos=ACCES,
       events=[ev("rename", "files.exec.deny", path="{W}/app/tools/tool")], audit="would_deny")


def exchanged(a):
    """RENAME_EXCHANGE, and back: the program is the second name."""
    for _ in range(2):
        rename("{wd}/f", "{W}/app/tools/tool", 2)(a)


attack("F-exec", "exchanging a program out of a denied directory", exchanged, twin=rename("{wd}/f", "{wd}/g", 2), effect=lambda arena, a, r: r["errno"] is None,
       errnos=ACCES, events=[ev("rename", "files.exec.deny", path="{wd}/f", path2="{W}/app/tools/tool", count=range(1, 3))])
attack("F-exec", "linking a program out of a denied directory", lambda a: os.link(a.fill("{W}/app/tools/tool"), a.wd + "/t") or execute(a.wd + "/t", "secret"),
       twin=lambda a: os.link(a.wd + "/f", a.wd + "/t"), effect=secret, errnos=ACCES, events=[ev("link", "files.exec.deny", path="{W}/app/tools/tool", path2="{wd}/t")])
allowed("F-exec", "a copy is another object", copied)
allowed("F-exec", "programs from memory", lambda a: expect(from_memory(a) == "secret\n", "no output"))

L = {"fence": "lists"}
for name, do, path, op in (
        ("a copy in the workdir", copied, "{wd}/copy", "exec"),
        ("a program of the workdir", start("{W}/app/plain"), "{W}/app/plain", "exec"),
        ("a script of the workdir", start("{W}/app/script"), "{W}/app/script", "exec"),
        ("a script whose interpreter is on no list", start("{LISTS}/bin/script-of-plain"), "{W}/app/plain", "exec"),
        ("a program from memory", from_memory, None, "exec"),
        ("a program of the workdir by ld.so", by_loader("{W}/app/plain"), "{W}/app/plain", "mmap"),
        ("a program of the workdir by mmap", by_map("{W}/app/plain"), "{W}/app/plain", "mmap"),
        ("a program of the workdir by mprotect", by_mprotect("{W}/app/plain"), "{W}/app/plain", "mprotect"),
        ("a program of the workdir by execveat", by_execveat("{W}/app/plain"), "{W}/app/plain", "exec")):
    denied(f"by list: {name}", do, path, op, "files.exec.allow", twin=start("{LISTS}/bin/tool"), **L)
denied("by list: what a denial takes in", start("{LISTS}/bin/denied/tool"), "{LISTS}/bin/denied/tool", **L)
allowed("F-exec", "by list: programs and scripts on it", lambda a: expect(start("{LISTS}/bin/tool")(a) == "secret\n" == start("{LISTS}/bin/script")(a), "no output"), **L)
allowed("F-exec", "by list: a shell reads a script of the workdir", lambda a: expect(execute("/bin/sh", a.fill("{W}/app/script")) == "secret\n", "no output"), **L)
allowed("F-exec", "by list: anonymous memory", lambda a: libc.mmap(None, 4096, 7, 0x22, -1, 0) == 2 ** 64 - 1 and inside.check(-1) and None, **L)


def list_directory(a):
    os.listdir(a.LISTS)
    return "secret"


for name, do, path in (("a file", read("{LISTS}/f"), "{LISTS}/f"), ("a file through O_PATH", read_by_fd("{LISTS}/f"), "{LISTS}/f"),
                       ("a file through /proc/self/root", read("/proc/self/root{LISTS}/f"), "{LISTS}/f"),
                       ("a directory", list_directory, "{LISTS}"),
                       ("the host's users", lambda a: open("/etc/passwd").read() and "secret", "/etc/passwd"),
                       ("what the host mounted below the list", lambda a: os.listdir(a.LISTS + "/read/bound") and "secret", "{LISTS}/read/bound")):
    attack("F-read", f"by list: {name}", do, effect=secret, errnos=ACCES, twin=read("{LISTS}/read/f"), events=[ev("open_read", "files.read.allow", path=path)], **L)
attack("F-read", "by list: what a denial takes in", read("{LISTS}/read/denied/f"), effect=secret, errnos=ACCES, twin=read("{LISTS}/read/f"),
       events=[ev("open_read", "files.read.deny", path="{LISTS}/read/denied/f")], **L)
attack("F-read", "by list: a descriptor passed in", lambda a: os.read(passed("{LISTS}/f", os.O_RDONLY, errno.EACCES)(a), 99).decode(), effect=secret, errnos=ACCES,
       twin=lambda a: os.read(passed("{LISTS}/read/f", os.O_RDONLY)(a), 99).decode(), events=[ev("receive", "files.read.allow", path="{LISTS}/f")], **L)
attack("F-read", "by list: writing what may be read", write("{LISTS}/read/w"), effect=lambda arena, a, r: "token" in open(a.LISTS + "/read/w").read(),
       errnos=ROFS, twin=write("{wd}/f"), events=[ev("open_write", "files.write", path="{LISTS}/read/w")],
       prep=lambda arena, a: arena.write(a.LISTS + "/read/w", "secret\n"), **L)


def on_the_list(a):
    expect(read("{LISTS}/read/f")(a) == "secret\n", "listed")
    expect(read("{LISTS}/elsewhere/f")(a) == "secret\n", "listed, by another mount")
    expect(read("{wd}/f")(a) == "inside\n", "the workdir")
    open(a.wd + "/f", "r+").close()
    os.listdir(a.wd)
    open("/dev/null").close()
    fd = os.memfd_create("x")
    open(f"/proc/self/fd/{fd}").close()


allowed("F-read", "by list: what is on it, the workdir, devices, memory", on_the_list, **L)
