"""What is sent and what comes back, as types."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Generic, Literal, TypedDict, TypeVar, cast

T = TypeVar("T")

#: "7m", "1h30m", "PT7M", seconds, or a timedelta.
Duration = str | int | float | timedelta
#: RFC 3339, a local date-time as text, digits, or a datetime; one without a zone is local to `timezone`.
Instant = str | int | datetime

State = Literal["PENDING", "PAUSED", "IN_FLIGHT", "FIRED", "FAILED", "CANCELLED", "EXPIRED"]


class Dst(TypedDict, total=False):
    gap: Literal["shift", "skip"]
    overlap: Literal["first", "second", "both"]


class Calendars(TypedDict, total=False):
    names: Sequence[str]
    on: Literal["skip", "next_business_day", "previous_business_day"]


class Callback(TypedDict, total=False):
    url: str
    timeout: Duration
    retry: Sequence[Duration]
    body: Literal["envelope", "raw"]
    recheck: bool


class Step(TypedDict, total=False):
    """A step of an escalation."""

    after: Duration  # since the step before; the first one has none
    channel: str


class TimeFields(TypedDict, total=False):
    """When: exactly one of delay, fire_at, recurrence (or include alone)."""

    delay: Duration
    fire_at: Instant
    recurrence: str
    start: Instant
    timezone: str
    until: Instant
    count: int
    include: Sequence[Instant | date]
    exclude: Sequence[Instant | date]
    dst: Dst
    calendars: Calendars


class RegisterFields(TimeFields, total=False):
    """All fields of a register."""

    channel: str
    user_id: str
    payload: Any  # JSON; bytes are sent as they are
    target_key: str
    headers: Mapping[str, str]
    tags: Mapping[str, str]
    priority: Literal["high", "normal", "low"]
    jitter: Duration
    expires_after: Duration
    misfire: Literal["fire_all", "fire_once", "skip"]
    follow_user: bool
    callback: Callback
    escalation: Sequence[Step]
    correlation_id: str
    note: str  # why; the detail of the event about the register


def duration(v: Duration) -> str | int | float:
    """A duration as the server reads it: a timedelta in whole milliseconds, rounded up."""
    if not isinstance(v, timedelta):
        return v
    ms = -(-v // timedelta(milliseconds=1))
    return f"{ms // 1000}s" if ms % 1000 == 0 else f"{ms}ms"


def instant(v: Instant | date) -> str | int:
    """An instant or a wall time as the server reads it, which rounds microseconds up to milliseconds."""
    if isinstance(v, datetime):
        return v.isoformat().replace("+00:00", "Z")
    if isinstance(v, date):
        return v.isoformat()
    return v


_DURATIONS = {"delay", "jitter", "expires_after", "for", "timeout"}
_INSTANTS = {"fire_at", "start", "until", "after"}


def body(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as JSON: durations, instants and bytes spelled out; None left out but for the payload."""
    out: dict[str, Any] = {}
    for name, value in fields.items():
        if name == "payload" and isinstance(value, (bytes, bytearray)):
            out["payload_base64"] = base64.b64encode(value).decode()
        elif value is None and name != "payload":
            continue
        elif name in _DURATIONS:
            out[name] = duration(cast(Duration, value))
        elif name in _INSTANTS:
            out[name] = instant(cast(Instant, value))
        elif name in ("include", "exclude"):
            out[name] = [instant(v) for v in cast(Sequence[Instant], value)]
        elif name == "callback":
            callback: dict[str, Any] = {k: duration(v) if k == "timeout" else v for k, v in value.items()}
            if "retry" in callback:
                callback["retry"] = [duration(v) for v in callback["retry"]]
            out[name] = callback
        elif name == "escalation":
            out[name] = [{k: duration(v) if k == "after" else v for k, v in step.items()} for step in value]
        else:
            out[name] = value
    return out


def parse_instant(v: Any) -> datetime | None:
    return datetime.fromisoformat(v).astimezone(UTC) if isinstance(v, str) and v else None


