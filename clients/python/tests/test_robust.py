"""What comes from outside, and what users' code may do: nothing of it stops a worker."""

from __future__ import annotations

import contextvars
import dataclasses
import json
import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from waterclock import InvalidRequest, KafkaClient, TooLarge, worker
from waterclock.worker import receipts
from waterclock.worker.receipts import ReceiptWriter
from waterclock.worker.result import Result, receipt
from waterclock.worker.state import UNKNOWN, Item, Memory, Partition, read_receipt

from conftest import Dev


@pytest.mark.parametrize("value", [
    b"", b"[]", b"null", b"7", b"\xff", b"{", b"[" * 200_000, b'{"channel":"sms","a":' + b"[" * 200_000,
    b'{"due_id":"a@1","channel":"sms","outcome":["delivered"],"attempt":1}',
    b'{"due_id":"a@1","channel":"sms","outcome":{"x":1},"attempt":1}',
    b'{"due_id":["a@1"],"channel":"sms","outcome":"delivered","attempt":1}',
    b'{"due_id":"a@1","channel":"sms","outcome":"delivered","attempt":' + b"9" * 5000 + b"}",
    b'{"due_id":"a@1","channel":"sms","outcome":"delivered","attempt":true}',
    b'{"due_id":"a@1","channel":"sms","outcome":"delivered","attempt":-1}',
    b'{"due_id":"a@1","channel":["sms"],"outcome":"delivered","attempt":1}',
])
def test_garbage_on_the_receipts_topic(value: bytes) -> None:
    """It is stepped over. A reading that raised would hold the due events of its partition for ever."""
    assert read_receipt("sms", b"a", value) is None


def test_a_tracestate_of_any_bytes() -> None:
    """Tracing refuses no due event: the engine passes on what a producer wrote."""
    headers: list[tuple[str, bytes | None]] = [
        ("ce_type", b"waterclock.due.v1"), ("ce_id", b"a@1#0"), ("ce_subject", b"a"), ("ce_wcattempt", b"1"),
        ("ce_time", b"2026-11-30T14:00:00.000Z"), ("tracestate", b"v=\xe9"),
    ]
    assert worker.decode("t", 0, 0, 0, b"a", b"", headers, False).tracestate == "v=\ufffd"
    with pytest.raises(worker.Garbled, match="ce_wcuser"):  # of the engine itself
        worker.decode("t", 0, 0, 0, b"a", b"", [*headers, ("ce_wcuser", b"\xe9")], False)


def test_receipts_of_odd_keys() -> None:
    value = b'{"due_id":"a@1","channel":"sms","outcome":"delivered","attempt":1}'
    assert read_receipt("sms", b"\xff", value) is None and read_receipt("sms", b"b", value) is None
    assert read_receipt("sms", b"a", value) == ("a@1", "delivered", 1, 0)
    surrogate = b'{"due_id":"a@\\ud800","channel":"sms","outcome":"delivered","attempt":1}'
    seen = read_receipt("sms", b"a", surrogate)
    assert seen is not None
    Memory(10).add(*seen, 0)


def test_a_skipped_copy_waits_for_the_receipt() -> None:
    """A copy of an event, whose receipt the brokers do not have yet, is not handled, and not committed either."""
    w = worker.Worker("print", lambda _: worker.Delivered())
    w._memories[0] = Memory(10)
    written: list[Any] = []

    class Writer:
        def write(self, key: str, value: bytes, acked: Any) -> None:
            written.append(acked)

    w._writer = cast(ReceiptWriter, Writer())
    before, after = Partition("t", 0, 1, gone=True), Partition("t", 0, 1)  # it moved away and came back
    event = worker.example("a")  # its id has the time: another example would be another event
    first, copy = Item(7, 1, before, event), Item(7, 1, after, event)
    for item in (first, copy):
        item.part.add(item)
        w._queue.add(item)
    assert w._pick() == (first, False)
    w._answer(first, event, worker.Delivered())
    assert w._pick() is None and after.next == -1 and after.pending == 1
    written[0](0, 0)
    assert after.next == 8 and after.pending == 0


