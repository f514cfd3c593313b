# SPDX-License-Identifier: Apache-2.0
"""One fence floods, three others do one denied thing now and then: whose events are told, how soon, and how many; a group for tests/daemon/run."""
import json
import mmap
import os
import struct
import subprocess
import sys
import threading
import time

from guest import CGROUPS, Listener, cordon, fence_id, wait_for, workdir
from daemon import Follower, ask, kept_events, listed

FLOODERS, OTHERS, FLOOD_S, TRIES = 4, 3, 8, 3
# As much as waits there is read before another fence's turn: a large one is what makes a flood felt by others.
RING = "64M"
BUDGET = 20  # ten times that at once: an emulated processor takes up to a ms for each
LATE_NS = 1_000_000_000
NO_BUDGET = 1000000

# Is denied one connection after the other, from so many processes, until told to stop; counts where it can be read from outside.
FLOOD = r"""
import mmap, os, socket, struct, sys, time
work, port, n, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
m = mmap.mmap(os.open(work + "/tries", os.O_RDWR), 4096)
go, stop = work + "/go", work + "/stop"
if not pause:
    os.nice(19)  # it is events that are to be shared here, not processors
socket.create_connection(("127.0.0.1", port)).close()
open(work + "/free", "w").close()
while not os.path.exists(go):
    time.sleep(0.01)
me = 0
for i in range(1, n):
    if not os.fork():
        me = i
        break
s, done, got = socket.socket(socket.AF_INET, socket.SOCK_STREAM), 0, 0
while done % 64 or not os.path.exists(stop):
    got += s.connect_ex(("127.0.0.1", port)) == 1  # EPERM
    done += 1
    m[16 * me:16 * me + 16] = struct.pack("2Q", done, got)
    if pause:
        time.sleep(pause)
        if os.path.exists(stop):
            break
if not me:
    for i in range(1, n):
        os.wait()
"""


class Denied:
    """Processes in a cgroup of their own, with a fence, that are denied and count it."""

    def __init__(self, name, n=1, pause=0.0, options=()):
        self.cgroup, self.work, self.listener = f"{CGROUPS}/{name}", workdir(name), Listener()
        os.makedirs(self.cgroup, exist_ok=True)
        with open(f"{self.work}/tries", "wb") as f:
            f.write(bytes(4096))
        self.process = subprocess.Popen([sys.executable, "-c", FLOOD, self.work, str(self.listener.port), str(n), str(pause)])
        with open(f"{self.cgroup}/cgroup.procs", "w", encoding="utf-8") as procs:
            procs.write(str(self.process.pid))
        wait_for(lambda: os.path.exists(f"{self.work}/free"), 60)  # it has no fence yet
        got = cordon("attach", "--cgroup", self.cgroup, "-w", self.work, "--task", name, *options, timeout=200)
        self.fence = fence_id(got.stdout)
        self.said = got.stderr

    def touch(self, name):
        with open(f"{self.work}/{name}", "w", encoding="utf-8"):
            pass

    def tries(self):
        """How many connections were tried, and how many of these were denied."""
        with open(f"{self.work}/tries", "rb") as f, mmap.mmap(f.fileno(), 4096, prot=mmap.PROT_READ) as m:
            numbers = struct.unpack("512Q", m[:])
        return sum(numbers[::2]), sum(numbers[1::2])

    def finish(self):
        self.touch("stop")
        return self.process.wait(120)

    def freeze(self, on):
        with open(f"{self.cgroup}/cgroup.freeze", "w", encoding="utf-8") as f:
            f.write("1" if on else "0")

    def drop(self):
        self.process.kill()
        self.process.wait()
        cordon("detach", f"{self.fence:016x}")
        wait_for(lambda: not listed(self.fence))
        for _ in range(100):
            try:
                os.rmdir(self.cgroup)
                return
            except OSError:
                time.sleep(0.1)


class Clocked:
    """A follower of everything, as security operations have one, that notes when each line could be read."""

    def __init__(self):
        self.lines = []
        self.process = subprocess.Popen(["cordon", "events", "-f", "--no-reconnect", "-o", "json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        Follower.all.append(self)
        wait_for(lambda: json.loads(ask({"do": "status"}))["readers"] == sum(f.connected() for f in Follower.all), 120)

    def connected(self):
        return self.process.poll() is None

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic_ns(), line))

    def end(self):
        """Events with their age in ns, at the end."""
        wait_for(lambda: not self.grows(), 120)
        self.process.terminate()
        self.process.wait(20)
        self.thread.join(20)
        events = [(now, json.loads(line)) for now, line in self.lines]
        return [(now - event["mono_ns"], event) for now, event in events]

    def grows(self):
        before = len(self.lines)
        time.sleep(2)
        return len(self.lines) > before


def denials(events, fence):
    """What events say was denied; each number once."""
    return sum({e["seq"]: e["count"] for e in events if int(e["fence"]["id"], 16) == fence and e["verdict"] == "deny"}.values())


