# SPDX-License-Identifier: Apache-2.0
"""
The gateway's cases: what must be refused, each beside its legal neighbour. A case is a function with the number of
its row in the catalogue of cases; it gets the world (database, fences) and a running gateway, uses a tenant of its
own, and raises AssertionError.
"""

import contextlib
import os
import signal
import socket
import threading
import time

from harness import ORDERS, PAID, Connection, order, refund

CASES = []


def case(number, title, **options):
    def add(function):
        CASES.append((number, title, function, options))
        return function
    return add


def expect(reply, status, word=None):
    assert reply.status == status and (word is None or reply.word == word), \
        f"expected {status} {word or ''}, got {reply!r}"
    return reply


def parallel(n, function):
    """Runs function(i) in n threads that start together; returns what each gave."""
    results, barrier = [None] * n, threading.Barrier(n)

    def run(i):
        barrier.wait()
        try:
            results[i] = function(i)
        except Exception as error:  # pylint: disable=broad-except
            results[i] = error
    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


# --- who calls ----------------------------------------------------------------------------------------------------


@case("I-1", "a fence is known, the host and other addresses are not")
def _(world, gateway):
    where, tenant = world.fence()
    body = refund(tenant, 100, "k")
    expect(gateway.post(None, "/refund", body), 401, "unauthenticated")
    expect(gateway.post("127.0.9.9", "/refund", body), 401, "unauthenticated")
    expect(gateway.get("127.0.9.9", "/tools"), 401, "unauthenticated")
    assert world.refunded(order(tenant)) == 0
    expect(gateway.post(where, "/refund", body), 200, "ok")
    assert world.refunded(order(tenant)) == 100


@case("I-2", "a fence that ended is cut off within 100 ms, on the connection that it had, too")
def _(world, gateway):
    where, tenant = world.fence()
    other, other_tenant = world.fence()
    with gateway.connect(where) as c, gateway.connect(other) as twin:
        expect(c.post("/refund", refund(tenant, 100, "k1")), 200)
        expect(twin.post("/refund", refund(other_tenant, 100, "k1")), 200)
        world.end_fence(where)
        start = time.monotonic()
        assert c.at_end(), "the connection lives on"
        took = time.monotonic() - start
        assert took < 0.1 or os.getloadavg()[0] > 2, f"{took * 1000:.0f} ms"
        expect(gateway.post(where, "/refund", refund(tenant, 100, "k2")), 401, "unauthenticated")
        expect(twin.post("/refund", refund(other_tenant, 100, "k2")), 200, "ok")


@case("I-3", "a caller over a unix socket")
def _(world, gateway):
    name = os.path.join(world.directory, "caller.sock")
    _, tenant = world.fence(where=name)
    with Connection(gateway.unix, name) as c:
        expect(c.post("/refund", refund(tenant, 100, "k")), 200, "ok")
    with Connection(gateway.unix) as c:
        expect(c.post("/refund", refund(tenant, 100, "k")), 401, "unauthenticated")


@case("G-07", "the tenant is the fence's, whatever headers, query and body say")
def _(world, gateway):
    where, tenant = world.fence()
    _, victim = world.fence()
    body = refund(tenant, 100, "k")
    expect(gateway.post(where, "/refund", refund(victim, 100, "a")), 403, "tenant_mismatch")
    expect(gateway.post(where, "/refund", dict(body, order_id=order(victim))), 403, "object_not_in_tenant")
    expect(gateway.post(where, "/refund", dict(body, tenant="")), 422, "invalid_request")
    expect(gateway.post(where, f"/refund?tenant_id={victim}", body), 400, "malformed_request")
    expect(gateway.post(where, "/refund", body, ["Authorization: Bearer a", "Authorization: Bearer b"]), 400)
    # These headers mean nothing here; the call is the fence's own.
    reply = gateway.post(where, "/refund", body, [f"X-Tenant-Id: {victim}", "X-Forwarded-For: 127.0.0.1",
                                                  f"X-Forwarded-User: {victim}", f"Forwarded: for={victim}"])
    expect(reply, 200, "ok")
    assert world.refunded(order(victim)) == 0 and world.refunded(order(tenant)) == 100


