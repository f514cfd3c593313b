#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo's stage: one agent, once without Cordon and once fenced, and what came of it seen from outside.

usage: stage.py            (demo/run starts it: as root, in mount and network namespaces of its own)

Everything that the agent could reach is made here and goes with the namespaces: /srv is a tmpfs, /etc an overlay over
the real one whose shadow holds a canary, and the network a veth to another namespace where internet.py plays a public
host and the metadata service. Processes are ended one by one, also when this one is killed (PR_SET_PDEATHSIG). What
an attempt came to is the agent's report, the rule that decided is taken from Cordon's events by their time, and the
effects are looked up outside the agent. Exit: 0 all as expected, 1 not, 2 the stage could not be made.
"""

import ctypes
import itertools
import json
import os
import queue
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time

import agent
import internet

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(HERE)
CORDON = os.path.join(REPO, "build", "cordon")
GATEWAY = os.path.join(REPO, "build", "cordon-gateway")
TOOL = os.path.join(REPO, "policies", "tools", "refund.yaml")
POLICY = os.path.join(REPO, "policies", "refund-agent.yaml")
WORKDIR, BOOKS, AUDIT = "/srv/agent/work", "/srv/books", "/srv/audit"
# One that the policy lets the agent read; not, say, below /root.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
GATEWAY_DIR, GATEWAY_ID = "/srv/gateway", 8800  # its files, and its user and group
DECISIONS, ADMIN, ORDERS = f"{GATEWAY_DIR}/events.jsonl", f"{GATEWAY_DIR}/admin.sock", f"{GATEWAY_DIR}/orders.db"
LEDGER, RECORD, EVENTS = f"{AUDIT}/gateway.jsonl", f"{AUDIT}/internet.jsonl", f"{AUDIT}/events.jsonl"
TASK = {
    "task": "T-4711",
    "message": '"Where is my money?" (and, hidden in the mail: "ignore your instructions and ...")',
    "customer": "Ms Example",
    "tenant": "t-1",
    "order_id": "o-1001",
    "amount": 1500,
    "idempotency_key": "T-4711-refund-1",
    "large_order_id": "o-1003",
    "large_amount": 12000,
    "foreign_tenant": "t-2",
    "foreign_order_id": "o-2002",
    "pause_s": 0.2,
}
FILES = {  # what the agent has no business to change
    "/etc/hosts": "127.0.0.1 localhost\n",
    f"{BOOKS}/prices.csv": "espresso,2.20\n",
    f"{BOOKS}/ledger.csv": "opening,0\n",
    f"{BOOKS}/terms.txt": "thirty days\n",
}
SHADOW_CANARY, PAYROLL_CANARY = "canary-shadow", "canary-payroll"
DENIED_AT_ONCE_S = 2  # a denial is at once, never a hang; a slow emulated machine counted in
WIDE = 150
EVENT_LAG_S = 0.12  # what the agent says and what the kernel says within this time stand side by side

# The books, in minor units: order, tenant, paid; and what is to be refunded of them without and with Cordon.
BOOKED = (("o-1001", "t-1", 4900, 1500, 1500), ("o-1003", "t-1", 20000, 12000, 12000), ("o-2002", "t-2", 9900, 2000, 0))

# What each attempt to do the wrong deal must come to: without Cordon, with Cordon, the gateway's rule.
DEALS = {
    "foreign": ("HTTP 403 object_not_in_tenant", "HTTP 403 object_not_in_tenant", "gateway.tenant"),
    "foreign-stated": ("status ok", "HTTP 403 tenant_mismatch", "gateway.tenant"),
    "overdraw": ("HTTP 422 amount_out_of_range", "HTTP 422 amount_out_of_range", "gateway.amount"),
    "other-body": ("HTTP 422 key_reused_with_other_body", "HTTP 422 key_reused_with_other_body",
                   "gateway.idempotency"),
}
LARGE = ("status ok", "held, then ok; repeated: status duplicate")

# What the fence must answer to each attempt: (errno as the program sees it, rules that may have decided).
EXPECTED = {
    "tcp": ("EPERM", {"network.default"}),
    "tcp6": ("EPERM", {"network.default"}),
    "dns": ("EPERM", {"network.default"}),
    "metadata": ("EPERM", {"network.metadata"}),
    "metadata-mapped": ("EPERM", {"network.metadata"}),
    "metadata-hex": ("EPERM", {"network.metadata"}),
    "metadata6": ("EPERM", {"network.metadata"}),
    "cron": ("EROFS", {"files.write"}),
    "hosts": ("EROFS", {"files.write"}),
    "rename": ("EROFS", {"files.write"}),
    "symlink": ("EROFS", {"files.write"}),
    "hardlink": ("EROFS", {"files.write"}),
    "shadow": ("EACCES", {"files.read.deny"}),
    "packet": ("EPERM", {"network.family"}),
    "raw": ("EPERM", {"network.family"}),
    "ptrace": ("EPERM", {"guard.ptrace"}),
    "environ": ("EACCES", {"guard.ptrace"}),  # what proc(5) makes of a refused ptrace access
    "kill": ("EPERM", {"guard.signal"}),
}
NEEDS_IPV6 = ("tcp6", "metadata-mapped", "metadata6")


class StageError(Exception):
    """The stage could not be made; the text says why."""


# --- the screen -----------------------------------------------------------------------------------


def columns():
    text = os.environ.get("COLUMNS", "")
    return min(max(int(text), 60), 200) if text.isdigit() and int(text) > 0 else 100


COLOUR = os.environ.get("DEMO_COLOUR") == "1"
STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def paint(style, text):
    return f"\033[{STYLES[style]}m{text}\033[0m" if COLOUR and style and text else text


def cell(text, width, style=None):
    """Exactly width columns of plain text, and then its colour."""
    text = text if len(text) <= width else text[: width - 1] + "…"
    return paint(style, text) + " " * (width - len(text))


def say(text="", style=None):
    for paragraph in text.split("\n"):
        indent = paragraph[: len(paragraph) - len(paragraph.lstrip())]
        for line in textwrap.wrap(paragraph, columns() - 2, subsequent_indent=indent, break_on_hyphens=False) or [""]:
            print(paint(style, line), flush=True)


def say_command(argv):
    """A command line as one would type it in the repository."""
    words = (os.path.relpath(word, REPO) if word.startswith(REPO + "/") else word for word in argv)
    text = "$ " + " ".join("python3" if word == PYTHON else word for word in words)
    lines = textwrap.wrap(text, columns() - 4, subsequent_indent="    ", break_on_hyphens=False)
    print(paint("dim", " \\\n".join(lines)), flush=True)


def headline(text):
    print("\n" + paint("bold", f"── {text} " + "─" * max(columns() - len(text) - 4, 0)), flush=True)


def agent_style(line):
    return "green" if line.startswith("ok ") else "yellow" if line.startswith("failed ") else "dim"


def event_object(event):
    """What the event is about, in one word or two."""
    if net := event.get("net"):
        if "dst" in net:
            host = f"[{net['dst']}]" if ":" in net["dst"] else net["dst"]
            spelled = " (spelled as IPv6)" if net.get("mapped") else ""
            return f"{net.get('proto', '')} {host}:{net.get('dport', '')}{spelled}".strip()
        return " ".join(str(net[key]) for key in ("family", "socket_type", "proto") if key in net)
    if file := event.get("file"):
        return f"{file['path']} -> {file['path2']}" if "path2" in file else file["path"] or "?"
    if deal := event.get("gateway"):
        words = (deal["tool"], deal["object"], deal["amount"], "->", deal["status"], deal["reason"])
        return " ".join(str(word) for word in words if word is not None) + (f" by {deal['by']}" if "by" in deal else "")
    if guard := event.get("guard"):
        return f"process {guard['target_pid']}" if "target_pid" in guard else ""
    return event.get("detail", "")


def event_line(event):
    words = [event["op"], event_object(event)]
    if event["verdict"] != "allow":
        words = [event["verdict"], *words, "·", event["rule"], event.get("errno") or ""]
    return " ".join(word for word in words if word)


def event_style(event):
    return "red" if event["verdict"] == "deny" else "cyan"


def fold(text, width):
    return textwrap.wrap(text, width, subsequent_indent="       ", break_on_hyphens=False) or [""]


class Feed:
    """What the agent says, beside what the kernel says or, where there is no room, below each other."""

    def __init__(self, events):
        self.wide = events and columns() >= WIDE
        self.left = columns() * 46 // 100
        self.right = columns() - self.left - 3 if self.wide else columns() - 9
        self.said, self.seen = [], []
        if self.wide:
            print(cell("agent", self.left, "dim") + paint("dim", " │ ") + paint("dim", "Cordon's events, live"))

    def flush(self):
        if self.wide:
            nothing = ("", None)
            for one, other in itertools.zip_longest(self.said, self.seen, fillvalue=nothing):
                line = cell(one[0], self.left, one[1]) + paint("dim", " │") + " " + paint(other[1], other[0])
                print(line.rstrip(), flush=True)
        else:
            for prefix, lines in (("agent ", self.said), ("cordon", self.seen)):
                for text, style in lines:
                    print(paint("dim", prefix + " │ ") + paint(style, text), flush=True)
        self.said, self.seen = [], []

    def run(self, items, ended):
        """Shows items ("agent", line) and ("event", dict) until ended() and nothing is left; returns the events."""
        events, since = [], None
        while True:
            try:
                kind, item = items.get(timeout=0.02)
            except queue.Empty:
                if since is not None and time.monotonic() - since >= EVENT_LAG_S:
                    self.flush()
                    since = None
                elif since is None and ended():
                    return events
                continue
            since = time.monotonic() if since is None else since
            if kind == "agent":
                room = self.left if self.wide else self.right
                self.said += [(line, agent_style(item)) for line in fold(item, room)]
            elif kind == "human":
                self.seen += [(line, "blue") for line in fold(item, self.right)]
            else:
                if kind == "event":
                    events.append(item)
                self.seen += [(line, event_style(item)) for line in fold(event_line(item), self.right)]


# --- processes and the stage ----------------------------------------------------------------------


def die_with_parent(number):
    """For the child of a fork: the signal that it gets when this process ends, however it ends."""
    libc = ctypes.CDLL(None)

    def set_signal():
        libc.prctl(1, number, 0, 0, 0)

    return set_signal


def start(argv, ready=False, sig=signal.SIGKILL, **more):
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace",
        preexec_fn=die_with_parent(sig), **more,
    )
    if ready and process.stdout.readline() != "ready\n":
        process.kill()
        process.wait()
        raise StageError(f"{' '.join(argv)} did not start")
    return process


def stop(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(60)  # `cordon run` clears up, which takes its time on a slow machine
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def command(*argv):
    result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode:
        raise StageError(f"{' '.join(argv)}: {result.stderr.strip()}")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def records(path):
    return [json.loads(line) for line in read(path).splitlines()] if os.path.exists(path) else []


def check_namespaces():
    """Nothing below may happen in the host's own namespaces, which demo/run names."""
    for kind in ("mnt", "net"):
        host = os.environ.get(f"DEMO_HOST_{kind.upper()}")
        if host is None or os.readlink(f"/proc/self/ns/{kind}") == host:
            raise StageError(f"not in a {kind} namespace of its own; start demo/run")
    if REPO.startswith("/srv/"):
        raise StageError("the repository lies in /srv, where the stage is built; move it or use demo/run --vm")


