# SPDX-License-Identifier: Apache-2.0
"""
The resolver of fences: what it answers, what it asks nobody for, and what of an upstream's answers it believes. Each denial beside
its control, the same name for a fence that may; whether anything left is what the name server outside noted.
"""

import os
import random
import socket
import struct
import threading
import time

from dns import (A, AAAA, ANY, CNAME, FORMERR, HTTPS, MX, NOERROR, NOTIMP, NULL, NXDOMAIN, PTR, REFUSED, SERVFAIL, SRV, SVCB, TXT,
                 Server, ask_tcp, ask_udp, question, record, wire)
from harness import METADATA, NAT64, NEAR, PRIVATE, PUBLIC, PUBLIC6, free_port

CASES = []
OTHER = "93.184.216.35"


def case(number, title):
    def add(function):
        CASES.append((number, title, lambda world: function(resolver_of(world))))
        return function
    return add


def equal(got, want, what=""):
    assert got == want, f"{what}: {got!r}, not {want!r}"


class Resolver:
    """One gateway with a resolver, and the name server that it asks."""

    def __init__(self, world):
        self.world, self.server = world, Server()
        self.address = ("127.0.0.1", free_port())
        self.server.table.update({"good.test": [PUBLIC, PUBLIC6], "other.test": [PUBLIC], "denied.test": [PUBLIC],
                                  "good.test.denied.test": [PUBLIC]})
        self.gw = world.gateway(config=f"nameservers: 127.0.0.1:{self.server.port}\ndns: 127.0.0.1:{self.address[1]}\n",
                                limits="dns_queries: 5000, dns_names: 16").start()

    def fence(self, *domains, allow=()):
        place = self.world.reach(*domains, allow=allow)
        self.gw.wait_known(place)
        return place

    def ask(self, place, name, kind=A, **options):
        return ask_udp(self.address, place, question(name, kind, **options))

    def events(self, place, code=None):
        number = int(self.world.fences[place].split(" ")[1])
        return [e for e in self.gw.event_list() if e["fence"]["id"] == f"{number:016x}" and e["op"] == "resolve" and
                (code is None or e["gateway"]["reason"].split(":")[0] == code)]

    def wait_events(self, place, code, many=1):
        """Waits until that many questions are in events of that word."""
        end = time.monotonic() + 10
        count = lambda: sum(max(e.get("count", 1), 1) for e in self.events(place, code))
        while count() < many and time.monotonic() < end:
            time.sleep(0.05)
        equal(count(), many, f"{code}: {self.events(place)}")
        return self.events(place, code)[-1]

    def left(self, since):
        """What has been asked for since; a name that nobody answers is asked for again and again."""
        return [name for name in self.server.names()[since:] if name != "silent.test"]


def resolver_of(world):
    if not hasattr(world, "resolver"):
        world.resolver = Resolver(world)
    return world.resolver


def unasked(r, place, name, kind=A, rcode=NXDOMAIN, **options):
    """It is refused, and nobody outside is asked for anything."""
    before = len(r.server.asked)
    got = r.ask(place, name, kind, **options)
    assert got, f"{name}: no answer"
    equal((got.rcode, got.records), (rcode, []), f"{name} {kind}")
    time.sleep(0.02)
    equal(r.left(before), [], f"{name} {kind} was asked for")
    return got


# --- who and what -------------------------------------------------------------------------------------------------


@case("D-01", "an allowed name is answered, over UDP and TCP, with its own letters; who is no fence is told nothing")
def _(r):
    place = r.fence("good.test")
    got = r.ask(place, "GoOd.tEst", number=4711, edns=True)
    equal((got.rcode, got.id, got.response, got.name), (NOERROR, 4711, True, "GoOd.tEst"))
    equal(got.addresses, [PUBLIC])
    equal(r.ask(place, "good.test", AAAA).addresses, [PUBLIC6])
    equal([a.addresses for a in ask_tcp(r.address, place, question("good.test"), question("good.test", AAAA), question("good.test."))],
          [[PUBLIC], [PUBLIC6], [PUBLIC]], "three at once on one connection")
    event = r.wait_events(place, "ok")
    equal((event["verdict"], event["rule"], event["gateway"]["object"], event["gateway"]["action"]),
          ("allow", "gateway.allow", "good.test", "A"))
    before = len(r.server.asked)
    got = ask_udp(r.address, "127.9.9.9", question("good.test", edns=True))
    equal((got.rcode, got.truncated, got.records), (NOERROR, True, []), "a datagram of nobody's: come by TCP")
    got, = ask_tcp(r.address, "127.9.9.9", question("other.test", edns=True))
    equal((got.rcode, got.records, got.why), (REFUSED, [], (18, "unauthenticated")))
    equal(ask_tcp(r.address, "127.9.9.9", question("other.test"), question("other.test"))[1:], [None], "and the connection ends")
    equal(r.left(before), [], "somebody was asked for a stranger")