def attempts(w: worker.Worker, *events: worker.DueEvent, abandoned: bool = False) -> list[Any]:
    """Handle events as a worker's thread does, and return their receipts."""
    written: list[Any] = []

    class Writer:
        failures = 0

        def write(self, key: str, value: bytes, acked: Callable[[int, int], None]) -> None:
            written.append(json.loads(value))
            acked(0, len(written))

    w._writer = cast(ReceiptWriter, Writer())
    for offset, event in enumerate(events):
        item = Item(offset, 1, Partition("t", 0, 1), event)
        item.part.add(item)
        w._queue.add(item)
        assert w._pick() == (item, False)
        if abandoned:  # while the handler runs, as far as it can tell
            threading.Timer(0.05, item.part.abandoned.set).start()
        w._execute(item, None)
        assert not item.part.running and (item.part.next == -1) == abandoned
    return written


def test_a_tracer() -> None:
    """It surrounds each attempt, on the handler's thread, and hears its end. What it attaches is of one attempt."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    span = contextvars.ContextVar("span", default="")
    told: list[Any] = []

    def trace(event: worker.DueEvent) -> Callable[[str, str, str], object] | None:
        told.append(("start", event.key, event.traceparent, event.tracestate, span.get(), threading.get_ident()))
        if event.key == "unsampled":
            return None
        span.set(event.key)  # and never reset
        return lambda outcome, code, detail: told.append(("end", outcome, code, detail, span.get()))

    def handle(event: worker.DueEvent) -> worker.Result:
        told.append(("handle", span.get()))
        if event.key == "b":
            raise ValueError("no such number")
        if event.key == "c":
            assert event.abandoned is not None and event.abandoned.wait(10)
            raise ValueError("it is cancelled")
        return worker.Fail("bad_number", "x" * 2000) if event.key == "d" else worker.Delivered()

    w = worker.Worker("print", handle, tracer=trace)
    here = threading.get_ident()
    first = worker.example("a", headers={"traceparent": parent, "tracestate": "v=1"})
    assert [r["outcome"] for r in attempts(w, first, worker.example("b"))] == ["delivered", "retry"]
    assert told == [
        ("start", "a", parent, "v=1", "", here), ("handle", "a"), ("end", "delivered", "", "", "a"),
        ("start", "b", "", "", "", here), ("handle", "b"), ("end", "retry", "error", "no such number", "b"),
    ]
    told.clear()
    assert attempts(w, worker.example("c"), abandoned=True) == [] and w.stats()["abandoned"] == 1
    assert told[2:] == [("end", "abandoned", "", "", "c")]
    told.clear()
    attempts(w, worker.example("d"), worker.example("unsampled"))
    assert told[2:] == [("end", "failed", "bad_number", "x" * 1024, "d"),
                        ("start", "unsampled", "", "", "", here), ("handle", "")]
    with pytest.raises(ValueError, match="tracer"):
        worker.Worker("print", handle, tracer="otel")  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [False, True], ids=["start", "end"])
@pytest.mark.parametrize("error", [ValueError("of the exporter"), SystemExit(1), TypeError()])
def test_a_tracer_that_raises(end: bool, error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """Its errors, and what is none of its kind, change no answer and end no thread."""
    def fail(*_: object) -> Any:
        raise error

    def trace(_: worker.DueEvent) -> Any:
        return fail if end else fail()

    w = worker.Worker("print", lambda _: worker.Delivered(), tracer=trace)
    assert [r["outcome"] for r in attempts(w, worker.example("a"), worker.example("b"))] == ["delivered"] * 2
    assert f"the tracer raised: {str(error) or type(error).__name__}" in caplog.text
    odd = worker.Worker("print", lambda _: worker.Delivered(), tracer=cast(Any, lambda _: "a span"))
    assert [r["outcome"] for r in attempts(odd, worker.example("a"))] == ["delivered"]


@pytest.mark.parametrize("outcome", ["delivered", "retry"])
@pytest.mark.parametrize("placed", [1, 2, 3])
def test_unknown_offsets_find_their_place(outcome: str, placed: int) -> None:
    """Once a receipt of the same round or a later one has an offset, what the engine decided after it is handled."""
    m = Memory(10)
    m.add("a@1", outcome, 2, 0, UNKNOWN)
    m.add("a@1", "failed", placed, 0, 7)
    answered = "final" if outcome == "delivered" else "answered"
    # Of an earlier attempt, it says nothing about the later one.
    redriven = answered if placed == 1 else ""
    for basis, want in ("1.5.9.7.0", answered), ("1.5.9.8.0", redriven):
        assert m.check(dataclasses.replace(worker.example("a"), id="a@1", attempt=1, basis=basis)) == want


class Topic:
    """Metadata of a topic with two partitions, of which the second one has no leader."""

    error = None

    def __init__(self) -> None:
        self.partitions = {num: SimpleNamespace(leader=leader) for num, leader in enumerate((1, -1))}


class Admin:
    def __init__(self, _: object) -> None:
        pass

    def list_topics(self, name: str, timeout: float) -> Any:
        return SimpleNamespace(topics={name: Topic()})

    def list_offsets(self, asked: dict[Any, Any], request_timeout: float) -> Any:
        known: Future[Any] = Future()
        known.set_result(SimpleNamespace(offset=7))
        unknown: Future[Any] = Future()
        unknown.set_exception(KafkaException("no leader"))
        return {tp: known if tp.partition == 0 else unknown for tp in reversed(asked)}


def test_a_partition_without_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds its own events, and nobody else's. The receipts are read as the worker's own group, which it may use."""
    configs: list[Any] = []

    class Reader:
        def __init__(self, config: dict[str, Any]) -> None:
            configs.append(config)

        def get_watermark_offsets(self, tp: Any, timeout: float, cached: bool) -> tuple[int, int]:
            assert tp.partition == 0
            return 0, 0

        def close(self) -> None:
            pass

    monkeypatch.setattr(import_module("waterclock.worker.run"), "AdminClient", Admin)
    monkeypatch.setattr(receipts, "Consumer", Reader)
    w = worker.Worker("print", lambda _: worker.Delivered())
    first, second = parts = [Partition("t", num, 1) for num in (0, 1)]
    w._parts = {(p.topic, p.num): p for p in parts}
    assert w._load(parts) == [second] and first.loaded and not second.loaded
    assert configs[0]["group.id"] == "waterclock.print"
    w._ask_ends()  # for the clock alone: what nobody says is left out
    assert first.end == 7 and second.asked == 0