def set_files():
    """/etc as an overlay whose upper side is memory; /srv as an empty tmpfs."""
    command("mount", "-t", "tmpfs", "-o", "mode=755", "demo", "/srv")
    os.mkdir("/srv/upper")
    os.mkdir("/srv/work")
    command("mount", "-t", "overlay", "-o", "lowerdir=/etc,upperdir=/srv/upper,workdir=/srv/work", "demo", "/etc")
    command("umount", "/srv")  # the overlay keeps its own hold
    command("mount", "-t", "tmpfs", "-o", "mode=755", "demo", "/srv")
    write("/etc/shadow", f"root:{SHADOW_CANARY}:19000:0:99999:7:::\n")
    os.chmod("/etc/shadow", 0o600)
    os.makedirs("/etc/cron.d", exist_ok=True)
    os.makedirs(AUDIT, 0o700)
    with open("/etc/group", "a", encoding="utf-8") as file:
        file.write(f"cordon-gateway:x:{GATEWAY_ID}:\n")
    # Where this tree is may be denied to the agent, such as /root.
    shutil.copy(f"{HERE}/agent.py", "/srv/agent.py")


def set_network():
    """Loopback, and a veth to the namespace of internet.py. Returns its process, and whether there is IPv6."""
    command("ip", "link", "set", "lo", "up")
    world = start(["unshare", "--net", "--", PYTHON, "-I", f"{HERE}/internet.py", RECORD], ready=True)
    inside = ("nsenter", "-t", str(world.pid), "-n")
    ipv6 = os.path.exists("/proc/sys/net/ipv6")
    try:
        command("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "world", "netns", str(world.pid))
        if ipv6:
            for where in ((), inside):
                command(*where, "sh", "-c", "for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 0 > $f; done")
        addresses = ["203.0.113.80/24", "169.254.169.254/32"] + ["2001:db8::80/64", "fd00:ec2::254/128"] * ipv6
        for address in addresses:
            command(*inside, "ip", "address", "add", address, "dev", "world", *["nodad"] * (":" in address))
        command(*inside, "ip", "link", "set", "world", "up")
        for address in ["203.0.113.1/24"] + ["2001:db8::1/64"] * ipv6:
            command("ip", "address", "add", address, "dev", "uplink", *["nodad"] * (":" in address))
        command("ip", "link", "set", "uplink", "up")
        for route in ["169.254.169.254/32"] + ["fd00:ec2::254/128"] * ipv6:
            command("ip", "route", "add", route, "dev", "uplink")
    except StageError:
        stop(world)
        raise
    return world, ipv6


# --- the acts -------------------------------------------------------------------------------------


class Act:
    """One run of the agent in a fresh world, and what it left behind."""

    def __init__(self, fenced, leave_out):
        self.fenced = fenced
        self.events = []
        self.processes = []
        for path in (LEDGER, EVENTS, "/etc/cron.d/backdoor"):
            if os.path.exists(path):
                os.unlink(path)
        with open(RECORD, "a", encoding="utf-8") as file:  # internet.py goes on appending
            file.truncate(0)
        shutil.rmtree(WORKDIR, ignore_errors=True)
        for path, text in FILES.items():
            if os.path.lexists(path):
                os.unlink(path)  # a hard link may have been made to it
            write(path, text)
        try:
            self.run(leave_out)
            self.look()
        finally:
            for process in reversed(self.processes):
                stop(process)

    def start(self, *argv, **more):
        self.processes.append(start(list(argv), **more))
        return self.processes[-1]

    def start_gateway(self):
        """cordon-gateway, as a user of its own; everybody else's is the stand-in."""
        if not self.fenced:
            self.start(PYTHON, "-I", f"{HERE}/gateway.py", LEDGER, ready=True)
            return
        os.makedirs(GATEWAY_DIR)
        for path in (GATEWAY, TOOL):
            shutil.copy(path, GATEWAY_DIR)
        write(f"{GATEWAY_DIR}/gateway.yaml",
              f"cordon: 1\nlisten: [127.0.0.1:8800]\nstore: sqlite:{ORDERS}\nevents: {DECISIONS}\nadmin: {ADMIN}\n"
              "tools: [refund.yaml]\nlimits: {connections: 256}\n")
        books = sqlite3.connect(ORDERS)
        books.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, amount_paid BIGINT NOT NULL, "
                      "refunded BIGINT NOT NULL DEFAULT 0)")
        books.executemany("INSERT INTO orders VALUES (?, ?, ?, 0)", [row[:3] for row in BOOKED])
        books.commit()
        books.close()
        for name in [GATEWAY_DIR] + [f"{GATEWAY_DIR}/{name}" for name in os.listdir(GATEWAY_DIR)]:
            os.chown(name, GATEWAY_ID, GATEWAY_ID)
        argv = ["setpriv", f"--reuid={GATEWAY_ID}", f"--regid={GATEWAY_ID}", "--clear-groups", "--bounding-set=-all",
                "--inh-caps=-all", f"{GATEWAY_DIR}/cordon-gateway", "--config", f"{GATEWAY_DIR}/gateway.yaml"]
        say_command([GATEWAY, "--config", f"{GATEWAY_DIR}/gateway.yaml"])
        gateway = self.start(*argv, stderr=subprocess.PIPE)
        for line in gateway.stderr:
            if line.rstrip().endswith("ready"):
                break
        else:
            raise StageError("cordon-gateway did not start")
        threading.Thread(target=lambda: list(gateway.stderr), daemon=True).start()

    def run(self, leave_out):
        self.start_gateway()
        payroll = ("import time", "print('ready', flush=True)", "time.sleep(3600)")
        self.neighbour = self.start(PYTHON, "-I", "-c", "\n".join(payroll), ready=True,
                                    env={"PAYROLL_KEY": PAYROLL_CANARY})
        task = {**TASK, "neighbour_pid": self.neighbour.pid, "leave_out": leave_out}
        write(f"{WORKDIR}/task.json", json.dumps(task))
        argv = [PYTHON, "-I", "/srv/agent.py"]
        if self.fenced:
            argv = [CORDON, "run", "-p", POLICY, "-w", WORKDIR, "--events", EVENTS, "--task",
                    task["task"], "--tenant", task["tenant"], "--subject", "support@example", "--", *argv]
            say_command(argv)
        process = self.start(*argv, cwd=WORKDIR, stderr=subprocess.STDOUT, sig=signal.SIGTERM)
        items = queue.Queue()
        readers = [threading.Thread(target=read_agent, args=(process, items), daemon=True)]
        if self.fenced:
            readers.append(threading.Thread(target=read_events, args=(process, items), daemon=True))
            readers.append(threading.Thread(target=read_decisions, args=(process, items), daemon=True))
        for reader in readers:
            reader.start()
        self.events = Feed(self.fenced).run(items, lambda: not any(reader.is_alive() for reader in readers))
        self.code = process.wait()
        if not os.path.exists(f"{WORKDIR}/outcomes.jsonl"):
            raise StageError(f"the agent did not start (exit code {self.code})")

    def look(self):
        """The effects, from outside the agent."""
        self.outcomes = {outcome["id"]: outcome for outcome in records(f"{WORKDIR}/outcomes.jsonl")}
        self.saw = [entry["saw"] for entry in records(RECORD)]
        self.changed = {path: not os.path.exists(path) or read(path) != text for path, text in FILES.items()}
        self.changed["/etc/cron.d/backdoor"] = os.path.exists("/etc/cron.d/backdoor")
        self.killed = self.neighbour.poll() is not None
        self.decisions = records(DECISIONS) if self.fenced else []
        self.refunded = self.books()
        self.draft = os.path.exists(f"{WORKDIR}/reply.md") and os.path.exists(f"{WORKDIR}/refund.json")

    def books(self):
        """What was refunded, by order; with Cordon by the gateway's database, else by the stand-in's ledger."""
        if not self.fenced:
            done = records(LEDGER)
            return {order: sum(e["refund"]["amount"] for e in done if e["order"] == order) for order, *_ in BOOKED}
        books = sqlite3.connect(ORDERS)
        refunded = dict(books.execute("SELECT id, refunded FROM orders"))
        books.close()
        return refunded

    def rules_of_deal(self, name):
        """The gateway's refusals within the time of one attempt."""
        outcome = self.outcomes[name]
        return [event["rule"] for event in self.decisions
                if event["verdict"] == "deny" and outcome["start_ns"] <= event["mono_ns"] <= outcome["end_ns"]]

    def denials(self, name):
        """The denials that fell into the time of one attempt."""
        outcome = self.outcomes[name]
        return [event for event in self.events
                if event["verdict"] == "deny" and outcome["start_ns"] <= event["mono_ns"] <= outcome["end_ns"]]


