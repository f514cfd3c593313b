# SPDX-License-Identifier: Apache-2.0
"""
Rows about what comes in, and about names. Others connect or send to what the fence listens at: from outside, and from
the host. DNS servers stand at the outside's address (port 53) and at the gateway's (port 5353, the resolver of the
policy); both log what they are asked.
"""

import os
import socket
import struct
import threading
from socket import AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM

import inside
from rows_net import GATEWAY_UDP, UDP, exchange, family_of, make, passed, received
from table import allowed, attack, ev

# --- coming in --------------------------------------------------------------------------------------------------


def serve(where, host, listen, port=0, kind="tcp"):
    """Listens, has the driver come, and says what the driver got: the token, if it was served."""
    def do(a):
        server = make(family_of(listen), SOCK_STREAM if kind == "tcp" else SOCK_DGRAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((listen, port))
        if kind == "tcp":
            server.listen()
        came = []

        def answer():
            try:
                if kind == "tcp":
                    peer, _ = server.accept()
                    peer.settimeout(1)
                    came.append(peer.recv(100))
                    peer.sendall(a.token.encode())
                else:
                    data, peer = server.recvfrom(100)
                    came.append(data)
                    server.sendto(a.token.encode(), peer)
            except OSError:
                pass

        server.settimeout(0.7)
        thread = threading.Thread(target=answer)
        thread.start()
        got, _ = inside.ask("dial", where=where, host=a.fill(host), port=server.getsockname()[1], kind=kind, data="hello")
        thread.join()
        return {"got": got["got"], "came": bool(came)}
    return do


def served(arena, a, result):
    """It came in, or got an answer: either is too much."""
    return result["data"]["came"] or result["data"]["got"] == a.token


def served_well(arena, a, result):
    return result["data"]["came"] and result["data"]["got"] == a.token


def own_listener(listen, dial):
    """What a development server does: it listens everywhere, and is used from inside."""
    def do(a):
        server = make(family_of(listen), SOCK_STREAM)
        server.bind((listen, 0))
        server.listen()
        s = make(family_of(dial), SOCK_STREAM)
        s.connect((dial, server.getsockname()[1]))
        peer, _ = server.accept()
        s.sendall(b"x")
        peer.settimeout(5)
        if peer.recv(1) != b"x":
            raise RuntimeError("nothing came")
    return do


for where, host, listen, kind in (("peer", "{HOST}", "0.0.0.0", "tcp"), ("peer", "{HOST6}", "::", "tcp"), ("peer", "{HOST}", "::", "tcp"),
                                  ("host", "127.0.0.1", "127.0.0.1", "tcp"), ("host", "{HOST}", "0.0.0.0", "tcp"),
                                  ("peer", "{HOST}", "0.0.0.0", "udp"), ("peer", "{HOST6}", "::", "udp"),
                                  ("host", "127.0.0.1", "127.0.0.1", "udp"), ("host", "::1", "::1", "udp")):
    family = "inet6" if ":" in host or host == "{HOST6}" else "inet"
    attack("N-35", f"{kind} from {'outside' if where == 'peer' else 'the host'} to {host.strip('{}')}, bound to {listen}",
           serve(where, host, listen, kind=kind), effect=served, errnos=(None,), hooks=["net_ingress"],
           events=[ev("inbound", "network.listen", proto=kind, family=family, dst=host, count=range(1, 4))],
           twin=own_listener(listen, "127.0.0.1" if family_of(listen) == AF_INET else "::1"))
for where, host, listen in (("peer", "{HOST}", "0.0.0.0"), ("peer", "{HOST6}", "::"), ("host", "127.0.0.1", "127.0.0.1")):
    allowed("N-35", f"tcp to a port of network.listen, from {'outside' if where == 'peer' else 'the host'} to {host.strip('{}')}",
            serve(where, host, listen, 8000), effect=served_well)


def out_of_a_listening_port(a):
    """A port of network.listen opens nothing for what is begun inside."""
    s = make(AF_INET, SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("0.0.0.0", 8000))
    s.connect((a.X, 80))
    exchange(s, a.token)


attack("N-35", "connecting out from a port of network.listen", out_of_a_listening_port, effect=received, twin=GATEWAY_UDP,
       events=[ev("connect", "network.default", dst="{X}", dport=80, proto="tcp")])

# --- names ------------------------------------------------------------------------------------------------------


def query(a, kind=1):
    """An A query for a name that holds the token."""
    labels = b"".join(bytes([len(part)]) + part for part in a.token.encode().split(b".") + [b"probe", b"test"])
    return struct.pack("!HHHHHH", 0x1234, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def check_answer(data):
    if data[:2] != b"\x12\x34" or data[-4:] != socket.inet_aton("192.0.2.53"):
        raise RuntimeError(f"no answer: {data!r}")


def check_peer(have, want):
    if tuple(have[:2]) != want:
        raise RuntimeError(f"the socket is told that it speaks with {have}, not with {want}")


def dns_udp(server, connect):
    def do(a):
        to = (a.fill(server), 53)
        s = make(family_of(to[0]), SOCK_DGRAM)
        if connect:
            s.connect(to)
            check_peer(s.getpeername(), to)
            s.send(query(a))
        else:
            s.sendto(query(a), to)
        data, peer = s.recvfrom(1000)
        check_answer(data)
        check_peer(peer, to)
    return do


def dns_tcp(server):
    def do(a):
        to = (a.fill(server), 53)
        s = make(family_of(to[0]), SOCK_STREAM)
        s.connect(to)
        check_peer(s.getpeername(), to)
        data = query(a)
        s.sendall(struct.pack("!H", len(data)) + data)
        check_answer(s.recv(1000)[2:])
    return do


def dns_both(a):
    """One socket asks two servers: the answer bears the name of the one asked last, and what is no resolver its own."""
    s = make(AF_INET, SOCK_DGRAM)
    for to in ((a.X, 53), (a.GW, 5300), (a.X, 53)):
        s.sendto(query(a), to)
        check_peer(s.recvfrom(1000)[1], to)


def getent(options):
    """The C library, by the host's resolv.conf, which names the outside's server."""
    def do(a):
        p = inside.run_child(["getent", "ahostsv4", f"{a.token}.probe.test"], env={"RES_OPTIONS": options, "PATH": os.environ["PATH"]})
        if p.returncode or "192.0.2.53" not in p.stdout:
            raise RuntimeError(f"getent: {p.returncode} {p.stdout} {p.stderr}")
    return do


def led(server, resolver):
    """Without the fence the server that was meant is asked, and in audit mode; in the fence the resolver alone is."""
    def effect(arena, a, result):
        there, here = arena.asked(a.fill(server), a.token), arena.asked(a.fill(resolver), a.token)
        return here and not there if arena.phase == "enforce" else there and not here
    return effect


for name, do, server, resolver in (
        ("udp, sendto", dns_udp("{X}", False), "{X}", "{GW}"), ("udp, connected", dns_udp("{X}", True), "{X}", "{GW}"),
        ("udp over IPv6, sendto", dns_udp("{X6}", False), "{X6}", "{GW6}"),
        ("udp over IPv6, connected", dns_udp("{X6}", True), "{X6}", "{GW6}"),
        ("udp, mapped, sendto", dns_udp("::ffff:{X}", False), "{X}", "{GW}"),
        ("udp, mapped, connected", dns_udp("::ffff:{X}", True), "{X}", "{GW}"),
        ("tcp", dns_tcp("{X}"), "{X}", "{GW}"), ("tcp over IPv6", dns_tcp("{X6}"), "{X6}", "{GW6}"),
        ("tcp, mapped", dns_tcp("::ffff:{X}"), "{X}", "{GW}"), ("one socket, two servers", dns_both, "{X}", "{GW}"),
        ("getent by udp", getent("timeout:2"), "{X}", "{GW}"), ("getent by tcp", getent("use-vc timeout:2"), "{X}", "{GW}")):
    allowed("N-36", f"a query to a resolver outside goes to the gateway's: {name}", do, effect=led(server, resolver))
allowed("N-36", "a query to the gateway's resolver by its own name",
        lambda a: inside_resolver(a), effect=lambda arena, a, r: arena.asked(a.GW, a.token))


def inside_resolver(a):
    s = make(AF_INET, SOCK_DGRAM)
    s.sendto(query(a), (a.GW, 5353))
    data, peer = s.recvfrom(1000)
    check_answer(data)
    check_peer(peer, (a.GW, 5353))


def foreign_query(a, s):
    s.send(query(a))


attack("N-36", "a query on a socket that was made outside", passed("udp-53", foreign_query), twin=passed("udp", lambda a, s: s.send(b"x"), True),
       effect=lambda arena, a, r: arena.asked(a.X, a.token), events=[ev("connect", "network.dns", dst="{X}", dport=53, proto="udp")])
attack("N-36", "metadata at port 53", lambda a: make(AF_INET, SOCK_DGRAM).sendto(a.token.encode(), ("169.254.169.254", 53)),
       effect=lambda arena, a, r: arena.on_wire(UDP, "169.254.169.254", 53), audit="deny", twin=dns_udp("{X}", False),
       events=[ev("sendmsg", "network.metadata", dst="169.254.169.254", dport=53, proto="udp", metadata=True)])
