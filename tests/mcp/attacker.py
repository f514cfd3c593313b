# SPDX-License-Identifier: Apache-2.0
"""What an attacker tried at /mcp: rows M-NN of docs/threat-model.md, "Third attacker pass"; each beside its legal neighbour."""

import json
import random

from harness import PAID, order, refund

ATTEMPTS = []


def attempt(number, title):
    def add(function):
        ATTEMPTS.append((f"{number} {title}", function))
        return function
    return add


def message(method="ping", **more):
    return {"jsonrpc": "2.0", "id": 1, "method": method, **more}


def call_text(arguments):
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"free","arguments":' + arguments + b"}}"


def send(gateway, where, body, *headers):
    with gateway.connect(where) as c:
        return c.post("/mcp", body, headers)


@attempt("M-01", "a member twice, also by an escape, at any depth, and which of the two amounts counts")
def _(world, gateway):
    where, tenant = world.fence()
    body = f'"tenant":"{tenant}","order_id":"{order(tenant)}","idempotency_key":"m1"'.encode()
    for members in (b'"amount":1,"amount":5000', b'"amount":1,"am\\u006funt":5000', b'"amount":1,"\\u0061mount":5000'):
        reply = send(gateway, where, call_text(b"{" + body + b"," + members + b"}"))
        assert (reply.status, reply.json["error"]["code"]) == (400, -32700), (members, reply)
    for text in (b'{"jsonrpc":"2.0","id":1,"method":"ping","m\\u0065thod":"tools/list"}', b'{"jsonrpc":"2.0","id":1,"i\\u0064":2,"method":"ping"}',
                 b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"free","name":"refund"}}',
                 b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"b":1,"b":2}}}'):
        assert send(gateway, where, text).status == 400, text
    # Names that only look so are members that the tool does not have.
    for name in ('"amount "', '"Amount"', '"\\u0430mount"', '"amount\\u200b"', '"__proto__"', '""'):
        reply = send(gateway, where, call_text(b'{"amount":1,' + body + b"," + name.encode() + b":5000}"))
        assert reply.json["result"]["isError"] and reply.json["result"]["structuredContent"]["error"] == "invalid_request", (name, reply)
    assert world.refunded(order(tenant)) == 0
    assert send(gateway, where, call_text(b'{"am\\u006funt":7,' + body + b"}")).json["result"]["isError"] is False
    assert world.refunded(order(tenant)) == 7


@attempt("M-02", "JSON that is none to others: NUL, half characters, UTF-16, marks, comments, numbers of other kinds, depth, width, length")
def _(world, gateway):
    where = world.fence()[0]
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":%s}'
    for text in (json.dumps(message()).encode("utf-16"), b"\xef\xbb\xbf" + json.dumps(message()).encode(), ping % b'{"a":"\\u0000"}', ping % b'{"a":"\\ud800"}', ping % b'{"a":"\xed\xa0\x80"}',
                 ping % b'{"a":"\xc0\x80"}', ping % b'{"a":NaN}', ping % b'{"a":1e999}', ping % b'{"a":01}', ping % b'{"a":+1}', ping % b'{"a":1,}', ping % b"{'a':1}", ping % b'{"a":"\n"}',
                 ping % b'/**/{}', ping % (b'{"a":' * 20 + b"1" + b"}" * 20), ping % (b"[" * 40 + b"]" * 40), b"[" * 65000, b'{"a":' * 10000, b'"' * 65000, ping % b'{"a":123456789012345678901234567890}',
                 b'{"jsonrpc":"2.0","id":1,"method":"ping"}\0', b'{"jsonrpc":"2.0","id":1,"method":"ping"}}'):
        reply = send(gateway, where, text)
        assert reply.status == 400 and reply.json["error"]["code"] in (-32700, -32600), (text[:60], reply)
    wide = b"{" + b",".join(b'"%d":0' % i for i in range(7000)) + b"}"
    for text in (ping % wide, ping % (b'{"a":"' + b"x" * 60000 + b'"}'), ping % (b'{"a":[' + b"0," * 30000 + b"0]}"), ping % b'{"a":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[{{{{{{{{{"}'):
        assert send(gateway, where, text).status == 200, text[:60]
    assert send(gateway, where, b"x" * 65537).status == 413


