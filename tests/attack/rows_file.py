# SPDX-License-Identifier: Apache-2.0
"""
File rows. {out} and {wd} are directories of the row's own, on one file system, {wd} below the workdir. The driver put
f ("outside\n" and "inside\n"), g, the directory d with d/f, and the symbolic link s to f in each. Unless a row says otherwise,
its effect is any change of the tree {out}: names, types, modes, owners, times, links, bytes, xattrs, inode flags.
"""

import ctypes
import errno
import fcntl
import os
import pty
import shutil
import socket
import stat
import struct
import subprocess
import tempfile

import inside
from inside import libc, syscall
from table import allowed, attack, ev

AT_FDCWD, AT_EMPTY_PATH, AT_SYMLINK_FOLLOW = -100, 0x1000, 0x400
ROFS = (errno.EROFS,)
ROFS_XDEV = (errno.EROFS, errno.EXDEV)
W = "files.write"


def write(path, flags=os.O_WRONLY | os.O_APPEND):
    def do(a):
        fd = os.open(a.fill(path), flags, 0o644)
        os.write(fd, a.token.encode())
        os.close(fd)
    return do


def expect(condition, what):
    if not condition:
        raise RuntimeError(what)


def writes(case, name, out, wd, seen="{out}/f", op="open_write", **kw):
    """The attack writes by the path `out`, which reaches `seen`; the twin by the path `wd`."""
    attack(case, name, out if callable(out) else write(out), twin=wd if callable(wd) else write(wd), errnos=ROFS,
           events=[ev(op, W, path=seen)], hooks=["file_open"] if op == "open_write" else [], **kw)


# --- depth ------------------------------------------------------------------------------------------------------

DEPTHS = (19, 20, 21, 63, 64, 65, 255, 900)  # the last one's path is longer than PATH_MAX


def descend(base, depth, make=False):
    """The working directory becomes base/d/d/.../d."""
    os.chdir(base)
    for _ in range(depth):
        if make and not os.path.isdir("deep"):
            os.mkdir("deep")
        os.chdir("deep")


def deep_prep(depth):
    def prep(arena, a):
        here = os.open(".", os.O_RDONLY)
        for base in (a.out, a.wd):
            descend(base, depth, make=True)
            with open("old", "w") as f:
                f.write("old\n")
        os.fchdir(here)
        os.close(here)
    return prep


def deep_effect(depth, name, text):
    def effect(arena, a, result):
        here = os.open(".", os.O_RDONLY)
        try:
            descend(a.out, depth)
            return os.path.exists(name) and text not in (None, open(name).read())
        finally:
            os.fchdir(here)
            os.close(here)
    return effect


def deep(base, depth, name, flags):
    def do(a):
        descend(a.fill(base), depth)
        fd = os.open(name, flags, 0o644)
        os.write(fd, a.token.encode())
    return do


def deep_work(depth):
    """What node_modules has done to it."""
    def do(a):
        descend(a.wd, depth)
        with open("new", "w") as f:
            f.write("new\n")
        with open("new", "a") as f:
            f.write("more\n")
        with open("old", "a") as f:
            f.write("more\n")
        os.rename("new", "newer")
        expect(open("newer").read() == "new\nmore\n", "the bytes are not there")
        os.unlink("newer")
        os.mkdir("dir")
        os.rmdir("dir")
    return do


for depth in DEPTHS:
    long = depth * 5 > 4000
    path = "{out}" + "/deep" * depth
    attack("F-01", f"create {depth} directories down", deep("{out}", depth, "f", os.O_CREAT | os.O_WRONLY), errnos=ROFS,
           prep=deep_prep(depth), effect=deep_effect(depth, "f", ""), twin=deep("{wd}", depth, "f", os.O_CREAT | os.O_WRONLY),
           events=[ev("mknod", W, **({"file__path_truncated": True} if long else {"path": path + "/f"}))])
    attack("F-01", f"append {depth} directories down", deep("{out}", depth, "old", os.O_WRONLY | os.O_APPEND), errnos=ROFS,
           prep=deep_prep(depth), effect=deep_effect(depth, "old", "old\n"), twin=deep("{wd}", depth, "old", os.O_WRONLY | os.O_APPEND),
           events=[ev("open_write", W, **({"file__path_truncated": True} if long else {"path": path + "/old"}))])
    allowed("F-02", f"work {depth} directories down", deep_work(depth), prep=deep_prep(depth))

# --- hard links -------------------------------------------------------------------------------------------------


def link_then_write(old, new):
    def do(a):
        os.link(a.fill(old), a.fill(new))
        write(new)(a)
    return do


def link_by_fd(old, new, flags):
    def do(a):
        fd = os.open(a.fill(old), os.O_PATH)
        if flags == AT_EMPTY_PATH:
            syscall(265, fd, b"", AT_FDCWD, a.fill(new).encode(), flags)
        else:
            syscall(265, AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, a.fill(new).encode(), flags)
        write(new)(a)
    return do


LINKED = [ev("link", W, path="{out}/f", path2="{wd}/h")]
attack("F-04", "hard link of an outside file into the workdir", link_then_write("{out}/f", "{wd}/h"), errnos=ROFS_XDEV,
       twin=link_then_write("{wd}/f", "{wd}/h"), events=LINKED, hooks=["file_path_link"])
