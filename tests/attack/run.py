#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""
run.py - the attacks that a fence has to withstand, as a table; see table.py for the form of a row.

usage: run.py [--only TEXT[,TEXT...]] [--list] [--events DIR]       every row in enforce mode, without Cordon, and in audit mode
       run.py --mutations [--only HOOK]                   removes one program after the other and sees that rows notice
       run.py --all                                       both
       run.py --break HOOK [--only TEXT]                  the rows of HOOK (or TEXT) before and after it is removed

Runs in a virtual machine (tests/vm), as root, with `cordon` on PATH: it makes a network namespace, binds ports of the
loopback, mounts over a device. Rows run one after the other in a process that is started once per mode: unfenced
(the control), under `cordon run`, under `cordon run --audit`. Every row has directories and a token of its own.

An attack passes in enforce mode when its control had the effect, it got the expected errno at once, the effect is absent,
and exactly the expected deny events came, complete; in audit mode when the effect happened and would_deny was reported.
Its twin, the legal neighbour, must succeed without any such event. A row whose control shows that the kernel
has no such thing is skipped with the reason. A row that did not run, or whose process crashed, fails.

Output: TAP lines, then the counts. Exit: 0 when nothing failed, 1 otherwise, 2 usage.
"""

import argparse
import bisect
import fcntl
import errno
import glob
import itertools
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from all_rows import ROWS  # noqa: E402
from arena import Arena, CGROUP, HELD, RUN, W  # noqa: E402
from table import Context  # noqa: E402

START_S, PART_S, SLOW_S = 120, 30, 10
VERBOSE = bool(os.environ.get("ATTACK_VERBOSE"))
PIN_DIR = "/sys/fs/bpf/cordon"
CGROUP_HOOKS = ("net_connect4", "net_connect6", "net_sendmsg4", "net_sendmsg6", "net_recvmsg4", "net_recvmsg6", "net_getpeername4",
                "net_getpeername6", "net_sock_create", "net_egress", "net_ingress")
FENCES = ("run", "lists", "attached")
AUDIT_LABELS = ("6.1+fmodret", "newest")  # of the matrix: audit mode is cordon's own code, and on the others costs minutes
LABEL = os.environ.get("CORDON_VM_LABEL")
AUDITED = ("enforce", "audit") if not LABEL or LABEL in AUDIT_LABELS else ("enforce",)


class Executor:
    """inside.py, started unfenced or fenced, and the conversation with it."""

    def __init__(self, arena, mode, fence="run"):
        self.arena, self.mode, self.fence = arena, mode, fence
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.buffer = b""
        name = mode if fence == "run" else f"{fence}-{mode}"
        self.events_path = f"{RUN}/events-{name}.jsonl"
        self.log_path = f"{RUN}/log-{name}"
        command = ["python3", "-B", f"{HERE}/inside.py"]
        options = ["-p", f"{RUN}/{'lists' if fence == 'lists' else 'policy'}.yaml", "-w", f"{W}/app", "--events", self.events_path,
                   "--ring-size", "4M"] + (["--audit"] if mode == "audit" else [])
        env = dict(os.environ)
        if fence == "attached":
            env["ATTACK_HELD"] = arena.hold()
        elif mode != "control":
            command = ["cordon", "run", *options, "--"] + command
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(command, stdin=theirs, stdout=log, stderr=log, cwd=f"{W}/app", env=env)
        theirs.close()
        self.pid = self.receive(START_S)["ready"]
        self.attached = self.attach(options) if fence == "attached" and mode != "control" else None
        with open(f"/proc/{self.pid}/cgroup") as f:
            own = f.read().strip().rpartition("::")[2]
        self.cgroup = CGROUP if own == "/" or mode == "control" else CGROUP + own
        self.enforcer = (self.attached or self.process).pid if mode != "control" else os.getpid()

    def attach(self, options):
        """A fence around the executor, which runs already and holds what it opened."""
        cgroup = f"{CGROUP}/cordon-held"
        os.makedirs(cgroup, exist_ok=True)
        with open(f"{cgroup}/cgroup.procs", "w") as f:
            f.write(str(self.pid))
        with open(self.log_path, "a") as log:
            p = subprocess.Popen(["cordon", "attach", "--cgroup", cgroup, *options], stdout=subprocess.PIPE, stderr=log, text=True)
        if not re.fullmatch("[0-9a-f]{16}", p.stdout.readline().strip()):
            raise RuntimeError(f"cordon attach: {self.last_words()}")
        return p

    def choose(self):
        """What rows see of where they run."""
        self.arena.cgroup, self.arena.enforcer = self.cgroup, self.enforcer

    def receive(self, timeout):
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                raise RuntimeError("no answer from the executor; " + self.last_words())
            data = self.socket.recv(65536)
            if not data:
                raise RuntimeError("the executor ended; " + self.last_words())
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def last_words(self):
        with open(self.log_path) as f:
            return f"exit {self.process.poll()}: {f.read()[-1500:]}"

    def run(self, row, part, context):
        request = {"row": row.number, "name": str(row), "part": part, "context": context}
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            answer = self.receive(PART_S)
            if "call" not in answer:
                return answer
            self.serve(answer)

    def serve(self, call):
        """What a row asks to be done outside."""
        fds, answer = [], {}
        try:
            if call["call"] == "socket":
                fds = [self.arena.make_socket(call["what"], call["to"]).detach()]
            elif call["call"] == "open":
                fds = [os.open(call["path"], call["flags"])]
            elif call["call"] == "ring":
                import ring
                fds = [os.dup(ring.Ring(8, call["flags"]).keep().fd)]
            elif call["call"] == "map":
                fds = [self.arena.bpf_map()]
            elif call["call"] == "owned":
                fds = [self.arena.owned_pipe(call["pid"])]
            elif call["call"] == "write":
                self.arena.write(call["path"], "x")
            elif call["call"] == "locked":
                answer = {"got": locked(call["path"], call["how"])}
            elif call["call"] == "forget":
                self.arena.forget_names()
            elif call["call"] == "dial":
                answer = {"got": self.arena.dial(call["where"], call["host"], call["port"], call["kind"], call["data"])}
            elif call["call"] == "wire":
                self.arena.wire_up(call["pid"])
            elif call["call"] == "move":
                self.arena.write(f"{call['path']}/cgroup.procs", str(call["pid"]))
            elif call["call"] == "umount":
                answer = self.arena.enter_and(call["path"], lambda: self.arena.umount(call["target"]))
            elif call["call"] == "write-entering":
                answer = self.arena.enter_and(call["path"], lambda: self.arena.write_to(call["target"]))
            elif call["call"] == "enter":
                answer = self.arena.enter(call["path"])
            elif call["call"] == "run":
                answer = self.arena.run_in(call["path"], call["command"])
            elif call["call"] == "rename":
                os.rename(call["old"], call["new"])
            elif call["call"] == "mount":
                self.arena.mount_for(self.pid, call["source"], call["target"])
            elif call["call"] == "renew":
                self.arena.renew(call["path"])
            elif call["call"] == "abstract":
                answer = {"got": self.arena.dial_abstract(call["name"])}
            elif call["call"] == "msgring":
                self.arena.msg_ring(call["pid"], call["fd"], call["path"])
            elif call["call"] == "nest":
                self.arena.nest(call["pid"], call["allow_all"])
            else:
                answer = {"error": "unknown call"}
        except OSError as e:
            answer = {"error": str(e)}
        try:
            socket.send_fds(self.socket, [json.dumps(answer).encode() + b"\n"], fds)
        except OSError as e:  # since 6.7 no io_uring is passed
            self.socket.sendall(json.dumps({"error": str(e)}).encode() + b"\n")
        for fd in fds:
            os.close(fd)

    def end(self):
        """Ends it in good order and returns its events. Anything but good order is an exception."""
        self.socket.close()
        code = self.process.wait(60)
        if self.attached:
            code = code or self.attached.wait(60)
        if code:
            raise RuntimeError(f"mode {self.mode}: ended badly: " + self.last_words())
        if self.mode == "control":
            return []
        with open(self.events_path) as f:
            return [json.loads(line) for line in f]


def locked(path, how):
    """Does somebody keep others from this file: by flock(2), by fcntl(2), by a lease?"""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK if how != "flock" else os.O_RDONLY)
        try:
            if how != "lease":
                (fcntl.flock if how == "flock" else fcntl.lockf)(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(fd)
    except BlockingIOError:
        return True
    return False


def run_part(executor, row, part, run_id):
    """One part of one row: prepared, run, its effect looked at."""
    arena = executor.arena
    executor.choose()
    begun = time.monotonic()
    if row.case in ("P-04", "P-05", "F-41"):
        arena.new_victim()
    values = arena.context(row, part, run_id)
    a = Context(values)
    arena.begin(row, a)
    try:
        result = executor.run(row, part, values)
    except RuntimeError as e:
        raise RuntimeError(f"{row} [{part}, {executor.mode}]: {e}") from None
    result["context"] = values
    try:
        result["effect"] = arena.effect(row, a, result) if part == "attack" and not (row.allowed and not row.effect) else None
        result["complaint"] = row.also(arena, a, result) if row.also and part == "attack" and executor.mode == "enforce" else None
    finally:
        if VERBOSE:
            print(f"# {time.monotonic() - begun:.2f} s {row} [{part}, {executor.mode}] {result.get('errno')} {result.get('effect')}", flush=True)
        arena.end_entered()
        arena.end_nested()
        arena.end_mounts()
        arena.end_victim()
    return result


# --- judging ----------------------------------------------------------------------------------------------------


class Denials:
    """What a fence denied, or would have, by process and, where there was none, by time: each row asks for its own."""

    def __init__(self, events):
        self.all = [e for e in events if e["verdict"] in ("deny", "would_deny")]
        self.of_pid = {}
        for e in self.all:
            if "process" in e:
                self.of_pid.setdefault(e["process"]["pid"], []).append(e)
        self.of_none = sorted((e for e in self.all if "process" not in e), key=when)

    def of(self, result):
        """Those of the part's processes, and those without a process in its time."""
        first = bisect.bisect_left(self.of_none, result["start"], key=when)
        last = bisect.bisect_right(self.of_none, result.get("until", result["end"]), key=when)
        found = [e for pid in {result["pid"], *result.get("pids", [])} for e in self.of_pid.get(pid, ())]
        return sorted(found + self.of_none[first:last], key=when)


