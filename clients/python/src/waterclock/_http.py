"""What a request is, and when it is sent again. No I/O: Client and AsyncClient share it."""

from __future__ import annotations

import json
import random
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode

import httpx

from . import errors
from .model import Answer, DeadLetter, Event, Instant, Occurrence, Page, RedriveProgress, TimeFields, Trigger, body, instant

T = TypeVar("T")

#: Lines of one batch request; the server takes no more.
BATCH = 10_000
MAX_ANSWER = 64 << 20  # bytes: the default of max_answer
PIECE = 64 << 10  # bytes of an answer that are decoded at a time


@dataclass(frozen=True)
class Retry:
    """How often a request is sent again.

    After 429 any request is: it was refused. After a lost answer, 5xx and 408 only one whose repeat is safe is.
    A Retry-After of more than max_wait seconds is not waited for: the error is raised at once.
    """

    retries: int = 3  # requests after the first; 0 is none
    first: float = 0.1  # seconds; doubles, with jitter
    most: float = 5.0  # seconds
    max_wait: float = 30.0  # seconds

    def __post_init__(self) -> None:
        if self.retries < 0 or self.first < 0 or self.most < self.first or self.max_wait < 0:
            raise ValueError("Retry: want retries >= 0, 0 <= first <= most and max_wait >= 0")

    def wait(self, sent: int, after: float | None) -> float | None:
        """Seconds before the next request, after so many; None if there is none."""
        if sent > self.retries or (after is not None and after > self.max_wait):
            return None
        backoff: float = min(self.most, self.first * 2 ** (sent - 1)) * random.uniform(0.5, 1)
        return backoff if after is None else after + random.uniform(0, self.first)


@dataclass(frozen=True)
class Request(Generic[T]):
    method: str
    path: str
    parse: Callable[[httpx.Response], T]
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    safe: bool = True  # a repeat does no harm
    write: bool = True
    refusals: Callable[[T], Iterable[errors.ApiError]] = lambda result: ()  # parts of the answer that are errors
    patience: float = 1.0  # the answer may take that many times the client's timeout


class Attempts:
    """The course of one request: what to do with what came of each attempt."""

    def __init__(self, request: Request[Any], retry: Retry) -> None:
        self.request, self.retry = request, retry
        self.sent, self.maybe_applied = 0, False

    def answered(self, response: httpx.Response) -> float | None:
        """Seconds to wait before the next attempt, or None: the answer counts. Raises what is not repeated."""
        self.sent += 1
        if response.is_success:
            return None
        error = error_of(response)
        status = response.status_code
        unsure = status >= 500 or status == 408  # of a batch that came too slowly, what was read is applied
        self.maybe_applied = self.maybe_applied or (self.request.write and unsure)
        if status == 429 or (self.request.safe and unsure):
            after = None if "retry-after" not in response.headers else error.retry_after
            seconds = self.retry.wait(self.sent, after)
            if seconds is not None:
                return seconds
        raise self.note(error)

    def failed(self, cause: httpx.HTTPError) -> float:
        """Seconds to wait after an attempt without an answer. Raises if there is none."""
        self.sent += 1
        refused = isinstance(cause, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))  # nothing was sent
        self.maybe_applied = self.maybe_applied or (self.request.write and not refused)
        if refused or self.request.safe:
            seconds = self.retry.wait(self.sent, None)
            if seconds is not None:
                return seconds
        what = f"{self.request.method} {self.request.path}: no answer: {cause or type(cause).__name__}"
        raise self.note(errors.Unavailable(0, "", what)) from cause

    def parsed(self, request: Request[T], response: httpx.Response) -> T:
        try:
            result = request.parse(response)
        except (ValueError, KeyError, TypeError, AttributeError) as cause:
            raise self._unreadable(response.status_code, cause) from cause
        except errors.ApiError as refused:
            raise self.ended(refused) from None
        for error in request.refusals(result):
            error.attempts, error.maybe_applied = self.sent, self.maybe_applied or error.status >= 500
        return result

    def _unreadable(self, status: int, cause: Exception) -> errors.ApiError:
        self.sent = max(self.sent, 1)  # a stream that is well counts anew
        what = f"{self.request.method} {self.request.path}: the answer is none of the API's: {cause}"
        return self.ended(errors.ServerError(status, "", what))

    def too_long(self, response: httpx.Response, most: int) -> errors.ApiError:
        self.sent += 1
        return self._unreadable(response.status_code, TooLong(most))

    def fed(self, stream: Feed[T], chunk: bytes) -> list[T]:
        try:
            return stream.feed(chunk)
        except (ValueError, KeyError, TypeError, AttributeError) as cause:
            raise self._unreadable(200, cause) from cause

    def ended(self, error: errors.ApiError) -> errors.ApiError:
        """Complete the error that an answer ends with."""
        unsure = error.status < 300 or error.status >= 500 or error.status == 408
        self.maybe_applied = self.maybe_applied or (self.request.write and unsure)
        return self.note(error)

    def end(self, lines: RedriveLines, whole: bool) -> None:
        try:
            lines.end(whole)
        except errors.ApiError as error:
            raise self.ended(error) from None

    def note(self, error: errors.ApiError) -> errors.ApiError:
        error.attempts, error.maybe_applied = self.sent, self.maybe_applied
        return error