attack("F-04", "the same through /proc/self/fd", link_by_fd("{out}/f", "{wd}/h", AT_SYMLINK_FOLLOW), errnos=ROFS_XDEV,
       twin=link_by_fd("{wd}/f", "{wd}/h", AT_SYMLINK_FOLLOW), events=LINKED)
attack("F-04", "the same with AT_EMPTY_PATH", link_by_fd("{out}/f", "{wd}/h", AT_EMPTY_PATH), errnos=ROFS_XDEV,
       twin=link_by_fd("{wd}/f", "{wd}/h", AT_EMPTY_PATH), events=LINKED)
attack("F-04", "hard link out of the workdir", link_then_write("{wd}/f", "{out}/h"), errnos=ROFS_XDEV,
       twin=link_then_write("{wd}/f", "{wd}/h"), events=[ev("link", W, path="{wd}/f", path2="{out}/h")])

# --- rename -----------------------------------------------------------------------------------------------------


def rename(old, new, flags=0):
    def do(a):
        syscall(316, AT_FDCWD, a.fill(old).encode(), AT_FDCWD, a.fill(new).encode(), flags)
    return do


for name, old, new, flags, twin in (
        ("out of the workdir", "{wd}/f", "{out}/config", 0, ("{wd}/f", "{wd}/x", 0)),
        ("out, over an existing file", "{wd}/f", "{out}/f", 0, ("{wd}/f", "{wd}/g", 0)),
        ("into the workdir", "{out}/f", "{wd}/b", 0, ("{wd}/f", "{wd}/b", 0)),
        ("within the outside", "{out}/f", "{out}/q", 0, ("{wd}/f", "{wd}/q", 0)),
        ("a directory out", "{wd}/d", "{out}/q", 0, ("{wd}/d", "{wd}/q", 0)),
        ("a directory in", "{out}/d", "{wd}/q", 0, ("{wd}/d", "{wd}/q", 0)),
        ("exchange", "{wd}/f", "{out}/f", 2, ("{wd}/f", "{wd}/g", 2)),
        ("exchange, the outside first", "{out}/f", "{wd}/f", 2, ("{wd}/g", "{wd}/f", 2)),
        ("RENAME_NOREPLACE", "{out}/f", "{wd}/q", 1, ("{wd}/f", "{wd}/q", 1)),
        ("RENAME_WHITEOUT", "{out}/f", "{wd}/q", 4, ("{wd}/f", "{wd}/q", 4))):
    attack("F-06", f"rename {name}", rename(old, new, flags), twin=rename(*twin), errnos=ROFS_XDEV,
           events=[ev("rename", W, path=old, path2=new)], hooks=["file_path_rename"])

# --- other ways to the same object ------------------------------------------------------------------------------


def through_link(target, link, below=""):
    def do(a):
        os.symlink(a.fill(target), a.fill(link))
        write(link + below, os.O_WRONLY | os.O_CREAT | os.O_APPEND)(a)
    return do


UP = "../" * 12
writes("F-09", "through a symbolic link", through_link("{out}/f", "{wd}/l"), through_link("{wd}/f", "{wd}/l"))
writes("F-09", "through a relative chain", through_link(UP + "{out}/f", "{wd}/l"), through_link(UP + "{wd}/f", "{wd}/l"))
writes("F-09", "create through a link to a directory", through_link("{out}/d", "{wd}/l", "/new"),
       through_link("{wd}/d", "{wd}/l", "/new"), seen="{out}/d/new", op="mknod")
writes("F-09", "a dangling link creates its target", through_link("{out}/new", "{wd}/l"), through_link("{wd}/new", "{wd}/l"),
       seen="{out}/new", op="mknod")


def in_directory(path, then):
    def do(a):
        os.chdir(a.fill(path))
        write(then)(a)
    return do


def by_directory_fd(path):
    def do(a):
        fd = os.open(a.fill(path), os.O_PATH)
        write(f"/dev/fd/{fd}/f")(a)
    return do


def at_directory_fd(path):
    def do(a):
        directory = os.open(a.fill(path), os.O_RDONLY)
        fd = os.open("f", os.O_WRONLY | os.O_APPEND, dir_fd=directory)
        os.write(fd, a.token.encode())
    return do


writes("F-11", "/proc/self/root", "/proc/self/root{out}/f", "/proc/self/root{wd}/f")
writes("F-11", "/proc/thread-self/root", "/proc/thread-self/root{out}/f", "/proc/thread-self/root{wd}/f")
writes("F-11", "/proc/self/cwd", in_directory("{out}", "/proc/self/cwd/f"), in_directory("{wd}", "/proc/self/cwd/f"))
writes("F-11", "/dev/fd", by_directory_fd("{out}"), by_directory_fd("{wd}"))
writes("F-11", "openat from a directory", at_directory_fd("{out}"), at_directory_fd("{wd}"))
writes("F-11", "..", "{wd}/" + UP + "{out}/f", "{wd}/d/../f")
writes("F-11", "chroot", lambda a: (os.chroot(a.out), write("/f")(a)), lambda a: (os.chroot(a.wd), write("/f")(a)))