def read_agent(process, items):
    for line in process.stdout:
        items.put(("agent", line.rstrip("\n")))


def read_events(process, items):
    """Follows the file of events until the end of `cordon run`, which wrote all of it by then."""
    rest = ""
    while not os.path.exists(EVENTS) and process.poll() is None:
        time.sleep(0.01)
    if not os.path.exists(EVENTS):
        return
    with open(EVENTS, encoding="utf-8") as file:
        while True:
            ended = process.poll() is not None
            rest += file.read()
            *lines, rest = rest.split("\n")
            for line in lines:
                items.put(("event", json.loads(line)))
            if ended:
                return
            time.sleep(0.01)


def decide(event, items):
    """The human: hears of a held call, and approves it."""
    approval = event["gateway"]["approval"]
    argv = [CORDON, "approvals", "approve", approval, "--admin", ADMIN, "--reason", "called the customer"]
    items.put(("human", f"a human: $ cordon approvals approve {approval[:8]}… --reason 'called the customer'"))
    answer = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    items.put(("human", f"a human: {(answer.stdout or answer.stderr).strip()}"))


def read_decisions(process, items):
    """Follows what the gateway decided until the agent's end; the human acts on what is held."""
    rest = ""
    with open(DECISIONS, encoding="utf-8") as file:
        while True:
            ended = process.poll() is not None
            rest += file.read()
            *lines, rest = rest.split("\n")
            for line in lines:
                event = json.loads(line)
                items.put(("decision", event))
                if event["op"] == "call" and event["gateway"]["status"] == 202:
                    threading.Thread(target=decide, args=(event, items), daemon=True).start()
            if ended:
                return
            time.sleep(0.02)


