# SPDX-License-Identifier: Apache-2.0
"""
What a daemon and the kernel hold, counted from outside: for tests of many fences, and of fences that come and go. Root.
"""
import ctypes
import json
import os
import socket
import time

from daemon import SOCKET
from guest import CGROUPS, PINS, RUN

SYS_BPF = 321
NEXT_ID = {"programs": 11, "maps": 12, "links": 31}
libc = ctypes.CDLL(None, use_errno=True)


def bpf_objects(kind):
    """How many there are on this host. Ids only: nothing is opened, so nothing is held by looking."""
    attr, n = (ctypes.c_uint32 * 32)(), 0
    while libc.syscall(SYS_BPF, NEXT_ID[kind], attr, ctypes.sizeof(attr)) == 0:
        n += 1
        attr[0] = attr[1]  # struct bpf_attr: start_id, next_id
    return n


def meminfo():
    """KiB that only the kernel has, besides what it can give back."""
    with open("/proc/meminfo", encoding="ascii") as f:
        rows = dict(line.split(":") for line in f)
    return {name: int(rows[name].split()[0]) for name in ("SUnreclaim", "Percpu", "VmallocUsed", "MemFree") if name in rows}


def process(pid):
    """Descriptors, and KiB of memory that are the process's own: not pages of the kernel's that it maps, such as those of rings."""
    own, kernels = 0, False
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as f:
        for line in f:
            if line.startswith(("Private_Clean:", "Private_Dirty:")):
                own += 0 if kernels else int(line.split()[1])
            elif "-" in line.split(" ", 1)[0]:
                kernels = "bpf-map" in line
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "own_kib": own}


def tree(path):
    return sum(len(d) + len(f) for _, d, f in os.walk(path))


def cgroups():
    """Those that there are, and those that were removed and something still holds."""
    with open(f"{CGROUPS}/cgroup.stat", encoding="ascii") as f:
        rows = dict(line.split() for line in f)
    return int(rows["nr_descendants"]), int(rows["nr_dying_descendants"])


def counts(daemon):
    """Everything that must be the same when the same fences are there."""
    found = {kind: bpf_objects(kind) for kind in NEXT_ID}
    found["pins"], found["files"] = tree(PINS), tree(RUN)
    found["cgroups"], found["dying cgroups"] = cgroups()
    for name, pid in (("keeper", daemon.process.pid), ("front", daemon.front())):
        found[f"{name}'s descriptors"] = process(pid)["descriptors"]
    return found


def settled(daemon, done=lambda now: True, seconds=90):
    """The counts, when they satisfy and have been the same for two seconds; or at last: the kernel lets go of some things later."""
    end, before, same = time.monotonic() + seconds, None, 0
    while time.monotonic() < end:
        now = counts(daemon)
        same = same + 1 if now == before else 0
        if same >= 4 and done(now):
            break
        before = now
        time.sleep(0.5)
    return now


class Client:
    """A connection to the control socket that is used for many requests."""

    def __init__(self):
        self.socket = self.lines = None

    def ask(self, request):
        """The last line of the answer."""
        for attempt in range(2):
            try:
                if not self.socket:
                    self.socket = socket.socket(socket.AF_UNIX)
                    self.socket.settimeout(300)
                    self.socket.connect(SOCKET)
                    self.lines = self.socket.makefile()
                self.socket.sendall(json.dumps(request).encode() + b"\n")
                line = self.lines.readline()
                if line:
                    return json.loads(line)
            except (BrokenPipeError, ConnectionResetError):
                if attempt:
                    raise
            self.socket = None  # it was idle for too long
        raise RuntimeError(f"no answer to {request}")

    def attach(self, cgroup, work, **more):
        got = self.ask({"do": "attach", "cgroup": cgroup, "pid": 1, "workdir": work, "ring_bytes": 65536, **more})
        if "fence" not in got:
            raise RuntimeError(f"attach: {got}")
        return got["fence"]

    def detach(self, fence):
        got = self.ask({"do": "detach", "fence": fence})
        if got.get("status") != "ok":
            raise RuntimeError(f"detach: {got}")

    def reload(self, fence, work, policy):
        got = self.ask({"do": "reload", "fence": fence, "workdir": work, "policy": policy})
        if got.get("status") != "ok":
            raise RuntimeError(f"reload: {got}")
