"""The worker against a running dev: what it promises."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import waterclock
from waterclock import Client, InvalidRequest, NotFound, Unfinished, worker
from waterclock.worker.queue import NORMAL
from waterclock.worker.state import Item, Partition, order_key

from calls import Synchronous
from conftest import Dev, await_, python, receipts

HERE = Path(__file__).parent
PATIENCE = 3  # how much slower a machine may be that does other things too
ENV = {**os.environ, "PYTHONPATH": str(Path(waterclock.__file__).parents[1])}


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


def due_headers(key: str, attempt: int = 1) -> Any:
    stamp = "2026-11-20T09:00:00.000Z"
    return [("ce_specversion", "1.0"), ("ce_id", f"{key}@{stamp}#0"), ("ce_source", "/waterclock/test"),
            ("ce_type", "waterclock.due.v1"), ("ce_subject", key), ("ce_time", stamp), ("ce_wcattempt", str(attempt))]


def make_topics(dev: Dev, *names: str, partitions: int = 4) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined,unused-ignore]

    admin = AdminClient({"bootstrap.servers": dev.kafka})
    topics: list[Any] = [NewTopic(name, partitions, 1) for name in names]
    for future in admin.create_topics(topics).values():
        future.result(30)


def state_is(client: Client, id: str, state: str) -> Callable[[], bool]:
    return lambda: client.get(id).state == state


def none_in_flight(client: Client, channel: str) -> Callable[[], bool]:
    return lambda: not list(client.list(channel=channel, state="IN_FLIGHT", limit=500))


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
            await_(f"{name} has its events", lambda: len(outcomes(client, "res-" + name)) >= len(events))
            assert sorted(outcomes(client, "res-" + name)) == sorted(events), name
        reasons = {n: [e.raw.get("reason") for e in client.events("res-" + n) if e.type == "delivery.retried"][0]
                   for n in ("retry", "raise", "exit", "none")}
        assert reasons == {"retry": "busy", "raise": "error", "exit": "panic", "none": "no_result"}
        assert w.stats()["receipt_failures"] == 0


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_dead_letters(dev: Dev, client: Client, kind: str) -> None:
    """What fails is listed and counted, and is redriven: one by its trigger, the others by a filter."""
    c: Any = client if kind == "sync" else Synchronous(dev.url)
    code, heal = f"bad_number_{kind}", threading.Event()
    ids = [f"letter-{kind}-{i}" for i in range(4)]
    calls: Counter[str] = Counter()

    def handle(e: worker.DueEvent) -> worker.Result:
        calls[e.trigger_id] += 1
        return worker.Delivered() if heal.is_set() else worker.Fail(code, "no such number")

    with running(dev, "work", handle):
        for id in ids:
            c.schedule(id, delay=0, channel="work")
        await_("all are dead letters", lambda: len(list(c.dead_letters(code=code, limit=2))) == 4)
        page = c.dead_letters_page(code=code, channel="work", limit=3)
        assert len(page.items) == 3 and page.next_cursor is not None
        letter = next(iter(c.dead_letters(trigger_id=ids[0])))
        assert (letter.trigger_id, letter.code, letter.detail, letter.attempts, letter.channel, letter.status) == (
            ids[0], code, "no such number", 1, "work", "open") and letter.failed_at is not None
        groups = {g["value"]: g["count"] for g in c.count_dead_letters("code")}
        assert groups[code] == 4
        with pytest.raises(NotFound):
            c.redrive("no-such-trigger")
        with pytest.raises(InvalidRequest) as raised:
            list(c.redrive_all())
        assert raised.value.field == "all"
        dry = list(c.redrive_all(code=code, dry_run=True))[-1]
        assert (dry.matched, dry.redriven, dry.done) == (4, 0, True) or dry.raw["dry_run"], dry.raw
        heal.set()
        one = c.redrive(ids[0], ce_id=letter.ce_id)
        assert (one.redriven, one.done) == (1, True), one.raw
        await_("it is delivered", state_is(client, ids[0], "FIRED"))
        rest = list(c.redrive_all(code=code, rate=1000))
        assert rest[-1].done and rest[-1].redriven == 3 and not rest[-1].refusals, rest
        for id in ids:
            await_("it is delivered", state_is(client, id, "FIRED"))
        await_("none is open", lambda: not list(c.dead_letters(code=code)))
        await_("all are resolved", lambda: {d.status for d in c.dead_letters(code=code, status="all")} == {"resolved"})
    assert set(calls.values()) == {2}
    c.erase(ids[0])
    await_("its letter is gone", lambda: ids[0] not in {d.trigger_id for d in c.dead_letters(code=code, status="all")})
    assert [e.type for e in c.events(ids[0])][-1] == "trigger.erased"
    if kind == "async":
        c.close()


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

    lines: list[dict[str, Any]] = [{"id": f"low-{i}"} for i in range(20)]
    lines += [{"id": f"high-{i}", "priority": "high"} for i in range(10)]
    assert all(r.ok for r in client.batch({**line, "delay": 0, "channel": "urgent"} for line in lines))
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
    assert all(r.ok for r in client.batch({"id": f"kill-{i}", "delay": 0, "channel": "kill"} for i in range(n)))
    first = subprocess.Popen(python(str(HERE / "worker_process.py"), dev.kafka, "waterclock.", "kill", str(calls), "6000", "die"), env=ENV)
    assert first.wait(60) == -signal.SIGKILL
    before = calls.read_text().split("\n")[:-1]
    assert len(before) >= 10
    second = subprocess.Popen(python(str(HERE / "worker_process.py"), dev.kafka, "waterclock.", "kill", str(calls), "6000"), env=ENV)
    try:
        await_("all are delivered", lambda: len(list(client.list(channel="kill", state="FIRED"))) == n, 90)
    finally:
        second.send_signal(signal.SIGTERM)
        assert second.wait(30) == 0
    for i in range(n):
        assert outcomes(client, f"kill-{i}") == ["delivered"], i
    counts = Counter(calls.read_text().split("\n")[:-1])
    assert len(counts) == n
    twice = [id for id, k in counts.items() if k > 1]
    assert before[9] in twice, "what was worked on and not answered has to come again"
    assert counts[before[9]] == 2
    ids = [r["due_id"] for _, r in receipts(dev.kafka, "waterclock.", "kill", n)]
    assert ids.count(before[9].split(" ")[0]) == 1, "its receipt is there once"
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
            await_("all are delivered", none_in_flight(client, "two"))
    assert len(calls) == 1000 and max(calls.values()) == 1, calls.most_common(3)


def test_back_pressure(dev: Dev, client: Client) -> None:
    """A partition that is full is paused: memory is bounded, and nothing is lost."""
    gate, count = threading.Event(), Counter[str]()

    def handle(e: worker.DueEvent) -> worker.Result:
        gate.wait(60)
        count[e.id] += 1
        return worker.Delivered()

    n = 1500
    assert all(r.ok for r in client.batch({"id": f"bp-{i}", "delay": 0, "channel": "work"} for i in range(n)))
    await_("they fire", state_is(client, f"bp-{n - 1}", "IN_FLIGHT"))
    with running(dev, "work", handle, concurrency=2, buffer_records=64) as w:
        await_("it is paused", lambda: w.stats()["paused"] >= 3)
        time.sleep(0.5)
        # Of each of 4 partitions a share of 16, and one poll beyond.
        assert w.stats()["buffered"] <= 4 * (16 + 500)
        gate.set()
        await_("all are handled", lambda: len(count) >= n, 120)
    assert max(count.values()) == 1


def test_hook_of_a_batch(dev: Dev, client: Client) -> None:
    """on_batch sees each event that starts, and its value is with the events; bounded by batch_max and concurrency."""
    sizes: list[int] = []
    hooked: Counter[str] = Counter()
    values: dict[str, Any] = {}
    running_now, most = 0, 0
    lock = threading.Lock()

    def hook(events: Sequence[worker.DueEvent]) -> dict[str, str]:
        sizes.append(len(events))
        hooked.update(f"{e.id} {e.attempt}" for e in events)
        if any(e.trigger_id == "hook-bad" and e.attempt == 1 for e in events):
            raise ValueError("no preferences")
        return {e.trigger_id: "read at once" for e in events}

    def handle(e: worker.DueEvent) -> worker.Result:
        nonlocal running_now, most
        with lock:
            running_now += 1
            most = max(most, running_now)
        time.sleep(0.02)
        with lock:
            running_now -= 1
            values[e.trigger_id] = e.batch[e.trigger_id]
        return worker.Delivered()

    assert all(r.ok for r in client.batch({"id": f"hook-{i}", "delay": 0, "channel": "hook"} for i in range(200)))
    await_("they fire", lambda: all(client.get(f"hook-{i}").state == "IN_FLIGHT" for i in (0, 100, 199)))
    with running(dev, "hook", handle, concurrency=16, batch_max=10, on_batch=hook):
        await_("all are handled", lambda: len(values) >= 200)
        client.schedule("hook-bad", delay=0, channel="hook")
        await_("it is delivered", state_is(client, "hook-bad", "FIRED"))
    assert set(values.values()) == {"read at once"} and len(values) == 201
    assert max(sizes) == 10 and len(sizes) < 120 and most <= 16, (sizes, most)
    await_("it has its events", lambda: outcomes(client, "hook-bad") == ["retried", "delivered"])
    assert hooked["hook-0@" + next(k for k in hooked if k.startswith("hook-0@")).split("@", 1)[1]] == 1


class Acks:
    """Brokers that have every receipt at once."""

    failures = 0

    def __init__(self) -> None:
        self.receipts: list[dict[str, Any]] = []

    def write(self, key: str, value: bytes, acked: Callable[[int, int], None]) -> None:
        self.receipts.append(json.loads(value))
        acked(0, 0)

    def close(self) -> None:
        pass


class Alone:
    """A worker without brokers, of one partition."""

    def __init__(self, handle: worker.Handler, **options: Any) -> None:
        self.worker = worker.Worker("alone", handle, **options)
        self.acks = Acks()
        self.worker._writer = self.acks  # type: ignore[assignment]
        self.part = Partition("t", 0, NORMAL, loaded=True)
        self.worker._parts["t", 0] = self.part
        self.offset = 0

    def add(self, *keys: str) -> None:
        with self.worker._lock:
            for key in keys:
                event = worker.example(key)
                item = Item(self.offset, 1, self.part, event, order_key(event))
                self.offset += 1
                self.part.add(item)
                self.worker._queue.add(item)
            self.worker._wake()

    def end(self) -> None:
        with self.worker._lock:
            self.worker._ending = True
            self.worker._ready.notify_all()


@pytest.mark.parametrize("raises", [False, True])
def test_partition_moves_during_on_batch(raises: bool) -> None:
    """What moved while on_batch ran is another worker's: neither the handler nor an error of on_batch answers it."""
    handled: list[str] = []
    began, gate = threading.Event(), threading.Event()

    def hook(_: Sequence[worker.DueEvent]) -> None:
        began.set()
        gate.wait(30)
        if raises:
            raise RuntimeError("a bug")

    def handle(e: worker.DueEvent) -> worker.Result:
        handled.append(e.key)
        return worker.Delivered()

    alone = Alone(handle, on_batch=hook)
    alone.add("a", "b")
    assert began.wait(30)
    alone.worker._close([topic_partition(alone.part)])
    alone.worker._abandon([alone.part])
    gate.set()
    await_("nothing runs", lambda: alone.worker.stats()["running"] == 0)
    alone.end()
    stats = alone.worker.stats()
    assert stats.get("abandoned") == 2 and "retry" not in stats and not handled
    assert alone.part.next == -1, "an offset would be committed without a receipt"