@case("D-02", "where the kernel notes no datagrams, a client comes again by TCP by itself")
def _(r):
    port = free_port()
    gw = r.world.gateway(config=f"nameservers: 127.0.0.1:{r.server.port}\ndns: 127.0.0.1:{port}\n",
                         env={"CORDON_TEST_DATAGRAMS": "no"}).start()
    place = r.fence("good.test")
    gw.wait_known(place)
    got = ask_udp(("127.0.0.1", port), place, question("good.test"))
    equal((got.truncated, got.records), (True, []))
    equal(ask_tcp(("127.0.0.1", port), place, question("good.test"))[0].addresses, [PUBLIC])
    gw.stop()


@case("X-18", "what no rule has is NXDOMAIN, whatever its type, and nobody is asked")
def _(r):
    place, wide = r.fence("good.test", "*.sub.test"), r.fence("denied.test", "good.test")
    r.server.table["a.sub.test"] = [PUBLIC]
    equal(r.ask(wide, "denied.test").addresses, [PUBLIC], "control: that name is there")
    equal(r.ask(place, "a.sub.test").addresses, [PUBLIC], "twin")
    for name in ("denied.test", "good.test.denied.test", "xgood.test", "a.good.test", "sub.test", "xsub.test", "test", "",
                 "34.216.184.93.in-addr.arpa", "a.b_c*.sub.test", "a\\b.sub.test", "0x7f.1", "localhost"):
        for kind in (A, AAAA, CNAME, TXT, NULL, ANY, MX, PTR, HTTPS):
            unasked(r, place, name, kind)
    equal(unasked(r, place, "denied.test", edns=True).why, (18, "domain_denied"))
    before = len(r.server.asked)
    for i in range(200):
        label = f"{random.getrandbits(160):040x}"
        equal(r.ask(place, f"{label}.evil.test", (A, AAAA, TXT, NULL, ANY)[i % 5]).rcode, NXDOMAIN)
    equal(r.left(before), [])
    event = r.wait_events(place, "domain_denied", 13 * 9 + 1 + 200)
    equal((event["verdict"], event["rule"]), ("deny", "gateway.domain"))
    assert len(r.events(place, "domain_denied")) < 30, "a flood of denials is a flood of events"


@case("X-18", "of an allowed name nothing but addresses and aliases is asked for")
def _(r):
    place = r.fence("good.test")
    r.server.table["good.test"] = lambda q, send: send(q.answer(*(
        [record(q.raw, A, PUBLIC)] if q.kind == A else [record(q.raw, AAAA, PUBLIC6)] if q.kind == AAAA else
        [record(q.raw, TXT, b"\x04data")] if q.kind == TXT else [])))
    for kind in (TXT, NULL, ANY, MX, SRV, HTTPS, SVCB, PTR, 0, 65535, 251, 252):
        unasked(r, place, "good.test", kind, REFUSED)
    unasked(r, place, "good.test", A, REFUSED, klass=3)
    equal(r.ask(place, "good.test").addresses, [PUBLIC], "twin")
    equal(r.wait_events(place, "query_denied", 13)["rule"], "gateway.domain")


