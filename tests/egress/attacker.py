# SPDX-License-Identifier: Apache-2.0
"""
What an attacker tried at the forward proxy: rows E-NN of docs/threat-model.md, "Third attacker pass". What arrives is what the servers
outside noted; each has its control or its legal neighbour.
"""

import os
import random
import resource
import socket
import struct
import threading
import time

from cases import OK, arrivals, equal, is_cut, open_tunnel, refused
from harness import METADATA, NEAR6, PRIVATE, PUBLIC, PUBLIC6, Names, absolute, arrived, connect, fetch

CASES = []


def case(number, title):
    def add(function):
        CASES.append((number, title, function))
        return function
    return add


def raw(world, place, data, timeout=20):
    """Bytes as they are; the first answer."""
    with world.gw.connect(place, timeout) as c:
        c.send(data)
        return c.read()


# --- ClientHello, byte by byte ------------------------------------------------------------------------------------


def vector(size, data):
    return len(data).to_bytes(size, "big") + data


def extension(kind, data):
    return struct.pack("!H", kind) + vector(2, data)


def sni(*names, kind=0):
    return extension(0, vector(2, b"".join(bytes([kind]) + vector(2, name) for name in names)))


VERSIONS = extension(43, b"\x02\x03\x04")


def message(*extensions, version=b"\x03\x03", session=b"", ciphers=b"\x13\x01", compression=b"\x00"):
    body = version + bytes(32) + vector(1, session) + vector(2, ciphers) + vector(1, compression)
    return b"\x01" + vector(3, body + (vector(2, b"".join(extensions)) if extensions else b""))


def records(data, size=16384, version=b"\x03\x01"):
    return b"".join(b"\x16" + version + vector(2, data[at:at + size]) for at in range(0, len(data), size))


GOOD = message(sni(b"good.test"), VERSIONS)


def hello(world, place, data, target="good.test:8081", pieces=None):
    """Sends data into a tunnel to the server that keeps what arrives. What arrived; b'' if nothing did."""
    before = len(world.raw.got)
    c, reply = connect(world, place, target)
    with c:
        equal(reply.status, 200, target)
        end = time.monotonic() + 5
        while len(world.raw.got) == before and time.monotonic() < end:
            time.sleep(0.005)
        for piece in pieces or [data]:
            try:
                c.send(piece)
            except OSError:
                break
            if pieces:
                time.sleep(0.002)
        c.sock.settimeout(0.4)
        try:
            got = c.sock.recv(100)
        except OSError:
            got = b""
    world.raw.got[-1]["reply"] = got
    return at_end(world.raw.got[-1])


def at_end(record):
    """What the server had when the connection ended."""
    end = time.monotonic() + 5
    while not record["ended"] and time.monotonic() < end:
        time.sleep(0.005)
    return record["bytes"]


@case("E-01", "another name within a ClientHello: two names, two extensions, kinds, dots, NULs, a name in a later record, parts of one")
def _(world):
    place = world.reach("good.test:8081")
    for what, data in (
            ("two names", records(message(sni(b"good.test", b"denied.test")))), ("the other first", records(message(sni(b"denied.test", b"good.test")))),
            ("twice", records(message(sni(b"good.test"), sni(b"denied.test")))), ("twice the same", records(message(sni(b"good.test"), sni(b"good.test")))),
            ("another kind", records(message(sni(b"good.test", kind=1)))), ("a NUL", records(message(sni(b"good.test\0.denied.test")))),
            ("a final dot", records(message(sni(b"good.test.")))), ("a blank", records(message(sni(b"good.test ")))), ("empty", records(message(sni(b"")))),
            ("no list", records(message(extension(0, b"")))), ("below", records(message(sni(b"x.good.test")))), ("a port", records(message(sni(b"good.test:443")))),
            ("not ASCII", records(message(sni("gооd.test".encode())))), ("behind the message", records(GOOD + message(sni(b"denied.test")))),
            ("a list that is longer", records(message(extension(0, b"\x00\xff" + b"\0" + vector(2, b"good.test"))))),
            ("the message longer than it is", records(b"\x01" + vector(3, GOOD[4:] + b"\0\0"))), ("extensions that overrun", records(GOOD[:-5] + b"\x00\x09" + GOOD[-3:])),
            ("another message first", records(b"\x00\x00\x00\x00" + GOOD)), ("an alert first", b"\x15\x03\x01\x00\x02\x01\x00" + records(GOOD)),
            ("a change of ciphers first", b"\x14\x03\x01\x00\x01\x01" + records(GOOD)), ("empty record first", b"\x16\x03\x01\x00\x00" + records(GOOD)),
            ("an alert within", records(GOOD[:20]) + b"\x15\x03\x01\x00\x02\x01\x00" + records(GOOD[20:])), ("SSL 2", b"\x80\x2e\x01\x03\x01" + GOOD),
            ("SSL 3", records(message(sni(b"good.test"), version=b"\x03\x00"))), ("DTLS", b"\x16\xfe\xfd" + bytes(8) + vector(2, GOOD)),
            ("a long record", b"\x16\x03\x01\x41\x01" + GOOD), ("65 MiB", b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(100)),
            ("too many records", records(GOOD, 1)), ("no extensions", records(message())), ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), ("nothing of TLS", b"GET / HTTP/1.1\r\n\r\n")):
        equal(hello(world, place, data), b"", what)
        equal(world.raw.got[-1]["reply"], bytes((21, 3, 1, 0, 2, 2, 112)), what)
    for what, data in (("plain", records(GOOD)), ("in records", records(GOOD, 7)), ("large letters", records(message(sni(b"GOOD.test")))),
                       ("TLS 1.0", records(message(sni(b"good.test"), version=b"\x03\x01"), version=b"\x03\x00")),
                       ("more extensions", records(message(*(extension(0x1a1a + i, b"") for i in range(100)), sni(b"good.test")))),
                       ("long", records(message(sni(b"good.test"), extension(21, bytes(12000)))))):
        equal(hello(world, place, data), data, f"twin {what}")
    equal(hello(world, place, None, pieces=[bytes([b]) for b in records(GOOD)]), records(GOOD), "twin byte by byte")


