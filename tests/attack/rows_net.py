# SPDX-License-Identifier: Apache-2.0
"""
Network rows. Outside is a network namespace of its own behind a veth pair, where a recorder listens on all addresses
below and a sniffer sees every packet; the host's loopback and unix sockets are served too.
"""

import ctypes
import errno
import os
import socket
import struct
from socket import (AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_IP,
                    IPPROTO_IPV6, IPPROTO_TCP, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM)

import inside
from table import allowed, attack, ev

SCTP, UDPLITE, MPTCP, UDP = 132, 136, 262, 17
DG = 5300  # the port that datagrams go to: 53 is led elsewhere
MSG_FASTOPEN, TCP_FASTOPEN_CONNECT = 0x20000000, 30
NO_FAMILY = (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.ENOPROTOOPT)


def make(family, kind, proto=0):
    s = socket.socket(family, kind, proto)
    s.settimeout(5)
    return s


def family_of(host):
    return AF_INET6 if ":" in host else AF_INET


def exchange(s, token):
    """What is sent comes back: the peer is a listener of the test."""
    s.sendall(token.encode())
    if s.recv(200) != token.encode():
        raise RuntimeError("the echo is missing")


def tcp(host, port, proto=0):
    def do(a):
        h = a.fill(host)
        s = make(family_of(h), SOCK_STREAM, proto)
        if family_of(h) == AF_INET6:
            s.setsockopt(IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        s.connect(socket.getaddrinfo(h, port, type=SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0][4])
        exchange(s, a.token)
    return do


def udp(host, port, proto=0, how="sendto"):
    def do(a):
        h = a.fill(host)
        s = make(family_of(h), SOCK_DGRAM, proto)
        to = (h, port)
        if how == "sendto":
            s.sendto(a.token.encode(), to)
        elif how == "connect":
            s.connect(to)
            s.send(a.token.encode())
        elif how == "sendmsg":
            s.sendmsg([a.token.encode()], [], 0, to)
        elif how == "sendmmsg":
            sendmmsg(s, [a.token.encode()], to)
        if proto == 0 and s.recv(200) != a.token.encode():
            raise RuntimeError("the echo is missing")
    return do


def sendmmsg(s, datas, to):
    """sendmmsg(2) of IPv4 datagrams; the first error is raised."""
    class Iovec(ctypes.Structure):
        _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]

    class Msghdr(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(Iovec)),
                    ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                    ("flags", ctypes.c_int)]

    class Mmsghdr(ctypes.Structure):
        _fields_ = [("hdr", Msghdr), ("len", ctypes.c_uint)]

    sin = struct.pack("=H", AF_INET) + struct.pack("!H", to[1]) + socket.inet_aton(to[0]) + bytes(8)
    iovs = [Iovec(d, len(d)) for d in datas]
    msgs = (Mmsghdr * len(datas))()
    for m, iov in zip(msgs, iovs):
        m.hdr.name, m.hdr.namelen, m.hdr.iov, m.hdr.iovlen = sin, len(sin), ctypes.pointer(iov), 1
    inside.syscall(307, s.fileno(), msgs, len(datas), 0)


def fastopen(host, port):
    def do(a):
        h = a.fill(host)
        s = socket.socket(family_of(h), SOCK_STREAM)  # blocking: else it says EINPROGRESS
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("=qq", 5, 0))
        s.sendto(a.token.encode(), MSG_FASTOPEN, (h, port))
        s.settimeout(5)
        if s.recv(200) != a.token.encode():
            raise RuntimeError("the echo is missing")
    return do


