"""Which event is next: keys, lanes and bulkheads, without a broker."""

from __future__ import annotations

import time

import pytest

from waterclock import worker
from waterclock.worker.queue import HIGH, NORMAL, Queue
from waterclock.worker.state import Clock, Item, Partition, order_key


def part(lane: int = NORMAL) -> Partition:
    return Partition("t", 0, lane)


def item(p: Partition, key: str, record_key: str = "") -> Item:
    event = worker.example(key)
    event.record_key = (record_key or key).encode()
    made = Item(p.records, 100, p, event, order_key(event))
    p.add(made)
    return made


def many(q: Queue, p: Partition, tenant: str, n: int) -> list[Item]:
    items = [item(p, f"{tenant}/{i}") for i in range(n)]
    for i in items:
        q.add(i)
    return items


def test_order_and_lanes() -> None:
    low, high, q = part(), part(HIGH), Queue()
    a, b, c = item(low, "a", "k"), item(low, "b", "k"), item(high, "c")
    for i in (a, b, c):
        q.add(i)
    assert [q.take(), q.take(), q.take()] == [c, a, None]
    q.finish(a)
    assert q.take() is b
    q.finish(b)
    assert not low.tails


def test_order_of_one_tenant() -> None:
    """Two tenants with one target_key do not wait for each other."""
    p, q = part(), Queue()
    acme, other, second = item(p, "acme/a", "k"), item(p, "other/a", "k"), item(p, "acme/b", "k")
    for i in (acme, other, second):
        q.add(i)
    assert [q.take(), q.take(), q.take()] == [acme, other, None]
    q.finish(acme)
    assert q.take() is second


def test_groups_take_turns() -> None:
    p, q = part(), Queue(worker.Bulkhead(lambda e: e.tenant, in_flight=2))
    acme, other = many(q, p, "acme", 4), many(q, p, "other", 4)
    assert [q.take() for _ in range(5)] == [acme[0], other[0], acme[1], other[1], None]
    assert len(q) == 4 and not q.can_start()
    q.finish(other[0])
    assert [q.take(), q.take()] == [other[2], None]
    assert not q.take_overflow()


def test_groups_overflow() -> None:
    """What finds no room is answered without the handler: the newest, those of the high lane last."""
    low, high = part(), part(HIGH)
    q = Queue(worker.Bulkhead(lambda e: e.tenant, in_flight=1, waiting=2, overflow=lambda e: worker.Retry()))
    first = many(q, low, "acme", 3)
    assert not q.take_overflow()  # nothing runs yet
    assert q.take() is first[0]
    urgent = item(high, "acme/urgent")
    q.add(urgent)
    assert q.take_overflow() == [first[2]]
    q.finish(first[2])
    assert len(q) == 2
    q.finish(first[0])
    assert q.take() is urgent


def test_groups_shed() -> None:
    """What waits for an event of its key that hangs is answered; the one that hangs goes on."""
    p, q = part(), Queue(worker.Bulkhead(lambda e: e.tenant, overflow=lambda e: worker.Retry()))
    same = [item(p, f"a{i}", "k") for i in range(3)]
    for i in same:
        q.add(i)
    head = q.take()
    assert head is same[0]
    p.running.add(head)
    head.started = 10.0
    q.shed(p, 10.0)
    assert not q.take_overflow()  # it has not run for so long
    q.shed(p, 10.1)
    assert q.take_overflow() == same[1:]
    for i in same[1:]:
        q.finish(i)
    later = item(p, "a3", "k")
    q.add(later)
    assert q.take() is None  # it waits for the one that hangs
    p.running.clear()
    q.finish(head)
    assert q.take() is later


def test_group_that_raises_and_purge() -> None:
    def group(e: worker.DueEvent) -> str:
        raise ValueError("no group")

    p, q = part(), Queue(worker.Bulkhead(group, in_flight=1))
    items = many(q, p, "acme", 3)
    assert [q.take(), q.take()] == [items[0], None]
    p.gone = True
    q.purge()
    assert len(q) == 0
    q.finish(items[0])
    assert q.take() is None and not q._groups


def test_step_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    begin = clock.now()
    monkeypatch.setattr(time, "time", lambda: begin + 3600)  # nothing expires for it
    assert abs(clock.now() - begin) < 60
