"""The same commands over Kafka: topic <prefix>commands, JSON spelling (docs/formats/commands.md).

A command that the brokers have acknowledged is durable. What the engine says to it, refusals included, stands on the
event log and on <prefix>rejected: nobody answers here. Use Client where you need the answer.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, Unpack

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ._http import check_revision, encode
from .errors import ApiError, Forbidden, InvalidRequest, TooLarge, Unauthenticated, Unavailable, invalid_key
from .model import Duration, Instant, RegisterFields, TimeFields, body, instant


class NotWritten(Unavailable):
    """The brokers did not acknowledge a command in time, or refused it. It may stand in the topic all the same."""


@dataclass(frozen=True)
class Written:
    """Where a command stands."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class Command:
    """The record of a command, as it is written."""

    key: str
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def trigger_key(id: str, tenant: str | None = None) -> str:
    """The record key: the id, or tenant/id. InvalidRequest if the engine would refuse it."""
    if tenant in (None, "", "default"):
        if "/" in id:
            raise invalid_key(f"{id!r} is of another tenant: give that to the client")
        key = id
    else:
        key = f"{tenant}/{id}"
    if id == "" or id.startswith("/") or id.endswith("/"):
        raise invalid_key("an id has a character, and no / at its beginning or end")
    if any(unicodedata.category(c) == "Cc" for c in key):
        raise invalid_key("an id has no control characters")
    if len(key.encode()) > 255:
        raise invalid_key(f"a key has at most 255 bytes; this has {len(key.encode())}")
    return key


def record_headers(headers: Iterable[tuple[str, str | bytes]]) -> tuple[tuple[str, bytes], ...]:
    """Headers that travel to the due event. Those of Waterclock are refused."""
    out = []
    for name, value in headers:
        if name.lower().startswith(("wc-", "wcx-", "ce_")):
            raise InvalidRequest(0, "invalid", f"header {name} is Waterclock's own", name)
        out.append((name, value.encode() if isinstance(value, str) else value))
    return tuple(out)


def command(key: str, op: str, fields: Mapping[str, Any], headers: tuple[tuple[str, bytes], ...] = ()) -> Command:
    """A command in the JSON spelling. Fields that are None are left out."""
    given = body({k: v for k, v in fields.items() if v is not None})
    return Command(key, encode({"op": op, **given}), headers)


# Answers after which a record is known not to be in the log.
_REFUSALS: Mapping[int, tuple[type[ApiError], str]] = {
    KafkaError.MSG_SIZE_TOO_LARGE: (TooLarge, "too_large"),
    KafkaError.RECORD_LIST_TOO_LARGE: (TooLarge, "too_large"),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (Forbidden, "forbidden"),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: (Forbidden, "forbidden"),
    KafkaError.SASL_AUTHENTICATION_FAILED: (Unauthenticated, "unauthenticated"),
    KafkaError.INVALID_RECORD: (InvalidRequest, "invalid"),
}


def _failed(topic: str, error: KafkaError) -> ApiError:
    kind, code = _REFUSALS.get(error.code(), (NotWritten, ""))
    failed = kind(0, code, f"{topic}: {error.str()}")
    failed.maybe_applied = kind is NotWritten
    return failed


def _refusal(error: KafkaError) -> bool:
    """Whether a broker refused a log-in. A token that cannot be fetched has the same code."""
    text = error.str()
    return error.code() == KafkaError._AUTHENTICATION and (
        "SASL authentication error:" in text or "mechanism handshake failed:" in text)


class _Heard:
    """The errors of a session, as far as they say whether its log-in is good."""

    def __init__(self) -> None:
        self.refusal: KafkaError | None = None  # the first one since a broker acknowledged something
        self.down = False  # no broker has a connection; one that refuses has none
        self.stale = False  # that was before the refusal, and librdkafka does not say if one has come back
        self.sent = False  # something, maybe: there was a connection