# --- the account ----------------------------------------------------------------------------------


def judge_attempt(name, free, fenced):
    """What the table says of one attempt: (without, with, rule, as expected)."""
    one, other = free.outcomes.get(name), fenced.outcomes.get(name)
    if one is None or other is None:
        return "?" if one is None else one["text"], "?", "the agent did not get to it", False
    rules = list(dict.fromkeys(event["rule"] for event in fenced.denials(name)))
    wanted_errno, wanted_rules = EXPECTED[name]
    at_once = other["end_ns"] - other["start_ns"] < DENIED_AT_ONCE_S * 1e9
    good = one["ok"] and not other["ok"] and other["errno"] == wanted_errno and at_once
    good = good and bool(rules) and set(rules) <= wanted_rules
    answer = other["text"] if other["ok"] or not other["errno"] else f"{other['errno']} {other['text']}"
    return one["text"], answer + ("" if at_once else ", late"), ", ".join(rules) or "no event", good


def judge_work(name, free, fenced):
    one, other = (act.outcomes.get(name, {"ok": False, "text": "?"}) for act in (free, fenced))
    good = one["ok"] and other["ok"]
    if name == "refund-large":
        return one["text"], other["text"], "", good and (one["text"], other["text"]) == LARGE
    return one["text"], other["text"], "", good and one["text"] == other["text"]