def reopen(path, first):
    def do(a):
        fd = os.open(a.fill(path), first)
        write(f"/proc/self/fd/{fd}")(a)
    return do


writes("F-12", "reopen an O_PATH descriptor", reopen("{out}/f", os.O_PATH), reopen("{wd}/f", os.O_PATH))
writes("F-12", "reopen an O_RDONLY descriptor", reopen("{out}/f", os.O_RDONLY), reopen("{wd}/f", os.O_RDONLY))

for name, flags in (("O_RDWR", os.O_RDWR), ("O_APPEND", os.O_WRONLY | os.O_APPEND)):
    writes("F-11", f"plain path, {name}", write("{out}/f", flags), write("{wd}/f", flags))

# --- siblings of the workdir ------------------------------------------------------------------------------------

for sibling in ("app-evil", "app2", "app "):
    writes("F-29", f"sibling {sibling!r}", "{W}/" + sibling + "/{slug}/f", "{wd}/f", seen="{W}/" + sibling + "/{slug}/f",
           roots=["{W}/" + sibling + "/{slug}"])
writes("F-29", "sibling by ..", "{W}/app/../app-evil/{slug}/f", "{W}/app/../app/{slug}/f", seen="{W}/app-evil/{slug}/f",
       roots=["{W}/app-evil/{slug}"])
attack("F-29", "a name in the parent of the workdir", lambda a: os.mkdir(a.fill("{W}/{slug}-new")), errnos=ROFS,
       effect=lambda arena, a, r: os.path.exists(a.fill("{W}/{slug}-new")), twin=lambda a: os.mkdir(a.wd + "/new"),
       events=[ev("mkdir", W, path="{W}/{slug}-new")])

# --- reading ----------------------------------------------------------------------------------------------------


def read(path):
    def do(a):
        with open(a.fill(path)) as f:
            return f.read()
    return do


def read_by_fd(path):
    def do(a):
        fd = os.open(a.fill(path), os.O_PATH)
        return read(f"/proc/self/fd/{fd}")(a)
    return do


def link_then_read(old, new):
    def do(a):
        os.link(a.fill(old), a.fill(new))
        return read(new)(a)
    return do


def secret(arena, a, result):
    return result["data"] is not None and "secret" in result["data"]


def reads(case, name, do, twin, seen, **kw):
    attack(case, name, do, effect=secret, twin=twin, errnos=(errno.EACCES,),
           events=[ev("open_read", "files.read.deny", path=seen)], **kw)


reads("F-11", "read what is read-denied", read("{SECRET}/file"), read("{out}/f"), "{SECRET}/file", hooks=["file_open"])
reads("F-11", "read below what is read-denied", read("{SECRET}/dir/a/f"), read("{SECRET}/open"), "{SECRET}/dir/a/f")
reads("F-11", "the same through /proc/self/root", read("/proc/self/root{SECRET}/file"), read("/proc/self/root{out}/f"), "{SECRET}/file")
reads("F-12", "read through an O_PATH descriptor", read_by_fd("{SECRET}/file"), read_by_fd("{out}/f"), "{SECRET}/file")
reads("F-04", "a read-denied file by a hard link of the host", read("{HARDLINK}"), read("{out}/f"), "{HARDLINK}")
reads("F-24", "a read-denied directory by a bind mount of the host", read("{BINDREAD}/a/f"), read("{out}/f"), "{BINDREAD}/a/f")


def generation(path, command):
    """
    Gives the inode another generation, so that it is no longer the object that a rule names; then reads it. ext4 with
    checksums cannot (ENOTTY), so that the secret lies on an image without.
    """
    def do(a):
        fd = os.open(a.fill(path), 3)  # neither for reading nor for writing: for ioctl
        fcntl.ioctl(fd, command, struct.pack("=i", int.from_bytes(os.urandom(3), "little")))
        os.close(fd)
        return read(path)(a)
    return do


for name, command in (("FS_IOC_SETVERSION", 0x40087602), ("EXT4_IOC_SETVERSION", 0x40086604)):
    attack("F-12", f"read after {name} on a read-denied file", generation("{OLD}/" + name, command), effect=secret,
           errnos=(errno.EROFS, errno.EACCES, errno.EPERM), twin=read("{SECRET}/open"), lacking=(errno.ENOTTY,),
           events=[ev(("ioctl", "open_read", "open_write"), (W, "files.read.deny"), path="{OLD}/" + name)])

reads("F-12", "read after FS_IOC_SETVERSION on a read-denied file that may be changed", generation("{OLD}/mine/secret", 0x40087602), read("{SECRET}/open"),
      "{OLD}/mine/secret", lacking=(errno.ENOTTY,))

# --- truncate ---------------------------------------------------------------------------------------------------


def open_truncating(path):
    def do(a):
        os.close(os.open(a.fill(path), os.O_TRUNC | os.O_RDONLY))
    return do


def passed(path, flags=os.O_RDWR, err=errno.EROFS):
    """A descriptor that the driver opens and passes over a unix socket: refused, it is left out of the message."""
    def do(a):
        _, fds = inside.ask("open", path=a.fill(path), flags=flags)
        if not fds:
            raise OSError(err, "no descriptor came")
        return fds[0]
    return do