def test_handler_timeout() -> None:
    """A handler that raises after its time has the code timeout; one that answers nevertheless is obeyed."""
    seen: list[tuple[str, bool, bool]] = []

    def handle(e: worker.DueEvent) -> worker.Result:
        while e.key != "fast" and not e.cancelled:
            time.sleep(0.01)
        seen.append((e.key, e.cancelled, e.timed_out))
        if e.key == "slow":
            raise TimeoutError("too late")
        if e.key == "fast":
            raise ValueError("at once")
        return worker.Delivered()

    alone = Alone(handle, handler_timeout=0.3)
    begun = time.monotonic()
    alone.add("slow", "fast", "late")
    await_("all are answered", lambda: len(alone.acks.receipts) == 3)
    assert time.monotonic() - begun > 0.3
    alone.end()
    answers = {r["due_id"].split("@")[0]: (r["outcome"], r.get("code")) for r in alone.acks.receipts}
    assert answers == {"slow": ("retry", "timeout"), "fast": ("retry", "error"), "late": ("delivered", None)}
    assert sorted(seen) == [("fast", False, False), ("late", True, True), ("slow", True, True)]


class NoBroker:
    """A consumer whose commits wait for a coordinator."""

    def __init__(self) -> None:
        self.back = threading.Event()
        self.commits = 0

    def commit(self, offsets: Sequence[Any], asynchronous: bool) -> list[Any]:
        self.commits += 1
        self.back.wait(60)
        return list(offsets)

    def close(self) -> None:
        pass


