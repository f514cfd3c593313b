# SPDX-License-Identifier: Apache-2.0
"""
Workdirs on other file systems: {PLACES}/NAME/wd is writable, {PLACES}/NAME/out is not. On the overlay, wd/low and
out/low come from the lower layer, a file or directory a row.
"""

import errno
import os

from arena import PLACE_LABELS, snapshot
from rows_file import ACL, ROFS, ROFS_XDEV, W, expect, name_tmpfile, rename, write
from table import allowed, attack, ev


def place_prep(place):
    return lambda arena, a: arena.furnish(f"{a.PLACES}/{place}/wd/{a.slug}", "inside\n")


def watched(path):
    """The effect is a change of what lies at path."""
    def prep(arena, a):
        arena.was = snapshot(a.fill(path))
    return {"prep": prep, "effect": lambda arena, a, r: snapshot(a.fill(path)) != arena.was}


def work(place):
    """Every kind of change, in the writable part."""
    def do(a):
        top = f"{a.PLACES}/{place}/wd/{a.slug}"
        os.chdir(top)
        with open("new", "w") as f:
            f.write("x")
            f.flush()
            os.fchmod(f.fileno(), 0o600)
            os.ftruncate(f.fileno(), 0)
        with open("f", "a") as f:
            f.write("more")
        os.rename("new", "d/newer")
        rename("f", "g", 2)(a)
        os.link("f", "h")
        os.symlink("f", "l")
        os.mkfifo("p")
        os.chmod("f", 0o640)
        os.chown("f", 1000, 1000)
        os.utime("f", (1, 1))
        if place != "tmpfs":  # whose user attributes came with 6.6
            os.setxattr("f", "user.a", b"1")
        os.setxattr("d", "system.posix_acl_default", ACL)
        os.mkdir("d/inherits")
        open("d/inherits-too", "w").close()
        os.truncate("f", 1)
        try:
            name_tmpfile(top, top + "/named")
            expect(open("named").read() == "x", "not there")
        except OSError as e:  # overlayfs before 6.3
            expect(e.errno == errno.EOPNOTSUPP, str(e))
        os.unlink("h")
        os.rmdir("e")
        os.mkdir("e")
        os.rename("e", "e2")
    return do


for place, labels in PLACE_LABELS.items():
    base = "{PLACES}/" + place
    prep = place_prep(place)
    kw = {"prep": prep, "labels": labels, "roots": [base + "/out/{slug}"]}
    allowed("F-32" if place == "overlay" else "F-02", f"work on {place}", work(place), prep=prep, labels=labels)
    attack("F-32" if place == "overlay" else "F-01", f"append on {place}", write(base + "/out/{slug}/f"), twin=write(base + "/wd/{slug}/f"), errnos=ROFS,
           events=[ev("open_write", W, path=base + "/out/{slug}/f")], **kw)
    attack("F-19", f"O_TMPFILE on {place}", lambda a, b=base: name_tmpfile(a.fill(b + "/out/{slug}"), a.fill(b + "/out/{slug}/n")), errnos=ROFS,
           twin=lambda a: name_tmpfile(a.wd, a.wd + "/n"), lacking=(errno.EOPNOTSUPP,),
           events=[ev("mknod" if place == "overlay" else ("open_write", "mknod"), W)], **kw)  # overlayfs makes the file before it is opened
    if place == "btrfs":  # wd is a subvolume of its own: what is renamed does not leave it
        continue
    attack("F-06", f"rename into the workdir on {place}", rename(base + "/out/{slug}/f", base + "/wd/{slug}/x"), errnos=ROFS_XDEV,
           twin=rename(base + "/wd/{slug}/f", base + "/wd/{slug}/x"), events=[ev("rename", W, path=base + "/out/{slug}/f")], **kw)


LOW = "{PLACES}/overlay/%s/low/f%d"
UPPER = "{PLACES}/layers/upper"


def low(n, do, op, name):
    """On a file of the lower layer: the attack makes overlayfs copy it up, or put a whiteout over it."""
    def look(arena, a):
        return snapshot(a.fill("{PLACES}/overlay/out/low")), os.path.lexists(a.fill(UPPER + f"/out/low/f{n}"))

    def prep(arena, a):
        arena.was = look(arena, a)

    attack("F-32", f"{name} of a lower file", lambda a: do(a.fill(LOW % ("out", n))) and None, twin=lambda a: do(a.fill(LOW % ("wd", n))) and None,
           errnos=ROFS, events=[ev(op, W, path=LOW % ("out", n))], prep=prep, effect=lambda arena, a, r: look(arena, a) != arena.was)


def touch(path, flags):
    fd = os.open(path, flags)
    if flags & 3:
        os.write(fd, b"more")
    os.close(fd)


# A number a mode: the file is the lower layer's only once.
for n, (do, op, name) in enumerate((
        (lambda p: touch(p, os.O_WRONLY | os.O_APPEND), "open_write", "append"),
        (lambda p: touch(p, os.O_RDWR), "open_write", "read and write"),
        (lambda p: touch(p, os.O_RDONLY | os.O_TRUNC), ("open_write", "truncate"), "O_TRUNC"),
        (lambda p: os.truncate(p, 1), "truncate", "truncate"),
        (lambda p: os.chmod(p, 0o600 if os.stat(p).st_mode & 0o77 else 0o644), "chmod", "chmod"),
        (lambda p: os.setxattr(p, "user.a", str(os.getpid()).encode()), "setxattr", "setxattr"),
        (lambda p: os.link(p, p + "-link-" + str(os.getpid())), "link", "link"))):
    low(n, do, op, name)


def renew(a):
    """A lower directory and file removed and made anew: overlayfs marks the new directory opaque."""
    low_dir = a.fill("{PLACES}/overlay/wd/low")
    for n in range(30, 40):
        path = f"{low_dir}/d{n}"
        if os.path.isdir(path) and not os.path.exists(path + "/mine"):
            break
    os.rmdir(path)
    os.mkdir(path)
    open(path + "/mine", "w").close()
    os.unlink(f"{low_dir}/f{n}")
    open(f"{low_dir}/f{n}", "w").close()
    os.mkdir(f"{low_dir}/new{n}")
    os.rename(f"{low_dir}/new{n}", f"{low_dir}/newer{n}")


allowed("F-32", "a lower directory made anew", renew)
allowed("F-32", "reading lower files", lambda a: expect(open(a.fill(LOW % ("out", 39))).read() == "low\n", "other bytes"))

# A snapshot has the numbers and generations of what it was taken of: only its subvolume tells it apart.
attack("F-01", "the workdir's own snapshot on btrfs", write("{PLACES}/btrfs/snapshot/base/f"), twin=write("{PLACES}/btrfs/wd/base/f"), errnos=ROFS,
       events=[ev("open_write", W, path="{PLACES}/btrfs/snapshot/base/f")], labels=PLACE_LABELS["btrfs"], **watched("{PLACES}/btrfs/snapshot/base"))