def when(event):
    return event["mono_ns"]


def lengthen(results):
    """The time of each part of one fence lasts until the next one begins: a last packet may leave after its process."""
    for result, following in itertools.pairwise(results):
        result["until"] = following["start"] - 1


def value_of(event, key):
    for part in key.split("__"):
        event = event.get(part) if isinstance(event, dict) else None
    return event


def path_is(event, key, want):
    """The whole path; or, where the kernel knows no mount, its end, and the event says so."""
    have = value_of(event, key)
    truncated = value_of(event, key + "_truncated")
    return have == want or (truncated and have and not have.startswith("/") and want.endswith("/" + have))


def matches(event, matcher, a):
    ops, rules = matcher["op"], matcher["rule"]
    if event["op"] not in (ops if isinstance(ops, tuple) else (ops,)):
        return False
    if event["rule"] not in (rules if isinstance(rules, tuple) else (rules,)):
        return False
    for key, want in matcher["keys"].items():
        want = a.fill(want)
        if key == "count":
            continue
        if key in ("path", "path2"):
            if not path_is(event, "file__" + key, want):
                return False
            continue
        have = value_of(event, key if "__" in key else "net__" + key)
        if key == "guard__target_pid":
            want = int(want)
        if have != want:
            return False
    return True


REQUIRED = ("schema", "node", "seq", "time", "mono_ns", "type", "op", "verdict", "rule", "errno", "fence", "count")


