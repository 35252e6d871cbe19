"""Headers of a due record to a DueEvent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

DUE_TYPE = "waterclock.due.v1"
MAX_ID = 1024
MAX_COUNT = (1 << 24) - 1


class Garbled(ValueError):
    """A record that is not a due event."""

    def __init__(self, header: str, reason: str) -> None:
        super().__init__(f"header {header} {reason}")
        self.header = header


@dataclass(slots=True)
class DueEvent:
    """One record of a due topic. Receivers deduplicate by `id`: every copy, attempt and retry has the same."""

    id: str  # ce_id
    key: str  # the trigger key: the id, or tenant/id
    occurrence: str  # its name within id
    attempt: int  # from 1
    step: int  # escalation step, from 0
    postponed: int  # how often this attempt was postponed
    revision: int  # of the trigger, with which it fired
    scheduled: datetime  # nominal instant
    fired: datetime | None  # when the engine emitted it
    appended: datetime | None  # the record's timestamp
    local_time: str  # 2026-11-20T09:00:00[America/New_York]; "" without a zone
    user: str  # user_id; "" if it has none
    expires: datetime | None  # past it the event is of no use
    receipt_by: datetime | None  # until when the engine waits for the receipt
    source: str  # /waterclock/<cluster>
    basis: str  # ce_wcbasis, for diagnosis
    content_type: str  # of payload; "" without one
    payload: bytes  # as registered, byte for byte
    traceparent: str
    tracestate: str
    headers: Sequence[tuple[str, bytes]]  # all others, in order
    topic: str
    partition: int
    offset: int
    record_key: bytes  # target_key, else the trigger key
    high: bool  # it came by the lane for priority high
    batch: Any = field(default=None, repr=False)  # what on_batch returned for the batch that this one began with
    deadline: float = field(default=float("inf"), repr=False)  # time.monotonic() of HandlerTimeout
    abandoned: threading.Event | None = field(default=None, repr=False)

    @property
    def trigger_id(self) -> str:
        """The key without the tenant."""
        tenant, slash, rest = self.key.partition("/")
        return rest if slash else tenant

    @property
    def tenant(self) -> str:
        tenant, slash, _ = self.key.partition("/")
        return tenant if slash else "default"

    @property
    def tags(self) -> Mapping[str, str]:
        """The trigger's tags; empty if there are none."""
        try:
            tags = json.loads(self.header("wcx-tags") or b"{}")
        except ValueError:
            return {}
        return tags if isinstance(tags, dict) else {}

    @property
    def receipts_read(self) -> int:
        """The offset before which the engine had read all receipts of this trigger's partition when it decided this event.

        The fourth number of ce_wcbasis; 0 if it does not say.
        """
        numbers = self.basis.split(".")
        if len(numbers) != 5 or not numbers[3].isascii() or not numbers[3].isdecimal() or len(numbers[3]) > 18:
            return 0
        return int(numbers[3])

    def header(self, name: str) -> bytes | None:
        """The first of `headers` with this name."""
        return next((value for key, value in self.headers if key == name), None)

    def json(self) -> Any:
        """The payload as JSON; None if there is none."""
        return json.loads(self.payload) if self.payload else None

    @property
    def cancelled(self) -> bool:
        """The answer is no longer waited for: the partition has moved, the worker ends, or handler_timeout is over.

        A handler that takes long looks now and then, and raises.
        """
        return self.timed_out or (self.abandoned is not None and self.abandoned.is_set())

    @property
    def timed_out(self) -> bool:
        return time.monotonic() > self.deadline


_KNOWN = frozenset((
    "ce_type", "ce_specversion", "ce_id", "ce_subject", "ce_source", "ce_time", "ce_wcfired", "ce_wcrevision",
    "ce_wcattempt", "ce_wcstep", "ce_wcpostponed", "ce_wclocaltime", "ce_wcuser", "ce_expirytime", "ce_wcreceiptby",
    "ce_wcbasis", "content-type", "traceparent", "tracestate",
))
_REQUIRED = ("ce_type", "ce_id", "ce_subject", "ce_time", "ce_wcattempt")
# For people and tracing. The engine passes a tracestate on unchanged, whatever bytes a producer wrote.
_LENIENT = frozenset(("ce_source", "content-type", "traceparent", "tracestate"))