def truncate_passed(path):
    return lambda a: os.ftruncate(passed(path)(a), 0)


attack("F-16", "truncate by path", lambda a: os.truncate(a.out + "/f", 0), twin=lambda a: os.truncate(a.wd + "/f", 0), errnos=ROFS,
       events=[ev("truncate", W, path="{out}/f")], hooks=["file_path_truncate"])
attack("F-16", "O_TRUNC | O_RDONLY", open_truncating("{out}/f"), twin=open_truncating("{wd}/f"), errnos=ROFS,
       events=[ev(("truncate", "open_write"), W, path="{out}/f")])
attack("F-16", "ftruncate of a descriptor passed in", truncate_passed("{out}/f"), twin=truncate_passed("{wd}/f"), errnos=ROFS,
       events=[ev("receive", W, path="{out}/f")], hooks=["file_receive+file_truncate"])

# --- metadata ---------------------------------------------------------------------------------------------------

ACL = struct.pack("<IHHIHHIHHIHHIHHI", 2, 1, 6, 0xffffffff, 2, 7, 1000, 4, 4, 0xffffffff, 16, 7, 0xffffffff, 32, 4, 0xffffffff)


def by_fd(do, flags=os.O_RDONLY):
    """The same on a descriptor that is not open for writing."""
    def with_fd(a, path):
        fd = os.open(path, flags)
        do(a, fd)
    return with_fd


def ioctl(command, size):
    def do(a, path):
        fd = os.open(path, os.O_RDONLY)
        if command == 0x40086602:  # FS_IOC_SETFLAGS: nodump on, the others as FS_IOC_GETFLAGS says
            flags = struct.unpack("=q", fcntl.ioctl(fd, 0x80086601, bytes(8)))[0]
            fcntl.ioctl(fd, command, struct.pack("=q", flags | 0x40))
        elif command == 0x401c5820:  # FS_IOC_FSSETXATTR
            fcntl.ioctl(fd, command, struct.pack("=IIIII8x", 0x80, 0, 0, 0, 0))
        else:
            fcntl.ioctl(fd, command, struct.pack("=q", 4711)[:size])
    return do


def file_setattr(a, path):
    """file_setattr(2), Linux 6.17."""
    syscall(469, AT_FDCWD, path.encode(), struct.pack("=QIIII", 0x80, 0, 0, 0, 0), 24, 0)


# What sets a project id, too, is not for the workdir either (docs/limits.md); its legal neighbour sets flags alone.
NO_PROJECT = dict.fromkeys(("FS_IOC_FSSETXATTR", "file_setattr"), ioctl(0x40086602, 8))


def utimes_now(a, path):
    libc.utimensat(AT_FDCWD, path.encode(), None, 0) and inside.check(-1)


def utimes_half(a, path):
    """Only the modification time, now."""
    times = struct.pack("=qqqq", 0, 0x3ffffffe, 0, 0x3fffffff)
    inside.check(libc.utimensat(AT_FDCWD, path.encode(), times, 0))


def fchmodat2(a, path):
    fd = os.open(path, os.O_PATH)
    syscall(452, fd, b"", 0o777, AT_EMPTY_PATH)


def setfacl(a, path):
    p = inside.run_child(["setfacl", "-m", "u:1000:rwx", path])
    if p.returncode:
        raise OSError(errno.EROFS if "Read-only" in p.stderr else errno.EPERM, p.stderr)


def meta_prep(arena, a):
    for base in (a.out, a.wd):
        os.setxattr(base + "/g", "user.old", b"1")
        os.setxattr(base + "/g", "system.posix_acl_access", ACL)


