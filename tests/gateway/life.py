# SPDX-License-Identifier: Apache-2.0
"""The gateway's life and its surroundings: reload, drain, restart, several gateways, stores and upstreams that fail."""

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time

from cases import expect, parallel
from harness import BUILD, PAID, PROGRAM, Connection, Skip, free_port, order, refund
from upstream import REMOTE, Upstream

CASES = []
SECRET = "sk-live-6b1f9d"


def case(number, title, **options):
    def add(function):
        CASES.append((number, title, function, options))
        return function
    return add


# --- reload, drain ------------------------------------------------------------------------------------------------


@case("L-1", "reload: all of a configuration or nothing of it, and no request is lost")
def _(world):
    where, tenant = world.fence()
    gateway = world.gateway(tools=("refund",)).start()
    expect(gateway.post(where, "/free", refund(tenant, 1, "k")), 404)
    gateway.configure(tools=("refund", "free"))
    gateway.reload()
    expect(gateway.post(where, "/free", refund(tenant, 1, "k")), 200, "ok")
    # One fault anywhere: the configuration before stays.
    with open(world.tools["strict"], "a") as f:
        f.write("wumpus: 1\n")
    gateway.configure(tools=("refund", "strict"))
    gateway.reload("not reloaded")
    assert "strict.yaml:" in gateway.log() and "wumpus" in gateway.log()
    expect(gateway.post(where, "/free", refund(tenant, 1, "k")), 200, "duplicate")
    # SQL that the database refuses is found before the switch, too.
    world.add_tool("broken", executor="  sql: UPDATE nowhere SET x = :amount RETURNING x")
    gateway.configure(tools=("refund", "broken"))
    gateway.reload("not reloaded")
    expect(gateway.post(where, "/free", refund(tenant, 1, "k")), 200, "duplicate")
    # What needs a restart is said.
    gateway.configure(tools=("refund", "free"), config="workers: 5\n")
    gateway.reload("needs a restart")
    gateway.configure(config="")
    stop, failures, done = threading.Event(), [], [0]

    def client(number):
        with gateway.connect(where) as c:
            i = 0
            while not stop.is_set():
                reply = c.post("/free", refund(tenant, 1, f"c{number}-{i}", 2))
                i += 1
                if reply.word != "ok":
                    failures.append(reply)
                    return
                done[0] += 1
    clients = [threading.Thread(target=client, args=(n,)) for n in range(4)]
    for thread in clients:
        thread.start()
    for _ in range(20):
        gateway.reload()
    stop.set()
    for thread in clients:
        thread.join()
    assert not failures and done[0] > 20, (failures, done)
    assert world.refunded(order(tenant, 2)) == done[0]


@case("L-2", "reload: addresses come and go", engines=("sqlite",))
def _(world):
    where, _ = world.fence()
    gateway = world.gateway(unix=True).start()
    old, new = gateway.address, ("127.0.0.1", free_port())
    kept = Connection(old, where)
    expect(kept.get("/health"), 200)
    text = open(gateway.path).read()
    with open(gateway.path, "w") as f:
        f.write(text.replace(f'"127.0.0.1:{old[1]}"', f'"127.0.0.1:{new[1]}"').replace(f", {gateway.unix}", ""))
    gateway.reload()
    with Connection(new, where) as c:
        expect(c.get("/health"), 200)
    expect(kept.get("/health"), 200)
    time.sleep(0.1)
    for gone in (old, gateway.unix):
        try:
            Connection(gone).close()
            raise AssertionError(f"{gone} still answers")
        except OSError:
            pass
    # An address that cannot be had: nothing changes.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with open(gateway.path, "w") as f:
            f.write(text.replace(f'"127.0.0.1:{old[1]}"', f'"127.0.0.1:{taken.getsockname()[1]}"'))
        gateway.reload("not reloaded: cannot listen")
    with Connection(new, where) as c:
        expect(c.get("/health"), 200)