def incomplete(event):
    """What an event of a denial lacks; None when it is whole."""
    for key in REQUIRED:
        if key not in event:
            return f"event without {key}"
    if not event["fence"].get("id") or event["fence"].get("generation") is None or event["fence"].get("mode") is None:
        return "event without fence id, generation or mode"
    if "process" in event and not (event["process"]["pid"] and event["process"]["pid_ns"] and
                                   (event["process"].get("exe") or event["op"] == "mmap")):  # mmap: it may be executing from memory
        return "event without pid, pid_ns or exe"
    if event["op"] not in ("packet", "inbound") and "process" not in event:
        return "event without process"
    return None


def brief(event):
    keep = {k: event.get(k) for k in ("op", "rule", "verdict", "errno") if event.get(k)}
    for group in ("file", "net", "guard"):
        keep.update(event.get(group) or {})
    return json.dumps({k: v for k, v in keep.items() if k not in ("dev", "ino")})


def judge_events(row, result, events, exact):
    """None, or what is wrong with the events of an attack."""
    a = Context(result["context"])
    left = list(events)
    for matcher in row.events:
        found = [e for e in left if matches(e, matcher, a)]
        count = matcher["keys"].get("count", range(1, 2))
        total = sum(e.get("count", 1) for e in found)
        if not found and 0 not in count:
            return f"no event {matcher['op']} {matcher['rule']} {a_filled(matcher, a)}; got: " + ("; ".join(map(brief, left)) or "none")
        if exact and total not in count:
            return f"{total} events where {count.start} is right: " + "; ".join(map(brief, found[:4]))
        left = [e for e in left if e not in found]
    if exact and left:
        return "more events than denied operations: " + "; ".join(map(brief, left[:4]))
    for e in events:
        lack = incomplete(e)
        if lack:
            return lack + ": " + brief(e)
    return None


