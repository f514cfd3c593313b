# SPDX-License-Identifier: Apache-2.0
"""
Sockets that a process made before the fence was put around it (fence "attached"), and in another cgroup: programs of
cgroups do not run for them, so that the LSM hooks alone stop what is done with them.
"""

import errno
import os
import socket
from socket import AF_INET, AF_PACKET, AF_VSOCK, IPPROTO_ICMP, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM

import inside
from arena import GW, X
from rows_form import sockaddr
from rows_net import DG, GATEWAY, GATEWAY_UDP, NO_FAMILY, SCTP, UDP, echo_request, make, packet, received, wire
from table import attack, ev

VSOCK_LACKING = NO_FAMILY + (errno.ENODEV, errno.ECONNRESET, errno.ENETUNREACH)


def connected(kind, host, port):
    s = make(AF_INET, kind)
    s.connect((host, port))
    return s


MAKERS = {
    "udp": lambda: connected(SOCK_DGRAM, X, DG),
    "udp to the gateway": lambda: connected(SOCK_DGRAM, GW, DG),
    "tcp": lambda: connected(SOCK_STREAM, X, 80),
    "tcp to the gateway": lambda: connected(SOCK_STREAM, GW, 8800),
    "packet": lambda: make(AF_PACKET, SOCK_DGRAM, socket.htons(0x0800)),
    "icmp": lambda: make(AF_INET, SOCK_RAW, IPPROTO_ICMP),
    "vsock": lambda: make(AF_VSOCK, SOCK_STREAM),
    "sctp": lambda: socket.socket(AF_INET, SOCK_STREAM, SCTP),
}


def sockets():
    """What inside.hold() opens; in place of what this kernel does not have stands the errno."""
    found = {}
    for name, maker in MAKERS.items():
        try:
            found[name] = maker()
        except OSError as e:
            found[name] = e.errno
    return found


def held(name):
    s = inside.held[name]
    if isinstance(s, int):
        raise OSError(s, os.strerror(s))
    return s


def send(name):
    return lambda a: held(name).sendall(a.token.encode())


for kind, port in (("udp", DG), ("tcp", 80)):
    attack("N-23", f"connected {kind} socket from before, send", send(kind), effect=received, twin=send(f"{kind} to the gateway"), fence="attached",
           events=[ev("sendmsg", "network.default", dst="{X}", dport=port, proto=kind)], hooks=["net_socket_sendmsg"])


def send_packet(a):
    held("packet").sendto(packet(a), (a.IF, 0x0800, 0, 0, bytes.fromhex(a.PEER_MAC.replace(":", ""))))


def connect_vsock(a):
    s = held("vsock")
    s.connect((1, 1024))
    s.sendall(a.token.encode())


def connectx(a):
    s = held("sctp")
    s.setsockopt(SCTP, 110, sockaddr(a.X, 80))
    s.sendall(a.token.encode())


attack("N-13", "raw icmp by a socket from before", lambda a: held("icmp").sendto(echo_request(a), (a.X, 0)) and None, effect=wire(1, "{X}", token=False),
       twin=GATEWAY_UDP, fence="attached", events=[ev("sendmsg", "network.default", dst="{X}", proto="icmp")])
attack("N-15", "a packet socket from before", send_packet, effect=wire(UDP, "{X}", DG), twin=GATEWAY_UDP, fence="attached", hooks=["net_socket_sendmsg"],
       events=[ev("sendmsg", "network.family", family="packet")])
attack("N-16", "a vsock socket from before", connect_vsock, effect=received, twin=GATEWAY, fence="attached", hooks=["net_socket_connect"],
       lacking=VSOCK_LACKING, events=[ev("connect", "network.family", family="vsock")])
attack("N-12", "SCTP_SOCKOPT_CONNECTX on a socket from before", connectx, effect=wire(SCTP, "{X}", 80), twin=GATEWAY, fence="attached",
       hooks=["net_sctp_bind_connect"], lacking=NO_FAMILY, events=[ev("connect", "network.family", proto="sctp")])