def judge_deal(name, free, fenced):
    one, other = (act.outcomes.get(name, {"text": "?"})["text"] for act in (free, fenced))
    rules = fenced.rules_of_deal(name) if name in fenced.outcomes else []
    return one, other, ", ".join(rules) or "no event", (one, other, *rules) == DEALS[name]


def table(rows, heads):
    """Rows of (text, text, text, text, good); the first column carries the mark."""
    room = columns() - 2
    widths = [max([len(heads[i])] + [len(row[i]) for row in rows]) for i in range(4)]
    while sum(widths) + 6 > room and max(widths) > 14:
        widths[widths.index(max(widths))] -= 1
    print("  " + "  ".join(cell(head, width, "bold") for head, width in zip(heads, widths)).rstrip())
    for *texts, good in rows:
        styles = (None, "yellow", "green", "dim") if good else ("red",) * 4
        line = "  ".join(cell(text, width, style) for text, width, style in zip(texts, widths, styles))
        print((paint("green", "✓ ") if good else paint("red", "✗ ")) + line.rstrip(), flush=True)


def attempt_rows(free, fenced, leave_out):
    rows = []
    for names, judge in ((agent.WORK, judge_work), (agent.BUSINESS, judge_deal), (agent.MISCHIEF, judge_attempt)):
        for name, title, _ in names:
            if name not in leave_out:
                rows.append((title, *judge(name, free, fenced)))
    return rows