@case("X-18", "below *.: labels no longer and no more random than names are")
def _(r):
    place, exact = r.fence("*.sub.test"), "x" * 50 + ".long.test"
    usual = ("a.sub.test", "api-eu-west-1.sub.test", "d111111abcdef8.sub.test", "a.b.c.d.sub.test",
             "ec2-203-0-113-25.compute-1.sub.test", "my-company-bucket.s3.sub.test")
    for name in usual:
        r.server.table[name] = [PUBLIC]
        equal(r.ask(place, name).addresses, [PUBLIC], name)
    for name in (f"{random.getrandbits(160):040x}", "x" * 41, ".".join("ab" for _ in range(7)), ".".join(["a" * 30] * 4),
                 ".".join("abcdefghijklmnopqrst" for _ in range(2)) + ".zyxwvutsrqp"):
        got = unasked(r, place, name + ".sub.test", edns=True)
        equal(got.why, (18, "label_denied"), name)
    equal(r.wait_events(place, "label_denied", 5)["rule"], "gateway.domain")
    named = r.fence(exact)
    r.server.table[exact] = [PUBLIC]
    equal(r.ask(named, exact).addresses, [PUBLIC], "a name that the policy spells out is as it is")


@case("X-18", "below *.: so many new names at once, and then slowly; what was asked lately, and others, go on")
def _(r):
    place, other = r.fence("*.many.test", "good.test"), r.fence("*.many.test")
    for i in range(60):
        r.server.table[f"n{i}.many.test"] = [PUBLIC]
    before = len(r.server.asked)
    codes = [r.ask(place, f"n{i}.many.test").rcode for i in range(40)]
    equal(codes[:16], [NOERROR] * 16)
    assert 16 <= codes.count(NOERROR) <= 20 and codes.count(REFUSED) >= 20, codes
    equal(len(r.left(before)), codes.count(NOERROR), "what was refused was asked for")
    equal(r.ask(place, "n0.many.test").rcode, NOERROR, "it is known")
    equal(r.ask(place, "n0.many.test", AAAA).rcode, NOERROR, "and its other addresses")
    equal(r.ask(place, "good.test").rcode, NOERROR, "a name that the policy spells out")
    equal(r.ask(other, "n50.many.test").rcode, NOERROR, "another fence")
    time.sleep(1.2)
    equal(r.ask(place, "n55.many.test").rcode, NOERROR, "a second later there is room for one")
    equal(r.wait_events(place, "names_exhausted", codes.count(REFUSED))["rule"], "gateway.quota")


@case("D-03", "a fence asks so often a second, and others meanwhile")
def _(r):
    port = free_port()
    gw = r.world.gateway(config=f"nameservers: 127.0.0.1:{r.server.port}\ndns: 127.0.0.1:{port}\n", limits="dns_queries: 10").start()
    place, other = r.fence("good.test"), r.fence("good.test")
    for known in (place, other):
        gw.wait_known(known)
    ask = lambda where: ask_udp(("127.0.0.1", port), where, question("good.test", edns=True))
    answers = [ask(place) for _ in range(60)]
    assert 20 <= sum(a.rcode == NOERROR for a in answers) <= 40, answers
    equal({a.why for a in answers if a.rcode}, {(18, "rate_limited")})
    equal(ask(other).addresses, [PUBLIC])
    gw.stop()


# --- what comes back ----------------------------------------------------------------------------------------------


