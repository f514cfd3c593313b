# SPDX-License-Identifier: Apache-2.0
"""
Storms: many clients over few keys, orders and limits, with and without crashes; then the books.

A key belongs to one body for ever (a few requests carry another body on purpose). What the clients were told, what the
ledger holds and what the orders show must be one story: no key with two effects, no limit overdrawn, no order refunded
beyond what was paid, no key stuck.
"""

import collections
import random
import signal
import threading
import time

from harness import ORDERS, PAID, order, refund
from life import case, remote

DAILY = 60000
HOLDING = "('reserved', 'pending_approval', 'executing', 'done', 'ambiguous')"


class Storm:
    def __init__(self, world, gateways, tools, keys=300, tenants=3, seed=1):
        self.world, self.gateways, self.tools = world, gateways, tools
        self.random = random.Random(seed)
        self.fences = [world.fence() for _ in range(tenants)]
        self.plan = []  # of each key: fence, tool, body
        for i in range(keys):
            where, tenant = self.random.choice(self.fences)
            body = refund(tenant, self.random.randint(1, 4000), f"key-{i}", self.random.randint(1, ORDERS))
            self.plan.append((where, self.random.choice(tools), body))
        self.told = collections.defaultdict(collections.Counter)
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.odd = []

    def tell(self, key, reply, other):
        with self.lock:
            if other:
                if reply.word not in ("key_reused_with_other_body", "key_in_flight", "amount_out_of_range",
                                      "quota_daily", None, "unavailable", "commit_unknown", "overloaded", "ok"):
                    self.odd.append((key, reply))
                return
            self.told[key][reply.word] += 1

    def client(self, seed, requests, crashes):
        rng = random.Random(seed)
        connections = {}
        for _ in range(requests):
            if self.stop.is_set():
                break
            key = rng.randrange(len(self.plan))
            where, tool, body = self.plan[key]
            other = rng.random() < 0.03 and not crashes
            if other:
                # Never the first to use the key, or it would be the key's body.
                other = self.told[key]["ok"] > 0
            if other:
                body = dict(body, amount=body["amount"] + 1)
            gateway = rng.choice(self.gateways)
            at = (where, gateway.number)
            try:
                if at not in connections:
                    connections[at] = gateway.connect(where, timeout=30)
                reply = connections[at].post("/" + tool, body)
                if not reply.status or reply.headers.get("connection") == "close":
                    connections.pop(at).close()
                self.tell(key, reply, other)
            except OSError:
                if at in connections:
                    connections.pop(at).close()
                if not crashes:
                    raise
                time.sleep(0.02)
        for connection in connections.values():
            connection.close()

    def run(self, clients, requests, crashes=False, during=None):
        threads = [threading.Thread(target=self.client, args=(i, requests, crashes)) for i in range(clients)]
        for thread in threads:
            thread.start()
        try:
            if during:
                during()
        finally:
            if during:
                self.stop.set()  # also when it failed: the clients end only then
        for thread in threads:
            thread.join()

    def settle(self):
        """Asks once more for every key until it is known what became of it; none may be stuck."""
        final, end = {}, time.monotonic() + 60
        for key, (where, tool, body) in enumerate(self.plan):
            while True:
                assert time.monotonic() < end, f"key-{key} is stuck: {reply!r}"
                try:
                    reply = self.gateways[0].post(where, "/" + tool, body)
                except OSError:
                    time.sleep(0.05)
                    continue
                if reply.word in ("key_in_flight", "unavailable", "commit_unknown", "overloaded", "execution_failed"):
                    time.sleep(0.05)
                    continue
                break
            self.tell(key, reply, False)
            final[key] = reply.word
        return final

    def books(self, final):
        """Holds clients, ledger and orders against one another."""
        rows = self.world.db.rows
        done = [key for key, word in final.items() if word in ("ok", "duplicate")]
        for key, words in self.told.items():
            assert words["ok"] <= 1, f"key-{key} was executed {words['ok']} times: {words}"
            if words["ok"] or words["duplicate"]:
                assert key in done, f"key-{key} was done and is {final[key]}"
        calls = {(row[0], row[1], row[2]): row for row in
                 rows("SELECT tenant, tool, ikey, object, amount, state FROM calls")}
        by_order = collections.Counter()
        for key in done:
            _, tool, body = self.plan[key]
            row = calls[(body["tenant"], tool, body["idempotency_key"])]
            assert row[3:] == (body["order_id"], body["amount"], "done"), row
            by_order[row[3]] += row[4]
        assert sum(1 for row in calls.values() if row[5] == "done") == len(done)
        sql_tools = [tool for tool in self.tools if tool != "remote"]
        refunded = dict(rows("SELECT id, refunded FROM orders WHERE refunded <> 0"))
        from_calls = collections.Counter()
        for row in calls.values():
            if row[5] == "done" and row[1] in sql_tools:
                from_calls[row[3]] += row[4]
        assert refunded == dict(from_calls), "orders and ledger differ"
        assert all(amount <= PAID for amount in by_order.values())
        held = rows(f"SELECT tenant, tool, SUM(amount) FROM calls WHERE state IN {HOLDING} GROUP BY tenant, tool")
        used = {(tenant, tool): amount for tenant, tool, amount in rows("SELECT tenant, tool, SUM(used) FROM usage "
                                                                        "GROUP BY tenant, tool") if amount}
        assert used == {(tenant, tool): int(amount) for tenant, tool, amount in held}, "quota and calls differ"
        for (_, tool), amount in used.items():
            assert tool != "capped" or amount <= DAILY, f"{amount} of {DAILY}"
        # Something was refused and something was done, or nothing was tested.
        assert len(done) > len(final) // 10 and any(word == "quota_daily" for word in final.values())
        assert not self.odd, self.odd[:3]


