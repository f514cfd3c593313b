# SPDX-License-Identifier: Apache-2.0
"""What the gateway's tests stand on: gateways, databases, callers, raw HTTP."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("CORDON_BUILD", os.path.join(ROOT, "build"))
PROGRAM = os.path.join(BUILD, "tests", "cordon-gateway-test")

TENANTS = 90
ORDERS = 6
PAID = 100000

ORDERS_SQL = ("CREATE TABLE orders (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, amount_paid BIGINT NOT NULL, "
              "refunded BIGINT NOT NULL DEFAULT 0);")

TOOL = """\
cordon: 1
name: {name}
route: {route}
scope: {scope}
input:
  type: object
  required: [tenant, order_id, amount]
  properties:
    tenant: {{type: string, minLength: 1, maxLength: 64}}
    order_id: {{type: string, maxLength: 64, pattern: "^[A-Za-z0-9][A-Za-z0-9_.-]{{0,63}}$"}}
    amount: {{type: integer}}
    idempotency_key: {{type: string, minLength: 1, maxLength: 128}}
tenant: tenant
object:
  id: order_id
  query: SELECT tenant, amount_paid - refunded AS remaining FROM orders WHERE id = :object
amount: amount
{limits}
idempotency: {{key: idempotency_key}}
executor:
{executor}
result: [refunded, remaining]
"""

SQL_EXECUTOR = """\
  sql: >-
    UPDATE orders SET refunded = refunded + :amount
    WHERE id = :object AND tenant = :tenant AND amount_paid - refunded >= :amount
    RETURNING CAST(:amount AS BIGINT) AS refunded, amount_paid - refunded AS remaining"""


class Skip(Exception):
    """This host cannot run the case; says why."""


def order(tenant, number=1):
    return f"o-{tenant}-{number}"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Reply:
    """One HTTP answer; status 0: the connection ended without one."""

    def __init__(self, status=0, headers=None, body=b"", closed=False):
        self.status, self.headers, self.body, self.closed = status, headers or {}, body, closed

    @property
    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return {}

    @property
    def word(self):
        """The status or error word of the answer."""
        value = self.json
        return value.get("status") or value.get("error") if isinstance(value, dict) else None

    def __repr__(self):
        return f"{self.status} {self.body[:200]!r}"


REFUSED = set()  # words of all refusals that were read


def judged(reply):
    """Every refusal that any test gets has all that an agent acts on; the faults of JSON-RPC have it in their data."""
    found = reply.json.get("error") if reply.status and isinstance(reply.json, dict) else None
    if isinstance(found, dict):
        found = found["data"]
    elif isinstance(found, str):
        found = reply.json
    if found:
        assert set(found) == {"error", "reason", "rule", "retry", "ask"}, reply
        assert found["retry"] in ("never", "changed", "same_key") and found["rule"].startswith("gateway."), reply
        assert found["error"] and found["reason"] and (found["ask"] is None or found["ask"]), reply
        REFUSED.add(found["error"])
    return reply


class Connection:
    """A raw connection of one caller. The caller is told by the source address (see identity_test.c)."""

    def __init__(self, address, source=None, timeout=60):
        if isinstance(address, str):
            self.sock = socket.socket(socket.AF_UNIX)
            if source:
                self.sock.bind(source)
        else:
            self.sock = socket.socket()
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if source:
                self.sock.setsockopt(socket.SOL_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
                self.sock.bind((source, 0))
        self.sock.settimeout(timeout)
        self.sock.connect(address)
        self.buffer = b""

    def send(self, data):
        self.sock.sendall(data)

    def _more(self):
        try:
            data = self.sock.recv(65536)
        except ConnectionError:
            data = b""
        self.buffer += data
        return bool(data)

    def read(self, bodiless=False):
        """The next answer; 100 Continue is passed over. bodiless: to HEAD."""
        while b"\r\n\r\n" not in self.buffer:
            if not self._more():
                return Reply(closed=True)
        head, _, rest = self.buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
        size = int(headers.get("content-length", 0))
        self.buffer = rest
        if status == 100:
            return self.read(bodiless)
        if bodiless:
            return Reply(status, headers)
        while len(self.buffer) < size:
            if not self._more():
                return Reply(status, headers, self.buffer, True)
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return judged(Reply(status, headers, body))

    def at_end(self, timeout=30):
        """Does the other side close, without another byte?"""
        self.sock.settimeout(timeout)
        try:
            return not self.buffer and not self._more()
        except (TimeoutError, socket.timeout):
            return False

    def request(self, method, path, body=None, headers=()):
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body or b""
        lines = [f"{method} {path} HTTP/1.1", "Host: gateway", *headers]
        if data or method == "POST":
            lines.append(f"Content-Length: {len(data)}")
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data)
        return self.read()

    def post(self, path, body=None, headers=()):
        return self.request("POST", path, body, headers)

    def get(self, path, headers=()):
        return self.request("GET", path, None, headers)

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Sqlite:
    name = "sqlite"

    def __init__(self, directory):
        self.path = os.path.join(directory, "store.db")
        self.url = "sqlite:" + self.path
        self.script(ORDERS_SQL)

    def script(self, sql):
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(sql)

    def rows(self, sql):
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as db:
            return [tuple(row) for row in db.execute(sql)]

    def crash(self):
        """An embedded database dies with its gateway."""

    def close(self):
        pass


class Postgres:
    name = "postgresql"
    tool = os.path.join(ROOT, "tests", "ledger", "pg")

    def __init__(self, directory, durable=False):
        self.directory = os.path.join(directory, "pg")
        os.makedirs(self.directory)
        os.chmod(directory, 0o755)
        done = subprocess.run([self.tool, "start", self.directory] + (["durable"] if durable else []),
                              stdout=subprocess.PIPE, text=True, check=True)
        self.url = done.stdout.strip()
        self.script(ORDERS_SQL)

    def script(self, sql):
        subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", self.url], input=sql, text=True, check=True,
                       stdout=subprocess.DEVNULL)

    def rows(self, sql):
        done = subprocess.run(["psql", "-X", "-A", "-t", "-F", "\t", "-c", sql, self.url], stdout=subprocess.PIPE,
                              text=True, check=True)
        convert = lambda field: int(field) if field.lstrip("-").isdigit() else field
        return [tuple(convert(f) for f in line.split("\t")) for line in done.stdout.splitlines()]

    def crash(self):
        subprocess.run([self.tool, "kill", self.directory], check=True, stdout=subprocess.DEVNULL)

    def again(self):
        subprocess.run([self.tool, "again", self.directory], check=True, stdout=subprocess.DEVNULL)

    def close(self):
        subprocess.run([self.tool, "stop", self.directory], check=False, stdout=subprocess.DEVNULL)


class World:
    """A directory with a database, tools, fences; gateways are started in it."""

    def __init__(self, engine, durable=False):
        self.directory = tempfile.mkdtemp(prefix="cordon-gw-")
        self.gateways = []
        self.lock = threading.Lock()
        self.fences = {}
        self.next_fence = 1
        self.ids = os.path.join(self.directory, "ids")
        self._write_ids()
        self.db = Sqlite(self.directory) if engine == "sqlite" else Postgres(self.directory, durable)
        rows = ",".join(f"('o-t-{t}-{n}', 't-{t}', {PAID}, 0)" for t in range(TENANTS) for n in range(1, ORDERS + 1))
        self.db.script("INSERT INTO orders (id, tenant, amount_paid, refunded) VALUES " + rows + ";")
        self.tools = {}
        self.add_tool("refund", limits="limits: {single: 10000, daily: 50000, over: approve}")
        self.add_tool("strict", limits="limits: {single: 10000, daily: 10000, over: refuse}")
        self.add_tool("free", limits="")

    def add_tool(self, name, limits="", executor=SQL_EXECUTOR, scope=None, extra=""):
        path = os.path.join(self.directory, name + ".yaml")
        text = TOOL.format(name=name, route="/" + name, scope=scope or f"{name}:create", limits=limits,
                           executor=executor) + extra
        with open(path, "w") as f:
            f.write(text)
        self.tools[name] = path

    def _write_ids(self):
        temporary = self.ids + ".new"
        with open(temporary, "w") as f:
            for line in self.fences.values():
                f.write(line + "\n")
        os.rename(temporary, self.ids)

    def fence(self, tenant=None, subject="alice", scopes=("refund:create", "strict:create", "free:create"), where=None):
        """A new fence, of a tenant of its own where none is given. Returns its place and its tenant."""
        with self.lock:
            number = self.next_fence
            self.next_fence += 1
            where = where or f"127.0.{1 + number // 200}.{1 + number % 200}"
            tenant = tenant or f"t-{number}"
            assert int(tenant.split("-")[1]) < TENANTS, "more tenants than the test has made"
            self.fences[where] = f"{where} {number} {tenant} {subject} task-{number} {','.join(scopes)}"
            self._write_ids()
        for gateway in self.gateways:
            gateway.wait_known(where)
        return where, tenant

    def end_fence(self, where):
        with self.lock:
            del self.fences[where]
            self._write_ids()

    def gateway(self, **options):
        gateway = Gateway(self, len(self.gateways) + 1, **options)
        self.gateways.append(gateway)
        return gateway

    def refunded(self, order_id):
        return self.db.rows(f"SELECT refunded FROM orders WHERE id = '{order_id}'")[0][0]

    def close(self):
        for gateway in self.gateways:
            gateway.kill()
        self.db.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Gateway:
    """One process of cordon-gateway-test."""

    def __init__(self, world, number, tools=("refund", "strict", "free"), config="", limits="", unix=False, env=None,
                 store=None, events=None):
        self.world, self.number = world, number
        self.port = free_port()
        self.address = ("127.0.0.1", self.port)
        self.unix = os.path.join(world.directory, f"gw-{number}.sock") if unix else None
        self.path = os.path.join(world.directory, f"gw-{number}.yaml")
        self.log_path = os.path.join(world.directory, f"gw-{number}.log")
        self.env = dict(os.environ, CORDON_TEST_IDENTITIES=world.ids, **(env or {}))
        self.process = None
        self.ready = False
        self.events = events or os.path.join(world.directory, f"events-{number}.jsonl")
        self.settings = dict(tools=tools, config=config, limits=limits, store=store)
        self.configure()

    def configure(self, **changes):
        self.settings.update(changes)
        s = self.settings
        rate = "" if "rate:" in s["limits"] else "rate: 1000000"
        listen = [f'"127.0.0.1:{self.port}"'] + ([self.unix] if self.unix else [])
        with open(self.path, "w") as f:
            f.write("cordon: 1\n"
                    f"listen: [{', '.join(listen)}]\n"
                    f"node: n-{self.number}\n"
                    f"store: {s['store'] or self.world.db.url}\n"
                    f"admin: {self.world.directory}/admin-{self.number}.sock\n"
                    f"events: {self.events}\n"
                    f"tools: [{', '.join(self.world.tools[t] for t in s['tools'])}]\n"
                    + f"limits: {{{', '.join(filter(None, [rate, s['limits']]))}}}\n" + s["config"])

    def start(self, wait=True):
        mark = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, "a") as log:
            self.process = subprocess.Popen([PROGRAM, "--config", self.path], stdout=log, stderr=log, env=self.env)
        self.ready = False
        if wait:
            self.wait_log("ready", mark)
            self.ready = True
        return self

    def wait_log(self, word, mark=0, timeout=30):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if word in self.log()[mark:]:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f"no '{word}' in the log of the gateway: {self.log()[mark:][-600:]}")

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def signal(self, number):
        self.process.send_signal(number)

    def reload(self, word="reloaded"):
        mark = len(self.log())
        self.signal(signal.SIGHUP)
        self.wait_log(word, mark)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def stop(self, timeout=40):
        self.process.terminate()
        return self.process.wait(timeout)

    def connect(self, where=None, timeout=60):
        return Connection(self.address, where, timeout)

    def post(self, where, path, body, headers=()):
        with self.connect(where) as c:
            return c.post(path, body, headers)

    def get(self, where, path, headers=()):
        with self.connect(where) as c:
            return c.get(path, headers)

    def admin(self, *words):
        """What the admin socket answers: the last line of it."""
        done = subprocess.run([f"{BUILD}/cordon", *words, "--admin", f"{self.world.directory}/admin-{self.number}.sock"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, (words, done.stdout)
        return json.loads(done.stdout.splitlines()[-1])

    def event_list(self):
        with open(self.events) as f:
            return [json.loads(line) for line in f]

    def wait_known(self, where):
        """Until the provider of identities has read of a fence."""
        end = time.monotonic() + 60
        while self.ready and self.process.poll() is None and time.monotonic() < end:
            unix = where.startswith("/")
            if unix and not self.unix:
                return
            with Connection(self.unix if unix else self.address, where) as c:
                known = c.get("/tools").status != 401
            if unix:
                os.unlink(where)
            if known:
                return
            time.sleep(0.01)

    def request_method(self, where, method, path, body, headers=()):
        with self.connect(where) as c:
            return c.request(method, path, body, headers)

    def rss_bytes(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            for line in f:
                if line.startswith("VmRSS"):
                    return int(line.split()[1]) * 1024
        return 0


def refund(tenant, amount, key, number=1):
    return {"tenant": tenant, "order_id": order(tenant, number), "amount": amount, "idempotency_key": key}