@case("X-09", "addresses that are not for everybody are left out; a name that leads to the metadata service leads nowhere")
def _(r):
    bad = ("127.0.0.1", PRIVATE, "192.168.1.1", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", NEAR, "168.63.129.16",
           "::1", "::", "fe80::1", "fd00::1", "::ffff:10.0.0.1", "::ffff:93.184.216.34", NAT64, "ff02::1", "2002:0a00:0001::1")
    place = r.fence("*.bind.test", "mixed.test", "meta.test", "meta6.test", "private.test", "good.test")
    equal(r.ask(place, "good.test").addresses, [PUBLIC], "control")
    for i, address in enumerate(bad[:14]):
        r.server.table[f"n{i}.bind.test"] = [address]
        got = r.ask(place, f"n{i}.bind.test", AAAA if ":" in address else A, edns=True)
        equal((got.rcode, got.records, got.why), (REFUSED, [], (18, "address_denied")), address)
    event = r.wait_events(place, "address_denied", 14)
    equal(event["rule"], "gateway.address")
    r.server.table["mixed.test"] = ["10.0.0.1", PUBLIC, "127.0.0.1"]
    equal(r.ask(place, "mixed.test").addresses, [PUBLIC], "the others are answered")
    r.server.table["meta.test"] = [PUBLIC, METADATA]
    equal((r.ask(place, "meta.test").rcode, r.ask(place, "meta.test").records), (REFUSED, []))
    r.server.table["meta6.test"] = [PUBLIC6, "fd00:ec2::254"]
    equal(r.ask(place, "meta6.test", AAAA).rcode, REFUSED)
    r.server.table["private.test"] = ["10.1.2.3", "10.2.0.1"]
    open_to = r.fence("private.test", "meta.test", allow=("10.1.0.0/16", "0.0.0.0/0", "169.254.0.0/16"))
    equal(r.ask(open_to, "private.test").addresses, ["10.1.2.3"], "network.allow opens what lies in its prefix")
    equal(r.ask(place, "private.test").records, [], "for that fence alone, though the answer is remembered for all")
    equal(r.ask(open_to, "meta.test").records, [], "the metadata service nothing opens")


@case("X-09", "an answer that changes is judged each time")
def _(r):
    turn = []
    r.server.ttl, place = 0, r.fence("turn.test")

    def answer(q, send):
        turn.append(1)
        send(q.answer(record(q.raw, A, PUBLIC if len(turn) % 2 else "127.0.0.1", 0)))
    r.server.table["turn.test"] = answer
    got = []
    for _ in range(2):
        got.append(r.ask(place, "turn.test"))
        time.sleep(5.1)
    r.server.ttl = 60
    equal(([a.rcode for a in got], len(turn)), ([NOERROR, REFUSED], 2))


@case("D-04", "aliases are followed to a depth, and come as the asked name; an alias asked for is told")
def _(r):
    place = r.fence("alias.test", "deep.test", "loop.test", "*.hop.test")

    def chain(q, send):
        records = [record("alias.test", CNAME, "x1.elsewhere.test", 30), record("x1.elsewhere.test", CNAME, "x2.elsewhere.test", 20),
                   record("x2.elsewhere.test", A, PUBLIC, 300), record("unasked.test", A, OTHER, 1)]
        send(q.answer(*(records if q.kind == A and q.name == "alias.test" else
                        [record(q.raw, CNAME, "x1.elsewhere.test", 30)] if q.name == "alias.test" else
                        [record(q.raw, CNAME, "x2.elsewhere.test", 20), record("x2.elsewhere.test", A, PUBLIC, 300)]
                        if q.name == "x1.elsewhere.test" else [record(q.raw, A, PUBLIC, 300)])))
    for name in ("alias.test", "x1.elsewhere.test", "x2.elsewhere.test"):
        r.server.table[name] = chain
    got = r.ask(place, "alias.test")
    equal([(n, k, v) for n, k, _, v in got.records], [("alias.test", A, PUBLIC)])
    assert got.records[0][2] <= 20, got
    equal([(n, k, v) for n, k, _, v in r.ask(place, "alias.test", CNAME).records], [("alias.test", CNAME, "x1.elsewhere.test")])
    unasked(r, place, "x1.elsewhere.test")

    def endless(q, send):
        hop = int(q.name.split(".")[0][1:]) if q.name.endswith("hop.test") else 0
        send(q.answer(record(q.raw, CNAME, f"h{hop + 1}.hop.test")))
    for name in ["deep.test"] + [f"h{i}.hop.test" for i in range(1, 60)]:
        r.server.table[name] = endless
    r.server.table["loop.test"] = lambda q, send: send(q.answer(record(q.raw, CNAME, "loop.test")))
    before = len(r.server.asked)
    equal((r.ask(place, "deep.test").rcode, r.ask(place, "loop.test").rcode), (SERVFAIL, SERVFAIL), r.left(before))
    assert len(r.left(before)) < 60, r.left(before)


