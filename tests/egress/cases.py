# SPDX-License-Identifier: Apache-2.0
"""
What the proxy must refuse, each beside its control - the same with the rule that forbids it gone arrives - and its legal
neighbour. A case is a function with its row in the catalogue of cases; what arrives is what the servers outside noted.
"""

import os
import select
import socket
import threading
import time

from harness import (METADATA, NAT64, PRIVATE, PROVIDER, PUBLIC, PUBLIC6, absolute, arrived, connect, fetch, handshake)

CASES = []
OK = "HTTP/1.1 200 OK"


def case(number, title):
    def add(function):
        CASES.append((number, title, function))
        return function
    return add


def equal(got, want, what=""):
    assert got == want, f"{what}: {got!r}, not {want!r}"


def arrivals(world):
    return len(world.tls.hits) + len(world.web.hits)


def refused(world, place, target, word, status=403, host=None):
    """CONNECT is refused with that word, and nobody outside sees as much as a connection."""
    before = world.tls.connections + world.web.connections
    c, reply = connect(world, place, target, host)
    with c:
        equal((reply.status, reply.word), (status, word), target)
        assert reply.json.get("reason") and reply.json.get("retry") and reply.json["rule"].startswith("gateway."), reply
    equal(world.tls.connections + world.web.connections, before, f"{target} arrived")
    return reply


# --- who and where ------------------------------------------------------------------------------------------------


@case("X-00", "an allowed name is reached, over TLS and in absolute form; who is no fence is not let in")
def _(world):
    place = world.reach("good.test")
    equal(fetch(world, place), OK)
    equal(absolute(world, place, "http://good.test/hello").body, b"hello\n")
    c, reply = connect(world, "127.9.9.9", "good.test:443")
    c.close()
    equal((reply.status, reply.word), (401, "unauthenticated"))
    equal(absolute(world, "127.9.9.9", "http://good.test/hello").status, 401)


@case("X-01", "the ClientHello names whom CONNECT named, or nothing goes through")
def _(world):
    place, wide = world.reach("good.test"), world.reach("good.test", "denied.test")
    equal(fetch(world, wide, "denied.test:443", "denied.test"), OK, "control: that server is there")
    equal(fetch(world, place), OK, "twin")
    for sni in ("denied.test", "good.test.denied.test", "xgood.test", None, PUBLIC):
        for fence in (place, wide):
            before, names = arrivals(world), len(world.tls.names)
            got = fetch(world, fence, "good.test:443", sni, host="denied.test")
            assert got.startswith("tls: ") or got == "cut", f"{sni}: {got}"
            equal((arrivals(world), len(world.tls.names)), (before, names), f"SNI {sni} arrived")
    equal(fetch(world, place, "good.test:443", "GOOD.test"), OK, "large letters are the same name")
    event = world.wait_event(place, "reached", 6)
    assert any("SNI" in e["gateway"]["reason"] for e in world.events(place, "reach")), event


@case("X-01", "what is no TLS gets not a byte through a tunnel, also if the server speaks first")
def _(world):
    place = world.reach("good.test:80", "good.test:443")
    before = arrivals(world)
    equal(absolute(world, place, "http://good.test/hello").status, 200, "control: it speaks HTTP there")
    equal(arrivals(world), before + 1)
    for first in (b"GET /hello HTTP/1.1\r\nHost: good.test\r\n\r\n", b"SSH-2.0-x\r\n", b"\x80\x2e\x01\x03\x01", b"\x16\x03\x01\x00\x00"):
        c, reply = connect(world, place, "good.test:80")
        with c:
            equal(reply.status, 200)
            c.send(first)
            c.sock.settimeout(10)
            got = c.sock.recv(4096)
            equal(got, bytes((21, 3, 1, 0, 2, 2, 112)), f"{first}: an alert and no more")
            assert c.at_end()
    equal(arrivals(world), before + 1, "what is no TLS arrived")
    c, reply = connect(world, place, "good.test:443")
    with c:
        time.sleep(2)
        assert c.at_end(), "a tunnel without a ClientHello stays"