def side_by_side(tap, name, rate):
    """The flood, and the others meanwhile."""
    others = [Denied(f"flood-{name}-{i}", pause=0.05) for i in range(OTHERS)]
    flooder = Denied(f"flood-{name}", FLOODERS, options=("--event-rate", str(rate), "--ring-size", RING))
    tap.ok(flooder.fence and all(o.fence for o in others), f"{name}: four fences", flooder.said)
    clocked = Clocked()
    for one in (*others, flooder):
        one.touch("go")
    time.sleep(FLOOD_S)
    codes = [one.finish() for one in (flooder, *others)]
    tried, denied = flooder.tries()
    tap.eq((codes, denied, flooder.listener.accepted()), ([0] * (OTHERS + 1), tried, 1),
           f"{name}: one connection without a fence is made, and all that were tried after were denied")
    tap.eq([o.tries()[0] - o.tries()[1] for o in others], [0] * OTHERS, f"{name}: so are the others' all")
    counted = listed(flooder.fence)["denials"]
    told = clocked.end()
    events = [e for _, e in told if int(e["fence"]["id"], 16) == flooder.fence and e["verdict"] == "deny"]
    ages = sorted(age for age, e in told if int(e["fence"]["id"], 16) in [o.fence for o in others] and e["verdict"] == "deny")
    missing = sum(o.tries()[1] - denials([e for _, e in told], o.fence) for o in others)
    for one in (*others, flooder):
        one.drop()
    late = sum(age > LATE_NS for age in ages)
    print(f"# {name}: {denied} denials of one fence in {FLOOD_S} s, told by {len(events)} events as {denials(events, flooder.fence)}; of {len(ages) + missing} of the "
          f"others {missing} are missing, {late} late; age p50 {ages[len(ages) // 2] / 1e6:.1f} ms, p99 {ages[len(ages) * 99 // 100] / 1e6:.1f} ms, "
          f"most {ages[-1] / 1e6:.1f} ms", flush=True)
    return missing, late, ages[len(ages) * 99 // 100], denied, denials(events, flooder.fence), counted, events


def flood(tap):
    """With the budget and, as the control, without."""
    missing, late, *_ = side_by_side(tap, "control", NO_BUDGET)
    tap.ok(missing + late, "control: without a budget the others' events are lost to who follows all, or late")
    for i in range(TRIES):
        missing, _, p99, denied, told, counted, events = side_by_side(tap, f"budget-{i}", BUDGET)
        if missing or p99 < LATE_NS:
            break
        # A host that lets the machine stand still for seconds makes all late, with whatever budget; not each time.
    tap.ok(not missing and p99 < LATE_NS, "within the budget of one, all events of the others are there, and less than 1 s old", (missing, p99))
    tap.eq((told, counted), (denied, denied), "and the counts of the flood add up to what was tried, as the kernel counts")
    tap.ok(len(events) < denied and max(e["count"] for e in events) > 1, "repeats are folded", f"{len(events)} events of {denied}")
    whole = [e for e in events if e.get("process") and e["net"].get("dport")]
    tap.ok(len(whole) >= len(events) - FLOOD_S and sum(e["count"] > 1 for e in whole), "what stands for others is an event with all its details",
           f"{len(whole)} of {len(events)}")


def killed(tap, daemon, restart):
    """SIGKILL of cordond while a fence floods. What was on its way to followers then is lost to them: if there was something, it is done anew."""
    for i in range(TRIES):
        flooder = Denied(f"flood-killed-{i}", 2, options=("--event-rate", "1"))
        seen = []
        daemon = killed_thrice(tap, daemon, restart, flooder, seen)
        tap.eq(flooder.finish(), 0, "the flood ends")
        tried, denied = flooder.tries()
        with Follower("flood-last", "--fence", f"{flooder.fence:016x}") as follower:
            wait_for(lambda: denials(seen + follower.of(flooder.fence) + kept_events(), flooder.fence) >= denied, 30)  # pylint: disable=cell-var-from-loop
            seen += follower.events + kept_events()
        found = {e["seq"]: e["op"] for e in seen if int(e["fence"]["id"], 16) == flooder.fence}
        missing = [n for n in range(1, max(found) + 1) if n not in found or found[n] == "gap"]
        told = denials(seen, flooder.fence)
        flooder.drop()
        if not missing:
            break
        print(f"# {told} of {denied} were told; {len(missing)} events were on their way when cordond was killed: again")
    tap.eq((missing, denied, told), ([], tried, tried), "cordond killed three times: no number is missing, and the counts add up to what was tried")


def killed_thrice(tap, daemon, restart, flooder, seen):
    """Each time when an event has just come, so that, most likely, none is on its way. Adds to seen; the daemon of then."""
    flooder.touch("go")
    for what in ("both", "front", "both"):
        with Follower(f"flood-{what}", "--fence", f"{flooder.fence:016x}", reconnect=True) as follower:
            seen += kept_events()  # of before the follower
            for _ in range(3):
                n = len(follower.of(flooder.fence))
                wait_for(lambda: len(follower.of(flooder.fence)) > n, 60)  # pylint: disable=cell-var-from-loop
            flooder.freeze(True)
            time.sleep(0.2)
            daemon.kill(what)
            flooder.freeze(False)
            follower.drain()
            seen += follower.events
        if what == "both":
            daemon = restart()
        tap.ok(wait_for(lambda: listed(flooder.fence), 120), f"{what} killed: the fence is there again")
    return daemon
