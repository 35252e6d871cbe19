"""The worker: one thread polls, commits and hears of rebalances; handlers run on threads of their own."""

from __future__ import annotations

import logging
import re
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined,unused-ignore]

from .._murmur2 import partition as murmur2_partition
from ..errors import Unfinished
from .event import DueEvent, Garbled, decode
from .metrics import Guarded, Load, Metrics
from .queue import HIGH as HIGH_LANE
from .queue import NORMAL, Bulkhead, Queue
from .receipts import ReceiptWriter, Throttle, _bytes, read_last
from .result import Result, Retry, Suppress, no_result, receipt, text_of
from .state import UNKNOWN, Clock, Item, Memory, Partition, Unacked, answer_of, answers, judge, order_key
from .trace import Spans, Tracer

Handler = Callable[[DueEvent], Result]
Hook = Callable[[Sequence[DueEvent]], Any]

HIGH = ".high"
MAX_POLL = 500
MAX_POLL_INTERVAL = 86_400.0  # librdkafka's bound
MIN_RECORDS, MIN_BYTES = 16, 64 << 10  # the share of a partition is at least this
ASK_INTERVAL = 15.0  # between two questions for the ends of the logs
HANGS_AFTER = 1.0  # how long a handler runs before others of its key, in a full partition, are answered with overflow
BATCH_LINGER = 0.005  # while nearly all handlers are busy: else each that ends would start a batch of one

_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call,unused-ignore]
_CHANNEL = re.compile(r"[a-z0-9][a-z0-9._-]{0,48}\Z")


def call(handle: Handler, event: DueEvent) -> Result:
    """Call a handler as the worker does: what it raises becomes a retry. For tests of handlers."""
    return _call(handle, event, logging.getLogger("waterclock.worker"))[0]


def _call(handle: Handler, event: DueEvent, log: logging.Logger | logging.LoggerAdapter[Any],
          ) -> tuple[Result, BaseException | None]:
    try:
        result = handle(event)
    except Exception as error:
        code = "timeout" if event.timed_out else "error"
        text = text_of(error) or type(error).__name__
        log.warning("the handler raised; %s is retried: %s", event.id, text, exc_info=error)
        return Retry(0, code, text), error
    except BaseException as error:  # SystemExit and the like must not end a handler's thread
        log.error("the handler raised %s; %s is retried", type(error).__name__, event.id, exc_info=error)
        return Retry(0, "panic", text_of(error) or type(error).__name__), error
    return (result if isinstance(result, Result) else no_result()), None