@case("E-02", "names that are hidden: ECH of the standard and of its drafts, ESNI, and where it is a decoy")
def _(world):
    place = world.reach("good.test:8081")
    for kind in (0xfe0d, 0xfd00, 0xffce, 0xff02, 0xff03, 0xfe08, 0xfe09, 0xfe0a, 0xfe0b, 0xfe0c):
        for data in (b"", bytes(200)):
            equal(hello(world, place, records(message(sni(b"good.test"), extension(kind, data)))), b"", f"{kind:x}")
    for kind in (0xfe0e, 0xff01, 0x0a0a, 0xfafa):
        assert hello(world, place, records(message(sni(b"good.test"), extension(kind, b"\0")))), f"twin {kind:x}"


@case("E-03", "bytes sent ahead of the answer to CONNECT, with it and behind it: they are the tunnel's, and judged")
def _(world):
    place = world.reach("good.test:8081")
    ask = b"CONNECT good.test:8081 HTTP/1.1\r\nHost: good.test\r\n\r\n"
    for behind, arrives in ((records(GOOD) + b"\x17\x03\x03\x00\x01x", True), (records(message(sni(b"denied.test"))), False),
                            (b"GET http://good.test:8081/ HTTP/1.1\r\nHost: good.test:8081\r\n\r\n", False), (ask, False),
                            (b"POST /tools/free HTTP/1.1\r\nHost: g\r\n\r\n", False)):
        before = len(world.raw.got)
        with world.gw.connect(place) as c:
            c.send(ask + behind)
            c.sock.settimeout(10)
            got = b""
            try:
                while len(got) < 45 and (more := c.sock.recv(4096)):
                    got += more
            except OSError:
                pass
        assert got.startswith(b"HTTP/1.1 200 "), got
        assert arrived(before, lambda: len(world.raw.got)), "nobody was connected to"
        equal(at_end(world.raw.got[before]), behind if arrives else b"", behind)
        assert len(world.raw.got) == before + 1
    # A request for the gateway itself first, then CONNECT, on one connection; and nothing behind a refused one.
    with world.gw.connect(place) as c:
        c.send(b"GET /tools HTTP/1.1\r\nHost: g\r\n\r\nCONNECT denied.test:443 HTTP/1.1\r\nHost: g\r\n\r\n" + ask)
        equal([c.read().status for _ in range(2)], [200, 403])
        assert c.at_end()