class TooLong(ValueError):
    def __init__(self, most: int) -> None:
        super().__init__(f"it has more than {most} bytes (max_answer)")


class Decoder:
    """Undoes gzip, which is all that is asked for. httpx decodes at once what came at once: 64 KiB may be 64 MiB."""

    def __init__(self, response: httpx.Response) -> None:
        coding = response.headers.get("content-encoding", "").strip().lower()
        self._gzip = zlib.decompressobj(zlib.MAX_WBITS | 16) if coding in ("gzip", "x-gzip") else None

    def decode(self, raw: bytes) -> Iterator[bytes]:
        if self._gzip is None:
            yield raw
            return
        while True:
            try:
                piece = self._gzip.decompress(raw, PIECE)
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from error
            raw = self._gzip.unconsumed_tail
            yield piece
            if self._gzip.unused_data:  # it may go on for ever
                raise httpx.DecodingError("bytes behind the end of gzip")
            if self._gzip.eof or not raw and len(piece) < PIECE:
                return


def pieces(response: httpx.Response) -> Iterator[bytes]:
    """The body of an answer, decoded, in pieces that are not much longer than PIECE."""
    if response.is_stream_consumed:  # a transport made it of bytes
        yield response.content
        return
    decoder = Decoder(response)
    for raw in response.iter_raw():
        yield from decoder.decode(raw)


async def async_pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    if response.is_stream_consumed:
        yield response.content
        return
    decoder = Decoder(response)
    async for raw in response.aiter_raw():
        for piece in decoder.decode(raw):
            yield piece


class Body:
    """The body of an answer. httpx bounds each wait for bytes of it; this bounds its size, and the whole attempt."""

    def __init__(self, course: Attempts, timeout: float, most: int) -> None:
        self._course, self._timeout, self._most = course, timeout * course.request.patience, most
        self._end = time.monotonic() + self._timeout
        self._content = bytearray()

    def take(self, response: httpx.Response, chunk: bytes) -> None:
        self._content += chunk
        if len(self._content) > self._most:
            raise self._course.too_long(response, self._most)
        if time.monotonic() > self._end:
            raise httpx.ReadTimeout(f"the answer had not ended after {self._timeout:g} s")

    def whole(self, response: httpx.Response) -> httpx.Response:
        """The answer with its body, which is decoded."""
        headers = [(name, value) for name, value in response.headers.raw if name.lower() != b"content-encoding"]
        return httpx.Response(response.status_code, headers=headers, content=bytes(self._content))


def error_of(response: httpx.Response) -> errors.ApiError:
    after = retry_after(response.headers.get("retry-after"))
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or not isinstance(problem.get("code"), str):
        problem = {"detail": f"status {response.status_code}, and no problem of the API's: {response.text[:200]}"}
    return errors.from_problem(response.status_code, problem, after or 0.0, response.headers.get("x-request-id", ""))


def retry_after(value: str | None) -> float | None:
    """Seconds of a header Retry-After, which has seconds or a date."""
    if not value:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


# --- requests ---------------------------------------------------------------


def answer(r: httpx.Response) -> Answer:
    return Answer.of(r.json(), r.status_code)


def segment(id: str) -> str:
    if id in ("", ".", ".."):
        raise errors.invalid_key(f"no trigger has the id {id!r} over HTTP")
    return quote(id, safe="")


def path(id: str, verb: str = "") -> str:
    return "/v1/triggers/" + segment(id) + verb


def check_revision(if_revision: Any) -> None:
    """Refuse a condition that would not be one."""
    if isinstance(if_revision, int) and if_revision < 1:
        detail = "it must be 1 or more: a write that was not decided has no revision yet"
        raise errors.InvalidRequest(0, "invalid", detail, "if_revision")