def decode(topic: str, partition: int, offset: int, appended_ms: int, key: bytes | None, value: bytes | None,
           headers: Sequence[tuple[str, bytes | None]], high: bool) -> DueEvent:
    """The event of a record. Garbled says which header is missing or wrong."""
    found: dict[str, str] = {}
    others: list[tuple[str, bytes]] = []
    for name, raw in headers:
        if name in _KNOWN and name not in found:
            try:
                found[name] = (raw or b"").decode(errors="replace" if name in _LENIENT else "strict")
            except UnicodeDecodeError:
                raise Garbled(name, "is no UTF-8") from None
        else:
            others.append((name, raw or b""))
    for name in _REQUIRED:
        if not found.get(name):
            raise Garbled(name, "is missing")
    if found["ce_type"] != DUE_TYPE:
        raise Garbled("ce_type", f"is {found['ce_type'][:64]!a}, want {DUE_TYPE}")
    if found.get("ce_specversion", "1.0") != "1.0":
        raise Garbled("ce_specversion", "is not 1.0")
    id, subject = found["ce_id"], found["ce_subject"]
    if not id.startswith(subject + "@") or len(id.encode()) > MAX_ID:
        # A receipt whose key is not that of its due_id would be garbled.
        raise Garbled("ce_id", "is not <ce_subject>@<occurrence>#<step> of at most 1024 bytes")
    get = found.get
    scheduled = _instant(found, "ce_time")
    assert scheduled is not None
    return DueEvent(
        id, subject, id[len(subject) + 1 :].rpartition("#")[0] or id[len(subject) + 1 :],
        _number(found, "ce_wcattempt", 1, MAX_COUNT), _number(found, "ce_wcstep", 0, MAX_COUNT),
        _number(found, "ce_wcpostponed", 0, MAX_COUNT), _number(found, "ce_wcrevision", 0, 1 << 63),
        scheduled, _instant(found, "ce_wcfired"), _appended(appended_ms),
        get("ce_wclocaltime", ""), get("ce_wcuser", ""), _instant(found, "ce_expirytime"),
        _instant(found, "ce_wcreceiptby"), get("ce_source", ""), get("ce_wcbasis", ""), get("content-type", ""),
        value or b"", get("traceparent", ""), get("tracestate", ""), others, topic, partition, offset,
        key or subject.encode(), high)


def example(key: str = "example", payload: Any = b"", *, attempt: int = 1, step: int = 0, postponed: int = 0,
            user: str = "", tags: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None,
            scheduled: datetime | None = None) -> DueEvent:
    """An event as a worker would have it, for tests of handlers. A payload that is no bytes is written as JSON."""
    at = (scheduled or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    given: list[tuple[str, bytes | None]] = [(name, value.encode()) for name, value in {
        "ce_specversion": "1.0", "ce_type": DUE_TYPE, "ce_source": "/waterclock/example", "ce_subject": key,
        "ce_id": f"{key}@{at}#{step}", "ce_time": at, "ce_wcfired": at, "ce_wcrevision": "1", "ce_wcattempt": str(attempt),
        "ce_wcstep": str(step), **({"ce_wcpostponed": str(postponed)} if postponed else {}),
        **({"ce_wcuser": user} if user else {}), **({"wcx-tags": json.dumps(tags)} if tags else {}),
        **({} if isinstance(payload, bytes) else {"content-type": "application/json"}), **(headers or {}),
    }.items()]
    value = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return decode("waterclock.due.example", 0, 0, 0, key.encode(), value, given, False)


def _appended(ms: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC) if ms > 0 else None
    except (ValueError, OverflowError, OSError):
        return None  # a time that no calendar has: its producer has set it


def _number(found: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = found.get(name)
    if text is None:
        return least if least == 0 else 1
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and least <= int(text) <= most):
        raise Garbled(name, f"is {text[:64]!a}, want a number from {least}")
    return int(text)


def _instant(found: Mapping[str, str], name: str) -> datetime | None:
    text = found.get(name)
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise Garbled(name, f"is {text[:64]!a}, want an RFC 3339 instant")
    return at