def test_drain_during_on_batch() -> None:
    """A batch whose on_batch ends in the drain is dropped as a whole: it would be handled one by one."""
    handled: list[str] = []
    began, gate = threading.Event(), threading.Event()

    def hook(_: Sequence[worker.DueEvent]) -> None:
        began.set()
        gate.wait(30)

    def handle(e: worker.DueEvent) -> worker.Result:
        handled.append(e.key)
        time.sleep(0.5)
        return worker.Delivered()

    alone = Alone(handle, on_batch=hook, concurrency=4, drain_timeout=8)
    alone.add("a", "b", "c", "d")
    assert began.wait(30)
    drain = threading.Thread(target=alone.worker._drain, args=(NoBroker(),))
    drain.start()
    await_("it drains", lambda: alone.worker._ending)
    gate.set()
    drain.join(30)
    assert not drain.is_alive() and not handled
    assert alone.worker.stats()["running"] == 0 and alone.part.next == -1


def test_commits_while_brokers_are_away() -> None:
    """One commit waits for the brokers, and the thread that polls waits for none. Once they are back, all is committed."""
    alone = Alone(lambda _: worker.Delivered())
    consumer: Any = NoBroker()
    alone.add("a")
    await_("it is delivered", lambda: alone.part.next == 1)
    begun = time.monotonic()
    for _ in range(3):
        alone.worker._commit_soon(consumer)
    assert time.monotonic() - begun < 5
    time.sleep(0.5)
    assert consumer.commits == 1
    begun = time.monotonic()
    alone.worker._commit_within(consumer, [topic_partition(alone.part)], 0.5)
    assert 0.4 < time.monotonic() - begun < 5 and consumer.commits == 1
    alone.add("b")
    await_("it is delivered", lambda: alone.part.next == 2)
    consumer.back.set()
    await_("the first is committed", lambda: alone.part.committed == 1)
    await_("the commit has ended", lambda: not alone.worker._committing or not alone.worker._committing.is_alive())
    alone.worker._commit_soon(consumer)
    await_("both are committed", lambda: alone.part.committed == 2)
    alone.end()


