# SPDX-License-Identifier: Apache-2.0
"""What gateways tell cordond, with a real gateway and real fences, and who reads it: groups for tests/daemon/gateway."""
import errno
import json
import shutil
import subprocess
import sys

from guest import AGENT_COMMAND, BASE, Agent, brief, complete, cordon, fence_id, wait_for
from daemon import DEFINE_TELL, GATEWAY_PORT, TELL, Follower, Gateway, Task, as_user, frame, listed, numbers


def attach(name):
    """A task with a fence that may refund, which the gateway knows."""
    policy = f"{BASE}/told.yaml"
    with open(policy, "w", encoding="utf-8") as f:
        f.write(f"cordon: 1\nname: told\nscopes: ['refund:create']\nnetwork: {{gateway: '127.0.0.1:{GATEWAY_PORT}'}}\n")
    task = Task(name)
    task(DEFINE_TELL)
    task.fence = fence_id(cordon("attach", "--cgroup", task.cgroup, "-w", task.work, "-p", policy, "--task", name, "--tenant", "t-1", "--subject", name,
                                 timeout=200).stdout)
    wait_for(lambda: task("refund('o-9', 1, 'known')")[0] != 401, 60)
    return task


def decided(follower, task, *keys):
    """What the stream tells of calls with these keys."""
    found = [e for e in follower.of(task.fence) if e["type"] == "gateway" and e["gateway"]["idempotency_key"] in keys]
    return [(e["verdict"], e["gateway"]["status"], e["gateway"].get("destructive", False)) for e in found]


def decisions(tap, daemon, plain):
    """They stand among the kernel's, in one count; nobody else's do. Three destructive ones of a subject are an alert."""
    daemon.configure(plain + "alerts: {destructive: {calls: 3, window: 1h}, quiet: 1h}\n")
    gw = Gateway()
    tap.ok(gw.process.poll() is None and "does not take" not in gw.log(), "a gateway whose events go to cordond, as is the default", gw.log())
    ops, rules, verdicts = numbers("CORDON_OPS"), numbers("CORDON_RULES"), numbers("CORDON_VERDICTS")
    good = (ops["CALL"], rules["GW_OK"], verdicts["ALLOW"])
    with Follower("told") as follower:
        a, host = attach("told-a"), Agent(AGENT_COMMAND)
        host(DEFINE_TELL)
        a("deny('/etc/cordon-told', 1)")
        tap.eq([a("refund('o-1', 5, 'k')"), a("refund('o-1', 5, 'k')"), a("refund('o-2', 5, 'x', 't-1')")],
               [[200, "ok"], [200, "duplicate"], [403, "object_not_in_tenant"]], "a task refunds, once, and not another tenant's")
        # An answer that was given has its event in the stream.
        tap.ok(wait_for(lambda: len(decided(follower, a, "k", "x")) == 3, 60), "its calls are in cordond's stream", brief(follower.of(a.fence)))
        tap.eq(decided(follower, a, "k", "x"), [("allow", 200, True), ("allow", 200, False), ("deny", 403, False)], "each with its answer; what was done, once")
        event = [e for e in follower.of(a.fence) if e["type"] == "gateway"][-1]
        tap.eq((event["fence"]["task"], event["fence"]["name"], event["fence"]["tenant"], event["gateway"]["tool"]), ("told-a", "told", "t-1", "refund"), "of the fence")
        tap.ok(host("refund('o-1', 5, 'h')")[0] == 401 and wait_for(lambda: any(e["type"] == "gateway" for e in follower.of(0)), 60),
               "a caller that is no fence: an event of none", brief(follower.of(0)))
        lines = [json.loads(line) for line in cordon("timeline", "told-a").stdout.splitlines()]
        at = [i for i, e in enumerate(lines) if e["type"] == "file" or (e["type"] == "gateway" and e["gateway"]["reason"] == "ok")]
        tap.ok([lines[i]["type"] for i in at] == ["file", "gateway"] and len({e["seq"] for e in lines}) == len(lines),
               "cordon timeline: kernel and gateway in one order and one count", brief(lines))

        raw = lambda: [e for e in follower.of(0) if e["type"] == "gateway" and not e["gateway"]["tool"]]
        tap.eq([host(f"tell_frame('{frame(*bad)}')") for bad in ((ops["OPEN_WRITE"], rules["FILES_WRITE"], verdicts["DENY"], a.fence),
                                                                 (ops["START"], rules["NONE"], verdicts["ALLOW"], a.fence),
                                                                 (ops["DENY_RATE"], rules["ALERT_DENY_RATE"], verdicts["ALLOW"], a.fence))],
               [-errno.EBADMSG] * 3, "what claims to be of the kernel, of a fence's life or an alert is refused")
        tap.eq(host(f"tell_frame('{frame(*good)}')"), 0, "twin: root's frame of a call is taken")
        got = as_user("nobody", sys.executable, "-c", f"import json, socket\nexec({TELL!r})\nprint(tell_frame('{frame(*good, number=2)}'))")
        tap.ok(got.stdout.strip() in (str(-errno.EPERM), "reset"), "of nobody it is not", got.stdout + got.stderr)
        tap.eq(a(f"tell_frame('{frame(*good, number=3)}')"), "EPERM", "a fence does not reach the socket")
        wait_for(raw, 60)
        tap.eq(len(raw()), 1, "of all these one is in the stream")

        b = attach("told-b")
        tap.eq([b(f"refund('o-1', 1, 'look-{i}', path='/look')")[1] for i in range(3)], ["ok"] * 3, "three calls of a tool that takes nothing away")
        tap.eq([b(f"refund('o-1', 1, 'take-{i}')")[1] for i in range(2)] + [b("refund('o-1', 1, 'take-1')")[1]], ["ok", "ok", "duplicate"], "two of one that does")
        told = lambda: [e for e in follower.of(b.fence) if e["op"] == "destructive"]
        tap.ok(wait_for(lambda: len(decided(follower, b, "take-1")) == 2, 60) and not told(), "are no alert", brief(told()))
        b("refund('o-1', 1, 'take-2')")
        tap.ok(wait_for(told, 60), "the third is one", brief(follower.of(b.fence)[-3:]))
        tap.ok(told() and (told()[0]["type"], told()[0]["rule"], told()[0]["count"], told()[0]["fence"]["subject"]) ==
               ("limit", "alert.destructive", 3, "told-b") and told()[0]["first"] < told()[0]["last"], "with how many, and of whom", told())
        for task in (a, b):
            cordon("detach", f"{task.fence:016x}")
            tap.ok(wait_for(lambda: any(e["op"] == "end" for e in follower.of(task.fence)), 60), "the fence ends")  # pylint: disable=cell-var-from-loop
            last = max(e["seq"] for e in follower.of(task.fence) if e["op"] == "end")
            tap.eq(complete([e for e in follower.of(task.fence) if e["seq"] <= last]), None, "kernel, gateway and alerts together have every number")
    tap.eq(gw.stop(), 0, "the gateway ends well")
    host.end()
    daemon.configure(plain)
    for task in (a, b):
        task.drop()
    shutil.rmtree(gw.dir)