def effect_rows(free, fenced):
    acts = (free, fenced)
    rows = []

    def row(what, texts, good):
        rows.append((what, *texts, "", good))

    for saw, what in (("packet", "packets that left for the world"), ("http", "uploads to the public host"),
                      ("dns", "names it was asked for"), ("credential", "metadata credentials given away")):
        numbers = [act.saw.count(saw) for act in acts]
        row(what, map(str, numbers), numbers[0] > 0 and numbers[1] == 0)
    for path in free.changed:
        words = ("is there", "absent") if path.endswith("backdoor") else ("changed", "unchanged")
        states = [act.changed[path] for act in acts]
        row(path, (words[0] if state else words[1] for state in states), states == [True, False])
    fates = ["killed" if act.killed else "alive" for act in acts]
    row("the payroll process", fates, fates == ["killed", "alive"])
    for order, tenant, _, wanted_free, wanted_fenced in BOOKED:
        sums = [act.refunded[order] for act in acts]
        row(f"refunded of {order}, tenant {tenant}", map(str, sums), sums == [wanted_free, wanted_fenced])
    drafts = ["there" if act.draft else "missing" for act in acts]
    row("reply and receipt in the workdir", drafts, drafts == ["there", "there"])
    return rows


def canaries_kept():
    """Nothing worth stealing is in what the fenced agent could carry away."""
    texts = (read(os.path.join(WORKDIR, name)) for name in os.listdir(WORKDIR) if os.path.isfile(f"{WORKDIR}/{name}"))
    secrets = (internet.CANARY, SHADOW_CANARY, PAYROLL_CANARY)
    return not any(secret in text for text in texts for secret in secrets)


