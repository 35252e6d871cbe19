"""What the conformance file cannot say: a server that is killed, values of Python, the package itself."""

from __future__ import annotations

import gzip
import json
import signal
import socket
import struct
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaError, KafkaException
from waterclock import (
    Client, InvalidRequest, KafkaClient, Retry, ServerError, TooLarge, Unauthenticated, Unavailable, kafka, model,
    webhook, worker,
)
from waterclock.kafka import NotWritten

from calls import Synchronous
from conftest import Dev, await_


def test_server_killed_in_mid_call(tmp_path: Path) -> None:
    """kill -9 while calls are under way: each call of a patient client makes one trigger, however often it was sent."""
    server = Dev(tmp_path / "data")
    server.start()
    made: set[str] = set()
    ready, failed = threading.Event(), []
    n = 60

    def call() -> None:
        try:
            with Client(server.url, retry=Retry(retries=60, first=0.05, most=0.5), timeout=5) as client:
                for i in range(n):
                    made.add(client.schedule(delay="1h", user_id="u_kill").trigger_id)
                    if i == 20:
                        ready.set()
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=call)
    thread.start()
    try:
        for _ in range(2):
            assert ready.wait(60)
            server.kill()
            server.start()
        thread.join(90)
        assert not thread.is_alive() and not failed, failed
        with Client(server.url) as client:
            assert {t.trigger_id for t in client.list(user_id="u_kill")} == made and len(made) == n
        server.kill()
        with Client(server.url, retry=Retry(retries=1, first=0.01)) as client, pytest.raises(Unavailable) as raised:
            client.run("a")
        assert raised.value.status == 0 and raised.value.attempts == 2 and not raised.value.maybe_applied
    finally:
        server.stop()


class Struck(httpx.BaseTransport):
    """The way to a server that is killed once, by kill -9, with the first write. The client gets no answer to that.

    applied: once the server has answered. Otherwise the server is frozen and has the request in its hands.
    """

    def __init__(self, server: Dev, applied: bool) -> None:
        self.server, self.applied, self.struck = server, applied, False
        self.keys: list[str | None] = []
        self.statuses: list[int] = []  # of the answers after that
        self.inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method != "GET":
            self.keys.append(request.headers.get("Idempotency-Key"))
            if not self.struck:
                self.struck = True
                self.strike(request)
        answer = self.inner.handle_request(request)
        if request.method != "GET":
            self.statuses.append(answer.status_code)
        return answer

    def strike(self, request: httpx.Request) -> None:
        if self.applied:
            answer = self.inner.handle_request(request)
            answer.read()
            assert answer.status_code == 201, answer.text
            self.server.kill()
        else:
            assert self.server.process is not None
            self.server.freeze()
            threading.Timer(0.3, self.server.kill).start()
            with pytest.raises(httpx.HTTPError):
                self.inner.handle_request(request)
            assert self.server.process.wait(30) == -signal.SIGKILL
        self.server.start()
        raise httpx.ReadError("the server was killed", request=request)

    def close(self) -> None:
        self.inner.close()


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "in hand"])
def test_one_call_outlives_its_server(tmp_path: Path, applied: bool) -> None:
    """The server dies with a write in its hands: the client sends it once more with the same key; it is applied once."""
    server = Dev(tmp_path / "data")
    server.start()
    try:
        for given in (None, "order-77"):
            way = Struck(server, applied)
            with Client(server.url, transport=way, retry=Retry(retries=60, first=0.05, most=0.5)) as client:
                made = client.schedule(delay="1h", payload={"holdId": "h_8c4"}, idempotency_key=given)
                assert way.struck and len(way.keys) >= 2
                assert len(set(way.keys)) == 1 and way.keys[0] and (given is None or way.keys[0] == given), way.keys
                assert made.created != applied, f"created is {made.created}; the answers were {way.statuses}"
                id = made.trigger_id
                await_("it is decided", lambda: client.get(id).state == "PENDING")
                await_("the history has it", lambda: any(True for _ in client.events(id)))
                types = [e.type for e in client.events(id)]
                assert types.count("trigger.registered") == 1 and "trigger.replaced" not in types, types
                assert client.get(id).revision == 1
    finally:
        server.stop()