@attempt("M-03", "ids: numbers of other kinds, the edge of the range, line ends and tags in them, one that is another's")
def _(world, gateway):
    where = world.fence()[0]
    for text, status in (("1.0", 400), ("1e0", 400), ("-0.0", 400), ("true", 400), ("{}", 400), ("[]", 400), ("null", 400), ("9223372036854775808", 400), ('"\\u0000"', 400), ('"' + "i" * 129 + '"', 400),
                         ("9223372036854775807", 200), ("-9223372036854775808", 200), ("-0", 200), ('""', 200), ('"\\r\\nX: y"', 200), ('"</script>"', 200), ('"\\u00e4\\u20ac"', 200)):
        with gateway.connect(where) as c:
            reply = c.post("/mcp", f'{{"jsonrpc":"2.0","id":{text},"method":"ping"}}'.encode())
            assert reply.status == status, (text, reply)
            if status == 200:
                assert reply.json["id"] == json.loads(text) and set(reply.headers) >= {"content-length"} and "x" not in reply.headers, reply
                assert c.get("/tools").status == 200, "the next answer is where it belongs"


@attempt("M-04", "many in one: batches, batches of one, of notifications, within one another, two messages in a body")
def _(world, gateway):
    where, tenant = world.fence()
    one = message("tools/call", params={"name": "free", "arguments": refund(tenant, 5, "m4")})
    quiet = {k: v for k, v in one.items() if k != "id"}
    for body in ([one], [one, one], [[one]], [quiet], [], [one] * 50):
        assert send(gateway, where, json.dumps(body).encode()).status == 400, body
    for text in (json.dumps(one) * 2, json.dumps(one) + "\n" + json.dumps(one), "data: " + json.dumps(one)):
        assert send(gateway, where, text.encode()).status == 400, text
    for body in (quiet, dict(quiet, method="notifications/tools/call"), {"jsonrpc": "2.0", "id": 1, "result": one["params"]}):
        assert send(gateway, where, json.dumps(body).encode()).status == 202, body
    assert send(gateway, where, json.dumps(dict(quiet, id=None)).encode()).status == 400
    assert world.refunded(order(tenant)) == 0
    assert send(gateway, where, json.dumps(one).encode()).status == 200 and world.refunded(order(tenant)) == 5


@attempt("M-05", "another's session, stream and answers: session ids, GET and Last-Event-ID, DELETE, cancelling another's call, its approvals")
def _(world, gateway):
    victim, tenant = world.fence()
    where, _ = world.fence()
    held = send(gateway, victim, json.dumps(message("tools/call", params={"name": "refund", "arguments": refund(tenant, 20000, "m5")})).encode())
    ticket = held.json["result"]["structuredContent"]["approval"]
    for headers in (("Mcp-Session-Id: 1",), ("mcp-session-id: " + ticket,), ("MCP-SESSION-ID:",)):
        assert send(gateway, where, json.dumps(message()).encode(), *headers).status == 404, headers
    for method in ("GET", "DELETE"):
        with gateway.connect(where) as c:
            assert c.request(method, "/mcp", None, ("Accept: text/event-stream", "Last-Event-ID: 1")).status == 405, method
    assert send(gateway, where, json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}).encode()).status == 202
    assert gateway.get(where, "/approvals/" + ticket).status == 404
    assert gateway.get(victim, "/approvals/" + ticket).status in (200, 202)
    assert world.refunded(order(tenant)) == 0