@case("I-4", "scope: without it 403, whatever the object; GET /tools lists what the scopes allow")
def _(world, gateway):
    where, tenant = world.fence(scopes=("free:create",))
    expect(gateway.post(where, "/refund", refund(tenant, 100, "k")), 403, "scope_denied")
    expect(gateway.post(where, "/refund", dict(refund(tenant, 100, "k"), order_id="nothing")), 403, "scope_denied")
    expect(gateway.post(where, "/free", refund(tenant, 100, "k")), 200, "ok")
    names = [tool["name"] for tool in expect(gateway.get(where, "/tools"), 200).json["tools"]]
    assert names == ["free"], names


@case("I-5", "a bearer token where the gateway knows no grants refuses the call")
def _(world, gateway):
    where, tenant = world.fence()
    for value in ("Bearer a.b.c", "Bearer eyJhbGciOiJub25lIn0.e30.", "Basic eDp5", ""):
        expect(gateway.post(where, "/refund", refund(tenant, 1, "k"), [f"Authorization: {value}"]), 401)
    assert world.refunded(order(tenant)) == 0
    expect(gateway.post(where, "/refund", refund(tenant, 1, "k")), 200, "ok")


# --- the decision -------------------------------------------------------------------------------------------------


@case("D-1", "amount, object, limits: each refusal by its code, and nothing done")
def _(world, gateway):
    where, tenant = world.fence()
    for amount, status, word in ((0, 422, "amount_out_of_range"), (-1, 422, "amount_out_of_range"),
                                 (PAID + 1, 422, "amount_out_of_range"), (10001, 202, "pending_approval")):
        expect(gateway.post(where, "/refund", refund(tenant, amount, f"k{amount}")), status, word)
    expect(gateway.post(where, "/refund", dict(refund(tenant, 1, "k"), order_id="o-none")), 404, "object_not_found")
    expect(gateway.post(where, "/strict", refund(tenant, 10001, "s1", 2)), 429, "quota_single")
    expect(gateway.post(where, "/strict", refund(tenant, 6000, "s2", 2)), 200, "ok")
    expect(gateway.post(where, "/strict", refund(tenant, 4001, "s3", 2)), 429, "quota_daily")
    expect(gateway.post(where, "/strict", refund(tenant, 4000, "s4", 2)), 200, "ok")
    assert world.refunded(order(tenant)) == 0 and world.refunded(order(tenant, 2)) == 10000


@case("D-2", "what may come back: status, refunded, remaining")
def _(world, gateway):
    where, tenant = world.fence()
    reply = expect(gateway.post(where, "/refund", refund(tenant, 2500, "k")), 200)
    assert reply.json == {"status": "ok", "refunded": 2500, "remaining": PAID - 2500}, reply
    again = expect(gateway.post(where, "/tools/refund", refund(tenant, 2500, "k")), 200)
    assert again.json == {"status": "duplicate", "refunded": 2500, "remaining": PAID - 2500}, again
    assert world.refunded(order(tenant)) == 2500


@case("G-08", "50 at once with one key: one execution")
def _(world, gateway):
    where, tenant = world.fence()
    replies = parallel(50, lambda i: gateway.post(where, "/refund", refund(tenant, 700, "one")))
    words = [reply.word for reply in replies]
    assert words.count("ok") == 1 and set(words) <= {"ok", "duplicate", "key_in_flight"}, words
    assert world.refunded(order(tenant)) == 700
    # The control: without a shared key each is executed.
    replies = parallel(10, lambda i: gateway.post(where, "/free", refund(tenant, 7, f"c{i}", 2)))
    assert world.refunded(order(tenant, 2)) == 70