class Dripping(BaseHTTPRequestHandler):
    """Sends a byte now and then: each of them is in time, and the answer never ends."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b" ")
                time.sleep(0.05)
        except OSError:  # the client has hung up
            pass

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("make", [Client, Synchronous], ids=["sync", "async"])
def test_timeout_is_of_the_whole_answer(make: Any) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = make(f"http://127.0.0.1:{server.server_port}", timeout=0.5, retry=Retry(retries=1, first=0, most=0))
    try:
        begin = time.monotonic()
        with pytest.raises(Unavailable) as raised:
            client.get("a")
        assert raised.value.attempts == 2 and 1 <= time.monotonic() - begin < 20
    finally:
        client.close()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("make", [Client, Synchronous], ids=["sync", "async"])
def test_an_answer_that_is_too_long(make: Any) -> None:
    """It is cut at max_answer, whatever its encoding makes of few bytes; one below it is read as before."""
    body = b'{"trigger_id":"a","state":"PENDING","payload":"%s"}'

    def answer(request: httpx.Request) -> httpx.Response:
        text = gzip.compress(body % (b" " * (2000 if request.url.path.endswith("long") else 700)))
        return httpx.Response(200, stream=httpx.ByteStream(text), headers={"Content-Encoding": "gzip"})

    client = make("http://test", transport=httpx.MockTransport(answer), max_answer=1000)
    try:
        assert client.get("a").state == "PENDING"
        with pytest.raises(ServerError) as raised:
            client.get("long")
        assert raised.value.attempts == 1 and "1000 bytes" in raised.value.detail
    finally:
        client.close()


class Endless(BaseHTTPRequestHandler):
    """Answers without an end. What is asked for says which."""

    def do_GET(self) -> None:
        self.answer(self.path.partition("?")[0].split("/")[3])

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(asked.get("trigger_id") or asked["code"])

    def answer(self, name: str) -> None:
        status, coding, first, rest = ENDLESS[name]
        self.send_response(status)
        if coding:
            self.send_header("Content-Encoding", coding)
        self.end_headers()
        try:
            self.wfile.write(first)
            while True:
                self.wfile.write(rest)
        except OSError:  # the client has hung up
            pass

    def log_message(self, *_: Any) -> None:
        pass


def zeros() -> tuple[bytes, bytes]:
    """The head of a gzip stream, and a piece to be repeated: of 64 KiB, each is 64 MiB of zeros."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    many = bytes(4 << 20)
    first, rest = (packer.compress(many) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first, rest * 16


PACKED, SPACES, LONG = zeros(), b" " * 65536, b"x" * 10_000
ENDLESS: dict[str, tuple[int, str, bytes, bytes]] = {  # status, encoding, the beginning, and what follows for ever
    "plain": (200, "", b"", SPACES), "bomb": (200, "gzip", *PACKED), "error": (500, "gzip", *PACKED),
    "twice": (200, "gzip, gzip", gzip.compress(PACKED[0] + PACKED[1] * 4), SPACES), "refused": (403, "gzip", *PACKED),
    "line": (200, "", b"data: ", SPACES), "lines": (200, "", b"", b"data: \n" * 8192),
    "behind": (200, "gzip", gzip.compress(b"{}"), SPACES),
    "letters": (200, "", b"", b'{"status":422,"code":"too_large","detail":"%s"}\n' % LONG),
    "progress": (200, "", b"", b'{"matched":1,"redriven":1,"done":false,"cursor":"%s"}\n' % LONG),
}


@pytest.fixture(scope="module")
def endless() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("make", [Client, Synchronous], ids=["sync", "async"])
@pytest.mark.parametrize(("kind", "name"), [
    ("get", "plain"), ("get", "bomb"), ("get", "twice"), ("get", "error"), ("follow", "refused"), ("follow", "line"),
    ("follow", "lines"), ("follow", "bomb"), ("redrive", "error"), ("redrive", "line"), ("redrive", "bomb"),
    ("redrive", "progress"), ("redrive", "refused"), ("redrive_all", "letters"), ("redrive_all", "refused"),
])
def test_answers_without_an_end(endless: str, make: Any, kind: str, name: str) -> None:
    """Of any answer no more is held than max_answer says, and a little for what is read and decoded at a time."""
    most = 1 << 20
    client = make(endless, max_answer=most, timeout=60)
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: client.get(name), "follow": lambda: list(client.events(name, follow=True)),
        "redrive": lambda: client.redrive(name), "redrive_all": lambda: list(client.redrive_all(code=name)),
    }
    status = ENDLESS[name][0]
    tracemalloc.start()
    try:
        with pytest.raises(ServerError) as raised:
            calls[kind]()
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        client.close()
    assert (raised.value.status, raised.value.attempts) == (status, 1)
    assert raised.value.maybe_applied == (kind.startswith("redrive") and status != 403)
    assert f"more than {most} bytes (max_answer)" in raised.value.detail
    assert used < 8 * most, f"{used >> 10} KiB"


