# SPDX-License-Identifier: Apache-2.0
"""What the rows of the broker's tests share: fences that ask, configurations, secrets."""

import contextlib
import http.client
import json
import os
import subprocess

SECRET = "s3cr3t/T0ken+with\"odd chars=="
SECRETS = [SECRET]  # all that the rows used


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        try:
            self.body, self.whole = response.read(), True
        except (http.client.IncompleteRead, ConnectionError) as error:
            self.body, self.whole = getattr(error, "partial", b""), False

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def word(self):
        return self.json.get("error")

    def __repr__(self):
        return f"{self.status} {dict(self.headers)} {self.body[:300]!r}"


class Fence:
    """A caller that uses the gateway as any HTTP client would."""

    def __init__(self, gateway, where):
        self.gateway, self.where = gateway, where

    def ask(self, method, path, body=None, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=60, source_address=(self.where, 0))
        try:
            connection.request(method, path, body, dict(headers))
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, headers=()):
        return self.ask("GET", path, None, headers)


def expect(answer, status, word=None):
    assert answer.status == status and (word is None or answer.word == word), f"expected {status} {word or ''}, got {answer!r}"
    return answer


def upstream_yaml(name, url, credential=None, scopes=None, subject="service", extra=""):
    scopes = scopes or [("up:all", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"], ["/**"])]
    text = f"  - name: {name}\n    url: '{url}'\n    subject: {subject}\n    scopes:\n"
    for scope, methods, paths, *once in scopes:
        text += f"      - {{scope: '{scope}', methods: {json.dumps(methods)}, paths: {json.dumps(paths)}, once: {(once or ['not'])[0]}}}\n"
    if credential:
        text += f"    credential: {json.dumps(credential)}\n"
    return text + "".join(f"    {line}\n" for line in extra.splitlines())


def write_secret(world, name, text, mode=0o600):
    path = os.path.join(world.directory, name)
    with open(path + ".new", "w") as f:
        f.write(text + "\n")
    os.chmod(path + ".new", mode)
    os.rename(path + ".new", path)
    if len(text) >= 8:
        SECRETS.append(text)
    return path


@contextlib.contextmanager
def gateway_with(world, *upstreams, env=None, limits="", config=""):
    gateway = world.gateway(config="upstreams:\n" + "".join(upstreams) + config, limits=limits, env=env).start()
    try:
        yield gateway
    finally:
        gateway.kill()


def fence(world, gateway, *scopes, subject="alice"):
    return Fence(gateway, world.fence(scopes=scopes or ("up:all",), subject=subject)[0])


def headers_of(request):
    return {name.lower(): value for name, value in request[2].items()}


def events_of(gateway, tool):
    return [e for e in gateway.event_list() if e["type"] == "gateway" and e["gateway"].get("tool") == "up/" + tool]


def signing_key(world):
    """The line of a configuration with a key that signs grants."""
    path = os.path.join(world.directory, "grants.pem")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], check=True, stderr=subprocess.DEVNULL)
    os.chmod(path, 0o600)
    return f"keys: [{{id: k-1, file: {path}, use: sign}}]\n"


def grant(gateway, caller, scope, tool=None):
    """The token of a grant for the fence."""
    task = gateway.world.fences[caller.where].split()[4]
    return gateway.admin("grants", "issue", "--task", task, "--scope", scope, "-m", "5", *(["--tool", tool] if tool else []))["token"]