@case("G-10", "a key and another request: 422; the syntax of keys: 400")
def _(world, gateway):
    where, tenant = world.fence()
    expect(gateway.post(where, "/refund", refund(tenant, 10, "k1")), 200, "ok")
    for body in (refund(tenant, 11, "k1"), refund(tenant, 10, "k1", 2)):
        expect(gateway.post(where, "/refund", body), 422, "key_reused_with_other_body")
    # The key is the tool's: another tool's call with it is another call. Another case is another key.
    expect(gateway.post(where, "/free", refund(tenant, 10, "k1", 3)), 200, "ok")
    expect(gateway.post(where, "/refund", refund(tenant, 10, "K1")), 200, "ok")
    for key in ("k" * 300, "", " k1", "k1 ", "k\t1", "k\u00e9", "k\u0000", "a b"):
        expect(gateway.post(where, "/refund", refund(tenant, 10, key)), 400, "malformed_request")
    for key in (None, 5, ["k1"], {"k": 1}):
        expect(gateway.post(where, "/refund", refund(tenant, 10, key)), 400, "malformed_request")
    body = refund(tenant, 10, "k1")
    del body["idempotency_key"]
    expect(gateway.post(where, "/refund", body), 400, "malformed_request")
    # Header and member say the same thing, or one of them says it; reordered and respaced it is the same request.
    expect(gateway.post(where, "/refund", body, ["Idempotency-Key: k1"]), 200, "duplicate")
    expect(gateway.post(where, "/refund", dict(body, idempotency_key="k1"), ["Idempotency-Key: k1"]), 200, "duplicate")
    expect(gateway.post(where, "/refund", dict(body, idempotency_key="k2"), ["Idempotency-Key: k1"]), 400)
    expect(gateway.post(where, "/refund", body, ["Idempotency-Key: k1", "Idempotency-Key: k1"]), 400)
    raw = f'{{ "idempotency_key" : "k1",\n"amount":10 , "order_id":"{order(tenant)}","\\u0074enant":"{tenant}"}}'
    expect(gateway.post(where, "/refund", raw.encode()), 200, "duplicate")
    expect(gateway.request_method(where, "PUT", "/refund", None), 405)
    expect(gateway.request_method(where, "PUT", "/refund", body), 400)
    assert world.refunded(order(tenant)) == 20


@case("G-10b", "keys of another subject and tenant are other keys; a refused call does not burn its key")
def _(world, gateway):
    where, tenant = world.fence()
    other, _ = world.fence(tenant=tenant, subject="bob")
    third, third_tenant = world.fence()
    expect(gateway.post(where, "/refund", refund(tenant, 10, "k")), 200, "ok")
    expect(gateway.post(other, "/refund", refund(tenant, 20, "k")), 200, "ok")
    expect(gateway.post(third, "/refund", refund(third_tenant, 30, "k")), 200, "ok")
    expect(gateway.post(where, "/refund", refund(tenant, 0, "r")), 422, "amount_out_of_range")
    expect(gateway.post(where, "/refund", refund(tenant, 5, "r")), 200, "ok")


@case("G-13", "the limit holds against 100 at once")
def _(world, gateway):
    where, tenant = world.fence()
    expect(gateway.post(where, "/strict", refund(tenant, 9000, "first")), 200, "ok")
    replies = parallel(100, lambda i: gateway.post(where, "/strict", refund(tenant, 1000, f"k{i}")))
    words = [reply.word for reply in replies]
    assert words.count("ok") == 1 and words.count("quota_daily") == 99, words
    assert world.refunded(order(tenant)) == 10000


@case("G-13b", "what remains of the object holds against 60 at once")
def _(world, gateway):
    where, tenant = world.fence()
    replies = parallel(60, lambda i: gateway.post(where, "/free", refund(tenant, 3000, f"k{i}")))
    words = [reply.word for reply in replies]
    assert words.count("ok") == PAID // 3000 and set(words) == {"ok", "amount_out_of_range"}, words
    assert world.refunded(order(tenant)) == PAID // 3000 * 3000


@case("G-15", "numbers beyond 64 bits, and near their end")
def _(world, gateway):
    where, tenant = world.fence()
    for amount in (2**63, 2**64, 10**30, -(2**63) - 1):
        expect(gateway.post(where, "/free", refund(tenant, amount, "k")), 400, "malformed_request")
    for amount in (2**63 - 1, -(2**63)):
        expect(gateway.post(where, "/free", refund(tenant, amount, "k")), 422, "amount_out_of_range")
    assert world.refunded(order(tenant)) == 0
    with gateway.connect(where) as c:
        for i in range(200):
            expect(c.post("/free", refund(tenant, 1, f"n{i}")), 200, "ok")
    assert world.refunded(order(tenant)) == 200


