# SPDX-License-Identifier: Apache-2.0
"""
What the tests of cordon in a running system share: TAP, a process that does things inside a fence when it is told
to, recorded events, and what may not be left behind. For the guest of tests/vm; root.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

BASE = "/scratch/cordon-tests"
PINS = "/sys/fs/bpf/cordon"
CGROUPS = "/sys/fs/cgroup"
RUN = "/run/cordon"
START_S = 90  # for a fence to come up in an emulated machine
GROUP_S = 300


def time_is_up(number, frame):
    raise TimeoutError(f"the group took longer than {GROUP_S} s")


class Tap:
    """Counts and prints; nothing stops at a failure."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def ok(self, good, name, detail=""):
        number = self.passed + self.failed + self.skipped + 1
        print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
        if good:
            self.passed += 1
        else:
            self.failed += 1
            for line in str(detail).splitlines()[:40]:
                print(f"#   {line[:1000]}", flush=True)
        return good

    def eq(self, got, want, name):
        return self.ok(got == want, name, f"got  {got!r}\nwant {want!r}")

    def skip(self, name, why):
        self.skipped += 1
        print(f"ok {self.passed + self.failed + self.skipped} - {name} # SKIP {why}", flush=True)

    def group(self, function, *args):
        """Runs one group of tests; what it raises is one failure."""
        began = time.monotonic()
        signal.signal(signal.SIGALRM, time_is_up)
        signal.alarm(GROUP_S)
        try:
            function(*args)
        except Exception as e:  # pylint: disable=broad-except
            self.ok(False, f"{function.__name__}: ran to its end", f"{e!r}\n{traceback.format_exc()}")
        signal.alarm(0)
        print(f"# {function.__name__}: {time.monotonic() - began:.1f} s", flush=True)

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.exit(1 if self.failed else 0)


def need_guest():
    if os.geteuid() or "CORDON_VM" not in os.environ:
        sys.exit("to be run as root in the guest: tests/vm/run -- " + sys.argv[0])
    with open("/proc/mounts", encoding="utf-8") as f:  # what the suite before this one mounted
        mounted = [line.split()[1] for line in f if line.split()[1].startswith(BASE + "/")]
    for path in reversed(mounted):
        subprocess.run(["umount", path], check=True)
    shutil.rmtree(BASE, ignore_errors=True)
    os.makedirs(BASE)


def workdir(name):
    path = f"{BASE}/{name}"
    os.makedirs(path, exist_ok=True)
    return path


