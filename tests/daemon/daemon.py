# SPDX-License-Identifier: Apache-2.0
"""
What the tests of cordond share: the daemon with a socket for what it tells systemd, followers, and tasks in cgroups of their own.
"""
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

from guest import AGENT_COMMAND, BASE, CGROUPS, RUN, Agent, Listener, cordon, wait_for, workdir

SOCKET = f"{RUN}/cordond.sock"
START_S = 120

# Without LSM programs files are not held: tests/keep/native.
DEGRADED = "CORDON_DEGRADED" in os.environ
METADATA = "169.254.169.254"

# For an agent. One who is refused finds the answer there and nobody who listens any more.
DEFINE_ASK = "exec(" + repr(f"""
def ask_daemon():
    c = socket.socket(socket.AF_UNIX)
    c.settimeout(20)
    c.connect("{SOCKET}")
    try:
        c.send(json.dumps(dict(do="status")).encode() + bytes([10]))
    except BrokenPipeError:
        pass
    return c.recv(65536).decode()
""") + ", globals())"


def accounts():
    """The users and groups of the tests."""
    for line in ("useradd -r -M -s /usr/sbin/nologin cordon", "useradd -r -M -U -s /usr/sbin/nologin cordon-gateway", "groupadd -r cordon-operators", "groupadd -r cordon-readers",
                 "useradd -M -G cordon-readers auditor", "useradd -M -G cordon-operators steerer"):
        subprocess.run(line.split(), stderr=subprocess.DEVNULL, check=False)


def as_user(user, *command, timeout=200):
    return subprocess.run(["setpriv", f"--reuid={user}", f"--regid={user if user != 'nobody' else 'nogroup'}", "--init-groups", *command],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, check=False)


def proc_status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


class Daemon:
    """cordond, and what it says."""

    def __init__(self, *options, program="cordond"):
        self.dir = tempfile.mkdtemp(dir=BASE)
        self.options = options
        self.program = program
        self.notices = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"{self.dir}/notify")
        threading.Thread(target=self.listen, daemon=True).start()
        with open(f"{self.dir}/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([program, *(["--degraded", "--user", "nobody"] if DEGRADED else []), *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, "NOTIFY_SOCKET": f"{self.dir}/notify", "WATCHDOG_USEC": "60000000"})

    def listen(self):
        while True:
            self.notices.extend(self.socket.recv(4096).decode().splitlines())

    def log(self):
        with open(f"{self.dir}/log", encoding="utf-8") as f:
            return f.read()

    def ready(self, seconds=START_S):
        wait_for(lambda: "READY=1" in self.notices or self.process.poll() is not None, seconds)
        return "READY=1" in self.notices

    def configure(self, text):
        """Another text in its configuration, read anew."""
        with open(self.options[self.options.index("--config") + 1], "w", encoding="utf-8") as f:
            f.write(text)
        self.notices.clear()
        self.process.send_signal(signal.SIGHUP)
        return wait_for(lambda: "READY=1" in self.notices, 60)

    def front(self):
        """Its process id."""
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="utf-8") as f:
                pids = f.read().split()
        except OSError:  # it has ended
            return None
        for pid in pids:
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as cmdline:
                    if "front" in cmdline.read():
                        return int(pid)
            except OSError:  # it is gone by now
                pass
        return None

    def kill(self, what):
        """SIGKILL to the front, the keeper or both."""
        front = self.front()
        if what in ("front", "both") and front:
            os.kill(front, signal.SIGKILL)
        if what in ("keeper", "both"):
            self.process.kill()
            self.process.wait(60)
        if what == "front":
            wait_for(lambda: self.front() not in (None, front))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


class Follower:
    """cordon events -f, which ends with cordond unless reconnect."""

    all = []

    def __init__(self, name, *options, reconnect=False):
        self.events = []
        options = options if reconnect else ("--no-reconnect", *options)
        self.bytes = 0
        self.name = name
        self.rest = b""
        # Into a file: nobody is quick enough to read a pipe while doing something else.
        self.output = tempfile.TemporaryFile()  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(["cordon", "events", "-f", "-o", "json", *options], stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.DEVNULL)
        self.all.append(self)
        # What happens before cordond counts it among the readers it does not see.
        wait_for(lambda: json.loads(ask({"do": "status"}))["readers"] == sum(f.connected() for f in self.all), 120)

    def connected(self):
        """Is it there still? Who is refused, or loses its cordond, ends."""
        return self.process.poll() is None

    def drain(self):
        while data := os.pread(self.output.fileno(), 1 << 20, self.bytes):
            self.bytes += len(data)
            lines = (self.rest + data).split(b"\n")
            self.rest = lines.pop()
            self.events.extend(json.loads(line) for line in lines)

    def of(self, fence):
        self.drain()
        return [e for e in self.events if int(e["fence"]["id"], 16) == fence]

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)
        self.drain()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