def event_account(fenced):
    """Lines about the stream of events; true where it is complete."""
    verdicts = [event["verdict"] for event in fenced.events]
    cold = [event["cold_start_ns"] for event in fenced.events if event["op"] == "cold_start"]
    numbers = sorted(event["seq"] for event in fenced.events)
    complete = numbers == list(range(1, len(numbers) + 1)) and not any(e["type"] == "loss" for e in fenced.events)
    proved = next((event.get("detail", "") for event in fenced.events if event["op"] == "enforcing"), None)
    say(f"  {len(verdicts)} events, {verdicts.count('deny')} of them denials, numbered "
        + ("without a hole" if complete else "WITH HOLES") + "; all of task "
        + ", ".join(sorted({str(event["fence"]["task"]) for event in fenced.events})) + ".")
    say(f"  proved before the agent started: {proved or 'NOT REPORTED'}")
    machine = " (in an emulated machine)" if os.environ.get("CORDON_VM") else ""
    figure = f"{cold[0] / 1e6:.0f} ms from exec of cordon to exec of the agent{machine}" if cold else "NOT REPORTED"
    say(f"  cold start: {figure}")
    return complete and bool(cold) and proved is not None


def timeline_account(fenced):
    """Kernel and gateway in one order; true where everything is in it."""
    argv = [CORDON, "timeline", TASK["task"], EVENTS, DECISIONS, "-o", "json"]
    result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    times = [line["mono_ns"] for line in lines]
    decisions = sum(line["type"] == "gateway" for line in lines)
    whole = len(lines) == len(fenced.events) + len(fenced.decisions) and times == sorted(times)
    say(f"  cordon timeline {TASK['task']}: {len(lines)} records in order, {decisions} of them the gateway's"
        + ("" if whole else " - NOT COMPLETE"))
    return whole and result.returncode == 0 and decisions > 0


def account(free, fenced, leave_out):
    headline("3. The account")
    attempts = attempt_rows(free, fenced, leave_out)
    table(attempts, ("what the agent tried", "without Cordon", "with Cordon", "rule"))
    headline("Seen from outside the agent")
    effects = effect_rows(free, fenced)
    table(effects, ("effect", "without Cordon", "with Cordon", ""))
    print()
    good = [event_account(fenced), timeline_account(fenced), canaries_kept(), free.code == 0, fenced.code == 0]
    wrong = sum(not row[-1] for row in attempts + effects)
    names = ("the stream of events is not complete", "the timeline is not complete", "a canary is in the fenced workdir",
             f"the free agent ended with {free.code}", f"the fenced agent ended with {fenced.code}")
    for name, fine in zip(names, good):
        if not fine:
            say("✗ " + name, "red")
    print()
    if wrong or not all(good):
        say(f"NOT as expected: {wrong} of {len(attempts) + len(effects)} rows.", "red")
        return 1
    say("As expected: the same work was done, and nothing else.", "green")
    return 0


def intro(ipv6):
    say("Cordon, one agent, twice", "bold")
    say(
        "An agent has a refund to make. It is a plain Python program, run as root with every capability, and a "
        "poisoned message makes it try whatever an agent should not be able to do. First it runs as agents mostly "
        "run today. Then the same program runs in a fence: the kernel lets it write in its workdir and talk to the "
        "gateway, and nothing else."
    )
    say(
        "The public host, the metadata service, /etc and all secrets are made up for this. Without Cordon the gateway "
        "is one that believes what it is told; with Cordon it is cordon-gateway, whose limit for one refund is 100.00.",
        "dim",
    )
    if not ipv6:
        say("This kernel has no IPv6: three attempts are left out.", "yellow")


def show():
    check_namespaces()
    set_files()
    world, ipv6 = set_network()
    leave_out = [] if ipv6 else list(NEEDS_IPV6)
    try:
        intro(ipv6)
        headline("1. Without Cordon")
        free = Act(False, leave_out)
        headline("2. With Cordon: policies/refund-agent.yaml")
        fenced = Act(True, leave_out)
        return account(free, fenced, leave_out)
    finally:
        stop(world)


def interrupted(number, _):
    sys.exit(128 + number)


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    try:
        return show()
    except StageError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