@case("D-05", "each question has a number, a port and letters of its own")
def _(r):
    place = r.fence(*(f"r{i}.test" for i in range(40)))
    before = len(r.server.asked)
    for i in range(40):
        r.server.table[f"r{i}.test"] = [PUBLIC]
        equal(r.ask(place, f"r{i}.test").rcode, NOERROR)
    asked = r.server.asked[before:]
    assert len({q.id for q in asked}) > 36 and len({q.peer[1] for q in asked}) > 20, [(q.id, q.peer[1]) for q in asked]
    assert sum(q.raw != q.name for q in asked) > 30, [q.raw for q in asked]


@case("D-06", "what does not answer the question, by number, port, name, letters or time, is not believed")
def _(r):
    stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stranger.bind(("127.0.0.1", 0))
    lie = lambda q, **o: q.answer(record(q.raw, A, OTHER), **o)
    good = lambda q: q.answer(record(q.raw, A, PUBLIC))

    first = lambda name: r.server.names().count(name) == 1

    def port(q, send):
        stranger.sendto(lie(q), q.peer)
        send(good(q))

    def source_port(q, send):
        r.server.udp.sendto(lie(q), (q.peer[0], q.peer[1] ^ 1))
        send(good(q))
    ways = {
        "number.test": lambda q, send: [send(lie(q, number=(q.id + i) & 0xffff)) for i in range(1, 40)] and send(good(q)),
        "port.test": port, "sport.test": source_port,
        "name.test": lambda q, send: (first("name.test") and send(lie(q, asked=wire("other.test") + struct.pack("!HH", A, 1))), send(good(q))),
        "owner.test": lambda q, send: send(q.answer(record("other.test", A, OTHER), record(q.raw, A, PUBLIC))),
        "letters.test": lambda q, send: (first("letters.test") and send(lie(q, asked=wire(q.name) + struct.pack("!HH", A, 1))), send(good(q))),
        "late.test": lambda q, send: (send(good(q)), time.sleep(0.05), send(lie(q))),
        "half.test": lambda q, send: (first("half.test") and send(lie(q)[:-3]), send(good(q))),
    }
    place = r.fence(*ways)
    for name, answer in ways.items():
        r.server.table[name] = answer
        got = r.ask(place, name)
        equal((got.rcode, got.addresses), (NOERROR, [PUBLIC]), name)
        time.sleep(0.1)
        equal(r.ask(place, name).addresses, [PUBLIC], name + ", and it stays so")
    r.server.table["believed.test"] = lambda q, send: send(lie(q))
    control = r.fence("believed.test")
    equal(r.ask(control, "believed.test").addresses, [OTHER], "control: the same answer by the right number and port is")
    stranger.close()


@case("D-07", "what does not fit comes by TCP, on both sides")
def _(r):
    many = [f"93.184.{i}.1" for i in range(32)]
    place = r.fence("many.test", "cut.test")
    r.server.table["many.test"] = many
    r.server.table["cut.test"] = lambda q, send: send(q.answer(record(q.raw, A, PUBLIC)) if q.tcp else q.answer(truncated=True))
    got = r.ask(place, "many.test")
    equal((got.rcode, got.truncated, got.records), (NOERROR, True, []), "more than 512 bytes to who said no more")
    equal(r.ask(place, "many.test", edns=True).addresses, sorted(many), "who can take them gets them")
    equal(ask_tcp(r.address, place, question("many.test"))[0].addresses, sorted(many))
    equal(r.ask(place, "cut.test").addresses, [PUBLIC], "the upstream is asked by TCP")
    assert any(q.tcp for q in r.server.asked if q.name == "cut.test")


@case("D-08", "answers are remembered no longer than they say, and not shorter than a while")
def _(r):
    place = r.fence("kept.test", "short.test", "none.test", "long.test")
    count = lambda name: r.server.names().count(name)
    r.server.table.update({n: (lambda q, send, ttl=ttl: send(q.answer(record(q.raw, A, PUBLIC, ttl))))
                           for n, ttl in (("kept.test", 60), ("short.test", 0), ("long.test", 10 ** 9))})
    for name in ("kept.test", "short.test", "long.test"):
        for _ in range(5):
            equal(r.ask(place, name).addresses, [PUBLIC])
        equal(count(name), 1, name)
    assert 55 <= r.ask(place, "kept.test").records[0][2] <= 60
    assert 0 < r.ask(place, "short.test").records[0][2] <= 5
    assert 3500 < r.ask(place, "long.test").records[0][2] <= 3600
    for _ in range(3):
        equal(r.ask(place, "none.test").rcode, NXDOMAIN, "an allowed name that is not there")
    equal(count("none.test"), 1)
    time.sleep(5.1)
    equal(r.ask(place, "short.test").addresses, [PUBLIC])
    equal((count("short.test"), count("kept.test")), (2, 1))


