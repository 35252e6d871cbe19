"""Metrics for prometheus_client, which pip install 'waterclock[prometheus]' brings.

    from waterclock.worker.prometheus import PrometheusMetrics

    worker.run("print", handle, metrics=PrometheusMetrics("print"))
"""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from .metrics import Load, Metrics

_BUCKETS = (.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)


class PrometheusMetrics(Metrics):
    """The series of the kit for Go, waterclock_worker_*, each with the label channel.

    No label names a trigger, a user, a tenant or a code that a caller chose. Workers of several channels in one process
    share the series of a registry.
    """

    def __init__(self, channel: str, registry: CollectorRegistry = REGISTRY) -> None:
        s = _Series.of(registry)
        self._s, self._channel = s, channel
        self._took, self._receipts = s.took.labels(channel), s.receipts.labels(channel)
        self._abandoned = s.abandoned.labels(channel)
        self._receipt_failed, self._commit_failed = s.receipt_failed.labels(channel), s.commit_failed.labels(channel)

    def handled(self, outcome: str, code: str, seconds: float) -> None:
        self._s.handled.labels(self._channel, outcome).inc()
        self._took.observe(seconds)

    def skipped(self, reason: str) -> None:
        self._s.skipped.labels(self._channel, reason).inc()

    def abandoned(self) -> None:
        self._abandoned.inc()

    def garbled(self, header: str) -> None:
        self._s.garbled.labels(self._channel, header).inc()

    def receipt_written(self, seconds: float) -> None:
        self._receipts.observe(seconds)

    def receipt_failed(self) -> None:
        self._receipt_failed.inc()

    def commit_failed(self) -> None:
        self._commit_failed.inc()

    def load(self, load: Load) -> None:
        for gauge, value in ((self._s.running, load.running), (self._s.ready, load.ready),
                             (self._s.buffered, load.buffered), (self._s.bytes, load.bytes),
                             (self._s.pending, load.pending), (self._s.ahead, load.clock_ahead)):
            gauge.labels(self._channel).set(value)
        for state, n in (("assigned", load.assigned), ("paused", load.paused), ("held", load.held)):
            self._s.partitions.labels(self._channel, state).set(n)


class _Series:
    """What is registered once for each registry."""

    _known: dict[int, tuple[CollectorRegistry, _Series]] = {}

    @classmethod
    def of(cls, registry: CollectorRegistry) -> _Series:
        found = cls._known.get(id(registry))
        if found is None:
            found = cls._known[id(registry)] = (registry, cls(registry))
        return found[1]

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter("waterclock_worker_" + name, text, ("channel", *labels), registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge("waterclock_worker_" + name, text, ("channel", *labels), registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram("waterclock_worker_" + name, text, ("channel",), registry=registry, buckets=_BUCKETS)

        self.handled = counter("handled_total", "Handlers that returned.", "outcome")
        self.took = histogram("handle_seconds", "How long handlers took.")
        self.skipped = counter("skipped_total", "Skipped due events: answered before, or expired.", "reason")
        self.abandoned = counter("abandoned_total", "Due events whose handlers did not finish in time.")
        self.garbled = counter("garbled_total", "Records that are not due events.", "header")
        self.receipts = histogram("receipt_seconds", "Time from the result to the acknowledged receipt.")
        self.receipt_failed = counter("receipt_failures_total", "Failed attempts to write a receipt.")
        self.commit_failed = counter("commit_failures_total", "Failed commits of offsets.")
        self.running = gauge("running", "Running handlers.")
        self.ready = gauge("ready", "Due events that wait for a handler.")
        self.buffered = gauge("buffered_events", "Due events in memory.")
        self.bytes = gauge("buffered_bytes", "Bytes of the due events in memory.")
        self.pending = gauge("pending_receipts", "Receipts that are not acknowledged yet.")
        self.partitions = gauge("partitions", "Partitions of the due topic and its high lane.", "state")
        self.ahead = gauge("clock_ahead_seconds", "By how much the brokers' clock is ahead.")