SETX, REMX, ACL_SET, ACL_REM = (["file_inode_setxattr"], ["file_inode_removexattr"], ["file_inode_set_acl"], ["file_inode_remove_acl"])
for name, op, do, file, hooks in (
        ("chmod", "chmod", lambda a, p: os.chmod(p, 0o777), "f", ["file_path_chmod+file_inode_setattr"]),
        ("fchmod", "chmod", by_fd(lambda a, fd: os.fchmod(fd, 0o777)), "f", []),
        ("fchmodat2 of an O_PATH descriptor", "chmod", fchmodat2, "f", []),
        ("chmod through /proc/self/fd", "chmod", by_fd(lambda a, fd: os.chmod(f"/proc/self/fd/{fd}", 0o777), os.O_PATH), "f", []),
        ("chown", "chown", lambda a, p: os.chown(p, 1000, 1000), "f", ["file_path_chown+file_inode_setattr"]),
        ("fchown", "chown", by_fd(lambda a, fd: os.fchown(fd, 1000, -1)), "f", []),
        ("lchown of a symbolic link", "chown", lambda a, p: os.lchown(p, 1000, 1000), "s", []),
        ("utimes", "utimes", lambda a, p: os.utime(p, (1, 1)), "f", ["file_inode_setattr"]),
        ("utimes to now", "utimes", utimes_now, "f", []),
        ("the modification time alone, now", "utimes", utimes_half, "f", []),
        ("futimens", "utimes", by_fd(lambda a, fd: os.utime(fd, (1, 1))), "f", []),
        ("utimes of a symbolic link", "utimes", lambda a, p: os.utime(p, (1, 1), follow_symlinks=False), "s", []),
        ("setxattr", "setxattr", lambda a, p: os.setxattr(p, "user.a", b"1"), "f", SETX),
        ("fsetxattr", "setxattr", by_fd(lambda a, fd: os.setxattr(fd, "user.a", b"1")), "f", SETX),
        ("file capabilities", "setxattr", lambda a, p: os.setxattr(p, "security.capability", struct.pack("<IIIII", 0x2000001, 1, 0, 0, 0)), "f", []),
        ("removexattr", "removexattr", lambda a, p: os.removexattr(p, "user.old"), "g", REMX),
        ("fremovexattr", "removexattr", by_fd(lambda a, fd: os.removexattr(fd, "user.old")), "g", []),
        ("setting an ACL", "setxattr", lambda a, p: os.setxattr(p, "system.posix_acl_access", ACL), "f", ACL_SET),
        ("setting an ACL by descriptor", "setxattr", by_fd(lambda a, fd: os.setxattr(fd, "system.posix_acl_access", ACL)), "f", []),
        ("removing an ACL", "removexattr", lambda a, p: os.removexattr(p, "system.posix_acl_access"), "g", ACL_REM),
        ("FS_IOC_SETFLAGS", "ioctl", ioctl(0x40086602, 8), "f", ["file_ioctl"]),
        ("FS_IOC_FSSETXATTR", "ioctl", ioctl(0x401c5820, 28), "f", ["file_ioctl"]),
        ("FS_IOC_SETVERSION", "ioctl", ioctl(0x40087602, 4), "f", ["file_ioctl"]),
        ("EXT4_IOC_SETVERSION", "ioctl", ioctl(0x40086604, 4), "f", []),
        ("FS_IOC_SETFLAGS on a directory", "ioctl", ioctl(0x40086602, 8), "d", []),
        ("file_setattr", ("ioctl", "setattr"), file_setattr, "f", [])):
    attack("F-20", name, lambda a, do=do, file=file: do(a, f"{a.out}/{file}"), errnos=ROFS, hooks=hooks, prep=meta_prep,
           twin=lambda a, do=NO_PROJECT.get(name, do), file=file: do(a, f"{a.wd}/{file}"), events=[ev(op, W, path="{out}/" + file)],
           lacking=(errno.ENOSYS, errno.ENOTTY))


def encryption_prep(arena, a):
    for path in (f"{a.OLD}/{a.slug}", f"{a.OLD}/mine/{a.slug}"):
        os.mkdir(path)


def encrypt(path):
    """FS_IOC_SET_ENCRYPTION_POLICY, whose number says that it reads; OLD has the feature."""
    def do(a):
        fd = os.open(a.fill(path), os.O_RDONLY)
        fcntl.ioctl(fd, 0x800c6613, struct.pack("=BBBB8s", 0, 1, 4, 0, b"cordon"))
    return do


def encrypted(arena, a, result):
    fd = os.open(f"{a.OLD}/{a.slug}", os.O_RDONLY)
    try:
        fcntl.ioctl(fd, 0x400c6615, bytearray(12))  # FS_IOC_GET_ENCRYPTION_POLICY
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


attack("F-20", "FS_IOC_SET_ENCRYPTION_POLICY on an empty directory", encrypt("{OLD}/{slug}"), twin=encrypt("{OLD}/mine/{slug}"), errnos=ROFS, prep=encryption_prep,
       effect=encrypted, events=[ev("ioctl", W, path="{OLD}/{slug}")], lacking=(errno.EOPNOTSUPP, errno.ENOTTY))
attack("F-20", "setfacl", lambda a: setfacl(a, a.out + "/f"), errnos=ROFS, twin=lambda a: setfacl(a, a.wd + "/f"),
       events=[ev("setxattr", W, path="{out}/f")])

# --- device nodes -----------------------------------------------------------------------------------------------


def node_exists(name):
    return lambda arena, a, r: os.path.lexists(f"{a.wd}/{name}")


def device_twin(a):
    os.mkfifo(a.wd + "/fifo")
    socket.socket(socket.AF_UNIX).bind(a.wd + "/socket")
    os.mknod(a.wd + "/file", stat.S_IFREG | 0o600)
    expect(stat.S_ISFIFO(os.stat(a.wd + "/fifo").st_mode), "no fifo")


for name, mode, device in (("a block device", stat.S_IFBLK, os.makedev(8, 0)), ("the memory device", stat.S_IFCHR, os.makedev(1, 1)),
                           ("a whiteout", stat.S_IFCHR, 0)):
    attack("F-22", f"mknod of {name} in the workdir", lambda a, m=mode, d=device: os.mknod(a.wd + "/n", m | 0o600, d),
           effect=node_exists("n"), twin=device_twin, events=[ev("mknod", "files.device", path="{wd}/n")],
           hooks=["file_path_mknod"])


def device_prep(arena, a):
    os.mknod(a.wd + "/disk", stat.S_IFBLK | 0o600, os.stat("/scratch").st_dev)


def open_device(flags, use):
    def do(a):
        fd = os.open(a.wd + "/disk", flags)
        return use(fd)
    return do


