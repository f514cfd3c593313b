# SPDX-License-Identifier: Apache-2.0
"""The steps of tests/work/steps that need Python. Each prints the same wherever it runs."""
import ctypes
import fcntl
import http.server
import mmap
import multiprocessing
import multiprocessing.shared_memory
import os
import pty
import select
import signal
import socket
import socketserver
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request


def sqlite_writer(path):
    db = sqlite3.connect(path, timeout=60)
    for i in range(200):
        with db:
            db.execute("INSERT INTO t (v) VALUES (?)", (f"v{i % 7}",))


def sqlite_reader(path, answers):
    db = sqlite3.connect(path, timeout=60)
    counts = [db.execute("SELECT count(*) FROM t").fetchone()[0] for _ in range(100)]
    answers.put(counts == sorted(counts))


def sqlite():
    path, answers = sys.argv[2], multiprocessing.Queue()
    children = [multiprocessing.Process(target=sqlite_writer, args=(path,))]
    children += [multiprocessing.Process(target=sqlite_reader, args=(path, answers)) for _ in range(2)]
    for child in children:
        child.start()
    print([answers.get() for _ in range(2)])
    for child in children:
        child.join()
    print([child.exitcode for child in children])


def files():
    with open("a", "w", encoding="utf-8") as f:
        f.write("hello")
        f.flush()
        os.fsync(f.fileno())
        os.fchmod(f.fileno(), 0o640)
        os.ftruncate(f.fileno(), 3)
        fcntl.flock(f, fcntl.LOCK_EX)
        fcntl.lockf(f, fcntl.LOCK_EX)
    os.chmod("a", 0o600)
    os.chown("a", os.getuid(), os.getgid())
    os.utime("a", (1, 2))
    os.setxattr("a", "user.k", b"v")
    print(os.getxattr("a", "user.k"), os.listxattr("a"))
    os.removexattr("a", "user.k")
    os.link("a", "b")
    os.symlink("a", "l")
    os.replace("b", "c")
    os.rename("c", "d")
    os.mkfifo("f")
    os.makedirs("x/y/z")
    os.removedirs("x/y/z")
    os.truncate("a", 2)
    print(oct(os.stat("a").st_mode), os.stat("a").st_size, os.stat("a").st_nlink, sorted(os.listdir(".")))
    with open("m", "w+b") as f:
        f.truncate(8192)
        with mmap.mmap(f.fileno(), 8192) as m:
            m[0:5] = b"mmap!"
            m.flush()
    print(open("m", "rb").read(5))
    subprocess.run(["cp", "--reflink=auto", "m", "m2"], check=True)
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"x")
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.link(f"/proc/self/fd/{fd}", "from-tmpfile", src_dir_fd=directory, follow_symlinks=True)
    os.close(fd)
    os.mkdir("at", dir_fd=directory)
    os.rmdir("at", dir_fd=directory)
    os.unlink("d", dir_fd=directory)
    libc = ctypes.CDLL(None, use_errno=True)
    inotify = libc.inotify_init1(0)
    libc.inotify_add_watch(inotify, b".", 0x100)
    open("watched", "w", encoding="utf-8").close()
    print(b"watched" in os.read(inotify, 4096), sorted(os.listdir(".")))


def temporary():
    with tempfile.NamedTemporaryFile() as f, tempfile.TemporaryFile() as g, tempfile.TemporaryDirectory() as d:
        f.write(b"x")
        g.write(b"x")
        print(f.name.startswith(os.environ["TMPDIR"]), os.path.isdir(d))
    for base in ("/tmp", "/dev/shm"):
        fd, path = tempfile.mkstemp(dir=base)
        os.write(fd, b"x" * 100000)
        os.close(fd)
        os.rename(path, path + ".new")
        os.unlink(path + ".new")
        with tempfile.TemporaryDirectory(dir=base) as d:
            os.makedirs(d + "/a/b")
        with tempfile.TemporaryFile(dir=base) as f:
            f.write(b"x")
        print(base, "works")


def square(n):
    return n * n