def test_receipts_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offsets of a topic that was made anew begin at 0: what is known of the old one answers nothing."""
    asked: list[str] = []

    class Ids(Admin):
        def describe_topics(self, topics: Any, request_timeout: float) -> Any:
            asked.append("")
            found: Future[Any] = Future()
            if len(asked) == 2:
                found.set_exception(KafkaException("it is deleted"))
            else:
                found.set_result(SimpleNamespace(topic_id="old" if len(asked) == 1 else "new"))
            return {"waterclock.receipts": found}

    monkeypatch.setattr(import_module("waterclock.worker.run"), "AdminClient", Ids)
    w = worker.Worker("print", lambda _: worker.Delivered())
    w._memories[0] = Memory(10)
    w._memories[0].add("a@1", "delivered", 1, 0, 100)
    redriven = dataclasses.replace(worker.example("a"), id="a@1", attempt=2, basis="1.5.9.1.0")
    assert not w._made_anew() and not w._made_anew()
    assert w._memories[0].check(redriven) == "final"
    assert w._made_anew() and not w._made_anew()
    assert w._memories[0].check(redriven) == "" and len(asked) == 4


@pytest.mark.parametrize(("options", "seconds"), [
    ({}, 45), ({"drain_timeout": 180.0}, 205), ({"revoke_timeout": 400.0}, 425),
    ({"drain_timeout": 200_000.0}, 86_400), ({"drain_timeout": 180.0, "consumer": {"max.poll.interval.ms": 60_000}}, 60),
])
def test_a_drain_keeps_the_partitions(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], seconds: int) -> None:
    """Nobody polls in a drain: a shorter interval gives another worker events while they are handled."""
    made: dict[str, Any] = {}

    class Made(Exception):
        pass

    def consumer(config: dict[str, Any]) -> None:
        made.update(config)
        raise Made

    monkeypatch.setattr(import_module("waterclock.worker.run"), "Consumer", consumer)
    with pytest.raises(Made):
        worker.run("print", lambda _: worker.Delivered(), signals=False, **options)
    assert made["max.poll.interval.ms"] == seconds * 1000


def test_a_callback_that_raises(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """error_cb is the caller's, and a producer may not be there to be made: receipts are written all the same."""
    made: list[Any] = []

    class Broken:
        def __init__(self, config: dict[str, Any]) -> None:
            made.append(self)
            if len(made) == 2:
                raise KafkaException("the keystore is half written")
            self.notice, self.queue = config["error_cb"], list[Any]()

        def produce(self, topic: str, key: str, value: bytes, on_delivery: Any) -> None:
            if len(made) < 3:
                raise KafkaException(KafkaError(KafkaError._FATAL))
            self.queue.append(on_delivery)

        def poll(self, _: float) -> None:
            self.notice(KafkaError(KafkaError._ALL_BROKERS_DOWN))
            for on_delivery in self.queue:
                on_delivery(None, SimpleNamespace(partition=lambda: 0, offset=lambda: 0))
            self.queue.clear()

        def __len__(self) -> int:
            return len(self.queue)

    def raising(_: object) -> None:
        raise RuntimeError("of the caller")

    monkeypatch.setattr(receipts, "Producer", Broken)
    monkeypatch.setattr(receipts, "BACKOFF", 0.01)
    writer = ReceiptWriter("t", {"error_cb": raising}, receipts.Throttle(logging.getLogger("test")), worker.Metrics())
    for _ in range(1000):  # before the first receipt fails: of two lines of the log so soon the second one is omitted
        if "error_cb raised" in caplog.text:
            break
        time.sleep(0.01)
    assert "error_cb raised" in caplog.text
    acked = threading.Event()
    writer.write("a", b"", lambda *_: acked.set())
    assert acked.wait(10) and writer._thread.is_alive()
    writer.close()