@case("D-09", "a name server that is silent: SERVFAIL before the client gives up, and the others are answered meanwhile")
def _(r):
    place, other = r.fence("silent.test", "*.silent.test"), r.fence("good.test")
    r.server.table["silent.test"] = lambda q, send: None
    got = []
    thread = threading.Thread(target=lambda: got.append(r.ask(place, "silent.test", edns=True)))
    start = time.monotonic()
    thread.start()
    time.sleep(0.2)
    equal(r.ask(other, "good.test").rcode, NOERROR)
    thread.join()
    equal((got[0].rcode, got[0].why), (SERVFAIL, (22, "name_not_resolved")))
    assert time.monotonic() - start < 5, time.monotonic() - start
    equal(r.wait_events(place, "name_not_resolved")["rule"], "gateway.execution")


# --- bytes --------------------------------------------------------------------------------------------------------


@case("X-20", "what is no question is answered with FORMERR or not at all, at once, and the resolver goes on")
def _(r):
    place = r.fence("good.test")
    head = lambda questions=1, flags=0x0100, an=0, ns=0, ar=0: struct.pack("!HHHHHH", 7, flags, questions, an, ns, ar)
    tail, opt = struct.pack("!HH", A, 1), b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0)
    bad = [(head() + b"\xc0\x0c" + tail, FORMERR), (head() + b"\xc0\x0e\xc0\x0c" + tail, FORMERR), (head() + b"\xc0\xff" + tail, FORMERR),
           (head() + b"\xff" + b"a" * 255 + b"\0" + tail, FORMERR), (head() + (b"\x3f" + b"a" * 63) * 5 + b"\0" + tail, FORMERR),
           (head() + b"\x01a" * 200 + b"\0" + tail, FORMERR), (head() + b"\x04good\x04te", FORMERR), (head() + wire("good.test"), FORMERR),
           (head(65535) + wire("good.test") + tail, FORMERR), (head(0), FORMERR), (head(2) + (wire("good.test") + tail) * 2, FORMERR),
           (head(an=1) + wire("good.test") + tail + record("good.test", A, PUBLIC), FORMERR),
           (head(ns=65535) + wire("good.test") + tail, FORMERR), (head(ar=65535) + wire("good.test") + tail, FORMERR),
           (head(ar=2) + wire("good.test") + tail + opt * 2, FORMERR), (head(ar=1) + wire("good.test") + tail, FORMERR),
           (head(ar=1) + wire("good.test") + tail + b"\0" + struct.pack("!HHIH", 41, 1232, 1 << 16, 0), FORMERR),
           (head(ar=1) + wire("good.test") + tail + b"\0" + struct.pack("!HHIH", 41, 1232, 0, 65535), FORMERR),
           (head(flags=0x2100) + wire("good.test") + tail, NOTIMP), (head(flags=0x2800) + wire("good.test") + tail, NOTIMP),
           (head(flags=0x8100) + wire("good.test") + tail, None), (b"", None), (b"abc", None), (head()[:11], None),
           (head() + wire("good.test") + tail + b"x" * 1300, None)]
    before = len(r.server.asked)
    for data, rcode in bad:
        start = time.monotonic()
        got = ask_udp(r.address, place, data, timeout=1 if rcode is not None else 0.2)
        equal(got and got.rcode, rcode, data[:40])
        assert rcode is None or time.monotonic() - start < 0.5, data[:40]
        if len(data) <= 1232 and rcode is not None:
            got, = ask_tcp(r.address, place, data)
            equal(got and got.rcode, rcode, data[:40])
    equal(r.left(before), [])
    equal(ask_tcp(r.address, place, b"abc", timeout=2), [None])
    with socket.create_connection(r.address, source_address=(place, 0)) as s:
        s.sendall(b"\xff\xff")
        s.settimeout(2)
        equal(s.recv(1), b"", "a length that no question has ends the connection")
    whole = question("good.test")
    with socket.create_connection(r.address, source_address=(place, 0)) as s:
        for byte in struct.pack("!H", len(whole)) + whole:
            s.sendall(bytes((byte,)))
            time.sleep(0.001)
        s.settimeout(5)
        assert s.recv(100), "byte by byte is no fault"
    random.seed(18)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((place, 0))
        for _ in range(3000):
            data = bytearray(whole)
            for _ in range(random.randrange(1, 6)):
                data[random.randrange(len(data))] = random.randrange(256)
            s.sendto(bytes(data[:random.randrange(len(data) + 1)] if random.random() < 0.3 else data), r.address)
    answer, = ask_tcp(r.address, place, question("good.test"))  # by UDP it may find no room behind all these
    equal(answer.addresses, [PUBLIC])
    equal(set(r.left(before)) - {"good.test"}, set(), "by chance a name left")


