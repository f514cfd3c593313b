# SPDX-License-Identifier: Apache-2.0
"""
Grants over HTTP: what is not signed by the gateway's key, exactly as the gateway signs, or is out of its time, is 401, says why in
the record, and uses nothing up. The reader itself has its table in tests/unit/test_grant.c.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import subprocess
import time

from cases import expect
from harness import BUILD, PAID, order, refund

CASES = []
DAILY = 10000  # of the tool strict
TOO_MUCH = PAID + 1  # of an order: 422 says that the token is good, and uses nothing up
LEEWAY_S = 5


def case(number, title, **options):
    def add(function):
        CASES.append((number, title, function, options))
        return function
    return add


def encode(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data, separators=(",", ":")).encode()).rstrip(b"=").decode()


def decode(part):
    return json.loads(base64.urlsafe_b64decode(part + "=="))


class Keys:
    """An Ed25519 pair in files, as an administrator makes it."""

    def __init__(self, directory):
        self.private, self.public = f"{directory}/k-1.pem", f"{directory}/k-1.pub"
        self.message = f"{directory}/message"
        for command in (["genpkey", "-algorithm", "ed25519", "-out", self.private],
                        ["pkey", "-in", self.private, "-pubout", "-out", self.public]):
            subprocess.run(["openssl", *command], check=True, stderr=subprocess.DEVNULL)
        os.chmod(self.private, 0o600)

    def sign(self, text):
        with open(self.message, "w", encoding="utf-8") as f:
            f.write(text)
        return subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", self.private, "-in", self.message], check=True,
                              stdout=subprocess.PIPE).stdout

    def token(self, header, claims):
        text = f"{encode(header)}.{encode(claims)}"
        return f"{text}.{encode(self.sign(text))}"

    def as_secrets(self):
        """The public key in every form in which somebody would take it for an HMAC secret."""
        with open(self.public, "rb") as f:
            pem = f.read()
        der = subprocess.run(["openssl", "pkey", "-pubin", "-in", self.public, "-outform", "DER"], check=True, stdout=subprocess.PIPE).stdout
        return {"PEM": pem, "PEM without its last newline": pem.rstrip(b"\n"), "DER": der, "the raw point": der[-32:]}


class Caller:
    """A fence with a grant for the tool strict, the gateway that issued it, and tries with other tokens."""

    def __init__(self, world):
        self.world = world
        self.keys = Keys(world.directory)
        self.gateway = world.gateway(config=f"keys: [{{id: k-1, file: {self.keys.private}, use: sign}}]\n").start()
        self.where, self.tenant = world.fence()
        task = world.fences[self.where].split()[4]
        got = subprocess.run([f"{BUILD}/cordon", "grants", "issue", "--task", task, "--scope", "strict:create", "-m", "5", "--admin",
                              f"{world.directory}/admin-{self.gateway.number}.sock"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        assert got.returncode == 0, got.stderr
        self.good = json.loads(got.stdout)["token"]
        self.header, self.claims = (decode(part) for part in self.good.split(".")[:2])
        self.number = 0

    def call(self, token, amount=DAILY):
        self.number += 1
        headers = [f"Authorization: Bearer {token}"]
        return self.gateway.post(self.where, "/strict", refund(self.tenant, amount, f"k{self.number}"), headers)

    def refused(self, title, token, reason):
        """All that the day allows is asked for: had any of these counted, the twin at the end would not pass."""
        before = len(self.reasons())
        reply = self.call(token)
        assert (reply.status, reply.word) == (401, "unauthenticated"), f"{title}: {reply!r}"
        assert self.reasons()[before:] == [reason], f"{title}: the record says {self.reasons()[before:]}, not {reason}"

    def reasons(self):
        with open(self.gateway.events, encoding="utf-8") as f:
            found = [json.loads(line)["gateway"] for line in f]
        return [g["reason"].split(": ")[-1] for g in found if g.get("status") == 401]

    def timed(self, token_at, offset_s):
        """A token that is made for the second of the call. A host so slow that the call came later proves nothing; then again."""
        for _ in range(20):
            now = int(time.time())
            reply = self.call(token_at(now + offset_s), TOO_MUCH)
            if time.time() < now + 2:
                return reply
        raise AssertionError("twenty calls took longer than a second each")

    def end(self):
        """The twin: the grant itself, with the whole limit of the day."""
        assert self.world.refunded(order(self.tenant)) == 0
        expect(self.call(self.good), 200, "ok")
        assert self.world.refunded(order(self.tenant)) == DAILY


@contextlib.contextmanager
def caller_of(world):
    caller = Caller(world)
    yield caller
    caller.end()


@case("G-01", "a grant without a signature, whatever its header calls that: 401, and nothing is used up")
def _(world):
    with caller_of(world) as caller:
        claims = encode(caller.claims)
        for alg in ("none", "None", "NONE", "nOnE", "", None):
            header = {k: v for k, v in dict(caller.header, alg=alg).items() if v is not None}
            for name, head in (("as issued", header), ("alone", {"alg": alg} if alg is not None else {"typ": "JWT"})):
                caller.refused(f"alg {alg!r}, {name}, no signature", f"{encode(head)}.{claims}.", "grant_alg")
                caller.refused(f"alg {alg!r}, {name}, its signature", f"{encode(head)}.{claims}.{caller.good.split('.')[2]}", "grant_alg")
        caller.refused("two parts", caller.good.rpartition(".")[0], "grant_form")
        caller.refused("two dots and nothing else", "..", "grant_form")
        caller.refused("the right header, no signature", f"{encode(caller.header)}.{claims}.", "grant_signature")


@case("G-02", "the public key as the secret of an HMAC: 401")
def _(world):
    with caller_of(world) as caller:
        for alg, digest in (("HS256", hashlib.sha256), ("HS384", hashlib.sha384), ("HS512", hashlib.sha512), ("EdDSA", hashlib.sha512)):
            text = f"{encode(dict(caller.header, alg=alg))}.{encode(caller.claims)}"
            for form, secret in caller.keys.as_secrets().items():
                signature = encode(hmac.new(secret, text.encode(), digest).digest())
                caller.refused(f"{alg} with the {form}", f"{text}.{signature}", "grant_alg" if alg != "EdDSA" else "grant_signature")
        for alg in ("ES256", "RS256", "PS256", "Ed448", "eddsa"):
            caller.refused(f"the key's own signature called {alg}", caller.keys.token(dict(caller.header, alg=alg), caller.claims), "grant_alg")


@case("G-04", "claims that are missing, and times: 401, each with its own reason; 5 s of leeway and no more")
def _(world):
    with caller_of(world) as caller:
        sign = lambda **claims: caller.keys.token(caller.header, {k: v for k, v in dict(caller.claims, **claims).items() if v is not None})
        # The control of all that follows: what is signed here with nothing changed is as good as the gateway's.
        expect(caller.call(sign(), TOO_MUCH), 422, "amount_out_of_range")
        for name in caller.claims:
            caller.refused(f"without {name}", sign(**{name: None}), "grant_claims")
        now = int(time.time())
        for name, value in (("exp", str(now + 60)), ("exp", now + 60.5), ("exp", True), ("exp", 1 << 70), ("iat", -1), ("aud", ["cordon-gateway"])):
            caller.refused(f"{name} {value!r}", sign(**{name: value}), "grant_claims")
        caller.refused("another audience", sign(aud="somebody"), "grant_audience")
        caller.refused("nbf in an hour", sign(nbf=now + 3600, exp=now + 7200), "grant_not_yet")
        caller.refused("issued in an hour", sign(iat=now + 3600, nbf=now, exp=now + 7200), "grant_not_yet")
        expired = lambda exp: sign(iat=exp - 600, nbf=exp - 600, exp=exp)
        caller.refused("expired an hour ago", expired(now - 3600), "grant_expired")
        for title, token_at, offset_s, good in (
                ("exp, at the end of the leeway", expired, -LEEWAY_S, False),
                ("exp, a second beyond it", expired, -LEEWAY_S - 1, False),
                ("exp, a second ago", expired, -1, True),
                ("nbf, within the leeway", lambda nbf: sign(nbf=nbf), LEEWAY_S - 1, True),
                ("nbf, far beyond it", lambda nbf: sign(nbf=nbf), LEEWAY_S + 60, False)):
            reply = caller.timed(token_at, offset_s)
            assert reply.status == (422 if good else 401), f"{title}: {reply!r}"