class Worker:
    """Handles the due events of a channel. run() blocks until stop(), SIGTERM or SIGINT, and then drains.

    brokers           addresses to start from
    kafka             options of librdkafka for all clients: TLS, SASL
    prefix, group     the engine's topics.prefix and group; the consumer group is <group>.<channel>
    topic             the engine's channels.<channel>.topic, where that is set
    concurrency       handlers at a time, each on a thread of its own
    buffer_records, buffer_bytes   events in memory, until their receipts are acknowledged; partitions have equal shares
    fetch_bytes       what librdkafka fetches ahead
    handler_timeout   seconds; then event.cancelled is true. No thread is ended by force
    drain_timeout     seconds from the stop to the end of run()
    revoke_timeout    seconds for which a partition that moves waits for its handlers
    commit_interval   seconds between commits
    memory            receipts known for each partition; -1 turns it off
    by_key            for partitioning: by_key: the memory of all partitions
    on_batch          called right before handlers start, with the events that start now (at most batch_max), such as to
                      read what all of them need at once; event.batch is what it returned. One call at a time, on any of
                      the handlers' threads. If it raises, all of them are retried
    per_group         a Bulkhead: how many events of one group are handled at a time
    metrics           where numbers go; waterclock.worker.prometheus has one
    tracer            called with each event right before its handler, on the same thread. What it returns is called
                      once after that, with outcome, code and detail; an outcome may be "abandoned". What either raises
                      is logged. An event that is answered without its handler has no span
    consumer          options of librdkafka for the consumer of due events alone, such as session.timeout.ms
    """

    def __init__(self, channel: str, handle: Handler, *, brokers: str = "127.0.0.1:9092",
                 kafka: Mapping[str, Any] | None = None, prefix: str = "waterclock.", group: str = "waterclock",
                 topic: str = "", concurrency: int = 64, buffer_records: int = 10_000, buffer_bytes: int = 64 << 20,
                 fetch_bytes: int = 8 << 20, handler_timeout: float = 300.0, drain_timeout: float = 20.0,
                 revoke_timeout: float = 10.0, commit_interval: float = 1.0, memory: int = 100_000,
                 by_key: bool = False, on_batch: Hook | None = None, batch_max: int = 500,
                 per_group: Bulkhead | None = None, metrics: Metrics | None = None,
                 consumer: Mapping[str, Any] | None = None, logger: logging.Logger | None = None,
                 tracer: Tracer | None = None) -> None:
        for ok, text in (
            (_CHANNEL.match(channel) and not channel.endswith(HIGH),
             f"channel {channel!r}: want a-z, 0-9, '.', '_', '-', at most 49 of them, not ending in .high"),
            (callable(handle), "the handler cannot be called"), (brokers, "brokers: want at least one address"),
            (group, "group: want the engine's group"),
            (1 <= concurrency <= 1000, f"concurrency {concurrency}: want 1 to 1,000"),
            (buffer_records > 0 and buffer_bytes > 0, "buffer_records, buffer_bytes: want more than 0"),
            (fetch_bytes >= 64 << 10, "fetch_bytes: want 64 KiB or more"),
            (min(handler_timeout, drain_timeout, revoke_timeout, commit_interval) > 0, "timeouts: want more than 0"),
            (memory == -1 or 0 < memory <= 10_000_000, f"memory {memory}: want 1 to 10,000,000, or -1 for none"),
            (batch_max > 0, f"batch_max {batch_max}: want more than 0"),
            (per_group is None or min(per_group.in_flight, per_group.waiting) > 0,
             "per_group: want in_flight and waiting above 0"),
            (tracer is None or callable(tracer), "tracer: it cannot be called"),
        ):
            if not ok:
                raise ValueError(f"worker: {text}")
        self._channel, self._handle, self._group = channel, handle, f"{group}.{channel}"
        self._topic = topic or f"{prefix}due.{channel}"
        self._receipts_topic = prefix + "receipts"
        self._concurrency, self._buffer_records, self._buffer_bytes = concurrency, buffer_records, buffer_bytes
        self._fetch_bytes = fetch_bytes
        self._handler_timeout, self._drain_timeout, self._revoke_timeout = handler_timeout, drain_timeout, revoke_timeout
        self._commit_interval, self._limit, self._by_key = commit_interval, memory, by_key
        self._on_batch, self._batch_max = on_batch, batch_max
        self._consumer_options = dict(consumer or {})
        self._config: dict[str, Any] = {
            "client.id": f"waterclock-worker-{channel}",
            "reconnect.backoff.max.ms": 1000,  # not 10 s: due events wait while the brokers are back
            **(kafka or {}), "bootstrap.servers": brokers,
            "allow.auto.create.topics": False, "enable.metrics.push": False,
        }
        self._log = logging.LoggerAdapter(logger or logging.getLogger("waterclock.worker"), {"channel": channel})
        self._garbled, self._failing = Throttle(self._log), Throttle(self._log)
        self._stop = threading.Event()
        self._overflow = per_group.overflow if per_group else None
        self._metrics: Metrics = Metrics() if metrics is None else Guarded(
            metrics, lambda name, error: self._failing.warn("metrics.%s raised: %s", name, text_of(error)))
        self._spans = Spans(tracer, lambda error: self._failing.warn("the tracer raised: %s",
                                                                     text_of(error) or type(error).__name__))

        # The rest is guarded by the lock, as far as handlers see it; nobody waits for Kafka or a handler with it held.
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._loads = threading.Condition(self._lock)
        self._queue = Queue(per_group)
        self._begun: deque[tuple[Item, Result | None]] = deque()  # behind on_batch, and its answer if that raised
        self._hooking = False  # a thread begins a batch: no other one does
        self._parts: dict[tuple[str, int], Partition] = {}
        self._memories: dict[int, Memory] = {}
        self._unacked: dict[str, Unacked] = {}  # by ce_id; the newest receipt of each
        self._to_load: list[Partition] = []
        self._numbers = 0  # partitions of the receipts topic, once known
        self._topic_id = ""  # of the receipts topic that the memories are of
        self._clock = Clock()
        self._running = self._pending = self._threads = self._idle = 0
        self._waking = False  # a handler's thread is on its way: it wakes the next one
        self._ending = False
        self._counts: Counter[str] = Counter()
        self._consumer: Consumer | None = None
        self._committing: threading.Thread | None = None  # the last commit; of the thread that polls
        self._writer: ReceiptWriter | None = None

    # --- for callers ------------------------------------------------------------

    def stop(self) -> None:
        """End run(): what is running finishes, receipts are written, offsets are committed. Any thread may call it."""
        self._stop.set()

    def stats(self) -> dict[str, int]:
        """What is in memory now, and counts since the start."""
        with self._lock:
            now = self._load_now()
            return {
                "assigned": now.assigned, "running": now.running, "ready": now.ready, "pending": now.pending,
                "buffered": now.buffered, "paused": now.paused, "held": now.held,
                "receipt_failures": self._writer.failures if self._writer else 0, **self._counts,
            }

    def _load_now(self) -> Load:
        """The lock is held."""
        parts = self._parts.values()
        return Load(self._running, len(self._queue), sum(p.records for p in parts), sum(p.size for p in parts),
                    self._pending, len(parts), sum(p.paused for p in parts), sum(not p.loaded for p in parts),
                    self._clock.ahead())

    def run(self, *, signals: bool = True) -> None:
        """Handle events until stop(). Raises Unfinished if drain_timeout was too short.

        With signals, on the main thread, SIGTERM and SIGINT stop it too. Brokers that are away are waited for.
        """
        if self._consumer is not None:
            raise RuntimeError("a worker runs once: make another one")
        before: dict[int, Any] = {}
        if signals and threading.current_thread() is threading.main_thread():
            for number in (int(signal.SIGTERM), int(signal.SIGINT)):
                before[number] = signal.signal(number, lambda *_: self._stop.set())
        try:
            self._run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # --- the loop -----------------------------------------------------------------

    def _run(self) -> None:
        options = {**self._config, **self._consumer_options}
        consumer = self._consumer = Consumer({
            "heartbeat.interval.ms": 1000,  # how soon one hears of a rebalance
            "topic.metadata.refresh.interval.ms": 2000,  # a lane that is created later is found within 5 s
            "fetch.wait.max.ms": 100,
            # Nobody polls in a drain; after this time others get the partitions. It is also the group's rebalance
            # time-out: how long one who dies in a rebalance holds the others up.
            "max.poll.interval.ms": max(
                int(options.get("session.timeout.ms", 45_000)),
                int(min(max(self._revoke_timeout, self._drain_timeout) + 25, MAX_POLL_INTERVAL) * 1000)),
            **options, "group.id": self._group, "enable.auto.commit": False,
            "enable.auto.offset.store": False, "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",  # or due events of aborted transactions are seen
            "partition.assignment.strategy": "cooperative-sticky",
            "queued.max.messages.kbytes": self._fetch_bytes >> 10, "queued.min.messages": 10_000,
        })
        self._writer = ReceiptWriter(self._receipts_topic, self._config, self._failing, self._metrics)
        consumer.subscribe([self._topic, self._topic + HIGH], on_assign=self._assigned, on_revoke=self._revoked,
                           on_lost=self._lost)
        threading.Thread(target=self._load_loop, name="waterclock-load", daemon=True).start()
        committed = time.monotonic()
        while not self._stop.is_set():
            self._poll(consumer)
            self._flow(consumer)
            self._answer_overflow()
            if time.monotonic() - committed >= self._commit_interval:
                self._commit_soon(consumer)
                with self._lock:
                    now = self._load_now()
                self._metrics.load(now)
                committed = time.monotonic()
        self._drain(consumer)

    def _poll(self, consumer: Consumer) -> None:
        first = consumer.poll(0.1)
        if first is None:
            return
        messages = [first, *consumer.consume(MAX_POLL - 1, timeout=0)]
        polled = self._clock.ours()
        found: dict[tuple[str, int], list[tuple[Message, DueEvent | None]]] = {}
        for message in messages:
            if message.error() is not None:
                self._poll_failed(cast(KafkaError, message.error()))
                continue
            key = (message.topic() or "", -1 if message.partition() is None else cast(int, message.partition()))
            found.setdefault(key, []).append((message, self._decode(message)))
        for (topic, num), records in found.items():
            self._take(topic, num, records, polled)

    def _poll_failed(self, error: KafkaError) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            return
        if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            if HIGH not in error.str():  # the lane is made with the first event of priority high
                self._failing.warn("%s does not exist; the channel's first trigger or `waterclock topics apply` creates "
                                   "it. If that has happened, check prefix, topic and the channel's name", self._topic)
            return
        self._failing.warn("cannot read due events; retrying: %s", error.str())

    def _decode(self, message: Message) -> DueEvent | None:
        topic, headers = message.topic() or "", cast("list[tuple[str, bytes | None]]", message.headers() or [])
        kind, at = message.timestamp()
        try:
            return decode(topic, message.partition() or 0, message.offset() or 0, at if kind else 0,
                          _bytes(message.key()), _bytes(message.value()), headers,
                          topic == self._topic + HIGH)
        except Garbled as error:
            self._count("garbled")
            self._metrics.garbled(error.header)
            self._garbled.warn("skipped a record that is not a due event: %s/%s/%s: %s", topic, message.partition(),
                               message.offset(), error)
            return None

    def _take(self, topic: str, num: int, found: list[tuple[Message, DueEvent | None]], polled: float) -> None:
        with self._lock:
            part = self._parts.get((topic, num))
            if part is None or part.gone:
                return  # the worker ends
            self._observe(part, found[-1][0], polled)
            for message, event in found:
                size = 512 + len(message) + sum(len(h[0]) + len(h[1] or b"") for h in event.headers) if event else 512
                item = Item(message.offset() or 0, size, part, event, order_key(event) if event else b"")
                part.add(item)
                if event is None:
                    part.finish(item)
                elif part.loaded:
                    self._queue.add(item)
                else:
                    part.held.append(item)
            self._wake()

    def _observe(self, part: Partition, message: Message, polled: float) -> None:
        kind, at = message.timestamp()
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            behind = part.asked if part.asked and (message.offset() or 0) >= part.end else 0.0
            self._clock.observe(at / 1000, polled, behind)

    # --- handlers -------------------------------------------------------------------

    def _wake(self) -> None:
        """Something is ready. The lock is held.

        Threads are made as they are needed, and stay. They are woken one after another, each by the one before it: with a
        handler that is fast few are ever awake, and they do not fight for the interpreter.
        """
        if self._waking or not (self._begun or self._may_begin()):
            return
        if self._idle:
            self._waking = True
            self._ready.notify()
        elif self._threads < self._concurrency:
            try:
                threading.Thread(target=self._serve, name=f"waterclock-handler-{self._threads + 1}", daemon=True).start()
            except RuntimeError as error:  # the machine allows no more: those that are there go on
                self._failing.warn("cannot start a thread for a handler; there are %d: %s", self._threads, error)
                return
            self._waking = True
            self._threads += 1

    def _may_begin(self) -> bool:
        """Whether events may start that wait in the queue. The lock is held."""
        return self._queue.can_start() and self._running < self._concurrency and not self._hooking

    def _serve(self) -> None:
        with self._lock:
            self._waking = False
        while True:
            with self._lock:
                while not self._begun and (self._ending or not self._may_begin()):
                    if self._ending:
                        return
                    self._idle += 1
                    self._ready.wait()
                    self._idle -= 1
                    self._waking = False
                begun = self._begun.popleft() if self._begun else None
                picked = self._pick() if begun is None and self._on_batch is None else None
                busy = self._concurrency - self._running < max(self._concurrency // 4, 1)
                if begun is not None or picked is not None:
                    self._wake()
                else:
                    self._hooking = self._on_batch is not None
            if begun is not None:
                self._execute(*begun)
            elif self._on_batch is not None:
                self._begin(busy)
            elif picked is not None and picked[1]:
                self._answer(picked[0], cast(DueEvent, picked[0].event), Suppress("expired"))
            elif picked is not None:
                self._execute(picked[0], None)

    def _begin(self, busy: bool) -> None:
        """Start a batch: call on_batch, and let handlers have its events. Nobody else does meanwhile."""
        begun: list[tuple[Item, Result | None]] = []
        try:
            if busy:
                time.sleep(BATCH_LINGER)
            begun = self._batch()
        finally:
            with self._lock:
                self._hooking = False
                self._begun.extend(begun)
                if self._ending:
                    self._drop_begun()
                self._wake()

    def _drop_begun(self) -> None:
        """At the end: what has no handler yet is delivered again. Few threads are left for it. The lock is held."""
        for item, _ in self._begun:
            self._leave(item)
        self._begun.clear()

    def _batch(self) -> list[tuple[Item, Result | None]]:
        """The events that start now, and their answer if on_batch raised."""
        batch: list[Item] = []
        expired: list[Item] = []
        with self._lock:
            while len(batch) < self._batch_max and self._running < self._concurrency:
                picked = self._pick()
                if picked is None:
                    break
                (expired if picked[1] else batch).append(picked[0])
        for item in expired:
            self._answer(item, cast(DueEvent, item.event), Suppress("expired"))
        if not batch:
            return []
        failed = self._call_hook([cast(DueEvent, item.event) for item in batch])
        return [(item, failed) for item in batch]

    def _call_hook(self, events: list[DueEvent]) -> Result | None:
        """The answer to all of them if on_batch raised."""
        assert self._on_batch is not None
        try:
            value = self._on_batch(events)
        except BaseException as error:
            text = text_of(error) or type(error).__name__
            self._log.error("on_batch raised; its %d due events are retried: %s", len(events), text, exc_info=error)
            return Retry(0, "error" if isinstance(error, Exception) else "panic", "on_batch raised: " + text)
        for event in events:
            event.batch = value
        return None

    def _execute(self, item: Item, failed: Result | None) -> None:
        """Call the handler, unless there is an answer already."""
        event = cast(DueEvent, item.event)
        if item.part.abandoned.is_set():  # its partition moved while on_batch ran: another worker has it
            self._give_up(item)
            return
        if failed is not None:
            self._answer(item, event, failed)
            return
        event.deadline = time.monotonic() + self._handler_timeout
        event.abandoned = item.part.abandoned
        result = self._spans.attempt(lambda: self._attempt(event, item.part.abandoned))
        if result is None:
            self._give_up(item)
        else:
            self._answer(item, event, result)

    def _attempt(self, event: DueEvent, abandoned: threading.Event) -> Result | None:
        """Call the handler within its span. None: it raised, and nobody waits for the answer any more."""
        end = self._spans.start(event)
        begin = time.monotonic()
        result, error = _call(self._handle, event, self._log)
        took = time.monotonic() - begin
        if error is not None and abandoned.is_set():
            end(None)
            return None
        end(result)
        self._metrics.handled(result.outcome.value, result.code, took)
        return result

    def _give_up(self, item: Item) -> None:
        self._metrics.abandoned()
        self._finish(item, "abandoned")  # no receipt, so its offset is not committed

    def _answer_overflow(self) -> None:
        """Answer what finds no room in its bulkhead. One answer may bring the next event of its key, so it asks anew."""
        if self._overflow is None:
            return
        with self._lock:
            before = time.monotonic() - HANGS_AFTER
            for p in self._parts.values():
                if p.paused:
                    self._queue.shed(p, before)
        while True:
            with self._lock:
                found = self._queue.take_overflow()
                live = []
                for item in found:
                    if item.part.gone:
                        self._queue.finish(item)
                    elif self._judge(item) != "skipped":
                        self._start(item)
                        item.started = 0.0  # no handler runs
                        live.append(item)
            if not found:
                return
            for item in live:
                event = cast(DueEvent, item.event)
                result, _ = _call(self._overflow, event, self._log)
                self._metrics.handled(result.outcome.value, result.code, 0.0)
                self._answer(item, event, result)
            with self._lock:
                self._wake()

    def _pick(self) -> tuple[Item, bool] | None:
        """The next event to handle, and whether it has expired. The lock is held."""
        while not self._ending:
            item = self._queue.take()
            if item is None:
                return None
            reason = self._judge(item)
            if reason != "skipped":
                self._start(item)
                return item, reason == "expired"
        return None

    def _start(self, item: Item) -> None:
        self._running += 1
        item.part.running.add(item)
        item.started = time.monotonic()

    def _judge(self, item: Item) -> str:
        """Whether an event is to be handled: "" if so. What needs neither handler nor receipt is skipped."""
        event = cast(DueEvent, item.event)
        unacked = self._unacked.get(event.id)
        reason = judge(self._memory_of(event), event, self._clock.now(), unacked)
        if reason and reason != "expired":
            self._counts["skipped_" + reason] += 1
            self._metrics.skipped(reason)
            self._queue.finish(item)
            if unacked is not None and answers(unacked.answer, event):
                unacked.copies.append(item)
                item.part.pending += 1
            else:
                item.part.finish(item)
            return "skipped"
        return reason

    def _memory_of(self, event: DueEvent) -> Memory | None:
        return self._memories.get(self._receipts_of(event))

    def _receipts_of(self, event: DueEvent) -> int:
        """The partition of the receipts topic that has an event's receipts; -1 if it is not known yet."""
        if not self._by_key:
            return event.partition
        return murmur2_partition(event.key.encode(), self._numbers) if self._numbers else -1

    def _answer(self, item: Item, event: DueEvent, result: Result) -> None:
        """Write the receipt. Before the next event of the same key starts, it is known."""
        value = receipt(event, self._channel, result)
        unacked = Unacked(answer_of(result.outcome.value, event.attempt, event.postponed))

        def acked(partition: int, offset: int) -> None:
            with self._lock:
                memory = self._memory_of(event)
                if memory is not None:
                    # Of one in another partition, which the engine forwards, the offset says nothing.
                    known = partition == self._receipts_of(event) and offset >= 0
                    memory.add(event.id, result.outcome.value, event.attempt, event.postponed,
                               offset if known else UNKNOWN)
                if self._unacked.get(event.id) is unacked:
                    del self._unacked[event.id]
                self._pending -= 1
                for each in (item, *unacked.copies):
                    each.part.pending -= 1
                    each.part.finish(each)

        with self._lock:
            if self._memory_of(event) is not None:
                self._unacked[event.id] = unacked
            self._pending += 1
            item.part.pending += 1
        assert self._writer is not None
        self._writer.write(event.key, value, acked)
        self._finish(item, result.outcome.value)

    def _finish(self, item: Item, count: str) -> None:
        with self._lock:
            self._counts[count] += 1
            self._leave(item)

    def _leave(self, item: Item) -> None:
        """An event does not run any more. The lock is held."""
        self._running -= 1
        item.part.running.discard(item)
        self._queue.finish(item)

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    # --- back-pressure and commits ------------------------------------------------------

    def _share(self) -> tuple[int, int]:
        n = max(len(self._parts), 1)
        return max(self._buffer_records // n, MIN_RECORDS), max(self._buffer_bytes // n, MIN_BYTES)

    def _flow(self, consumer: Consumer) -> None:
        """Pause partitions that are full, and resume those with room."""
        full, free = [], []
        with self._lock:
            records, size = self._share()
            for p in self._parts.values():
                if not p.paused and (p.records >= records or p.size >= size):
                    p.paused = True
                    full.append(TopicPartition(p.topic, p.num))
                elif p.paused and p.records <= records // 2 and p.size <= size // 2:
                    p.paused = False
                    free.append(TopicPartition(p.topic, p.num))
        if full:
            consumer.pause(full)
        if free:
            consumer.resume(free)

    def _to_commit(self, parts: Iterable[Partition]) -> list[TopicPartition]:
        with self._lock:
            # Not of partitions that are not ours any more: that could undo the new owner's commit.
            return [TopicPartition(p.topic, p.num, p.next) for p in parts
                    if p.next > p.committed and self._parts.get((p.topic, p.num)) is p]

    def _commit_soon(self, consumer: Consumer) -> None:
        offsets = self._to_commit(list(self._parts.values()))
        if offsets:
            self._commit_within(consumer, offsets, 0)

    def _commit_within(self, consumer: Consumer, offsets: list[TopicPartition], seconds: float) -> None:
        """Commit, and wait so long for it. The next commit has all that a failed one had."""
        end = time.monotonic() + seconds
        if self._committing is not None:
            self._committing.join(seconds)
            if self._committing.is_alive():  # brokers are away; one commit waits for them, and not a pile
                return

        def commit() -> None:
            try:
                for tp in consumer.commit(offsets=offsets, asynchronous=False) or []:
                    if tp.error is not None:
                        raise KafkaException(tp.error)
                    with self._lock:
                        part = self._parts.get((tp.topic, tp.partition))
                        if part is not None:
                            part.committed = max(part.committed, tp.offset)
            except (KafkaException, RuntimeError) as error:
                self._count("commit_failures")
                self._metrics.commit_failed()
                self._failing.warn("cannot commit offsets of group %s; retrying: %s", self._group, error)

        # librdkafka waits without a bound for a coordinator that is away.
        self._committing = threading.Thread(target=commit, name="waterclock-commit", daemon=True)
        self._committing.start()
        self._committing.join(max(end - time.monotonic(), 0))

    # --- rebalances -----------------------------------------------------------------------

    def _assigned(self, _: Consumer, assigned: list[TopicPartition]) -> None:
        """New partitions. Their events are held until the end of the receipts topic is read."""
        parts = [Partition(tp.topic, tp.partition, HIGH_LANE if tp.topic == self._topic + HIGH else NORMAL)
                 for tp in assigned]
        if not parts:
            return
        self._log.info("partitions assigned: %s", ", ".join(f"{p.topic}/{p.num}" for p in parts))
        with self._lock:
            for p in parts:
                self._parts[p.topic, p.num] = p
            self._to_load += parts
            self._loads.notify()

    def _revoked(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        """What runs may finish within revoke_timeout; what is done is committed."""
        parts = self._close(revoked)
        if not parts or self._ending:
            return
        if not self._wait(lambda: not any(p.running or p.pending for p in parts), self._revoke_timeout):
            self._abandon(parts)
            self._log.warning("partitions moved before their handlers had finished; their events go to another worker: %s",
                              ", ".join(f"{p.topic}/{p.num}" for p in parts))
        offsets = self._to_commit(parts)
        if offsets:
            self._commit_within(consumer, offsets, 10)
        self._forget(consumer, parts)

    def _lost(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        """The group has given our partitions to others: nothing may be committed."""
        parts = self._close(lost)
        if parts:
            self._log.warning("the group has revoked partitions; their events go to another worker: %s",
                              ", ".join(f"{p.topic}/{p.num}" for p in parts))
            self._abandon(parts)
            self._forget(consumer, parts)

    def _close(self, which: Iterable[TopicPartition]) -> list[Partition]:
        with self._lock:
            found = [self._parts.get((tp.topic, tp.partition)) for tp in which]
            parts = [p for p in found if p is not None]
            for p in parts:
                p.gone = True
            self._queue.purge()
            return parts

    def _abandon(self, parts: Iterable[Partition]) -> None:
        for p in parts:
            p.abandoned.set()

    def _forget(self, consumer: Consumer, parts: list[Partition]) -> None:
        resume = []
        with self._lock:
            for p in parts:
                if self._parts.get((p.topic, p.num)) is p:
                    del self._parts[p.topic, p.num]
                if p.paused:
                    resume.append(TopicPartition(p.topic, p.num))
            used = {num for _, num in self._parts}
            if not self._by_key:
                self._memories = {num: m for num, m in self._memories.items() if num in used}
        if resume:
            try:
                consumer.resume(resume)  # or it is paused when it comes back
            except KafkaException:
                pass  # it is not ours any more

    def _wait(self, done: Callable[[], bool], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while True:
            with self._lock:
                if done():
                    return True
            if time.monotonic() >= end:
                return False
            time.sleep(0.005)

    # --- the memory -----------------------------------------------------------------------

    def _load_loop(self) -> None:
        """Reads the memory of new partitions, for as long as it takes; asks for the ends of the logs."""
        wait, asked = 0.0, time.monotonic()
        while True:
            with self._lock:
                self._loads.wait_for(lambda: self._ending or bool(self._to_load), 1 if wait == 0 else wait)
                if self._ending:
                    return
                parts = [p for p in self._to_load if not p.gone]
                self._to_load = []
            try:
                if parts or time.monotonic() - asked >= ASK_INTERVAL:
                    asked = time.monotonic()
                    self._ask_ends()
                    if self._limit > 0 and self._made_anew():
                        with self._lock:
                            parts = [p for p in self._parts.values() if not p.gone]
                if parts:
                    parts = self._load(parts)
                if parts:
                    raise LookupError("partitions have no leader: " + ", ".join(str(p.num) for p in parts))
                wait = 0.0
            except Exception as error:  # whatever it is: without the memory nothing of these is handled
                wait = min(max(wait * 2, 0.1), 5.0)
                with self._lock:
                    self._to_load += parts
                if parts:
                    self._failing.warn("cannot read %s; its due events are held until it can be read: %s",
                                       self._receipts_topic, error)
                self._stop.wait(wait)

    def _load(self, parts: list[Partition]) -> list[Partition]:
        """Release the partitions whose receipts can be read, and return the others."""
        ready = parts
        if self._limit > 0:
            found = AdminClient(self._config).list_topics(self._receipts_topic, timeout=10).topics[self._receipts_topic]
            if found.error is not None:
                raise KafkaException(found.error)
            numbers = len(found.partitions)
            wanted = set(range(numbers)) if self._by_key else {p.num for p in parts}
            if not wanted <= set(found.partitions):
                raise ValueError(f"{self._receipts_topic} has {numbers} partitions and the due topic has more: if the "
                                 "channel has partitioning: by_key, give by_key=True")
            away = {num for num in wanted if found.partitions[num].leader < 0}
            # With by_key, the receipts of a partition's events are on all partitions.
            ready = [p for p in parts if (not away if self._by_key else p.num not in away)]
            wanted -= away
            with self._lock:
                self._numbers = numbers
                for num in wanted:
                    self._memories.setdefault(num, Memory(self._limit))
                spans = {num: self._memories[num].next for num in wanted}
            ends = read_last(self._receipts_topic, self._channel, self._group, self._config, spans, self._limit,
                             self._learn, self._renew, lambda: self._ending)
            with self._lock:
                for num, end in ends.items():
                    if num in self._memories:
                        self._memories[num].next = end
        with self._lock:
            for p in ready:
                p.loaded = True
                for item in p.held:
                    if not p.gone:
                        self._queue.add(item)
                p.held = []
            self._wake()
        return [p for p in parts if p not in ready]

    def _made_anew(self) -> bool:
        """Whether the receipts topic was made anew. Its offsets begin at 0 again, so the old ones would seem newer."""
        admin = AdminClient(self._config)
        found = admin.describe_topics(TopicCollection([self._receipts_topic]), request_timeout=2)[self._receipts_topic]
        try:
            topic_id = str(found.result(5).topic_id)
        except Exception:  # it is not there, or the brokers are not: what is read says so
            return False
        with self._lock:
            known, self._topic_id = self._topic_id, topic_id
            if known in ("", topic_id):
                return False
            self._memories = {num: Memory(self._limit) for num in self._memories}
        self._log.warning("%s was made anew; reading it again", self._receipts_topic)
        return True

    def _renew(self, num: int) -> None:
        """The receipts topic was made anew: what is known of it is of another life."""
        with self._lock:
            self._memories[num] = Memory(self._limit)

    def _learn(self, num: int, due_id: str, outcome: str, attempt: int, postponed: int, offset: int) -> None:
        with self._lock:
            memory = self._memories.get(num)
            if memory is not None:
                memory.add(due_id, outcome, attempt, postponed, offset)

    def _ask_ends(self) -> None:
        """What comes behind the ends of the logs was appended after now: for the clock alone, so nothing waits for it."""
        with self._lock:
            names = list(self._parts)
        if not names:
            return
        asked = self._clock.ours()
        admin = AdminClient(self._config)  # held: its answers come only as long as it lives
        futures = admin.list_offsets(
            dict.fromkeys((TopicPartition(topic, num) for topic, num in names), _LATEST), request_timeout=2)
        for tp, future in futures.items():
            try:
                end = future.result(5).offset
            except Exception:  # it has no leader
                continue
            with self._lock:
                part = self._parts.get((tp.topic, tp.partition))
                if part is not None:
                    part.end, part.asked = end, asked

    # --- the end ----------------------------------------------------------------------------

    def _drain(self, consumer: Consumer) -> None:
        """Nothing new starts; handlers have 3/4 of drain_timeout, receipts an eighth more, the last commit the rest."""
        begin = time.monotonic()

        def left(part: float) -> float:
            return max(begin + self._drain_timeout * part - time.monotonic(), 0)

        with self._lock:
            self._ending = True
            parts = list(self._parts.values())
            for p in parts:
                p.gone = True
            self._queue.purge()
            self._drop_begun()
            self._ready.notify_all()
            self._loads.notify_all()
        if not self._wait(lambda: self._running == 0, left(3 / 4)):
            self._abandon(parts)
        self._wait(lambda: self._running == 0 and self._pending == 0, left(7 / 8))
        with self._lock:
            running, pending = self._running, self._pending
        offsets = self._to_commit(parts)
        if offsets:
            self._commit_within(consumer, offsets, max(left(15 / 16), 0.1))
        leave = threading.Thread(target=consumer.close, name="waterclock-leave", daemon=True)
        leave.start()
        leave.join(max(left(1), 0.1))
        assert self._writer is not None
        self._writer.close()
        if running or pending:
            raise Unfinished(f"after {self._drain_timeout} s, {running} handlers ran and {pending} receipts were not "
                             "written; these due events are delivered again")


def run(channel: str, handle: Handler, *, signals: bool = True, **options: Any) -> None:
    """Handle the due events of a channel until SIGTERM or SIGINT, and then drain. Options: see Worker."""
    Worker(channel, handle, **options).run(signals=signals)
