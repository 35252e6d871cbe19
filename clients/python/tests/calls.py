"""The neutral calls of the conformance file, made on the clients, and their results as JSON."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from waterclock import (
    AlreadyFired, Answer, ApiError, AsyncClient, BatchResult, Client, Conflict, Forbidden, InvalidRequest, KafkaClient,
    NotFound, Page, QuotaExceeded, ServerError, TooLarge, Trigger, Unauthenticated, Unavailable,
)

TYPES: Mapping[str, type[ApiError]] = {
    "invalid": InvalidRequest, "not_found": NotFound, "already_fired": AlreadyFired, "conflict": Conflict,
    "too_large": TooLarge, "unauthenticated": Unauthenticated, "forbidden": Forbidden,
    "quota_exceeded": QuotaExceeded, "unavailable": Unavailable, "server": ServerError,
}


def error_json(error: ApiError) -> dict[str, Any]:
    return {
        "type": next(name for name, kind in TYPES.items() if isinstance(error, kind)), "status": error.status,
        "code": error.code, "field": error.field, "detail": error.detail, "trigger_id": error.trigger_id,
        "state": error.state, "request_id": error.request_id, "retry_after_ms": int(error.retry_after * 1000),
        "attempts": error.attempts, "maybe_applied": error.maybe_applied,
    }


def answer(a: Answer) -> dict[str, Any]:
    assert a.trigger_id == a.raw["trigger_id"] and a.revision == a.raw.get("revision") and a.state == a.raw.get("state")
    assert (a.fire_at is None) == (a.raw.get("fire_at") is None)
    return {**a.raw, "status": a.status, "created": a.created, "decided": a.decided, "notes": list(a.notes)}


def trigger(t: Trigger) -> dict[str, Any]:
    if "payload_base64" in t.raw:
        assert t.payload == base64.b64decode(t.raw["payload_base64"])
    else:
        assert t.payload == t.raw.get("payload")
    return {**t.raw, "trigger_id": t.trigger_id, "state": t.state}


def page(p: Page[Any], item: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    return {"items": [item(i) for i in p.items], "next_cursor": p.next_cursor}


def raw(v: Any) -> dict[str, Any]:
    return dict(v.raw)


def occurrence(o: Any) -> dict[str, Any]:
    return {"at": o.text, "local": o.local, "local_time": o.local_time, "occurrence": o.occurrence, "note": o.note}


def line(r: BatchResult) -> dict[str, Any]:
    if r.error is not None:
        assert not r.ok
        return {"id": r.id, "line": r.line, "error": error_json(r.error)}
    assert r.answer is not None
    return {**answer(r.answer), "id": r.id}


def rename(args: Mapping[str, Any]) -> dict[str, Any]:
    names = {"async": "respond_async", "for": "for_", "from": "from_", "all": "all_"}
    return {names.get(k, k): v for k, v in args.items()}


class Synchronous:
    """AsyncClient as if it were Client: the conformance file is run against both."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.client = AsyncClient(*args, **options)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)

        def invoke(*args: Any, **kwargs: Any) -> Any:
            made = method(*args, **kwargs)
            return self.iterate(made) if hasattr(made, "__aiter__") else self.loop.run_until_complete(made)

        return invoke

    def iterate(self, source: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self.loop.run_until_complete(source.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            self.loop.run_until_complete(source.aclose())

    def close(self) -> None:
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


def call(c: Client | Any, name: str, given: Mapping[str, Any]) -> Any:
    """The result of a call by HTTP, as JSON."""
    args = rename(given)
    id = args.pop("id", None)
    if name == "schedule":
        return answer(c.schedule(id, args.pop("trigger"), **args))
    if name == "get":
        return trigger(c.get(id, **args))
    if name == "list":
        return page(c.list_page(**args), trigger)
    if name == "list_all":
        return {"items": [trigger(t) for t in c.list(**args)]}
    if name == "reschedule":
        return answer(c.reschedule(id, **args.pop("time"), **args))
    if name == "update":
        return answer(c.update(id, args.pop("patch"), **args))
    if name in ("cancel", "snooze", "skip", "ack", "pause", "resume", "run", "erase"):
        return answer(getattr(c, name)(id, **args))
    if name == "rezone":
        return answer(c.rezone(id, args.pop("timezone"), **args))
    if name == "events":
        return page(c.events_page(id, **args), raw)
    if name == "events_all":
        return {"items": [raw(e) for e in c.events(id, **args)]}
    if name == "follow":
        stream: Iterable[Any] = c.events(id, follow=True)
        found = [raw(e) for e in itertools.islice(stream, args.pop("take"))]
        stream.close()  # type: ignore[attr-defined]
        return {"items": found}
    if name == "occurrences":
        return {"items": [occurrence(o) for o in c.occurrences(id, **args)]}
    if name == "batch":
        return {"items": [line(r) for r in c.batch(args.pop("lines"), **args)]}
    if name == "preview":
        return {"occurrences": [occurrence(o) for o in c.preview(**args)]}
    if name == "dead_letters":
        return page(c.dead_letters_page(trigger_id=id, **args), raw)
    if name == "dead_letters_all":
        return {"items": [raw(d) for d in c.dead_letters(trigger_id=id, **args)]}
    if name == "count_dead_letters":
        return {"items": c.count_dead_letters(args.pop("by"), **args)}
    if name == "redrive":
        return raw(c.redrive(id, **args))
    if name == "redrive_all":
        return raw(list(c.redrive_all(**args))[-1])
    if name in ("upcoming", "partitions", "channels", "calendars", "endpoints"):
        return {"items": getattr(c, name)(**args)}
    if name == "put_calendar":
        return c.put_calendar(args.pop("name"), args.pop("dates"), **args)
    if name in ("get_calendar", "delete_calendar"):
        return getattr(c, name)(args.pop("name"), **args)
    raise AssertionError(f"no method {name}")


def call_kafka(c: KafkaClient, name: str, given: Mapping[str, Any]) -> None:
    """A call by Kafka."""
    args = rename(given)
    id = args.pop("id")
    if name == "schedule":
        c.schedule(id, args.pop("trigger"), **args)
    elif name == "reschedule":
        c.reschedule(id, **args.pop("time"), **args)
    elif name == "rezone":
        c.rezone(id, args.pop("timezone"), **args)
    elif name in ("cancel", "snooze", "skip", "ack", "pause", "resume", "run", "erase"):
        getattr(c, name)(id, **args)
    else:
        raise AssertionError(f"no method {name}")