def conditions(if_revision: int | None, respond_async: bool) -> dict[str, str]:
    check_revision(if_revision)
    headers = {"If-Match": f'"{if_revision}"'} if if_revision is not None else {}
    if respond_async:
        headers["Prefer"] = "respond-async"
    return headers


def encode(value: Any) -> bytes:
    """JSON; InvalidRequest for what it cannot say, such as NaN."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise errors.InvalidRequest(0, "invalid", f"it cannot be written as JSON: {error}") from error


def _json(headers: dict[str, str]) -> dict[str, str]:
    return {"Content-Type": "application/json", **headers}


def schedule(id: str | None, fields: Mapping[str, Any], idempotency_key: str | None, if_revision: int | None,
             if_absent: bool, respond_async: bool) -> Request[Answer]:
    if "record_headers" in fields:
        raise errors.InvalidRequest(0, "invalid", "HTTP has no record headers; set headers of the trigger",
                                    "record_headers")
    headers = conditions(if_revision, respond_async)
    if if_absent:
        headers["If-None-Match"] = "*"
    if idempotency_key is None and id is None and fields.get("idempotency_key") is None:
        # Without it a repeat would make a second trigger. A PUT has none: a new key would count as a change, and
        # re-arm a delay.
        idempotency_key = str(uuid.uuid4())
    if idempotency_key is not None and any(c < " " or c == "\x7f" for c in idempotency_key):
        raise errors.InvalidRequest(0, "invalid", "it has a control character", "idempotency_key")
    if idempotency_key is not None and not idempotency_key.isascii():
        fields = {**fields, "idempotency_key": idempotency_key}  # headers have no such letters
    elif idempotency_key is not None:
        headers["Idempotency-Key"] = idempotency_key
    content = encode(body(fields))
    if id is None:
        return Request("POST", "/v1/triggers", answer, content, _json(headers))
    return Request("PUT", path(id), answer, content, _json(headers))


def get(id: str) -> Request[Trigger]:
    return Request("GET", path(id), lambda r: Trigger.of(r.json()), write=False)


def list_page(query: Mapping[str, Any]) -> Request[Page[Trigger]]:
    given: list[tuple[str, str]] = []
    for name, value in query.items():
        if value is None:
            continue
        if name == "tag":
            given += [("tag", f"{k}:{v}") for k, v in value.items()]
        elif name == "state":
            given.append((name, value if isinstance(value, str) else ",".join(value)))
        elif name in ("from", "to"):
            given.append((name, str(instant(value))))
        else:
            given.append((name, str(value)))

    def parse(r: httpx.Response) -> Page[Trigger]:
        raw = r.json()
        return Page([Trigger.of(t) for t in raw["items"]], raw.get("next_cursor") or None)

    return Request("GET", "/v1/triggers" + ("?" + urlencode(given) if given else ""), parse, write=False)


def cancel(id: str, note: str | None, if_revision: int | None, respond_async: bool) -> Request[Answer]:
    target = path(id) + ("" if note is None else "?" + urlencode({"note": note}))
    return Request("DELETE", target, answer, headers=conditions(if_revision, respond_async))


def reschedule(id: str, time: Mapping[str, Any], note: str | None, if_revision: int | None,
               respond_async: bool) -> Request[Answer]:
    """A merge patch after which the time is this alone, as after the op over Kafka: it removes the other fields."""
    fields = {**dict.fromkeys(TimeFields.__annotations__), **time}
    return patch(id, fields if note is None else {**fields, "note": note}, if_revision, respond_async)


def patch(id: str, fields: Mapping[str, Any], if_revision: int | None, respond_async: bool) -> Request[Answer]:
    # A merge patch removes a field by null: None is kept.
    content = encode({**body(fields), **{k: None for k, v in fields.items() if v is None}})
    headers = {"Content-Type": "application/merge-patch+json", **conditions(if_revision, respond_async)}
    return Request("PATCH", path(id), answer, content, headers, safe=if_revision is not None)


# What is asked for a second time changes nothing.
_SAFE_VERBS = frozenset(("pause", "resume", "rezone", "erase"))


def is_safe(verb: str, fields: Mapping[str, Any], if_revision: Any) -> bool:
    """Whether a verb may be repeated. run and ack change no revision, so If-Match does not help.

    A second run fires twice, and a second ack that names no occurrence may be about the next one.
    """
    if verb in ("run", "ack"):
        return verb == "ack" and fields.get("occurrence") is not None
    return verb in _SAFE_VERBS or if_revision is not None


def verb(id: str, name: str, fields: Mapping[str, Any], if_revision: int | None, respond_async: bool) -> Request[Answer]:
    given = body({k: v for k, v in fields.items() if v is not None})
    content = encode(given) if given else None
    headers = conditions(if_revision, respond_async)
    return Request("POST", path(id, ":" + name), answer, content, _json(headers) if content else headers,
                   is_safe(name, given, if_revision))


def events_page(id: str, cursor: str | None, limit: int | None) -> Request[Page[Event]]:
    given = {k: v for k, v in {"cursor": cursor, "limit": limit}.items() if v is not None}

    def parse(r: httpx.Response) -> Page[Event]:
        raw = r.json()
        return Page([Event.of(e) for e in raw["items"]], raw.get("next_cursor") or None)

    return Request("GET", path(id) + "/events" + ("?" + urlencode(given) if given else ""), parse, write=False)


def occurrences(id: str, n: int) -> Request[list[Occurrence]]:
    return Request("GET", path(id) + f"/occurrences?n={n}", lambda r: [Occurrence.of(o) for o in r.json()["items"]],
                   write=False)


def preview(fields: Mapping[str, Any]) -> Request[list[Occurrence]]:
    return Request("POST", "/v1/preview", lambda r: [Occurrence.of(o) for o in r.json()["occurrences"]],
                   encode(body(fields)), _json({}), write=False)


def _items(r: httpx.Response) -> list[dict[str, Any]]:
    return [dict(item) for item in r.json()["items"]]


def items(path: str) -> Request[list[dict[str, Any]]]:
    return Request("GET", path, _items, write=False)


def calendar(method: str, name: str, dates: Iterable[Instant | date] | None = None) -> Request[dict[str, Any]]:
    content = None if dates is None else encode({"dates": [instant(d) for d in dates]})
    return Request(method, "/v1/calendars/" + segment(name), lambda r: dict(r.json()), content,
                   _json({}) if content else {}, write=method != "GET")


# --- batches ------------------------------------------------------------------


@dataclass(frozen=True)
class BatchResult:
    """The answer to one line: an answer or an error."""

    id: str | None
    answer: Answer | None = None
    line: int = 0  # of a refused one; from 1
    error: errors.ApiError | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


def batch(lines: Sequence[Mapping[str, Any]], respond_async: bool) -> Request[list[BatchResult]]:
    # Several requests would have one outcome for each, and an exception has room for one.
    if len(lines) > BATCH:
        raise errors.TooLarge(0, "too_large", f"a batch has at most {BATCH:,} lines; send several")
    spelled, safe = [], True
    ids: set[str] = set()
    for line in lines:
        one = body(line)
        check_revision(one.get("if_revision"))
        if one.get("op", "register") == "register":
            if "id" not in one:
                one.setdefault("idempotency_key", str(uuid.uuid4()))
        elif one["op"] != "cancel":
            verb = "run" if one["op"] == "run_now" else str(one["op"])
            safe = safe and is_safe(verb, one, one.get("if_revision"))
        if "id" in one:  # a second time, the first line would meet what the second one left
            safe = safe and str(one["id"]) not in ids
            ids.add(str(one["id"]))
        spelled.append(encode(one))
    headers = {"Content-Type": "application/x-ndjson", **conditions(None, respond_async)}

    def parse(r: httpx.Response) -> list[BatchResult]:
        answers = [_line(json.loads(text)) for text in r.content.split(b"\n") if text.strip()]
        if len(answers) != len(lines):
            raise ValueError(f"{len(answers)} answers to {len(lines)} lines")
        return answers

    return Request("POST", "/v1/triggers:batch", parse, b"\n".join(spelled) + b"\n", headers, safe,
                   refusals=lambda results: [r.error for r in results if r.error is not None], patience=2)


def _line(raw: Mapping[str, Any]) -> BatchResult:
    status = int(raw.get("status", 0))
    if "code" in raw:
        line = raw.get("line")
        return BatchResult(raw.get("id"), line=line if isinstance(line, int) else 0, error=errors.from_problem(status, raw))
    return BatchResult(raw.get("id"), answer=Answer.of(raw, status))


# --- dead letters ---------------------------------------------------------------

_LETTER_NAMES = {"from_": "from", "all_": "all"}


def _letter_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a filter that are given, as the server reads them."""
    out: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or value is False:
            continue
        name = _LETTER_NAMES.get(name, name)
        out[name] = instant(value) if name in ("from", "to") else value
    return out