@case("G-17", "while a call waits for approval its key takes no other body")
def _(world, gateway):
    where, tenant = world.fence()
    first = expect(gateway.post(where, "/refund", refund(tenant, 20000, "k")), 202, "pending_approval")
    for body in (refund(tenant, 82000, "k"), refund(tenant, 20000, "k", 2)):
        expect(gateway.post(where, "/refund", body), 422, "key_reused_with_other_body")
    again = expect(gateway.post(where, "/refund", refund(tenant, 20000, "k")), 202, "pending_approval")
    assert again.json["approval"] == first.json["approval"]
    ticket = f"/approvals/{first.json['approval']}"
    assert expect(gateway.get(where, ticket), 200).json["status"] == "pending_approval"
    other, _ = world.fence()
    mate, _ = world.fence(tenant=tenant, subject="mallory")
    for stranger in (other, mate):
        expect(gateway.get(stranger, ticket), 404, "approval_not_found")
    for path in (ticket + "0", "/approvals/" + "0" * 32, "/approvals/x"):
        expect(gateway.get(where, path), 404, "approval_not_found")
    for method in ("POST", "PUT", "DELETE"):
        expect(gateway.request_method(where, method, ticket, None), 405)
    assert world.refunded(order(tenant)) == 0


# --- the body -----------------------------------------------------------------------------------------------------

JSON_REFUSED = [
    ("an empty body", b""), ("not an object", b"[]"), ("a string", b'"x"'), ("cut off", b'{"tenant":"t'),
    ("a member twice", b'{"tenant":"%t","tenant":"%t","order_id":"%o","amount":1,"idempotency_key":"k"}'),
    ("the amount twice", b'{"tenant":"%t","order_id":"%o","amount":1,"amount":2,"idempotency_key":"k"}'),
    ("twice, once escaped", b'{"tenant":"%t","order_id":"%o","amount":1,"\\u0061mount":2,"idempotency_key":"k"}'),
    ("an unknown member", b'{"tenant":"%t","order_id":"%o","amount":1,"idempotency_key":"k","admin":true}'),
    ("a point", b'{"tenant":"%t","order_id":"%o","amount":1.0,"idempotency_key":"k"}'),
    ("an exponent", b'{"tenant":"%t","order_id":"%o","amount":1e2,"idempotency_key":"k"}'),
    ("a plus", b'{"tenant":"%t","order_id":"%o","amount":+1,"idempotency_key":"k"}'),
    ("a leading zero", b'{"tenant":"%t","order_id":"%o","amount":01,"idempotency_key":"k"}'),
    ("hexadecimal", b'{"tenant":"%t","order_id":"%o","amount":0x10,"idempotency_key":"k"}'),
    ("text for a number", b'{"tenant":"%t","order_id":"%o","amount":"1","idempotency_key":"k"}'),
    ("true for a number", b'{"tenant":"%t","order_id":"%o","amount":true,"idempotency_key":"k"}'),
    ("null", b'{"tenant":"%t","order_id":"%o","amount":null,"idempotency_key":"k"}'),
    ("NaN", b'{"tenant":"%t","order_id":"%o","amount":NaN,"idempotency_key":"k"}'),
    ("a huge exponent", b'{"tenant":"%t","order_id":"%o","amount":1e999,"idempotency_key":"k"}'),
    ("a list for text", b'{"tenant":["%t"],"order_id":"%o","amount":1,"idempotency_key":"k"}'),
    ("something behind", b'{"tenant":"%t","order_id":"%o","amount":1,"idempotency_key":"k"}x'),
    ("two values", b'{"tenant":"%t","order_id":"%o","amount":1,"idempotency_key":"k"}{}'),
    ("a comma too much", b'{"tenant":"%t","order_id":"%o","amount":1,"idempotency_key":"k",}'),
    ("a comment", b'{"tenant":"%t","order_id":"%o","amount":1,"idempotency_key":"k"/**/}'),
    ("single quotes", b"{'tenant':'%t','order_id':'%o','amount':1,'idempotency_key':'k'}"),
    ("not UTF-8", b'{"tenant":"%t","order_id":"%o\xff","amount":1,"idempotency_key":"k"}'),
    ("a lone surrogate", b'{"tenant":"%t","order_id":"\\ud800","amount":1,"idempotency_key":"k"}'),
    ("a NUL", b'{"tenant":"%t","order_id":"%o\\u0000","amount":1,"idempotency_key":"k"}'),
    ("a control character", b'{"tenant":"%t\\n","order_id":"%o","amount":1,"idempotency_key":"k"}'),
    ("a look-alike", '{"tenant":"%t","order_id":"\u043e-1","amount":1,"idempotency_key":"k"}'.encode()),
    ("a byte order mark", b'\xef\xbb\xbf{"tenant":"%t","order_id":"%o","amount":1,"idempotency_key":"k"}'),
    ("a backslash at the end", b'{"tenant":"\\'),
    ("SQL", b'{"tenant":"%t","order_id":"%o\' OR 1=1 --","amount":1,"idempotency_key":"k"}'),
    ("a missing member", b'{"tenant":"%t","amount":1,"idempotency_key":"k"}'),
]


