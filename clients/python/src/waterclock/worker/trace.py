"""Spans of attempts, for a tracing library."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TypeVar

from .event import DueEvent
from .result import MAX_CODE, MAX_DETAIL, Result, clip

T = TypeVar("T")

#: Ends the span of an attempt: its outcome, code and detail, as the receipt has them.
End = Callable[[str, str, str], object]
#: Starts the span of an attempt, and returns how to end it; None if there is nothing to end.
Tracer = Callable[[DueEvent], End | None]

#: An outcome for tracers only: the partition moved, or the worker ended. There is no receipt; the event comes again.
ABANDONED = "abandoned"


class Spans:
    """Calls a tracer. What that raises ends no thread and changes no answer, whatever it is."""

    def __init__(self, tracer: Tracer | None, failed: Callable[[BaseException], None]) -> None:
        self._tracer, self._failed = tracer, failed

    def attempt(self, call: Callable[[], T]) -> T:
        """Call one attempt in a context of its own: what a tracer leaves attached is no parent of later attempts."""
        return call() if self._tracer is None else contextvars.copy_context().run(call)

    def start(self, event: DueEvent) -> Callable[[Result | None], None]:
        """Start the span. It is ended with the result, or None if the attempt was abandoned."""
        if self._tracer is None:
            return _no_span
        try:
            end = self._tracer(event)
        except BaseException as error:
            self._failed(error)
            return _no_span
        return _no_span if end is None else lambda result: self._end(end, result)

    def _end(self, end: End, result: Result | None) -> None:
        try:
            if result is None:
                end(ABANDONED, "", "")
            else:
                end(result.outcome.value, clip(result.code, MAX_CODE), clip(result.detail, MAX_DETAIL))
        except BaseException as error:
            self._failed(error)


def _no_span(_: Result | None) -> None:
    pass
