# SPDX-License-Identifier: Apache-2.0
"""
What is outside the fence: a network namespace behind a veth pair with listeners and a sniffer, listeners on the host's
loopback and unix sockets, directories, a victim process, cgroups. Root; belongs into a virtual machine, because it changes
sysctls and mounts over a device. Whatever cannot be set up is an exception, which fails the run.
"""

import ctypes
import errno
import hashlib
import os
import fcntl
import mmap
import selectors
import shutil
import signal
import pwd
import socket
import struct
import subprocess
import threading
import time

from inside import check, libc

HOST, PEER_IF, IF, NETNS = "10.99.0.1", "cat1", "cat0", "cordon-attack"
HOST6 = "2001:db8:99::1"
X, GW, X6 = "10.99.0.2", "10.99.0.3", "2001:db8:99::2"
PEER4 = [X, GW, "169.254.169.254"]
PEER6 = [X6, "fd00:99::5", "fd00:ec2::254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"]
W, OUT, SECRET, HOSTDIR = "/scratch/w", "/scratch/out", "/scratch/secret", "/scratch/host"
OLD = "/scratch/old"  # an ext4 without checksums
LISTS = "/scratch/lists"  # what the fence with lists may read (read) and execute (bin), and what it may not
HELD = "/scratch/held"  # what is opened before a fence is put around the executor
PLACES = "/scratch/places"  # file systems, each with a directory that is writable (wd) and one that is not (out)
HERE = os.path.dirname(os.path.abspath(__file__))
PLACE_LABELS = {"tmpfs": (), "overlay": (), "xfs": ("6.18",), "btrfs": ("6.12",)}  # a place, and the labels it is made on
AGAIN = f"{W}/again"  # writable, until a row has it removed; not in the root directory, whose children ext4 scatters
RUN = "/run/cordon-attack"
CGROUP = "/sys/fs/cgroup"
DG, LISTEN = 5300, 8000
EFFECT_S = 20  # a lost packet comes again after three
NOPS = 0x0101  # the port of a UDP header that a reader would find who took four IP options (NOP) for it


def policy(places):
    return f"""cordon: 1
name: attack
files:
  write: [{', '.join([AGAIN, OLD + '/mine', *places])}]
  read:
    deny: [{SECRET}/file, {SECRET}/dir, {OLD}/FS_IOC_SETVERSION, {OLD}/EXT4_IOC_SETVERSION, {OLD}/mine/secret]
  exec:
    deny: [{SECRET}/tool, {W}/app/tools]
network:
  gateway: {GW}:8800
  allow:
    - {{to: {GW}, port: {DG}, proto: udp}}
    - {{to: {GW}, port: {NOPS}, proto: udp}}
    - {{to: "fd00::/8"}}
  dns: gateway
  resolver: ["{GW}:5353", "[fd00:99::5]:5353"]
  listen: [{LISTEN}]
"""


POLICY_LISTS = f"""cordon: 1
name: lists
files:
  read:
    allow: [/usr, /bin, /lib, /lib64, /etc/ld.so.cache, /etc/ssl, /proc, {HERE}, {LISTS}/read, {LISTS}/bin]
    deny: [{LISTS}/read/denied]
  exec:
    allow: [/usr, /bin, /lib, /lib64, {LISTS}/bin]
    deny: [{LISTS}/bin/denied]
"""


