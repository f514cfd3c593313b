#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A gateway as there are many: what the demo's agent meets without Cordon.

usage: gateway.py LEDGER

Serves POST /refund on 127.0.0.1:8800 with the body, the answers and the error codes of cordon-gateway, over orders in
memory; each effect is appended to LEDGER as one line of JSON. It has limits and idempotency keys, and it believes the
tenant that the body names: cordon-gateway knows its caller from the kernel. It asks no human, has no credential, and
forgets everything when it ends. Prints "ready" when it listens.
"""

import http.server
import json
import sys
import threading

ADDRESS = ("127.0.0.1", 8800)
BODY_MAX_BYTES = 65536
FIELDS = {"tenant": str, "order_id": str, "amount": int, "idempotency_key": str}

orders = {  # amounts in minor units
    "o-1001": {"tenant": "t-1", "amount_paid": 4900, "refunded": 0},
    "o-1003": {"tenant": "t-1", "amount_paid": 20000, "refunded": 0},
    "o-2002": {"tenant": "t-2", "amount_paid": 9900, "refunded": 0},
}
answers = {}  # idempotency key -> (request, answer); only of refunds that took effect
lock = threading.Lock()


def refuse(status, code, reason):
    return status, {"error": code, "reason": reason, "retry": False}


def refund(request, ledger):
    """Judges and executes one well-formed request; returns (HTTP status, answer). Under the lock: one action, once."""
    key = request["idempotency_key"]
    if key in answers:
        first, answer = answers[key]
        if first != request:
            return refuse(422, "key_reused_with_other_body", "this key was used for another request")
        return 200, {**answer, "status": "duplicate"}
    order = orders.get(request["order_id"])
    if order is None:
        return refuse(404, "object_not_found", "no such order")
    if order["tenant"] != request["tenant"]:
        return refuse(403, "object_not_in_tenant", "the order belongs to another tenant")
    remaining = order["amount_paid"] - order["refunded"]
    if not 0 < request["amount"] <= remaining:
        return refuse(422, "amount_out_of_range", f"between 1 and {remaining} can be refunded")
    ledger.write(json.dumps({"refund": request, "order": request["order_id"]}) + "\n")
    ledger.flush()
    order["refunded"] += request["amount"]
    answer = {"status": "ok", "refunded": order["refunded"], "remaining": remaining - request["amount"]}
    answers[key] = (request, answer)
    return 200, answer


def parse(body, header_key):
    """The request, or None where it is not exactly what the tool takes."""
    try:
        request = json.loads(body)
    except ValueError:
        return None
    if isinstance(request, dict) and header_key is not None:
        request.setdefault("idempotency_key", header_key)
    if not isinstance(request, dict) or request.keys() != FIELDS.keys():
        return None
    if any(type(request[name]) is not kind for name, kind in FIELDS.items()):
        return None
    return request


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > BODY_MAX_BYTES:
            self.close_connection = True
            return self.reply(*refuse(400, "invalid_request", "a body with its length is needed"))
        body = self.rfile.read(int(length))
        if self.path != "/refund":
            return self.reply(*refuse(404, "object_not_found", "no such tool"))
        request = parse(body, self.headers.get("Idempotency-Key"))
        if request is None:
            return self.reply(*refuse(422, "invalid_request", f"takes {', '.join(FIELDS)}"))
        with lock:
            answer = refund(request, self.server.ledger)
        return self.reply(*answer)

    def reply(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    with open(sys.argv[1], "a", encoding="utf-8") as ledger:
        server = http.server.ThreadingHTTPServer(ADDRESS, Handler)
        server.daemon_threads = True
        server.ledger = ledger
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