@case("D-10", "so many connections of one fence, and idle ones end")
def _(r):
    place, other = r.fence("good.test"), r.fence("good.test")
    held = []
    for _ in range(60):
        s = socket.create_connection(r.address, source_address=(place, 0))
        s.settimeout(0.3)
        held.append(s)
    time.sleep(0.3)

    def ended(s):
        try:
            return s.recv(1) == b""
        except socket.timeout:
            return False
    gone = sum(ended(s) for s in held)
    equal(gone, 60 - 32)
    equal(ask_tcp(r.address, other, question("good.test"))[0].addresses, [PUBLIC], "another fence")
    end = time.monotonic() + 15
    for s in held:
        s.settimeout(max(0.1, end - time.monotonic()))
    assert all(ended(s) for s in held), "idle connections stay"
    for s in held:
        s.close()


@case("D-11", "a fence that ends is a stranger at once, on its connections, too")
def _(r):
    place = r.fence("good.test")
    with socket.create_connection(r.address, source_address=(place, 0)) as s:
        whole = question("good.test")
        s.sendall(struct.pack("!H", len(whole)) + whole)
        s.settimeout(5)
        assert s.recv(512)
        r.world.end_fence(place)
        time.sleep(0.5)
        equal(s.recv(1), b"")
    equal(ask_udp(r.address, place, question("good.test")).truncated, True)


@case("D-12", "while events cannot be written nothing is decided")
def _(r):
    port, path = free_port(), os.path.join(r.world.directory, "nobody.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        gw = r.world.gateway(config=f"nameservers: 127.0.0.1:{r.server.port}\ndns: 127.0.0.1:{port}\n", events=path)
        gw.start()
        place = r.fence("good.test")
        gw.wait_known(place)
        before = len(r.server.asked)
        equal(ask_udp(("127.0.0.1", port), place, question("good.test")).rcode, SERVFAIL)
        equal(r.left(before), [])
        listener.listen(5)
        end = time.monotonic() + 10
        while (got := ask_udp(("127.0.0.1", port), place, question("good.test"))).rcode and time.monotonic() < end:
            time.sleep(0.2)
        equal(got.addresses, [PUBLIC])
        gw.stop()


@case("D-13", "another configuration names other servers; the address stays")
def _(r):
    port, second = free_port(), Server()
    second.table["moved.test"] = [OTHER]
    r.server.table["moved.test"] = [PUBLIC]
    config = "nameservers: 127.0.0.1:{}\ndns: 127.0.0.1:{}\n"
    gw = r.world.gateway(config=config.format(r.server.port, port)).start()
    place = r.fence("moved.test", "moved2.test")
    gw.wait_known(place)
    equal(ask_udp(("127.0.0.1", port), place, question("moved.test")).addresses, [PUBLIC])
    gw.configure(config=config.format(second.port, port))
    gw.reload()
    second.table["moved2.test"] = [OTHER]
    equal(ask_udp(("127.0.0.1", port), place, question("moved2.test")).addresses, [OTHER])
    gw.stop()