# For an agent: an HTTP request to the gateway of these tests; its status and word. And a frame to cordond's socket of gateways.
GATEWAY_PORT = 8899
EVENTS_SOCKET = f"{RUN}/gateway-events.sock"
TELL = f"""
def refund(order, amount, key, tenant="t-1", path="/refund"):
    body = json.dumps(dict(tenant=tenant, order_id=order, amount=amount, idempotency_key=key)).encode()
    s = socket.create_connection(("127.0.0.1", {GATEWAY_PORT}), 60)
    s.sendall(b"POST " + path.encode() + b" HTTP/1.1\\r\\nHost: g\\r\\nConnection: close\\r\\nContent-Length: " + str(len(body)).encode() + b"\\r\\n\\r\\n" + body)
    got = b""
    while chunk := s.recv(65536):
        got += chunk
    s.close()
    answer = json.loads(got.split(b"\\r\\n\\r\\n", 1)[1] or b"null") or dict()
    return [int(got.split()[1]), answer.get("error") or answer.get("status")]
def tell_frame(frame):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(60)
    s.connect("{EVENTS_SOCKET}")
    try:
        s.send(bytes.fromhex(frame))
    except BrokenPipeError:
        pass
    try:
        return int.from_bytes(s.recv(16)[4:8], "little", signed=True)
    except ConnectionResetError:
        return "reset"
    finally:
        s.close()
"""
DEFINE_TELL = "exec(" + repr(TELL) + ", globals())"


def frame(op, rule, verdict, fence=0, number=1):
    """One of user/event/frame.h, without texts; op and the others by their numbers."""
    return struct.pack("=IHHQQQQQqqqqqqIIBBBBBBBx18H4x", 0x57474443, 3, 152, 4711, number, fence, 0, 0, 0, -1, -1, -1, 0, 0, 0, 0, op, rule, verdict, 0, 0, 0, 0,
                       *[0] * 18).hex()


def numbers(table):
    """Rows of a table of include/cordon/tables.h by their names in C."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../include/cordon/tables.h")
    with open(path, encoding="utf-8") as f:
        body = f.read().partition(f"#define {table}(")[2].partition("\n\n")[0]
    return {name: i for i, name in enumerate(re.findall(r"^\t[A-Z]\((\w+),", body, re.M))}


class Gateway:
    """cordon-gateway as it is to be run, with cordond for its events; orders o-1 of t-1 and o-2 of t-2."""

    def __init__(self, more="", limits="connections: 256"):
        self.dir = f"{BASE}/gateway"
        os.makedirs(self.dir, exist_ok=True)
        tools = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../policies/tools/refund.yaml")
        with open(tools, encoding="utf-8") as f:
            refund = f.read()
        texts = {"refund.yaml": refund, "look.yaml": re.sub(r"^name: .*", "name: look", re.sub(r"^route: .*", "route: /look", refund, flags=re.M), flags=re.M) +
                 "destructive: false\n",
                 "gateway.yaml": f"cordon: 1\nlisten: ['127.0.0.1:{GATEWAY_PORT}']\nstore: sqlite:{self.dir}/orders.db\nadmin: {self.dir}/admin.sock\n"
                                 f"tools: [refund.yaml, look.yaml]\nlimits: {{{limits}}}\n" + more}
        for name, text in texts.items():
            with open(f"{self.dir}/{name}", "w", encoding="utf-8") as f:
                f.write(text)
        for name in os.listdir(self.dir):
            if name.startswith("orders.db"):
                os.unlink(f"{self.dir}/{name}")
        books = sqlite3.connect(f"{self.dir}/orders.db")
        books.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, amount_paid BIGINT NOT NULL, refunded BIGINT NOT NULL DEFAULT 0)")
        books.executemany("INSERT INTO orders VALUES (?, ?, 1000000, 0)", (("o-1", "t-1"), ("o-2", "t-2")))
        books.commit()
        books.close()
        for name in (".", *os.listdir(self.dir)):
            shutil.chown(f"{self.dir}/{name}", "cordon-gateway", "cordon-gateway")
        for directory in (BASE, os.path.dirname(BASE)):
            os.chmod(directory, 0o755)
        with open(f"{self.dir}/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(["setpriv", "--reuid=cordon-gateway", "--regid=cordon-gateway", "--init-groups", "--bounding-set=-all", "--inh-caps=-all",
                                             "cordon-gateway", "--config", f"{self.dir}/gateway.yaml"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: "ready" in self.log() or self.process.poll() is not None, 120)

    def log(self):
        with open(f"{self.dir}/log", encoding="utf-8") as f:
            return f.read()

    def refunded(self, order="o-1"):
        books = sqlite3.connect(f"{self.dir}/orders.db", timeout=60)
        try:
            return books.execute("SELECT refunded FROM orders WHERE id = ?", (order,)).fetchone()[0]
        finally:
            books.close()

    def stop(self):
        self.process.terminate()
        return self.process.wait(90)


def ask(request):
    """One request, its first line."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(SOCKET)
        s.sendall(json.dumps(request).encode() + b"\n")
        return s.makefile().readline()


