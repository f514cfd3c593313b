# SPDX-License-Identifier: Apache-2.0
"""What the egress tests stand on: a gateway of the tests (identities from a file), fences with domains, callers of its proxy."""

import os
import socket
import ssl
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "gateway"))

import importlib.util  # noqa: E402

_spec = importlib.util.spec_from_file_location("gateway_harness", os.path.join(os.path.dirname(HERE), "gateway", "harness.py"))
base = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(base)

from outside import (METADATA, NAT64, NEAR, NEAR6, PRIVATE, PROVIDER, PUBLIC, PUBLIC6, Names, Outside, Raw, Web,  # noqa: E402
                     certificates)

NAMES = ("good.test", "other.test", "denied.test", "*.sub.test", "apt.test", "registry.test", "git.test")


free_port = base.free_port


class World(base.World):
    """One gateway, what is outside, and fences that differ in what they may reach."""

    def __init__(self):
        super().__init__("sqlite")
        self.files = tempfile.mkdtemp(dir=self.directory)
        os.chmod(self.directory, 0o755)
        os.chmod(self.files, 0o755)
        with open(os.path.join(self.files, "hello"), "w") as f:
            f.write("hello\n")
        self.outside, self.names = Outside(), Names()
        self.ca, self.certificate = certificates(self.directory, NAMES)
        everywhere = (PUBLIC, PRIVATE, METADATA, PROVIDER, PUBLIC6, NAT64)
        self.tls = Web(self.outside, self.files, [(a, p) for a in everywhere for p in (443, 8443)], self.certificate)
        self.web = Web(self.outside, self.files, [(a, p) for a in everywhere for p in (80, 8080)])
        self.raw = Raw(self.outside, 8081)
        self.local = Web(None, self.files, [("127.0.0.1", 80), ("93.184.216.1", 80)])
        self.names.table.update({name: [PUBLIC] for name in ("good.test", "other.test", "denied.test", "a.sub.test", "a.b.sub.test",
                                                             "sub.test", "xsub.test", "apt.test", "registry.test", "git.test")})
        self.canary = os.path.join(self.directory, "canary")
        self.gw = self.gateway(config=f"nameservers: 127.0.0.1:{self.names.port}\nworkers: 2\n"
                                      f"upstreams: [{{name: decoy, url: 'http://127.0.0.1:1', canary: {{file: {self.canary}}}}}]\n",
                               limits="tunnels: 8, dial: 1500ms, tunnel_idle: 60s").start()

    def reach(self, *domains, allow=(), upload=0, where=None):
        """A new fence that may reach domains. Returns its place."""
        with self.lock:
            number = self.next_fence
            self.next_fence += 1
            place = where or f"127.0.{1 + number // 200}.{1 + number % 200}"
            self.fences[place] = (f"{place} {number} t-{number} alice task-{number} none {','.join(domains) or '-'} "
                                  f"{','.join(allow) or '-'} {upload}")
            self._write_ids()
        self.gw.wait_known(place)
        return place

    def events(self, place, op=None):
        number = int(self.fences[place].split(" ")[1])
        return [e for e in self.gw.event_list() if e["fence"]["id"] == f"{number:016x}" and op in (None, e["op"])]

    def wait_event(self, place, op, many=1, timeout=10):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            found = self.events(place, op)
            if len(found) >= many:
                return found[-1]
            time.sleep(0.02)
        raise AssertionError(f"no event {op} of {place}: {self.events(place)}")

    def close(self):
        super().close()
        self.outside.close()


def arrived(before, count, timeout=5):
    """Waits until count() is one more than before."""
    end = time.monotonic() + timeout
    while count() == before and time.monotonic() < end:
        time.sleep(0.01)
    return count() == before + 1


def connect(world, place, target, host=None, timeout=20):
    """CONNECT; the connection and the answer."""
    c = world.gw.connect(place, timeout)
    host = target if host is None else host
    c.send(f"CONNECT {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1"))
    head = b""
    while b"\r\n\r\n" not in head:
        data = c.sock.recv(1) if b"200" in head[:16] else c.sock.recv(4096)
        if not data:
            break
        head += data
    if head.startswith(b"HTTP/1.1 200"):
        return c, base.Reply(200)
    c.buffer = head
    return c, c.read()


def handshake(world, c, sni, verify=None, versions=None):
    """TLS over a tunnel; sni None: without a name."""
    context = ssl.create_default_context(cafile=world.ca)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    if versions:
        context.maximum_version = versions
    c.sock.settimeout(20)
    return context.wrap_socket(c.sock, server_hostname=sni)


def fetch(world, place, target="good.test:443", sni="good.test", path="/hello", host=None):
    """A GET by way of a tunnel: its status line, or the word of what went wrong."""
    c, reply = connect(world, place, target)
    with c:
        if reply.status != 200:
            return reply.word or str(reply.status)
        try:
            with handshake(world, c, sni) as tls:
                tls.sendall(f"GET {path} HTTP/1.1\r\nHost: {host or sni}\r\nConnection: close\r\n\r\n".encode())
                data = b""
                while True:
                    more = tls.recv(65536)
                    if not more:
                        break
                    data += more
                return data.split(b"\r\n")[0].decode()
        except (ssl.SSLError, ConnectionError, socket.timeout) as error:
            return "cut" if isinstance(error, ConnectionError) else f"tls: {error}"


def absolute(world, place, url, host=None, method="GET", body=b"", headers=(), timeout=20):
    """A request in absolute form. The answer."""
    name = url.split("/")[2]
    with world.gw.connect(place, timeout) as c:
        lines = [f"{method} {url} HTTP/1.1", f"Host: {name if host is None else host}", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        c.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        return c.read()
