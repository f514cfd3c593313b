#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The simulated rest of the world, and its recorder. For the demo alone.

usage: internet.py RECORD

Runs in a network namespace of its own, at the far end of a veth. To whoever gets there it is a public host (HTTP on
port 80, DNS on port 53) and the cloud's metadata service, which gives away a credential that is worth nothing.
Everything that arrives is appended to RECORD, one JSON object a line: {"saw": "packet"|"http"|"dns"|"credential", ...}.
Packets are recorded on the wire, so also what no server answers; ARP and ICMPv6, which kernels send by themselves, are
not.
Prints "ready" when all of it listens.
"""

import http.server
import json
import socket
import sys
import threading

CANARY = "canary-iam-key"
METADATA = ("169.254.169.254", "fd00:ec2::254")
ETH_P_ALL, ETH_P_IP, ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
ICMPV6 = 58

lock = threading.Lock()
record_file = None


def record(saw, **more):
    with lock:
        record_file.write(json.dumps({"saw": saw, **more}) + "\n")
        record_file.flush()


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10

    def answer(self):
        here = self.connection.getsockname()[0].removeprefix("::ffff:")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if here in METADATA:
            record("credential", to=self.client_address[0], at=here)
            body = json.dumps({"Code": "Success", "Token": CANARY}).encode()
        else:
            record("http", request=self.requestline, at=here)
            body = b"thanks\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, ipv6):
        self.address_family = socket.AF_INET6 if ipv6 else socket.AF_INET
        super().__init__(("::" if ipv6 else "0.0.0.0", 80), Handler)

    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def dns_name(query):
    """The name that a DNS query asks for, "?" where it is none."""
    labels, at = [], 12
    while at < len(query) and query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace"))
        at += 1 + query[at]
    return ".".join(labels) or "?"


def serve_dns(sock):
    while True:
        query, peer = sock.recvfrom(4096)
        record("dns", name=dns_name(query))
        # The question again, and one A record that points (0xc00c) to its name.
        answer = query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + query[12:]
        sock.sendto(answer + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton("203.0.113.80"), peer)


def sniff(sock):
    while True:
        packet, (_, protocol, kind, _, _) = sock.recvfrom(65535)
        if kind == socket.PACKET_OUTGOING or protocol not in (ETH_P_IP, ETH_P_IPV6):
            continue
        if protocol == ETH_P_IPV6 and packet[14 + 6] in (0, ICMPV6):  # 0: multicast reports
            continue
        record("packet", family="IPv4" if protocol == ETH_P_IP else "IPv6", bytes=len(packet))


def main():
    global record_file
    record_file = open(sys.argv[1], "a", encoding="utf-8")
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    dns.bind(("0.0.0.0", 53))
    try:
        web = Server(ipv6=True)
    except OSError:  # a kernel without IPv6
        web = Server(ipv6=False)
    for target, argument in ((sniff, packets), (serve_dns, dns)):
        threading.Thread(target=target, args=(argument,), daemon=True).start()
    print("ready", flush=True)
    web.serve_forever()


if __name__ == "__main__":
    main()