def a_filled(matcher, a):
    return {k: a.fill(v) for k, v in matcher["keys"].items() if k != "count"}


def name_of(number):
    return "success" if number is None else errno.errorcode.get(number, str(number))


def judge_denied(row, result, events):
    """None, or why this is no denial as it should be."""
    if result["errno"] not in row.errnos:
        return (f"got {name_of(result['errno'])}{' and the effect' if result['effect'] else ''}, right is "
                + " or ".join(map(name_of, row.errnos)) + (f" ({result['error']})" if result["errno"] else ""))
    if result["effect"]:
        return "refused, and yet it had its effect"
    if result["complaint"]:
        return result["complaint"]
    took = (result["end"] - result["start"]) / 1e9 - result.get("waited", 0)
    if took > SLOW_S:
        return f"took {took:.1f} s"
    wrong = judge_events(row, result, events, exact=True)
    if wrong:
        return wrong
    for e in events:
        if e["verdict"] != "deny":
            return "verdict " + e["verdict"]
        if result["errno"] and e["errno"] != name_of(row.event_errno or result["errno"]):
            return f"the event says {e['errno']}, the caller got {name_of(result['errno'])}"
    return None


def judge_would(row, result, events):
    if result["errno"] is not None:
        return f"refused in audit mode: {result['error']}"
    if not result["effect"]:
        return "no effect in audit mode"
    if any(e["verdict"] != "would_deny" for e in events):
        return "denied in audit mode: " + "; ".join(brief(e) for e in events if e["verdict"] != "would_deny")
    return judge_events(row, result, events, exact=False)


def judge_allowed(result, events):
    if result["errno"] is not None or result["error"]:
        return f"refused: {result['error']}; events: " + ("; ".join(map(brief, events)) or "none")
    if events:
        return "succeeded, but reported: " + "; ".join(map(brief, events[:4]))
    if result["effect"] is False:
        return "without effect"
    return None


def failed(result):
    return bool(result.get("crash") or result["errno"])


def crashed(result):
    return result.get("crash") and (result.get("error") or "crashed")


class Report:
    def __init__(self):
        self.n = self.passed = self.failed = self.skipped = 0

    def line(self, name, wrong=None, skip=None):
        self.n += 1
        if skip:
            self.skipped += 1
            print(f"ok {self.n} - {name} # SKIP {skip}", flush=True)
        elif wrong:
            self.failed += 1
            print(f"not ok {self.n} - {name}\n#   {wrong}", flush=True)
        else:
            self.passed += 1
            print(f"ok {self.n} - {name}", flush=True)

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed or not self.passed else 0


def control_says(row, result):
    """(wrong, skip) of a control."""
    if result is None:
        return "the control did not run", None
    if result["errno"] in row.lacking and result["errno"] is not None:
        return None, f"this kernel has no such thing: {result['error']}"
    if crashed(result):
        return f"the control crashed: {result['error']}", None
    if result["errno"] is not None:
        return f"the control failed: {result['error']}", None
    if result["effect"] is False:
        return "the control had no effect", None
    return None, None


