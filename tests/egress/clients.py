# SPDX-License-Identifier: Apache-2.0
"""Real clients through the proxy, as they find it by the usual variables; each is refused, too, where it may not go."""

import os
import shutil
import subprocess

from harness import PUBLIC, base

CASES = []
HOST = "127.0.0.1"  # whose connections are those of whoever chooses no source


def case(number, title, *programs):
    def add(function):
        def tried(world):
            missing = [p for p in programs if not shutil.which(p)]
            if missing:
                raise base.Skip(f"{', '.join(missing)} is not installed")
            if HOST not in world.fences:
                world.reach("good.test", "apt.test", "registry.test", "git.test", where=HOST)
            function(world)
        CASES.append((number, title, tried))
        return tried
    return add


def client(world, *command, proxy=True, check=True, **env):
    """Runs it with nothing but the variables that cordon run sets; its output. Without the proxy it finds no name server either."""
    home = os.path.join(world.directory, "home")
    os.makedirs(home, exist_ok=True)
    variables = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", **env}
    if proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            variables[name] = variables[name.lower()] = f"http://127.0.0.1:{world.gw.port}"
        variables["NO_PROXY"] = variables["no_proxy"] = "localhost,127.0.0.1,::1"
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                          cwd=home, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.returncode}: {done.stdout[-1500:]}"
    return done.stdout if check else (done.returncode, done.stdout)


def fails(world, *command, **env):
    before = len(world.tls.hits) + len(world.web.hits)
    code, text = client(world, *command, check=False, **env)
    assert code, f"{command} went through: {text[-500:]}"
    assert len(world.tls.hits) + len(world.web.hits) == before, f"{command} arrived"
    return text


@case("X-40", "curl, over TLS and in the clear", "curl")
def _(world):
    for url in ("https://good.test/hello", "http://good.test/hello"):
        assert client(world, "curl", "-sSf", "--cacert", world.ca, url) == "hello\n"
    text = fails(world, "curl", "-sSf", "--cacert", world.ca, "https://denied.test/hello")
    assert "403" in text, text
    fails(world, "curl", "-sSf", "http://denied.test/hello")
    fails(world, "curl", "-sSfk", "--connect-to", "::good.test:443", "https://denied.test/hello")
    fails(world, "curl", "-sSfk", "-H", "Host: denied.test", "http://good.test/hello")
    fails(world, "curl", "-sSfk", f"https://{PUBLIC}/hello")
    client(world, "curl", "-sSfk", "--resolve", f"denied.test:443:{PUBLIC}", "https://denied.test/hello", proxy=False)


