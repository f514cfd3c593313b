# SPDX-License-Identifier: Apache-2.0
"""
What the tests of fences that outlive their owner share: owners that do as they are told and are killed, and an attacker that tries
all the time. For the guest of tests/vm; root.
"""
import os
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "run"))
from guest import *  # pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

tap = Tap()
OWNER = f"{HERE}/../../build/tests/keep/owner"
WORK = f"{BASE}/keep"
OUT = f"{BASE}/outside"
CGROUP = f"{CGROUPS}/keep-test"


class Owner:
    """owner.c behind a pipe."""

    def __init__(self, program=None):
        self.process = subprocess.Popen([program or OWNER, "--policy", f"{BASE}/keep.yaml", "--workdir", WORK],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the owner ended with {self.process.wait()}")
        return line.split()

    def ask(self, line):
        """The words of an answer, the first of which is ok or error."""
        self.send(line)
        return self.receive()

    def __call__(self, line):
        """The same of one that must be well; without the ok."""
        got = self.ask(line)
        if got[0] != "ok":
            raise RuntimeError(f"{line}: {' '.join(got)}")
        return got[1:]

    def kill(self):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class Attacker:
    """loop.py, first outside of every fence."""

    def __init__(self, name):
        self.bad, self.good = Listener(), Listener()
        self.file = f"{WORK}/{name}.counters"
        for path, size in ((self.file, 4096), (f"{WORK}/twin", 0), (OUT, 0)):
            with open(path, "wb") as f:
                f.write(b"\0" * size)
        with open(f"{BASE}/keep.yaml", "w", encoding="utf-8") as f:
            f.write("cordon: 1\nname: keep\nnetwork:\n  allow:\n    - {to: 127.0.0.1/32, port: %d, proto: tcp}\n" % self.good.port)
        self.process = subprocess.Popen([sys.executable, f"{HERE}/loop.py", self.file, OUT, str(self.bad.port), f"{WORK}/twin",
                                         str(self.good.port)])
        self.base = [0] * 6

    def counts(self):
        with open(self.file, "rb") as f:
            return list(struct.unpack("=6Q", f.read(48)))

    def more(self, n=1, seconds=60):
        """Waits for n further rounds."""
        have = self.counts()[0]
        return wait_for(lambda: self.counts()[0] >= have + n, seconds)

    def control(self):
        """Nothing holds it: both attacks get through."""
        self.more(5)
        got = self.counts()
        tap.ok(got[1] >= 5 and got[2] >= 5 and self.bad.accepted() >= 5 and os.path.getsize(OUT) >= 5,
               "control: without a fence both attacks get through", got)

    def fenced(self):
        """From now on nothing may get through."""
        self.more(2)
        self.base = self.counts()
        self.reached, self.size = self.bad.accepted(), os.path.getsize(OUT)

    def judge(self, what):
        self.more(3)
        got, base = self.counts(), self.base
        tap.ok(got[1:3] == base[1:3] and os.path.getsize(OUT) == self.size and self.bad.accepted() == self.reached,
               f"{what}: 0 of {got[0] - base[0]} attacks got through", f"{got} {base}")
        tap.ok(got[0] > base[0] and got[3:5] == base[3:5], f"{what}: and what is allowed always worked", f"{got} {base}")

    def kill(self):
        self.process.kill()
        self.process.wait()


def cgroup_make():
    if not os.path.isdir(CGROUP):
        os.mkdir(CGROUP)


def enter(process):
    with open(f"{CGROUP}/cgroup.procs", "w", encoding="utf-8") as f:
        f.write(str(process.pid))


def accounted(words, what):
    """read's or finish's answer, all in all: is every number accounted for?"""
    records, _, _, gaps, repeated, numbered = map(int, words)
    return tap.ok(records + gaps - repeated == numbered, f"{what}: {records} events, {gaps} counted as lost: all of {numbered} numbers",
                  f"repeated {repeated}")


def fence_attacker(name):
    """An attacker in a cgroup with a kept fence, and who owns it."""
    cgroup_make()
    attacker = Attacker(name)
    attacker.control()
    owner = Owner()
    fence = owner(f"make {CGROUP}")[0]
    enter(attacker.process)
    attacker.fenced()
    owner("keep first")
    return attacker, owner, fence


def unfence(attacker, owner):
    """All ends; and then the attacks get through again."""
    owner("end")
    before = attacker.counts()

    def through():
        attacker.more(4)
        got = attacker.counts()
        return got[1] > before[1] and got[2] > before[2]

    tap.ok(wait_for(through), "control: after the end of the fence both attacks get through", f"{before} {attacker.counts()}")
    attacker.kill()
    owner("close")
    owner.end()
    wait_for(lambda: not processes("loop.py"))
    os.rmdir(CGROUP)