def run(*command):
    p = subprocess.run(command, capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(f"{' '.join(command)}: {p.stderr.strip()}")
    return p.stdout


def sysctl(name, value):
    with open("/proc/sys/" + name.replace(".", "/"), "w") as f:
        f.write(str(value))


class Listeners:
    """Accepts and receives everywhere, answers with what it got, and remembers all of it."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.log = []
        self.lock = threading.Lock()

    def add(self, name, family, kind, proto, address, backlog=64, share=False):
        s = socket.socket(family, kind, proto)
        if family in (socket.AF_INET, socket.AF_INET6):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if kind == socket.SOCK_STREAM and proto == 0 and family in (socket.AF_INET, socket.AF_INET6):
            s.setsockopt(socket.IPPROTO_TCP, 23, 64)  # TCP_FASTOPEN
        s.bind(address)
        if kind != socket.SOCK_DGRAM:
            s.listen(backlog)
        s.setblocking(False)
        self.selector.register(s, selectors.EVENT_READ, (name, "datagram" if kind == socket.SOCK_DGRAM else "listener"))

    def note(self, name, data):
        with self.lock:
            self.log.append((name, data))

    def serve(self):
        while True:
            for key, _ in self.selector.select():
                try:
                    self.ready(key.fileobj, *key.data)
                except BlockingIOError:
                    pass
                except OSError:
                    if key.data[1] == "connection":
                        self.selector.unregister(key.fileobj)
                        key.fileobj.close()

    def ready(self, s, name, role):
        if role == "listener":
            connection, _ = s.accept()
            connection.setblocking(False)
            self.note(name, None)
            self.selector.register(connection, selectors.EVENT_READ, (name, "connection"))
        elif role == "connection":
            data = s.recv(65536)
            if not data:
                raise OSError("end")
            self.note(name, data)
            s.send(dns_answer(data, 2) if name.startswith("dns") else data)
        else:
            data, peer = s.recvfrom(65536)
            self.note(name, data)
            if peer:
                s.sendto(dns_answer(data, 0) if name.startswith("dns") else data, peer)


def dns_answer(data, prefix):
    """The answer to one query: 192.0.2.53, or nothing for other types. prefix: bytes of a length before it."""
    query = data[prefix:]
    end = 12
    while end < len(query) and query[end]:
        end += query[end] + 1
    end += 5
    is_a = query[end - 4:end - 2] == b"\0\1"
    answer = query[:2] + b"\x81\x80\0\1" + (b"\0\1" if is_a else b"\0\0") + bytes(4) + query[12:end]
    if is_a:
        answer += b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\x35"
    return (struct.pack("!H", len(answer)) if prefix else b"") + answer


class Arena:
    phase = ""

    def __init__(self):
        self.listeners = Listeners()
        self.frames = []
        self.victim = None
        self.nested = []
        self.places = []
        self.owned = []
        self.entered = []  # processes in a fence's cgroup
        self.caller = None
        self.disk = None
        self.mounted = []  # (process, target)
        self.missing = []  # listeners that this kernel does not have
        self.new_modules = ""

    # --- set-up

    def in_namespace(self, do, path=f"/run/netns/{NETNS}"):
        """Runs do() in a thread of the outside's network namespace, or another."""
        failed = []

        def body():
            try:
                fd = os.open(path, os.O_RDONLY)
                check(libc.setns(fd, 0x40000000))
                os.close(fd)
                do()
            except BaseException as e:  # noqa: raised again below
                failed.append(e)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]

    def set_up(self):
        run("mount", "--make-rprivate", "/")  # what a row mounts is not to be seen here
        self.tear_down()
        self.set_up_network()
        self.in_namespace(self.set_up_peer)
        self.set_up_host()
        self.set_up_files()
        threading.Thread(target=self.listeners.serve, daemon=True).start()

    def set_up_network(self):
        run("ip", "netns", "add", NETNS)
        run("ip", "link", "add", IF, "type", "veth", "peer", "name", PEER_IF, "netns", NETNS)
        for name in (IF, "all"):
            sysctl(f"net.ipv6.conf.{name}.accept_dad", 0)
            sysctl(f"net.ipv4.conf.{name}.rp_filter", 0)
        sysctl("net.ipv4.tcp_fastopen", 3)
        run("ip", "address", "add", HOST + "/24", "dev", IF)
        run("ip", "address", "add", HOST6 + "/64", "dev", IF, "nodad")
        run("ip", "link", "set", IF, "up")
        run("ip", "route", "add", "169.254.0.0/16", "dev", IF, "src", HOST)
        in_peer = ("ip", "-n", NETNS)
        run(*in_peer, "link", "set", "lo", "up")
        for address in PEER4:
            run(*in_peer, "address", "add", address + ("/24" if address == X else "/32"), "dev", PEER_IF)
        for address in PEER6:
            run(*in_peer, "-6", "address", "add", address + ("/64" if address == X6 else "/128"), "dev", PEER_IF, "nodad")
        run(*in_peer, "-6", "address", "add", "fe80::a9fe:a9fe/64", "dev", PEER_IF, "nodad")
        run(*in_peer, "link", "set", PEER_IF, "up")
        for address in PEER6[1:]:
            run("ip", "-6", "route", "add", address + "/128", "dev", IF, "src", HOST6)
        self.peer_mac = run(*in_peer, "-o", "link", "show", PEER_IF).split("link/ether ")[1].split()[0]

    def optional(self, name, *args):
        try:
            self.listeners.add(name, *args)
        except OSError as e:
            self.missing.append(f"{name}: {e}")

    def set_up_peer(self):
        sysctl("net.ipv4.tcp_fastopen", 3)
        add = self.listeners.add
        for port in (80, DG, 22, 8800, 8801):
            add("x", socket.AF_INET, socket.SOCK_STREAM, 0, ("0.0.0.0", port))
            add("x", socket.AF_INET6, socket.SOCK_STREAM, 0, ("::", port))
        for port in (53, 5353):
            for address in PEER4[:2] + PEER6[:2]:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                add(f"dns {address}", family, socket.SOCK_DGRAM, 0, (address, port))
                add(f"dns {address}", family, socket.SOCK_STREAM, 0, (address, port))
        for port in (DG, 80, 8800):
            for address in PEER4:
                add("x", socket.AF_INET, socket.SOCK_DGRAM, 0, (address, port))
            for address in PEER6:
                add("x", socket.AF_INET6, socket.SOCK_DGRAM, 0, (address, port))
        self.optional("udp-lite", socket.AF_INET, socket.SOCK_DGRAM, 136, (X, DG))
        self.optional("sctp", socket.AF_INET, socket.SOCK_STREAM, 132, (X, 80))
        self.sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.sniffer.bind((PEER_IF, 0))
        self.sniffer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.sniffer.setblocking(False)

    def set_up_host(self):
        add = self.listeners.add
        for address in ("127.0.0.1", "127.0.0.2", "127.255.255.254"):
            add("loopback", socket.AF_INET, socket.SOCK_STREAM, 0, (address, 7000))
            add("loopback", socket.AF_INET, socket.SOCK_DGRAM, 0, (address, 7000))
        add("loopback", socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", 7100), 64, True)
        add("loopback", socket.AF_INET6, socket.SOCK_STREAM, 0, ("::1", 7000))
        add("loopback", socket.AF_INET6, socket.SOCK_DGRAM, 0, ("::1", 7000))
        os.makedirs(HOSTDIR)
        for kind, name in ((socket.SOCK_STREAM, "stream"), (socket.SOCK_SEQPACKET, "seqpacket"), (socket.SOCK_DGRAM, "dgram")):
            add("unix", socket.AF_UNIX, kind, 0, f"{HOSTDIR}/{name}")
            add("unix", socket.AF_UNIX, kind, 0, f"\0cordon-probe-{name}")
        subprocess.run(["modprobe", "-q", "vsock_loopback"])
        self.optional("vsock", socket.AF_VSOCK, socket.SOCK_STREAM, 0, (0xffffffff, 1024))

    def write(self, path, text):
        with open(path, "w") as f:
            f.write(text)

    def set_up_files(self):
        os.umask(0o022)
        # Before programs are loaded, which ask for their numbers; tests/identity and tests/govern serve under 8800, later in the same VM.
        for name, number in (("cordon-gateway", "8800"), ("cordon", "8810")):
            if name not in map(lambda user: user.pw_name, pwd.getpwall()):
                run("groupadd", "-g", number, name)
                run("useradd", "-M", "-u", number, "-g", number, "-s", "/usr/sbin/nologin", name)
        for path in (f"{W}/app", f"{W}/app-evil", f"{W}/app2", f"{W}/app ", OUT, f"{SECRET}/dir/a", RUN, f"{CGROUP}/cordon-attack",
                     "/scratch/bindread", OLD, AGAIN):
            os.makedirs(path)
        subprocess.run(["modprobe", "-q", "loop"])
        run("truncate", "-s", "8M", OLD + ".img")
        run("mkfs.ext4", "-q", "-I", "256", "-O", "^metadata_csum,encrypt,project", OLD + ".img")
        run("mount", "-o", "loop", OLD + ".img", OLD)
        os.mkdir(OLD + "/put")
        os.mkdir(OLD + "/mine")
        for path in (f"{SECRET}/file", f"{SECRET}/dir/a/f", f"{OLD}/FS_IOC_SETVERSION", f"{OLD}/EXT4_IOC_SETVERSION", f"{OLD}/mine/secret"):
            self.write(path, "secret\n")
        self.write(f"{SECRET}/open", "open\n")
        os.link(f"{SECRET}/file", "/scratch/hardlink")
        for path in (f"{OUT}/bound", f"{OUT}/device", f"{W}/app/bound"):
            self.write(path, "outside\n")
        run("mount", "--bind", f"{OUT}/bound", f"{W}/app/bound")
        run("mount", "--bind", f"{OUT}/device", "/dev/random")
        run("mount", "--bind", f"{SECRET}/dir", "/scratch/bindread")
        self.set_up_tools()
        self.set_up_places()
        self.write(f"{RUN}/policy.yaml", policy(f"{PLACES}/{p}/wd" for p in self.places))
        self.write(f"{RUN}/lists.yaml", POLICY_LISTS)
        self.write("/etc/resolv.conf", f"nameserver {X}\n")

    def set_up_tools(self):
        """Programs that may and may not be executed, and what may and may not be read."""
        for path in (f"{LISTS}/read/denied", f"{LISTS}/bin/denied", f"{W}/app/tools", f"{LISTS}/read/bound", f"{LISTS}/elsewhere"):
            os.makedirs(path)
        for path in (f"{SECRET}/tool", f"{W}/app/tools/tool", f"{W}/app/plain", f"{LISTS}/bin/tool", f"{LISTS}/bin/denied/tool"):
            shutil.copy("/usr/bin/echo", path)
        os.link(f"{SECRET}/tool", "/scratch/hardtool")
        for path in (f"{LISTS}/read/f", f"{LISTS}/read/denied/f", f"{LISTS}/f"):
            self.write(path, "secret\n")
        for path, interpreter in ((f"{LISTS}/bin/script", "/bin/sh"), (f"{LISTS}/bin/script-of-plain", f"{W}/app/plain"), (f"{W}/app/script", "/bin/sh"),
                                  (f"{W}/app/script-of-tool", f"{SECRET}/tool")):
            self.write(path, f"#!{interpreter}\necho secret\n" if interpreter == "/bin/sh" else f"#!{interpreter} secret\n")
            os.chmod(path, 0o755)
        run("mount", "--bind", OUT, f"{LISTS}/read/bound")
        run("mount", "--bind", f"{LISTS}/read", f"{LISTS}/elsewhere")

    def set_up_places(self):
        """Other file systems for a workdir; the rarer ones on one label of the matrix each."""
        label = os.environ.get("CORDON_VM_LABEL")
        self.places = [p for p, labels in PLACE_LABELS.items() if not label or not labels or label in labels]
        for place in self.places:
            os.makedirs(f"{PLACES}/{place}")
            getattr(self, "place_" + place)(f"{PLACES}/{place}")
            for name in ("wd", "out"):
                os.makedirs(f"{PLACES}/{place}/{name}", exist_ok=True)
                self.furnish(f"{PLACES}/{place}/{name}/base", "outside\n" if name == "out" else "inside\n")
            if place == "btrfs":
                run("btrfs", "subvolume", "snapshot", f"{PLACES}/btrfs/wd", f"{PLACES}/btrfs/snapshot")

    def place_tmpfs(self, path):
        run("mount", "-t", "tmpfs", "tmpfs", path)

    def place_overlay(self, path):
        layers = f"{PLACES}/layers"
        for name in ("lower/wd", "lower/out", "upper", "work"):
            os.makedirs(f"{layers}/{name}")
        for name in ("wd", "out"):
            self.furnish(f"{layers}/lower/{name}/low", "outside\n" if name == "out" else "inside\n")
            for n in range(40):
                self.write(f"{layers}/lower/{name}/low/f{n}", "low\n")
                os.mkdir(f"{layers}/lower/{name}/low/d{n}")
        subprocess.run(["modprobe", "-q", "overlay"])
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={layers}/lower,upperdir={layers}/upper,workdir={layers}/work", path)

    def place_xfs(self, path):
        run("truncate", "-s", "400M", path + ".img")
        run("mkfs.xfs", "-q", path + ".img")
        run("mount", "-o", "loop", path + ".img", path)

    def place_btrfs(self, path):
        run("truncate", "-s", "200M", path + ".img")
        run("mkfs.btrfs", "-q", path + ".img")
        run("mount", "-o", "loop", path + ".img", path)
        run("btrfs", "subvolume", "create", f"{path}/wd")

    def hold(self):
        """Fresh files for rows that hold them from before; their directory."""
        from table import ROWS
        shutil.rmtree(HELD, ignore_errors=True)
        os.makedirs(HELD)
        for row in ROWS:
            for name in row.held:
                if name.startswith("dir-"):
                    os.mkdir(f"{HELD}/{name}")
                elif name.startswith("dev-"):
                    self.hold_device(f"{HELD}/{name}")
                elif name.startswith("ro-"):
                    os.link(f"{SECRET}/file", f"{HELD}/{name}")
                else:
                    self.write(f"{HELD}/{name}", "outside\n" + "\0" * 4088)
        return HELD

    def hold_device(self, path):
        """A disk with something on it, and a node for it."""
        if not self.disk:
            self.write(HELD + ".img", "")
            os.truncate(HELD + ".img", 1 << 20)
            self.disk = run("losetup", "-f", "--show", HELD + ".img").strip()
        with open(self.disk, "r+b") as f:
            f.write(b"DATA" * 4096)
        os.mknod(path, 0o60600, os.stat(self.disk).st_rdev)

    def tear_down(self):
        if self.disk:
            run("losetup", "-d", self.disk)
            self.disk = None
        for path in (f"{W}/app/bound", "/scratch/bindread", OLD, f"{LISTS}/read/bound", f"{LISTS}/elsewhere", *(f"{PLACES}/{p}" for p in PLACE_LABELS)):
            subprocess.run(["umount", path], capture_output=True)
        subprocess.run(["umount", "/dev/random"], capture_output=True)
        while subprocess.run(["umount", f"/run/netns/{NETNS}"], capture_output=True).returncode == 0:
            pass
        if os.path.exists(f"/run/netns/{NETNS}"):
            os.unlink(f"/run/netns/{NETNS}")
        subprocess.run(["ip", "link", "del", IF], capture_output=True)
        subprocess.run(["rm", "-rf", W, OUT, SECRET, HOSTDIR, RUN, "/scratch/hardlink", "/scratch/bindread", OLD, OLD + ".img",
                        LISTS, HELD, PLACES, "/scratch/hardtool"])
        self.end_victim()
        self.end_nested()
        if os.path.isdir(f"{CGROUP}/cordon-attack"):
            for entry in os.scandir(f"{CGROUP}/cordon-attack"):  # what rows made
                if entry.is_dir():
                    os.rmdir(entry.path)
            os.rmdir(f"{CGROUP}/cordon-attack")

    # --- a part of a row

    def context(self, row, part, run_id):
        slug = f"{row.number:03}-{run_id}-{part}"
        return {
            "slug": slug, "token": f"token-{slug}-{os.getpid()}", "out": f"{OUT}/{slug}", "wd": f"{W}/app/{slug}",
            "X": X, "X6": X6, "GW": GW, "HOST": HOST, "HOST6": HOST6, "GW6": PEER6[1], "IF": IF, "PEER_MAC": self.peer_mac, "W": W, "SECRET": SECRET, "OLD": OLD, "AGAIN": AGAIN, "RUN": RUN,
            "HOSTDIR": HOSTDIR, "HARDLINK": "/scratch/hardlink", "BINDREAD": "/scratch/bindread", "BOUND": f"{OUT}/bound",
            "FAKE_DEVICE": f"{OUT}/device", "CGROUP": self.cgroup, "HOST_CGROUP": f"{CGROUP}/cordon-attack",
            "LISTS": LISTS, "HELD": HELD, "PLACES": PLACES, "ENFORCER": str(self.enforcer), "VICTIM": str(self.victim.pid) if self.victim else "0",
        }

    def furnish(self, base, text):
        os.makedirs(base + "/d")
        os.mkdir(base + "/e")
        for name in ("f", "g", "d/f"):
            self.write(f"{base}/{name}", text)
        os.symlink("f", base + "/s")

    def begin(self, row, a):
        """Makes the directories; clears the records."""
        if row.case.startswith("N"):
            os.mkdir(a.wd)
        else:
            self.furnish(a.out, "outside\n")
            self.furnish(a.wd, "inside\n")
        for root in row.roots:
            self.furnish(a.fill(root), "outside\n")
        if row.prep:
            row.prep(self, a)
        with self.listeners.lock:
            self.listeners.log.clear()
        self.sniff()
        self.frames.clear()
        self.modules = self.loaded()
        self.before = self.snapshots(row, a)

    def snapshots(self, row, a):
        return None if row.effect else [snapshot(root) for root in [a.out] + [a.fill(r) for r in row.roots]]

    def effect(self, row, a, result):
        """Did it happen? Waits for it in the control, and long enough to be sure otherwise."""
        self.new_modules = " ".join(sorted(self.loaded() - self.modules))
        if not row.effect:
            return self.snapshots(row, a) != self.before
        expected = row.allowed or self.phase in ("control", "audit")
        limit = time.monotonic() + (EFFECT_S if expected else 0.03)
        while not row.effect(self, a, result):
            if time.monotonic() > limit or result["errno"]:
                time.sleep(0.03)
                return row.effect(self, a, result)
            time.sleep(0.01)
        return True

    def forget_names(self):
        os.sync()
        self.write("/proc/sys/vm/drop_caches", "2")

    @staticmethod
    def loaded():
        with open("/proc/modules") as f:
            return {line.split()[0] for line in f}

    # --- what was seen

    def arrived(self, token):
        with self.listeners.lock:
            return any(data and token.encode() in data for _, data in self.listeners.log)

    def sniff(self):
        while True:
            try:
                frame, address = self.sniffer.recvfrom(65536)
            except BlockingIOError:
                return
            if address[2] != 4:  # PACKET_OUTGOING
                self.frames.append(frame)

    def on_wire(self, proto, dst, dport):
        self.sniff()
        dst = socket.inet_pton(socket.AF_INET6 if ":" in dst else socket.AF_INET, dst)
        return any(packet_is(frame, proto, dst, dport) for frame in self.frames)

    def asked(self, server, token):
        """Did this DNS server get a query for a name that holds the token?"""
        with self.listeners.lock:
            return any(name == f"dns {server}" and data and token.encode() in data for name, data in self.listeners.log)

    # --- what others do to the fence

    def dial(self, where, host, port, kind, data):
        """
        From outside (where: peer) or from the host itself: connects, or sends a datagram, and says what came back.
        An answer that does not come soon does not come.
        """
        got = []

        def do():
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as s:
                s.settimeout(0.6)
                try:
                    s.connect((host, port))
                    s.send(data.encode())
                    got.append(s.recv(1000).decode())
                except OSError as e:
                    got.append("" if isinstance(e, TimeoutError) else str(e))

        if where == "peer":
            self.in_namespace(do)
        else:
            do()
        return got[0]

    @staticmethod
    def dial_abstract(name):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(0.5)
            try:
                s.connect("\0" + name)
                return "connected"
            except OSError as e:
                return str(e)

    @staticmethod
    def msg_ring(pid, fd, path):
        """Opens a file and puts it into the first place of a process's io_uring, by a ring of one's own."""
        import ring
        theirs = ring.call(438, ring.call(434, pid, 0), fd, 0)
        r = ring.Ring(4)
        f = os.open(path, os.O_RDWR)
        ring.call(427, r.fd, 2, struct.pack("=i", f), 1)
        r.do(40, fd=theirs, addr=1, addr3=0, file_index=1)  # IORING_OP_MSG_RING: IORING_MSG_SEND_FD

    # --- processes and cgroups

    def new_victim(self):
        self.end_victim()
        self.victim = subprocess.Popen(["sleep", "1000"], process_group=0)

    def victim_dead(self):
        return self.victim.poll() is not None

    def end_victim(self):
        if self.victim:
            self.victim.kill()
            self.victim.wait()
            self.victim = None

    def nest(self, pid, allow_all):
        path = self.cgroup
        for level in "abc":
            path += f"/nest-{level}"
            os.mkdir(path)
            self.nested.insert(0, path)
        if allow_all:
            self.attach_allow_all(path)
        self.write(f"{path}/cgroup.procs", str(pid))

    @staticmethod
    def attach_allow_all(path):
        from rows_task import bpf_program
        fd = os.open(path, os.O_RDONLY)
        program = bpf_program()
        attr = struct.pack("=IIII", fd, program, 10, 2)  # BPF_CGROUP_INET4_CONNECT, BPF_F_ALLOW_MULTI
        check(libc.syscall(321, 8, attr, len(attr)))
        os.close(program)
        os.close(fd)

    def wire_up(self, pid):
        """Gives the network namespace of a process a way to the outside, its loopback, and a listener of the host there."""
        def in_theirs():
            self.listeners.add("theirs", socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", 7001))

        subprocess.run(["ip", "-n", NETNS, "link", "del", "cat2"], capture_output=True)  # of the one before
        run("ip", "-n", NETNS, "link", "add", "cat2", "type", "veth", "peer", "name", "cat3", "netns", str(pid))
        run("ip", "-n", NETNS, "address", "add", "10.98.0.1/24", "dev", "cat2")
        run("ip", "-n", NETNS, "link", "set", "cat2", "up")
        run("nsenter", "-t", str(pid), "-n", "sh", "-c", "ip link set lo up && ip address add 10.98.0.2/24 dev cat3 && "
            f"ip link set cat3 up && ip route add 10.99.0.0/24 via 10.98.0.1")
        self.in_namespace(in_theirs, f"/proc/{pid}/ns/net")

    def mount_for(self, pid, source, target):
        """A bind mount in the mount namespace of a process, until the part of the row is over."""
        run("nsenter", "-t", str(pid), "-m", "mount", "--bind", source, target)
        self.mounted.append((pid, target))

    def end_mounts(self):
        for pid, target in self.mounted:
            run("nsenter", "-t", str(pid), "-m", "umount", "-l", target)
        self.mounted = []

    @staticmethod
    def enter_and(cgroup, do):
        """By a process that enters a cgroup first: {got: its number, errno}."""
        pid = os.fork()
        if pid == 0:
            err = 255
            try:
                with open(f"{cgroup}/cgroup.procs", "w") as f:
                    f.write("0")
                err = do()
            finally:
                os._exit(err)
        return {"got": pid, "errno": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}

    def enter(self, cgroup):
        """A process that has entered a cgroup and executes nothing, until the part of the row is over: {got: its number}."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            with open(f"{cgroup}/cgroup.procs", "w") as f:
                f.write("0")
            os.write(write, b"x")
            time.sleep(60)
            os._exit(0)
        os.close(write)
        os.read(read, 1)
        os.close(read)
        self.entered.append(pid)
        return {"got": pid}

    def end_entered(self):
        while self.entered:
            pid = self.entered.pop()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    @staticmethod
    def umount(target):
        return ctypes.get_errno() if libc.umount2(target.encode(), 2) else 0

    @staticmethod
    def write_to(target):
        """What the kernel says to its content is its own affair."""
        try:
            os.write(os.open(target, os.O_WRONLY), b"exec unconfined")
        except OSError as e:
            return 0 if e.errno == errno.EINVAL else e.errno
        return 0

    @staticmethod
    def run_in(cgroup, command):
        """By a process that enters a cgroup first, and then executes a command: {got: its number, code}."""
        def enter():
            with open(f"{cgroup}/cgroup.procs", "w") as f:
                f.write("0")

        p = subprocess.Popen(command, preexec_fn=enter, stderr=subprocess.DEVNULL)
        return {"got": p.pid, "code": p.wait()}

    @staticmethod
    def renew(path):
        """Removes a directory with all that is in it and makes another that has its inode number."""
        number = os.stat(path).st_ino
        run("rm", "-rf", path)
        os.mkdir(path)
        for n in range(4000):
            if os.stat(path).st_ino == number:
                break
            os.rename(path, f"{path}-{n}")
            os.mkdir(path)
        found = os.stat(path).st_ino == number
        run("sh", "-c", f"rm -rf {path}-*")
        if not found:
            raise OSError(0, f"{path} does not get its inode number again")

    def end_nested(self):
        for path in self.nested:
            for _ in range(100):
                try:
                    os.rmdir(path)
                    break
                except OSError:
                    time.sleep(0.01)
        self.nested = []

    def make_socket(self, what, to):
        """What the executor asked for: a socket made out here, connected unless it is fresh."""
        proto = {"sctp": 132, "mptcp": 262}.get(what, 0)
        if what == "packet":
            s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
            s.bind(("lo", 0))
            return s
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if "udp" in what else socket.SOCK_STREAM, proto)
        if what == "tcp-listen":
            s.bind(("127.0.0.1", 0))
            s.listen()
            self.caller = socket.create_connection(s.getsockname())
        elif what not in ("tcp-fresh", "udp-fresh") and not proto:
            s.connect(tuple(to))
        return s

    def called_back(self, token):
        """Did the connection that waited at a listener that was handed in get the token?"""
        self.caller.settimeout(0.2)
        try:
            return token.encode() in self.caller.recv(100)
        except OSError:
            return False

    def bpf_map(self):
        """A BPF map that can be mapped into memory; self.shared is what it holds."""
        attr = struct.pack("=IIIII", 2, 4, 4096, 1, 1 << 10)  # BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE
        fd = check(libc.syscall(321, 0, attr, len(attr)))
        self.shared = mmap.mmap(fd, 4096)
        return fd

    def owned_pipe(self, pid):
        """The writing end of a pipe that signals a process when it can be read; both ends stay open here."""
        while self.owned:
            os.close(self.owned.pop())
        read, write = os.pipe()
        self.owned += [read, os.dup(write)]  # the end of the last writer would be a second signal
        fcntl.fcntl(read, fcntl.F_SETOWN, pid)
        fcntl.fcntl(read, 10, 15)  # F_SETSIG, SIGTERM
        fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
        return write


def packet_is(frame, proto, dst, dport):
    if len(frame) < 34:
        return False
    kind = struct.unpack("!H", frame[12:14])[0]
    if kind == 0x0800 and len(dst) == 4:
        if frame[23] != proto or frame[30:34] != dst:
            return False
        off = 14 + (frame[14] & 15) * 4
    elif kind == 0x86dd and len(dst) == 16:
        if len(frame) < 54 or frame[20] != proto or frame[38:54] != dst:
            return False
        off = 54
    else:
        return False
    return dport is None or struct.unpack("!H", frame[off + 2:off + 4])[0] == dport


def inode_flags(path, command):
    fd = os.open(path, os.O_RDONLY | os.O_NOATIME | os.O_NONBLOCK)
    try:
        return fcntl.ioctl(fd, command, bytes(8))
    except OSError:
        return None
    finally:
        os.close(fd)


def snapshot(root):
    """All that a mutation could change in a tree, without access times."""
    found = {}
    for directory, dirs, files in os.walk(root):
        for path in [directory] + [os.path.join(directory, n) for n in files + [d for d in dirs if os.path.islink(os.path.join(directory, d))]]:
            st = os.lstat(path)
            entry = [st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_size, st.st_mtime_ns, st.st_ino, st.st_rdev]
            kind = st.st_mode & 0o170000
            try:
                entry += sorted((n, os.getxattr(path, n, follow_symlinks=False)) for n in os.listxattr(path, follow_symlinks=False))
            except OSError as e:
                entry.append(e.errno)
            if kind == 0o120000:
                entry.append(os.readlink(path))
            if kind in (0o100000, 0o040000):
                entry += [inode_flags(path, 0x80086601), inode_flags(path, 0x80087601)]
            if kind == 0o100000:
                fd = os.open(path, os.O_RDONLY | os.O_NOATIME)
                entry.append(hashlib.sha256(os.read(fd, 1 << 20)).hexdigest())
                os.close(fd)
            found[path] = entry
    return found
