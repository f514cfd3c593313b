# SPDX-License-Identifier: Apache-2.0
"""
What an attacker tried at /up: rows U-NN of docs/threat-model.md, "Third attacker pass". Each has its control: what is refused or hidden
arrives, or is seen, where the thing that forbids it is not in the way.
"""

import http.client
import json
import socket
import threading
import time
import urllib.parse

from helpers import SECRETS, Answer, Fence, events_of, expect, fence, gateway_with, headers_of, signing_key, upstream_yaml, write_secret
from servers import Pieces, Server, Tokens, Upstream

ATTEMPTS = []


def attempt(number, title):
    def add(function):
        ATTEMPTS.append((f"{number} {title}", function))
        return function
    return add


class Bytes:
    """An upstream that says what the test wants, byte by byte: answers by path, each a whole answer; asked: the requests."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(sock,), daemon=True).start()

    def one(self, sock):
        with sock:
            sock.settimeout(30)
            data = b""
            try:
                while b"\r\n\r\n" not in data:
                    more = sock.recv(65536)
                    if not more:
                        return
                    data += more
                self.asked.append(data)
                answer = self.answers[data.split(b" ")[1].split(b"?")[0].decode()]
                if callable(answer):
                    answer(sock)
                else:
                    sock.sendall(answer)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
            except OSError:
                pass

    def close(self):
        self.listener.close()


def raw(gateway, where, *lines, body=b""):
    """One request as it is written here; its answer."""
    with gateway.connect(where) as c:
        c.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        return c.read()


# --- out of a scope -----------------------------------------------------------------------------------------------

# What some server somewhere reads as a way up, or as a part that is not there: parameters of a part (RFC 3986, 3.3), which servlets take
# off before dots are resolved; encodings of a dot or a slash that are none in UTF-8; more dots.
WAYS_UP = ("..;", "..;a=b", ".;", ";", ";a=b", "...", "....", "..%20", "%20..", "..%20;x", "%c0%ae%c0%ae", "%c0%af", "%c1%9c", "%e0%80%af", "%f0%80%80%af",
           "%ff", "%80", "%ed%a0%80", "%c3", "%f5%80%80%80", "..%c0%af..", "..%01", "%7f", "%2e.", ".%2E", "%2f", "%2F..", "%5c", "%255c", "%25", "%u002e")
TWINS = ("a;b=c", "a;", "..a", "a..", "...a", "a...b", ".well-known", "%20a", "%C3%A4", "%e2%82%ac", "%F0%9F%92%A9", "%23", "%7B%7D", "x%20;y")


@attempt("U-01", "ways up and empty parts in spellings that servers read differently: parameters, blanks, more dots, broken UTF-8")
def _(world):
    up = Upstream()
    scopes = [("up:all", ["GET"], ["/v1/**", "/repos/*/issues"])]
    with gateway_with(world, upstream_yaml("a", up.url, scopes=scopes)) as gateway:
        caller = fence(world, gateway)
        for part in WAYS_UP:
            for path in (f"/v1/{part}/admin", f"/v1/{part}", f"/repos/{part}/issues"):
                reply = raw(gateway, caller.where, f"GET /up/a{path} HTTP/1.1", "Host: g")
                assert reply.status == 400, (path, reply, up.seen[-1:])
        assert not up.seen
        for part in TWINS:
            expect(caller.get(f"/up/a/v1/{part}/x"), 200)
            assert up.seen[-1][1] == f"/v1/{part}/x"
            expect(caller.get(f"/up/a/repos/{part}/issues"), 200)
    up.close()


@attempt("U-02", "other methods: by their case, by headers that override, TRACE, by a method that is none")
def _(world):
    up = Upstream()
    scopes = [("up:all", ["GET", "POST"], ["/**"])]
    with gateway_with(world, upstream_yaml("a", up.url, scopes=scopes)) as gateway:
        caller = fence(world, gateway)
        for method, status in (("TRACE", 403), ("OPTIONS", 403), ("PROPFIND", 403), ("DELETE", 403), ("GETX", 403), ("get", 400), ("Get", 400),
                               ("GET\t", 400), ("", 400), ("G" * 17, 400), ("PRI", 403)):
            assert raw(gateway, caller.where, f"{method} /up/a/x HTTP/1.1", "Host: g").status == status, method
        assert not up.seen
        for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-Method", "X-HTTP_METHOD"):
            expect(caller.ask("POST", "/up/a/x", b"{}", {name: "DELETE"}), 200)
            assert name.lower() not in headers_of(up.seen[-1]) and up.seen[-1][0] == "POST"
    up.close()


@attempt("U-03", "to another host: userinfo, absolute form, Host, targets that a URL parser would read on")
def _(world):
    up, other = Upstream(), Upstream()
    with gateway_with(world, upstream_yaml("a", up.url)) as gateway:
        caller = fence(world, gateway)
        for target, status in ((f"/up/a@127.0.0.1:{other.port}/x", 404), (f"/up/a:{other.port}/x", 404), (f"/up/a/@127.0.0.1:{other.port}/", 200),
                               (f"/up/a//127.0.0.1:{other.port}/", 400), (f"/up/a\\@127.0.0.1:{other.port}/", 400), ("/up/a/#x", 400),
                               (f"/up/a?@127.0.0.1:{other.port}/", 200), ("/up/a/x HTTP/1.1\r\nHost: evil\r\nX:", 400), ("/up/a/%0d%0aHost:%20evil", 400),
                               ("/up/a/{a,b}", 400), ("/up/a/[1-2]", 400), ("/up/%61/x", 400), ("/UP/a/x", 404), ("//up/a/x", 400), ("/up//a/x", 400)):
            reply = raw(gateway, caller.where, f"GET {target} HTTP/1.1", "Host: g")
            assert reply.status == status, (target, reply)
        expect(caller.get("/up/a/x", {"Host": f"127.0.0.1:{other.port}"}), 200)
        assert headers_of(up.seen[-1])["host"] == f"127.0.0.1:{up.port}"
        assert not other.seen
    up.close()
    other.close()


@attempt("U-04", "header injection: line ends and controls in values, folded lines, names with blanks, a list of Connection")
def _(world):
    up = Upstream()
    path = write_secret(world, "token", "a-secret-of-u04")
    with gateway_with(world, upstream_yaml("a", up.url, {"header": "X-Api-Key", "file": path})) as gateway:
        caller = fence(world, gateway)
        for line in ("Accept: a\rX-Api-Key: mine", "Accept: a\nX-Api-Key: mine", "Accept: a\x00b", "Accept: a\x0bb", " X-Api-Key: mine", "\tX: y",
                     "Accept : a", "Acc ept: a", "Accept\t: a", ": a", "Accept", "X-Api-Key;: mine", "X-Api-Key\x00: mine", "X-A\xe4: b"):
            reply = raw(gateway, caller.where, "GET /up/a/echo HTTP/1.1", "Host: g", "User-Agent: t", line)
            assert reply.status == 400, (line, reply)
        assert not up.seen
        for lines in (["Connection: x-api-key, host, content-length"], ["Accept:"], ["X-Api-Key: mine", "x_api_key: mine"],
                      ["User-Agent: a\xe4b"], ["Accept: x;", "Accept: y"], ["Content-Type:"]):
            reply = raw(gateway, caller.where, "POST /up/a/echo HTTP/1.1", "Host: g", "Content-Length: 2", *lines, body=b"ab")
            assert reply.status == 200, (lines, reply)
            got = headers_of(up.seen[-1])
            assert got["x-api-key"] == "a-secret-of-u04" and "x_api_key" not in got and up.seen[-1][3] == b"ab", (lines, got)
    up.close()


@attempt("U-05", "two messages out of one: two lengths, chunked, both, a length with a sign, what follows the body")
def _(world):
    up = Upstream()
    with gateway_with(world, upstream_yaml("a", up.url)) as gateway:
        caller = fence(world, gateway)
        for lines, status in ((["Content-Length: 2", "Content-Length: 2"], 400), (["Content-Length: 2", "Transfer-Encoding: chunked"], 400),
                              (["Transfer-Encoding: chunked"], 411), (["Transfer-Encoding: identity", "Content-Length: 2"], 400), (["Content-Length: +2"], 400),
                              (["Content-Length: 2, 2"], 400), (["Content-Length: 0x2"], 400), (["Content-Length:  2"], 400), (["Content-Length: 02"], 400),
                              (["Content-Length: 99999999999999999999"], 400), (["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], 400)):
            reply = raw(gateway, caller.where, "POST /up/a/echo HTTP/1.1", "Host: g", *lines, body=b"ab")
            assert reply.status == status, (lines, reply)
        assert not up.seen
        with gateway.connect(caller.where) as c:
            c.send(b"POST /up/a/echo HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\nTransfer_Encoding: chunked\r\n\r\nab"
                   b"DELETE /up/nothing/x HTTP/1.1\r\nHost: g\r\n\r\n")
            assert [c.read().status for _ in range(2)] == [200, 404]
        assert [(r[0], r[3]) for r in up.seen] == [("POST", b"ab")], up.seen
        assert "transfer_encoding" not in headers_of(up.seen[0])
    up.close()


# --- the secret back ----------------------------------------------------------------------------------------------

ODD = "s3cr3t/T0ken+with=&<odd>'\"ch%rs"


def spellings(secret):
    """As servers write what they were sent into pages, logs and URLs, once and twice over."""
    import base64  # pylint: disable=import-outside-toplevel
    import html  # pylint: disable=import-outside-toplevel
    quote = lambda text: urllib.parse.quote(text, safe="")
    text = json.dumps(secret)[1:-1]
    encoded = base64.b64encode(b"robot:" + secret.encode()).decode()[8:(6 + len(secret)) * 8 // 6]
    return {"percent twice": quote(quote(secret)), "percent three times": quote(quote(quote(secret))), "HTML": html.escape(secret),
            "HTML, all in numbers": "".join(f"&#{ord(c)};" for c in secret), "HTML, hexadecimal": "".join(f"&#x{ord(c):X};" for c in secret),
            "HTML, with zeros": "".join(f"&#x{ord(c):04x};" for c in secret), "HTML, decimal with zeros": "".join(f"&#{ord(c):03d};" for c in secret),
            "HTML of some": secret.replace("/", "&#x2F;").replace("=", "&#x3D;").replace("+", "&#43;"),
            "HTML, the other quotes": secret.replace("&", "&amp;").replace("'", "&apos;").replace("<", "&LT;"), "HTML twice": html.escape(html.escape(secret)),
            "JSON in JSON": json.dumps(text)[1:-1], "PHP's JSON in JSON": json.dumps(text.replace("/", "\\/"))[1:-1],
            "C": "".join(f"\\x{ord(c):02x}" for c in secret), "octal": "".join(f"\\{ord(c):03o}" for c in secret), "JSON of HTML": html.escape(secret).replace("&", "\\u0026"),
            "base64 with percent signs": quote(encoded), "base64 as PHP's JSON": encoded.replace("/", "\\/"), "base64 in HTML": encoded.replace("+", "&#43;").replace("/", "&#x2F;"),
            "hexadecimal of both cases": secret.encode().hex().title(), "upper percent of all": "".join(f"%{ord(c):02X}" for c in secret)}


@attempt("U-06", "the secret in an answer, escaped as pages, logs and nested URLs do: percent signs twice, HTML, JSON in JSON, C, base64 escaped")
def _(world):
    up = Upstream(ODD)
    told = spellings(ODD)
    up.do_say = lambda handler, _, query: handler.reply(int(query.get("s", 200)), told[query["how"]].encode(), [("X-Told", told[query["how"]])])
    path = write_secret(world, "odd", ODD)
    with gateway_with(world, upstream_yaml("a", up.url, {"header": "X-Key", "file": path}), upstream_yaml("open", up.url)) as gateway:
        caller = fence(world, gateway)
        for how, text in told.items():
            target = "/say?" + urllib.parse.urlencode({"how": how})
            answer = expect(caller.get("/up/a" + target), 200)
            assert answer.body.strip(b"*") == b"" and len(answer.body) == len(text), (how, answer.body)
            assert answer.headers["X-Told"].strip("*") == "", (how, answer.headers["X-Told"])
            assert caller.get("/up/open" + target).body == text.encode(), how
        # What only looks so is left.
        for text in ("&#115;&#51;", "&amp;lt;", "%2525", "\\\\\\\\", "&", "&#x73;3cr3t/T0ke", "\\x73\\x33", "s3cr3t/T0ken+with=&amp;<odd>'\"ch%rS", "&#x;", "&#00000000000000000115;"):
            told["near"] = text
            assert caller.get("/up/a/say?how=near").body == text.encode(), text
    up.close()


@attempt("U-07", "the secret in pieces: Range, one byte or some at a time, If-Range, several ranges")
def _(world):
    secret = "a-secret-in-pieces"
    up = Upstream(secret)

    def ranged(handler, _, __):
        text = handler.headers.get("X-Key", secret).encode()
        if handler.headers.get("Range"):
            first, last = (int(n) for n in handler.headers["Range"].removeprefix("bytes=").split("-"))
            handler.reply(206, text[first:last + 1], [("Content-Range", f"bytes {first}-{last}/{len(text)}")])
        else:
            handler.reply(200, text)
    up.do_ranged = ranged
    path = write_secret(world, "pieces", secret)
    with gateway_with(world, upstream_yaml("a", up.url, {"header": "X-Key", "file": path}), upstream_yaml("open", up.url),
                      upstream_yaml("own", up.url, {"header": "X-Key", "file": path}, extra="headers: [Range]")) as gateway:
        caller = fence(world, gateway)
        got = b"".join(caller.get("/up/a/ranged", {"Range": f"bytes={n}-{n + 2}"}).body for n in range(0, len(secret), 3))
        assert secret.encode() not in got and b"ret" not in got, got
        caller.get("/up/a/ranged", {"If-Range": '"x"', "Range": "bytes=0-2"})
        assert "range" not in headers_of(up.seen[-1]) and "if-range" not in headers_of(up.seen[-1])
        # Without a credential there is nothing to put together, and where the operator wants it, it goes.
        for name in ("open", "own"):
            assert expect(caller.get(f"/up/{name}/ranged", {"Range": "bytes=0-2"}), 206).body == b"a-s"
    up.close()


@attempt("U-08", "the secret in what is not the body: reason phrase, names of headers, trailers, 103 before the answer, folded lines")
def _(world):
    secret = "a-secret-all-over"
    head = b"HTTP/1.1 200 " + secret.encode() + b"\r\n"
    up = Bytes({"/reason": head + b"Content-Length: 2\r\n\r\nok", "/name": head + b"X-" + secret.encode() + b": 1\r\nContent-Length: 2\r\n\r\nok",
                "/trailer": head + b"Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: " + secret.encode() + b"\r\n\r\n",
                "/hints": b"HTTP/1.1 103 Early Hints\r\nX-Told: " + secret.encode() + b"\r\n\r\n" + head + b"Content-Length: 2\r\n\r\nok",
                "/folded": head + b"X-Told: a\r\n " + secret.encode() + b"\r\nContent-Length: 2\r\n\r\nok",
                "/extension": head + b"Transfer-Encoding: chunked\r\n\r\n2;" + secret.encode() + b"\r\nok\r\n0\r\n\r\n",
                "/cookie": head + b"Set-Cookie: t=" + secret.encode() + b"\r\nContent-Length: 2\r\n\r\nok"})
    path = write_secret(world, "over", secret)
    with gateway_with(world, upstream_yaml("a", up.url, {"header": "X-Key", "file": path})) as gateway:
        caller = fence(world, gateway)
        for target in up.answers:
            with gateway.connect(caller.where) as c:
                c.send(f"GET /up/a{target} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n".encode())
                data = b""
                while more := c.sock.recv(65536):
                    data += more
            assert data.startswith(b"HTTP/1.1 200 OK\r\n") and b"ok" in data and secret.encode() not in data, (target, data)
            assert secret.encode() in up.asked[-1], "control"
    up.close()


@attempt("U-09", "an answer that is compressed, and does not say so where it is looked for: several encodings, a second head")
def _(world):
    body = b"Content-Length: 4\r\n\r\nzzzz"
    up = Bytes({"/gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n" + body, "/two": b"HTTP/1.1 200 OK\r\nContent-Encoding: identity, gzip\r\n" + body,
                "/lines": b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Encoding: br\r\n" + body,
                "/case": b"HTTP/1.1 200 OK\r\ncontent-ENCODING:\tzstd\r\n" + body,
                "/again": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nHTTP/1.1: x\r\n" + body,
                "/transfer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n4\r\nzzzz\r\n0\r\n\r\n",
                "/plain": b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\n" + body})
    with gateway_with(world, upstream_yaml("a", up.url)) as gateway:
        caller = fence(world, gateway)
        for target in up.answers:
            answer = caller.get("/up/a" + target)
            if target == "/plain":
                assert answer.status == 200 and answer.body == b"zzzz", answer
            else:
                assert answer.status == 502 or not answer.whole, (target, answer)
                assert b"zzzz" not in answer.body, (target, answer)
    up.close()


@attempt("U-10", "redirects: the credential goes to nobody else, whatever the status and the form")
def _(world):
    other = Upstream()
    up = Upstream()
    up.do_go = lambda handler, _, query: handler.reply(int(query["s"]), b"moved", [("Location", query["to"])])
    path = write_secret(world, "go", "a-secret-of-redirects")
    with gateway_with(world, upstream_yaml("a", up.url, {"header": "Authorization", "prefix": "Bearer ", "file": path})) as gateway:
        caller = fence(world, gateway)
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60, source_address=(caller.where, 0))
        for status in (300, 301, 302, 303, 305, 307, 308):
            for to in (f"http://127.0.0.1:{other.port}/x", f"//127.0.0.1:{other.port}/x", f"///127.0.0.1:{other.port}/", f"\\\\127.0.0.1:{other.port}\\",
                       f"http:/127.0.0.1:{other.port}/", f"http://127.0.0.1:{up.port}@127.0.0.1:{other.port}/", f"{up.url}.evil.test/", "/%09/evil.test"):
                for method in ("GET", "POST"):
                    connection.request(method, f"/up/a/go?s={status}&" + urllib.parse.urlencode({"to": to}), b"x" if method == "POST" else None)
                    answer = expect(Answer(connection.getresponse()), status)
                    where = answer.headers.get("Location")
                    assert where is None or where.startswith("/up/a/") and not where.startswith("/up/a//"), (to, where)
        connection.close()
        assert not other.seen
    up.close()
    other.close()


# --- answers that are not what they say ---------------------------------------------------------------------------

FORGED = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}"
LIES = {"/both": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\nhello%s\r\n0\r\n\r\n" % (5 + len(FORGED), FORGED),
        "/both-turned": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n%x\r\nhello%s\r\n0\r\n\r\n" % (5 + len(FORGED), FORGED),
        "/behind": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" + FORGED,
        "/sign": b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello" + FORGED,
        "/two": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Length: 5\r\n\r\nhello%s" % (5 + len(FORGED), FORGED),
        "/list": b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello" + FORGED,
        "/blank": b"HTTP/1.1 200 OK\r\nContent-Length: 5 \r\n\r\nhello" + FORGED,
        "/huge": b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551621\r\n\r\nhello" + FORGED,
        "/negative": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello" + FORGED,
        "/none": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n" + FORGED,
        "/unchanged": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n" + FORGED,
        "/switching": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + FORGED,
        "/continue": b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" + FORGED,
        "/injected": b"HTTP/1.1 200 OK\r\nX: a\rContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello" + FORGED,
        "/later": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" + b"HTTP/1.1 200 OK\r\n\r\n",
        "/zero": b"HTTP/0.9 200\r\n\r\n" + FORGED, "/bare": FORGED[17:], "/status": b"HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello" + FORGED,
        "/two-version": b"HTTP/2 200\r\nContent-Length: 5\r\n\r\nhello" + FORGED}


@attempt("U-11", "an upstream that answers the agent's next request, to a tool, in the gateway's name: lengths that lie, both framings, 101, 204")
def _(world):
    up = Bytes(LIES)
    with gateway_with(world, upstream_yaml("a", up.url)) as gateway:
        where = world.fence(scopes=("up:all", "free:create"))[0]
        for target in LIES:
            with gateway.connect(where) as c:
                c.send(f"GET /up/a{target} HTTP/1.1\r\nHost: g\r\n\r\n".encode() + b"GET /approvals/x HTTP/1.1\r\nHost: g\r\n\r\n")
                data = b""
                c.sock.settimeout(3)
                try:
                    while more := c.sock.recv(65536):
                        data += more
                except OSError:
                    pass
            # Read as a client does: by the framing of the first answer.
            head, _, rest = data.partition(b"\r\n\r\n")
            fields = {line.split(b":")[0].lower(): line.split(b":", 1)[1].strip() for line in head.split(b"\r\n")[1:]}
            bodiless = head.split(b" ")[1] in (b"204", b"304")
            if b"transfer-encoding" in fields:
                while rest and not rest.startswith(b"0\r\n\r\n"):
                    size, _, rest = rest.partition(b"\r\n")
                    rest = rest[int(size, 16) + 2:]
                rest = rest[5:]
            elif b"content-length" in fields:
                assert head.lower().count(b"content-length") == 1, (target, head)
                rest = rest[0 if bodiless else int(fields[b"content-length"]):]
            elif fields.get(b"connection") == b"close" and not bodiless:
                rest = b""
            assert not rest or rest.startswith(b"HTTP/1.1 404 Not Found"), (target, data)
            assert b"connection" in fields or rest, (target, "no second answer", data)
    up.close()


@attempt("U-12", "HEAD: a refusal has no body, which would be the next answer's")
def _(world):
    up = Upstream()
    with gateway_with(world, upstream_yaml("a", up.url, scopes=[("up:all", ["GET", "HEAD"], ["/open/**"])])) as gateway:
        caller = fence(world, gateway)
        for path, status in (("/up/a/shut", 403), ("/up/none/x", 404), ("/tools", 405), ("/nothing", 404), ("/mcp", 405), ("/up/a/open/x", 200)):
            with gateway.connect(caller.where) as c:
                c.send(f"HEAD {path} HTTP/1.1\r\nHost: g\r\n\r\nGET /health HTTP/1.1\r\nHost: g\r\n\r\n".encode())
                data = b""
                while data.count(b"\r\n\r\n") < 2:
                    more = c.sock.recv(65536)
                    assert more, (path, data)
                    data += more
            assert data.startswith(f"HTTP/1.1 {status} ".encode()), data
            assert data.split(b"\r\n\r\n")[1].startswith(b"HTTP/1.1 200 OK"), (path, data)
    up.close()


# --- exhaustion ---------------------------------------------------------------------------------------------------


@attempt("U-13", "401s on purpose, so that the gateway has its token anew for each request, and all others wait and are locked out")
def _(world):
    up, tokens = Upstream(), Tokens("agent", "the-secret-of-the-client")
    path = write_secret(world, "client", "the-secret-of-the-client")
    SECRETS.extend(f"token-number-{n}" for n in range(1, 60))
    way = {"oauth": {"token_url": tokens.url + "/token", "client": "agent"}, "file": path}
    with gateway_with(world, upstream_yaml("o", up.url, way)) as gateway:
        greedy, other = fence(world, gateway), fence(world, gateway)
        start = time.monotonic()
        for _ in range(50):
            expect(greedy.get("/up/o/status?n=401"), 401)
        allowed = 2 + (time.monotonic() - start) * 1.1
        assert tokens.given <= allowed, (tokens.given, allowed)
        given = tokens.given
        time.sleep(1.2)
        expect(greedy.get("/up/o/status?n=401"), 401)
        expect(other.get("/up/o/echo"), 200)
        assert tokens.given > given, "a token that is refused is had anew"
    up.close()
    tokens.close()


@attempt("U-14", "an upstream that drips, one that never ends its head, one that never ends at all; others go on")
def _(world):
    def drip(sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(100):
            time.sleep(0.2)
            sock.sendall(b"x")

    def headers(sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\n")
        for i in range(100000):
            sock.sendall(b"X-%d: %s\r\n" % (i, b"h" * 1000))

    def forever(sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            sock.sendall(b"x" * 65536)

    def interim(sock):
        while True:
            sock.sendall(b"HTTP/1.1 100 Continue\r\nX: " + b"y" * 1000 + b"\r\n\r\n")

    def line(sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            sock.sendall(b"h" * 65536)
    up = Bytes({"/drip": drip, "/headers": headers, "/forever": forever, "/line": line, "/interim": interim, "/ok": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"})
    with gateway_with(world, upstream_yaml("a", up.url, extra="timeout: 1s\nanswer_bytes: 1M"), config="streams: 4\n") as gateway:
        greedy, other = fence(world, gateway), fence(world, gateway)
        before = gateway.rss_bytes()
        with gateway.connect(greedy.where) as held:
            held.send(b"GET /up/a/drip HTTP/1.1\r\nHost: g\r\n\r\n")
            expect(other.get("/up/a/ok"), 200)
        for path, status in (("/headers", 502), ("/line", 502), ("/forever", 200), ("/interim", 502)):
            start = time.monotonic()
            answer = caller_answer(greedy, path)
            assert answer.status == status and (status != 200 or not answer.whole), (path, answer)
            assert time.monotonic() - start < 30, path
        assert gateway.rss_bytes() - before < 64 << 20, (before, gateway.rss_bytes())
        expect(other.get("/up/a/ok"), 200)
    up.close()


def caller_answer(caller, path):
    return caller.get("/up/a" + path)


# --- more than it may, and longer -----------------------------------------------------------------------------------


@attempt("U-15", "limits.upload by way of /up: bodies, also in pieces, paths and queries are bytes up like others")
def _(world):
    up = Upstream()
    with gateway_with(world, upstream_yaml("a", up.url)) as gateway:
        with world.lock:
            for place, upload in (("127.0.8.1", 100000), ("127.0.8.2", 0)):
                world.fences[place] = f"{place} {800 + int(place[-1])} t-1 alice task-{place[-1]} up:all - - {upload}"
            world._write_ids()  # pylint: disable=protected-access
        for place in ("127.0.8.1", "127.0.8.2"):
            gateway.wait_known(place)
        limited, free = Fence(gateway, "127.0.8.1"), Fence(gateway, "127.0.8.2")
        expect(limited.ask("POST", "/up/a/echo", b"x" * 60000), 200)
        count = up.count()
        expect(limited.ask("POST", "/up/a/echo", b"x" * 60000), 403, "upload_exhausted")
        expect(limited.get("/up/a/echo"), 403, "upload_exhausted")
        assert up.count() == count
        for _ in range(3):
            expect(free.ask("POST", "/up/a/echo", b"x" * 60000), 200)
        # Paths and queries are bytes, too.
        thin = {place: Fence(gateway, place) for place in ("127.0.8.3", "127.0.8.4")}
        with world.lock:
            for place, upload in (("127.0.8.3", 20000), ("127.0.8.4", 0)):
                world.fences[place] = f"{place} {800 + int(place[-1])} t-1 alice task-{place[-1]} up:all - - {upload}"
            world._write_ids()  # pylint: disable=protected-access
        for place in thin:
            gateway.wait_known(place)
        answers = {place: [caller.get("/up/a/echo/" + "p" * 1000 + "?q=" + "q" * 1500).status for _ in range(10)] for place, caller in thin.items()}
        assert answers["127.0.8.4"] == [200] * 10 and answers["127.0.8.3"][:7] == [200] * 7 and answers["127.0.8.3"][8:] == [403] * 2, answers
        assert events_of(gateway, "a")[-1]["rule"] != "gateway.upload" and "gateway.upload" in {e["rule"] for e in events_of(gateway, "a")}
    up.close()
    # A body that is passed on in pieces is cut where it is beyond.
    pieces = Pieces()
    with gateway_with(world, upstream_yaml("p", pieces.url)) as gateway:
        for place in ("127.0.8.5", "127.0.8.6"):
            with world.lock:
                world.fences[place] = f"{place} {800 + int(place[-1])} t-1 alice task-{place[-1]} up:all - - {400000 if place[-1] == '5' else 0}"
                world._write_ids()  # pylint: disable=protected-access
            gateway.wait_known(place)
            with gateway.connect(place) as c:
                c.send(b"POST /up/p/x HTTP/1.1\r\nHost: g\r\nContent-Length: 900000\r\n\r\n")
                try:
                    for _ in range(9):
                        c.send(b"x" * 100000)
                except OSError:
                    pass
                reply = c.read()
            if place[-1] == "6":
                assert reply.status == 200 and pieces.bodies[-1][0] == 900000, reply
            else:
                assert reply.word in ("upload_exhausted", None) and 0 < pieces.got <= 400000 and not pieces.bodies, (reply, pieces.got)
                expect(Fence(gateway, place).get("/up/p/x"), 403, "upload_exhausted")
    pieces.close()


@attempt("U-16", "a stream that goes on when the configuration has taken its scope, or its upstream, away; one that it leaves stays")
def _(world):
    up = Upstream()
    scope = lambda name, paths=("/**",): upstream_yaml(name, up.url, scopes=[("up:all", ["GET"], list(paths))])
    with gateway_with(world, scope("a"), scope("b"), scope("c")) as gateway:
        caller = fence(world, gateway)
        streams = {}
        for name in ("a", "b", "c"):
            streams[name] = gateway.connect(caller.where)
            streams[name].send(f"GET /up/{name}/endless HTTP/1.1\r\nHost: g\r\n\r\n".encode())
            assert streams[name].sock.recv(100).startswith(b"HTTP/1.1 200")
        gateway.configure(config="upstreams:\n" + scope("b", ("/other/**",)) + scope("c"))
        gateway.reload()
        for name in ("a", "b"):
            assert ends(streams[name].sock, 10), f"the stream of {name} goes on"
        assert not ends(streams["c"].sock, 1.5), "one that is still allowed was cut"
        for c in streams.values():
            c.close()
    up.go.set()
    up.close()


def ends(sock, seconds):
    sock.settimeout(0.5)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if not sock.recv(65536):
                return True
        except socket.timeout:
            pass
        except OSError:
            return True
    return False


@attempt("U-22", "what was revoked goes on: streams of a fence, a task, a user, a grant; those of others stay")
def _(world):
    up = Upstream()
    scopes = [("danger", ["GET"], ["/**"], "grant")]
    with gateway_with(world, upstream_yaml("a", up.url), upstream_yaml("g", up.url, scopes=scopes), config=signing_key(world)) as gateway:
        ways = {way: fence(world, gateway, "up:all", "danger", subject=f"user-of-{way}") for way in ("fence", "task", "subject", "id", "none")}
        line = {way: world.fences[caller.where].split() for way, caller in ways.items()}
        streams, grants = {}, {}
        for way, caller in ways.items():
            got = grants[way] = gateway.admin("grants", "issue", "--task", line[way][4], "--scope", "danger", "-m", "5")
            for name in ("a", "g"):
                stream = streams[way, name] = gateway.connect(caller.where)
                stream.send(f"GET /up/{name}/endless HTTP/1.1\r\nHost: g\r\nCordon-Grant: {got['token']}\r\n\r\n".encode())
                assert stream.sock.recv(100).startswith(b"HTTP/1.1 200")
        for way, words in (("fence", ["--fence", f"{int(line['fence'][1]):x}"]), ("task", ["--task", line["task"][4]]),
                           ("subject", ["--subject", line["subject"][3]]), ("id", [grants["id"]["grant"]])):
            assert gateway.admin("grants", "revoke", *words)["revoked"] == 1
            for name in ("a", "g"):
                stands = (way, name) == ("id", "a")  # this one stands on no grant
                assert ends(streams[way, name].sock, 1 if stands else 5) != stands, (way, name)
        # Where there is no grant at all it is the same; others' streams have stood all the while.
        again = gateway.connect(ways["fence"].where)
        again.send(b"GET /up/a/endless HTTP/1.1\r\nHost: g\r\n\r\n")
        assert again.sock.recv(100).startswith(b"HTTP/1.1 200")
        assert gateway.admin("grants", "revoke", "--fence", f"{int(line['fence'][1]):x}")["revoked"] == 0
        assert ends(again.sock, 5)
        for key in (("none", "a"), ("none", "g"), ("id", "a")):
            assert not ends(streams[key].sock, 1), key
        for c in streams.values():
            c.close()
    up.go.set()
    up.close()


# --- what an upstream is asked to do ------------------------------------------------------------------------------


@attempt("U-17", "another's upstream and credential: names in other cases, subjects that are ways, headers that say who one is")
def _(world):
    import os  # pylint: disable=import-outside-toplevel
    up = Upstream()
    for user in ("alice", "bob"):
        os.makedirs(os.path.join(world.directory, "each", user))
        write_secret(world, f"each/{user}/key", f"the-token-of-{user}")
    place = os.path.join(world.directory, "each/{subject}/key")
    with gateway_with(world, upstream_yaml("mine", up.url, {"header": "X-Key", "file": place}, subject="on_behalf_of",
                                           scopes=[("mine:all", ["GET"], ["/**"])]), upstream_yaml("other", up.url)) as gateway:
        caller = fence(world, gateway, "mine:all", subject="alice")
        for name, value in (("X-Subject", "bob"), ("X-Forwarded-User", "bob"), ("X-Tenant-Id", "t-2"), ("Authorization", "Bearer bob"), ("X-Key", "the-token-of-bob")):
            expect(caller.get("/up/mine/echo", {name: value}), 200)
            assert headers_of(up.seen[-1])["x-key"] == "the-token-of-alice", name
        for path in ("/up/mine/echo?subject=bob", "/up/mine/bob/echo"):
            expect(caller.get(path), 200)
            assert headers_of(up.seen[-1])["x-key"] == "the-token-of-alice", path
        count = up.count()
        expect(caller.get("/up/other/echo"), 403, "scope_denied")
        expect(fence(world, gateway, "MINE:ALL").get("/up/mine/echo"), 403)
        expect(fence(world, gateway, "mine:al").get("/up/mine/echo"), 403)
        for subject in ("ALICE", "bob/../alice", "alice%2f..", "..", "alice/", "{subject}", "-", "a" * 128):
            expect(fence(world, gateway, "mine:all", subject=subject).get("/up/mine/echo"), 503)
        assert up.count() == count
    up.close()


@attempt("U-18", "the parameter of the credential in the query, in spellings that frameworks fold into one")
def _(world):
    up = Upstream()
    path = write_secret(world, "query", "a-secret-in-a-query")
    with gateway_with(world, upstream_yaml("q", up.url, {"query": "api_key", "file": path})) as gateway:
        caller = fence(world, gateway)
        count = up.count()
        for query in ("api_key=x", "API_KEY=x", "api%5fkey=x", "a=1;api_key=x", "api_key[]=x", "api_key%5B0%5D=x", "%61pi_key", "&api_key", "a&&api_key=x",
                      "api.key=x", "api%2Ekey=x", "api%20key=x", "api+key=x", "api[key=x", "+api_key=x", "%20api_key=x", "api_key%00=x"):
            reply = raw(gateway, caller.where, f"GET /up/q/echo?{query} HTTP/1.1", "Host: g")
            assert reply.status == 400, (query, reply)
        assert up.count() == count
        for query in ("api_key2=x", "my_api_key=x", "q=api_key", "apikey=1", "api-key=1", "api_key_x=1", "api_key.x=1"):
            expect(caller.get("/up/q/echo?" + query), 200)
            assert up.seen[-1][1] == f"/echo?{query}&api_key=a-secret-in-a-query"
    up.close()


@attempt("U-19", "Vault and OAuth servers that are hostile: redirects, endless and nested answers, secrets of two lines, errors that tell")
def _(world):
    up, other = Upstream(), Upstream()
    told = {}

    def answer(handler, _):
        status, body, headers = told["now"]
        handler.reply(status, body, headers)
    vault = Server(answer)
    token = write_secret(world, "vt", "a-token-of-the-vault")
    place = {"url": vault.url, "path": "secret/data/x", "field": "key", "token_file": token}
    good = (200, b'{"data":{"data":{"key":"good-secret-of-vault"}}}', [])
    SECRETS.append("good-secret-of-vault")
    with gateway_with(world, upstream_yaml("v", up.url, {"header": "X-Key", "vault": place})) as gateway:
        caller = fence(world, gateway)
        for bad in ((307, b"", [("Location", other.url + "/v1/secret/data/x")]), (301, good[1], [("Location", other.url)]),
                    (200, b"[" * 60000, []), (200, b'{"a":' * 3000 + b"1" + b"}" * 3000, []), (200, b'{"data":{"data":{"key":"a-secret\\r\\nX-Other: y"}}}', []),
                    (200, b'{"data":{"data":{"key":"with-a-nul\\u0000x"}}}', []), (200, b'{"data":{"data":{"key":"short"}}}', []),
                    (200, b'{"data":{"data":{"key":"one-secret","key":"two-secret"}}}', []), (200, b"x" * 70000, []), (200, b'{"data":{"data":{"key":"' + b"x" * 9000 + b'"}}}', []),
                    (403, b'{"errors":["a-token-of-the-vault"]}', []), (500, b"a-token-of-the-vault", [])):
            told["now"] = bad
            answer_now = expect(caller.get("/up/v/echo"), 503, "unavailable")
            assert "a-token-of" not in answer_now.body.decode() and str(vault.port) not in answer_now.body.decode(), answer_now
            time.sleep(1.1)  # what could not be had is not asked for again for a second
        assert not up.seen and not other.seen
        told["now"] = good
        expect(caller.get("/up/v/echo"), 200)
        assert headers_of(up.seen[-1])["x-key"] == "good-secret-of-vault"
    for server in (up, other, vault):
        server.close()


@attempt("U-20", "a client that does not read: it holds its own share, and no thread beyond its time; many that ask and go")
def _(world):
    up = Upstream()
    with gateway_with(world, upstream_yaml("a", up.url), config="streams: 8\n", limits="idle: 1s") as gateway:
        greedy, other = fence(world, gateway), fence(world, gateway)
        held = []
        for _ in range(4):
            c = gateway.connect(greedy.where)
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.send(b"GET /up/a/size?n=16000000 HTTP/1.1\r\nHost: g\r\n\r\n")
            held.append(c)
        expect(other.get("/up/a/echo"), 200)
        end = time.monotonic() + 15
        while time.monotonic() < end and up.count() < 5:
            time.sleep(0.1)
        assert up.count() >= 5, "those that do not read hold their threads"
        for c in held:
            c.close()
        for _ in range(200):
            with gateway.connect(greedy.where) as c:
                c.send(b"GET /up/a/echo HTTP/1.1\r\nHost: g\r\n\r\n")
        expect(other.get("/up/a/echo"), 200)
        expect(greedy.get("/up/a/echo"), 200)
    up.close()


@attempt("U-21", "signatures of AWS: a query and a path that are signed otherwise than they are sent; headers of AWS's own from the fence")
def _(world):
    from servers import sigv4_is_right  # pylint: disable=import-outside-toplevel
    up = Upstream()
    secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    path = write_secret(world, "aws21", "AKIDEXAMPLE:" + secret)
    SECRETS.append(secret)
    with gateway_with(world, upstream_yaml("s", up.url, {"sigv4": {"region": "eu-test-1", "service": "execute-api"}, "file": path})) as gateway:
        caller = fence(world, gateway)
        for name in ("X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256", "Authorization", "Host", "X-Amz-Target"):
            expect(caller.get("/up/s/echo/a", {name: "20200101T000000Z"}), 200)
            assert sigv4_is_right(up.seen[-1], "AKIDEXAMPLE", secret, "eu-test-1", "execute-api"), name
            got = headers_of(up.seen[-1])
            assert got.get(name.lower()) != "20200101T000000Z", (name, got)
        assert secret not in str(up.seen)
    up.close()
