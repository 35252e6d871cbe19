"""Clients for the HTTP API: Client, and AsyncClient with the same methods to await."""

from __future__ import annotations

import asyncio
import builtins
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import date
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack
from urllib.parse import urlencode

import httpx

from . import _http, errors
from ._http import MAX_ANSWER, Attempts, BatchResult, Body, EventStream, Request, Retry
from .model import (
    Answer, DeadLetter, Duration, Event, Instant, Occurrence, Page, RedriveProgress, RegisterFields, TimeFields, Trigger,
    instant,
)

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8080"


def _options(url: str, token: str | None, timeout: float, headers: Mapping[str, str] | None) -> dict[str, Any]:
    given = httpx.Headers({"User-Agent": "waterclock-python", **(headers or {})})
    given["Accept-Encoding"] = "gzip"  # others cannot be bounded while they are decoded
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    # The environment's proxies are not asked: a scheduler is a neighbour.
    return {"base_url": url, "timeout": timeout, "headers": given, "follow_redirects": False, "trust_env": False}


def _bound(max_answer: int) -> int:
    if max_answer < 1:
        raise ValueError(f"max_answer {max_answer}: want 1 or more bytes")
    return max_answer


class Client:
    """A client for one server. It may be used by many threads.

    timeout is of one attempt with its answer, in seconds; a batch has twice as long. transport is for tests, and for
    TLS with certificates of your own (httpx.HTTPTransport). max_answer bounds the bytes of an answer once it is
    decompressed, and of one event of a stream: a longer one raises ServerError.
    """

    def __init__(self, url: str = DEFAULT_URL, *, token: str | None = None, timeout: float = 30.0,
                 retry: Retry = Retry(), headers: Mapping[str, str] | None = None,
                 transport: httpx.BaseTransport | None = None, max_answer: int = MAX_ANSWER) -> None:
        self._retry, self._timeout, self._max_answer = retry, timeout, _bound(max_answer)
        self._client = httpx.Client(**_options(url, token, timeout, headers), transport=transport)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _body(self, course: Attempts) -> Body:
        return Body(course, self._timeout, self._max_answer)

    def _read(self, body: Body, response: httpx.Response) -> httpx.Response:
        for piece in _http.pieces(response):
            body.take(response, piece)
        return body.whole(response)

    def _send(self, request: Request[T]) -> T:
        course = Attempts(request, self._retry)
        while True:
            try:
                body = self._body(course)
                with self._client.stream(request.method, request.path, content=request.content,
                                         headers=dict(request.headers)) as streamed:
                    response = self._read(body, streamed)
                wait = course.answered(response)
                if wait is None:
                    return course.parsed(request, response)
            except httpx.RequestError as error:
                wait = course.failed(error)
            time.sleep(wait)

    def schedule(self, id: str | None = None, trigger: Mapping[str, Any] | None = None, /, *,
                 idempotency_key: str | None = None, if_revision: int | None = None, if_absent: bool = False,
                 respond_async: bool = False, **fields: Unpack[RegisterFields]) -> Answer:
        """Register a trigger, or replace it whole.

        trigger is a mapping with the same fields, for who has one. Without an id the server names it, and the client
        sends an idempotency key, so that a repeat after a lost answer is the same trigger. A key of your own makes it
        safe over restarts of your program too.
        """
        return self._send(_http.schedule(id, {**(trigger or {}), **fields}, idempotency_key, if_revision, if_absent,
                                         respond_async))

    def get(self, id: str) -> Trigger:
        """The trigger as it is; NotFound if it is unknown or forgotten."""
        return self._send(_http.get(id))

    def list_page(self, *, state: str | Sequence[str] | None = None, user_id: str | None = None, channel: str | None = None,
                  tags: Mapping[str, str] | None = None, from_: Instant | None = None, to: Instant | None = None,
                  cursor: str | None = None, limit: int | None = None) -> Page[Trigger]:
        """One page of a list. A page may be short and still have a next one."""
        return self._send(_http.list_page({"state": state, "user_id": user_id, "channel": channel, "tag": tags,
                                           "from": from_, "to": to, "cursor": cursor, "limit": limit}))

    def list(self, *, state: str | Sequence[str] | None = None, user_id: str | None = None, channel: str | None = None,
             tags: Mapping[str, str] | None = None, from_: Instant | None = None, to: Instant | None = None,
             limit: int | None = None) -> Iterator[Trigger]:
        """All triggers that the filters leave, page by page; limit is of one page."""
        cursor: str | None = None
        while True:
            page = self.list_page(state=state, user_id=user_id, channel=channel, tags=tags, from_=from_, to=to,
                                  cursor=cursor, limit=limit)
            yield from page
            cursor = page.next_cursor
            if cursor is None:
                return

    def cancel(self, id: str, *, note: str | None = None, if_revision: int | None = None,
               respond_async: bool = False) -> Answer:
        """End a trigger. AlreadyFired if it was too late."""
        return self._send(_http.cancel(id, note, if_revision, respond_async))

    def snooze(self, id: str, *, for_: Duration | None = None, until: Instant | None = None, note: str | None = None,
               if_revision: int | None = None, respond_async: bool = False) -> Answer:
        """Fire later, or once more: for a duration or until an instant."""
        return self._send(_http.verb(id, "snooze", {"for": for_, "until": until, "note": note}, if_revision,
                                     respond_async))

    def reschedule(self, id: str, *, note: str | None = None, if_revision: int | None = None,
                   respond_async: bool = False, **time: Unpack[TimeFields]) -> Answer:
        """Replace all of when, and nothing else: what is not given is not kept. A pause stays. See update."""
        return self._send(_http.reschedule(id, time, note, if_revision, respond_async))

    def update(self, id: str, patch: Mapping[str, Any], /, *, if_revision: int | None = None,
               respond_async: bool = False) -> Answer:
        """Change what the patch names (a merge patch): None removes a field."""
        return self._send(_http.patch(id, patch, if_revision, respond_async))

    def skip(self, id: str, *, occurrence: Instant | None = None, note: str | None = None,
             if_revision: int | None = None, respond_async: bool = False) -> Answer:
        """Leave out one occurrence; the next one if none is named."""
        at = None if occurrence is None else instant(occurrence)
        return self._send(_http.verb(id, "skip", {"occurrence": at, "note": note}, if_revision, respond_async))

    def pause(self, id: str, *, note: str | None = None, if_revision: int | None = None,
              respond_async: bool = False) -> Answer:
        return self._send(_http.verb(id, "pause", {"note": note}, if_revision, respond_async))

    def resume(self, id: str, *, note: str | None = None, if_revision: int | None = None,
               respond_async: bool = False) -> Answer:
        return self._send(_http.verb(id, "resume", {"note": note}, if_revision, respond_async))

    def run(self, id: str, *, note: str | None = None, if_revision: int | None = None,
            respond_async: bool = False) -> Answer:
        """Fire once now, off schedule. It is never repeated: a second firing would not be noticed."""
        return self._send(_http.verb(id, "run", {"note": note}, if_revision, respond_async))

    def rezone(self, id: str, timezone: str, *, note: str | None = None, if_revision: int | None = None,
               respond_async: bool = False) -> Answer:
        """Move it to another zone; wall times stay."""
        return self._send(_http.verb(id, "rezone", {"timezone": timezone, "note": note}, if_revision, respond_async))

    def ack(self, id: str, *, occurrence: str | None = None, note: str | None = None, if_revision: int | None = None,
            respond_async: bool = False) -> Answer:
        """The user has reacted: no further escalation."""
        return self._send(_http.verb(id, "ack", {"occurrence": occurrence, "note": note}, if_revision, respond_async))

    def erase(self, id: str, *, note: str | None = None, respond_async: bool = False) -> Answer:
        """Forget the content: it is cancelled, and its content removed from state and history."""
        return self._send(_http.verb(id, "erase", {"note": note}, None, respond_async))

    def dead_letters_page(
            self, *, trigger_id: str | None = None, tenant: str | None = None, channel: str | None = None,
            code: str | None = None, endpoint: str | None = None, from_: Instant | None = None,
            to: Instant | None = None, status: str | None = None, cursor: str | None = None,
            limit: int | None = None) -> Page[DeadLetter]:
        """One page of what nobody could deliver, the newest first. A page may be short and still have a next one."""
        return self._send(_http.dead_letters({
            "trigger_id": trigger_id, "tenant": tenant, "channel": channel, "code": code, "endpoint": endpoint,
            "from": from_, "to": to, "status": status, "cursor": cursor, "limit": limit}))

    def dead_letters(
            self, *, trigger_id: str | None = None, tenant: str | None = None, channel: str | None = None,
            code: str | None = None, endpoint: str | None = None, from_: Instant | None = None,
            to: Instant | None = None, status: str | None = None, limit: int | None = None) -> Iterator[DeadLetter]:
        """All dead letters that the filters leave, page by page; open ones if no status is given."""
        cursor: str | None = None
        while True:
            page = self.dead_letters_page(
                trigger_id=trigger_id, tenant=tenant, channel=channel, code=code, endpoint=endpoint, from_=from_, to=to,
                status=status, cursor=cursor, limit=limit)
            yield from page
            cursor = page.next_cursor
            if cursor is None:
                return

    def count_dead_letters(
            self, by: Literal["tenant", "code", "endpoint"], *, tenant: str | None = None, channel: str | None = None,
            code: str | None = None, endpoint: str | None = None, from_: Instant | None = None,
            to: Instant | None = None, status: str | None = None) -> builtins.list[dict[str, Any]]:
        """How many there are for each value, the largest first: value, count, oldest, newest."""
        return self._send(_http.count_dead_letters({
            "group_by": by, "tenant": tenant, "channel": channel, "code": code, "endpoint": endpoint, "from": from_,
            "to": to, "status": status}))

    def redrive(self, id: str, *, ce_id: str | None = None, note: str | None = None, include_expired: bool = False,
                dry_run: bool = False, rate: float | None = None) -> RedriveProgress:
        """Try the dead letters of a trigger again, or one of them. What is live or was redriven is a duplicate.

        With more than 128 of them give a rate, so many a second, at which their receipts keep pace.
        """
        request = _http.redrive({"trigger_id": id, "ce_id": ce_id, "note": note, "include_expired": include_expired,
                                 "dry_run": dry_run, "rate": rate})
        return _http.ended(list(self._redrive(request, self._client.timeout, True)))

    def redrive_all(
            self, *, tenant: str | None = None, channel: str | None = None, code: str | None = None,
            endpoint: str | None = None, from_: Instant | None = None, to: Instant | None = None, all_: bool = False,
            rate: float | None = None, dry_run: bool = False, include_expired: bool = False,
            note: str | None = None, cursor: str | None = None) -> Iterator[RedriveProgress]:
        """Try again what a filter leaves, or all_ of it, and yield how far it is; the last one is done.

        To break off stops it. It is safe to repeat, and goes on with what is open. Unavailable: it was cut off.
        """
        request = _http.redrive({
            "tenant": tenant, "channel": channel, "code": code, "endpoint": endpoint, "from": from_, "to": to,
            "all": all_, "rate": rate, "dry_run": dry_run, "include_expired": include_expired, "note": note,
            "cursor": cursor})
        yield from self._redrive(request, httpx.Timeout(10, read=60), False)

    def _redrive(self, request: Request[None], timeout: httpx.Timeout, whole: bool) -> Iterator[RedriveProgress]:
        course, lines = Attempts(request, self._retry), _http.RedriveLines(self._max_answer, whole)
        while True:
            begun = False
            wait: float | None
            try:
                with self._client.stream(request.method, request.path, content=request.content,
                                         headers=dict(request.headers), timeout=timeout) as response:
                    wait = course.answered(
                        response if response.is_success else self._read(self._body(course), response))
                    if wait is None:
                        begun = True
                        for chunk in _http.pieces(response):
                            for progress in course.fed(lines, chunk):
                                yield progress
                                if progress.done:
                                    return
                        course.end(lines, True)
                        return
            except httpx.RequestError as error:
                if begun:
                    course.end(lines, False)  # raises, unless the last line came
                    return
                wait = course.failed(error)
            time.sleep(wait)

    def events_page(self, id: str, *, cursor: str | None = None, limit: int | None = None) -> Page[Event]:
        return self._send(_http.events_page(id, cursor, limit))

    def events(self, id: str, *, follow: bool = False, limit: int | None = None) -> Iterator[Event]:
        """What happened to it. With follow it goes on with what happens, until you break."""
        if follow:
            yield from self._follow(id)
            return
        cursor: str | None = None
        while True:
            page = self.events_page(id, cursor=cursor, limit=limit)
            yield from page
            cursor = page.next_cursor
            if cursor is None:
                return

    def _follow(self, id: str) -> Iterator[Event]:
        stream = EventStream(id, self._max_answer)
        course = Attempts(stream.request, self._retry)
        while True:
            wait: float | None
            try:
                # A quiet stream speaks every 15 s.
                with self._client.stream("GET", stream.request.path, headers=stream.headers(),
                                         timeout=httpx.Timeout(10, read=60)) as response:
                    if not response.is_success:
                        wait = course.answered(self._read(self._body(course), response))
                    else:
                        stream.begin()
                        for chunk in _http.pieces(response):
                            events = course.fed(stream, chunk)
                            if stream.alive:
                                course = Attempts(stream.request, self._retry)  # it works: failures count anew
                            yield from events
                        wait = course.failed(httpx.RemoteProtocolError("the stream ended"))
            except httpx.RequestError as error:
                wait = course.failed(error)
            time.sleep(wait or 0.0)

    def occurrences(self, id: str, n: int = 10) -> builtins.list[Occurrence]:
        """The next n occurrences."""
        return self._send(_http.occurrences(id, n))

    def preview(self, *, after: Instant | None = None, n: int | None = None,
                **fields: Unpack[TimeFields]) -> builtins.list[Occurrence]:
        """What a rule would do; nothing is registered."""
        return self._send(_http.preview({**fields, "after": after, "n": n}))

    def upcoming(self, *, bucket: str = "1m", n: int = 120) -> builtins.list[dict[str, Any]]:
        """How many occurrences fall due, by time."""
        return self._send(_http.items("/v1/upcoming?" + urlencode({"bucket": bucket, "n": n})))

    def partitions(self) -> builtins.list[dict[str, Any]]:
        """The partitions, their owners and how far they are. For operators."""
        return self._send(_http.items("/v1/partitions"))

    def channels(self) -> builtins.list[dict[str, Any]]:
        return self._send(_http.items("/v1/channels"))

    def endpoints(self) -> builtins.list[dict[str, Any]]:
        """Where callbacks go, and how these endpoints do. For operators."""
        return self._send(_http.items("/v1/endpoints"))

    def calendars(self) -> builtins.list[dict[str, Any]]:
        return self._send(_http.items("/v1/calendars"))

    def get_calendar(self, name: str) -> dict[str, Any]:
        return self._send(_http.calendar("GET", name))

    def put_calendar(self, name: str, dates: Iterable[date | str]) -> dict[str, Any]:
        return self._send(_http.calendar("PUT", name, dates))

    def delete_calendar(self, name: str) -> dict[str, Any]:
        return self._send(_http.calendar("DELETE", name))

    def batch(self, lines: Iterable[Mapping[str, Any]], *, respond_async: bool = False) -> builtins.list[BatchResult]:
        """Many commands, at most 10,000, in their order. A line is a register, or has `op` and `id`.

        A refused line does not raise: its result has the error. Registers without id and idempotency_key get a key.
        The request is repeated only if every line is safe to repeat, and no id is there twice.
        """
        given = tuple(lines)
        return self._send(_http.batch(given, respond_async)) if given else []