@case("E-04", "targets that parsers read differently: userinfo, backslashes, percent signs, other schemes, other alphabets, blanks")
def _(world):
    place = world.reach("good.test", "good.test:8080")
    before = world.tls.connections + world.web.connections
    for target in ("good.test:80@denied.test:443", "denied.test:443@good.test:443", "good.test\\@denied.test:443", "good%2etest:443", "good.test%00:443",
                   "good.test#@denied.test:443", "good.test/:443", "g\xf6\xf6d.test:443", "gооd.test:443", "good。test:443", "ｇood.test:443", "good.test:４４３",
                   "good.test:443,denied.test:443", "*.test:443", "good.test:443?x", "http://good.test:443", "good.test:+443", "good.test:443.", "good.test:1bb", "good.test:",
                   "good_.test..:443", "a" * 64 + ".test:443", ".".join(["a" * 63] * 4) + ".test:443"):
        reply = raw(world, place, f"CONNECT {target} HTTP/1.1\r\nHost: good.test\r\n\r\n".encode())
        assert reply.status == 400, (target, reply)
    for url in ("http://good.test@denied.test/", "http://denied.test@good.test/", "http://good.test:80@denied.test/", "http://good.test\\@denied.test/", "http://good.test%40denied.test/",
                "http:///good.test/", "http:/good.test/", "http:good.test", "https://good.test/", "ftp://good.test/", "file:///etc/passwd", "gopher://good.test/", "ws://good.test/",
                "http://good.test#@denied.test/", "http://[good.test]:80/", "http://good.test:80:80/", "//good.test/", "http://", "http://good.test/#x", "http://good.test:0/", "http://?x"):
        reply = raw(world, place, f"GET {url} HTTP/1.1\r\nHost: good.test\r\n\r\n".encode())
        assert reply.status in (400, 403), (url, reply)
    equal(world.tls.connections + world.web.connections, before, "something arrived")
    equal(raw(world, place, b"GET HTTP://GOOD.test./hello HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n").status, 200, "twin")
    for url in ("http://good.test//denied.test/", "http://good.test/http://denied.test/", "http://good.test?@denied.test", "http://good.test:8080/x"):
        reply = raw(world, place, f"GET {url} HTTP/1.1\r\nHost: {url.split('/')[2].split('?')[0]}\r\n\r\n".encode())
        assert reply.status == 404 or url.endswith("denied.test"), (url, reply)
        assert world.web.hits[-1][2].startswith("good.test"), world.web.hits[-1]