def topic_partition(part: Partition) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(part.topic, part.num)


def test_one_batch_at_a_time() -> None:
    """While on_batch runs, nobody is woken for another batch: what has come meanwhile is in the next one."""
    batches: list[list[str]] = []
    woken: list[tuple[int, bool]] = []
    part = Partition("t", 0, NORMAL)

    def hook(events: Sequence[worker.DueEvent]) -> None:
        batches.append([e.key for e in events])
        if len(batches) == 1:
            with w._lock:
                add("second")
                woken.append((w._threads, w._waking))

    def add(key: str) -> None:
        event = worker.example(key)
        item = Item(len(part.open), 1, part, event, order_key(event))
        part.add(item)
        w._queue.add(item)
        w._wake()

    w = worker.Worker("hook", lambda e: worker.Delivered(), concurrency=4, on_batch=hook)
    w._writer = Acks()  # type: ignore[assignment]
    with w._lock:
        add("first")
    await_("both are delivered", lambda: w.stats().get("delivered") == 2)
    with w._lock:
        w._ending = True
        w._ready.notify_all()
    assert woken == [(1, False)] and batches == [["first"], ["second"]]


def test_bulkheads(dev: Dev, client: Client) -> None:
    """A slow group takes only its share, others go on; what finds no room has the answer of overflow."""
    gate, lock = threading.Event(), threading.Lock()
    done: list[str] = []
    at_once, most = 0, 0

    def handle(e: worker.DueEvent) -> worker.Result:
        nonlocal at_once, most
        if e.user == "slow" and not gate.is_set():
            with lock:
                at_once += 1
                most = max(most, at_once)
            gate.wait(60)
            with lock:
                at_once -= 1
        done.append(e.trigger_id)
        return worker.Delivered()

    bulkhead = worker.Bulkhead(lambda e: e.user or e.trigger_id, in_flight=2, waiting=3,
                               overflow=lambda e: worker.Fail("busy"))
    slow = [f"bulk-slow-{i}" for i in range(12)]
    lines: list[dict[str, Any]] = [{"id": id, "user_id": "slow"} for id in slow]
    lines += [{"id": f"bulk-fast-{i}"} for i in range(20)]
    assert all(r.ok for r in client.batch({**line, "delay": 0, "channel": "work"} for line in lines))
    with running(dev, "work", handle, concurrency=4, per_group=bulkhead) as w:
        for i in range(20):
            await_("the other groups go on", state_is(client, f"bulk-fast-{i}", "FIRED"))
        await_("all but 2 and 3 find no room", lambda: w.stats().get("failed", 0) == 7)
        assert not [id for id in done if id in slow]
        gate.set()
        await_("those with room are delivered", lambda: len([id for id in done if id in slow]) == 5)
        await_("all are answered", lambda: [client.get(id).state for id in slow].count("FAILED") == 7)
    assert most == 2