def memory():
    with multiprocessing.Pool(3) as pool:
        print(sum(pool.map(square, range(100))))
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=4096)
    pid = os.fork()
    if not pid:
        shared.buf[0] = 42
        os._exit(0)
    os.waitpid(pid, 0)
    print(shared.buf[0])
    shared.close()
    shared.unlink()
    print(multiprocessing.Value("i", 7).value, multiprocessing.get_context("spawn").__class__.__name__)
    fd = os.memfd_create("work", os.MFD_ALLOW_SEALING)
    os.write(fd, b"memfd")
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    with mmap.mmap(fd, 5) as m:
        m[0:1] = b"M"
    os.lseek(fd, 0, os.SEEK_SET)
    print(os.read(fd, 10), open(f"/proc/self/fd/{fd}", "r+b").read())
    script = os.memfd_create("script", 0)
    os.write(script, b"#!/bin/sh\necho from memfd\n")
    print(subprocess.run([f"/proc/self/fd/{script}"], pass_fds=[script], capture_output=True, check=False).stdout)


class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.readline().upper())


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def network():
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET, "127.9.8.7")):
        listener = socket.create_server((host, 0), family=family)
        pid = os.fork()
        if not pid:
            peer, _ = listener.accept()
            peer.sendall(peer.recv(100).upper())
            os._exit(0)
        with socket.create_connection(listener.getsockname()[:2]) as s:
            s.sendall(b"tcp")
            print(host, s.recv(100))
        os.waitpid(pid, 0)
        a, b = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
        a.bind((host, 0))
        b.bind((host, 0))
        b.sendto(b"udp", a.getsockname())
        data, peer = a.recvfrom(10)
        a.sendto(data.upper(), peer)
        print(host, b.recv(10))
        b.connect(a.getsockname())
        b.send(b"connected")
        print(a.recv(10))
    listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    with socket.create_connection(("localhost", listener.getsockname()[1])):
        print("localhost, dual stack")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        print(urllib.request.urlopen(url).status, subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", url],
                                                                 capture_output=True, check=False).stdout)
        server.shutdown()


def unix():
    for address in ("sock", "\0cordon-work"):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen()
        pid = os.fork()
        if not pid:
            peer, _ = listener.accept()
            socket.send_fds(peer, [b"fd"], [os.open("/etc/passwd", os.O_RDONLY)])
            os._exit(0)
        s = socket.socket(socket.AF_UNIX)
        s.connect(address)
        data, fds, _, _ = socket.recv_fds(s, 10, 1)
        print(data, os.read(fds[0], 5))
        os.waitpid(pid, 0)
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        a, b = socket.socketpair(socket.AF_UNIX, kind)
        a.send(b"pair")
        print(b.recv(10))
    d = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    d.bind("dgram")
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"dgram", "dgram")
    print(d.recv(10))
    with socketserver.UnixStreamServer("server", Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        s = socket.socket(socket.AF_UNIX)
        s.connect("server")
        s.sendall(b"line\n")
        print(s.recv(10))
        server.shutdown()


def terminal():
    pid, fd = pty.fork()
    if not pid:
        os.execvp("sh", ["sh", "-c", "read x; echo got $x; test -t 0 && test -t 1 && stty size > /dev/null && echo tty > /dev/tty"])
    os.write(fd, b"line\n")
    out = b""
    try:
        while select.select([fd], [], [], 30)[0]:
            out += os.read(fd, 1000)
    except OSError:
        pass
    os.waitpid(pid, 0)
    print(out)


def jobs():
    got = []
    signal.signal(signal.SIGALRM, lambda *a: got.append("alarm"))
    signal.signal(signal.SIGCHLD, lambda *a: got.append("child"))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    signal.pause()
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    os.kill(child.pid, 0)
    os.killpg(child.pid, signal.SIGTERM)
    print(child.wait(), sorted(set(got)))
    pid = os.posix_spawn("/bin/true", ["true"], {})
    print(os.waitpid(pid, 0)[1])
    pid = os.fork()
    if not pid:
        time.sleep(1000)
    fd = os.pidfd_open(pid)
    signal.pidfd_send_signal(fd, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    r, w = os.pipe()
    os.write(w, b"pipe")
    print(os.read(r, 10), os.sched_getaffinity(0) != set())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
