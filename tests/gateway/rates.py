# SPDX-License-Identifier: Apache-2.0
"""How many requests a caller may make in a second: what is beyond is refused, costs nobody else, and is told."""

import collections
import threading
import time

from cases import expect
from harness import order, refund
from life import case


def flood(gateway, where, body, seconds, clients=16):
    """A fence that asks as fast as it is answered; returns how often each word was the answer."""
    words, end = [collections.Counter() for _ in range(clients)], time.monotonic() + seconds

    def client(i):
        with gateway.connect(where, timeout=60) as c:
            n = 0
            while time.monotonic() < end:
                reply = c.post("/free", dict(body, idempotency_key=f"f{i}-{n}"))
                assert reply.word != "rate_limited" or (reply.status == 429 and reply.headers["retry-after"] == "1"), reply
                words[i][reply.word] += 1
                n += 1
    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    return threads, words


@case("Q-1", "a fence that asks more than its rate gets 429 and costs nobody else; it is told in the stream, once for many")
def _(world):
    where, tenant = world.fence()
    other, other_tenant = world.fence()
    gateway = world.gateway(limits="rate: 2, burst: 6").start()
    body = refund(tenant, 1, "")
    began = time.monotonic()
    threads, words = flood(gateway, where, body, 3)
    # The twin: another fence, within its own rate, while the flood lasts.
    with gateway.connect(other) as c:
        for i in range(6):
            expect(c.post("/free", refund(other_tenant, 1, f"o{i}")), 200, "ok")
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    words = sum(words, collections.Counter())
    done = words.pop("ok")
    assert set(words) == {"rate_limited"} and 6 <= done <= 6 + 2 * (took + 1), (done, words, took)
    # What was not let in was not decided: no record, no effect, no key.
    assert world.refunded(order(tenant)) == done and world.refunded(order(other_tenant)) == 6
    # A quiet second, and there is room again, on a connection of before and on a new one.
    time.sleep(1.2)
    expect(gateway.post(where, "/free", dict(body, idempotency_key="later")), 200, "ok")
    assert gateway.stop() == 0
    told = [e for e in gateway.event_list() if (e["gateway"]["reason"] or "").startswith("rate_limited")]
    assert told and sum(e["count"] for e in told) == words["rate_limited"], (told, words)
    assert len(told) <= 2 + took / 10 + 1, told
    for event in told:
        assert (event["verdict"], event["rule"], event["op"]) == ("deny", "gateway.quota", "call"), event
        assert event["fence"]["tenant"] == tenant and event["gateway"]["status"] == 429, event
        assert event["gateway"]["tool"] is None and "record" not in event["gateway"], event
    assert len(gateway.event_list()) - len(told) == done + 1 + 6


@case("Q-2", "the control: without the limit the same flood is served")
def _(world):
    where, tenant = world.fence()
    gateway = world.gateway().start()
    threads, words = flood(gateway, where, refund(tenant, 1, ""), 2)
    for thread in threads:
        thread.join()
    # More at once than the burst has room for, however slow the host is.
    assert all(set(one) == {"ok"} for one in words), words


@case("Q-3", "a rate is the fence's: not its connection's, nor reset by others that come between; nor one for all fences")
def _(world):
    places = [f"127.0.7.{i}" for i in range(1, 6)]
    gateway = world.gateway(limits="rate: 1, burst: 3").start()
    began = time.monotonic()
    for i, where in enumerate(places):
        world.next_fence = 1 + i * 1024 if i < 4 else 1 + 256  # such as share a place in tables of many sizes
        world.fence(tenant="t-1", where=where)
    spent, limited = {}, set()
    for i in range(200):
        for where in places if limited != set(places) else ():
            # Each with a connection of its own.
            reply = gateway.get(where, "/tools")
            spent[where] = spent.get(where, 0) + (reply.status == 200)
            limited.update([where] if reply.word == "rate_limited" else [])
    assert limited == set(places), (spent, limited)
    took = time.monotonic() - began
    assert all(n <= 3 + took + 1 for n in spent.values()), (spent, took)


@case("Q-4", "all that are no fence have one rate together; /health is answered all the same, and fences are")
def _(world):
    where, tenant = world.fence()
    gateway = world.gateway(limits="rate: 2, burst: 5").start()
    gateway.wait_known(where)
    with gateway.connect("127.0.9.1") as a, gateway.connect("127.0.9.2") as b:
        words = [c.post("/refund", refund(tenant, 1, f"k{i}")).word for i in range(20) for c in (a, b)]
        assert "rate_limited" in words and words.count("unauthenticated") >= 2, words
        for i in range(20):
            expect(a.get("/health"), 200)
    expect(gateway.post(where, "/refund", refund(tenant, 1, "k")), 200, "ok")
    assert gateway.stop() == 0
    told = [e for e in gateway.event_list() if (e["gateway"]["reason"] or "").startswith("rate_limited")]
    assert sum(e["count"] for e in told) == words.count("rate_limited"), told
    assert all(int(e["fence"]["id"], 16) == 0 for e in told), told


@case("Q-5", "the rate is changed by a reload, which begins no new count")
def _(world):
    where, _ = world.fence()
    gateway = world.gateway(limits="rate: 1, burst: 20").start()
    words = [gateway.get(where, "/tools").status for _ in range(60)]
    assert words.count(200) >= 20 and 429 in words, words
    gateway.reload()
    words = [gateway.get(where, "/tools").status for _ in range(18)]
    assert 429 in words, "a reload forgot what was used"
    gateway.configure(limits="rate: 100000, burst: 100000")
    gateway.reload()
    assert [gateway.get(where, "/tools").status for _ in range(20)] == [200] * 20