@case("E-05", "two requests out of one in absolute form: lengths, chunks, folds, headers that Connection takes away, what is behind the body")
def _(world):
    place = world.reach("good.test:8081")
    ask = b"POST http://good.test:8081/a HTTP/1.1\r\nHost: good.test:8081\r\n"
    second = b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n"
    before = len(world.raw.got)
    for lines, status in ((b"Content-Length: 2\r\nContent-Length: 40\r\n", 400), (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400), (b"Transfer-Encoding: chunked\r\n", 411),
                          (b"Transfer-Encoding:\x0bchunked\r\n", 400), (b"Transfer-Encoding: xchunked\r\nContent-Length: 2\r\n", 400), (b"Transfer-Encoding\r\n: chunked\r\n", 400),
                          (b"Content-Length: 2\r\n X: y\r\n", 400), (b"Content-Length : 2\r\n", 400), (b"Content-Length: 2\n", 400), (b"X: a\rTransfer-Encoding: chunked\r\n", 400),
                          (b"Content-Length: -2\r\n", 400), (b"Content-Length: 2;x\r\n", 400), (b"Host: denied.test\r\n", 400), (b"Host : denied.test\r\n", 400), (b"\0: x\r\n", 400)):
        equal(raw(world, place, ask + lines + b"\r\nhi" + second).status, status, lines)
    equal(raw(world, place, ask.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\n X: y\r\n") + b"\r\n").status, 400, "a fold first")
    equal(raw(world, place, b"GET http://good.test:8081/a HTTP/1.1 \r\nHost: good.test:8081\r\n\r\n").status, 400, "a blank behind")
    equal(raw(world, place, b"GET  http://good.test:8081/a HTTP/1.1\r\nHost: good.test:8081\r\n\r\n").status, 400, "two blanks")
    equal(len(world.raw.got), before, "something arrived")
    for lines in (b"Connection: content-length\r\nContent-Length: 2\r\n", b"Connection: host, x-hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n", b"Transfer_Encoding: chunked\r\nContent-Length: 2\r\n",
                  b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: 2\r\n", b"Content-Length: 2\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 9\r\nTE: x\r\n"):
        with world.gw.connect(place) as c:
            c.send(ask + lines + b"\r\nhi" + second)
            equal(c.sock.recv(6), b"answer", lines)
            c.send(second)
            time.sleep(0.1)
        got = at_end(world.raw.got[-1])
        head = got.split(b"\r\n\r\n")[0].lower()
        assert got.endswith(b"\r\n\r\nhi") and got.count(b"\r\n\r\n") == 1, got
        equal((head.count(b"host:"), head.count(b"content-length: 2"), head.count(b"connection:")), (1, 1, 1), got)
        assert b"\r\nhost: good.test:8081\r\n" in head and b"\r\nconnection: close" in head and b"denied" not in got, got
        for gone in (b"x-hop", b"upgrade", b"http2", b"keep-alive", b"\r\nte:"):
            assert gone not in head, (gone, got)


@case("E-06", "another host named to the server beside Host: what says who was asked for before a proxy")
def _(world):
    place = world.reach("good.test:8081")
    named = ("X-Forwarded-Host", "X-Forwarded-Server", "X-Forwarded-For", "Forwarded", "X-Original-Host", "X-Original-URL", "X-Rewrite-URL", "X-Host", "X-HTTP-Host-Override",
             "X-Forwarded-Proto", "X-Real-IP", "Via")
    with world.gw.connect(place) as c:
        c.send(b"GET http://good.test:8081/a HTTP/1.1\r\nHost: good.test:8081\r\nX-Mine: yes\r\n" + b"".join(f"{name}: denied.test\r\n".encode() for name in named) + b"\r\n")
        equal(c.sock.recv(6), b"answer")
    got = at_end(world.raw.got[-1]).decode()
    assert "denied.test" not in got and "X-Mine: yes\r\n" in got, got


# --- where a name leads -------------------------------------------------------------------------------------------

NOWHERE = ("0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.1.2.3", "169.254.169.254", "169.254.0.23", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1",
           "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16", "93.184.216.1",
           "93.184.216.255", "::", "::1", "::2", "::ffff:93.184.216.34", "::ffff:10.9.0.1", "::ffff:0:10.9.0.1", "::93.184.216.34", "::10.9.0.1", "64:ff9b::10.9.0.1", "64:ff9b:1::10.9.0.1",
           "100::1", "1::1", "fc00::1", "fd00::1", "fd00:ec2::254", "fd00:ec2:1::1", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fe80::1", "fe80::a9fe:a9fe", "fec0::1", "ff02::1", "ff0e::1", "2001::1",
           "2001:0:a9fe:a9fe::5601:5601", "2001:db8::1", "2001:2::1", "2001:20::1", "2002:a09:1::1", "2002:7f00:1::1", "2002:a9fe:a9fe::1", "3fff::1", "4000::1", "5f00::1", "e000::1", NEAR6)
LOCKED = ("169.254.169.254", "169.254.0.23", "64:ff9b::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::5601:5601", "fe80::a9fe:a9fe", "::169.254.169.254", "::ffff:169.254.169.254",
          "::ffff:0:169.254.169.254", "fd00:ec2::254", "fd00:ec2:5::1", "2606:2800:220:1:0:5efe:a9fe:a9fe")


@case("E-07", "every kind of address that is not everybody's, also beside good ones; the metadata service by any rule")
def _(world):
    place = world.reach("*.no.test")
    before = world.tls.connections + world.web.connections + world.local.connections
    for i, address in enumerate(NOWHERE):
        world.names.table[f"n{i}.no.test"] = [address]
        reply = absolute(world, place, f"http://n{i}.no.test/hello")
        assert reply.word == "address_denied", (address, reply)
    everything = world.reach("*.no.test", allow=("0.0.0.0/0", "::/0", "169.254.0.0/16", "169.254.169.254/32", "fc00::/7", "fd00::/8", "fd00:ec2::254/128", "64:ff9b::/96",
                                                 "64:ff9b:1::/48", "2002::/16", "2001::/32", "fe80::/10", "fe80::a9fe:a9fe/128", "::/96", "::ffff:0:0/96", "2606:2800:220:1:0:5efe:a9fe:a9fe/128"))
    for i, address in enumerate(LOCKED):
        world.names.table[f"l{i}.no.test"] = [PUBLIC, PUBLIC6, address]
        reply = absolute(world, everything, f"http://l{i}.no.test/hello")
        assert reply.word == "address_denied" and b"metadata" in reply.body or address.startswith("::ffff:169"), (address, reply)
    equal(world.tls.connections + world.web.connections + world.local.connections, before, "something was dialled")
    world.names.table["twin.no.test"] = ["10.1.2.3", "127.0.0.1", PUBLIC]
    equal(absolute(world, place, "http://twin.no.test/hello").status, 200, "twin")
    # Behind more addresses than are looked at it is not dialled either.
    world.names.table["many.no.test"] = [f"10.1.{i}.1" for i in range(20)] + [METADATA]
    equal(absolute(world, place, "http://many.no.test/hello").word, "address_denied")


@case("E-08", "rebinding: another address for each question, and while others of the fence ask; none but what was judged is dialled")
def _(world):
    place = world.reach("*.swing.test")
    bad = [PRIVATE, METADATA, "127.0.0.1", "93.184.216.1"]
    chance = random.Random(6)
    world.names.table["a.swing.test"] = lambda: [chance.choice([PUBLIC, *bad])]
    local, seen = world.local.connections, []
    threads = [threading.Thread(target=lambda: seen.extend(absolute(world, place, "http://a.swing.test/hello").status for _ in range(30))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {200, 403}, set(seen)
    equal(world.local.connections, local)
    for event in world.events(place, "reached"):
        equal(event["gateway"]["address"], f"{PUBLIC}:80")


class Liar(Names):
    """A name server whose answers are not what they should be."""

    def answer(self, query):
        name = query[13:13 + query[12]].decode()
        good = super().answer(query)
        question = query[12:]
        tail = lambda n: struct.pack("!HHHIH", 0xc00c, 1, 1, 60, 4) + socket.inet_aton(n)
        head = lambda flags, many: query[:2] + struct.pack("!HHHHH", flags, 1, many, 0, 0)
        if len(question) < 5 or query[-4:-2] != b"\0\1":
            return good
        return {"id": bytes([query[0] ^ 1]) + head(0x8180, 1)[1:] + question + tail(PUBLIC),
                "short": query[:7], "noise": query[:2] + os.urandom(200), "cut": head(0x8180, 9) + question + tail(PUBLIC)[:7],
                "loop": head(0x8180, 1) + question + struct.pack("!HHHIH", 0xc00c, 5, 1, 60, 2) + b"\xc0\x0c",
                "jump": head(0x8180, 1) + question + b"\xff\xff" + tail(PUBLIC)[2:], "other": head(0x8180, 1) + b"\x05other\x04test\0\0\1\0\1" + tail(PUBLIC),
                "glue": head(0x8180, 1) + question + b"\x05other\x04test\0" + tail("127.0.0.1")[2:], "long": head(0x8180, 1) + question + struct.pack("!HHHIH", 0xc00c, 1, 1, 60, 5) + b"\x7f\0\0\1\1",
                "cname": head(0x8180, 2) + question + struct.pack("!HHHIH", 0xc00c, 5, 1, 60, 7) + b"\x05local\0" + b"\x05local\0" + tail("127.0.0.1")[2:],
                "chain": head(0x8180, 30) + question + b"".join(struct.pack("!HHHIH", 0xc00c, 5, 1, 60, 2) + b"\xc0\x0c" for _ in range(29)) + tail("10.9.0.1"),
                }.get(name, good)


@case("E-09", "a name server that lies: other numbers, loops, names that lead on to inner ones, answers that are cut, noise")
def _(world):
    liar = Liar()
    liar.table.update({"good.liar.test": [PUBLIC]})
    gateway = world.gateway(config=f"nameservers: 127.0.0.1:{liar.port}\n", limits="dial: 1s").start()
    default, world.gw = world.gw, gateway
    try:
        place = world.reach("*.liar.test")
        gateway.wait_known(place)
        local = world.local.connections + world.web.connections
        for name in ("id", "short", "noise", "cut", "loop", "jump", "other", "glue", "long", "cname", "chain"):
            reply = absolute(world, place, f"http://{name}.liar.test/hello")
            assert reply.word in ("name_not_resolved", "address_denied", "upstream_unreachable"), (name, reply)
        equal(world.local.connections + world.web.connections, local, "something was dialled")
        equal(absolute(world, place, "http://good.liar.test/hello").status, 200, "twin")
    finally:
        world.gw = default
        gateway.stop()


@case("E-10", "the gateway and its host as the server, by a name that leads there, with and without a rule")
def _(world):
    port = world.gw.port
    world.names.table["me.own.test"] = ["127.0.0.1"]
    world.names.table["host.own.test"] = ["93.184.216.1"]
    place = world.reach(f"*.own.test:{port}", "*.own.test:80")
    for name in ("me", "host"):
        equal(absolute(world, place, f"http://{name}.own.test:{port}/tools").word, "address_denied", name)
    # With a rule for that address it is a connection of the gateway's host, and so of nobody.
    open_fence = world.reach(f"*.own.test:{port}", allow=("127.0.0.1/32",))
    where = world.fences.pop("127.0.0.1", None)
    world._write_ids()  # pylint: disable=protected-access
    time.sleep(0.2)
    equal(absolute(world, open_fence, f"http://me.own.test:{port}/tools").word, "unauthenticated")
    if where:
        world.fences["127.0.0.1"] = where
        world._write_ids()  # pylint: disable=protected-access


@case("E-11", "methods and versions: CONNECT in other forms, with a body, in HTTP/1.0, HTTP/2's preface, TRACE")
def _(world):
    place = world.reach("good.test", "good.test:8081")
    for data, status in ((b"CONNECT good.test:443 HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\nhi", 400), (b"CONNECT good.test:443 HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
                         (b"CONNECT good.test:443 HTTP/1.1\r\n\r\n", 400), (b"CONNECT good.test:443\r\n\r\n", 400), (b"CONNECT good.test:443 HTTP/2.0\r\nHost: g\r\n\r\n", 505),
                         (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505), (b"connect good.test:443 HTTP/1.1\r\nHost: g\r\n\r\n", 400), (b"CONNECT /tools HTTP/1.1\r\nHost: g\r\n\r\n", 400),
                         (b"GET good.test:443 HTTP/1.1\r\nHost: g\r\n\r\n", 400), (b"OPTIONS * HTTP/1.1\r\nHost: g\r\n\r\n", 400), (b"\r\nCONNECT good.test:443 HTTP/1.1\r\nHost: g\r\n\r\n", 400),
                         (b"CONNECT good.test:443 HTTP/1.1\r\nHost: g\r\nHost: h\r\n\r\n", 400), (b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test@denied.test\r\n\r\n", 400)):
        reply = raw(world, place, data)
        equal(reply.status, status, data)
    with world.gw.connect(place) as c:
        c.send(b"CONNECT good.test:8081 HTTP/1.0\r\n\r\n" + records(GOOD))
        assert c.sock.recv(100).startswith(b"HTTP/1.1 200")
    for method in ("TRACE", "OPTIONS", "PRI", "TRACK", "X" * 16):
        with world.gw.connect(place) as c:
            c.send(f"{method} http://good.test:8081/x HTTP/1.1\r\nHost: good.test:8081\r\nProxy-Authorization: Basic eDp5\r\n\r\n".encode())
            equal(c.sock.recv(6), b"answer")
        got = at_end(world.raw.got[-1])
        assert got.startswith(f"{method} /x HTTP/1.1\r\nHost: good.test:8081\r\n".encode()) and b"Proxy-Auth" not in got, got


# --- too long -----------------------------------------------------------------------------------------------------


@case("E-12", "a fence that ends while its name is asked for, while it is dialled, before its ClientHello: nothing goes on")
def _(world):
    world.names.table["slow.end.test"] = [PUBLIC]
    for state in ("resolve", "hello", "relay"):
        place = world.reach("slow.end.test:8081", "good.test:8081")
        before = len(world.raw.got)
        name = "good.test"
        if state == "resolve":
            world.names.silent.add("slow.end.test")
            name = "slow.end.test"
        c = world.gw.connect(place)
        c.send(f"CONNECT {name}:8081 HTTP/1.1\r\nHost: g\r\n\r\n".encode())
        if state != "resolve":
            assert c.sock.recv(100).startswith(b"HTTP/1.1 200")
        if state == "relay":
            c.send(records(GOOD))
            equal(c.sock.recv(6), b"answer")
        world.end_fence(place)
        assert c.at_end(5), f"{state}: the connection outlived its fence"
        world.names.silent.discard("slow.end.test")
        if state == "hello":
            try:
                c.send(records(GOOD))
            except OSError:
                pass
        time.sleep(0.3)
        c.close()
        got = world.raw.got[before:]
        equal([g["bytes"] for g in got], [] if state == "resolve" else [b""] if state == "hello" else [records(GOOD)], state)
        assert all(g["ended"] for g in got), f"{state}: the server's connection stays"


@case("E-13", "a fence whose policy changes: tunnels and requests under way are cut, and what comes is judged by the new one")
def _(world):
    place, twin = world.reach("good.test"), world.reach("good.test")
    tunnel, other = open_tunnel(world, place), open_tunnel(world, twin)
    stream = world.gw.connect(place)
    stream.send(b"GET http://good.test/sse HTTP/1.1\r\nHost: good.test\r\n\r\n")
    assert stream.sock.recv(100)
    number = world.fences[place].split(" ")[1]
    with world.lock:
        world.fences[place] = world.fences[place].replace("good.test", "other.test")
        world._write_ids()  # pylint: disable=protected-access
    assert is_cut(tunnel), f"a tunnel of fence {number} outlived the policy"
    assert stream.at_end(5) or not stream.sock.recv(65536), "a request outlived the policy"
    assert not is_cut(other, 0.5), "another's was cut"
    equal(fetch(world, place), "domain_denied")
    equal(fetch(world, place, "other.test:443", "other.test"), OK)
    for c in (stream, other):
        c.close()
    world.web.step.set()


@case("E-20", "what was revoked goes on: tunnels and requests of a fence, a task, a user; others' stay")
def _(world):
    twin = world.reach("good.test")
    other = open_tunnel(world, twin)
    for way in ("fence", "task", "subject"):
        place = world.reach("good.test")
        with world.lock:
            world.fences[place] = world.fences[place].replace(" alice ", f" user-of-{way} ")
            world._write_ids()  # pylint: disable=protected-access
        words = dict(zip(("fence", "subject", "task"), world.fences[place].split(" ")[1:2] + world.fences[place].split(" ")[3:5]))
        time.sleep(0.2)
        tunnel, stream = open_tunnel(world, place), world.gw.connect(place)
        stream.send(b"GET http://good.test/sse HTTP/1.1\r\nHost: good.test\r\n\r\n")
        assert stream.sock.recv(100)
        # The control: what names another cuts nothing.
        equal(world.gw.admin("grants", "revoke", f"--{way}", "7777")["revoked"], 0)
        assert not is_cut(tunnel, 0.5), f"{way}: another's revocation cut it"
        equal(world.gw.admin("grants", "revoke", f"--{way}", f"{int(words[way]):x}" if way == "fence" else words[way])["revoked"], 0)
        assert is_cut(tunnel), f"a tunnel outlived the revocation by {way}"
        assert stream.at_end(5) or not stream.sock.recv(65536), f"a request outlived the revocation by {way}"
        event = world.wait_event(place, "reached", 2)
        assert "revoked" in event["gateway"]["reason"], event
        stream.close()
    assert not is_cut(other, 0.5), "another's was cut"
    other.close()
    world.web.step.set()


# --- exhaustion ---------------------------------------------------------------------------------------------------


@case("E-14", "tunnels that never speak, that say a byte at a time, that were never read: others have theirs")
def _(world):
    place, other = world.reach("good.test:8081"), world.reach("good.test")
    held = []
    for i in range(12):
        c = world.gw.connect(place)
        c.send(b"CONNECT good.test:8081 HTTP/1.1\r\nHost: g\r\n\r\n"[:None if i % 2 else 30])
        held.append(c)
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        for c in held[1::2]:
            try:
                c.send(b"\x16"[:1])
            except OSError:
                pass
        equal(fetch(world, other), OK)
        time.sleep(0.2)
    time.sleep(2)
    for c in held[1::2]:
        c.sock.settimeout(2)
        data = b""
        try:
            while more := c.sock.recv(4096):
                data += more
        except ConnectionError:
            pass
    for c in held:
        c.close()
    equal(fetch(world, place, "good.test:8081", "good.test").split(":")[0], "tls", "the fence has tunnels again")


def small_buffers(small):
    """Sockets of this name space of the network hold little from now on, or as much as they did."""
    for name in ("tcp_rmem", "tcp_wmem"):
        with open(f"/proc/sys/net/ipv4/{name}", "r+") as f:
            before = SYSCTL.setdefault(name, f.read())
            f.write("4096 16384 16384" if small else before)


SYSCTL = {}


def stuffed(world, place):
    """A tunnel with bytes on their way in both directions, read by nobody."""
    c, reply = connect(world, place, "good.test:8082")
    equal(reply.status, 200)
    c.sock.setblocking(False)
    try:
        for data in (records(GOOD), *(bytes(65536) for _ in range(20))):
            c.sock.send(data)
    except OSError:
        pass
    return c


def files_of(process):
    """How many descriptors it has, once that does not grow any more."""
    seen = [0, 1]
    end = time.monotonic() + 20
    while len(set(seen[-5:])) > 1 and time.monotonic() < end:
        time.sleep(0.2)
        seen.append(len(os.listdir(f"/proc/{process.pid}/fd")))
    return seen[-1]


@case("E-15", "descriptors: all tunnels of three fences full in both directions, which takes six each; a fourth reaches what it may")
def _(world):
    listener, served = world.outside.listen(PUBLIC, 8082), []

    def fill(sock):
        try:
            sock.recv(1)
            for _ in range(100):
                sock.sendall(bytes(65536))
        except OSError:
            pass

    def serve():
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            served.append(sock)
            threading.Thread(target=fill, args=(sock,), daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))  # the gateway takes what it needs, and no more
    try:
        gateway = world.gateway(config=f"nameservers: 127.0.0.1:{world.names.port}\n", limits="connections: 128, tunnels: 64").start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    default, world.gw = world.gw, gateway
    held = []
    small_buffers(True)
    try:
        fences = [world.reach("good.test:8082", "good.test") for _ in range(4)]
        held = [stuffed(world, place) for place in fences[:3] for _ in range(31)]
        files = files_of(gateway.process)
        for _ in range(5):
            equal(fetch(world, fences[3]), OK)
        assert files > 93 * 5, f"control: {files} descriptors are not many"
        assert "out of descriptors" not in str(gateway.event_list()), "somebody's tunnel was cut"
    finally:
        small_buffers(False)
        for c in held + served:
            c.close()
        listener.close()
        world.gw = default
        gateway.kill()


@case("E-16", "limits.upload by many connections at once: together no more than it arrives")
def _(world):
    place = world.reach("good.test:8081", upload=300000)
    before = len(world.raw.got)

    def send():
        with world.gw.connect(place) as c:
            try:
                c.send(b"CONNECT good.test:8081 HTTP/1.1\r\nHost: g\r\n\r\n" + records(GOOD))
                c.sock.recv(100)
                for _ in range(100):
                    c.send(bytes(10000))
                c.sock.recv(1)
                c.sock.recv(100)
            except OSError:
                pass
    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(0.3)
    total = sum(len(g["bytes"]) for g in world.raw.got[before:])
    assert 10000 < total <= 300000, total
    refused(world, place, "good.test:8081", "upload_exhausted")


@case("E-17", "a server that is hostile: endless, silent, gone, half closed; it costs its own tunnel")
def _(world):
    place, other = world.reach("good.test:8083"), world.reach("good.test")
    listener = world.outside.listen(PUBLIC, 8083)
    modes = ["rst", "endless", "half", "silent"]

    def one(sock, mode):
        try:
            sock.recv(65536)
            if mode == "rst":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif mode == "half":
                sock.sendall(b"half")
                sock.shutdown(socket.SHUT_WR)
                time.sleep(1)
            elif mode == "endless":
                while True:
                    sock.sendall(bytes(65536))
            else:
                time.sleep(3)
        except OSError:
            pass
        sock.close()

    def serve():
        for mode in modes:
            sock, _ = listener.accept()
            threading.Thread(target=one, args=(sock, mode), daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
    before = world.gw.rss_bytes()
    for mode in modes:
        c, reply = connect(world, place, "good.test:8083")
        with c:
            equal(reply.status, 200)
            c.send(records(GOOD))
            if mode == "endless":
                time.sleep(1)  # nobody reads
                assert world.gw.rss_bytes() - before < 50 << 20
            elif mode == "half":
                equal(c.sock.recv(100), b"half")
                equal(c.sock.recv(100), b"")
            elif mode == "rst":
                assert c.at_end(5)
            equal(fetch(world, other), OK, mode)
    listener.close()


@case("E-18", "heads that are long, many or slow, and a flood of connections")
def _(world):
    place, other = world.reach("good.test"), world.reach("good.test")
    ask = b"GET http://good.test/hello HTTP/1.1\r\nHost: good.test\r\n"
    for data, status in ((ask + b"X: " + b"a" * 8200 + b"\r\n\r\n", 431), (ask + b"X: y\r\n" * 65 + b"\r\n", 431), (b"CONNECT " + b"a" * 9000, 431), (b"CONNECT " + b"a" * 301 + b":443 HTTP/1.1\r\nHost: g\r\n\r\n", 400)):
        equal(raw(world, place, data).status, status, data[:40])
    slow = world.gw.connect(place)
    slow.send(ask)
    flood = []
    for _ in range(1200):
        try:
            flood.append(world.gw.connect(place, 2))
        except OSError:
            break
    equal(fetch(world, other), OK, "beside a flood")
    for c in flood:
        c.close()
    slow.close()
    equal(fetch(world, place), OK, "behind a flood")


@case("E-19", "thirty thousand mutated requests and ClientHellos: the gateway lives")
def _(world):
    place = world.reach("good.test:8081", "good.test")
    chance = random.Random(19)
    seeds = [b"CONNECT good.test:8081 HTTP/1.1\r\nHost: good.test\r\n\r\n" + records(GOOD), b"GET http://good.test/hello HTTP/1.1\r\nHost: good.test\r\nContent-Length: 3\r\n\r\nabc",
             b"POST /mcp HTTP/1.1\r\nHost: g\r\nContent-Length: 40\r\n\r\n" + b'{"jsonrpc":"2.0","id":1,"method":"ping"}', b"GET /up/a/x?y=z HTTP/1.1\r\nHost: g\r\n\r\n"]

    def mutate(data):
        data = bytearray(data)
        for _ in range(chance.randrange(1, 6)):
            at, how = chance.randrange(len(data)), chance.randrange(4)
            if how == 0:
                data[at] = chance.choice((0, 10, 13, 32, 58, 255, 22, chance.randrange(256)))
            elif how == 1:
                del data[at:at + chance.randrange(1, 9)]
            elif how == 2:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
            else:
                data[at:at] = data[chance.randrange(len(data)):][:20]
            data = data or bytearray(b"x")
        return bytes(data)

    def run(many):
        for _ in range(many):
            try:
                with world.gw.connect(place, 0.3) as c:
                    c.send(mutate(chance.choice(seeds)) * chance.choice((1, 1, 3)))
                    if chance.random() < 0.1:
                        c.sock.recv(100)
            except OSError:
                pass
    threads = [threading.Thread(target=run, args=(3000,)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert world.gw.process.poll() is None, world.gw.log()[-3000:]
    end = time.monotonic() + 10
    while fetch(world, place) != OK:
        assert time.monotonic() < end, "it serves no more"
        time.sleep(0.2)
    assert "Sanitizer" not in world.gw.log() and "runtime error" not in world.gw.log(), world.gw.log()[-3000:]
