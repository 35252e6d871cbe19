"""What a handler returns, and the receipt that says it."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from .event import MAX_COUNT, DueEvent

MAX_CODE, MAX_DETAIL, MAX_RETRY_AFTER = 128, 1024, 30 * 24 * 3600.0


class Outcome(str, Enum):
    DELIVERED = "delivered"
    ACCEPTED = "accepted"
    FAILED = "failed"
    RETRY = "retry"
    POSTPONED = "postponed"
    SUPPRESSED = "suppressed"


FINAL = frozenset((Outcome.DELIVERED, Outcome.ACCEPTED, Outcome.SUPPRESSED))


def seconds(after: float | timedelta) -> float:
    value = after.total_seconds() if isinstance(after, timedelta) else float(after)
    return 0.0 if math.isnan(value) else value


class Result:
    """What became of a due event. Make it with Delivered, Accepted, Retry, Fail, Postpone or Suppress.

    code is for machines (128 bytes), detail for people (1,024 bytes); more is cut. They end up in the event log: put no
    secret into them.
    """

    __slots__ = ("after", "code", "detail", "outcome")

    def __init__(self, outcome: Outcome, code: str = "", detail: str = "", after: float | timedelta = 0) -> None:
        self.outcome = Outcome(outcome)
        self.code, self.detail = code, detail
        self.after = min(max(seconds(after), 0.0), MAX_RETRY_AFTER)

    def __repr__(self) -> str:
        return f"Result({self.outcome.value}, {self.code!r}, {self.detail!r}, {self.after})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return (self.outcome, self.code, self.detail, self.after) == (other.outcome, other.code, other.detail, other.after)

    __hash__ = None  # type: ignore[assignment]


class Delivered(Result):
    """The receiver has it. It ends an escalation."""

    __slots__ = ()

    def __init__(self, code: str = "", detail: str = "") -> None:
        super().__init__(Outcome.DELIVERED, code, detail)


class Accepted(Result):
    """A provider has taken it over."""

    __slots__ = ()

    def __init__(self, code: str = "", detail: str = "") -> None:
        super().__init__(Outcome.ACCEPTED, code, detail)


class Retry(Result):
    """Another attempt, after so many seconds; 0 is the profile of the channel."""

    __slots__ = ()

    def __init__(self, after: float | timedelta = 0, code: str = "", detail: str = "") -> None:
        super().__init__(Outcome.RETRY, code, detail, after)


class Fail(Result):
    """No attempt can succeed: a dead letter."""

    __slots__ = ()

    def __init__(self, code: str = "", detail: str = "") -> None:
        super().__init__(Outcome.FAILED, code, detail)


class Postpone(Result):
    """Not now: the same attempt after so many seconds."""

    __slots__ = ()

    def __init__(self, after: float | timedelta, code: str = "", detail: str = "") -> None:
        super().__init__(Outcome.POSTPONED, code, detail, after)


class Suppress(Result):
    """It is not to be delivered, such as after an opt-out."""

    __slots__ = ()

    def __init__(self, code: str = "", detail: str = "") -> None:
        super().__init__(Outcome.SUPPRESSED, code, detail)


def no_result() -> Result:
    return Retry(0, "no_result", "the handler returned no Result: return Delivered() or another one")


def clip(text: object, most: int) -> str:
    """At most so many bytes of UTF-8, cut between characters; what UTF-8 has not is a question mark."""
    raw = text_of(text).encode("utf-8", "replace")
    return raw[:most].decode("utf-8", "ignore")


def text_of(value: object) -> str:
    """str(value), whatever that does."""
    try:
        return str(value)
    except Exception:
        return f"a {type(value).__name__} without a text"


def receipt(event: DueEvent, channel: str, result: Result, now: datetime | None = None) -> bytes:
    """The receipt of a result; its record key is the trigger key."""
    given: dict[str, Any] = {"due_id": event.id, "channel": channel, "outcome": result.outcome.value,
                             # The emission is named always: a receipt that comes twice must not decide the one after it.
                             "attempt": min(event.attempt, MAX_COUNT), "postponed": event.postponed}
    if result.code:
        given["code"] = clip(result.code, MAX_CODE)
    if result.detail:
        given["detail"] = clip(result.detail, MAX_DETAIL)
    if result.after > 0:
        given["retry_after"] = f"{math.ceil(result.after * 1000)}ms"  # rounded up: 0 would mean the profile
    at = (now or datetime.now(UTC)).astimezone(UTC)
    given["at"] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode()