def read_disk(fd):
    """The magic number of ext4's super block."""
    return "secret" if os.pread(fd, 2, 1024 + 56) == b"\x53\xef" else None


def size_of_disk(fd):
    return "secret" if struct.unpack("=Q", fcntl.ioctl(fd, 0x80081272, bytes(8)))[0] else None


for name, do, op in (("for reading", open_device(os.O_RDONLY, read_disk), "open_read"),
                     ("for writing", open_device(os.O_WRONLY, size_of_disk), "open_write"),
                     ("for ioctl alone", open_device(3, size_of_disk), ("open_read", "open_write"))):
    attack("F-22", f"open of the host's disk {name}, by a node that lies in the workdir", do, prep=device_prep, effect=secret,
           twin=lambda a: read_null(a), events=[ev(op, "files.device", path="{wd}/disk")])


def write_device(path):
    return lambda a: os.write(os.open(path, os.O_WRONLY), a.token.encode() + b"\n") and None


def logged(arena, a, result):
    """Is the token in the kernel's log?"""
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while a.token.encode() not in os.read(fd, 8192):
            pass
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


attack("F-22", "a message to the kernel's log by its device", write_device("/dev/kmsg"), effect=logged, twin=write_device("/dev/null"),
       events=[ev("open_write", "files.device", path="/dev/kmsg")])


def read_null(a):
    expect(open("/dev/null").read() == "", "/dev/null has bytes")
    expect(len(os.read(os.open("/dev/zero", os.O_RDONLY), 4)) == 4, "/dev/zero has none")


# --- names ------------------------------------------------------------------------------------------------------



def name_tmpfile(directory, name):
    """A file without a name, then its name."""
    fd = os.open(directory, os.O_TMPFILE | os.O_RDWR)
    os.write(fd, b"x")
    syscall(265, AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, name.encode(), AT_SYMLINK_FOLLOW)


attack("F-23", "a name outside for an O_TMPFILE of the workdir", lambda a: name_tmpfile(a.wd, a.out + "/n"), errnos=ROFS_XDEV,
       twin=lambda a: name_tmpfile(a.wd, a.wd + "/n"), events=[ev("link", W, path2="{out}/n")])

for name, op, do, file, hooks in (
        ("mkdir", "mkdir", lambda base: os.mkdir(base + "/n"), "n", ["file_path_mkdir"]),
        ("rmdir", "rmdir", lambda base: os.rmdir(base + "/e"), "e", ["file_path_rmdir"]),
        ("symlink", "symlink", lambda base: os.symlink("a", base + "/n"), "n", ["file_path_symlink"]),
        ("unlink", "unlink", lambda base: os.unlink(base + "/f"), "f", ["file_path_unlink"]),
        ("unlink of a symbolic link", "unlink", lambda base: os.unlink(base + "/s"), "s", []),
        ("mkfifo", "mknod", lambda base: os.mkfifo(base + "/n"), "n", ["file_path_mknod"]),
        ("mknod of a regular file", "mknod", lambda base: os.mknod(base + "/n"), "n", ["file_path_mknod"]),
        ("bind of a unix socket", "mknod", lambda base: socket.socket(socket.AF_UNIX).bind(base + "/n"), "n", ["file_path_mknod"]),
        ("open with O_CREAT", "mknod", lambda base: os.open(base + "/n", os.O_CREAT | os.O_WRONLY), "n", []),
        ("open with O_CREAT for reading", "mknod", lambda base: os.open(base + "/n", os.O_CREAT | os.O_RDONLY), "n", ["file_path_mknod"]),
        ("O_TMPFILE", ("open_write", "mknod"), lambda base: name_tmpfile(base, base + "/n"), None, [])):
    attack("F-23", name, lambda a, do=do: do(a.out) and None, twin=lambda a, do=do: do(a.wd) and None, errnos=ROFS, hooks=hooks,
           events=[ev(op, W, **({"path": "{out}/" + file} if file else {}))])


# One message of a byte: ten queues of the usual size are all that a user may have.
SMALL_QUEUE = (ctypes.c_long * 8)(0, 1, 1)


def queue_prep(arena, a):
    inside.check(libc.mq_open(b"/" + a.slug.encode(), os.O_CREAT | os.O_RDWR, 0o600, SMALL_QUEUE))


# The fence has an IPC namespace of its own, as containers have, where it is not.
attack("F-23", "removing a message queue of the host", lambda a: inside.check(libc.mq_unlink(b"/" + a.slug.encode())) and None,
       prep=queue_prep, effect=lambda arena, a, r: not os.path.exists("/dev/mqueue/" + a.slug), errnos=(errno.ENOENT,),
       twin=lambda a: os.unlink(a.wd + "/f"), absent=True)
attack("F-23", "removing a message queue of the host, whose IPC namespace one has", lambda a: inside.check(libc.mq_unlink(b"/" + a.slug.encode())) and None,
       prep=queue_prep, effect=lambda arena, a, r: not os.path.exists("/dev/mqueue/" + a.slug), errnos=ROFS, fence="attached",
       twin=lambda a: os.unlink(a.wd + "/f"), events=[ev("unlink", W)], hooks=["file_inode_unlink"])