@case("X-41", "git over HTTPS: clone", "git")
def _(world):
    repository = os.path.join(world.files, "it.git")
    work = os.path.join(world.directory, "work")
    run = lambda *c: subprocess.run(c, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run("git", "init", "-q", work)
    run("git", "-C", work, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "one")
    run("git", "clone", "-q", "--bare", work, repository)
    run("git", "-C", repository, "update-server-info")
    client(world, "git", "clone", "-q", "https://git.test/it.git", "cloned", GIT_SSL_CAINFO=world.ca)
    assert client(world, "git", "-C", "cloned", "log", "--format=%s").strip() == "one"
    text = fails(world, "git", "clone", "-q", "https://denied.test/it.git", "other", GIT_SSL_CAINFO=world.ca)
    assert "403" in text, text


@case("X-42", "Python: requests, and the standard library", "python3")
def _(world):
    if subprocess.run(["python3", "-c", "import requests"], check=False, stderr=subprocess.DEVNULL).returncode:
        raise base.Skip("python3-requests is not installed")
    text = "import requests,sys; r = requests.get(sys.argv[1]); r.raise_for_status(); print(r.text, end='')"
    library = "import urllib.request,sys; print(urllib.request.urlopen(sys.argv[1]).read().decode(), end='')"
    trust = dict(REQUESTS_CA_BUNDLE=world.ca, SSL_CERT_FILE=world.ca)
    for program in (text, library):
        for url in ("https://good.test/hello", "http://good.test/hello"):
            assert client(world, "python3", "-c", program, url, **trust) == "hello\n"
        assert "403" in fails(world, "python3", "-c", program, "https://denied.test/hello", **trust)


FETCH = """
fetch(`https://${process.argv[1]}/hello`).then(r => r.text()).then(t => process.stdout.write(t))
    .catch(e => { console.error(e); process.exit(1) })"""
TUNNEL = """
const name = process.argv[1], proxy = new URL(process.env.HTTPS_PROXY);
const fail = e => { console.error(e); process.exit(1) };
require('http').request({ host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: `${name}:443` })
    .on('connect', (answer, socket) => {
        if (answer.statusCode !== 200) fail(answer.statusCode);
        require('https').get({ host: name, path: '/hello', socket, servername: name, agent: false },
            r => r.on('data', d => process.stdout.write(d))).on('error', fail);
    }).on('error', fail).end();"""


@case("X-43", "Node: fetch, where it knows proxies, else its HTTP client", "node")
def _(world):
    version = subprocess.run(["node", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    env = dict(NODE_USE_ENV_PROXY="1", NODE_EXTRA_CA_CERTS=world.ca)
    # Versions before 24 read no proxy variables: there a program opens the tunnel itself.
    program = FETCH if int(version.lstrip("v").split(".")[0]) >= 24 else TUNNEL
    assert client(world, "node", "-e", program, "good.test", **env) == "hello\n"
    fails(world, "node", "-e", program, "denied.test", **env)


@case("X-44", "npm install", "npm")
def _(world):
    package = os.path.join(world.directory, "npm", "package")
    os.makedirs(package)
    with open(os.path.join(package, "package.json"), "w") as f:
        f.write('{"name": "small", "version": "1.0.0"}')
    registry = os.path.join(world.files, "registry")
    os.makedirs(registry)
    subprocess.run(["tar", "-C", os.path.dirname(package), "-czf", os.path.join(registry, "small-1.0.0.tgz"), "package"], check=True)
    with open(os.path.join(registry, "small"), "w") as f:
        f.write('{"name": "small", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "small", "version": "1.0.0", '
                '"dist": {"tarball": "https://registry.test/registry/small-1.0.0.tgz"}}}}')
    install = lambda host: ("npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0", f"--cafile={world.ca}", f"--registry=https://{host}/registry/", "small")
    client(world, *install("registry.test"))
    assert os.path.exists(os.path.join(world.directory, "home", "node_modules", "small", "package.json"))
    fails(world, *install("denied.test"))


@case("X-45", "apt-get update and download, in the clear and over TLS", "apt-get", "dpkg-deb")
def _(world):
    build = os.path.join(world.directory, "deb", "DEBIAN")
    os.makedirs(build)
    with open(os.path.join(build, "control"), "w") as f:
        f.write("Package: small\nVersion: 1\nArchitecture: all\nMaintainer: t <t@t>\nDescription: small\n")
    pool = os.path.join(world.files, "apt")
    os.makedirs(pool)
    deb = os.path.join(pool, "small_1_all.deb")
    subprocess.run(["dpkg-deb", "-b", os.path.dirname(build), deb], check=True, stdout=subprocess.DEVNULL)
    digest = subprocess.run(["sha256sum", deb], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[0]
    with open(os.path.join(pool, "Packages"), "w") as f:
        f.write(f"Package: small\nVersion: 1\nArchitecture: all\nFilename: ./small_1_all.deb\nSize: {os.path.getsize(deb)}\n"
                f"SHA256: {digest}\nDescription: small\n\n")
    state = os.path.join(world.directory, "apt")
    for directory in ("lists/partial", "cache/archives/partial", "etc"):
        os.makedirs(os.path.join(state, directory))
    open(os.path.join(state, "status"), "w").close()

    def apt(url, *words):
        with open(os.path.join(state, "etc", "sources.list"), "w") as f:
            f.write(f"deb [trusted=yes] {url}/apt ./\n")
        return ("apt-get", "-o", f"Dir::State={state}", "-o", f"Dir::State::status={state}/status", "-o", f"Dir::Cache={state}/cache",
                "-o", f"Dir::Etc={state}/etc", "-o", "APT::Sandbox::User=root", "-o", f"Acquire::https::CAInfo={world.ca}",
                "-o", "Acquire::Retries=0", "-o", "APT::Update::Error-Mode=any", *words)
    for scheme in ("http", "https"):
        client(world, *apt(f"{scheme}://apt.test", "update"))
        client(world, *apt(f"{scheme}://apt.test", "download", "small"))
        got = os.path.join(world.directory, "home", "small_1_all.deb")
        assert os.path.getsize(got) == os.path.getsize(deb)
        os.unlink(got)
        fails(world, *apt(f"{scheme}://denied.test", "update"))