def dead_letters(query: Mapping[str, Any]) -> Request[Page[DeadLetter]]:
    def parse(r: httpx.Response) -> Page[DeadLetter]:
        raw = r.json()
        return Page([DeadLetter.of(item) for item in raw["items"]], raw.get("next_cursor") or None)

    given = _letter_fields(query)
    return Request("GET", "/v1/dead-letters" + ("?" + urlencode(given) if given else ""), parse, write=False)


def count_dead_letters(query: Mapping[str, Any]) -> Request[list[dict[str, Any]]]:
    return Request("GET", "/v1/dead-letters?" + urlencode(_letter_fields(query)),
                   lambda r: [dict(group) for group in r.json()["groups"]], write=False)


def redrive(fields: Mapping[str, Any]) -> Request[None]:
    """A redrive, whose answer is RedriveLines. Each letter goes out once, so a repeat does no harm."""
    return Request("POST", "/v1/dead-letters:redrive", lambda _: None, encode(_letter_fields(fields)), _json({}))


def ended(course: Sequence[RedriveProgress]) -> RedriveProgress:
    """The end of a redrive, with the refusals of its whole course."""
    return replace(course[-1], refusals=tuple(refusal for progress in course for refusal in progress.refusals))


class Feed(Protocol[T]):
    """What reads an answer while it comes."""

    def feed(self, chunk: bytes) -> list[T]: ...