@pytest.mark.parametrize("appended", [0, -1, 1 << 62, 253_402_300_800_000])
def test_times_of_no_calendar(appended: int) -> None:
    """A record's time may be any number where its producer sets it."""
    event = worker.example("a")
    headers = [("ce_specversion", b"1.0"), ("ce_id", event.id.encode()), ("ce_type", b"waterclock.due.v1"),
               ("ce_subject", b"a"), ("ce_time", b"2026-11-20T09:00:00.000Z"), ("ce_wcattempt", b"1")]
    given: Any = headers
    worker.decode("t", 0, 0, appended, b"a", b"", given, False)


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("raised", [ValueError("a file \udcff of no text"), Silent(), ValueError("x" * 100_000)])
def test_any_exception_becomes_a_receipt(raised: Exception) -> None:
    def handle(_: worker.DueEvent) -> worker.Result:
        raise raised

    event = worker.example("a")
    got = json.loads(receipt(event, "sms", worker.call(handle, event)))
    assert (got["outcome"], got["code"], got["due_id"]) == ("retry", "error", event.id)


@pytest.mark.parametrize("result", [
    worker.Fail("bad\udc80code", "\ud800"), worker.Fail(5, object()),  # type: ignore[arg-type]
    worker.Retry(math.nan), worker.Retry(math.inf), worker.Retry(-1), worker.Postpone(1e300),
])
def test_any_result_becomes_a_receipt(result: Result) -> None:
    event = worker.example("a")
    assert json.loads(receipt(event, "sms", result))["due_id"] == event.id


def test_a_command_that_is_too_large(dev: Dev) -> None:
    with KafkaClient(dev.kafka) as kafka, pytest.raises(TooLarge) as raised:
        kafka.schedule("big", delay="1h", payload="x" * 2_000_000)
    assert raised.value.code == "too_large" and not raised.value.maybe_applied


def test_values_that_are_no_json(dev: Dev) -> None:
    with KafkaClient(dev.kafka) as kafka:
        for payload in (math.nan, object(), {1, 2}):
            with pytest.raises(InvalidRequest) as raised:
                kafka.schedule("a", delay="1h", payload=payload)
            assert raised.value.status == 0
