# SPDX-License-Identifier: Apache-2.0
"""
Rows about the same thing in another form: by io_uring, from another network namespace, by routes and headers, through
listeners that share a port, by telling the kernel where packets go. And: how soon a refusal comes.
"""

import ctypes
import errno
import fcntl
import os
import socket
import struct
import time
import zlib
from socket import AF_INET, AF_INET6, AF_NETLINK, IPPROTO_IPV6, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM

import inside
import uring
from rows_net import (DG, GATEWAY, GATEWAY_UDP, SCTP, UDP, exchange, family_of, families_twin, fastopen, make, own_tcp, passed,
                      received, tcp, udp, wire)
from table import allowed, attack, ev

# --- io_uring ---------------------------------------------------------------------------------------------------


def sockaddr(host, port):
    if ":" in host:
        return struct.pack("=H", AF_INET6) + struct.pack("!HI", port, 0) + socket.inet_pton(AF_INET6, host) + bytes(4)
    return struct.pack("=H", AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def ring_tcp(host, port, sqpoll=False, flags=uring.ASYNC):
    """IORING_OP_CONNECT and SEND on a socket of a system call."""
    def do(a):
        ring = uring.Ring(sqpoll)
        s = socket.socket(family_of(a.fill(host)), SOCK_STREAM)
        name, at = uring.address_of(sockaddr(a.fill(host), port))
        ring.run(uring.CONNECT, s.fileno(), at, off=len(name), flags=flags)
        data, at = uring.address_of(a.token.encode())
        ring.run(uring.SEND, s.fileno(), at, len(data), flags=flags)
        s.settimeout(5)
        s.recv(100)
    return do


def ring_udp(host, port, flags=uring.ASYNC):
    """IORING_OP_SENDMSG."""
    def do(a):
        ring = uring.Ring()
        s = make(AF_INET, SOCK_DGRAM)
        name, name_at = uring.address_of(sockaddr(a.fill(host), port))
        data, data_at = uring.address_of(a.token.encode())
        iov, iov_at = uring.address_of(struct.pack("=QQ", data_at, len(data)))
        head, head_at = uring.address_of(struct.pack("=QIIQQQQI4x", name_at, len(name), 0, iov_at, 1, 0, 0, 0))
        ring.run(uring.SENDMSG, s.fileno(), head_at, 1, flags=flags)
        s.recv(100)
        del name, data, iov, head
    return do


def ring_socket(family):
    """IORING_OP_SOCKET: since 5.19."""
    def do(a):
        return "made" if uring.Ring().run(uring.SOCKET, family, off=SOCK_DGRAM if family == AF_INET else SOCK_RAW) >= 0 else None
    return do


WORKER = {"process__comm": "python3"}
for name, sqpoll, flags in (("inline", False, 0), ("by a worker", False, uring.ASYNC), ("by SQPOLL", True, 0)):
    attack("N-25", f"IORING_OP_CONNECT {name}", ring_tcp("{X}", 80, sqpoll, flags), effect=wire(6, "{X}", 80),
           twin=ring_tcp("{GW}", 8800, sqpoll, flags), events=[ev("connect", "network.default", dst="{X}", dport=80, proto="tcp",
                                                                 count=range(1, 3), **WORKER)])
attack("N-25", "IORING_OP_CONNECT over IPv6", ring_tcp("{X6}", 80), effect=wire(6, "{X6}", 80), twin=ring_tcp("fd00:99::5", 80),
       events=[ev("connect", "network.default", dst="{X6}", dport=80, proto="tcp", count=range(1, 3), **WORKER)])
attack("N-25", "IORING_OP_CONNECT to another's loopback", ring_tcp("127.0.0.2", 7000), effect=received, twin=ring_tcp("{GW}", 8800),
       events=[ev("connect", "network.loopback", dst="127.0.0.2", dport=7000, proto="tcp", count=range(1, 3), **WORKER)])
for name, flags in (("inline", 0), ("by a worker", uring.ASYNC)):
    attack("N-25", f"IORING_OP_SENDMSG {name}", ring_udp("{X}", DG, flags), effect=wire(UDP, "{X}", DG), twin=ring_udp("{GW}", DG, flags),
           events=[ev("sendmsg", "network.default", dst="{X}", dport=DG, proto="udp", count=range(1, 3), **WORKER)])
attack("N-25", "IORING_OP_SOCKET of a packet socket", ring_socket(17), effect=lambda arena, a, r: r["data"] == "made",
       twin=ring_socket(AF_INET), events=[ev("socket", "network.family", family="packet", count=range(1, 3))])

# --- another network namespace ----------------------------------------------------------------------------------


def own_network(use):
    """In a network namespace of one's own, which the host wires to the outside: as pasta or an engine does."""
    def do(a):
        inside.check(inside.libc.unshare(0x10000000 | 0x40000000))  # CLONE_NEWUSER, without which CLONE_NEWNET is the host's
        inside.ask("wire")
        return use(a)
    return do


attack("N-33", "tcp from a network namespace of one's own", own_network(tcp("{X}", 80)), effect=received, twin=own_network(GATEWAY),
       events=[ev("connect", "network.default", dst="{X}", dport=80, proto="tcp")])
attack("N-33", "udp from a network namespace of one's own", own_network(udp("{X}", DG)), effect=received,
       twin=own_network(own_tcp("127.0.0.1", "127.0.0.1")), events=[ev("sendmsg", "network.default", dst="{X}", dport=DG, proto="udp")])
attack("N-33", "another's listener in a network namespace of one's own", own_network(tcp("127.0.0.1", 7001)), effect=received,
       twin=own_network(own_tcp("127.0.0.1", "127.0.0.1")), hooks=["net_connect4"],
       events=[ev("connect", "network.loopback", dst="127.0.0.1", dport=7001, proto="tcp")])

# --- headers ----------------------------------------------------------------------------------------------------


def source_route(a):
    s = make(AF_INET, SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([131, 7, 4]) + socket.inet_aton(a.X) + b"\0")
    s.sendto(a.token.encode(), (a.GW, DG))


def routing_header(a):
    """Type 4 (segments): to the outside first, on to the allowed peer."""
    s = make(AF_INET6, SOCK_DGRAM)
    path = socket.inet_pton(AF_INET6, a.GW6) + socket.inet_pton(AF_INET6, a.X6)
    s.sendmsg([a.token.encode()], [(IPPROTO_IPV6, 57, bytes([0, 4, 4, 1, 1, 0, 0, 0]) + path)], 0, (a.GW6, 80))


def extension_header(a):
    """Destination options, as another header in front of UDP."""
    s = make(AF_INET6, SOCK_DGRAM)
    s.setsockopt(IPPROTO_IPV6, 59, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
    s.sendto(a.token.encode(), (a.GW6, 80))


attack("N-05", "IPv4 source route", source_route, effect=lambda arena, a, r: arena.on_wire(UDP, a.X, None) or arena.on_wire(UDP, a.GW, None),
       twin=GATEWAY_UDP, events=[ev("packet", "network.default", proto="udp")], hooks=["net_egress"])
attack("N-05", "IPv6 destination options to an allowed peer", extension_header, effect=lambda arena, a, r: arena.on_wire(60, a.GW6, None),
       twin=udp("fd00:99::5", 80), events=[ev("packet", "network.default", dst="{GW6}")], hooks=["net_egress"])
attack("N-05", "IPv6 routing header to an allowed peer", routing_header,
       effect=lambda arena, a, r: any(arena.on_wire(43, to, None) for to in (a.X6, a.GW6)), twin=udp("fd00:99::5", 80),
       lacking=(errno.EINVAL,), events=[ev("configure", "network.config")], hooks=["net_socket_sendmsg"])


def large(host, port):
    """A datagram that leaves in fragments; the rules hold for the whole."""
    def do(a):
        s = make(family_of(a.fill(host)), SOCK_DGRAM)
        data = a.token.encode() + b"." * 8000
        s.sendto(data, (a.fill(host), port))
        if s.recv(10000) != data:
            raise RuntimeError("the echo is missing")
    return do


for host, port in (("{GW}", DG), ("fd00:99::5", 80)):
    allowed("N-05", f"a datagram in fragments to {'IPv6' if ':' in host else 'IPv4'}", large(host, port), effect=received)
attack("N-05", "a datagram in fragments to outside", large("{X}", DG), effect=received, twin=large("{GW}", DG),
       events=[ev("sendmsg", "network.default", dst="{X}", dport=DG, proto="udp")])

# --- listeners that share a port ---------------------------------------------------------------------------------

DIALS = 24


def shared_port(a):
    """Beside a listener of the host, with one of one's own on the same port: which one a connection gets is a hash."""
    own = make(AF_INET, SOCK_STREAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    own.bind(("127.0.0.1", 7100))
    own.listen(DIALS)
    refused = 0
    for _ in range(DIALS):
        s = make(AF_INET, SOCK_STREAM)
        s.settimeout(0.02)
        try:
            s.connect(("127.0.0.1", 7100))
            s.send(a.token.encode())
        except (PermissionError, TimeoutError):
            refused += 1
    if refused:
        raise PermissionError(errno.EPERM, "refused", str(refused))


attack("N-03", "another's tcp listener that shares the port with one's own", shared_port, effect=received,
       twin=own_tcp("127.0.0.1", "127.0.0.1"), hooks=["net_egress"],
       events=[ev(("packet", "connect"), "network.loopback", dst="127.0.0.1", dport=7100, proto="tcp", count=range(1, 3 * DIALS))])

# --- telling the kernel where packets go --------------------------------------------------------------------------


def netlink(kind, body, flags=5):
    """One message to rtnetlink; raises what it answers."""
    def do(a):
        s = socket.socket(AF_NETLINK, SOCK_RAW, 0)
        s.settimeout(5)
        data = body(a)
        s.send(struct.pack("=IHHII", 16 + len(data), kind, flags | 0x400, 1, 0) + data)
        answer = s.recv(65536)
        err = struct.unpack_from("=i", answer, 16)[0]
        if struct.unpack_from("=H", answer, 4)[0] == 2 and err:
            raise OSError(-err, os.strerror(-err))
        return "done"
    return do


def octet_of(a):
    """A number of the part's own."""
    return 1 + zlib.crc32(a.slug.encode()) % 250


def route(a):
    """192.0.2.N/32 over the loopback device."""
    return (struct.pack("=BBBBBBBBI", AF_INET, 32, 0, 0, 254, 3, 253, 1, 0) + struct.pack("=HH4s", 8, 1, bytes([192, 0, 2, octet_of(a)])) +
            struct.pack("=HHI", 8, 4, 1))


def second_message(a):
    """A question first, a change after it in the same buffer."""
    s = socket.socket(AF_NETLINK, SOCK_RAW, 0)
    s.settimeout(5)
    data = route(a)
    ask = struct.pack("=IHHII", 17, 18, 1, 1, 0) + bytes([0]) + bytes(3)
    s.send(ask + struct.pack("=IHHII", 16 + len(data), 24, 0x605, 2, 0) + data)
    time.sleep(0.05)
    return "done"


def route_there(arena, a, result):
    with open("/proc/net/route") as f:
        return f"{octet_of(a):02X}0200C0" in f.read()


attack("N-18", "a route by netlink", netlink(24, route, 0x605), effect=route_there, twin=families_twin, hooks=["net_netlink_send"],
       events=[ev("configure", "network.config", family="netlink")])
attack("N-18", "a route by netlink, after a question", second_message, effect=route_there, twin=families_twin, hooks=["net_netlink_send"],
       events=[ev("configure", "network.config", family="netlink")])


def ioctl_ask(a):
    fcntl.ioctl(make(AF_INET, SOCK_DGRAM), 0x8913, b"lo".ljust(40, b"\0"))  # SIOCGIFFLAGS


def ioctl_route(a):
    """SIOCADDRT: the same by ioctl."""
    def sin(address):
        return struct.pack("=H", AF_INET) + bytes(2) + socket.inet_aton(address) + bytes(8)

    dev, dev_at = uring.address_of(b"lo\0")
    entry = bytes(8) + sin(f"192.0.2.{octet_of(a)}") + sin("0.0.0.0") + sin("255.255.255.255") + struct.pack("=Hh4xQBB6x", 5, 0, 0, 0, 0)
    entry = entry[:8 + 48] + struct.pack("=H", 5) + bytes(2) + bytes(4) + bytes(8) + bytes(2) + bytes(6) + struct.pack("=h", 0) + bytes(6)
    entry += struct.pack("=QQQH6x", dev_at, 0, 0, 0)
    fcntl.ioctl(make(AF_INET, SOCK_DGRAM), 0x890b, entry)
    del dev
    return "done"


attack("N-18", "a route by ioctl", ioctl_route, effect=route_there, twin=ioctl_ask,
       hooks=["file_ioctl"], events=[ev("configure", "network.config", family="inet")])


def sctp_connectx(a, s):
    s.setblocking(True)
    s.setsockopt(SCTP, 110, sockaddr(a.X, 80))
    s.sendall(a.token.encode())


attack("N-12", "SCTP_SOCKOPT_CONNECTX on a socket passed in", passed("sctp", sctp_connectx), effect=wire(SCTP, "{X}", 80), twin=GATEWAY,
       hooks=["file_receive+net_sctp_bind_connect"], events=[ev("socket", "network.family", proto="sctp")])
attack("N-09", "mptcp socket passed in", passed("mptcp", lambda a, s: (s.connect((a.X, 80)), exchange(s, a.token))), effect=received,
       twin=GATEWAY, events=[ev("socket", "network.family", proto="mptcp")])


def nameless(host):
    """To an address of family AF_UNSPEC, which UDP takes for IPv4."""
    def use(a, s):
        name, data = bytes(2) + sockaddr(a.fill(host), DG)[2:], a.token.encode()
        inside.syscall(44, s.fileno(), data, len(data), 0, name, len(name))
    return use


attack("N-04", "udp sendto with AF_UNSPEC, on a socket passed in", passed("udp-fresh", nameless("{X}")), effect=received, twin=passed("udp-fresh", nameless("{GW}")),
       events=[ev("sendmsg", "network.default", dst="{X}", dport=DG, proto="udp")], hooks=["net_socket_sendmsg"])
attack("N-03", "another's udp socket at 127.0.0.2, by a socket passed in", passed("udp-fresh", lambda a, s: s.sendto(a.token.encode(), ("127.0.0.2", 7000))),
       effect=received, twin=passed("udp-fresh", lambda a, s: s.sendto(a.token.encode(), (a.GW, DG))), hooks=["net_socket_sendmsg"],
       events=[ev("sendmsg", "network.loopback", dst="127.0.0.2", dport=7000, proto="udp")])

# --- how soon ----------------------------------------------------------------------------------------------------

AT_ONCE_S = 0.1


def at_once(do, tries=3):
    """The quickest of a few refusals took less than 100 ms: a time-out would take as long each time."""
    def timed(a):
        best = None
        for n in range(tries):
            begun = time.monotonic()
            try:
                do(a)
            except PermissionError as e:
                best = min(best or 100, time.monotonic() - begun)
                if n == tries - 1:
                    if best > AT_ONCE_S:
                        raise RuntimeError(f"refused after {best:.3f} s at best") from e
                    raise
            else:
                return
    return timed


def dual_stack(a):
    """A name with an IPv6 and an IPv4 address, as a client tries them: in turn."""
    last = None
    for host in (a.X6, a.X):
        try:
            s = socket.create_connection((host, 80), timeout=5)
            exchange(s, a.token)
            return
        except PermissionError as e:
            last = e
    raise last


for name, do, times in (("tcp connect", tcp("{X}", 80), 3), ("udp sendto", udp("{X}", DG), 3), ("MSG_FASTOPEN", fastopen("{X}", 80), 3),
                        ("a dual-stack name", dual_stack, 6)):
    attack("N-37", f"{name} fails at once", at_once(do), effect=received, twin=GATEWAY,
           events=[ev(("connect", "sendmsg"), "network.default", count=range(times, times + 1))])