@pytest.mark.parametrize("make", [Client, Synchronous], ids=["sync", "async"])
def test_bytes_behind_the_end_of_gzip(endless: str, make: Any) -> None:
    """They are no part of the answer, and may go on for ever: no time-out of a read ends them."""
    client = make(endless, timeout=60, retry=Retry(retries=0))
    try:
        with pytest.raises(Unavailable, match="behind the end of gzip"):
            client.get("behind")
    finally:
        client.close()


def test_long_streams_of_short_events() -> None:
    """The bound is of an event, and of what comes up to a progress: a stream may be as long as it likes."""
    event, progress = b":\n\nid: 1\ndata: {}\n\n", b'{"matched":1,"redriven":1,"done":false}\n'
    refused, last = b'{"status":422,"code":"too_large","detail":"cut"}\n', progress.replace(b"false", b"true")

    def serve(request: httpx.Request) -> httpx.Response:
        stream = event * 500 if request.method == "GET" else (refused + progress) * 500 + last
        return httpx.Response(200, stream=httpx.ByteStream(stream))

    with Client("http://test", transport=httpx.MockTransport(serve), max_answer=1000) as client:
        for n, _ in enumerate(client.events("a", follow=True)):
            if n == 499:
                break
        assert sum(len(p.refusals) for p in client.redrive_all(all_=True)) == 500
        with pytest.raises(ServerError, match="more than 1000 bytes"):  # all of it is held until its end
            client.redrive("a")
    with pytest.raises(ValueError, match="max_answer"):
        Client("http://test", max_answer=0)


def test_an_event_that_is_none_of_the_api() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b"data: {\n\n"))
    with Client("http://test", transport=transport) as client, pytest.raises(ServerError) as raised:
        list(client.events("a", follow=True))
    assert (raised.value.status, raised.value.attempts, raised.value.maybe_applied) == (200, 1, False)


def test_redrive_of_a_trigger_at_a_rate() -> None:
    bodies: list[Any] = []

    def serve(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(200, content=b'{"matched":0,"redriven":0,"done":true}\n')

    with Client("http://test", transport=httpx.MockTransport(serve)) as client:
        client.redrive("a", rate=10)
        client.redrive("a")
    assert bodies == [{"trigger_id": "a", "rate": 10}, {"trigger_id": "a"}]


def test_redrive_that_is_cut_off() -> None:
    """Without a last line that says done, redrive_all raises: it is to be repeated."""
    progress = b'{"looked_at":2,"matched":2,"redriven":1,"duplicate":0,"expired":0,"refused":1,"pending":0,"done":false}\n'
    refused = b'{"status":422,"code":"too_large","detail":"cut","trigger_id":"b"}\n'
    problem = b'{"status":503,"code":"unavailable","detail":"stopping"}\n'
    for text, kind in ((refused + progress, Unavailable), (progress + problem, Unavailable), (b"", Unavailable)):
        transport = httpx.MockTransport(lambda _, text=text: httpx.Response(200, content=text))
        with Client("http://test", transport=transport) as client, pytest.raises(kind):
            found = []
            for p in client.redrive_all(all_=True):
                found.append(p)
                assert p.redriven == 1
            pytest.fail(f"{found}")
    last = progress.replace(b"false", b"true")
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=refused + last))
    with Client("http://test", transport=transport) as client:
        [p] = client.redrive_all(all_=True)
    [error] = p.refusals
    assert p.done and isinstance(error, TooLarge) and error.trigger_id == "b"


def test_kafka_away() -> None:
    with KafkaClient("127.0.0.1:1", timeout=0.5, config={"log_level": 0}) as client, pytest.raises(NotWritten) as raised:
        client.cancel("a")
    assert raised.value.maybe_applied


class Refusing:
    """A broker that refuses every log-in."""

    def __init__(self) -> None:
        self.logins = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as requests:
            while len(size := requests.read(4)) == 4:
                request = requests.read(*struct.unpack(">i", size))
                answer = request[4:8] + self.answer(*struct.unpack(">hh", request[:4]))
                connection.sendall(struct.pack(">i", len(answer)) + answer)

    def answer(self, api: int, version: int) -> bytes:
        if api == 18:  # ApiVersions; for another version than 0, UNSUPPORTED_VERSION
            known = [(0, 0, 9), (3, 0, 9), (17, 0, 1), (18, 0, 0), (36, 0, 0)]
            return struct.pack(">hi", 35 if version else 0, len(known)) + b"".join(struct.pack(">hhh", *k) for k in known)
        if api == 17:  # SaslHandshake
            return struct.pack(">hih", 0, 1, 5) + b"PLAIN"
        assert api == 36, api
        self.logins += 1
        return struct.pack(">hh", 58, 4) + b"nope" + struct.pack(">i", 0)