def cordon(*args, timeout=120, **kw):
    """A cordon command to its end; output as text."""
    kw.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(["cordon", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout, **kw)


def run(*command, options=(), work=None, **kw):
    """cordon run in a workdir of its own."""
    return cordon("run", "-w", work or workdir("w"), *options, "--", *command, **kw)


def fence_cgroup(fence):
    """The path of a fence's cgroup, as Cordon notes it: user/enforce/run.c."""
    for name in os.listdir(RUN):
        if name.startswith("cgroup-"):
            owner, _, rest = os.readlink(f"{RUN}/{name}").partition(":")
            if int(owner) == fence and ":" in rest:
                return rest.partition(":")[2]
    with open(f"{RUN}/fence-{fence}", encoding="utf-8") as f:
        return f.read()


def fence_id(line):
    """The number of a fence as commands print it, or None."""
    return int(line, 16) if re.fullmatch("[0-9a-f]{16}", line.strip()) else None


def events(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f.read().splitlines(True) if line.endswith("\n")]


def denials(path):
    return [e for e in events(path) if e["verdict"] == "deny"]


def brief(found):
    """Events as lines for a person."""
    return "\n".join(f"{e['seq']} {e['type']}/{e['op']} {e['verdict']} {e['rule']} {e.get('errno')} "
                     f"{(e.get('process') or {}).get('comm')} {e.get('file') or e.get('net') or e.get('guard')}"
                     for e in found)


def complete(found):
    """Is every number of a fence's events accounted for? A line that says what is wrong, or None."""
    if not found:
        return "no events"
    gaps = sum(e["count"] for e in found if e["op"] == "gap")
    last = max(e["seq"] for e in found)
    if len({e["seq"] for e in found}) != len(found):
        return "a number occurs twice"
    if len(found) + gaps != last:
        return f"{len(found)} events and {gaps} lost are not {last}"
    if len({e["fence"]["id"] for e in found}) != 1:
        return "events of more than one fence"
    return None


# Reads an expression a line and answers with its value, or the name of the errno, as JSON.
AGENT = r"""
import errno, json, os, signal, socket, subprocess, sys, time
def write(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, b"x")
    os.close(fd)
    return "ok"
def connect(host, port, timeout=5):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(timeout)
    try:
        s.connect((host, port))
    finally:
        s.close()
    return "ok"
def send(host, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        s.sendto(b"x", (host, port))
    finally:
        s.close()
    return "ok"
def deny(path, n):
    done = 0
    for _ in range(n):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        except OSError as e:
            done += e.errno == errno.EROFS
    return done
def in_child(f, *args):
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(w, json.dumps(attempt(lambda: f(*args))).encode())
        os._exit(0)
    os.close(w)
    answer = json.loads(os.read(r, 65536))
    os.close(r)
    os.waitpid(pid, 0)
    return answer
def attempt(f):
    try:
        return f()
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
def status():
    with open("/proc/self/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
print(json.dumps(os.getpid()), flush=True)
for line in sys.stdin:
    print(json.dumps(attempt(lambda: eval(line))), flush=True)
"""

AGENT_COMMAND = [sys.executable, "-c", AGENT]


class Agent:
    """The agent behind a pipe; with or without a fence around it."""

    def __init__(self, command, **kw):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        **kw)
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError(f"{command[0]} ended with {self.process.returncode} before its command started")
        self.pid = json.loads(line)

    def __call__(self, expression):
        self.process.stdin.write(expression.replace("\n", " ") + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the agent is gone at {expression}")
        return json.loads(line)

    def end(self, timeout=60):
        """Its code."""
        if self.process.stdin:
            self.process.stdin.close()
            self.process.stdin = None
        return self.process.wait(timeout)


# Names of Cordon's programs as the kernel has them, learned from the pins of the first fence.
PROGRAMS = set()


class Fence(Agent):
    """cordon run with the agent inside."""

    def __init__(self, name, *options, **kw):
        self.work = workdir(name)
        self.events = f"{BASE}/{name}.events"
        super().__init__(["cordon", "run", "-w", self.work, "-e", self.events, *options, "--", *AGENT_COMMAND], **kw)
        self.cordon_pid = self.process.pid
        for pin in os.listdir(PINS):
            kind, _, name = pin.partition("_")
            if kind in ("link", "prog"):
                PROGRAMS.add(name[:15])

    @property
    def id(self):
        return int(wait_for(lambda: events(self.events), 60)[-1]["fence"]["id"], 16)

    @property
    def cgroup(self):
        return fence_cgroup(self.id)

    def kill(self):
        """SIGKILL to cordon, not to what it runs."""
        os.kill(self.cordon_pid, signal.SIGKILL)
        self.process.wait(60)


class Listener:
    """A TCP listener outside of every fence that counts who came, and hangs up."""

    def __init__(self, host="127.0.0.1"):
        self.socket = socket.create_server((host, 0), backlog=64)
        self.port = self.socket.getsockname()[1]
        self.count = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            peer, _ = self.socket.accept()
            self.count += 1
            peer.close()

    def accepted(self):
        time.sleep(0.1)
        return self.count


def processes(text):
    """The ids of processes that have text in their arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if int(pid) != os.getpid() and text.encode() in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    return condition()


def programs_loaded():
    """Cordon's programs that the kernel has; None where nobody can tell."""
    if not shutil.which("bpftool"):
        return None
    out = subprocess.run(["bpftool", "-j", "prog"], stdout=subprocess.PIPE, check=False).stdout
    return sorted({p.get("name", "") for p in json.loads(out)} & PROGRAMS)


def leftovers():
    """What of Cordon is still there; empty when it left nothing behind."""
    left = []
    if os.path.exists(PINS):
        left += [f"{PINS}/{n}" for n in os.listdir(PINS)] or [PINS]
    if os.path.exists(f"{CGROUPS}/cordon"):
        left.append(f"{CGROUPS}/cordon: {os.listdir(f'{CGROUPS}/cordon')}")
    if os.path.exists(RUN):
        left += [f"{RUN}/{n}" for n in os.listdir(RUN) if n not in ("lock", "identity", "cordond.lock", "cordond")]
        if os.path.exists(f"{RUN}/cordond"):  # so does this
            left += [f"{RUN}/cordond/{n}" for n in os.listdir(f"{RUN}/cordond")]
        if os.path.exists(f"{RUN}/identity"):  # the directory stays, empty
            left += [f"{RUN}/identity/{n}" for n in os.listdir(f"{RUN}/identity")]
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        left += [line.strip() for line in f if "cordon-selftest" in line]
    # The kernel drops programs one after the other, some seconds after their pins; on a busy host minutes.
    if not left and wait_for(lambda: not programs_loaded(), 180) is False:
        left.append(f"programs {programs_loaded()}")
    return left