attack("F-23", "making a message queue", lambda a: inside.check(libc.mq_open(b"/" + a.slug.encode(), os.O_CREAT | os.O_RDONLY, 0o600, SMALL_QUEUE)) and "made",
       effect=lambda arena, a, r: r["data"] == "made", errnos=ROFS + (errno.EPERM, errno.EACCES),
       twin=lambda a: open(a.wd + "/n", "w").close(), events=[ev("mknod", W)], hooks=["file_inode_create"])


UNCACHED = "the kernel asks for O_CREAT before it knows whether the file is there, so a mknod is reported besides"


def uncached(path, flags):
    """The kernel looks the name up anew: an open with O_CREAT asks before it knows whether the file is there."""
    def do(a):
        inside.ask("forget")
        os.close(os.open(a.fill(path), flags))
        return "opened"
    return do


attack("F-23", "O_CREAT | O_TRUNC of a file that is there, not cached", uncached("{out}/d/f", os.O_CREAT | os.O_WRONLY | os.O_TRUNC),
       twin=uncached("{wd}/d/f", os.O_CREAT | os.O_WRONLY), errnos=ROFS, events=[ev(("open_write", "mknod"), W, path="{out}/d/f")],
       gap=UNCACHED)
allowed("F-23", "O_CREAT | O_RDONLY of a file that is there, not cached", uncached("{out}/d/f", os.O_CREAT | os.O_RDONLY),
        gap=UNCACHED)

# --- mounts -----------------------------------------------------------------------------------------------------


def mount(source, target, kind, flags):
    inside.check(libc.mount(source.encode(), target.encode(), kind, flags, None))


def apart(user=True):
    """A mount namespace of one's own, so that no success is seen elsewhere: False where that takes a user namespace, as in a fence."""
    if libc.unshare(0x20000) == 0:
        return True
    if user:
        inside.check(libc.unshare(0x10020000))
    return False


APART = ev("capable", "guard.capability", guard__capability="CAP_SYS_ADMIN")


def bind_and_write(a):
    apart()
    mount(a.out, a.wd + "/d", None, 0x1000)
    write("{wd}/d/f")(a)


def tmpfs_over(a):
    apart()
    mount("none", a.out + "/d", b"tmpfs", 0)
    with open(a.out + "/d/new", "w") as f:
        f.write("x")
    return "written"


attack("F-24", "an outside directory bind-mounted into the workdir", bind_and_write, twin=write("{wd}/d/f"), hooks=["file_sb_mount"],
       events=[ev("mount", "files.mount", path="{wd}/d"), APART])
attack("F-24", "a tmpfs over an outside directory", tmpfs_over, twin=write("{wd}/d/f"), hooks=["file_sb_mount"],
       effect=lambda arena, a, r: r["data"] == "written", events=[ev("mount", "files.mount", path="{out}/d"), APART])


def unmount(a):
    apart(user=False)
    inside.check(libc.umount2(a.BINDREAD.encode(), 2))
    return "written"


def move_tree(a):
    apart()
    tree = syscall(428, AT_FDCWD, a.out.encode(), 1)  # open_tree(OPEN_TREE_CLONE)
    syscall(429, tree, b"", AT_FDCWD, (a.wd + "/d").encode(), 4)
    write("{wd}/d/f")(a)


def pivot(a):
    root = a.OLD if apart() else a.OLD + "/put"  # no mount: were it not denied, it would fail all the same
    syscall(155, root.encode(), (a.OLD + "/put").encode())
    return "written"


# CAP_SYS_ADMIN is asked for before the hook, and a user namespace has no mounts that it may take away.
attack("F-24", "umount of a mount of the host", unmount, twin=write("{wd}/d/f"), hooks=["file_sb_umount+guard_capable"],
       effect=lambda arena, a, r: r["data"] == "written", events=[ev(("capable", "mount"), ("guard.capability", "files.mount"), count=range(1, 3))])


def entered_prep(arena, a):
    arena.mount_for(os.getpid(), a.OLD, a.out + "/d")


def entered(a):
    """A process of the host that enters the fence keeps its capabilities until it executes something."""
    got = inside.ask("umount", path=a.CGROUP, target=a.out + "/d")[0]
    inside.child_of_mine(got["got"])
    if got["errno"]:
        raise OSError(got["errno"], os.strerror(got["errno"]))


def unmounted(arena, a, result):
    if os.path.ismount(a.out + "/d"):
        return False
    arena.mounted.clear()
    return True


attack("F-24", "umount by a process that enters the fence", entered, prep=entered_prep, twin=write("{wd}/d/f"), hooks=["file_sb_umount"], fence="attached",
       effect=unmounted, events=[ev("mount", "files.mount", path="{out}/d")])
attack("F-24", "pivot_root", pivot, twin=write("{wd}/d/f"), hooks=["file_sb_pivotroot"],
       effect=lambda arena, a, r: r["data"] == "written", events=[ev("mount", "files.mount"), APART])
attack("F-24", "an outside directory by open_tree and move_mount", move_tree, twin=write("{wd}/d/f"), hooks=["file_move_mount"],
       events=[ev("mount", "files.mount", path="{wd}/d"), APART])