def test_kafka_refuses_the_log_in() -> None:
    """A refused log-in raises at once, and not after the time-out as what nobody acknowledged. The next call tries anew."""
    brokers = Refusing()
    heard: list[object] = []
    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN", "sasl.username": "u",
              "sasl.password": "p", "log_level": 0, "error_cb": heard.append,
              "reconnect.backoff.ms": 60_000, "reconnect.backoff.max.ms": 60_000}  # no producer logs in twice
    with brokers.listener, KafkaClient(brokers.address, timeout=5, config=config) as client:
        for known in (False, True):
            before = brokers.logins
            with pytest.raises(Unauthenticated, match="nope") as raised:
                client.cancel("a")
            assert (raised.value.code, raised.value.maybe_applied) == ("unauthenticated", False)
            # The client logs in as soon as it is made. What is refused before the first call begins is tried anew by it.
            assert brokers.logins == before + 1 if known else brokers.logins in (1, 2)
    assert heard, "the caller's own error_cb is called too"


def test_all_kafka_brokers_refuse_the_log_in() -> None:
    both = Refusing(), Refusing()
    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN", "sasl.username": "u",
              "sasl.password": "p", "log_level": 0}
    addresses = ",".join(b.address for b in both)
    with both[0].listener, both[1].listener, KafkaClient(addresses, timeout=20, config=config) as client:
        with pytest.raises(Unauthenticated, match="nope"):
            client.cancel("a")
    assert both[0].logins and both[1].logins


@pytest.mark.parametrize("errors, refused, doubt", [
    ("refused", False, False),  # one broker of three: the others may have the messages
    ("refused down", True, False),
    ("handshake down", True, False),
    ("down up refused", False, False),  # all have come back, and then one refuses: librdkafka does not say so
    ("down refused", True, True),  # there was a connection before, and what was sent over it may be applied
    ("refused acked down", False, True),
    ("token down", False, False),  # no broker was asked, and the token before may still be good
])
def test_kafka_refusals(monkeypatch: pytest.MonkeyPatch, errors: str, refused: bool, doubt: bool) -> None:
    """Which errors of librdkafka end a session."""
    made: dict[str, Any] = {}

    def list_topics(timeout: float) -> None:
        assert 0 < timeout <= 1
        if "up" not in made:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    producer = SimpleNamespace(poll=lambda seconds: None, purge=lambda **what: made.update(purged=True),
                               list_topics=list_topics)
    monkeypatch.setattr(kafka, "Producer", lambda config: made.update(config) or producer)
    session = kafka._Session({})
    authentication, broker = KafkaError._AUTHENTICATION, "sasl_ssl://b1:9092/1: "
    all_of_them = {
        "refused": KafkaError(authentication, broker + "SASL authentication error: nope (after 4ms in state AUTH_REQ)"),
        "handshake": KafkaError(authentication, broker + "SASL SCRAM-SHA-512 mechanism handshake failed: Broker: "
                                "Unsupported SASL mechanism: broker's supported mechanisms: PLAIN"),
        "token": KafkaError(authentication, "Failed to acquire SASL OAUTHBEARER token: 503"),
        "down": KafkaError(KafkaError._ALL_BROKERS_DOWN, "3/3 brokers are down"),
    }
    for name in errors.split():
        if name == "acked":
            session.acked()
        elif name == "up":
            made["up"] = True
        else:
            made["error_cb"](all_of_them[name])
    session.poll(0)
    assert (session.refused, "purged" in made) == (refused, refused)
    error = session.failed("t", KafkaError(KafkaError._PURGE_QUEUE))
    assert isinstance(error, Unauthenticated) == refused
    assert not refused or error.maybe_applied == doubt


