"""Numbers of a worker, for a monitoring system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """What a worker holds."""

    running: int  # handlers that run
    ready: int  # events that wait for a handler and could run
    buffered: int  # events in memory, running and ready ones among them
    bytes: int  # of these
    pending: int  # receipts that are not acknowledged
    assigned: int  # partitions
    paused: int  # of these: full, not fetched
    held: int  # of these: the receipts topic is not read yet
    clock_ahead: float  # seconds by which the brokers' clock is ahead of ours


class Metrics:
    """Takes the numbers of one worker. Calls come from many threads and must be fast; what a method raises is logged.

    Derive from it, and define what you need. waterclock.worker.prometheus has one for prometheus_client.
    """

    def handled(self, outcome: str, code: str, seconds: float) -> None:
        """A due event has its result, and how long the handler took."""

    def skipped(self, reason: str) -> None:
        """One was not handled and gets no receipt: final, answered or receipt_by."""

    def abandoned(self) -> None:
        """One whose handler did not finish before its partition moved or the worker ended. It is delivered again."""

    def garbled(self, header: str) -> None:
        """A record is not a due event; header is the one at fault, a name of the contract."""

    def receipt_written(self, seconds: float) -> None:
        """The brokers have acknowledged a receipt, and how long that took."""

    def receipt_failed(self) -> None:
        """A try to write a receipt failed. It is tried anew."""

    def commit_failed(self) -> None:
        """A commit of offsets failed."""

    def load(self, load: Load) -> None:
        """What is in memory, about every commit interval."""


class Guarded(Metrics):
    """Passes numbers on. What the caller's metrics raise must not end a worker's thread."""

    def __init__(self, to: Metrics, failed: Callable[[str, BaseException], None]) -> None:
        self._to, self._failed = to, failed

    def _call(self, method: Callable[..., None], *args: object) -> None:
        try:
            method(*args)
        except Exception as error:
            self._failed(method.__name__, error)

    def handled(self, outcome: str, code: str, seconds: float) -> None:
        self._call(self._to.handled, outcome, code, seconds)

    def skipped(self, reason: str) -> None:
        self._call(self._to.skipped, reason)

    def abandoned(self) -> None:
        self._call(self._to.abandoned)

    def garbled(self, header: str) -> None:
        self._call(self._to.garbled, header)

    def receipt_written(self, seconds: float) -> None:
        self._call(self._to.receipt_written, seconds)

    def receipt_failed(self) -> None:
        self._call(self._to.receipt_failed)

    def commit_failed(self) -> None:
        self._call(self._to.commit_failed)

    def load(self, load: Load) -> None:
        self._call(self._to.load, load)