def capped(world):
    world.add_tool("capped", limits=f"limits: {{single: 4000, daily: {DAILY}, over: refuse}}", scope="free:create")
    return "capped"


def race(world, n):
    tools = ("free", capped(world))
    gateways = [world.gateway(tools=tools).start() for _ in range(n)]
    storm = Storm(world, gateways, tools, seed=n)
    start = time.monotonic()
    storm.run(64, 200)
    took = time.monotonic() - start
    storm.books(storm.settle())
    words = collections.Counter()
    for told in storm.told.values():
        words.update(told)
    unwanted = set(words) - {"ok", "duplicate", "quota_daily", "amount_out_of_range", "key_in_flight"}
    assert not unwanted, words
    print(f"# 64 clients x 200 requests on {n} gateway(s): {took:.1f} s, {dict(words)}")


@case("R-1", "64 clients x 200 requests, one gateway")
def _(world):
    race(world, 1)


@case("R-3", "64 clients x 200 requests, three gateways", engines=("postgresql",))
def _(world):
    race(world, 3)


KILLS = {"sqlite": 25, "postgresql": 15}


def kill_storm(world, kills, n_gateways=1):
    upstream, first = remote(world)
    tools = ("free", capped(world), "remote")
    first.configure(tools=tools)
    first.reload()
    gateways = [first]
    while len(gateways) < n_gateways:
        gateways.append(world.gateway(tools=tools, config=first.settings["config"]).start())
    storm = Storm(world, gateways, tools, keys=400, seed=kills)
    rng = random.Random(kills)
    crashed = collections.Counter()

    def during():
        for i in range(kills):
            time.sleep(rng.uniform(0.02, 0.25))
            gateway = rng.choice(gateways)
            # The whole server once in a while: it takes a second to come back.
            if world.db.name == "postgresql" and i % 5 == 4:
                world.db.crash()
                crashed["database"] += 1
                time.sleep(rng.uniform(0, 0.1))
                world.db.again()
            else:
                gateway.kill()
                crashed["gateway"] += 1
                gateway.start()
    storm.run(12, 10**9, True, during)
    for gateway in gateways:
        assert gateway.process.poll() is None
    final = storm.settle()
    storm.books(final)
    # No key reached the upstream's effect twice; what is ambiguous waits for an operator and is not sent again.
    assert all(count == 1 for count in upstream.effects.values()), upstream.effects.most_common(3)
    done = sum(1 for key, word in final.items()
               if storm.plan[key][1] == "remote" and word in ("ok", "duplicate", "outcome_ambiguous"))
    assert len(upstream.effects) <= done, (len(upstream.effects), done)
    # The chain of records is whole: the start of a gateway says so, and a clean end is one.
    for gateway in gateways:
        gateway.signal(signal.SIGTERM)
        assert gateway.process.wait(60) == 0
    print(f"# {dict(crashed)} killed; {collections.Counter(final.values())}")
    upstream.close()


@case("K-1", "SIGKILL at random instants, gateway and database")
def _(world):
    kill_storm(world, KILLS[world.db.name])