def bind_prep(arena, a):
    arena.write(a.BOUND, "outside\n")


writes("F-24", "an outside file that the host bind-mounted into the workdir", "{W}/app/bound", "{wd}/g", seen="{W}/app/bound",
       prep=bind_prep, effect=lambda arena, a, r: open(a.BOUND).read() != "outside\n")

# --- what must go on working ------------------------------------------------------------------------------------


def temporary(a):
    os.environ["TMPDIR"] = tempfile.tempdir = a.wd + "/.tmp"
    os.mkdir(a.wd + "/.tmp")
    p = inside.run_child(["bash", "-c", "cat <<E\nx\nE"])
    expect(p.stdout == "x\n", "heredoc: " + p.stderr)
    with tempfile.TemporaryFile() as f:
        f.write(b"xyz")
        f.flush()
        os.ftruncate(f.fileno(), 1)
        os.fchmod(f.fileno(), 0o600)
        os.utime(f.fileno(), (1, 1))
        expect(os.fstat(f.fileno()).st_size == 1, "not truncated")
    with tempfile.NamedTemporaryFile() as f:
        os.unlink(f.name)
        os.ftruncate(f.fileno(), 10)
        with open(f"/proc/self/fd/{f.fileno()}", "w") as again:
            again.write("again")
        open(f.name, "w").close()


def journal(a):
    import sqlite3
    for mode in ("delete", "wal"):
        db = sqlite3.connect(f"{a.wd}/{mode}.db")
        db.execute(f"pragma journal_mode={mode}")
        db.execute("create table t (x)")
        db.execute("insert into t values (1)")
        db.commit()
        expect(db.execute("select x from t").fetchone() == (1,), "no row")
        db.close()


def tmpfile(a):
    name_tmpfile(a.wd, a.wd + "/named")
    expect(open(a.wd + "/named").read() == "x", "not there")


allowed("F-31", "temporary files", temporary)
allowed("F-31", "sqlite journals", journal)
allowed("F-31", "O_TMPFILE and its name", tmpfile)


def devices(a):
    for name in ("null", "zero", "urandom"):
        expect(os.write(os.open("/dev/" + name, os.O_WRONLY), b"x") == 1, name)
    try:
        os.write(os.open("/dev/full", os.O_WRONLY), b"x")
        raise RuntimeError("/dev/full took a byte")
    except OSError as e:
        expect(e.errno == errno.ENOSPC, str(e))
    expect(inside.run_child(["bash", "-c", "echo x > /dev/null 2>&1 && ls / > /dev/null"]).returncode == 0, "redirection")


def terminal(a):
    pid, fd = pty.fork()
    if pid == 0:
        status = 1
        try:
            for name in ("/dev/tty", os.ttyname(0), "/dev/ptmx"):
                with open(name, "r+b", buffering=0) as f:
                    if name != "/dev/ptmx":
                        f.write(b"x")
            status = 0
        finally:
            os._exit(status)
    inside.child_of_mine(pid)
    _, status = os.waitpid(pid, 0)
    expect(status == 0, "the terminal's child failed")


def script(a):
    if not shutil.which("script"):
        return
    p = inside.run_child(["script", "-q", "-c", "true", a.wd + "/typescript"], stdin=subprocess.DEVNULL)
    expect(p.returncode == 0, p.stderr)


allowed("F-34", "null, zero, full, urandom", devices)
allowed("F-34", "tty, pts, ptmx", terminal)
allowed("F-34", "script", script)


def over_device(a):
    fd = os.open("/dev/random", os.O_WRONLY)
    os.write(fd, a.token.encode())


def over_prep(arena, a):
    arena.write(a.FAKE_DEVICE, "outside\n")


attack("F-34", "an outside file that the host bind-mounted over a device", over_device, prep=over_prep, errnos=ROFS,
       effect=lambda arena, a, r: open(a.FAKE_DEVICE).read() != "outside\n", twin=devices, events=[ev("open_write", W)])


def memfd(a):
    fd = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    os.write(fd, b"xyz")
    os.ftruncate(fd, 2)
    os.fchmod(fd, 0o600)
    with open(f"/proc/self/fd/{fd}", "r+") as f:
        f.write("ab")
    fcntl.fcntl(fd, 1033, 8)
    expect(os.pread(fd, 9, 0) == b"ab", "other bytes")


def shared_memory(a):
    import multiprocessing
    from multiprocessing import shared_memory as shm
    multiprocessing.Semaphore()
    block = shm.SharedMemory(create=True, size=4096)
    block.buf[0] = 1
    block.close()
    block.unlink()


def pipes(a):
    read_end, write_end = os.pipe()
    fd = os.open(f"/proc/self/fd/{write_end}", os.O_WRONLY)
    os.write(fd, b"x")
    expect(os.read(read_end, 1) == b"x", "nothing came")
    p = inside.run_child(["bash", "-c", "echo x > /dev/stderr; cat <(echo y)"])
    expect(p.stdout == "y\n" and p.stderr == "x\n", p.stderr)


allowed("F-36", "memfd", memfd)
allowed("F-36", "semaphores and shared memory", shared_memory)
allowed("F-36", "pipes by name", pipes)