def fastopen_connect(host, port):
    def do(a):
        h = a.fill(host)
        s = make(family_of(h), SOCK_STREAM)
        s.setsockopt(IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
        s.connect((h, port))
        exchange(s, a.token)
    return do


def received(arena, a, result):
    """A listener got the token, or someone's connection."""
    return arena.arrived(a.token)


def wire(proto, dst, dport=None, token=True):
    """
    A packet of this kind left for there. token: and in the end a listener received what the attack says; where nobody
    can listen (raw ICMP), packets are all there is.
    """
    def effect(arena, a, result):
        seen = arena.on_wire(proto, a.fill(dst), dport)
        if arena.phase == "control":
            return arena.arrived(a.token) if token else seen
        return seen or arena.arrived(a.token)
    return effect


GATEWAY = tcp("{GW}", 8800)
GATEWAY_UDP = udp("{GW}", DG)
META = "169.254.169.254"

# --- metadata ---------------------------------------------------------------------------------------------------


def metadata(case, name, do, dst, op, proto, port=80, **keys):
    attack(case, name, do, effect=wire(6 if proto == "tcp" else UDP, dst, port), audit="deny",
           events=[ev(op, "network.metadata", dst=dst, dport=port, proto=proto, metadata=True, **keys)],
           twin=GATEWAY if proto == "tcp" else GATEWAY_UDP)


metadata("N-01", "mapped metadata, tcp", tcp("::ffff:" + META, 80), META, "connect", "tcp", mapped=True, family="inet")
metadata("N-01", "mapped metadata, udp sendto", udp("::ffff:" + META, 80), META, "sendmsg", "udp", mapped=True)
metadata("N-01", "mapped metadata, udp connect", udp("::ffff:" + META, 80, how="connect"), META, "connect", "udp", mapped=True)
metadata("N-01", "plain metadata, tcp", tcp(META, 80), META, "connect", "tcp")
metadata("N-01", "plain metadata, udp", udp(META, 80), META, "sendmsg", "udp")
for spelling, canonical in (("fd00:ec2::254", None), ("fd00:0ec2:0:0:0:0:0:0254", "fd00:ec2::254"),
                            ("fe80::a9fe:a9fe%{IF}", "fe80::a9fe:a9fe"), ("64:ff9b::a9fe:a9fe", None),
                            ("2002:a9fe:a9fe::1", None)):
    metadata("N-28", spelling.partition("%")[0] + " though fd00::/8 is allowed", tcp(spelling, 80), canonical or spelling,
             "connect", "tcp", family="inet6")
metadata("N-28", "fd00:ec2::254, udp", udp("fd00:ec2::254", 80), "fd00:ec2::254", "sendmsg", "udp")
allowed("N-28", "the allowed neighbour in fd00::/8", tcp("fd00:99::5", 80), effect=received)

# --- the gateway ------------------------------------------------------------------------------------------------

allowed("N-02", "the gateway in mapped form", tcp("::ffff:{GW}", 8800), effect=received)
allowed("N-02", "the gateway in plain form", GATEWAY, effect=received)
for port in (8801, 22):
    attack("N-34", f"the gateway's port {port}", tcp("{GW}", port), effect=wire(6, "{GW}", port), twin=GATEWAY,
           events=[ev("connect", "network.default", dst="{GW}", dport=port, proto="tcp")])
attack("N-34", "the gateway's port by udp", udp("{GW}", 8800), effect=wire(UDP, "{GW}", 8800), twin=GATEWAY_UDP,
       events=[ev("sendmsg", "network.default", dst="{GW}", dport=8800, proto="udp")])
attack("N-30", "tcp over IPv6", tcp("{X6}", 80), effect=wire(6, "{X6}", 80), twin=tcp("fd00:99::5", 80),
       events=[ev("connect", "network.default", dst="{X6}", dport=80, family="inet6", proto="tcp")])
attack("N-30", "tcp over IPv4", tcp("{X}", 80), effect=wire(6, "{X}", 80), twin=GATEWAY,
       events=[ev("connect", "network.default", dst="{X}", dport=80, family="inet", proto="tcp")])

# --- loopback ---------------------------------------------------------------------------------------------------


def own_tcp(listen, dial):
    """A listener of one's own, reached by this spelling."""
    def do(a):
        server = make(family_of(listen), SOCK_STREAM)
        if family_of(listen) == AF_INET6:
            server.setsockopt(IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
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


def own_udp(listen, dial):
    def do(a):
        server = make(family_of(listen), SOCK_DGRAM)
        if family_of(listen) == AF_INET6:
            server.setsockopt(IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((listen, 0))
        s = make(family_of(dial), SOCK_DGRAM)
        s.sendto(b"x", (dial, server.getsockname()[1]))
        data, peer = server.recvfrom(10)
        server.sendto(data, peer)
        if s.recv(10) != b"x":
            raise RuntimeError("nothing came")
    return do


def own_udp_connected(a):
    """The server answers a client whose socket is connected, as every resolver's is."""
    server = make(AF_INET, SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    s = make(AF_INET, SOCK_DGRAM)
    s.connect(server.getsockname())
    s.send(b"x")
    data, peer = server.recvfrom(10)
    server.sendto(data, peer)
    if s.recv(10) != b"x":
        raise RuntimeError("nothing came")


for dial, listen, dst in (("127.0.0.2", "127.0.0.2", None), ("127.255.255.254", "0.0.0.0", None),
                          ("::ffff:127.0.0.1", "127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1", None),
                          ("::", "::1", None), ("::1", "::1", None), ("127.0.0.1", "::", None)):
    attack("N-03", f"another's tcp listener at {dial}", tcp(dial, 7000), effect=received, twin=own_tcp(listen, dial),
           events=[ev("connect", "network.loopback", dst=dst or dial, dport=7000, proto="tcp")],
           hooks=["net_connect6" if ":" in dial else "net_connect4"])
for dial, listen, dst in (("127.0.0.2", "127.0.0.2", None), ("::ffff:127.0.0.1", "127.0.0.1", "127.0.0.1"), ("::1", "::1", None)):
    attack("N-03", f"another's udp socket at {dial}", udp(dial, 7000), effect=received, twin=own_udp(listen, dial),
           events=[ev("sendmsg", "network.loopback", dst=dst or dial, dport=7000, proto="udp")],
           hooks=["net_egress+net_sendmsg6" if dial == "::1" else "net_egress+net_sendmsg4"])
attack("N-03", "another's udp socket at 127.0.0.2, connect and send", udp("127.0.0.2", 7000, how="connect"), effect=received,
       twin=own_udp_connected, hooks=["net_egress"],
       events=[ev(("connect", "packet"), "network.loopback", dst="127.0.0.2", dport=7000, proto="udp")])
allowed("N-03", "answering one's own connected udp client", own_udp_connected)

# --- udp --------------------------------------------------------------------------------------------------------

for how in ("sendto", "sendmsg", "sendmmsg", "connect"):
    attack("N-04", f"udp {how}, IPv4", udp("{X}", DG, how=how), effect=wire(UDP, "{X}", DG), twin=udp("{GW}", DG, how=how),
           events=[ev("connect" if how == "connect" else "sendmsg", "network.default", dst="{X}", dport=DG, proto="udp")])
attack("N-04", "udp sendto, IPv6", udp("{X6}", DG), effect=wire(UDP, "{X6}", DG), twin=udp("fd00:99::5", DG),
       events=[ev("sendmsg", "network.default", dst="{X6}", dport=DG, family="inet6", proto="udp")])
attack("N-04", "udp-lite sendto", udp("{X}", DG, UDPLITE), effect=wire(UDPLITE, "{X}", DG), twin=GATEWAY_UDP,
       events=[ev("socket", "network.family", proto="udplite", family="inet")], lacking=NO_FAMILY)


def elsewhere(a):
    s = make(AF_INET, SOCK_DGRAM)
    s.connect((a.GW, DG))
    s.send(b"ok1-" + a.token.encode())
    try:
        s.sendto(b"elsewhere-" + a.token.encode(), (a.X, DG))
    finally:
        s.send(b"ok2-" + a.token.encode())


attack("N-05", "sendto elsewhere on a connected socket", elsewhere,
       effect=lambda arena, a, r: arena.on_wire(UDP, a.X, DG) or arena.arrived("elsewhere-" + a.token),
       twin=udp("{GW}", DG, how="connect"), events=[ev("sendmsg", "network.default", dst="{X}", dport=DG, proto="udp")],
       also=lambda arena, a, r: None if arena.arrived("ok1-" + a.token) and arena.arrived("ok2-" + a.token) else
       "what was sent to the gateway before and after did not arrive")


def with_options(a):
    s = make(AF_INET, SOCK_DGRAM)
    s.setsockopt(IPPROTO_IP, socket.IP_OPTIONS, bytes([1, 1, 1, 1]))
    s.sendto(a.token.encode(), (a.GW, DG))


attack("N-05", "IP options, as for a source route, to an allowed peer", with_options, effect=wire(UDP, "{GW}", DG),
       twin=GATEWAY_UDP, events=[ev("packet", "network.default", dst="{GW}", proto="udp")], hooks=["net_egress"])

# --- tcp by other ways ------------------------------------------------------------------------------------------

for host, family in (("{X}", "inet"), ("{X6}", "inet6")):
    attack("N-08", f"MSG_FASTOPEN, {family}", fastopen(host, 80), effect=wire(6, host, 80),
           twin=fastopen("{GW}" if family == "inet" else "fd00:99::5", 8800 if family == "inet" else 80),
           events=[ev("connect", "network.default", dst=host, dport=80, family=family, proto="tcp")])
attack("N-08", "TCP_FASTOPEN_CONNECT", fastopen_connect("{X}", 80), effect=wire(6, "{X}", 80), twin=fastopen_connect("{GW}", 8800),
       events=[ev("connect", "network.default", dst="{X}", dport=80, proto="tcp")])
attack("N-09", "mptcp", tcp("{X}", 80, MPTCP), effect=wire(6, "{X}", 80), twin=GATEWAY, lacking=NO_FAMILY,
       events=[ev("socket", "network.family", proto="mptcp", family="inet", socket_type="SOCK_STREAM")])


def sctp(how):
    def do(a):
        sin = struct.pack("=H", AF_INET) + struct.pack("!H", 80) + socket.inet_aton(a.X) + bytes(8)
        s = make(AF_INET, SOCK_SEQPACKET if how == "sendto" else SOCK_STREAM, SCTP)
        if how == "connect":
            s.connect((a.X, 80))
        elif how == "connectx":
            s.setblocking(True)
            s.setsockopt(SCTP, 110, sin)
        if how == "sendto":
            s.sendto(a.token.encode(), (a.X, 80))
        else:
            s.sendall(a.token.encode())
    return do


for how in ("connect", "connectx", "sendto"):
    attack("N-12", f"sctp {how}", sctp(how), effect=wire(SCTP, "{X}", 80), twin=GATEWAY, lacking=NO_FAMILY,
           events=[ev("socket", "network.family", proto="sctp", family="inet")])

# --- below tcp and udp ------------------------------------------------------------------------------------------


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def echo_request(a):
    head = struct.pack("!BBHHH", 8, 0, 0, 1, 1)
    data = a.token.encode()
    data += b"." * (len(data) % 2)
    return struct.pack("!BBHHH", 8, 0, checksum(head + data), 1, 1) + data


def ping(kind, family=AF_INET, connect=False):
    def do(a):
        s = make(family, kind, IPPROTO_ICMP if family == AF_INET else IPPROTO_ICMPV6)
        to = (a.X if family == AF_INET else a.X6, 0)
        data = echo_request(a) if family == AF_INET else struct.pack("!BBHHH", 128, 0, 0, 1, 1) + a.token.encode()
        if connect:
            s.connect(to)
            s.send(data)
        else:
            s.sendto(data, to)
    return do


for name, do, proto, dst in (("ping socket sendto", ping(SOCK_DGRAM), 1, "{X}"),
                             ("ping socket connect", ping(SOCK_DGRAM, connect=True), 1, "{X}"),
                             ("IPv6 ping socket", ping(SOCK_DGRAM, AF_INET6), 58, "{X6}"),
                             ("raw icmp", ping(SOCK_RAW), 1, "{X}")):
    attack("N-13", name, do, effect=wire(proto, dst, token=False), twin=GATEWAY_UDP,
           events=[ev("socket", "network.family", proto="icmp" if proto == 1 else "icmpv6")])


def packet(a):
    """An UDP/IP packet to the outside."""
    data = a.token.encode()
    udp_part = struct.pack("!HHHH", 5353, DG, 8 + len(data), 0) + data
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp_part), 1, 0, 64, UDP, 0, socket.inet_aton(a.HOST),
                       socket.inet_aton(a.X))
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + udp_part


def af_packet(kind):
    def do(a):
        mac = bytes.fromhex(a.PEER_MAC.replace(":", ""))
        if kind == SOCK_DGRAM:
            s = make(AF_PACKET, SOCK_DGRAM, socket.htons(0x0800))
            s.sendto(packet(a), (a.IF, 0x0800, 0, 0, mac))
        else:
            s = make(AF_PACKET, SOCK_RAW, 0)
            s.sendto(mac + mac + b"\x08\x00" + packet(a), (a.IF, 0))
    return do


for kind, name in ((SOCK_DGRAM, "SOCK_DGRAM"), (SOCK_RAW, "SOCK_RAW")):
    attack("N-15", f"AF_PACKET {name}", af_packet(kind), effect=wire(UDP, "{X}", DG), twin=GATEWAY_UDP,
           events=[ev("socket", "network.family", family="packet", socket_type=name)], hooks=["net_socket_create"])


def old_packet(a):
    """The packet sockets of Linux 2.0: AF_INET, SOCK_PACKET."""
    s = make(AF_INET, 10, socket.htons(3))
    mac = bytes.fromhex(a.PEER_MAC.replace(":", ""))
    frame = mac + mac + b"\x08\x00" + packet(a)
    to = struct.pack("=H14s", AF_INET, a.IF.encode())
    inside.syscall(44, s.fileno(), frame, len(frame), 0, to, len(to))


attack("N-15", "SOCK_PACKET", old_packet, effect=wire(UDP, "{X}", DG), twin=GATEWAY_UDP,
       events=[ev("socket", "network.family", family="packet", socket_type="SOCK_PACKET")])


def vsock(a):
    s = make(AF_VSOCK, SOCK_STREAM)
    s.connect((1, 1024))
    s.sendall(a.token.encode())


attack("N-16", "vsock", vsock, effect=received, twin=GATEWAY, hooks=["net_socket_create"],
       lacking=NO_FAMILY + (errno.ENODEV, errno.ECONNRESET, errno.ENETUNREACH),
       events=[ev("socket", "network.family", family="vsock")])

# --- families ---------------------------------------------------------------------------------------------------

NOT_THERE = (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.EINVAL, errno.EPROTOTYPE)


def families(a):
    """Every family and type, until a few could be made that a fence does not allow."""
    made, refused = [], 0
    for family in list(range(AF_PACKET, 47)) + list(range(AF_PACKET)):
        for kind in (1, 2, 3, 5):
            if len(made) > 1 and made[-1][0] == AF_PACKET and family > AF_PACKET:
                return made  # seen enough; each further one may load a module
            try:
                socket.socket(family, kind, 0).close()
                made.append([family, kind])
            except OSError as e:
                refused += e.errno == errno.EPERM
                if e.errno not in NOT_THERE + (errno.EPERM,):
                    raise RuntimeError(f"family {family} type {kind}: {e}") from None
    beyond = [m for m in made if m[0] not in (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)]
    if not beyond and refused:
        raise PermissionError(errno.EPERM, f"refused {refused}", str(refused))
    return beyond


def families_twin(a):
    for family, kind, proto in ((AF_UNIX, 1, 0), (AF_UNIX, 2, 0), (AF_UNIX, 5, 0), (AF_INET, 1, 0), (AF_INET, 2, 0),
                                (AF_INET6, 1, 6), (AF_INET6, 2, 17), (AF_NETLINK, 3, 0), (AF_NETLINK, 2, 0)):
        socket.socket(family, kind, proto).close()
    if not socket.if_nameindex():
        raise RuntimeError("no interfaces by netlink")


attack("N-18", "every family and type", families, twin=families_twin, hooks=["net_socket_create"],
       effect=lambda arena, a, r: bool(r["data"]), events=[ev("socket", "network.family", count=range(100, 190))],
       also=lambda arena, a, r: f"modules were loaded: {arena.new_modules}" if arena.new_modules else None)
for proto, name in ((15, "kobject_uevent"), (12, "netfilter"), (16, "generic"), (9, "audit")):
    attack("N-18", f"netlink {name}", lambda a, p=proto: socket.socket(AF_NETLINK, SOCK_RAW, p).close() or "made",
           effect=lambda arena, a, r: r["data"] == "made", twin=families_twin, lacking=NO_FAMILY,
           events=[ev("socket", "network.family", family="netlink")])

# --- unix sockets -----------------------------------------------------------------------------------------------


def unix(name, kind=SOCK_STREAM, how="connect"):
    def do(a):
        s = make(AF_UNIX, kind)
        to = a.fill(name)
        if how == "connect":
            s.connect(to)
            s.send(a.token.encode())
        else:
            s.sendto(a.token.encode(), to)
    return do


def own_unix(abstract, kind=SOCK_STREAM):
    def do(a):
        name = "\0own-" + a.token if abstract else a.wd + "/own"
        server = make(AF_UNIX, kind)
        server.bind(name)
        s = make(AF_UNIX, kind)
        if kind == SOCK_DGRAM:
            s.sendto(b"x", name)
            peer = server
        else:
            server.listen()
            s.connect(name)
            peer, _ = server.accept()
            peer.settimeout(5)
            s.send(b"x")
        if peer.recv(1) != b"x":
            raise RuntimeError("nothing came")
    return do


for abstract, case, where, shown in ((False, "N-19", "{HOSTDIR}/", "{HOSTDIR}/"), (True, "N-20", "\0cordon-probe-", "\\x00cordon-probe-")):
    kind_of = "abstract socket of the host" if abstract else "socket file of the host"
    attack(case, f"{kind_of}, stream", unix(where + "stream"), effect=received, twin=own_unix(abstract),
           events=[ev("connect", "network.unix", family="unix", unix=shown + "stream")], hooks=["net_unix_stream_connect"])
    attack(case, f"{kind_of}, seqpacket", unix(where + "seqpacket", SOCK_SEQPACKET), effect=received,
           twin=own_unix(abstract, SOCK_SEQPACKET), events=[ev("connect", "network.unix", family="unix", unix=shown + "seqpacket")])
    attack(case, f"{kind_of}, datagram", unix(where + "dgram", SOCK_DGRAM, "sendto"), effect=received,
           twin=own_unix(abstract, SOCK_DGRAM), events=[ev("sendmsg", "network.unix", family="unix", unix=shown + "dgram")],
           hooks=["net_unix_may_send"])

# --- sockets made outside ---------------------------------------------------------------------------------------


def passed(what, use, to_twin=False):
    """The driver makes a socket outside and hands it in."""
    def do(a):
        _, fds = inside.ask("socket", what=what, to=[a.GW if to_twin else a.X, (8800 if to_twin else 80) if "tcp" in what else 53 if "53" in what else DG])
        if not fds:
            raise PermissionError(errno.EPERM, "no descriptor came")
        s = socket.socket(fileno=fds[0])
        s.settimeout(5)
        return use(a, s)
    return do


def by_sendfile(a, s):
    path = a.wd + "/data"
    with open(path, "w") as f:
        f.write(a.token)
    with open(path, "rb") as f:
        os.sendfile(s.fileno(), f.fileno(), 0, len(a.token))


def by_splice(a, s):
    read, write = os.pipe()
    os.write(write, a.token.encode())
    os.splice(read, s.fileno(), len(a.token))


def by_connect(a, s):
    s.connect((a.X, 80))
    s.sendall(a.token.encode())


def by_connect_gateway(a, s):
    s.connect((a.GW, 8800))
    s.sendall(a.token.encode())


for what, proto, port in (("udp", UDP, DG), ("tcp", 6, 80)):
    for name, use in (("send", lambda a, s: s.send(a.token.encode())), ("write", lambda a, s: os.write(s.fileno(), a.token.encode())),
                      ("sendfile", by_sendfile), ("splice", by_splice)):
        attack("N-23", f"connected {what} socket passed in, {name}", passed(what, use), effect=received, twin=passed(what, use, True),
               events=[ev("connect", "network.default", dst="{X}", dport=port, proto=what)],
               hooks=["file_receive+net_socket_sendmsg"] if name in ("send", "write") else ["file_receive"] if what == "tcp" else [])


def by_accept(a, s):
    """What a listener accepts that was handed in is not the fence's: on 6.1 nobody would be asked about sendfile."""
    peer, _ = s.accept()
    by_sendfile(a, peer)


attack("N-23", "listening tcp socket passed in", passed("tcp-listen", by_accept), effect=lambda arena, a, r: arena.called_back(a.token), twin=GATEWAY,
       events=[ev("socket", "network.listen", family="inet")], hooks=["file_receive"])


def sniff(a, s):
    make(socket.AF_INET, socket.SOCK_DGRAM).sendto(a.token.encode(), ("127.0.0.1", 7000))
    return "sniffed" if any(a.token.encode() in s.recv(2000) for _ in range(20)) else None


attack("N-23", "packet socket passed in", passed("packet", sniff), effect=lambda arena, a, r: r["data"] == "sniffed", twin=GATEWAY,
       events=[ev("socket", "network.family", family="packet")], hooks=["file_receive"])
attack("N-23", "fresh udp socket passed in, sendto", passed("udp-fresh", lambda a, s: s.sendto(a.token.encode(), (a.X, DG))), effect=received,
       twin=passed("udp-fresh", lambda a, s: s.sendto(a.token.encode(), (a.GW, DG))), hooks=["net_socket_sendmsg"],
       events=[ev("sendmsg", "network.default", dst="{X}", dport=DG, proto="udp")])
attack("N-23", "fresh tcp socket passed in, connect", passed("tcp-fresh", by_connect), effect=received,
       twin=passed("tcp-fresh", by_connect_gateway, True), hooks=["net_socket_connect"],
       events=[ev("connect", "network.default", dst="{X}", dport=80, proto="tcp")])