class Seen(worker.Metrics):
    """Keeps what it is told, and raises once."""

    def __init__(self) -> None:
        self.handles: Counter[tuple[str, str]] = Counter()
        self.headers: list[str] = []
        self.receipts = 0
        self.loads: list[worker.Load] = []

    def handled(self, outcome: str, code: str, seconds: float) -> None:
        assert seconds >= 0
        self.handles[outcome, code] += 1
        raise RuntimeError("metrics that are broken do no harm")

    def garbled(self, header: str) -> None:
        self.headers.append(header)

    def receipt_written(self, seconds: float) -> None:
        self.receipts += 1

    def load(self, load: worker.Load) -> None:
        self.loads.append(load)


def test_metrics(dev: Dev, client: Client) -> None:
    """The numbers of a worker, and their names in Prometheus."""
    from confluent_kafka import Producer
    from prometheus_client import CollectorRegistry, generate_latest

    from waterclock.worker.prometheus import PrometheusMetrics

    prefix = f"numbers{time.time_ns()}."
    make_topics(dev, prefix + "receipts", prefix + "due.n")
    producer = Producer({"bootstrap.servers": dev.kafka, "partitioner": "murmur2_random"})
    for key, attempt in (("a", 1), ("a", 2), ("b", 1), ("c", 1)):
        producer.produce(prefix + "due.n", key=key, value=b"", headers=due_headers(key, attempt))
    producer.produce(prefix + "due.n", key="d", value=b"hello")
    producer.flush(10)

    def handle(e: worker.DueEvent) -> worker.Result:
        return worker.Fail("bad_number") if e.key == "b" else worker.Delivered()

    seen, registry = Seen(), CollectorRegistry()
    with running(dev, "n", handle, prefix=prefix, metrics=seen, commit_interval=0.05) as w:
        await_("all receipts stand", lambda: seen.receipts == 3)
        await_("one is skipped", lambda: w.stats().get("skipped_final", 0) == 1)
        await_("the record is counted", lambda: seen.headers == ["ce_type"])
        await_("the load is told", lambda: any(n.assigned == 4 and n.buffered == 0 for n in seen.loads))
    assert seen.handles == {("delivered", ""): 2, ("failed", "bad_number"): 1}
    # Another group has committed nothing: it reads all of them, and knows them by the receipts. That of b was no end.
    metrics = [PrometheusMetrics(channel, registry) for channel in ("n", "another")]
    with running(dev, "n", handle, prefix=prefix, metrics=metrics[0], group="another", commit_interval=0.05):
        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value("waterclock_worker_" + name, {"channel": "n", **labels})

        await_("three are skipped", lambda: value("skipped_total", reason="final") == 3)
        await_("one is skipped", lambda: value("skipped_total", reason="answered") == 1)
        await_("the record is counted", lambda: value("garbled_total", header="ce_type") == 1)
        await_("the load is told", lambda: value("partitions", state="assigned") == 4)
    metrics[1].handled("delivered", "", 0.002)
    metrics[1].receipt_written(0.1)
    text = generate_latest(registry).decode()
    for want in ('waterclock_worker_handled_total{channel="another",outcome="delivered"} 1.0',
                 'waterclock_worker_handle_seconds_bucket{channel="another",le="0.0025"} 1.0',
                 'waterclock_worker_receipt_seconds_count{channel="another"} 1.0',
                 'waterclock_worker_abandoned_total{channel="n"} 0.0',
                 'waterclock_worker_commit_failures_total{channel="n"} 0.0',
                 'waterclock_worker_receipt_failures_total{channel="n"} 0.0',
                 'waterclock_worker_partitions{channel="n",state="held"} 0.0'):
        assert want in text.split("\n"), f"{want} is not in {text}"