def deaths(tap, daemon, again):
    """cordond's, while a gateway decides: nothing is decided without it, and no event is lost. again() starts the next cordond, which is returned."""
    gw = Gateway()
    c = attach("told-c")
    done = gw.refunded()
    daemon.kill("both")
    tap.eq((c("refund('o-1', 7, 'away')"), gw.refunded()), ([503, "unavailable"], done), "cordond is dead: 503, and nothing is done")
    tap.eq(c("deny('/etc/cordon-told', 1)"), 1, "the fence holds")
    tap.ok("cordond does not take them" in gw.log(), "the gateway says why", gw.log())
    daemon = again()
    tap.ok(daemon.ready() and listed(c.fence), "cordond is there again", daemon.log())
    wait_for(lambda: c("refund('o-1', 7, 'away')")[0] == 200, 120)
    tap.eq((c("refund('o-1', 7, 'away')"), gw.refunded()), ([200, "duplicate"], done + 7), "and so are decisions")
    with Follower("told-c", "--since", "1d") as follower:
        # Who the caller was nobody could tell, for identities are the keeper's; so nothing of the request was read.
        refused = lambda: [e["gateway"]["status"] for e in follower.of(0) if e["type"] == "gateway"]
        tap.ok(wait_for(lambda: ("allow", 200, True) in decided(follower, c, "away") and 503 in refused(), 60), "what was refused meanwhile is told, too",
               f"{brief(follower.of(c.fence))} {refused()}")
        daemon.kill("front")
        tap.eq((c("refund('o-1', 2, 'front')"), gw.refunded()), ([200, "ok"], done + 9), "a front that is killed is waited for")
    with Follower("told-d", "--since", "1d") as follower:
        tap.ok(wait_for(lambda: decided(follower, c, "front"), 60), "the next one has the event", brief(follower.of(c.fence)))
    tap.eq(gw.stop(), 0, "the gateway ends well")
    c.drop()
    wait_for(lambda: not listed(c.fence))
    return daemon


def readers(tap, daemon, again):
    """cordon events -f goes on with the next cordond, and says since when there was none; timeline waits; told not to, they end."""
    task = Task("daemon-again")
    with Follower("again", reconnect=True) as follower:
        fence = fence_id(cordon("attach", "--cgroup", task.cgroup, "-w", task.work, "--task", "again", timeout=200).stdout)
        task("deny('/etc/cordon-again', 3)")
        wait_for(lambda: sum(e["verdict"] == "deny" for e in follower.of(fence)) == 3, 120)
        lags = lambda: [e for e in follower.of(0) if e["op"] == "lag"]
        for n, what in enumerate(("front", "both"), 1):
            one = Follower("again-one")
            daemon.kill(what)
            tap.eq(one.process.wait(120), 1, f"{what} killed: events -f --no-reconnect ends with 1")
            if what == "both":
                late = subprocess.Popen(["cordon", "timeline", "again"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                got = cordon("timeline", "again", "--no-reconnect")
                tap.ok(got.returncode == 1 and got.stderr.count("\n") == 1, "timeline --no-reconnect: 1 and a line", got.stderr)
                daemon = again()
                said = late.communicate(timeout=200)[1]
                # On a slow host its 10 s are over before cordond is there.
                tap.ok("trying to reach it again" in said and (late.returncode == 0 or "nobody listens" in said), "timeline has waited for it", said)
            wait_for(lambda: listed(fence), 120)
            task("deny('/etc/cordon-again', 2)")
            tap.ok(wait_for(lambda: sum(e["verdict"] == "deny" for e in follower.of(fence)) == 3 + 2 * n, 120), "events -f goes on with what comes",  # pylint: disable=cell-var-from-loop
                   brief(follower.of(fence)[-4:]))
            tap.eq(len(lags()), n, "after a record that it had no cordond")
        gap = lags()[-1]
        tap.ok(gap["type"] == "loss" and gap["first"] < gap["last"] and "no cordond" in gap["detail"], "from when to when", gap)
        found = follower.of(fence)
        tap.eq(len({e["seq"] for e in found}), len(found), "no event comes twice")
        cordon("detach", f"{fence:016x}")
    task.drop()
    return daemon
