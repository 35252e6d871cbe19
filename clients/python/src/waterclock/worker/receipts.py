"""Writes receipts until they stand, and reads the last ones of a partition."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from .metrics import Metrics
from .result import text_of
from .state import read_receipt

BACKOFF = 1.0  # seconds before a receipt that failed is written anew
STALL = 30.0  # seconds of a reading without a record


Acked = Callable[[int, int], None]  # the partition and the offset of a receipt; -1 if the brokers do not say it


class Throttle:
    """At most one line in ten seconds: what fails may fail for every record."""

    def __init__(self, log: logging.Logger | logging.LoggerAdapter[Any]) -> None:
        self._log, self._last, self._omitted = log, -1e9, 0

    def warn(self, text: str, *args: object) -> None:
        now = time.monotonic()
        if now - self._last < 10:
            self._omitted += 1
            return
        more = f" ({self._omitted} like it were omitted)" if self._omitted else ""
        self._last, self._omitted = now, 0
        self._log.warning(text + more, *args)


class ReceiptWriter:
    """An idempotent producer, never transactional: an open transaction would hold back the engine.

    A receipt is tried until it stands; Buffer bounds how many there are.
    """

    def __init__(self, topic: str, config: Mapping[str, Any], throttle: Throttle, metrics: Metrics) -> None:
        self._metrics = metrics
        self._topic, self._config, self._throttle = topic, config, throttle
        self._lock = threading.Lock()
        self._producer = self._make()
        self._old: list[Producer] = []  # after a fatal error, until each of their records has failed
        self._again: list[tuple[float, int, str, bytes, Acked, float]] = []
        self._count = itertools.count()
        self._closed = False
        self.failures = 0
        self._thread = threading.Thread(target=self._serve, name="waterclock-receipts", daemon=True)
        self._thread.start()

    def _make(self) -> Producer:
        others = self._config.get("error_cb")

        def noticed(error: KafkaError) -> None:
            with self._lock:
                self._replace(made, error)
            if others is not None:
                try:
                    others(error)
                except Exception as raised:  # it would end the thread that writes receipts
                    self._throttle.warn("error_cb raised: %s", text_of(raised))

        made = Producer({
            "linger.ms": 2, "queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": 2_097_151,
            **self._config, "enable.idempotence": True, "acks": "all", "partitioner": "murmur2_random",
            # A receipt is never given up: its event would be delivered again.
            "message.timeout.ms": 0, "error_cb": noticed,
        })
        return made

    def write(self, key: str, value: bytes, acked: Acked, begin: float = 0.0) -> None:
        """acked is called, on another thread, once the brokers have it."""

        begin = begin or time.monotonic()
        producer = self._producer

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._metrics.receipt_written(time.monotonic() - begin)
                partition, offset = message.partition(), message.offset()
                acked(-1 if partition is None else partition, -1 if offset is None else offset)
            else:
                self._failed(producer, error, key, value, acked, begin)

        try:
            producer.produce(self._topic, key=key, value=value, on_delivery=delivered)
        except (BufferError, KafkaException) as error:
            cause = error.args[0] if isinstance(error, KafkaException) and error.args else error
            self._failed(producer, cause, key, value, acked, begin)

    def _failed(self, producer: Producer, error: object, key: str, value: bytes, acked: Acked,
                begin: float) -> None:
        self.failures += 1
        self._metrics.receipt_failed()
        self._throttle.warn("cannot write receipts to %s; retrying, and committing no offsets meanwhile: %s",
                            self._topic, error)
        with self._lock:
            heapq.heappush(self._again, (time.monotonic() + BACKOFF, next(self._count), key, value, acked, begin))
            self._replace(producer, error)

    def _replace(self, producer: Producer, error: object) -> None:
        """A producer with a fatal error fails every record after it: another one takes its place. The lock is held."""
        if producer is self._producer and isinstance(error, KafkaError) and (
                error.fatal() or error.code() == KafkaError._FATAL):
            try:
                self._producer = self._make()
            except Exception as raised:  # such as while a keystore is rotated; the next receipt that fails tries again
                self._throttle.warn("cannot make a producer of receipts: %s", text_of(raised))
            else:
                self._old.append(producer)

    def _serve(self) -> None:
        while not self._closed:
            self._producer.poll(0.1)
            for old in self._old[:]:
                old.poll(0)
                if len(old) == 0:
                    self._old.remove(old)
            while True:
                with self._lock:
                    if not self._again or self._again[0][0] > time.monotonic():
                        break
                    _, _, key, value, acked, begin = heapq.heappop(self._again)
                self.write(key, value, acked, begin)

    def close(self) -> None:
        """What is not written is lost; its offset was not committed."""
        self._closed = True
        self._thread.join(1)


def read_last(topic: str, channel: str, group: str, config: Mapping[str, Any], spans: Mapping[int, int], limit: int,
              learn: Callable[[int, str, str, int, int, int], None], renew: Callable[[int], None],
              stopped: Callable[[], bool]) -> dict[int, int]:
    """Read the last `limit` records of partitions, from the given offsets on; returns where each ended.

    renew is called for a partition that ends before its offset. librdkafka wants a group, though nothing joins it, and a
    right on it: the worker's own.

    It reads uncommitted records too: receipts are written in transactions only by the engine, when it forwards one to its
    right partition, and a forwarding that was aborted happens later all the same.
    """
    consumer = Consumer({
        **config, "group.id": group, "enable.auto.commit": False, "isolation.level": "read_uncommitted",
        "enable.partition.eof": True, "auto.offset.reset": "error", "queued.max.messages.kbytes": 8192,
        "fetch.wait.max.ms": 100,
    })
    try:
        ends: dict[int, int] = {}
        start = []
        for num, known in spans.items():
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, num), timeout=10, cached=False)
            ends[num] = high
            if known > high:
                renew(num)
            first = max(low, high - limit, known if known <= high else 0)
            if first < high:
                start.append(TopicPartition(topic, num, first))
        open_ = {tp.partition for tp in start}
        if start:
            consumer.assign(start)
        last = time.monotonic()
        while open_ and not stopped():
            for message in consumer.consume(1000, timeout=0.1):
                last = time.monotonic()
                error, at, offset = message.error(), message.partition(), message.offset()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    open_.discard(-1 if at is None else at)
                    continue
                if error is not None:
                    raise KafkaException(error)
                assert at is not None and offset is not None
                seen = read_receipt(channel, _bytes(message.key()), _bytes(message.value()))
                if seen is not None:
                    learn(at, *seen, offset)
                if offset >= ends[at] - 1:
                    open_.discard(at)
            if time.monotonic() - last > STALL:
                raise TimeoutError(f"no record of {topic} for {STALL:.0f} s")
        return ends
    finally:
        consumer.close()


def _bytes(v: str | bytes | None) -> bytes | None:
    return v.encode() if isinstance(v, str) else v
