# SPDX-License-Identifier: Apache-2.0
"""
What io_uring does to files: each of its operations that changes one, in the caller, in a worker (ASYNC) and in the
thread of the ring (SQPOLL); rings and credentials of others.
"""

import errno
import mmap
import os
import struct

import inside
import ring
from ring import Ring
from rows_file import ROFS, ROFS_XDEV, W, passed
from table import attack, ev

PLAIN, ASYNC, POLLED = (0, 0), (0, ring.ASYNC), (ring.SQPOLL, 0)
LACKING = ring.UNSUPPORTED + (errno.EPERM,)


def how(base):
    return os.open(base + "/f", os.O_RDONLY)


OPERATIONS = {
    # name: op of the event, path seen, what it does in a directory with a ring
    "OPENAT for writing": ("open_write", "f", lambda r, b, fl: r.do(ring.OPENAT, addr=f"{b}/f".encode(), op_flags=os.O_WRONLY | os.O_TRUNC, flags=fl)),
    "OPENAT with O_CREAT": ("mknod", "n", lambda r, b, fl: r.do(ring.OPENAT, addr=f"{b}/n".encode(), length=0o600, op_flags=os.O_WRONLY | os.O_CREAT, flags=fl)),
    "OPENAT2": ("open_write", "f", lambda r, b, fl: r.do(ring.OPENAT2, addr=f"{b}/f".encode(), length=24, off=struct.pack("=QQQ", os.O_WRONLY | os.O_TRUNC, 0, 4), flags=fl)),
    "UNLINKAT": ("unlink", "f", lambda r, b, fl: r.do(ring.UNLINKAT, addr=f"{b}/f".encode(), flags=fl)),
    "UNLINKAT of a directory": ("rmdir", "e", lambda r, b, fl: r.do(ring.UNLINKAT, addr=f"{b}/e".encode(), op_flags=0x200, flags=fl)),
    "MKDIRAT": ("mkdir", "n", lambda r, b, fl: r.do(ring.MKDIRAT, addr=f"{b}/n".encode(), length=0o700, flags=fl)),
    "SYMLINKAT": ("symlink", "n", lambda r, b, fl: r.do(ring.SYMLINKAT, addr=b"x", off=f"{b}/n".encode(), flags=fl)),
    "LINKAT": ("link", "f", lambda r, b, fl: r.do(ring.LINKAT, addr=f"{b}/f".encode(), off=f"{b}/n".encode(), length=ring.AT_FDCWD & 0xffffffff, flags=fl)),
    "RENAMEAT": ("rename", "f", lambda r, b, fl: r.do(ring.RENAMEAT, addr=f"{b}/f".encode(), off=f"{b}/n".encode(), length=ring.AT_FDCWD & 0xffffffff, flags=fl)),
    "SETXATTR": ("setxattr", "f", lambda r, b, fl: r.do(ring.SETXATTR, addr=b"user.a", off=b"1", length=1, addr3=f"{b}/f".encode(), flags=fl)),
    "FSETXATTR": ("setxattr", "f", lambda r, b, fl: r.do(ring.FSETXATTR, fd=how(b), addr=b"user.a", off=b"1", length=1, flags=fl)),
}

for name, (op, seen, do) in OPERATIONS.items():
    for mode, (setup, flags) in (("", PLAIN), (" in a worker", ASYNC), (" by SQPOLL", POLLED)):
        if mode == " by SQPOLL" and op not in ("open_write", "mkdir"):
            continue
        if mode == " in a worker" and op not in ("open_write", "rename", "unlink", "setxattr"):
            continue
        attack("F-27", f"io_uring {name}{mode}", lambda a, do=do, s=setup, f=flags: do(Ring(8, s), a.out, f) and None,
               twin=lambda a, do=do, s=setup, f=flags: do(Ring(8, s), a.wd, f) and None, errnos=ROFS_XDEV if op in ("link", "rename") else ROFS,
               events=[ev(op, W, path="{out}/" + seen)], lacking=LACKING)


def direct(base):
    """A descriptor that is only the ring's, then a write through it."""
    r = Ring(8)
    fds = struct.pack("=i", -1)
    ring.call(ring.REGISTER, r.fd, 2, fds, 1)
    r.do(ring.OPENAT, addr=f"{base}/f".encode(), op_flags=os.O_WRONLY, file_index=1)
    r.do(ring.WRITE, fd=0, addr=b"token", length=5, flags=ring.FIXED_FILE)


attack("F-27", "io_uring direct descriptor", lambda a: direct(a.out), twin=lambda a: direct(a.wd), errnos=ROFS,
       events=[ev("open_write", W, path="{out}/f")], lacking=LACKING)


def other_credentials(base):
    """An operation under credentials that the ring keeps: they differ from the task's own, as overlayfs's do."""
    r = Ring(8)
    r.do(ring.MKDIRAT, addr=f"{base}/n".encode(), length=0o700, personality=r.register_personality())


attack("F-27", "io_uring with a personality", lambda a: other_credentials(a.out), twin=lambda a: Ring(8).do(ring.MKDIRAT, addr=f"{a.wd}/n".encode(), length=0o700) and None,
       errnos=(errno.EPERM,), events=[ev("credentials", "guard.credentials")], lacking=ring.UNSUPPORTED, hooks=["file_uring_creds"])


def passed_ring(a):
    """A ring that the driver made and whose thread is the driver's: what it does, the driver does."""
    try:
        _, fds = inside.ask("ring", flags=ring.SQPOLL)
    except RuntimeError as e:
        raise OSError(errno.EINVAL, str(e)) from None
    if not fds:
        raise OSError(errno.EPERM, "no descriptor came")
    mine = Ring(8, ring.SQPOLL)
    Ring(8, ring.SQPOLL, fds[0], mine.params).do(ring.MKDIRAT, addr=f"{a.out}/n".encode(), length=0o700)


def event_passed(a):
    """A legal neighbour: a descriptor of no file."""
    import socket
    left, right = socket.socketpair()
    read, write = os.pipe()
    socket.send_fds(left, [b"x"], [read, os.eventfd(0)])
    if len(socket.recv_fds(right, 1, 2)[1]) != 2:
        raise RuntimeError("descriptors did not come")


attack("F-27", "an io_uring that was passed in", passed_ring, twin=event_passed, errnos=(errno.EPERM,), audit="would_deny",
       events=[ev("receive", "files.descriptor")], lacking=LACKING[:3], hooks=["file_receive"])


def passed_map(a):
    """A BPF map, as Cordon's state is one: its memory can be written without bpf(2)."""
    _, fds = inside.ask("map")
    if not fds:
        raise OSError(errno.EPERM, "no descriptor came")
    mmap.mmap(fds[0], 4096)[:len(a.token)] = a.token.encode()


attack("F-27", "a BPF map that was passed in", passed_map, twin=event_passed, errnos=(errno.EPERM,), hooks=["file_receive"],
       effect=lambda arena, a, r: a.token.encode() in arena.shared[:], events=[ev("receive", "files.descriptor")])


def ring_write(a):
    """A descriptor that came, written by a ring."""
    Ring(8).do(ring.WRITE, fd=passed("{out}/f")(a), addr=b"token", length=5)


attack("F-27", "io_uring WRITE by a descriptor passed in", ring_write, twin=lambda a: Ring(8).do(ring.WRITE, fd=os.open(a.wd + "/f", os.O_WRONLY), addr=b"t", length=1) and None,
       errnos=ROFS, events=[ev("receive", W, path="{out}/f")], hooks=["file_receive"])
