# SPDX-License-Identifier: Apache-2.0
"""What the broker's tests speak with: an upstream that tells all it was sent, Vault's KV version 2, an OAuth server."""

import base64
import hashlib
import hmac
import http.server
import json
import socket
import ssl
import subprocess
import threading
import urllib.parse


class Server:
    """A server of HTTP/1.1 on loopback; get what it was asked in `seen`: (method, target, headers, body)."""

    def __init__(self, answer, certificate=None):
        self.seen, self.ports, self.lock = [], [], threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with outer.lock:
                    outer.seen.append((self.command, self.path, self.headers, body))
                    outer.ports.append(self.client_address[1])
                answer(self, body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = any

            def reply(self, status, body=b"", headers=()):
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def chunk(self, data):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()

            def log_message(self, *_):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                """A gateway that hangs up is part of the tests."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.url = f"https://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self):
        with self.lock:
            return len(self.seen)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def certificate(directory, name, host="IP:127.0.0.1"):
    """A certificate that signs itself, and its key: paths."""
    paths = f"{directory}/{name}.crt", f"{directory}/{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName={host}", "-out", paths[0], "-keyout", paths[1]],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return paths


def forms(secret):
    """Spellings of a secret that must not come back."""
    raw = secret.encode()
    found = {secret, urllib.parse.quote(secret, safe=""), urllib.parse.quote(secret), "".join(f"%{c:02x}" for c in raw),
             "".join(f"\\u{c:04X}" for c in raw), json.dumps(secret)[1:-1], json.dumps(secret)[1:-1].replace("/", "\\/"),
             raw.hex(), raw.hex().upper()}
    for before in (b"", b"x", b"xy", b"user:"):
        # Without the digits that other bytes have a part in.
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            found.add(encode(before + raw).decode()[(len(before) * 8 + 5) // 6:(len(before) + len(raw)) * 8 // 6])
    return found


class Upstream(Server):
    """Behaves as the path says."""

    def __init__(self, secret="", certificate=None):
        super().__init__(self.behave, certificate)
        self.secret = secret
        self.go = threading.Event()  # what streams wait for
        self.gone = threading.Event()  # a stream found its client gone

    def behave(self, handler, body):
        parts = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        word = parts.path.strip("/").split("/")[0]
        getattr(self, "do_" + word, self.do_echo)(handler, body, query)

    def do_echo(self, handler, body, _):
        told = {"method": handler.command, "target": handler.path, "headers": handler.headers.items(),
                "body": body.decode("latin-1")}
        handler.reply(200, json.dumps(told).encode(), [("Content-Type", "application/json")])

    def do_leak(self, handler, _, __):
        text = " | ".join(sorted(forms(self.secret)))
        handler.send_response(200)
        for name, value in (("X-Debug", f"token={self.secret};"), ("Set-Cookie", "session=abc"), ("Transfer-Encoding", "chunked"),
                            ("WWW-Authenticate", "Basic"), ("X-Kept", "yes"), ("Connection", "X-Hop"), ("X-Hop", "1"),
                            ("Link", f'<{self.url}/page/2?t={urllib.parse.quote(self.secret)}>; rel="next", <http://other.test/x>; rel="y"')):
            handler.send_header(name, value)
        handler.end_headers()
        for i in range(0, len(text), 7):
            handler.chunk(text[i:i + 7].encode())
        handler.wfile.write(b"0\r\n\r\n")

    def do_sse(self, handler, _, __):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            for i in range(3):
                handler.chunk(b"data: %d\n\n" % i)
                if not self.go.wait(30):
                    return
                self.go.clear()
            handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.gone.set()

    def do_endless(self, handler, _, __):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            while not self.go.wait(0.05):
                handler.chunk(b"x" * 1000)
        except OSError:
            self.gone.set()

    def do_redirect(self, handler, _, query):
        handler.reply(302, b"moved", [("Location", query["to"])])

    def do_size(self, handler, _, query):
        handler.reply(200, b"s" * int(query["n"]))

    def do_stream(self, handler, _, query):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        left = int(query["n"])
        while left > 0:
            handler.chunk(b"s" * min(left, 1000))
            left -= 1000
        handler.wfile.write(b"0\r\n\r\n")

    def do_unframed(self, handler, _, __):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end")
        handler.close_connection = True

    def do_status(self, handler, _, query):
        handler.reply(int(query["n"]), b"" if query["n"] == "204" else b"body")

    def do_gzip(self, handler, _, __):
        handler.reply(200, b"\x1f\x8b...", [("Content-Encoding", "gzip")])

    def do_silently(self, handler, _, __):
        """Closes the connection behind an answer that does not say so."""
        handler.reply(200, b"whole")
        handler.close_connection = True

    def do_close(self, handler, _, __):
        handler.close_connection = True

    def do_garbage(self, handler, _, __):
        handler.wfile.write(b"garbage\r\n\r\n")
        handler.close_connection = True

    def do_cut(self, handler, _, __):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        handler.close_connection = True

    def do_headers(self, handler, _, query):
        handler.reply(200, b"", [(f"X-{i}", "h" * 1000) for i in range(int(query["n"]))])

    def do_mute(self, _, __, ___):
        self.go.wait(30)


class Pieces:
    """Reads one request after the other, and tells of each byte when it comes: bytes so far in `got`, whole ones in `bodies`."""

    def __init__(self, answer=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", at_once=False):
        self.answer, self.at_once = answer, at_once
        self.got, self.heads, self.bodies = 0, [], []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(peer,), daemon=True).start()

    def talk(self, peer):
        with peer:
            data = b""
            while b"\r\n\r\n" not in data:
                more = peer.recv(65536)
                if not more:
                    return
                data += more
            head, _, body = data.partition(b"\r\n\r\n")
            self.heads.append(head.decode())
            length = int(next(line for line in head.decode().lower().split("\r\n") if line.startswith("content-length:")).split(":")[1])
            self.got, digest = len(body), hashlib.sha256(body)
            if self.at_once:
                peer.sendall(self.answer)
                return
            while self.got < length:
                more = peer.recv(65536)
                if not more:
                    return
                self.got += len(more)
                digest.update(more)
            self.bodies.append((length, digest.hexdigest()))
            peer.sendall(self.answer)

    def close(self):
        self.socket.close()


class Vault(Server):
    """KV version 2 of HashiCorp Vault, mounted at secret/, as its API documents it."""

    def __init__(self, token):
        super().__init__(self.behave)
        self.token, self.secrets, self.sealed = token, {}, False

    def behave(self, handler, _):
        body, status = {"errors": []}, 404
        name = handler.path.removeprefix("/v1/secret/data/")
        if self.sealed:
            body, status = {"errors": ["Vault is sealed"]}, 503
        elif handler.headers.get("X-Vault-Token") != self.token:
            body, status = {"errors": ["permission denied"]}, 403
        elif name in self.secrets and name != handler.path:
            versions = self.secrets[name]
            deleted = versions[-1] is None
            status = 404 if deleted else 200
            body = {"request_id": "6d1ab2d2-c1e6-7e92-3c14-b0b0a4c5a5f3", "lease_id": "", "renewable": False, "lease_duration": 0,
                    "data": {"data": versions[-1],
                             "metadata": {"created_time": "2026-01-01T00:00:00.000000000Z", "custom_metadata": None,
                                          "deletion_time": "2026-01-02T00:00:00Z" if deleted else "", "destroyed": False,
                                          "version": len(versions)}},
                    "wrap_info": None, "warnings": None, "auth": None, "mount_type": "kv"}
        handler.reply(status, json.dumps(body).encode(), [("Content-Type", "application/json"), ("Cache-Control", "no-store")])


class Tokens(Server):
    """Client credentials, RFC 6749 4.4."""

    def __init__(self, client, secret, expires=3600):
        super().__init__(self.behave)
        self.client, self.secret, self.expires, self.given = client, secret, expires, 0

    def behave(self, handler, body):
        form = dict(urllib.parse.parse_qsl(body.decode()))
        pair = ":".join(urllib.parse.quote(part, safe="-._~") for part in (self.client, self.secret))
        if handler.headers.get("Authorization") != "Basic " + base64.b64encode(pair.encode()).decode():
            handler.reply(401, b'{"error":"invalid_client"}')
        elif form.get("grant_type") != "client_credentials":
            handler.reply(400, b'{"error":"unsupported_grant_type"}')
        else:
            self.given += 1
            handler.reply(200, json.dumps({"access_token": f"token-number-{self.given}", "token_type": "Bearer",
                                           "expires_in": self.expires, "scope": form.get("scope", "")}).encode())


def sigv4_is_right(request, key, secret, region, service):
    """Verifies a signature of AWS as its documents describe it, by the request that arrived."""
    method, target, headers, body = request
    algorithm, _, rest = headers["Authorization"].partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    who, date, got_region, got_service, end = fields["Credential"].rsplit("/", 4)
    path, _, query = target.partition("?")
    pairs = sorted(tuple(part.split("=", 1)) if "=" in part else (part, "") for part in query.split("&") if part)
    signed = fields["SignedHeaders"].split(";")
    canonical = "\n".join([method, path, "&".join(f"{k}={v}" for k, v in pairs),
                           "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in signed), ";".join(signed),
                           hashlib.sha256(body).hexdigest()])
    scope = f"{date}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", headers["X-Amz-Date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signing = ("AWS4" + secret).encode()
    for part in (date, region, service, "aws4_request"):
        signing = hmac.new(signing, part.encode(), hashlib.sha256).digest()
    right = hmac.new(signing, text.encode(), hashlib.sha256).hexdigest()
    return (algorithm, who, got_region, got_service, end) == ("AWS4-HMAC-SHA256", key, region, service, "aws4_request") and \
        "host" in signed and hmac.compare_digest(right, fields["Signature"])