@case("X-02", "Host is the server's that was asked for, in absolute form and behind it")
def _(world):
    place, wide = world.reach("good.test"), world.reach("good.test", "denied.test")
    equal(absolute(world, wide, "http://denied.test/hello").status, 200, "control")
    for fence in (place, wide):
        before = arrivals(world)
        for host in ("denied.test", "good.test:8080", "good.test.denied.test", "127.0.0.1", ""):
            equal(absolute(world, fence, "http://good.test/hello", host).word, "host_mismatch", host)
        equal(arrivals(world), before, "another Host arrived")
    for host in ("good.test", "GOOD.TEST:80", "good.test."):
        equal(absolute(world, place, "http://good.test/hello", host).status, 200, f"twin {host}")
    # What is sent behind the one request goes nowhere.
    before = len(world.web.hits)
    with world.gw.connect(place) as c:
        c.send(b"POST http://good.test/a HTTP/1.1\r\nHost: good.test\r\nContent-Length: 2\r\n\r\nhi"
               b"GET /hello HTTP/1.1\r\nHost: denied.test\r\n\r\nGET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n")
        reply = c.read()
        equal((reply.status, reply.body), (200, b"2\n"))
        assert c.at_end()
    equal(len(world.web.hits), before + 1, "a second request arrived")
    equal(world.web.hits[-1][2:5:2], ("good.test", b"hi"))
    # Not as much as to a server that would read on.
    raw = world.reach("good.test:8081")
    with world.gw.connect(raw) as c:
        c.send(b"POST http://good.test:8081/a HTTP/1.1\r\nHost: good.test:8081\r\nContent-Length: 2\r\n\r\nhiGET / HTTP/1.1\r\nHost: denied.test\r\n\r\n")
        equal(c.sock.recv(6), b"answer")
        c.send(b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n")
        time.sleep(0.2)
    got = world.raw.got[-1]["bytes"]
    assert got.startswith(b"POST /a HTTP/1.1\r\nHost: good.test:8081\r\n") and got.endswith(b"\r\n\r\nhi"), got
    c, reply = connect(world, place, "good.test:443", "127.0.0.1:8800")
    c.close()
    equal(reply.status, 200, "that of a CONNECT goes nowhere")


@case("X-04", "names are matched by whole labels")
def _(world):
    place = world.reach("good.test", "*.sub.test")
    for name in ("a.sub.test", "a.b.sub.test", "A.SUB.test", "good.test"):
        equal(fetch(world, place, f"{name}:443", name), OK, name)
    for name in ("sub.test", "xsub.test", "evilsub.test", "a.evilsub.test", "xgood.test", "good.test.sub.tes", "agood.test", "a.good.test", "good.tes", "xn--god-hoa.test"):
        refused(world, place, f"{name}:443", "domain_denied")
    everything = world.reach("sub.test", "xsub.test")
    c, reply = connect(world, everything, "xsub.test:443")
    c.close()
    equal(reply.status, 200, "control: it is there")


@case("X-06", "a final dot changes nothing, malformed names are malformed")
def _(world):
    place = world.reach("good.test")
    equal(fetch(world, place, "good.test.:443", "good.test"), OK)
    refused(world, place, "denied.test.:443", "domain_denied")
    for target in ("good.test..:443", ".good.test:443", "good..test:443", "-good.test:443", "good.test-:443"):
        refused(world, place, target, "malformed_request", 400)


@case("X-08", "an address is no name, however it is spelled")
def _(world):
    place = world.reach("good.test", allow=("10.9.0.1/32", "169.254.169.254/32"))
    before = world.tls.connections
    with socket.create_connection((METADATA, 443)):
        pass
    assert arrived(before, lambda: world.tls.connections), "control: the host reaches it"
    for target in ("2852039166:80", "0xA9FEA9FE:80", "0251.0376.0251.0376:80", "169.254.43518:80", "169.254.169.254.:80",
                   "169.254.169.254:80", "[::ffff:a9fe:a9fe]:80", "[fe80::1]:80", f"{PUBLIC}:443", "127.0.0.1:80", "[::1]:80", "1:80"):
        refused(world, place, target, "address_denied")
    refused(world, place, "[fe80::1%25eth0]:80", "malformed_request", 400)
    equal(absolute(world, place, f"http://{METADATA}/").word, "address_denied")
    equal(fetch(world, place), OK, "twin")


SPECIAL = [  # what a name leads to, and by which rule of network.allow it may
    ("private", PRIVATE, f"{PRIVATE}/32"),
    ("private, a wide rule", PRIVATE, "10.0.0.0/8"),
    ("provider", PROVIDER, f"{PROVIDER}/32"),
    ("loopback", "127.0.0.1", "127.0.0.1/32"),
    ("own", "93.184.216.1", "93.184.216.1/32"),
    ("private in nat64", NAT64, "64:ff9b::/96,10.9.0.0/24"),
]


@case("X-09", "a name that leads where nobody may be reached does not, unless network.allow says so")
def _(world):
    place = world.reach("*.bind.test")
    for i, (what, address, rule) in enumerate(SPECIAL):
        name = f"s{i}.bind.test"
        world.names.table[name] = [address]
        before = world.tls.connections + world.web.connections + world.local.connections
        reply = absolute(world, place, f"http://{name}/hello")
        equal((reply.status, reply.word), (403, "address_denied"), what)
        assert address not in reply.body.decode(), "an inner address is told"
        equal(world.tls.connections + world.web.connections + world.local.connections, before, f"{what} arrived")
        equal(world.wait_event(place, "reach")["gateway"]["address"].rsplit(":", 1)[0].strip("[]"),
              "64:ff9b::a09:1" if address == NAT64 else address, what)
        open_fence = world.reach("*.bind.test", allow=rule.split(","))
        equal(absolute(world, open_fence, f"http://{name}/hello").status, 200, f"control {what}")
        anywhere = world.reach("*.bind.test", allow=("0.0.0.0/0", "::/0"))
        equal(absolute(world, anywhere, f"http://{name}/hello").word, "address_denied", f"{what}, by 0.0.0.0/0")


@case("X-09", "the metadata service, in every form, by no rule")
def _(world):
    forms = [METADATA, f"::ffff:{METADATA}", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "fd00:ec2::254", f"::{METADATA}"]
    place = world.reach("*.meta.test", allow=(f"{METADATA}/32", "169.254.0.0/16", "64:ff9b::/96", "fd00::/8", "2002::/16"))
    before = world.web.connections
    with socket.create_connection((METADATA, 80)):
        pass
    assert arrived(before, lambda: world.web.connections), "control: the host reaches it"
    for i, form in enumerate(forms):
        world.names.table[f"m{i}.meta.test"] = [form]
        reply = absolute(world, place, f"http://m{i}.meta.test/hello")
        equal((reply.status, reply.word), (403, "address_denied"), form)
        # Beside a good address it spoils that one, too.
        world.names.table[f"n{i}.meta.test"] = [PUBLIC, form]
        equal(absolute(world, place, f"http://n{i}.meta.test/hello").word, "address_denied", f"{form} beside {PUBLIC}")
    equal(world.web.connections, before + 1, "it arrived")
    world.names.table["twin.meta.test"] = [PUBLIC]
    equal(absolute(world, place, "http://twin.meta.test/hello").status, 200, "twin")


@case("X-09", "a mapped address is no way to one, and of several only those that may be are dialled")
def _(world):
    place = world.reach("*.map.test")
    for name, address in (("a", f"::ffff:{PUBLIC}"), ("b", "::ffff:127.0.0.1"), ("c", "::127.0.0.1"), ("d", "::ffff:0:127.0.0.1")):
        world.names.table[f"{name}.map.test"] = [address]
        equal(absolute(world, place, f"http://{name}.map.test/hello").word, "address_denied", address)
    world.names.table["two.map.test"] = [PRIVATE, PUBLIC]
    for _ in range(5):
        equal(absolute(world, place, "http://two.map.test/hello").status, 200)
        equal(world.wait_event(place, "reach")["gateway"]["address"], f"{PUBLIC}:80")
    world.names.table["six.map.test"] = [PUBLIC6]
    equal(absolute(world, place, "http://six.map.test/hello").status, 200)
    equal(world.wait_event(place, "reach")["gateway"]["address"], f"[{PUBLIC6}]:80")


@case("X-09", "each connection resolves once, and dials what was judged")
def _(world):
    place = world.reach("swing.test")
    turns = []

    def swing():
        turns.append(PUBLIC if len(turns) % 2 == 0 else "127.0.0.1")
        return [turns[-1]]
    world.names.table["swing.test"] = lambda: swing() if world.names.asked[-1][1] == 1 else []
    local = world.local.connections
    for _ in range(20):
        asked = len([q for q in world.names.asked if q == ("swing.test", 1)])
        reply = absolute(world, place, "http://swing.test/hello")
        equal(len([q for q in world.names.asked if q == ("swing.test", 1)]), asked + 1, "questions")
        if turns[-1] == PUBLIC:
            equal(reply.status, 200)
        else:
            equal(reply.word, "address_denied")
    equal(world.local.connections, local, "loopback was dialled")


@case("X-12", "a redirect is the client's to follow")
def _(world):
    place = world.reach("good.test")
    before = arrivals(world)
    reply = absolute(world, place, "http://good.test/redirect")
    equal((reply.status, reply.headers.get("location")), (302, f"http://{METADATA}/latest"))
    equal(arrivals(world), before + 1)
    equal(absolute(world, place, reply.headers["location"]).word, "address_denied")


@case("X-15", "the port is part of the rule, and has one spelling")
def _(world):
    place = world.reach("good.test", "other.test:8443")
    equal(fetch(world, place, "other.test:8443", "other.test"), OK)
    for target in ("good.test:22", "good.test:25", "good.test:6379", "good.test:8443", "other.test:443", "other.test:80"):
        refused(world, place, target, "port_denied")
    for target in ("good.test:0", "good.test:65536", "good.test:0443", "good.test", "good.test:", "good.test:443:443", "good.test:4a3"):
        refused(world, place, target, "malformed_request", 400)
    equal(absolute(world, place, "http://good.test:8080/hello").word, "port_denied")
    eighty = world.reach("good.test:8080")
    equal(absolute(world, eighty, "http://good.test:8080/hello").status, 200, "control")
    equal(absolute(world, eighty, "http://good.test/hello").word, "port_denied")


@case("X-23", "names that share an address are decided by name")
def _(world):
    place = world.reach("good.test")
    equal(fetch(world, place), OK)
    refused(world, place, "denied.test:443", "domain_denied")
    refused(world, place, f"{PUBLIC}:443", "address_denied")
    equal(absolute(world, place, "http://denied.test/hello").word, "domain_denied")


@case("X-24", "a refusal says why in words and in the event, under one rule, before its answer")
def _(world):
    place = world.reach("good.test")
    for target, word, rule in (("denied.test:443", "domain_denied", "gateway.domain"), ("good.test:22", "port_denied", "gateway.domain"),
                               ("10.0.0.1:80", "address_denied", "gateway.address")):
        reply = refused(world, place, target, word)
        equal((reply.json["rule"], reply.json["retry"]), (rule, "never"), "what the agent is told is what the event says")
        assert "network." in reply.json["ask"], reply
        event = world.events(place, "reach")[-1]  # it was there before the answer
        equal((event["type"], event["verdict"], event["rule"]), ("gateway", "deny", rule))
        equal(event["gateway"]["reason"].split(":")[0], word)
        equal(event["gateway"]["action"], "CONNECT")
    equal(event["gateway"]["object"], None, "an address is no object")
    world.names.table["gone.test"] = None
    away = world.reach("gone.test", "silent.test", "shut.test:81")
    equal(refused(world, away, "gone.test:443", "name_not_resolved", 502).json["retry"], "same_key")
    world.names.silent.add("silent.test")
    start = time.monotonic()
    refused(world, away, "silent.test:443", "name_not_resolved", 502)
    assert time.monotonic() - start < 5, "it took too long"
    world.names.table["shut.test"] = [PUBLIC]
    refused(world, away, "shut.test:81", "upstream_unreachable", 502)


# --- what is counted, and what is cut -----------------------------------------------------------------------------


@case("X-30", "bytes in both directions are counted and told at the end")
def _(world):
    place = world.reach("good.test")
    equal(absolute(world, place, "http://good.test/up", method="POST", body=b"x" * 100000).body, b"100000\n")
    event = world.wait_event(place, "reached")
    equal((event["verdict"], event["gateway"]["object"]), ("allow", "good.test:80"))
    assert event["gateway"]["reason"] in ("ok: closed", "ok: the client left"), event  # whoever is first
    assert 100000 < event["gateway"]["up_bytes"] < 101000, event
    assert 0 < event["gateway"]["down_bytes"] < 1000, event
    reply = absolute(world, place, "http://good.test/sized/5000000")
    equal(len(reply.body), 5000000)
    event = world.wait_event(place, "reached", 2)
    assert 5000000 < event["gateway"]["down_bytes"] < 5001000, event


@case("X-31", "limits.upload holds for all connections of a fence together")
def _(world):
    place, free = world.reach("good.test", upload=200000), world.reach("good.test")
    post = lambda fence, n: absolute(world, fence, "http://good.test/up", method="POST", body=b"x" * n)
    equal(post(place, 100000).status, 200, "twin")
    before = len(world.web.hits)
    equal(post(place, 150000).status, 0, "beyond the ceiling")
    time.sleep(0.2)
    assert sum(len(hit[4]) for hit in world.web.hits[before:]) <= 100000, "more than the ceiling arrived"
    equal(post(free, 250000).status, 200, "control")
    event = world.wait_event(place, "reached", 2)
    equal((event["verdict"], event["rule"]), ("deny", "gateway.upload"))
    assert event["gateway"]["up_bytes"] <= 100000, event
    refused(world, place, "good.test:443", "upload_exhausted")
    # In a tunnel, too.
    place = world.reach("good.test", upload=300000)
    c, reply = connect(world, place, "good.test:443")
    with c, handshake(world, c, "good.test") as tls:
        equal(reply.status, 200)
        try:
            tls.sendall(b"POST /up HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000000)
            cut = not tls.recv(4096)
        except OSError:
            cut = True
        assert cut, "a tunnel went on beyond limits.upload"
    event = world.wait_event(place, "reached")
    assert event["gateway"]["up_bytes"] <= 300000 and event["rule"] == "gateway.upload", event


def open_tunnel(world, place):
    c, reply = connect(world, place, "good.test:443")
    equal(reply.status, 200)
    tls = handshake(world, c, "good.test")
    tls.sendall(b"GET /hello HTTP/1.1\r\nHost: good.test\r\n\r\n")
    got = b""
    while got[-6:] != b"hello\n":
        more = tls.recv(4096)
        assert more, "no answer"
        got += more
    return tls


def is_cut(tls, timeout=5):
    tls.settimeout(timeout)
    try:
        while tls.recv(4096):
            pass
        return True
    except socket.timeout:
        return False
    except OSError:
        return True


@case("X-32", "the end of a fence cuts its tunnels, and no other's")
def _(world):
    place, other = world.reach("good.test"), world.reach("good.test")
    tunnel, twin = open_tunnel(world, place), open_tunnel(world, other)
    number = world.fences[place].split(" ")[1]
    world.end_fence(place)
    assert is_cut(tunnel), "a tunnel outlived its fence"
    assert not is_cut(twin, 1), "another's tunnel was cut"
    twin.close()
    end = time.monotonic() + 5
    while time.monotonic() < end:
        ends = [e for e in world.gw.event_list() if e["op"] == "reached" and int(e["fence"]["id"], 16) == int(number)]
        if ends:
            break
        time.sleep(0.02)
    assert ends and "cut" in ends[-1]["gateway"]["reason"], ends


@case("X-33", "one fence has so many tunnels, and those that end make room")
def _(world):
    place, other = world.reach("good.test"), world.reach("good.test")
    tunnels = [open_tunnel(world, place) for _ in range(8)]
    reply = refused(world, place, "good.test:443", "tunnels_exhausted", 429)
    equal(reply.headers.get("retry-after"), "1")
    equal(fetch(world, other), OK, "twin")
    tunnels.pop().close()
    world.wait_event(place, "reached")
    equal(fetch(world, place), OK, "there is room again")
    for tunnel in tunnels:
        tunnel.close()


@case("X-34", "an idle tunnel ends, a busy one does not; a client that went away takes its request along")
def _(world):
    place = world.reach("good.test")
    gateway = world.gateway(config=f"nameservers: 127.0.0.1:{world.names.port}\n", limits="tunnel_idle: 1s").start()
    default, world.gw = world.gw, gateway
    try:
        gateway.wait_known(place)
        idle, busy = open_tunnel(world, place), open_tunnel(world, place)
        for _ in range(8):
            time.sleep(0.3)
            busy.sendall(b"GET /hello HTTP/1.1\r\nHost: good.test\r\n\r\n")
            got = b""
            while b"hello\n" not in got[-6:]:
                more = busy.recv(4096)
                assert more, "a busy tunnel was cut"
                got += more
        assert is_cut(idle, 1), "an idle tunnel stays"
        busy.close()
    finally:
        world.gw = default
        gateway.stop()
    c = world.gw.connect(place)
    c.send(b"GET http://good.test/sse HTTP/1.1\r\nHost: good.test\r\n\r\n")
    c.sock.recv(100)
    before = len(world.events(place, "reached"))
    c.close()
    equal(world.wait_event(place, "reached", before + 1)["verdict"], "allow")
    for _ in range(3):
        world.web.step.set()
        time.sleep(0.2)


@case("X-35", "an event stream passes without waiting for its end")
def _(world):
    place = world.reach("good.test")
    with world.gw.connect(place) as c:
        c.send(b"GET http://good.test/sse HTTP/1.1\r\nHost: good.test\r\n\r\n")
        got = b""
        for i in range(3):
            while f"data: {i}\n".encode() not in got:
                got += c.sock.recv(4096)
            assert f"data: {i + 1}\n".encode() not in got
            world.web.step.set()
        assert c.at_end()


@case("X-36", "much in both directions at once arrives whole")
def _(world):
    place = world.reach("good.test")
    c, _ = connect(world, place, "good.test:443")
    with c, handshake(world, c, "good.test") as tls:
        body = os.urandom(1 << 20) * 8
        sender = threading.Thread(target=lambda: tls.sendall(
            f"PUT /up HTTP/1.1\r\nHost: good.test\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body))
        sender.start()
        sender.join(30)
        assert tls.recv(4096).startswith(b"HTTP/1.1 200")
    equal(world.tls.hits[-1][4], body)
    results = []
    threads = [threading.Thread(target=lambda: results.append(
        len(absolute(world, place, "http://good.test/sized/20000000", timeout=60).body))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(results, [20000000] * 4)


@case("X-37", "a reload leaves tunnels, and names new servers")
def _(world):
    place = world.reach("good.test")
    tunnel = open_tunnel(world, place)
    world.gw.reload()
    assert not is_cut(tunnel, 0.5)
    equal(fetch(world, place), OK)
    tunnel.close()


@case("X-39", "a placeholder goes nowhere: not in a name, a head, or a body however it is cut; its neighbours do")
def _(world):
    place = world.reach("good.test", "*.good.test")
    with open(world.canary, encoding="utf-8") as f:
        text = f.read().strip()

    def post(body, step):
        with world.gw.connect(place, 20) as c:
            c.send(f"POST http://good.test/up HTTP/1.1\r\nHost: good.test\r\nContent-Length: {len(body)}\r\n\r\n".encode())
            try:
                for i in range(0, len(body), step):
                    c.send(body[i:i + step])
                    time.sleep(0.005)
                return c.read()
            except OSError:
                return None

    plain = b"y" * 20000 + text[:-1].encode() + b"." + b"y" * 20000
    for step in (7001, len(plain)):
        equal(post(plain, step).body, b"40032\n", "a neighbour")
        equal(world.web.hits[-1][4], plain)
    for body, step in ((text.encode(), 5), (b"x" * 20000 + text.encode() + b"x" * 9, 20010), (b"x" * 300000 + text.encode().hex().encode(), 99999),
                       (b"x" * 64 + "".join(f"%{ord(c):02x}" for c in text).encode(), 13)):
        before = len(world.web.hits)
        reply = post(body, step)
        assert reply is None or reply.status in (0, 403), reply
        time.sleep(0.1)
        for hit in world.web.hits[before:]:
            assert len(hit[4]) < len(body) and text.encode() not in hit[4], "it arrived"
        event = world.wait_event(place, "reached", 0) if reply is None or not reply.status else world.wait_event(place, "reach")
        assert event, "nobody was told"
    refused(world, place, f"{text.lower()}.good.test:443", "placeholder_seen")
    refused(world, place, f"{text[:9]}.{text[9:]}.good.test:443", "placeholder_seen")
    told = [e for e in world.events(place) if e["rule"] == "gateway.canary"]
    assert len(told) == 6 and all(e["verdict"] == "deny" and text not in str(e) for e in told), told
    equal(absolute(world, place, "http://good.test/hello").status, 200, "twin")


@case("X-38", "while events cannot be written nobody is reached")
def _(world):
    place = world.reach("good.test")
    sink = os.path.join(world.directory, "sink.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sink)
        listener.listen(8)
        gateway = world.gateway(config=f"nameservers: 127.0.0.1:{world.names.port}\n", events=sink).start()
        gateway.wait_known(place)
        default, world.gw = world.gw, gateway
        try:
            equal(absolute(world, place, "http://good.test/hello").status, 200, "twin")
            while select.select([listener], [], [], 0.2)[0]:
                listener.accept()[0].close()
            os.unlink(sink)
            listener.close()
            absolute(world, place, "http://denied.test/hello")  # whose event is kept
            before = arrivals(world)
            reply = absolute(world, place, "http://good.test/hello")
            equal((reply.status, reply.word), (503, "unavailable"))
            equal(arrivals(world), before)
        finally:
            world.gw = default
            gateway.kill()
    equal(absolute(world, place, "http://good.test/hello").status, 200, "the other goes on")