@attempt("M-06", "a tool that is not in one's scopes, by other spellings of its name; another tenant's key and order")
def _(world, gateway):
    poor, tenant = world.fence(scopes=("free:create",))
    rich, victim = world.fence()
    body = refund(tenant, 5, "m6")
    for name in ("refund ", " refund", "Refund", "REFUND", "tools/refund", "/refund", "../free", "refund\u0000", "refun\u0501", "r" * 60000, "", "*", "refund;free"):
        reply = send(gateway, poor, json.dumps(message("tools/call", params={"name": name, "arguments": body})).encode())
        assert reply.status == 400 or reply.json["error"]["code"] == -32602, (name[:20], reply)
    reply = send(gateway, poor, json.dumps(message("tools/call", params={"name": "refund", "arguments": body})).encode())
    assert reply.json["result"]["structuredContent"]["error"] == "scope_denied", reply
    for method in ("tools/Call", "Tools/call", "tools/call ", "tools//call", "tools/call/", "notifications/../tools/call"):
        reply = send(gateway, poor, json.dumps(message(method, params={"name": "refund", "arguments": body})).encode())
        assert reply.json["error"]["code"] == -32601, (method, reply)
    assert send(gateway, rich, json.dumps(message("tools/call", params={"name": "free", "arguments": refund(victim, 9, "m6")})).encode()).json["result"]["isError"] is False
    # The key is the tenant's: with another's it is a new action, and says nothing of the other.
    reply = send(gateway, poor, json.dumps(message("tools/call", params={"name": "free", "arguments": body})).encode())
    assert reply.json["result"]["structuredContent"]["status"] == "ok" and reply.json["result"]["structuredContent"]["remaining"] == PAID - 5, reply
    for arguments in (dict(body, tenant=victim, idempotency_key="m6b"), dict(body, order_id=order(victim), idempotency_key="m6c")):
        reply = send(gateway, poor, json.dumps(message("tools/call", params={"name": "free", "arguments": arguments})).encode())
        assert reply.json["result"]["isError"] is True, reply
    assert (world.refunded(order(tenant)), world.refunded(order(victim))) == (5, 9)


@attempt("M-07", "from a page of the web: Origin in every form, simple requests, a rebound Host")
def _(world, gateway):
    where, tenant = world.fence()
    one = json.dumps(message("tools/call", params={"name": "free", "arguments": refund(tenant, 5, "m7")})).encode()
    for value in ("http://evil.test", "null", "", "http://127.0.0.1", "file://", "a, b"):
        assert send(gateway, where, one, f"Origin: {value}").status == 403, value
        assert send(gateway, where, one, f"oRiGiN:{value}", "Content-Type: text/plain").status == 403, value
    assert send(gateway, where, one, "Origin: a", "Origin: b").status == 403
    assert world.refunded(order(tenant)) == 0


@attempt("M-08", "mutated messages by the thousand, and bodies that are begun and left")
def _(world, gateway):
    where, tenant = world.fence()
    chance = random.Random(8)
    seed = json.dumps(message("tools/call", params={"name": "free", "arguments": dict(refund(tenant, 5, "m8"), tenant="t-none")})).encode()
    before = gateway.rss_bytes()
    held = []
    for _ in range(300):
        c = gateway.connect(where)
        c.send(b"POST /mcp HTTP/1.1\r\nHost: g\r\nContent-Length: 65536\r\n\r\n" + bytes(60000))
        held.append(c)
    for _ in range(40):
        with gateway.connect(where) as c:
            for _ in range(50):
                data = bytearray(seed)
                for _ in range(chance.randrange(1, 4)):
                    at = chance.randrange(len(data))
                    data[at:at + chance.randrange(3)] = bytes(chance.choice((34, 91, 93, 123, 125, 92, 0, 255, 45, 101, chance.randrange(256))) for _ in range(chance.randrange(3)))
                assert c.post("/mcp", bytes(data)).status in (200, 202, 400)
    assert gateway.rss_bytes() - before < 100 << 20, (before, gateway.rss_bytes())
    for c in held:
        c.close()
    assert send(gateway, where, json.dumps(message()).encode()).status == 200
    assert world.refunded(order(tenant)) == 0
