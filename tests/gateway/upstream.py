# SPDX-License-Identifier: Apache-2.0
"""An upstream for tests: does what the order's name says, and keeps what it was sent."""

import collections
import http.server
import json
import threading
import time


class Upstream:
    def __init__(self, host="127.0.0.1"):
        self.seen = []  # (method, path, headers, body)
        self.effects = collections.Counter()  # by the key that the gateway sends
        self.under_way, self.most = 0, 0  # requests now, and at most at the same time
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status, body=b"", headers=()):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                value = json.loads(body)
                with outer.lock:
                    outer.seen.append((self.command, self.path, dict(self.headers), body))
                    outer.under_way += 1
                    outer.most = max(outer.most, outer.under_way)
                try:
                    self.behave(value)
                finally:
                    with outer.lock:
                        outer.under_way -= 1

            def behave(self, value):
                behaviour = value.get("mode", "ok")
                good = json.dumps({"refunded": value.get("amount"), "remaining": 1, "secret": "inside"}).encode()
                if behaviour == "slow":
                    time.sleep(1)
                elif behaviour == "hang":
                    time.sleep(5)
                    return
                if behaviour in ("ok", "slow", "noise", "huge", "list"):
                    with outer.lock:
                        outer.effects[self.headers.get("Idempotency-Key")] += 1
                if behaviour in ("ok", "slow"):
                    self.answer(200, good)
                elif behaviour == "noise":
                    self.answer(201, b"not json")
                elif behaviour == "list":
                    self.answer(200, b"[1]")
                elif behaviour == "huge":
                    self.answer(200, b'{"refunded":1,"x":"' + b"y" * 400000 + b'"}')
                elif behaviour == "cut":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
                    self.close_connection = True
                elif behaviour == "garbage":
                    self.wfile.write(b"garbage\r\n\r\n")
                    self.close_connection = True
                elif behaviour == "close":
                    self.close_connection = True
                elif behaviour == "redirect":
                    self.answer(307, b"", [("Location", f"http://127.0.0.1:{outer.port}/elsewhere")])
                else:
                    self.answer(int(behaviour), b'{"error":"upstream text with 10.0.0.1"}')

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """A gateway that hangs up is part of the tests."""

        self.server = Server((host, 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def count(self):
        with self.lock:
            return len(self.seen)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


# The tool that calls it: the input says what the upstream is to do.
REMOTE = """\
cordon: 1
name: remote
route: /remote
scope: free:create
input:
  type: object
  required: [tenant, order_id, amount]
  properties:
    tenant: {type: string, maxLength: 64}
    order_id: {type: string, maxLength: 64}
    amount: {type: integer}
    mode: {type: string, maxLength: 16}
    note: {type: string, maxLength: 64}
    idempotency_key: {type: string, maxLength: 128}
tenant: tenant
object:
  id: order_id
  query: SELECT tenant, amount_paid - refunded AS remaining FROM orders WHERE id = :object
amount: amount
%s
idempotency: {key: idempotency_key}
executor:
  http: {upstream: payments, path: /v1/refunds, body: [order_id, amount, mode], timeout: 2s}
credential: {header: Authorization, prefix: "Bearer ", file: %s}
result: [refunded, remaining]
"""
