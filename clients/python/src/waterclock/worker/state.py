"""What a worker knows, without I/O, threads and locks: memory, partitions, clock."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .event import MAX_COUNT, DueEvent
from .result import FINAL, Outcome

if TYPE_CHECKING:
    from .queue import Group


# --- memory -----------------------------------------------------------------


UNKNOWN = (1 << 63) - 1  # the offset of a receipt that the engine has not read, as far as the worker knows


class Memory:
    """The last receipts of one partition: what is in it is not handled a second time.

    It holds hashes, in two generations of `limit` each: the last `limit` receipts are known for certain, and at most
    twice as many are. One costs about 180 bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.next = 0  # the offset to read on from
        self._now: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def add(self, due_id: str, outcome: str, attempt: int, postponed: int, offset: int) -> None:
        """A receipt that stands at this offset."""
        if self.limit <= 0:
            return
        key = hash(due_id)
        round_, final = _round(attempt, postponed), offset if outcome in FINAL else -1
        highest, newest = (round_, offset), (offset, round_)
        old = self._find(key)
        if old is not None:
            old_highest, old_newest, old_final = _unpack(old)
            if old_newest[0] == UNKNOWN and round_ >= old_newest[1]:
                # Those of unknown offset, of its round or earlier ones, stand here at the latest.
                old_newest = offset, old_newest[1]
                old_highest, old_final = (old_highest[0], min(old_highest[1], offset)), min(old_final, offset)
            highest, newest, final = max(highest, old_highest), max(newest, old_newest), max(final, old_final)
        self._now[key] = _pack(highest, newest, final)
        if len(self._now) >= self.limit:
            self._before, self._now = self._now, {}

    def check(self, event: DueEvent) -> str:
        """Why an event is not handled; "" if it is.

        A receipt that the engine had read when it decided the event is no answer to it: its dead letter was redriven, or
        its trigger was forgotten and registered again with the same time.
        """
        old = self._find(hash(event.id))
        if old is None:
            return ""
        highest, newest, final = _unpack(old)
        read = event.receipts_read
        if newest[0] < read:
            return ""
        round_ = highest[0] if highest[1] >= read else newest[1]
        return answers(round_ << 1 | (final >= read), event)

    def _find(self, key: int) -> int | None:
        old = self._now.get(key)
        return self._before.get(key) if old is None else old

    def __len__(self) -> int:
        return len(self._now) + len(self._before)


def _round(attempt: int, postponed: int) -> int:
    return min(max(attempt, 0), MAX_COUNT) << 24 | min(max(postponed, 0), MAX_COUNT)


# Of the receipts that the engine had not read when it decided an event, the highest round counts. The highest of all
# may be one that it had read, of a life that has ended. Then the newest one counts.
#
# A value of the memory is one number, which is small. From below: the round of the newest receipt and its offset; how
# far before it the newest final one is, plus 1, or 0 if there is none; and of the highest round, how far before it that
# is, and how much higher.


def _pack(highest: tuple[int, int], newest: tuple[int, int], final: int) -> int:
    offset, round_ = newest
    before = offset - final + 1 if final >= 0 else 0
    return (highest[0] - round_ << 64 | offset - highest[1]) << 176 | before << 112 | offset << 48 | round_


def _unpack(value: int) -> tuple[tuple[int, int], tuple[int, int], int]:
    round_, offset, before = value & (1 << 48) - 1, value >> 48 & UNKNOWN, value >> 112 & (1 << 64) - 1
    back, higher = value >> 176 & (1 << 64) - 1, value >> 240
    return (round_ + higher, offset - back), (offset, round_), offset - before + 1 if before else -1


def answer_of(outcome: str, attempt: int, postponed: int) -> int:
    """The round of a receipt, and whether it is final."""
    return _round(attempt, postponed) << 1 | (outcome in FINAL)


def answers(answer: int, event: DueEvent) -> str:
    """Why an event needs no handling after this answer; "" if it does."""
    if answer & 1:
        return "final"
    return "answered" if _round(event.attempt, event.postponed) <= answer >> 1 else ""


@dataclass(slots=True, eq=False)
class Unacked:
    """A receipt that the brokers do not have yet. It enters the memory once they have it."""

    answer: int
    copies: list[Item] = field(default_factory=list)  # events that it answers too; their offsets wait for it


_OUTCOMES = frozenset(o.value for o in Outcome)


def read_receipt(channel: str, key: bytes | None, value: bytes | None) -> tuple[str, str, int, int] | None:
    """due_id, outcome, attempt and postponed of a receipt of this channel; None for what is none."""
    if key is None or value is None:
        return None
    if (b'"channel"' in value and b'"' + channel.encode() + b'"' not in value and b"null" not in value
            and b'""' not in value):
        return None  # another channel's, and most of them are: spares the JSON
    try:
        raw = json.loads(value)
        due_id, outcome = raw["due_id"], raw["outcome"]
        attempt, postponed = (0 if raw.get(name) is None else raw[name] for name in ("attempt", "postponed"))
        ours = due_id.startswith(key.decode() + "@")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not ours or not isinstance(outcome, str) or outcome not in _OUTCOMES:
        return None
    if raw.get("channel") not in (None, "", channel):  # null and "" are as good as none, as the engine reads it
        return None
    if type(attempt) is not int or type(postponed) is not int or attempt < 0 or postponed < 0:
        return None
    return due_id, outcome, attempt, postponed