@case("G-28a", "JSON that is not exactly the tool's input")
def _(world, gateway):
    where, tenant = world.fence()
    with gateway.connect(where) as c:
        for title, body in JSON_REFUSED:
            body = body.replace(b"%t", tenant.encode()).replace(b"%o", order(tenant).encode())
            reply = c.post("/free", body)
            assert reply.status in (400, 422) and reply.word in ("malformed_request", "invalid_request"), (title, reply)
        assert world.refunded(order(tenant)) == 0
        expect(c.post("/free", refund(tenant, 1, "k")), 200, "ok")


@case("G-28b", "deep nesting, huge bodies, many and long headers: 400, 413, 431; the next caller is served")
def _(world, gateway):
    where, tenant = world.fence()
    before = gateway.rss_bytes()
    for deep in (b"[" * 60000, b'{"a":' * 12000, b"[" * 9, b'{"tenant":' + b"[" * 20):
        expect(gateway.post(where, "/free", deep), 400, "malformed_request")
    for length in (65537, 2**31, 2**40):
        with gateway.connect(where) as c:
            c.send(f"POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: {length}\r\n\r\n".encode())
            expect(c.read(), 413, "body_too_large")
            assert c.at_end()
    for head in (b"".join(b"X-%d: y\r\n" % i for i in range(10000)), b"X: " + b"y" * 100000 + b"\r\n",
                 b"X" * 20000):
        with gateway.connect(where) as c:
            try:
                c.send(b"GET /health HTTP/1.1\r\nHost: g\r\n" + head + b"\r\n")
            except OSError:
                pass
            expect(c.read(), 431, "headers_too_large")
    with gateway.connect(where) as c:
        c.send(b"GET /" + b"a" * 20000)
        expect(c.read(), 431, "headers_too_large")
    with gateway.connect(where) as c:
        expect(c.get("/health", [f"X-{i}: y" for i in range(60)]), 200)
        expect(c.post("/free", b" " * 60000 + f'{{"tenant":"{tenant}","order_id":"{order(tenant)}","amount":1,'
                      '"idempotency_key":"big"}'.encode()), 200, "ok")
    assert gateway.rss_bytes() - before < 32 * 1024 * 1024


@case("G-28c", "slow clients get 408, hold nobody up, and descriptors beyond 1024 work", gateway=dict(
    limits="connections: 5000, request: 2s, idle: 30s"))
def _(world, gateway):
    where, tenant = world.fence()
    other, other_tenant = world.fence()
    slow, idle = [], []
    try:
        for _ in range(1000):
            c = gateway.connect(where)
            c.send(b"POST /free HTT")
            slow.append(c)
        for _ in range(400):
            idle.append(gateway.connect(other))
        start, worst = time.monotonic(), 0
        while time.monotonic() - start < 1.5:
            before = time.monotonic()
            expect(gateway.post(other, "/free", refund(other_tenant, 1, f"k{before}")), 200, "ok")
            worst = max(worst, time.monotonic() - before)
            for c in slow[::50]:
                with contextlib.suppress(ConnectionError):  # a host that took longer to make them all: their time is over
                    c.send(b"P")
        assert worst < 0.1 or os.getloadavg()[0] > 2, f"another caller waited {worst * 1000:.0f} ms"
        for c in slow[::100]:
            expect(c.read(), 408, "request_timeout")
            assert c.at_end()
        # The control: the connections that were idle are as good as new, those above descriptor 1024 among them.
        expect(idle[-1].post("/free", refund(other_tenant, 1, "last")), 200, "ok")
    finally:
        for c in slow + idle:
            c.close()