def test_new_lane(dev: Dev) -> None:
    """A lane that is made while the worker runs is read within 5 s."""
    from confluent_kafka import Producer

    prefix = f"lane{time.time_ns()}."
    make_topics(dev, prefix + "due.lane", prefix + "receipts")
    producer = Producer({"bootstrap.servers": dev.kafka, "partitioner": "murmur2_random"})

    def fire(topic: str, key: str) -> None:
        producer.produce(topic, key=key, value=b"", headers=due_headers(key))
        producer.flush(10)

    seen: list[tuple[str, bool]] = []

    def handle(e: worker.DueEvent) -> worker.Result:
        seen.append((e.key, e.high))
        return worker.Delivered()

    with running(dev, "lane", handle, prefix=prefix):
        fire(prefix + "due.lane", "first")
        await_("the worker works", lambda: ("first", False) in seen)
        make_topics(dev, prefix + "due.lane.high")
        begin = time.monotonic()
        fire(prefix + "due.lane.high", "second")
        await_("the lane is read", lambda: ("second", True) in seen)
        assert time.monotonic() - begin < 5 * PATIENCE


@pytest.mark.parametrize("by_key", [False, True])
def test_one_receipt_for_queued_attempts(dev: Dev, by_key: bool) -> None:
    """Three attempts that queued while no worker ran are handled once; a second worker skips what the first has done."""
    from confluent_kafka import Consumer, Producer

    prefix = f"queued{time.time_ns()}."
    make_topics(dev, prefix + "receipts")
    make_topics(dev, prefix + "due.q", partitions=7 if by_key else 4)
    producer = Producer({"bootstrap.servers": dev.kafka, "partitioner": "murmur2_random"})
    for attempt in (1, 2, 3):
        producer.produce(prefix + "due.q", key="a", value=b"", headers=due_headers("a", attempt))
    producer.flush(10)
    calls: list[int] = []

    def handle(e: worker.DueEvent) -> worker.Result:
        calls.append(e.attempt)
        return worker.Delivered()

    with running(dev, "q", handle, prefix=prefix, by_key=by_key) as w:
        await_("two are skipped", lambda: w.stats().get("skipped_final", 0) == 2)
    # Another group has committed nothing: it reads all of them, and knows them by the receipts.
    with running(dev, "q", handle, prefix=prefix, by_key=by_key, group="another") as w:
        await_("three are skipped", lambda: w.stats().get("skipped_final", 0) == 3)
    assert calls == [1]
    consumer = Consumer({"bootstrap.servers": dev.kafka, "group.id": prefix + "test", "auto.offset.reset": "earliest"})
    consumer.subscribe([prefix + "receipts"])
    found: list[Any] = []
    end = time.monotonic() + 30
    while not found and time.monotonic() < end:
        found += [m for m in consumer.consume(10, timeout=0.5) if m.error() is None]
    found += [m for m in consumer.consume(10, timeout=0.5) if m.error() is None]
    consumer.close()
    assert len(found) == 1 and found[0].key() == b"a"


def test_more_partitions_than_receipts(dev: Dev, caplog: pytest.LogCaptureFixture) -> None:
    """A channel with partitioning: by_key, and a worker that was not told: nothing is handled, and the log says why."""
    from confluent_kafka import Producer

    prefix = f"told{time.time_ns()}."
    make_topics(dev, prefix + "receipts")
    make_topics(dev, prefix + "due.q", partitions=7)
    producer = Producer({"bootstrap.servers": dev.kafka, "partitioner": "murmur2_random"})
    producer.produce(prefix + "due.q", key="a", value=b"", headers=due_headers("a"))
    producer.flush(10)
    calls: list[str] = []

    def handle(e: worker.DueEvent) -> worker.Result:
        calls.append(e.id)
        return worker.Delivered()

    with running(dev, "q", handle, prefix=prefix) as w:
        await_("it is held", lambda: w.stats()["buffered"] == 1)
        await_("the log says why", lambda: "give by_key=True" in caplog.text)
    assert not calls