class _Session:
    """A producer, until the brokers refuse its log-in. librdkafka itself would try again until the message times out.

    One broker that refuses does not end it, as long as another one has a connection.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.refused = False
        # No method: the producer is to end as soon as nobody uses the session, and no cycle may keep it.
        inform, heard = config.get("error_cb"), _Heard()

        def failed(error: KafkaError) -> None:
            if _refusal(error):
                heard.stale = heard.down if heard.refusal is None else heard.stale
                heard.refusal = heard.refusal or error
            elif error.code() == KafkaError._ALL_BROKERS_DOWN:
                heard.down, heard.stale = True, False
            if heard.refusal is None:
                heard.sent = True
            if inform is not None:
                inform(error)

        self._heard = heard
        self.producer = Producer({**config, "error_cb": failed})

    def acked(self) -> None:
        """A broker has acknowledged something."""
        self._heard.sent = True
        if not self.refused:
            self._heard.refusal, self._heard.down = None, False

    def _connected(self) -> bool:
        try:
            self.producer.list_topics(timeout=1)
        except KafkaException:
            return False
        return True

    def poll(self, seconds: float) -> None:
        self.producer.poll(seconds)
        heard = self._heard
        if heard.refusal is not None and heard.down and not self.refused:
            if heard.stale and self._connected():
                heard.refusal, heard.down = None, False
            else:
                self.refused = True
        if self.refused:
            # What is not sent yet fails with _PURGE_QUEUE. What a broker has in hand is still answered.
            self.producer.purge(in_queue=True, in_flight=False, blocking=False)

    def failed(self, topic: str, error: KafkaError) -> ApiError:
        refusal = self._heard.refusal
        if not self.refused or refusal is None or error.code() != KafkaError._PURGE_QUEUE:
            return _failed(topic, error)
        refused = Unauthenticated(0, "unauthenticated", f"{topic}: {refusal.str()}")
        refused.maybe_applied = self._heard.sent  # it may have been sent once, and have waited for its repeat
        return refused


class KafkaClient:
    """Writes commands. It may be used by many threads.

    config adds options of librdkafka: TLS, SASL. tenant is put before ids. Each method waits until the brokers have
    the command, at most timeout seconds. A log-in that all of them refuse raises Unauthenticated at once; the next call
    logs in anew.
    """

    def __init__(self, brokers: str = "127.0.0.1:9092", *, prefix: str = "waterclock.", tenant: str | None = None,
                 timeout: float = 30.0, config: Mapping[str, Any] | None = None) -> None:
        self.topic, self._tenant, self._timeout = prefix + "commands", tenant, timeout
        self._config = {
            "client.id": "waterclock-python", "linger.ms": 2, "enable.metrics.push": False, **(config or {}),
            "bootstrap.servers": brokers, "partitioner": "murmur2_random",  # where the engine looks for it
            "enable.idempotence": True, "acks": "all", "message.timeout.ms": max(int(timeout * 1000), 1),
        }
        self._lock = threading.Lock()
        self._session: _Session | None = _Session(self._config)

    def close(self) -> None:
        """Wait for what is under way."""
        session = self._session
        if session is not None:
            session.producer.flush(self._timeout)

    def _open(self) -> _Session:
        """The session, or a new one if the brokers have refused its log-in."""
        session = self._session
        if session is not None:
            session.poll(0)  # what it has heard since the last call
            self._leave(session)
        with self._lock:
            if self._session is None:
                self._session = _Session(self._config)
            return self._session

    def _leave(self, session: _Session) -> None:
        with self._lock:
            if session.refused and self._session is session:
                self._session = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def write(self, record: Command) -> Written:
        """Write a record as it is, and wait for the brokers."""
        done = threading.Event()
        result: list[Any] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            result.extend((error, message))
            done.set()

        session = self._open()
        try:
            session.producer.produce(self.topic, key=record.key.encode(), value=record.value,
                                   headers=list(record.headers), on_delivery=delivered)
        except BufferError as full:
            raise NotWritten(0, "overloaded", "the client's own queue is full") from full
        except KafkaException as cause:
            raise session.failed(self.topic, cause.args[0]) from cause
        while not done.is_set():
            session.poll(0.05)  # of many threads, any one may serve another's callback
        self._leave(session)
        error, message = result
        if error is not None:
            raise session.failed(self.topic, error)
        session.acked()
        return Written(self.topic, message.partition() or 0, message.offset() or 0)

    def command(self, id: str, op: str, fields: Mapping[str, Any], if_revision: int | None = None,
                correlation_id: str | None = None, actor: str | None = None,
                headers: Iterable[tuple[str, str | bytes]] = ()) -> Command:
        """The record that a method writes."""
        check_revision(if_revision)
        more = {"if_revision": if_revision, "correlation_id": correlation_id, "actor": actor}
        given = {**fields, **{k: v for k, v in more.items() if v is not None}}
        return command(trigger_key(id, self._tenant), op, given, record_headers(headers))

    def _write(self, id: str, op: str, fields: Mapping[str, Any], correlation_id: str | None, actor: str | None,
               if_revision: int | None) -> Written:
        return self.write(self.command(id, op, fields, if_revision, correlation_id, actor))

    def schedule(self, id: str, trigger: Mapping[str, Any] | None = None, /, *, idempotency_key: str | None = None,
                 if_absent: bool = False, if_revision: int | None = None, actor: str | None = None,
                 record_headers: Iterable[tuple[str, str | bytes]] = (),
                 **fields: Unpack[RegisterFields]) -> Written:
        """Register a trigger, or replace it whole. record_headers travel to the due event."""
        given: dict[str, Any] = {**(trigger or {}), **fields}
        if idempotency_key is not None:
            given["idempotency_key"] = idempotency_key
        if if_absent:
            given["if_absent"] = True
        return self.write(self.command(id, "register", given, if_revision, None, actor, record_headers))

    def cancel(self, id: str, *, note: str | None = None, if_revision: int | None = None,
               correlation_id: str | None = None, actor: str | None = None) -> Written:
        return self._write(id, "cancel", {"note": note}, correlation_id, actor, if_revision)

    def reschedule(self, id: str, *, note: str | None = None, if_revision: int | None = None,
                   correlation_id: str | None = None, actor: str | None = None, **time: Unpack[TimeFields]) -> Written:
        """Replace all of when, and nothing else. A pause stays."""
        return self._write(id, "reschedule", {**time, "note": note}, correlation_id, actor, if_revision)

    def snooze(self, id: str, *, for_: Duration | None = None, until: Instant | None = None, note: str | None = None,
               if_revision: int | None = None, correlation_id: str | None = None, actor: str | None = None) -> Written:
        return self._write(id, "snooze", {"for": for_, "until": until, "note": note}, correlation_id, actor,
                           if_revision)

    def skip(self, id: str, *, occurrence: Instant | None = None, note: str | None = None,
             if_revision: int | None = None, correlation_id: str | None = None, actor: str | None = None) -> Written:
        at = None if occurrence is None else instant(occurrence)
        return self._write(id, "skip", {"occurrence": at, "note": note}, correlation_id, actor, if_revision)

    def pause(self, id: str, *, note: str | None = None, if_revision: int | None = None,
              correlation_id: str | None = None, actor: str | None = None) -> Written:
        return self._write(id, "pause", {"note": note}, correlation_id, actor, if_revision)

    def resume(self, id: str, *, note: str | None = None, if_revision: int | None = None,
               correlation_id: str | None = None, actor: str | None = None) -> Written:
        return self._write(id, "resume", {"note": note}, correlation_id, actor, if_revision)

    def run(self, id: str, *, note: str | None = None, if_revision: int | None = None,
            correlation_id: str | None = None, actor: str | None = None) -> Written:
        return self._write(id, "run_now", {"note": note}, correlation_id, actor, if_revision)

    def rezone(self, id: str, timezone: str, *, note: str | None = None, if_revision: int | None = None,
               correlation_id: str | None = None, actor: str | None = None) -> Written:
        return self._write(id, "rezone", {"timezone": timezone, "note": note}, correlation_id, actor, if_revision)

    def ack(self, id: str, *, occurrence: str | None = None, note: str | None = None, if_revision: int | None = None,
            correlation_id: str | None = None, actor: str | None = None) -> Written:
        return self._write(id, "ack", {"occurrence": occurrence, "note": note}, correlation_id, actor, if_revision)

    def erase(self, id: str, *, note: str | None = None, correlation_id: str | None = None,
              actor: str | None = None) -> Written:
        """Forget the content: cancelled, and state and history content removed."""
        return self._write(id, "erase", {"note": note}, correlation_id, actor, None)
