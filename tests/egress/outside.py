# SPDX-License-Identifier: Apache-2.0
"""
What stands outside: a network namespace with addresses that are public, private and worse, and servers in it that note what
arrives; and a name server whose answers the test decides. Everything lives in namespaces of its own; nothing leaves them.
"""

import ctypes
import http.server
import os
import socket
import socketserver
import ssl
import struct
import subprocess
import threading

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)

PUBLIC, PUBLIC6 = "93.184.216.34", "2606:2800:220:1::34"
PRIVATE, METADATA, PROVIDER = "10.9.0.1", "169.254.169.254", "168.63.129.16"
NAT64 = "64:ff9b::0a09:0001"  # 10.9.0.1
NEAR, NEAR6 = "93.184.216.1", "2606:2800:220:1::1"
OUTSIDE = (f"{PUBLIC}/24", f"{PRIVATE}/24", f"{METADATA}/16", f"{PROVIDER}/32", f"{PUBLIC6}/64", f"{NAT64}/96")
NEARS = (f"{NEAR}/24", "10.9.0.2/24", f"{NEAR6}/64")
ROUTES = (f"{PROVIDER}/32 dev near0", f"{METADATA}/32 dev near0", "64:ff9b::/96 dev near0")


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


class Outside:
    """The namespace, joined to ours by a pair of links."""

    def __init__(self):
        self.keeper = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 86400"], stdout=subprocess.PIPE)
        self.keeper.stdout.readline()
        self.fd = os.open(f"/proc/{self.keeper.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", str(self.keeper.pid))
        run("ip", "link", "set", "near0", "up")
        inside = ("nsenter", "-t", str(self.keeper.pid), "-n", "ip")
        for link in ("lo", "far0"):
            run(*inside, "link", "set", link, "up")
        for address in OUTSIDE:
            run(*inside, "addr", "add", address, "dev", "far0", *(["nodad"] if ":" in address else []))
        for address in NEARS:
            run("ip", "addr", "add", address, "dev", "near0", *(["nodad"] if ":" in address else []))
        for route in ROUTES:
            run("ip", "route", "add", *route.split())

    def listen(self, address, port):
        """A listening socket in there."""
        return self.there(lambda: socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                                                       backlog=128))

    def datagrams(self, address, port):
        """A socket for datagrams in there."""
        def bound():
            s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
            s.bind((address, port))
            return s
        return self.there(bound)

    def there(self, function):
        """What function() gives in there."""
        made = []

        def make():
            if LIBC.setns(self.fd, CLONE_NEWNET):
                made.append(OSError(ctypes.get_errno(), "setns"))
                return
            try:
                made.append(function())
            except OSError as error:
                made.append(error)
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if isinstance(made[0], Exception):
            raise made[0]
        return made[0]

    def close(self):
        self.keeper.kill()
        self.keeper.wait()
        os.close(self.fd)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a directory, and a note of each request."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass

    def note(self, body=b""):
        self.server.web.note(self.command, self.path, self.headers.get("Host"), dict(self.headers), body)

    def do_GET(self):
        self.note()
        if self.path.startswith("/sized/"):
            self.sized(int(self.path.split("/")[2]))
        elif self.path == "/sse":
            self.stream()
        elif self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", f"http://{METADATA}/latest")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            super().do_GET()

    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size)
        self.note(body)
        answer = f"{len(body)}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_PUT = do_POST

    def sized(self, size):
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        block = b"x" * 65536
        while size:
            size -= self.wfile.write(block[:min(size, len(block))])

    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.server.web.step.clear()
        for i in range(3):
            self.wfile.write(f"data: {i}\n\n".encode())
            self.wfile.flush()
            self.server.web.step.wait(10)
            self.server.web.step.clear()
        self.close_connection = True


class Web:
    """HTTP on some addresses and ports, with TLS where there is a certificate."""

    def __init__(self, outside, directory, where, certificate=None):
        self.hits, self.names, self.connections = [], [], 0
        self.lock = threading.Lock()
        self.step = threading.Event()
        self.context = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
            self.context.sni_callback = lambda sock, name, context: self.names.append(name)
        self.sockets = []
        for address, port in where:
            listener = outside.listen(address, port) if outside else socket.create_server((address, port))
            self.sockets.append(listener)
            threading.Thread(target=self.serve, args=(listener, directory), daemon=True).start()

    def note(self, *hit):
        with self.lock:
            self.hits.append(hit)

    def serve(self, listener, directory):
        web = self

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

            def __init__(self):  # pylint: disable=super-init-not-called
                socketserver.BaseServer.__init__(self, listener.getsockname(),
                                                 lambda *a: Handler(*a, directory=directory))
                self.socket, self.web = listener, web
                self.server_name, self.server_port = listener.getsockname()[:2]

            def finish_request(self, request, client_address):
                with web.lock:
                    web.connections += 1
                request.settimeout(30)
                if web.context:
                    request = web.context.wrap_socket(request, server_side=True)
                super().finish_request(request, client_address)
                if web.context:
                    try:
                        request.unwrap()
                    except OSError:
                        pass

            def handle_error(self, request, client_address):
                pass
        Server().serve_forever(0.05)


class Raw:
    """A listener outside that keeps what arrives."""

    def __init__(self, outside, port):
        self.listener = outside.listen(PUBLIC, port)
        self.got = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            sock, _ = self.listener.accept()
            record = {"bytes": b"", "ended": False}
            self.got.append(record)
            threading.Thread(target=self.read, args=(sock, record), daemon=True).start()

    @staticmethod
    def read(sock, record):
        try:
            while data := sock.recv(65536):
                if not record["bytes"]:
                    sock.sendall(b"answer")
                record["bytes"] += data
        except OSError:
            pass
        record["ended"] = True


class Names:
    """A name server. table: name -> list of addresses, or a function that gives one; asked: every question."""

    def __init__(self):
        self.table, self.asked, self.silent = {}, [], set()
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            query, client = self.sock.recvfrom(4096)
            answer = self.answer(query)
            if answer:
                self.sock.sendto(answer, client)

    def answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1").lower())
            at += 1 + query[at]
        kind, = struct.unpack("!H", query[at + 1:at + 3])
        name = ".".join(labels)
        self.asked.append((name, kind))
        if name in self.silent:
            return None
        found = self.table.get(name)
        addresses = found() if callable(found) else found or []
        records = []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            if kind == (28 if family == socket.AF_INET6 else 1):
                data = socket.inet_pton(family, address)
                records.append(struct.pack("!HHHIH", 0xc00c, kind, 1, 0, len(data)) + data)
        flags = 0x8180 | (0 if found is not None else 3)
        return query[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0) + query[12:at + 5] + b"".join(records)


def certificates(directory, names):
    """An authority of the test's own, and a certificate of it for the names: (authority, (chain, key))."""
    path = lambda name: os.path.join(directory, name)
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", path("ca.key"), "-out", path("ca.pem"), "-days", "2",
        "-subj", "/CN=authority of a test", "-addext", "basicConstraints=critical,CA:TRUE",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign", **quiet)
    run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", path("server.key"), "-out", path("server.csr"),
        "-subj", "/CN=test", **quiet)
    with open(path("server.ext"), "w") as f:
        f.write("subjectAltName=" + ",".join(f"DNS:{name}" for name in names) + "\nbasicConstraints=CA:FALSE\n")
    run("openssl", "x509", "-req", "-in", path("server.csr"), "-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-CAcreateserial",
        "-days", "2", "-extfile", path("server.ext"), "-out", path("server.pem"), **quiet)
    return path("ca.pem"), (path("server.pem"), path("server.key"))
