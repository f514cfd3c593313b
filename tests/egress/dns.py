# SPDX-License-Identifier: Apache-2.0
"""DNS as bytes, for the tests: questions of callers, and a name server outside whose every answer the test decides."""

import random
import socket
import struct
import threading

A, NS, CNAME, NULL, PTR, MX, TXT, AAAA, SRV, OPT, SVCB, HTTPS, ANY = 1, 2, 5, 10, 12, 15, 16, 28, 33, 41, 64, 65, 255
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)


def wire(name):
    return b"".join(bytes((len(label),)) + label.encode("latin-1") for label in name.rstrip(".").split(".") if label) + b"\0"


def question(name, kind=A, number=None, flags=0x0100, edns=False, size=1232, klass=1):
    """The bytes of a question."""
    number = random.randrange(65536) if number is None else number
    extra = b"\0" + struct.pack("!HHIH", OPT, size, 0, 0) if edns else b""
    return struct.pack("!HHHHHH", number, flags, 1, 0, 0, int(edns)) + wire(name) + struct.pack("!HH", kind, klass) + extra


def name_at(data, at):
    """The name at a place, and the place behind it."""
    labels, end, hops = [], None, 0
    while data[at]:
        if data[at] & 0xc0:
            end = end or at + 2
            at = struct.unpack("!H", data[at:at + 2])[0] & 0x3fff
            hops += 1
            assert hops < 100
            continue
        labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
        at += 1 + data[at]
    return ".".join(labels), end or at + 1


class Answer:
    """What came back, read."""

    def __init__(self, data):
        self.data = data
        self.id, self.flags, questions, answers, authority, more = struct.unpack("!HHHHHH", data[:12])
        self.rcode, self.truncated, self.response = self.flags & 15, bool(self.flags & 0x200), bool(self.flags & 0x8000)
        self.records, self.why, at, self.name = [], None, 12, None
        for _ in range(questions):
            self.name, at = name_at(data, at)
            self.kind, _ = struct.unpack("!HH", data[at:at + 4])
            at += 4
        for i in range(answers + authority + more):
            name, at = name_at(data, at)
            kind, _, ttl, size = struct.unpack("!HHIH", data[at:at + 10])
            body, start = data[at + 10:at + 10 + size], at + 10
            at = start + size
            if kind == OPT:
                if size >= 6 and struct.unpack("!H", body[:2])[0] == 15:
                    self.why = struct.unpack("!H", body[4:6])[0], body[6:].decode()
            elif i < answers:
                value = (socket.inet_ntop(socket.AF_INET if kind == A else socket.AF_INET6, body) if kind in (A, AAAA)
                         else name_at(data, start)[0] if kind == CNAME else body)
                self.records.append((name, kind, ttl, value))
        assert at == len(data), "bytes are left over"

    @property
    def addresses(self):
        return sorted(value for _, kind, _, value in self.records if kind in (A, AAAA))

    def __repr__(self):
        return f"rcode {self.rcode} tc {self.truncated} {self.records} {self.why}"


def ask_udp(server, source, data, timeout=6):
    """Sends bytes as they are; the answer, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        if source:
            s.bind((source, 0))
        s.settimeout(timeout)
        s.connect(server)
        s.send(data)
        try:
            return Answer(s.recv(65536))
        except (socket.timeout, ConnectionError):
            return None


def read_tcp(s):
    data = b""
    while len(data) < 2 or len(data) < 2 + struct.unpack("!H", data[:2])[0]:
        more = s.recv(2 + struct.unpack("!H", data[:2])[0] - len(data) if len(data) >= 2 else 2 - len(data))
        if not more:
            return None
        data += more
    return data[2:]


def ask_tcp(server, source, *datas, timeout=6):
    """Sends all of them on one connection at once; the answers, None for the end of the connection."""
    with socket.socket() as s:
        if source:
            s.bind((source, 0))
        s.settimeout(timeout)
        s.connect(server)
        s.sendall(b"".join(struct.pack("!H", len(data)) + data for data in datas))
        answers = []
        try:
            while len(answers) < len(datas):
                data = read_tcp(s)
                answers.append(Answer(data) if data else None)
                if not data:
                    break
        except (socket.timeout, ConnectionError):
            answers.append(None)
        return answers


def record(name, kind, value, ttl=60):
    data = (socket.inet_pton(socket.AF_INET, value) if kind == A else socket.inet_pton(socket.AF_INET6, value) if kind == AAAA
            else wire(value) if kind == CNAME else value)
    return wire(name) + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


class Question:
    """What the server was asked, and what to answer with."""

    def __init__(self, data, peer, tcp):
        self.data, self.peer, self.tcp = data, peer, tcp
        self.id, = struct.unpack("!H", data[:2])
        self.raw, at = name_at(data, 12)
        self.name = self.raw.lower()
        self.kind, = struct.unpack("!H", data[at:at + 2])
        self.question = data[12:at + 4]

    def answer(self, *records, rcode=NOERROR, number=None, truncated=False, asked=None):
        flags = 0x8180 | rcode | (0x200 if truncated else 0)
        number = self.id if number is None else number
        return struct.pack("!HHHHHH", number, flags, 1, len(records), 0, 0) + (asked or self.question) + b"".join(records)


class Server:
    """A name server outside. table: name -> addresses, or a function of (Question, send) that sends what it likes."""

    def __init__(self, address="127.0.0.1", port=0, outside=None):
        self.table, self.asked, self.ttl = {}, [], 60
        if outside:
            self.tcp, self.udp, self.port = outside.listen(address, port), outside.datagrams(address, port), port
        for _ in range(0 if outside else 50):
            self.tcp = socket.create_server((address, port))
            self.port = self.tcp.getsockname()[1]
            self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                self.udp.bind((address, self.port))
                break
            except OSError:
                self.tcp.close()
        threading.Thread(target=self.serve_udp, daemon=True).start()
        threading.Thread(target=self.serve_tcp, daemon=True).start()

    def serve_udp(self):
        while True:
            data, peer = self.udp.recvfrom(65536)
            self.take(Question(data, peer, False), lambda answer, peer=peer: self.udp.sendto(answer, peer))

    def serve_tcp(self):
        while True:
            s, peer = self.tcp.accept()
            threading.Thread(target=self.serve_one, args=(s, peer), daemon=True).start()

    def serve_one(self, s, peer):
        try:
            while data := read_tcp(s):
                self.take(Question(data, peer, True), lambda answer: s.sendall(struct.pack("!H", len(answer)) + answer))
        except OSError:
            pass
        s.close()

    def take(self, q, send):
        self.asked.append(q)
        found = self.table.get(q.name)
        if callable(found):
            found(q, send)
        elif found is None:
            send(q.answer(rcode=NXDOMAIN))
        else:
            send(q.answer(*(record(q.raw, AAAA if ":" in v else A, v, self.ttl) for v in found
                            if q.kind == (AAAA if ":" in v else A))))

    def names(self):
        return [q.name for q in self.asked]