class Lines:
    """Lines of an answer that comes piece by piece. What is held of them is bounded."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0  # bytes of lines since release
        self.rest = bytearray()  # of a line that has not ended

    def split(self, chunk: bytes) -> Iterator[bytes]:
        if b"\n" not in chunk:
            self.rest += chunk
        else:
            *lines, rest = (bytes(self.rest) + chunk).split(b"\n")
            self.rest = bytearray(rest)
            for line in lines:
                self._hold(len(line) + 1)
                yield line
        if self._held + len(self.rest) > self._most:
            raise TooLong(self._most)

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > self._most:
            raise TooLong(self._most)

    def release(self) -> None:
        """The lines so far are the caller's, and held no more."""
        self._held = 0


class RedriveLines:
    """Lines of a redrive's answer to progress. A problem is of one letter, unless it is the last line.

    most bounds the bytes up to the next progress; if whole, of all of them, as they are kept until the end.
    """

    def __init__(self, most: int, whole: bool) -> None:
        self._lines, self._whole = Lines(most), whole
        self._refused: list[errors.ApiError] = []
        self._done = False

    def feed(self, chunk: bytes) -> list[RedriveProgress]:
        found = []
        for line in self._lines.split(chunk):
            raw = json.loads(line) if line.strip() else {}
            if "code" in raw:
                self._refused.append(errors.from_problem(int(raw.get("status", 0)), raw))
            elif raw:
                found.append(RedriveProgress.of(raw, self._refused))
                if not self._whole:
                    self._lines.release()
                self._refused, self._done = [], bool(raw.get("done"))
        return found

    def end(self, whole: bool) -> None:
        """Raises unless the last line said that it was done. The answer may not be whole: it was cut off."""
        if not self._done:
            raise self._refused[-1] if whole and self._refused and not self._lines.rest else errors.Unavailable(
                0, "", "the redrive broke off: repeat it, and it goes on with what is open")


# --- server-sent events ---------------------------------------------------------


class EventStream:
    """Lines of text/event-stream to events. `last` is the id of the last event that came whole.

    A connection is alive once an event or a comment came. When it ends, as all do, it did not fail. most bounds the
    bytes of an event.
    """

    def __init__(self, id: str, most: int) -> None:
        self.request: Request[None] = Request("GET", path(id) + "/events?follow=1", lambda _: None, write=False)
        self.last, self._most = "", most
        self.begin()

    def headers(self) -> dict[str, str]:
        return {"Accept": "text/event-stream", **({"Last-Event-ID": self.last} if self.last else {})}

    def begin(self) -> None:
        self._data: list[str] = []
        self._id: str | None = None
        self._lines = Lines(self._most)
        self.alive = False

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that end in a piece of the stream."""
        # Not splitlines: JSON may have line separators of Unicode.
        found = [self._line(line.removesuffix(b"\r").decode()) for line in self._lines.split(chunk)]
        return [event for event in found if event is not None]

    def _line(self, line: str) -> Event | None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        elif line.startswith(":"):
            self.alive = True
        elif line == "":
            text, id = "\n".join(self._data), self._id
            self._data, self._id = [], None
            self._lines.release()
            if text:
                self.last = self.last if id is None else id
                self.alive = True
                return Event.of(json.loads(text))
        return None