def listed(fence):
    """The row of cordon list, or None."""
    if not fence:
        return None
    got = cordon("list", "--json")
    for line in got.stdout.splitlines():
        row = json.loads(line)
        if int(row["id"], 16) == fence:
            return row
    return None


def kept_events():
    return [json.loads(line) for line in cordon("events", "-o", "json").stdout.splitlines()]


class Task(Agent):
    """An agent of the host in a cgroup of its own."""

    def __init__(self, name):
        self.cgroup = f"{CGROUPS}/{name}"
        self.work = workdir(name)
        self.listener = Listener()
        os.makedirs(self.cgroup, exist_ok=True)
        super().__init__(AGENT_COMMAND, cwd=self.work)
        self.enter(self.pid)

    def enter(self, pid):
        with open(f"{self.cgroup}/cgroup.procs", "w", encoding="utf-8") as procs:
            procs.write(str(pid))

    def tries(self, agent=None):
        return (agent or self)(f"[attempt(lambda: f(*a)) for f, a in ((write, ['/etc/cordon-outside']), (write, ['/tmp/cordon-outside']), "
                               f"(connect, ['127.0.0.1', {self.listener.port}]), (write, ['{self.work}/inside']))]")

    def drop(self):
        self.end()
        wait_for(lambda: not open(f"{self.cgroup}/cgroup.procs", encoding="utf-8").read())
        for _ in range(50):
            try:
                os.rmdir(self.cgroup)
                return
            except OSError:
                time.sleep(0.1)


# Attacks by each of three ways, writes in its workdir, for ever; counts all where they can be read from outside.
LOOP = r"""
import mmap, os, socket, struct, sys, time
work, port, metadata, pause, go = sys.argv[1], int(sys.argv[2]), (sys.argv[3], int(sys.argv[4])), float(sys.argv[5]), sys.argv[6]
f = open(work + "/counts", "r+b")
m = mmap.mmap(f.fileno(), 4096)
done, ways = 0, [0, 0, 0]
def connect(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(2)
        s.connect((host, port))
while not os.path.exists(go):
    time.sleep(0.01)
while True:
    for way, attack in enumerate((lambda: os.close(os.open("/etc/cordon-attack", os.O_WRONLY | os.O_CREAT)),
                                  lambda: connect("127.0.0.1", port), lambda: connect(*metadata))):
        try:
            attack()
            ways[way] += 1
        except OSError:
            pass
    with open(work + "/twin", "w") as t:
        t.write("x")
    done += 1
    m[:40] = struct.pack("5Q", sum(ways), done, *ways)
    time.sleep(pause)
"""


def metadata_make():
    """An address of this host to which an attack without a fence succeeds."""
    subprocess.run(["ip", "address", "replace", f"{METADATA}/32", "dev", "lo"], check=True)


class Loop:
    """An attacker's loop in a cgroup of its own. metadata: where a stand-in for that service listens."""

    def __init__(self, name, metadata=None, pause=0.002):
        self.cgroup = f"{CGROUPS}/{name}"
        self.work = workdir(name)
        self.go = f"{self.work}/go"
        self.listener = Listener()
        os.makedirs(self.cgroup, exist_ok=True)
        with open(f"{self.work}/counts", "wb") as f:
            f.write(bytes(4096))
        self.process = subprocess.Popen([sys.executable, "-c", LOOP, self.work, str(self.listener.port),
                                         METADATA, str(metadata.port if metadata else 1), str(pause), self.go])
        with open(f"{self.cgroup}/cgroup.procs", "w", encoding="utf-8") as procs:
            procs.write(str(self.process.pid))
        if name.endswith("control"):
            self.begin()

    def begin(self):
        with open(self.go, "w", encoding="utf-8"):
            pass

    def counts(self):
        """Attacks that succeeded, rounds whose write in the workdir worked."""
        return self.numbers()[:2]

    def ways(self):
        """Of those attacks: writes outside, connects outside, connects to the metadata service."""
        return self.numbers()[2:]

    def escapes(self):
        """What should not be; without LSM programs writing is not held."""
        return sum(self.ways()[1 if DEGRADED else 0:])

    def numbers(self):
        with open(f"{self.work}/counts", "rb") as f:
            return struct.unpack("5Q", f.read(40))

    def end(self):
        self.process.kill()
        self.process.wait()
        for _ in range(100):
            try:
                os.rmdir(self.cgroup)
                return
            except OSError:
                time.sleep(0.1)
