# SPDX-License-Identifier: Apache-2.0
"""
What the programs remember, used after it has changed: the writable roots that a process met, what is known of devices,
destinations that were allowed. Each attack first does what is allowed, so that it is remembered.
"""

import errno
import os

import inside
from rows_file import ROFS, W, expect, secret, write
from rows_net import DG, GATEWAY, GATEWAY_UDP, received, tcp, udp
from table import Context, allowed, attack, ev


def warm(path):
    """Meets the writable root above path, by each kind of change that looks for it."""
    for _ in range(2):
        with open(path + "/warm", "w") as f:
            f.write("x")
    os.mkdir(path + "/warm.d")
    os.rmdir(path + "/warm.d")


def token_in(path):
    def effect(arena, a, result):
        try:
            with open(a.fill(path)) as f:
                return a.token in f.read()
        except FileNotFoundError:
            return False
    return effect


# --- a directory is moved out from below its root while somebody stands in it --------------------------------------


def moved_by_host(below, to):
    """below: the directory where the process stands, in {wd}/d, which the host moves to `to`."""
    def do(a):
        here = f"{a.wd}/d{below}"
        fd = os.open(here, os.O_RDONLY)
        warm(here)
        inside.ask("rename", old=a.wd + "/d", new=a.fill(to))
        write_at(fd, "f", a.token)
    return do


def write_at(fd, name, text):
    file = os.open(name, os.O_WRONLY | os.O_APPEND, dir_fd=fd)
    os.write(file, text.encode())
    os.close(file)


def deeper(arena, a):
    for base in (a.wd, a.out):
        arena.furnish(base + "/d/one/two", "inside\n")


for what, below in (("", ""), (", two levels above", "/one/two")):
    attack("F-06", f"remembered root: the host moves the directory out of the workdir{what}", moved_by_host(below, "{out}/moved"),
           twin=moved_by_host(below, "{wd}/moved"), errnos=ROFS, prep=deeper, effect=token_in("{out}/moved" + below + "/f"),
           events=[ev("open_write", W, path="{out}/moved" + below + "/f")])

# --- mounts that come later ---------------------------------------------------------------------------------------


def mounted_by_host(source):
    def do(a):
        warm(a.wd + "/d")
        inside.ask("mount", source=a.fill(source), target=a.wd + "/d")
        write("{wd}/d/f", os.O_WRONLY | os.O_APPEND | os.O_CREAT)(a)
    return do


attack("F-24", "remembered root: the host then bind-mounts an outside directory into the workdir", mounted_by_host("{out}/d"),
       twin=mounted_by_host("{wd}/e"), errnos=ROFS, effect=token_in("{out}/d/f"), events=[ev("open_write", W, path="{wd}/d/f")])
attack("F-24", "remembered root: the host then mounts another file system into the workdir", mounted_by_host("{RUN}/{slug}"),
       twin=mounted_by_host("{wd}/e"), errnos=ROFS, prep=lambda arena, a: arena.furnish(f"{a.RUN}/{a.slug}", "outside\n"),
       effect=token_in("{RUN}/{slug}/f"), events=[ev("open_write", W, path="{wd}/d/f")])


def elsewhere_prep(arena, a):
    os.mkdir(f"{a.SECRET}/dir/{a.slug}")
    os.makedirs(f"{a.RUN}/{a.slug}/in")
    arena.write(f"{a.RUN}/{a.slug}/in/f", "secret\n")


def elsewhere(target):
    """Reads a file on a device on which nothing is denied, that the host mounted at target."""
    def do(a):
        target_dir = a.fill(target)
        inside.ask("mount", source=f"{a.RUN}/{a.slug}", target=target_dir)
        expect(os.stat(target_dir).st_dev != os.stat(a.SECRET).st_dev, "one device")
        with open(target_dir + "/in/f") as f:
            return f.read()
    return do


attack("F-24", "another device, mounted below a read-denied directory", elsewhere("{SECRET}/dir/{slug}"), twin=elsewhere("{out}/d"),
       errnos=(errno.EACCES,), prep=elsewhere_prep, effect=secret,
       events=[ev("open_read", "files.read.deny", path="{SECRET}/dir/{slug}/in/f")])

# --- the root is removed, and its inode number is another's ---------------------------------------------------------


def renewed(root, path):
    """The host removes root after something was written there, and makes another directory that gets its number."""
    def do(a):
        root_dir = a.fill(root)
        warm(root_dir)
        inside.ask("renew", path=root_dir)
        write(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)(a)
    return do


def again_prep(arena, a):
    os.makedirs(a.wd + "/again")


attack("F-12", "remembered root: its inode number is another's", renewed("{AGAIN}", "{AGAIN}/f"), twin=renewed("{wd}/again", "{wd}/again/f"),
       errnos=ROFS, prep=again_prep, effect=token_in("{AGAIN}/f"), events=[ev(("mknod", "open_write"), W, path="{AGAIN}/f")])

# --- destinations --------------------------------------------------------------------------------------------------


def after(first, then):
    def do(a):
        for _ in range(2):
            first(Context({**a.values, "token": "allowed"}))
        return then(a)
    return do


for name, first, then, op, proto, dst, port in (
        ("the gateway's port by udp", GATEWAY, udp("{GW}", 8800), "sendmsg", "udp", "{GW}", 8800),
        ("the gateway's port by udp, connected", GATEWAY, udp("{GW}", 8800, how="connect"), "connect", "udp", "{GW}", 8800),
        ("an allowed udp port by tcp", GATEWAY_UDP, tcp("{GW}", DG), "connect", "tcp", "{GW}", DG),
        ("the gateway's next port", GATEWAY, tcp("{GW}", 8801), "connect", "tcp", "{GW}", 8801),
        ("the gateway's port at its neighbour", GATEWAY, tcp("{X}", 8800), "connect", "tcp", "{X}", 8800),
        ("the gateway's port at its mapped neighbour", GATEWAY, tcp("::ffff:{X}", 8800), "connect", "tcp", "{X}", 8800)):
    attack("N-04", f"remembered destination: {name}", after(first, then), twin=after(first, GATEWAY), effect=received,
           events=[ev(op, "network.default", dst=dst, dport=port, proto=proto)])
attack("N-01", "remembered destination: the gateway's port at the metadata service", after(GATEWAY, tcp("169.254.169.254", 8800)),
       twin=GATEWAY, effect=received, audit="deny",
       events=[ev("connect", "network.metadata", dst="169.254.169.254", dport=8800, proto="tcp")])
allowed("N-04", "more destinations than are remembered", lambda a: [do(a) for do in (GATEWAY, GATEWAY_UDP, tcp("fd00:99::5", 80)) * 3] and None)