def judge_row(report, row, results, events):
    """All lines of one row."""
    def get(mode, part):
        return results.get((mode, row.number, part))

    def line(what, judge, mode, part="attack"):
        result = get(mode, part)
        if result is None:
            return report.line(f"{row} [{what}]", "did not run")
        wrong = crashed(result) or judge(result, events[mode].of(result))
        known = row.gap and wrong and not crashed(result)
        report.line(f"{row} [{what}]", wrong, f"known gap: {row.gap}" if known else None)

    wrong, skip = control_says(row, get("control", "attack"))
    if wrong or skip:
        report.line(f"{row} [{'allowed' if row.allowed else 'attack'}]", wrong, skip)
        return "skipped" if skip else "failed"
    if row.allowed:
        for mode in AUDITED:
            line(f"allowed, {mode}", judge_allowed, mode)
        return "ran"
    line("enforce", lambda r, e: judge_denied(row, r, e), "enforce")
    if "audit" in AUDITED:
        line("audit", lambda r, e: (judge_denied if row.audit == "deny" else judge_would)(row, r, e), "audit")
    twin = get("control", "twin")
    if twin and failed(twin):
        report.line(f"{row} [twin]", f"fails without Cordon too: {twin['error']}")
        return "ran"
    line("twin", judge_allowed, "enforce", "twin")
    return "ran"


def before(event, results, mode):
    """The part that began last before an event."""
    begun = [(r["start"], number, part) for (m, number, part), r in results.items() if m == mode and r["start"] <= event["mono_ns"]]
    if not begun:
        return "before all rows"
    start, number, part = max(begun)
    return f"{(event['mono_ns'] - start) / 1e6:.0f} ms after the start of {ROWS[number]} [{part}], {(results[mode, number, part]['end'] - start) / 1e6:.0f} ms long"


def judge_streams(report, results, events, streams):
    """What belongs to no row: events of nobody, gaps, the life of the fence."""
    for mode in AUDITED:
        mine = {id(e) for (m, _, _), r in results.items() if m == mode for e in events[mode].of(r)}
        strays = [e for e in events[mode].all if id(e) not in mine]
        report.line(f"every denial belongs to a row [{mode}]", "; ".join(f"{brief(e)} {before(e, results, mode)}" for e in strays[:5]))
    for (mode, fence), stream in streams.items():
        if mode == "control":
            continue
        ids = {e["fence"]["id"] for e in stream}
        report.line(f"all events of one fence, none lost [{fence}, {mode}]",
                    f"fences: {sorted(ids)}" if len(ids) != 1 else "gaps" if any(e["op"] == "gap" for e in stream) else None)
        seqs = sorted(e["seq"] for e in stream)
        report.line(f"numbered without holes [{fence}, {mode}]", None if seqs == list(range(1, len(seqs) + 1)) else f"{len(seqs)} events, {seqs[:1]}..{seqs[-1:]}")
        if fence == "attached":
            told = [e.get("detail", "") for e in stream if e["op"] == "holds"]
            missing = [n for r in ROWS for n in r.held if not n.startswith("dir-") and not any(t.endswith(f"{HELD}/{n}") for t in told)
                       and r in {row for row in ROWS if row.number in {k[1] for k in results}}]
            report.line(f"what was held before is named [{mode}]", f"not named: {missing[:3]}; named: {told[:3]}" if missing else None)


def run_rows(arena, rows, report):
    results, events, streams = {}, {}, {}
    for mode in ("enforce", "control", "audit")[:len(AUDITED) + 1]:
        arena.phase = mode
        begun = time.monotonic()
        executors = {fence: Executor(arena, mode, fence) for fence in FENCES if any(r.fence == fence for r in rows)}
        ready = time.monotonic()
        for row in rows:
            executor = executors[row.fence]
            result = run_part(executor, row, "attack", mode)
            why = mode == "control" and control_says(row, result)[0]
            if why:  # it shows that the attack can work: once is enough
                print(f"# again: {row}: {why}", flush=True)
                result = run_part(executor, row, "attack", mode + "-again")
            results[mode, row.number, "attack"] = result
            if row.allowed or mode == "audit" or mode == "control" and not failed(results["enforce", row.number, "twin"]):
                continue  # a twin runs without Cordon where it failed with it, to know whose fault that is
            results[mode, row.number, "twin"] = run_part(executor, row, "twin", mode)
        for fence, executor in executors.items():
            streams[mode, fence] = executor.end()
        events[mode] = Denials(e for (m, _), stream in streams.items() if m == mode for e in stream)
        lengthen(r for (m, _, _), r in results.items() if m == mode)
        print(f"# {mode}: started in {ready - begun:.1f} s, ran in {time.monotonic() - ready:.1f} s", flush=True)
    for missing in arena.missing:
        print(f"# no listener: {missing}")
    outcome = {row: judge_row(report, row, results, events) for row in rows}
    judge_streams(report, results, events, streams)
    attacks = [r for r in rows if not r.allowed]
    print(f"{len(attacks)} attack rows of {len({r.case for r in rows})} cases, {len(rows) - len(attacks)} rows that must be allowed, "
          f"{sum(outcome[r] == 'ran' for r in rows)} controls held, {sum(outcome[r] == 'ran' for r in attacks)} twins")