def test_brokers_killed(tmp_path: Path) -> None:
    """kill -9 of the brokers while handlers run: the worker goes on when they are back, and one receipt decides."""
    server = Dev(tmp_path / "data", "channels.away.receipts=true")
    server.start()
    calls: Counter[str] = Counter()
    lock = threading.Lock()

    def handle(e: worker.DueEvent) -> worker.Result:
        time.sleep(0.01)
        with lock:
            calls[e.id] += 1
        return worker.Delivered()

    try:
        with Client(server.url, retry=waterclock.Retry(retries=60, first=0.05, most=0.5)) as client:
            assert all(r.ok for r in client.batch({"id": f"away-{i}", "delay": 0, "channel": "away"} for i in range(400)))
            with running(server, "away", handle, concurrency=4) as w:
                await_("it works", lambda: len(calls) > 50)
                server.kill()
                time.sleep(0.5)
                server.start()
                await_("all are called", lambda: len(calls) >= 400)
                await_("all are delivered", none_in_flight(client, "away"))
                client.schedule("away-new", delay=0, channel="away")
                await_("it is delivered", state_is(client, "away-new", "FIRED"))
                assert w.stats()["pending"] == 0
            assert len(calls) == 401 and max(calls.values()) <= 2
            for i in range(0, 400, 40):
                assert outcomes(client, f"away-{i}") == ["delivered"], i
    finally:
        server.stop()


def test_topic_made_anew(dev: Dev) -> None:
    """What was known of a receipts topic that was deleted is of no use for the one of the same name."""
    from waterclock.worker import receipts

    prefix = f"anew{time.time_ns()}."
    make_topics(dev, prefix + "receipts")
    renewed: list[int] = []
    config = {"bootstrap.servers": dev.kafka}
    ends = receipts.read_last(prefix + "receipts", "q", "q", config, {0: 50, 1: 0}, 100, lambda *_: None, renewed.append,
                              lambda: False)
    assert renewed == [0] and ends == {0: 0, 1: 0}


def test_fatal_error_of_the_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that can write no more is replaced, and what it had is written by the next one."""
    from confluent_kafka import KafkaError, KafkaException

    from waterclock.worker import receipts

    class Stands:
        def partition(self) -> int:
            return 0

        def offset(self) -> int:
            return 0

    class Fake:
        made: list[Fake] = []

        def __init__(self, _: dict[str, Any]) -> None:
            self.queue: list[Any] = []
            self.fatal = not Fake.made  # the first one fails from its second record on
            Fake.made.append(self)

        def produce(self, topic: str, key: str, value: bytes, on_delivery: Any) -> None:
            if self.fatal and len(self.queue) == 1:
                raise KafkaException(KafkaError(KafkaError._FATAL))
            self.queue.append(on_delivery)

        def poll(self, seconds: float) -> None:
            time.sleep(min(seconds, 0.01))
            if self.fatal and len(Fake.made) == 1:
                return
            queue, self.queue = self.queue, []
            for on_delivery in queue:
                on_delivery(KafkaError(KafkaError._PURGE_QUEUE) if self.fatal else None, Stands())

        def __len__(self) -> int:
            return len(self.queue)

    monkeypatch.setattr(receipts, "Producer", Fake)
    monkeypatch.setattr(receipts, "BACKOFF", 0.01)
    writer = receipts.ReceiptWriter("t", {}, receipts.Throttle(logging.getLogger("test")),
                                    worker.Metrics())
    acked: list[str] = []
    for key in ("a", "b", "c"):
        writer.write(key, b"", lambda *_, key=key: acked.append(key))
    await_("all stand", lambda: sorted(acked) == ["a", "b", "c"], 10)
    writer.close()
    assert len(Fake.made) == 2


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
    """A record that is not a due event is stepped over; what has expired is suppressed without the handler."""
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
    for channel, options in (("X", {}), ("a.high", {}), ("a", {"concurrency": 0}), ("a", {"memory": 0}),
                             ("a", {"drain_timeout": 0}), ("a", {"buffer_records": 0}), ("a", {"brokers": ""}),
                             ("a", {"group": ""})):
        with pytest.raises(ValueError, match="worker: "):
            worker.Worker(channel, lambda _: worker.Delivered(), **options)
