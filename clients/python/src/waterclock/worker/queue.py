"""Which event is handled next, and bulkheads: no I/O, no locks, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .event import DueEvent
from .result import Result
from .state import Item, Partition

HIGH, NORMAL = 0, 1
_UNBOUNDED = 1 << 62


@dataclass(frozen=True)
class Bulkhead:
    """Bounds how many events of one group are handled at a time, so that a slow receiver does not take all handlers.

        Bulkhead(lambda event: event.tenant, in_flight=20, waiting=100, overflow=lambda event: Postpone(60, "busy"))

    Groups take turns. overflow answers what finds no room: beyond waiting, or behind an event of the same key that has
    been handled for over a second while the buffer of their partition is full. It runs on the thread that polls, and must
    be fast. Without it events of a full group wait, and as they fill the buffer of a partition they delay others on it.
    """

    group: Callable[[DueEvent], str]  # such as tenant and host; fast. If it raises, the group is ""
    in_flight: int = 100  # of one group are handled at a time
    waiting: int = 200  # more of it wait for that
    overflow: Callable[[DueEvent], Result] | None = None


@dataclass(slots=True, eq=False)
class Group:
    """Events that share a bulkhead."""

    name: str
    running: int = 0
    waiting: int = 0
    ready: tuple[deque[Item], deque[Item]] = field(default_factory=lambda: (deque(), deque()))
    queued: list[bool] = field(default_factory=lambda: [False, False])  # in turns


class Queue:
    """Events of one order key one after the other, the high lane first, groups in turns."""

    def __init__(self, bulkhead: Bulkhead | None = None) -> None:
        self._group_of = bulkhead.group if bulkhead else None
        self._in_flight = bulkhead.in_flight if bulkhead else _UNBOUNDED
        self._most = bulkhead.waiting if bulkhead and bulkhead.overflow else _UNBOUNDED
        self._groups: dict[str, Group] = {}
        self._turns: tuple[deque[Group], deque[Group]] = (deque(), deque())  # groups with ready events and room
        self._overflow: list[Item] = []
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def can_start(self) -> bool:
        """Whether take would probably return an event."""
        return bool(self._turns[HIGH] or self._turns[NORMAL])

    def add(self, item: Item) -> None:
        """Take an event in, behind those with its order key."""
        tail = item.part.tails.get(item.order_key)
        item.part.tails[item.order_key] = item
        if tail is not None:
            tail.next_same = item
        else:
            self._make_ready(item)

    def _make_ready(self, item: Item) -> None:
        group = self._group_for(item)
        group.waiting += 1
        self._waiting += 1
        group.ready[item.part.lane].append(item)
        self._give_turn(group, item.part.lane)
        self._trim(group)

    def _group_for(self, item: Item) -> Group:
        name = ""
        if self._group_of is not None and item.event is not None:
            try:
                name = str(self._group_of(item.event))
            except Exception:
                name = ""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name)
        item.group = group
        return group

    def _give_turn(self, group: Group, lane: int) -> None:
        if not group.queued[lane] and group.ready[lane] and group.running < self._in_flight:
            group.queued[lane] = True
            self._turns[lane].append(group)

    def _trim(self, group: Group) -> None:
        """Take the newest events out of a full group that has no room for them, those of the last lane first."""
        if group.running < self._in_flight:
            return
        for lane in (NORMAL, HIGH):
            while group.waiting > self._most and group.ready[lane]:
                self._overflow.append(group.ready[lane].pop())
                group.waiting -= 1
                self._waiting -= 1
                group.running += 1  # finish takes it back

    def take(self) -> Item | None:
        """The event to handle next; None if there is none, or none may run."""
        for lane, turns in enumerate(self._turns):
            while turns:
                group = turns.popleft()
                group.queued[lane] = False
                if not group.ready[lane] or group.running >= self._in_flight:
                    continue  # what was ready is gone, or the other lane took the room
                item = group.ready[lane].popleft()
                group.waiting -= 1
                self._waiting -= 1
                group.running += 1
                self._give_turn(group, lane)
                self._trim(group)
                return item
        return None

    def finish(self, item: Item) -> None:
        """An event is answered, or was not handled: the next one of its order key may start."""
        group, following = item.group, item.next_same
        assert group is not None
        item.next_same = None
        group.running -= 1
        if not item.part.gone:
            if following is not None:
                self._make_ready(following)
            elif item.part.tails.get(item.order_key) is item:
                del item.part.tails[item.order_key]
        self._give_turn(group, HIGH)
        self._give_turn(group, NORMAL)
        self._drop(group)

    def _drop(self, group: Group) -> None:
        if group.running == 0 and group.waiting == 0 and self._group_of is not None:
            if self._groups.get(group.name) is group:
                del self._groups[group.name]

    def shed(self, part: Partition, before: float) -> None:
        """Take out what waits for an event of its key whose handler was called before a moment and has not ended.

        Many of them behind one that hangs would fill the buffer of their partition, and hold back all others.
        """
        for head in part.running:
            following = head.next_same
            if following is None or head.started == 0 or head.started >= before:
                continue
            head.next_same = None
            part.tails[head.order_key] = head
            while following is not None:
                item, following = following, following.next_same
                item.next_same = None
                self._group_for(item).running += 1  # finish takes it back
                self._overflow.append(item)

    def take_overflow(self) -> list[Item]:
        """What has to be answered without the handler."""
        items, self._overflow = self._overflow, []
        return items

    def purge(self) -> None:
        """Take out what waits of partitions that are gone."""
        for group in list(self._groups.values()):
            before, group.waiting = group.waiting, 0
            for lane in group.ready:
                kept: Iterable[Item] = [item for item in lane if not item.part.gone]
                lane.clear()
                lane.extend(kept)
                group.waiting += len(lane)
            self._waiting -= before - group.waiting
            self._drop(group)