def test_values_of_python() -> None:
    at = datetime(2060, 1, 5, 9, tzinfo=UTC)
    assert model.body({
        "delay": timedelta(minutes=7), "fire_at": at, "start": datetime(2060, 1, 5, 9), "exclude": [at.date(), at],
        "payload": b"\x00\xff", "jitter": timedelta(milliseconds=1500), "user_id": None,
        "callback": {"url": "https://x", "timeout": timedelta(seconds=5), "retry": [timedelta(seconds=10), "30s"]},
        "escalation": [{"channel": "push"}, {"after": timedelta(minutes=5), "channel": "sms"}],
    }) == {
        "delay": "420s", "fire_at": "2060-01-05T09:00:00Z", "start": "2060-01-05T09:00:00",
        "exclude": ["2060-01-05", "2060-01-05T09:00:00Z"], "payload_base64": "AP8=", "jitter": "1500ms",
        "callback": {"url": "https://x", "timeout": "5s", "retry": ["10s", "30s"]},
        "escalation": [{"channel": "push"}, {"after": "300s", "channel": "sms"}],
    }
    # Rounded up to whole milliseconds, as in the other clients: never early, and never 0 for a wait.
    assert [model.duration(timedelta(microseconds=us)) for us in (1, 1_500, 1_999_001, 0)] == ["1ms", "2ms", "2s", "0s"]
    # An instant keeps its microseconds: the server rounds them up, and cut off they would make it fire early.
    assert [model.instant(datetime(2060, 1, 5, 9, 0, 0, us, zone)) for us in (0, 1, 500_000) for zone in (UTC, None)] == [
        "2060-01-05T09:00:00Z", "2060-01-05T09:00:00", "2060-01-05T09:00:00.000001Z", "2060-01-05T09:00:00.000001",
        "2060-01-05T09:00:00.500000Z", "2060-01-05T09:00:00.500000",
    ]


def test_batch_of_too_many() -> None:
    """Several requests would have several outcomes, of which an exception could tell one."""
    with Client("http://127.0.0.1:1") as client, pytest.raises(TooLarge) as raised:
        client.batch({"delay": "1h"} for _ in range(10_001))
    assert raised.value.attempts == 0 and client.batch([]) == []


def test_revision_below_one() -> None:
    """The revision of a write that was not decided is None or 0. As a condition 0 would be none."""
    calls: list[Any] = [
        lambda c: c.cancel("a", if_revision=0), lambda c: c.snooze("a", for_="1m", if_revision=-1),
        lambda c: c.schedule("a", {"delay": "1h"}, if_revision=0), lambda c: c.update("a", {}, if_revision=0),
        lambda c: c.batch([{"op": "cancel", "id": "a", "if_revision": 0}]),
    ]
    with Client("http://127.0.0.1:1") as client:
        for call in calls:
            with pytest.raises(InvalidRequest) as raised:
                call(client)
            assert raised.value.field == "if_revision" and raised.value.attempts == 0


def test_receive() -> None:
    """An envelope and a raw body, verified and read."""
    import base64
    import hashlib
    import hmac

    key, now = b"k" * 24, 1_800_000_000
    secret = "whsec_" + base64.b64encode(key).decode()

    def signed(body: bytes) -> dict[str, str]:
        mac = hmac.new(key, f"m1.{now}.".encode() + body, hashlib.sha256).digest()
        return {"Webhook-Id": "m1", "Webhook-Timestamp": str(now), "X-Trigger-Id": "hold%2D1", "X-Trigger-Attempt": "2",
                "Webhook-Signature": "v1," + base64.b64encode(mac).decode()}

    body = b'{"triggerId":"hold-1","payload":{"a":1}}'
    got = webhook.receive(secret, signed(body), body, now=now)
    assert (got.id, got.trigger_id, got.attempt, got.payload) == ("m1", "hold-1", 2, {"a": 1})
    body = b'{"triggerId":"hold-1","payload_base64":"AP8="}'
    assert webhook.receive(secret, signed(body), body, now=now).payload == b"\x00\xff"
    got = webhook.receive([secret], signed(b"raw"), b"raw", now=now)
    assert (got.trigger_id, got.payload) == ("hold-1", b"raw")
    deep = b"[" * 100_000  # no parser reads it, and it is signed
    assert webhook.receive(secret, signed(deep), deep, now=now).payload == deep


def test_handlers_can_be_tested() -> None:
    """worker.example makes an event, worker.call calls a handler as the worker does."""
    event = worker.example("acme/pills", {"title": "Take pills"}, attempt=2, user="u_81", tags={"type": "care"},
                           headers={"x-one": "1"})
    assert (event.tenant, event.trigger_id, event.attempt, event.user) == ("acme", "pills", 2, "u_81")
    assert event.json() == {"title": "Take pills"} and event.tags == {"type": "care"}
    assert event.header("x-one") == b"1" and event.id.startswith("acme/pills@") and not event.cancelled

    def handle(e: worker.DueEvent) -> worker.Result:
        return worker.Delivered() if e.json()["title"] else worker.Fail()

    assert worker.call(handle, event) == worker.Delivered()
    assert worker.call(handle, worker.example(payload=b"no JSON")).outcome == worker.Outcome.RETRY