@case("L-3", "drain: what is under way is answered, nothing new is taken; the end is 0")
def _(world):
    upstream, gateway = remote(world)
    where, tenant = world.fence()
    replies = []
    thread = threading.Thread(target=lambda: replies.append(
        gateway.post(where, "/remote", dict(refund(tenant, 5, "k"), mode="slow"))))
    idle = gateway.connect(where)
    thread.start()
    time.sleep(0.4)
    gateway.signal(signal.SIGTERM)
    assert idle.at_end(), "an idle connection lives on"
    try:
        gateway.connect(where).close()
        raise AssertionError("a connection was taken while draining")
    except OSError:
        pass
    assert gateway.process.wait(60) == 0
    thread.join()
    expect(replies[0], 200, "ok")
    assert replies[0].headers.get("connection") == "close"
    upstream.close()


@case("L-4", "sockets: a dead one's file is replaced, a living one's never; a taken port is said", engines=("sqlite",))
def _(world):
    gateway = world.gateway(unix=True).start()
    second = world.gateway(unix=True)
    second.unix = gateway.unix
    second.configure()
    second.start(wait=False)
    assert second.process.wait(60) == 1 and "cannot listen on" in second.log()
    where, _ = world.fence()
    expect(gateway.get(where, "/health"), 200)
    gateway.kill()
    second.start()
    second.kill()
    third = world.gateway()
    third.port = gateway.port
    third.configure()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(gateway.address)
        taken.listen()
        third.start(wait=False)
        assert third.process.wait(60) == 1
        assert f"cannot listen on 127.0.0.1:{gateway.port}" in third.log()
    third.start()