@case("G-28d", "one caller cannot take all connections", gateway=dict(limits="connections: 40"))
def _(world, gateway):
    where, _ = world.fence()
    other, other_tenant = world.fence()
    held = [gateway.connect(where) for _ in range(60)]
    time.sleep(0.3)
    served = 0
    for c in held:
        try:
            served += c.get("/health").status == 200
        except OSError:
            pass
    assert served == 10, served
    expect(gateway.post(other, "/free", refund(other_tenant, 1, "k")), 200, "ok")
    for c in held:
        c.close()
    time.sleep(0.2)
    expect(gateway.get(where, "/health"), 200)


# --- HTTP ---------------------------------------------------------------------------------------------------------

# Head (without the first line's end), status. %b: a good body's length; the body follows.
SMUGGLED = [
    ("Content-Length and Transfer-Encoding", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: %b\r\nTransfer-Encoding: chunked", 400),
    ("Transfer-Encoding first", "POST /free HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\nContent-Length: %b", 400),
    ("Transfer-Encoding on 1.0", "POST /free HTTP/1.0\r\nTransfer-Encoding: chunked", 400),
    ("Transfer-Encoding on 1.0 with length", "POST /free HTTP/1.0\r\nContent-Length: %b\r\nTransfer-Encoding: chunked", 400),
    ("two lengths", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: %b\r\nContent-Length: 0", 400),
    ("the same length twice", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: %b\r\nContent-Length: %b", 400),
    ("a list of lengths", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: %b, %b", 400),
    ("a plus", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: +%b", 400),
    ("a minus", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: -1", 400),
    ("hexadecimal", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: 0x5", 400),
    ("two blanks before", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length:  %b", 400),
    ("a blank behind", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: %b ", 400),
    ("a tab before", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length:\t%b", 400),
    ("a leading zero", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: 0%b", 400),
    ("an empty length", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length:", 400),
    ("a length of 20 digits", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: 18446744073709551620", 400),
    ("a length with a point", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: %b.0", 400),
    ("a blank before the colon", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length : %b", 400),
    ("a folded line", "POST /free HTTP/1.1\r\nHost: g\r\nX: a\r\n b: c\r\nContent-Length: %b", 400),
    ("a folded length", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Length:\r\n %b", 400),
    ("a bare LF", "POST /free HTTP/1.1\r\nHost: g\nContent-Length: %b", 400),
    ("a bare CR", "POST /free HTTP/1.1\r\nHost: g\rX: y\r\nContent-Length: %b", 400),
    ("a NUL", "POST /free HTTP/1.1\r\nHost: g\r\nX: a\0b\r\nContent-Length: %b", 400),
    ("a control character", "POST /free HTTP/1.1\r\nHost: g\r\nX: a\x01b\r\nContent-Length: %b", 400),
    ("no colon", "POST /free HTTP/1.1\r\nHost: g\r\nXyz\r\nContent-Length: %b", 400),
    ("an empty name", "POST /free HTTP/1.1\r\nHost: g\r\n: x\r\nContent-Length: %b", 400),
    ("a name with brackets", "POST /free HTTP/1.1\r\nHost: g\r\nContent[Length]: %b", 400),
    ("two hosts", "POST /free HTTP/1.1\r\nHost: g\r\nHost: h\r\nContent-Length: %b", 400),
    ("no host", "POST /free HTTP/1.1\r\nContent-Length: %b", 400),
    ("a host with a path", "POST /free HTTP/1.1\r\nHost: g/x?y\r\nContent-Length: %b", 400),
    ("chunked alone", "POST /free HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked", 411),
    ("chunked spelled oddly", "POST /free HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: xchunked", 411),
    ("chunked twice", "POST /free HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity", 400),
    ("chunked behind a tab", "POST /free HTTP/1.1\r\nHost: g\r\nTransfer-Encoding:\tchunked", 400),
    ("compressed", "POST /free HTTP/1.1\r\nHost: g\r\nContent-Encoding: gzip\r\nContent-Length: %b", 400),
    ("HTTP/2", "POST /free HTTP/2.0\r\nHost: g\r\nContent-Length: %b", 505),
    ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM", 505),
    ("HTTP/1.2", "POST /free HTTP/1.2\r\nHost: g\r\nContent-Length: %b", 505),
    ("no version", "POST /free\r\nHost: g\r\nContent-Length: %b", 400),
    ("HTTP in small letters", "POST /free http/1.1\r\nHost: g\r\nContent-Length: %b", 400),
    ("a method in small letters", "post /free HTTP/1.1\r\nHost: g\r\nContent-Length: %b", 400),
    ("two blanks", "POST  /free HTTP/1.1\r\nHost: g\r\nContent-Length: %b", 400),
    ("a blank behind the version", "POST /free HTTP/1.1 \r\nHost: g\r\nContent-Length: %b", 400),
    ("an empty line first", "\r\nPOST /free HTTP/1.1\r\nHost: g\r\nContent-Length: %b", 400),
    ("TLS", "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\n", 400),
    ("a body where none belongs", "GET /health HTTP/1.1\r\nHost: g\r\nContent-Length: %b", 400),
    ("an unknown expectation", "POST /free HTTP/1.1\r\nHost: g\r\nExpect: magic\r\nContent-Length: %b", 417),
]


@case("G-20", "requests that two readers would read differently: refused, closed, nothing behind them looked at")
def _(world, gateway):
    where, tenant = world.fence()
    for i, (title, head, status) in enumerate(SMUGGLED):
        body = f'{{"tenant":"{tenant}","order_id":"{order(tenant)}","amount":1,"idempotency_key":"s{i}"}}'
        behind = (f"POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: {len(body) + 1}\r\n\r\n"
                  + body.replace(f'"s{i}"', f'"x{i}"') + " ")
        with gateway.connect(where) as c:
            c.send((head.replace("%b", str(len(body))) + "\r\n\r\n" + body + behind + behind).encode("latin-1"))
            reply = c.read()
            assert reply.status == status, f"{title}: expected {status}, got {reply!r}"
            assert reply.headers.get("connection") == "close", title
            assert c.at_end(), f"{title}: more came"
    assert world.refunded(order(tenant)) == 0
    # The control: the same, spelled right, and two behind one another.
    with gateway.connect(where) as c:
        c.send((f"POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: {len(body)}\r\n\r\n" + body + behind).encode())
        expect(c.read(), 200, "ok")
        expect(c.read(), 200, "ok")
    assert world.refunded(order(tenant)) == 2


PATHS = ["/public/../free", "/public/%2e%2e/free", "/public/%252e%252e/free", "//free", "/public/;x/../free",
         "/public\\..\\free", "/free/", "/%66ree", "/free%00", "/free%20", "/./free", "/free/.", "/free/..", "/free;x",
         "/free#x", "/free?", "/free?x=1", "free", "*", "https://gateway/free",
         "/fr\u00e9e", "/free%2f", "/tools/free/", "/tools//free", "/tools/%66ree", "/tools/../free", "/FREE", "/Free",
         "/tools/FREE", "/tools/", "/approvals/", "/approvals/a/b"]


@case("G-22", "one spelling of a path, and no other")
def _(world, gateway):
    where, tenant = world.fence()
    for path in PATHS:
        with gateway.connect(where) as c:
            reply = c.post(path, refund(tenant, 1, "k"))
            good = 404 if path in ("/FREE", "/Free", "/tools/FREE", "/free/", "/tools/", "/tools/free/", "/approvals/",
                                   "/approvals/a/b") else 400
            assert reply.status == good, f"{path}: expected {good}, got {reply!r}"
    assert world.refunded(order(tenant)) == 0
    for i, path in enumerate(("/free", "/tools/free")):
        expect(gateway.post(where, path, refund(tenant, 1, f"k{i}")), 200, "ok")


@case("H-1", "byte by byte, in pieces, and all at once: the same answers")
def _(world, gateway):
    where, tenant = world.fence()
    body = f'{{"tenant":"{tenant}","order_id":"{order(tenant)}","amount":1,"idempotency_key":"KEY"}}'
    text = f"POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    for i, size in enumerate((1, 2, 7, 64, 10000)):
        data = (text.replace("KEY", f"a{i:02}") + text.replace("KEY", f"b{i:02}")).encode()
        with gateway.connect(where) as c:
            for at in range(0, len(data), size):
                c.send(data[at:at + size])
            expect(c.read(), 200, "ok")
            expect(c.read(), 200, "ok")
    assert world.refunded(order(tenant)) == 10


@case("H-2", "keep-alive, HTTP/1.0, Connection: close, Expect: 100-continue, half-closed clients")
def _(world, gateway):
    where, _ = world.fence()
    with gateway.connect(where) as c:
        for _ in range(50):
            expect(c.get("/health"), 200)
        expect(c.get("/health", ["Connection: x, ClOsE"]), 200)
        assert c.at_end()
    for head, stays in (("GET /health HTTP/1.0\r\n\r\n", False),
                        ("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True)):
        with gateway.connect(where) as c:
            c.send(head.encode())
            expect(c.read(), 200)
            if stays:
                expect(c.get("/health"), 200)
            else:
                assert c.at_end()
    with gateway.connect(where) as c:
        c.send(b"POST /free HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert c.sock.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        c.send(b"{}")
        expect(c.read(), 400, "malformed_request")
    with gateway.connect(where) as c:
        c.send(b"GET /health HTTP/1.1\r\nHost: g\r\n\r\n")
        c.sock.shutdown(socket.SHUT_WR)
        expect(c.read(), 200)
        assert c.at_end()


@case("H-3", "routes, methods: 404, 405; health needs no fence; refusals are machine-readable and name no inside")
def _(world, gateway):
    where, tenant = world.fence()
    expect(gateway.get(None, "/health"), 200, "ok")
    expect(gateway.get(where, "/refund"), 405, "method_not_allowed")
    expect(gateway.request_method(where, "DELETE", "/tools", None), 405)
    expect(gateway.get(where, "/nothing"), 404, "not_found")
    expect(gateway.post(where, "/tools/nothing", {}), 404, "not_found")
    expect(gateway.get(where, "/admin"), 404)
    for reply in (gateway.post(where, "/refund", refund(tenant, 0, "k")), gateway.post(None, "/refund", {}),
                  gateway.post(where, "/refund", b"{"), gateway.get(where, "/nothing")):
        assert set(reply.json) == {"error", "reason", "rule", "retry", "ask"}, reply
        for word in (b"sqlite", b"postgres", b"SELECT", b"orders", b"/tmp", b"127.0.0.1", b"Error"):
            assert word not in reply.body, reply
        assert reply.headers["content-type"] == "application/json" and "server" not in reply.headers


@case("H-4", "the answer is read slowly, or not at all")
def _(world, gateway):
    where, tenant = world.fence()
    with gateway.connect(where) as c:
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = b"GET /tools HTTP/1.1\r\nHost: g\r\n\r\n"
        try:
            c.sock.settimeout(1)
            for _ in range(20000):
                c.sock.sendall(request)
        except (TimeoutError, socket.timeout):
            pass
        c.sock.settimeout(10)
        before = gateway.rss_bytes()
        for _ in range(100):
            expect(c.read(), 200)
        assert gateway.rss_bytes() - before < 8 * 1024 * 1024
    # A client that goes away at once: the call is brought to its end.
    c = gateway.connect(where)
    body = f'{{"tenant":"{tenant}","order_id":"{order(tenant)}","amount":9,"idempotency_key":"gone"}}'
    c.send(f"POST /free HTTP/1.1\r\nHost: g\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    c.close()
    for _ in range(100):
        if world.refunded(order(tenant)) == 9:
            break
        time.sleep(0.05)
    expect(gateway.post(where, "/free", refund(tenant, 9, "gone")), 200, "duplicate")


assert ORDERS >= 3 and signal.SIGHUP
