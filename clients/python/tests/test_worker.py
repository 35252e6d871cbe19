"""The worker against a running dev: what it promises."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from waterclock import Client, Unfinished, worker

from conftest import Dev, await_, python

HERE = Path(__file__).parent
ENV = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}


@pytest.fixture
def client(dev: Dev) -> Iterator[Client]:
    with Client(dev.url) as c:
        yield c


@contextmanager
def running(dev: Dev, channel: str, handle: worker.Handler, **options: Any) -> Iterator[worker.Worker]:
    w = worker.Worker(channel, handle, brokers=dev.kafka, **options)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            w.run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield w
    finally:
        w.stop()
        thread.join(60)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


def state_is(client: Client, id: str, state: str) -> Callable[[], bool]:
    return lambda: client.get(id).state == state


def outcomes(client: Client, id: str) -> list[str]:
    """What became of its emissions; late receipts change nothing, and are left out."""
    return [e.type.removeprefix("delivery.") for e in client.events(id)
            if e.type.startswith("delivery.") and e.raw.get("reason") != "late"]


def test_every_result(dev: Dev, client: Client) -> None:
    """Each result becomes its receipt; what a handler raises is a retry, and the trigger goes on."""
    def handle(e: worker.DueEvent) -> worker.Result:
        name = e.trigger_id.removeprefix("res-")
        if name == "retry" and e.attempt == 1:
            return worker.Retry(0.05, "busy")
        if name == "raise" and e.attempt == 1:
            raise ValueError("no such number")
        if name == "exit" and e.attempt == 1:
            raise SystemExit(3)
        if name == "none" and e.attempt == 1:
            return None  # type: ignore[return-value]
        if name == "postpone" and e.postponed == 0:
            return worker.Postpone(0.01, "quiet_hours")
        return {"fail": worker.Fail("bad_number", "no such number"), "accept": worker.Accepted(),
                "suppress": worker.Suppress("opted_out")}.get(name, worker.Delivered())

    want = {
        "deliver": ("FIRED", ["delivered"]), "accept": ("FIRED", ["accepted"]), "suppress": ("FIRED", ["suppressed"]),
        "fail": ("FAILED", ["failed", "dead_lettered"]), "retry": ("FIRED", ["retried", "delivered"]),
        "raise": ("FIRED", ["retried", "delivered"]), "exit": ("FIRED", ["retried", "delivered"]),
        "none": ("FIRED", ["retried", "delivered"]), "postpone": ("FIRED", ["postponed", "delivered"]),
    }
    with running(dev, "work", handle) as w:
        for name in want:
            client.schedule("res-" + name, delay=0, channel="work", payload={"n": name})
        for name, (state, events) in want.items():
            await_(f"{name} is {state}", state_is(client, "res-" + name, state))
            assert sorted(outcomes(client, "res-" + name)) == sorted(events), name
        reasons = {n: [e.raw.get("reason") for e in client.events("res-" + n) if e.type == "delivery.retried"][0]
                   for n in ("retry", "raise", "exit", "none")}
        assert reasons == {"retry": "busy", "raise": "error", "exit": "panic", "none": "no_result"}
        assert w.stats()["receipt_failures"] == 0


def test_order_by_key(dev: Dev, client: Client) -> None:
    """Events of one key are handled one after the other, in the order of the log."""
    seen: list[int] = []
    at_once, most = 0, 0
    lock = threading.Lock()

    def handle(e: worker.DueEvent) -> worker.Result:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
            seen.append(e.offset)
        time.sleep(0.02)
        with lock:
            at_once -= 1
        return worker.Delivered()

    client.schedule("ord-1", recurrence="FREQ=DAILY", timezone="UTC", channel="work")
    for _ in range(12):
        client.run("ord-1")
    with running(dev, "work", handle):
        await_("all are handled", lambda: len(seen) >= 12)
    assert seen == sorted(seen) and len(set(seen)) == 12 and most == 1
    client.cancel("ord-1")


def test_high_lane_first(dev: Dev, client: Client) -> None:
    """What waits in the high lane is handled before what waits in the other, though it came later."""
    order: list[bool] = []
    gate = threading.Event()

    def handle(e: worker.DueEvent) -> worker.Result:
        gate.wait(30)
        order.append(e.high)
        return worker.Delivered()

    for i in range(20):
        client.schedule(f"low-{i}", delay=0, channel="urgent")
    for i in range(10):
        client.schedule(f"high-{i}", delay=0, channel="urgent", priority="high")
    for i in range(10):
        await_("it is in flight", state_is(client, f"high-{i}", "IN_FLIGHT"))
    with running(dev, "urgent", handle, concurrency=1) as w:
        await_("all are in memory", lambda: w.stats()["buffered"] >= 30)
        gate.set()
        await_("all are handled", lambda: len(order) >= 30)
    assert order.count(True) == 10
    assert order.index(True) <= 1 and sum(order[1:11]) >= 9, order  # the one that ran before may be of either


def test_killed_between_work_and_receipt(dev: Dev, client: Client, tmp_path: Path) -> None:
    """kill -9 after the work of ten: the last one comes again; those whose receipts stand are not called again."""
    n = 40
    calls = tmp_path / "calls"
    calls.touch()
    for i in range(n):
        client.schedule(f"kill-{i}", delay=0, channel="kill")
    first = subprocess.Popen(python(str(HERE / "worker_process.py"), dev.kafka, "kill", str(calls), "die"), env=ENV)
    assert first.wait(60) == -signal.SIGKILL
    before = calls.read_text().split("\n")[:-1]
    assert len(before) >= 10
    second = subprocess.Popen(python(str(HERE / "worker_process.py"), dev.kafka, "kill", str(calls)), env=ENV)
    try:
        for i in range(n):
            await_("it is delivered", state_is(client, f"kill-{i}", "FIRED"), 90)
    finally:
        second.send_signal(signal.SIGTERM)
        assert second.wait(30) == 0
    for i in range(n):
        assert outcomes(client, f"kill-{i}") == ["delivered"], i
    counts = Counter(calls.read_text().split("\n")[:-1])
    assert len(counts) == n
    twice = [id for id, k in counts.items() if k > 1]
    assert before[9] in twice, "what was worked on and not answered has to come again"
    assert len(twice) <= 4 and max(counts.values()) == 2, counts  # at most what was in hand: concurrency


def test_rebalance(dev: Dev, client: Client) -> None:
    """A second worker joins while the first one works, then the first one leaves: each event is called once."""
    calls: Counter[str] = Counter()
    by: Counter[int] = Counter()
    lock = threading.Lock()

    def handler(number: int) -> worker.Handler:
        def handle(e: worker.DueEvent) -> worker.Result:
            time.sleep(0.01)
            with lock:
                calls[f"{e.id} {e.attempt}"] += 1
                by[number] += 1
            return worker.Delivered()
        return handle

    def schedule(first: int, last: int) -> None:
        lines = [{"id": f"two-{i}", "delay": 0, "channel": "two"} for i in range(first, last)]
        assert all(r.ok for r in client.batch(lines))

    with running(dev, "two", handler(1), concurrency=4) as one:
        schedule(0, 400)
        await_("the first works", lambda: by[1] > 50)
        with running(dev, "two", handler(2), concurrency=4) as two:
            await_("both have partitions", lambda: 0 < two.stats()["assigned"] and one.stats()["assigned"] < 4)
            schedule(400, 800)
            await_("the second works", lambda: by[2] > 50)
            one.stop()
            schedule(800, 1000)
            await_("all are called", lambda: len(calls) >= 1000)
            for i in range(1000):
                await_("it is delivered", state_is(client, f"two-{i}", "FIRED"))
    assert len(calls) == 1000 and max(calls.values()) == 1, calls.most_common(3)


def test_back_pressure(dev: Dev, client: Client) -> None:
    """A partition that is full is paused: memory is bounded, and nothing is lost."""
    gate, count = threading.Event(), Counter[str]()

    def handle(e: worker.DueEvent) -> worker.Result:
        gate.wait(60)
        count[e.id] += 1
        return worker.Delivered()

    assert all(r.ok for r in client.batch({"id": f"bp-{i}", "delay": 0, "channel": "work"} for i in range(3000)))
    await_("they fire", state_is(client, "bp-2999", "IN_FLIGHT"))
    with running(dev, "work", handle, concurrency=2, buffer_records=64) as w:
        await_("it is paused", lambda: w.stats()["paused"] >= 3)
        time.sleep(0.5)
        # Of each of 4 partitions a share of 16, and one poll beyond.
        assert w.stats()["buffered"] <= 4 * (16 + 500)
        gate.set()
        await_("all are handled", lambda: len(count) >= 3000, 120)
    assert max(count.values()) == 1


def test_drain_too_short(dev: Dev, client: Client) -> None:
    """A handler that does not end in time: Unfinished, and its event is delivered again."""
    began, gate = threading.Event(), threading.Event()
    cancelled: list[bool] = []

    def stuck(e: worker.DueEvent) -> worker.Result:
        began.set()
        gate.wait(60)
        cancelled.append(e.cancelled)
        raise RuntimeError("the worker ends")

    client.schedule("drain-1", delay=0, channel="work")
    with pytest.raises(Unfinished, match="1 handlers ran"), running(dev, "work", stuck, drain_timeout=0.5) as w:
        assert began.wait(30)
        w.stop()
        time.sleep(1)
    gate.set()
    with running(dev, "work", lambda _: worker.Delivered()):
        await_("it is delivered", state_is(client, "drain-1", "FIRED"))
    assert outcomes(client, "drain-1") == ["delivered"]
    assert cancelled == [True]


def test_garbled_and_expired(dev: Dev, client: Client) -> None:
    """A record that is no due event is stepped over; what has expired is suppressed without the handler."""
    from confluent_kafka import Producer

    called: list[str] = []
    client.schedule("exp-1", delay=0, channel="work", expires_after="1s")
    await_("it is in flight", state_is(client, "exp-1", "IN_FLIGHT"))
    producer = Producer({"bootstrap.servers": dev.kafka, "partitioner": "murmur2_random"})
    producer.produce("waterclock.due.work", key="exp-1", value=b"hello")
    producer.flush(10)
    time.sleep(1.2)

    def handle(e: worker.DueEvent) -> worker.Result:
        called.append(e.trigger_id)
        return worker.Delivered()

    with running(dev, "work", handle) as w:
        await_("it is suppressed", state_is(client, "exp-1", "FIRED"))
        await_("the record is counted", lambda: w.stats().get("garbled", 0) == 1)
    assert outcomes(client, "exp-1") == ["suppressed"] and "exp-1" not in called


def test_options_are_checked() -> None:
    for channel, options in (("X", {}), ("a", {"concurrency": 0}), ("a", {"memory": 0}), ("a", {"drain_timeout": 0}),
                             ("a", {"buffer_records": 0}), ("a", {"brokers": ""}), ("a", {"group": ""})):
        with pytest.raises(ValueError, match="worker: "):
            worker.Worker(channel, lambda _: worker.Delivered(), **options)