def judge(memory: Memory | None, event: DueEvent, now: float, unacked: Unacked | None = None) -> str:
    """Why an event is not handled at the brokers' time now; "" if it is. Only `expired` gets a receipt."""
    reason = memory.check(event) if memory is not None else ""
    reason = reason or (answers(unacked.answer, event) if unacked is not None else "")
    if reason:
        return reason
    if event.receipt_by is not None and now > event.receipt_by.timestamp():
        return "receipt_by"
    return "expired" if event.expires is not None and now > event.expires.timestamp() else ""


# --- partitions, and what is in memory of them --------------------------------


def order_key(event: DueEvent) -> bytes:
    """The record key, of the event's tenant.

    A target_key may be any text, so else a tenant could make another's events wait for its own.
    """
    return event.tenant.encode() + b"\0" + (event.record_key or event.key.encode())


@dataclass(slots=True, eq=False)
class Item:
    """One due event, from the poll until its receipt is acknowledged."""

    offset: int
    size: int
    part: Partition
    event: DueEvent | None  # None: the record is garbled
    order_key: bytes = b""
    next_same: Item | None = None  # the next event of the same order key
    group: Group | None = None
    started: float = 0.0  # when its handler was called, time.monotonic(); 0 if it was not
    done: bool = False


@dataclass(slots=True, eq=False)
class Partition:
    """One assigned partition of the due topic or its lane. A later assignment makes a new one."""

    topic: str
    num: int
    lane: int  # 0 is the high one
    loaded: bool = False  # the memory is read
    gone: bool = False  # revoked, or the worker ends: nothing new starts
    paused: bool = False
    held: list[Item] = field(default_factory=list)  # polled before the memory was read
    tails: dict[bytes, Item] = field(default_factory=dict)  # the last event of each order key that is not handled yet
    running: set[Item] = field(default_factory=set)
    abandoned: threading.Event = field(default_factory=threading.Event)
    records: int = 0  # polled and not done
    size: int = 0
    pending: int = 0  # receipts that are not acknowledged
    open: deque[Item] = field(default_factory=deque)  # in the order of offsets; the first one is not done
    next: int = -1  # up to here everything is done
    committed: int = -1
    end: int = 0  # the end of its log that was asked for ...
    asked: float = 0.0  # ... at this time of ours; 0 if never

    def add(self, item: Item) -> None:
        self.open.append(item)
        self.records += 1
        self.size += item.size

    def finish(self, item: Item) -> None:
        """Nothing more has to be done for it. Offsets rise, not always by 1."""
        item.done = True
        self.records -= 1
        self.size -= item.size
        while self.open and self.open[0].done:
            self.next = self.open.popleft().offset + 1


# --- the brokers' clock -------------------------------------------------------

_UNBOUNDED = 1e12
_DRIFT = 1e-3  # clocks run apart: a bound weakens by 1 ms a second


class Clock:
    """How far the brokers' clock is ahead of ours, as far as append times say it. Seconds.

    A record polled at t and appended at a: ahead by at least a-t. If its offset is not below the end of the log asked for
    at t0: ahead by at most a-t0. Our clock counts unless these bounds say otherwise.
    """

    def __init__(self) -> None:
        self._low, self._high, self._low_at, self._high_at = -_UNBOUNDED, _UNBOUNDED, 0.0, 0.0
        self._begin = time.time() - time.monotonic()

    def ours(self) -> float:
        """The system's clock at the beginning, and then the time that passes: a step of it does not count."""
        return self._begin + time.monotonic()

    def _bounds(self, now: float) -> tuple[float, float]:
        return (self._low - max(now - self._low_at, 0) * _DRIFT, self._high + max(now - self._high_at, 0) * _DRIFT)

    def observe(self, appended: float, polled: float, asked: float) -> None:
        low, high = appended - polled, appended + 0.001 - asked if asked else _UNBOUNDED
        old_low, old_high = self._bounds(polled)
        if low > old_high or high < old_low:  # a clock was set: what was known before is void
            old_low, old_high = -_UNBOUNDED, _UNBOUNDED
        self._low, self._high = max(low, old_low), min(high, old_high)
        self._low_at = self._high_at = polled

    def ahead(self) -> float:
        low, high = self._bounds(self.ours())
        return min(max(0.0, low), high)

    def now(self) -> float:
        """The brokers' time."""
        return self.ours() + self.ahead()