@dataclass(frozen=True)
class Answer:
    """What every answer about one trigger has."""

    trigger_id: str
    revision: int | None = None
    state: str | None = None
    fire_at: datetime | None = None
    next_fire_at: datetime | None = None
    notes: Sequence[str] = ()
    status: int = 200
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def created(self) -> bool:
        """The request made the trigger; False if it repeated or changed one."""
        return self.status == 201

    @property
    def decided(self) -> bool:
        """False: durable, and to be decided (202). Get the trigger, or repeat."""
        return self.status != 202

    @classmethod
    def of(cls, raw: Mapping[str, Any], status: int) -> Answer:
        return cls(raw["trigger_id"], raw.get("revision"), raw.get("state"), parse_instant(raw.get("fire_at")),
                   parse_instant(raw.get("next_fire_at")), tuple(raw.get("notes") or ()), status, raw)


@dataclass(frozen=True)
class Trigger:
    """A trigger as it is. Fields that are not here are in `raw`."""

    trigger_id: str
    tenant: str
    state: str
    revision: int
    channel: str
    user_id: str | None
    fire_at: datetime | None
    next_fire_at: datetime | None
    local_time: str | None
    timezone: str | None
    recurrence: str | None
    payload: Any  # bytes if it is not JSON
    tags: Mapping[str, str]
    priority: str
    attempt: int
    created_at: datetime | None
    updated_at: datetime | None
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Trigger:
        payload = raw.get("payload")
        if "payload_base64" in raw:
            payload = base64.b64decode(raw["payload_base64"])
        return cls(raw["trigger_id"], raw.get("tenant", ""), raw["state"], raw.get("revision", 0), raw.get("channel", ""),
                   raw.get("user_id"),
                   parse_instant(raw.get("fire_at")), parse_instant(raw.get("next_fire_at")), raw.get("local_time"),
                   raw.get("timezone"), raw.get("recurrence"), payload, raw.get("tags") or {},
                   raw.get("priority", ""), raw.get("attempt", 0), parse_instant(raw.get("created_at")), parse_instant(raw.get("updated_at")),
                   raw)


@dataclass(frozen=True)
class Event:
    """One fact of the event log. `raw` has every field (docs/formats/events.md)."""

    event_id: str
    type: str
    trigger: str
    occurred_at: datetime | None
    state: str | None
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Event:
        return cls(str(raw.get("event_id", "")), str(raw.get("type", "")), str(raw.get("trigger", "")),
                   parse_instant(raw.get("occurred_at")), raw.get("state"), raw)


@dataclass(frozen=True)
class Occurrence:
    """One coming or previewed occurrence."""

    at: datetime
    text: str  # at, as the server wrote it
    local: str | None = None
    local_time: str | None = None
    occurrence: str | None = None
    note: str | None = None

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Occurrence:
        at = parse_instant(raw["at"])
        assert at is not None
        return cls(at, raw["at"], raw.get("local"), raw.get("local_time"), raw.get("occurrence"), raw.get("note"))


@dataclass(frozen=True)
class DeadLetter:
    """An occurrence that nobody could deliver. Its content stands on topic dead-letter. More fields are in `raw`."""

    trigger_id: str
    tenant: str
    ce_id: str
    code: str
    detail: str
    attempts: int
    channel: str
    endpoint: str  # the origin of its callback; "" without one
    failed_at: datetime | None
    status: str  # open, redriven, resolved
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> DeadLetter:
        return cls(raw["trigger_id"], raw.get("tenant", ""), raw["ce_id"], raw.get("code", ""), raw.get("detail", ""),
                   raw.get("attempts", 0), raw.get("channel", ""), raw.get("endpoint", ""),
                   parse_instant(raw.get("failed_at")), raw.get("status", ""), raw)


@dataclass(frozen=True)
class RedriveProgress:
    """How far a redrive is: counts since its beginning."""

    matched: int
    redriven: int
    duplicate: int  # under way, or redriven before
    expired: int  # left out: see include_expired
    refused: int
    pending: int  # durable, and to be decided
    done: bool
    cursor: str | None  # to go on here, with the same filter
    refusals: Sequence[Exception] = ()  # an ApiError for each letter refused since the last progress
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, raw: Mapping[str, Any], refusals: Sequence[Exception]) -> RedriveProgress:
        def n(name: str) -> int:
            return int(raw.get(name, 0))

        return cls(n("matched"), n("redriven"), n("duplicate"), n("expired"), n("refused"), n("pending"),
                   bool(raw.get("done")), raw.get("cursor") or None, tuple(refusals), raw)


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list; `next_cursor` is None on the last one."""

    items: Sequence[T]
    next_cursor: str | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)