# --- mutations --------------------------------------------------------------------------------------------------


def pins(hook):
    """The links of a program; NAME2 and the like are the forms that it has on other kernels."""
    return [path for form in (hook, hook + "[0-9]") for path in glob.glob(f"{PIN_DIR}/**/link_{form}", recursive=True)]


def held(executors, row, run_id):
    """Was the attack stopped? By errno and effect; a crash is an exception."""
    result = run_part(executors[row.fence], row, "attack", run_id)
    if result.get("crash") and result["errno"] is None and not result["effect"]:
        return None
    return result["errno"] in row.errnos and not result["effect"] and not result["complaint"]


def break_hooks(executors, hooks, rows, report, run_id, removed):
    """Removes programs, besides those that are removed, and runs the rows that should notice."""
    names = hooks.split("+")
    before = {row: held(executors, row, run_id + "b") for row in rows}
    standing = [row for row, ok in before.items() if ok]
    gone = [name for name in names if not pins(name) and name not in removed]
    if not gone and standing and any(name in CGROUP_HOOKS for name in names):
        for executor in executors.values():
            os.kill((executor.attached or executor.process).pid, signal.SIGSTOP)  # or cordon would notice, and shut the network
    if gone:
        return report.line(f"without {hooks}", skip=f"this kernel has no {', '.join(gone)}")
    if not standing:
        return report.line(f"without {hooks}", f"nothing was stopped with it: {', '.join(map(str, rows))}")
    for name in names:
        removed.add(name)
        for path in pins(name):
            os.unlink(path)
    time.sleep(0.5)
    caught = [row for row in standing if held(executors, row, run_id + "a") is not True]
    print(f"# without {hooks}: " + ("; ".join(map(str, caught)) or "no row noticed"))
    report.line(f"without {hooks}, {len(caught)} of {len(standing)} rows notice", None if caught else "no row notices")


def end_broken(executors):
    """Ends executors whose fences were taken apart; how they end says nothing."""
    for executor in executors.values():
        for process in (executor.process, executor.attached):
            if process:
                os.kill(process.pid, signal.SIGCONT)
        executor.socket.close()
        executor.process.wait(60)
        if executor.attached:
            executor.attached.wait(60)


LAST = ("fence_task_alloc",)  # after it, no row's process is fenced


def run_mutations(arena, only, report):
    by_hook = {}
    for row in ROWS:
        for hook in row.hooks:
            by_hook.setdefault(hook, []).append(row)
    hooks = sorted((h for h in by_hook if not only or only in h), key=lambda h: (h in LAST, "+" in h))
    arena.phase = "enforce"
    executors = {fence: Executor(arena, "enforce", fence) for fence in FENCES if any(r.fence == fence for r in ROWS)}
    removed = set()
    for n, hook in enumerate(hooks):
        break_hooks(executors, hook, by_hook[hook], report, f"m{n}", removed)
    end_broken(executors)
    print(f"{len(hooks)} mutations")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--mutations", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--break", dest="hook")
    parser.add_argument("--events")
    options = parser.parse_args()
    rows = [r for r in ROWS if (any(word in str(r) for word in options.only.split(",")) or options.mutations)
            and (not LABEL or not r.labels or LABEL in r.labels)]
    if options.list:
        print("\n".join(f"{r}{'' if r.allowed else ' [attack]'}" for r in rows))
        return 0
    if not rows:
        parser.error("no such row")
    report, arena = Report(), Arena()
    arena.set_up()
    try:
        if options.hook:
            arena.phase = "enforce"
            chosen = rows if options.only else [r for r in ROWS if any(options.hook in h.split("+") for h in r.hooks)]
            executors = {fence: Executor(arena, "enforce", fence) for fence in FENCES if any(r.fence == fence for r in chosen)}
            break_hooks(executors, options.hook, chosen, report, "x", set())
            end_broken(executors)
        if not options.hook and not options.mutations:
            run_rows(arena, rows, report)
        if options.mutations or options.all:
            run_mutations(arena, options.only if options.mutations else "", report)
    finally:
        if options.events:
            shutil.copytree(RUN, options.events, dirs_exist_ok=True)
        arena.tear_down()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