class AsyncClient:
    """Client with methods to await. It belongs to one event loop."""

    def __init__(self, url: str = DEFAULT_URL, *, token: str | None = None, timeout: float = 30.0,
                 retry: Retry = Retry(), headers: Mapping[str, str] | None = None,
                 transport: httpx.AsyncBaseTransport | None = None, max_answer: int = MAX_ANSWER) -> None:
        self._retry, self._timeout, self._max_answer = retry, timeout, _bound(max_answer)
        self._client = httpx.AsyncClient(**_options(url, token, timeout, headers), transport=transport)

    async def close(self) -> None:
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()

    def _body(self, course: Attempts) -> Body:
        return Body(course, self._timeout, self._max_answer)

    async def _read(self, body: Body, response: httpx.Response) -> httpx.Response:
        async for piece in _http.async_pieces(response):
            body.take(response, piece)
        return body.whole(response)

    async def _send(self, request: Request[T]) -> T:
        course = Attempts(request, self._retry)
        while True:
            try:
                body = self._body(course)
                async with self._client.stream(request.method, request.path, content=request.content,
                                               headers=dict(request.headers)) as streamed:
                    response = await self._read(body, streamed)
                wait = course.answered(response)
                if wait is None:
                    return course.parsed(request, response)
            except httpx.RequestError as error:
                wait = course.failed(error)
            await asyncio.sleep(wait)

    async def schedule(self, id: str | None = None, trigger: Mapping[str, Any] | None = None, /, *,
                       idempotency_key: str | None = None, if_revision: int | None = None, if_absent: bool = False,
                       respond_async: bool = False, **fields: Unpack[RegisterFields]) -> Answer:
        return await self._send(_http.schedule(id, {**(trigger or {}), **fields}, idempotency_key, if_revision,
                                               if_absent, respond_async))

    async def get(self, id: str) -> Trigger:
        return await self._send(_http.get(id))

    async def list_page(self, *, state: str | Sequence[str] | None = None, user_id: str | None = None, channel: str | None = None,
                        tags: Mapping[str, str] | None = None, from_: Instant | None = None, to: Instant | None = None,
                        cursor: str | None = None, limit: int | None = None) -> Page[Trigger]:
        return await self._send(_http.list_page({"state": state, "user_id": user_id, "channel": channel, "tag": tags,
                                                 "from": from_, "to": to, "cursor": cursor, "limit": limit}))

    async def list(self, *, state: str | Sequence[str] | None = None, user_id: str | None = None, channel: str | None = None,
                   tags: Mapping[str, str] | None = None, from_: Instant | None = None, to: Instant | None = None,
                   limit: int | None = None) -> AsyncIterator[Trigger]:
        cursor: str | None = None
        while True:
            page = await self.list_page(state=state, user_id=user_id, channel=channel, tags=tags, from_=from_, to=to,
                                        cursor=cursor, limit=limit)
            for trigger in page:
                yield trigger
            cursor = page.next_cursor
            if cursor is None:
                return

    async def cancel(self, id: str, *, note: str | None = None, if_revision: int | None = None,
                     respond_async: bool = False) -> Answer:
        return await self._send(_http.cancel(id, note, if_revision, respond_async))

    async def snooze(self, id: str, *, for_: Duration | None = None, until: Instant | None = None,
                     note: str | None = None, if_revision: int | None = None, respond_async: bool = False) -> Answer:
        return await self._send(_http.verb(id, "snooze", {"for": for_, "until": until, "note": note}, if_revision,
                                           respond_async))

    async def reschedule(self, id: str, *, note: str | None = None, if_revision: int | None = None,
                         respond_async: bool = False, **time: Unpack[TimeFields]) -> Answer:
        """Replace all of when, and nothing else: what is not given is not kept. A pause stays. See update."""
        return await self._send(_http.reschedule(id, time, note, if_revision, respond_async))

    async def update(self, id: str, patch: Mapping[str, Any], /, *, if_revision: int | None = None,
                     respond_async: bool = False) -> Answer:
        """Change what the patch names (a merge patch): None removes a field."""
        return await self._send(_http.patch(id, patch, if_revision, respond_async))

    async def skip(self, id: str, *, occurrence: Instant | None = None, note: str | None = None,
                   if_revision: int | None = None, respond_async: bool = False) -> Answer:
        at = None if occurrence is None else instant(occurrence)
        return await self._send(_http.verb(id, "skip", {"occurrence": at, "note": note}, if_revision, respond_async))

    async def pause(self, id: str, *, note: str | None = None, if_revision: int | None = None,
                    respond_async: bool = False) -> Answer:
        return await self._send(_http.verb(id, "pause", {"note": note}, if_revision, respond_async))

    async def resume(self, id: str, *, note: str | None = None, if_revision: int | None = None,
                     respond_async: bool = False) -> Answer:
        return await self._send(_http.verb(id, "resume", {"note": note}, if_revision, respond_async))

    async def run(self, id: str, *, note: str | None = None, if_revision: int | None = None,
                  respond_async: bool = False) -> Answer:
        return await self._send(_http.verb(id, "run", {"note": note}, if_revision, respond_async))

    async def rezone(self, id: str, timezone: str, *, note: str | None = None, if_revision: int | None = None,
                     respond_async: bool = False) -> Answer:
        return await self._send(_http.verb(id, "rezone", {"timezone": timezone, "note": note}, if_revision,
                                           respond_async))

    async def ack(self, id: str, *, occurrence: str | None = None, note: str | None = None,
                  if_revision: int | None = None, respond_async: bool = False) -> Answer:
        return await self._send(_http.verb(id, "ack", {"occurrence": occurrence, "note": note}, if_revision,
                                           respond_async))

    async def erase(self, id: str, *, note: str | None = None, respond_async: bool = False) -> Answer:
        return await self._send(_http.verb(id, "erase", {"note": note}, None, respond_async))

    async def dead_letters_page(
            self, *, trigger_id: str | None = None, tenant: str | None = None, channel: str | None = None,
            code: str | None = None, endpoint: str | None = None, from_: Instant | None = None,
            to: Instant | None = None, status: str | None = None, cursor: str | None = None,
            limit: int | None = None) -> Page[DeadLetter]:
        return await self._send(_http.dead_letters({
            "trigger_id": trigger_id, "tenant": tenant, "channel": channel, "code": code, "endpoint": endpoint,
            "from": from_, "to": to, "status": status, "cursor": cursor, "limit": limit}))

    async def dead_letters(
            self, *, trigger_id: str | None = None, tenant: str | None = None, channel: str | None = None,
            code: str | None = None, endpoint: str | None = None, from_: Instant | None = None,
            to: Instant | None = None, status: str | None = None, limit: int | None = None) -> AsyncIterator[DeadLetter]:
        cursor: str | None = None
        while True:
            page = await self.dead_letters_page(
                trigger_id=trigger_id, tenant=tenant, channel=channel, code=code, endpoint=endpoint, from_=from_, to=to,
                status=status, cursor=cursor, limit=limit)
            for letter in page:
                yield letter
            cursor = page.next_cursor
            if cursor is None:
                return

    async def count_dead_letters(
            self, by: Literal["tenant", "code", "endpoint"], *, tenant: str | None = None, channel: str | None = None,
            code: str | None = None, endpoint: str | None = None, from_: Instant | None = None,
            to: Instant | None = None, status: str | None = None) -> builtins.list[dict[str, Any]]:
        return await self._send(_http.count_dead_letters({
            "group_by": by, "tenant": tenant, "channel": channel, "code": code, "endpoint": endpoint, "from": from_,
            "to": to, "status": status}))

    async def redrive(self, id: str, *, ce_id: str | None = None, note: str | None = None,
                      include_expired: bool = False, dry_run: bool = False, rate: float | None = None,
                      ) -> RedriveProgress:
        request = _http.redrive({"trigger_id": id, "ce_id": ce_id, "note": note, "include_expired": include_expired,
                                 "dry_run": dry_run, "rate": rate})
        return _http.ended([progress async for progress in self._redrive(request, self._client.timeout, True)])

    async def redrive_all(
            self, *, tenant: str | None = None, channel: str | None = None, code: str | None = None,
            endpoint: str | None = None, from_: Instant | None = None, to: Instant | None = None, all_: bool = False,
            rate: float | None = None, dry_run: bool = False, include_expired: bool = False,
            note: str | None = None, cursor: str | None = None) -> AsyncIterator[RedriveProgress]:
        request = _http.redrive({
            "tenant": tenant, "channel": channel, "code": code, "endpoint": endpoint, "from": from_, "to": to,
            "all": all_, "rate": rate, "dry_run": dry_run, "include_expired": include_expired, "note": note,
            "cursor": cursor})
        async for progress in self._redrive(request, httpx.Timeout(10, read=60), False):
            yield progress

    async def _redrive(self, request: Request[None], timeout: httpx.Timeout, whole: bool,
                       ) -> AsyncIterator[RedriveProgress]:
        course, lines = Attempts(request, self._retry), _http.RedriveLines(self._max_answer, whole)
        while True:
            begun = False
            wait: float | None
            try:
                async with self._client.stream(request.method, request.path, content=request.content,
                                               headers=dict(request.headers), timeout=timeout) as response:
                    wait = course.answered(
                        response if response.is_success else await self._read(self._body(course), response))
                    if wait is None:
                        begun = True
                        async for chunk in _http.async_pieces(response):
                            for progress in course.fed(lines, chunk):
                                yield progress
                                if progress.done:
                                    return
                        course.end(lines, True)
                        return
            except httpx.RequestError as error:
                if begun:
                    course.end(lines, False)  # raises, unless the last line came
                    return
                wait = course.failed(error)
            await asyncio.sleep(wait)

    async def events_page(self, id: str, *, cursor: str | None = None, limit: int | None = None) -> Page[Event]:
        return await self._send(_http.events_page(id, cursor, limit))

    async def events(self, id: str, *, follow: bool = False, limit: int | None = None) -> AsyncIterator[Event]:
        if follow:
            async for event in self._follow(id):
                yield event
            return
        cursor: str | None = None
        while True:
            page = await self.events_page(id, cursor=cursor, limit=limit)
            for event in page:
                yield event
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _follow(self, id: str) -> AsyncIterator[Event]:
        stream = EventStream(id, self._max_answer)
        course = Attempts(stream.request, self._retry)
        while True:
            wait: float | None
            try:
                # A quiet stream speaks every 15 s.
                async with self._client.stream("GET", stream.request.path, headers=stream.headers(),
                                               timeout=httpx.Timeout(10, read=60)) as response:
                    if not response.is_success:
                        wait = course.answered(await self._read(self._body(course), response))
                    else:
                        stream.begin()
                        async for chunk in _http.async_pieces(response):
                            events = course.fed(stream, chunk)
                            if stream.alive:
                                course = Attempts(stream.request, self._retry)  # it works: failures count anew
                            for event in events:
                                yield event
                        wait = course.failed(httpx.RemoteProtocolError("the stream ended"))
            except httpx.RequestError as error:
                wait = course.failed(error)
            await asyncio.sleep(wait or 0.0)

    async def occurrences(self, id: str, n: int = 10) -> builtins.list[Occurrence]:
        return await self._send(_http.occurrences(id, n))

    async def preview(self, *, after: Instant | None = None, n: int | None = None,
                      **fields: Unpack[TimeFields]) -> builtins.list[Occurrence]:
        """What a rule would do; nothing is registered."""
        return await self._send(_http.preview({**fields, "after": after, "n": n}))

    async def upcoming(self, *, bucket: str = "1m", n: int = 120) -> builtins.list[dict[str, Any]]:
        """How many occurrences fall due, by time."""
        return await self._send(_http.items("/v1/upcoming?" + urlencode({"bucket": bucket, "n": n})))

    async def partitions(self) -> builtins.list[dict[str, Any]]:
        """The partitions, their owners and how far they are. For operators."""
        return await self._send(_http.items("/v1/partitions"))

    async def channels(self) -> builtins.list[dict[str, Any]]:
        return await self._send(_http.items("/v1/channels"))

    async def endpoints(self) -> builtins.list[dict[str, Any]]:
        return await self._send(_http.items("/v1/endpoints"))

    async def calendars(self) -> builtins.list[dict[str, Any]]:
        return await self._send(_http.items("/v1/calendars"))

    async def get_calendar(self, name: str) -> dict[str, Any]:
        return await self._send(_http.calendar("GET", name))

    async def put_calendar(self, name: str, dates: Iterable[date | str]) -> dict[str, Any]:
        return await self._send(_http.calendar("PUT", name, dates))

    async def delete_calendar(self, name: str) -> dict[str, Any]:
        return await self._send(_http.calendar("DELETE", name))

    async def batch(self, lines: Iterable[Mapping[str, Any]], *, respond_async: bool = False) -> builtins.list[BatchResult]:
        given = tuple(lines)
        return await self._send(_http.batch(given, respond_async)) if given else []


__all__ = ["AsyncClient", "BatchResult", "Client", "Retry", "errors"]