@case("L-5", "the command line", engines=("sqlite",))
def _(world):
    gateway = world.gateway()

    def run(*args):
        done = subprocess.run([PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout, done.stderr
    code, out, _ = run("--config", gateway.path, "--check")
    assert code == 0 and out.endswith(": ok\n"), out
    assert run("--help")[0] == 0 and ".TH CORDON-GATEWAY" in run("--print-man")[1]
    for args, code, words in (((), 2, "--config"), (("--confg", "x"), 2, "did you mean --config"), (("x",), 2, "'x'"),
                              (("--config",), 2, "needs a value"), (("--config", "/nowhere"), 1, "/nowhere")):
        got, _, err = run(*args)
        assert got == code and words in err and err.count("\n") == 1, (args, got, err)
    text = open(gateway.path).read()
    open(gateway.path, "w").write(re.sub(r"(?m)^store: .*", "store: sqlite:/nowhere/ledger.db", text))
    code, _, err = run("--config", gateway.path)
    assert code == 1 and "its directory must be there" in err, err
    world.add_tool("broken", executor="  sql: UPDATE orders SET x = :wrong")
    gateway.configure(tools=("broken",))
    code, _, err = run("--config", gateway.path, "--check")
    assert code == 3 and ":wrong" in err
    open(gateway.path, "w").write("cordon: 1\nlisten: [127.0.0.1:1]\n")
    code, _, err = run("--config", gateway.path)
    assert code == 3 and "`store` is missing" in err


# --- restart, several gateways, a store that fails ----------------------------------------------------------------


@case("G-29", "SIGKILL and start: quota, keys and held calls are as before")
def _(world):
    where, tenant = world.fence()
    gateway = world.gateway().start()
    expect(gateway.post(where, "/strict", refund(tenant, 7000, "k1")), 200, "ok")
    held = expect(gateway.post(where, "/refund", refund(tenant, 20000, "h", 2)), 202).json["approval"]
    gateway.kill()
    if world.db.name == "postgresql":
        world.db.crash()
        world.db.again()
    gateway.start()
    expect(gateway.post(where, "/strict", refund(tenant, 7000, "k1")), 200, "duplicate")
    expect(gateway.post(where, "/strict", refund(tenant, 3001, "k2")), 429, "quota_daily")
    expect(gateway.post(where, "/strict", refund(tenant, 3000, "k3")), 200, "ok")
    assert expect(gateway.get(where, f"/approvals/{held}"), 200).json["status"] == "pending_approval"
    assert expect(gateway.post(where, "/refund", refund(tenant, 20000, "h", 2)), 202).json["approval"] == held
    assert world.refunded(order(tenant)) == 10000 and world.refunded(order(tenant, 2)) == 0


@case("G-11", "two gateways: one key, one effect; no driver's text when they meet", engines=("postgresql",))
def _(world):
    where, tenant = world.fence()
    gateways = [world.gateway().start(), world.gateway().start()]
    for round_number in range(5):
        replies = parallel(50, lambda i: gateways[i % 2].post(where, "/free", refund(tenant, 7, f"k{round_number}")))
        words = [reply.word for reply in replies]
        assert words.count("ok") == 1 and set(words) <= {"ok", "duplicate", "key_in_flight"}, words
    assert world.refunded(order(tenant)) == 35
    replies = parallel(60, lambda i: gateways[i % 2].post(where, "/strict", refund(tenant, 1000, f"q{i}", 2)))
    words = [reply.word for reply in replies]
    assert words.count("ok") == 10 and set(words) == {"ok", "quota_daily"}, words
    assert world.refunded(order(tenant, 2)) == 10000


@case("G-24", "a store that cannot be written: 503 before any effect, health is red, and it comes back")
def _(world):
    where, tenant = world.fence()
    upstream, gateway = remote(world)
    expect(gateway.post(where, "/free", refund(tenant, 1, "before")), 200, "ok")
    with unwritable(world):
        calls = [(where, "/free", refund(tenant, 1, "k")), (where, "/refund", refund(tenant, 20000, "h")),
                 (where, "/free", refund(tenant, 0, "d")), (where, "/free", b"{"),
                 (where, "/remote", refund(tenant, 1, "r")), (None, "/free", refund(tenant, 1, "x"))]

        def call(i):
            who, path, body = calls[i]
            with gateway.connect(who, timeout=30) as c:
                return c.post(path, body)
        for reply in parallel(len(calls), call):
            expect(reply, 503)
        expect(gateway.get(where, "/health"), 503, "unavailable")
        assert upstream.count() == 0
    for _ in range(100):
        if gateway.get(where, "/health").status == 200:
            break
        time.sleep(0.1)
    expect(gateway.get(where, "/health"), 200)
    for _ in range(20):
        reply = gateway.post(where, "/free", refund(tenant, 1, "k"))
        if reply.status != 503:
            break
        time.sleep(0.2)
    assert reply.word in ("ok", "duplicate"), reply
    assert world.refunded(order(tenant)) == 2
    expect(gateway.post(where, "/remote", refund(tenant, 1, "r")), 200, "ok")
    upstream.close()


@contextlib.contextmanager
def unwritable(world):
    """Somebody holds the write lock of SQLite; PostgreSQL is gone."""
    if world.db.name == "sqlite":
        with contextlib.closing(sqlite3.connect(world.db.path, timeout=10, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            yield
            db.execute("ROLLBACK")
    else:
        world.db.crash()
        yield
        world.db.again()


def cordon(gateway, *args):
    """A verb of cordon on the gateway's admin socket, as the gateway's own user."""
    done = subprocess.run([os.path.join(BUILD, "cordon"), args[0], "--admin",
                           f"{gateway.world.directory}/admin-{gateway.number}.sock", *args[1:]],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@case("A-1", "a held call: approved it is executed once, and the key tells; denied it is refused for good")
def _(world):
    upstream, gateway = remote(world, limits="limits: {single: 10, over: approve}")
    where, tenant = world.fence()
    calls = {"yes": ("/refund", refund(tenant, 20000, "yes", 1)), "no": ("/refund", refund(tenant, 20000, "no", 2)),
             "far": ("/remote", refund(tenant, 20000, "far", 3))}
    tickets = {name: expect(gateway.post(where, *call), 202).json["approval"] for name, call in calls.items()}
    assert upstream.count() == 0 and world.refunded(order(tenant)) == 0
    code, text = cordon(gateway, "approvals", "list")
    assert code == 0 and all(ticket in text for ticket in tickets.values()), text
    for name, verb in (("yes", "approve"), ("no", "deny"), ("far", "approve")):
        code, text = cordon(gateway, "approvals", verb, tickets[name], "--reason", "test")
        assert code == 0, text
    assert cordon(gateway, "approvals", "approve", tickets["yes"])[0] != 0, "approved twice"
    assert cordon(gateway, "approvals", "approve", tickets["no"])[0] != 0, "approved after it was denied"
    for name, status, word in (("yes", 200, "duplicate"), ("no", 403, "approval_denied"), ("far", 200, "duplicate")):
        for _ in range(2):
            expect(gateway.post(where, *calls[name]), status, word)
    states = {name: expect(gateway.get(where, f"/approvals/{ticket}"), 200).json["status"]
              for name, ticket in tickets.items()}
    assert states == {"yes": "ok", "no": "approval_denied", "far": "ok"}, states
    assert world.refunded(order(tenant)) == 20000 and world.refunded(order(tenant, 2)) == 0
    assert upstream.count() == 1 and upstream.seen[0][2]["Authorization"] == f"Bearer {SECRET}"
    upstream.close()


@case("E-1", "every decision is an event, before the answer; without events nothing is decided")
def _(world):
    where, tenant = world.fence()
    name = os.path.join(world.directory, "events.sock")
    gateway = world.gateway().start()
    told = [(where, refund(tenant, 5, "k"), "ok", 200), (where, refund(tenant, 5, "k"), "duplicate", 200),
            (where, refund(tenant, 0, "z"), "amount_out_of_range", 422),
            (where, refund(tenant, 20000, "h", 2), "pending_approval", 202),
            (where, refund("t-0", 5, "m"), "tenant_mismatch", 403), (where, b"{", "malformed_request", 400),
            (None, refund(tenant, 5, "u"), "unauthenticated", 401)]
    for i, (who, body, word, status) in enumerate(told):
        expect(gateway.post(who, "/refund", body), status, word)
        # It is there as soon as the answer is.
        with open(gateway.events) as f:
            events = [json.loads(line) for line in f]
        assert len(events) == i + 1, (len(events), i)
        event, inner = events[-1], events[-1]["gateway"]
        assert event["type"] == "gateway" and inner["status"] == status and inner["reason"].startswith(word), event
        assert event["verdict"] == ("allow" if status == 200 else "deny"), event
        assert inner["tool"] == "refund" and inner["record"] == i + 1 and len(inner["record_hash"]) == 64, event
        if who:
            assert event["fence"]["tenant"] == tenant and event["fence"]["subject"] == "alice", event
        if isinstance(body, dict) and who:
            assert inner["object"] == body["order_id"] and inner["amount"] == body["amount"], event
            assert inner["idempotency_key"] == body["idempotency_key"], event
    gateway.kill()
    # A socket that nobody listens on.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        second = world.gateway(events=name).start()
        expect(second.post(where, "/free", refund(tenant, 7, "s", 3)), 503, "unavailable")
        expect(second.get(where, "/health"), 503)
        assert world.refunded(order(tenant, 3)) == 0
        listener.listen()
        expect(second.post(where, "/free", refund(tenant, 7, "s", 3)), 200, "ok")
        expect(second.get(where, "/health"), 200)
        second.kill()


class Cordond:
    """Takes a gateway's frames (user/event/frame.h) as cordond does: the texts of each, and answers."""

    HEAD = struct.Struct("=IHHQQQQQqqqqqqIIBBBBBBBx18H4x")

    def __init__(self, path):
        self.path, self.told, self.hold = path, [], threading.Event()
        self.hold.set()
        self.peers = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.path.exists(path):
            os.unlink(path)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer = self.listener.accept()[0]
            except OSError:
                return
            self.peers.append(peer)
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        try:
            while data := peer.recv(65536):
                self.hold.wait()
                head = self.HEAD.unpack_from(data)
                texts, at = [], self.HEAD.size
                for length in head[23:]:
                    texts.append(data[at:at + length - 1].decode() if length else None)
                    at += length
                assert at == len(data) == head[2], (at, len(data), head)
                self.told.append(dict(number=head[4], fence=head[5], status=head[9], destructive=head[21], tenant=texts[3], task=texts[2],
                                      tool=texts[6], object=texts[8], key=texts[11], reason=texts[12]))
                peer.send(struct.pack("=Ii", 0x57474443, 0))
        except OSError:
            pass

    def die(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for peer in self.peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()


@case("G-07b", "who lacks the scope or states another tenant waits for nobody's order, and holds none", engines=("postgresql",))
def _(world):
    where, tenant = world.fence()
    stranger, other = world.fence(scopes=("nothing:x",))
    gateway = world.gateway().start()
    done = []
    with subprocess.Popen(["psql", "-X", "-q", "-t", world.db.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as psql:
        psql.stdin.write(f"BEGIN; SELECT 'locked' FROM orders WHERE id = '{order(tenant)}' FOR UPDATE;\n")
        psql.stdin.flush()
        assert "locked" in psql.stdout.readline()
        body = dict(refund(other, 1, "s"), order_id=order(tenant))
        expect(gateway.post(stranger, "/free", body), 403, "scope_denied")
        expect(gateway.post(where, "/free", dict(body, idempotency_key="m")), 403, "tenant_mismatch")
        # The twin, whose order it is, waits.
        twin = threading.Thread(target=lambda: done.append(gateway.post(where, "/free", refund(tenant, 1, "k"))))
        twin.start()
        twin.join(1)
        assert not done, done
        psql.stdin.write("COMMIT;\n")
        psql.stdin.close()
        twin.join(30)
    expect(done[0], 200, "ok")
    assert world.refunded(order(tenant)) == 1


# --- events -------------------------------------------------------------------------------------------------------


@case("E-2", "events: cordond - each decision is told and answered for before its answer; without cordond nothing is decided",
      engines=("sqlite",))
def _(world):
    where, tenant = world.fence(scopes=("refund:create", "look:create"))
    path = os.path.join(world.directory, "cordond.sock")
    world.add_tool("look", extra="destructive: false\n")
    gateway = world.gateway(events=f"cordond:{path}", tools=("refund", "look")).start()
    body = refund(tenant, 5, "k")
    expect(gateway.post(where, "/refund", body), 503, "unavailable")
    expect(gateway.get(where, "/health"), 503)
    assert world.refunded(order(tenant)) == 0 and "cordond does not take them" in gateway.log(), gateway.log()
    cordond = Cordond(path)
    expect(gateway.post(where, "/refund", body), 200, "ok")
    # What was refused meanwhile comes first, each with its number.
    assert [t["reason"].split(":")[0] for t in cordond.told] == ["unavailable", "ok"], cordond.told
    assert [t["number"] for t in cordond.told] == [1, 2], cordond.told
    assert "events: written to" in gateway.log(), gateway.log()
    last = cordond.told[-1]
    assert (last["tenant"], last["tool"], last["object"], last["key"], last["status"], last["destructive"]) == \
        (tenant, "refund", body["order_id"], "k", 200, 1), last
    expect(gateway.post(where, "/refund", body), 200, "duplicate")
    expect(gateway.post(where, "/look", refund(tenant, 1, "l")), 200, "ok")
    assert [(t["reason"], t["destructive"]) for t in cordond.told[2:]] == [("duplicate", 0), ("ok", 0)], cordond.told
    # No answer leaves before cordond has answered.
    cordond.hold.clear()
    with gateway.connect(where, timeout=60) as c:
        c.send(b"POST /refund HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\n\r\n{")
        c.sock.settimeout(0.5)
        with contextlib.suppress(TimeoutError, socket.timeout):
            assert not c.sock.recv(1), "answered before its event was"
        c.sock.settimeout(60)
        cordond.hold.set()
        expect(c.read(), 400, "malformed_request")
    # It dies: the very next call is refused, without effect; then another is there.
    cordond.die()
    expect(gateway.post(where, "/refund", refund(tenant, 7, "m")), 503, "unavailable")
    assert world.refunded(order(tenant)) == 6
    cordond = Cordond(path)
    expect(gateway.post(where, "/refund", refund(tenant, 7, "m")), 200, "ok")
    assert world.refunded(order(tenant)) == 13
    assert [t["number"] for t in cordond.told] == [6, 7], cordond.told
    cordond.die()
    gateway.kill()


# --- upstreams ----------------------------------------------------------------------------------------------------


def remote(world, limits="", url=None):
    """An upstream, and a gateway with the tool that calls it."""
    upstream = Upstream()
    secret = os.path.join(world.directory, "secret")
    with open(secret, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
        f.write(SECRET + "\n")
    world.tools["remote"] = os.path.join(world.directory, "remote.yaml")
    with open(world.tools["remote"], "w") as f:
        f.write(REMOTE % (limits, secret))
    gateway = world.gateway(tools=("refund", "strict", "free", "remote"),
                            config=f"upstreams: [{{name: payments, url: \"{url or upstream.url}\"}}]\n")
    return upstream, gateway.start()


# What the upstream does, what the caller is told, what a repeat is told, requests that the upstream saw.
UPSTREAMS = [
    ("ok", 200, "ok", "duplicate", 1),
    ("noise", 200, "ok", "duplicate", 1),
    ("list", 200, "ok", "duplicate", 1),
    ("huge", 200, "ok", "duplicate", 1),
    ("400", 502, "execution_failed", None, 1),
    ("403", 502, "execution_failed", None, 1),
    ("429", 502, "execution_failed", None, 1),
    ("408", 409, "outcome_ambiguous", "outcome_ambiguous", 1),
    ("409", 409, "outcome_ambiguous", "outcome_ambiguous", 1),
    ("500", 409, "outcome_ambiguous", "outcome_ambiguous", 1),
    ("502", 409, "outcome_ambiguous", "outcome_ambiguous", 1),
    ("redirect", 409, "outcome_ambiguous", "outcome_ambiguous", 1),
    ("cut", 409, "outcome_ambiguous", "outcome_ambiguous", 1),
    ("garbage", 409, "outcome_ambiguous", "outcome_ambiguous", 1),
    ("close", 409, "outcome_ambiguous", "outcome_ambiguous", 1),
    ("hang", 409, "outcome_ambiguous", "outcome_ambiguous", 1),
]


@case("U-1", "what an upstream does and what becomes of the call; nothing is sent twice, no secret comes back")
def _(world):
    upstream, gateway = remote(world)
    where, tenant = world.fence()
    for mode, status, word, again, seen in UPSTREAMS:
        before = upstream.count()
        body = dict(refund(tenant, 5, f"k-{mode}"), mode=mode, note="not sent")
        reply = gateway.post(where, "/remote", body)
        assert (reply.status, reply.word) == (status, word), (mode, reply)
        assert upstream.count() - before == seen, (mode, upstream.count() - before)
        if again:
            expect(gateway.post(where, "/remote", body), 409 if again != "duplicate" else 200, again)
            assert upstream.count() - before == seen, mode
        for text in (b"secret", b"inside", b"upstream text", b"10.0.0.1", SECRET.encode()):
            assert text not in reply.body, (mode, reply)
    assert expect(gateway.post(where, "/remote", dict(refund(tenant, 5, "k-ok"), mode="ok", note="not sent")), 200
                  ).json == {"status": "duplicate", "refunded": 5, "remaining": 1}
    method, path, headers, sent = upstream.seen[0]
    assert (method, path) == ("POST", "/v1/refunds") and headers["Authorization"] == f"Bearer {SECRET}"
    assert b"note" not in sent and b"idempotency" not in sent and b"tenant" not in sent
    keys = [h["Idempotency-Key"] for _, _, h, _ in upstream.seen]
    assert len(set(keys)) == len(keys) and all(k.startswith("cordon-") for k in keys)
    # Neither the log nor the process's arguments know the secret, and what is ambiguous holds its amount.
    assert SECRET not in gateway.log() and "secret" not in open(f"/proc/{gateway.process.pid}/cmdline").read()
    with open(f"{world.directory}/store.db", "rb") if world.db.name == "sqlite" else open(os.devnull, "rb") as f:
        assert SECRET.encode() not in f.read()
    upstream.close()


@case("U-2", "an upstream that is not there: failed, and the key can be used again; metadata is never dialled")
def _(world):
    where, tenant = world.fence()
    upstream, gateway = remote(world, url=f"http://127.0.0.1:{free_port()}")
    body = refund(tenant, 5, "k")
    expect(gateway.post(where, "/remote", body), 502, "execution_failed")
    assert upstream.count() == 0
    gateway.configure(config=f"upstreams: [{{name: payments, url: \"{upstream.url}\"}}]\n")
    gateway.reload()
    expect(gateway.post(where, "/remote", body), 200, "ok")
    for url in ("http://169.254.169.254", "http://[::ffff:169.254.169.254]:80", "http://[fd00:ec2::254]",
                "http://169.254.169.254.:80"):
        gateway.configure(config=f"upstreams: [{{name: payments, url: \"{url}\"}}]\n")
        gateway.reload()
        start = time.monotonic()
        expect(gateway.post(where, "/remote", refund(tenant, 5, f"m{url}")), 502, "execution_failed")
        assert time.monotonic() - start < 1.5, "it was dialled"
    upstream.close()


def loopback_up(*addresses):
    """In a fresh network namespace: loopback with these addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for i, address in enumerate(("127.0.0.1", *addresses)):
            name = f"lo:{i}".encode() if i else b"lo"
            fcntl.ioctl(s, 0x8916, struct.pack("16sH2x4s8x", name, socket.AF_INET, socket.inet_aton(address)))
        fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 0x41))  # up, running


@case("U-4", "an upstream that is the metadata service is there and is not dialled", engines=("sqlite",))
def _(world):
    if not os.environ.get("CORDON_IN_NETNS"):
        if subprocess.run(["unshare", "-rn", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            raise Skip("no network namespaces for this user")
        run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run")
        done = subprocess.run(["unshare", "-rn", sys.executable, run, "--engine", "sqlite", "--only", "U-4"],
                              env=dict(os.environ, CORDON_IN_NETNS="1"), stdout=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
        return
    loopback_up("169.254.169.254", "10.1.2.3")
    where, tenant = world.fence()
    metadata = Upstream("169.254.169.254")
    neighbour = Upstream("10.1.2.3")
    # The control: it can be reached from here.
    with socket.create_connection(("169.254.169.254", metadata.port), 2):
        pass
    _, gateway = remote(world, url=f"http://169.254.169.254:{metadata.port}")
    expect(gateway.post(where, "/remote", refund(tenant, 5, "k")), 502, "execution_failed")
    gateway.configure(config=f"upstreams: [{{name: payments, url: \"http://[::ffff:169.254.169.254]:{metadata.port}\"}}]\n")
    gateway.reload()
    expect(gateway.post(where, "/remote", refund(tenant, 5, "k")), 502, "execution_failed")
    assert metadata.count() == 0
    gateway.configure(config=f"upstreams: [{{name: payments, url: \"http://10.1.2.3:{neighbour.port}\"}}]\n")
    gateway.reload()
    expect(gateway.post(where, "/remote", refund(tenant, 5, "k")), 200, "ok")
    assert neighbour.count() == 1


@case("U-3", "limits hold for calls that are still under way at an upstream")
def _(world):
    where, tenant = world.fence()
    upstream, gateway = remote(world, limits="limits: {daily: 10, over: refuse}")
    replies = parallel(8, lambda i: gateway.post(where, "/remote", dict(refund(tenant, 5, f"k{i}"), mode="slow")))
    words = [reply.word for reply in replies]
    assert words.count("ok") == 2 and words.count("quota_daily") == 6, words
    assert sum(upstream.effects.values()) == 2 and max(upstream.effects.values()) == 1
    # A call that failed gives its part back.
    other, other_tenant = world.fence()
    expect(gateway.post(other, "/remote", dict(refund(other_tenant, 10, "f"), mode="400")), 502)
    expect(gateway.post(other, "/remote", refund(other_tenant, 10, "g")), 200, "ok")
    upstream.close()


@case("U-5", "a fence whose calls wait for a slow upstream does not make others wait")
def _(world):
    where, tenant = world.fence()
    other, other_tenant = world.fence()
    upstream, gateway = remote(world)
    replies = []

    def slow(i):
        replies.append(gateway.post(where, "/remote", dict(refund(tenant, 1, f"s{i}"), mode="slow")))
    threads = [threading.Thread(target=slow, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 30
    while len(replies) + len(world.db.rows("SELECT id FROM calls WHERE state = 'executing'")) < 24:
        assert time.monotonic() < end
        time.sleep(0.02)
    expect(gateway.post(other, "/remote", refund(other_tenant, 1, "k")), 200, "ok")
    assert len(replies) < 12, "the call of the other fence was the last"
    for thread in threads:
        thread.join()
    assert [reply.word for reply in replies] == ["ok"] * 24, replies
    # Four of sixteen, and the other fence's.
    assert upstream.most <= 5 and sum(upstream.effects.values()) == 25, (upstream.most, upstream.effects)
    upstream.close()


@case("U-6", "what waited for its turn at an upstream for half a minute is not sent, and its key can be used again",
      engines=("sqlite",))
def _(world):
    where, tenant = world.fence()
    upstream, gateway = remote(world)
    gateway.kill()
    with open(world.tools["remote"], encoding="utf-8") as f:
        text = f.read()
    with open(world.tools["remote"], "w", encoding="utf-8") as f:
        f.write(text.replace("timeout: 2s", "timeout: 6s"))
    gateway.configure(config=gateway.settings["config"] + "executors: 1\n")
    gateway.start()
    with contextlib.ExitStack() as stack:
        # Seven that take five seconds each, and two behind them.
        held = [stack.enter_context(gateway.connect(where, timeout=120)) for _ in range(9)]
        for i, c in enumerate(held):
            body = json.dumps(dict(refund(tenant, 1, f"k{i}"), mode="hang" if i < 7 else "ok")).encode()
            c.send(b"POST /remote HTTP/1.1\r\nHost: g\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            end = time.monotonic() + 30
            while world.db.rows("SELECT COUNT(*) FROM calls")[0][0] <= i:  # one after the other
                assert time.monotonic() < end
                time.sleep(0.005)
        words = [c.read().word for c in held]
    # The fourth begins after 15 s; after the seventh, at 30 or later, none does.
    assert words[:4] == ["outcome_ambiguous"] * 4 and words[7:] == ["overloaded"] * 2, words
    assert not upstream.effects, upstream.effects
    for i in (7, 8):
        expect(gateway.post(where, "/remote", dict(refund(tenant, 1, f"k{i}"), mode="ok")), 200, "ok")
    assert sum(upstream.effects.values()) == 2 and set(upstream.effects.values()) == {1}, upstream.effects
    upstream.close()


# --- what it costs ------------------------------------------------------------------------------------------------


@case("M-1", "an idle connection costs less than 8 KiB", engines=("sqlite",))
def _(world):
    gateway = world.gateway(limits="connections: 9000").start()
    fences = [world.fence()[0] for _ in range(2)]
    held = [gateway.connect(fences[i % 2]) for i in range(200)]
    for c in held:
        expect(c.get("/health"), 200)
    before = gateway.rss_bytes()
    for i in range(2000):
        held.append(gateway.connect(fences[i % 2]))
    for c in held[200:]:
        expect(c.get("/health"), 200)
    each = (gateway.rss_bytes() - before) / 2000
    print(f"# {each:.0f} bytes a connection")
    assert each < 8192, each
    for c in held:
        c.close()


assert PAID
